//! OpenAI Responses: what it refuses, in its words.
//!
//! An answer leaves as items: reasoning, messages, calls; a call and its output belong together by `call_id`. pi-ai has closed every call
//! before the next message, so an output that comes later is always one too many.

use super::judge::Judge;
use super::{Rule, WireError, send};
use crate::shown::{Shown, WireRole};
use fold_runtime::journal::Text;
use std::fmt;

/// The largest body, in bytes, and the most images (OpenAI, images: 512 MB of payload and 1,500 images a request).
pub const BODY: u64 = 512 << 20;
/// See [`BODY`].
pub const IMAGES: u64 = 1_500;

/// What a call's id, and an item's, are kept as.
const CALL: u64 = 2;
const ITEM: u64 = 3;

pub(super) fn message(judge: &mut Judge<'_>, index: usize, shown: &Shown) {
    let facts = &shown.facts;
    if facts.wire != WireRole::Assistant {
        return;
    }
    let own = !judge.foreign(shown);
    if own {
        if facts.signed.alone {
            judge.refuse(Rule::ReasoningAlone, index, &Text::default());
        }
        if facts.signed.torn {
            judge.refuse(Rule::Torn, index, &Text::default());
        }
        // The signature is the item itself, its id in it.
        if facts.signed.reasoning.is_some_and(|signature| !judge.keep(index, ITEM, &signature.to_le_bytes())) {
            judge.refuse(Rule::ReusedItem, index, &Text::default());
        }
    }
    for (at, call) in facts.calls.iter().enumerate() {
        let id = send::id(judge.wire, !own, call.id.as_bytes());
        let repeated = facts.calls[..at].iter().any(|earlier| send::id(judge.wire, !own, earlier.id.as_bytes()) == id);
        if !judge.keep(index, CALL, &id) && !repeated {
            judge.refuse(Rule::ReusedId, index, &call.id);
        }
        let item = call.id.as_bytes().split(|byte| *byte == b'|').nth(1).filter(|item| own && item.starts_with(b"fc_"));
        if item.is_some_and(|item| !judge.keep(index, ITEM, item)) {
            judge.refuse(Rule::ReusedItem, index, &call.id);
        }
    }
}

pub(super) fn end(judge: &mut Judge<'_>) {
    if judge.state.images > IMAGES {
        judge.refuse_all(Rule::TooManyImages);
    }
    if judge.state.bytes > BODY {
        judge.refuse_all(Rule::BodyTooLarge);
    }
}

