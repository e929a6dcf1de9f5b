//! An agent that tends its window with the policy's own tool: it looks at originals, pins, briefs, re-cuts and withdraws.

use super::{Outcome, Saboteur, Taken, World};
use fold_invariants::Broken;
use fold_invariants::asked::{Asked, granted, refused};
use fold_models::agent::{Text, Verb, body};
use fold_models::host::{Answer as Said, ToolResult};
use fold_runtime::agent::{Action, Id, act};
use fold_runtime::journal::{Entry, Kind, Role, Usage};
use fold_runtime::session::{Draft, Place, Session, Trigger};
use std::collections::BTreeSet;

/// How long an answer takes that is one call, and the tool that it calls.
const EXCHANGE_MS: u64 = 2_000;

impl World<'_> {
    /// One call of the tool. A peek is a call and a result in the conversation; a decision is an entry, and changes nothing that is shown.
    pub(super) fn acts(&mut self, verb: Verb, nth: u32, text: Text) -> Outcome {
        self.catch_up()?;
        let Some(session) = &self.session else { return Ok(()) };
        let Some(call) = self.call(session, verb, nth, text) else { return Ok(()) };
        if verb == Verb::Peek { self.peeks(&call) } else { self.decides(&call) }
    }

    /// The call as an agent would write it, about something that there is.
    fn call(&self, session: &Session, verb: Verb, nth: u32, text: Text) -> Option<String> {
        let nth = nth as usize;
        let json = |id: &str| serde_json::Value::from(id).to_string();
        let branch = self.host.branch();
        let entry = branch.get(branch.len().checked_sub(1 + nth)?)?.id();
        let hidden = |fold: &str| session.hidden(fold).is_some_and(|hidden| hidden.contains(&entry));
        let roots: Vec<&str> = session.roots().map(|(id, ..)| id).collect();
        let root = roots.iter().copied().find(|root| hidden(root));
        let folds: Vec<&str> = session.folds().map(|(id, _)| id).collect();
        let marks = session.pending();
        let mark = (!marks.is_empty()).then(|| &marks[nth % marks.len()]);
        let forest = session.forest();
        let open = |fold: &str| forest.iter().any(|view| view.id == fold && view.place == Place::Open);
        let any = |ids: Vec<&str>| (!ids.is_empty()).then(|| json(ids[nth % ids.len()]));
        Some(match verb {
            Verb::Expand => {
                let shown = |place| matches!(place, Place::Root) || matches!(place, Place::Within(parent) if open(parent));
                // Now and then one that cannot be expanded.
                let can = forest.iter().filter(|view| shown(view.place) || nth.is_multiple_of(9));
                format!("{{\"action\":\"expand\",\"id\":{}}}", any(can.map(|view| view.id).collect())?)
            }
            Verb::Refold => {
                let can = forest.iter().filter(|view| view.place == Place::Open || nth.is_multiple_of(9));
                format!("{{\"action\":\"refold\",\"id\":{}}}", any(can.map(|view| view.id).collect())?)
            }
            Verb::Recut => {
                let fold = roots.get(nth % roots.len().max(1)).copied()?;
                let inside = session.hidden(fold)?;
                let units =
                    inside.iter().filter(|id| session.entry(id).is_some_and(|entry| !matches!(entry.kind(), Kind::Message(Role::ToolResult { .. }))));
                let edges: Vec<&str> = units.copied().collect();
                format!("{{\"action\":\"reboundary\",\"id\":{},\"at\":[{}]}}", json(fold), json(edges.get(edges.len() / 2)?))
            }
            Verb::Peek => {
                // Mostly a fold, at whatever depth; now and then an entry.
                let id = if folds.is_empty() || nth.is_multiple_of(5) { entry } else { folds[nth % folds.len()] };
                let ephemeral = !nth.is_multiple_of(7);
                format!("{{\"action\":\"peek\",\"id\":{},\"bytes\":{},\"ephemeral\":{ephemeral}}}", json(id), text.bytes)
            }
            Verb::Pin => {
                // What was expanded, now and then: it stays then.
                let expanded = forest.iter().find(|view| view.place == Place::Open).filter(|_| nth.is_multiple_of(3));
                format!("{{\"action\":\"pin\",\"ids\":[{}]}}", json(expanded.map(|view| view.id).or(root).unwrap_or(entry)))
            }
            Verb::Unpin => {
                let pins = session.pins();
                let pinned: Vec<&str> = pins.units.iter().chain(&pins.folds).copied().collect();
                format!("{{\"action\":\"unpin\",\"ids\":[{}]}}", json(pinned.get(nth % pinned.len().max(1)).copied().unwrap_or(entry)))
            }
            Verb::Brief => {
                let mut brief = String::new();
                body::custom_message(text, &mut brief);
                let says = brief.find("\"content\":").map(|at| &brief[at + 10..]);
                let says = says.and_then(|rest| serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>().next()?.ok());
                let says = says.and_then(|says| says.as_str().map(str::to_owned)).unwrap_or_else(|| "what was read there".to_owned());
                format!("{{\"action\":\"brief\",\"id\":{},\"text\":{}}}", json(mark?.first), json(&says))
            }
            Verb::Reboundary => {
                let units = &mark?.units;
                let edge = units.get(units.len() / 2)?;
                format!("{{\"action\":\"reboundary\",\"id\":{},\"at\":[{}]}}", json(mark?.first), json(edge))
            }
            Verb::Unmark => format!("{{\"action\":\"unmark\",\"ids\":[{}]}}", json(mark?.first)),
        })
    }

    fn decides(&mut self, call: &str) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let shown: Vec<u64> = self.host.window().iter().map(|shown| shown.digest).collect();
        let (size, occupancy) = (session.shown(), session.occupancy());
        let reply = Action::parse(call).and_then(|action| act(session, &action, Some(&self.store), u64::MAX));
        let drafts = match &reply {
            Ok(reply) => &reply.drafts[..],
            Err(refusal) => {
                self.probes.hit("action refused");
                if act(session, &refusal.call, Some(&self.store), u64::MAX).is_err() {
                    return Err(Broken::new("no_op", "a refusal names a call that works", format!("{call}: {refusal}")));
                }
                &[]
            }
        };
        if reply.is_err() {
            self.rightly_refused(call)?;
        } else {
            self.changed_source(call)?;
        }
        let from = self.host.branch().len();
        for draft in drafts {
            let Draft::Custom { custom_type, data } = draft else {
                return Err(Broken::new("quiet", "a decision is an entry of its own", format!("{draft:?}")));
            };
            self.host.custom(custom_type, data);
        }
        if !drafts.is_empty() {
            if let Some(draft) = self.saboteur.as_ref().and_then(|saboteur| saboteur.beside(call, self.host.branch())) {
                let _ = self.host.boundary(&[draft]);
            }
            self.probes.hit("action carried out");
            // What was decided may make room where there was none.
            self.committed.clear();
        }
        let turned = self.records(from);
        self.note = format!("{}{call}: {}; ", self.note, reply.map_or_else(|refusal| refusal.to_string(), |reply| reply.text));
        self.catch_up()?;
        if let Some(&record) = turned.first() {
            self.turned(record)?;
        }
        let Some(session) = &self.session else { return Ok(()) };
        let same = shown.iter().copied().eq(self.host.window().iter().map(|shown| shown.digest));
        if turned.is_empty() && (!same || (size, occupancy) != (session.shown(), session.occupancy())) {
            return Err(Broken::new("quiet", "a decision changes nothing that is shown", format!("{call} did")));
        }
        if self.deep && self.answers.is_multiple_of(4) {
            self.reopened("resume")?;
            self.mapped()?;
        }
        Ok(())
    }

    /// The same call, had an original changed on the disk meanwhile: it is refused.
    fn changed_source(&mut self, call: &str) -> Outcome {
        let Ok(Action::Expand(Id { id })) = Action::parse(call) else { return Ok(()) };
        let Some(&at) = self.folds.hidden(&id).unwrap_or_default().first().filter(|_| self.deep && !self.without_reference) else { return Ok(()) };
        let Some(changed) = changed(&self.host.branch()[at]) else { return Ok(()) };
        let mut branch = self.host.branch().to_vec();
        branch[at] = changed;
        let unchecked = self.saboteur.as_ref().is_some_and(Saboteur::expands_unchecked);
        let read = if unchecked { self.host.branch() } else { &branch };
        let session =
            Session::open(read, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        let window = self.model.context_window;
        match Action::parse(call).and_then(|action| act(&session, &action, None, u64::MAX)) {
            Err(_) => refused(&branch, &self.settings, window, Asked::Expand(&id), &mut self.probes),
            Ok(reply) => {
                let record = reply.drafts.first().and_then(|draft| Entry::parse(&format!("{{{},\"id\":\"asked\"}}", draft.fields())).ok());
                record.map_or(Ok(()), |record| granted(&branch, &self.settings, window, &record, &mut self.probes))
            }
        }
    }

    /// What was refused about a fold was to be refused, by the reference's judgement.
    fn rightly_refused(&mut self, call: &str) -> Outcome {
        let Ok(action) = Action::parse(call) else { return Ok(()) };
        let (id, question) = match &action {
            Action::Expand(Id { id }) => (id, Asked::Expand(id)),
            Action::Refold(Id { id }) => (id, Asked::Refold(id)),
            Action::Reboundary(asked) => (&asked.id, Asked::Dissolve(&asked.id)),
            _ => return Ok(()),
        };
        if !self.deep || self.without_reference || self.folds.hidden(id).is_none() {
            return Ok(());
        }
        refused(self.host.branch(), &self.settings, self.model.context_window, question, &mut self.probes)
    }

    /// A fold was expanded, folded again, or cut anew: a record like that of a commit, but nothing is folded.
    fn turned(&mut self, record: usize) -> Outcome {
        if self.deep && !self.without_reference {
            let branch = self.host.branch();
            granted(&branch[..record], &self.settings, self.model.context_window, &branch[record], &mut self.probes)?;
        }
        let edits = self.promised_edits(&[record], &[])?.remove(0);
        let before = self.tokens_now();
        let refolds = self.host.branch()[record].line().contains("\"trigger\":\"refold\"");
        self.changed_by_us(record, if refolds { Trigger::Refold } else { Trigger::Expand }, None, &edits, before);
        self.written(record, &edits)?;
        // What was dissolved may be made again.
        if let Some(session) = &self.session {
            let stands: BTreeSet<&str> = session.folds().map(|(id, _)| id).collect();
            self.recovered.retain(|id| stands.contains(id.as_str()));
        }
        self.lossless(0)
    }

    /// The model asks for it and gets what fits.
    fn peeks(&mut self, call: &str) -> Outcome {
        self.looks(call).map(drop)
    }

    /// The same; gives what it was shown, or why nothing, and nothing where no request could leave.
    pub(super) fn looks(&mut self, call: &str) -> Outcome<Option<String>> {
        let Some(taken) = self.request()? else { return Ok(None) };
        let Some(session) = &self.session else { return Ok(None) };
        let band = session.band();
        let room = band.max_target.saturating_sub(session.occupancy());
        let reply = Action::parse(call).and_then(|action| act(session, &action, Some(&self.store), room));
        let failed = reply.is_err();
        self.probes.when("peek answered", !failed);
        self.probes.when("peek refused", failed);
        let text = reply.map_or_else(|refusal| refusal.to_string(), |reply| reply.text);
        self.exchange(taken, ("pi_fold_context", call), (&text, failed))?;
        Ok(Some(text))
    }

    /// A call of a tool, by an answer to the request that was taken, and its result: in the conversation, as any other.
    pub(super) fn exchange(&mut self, taken: Taken, (tool, call): (&str, &str), (text, failed): (&str, bool)) -> Outcome {
        // What the request wrote can be read by the next one.
        self.now += EXCHANGE_MS;
        self.queue.clock().advance_to(self.now);
        self.host.set_now(self.now.saturating_add_signed(self.skew));
        let id = format!("call_peek_{:04x}", self.answers);
        self.answers += 1;
        let output = call.len() as u64 / 4;
        if let Some(meters) = &mut self.meters {
            meters.answered(taken.prompt, output);
        }
        self.bill(taken.used(output));
        let reported = if self.reports_usage { taken.usage(output) } else { Usage::default() };
        self.reported = (reported.total > 0).then_some(reported.total);
        self.reported_at = self.appended;
        let content = format!("[{{\"type\":\"toolCall\",\"id\":\"{id}\",\"name\":\"{tool}\",\"arguments\":{call}}}]");
        let before = self.host.message_tokens();
        self.host.assistant(&Said {
            content: &content,
            stop: "toolUse",
            usage: reported,
            provider: self.voice.provider(),
            model: self.voice.id(),
            error: None,
        });
        let text = serde_json::Value::from(text).to_string();
        let content = format!("[{{\"type\":\"text\",\"text\":{text}}}]");
        self.host.tool_result(&ToolResult { call_id: &id, tool, content: &content, is_error: failed });
        self.appended += self.host.message_tokens().saturating_sub(before);
        self.turn_end()
    }
}

/// The entry with one character more in its first text; `None` if it has none.
fn changed(entry: &Entry) -> Option<Entry> {
    let line = entry.line().replacen("\"text\":\"", "\"text\":\"~", 1);
    Entry::parse(&line).ok().filter(|changed| changed.line() != entry.line())
}
