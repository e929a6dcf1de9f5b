//! OpenAI Chat Completions: what it refuses, in its words; and what stands in an edited message that no wire should be sent.

use super::judge::Judge;
use super::{Rule, WireError};
use std::fmt;

pub(super) fn end(judge: &mut Judge<'_>) {
    judge.nothing_to_answer();
}

pub(super) fn words(error: &WireError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WireError { rule, index, entry, call, .. } = error;
    write!(f, "400 Invalid value for 'messages[{index}]' (entry {entry}): ")?;
    match rule {
        Rule::MissingResult => write!(
            f,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
             The following tool_call_ids did not have response messages: {call}"
        ),
        Rule::OrphanResult => {
            write!(f, "messages with role 'tool' must be a response to a preceding message with 'tool_calls' ('{call}' answers none)")
        }
        Rule::RepeatedResult => write!(f, "Duplicate value for 'tool_call_id': '{call}' has been answered already"),
        Rule::EmptyId => write!(f, "'tool_call_id' must be a non-empty string"),
        Rule::EmptyName => write!(f, "'function.name' of call '{call}' must be a non-empty string"),
        Rule::RepeatedId => write!(f, "Duplicate value for 'tool_calls[].id' of '{call}' in message with role 'assistant'"),
        Rule::Arguments => write!(f, "the arguments of call '{call}' are not a JSON object"),
        Rule::BrokenName => write!(f, "an id or a name holds an unpaired surrogate; the body is not valid Unicode"),
        Rule::AssistantLast => write!(f, "the conversation must end with a user message or a tool result"),
        Rule::NoMessages => write!(f, "[] is too short: at least one message is needed beside the system prompt"),
        Rule::EmptyEdit => write!(f, "content must be non-empty; an edit left nothing of it"),
        Rule::PlaceholderInAssistant => write!(f, "a placeholder stands in an assistant message"),
        Rule::PlaceholderLast => write!(f, "a placeholder stands in the last user message or tool result"),
        other => write!(f, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;
    use crate::wire::{Wire, validate};

    fn refused(lines: &[String]) -> (Rule, usize) {
        let error = validate(&window(lines)).expect_err("a refusal");
        assert!(error.to_string().starts_with("400 ") && (error.entry.is_empty() || error.entry == format!("m{}", error.index)), "{error}");
        (error.rule, error.index)
    }

    #[test]
    fn a_plain_loop_is_accepted() {
        let lines = messages(&[USER, &calls(&["c1", "c2"]), &result("c2"), &result("c1"), ANSWER, USER, &calls(&["c1"]), &result("c1")]);
        assert_eq!(validate(&window(&lines)), Ok(()));
        assert_eq!(sent(&lines), "uattauat");
    }

    #[test]
    fn a_call_nobody_answered_gets_a_made_up_result_before_whatever_comes_next() {
        let lines = messages(&[USER, &calls(&["c1", "c2"]), &result("c1"), USER]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uatxu", Ok(())));
        let lines = messages(&[USER, &calls(&["c1", "c2"])]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uaxx", Ok(())));
    }

    #[test]
    fn a_system_message_between_call_and_result_waits() {
        let system = r#"{"role":"system","content":"now with tools"}"#;
        let lines = messages(&[USER, &calls(&["c1"]), system, &result("c1"), USER]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uatsu", Ok(())));
    }

    #[test]
    fn a_failed_answer_leaves_and_its_result_is_an_orphan() {
        let failed = calls(&["c1"]).replace("toolUse", "error");
        let lines = messages(&[USER, &failed, &result("c1")]);
        assert_eq!(sent(&lines), "ut");
        assert_eq!(refused(&lines), (Rule::OrphanResult, 2));
    }

    #[test]
    fn a_result_after_the_next_question_comes_too_late() {
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), USER, &result("c1")])), (Rule::OrphanResult, 3));
    }

    #[test]
    fn a_missing_result_is_refused_where_pi_did_not_make_one_up() {
        assert_eq!(unsent(Wire::Chat, &messages(&[USER, &calls(&["c1"]), USER])), [(Rule::MissingResult, 1)]);
    }

    #[test]
    fn each_rule_of_a_call_is_refused_once() {
        let with = |from: &str, to: &str| messages(&[USER, &calls(&["c1"]).replace(from, to), &result("c1")]);
        assert_eq!(refused(&messages(&[USER, &calls(&["c1", "c1"]), &result("c1")])), (Rule::RepeatedId, 1));
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), &result("c1"), &result("c1")])), (Rule::RepeatedResult, 3));
        assert_eq!(refused(&messages(&[USER, &calls(&[""])])), (Rule::EmptyId, 1));
        assert_eq!(refused(&messages(&[USER, &result("")])), (Rule::EmptyId, 1));
        assert_eq!(refused(&with("\"ls\"", "\"\"")), (Rule::EmptyName, 1));
        assert_eq!(refused(&with("{}", "[]")), (Rule::Arguments, 1));
        assert_eq!(refused(&with("\"ls\"", "\"\\udc00\"")), (Rule::BrokenName, 1));
    }

    #[test]
    fn a_request_needs_something_to_answer() {
        assert_eq!(refused(&messages(&[USER, ANSWER])), (Rule::AssistantLast, 1));
        assert_eq!(refused(&messages(&[r#"{"role":"system","content":"hm"}"#])), (Rule::NoMessages, 0));
    }

    #[test]
    fn a_placeholder_stands_in_no_assistant_message_and_not_in_the_last_of_the_others() {
        let lines = messages(&[USER, ANSWER, USER, &calls(&["c1"]), &result("c1")]);
        assert_eq!(refused(&edited(lines.clone(), "m1", PLACEHOLDER)), (Rule::PlaceholderInAssistant, 1));
        assert_eq!(refused(&edited(lines.clone(), "m4", PLACEHOLDER)), (Rule::PlaceholderLast, 4));
        assert_eq!(validate(&window(&edited(lines.clone(), "m2", PLACEHOLDER))), Ok(()));
        // An edit that gives an assistant message its own words is no placeholder.
        assert_eq!(validate(&window(&edited(lines, "m1", "done"))), Ok(()));
    }

    #[test]
    fn an_edit_that_leaves_nothing_is_refused() {
        assert_eq!(refused(&edited(messages(&[USER, ANSWER, USER]), "m0", " ")), (Rule::EmptyEdit, 0));
    }
}
