//! What pi-ai makes of a window, and how that differs from wire to wire.
//!
//! pi-ai leaves out failed answers, answers calls that nobody answered ("No result provided") as soon as an assistant or user message or
//! the end arrives, and holds a system message back until the calls before it are answered. A tool result whose call is gone passes
//! through it untouched. So far all wires are alike ([`send`]). Then each wire's adapter drops what it takes for empty and rewrites the
//! ids of other models' calls ([`leaves`], [`id`]). Read in pi-ai 1.6.0: `transform-messages.js` and the adapter of each wire.

use super::Wire;
use crate::shown::{Call, Shown, WireRole};
use fold_runtime::journal::StopReason;
use std::borrow::Cow;
use std::sync::Arc;

/// What pi-ai answers in a tool's place.
pub const NO_RESULT: &str = "No result provided";

/// The longest id that an adapter leaves another model's call, in bytes.
pub(super) const LONGEST_ID: usize = 64;

/// One message of a request.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A message of the window, by its index.
    Message(usize, &'a Shown),
    /// A result that pi-ai made up, and the index of the assistant message that called.
    Synthetic(usize, &'a Call),
}

impl Item<'_> {
    pub(super) fn index(&self) -> usize {
        match self {
            Item::Message(index, _) | Item::Synthetic(index, _) => *index,
        }
    }
}

/// pi-ai on its way through a window.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// The assistant message whose calls may still be unanswered.
    pub pending: Option<usize>,
    /// System messages that wait for those answers.
    pub held: Vec<usize>,
}

impl Sender {
    /// Calls `emit` with every message that leaves on some wire.
    pub fn take<'a>(&mut self, window: &'a [Arc<Shown>], index: usize, emit: &mut impl FnMut(Item<'a>)) {
        let shown: &'a Shown = &window[index];
        match shown.facts.wire {
            WireRole::Nothing => return,
            WireRole::Assistant => {
                self.close(window, index, emit);
                if matches!(shown.facts.stop, Some(StopReason::Error | StopReason::Aborted)) {
                    return;
                }
                self.pending = (!shown.facts.calls.is_empty()).then_some(index);
            }
            WireRole::User => self.close(window, index, emit),
            WireRole::System if self.pending.is_some() => return self.held.push(index),
            WireRole::System | WireRole::Tool => {}
        }
        emit(Item::Message(index, shown));
    }

    /// Answers what is unanswered before the message at `index`.
    pub fn close<'a>(&mut self, window: &'a [Arc<Shown>], index: usize, emit: &mut impl FnMut(Item<'a>)) {
        let Some(asked) = self.pending.take() else { return };
        for call in &window[asked].facts.calls {
            let answers = |shown: &Arc<Shown>| shown.facts.wire == WireRole::Tool && shown.facts.answers == call.id;
            if !window[asked + 1..index].iter().any(answers) {
                emit(Item::Synthetic(asked, call));
            }
        }
        for held in self.held.drain(..) {
            emit(Item::Message(held, &window[held]));
        }
    }
}

/// Calls `emit` with every message of the request a window becomes on the Chat wire, in order.
pub fn send<'a>(window: &'a [Arc<Shown>], emit: &mut impl FnMut(Item<'a>)) {
    let mut emit = |item: Item<'a>| match item {
        Item::Message(_, shown) if !shown.facts.sent => {}
        item => emit(item),
    };
    let mut sender = Sender::default();
    for index in 0..window.len() {
        sender.take(window, index, &mut emit);
    }
    sender.close(window, window.len(), &mut emit);
}

/// Whether a message that [`Sender`] emits leaves on a wire, whose model is called `own`. Reasoning leaves for the model it came from alone.
pub(super) fn leaves(wire: Wire, own: u64, shown: &Shown) -> bool {
    let facts = &shown.facts;
    match (wire, facts.wire) {
        // A string of white space is dropped here as well as a block of it.
        (Wire::Anthropic, WireRole::User) => !facts.blank,
        // Empty blocks are not: only an empty list stays at home.
        (Wire::Responses | Wire::Gemini, WireRole::User) => facts.blocks > 0 || facts.sent,
        (Wire::Anthropic | Wire::Gemini, WireRole::Assistant) if facts.model == own => {
            facts.sent || facts.signed.reasoning.is_some() || facts.bytes.thinking > 0
        }
        // Unsigned reasoning has no item to stand in.
        (Wire::Responses, WireRole::Assistant) if facts.model == own => facts.sent || facts.signed.reasoning.is_some(),
        _ => facts.sent,
    }
}

