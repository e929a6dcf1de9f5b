//! What is special about a plan, in words.
//!
//! A feature that no plan shows is a feature that no check has seen; whoever draws plans counts these.

use crate::agent::plan::{Answer, Aside, Call, Density, IdStyle, Op, Outcome, Plan, Reply, Stop, Tool, Verb};
use crate::agent::text::Shape;
use crate::store::Fault;
use std::collections::BTreeSet;

/// A name, and whether it fits.
type Fact<T> = (&'static str, fn(&T) -> bool);

const OF_PLAN: [Fact<Plan>; 11] = [
    ("no usage from the start", |plan| !plan.world.reports_usage),
    ("drifting density", |plan| matches!(plan.world.density, Density::Drifting(_))),
    ("no tools at all", |plan| plan.turns() > 1 && !plan.answers().any(|answer| !answer.calls.is_empty())),
    ("one endless turn", |plan| plan.turns() == 1 && plan.requests() >= 50),
    ("thresholds set", |plan| plan.settings.get("thresholds").is_some()),
    ("budget declared", |plan| plan.settings.get("providerInputBudget").is_some()),
    ("tools blacklisted", |plan| plan.settings.get("blacklistAutoFoldTools").is_some()),
    ("clipping set", |plan| plan.settings.get("toolFoldThreshold").is_some()),
    ("notice set", |plan| plan.settings.get("preCommitNotice").is_some()),
    ("palette set", |plan| plan.settings.get("palette").is_some()),
    ("large window", |plan| plan.window >= 100_000),
];

const OF_OP: [Fact<Op>; 29] = [
    ("heavy user message", |op| matches!(op, Op::User { text, .. } if text.bytes >= 2_000)),
    ("giant paste", |op| matches!(op, Op::User { text, .. } if text.bytes >= 20_000)),
    ("nasty user text", |op| matches!(op, Op::User { text, .. } if text.shape == Shape::Nasty)),
    ("pasted image", |op| matches!(op, Op::User { images: 1.., .. })),
    ("excluded command", |op| matches!(op, Op::Bash { excluded: true, .. })),
    ("shown command", |op| matches!(op, Op::Bash { excluded: false, .. })),
    ("foreign omission", |op| matches!(op, Op::ForeignEdit { omit: true, .. })),
    ("foreign replacement", |op| matches!(op, Op::ForeignEdit { omit: false, .. })),
    ("smaller window", |op| matches!(op, Op::ModelSwitch { window_ppm: ..1_000_000, .. })),
    ("larger window", |op| matches!(op, Op::ModelSwitch { window_ppm: 1_000_001.., .. })),
    ("idle for more than five minutes", |op| matches!(op, Op::Idle { ms: 300_001.. })),
    ("peek", |op| matches!(op, Op::Act { verb: Verb::Peek, .. })),
    ("pin", |op| matches!(op, Op::Act { verb: Verb::Pin, .. })),
    ("unpin", |op| matches!(op, Op::Act { verb: Verb::Unpin, .. })),
    ("brief", |op| matches!(op, Op::Act { verb: Verb::Brief, .. })),
    ("reboundary", |op| matches!(op, Op::Act { verb: Verb::Reboundary, .. })),
    ("expand", |op| matches!(op, Op::Act { verb: Verb::Expand, .. })),
    ("refold", |op| matches!(op, Op::Act { verb: Verb::Refold, .. })),
    ("cut a fold anew", |op| matches!(op, Op::Act { verb: Verb::Recut, .. })),
    ("unmark", |op| matches!(op, Op::Act { verb: Verb::Unmark, .. })),
    ("no space left", |op| matches!(op, Op::Disk { fault: Some(Fault::NoSpace) })),
    ("write errors", |op| matches!(op, Op::Disk { fault: Some(Fault::WriteError) })),
    ("read errors", |op| matches!(op, Op::Disk { fault: Some(Fault::ReadError) })),
    ("short writes", |op| matches!(op, Op::Disk { fault: Some(Fault::ShortWrite) })),
    ("torn writes", |op| matches!(op, Op::Disk { fault: Some(Fault::TornWrite) })),
    ("lost syncs", |op| matches!(op, Op::Disk { fault: Some(Fault::LostSync) })),
    ("one refusal", |op| matches!(op, Op::Refuse { times: ..=1 })),
    ("refusals in a row", |op| matches!(op, Op::Refuse { times: 2.. })),
    ("disk sound again", |op| matches!(op, Op::Disk { fault: None })),
];

const OF_ANSWER: [Fact<Answer>; 11] = [
    ("length stop", |answer| answer.stop == Stop::Length),
    ("failed answer", |answer| answer.stop == Stop::Error),
    ("aborted answer", |answer| answer.stop == Stop::Aborted),
    ("empty answer", |answer| answer.text_bytes + answer.thinking_bytes == 0 && answer.calls.is_empty()),
    ("thinking", |answer| answer.thinking_bytes > 0),
    ("reused ids", |answer| answer.ids == IdStyle::Reused && !answer.calls.is_empty()),
    ("clashing ids", |answer| answer.ids == IdStyle::Clashing && answer.calls.len() > 1),
    ("parallel calls", |answer| answer.calls.len() > 1),
    ("twenty calls", |answer| answer.calls.len() >= 20),
    ("command between call and result", |answer| matches!(answer.aside, Some(Aside::Bash(_)))),
    ("state between call and result", |answer| matches!(answer.aside, Some(Aside::Custom(_)))),
];

const OF_CALL: [Fact<Call>; 12] = [
    ("missing result", |call| call.reply == Reply::Missing),
    ("doubled result", |call| matches!(call.reply, Reply::Twice(_))),
    ("foreign result", |call| matches!(call.reply, Reply::Foreign(_))),
    ("large arguments", |call| call.argument_bytes >= 4_000),
    ("the policy's own tool", |call| call.tool == Tool::FoldContext),
    ("failed tool", |call| says(call, |outcome| outcome.error)),
    ("image in a result", |call| says(call, |outcome| outcome.images > 0)),
    ("two text blocks", |call| says(call, |outcome| outcome.split)),
    ("empty result", |call| says(call, |outcome| outcome.text.bytes == 0)),
    ("nasty result", |call| says(call, |outcome| outcome.text.shape == Shape::Nasty)),
    ("large result", |call| says(call, |outcome| outcome.text.bytes >= 30_000)),
    ("result of half a megabyte", |call| says(call, |outcome| outcome.text.bytes >= 500_000)),
];

fn says(call: &Call, test: fn(&Outcome) -> bool) -> bool {
    call.reply.outcome().is_some_and(test)
}

fn names<T>(facts: &[Fact<T>]) -> impl Iterator<Item = &'static str> {
    facts.iter().map(|(name, _)| *name)
}

