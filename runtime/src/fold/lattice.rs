//! The folds on a branch: which exist, what each hides, which contain which, and of which a placeholder is shown, or one level, or neither.

use super::context::Context;
use super::cut::Carrier;
use super::record::Changes;
use super::text::{FoldId, FoldKind, FoldName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A fold, on the branch or about to be.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub id: FoldId,
    pub name: FoldName,
    pub kind: FoldKind,
    /// 1 for a leaf, one more than the deepest child for a parent.
    pub depth: u32,
    pub carrier: Carrier,
    /// Entries it hides or replaces itself, in branch order.
    pub parts: Vec<usize>,
    /// The folds it contains, in branch order.
    pub children: Vec<FoldId>,
    /// First and last unit of its claim.
    pub units: (usize, usize),
    /// Bytes of its placeholder.
    pub placeholder: u64,
    /// Entries it hides at any depth, the first and the last of them.
    pub entries: usize,
    pub first: usize,
    pub last: usize,
    /// Characters its brief may have: what its record says.
    pub bound: usize,
    /// What it is about, for its parent's brief.
    pub gist: String,
    /// The brief that was supplied for it, if one was.
    pub brief: Option<Arc<str>>,
}

/// All folds of a branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lattice {
    pub folds: BTreeMap<FoldId, Fold>,
    /// Shown folds that no other contains, by their first unit.
    pub roots: BTreeMap<usize, FoldId>,
    /// Which shown fold's placeholder an entry carries.
    pub carriers: BTreeMap<usize, FoldId>,
    /// Folds of which one level is shown, and how many good answers there were when that began.
    pub open: BTreeMap<FoldId, usize>,
    /// Folds that can be recovered, and nothing else.
    pub dissolved: BTreeSet<FoldId>,
    /// Entries whose placeholder is seen on the branch.
    pub placeholders: BTreeSet<usize>,
    /// Units that folds claim.
    pub claimed: BTreeSet<usize>,
    /// The fold that contains another, by the id of the other.
    pub parents: BTreeMap<FoldId, FoldId>,
    /// Folds that stay as they are, in no group.
    pub pinned: BTreeSet<FoldId>,
}

impl Lattice {
    /// Takes a fold that a record brought; its children stop being roots.
    pub fn insert(&mut self, fold: Fold, units: impl IntoIterator<Item = usize>) {
        for child in &fold.children {
            if let Some(child) = self.folds.get(child) {
                self.roots.remove(&child.units.0);
                self.carriers.remove(&child.carrier.position());
            }
        }
        self.parents.extend(fold.children.iter().map(|child| (child.clone(), fold.id.clone())));
        self.claimed.extend(units);
        self.dissolved.remove(&fold.id);
        self.carriers.insert(fold.carrier.position(), fold.id.clone());
        self.roots.insert(fold.units.0, fold.id.clone());
        self.folds.insert(fold.id.clone(), fold);
    }

    /// Notes that the placeholder which an entry carries is on the branch, with its bytes.
    pub fn placed(&mut self, at: usize, bytes: u64) {
        self.placeholders.insert(at);
        if let Some(fold) = self.carriers.get(&at).and_then(|id| self.folds.get_mut(id)) {
            fold.placeholder = bytes;
        }
    }

    /// What a compaction left out in part or whole is no root and not open any more: recoverable, but folded no further.
    pub fn close_before(&mut self, kept: usize) {
        let left_out = |id: &FoldId| self.folds[id].carrier.position() < kept || self.hidden(&self.folds[id]).iter().any(|at| *at < kept);
        let ended: Vec<FoldId> = self.open.keys().filter(|id| left_out(id)).cloned().collect();
        self.open.retain(|id, _| !ended.contains(id));
        let folds = &self.folds;
        self.roots.retain(|_, id| folds[id].carrier.position() >= kept);
        self.carriers.retain(|at, _| *at >= kept);
        self.placeholders.retain(|at| *at >= kept);
    }

    /// Opens, closes and dissolves folds, in this order; `None` where one does not stand as that needs, and then nothing holds of what is left here.
    pub fn apply(&mut self, changes: &Changes, context: &Context) -> Option<()> {
        for id in &changes.opens {
            self.open(id, context)?;
        }
        for id in &changes.closes {
            self.close(id, context)?;
        }
        for id in &changes.dissolves {
            self.dissolve(id, context)?;
        }
        Some(())
    }

