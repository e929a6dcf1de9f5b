//! Peeks that were read: one line is left of each.

use super::lattice::State;
use super::walk::UnitKind;
use super::{Plan, Shown, View, json, text_block};
use fold_runtime::agent::parse_peek_line;
use fold_runtime::journal::{Kind, Role};
use std::collections::{BTreeMap, BTreeSet};

impl View<'_> {
    /// The line that an ephemeral peek ends with.
    pub(super) fn peek_line(&self, at: usize) -> Option<String> {
        let Kind::Message(Role::ToolResult { tool, is_error: false, .. }) = self.branch[at].kind() else { return None };
        let text = super::clips::text_of(self.branch[at].content());
        let line = text.rsplit('\n').next().filter(|_| *tool == *"pi_fold_context")?;
        parse_peek_line(line).filter(|(peek, _)| peek.ephemeral).map(|_| line.to_owned())
    }

    /// What a retired peek shows.
    pub(super) fn retired(&self, at: usize) -> Option<String> {
        Some(format!("[{}]", text_block(&json(&self.peek_line(at)?))))
    }

    /// Every due peek, by position.
    pub(super) fn due_peeks(&self) -> BTreeSet<usize> {
        let claimed = self.claims(&self.standing);
        let free = self.units.iter().enumerate().filter(|(index, unit)| {
            let in_context = unit.entries.iter().all(|at| self.shown.contains_key(at));
            let carries = unit.entries.iter().any(|at| self.carries(&self.standing, *at));
            unit.kind == UnitKind::Batch && unit.ripe.is_some() && in_context && !self.held(unit) && !claimed.contains(index) && !carries
        });
        let due = |at: &usize| self.raw(&self.standing, *at) && !self.foreign(*at) && self.peek_line(*at).is_some();
        free.flat_map(|(_, batch)| batch.entries.iter().copied()).filter(due).collect()
    }

    /// The window with these peeks as lines.
    pub(super) fn with_lines(&self, mut state: State, peeks: &BTreeSet<usize>) -> State {
        for at in peeks {
            self.show(&mut state, *at, Shown::written(self.retired(*at).expect("a peek has a line")));
        }
        state
    }

    /// The record that retires the peeks of the stalest batch whose peeks weigh at least twice what follows them.
    pub(super) fn retirement(&self) -> Option<Plan> {
        let mut batches: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for at in self.due_peeks() {
            batches.entry(self.unit_of[&at]).or_default().insert(at);
        }
        let weight = |at: &usize| self.shown[at].size.weight();
        let heavy = |peeks: &BTreeSet<usize>| {
            let first = peeks.first().expect("a batch with due peeks");
            let behind: u64 = self.context.iter().filter(|at| *at > first && !peeks.contains(at)).map(weight).sum();
            peeks.iter().map(weight).sum::<u64>() >= 2 * behind
        };
        let peeks = batches.into_values().find(heavy)?;
        let state = self.with_lines(self.standing.clone(), &peeks);
        Some(self.without_folds("peek", peeks.iter().map(|at| (*at, state.shown[at].clone())).collect()))
    }
}
