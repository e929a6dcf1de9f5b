//! The profile that looks for faults.
//!
//! Features hide each other's faults: a session in which everything happens rarely gets deep into anything. So in two runs of three
//! each feature is off with probability one half, and the remaining third has all of them at their usual rates.
//!
//! Most budgets are small, because a session is cheap then and the fold law is the same at 10,000 tokens as at 272,000: it is
//! the number of commits, not of bytes, that finds things. Volume is drawn in multiples of the budget, so that sessions with
//! no commit, with one and with a dozen are all common.

use crate::agent::plan::{
    Answer, Aside, Call, Density, Geometry, IdStyle, Model, Op, Outcome, Plan, Profile, Reply, SCHEMA, Stop, Text, Tool, Verb, World,
};
use crate::agent::stream::Stream;
use crate::agent::text::Shape;
use crate::store::Fault;
use serde_json::{Map, Value, json};

macro_rules! features {
    ($($name:ident)+) => {
        /// What can be switched off. Each has a random stream of its own, so that one feature's draws shift no other's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Feature { $($name),+ }

        /// In the order of their declaration, which is how they are found.
        const FEATURES: &[Feature] = &[$(Feature::$name),+];
    };
}

features! {
    // of results and calls
    Parallel EmptyResults GiantResults SplitResults ToolErrors ResultImages Missing Doubled Foreign Reused Clashing Arguments OwnTool
    // of answers
    Thinking Failures Aborts Lengths EmptyAnswers Asides
    // of people
    HeavyUsers Paste UserImages NastyText ChatOnly OneTurn
    // between requests
    Idle Resume Fork Tree ModelSwitch Bash Custom CustomMessage BranchSummary Compact System ForeignEdit NoUsage
    // of the frame
    Drift Thresholds Declared Clipping Blacklist Notice Palette
    // of what goes wrong in the middle, and of a person who asks
    Crash DropDrafts Ask
    // of an agent that tends its window
    Peeks Pins Marks Expands
    // of the disk that keeps second copies, of the policy itself, and of the provider
    Disk Fail Refuse
    // of a person who changes the settings
    Configure
}

use Feature as F;

struct Dice {
    features: Vec<(bool, Stream)>,
}

impl Dice {
    fn new(seed: u64) -> Self {
        let mut choice = Stream::named(seed, "swarm features");
        let some_off = choice.chance(2, 3);
        let die = |feature: &Feature| (!(some_off && choice.chance(1, 2)), Stream::named(seed, &format!("swarm {feature:?}")));
        Dice { features: FEATURES.iter().map(die).collect() }
    }

    fn of(&mut self, feature: Feature) -> &mut Stream {
        &mut self.features[feature as usize].1
    }

    /// Whether it happens this time: never if it is off. The die is cast all the same.
    fn happens(&mut self, feature: Feature, part: u64, whole: u64) -> bool {
        let (on, stream) = &mut self.features[feature as usize];
        stream.chance(part, whole) && *on
    }
}

/// What frames a session: the policy's options, the model, the world.
struct Frame {
    budget: u64,
    window: u64,
    settings: Value,
    world: World,
}

/// The smallest budget the runtime manages, and the largest that is common.
const BUDGETS: (u64, u64) = (10_000, 272_000);

impl Frame {
    fn draw(seed: u64, dice: &mut Dice) -> Self {
        let mut stream = Stream::named(seed, "swarm frame");
        let small = stream.chance(7, 8);
        let budget = if small { stream.size(BUDGETS.0, 40_000) } else { stream.size(40_000, BUDGETS.1) };
        let declared = dice.happens(F::Declared, 1, 3);
        let window = if declared { budget + dice.of(F::Declared).between(0, 2 * budget) } else { budget };
        let drifting = dice.happens(F::Drift, 2, 3);
        let world = World {
            density: if drifting { Density::Drifting(dice.of(F::Drift).salt()) } else { Density::Constant(stream.between(2_500, 6_000)) },
            overhead_tokens: stream.size(100, budget / 8),
            reports_usage: !dice.happens(F::NoUsage, 1, 5),
            cache_ttl_ms: *stream.pick(&[300_000, 600_000, 3_600_000]),
            model: *stream.pick(&Model::ALL),
            cache: Geometry::Steps,
            router: None,
        };
        Frame { budget, window, settings: Self::settings(budget, declared, dice), world }
    }

