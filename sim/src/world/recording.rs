//! A recorded conversation, issued again.

use super::{Outcome, Taken, World};
use fold_invariants::Broken;
use fold_models::agent::text::Shape;
use fold_models::agent::{Text, Verb};
use fold_models::provider::{usage, usage_json};
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::window::Size;
use std::collections::BTreeMap;

impl World<'_> {
    /// Appends the recorded entries one by one, a request before every answer, a boundary where a turn ends.
    /// A `busy` agent tends its window on the way: peeks, pins, briefs; the session is opened again and forked.
    pub(super) fn re_issue(&mut self, entries: &[Entry], busy: bool) -> Result<Outcome, String> {
        self.host.avoid(entries.iter().map(Entry::id));
        for (index, entry) in entries.iter().enumerate() {
            self.step = index;
            let is_answer = matches!(entry.kind(), Kind::Message(Role::Assistant(_)));
            let mut measured = None;
            if is_answer {
                self.now += 1_000;
                self.host.set_now(self.now);
                match self.request() {
                    Ok(Some(taken)) => measured = Some(taken),
                    Ok(None) => break,
                    Err(broken) => return Ok(Err(broken)),
                }
            }
            if measured.is_some() {
                self.names(entry);
            }
            let line = self.written_again(entry, measured)?;
            let before = self.host.message_tokens();
            self.host.adopt(&line).map_err(|why| format!("entry {}: {why}", entry.id()))?;
            self.appended += self.host.message_tokens().saturating_sub(before);
            self.becomes_a_source();
            let goes_on = entries.get(index + 1).is_some_and(|next| matches!(next.kind(), Kind::Message(Role::ToolResult { .. })));
            let in_turn = matches!(entry.kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }));
            if in_turn
                && !goes_on
                && let Err(broken) = self.turn_end().and_then(|()| if busy { self.tends(index, entries.len()) } else { Ok(()) })
            {
                return Ok(Err(broken));
            }
            if self.ended {
                break;
            }
        }
        let same = self.same_texts(entries, busy);
        Ok(same.and_then(|()| self.end()))
    }

    /// What a busy agent does between two turns; entries are counted as the file has them.
    fn tends(&mut self, at: usize, of: usize) -> Outcome {
        if self.session.is_none() {
            return Ok(());
        }
        let text = |bytes| Text { salt: at as u64, bytes, shape: Shape::Prose };
        let nth = u32::try_from(at).unwrap_or(0);
        let due = |every: usize, last: usize| at / every > last / every;
        let last = std::mem::replace(&mut self.tended, at);
        if due(50, last) {
            self.resume()?;
        }
        if at * 2 >= of && last * 2 < of {
            self.fork(0)?;
        }
        for (every, verb, nth, bytes) in [
            (40, Verb::Pin, 5, 0),
            (60, Verb::Brief, nth, 120),
            (90, Verb::Reboundary, nth, 0),
            (110, Verb::Unpin, 0, 0),
            (130, Verb::Unmark, nth, 0),
            (70, Verb::Expand, nth, 0),
            (170, Verb::Refold, nth, 0),
            (230, Verb::Recut, nth, 0),
        ] {
            if due(every, last) {
                self.acts(verb, nth, text(bytes))?;
            }
        }
        while self.peeked < self.report.folds / 10 && !self.ended {
            self.peeked += 1;
            self.acts(Verb::Peek, u32::try_from(self.peeked).unwrap_or(0), text(16_000))?;
        }
        Ok(())
    }

    /// The recorded line behind the present leaf, with what this world's provider measures.
    pub(super) fn written_again(&mut self, entry: &Entry, measured: Option<Taken>) -> Result<Entry, String> {
        let mut line = entry.line().to_owned();
        let wrong = |what: &str| format!("entry {} could not be written again: {what}", entry.id());
        if let Some(taken) = measured {
            let good = entry.is_good_answer();
            let output = if good { Size::of_original(entry).bytes * 1_000 / self.density() } else { 0 };
            self.bill(taken.used(output));
            if let Some(recorded) = entry.message_field("usage").filter(|raw| raw.starts_with('{')) {
                let usage = if good { taken.usage(output) } else { usage(0, 0, 0, 0) };
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

    /// What every fold gives back has the texts of the file.
    pub(super) fn same_texts(&self, entries: &[Entry], busy: bool) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let file: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.id(), entry)).collect();
        for (fold, _) in session.folds() {
            let originals = session.recover(fold, None).map_err(|error| Broken::new("lossless", format!("fold {fold} whole"), error.to_string()))?;
            for original in originals {
                let given = Entry::parse(&original.line).map_err(|error| Broken::new("lossless", "an entry", error.to_string()))?;
                let differs = |entry: &&Entry| entry.content().raw() != given.content().raw();
                // What a busy agent said itself stands in no file.
                if file.get(original.id.as_str()).map_or(!busy, differs) {
                    return Err(Broken::new("lossless", format!("the content of {} as the file has it", original.id), "another one"));
                }
            }
        }
        Ok(())
    }
}

/// A JSON object with this field given this value, in its place or else first.
fn with_field(line: &str, name: &str, value: &str) -> String {
    let fields: Option<BTreeMap<String, &serde_json::value::RawValue>> = serde_json::from_str(line).ok();
    match fields.as_ref().and_then(|fields| fields.get(name)) {
        Some(old) => {
            let at = old.get().as_ptr().addr() - line.as_ptr().addr();
            format!("{}{value}{}", &line[..at], &line[at + old.get().len()..])
        }
        None => line.replacen('{', &format!("{{\"{name}\":{value},"), 1),
    }
}
