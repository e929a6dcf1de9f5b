//! Prefixes that end at a marked block, as Anthropic holds them: a request writes up to each of its markers, and reads the longest held prefix that ends
//! at a marker or at one of a few blocks before it. Writing is billed, for an hour's life at another price.

use super::{Cache, Held, Served};
use crate::shown::WireRole;
use crate::wire::{Chain, Link};

/// The published rules, and where the client puts its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Fewer tokens than this are not cached.
    pub minimum: u64,
    /// Blocks that are looked up at each marker, its own included.
    pub look_back: u32,
    /// How long what nobody reads is kept.
    pub idle_ms: u64,
    /// Whether the fourth marker, which Pi leaves unused, stands behind the last placeholder of a fold.
    pub marks_placeholder: bool,
}

impl Rules {
    /// Pi's markers: tools, system prompt, last user message. Claude Sonnet's minimum of 1,024; 20 blocks; 5 minutes.
    pub const FIVE_MINUTES: Rules = Rules { minimum: 1_024, look_back: 20, idle_ms: 5 * 60 * 1_000, marks_placeholder: false };

    /// The same for an hour, which costs twice the input's price to write instead of 1.25 times.
    pub const ONE_HOUR: Rules = Rules { idle_ms: 60 * 60 * 1_000, ..Rules::FIVE_MINUTES };

    /// With the spare marker on the last placeholder.
    pub const SPARE_MARKER: Rules = Rules { marks_placeholder: true, ..Rules::FIVE_MINUTES };
}

/// A cache of marked blocks.
#[derive(Clone, Debug)]
pub struct Markers {
    rules: Rules,
    held: Held,
}

impl Markers {
    /// An empty cache.
    pub fn new(rules: Rules) -> Self {
        Markers { rules, held: Held::new(rules.idle_ms) }
    }

    /// Where this request has markers, by link, first to last.
    fn markers(&self, links: &[Link]) -> Vec<usize> {
        let system = links.iter().take_while(|link| link.role == WireRole::System).count().checked_sub(1);
        let placeholder = links.iter().rposition(|link| link.placeholder).filter(|_| self.rules.marks_placeholder);
        // Results and words of a person leave in the role `user`, and so does what a system message says later on.
        let last = links.iter().rposition(|link| link.role != WireRole::Assistant);
        let mut all: Vec<usize> = system.into_iter().chain(placeholder).chain(last).collect();
        all.dedup();
        all
    }

    /// The longest held prefix at a marker or in the blocks before it.
    fn found(&self, links: &[Link], marker: usize, now_ms: u64) -> Option<usize> {
        let within = |link: &Link| links[marker].blocks - link.blocks < self.rules.look_back;
        let near = links[..=marker].iter().enumerate().rev().take_while(|(_, link)| within(link));
        near.filter(|(_, link)| link.tokens >= self.rules.minimum).find(|(_, link)| self.held.is_readable(link, now_ms)).map(|(at, _)| at)
    }
}

impl Cache for Markers {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        self.held.forget(now_ms);
        let links = chain.links();
        let markers = self.markers(links);
        let found: Vec<usize> = markers.iter().filter_map(|marker| self.found(links, *marker, now_ms)).collect();
        for at in &found {
            self.held.refresh(&links[*at], now_ms);
        }
        let read = found.iter().max().map_or(0, |at| links[*at].tokens);
        let long = |marker: &&usize| links[**marker].tokens >= self.rules.minimum;
        for marker in markers.iter().filter(long) {
            self.held.write(&links[*marker], now_ms, answer_at_ms);
        }
        let written = markers.iter().rev().find(long).map_or(0, |marker| links[*marker].tokens.saturating_sub(read));
        Served { read, written }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::talk;
    use super::*;

    fn cache() -> Markers {
        Markers::new(Rules::FIVE_MINUTES)
    }

    /// A turn in which the model calls so many tools at once and says something too.
    fn step(from: u64, calls: u64) -> Vec<(u64, char, u64, u32)> {
        let answer = (from, 'a', 100, u32::try_from(calls).expect("few") + 1);
        std::iter::once(answer).chain((1..=calls).map(|call| (from + call, 't', 200, 1))).collect()
    }

    #[test]
    fn what_is_appended_is_written_and_all_before_it_read() {
        let mut cache = cache();
        let mut messages = vec![(1, 'u', 2_000, 1)];
        assert_eq!(cache.serve(&talk(&messages), 0, 1), Served { read: 0, written: 2_010 });
        messages.extend(step(10, 2));
        assert_eq!(cache.serve(&talk(&messages), 1, 2), Served { read: 2_010, written: 500 });
    }

    /// redpanda ai-sdk-go#205: with one rolling marker a step of ten parallel calls lies further apart than the look-back reaches.
    #[test]
    fn a_step_of_ten_parallel_calls_reads_nothing_with_one_rolling_marker() {
        for (calls, read) in [(9, 2_010), (10, 0)] {
            let mut cache = cache();
            let mut messages = vec![(1, 'u', 2_000, 1)];
            cache.serve(&talk(&messages), 0, 1);
            messages.extend(step(10, calls));
            assert_eq!(cache.serve(&talk(&messages), 1, 2).read, read, "{calls} calls");
        }
    }

    #[test]
    fn the_system_prompt_stays_cached_whatever_follows_it() {
        let mut cache = cache();
        let system = (1, 's', 5_000, 1);
        cache.serve(&talk(&[system, (2, 'u', 2_000, 1)]), 0, 1);
        assert_eq!(cache.serve(&talk(&[system, (3, 'u', 900, 1)]), 1, 2), Served { read: 5_010, written: 900 });
    }

    #[test]
    fn after_a_commit_unchanged_folds_are_written_again_unless_the_spare_marker_stands_behind_them() {
        let fold = (2, 'p', 3_000, 1);
        let mut before = vec![(1, 's', 5_000, 1), fold];
        before.extend((0..3).flat_map(|turn| step(10 + 20 * turn, 8)));
        let mut after = before[..2].to_vec();
        after.extend([(90, 'p', 400, 1), (91, 'u', 100, 1)]);
        for (rules, read) in [(Rules::FIVE_MINUTES, 5_010), (Rules::SPARE_MARKER, 8_010)] {
            let mut cache = Markers::new(rules);
            cache.serve(&talk(&before), 0, 1);
            let served = cache.serve(&talk(&after), 1, 2);
            assert_eq!((served.read, served.written), (read, 8_510 - read));
        }
    }

    #[test]
    fn a_lifetime_runs_from_the_start_of_a_request_and_a_read_begins_it_anew() {
        let request = talk(&[(1, 'u', 2_000, 1)]);
        for rules in [Rules::FIVE_MINUTES, Rules::ONE_HOUR] {
            let mut cache = Markers::new(rules);
            let idle = rules.idle_ms;
            cache.serve(&request, 0, 100);
            assert_eq!(cache.serve(&request, 99, 200).read, 0, "not before the first byte of the answer");
            assert_eq!(cache.serve(&request, idle - 1, idle).read, 2_010);
            assert_eq!(cache.serve(&request, 2 * idle - 2, 2 * idle).read, 2_010);
            assert_eq!(cache.serve(&request, 3 * idle - 2, 3 * idle).read, 0);
        }
    }

    #[test]
    fn less_than_the_minimum_is_fresh() {
        let mut cache = cache();
        assert_eq!(cache.serve(&talk(&[(1, 'u', 1_013, 1)]), 0, 1), Served::default());
    }
}