    fn settings(budget: u64, declared: bool, dice: &mut Dice) -> Value {
        let mut settings = Map::new();
        if declared {
            settings.insert("providerInputBudget".into(), json!(budget));
        }
        if dice.happens(F::Thresholds, 3, 4) {
            let stream = dice.of(F::Thresholds);
            let max = stream.between(50, 92);
            let min = stream.between(5, max - 20);
            // Small parents and small folds are what makes a short session consolidate.
            let parents = stream.weighted(&[(3, (2, 3)), (3, (4, 6)), (1, (7, 12))]);
            let fold = stream.weighted(&[(3, (500, 2_000)), (2, (2_000, 8_000)), (1, (8_000, 20_000))]);
            settings.insert(
                "thresholds".into(),
                json!({
                    "maxTarget": percent(max), "minTarget": percent(min),
                    "consolidateAfter": stream.between(parents.0, parents.1), "minFoldChars": stream.size(fold.0, fold.1),
                }),
            );
        }
        if dice.happens(F::Clipping, 1, 2) {
            let share = dice.of(F::Clipping).weighted(&[(2, 0), (1, 10), (2, 30), (2, 60), (1, 90)]);
            settings.insert("toolFoldThreshold".into(), percent(share));
        }
        if dice.happens(F::Blacklist, 1, 5) {
            let tool = dice.of(F::Blacklist).pick(&[Tool::Read, Tool::Grep, Tool::Edit, Tool::Bash]).name();
            settings.insert("blacklistAutoFoldTools".into(), json!([tool, "no_such_tool"]));
        }
        if dice.happens(F::Notice, 1, 6) {
            settings.insert("preCommitNotice".into(), json!(true));
            settings.insert("noticeLeadShare".into(), percent(dice.of(F::Notice).between(1, 30)));
        }
        if dice.happens(F::Palette, 1, 10) {
            settings.insert("palette".into(), json!({"map": "viridis", "start": 1, "end": 0}));
        }
        Value::Object(settings)
    }
}

/// A share as a settings file writes it.
fn percent(share: u64) -> Value {
    serde_json::from_str(&format!("0.{share:02}")).expect("a number")
}

/// Draws a session; see the head of this file.
pub(crate) fn draw(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let frame = Frame::draw(seed, &mut dice);
    let mut stream = Stream::named(seed, "swarm session");
    let talk = match (dice.happens(F::ChatOnly, 1, 8), dice.happens(F::OneTurn, 1, 3)) {
        (true, _) => Talk::Chat,
        (_, true) => Talk::OneTurn,
        _ => Talk::Turns,
    };
    // A budget is about four bytes a token: 1 to 20 quarters of it.
    let volume = (frame.budget * stream.between(1, 20)).min(LARGEST_VOLUME);
    // No usual batch may fill the window alone, or the session would end there.
    let requests = stream.size(5, 250).max(6 * volume / (4 * frame.budget));
    let heavy_users = dice.happens(F::HeavyUsers, 1, 4);
    let thinking = dice.happens(F::Thinking, 1, 2);
    let mut session =
        Session { dice, stream, talk, heavy_users, thinking, window: frame.window, budget: frame.budget, step: volume / requests, ops: Vec::new() };
    session.run(requests);
    Plan { schema: SCHEMA, seed, profile: Profile::Swarm, settings: frame.settings, window: frame.window, world: frame.world, ops: session.ops }
}

/// Bytes; keeps the rare large budgets from costing more than all small ones together.
const LARGEST_VOLUME: u64 = 1_500_000;

/// How a person and the model take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Talk {
    /// Turns of all lengths.
    Turns,
    /// One, as long as the session.
    OneTurn,
    /// No tools: every answer ends a turn.
    Chat,
}

struct Session {
    dice: Dice,
    /// Draws what belongs to no feature.
    stream: Stream,
    talk: Talk,
    heavy_users: bool,
    thinking: bool,
    window: u64,
    budget: u64,
    /// Bytes that a request brings on average.
    step: u64,
    ops: Vec<Op>,
}

impl Session {
    fn run(&mut self, requests: u64) {
        if self.dice.happens(F::System, 3, 4) {
            let bytes = self.dice.of(F::System).size(200, self.budget / 4);
            let text = self.text(F::System, bytes, Shape::Prose);
            self.ops.push(Op::System { text });
        }
        let mut left = requests;
        while left > 0 {
            let turn = match self.talk {
                Talk::OneTurn => left,
                Talk::Chat => 1,
                Talk::Turns => self.stream.size(1, 60).min(left),
            };
            left -= self.turn(turn);
        }
    }

