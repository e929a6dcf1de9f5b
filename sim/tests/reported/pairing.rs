//! A call without its result, a result without its call.

use crate::talk::{SPANS, Talk, log, omission, omits, taken, target};
use crate::{must, seen_to_fail};
use fold_models::host::{ToolResult, from_scratch};
use fold_models::wire::{Item, send};
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::session::Draft;

fn is_result(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })))
}

/// earendil-works/pi#8667. A compaction that was written while a tool ran lies between call and result; a later one keeps all three.
#[test]
fn a_stale_compaction_between_a_call_and_its_result_is_not_shown_there_by_a_later_one() {
    seen_to_fail("answers none", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        let kept = talk.calls(&["kept"], "toolUse");
        talk.returns("kept", "read", &log(1, 3_000));
        let torn = talk.calls(&["torn"], "toolUse");
        let stale = talk.host.compaction("what was said before", Some(&torn)).id().to_owned();
        talk.returns("torn", "read", &log(2, 3_000));
        (0..4).for_each(|_| talk.batch(3_000));
        talk.host.compaction("what was said before that", Some(&kept));
        (0..4).for_each(|_| talk.batch(3_000));
        let commit = talk.asked()?;
        talk.writes(&commit.drafts);
        must(commit.folds > 0 && talk.shown(&stale).is_none(), || "the stale summary is shown".to_owned())?;
        talk.is_taken()?;
        // A host that shows a compaction wherever it stands.
        let summary = format!(r#"{{"type":"branch_summary","id":"{stale}","fromId":"{torn}","summary":"what was said before"}}"#);
        let summary = Entry::parse(&summary).expect("a summary");
        let branch = talk.host.branch().iter().map(|entry| if planted && entry.id() == stale { summary.clone() } else { entry.clone() });
        taken(&from_scratch(&branch.collect::<Vec<_>>(), talk.host.token_model()))
    });
}

/// earendil-works/pi#4570, after #1764 and #4189. The second pass looks at what it cut itself, and not at what the first one kept.
#[test]
fn after_two_commits_no_result_stands_without_its_call_anywhere_in_the_window() {
    seen_to_fail("answers none", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        let first = talk.until_due(1_500);
        let kept = talk.host.branch().len();
        talk.writes(&first.drafts);
        let mut second = talk.until_due(1_500);
        must(first.parents + second.parents > 0, || "nothing was consolidated".to_owned())?;
        if planted {
            let by_the_first = |draft: &Draft| {
                let at = target(draft).and_then(|target| talk.host.position(target));
                omits(draft) && at.is_some_and(|at| at < kept && is_result(talk.host.branch().get(at)))
            };
            let forgotten = second.drafts.iter().position(by_the_first).ok_or("the second commit cuts nothing that the first one kept")?;
            second.drafts.remove(forgotten);
        }
        // Also as a host without the extension shows it.
        talk.host.boundary(&second.drafts)?;
        talk.is_taken()
    });
}

/// The report of pi-fold 2 about its own first production session ("No tool call found for function call output"); Pi's #11227. A fold
/// takes an answer that was cut off within its call, and not the error that stands for its result.
#[test]
fn a_call_that_was_cut_off_and_the_error_that_answers_it_are_folded_together_wherever_the_fold_ends() {
    seen_to_fail("answers none", |planted| {
        for at in 0..6 {
            let mut talk = Talk::new(SPANS, 20_000);
            talk.asks("go");
            (0..at).for_each(|_| talk.batch(1_500));
            let cut = talk.calls(&["cut_off_within_its_call"], "length");
            let content = r#"[{"type":"text","text":"the call was cut off and not carried out"}]"#;
            let error = ToolResult { call_id: "cut_off_within_its_call", tool: "read", content, is_error: true };
            let error = talk.host.tool_result(&error).id().to_owned();
            let mut commit = talk.until_due(1_500);
            must(commit.drafts.iter().any(|draft| target(draft) == Some(&error)), || format!("behind {at} batches it is in no fold"))?;
            if planted {
                commit.drafts.retain(|draft| target(draft) != Some(&error));
            }
            talk.host.boundary(&commit.drafts)?;
            talk.is_taken()?;
            must(talk.shown(&cut).is_some() == talk.shown(&error).is_some(), || format!("behind {at} batches one half is shown"))?;
        }
        Ok(())
    });
}

/// OpenHarness#191, wayland-core#75, Codewhale#6119. A run ended between two results; what is left of its calls is closed or left out in
/// both directions.
#[test]
fn a_call_that_nobody_answered_is_closed_and_not_hidden_without_the_results_beside_it() {
    seen_to_fail("answers none", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        (0..4).for_each(|_| talk.batch(1_500));
        let call = talk.calls(&["answered", "unanswered"], "toolUse");
        talk.returns("answered", "read", &log(9, 1_500));
        talk.asks("continue");
        let mut commit = talk.until_due(1_500);
        if planted {
            commit.drafts.push(omission(&call));
        }
        talk.host.boundary(&commit.drafts)?;
        talk.is_taken()?;
        let mut made_up = 0;
        send(talk.host.window(), &mut |item| made_up += usize::from(matches!(item, Item::Synthetic(..))));
        must(made_up == 1, || format!("{made_up} results were made up"))
    });
}

/// opencode#40235, hermes-agent#58362. A run that was stopped and the one after it call alike; who looks for a result by that name finds another's.
#[test]
fn calls_of_one_name_keep_their_own_results_when_some_of_them_are_folded() {
    seen_to_fail("answered already", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.call = Some("call_0");
        talk.asks("go");
        talk.calls(&["call_0"], "aborted");
        talk.asks("again");
        let mut commit = talk.until_due(1_500);
        if planted {
            let newest = talk.host.branch().iter().rfind(|entry| is_result(Some(entry))).map(|entry| entry.id().to_owned()).ok_or("no result")?;
            for draft in &mut commit.drafts {
                if let Draft::ContextEdit { target, replacement: None } = draft
                    && is_result(talk.host.entry(target))
                {
                    target.clone_from(&newest);
                }
            }
        }
        talk.host.boundary(&commit.drafts)?;
        talk.is_taken()?;
        let session = talk.session();
        let whole = session.folds().all(|(fold, _)| session.recover(fold, None).is_ok());
        must(whole && commit.folds > 0, || "a fold does not give back what it hides".to_owned())
    });
}