/// The id of a call as it leaves: the one the model gave, or what the adapter makes of another model's.
///
/// Every UTF-16 unit outside `[a-zA-Z0-9_-]` becomes `_`, and what is longer than 64 is cut. On the Responses wire a call's id is
/// `call|item`, of which the first half is the call's. The Chat wire knows no such ids; a Gemini pairs by place and name.
pub(super) fn id(wire: Wire, foreign: bool, id: &[u8]) -> Cow<'_, [u8]> {
    match wire {
        Wire::Anthropic if foreign && !is_plain(id) => Cow::Owned(plain(id)),
        Wire::Responses => {
            let call = id.split(|byte| *byte == b'|').next().unwrap_or_default();
            if !foreign || is_plain(call) {
                return Cow::Borrowed(call);
            }
            let mut call = plain(call);
            call.truncate(call.iter().rposition(|byte| *byte != b'_').map_or(0, |last| last + 1));
            Cow::Owned(call)
        }
        Wire::Anthropic | Wire::Chat | Wire::Gemini => Cow::Borrowed(id),
    }
}

/// Whether an id is as Anthropic wants it.
pub(super) fn is_plain(id: &[u8]) -> bool {
    id.len() <= LONGEST_ID && id.iter().all(|byte| is_word(*byte))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn plain(id: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(id.len());
    for byte in id {
        match byte {
            byte if is_word(*byte) => out.push(*byte),
            // The bytes after the first of a character: it has been replaced.
            0x80..=0xbf => {}
            0xf0.. => out.extend(b"__"),
            _ => out.push(b'_'),
        }
    }
    out.truncate(LONGEST_ID);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;

    #[test]
    fn what_is_empty_leaves_on_one_wire_and_not_on_another() {
        let on = |message: &str| {
            let window = window(&messages(&[message]));
            Wire::ALL.map(|wire| leaves(wire, OWN[wire as usize], &window[0]))
        };
        let user = |content: &str| format!(r#"{{"role":"user","content":{content}}}"#);
        //                                           Anthropic, Responses, Chat, Gemini
        assert_eq!(on(&user("\"\"")), [false, true, true, true]);
        assert_eq!(on(&user(r#"[{"type":"text","text":""}]"#)), [false, true, false, true]);
        assert_eq!(on(&user("[]")), [false; 4]);
        assert_eq!(on(&user("\"go\"")), [true; 4]);
        let thinks = |wire: Wire| by(wire, &thinking("hm", "c2ln"), "stop");
        assert_eq!(on(&thinks(Wire::Anthropic)), [true, false, false, false]);
        assert_eq!(on(&thinks(Wire::Responses)), [false, true, false, false]);
        assert_eq!(on(&thinks(Wire::Chat)), [false; 4]);
        assert_eq!(on(&thinks(Wire::Gemini)), [false, false, false, true]);
        assert_eq!(on(&by(Wire::Responses, &thinking("hm", ""), "stop")), [false; 4], "nothing is signed");
    }

    #[test]
    fn the_ids_of_another_models_calls_are_rewritten_and_a_models_own_are_not() {
        let anthropic = |foreign, text: &str| String::from_utf8(id(Wire::Anthropic, foreign, text.as_bytes()).into_owned()).expect("text");
        assert_eq!(anthropic(true, "call_1|fc+é𝄞"), "call_1_fc____");
        assert_eq!(anthropic(false, "call_1|fc"), "call_1|fc");
        assert_eq!(anthropic(true, &"x".repeat(70)).len(), LONGEST_ID);
        let responses = |foreign, text: &str| String::from_utf8(id(Wire::Responses, foreign, text.as_bytes()).into_owned()).expect("text");
        assert_eq!((responses(false, "call.1|fc_1").as_str(), responses(true, "call.1.|fc_1").as_str()), ("call.1", "call_1"));
        assert_eq!(id(Wire::Chat, true, b"a.b").as_ref(), b"a.b");
    }
}
