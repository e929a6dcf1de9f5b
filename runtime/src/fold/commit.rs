//! The commit: how many marks become folds, and which folds become parents.
//!
//! The smallest number of leaves that meets the target *after* consolidation. What is tried is kept: a leaf does not depend on how many
//! follow it, a parent only on its members, so each further leaf costs a few comparisons. `mint` makes the folds that are tried,
//! `write` turns the chosen ones into edits. `docs/law.md`, "A commit", is the specification.

use super::context::{Context, Shown};
use super::cut::{Cut, CutPolicy};
use super::lattice::{Fold, Lattice};
use super::text::{FoldId, FoldName};
use super::write::Outcome;
use crate::window::{IMAGE_TOKENS, Rate, Size};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes and images, signed: what a step takes away.
pub(crate) type Freed = (i64, i64);

pub(super) fn plus(left: Freed, right: Freed) -> Freed {
    (left.0.saturating_add(right.0), left.1.saturating_add(right.1))
}

pub(super) fn text(bytes: usize) -> Size {
    Size { bytes: bytes as u64, images: 0 }
}

/// Whether the shown weight sinks.
pub(super) fn lowers((bytes, images): Freed) -> bool {
    bytes.saturating_add(images.saturating_mul(Size { bytes: 0, images: 1 }.weight().cast_signed())) > 0
}

/// A change of a person's words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    pub hidden: Size,
    pub back: Size,
}

impl Words {
    fn of(self, words: Size) -> Size {
        (words + self.back).saturating_sub(self.hidden)
    }
}

/// Everything a commit is computed from.
pub(crate) struct Planner<'a> {
    pub context: &'a Context,
    pub lattice: &'a Lattice,
    pub policy: &'a CutPolicy,
    pub consolidate_after: usize,
    pub clip_ppm: u32,
    /// Tokens a person's words may take, and the rate they are counted at.
    pub words_limit: u64,
    pub rate: Rate,
    /// A person's words now in the window.
    pub words: Size,
    /// Whether every mark is applied, however many would suffice.
    pub takes_all: bool,
}

/// A fold in the making, or one on the branch.
pub(super) struct Node<'a> {
    pub fold: Cow<'a, Fold>,
    pub new: bool,
    /// What it frees against the state without it.
    pub freed: Freed,
    /// What it hides of a person's words, and what it shows more of: a clipped message that becomes a carrier is whole again.
    pub words: Words,
    pub placeholder: String,
    pub hidden: Vec<usize>,
    pub children: Vec<usize>,
    /// In no group: somebody else edited what it claims.
    pub closed: bool,
}

/// The folds as they would stand.
#[derive(Clone, Default)]
pub(super) struct State {
    pub roots: Vec<usize>,
    pub leaves: usize,
    pub parents: Vec<usize>,
    pub freed: Freed,
    pub words: Size,
}

/// Members of a group and, while a person's words are above the limit, those words (bytes, images).
type Members = (Vec<usize>, Option<(u64, u64)>);

/// A commit decided, not written yet: it may still be refused for freeing too little.
pub(crate) struct Plan<'a> {
    work: Work<'a>,
    state: State,
}

impl Plan<'_> {
    /// Whether there is a fold in it.
    pub fn folds(&self) -> bool {
        self.state.leaves + self.state.parents.len() > 0
    }

    /// What the folds free, clips not counted.
    pub fn freed(&self) -> Freed {
        self.state.freed
    }

    /// Writes it out, clips included. Walks the branch.
    pub fn outcome(&self) -> Outcome {
        self.work.outcome(&self.state)
    }
}

pub(super) struct Work<'a> {
    pub plan: &'a Planner<'a>,
    pub nodes: Vec<Node<'a>>,
    pub leaves: Vec<usize>,
    /// Ids given to new folds, and what they name.
    pub ids: BTreeMap<FoldId, FoldName>,
    /// See [`Context::last_word`]; asked once.
    pub last_word: Option<usize>,
    /// Words left when the leaf and all before it are minted.
    pub words_after: Vec<Size>,
    /// Parents tried; `None` if there can be none or it would not be smaller.
    pub tried: BTreeMap<Members, Option<usize>>,
}

