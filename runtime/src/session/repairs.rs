//! Putting together what another extension tore apart: a batch of which half is shown, a placeholder that is gone.
//!
//! Their edit wins; a request that would be refused does not. Everything is put right once, and then the other way round, so that two
//! programs never fight over one entry. `docs/law.md`, "Somebody else's edits of what is folded", is the specification.

use super::{COMMIT_RECORD, Commit, Decision, Draft, Session, Trigger};
use crate::fold::{Changes, Edit, FoldId, Outcome, Record, Shown, UnitKind, as_folded};
use std::collections::BTreeSet;

/// What was torn, and what was put right before.
#[derive(Clone, Debug, Default)]
pub(super) struct Repairs {
    /// Batches that got a foreign edit since they were last put right.
    suspects: BTreeSet<usize>,
    /// Batches that were put right once.
    repaired: BTreeSet<usize>,
    /// Carriers whose placeholder was shown again although somebody else had edited them.
    pub asserted: BTreeSet<usize>,
}

impl Session {
    /// Somebody else edited an entry.
    pub(super) fn edited_by_others(&mut self, at: usize) {
        if let Some(unit) = self.context.unit_of[at].filter(|&unit| self.context.units[unit].kind == UnitKind::Batch) {
            self.repairs.suspects.insert(unit);
        }
    }

    /// A record put these entries right.
    pub(super) fn repaired<'a>(&mut self, targets: impl Iterator<Item = &'a str>) {
        for target in targets {
            if let Some(unit) = self.context.by_id.get(target).and_then(|&at| self.context.unit_of[at]) {
                self.repairs.suspects.remove(&unit);
                self.repairs.repaired.insert(unit);
            }
        }
    }

    /// The edits that put torn batches right; `None` if there are none.
    pub(super) fn torn_batches(&self) -> Option<Vec<Edit>> {
        let edits: Vec<Edit> = self.repairs.suspects.iter().filter(|&&unit| self.is_torn(unit)).flat_map(|&unit| self.mend(unit)).collect();
        (!edits.is_empty()).then_some(edits)
    }

    fn is_torn(&self, unit: usize) -> bool {
        let entries = &self.context.units[unit].entries;
        let shown = |at: &&usize| self.context.state[**at] != Shown::Gone;
        let count = entries.iter().filter(shown).count();
        entries[0] >= self.context.kept_from() && (1..entries.len()).contains(&count) && (self.lattice.claimed.contains(&unit) || self.carries(unit))
    }

    fn carries(&self, unit: usize) -> bool {
        self.context.units[unit].entries.iter().any(|at| self.lattice.carriers.contains_key(at))
    }

    fn mend(&self, unit: usize) -> Vec<Edit> {
        let entries = &self.context.units[unit].entries;
        let again = self.repairs.repaired.contains(&unit);
        let (carries, shown) = (self.carries(unit), |at: &usize| self.context.state[*at] != Shown::Gone);
        if carries == again {
            // What is to be omitted yet goes with it: an older record's edits come first, and must not take the call from a result.
            let goes = |at: &usize| shown(at) || self.promises.is_unkept(*at);
            return entries.iter().rev().copied().filter(goes).map(Edit::omit).collect();
        }
        let gone = entries.iter().copied().filter(|at| !shown(at));
        gone.map(|at| if carries { self.as_folded(at) } else { Edit::own(&self.context, at) }).collect()
    }

    /// What a fold had an entry of its carrier's batch show.
    fn as_folded(&self, at: usize) -> Edit {
        as_folded(&self.context, &self.lattice, at).map_or_else(|| Edit::own(&self.context, at), |content| Edit::of(at, content))
    }

    /// A record with edits and no folds.
    pub(super) fn without_folds(
        &self,
        trigger: Trigger,
        (before, target): (u64, u64),
        limit: usize,
        edits: Vec<Edit>,
        changes: &Changes,
    ) -> Decision {
        let (bytes, images) = Edit::freed(&edits, &self.context);
        let after = self.occupancy.after_freeing(bytes, images);
        let record = self.record_of(trigger, &edits, changes);
        let (edits, left) = self.writing(limit, edits);
        let drafts = std::iter::once(record).chain(edits).collect();
        let refolded = changes.closes.len();
        Decision::Commit(Commit {
            drafts,
            left,
            trigger,
            before,
            target,
            after,
            folds: 0,
            parents: 0,
            refolded,
            hidden_users: 0,
            clips: 0,
            shortfall: None,
        })
    }

    /// The record of these edits, which makes no fold.
    pub(super) fn record_of(&self, trigger: Trigger, edits: &[Edit], changes: &Changes) -> Draft {
        let data = Record::write(&self.context, trigger.name(), self.policy.brief_chars, &[], edits, changes);
        Draft::Custom { custom_type: COMMIT_RECORD, data }
    }

    /// Roots whose placeholder somebody else's content stands in the place of: shown again, once, in a commit that is made anyhow.
    pub(super) fn assert_lost(&self, outcome: &mut Outcome) {
        if self.context.foreign.is_empty() {
            return;
        }
        let swallowed: BTreeSet<&str> = outcome.folds.iter().flat_map(|(fold, _)| &fold.children).map(FoldId::as_str).collect();
        let lost = self.lattice.carriers.iter().filter(|(at, fold)| {
            self.context.foreign.contains(at)
                && self.context.state[**at] != Shown::Gone
                && !self.lattice.placeholders.contains(at)
                && !self.repairs.asserted.contains(at)
                && !swallowed.contains(fold.as_str())
        });
        let again: Vec<Edit> = lost.map(|(&at, _)| self.as_folded(at)).collect();
        let at = outcome.of_roots;
        outcome.of_roots += again.len();
        outcome.edits.splice(at..at, again);
    }
}
