//! One session of one arm.
//!
//! The plan says what happens; the host writes it, the provider counts and refuses, the cache reads, and at each turn's end the arm
//! may append. Time passes in the event queue only. After every step the checks look at the journal and at the requests. The
//! first broken invariant ends the session: what follows a fault proves nothing.

use crate::replay::Recording;
use crate::report::{Report, Rewrite, Run, Violation};
use crate::sabotage::Saboteur;
use fold_invariants::Broken;
use fold_invariants::commit::{Commit as Written, Folds};
use fold_invariants::owed::{Arm, owes};
use fold_invariants::probes::Probes;
use fold_invariants::reference::{self, Verdict};
use fold_invariants::window::{Cause, Change, follows};
use fold_models::agent::{Answer, Aside, Density, Model, Op, Plan, Profile, Stop, body};
use fold_models::cache::{OpenAiCache, Rules};
use fold_models::clock::EventQueue;
use fold_models::host::{Host, KEEP_RECENT, RESERVE, Summarize, from_scratch};
use fold_models::price::{Prices, Row, Used};
use fold_models::provider::{self, usage, usage_json};
use fold_models::shown::{Role as ShownRole, Shown};
use fold_models::store::MemoryStore;
use fold_models::tokens::TokenModel;
use fold_models::wire::{Chain, Rule, WireError, validate};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::ports::Provider;
use fold_runtime::session::{COMMIT_RECORD, Commit, Decision, Draft, Session};
use fold_runtime::window::Size;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// 2026-01-01, the first moment of every session.
const START_MS: u64 = 1_767_225_600_000;

static PRICES: LazyLock<Prices> = LazyLock::new(Prices::bundled);

/// What happens next.
enum Event {
    /// The next operation of the plan.
    Op(usize),
    /// The answer of that operation is there.
    Answered { op: usize, prompt: u64, read: u64 },
    /// Its tools have run.
    Ran(usize),
}

/// A step as a person can read it.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The operation, counted from 0, and its name.
    pub op: usize,
    /// See `op`.
    pub name: &'static str,
    /// Milliseconds since the session's start.
    pub ms: u64,
    /// Messages in the window and their true tokens, overhead included.
    pub messages: usize,
    /// See `messages`.
    pub tokens: u64,
    /// What the runtime thinks it is, and how far off that may be.
    pub occupancy: u64,
    /// See `occupancy`.
    pub margin: u64,
    /// Cuts that wait, folds that stand in the window.
    pub marks: usize,
    /// See `marks`.
    pub roots: usize,
    /// Tokens read from the cache and read anew by the step's request.
    pub cached: u64,
    /// See `cached`.
    pub fresh: u64,
    /// Cost so far, in nano-dollars.
    pub nano_dollars: u64,
    /// What the boundary decided, what rewrote the window, why the session ended.
    pub note: String,
}

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A planted bug.
    pub sabotage: Option<crate::sabotage::Sabotage>,
    /// Whether to keep every step.
    pub trace: bool,
}

/// Runs a plan through an arm.
///
/// # Errors
/// A sentence when the plan cannot be run at all: settings that are refused, a budget too small.
pub fn run(plan: &Plan, arm: Arm, options: Options) -> Result<(Run, Vec<Step>), String> {
    let mut world = World::new(plan, arm, options)?;
    let outcome = world.play();
    let steps = std::mem::take(&mut world.steps);
    Ok((world.finish(outcome), steps))
}

/// Re-issues a recorded conversation through an arm.
///
/// # Errors
/// A sentence when the budget is too small, or an entry cannot be written again.
pub fn replay(recording: &Recording, budget: u64, arm: Arm) -> Result<(Run, Option<String>), String> {
    let plan = recording.plan(budget);
    let mut world = World::new(&plan, arm, Options::default())?;
    let outcome = world.re_issue(&recording.entries)?;
    let explained = world.explained.take();
    Ok((world.finish(outcome), explained))
}

struct World<'p> {
    plan: &'p Plan,
    arm: Arm,
    settings: Settings,
    host: Host,
    /// Hosts so far; each session has its number.
    hosts: u32,
    model: provider::Model,
    voice: Model,
    queue: EventQueue<Event>,
    now: u64,
    cache: OpenAiCache,
    chain: Chain,
    price: &'static Row,
    session: Option<Session>,
    /// Entries of the branch the runtime has seen.
    seen: usize,
    store: MemoryStore,
    folds: Folds,
    recovered: BTreeSet<String>,
    changes: Vec<Change>,
    commits_since_request: usize,
    /// Faults of requests that are the host's.
    excused: BTreeSet<(String, Rule)>,
    reports_usage: bool,
    /// The last reported total, while nothing has changed what is shown since, and what had been appended by then.
    reported: Option<u64>,
    reported_at: u64,
    answers: u64,
    step: usize,
    /// Checks that recompute everything are worth their time in this session.
    deep: bool,
    appended: u64,
    unsent_commit: Option<(usize, u64)>,
    sums: (u64, u64, u64),
    probes: Probes,
    report: Report,
    saboteur: Option<Saboteur>,
    trace: Sha256,
    keeps_steps: bool,
    steps: Vec<Step>,
    note: String,
    last_read: (u64, u64),
    ended: bool,
    /// Why the session ended early, at length.
    explained: Option<String>,
}

type Outcome<T = ()> = Result<T, Broken>;

