//! Budget, thresholds, and the rate between bytes and tokens. Integers only: a decision may not depend on a rounding mode.

use crate::config::Settings;

/// The band in tokens, computed once from settings and the model's context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What every share is a share of.
    pub budget: u64,
    /// The model's context window.
    pub window: u64,
    /// A commit fires at this occupancy.
    pub max_target: u64,
    /// A commit stops at this occupancy, where nothing immovable stands in the way.
    pub min_target: u64,
}

/// The smallest budget worth managing, in tokens (fold law, settings).
const MINIMUM_BUDGET: u64 = 10_000;

impl Band {
    /// The band for a model with this context window.
    ///
    /// # Errors
    /// A sentence when the budget is under 10,000 tokens.
    ///
    /// ```
    /// use fold_runtime::{config::Settings, window::Band};
    /// let band = Band::new(&Settings::default(), 272_000)?;
    /// assert_eq!((band.max_target, band.min_target), (217_600, 54_400));
    /// # Ok::<(), String>(())
    /// ```
    pub fn new(settings: &Settings, window: u64) -> Result<Self, String> {
        let budget = settings.provider_input_budget.map_or(window, |declared| declared.min(window));
        if budget < MINIMUM_BUDGET {
            return Err(format!(
                "the budget is {budget} tokens; folding needs at least {MINIMUM_BUDGET}: raise providerInputBudget or take a model with a larger context window"
            ));
        }
        let share = |ppm: u32| u64::try_from(u128::from(budget) * u128::from(ppm) / 1_000_000).expect("a share is below the budget");
        Ok(Band { budget, window, max_target: share(settings.thresholds.max_target_ppm), min_target: share(settings.thresholds.min_target_ppm) })
    }

    /// The room to answer that a request must leave in the window: 16,384 tokens, or a tenth of a small window.
    pub fn answer_room(&self) -> u64 {
        (self.window / 10).min(16_384)
    }

    /// The target of a commit when `immovable` tokens of the window cannot be moved by any commit.
    ///
    /// A small window with a large system prompt must not lose all its raw work, so half the share counts above what cannot move.
    pub fn target(&self, immovable: u64) -> u64 {
        let above = self.budget.saturating_sub(immovable);
        let half = u128::from(self.min_target) * u128::from(above) / u128::from(self.budget) / 2;
        self.min_target.max(immovable.saturating_add(u64::try_from(half).expect("a share of the budget")))
    }

    /// Whether a request estimated at `estimate` tokens, by an estimator off by at most `margin`, must not be sent.
    pub fn over_fence(&self, estimate: u64, margin: u64) -> bool {
        let margin = margin.max(self.budget / 20);
        estimate > self.budget || estimate.saturating_add(margin) > self.window - self.answer_room()
    }
}

/// Bytes per token as a ratio of two measured counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    bytes: u64,
    tokens: u64,
}

impl Rate {
    /// What is assumed before anything was measured: four bytes a token.
    pub const UNMEASURED: Rate = Rate { bytes: 4, tokens: 1 };

    /// The measured rate, held between 2 and 12 bytes a token.
    pub fn measured(bytes: u64, tokens: u64) -> Self {
        if bytes <= tokens.saturating_mul(2) {
            Rate { bytes: 2, tokens: 1 }
        } else if bytes >= tokens.saturating_mul(12) {
            Rate { bytes: 12, tokens: 1 }
        } else {
            Rate { bytes, tokens }
        }
    }

    /// Tokens for `bytes`, rounded up: for what was added.
    pub fn tokens_at_most(self, bytes: u64) -> u64 {
        u64::try_from((u128::from(bytes) * u128::from(self.tokens)).div_ceil(u128::from(self.bytes))).unwrap_or(u64::MAX)
    }

    /// Tokens for `bytes`, rounded down: for what was freed.
    pub fn tokens_at_least(self, bytes: u64) -> u64 {
        u64::try_from(u128::from(bytes) * u128::from(self.tokens) / u128::from(self.bytes)).unwrap_or(u64::MAX)
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (left, right) = (u128::from(self.bytes) * u128::from(other.tokens), u128::from(other.bytes) * u128::from(self.tokens));
        left.cmp(&right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(window: u64) -> Band {
        Band::new(&Settings::default(), window).expect("a band")
    }

    #[test]
    fn a_large_overhead_raises_the_target_and_a_small_one_does_not() {
        let band = band(20_000);
        assert_eq!(band.target(0), 4_000);
        assert_eq!(band.target(8_000), 8_000 + 1_200);
        assert_eq!(band.target(20_000), 20_000);
        assert_eq!(band.target(30_000), 30_000);
    }

    #[test]
    fn the_fence_leaves_room_to_answer() {
        let band = band(272_000);
        assert!(!band.over_fence(272_000 - 16_384 - 13_600, 0));
        assert!(band.over_fence(272_000 - 16_384 - 13_600 + 1, 0));
        assert!(band.over_fence(230_000, 40_000));
    }

    #[test]
    fn a_budget_under_ten_thousand_is_refused_by_name() {
        let message = Band::new(&Settings::default(), 9_999).unwrap_err();
        assert!(message.contains("9999") && message.contains("providerInputBudget"), "{message}");
    }

    #[test]
    fn rates_round_against_hope_and_stay_between_two_and_twelve() {
        let rate = Rate::measured(35_000, 10_000);
        assert_eq!((rate.tokens_at_most(7), rate.tokens_at_least(7)), (2, 2));
        assert_eq!((rate.tokens_at_most(8), rate.tokens_at_least(8)), (3, 2));
        assert_eq!(Rate::measured(1, 10_000).tokens_at_most(8), 4);
        assert_eq!(Rate::measured(1_000_000, 1).tokens_at_least(24), 2);
        assert!(Rate::measured(30_000, 10_000) < Rate::UNMEASURED);
        assert_eq!(Rate::UNMEASURED.tokens_at_most(u64::MAX), u64::MAX / 4 + 1);
    }
}
