//! The providers of a session, which read each request from where it differs from the one before.

use super::judge::{Fault, Judge, Memory, State};
use super::send::Sender;
use super::{Rule, Terms, Wire, WireError};
use crate::shown::{Role, Shown, WireRole, name_of_model};
use std::sync::Arc;

/// A provider on each wire, reading the requests of one session. Every wire is read along, whichever the session is on: it may switch to
/// another model at any time.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// What the model of each wire is called; no answer is its own where nothing stands.
    models: [u64; 4],
    read: Vec<Arc<Shown>>,
    /// What was known before each of these messages; nothing where something was not settled yet.
    known: Vec<Option<Known>>,
    memories: [Memory; 4],
}

/// What is known before a message.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The assistant message whose calls pi-ai may still have to answer.
    pending: Option<usize>,
    /// The newest user message or tool result.
    newest: Option<usize>,
    states: [State; 4],
}

impl Reader {
    /// Readers for one model on each wire, named `provider/model` in the order of [`Wire::ALL`].
    pub fn new(models: &[String; 4]) -> Self {
        Reader { models: models.each_ref().map(|name| name_of_model(&name.as_str().into())), ..Reader::default() }
    }

    /// Whether the Chat wire would take the request this window becomes.
    ///
    /// # Errors
    /// [`WireError`], for the first rule that is broken.
    pub fn validate(&mut self, window: &[Arc<Shown>]) -> Result<(), WireError> {
        self.go_on(window, &Terms::default());
        let first = self.memories[Wire::Chat as usize].faults.first();
        first.map_or(Ok(()), |fault| Err(error(Wire::Chat, fault, window)))
    }

    /// What each wire refuses in the request this window becomes, as far as it was not told of the window before: faults of messages that
    /// stand unchanged are told once. Costs what follows the first change.
    pub fn judge(&mut self, window: &[Arc<Shown>], terms: &Terms) -> Vec<WireError> {
        let from = self.go_on(window, terms);
        let mut out = Vec::new();
        for wire in Wire::ALL {
            let faults = &self.memories[wire as usize].faults;
            let new = &faults[faults.partition_point(|fault| fault.at < from)..];
            out.extend(new.iter().map(|fault| error(wire, fault, window)));
        }
        out
    }

    /// Reads on; gives the first message that was read now.
    fn go_on(&mut self, window: &[Arc<Shown>], terms: &Terms) -> usize {
        let same = self.read.iter().zip(window).take_while(|(before, now)| Arc::ptr_eq(before, now)).count();
        let (from, known) = (0..same).rev().find_map(|at| Some((at, self.known[at]?))).unwrap_or_default();
        self.read.truncate(from);
        self.read.extend_from_slice(&window[from..]);
        self.known.truncate(from);
        let mut wires = Wire::ALL.into_iter();
        let models = self.models;
        let mut judges = self.memories.each_mut().map(|memory| {
            memory.back_to(from);
            let wire = wires.next().expect("a memory for each wire");
            let state = known.states[wire as usize];
            Judge::new(wire, models[wire as usize], state, state.batch.map(|asked| &*window[asked]), memory)
        });
        let mut sender = Sender { pending: known.pending, held: Vec::new() };
        let mut newest = known.newest;
        for (index, shown) in window.iter().enumerate().skip(from) {
            let mut states = [State::default(); 4];
            let mut settled = sender.held.is_empty();
            for (state, judge) in states.iter_mut().zip(&mut judges) {
                judge.at = index;
                match judge.settled() {
                    Some(known) => *state = known,
                    None => settled = false,
                }
            }
            self.known.push(settled.then_some(Known { pending: sender.pending, newest, states }));
            let facts = &shown.facts;
            if facts.edited {
                let chat = &mut judges[Wire::Chat as usize];
                if facts.blank {
                    chat.refuse(Rule::EmptyEdit, index, &facts.answers);
                }
                if facts.placeholder && facts.wire == WireRole::Assistant {
                    chat.refuse(Rule::PlaceholderInAssistant, index, &facts.answers);
                }
            }
            if matches!(shown.role, Role::User | Role::ToolResult) {
                newest = Some(index);
            }
            sender.take(window, index, &mut |item| judges.iter_mut().for_each(|judge| judge.read(item)));
        }
        judges.iter_mut().for_each(|judge| judge.at = window.len());
        sender.close(window, window.len(), &mut |item| judges.iter_mut().for_each(|judge| judge.read(item)));
        judges.iter_mut().for_each(|judge| judge.end(terms));
        if let Some(index) = newest.filter(|index| window[*index].facts.placeholder) {
            judges[Wire::Chat as usize].refuse(Rule::PlaceholderLast, index, &window[index].facts.answers);
        }
        from
    }
}

