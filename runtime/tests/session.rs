//! What a host sees of a session: quiet below the band, one commit at it, originals back byte for byte.

use fold_runtime::agent::{Action, act};
use fold_runtime::config::Settings;
use fold_runtime::fold::{FoldKind, FoldName};
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::ports::{ObjectStore, StoreError};
use fold_runtime::session::{
    COMMIT_RECORD, Category, Commit, DECISION, Decided, Decision, Deferral, Draft, Moment, OverFence, RecoverError, Saved, Session, Trigger,
};
use fold_runtime::window::{Size, projection};
use std::collections::{BTreeMap, BTreeSet};

/// An endless turn: one question, then batches of one result of `bytes` each. No usage: the estimate alone must fire.
fn endless(batches: usize, bytes: usize) -> Vec<Entry> {
    let mut lines = vec![r#"{"type":"message","id":"u","message":{"role":"user","content":"go"}}"#.to_owned()];
    for batch in 0..batches {
        lines.push(format!(r#"{{"type":"message","id":"a{batch}","message":{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"c{batch}","name":"read","arguments":{{"path":"f{batch}"}}}}]}}}}"#));
        lines.push(format!(r#"{{"type":"message","id":"r{batch}","message":{{"role":"toolResult","toolCallId":"c{batch}","toolName":"read","content":[{{"type":"text","text":"{batch} {}"}}]}}}}"#, "x".repeat(bytes)));
    }
    lines.iter().map(|line| Entry::parse(line).expect("an entry")).collect()
}

fn open(branch: &[Entry]) -> Session {
    Session::open(branch, &Settings::default(), 20_000).expect("a session")
}

fn commit(session: &Session) -> Commit {
    match session.boundary(Moment::TurnEnd) {
        Decision::Commit(commit) => commit,
        other => panic!("a commit, not {other:?}"),
    }
}

fn written(drafts: &[Draft]) -> Vec<Entry> {
    let line = |(index, draft): (usize, &Draft)| format!(r#"{{{},"id":"d{index}"}}"#, draft.fields());
    drafts.iter().enumerate().map(line).map(|line| Entry::parse(&line).expect("an entry")).collect()
}

#[test]
fn below_the_band_nothing_happens_and_at_it_one_commit_does() {
    let branch = endless(6, 8_000);
    assert_eq!(open(&branch).boundary(Moment::TurnEnd), Decision::Quiet);
    let session = open(&endless(8, 8_000));
    let commit = commit(&session);
    // All ripe batches but the newest, which no answer has followed yet.
    assert_eq!((commit.folds, commit.trigger), (7, Trigger::Band));
    assert!(commit.before >= 16_000 && commit.after <= commit.target, "{} to {} of {}", commit.before, commit.after, commit.target);
    let Draft::Custom { custom_type, .. } = &commit.drafts[0] else { panic!("the record comes first") };
    assert_eq!(*custom_type, COMMIT_RECORD);
}

#[test]
fn every_original_comes_back_byte_for_byte_also_after_a_reopen() {
    let mut branch = endless(8, 8_000);
    let commit = commit(&open(&branch));
    branch.extend(written(&commit.drafts));
    let session = open(&branch);
    let mut recovered = BTreeSet::new();
    for (fold, _) in session.folds() {
        recovered.extend(session.recover(fold, None).expect("whole").into_iter().map(|original| original.line));
    }
    let expected: BTreeSet<String> =
        branch.iter().filter(|entry| (0..7).any(|batch| entry.id() == format!("r{batch}"))).map(|entry| entry.line().to_owned()).collect();
    assert!(recovered == expected, "{} originals came back, {} were folded", recovered.len(), expected.len());
}

#[test]
fn a_changed_original_is_refused_and_named() {
    let mut branch = endless(8, 8_000);
    let commit = commit(&open(&branch));
    branch.extend(written(&commit.drafts));
    branch[2] = Entry::parse(&branch[2].line().replace("\"text\":\"0 x", "\"text\":\"0 y")).expect("an entry");
    let session = open(&branch);
    let fold = session.folds().map(|(id, _)| id.to_owned()).find(|id| session.recover(id, None).is_err()).expect("a damaged fold");
    assert_eq!(session.recover(&fold, None).unwrap_err(), RecoverError::Damaged { fold, entry: "r0".into() });
    assert!(matches!(session.recover("f_nowhere", None), Err(RecoverError::Unknown(_))));
}

#[test]
fn after_a_commit_the_band_waits_for_an_answer_and_then_for_new_work() {
    let mut branch = endless(8, 8_000);
    let first = commit(&open(&branch));
    branch.extend(written(&first.drafts));
    assert_eq!(open(&branch).boundary(Moment::TurnEnd), Decision::Quiet);
    // A provider that insists the window is full: only more work may rewrite it again.
    let answer = |id: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","message":{{"role":"assistant","stopReason":"stop","content":[{{"type":"text","text":"ok"}}],"usage":{{"input":16500,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":16501}}}}}}"#
        )
    };
    branch.push(Entry::parse(&answer("z1")).expect("an entry"));
    assert_eq!(open(&branch).boundary(Moment::TurnEnd), Decision::Deferred(Deferral::Rearm));
}

