//! Observation masking: under pressure, old tool results give way to one line each, in one batch.
//!
//! The second layer of pi-compaction, written anew. It keeps no state of its own: an entry is masked if its newest edit is a placeholder, so a session
//! that is opened again, forked or navigated is read back from its journal. Originals stay there untouched.
//!
//! **What is replaced** is the content of a tool result and nothing else: calls keep their results, images in a result go with its text, and both come
//! back whole through [`Masker::recover`]. **When**: at a turn's end, where the occupancy reaches the trigger; the oldest results go first, until the
//! target is reached or none is left; and where that would free less than the floor, nothing is done, so that a rewrite of the cached prefix is
//! rare. **What stays**: everything from the oldest of the newest `keepRecentTurns` good answers on (an answer that failed is no turn, or a run of
//! errors would give away what was never read), the last word of a person or a tool (a request must not end with a placeholder), words of people and models, excluded tools, what a `SKILL.md` said, results of few tokens or not
//! heavier than their line, what anybody edited, and what a compaction has left out.
//!
//! Pi's own compaction stays behind it as the last resort; nothing here holds it back.
//!
//! | where | what |
//! |---|---|
//! | here | observing entries, deciding at a turn's end |
//! | `settings` | the options, and the thresholds in tokens |
//! | `shown` | what the branch shows and weighs |
//! | `text` | the line that stands where a result was |
//! | `query` | originals given back |

mod query;
mod settings;
mod shown;
mod text;

pub use query::{IDS, QUERY_BYTES, Query, QueryError, Recovered};
pub use settings::{Settings, Thresholds};
pub use text::{PREFIX, QUERY_TOOL, is_placeholder, placeholder};

use crate::journal::{BlockKind, Entry, Kind, Role, Text};
use crate::session::Draft;
use crate::window::{IMAGE_TOKENS, Size};
use serde_json::Value;
use shown::{Did, Shown, replaced};
use std::collections::{BTreeMap, BTreeSet};

/// The file whose content an agent is to keep in sight.
const SKILL: &str = "SKILL.md";

/// Masking's view of one branch.
#[derive(Clone, Debug)]
pub struct Masker {
    settings: Settings,
    thresholds: Thresholds,
    shown: Shown,
    /// Calls of the newest answer that read a skill, by id.
    skill_calls: BTreeSet<Text>,
    /// What they answered.
    skills: BTreeSet<usize>,
    /// Results that no rule but age and weight keeps, in branch order, with the bytes of their lines.
    candidates: BTreeMap<usize, u64>,
    /// Tool results by call; a call's id may be used again.
    calls: BTreeMap<String, Vec<usize>>,
}

/// What a turn's end decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Occupancy is below the trigger, or masking is off.
    Quiet,
    /// The trigger is reached, but nothing is done, for this reason.
    Deferred(Deferral),
    /// One rewrite of what is shown.
    Mask(Batch),
}

/// Why nothing is masked at the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deferral {
    /// Every result is protected by a rule.
    NothingEligible,
    /// All that could be masked frees less than the floor.
    BelowFloor,
}

impl Deferral {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Deferral::NothingEligible => "nothing to mask",
            Deferral::BelowFloor => "below the floor",
        }
    }
}

/// A batch, as drafts and as numbers (tokens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// One edit for each result, the oldest first. Each stands by itself: whatever part of them is written is a valid window, and the rest is decided
    /// anew. All of them are written at once, because a part would be a rewrite too.
    pub drafts: Vec<Draft>,
    /// Occupancy before.
    pub before: u64,
    /// The occupancy it aims at.
    pub target: u64,
    /// The occupancy it is estimated to leave; above `target` where nothing eligible is left.
    pub after: u64,
}

