//! What a boundary answers, as values: a no-op has a reason from a closed list, never silence.

use super::shortfall::Shortfall;

/// An entry the host is asked to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draft {
    /// State, never in context: custom type and JSON data.
    Custom {
        /// Whose state.
        custom_type: &'static str,
        /// JSON text.
        data: String,
    },
    /// Replaces (JSON text of the content) or omits (`None`) an earlier entry.
    ContextEdit {
        /// The entry's id.
        target: String,
        /// The new content.
        replacement: Option<String>,
    },
}

/// What a boundary decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Occupancy is below the trigger.
    Quiet,
    /// The trigger is reached, but nothing is done, for this reason.
    Deferred(Deferral),
    /// One rewrite of what is shown.
    Commit(Commit),
}

/// What made a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// Occupancy reached the band's upper edge.
    Band,
    /// The next request would not have fitted.
    Fence,
}

impl Trigger {
    /// The word for it in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Band => "band",
            Trigger::Fence => "fence",
        }
    }
}

/// A commit, as drafts and as numbers (tokens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The record first, then the edits, in an order in which every prefix keeps calls and results paired.
    pub drafts: Vec<Draft>,
    /// Why now.
    pub trigger: Trigger,
    /// Occupancy before.
    pub before: u64,
    /// The occupancy it aims at.
    pub target: u64,
    /// The occupancy it is estimated to leave, clips not counted; above `target` when no more can be folded.
    pub after: u64,
    /// Folds it makes, parents included.
    pub folds: usize,
    /// How many of them contain others.
    pub parents: usize,
    /// User messages it hides.
    pub hidden_users: usize,
    /// Entries it clips.
    pub clips: usize,
    /// What keeps it above its target, if it is.
    pub shortfall: Option<Shortfall>,
}

/// Why a boundary at the trigger did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deferral {
    /// No good answer has followed the last change of what is shown, so the true count is not known.
    WaitingForAnswer,
    /// Less than 5% of the budget was appended since the last commit.
    Rearm,
    /// No mark would free anything.
    NothingRipe,
    /// No mark would free anything, and something ripe is held by choice.
    NothingButHeld,
    /// All marks together free less than 2% of the budget.
    BelowFloor,
}

impl Deferral {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Deferral::WaitingForAnswer => "waiting",
            Deferral::Rearm => "rearm",
            Deferral::NothingRipe => "nothing ripe",
            Deferral::NothingButHeld => "nothing but held",
            Deferral::BelowFloor => "below the floor",
        }
    }
}
