//! Gemini: what it refuses, in its words.
//!
//! System messages are collapsed into one instruction. Results that follow each other leave as one turn, whose parts answer the calls of
//! the turn before by number and name. pi-ai does not merge answers that follow each other, so a turn of calls may come to stand right
//! behind a turn of words, which Gemini refuses.

use super::judge::Judge;
use super::{Rule, WireError};
use crate::shown::{Shown, WireRole};
use fold_runtime::journal::Text;
use std::fmt;

/// The largest body, in bytes (Google, request payload limit: 20 MB).
pub const BODY: u64 = 20 << 20;

pub(super) fn message(judge: &mut Judge<'_>, index: usize, shown: &Shown) {
    let facts = &shown.facts;
    match facts.wire {
        WireRole::User => {
            // Signatures are looked at from the newest question on.
            judge.state.torn = None;
            if facts.bytes.text == 0 && facts.images == 0 {
                judge.refuse(Rule::EmptyText, index, &Text::default());
            }
        }
        WireRole::Assistant => {
            match judge.state.last {
                None => judge.refuse(Rule::FirstNotUser, index, &Text::default()),
                Some((_, WireRole::Assistant)) if !facts.calls.is_empty() => judge.refuse(Rule::CallTurn, index, &Text::default()),
                Some(_) => {}
            }
            if facts.signed.torn && !judge.foreign(shown) {
                judge.state.torn = judge.state.torn.or(Some(index));
            }
            if facts.broken_arguments {
                judge.refuse(Rule::BrokenArguments, index, &Text::default());
            }
        }
        WireRole::Tool | WireRole::System | WireRole::Nothing => {}
    }
}

/// A result, of the tool of that name, for the calls of `asked`.
pub(super) fn answered(judge: &mut Judge<'_>, index: usize, asked: Option<&Shown>, id: &Text, tool: Option<&Text>) {
    let Some(asked) = asked else { return judge.refuse(Rule::OrphanResult, index, id) };
    if tool.is_some_and(|tool| !asked.facts.calls.iter().any(|call| call.name == *tool)) {
        judge.refuse(Rule::ResultName, index, id);
    }
}

pub(super) fn end(judge: &mut Judge<'_>) {
    judge.nothing_to_answer();
    if let Some(index) = judge.state.torn {
        judge.refuse(Rule::Torn, index, &Text::default());
    }
    if judge.state.bytes > BODY {
        judge.refuse_all(Rule::BodyTooLarge);
    }
}

