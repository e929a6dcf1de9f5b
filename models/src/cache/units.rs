//! Whole prefix units, as DeepSeek holds them: a request, a request with its answer, and what two requests were seen to have in common. A unit is read
//! whole or not at all. Units at fixed intervals, whose length is not published, are not modelled.

use super::{Cache, Held, Served};
use crate::shown::WireRole;
use crate::wire::{Chain, Link};

/// The published rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Fewer tokens than this are not cached; what is read comes in steps of as many.
    pub step: u64,
    /// How long what nobody reads is kept.
    pub idle_ms: u64,
}

impl Rules {
    /// Steps of 64 tokens (the notice of 2024), on disk for "hours to days": the least of it.
    pub const DEEPSEEK: Rules = Rules { step: 64, idle_ms: 2 * 60 * 60 * 1_000 };
}

/// Requests of which is known how they went, to see what the next one has in common with them.
const SEEN: usize = 8;

/// A cache of units.
#[derive(Clone, Debug)]
pub struct Units {
    rules: Rules,
    held: Held,
    seen: Vec<Vec<Link>>,
}

impl Units {
    /// An empty cache.
    pub fn new(rules: Rules) -> Self {
        Units { rules, held: Held::new(rules.idle_ms), seen: Vec::new() }
    }
}

impl Cache for Units {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        self.held.forget(now_ms);
        let links = chain.links();
        // A unit with the answer to it has one more message, which only the next request shows.
        let unit = |at: usize| {
            self.held.is_readable(&links[at], now_ms)
                || (links[at].role == WireRole::Assistant && at > 0 && self.held.is_readable(&links[at - 1], now_ms))
        };
        let found = (0..links.len()).rev().find(|at| unit(*at));
        for at in found.into_iter().flat_map(|at| [at, at.saturating_sub(1)]) {
            self.held.refresh(&links[at], now_ms);
        }
        let common = |other: &Vec<Link>| other.iter().zip(links).take_while(|(one, other)| one.hash == other.hash).count();
        let shared = self.seen.iter().map(common).filter(|count| *count > 0 && *count < links.len()).max();
        for at in shared.map(|count| count - 1).into_iter().chain(links.len().checked_sub(1)) {
            self.held.write(&links[at], now_ms, answer_at_ms);
        }
        if self.seen.len() == SEEN {
            self.seen.remove(0);
        }
        self.seen.push(links.to_vec());
        let tokens = found.map_or(0, |at| links[at].tokens);
        Served { read: tokens - tokens % self.rules.step, written: 0 }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::talk;
    use super::*;

    fn cache() -> Units {
        Units::new(Rules::DEEPSEEK)
    }

    /// The provider's worked example: after `A+B`, `A+C` reads nothing, but `A` becomes a unit, which `A+D` reads.
    #[test]
    fn what_two_requests_have_in_common_is_a_unit_for_the_third() {
        let mut cache = cache();
        let (a, tail) = ((1, 'u', 6_390, 1), |name| (name, 'u', 1_000, 1));
        assert_eq!(cache.serve(&talk(&[a, tail(2)]), 0, 1).read, 0);
        assert_eq!(cache.serve(&talk(&[a, tail(3)]), 1, 2).read, 0);
        assert_eq!(cache.serve(&talk(&[a, tail(4)]), 2, 3).read, 6_400);
    }

    #[test]
    fn a_request_is_a_unit_and_so_is_a_request_with_its_answer() {
        let mut cache = cache();
        let mut messages = vec![(1, 'u', 6_390, 1)];
        cache.serve(&talk(&messages), 0, 1);
        messages.extend([(2, 'a', 640, 1), (3, 'u', 64, 1)]);
        assert_eq!(cache.serve(&talk(&messages), 1, 2).read, 7_040);
    }

    #[test]
    fn a_unit_that_does_not_match_whole_is_not_read_in_part() {
        let mut cache = cache();
        cache.serve(&talk(&[(1, 'u', 3_000, 1), (2, 'u', 3_000, 1)]), 0, 1);
        assert_eq!(cache.serve(&talk(&[(1, 'u', 3_000, 1), (3, 'u', 3_000, 1)]), 1, 2).read, 0);
    }

    #[test]
    fn what_nobody_reads_for_its_lifetime_is_gone() {
        let mut cache = cache();
        let request = talk(&[(1, 'u', 6_390, 1)]);
        let idle = Rules::DEEPSEEK.idle_ms;
        cache.serve(&request, 0, 1);
        assert_eq!(cache.serve(&request, idle - 1, idle).read, 6_400);
        assert_eq!(cache.serve(&request, 2 * idle - 1, 2 * idle).read, 0);
    }
}
