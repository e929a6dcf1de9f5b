//! Decisions that the journal holds, applied: what is held, which cuts are agreed on, which briefs were supplied.

use super::Session;
use crate::fold::{Context, CutPolicy, Cuts, Decided, Lattice, UnitKind};
use crate::journal::{Digest, Entry};
use crate::window::Size;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cuts that were agreed on, and the texts that were supplied for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreed {
    /// Their units, by the first of them; no two share one.
    cuts: BTreeMap<usize, Vec<usize>>,
    /// How many user messages there were when the walk began anew last.
    since: usize,
    /// The same, but for a withdrawal that is still in force.
    released_since: usize,
}

impl Agreed {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.cuts.len()
    }

    /// Whether exactly these units are one of them.
    pub fn has(&self, units: &[usize]) -> bool {
        units.first().and_then(|first| self.cuts.get(first)).is_some_and(|cut| cut == units)
    }
}

impl Session {
    /// Takes a decision; one that names what is not there changes nothing.
    pub(super) fn decided(&mut self, entry: &Entry) {
        let Some(decided) = Decided::parse(entry) else { return };
        let withdraws = matches!(decided, Decided::Unmark { .. });
        let counts = match decided {
            Decided::Pin { units, folds } => self.pin(&units, &folds, true),
            Decided::Unpin { units, folds } => self.pin(&units, &folds, false),
            Decided::Unmark { units } => self.unmark(&units),
            Decided::Cut { units, brief } => self.agree(&units, brief),
        };
        if counts.is_some() && !withdraws {
            self.begin_anew();
        } else if counts.is_some() {
            self.walk_anew();
        }
    }

    fn pin(&mut self, units: &[String], folds: &[String], on: bool) -> Option<()> {
        let units: Vec<usize> = units.iter().map(|id| self.context.by_id.get(id).copied()).collect::<Option<_>>()?;
        let folds: Vec<_> = folds.iter().map(|id| self.lattice.folds.get(id.as_str()).map(|fold| fold.id.clone())).collect::<Option<_>>()?;
        for at in units {
            if on {
                self.context.pinned.insert(at)
            } else {
                self.context.pinned.remove(&at)
            };
        }
        for fold in folds {
            if on {
                self.lattice.pinned.insert(fold)
            } else {
                self.lattice.pinned.remove(&fold)
            };
        }
        Some(())
    }

    fn unmark(&mut self, units: &[String]) -> Option<()> {
        let units = self.ripe(units)?;
        self.context.withdrawn.extend(units);
        Some(())
    }

    fn agree(&mut self, units: &[String], brief: Option<String>) -> Option<()> {
        let units = self.ripe(units)?;
        let (first, last) = (*units.first()?, *units.last()?);
        let between = (first..=last).filter(|&unit| self.context.units[unit].kind.is_folded() || self.context.units[unit].kind == UnitKind::Ender);
        if !between.eq(units.iter().copied()) {
            return None;
        }
        self.agreed.cuts.retain(|_, other| other.iter().all(|unit| !units.contains(unit)));
        self.agreed.cuts.insert(first, units.clone());
        // An agreement without a text leaves the one that was supplied before; a blank text is none.
        if let Some(text) = brief.filter(|text| !text.trim().is_empty()) {
            self.context.briefs.insert(units, Arc::from(text));
        }
        Some(())
    }

    /// Ripe units of a kind that is folded, by their ids.
    fn ripe(&self, ids: &[String]) -> Option<Vec<usize>> {
        let unit = |id: &String| {
            let at = *self.context.by_id.get(id)?;
            let unit = self.context.unit_of[at]?;
            let found = &self.context.units[unit];
            (found.entries[0] == at && found.kind.is_folded()).then_some(unit)
        };
        ids.iter().map(unit).collect()
    }

    /// A commit by the band or by a person ends what was withdrawn.
    pub(super) fn end_withdrawals(&mut self) {
        if !self.context.withdrawn.is_empty() {
            self.context.withdrawn.clear();
            self.begin_anew();
        }
    }

    /// Begins the walk anew, for every commit to come.
    pub(super) fn begin_anew(&mut self) {
        self.agreed.released_since = self.context.users.len();
        self.walk_anew();
    }

    /// The walk as it is from scratch; no question is asked later than it was.
    pub(super) fn walk_again(&mut self) {
        self.cuts = walk(&self.context, &self.lattice, &self.digests, &self.agreed, &self.policy, self.agreed.since);
    }

    /// Whether a message that carried a placeholder is in the range of the walk again.
    pub(super) fn is_free(&self, at: usize) -> bool {
        is_free(at, &self.lattice, &self.digests)
    }

    /// Begins the walk anew over what is in context, and counts anew what a commit could move.
    fn walk_anew(&mut self) {
        self.context.hold();
        self.agreed.since = self.context.users.len();
        self.walk_again();
        self.movable = movable(&self.context);
    }

    /// The session as one that withdrew nothing: for a commit that cannot wait.
    pub(super) fn released(&self) -> (Context, Cuts, Size) {
        let mut context = self.context.clone();
        context.withdrawn.clear();
        context.hold();
        let cuts = walk(&context, &self.lattice, &self.digests, &self.agreed, &self.policy, self.agreed.released_since);
        let movable = movable(&context);
        (context, cuts, movable)
    }
}

fn movable(context: &Context) -> Size {
    (0..context.entries.len()).filter(|&at| context.is_movable(at)).map(|at| context.shown[at]).sum()
}

/// The user messages in the range of an agreed cut, without those that a fold hides or whose message carries a placeholder.
pub(super) fn users_between(units: &[usize], context: &Context, lattice: &Lattice, folded: &BTreeMap<usize, Digest>) -> Vec<usize> {
    let between = (units[0]..units[units.len() - 1]).filter(|&unit| context.units[unit].kind == UnitKind::User);
    between.map(|unit| context.units[unit].entries[0]).filter(|at| is_free(*at, lattice, folded)).collect()
}

/// Whether no fold hides an entry and none has its placeholder there, or will again.
fn is_free(at: usize, lattice: &Lattice, folded: &BTreeMap<usize, Digest>) -> bool {
    lattice.carriers_or_open(at).is_none() && !folded.contains_key(&at)
}

/// The walk over the ripe units that lie wholly in context. Its questions are asked as of the moment each unit ripened, but not before
/// there were `since` user messages.
fn walk(context: &Context, lattice: &Lattice, folded: &BTreeMap<usize, Digest>, agreed: &Agreed, policy: &CutPolicy, since: usize) -> Cuts {
    let mut cuts = Cuts::new(policy.clone());
    let kept = context.kept_from();
    let newest_as_of = |unit: usize| context.users_before[unit].max(since).checked_sub(1).map(|newest| context.users[newest]);
    let mut next = 0;
    while let Some(unit) = context.units.get(next) {
        let (number, first, newest_user) = (next, unit.entries[0], newest_as_of(next));
        next += 1;
        if first < kept {
            continue;
        }
        if lattice.claimed.contains(&number) {
            cuts.end_run(context, newest_user);
            continue;
        }
        let free = |unit: &usize| !lattice.claimed.contains(unit) && !context.held.contains(unit);
        if let Some(units) = agreed.cuts.get(&number).filter(|units| units.iter().all(free))
            && cuts.agree(units, users_between(units, context, lattice, folded), context, (newest_user, newest_as_of(units[units.len() - 1])))
        {
            next = units[units.len() - 1] + 1;
            continue;
        }
        // A message of a person that is not free is in no range.
        if is_free(first, lattice, folded) {
            cuts.walk(number, context, newest_user);
        }
    }
    cuts
}
