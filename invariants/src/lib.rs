//! What must always hold, written apart from what it checks.
//!
//! A checker is fed by observation (journal, requests, what a fold gives back), never by the runtime's own opinion of itself.
//!
//! | where | what |
//! |---|---|
//! | [`mod@reference`] | the naive reference: the whole decision from the whole branch, every time, by the fold law alone |
//! | [`reference::mask`] | the same of masking, and the rules that no batch may break |
//! | [`window`] | what may change between two requests, and who must have said so |
//! | [`commit`] | what a commit may promise and write: folds, placeholders, edits, sizes |
//! | [`asked`] | what the tool may do about a fold that somebody asked it to open, close or cut anew |
//! | [`map`] | what a person is shown of the window |
//! | [`owed`] | which arm of a comparison owes which invariant, and how often each is looked at |
//! | [`probes`] | proof that a check was exercised: named counters that must not stay at zero |

pub mod asked;
pub mod commit;
pub mod map;
mod others;
pub mod owed;
pub mod probes;
pub mod reference;
mod turned;
pub mod window;

/// Something that must never happen happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub seen: String,
}

impl Broken {
    /// A broken invariant in words.
    pub fn new(invariant: &'static str, expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Broken { invariant, expected: expected.into(), seen: seen.into() }
    }
}
