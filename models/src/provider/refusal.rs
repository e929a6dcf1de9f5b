//! Refusals as data: a provider's own words, and what Pi makes of them.
//!
//! Pi knows a refusal by its words alone. What it takes for an overflow it answers with a compaction and one retry; what it takes for a
//! passing trouble it sends again after a while. The words are those that pi-ai 1.6.0 lists (`utils/overflow.js`, `utils/retry.js`) and
//! its adapters throw; where a provider's are not known, the status and the words of HTTP stand.

use crate::wire::{Wire, gemini};
use std::fmt;

/// Why an answer does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The prompt alone holds more than the model takes. Nothing was generated.
    Overflow {
        /// The wire it was sent on.
        wire: Wire,
        /// What the model holds, in tokens.
        window: u64,
        /// What the prompt held, in tokens.
        tokens: u64,
    },
    /// The body holds more bytes than the provider reads.
    TooLarge {
        /// The wire it was sent on.
        wire: Wire,
    },
    /// Too much was asked in too short a time.
    RateLimited {
        /// The wire it was sent on.
        wire: Wire,
        /// When to ask again, as the header `retry-after` has it, in milliseconds.
        retry_after_ms: u64,
    },
    /// The provider has more to do than it can.
    Overloaded {
        /// The wire it was sent on.
        wire: Wire,
    },
    /// Nothing came in the time that the client waits.
    Timeout,
    /// The answer breaks off: what came of it is not to be trusted.
    Cut {
        /// The wire it was sent on.
        wire: Wire,
    },
}

impl Refusal {
    /// How long the provider asks to wait, in milliseconds, where it does.
    ///
    /// ```
    /// use fold_models::provider::Refusal;
    /// use fold_models::wire::Wire;
    /// let busy = Refusal::RateLimited { wire: Wire::Anthropic, retry_after_ms: 12_000 };
    /// assert_eq!((busy.retry_after_ms(), Refusal::Timeout.retry_after_ms()), (Some(12_000), None));
    /// ```
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Refusal::RateLimited { retry_after_ms, .. } => Some(*retry_after_ms),
            _ => None,
        }
    }

    /// Whether Pi recovers from it as from an overflow (`isContextOverflow`). Every 413 counts; Google's body limit is a 400 whose words
    /// Pi does not know, so there it does not.
    ///
    /// ```
    /// use fold_models::provider::Refusal;
    /// use fold_models::wire::Wire;
    /// assert!(Refusal::TooLarge { wire: Wire::Anthropic }.is_overflow());
    /// assert!(!Refusal::TooLarge { wire: Wire::Gemini }.is_overflow());
    /// ```
    pub fn is_overflow(&self) -> bool {
        match self {
            Refusal::Overflow { .. } => true,
            Refusal::TooLarge { wire } => *wire != Wire::Gemini,
            Refusal::RateLimited { .. } | Refusal::Overloaded { .. } | Refusal::Timeout | Refusal::Cut { .. } => false,
        }
    }
}

impl fmt::Display for Refusal {
    /// As Pi records it in `errorMessage`: status, kind, words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refusal::Overflow { wire, window, tokens } => overflow(wire, window, tokens, f),
            Refusal::TooLarge { wire: Wire::Anthropic } => write!(f, "413 request_too_large: Request exceeds the maximum size"),
            Refusal::TooLarge { wire: Wire::Responses | Wire::Chat } => write!(f, "413 Request Entity Too Large"),
            Refusal::TooLarge { wire: Wire::Gemini } => {
                write!(f, "400 INVALID_ARGUMENT: Request payload size exceeds the limit: {} bytes.", gemini::BODY)
            }
            Refusal::RateLimited { wire: Wire::Anthropic, .. } => {
                write!(f, "429 rate_limit_error: This request would exceed your organization's rate limit of input tokens per minute")
            }
            Refusal::RateLimited { wire: Wire::Responses | Wire::Chat, retry_after_ms } => write!(
                f,
                "429 Rate limit reached on tokens per min (TPM). Please try again in {}.{:03}s.",
                retry_after_ms / 1_000,
                retry_after_ms % 1_000
            ),
            Refusal::RateLimited { wire: Wire::Gemini, .. } => write!(f, "429 RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota)."),
            Refusal::Overloaded { wire: Wire::Anthropic } => write!(f, "529 overloaded_error: Overloaded"),
            Refusal::Overloaded { wire: Wire::Responses | Wire::Chat } => {
                write!(f, "503 server_error: Our servers are currently overloaded. Please try again later.")
            }
            Refusal::Overloaded { wire: Wire::Gemini } => write!(f, "503 UNAVAILABLE: The model is overloaded. Please try again later."),
            Refusal::Timeout => write!(f, "Request timed out."),
            Refusal::Cut { wire: Wire::Anthropic } => write!(f, "Anthropic stream ended before message_stop"),
            Refusal::Cut { wire: Wire::Responses } => write!(f, "OpenAI Responses stream ended before a terminal response event"),
            Refusal::Cut { wire: Wire::Chat | Wire::Gemini } => write!(f, "terminated"),
        }
    }
}

