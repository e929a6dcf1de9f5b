//! Prefixes that end with a message, as GPT-5.6 and later hold them: a request writes up to its newest eligible end, and reads the longest held prefix
//! among that end and some ends before it. Writing is billed. Explicit breakpoints are not modelled: Pi sends none.

use super::{Cache, Held, Served};
use crate::shown::WireRole;
use crate::wire::{Chain, Link};

/// The published rules (the provider's guide of prompt caching as of 2026-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Fewer tokens than this are not cached.
    pub minimum: u64,
    /// Message ends before the newest one that are looked up.
    pub look_back: usize,
    /// How long what nobody reads is kept.
    pub idle_ms: u64,
}

impl Rules {
    /// 1,024 visible tokens, up to 20 earlier message ends, 30 minutes.
    pub const GPT_5_6: Rules = Rules { minimum: 1_024, look_back: 20, idle_ms: 30 * 60 * 1_000 };
}

/// A cache of message ends.
#[derive(Clone, Debug)]
pub struct MessageEnds {
    rules: Rules,
    held: Held,
}

impl MessageEnds {
    /// An empty cache.
    pub fn new(rules: Rules) -> Self {
        MessageEnds { rules, held: Held::new(rules.idle_ms) }
    }
}

/// Where a prefix may end: with the first system block, a user message, or the last of a run of results.
fn ends(links: &[Link]) -> impl Iterator<Item = &Link> {
    links.iter().enumerate().rev().filter_map(|(at, link)| {
        let next = links.get(at + 1).map(|next| next.role);
        let eligible = match link.role {
            WireRole::User => true,
            WireRole::Tool => next != Some(WireRole::Tool),
            WireRole::System => at == 0 || (next != Some(WireRole::System) && links[..at].iter().all(|before| before.role == WireRole::System)),
            WireRole::Assistant | WireRole::Nothing => false,
        };
        eligible.then_some(link)
    })
}

impl Cache for MessageEnds {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        self.held.forget(now_ms);
        let Some(newest) = ends(chain.links()).next() else { return Served::default() };
        let mut looked_up = ends(chain.links()).take(1 + self.rules.look_back);
        let found = looked_up.find(|link| link.tokens >= self.rules.minimum && self.held.is_readable(link, now_ms)).copied();
        if let Some(link) = found {
            self.held.refresh(&link, now_ms);
        }
        let read = found.map_or(0, |link| link.tokens);
        if newest.tokens < self.rules.minimum {
            return Served { read, written: 0 };
        }
        self.held.write(newest, now_ms, answer_at_ms);
        Served { read, written: newest.tokens - read }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::talk;
    use super::*;

    fn cache() -> MessageEnds {
        MessageEnds::new(Rules::GPT_5_6)
    }

    #[test]
    fn what_is_appended_is_written_and_all_before_it_read() {
        let mut cache = cache();
        let first = [(1, 'u', 2_000, 1)];
        assert_eq!(cache.serve(&talk(&first), 0, 1), Served { read: 0, written: 2_010 });
        let second = [(1, 'u', 2_000, 1), (2, 'a', 50, 2), (3, 't', 700, 1), (4, 't', 300, 1)];
        assert_eq!(cache.serve(&talk(&second), 1, 2), Served { read: 2_010, written: 1_050 });
        assert_eq!(cache.serve(&talk(&second), 2, 3), Served { read: 3_060, written: 0 });
    }

    #[test]
    fn nothing_ends_within_a_run_of_results_or_with_an_answer() {
        let mut cache = cache();
        cache.serve(&talk(&[(1, 'u', 2_000, 1), (2, 'a', 50, 2), (3, 't', 700, 1)]), 0, 1);
        // Another result follows in the same run: that end is gone, and nothing before it was written.
        let longer = [(1, 'u', 2_000, 1), (2, 'a', 50, 2), (3, 't', 700, 1), (4, 't', 300, 1)];
        assert_eq!(cache.serve(&talk(&longer), 1, 2), Served { read: 0, written: 3_060 });
    }

    #[test]
    fn a_message_that_grows_loses_its_old_end() {
        let mut cache = cache();
        cache.serve(&talk(&[(1, 'u', 2_000, 1)]), 0, 1);
        assert_eq!(cache.serve(&talk(&[(9, 'u', 2_100, 1)]), 1, 2).read, 0);
    }

    #[test]
    fn twenty_ends_back_are_looked_up_and_no_more() {
        for (steps, read) in [(20, 2_010), (21, 0)] {
            let mut cache = cache();
            let mut messages = vec![(0, 'u', 2_000, 1)];
            cache.serve(&talk(&messages), 0, 1);
            messages.extend((1..=steps).map(|step| (step, 'u', 10, 1)));
            assert_eq!(cache.serve(&talk(&messages), 1, 2).read, read, "{steps} messages later");
        }
    }

    #[test]
    fn less_than_1024_tokens_are_neither_written_nor_read() {
        let mut cache = cache();
        assert_eq!(cache.serve(&talk(&[(1, 'u', 1_013, 1)]), 0, 1), Served::default());
        assert_eq!(cache.serve(&talk(&[(1, 'u', 1_014, 1)]), 0, 1), Served::default().plus(1_024));
    }

    #[test]
    fn thirty_minutes_after_the_last_read_it_is_gone() {
        let mut cache = cache();
        let request = talk(&[(1, 'u', 2_000, 1)]);
        let idle = Rules::GPT_5_6.idle_ms;
        cache.serve(&request, 0, 1);
        assert_eq!(cache.serve(&request, idle - 1, idle).read, 2_010);
        assert_eq!(cache.serve(&request, 2 * idle - 2, 2 * idle).read, 2_010);
        assert_eq!(cache.serve(&request, 3 * idle - 2, 3 * idle).read, 0);
    }

    impl Served {
        fn plus(self, written: u64) -> Self {
            Served { written: self.written + written, ..self }
        }
    }
}