pub(super) fn words(error: &WireError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WireError { rule, index, call, .. } = error;
    write!(f, "400 INVALID_ARGUMENT (message {index}): ")?;
    match rule {
        Rule::ResultCount => write!(
            f,
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
        ),
        Rule::OrphanResult => write!(f, "Please ensure that function response turn comes immediately after a function call turn. ('{call}')"),
        Rule::ResultName => write!(f, "the name of function response '{call}' is that of no function call of the turn before"),
        Rule::CallTurn | Rule::FirstNotUser => {
            write!(f, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
        }
        Rule::EmptyName => write!(f, "contents[{index}].parts[].function_call.name: Name cannot be empty."),
        Rule::Arguments => write!(f, "Invalid value at 'contents[{index}].parts[].function_call.args' (type.googleapis.com/google.protobuf.Struct)"),
        Rule::BrokenName | Rule::BrokenArguments => write!(f, "Invalid JSON payload received. Invalid unicode: unpaired surrogate"),
        Rule::AssistantLast => write!(f, "Please ensure that multiturn requests end with a user role or a function response."),
        Rule::NoMessages => write!(f, "contents is not specified"),
        Rule::EmptyText => write!(f, "contents[{index}].parts: contents.parts must not be empty."),
        Rule::Torn => write!(f, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly."),
        Rule::BodyTooLarge => write!(f, "Request payload size exceeds the limit: {BODY} bytes."),
        other => write!(f, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;
    use crate::wire::{Terms, Wire};

    const WIRE: Wire = Wire::Gemini;

    fn refused(lines: &[String]) -> Vec<(Rule, usize)> {
        refused_on(WIRE, lines, &Terms::new(1_000_000))
    }

    #[test]
    fn a_turn_of_calls_is_answered_by_as_many_results_of_those_names() {
        let calls = calls(&["c1", "c2"]);
        assert_eq!(refused(&messages(&[USER, &calls, &result("c2"), &result("c1")])), []);
        // By number and name, not by id.
        assert_eq!(refused(&messages(&[USER, &calls.replace("c2", "c1"), &result("c1"), &result("c1")])), []);
        // https://github.com/google-gemini/gemini-cli/issues/3814
        assert_eq!(refused(&messages(&[USER, &calls, &result("c2"), &result("c1"), &result("c1")])), [(Rule::ResultCount, 1)]);
        assert_eq!(unsent(WIRE, &messages(&[USER, &calls, &result("c1"), USER])), [(Rule::ResultCount, 1)]);
        assert_eq!(refused(&messages(&[USER, &calls, &result("c1"), USER])), [], "pi-ai makes the other one up");
        let other = result("c2").replace("\"ls\"", "\"cat\"");
        assert_eq!(refused(&messages(&[USER, &calls, &other, &result("c1")])), [(Rule::ResultName, 2)]);
        // https://github.com/earendil-works/pi/issues/8667, https://github.com/uezo/ChatdollKit/issues/371
        assert_eq!(refused(&messages(&[USER, &result("c1"), USER])), [(Rule::OrphanResult, 1)]);
    }

    #[test]
    fn a_turn_of_calls_follows_a_person_or_a_result() {
        // https://github.com/xincmm/sageread/issues/8
        assert_eq!(refused(&messages(&[USER, ANSWER, &calls(&["c1"]), &result("c1")])), [(Rule::CallTurn, 2)]);
        assert_eq!(refused(&messages(&[USER, ANSWER, USER, &calls(&["c1"]), &result("c1")])), []);
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), &result("c1"), &calls(&["c2"]), &result("c2")])), []);
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), &calls(&["c2"]), &result("c2")])), [], "the made-up result stands between");
        assert_eq!(refused(&messages(&[USER, ANSWER, ANSWER, USER])), []);
        let system = r#"{"role":"system","content":"hm"}"#;
        assert_eq!(refused(&messages(&[USER, ANSWER, system, &calls(&["c1"]), &result("c1")])), [(Rule::CallTurn, 3)]);
    }

    #[test]
    fn it_begins_and_ends_with_a_person_or_a_result_and_no_part_is_empty() {
        assert_eq!(refused(&messages(&[ANSWER, USER])), [(Rule::FirstNotUser, 0)]);
        assert_eq!(refused(&messages(&[USER, ANSWER])), [(Rule::AssistantLast, 1)]);
        assert_eq!(refused(&messages(&[r#"{"role":"system","content":"hm"}"#])), [(Rule::NoMessages, 0)]);
        let user = |content: &str| refused(&messages(&[&format!(r#"{{"role":"user","content":{content}}}"#), USER]));
        assert_eq!((user("\"\""), user(r#"[{"type":"text","text":""}]"#)), (vec![(Rule::EmptyText, 0)], vec![(Rule::EmptyText, 0)]));
        assert_eq!((user("\" \""), user("[]")), (vec![], vec![]));
    }

    #[test]
    fn the_signature_of_a_call_is_passed_back_in_the_turn_it_belongs_to() {
        let signed = call("c1").replace("{}}", r#"{},"thoughtSignature":"c2ln"}"#);
        let lines = messages(&[USER, &by(WIRE, &signed, "toolUse"), &result("c1")]);
        // https://github.com/lbjlaq/Antigravity-Manager/issues/3202, https://github.com/mpfaffenberger/code_puppy/issues/165
        assert_eq!(refused(&given(lines.clone(), "m1", &format!("[{}]", call("c1")))), [(Rule::Torn, 1)]);
        assert_eq!(refused(&lines), []);
        assert_eq!(refused(&given(lines, "m1", &format!("[{signed}]"))), []);
        let foreign = messages(&[USER, &by(Wire::Anthropic, &signed, "toolUse"), &result("c1")]);
        assert_eq!(refused(&given(foreign, "m1", &format!("[{}]", call("c1")))), [], "another model's is left out");
        let earlier = messages(&[USER, &by(WIRE, &signed, "toolUse"), &result("c1"), USER]);
        assert_eq!(refused(&given(earlier, "m1", &format!("[{}]", call("c1")))), [], "earlier turns are not looked at");
    }

    #[test]
    fn calls_have_names_and_arguments_in_whole_characters() {
        let with = |from: &str, to: &str| refused(&messages(&[USER, &calls(&["c1"]).replace(from, to)]));
        assert_eq!((with("\"ls\"", "\"\""), with("{}", "[]")), (vec![(Rule::EmptyName, 1)], vec![(Rule::Arguments, 1)]));
        assert_eq!((with("{}", r#"{"a":"\ud83d"}"#), with("{}", r#"{"a":"b"}"#)), (vec![(Rule::BrokenArguments, 1)], vec![]));
        assert_eq!(with("\"ls\"", "\"\\udc00\""), [(Rule::BrokenName, 1)]);
    }

    #[test]
    fn a_body_may_have_20_mebibytes() {
        let with = |bytes| counted(WIRE, bytes, &messages(&[USER]));
        assert_eq!((with(BODY - 1_000), with(BODY)), (vec![], vec![Rule::BodyTooLarge]));
    }
}
