//! What a provider's cache would read of a request, and what it would charge for writing: one trait, several geometries.
//!
//! | where | what is held, and how it is found again | whose |
//! |---|---|---|
//! | [`prefix`] | the longest prefix two requests share, in steps | OpenAI up to GPT-5.5 |
//! | [`ends`] | prefixes that end with a message; the newest end and some before it are looked up | GPT-5.6 and later |
//! | [`markers`] | prefixes that end at a marked block; a few blocks before each marker are looked up | Anthropic |
//! | [`units`] | whole units: a request, a request with its answer, what two requests had in common | DeepSeek |
//! | [`paged`] | blocks of tokens up to a capacity, the least recently used go first | vLLM, and with blocks of one token SGLang |
//! | [`routed`] | any of these behind a router that loses its way now and then | |
//!
//! [`of`] makes the one that a plan asks for, and a [`Forecast`] tells what the next request would read.
//!
//! Requests are compared message by message, by the hashes of their [`Chain`]: a message that changed is read up to its beginning, at most that
//! message less than a cache that compares tokens. Sources and dates of the rules stand at their constants.

pub mod ends;
pub mod markers;
pub mod paged;
pub mod prefix;
pub mod routed;
pub mod units;

use crate::agent::Geometry;
use crate::wire::{Chain, Link};
use fold_runtime::ports::PrefixCache;
use std::collections::BTreeMap;

pub use prefix::{OpenAiCache, Rules};

/// What a request read from a cache and wrote into it, in tokens. What is neither is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Served {
    /// Read.
    pub read: u64,
    /// Written, where writing is billed; reported by no other cache.
    pub written: u64,
}

/// The cache of one model. Requests whose chains begin alike share it, whichever session sends them.
pub trait Cache: std::fmt::Debug {
    /// Serves a request that starts at `now_ms` and whose answer's first byte comes at `answer_at_ms`: what it writes can be read from then on.
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served;

    /// The same cache again, to try something out on. A router before it is left out: nobody foresees where it loses its way.
    fn boxed(&self) -> Box<dyn Cache>;
}

impl Cache for Box<dyn Cache> {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        self.as_mut().serve(chain, now_ms, answer_at_ms)
    }

    fn boxed(&self) -> Box<dyn Cache> {
        self.as_ref().boxed()
    }
}

/// The cache that a plan asks for; in steps of 128 tokens it forgets after `idle_ms`, every other has a lifetime of its own.
pub fn of(geometry: Geometry, idle_ms: u64, router: Option<u64>) -> Box<dyn Cache> {
    let cache: Box<dyn Cache> = match geometry {
        Geometry::Steps => Box::new(OpenAiCache::new(Rules { idle_ms, ..Rules::IN_MEMORY })),
        Geometry::LongSteps => Box::new(OpenAiCache::new(Rules::GPT_5_5)),
        Geometry::Ends => Box::new(ends::MessageEnds::new(ends::Rules::GPT_5_6)),
        Geometry::Markers => Box::new(markers::Markers::new(markers::Rules::FIVE_MINUTES)),
        Geometry::MarkersForAnHour => Box::new(markers::Markers::new(markers::Rules::ONE_HOUR)),
        Geometry::SpareMarker => Box::new(markers::Markers::new(markers::Rules::SPARE_MARKER)),
        Geometry::Units => Box::new(units::Units::new(units::Rules::DEEPSEEK)),
        Geometry::Blocks => Box::new(paged::Paged::new(paged::Rules::VLLM)),
        Geometry::Radix => Box::new(paged::Paged::new(paged::Rules::SGLANG)),
    };
    match router {
        Some(seed) => Box::new(routed::Routed::new(cache, routed::Misses::OBSERVED, seed)),
        None => cache,
    }
}

/// What a cache would read of a request that begins like the last one.
#[derive(Clone, Copy, Debug)]
pub struct Forecast<'a> {
    /// The cache.
    pub cache: &'a dyn Cache,
    /// The last request.
    pub last: &'a Chain,
}

impl PrefixCache for Forecast<'_> {
    fn forecast(&self, prefix: u64, now_ms: u64) -> u64 {
        self.cache.boxed().serve(&self.last.going_on_after(prefix), now_ms, now_ms).read
    }
}

/// Prefixes that are held, by the hash that names them.
#[derive(Clone, Debug)]
struct Held {
    /// How long what nobody reads is kept, from the start of the request that wrote or last read it.
    idle_ms: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    visible_ms: u64,
    used_ms: u64,
}

