//! What a record promises stands from the record on: written, half written, or not at all; and what a commit may write at its moment.

use crate::agreement::{Habits, turn};
use crate::world::{World, lines, text};
use fold_invariants::commit::{Commit, Folds, recovery};
use fold_invariants::probes::Probes;
use fold_invariants::reference::{Moment, Verdict, decide, occupancy, overlay};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::session::{Draft, Session};
use fold_runtime::window::projection;
use std::collections::BTreeSet;

const WINDOW: u64 = 20_000;

fn settings(options: &str) -> Settings {
    Settings::parse(options).expect("valid options")
}

fn asked(world: &World, moment: Moment) -> Verdict {
    decide(&world.branch, &Settings::default(), WINDOW, moment)
}

fn tokens(world: &World) -> u64 {
    occupancy(&world.branch, &Settings::default(), WINDOW)
}

/// Trigger, drafts, and what is left.
fn commit(verdict: Verdict) -> (String, Vec<Draft>, usize) {
    match verdict {
        Verdict::Commit { trigger, drafts, left, .. } => (trigger, drafts, left),
        other => panic!("a commit, not {other:?}"),
    }
}

fn record(drafts: &[Draft]) -> serde_json::Value {
    let Draft::Custom { data, .. } = &drafts[0] else { panic!("the record first") };
    serde_json::from_str(data).expect("JSON")
}

fn target(draft: &Draft) -> &str {
    let Draft::ContextEdit { target, .. } = draft else { panic!("an edit") };
    target
}

fn edits_of(overlay: &[(String, Option<String>)]) -> Vec<Draft> {
    overlay.iter().map(|(target, replacement)| Draft::ContextEdit { target: target.clone(), replacement: replacement.clone() }).collect()
}

/// What the model sees: the branch, and over it what is promised.
fn window(world: &World) -> Vec<String> {
    let seen = world.seen();
    let shown = projection(&seen.branch);
    shown
        .iter()
        .filter(|projected| !projected.messages.is_empty())
        .map(|projected| format!("{} {:?}", projected.source.id(), projected.messages))
        .collect()
}

/// A question, steps of these sizes, and the answer after them.
fn steps(sizes: &[usize]) -> World {
    let mut world = World::new(1);
    world.user("do it all");
    for size in sizes {
        world.step(*size);
    }
    world.answer("done", &[]);
    world
}