pub(super) fn words(error: &WireError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let WireError { rule, index, call, .. } = error;
    if *rule == Rule::BodyTooLarge {
        return write!(f, "413 Request body too large");
    }
    write!(f, "400 invalid_request_error (message {index}): ")?;
    match rule {
        Rule::MissingResult => write!(f, "No tool output found for function call {call}."),
        Rule::OrphanResult => write!(f, "No tool call found for function call output with call_id {call}."),
        Rule::RepeatedResult => write!(f, "Duplicate function_call_output for call_id '{call}'"),
        Rule::EmptyId => write!(f, "Invalid 'input[].call_id': empty string. Expected a string with minimum length 1"),
        Rule::EmptyName => write!(f, "Invalid 'input[].name': empty string. Expected a string with minimum length 1"),
        Rule::RepeatedId | Rule::ReusedId => write!(f, "Duplicate 'call_id': {call}"),
        Rule::ReusedItem => write!(f, "Duplicate item found with id {call}. Remove duplicate items from your input and try again."),
        Rule::BrokenName => write!(f, "an id or a name holds an unpaired surrogate; the body is not valid Unicode"),
        Rule::ReasoningAlone => write!(f, "Item 'rs_…' of type 'reasoning' was provided without its required following item."),
        Rule::Torn => write!(f, "Item 'fc_…' of type 'function_call' was provided without its required 'reasoning' item: 'rs_…'."),
        Rule::TooManyImages => write!(f, "the request holds more than {IMAGES} images"),
        other => write!(f, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixtures::*;
    use crate::wire::{Terms, Wire};

    const WIRE: Wire = Wire::Responses;

    fn refused(lines: &[String]) -> Vec<(Rule, usize)> {
        refused_on(WIRE, lines, &Terms::new(272_000))
    }

    fn own(blocks: &str) -> String {
        by(WIRE, blocks, "toolUse")
    }

    #[test]
    fn a_call_and_its_output_belong_together() {
        let own = own(&format!("{},{}", call("c1|fc_1"), call("c2|fc_2")));
        assert_eq!(refused(&messages(&[USER, &own, &result("c2|fc_2"), &result("c1|fc_1"), USER])), []);
        // Known by the first half alone: an adapter may lose the item's id (https://github.com/earendil-works/pi/issues/9057).
        assert_eq!(refused(&messages(&[USER, &own, &result("c2"), &result("c1|other"), USER]))[..1], [(Rule::RepeatedResult, 1)]);
        // https://github.com/earendil-works/pi/issues/8667, /4570
        assert_eq!(refused(&messages(&[USER, &result("c1"), USER])), [(Rule::OrphanResult, 1)]);
        assert_eq!(refused(&messages(&[USER, &own.replace("toolUse", "error"), &result("c1")])), [(Rule::OrphanResult, 2)]);
        assert_eq!(refused(&messages(&[USER, &own, USER, &result("c1|fc_1")])), [(Rule::OrphanResult, 3)]);
        // OpenHarness#191: pi-ai closes it.
        assert_eq!(refused(&messages(&[USER, &own])), []);
        assert_eq!(unsent(WIRE, &messages(&[USER, &own, USER])), [(Rule::MissingResult, 1)]);
    }

    #[test]
    fn reasoning_is_followed_by_what_it_led_to() {
        let signed = thinking("hm", "c2ln");
        // continue#11994, https://github.com/vercel/ai/issues/7099
        assert_eq!(refused(&messages(&[USER, &own(&signed), USER])), [(Rule::ReasoningAlone, 1)]);
        assert_eq!(refused(&messages(&[USER, &own(&format!("{signed},{}", call("c1"))), &result("c1")])), []);
        let two = format!("{signed},{},{}", call("c1"), thinking("then", "b3RoZXI"));
        assert_eq!(refused(&messages(&[USER, &own(&two), &result("c1")])), [(Rule::ReasoningAlone, 1)]);
        assert_eq!(refused(&messages(&[USER, &by(Wire::Anthropic, &signed, "stop"), USER])), [], "another model's is left out");
        // continue#12056: the call without its reasoning.
        let lines = messages(&[USER, &own(&format!("{signed},{}", call("c1|fc_1"))), &result("c1|fc_1"), ANSWER, USER]);
        assert_eq!(refused(&given(lines.clone(), "m1", &format!("[{}]", call("c1|fc_1")))), [(Rule::Torn, 1)]);
        assert_eq!(refused(&given(lines, "m1", &format!("[{signed},{}]", call("c1|fc_1")))), []);
    }

    #[test]
    fn calls_and_items_are_named_once() {
        let twice = |first: &str, second: &str| refused(&messages(&[USER, &own(&call(first)), &result(first), &own(&call(second)), &result(second)]));
        // https://github.com/NousResearch/hermes-agent/pull/111443: a name that recurs across turns.
        assert_eq!(twice("c1|fc_1", "c1|fc_2"), [(Rule::ReusedId, 3)]);
        // https://github.com/vercel/ai/issues/7883: an item that is there twice.
        assert_eq!((twice("c1|fc_1", "c2|fc_1"), twice("c1|fc_1", "c2|fc_2")), (vec![(Rule::ReusedItem, 3)], vec![]));
        assert_eq!(twice("c1|x_1", "c2|x_1"), [], "what is no item's id stays at home");
        let reasons = |signature: &str| own(&format!("{},{}", thinking("hm", signature), r#"{"type":"text","text":"so"}"#));
        assert_eq!(refused(&messages(&[USER, &reasons("YQ"), USER, &reasons("YQ"), USER])), [(Rule::ReusedItem, 3)]);
        assert_eq!(refused(&messages(&[USER, &reasons("YQ"), USER, &reasons("Yg"), USER])), []);
        assert_eq!(refused(&messages(&[USER, &own(&format!("{},{}", call("c1|a"), call("c1|b"))), &result("c1")]))[0], (Rule::RepeatedId, 1));
    }

    #[test]
    fn a_call_has_an_id_and_a_name_in_whole_characters() {
        assert_eq!(refused(&messages(&[USER, &own(&call("|fc_1"))]))[0], (Rule::EmptyId, 1));
        assert_eq!(refused(&messages(&[USER, &own(&call("c1")).replace("\"ls\"", "\"\"")])), [(Rule::EmptyName, 1)]);
        assert_eq!(refused(&messages(&[USER, &own(&call("c1")).replace("\"ls\"", "\"\\udc00\"")])), [(Rule::BrokenName, 1)]);
        // Arguments leave as a string, whatever is in them, and an answer may be the last.
        assert_eq!(refused(&messages(&[USER, &own(&call("c1").replace("{}", r#"["\ud83d"]"#)), &result("c1"), ANSWER])), []);
    }

    #[test]
    fn images_and_bytes_have_limits() {
        let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let with = |count: usize| refused(&messages(&[&format!(r#"{{"role":"user","content":[{}]}}"#, vec![image; count].join(","))]));
        assert_eq!((with(1_500), with(1_501)), (vec![], vec![(Rule::TooManyImages, 0)]));
        // Half a gigabyte is not written for a test: the count begins just below.
        let with = |bytes| counted(WIRE, bytes, &messages(&[USER]));
        assert_eq!((with(BODY - 1_000), with(BODY)), (vec![], vec![Rule::BodyTooLarge]));
    }
}
