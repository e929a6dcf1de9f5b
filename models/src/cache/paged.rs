//! Blocks of tokens in a memory of so many blocks: those that were used least recently go first, of one request the last ones first. With blocks of
//! 16 tokens this is vLLM's automatic prefix cache, with blocks of one token SGLang's radix tree. What the model generated stays in the memory too, so that the
//! next request reads the answer to the one before. Nothing is billed; nothing grows old.

use super::{Cache, Served};
use crate::shown::WireRole;
use crate::wire::{Chain, Link};
use std::collections::BTreeMap;

/// The size of blocks, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Tokens of a block. Only whole blocks are shared.
    pub block: u64,
    /// Blocks there are.
    pub capacity: u64,
}

impl Rules {
    /// vLLM: blocks of 16 tokens. A memory of two million tokens, as one server with several sessions has.
    pub const VLLM: Rules = Rules { block: 16, capacity: 2_000_000 / 16 };

    /// SGLang: a radix tree with pages of one token, and the same memory.
    pub const SGLANG: Rules = Rules { block: 1, capacity: 2_000_000 };
}

/// A cache of blocks. The blocks that end within one message come and go together.
#[derive(Clone, Debug)]
pub struct Paged {
    rules: Rules,
    held: BTreeMap<u64, Blocks>,
    used: u64,
    clock: u64,
}

/// The blocks that end within a message.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    count: u64,
    last_used: u64,
    depth: usize,
    visible_ms: u64,
    /// Whether a request ended here, and its answer is held too.
    answered: bool,
}

impl Paged {
    /// An empty memory.
    pub fn new(rules: Rules) -> Self {
        Paged { rules, held: BTreeMap::new(), used: 0, clock: 0 }
    }

    /// How many blocks end within the message of a link.
    fn blocks(&self, links: &[Link], at: usize) -> u64 {
        let before = at.checked_sub(1).map_or(0, |before| links[before].tokens);
        links[at].tokens / self.rules.block - before / self.rules.block
    }

    /// Makes room: what was used longest ago goes first, and of that the ends of prefixes before their beginnings.
    fn make_room(&mut self) {
        while self.used > self.rules.capacity {
            let oldest = self.held.iter().min_by_key(|(_, blocks)| (blocks.last_used, std::cmp::Reverse(blocks.depth)));
            let Some((hash, count)) = oldest.map(|(hash, blocks)| (*hash, blocks.count)) else { return };
            self.held.remove(&hash);
            self.used -= count;
        }
    }
}

impl Cache for Paged {
    fn serve(&mut self, chain: &Chain, now_ms: u64, answer_at_ms: u64) -> Served {
        let links = chain.links();
        self.clock += 1;
        let held = |link: &Link| self.held.get(&link.hash).filter(|blocks| blocks.visible_ms <= now_ms);
        let answered = |at: usize| links[at].role == WireRole::Assistant && at > 0 && held(&links[at - 1]).is_some_and(|blocks| blocks.answered);
        let shared = (0..links.len()).take_while(|&at| held(&links[at]).is_some() || answered(at)).count();
        let tokens = shared.checked_sub(1).map_or(0, |last| links[last].tokens);
        // The last token of a prompt is always computed: its output is what is asked for.
        let most = chain.tokens().saturating_sub(1);
        let read = tokens.min(most) / self.rules.block * self.rules.block;
        for (depth, link) in links.iter().enumerate() {
            let count = self.blocks(links, depth);
            let ends = depth + 1 == links.len();
            let fresh = Blocks { count, last_used: self.clock, depth, visible_ms: answer_at_ms.max(now_ms), answered: ends };
            match self.held.get_mut(&link.hash) {
                Some(blocks) => (blocks.last_used, blocks.answered) = (self.clock, blocks.answered || ends),
                None => {
                    self.held.insert(link.hash, fresh);
                    self.used += count;
                }
            }
        }
        self.make_room();
        Served { read, written: 0 }
    }

    fn boxed(&self) -> Box<dyn Cache> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chain, talk};
    use super::*;

    #[test]
    fn whole_blocks_of_a_prefix_are_shared_and_the_last_token_never() {
        let mut vllm = Paged::new(Rules::VLLM);
        vllm.serve(&chain(&[(1, 995)]), 0, 1);
        assert_eq!(vllm.serve(&chain(&[(1, 995), (2, 500)]), 1, 2).read, 992, "62 blocks of 1,005 tokens");
        assert_eq!(vllm.serve(&chain(&[(1, 995), (3, 500)]), 2, 3).read, 992, "a tail of another session");
        let mut sglang = Paged::new(Rules::SGLANG);
        let request = chain(&[(1, 995)]);
        sglang.serve(&request, 0, 1);
        assert_eq!(sglang.serve(&request, 1, 2).read, 1_004);
    }

    #[test]
    fn the_answer_to_the_request_before_is_read_and_another_one_is_not() {
        let mut cache = Paged::new(Rules::SGLANG);
        let request = [(1, 'u', 990, 1)];
        cache.serve(&talk(&request), 0, 1);
        assert_eq!(cache.serve(&talk(&[request[0], (2, 'a', 500, 1), (3, 'u', 10, 1)]), 1, 2).read, 1_500);
        assert_eq!(cache.serve(&talk(&[request[0], (9, 'u', 500, 1), (2, 'a', 500, 1), (3, 'u', 10, 1)]), 2, 3).read, 1_000);
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_ends_first() {
        let mut cache = Paged::new(Rules { block: 1, capacity: 3_000 });
        let (one, other) = (chain(&[(1, 990), (2, 1_000)]), chain(&[(8, 990), (9, 500)]));
        cache.serve(&one, 0, 1);
        // Of the first request the end goes, its beginning stays.
        cache.serve(&other, 1, 2);
        assert_eq!(cache.serve(&one, 2, 3).read, 1_000);
        assert!(cache.used <= 3_000);
    }

    #[test]
    fn a_request_larger_than_the_memory_keeps_its_beginning() {
        let mut cache = Paged::new(Rules { block: 1, capacity: 2_000 });
        let request = chain(&[(1, 990), (2, 5_000)]);
        cache.serve(&request, 0, 1);
        assert_eq!(cache.serve(&request, 1, 2).read, 1_000);
    }
}
