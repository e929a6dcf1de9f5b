//! One message before the band is reached, where the settings ask for it.
//!
//! `docs/law.md`, "The notice", says when. The text tells where the window stands and what can be done, and urges nothing.

use super::{Draft, Moment, Session};
use crate::journal::{Entry, Kind, Role};

/// The custom type of a notice.
pub const NOTICE: &str = "pi-fold.notice";

impl Session {
    /// From how many tokens on the notice is given.
    fn line(&self) -> u64 {
        let lead = u128::from(self.settings.notice_lead_share_ppm) * u128::from(self.band.budget) / 1_000_000;
        self.band.max_target.saturating_sub(u64::try_from(lead).unwrap_or(u64::MAX))
    }

    /// An entry came that may be a notice, or begin another approach.
    pub(super) fn approach(&mut self, entry: &Entry) {
        match entry.kind() {
            Kind::CustomMessage if entry.field("customType").is_some_and(|raw| raw.trim_matches('"') == NOTICE) => self.noticed = true,
            Kind::Compaction { .. } => self.noticed = false,
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() && assistant.usage.is_some_and(|usage| usage.total < self.line()) => {
                self.noticed = false;
            }
            _ => {}
        }
    }

    /// The message to append, if it is time for it.
    pub(super) fn notice(&self, moment: Moment) -> Option<Draft> {
        let occupancy = self.occupancy.tokens();
        let near = self.line()..self.band.max_target;
        let asked = self.settings.pre_commit_notice && matches!(moment, Moment::TurnEnd | Moment::Settling);
        (asked && !self.noticed && near.contains(&occupancy)).then(|| {
            let content = serde_json::Value::from(self.words_of_notice(occupancy)).to_string();
            Draft::CustomMessage { custom_type: NOTICE, content }
        })
    }

    fn words_of_notice(&self, occupancy: u64) -> String {
        let (marks, pins) = (self.pending(), self.pins());
        let freed: u64 = marks.iter().filter_map(|mark| mark.freed).sum();
        let left = self.band.max_target - occupancy;
        format!(
            "Written by the context manager. The window holds about {occupancy} tokens; at {} the next commit folds finished work, {left} from here. Marked for it: {} stretches, which \
             would free about {freed} tokens. Pinned or expanded: about {} of at most {} tokens, which stay in the window at every request. With pi_fold_context, status marks lists what is marked, and brief, \
             reboundary, unmark and pin change what becomes of it; nothing needs to be done.",
            self.band.max_target,
            marks.len(),
            pins.tokens,
            pins.cap,
        )
    }
}
