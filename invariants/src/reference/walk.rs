//! Units and marks, from the first entry to the last.

use super::View;
use fold_runtime::fold::{FoldKind, result_line};
use fold_runtime::journal::{BlockKind, Entry, Kind, Role, Text};
use std::collections::BTreeSet;

/// What is folded whole, passed over whole, or ends a run.
pub(crate) struct Unit {
    pub(crate) kind: UnitKind,
    /// Positions, ascending.
    pub(crate) entries: Vec<usize>,
    /// The first good answer after its last entry.
    pub(crate) ripe: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitKind {
    User,
    Custom,
    Answer,
    Batch,
    Irregular,
    Ender,
}

impl UnitKind {
    pub(crate) fn foldable(self) -> bool {
        matches!(self, UnitKind::Custom | UnitKind::Answer | UnitKind::Batch)
    }
}

/// A run of units that may become a leaf.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) kind: FoldKind,
    pub(super) carrier: usize,
    pub(super) units: Vec<usize>,
    /// User messages of its range, by position.
    pub(super) users: Vec<usize>,
}

/// What the walk holds since the last cut or ender.
#[derive(Default)]
struct Run {
    units: Vec<usize>,
    users: Vec<usize>,
}

/// Whether Pi applies an edit to it.
pub(super) fn editable(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::CustomMessage | Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. }))
}

/// All units of a branch, in order of their first entry.
pub(crate) fn units(branch: &[Entry]) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (at, entry) in branch.iter().enumerate() {
        if taken.contains(&at) {
            continue;
        }
        let (kind, entries) = match entry.kind() {
            Kind::Message(Role::Assistant(_)) => answer(branch, at),
            Kind::Message(Role::User) => (UnitKind::User, vec![at]),
            Kind::CustomMessage => (UnitKind::Custom, vec![at]),
            Kind::Message(Role::System) | Kind::Compaction { .. } => (UnitKind::Ender, vec![at]),
            Kind::Message(Role::ToolResult { .. } | Role::BashExecution { .. } | Role::Custom | Role::Other) | Kind::BranchSummary => {
                (UnitKind::Irregular, vec![at])
            }
            Kind::Custom { .. } | Kind::ContextEdit { .. } | Kind::ModelChange { .. } | Kind::Other => continue,
        };
        taken.extend(&entries);
        let last = entries[entries.len() - 1];
        let ripe = branch.iter().enumerate().skip(last + 1).find(|(_, entry)| entry.is_good_answer()).map(|(at, _)| at);
        units.push(Unit { kind, entries, ripe });
    }
    units
}

/// The unit of an assistant message: alone if it calls nothing, else with the results that follow it.
fn answer(branch: &[Entry], at: usize) -> (UnitKind, Vec<usize>) {
    let blocks = branch[at].content().blocks();
    let calls: Vec<(Text, Text)> = blocks
        .iter()
        .filter(|block| block.kind == BlockKind::ToolCall)
        .map(|block| block.call().map(|(id, name, _)| (id, name)).unwrap_or_default())
        .collect();
    if calls.is_empty() {
        return (UnitKind::Answer, vec![at]);
    }
    let ends = |entry: &Entry| {
        matches!(entry.kind(), Kind::Message(Role::Assistant(_) | Role::User | Role::Custom | Role::System))
            || matches!(entry.kind(), Kind::CustomMessage | Kind::Compaction { .. })
    };
    let mut entries = vec![at];
    let mut results: Vec<(Text, Text)> = Vec::new();
    for (place, entry) in branch.iter().enumerate().skip(at + 1).take_while(|(_, entry)| !ends(entry)) {
        if let Kind::Message(Role::ToolResult { call_id, tool, .. }) = entry.kind() {
            entries.push(place);
            results.push((call_id.clone(), tool.clone()));
        }
    }
    let ids: BTreeSet<&Text> = calls.iter().map(|(id, _)| id).collect();
    let answered = calls.iter().all(|call| results.iter().filter(|result| *result == call).count() == 1);
    let regular = ids.len() == calls.len() && answered && results.len() == calls.len();
    (if regular { UnitKind::Batch } else { UnitKind::Irregular }, entries)
}

