//! The commit: the one place where shown bytes change.
//!
//! Leaves from marks, parents from roots, the smallest number of leaves that meets the target *after* consolidation, then clips. What
//! is tried is kept: a leaf does not depend on how many follow it, a parent only on its members, so each further leaf costs a few
//! comparisons. `docs/law.md`, "A commit", is the specification.

use super::brief::{Bound, Child, brief, gist, parent_brief};
use super::clip::clip_content;
use super::context::{Context, Shown};
use super::cut::{Carrier, Cut, CutPolicy};
use super::lattice::{Fold, Lattice};
use super::text::{FoldId, FoldKind, FoldName, placeholder, result_line};
use super::unit::UnitKind;
use crate::journal::{Content, Entry, Kind, Role};
use crate::window::{IMAGE_TOKENS, Rate, Size};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Head and tail of a clipped result, in bytes, and what is worth clipping (fold law, clipping).
const RESULT_CLIP: (usize, usize) = (400, 200);
const CLIPPABLE: u64 = 2_000;
/// Head and tail of a clipped user message, in bytes, and the good answers that must have followed it.
const USER_CLIP: (usize, usize) = (2_000, 500);
const USER_ANSWERS: usize = 8;
/// The tool whose output is never clipped: our own.
const OWN_TOOL: &str = "pi_fold_context";

/// What keeps a window above its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// System prompt, tool declarations, and whatever the provider adds.
    Overhead,
    /// Placeholders and the calls they need.
    Placeholders,
    /// Held by choice.
    Held,
    /// Not read by the model yet.
    Unripe,
    /// What the host cannot edit, or what does not pair.
    Uneditable,
    /// Edited by somebody else.
    Foreign,
    /// A person's words.
    Words,
    /// Ripe, but no fold of it would be smaller.
    Unfoldable,
}

/// By how much a commit misses its target, and what is in the way; tokens at the mean rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Tokens above the target.
    pub missing: u64,
    /// The largest first.
    pub obstacles: Vec<(Obstacle, u64)>,
}

/// Bytes and images, signed: what a step takes away.
pub(crate) type Freed = (i64, i64);

fn plus(left: Freed, right: Freed) -> Freed {
    (left.0.saturating_add(right.0), left.1.saturating_add(right.1))
}

fn text(bytes: usize) -> Size {
    Size { bytes: bytes as u64, images: 0 }
}

/// Whether the shown weight sinks.
fn lowers((bytes, images): Freed) -> bool {
    bytes.saturating_add(images.saturating_mul(Size { bytes: 0, images: 1 }.weight().cast_signed())) > 0
}

/// A change of a person's words.
#[derive(Clone, Copy, Debug, Default)]
struct Words {
    hidden: Size,
    back: Size,
}

impl Words {
    fn of(self, words: Size) -> Size {
        (words + self.back).saturating_sub(self.hidden)
    }
}

/// What a commit would do.
pub(crate) struct Outcome {
    /// New folds with the names of their children: leaves, then parents in the order they were made.
    pub folds: Vec<(Fold, Vec<FoldName>)>,
    /// Position and new content; `None` omits. In an order in which every prefix keeps calls and results paired.
    pub edits: Vec<(usize, Option<String>)>,
    /// User messages hidden, entries clipped.
    pub hidden_users: usize,
    pub clips: usize,
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
}

/// A fold in the making, or one on the branch.
struct Node<'a> {
    fold: Cow<'a, Fold>,
    new: bool,
    /// What it frees against the state without it.
    freed: Freed,
    /// What it hides of a person's words, and what it shows more of: a clipped message that becomes a carrier is whole again.
    words: Words,
    placeholder: String,
    hidden: Vec<usize>,
    children: Vec<usize>,
    /// In no group: somebody else edited what it claims.
    closed: bool,
}

/// The folds as they would stand.
#[derive(Clone, Default)]
struct State {
    roots: Vec<usize>,
    leaves: usize,
    parents: Vec<usize>,
    freed: Freed,
    words: Size,
}

