//! Seed to plan.
//!
//! The even profiles are here; they are for reading costs and growth off. [`crate::agent::swarm`] draws the one that is for finding faults.

use crate::agent::plan::{Answer, Call, Density, Geometry, IdStyle, Model, Op, Outcome, Plan, Profile, Reply, SCHEMA, Stop, Text, Tool, World};
use crate::agent::stream::Stream;
use crate::agent::text::Shape;
use serde_json::{Value, json};

/// Draws a session of a kind. The same arguments give the same plan for as long as the streams' draws stay in order; a plan that must
/// outlive that is to be stored.
///
/// ```
/// use fold_models::agent::{Profile, draw};
/// let plan = draw(Profile::Steady, 1);
/// assert_eq!((plan.window, plan.requests()), (20_000, 200));
/// ```
pub fn draw(profile: Profile, seed: u64) -> Plan {
    match profile {
        Profile::Swarm => crate::agent::swarm::draw(seed),
        Profile::Steady => steady(seed),
        Profile::Endless => endless(seed),
        Profile::Chat => chat(seed),
        Profile::Campaign => campaign(seed),
        Profile::Full => crate::agent::full::draw(seed),
    }
}

/// What the even profiles share: four bytes a token everywhere, so that what a policy adds can be told from what the world does.
const EVEN: World = World {
    density: Density::Constant(4_000),
    overhead_tokens: 1_500,
    reports_usage: true,
    cache_ttl_ms: 300_000,
    model: Model::Responses,
    cache: Geometry::Steps,
    router: None,
};

fn plan(profile: Profile, seed: u64, settings: Value, window: u64, ops: Vec<Op>) -> Plan {
    Plan { schema: SCHEMA, seed, profile, settings, window, world: EVEN, ops }
}

fn says(stream: &mut Stream, bytes: u64) -> Op {
    Op::User { text: Text { salt: stream.salt(), bytes, shape: Shape::Prose }, images: 0 }
}

fn step(stream: &mut Stream, text_bytes: u64, calls: Vec<Call>) -> Op {
    let stop = if calls.is_empty() { Stop::Stop } else { Stop::ToolUse };
    Op::Answer(Answer { salt: stream.salt(), thinking_bytes: 0, text_bytes, stop, ids: IdStyle::Fresh, calls, aside: None })
}

fn call(stream: &mut Stream, tool: Tool, argument_bytes: u64, bytes: u64, shape: Shape) -> Call {
    let text = Text { salt: stream.salt(), bytes, shape };
    Call { salt: stream.salt(), tool, argument_bytes, reply: Reply::Given(Outcome { text, split: false, error: false, images: 0 }) }
}

/// The usual tools, each with the kind of text it gives.
const READING: [(u64, (Tool, Shape)); 5] = [
    (4, (Tool::Read, Shape::Source)),
    (1, (Tool::Read, Shape::Json)),
    (3, (Tool::Bash, Shape::Log)),
    (1, (Tool::Bash, Shape::Hex)),
    (2, (Tool::Grep, Shape::Source)),
];

fn steady(seed: u64) -> Plan {
    let mut stream = Stream::named(seed, "steady");
    let mut ops = vec![says(&mut stream, 400)];
    for _ in 0..200 {
        let (tool, shape) = stream.weighted(&READING);
        let bytes = stream.between(1_000, 3_000);
        let calls = vec![call(&mut stream, tool, 0, bytes, shape)];
        ops.push(step(&mut stream, 60, calls));
    }
    plan(Profile::Steady, seed, json!({}), 20_000, ops)
}

fn endless(seed: u64) -> Plan {
    let mut stream = Stream::named(seed, "endless");
    let mut ops = vec![says(&mut stream, 600)];
    for _ in 0..1_499 {
        let calls = (0..stream.weighted(&[(6, 1), (2, 2), (1, 3)]))
            .map(|_| {
                let (tool, shape) = stream.weighted(&READING);
                let bytes = stream.size(100, 4_095);
                call(&mut stream, tool, 40, bytes, shape)
            })
            .collect();
        ops.push(step(&mut stream, 80, calls));
    }
    ops.push(step(&mut stream, 600, Vec::new()));
    plan(Profile::Endless, seed, json!({}), 60_000, ops)
}

fn chat(seed: u64) -> Plan {
    let mut stream = Stream::named(seed, "chat");
    let ops = (0..800).flat_map(|_| [says(&mut stream, 120), step(&mut stream, 500, Vec::new())]).collect();
    let window = [20_000, 60_000, 272_000][usize::try_from(seed % 3).expect("below 3")];
    plan(Profile::Chat, seed, json!({}), window, ops)
}

/// Batches of a campaign's stage: with 64 stages of 70,000 bytes, no batch comes near 2% of the budget (20,121 bytes at four a token),
/// so that no single result decides when a commit fires.
const BATCHES: u64 = 4;

