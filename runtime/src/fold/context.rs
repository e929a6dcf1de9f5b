//! What the branch holds and shows, entry by entry, and the units found in it.
//!
//! Kept up to date as entries arrive; every question a walk or a commit asks is answered from here without reading the branch again.

use super::unit::{Unit, UnitKind};
use crate::journal::{Entry, Kind, Role};
use crate::window::Size;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How an entry stands in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As it was written.
    Raw,
    /// With another content.
    Replaced,
    /// Not at all: omitted, or before the kept range of a compaction.
    Gone,
}

/// The branch and what was learned of it. Positions index `entries`, unit numbers index `units`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub entries: Vec<Entry>,
    pub by_id: BTreeMap<String, usize>,
    /// Size of each original.
    pub original: Vec<Size>,
    /// Size of what is shown of it.
    pub shown: Vec<Size>,
    pub state: Vec<Shown>,
    /// Ripe units, in branch order.
    pub units: Vec<Unit>,
    /// How many user messages there were when each of them was walked first.
    pub users_before: Vec<usize>,
    /// The ripe unit of each entry that is in one.
    pub unit_of: Vec<Option<usize>>,
    /// First entries of units that are pinned, ripe or not.
    pub pinned: BTreeSet<usize>,
    /// Units whose marks were withdrawn, and those with a result that the settings hold.
    pub withdrawn: BTreeSet<usize>,
    pub blacklisted: BTreeSet<usize>,
    /// Units and user messages of open folds.
    pub opened: BTreeSet<usize>,
    /// Units that are held by choice: all of these.
    pub held: BTreeSet<usize>,
    /// Briefs that were supplied, by the units of their cuts.
    pub briefs: BTreeMap<Vec<usize>, Arc<str>>,
    /// Units that end a run and a group: enders and held ones.
    pub ends: BTreeSet<usize>,
    /// Entries whose content someone else edited.
    pub foreign: BTreeSet<usize>,
    pub users: Vec<usize>,
    /// Good answers so far, and how many there were when each entry came.
    pub answers: usize,
    pub answers_before: Vec<usize>,
    /// The newest compaction, and the first position it keeps.
    pub compaction: Option<(usize, usize)>,
}

impl Context {
    /// Appends an entry that shows its original.
    pub fn push(&mut self, entry: &Entry, size: Size) -> usize {
        let at = self.entries.len();
        self.entries.push(entry.clone());
        self.by_id.insert(entry.id().to_owned(), at);
        self.original.push(size);
        self.shown.push(size);
        self.state.push(Shown::Raw);
        self.unit_of.push(None);
        self.answers_before.push(self.answers);
        if matches!(entry.kind(), Kind::Message(Role::User)) {
            self.users.push(at);
        }
        at
    }

    /// Takes a unit that became ripe; answers with its number.
    pub fn ripened(&mut self, unit: Unit, blacklist: &BTreeSet<String>) -> usize {
        let number = self.units.len();
        for &at in &unit.entries {
            self.unit_of[at] = Some(number);
        }
        let blacklisted = unit.kind == UnitKind::Batch
            && !blacklist.is_empty()
            && unit.entries.iter().any(|&at| match self.entries[at].kind() {
                Kind::Message(Role::ToolResult { tool, .. }) => blacklist.contains(&tool.to_string_lossy()),
                _ => false,
            });
        if blacklisted {
            self.blacklisted.insert(number);
        }
        let held = blacklisted || self.pinned.contains(&unit.entries[0]);
        if held {
            self.held.insert(number);
        }
        if unit.kind == UnitKind::Ender || (held && unit.kind != UnitKind::User) {
            self.ends.insert(number);
        }
        self.units.push(unit);
        self.users_before.push(self.users.len());
        number
    }

    /// Works out anew what is held, after a decision.
    pub fn hold(&mut self) {
        let pinned = self.pinned.iter().filter_map(|&at| self.unit_of[at].filter(|&unit| self.units[unit].entries[0] == at));
        self.held = self.blacklisted.iter().chain(&self.withdrawn).chain(&self.opened).copied().chain(pinned).collect();
        let ends = |(number, unit): (usize, &Unit)| {
            (unit.kind == UnitKind::Ender || (unit.kind != UnitKind::User && self.held.contains(&number))).then_some(number)
        };
        self.ends = self.units.iter().enumerate().filter_map(ends).collect();
    }

    /// Whether a person's message stays as it is: never hidden, never clipped, never the carrier of a new fold.
    pub fn stays(&self, at: usize) -> bool {
        self.pinned.contains(&at) || self.unit_of[at].is_some_and(|unit| self.opened.contains(&unit))
    }

    /// The newest message of a person.
    pub fn newest_user(&self) -> Option<usize> {
        self.users.last().copied()
    }

    /// The first of these messages of a person that is shown and says anything. A fold leaves it: what follows may be a call, and a call that follows an
    /// answer, or begins the request, is refused on some wires.
    pub fn first_asked(&self, users: impl IntoIterator<Item = usize>) -> Option<usize> {
        users.into_iter().find(|&at| self.state[at] != Shown::Gone && self.original[at].weight() > 0)
    }

    /// The last user message or tool result that is shown: a request may end with it, and it must not end with a placeholder.
    pub fn last_word(&self) -> Option<usize> {
        let speaks = |at: &usize| matches!(self.entries[*at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
        (0..self.entries.len()).rev().filter(speaks).find(|&at| self.state[at] != Shown::Gone)
    }

    /// Whether an edit of ours may touch the entry: somebody else's content is left alone.
    pub fn is_foreign(&self, unit: usize) -> bool {
        !self.foreign.is_empty() && self.units[unit].entries.iter().any(|at| self.foreign.contains(at))
    }

    /// Whether a commit could move it: ripe, not held, editable, nobody else's.
    pub fn is_movable(&self, at: usize) -> bool {
        let free = |unit: usize| !self.held.contains(&unit) && (self.units[unit].kind == UnitKind::User || self.units[unit].kind.is_folded());
        self.unit_of[at].is_some_and(free) && !self.foreign.contains(&at)
    }

    /// Whether the host takes an edit of the entry.
    pub fn is_editable(&self, at: usize) -> bool {
        matches!(self.entries[at].kind(), Kind::CustomMessage | Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. }))
    }

    /// The first position that the newest compaction keeps; 0 without one.
    pub fn kept_from(&self) -> usize {
        self.compaction.map_or(0, |(_, kept)| kept)
    }

    /// Whether something ripe in context is held by choice.
    pub fn holds(&self) -> bool {
        self.held.last().is_some_and(|&unit| self.units[unit].entries[0] >= self.kept_from())
    }

    /// Weight of the originals.
    pub fn weight(&self, positions: impl IntoIterator<Item = usize>) -> u64 {
        positions.into_iter().map(|at| self.original[at].weight()).sum()
    }

    /// The positions in context in the order in which the model sees them.
    pub fn in_context(&self) -> impl Iterator<Item = usize> {
        let (first, kept, compaction) = match self.compaction {
            Some((compaction, kept)) => (Some(compaction), kept, compaction),
            None => (None, 0, 0),
        };
        first.into_iter().chain((kept..self.entries.len()).filter(move |at| first.is_none() || *at != compaction))
    }

    /// Units of a kind that counts, after one unit and before another.
    pub fn between(&self, after: usize, before: usize) -> std::ops::Range<usize> {
        (after + 1).min(before)..before
    }
}