fn foreign(world: &mut World, target: &str) {
    let content = text("what somebody else says");
    world.entry(&format!(r#""type":"context_edit","targetId":"{target}","replacement":{{"content":[{content}]}}"#));
}

#[test]
fn a_commit_torn_after_any_draft_shows_the_same_window_and_is_finished_at_the_next_boundary() {
    let whole = steps(&[10_000, 300, 2_000, 300, 9_000, 10_000, 2_500, 20_000, 9_000]);
    let (_, drafts, left) = commit(asked(&whole, Moment::TurnEnd));
    assert!(drafts.len() > 6 && left == 0, "{} drafts", drafts.len());
    let mut done = whole.clone();
    done.apply(&drafts);
    for written in 1..drafts.len() {
        let mut torn = whole.clone();
        torn.apply(&drafts[..written]);
        assert_eq!(edits_of(&overlay(&torn.branch)), drafts[written..], "the overlay is the rest of the drafts");
        assert_eq!((window(&torn), tokens(&torn)), (window(&done), tokens(&done)), "after draft {written}");
        let rest = Verdict::Recovery { drafts: drafts[written..].to_vec(), left: 0, deferral: None };
        assert_eq!(asked(&torn, Moment::TurnEnd), rest);
        assert_eq!(asked(&torn, Moment::Request), Verdict::Quiet, "no boundary, so nothing is written");
        // An answer in between changes nothing of that, and the edits that come after it are no change of what is shown.
        torn.answer("go on", &[]);
        let (measured, before) = (tokens(&torn), torn.branch.len());
        torn.apply(&drafts[written..]);
        recovery(&torn.branch[..before], &torn.branch[before..], &mut Probes::default()).expect("what was promised");
        assert_eq!((tokens(&torn), overlay(&torn.branch)), (measured, Vec::new()));
        assert_eq!(asked(&torn, Moment::TurnEnd), Verdict::Quiet);
    }
}

#[test]
fn promised_edits_are_written_beside_a_deferral_too() {
    let mut world = steps(&[10_000; 6]);
    let (_, drafts, _) = commit(asked(&world, Moment::TurnEnd));
    world.apply(&drafts[..2]);
    while tokens(&world) < 16_000 {
        world.custom(&lines(1_000));
    }
    let rest = Verdict::Recovery { drafts: drafts[2..].to_vec(), left: 0, deferral: Some("waiting".into()) };
    assert_eq!(asked(&world, Moment::TurnEnd), rest);
}

#[test]
fn a_foreign_edit_ends_a_promise_and_wins() {
    let mut world = steps(&[10_000; 6]);
    let (_, drafts, _) = commit(asked(&world, Moment::TurnEnd));
    world.apply(&drafts[..1]);
    let (lost, before) = (target(&drafts[1]).to_owned(), tokens(&world));
    foreign(&mut world, &lost);
    assert_eq!(edits_of(&overlay(&world.branch)), drafts[2..]);
    assert!(window(&world).iter().any(|shown| shown.contains("what somebody else says")));
    assert!(tokens(&world) < before, "it is shorter than the placeholder it replaces");
    // The promised words come too late now: they are anybody's.
    world.apply(&drafts[1..2]);
    assert_eq!(edits_of(&overlay(&world.branch)), drafts[2..]);
}

#[test]
fn the_same_edit_twice_changes_nothing() {
    let mut world = steps(&[10_000, 300, 2_000, 300, 9_000, 10_000, 2_500, 20_000, 9_000]);
    let (_, drafts, _) = commit(asked(&world, Moment::TurnEnd));
    world.apply(&drafts);
    world.answer("done", &[]);
    let before = (window(&world), tokens(&world));
    world.apply(&drafts[1..]);
    assert_eq!((window(&world), tokens(&world)), before);
    assert_eq!(asked(&world, Moment::TurnEnd), Verdict::Quiet, "the answer still follows the newest change");
}

#[test]
fn a_newer_record_takes_over_what_it_names_and_the_older_promises_are_written_first() {
    let pairs = settings(r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":4000},"toolFoldThreshold":0}"#);
    let mut world = steps(&[10_000, 300, 2_000, 300, 9_000, 10_000, 2_500, 20_000, 9_000]);
    let (_, older, _) = commit(decide(&world.branch, &pairs, WINDOW, Moment::TurnEnd));
    world.apply(&older[..1]);
    for _ in 0..6 {
        world.step(10_000);
    }
    world.answer("done", &[]);
    let (_, newer, left) = commit(decide(&world.branch, &pairs, WINDOW, Moment::TurnEnd));
    let named: Vec<String> =
        record(&newer)["edits"].as_array().expect("edits").iter().map(|edit| edit["target"].as_str().expect("an id").to_owned()).collect();
    let kept: Vec<&Draft> = older[1..].iter().filter(|draft| !named.contains(&target(draft).to_owned())).collect();
    assert!(!kept.is_empty() && kept.len() < older.len() - 1, "{} of {} stay", kept.len(), older.len() - 1);
    assert_eq!(newer[1..=kept.len()].iter().collect::<Vec<_>>(), kept);
    assert_eq!((newer[kept.len() + 1..].iter().map(target).collect::<Vec<_>>(), left), (named.iter().map(String::as_str).collect(), 0));
    world.apply(&newer[..1]);
    assert_eq!(edits_of(&overlay(&world.branch)), newer[1..]);
}

#[test]
fn a_compaction_ends_the_promises_whose_targets_it_leaves_out_even_where_a_later_one_brings_them_back() {
    let mut world = steps(&[10_000; 6]);
    let (_, drafts, _) = commit(asked(&world, Moment::TurnEnd));
    world.apply(&drafts[..1]);
    let (first, last) = (target(&drafts[1]).to_owned(), target(&drafts[drafts.len() - 1]).to_owned());
    let compact = |world: &mut World, kept: &str| {
        world.entry(&format!(r#""type":"compaction","summary":"so far","firstKeptEntryId":"{kept}","tokensBefore":1"#));
    };
    compact(&mut world, &last);
    assert_eq!(edits_of(&overlay(&world.branch)), drafts[drafts.len() - 1..]);
    compact(&mut world, &first);
    assert_eq!(edits_of(&overlay(&world.branch)), drafts[drafts.len() - 1..]);
    assert!(window(&world).iter().any(|shown| shown.starts_with(&first) && !shown.contains("pi-fold")));
}

#[test]
fn a_promise_whose_original_is_damaged_weighs_as_promised_and_is_not_written() {
    let mut world = steps(&[10_000; 6]);
    let (_, drafts, _) = commit(asked(&world, Moment::TurnEnd));
    world.apply(&drafts[..1]);
    let before = tokens(&world);
    let lost = world.branch.iter().position(|entry| entry.id() == target(&drafts[1])).expect("on the branch");
    world.branch[lost] = Entry::parse(&world.branch[lost].line().replace("a line", "b line")).expect("an entry");
    assert_eq!(edits_of(&overlay(&world.branch)), drafts[2..]);
    assert_eq!(tokens(&world), before);
    assert_eq!(asked(&world, Moment::TurnEnd), Verdict::Recovery { drafts: drafts[2..].to_vec(), left: 0, deferral: None });
}

#[test]
fn what_may_be_written_at_once_shrinks_with_the_branch_and_grows_before_the_agent_settles() {
    let mut world = World::new(1);
    for _ in 0..40_000 {
        world.entry(r#""type":"label""#);
    }
    world.user("go");
    for _ in 0..40 {
        world.step(1_500);
    }
    world.answer("done", &[]);
    let (_, all, left) = commit(asked(&world, Moment::Settling));
    assert!(all.len() > 50 && left == 0, "{} drafts", all.len());
    let (_, some, left) = commit(asked(&world, Moment::TurnEnd));
    assert_eq!((some.as_slice(), left), (&all[..25], all.len() - 25), "a record and 24 edits on 40,000 entries");
    world.apply(&some);
    assert_eq!(asked(&world, Moment::TurnEnd), Verdict::Recovery { drafts: all[25..49].to_vec(), left: all.len() - 49, deferral: None });
    assert_eq!(asked(&world, Moment::Settling), Verdict::Recovery { drafts: all[25..].to_vec(), left: 0, deferral: None });
}

#[test]
fn before_a_request_only_the_fence_acts_and_writes_its_record_alone() {
    let mut world = steps(&[10_000; 5]);
    assert!(tokens(&world) >= 16_000);
    assert_eq!(asked(&world, Moment::Request), Verdict::Quiet, "the band waits for a boundary");
    world.user(&lines(30_000));
    let (trigger, drafts, left) = commit(asked(&world, Moment::Request));
    assert_eq!((trigger.as_str(), drafts.len()), ("fence", 1));
    assert_eq!(left, record(&drafts)["edits"].as_array().expect("edits").len());
    world.apply(&drafts);
    assert_eq!(overlay(&world.branch).len(), left);
    assert!(matches!(asked(&world, Moment::TurnEnd), Verdict::Recovery { drafts, left: 0, .. } if drafts.len() == left));
}

#[test]
fn a_person_gets_every_mark_applied_and_no_boundary_to_write_them_at() {
    let mut world = steps(&[9_000, 9_000, 9_000]);
    assert_eq!(asked(&world, Moment::TurnEnd), Verdict::Quiet);
    let (trigger, drafts, left) = commit(asked(&world, Moment::Asked));
    let record = record(&drafts);
    // The last result may be the last word of a request.
    assert_eq!((trigger.as_str(), record["folds"].as_array().expect("folds").len(), drafts.len()), ("person", 2, 1));
    assert_eq!(left, record["edits"].as_array().expect("edits").len());
    world.apply(&drafts);
    assert_eq!(asked(&world, Moment::Asked), Verdict::Deferred("nothing ripe".into()));
}

#[test]
fn an_unread_result_of_300_000_bytes_is_cut_to_the_first_level_that_leaves_three_fifths_of_the_budget() {
    let mut world = World::new(1);
    world.user("read it");
    world.answer("yes", &[]);
    world.step(300_000);
    let (trigger, drafts, left) = commit(asked(&world, Moment::TurnEnd));
    let record = record(&drafts);
    assert_eq!((trigger.as_str(), drafts.len(), left), ("fence", 2, 0));
    assert!(record["folds"].as_array().expect("folds").is_empty(), "a commit without folds");
    let result = world.branch.iter().rfind(|entry| matches!(entry.kind(), Kind::Message(_))).expect("a result").id().to_owned();
    let clip: Vec<u64> = record["edits"][0]["clip"].as_array().expect("a clip").iter().map(|length| length.as_u64().expect("bytes")).collect();
    let ladder: Vec<u64> = std::iter::successors(Some(300_000), |level| Some(level * 3 / 4)).take(12).collect();
    let rung = ladder.iter().position(|level| *level == clip[0] + clip[1]).expect("a level");
    assert_eq!((target(&drafts[1]), clip[0]), (result.as_str(), 2 * ladder[rung] / 3));
    world.apply(&drafts);
    let after = tokens(&world);
    assert!(after <= 12_000 && after + (ladder[rung - 1] - ladder[rung]) / 4 > 12_000, "{after} tokens at {}", ladder[rung]);
    // It is no longer raw, so it is not cut again.
    assert_eq!(asked(&world, Moment::Refused), Verdict::Deferred("nothing ripe".into()));
}

#[test]
fn a_refused_request_is_cut_though_it_seemed_to_fit() {
    let mut world = World::new(1);
    world.user("read it");
    world.answer("yes", &[]);
    assert_eq!(asked(&world, Moment::Refused), Verdict::Deferred("nothing ripe".into()), "at three fifths already");
    world.user(&lines(50_000));
    assert_eq!(asked(&world, Moment::TurnEnd), Verdict::Quiet);
    let (trigger, drafts, _) = commit(asked(&world, Moment::Refused));
    assert_eq!((trigger.as_str(), drafts.len()), ("overflow", 2));
    world.apply(&drafts);
    assert!(tokens(&world) <= 12_000);
}

#[test]
fn a_blacklisted_result_joins_last_when_the_others_are_as_short_as_can_be() {
    let held = settings(r#"{"blacklistAutoFoldTools":["keep"]}"#);
    let clips = |bash: usize, keep: usize| {
        let mut world = World::new(1);
        world.user("read both");
        world.answer("yes", &[]);
        let call = |id: &str, tool: &str| (id.to_owned(), tool.to_owned(), "{}".to_owned());
        world.answer("", &[call("1", "keep"), call("2", "bash")]);
        let kept = world.result("1", "keep", &text(&lines(keep)), false);
        let other = world.result("2", "bash", &text(&lines(bash)), false);
        let (_, drafts, _) = commit(decide(&world.branch, &held, WINDOW, Moment::TurnEnd));
        let edits: Vec<serde_json::Value> = record(&drafts)["edits"].as_array().expect("edits").clone();
        let of = |id: &str| edits.iter().find(|edit| edit["target"] == id).map(|edit| edit["clip"].to_string());
        (of(&kept), of(&other))
    };
    let (kept, other) = clips(300_000, 20_000);
    assert!(kept.is_none() && other.is_some_and(|clip| clip != "[400,200]"));
    let (kept, other) = clips(300_000, 100_000);
    assert!(kept.is_some_and(|clip| clip != "[400,200]"));
    assert_eq!(other.as_deref(), Some("[400,200]"));
}

#[test]
fn a_session_of_which_no_promised_edit_was_ever_written_is_decided_like_the_one_that_wrote_them_all() {
    let habits = Habits {
        users: 300,
        heavy_users: 100,
        customs: 100,
        failures: 60,
        huge_calls: 30,
        irregular: 20,
        unmeasured: 100,
        images: 50,
        foreign: 20,
        switches: 5,
        ..Habits::default()
    };
    let options = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":2000},"blacklistAutoFoldTools":["keep"]}"#;
    let (settings, mut world, mut ours, mut commits) = (settings(options), World::new(7), BTreeSet::new(), 0);
    let (mut folds, mut probes) = (Folds::default(), Probes::default());
    for number in 0..120 {
        let session = Session::open(&world.branch, &settings, WINDOW).expect("a session");
        turn(&mut world, habits, &session);
        let mut torn = world.clone();
        for entry in torn.branch.iter_mut().filter(|entry| ours.contains(entry.id())) {
            // Not an edit, but in its place.
            *entry = Entry::parse(&entry.line().replace(r#""type":"context_edit""#, r#""type":"label""#)).expect("an entry");
        }
        assert_eq!(occupancy(&torn.branch, &settings, WINDOW), occupancy(&world.branch, &settings, WINDOW), "turn {number}");
        let Verdict::Commit { drafts, .. } = decide(&world.branch, &settings, WINDOW, Moment::TurnEnd) else { continue };
        assert_eq!(window(&torn), window(&world), "turn {number}");
        let (_, others, _) = commit(decide(&torn.branch, &settings, WINDOW, Moment::Settling));
        assert_eq!(others[0], drafts[0], "turn {number}: the same record");
        assert_eq!(others[others.len() - (drafts.len() - 1)..], drafts[1..], "turn {number}: the same edits, after those still owed");
        let from = world.branch.len();
        world.apply(&drafts);
        ours.extend(world.branch[from + 1..].iter().map(|entry| entry.id().to_owned()));
        commits += 1;
        let edit = |draft: &Draft| match draft {
            Draft::ContextEdit { target, replacement } => (target.clone(), replacement.clone()),
            _ => panic!("one record"),
        };
        let edits: Vec<(String, Option<String>)> = drafts[1..].iter().map(edit).collect();
        let position = |id: &str| world.branch.iter().position(|entry| entry.id() == id);
        let written = Commit { branch: &world.branch, record: from, edits: &edits, settings: &settings };
        folds.commit(written, &position, &mut probes).unwrap_or_else(|broken| panic!("turn {number}: {broken:?}"));
    }
    for probe in ["first-show clip of a result", "consolidation", "user message hidden"] {
        assert!(probes.count(probe) > 0, "{probe}");
    }
    assert!(commits >= 5, "{commits} commits are no test");
}