fn error(wire: Wire, fault: &Fault, window: &[Arc<Shown>]) -> WireError {
    let index = fault.index.unwrap_or_default();
    let entry = fault.index.and_then(|index| window.get(index)).map_or(String::new(), |shown| shown.source.id().to_owned());
    WireError { wire, rule: fault.rule, index, entry, call: fault.call.to_string_lossy() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;
    use crate::wire::validate;

    #[test]
    fn a_reader_that_goes_on_says_what_one_that_begins_anew_says() {
        let system = r#"{"role":"system","content":"more"}"#;
        let failed = calls(&["c5"]).replace("toolUse", "error");
        let all = [
            USER,
            &calls(&["c1", "c2"]),
            system,
            &result("c1"),
            &result("c2"),
            ANSWER,
            &calls(&["c3"]),
            USER,
            &calls(&["c4"]),
            &result("c4"),
            &failed,
            &calls(&["c6"]),
            &result("c6"),
            USER,
        ];
        let full = window(&messages(&all));
        let others = window(&edited(messages(&[USER, &result("c4"), system, &calls(&["c4"]), &failed]), "m1", PLACEHOLDER));
        let mut reader = Reader::default();
        let (mut refusals, mut told) = (0, [0; 4]);
        for changed in 0..full.len() {
            for (other, shown) in others.iter().enumerate() {
                for end in [changed + 1, full.len()] {
                    let mut window = full.clone();
                    window[changed] = Arc::clone(shown);
                    window.truncate(end);
                    let anew = validate(&window);
                    refusals += usize::from(anew.is_err());
                    assert_eq!(reader.validate(&window), anew, "message {changed} is other {other}, of {end}");
                    let mut fresh = Reader::default();
                    let _ = fresh.validate(&window);
                    for wire in Wire::ALL {
                        let faults = &reader.memories[wire as usize].faults;
                        told[wire as usize] += faults.len();
                        assert_eq!(*faults, fresh.memories[wire as usize].faults, "message {changed} is other {other}, of {end}, on {wire:?}");
                    }
                    assert_eq!(reader.validate(&full[..end]), validate(&full[..end]), "the first {end}");
                    for wire in Wire::ALL {
                        let mut anew = Reader::default();
                        let _ = anew.validate(&full[..end]);
                        assert_eq!(reader.memories[wire as usize].faults, anew.memories[wire as usize].faults, "the first {end} on {wire:?}");
                    }
                }
            }
        }
        assert!(refusals > 20 && told.iter().all(|faults| *faults > 60), "only {refusals} refusals, {told:?} faults");
    }

    #[test]
    fn a_fault_is_told_of_once_and_again_only_when_what_stands_before_it_changed() {
        let call = by(Wire::Anthropic, &call("c1"), "toolUse");
        let lines = messages(&[USER, &call, &result("c1"), &call, &result("c1"), ANSWER, USER, ANSWER, USER]);
        let full = window(&lines);
        let mut reader = Reader::new(&Wire::ALL.map(|wire| format!("p/{wire:?}")));
        let mut told = |window: &[Arc<Shown>]| {
            let errors = reader.judge(window, &Terms::default());
            errors.into_iter().map(|error| (error.wire, error.rule, error.index)).collect::<Vec<_>>()
        };
        let reused = [(Wire::Anthropic, Rule::ReusedId, 3), (Wire::Responses, Rule::ReusedId, 3)];
        assert_eq!(told(&full[..7]), reused);
        assert_eq!(told(&full), [], "it was told of");
        let folded: Vec<_> = full[..1].iter().chain(&full[3..]).cloned().collect();
        assert_eq!(told(&folded), [], "the first one is hidden");
        assert_eq!(told(&full), reused);
        assert_eq!(told(&[]), [(Wire::Anthropic, Rule::NoMessages, 0), (Wire::Chat, Rule::NoMessages, 0), (Wire::Gemini, Rule::NoMessages, 0)]);
    }
}
