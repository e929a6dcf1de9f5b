//! Making a fold: what it hides, what it is called, what its placeholder says, what it frees against the window without it.
//!
//! Nothing here chooses: a leaf is made of a mark, a parent of neighbouring roots, and both are refused where they would not make the
//! window smaller.

use super::brief::{Bound, Child, brief, gist, parent_brief};
use super::commit::{Freed, Node, Words, Work, lowers, plus, text};
use super::context::Context;
use super::cut::{Carrier, Cut};
use super::lattice::Fold;
use super::text::{FoldId, FoldKind, FoldName, placeholder, result_line};
use crate::journal::Entry;
use crate::window::Size;
use std::borrow::Cow;
use std::collections::BTreeSet;

impl<'a> Work<'a> {
    /// A fold that stands on the branch already.
    pub(super) fn existing(&mut self, fold: &'a Fold) -> usize {
        let context = self.plan.context;
        let claims = |at: &usize| context.foreign.contains(at);
        let batch = fold.carrier.answer().into_iter().chain(fold.carrier.others().iter().copied()).chain([fold.carrier.position()]);
        let pinned = self.plan.lattice.pinned.contains(&fold.id);
        let closed =
            pinned || !context.foreign.is_empty() && (batch.clone().any(|at| claims(&at)) || self.plan.lattice.hidden(fold).iter().any(claims));
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
    pub(super) fn leaf(&mut self, cut: &Cut) -> Option<usize> {
        let context = self.plan.context;
        let carrier = cut.carrier.position();
        let has_last_word = |unit: &usize| self.last_word.is_some_and(|at| context.unit_of[at] == Some(*unit));
        if Some(carrier) == self.last_word || cut.units.iter().any(has_last_word) {
            return None;
        }
        if context.foreign.contains(&carrier) || cut.units.iter().any(|&unit| context.is_foreign(unit)) {
            return None;
        }
        let words = self.words_after.last().copied().unwrap_or(self.plan.words);
        let first = context.first_asked(cut.users.iter().copied());
        let candidates = cut.users.iter().copied().filter(|&at| at != carrier && Some(at) != first && self.plan.is_hideable(at));
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
        let supplied = context.briefs.get(&cut.units).cloned();
        let text_of_brief = supplied.as_deref().map_or_else(|| brief(&entries, &told, self.bound(weight)), str::to_owned);
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
            bound: self.plan.policy.brief_chars,
            gist: gist_of(context, cut.units.iter().copied()),
            brief: supplied,
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

    /// Makes the parent of a group; `None` if something keeps its members apart, or it would not be smaller.
    pub(super) fn parent(&mut self, group: &[usize], words: Size) -> Option<usize> {
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
        if context.stays(carrier.position()) && matches!(carrier, Carrier::User(_)) {
            return None;
        }
        let units = (self.nodes[group[0]].fold.units.0, self.nodes[group[group.len() - 1]].fold.units.1);
        let mut given_back = self.user_carriers_under(group);
        given_back.remove(&carrier.position());
        let (hidden, gone) = if self.plan.above_limit(words) {
            let from = context.users.partition_point(|&at| at < context.units[units.0].entries[0]);
            let end = context.units[units.1].entries.last().copied().unwrap_or(0);
            let already: BTreeSet<usize> = self.hidden_under(group);
            let users = || context.users[from..].iter().copied().take_while(|&at| at < end).filter(|at| !already.contains(at));
            let first = context.first_asked(users());
            let candidates = users().filter(|at| *at != carrier.position() && Some(*at) != first && self.plan.is_hideable(*at));
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
            bound: self.plan.policy.brief_chars,
            gist: self.nodes[group[0]].fold.gist.clone(),
            brief: None,
            parts,
        };
        let node = self.finished(fold, text, freed, hidden, Words { hidden: gone, back: Size::default() }, group.to_vec());
        self.keep(node)
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
        let counts = |unit: &usize| context.units[*unit].kind.is_folded();
        let riders: Vec<usize> = between.filter(counts).collect();
        let shown = |unit: &usize| context.units[*unit].entries.iter().map(|&at| context.shown[at].weight()).sum::<u64>();
        let light = riders.iter().map(shown).sum::<u64>() < self.plan.policy.min_fold;
        let last_word = self.last_word.and_then(|at| context.unit_of[at]);
        let free = |unit: &usize| !self.plan.lattice.claimed.contains(unit) && Some(*unit) != last_word;
        (light && riders.iter().all(free)).then_some(riders)
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
}

/// What a leaf is about; its units are those of its claim.
pub(super) fn gist_of(context: &Context, units: impl Iterator<Item = usize>) -> String {
    let entries: Vec<&Entry> = units.flat_map(|unit| &context.units[unit].entries).map(|&at| &context.entries[at]).collect();
    gist(&entries)
}
