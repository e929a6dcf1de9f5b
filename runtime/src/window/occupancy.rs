//! How full the window is, in tokens, between one measurement and the next.
//!
//! The anchor is what the provider counted last; what came since is estimated from bytes, with a pessimism that has a sign: added
//! bytes count at the densest measured rate, freed ones at the thinnest. Nothing here decides anything; it only never flatters.

use super::{Band, IMAGE_TOKENS, Rate, Size};
use crate::journal::{Text, Usage};

/// Tokens between two measurements before their difference says something about the rate (fold law, occupancy).
const INCREMENT: u64 = 5_000;
/// Increments that count.
const INCREMENTS: usize = 6;
/// Estimator errors that count.
const ERRORS: usize = 8;

/// A running estimate of the window.
///
/// ```
/// use fold_runtime::window::{Occupancy, Size};
/// let mut occupancy = Occupancy::new();
/// occupancy.added(Size { bytes: 400, images: 1 });
/// assert_eq!(occupancy.tokens(), 100 + 1_200);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// The last good usage of the current model.
    anchor: Option<u64>,
    /// The model in force, as the newest answer or model change names it.
    model: Option<Text>,
    added: Size,
    freed_bytes: i64,
    freed_images: i64,
    waiting: bool,
    /// Everything shown, for the day the anchor is lost.
    shown: Size,
    /// Where the increment under way began: tokens and size shown then.
    base: Option<(u64, Size)>,
    increments: Vec<(u64, u64)>,
    errors: Vec<u64>,
}

impl Occupancy {
    /// Nothing shown, nothing measured.
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries came in, or an edit of somebody else's grew one.
    pub fn added(&mut self, size: Size) {
        self.shown = self.shown + size;
        self.added = self.added + size;
    }

    /// An edit of somebody else's, or a compaction, took this away.
    pub fn taken(&mut self, size: Size) {
        let (bytes, images) = size.minus(Size::default());
        self.freed(bytes, images);
    }

    /// An edit that carries out a record of ours took this away; negative where it added.
    pub fn freed(&mut self, bytes: i64, images: i64) {
        // An answer may come between a record and the last of its edits; no increment may span an edit either.
        self.base = None;
        self.freed_bytes = self.freed_bytes.saturating_add(bytes);
        self.freed_images = self.freed_images.saturating_add(images);
        self.shown = Size { bytes: less(self.shown.bytes, bytes), images: less(self.shown.images, images) };
    }

    /// What is shown changed, so no increment may span this point and the true count is unknown until a good answer.
    pub fn changed(&mut self) {
        self.base = None;
        self.waiting = true;
    }

    /// This model counts from here on: what another one measured says nothing.
    pub fn model(&mut self, name: &Text) {
        if self.model.as_ref().is_some_and(|model| model != name) {
            *self = Occupancy { shown: self.shown, added: self.shown, waiting: self.waiting, ..Self::default() };
        }
        self.model = Some(name.clone());
    }

    /// A good answer of this size was appended, with what the provider measured, if it did.
    pub fn answered(&mut self, model: &Text, usage: Option<Usage>, answer: Size) {
        self.model(model);
        self.waiting = false;
        let Some(usage) = usage else { return self.added(answer) };
        if self.anchor.is_some() {
            self.errors.push(usage.prompt().saturating_sub(self.tokens()));
            let old = self.errors.len().saturating_sub(ERRORS);
            self.errors.drain(..old);
        }
        self.shown = self.shown + answer;
        (self.anchor, self.added, self.freed_bytes, self.freed_images) = (Some(usage.total), Size::default(), 0, 0);
        self.increment(usage.total);
    }

    fn increment(&mut self, total: u64) {
        let Some((tokens, shown)) = self.base.filter(|(tokens, _)| total >= *tokens) else {
            self.base = Some((total, self.shown));
            return;
        };
        if total - tokens < INCREMENT {
            return;
        }
        let grown = self.shown.saturating_sub(shown);
        let text_tokens = (total - tokens).saturating_sub(grown.images.saturating_mul(IMAGE_TOKENS));
        if grown.bytes > 0 && text_tokens > 0 {
            self.increments.push((grown.bytes, text_tokens));
            let old = self.increments.len().saturating_sub(INCREMENTS);
            self.increments.drain(..old);
        }
        self.base = Some((total, self.shown));
    }

    /// Estimated tokens of the window.
    pub fn tokens(&self) -> u64 {
        self.after_freeing(0, 0)
    }

    /// The same, if this much were freed too.
    pub fn after_freeing(&self, bytes: i64, images: i64) -> u64 {
        let full = self
            .anchor
            .unwrap_or(0)
            .saturating_add(self.rate_min().tokens_at_most(self.added.bytes))
            .saturating_add(self.added.images.saturating_mul(IMAGE_TOKENS));
        let (bytes, images) = (self.freed_bytes.saturating_add(bytes), self.freed_images.saturating_add(images));
        let grown =
            self.rate_max().tokens_at_most(bytes.min(0).unsigned_abs()).saturating_add(images.min(0).unsigned_abs().saturating_mul(IMAGE_TOKENS));
        let gone =
            self.rate_max().tokens_at_least(bytes.max(0).unsigned_abs()).saturating_add(images.max(0).unsigned_abs().saturating_mul(IMAGE_TOKENS));
        full.saturating_add(grown).saturating_sub(gone)
    }

    /// What no commit can move, when `movable` is what one could.
    pub fn immovable(&self, movable: Size) -> u64 {
        let movable = self.rate_mean().tokens_at_least(movable.bytes).saturating_add(movable.images.saturating_mul(IMAGE_TOKENS));
        self.tokens().saturating_sub(movable)
    }