#[test]
fn an_entry_that_somebody_else_edited_is_left_alone() {
    let mut branch = endless(8, 8_000);
    branch.push(Entry::parse(r#"{"type":"context_edit","id":"theirs","targetId":"r0","replacement":{"content":"short"}}"#).expect("an edit"));
    branch.extend(endless(12, 8_000).into_iter().skip(17));
    let commit = commit(&open(&branch));
    assert!(commit.drafts.iter().all(|draft| !matches!(draft, Draft::ContextEdit { target, .. } if target == "r0")));
}

#[test]
fn a_record_that_names_other_parts_than_its_id_is_no_record() {
    let mut branch = endless(8, 8_000);
    let drafts = commit(&open(&branch)).drafts;
    let forged: Vec<Entry> =
        written(&drafts).iter().map(|entry| Entry::parse(&entry.line().replace("[\"r0\",", "[\"r7\",")).expect("an entry")).collect();
    branch.extend(forged);
    assert_eq!(open(&branch).folds().count(), 0);
}

/// What the host shows: the newest edit of each target on the branch, and the overlay over it.
fn edited(branch: &[Entry], session: &Session) -> std::collections::BTreeMap<String, Option<String>> {
    let mut shown = std::collections::BTreeMap::new();
    for entry in branch {
        if let fold_runtime::journal::Kind::ContextEdit { target, .. } = entry.kind() {
            shown.insert(target.to_string(), entry.replacement().map(|content| content.raw().to_owned()));
        }
    }
    shown.extend(session.overlay().into_iter().map(|(id, content)| (id.to_owned(), content.map(str::to_owned))));
    shown
}

/// Long enough that groups are consolidated in the commit, with a person's message in between.
fn consolidated() -> Vec<Entry> {
    let mut branch = endless(30, 8_000);
    let question = r#"{"type":"message","id":"q","message":{"role":"user","content":"and then?"}}"#;
    branch.insert(21, Entry::parse(question).expect("an entry"));
    branch
}

#[test]
fn a_commit_cut_off_after_any_draft_shows_the_same_window_and_is_finished_at_the_next_boundary() {
    let branch = consolidated();
    let commit = commit(&open(&branch));
    assert!(commit.parents > 0 && commit.clips + commit.folds > 10);
    let all = written(&commit.drafts);
    let whole = [&branch[..], &all].concat();
    let finished = open(&whole);
    let expected = edited(&whole, &finished);
    assert!(finished.overlay().is_empty() && finished.boundary(Moment::TurnEnd) == Decision::Quiet);
    for cut in 1..all.len() {
        let torn = [&branch[..], &all[..cut]].concat();
        let session = open(&torn);
        assert_eq!(edited(&torn, &session), expected, "after {cut} drafts");
        assert_eq!((session.occupancy(), session.shown(), session.index_bytes()), (finished.occupancy(), finished.shown(), finished.index_bytes()));
        let Decision::Recovery(recovery) = session.boundary(Moment::TurnEnd) else { panic!("the rest, after {cut} drafts") };
        assert_eq!((recovery.left, recovery.deferral), (0, None));
        assert_eq!(recovery.drafts, commit.drafts[cut..], "after {cut} drafts");
    }
}

#[test]
fn outside_a_run_only_the_record_is_written_and_the_overlay_shows_the_rest() {
    let branch = consolidated();
    let Decision::Commit(asked) = open(&branch).boundary(Moment::Asked) else { panic!("a person's commit") };
    assert_eq!((asked.trigger, asked.drafts.len()), (Trigger::Person, 1));
    let torn = [&branch[..], &written(&asked.drafts)].concat();
    let session = open(&torn);
    assert_eq!((session.overlay().len(), session.unwritten()), (asked.left, asked.left));
    assert_eq!(session.boundary(Moment::Request), Decision::Quiet);
}

#[test]
fn a_long_branch_gets_few_edits_at_a_boundary_and_more_before_it_settles() {
    assert_eq!([Moment::TurnEnd, Moment::Settling, Moment::Request].map(|moment| moment.edits(20_000)), [50, 500, 0]);
    assert_eq!([100, 100_000].map(|entries| Moment::TurnEnd.edits(entries)), [10_000, 20]);
}

#[test]
fn another_edit_ends_a_promise_and_the_same_edit_twice_changes_nothing() {
    let branch = consolidated();
    let commit = commit(&open(&branch));
    let all = written(&commit.drafts);
    let again = Entry::parse(&all[1].line().replace("\"id\":\"d1\"", "\"id\":\"twice\"")).expect("an edit");
    let whole = [&branch[..], &all].concat();
    let twice = [&whole[..], &[again]].concat();
    assert_eq!((open(&twice).occupancy(), open(&twice).boundary(Moment::TurnEnd)), (open(&whole).occupancy(), Decision::Quiet));
    let torn = [&branch[..], &all[..1]].concat();
    let target = open(&torn).overlay()[0].0.to_owned();
    let theirs = format!(r#"{{"type":"context_edit","id":"theirs","targetId":"{target}","replacement":{{"content":"mine"}}}}"#);
    let torn = [&torn[..], &[Entry::parse(&theirs).expect("an edit")]].concat();
    assert!(open(&torn).overlay().iter().all(|(id, _)| *id != target));
}

#[test]
fn a_damaged_original_is_not_shown_as_something_else() {
    let mut branch = consolidated();
    let commit = commit(&open(&branch));
    branch.push(written(&commit.drafts).swap_remove(0));
    let before = open(&branch).overlay().len();
    branch[1] = Entry::parse(&branch[1].line().replace("\"path\":\"f0\"", "\"path\":\"zz\"")).expect("an entry");
    let session = open(&branch);
    assert!(session.unkeepable().len() == 1 && session.overlay().len() == before - 1, "{:?}", session.unkeepable());
}

#[test]
fn before_a_request_over_the_fence_what_was_never_read_is_clipped_and_the_record_alone_is_written() {
    // A batch with a megabyte in it: nothing ripe would make room.
    let mut branch = endless(2, 1_500);
    branch.extend(endless(3, 1_000_000).into_iter().skip(5));
    let session = open(&branch);
    assert!(session.fence().is_err());
    let Decision::Commit(commit) = session.boundary(Moment::Request) else { panic!("a commit") };
    assert_eq!((commit.trigger, commit.drafts.len(), commit.clips), (Trigger::Fence, 1, 1));
    let torn = [&branch[..], &written(&commit.drafts)].concat();
    let session = open(&torn);
    assert_eq!(session.fence(), Ok(()));
    assert!(session.occupancy() <= 12_000 && session.overlay()[0].0 == "r2", "{}", session.occupancy());
}

#[test]
fn a_call_that_nothing_may_clip_is_stopped_at_the_fence_and_named() {
    let mut branch = endless(2, 300);
    let call = branch[3].line().replace("\"path\":\"f1\"", &format!("\"content\":\"{}\"", "y".repeat(200_000)));
    branch[3] = Entry::parse(&call).expect("an entry");
    let session = open(&branch);
    assert!(matches!(session.boundary(Moment::Request), Decision::Deferred(Deferral::NothingRipe)));
    let OverFence { largest, .. } = session.fence().unwrap_err();
    assert_eq!(largest.expect("an entry").0, "a1");
}

#[test]
fn a_refused_request_folds_and_clips_below_the_band_too() {
    let branch = endless(6, 8_000);
    let Decision::Commit(commit) = open(&branch).boundary(Moment::Refused) else { panic!("a commit") };
    assert_eq!(commit.trigger, Trigger::Overflow);
    assert!(commit.folds > 0);
}

/// The branch with a decision at its end.
fn decided(branch: &[Entry], decision: &Decided) -> Vec<Entry> {
    let line = format!(r#"{{"type":"custom","id":"decision{}","customType":"{DECISION}","data":{}}}"#, branch.len(), decision.data());
    [branch, &[Entry::parse(&line).expect("a decision")]].concat()
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn folded(commit: &Commit) -> BTreeSet<String> {
    let edits = commit.drafts.iter().filter_map(|draft| if let Draft::ContextEdit { target, .. } = draft { Some(target.clone()) } else { None });
    edits.collect()
}

#[test]
fn what_is_pinned_stays_until_it_is_unpinned_and_an_unripe_unit_can_be_pinned() {
    let branch = endless(8, 8_000);
    let pinned = decided(&branch[..15], &Decided::Pin { units: ids(&["a2", "a6"]), folds: Vec::new() });
    let pinned = [&pinned[..], &branch[15..]].concat();
    let first = commit(&open(&pinned));
    assert_eq!((first.folds, folded(&first).contains("r2"), folded(&first).contains("r6")), (5, false, false));
    let unpinned = decided(&pinned, &Decided::Unpin { units: ids(&["a2"]), folds: Vec::new() });
    assert!(folded(&commit(&open(&unpinned))).contains("r2"));
}

#[test]
fn a_mark_that_was_withdrawn_waits_for_the_next_commit_of_the_band_unless_there_is_no_room() {
    let branch = decided(&endless(8, 8_000), &Decided::Unmark { units: ids(&["a0", "a1"]) });
    let first = commit(&open(&branch));
    assert_eq!((first.folds, folded(&first).contains("r0")), (5, false));
    let Decision::Commit(urgent) = open(&branch).boundary(Moment::Refused) else { panic!("a commit") };
    assert!(folded(&urgent).contains("r0"));
    let after = [&branch[..], &written(&first.drafts)].concat();
    let Decision::Commit(asked) = open(&after).boundary(Moment::Asked) else { panic!("what was withdrawn is due again") };
    let after = [&after[..], &written(&asked.drafts)].concat();
    assert_eq!(open(&after).folds().count(), 7);
}

#[test]
fn a_cut_that_was_agreed_on_is_folded_as_agreed_and_says_what_was_supplied() {
    let branch = endless(8, 8_000);
    let brief = Some("read f2 and f3: nothing in them".to_owned());
    let branch = decided(&branch, &Decided::Cut { units: ids(&["a2", "a3"]), brief });
    let session = open(&branch);
    assert_eq!(session.marks(), 6);
    let made = commit(&session);
    assert_eq!(made.folds, 6);
    let says = |draft: &&Draft| matches!(draft, Draft::ContextEdit { replacement: Some(content), .. } if content.contains("nothing in them"));
    assert_eq!(made.drafts.iter().filter(says).count(), 1);
    // The record alone is enough to show it again.
    let torn = [&branch[..], &written(&made.drafts[..1])].concat();
    let session = open(&torn);
    assert!(
        session.unkeepable().is_empty()
            && session.overlay().iter().any(|(_, content)| content.as_ref().is_some_and(|text| text.contains("nothing in them")))
    );
}

#[test]
fn a_decision_that_names_what_is_not_there_changes_nothing() {
    let branch = endless(8, 8_000);
    let expected = open(&branch).boundary(Moment::TurnEnd);
    for wrong in [
        Decided::Pin { units: ids(&["a2", "nowhere"]), folds: Vec::new() },
        Decided::Pin { units: Vec::new(), folds: ids(&["f_000000000000"]) },
        Decided::Unmark { units: ids(&["r2"]) },
        Decided::Unmark { units: ids(&["a7"]) },
        Decided::Cut { units: ids(&["a2", "a4"]), brief: None },
        Decided::Cut { units: Vec::new(), brief: None },
    ] {
        assert_eq!(open(&decided(&branch, &wrong)).boundary(Moment::TurnEnd), expected, "{wrong:?}");
    }
}

/// The branch with an edit of somebody else's at its end.
fn theirs(branch: &[Entry], target: &str, content: Option<&str>) -> Vec<Entry> {
    let replacement = content.map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
    let line = format!(r#"{{"type":"context_edit","id":"theirs{}","targetId":"{target}","replacement":{replacement}}}"#, branch.len());
    [branch, &[Entry::parse(&line).expect("an edit")]].concat()
}

fn recovery(branch: &[Entry]) -> (Vec<Entry>, Vec<(String, Option<String>)>) {
    let Decision::Commit(commit) = open(branch).boundary(Moment::Request) else { panic!("a recovery") };
    assert_eq!((commit.trigger, commit.folds, commit.drafts.len()), (Trigger::Recovery, 0, 1));
    let branch = [branch, &written(&commit.drafts)].concat();
    let session = open(&branch);
    assert_eq!(session.boundary(Moment::Request), Decision::Quiet, "nothing is torn any more");
    let overlay = session.overlay().into_iter().map(|(id, content)| (id.to_owned(), content.map(str::to_owned))).collect();
    (branch, overlay)
}

#[test]
fn a_result_shown_without_its_call_is_hidden_again_once_and_then_its_call_is_shown_too() {
    let branch = consolidated();
    let made = commit(&open(&branch));
    let branch = [&branch[..], &written(&made.drafts)].concat();
    // A batch in the middle of a parent: its call and its result are hidden.
    let hidden = |id: &str| made.drafts.iter().any(|draft| matches!(draft, Draft::ContextEdit { target, replacement: None } if target == id));
    let batch = (0..29).find(|batch| hidden(&format!("a{batch}")) && hidden(&format!("r{batch}"))).expect("a hidden batch");
    let (call, result) = (format!("a{batch}"), format!("r{batch}"));
    let (branch, overlay) = recovery(&theirs(&branch, &result, Some("\"mine\"")));
    assert_eq!(overlay, [(result.clone(), None)]);
    let again = theirs(&branch, &result, Some("\"mine\""));
    let (_, overlay) = recovery(&again);
    let own = branch.iter().find(|entry| entry.id() == call).expect("the call").content().raw().to_owned();
    assert_eq!(overlay, [(call, Some(own))]);
}

#[test]
fn a_placeholder_that_was_omitted_is_shown_again_once_and_one_that_was_replaced_in_the_next_commit() {
    let branch = endless(8, 8_000);
    let made = commit(&open(&branch));
    let branch = [&branch[..], &written(&made.drafts)].concat();
    let (again, overlay) = recovery(&theirs(&branch, "r1", None));
    assert!(overlay.len() == 1 && overlay[0].1.as_ref().is_some_and(|content| content.contains("tool fold")), "{overlay:?}");
    let (_, overlay) = recovery(&theirs(&again, "r1", None));
    assert_eq!(overlay, [("a1".to_owned(), None)]);
    // Replaced: nothing is torn; the next commit says once more what stands there.
    let branch = theirs(&branch, "r1", Some("\"mine\""));
    let more = endless(20, 8_000).into_iter().skip(17).collect::<Vec<_>>();
    let branch = [&branch[..], &more[..14]].concat();
    let next = commit(&open(&branch));
    assert!(folded(&next).contains("r1"));
    let branch = theirs(&[&branch[..], &written(&next.drafts)].concat(), "r1", Some("\"mine\""));
    let branch = [&branch[..], &more[14..]].concat();
    if let Decision::Commit(third) = open(&branch).boundary(Moment::Asked) {
        assert!(!folded(&third).contains("r1"));
    }
}

/// A batch of our own tool that peeked at this entry.
fn peeked(branch: &[Entry], name: &str, id: &str) -> Vec<Entry> {
    use fold_runtime::agent::{Peek, peek};
    let text = peek(&open(branch), &Peek { bytes: 60_000, ..Peek::of(id) }, None, u64::MAX).expect("a peek");
    let text = serde_json::to_string(&text).expect("a string");
    let lines = [
        format!(
            r#"{{"type":"message","id":"{name}a","message":{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"{name}c","name":"pi_fold_context","arguments":{{}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"message","id":"{name}r","message":{{"role":"toolResult","toolCallId":"{name}c","toolName":"pi_fold_context","content":[{{"type":"text","text":{text}}}]}}}}"#
        ),
    ];
    let lines = lines.iter().map(|line| Entry::parse(line).expect("an entry"));
    branch.iter().cloned().chain(lines).collect()
}

#[test]
fn a_peek_that_was_read_makes_way_for_its_line_at_once_where_little_stands_behind_it() {
    let branch = peeked(&endless(3, 8_000), "p", "r0");
    assert_eq!(open(&branch).boundary(Moment::TurnEnd), Decision::Quiet, "nobody has read it");
    let read = [&branch[..], &endless(4, 100)[7..]].concat();
    let Decision::Commit(retired) = open(&read).boundary(Moment::TurnEnd) else { panic!("a retirement") };
    assert_eq!((retired.trigger, retired.drafts.len(), retired.folds), (Trigger::Peek, 2, 0));
    let Draft::ContextEdit { target, replacement: Some(content) } = &retired.drafts[1] else { panic!("an edit") };
    assert!(target == "pr" && content.contains("pi-fold peeked") && content.len() < 300, "{content}");
    let torn = [&read[..], &written(&retired.drafts[..1])].concat();
    assert_eq!(open(&torn).overlay(), [("pr", Some(content.as_str()))]);
    // Too much behind it: it waits for the next commit, which retires it or folds it.
    let far = [&branch[..], &endless(5, 8_000)[7..]].concat();
    assert_eq!(open(&far).boundary(Moment::TurnEnd), Decision::Quiet);
    let pinned = decided(&branch, &Decided::Pin { units: ids(&["pa"]), folds: Vec::new() });
    let pinned = [&pinned[..], &endless(4, 100)[7..]].concat();
    assert_eq!(open(&pinned).boundary(Moment::TurnEnd), Decision::Quiet, "a pinned peek stays");
}

#[test]
fn the_next_commit_retires_a_peek_that_no_fold_hides() {
    let mut branch = peeked(&endless(6, 8_000), "p", "r0");
    branch = [&branch[..], &endless(9, 8_000)[13..]].concat();
    let settings =
        Settings::parse(r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.5,"consolidateAfter":10,"minFoldChars":8000}}"#).expect("settings");
    let session = Session::open(&branch, &settings, 20_000).expect("a session");
    let Decision::Commit(made) = session.boundary(Moment::TurnEnd) else { panic!("a commit") };
    assert!(made.folds < 6 && folded(&made).contains("pr"), "{} folds", made.folds);
}

/// The branch with a record at its end that makes these folds (kind, parts, children by their place in the list) and promises one edit.
fn forged(branch: &[Entry], folds: &[(FoldKind, &[&str], &[usize])], edit: &str) -> Vec<Entry> {
    let digest = |id: &str| branch.iter().find(|entry| entry.id() == id).expect("an entry").digest();
    let mut made: Vec<(String, FoldName)> = Vec::new();
    let mut data = Vec::new();
    for (kind, parts, children) in folds {
        let own: Vec<(&str, Digest)> = parts.iter().map(|id| (*id, digest(id))).collect();
        let of: Vec<(&str, Digest)> = children.iter().map(|&at| (made[at].0.as_str(), made[at].1.digest())).collect();
        let name = FoldName::of(*kind, own.iter().copied(), of.iter().copied());
        let pairs = |list: &[(&str, Digest)]| list.iter().map(|(id, digest)| format!("[\"{id}\",\"{digest}\"]")).collect::<Vec<_>>().join(",");
        let id = name.id(12).to_string();
        data.push(format!(
            "{{\"id\":\"{id}\",\"kind\":\"{}\",\"carrier\":\"r0\",\"parts\":[{}],\"children\":[{}]}}",
            kind.name(),
            pairs(&own),
            pairs(&of)
        ));
        made.push((id, name));
    }
    let line = format!(
        "{{\"type\":\"custom\",\"id\":\"forged\",\"customType\":\"{COMMIT_RECORD}\",\"data\":{{\"v\":1,\"trigger\":\"band\",\"bound\":400,\"folds\":[{}],\"edits\":[{edit}]}}}}",
        data.join(",")
    );
    [branch, &[Entry::parse(&line).expect("a record")]].concat()
}

#[test]
fn folds_that_could_be_walked_for_ever_are_no_record() {
    let branch = endless(8, 8_000);
    let leaf: (FoldKind, &[&str], &[usize]) = (FoldKind::Tool, &["r0"], &[]);
    let other: (FoldKind, &[&str], &[usize]) = (FoldKind::Tool, &["r1"], &[]);
    assert_eq!(open(&forged(&branch, &[leaf, other, (FoldKind::Consolidated, &[], &[0, 1])], "")).folds().count(), 3);
    for wrong in [
        // The same child twice, a consolidation of one, a child with two parents, a leaf with a child.
        &[leaf, (FoldKind::Consolidated, &[][..], &[0, 0][..])][..],
        &[leaf, (FoldKind::Consolidated, &[], &[0])],
        &[leaf, other, (FoldKind::Consolidated, &[], &[0, 1]), (FoldKind::Consolidated, &["r2"], &[0, 1])],
        &[leaf, (FoldKind::Span, &["r1"], &[0])],
        // An entry in two folds, parts out of their order, a part twice.
        &[leaf, (FoldKind::Span, &["r0", "r1"], &[])],
        &[(FoldKind::Span, &["r1", "r0"], &[])],
        &[(FoldKind::Span, &["r0", "r0"], &[])],
    ] {
        assert_eq!(open(&forged(&branch, wrong, "")).folds().count(), 0, "{wrong:?}");
    }
}

#[test]
fn a_record_that_takes_what_no_answer_has_followed_is_no_record() {
    let message = |id: &str, role: &str| {
        let line =
            format!(r#"{{"type":"message","id":"{id}","message":{{"role":"{role}","stopReason":"stop","content":"{id} {}"}}}}"#, "x".repeat(3_000));
        Entry::parse(&line).expect("an entry")
    };
    let read = [&endless(3, 3_000)[..], &[message("said", "user"), message("read", "assistant")]].concat();
    let unread = [&endless(3, 3_000)[..], &[message("before", "assistant"), message("said", "user")]].concat();
    for (branch, folds) in [(&read, 1), (&unread, 0)] {
        let hidden = forged(branch, &[(FoldKind::Span, &["a1", "r1", "said"], &[])], "");
        assert_eq!(open(&hidden).folds().count(), folds, "hidden");
        let carried = forged(branch, &[(FoldKind::Span, &["a1", "r1"], &[])], "");
        let line = carried[carried.len() - 1].line().replace(r#""carrier":"r0""#, r#""carrier":"said""#);
        let carried = [&branch[..], &[Entry::parse(&line).expect("a record")]].concat();
        assert_eq!(open(&carried).folds().count(), folds, "carried");
    }
}

#[test]
fn what_a_later_compaction_keeps_again_is_counted_again() {
    let compaction = |id: &str, kept: &str| {
        Entry::parse(&format!(r#"{{"type":"compaction","id":"{id}","summary":"so far","firstKeptEntryId":"{kept}"}}"#)).expect("an entry")
    };
    let mut branch = endless(6, 4_000);
    branch = theirs(&branch, "r2", Some("\"mine\""));
    branch.push(compaction("first", "a4"));
    branch = theirs(&branch, "r1", Some("\"mine too\""));
    branch.push(compaction("second", "a1"));
    let shown: Size = projection(&branch).iter().map(Size::of).sum();
    assert_eq!(open(&branch).shown(), shown);
    assert!(shown.bytes > 12_000, "what the first left out is there again: {shown:?}");
}

#[test]
fn a_chain_of_thousands_of_folds_is_read_and_shown() {
    let depth = 6_000;
    let branch = endless(depth + 2, 40);
    let ids: Vec<String> = (0..=depth).map(|batch| format!("r{batch}")).collect();
    let parts: Vec<[&str; 1]> = ids.iter().map(|id| [id.as_str()]).collect();
    let mut folds: Vec<(FoldKind, &[&str], &[usize])> = parts.iter().map(|parts| (FoldKind::Tool, &parts[..], &[][..])).collect();
    let chains: Vec<[usize; 2]> = (1..=depth).map(|at| [if at == 1 { 0 } else { depth + at - 1 }, at]).collect();
    folds.extend(chains.iter().map(|children| (FoldKind::Consolidated, &[][..], &children[..])));
    let digest = "0".repeat(64);
    let session = open(&forged(&branch, &folds, &format!("{{\"target\":\"r0\",\"sha256\":\"{digest}\",\"bytes\":9}}")));
    assert_eq!((session.folds().count(), session.overlay().len(), session.unkeepable().len()), (2 * depth + 1, 0, 1));
}

#[test]
fn sizes_that_no_line_has_are_no_record() {
    let branch = endless(8, 8_000);
    let digest = "0".repeat(64);
    for sizes in ["\"bytes\":18446744073709551615", "\"bytes\":1,\"images\":100000000000000000"] {
        let session = open(&forged(&branch, &[], &format!("{{\"target\":\"r0\",\"sha256\":\"{digest}\",{sizes}}}")));
        assert_eq!((session.unwritten(), session.fence().is_ok()), (0, true));
    }
}

/// A store that refuses every write while it is full.
#[derive(Default)]
struct Copies {
    kept: BTreeMap<Digest, Vec<u8>>,
    full: bool,
}

impl ObjectStore for Copies {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.full {
            return Err(StoreError("no space left on device".into()));
        }
        self.kept.insert(digest, bytes.to_vec());
        Ok(())
    }
    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.kept.get(&digest).cloned())
    }
}

#[test]
fn a_store_that_takes_nothing_is_a_warning_and_is_asked_again() {
    let mut branch = endless(8, 8_000);
    branch.extend(written(&commit(&open(&branch)).drafts));
    let mut session = open(&branch);
    let mut store = Copies { full: true, ..Copies::default() };
    let refused = session.save(&mut store);
    assert_eq!((refused.left, refused.written), (7, 0));
    let warning = refused.warning().expect("a warning");
    assert!(warning.contains("7 folded originals") && warning.contains("no space left on device"), "{warning}");
    store.full = false;
    let taken = session.save(&mut store);
    assert_eq!((taken.left, taken.written, taken.warning()), (0, 7, None));
    assert_eq!(session.save(&mut store), Saved::default(), "nothing is left to be offered");
    assert_eq!(open(&branch).save(&mut store), Saved { found: 7, ..Saved::default() });
}

#[test]
fn a_damaged_second_copy_is_written_again_from_the_journal_and_named() {
    let mut branch = endless(8, 8_000);
    branch.extend(written(&commit(&open(&branch)).drafts));
    let mut session = open(&branch);
    let mut store = Copies::default();
    session.save(&mut store);
    store.kept.get_mut(&branch[2].digest()).expect("a copy").pop();
    store.kept.remove(&branch[4].digest());
    let healed = session.heal(&mut store);
    assert_eq!((healed.found, healed.written, &healed.repaired[..], healed.left), (5, 1, &["r0".to_owned()][..], 0));
    assert!(healed.warning().is_some_and(|warning| warning.contains("r0")));
    assert_eq!(store.kept[&branch[2].digest()], branch[2].line().as_bytes());
}

#[test]
fn what_the_journal_lost_is_not_written_over_the_copy_that_still_has_it() {
    let mut branch = endless(8, 8_000);
    branch.extend(written(&commit(&open(&branch)).drafts));
    let mut store = Copies::default();
    open(&branch).save(&mut store);
    let kept = store.kept.clone();
    branch[2] = Entry::parse(&branch[2].line().replace("\"text\":\"0 x", "\"text\":\"0 y")).expect("an entry");
    open(&branch).heal(&mut store);
    assert!(store.kept == kept);
}

#[test]
fn after_an_internal_error_nothing_is_done_unasked_until_a_commit_that_a_person_asked_for() {
    let mut branch = endless(8, 8_000);
    let mut session = open(&branch);
    let would = session.boundary(Moment::Asked);
    assert!(session.suspend("the bridge caught a panic").is_some_and(|told| told.contains("the bridge caught a panic")));
    assert_eq!(session.suspend("once more"), None, "a person is told once");
    for moment in [Moment::TurnEnd, Moment::Settling, Moment::Refused] {
        assert_eq!(session.boundary(moment), Decision::Deferred(Deferral::Suspended));
    }
    assert_eq!((session.boundary(Moment::Request), session.fence()), (Decision::Quiet, Ok(())));
    assert_eq!(session.boundary(Moment::Asked), would);
    assert!(matches!(open(&branch).boundary(Moment::TurnEnd), Decision::Commit(_)), "a session that is opened again knows nothing of it");
    let Decision::Commit(asked) = would else { panic!("a commit, not {would:?}") };
    let record = written(&asked.drafts).remove(0);
    session.observe(&record);
    assert_eq!(session.suspended(), None);
    branch.push(record);
    assert_eq!(session.boundary(Moment::TurnEnd), open(&branch).boundary(Moment::TurnEnd));
}

#[test]
fn a_suspended_session_shows_what_was_promised_and_writes_none_of_it() {
    let mut branch = endless(8, 8_000);
    branch.extend(written(&commit(&open(&branch)).drafts).into_iter().take(1));
    let mut session = open(&branch);
    let overlay: Vec<String> = session.overlay().into_iter().map(|(id, _)| id.to_owned()).collect();
    session.suspend("an error");
    assert_eq!(session.overlay().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), overlay);
    assert!(!overlay.is_empty() && session.boundary(Moment::TurnEnd) == Decision::Quiet);
}

#[test]
fn a_second_refusal_ends_with_a_message_until_the_model_or_a_person_has_spoken() {
    let mut branch = endless(8, 8_000);
    let Decision::Commit(first) = open(&branch).boundary(Moment::Refused) else { panic!("a commit") };
    assert!(first.trigger == Trigger::Overflow && first.asks_again());
    branch.extend(written(&first.drafts));
    let session = open(&branch);
    assert_eq!(session.boundary(Moment::Refused), Decision::Deferred(Deferral::RefusedAgain));
    let told = session.refused_again();
    assert!(told.contains("not sent a third time") && told.contains("the heaviest entry in it is r7"), "{told}");
    for line in [
        r#"{"type":"message","id":"q","message":{"role":"user","content":"again"}}"#,
        r#"{"type":"message","id":"z","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"ok"}]}}"#,
    ] {
        let spoken = [&branch[..], &[Entry::parse(line).expect("an entry")]].concat();
        assert_ne!(open(&spoken).boundary(Moment::Refused), Decision::Deferred(Deferral::RefusedAgain));
    }
}

#[test]
fn a_refused_request_for_which_nothing_can_be_folded_is_left_to_the_host() {
    let message = |id: &str, rest: &str| Entry::parse(&format!(r#"{{"type":"message","id":"{id}","message":{{{rest}}}}}"#)).expect("an entry");
    let mut session = open(&[message("u", r#""role":"user","content":"go""#)]);
    assert_eq!(session.boundary(Moment::Refused), Decision::Deferred(Deferral::NothingRipe));
    let lets = |session: &Session| [Moment::TurnEnd, Moment::Request, Moment::Refused, Moment::Asked].map(|moment| session.lets_host_compact(moment));
    assert_eq!(lets(&session), [false, false, true, true]);
    // The host compacts and tries once more; what is refused then ends the run.
    session.observe(&message("failed", r#""role":"assistant","stopReason":"error","content":[]"#));
    session.observe(&Entry::parse(r#"{"type":"compaction","id":"k","summary":"so far","firstKeptEntryId":"u"}"#).expect("an entry"));
    assert_eq!(session.boundary(Moment::Refused), Decision::Deferred(Deferral::RefusedAgain));
    assert!(!session.lets_host_compact(Moment::Refused));
    session.observe(&message("again", r#""role":"user","content":"go on""#));
    assert_eq!(session.boundary(Moment::Refused), Decision::Deferred(Deferral::NothingRipe));
}

#[test]
fn no_commit_but_that_of_an_overflow_asks_for_another_request() {
    let session = open(&endless(8, 8_000));
    for moment in [Moment::TurnEnd, Moment::Settling, Moment::Asked] {
        assert!(matches!(session.boundary(moment), Decision::Commit(commit) if !commit.asks_again()));
    }
}

#[test]
fn other_settings_give_the_session_that_opening_the_branch_with_them_gives_and_leave_what_is_shown() {
    let mut branch = endless(8, 8_000);
    branch.extend(written(&commit(&open(&branch)).drafts));
    branch.extend(endless(14, 8_000).into_iter().skip(17));
    let mut session = open(&branch);
    let (shown, folds) = (session.shown(), session.folds().count());
    let other = Settings::parse(
        r#"{"thresholds":{"maxTarget":0.5,"minTarget":0.2,"consolidateAfter":3,"minFoldChars":500},"blacklistAutoFoldTools":["grep"]}"#,
    );
    let other = other.expect("settings");
    session.suspend("an error");
    session.configure(&other, 40_000).expect("other settings");
    assert_eq!((session.shown(), session.folds().count()), (shown, folds));
    assert_eq!(session.suspended(), Some("an error"), "it is not opened again");
    let opened = Session::open(&branch, &other, 40_000).expect("a session");
    assert_eq!((session.band(), session.marks(), session.boundary(Moment::Asked)), (opened.band(), opened.marks(), opened.boundary(Moment::Asked)));
    assert!(session.configure(&other, 9_000).is_err_and(|why| why.contains("9000")));
    assert_eq!(session.band(), opened.band(), "what was refused changes nothing");
}

#[test]
fn a_result_that_only_the_line_end_between_its_blocks_makes_long_enough_is_clipped() {
    let clips = |second: usize| {
        let call = r#"{"type":"message","id":"a","message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c","name":"read","arguments":{}}]}}"#;
        let blocks = [1_000, second].map(|bytes| format!(r#"{{"type":"text","text":"{}"}}"#, "y".repeat(bytes))).join(",");
        let result =
            format!(r#"{{"type":"message","id":"r","message":{{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{blocks}]}}}}"#);
        let mut branch = endless(12, 8_000);
        branch.splice(19..19, [call, &result].map(|line| Entry::parse(line).expect("an entry")));
        // The commit stops before it comes to it.
        let thresholds = r#""thresholds":{"maxTarget":0.8,"minTarget":0.7,"consolidateAfter":10,"minFoldChars":7900}"#;
        let settings = Settings::parse(&format!(r#"{{"toolFoldThreshold":0.9,{thresholds}}}"#)).expect("settings");
        let commit = commit(&Session::open(&branch, &settings, 30_000).expect("a session"));
        commit.drafts.iter().filter(|draft| matches!(draft, Draft::ContextEdit { target, replacement: Some(_) } if target == "r")).count()
    };
    assert_eq!([clips(999), clips(998)], [1, 0]);
}

#[test]
fn a_pinned_batch_of_which_a_compaction_kept_the_results_counts_with_what_it_shows() {
    let mut branch = endless(6, 6_000);
    let reply = act(&open(&branch), &Action::parse(r#"{"action":"pin","ids":["a3"]}"#).expect("a call"), None, 10_000).expect("pinned");
    branch.extend(written(&reply.drafts));
    branch.push(Entry::parse(r#"{"type":"compaction","id":"z","summary":"all","firstKeptEntryId":"r3","tokensBefore":9000}"#).expect("an entry"));
    let session = open(&branch);
    let gauge = session.gauge();
    let rows: u64 = session.map().iter().filter(|row| row.category == Category::Pinned).map(|row| row.shown).sum();
    assert_eq!((gauge.weights[Category::Pinned as usize], gauge.pinned), (rows, 1));
    assert!(rows > 6_000);
}
