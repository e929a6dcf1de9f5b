//! The longest prefix two requests share, in steps: OpenAI's cache up to GPT-5.5. Writing costs nothing.
//!
//! It reads the longest common prefix of the request and anything it holds, in steps of 128 tokens and not below 1,024. What a request
//! wrote can be read from the first byte of its answer on; it is forgotten when nothing has read it for its lifetime, counted from the start of
//! the request that last did. Two requests are compared message by message, so a message that changed is read up to its beginning: at
//! most that message less than a real cache, which compares tokens.

use super::{Cache, Served};
use crate::wire::{Chain, Link};

/// The published rules of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Tokens read come in steps of this many.
    pub step: u64,
    /// Fewer tokens than this are not cached.
    pub minimum: u64,
    /// How long what nobody reads is kept.
    pub idle_ms: u64,
}

impl Rules {
    /// In memory: "5 to 10 minutes of inactivity". The least of it.
    pub const IN_MEMORY: Rules = Rules { step: 128, minimum: 1_024, idle_ms: 5 * 60 * 1_000 };

    /// With a retention of 24 hours, of which 30 minutes are typical.
    pub const EXTENDED: Rules = Rules { step: 128, minimum: 1_024, idle_ms: 30 * 60 * 1_000 };

    /// GPT-5.5: a breakpoint every 2,048 tokens, a retention of 24 hours only.
    pub const GPT_5_5: Rules = Rules { step: 2_048, ..Rules::EXTENDED };

    /// How many tokens are read of a held prefix of so many.
    pub fn readable(&self, prefix: u64) -> u64 {
        if prefix < self.minimum { 0 } else { prefix - prefix % self.step }
    }
}

/// What one request left behind.
#[derive(Clone, Debug)]
struct Held {
    links: Vec<Link>,
    visible_ms: u64,
    used_ms: u64,
}

/// The cache of one model. Sessions whose chains begin alike share it.
#[derive(Clone, Debug)]
pub struct OpenAiCache {
    rules: Rules,
    held: Vec<Held>,
}

/// Chains that are held at most. A session holds two, and one more for each branch it left within the lifetime.
const MOST_HELD: usize = 64;

impl OpenAiCache {
    /// An empty cache.
    pub fn new(rules: Rules) -> Self {
        OpenAiCache { rules, held: Vec::new() }
    }

    /// Serves a request that starts now and whose answer's first byte comes at `answer_at_ms`; gives the tokens read.
    pub fn request(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> u64 {
        self.held.retain(|held| now_ms.saturating_sub(held.used_ms) < self.rules.idle_ms);
        let links = chain.links();
        let best = self.best(links, now_ms);
        let read = best.map_or(0, |(_, common)| self.rules.readable(links[common - 1].tokens));
        if let Some((best, common)) = best.filter(|_| read > 0) {
            // What was read is fresh again; a tail that was not read grows old alone.
            let prefix = if common == self.held[best].links.len() {
                let mut held = self.held.swap_remove(best);
                held.used_ms = now_ms;
                held
            } else {
                Held { links: links[..common].to_vec(), visible_ms: self.held[best].visible_ms, used_ms: now_ms }
            };
            self.held.retain(|held| held.visible_ms > now_ms || common_prefix(&held.links, links) < held.links.len());
            self.held.push(prefix);
        }
        self.write(links, now_ms, answer_at_ms);
        read
    }

    fn write(&mut self, links: &[Link], now_ms: u64, answer_at_ms: u64) {
        if links.last().is_none_or(|link| link.tokens < self.rules.minimum) {
            return;
        }
        if self.held.len() == MOST_HELD {
            let oldest = self.held.iter().enumerate().min_by_key(|(_, held)| held.used_ms).map_or(0, |(at, _)| at);
            self.held.remove(oldest);
        }
        self.held.push(Held { links: links.to_vec(), visible_ms: answer_at_ms.max(now_ms), used_ms: now_ms });
    }

    /// Which visible chain has most in common with `links`, and how many links.
    fn best(&self, links: &[Link], now_ms: u64) -> Option<(usize, usize)> {
        let visible = self.held.iter().enumerate().filter(|(_, held)| held.visible_ms <= now_ms);
        visible.map(|(at, held)| (at, common_prefix(&held.links, links))).filter(|(_, common)| *common > 0).max_by_key(|(_, common)| *common)
    }
}

impl Cache for OpenAiCache {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        Served { read: self.request(chain, now_ms, answer_at_ms), written: 0 }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        Box::new(self.clone())
    }
}

