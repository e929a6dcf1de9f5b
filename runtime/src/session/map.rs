//! The window as a map: what stands where, how much of it is shown, and in which of six categories. For screens; it decides nothing.

use super::{Session, view::FoldView};
use crate::fold::{Carrier, FoldId, FoldKind, Shown, UnitKind};
use std::collections::{BTreeMap, BTreeSet};

/// How far from being folded something that is shown is; the order is that of the fold bar, most compressed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// The placeholder of a fold of folds.
    Consolidated,
    /// That of a span.
    Span,
    /// That of one batch.
    Tool,
    /// Raw, and folded by the next commit that goes so far.
    Marked,
    /// Everything else that is shown, clipped results too.
    Raw,
    /// Raw, and held until it is unpinned.
    Pinned,
}

impl Category {
    /// All of them, in the order of the bar.
    pub const ALL: [Category; 6] = [Category::Consolidated, Category::Span, Category::Tool, Category::Marked, Category::Raw, Category::Pinned];

    fn of(kind: FoldKind) -> Self {
        match kind {
            FoldKind::Consolidated => Category::Consolidated,
            FoldKind::Span => Category::Span,
            FoldKind::Tool => Category::Tool,
        }
    }
}

/// What the fold bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// What the provider counted last, in tokens; `None` before it counted anything with this model.
    pub measured: Option<u64>,
    /// Whether what is shown was changed since.
    pub is_old: bool,
    /// Shown weight by category, in bytes: an estimate that is good for shares and nothing else.
    pub weights: [u64; 6],
    /// Visible folds by kind: consolidated, span, tool.
    pub folds: [usize; 3],
    /// Pending marks.
    pub marks: usize,
    /// Pinned entries.
    pub pinned: usize,
}

/// Something in the window, or inside a fold of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// What it is.
    pub item: Item<'a>,
    /// Where it counts.
    pub category: Category,
    /// Its entries by id: those of a unit, or those that a fold hides itself.
    pub entries: Vec<&'a str>,
    /// Weight of it that is shown, in bytes; [`Session::tokens`] makes tokens of it.
    pub shown: u64,
    /// Weight of its originals.
    pub original: u64,
    /// The innermost expanded fold that it is shown for; none of what no expansion shows.
    pub within: Option<&'a str>,
}

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A fold, and whether it is pinned as it is.
    Fold(FoldView<'a>, bool),
    /// A unit, or an entry that is in none.
    Unit {
        /// The entry that names it.
        id: &'a str,
        /// Why it stands as it does.
        state: State,
        /// The mark it is in, by the place of its first unit among the marks, from 1.
        mark: Option<usize>,
    },
}

/// Why something that is not folded stands as it does; the first that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Hidden by a fold that is shown.
    Folded,
    /// Another extension wrote what is shown.
    Foreign,
    /// Taken out of the window by the host.
    Omitted,
    /// Pi edits no such entry, or it belongs to no unit that can be folded.
    Apart,
    /// A person's or an agent's choice.
    Pinned,
    /// One level of a fold that was expanded.
    Expanded,
    /// Withdrawn until the next regular commit is over.
    Withdrawn,
    /// The settings hold the tool's results.
    Held,
    /// The next commit that goes so far folds it.
    Marked,
    /// The model has not answered after it yet.
    Unread,
    /// A person's words, which stay.
    Words,
    /// A commit left its head and its tail.
    Clipped,
    /// In no mark yet.
    Raw,
}

impl State {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            State::Folded => "folded",
            State::Foreign => "another extension's",
            State::Omitted => "omitted by Pi",
            State::Apart => "apart",
            State::Pinned => "pinned",
            State::Expanded => "expanded",
            State::Withdrawn => "withdrawn",
            State::Held => "held",
            State::Marked => "marked",
            State::Unread => "unread",
            State::Words => "words",
            State::Clipped => "clipped",
            State::Raw => "raw",
        }
    }
}

impl Session {
    /// What the fold bar shows. Costs what is shown, not what is folded.
    pub fn gauge(&self) -> Gauge {
        let mut gauge =
            Gauge { measured: self.occupancy.measured(), is_old: self.occupancy.waiting(), weights: [0; 6], folds: [0; 3], marks: 0, pinned: 0 };
        for id in self.lattice.carriers.values() {
            let kind = self.lattice.folds[id].kind;
            gauge.weights[Category::of(kind) as usize] += self.weight_of_root(id);
            gauge.folds[Category::of(kind) as usize] += 1;
        }
        for cut in self.cuts.marks(&self.context) {
            gauge.marks += 1;
            gauge.weights[Category::Marked as usize] +=
                self.weight_of(cut.units.iter().flat_map(|&unit| self.context.units[unit].entries.iter().copied()));
        }
        for &first in &self.context.pinned {
            // A compaction may have kept the results of a call and not the call.
            let entries: Vec<usize> = self.entries_of(first).into_iter().filter(|&at| at >= self.context.kept_from()).collect();
            gauge.pinned += entries.len();
            gauge.weights[Category::Pinned as usize] += self.own_weight(&entries);
        }
        let others: u64 = gauge.weights.iter().sum();
        gauge.weights[Category::Raw as usize] = self.shown().weight().saturating_sub(others);
        gauge
    }

