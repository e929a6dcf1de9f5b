//! What leaves for a provider, and whether it would be accepted.
//!
//! Between a window and a request stands pi-ai ([`send`]). What comes of it is judged by the rules of four wires, each in its own words,
//! and by rules about what stands in an edited message. A session may go on with another model at any time, so every request is read by
//! all of them ([`Reader`]). Only facts cached in [`Shown`] are read, and of a request only what changed.
//!
//! | where | what |
//! |---|---|
//! | [`mod@send`] | what pi-ai leaves out, makes up and renames |
//! | `judge` | what all wires have in common: calls and their results, counted along |
//! | [`anthropic`], [`responses`], `chat`, [`gemini`] | the rules of one wire, its limits and its words |
//! | `reader` | four providers that read on from what is known |
//! | `chain` | a request as its prefixes, for a cache |
//! | [`reasoning`] | signed reasoning that a rewrite loses |

pub mod anthropic;
mod chain;
mod chat;
#[cfg(test)]
mod fixtures;
pub mod gemini;
mod judge;
mod reader;
pub mod reasoning;
pub mod responses;
pub mod send;

pub use chain::{Chain, Link, Piece};
pub use reader::Reader;
pub use send::{Item, NO_RESULT, send};

use crate::shown::Shown;
use std::fmt;
use std::sync::Arc;

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and whoever speaks it.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

impl Wire {
    /// All of them.
    pub const ALL: [Wire; 4] = [Wire::Anthropic, Wire::Responses, Wire::Chat, Wire::Gemini];
}

/// What a request is sent under, beside its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the model holds, in tokens.
    pub context_window: u64,
    /// Markers for the cache, on the wire that has them.
    pub markers: u32,
}

impl Terms {
    /// As pi-ai sends it: one marker each on the system prompt, the last tool and the last user message.
    pub fn new(context_window: u64) -> Self {
        Terms { context_window, markers: 3 }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Terms::new(200_000)
    }
}

/// Why a provider refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A call has no result before the next message.
    MissingResult,
    /// A result has no call before it.
    OrphanResult,
    /// A call has two results.
    RepeatedResult,
    /// A call or a result has no id.
    EmptyId,
    /// A call names no tool.
    EmptyName,
    /// Two calls of one message have one id.
    RepeatedId,
    /// The arguments of a call are no JSON object.
    Arguments,
    /// An id or a name is no Unicode text.
    BrokenName,
    /// The last message is the assistant's: there is nothing to answer.
    AssistantLast,
    /// There is nothing but a system prompt.
    NoMessages,
    /// An edit left a message with nothing in it, which several wires refuse.
    EmptyEdit,
    /// A placeholder stands in an assistant message, where one wire or another drops, refuses or imitates it.
    PlaceholderInAssistant,
    /// A placeholder stands in the last user message or tool result.
    PlaceholderLast,
    /// A call has the id of an earlier message's.
    ReusedId,
    /// An item has the id of an earlier one.
    ReusedItem,
    /// An id is no word of at most 64 letters, digits, `_` and `-`.
    BadId,
    /// The arguments of a call are no Unicode text.
    BrokenArguments,
    /// The first message is the assistant's.
    FirstNotUser,
    /// A turn of calls stands right behind another turn of the assistant's.
    CallTurn,
    /// There are more or fewer results than calls.
    ResultCount,
    /// A result is of a tool that was not called.
    ResultName,
    /// A text, or a message, has nothing in it.
    EmptyText,
    /// Signed reasoning is followed by nothing it led to.
    ReasoningAlone,
    /// The signature of what is left of an answer was taken away.
    Torn,
    /// The request holds too many images.
    TooManyImages,
    /// The request holds too many markers for the cache.
    TooManyMarkers,
    /// The request holds too many bytes.
    BodyTooLarge,
}

impl fmt::Display for Rule {
    /// For a wire that has no words of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused by the rule {self:?}")
    }
}

/// A refusal: which wire, which rule, which message, which entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The wire.
    pub wire: Wire,
    /// The rule.
    pub rule: Rule,
    /// The index of the message in the window; 0 where the request as a whole is refused.
    pub index: usize,
    /// The id of the entry it comes from; empty where there is no message.
    pub entry: String,
    /// The call id, where the rule is about one.
    pub call: String,
}

impl fmt::Display for WireError {
    /// The wire's own words, as far as they are known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wire {
            Wire::Anthropic => anthropic::words(self, f),
            Wire::Responses => responses::words(self, f),
            Wire::Chat => chat::words(self, f),
            Wire::Gemini => gemini::words(self, f),
        }
    }
}

impl std::error::Error for WireError {}

/// Whether the Chat wire would take the request this window becomes.
///
/// # Errors
/// [`WireError`], for the first rule that is broken.
pub fn validate(window: &[Arc<Shown>]) -> Result<(), WireError> {
    Reader::default().validate(window)
}