impl<'p> World<'p> {
    fn new(plan: &'p Plan, arm: Arm, options: Options) -> Result<Self, String> {
        let settings = Settings::parse(&plan.settings.to_string()).map_err(|refused| refused.join("; "))?;
        refuse(plan)?;
        let tokens = match plan.world.density {
            Density::Constant(milli) => TokenModel::constant(milli, plan.world.overhead_tokens),
            Density::Drifting(salt) => TokenModel::new(salt, plan.world.overhead_tokens),
        };
        let model = provider::Model { name: name(plan.world.model), context_window: plan.window, max_output: 32_000 };
        let session = if arm == Arm::Fold { Some(Session::open(&[], &settings, model.context_window())?) } else { None };
        let mut queue = EventQueue::starting_at(START_MS);
        queue.at(START_MS, Event::Op(0));
        Ok(World {
            plan,
            arm,
            settings,
            host: Host::new(0, START_MS, tokens),
            hosts: 1,
            voice: plan.world.model,
            chain: Chain::new(&model.name, plan.world.overhead_tokens),
            model,
            queue,
            now: START_MS,
            cache: OpenAiCache::new(Rules { idle_ms: plan.world.cache_ttl_ms, ..Rules::IN_MEMORY }),
            price: PRICES.find("openai", "openai-chat", "gpt-5.5", "2026-11-30").ok_or("the price table has no gpt-5.5 on the Chat wire")?,
            session,
            seen: 0,
            store: MemoryStore::default(),
            folds: Folds::default(),
            recovered: BTreeSet::new(),
            changes: Vec::new(),
            commits_since_request: 0,
            excused: BTreeSet::new(),
            reports_usage: plan.world.reports_usage,
            reported: None,
            reported_at: 0,
            answers: 0,
            step: 0,
            deep: plan.profile == Profile::Swarm || plan.seed.is_multiple_of(10),
            appended: 0,
            unsent_commit: None,
            sums: (0, 0, 0),
            probes: Probes::default(),
            report: Report::default(),
            saboteur: options.sabotage.map(Saboteur::new),
            trace: Sha256::new(),
            keeps_steps: options.trace,
            steps: Vec::new(),
            note: String::new(),
            last_read: (0, 0),
            ended: false,
            explained: None,
        })
    }

    fn finish(mut self, outcome: Outcome) -> Run {
        let violation = outcome.err().map(|broken| Violation {
            invariant: broken.invariant,
            arm: self.arm.name(),
            step: self.step,
            expected: broken.expected,
            seen: broken.seen,
        });
        self.report.sessions = 1;
        self.report.costs = vec![self.report.totals.tiered];
        let digest = self.trace.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Run { arm: self.arm, report: self.report, probes: self.probes, violation, digest }
    }

    fn play(&mut self) -> Outcome {
        while let Some((now, event)) = self.queue.pop() {
            self.now = now;
            self.host.set_now(now);
            match event {
                Event::Op(op) if op < self.plan.ops.len() => {
                    self.step = op;
                    self.op(op)?;
                }
                Event::Op(_) => break,
                Event::Answered { op, prompt, read } => self.answered(op, prompt, read)?,
                Event::Ran(op) => {
                    self.ran(op)?;
                    self.next(op);
                }
            }
            if self.ended {
                break;
            }
        }
        self.end()
    }

    fn next(&mut self, op: usize) {
        self.keep_step(op);
        self.queue.after(200, Event::Op(op + 1));
    }

    fn op(&mut self, at: usize) -> Outcome {
        let mut buffer = String::new();
        match &self.plan.ops[at] {
            Op::Answer(answer) => {
                if let Some((prompt, read)) = self.request()? {
                    self.queue.after(800 + answer.salt % 4_000, Event::Answered { op: at, prompt, read });
                }
                return Ok(());
            }
            Op::User { text, images } => {
                body::user(*text, *images, self.now, &mut buffer);
                self.message(&buffer);
            }
            Op::Bash { text, excluded } => {
                body::bash(*text, *excluded, self.now, &mut buffer);
                self.message(&buffer);
            }
            Op::System { text } => {
                body::system(*text, self.now, &mut buffer);
                self.message(&buffer);
            }
            Op::Custom { text } => {
                body::custom(*text, &mut buffer);
                self.append("custom", &buffer);
            }
            Op::CustomMessage { text } => {
                body::custom_message(*text, &mut buffer);
                self.append("custom_message", &buffer);
            }
            Op::BranchSummary { text } => {
                body::summary(*text, &mut buffer);
                let from = self.host.leaf().map_or(String::new(), |leaf| leaf.id().to_owned());
                self.append("branch_summary", &format!("\"fromId\":\"{from}\",{buffer}"));
            }
            Op::Idle { ms } => {
                self.probes.when("commit after an idle time past the cache's", *ms > self.plan.world.cache_ttl_ms && self.report.commits > 0);
                self.keep_step(at);
                self.queue.after(*ms, Event::Op(at + 1));
                return Ok(());
            }
            Op::Compact { .. } => self.compact(false)?,
            Op::Resume => self.resume()?,
            Op::Fork { back } => self.fork(*back)?,
            Op::Tree { back } => self.tree(*back)?,
            Op::ModelSwitch { window_ppm, model } => self.switch(*window_ppm, *model)?,
            Op::ForeignEdit { back, omit, text } => {
                body::replacement(*text, *omit, &mut buffer);
                self.foreign_edit(*back, *omit, &buffer);
            }
            Op::SetUsage { reported } => self.reports_usage = *reported,
        }
        self.next(at);
        Ok(())
    }

    // ---- appending ------------------------------------------------------------------------------------------------------------------

    fn message(&mut self, body: &str) {
        self.append("message", &format!("\"message\":{body}"));
    }

    fn append(&mut self, kind: &str, fields: &str) {
        let before = self.host.message_tokens();
        self.host.append(kind, "", fields);
        self.appended += self.host.message_tokens().saturating_sub(before);
    }

    /// Lets the runtime see what the host has written.
    fn catch_up(&mut self) {
        let Some(session) = &mut self.session else { return };
        for entry in &self.host.branch()[self.seen..] {
            match self.saboteur.as_mut().and_then(|saboteur| saboteur.observed(entry)) {
                Some(other) => session.observe(&other),
                None => session.observe(entry),
            }
        }
        self.seen = self.host.branch().len();
    }

    fn tokens_now(&self) -> u64 {
        self.host.message_tokens() + self.plan.world.overhead_tokens
    }

    // ---- requests -------------------------------------------------------------------------------------------------------------------

