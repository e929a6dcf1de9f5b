//! Each rule once, at its edge.

use super::*;
use crate::journal::Content;

/// Fires at 1,000 tokens, stops at 400, for at least 100; two turns and ten tokens. No usage: four bytes a token.
fn settings() -> Settings {
    Settings {
        trigger_tokens: 1_000,
        target_tokens: 400,
        min_clear_tokens: 100,
        keep_recent_turns: 2,
        min_entry_tokens: 10,
        exclude_tools: BTreeSet::from(["ask".to_owned()]),
        ..Settings::default()
    }
}

/// A branch in the making; ids are `a0` for the first answer, `r0` for its result, and so on.
#[derive(Default)]
struct Story {
    entries: Vec<Entry>,
    turns: usize,
}

impl Story {
    fn line(&mut self, line: &str) -> &mut Self {
        self.entries.push(Entry::parse(line).expect("an entry"));
        self
    }

    fn message(&mut self, id: &str, message: &str) -> &mut Self {
        self.line(&format!(r#"{{"type":"message","id":"{id}","message":{message}}}"#))
    }

    fn user(&mut self, bytes: usize) -> &mut Self {
        let id = format!("u{}", self.entries.len());
        self.message(&id, &format!(r#"{{"role":"user","content":"{}"}}"#, "u".repeat(bytes)))
    }

    /// An answer that calls a tool with these arguments, and this content as its result.
    fn calls(&mut self, tool: &str, arguments: &str, content: &str) -> &mut Self {
        let turn = self.turns;
        self.turns += 1;
        self.message(
            &format!("a{turn}"),
            &format!(
                r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"c{turn}","name":"{tool}","arguments":{arguments}}}]}}"#
            ),
        );
        self.message(&format!("r{turn}"), &format!(r#"{{"role":"toolResult","toolCallId":"c{turn}","toolName":"{tool}","content":{content}}}"#))
    }

    /// Turns with one result of so many bytes each.
    fn reads(&mut self, results: &[usize]) -> &mut Self {
        results.iter().for_each(|bytes| {
            self.calls("read", "{}", &text(*bytes));
        });
        self
    }

    fn edits(&mut self, target: &str, replacement: &str) -> &mut Self {
        let id = format!("e{}", self.entries.len());
        self.line(&format!(r#"{{"type":"context_edit","id":"{id}","targetId":"{target}","replacement":{replacement}}}"#))
    }

    /// What a host writes of drafts.
    fn writes(&mut self, drafts: &[Draft]) -> &mut Self {
        drafts.iter().for_each(|draft| {
            let id = self.entries.len();
            self.line(&format!(r#"{{{},"id":"d{id}"}}"#, draft.fields()));
        });
        self
    }

    fn masker(&self) -> Masker {
        self.masker_with(&settings())
    }

    fn masker_with(&self, settings: &Settings) -> Masker {
        Masker::open(&self.entries, settings, 1_000_000).expect("thresholds apart")
    }

    fn masked(&self) -> Vec<String> {
        targets(&self.masker().boundary())
    }
}

fn text(bytes: usize) -> String {
    format!(r#"[{{"type":"text","text":"{}"}}]"#, "x".repeat(bytes))
}

fn targets(decision: &Decision) -> Vec<String> {
    let Decision::Mask(batch) = decision else { return Vec::new() };
    let target = |draft: &Draft| match draft {
        Draft::ContextEdit { target, replacement: Some(_) } => target.clone(),
        other => panic!("an edit, not {other:?}"),
    };
    batch.drafts.iter().map(target).collect()
}

fn batch(story: &Story) -> Batch {
    match story.masker().boundary() {
        Decision::Mask(batch) => batch,
        other => panic!("a batch, not {other:?}"),
    }
}

#[test]
fn below_the_trigger_nothing_happens_and_at_it_the_oldest_results_go_until_the_target() {
    let mut story = Story::default();
    // A turn of 1,000 bytes is 250 tokens, and its call another one.
    story.reads(&[1_000, 1_000, 1_000, 900]);
    assert_eq!(story.masker().boundary(), Decision::Quiet);
    story.user(100);
    let batch = batch(&story);
    assert_eq!(targets(&Decision::Mask(batch.clone())), ["r0", "r1"]);
    assert!(batch.before >= 1_000 && batch.target == 400, "{batch:?}");
    // No older one is left, so the target is not reached.
    assert!(batch.after > batch.target && batch.before - batch.after > 400, "{batch:?}");
    let mut longer = Story::default();
    longer.reads(&[1_000, 1_000, 1_000, 1_000, 10, 10]);
    assert_eq!(longer.masked(), ["r0", "r1", "r2"]);
}

#[test]
fn what_a_batch_foresees_is_what_stands_after_it() {
    let mut story = Story::default();
    story.reads(&[1_000, 1_000, 1_000, 1_000, 10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts);
    assert_eq!(story.masker().occupancy(), batch.after);
    assert!(batch.after <= batch.target);
}

#[test]
fn the_newest_turns_and_what_follows_them_are_not_touched() {
    let mut story = Story::default();
    story.reads(&[10, 4_000, 4_000]).user(10);
    assert_eq!(story.masker().boundary(), Decision::Deferred(Deferral::NothingEligible));
    story.reads(&[10]);
    assert_eq!(story.masked(), ["r1"]);
}

#[test]
fn an_answer_that_failed_and_one_that_was_omitted_are_no_turns() {
    let mut story = Story::default();
    story.reads(&[4_000, 4_000]);
    let failed = r#"{"role":"assistant","stopReason":"error","content":[{"type":"text","text":"half"}]}"#;
    story.message("f0", failed).message("f1", failed).message("f2", r#"{"role":"assistant","stopReason":"aborted","content":[]}"#);
    assert_eq!(story.masker().boundary(), Decision::Deferred(Deferral::NothingEligible));
    story.reads(&[10]);
    assert_eq!(story.masked(), ["r0"]);
    story.edits("a2", "null").edits("r2", "null");
    assert_eq!(story.masked(), Vec::<String>::new());
    story.edits("a2", r#"{"content":"what it said"}"#);
    assert_eq!(story.masked(), ["r0"]);
}

#[test]
fn the_last_word_of_a_person_or_a_tool_stays() {
    let spoken = r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"done"}]}"#;
    let mut story = Story::default();
    story.reads(&[4_000, 4_000]).message("s0", spoken).message("s1", spoken);
    assert_eq!(story.masked(), ["r0"]);
    story.message("u", r#"{"role":"user","content":"go on"}"#);
    assert_eq!(story.masked(), ["r0", "r1"]);
    story.edits("u", "null");
    assert_eq!(story.masked(), ["r0"]);
}

#[test]
fn words_of_people_and_models_stay() {
    let mut story = Story::default();
    let spoken = format!(r#"{{"role":"assistant","stopReason":"stop","content":{}}}"#, text(8_000));
    story.user(8_000).message("said", &spoken).line(&format!(r#"{{"type":"custom_message","id":"m","customType":"x","content":{}}}"#, text(8_000)));
    story.reads(&[2_000, 10, 10]);
    assert_eq!(story.masked(), ["r0"]);
}

#[test]
fn results_of_excluded_tools_stay() {
    let mut story = Story::default();
    story.calls("ask", "{}", &text(8_000)).reads(&[2_000, 10, 10]);
    assert_eq!(story.masked(), ["r1"]);
    let free = Settings { exclude_tools: BTreeSet::new(), ..settings() };
    assert_eq!(targets(&story.masker_with(&free).boundary()), ["r0", "r1"]);
}

#[test]
fn what_a_skill_said_stays() {
    let mut story = Story::default();
    for arguments in [r#"{"path":"/skills/pdf/SKILL.md"}"#, r#"{"file_path":"SKILL.md"}"#, r#"{"path":"C:\\skills\\SKILL.md"}"#] {
        story.calls("read", arguments, &text(2_000));
    }
    for arguments in [r#"{"path":"/skills/OLD_SKILL.md"}"#, r#"{"path":"SKILL.md/notes"}"#, r#"{"pattern":"SKILL.md"}"#, r#"["SKILL.md"]"#] {
        story.calls("read", arguments, &text(2_000));
    }
    story.reads(&[10, 10]);
    assert_eq!(story.masked(), ["r3", "r4", "r5", "r6"]);
}

#[test]
fn a_later_call_under_the_id_of_one_that_read_a_skill_is_not_protected_by_it() {
    let mut story = Story::default();
    let call = |path: &str| {
        format!(
            r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"c","name":"read","arguments":{{"path":"{path}"}}}}]}}"#
        )
    };
    let result = format!(r#"{{"role":"toolResult","toolCallId":"c","toolName":"read","content":{}}}"#, text(8_000));
    story.message("s", &call("SKILL.md")).message("of_s", &result).message("t", &call("notes.md")).message("of_t", &result).reads(&[10, 10]);
    assert_eq!(story.masked(), ["of_t"]);
}

#[test]
fn small_results_stay() {
    let mut story = Story::default();
    story.reads(&[1_023, 1_024, 8_000, 10, 10]);
    let masked = |least| targets(&story.masker_with(&Settings { min_entry_tokens: least, target_tokens: 0, ..settings() }).boundary());
    assert_eq!(masked(256), ["r1", "r2"]);
    assert_eq!(masked(255), ["r0", "r1", "r2"]);
}

#[test]
fn a_result_that_is_not_heavier_than_its_line_stays() {
    let mut story = Story::default();
    story.reads(&[20, 8_000, 10, 10]);
    let line = placeholder(&story.entries[1]).expect("a result").len();
    assert!(line > 20 && line < 200, "{line}");
    let all = Settings { min_entry_tokens: 0, target_tokens: 0, ..settings() };
    assert_eq!(targets(&story.masker_with(&all).boundary()), ["r1"]);
}

#[test]
fn what_another_extension_edited_stays() {
    let mut story = Story::default();
    story.reads(&[2_000, 4_000, 4_000, 2_000, 10, 10]);
    let own = story.entries[7].content().raw().to_owned();
    story.edits("r0", &format!(r#"{{"content":{}}}"#, text(3_000))).edits("r1", "null").edits("r3", &format!(r#"{{"content":{own}}}"#));
    assert_eq!(story.masked(), ["r2"]);
}

#[test]
fn what_is_masked_is_not_masked_again_and_neither_is_what_somebody_edited_after_us() {
    let mut story = Story::default();
    story.reads(&[4_000, 4_000, 10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts);
    assert_eq!(story.masker().masked().collect::<Vec<_>>(), ["r0", "r1"]);
    story.user(8_000);
    assert_eq!(story.masker().boundary(), Decision::Deferred(Deferral::NothingEligible));
    story.edits("r0", &format!(r#"{{"content":{}}}"#, text(4_000)));
    assert_eq!(story.masker().masked().collect::<Vec<_>>(), ["r1"]);
    assert_eq!(story.masker().boundary(), Decision::Deferred(Deferral::NothingEligible));
}

#[test]
fn where_less_than_the_floor_would_become_free_nothing_is_done() {
    let mut story = Story::default();
    story.user(8_000).reads(&[1_000, 10, 10]);
    let decided = |least| story.masker_with(&Settings { min_clear_tokens: least, ..settings() }).boundary();
    assert_eq!(decided(250), Decision::Deferred(Deferral::BelowFloor));
    assert_eq!(targets(&decided(200)), ["r0"]);
    // No more is asked for than lies between trigger and target.
    let wide = Settings { min_clear_tokens: 50_000, trigger_tokens: 1_000, target_tokens: 900, ..settings() };
    assert_eq!(targets(&story.masker_with(&wide).boundary()), ["r0"]);
}

#[test]
fn nothing_is_masked_while_masking_is_off() {
    let mut story = Story::default();
    story.reads(&[8_000, 10, 10]);
    assert_eq!(story.masker_with(&Settings { enabled: false, ..settings() }).boundary(), Decision::Quiet);
    assert_eq!(story.masked(), ["r0"]);
}

#[test]
fn what_the_provider_counts_goes_before_what_bytes_say() {
    let usage = |total: u64| format!(r#"{{"role":"assistant","stopReason":"stop","content":[],"usage":{{"input":{total},"totalTokens":{total}}}}}"#);
    let said = |total: u64| usage(total).replace(r#""content":[]"#, r#""content":[{"type":"text","text":"ok"}]"#);
    let mut story = Story::default();
    story.reads(&[2_000, 10]).message("low", &said(900));
    assert_eq!(story.masker().boundary(), Decision::Quiet);
    story.message("high", &said(1_000));
    assert_eq!(story.masked(), ["r0"]);
}

#[test]
fn a_provider_that_counts_more_tokens_to_a_byte_makes_more_free() {
    // The rate is measured over increments of 5,000 tokens.
    let freed = |bytes_a_token: u64| {
        let mut story = Story::default();
        for turn in 1..=4 {
            story.reads(&[24_000]);
            let total = turn * 24_000 / bytes_a_token;
            let said = format!(
                r#"{{"role":"assistant","stopReason":"stop","content":[{{"type":"text","text":"ok"}}],"usage":{{"input":{total},"totalTokens":{total}}}}}"#
            );
            story.message(&format!("s{turn}"), &said);
        }
        let Decision::Mask(batch) = story.masker_with(&Settings { target_tokens: 0, ..settings() }).boundary() else { panic!("a batch") };
        (batch.before - batch.after) / batch.drafts.len() as u64
    };
    let (dense, thin) = (freed(2), freed(4));
    assert!((11_900..12_000).contains(&dense) && (5_900..6_000).contains(&thin), "{dense}, {thin}");
}

#[test]
fn what_a_compaction_leaves_out_is_neither_masked_nor_counted() {
    let mut story = Story::default();
    story.reads(&[8_000, 8_000, 2_000, 10]);
    assert_eq!(story.masked(), ["r0", "r1"]);
    story.line(r#"{"type":"compaction","id":"k","summary":"so far","firstKeptEntryId":"a2"}"#);
    let after = story.masker().occupancy();
    assert!((500..600).contains(&after), "{after}");
    story.reads(&[10, 3_000]);
    assert_eq!(story.masked(), ["r2"]);
    // One that keeps more than the one before it shows it again.
    story.line(r#"{"type":"compaction","id":"l","summary":"so far","firstKeptEntryId":"a1"}"#);
    assert_eq!(story.masked(), ["r1", "r2"]);
}

#[test]
fn what_is_masked_stays_masked_and_recoverable_across_a_compaction() {
    let mut story = Story::default();
    story.reads(&[8_000, 8_000, 10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts).line(r#"{"type":"compaction","id":"k","summary":"so far","firstKeptEntryId":"a1"}"#);
    let masker = story.masker();
    assert_eq!(masker.masked().collect::<Vec<_>>(), ["r1"]);
    assert_eq!(masker.recover("c0").expect("masked")[0].line, story.entries[1].line());
}

#[test]
fn images_go_with_the_text_and_come_back_with_it() {
    let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
    let mut story = Story::default();
    story.calls("read", "{}", &format!(r#"[{{"type":"text","text":"a picture"}},{image}]"#)).reads(&[10, 10]);
    let batch = batch(&story);
    let Draft::ContextEdit { replacement: Some(content), .. } = &batch.drafts[0] else { panic!("an edit") };
    assert!(content.contains("(9 bytes of text and 1 image)") && !content.contains("AAAA"), "{content}");
    story.writes(&batch.drafts);
    let masker = story.masker();
    assert_eq!(masker.recover("c0").expect("masked")[0].line, story.entries[1].line());
    let given = masker.context_tree_query(r#"{"ids":["c0"]}"#).expect("masked");
    assert_eq!((given.text.as_str(), &given.images[..]), ("[read of \"c0\", entry r0]\na picture\n[an image]\n", &[image.to_owned()][..]));
}

#[test]
fn only_the_content_of_a_result_is_replaced_so_calls_keep_their_results() {
    let mut story = Story::default();
    story.reads(&[8_000, 10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts);
    let window = crate::window::projection(&story.entries);
    let roles: Vec<&str> = window.iter().flat_map(|projected| &projected.messages).map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["assistant", "toolResult", "assistant", "toolResult", "assistant", "toolResult"]);
}

#[test]
fn an_original_comes_back_by_its_call_and_a_refusal_says_why() {
    let mut story = Story::default();
    story.reads(&[4_000, 4_000, 4_000, 10, 10]);
    let masker = story.masker();
    assert_eq!(masker.recover("c0"), Err(QueryError::NotMasked("c0".into())));
    assert_eq!(masker.recover("c9"), Err(QueryError::Unknown("c9".into())));
    let batch = batch(&story);
    story.writes(&batch.drafts).edits("r1", r#"{"content":"mine"}"#);
    let masker = story.masker();
    assert_eq!(masker.recover("c0").expect("masked")[0].line, story.entries[1].line());
    assert_eq!(masker.recover("c1"), Err(QueryError::ChangedSince("c1".into())));
    let given = masker.context_tree_query(r#"{"ids":["c1","c0","c9"]}"#).expect("one is masked");
    assert!(
        given.text.starts_with("[what is shown of the result of \"c1\" was changed by somebody else")
            && given.text.contains("[read of \"c0\", entry r0]\nxxx")
    );
    assert!(given.text.ends_with("[no tool result on this branch answers the call \"c9\"]\n"));
}

#[test]
fn a_call_id_that_was_used_again_gives_every_result_back() {
    let mut story = Story::default();
    let result = |fill: &str| format!(r#"{{"role":"toolResult","toolCallId":"c","toolName":"ls","content":"{}"}}"#, fill.repeat(4_000));
    story.message("one", &result("1")).message("two", &result("2")).reads(&[10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts);
    let given: Vec<String> = story.masker().recover("c").expect("masked").into_iter().map(|original| original.id).collect();
    assert_eq!(given, ["one", "two"]);
}

#[test]
fn a_query_is_refused_where_it_is_none_or_gives_nothing_back() {
    let mut story = Story::default();
    story.reads(&[8_000, 10, 10]);
    let refused = |call: &str| story.masker().context_tree_query(call).unwrap_err();
    assert!(matches!(refused("c0"), QueryError::Malformed(_)) && matches!(refused(r#"{"ids":["c0"],"all":true}"#), QueryError::Malformed(_)));
    assert_eq!(refused(r#"{"ids":[]}"#), QueryError::Ids(0));
    let many = format!(r#"{{"ids":[{}]}}"#, vec!["\"c0\""; 21].join(","));
    assert_eq!(refused(&many).to_string(), "ids has 21 calls; give 1 to 20");
    let text = refused(r#"{"ids":["c0","c9"]}"#).to_string();
    assert_eq!(
        text,
        r#"the result of "c0" is not masked: it stands in the context as it was written; no tool result on this branch answers the call "c9""#
    );
}

#[test]
fn an_answer_is_bounded_and_those_it_names_give_all_of_it() {
    let mut story = Story::default();
    let family = "👨‍👩‍👧‍👦".repeat(5_000);
    story.calls("read", "{}", &format!(r#"[{{"type":"text","text":"{family}"}}]"#)).reads(&[10, 10]);
    let batch = batch(&story);
    story.writes(&batch.drafts);
    let masker = story.masker();
    let (mut call, mut all) = (r#"{"ids":["c0"]}"#.to_owned(), String::new());
    loop {
        let given = masker.context_tree_query(&call).expect("masked").text;
        assert!(given.len() <= QUERY_BYTES + 200, "{}", given.len());
        let Some((shown, next)) = given.split_once("\n[bytes ") else {
            all.push_str(&given);
            break;
        };
        all.push_str(shown);
        call = next.split_once(QUERY_TOOL).expect("the next call").1.trim().trim_end_matches(']').to_owned();
    }
    assert_eq!(all, format!("[read of \"c0\", entry r0]\n{family}\n"));
    let past = masker.context_tree_query(r#"{"ids":["c0"],"offset":1000000}"#);
    assert_eq!(past.unwrap_err(), QueryError::PastEnd { offset: 1_000_000, whole: all.len() });
}

#[test]
fn the_same_branch_gives_the_same_bytes() {
    let mut story = Story::default();
    story.reads(&[4_000, 4_000, 10, 10]);
    assert_eq!(story.masker().boundary(), story.masker().boundary());
    let Decision::Mask(batch) = story.masker().boundary() else { panic!("a batch") };
    let Draft::ContextEdit { replacement: Some(content), .. } = &batch.drafts[0] else { panic!("an edit") };
    let edit =
        Entry::parse(&format!(r#"{{"type":"context_edit","id":"e","targetId":"r0","replacement":{{"content":{content}}}}}"#)).expect("an edit");
    assert!(edit.replacement().is_some_and(|content: Content<'_>| is_placeholder(content)));
}
