//! The harness bites: each planted bug ends a swarm session with a violation of an invariant that names it.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_sim::sabotage::Sabotage;
use fold_sim::world::{Options, run};

/// The first violation within 2,000 seeds: invariant and seed.
fn caught(sabotage: Sabotage) -> Option<(&'static str, u64)> {
    let options = Options { sabotage: Some(sabotage), ..Options::default() };
    (0..2_000).find_map(|seed| {
        let (run, _) = run(&draw(Profile::Swarm, seed), Arm::Fold, options).expect("a plan that runs");
        run.violation.map(|violation| (violation.invariant, seed))
    })
}

/// `by` are the invariants that may catch it: the reference sees most of them first.
fn assert_caught(sabotage: Sabotage, by: &[&str]) {
    let (invariant, seed) = caught(sabotage).expect("a violation within 2,000 seeds");
    assert!(by.contains(&invariant), "{sabotage:?} was caught by {invariant} at seed {seed}, not by one of {by:?}");
}

#[test]
fn a_commit_that_drops_a_result_is_caught() {
    assert_caught(Sabotage::DropsResult, &["band", "conservation"]);
}

#[test]
fn a_placeholder_that_mentions_its_neighbour_is_caught() {
    assert_caught(Sabotage::NamesNeighbour, &["band", "no_carrier"]);
}

#[test]
fn a_mark_that_edits_the_window_is_caught() {
    assert_caught(Sabotage::MarkEdits, &["quiet"]);
}

#[test]
fn a_commit_below_the_trigger_is_caught() {
    assert_caught(Sabotage::CommitsBelowTrigger, &["band"]);
}

#[test]
fn a_digest_of_the_wrong_bytes_is_caught() {
    assert_caught(Sabotage::WrongDigest, &["band", "lossless"]);
}

#[test]
fn a_measurement_used_after_a_commit_is_caught() {
    assert_caught(Sabotage::StaleMeasurement, &["band", "resume"]);
}

#[test]
fn a_brief_over_its_bound_is_caught() {
    assert_caught(Sabotage::LongBrief, &["band", "bounded"]);
}

#[test]
fn a_placeholder_in_an_assistant_message_is_caught() {
    assert_caught(Sabotage::AssistantCarrier, &["band", "no_carrier", "wire_valid", "pairing", "conservation"]);
}

#[test]
fn a_stop_test_that_ignores_consolidation_is_caught() {
    assert_caught(Sabotage::IgnoresConsolidation, &["band"]);
}

#[test]
fn a_user_message_hidden_below_the_limit_is_caught() {
    assert_caught(Sabotage::HidesUser, &["band", "conservation"]);
}

#[test]
fn text_that_stands_unquoted_in_a_user_message_is_caught() {
    assert_caught(Sabotage::UnquotedText, &["band", "no_carrier", "lossless"]);
}

#[test]
fn an_edit_order_with_results_after_their_calls_is_caught() {
    assert_caught(Sabotage::ReversesEdits, &["band", "pairing"]);
}

#[test]
fn a_held_batch_that_is_folded_is_caught() {
    assert_caught(Sabotage::ForgetsHold, &["band", "held", "attributed"]);
}

#[test]
fn a_commit_that_stops_half_way_is_caught() {
    assert_caught(Sabotage::StopsEarly, &["band"]);
}

#[test]
fn a_request_over_the_fence_that_is_sent_is_caught() {
    assert_caught(Sabotage::SendsOverFence, &["fence"]);
}

#[test]
fn an_overlay_that_is_dropped_on_reload_is_caught() {
    assert_caught(Sabotage::ForgetsOverlay, &["durable", "attributed", "append_only", "pairing", "wire_valid"]);
}

#[test]
fn a_fold_across_a_pin_is_caught() {
    assert_caught(Sabotage::FoldsPin, &["band", "held", "fork"]);
}

#[test]
fn an_unmark_that_is_forgotten_is_caught() {
    assert_caught(Sabotage::ForgetsUnmark, &["band", "held", "fork"]);
}