/// Members of a group and, while a person's words are above the limit, those words (bytes, images).
type Members = (Vec<usize>, Option<(u64, u64)>);

/// A commit decided, not written yet: it may still be refused for freeing too little.
pub(crate) struct Plan<'a> {
    work: Work<'a>,
    state: State,
}

impl Plan<'_> {
    /// What the folds free, clips not counted.
    pub fn freed(&self) -> Freed {
        self.state.freed
    }

    /// Writes it out, clips included. Walks the branch.
    pub fn outcome(&self) -> Outcome {
        self.work.outcome(&self.state)
    }
}

struct Work<'a> {
    plan: &'a Planner<'a>,
    nodes: Vec<Node<'a>>,
    leaves: Vec<usize>,
    /// Ids given to new folds, and what they name.
    ids: BTreeMap<FoldId, FoldName>,
    /// Words left when the leaf and all before it are minted.
    words_after: Vec<Size>,
    /// Parents tried; `None` if there can be none or it would not be smaller.
    tried: BTreeMap<Members, Option<usize>>,
}

impl<'a> Planner<'a> {
    /// The smallest commit whose `estimate` of what it frees is at most `target`, else the largest; `None` if nothing can be folded.
    pub fn plan(&'a self, marks: &[Cow<'_, Cut>], target: u64, estimate: impl Fn(Freed) -> u64) -> Option<Plan<'a>> {
        let mut work =
            Work { plan: self, nodes: Vec::new(), leaves: Vec::new(), ids: BTreeMap::new(), words_after: Vec::new(), tried: BTreeMap::new() };
        let existing: Vec<usize> = self.lattice.roots.values().map(|id| work.existing(&self.lattice.folds[id])).collect();
        let mut state = State { roots: existing.clone(), words: self.words, ..State::default() };
        work.fixpoint(&mut state, 0);
        let mut marks = marks.iter();
        while estimate(state.freed) > target {
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
        (state.leaves + state.parents.len() > 0).then_some(Plan { work, state })
    }

    fn above_limit(&self, words: Size) -> bool {
        let tokens = self.rate.tokens_at_most(words.bytes).saturating_add(words.images.saturating_mul(IMAGE_TOKENS));
        tokens > self.words_limit
    }

    /// What a user message adds to a person's words: a carrier counts its own content only.
    fn words_of(&self, at: usize, carries: bool) -> Size {
        if carries || self.lattice.carriers.contains_key(&at) { self.context.original[at] } else { self.context.shown[at] }
    }

    fn is_hideable(&self, at: usize) -> bool {
        self.context.state[at] != Shown::Gone && Some(at) != self.context.newest_user() && !self.context.foreign.contains(&at)
    }
}

impl<'a> Work<'a> {
    fn existing(&mut self, fold: &'a Fold) -> usize {
        let context = self.plan.context;
        let claims = |at: &usize| context.foreign.contains(at);
        let batch = fold.carrier.answer().into_iter().chain(fold.carrier.others().iter().copied()).chain([fold.carrier.position()]);
        let closed = !context.foreign.is_empty() && (batch.clone().any(|at| claims(&at)) || self.plan.lattice.hidden(fold).iter().any(claims));
        self.nodes.push(Node {
            fold: Cow::Borrowed(fold),
            new: false,
            freed: (0, 0),
            words: Words::default(),
            placeholder: String::new(),
            hidden: Vec::new(),
            children: Vec::new(),
            closed,
        });
        self.nodes.len() - 1
    }

