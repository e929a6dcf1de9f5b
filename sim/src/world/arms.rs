//! What tells the arms apart beside who manages the window: the band and the notice of pi-fold's first generation, a commit for every mark, an
//! agent that writes briefs, a long-term store.

use super::{Outcome, World};
use fold_invariants::owed::Arm;
use fold_models::agent::text::Shape;
use fold_models::agent::{Text, Verb};
use fold_models::price::Used;
use fold_runtime::config::Settings;
use fold_runtime::session::Moment;
use serde_json::{Value, json};

/// One answer in so many is followed by a note to the long-term store.
const NOTES_EVERY: u64 = 16;

/// Bytes of a note.
const NOTE: u64 = 400;

/// A plan's settings as an arm has them. The first generation's band was 0.80 to 0.35, and it told the model of its occupancy; its fresh tail of 0.02 has no
/// setting here, where the newest batch is held by the law.
pub(super) fn settings(arm: Arm, value: &Value) -> Result<Settings, String> {
    let mut value = value.clone();
    if let Some(all) = value.as_object_mut().filter(|_| arm == Arm::FoldOnce) {
        let thresholds = all.entry("thresholds").or_insert_with(|| json!({ "consolidateAfter": 10, "minFoldChars": 8_000 }));
        thresholds["maxTarget"] = json!(0.8);
        thresholds["minTarget"] = json!(0.35);
        all.insert("preCommitNotice".to_owned(), json!(true));
    }
    Settings::parse(&value.to_string()).map_err(|refused| refused.join("; "))
}

impl World<'_> {
    /// What the agent, or a person, does in this arm at a turn's end.
    pub(super) fn tends_as_the_arm_does(&mut self) -> Outcome {
        if self.aborted || self.suspended {
            return Ok(());
        }
        if self.arm.writes_briefs() {
            self.briefs_a_mark()?;
        }
        if self.arm == Arm::FoldImmediate && self.session.as_ref().is_some_and(|session| session.marks() > 0) {
            self.boundary(Moment::Asked)?;
        }
        Ok(())
    }

    /// The agent says in its own words what the next mark without a brief holds. Its words are billed; every second time they are hardly any, and what they leave
    /// out is lost to whoever reads nothing else.
    fn briefs_a_mark(&mut self) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let Some(nth) = session.pending().iter().position(|mark| !mark.briefed && mark.freed.is_some()) else { return Ok(()) };
        let bytes = if self.answers.is_multiple_of(2) { 40 } else { 300 };
        let text = Text { salt: self.plan.seed ^ self.answers, bytes, shape: Shape::Prose };
        self.bill_words(bytes);
        self.acts(Verb::Brief, u32::try_from(nth).unwrap_or(u32::MAX), text)
    }

    /// What a model writes beside its answers is output.
    fn bill_words(&mut self, bytes: u64) {
        let used = Used { output: bytes * 1_000 / self.density(), ..Used::default() };
        if let Some(meters) = &mut self.meters {
            meters.wrote(used.output);
        }
        self.bill(used);
        self.report.totals.requests -= 1;
    }

    /// Where there is a long-term store, the agent writes into it now and then: a call and its result, like any other.
    pub(super) fn keeps_notes(&mut self) -> Outcome {
        if !self.arm.has_store() || !(self.answers + 1).is_multiple_of(NOTES_EVERY) {
            return Ok(());
        }
        let Some(taken) = self.request()? else { return Ok(()) };
        let mut note = String::from("{\"text\":");
        fold_models::agent::text::json_string(self.plan.seed ^ self.answers, NOTE, Shape::Prose, &mut note);
        note.push('}');
        self.counts("notes", "tokens of notes", NOTE);
        self.exchange(taken, ("memory_write", &note), ("kept", false))
    }

    /// One more of something that was done, and its size in bytes.
    pub(super) fn counts(&mut self, what: &'static str, size: &'static str, bytes: u64) {
        *self.report.upkeep.entry(what).or_insert(0) += 1;
        *self.report.upkeep.entry(size).or_insert(0) += bytes * 1_000 / self.density();
    }
}
