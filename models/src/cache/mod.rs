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
//! Requests are compared message by message, by the hashes of their [`Chain`]: a message that changed is read up to its beginning, at most that
//! message less than a cache that compares tokens. Sources and dates of the rules stand at their constants.

pub mod ends;
pub mod markers;
pub mod paged;
pub mod prefix;
pub mod routed;
pub mod units;

use crate::wire::{Chain, Link};
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
    use crate::shown::WireRole;
    use crate::wire::{Chain, Piece};

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