    fn open(&mut self, id: &str, context: &Context) -> Option<()> {
        let fold = self.shown(id)?.clone();
        let children = fold.children.iter().filter_map(|child| self.folds.get(child));
        let shown: Vec<(usize, FoldId)> = children.map(|child| (child.carrier.position(), child.id.clone())).collect();
        if self.is_taken_elsewhere(&fold, &shown) {
            return None;
        }
        self.roots.retain(|_, root| *root != fold.id);
        self.carriers.remove(&fold.carrier.position());
        self.carriers.extend(shown.into_iter().filter(|(at, _)| *at >= context.kept_from()));
        self.open.insert(fold.id, context.answers);
        Some(())
    }

    fn close(&mut self, id: &str, context: &Context) -> Option<()> {
        self.open.get(id)?;
        let fold = self.folds.get(id)?.clone();
        for inner in self.within(&fold) {
            self.open.remove(&inner);
            self.carriers.retain(|_, shown| *shown != inner);
        }
        self.open.remove(id);
        if fold.carrier.position() >= context.kept_from() {
            self.carriers.insert(fold.carrier.position(), fold.id.clone());
            if !self.parents.contains_key(id) {
                self.roots.insert(fold.units.0, fold.id);
            }
        }
        Some(())
    }

    fn dissolve(&mut self, id: &str, context: &Context) -> Option<()> {
        let fold = self.shown(id).filter(|fold| fold.children.is_empty() && !self.parents.contains_key(&fold.id))?.clone();
        self.roots.retain(|_, root| *root != fold.id);
        self.carriers.remove(&fold.carrier.position());
        for unit in fold.parts.iter().filter_map(|&at| context.unit_of[at]) {
            self.claimed.remove(&unit);
        }
        self.dissolved.insert(fold.id);
        Some(())
    }

    /// The fold with this id, if its placeholder is shown.
    pub fn shown(&self, id: &str) -> Option<&Fold> {
        let fold = self.folds.get(id)?;
        (self.carriers.get(&fold.carrier.position()) == Some(&fold.id)).then_some(fold)
    }

    /// The shown fold that an entry carries, else the open one that it would carry.
    pub fn carriers_or_open(&self, at: usize) -> Option<&FoldId> {
        let open = || self.open.keys().find(|id| self.folds[*id].carrier.position() == at);
        self.carriers.get(&at).or_else(open)
    }

    /// Whether an entry that would carry a child of this fold is by now a part of another fold, or its carrier. Folds inside and around do not count.
    fn is_taken_elsewhere(&self, fold: &Fold, shown: &[(usize, FoldId)]) -> bool {
        let near: BTreeSet<FoldId> = self.within(fold).into_iter().chain(self.around(&fold.id).cloned()).collect();
        let has = |other: &Fold, at: usize| {
            let carries = other.carrier.position() == at && (self.open.contains_key(&other.id) || self.carriers.get(&at) == Some(&other.id));
            carries || other.parts.contains(&at)
        };
        let others = self.folds.values().filter(|other| other.id != fold.id && !self.dissolved.contains(&other.id));
        others.filter(|other| shown.iter().any(|(at, _)| has(other, *at))).any(|other| !near.contains(&other.id))
    }

    /// Every fold around one, from the inside out.
    pub fn around<'a>(&'a self, id: &FoldId) -> impl Iterator<Item = &'a FoldId> {
        std::iter::successors(self.parents.get(id), |outer| self.parents.get(*outer))
    }

    /// Every fold inside one, at any depth.
    pub fn within(&self, fold: &Fold) -> Vec<FoldId> {
        let mut all: Vec<FoldId> = fold.children.clone();
        let mut next = 0;
        while let Some(inner) = all.get(next).and_then(|id| self.folds.get(id)) {
            all.extend(inner.children.iter().cloned());
            next += 1;
        }
        all
    }

    /// The units of a fold's claim, the user messages that it hides and those that carry it or a fold in it: all that is held while it is open.
    pub fn claim(&self, fold: &Fold, context: &Context) -> BTreeSet<usize> {
        let inner = self.within(fold);
        let folds = std::iter::once(fold).chain(inner.iter().filter_map(|id| self.folds.get(id)));
        let entries = folds.flat_map(|fold| fold.parts.iter().copied().chain([fold.carrier.position()]));
        entries.filter_map(|at| context.unit_of[at]).collect()
    }

    /// Every entry a fold hides at any depth, in branch order.
    pub fn hidden(&self, fold: &Fold) -> Vec<usize> {
        let mut all = Vec::with_capacity(fold.entries);
        let mut stack = vec![fold];
        while let Some(fold) = stack.pop() {
            all.extend(&fold.parts);
            stack.extend(fold.children.iter().filter_map(|child| self.folds.get(child)));
        }
        all.sort_unstable();
        all
    }
}
