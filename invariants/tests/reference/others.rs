//! What others had their say in: torn batches, lost placeholders, peeks, pins, withdrawn marks, agreed cuts. Both programs, same verdict.

use crate::world::{World, lines, text};
use fold_invariants::reference::{Moment, Verdict, decide};
use fold_runtime::agent::{Peek, parse_peek_line, peek_line};
use fold_runtime::config::Settings;
use fold_runtime::journal::Digest;
use fold_runtime::session::{Decided, Draft, Session};

const WINDOW: u64 = 20_000;

/// Trigger, record and edits of the commit both programs decide on.
fn commit(world: &World, moment: Moment) -> (String, serde_json::Value, Vec<Draft>) {
    let settings = Settings::parse(r#"{"toolFoldThreshold":0}"#).expect("valid options");
    let reference = decide(&world.branch, &settings, WINDOW, moment);
    let session = Session::open(&world.branch, &settings, WINDOW).expect("a budget");
    let runtime = crate::agreement::verdict(session.boundary(moment));
    assert_eq!(reference, runtime, "reference, then runtime");
    let Verdict::Commit { trigger, drafts, .. } = reference else { panic!("a commit, not {reference:?}") };
    let Draft::Custom { data, .. } = &drafts[0] else { panic!("the record first") };
    (trigger, serde_json::from_str(data).expect("JSON"), drafts)
}

fn quiet(world: &World, moment: Moment) {
    let settings = Settings::parse(r#"{"toolFoldThreshold":0}"#).expect("valid options");
    let session = Session::open(&world.branch, &settings, WINDOW).expect("a budget");
    assert_eq!(decide(&world.branch, &settings, WINDOW, moment), Verdict::Quiet);
    assert_eq!(crate::agreement::verdict(session.boundary(moment)), Verdict::Quiet);
}

/// Targets and whether they are shown.
fn targets(record: &serde_json::Value) -> Vec<(String, bool)> {
    let edits = record["edits"].as_array().expect("edits").iter();
    edits.map(|edit| (edit["target"].as_str().expect("an id").to_owned(), edit["sha256"].is_string())).collect()
}

fn foreign(world: &mut World, target: &str, words: Option<&str>) {
    let replacement = words.map_or("null".to_owned(), |words| format!(r#"{{"content":[{}]}}"#, text(words)));
    world.entry(&format!(r#""type":"context_edit","targetId":"{target}","replacement":{replacement}"#));
}

/// A question, six steps of 10,000 bytes (e1 and e2, e3 and e4, ...), an answer, and the commit that folds them, written.
fn folded() -> World {
    let mut world = World::new(1);
    world.user("do it all");
    for _ in 0..6 {
        world.step(10_000);
    }
    world.answer("done", &[]);
    let (_, record, drafts) = commit(&world, Moment::TurnEnd);
    assert_eq!(record["folds"].as_array().expect("folds").len(), 5);
    world.apply(&drafts);
    world.answer("done", &[]);
    world
}

#[test]
fn a_carrier_that_somebody_omits_is_shown_again_and_the_second_time_the_whole_batch_goes() {
    let mut world = folded();
    for (shown, wanted) in [(true, "e2"), (false, "e1")] {
        foreign(&mut world, "e2", None);
        let (trigger, record, drafts) = commit(&world, Moment::Request);
        assert_eq!((trigger.as_str(), targets(&record), drafts.len()), ("recovery", vec![(wanted.to_owned(), shown)], 1));
        assert!(record["folds"].as_array().expect("folds").is_empty());
        world.apply(&drafts);
    }
}

#[test]
fn who_omits_a_folded_result_of_an_answer_that_was_cut_off_is_not_the_host() {
    let mut world = World::new(1);
    world.user("do it all");
    world.answer_as("", &[("c".to_owned(), "bash".to_owned(), "{}".to_owned())], "length", true);
    world.result("c", "bash", &text(&lines(10_000)), false);
    (0..5).for_each(|_| drop(world.step(10_000)));
    world.answer("done", &[]);
    world.apply(&commit(&world, Moment::TurnEnd).2);
    foreign(&mut world, "e2", None);
    let (trigger, record, _) = commit(&world, Moment::TurnEnd);
    assert_eq!((trigger.as_str(), targets(&record)), ("recovery", vec![("e2".to_owned(), true)]));
}

#[test]
fn a_carrier_that_somebody_gave_other_words_counts_for_those() {
    let mut world = World::new(1);
    world.user(&lines(6_000));
    world.answer(&lines(20_000), &[]);
    world.user("and now?");
    world.answer("done", &[]);
    let (_, record, drafts) = commit(&world, Moment::Asked);
    assert!(targets(&record).contains(&("e0".to_owned(), true)));
    world.apply(&drafts);
    foreign(&mut world, "e0", Some("short"));
    let hidden = |world: &mut World| {
        let next = world.user(&lines(1_500));
        world.user(&lines(1_500));
        world.answer(&lines(20_000), &[]);
        world.user("and then?");
        world.answer("done", &[]);
        targets(&commit(world, Moment::Asked).1).contains(&(next, false))
    };
    assert!(!hidden(&mut world.clone()));
    // Its own words are far above a tenth of the budget with theirs.
    foreign(&mut world, "e0", Some(&lines(6_000)));
    assert!(hidden(&mut world));
}

#[test]
fn a_call_that_somebody_omits_is_shown_again_as_it_was() {
    let mut world = folded();
    foreign(&mut world, "e1", None);
    let (trigger, record, drafts) = commit(&world, Moment::TurnEnd);
    assert_eq!((trigger.as_str(), targets(&record)), ("recovery", vec![("e1".to_owned(), true)]));
    assert!(matches!(&drafts[1], Draft::ContextEdit { replacement: Some(content), .. } if content == world.branch[1].content().raw()));
}

#[test]
fn a_repair_hides_a_result_before_its_call_where_the_call_was_to_be_hidden_yet() {
    let mut world = World::new(1);
    world.user("do it all");
    (0..20).for_each(|_| drop(world.step(3_000)));
    world.answer("done", &[]);
    let (_, record, drafts) = commit(&world, Moment::TurnEnd);
    let omitted: Vec<String> = targets(&record).into_iter().filter(|(_, shown)| !shown).map(|(target, _)| target).collect();
    let [result, call] = &omitted[..2] else { panic!("a batch that is hidden") };
    // The process died when only the record was written.
    world.apply(&drafts[..1]);
    foreign(&mut world, result, Some("what somebody else says"));
    let (trigger, record, drafts) = commit(&world, Moment::TurnEnd);
    assert_eq!((trigger.as_str(), targets(&record)), ("recovery", vec![(result.clone(), false), (call.clone(), false)]));
    let omits = |draft: &Draft, id: &String| matches!(draft, Draft::ContextEdit { target, replacement: None } if target == id);
    let last: Vec<&Draft> = drafts.iter().rev().take(2).collect();
    assert!(omits(last[1], result) && omits(last[0], call) && drafts.iter().filter(|draft| omits(draft, call)).count() == 1);
}

#[test]
fn a_repair_is_decided_before_anything_else_and_does_not_start_the_count_of_new_work_anew() {
    let mut world = folded();
    foreign(&mut world, "e2", None);
    for _ in 0..6 {
        world.step(10_000);
    }
    world.answer("done", &[]);
    let (trigger, _, drafts) = commit(&world, Moment::Refused);
    assert_eq!(trigger, "recovery");
    world.apply(&drafts);
    world.answer("done", &[]);
    assert_ne!(commit(&world, Moment::TurnEnd).0, "recovery");
}

#[test]
fn a_lost_placeholder_comes_back_with_the_next_commit_behind_its_folds_and_only_once() {
    let mut world = folded();
    for round in 0..2 {
        foreign(&mut world, "e4", Some("what somebody else says"));
        world.answer("done", &[]);
        quiet(&world, Moment::TurnEnd);
        for _ in 0..6 {
            world.step(10_000);
        }
        world.answer("done", &[]);
        let (_, record, drafts) = commit(&world, Moment::TurnEnd);
        assert_eq!(targets(&record).iter().position(|(target, _)| target == "e4"), (round == 0).then_some(targets(&record).len() - 1));
        world.apply(&drafts);
        world.answer("done", &[]);
    }
}

/// An answer of `pi_fold_context` of this many bytes and its line; a model has read it when `read` says so.
fn peeked(world: &mut World, bytes: usize) -> (String, String) {
    let line = peek_line(&Peek::of("e1"), Digest::of(b"x"));
    let call = format!("p{}", world.branch.len());
    world.answer("", &[(call.clone(), "pi_fold_context".to_owned(), "{}".to_owned())]);
    let id = world.result(&call, "pi_fold_context", &text(&format!("{}\n{line}", lines(bytes))), false);
    (id, line)
}

#[test]
fn a_peek_is_retired_at_a_boundary_once_it_was_read_and_weighs_twice_what_follows() {
    let mut world = World::new(1);
    world.user("look");
    let (id, line) = peeked(&mut world, 6_000);
    quiet(&world, Moment::TurnEnd);
    world.answer(&lines(2_900), &[]);
    quiet(&world, Moment::Request);
    let (trigger, record, drafts) = commit(&world, Moment::TurnEnd);
    assert_eq!((trigger.as_str(), targets(&record)), ("peek", vec![(id.clone(), true)]));
    assert!(matches!(&drafts[1], Draft::ContextEdit { replacement: Some(content), .. } if *content == format!("[{}]", text(&line))));
    assert!(parse_peek_line(&line).is_some());
    world.answer(&lines(400), &[]);
    quiet(&world, Moment::TurnEnd);
}

#[test]
fn a_commit_retires_a_due_peek_behind_its_folds_and_a_pinned_one_stays() {
    let mut world = World::new(1);
    world.user("look");
    for _ in 0..5 {
        world.step(10_000);
    }
    let (id, _) = peeked(&mut world, 3_000);
    world.step(10_000);
    world.answer("done", &[]);
    let (_, record, _) = commit(&world, Moment::TurnEnd);
    assert_eq!(targets(&record).last(), Some(&(id, true)));
    let unit = world.branch[11].id().to_owned();
    world.decision(&Decided::Pin { units: vec![unit], folds: Vec::new() });
    let (_, record, _) = commit(&world, Moment::TurnEnd);
    assert!(targets(&record).iter().all(|(target, _)| target != world.branch[12].id()));
}

/// Parts of the folds of a record.
fn parts(record: &serde_json::Value) -> Vec<Vec<String>> {
    let folds = record["folds"].as_array().expect("folds").iter();
    folds.map(|fold| fold["parts"].as_array().expect("parts").iter().map(|part| part[0].as_str().expect("an id").to_owned()).collect()).collect()
}

#[test]
fn what_is_pinned_is_folded_by_nobody_and_what_was_withdrawn_by_the_fence_alone() {
    let steps = |count: usize| {
        let mut world = World::new(1);
        world.user("do it all");
        (0..count).for_each(|_| drop(world.step(9_000)));
        world.answer("done", &[]);
        world
    };
    let folds_first = |world: &World, moment| parts(&commit(world, moment).1).concat().contains(&"e2".to_owned());
    let decided = |mut world: World, decided: Decided| {
        world.decision(&decided);
        world
    };
    let one = || vec!["e1".to_owned()];
    let pin = || Decided::Pin { units: one(), folds: Vec::new() };
    let unmark = || Decided::Unmark { units: one() };
    assert!(folds_first(&steps(3), Moment::Asked) && folds_first(&steps(8), Moment::TurnEnd));
    assert!(!folds_first(&decided(steps(3), pin()), Moment::Asked) && !folds_first(&decided(steps(8), pin()), Moment::Refused));
    assert!(!folds_first(&decided(steps(3), unmark()), Moment::Asked) && folds_first(&decided(steps(8), unmark()), Moment::Refused));
    // A commit by a person ends it.
    let mut world = decided(steps(3), unmark());
    world.apply(&commit(&world, Moment::Asked).2);
    world.answer("done", &[]);
    assert!(folds_first(&world, Moment::Asked));
}

#[test]
fn an_agreed_cut_is_folded_as_agreed_and_says_what_was_supplied() {
    let mut world = World::new(1);
    world.user("go");
    for _ in 0..6 {
        world.step(3_000);
    }
    world.answer("done", &[]);
    let units: Vec<String> = ["e3", "e5"].map(str::to_owned).into();
    world.decision(&Decided::Cut { units, brief: Some("Built it.\nTested it.".into()) });
    let (_, record, drafts) = commit(&world, Moment::Asked);
    let folds = parts(&record);
    // The step before it is a remainder, and no remainder joins what was agreed.
    assert_eq!(folds, [vec!["e2"], vec!["e4", "e5", "e6"]]);
    assert_eq!(record["folds"][1]["brief"], "Built it.\nTested it.");
    world.apply(&drafts);
    let shown = world.seen().branch.iter().any(|entry| entry.line().contains(r"Built it.\nTested it.\n⟦end"));
    assert!(shown);
}

/// Nine answers after a question that was the newest while they ripened, a second question, and one answer withdrawn.
fn withdrawn_after_a_question() -> World {
    let mut world = World::new(1);
    world.user(&lines(600));
    for _ in 0..9 {
        world.answer(&lines(6_000), &[]);
    }
    world.user("and now?");
    let last = world.answer(&lines(100), &[]);
    world.answer("done", &[]);
    world.decision(&Decided::Unmark { units: vec![last] });
    world
}

#[test]
fn an_urgent_commit_walks_as_if_nothing_had_ever_been_withdrawn() {
    let world = withdrawn_after_a_question();
    let Verdict::Commit { drafts, .. } = decide(&world.branch, &Settings::default(), WINDOW, Moment::Refused) else { panic!("a commit") };
    let Draft::Custom { data, .. } = &drafts[0] else { panic!("the record first") };
    let record: serde_json::Value = serde_json::from_str(data).expect("JSON");
    // The question could carry nothing before a newer one came, so the run went on.
    assert_eq!(parts(&record)[0].len(), 9);
}

#[test]
fn both_walk_as_if_nothing_had_ever_been_withdrawn() {
    commit(&withdrawn_after_a_question(), Moment::Refused);
}

#[test]
fn what_an_urgent_commit_leaves_of_a_cut_is_walked_again_from_behind_its_folds() {
    let mut world = World::new(1);
    world.user("do it all");
    (0..20).for_each(|_| drop(world.step(3_000)));
    world.answer("done", &[]);
    world.decision(&Decided::Unmark { units: vec!["e1".to_owned()] });
    let (_, record, drafts) = commit(&world, Moment::Refused);
    assert_eq!(parts(&record)[0].len(), 5, "three batches, the first of them withdrawn");
    world.apply(&drafts);
    (0..2).for_each(|_| drop(world.step(3_000)));
    world.answer("done", &[]);
    let folded = parts(&record).concat();
    let first = (1..=20).map(|step| format!("e{}", 2 * step)).find(|result| !folded.contains(result)).expect("a batch that is left");
    assert!(parts(&commit(&world, Moment::Asked).1).concat().contains(&first));
}

#[test]
fn a_message_whose_fold_went_into_a_parent_is_free_for_what_stands_before_it() {
    let mut world = World::new(1);
    let alone = world.answer(&lines(9_000), &[]);
    let carrier = world.user("go on");
    world.answer(&lines(9_000), &[]);
    world.user("and now all of it");
    world.answer("yes", &[]);
    world.decision(&Decided::Pin { units: vec![alone.clone()], folds: Vec::new() });
    let carried = |record: &serde_json::Value| {
        let folds = record["folds"].as_array().expect("folds").iter();
        folds.filter(|fold| fold["carrier"] == *carrier).map(|fold| fold["parts"][0][0].as_str().expect("an id").to_owned()).collect::<Vec<String>>()
    };
    let (_, record, drafts) = commit(&world, Moment::Asked);
    assert_eq!(carried(&record), ["e2"]);
    world.apply(&drafts);
    world.decision(&Decided::Unpin { units: vec![alone], folds: Vec::new() });
    (0..11).for_each(|_| drop(world.step(10_000)));
    world.answer("done", &[]);
    let (_, record, drafts) = commit(&world, Moment::Asked);
    assert!(carried(&record).is_empty() && record.to_string().contains(r#""kind":"cons""#), "{record}");
    world.apply(&drafts);
    world.answer("done", &[]);
    assert_eq!(carried(&commit(&world, Moment::Asked).1), ["e0"]);
}

#[test]
fn folds_that_other_settings_cut_end_runs_where_they_stand() {
    let larger =
        Settings::parse(r#"{"toolFoldThreshold":0,"thresholds":{"maxTarget":0.8,"minTarget":0.5,"consolidateAfter":6,"minFoldChars":12000}}"#)
            .expect("valid options");
    let mut world = World::new(1);
    world.user("do it all");
    (0..20).for_each(|_| drop(world.step(3_000)));
    world.answer("done", &[]);
    world.apply(&commit(&world, Moment::TurnEnd).2);
    (0..4).for_each(|_| drop(world.step(3_000)));
    world.answer("done", &[]);
    let session = Session::open(&world.branch, &larger, WINDOW).expect("a budget");
    let verdict = decide(&world.branch, &larger, WINDOW, Moment::Asked);
    assert_eq!(crate::agreement::verdict(session.boundary(Moment::Asked)), verdict);
    assert!(matches!(verdict, Verdict::Commit { .. }), "{verdict:?}");
}

#[test]
fn the_others_stay_as_short_as_can_be_when_blacklisted_results_join() {
    let held = Settings::parse(r#"{"blacklistAutoFoldTools":["keep"]}"#).expect("valid options");
    let mut world = World::new(1);
    world.user("read both");
    world.answer("yes", &[]);
    let call = |id: &str, tool: &str| (id.to_owned(), tool.to_owned(), "{}".to_owned());
    world.answer("", &[call("1", "keep"), call("2", "bash")]);
    world.result("1", "keep", &text(&lines(100_000)), false);
    world.result("2", "bash", &text(&lines(3_000)), false);
    let session = Session::open(&world.branch, &held, WINDOW).expect("a budget");
    assert_eq!(decide(&world.branch, &held, WINDOW, Moment::TurnEnd), crate::agreement::verdict(session.boundary(Moment::TurnEnd)));
}
