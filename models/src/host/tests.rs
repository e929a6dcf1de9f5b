//! The host against Pi's rules, and the kept window against one made from nothing.

use super::*;
use crate::shown::Role as ShownRole;
use fold_runtime::journal::Digest;

const START: u64 = 1_796_007_115_667;

fn host() -> Host {
    Host::new(1, START, TokenModel::new(5, 1_000))
}

fn text(words: &str) -> String {
    format!("[{{\"type\":\"text\",\"text\":{}}}]", quote(words))
}

fn call(id: &str) -> String {
    format!("[{{\"type\":\"toolCall\",\"id\":\"{id}\",\"name\":\"read\",\"arguments\":{{}}}}]")
}

fn ask(host: &mut Host, id: &str) -> String {
    let content = call(id);
    host.assistant(&Answer { content: &content, stop: "toolUse", provider: "p", model: "m", ..Answer::default() }).id().to_owned()
}

fn result(host: &mut Host, id: &str, bytes: usize) -> String {
    let content = text(&"x".repeat(bytes));
    host.tool_result(&ToolResult { call_id: id, tool: "read", content: &content, is_error: false }).id().to_owned()
}

fn answer(host: &mut Host, words: &str, usage: Usage) -> String {
    let content = text(words);
    host.assistant(&Answer { content: &content, stop: "stop", usage, provider: "p", model: "m", error: None }).id().to_owned()
}

fn edit(target: &str, replacement: Option<&str>) -> Draft {
    Draft::ContextEdit { target: target.to_owned(), replacement: replacement.map(str::to_owned) }
}

fn roles(host: &Host) -> Vec<ShownRole> {
    host.window().iter().map(|shown| shown.role).collect()
}