#[test]
fn a_resume_that_forgets_a_brief_is_caught() {
    assert_caught(Sabotage::ForgetsBrief, &["band", "resume", "lossless"]);
}

#[test]
fn a_clip_of_a_held_result_is_caught() {
    assert_caught(Sabotage::ClipsHeld, &["band", "held", "conservation"]);
}

#[test]
fn a_pin_that_changes_a_shown_byte_is_caught() {
    assert_caught(Sabotage::PinEdits, &["quiet"]);
}

#[test]
fn a_peek_that_is_retired_before_it_was_read_is_caught() {
    assert_caught(Sabotage::RetiresUnread, &["band", "held", "conservation"]);
}

#[test]
fn a_foreign_edit_that_is_fought_is_caught() {
    assert_caught(Sabotage::Fights, &["band", "conservation", "attributed"]);
}

#[test]
fn a_damaged_second_copy_that_is_given_back_is_caught() {
    assert_caught(Sabotage::UncheckedCopy, &["lossless"]);
}

#[test]
fn a_refused_write_that_is_taken_for_done_is_caught() {
    assert_caught(Sabotage::TakenForSaved, &["durable"]);
}

#[test]
fn folding_that_goes_on_while_it_is_suspended_is_caught() {
    assert_caught(Sabotage::FoldsSuspended, &["suspension"]);
}

#[test]
fn a_suspension_that_a_person_cannot_end_is_caught() {
    assert_caught(Sabotage::SuspendsForEver, &["suspension", "resume"]);
}

#[test]
fn a_continuation_after_a_person_s_abort_is_caught() {
    assert_caught(Sabotage::ContinuesAborted, &["band", "progress"]);
}

#[test]
fn a_second_overflow_that_loops_is_caught() {
    assert_caught(Sabotage::RetriesAgain, &["band", "progress"]);
}

#[test]
fn a_session_that_keeps_its_old_settings_is_caught() {
    assert_caught(Sabotage::KeepsSettings, &["resume"]);
}

#[test]
fn a_dropped_boundary_that_is_tried_again_and_again_is_caught() {
    assert_caught(Sabotage::Insists, &["progress"]);
}

#[test]
fn a_compaction_of_the_host_s_that_is_let_through_where_folds_make_room_is_caught() {
    assert_caught(Sabotage::LetsHostCompact, &["fence"]);
}

#[test]
fn a_compaction_of_the_host_s_that_is_held_back_where_nothing_else_makes_room_is_caught() {
    assert_caught(Sabotage::HoldsBackForEver, &["fence"]);
}

