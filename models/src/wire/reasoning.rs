//! Signed reasoning that a rewrite loses.
//!
//! Newer models bind their reasoning to all that stood before it. Pi lets the provider drop what no longer fits
//! (`prefix_mismatch_behavior: "drop_block"`), so a rewrite is not refused: it costs what the model had thought, silently.

use super::{Wire, send};
use crate::hash::hash;
use crate::shown::Shown;
use crate::tokens::TokenModel;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Wire {
    /// Whether reasoning on this wire is bound to what stands before it.
    ///
    /// - Anthropic: a change of system, tools or an earlier message drops that block and every later one (Anthropic, preserved thinking:
    ///   Fable 5.1, Opus 5.5 and later).
    /// - Responses: an item behind a change is removed for `prefix_mismatch` (GPT-6.2 and later, as pi-ai 1.6.0 has it).
    /// - Chat: reasoning comes back as a field of its message, signed by nothing.
    /// - Gemini: a signature belongs to its own part, and nothing says that it looks at what stands before.
    pub fn binds_reasoning(self) -> bool {
        matches!(self, Wire::Anthropic | Wire::Responses)
    }
}

/// What the rewrites of a session cost in reasoning.
#[derive(Clone, Debug, Default)]
pub struct Reasoning {
    /// Answers whose reasoning is lost, by their entries: it does not come back, and is not lost again.
    lost: BTreeSet<u64>,
}

impl Reasoning {
    /// A request to the model called `own` parts from the one before it at message `first_change` of its window. Gives the true tokens of
    /// reasoning that the provider drops for it: of the model's own signed answers that still stand from there on, the answer to the
    /// request before among them. Costs what follows the change.
    pub fn rewritten(&mut self, wire: Wire, own: u64, window: &[Arc<Shown>], first_change: usize, model: &TokenModel) -> u64 {
        if !wire.binds_reasoning() {
            return 0;
        }
        let standing = window.iter().skip(first_change).filter(|shown| {
            let facts = &shown.facts;
            facts.signed.reasoning.is_some() && facts.model == own && send::leaves(wire, own, shown)
        });
        let fresh = standing.filter(|shown| self.lost.insert(hash(0, shown.source.id().as_bytes())));
        fresh.map(|shown| model.reasoning(shown)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;

    /// Tokens lost, by a count of one byte a token.
    fn lost(reasoning: &mut Reasoning, wire: Wire, window: &[Arc<Shown>], first_change: usize) -> u64 {
        reasoning.rewritten(wire, OWN[wire as usize], window, first_change, &TokenModel::constant(1_000, 0))
    }

    /// A question and nine answers that think 1, 2, 3, … bytes before they say something.
    fn thinks(wire: Wire, signature: &str) -> Vec<Arc<Shown>> {
        let says = r#"{"type":"text","text":"so"}"#;
        let answer = |nth: usize| by(wire, &format!("{},{says}", thinking(&"m".repeat(nth), signature)), "stop");
        let answers: Vec<String> = (1..=9).flat_map(|nth| [answer(nth), USER.to_owned()]).collect();
        window(&messages(&std::iter::once(USER).chain(answers.iter().map(String::as_str)).collect::<Vec<_>>()))
    }

    #[test]
    fn a_rewrite_loses_the_reasoning_of_every_answer_behind_it_and_each_one_once() {
        // https://github.com/anthropics/claude-code/issues/13012, /12311; Anthropic, preserved thinking.
        for wire in [Wire::Anthropic, Wire::Responses] {
            let (window, mut reasoning) = (thinks(wire, "c2ln"), Reasoning::default());
            // The second answer stands at message 3: it and all later ones go.
            assert_eq!(lost(&mut reasoning, wire, &window, 2), (2..=9).sum::<u64>());
            assert_eq!(lost(&mut reasoning, wire, &window, 4), 0, "what is lost is not lost again");
            assert_eq!(lost(&mut reasoning, wire, &window, 0), 1, "the first answer is left");
            assert_eq!(lost(&mut reasoning, wire, &window, window.len()), 0);
        }
    }

    #[test]
    fn an_answer_that_came_after_a_rewrite_is_bound_to_what_it_was_asked() {
        let (window, mut reasoning) = (thinks(Wire::Anthropic, "c2ln"), Reasoning::default());
        assert_eq!(lost(&mut reasoning, Wire::Anthropic, &window[..8], 1), 1 + 2 + 3 + 4);
        // Five more answers, then another rewrite.
        assert_eq!(lost(&mut reasoning, Wire::Anthropic, &window, 1), 5 + 6 + 7 + 8 + 9);
    }

    #[test]
    fn what_is_unsigned_or_unbound_or_another_models_is_not_lost() {
        for wire in [Wire::Chat, Wire::Gemini] {
            assert_eq!(lost(&mut Reasoning::default(), wire, &thinks(wire, "c2ln"), 0), 0);
        }
        assert_eq!(lost(&mut Reasoning::default(), Wire::Anthropic, &thinks(Wire::Anthropic, ""), 0), 0);
        assert_eq!(lost(&mut Reasoning::default(), Wire::Anthropic, &thinks(Wire::Responses, "c2ln"), 0), 0);
    }

    #[test]
    fn an_answer_that_a_fold_hides_takes_its_reasoning_with_it_and_nothing_is_counted() {
        let (window, mut reasoning) = (thinks(Wire::Anthropic, "c2ln"), Reasoning::default());
        let folded: Vec<_> = window[..1].iter().chain(&window[12..]).cloned().collect();
        // Answers 1 to 6 are hidden; 7 to 9 still stand behind the change.
        assert_eq!(lost(&mut reasoning, Wire::Anthropic, &folded, 1), 7 + 8 + 9);
    }
}