#[test]
fn entries_are_written_as_pi_writes_them() {
    let mut host = host();
    let user = host.user("\"hi\"").clone();
    assert_eq!(
        user.line(),
        r#"{"type":"message","id":"01000001","parentId":null,"timestamp":"2026-11-30T02:51:55.667Z","message":{"role":"user","content":"hi","timestamp":1796007115667}}"#
    );
    host.set_now(START + 1);
    assert_eq!(
        host.custom("mine", "{\"v\":1}").line(),
        r#"{"type":"custom","customType":"mine","data":{"v":1},"id":"01000002","parentId":"01000001","timestamp":"2026-11-30T02:51:55.668Z"}"#
    );
    let id = host.boundary(&[edit("01000001", Some("\"ho\""))]).expect("valid")[0].line().to_owned();
    assert!(id.ends_with(r#","targetId":"01000001","replacement":{"content":"ho"}}"#), "{id}");
}

#[test]
fn one_bad_draft_voids_all_and_says_which() {
    let mut host = host();
    let user = host.user("\"hi\"").id().to_owned();
    let bash = host.bash("ls", "a", 0, false).id().to_owned();
    answer(&mut host, "a", Usage::default());
    let before = host.clone();
    let good = edit(&user, Some("\"ho\""));
    for (bad, why) in [
        (edit("deadbeef", None), "Entry deadbeef not found".to_owned()),
        (edit(&bash, None), format!("Entry {bash} does not contribute editable model content")),
        (edit(&user, Some("7")), "Context edit replacement must be null or contain string/array content".to_owned()),
        (edit(&user, Some("[")), "Context edit replacement must be null or contain string/array content".to_owned()),
        (Draft::Custom { custom_type: "mine", data: "{".to_owned() }, "the data of a mine entry is no JSON".to_owned()),
    ] {
        assert_eq!(host.boundary(&[good.clone(), bad]).unwrap_err(), format!("Invalid boundary entries: {why}"));
        assert_eq!((host.journal().len(), host.window()), (before.journal().len(), before.window()));
    }
    assert_eq!(host.boundary(&[good.clone(), good]).expect("valid").len(), 2);
}

#[test]
fn an_entry_of_another_branch_cannot_be_edited() {
    let mut host = host();
    host.user("\"hi\"");
    let left = answer(&mut host, "one", Usage::default());
    let root = host.branch()[0].id().to_owned();
    host.custom("mark", "1");
    host.tree(&left).expect("there");
    host.tree(&root).expect("there");
    assert!(host.branch().is_empty(), "a navigation onto a question goes before it");
    host.user("\"again\"");
    assert_eq!(host.boundary(&[edit(&left, None)]).unwrap_err(), format!("Invalid boundary entries: Entry {left} is not on the active branch"));
}

#[test]
fn a_string_for_a_result_becomes_a_block() {
    let mut host = host();
    host.user("\"hi\"");
    ask(&mut host, "c1");
    let result = result(&mut host, "c1", 10);
    let written = host.boundary(&[edit(&result, Some("\"short\""))]).expect("valid");
    assert!(written[0].line().ends_with(r#""replacement":{"content":[{"type":"text","text":"short"}]}}"#));
    assert_eq!(host.window()[2].content(), r#"[{"type":"text","text":"short"}]"#);
}

#[test]
fn an_edit_changes_one_message_and_is_undone_by_another() {
    let mut host = host();
    host.user("\"hi\"");
    ask(&mut host, "c1");
    let result = result(&mut host, "c1", 900);
    host.user("\"go on\"");
    let original = host.window().to_vec();
    host.request();
    host.boundary(&[edit(&result, Some("\"short\""))]).expect("valid");
    assert_eq!(host.request(), Request { first_change: 2, before: 4, now: 4 });
    host.boundary(&[edit(&result, None)]).expect("valid");
    assert_eq!(host.window().len(), 3);
    assert_eq!(host.request(), Request { first_change: 2, before: 4, now: 3 });
    let back = text(&"x".repeat(900));
    host.boundary(&[edit(&result, Some(&back))]).expect("valid");
    assert!(host.window().iter().zip(&original).all(|(now, before)| now.digest == before.digest && now.tokens == before.tokens));
}

#[test]
fn an_edit_made_and_unmade_between_two_requests_is_no_change() {
    let mut host = host();
    let user = host.user("\"hi\"").id().to_owned();
    host.user("\"go on\"");
    host.request();
    host.boundary(&[edit(&user, None)]).expect("valid");
    assert_eq!(host.first_change(), 0);
    host.boundary(&[edit(&user, Some("\"hi\""))]).expect("valid");
    host.user("\"more\"");
    assert_eq!(host.request(), Request { first_change: 2, before: 2, now: 3 });
}

#[test]
fn an_append_changes_nothing_before_it() {
    let mut host = host();
    for turn in 0..20 {
        host.user("\"hi\"");
        let request = host.request();
        assert_eq!((request.first_change, request.rewrites(), request.before), (turn, false, turn));
        assert_eq!(host.last_request().len(), turn + 1);
    }
}

#[test]
fn an_edit_of_what_was_summarized_is_taken_and_shows_nothing() {
    let mut host = host();
    let old = host.user("\"old\"").id().to_owned();
    let kept = host.user("\"kept\"").id().to_owned();
    host.compaction("before", Some(&kept));
    assert_eq!(roles(&host), [ShownRole::CompactionSummary, ShownRole::User]);
    assert!(!host.in_context(&old) && host.in_context(&kept));
    host.boundary(&[edit(&old, Some("\"new\"")), edit(&kept, Some("\"edited\""))]).expect("Pi takes both");
    assert_eq!(host.window()[1].content(), "\"edited\"");
    assert_eq!(host.window(), host.rebuild());
}

#[test]
fn a_compaction_carries_the_system_prompt_and_keeps_no_system_message() {
    let mut host = host();
    host.system("\"be brief\"", r#""sections":{"a":"1","b":"2"},"toolsAdded":[{"name":"ls"}]"#);
    host.user("\"old\"");
    host.system("\"and kind\"", r#""sections":{"a":null,"b":"3"}"#);
    let kept = host.user("\"kept\"").id().to_owned();
    host.compaction("before", Some(&kept));
    assert_eq!(roles(&host), [ShownRole::System, ShownRole::CompactionSummary, ShownRole::User]);
    let expected =
        format!(r#"{{"role":"system","content":"be brief\n\nand kind","sections":{{"b":"3"}},"toolsAdded":[{{"name":"ls"}}],"timestamp":{START}}}"#);
    assert_eq!(host.window()[0].content(), expected);
    host.user("\"more\"");
    host.compaction("again", None);
    assert_eq!(roles(&host), [ShownRole::System, ShownRole::CompactionSummary]);
    assert_eq!(host.window()[0].content(), expected);
    assert_eq!(host.window(), host.rebuild());
}

#[test]
fn the_estimate_goes_on_from_a_usage_until_something_shown_changes() {
    let mut host = host();
    let user = host.user(&quote(&"u".repeat(400))).id().to_owned();
    let usage = Usage { input: 5_000, output: 10, total: 5_010, ..Usage::default() };
    answer(&mut host, &"a".repeat(40), usage);
    host.user(&quote(&"v".repeat(41)));
    assert_eq!(host.estimate(), 5_010 + 11);
    assert!(host.over_threshold(RESERVE + 5_020, RESERVE) && !host.over_threshold(RESERVE + 5_021, RESERVE));
    host.boundary(&[edit(&user, Some("\"short\""))]).expect("valid");
    assert_eq!(host.estimate(), 2 + 10 + 11);
    answer(&mut host, "b", usage);
    assert_eq!(host.estimate(), 5_010);
    // A failed answer reports nothing that is believed.
    let content = text("half");
    host.assistant(&Answer { content: &content, stop: "error", usage, provider: "p", model: "m", error: Some("503") });
    assert_eq!(host.estimate(), 5_010 + 1);
}

/// Ten turns of a question, a call, a result of `bytes` and an answer; gives the ids.
fn turns(host: &mut Host, turns: usize, bytes: usize) -> Vec<[String; 4]> {
    let turn = |turn| {
        let id = format!("c{turn}");
        let user = host.user("\"go\"").id().to_owned();
        [user, ask(host, &id), result(host, &id, bytes), answer(host, "done", Usage::default())]
    };
    (0..turns).map(turn).collect()
}

#[test]
fn a_compaction_cuts_at_no_tool_result_and_summarizes_the_beginning_of_a_cut_turn() {
    let mut host = host();
    let ids = turns(&mut host, 10, 4_000);
    // A result is 1,000 tokens; the third from the end reaches 3,000, and its call is before it: the cut moves on to the answer.
    let plan = host.plan_compaction(3_000).expect("something to summarize");
    assert_eq!(plan.first_kept, ids[7][3]);
    assert_eq!((plan.history.len(), plan.turn_prefix.len()), (28, 3));
    let mut asked = Vec::new();
    let entry = host
        .compact(3_000, &mut |call| {
            asked.push((call.part, call.messages.len(), call.previous.map(str::to_owned)));
            format!("summary {}", asked.len())
        })
        .expect("a compaction");
    assert_eq!(asked, [(Part::History, 28, None), (Part::TurnPrefix, 3, None)]);
    assert!(entry.field("summary").expect("a summary").contains(r"summary 1\n\n---\n\n**Turn Context (split turn):**\n\nsummary 2"));
    assert_eq!((host.window().len(), host.window()[0].role, host.window()[1].source.id()), (1 + 9, ShownRole::CompactionSummary, ids[7][3].as_str()));
    assert_eq!(host.window(), host.rebuild());
    // At once again: the leaf is a compaction. After more work: the summary goes on from the one before.
    assert_eq!(host.plan_compaction(3_000), None);
    turns(&mut host, 5, 4_000);
    let plan = host.plan_compaction(3_000).expect("more");
    assert!(plan.previous.expect("a summary").starts_with("summary 1"));
}

#[test]
fn there_is_nothing_to_compact_while_everything_would_be_kept() {
    let mut host = host();
    assert_eq!(host.plan_compaction(KEEP_RECENT), None);
    turns(&mut host, 3, 4_000);
    assert_eq!(host.plan_compaction(KEEP_RECENT), None);
    assert!(host.compact(KEEP_RECENT, &mut |_| unreachable!("nothing is summarized")).is_none());
}

#[test]
fn what_is_shown_over_the_branch_is_in_no_estimate_and_in_no_cut_of_pis_own() {
    let mut host = host();
    let ids = turns(&mut host, 10, 4_000);
    host.system("\"a prompt\"", "");
    let plain = (host.estimate(), host.plan_compaction(3_000).expect("something to summarize"));
    let short = text("short");
    host.lay_over([(ids[8][2].as_str(), Some(short.as_str())), (ids[9][3].as_str(), None)]).expect("results of the branch");
    let (laid, sizes) = (host.window().to_vec(), host.message_tokens());
    assert_eq!((host.estimate(), host.plan_compaction(3_000).expect("the same")), plain);
    assert!(host.over_threshold(plain.0 + 99, 100));
    // Where there is nothing to compact, it goes on being shown.
    assert!(host.compact(KEEP_RECENT, &mut |_| unreachable!("nothing is summarized")).is_none());
    assert_eq!((host.window(), host.message_tokens()), (&laid[..], sizes));
    let entry = host.compact(3_000, &mut |_| "summary".to_owned()).expect("a compaction");
    assert_eq!(entry.field("tokensBefore"), Some(plain.0.to_string().as_str()));
    assert_eq!(host.window(), host.rebuild());
}

#[test]
fn results_that_fill_the_kept_range_alone_keep_the_call_before_them() {
    let mut host = host();
    host.user("\"go\"");
    let asked = ask(&mut host, "c");
    result(&mut host, "c", 40_000);
    assert_eq!(host.plan_compaction(5_000).expect("the question").first_kept, asked);
}

#[test]
fn a_failed_attempt_is_omitted_with_its_results_and_the_cut_moves_past_the_last_input() {
    let mut host = host();
    turns(&mut host, 3, 400);
    let big = host.user(&quote(&"u".repeat(40_000))).id().to_owned();
    let content = call("c9");
    let failed = host.assistant(&Answer { content: &content, stop: "error", provider: "p", model: "m", ..Answer::default() }).id().to_owned();
    result(&mut host, "c9", 10);
    assert_eq!(host.omit_attempt(&failed).expect("on the branch").len(), 2);
    assert_eq!(host.window().last().expect("a window").source.id(), big);
    assert!(host.omit_attempt(&big).is_err());
    let plan = host.plan_compaction(1_000).expect("something");
    assert_eq!(plan.first_kept, failed);
    assert_eq!(host.window(), host.rebuild());
}

#[test]
fn a_fork_shares_entries_and_messages_and_goes_its_own_way() {
    let mut host = host();
    let ids = turns(&mut host, 5, 100);
    host.boundary(&[edit(&ids[0][2], Some("\"short\"")), edit(&ids[1][2], None)]).expect("valid");
    let record = host.leaf().expect("an edit").id().to_owned();
    let mut fork = host.fork(&record, 2).expect("on the branch");
    assert_ne!(fork.session_id(), host.session_id());
    assert!(fork.window().iter().zip(host.window()).all(|(one, other)| Arc::ptr_eq(one, other)) && fork.window().len() == host.window().len());
    let early = host.fork(&ids[1][3], 3).expect("on the branch");
    assert_eq!(early.window().len(), 8);
    let (one, other) = (fork.user("\"here\"").id().to_owned(), host.user("\"there\"").id().to_owned());
    assert_ne!(one, other);
    assert!(host.fork("deadbeef", 4).is_err());
    for host in [&host, &fork, &early] {
        assert_eq!(host.window(), host.rebuild());
    }
}

#[test]
fn a_reopened_session_shows_the_same_and_writes_on_with_the_same_ids() {
    let mut host = host();
    let ids = turns(&mut host, 3, 100);
    host.boundary(&[edit(&ids[0][2], Some("\"short\""))]).expect("valid");
    let journal = fold_runtime::journal::Journal::read(host.file().as_bytes()).expect("a session file");
    let mut reopened = Host::open(1, START, TokenModel::new(5, 1_000), &journal.entries).expect("a session");
    assert_eq!(reopened.window(), host.window());
    assert_eq!(reopened.user("\"on\"").line(), host.user("\"on\"").line());
    let stray = Entry::parse(r#"{"type":"label","id":"x","parentId":"gone"}"#).expect("an entry");
    assert!(Host::open(1, START, TokenModel::new(5, 0), std::slice::from_ref(&stray)).is_err());
    assert_eq!(reopened.adopt(&journal.entries[0]).unwrap_err(), format!("Entry {} exists already", journal.entries[0].id()));
}

/// A stream of numbers for these tests.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = crate::hash::mix(self.0, 0x5eed);
        usize::try_from(self.0 % bound as u64).expect("small")
    }
}

fn step(host: &mut Host, draw: &mut Draw, forks: &mut u32, kinds: &mut [usize; 14]) {
    let kind = draw.below(14);
    kinds[kind] += 1;
    let some_id = |host: &Host, draw: &mut Draw| host.branch().get(draw.below(host.branch().len().max(1))).map(|entry| entry.id().to_owned());
    match kind {
        0 => drop(host.user("\"hi 𝄞\"").clone()),
        1 => drop(host.user(r#"[{"type":"text","text":"look \ud83d"},{"type":"image","data":"AAAA","mimeType":"image/png"}]"#).clone()),
        2 => drop(ask(host, "c1")),
        3 => drop(result(host, "c1", 300)),
        4 => drop(answer(host, "fine", Usage { input: 700, total: 700, ..Usage::default() })),
        5 => drop(host.bash("ls", "out", 1, draw.below(2) == 0).clone()),
        6 => drop(host.custom_message("mine", "\"note\"").clone()),
        7 => drop(host.system("\"rules\"", "").clone()),
        8 => {
            let from = some_id(host, draw).unwrap_or_default();
            host.branch_summary(&from, "left");
            host.model_change("p", "other");
        }
        9 | 10 => {
            let replacement = [None, Some("\"short\""), Some(r#"[{"type":"text","text":"⟦pi-fold f_0⟧"}]"#)][draw.below(3)];
            let drafts: Vec<Draft> = (0..=draw.below(3)).filter_map(|_| Some(edit(&some_id(host, draw)?, replacement))).collect();
            let before = host.journal().len();
            match host.boundary(&drafts) {
                Ok(entries) => assert_eq!(entries.len(), drafts.len()),
                Err(_) => assert_eq!(host.journal().len(), before),
            }
        }
        11 => {
            if draw.below(3) == 0 {
                let kept = some_id(host, draw).filter(|_| draw.below(4) > 0);
                host.compaction("what was", kept.as_deref());
            } else {
                host.compact(500, &mut |call| format!("{} messages", call.messages.len()));
            }
        }
        12 => {
            let contents = [None, Some("[]"), Some(r#"[{"type":"text","text":"over"}]"#)];
            let over: Vec<(String, Option<&str>)> =
                (0..draw.below(4)).filter_map(|_| Some((some_id(host, draw)?, contents[draw.below(3)]))).collect();
            // What cannot be edited refuses the whole, and nothing changes.
            let _ = host.lay_over(over.iter().map(|(id, content)| (id.as_str(), *content)));
        }
        _ => {
            let Some(to) = some_id(host, draw) else { return };
            if draw.below(2) == 0 {
                host.tree(&to).expect("there");
            } else {
                *forks += 1;
                *host = host.fork(&to, 2 + *forks % 250).expect("on the branch");
            }
        }
    }
}

#[test]
fn the_kept_window_equals_one_made_from_nothing_on_random_journals() {
    let (mut kinds, mut forks, mut rewrites) = ([0; 14], 0, 0);
    for seed in 0..150 {
        let mut draw = Draw(seed);
        let mut host = host();
        let mut chain = crate::wire::Chain::new("m", 1_000);
        for _ in 0..60 {
            let before = host.last_request().to_vec();
            step(&mut host, &mut draw, &mut forks, &mut kinds);
            let scratch = host.rebuild();
            assert_eq!(host.window(), scratch, "seed {seed}");
            assert_eq!(host.message_tokens(), scratch.iter().map(|shown| shown.tokens).sum::<u64>());
            assert_eq!(host.window.estimate, scratch.iter().map(|shown| shown.estimate).sum::<u64>());
            if draw.below(2) == 0 {
                // A fork has not sent anything yet.
                let before = if host.last_request().is_empty() { Vec::new() } else { before };
                let same = scratch.iter().zip(&before).take_while(|(now, then)| now.digest == then.digest).count();
                let request = host.request();
                assert_eq!((request.first_change, request.now), (same, scratch.len()), "seed {seed}");
                assert_eq!(host.last_request(), scratch);
                rewrites += usize::from(request.rewrites());
                chain.update(host.window(), request.first_change, host.token_model());
                let mut anew = crate::wire::Chain::new("m", 1_000);
                anew.update(host.window(), 0, host.token_model());
                assert_eq!(chain, anew, "seed {seed}");
            }
        }
    }
    assert!(kinds.iter().all(|count| *count > 300) && forks > 100 && rewrites > 500, "{kinds:?}, {forks} forks, {rewrites} rewrites");
}

#[test]
fn the_same_steps_write_the_same_journal() {
    let run = || {
        let (mut draw, mut host, mut forks) = (Draw(9), host(), 0);
        for _ in 0..200 {
            step(&mut host, &mut draw, &mut forks, &mut [0; 14]);
        }
        Digest::of(host.file().as_bytes())
    };
    assert_eq!(run(), run());
}
