//! Masking on random journals, judged by a reader who knows the rules and none of its state.

use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::mask::{Batch, Decision, Deferral, Masker, Settings, is_placeholder, placeholder};
use fold_runtime::session::Draft;
use fold_runtime::window::{Size, projection};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn settings(keep_recent_turns: usize, min_clear_tokens: u64) -> Settings {
    Settings {
        trigger_tokens: 2_000,
        target_tokens: 900,
        min_clear_tokens,
        keep_recent_turns,
        min_entry_tokens: 40,
        exclude_tools: BTreeSet::from(["ask".to_owned()]),
        ..Settings::default()
    }
}

const WINDOW: u64 = 1_000_000;

/// A line for a word: `u` a person's message, `s` a system message, `a` an answer with usage, `f` one that failed, `b` a call and its result, `x` one of
/// an excluded tool, `k` of a skill, `i` with an image, `t` two results of one call, `c` a compaction, `e` somebody else's edit, `o` an omission, `m`
/// another model. The number is a length, or chooses what is kept or edited.
fn write(branch: &mut Vec<Entry>, kind: char, number: usize) {
    let n = branch.len();
    let other = branch.get(number % n.max(1)).map_or("none".to_owned(), |entry| entry.id().to_owned());
    let text = |bytes: usize| format!(r#"{{"type":"text","text":"{}"}}"#, "y".repeat(bytes));
    let message = |id: &str, body: String| format!(r#"{{"type":"message","id":"{id}{n}","message":{body}}}"#);
    let call = |tool: &str, arguments: &str| {
        let block = format!(r#"{{"type":"toolCall","id":"call{}","name":"{tool}","arguments":{arguments}}}"#, n % 7);
        message("a", format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{block}]}}"#))
    };
    let result = |id: &str, tool: &str, more: &str| {
        message(id, format!(r#"{{"role":"toolResult","toolCallId":"call{}","toolName":"{tool}","content":[{}{more}]}}"#, n % 7, text(number)))
    };
    let image = r#",{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
    let lines = match kind {
        'u' => vec![message("u", format!(r#"{{"role":"user","content":[{}]}}"#, text(number)))],
        's' => vec![message("s", format!(r#"{{"role":"system","content":[{}]}}"#, text(number / 8)))],
        'a' => {
            let usage = format!(r#"{{"input":{number},"totalTokens":{}}}"#, number + 10);
            vec![message("a", format!(r#"{{"role":"assistant","stopReason":"stop","content":[{}],"usage":{usage}}}"#, text(40)))]
        }
        'f' => vec![message("f", r#"{"role":"assistant","stopReason":"error","content":[]}"#.to_owned())],
        'x' => vec![call("ask", "{}"), result("r", "ask", "")],
        'k' => vec![call("read", r#"{"path":"pdf/SKILL.md"}"#), result("skill", "read", "")],
        'i' => vec![call("read", "{}"), result("r", "read", image)],
        't' => vec![call("read", "{}"), result("r", "read", ""), result("q", "read", "")],
        'c' => vec![format!(r#"{{"type":"compaction","id":"k{n}","summary":"so far","firstKeptEntryId":"{other}"}}"#)],
        'e' => vec![format!(r#"{{"type":"context_edit","id":"e{n}","targetId":"{other}","replacement":{{"content":"mine"}}}}"#)],
        'o' => vec![format!(r#"{{"type":"context_edit","id":"o{n}","targetId":"{other}","replacement":null}}"#)],
        'm' => vec![format!(r#"{{"type":"model_change","id":"m{n}","provider":"p","modelId":"{}"}}"#, number % 2)],
        _ => vec![call("read", "{}"), result("r", "read", "")],
    };
    branch.extend(lines.iter().map(|line| Entry::parse(line).expect("an entry")));
}

fn target(draft: &Draft) -> &str {
    match draft {
        Draft::ContextEdit { target, replacement: Some(_) } => target,
        other => panic!("an edit that replaces, not {other:?}"),
    }
}

/// Every rule, from the whole branch.
fn assert_eligible(branch: &[Entry], settings: &Settings, drafts: &[Draft]) {
    let window = projection(branch);
    let shown: Vec<&Entry> = window.iter().filter(|projected| !projected.messages.is_empty()).map(|projected| projected.source).collect();
    let turns: Vec<&Entry> = shown.iter().copied().filter(|entry| entry.is_good_answer()).collect();
    let recent = turns.len().checked_sub(settings.keep_recent_turns).map(|at| turns[at].id());
    let old = shown.iter().take_while(|entry| recent.is_some_and(|id| id != entry.id())).map(|entry| entry.id()).collect::<BTreeSet<_>>();
    let speaks = |entry: &&&Entry| matches!(entry.kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
    let word = shown.iter().rfind(speaks).map(|entry| entry.id());
    let mut last = None;
    for draft in drafts {
        let at = branch.iter().position(|entry| entry.id() == target(draft)).expect("on the branch");
        let result = &branch[at];
        let Kind::Message(Role::ToolResult { tool, .. }) = result.kind() else { panic!("a result, not {}", result.line()) };
        assert!(old.contains(result.id()), "{} is recent, or not shown", result.id());
        assert!(word != Some(result.id()), "a request may end with it");
        assert!(!settings.exclude_tools.contains(&tool.to_string_lossy()) && !result.id().starts_with("skill"));
        assert!(!branch.iter().any(|entry| matches!(entry.kind(), Kind::ContextEdit { target, .. } if **target == *result.id())), "edited");
        let line = placeholder(result).expect("a result").len() as u64;
        assert!(Size::of_original(result).weight() > line);
        assert!(last.replace(at).is_none_or(|before| before < at), "the oldest first");
    }
}

/// Lives through a journal, asks after every entry, and writes what is decided.
fn live(words: &[(char, usize)], settings: &Settings) -> (Vec<Entry>, Vec<Batch>) {
    let mut masker = Masker::open(&[], settings, WINDOW).expect("thresholds apart");
    let (mut branch, mut batches, mut seen) = (Vec::new(), Vec::<Batch>::new(), 0);
    for &(kind, number) in words {
        write(&mut branch, kind, number);
        branch[seen..].iter().for_each(|entry| masker.observe(entry));
        seen = branch.len();
        let decision = masker.boundary();
        let opened = Masker::open(&branch, settings, WINDOW).expect("thresholds apart");
        assert_eq!(decision, opened.boundary(), "live and opened again");
        assert!(masker.masked().eq(opened.masked()));
        let Decision::Mask(batch) = decision else { continue };
        assert!(batch.before >= 2_000);
        assert_eligible(&branch, settings, &batch.drafts);
        let write = |(nth, draft): (usize, &Draft)| Entry::parse(&format!(r#"{{{},"id":"d{}"}}"#, draft.fields(), seen + nth)).expect("an entry");
        let edits: Vec<Entry> = batch.drafts.iter().enumerate().map(write).collect();
        edits.iter().for_each(|edit| masker.observe(edit));
        branch.extend(edits);
        seen = branch.len();
        assert_eq!(masker.occupancy(), batch.after, "what was foreseen");
        if batch.after > batch.target {
            let eager = Settings { trigger_tokens: 1, target_tokens: 0, min_clear_tokens: 0, ..settings.clone() };
            let left = Masker::open(&branch, &eager, WINDOW).expect("thresholds apart").boundary();
            assert_eq!(left, Decision::Deferred(Deferral::NothingEligible), "above its target with something left");
        }
        batches.push(batch);
    }
    (branch, batches)
}

fn words() -> impl Strategy<Value = Vec<(char, usize)>> {
    let kind = prop::sample::select("ussaffbbbbbbxkiittceom".chars().collect::<Vec<_>>());
    prop::collection::vec((kind, prop_oneof![0usize..400, 0usize..6_000]), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_only_the_eligible_is_masked_once_as_foreseen_and_comes_back(words in words(), keep in 1usize..5, floor in 0u64..1_500) {
        let settings = settings(keep, floor);
        let (branch, batches) = live(&words, &settings);
        let drafts: Vec<&Draft> = batches.iter().flat_map(|batch| &batch.drafts).collect();
        let targets: BTreeSet<&str> = drafts.iter().copied().map(target).collect();
        prop_assert_eq!(targets.len(), drafts.len(), "masked twice");
        let masker = Masker::open(&branch, &settings, WINDOW).expect("thresholds apart");
        for entry in branch.iter().filter(|entry| targets.contains(entry.id())) {
            let Kind::Message(Role::ToolResult { call_id, .. }) = entry.kind() else { panic!("a result") };
            let newest = branch.iter().rfind(|edit| matches!(edit.kind(), Kind::ContextEdit { target, .. } if **target == *entry.id()));
            if newest.and_then(Entry::replacement).is_some_and(is_placeholder) {
                let given = masker.recover(&call_id.to_string_lossy()).expect("masked");
                prop_assert!(given.iter().any(|original| original.id == entry.id() && original.line == entry.line()));
            }
        }
    }
}

/// Not vacuous: of the random journals many mask more than once.
#[test]
fn random_journals_do_mask() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = (0..200).map(|_| words().new_tree(&mut runner).expect("words").current());
    let batches: Vec<usize> = drawn.map(|words| live(&words, &settings(2, 300)).1.len()).collect();
    assert!(batches.iter().filter(|batches| **batches > 1).count() > 30, "{batches:?}");
}
