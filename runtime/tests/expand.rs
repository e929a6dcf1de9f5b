//! A fold shown again, level by level, and folded again: same id, same bytes, nothing lost.

use fold_runtime::agent::{Action, Id, Ids, Reboundary, Refusal, act};
use fold_runtime::config::Settings;
use fold_runtime::fold::{FoldKind, FoldName};
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::session::{Decision, Deferral, Draft, Moment, Place, Session, Trigger};
use fold_runtime::window::projection;
use proptest::prelude::*;
use said::{entry, small, spoken, written};
use std::collections::BTreeMap;

mod said;

const ROOMY: u64 = 1_000_000;

fn expand(id: &str) -> Action {
    Action::Expand(Id { id: id.to_owned() })
}

fn refold(id: &str) -> Action {
    Action::Refold(Id { id: id.to_owned() })
}

fn pin(id: &str) -> Action {
    Action::Pin(Ids { ids: vec![id.to_owned()] })
}

/// The branch after a call that is carried out.
fn after(branch: &[Entry], action: &Action) -> Vec<Entry> {
    let reply = act(&small(branch), action, None, ROOMY).unwrap_or_else(|refusal| panic!("{refusal}"));
    [branch, &written(&reply.drafts, branch.len())].concat()
}

fn refused(branch: &[Entry], action: &Action) -> Refusal {
    let session = small(branch);
    let refusal = act(&session, action, None, ROOMY).expect_err("refused");
    assert!(act(&session, &refusal.call, None, ROOMY).is_ok(), "{refusal}");
    refusal
}

/// The branch after what a boundary decides.
fn bounded(branch: &[Entry], moment: Moment) -> Vec<Entry> {
    let drafts = match small(branch).boundary(moment) {
        Decision::Commit(commit) => commit.drafts,
        Decision::Recovery(recovery) => recovery.drafts,
        _ => Vec::new(),
    };
    [branch, &written(&drafts, branch.len())].concat()
}

