//! Folds, the windows they make, and which of them become one.

use super::history::{Standing, Told};
use super::walk::{Mark, Unit, UnitKind};
use super::{Shown, View, json, text_block};
use crate::commit::Written;
use fold_runtime::fold::{Bound, Child, FoldId, FoldKind, FoldName, brief, brief_bound, gist, parent_brief, placeholder, result_line};
use fold_runtime::journal::{Digest, Entry, Kind, Role};
use fold_runtime::window::{IMAGE_TOKENS, Size};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A fold, standing or new.
#[derive(Clone)]
pub(super) struct Fold {
    pub(super) id: FoldId,
    /// The SHA-256 of what names it.
    name: Digest,
    pub(super) kind: FoldKind,
    pub(super) carrier: usize,
    pub(super) parts: Vec<usize>,
    /// Indices of earlier folds, and how the record names them.
    pub(super) children: Vec<usize>,
    pub(super) named: Vec<(String, Digest)>,
    /// Its placeholder.
    pub(super) text: String,
    /// A brief that somebody supplied.
    pub(super) supplied: Option<String>,
    /// The units it claims, at any depth, ascending.
    pub(super) units: Vec<usize>,
    /// Entries it hides, at any depth.
    pub(super) hides: BTreeSet<usize>,
    pub(super) depth: usize,
    pub(super) standing: Standing,
}

/// A window that might be: what is shown otherwise than now, all folds there are, and which of them are roots.
#[derive(Clone)]
pub(super) struct State {
    pub(super) shown: BTreeMap<usize, Shown>,
    /// Shared with the windows that were tried before.
    pub(super) folds: Vec<Rc<Fold>>,
    pub(super) roots: Vec<usize>,
}

impl State {
    /// The folds whose placeholders are shown: roots, and those in open folds.
    pub(super) fn shown_folds(&self) -> impl Iterator<Item = &Fold> + Clone {
        self.folds.iter().map(Rc::as_ref).filter(|fold| fold.standing == Standing::Shown)
    }
}

