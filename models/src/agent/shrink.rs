//! A failing plan to a small one.
//!
//! First ops go, in chunks from half the plan down to single ones, because nothing makes a plan as readable as being short; then what is
//! left is made plain: sizes, calls, errors, images; then the world and the options go back to their defaults. The
//! caller says what counts as still failing, and is expected to ask for the same kind of failure, not for any.

use crate::agent::plan::{Answer, Call, Density, IdStyle, Op, Outcome, Plan, Reply, Stop, Text};
use crate::agent::text::Shape;
use serde_json::{Value, json};

/// One way to make a plan smaller, as a place in the order of all ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Without `length` ops from `at` on.
    Cut { length: usize, at: usize },
    /// The `nth` plainer form of the whole frame: options and world.
    Frame { nth: usize },
    /// The `nth` plainer form of the op at `at`.
    Plain { at: usize, nth: usize },
}

/// The smallest plan that greedy steps reach while `fails` holds; asks at most `most_tries` times.
///
/// What is returned fails, provided that `plan` does.
pub fn shrink(plan: Plan, most_tries: usize, fails: &mut dyn FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan;
    let mut tries = 0;
    loop {
        let mut step = first(&best);
        let mut progress = false;
        while let Some(here) = step {
            let candidate = apply(&best, here);
            let there = candidate.is_some();
            if let Some(candidate) = candidate {
                if tries == most_tries {
                    return best;
                }
                tries += 1;
                if fails(&candidate) {
                    best = candidate;
                    progress = true;
                    // The same step again: what followed has moved here, or the value can go further down.
                    continue;
                }
            }
            step = after(&best, here, there);
        }
        if !progress {
            return best;
        }
    }
}

fn first(plan: &Plan) -> Option<Step> {
    Some(match plan.ops.len() {
        0 => Step::Frame { nth: 0 },
        ops => Step::Cut { length: ops.div_ceil(2), at: 0 },
    })
}

/// The step after `step`; `there` says whether `step` named anything.
fn after(plan: &Plan, step: Step, there: bool) -> Option<Step> {
    match step {
        Step::Cut { length, at } if there => Some(Step::Cut { length, at: at + length }),
        Step::Cut { length, .. } if length > 1 => Some(Step::Cut { length: length / 2, at: 0 }),
        Step::Cut { .. } => Some(Step::Frame { nth: 0 }),
        Step::Frame { nth } if there => Some(Step::Frame { nth: nth + 1 }),
        Step::Frame { .. } => Some(Step::Plain { at: 0, nth: 0 }),
        Step::Plain { at, nth } if there => Some(Step::Plain { at, nth: nth + 1 }),
        Step::Plain { at, .. } if at + 1 < plan.ops.len() => Some(Step::Plain { at: at + 1, nth: 0 }),
        Step::Plain { .. } => None,
    }
}

/// The plan that a step leads to, if the step names anything.
fn apply(plan: &Plan, step: Step) -> Option<Plan> {
    match step {
        Step::Cut { length, at } => (at < plan.ops.len()).then(|| {
            let end = plan.ops.len().min(at + length);
            let ops = plan.ops[..at].iter().chain(&plan.ops[end..]).cloned().collect();
            Plan { ops, ..without_ops(plan) }
        }),
        Step::Frame { nth } => plainer_frames(plan).into_iter().nth(nth),
        Step::Plain { at, nth } => {
            let op = plainer_ops(plan.ops.get(at)?).into_iter().nth(nth)?;
            let mut plan = plan.clone();
            plan.ops[at] = op;
            Some(plan)
        }
    }
}

fn without_ops(plan: &Plan) -> Plan {
    Plan { ops: Vec::new(), settings: plan.settings.clone(), ..*plan }
}

/// Options and world at their defaults, all at once and one by one; and all ops plainer at once, which saves asking for each.
fn plainer_frames(plan: &Plan) -> Vec<Plan> {
    let frame = |change: &dyn Fn(&mut Plan)| {
        let mut plainer = plan.clone();
        change(&mut plainer);
        plainer
    };
    let plainest = |plan: &mut Plan| {
        plan.world.density = Density::Constant(4_000);
        plan.world.overhead_tokens = 0;
        plan.world.reports_usage = true;
    };
    let mut plainer = vec![
        frame(&|plan| {
            plainest(plan);
            plan.settings = json!({});
        }),
        frame(&plainest),
        frame(&|plan| plan.world.density = Density::Constant(4_000)),
        frame(&|plan| plan.world.overhead_tokens = 0),
        frame(&|plan| plan.world.overhead_tokens /= 2),
        frame(&|plan| plan.world.reports_usage = true),
        frame(&|plan| plan.ops.iter_mut().for_each(|op| *op = plainer_ops(op).into_iter().next().unwrap_or_else(|| op.clone()))),
    ];
    plainer.extend(plainer_settings(&plan.settings).into_iter().map(|settings| frame(&|plan| plan.settings = settings.clone())));
    plainer.retain(|plainer| plainer != plan);
    plainer
}