    /// Sends the window. Gives the prompt's tokens and how many of them the cache had; `None` where the session ends here.
    fn request(&mut self) -> Outcome<Option<(u64, u64)>> {
        for attempt in 0..2 {
            let (tokens, read) = self.send()?;
            let refused = self.model.admit(tokens).err();
            let Some(overflow) = refused else { return Ok(Some((tokens, read))) };
            self.probes.hit("request refused for its size");
            self.last_read = (0, 0);
            self.note = format!("{}refused: {tokens} tokens; ", self.note);
            if attempt == 1 || !self.recover_from(&overflow.to_string())? {
                self.explain(tokens);
                return self.stop("the window is full").map(|()| None);
            }
        }
        Ok(None)
    }

    fn send(&mut self) -> Outcome<(u64, u64)> {
        let rewrites = self.host.first_change() < self.host.last_request().len();
        let before: Vec<Arc<Shown>> = if rewrites { self.host.last_request().to_vec() } else { Vec::new() };
        let request = self.host.request();
        follows(&before, self.host.window(), request, &self.changes)?;
        self.count_rewrite(rewrites, request.first_change);
        let tokens_model = self.host.token_model().clone();
        self.chain.update(self.host.window(), request.first_change, &tokens_model);
        self.validate()?;
        self.commits_since_request = 0;
        self.changes.clear();
        let tokens = self.chain.tokens();
        let read = if tokens > self.model.context_window { 0 } else { self.cache.request(&self.chain, self.now, self.now + 700) };
        self.trace.update([self.chain.links().last().map_or(0, |link| link.hash), tokens, read].map(u64::to_le_bytes).concat());
        self.last_read = (read, tokens - read.min(tokens));
        Ok((tokens, read))
    }