fn fitting<'a, T>(facts: &'a [Fact<T>], thing: &'a T) -> impl Iterator<Item = &'static str> + 'a {
    facts.iter().filter(|(_, fits)| fits(thing)).map(|(name, _)| *name)
}

impl Plan {
    /// What occurs in it: kinds of ops and what is special about them.
    ///
    /// ```
    /// use fold_models::agent::{Profile, draw};
    /// assert!(draw(Profile::Steady, 1).features().contains("one endless turn"));
    /// ```
    pub fn features(&self) -> BTreeSet<&'static str> {
        let mut seen: BTreeSet<_> = fitting(&OF_PLAN, self).collect();
        for op in &self.ops {
            seen.insert(op.name());
            seen.extend(fitting(&OF_OP, op));
        }
        for answer in self.answers() {
            seen.extend(fitting(&OF_ANSWER, answer));
            answer.calls.iter().for_each(|call| seen.extend(fitting(&OF_CALL, call)));
        }
        seen
    }

    /// Everything that [`Plan::features`] can name.
    pub fn all_features() -> BTreeSet<&'static str> {
        Op::NAMES.into_iter().chain(names(&OF_PLAN)).chain(names(&OF_OP)).chain(names(&OF_ANSWER)).chain(names(&OF_CALL)).collect()
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.ops.iter().filter_map(|op| if let Op::Answer(answer) = op { Some(answer) } else { None })
    }

    fn turns(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::User { .. })).count()
    }
}
