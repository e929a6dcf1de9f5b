//! What a branch shows and weighs, entry by entry, for a policy that replaces contents and nothing else.
//!
//! An entry costs what it costs itself; a compaction costs what it leaves out and keeps. Decides nothing.

use crate::journal::{Entry, Kind, Role};
use crate::window::{Occupancy, Size};
use std::collections::{BTreeMap, BTreeSet};

/// The branch as it is shown. Positions index `entries`.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub entries: Vec<Entry>,
    pub occupancy: Occupancy,
    by_id: BTreeMap<String, usize>,
    /// Size of what is shown of each entry.
    size: Vec<Size>,
    /// The newest edit of each target, as positions.
    edits: BTreeMap<usize, usize>,
    /// Good answers in context that nothing omits.
    turns: BTreeSet<usize>,
    /// The first position that the newest compaction keeps; 0 without one.
    kept_from: usize,
}

/// What an entry did to those before it.
pub(super) enum Did {
    /// Nothing.
    Followed(usize),
    /// It edited this one.
    Edited(usize),
    /// It changed what is in context.
    Compacted,
    /// It edited an entry that is not on the branch.
    Nothing,
}

impl Shown {
    /// Takes the next entry of the branch.
    pub fn observe(&mut self, entry: &Entry) -> Did {
        let (at, size) = (self.entries.len(), Size::of_original(entry));
        self.entries.push(entry.clone());
        self.by_id.insert(entry.id().to_owned(), at);
        self.size.push(size);
        match entry.kind() {
            Kind::ContextEdit { target, .. } => return self.edited(at, target),
            Kind::Compaction { first_kept } => {
                self.compacted(at, first_kept.as_deref(), size);
                return Did::Compacted;
            }
            Kind::ModelChange { model } => self.occupancy.model(model),
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() => {
                self.occupancy.answered(&assistant.model, assistant.usage, size);
                self.turns.insert(at);
            }
            _ => self.occupancy.added(size),
        }
        Did::Followed(at)
    }

    fn edited(&mut self, edit: usize, target: &str) -> Did {
        let Some(&at) = self.by_id.get(target) else { return Did::Nothing };
        self.edits.insert(at, edit);
        // An edit of what a compaction left out changes nothing that is shown.
        if at < self.kept_from {
            self.occupancy.changed();
        } else {
            let (before, after) = (self.size[at], self.as_edited(at));
            self.size[at] = after;
            replaced(&mut self.occupancy, before, after);
            self.turn(at);
        }
        Did::Edited(at)
    }

    /// What an entry shows after its newest edit, if it has one.
    fn as_edited(&self, at: usize) -> Size {
        let entry = &self.entries[at];
        self.edits.get(&at).map_or_else(|| Size::of_original(entry), |&edit| Size::of_edited(entry, &self.entries[edit]))
    }

    /// Notes whether an entry in context is a good answer that is shown.
    fn turn(&mut self, at: usize) {
        if self.entries[at].is_good_answer() && !self.is_omitted(at) {
            self.turns.insert(at);
        } else {
            self.turns.remove(&at);
        }
    }

    fn is_omitted(&self, at: usize) -> bool {
        self.newest_edit(at).is_some_and(|edit| matches!(edit.kind(), Kind::ContextEdit { omits: true, .. }))
    }

    /// The host compacted: what is before the kept range is gone, and only the newest summary is shown. One that keeps more than the one before it
    /// shows again what that had left out, as the edits on the branch have it.
    fn compacted(&mut self, at: usize, first_kept: Option<&str>, summary: Size) {
        let before = self.kept_from;
        let kept = first_kept.and_then(|id| self.by_id.get(id)).copied().unwrap_or(at);
        let is_kept = |entry: &Entry| !matches!(entry.kind(), Kind::Message(Role::System) | Kind::Compaction { .. });
        for again in kept..before.max(kept) {
            if is_kept(&self.entries[again]) {
                self.size[again] = self.as_edited(again);
                self.occupancy.added(self.size[again]);
            }
        }
        let mut gone = Size::default();
        for old in before.min(kept)..at {
            if old < kept || !is_kept(&self.entries[old]) {
                gone = gone + std::mem::take(&mut self.size[old]);
            }
        }
        self.kept_from = kept;
        self.turns.clear();
        (kept..at).for_each(|at| self.turn(at));
        self.occupancy.taken(gone);
        self.occupancy.added(summary);
        self.occupancy.changed();
    }

    /// Size of what is shown of an entry.
    pub fn size(&self, at: usize) -> Size {
        self.size[at]
    }

    /// The newest edit of an entry.
    pub fn newest_edit(&self, at: usize) -> Option<&Entry> {
        self.edits.get(&at).map(|&edit| &self.entries[edit])
    }

    /// The positions that a compaction left in the window.
    pub fn in_context(&self) -> std::ops::Range<usize> {
        self.kept_from..self.entries.len()
    }

    /// The last user message or tool result that is shown: a request may end with it. Walks back over what follows it.
    pub fn last_word(&self) -> Option<usize> {
        let speaks = |at: &usize| matches!(self.entries[*at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
        self.in_context().rev().filter(speaks).find(|&at| !self.is_omitted(at))
    }

    /// Where the newest `turns` good answers begin; 0 where there are fewer.
    pub fn recent_from(&self, turns: usize) -> usize {
        turns.checked_sub(1).and_then(|before| self.turns.iter().nth_back(before)).copied().unwrap_or(0)
    }
}

/// What an edit does to the occupancy; a decision foresees it by the same lines.
pub(super) fn replaced(occupancy: &mut Occupancy, before: Size, after: Size) {
    occupancy.changed();
    occupancy.added(after.saturating_sub(before));
    occupancy.taken(before.saturating_sub(after));
}