fn campaign(seed: u64) -> Plan {
    let mut stream = Stream::named(seed, "campaign");
    let mut ops = vec![says(&mut stream, 2_000)];
    for batch in 0..64 * BATCHES {
        let total = stream.between(16_000, 19_000);
        let calls = if batch % BATCHES == 0 {
            // Every fourth stage tells a fact, and the last message asks for all sixteen.
            let shape = if (batch / BATCHES).is_multiple_of(4) { Shape::Fact } else { Shape::Prose };
            vec![call(&mut stream, Tool::Stage, 0, total, shape)]
        } else {
            let parallel = stream.between(1, 3);
            let one = |stream: &mut Stream| {
                let (tool, shape) = stream.weighted(&READING);
                call(stream, tool, 60, total / parallel, shape)
            };
            (0..parallel).map(|_| one(&mut stream)).collect()
        };
        ops.push(step(&mut stream, 200, calls));
    }
    ops.push(step(&mut stream, 2_000, Vec::new()));
    ops.push(Op::Question { nth: (0..16).collect() });
    ops.push(step(&mut stream, 2_000, Vec::new()));
    let settings = if seed.is_multiple_of(2) {
        json!({"providerInputBudget": 251_520, "toolFoldThreshold": 0})
    } else {
        json!({"providerInputBudget": 251_520})
    };
    plan(Profile::Campaign, seed, settings, 272_000, ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::config::Settings;
    use fold_runtime::window::Band;

    #[test]
    fn every_profile_draws_settings_the_runtime_accepts() {
        for profile in Profile::ALL {
            let seeds = if matches!(profile, Profile::Swarm | Profile::Full) { 500 } else { 4 };
            for plan in (0..seeds).map(|seed| draw(profile, seed)) {
                let settings = Settings::parse(&plan.settings.to_string()).unwrap_or_else(|refused| panic!("{refused:?} {}", plan.settings));
                Band::new(&settings, plan.window).unwrap_or_else(|refused| panic!("{refused}"));
                // Whatever settings and whatever window come together.
                let mut all = vec![settings];
                let mut windows = vec![plan.window];
                for op in &plan.ops {
                    match op {
                        Op::ModelSwitch { window_ppm, .. } => windows.push(plan.window * u64::from(*window_ppm) / 1_000_000),
                        Op::Configure { settings } => {
                            all.push(Settings::parse(&settings.to_string()).unwrap_or_else(|refused| panic!("{refused:?}")))
                        }
                        _ => {}
                    }
                }
                for (settings, window) in all.iter().flat_map(|settings| windows.iter().map(move |window| (settings, *window))) {
                    Band::new(settings, window).unwrap_or_else(|refused| panic!("{refused}"));
                }
            }
        }
    }

    #[test]
    fn a_plan_survives_json_and_a_seed_names_one_plan() {
        for profile in Profile::ALL {
            for seed in 0..if matches!(profile, Profile::Swarm | Profile::Full) { 60 } else { 3 } {
                let plan = draw(profile, seed);
                let json = serde_json::to_string(&plan).expect("a plan is JSON");
                assert_eq!(serde_json::from_str::<Plan>(&json).expect("a plan"), plan);
                assert_eq!(draw(profile, seed), plan);
                assert_ne!(draw(profile, seed + 6).ops, plan.ops);
            }
        }
    }

    #[test]
    fn an_even_profile_is_one_turn_of_its_length() {
        for (profile, requests, volume) in [
            (Profile::Steady, 200, 380_000..440_000),
            (Profile::Endless, 1_500, 2_000_000..3_500_000),
            (Profile::Campaign, 258, 4_400_000..4_700_000),
        ] {
            let plan = draw(profile, 1);
            assert_eq!(plan.requests(), requests);
            assert!(volume.contains(&plan.text_bytes()), "{} has {} bytes", profile.name(), plan.text_bytes());
            assert_eq!(plan.ops.iter().filter(|op| op.name() == "user").count(), 1);
        }
    }

    #[test]
    fn a_chat_has_three_windows_and_no_tools() {
        assert_eq!([0, 1, 2].map(|seed| draw(Profile::Chat, seed).window), [20_000, 60_000, 272_000]);
        let plan = draw(Profile::Chat, 5);
        assert_eq!((plan.requests(), plan.ops.len(), plan.text_bytes()), (800, 1_600, 800 * 620));
        assert!(plan.features().contains("no tools at all"));
    }

    #[test]
    fn no_batch_of_a_campaign_is_more_than_two_percent_of_the_budget() {
        for seed in 0..4 {
            let plan = draw(Profile::Campaign, seed);
            assert!(plan.ops.iter().filter(|op| op.name() == "answer").all(|op| op.text_bytes() <= 251_520 * 4 / 50));
            assert_eq!(plan.settings.get("toolFoldThreshold").is_some(), seed % 2 == 0);
            let stages = plan.ops.iter().filter(|op| matches!(op, Op::Answer(answer) if answer.calls.iter().any(|call| call.tool == Tool::Stage)));
            assert_eq!(stages.count(), 64);
        }
    }
}
