//! A cache behind a router that loses its way: now and then a request reaches a machine that holds nothing of it.

use super::{Cache, Served};
use crate::agent::Stream;
use crate::wire::Chain;

/// A process of two states: on the way, and lost. Lost requests read nothing; they write where nobody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misses {
    /// How often a request on the way gets lost, in millionths.
    pub lost_ppm: u64,
    /// How often a lost one finds back, in millionths.
    pub found_ppm: u64,
}

impl Misses {
    /// 22 of 783 requests that only appended were cold (the published ledgers of six runs), most of them one or two in a row: 2.8% lost, each
    /// second one finds back.
    pub const OBSERVED: Misses = Misses { lost_ppm: 14_400, found_ppm: 500_000 };

    /// Whole epochs of misses, 3 to 70 requests long, were seen too.
    pub const EPOCHS: Misses = Misses { lost_ppm: 2_000, found_ppm: 60_000 };
}

/// A cache that is missed now and then.
#[derive(Debug)]
pub struct Routed<C> {
    cache: C,
    misses: Misses,
    stream: Stream,
    lost: bool,
    count: u64,
}

impl<C: Cache> Routed<C> {
    /// A cache behind a router of its own, which a seed decides.
    pub fn new(cache: C, misses: Misses, seed: u64) -> Self {
        Routed { cache, misses, stream: Stream::named(seed, "router"), lost: false, count: 0 }
    }

    /// Requests that were lost so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl<C: Cache> Cache for Routed<C> {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        let turns = if self.lost { self.misses.found_ppm } else { self.misses.lost_ppm };
        self.lost ^= self.stream.chance(turns, 1_000_000);
        let served = self.cache.serve(chain, now_ms, answer_at_ms);
        if !self.lost {
            return served;
        }
        self.count += 1;
        let written = if served.written > 0 { served.read + served.written } else { 0 };
        Served { read: 0, written }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        self.cache.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::prefix::{OpenAiCache, Rules};
    use super::super::tests::chain;
    use super::*;

    fn cold(misses: Misses, seed: u64) -> (u64, Vec<bool>) {
        let mut cache = Routed::new(OpenAiCache::new(Rules::IN_MEMORY), misses, seed);
        let request = chain(&[(1, 4_000)]);
        cache.serve(&request, 0, 0);
        let reads: Vec<bool> = (1..10_000).map(|at| cache.serve(&request, at, at).read == 0).collect();
        (cache.count(), reads)
    }

    #[test]
    fn as_many_requests_are_lost_as_were_observed_and_a_seed_decides_which() {
        let (count, reads) = cold(Misses::OBSERVED, 7);
        assert!((200..400).contains(&count), "{count} of 10,000");
        assert_eq!(cold(Misses::OBSERVED, 7), (count, reads.clone()));
        assert_ne!(cold(Misses::OBSERVED, 8).1, reads);
        assert_eq!(cold(Misses { lost_ppm: 0, found_ppm: 1 }, 7).0, 0);
    }
}