impl Held {
    fn new(idle_ms: u64) -> Self {
        Held { idle_ms, entries: BTreeMap::new() }
    }

    /// Forgets what nobody has read for its lifetime.
    fn forget(&mut self, now_ms: u64) {
        self.entries.retain(|_, entry| now_ms.saturating_sub(entry.used_ms) < self.idle_ms);
    }

    fn is_readable(&self, link: &Link, now_ms: u64) -> bool {
        self.entries.get(&link.hash).is_some_and(|entry| entry.visible_ms <= now_ms)
    }

    /// A read begins the lifetime anew.
    fn refresh(&mut self, link: &Link, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(&link.hash) {
            entry.used_ms = now_ms;
        }
    }

    /// What is held already is refreshed, and stays as visible as it was.
    fn write(&mut self, link: &Link, now_ms: u64, visible_ms: u64) {
        let visible_ms = visible_ms.max(now_ms);
        let entry = self.entries.entry(link.hash).or_insert(Entry { visible_ms, used_ms: now_ms });
        *entry = Entry { visible_ms: entry.visible_ms.min(visible_ms), used_ms: now_ms };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Forecast, Served};
    use crate::agent::Geometry;
    use crate::shown::WireRole;
    use crate::wire::{Chain, Piece};
    use fold_runtime::ports::PrefixCache;

    #[test]
    fn a_forecast_is_what_the_next_request_reads_and_changes_nothing() {
        for geometry in Geometry::ALL {
            let mut cache = super::of(geometry, 300_000, None);
            let first = chain(&[(1, 30_000), (2, 3_000)]);
            assert_eq!(Forecast { cache: &cache, last: &first }.forecast(33_010, 0), 0, "{geometry:?}");
            cache.serve(&first, 0, 50);
            let at = |prefix, now_ms| Forecast { cache: &cache, last: &first }.forecast(prefix, now_ms);
            assert!(at(33_010, 49) == 0 && at(10, 50) <= 10, "{geometry:?}");
            let (all, some) = (at(33_010, 50), at(30_010, 50));
            assert!(all > 30_000 && some <= 30_010, "{geometry:?}: {all}, {some}");
            let read = cache.serve(&chain(&[(1, 30_000), (2, 3_000), (3, 7)]), 50, 60).read;
            assert_eq!(read, all, "{geometry:?}");
        }
    }

    #[test]
    fn two_sessions_share_what_their_requests_have_in_common_once_its_writer_was_answered() {
        for geometry in Geometry::ALL {
            let mut cache = super::of(geometry, 300_000, None);
            // A system prompt, and then a task of each session's own.
            let of = |task: u64| talk(&[(1, 's', 40_000, 1), (task, 'u', 500, 1)]);
            cache.serve(&of(2), 0, 100);
            assert_eq!(cache.serve(&of(3), 50, 150).read, 0, "{geometry:?}: not before the first byte of the answer");
            let Served { read, .. } = cache.serve(&of(4), 200, 300);
            // A cache of message ends writes only the newest; one of whole units learns what two requests share.
            let shared = if geometry == Geometry::Ends { 0..=0 } else { 38_000..=40_010 };
            assert!(shared.contains(&read), "{geometry:?}: {read}");
        }
    }

    #[test]
    fn a_router_that_loses_its_way_reads_nothing_now_and_then_and_finds_back() {
        let mut cache = super::of(Geometry::Steps, 300_000, Some(7));
        let request = chain(&[(1, 30_000)]);
        let cold = (0..1_000).filter(|at| cache.serve(&request, at * 10, at * 10).read == 0).count();
        assert!((10..80).contains(&cold), "{cold} of 1,000 were cold");
    }

    /// A request of an overhead of ten tokens and messages of (name, tokens).
    pub fn chain(messages: &[(u64, u64)]) -> Chain {
        let mut chain = Chain::new("model", 10);
        for (wire, tokens) in messages {
            chain.push(*wire, *tokens);
        }
        chain
    }

    /// The same with roles: `s`, `u`, `a`, `t`, and `p` for a placeholder in a user message; tokens; blocks.
    pub fn talk(messages: &[(u64, char, u64, u32)]) -> Chain {
        let mut chain = Chain::new("model", 10);
        for &(wire, role, tokens, blocks) in messages {
            let role = match role {
                's' => WireRole::System,
                'a' => WireRole::Assistant,
                't' => WireRole::Tool,
                _ => WireRole::User,
            };
            chain.append(Piece { wire, tokens, role, blocks, placeholder: messages.iter().any(|of| of.0 == wire && of.1 == 'p') });
        }
        chain
    }
}