impl View<'_> {
    /// The characters a brief may have.
    pub(super) fn bound(&self) -> usize {
        brief_bound(self.band.budget)
    }

    /// The window before this commit, with the folds that the records on the branch tell of.
    pub(super) fn stand(&self) -> State {
        let written = self.history.records.values().flat_map(|record| record.folds.iter().map(move |fold| (record.bound(), fold)));
        let mut folds: Vec<Rc<Fold>> = Vec::new();
        for (told, (bound, fold)) in self.history.folds.iter().zip(written) {
            let made = self.recorded(&folds, told, fold, bound.unwrap_or_else(|| self.bound()));
            folds.push(Rc::new(made));
        }
        let mut state = State { shown: BTreeMap::new(), roots: Vec::new(), folds };
        self.find_roots(&mut state);
        state
    }

    /// A fold of a record that counts. It keeps the name it was given, whatever became of its originals.
    fn recorded(&self, folds: &[Rc<Fold>], told: &Told, fold: &Written, bound: usize) -> Fold {
        let name = fold.name().expect("called by what it lists");
        let kind = fold.kind().expect("of a known kind");
        let made = self.mint(folds, kind, told.carrier, told.parts.clone(), (told.children.clone(), bound, fold.brief.clone()));
        let made = Fold { id: name.id(fold.id.len() - 2), name: name.digest(), standing: told.standing, ..made };
        Fold { text: self.text(folds, &made, bound), ..made }
    }

    /// A new leaf of these units. What was supplied for them is what it says.
    pub(super) fn mint_leaf(&self, known: &[Rc<Fold>], kind: FoldKind, carrier: usize, parts: Vec<usize>, units: &[usize]) -> Fold {
        self.mint(known, kind, carrier, parts, (Vec::new(), self.bound(), self.supplied(units)))
    }

    /// Names a fold among `known` ones and writes its placeholder, given its children, the characters of its brief, and the brief if
    /// somebody supplied one.
    fn mint(&self, known: &[Rc<Fold>], kind: FoldKind, carrier: usize, parts: Vec<usize>, rest: (Vec<usize>, usize, Option<String>)) -> Fold {
        let (children, bound, supplied) = rest;
        let mut units: BTreeSet<usize> = parts.iter().map(|at| self.unit_of[at]).filter(|unit| self.units[*unit].kind.foldable()).collect();
        let mut hides: BTreeSet<usize> = parts.iter().copied().collect();
        for child in &children {
            units.extend(&known[*child].units);
            hides.extend(&known[*child].hides);
        }
        let units: Vec<usize> = units.into_iter().collect();
        let named: Vec<(String, Digest)> = children.iter().map(|child| (known[*child].id.to_string(), known[*child].name)).collect();
        let (id, name) = self.name(known, kind, &parts, &named);
        let depth = 1 + children.iter().map(|child| known[*child].depth).max().unwrap_or(0);
        let standing = Standing::Shown;
        let fold = Fold { id, name, kind, carrier, parts, children, named, text: String::new(), supplied, units, hides, depth, standing };
        Fold { text: self.text(known, &fold, bound), ..fold }
    }

    /// The placeholder of a fold.
    fn text(&self, known: &[Rc<Fold>], fold: &Fold, bound: usize) -> String {
        let words = fold.supplied.clone().unwrap_or_else(|| self.brief(known, &fold.parts, &fold.children, bound));
        let (first, last) = (fold.hides.first().expect("a fold hides something"), fold.hides.last().expect("a fold hides something"));
        placeholder(&fold.id, fold.kind, fold.hides.len(), self.branch[*first].id(), self.branch[*last].id(), &words)
    }

    fn name(&self, known: &[Rc<Fold>], kind: FoldKind, parts: &[usize], children: &[(String, Digest)]) -> (FoldId, Digest) {
        let parts = parts.iter().map(|at| (self.branch[*at].id(), self.branch[*at].digest()));
        let name = FoldName::of(kind, parts, children.iter().map(|(id, digest)| (id.as_str(), *digest)));
        let taken = |id: &FoldId| known.iter().any(|fold| fold.id == *id && fold.name != name.digest());
        let digits = (12..64).step_by(2).find(|digits| !taken(&name.id(*digits))).unwrap_or(64);
        (name.id(digits), name.digest())
    }

    /// What the placeholder says between its frame.
    fn brief(&self, known: &[Rc<Fold>], parts: &[usize], children: &[usize], bound: usize) -> String {
        let entries: Vec<&Entry> = parts.iter().map(|at| &self.branch[*at]).collect();
        let hidden: Vec<&Entry> = entries.iter().copied().filter(|entry| entry.kind() == &Kind::Message(Role::User)).collect();
        let own: u64 = parts.iter().map(|at| self.weight(*at)).sum();
        let below: usize = children.iter().map(|child| known[*child].text.len()).sum();
        let bound = Bound { chars: bound, bytes: usize::try_from((own + below as u64) / 4).unwrap_or(usize::MAX) };
        if children.is_empty() {
            return brief(&entries, &hidden, bound);
        }
        let child = |child: &usize| {
            let fold = &known[*child];
            Child { id: fold.id.to_string(), kind: fold.kind, entries: fold.hides.len(), gist: self.gist(known, fold) }
        };
        parent_brief(&children.iter().map(child).collect::<Vec<Child>>(), &entries, &hidden, bound)
    }

    /// What a fold's first leaf is about.
    fn gist(&self, known: &[Rc<Fold>], fold: &Fold) -> String {
        match fold.children.first() {
            Some(first) => self.gist(known, &known[*first]),
            None => gist(&self.entries(&fold.units).iter().map(|at| &self.branch[*at]).collect::<Vec<&Entry>>()),
        }
    }

    fn find_roots(&self, state: &mut State) {
        let inside: BTreeSet<usize> = state.folds.iter().flat_map(|fold| fold.children.iter().copied()).collect();
        let is_root = |index: &usize| !inside.contains(index) && state.folds[*index].standing == Standing::Shown;
        let mut roots: Vec<usize> = (0..state.folds.len()).filter(is_root).collect();
        roots.sort_by_key(|root| state.folds[*root].units[0]);
        state.roots = roots;
    }

    /// The units that folds claim.
    pub(super) fn claims(&self, state: &State) -> BTreeSet<usize> {
        state.folds.iter().filter(|fold| fold.standing != Standing::Dissolved).flat_map(|fold| fold.units.iter().copied()).collect()
    }

    /// What an entry shows in this state, if it has a content.
    pub(super) fn content<'s>(&'s self, state: &'s State, at: usize) -> Option<&'s str> {
        state.shown.get(&at).or_else(|| self.shown.get(&at))?.content.as_deref()
    }

    pub(super) fn size(&self, state: &State, at: usize) -> Size {
        state.shown.get(&at).or_else(|| self.shown.get(&at)).map_or(Size::default(), |shown| shown.size)
    }

    /// Shows something else at a place in context.
    pub(super) fn show(&self, state: &mut State, at: usize, shown: Shown) {
        if self.shown.contains_key(&at) {
            state.shown.insert(at, shown);
        }
    }

    fn shown_weight(&self, state: &State) -> u64 {
        self.context.iter().map(|at| self.size(state, *at).weight()).sum()
    }

    /// Whether an entry carries the placeholder of a fold.
    pub(super) fn carries(&self, state: &State, at: usize) -> bool {
        state.shown_folds().any(|fold| fold.carrier == at)
    }

    /// Whether the user's words weigh more than a tenth of the budget, when `carrier` carries too.
    pub(super) fn words_above_limit(&self, state: &State, carrier: Option<usize>) -> bool {
        let users = self.context.iter().filter(|at| self.branch[**at].kind() == &Kind::Message(Role::User));
        // What somebody else says in a placeholder's place is words too.
        let theirs = |at: usize| self.foreign(at) && !self.meter.promises.contains_key(&at);
        let own = |at: &usize| match self.content(state, *at) {
            Some(_) if Some(*at) == carrier || self.carries(state, *at) && !theirs(*at) => Size::of_original(&self.branch[*at]),
            _ => self.size(state, *at),
        };
        let words: Size = users.map(own).sum();
        self.meter.rate_mean().tokens_at_most(words.bytes).saturating_add(words.images * IMAGE_TOKENS) > self.band.budget / 10
    }

    /// Hides the stalest of these user messages until the words are within their limit; answers with the hidden ones.
    fn hide(&self, state: &mut State, users: impl Iterator<Item = usize>, carrier: usize) -> Vec<usize> {
        let mut hidden = Vec::new();
        let users: Vec<usize> = users.collect();
        let asks = |at: &&usize| self.content(state, **at).is_some() && self.weight(**at) > 0;
        let first = users.iter().find(asks).copied();
        for at in users {
            let free = at != carrier
                && Some(at) != first
                && Some(at) != self.newest_user
                && !self.foreign(at)
                && !self.pinned_user(at)
                && self.content(state, at).is_some();
            if free && self.words_above_limit(state, Some(carrier)) {
                self.show(state, at, Shown::NOTHING);
                hidden.push(at);
            }
        }
        hidden
    }

    /// Writes a fold's placeholder where it is carried, and lines over the other results of that batch.
    fn write(&self, state: &mut State, fold: &Fold) {
        self.show(state, fold.carrier, Shown::written(self.carried(fold)));
        for other in self.beside(fold) {
            self.show(state, other, Shown::written(self.line(fold)));
        }
    }

    /// What a fold's carrier shows: a person's own words stay before the placeholder.
    pub(super) fn carried(&self, fold: &Fold) -> String {
        let block = text_block(&json(&fold.text));
        let carrier = &self.branch[fold.carrier];
        if carrier.kind() != &Kind::Message(Role::User) {
            return format!("[{block}]");
        }
        let raw = carrier.content().raw();
        let own = if carrier.content().string().is_some() { text_block(raw) } else { raw.trim()[1..raw.trim().len() - 1].to_owned() };
        if own.trim().is_empty() { format!("[{block}]") } else { format!("[{own},{block}]") }
    }

    /// The other results of the batch that carries a fold.
    pub(super) fn beside(&self, fold: &Fold) -> Vec<usize> {
        let others = self.batch(fold.carrier).map(|batch| batch.entries[1..].iter().copied().filter(|at| *at != fold.carrier).collect());
        others.unwrap_or_default()
    }

    /// What they show.
    pub(super) fn line(&self, fold: &Fold) -> String {
        format!("[{}]", text_block(&json(&result_line(&fold.id))))
    }

    /// The window with this mark as a leaf; `None` where the mark is foreign or expanding, or has the last word.
    pub(super) fn leaf(&self, state: &State, mark: &Mark) -> Option<State> {
        let ends_the_window = |at: usize| Some(at) == self.last_word();
        if ends_the_window(mark.carrier) || self.entries(&mark.units).into_iter().any(ends_the_window) {
            return None;
        }
        let mut parts = self.parts(&mark.units, mark.carrier);
        if self.foreign(mark.carrier) || self.entries(&mark.units).iter().any(|at| self.foreign(*at)) {
            return None;
        }
        let mut next = state.clone();
        for at in &parts {
            self.show(&mut next, *at, Shown::NOTHING);
        }
        parts.extend(self.hide(&mut next, mark.users.iter().copied(), mark.carrier));
        parts.sort_unstable();
        let fold = self.mint_leaf(&state.folds, mark.kind, mark.carrier, parts, &mark.units);
        self.adopt(state, next, fold)
    }

    /// The window with a new fold whose parts are gone already; `None` where that weighs no less than before.
    fn adopt(&self, before: &State, mut next: State, fold: Fold) -> Option<State> {
        self.write(&mut next, &fold);
        fold.children.iter().for_each(|child| Rc::make_mut(&mut next.folds[*child]).standing = Standing::Closed);
        next.folds.push(Rc::new(fold));
        self.find_roots(&mut next);
        (self.shown_weight(&next) < self.shown_weight(before)).then_some(next)
    }

    /// The units that ride along between two neighbours; `None` where something keeps them apart.
    fn riders(&self, state: &State, left: &Fold, right: &Fold) -> Option<Vec<usize>> {
        let (last, first) = (left.units[left.units.len() - 1], right.units[0]);
        let between: Vec<usize> = (last + 1..first).collect();
        let apart = |unit: &Unit| unit.kind == UnitKind::Ender || self.keeps_apart(unit) || unit.ripe.is_none();
        let places = *self.units[last].entries.last().expect("a unit has entries")..self.units[first].entries[0];
        // By place, since an edit may aim at what no unit holds.
        if between.iter().any(|unit| apart(&self.units[*unit])) || places.into_iter().any(|at| self.foreign(at)) {
            return None;
        }
        let riders: Vec<usize> = between.into_iter().filter(|unit| self.units[*unit].kind.foldable()).collect();
        let weight: u64 = self.entries(&riders).iter().map(|at| self.size(state, *at).weight()).sum();
        let last = self.entries(&riders).into_iter().any(|at| Some(at) == self.last_word());
        (weight < self.least() && !last).then_some(riders)
    }

    /// The window with these neighbouring roots under one parent, if they form a group and the parent makes it lighter.
    fn parent(&self, state: &State, group: &[usize]) -> Option<State> {
        let children: Vec<&Fold> = group.iter().map(|root| &*state.folds[*root]).collect();
        // Hidden user messages are parts, so they are claimed like the rest.
        let claimed =
            |fold: &Fold| self.entries(&fold.units).into_iter().chain(fold.hides.iter().copied()).chain([fold.carrier]).collect::<Vec<usize>>();
        let touched = |fold: &&Fold| claimed(fold).into_iter().any(|at| self.foreign(at));
        let pinned = |fold: &&Fold| self.decisions.pinned_folds.contains(fold.id.as_str());
        if children.iter().any(touched) || children.iter().any(pinned) {
            return None;
        }
        let mut riders = Vec::new();
        for pair in children.windows(2) {
            riders.extend(self.riders(state, pair[0], pair[1])?);
        }
        let calls = |carrier: usize| self.batch(carrier).map(|batch| batch.entries[0]);
        let lightest = children.iter().filter_map(|child| Some((calls(child.carrier)?, child.carrier))).min_by_key(|(calls, _)| self.weight(*calls));
        let carrier = lightest.map_or(children[0].carrier, |(_, carrier)| carrier);
        if self.pinned_user(carrier) {
            return None;
        }

        let mut next = state.clone();
        let mut parts = self.entries(&riders);
        for other in children.iter().map(|child| child.carrier).filter(|other| *other != carrier) {
            if let Some(batch) = self.batch(other) {
                batch.entries.iter().for_each(|at| self.show(&mut next, *at, Shown::NOTHING));
                parts.push(batch.entries[0]);
            } else if self.branch[other].kind() == &Kind::Message(Role::User) {
                self.show(&mut next, other, Shown::original(&self.branch[other]));
            } else {
                self.show(&mut next, other, Shown::NOTHING);
            }
        }
        for at in self.entries(&riders) {
            self.show(&mut next, at, Shown::NOTHING);
        }
        let units = self.entries(&children.iter().flat_map(|child| child.units.iter().copied()).collect::<Vec<usize>>());
        let range = units[0]..=units[units.len() - 1];
        let users = range.filter(|at| self.branch[*at].kind() == &Kind::Message(Role::User));
        parts.extend(self.hide(&mut next, users, carrier));
        parts.sort_unstable();
        let fold = self.mint(&state.folds, FoldKind::Consolidated, carrier, parts, (group.to_vec(), self.bound(), None));
        self.adopt(state, next, fold)
    }

    /// Groups of equal depth, stalest first, until none is left.
    pub(super) fn consolidate(&self, mut state: State) -> State {
        let size = self.settings.thresholds.consolidate_after;
        let mut at = 0;
        while at + size <= state.roots.len() {
            let group = state.roots[at..at + size].to_vec();
            let level = group.iter().all(|root| state.folds[*root].depth == state.folds[group[0]].depth);
            match level.then(|| self.parent(&state, &group)).flatten() {
                Some(next) => (state, at) = (next, at.saturating_sub(size - 1)),
                None => at += 1,
            }
        }
        state
    }

    /// The stalest group of any depths that makes the window lighter.
    pub(super) fn mixed(&self, state: &State) -> Option<State> {
        state.roots.windows(self.settings.thresholds.consolidate_after).find_map(|group| self.parent(state, group))
    }
}
