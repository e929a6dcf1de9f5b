//! Peeks that have been read: one line is left of each, as soon as that is cheap, and at the latest at the next commit.
//!
//! Derived from the journal, so that it survives whatever happens to the process. `docs/law.md`, "Ephemeral peeks", is the specification.

use super::Session;
use crate::agent::{parse_peek_line, peek_line};
use crate::fold::{Context, Edit, OWN_TOOL, Outcome, Shown, UnitKind, text_of};
use crate::journal::{Entry, Kind, Role};
use std::collections::BTreeSet;

/// The line an ephemeral peek leaves behind, if the entry is one.
pub(crate) fn line_of(entry: &Entry) -> Option<String> {
    let Kind::Message(Role::ToolResult { tool, is_error: false, .. }) = entry.kind() else { return None };
    if *tool != *OWN_TOOL {
        return None;
    }
    let text = text_of(entry.content());
    let (peek, digest) = parse_peek_line(text.rsplit('\n').next()?)?;
    peek.ephemeral.then(|| peek_line(&peek, digest))
}

impl Session {
    /// Peeks that were read and are still shown whole.
    fn due<'a>(&'a self, context: &'a Context) -> impl Iterator<Item = usize> + 'a {
        self.peeks.range(context.kept_from()..).copied().filter(move |&at| {
            let free = |unit: usize| {
                let entries = &context.units[unit].entries;
                context.units[unit].kind == UnitKind::Batch
                    && entries[0] >= context.kept_from()
                    && !context.held.contains(&unit)
                    && !self.lattice.claimed.contains(&unit)
                    && !entries.iter().any(|other| self.lattice.carriers.contains_key(other))
            };
            context.unit_of[at].is_some_and(free) && context.state[at] == Shown::Raw && !context.foreign.contains(&at)
        })
    }

    fn retired(&self, at: usize) -> Option<Edit> {
        line_of(&self.context.entries[at]).map(|line| Edit::say(at, &line))
    }

    /// The edits that retire a batch now, because little stands behind it.
    pub(super) fn cheap_retirement(&self) -> Option<Vec<Edit>> {
        let due: BTreeSet<usize> = self.due(&self.context).collect();
        let batches: BTreeSet<usize> = due.iter().filter_map(|&at| self.context.unit_of[at]).collect();
        batches.into_iter().find_map(|batch| {
            let peeks: Vec<usize> = self.context.units[batch].entries.iter().copied().filter(|at| due.contains(at)).collect();
            let weight: u64 = peeks.iter().map(|&at| self.context.shown[at].weight()).sum();
            let mut behind = 0u64;
            // Far behind it there is too much: the look ends there.
            for at in peeks[0]..self.context.entries.len() {
                if !peeks.contains(&at) {
                    behind = behind.saturating_add(self.context.shown[at].weight());
                }
                if behind.saturating_mul(2) > weight {
                    return None;
                }
            }
            Some(peeks.into_iter().filter_map(|at| self.retired(at)).collect())
        })
    }

    /// Every due peek, retired: the edits, and the context as it stands after them; `None` where there is none.
    pub(super) fn retirement(&self, context: &Context) -> Option<(Vec<Edit>, Context)> {
        if self.peeks.is_empty() {
            return None;
        }
        let edits: Vec<Edit> = self.due(context).filter_map(|at| self.retired(at)).collect();
        if edits.is_empty() {
            return None;
        }
        let mut after = context.clone();
        for edit in &edits {
            (after.shown[edit.at], after.state[edit.at]) = (edit.size, Shown::Replaced);
        }
        Some((edits, after))
    }
}

/// Puts retirements behind the edits of roots, unless a fold hides the peek.
pub(super) fn add(outcome: &mut Outcome, retired: Vec<Edit>) {
    let edited: BTreeSet<usize> = outcome.edits.iter().map(|edit| edit.at).collect();
    let retired: Vec<Edit> = retired.into_iter().filter(|edit| !edited.contains(&edit.at)).collect();
    let at = outcome.of_roots;
    outcome.of_roots += retired.len();
    outcome.edits.splice(at..at, retired);
}
