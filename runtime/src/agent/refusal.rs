//! Why a call was not carried out. A refused call changes nothing.

use super::Action;
use crate::fold::{Bound, disarm, fit};
use std::fmt;

/// How much of an id or a word a refusal repeats, in characters: a caller may have sent a megabyte.
const NAMED: usize = 80;
/// The longest rule, in characters.
const RULE: usize = 400;

/// A call that was refused: what it was about, the rule, and a call that works instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The id, field or action that was refused, at most 80 characters of it, without control characters.
    pub subject: String,
    /// The rule, in words.
    pub rule: String,
    /// A call that would be carried out. Where the arguments could not be read no session was asked yet: then it is the call that was
    /// meant, as far as that can be told.
    pub call: Action,
}

impl Refusal {
    pub(super) fn new(subject: &str, rule: impl Into<String>, call: Action) -> Self {
        // A rule may repeat what a parser said of its input.
        Refusal { subject: told(subject, NAMED), rule: told(&rule.into(), RULE), call }
    }
}

/// What a caller sent, short enough to repeat and without anything that acts.
fn told(text: &str, chars: usize) -> String {
    disarm(&fit(text, Bound { chars, bytes: usize::MAX }))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused \"{}\": {}. This works: pi_fold_context {}", self.subject, self.rule, self.call.call())
    }
}

impl std::error::Error for Refusal {}