    /// How far off the estimate may be: 5% of the budget, or the worst of the last eight under-estimates.
    pub fn margin(&self, band: &Band) -> u64 {
        self.errors.iter().copied().max().unwrap_or(0).max(band.budget / 20)
    }

    /// Everything shown, by size.
    pub fn shown(&self) -> Size {
        self.shown
    }

    /// What the provider counted last with the model in force.
    pub fn measured(&self) -> Option<u64> {
        self.anchor
    }

    /// Whether no good answer has followed the newest change of what is shown.
    pub fn waiting(&self) -> bool {
        self.waiting
    }

    /// The densest measured rate: most tokens for a byte.
    pub fn rate_min(&self) -> Rate {
        self.rates().min().unwrap_or(Rate::UNMEASURED)
    }

    /// The thinnest measured rate: fewest tokens for a byte.
    pub fn rate_max(&self) -> Rate {
        self.rates().max().unwrap_or(Rate::UNMEASURED)
    }

    /// The rate over all increments that count.
    pub fn rate_mean(&self) -> Rate {
        let sum = |sum: (u64, u64), one: &(u64, u64)| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
        match self.increments.iter().fold((0, 0), sum) {
            (0, _) => Rate::UNMEASURED,
            (bytes, tokens) => Rate::measured(bytes, tokens),
        }
    }

    fn rates(&self) -> impl Iterator<Item = Rate> {
        self.increments.iter().map(|&(bytes, tokens)| Rate::measured(bytes, tokens))
    }
}

fn less(count: u64, by: i64) -> u64 {
    if by >= 0 { count.saturating_sub(by.unsigned_abs()) } else { count.saturating_add(by.unsigned_abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: u64) -> Size {
        Size { bytes, images: 0 }
    }

    fn model() -> Text {
        Text::from("provider/model")
    }

    fn usage(prompt: u64) -> Option<Usage> {
        Some(Usage { input: prompt, total: prompt, ..Usage::default() })
    }

    /// `steps` results of `bytes` each, answered with what a provider with this overhead and rate would count.
    fn run(steps: u64, bytes: u64, rate: u64, overhead: u64) -> Occupancy {
        let mut occupancy = Occupancy::new();
        for step in 1..=steps {
            occupancy.added(text(bytes));
            occupancy.answered(&model(), usage(overhead + step * bytes / rate), text(0));
        }
        occupancy
    }

    #[test]
    fn increments_cancel_a_fixed_overhead_and_single_steps_calibrate_all_the_same() {
        let occupancy = run(40, 1_200, 3, 8_000);
        let tokens = |rate: Rate| rate.tokens_at_most(30_000);
        assert_eq!((tokens(occupancy.rate_min()), tokens(occupancy.rate_max()), tokens(occupancy.rate_mean())), (10_000, 10_000, 10_000));
        assert_eq!(occupancy.tokens(), 8_000 + 40 * 400);
    }

    #[test]
    fn a_change_between_breaks_the_increment() {
        let mut occupancy = run(10, 1_200, 3, 0);
        occupancy.changed();
        occupancy.added(text(60_000));
        occupancy.answered(&model(), usage(24_000), text(0));
        assert_eq!(occupancy.rate_min(), Rate::UNMEASURED);
    }

    #[test]
    fn an_edit_after_the_answer_that_follows_its_record_breaks_the_increment_too() {
        let mut occupancy = run(10, 1_200, 3, 0);
        occupancy.changed();
        occupancy.answered(&model(), usage(4_000), text(0));
        occupancy.freed(20_000, 0);
        occupancy.added(text(44_000));
        occupancy.answered(&model(), usage(10_000), text(0));
        assert_eq!(occupancy.rate_min(), Rate::UNMEASURED);
    }

    #[test]
    fn pessimism_has_a_sign() {
        let mut occupancy = run(1, 0, 1, 0);
        for (bytes, total) in [(15_000, 5_000), (40_000, 10_000)] {
            occupancy.added(text(bytes));
            occupancy.answered(&model(), usage(total), text(0));
        }
        let before = occupancy.tokens();
        occupancy.freed(8_000, 0);
        assert_eq!(before - occupancy.tokens(), 1_000);
        occupancy.added(text(3_000));
        assert_eq!(occupancy.tokens(), before - 1_000 + 1_000);
    }

    #[test]
    fn the_first_answer_reveals_the_overhead_and_is_no_error() {
        let band = Band::new(&crate::config::Settings::default(), 20_000).expect("a band");
        let mut occupancy = run(1, 400, 4, 8_000);
        assert_eq!(occupancy.margin(&band), 1_000);
        occupancy.added(text(4_000));
        occupancy.answered(&model(), usage(8_100 + 1_000 + 2_500), text(0));
        assert_eq!(occupancy.margin(&band), 2_500);
    }

    #[test]
    fn a_provider_without_usage_still_fills_the_window() {
        let mut occupancy = Occupancy::new();
        occupancy.added(text(4_000));
        occupancy.answered(&model(), None, text(400));
        assert_eq!(occupancy.tokens(), 1_100);
    }

    #[test]
    fn a_model_switch_estimates_the_whole_window_again() {
        let mut occupancy = run(5, 4_000, 4, 9_000);
        occupancy.model(&model());
        assert_eq!(occupancy.tokens(), 14_000);
        occupancy.model(&Text::from("provider/other"));
        assert_eq!(occupancy.tokens(), 5_000);
    }

    #[test]
    fn huge_values_do_not_panic() {
        let mut occupancy = Occupancy::new();
        occupancy.freed(i64::MIN, i64::MIN);
        occupancy.freed(i64::MAX, i64::MAX);
        occupancy.answered(&model(), usage(u64::MAX), text(1));
        occupancy.added(text(1));
        assert_eq!(occupancy.tokens(), u64::MAX);
    }
}