/// The reference sees most bugs first; without it, each check catches what it names.
#[test]
fn the_other_checks_catch_what_they_name_without_the_reference() {
    for (sabotage, profile, seeds, invariants) in [
        (Sabotage::DropsResult, Profile::Steady, 3..4, &["conservation"][..]),
        (Sabotage::NamesNeighbour, Profile::Steady, 3..4, &["no_carrier"]),
        (Sabotage::MarkEdits, Profile::Steady, 3..4, &["quiet"]),
        (Sabotage::CommitsBelowTrigger, Profile::Steady, 3..4, &["band"]),
        (Sabotage::WrongDigest, Profile::Steady, 3..4, &["lossless"]),
        (Sabotage::LongBrief, Profile::Steady, 3..4, &["bounded"]),
        (Sabotage::AssistantCarrier, Profile::Steady, 3..4, &["conservation"]),
        (Sabotage::HidesUser, Profile::Chat, 0..1, &["conservation"]),
        (Sabotage::StaleMeasurement, Profile::Swarm, 0..200, &["resume"]),
        (Sabotage::UnquotedText, Profile::Swarm, 0..200, &["no_carrier"]),
        (Sabotage::ReversesEdits, Profile::Swarm, 0..200, &["pairing"]),
        (Sabotage::ForgetsHold, Profile::Swarm, 0..200, &["held"]),
        (Sabotage::StopsEarly, Profile::Campaign, 0..1, &["band"]),
        (Sabotage::SendsOverFence, Profile::Swarm, 0..200, &["fence"]),
        (Sabotage::ForgetsOverlay, Profile::Swarm, 0..200, &["attributed", "durable"]),
        (Sabotage::PinEdits, Profile::Swarm, 0..200, &["quiet"]),
        (Sabotage::ForgetsBrief, Profile::Swarm, 0..600, &["resume", "lossless"]),
        (Sabotage::FoldsPin, Profile::Swarm, 0..600, &["held"]),
        (Sabotage::ForgetsUnmark, Profile::Swarm, 0..600, &["held"]),
        (Sabotage::ClipsHeld, Profile::Swarm, 0..600, &["held", "conservation"]),
        (Sabotage::RetiresUnread, Profile::Swarm, 0..600, &["conservation", "held"]),
        (Sabotage::UncheckedCopy, Profile::Swarm, 0..200, &["lossless"]),
        (Sabotage::TakenForSaved, Profile::Swarm, 0..200, &["durable"]),
        (Sabotage::FoldsSuspended, Profile::Swarm, 0..600, &["suspension"]),
        (Sabotage::SuspendsForEver, Profile::Swarm, 0..600, &["suspension", "resume"]),
        (Sabotage::ContinuesAborted, Profile::Swarm, 0..600, &["progress"]),
        (Sabotage::RetriesAgain, Profile::Swarm, 0..600, &["progress"]),
        (Sabotage::KeepsSettings, Profile::Swarm, 0..200, &["resume"]),
        (Sabotage::Insists, Profile::Swarm, 0..600, &["progress"]),
        (Sabotage::LetsHostCompact, Profile::Swarm, 0..600, &["fence"]),
        (Sabotage::HoldsBackForEver, Profile::Swarm, 0..600, &["fence"]),
    ] {
        let options = Options { sabotage: Some(sabotage), without_reference: true, ..Options::default() };
        let first = seeds.clone().find_map(|seed| run(&draw(profile, seed), Arm::Fold, options).expect("a plan that runs").0.violation);
        let found = first.unwrap_or_else(|| panic!("{sabotage:?} was not caught"));
        assert!(invariants.contains(&found.invariant), "{sabotage:?} broke {}: expected {}, seen {}", found.invariant, found.expected, found.seen);
    }
}

/// In the arm that masks, with the reference and without it.
#[test]
fn every_bug_of_masking_is_caught_by_what_names_it() {
    for (sabotage, by, alone) in [
        (Sabotage::MasksExcluded, &["band", "held"][..], &["held"][..]),
        (Sabotage::MasksRecent, &["band", "held"], &["held"]),
        (Sabotage::MasksAgain, &["band", "held"], &["held"]),
        (Sabotage::MasksEarly, &["band"], &["band"]),
        (Sabotage::MasksUnderWrongCall, &["attributed"], &["attributed"]),
    ] {
        for (without_reference, invariants) in [(false, by), (true, alone)] {
            let options = Options { sabotage: Some(sabotage), without_reference, ..Options::default() };
            let mut seeds = (0..600).map(|seed| run(&draw(Profile::Swarm, seed), Arm::Mask, options).expect("a plan that runs").0.violation);
            let found = seeds.find_map(|found| found).unwrap_or_else(|| panic!("{sabotage:?} was not caught"));
            assert!(
                invariants.contains(&found.invariant),
                "{sabotage:?} broke {}: expected {}, seen {}",
                found.invariant,
                found.expected,
                found.seen
            );
        }
    }
}

#[test]
fn an_expand_of_a_changed_source_is_caught() {
    assert_caught(Sabotage::ExpandsUnchecked, &["no_op"]);
}

#[test]
fn a_notice_that_nobody_asked_for_is_caught() {
    assert_caught(Sabotage::NoticesUnasked, &["band", "no_carrier"]);
}

#[test]
fn an_expansion_that_is_folded_again_before_it_is_due_is_caught() {
    assert_caught(Sabotage::RefoldsEarly, &["band", "held"]);
}