    /// Mints a leaf; `None` if somebody else's content is in it, or the last word, or the window would not get smaller.
    fn leaf(&mut self, cut: &Cut) -> Option<usize> {
        let context = self.plan.context;
        let carrier = cut.carrier.position();
        let last_word = context.last_word();
        if Some(carrier) == last_word || cut.units.iter().any(|&unit| last_word.is_some_and(|at| context.unit_of[at] == Some(unit))) {
            return None;
        }
        if context.foreign.contains(&carrier) || cut.units.iter().any(|&unit| context.is_foreign(unit)) {
            return None;
        }
        let words = self.words_after.last().copied().unwrap_or(self.plan.words);
        let candidates = cut.users.iter().copied().filter(|&at| at != carrier && self.plan.is_hideable(at));
        let back = match cut.carrier {
            Carrier::User(at) => context.original[at].saturating_sub(self.plan.words_of(at, false)),
            _ => Size::default(),
        };
        let (hidden, gone) = self.hide(candidates, words + back, |_| false);
        let mut parts = cut.parts(context);
        parts.extend(&hidden);
        parts.sort_unstable();
        let weight = context.weight(parts.iter().copied());
        let entries: Vec<&Entry> = parts.iter().map(|&at| &context.entries[at]).collect();
        let told: Vec<&Entry> = hidden.iter().map(|&at| &context.entries[at]).collect();
        let text_of_brief = brief(&entries, &told, self.bound(weight));
        let name = self.name(cut.kind, &parts, &[]);
        let fold = Fold {
            id: self.id(name),
            name,
            kind: cut.kind,
            depth: 1,
            carrier: cut.carrier.clone(),
            children: Vec::new(),
            units: (cut.units[0], cut.units[cut.units.len() - 1]),
            placeholder: 0,
            entries: parts.len(),
            first: parts[0],
            last: parts[parts.len() - 1],
            gist: gist_of(context, cut.units.iter().copied()),
            parts,
        };
        let mut freed = (0, 0);
        for &at in &fold.parts {
            freed = plus(freed, context.shown[at].minus(Size::default()));
        }
        if let Carrier::User(at) = fold.carrier {
            freed = plus(freed, context.shown[at].minus(context.original[at]));
        }
        let node = self.finished(fold, text_of_brief, freed, hidden, Words { hidden: gone, back }, Vec::new());
        self.keep(node)
    }

