//! A model's limits, its refusals, and the usage it reports.

use crate::wire::Wire;
use fold_runtime::journal::Usage;
use fold_runtime::ports::Provider;

mod refusal;

pub use refusal::Refusal;

/// A model, as far as a window is concerned. Sizes in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// `provider/model`, as answers name it.
    pub name: String,
    /// What a request and its answer may hold together.
    pub context_window: u64,
    /// The longest answer.
    pub max_output: u64,
}

impl Provider for Model {
    fn context_window(&self) -> u64 {
        self.context_window
    }
}

impl Model {
    /// Takes a request of so many true tokens, or refuses it in the words of the wire it came on.
    ///
    /// # Errors
    /// [`Refusal::Overflow`] when the request alone exceeds the window.
    ///
    /// ```
    /// use fold_models::provider::Model;
    /// use fold_models::wire::Wire;
    /// let model = Model { name: "openai/gpt-5.5".into(), context_window: 20_000, max_output: 4_096 };
    /// assert!(model.admit(Wire::Chat, 20_000).is_ok());
    /// assert!(model.admit(Wire::Chat, 20_001).unwrap_err().to_string().contains("maximum context length is 20000 tokens"));
    /// ```
    pub fn admit(&self, wire: Wire, tokens: u64) -> Result<(), Refusal> {
        if tokens > self.context_window { Err(self.overflow(wire, tokens)) } else { Ok(()) }
    }

    /// What it says to a prompt of so many tokens that it does not take.
    pub fn overflow(&self, wire: Wire, tokens: u64) -> Refusal {
        Refusal::Overflow { wire, window: self.context_window, tokens }
    }

    /// Tokens an answer to a prompt of this size may have: the ceiling, or what the window has left.
    pub fn room(&self, prompt: u64) -> u64 {
        self.max_output.min(self.context_window.saturating_sub(prompt))
    }
}

/// What Pi records of a request of `prompt` tokens, of which `read` came from the cache and `written` went into one that charges for it.
///
/// ```
/// let usage = fold_models::provider::usage(1_000, 896, 0, 20);
/// assert_eq!((usage.input, usage.cache_read, usage.total, usage.prompt()), (104, 896, 1_020, 1_000));
/// ```
///
/// # Panics
/// If more was read and written than there was.
pub fn usage(prompt: u64, read: u64, written: u64, output: u64) -> Usage {
    let input = prompt.checked_sub(read + written).expect("a cache reads and writes no more than the prompt");
    Usage { input, output, cache_read: read, cache_write: written, total: prompt + output }
}

/// A usage as JSON, in the fields Pi writes. Its cost object is left out: the ledger prices requests.
pub fn usage_json(usage: &Usage) -> String {
    format!(
        "{{\"input\":{},\"output\":{},\"cacheRead\":{},\"cacheWrite\":{},\"totalTokens\":{}}}",
        usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model { name: "openai/small".into(), context_window: 1_000, max_output: 300 }
    }

    #[test]
    fn a_request_that_fills_the_window_is_taken_and_one_token_more_is_refused_in_the_providers_words() {
        assert_eq!(model().admit(Wire::Chat, 1_000), Ok(()));
        let refused = model().admit(Wire::Chat, 1_001).unwrap_err();
        assert_eq!(refused, Refusal::Overflow { wire: Wire::Chat, window: 1_000, tokens: 1_001 });
        assert!(refused.to_string().contains("your messages resulted in 1001 tokens"));
    }

    #[test]
    fn an_answer_gets_the_ceiling_or_what_is_left() {
        assert_eq!([model().room(100), model().room(900), model().room(2_000)], [300, 100, 0]);
    }

    #[test]
    fn a_reported_usage_reads_back_as_pi_would_read_it() {
        let written = usage(500, 128, 64, 9);
        let line = format!(
            r#"{{"type":"message","id":"a","message":{{"role":"assistant","content":[],"stopReason":"stop","usage":{}}}}}"#,
            usage_json(&written)
        );
        let entry = fold_runtime::journal::Entry::parse(&line).expect("an entry");
        let fold_runtime::journal::Kind::Message(fold_runtime::journal::Role::Assistant(answer)) = entry.kind() else { panic!("an answer") };
        assert_eq!(answer.usage, Some(written));
    }
}
