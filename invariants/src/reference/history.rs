//! What the records on a branch tell: which of them count, which folds they made, and how each fold stands by now.

use super::walk::{Unit, UnitKind};
use crate::commit::{Record, Written};
use fold_runtime::fold::FoldKind;
use fold_runtime::journal::{Digest, Entry, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// How a fold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its placeholder is shown.
    Shown,
    /// One level of what it hides is shown, since the record at this position.
    Open(usize),
    /// Inside another fold, or closed by a compaction.
    Closed,
    /// It can be recovered, and nothing else.
    Dissolved,
}

/// A fold as its record tells it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) carrier: usize,
    pub(crate) parts: Vec<usize>,
    /// Numbers of earlier folds.
    pub(crate) children: Vec<usize>,
    pub(crate) parent: Option<usize>,
    pub(crate) standing: Standing,
}

/// All records that count, by position, and all folds in the order in which they were made.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) records: BTreeMap<usize, Record>,
    pub(crate) folds: Vec<Told>,
    /// The newest compaction leaves out everything before this position.
    left_out: usize,
}

impl History {
    pub(crate) fn of(branch: &[Entry], units: &[Unit]) -> Self {
        let unit_of: BTreeMap<usize, &Unit> = units.iter().flat_map(|unit| unit.entries.iter().map(move |at| (*at, unit))).collect();
        let mut history = History::default();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, entry) in branch.iter().enumerate() {
            if let Kind::Compaction { first_kept } = entry.kind() {
                let kept = branch[..at].iter().position(|entry| first_kept.as_deref() == Some(entry.id())).unwrap_or(at);
                history.compact(kept);
            }
            if let Some(record) = Record::of(entry) {
                let ripe = |id: &str| {
                    let place = *places.get(id)?;
                    let unit = *unit_of.get(&place)?;
                    unit.ripe.is_some_and(|ripe| ripe < at).then_some((place, unit))
                };
                let before = history.folds.clone();
                if history.take(&record, at, &ripe).is_some() {
                    history.records.insert(at, record);
                } else {
                    history.folds = before;
                }
            }
            places.insert(entry.id(), at);
        }
        history
    }

    /// Takes a record in; `None` where it does not count.
    fn take<'u>(&mut self, record: &Record, at: usize, ripe: &dyn Fn(&str) -> Option<(usize, &'u Unit)>) -> Option<()> {
        let sized = |edit: &crate::commit::Promised| {
            edit.bytes.max(edit.images) < 1 << 40 && edit.sha256.as_deref().is_none_or(|sha| Digest::parse(sha).is_some())
        };
        record.edits.iter().all(sized).then_some(())?;
        let standing = self.folds.iter().filter(|told| told.standing != Standing::Dissolved);
        let mut owned: BTreeSet<usize> = standing.flat_map(|told| told.parts.iter().copied()).collect();
        record.folds.iter().try_for_each(|fold| self.make(fold, &mut owned, ripe))?;
        record.opens.iter().try_for_each(|id| self.open(self.newest(id)?, at))?;
        record.closes.iter().try_for_each(|id| self.close(self.newest(id)?))?;
        record.dissolves.iter().try_for_each(|id| self.dissolve(self.newest(id)?))
    }

    /// Takes a fold in; `owned` are the parts of all others.
    fn make<'u>(&mut self, fold: &Written, owned: &mut BTreeSet<usize>, ripe: &dyn Fn(&str) -> Option<(usize, &'u Unit)>) -> Option<()> {
        let parts: Vec<(usize, &Unit)> = fold.parts.iter().map(|(id, _)| ripe(id)).collect::<Option<_>>()?;
        let (carrier, carries) = ripe(&fold.carrier)?;
        let children: Vec<usize> = fold.children.iter().map(|(id, _)| self.newest(id)).collect::<Option<_>>()?;
        let free = |child: &usize| {
            let told = &self.folds[*child];
            told.parent.is_none() && matches!(told.standing, Standing::Shown | Standing::Closed)
        };
        let is_parent = fold.kind()? == FoldKind::Consolidated;
        let sound = fold.name().is_some()
            && parts.iter().all(|(_, unit)| unit.kind == UnitKind::User || unit.kind.foldable())
            && (is_parent || parts.iter().any(|(_, unit)| unit.kind != UnitKind::User))
            && match carries.kind {
                // A result of it; what called it carries nothing.
                UnitKind::Batch => carries.entries[0] != carrier,
                kind => matches!(kind, UnitKind::User | UnitKind::Custom),
            }
            && children.iter().all(free)
            && children.iter().collect::<BTreeSet<&usize>>().len() == children.len()
            && parts.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && parts.iter().all(|(part, _)| owned.insert(*part))
            && if is_parent { children.len() >= 2 } else { children.is_empty() };
        if !sound {
            return None;
        }
        for child in &children {
            (self.folds[*child].parent, self.folds[*child].standing) = (Some(self.folds.len()), Standing::Closed);
        }
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        let standing = self.shown_again(carrier);
        self.folds.push(Told { id: fold.id.clone(), carrier, parts, children, parent: None, standing });
        Some(())
    }

    /// Shows one level of a fold.
    fn open(&mut self, fold: usize, at: usize) -> Option<()> {
        let sound = self.may_open(fold);
        if !sound {
            return None;
        }
        self.folds[fold].standing = Standing::Open(at);
        for child in self.folds[fold].children.clone() {
            self.folds[child].standing = self.shown_again(self.folds[child].carrier);
        }
        Some(())
    }

    /// Whether a fold is shown, and nobody has taken meanwhile what would carry the folds in it.
    pub(crate) fn may_open(&self, fold: usize) -> bool {
        let inside = self.within(fold);
        let near = |other: usize| inside.contains(&other) || self.within(other).contains(&fold);
        let elsewhere = || self.folds.iter().enumerate().filter(|(other, _)| !near(*other)).map(|(_, told)| told);
        let taken = |child: &usize| {
            let carrier = self.folds[*child].carrier;
            elsewhere().any(|told| match told.standing {
                Standing::Dissolved => false,
                Standing::Closed => told.parts.contains(&carrier),
                Standing::Shown | Standing::Open(_) => told.parts.contains(&carrier) || told.carrier == carrier,
            })
        };
        self.folds[fold].standing == Standing::Shown && !self.folds[fold].children.iter().any(taken)
    }

    fn close(&mut self, fold: usize) -> Option<()> {
        if !matches!(self.folds[fold].standing, Standing::Open(_)) {
            return None;
        }
        for inner in self.within(fold) {
            self.folds[inner].standing = Standing::Closed;
        }
        self.folds[fold].standing = Standing::Shown;
        Some(())
    }

    fn dissolve(&mut self, fold: usize) -> Option<()> {
        let told = &mut self.folds[fold];
        let sound = told.standing == Standing::Shown && told.children.is_empty() && told.parent.is_none();
        told.standing = Standing::Dissolved;
        sound.then_some(())
    }

    fn compact(&mut self, kept: usize) {
        self.left_out = kept;
        for fold in 0..self.folds.len() {
            let told = &self.folds[fold];
            let out = |at: &usize| *at < self.left_out;
            let ends = match told.standing {
                Standing::Shown => out(&told.carrier),
                Standing::Open(_) => out(&told.carrier) || self.hides(fold).iter().any(out),
                Standing::Closed | Standing::Dissolved => false,
            };
            if ends {
                self.folds[fold].standing = Standing::Closed;
            }
        }
    }

    /// How a fold stands that would be shown here.
    fn shown_again(&self, carrier: usize) -> Standing {
        if carrier < self.left_out { Standing::Closed } else { Standing::Shown }
    }

    /// The fold of this id, the newest of those that were dissolved.
    pub(crate) fn newest(&self, id: &str) -> Option<usize> {
        self.folds.iter().rposition(|told| told.id == id)
    }

    /// A fold and all folds in it.
    pub(crate) fn within(&self, fold: usize) -> BTreeSet<usize> {
        let inner = self.folds[fold].children.iter().flat_map(|child| self.within(*child));
        inner.chain([fold]).collect()
    }

    /// Every entry that a fold hides at any depth.
    pub(crate) fn hides(&self, fold: usize) -> BTreeSet<usize> {
        self.within(fold).into_iter().flat_map(|fold| self.folds[fold].parts.iter().copied()).collect()
    }

    /// The carriers of a fold and of all folds in it.
    pub(crate) fn carriers(&self, fold: usize) -> BTreeSet<usize> {
        self.within(fold).into_iter().map(|fold| self.folds[fold].carrier).collect()
    }

    pub(crate) fn is_open(&self, fold: usize) -> bool {
        matches!(self.folds[fold].standing, Standing::Open(_))
    }

    /// Every open fold.
    pub(crate) fn open_folds(&self) -> impl Iterator<Item = usize> {
        (0..self.folds.len()).filter(|fold| self.is_open(*fold))
    }
}
