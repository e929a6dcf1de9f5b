//! What a run must be, whatever happens in it.

use fold_invariants::owed::Arm;
use fold_invariants::probes::OF_MASKING;
use fold_models::agent::{Op, Plan, Profile, draw};
use fold_models::wire::{Reader, Rule, Terms, Wire};
use fold_sim::run::{Summary, plan, seed, smallest, trace};
use fold_sim::sabotage::Sabotage;
use fold_sim::sent::record;
use fold_sim::world::Options;
use std::collections::BTreeSet;

#[test]
fn the_same_seed_has_the_same_digest_in_whatever_order_seeds_are_run() {
    let digest = |seeds: &mut dyn Iterator<Item = u64>| {
        let mut summary = Summary::default();
        for at in seeds {
            summary.add(at, seed(Profile::Swarm, at, &Arm::USUAL, Options::default()).expect("runs"));
        }
        assert!(summary.found.is_empty(), "{:?}", summary.found);
        summary.digest()
    };
    assert_eq!(digest(&mut (0..6)), digest(&mut (0..6).rev()));
    assert_ne!(digest(&mut (0..6)), digest(&mut (0..7)));
}

#[test]
fn a_plan_that_was_stored_and_read_runs_the_same() {
    let drawn = draw(Profile::Swarm, 11);
    let text = serde_json::to_string(&drawn).expect("a plan is JSON");
    let read = fold_models::agent::Plan::parse(&text).expect("a stored plan");
    let digests = |drawn| plan(drawn, &Arm::USUAL, Options::default()).expect("runs").into_iter().map(|run| run.digest).collect::<Vec<_>>();
    assert_eq!(digests(&drawn), digests(&read));
}

/// The store is read where the journal lost a line, and nowhere else.
#[test]
fn a_disk_that_goes_wrong_changes_no_window_and_no_decision() {
    let broken = |op: &Op| matches!(op, Op::Disk { .. } | Op::Rot { .. });
    let plans = (0..).map(|seed| draw(Profile::Swarm, seed)).filter(|plan| plan.ops.iter().filter(|op| broken(op)).count() > 2);
    for drawn in plans.take(12) {
        let mut sound = drawn.clone();
        sound.ops.iter_mut().filter(|op| broken(op)).for_each(|op| *op = Op::Disk { fault: None });
        let digest = |of: &Plan| plan(of, &[Arm::Fold], Options::default()).expect("runs")[0].digest.clone();
        assert_eq!(digest(&drawn), digest(&sound), "seed {}", drawn.seed);
    }
}

#[test]
fn tracing_changes_nothing() {
    let drawn = draw(Profile::Swarm, 11);
    let (traced, steps) = trace(&drawn, Arm::Fold, None).expect("runs");
    let plain = plan(&drawn, &[Arm::Fold], Options::default()).expect("runs");
    assert_eq!(traced.digest, plain[0].digest);
    assert!(steps.len() > 10, "{} steps", steps.len());
}

#[test]
fn a_failing_plan_shrinks_to_one_that_breaks_the_same_invariant() {
    let options = Options { sabotage: Some(Sabotage::WrongDigest), ..Options::default() };
    let drawn = draw(Profile::Steady, 3);
    let run = &plan(&drawn, &[Arm::Fold], options).expect("runs")[0];
    let violation = run.violation.clone().expect("a violation");
    let small = smallest(drawn.clone(), &violation, options, 200);
    assert!(small.ops.len() * 3 < drawn.ops.len(), "{} of {} operations are left", small.ops.len(), drawn.ops.len());
    let again = &plan(&small, &[Arm::Fold], options).expect("runs")[0];
    assert_eq!(again.violation.as_ref().map(|violation| violation.invariant), Some(violation.invariant));
}

