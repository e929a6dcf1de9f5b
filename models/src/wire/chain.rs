//! A request as its prefixes: what a cache compares.

use super::send::{Item, NO_RESULT, Sender};
use crate::hash::{hash, mix};
use crate::shown::{Shown, WireRole};
use crate::tokens::TokenModel;
use std::sync::Arc;

/// The start of a request up to the end of one message: what names it, and its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Names everything up to here.
    pub hash: u64,
    /// True tokens up to here.
    pub tokens: u64,
    /// Content blocks up to here.
    pub blocks: u32,
    /// Whose message ends here; what precedes the messages counts as the system's.
    pub role: WireRole,
    /// Whether that message holds a placeholder.
    pub placeholder: bool,
}

/// A message as a chain takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Names what leaves.
    pub wire: u64,
    /// Its true tokens.
    pub tokens: u64,
    /// Its content blocks.
    pub blocks: u32,
    /// Whose it is.
    pub role: WireRole,
    /// Whether it holds a placeholder.
    pub placeholder: bool,
}

impl Piece {
    /// A message that leaves, if it does: the reasoning and the text of an answer are one block each, its calls and images one more for each.
    pub fn of(item: Item<'_>, model: &TokenModel) -> Option<Self> {
        let shown = match item {
            Item::Message(_, shown) => shown,
            Item::Synthetic(_, call) => {
                let wire = mix(hash(0, NO_RESULT.as_bytes()), hash(0, call.id.as_bytes()));
                return Some(Piece { wire, tokens: model.synthetic(), blocks: 1, role: WireRole::Tool, placeholder: false });
            }
        };
        if !shown.facts.sent {
            return None;
        }
        let facts = &shown.facts;
        let one = |bytes: u64| u32::from(bytes > 0);
        let more = u32::try_from(facts.calls.len() as u64 + facts.images).unwrap_or(u32::MAX);
        let blocks = (one(facts.bytes.thinking) + one(facts.bytes.text)).saturating_add(more).max(1);
        let blocks = if facts.wire == WireRole::Tool { 1 } else { blocks };
        Some(Piece { wire: shown.wire, tokens: shown.tokens, blocks, role: facts.wire, placeholder: facts.placeholder })
    }
}

/// A request as its prefixes, kept from one request of a session to the next.
///
/// Two requests begin alike exactly as far as the hashes of their links agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    links: Vec<Link>,
    /// Where each message of the window begins, and behind them its end; nowhere while system messages are held back.
    starts: Vec<Option<Start>>,
}

/// The place before a message: the links so far, and the assistant message whose calls may still be unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Start {
    links: usize,
    pending: Option<usize>,
}

impl Chain {
    /// A request without messages: `name` stands for what precedes them (model, system prompt, tools), of `overhead` tokens.
    pub fn new(name: &str, overhead: u64) -> Self {
        let first = Link { hash: hash(0, name.as_bytes()), tokens: overhead, blocks: 1, role: WireRole::System, placeholder: false };
        Chain { links: vec![first], starts: Vec::new() }
    }

    /// Appends one message of a person's, of so many tokens.
    pub fn push(&mut self, wire: u64, tokens: u64) {
        self.append(Piece { wire, tokens, blocks: 1, role: WireRole::User, placeholder: false });
    }

    /// Appends one message.
    pub fn append(&mut self, piece: Piece) {
        let last = self.links.last().expect("a chain begins with what precedes the messages");
        let Piece { wire, tokens, blocks, role, placeholder } = piece;
        self.links.push(Link {
            hash: mix(last.hash, wire),
            tokens: last.tokens + tokens,
            blocks: last.blocks.saturating_add(blocks),
            role,
            placeholder,
        });
    }

    /// Makes this the chain of `window`, which agrees with the window of the last call before index `from`. Costs what follows `from`.
    pub fn update(&mut self, window: &[Arc<Shown>], from: usize, model: &TokenModel) {
        let from = from.min(self.starts.len().saturating_sub(1));
        let (at, start) = (0..=from).rev().find_map(|at| Some((at, (*self.starts.get(at)?)?))).unwrap_or((0, Start { links: 1, pending: None }));
        self.links.truncate(start.links);
        self.starts.truncate(at);
        let mut sender = Sender { pending: start.pending, held: Vec::new() };
        for index in at..window.len() {
            self.begin(&sender);
            sender.take(window, index, &mut |item| self.item(item, model));
        }
        self.begin(&sender);
        sender.close(window, window.len(), &mut |item| self.item(item, model));
    }

    fn begin(&mut self, sender: &Sender) {
        self.starts.push(sender.held.is_empty().then_some(Start { links: self.links.len(), pending: sender.pending }));
    }

    fn item(&mut self, item: Item<'_>, model: &TokenModel) {
        Piece::of(item, model).into_iter().for_each(|piece| self.append(piece));
    }

    /// A request that begins like this one, as far as its messages lie within so many tokens, and goes on with something else.
    #[must_use]
    pub fn going_on_after(&self, tokens: u64) -> Chain {
        let within = self.links.iter().take_while(|link| link.tokens <= tokens).count().max(1);
        let mut chain = Chain { links: self.links[..within].to_vec(), starts: Vec::new() };
        chain.push(hash(0, b"what nobody has said yet"), 1);
        chain
    }

    /// True tokens of the whole request.
    pub fn tokens(&self) -> u64 {
        self.links.last().map_or(0, |link| link.tokens)
    }

    /// Its prefixes, shortest first.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;

    #[test]
    fn an_updated_chain_equals_one_made_from_scratch_whatever_changed() {
        let system = r#"{"role":"system","content":"more"}"#;
        let all =
            [USER, &calls(&["c1", "c2"]), system, &result("c1"), &result("c2"), ANSWER, &calls(&["c3"]), USER, &calls(&["c4"]), &result("c4"), USER];
        let scratch = |window: &[Arc<Shown>]| {
            let mut chain = Chain::new("m", 100);
            chain.update(window, 0, &model());
            chain
        };
        let full = window(&messages(&all));
        for before in 0..=full.len() {
            for after in 0..=full.len() {
                let mut chain = scratch(&full[..before]);
                chain.update(&full[..after], before.min(after), &model());
                assert_eq!(chain, scratch(&full[..after]), "from {before} to {after} messages");
            }
        }
        for changed in 0..full.len() {
            for gone in [false, true] {
                let mut other = full.clone();
                if gone {
                    other.remove(changed);
                } else {
                    other[changed] = window(&messages(&[USER])).remove(0);
                }
                let mut chain = scratch(&full);
                chain.update(&other, changed, &model());
                assert_eq!(chain, scratch(&other), "message {changed} changed");
            }
        }
    }

    #[test]
    fn a_chain_counts_the_overhead_the_messages_and_the_made_up_results() {
        let window = window(&messages(&[USER, &calls(&["c1"])]));
        let mut chain = Chain::new("m", 100);
        chain.update(&window, 0, &model());
        assert_eq!(chain.tokens(), 100 + window.iter().map(|shown| shown.tokens).sum::<u64>() + model().synthetic());
        assert_eq!(chain.links().len(), 4);
    }
}