    /// A person speaks and the model answers up to so many times; tells how often.
    fn turn(&mut self, longest: u64) -> u64 {
        self.user();
        for nth in 1..=longest {
            let last = nth == longest;
            let answer = self.answer(last);
            let aborted = answer.stop == Stop::Aborted;
            self.ops.push(Op::Answer(answer));
            self.events();
            if aborted {
                return nth;
            }
        }
        longest
    }

    fn text(&mut self, feature: Feature, bytes: u64, shape: Shape) -> Text {
        let nasty = self.dice.happens(F::NastyText, 1, 12);
        Text { salt: self.dice.of(feature).salt(), bytes, shape: if nasty { Shape::Nasty } else { shape } }
    }

    fn user(&mut self) {
        let usual = match (self.heavy_users, self.talk) {
            (true, _) => self.dice.of(F::HeavyUsers).size(500, self.budget / 2),
            (_, Talk::Chat) => self.stream.size(20, (self.step * 2).max(40)),
            _ => self.stream.size(20, 600),
        };
        let bytes = if self.dice.happens(F::Paste, 1, 20) { self.dice.of(F::Paste).size(4_000, (4 * self.budget).min(200_000)) } else { usual };
        let shape = *self.stream.pick(&[Shape::Prose, Shape::Prose, Shape::Log, Shape::Source]);
        let nasty = self.dice.happens(F::NastyText, 1, 12);
        let text = Text { salt: self.stream.salt(), bytes, shape: if nasty { Shape::Nasty } else { shape } };
        let images = if self.dice.happens(F::UserImages, 1, 12) { 2 } else { 0 };
        self.ops.push(Op::User { text, images });
    }

    fn answer(&mut self, last: bool) -> Answer {
        let calls = if last || self.talk == Talk::Chat { Vec::new() } else { self.calls() };
        let mut stop = if calls.is_empty() { Stop::Stop } else { Stop::ToolUse };
        for (feature, often, ending) in [(F::Lengths, 50, Stop::Length), (F::Failures, 30, Stop::Error), (F::Aborts, 40, Stop::Aborted)] {
            // Who is interrupted has to be spoken to again, which would be another turn.
            if self.dice.happens(feature, 1, often) && !(ending == Stop::Aborted && self.talk == Talk::OneTurn) {
                stop = ending;
            }
        }
        let prose = match (self.talk, calls.is_empty()) {
            (Talk::Chat, _) => self.stream.size(20, (self.step * 3).max(40)),
            (_, true) => self.stream.size(60, 2_000),
            _ => self.stream.size(0, 300),
        };
        let silent = self.dice.happens(F::EmptyAnswers, 1, 40);
        let thinks = self.thinking && !silent && self.dice.of(F::Thinking).chance(2, 3);
        let ids = match (self.dice.happens(F::Reused, 1, 6), self.dice.happens(F::Clashing, 1, 60)) {
            (_, true) => IdStyle::Clashing,
            (true, _) => IdStyle::Reused,
            _ => IdStyle::Fresh,
        };
        Answer {
            salt: self.stream.salt(),
            thinking_bytes: if thinks { self.dice.of(F::Thinking).size(30, 1_500) } else { 0 },
            text_bytes: if silent { 0 } else { prose },
            stop,
            ids,
            aside: self.aside(!calls.is_empty()),
            calls,
        }
    }

    fn aside(&mut self, between: bool) -> Option<Aside> {
        if !self.dice.happens(F::Asides, 1, 20) || !between {
            return None;
        }
        let bytes = self.dice.of(F::Asides).size(10, 2_000);
        let text = self.text(F::Asides, bytes, Shape::Log);
        Some(if self.dice.of(F::Asides).chance(1, 2) { Aside::Bash(text) } else { Aside::Custom(text) })
    }

    fn calls(&mut self) -> Vec<Call> {
        let parallel = self.dice.of(F::Parallel).weighted(&[(12, (1, 1)), (6, (2, 4)), (1, (5, 30))]);
        let parallel = self.dice.of(F::Parallel).between(parallel.0, parallel.1);
        let parallel = if self.dice.happens(F::Parallel, 1, 1) { parallel } else { 1 };
        // The batch is drawn, not the result, so that parallel calls make no heavier sessions.
        let batch = self.stream.size(self.step / 6, self.step * 3);
        (0..parallel).map(|_| self.call(batch / parallel)).collect()
    }