/// Even seeds clip nothing: the newest work stays raw, and the published rule holds.
#[test]
fn the_campaign_rewrites_once_for_each_commit_and_lands_between_fifteen_and_twenty_per_cent() {
    let drawn = draw(Profile::Campaign, 0);
    let run = &plan(&drawn, &[Arm::Fold], Options::default()).expect("runs")[0];
    assert_eq!(run.violation, None);
    let report = &run.report;
    assert!(report.commits >= 5);
    // After the last question the peeks at its facts make way.
    assert_eq!(report.rewrites.get("commit"), Some(&report.commits));
    assert!(report.rewrites.keys().all(|cause| ["commit", "peek retired"].contains(cause)), "{:?}", report.rewrites);
    let (least, most) = report.after_ppm.expect("commits that reach their target");
    assert!((150_000..=200_000).contains(&least) && (150_000..=200_000).contains(&most), "{least} to {most}");
    let later = &report.commits_in_detail[1..];
    let sum = |figure: fn(&fold_sim::report::Rewrite) -> u64| later.iter().map(figure).sum::<u64>();
    let measured = sum(|commit| commit.resent) * 1_000_000 / sum(|commit| commit.appended);
    let ruled = sum(|commit| commit.after - commit.prefix) * 1_000_000 / sum(|commit| commit.before - commit.after);
    assert!(measured.abs_diff(ruled) * 20 <= ruled, "measured {measured}, by the rule {ruled} millionths");
}

/// With the published settings the last resort is never asked for.
#[test]
fn the_campaign_is_masked_in_rare_batches_and_never_compacted() {
    let drawn = draw(Profile::Campaign, 0);
    let run = &plan(&drawn, &[Arm::Mask], Options::default()).expect("runs")[0];
    assert_eq!(run.violation, None);
    let report = &run.report;
    assert!((5..=20).contains(&report.commits) && report.stops.is_empty(), "{} batches", report.commits);
    assert_eq!(report.rewrites.iter().collect::<Vec<_>>(), [(&"mask", &report.commits)]);
    assert!(report.peak <= drawn.window * 65 / 100, "peak {}", report.peak);
}

#[test]
fn the_arm_that_masks_meets_every_path_of_its_own() {
    let mut summary = Summary::default();
    for at in 0..300 {
        summary.add(at, seed(Profile::Swarm, at, &[Arm::Mask], Options::default()).expect("runs"));
    }
    assert!(summary.found.is_empty(), "{:?}", summary.found);
    assert_eq!(summary.probes.missed(&OF_MASKING), Vec::<&str>::new());
}

#[test]
fn a_chat_is_held_at_every_budget() {
    for seed in 0..3 {
        let drawn = draw(Profile::Chat, seed);
        let run = &plan(&drawn, &[Arm::Fold], Options::default()).expect("runs")[0];
        assert_eq!(run.violation, None);
        assert!(run.report.stops.is_empty() && run.report.peak <= drawn.window, "at {} tokens: peak {}", drawn.window, run.report.peak);
        assert_eq!(run.report.totals.requests, 800);
    }
}

/// Two wires refuse a request that begins with an answer; a fold at the head of a session hid every user message before the first call.
#[test]
fn a_fold_at_the_head_leaves_the_first_words_of_a_person() {
    {
        let stored = Plan::parse(include_str!("plans/first-not-user-163.json")).expect("a stored plan");
        let sent = record(&stored, Arm::Fold).expect("runs");
        let mut window = Vec::new();
        let mut refused: BTreeSet<Wire> = BTreeSet::new();
        for request in sent {
            window.truncate(request.from);
            window.extend(request.messages);
            let errors = Reader::default().judge(&window, &Terms::new(request.window));
            refused.extend(errors.iter().filter(|error| error.rule == Rule::FirstNotUser).map(|error| error.wire));
        }
        assert!(refused.is_empty() && window.len() > 1, "seed {}: {refused:?}", stored.seed);
    }
}

/// Another extension wrote over a result something that looks like a placeholder: it is no fold's, and the map is not asked for it.
#[test]
fn what_another_extension_writes_in_the_manner_of_a_placeholder_is_no_placeholder() {
    let stored = Plan::parse(include_str!("plans/foreign-placeholder-547551.json")).expect("a stored plan");
    let run = &plan(&stored, &[Arm::Fold], Options::default()).expect("runs")[0];
    assert_eq!(run.violation, None);
}