impl View<'_> {
    /// Whether it is kept raw by choice: a batch with a result of a tool that is never folded, what is pinned, withdrawn, or opened.
    pub(super) fn held(&self, unit: &Unit) -> bool {
        let index = self.unit_of[&unit.entries[0]];
        let chosen = self.decisions.pinned.contains(&index) || self.decisions.withdrawn.contains(&index) || self.opened.contains(&index);
        chosen || unit.kind == UnitKind::Batch && unit.entries.iter().any(|at| self.blacklisted(*at))
    }

    /// Whether it is held and ends runs and groups.
    pub(super) fn keeps_apart(&self, unit: &Unit) -> bool {
        unit.kind != UnitKind::User && self.held(unit)
    }

    /// Whether it is a result of such a tool.
    pub(super) fn blacklisted(&self, at: usize) -> bool {
        match self.branch[at].kind() {
            Kind::Message(Role::ToolResult { tool, .. }) => self.settings.blacklist_auto_fold_tools.contains(&tool.to_string_lossy()),
            _ => false,
        }
    }

    /// The moment a unit is walked: when it ripened, or the newest compaction or decision after which the walk began anew. `None` for a
    /// unit that is unripe or not wholly in what the compaction kept.
    fn walked(&self, unit: &Unit) -> Option<usize> {
        let walked = unit.ripe?.max(self.decisions.rewalked.unwrap_or(0));
        let Some(compaction) = self.compaction else { return Some(walked) };
        let kept = self.context.iter().copied().min().unwrap_or(compaction);
        unit.entries.iter().all(|at| *at >= kept).then_some(walked.max(compaction))
    }

    /// All pending marks, in order; `taken` are entries that folds hide or that carry placeholders.
    pub(super) fn marks(&self, claimed: &BTreeSet<usize>, taken: &BTreeSet<usize>) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        // Whether the cut that closed last, with nothing between that ends a run, is still pending.
        let (mut run, mut joins) = (Run::default(), false);
        let mut agreed_to = None;
        for (index, unit) in self.units.iter().enumerate() {
            let Some(as_of) = self.walked(unit) else { continue };
            if agreed_to.is_some_and(|last| index <= last) {
                continue;
            }
            if let Some(cut) = self.agreed(index, claimed) {
                self.trap(&mut marks, joins, std::mem::take(&mut run), as_of);
                joins = false;
                if let Some(mark) = self.close_agreed(cut, taken) {
                    marks.push(mark);
                    agreed_to = cut.last().copied();
                    continue;
                }
            }
            if unit.kind == UnitKind::Ender || self.keeps_apart(unit) || claimed.contains(&index) {
                self.trap(&mut marks, joins, std::mem::take(&mut run), as_of);
                joins = false;
            } else if unit.kind == UnitKind::User {
                run.users.extend(unit.entries.iter().filter(|at| !taken.contains(at)));
            } else if unit.kind.foldable() {
                run.units.push(index);
                if let Some(mark) = self.close(&run, as_of, self.least()) {
                    marks.push(mark);
                    joins = true;
                    run = Run::default();
                }
            }
        }
        marks
    }

    /// The agreed cut that begins with this unit, if all its units may be folded now.
    fn agreed(&self, first: usize, claimed: &BTreeSet<usize>) -> Option<&Vec<usize>> {
        let cut = self.decisions.cuts.iter().find(|cut| cut[0] == first)?;
        let free = |index: &usize| {
            let unit = &self.units[*index];
            self.walked(unit).is_some() && !self.held(unit) && !claimed.contains(index)
        };
        cut.iter().all(free).then_some(cut)
    }

    /// An agreed cut as a mark, if it has a carrier.
    fn close_agreed(&self, cut: &[usize], taken: &BTreeSet<usize>) -> Option<Mark> {
        let last = cut[cut.len() - 1];
        let users = (cut[0]..last).filter(|unit| self.units[*unit].kind == UnitKind::User).map(|unit| self.units[unit].entries[0]);
        let run = Run { units: cut.to_vec(), users: users.filter(|at| !taken.contains(at)).collect() };
        let carrier = self.carrier(&run, self.walked(&self.units[last])?)?;
        Some(Mark { kind: self.kind(&run), carrier, units: run.units, users: run.users })
    }

    /// What becomes of a remainder: it joins the cut before it, closes alone, or stays raw.
    fn trap(&self, marks: &mut Vec<Mark>, joins: bool, run: Run, as_of: usize) {
        if run.units.is_empty() {
            return;
        }
        let weight: u64 = self.entries(&run.units).iter().map(|at| self.weight(*at)).sum();
        match marks.last_mut() {
            Some(cut) if joins && weight < self.least() => {
                cut.units.extend(run.units);
                cut.users.extend(run.users);
                cut.kind = FoldKind::Span;
            }
            _ => marks.extend(self.close(&run, as_of, 0)),
        }
    }

    /// The run as a mark, if it hides `least`, has a carrier, and shows at most half of what it hides.
    fn close(&self, run: &Run, as_of: usize, least: u64) -> Option<Mark> {
        let carrier = self.carrier(run, as_of)?;
        let parts = self.parts(&run.units, carrier);
        let hidden: u64 = parts.iter().map(|at| self.weight(*at)).sum();
        if hidden < least {
            return None;
        }
        let kind = self.kind(run);
        let fold = self.mint_leaf(&[], kind, carrier, parts, &run.units);
        let calls = self.batch(carrier).map_or(0, |batch| self.weight(batch.entries[0]));
        let lines = self.batch(carrier).map_or(0, |batch| (batch.entries.len() - 2) * result_line(&fold.id).len());
        let shown = calls + fold.text.len() as u64 + lines as u64;
        (shown <= hidden / 2).then(|| Mark { kind, carrier, units: run.units.clone(), users: run.users.clone() })
    }

    /// One batch alone is a tool fold.
    fn kind(&self, run: &Run) -> FoldKind {
        if matches!(run.units[..], [one] if self.units[one].kind == UnitKind::Batch) { FoldKind::Tool } else { FoldKind::Span }
    }

    /// Who carries the placeholder: a result under the lightest call, else the first user or custom message that is not the newest word.
    fn carrier(&self, run: &Run, as_of: usize) -> Option<usize> {
        let batches = run.units.iter().map(|unit| &self.units[*unit]).filter(|unit| unit.kind == UnitKind::Batch);
        let light = batches.filter(|batch| self.branch[batch.entries[0]].is_good_answer() && self.weight(batch.entries[0]) < self.least());
        if let Some(batch) = light.min_by_key(|batch| self.weight(batch.entries[0])) {
            let sound = |at: &&usize| matches!(self.branch[**at].kind(), Kind::Message(Role::ToolResult { is_error: false, .. }));
            return Some(*batch.entries[1..].iter().find(sound).unwrap_or(&batch.entries[1]));
        }
        let newest = self.branch[..as_of].iter().rposition(|entry| entry.kind() == &Kind::Message(Role::User));
        let customs = run.units.iter().filter(|unit| self.units[**unit].kind == UnitKind::Custom).map(|unit| self.units[*unit].entries[0]);
        run.users.iter().copied().filter(|user| Some(*user) != newest && !self.pinned_user(*user)).chain(customs).min()
    }

    /// The batch of a carrier that is a tool result.
    pub(super) fn batch(&self, carrier: usize) -> Option<&Unit> {
        let result = matches!(self.branch[carrier].kind(), Kind::Message(Role::ToolResult { .. }));
        result.then(|| &self.units[self.unit_of[&carrier]])
    }

    /// All entries of some units.
    pub(super) fn entries(&self, units: &[usize]) -> Vec<usize> {
        let mut entries: Vec<usize> = units.iter().flat_map(|unit| self.units[*unit].entries.iter().copied()).collect();
        entries.sort_unstable();
        entries
    }

    /// What a leaf over these units hides or replaces: everything but the calls of its carrier.
    pub(super) fn parts(&self, units: &[usize], carrier: usize) -> Vec<usize> {
        let calls = self.batch(carrier).map(|batch| batch.entries[0]);
        self.entries(units).into_iter().filter(|at| Some(*at) != calls).collect()
    }
}
