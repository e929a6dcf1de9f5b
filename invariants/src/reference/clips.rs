//! What is cut to head and tail: old results, heavy words, and, where a request would be too large, what nobody has read yet.

use super::lattice::State;
use super::walk::UnitKind;
use super::{Shown, View, json, text_block};
use fold_runtime::fold::clip;
use fold_runtime::journal::{BlockKind, Content, Kind, Role};
use fold_runtime::window::{Projected, Size, projection};
use std::collections::BTreeSet;

/// The least that a cut before the first reading leaves of a text, in bytes.
const LEAST: usize = 600;

impl View<'_> {
    /// Whether an entry shows its own content, whole. A promise that gives it another size than it has does not.
    pub(super) fn raw(&self, state: &State, at: usize) -> bool {
        self.content(state, at) == Some(self.branch[at].content().raw()) && self.size(state, at) == Size::of_original(&self.branch[at])
    }

    /// Cuts results in the oldest share of the window to head and tail.
    pub(super) fn clip_results(&self, mut state: State) -> State {
        let share = u128::from(self.settings.tool_fold_threshold_ppm);
        if share == 0 {
            return state;
        }
        let spoken: Vec<(usize, u128)> = self.context.iter().map(|at| (*at, u128::from(self.spoken(&state, *at)))).collect();
        let total: u128 = spoken.iter().map(|(_, weight)| weight).sum();
        let carriers: BTreeSet<usize> = state.shown_folds().filter_map(|fold| self.unit_of.get(&fold.carrier).copied()).collect();
        let (before, mut upto) = (state.clone(), 0);
        for (at, weight) in spoken {
            upto += weight;
            let entry = &self.branch[at];
            let Kind::Message(Role::ToolResult { tool, .. }) = entry.kind() else { continue };
            let unit = self.unit_of[&at];
            let batch = &self.units[unit];
            let eligible = batch.kind == UnitKind::Batch && batch.ripe.is_some() && !self.held(batch) && !carriers.contains(&unit);
            let eligible = eligible && tool != "pi_fold_context" && !self.foreign(at) && self.raw(&before, at);
            if eligible && upto * 1_000_000 <= share * total && self.text_bytes(at) >= 2_000 {
                self.cut(&mut state, at, 400, 200);
            }
        }
        state
    }

    /// What an entry shows outside system messages.
    fn spoken(&self, state: &State, at: usize) -> u64 {
        match self.branch[at].kind() {
            Kind::Message(Role::System) => 0,
            Kind::Compaction { .. } => {
                let whole = projection(std::slice::from_ref(&self.branch[at])).remove(0);
                let messages = whole.messages.into_iter().filter(|message| message.role != "system" && self.size(state, at) != Size::default());
                Size::of(&Projected { source: whole.source, messages: messages.collect() }).weight()
            }
            _ => self.size(state, at).weight(),
        }
    }

    /// Shows head and tail of an entry's text, where that is lighter.
    fn cut(&self, state: &mut State, at: usize, head: usize, tail: usize) {
        let Some(content) = self.clipped(at, head, tail) else { return };
        let shown = Shown { clip: Some((head, tail)), ..Shown::written(content) };
        if shown.size.weight() < self.size(state, at).weight() {
            self.show(state, at, shown);
        }
    }

    /// Head and tail of an entry's own text, then its images; `None` where that is not shorter.
    pub(super) fn clipped(&self, at: usize, head: usize, tail: usize) -> Option<String> {
        let entry = &self.branch[at];
        let content = entry.content();
        let text = clip(&text_of(content), entry.id(), head, tail)?;
        let images = content.blocks().into_iter().filter(|block| block.kind == BlockKind::Image).map(|block| block.raw().to_owned());
        let blocks: Vec<String> = std::iter::once(text_block(&json(&text))).chain(images).collect();
        Some(format!("[{}]", blocks.join(",")))
    }

    fn text_bytes(&self, at: usize) -> usize {
        text_of(self.branch[at].content()).len()
    }

    /// Cuts heavy user messages, heaviest first, while a person's words are above their limit.
    pub(super) fn clip_users(&self, mut state: State) -> State {
        let mut candidates: Vec<usize> = self.context.iter().copied().filter(|at| self.heavy_user(&state, *at)).collect();
        candidates.sort_by_key(|at| std::cmp::Reverse(self.weight(*at)));
        for at in candidates {
            if self.words_above_limit(&state, None) {
                self.cut(&mut state, at, 2_000, 500);
            }
        }
        state
    }

    fn heavy_user(&self, state: &State, at: usize) -> bool {
        self.branch[at].kind() == &Kind::Message(Role::User)
            && self.raw(state, at)
            && !self.carries(state, at)
            && !self.foreign(at)
            && !self.pinned_user(at)
            && self.weight(at) > self.least()
            && self.branch[at + 1..].iter().filter(|entry| entry.is_good_answer()).count() >= 8
    }

    /// Cuts what the model has not read yet until the window is at three fifths of the budget: results of blacklisted tools only where
    /// the rest, cut as short as can be, does not suffice.
    pub(super) fn clip_unread(&self, state: State) -> State {
        let unread = self.context.iter().copied().filter(|at| self.unread(&state, *at));
        let (listed, free): (Vec<usize>, Vec<usize>) = unread.partition(|at| self.blacklisted(*at));
        self.level(self.level(state, &free), &listed)
    }

    /// The window with these entries cut to the first level that suffices, else to the lowest.
    fn level(&self, state: State, entries: &[usize]) -> State {
        let mut level = entries.iter().map(|at| self.text_bytes(*at)).max().unwrap_or(0);
        loop {
            let mut next = state.clone();
            let head = 2 * level / 3;
            for at in entries.iter().filter(|at| self.text_bytes(**at) > level) {
                self.cut(&mut next, *at, head, level - head);
            }
            if level <= LEAST || self.estimate(&next) <= 3 * self.band.budget / 5 {
                return next;
            }
            level = (3 * level / 4).max(LEAST);
        }
    }

    fn unread(&self, state: &State, at: usize) -> bool {
        let ripe = self.unit_of.get(&at).is_some_and(|unit| self.units[*unit].ripe.is_some());
        let speaks = matches!(self.branch[at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
        speaks && !ripe && self.raw(state, at) && !self.foreign(at) && self.text_bytes(at) > LEAST
    }
}

/// All text of a content, its blocks joined by a line end.
pub(super) fn text_of(content: Content<'_>) -> String {
    let texts = |content: Content<'_>| {
        let blocks = content.blocks().into_iter().filter(|block| block.kind == BlockKind::Text);
        blocks.filter_map(|block| Some(block.text()?.to_string_lossy())).collect::<Vec<String>>().join("\n")
    };
    content.string().map_or_else(|| texts(content), |text| text.to_string_lossy())
}
