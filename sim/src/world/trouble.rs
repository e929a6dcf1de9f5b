//! A provider that fails, and a host that tries again; a clock that jumps.

use super::{Outcome, START_MS, Taken, World};
use fold_models::agent::{Answer, IdStyle, Stop, Trouble, body};
use fold_models::provider::{Refusal, usage, usage_json};

/// How often Pi asks again by itself.
const RETRIES: u8 = 3;

/// How long it waits before it does so first; each time after that twice as long.
const FIRST_WAIT_MS: u64 = 2_000;

/// How long a provider that turns requests away wants to be left alone.
const RETRY_AFTER_MS: u64 = 20_000;

/// When nobody waits for an answer any more.
const TIMEOUT_MS: u64 = 600_000;

/// Bytes of an answer before its stream was cut off.
const CUT_AFTER: u64 = 300;

impl World<'_> {
    /// Whether the next request is turned away before anybody reads it.
    pub(super) fn turned_away(&self) -> bool {
        matches!(self.trouble, Some((Trouble::RateLimit | Trouble::Overloaded, 1..)))
    }

    /// The request that left fails, if one is to. It stands in the journal as an answer that failed, and the host asks again after a while, or gives up.
    pub(super) fn fails_to_answer(&mut self, taken: Taken) -> Outcome<bool> {
        let Some((trouble, times @ 1..)) = self.trouble else { return Ok(false) };
        self.trouble = Some((trouble, times - 1));
        self.faults.insert(trouble.name());
        self.failed += 1;
        let failed = self.failed;
        let wire = self.voice.wire();
        let refusal = match trouble {
            Trouble::RateLimit => Refusal::RateLimited { wire, retry_after_ms: RETRY_AFTER_MS },
            Trouble::Overloaded => Refusal::Overloaded { wire },
            Trouble::TooLarge => Refusal::TooLarge { wire },
            Trouble::Timeout => Refusal::Timeout,
            Trouble::CutStream => Refusal::Cut { wire },
        };
        let came = if trouble == Trouble::CutStream { CUT_AFTER } else { 0 };
        if came > 0 {
            self.admits(taken);
            let output = came * 1_000 / self.density();
            if let Some(meters) = &mut self.meters {
                meters.answered(taken.prompt, output);
            }
            self.bill(taken.used(output));
        }
        self.fails_with(&refusal.to_string(), came);
        self.note = format!("{}{refusal}; ", self.note);
        let waits = (FIRST_WAIT_MS << (failed - 1).min(RETRIES)).max(refusal.retry_after_ms().unwrap_or(0));
        let waits = if trouble == Trouble::Timeout { waits + TIMEOUT_MS } else { waits };
        self.failed = if failed > RETRIES { 0 } else { failed };
        self.retry_after = (failed <= RETRIES).then_some(waits);
        self.turn_end()?;
        Ok(true)
    }

    /// An answer that failed, with what came of it.
    pub(super) fn fails_with(&mut self, words: &str, text_bytes: u64) {
        let salt = self.answers;
        let failed = Answer { salt, thinking_bytes: 0, text_bytes, stop: Stop::Error, ids: IdStyle::Fresh, calls: Vec::new(), aside: None };
        let mut buffer = String::new();
        body::assistant(&failed, &[], self.voice, &usage_json(&usage(0, 0, 0, 0)), self.now, &mut buffer);
        self.message(&buffer.replace("529 overloaded_error: Overloaded", words));
    }

    /// The host's clock jumps; the provider's does not.
    pub(super) fn jumps(&mut self, ms: i64) {
        // No file has a time before its epoch.
        let least = i64::try_from(START_MS / 2).unwrap_or(i64::MAX);
        self.skew = self.skew.saturating_add(ms).clamp(-least, least);
        self.host.set_now(self.now.saturating_add_signed(self.skew));
    }
}