/// How many links two chains have in common. Each hash names all links before it too, so the answer can be searched for.
fn common_prefix(one: &[Link], other: &[Link]) -> usize {
    let most = one.len().min(other.len());
    if most > 0 && one[most - 1].hash == other[most - 1].hash {
        return most;
    }
    let (mut agree, mut differ) = (0, most);
    while agree < differ {
        let middle = agree.midpoint(differ);
        if one[middle].hash == other[middle].hash { agree = middle + 1 } else { differ = middle }
    }
    agree
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use super::*;

    fn cache() -> OpenAiCache {
        OpenAiCache::new(Rules::IN_MEMORY)
    }

    #[test]
    fn a_prefix_of_1023_tokens_reads_nothing_and_one_of_1024_everything() {
        for (tokens, read) in [(1_013, 0), (1_014, 1_024)] {
            let mut cache = cache();
            assert_eq!(cache.request(&chain(&[(1, tokens)]), 0, 10), 0);
            assert_eq!(cache.request(&chain(&[(1, tokens), (2, 5_000)]), 10, 20), read, "a prefix of {} tokens", tokens + 10);
        }
    }

    #[test]
    fn what_is_read_comes_in_steps_of_128_tokens() {
        for (prefix, read) in [(1_151, 1_024), (1_152, 1_152), (1_279, 1_152), (5_000, 4_992)] {
            let mut cache = cache();
            cache.request(&chain(&[(1, prefix - 10)]), 0, 1);
            assert_eq!(cache.request(&chain(&[(1, prefix - 10), (2, 1)]), 1, 2), read);
        }
    }

    #[test]
    fn an_edit_loses_only_from_the_first_changed_message() {
        let mut cache = cache();
        cache.request(&chain(&[(1, 2_000), (2, 3_000), (3, 4_000)]), 0, 1);
        assert_eq!(cache.request(&chain(&[(1, 2_000), (9, 100), (3, 4_000), (4, 50)]), 1, 2), 1_920);
        // The branch that was left can still be read.
        assert_eq!(cache.request(&chain(&[(1, 2_000), (2, 3_000), (3, 4_000), (5, 50)]), 2, 3), 8_960);
    }

    #[test]
    fn nothing_can_be_read_before_the_first_byte_of_the_answer_that_wrote_it() {
        let mut cache = cache();
        let request = chain(&[(1, 4_000)]);
        cache.request(&request, 0, 100);
        assert_eq!(cache.request(&request, 99, 300), 0);
        assert_eq!(cache.request(&request, 100, 300), 3_968);
    }

    #[test]
    fn a_lifetime_runs_from_the_start_of_the_request_and_a_read_begins_it_anew() {
        let idle = Rules::IN_MEMORY.idle_ms;
        let request = chain(&[(1, 4_000)]);
        let mut cache = cache();
        cache.request(&request, 0, 100);
        assert_eq!(cache.request(&request, idle - 1, idle), 3_968);
        assert_eq!(cache.request(&request, 2 * idle - 2, 2 * idle), 3_968);
        assert_eq!(cache.request(&request, 3 * idle - 2, 3 * idle), 0);
    }

    #[test]
    fn a_read_of_a_prefix_does_not_refresh_the_rest() {
        let idle = Rules::IN_MEMORY.idle_ms;
        let (long, short) = (chain(&[(1, 2_000), (2, 3_000)]), chain(&[(1, 2_000), (9, 1)]));
        let mut cache = cache();
        cache.request(&long, 0, 1);
        assert_eq!(cache.request(&short, idle / 2, idle / 2), 1_920);
        assert_eq!(cache.request(&long, idle, idle), 1_920);
    }

    #[test]
    fn another_model_shares_nothing() {
        let mut cache = cache();
        cache.request(&chain(&[(1, 4_000)]), 0, 1);
        let mut other = Chain::new("another model", 10);
        other.push(1, 4_000);
        assert_eq!(cache.request(&other, 1, 2), 0);
    }

    #[test]
    fn a_long_session_holds_few_chains() {
        let mut cache = cache();
        let mut messages = vec![(0, 2_000)];
        for turn in 1..500 {
            messages.push((turn, 50));
            cache.request(&chain(&messages), turn * 10, turn * 10 + 5);
            assert!(cache.held.len() <= 3, "{} chains after {turn} requests", cache.held.len());
        }
    }

    #[test]
    fn the_search_for_a_common_prefix_finds_what_a_walk_finds() {
        for length in 0..20u64 {
            for changed in 0..=length {
                let one: Vec<_> = (0..length).map(|at| (at, 1)).collect();
                let other: Vec<_> = (0..length + 3).map(|at| (if at == changed { 99 } else { at }, 1)).collect();
                let (one, other) = (chain(&one), chain(&other));
                let walked = one.links().iter().zip(other.links()).take_while(|(a, b)| a == b).count();
                assert_eq!(common_prefix(one.links(), other.links()), walked);
            }
        }
    }
}
