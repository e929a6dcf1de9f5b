//! What somebody may decide on: what an id names, which mark it is in, what pins take of the window. Nothing here changes anything.
//!
//! `docs/law.md`, "Decisions", says what a decision does. Whether one is to be refused is settled with the answers that stand here, before it is written.

use super::Session;
use super::decided::users_between;
use crate::fold::{Fold, FoldId, UnitKind};
use crate::window::Size;

/// What is pinned, to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins<'a> {
    /// Unit ids, in branch order.
    pub units: Vec<&'a str>,
    /// Fold ids.
    pub folds: Vec<&'a str>,
    /// Tokens that they take in the window: whole units as they are shown, and placeholders.
    pub tokens: u64,
    /// The most that new pins may bring it to: a quarter of the budget.
    pub cap: u64,
}

/// What can be pinned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Choice {
    /// A unit, by the position of its first entry.
    Unit(usize),
    /// A fold.
    Fold(FoldId),
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// A unit in context, ripe or not, by the position of its first entry.
    Unit(usize),
    /// A shown fold that no other contains.
    Root(&'a FoldId),
    /// A fold of which one level is shown.
    Open(&'a FoldId),
    /// A fold inside another: the shown fold that it is or that has it, and the outermost one around it.
    Nested(&'a FoldId, &'a FoldId),
    /// A fold whose placeholder a compaction left out.
    Closed,
    /// A fold that was cut anew.
    Dissolved,
    /// An entry whose unit is in a fold: that fold, the shown one that has it, and the outermost one around it.
    Folded(&'a FoldId, &'a FoldId, &'a FoldId),
    /// An entry of a unit that a compaction left out.
    LeftOut,
    /// An entry that nothing ever folds.
    Apart,
    /// Nothing.
    Unknown,
}

/// Why a unit in context is in no mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmarked {
    /// No good answer has followed it.
    Unripe,
    /// It is a person's message.
    Words,
    /// It is pinned.
    Pinned,
    /// Its mark was withdrawn.
    Withdrawn,
    /// A fold that was expanded holds it.
    Expanded(FoldId),
    /// The settings hold it.
    Blacklisted,
    /// No cut has closed over it.
    Open,
}

impl Session {
    /// What an id names. A fold is asked first, as everywhere.
    pub(crate) fn named(&self, id: &str) -> Named<'_> {
        if let Some(fold) = self.lattice.folds.get(id) {
            let around = self.around(&fold.id);
            let (outermost, shown) = (around[around.len() - 1], around.iter().find(|id| self.lattice.shown(id.as_str()).is_some()));
            return match shown {
                _ if self.lattice.open.contains_key(id) => Named::Open(&fold.id),
                _ if self.lattice.dissolved.contains(id) => Named::Dissolved,
                Some(shown) if around.len() == 1 => Named::Root(shown),
                Some(shown) => Named::Nested(shown, outermost),
                None => Named::Closed,
            };
        }
        let Some(&at) = self.context.by_id.get(id) else { return Named::Unknown };
        if let Some(fold) = self.holder(at) {
            let around = self.around(fold);
            let shown = around.iter().find(|id| self.lattice.shown(id.as_str()).is_some());
            match shown {
                Some(shown) => return Named::Folded(fold, shown, around[around.len() - 1]),
                None if !self.lattice.open.contains_key(fold) => return Named::Folded(fold, fold, around[around.len() - 1]),
                None => {}
            }
        }
        let unit = self.context.unit_of[at].map(|unit| self.context.units[unit].clone()).or_else(|| self.units.unripe(at));
        match unit {
            None => Named::Apart,
            Some(unit) if matches!(unit.kind, UnitKind::Irregular | UnitKind::Ender) => Named::Apart,
            Some(unit) if unit.entries[0] < self.context.kept_from() => Named::LeftOut,
            Some(unit) => Named::Unit(unit.entries[0]),
        }
    }

    /// The fold that an entry is a part of, else one that its unit is claimed by.
    fn holder(&self, at: usize) -> Option<&FoldId> {
        let claimed = self.context.unit_of[at].filter(|unit| self.lattice.claimed.contains(unit));
        let unit = claimed.map_or(&[][..], |unit| &self.context.units[unit].entries);
        let hidden = std::iter::once(&at).chain(unit).find(|at| self.digests.contains_key(at))?;
        let has = |fold: &&Fold| fold.parts.contains(hidden) && !self.lattice.dissolved.contains(&fold.id);
        self.lattice.folds.values().find(has).map(|fold| &fold.id)
    }

    /// A fold and those around it, the outermost last.
    fn around<'a>(&'a self, fold: &'a FoldId) -> Vec<&'a FoldId> {
        std::iter::once(fold).chain(self.lattice.around(fold)).collect()
    }

    /// The units of every pending mark, by their numbers.
    pub(crate) fn marked(&self) -> Vec<Vec<usize>> {
        self.cuts.marks(&self.context).into_iter().map(|cut| cut.into_owned().units).collect()
    }

    /// The units that a root without children claims; `None` for any other fold.
    pub(crate) fn claimed_by_leaf(&self, fold: &FoldId) -> Option<Vec<usize>> {
        let fold = self.lattice.roots.values().find(|root| *root == fold).map(|root| &self.lattice.folds[root])?;
        let claimed = |unit: &usize| self.lattice.claimed.contains(unit);
        fold.children.is_empty().then(|| (fold.units.0..=fold.units.1).filter(claimed).collect())
    }

    /// Why a unit, by its first entry, is in no mark.
    pub(crate) fn unmarked(&self, first: usize) -> Unmarked {
        let Some(unit) = self.ripe_unit(first) else { return Unmarked::Unripe };
        match self.context.units[unit].kind {
            UnitKind::User => Unmarked::Words,
            _ if self.lattice.claimed.contains(&unit) => match self.holder(first) {
                Some(fold) => Unmarked::Expanded(fold.clone()),
                None => Unmarked::Open,
            },
            _ if self.context.pinned.contains(&first) => Unmarked::Pinned,
            _ if self.context.withdrawn.contains(&unit) => Unmarked::Withdrawn,
            _ if self.context.blacklisted.contains(&unit) => Unmarked::Blacklisted,
            _ => Unmarked::Open,
        }
    }

    /// The number of the ripe unit that an entry is in, by position.
    pub(crate) fn ripe_unit(&self, at: usize) -> Option<usize> {
        self.context.unit_of[at]
    }

    /// The id of a ripe unit, by its number.
    pub(crate) fn unit_id(&self, unit: usize) -> &str {
        self.context.entries[self.context.units[unit].entries[0]].id()
    }

    /// The weight of what a fold of exactly these units would stand for, user messages not counted; `None` if nothing in it could carry a placeholder.
    pub(crate) fn stands_for(&self, units: &[usize]) -> Option<u64> {
        let users = users_between(units, &self.context, &self.lattice, &self.digests);
        let cut = self.cuts.exactly(units, users, &self.context, self.context.newest_user())?;
        Some(self.context.weight(cut.parts(&self.context)))
    }

    /// What is pinned, and the most it may take.
    pub fn pins(&self) -> Pins<'_> {
        Pins {
            units: self.context.pinned.iter().map(|&at| self.context.entries[at].id()).collect(),
            folds: self.lattice.pinned.iter().map(FoldId::as_str).collect(),
            tokens: self.tokens_at_most(self.pinned()),
            cap: self.band.budget / 4,
        }
    }

    /// The id of what can be pinned.
    pub(crate) fn chosen<'a>(&'a self, choice: &'a Choice) -> &'a str {
        match choice {
            Choice::Unit(at) => self.context.entries[*at].id(),
            Choice::Fold(fold) => fold.as_str(),
        }
    }

    /// Whether it is pinned.
    pub(crate) fn is_pinned(&self, choice: &Choice) -> bool {
        match choice {
            Choice::Unit(at) => self.context.pinned.contains(at),
            Choice::Fold(fold) => self.lattice.pinned.contains(fold),
        }
    }

    /// What an id names among what is pinned, wherever that stands by now.
    pub(crate) fn pinned_by(&self, id: &str) -> Option<Choice> {
        let fold = self.lattice.folds.get(id).map(|fold| Choice::Fold(fold.id.clone()));
        let unit = || {
            let at = *self.context.by_id.get(id)?;
            let unit = self.context.unit_of[at].map(|unit| self.context.units[unit].entries[0]);
            let first = unit.or_else(|| Some(self.units.unripe(at)?.entries[0])).filter(|_| !self.context.pinned.contains(&at));
            Some(Choice::Unit(first.unwrap_or(at)))
        };
        fold.or_else(unit).filter(|choice| self.is_pinned(choice))
    }

    /// The size of what is pinned, as it is shown; what open folds show counts as pinned.
    fn pinned(&self) -> Size {
        let first = |unit: &usize| self.context.units[*unit].entries[0];
        let open = self.context.opened.iter().map(first).filter(|at| !self.context.pinned.contains(at));
        let units = self.context.pinned.iter().copied().chain(open).map(|at| self.taken_by_unit(at));
        units.chain(self.lattice.pinned.iter().map(|fold| self.taken_by_root(fold))).sum()
    }

    fn taken_by_unit(&self, at: usize) -> Size {
        if at < self.context.kept_from() {
            return Size::default();
        }
        match self.context.unit_of[at] {
            Some(unit) => self.context.units[unit].entries.iter().map(|&at| self.context.shown[at]).sum(),
            None => self.units.unripe(at).map_or_else(|| vec![at], |unit| unit.entries).into_iter().map(|at| self.context.shown[at]).sum(),
        }
    }

    fn taken_by_root(&self, id: &FoldId) -> Size {
        let root = self.lattice.folds.get(id).filter(|fold| self.lattice.roots.get(&fold.units.0) == Some(&fold.id));
        Size { bytes: root.map_or(0, |fold| fold.placeholder), images: 0 }
    }

    /// What a choice takes in the window that is not counted as pinned yet.
    fn takes(&self, choice: &Choice) -> Size {
        match choice {
            Choice::Unit(at) if self.context.stays(*at) => Size::default(),
            Choice::Unit(at) => self.taken_by_unit(*at),
            Choice::Fold(id) => self.taken_by_root(id),
        }
    }

    /// For each choice in turn: the tokens that all pins would take with it and the choices before it.
    pub(crate) fn pinned_with<'a>(&'a self, choices: impl IntoIterator<Item = &'a Choice>) -> impl Iterator<Item = u64> {
        choices.into_iter().scan(self.pinned(), |size, choice| {
            *size = *size + self.takes(choice);
            Some(self.tokens_at_most(*size))
        })
    }

    /// Units that were withdrawn and wait for the next commit that can wait.
    pub fn withdrawn(&self) -> usize {
        self.context.withdrawn.len()
    }

    /// How many cuts are agreed on, and how many of them wait for a commit; the others are folded, or cannot close as things stand.
    pub fn agreed(&self) -> (usize, usize) {
        let pending = self.marked().iter().filter(|units| self.agreed.has(units)).count();
        (self.agreed.len(), pending)
    }

    /// Positions of entries by their ids.
    pub(crate) fn position(&self, id: &str) -> Option<usize> {
        self.context.by_id.get(id).copied()
    }
}