/// What every entry shows, the overlay laid over.
fn window(branch: &[Entry]) -> BTreeMap<String, String> {
    let session = small(branch);
    let mut branch = branch.to_vec();
    for (number, (target, content)) in session.overlay().into_iter().enumerate() {
        let draft = Draft::ContextEdit { target: target.to_owned(), replacement: content.map(str::to_owned) };
        branch.push(entry(&format!(r#"{{{},"id":"overlay-{number}"}}"#, draft.fields())));
    }
    let shown = projection(&branch);
    shown
        .into_iter()
        .filter(|shown| !shown.messages.is_empty())
        .map(|shown| (shown.source.id().to_owned(), format!("{:?}", shown.messages)))
        .collect()
}

/// Eight batches of 1,000 bytes, folded in pairs, those in pairs, and those in one: the branch, and the folds from the outermost to a leaf.
fn nested() -> (Vec<Entry>, Vec<String>) {
    let mut words = vec![('u', 9)];
    words.extend([('b', 1_000); 8]);
    words.extend([('a', 9), ('u', 9), ('a', 9)]);
    let branch = bounded(&spoken(&words), Moment::Asked);
    let branch = bounded(&branch, Moment::Settling);
    let session = small(&branch);
    assert_eq!(session.unwritten(), 0);
    let root = session.roots().next().expect("a root").0.to_owned();
    let mut line = vec![root];
    while let Some(child) = session.children(&line[line.len() - 1]).expect("a fold").first() {
        line.push((*child).to_owned());
    }
    assert_eq!(line.len(), 3, "a fold of folds of folds");
    (branch, line)
}

fn place(branch: &[Entry], fold: &str) -> String {
    format!("{:?}", small(branch).forest().into_iter().find(|view| view.id == fold).expect("a fold").place)
}

/// More answers, so that what was said before was read.
fn later(branch: &[Entry], answers: usize) -> Vec<Entry> {
    more(branch, &vec![('a', 9); answers])
}

/// What is said next, under other ids.
fn more(branch: &[Entry], words: &[(char, usize)]) -> Vec<Entry> {
    let renamed = |said: Entry| {
        let line = said.line().replace("\"id\":\"", &format!("\"id\":\"{}-", branch.len()));
        entry(&line.replace("\"toolCallId\":\"", &format!("\"toolCallId\":\"{}-", branch.len())))
    };
    branch.iter().cloned().chain(spoken(words).into_iter().map(renamed)).collect()
}

#[test]
fn an_expanded_leaf_shows_its_originals_and_is_folded_again_to_the_same_bytes() {
    let branch = bounded(&spoken(&[('u', 9), ('b', 1_000), ('b', 1_000), ('a', 9), ('u', 9), ('a', 9)]), Moment::Asked);
    let (folded, original) = (window(&branch), window(&branch[..7]));
    let root = small(&branch).roots().next().expect("a root").0.to_owned();
    let open = after(&branch, &expand(&root));
    assert_eq!(small(&open).unwritten(), 3, "promised at once, written at the boundaries that follow");
    for (id, shown) in &original {
        assert_eq!(window(&open).get(id), Some(shown), "{id}");
    }
    let open = bounded(&open, Moment::TurnEnd);
    assert_eq!((small(&open).unwritten(), place(&open, &root)), (0, "Open".to_owned()));
    let closed = after(&open, &refold(&root));
    assert_eq!(window(&closed), folded);
    let closed = bounded(&closed, Moment::TurnEnd);
    assert_eq!((window(&closed), small(&closed).unwritten()), (folded, 0));
    assert_eq!(place(&closed, &root), "Root");
}

#[test]
fn a_parent_is_expanded_by_one_level_outside_in() {
    let (branch, line) = nested();
    let folded = window(&branch);
    assert!(refused(&branch, &expand(&line[1])).rule.contains(&line[0]), "outside in");
    let open = after(&branch, &expand(&line[0]));
    let shown = window(&open).into_values().collect::<String>();
    for child in small(&branch).children(&line[0]).expect("a fold") {
        assert!(shown.contains(&format!("pi-fold {child}")), "the placeholder of {child}");
    }
    assert!(!shown.contains(&line[0]) && !shown.contains(&"y".repeat(999)), "and nothing below it");
    let deeper = after(&after(&open, &expand(&line[1])), &expand(&line[2]));
    assert!(window(&deeper).into_values().collect::<String>().contains(&"y".repeat(1_000)));
    // One call folds everything in it again.
    assert_eq!(window(&after(&deeper, &refold(&line[0]))), folded);
    assert_eq!(window(&after(&deeper, &refold(&line[2]))), window(&after(&open, &expand(&line[1]))));
}

#[test]
fn an_expansion_is_folded_again_by_the_first_commit_after_eight_answers() {
    let (branch, line) = nested();
    let mut open = bounded(&after(&branch, &expand(&line[0])), Moment::Settling);
    open = later(&open, 7);
    assert_eq!(place(&bounded(&open, Moment::Asked), &line[0]), "Open", "seven answers are too few");
    let open = later(&open, 1);
    let Decision::Commit(commit) = small(&open).boundary(Moment::Asked) else { panic!("a commit") };
    assert_eq!((commit.trigger, commit.refolded, commit.folds), (Trigger::Refold, 1, 0));
    let closed = bounded(&bounded(&open, Moment::Asked), Moment::Settling);
    assert_eq!(place(&closed, &line[0]), "Root");
    let folded = window(&branch);
    assert!(folded.iter().all(|(id, shown)| window(&closed).get(id) == Some(shown)), "the same bytes");
}

#[test]
fn what_is_due_is_closed_by_a_record_before_that_of_the_commit() {
    let (branch, line) = nested();
    let open = more(&bounded(&after(&branch, &expand(&line[0])), Moment::Settling), &[('b', 1_000); 9]);
    let Decision::Commit(commit) = small(&open).boundary(Moment::Asked) else { panic!("a commit") };
    assert_eq!((commit.trigger, commit.refolded), (Trigger::Person, 1));
    let triggers: Vec<bool> =
        commit.drafts.iter().map(|draft| matches!(draft, Draft::Custom { data, .. } if data.contains("\"trigger\":\"refold\""))).collect();
    assert_eq!(triggers, [true, false]);
    let closed = bounded(&bounded(&open, Moment::Asked), Moment::Settling);
    assert!(matches!(place(&closed, &line[0]).as_str(), place if place.starts_with("Within") || place == "Root"));
    assert_eq!(small(&closed).unwritten(), 0);
}

#[test]
fn what_is_pinned_in_it_keeps_an_expansion_open() {
    let (branch, line) = nested();
    let open = after(&branch, &expand(&line[0]));
    let hidden = small(&open).hidden(&line[2]).expect("a fold")[0].to_owned();
    let rule = refused(&open, &pin(&hidden));
    assert!(matches!(&rule.call, Action::Expand(Id { id }) if *id == line[1]), "{rule}");
    let open = after(&after(&after(&open, &rule.call), &expand(&line[2])), &pin(&hidden));
    assert!(refused(&open, &refold(&line[0])).rule.contains("pinned"));
    let later = bounded(&later(&open, 9), Moment::Asked);
    assert_eq!([place(&later, &line[0]), place(&later, &line[1]), place(&later, &line[2])], ["Open", "Open", "Open"]);
    let unpinned = after(&later, &Action::Unpin(Ids { ids: vec![hidden] }));
    assert_eq!(place(&bounded(&unpinned, Moment::Asked), &line[0]), "Root");
}

#[test]
fn what_was_changed_is_not_expanded() {
    let (branch, line) = nested();
    let hidden = small(&branch).hidden(&line[0]).expect("a fold").into_iter().find(|id| id.starts_with("r")).expect("a result").to_owned();
    let damage = |said: &Entry| if said.id() == hidden { entry(&said.line().replace("yyyy", "yyyz")) } else { said.clone() };
    let damaged: Vec<Entry> = branch.iter().map(damage).collect();
    assert!(refused(&damaged, &expand(&line[0])).rule.contains("differs"));
    let edit = entry(&format!(r#"{{"type":"context_edit","id":"other","targetId":"{hidden}","replacement":{{"content":"mine"}}}}"#));
    let edited = [&branch[..], std::slice::from_ref(&edit)].concat();
    assert!(refused(&edited, &expand(&line[0])).rule.contains("another extension"));
    let open = [after(&branch, &expand(&line[0])), vec![edit]].concat();
    assert!(refused(&open, &refold(&line[0])).rule.contains("another extension"));
}

#[test]
fn an_expansion_that_would_reach_the_trigger_or_the_cap_is_refused() {
    let settings = Settings::parse(r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":1500}}"#).expect("valid");
    let session = |branch: &[Entry]| Session::open(branch, &settings, 11_000).expect("a session");
    let branch = spoken(&[('u', 9), ('b', 14_000), ('a', 9), ('u', 9), ('a', 9)]);
    let Decision::Commit(commit) = session(&branch).boundary(Moment::Asked) else { panic!("a commit") };
    let folded = [branch, written(&commit.drafts, 6)].concat();
    let root = session(&folded).roots().next().expect("a root").0.to_owned();
    let refusal = act(&session(&folded), &expand(&root), None, ROOMY).expect_err("over the cap");
    assert!(refusal.rule.contains("a quarter of the budget") && matches!(refusal.call, Action::Peek(_)), "{refusal}");
    let usage = r#""usage":{"input":8500,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":8500}"#;
    let said = format!(
        r#"{{"type":"message","id":"full","message":{{"role":"assistant","stopReason":"stop",{usage},"content":[{{"type":"text","text":"so"}}]}}}}"#
    );
    let full = [folded, vec![entry(&said)]].concat();
    let refusal = act(&session(&full), &expand(&root), None, ROOMY).expect_err("at the trigger");
    assert!(refusal.rule.contains("a commit would fold again"), "{refusal}");
}

#[test]
fn a_fold_is_cut_anew_and_its_old_id_still_gives_the_originals_back() {
    let branch = bounded(&spoken(&[('u', 9), ('b', 500), ('b', 500), ('b', 500), ('a', 9), ('u', 9), ('a', 9)]), Moment::Asked);
    let session = small(&branch);
    let root = session.roots().find(|(id, ..)| session.hidden(id).expect("a fold").len() > 2).expect("a span").0.to_owned();
    let units: Vec<String> = session.hidden(&root).expect("a fold").iter().filter(|id| id.starts_with('a')).map(|id| (*id).to_owned()).collect();
    let originals = session.recover(&root, None).expect("whole");
    let recut = Action::Reboundary(Reboundary { id: root.clone(), at: vec![units[units.len() - 1].clone()] });
    let dissolved = after(&branch, &recut);
    assert_eq!(place(&dissolved, &root), "Dissolved");
    assert_eq!(small(&dissolved).agreed(), (2, 2));
    let again = bounded(&bounded(&dissolved, Moment::Asked), Moment::Settling);
    assert_eq!(small(&again).recover(&root, None).expect("whole"), originals);
    assert_eq!(small(&again).agreed().1, 0, "each became a fold");
    assert_eq!(refused(&again, &expand(&root)).rule, "it was cut anew, so its originals stand in other folds, or as they were");
}

#[test]
fn a_compaction_that_cuts_through_an_expansion_ends_it() {
    let (branch, line) = nested();
    let open = after(&branch, &expand(&line[0]));
    let first = small(&open).hidden(&line[0]).expect("a fold")[3].to_owned();
    let compaction = entry(&format!(r#"{{"type":"compaction","id":"k","summary":"so far","firstKeptEntryId":"{first}"}}"#));
    let cut = [open, vec![compaction]].concat();
    assert_eq!(place(&cut, &line[0]), "Closed");
    assert!(small(&cut).recover(&line[0], None).is_ok());
    assert!(matches!(refused(&cut, &expand(&line[0])).call, Action::Peek(_)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_expanded_and_folded_again_ends_where_it_began(
        steps in prop::collection::vec((0_usize..3, 0_usize..40), 1..14),
        users in prop::collection::vec(prop::sample::select("bbbbuBcu".chars().collect::<Vec<_>>()), 6..14),
    ) {
        let mut words = vec![('u', 9)];
        words.extend(users.iter().map(|kind| (*kind, 1_200)));
        words.extend([('a', 9), ('u', 9), ('a', 9)]);
        let mut branch = bounded(&bounded(&spoken(&words), Moment::Asked), Moment::Settling);
        let (folded, ids) = (window(&branch), small(&branch).folds().map(|(id, _)| id.to_owned()).collect::<Vec<_>>());
        prop_assume!(!ids.is_empty());
        for (step, n) in steps {
            let id = &ids[n % ids.len()];
            let action = if step == 2 { refold(id) } else { expand(id) };
            let session = small(&branch);
            match act(&session, &action, None, ROOMY) {
                Ok(reply) => branch.extend(written(&reply.drafts, branch.len())),
                Err(refusal) => prop_assert!(act(&session, &refusal.call, None, ROOMY).is_ok(), "{}", refusal),
            }
            if n % 2 == 0 {
                branch = bounded(&branch, Moment::TurnEnd);
            }
            let session = small(&branch);
            for id in &ids {
                let originals = session.recover(id, None).expect("whole");
                prop_assert!(originals.iter().all(|original| session.entry(&original.id).is_some_and(|entry| Digest::of(entry.line().as_bytes()) == Digest::of(original.line.as_bytes()))));
            }
        }
        while let Some(open) = small(&branch).forest().into_iter().find(|view| view.place == Place::Open).map(|view| view.id.to_owned()) {
            branch = after(&branch, &refold(&open));
        }
        prop_assert_eq!(window(&branch), folded.clone());
        branch = bounded(&branch, Moment::Settling);
        prop_assert_eq!(window(&branch), folded);
        prop_assert_eq!(small(&branch).unwritten(), 0);
    }
}

#[test]
fn an_open_fold_whose_original_is_damaged_stays_open() {
    let branch = bounded(&spoken(&[('u', 9), ('b', 1_000), ('b', 1_000), ('a', 9), ('u', 9), ('a', 9)]), Moment::Asked);
    let root = small(&branch).roots().next().expect("a root").0.to_owned();
    let damage = |entry_: Entry| if entry_.id() == "r1-0" { entry(&entry_.line().replacen("yy", "yz", 1)) } else { entry_ };
    let open: Vec<Entry> = later(&after(&branch, &expand(&root)), 9).into_iter().map(damage).collect();
    let refusal = refused(&open, &refold(&root));
    assert!(refusal.rule.contains("r1-0") && refusal.rule.contains("not what was folded"), "{refusal}");
    let closes = |draft: &Draft| matches!(draft, Draft::Custom { data, .. } if data.contains("\"closes\""));
    let Decision::Commit(commit) = small(&open).boundary(Moment::Asked) else { return };
    assert!(!commit.drafts.iter().any(closes), "nor does a commit close it");
}

#[test]
fn a_fold_with_a_carrier_that_a_compaction_left_out_is_not_expanded() {
    let said = spoken(&[('u', 9), ('c', 1_400), ('a', 1_000), ('u', 9), ('b', 1_800), ('a', 9), ('u', 9), ('a', 9)]);
    let branch = bounded(&bounded(&said, Moment::Asked), Moment::Settling);
    let session = small(&branch);
    let root = session.roots().next().expect("a root").0.to_owned();
    assert_eq!(session.children(&root).expect("a fold").len(), 2, "a fold that the first message carries, and one that a result carries");
    assert!(window(&branch)["r4-0"].contains(&root), "the second carries both");
    let kept =
        |id: &str| [&branch[..], &[entry(&format!(r#"{{"type":"compaction","id":"k","summary":"so far","firstKeptEntryId":"{id}"}}"#))]].concat();
    assert_eq!(after(&kept("u0"), &expand(&root)).len(), branch.len() + 2);
    let refusal = refused(&kept("c1"), &expand(&root));
    assert!(refusal.rule.contains("compaction"), "{refusal}");
}

#[test]
fn folds_that_lie_deep_are_opened_one_by_one() {
    let depth = 60;
    let mut words = vec![('u', 9)];
    words.extend(vec![('b', 40); depth]);
    words.extend([('a', 9), ('u', 9), ('a', 9)]);
    let branch = spoken(&words);
    let record = |id: &str, rest: &str| {
        entry(&format!(
            r#"{{"type":"custom","id":"{id}","customType":"pi-fold.commit","data":{{"v":1,"trigger":"expand","bound":400,"edits":[],{rest}}}}}"#
        ))
    };
    let of = |entry: &Entry| (entry.id().to_owned(), entry.digest());
    let leaves: Vec<(String, Digest)> = branch.iter().filter(|entry| entry.id().starts_with('r')).map(of).collect();
    let name = |kind, parts: &[&(String, Digest)], children: &[&(String, Digest)]| {
        let pairs = |list: &[&(String, Digest)]| list.iter().map(|(id, digest)| (id.clone(), *digest)).collect::<Vec<_>>();
        let (parts, children) = (pairs(parts), pairs(children));
        let name =
            FoldName::of(kind, parts.iter().map(|(id, digest)| (id.as_str(), *digest)), children.iter().map(|(id, digest)| (id.as_str(), *digest)));
        (name.id(12).to_string(), name.digest())
    };
    let mut folds = Vec::new();
    let mut made: Vec<(String, Digest)> = Vec::new();
    for leaf in &leaves {
        let fold = name(FoldKind::Tool, &[leaf], &[]);
        folds.push(format!(r#"{{"id":"{}","kind":"tool","carrier":"{}","parts":[["{}","{}"]]}}"#, fold.0, leaf.0, leaf.0, leaf.1));
        made.push(fold);
    }
    let mut around = vec![made[0].clone()];
    for leaf in &made[1..] {
        let inner = &around[around.len() - 1];
        let fold = name(FoldKind::Consolidated, &[], &[inner, leaf]);
        let children = format!(r#"["{}","{}"],["{}","{}"]"#, inner.0, inner.1, leaf.0, leaf.1);
        folds.push(format!(r#"{{"id":"{}","kind":"cons","carrier":"{}","parts":[],"children":[{children}]}}"#, fold.0, leaves[0].0));
        around.push(fold);
    }
    let opens: Vec<String> = around[1..].iter().rev().map(|fold| format!("\"{}\"", fold.0)).collect();
    let mut branch = [&branch[..], &[record("made", &format!(r#""folds":[{}]"#, folds.join(",")))]].concat();
    for (number, open) in opens.iter().enumerate() {
        branch.push(record(&format!("open{number}"), &format!(r#""folds":[],"opens":[{open}]"#)));
    }
    let open = small(&branch).forest().into_iter().filter(|view| view.place == Place::Open).count();
    assert_eq!(open, depth - 1);
    // Whoever closes the outermost closes them all.
    branch.push(record("close", &format!(r#""folds":[],"closes":[{}]"#, opens[0])));
    assert!(small(&branch).forest().iter().all(|view| view.place != Place::Open));
}

#[test]
fn a_refused_request_for_which_only_a_fold_can_be_closed_is_sent_again() {
    let branch = bounded(&spoken(&[('u', 9), ('b', 1_000), ('b', 1_000), ('a', 9), ('u', 9), ('a', 9)]), Moment::Asked);
    let root = small(&branch).roots().next().expect("a root").0.to_owned();
    let open = after(&branch, &expand(&root));
    let Decision::Commit(commit) = small(&open).boundary(Moment::Refused) else { panic!("a commit") };
    assert_eq!((commit.refolded, commit.folds, commit.asks_again()), (1, 0, true));
    let closed = [&open[..], &written(&commit.drafts, open.len())].concat();
    assert_eq!(small(&closed).boundary(Moment::Refused), Decision::Deferred(Deferral::RefusedAgain));
}

#[test]
fn a_fold_whose_child_has_lost_its_carrier_to_another_fold_is_not_expanded() {
    let said = spoken(&[('u', 9), ('a', 2_000), ('u', 9), ('a', 1_800), ('b', 1_800), ('a', 9), ('u', 9), ('a', 9)]);
    // What is pinned is neither folded nor carries anything, so the second message carries the first fold; that is given back inside a parent.
    let branch = after(&after(&said, &pin("u0")), &pin("a1"));
    let branch = bounded(&bounded(&branch, Moment::Asked), Moment::Settling);
    let root = small(&branch).roots().next().expect("a root").0.to_owned();
    assert_eq!(small(&branch).children(&root).expect("a fold").len(), 2);
    let branch = after(&branch, &Action::Unpin(Ids { ids: vec!["a1".to_owned()] }));
    let branch = bounded(&bounded(&branch, Moment::Asked), Moment::Settling);
    assert!(window(&branch)["u2"].contains("pi-fold"), "it carries another one now");
    let refusal = refused(&branch, &expand(&root));
    assert!(refusal.rule.contains("u2"), "{refusal}");
}