/// Options at their defaults, one by one.
fn plainer_settings(settings: &Value) -> Vec<Value> {
    let Some(options) = settings.as_object() else { return Vec::new() };
    let without = |name: &String| {
        let mut options = options.clone();
        options.remove(name);
        Value::Object(options)
    };
    options.keys().map(without).collect()
}

/// The forms of an op that are plainer than it, the plainest first.
fn plainer_ops(op: &Op) -> Vec<Op> {
    let texts = |text: &Text, with: &dyn Fn(Text) -> Op| plainer_texts(*text).into_iter().map(with).collect::<Vec<_>>();
    match op {
        Op::User { text, images } => {
            let mut plainer = if *images > 0 { vec![Op::User { text: *text, images: 0 }] } else { Vec::new() };
            plainer.extend(texts(text, &|text| Op::User { text, images: *images }));
            plainer
        }
        Op::Answer(answer) => plainer_answers(answer).into_iter().map(Op::Answer).collect(),
        Op::Bash { text, excluded } => texts(text, &|text| Op::Bash { text, excluded: *excluded }),
        Op::Custom { text } => texts(text, &|text| Op::Custom { text }),
        Op::CustomMessage { text } => texts(text, &|text| Op::CustomMessage { text }),
        Op::BranchSummary { text } => texts(text, &|text| Op::BranchSummary { text }),
        Op::Compact { text } => texts(text, &|text| Op::Compact { text }),
        Op::System { text } => texts(text, &|text| Op::System { text }),
        Op::ForeignEdit { back, omit, text } => {
            let mut plainer: Vec<_> = smaller(u64::from(*back)).map(|back| Op::ForeignEdit { back: short(back), omit: *omit, text: *text }).collect();
            plainer.extend(texts(text, &|text| Op::ForeignEdit { back: *back, omit: *omit, text }));
            plainer
        }
        Op::Idle { ms } => smaller(*ms).map(|ms| Op::Idle { ms }).collect(),
        Op::Fork { back } => smaller(u64::from(*back)).map(|back| Op::Fork { back: short(back) }).collect(),
        Op::Tree { back } => smaller(u64::from(*back)).map(|back| Op::Tree { back: short(back) }).collect(),
        Op::ModelSwitch { window_ppm, model } if *window_ppm != 1_000_000 => vec![Op::ModelSwitch { window_ppm: 1_000_000, model: *model }],
        Op::Act { verb, nth, text } => {
            let mut plainer: Vec<_> = smaller(u64::from(*nth)).map(|nth| Op::Act { verb: *verb, nth: short(nth), text: *text }).collect();
            plainer.extend(texts(text, &|text| Op::Act { verb: *verb, nth: *nth, text }));
            plainer
        }
        Op::Crash { after } => smaller(u64::from(*after)).map(|after| Op::Crash { after: short(after) }).collect(),
        Op::Disk { fault: Some(_) } => vec![Op::Disk { fault: None }],
        Op::Configure { settings } => plainer_settings(settings).into_iter().map(|settings| Op::Configure { settings }).collect(),
        Op::Refuse { times: 2.. } => vec![Op::Refuse { times: 1 }],
        Op::Trouble { trouble, times: 2.. } => vec![Op::Trouble { trouble: *trouble, times: 1 }],
        Op::Jump { ms } => smaller(ms.unsigned_abs()).map(|ms| Op::Jump { ms: i64::try_from(ms).unwrap_or(i64::MAX) }).collect(),
        Op::Question { nth } if nth.len() > 1 => nth.iter().map(|one| Op::Question { nth: vec![*one] }).collect(),
        Op::Rot { nth } => smaller(u64::from(*nth)).map(|nth| Op::Rot { nth: short(nth) }).collect(),
        Op::Disk { fault: None }
        | Op::ModelSwitch { .. }
        | Op::Resume
        | Op::SetUsage { .. }
        | Op::DropDrafts
        | Op::Ask
        | Op::Fail
        | Op::Trouble { .. }
        | Op::Question { .. }
        | Op::Refuse { .. } => Vec::new(),
    }
}

