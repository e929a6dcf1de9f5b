//! What the branch holds, to be read: entries, folds in transcript order, pending marks. Nothing here changes anything.

use super::Session;
use crate::config::Settings;
use crate::fold::FoldKind;
use crate::journal::Entry;
use crate::window::Size;
use std::cmp::Reverse;

/// A fold, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldView<'a> {
    /// How it is addressed.
    pub id: &'a str,
    /// What it is.
    pub kind: FoldKind,
    /// 1 where it contains no other, else one more than the deepest it contains.
    pub depth: u32,
    /// What contains it.
    pub place: Place<'a>,
    /// Entries it hides at any depth.
    pub entries: usize,
    /// Id of the first of them.
    pub first: &'a str,
    /// Id of the last of them.
    pub last: &'a str,
    /// What it is about, in one quoted line.
    pub gist: &'a str,
}

/// Where a fold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Its placeholder is in context.
    Root,
    /// One level of it is shown.
    Open,
    /// Another fold contains it.
    Within(&'a str),
    /// It was cut anew: its originals can be peeked, and are folded by others, or not at all.
    Dissolved,
    /// Its placeholder lies before what a compaction of the host kept: it can be peeked, and is folded no further.
    Closed,
}

/// A pending cut, to be read. Tokens as the occupancy counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// What the fold would be.
    pub kind: FoldKind,
    /// Who made it.
    pub origin: Origin,
    /// Whether a text was supplied for its fold to say.
    pub briefed: bool,
    /// Ids of its units, which are those of their first entries.
    pub units: Vec<&'a str>,
    /// Id of the first entry it would hide.
    pub first: &'a str,
    /// Id of the last.
    pub last: &'a str,
    /// Tokens that applying it, after those before it, would free; `None` if a commit would pass it over now.
    pub freed: Option<u64>,
    /// Tokens from its first entry to the end of the window: what the provider would read anew.
    pub rewrite: u64,
}

/// Where a mark comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The law cut it.
    Walk,
    /// Somebody agreed on it.
    Agreed,
}

impl Session {
    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The entry of the branch with this id.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.context.by_id.get(id).map(|&at| &self.context.entries[at])
    }

    /// Ids of the entries that a fold hides at any depth, in branch order; `None` if there is no such fold.
    pub fn hidden(&self, fold: &str) -> Option<Vec<&str>> {
        let found = self.lattice.folds.get(fold)?;
        Some(self.lattice.hidden(found).into_iter().map(|at| self.context.entries[at].id()).collect())
    }

    /// Whether somebody supplied what a fold says.
    pub fn is_supplied(&self, fold: &str) -> bool {
        self.lattice.folds.get(fold).is_some_and(|fold| fold.brief.is_some())
    }

    /// Whether the placeholder of a fold is in context: it is a root, or directly inside an expanded one.
    pub fn is_shown(&self, fold: &str) -> bool {
        self.lattice.shown(fold).is_some()
    }

    /// All folds in transcript order, a fold before those it contains.
    pub fn forest(&self) -> Vec<FoldView<'_>> {
        let folds = &self.lattice.folds;
        let mut all: Vec<_> = folds.values().collect();
        all.sort_by_key(|fold| (fold.first, Reverse((fold.last, fold.depth)), &fold.id));
        all.into_iter()
            .map(|fold| FoldView {
                id: fold.id.as_str(),
                kind: fold.kind,
                depth: fold.depth,
                place: match self.lattice.parents.get(&fold.id) {
                    _ if self.lattice.open.contains_key(&fold.id) => Place::Open,
                    _ if self.lattice.dissolved.contains(&fold.id) => Place::Dissolved,
                    Some(parent) => Place::Within(parent.as_str()),
                    None if self.lattice.roots.get(&fold.units.0) == Some(&fold.id) => Place::Root,
                    None => Place::Closed,
                },
                entries: fold.entries,
                first: self.context.entries[fold.first].id(),
                last: self.context.entries[fold.last].id(),
                gist: &fold.gist,
            })
            .collect()
    }

    /// The cuts that wait for a commit, stalest first. Writes every brief they would have.
    pub fn pending(&self) -> Vec<Mark<'_>> {
        let marks = self.cuts.marks(&self.context);
        let leaves = self.planner(&self.context, false).leaves(&marks);
        let (mut behind, mut end) = (Size::default(), self.context.shown.len());
        let mut pending: Vec<Mark<'_>> = Vec::with_capacity(marks.len());
        for (cut, leaf) in marks.iter().zip(leaves).rev() {
            let (parts, start) = (cut.parts(&self.context), self.context.units[cut.units[0]].entries[0]);
            behind = behind + self.context.shown[start.min(end)..end].iter().copied().sum();
            end = end.min(start);
            let id = |at: Option<&usize>| at.map_or("", |&at| self.context.entries[at].id());
            let freed = leaf.map(|(bytes, images)| self.occupancy().saturating_sub(self.occupancy.after_freeing(bytes, images)));
            let (first, last) = (id(parts.first()), id(parts.last()));
            let units = cut.units.iter().map(|&unit| self.unit_id(unit)).collect();
            let origin = if self.agreed.has(&cut.units) { Origin::Agreed } else { Origin::Walk };
            let briefed = self.context.briefs.contains_key(&cut.units);
            pending.push(Mark { kind: cut.kind, origin, briefed, units, first, last, freed, rewrite: self.read_anew(behind) });
        }
        pending.reverse();
        pending
    }

    /// Units in context that are held by choice, and the tokens they take.
    pub fn held(&self) -> (usize, u64) {
        let units = self.context.held.iter().map(|&unit| &self.context.units[unit].entries).filter(|entries| entries[0] >= self.context.kept_from());
        let (mut count, mut size) = (0, Size::default());
        for entries in units {
            count += 1;
            size = size + entries.iter().map(|&at| self.context.shown[at]).sum();
        }
        (count, self.tokens_at_most(size))
    }

    /// The most tokens that so many bytes of new text are counted as.
    pub fn tokens(&self, bytes: usize) -> u64 {
        self.tokens_at_most(Size { bytes: bytes as u64, images: 0 })
    }

    /// Tokens that the provider would read anew if everything of this size, at the end of the window, were behind a change.
    pub(super) fn read_anew(&self, behind: Size) -> u64 {
        self.tokens_at_most(behind).min(self.occupancy())
    }
}
