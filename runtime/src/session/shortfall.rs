//! What keeps a window above its target.

use super::Session;
use crate::fold::{Outcome, UnitKind};
use crate::journal::{Kind, Role};
use crate::window::{IMAGE_TOKENS, Size};
use std::collections::BTreeMap;

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

impl Session {
    /// What still stands in the window after a commit that misses its target.
    pub(super) fn shortfall(&self, after: u64, missing: u64, outcome: &Outcome) -> Shortfall {
        let (mut shown, mut edited) = (self.context.shown.clone(), vec![false; self.context.shown.len()]);
        for edit in &outcome.edits {
            (shown[edit.at], edited[edit.at]) = (edit.size, true);
        }
        let mut sums: BTreeMap<Obstacle, Size> = BTreeMap::new();
        // What weighs nothing is passed without a look: most of a long branch.
        for at in self.context.in_context().filter(|&at| shown[at] != Size::default()) {
            let sum = sums.entry(self.obstacle(at, edited[at])).or_default();
            *sum = *sum + shown[at];
        }
        let tokens = |size: Size| self.occupancy.rate_mean().tokens_at_most(size.bytes).saturating_add(size.images * IMAGE_TOKENS);
        let mut obstacles: Vec<(Obstacle, u64)> = sums.into_iter().map(|(obstacle, size)| (obstacle, tokens(size))).collect();
        let overhead = after.saturating_sub(obstacles.iter().map(|(_, tokens)| tokens).sum());
        obstacles.push((Obstacle::Overhead, overhead));
        obstacles.retain(|(_, tokens)| *tokens > 0);
        obstacles.sort_by_key(|&(obstacle, tokens)| (std::cmp::Reverse(tokens), obstacle));
        Shortfall { missing, obstacles }
    }

    fn obstacle(&self, at: usize, edited: bool) -> Obstacle {
        if self.context.foreign.contains(&at) {
            return Obstacle::Foreign;
        }
        let kind = self.context.entries[at].kind();
        let Some(unit) = self.context.unit_of[at] else {
            let editable = matches!(kind, Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. }) | Kind::CustomMessage);
            return if editable { Obstacle::Unripe } else { Obstacle::Uneditable };
        };
        match self.context.units[unit].kind {
            UnitKind::Irregular | UnitKind::Ender => Obstacle::Uneditable,
            _ if self.context.held.contains(&unit) => Obstacle::Held,
            UnitKind::User => Obstacle::Words,
            _ if edited || self.lattice.claimed.contains(&unit) => Obstacle::Placeholders,
            _ => Obstacle::Unfoldable,
        }
    }
}
