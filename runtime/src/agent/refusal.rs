//! Why a call was not carried out. A refused call changes nothing.

use super::Action;
use crate::fold::{Bound, disarm, fit};
use std::fmt;

/// How much of an id or a word a refusal repeats, in characters: a caller may have sent a megabyte.
const NAMED: usize = 80;

/// A call that was refused: what it was about, the rule, and a call that works instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The id, field or action that was refused, at most 80 characters of it, without control characters.
    pub subject: String,
    /// The rule, in words.
    pub rule: String,
    /// A call that would be carried out.
    pub call: Action,
}

impl Refusal {
    pub(super) fn new(subject: &str, rule: impl Into<String>, call: Action) -> Self {
        Refusal { subject: named(subject), rule: named_rule(rule.into()), call }
    }
}

/// What a caller sent, short enough to repeat and without anything that acts.
fn named(subject: &str) -> String {
    disarm(&fit(subject, Bound { chars: NAMED, bytes: usize::MAX }))
}

/// A rule may end with what a parser said, which repeats its input.
fn named_rule(rule: String) -> String {
    disarm(&fit(&rule, Bound { chars: NAMED * 5, bytes: usize::MAX }))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused \"{}\": {}. This works: pi_fold_context {}", self.subject, self.rule, self.call.call())
    }
}

impl std::error::Error for Refusal {}
