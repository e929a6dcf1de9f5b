//! What made the provider read anew: changes of ours, of others, or nothing that happened here.
//!
//! A request that follows a change of what is shown has to be read anew from that change on. One that follows appends alone does not, so where
//! the provider read less from its cache than the request before it held, that is the provider's own.

use crate::journal::{Text, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// What a provider may leave uncached at the end of a request that it kept, in tokens: no cache is finer than its smallest entry (1,024
/// tokens with the providers that tell).
const SLACK: u64 = 1_024;

/// What made the provider read anew, to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Answered requests that followed a change of what is shown, by its cause; where there were several, by the weightiest.
    pub rewrites: BTreeMap<&'static str, u64>,
    /// Of these, requests of which the provider read less from its cache than the request before held.
    pub explained: u64,
    /// Such requests that followed no change: the provider's own.
    pub provider: u64,
    /// The newest of those: tokens of the request before, and tokens read.
    pub last: Option<(u64, u64)>,
    /// Answers with signed reasoning that stood behind the place of a change: providers that bind a signature to what stands before it drop the
    /// reasoning from then on.
    pub unsigned: u64,
}

/// Keeps count as entries arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct Attribution {
    pub told: Misses,
    /// Causes since the last answer, the weightiest first.
    since: BTreeSet<(u8, &'static str)>,
    /// The prompt of the last answer that told one.
    before: Option<u64>,
    /// Whether this provider tells of reads at all.
    reads: bool,
    model: Option<Text>,
    /// Answers with signed reasoning, by position, behind no change so far.
    signed: BTreeSet<usize>,
}

impl Attribution {
    /// What is shown changed from this position of the branch on; ours outweigh others.
    pub fn changed(&mut self, cause: &'static str, from: usize) {
        self.told.unsigned += self.signed.split_off(&from).len() as u64;
        let weight = match cause {
            "band" | "fence" | "overflow" | "person" => 0,
            "expand" | "refold" => 1,
            "peek" | "recovery" => 2,
            _ => 3,
        };
        self.since.insert((weight, cause));
    }

    /// An answer holds reasoning that the provider signed.
    pub fn signed(&mut self, at: usize) {
        self.signed.insert(at);
    }

    /// The model in force; another one has another cache.
    pub fn model(&mut self, name: &Text) {
        if self.model.as_ref() != Some(name) {
            (self.before, self.reads, self.model) = (None, false, Some(name.clone()));
        }
    }

    /// A good answer came.
    pub fn answered(&mut self, model: &Text, usage: Option<Usage>) {
        self.model(model);
        let cause = std::mem::take(&mut self.since).into_iter().next().map(|(_, cause)| cause);
        if let Some(cause) = cause {
            *self.told.rewrites.entry(cause).or_insert(0) += 1;
        }
        let Some(usage) = usage else {
            self.before = None;
            return;
        };
        self.reads |= usage.cache_read > 0;
        if let Some(before) = self.before.filter(|before| self.reads && usage.cache_read.saturating_add(SLACK) < *before) {
            match cause {
                Some(_) => self.told.explained += 1,
                None => {
                    self.told.provider += 1;
                    self.told.last = Some((before, usage.cache_read));
                }
            }
        }
        self.before = Some(usage.prompt());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prompt: u64, cache_read: u64) -> Option<Usage> {
        Some(Usage { input: prompt - cache_read, cache_read, total: prompt, ..Usage::default() })
    }

    fn model() -> Text {
        Text::from("provider/model")
    }

    #[test]
    fn a_request_after_appends_that_is_read_anew_is_the_providers_own_miss() {
        let mut kept = Attribution::default();
        for (prompt, cached) in [(10_000, 0), (11_000, 9_984), (12_000, 0), (13_000, 11_904)] {
            kept.answered(&model(), read(prompt, cached));
        }
        assert_eq!(kept.told, Misses { provider: 1, last: Some((11_000, 0)), ..Misses::default() });
    }

    #[test]
    fn a_request_after_a_change_is_put_down_to_its_weightiest_cause() {
        let mut kept = Attribution::default();
        kept.answered(&model(), read(10_000, 9_000));
        kept.changed("foreign edit", 4);
        kept.changed("band", 2);
        kept.answered(&model(), read(5_000, 1_024));
        assert_eq!(kept.told, Misses { rewrites: BTreeMap::from([("band", 1)]), explained: 1, ..Misses::default() });
    }

    #[test]
    fn reasoning_behind_a_change_counts_once_and_what_stands_before_it_does_not() {
        let mut kept = Attribution::default();
        for at in [1, 3, 5] {
            kept.signed(at);
        }
        kept.changed("band", 3);
        kept.changed("band", 3);
        assert_eq!(kept.told.unsigned, 2);
        kept.signed(7);
        kept.changed("expand", 0);
        assert_eq!(kept.told.unsigned, 4);
    }

    #[test]
    fn a_provider_that_tells_of_no_cache_and_another_model_miss_nothing() {
        let mut kept = Attribution::default();
        kept.answered(&model(), read(10_000, 0));
        kept.answered(&model(), read(11_000, 0));
        kept.answered(&model(), read(12_000, 11_000));
        kept.answered(&Text::from("provider/other"), read(13_000, 0));
        kept.answered(&Text::from("provider/other"), None);
        assert_eq!(kept.told, Misses::default());
    }
}
