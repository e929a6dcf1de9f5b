//! Anthropic Messages: what it refuses, in its words.
//!
//! Results that follow each other leave as one user message, which has to answer the calls of the assistant message right before it.
//! Words and rules are those of the public reports that the tests name, and of Anthropic's documents.

use super::judge::Judge;
use super::{Rule, Terms, WireError, send};
use crate::shown::{Shown, WireRole};
use fold_runtime::journal::Text;
use std::fmt;

/// The largest body, in bytes (Anthropic, request size limits: 32 MB).
pub const BODY: u64 = 32 << 20;
/// The most images in a request to a model of up to 200,000 tokens, and to one with a larger window.
pub const IMAGES: [u64; 2] = [100, 600];
/// The largest window that is not a large one.
const SMALL_WINDOW: u64 = 200_000;
/// The most markers for the cache.
pub const MARKERS: u32 = 4;

/// What a call's id is kept as.
const CALL: u64 = 1;

pub(super) fn message(judge: &mut Judge<'_>, index: usize, shown: &Shown) {
    let facts = &shown.facts;
    // Images of a failed result leave beside it, behind a caption; then only text is in it, which leaves as one string.
    if facts.wire == WireRole::Tool && facts.hollow && facts.images > 0 && !facts.is_error {
        judge.refuse(Rule::EmptyText, index, &facts.answers);
    }
    if facts.wire != WireRole::Assistant {
        return;
    }
    let own = !judge.foreign(shown);
    if judge.state.last.is_none() {
        judge.refuse(Rule::FirstNotUser, index, &Text::default());
    }
    if own && facts.signed.alone {
        judge.refuse(Rule::ReasoningAlone, index, &Text::default());
    }
    // Signatures of the newest answer are compared with what it was.
    judge.state.torn = (own && facts.signed.torn).then_some(index);
    for (at, call) in facts.calls.iter().enumerate() {
        let id = send::id(judge.wire, !own, call.id.as_bytes());
        if !send::is_plain(&id) {
            judge.refuse(Rule::BadId, index, &call.id);
        }
        // Within one message it is a repeated id.
        let repeated = facts.calls[..at].iter().any(|earlier| send::id(judge.wire, !own, earlier.id.as_bytes()) == id);
        if !judge.keep(index, CALL, &id) && !repeated {
            judge.refuse(Rule::ReusedId, index, &call.id);
        }
    }
    if facts.broken_arguments {
        judge.refuse(Rule::BrokenArguments, index, &Text::default());
    }
}

pub(super) fn end(judge: &mut Judge<'_>, terms: &Terms) {
    judge.nothing_to_answer();
    if let Some(index) = judge.state.torn {
        judge.refuse(Rule::Torn, index, &Text::default());
    }
    if judge.state.images > IMAGES[usize::from(terms.context_window > SMALL_WINDOW)] {
        judge.refuse_all(Rule::TooManyImages);
    }
    if judge.state.bytes > BODY {
        judge.refuse_all(Rule::BodyTooLarge);
    }
    if terms.markers > MARKERS {
        judge.refuse_all(Rule::TooManyMarkers);
    }
}

