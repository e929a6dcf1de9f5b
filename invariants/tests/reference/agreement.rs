//! Two programs written from one page: at every boundary of synthetic sessions the runtime decides what the reference decides.

use crate::world::{Call, World, lines, text};
use fold_invariants::reference::{Verdict, decide, occupancy};
use fold_runtime::config::Settings;
use fold_runtime::session::{Decision, Draft, Session};

fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Quiet => Verdict::Quiet,
        Decision::Deferred(deferral) => Verdict::Deferred(deferral.reason().into()),
        Decision::Commit(commit) => Verdict::Commit {
            trigger: commit.trigger.name().into(),
            drafts: commit.drafts,
            before: commit.before,
            target: commit.target,
            after: commit.after,
        },
    }
}

/// How often, in a thousand turns, a session does what it may do.
#[derive(Clone, Copy, Debug, Default)]
struct Habits {
    users: usize,
    heavy_users: usize,
    customs: usize,
    commands: usize,
    systems: usize,
    failures: usize,
    huge_calls: usize,
    irregular: usize,
    unmeasured: usize,
    images: usize,
    foreign: usize,
    compactions: usize,
    switches: usize,
}

/// A step of an agent after what a person or an extension said, and what the world does besides.
fn turn(world: &mut World, habits: Habits) {
    if world.in_thousand(habits.systems) {
        world.message(r#"{"role":"system","content":"be good"}"#);
    }
    if world.in_thousand(habits.users) {
        let size = if world.in_thousand(habits.heavy_users) { 8_000 + world.below(12_000) } else { 20 + world.below(900) };
        if world.in_thousand(500) {
            world.user(&lines(size));
        } else {
            let image = world.image(habits.images);
            world.message(&format!(r#"{{"role":"user","content":[{}{image}]}}"#, text(&lines(size))));
        }
    }
    if world.in_thousand(habits.customs) {
        let size = world.below(3_000);
        world.custom(&lines(size));
    }
    if world.in_thousand(habits.failures) {
        let stop = ["error", "aborted", "length"][world.below(3)];
        let id = world.answer_as(&lines(300), &[], stop, false);
        if world.in_thousand(500) {
            world.entry(&format!(r#""type":"context_edit","targetId":"{id}","replacement":null"#));
        }
    }
    if world.in_thousand(habits.switches) {
        world.model = ["m", "n"][world.below(2)];
        if world.in_thousand(500) {
            let model = world.model;
            world.entry(&format!(r#""type":"model_change","provider":"p","modelId":"{model}""#));
        }
    }
    step(world, habits);
    if world.in_thousand(habits.foreign) {
        let target = world.recent_editable(60);
        let replacement = if world.in_thousand(500) { "null".to_owned() } else { format!(r#"{{"content":[{}]}}"#, text(&lines(700))) };
        world.entry(&format!(r#""type":"context_edit","targetId":"{target}","replacement":{replacement}"#));
    }
    if world.in_thousand(habits.compactions) {
        let kept = world.recent(120);
        world.entry(&format!(r#""type":"compaction","summary":"so far so good","firstKeptEntryId":"{kept}","tokensBefore":1"#));
    }
}

fn step(world: &mut World, habits: Habits) {
    let calls: Vec<Call> = (0..world.below(4))
        .map(|index| {
            let tool = ["bash", "bash", "bash", "read", "keep", "pi_fold_context"][world.below(6)];
            let size = if world.in_thousand(habits.huge_calls) { 9_000 } else { world.below(200) };
            (format!("c{}-{index}", world.branch.len()), tool.to_owned(), format!(r#"{{"command":"{}"}}"#, "x".repeat(size)))
        })
        .collect();
    let note = lines(if world.in_thousand(300) { world.below(2_000) } else { world.below(60) + usize::from(calls.is_empty()) });
    let measured = !world.in_thousand(habits.unmeasured);
    world.answer_as(&note, &calls, if calls.is_empty() { "stop" } else { "toolUse" }, measured);
    if world.in_thousand(habits.commands) {
        world.message(r#"{"role":"bashExecution","command":"ls","output":"a","exitCode":0,"cancelled":false,"truncated":false}"#);
    }
    for (id, tool, _) in calls {
        let size = if world.in_thousand(200) { world.below(20_000) } else { world.below(2_500) };
        let (image, is_error) = (world.image(habits.images), world.in_thousand(200));
        if !world.in_thousand(habits.irregular) {
            world.result(&id, &tool, &format!("{}{image}", text(&lines(size))), is_error);
        }
    }
}

/// How many turns ended in a commit.
fn agree(seed: u64, turns: usize, window: u64, options: &str, habits: Habits) -> usize {
    let settings = Settings::parse(options).expect("valid options");
    let mut world = World::new(seed);
    let mut commits = 0;
    for turn_number in 0..turns {
        turn(&mut world, habits);
        let session = Session::open(&world.branch, &settings, window).expect("a budget");
        let place = format!("seed {seed}, turn {turn_number}, {} entries", world.branch.len());
        if std::env::var("DUMP").is_ok() {
            std::fs::write(format!("/tmp/hunt/{seed}.jsonl"), world.branch.iter().map(|e| e.line().to_owned() + "\n").collect::<String>()).unwrap();
        }
        assert_eq!(session.occupancy(), occupancy(&world.branch, &settings, window), "occupancy: {place}");
        let (ours, theirs) = (decide(&world.branch, &settings, window), verdict(session.boundary()));
        if ours != theirs {
            panic!("{place}\n{}", difference(&ours, &theirs));
        }
        if let Verdict::Commit { drafts, .. } = ours {
            world.apply(&drafts);
            commits += 1;
        }
    }
    commits
}

/// Where two verdicts part, short enough to read.
fn difference(reference: &Verdict, runtime: &Verdict) -> String {
    let (Verdict::Commit { drafts: left, .. }, Verdict::Commit { drafts: right, .. }) = (reference, runtime) else {
        return format!("reference: {}\nruntime: {}", summary(reference), summary(runtime));
    };
    let line = |draft: Option<&Draft>| match draft {
        Some(Draft::Custom { data, .. }) => data.replace("{\"id\"", "\n  {\"id\"").replace("\"edits\"", "\n  \"edits\""),
        other => format!("{other:?}"),
    };
    let parted = (0..left.len().max(right.len())).filter(|at| left.get(*at) != right.get(*at)).take(3);
    let parted: Vec<String> = parted.map(|at| format!("draft {at}\nreference: {}\nruntime: {}", line(left.get(at)), line(right.get(at)))).collect();
    format!("reference: {}\nruntime: {}\n{}", summary(reference), summary(runtime), parted.join("\n"))
}

fn summary(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Commit { trigger, drafts, before, target, after } => {
            format!("{trigger} commit of {} drafts, {before} to {after}, target {target}", drafts.len())
        }
        other => format!("{other:?}"),
    }
}

fn options(consolidate_after: usize, min_fold_chars: usize, more: &str) -> String {
    format!(r#"{{"thresholds":{{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":{consolidate_after},"minFoldChars":{min_fold_chars}}}{more}}}"#)
}

/// The same for several seeds.
fn all_agree(window: u64, options: &str, habits: Habits) {
    let (seeds, turns) = (3, 220);
    let commits: usize = (0..seeds).map(|seed| agree(seed, turns, window, options, habits)).sum();
    assert!(commits >= 3, "{commits} commits are no test");
}

#[test]
fn they_agree_on_endless_turns_of_batches() {
    all_agree(20_000, &options(3, 8_000, ""), Habits { users: 5, ..Habits::default() });
    all_agree(20_000, &options(2, 3_000, r#","toolFoldThreshold":0"#), Habits::default());
}

#[test]
fn they_agree_on_chats() {
    all_agree(24_000, &options(3, 4_000, ""), Habits { users: 700, heavy_users: 60, customs: 100, ..Habits::default() });
}

#[test]
fn they_agree_on_tiny_budgets() {
    let habits = Habits { users: 300, heavy_users: 100, customs: 200, huge_calls: 50, images: 50, ..Habits::default() };
    all_agree(10_000, &options(2, 1_000, ""), habits);
}

#[test]
fn they_agree_where_batches_are_held() {
    let held = r#","blacklistAutoFoldTools":["keep"]"#;
    all_agree(30_000, &options(2, 2_000, held), Habits { users: 300, customs: 100, commands: 200, ..Habits::default() });
}

#[test]
fn they_agree_on_everything_a_session_may_do() {
    let habits = Habits {
        users: 300,
        heavy_users: 100,
        customs: 100,
        commands: 100,
        systems: 10,
        failures: 60,
        huge_calls: 30,
        irregular: 20,
        unmeasured: 100,
        images: 50,
        foreign: 20,
        compactions: 5,
        switches: 5,
    };
    all_agree(20_000, &options(2, 2_000, r#","blacklistAutoFoldTools":["keep"]"#), habits);
    all_agree(16_000, &options(3, 1_000, r#","toolFoldThreshold":0.9"#), habits);
}

/// A number of sessions with habits, windows and settings drawn at random; `AGREE_FROM` and `AGREE_SEEDS` widen the search.
#[test]
fn they_agree_whatever_the_habits() {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (from, seeds) = (number("AGREE_FROM", 100), number("AGREE_SEEDS", 4));
    for seed in from..from + seeds {
        let mut draw = World::new(seed);
        let mut pick = |choices: &[usize]| choices[draw.below(choices.len())];
        let habits = Habits {
            users: pick(&[0, 30, 300, 900]),
            heavy_users: pick(&[0, 50, 300]),
            customs: pick(&[0, 100, 500]),
            commands: pick(&[0, 100]),
            systems: pick(&[0, 0, 10, 50]),
            failures: pick(&[0, 50, 200]),
            huge_calls: pick(&[0, 20, 200]),
            irregular: pick(&[0, 10, 100]),
            unmeasured: pick(&[0, 0, 100, 1_000]),
            images: pick(&[0, 50, 300]),
            foreign: pick(&[0, 10, 100]),
            compactions: pick(&[0, 0, 10, 50]),
            switches: pick(&[0, 0, 10, 100]),
        };
        let window = pick(&[10_000, 12_000, 20_000, 40_000]) as u64;
        let clips = pick(&[0, 50, 90]);
        let held = [r#","blacklistAutoFoldTools":["keep"]"#, ""][pick(&[0, 1])];
        let options = options(pick(&[2, 2, 3, 4]), pick(&[300, 1_000, 3_000, 8_000]), &format!(r#","toolFoldThreshold":0.{clips:02}{held}"#));
        let habits = match std::env::var("NO").unwrap_or_default().as_str() {
            "cf" => Habits { compactions: 0, foreign: 0, ..habits },
            "c" => Habits { compactions: 0, ..habits },
            "f" => Habits { foreign: 0, ..habits },
            _ => habits,
        };
        if std::env::var("DUMP").is_ok() {
            println!("OPTIONS {options} {window} {habits:?}");
        }
        agree(seed, 220, window, &options, habits);
    }
}