fn plainer_answers(answer: &Answer) -> Vec<Answer> {
    let mut plainer = Vec::new();
    let mut add = |change: &dyn Fn(&mut Answer)| {
        let mut other = answer.clone();
        change(&mut other);
        if other != *answer {
            plainer.push(other);
        }
    };
    let natural = if answer.calls.is_empty() { Stop::Stop } else { Stop::ToolUse };
    // Everything odd at once, then one by one.
    add(&|answer| {
        *answer = Answer { stop: natural, ids: IdStyle::Fresh, aside: None, thinking_bytes: 0, ..answer.clone() };
        answer.calls.iter_mut().for_each(|call| call.reply = regular(call));
    });
    add(&|answer| answer.calls.truncate(1));
    for at in 0..answer.calls.len() {
        add(&|answer| {
            answer.calls.remove(at);
        });
    }
    add(&|answer| answer.stop = natural);
    add(&|answer| answer.ids = IdStyle::Fresh);
    add(&|answer| answer.aside = None);
    smaller(answer.thinking_bytes).for_each(|bytes| add(&|answer| answer.thinking_bytes = bytes));
    // An answer without text or calls is no good answer, which is anything but plain.
    smaller(answer.text_bytes).filter(|bytes| *bytes > 0).for_each(|bytes| add(&|answer| answer.text_bytes = bytes));
    for (at, call) in answer.calls.iter().enumerate() {
        plainer_calls(call).into_iter().for_each(|call| add(&|answer| answer.calls[at] = call.clone()));
    }
    plainer
}

/// One result, and nothing special about it but its text.
fn regular(call: &Call) -> Reply {
    let missing = Outcome { text: Text { salt: call.salt, bytes: 0, shape: Shape::Prose }, split: false, error: false, images: 0 };
    let outcome = call.reply.outcome().copied().unwrap_or(missing);
    Reply::Given(Outcome { split: false, error: false, images: 0, ..outcome })
}

fn plainer_calls(call: &Call) -> Vec<Call> {
    let mut plainer = Vec::new();
    let mut add = |other: Call| {
        if other != *call {
            plainer.push(other);
        }
    };
    add(Call { reply: regular(call), ..call.clone() });
    smaller(call.argument_bytes).for_each(|argument_bytes| add(Call { argument_bytes, ..call.clone() }));
    let Some(outcome) = call.reply.outcome().copied() else { return plainer };
    let mut with = |outcome: Outcome| {
        let reply = match call.reply {
            Reply::Twice(_) => Reply::Twice(outcome),
            Reply::Foreign(_) => Reply::Foreign(outcome),
            Reply::Given(_) | Reply::Missing => Reply::Given(outcome),
        };
        add(Call { reply, ..call.clone() });
    };
    with(Outcome { images: 0, ..outcome });
    with(Outcome { error: false, ..outcome });
    with(Outcome { split: false, ..outcome });
    plainer_texts(outcome.text).into_iter().for_each(|text| with(Outcome { text, ..outcome }));
    plainer
}

fn plainer_texts(text: Text) -> Vec<Text> {
    let mut plainer: Vec<_> = smaller(text.bytes).map(|bytes| Text { bytes, ..text }).collect();
    if text.shape != Shape::Prose {
        plainer.push(Text { shape: Shape::Prose, ..text });
    }
    plainer
}

/// Nothing, a half, and a little less.
fn smaller(number: u64) -> impl Iterator<Item = u64> {
    let mut sizes = vec![0, number / 2, number - number.div_ceil(8)];
    sizes.dedup();
    sizes.into_iter().filter(move |size| *size < number)
}

