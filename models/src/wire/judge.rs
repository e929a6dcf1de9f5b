//! A provider reading a request, one message after another: what all wires have in common, and where each says its own.

use super::send::{self, Item};
use super::{Rule, Terms, Wire, anthropic, chat, gemini, responses};
use crate::hash::hash;
use crate::shown::{Shown, WireRole};
use fold_runtime::journal::Text;
use std::collections::BTreeSet;

/// A rule that a message breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub rule: Rule,
    /// The index of the message in the window; of none where the request as a whole is at fault.
    pub index: Option<usize>,
    /// The call or item it is about.
    pub call: Text,
    /// The message at which it showed; the end of the window where it showed at the end.
    pub at: usize,
}

/// What a provider keeps of all it has read, and takes back message by message.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    ids: BTreeSet<u64>,
    order: Vec<(usize, u64)>,
    pub faults: Vec<Fault>,
}

impl Memory {
    /// Keeps an id; whether it is new.
    fn keep(&mut self, at: usize, id: u64) -> bool {
        let new = self.ids.insert(id);
        if new {
            self.order.push((at, id));
        }
        new
    }

    /// Forgets what came with the messages from here on.
    pub fn back_to(&mut self, at: usize) {
        while let Some((_, id)) = self.order.pop_if(|(kept, _)| *kept >= at) {
            self.ids.remove(&id);
        }
        self.faults.truncate(self.faults.partition_point(|fault| fault.at < at));
    }
}

/// What is known before a message, in a few words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// The message whose calls are answered, with no message after the answers.
    pub batch: Option<usize>,
    /// The newest message that is not the system's.
    pub last: Option<(usize, WireRole)>,
    /// Images and bytes of content so far.
    pub images: u64,
    pub bytes: u64,
    /// An answer that an edit took the signature from, as far as it still matters.
    pub torn: Option<usize>,
}

/// JSON around a message's content, in bytes.
const FRAME: u64 = 64;

/// One provider.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub wire: Wire,
    /// What its own model is called.
    pub own: u64,
    pub state: State,
    /// The message that called, and which of its calls are answered.
    batch: Option<(usize, &'a Shown)>,
    answered: Vec<bool>,
    /// Results that came for the batch.
    pub results: usize,
    memory: &'a mut Memory,
    /// The message of the window that is read now.
    pub at: usize,
}

impl<'a> Judge<'a> {
    pub fn new(wire: Wire, own: u64, state: State, asked: Option<&'a Shown>, memory: &'a mut Memory) -> Self {
        let batch = state.batch.zip(asked);
        let calls = batch.map_or(0, |(_, asked)| asked.facts.calls.len());
        Judge { wire, own, state, batch, answered: vec![true; calls], results: calls, memory, at: 0 }
    }

    /// What is to be known later; nothing while calls wait for their results.
    pub fn settled(&self) -> Option<State> {
        let whole = match self.batch {
            Some(_) if self.wire == Wire::Gemini => self.results == self.answered.len(),
            Some(_) => self.answered.iter().all(|answered| *answered),
            None => true,
        };
        whole.then_some(State { batch: self.batch.map(|(index, _)| index), ..self.state })
    }

    pub fn refuse(&mut self, rule: Rule, index: usize, call: &Text) {
        self.memory.faults.push(Fault { rule, index: Some(index), call: call.clone(), at: self.at });
    }

    /// Refuses the request as a whole.
    pub fn refuse_all(&mut self, rule: Rule) {
        self.memory.faults.push(Fault { rule, index: None, call: Text::default(), at: self.at });
    }

    pub fn read(&mut self, item: Item<'a>) {
        let role = match item {
            Item::Message(_, shown) if !send::leaves(self.wire, self.own, shown) => return,
            Item::Message(index, shown) => {
                let facts = &shown.facts;
                if facts.wire == WireRole::Tool {
                    self.result(index, &facts.answers, Some(&facts.tool))
                } else {
                    self.end_batch()
                }
                if facts.broken_name {
                    self.refuse(Rule::BrokenName, index, &Text::default());
                }
                self.state.images += facts.images;
                self.state.bytes += shown.content().len() as u64 + FRAME;
                match self.wire {
                    Wire::Anthropic => anthropic::message(self, index, shown),
                    Wire::Responses => responses::message(self, index, shown),
                    Wire::Chat => {}
                    Wire::Gemini => gemini::message(self, index, shown),
                }
                if facts.wire == WireRole::Assistant {
                    self.calls(index, shown);
                }
                facts.wire
            }
            Item::Synthetic(index, call) => {
                self.result(index, &call.id, None);
                WireRole::Tool
            }
        };
        if role != WireRole::System {
            self.state.last = Some((item.index(), role));
        }
    }

