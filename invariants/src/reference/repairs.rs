//! Somebody else's edits of what is folded, put right: torn batches by a record of their own, lost placeholders inside a commit.

use super::lattice::{Fold, State};
use super::walk::{Unit, UnitKind};
use super::{Plan, Shown, View};
use std::collections::BTreeSet;

impl View<'_> {
    /// The record that puts every torn batch right, if there is one.
    pub(super) fn repairs(&self) -> Option<Plan> {
        let claimed = self.claims(&self.standing);
        let carries = |unit: &Unit| unit.entries.iter().any(|at| self.carries(&self.standing, *at));
        let folded = |index: &usize, unit: &Unit| claimed.contains(index) || carries(unit);
        let batches = self.units.iter().enumerate().filter(|(index, unit)| unit.kind == UnitKind::Batch && folded(index, unit));
        let edits: Vec<(usize, Shown)> = batches.flat_map(|(_, batch)| self.repair(&self.standing, batch)).collect();
        (!edits.is_empty()).then(|| self.without_folds("recovery", edits))
    }

    /// What puts a batch right; nothing where it is not torn.
    fn repair(&self, standing: &State, batch: &Unit) -> Vec<(usize, Shown)> {
        let in_context = batch.entries.iter().all(|at| self.shown.contains_key(at));
        let (shown, gone): (Vec<usize>, Vec<usize>) =
            batch.entries.iter().partition(|at| self.shown.get(at).is_some_and(|shown| shown.content.is_some()));
        if batch.ripe.is_none() || !in_context || shown.is_empty() || gone.is_empty() {
            return Vec::new();
        }
        let put_right = self.put_right(batch);
        let edited = batch.entries.iter().filter_map(|at| self.meter.foreign.get(at)).map(|(_, last)| *last).max();
        if edited <= put_right {
            return Vec::new();
        }
        let carried = standing.shown_folds().find(|fold| batch.entries.contains(&fold.carrier));
        let is_first = put_right.is_none();
        if carried.is_some() != is_first {
            let unwritten = |at: &usize| self.meter.promises.get(at).is_some_and(|promise| !promise.kept);
            let goes = batch.entries.iter().rev().filter(|at| shown.contains(at) || unwritten(at));
            return goes.map(|at| (*at, Shown::NOTHING)).collect();
        }
        gone.into_iter().map(|at| (at, carried.map_or_else(|| Shown::original(&self.branch[at]), |fold| self.as_folded(fold, at)))).collect()
    }

    /// The newest recovery that named an entry of a batch.
    fn put_right(&self, batch: &Unit) -> Option<usize> {
        let ids: BTreeSet<&str> = batch.entries.iter().map(|at| self.branch[*at].id()).collect();
        let names = |edit: &crate::commit::Promised| ids.contains(&*edit.target);
        self.history.records.iter().rev().find(|(_, record)| record.trigger == "recovery" && record.edits.iter().any(names)).map(|(at, _)| *at)
    }

    /// What an entry of a carrier's batch shows while the fold is whole.
    fn as_folded(&self, fold: &Fold, at: usize) -> Shown {
        if at == fold.carrier {
            Shown::written(self.carried(fold))
        } else if self.beside(fold).contains(&at) {
            Shown::written(self.line(fold))
        } else {
            Shown::original(&self.branch[at])
        }
    }

    /// Placeholders that somebody else's edit put out of sight, each to be shown again once.
    pub(super) fn lost_placeholders(&self, state: &State) -> Vec<(usize, Shown)> {
        let lost = state.shown_folds().filter(|fold| self.lost(fold.carrier));
        let mut again: Vec<(usize, Shown)> = lost.map(|fold| (fold.carrier, Shown::written(self.carried(fold)))).collect();
        again.sort_by_key(|(at, _)| *at);
        again
    }

    /// Whether a carrier shows what somebody else says, and was not given its placeholder again before.
    fn lost(&self, carrier: usize) -> bool {
        let Some((first, _)) = self.meter.foreign.get(&carrier) else { return false };
        let shown = self.shown.get(&carrier).is_some_and(|shown| shown.content.is_some());
        let id = self.branch[carrier].id();
        let again = |edit: &crate::commit::Promised| edit.target == id && edit.sha256.is_some() && edit.clip.is_none();
        let once = self.history.records.iter().any(|(at, record)| at > first && record.edits.iter().any(again));
        shown && !self.meter.promises.contains_key(&carrier) && !once
    }
}