impl Masker {
    /// Opens a branch for a model with this context window, in tokens. Other settings, or another model, are another opening.
    ///
    /// # Errors
    /// A sentence where the thresholds do not lie apart; see [`Thresholds::new`].
    ///
    /// ```
    /// use fold_runtime::mask::{Decision, Masker, Settings};
    /// let masker = Masker::open(&[], &Settings::default(), 200_000)?;
    /// assert_eq!(masker.boundary(), Decision::Quiet);
    /// # Ok::<(), String>(())
    /// ```
    pub fn open(branch: &[Entry], settings: &Settings, window: u64) -> Result<Self, String> {
        let mut masker = Masker {
            settings: settings.clone(),
            thresholds: Thresholds::new(settings, window)?,
            shown: Shown::default(),
            skill_calls: BTreeSet::new(),
            skills: BTreeSet::new(),
            candidates: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        branch.iter().for_each(|entry| masker.observe(entry));
        Ok(masker)
    }

    /// Takes the next entry of the branch. Costs what the entry costs; a compaction costs what it changes.
    pub fn observe(&mut self, entry: &Entry) {
        match self.shown.observe(entry) {
            Did::Followed(at) => match entry.kind() {
                Kind::Message(Role::Assistant(_)) => self.skill_calls = skill_calls(entry),
                Kind::Message(Role::ToolResult { call_id, .. }) => {
                    if self.skill_calls.contains(call_id) {
                        self.skills.insert(at);
                    }
                    self.calls.entry(text::call_key(&call_id.to_string_lossy())).or_default().push(at);
                    self.judge(at);
                }
                _ => {}
            },
            Did::Edited(at) => self.judge(at),
            Did::Compacted => {
                self.candidates.clear();
                self.shown.in_context().for_each(|at| self.judge(at));
            }
            Did::Nothing => {}
        }
    }

    /// Notes whether anything but age and weight keeps an entry as it is.
    fn judge(&mut self, at: usize) {
        match self.line_for(at) {
            Some(bytes) => self.candidates.insert(at, bytes),
            None => self.candidates.remove(&at),
        };
    }

    /// The bytes of the line that may stand for an entry; `None` where it has to stay.
    fn line_for(&self, at: usize) -> Option<u64> {
        let entry = &self.shown.entries[at];
        let Kind::Message(Role::ToolResult { tool, .. }) = entry.kind() else { return None };
        let stays = !self.shown.in_context().contains(&at)
            || self.shown.newest_edit(at).is_some()
            || self.skills.contains(&at)
            || self.settings.exclude_tools.contains(&tool.to_string_lossy());
        let bytes = placeholder(entry).filter(|_| !stays)?.len() as u64;
        (bytes < self.shown.size(at).weight()).then_some(bytes)
    }

    /// Decides what to append at a turn's end. Below the trigger this costs the same however long the session is; at the trigger it looks at the
    /// results in the window.
    pub fn boundary(&self) -> Decision {
        let before = self.shown.occupancy.tokens();
        if !self.settings.enabled || before < self.thresholds.trigger {
            return Decision::Quiet;
        }
        let (mut foreseen, mut after) = (self.shown.occupancy.clone(), before);
        let mut drafts = Vec::new();
        for (at, bytes) in self.eligible() {
            if after <= self.thresholds.target {
                break;
            }
            replaced(&mut foreseen, self.shown.size(at), Size { bytes, images: 0 });
            after = foreseen.tokens();
            drafts.extend(self.draft(at));
        }
        if drafts.is_empty() {
            Decision::Deferred(Deferral::NothingEligible)
        } else if before.saturating_sub(after) < self.thresholds.floor {
            Decision::Deferred(Deferral::BelowFloor)
        } else {
            Decision::Mask(Batch { drafts, before, target: self.thresholds.target, after })
        }
    }

    /// What may be masked now, the oldest first, with the bytes of its line.
    fn eligible(&self) -> impl Iterator<Item = (usize, u64)> {
        let rate = self.shown.occupancy.rate_mean();
        let tokens = move |size: Size| rate.tokens_at_least(size.bytes).saturating_add(size.images.saturating_mul(IMAGE_TOKENS));
        let (old, last) = (self.shown.recent_from(self.settings.keep_recent_turns), self.shown.last_word());
        let heavy = move |at: usize| tokens(self.shown.size(at)) >= self.settings.min_entry_tokens;
        self.candidates.range(..old).map(|(&at, &bytes)| (at, bytes)).filter(move |&(at, _)| Some(at) != last && heavy(at))
    }

    fn draft(&self, at: usize) -> Option<Draft> {
        let entry = &self.shown.entries[at];
        Some(Draft::ContextEdit { target: entry.id().to_owned(), replacement: Some(text::content(&placeholder(entry)?)) })
    }

    /// Whether an entry's newest edit is a placeholder.
    fn is_masked(&self, at: usize) -> bool {
        self.shown.newest_edit(at).and_then(Entry::replacement).is_some_and(is_placeholder)
    }

    /// The masked results in the window, by entry id, in branch order.
    pub fn masked(&self) -> impl Iterator<Item = &str> {
        let results = self.shown.in_context().filter(|&at| matches!(self.shown.entries[at].kind(), Kind::Message(Role::ToolResult { .. })));
        results.filter(|&at| self.is_masked(at)).map(|at| self.shown.entries[at].id())
    }

    /// Estimated tokens of the next request.
    pub fn occupancy(&self) -> u64 {
        self.shown.occupancy.tokens()
    }

    /// The thresholds in force.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }
}

/// The calls of an answer that read a skill.
fn skill_calls(answer: &Entry) -> BTreeSet<Text> {
    if !answer.line().contains(SKILL) {
        return BTreeSet::new();
    }
    let blocks = answer.content().blocks();
    let calls = blocks.iter().filter(|block| block.kind == BlockKind::ToolCall).filter_map(|block| block.call());
    calls.filter(|(_, _, arguments)| reads_skill(arguments)).map(|(id, ..)| id).collect()
}

/// Whether the arguments of a call name a `SKILL.md` as the path, whichever tool it is and however it calls it.
fn reads_skill(arguments: &str) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_str(arguments) else { return false };
    let paths = ["path", "file_path", "filePath"].into_iter().filter_map(|name| fields.get(name)?.as_str());
    paths.into_iter().any(|path| path.rsplit(['/', '\\']).next() == Some(SKILL))
}

#[cfg(test)]
mod tests;
