//! Branches small enough to know the verdict by hand.

use crate::world::{World, lines};
use fold_invariants::reference::{Moment, Verdict, decide, occupancy};
use fold_runtime::config::Settings;
use fold_runtime::session::Draft;

const WINDOW: u64 = 20_000;

fn settings(options: &str) -> Settings {
    Settings::parse(options).expect("valid options")
}

/// Drafts, occupancy before and after.
fn commit(verdict: Verdict) -> (Vec<Draft>, u64, u64) {
    match verdict {
        Verdict::Commit { drafts, before, after, .. } => (drafts, before, after),
        other => panic!("a commit, not {other:?}"),
    }
}

fn record(drafts: &[Draft]) -> serde_json::Value {
    let Draft::Custom { data, .. } = &drafts[0] else { panic!("the record first") };
    serde_json::from_str(data).expect("JSON")
}

/// What the drafts do to each target, in order.
fn edits(drafts: &[Draft]) -> Vec<(&str, &str)> {
    drafts[1..]
        .iter()
        .map(|draft| match draft {
            Draft::ContextEdit { target, replacement } => (target.as_str(), replacement.as_deref().unwrap_or("omitted")),
            _ => panic!("one record"),
        })
        .collect()
}

/// An endless turn at the trigger: a question, six steps of 10,000 bytes, and the answer after them.
fn endless() -> World {
    let mut world = World::new(1);
    world.user("do it all");
    for _ in 0..6 {
        world.step(10_000);
    }
    world.answer("done", &[]);
    world
}

#[test]
fn a_window_below_the_trigger_is_left_alone() {
    let mut world = World::new(1);
    world.user("hello");
    world.answer("hello", &[]);
    assert_eq!(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd), Verdict::Quiet);
    assert_eq!(decide(&[], &Settings::default(), WINDOW, Moment::TurnEnd), Verdict::Quiet);
}

#[test]
fn an_endless_turn_is_folded_batch_by_batch_until_the_target() {
    let world = endless();
    let (drafts, before, after) = commit(decide(&world.branch, &settings(r#"{"toolFoldThreshold":0}"#), WINDOW, Moment::TurnEnd));
    assert_eq!(before, occupancy(&world.branch, &Settings::default(), WINDOW));
    let record = record(&drafts);
    let folds = record["folds"].as_array().expect("folds");
    assert_eq!((record["v"].as_u64(), record["trigger"].as_str(), folds[0]["kind"].as_str()), (Some(1), Some("fence"), Some("tool")));
    // The last result may be the last word of a request, so it stays.
    assert!(after > 4_000 && folds.len() == 5, "{after}");
    let edits = edits(&drafts);
    assert_eq!(edits[0].0, "e2");
    assert!(edits.iter().all(|(_, content)| content.contains("tool fold · 1 entry")), "{edits:?}");
}

#[test]
fn after_a_commit_the_next_verdict_waits_for_an_answer() {
    let mut world = endless();
    let (drafts, ..) = commit(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd));
    world.apply(&drafts);
    while occupancy(&world.branch, &Settings::default(), WINDOW) < 16_000 {
        world.custom(&lines(1_000));
    }
    assert_eq!(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd), Verdict::Deferred("waiting".into()));
}

#[test]
fn a_person_asks_thrice_and_the_words_stay_while_they_are_few() {
    let mut world = World::new(1);
    let mut users = Vec::new();
    for _ in 0..3 {
        users.push(world.user(&lines(500)));
        world.step(20_000);
    }
    world.answer("done", &[]);
    let (drafts, ..) = commit(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd));
    assert!(edits(&drafts).iter().all(|(target, _)| !users.contains(&(*target).to_owned())));
}

#[test]
fn words_above_a_tenth_of_the_budget_are_hidden_stalest_first_and_never_the_first_of_a_fold_nor_the_newest() {
    let mut world = World::new(1);
    let mut second = Vec::new();
    for _ in 0..4 {
        world.user(&lines(3_000));
        second.push(world.user(&lines(3_000)));
        world.step(16_000);
    }
    world.answer("done", &[]);
    let (drafts, ..) = commit(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd));
    let users: Vec<&str> = world.branch.iter().filter(|entry| entry.line().contains("\"role\":\"user\"")).map(|entry| entry.id()).collect();
    let hidden: Vec<&str> = edits(&drafts).iter().map(|(target, _)| *target).filter(|target| users.contains(target)).collect();
    assert!(!hidden.is_empty() && hidden.len() < 4, "{hidden:?}");
    assert_eq!(hidden, second[..hidden.len()]);
}

#[test]
fn a_held_batch_is_no_part_of_anything() {
    let mut world = endless();
    let held = settings(r#"{"blacklistAutoFoldTools":["bash"]}"#);
    assert_eq!(decide(&world.branch, &held, WINDOW, Moment::TurnEnd), Verdict::Deferred("nothing but held".into()));
    world.answer("more", &[]);
    assert_eq!(decide(&world.branch, &held, WINDOW, Moment::TurnEnd), Verdict::Deferred("nothing but held".into()));
}

#[test]
fn small_steps_become_a_span_whose_calls_are_omitted_after_their_results() {
    let mut world = World::new(1);
    world.user("go");
    for _ in 0..40 {
        world.step(1_500);
    }
    world.answer("done", &[]);
    let (drafts, ..) = commit(decide(&world.branch, &settings(r#"{"toolFoldThreshold":0}"#), WINDOW, Moment::TurnEnd));
    let edits = edits(&drafts);
    // Steps e1 e2, e3 e4 and so on: the first carries, the others go, result before call.
    assert!(edits[0].0 == "e2" && edits[0].1.contains("span fold · 11 entries"), "{:?}", edits[0]);
    assert_eq!(edits[1..5], [("e4", "omitted"), ("e3", "omitted"), ("e6", "omitted"), ("e5", "omitted")]);
}

#[test]
fn full_groups_of_folds_become_one_parent_that_names_its_children() {
    let world = endless();
    let three = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":3,"minFoldChars":8000},"toolFoldThreshold":0}"#;
    let (drafts, ..) = commit(decide(&world.branch, &settings(three), WINDOW, Moment::TurnEnd));
    let record = record(&drafts);
    let folds = record["folds"].as_array().expect("folds");
    let parents: Vec<_> = folds.iter().filter(|fold| fold["kind"] == "cons").collect();
    assert!(!parents.is_empty(), "{record}");
    for (child, leaf) in parents[0]["children"].as_array().expect("children").iter().zip(folds) {
        assert_eq!(child[0], leaf["id"]);
    }
    assert!(edits(&drafts)[0].1.contains("consolidated fold"));
}

#[test]
fn another_model_forgets_what_the_first_one_measured() {
    let mut world = endless();
    let before = occupancy(&world.branch, &Settings::default(), WINDOW);
    world.entry(r#""type":"model_change","provider":"p","modelId":"m""#);
    assert_eq!(occupancy(&world.branch, &Settings::default(), WINDOW), before);
    world.entry(r#""type":"model_change","provider":"p","modelId":"n""#);
    let shown: u64 = world.branch.iter().map(|entry| fold_runtime::window::Size::of_original(entry).bytes).sum();
    assert_eq!(occupancy(&world.branch, &Settings::default(), WINDOW), shown.div_ceil(4));
}