    /// Whether an answer is another model's.
    pub fn foreign(&self, shown: &Shown) -> bool {
        shown.facts.model != self.own
    }

    /// Keeps the id of a call or of an item; whether no message before had it.
    pub fn keep(&mut self, index: usize, kind: u64, id: &[u8]) -> bool {
        self.memory.keep(index, hash(kind, id))
    }

    fn calls(&mut self, index: usize, shown: &'a Shown) {
        let (calls, wire, foreign) = (&shown.facts.calls, self.wire, self.foreign(shown));
        for (at, call) in calls.iter().enumerate() {
            let id = send::id(wire, foreign, call.id.as_bytes());
            let repeated = || calls[..at].iter().any(|earlier| send::id(wire, foreign, earlier.id.as_bytes()) == id);
            // A Gemini pairs by place and name, and takes what it is called.
            let rule = if wire != Wire::Gemini && id.is_empty() {
                Rule::EmptyId
            } else if call.name.as_bytes().is_empty() {
                Rule::EmptyName
            } else if wire != Wire::Gemini && repeated() {
                Rule::RepeatedId
            } else if wire != Wire::Responses && !call.object {
                Rule::Arguments
            } else {
                continue;
            };
            self.refuse(rule, index, &call.id);
        }
        if !calls.is_empty() {
            self.batch = Some((index, shown));
            self.answered.clear();
            self.answered.resize(calls.len(), false);
            self.results = 0;
        }
    }

    /// A result, of the tool of that name; pi-ai names the tool right in what it makes up.
    fn result(&mut self, index: usize, id: &Text, tool: Option<&Text>) {
        self.results += 1;
        if self.wire == Wire::Gemini {
            let asked = self.batch.map(|(_, asked)| asked);
            return gemini::answered(self, index, asked, id, tool);
        }
        let call = self.batch.and_then(|(_, asked)| {
            let foreign = self.foreign(asked);
            let wanted = send::id(self.wire, foreign, id.as_bytes());
            asked.facts.calls.iter().position(|call| send::id(self.wire, foreign, call.id.as_bytes()) == wanted)
        });
        match call {
            _ if id.as_bytes().is_empty() => self.refuse(Rule::EmptyId, index, id),
            None => self.refuse(Rule::OrphanResult, index, id),
            Some(call) if self.answered[call] => self.refuse(Rule::RepeatedResult, index, id),
            Some(call) => self.answered[call] = true,
        }
    }

    fn end_batch(&mut self) {
        let Some((index, asked)) = self.batch.take() else { return };
        if self.wire == Wire::Gemini {
            if self.results != asked.facts.calls.len() {
                self.refuse(Rule::ResultCount, index, &Text::default());
            }
        } else if let Some(call) = self.answered.iter().position(|answered| !answered) {
            self.refuse(Rule::MissingResult, index, &asked.facts.calls[call].id);
        }
    }

    /// The request ends here.
    pub fn end(&mut self, terms: &Terms) {
        self.end_batch();
        match self.wire {
            Wire::Anthropic => anthropic::end(self, terms),
            Wire::Responses => responses::end(self),
            Wire::Chat => chat::end(self),
            Wire::Gemini => gemini::end(self),
        }
    }

    /// The last message is the assistant's, or there is none at all.
    pub fn nothing_to_answer(&mut self) {
        match self.state.last {
            None => self.refuse(Rule::NoMessages, 0, &Text::default()),
            Some((index, WireRole::Assistant)) => self.refuse(Rule::AssistantLast, index, &Text::default()),
            Some(_) => {}
        }
    }
}