fn short(back: u64) -> u32 {
    u32::try_from(back).expect("smaller than what it was")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::plan::{Profile, Tool};

    fn plan() -> Plan {
        let with = |plan: &Plan| ["fork", "compact", "system", "image in a result"].iter().all(|name| plan.features().contains(name));
        (0..).map(|seed| crate::agent::draw(Profile::Swarm, seed)).find(with).expect("there is always one more seed")
    }

    fn tries(start: Plan, mut fails: impl FnMut(&Plan) -> bool) -> (Plan, usize) {
        let mut asked = 0;
        assert!(fails(&start));
        let small = shrink(start, 10_000, &mut |plan| {
            asked += 1;
            fails(plan)
        });
        assert!(fails(&small));
        (small, asked)
    }

    /// All plans that are one step smaller, in the order in which they are tried.
    fn candidates(plan: &Plan) -> impl Iterator<Item = Plan> + '_ {
        let mut step = first(plan);
        std::iter::from_fn(move || {
            loop {
                let here = step?;
                let candidate = apply(plan, here);
                step = after(plan, here, candidate.is_some());
                if candidate.is_some() {
                    return candidate;
                }
            }
        })
    }

    #[test]
    fn a_fork_after_a_compaction_is_all_that_is_left_of_a_session() {
        let mut start = plan();
        start.ops.push(Op::Compact { text: Text { salt: 1, bytes: 900, shape: Shape::Nasty } });
        start.ops.push(Op::Custom { text: Text { salt: 2, bytes: 100, shape: Shape::Json } });
        start.ops.push(Op::Fork { back: 40 });
        let (small, asked) = tries(start, |plan| {
            let compacted = plan.ops.iter().position(|op| matches!(op, Op::Compact { .. }));
            compacted.is_some_and(|at| plan.ops[at..].iter().any(|op| matches!(op, Op::Fork { .. })))
        });
        let kinds: Vec<_> = small.ops.iter().map(Op::name).collect();
        assert_eq!(kinds, ["compact", "fork"]);
        assert_eq!((small.text_bytes(), &small.settings), (0, &json!({})));
        assert_eq!(small.ops[1], Op::Fork { back: 0 });
        assert!(asked < 200, "{asked} tries");
    }

    #[test]
    fn a_failing_call_is_found_among_many_and_stays_as_large_as_it_must() {
        let large =
            |call: &Call| call.tool == Tool::Bash && call.reply.outcome().is_some_and(|outcome| outcome.images > 0 && outcome.text.bytes >= 700);
        let mut start = plan();
        let Some(Op::Answer(answer)) = start.ops.iter_mut().rfind(|op| matches!(op, Op::Answer(answer) if !answer.calls.is_empty())) else {
            panic!()
        };
        let text = Text { salt: 3, bytes: 90_000, shape: Shape::Nasty };
        let outcome = Outcome { text, split: true, error: true, images: 3 };
        answer.calls.push(Call { salt: 4, tool: Tool::Bash, argument_bytes: 5_000, reply: Reply::Twice(outcome) });
        let fails = |plan: &Plan| plan.ops.iter().any(|op| matches!(op, Op::Answer(answer) if answer.calls.iter().any(large)));
        let (small, asked) = tries(start, fails);
        let [Op::Answer(answer)] = &small.ops[..] else { panic!("{:?}", small.ops) };
        let [call] = &answer.calls[..] else { panic!("{:?}", answer.calls) };
        let outcome = call.reply.outcome().expect("a result");
        assert!((700..800).contains(&outcome.text.bytes), "{}", outcome.text.bytes);
        assert_eq!((outcome.split, outcome.error, outcome.text.shape, call.argument_bytes), (false, false, Shape::Prose, 0));
        assert!(asked < 400, "{asked} tries");
    }

    #[test]
    fn what_is_taken_away_changes_nothing_that_stays() {
        let plan = plan();
        let cut = candidates(&plan).filter(|candidate| candidate.ops.len() < plan.ops.len());
        for candidate in cut.take(200) {
            let mut rest = plan.ops.iter();
            assert!(candidate.ops.iter().all(|op| rest.any(|other| other == op)), "a candidate's ops are a subsequence");
        }
    }

    #[test]
    fn every_candidate_differs_and_the_smallest_plan_has_none() {
        let plan = plan();
        assert!(candidates(&plan).all(|candidate| candidate != plan));
        assert!(candidates(&plan).count() > plan.ops.len());
        let (nothing, _) = tries(plan, |_| true);
        assert!(nothing.ops.is_empty());
        assert_eq!(candidates(&nothing).count(), 0);
    }

    #[test]
    fn shrinking_stops_when_it_has_asked_enough() {
        let mut asked = 0;
        shrink(plan(), 17, &mut |_| {
            asked += 1;
            false
        });
        assert_eq!(asked, 17);
    }
}