impl<'a> Planner<'a> {
    /// The smallest commit whose `estimate` of what it frees is at most `target`, else the largest.
    pub fn plan(&'a self, marks: &[Cow<'_, Cut>], target: u64, estimate: impl Fn(Freed) -> u64) -> Plan<'a> {
        let mut work = self.work();
        let existing: Vec<usize> = self.lattice.roots.values().map(|id| work.existing(&self.lattice.folds[id])).collect();
        let mut state = State { roots: existing.clone(), words: self.words, ..State::default() };
        work.fixpoint(&mut state, 0);
        let mut marks = marks.iter();
        while self.takes_all || estimate(state.freed) > target {
            let Some(leaf) = marks.find_map(|cut| work.leaf(cut)) else {
                work.mixed(&mut state, target, &estimate);
                break;
            };
            let quiet = !self.above_limit(work.words_after.last().copied().unwrap_or(self.words));
            work.add(leaf);
            let behind = state.roots.last().is_none_or(|&last| work.nodes[last].fold.units.1 < work.nodes[leaf].fold.units.0);
            if quiet && behind {
                work.push(&mut state, leaf);
            } else {
                state = work.restart(&existing);
            }
        }
        Plan { work, state }
    }

    /// What each of the marks frees as a leaf, when those before it are leaves too; `None` for one that is passed over.
    pub fn leaves(&'a self, marks: &[Cow<'_, Cut>]) -> Vec<Option<Freed>> {
        let mut work = self.work();
        let freed = |cut: &Cow<'_, Cut>| {
            let leaf = work.leaf(cut)?;
            work.add(leaf);
            Some(work.nodes[leaf].freed)
        };
        marks.iter().map(freed).collect()
    }

    fn work(&'a self) -> Work<'a> {
        Work {
            plan: self,
            nodes: Vec::new(),
            leaves: Vec::new(),
            ids: BTreeMap::new(),
            last_word: self.context.last_word(),
            words_after: Vec::new(),
            tried: BTreeMap::new(),
        }
    }

    pub(super) fn above_limit(&self, words: Size) -> bool {
        let tokens = self.rate.tokens_at_most(words.bytes).saturating_add(words.images.saturating_mul(IMAGE_TOKENS));
        tokens > self.words_limit
    }

    /// What a user message adds to a person's words: a carrier counts its own content only.
    pub(super) fn words_of(&self, at: usize, carries: bool) -> Size {
        if carries || self.lattice.carriers.contains_key(&at) { self.context.original[at] } else { self.context.shown[at] }
    }

    pub(super) fn is_hideable(&self, at: usize) -> bool {
        let context = self.context;
        context.state[at] != Shown::Gone && Some(at) != context.newest_user() && !context.foreign.contains(&at) && !context.stays(at)
    }
}

impl Work<'_> {
    fn add(&mut self, leaf: usize) {
        let words = self.words_after.last().copied().unwrap_or(self.plan.words);
        self.words_after.push(self.nodes[leaf].words.of(words));
        self.leaves.push(leaf);
    }

    /// The folds with the first leaves applied, from nothing.
    fn restart(&mut self, existing: &[usize]) -> State {
        let mut roots = [existing, &self.leaves].concat();
        roots.sort_by_key(|&node| self.nodes[node].fold.units.0);
        let freed = self.leaves.iter().fold((0, 0), |freed, &leaf| plus(freed, self.nodes[leaf].freed));
        let words = self.words_after.last().copied().unwrap_or(self.plan.words);
        let mut state = State { roots, leaves: self.leaves.len(), parents: Vec::new(), freed, words };
        self.fixpoint(&mut state, 0);
        state
    }

    /// One more leaf behind all roots, while no fold hides a person's words: what stands already stays as it is.
    fn push(&mut self, state: &mut State, leaf: usize) {
        state.roots.push(leaf);
        state.leaves += 1;
        state.freed = plus(state.freed, self.nodes[leaf].freed);
        state.words = self.nodes[leaf].words.of(state.words);
        self.fixpoint(state, state.roots.len().saturating_sub(self.plan.consolidate_after));
    }

    /// Groups of equal depth, scanning from root `i`, until none is left.
    fn fixpoint(&mut self, state: &mut State, mut i: usize) {
        let n = self.plan.consolidate_after;
        while i + n <= state.roots.len() {
            let depth = self.nodes[state.roots[i]].fold.depth;
            let equal = state.roots[i..i + n].iter().all(|&root| self.nodes[root].fold.depth == depth);
            i = if equal && self.merge(state, i) { i.saturating_sub(n - 1) } else { i + 1 };
        }
    }

    /// Groups of any depth, one at a time, while the target is missed.
    fn mixed(&mut self, state: &mut State, target: u64, estimate: impl Fn(Freed) -> u64) {
        let n = self.plan.consolidate_after;
        while estimate(state.freed) > target {
            let last = (state.roots.len() + 1).saturating_sub(n);
            if !(0..last).any(|i| self.merge(state, i)) {
                break;
            }
            self.fixpoint(state, 0);
        }
    }

    /// Puts a parent in the place of the group that begins at root `i`, if there can be one and it is smaller.
    fn merge(&mut self, state: &mut State, i: usize) -> bool {
        let n = self.plan.consolidate_after;
        let group = state.roots[i..i + n].to_vec();
        let key = (group, self.plan.above_limit(state.words).then_some((state.words.bytes, state.words.images)));
        let parent = match self.tried.get(&key) {
            Some(known) => *known,
            None => {
                let parent = self.parent(&key.0, state.words);
                self.tried.insert(key, parent);
                parent
            }
        };
        let Some(parent) = parent else { return false };
        state.roots.splice(i..i + n, [parent]);
        state.parents.push(parent);
        state.freed = plus(state.freed, self.nodes[parent].freed);
        state.words = self.nodes[parent].words.of(state.words);
        true
    }
}