    fn count_rewrite(&mut self, rewrites: bool, first_change: usize) {
        if !rewrites {
            self.probes.hit("request after appends");
            return;
        }
        let ours = self.changes.iter().any(|change| change.cause == Cause::Commit);
        let hosts = self.changes.iter().find(|change| change.cause != Cause::Commit);
        let name = match (ours, hosts) {
            (true, None) => "commit",
            (true, Some(_)) => "commit and host",
            (false, hosts) => hosts.map_or("nobody", |change| change.cause.name()),
        };
        self.probes.when("rewrite by a commit", name == "commit");
        self.probes.when("rewrite by both", name == "commit and host");
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

    /// The request would be taken; where it would not, the host alone is at fault.
    fn validate(&mut self) -> Outcome {
        if !owes(self.arm, "wire_valid") {
            return Ok(());
        }
        self.probes.hit("request validated");
        let Err(error) = validate(self.host.window()) else { return Ok(()) };
        // Once the host's fault, a message stays it until we rewrite the window.
        let known = (error.entry.clone(), error.rule);
        if self.excused.contains(&known) || self.excuses(&error) {
            self.excused.insert(known);
            self.probes.hit("request the host alone made invalid");
            return Ok(());
        }
        Err(Broken::new(
            "wire_valid",
            "a request that the provider takes, or one that it would not take without our edits either",
            format!("{error}; {}", self.around(error.index)),
        ))
    }

    /// The messages around one, in short.
    fn around(&self, index: usize) -> String {
        let near = self.host.window().iter().enumerate().skip(index.saturating_sub(5)).take(8);
        let short = |(at, shown): (usize, &Arc<Shown>)| {
            let calls: Vec<String> = shown.facts.calls.iter().map(|call| call.id.to_string_lossy()).collect();
            let ours = if shown.facts.placeholder {
                " placeholder"
            } else if shown.facts.edited {
                " edited"
            } else {
                ""
            };
            let (role, entry, answers) = (shown.role, shown.source.id(), shown.facts.answers.to_string_lossy());
            format!("{at} {role:?} {entry} [{}{answers}]{ours}", calls.join(" "))
        };
        near.map(short).collect::<Vec<_>>().join(", ")
    }

    /// Whether the window without our edits is refused for the same thing.
    fn excuses(&self, error: &WireError) -> bool {
        if matches!(error.rule, Rule::EmptyEdit | Rule::AssistantLast | Rule::NoMessages) && !self.is_ours(&error.entry) {
            return true;
        }
        let window = from_scratch(&without_ours(self.host.branch()), self.host.token_model());
        let Some(at) = window.iter().position(|shown| shown.source.id() == error.entry) else { return false };
        // Judged alone: an earlier fault of the host's, which a fold may hide, must not cover for this one.
        let answer = (0..=at).rev().find(|&before| window[before].role == ShownRole::Assistant).unwrap_or(at);
        let end = (at + 1..window.len()).find(|&after| window[after].role != ShownRole::ToolResult).unwrap_or(window.len());
        validate(&window[answer..end]).is_err_and(|other| other.rule == error.rule && other.entry == error.entry)
    }

    fn is_ours(&self, entry: &str) -> bool {
        self.host.window().iter().any(|shown| shown.source.id() == entry && shown.facts.placeholder)
    }

    /// What a host does about a refused request; whether it is worth asking again.
    fn recover_from(&mut self, error: &str) -> Outcome<bool> {
        let failed = Answer {
            salt: 0,
            thinking_bytes: 0,
            text_bytes: 0,
            stop: Stop::Error,
            ids: fold_models::agent::IdStyle::Fresh,
            calls: Vec::new(),
            aside: None,
        };
        let mut buffer = String::new();
        body::assistant(&failed, &[], self.voice, &usage_json(&usage(0, 0, 0, 0)), self.now, &mut buffer);
        let buffer = buffer.replace("529 overloaded_error: Overloaded", error);
        self.message(&buffer);
        let id = self.host.leaf().map_or(String::new(), |leaf| leaf.id().to_owned());
        let at = self.host.branch().len() - 1;
        if self.host.omit_attempt(&id).is_ok() {
            self.changes.push(Change { cause: Cause::HostOmit, targets: Some(BTreeSet::from([at])) });
        }
        match self.arm {
            Arm::None => Ok(false),
            Arm::Native => {
                let before = self.host.branch().len();
                self.compact(true)?;
                Ok(self.host.branch().len() > before)
            }
            Arm::Fold => {
                let commits = self.report.commits;
                self.boundary()?;
                Ok(self.report.commits > commits)
            }
        }
    }

    fn answered(&mut self, op: usize, prompt: u64, read: u64) -> Outcome {
        let Op::Answer(answer) = &self.plan.ops[op] else { return Ok(()) };
        let failed = matches!(answer.stop, Stop::Error | Stop::Aborted);
        let output = if failed { 0 } else { spoken(answer) * 1_000 / self.density() };
        let used = Used { fresh: prompt - read, cached: read, written: 0, output };
        self.bill(used);
        let reported = if failed || !self.reports_usage { usage(0, 0, 0, 0) } else { usage(prompt, read, 0, output) };
        self.reported = (reported.total > 0).then_some(reported.total).or(self.reported.filter(|_| failed));
        if reported.total > 0 {
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

    fn bill(&mut self, used: Used) {
        let cost = self.price.cost(used);
        self.report.totals.add(used, cost);
        self.sums = (self.sums.0 + used.fresh + used.cached, self.sums.1 + used.output, self.sums.2 + cost.tiered);
        self.report.peak = self.report.peak.max(used.fresh + used.cached);
        if let Some(session) = &self.session {
            self.report.index_bytes += u128::from(session.index_bytes());
            self.report.window_bytes += u128::from(session.shown().bytes);
        }
    }

    /// The tools have run: their results, then the turn's end.
    fn ran(&mut self, op: usize) -> Outcome {
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
                body::tool_results(call, id, self.now, &mut buffer, &mut |message| results.push(message.to_owned()));
            }
            results.iter().for_each(|message| self.message(message));
        }
        self.turn_end()
    }

    fn turn_end(&mut self) -> Outcome {
        match self.arm {
            Arm::None => Ok(()),
            Arm::Fold => self.boundary(),
            Arm::Native => {
                // A person on a small window sets the reserve in proportion.
                let reserve = RESERVE.min(self.model.context_window / 5);
                if self.host.estimate().saturating_add(reserve) > self.model.context_window { self.compact(true) } else { Ok(()) }
            }
        }
    }

    // ---- the runtime ----------------------------------------------------------------------------------------------------------------

    fn boundary(&mut self) -> Outcome {
        self.catch_up();
        let Some(session) = &self.session else { return Ok(()) };
        let honest = session.boundary();
        let marks = session.marks();
        let band = session.band();
        let decision = match &mut self.saboteur {
            Some(saboteur) => saboteur.decides(honest, self.host.branch(), &self.settings, self.model.context_window),
            None => honest,
        };
        let commits = matches!(decision, Decision::Commit(_));
        if matches!(decision, Decision::Quiet) && self.reported.is_some_and(|total| total >= band.max_target) {
            return Err(Broken::new("band", "a commit or a reason at or above the trigger", "quiet"));
        }
        let by_band = matches!(&decision, Decision::Commit(commit) if commit.trigger == fold_runtime::session::Trigger::Band);
        // No estimate makes more than six tokens of one (2 to 12 bytes a token), or more than 1,200 of an image.
        let most = |total: u64| total + 6 * (self.appended - self.reported_at);
        if by_band && self.reported.is_some_and(|total| most(total) < band.max_target) {
            return Err(Broken::new(
                "band",
                format!("no commit below the trigger, {}", band.max_target),
                format!("one at {} tokens", self.tokens_now()),
            ));
        }
        // The first commit of a session, every eighth one after it, and a boundary now and then.
        let nth = self.report.commits;
        let due = if commits {
            nth == 0 || self.plan.seed.wrapping_add(nth).is_multiple_of(8)
        } else {
            (self.plan.seed ^ self.step as u64).is_multiple_of(128)
        };
        if self.deep && due {
            self.compare(&decision)?;
        }
        self.trace.update(match &decision {
            Decision::Quiet => "quiet",
            Decision::Deferred(deferral) => deferral.reason(),
            Decision::Commit(_) => "commit",
        });
        match decision {
            Decision::Quiet => {
                self.probes.when("boundary quiet with marks", marks > 0);
                let meddles = self.saboteur.as_mut().and_then(|saboteur| saboteur.meddles(self.host.branch(), marks));
                if let Some(draft) = meddles {
                    let _ = self.host.boundary(&[draft]);
                    self.catch_up();
                }
                Ok(())
            }
            Decision::Deferred(deferral) => {
                let reason = deferral.reason();
                *self.report.deferrals.entry(reason).or_insert(0) += 1;
                self.note = format!("{}deferred: {reason}; ", self.note);
                let probe = fold_invariants::probes::PROBES.into_iter().find(|probe| probe.strip_prefix("deferred: ") == Some(reason));
                probe.into_iter().for_each(|probe| self.probes.hit(probe));
                Ok(())
            }
            Decision::Commit(commit) => self.carry_out(&commit),
        }
    }

    /// The decision equals that of the naive reference on the same branch.
    fn compare(&mut self, decision: &Decision) -> Outcome {
        self.probes.hit("decision compared with the reference");
        let expected = reference::decide(self.host.branch(), &self.settings, self.model.context_window);
        let ours = match decision {
            Decision::Quiet => Verdict::Quiet,
            Decision::Deferred(deferral) => Verdict::Deferred(deferral.reason().into()),
            Decision::Commit(commit) => Verdict::Commit {
                trigger: commit.trigger.name().into(),
                drafts: commit.drafts.clone(),
                before: commit.before,
                target: commit.target,
                after: commit.after,
            },
        };
        if ours == expected {
            return Ok(());
        }
        let (expected, seen) = tell_apart(&expected, &ours);
        Err(Broken::new("band", expected, seen))
    }

    fn carry_out(&mut self, commit: &Commit) -> Outcome {
        if self.commits_since_request > 0 && self.report.totals.requests > 0 {
            return Err(Broken::new("progress", "one commit between two requests", "a second one"));
        }
        self.commits_since_request += 1;
        let record = self.host.branch().len();
        let before = self.tokens_now();
        let sound = validate(self.host.window()).is_ok();
        for (index, draft) in commit.drafts.iter().enumerate() {
            self.trace.update(match draft {
                Draft::Custom { data, .. } => data.as_bytes(),
                Draft::ContextEdit { target, .. } => target.as_bytes(),
            });
            self.host.boundary(std::slice::from_ref(draft)).map_err(|why| Broken::new("attributed", "drafts that the host takes", why))?;
            if self.deep && sound && index > 0 && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(4) {
                self.probes.hit("prefix of drafts validated");
                if let Err(error) = validate(self.host.window())
                    && !matches!(error.rule, Rule::AssistantLast | Rule::NoMessages | Rule::PlaceholderLast)
                {
                    return Err(Broken::new("pairing", "calls and results paired after every draft", format!("after draft {index}: {error}")));
                }
            }
        }
        self.changed_by_us(commit, record, before);
        self.catch_up();
        let branch = self.host.branch();
        let position = |id: &str| self.host.position(id);
        let written = Written { branch, record, settings: &self.settings };
        self.folds.commit(written, &position, &mut self.probes)?;
        self.lossless(commit.folds)?;
        if self.deep && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(5) {
            self.reopened("resume")?;
        }
        if let Some(session) = &mut self.session {
            session.save(&mut self.store).map_err(|error| Broken::new("lossless", "a sound store keeps what it is given", error.to_string()))?;
        }
        Ok(())
    }

    fn changed_by_us(&mut self, commit: &Commit, record: usize, before: u64) {
        let targets: BTreeSet<usize> = self.host.branch()[record + 1..]
            .iter()
            .filter_map(|entry| if let Kind::ContextEdit { target, .. } = entry.kind() { self.host.position(target) } else { None })
            .collect();
        let after = self.tokens_now();
        let earliest = targets.first().copied().unwrap_or(0);
        let prefix: u64 = self.host.window().iter().take_while(|shown| shown.at < earliest).map(|shown| shown.tokens).sum();
        self.changes.push(Change { cause: Cause::Commit, targets: Some(targets) });
        self.reported = None;
        self.excused.clear();
        self.report.commits += 1;
        self.report.folds += commit.folds as u64;
        self.report.parents += commit.parents as u64;
        self.probes.when("commit above its target", commit.shortfall.is_some());
        self.probes.when("commit without usage", !self.reports_usage);
        let since = self.report.commits_in_detail.iter().map(|detail| detail.appended).sum::<u64>();
        let detail = Rewrite { before, after, prefix, resent: 0, appended: self.appended - since };
        self.unsent_commit = Some((self.report.commits_in_detail.len(), self.appended));
        self.report.commits_in_detail.push(detail);
        if let (None, Some(session)) = (&commit.shortfall, &self.session) {
            let share = after * 1_000_000 / session.band().budget;
            let (least, most) = self.report.after_ppm.unwrap_or((share, share));
            self.report.after_ppm = Some((least.min(share), most.max(share)));
        }
        self.note = format!(
            "{}committed by {}: {} folds ({} parents), {} to {} of {}; ",
            self.note,
            commit.trigger.name(),
            commit.folds,
            commit.parents,
            commit.before,
            commit.after,
            commit.target
        );
    }

    /// Every fold that is new gives back exactly the lines the journal holds, in their order.
    fn lossless(&mut self, made: usize) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let new: Vec<String> = session.folds().map(|(id, _)| id.to_owned()).filter(|id| !self.recovered.contains(id)).collect();
        if new.len() != made {
            return Err(Broken::new("lossless", format!("{made} new folds on the branch"), format!("the runtime knows {}", new.len())));
        }
        for id in new {
            self.gives_back(&id)?;
            self.report.folds_recovered += 1;
            self.recovered.insert(id);
        }
        Ok(())
    }