pub(super) fn words(error: &WireError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WireError { rule, index, call, .. } = error;
    if *rule == Rule::BodyTooLarge {
        return write!(f, "413 request_too_large: Request exceeds the maximum size");
    }
    write!(f, "400 invalid_request_error: messages.{index}: ")?;
    match rule {
        Rule::MissingResult => write!(
            f,
            "`tool_use` ids were found without `tool_result` blocks immediately after: {call}. \
             Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        ),
        Rule::OrphanResult => write!(
            f,
            "unexpected `tool_use_id` found in `tool_result` blocks: {call}. \
             Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
        Rule::RepeatedResult => write!(f, "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call}"),
        Rule::EmptyId | Rule::BadId => write!(f, "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$' ('{call}')"),
        Rule::EmptyName => write!(f, "tool_use.name: String should have at least 1 character"),
        Rule::RepeatedId | Rule::ReusedId => write!(f, "`tool_use` ids must be unique ('{call}')"),
        Rule::Arguments => write!(f, "tool_use.input: Input should be a valid dictionary"),
        Rule::BrokenName | Rule::BrokenArguments => write!(f, "The request body is not valid JSON: no low surrogate in string"),
        Rule::AssistantLast => write!(f, "This model does not support assistant message prefill. The conversation must end with a user message."),
        Rule::NoMessages => write!(f, "at least one message is required"),
        Rule::FirstNotUser => write!(f, "first message must use the \"user\" role"),
        Rule::EmptyText => write!(f, "text content blocks must be non-empty"),
        Rule::ReasoningAlone => write!(f, "The final block in an assistant message cannot be `thinking`."),
        Rule::Torn => write!(
            f,
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. \
             These blocks must remain as they were in the original response."
        ),
        Rule::TooManyImages => write!(f, "too many images and documents"),
        Rule::TooManyMarkers => write!(f, "A maximum of {MARKERS} blocks with cache_control may be provided."),
        other => write!(f, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;
    use crate::wire::fixtures::*;

    const WIRE: Wire = Wire::Anthropic;

    fn refused(lines: &[String]) -> Vec<(Rule, usize)> {
        refused_on(WIRE, lines, &Terms::new(200_000))
    }

    fn own_call(id: &str) -> String {
        by(WIRE, &call(id), "toolUse")
    }

    #[test]
    fn a_call_is_answered_in_the_very_next_message() {
        let calls = calls(&["c1", "c2"]);
        assert_eq!(refused(&messages(&[USER, &calls, &result("c2"), &result("c1"), USER])), []);
        // https://github.com/earendil-works/pi/issues/8667, /4570: a result whose call went with something else.
        assert_eq!(refused(&messages(&[USER, &result("c1"), USER])), [(Rule::OrphanResult, 1)]);
        // A result after the next question: by then pi-ai has answered in its place.
        assert_eq!(refused(&messages(&[USER, &own_call("c1"), USER, &result("c1")])), [(Rule::OrphanResult, 3)]);
        // A question of white space stays at home on this wire, so both results answer.
        let nothing = r#"{"role":"user","content":" "}"#;
        assert_eq!(refused(&messages(&[USER, &own_call("c1"), nothing, &result("c1")])), [(Rule::RepeatedResult, 3)]);
        // https://github.com/vectorize-io/hindsight/pull/4250
        assert_eq!(refused(&messages(&[USER, &own_call("c1"), &result("c1"), &result("c1")])), [(Rule::RepeatedResult, 3)]);
        // The error result of a truncated call, without the call: Pi #11227
        assert_eq!(refused(&messages(&[USER, &own_call("c1").replace("toolUse", "error"), &result("c1")])), [(Rule::OrphanResult, 2)]);
        assert_eq!(refused(&messages(&[USER, &own_call("c1").replace("toolUse", "length"), &result("c1")])), []);
    }

    #[test]
    fn a_call_that_nobody_answers_is_refused_where_pi_did_not_make_a_result_up() {
        // OpenHarness#191; pi-ai closes it.
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), USER])), []);
        assert_eq!(unsent(WIRE, &messages(&[USER, &calls(&["c1"]), USER])), [(Rule::MissingResult, 1)]);
    }

    #[test]
    fn an_id_is_used_once_in_the_whole_request() {
        let twice = |first: &str, second: &str| messages(&[USER, first, &result("c1"), second, &result("c1")]);
        // opencode#40235, https://github.com/BerriAI/litellm/issues/23510
        assert_eq!(refused(&twice(&own_call("c1"), &own_call("c1"))), [(Rule::ReusedId, 3)]);
        // An answer that failed does not leave, so what it was called is free.
        assert_eq!(refused(&messages(&[USER, &own_call("c1").replace("toolUse", "aborted"), &own_call("c1"), &result("c1")])), []);
        assert_eq!(refused(&messages(&[USER, &calls(&["c1", "c1"]), &result("c1")]))[0], (Rule::RepeatedId, 1));
    }

    #[test]
    fn ids_are_words_and_pi_makes_them_so_for_the_calls_of_other_models() {
        let with = |message: String| refused(&messages(&[USER, &message, &result("call.1|fc")]));
        assert_eq!(with(own_call("call.1|fc")), [(Rule::BadId, 1)]);
        assert_eq!(with(calls(&["call.1|fc"])), []);
        let long = "x".repeat(65);
        assert_eq!(refused(&messages(&[USER, &own_call(&long), &result(&long)])), [(Rule::BadId, 1)]);
        assert_eq!(refused(&messages(&[USER, &own_call(&long[1..]), &result(&long[1..])])), []);
        assert_eq!(refused(&messages(&[USER, &own_call("")]))[0], (Rule::EmptyId, 1));
        // Two ids that differ in nothing but what is replaced.
        assert_eq!(refused(&messages(&[USER, &calls(&["a.b", "a_b"]), &result("a.b"), &result("a_b")]))[0], (Rule::RepeatedId, 1));
    }

    #[test]
    fn no_text_is_empty() {
        let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let with = |blocks: &str| {
            let result = result("c1").replace(r#"{"type":"text","text":"out"}"#, blocks);
            refused(&messages(&[USER, &own_call("c1"), &result]))
        };
        // https://github.com/anthropics/claude-code/issues/59812; pi-ai sends text alone as one string, which may be empty.
        assert_eq!(with(&format!(r#"{{"type":"text","text":""}},{image}"#)), [(Rule::EmptyText, 2)]);
        assert_eq!(with(r#"{"type":"text","text":""}"#), []);
        assert_eq!(with(&format!(r#"{{"type":"text","text":"out"}},{image}"#)), []);
        assert_eq!(with(image), []);
        let nothing = r#"{"role":"user","content":[{"type":"text","text":" "}]}"#;
        assert_eq!(refused(&messages(&[USER, nothing])), [], "pi-ai leaves it out");
    }

    #[test]
    fn it_begins_and_ends_with_a_user_message() {
        assert_eq!(refused(&messages(&[ANSWER, USER])), [(Rule::FirstNotUser, 0)]);
        let system = r#"{"role":"system","content":"hm"}"#;
        assert_eq!(refused(&messages(&[system, USER, ANSWER, USER])), []);
        assert_eq!(refused(&messages(&[USER, ANSWER])), [(Rule::AssistantLast, 1)]);
        assert_eq!(refused(&messages(&[system])), [(Rule::NoMessages, 0)]);
    }

    #[test]
    fn reasoning_is_neither_last_nor_changed() {
        let signed = thinking("hm", "c2ln");
        let text = r#"{"type":"text","text":"so"}"#;
        assert_eq!(refused(&messages(&[USER, &by(WIRE, &signed, "length"), USER])), [(Rule::ReasoningAlone, 1)]);
        assert_eq!(refused(&messages(&[USER, &by(WIRE, &format!("{signed},{text}"), "length"), USER])), []);
        assert_eq!(refused(&messages(&[USER, &by(Wire::Gemini, &signed, "length"), USER])), [], "another model's is left out");
        // https://github.com/anthropics/claude-code/issues/63448, /64066
        let lines = messages(&[USER, &by(WIRE, &format!("{signed},{}", call("c1")), "toolUse"), &result("c1")]);
        assert_eq!(refused(&given(lines.clone(), "m1", &format!("[{}]", call("c1")))), [(Rule::Torn, 1)]);
        assert_eq!(refused(&given(lines.clone(), "m1", &format!("[{signed},{}]", call("c1")))), []);
        let later = messages(&[USER, &by(WIRE, &format!("{signed},{}", call("c1")), "toolUse"), &result("c1"), ANSWER, USER]);
        assert_eq!(refused(&given(later, "m1", &format!("[{}]", call("c1")))), [], "only the newest answer is compared");
    }

    #[test]
    fn half_a_pair_of_surrogates_bricks_the_session() {
        // https://github.com/anthropics/claude-code/issues/50019, /56064, /69927; texts pi-ai repairs, arguments and names it does not.
        let with = |text: &str| refused(&messages(&[USER, &own_call("c1").replace("{}", &format!(r#"{{"a":"{text}"}}"#)), &result("c1")]));
        assert_eq!((with("\\ud83d"), with("\\ud83d\\ude00")), (vec![(Rule::BrokenArguments, 1)], vec![]));
        assert_eq!(refused(&messages(&[r#"{"role":"user","content":"\ud83d"}"#])), []);
        assert_eq!(refused(&messages(&[USER, &own_call("c1").replace("\"ls\"", "\"\\udc00\"")])), [(Rule::BrokenName, 1)]);
    }

    #[test]
    fn calls_have_names_and_arguments() {
        let with = |from: &str, to: &str| refused(&messages(&[USER, &own_call("c1").replace(from, to), &result("c1")]));
        assert_eq!((with("\"ls\"", "\"\""), with("{}", "[]")), (vec![(Rule::EmptyName, 1)], vec![(Rule::Arguments, 1)]));
    }

    #[test]
    fn images_are_counted_by_the_size_of_the_window() {
        // https://github.com/anthropics/claude-code/issues/24541: 120 + 0 > 100
        let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let with = |count: usize, window: u64| {
            let user = format!(r#"{{"role":"user","content":[{}]}}"#, vec![image; count].join(","));
            refused_on(WIRE, &messages(&[&user]), &Terms::new(window)).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>()
        };
        assert_eq!((with(100, 200_000), with(101, 200_000)), (vec![], vec![Rule::TooManyImages]));
        assert_eq!((with(600, 1_000_000), with(601, 1_000_000)), (vec![], vec![Rule::TooManyImages]));
    }

    #[test]
    fn a_body_may_have_32_mebibytes() {
        let with = |bytes: usize| refused(&messages(&[&format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(bytes))]));
        let limit = usize::try_from(BODY).expect("it fits");
        assert_eq!((with(limit - 1_000), with(limit)), (vec![], vec![(Rule::BodyTooLarge, 0)]));
    }

    #[test]
    fn a_fifth_marker_is_refused() {
        // kern-ai#316: one marker became five blocks.
        let with = |markers| refused_on(WIRE, &messages(&[USER]), &Terms { markers, ..Terms::new(200_000) });
        assert_eq!((with(4), with(5)), (vec![], vec![(Rule::TooManyMarkers, 0)]));
    }
}