    /// The window from its first entry to its last, folds as one row each. An expanded fold has a row before what is shown of it, which takes nothing
    /// itself. Walks the window and what is expanded.
    pub fn map(&self) -> Vec<Row<'_>> {
        let (marked, folds, carriers) = (self.unit_marks(), self.views(), &self.lattice.carriers);
        let opened = self.opened_entries();
        let inner: BTreeSet<usize> = carriers
            .values()
            .filter(|id| self.lattice.parents.contains_key(*id))
            .flat_map(|id| self.lattice.hidden(&self.lattice.folds[id]))
            .collect();
        let (mut rows, mut seen, mut begun) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for at in self.context.in_context() {
            let within = opened.get(&at).copied();
            // The row of an expanded fold, and of those around it that are expanded too, comes before the first of what is shown of it.
            let around =
                within.into_iter().flat_map(|id| std::iter::once(id).chain(self.lattice.around(id).filter(|id| self.lattice.open.contains_key(*id))));
            for id in around.collect::<Vec<_>>().into_iter().rev().filter(|id| begun.insert(*id)) {
                rows.extend(folds.get(id.as_str()).map(|view| self.fold_row(view)));
            }
            if let Some(id) = carriers.get(&at) {
                rows.extend(folds.get(id.as_str()).map(|view| self.fold_row(view)));
            }
            if (self.context.original[at].weight() == 0 && self.context.shown[at].weight() == 0) || !seen.insert(at) {
                continue;
            }
            let entries = self.entries_of(at);
            seen.extend(entries.iter().copied());
            let unit = self.context.unit_of[at];
            // What a fold claims is shown with its placeholder; not what a compaction took the placeholder of.
            // A person's message that carries one keeps its words.
            let is_words = |unit: usize| self.context.units[unit].kind == UnitKind::User;
            let carries = || !unit.is_some_and(is_words) && entries.iter().any(|at| carriers.contains_key(at));
            let is_hidden = || carries() || entries.iter().all(|&at| self.context.state[at] == Shown::Gone);
            // Of an expanded fold, the folds directly inside it hide theirs still.
            let is_inner = || entries.iter().all(|at| inner.contains(at));
            let is_shown = unit.is_some_and(|unit| self.context.opened.contains(&unit)) && !is_inner();
            let is_claimed = unit.is_some_and(|unit| self.lattice.claimed.contains(&unit)) && !is_shown && is_hidden();
            if !is_claimed {
                let row = self.unit_row(&entries, unit.and_then(|unit| marked.get(&unit).copied()), false);
                rows.push(Row { within: within.map(FoldId::as_str), ..row });
            }
        }
        rows
    }

    /// What a fold holds, one level: the folds directly inside it and the units it hides itself, in branch order; `None` if there is no such fold.
    pub fn inside(&self, fold: &str) -> Option<Vec<Row<'_>>> {
        let found = self.lattice.folds.get(fold)?;
        let views = self.views();
        let mut rows: Vec<(usize, Row<'_>)> = Vec::new();
        for child in &found.children {
            rows.push((self.lattice.folds[child].first, self.fold_row(views.get(child.as_str())?)));
        }
        let mut seen = BTreeSet::new();
        // The answers of its children's carriers are parts of a parent, and read with the children.
        let claimed: BTreeSet<usize> = found
            .children
            .iter()
            .flat_map(|child| self.lattice.hidden(&self.lattice.folds[child]))
            .filter_map(|at| self.context.unit_of[at])
            .collect();
        for &at in &found.parts {
            if self.context.unit_of[at].is_some_and(|unit| claimed.contains(&unit)) || !seen.insert(at) {
                continue;
            }
            let entries = self.entries_of(at);
            seen.extend(entries.iter().copied());
            rows.push((at, self.unit_row(&entries, None, true)));
        }
        rows.sort_by_key(|(at, _)| *at);
        Some(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The innermost expanded fold that each entry of one belongs to.
    fn opened_entries(&self) -> BTreeMap<usize, &FoldId> {
        let mut open: Vec<&FoldId> = self.lattice.open.keys().collect();
        // From the outside in, so that the inner ones have the last word.
        open.sort_by_key(|id| std::cmp::Reverse(self.lattice.folds[*id].depth));
        let entries = |id: &FoldId| {
            let units = self.lattice.claim(&self.lattice.folds[id], &self.context);
            units.into_iter().flat_map(|unit| self.context.units[unit].entries.iter().copied()).collect::<Vec<_>>()
        };
        open.into_iter().flat_map(|id| entries(id).into_iter().map(move |at| (at, id))).collect()
    }

    fn views(&self) -> BTreeMap<&str, FoldView<'_>> {
        self.forest().into_iter().map(|view| (view.id, view)).collect()
    }

    /// The number of the mark that each marked unit is in.
    fn unit_marks(&self) -> BTreeMap<usize, usize> {
        let marks = self.cuts.marks(&self.context);
        marks.iter().enumerate().flat_map(|(number, cut)| cut.units.iter().map(move |&unit| (unit, number + 1)).collect::<Vec<_>>()).collect()
    }

    /// The entries of the unit that an entry is in, ripe or not; the entry alone where it is in none.
    fn entries_of(&self, at: usize) -> Vec<usize> {
        let ripe = self.context.unit_of[at].map(|unit| self.context.units[unit].entries.clone());
        ripe.or_else(|| self.units.unripe(at).map(|unit| unit.entries)).unwrap_or_else(|| vec![at])
    }

    fn weight_of(&self, entries: impl IntoIterator<Item = usize>) -> u64 {
        entries.into_iter().map(|at| self.context.shown[at].weight()).sum()
    }

    /// The same without the placeholders that a person's messages carry: these count with their folds.
    fn own_weight(&self, entries: &[usize]) -> u64 {
        let carried: u64 = entries.iter().filter_map(|at| self.lattice.carriers.get(at)).map(|id| self.lattice.folds[id].placeholder).sum();
        self.weight_of(entries.iter().copied()).saturating_sub(carried)
    }

    /// What a shown fold takes: its placeholder, and what stays of the batch that carries it.
    fn weight_of_root(&self, id: &FoldId) -> u64 {
        let fold = &self.lattice.folds[id];
        match &fold.carrier {
            Carrier::Result { answer, result, others } => self.weight_of([*answer, *result].into_iter().chain(others.iter().copied())),
            Carrier::User(_) | Carrier::Custom(_) => fold.placeholder,
        }
    }

    fn fold_row<'a>(&'a self, view: &FoldView<'a>) -> Row<'a> {
        let fold = &self.lattice.folds[view.id];
        let open = |id: &&FoldId| self.lattice.open.contains_key(*id);
        Row {
            item: Item::Fold(*view, self.lattice.pinned.contains(view.id)),
            category: Category::of(view.kind),
            entries: self.lattice.hidden(fold).into_iter().map(|at| self.context.entries[at].id()).collect(),
            shown: self.lattice.shown(view.id).map_or(0, |fold| self.weight_of_root(&fold.id)),
            original: self.context.weight(self.lattice.hidden(fold)),
            within: self.lattice.around(&fold.id).find(open).map(FoldId::as_str),
        }
    }

    fn unit_row(&self, entries: &[usize], mark: Option<usize>, is_hidden: bool) -> Row<'_> {
        let state = if is_hidden { State::Folded } else { self.state(entries, mark) };
        Row {
            item: Item::Unit { id: self.context.entries[entries[0]].id(), state, mark },
            category: if self.context.pinned.contains(&entries[0]) {
                Category::Pinned
            } else if mark.is_some() {
                Category::Marked
            } else {
                Category::Raw
            },
            entries: entries.iter().map(|&at| self.context.entries[at].id()).collect(),
            shown: self.own_weight(entries),
            original: self.context.weight(entries.iter().copied()),
            within: None,
        }
    }

    fn state(&self, entries: &[usize], mark: Option<usize>) -> State {
        let (first, context) = (entries[0], &self.context);
        let unit = context.unit_of[first];
        let is = |set: &BTreeSet<usize>| unit.is_some_and(|unit| set.contains(&unit));
        let kind = unit.map(|unit| context.units[unit].kind).or_else(|| self.units.unripe(first).map(|unit| unit.kind));
        let is_all = |shown| entries.iter().all(|&at| context.state[at] == shown);
        if entries.iter().any(|at| context.foreign.contains(at)) {
            State::Foreign
        } else if is_all(Shown::Gone) {
            State::Omitted
        } else if !matches!(kind, Some(UnitKind::User)) && !kind.is_some_and(UnitKind::is_folded) {
            State::Apart
        } else if context.pinned.contains(&first) {
            State::Pinned
        } else if is(&context.opened) {
            State::Expanded
        } else if is(&context.withdrawn) {
            State::Withdrawn
        } else if is(&context.blacklisted) {
            State::Held
        } else if mark.is_some() {
            State::Marked
        } else if unit.is_none() {
            State::Unread
        } else if kind == Some(UnitKind::User) {
            State::Words
        } else if entries.iter().any(|&at| context.state[at] == Shown::Replaced) {
            State::Clipped
        } else {
            State::Raw
        }
    }
}