    fn gives_back(&mut self, id: &str) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let originals = session.recover(id, None).map_err(|error| Broken::new("lossless", format!("fold {id} whole"), error.to_string()))?;
        let hidden = self.folds.hidden(id).unwrap_or_default();
        let lines: Vec<&str> = hidden.iter().map(|&at| self.host.branch()[at].line()).collect();
        let given: Vec<&str> = originals.iter().map(|original| original.line.as_str()).collect();
        if lines.is_empty() || lines != given {
            return Err(Broken::new(
                "lossless",
                format!("the {} lines fold {id} hides", lines.len()),
                format!("{} lines, or other ones", given.len()),
            ));
        }
        self.probes.hit("fold recovered");
        Ok(())
    }

    /// A session opened from the journal is the one that lived through it.
    fn reopened(&mut self, invariant: &'static str) -> Outcome {
        let Some(live) = &self.session else { return Ok(()) };
        let opened = Session::open(self.host.branch(), &self.settings, self.model.context_window)
            .map_err(|why| Broken::new(invariant, "a session that opens", why))?;
        self.probes.hit("reopened session compared");
        let portrait = |session: &Session| {
            let roots: Vec<String> = session.roots().map(|(id, depth, entries)| format!("{id}:{depth}:{entries}")).collect();
            (session.occupancy(), session.margin(), session.marks(), roots, session.index_bytes(), session.shown())
        };
        let (lived, read) = (portrait(live), portrait(&opened));
        if lived != read {
            return Err(Broken::new(invariant, format!("{lived:?}"), format!("{read:?}")));
        }
        if live.boundary() != opened.boundary() {
            return Err(Broken::new(invariant, "the same next decision", "another one"));
        }
        Ok(())
    }

    /// Opens the runtime on the branch as it is now.
    fn open(&mut self) -> Outcome {
        if self.session.is_none() {
            return Ok(());
        }
        let session = Session::open(self.host.branch(), &self.settings, self.model.context_window)
            .map_err(|why| Broken::new("resume", "a session that opens", why))?;
        self.session = Some(session);
        self.seen = self.host.branch().len();
        let host = &self.host;
        self.folds = Folds::read(host.branch(), &|id| host.position(id));
        self.recovered = self.session.iter().flat_map(Session::folds).map(|(id, _)| id.to_owned()).collect();
        Ok(())
    }

    // ---- the host -------------------------------------------------------------------------------------------------------------------

    fn resume(&mut self) -> Outcome {
        self.catch_up();
        self.reopened("resume")?;
        self.open()
    }

    /// Where a branch may be cut so that no commit loses some of its edits; that is for a later day.
    fn whole(&self, at: usize) -> usize {
        let branch = self.host.branch();
        let mut record = 0;
        while let Some(next) = branch[record..].iter().position(is_record).map(|next| record + next) {
            let end = next + promised(&branch[next]);
            if (next..end).contains(&at) {
                return next.saturating_sub(1);
            }
            record = next + 1;
        }
        at
    }

    fn cut(&self, back: u32) -> Option<String> {
        let last = self.host.branch().len().checked_sub(1)?;
        let at = self.whole(last.saturating_sub(back as usize));
        Some(self.host.branch()[at].id().to_owned())
    }

    fn fork(&mut self, back: u32) -> Outcome {
        let Some(at) = self.cut(back) else { return Ok(()) };
        self.probes.when("fork of a folded session", self.report.commits > 0);
        self.host = self.host.fork(&at, self.hosts).map_err(|why| Broken::new("fork", "a fork", why))?;
        self.hosts += 1;
        self.moved("fork")
    }

    fn tree(&mut self, back: u32) -> Outcome {
        let Some(at) = self.cut(back) else { return Ok(()) };
        self.probes.when("navigation in a folded session", self.report.commits > 0);
        // A navigation to a person's message lands before it, which may be inside a commit.
        let lands = self.host.position(&at).filter(|&at| matches!(self.host.branch()[at].kind(), Kind::Message(Role::User) | Kind::CustomMessage));
        let to = match lands.and_then(|at| at.checked_sub(1)) {
            Some(before) if self.whole(before) != before => return Ok(()),
            _ => at,
        };
        self.host.tree(&to).map_err(|why| Broken::new("fork", "a navigation", why))?;
        self.moved("fork")
    }

    fn moved(&mut self, invariant: &'static str) -> Outcome {
        self.changes.push(Change { cause: Cause::Navigation, targets: None });
        self.reported = None;
        self.unsent_commit = None;
        self.commits_since_request = 0;
        self.note = format!("{}{invariant}; ", self.note);
        self.same_window()?;
        self.open()?;
        if self.session.is_some() && self.deep {
            let decision = self.session.as_ref().map(Session::boundary);
            decision.iter().try_for_each(|decision| self.compare(decision))?;
        }
        Ok(())
    }

    /// The window that was kept from entry to entry is the one that Pi's projection gives.
    fn same_window(&mut self) -> Outcome {
        self.probes.hit("incremental window compared");
        let made = self.host.rebuild();
        let digests = |window: &[Arc<Shown>]| window.iter().map(|shown| shown.digest).collect::<Vec<_>>();
        if digests(&made) == digests(self.host.window()) {
            return Ok(());
        }
        Err(Broken::new("resume", "a window kept by appends equals one made from nothing", "another one"))
    }

    fn switch(&mut self, window_ppm: u32, model: Model) -> Outcome {
        let window = u64::try_from(u128::from(self.plan.window) * u128::from(window_ppm) / 1_000_000).unwrap_or(u64::MAX);
        self.host.model_change(model.provider(), model.id());
        self.voice = model;
        self.model = provider::Model { name: name(model), context_window: window, max_output: self.model.max_output };
        self.chain = Chain::new(&self.model.name, self.plan.world.overhead_tokens);
        self.chain.update(self.host.last_request(), 0, self.host.token_model());
        self.probes.when("model switch in a folded session", self.report.commits > 0);
        self.reported = None;
        self.open()
    }

    fn foreign_edit(&mut self, back: u32, omit: bool, replacement: &str) {
        let branch = self.host.branch();
        let Some(last) = branch.len().checked_sub(1) else { return };
        let at = last.saturating_sub(back as usize);
        let content = replacement.strip_prefix("{\"content\":").and_then(|rest| rest.strip_suffix('}'));
        // Another extension that tears a call from its result is a host's fault the wire would refuse; a careful one edits texts only.
        let is_call = matches!(branch[at].kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }));
        if omit && is_call {
            return;
        }
        let is_assistant = matches!(branch[at].kind(), Kind::Message(Role::Assistant(_)));
        // Somebody else's edit of what a fold hides or carries is the second half of the law.
        if self.session.is_some() && self.folds.touches(at) {
            return;
        }
        let draft = Draft::ContextEdit { target: branch[at].id().to_owned(), replacement: content.filter(|_| !omit).map(str::to_owned) };
        if !is_assistant && self.host.boundary(&[draft]).is_ok() {
            self.probes.when("foreign edit of a folded session", self.report.commits > 0);
            self.reported = None;
            self.changes.push(Change { cause: Cause::ForeignEdit, targets: Some(BTreeSet::from([at])) });
        }
    }

    /// Pi's own compaction, by itself or because a person asks for it.
    fn compact(&mut self, by_itself: bool) -> Outcome {
        let keep = KEEP_RECENT.min(self.model.context_window / 4);
        let (mut read, mut written) = (0, 0);
        let compacted = self.host.compact(keep, &mut |part: &Summarize<'_>| {
            read += part.messages.iter().map(|shown| shown.tokens).sum::<u64>() + 400;
            let summary = summary(part);
            written += summary.len() as u64 / 4;
            summary
        });
        if compacted.is_none() {
            return Ok(());
        }
        self.bill(Used { fresh: read, cached: 0, written: 0, output: written });
        self.report.totals.requests -= 1;
        self.probes.when("compaction of a folded session", !by_itself && self.report.commits > 0);
        self.reported = None;
        self.unsent_commit = None;
        self.changes.push(Change { cause: Cause::Compaction, targets: None });
        self.note = format!("{}compacted; ", self.note);
        self.same_window()
    }

    // ---- a recording ----------------------------------------------------------------------------------------------------------------

    /// Appends the recorded entries one by one, a request before every answer, a boundary where a turn ends.
    fn re_issue(&mut self, entries: &[Entry]) -> Result<Outcome, String> {
        self.host.avoid(entries.iter().map(Entry::id));
        for (index, entry) in entries.iter().enumerate() {
            self.step = index;
            let is_answer = matches!(entry.kind(), Kind::Message(Role::Assistant(_)));
            let mut measured = None;
            if is_answer {
                self.now += 1_000;
                self.host.set_now(self.now);
                match self.request() {
                    Ok(Some((prompt, read))) => measured = Some((prompt, read)),
                    Ok(None) => break,
                    Err(broken) => return Ok(Err(broken)),
                }
            }
            let line = self.written_again(entry, measured)?;
            let before = self.host.message_tokens();
            self.host.adopt(&line).map_err(|why| format!("entry {}: {why}", entry.id()))?;
            self.appended += self.host.message_tokens().saturating_sub(before);
            let goes_on = entries.get(index + 1).is_some_and(|next| matches!(next.kind(), Kind::Message(Role::ToolResult { .. })));
            let in_turn = matches!(entry.kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }));
            if in_turn
                && !goes_on
                && let Err(broken) = self.turn_end()
            {
                return Ok(Err(broken));
            }
        }
        let same = self.same_texts(entries);
        Ok(same.and_then(|()| self.end()))
    }

    /// The recorded line behind the present leaf, with what this world's provider measures.
    fn written_again(&mut self, entry: &Entry, measured: Option<(u64, u64)>) -> Result<Entry, String> {
        let mut line = entry.line().to_owned();
        let wrong = |what: &str| format!("entry {} could not be written again: {what}", entry.id());
        if let Some((prompt, read)) = measured {
            let good = entry.is_good_answer();
            let output = if good { Size::of_original(entry).bytes * 1_000 / self.density() } else { 0 };
            self.bill(Used { fresh: prompt - read, cached: read, written: 0, output });
            if let Some(recorded) = entry.message_field("usage").filter(|raw| raw.starts_with('{')) {
                let usage = if good { usage(prompt, read, 0, output) } else { usage(0, 0, 0, 0) };
                self.reported = (usage.total > 0).then_some(usage.total).or(self.reported.filter(|_| !good));
                if usage.total > 0 {
                    self.reported_at = self.appended;
                }
                let at = recorded.as_ptr().addr() - entry.line().as_ptr().addr();
                line.replace_range(at..at + recorded.len(), &usage_json(&usage));
            }
        }
        let parent = self.host.leaf().map_or("null".to_owned(), |leaf| serde_json::Value::from(leaf.id()).to_string());
        // Version 1 has neither id nor parent, or none that counts.
        let id = serde_json::Value::from(entry.id()).to_string();
        line = with_field(&with_field(&line, "parentId", &parent), "id", &id);
        let again = Entry::parse(&line).map_err(|error| wrong(&error.to_string()))?;
        if again.id() != entry.id() || again.content().raw() != entry.content().raw() {
            return Err(wrong("it would be another one"));
        }
        Ok(again)
    }

    /// Thousandths of a byte per token of what the model writes.
    fn density(&self) -> u64 {
        if let Density::Constant(milli) = self.plan.world.density { milli } else { 4_000 }
    }

    /// What every fold gives back has the texts of the file.
    fn same_texts(&self, entries: &[Entry]) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let file: std::collections::BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.id(), entry)).collect();
        for (fold, _) in session.folds() {
            let originals = session.recover(fold, None).map_err(|error| Broken::new("lossless", format!("fold {fold} whole"), error.to_string()))?;
            for original in originals {
                let given = Entry::parse(&original.line).map_err(|error| Broken::new("lossless", "an entry", error.to_string()))?;
                if file.get(original.id.as_str()).is_none_or(|entry| entry.content().raw() != given.content().raw()) {
                    return Err(Broken::new("lossless", format!("the content of {} as the file has it", original.id), "another one"));
                }
            }
        }
        Ok(())
    }

    /// What a refused request holds, for a person.
    fn explain(&mut self, tokens: u64) {
        let largest = self.host.window().iter().max_by_key(|shown| shown.tokens);
        let what = largest.map_or(String::new(), |shown| format!("; the largest entry in it is {} with {} tokens", shown.source.id(), shown.tokens));
        self.explained = Some(format!(
            "request {} would hold {tokens} tokens in a window of {}{}{what}. A larger --budget replays further",
            self.report.totals.requests + 1,
            self.model.context_window,
            match self.arm {
                Arm::Fold => ", and nothing ripe makes room",
                Arm::None => ", and this arm makes no room",
                Arm::Native => ", and there is nothing to compact",
            }
        ));
    }

    // ---- the end --------------------------------------------------------------------------------------------------------------------

    fn stop(&mut self, reason: &'static str) -> Outcome {
        *self.report.stops.entry(reason).or_insert(0) += 1;
        self.note = format!("{}stopped: {reason}; ", self.note);
        self.ended = true;
        self.keep_step(self.step);
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        self.probes.hit("session ended");
        let used = self.report.totals.used;
        if (used.fresh + used.cached, used.output, self.report.totals.tiered) != self.sums {
            return Err(Broken::new("accounting", format!("{:?}", self.sums), format!("{used:?}")));
        }
        self.catch_up();
        if self.deep {
            self.same_window()?;
            self.reopened("resume")?;
        }
        self.second_copies()
    }

    /// A journal that lost a line gives it back from the store.
    fn second_copies(&mut self) -> Outcome {
        let Some(fold) = self.recovered.iter().next().filter(|_| self.deep).cloned() else { return Ok(()) };
        let Some(&lost) = self.folds.hidden(&fold).unwrap_or_default().first() else { return Ok(()) };
        let original = self.host.branch()[lost].line().to_owned();
        let mut branch = self.host.branch().to_vec();
        // What the runtime was never offered (a fold made before a fork, say) is offered when it opens the journal.
        let mut session =
            Session::open(&branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        session.save(&mut self.store).map_err(|error| Broken::new("lossless", "a sound store keeps what it is given", error.to_string()))?;
        let damaged = original.replacen('{', "{\"damaged\":true,", 1);
        branch[lost] = Entry::parse(&damaged).map_err(|error| Broken::new("lossless", "a line", error.to_string()))?;
        let session =
            Session::open(&branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        if session.recover(&fold, None).is_ok() {
            return Err(Broken::new("lossless", "a damaged original is noticed", "it was given back"));
        }
        let given = session.recover(&fold, Some(&self.store)).map_err(|error| Broken::new("lossless", "the second copy", error.to_string()))?;
        if !given.iter().any(|one| one.from_store && one.line == original) {
            return Err(Broken::new("lossless", "the second copy of the damaged line", "another line"));
        }
        self.probes.hit("fold recovered from the store");
        Ok(())
    }

    fn keep_step(&mut self, op: usize) {
        if !self.keeps_steps {
            return;
        }
        self.catch_up();
        let session = self.session.as_ref();
        let step = Step {
            op,
            name: self.plan.ops.get(op).map_or("end", Op::name),
            ms: self.now - START_MS,
            messages: self.host.window().len(),
            tokens: self.tokens_now(),
            occupancy: session.map_or(0, Session::occupancy),
            margin: session.map_or(0, Session::margin),
            marks: session.map_or(0, Session::marks),
            roots: session.map_or(0, |session| session.roots().count()),
            cached: self.last_read.0,
            fresh: self.last_read.1,
            nano_dollars: self.report.totals.tiered,
            note: std::mem::take(&mut self.note).trim_end_matches("; ").to_owned(),
        };
        self.last_read = (0, 0);
        self.steps.push(step);
    }
}

fn name(model: Model) -> String {
    format!("{}/{}", model.provider(), model.id())
}

/// A plan that no world can run: drawn ones never are, edited ones may be.
fn refuse(plan: &Plan) -> Result<(), String> {
    const CENTURY_MS: u64 = 100 * 365 * 86_400_000;
    if plan.world.density == Density::Constant(0) {
        return Err("world.density is 0 thousandths of a byte per token; it must be at least 1".to_owned());
    }
    for op in &plan.ops {
        match op {
            Op::Idle { ms } if *ms > CENTURY_MS => return Err(format!("an idle time of {ms} ms is longer than a century")),
            Op::ModelSwitch { window_ppm, .. } => {
                let window = u128::from(plan.window) * u128::from(*window_ppm) / 1_000_000;
                if !(10_000..=u128::from(u64::MAX)).contains(&window) {
                    return Err(format!("a model switch to a window of {window} tokens; folding needs at least 10,000"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A JSON object with this field given this value, in its place or else first.
fn with_field(line: &str, name: &str, value: &str) -> String {
    let fields: Option<std::collections::BTreeMap<String, &serde_json::value::RawValue>> = serde_json::from_str(line).ok();
    match fields.as_ref().and_then(|fields| fields.get(name)) {
        Some(old) => {
            let at = old.get().as_ptr().addr() - line.as_ptr().addr();
            format!("{}{value}{}", &line[..at], &line[at + old.get().len()..])
        }
        None => line.replacen('{', &format!("{{\"{name}\":{value},"), 1),
    }
}

/// Bytes the model itself writes in an answer: reasoning, prose, and calls with the names and paths in them.
fn spoken(answer: &Answer) -> u64 {
    answer.thinking_bytes + answer.text_bytes + answer.calls.iter().map(|call| call.argument_bytes + 40).sum::<u64>()
}

fn is_record(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD)
}

/// How many edits a record promises.
fn promised(record: &Entry) -> usize {
    #[derive(serde::Deserialize)]
    struct Edits {
        edits: Vec<serde::de::IgnoredAny>,
    }
    record.field("data").and_then(|data| serde_json::from_str::<Edits>(data).ok()).map_or(0, |data| data.edits.len())
}

/// A branch as it would be if the runtime had never written; its entries leave their ids behind, which a compaction may name.
fn without_ours(branch: &[Entry]) -> Vec<Entry> {
    let mut skip = 0;
    let silent = |entry: &Entry| {
        let id = serde_json::Value::from(entry.id());
        Entry::parse(&format!("{{\"type\":\"label\",\"id\":{id}}}")).expect("a label is an entry")
    };
    let mut out = Vec::with_capacity(branch.len());
    for entry in branch {
        if is_record(entry) {
            skip = promised(entry) + 1;
        }
        out.push(if skip > 0 { silent(entry) } else { entry.clone() });
        skip = skip.saturating_sub(1);
    }
    out
}

/// What a summarizer makes of so many messages: about a twentieth of their length, from 200 bytes to 8,000.
fn summary(part: &Summarize<'_>) -> String {
    let bytes: u64 = part.messages.iter().map(|shown| shown.facts.bytes.text).sum();
    let length = usize::try_from((bytes / 20).clamp(200, 8_000)).unwrap_or(8_000);
    let mut text = format!("## Progress\n{} messages were summarized.\n", part.messages.len());
    while text.len() < length {
        text.push_str("- looked at a module, changed a function, ran the tests and read what they said\n");
    }
    text
}

/// Where two verdicts differ first.
fn tell_apart(expected: &Verdict, seen: &Verdict) -> (String, String) {
    let short = |verdict: &Verdict| match verdict {
        Verdict::Commit { trigger, drafts, before, target, after } => {
            format!("a commit by {trigger} of {} drafts, {before} to {after} of {target}", drafts.len())
        }
        Verdict::Deferred(reason) => format!("deferred: {reason}"),
        Verdict::Quiet => "quiet".to_owned(),
    };
    let (Verdict::Commit { drafts: ours, .. }, Verdict::Commit { drafts: theirs, .. }) = (seen, expected) else {
        return (short(expected), short(seen));
    };
    // The record differs wherever an edit does; the edit tells more.
    let differing = theirs.iter().zip(ours).enumerate().filter(|(_, (one, other))| one != other);
    let Some((index, (one, other))) = differing.min_by_key(|(index, _)| (*index == 0, *index)) else {
        return (short(expected), short(seen));
    };
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    let same = one.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count();
    let excerpt = |text: &str| {
        let from = text.floor_char_boundary(same.saturating_sub(60));
        let to = text.ceil_char_boundary((same + 200).min(text.len()));
        text[from..to].to_owned()
    };
    (format!("{}; draft {index}: …{}", short(expected), excerpt(&one)), format!("{}; draft {index}: …{}", short(seen), excerpt(&other)))
}
