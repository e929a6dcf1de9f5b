//! Bugs that masking could have.

use super::{Sabotage, Saboteur, without};
use fold_runtime::journal::Entry;
use fold_runtime::mask::{Decision, Masker, Settings, is_placeholder};
use fold_runtime::session::Draft;

impl Saboteur {
    /// What masking is said to have decided.
    pub fn masks(&self, honest: Decision, branch: &[Entry], settings: &Settings, window: u64) -> Decision {
        let otherwise = |branch: &[Entry], settings: &Settings| match Masker::open(branch, settings, window).map(|masker| masker.boundary()) {
            Ok(batch @ Decision::Mask(_)) => Some(batch),
            _ => None,
        };
        let wrong = match (self.what, &honest) {
            (Sabotage::MasksExcluded, _) => otherwise(branch, &Settings { exclude_tools: [].into(), ..settings.clone() }),
            (Sabotage::MasksRecent, _) => otherwise(branch, &Settings { keep_recent_turns: 1, ..settings.clone() }),
            (Sabotage::MasksAgain, _) => otherwise(&without(branch, |entry| entry.replacement().is_some_and(is_placeholder)), settings),
            (Sabotage::MasksEarly, Decision::Quiet) => {
                let early = Settings { trigger_tokens: 1, target_tokens: 0, min_clear_tokens: 0, ..settings.clone() };
                otherwise(branch, &early)
            }
            (Sabotage::MasksUnderWrongCall, Decision::Mask(batch)) => {
                let mut batch = batch.clone();
                for draft in &mut batch.drafts {
                    let Draft::ContextEdit { replacement: Some(content), .. } = draft else { continue };
                    *content = content.replace("call_", "call_0");
                }
                Some(Decision::Mask(batch))
            }
            _ => None,
        };
        wrong.unwrap_or(honest)
    }
}