impl std::error::Error for Refusal {}

fn overflow(wire: Wire, window: u64, tokens: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match wire {
        Wire::Anthropic => write!(f, "400 invalid_request_error: prompt is too long: {tokens} tokens > {window} maximum"),
        Wire::Responses => {
            write!(f, "400 context_length_exceeded: Your input exceeds the context window of this model. Please adjust your input and try again.")
        }
        Wire::Chat => write!(
            f,
            "400 This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. \
             Please reduce the length of the messages."
        ),
        Wire::Gemini => {
            write!(f, "400 INVALID_ARGUMENT: The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(wire: Wire) -> [Refusal; 6] {
        [
            Refusal::Overflow { wire, window: 1_000, tokens: 1_001 },
            Refusal::TooLarge { wire },
            Refusal::RateLimited { wire, retry_after_ms: 2_050 },
            Refusal::Overloaded { wire },
            Refusal::Timeout,
            Refusal::Cut { wire },
        ]
    }

    /// What of Pi's patterns bears on these words (`utils/overflow.js`), with the ones that forbid before the ones that tell.
    fn pi_takes_for_an_overflow(words: &str) -> bool {
        let words = words.to_lowercase();
        let forbids = ["rate limit", "too many requests"];
        let tells = [
            "prompt is too long",
            "request_too_large",
            "exceeds the context window",
            "context_length_exceeded",
            "reduce the length of the messages",
            "exceeds the limit of ",
            "too many tokens",
        ];
        let google = words.split_once("input token count").is_some_and(|(_, rest)| rest.contains("exceeds the maximum"));
        let is_413 = words.strip_prefix("413").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']));
        !forbids.iter().any(|word| words.contains(word)) && (google || is_413 || tells.iter().any(|word| words.contains(word)))
    }

    /// What of Pi's patterns for passing trouble bears on them (`utils/retry.js`).
    fn pi_sends_again(words: &str) -> bool {
        let words = words.to_lowercase();
        let tells = ["overloaded", "rate limit", "429", "503", "timed out", "terminated", "stream ended before"];
        tells.iter().any(|word| words.contains(word)) && !["quota exceeded", "billing", "insufficient_quota"].iter().any(|word| words.contains(word))
    }

    #[test]
    fn pi_takes_for_an_overflow_what_is_said_to_be_one_and_sends_the_passing_ones_again() {
        for refusal in Wire::ALL.into_iter().flat_map(all) {
            let words = refusal.to_string();
            assert_eq!(pi_takes_for_an_overflow(&words), refusal.is_overflow(), "{words}");
            let passing = !matches!(refusal, Refusal::Overflow { .. } | Refusal::TooLarge { .. });
            assert_eq!(pi_sends_again(&words), passing, "{words}");
            assert!(!words.contains(['"', '\\', '\n']), "{words} would have to be escaped in an answer");
        }
    }

    #[test]
    fn an_overflow_is_told_in_each_providers_words() {
        let words = Wire::ALL.map(|wire| Refusal::Overflow { wire, window: 200_000, tokens: 213_462 }.to_string());
        assert!(words[0].ends_with("prompt is too long: 213462 tokens > 200000 maximum"));
        assert!(words[1].starts_with("400 context_length_exceeded"));
        assert!(words[2].contains("maximum context length is 200000 tokens. However, your messages resulted in 213462 tokens"));
        assert!(words[3].ends_with("The input token count (213462) exceeds the maximum number of tokens allowed (200000)."));
    }

    #[test]
    fn only_a_rate_limit_says_when_to_come_back() {
        for wire in Wire::ALL {
            let waits = all(wire).map(|refusal| refusal.retry_after_ms());
            assert_eq!(waits, [None, None, Some(2_050), None, None, None]);
        }
        let words = Refusal::RateLimited { wire: Wire::Chat, retry_after_ms: 2_050 }.to_string();
        assert!(words.ends_with("try again in 2.050s."), "{words}");
    }

    #[test]
    fn an_overload_is_what_a_failed_answer_of_a_plan_says() {
        assert_eq!(Refusal::Overloaded { wire: Wire::Anthropic }.to_string(), "529 overloaded_error: Overloaded");
    }
}
