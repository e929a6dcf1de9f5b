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
    /// A message that the model sees from then on.
    CustomMessage {
        /// Whose message.
        custom_type: &'static str,
        /// JSON text of the content.
        content: String,
    },
    /// Replaces (JSON text of the content) or omits (`None`) an earlier entry.
    ContextEdit {
        /// The entry's id.
        target: String,
        /// The new content.
        replacement: Option<String>,
    },
}

impl Draft {
    /// The fields of the entry that the host makes of it, as JSON text without the braces; the host adds its own (id, parent, time).
    ///
    /// ```
    /// use fold_runtime::session::Draft;
    /// let omission = Draft::ContextEdit { target: "a1".to_owned(), replacement: None };
    /// assert_eq!(omission.fields(), r#""type":"context_edit","targetId":"a1","replacement":null"#);
    /// ```
    pub fn fields(&self) -> String {
        match self {
            Draft::Custom { custom_type, data } => format!(r#""type":"custom","customType":"{custom_type}","data":{data}"#),
            Draft::CustomMessage { custom_type, content } => {
                format!(r#""type":"custom_message","customType":"{custom_type}","content":{content},"display":true"#)
            }
            Draft::ContextEdit { target, replacement } => {
                let target = serde_json::Value::from(target.as_str());
                let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
                format!(r#""type":"context_edit","targetId":{target},"replacement":{replacement}"#)
            }
        }
    }
}

/// When the host asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// At a turn's end.
    TurnEnd,
    /// The agent is about to settle.
    Settling,
    /// A request is about to leave and there was no boundary since the branch grew, or the record that one asked for never came onto the branch.
    Request,
    /// The provider refused the last request for its size.
    Refused,
    /// A person asks for it, with or without a run.
    Asked,
}

impl Moment {
    /// How many edits may be appended now to a branch of so many entries: the host's cost for each grows with the branch, and its screen
    /// stands still meanwhile. What is left is shown by the overlay.
    pub fn edits(self, entries: usize) -> usize {
        let at_once = (1_000_000 / entries.max(1)).max(20);
        match self {
            Moment::TurnEnd | Moment::Refused => at_once,
            Moment::Settling => at_once.saturating_mul(10),
            Moment::Request | Moment::Asked => 0,
        }
    }
}

/// What a boundary decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Occupancy is below the trigger.
    Quiet,
    /// The trigger is reached, but nothing is done, for this reason.
    Deferred(Deferral),
    /// Nothing new, but edits that a commit promised are still to be written. They change nothing that is shown.
    Recovery(Recovery),
    /// The band is near, and the settings ask that this is said.
    Notice {
        /// The message to append.
        draft: Draft,
    },
    /// One rewrite of what is shown.
    Commit(Commit),
}

/// Edits that were promised earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// As many of them as may be written now, in the order of writing.
    pub drafts: Vec<Draft>,
    /// How many are left after these.
    pub left: usize,
    /// Why no commit came with them, where the trigger was reached.
    pub deferral: Option<Deferral>,
}

/// A request that must not leave; tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverFence {
    /// What it is estimated to hold.
    pub estimate: u64,
    /// How far off that may be.
    pub margin: u64,
    /// The budget.
    pub budget: u64,
    /// The model's context window.
    pub window: u64,
    /// The heaviest entry that is shown, and its tokens.
    pub largest: Option<(String, u64)>,
}

impl std::fmt::Display for OverFence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OverFence { estimate, margin, budget, window, .. } = self;
        write!(
            f,
            "the request was not sent: it holds about {estimate} tokens (give or take {margin}), which leaves no room in a budget of {budget} and a context window of {window}, and nothing is left to fold or to clip"
        )?;
        if let Some((entry, tokens)) = &self.largest {
            write!(f, "; the heaviest entry in it is {entry} with about {tokens} tokens")?;
        }
        f.write_str(". Take a model with a larger context window, go back before that entry, or compact")
    }
}

impl std::error::Error for OverFence {}

/// What made a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// Occupancy reached the band's upper edge.
    Band,
    /// The next request would not have fitted.
    Fence,
    /// The provider refused the last request for its size.
    Overflow,
    /// A person asked: every mark, no floor.
    Person,
    /// Another extension tore apart what is folded: it is put together again.
    Recovery,
    /// Peeks that were read make way for one line each.
    Peek,
    /// One level of a fold is shown, or it is dissolved, because somebody asked for it.
    Expand,
    /// Expanded folds are shown as they were.
    Refold,
}

impl Trigger {
    const ALL: [Trigger; 8] =
        [Trigger::Band, Trigger::Fence, Trigger::Overflow, Trigger::Person, Trigger::Recovery, Trigger::Peek, Trigger::Expand, Trigger::Refold];

    /// The word of the journal as one of ours; a record may say another.
    pub(super) fn word(said: &str) -> &'static str {
        Trigger::ALL.into_iter().map(Trigger::name).find(|name| *name == said).unwrap_or("another record")
    }

    /// Whether the next request would be refused without it: then it spares nothing, and nothing that was withdrawn.
    pub(super) fn is_urgent(self) -> bool {
        matches!(self, Trigger::Fence | Trigger::Overflow)
    }

    /// The word for it in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Band => "band",
            Trigger::Fence => "fence",
            Trigger::Overflow => "overflow",
            Trigger::Person => "person",
            Trigger::Recovery => "recovery",
            Trigger::Peek => "peek",
            Trigger::Expand => "expand",
            Trigger::Refold => "refold",
        }
    }
}

/// A commit, as drafts and as numbers (tokens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The record first, then as many edits as may be written now, in an order in which every prefix keeps calls and results paired.
    pub drafts: Vec<Draft>,
    /// How many promised edits are left to later boundaries; the overlay shows them meanwhile.
    pub left: usize,
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
    /// Expanded folds that it closes first, by a record of their own.
    pub refolded: usize,
    /// User messages it hides.
    pub hidden_users: usize,
    /// Entries it clips.
    pub clips: usize,
    /// What keeps it above its target, if it is.
    pub shortfall: Option<Shortfall>,
}

impl Commit {
    /// The record, which is the whole change, behind that of the folds it closes first, if it closes any. Appended by themselves they make the
    /// commit; the overlay shows it, and later boundaries give the edits. A host does that where another extension dropped its last boundary,
    /// which nobody can do to an entry of its own.
    pub fn records(&self) -> &[Draft] {
        let records = self.drafts.iter().take_while(|draft| matches!(draft, Draft::Custom { .. })).count();
        &self.drafts[..records]
    }

    /// Whether the host is to send the request again, which the provider refused for its size. Nothing else continues a run; and this
    /// not either, where a person has stopped it meanwhile.
    pub fn asks_again(&self) -> bool {
        self.trigger == Trigger::Overflow
    }
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
    /// A commit made room for a request that was refused for its size, and the provider refused the next one too. The run ends, and a
    /// person is told; see [`super::Session::refused_again`].
    RefusedAgain,
    /// Nothing is done unasked after an internal error.
    Suspended,
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
            Deferral::RefusedAgain => "refused again",
            Deferral::Suspended => "suspended",
        }
    }
}