    fn call(&mut self, share: u64) -> Call {
        let (tool, shape) = self.stream.weighted(&[
            (6, (Tool::Read, Shape::Source)),
            (2, (Tool::Read, Shape::Prose)),
            (1, (Tool::Read, Shape::Json)),
            (6, (Tool::Bash, Shape::Log)),
            (1, (Tool::Bash, Shape::Hex)),
            (3, (Tool::Grep, Shape::Source)),
            (2, (Tool::Edit, Shape::Log)),
            (1, (Tool::Write, Shape::Log)),
        ]);
        let tool = if self.dice.happens(F::OwnTool, 1, 60) { Tool::FoldContext } else { tool };
        let long_arguments = self.dice.happens(F::Arguments, 1, 10);
        let short = self.stream.size(0, 120);
        let argument_bytes = if long_arguments { self.dice.of(F::Arguments).size(300, (2 * share).clamp(6_000, 60_000)) } else { short };
        Call { salt: self.stream.salt(), tool, argument_bytes, reply: self.reply(share, shape) }
    }

    fn reply(&mut self, share: u64, shape: Shape) -> Reply {
        let usual = self.stream.between(share / 2, share * 3 / 2);
        let giant = self.dice.happens(F::GiantResults, 1, 1_000).then(|| self.dice.of(F::GiantResults).size(30_000, 1 << 20));
        let empty = self.dice.happens(F::EmptyResults, 1, 20);
        let nasty = self.dice.happens(F::NastyText, 1, 12);
        let images = if self.dice.happens(F::ResultImages, 1, 40) { self.dice.of(F::ResultImages).weighted(&[(4, 1), (1, 3)]) } else { 0 };
        let outcome = Outcome {
            text: Text {
                salt: self.stream.salt(),
                bytes: if empty { 0 } else { giant.unwrap_or(usual) },
                shape: if nasty { Shape::Nasty } else { shape },
            },
            split: self.dice.happens(F::SplitResults, 1, 12),
            error: self.dice.happens(F::ToolErrors, 1, 12),
            images,
        };
        let strange = [self.dice.happens(F::Missing, 1, 60), self.dice.happens(F::Doubled, 1, 80), self.dice.happens(F::Foreign, 1, 100)];
        match strange {
            [true, ..] => Reply::Missing,
            [_, true, _] => Reply::Twice(outcome),
            [.., true] => Reply::Foreign(outcome),
            _ => Reply::Given(outcome),
        }
    }

    /// What the world does between two requests.
    fn events(&mut self) {
        const RATES: [(Feature, u64); 24] = [
            (F::Custom, 15),
            (F::Bash, 30),
            (F::CustomMessage, 40),
            (F::BranchSummary, 80),
            (F::System, 80),
            (F::ForeignEdit, 50),
            (F::Idle, 30),
            (F::ModelSwitch, 100),
            (F::NoUsage, 120),
            (F::Compact, 120),
            (F::Resume, 50),
            (F::Fork, 60),
            (F::Tree, 60),
            (F::Crash, 30),
            (F::DropDrafts, 40),
            (F::Ask, 80),
            (F::Peeks, 25),
            (F::Pins, 30),
            (F::Marks, 25),
            (F::Expands, 20),
            (F::Disk, 20),
            (F::Fail, 120),
            (F::Refuse, 60),
            (F::Configure, 80),
        ];
        for (feature, often) in RATES {
            if self.dice.happens(feature, 1, often) {
                let op = self.event(feature);
                self.ops.push(op);
            }
        }
    }

