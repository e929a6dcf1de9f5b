//! Requests: what leaves, whether the provider takes it, what it costs, and what comes back.

use super::{Asked, Event, FIRST_BYTE_MS, Outcome, Taken, World};
use crate::sabotage::Saboteur;
use crate::sent::{Cut, Sent};
use fold_invariants::Broken;
use fold_invariants::owed::Arm;
use fold_invariants::reference;
use fold_invariants::window::{Cause, Change, follows, no_notice};
use fold_models::agent::{Answer, Aside, Density, IdStyle, Op, Reply, Stop, Trouble, body};
use fold_models::cache::Served;
use fold_models::price::Used;
use fold_models::provider::{Refusal, usage, usage_json};
use fold_models::shown::{Shown, name_of_model};
use fold_runtime::session::{Moment, OverFence};
use sha2::Digest as _;
use std::collections::BTreeSet;
use std::sync::Arc;

impl World<'_> {
    /// Sends the window. `None` where the session ends here.
    pub(super) fn request(&mut self) -> Outcome<Option<Taken>> {
        if self.arm.folds() && !self.may_leave()? {
            return Ok(None);
        }
        let mut again = 0;
        loop {
            let taken = self.send()?;
            if self.fails_to_answer(taken)? {
                return Ok(None);
            }
            let tokens = taken.prompt;
            let Err(refusal) = self.admit(tokens) else {
                self.admits(taken);
                return Ok(Some(taken));
            };
            self.probes.hit("request refused for its size");
            self.last_read = (0, 0);
            self.note = format!("{}refused: {tokens} tokens; ", self.note);
            if !refusal.is_overflow() {
                // Pi knows no overflow in these words, and nothing passing: the turn ends with them.
                self.fails_with(&refusal.to_string(), 0);
                self.turn_end()?;
                return Ok(None);
            }
            if !self.recover_from(&refusal.to_string(), again == 0)? {
                self.explain(format!("{tokens} tokens in a window of {}", self.model.context_window));
                self.stopped += 1;
                if !self.arm.folds() || self.recorded || self.stopped > 2 {
                    self.stop("the window is full")?;
                }
                return Ok(None);
            }
            if self.person_aborts() {
                self.probes.hit("retry given up for a person's abort");
                self.abort();
                return Ok(None);
            }
            again += 1;
            if again > 1 {
                return Err(Broken::new("progress", "one retry of a request that was refused for its size", "a second one"));
            }
        }
    }

    /// A request was taken.
    pub(super) fn admits(&mut self, taken: Taken) {
        let Taken { prompt, served } = taken;
        self.admitted = (self.admitted.0 + prompt, self.admitted.1 + served.read, self.admitted.2 + served.written);
        (self.stopped, self.failed) = (0, 0);
        let [requests, read, all] = self.report.classes.entry(self.class).or_insert([0; 3]);
        (*requests, *read, *all) = (*requests + 1, *read + served.read, *all + prompt);
    }

    /// What came before the request that leaves now, in the classes that published ledgers have.
    fn classify(&self, rewrites: bool) -> &'static str {
        let ours = self.changes.iter().map(|change| change.cause).filter(|cause| cause.is_ours()).min();
        let looked = self.host.window().last().is_some_and(|shown| shown.facts.tool.as_bytes() == b"pi_fold_context");
        match ours.filter(|_| rewrites) {
            Some(Cause::Commit) => "after-fold",
            Some(Cause::Expand | Cause::Refold) => "after-expand",
            _ if looked => "after-peek",
            Some(_) => "after-peek",
            None if rewrites => "after the host's doing",
            None if self.host.last_request().is_empty() => "first",
            None => "after-message",
        }
    }

    /// What the provider says to a request of so many tokens, on the wire of the model in force.
    fn admit(&mut self, tokens: u64) -> Result<(), Refusal> {
        let wire = self.voice.wire();
        if self.refuses() {
            self.refusals -= 1;
            let too_large = self.too_large;
            self.too_large &= self.refusals > 0;
            self.faults.insert(if too_large { Trouble::TooLarge.name() } else { "provider: overflow" });
            return Err(if too_large { Refusal::TooLarge { wire } } else { self.model.overflow(wire, tokens) });
        }
        self.model.admit(wire, tokens)
    }

    /// Whether the provider refuses the next request whatever it holds.
    fn refuses(&self) -> bool {
        self.arm.folds() && self.refusals > 0
    }

    /// Whether a person stops the answer that is asked for.
    fn person_aborts(&self) -> bool {
        !self.recorded && matches!(self.plan.ops.get(self.step), Some(Op::Answer(answer)) if answer.stop == Stop::Aborted)
    }

    /// A run is stopped before anything came.
    fn abort(&mut self) {
        let aborted = Answer { salt: 0, thinking_bytes: 0, text_bytes: 0, stop: Stop::Aborted, ids: IdStyle::Fresh, calls: Vec::new(), aside: None };
        let mut buffer = String::new();
        body::assistant(&aborted, &[], self.voice, &usage_json(&usage(0, 0, 0, 0)), self.now, &mut buffer);
        self.message(&buffer);
        self.aborted = true;
    }

    /// The last moment before a request leaves: what came since the last boundary may need room, and what finds none must not be sent.
    fn may_leave(&mut self) -> Outcome<bool> {
        let commits = self.report.commits;
        loop {
            let fate = (self.crash, self.drops);
            self.boundary(Moment::Request)?;
            if fate == (self.crash, self.drops) {
                break;
            }
            // The process died, or somebody dropped its entries: who sends the request is asked again.
        }
        self.probes.when("commit before a request", self.report.commits > commits);
        if self.saboteur.as_ref().is_some_and(Saboteur::sends_all_the_same) || self.over_the_fence().is_none() {
            return Ok(true);
        }
        // Nothing of ours makes room: Pi's own compaction is let through.
        if self.lets_host_compact(Moment::Request)? {
            self.compact(true)?;
        }
        let Some(refused) = self.over_the_fence() else {
            self.probes.hit("compaction where nothing else makes room");
            return Ok(true);
        };
        self.probes.hit("request stopped by the fence");
        self.note = format!("{}not sent: about {} tokens; ", self.note, refused.estimate);
        self.explain(self.without_room(&refused));
        self.stopped += 1;
        // A person tries again, takes another model or goes back; nobody tries for ever.
        if self.recorded || self.stopped > 2 {
            return self.stop("the window is full").map(|()| false);
        }
        // The host aborts the run; the turn ends as every other.
        self.abort();
        self.boundary(Moment::TurnEnd)?;
        Ok(false)
    }

    fn over_the_fence(&self) -> Option<OverFence> {
        self.session.as_ref()?.fence().err()
    }

    /// No request leaves that the runtime itself takes for too large; none that is too large while the estimate is within its margin.
    fn within_the_fence(&mut self, tokens: u64) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let (estimate, margin) = (session.occupancy(), session.margin());
        if self.suspended {
            // Nothing of ours stops a request, and Pi recovers from what is refused.
            return Ok(());
        }
        if session.band().over_fence(estimate, margin) {
            return Err(Broken::new("fence", "no request over the fence is sent", format!("one of about {estimate} tokens")));
        }
        let window = session.band().window;
        if tokens > window && tokens <= estimate.saturating_add(margin) {
            let seen = format!("one of {tokens}, estimated at {estimate} give or take {margin}");
            return Err(Broken::new("fence", format!("no request above the window of {window}"), seen));
        }
        Ok(())
    }

    pub(super) fn send(&mut self) -> Outcome<Taken> {
        if self.aborted {
            return Err(Broken::new("progress", "nothing of ours goes on with a run that was stopped", "a request"));
        }
        let rewrites = self.host.first_change() < self.host.last_request().len();
        let before: Vec<Arc<Shown>> = if rewrites { self.host.last_request().to_vec() } else { Vec::new() };
        self.class = self.classify(rewrites);
        let request = self.host.request();
        self.keep_request(request.first_change);
        follows(&before, self.host.window(), request, &self.changes)?;
        if self.deep && self.probes.count("notice given") == 0 {
            no_notice(self.host.window(), &self.settings)?;
        }
        self.count_rewrite(rewrites, request.first_change);
        if rewrites {
            self.count_reasoning(request.first_change);
        }
        let tokens_model = self.host.token_model().clone();
        self.chain.update(self.host.window(), request.first_change, &tokens_model);
        self.validate()?;
        self.committed.clear();
        self.changes.clear();
        let tokens = self.chain.tokens();
        self.within_the_fence(tokens)?;
        let unread = self.refuses() || self.turned_away() || tokens > self.model.context_window;
        let first_byte = self.now + FIRST_BYTE_MS;
        let served = if unread { Served::default() } else { self.cache.serve(&self.chain, self.now, first_byte) };
        if let Some(meters) = self.meters.as_mut().filter(|_| !unread) {
            meters.request(&self.chain, self.now, first_byte);
        }
        if let Some(asked) = &mut self.asked {
            asked.push(Asked { entries: self.host.branch().len(), at_ms: self.now, output: 0 });
        }
        self.trace.update([self.chain.links().last().map_or(0, |link| link.hash), tokens, served.read].map(u64::to_le_bytes).concat());
        self.last_read = (served.read, tokens - served.read.min(tokens));
        Ok(Taken { prompt: tokens, served })
    }

    /// Keeps the request that is sent now, if somebody wants to know.
    fn keep_request(&mut self, from: usize) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let session = self.hosts - 1;
        let known = if recorder.known.0 == session { recorder.known.1 } else { 0 };
        let (reserve, keep, window) = (self.reserve(), self.keep(), self.model.context_window);
        let cut = self.host.plan_compaction(keep);
        recorder.sent.push(Sent {
            session,
            written: self.host.journal()[known..].to_vec(),
            leaf: self.host.leaf().map(|leaf| leaf.id().to_owned()),
            settings: recorder.settings.clone(),
            window,
            from,
            messages: self.host.window()[from..].to_vec(),
            estimate: self.host.estimate(),
            reserve,
            compacts: self.host.over_threshold(window, reserve),
            keep,
            cut: cut.map(|cut| Cut { first_kept: cut.first_kept, history: cut.history.len(), turn_prefix: cut.turn_prefix.len() }),
        });
        recorder.known = (session, self.host.journal().len());
        self.recorder = Some(recorder);
    }

    pub(super) fn count_rewrite(&mut self, rewrites: bool, first_change: usize) {
        self.rewritten = rewrites && self.changes.iter().all(|change| change.cause != Cause::Navigation);
        if !rewrites {
            self.probes.hit("request after appends");
            return;
        }
        // A commit outweighs whatever else the runtime did.
        let ours = self.changes.iter().map(|change| change.cause).filter(|cause| cause.is_ours()).min();
        let hosts = self.changes.iter().find(|change| !change.cause.is_ours());
        let name = match (ours, hosts) {
            (Some(ours), None) => ours.name(),
            (Some(_), Some(_)) => "runtime and host",
            (None, hosts) => hosts.map_or("nobody", |change| change.cause.name()),
        };
        let ours = ours.is_some();
        self.probes.when("rewrite by a commit", name == "commit");
        self.probes.when("rewrite by masking", name == "mask");
        self.probes.when("rewrite by both", name == "runtime and host");
        self.probes.when("rewrite by the host", !ours);
        *self.report.rewrites.entry(name).or_insert(0) += 1;
        self.note = format!("{}rewritten by {name} from message {first_change} on; ", self.note);
        if let Some((at, appended_then)) = self.unsent_commit.take() {
            let prefix: u64 = self.host.window()[..first_change].iter().map(|shown| shown.tokens).sum();
            let appended = self.appended - appended_then;
            let detail = &mut self.report.commits_in_detail[at];
            detail.resent = self.host.message_tokens().saturating_sub(prefix + appended);
        }
    }

    /// Reasoning that the provider drops because of a rewrite. Where a person goes to another branch, its answers were given behind what
    /// stands there.
    fn count_reasoning(&mut self, first_change: usize) {
        if self.changes.iter().any(|change| change.cause == Cause::Navigation) {
            return;
        }
        let (wire, own, window) = (self.voice.wire(), name_of_model(&self.model.name.as_str().into()), self.host.window());
        let lost = self.reasoning.rewritten(wire, own, window, first_change, self.host.token_model());
        self.report.reasoning_lost += lost;
        if lost > 0 {
            self.note = format!("{}{lost} tokens of reasoning lost; ", self.note);
        }
    }

    /// What a host does about a refused request; whether it asks again. Pi itself compacts and tries again once.
    pub(super) fn recover_from(&mut self, error: &str, first: bool) -> Outcome<bool> {
        self.fails_with(error, 0);
        let id = self.host.leaf().map_or(String::new(), |leaf| leaf.id().to_owned());
        let at = self.host.branch().len() - 1;
        if self.host.omit_attempt(&id).is_ok() {
            self.changes.push(Change { cause: Cause::HostOmit, targets: Some(BTreeSet::from([at])) });
        }
        match self.arm {
            Arm::None => Ok(false),
            Arm::Native | Arm::NativeStore | Arm::Mask => self.compact_once(first),
            Arm::Fold | Arm::FoldBriefs | Arm::FoldStore | Arm::FoldOnce | Arm::FoldImmediate => {
                let asked_again = self.boundary(Moment::Refused)?;
                self.probes.when("request sent again after an overflow", asked_again);
                if asked_again || !self.lets_host_compact(Moment::Refused)? {
                    return Ok(asked_again);
                }
                let compacted = self.compact_once(first)?;
                self.probes.when("compaction after an overflow", compacted && !self.suspended);
                Ok(compacted)
            }
        }
    }

    /// Whether the host's own compaction, which asks at this moment, is let through: where nothing of ours makes room, and nowhere else.
    fn lets_host_compact(&mut self, moment: Moment) -> Outcome<bool> {
        let Some(session) = &self.session else { return Ok(false) };
        let honest = session.lets_host_compact(moment);
        let lets = self.saboteur.as_ref().map_or(honest, |saboteur| saboteur.lets_host_compact(honest));
        let (settings, window) = (&self.settings, self.model.context_window);
        let makes_room = moment != Moment::Refused && session.fence().is_ok();
        let expected = if self.deep && !self.without_reference {
            reference::lets_host_compact(self.host.branch(), settings, window, moment, self.suspended)
        } else if self.suspended || makes_room {
            self.suspended
        } else {
            lets
        };
        if lets == expected {
            return Ok(lets);
        }
        let what = |lets: bool| format!("the host's own compaction {} at {moment:?}", if lets { "let through" } else { "held back" });
        Err(Broken::new("fence", what(expected), what(lets)))
    }

    fn compact_once(&mut self, first: bool) -> Outcome<bool> {
        let before = self.host.branch().len();
        if first {
            self.compact(true)?;
        }
        Ok(self.host.branch().len() > before)
    }

    pub(super) fn answered(&mut self, op: usize, taken: Taken) -> Outcome {
        let Op::Answer(answer) = &self.plan.ops[op] else { return Ok(()) };
        let failed = matches!(answer.stop, Stop::Error | Stop::Aborted);
        self.aborted = answer.stop == Stop::Aborted;
        let output = if failed { 0 } else { spoken(answer) * 1_000 / self.density() };
        self.faults.extend(answer.stop.fault());
        if let Some(meters) = &mut self.meters {
            meters.answered(taken.prompt, output);
        }
        if let Some(last) = self.asked.as_mut().and_then(|asked| asked.last_mut()) {
            last.output = output;
        }
        self.bill(taken.used(output));
        let reported = if failed || !self.reports_usage { usage(0, 0, 0, 0) } else { taken.usage(output) };
        // What an empty answer cost is no measurement: the host does not send it again.
        let empty = answer.text_bytes + answer.thinking_bytes == 0 && answer.calls.is_empty();
        self.reported = (reported.total > 0 && !empty).then_some(reported.total).or(self.reported.filter(|_| failed || empty));
        if reported.total > 0 && !empty {
            self.reported_at = self.appended;
        }
        let ids = body::call_ids(answer, self.answers);
        self.answers += 1;
        let mut buffer = String::new();
        body::assistant(answer, &ids, self.voice, &usage_json(&reported), self.now, &mut buffer);
        self.message(&buffer);
        self.queue.after(50 + answer.salt % 3_000 * u64::from(!answer.calls.is_empty()), Event::Ran(op));
        Ok(())
    }

    pub(super) fn bill(&mut self, used: Used) {
        let cost = self.price.cost(used);
        self.report.totals.add(used, cost);
        self.report.peak = self.report.peak.max(used.fresh + used.cached + used.written);
        if let Some(session) = &self.session {
            self.report.index_bytes += u128::from(session.index_bytes());
            self.report.window_bytes += u128::from(session.shown().bytes);
        }
    }

    /// The tools have run: their results, then the turn's end.
    pub(super) fn ran(&mut self, op: usize) -> Outcome {
        let Op::Answer(answer) = &self.plan.ops[op] else { return Ok(()) };
        let ids = body::call_ids(answer, self.answers - 1);
        let mut buffer = String::new();
        match &answer.aside {
            Some(Aside::Bash(text)) => {
                body::bash(*text, false, self.now, &mut buffer);
                self.message(&buffer);
            }
            Some(Aside::Custom(text)) => {
                body::custom(*text, &mut buffer);
                self.append("custom", &buffer);
            }
            None => {}
        }
        if !matches!(answer.stop, Stop::Error | Stop::Aborted) {
            let mut results = Vec::new();
            for (call, id) in answer.calls.iter().zip(&ids) {
                let given = if let Reply::Given(outcome) = &call.reply { Some(outcome.text) } else { None };
                body::tool_results(call, id, self.now, &mut buffer, &mut |message| results.push((message.to_owned(), given)));
            }
            for (message, given) in results {
                self.message(&message);
                given.into_iter().for_each(|text| self.plant(text));
            }
        }
        self.turn_end()
    }

    pub(super) fn turn_end(&mut self) -> Outcome {
        match self.arm {
            Arm::None => Ok(()),
            Arm::Fold | Arm::FoldBriefs | Arm::FoldStore | Arm::FoldOnce | Arm::FoldImmediate => {
                let commits = self.report.commits;
                let asked_again = self.boundary(Moment::TurnEnd)?;
                self.probes.when("commit after a person's abort", self.aborted && self.report.commits > commits);
                // A host does what it is asked to; at a turn's end it is asked nothing.
                if asked_again {
                    self.send()?;
                }
                self.tends_as_the_arm_does()?;
                if self.host_asks() {
                    let (suspended, before) = (self.suspended, self.host.branch().len());
                    let lets = self.lets_host_compact(Moment::TurnEnd)?;
                    self.probes.hit(if lets { "compaction let through at a turn's end" } else { "compaction held back at a turn's end" });
                    if lets {
                        self.compact(true)?;
                    }
                    self.probes.when("compaction while suspended", suspended && self.host.branch().len() > before);
                }
                self.save()
            }
            Arm::Mask => self.mask_turn_end(),
            Arm::Native | Arm::NativeStore if self.host_asks() => self.compact(true),
            Arm::Native | Arm::NativeStore => Ok(()),
        }
    }

    /// What a request holds, and the room that the fence leaves it.
    fn without_room(&self, refused: &OverFence) -> String {
        let OverFence { estimate, margin, budget, window, .. } = *refused;
        let answer = self.session.as_ref().map_or(0, |session| session.band().answer_room());
        let room = window.saturating_sub(answer + margin).min(budget);
        format!(
            "about {estimate} tokens where {room} may leave: the window of {window} keeps {answer} for an answer and {margin} for the estimate's error"
        )
    }

    /// Why the request, which would hold so much, could not leave, for a person.
    fn explain(&mut self, held: String) {
        let largest = self.host.window().iter().max_by_key(|shown| shown.tokens);
        let what = largest.map_or(String::new(), |shown| format!("; the largest entry in it is {} with {} tokens", shown.source.id(), shown.tokens));
        self.explained = Some(format!(
            "request {} would hold {held}{}{what}. A larger --budget replays further",
            self.report.totals.requests + 1,
            match self.arm {
                arm if arm.folds() => ", and nothing ripe makes room",
                Arm::None => ", and this arm makes no room",
                _ => ", and there is nothing to compact",
            }
        ));
    }

    /// Thousandths of a byte per token of what the model writes.
    pub(super) fn density(&self) -> u64 {
        if let Density::Constant(milli) = self.plan.world.density { milli } else { 4_000 }
    }
}

/// Bytes the model itself writes in an answer: reasoning, prose, and calls with the names and paths in them.
fn spoken(answer: &Answer) -> u64 {
    answer.thinking_bytes + answer.text_bytes + answer.calls.iter().map(|call| call.argument_bytes + 40).sum::<u64>()
}
