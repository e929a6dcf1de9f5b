//! What a host sees of a session: quiet below the band, one commit at it, originals back byte for byte.

use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;
use fold_runtime::session::{COMMIT_RECORD, Commit, Decision, Deferral, Draft, RecoverError, Session, Trigger};
use std::collections::BTreeSet;

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
    match session.boundary() {
        Decision::Commit(commit) => commit,
        other => panic!("a commit, not {other:?}"),
    }
}

fn written(drafts: &[Draft]) -> Vec<Entry> {
    let line = |(index, draft): (usize, &Draft)| match draft {
        Draft::Custom { custom_type, data } => format!(r#"{{"type":"custom","id":"d{index}","customType":"{custom_type}","data":{data}}}"#),
        Draft::ContextEdit { target, replacement } => {
            let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
            format!(r#"{{"type":"context_edit","id":"d{index}","targetId":"{target}","replacement":{replacement}}}"#)
        }
    };
    drafts.iter().enumerate().map(line).map(|line| Entry::parse(&line).expect("an entry")).collect()
}

#[test]
fn below_the_band_nothing_happens_and_at_it_one_commit_does() {
    let branch = endless(6, 8_000);
    assert_eq!(open(&branch).boundary(), Decision::Quiet);
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
    assert_eq!(open(&branch).boundary(), Decision::Quiet);
    // A provider that insists the window is full: only more work may rewrite it again.
    let answer = |id: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","message":{{"role":"assistant","stopReason":"stop","content":[{{"type":"text","text":"ok"}}],"usage":{{"input":16500,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":16501}}}}}}"#
        )
    };
    branch.push(Entry::parse(&answer("z1")).expect("an entry"));
    assert_eq!(open(&branch).boundary(), Decision::Deferred(Deferral::Rearm));
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