    fn event(&mut self, feature: Feature) -> Op {
        let share = self.budget / 8;
        let stream = self.dice.of(feature);
        let back = u32::try_from(stream.size(1, 100)).expect("small");
        let yes = stream.chance(1, 2);
        let bytes = stream.size(20, share.min(6_000));
        match feature {
            F::Custom => Op::Custom { text: self.text(feature, bytes, Shape::Json) },
            F::Bash => Op::Bash { text: self.text(feature, bytes, Shape::Log), excluded: yes },
            F::CustomMessage => Op::CustomMessage { text: self.text(feature, bytes, Shape::Prose) },
            F::BranchSummary => Op::BranchSummary { text: self.text(feature, bytes, Shape::Prose) },
            F::Compact => Op::Compact { text: self.text(feature, bytes, Shape::Prose) },
            F::System => Op::System { text: self.text(feature, bytes, Shape::Prose) },
            F::ForeignEdit => Op::ForeignEdit { back: back - 1, omit: yes, text: self.text(feature, bytes, Shape::Prose) },
            // From a pause for thought to a night: cache lifetimes lie in between.
            F::Idle => Op::Idle { ms: stream.size(1_000, 40_000_000) },
            F::ModelSwitch => {
                // Never below what the runtime manages.
                let least = (BUDGETS.0 * 1_000_000).div_ceil(self.window).max(400_000);
                let window_ppm = u32::try_from(stream.between(least, 2_000_000)).expect("at most two million");
                Op::ModelSwitch { window_ppm, model: *stream.pick(&Model::ALL) }
            }
            F::NoUsage => Op::SetUsage { reported: yes },
            F::Resume => Op::Resume,
            F::Fork => Op::Fork { back: if yes { back } else { 0 } },
            F::Tree => Op::Tree { back },
            // A commit is a record and a few dozen edits: all cuts of it are about as likely as none.
            F::Crash => Op::Crash { after: back - 1 },
            F::DropDrafts => Op::DropDrafts,
            F::Ask => Op::Ask,
            F::Peeks | F::Pins | F::Marks | F::Expands => {
                let verbs: &[Verb] = match feature {
                    F::Peeks => &[Verb::Peek],
                    F::Pins => &[Verb::Pin, Verb::Pin, Verb::Unpin],
                    F::Expands => &[Verb::Expand, Verb::Expand, Verb::Refold, Verb::Recut],
                    _ => &[Verb::Brief, Verb::Brief, Verb::Reboundary, Verb::Unmark],
                };
                let verb = *stream.pick(verbs);
                // A peek of a kilobyte or of all there is; a brief of a line or of more than is taken.
                let bytes = if verb == Verb::Peek { stream.size(1_024, 128_000) } else { stream.size(4, 3_000) };
                Op::Act { verb, nth: back - 1, text: self.text(feature, bytes, Shape::Prose) }
            }
            F::Configure => {
                let budget = stream.size(BUDGETS.0, self.window);
                Op::Configure { settings: Frame::settings(budget, yes, &mut self.dice) }
            }
            F::Fail => Op::Fail,
            F::Refuse => Op::Refuse { times: if yes { 2 } else { 1 } },
            F::Disk if yes => Op::Rot { nth: back - 1 },
            F::Disk => Op::Disk { fault: *stream.pick(&[&[None], &Fault::ALL.map(Some)[..]].concat()) },
            other => unreachable!("{other:?} is no event"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_op_and_every_feature_occurs_and_none_is_everywhere() {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for seed in 0..2_000 {
            for feature in draw(seed).features() {
                *seen.entry(feature).or_default() += 1;
            }
        }
        let everywhere = ["user", "answer"];
        let rare: Vec<_> = seen.iter().filter(|(name, count)| **count < 20 || (**count > 1_900 && !everywhere.contains(name))).collect();
        assert!(rare.is_empty(), "of 2,000 sessions: {rare:?}");
        let not_ours = ["trouble", "jump", "question"];
        let missing: Vec<_> = Plan::all_features().into_iter().filter(|name| !seen.contains_key(name) && !not_ours.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_session_is_short_and_cheap_on_average_and_often_turns_its_budget_over() {
        let plans: Vec<Plan> = (0..600).map(draw).collect();
        let mean = plans.iter().map(Plan::text_bytes).sum::<u64>() / 600;
        assert!((300_000..500_000).contains(&mean), "{mean} bytes");
        assert!(plans.iter().all(|plan| (5..=260).contains(&plan.requests())));
        let requests = plans.iter().map(Plan::requests).sum::<usize>() / 600;
        assert!((40..110).contains(&requests), "{requests} requests");
        let budget = |plan: &Plan| plan.settings.get("providerInputBudget").and_then(Value::as_u64).unwrap_or(plan.window);
        let turned = plans.iter().filter(|plan| plan.text_bytes() > 3 * 4 * budget(plan)).count();
        assert!(turned > 180, "{turned} of 600 sessions bring three budgets or more");
    }

    #[test]
    fn a_third_of_the_sessions_have_everything_on() {
        let full = (0..600).filter(|seed| Dice::new(*seed).features.iter().all(|(on, _)| *on)).count();
        assert!((150..250).contains(&full), "{full} of 600");
    }
}