    /// Writes the placeholder and counts it.
    fn finished(&self, mut fold: Fold, brief: String, freed: Freed, hidden: Vec<usize>, words: Words, children: Vec<usize>) -> Node<'a> {
        let entries = &self.plan.context.entries;
        let placeholder = placeholder(&fold.id, fold.kind, fold.entries, entries[fold.first].id(), entries[fold.last].id(), &brief);
        fold.placeholder = placeholder.len() as u64;
        let lines = fold.carrier.others().len() * result_line(&fold.id).len();
        let freed = plus(freed, Size::default().minus(text(placeholder.len() + lines)));
        Node { fold: Cow::Owned(fold), new: true, freed, words, placeholder, hidden, children, closed: false }
    }

    /// Takes a fold in, if it makes the window smaller.
    fn keep(&mut self, node: Node<'a>) -> Option<usize> {
        lowers(node.freed).then(|| {
            self.ids.insert(node.fold.id.clone(), node.fold.name);
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn add(&mut self, leaf: usize) {
        let words = self.words_after.last().copied().unwrap_or(self.plan.words);
        self.words_after.push(self.nodes[leaf].words.of(words));
        self.leaves.push(leaf);
    }

    /// The stalest of the candidates, only as many as bring a person's words down to the limit.
    fn hide(&self, candidates: impl Iterator<Item = usize>, mut words: Size, carries: impl Fn(usize) -> bool) -> (Vec<usize>, Size) {
        let (mut hidden, mut gone) = (Vec::new(), Size::default());
        for at in candidates {
            if !self.plan.above_limit(words) {
                break;
            }
            let size = self.plan.words_of(at, carries(at));
            words = words.saturating_sub(size);
            gone = gone + size;
            hidden.push(at);
        }
        (hidden, gone)
    }

    fn bound(&self, source: u64) -> Bound {
        Bound { chars: self.plan.policy.brief_chars, bytes: usize::try_from(source / 4).unwrap_or(usize::MAX) }
    }

    fn name(&self, kind: FoldKind, parts: &[usize], children: &[usize]) -> FoldName {
        let entries = parts.iter().map(|&at| &self.plan.context.entries[at]).map(|entry| (entry.id(), entry.digest()));
        FoldName::of(kind, entries, children.iter().map(|&child| &self.nodes[child].fold).map(|fold| (fold.id.as_str(), fold.name.digest())))
    }

    /// The id of a name; longer while another fold has it.
    fn id(&self, name: FoldName) -> FoldId {
        let taken = |id: &FoldId| {
            let known = self.plan.lattice.folds.get(id).map(|fold| fold.name);
            known.into_iter().chain(self.ids.get(id).copied()).any(|other| other != name)
        };
        (12..=64).step_by(2).map(|digits| name.id(digits)).find(|id| !taken(id)).unwrap_or_else(|| name.id(64))
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

    /// The units between two roots, if they may ride along in a group.
    fn riders(&self, left: usize, right: usize) -> Option<Vec<usize>> {
        let context = self.plan.context;
        let (left, right) = (&self.nodes[left], &self.nodes[right]);
        if left.closed || right.closed {
            return None;
        }
        let between = context.between(left.fold.units.1, right.fold.units.0);
        let from = context.units[left.fold.units.1].entries.last().map_or(0, |at| at + 1);
        let to = context.units[right.fold.units.0].entries[0];
        if context.ends.range(between.clone()).next().is_some() || (from < to && context.foreign.range(from..to).next().is_some()) {
            return None;
        }
        let counts = |unit: &usize| matches!(context.units[*unit].kind, UnitKind::Custom | UnitKind::Answer | UnitKind::Batch);
        let riders: Vec<usize> = between.filter(counts).collect();
        let shown = |unit: &usize| context.units[*unit].entries.iter().map(|&at| context.shown[at].weight()).sum::<u64>();
        let light = riders.iter().map(shown).sum::<u64>() < self.plan.policy.min_fold;
        let last_word = context.last_word().and_then(|at| context.unit_of[at]);
        let free = |unit: &usize| !self.plan.lattice.claimed.contains(unit) && Some(*unit) != last_word;
        (light && riders.iter().all(free)).then_some(riders)
    }

    fn parent(&mut self, group: &[usize], words: Size) -> Option<usize> {
        let context = self.plan.context;
        let mut riders = Vec::new();
        for pair in group.windows(2) {
            riders.extend(self.riders(pair[0], pair[1])?);
        }
        let lightest = group
            .iter()
            .filter_map(|&child| Some((context.original[self.nodes[child].fold.carrier.answer()?].weight(), child)))
            .min_by_key(|(weight, _)| *weight)
            .map_or(group[0], |(_, child)| child);
        let carrier = self.nodes[lightest].fold.carrier.clone();
        let units = (self.nodes[group[0]].fold.units.0, self.nodes[group[group.len() - 1]].fold.units.1);
        let mut given_back = self.user_carriers_under(group);
        given_back.remove(&carrier.position());
        let (hidden, gone) = if self.plan.above_limit(words) {
            let from = context.users.partition_point(|&at| at < context.units[units.0].entries[0]);
            let end = context.units[units.1].entries.last().copied().unwrap_or(0);
            let already: BTreeSet<usize> = self.hidden_under(group);
            let candidates = context.users[from..].iter().copied().take_while(|&at| at < end);
            let candidates = candidates.filter(|at| *at != carrier.position() && !already.contains(at) && self.plan.is_hideable(*at));
            self.hide(candidates, words, |at| given_back.contains(&at))
        } else {
            (Vec::new(), Size::default())
        };
        let others = group.iter().filter(|&&child| child != lightest).map(|&child| &self.nodes[child].fold);
        let answers = others.clone().filter_map(|fold| fold.carrier.answer());
        let ridden = riders.iter().flat_map(|&unit| context.units[unit].entries.iter().copied());
        let mut parts: Vec<usize> = ridden.clone().chain(answers).chain(hidden.iter().copied()).collect();
        parts.sort_unstable();

        let mut freed = (0, 0);
        for at in parts.iter().copied() {
            // A carrier that is hidden gives back its own words first; the block is counted with its fold below.
            let size = if hidden.contains(&at) { self.plan.words_of(at, given_back.contains(&at)) } else { context.shown[at] };
            freed = plus(freed, size.minus(Size::default()));
        }
        for &child in group {
            let fold = &self.nodes[child].fold;
            let lines = fold.carrier.others().len() * result_line(&fold.id).len();
            freed = plus(freed, Size { bytes: fold.placeholder + lines as u64, images: 0 }.minus(Size::default()));
        }
        let name = self.name(FoldKind::Consolidated, &parts, group);
        let folds = || group.iter().map(|&child| &self.nodes[child].fold);
        let ends = folds().map(|fold| (fold.first, fold.last)).chain(parts.iter().map(|&at| (at, at)));
        let (first, last) = ends.fold((usize::MAX, 0), |(first, last), (from, to)| (first.min(from), last.max(to)));
        let children: Vec<Child> =
            folds().map(|fold| Child { id: fold.id.to_string(), kind: fold.kind, entries: fold.entries, gist: fold.gist.clone() }).collect();
        let source = folds().map(|fold| fold.placeholder).sum::<u64>() + context.weight(parts.iter().copied());
        let entries: Vec<&Entry> = parts.iter().map(|&at| &context.entries[at]).collect();
        let told: Vec<&Entry> = hidden.iter().map(|&at| &context.entries[at]).collect();
        let text = parent_brief(&children, &entries, &told, self.bound(source));
        let fold = Fold {
            id: self.id(name),
            name,
            kind: FoldKind::Consolidated,
            depth: 1 + folds().map(|fold| fold.depth).max().unwrap_or(0),
            carrier,
            children: folds().map(|fold| fold.id.clone()).collect(),
            units,
            placeholder: 0,
            entries: parts.len() + folds().map(|fold| fold.entries).sum::<usize>(),
            first,
            last,
            gist: self.nodes[group[0]].fold.gist.clone(),
            parts,
        };
        let node = self.finished(fold, text, freed, hidden, Words { hidden: gone, back: Size::default() }, group.to_vec());
        self.keep(node)
    }

    /// User messages that carry the placeholders of these folds and of new ones under them.
    fn user_carriers_under(&self, group: &[usize]) -> BTreeSet<usize> {
        let mut carriers = BTreeSet::new();
        let mut stack = group.to_vec();
        while let Some(node) = stack.pop() {
            if let Carrier::User(at) = self.nodes[node].fold.carrier {
                carriers.insert(at);
            }
            stack.extend(&self.nodes[node].children);
        }
        carriers
    }

    /// User messages that new folds among these, or under them, hide already.
    fn hidden_under(&self, group: &[usize]) -> BTreeSet<usize> {
        let mut hidden = BTreeSet::new();
        let mut stack = group.to_vec();
        while let Some(node) = stack.pop() {
            hidden.extend(&self.nodes[node].hidden);
            stack.extend(&self.nodes[node].children);
        }
        hidden
    }

    fn outcome(&self, state: &State) -> Outcome {
        let made = self.leaves[..state.leaves].iter().chain(&state.parents);
        let names = |node: &Node<'_>| node.children.iter().map(|&child| self.nodes[child].fold.name).collect::<Vec<_>>();
        let folds = made.clone().map(|&node| (self.nodes[node].fold.clone().into_owned(), names(&self.nodes[node]))).collect();
        let hidden_users = made.map(|&node| self.nodes[node].hidden.len()).sum();
        let mut edits: Vec<Edit> = Vec::new();
        for &root in state.roots.iter().filter(|&&root| self.nodes[root].new) {
            edits.extend(self.edits(root));
        }
        let clips = self.clips(&mut edits, state.words);
        let clipped = clips.len();
        let edits = edits.into_iter().chain(clips).map(|edit| (edit.at, edit.content)).collect();
        Outcome { folds, edits, hidden_users, clips: clipped }
    }

    /// The edits of a new root: first what is replaced, then what is omitted, results before the message that called them.
    fn edits(&self, root: usize) -> Vec<Edit> {
        let context = self.plan.context;
        let node = &self.nodes[root];
        let fold = &node.fold;
        let carrier = fold.carrier.position();
        let shown = match &fold.carrier {
            Carrier::User(at) => Edit {
                at: *at,
                content: Some(with_block(&context.entries[*at], &node.placeholder)),
                size: context.original[*at] + text(node.placeholder.len()),
                gives_back: false,
            },
            _ => Edit {
                at: carrier,
                content: Some(format!("[{}]", text_block(&node.placeholder))),
                size: text(node.placeholder.len()),
                gives_back: false,
            },
        };
        let line = result_line(&fold.id);
        let lines = fold.carrier.others().iter().map(|&at| Edit {
            at,
            content: Some(format!("[{}]", text_block(&line))),
            size: text(line.len()),
            gives_back: false,
        });
        let mut edits: Vec<Edit> = std::iter::once(shown).chain(lines).collect();
        let kept: BTreeSet<usize> = edits.iter().map(|edit| edit.at).collect();

        let (mut omitted, mut given_back) = (BTreeSet::new(), BTreeSet::new());
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            let node = &self.nodes[at];
            match &node.fold.carrier {
                Carrier::User(user) => {
                    given_back.extend((*user != carrier && (!node.new || context.state[*user] == Shown::Replaced)).then_some(*user))
                }
                Carrier::Custom(custom) => omitted.extend([*custom]),
                Carrier::Result { result, others, .. } => omitted.extend(others.iter().chain([result])),
            }
            if node.new {
                omitted.extend(&node.fold.parts);
                stack.extend(&node.children);
            }
        }
        given_back.retain(|at| !omitted.contains(at));
        edits.extend(given_back.into_iter().map(|at| Edit {
            at,
            content: Some(context.entries[at].content().raw().to_owned()),
            size: context.original[at],
            gives_back: true,
        }));
        omitted.retain(|at| !kept.contains(at) && context.state[*at] != Shown::Gone);
        let mut omitted: Vec<usize> = omitted.into_iter().collect();
        omitted.sort_by_key(|&at| (context.unit_of[at], Reverse(at)));
        edits.extend(omitted.into_iter().map(|at| Edit { at, content: None, size: Size::default(), gives_back: false }));
        edits
    }

    /// Old results cut to head and tail, then heavy words of a person; in branch order.
    fn clips(&self, edits: &mut [Edit], words: Size) -> Vec<Edit> {
        let context = self.plan.context;
        let (mut shown, mut state) = (context.shown.clone(), context.state.clone());
        for edit in edits.iter() {
            (shown[edit.at], state[edit.at]) = (edit.size, Shown::Replaced);
        }
        let raw = |at: usize| state[at] == Shown::Raw && !context.foreign.contains(&at);
        let mut clips = Vec::new();
        if self.plan.clip_ppm > 0 {
            let weight = |at: usize| shown[at].weight().saturating_sub(system_weight(&context.entries[at]));
            // What weighs nothing is passed without a look: most of a long branch.
            let counts = |at: &usize| shown[*at] != Size::default() && !matches!(context.entries[*at].kind(), Kind::Message(Role::System));
            let total: u64 = context.in_context().filter(counts).map(weight).sum();
            let share = u64::try_from(u128::from(total) * u128::from(self.plan.clip_ppm) / 1_000_000).unwrap_or(u64::MAX);
            let mut sum = 0;
            for at in context.in_context().filter(counts) {
                sum += weight(at);
                if sum > share {
                    break;
                }
                if raw(at) && self.is_clippable(at) {
                    clips.extend(self.clip(at, RESULT_CLIP));
                }
            }
        }
        let given_back: BTreeSet<usize> = edits.iter().filter(|edit| edit.gives_back).map(|edit| edit.at).collect();
        for clip in self.heavy_words(words, |at| raw(at) || given_back.contains(&at)) {
            match edits.iter_mut().find(|edit| edit.at == clip.at) {
                Some(edit) => *edit = clip,
                None => clips.push(clip),
            }
        }
        clips.sort_by_key(|edit| edit.at);
        clips
    }

    /// Whether it is a result of a ripe batch that nobody holds, large enough to be worth it, and not our own output.
    fn is_clippable(&self, at: usize) -> bool {
        let context = self.plan.context;
        let Kind::Message(Role::ToolResult { tool, .. }) = context.entries[at].kind() else { return false };
        let ripe = context.unit_of[at].is_some_and(|unit| context.units[unit].kind == UnitKind::Batch && !context.held.contains(&unit));
        ripe && *tool != *OWN_TOOL && context.original[at].bytes >= CLIPPABLE
    }

    fn clip(&self, at: usize, (head, tail): (usize, usize)) -> Option<Edit> {
        let entry = &self.plan.context.entries[at];
        let content = clip_content(entry.content(), entry.id(), head, tail)?;
        let size = Size::of_content(Content::of(&content));
        (size.weight() < self.plan.context.original[at].weight()).then_some(Edit { at, content: Some(content), size, gives_back: false })
    }

    /// User messages that are clipped because a person's words are above the limit: the heaviest first, long after they were read.
    fn heavy_words(&self, mut words: Size, raw: impl Fn(usize) -> bool) -> Vec<Edit> {
        let context = self.plan.context;
        if !self.plan.above_limit(words) {
            return Vec::new();
        }
        let read = |at: usize| context.answers - context.answers_before[at] >= USER_ANSWERS;
        let heavy = |at: &usize| context.original[*at].weight() > self.plan.policy.min_fold;
        let mut users: Vec<usize> = context.users.iter().copied().filter(|&at| raw(at) && read(at)).filter(heavy).collect();
        users.sort_by_key(|&at| (Reverse(context.original[at].weight()), at));
        let mut clips = Vec::new();
        for at in users {
            if !self.plan.above_limit(words) {
                break;
            }
            if let Some(clip) = self.clip(at, USER_CLIP) {
                words = words.saturating_sub(context.original[at]) + clip.size;
                clips.push(clip);
            }
        }
        clips
    }
}

struct Edit {
    at: usize,
    content: Option<String>,
    /// Size of what is shown afterwards.
    size: Size,
    /// Whether it gives a person's message its own content back.
    gives_back: bool,
}

/// What a leaf is about; its units are those of its claim.
pub(super) fn gist_of(context: &Context, units: impl Iterator<Item = usize>) -> String {
    let entries: Vec<&Entry> = units.flat_map(|unit| &context.units[unit].entries).map(|&at| &context.entries[at]).collect();
    gist(&entries)
}

/// What a compaction carries of the system prompt: no part of the conversation.
fn system_weight(entry: &Entry) -> u64 {
    match entry.kind() {
        Kind::Compaction { .. } => entry.field("systemMessage").filter(|raw| raw.starts_with('{')).map_or(0, |raw| raw.len() as u64),
        _ => 0,
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", serde_json::Value::from(text))
}

/// A person's own content, untouched, with one more text block.
fn with_block(user: &Entry, text: &str) -> String {
    let content = user.content();
    let own = if content.string().is_some() {
        format!("{{\"type\":\"text\",\"text\":{}}}", content.raw())
    } else {
        content.raw().trim().strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).unwrap_or_default().to_owned()
    };
    let separator = if own.trim().is_empty() { "" } else { "," };
    format!("[{own}{separator}{}]", text_block(text))
}
