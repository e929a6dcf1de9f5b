//! The folds on a branch: which exist, what each hides, which contain which.

use super::cut::Carrier;
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
    /// What it is about, for its parent's brief.
    pub gist: String,
    /// The brief that was supplied for it, if one was.
    pub brief: Option<Arc<str>>,
}

/// All folds of a branch.
#[derive(Debug, Default)]
pub(crate) struct Lattice {
    pub folds: BTreeMap<FoldId, Fold>,
    /// Folds that no other contains and whose carrier is in context, by their first unit.
    pub roots: BTreeMap<usize, FoldId>,
    /// Which root's placeholder an entry carries.
    pub carriers: BTreeMap<usize, FoldId>,
    /// Entries whose placeholder is seen on the branch.
    pub placeholders: BTreeSet<usize>,
    /// Units that folds claim.
    pub claimed: BTreeSet<usize>,
    /// Folds that another contains.
    pub contained: BTreeSet<FoldId>,
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
        self.contained.extend(fold.children.iter().cloned());
        self.claimed.extend(units);
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

    /// Closes every root whose carrier lies before the kept range of a compaction: recoverable, but in no group any more.
    pub fn close_before(&mut self, kept: usize) {
        let folds = &self.folds;
        self.roots.retain(|_, id| folds[id].carrier.position() >= kept);
        self.carriers.retain(|at, _| *at >= kept);
        self.placeholders.retain(|at| *at >= kept);
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
