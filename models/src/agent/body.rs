//! Ops as Pi writes them: the JSON that stands under `"message"`, or the fields of an entry that holds no message.
//!
//! Only contents are written here. Ids, parents, times and what an answer cost are the host's to say. Formats are those of session
//! version 3. Everything is appended to a buffer that the caller reuses.

use crate::agent::plan::{Answer, Call, Model, Outcome, Reply, Stop, Text, Tool};
use crate::agent::text::{Shape, inside, json_string};
use crate::wire::Wire;

impl Model {
    /// The wire it is asked on.
    pub fn wire(self) -> Wire {
        match self {
            Model::Anthropic => Wire::Anthropic,
            Model::Responses => Wire::Responses,
            Model::Chat => Wire::Chat,
            Model::Gemini => Wire::Gemini,
        }
    }

    /// `provider/model`, as its answers name it.
    pub fn name(self) -> String {
        format!("{}/{}", self.provider(), self.id())
    }

    /// Pi's name of the wire.
    pub fn api(self) -> &'static str {
        match self {
            Model::Anthropic => "anthropic-messages",
            Model::Responses => "openai-responses",
            Model::Chat => "openai-completions",
            Model::Gemini => "google-generative-ai",
        }
    }

    /// The provider.
    pub fn provider(self) -> &'static str {
        match self {
            Model::Anthropic => "anthropic",
            Model::Responses => "openai",
            Model::Chat => "mock",
            Model::Gemini => "google",
        }
    }

    /// The model's id at its provider.
    pub fn id(self) -> &'static str {
        match self {
            Model::Anthropic => "synthetic-a",
            Model::Responses => "synthetic-r",
            Model::Chat => "synthetic-c",
            Model::Gemini => "synthetic-g",
        }
    }
}

/// A person's message.
pub fn user(text: Text, images: u8, now_ms: u64, out: &mut String) {
    out.push_str(r#"{"role":"user","content":"#);
    // Pi writes blocks; a host that embeds it may write a plain string.
    if images == 0 && text.salt.is_multiple_of(4) {
        json_string(text.salt, text.bytes, text.shape, out);
    } else {
        out.push('[');
        text_block(text, out);
        (0..images).for_each(|nth| image(text.salt, nth, out));
        end_blocks(out);
    }
    put!(out, r#","timestamp":{now_ms}}}"#);
}

/// The system prompt in full, or one changed section of it.
pub fn system(text: Text, now_ms: u64, out: &mut String) {
    if text.salt.is_multiple_of(2) {
        out.push_str(r#"{"role":"system","content":"#);
        json_string(text.salt, text.bytes, text.shape, out);
    } else {
        out.push_str(r#"{"role":"system","content":"","sections":{"rules":"#);
        json_string(text.salt, text.bytes, text.shape, out);
        out.push('}');
    }
    put!(out, r#","timestamp":{now_ms}}}"#);
}

/// A person's command and its output.
pub fn bash(text: Text, excluded: bool, now_ms: u64, out: &mut String) {
    out.push_str(r#"{"role":"bashExecution","command":"make "#);
    put!(out, r#"{}","output":"#, word(text.salt));
    json_string(text.salt, text.bytes, text.shape, out);
    let exit = u8::from(text.salt.is_multiple_of(5));
    put!(out, r#","exitCode":{exit},"cancelled":false,"truncated":false"#);
    if excluded {
        out.push_str(r#","excludeFromContext":true"#);
    }
    put!(out, r#","timestamp":{now_ms}}}"#);
}

/// The fields of a `custom_message` entry, without braces.
pub fn custom_message(text: Text, out: &mut String) {
    out.push_str(r#""customType":"synthetic.note","content":"#);
    json_string(text.salt, text.bytes, text.shape, out);
    out.push_str(r#","display":true"#);
}

/// The fields of a `custom` entry, without braces.
pub fn custom(text: Text, out: &mut String) {
    put!(out, r#""customType":"synthetic.state","data":{{"v":1,"salt":{},"notes":"#, text.salt);
    json_string(text.salt, text.bytes, text.shape, out);
    out.push('}');
}

/// The field `summary` of a `branch_summary` or `compaction` entry.
pub fn summary(text: Text, out: &mut String) {
    out.push_str(r#""summary":"#);
    json_string(text.salt, text.bytes, text.shape, out);
}

/// The value of `replacement` in a `context_edit` entry of another extension; fits any target.
pub fn replacement(text: Text, omit: bool, out: &mut String) {
    if omit {
        return out.push_str("null");
    }
    out.push_str(r#"{"content":"#);
    if text.salt.is_multiple_of(2) {
        json_string(text.salt, text.bytes, text.shape, out);
    } else {
        out.push('[');
        text_block(text, out);
        end_blocks(out);
    }
    out.push('}');
}

/// The ids of an answer's calls; `nth` counts the answers of the session.
pub fn call_ids(answer: &Answer, nth: u64) -> Vec<String> {
    use crate::agent::plan::IdStyle::{Clashing, Fresh, Reused};
    let id = |place: usize| match answer.ids {
        Fresh => format!("call_{nth:04x}_{place}"),
        Reused => format!("call_{place}"),
        Clashing => format!("call_{nth:04x}"),
    };
    (0..answer.calls.len()).map(id).collect()
}

/// An answer. `ids` are those of its calls, `usage` the JSON object of what it cost.
///
/// # Panics
/// If there are not as many ids as calls.
pub fn assistant(answer: &Answer, ids: &[String], model: Model, usage: &str, now_ms: u64, out: &mut String) {
    assert_eq!(ids.len(), answer.calls.len(), "a call has an id");
    out.push_str(r#"{"role":"assistant","content":["#);
    if answer.thinking_bytes > 0 {
        out.push_str(r#"{"type":"thinking","thinking":"#);
        json_string(answer.salt ^ 1, answer.thinking_bytes, Shape::Prose, out);
        put!(out, r#","thinkingSignature":"c2ln{:016x}"}},"#, answer.salt);
    }
    if answer.text_bytes > 0 {
        text_block(Text { salt: answer.salt, bytes: answer.text_bytes, shape: Shape::Prose }, out);
    }
    for (call, id) in answer.calls.iter().zip(ids) {
        put!(out, r#"{{"type":"toolCall","id":"{id}","name":"{}","arguments":"#, call.tool.name());
        arguments(call, out);
        out.push_str("},");
    }
    end_blocks(out);
    put!(out, r#","api":"{}","provider":"{}","model":"{}","usage":{usage},"#, model.api(), model.provider(), model.id());
    out.push_str(match answer.stop {
        Stop::Stop => r#""stopReason":"stop""#,
        Stop::Length => r#""stopReason":"length""#,
        Stop::ToolUse => r#""stopReason":"toolUse""#,
        Stop::Error => r#""stopReason":"error","errorMessage":"529 overloaded_error: Overloaded""#,
        Stop::Aborted => r#""stopReason":"aborted","errorMessage":"Request was aborted.""#,
    });
    put!(out, r#","timestamp":{now_ms}}}"#);
}

/// What comes back for a call: `each` is given every result's message, which is none, one or two.
pub fn tool_results(call: &Call, id: &str, now_ms: u64, buffer: &mut String, each: &mut dyn FnMut(&str)) {
    let mut write = |id: &str, outcome: &Outcome| {
        buffer.clear();
        tool_result(call.tool, outcome, id, now_ms, buffer);
        each(buffer);
    };
    match &call.reply {
        Reply::Missing => {}
        Reply::Given(outcome) => write(id, outcome),
        Reply::Twice(outcome) => {
            write(id, outcome);
            write(id, outcome);
        }
        Reply::Foreign(outcome) => write(&format!("nobody_{:x}", outcome.text.salt), outcome),
    }
}

/// One result of a tool, under an id.
pub fn tool_result(tool: Tool, outcome: &Outcome, id: &str, now_ms: u64, out: &mut String) {
    let text = outcome.text;
    put!(out, r#"{{"role":"toolResult","toolCallId":"{id}","toolName":"{}","content":["#, tool.name());
    // A tool that says nothing gives no block or an empty one.
    if text.bytes > 0 || text.salt.is_multiple_of(2) {
        let head = if outcome.split { text.bytes / 3 } else { 0 };
        if outcome.split {
            text_block(Text { salt: text.salt ^ 1, bytes: head, ..text }, out);
        }
        text_block(Text { bytes: text.bytes - head, ..text }, out);
    }
    (0..outcome.images).for_each(|nth| image(text.salt, nth, out));
    end_blocks(out);
    put!(out, r#","details":{{"bytes":{}}},"isError":{},"durationMs":{},"timestamp":{now_ms}}}"#, text.bytes, outcome.error, text.salt % 5_000);
}

/// A text block and the comma before the next one.
fn text_block(text: Text, out: &mut String) {
    out.push_str(r#"{"type":"text","text":"#);
    json_string(text.salt, text.bytes, text.shape, out);
    out.push_str("},");
}

/// An image and the comma before the next block. Its base64 may be long or short: what it costs depends on neither.
fn image(salt: u64, nth: u8, out: &mut String) {
    out.push_str(r#"{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"#);
    for _ in 0..=(salt >> 3).wrapping_add(u64::from(nth)) % 40 {
        out.push_str("AAAADUlEQVR42mNk+M9QDwADhgGA");
    }
    out.push_str(r#"","mimeType":"image/png"},"#);
}

/// Closes a list of blocks, dropping the comma that the last one wrote.
fn end_blocks(out: &mut String) {
    if out.ends_with(',') {
        out.pop();
    }
    out.push(']');
}

/// A word to name files and targets by.
fn word(salt: u64) -> &'static str {
    const WORDS: [&str; 16] = [
        "parse", "url", "transfer", "cookie", "lexer", "window", "cache", "retry", "proxy", "header", "digest", "socket", "timer", "multi",
        "session", "config",
    ];
    WORDS[usize::try_from(salt % 16).expect("below 16")]
}

/// The path a call is about: a few hundred of them, so that sessions come back to a file.
fn path(salt: u64, out: &mut String) {
    put!(out, "src/{}/{}_{}.rs", word(salt >> 4), word(salt), salt >> 8 & 3);
}

/// Arguments that say what the call was about, with a text of `argument_bytes` where the tool takes one.
fn arguments(call: &Call, out: &mut String) {
    let (salt, bytes) = (call.salt, call.argument_bytes);
    let text = |name: &str, salt: u64, bytes: u64, shape: Shape, out: &mut String| {
        put!(out, r#""{name}":"#);
        json_string(salt, bytes, shape, out);
    };
    match call.tool {
        Tool::Bash => {
            put!(out, r#"{{"command":"cargo test {} --quiet 2>&1 | tail -n {}"#, word(salt), 20 + salt % 80);
            if bytes > 0 {
                out.push_str(r" # ");
                inside(salt, bytes, Shape::Source, out);
            }
            out.push_str("\"}");
        }
        Tool::Read => {
            out.push_str(r#"{"path":""#);
            path(salt, out);
            put!(out, r#"","offset":{},"limit":{}"#, salt % 2_000, 100 + salt % 400);
            reason(salt, bytes, out);
        }
        Tool::Grep => {
            put!(out, r#"{{"pattern":"fn {}_\\w+","path":"src/{}""#, word(salt), word(salt >> 4));
            reason(salt, bytes, out);
        }
        Tool::Edit => {
            out.push_str(r#"{"path":""#);
            path(salt, out);
            out.push_str("\",");
            text("oldText", salt, bytes / 2, Shape::Source, out);
            out.push(',');
            text("newText", salt ^ 1, bytes - bytes / 2, Shape::Source, out);
            out.push('}');
        }
        Tool::Write => {
            out.push_str(r#"{"path":""#);
            path(salt, out);
            out.push_str("\",");
            text("content", salt, bytes, Shape::Source, out);
            out.push('}');
        }
        Tool::Stage => {
            put!(out, r#"{{"stage":{}"#, salt % 64 + 1);
            reason(salt, bytes, out);
        }
        Tool::FoldContext => {
            out.push_str(r#"{"action":"status""#);
            reason(salt, bytes, out);
        }
    }
}

/// Ends the arguments of a tool that takes no long text.
fn reason(salt: u64, bytes: u64, out: &mut String) {
    if bytes > 0 {
        out.push_str(r#","reason":"#);
        json_string(salt, bytes, Shape::Prose, out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::plan::IdStyle;
    use fold_runtime::journal::{BlockKind, Entry, Kind, Role, StopReason};
    use fold_runtime::window::Size;

    const TEXT: Text = Text { salt: 12, bytes: 500, shape: Shape::Log };

    fn entry(message: &str) -> Entry {
        Entry::parse(&format!(r#"{{"type":"message","id":"a","parentId":null,"message":{message}}}"#)).expect(message)
    }

    fn call(tool: Tool, reply: Reply) -> Call {
        Call { salt: 77, tool, argument_bytes: 90, reply }
    }

    fn every_tool() -> Vec<Call> {
        [Tool::Read, Tool::Bash, Tool::Grep, Tool::Edit, Tool::Write, Tool::Stage, Tool::FoldContext].map(|tool| call(tool, Reply::Missing)).to_vec()
    }

    fn answer(calls: Vec<Call>, stop: Stop, ids: IdStyle) -> Answer {
        Answer { salt: 9, thinking_bytes: 100, text_bytes: 200, stop, ids, calls, aside: None }
    }

    #[test]
    fn an_answer_reads_as_its_thinking_its_text_and_its_calls() {
        let answer = answer(every_tool(), Stop::ToolUse, IdStyle::Fresh);
        let mut out = String::new();
        assistant(&answer, &call_ids(&answer, 3), Model::Anthropic, r#"{"input":5,"output":1,"totalTokens":6}"#, 1_000, &mut out);
        let entry = entry(&out);
        let Kind::Message(Role::Assistant(facts)) = entry.kind() else { panic!("{out}") };
        assert_eq!((facts.stop, facts.usage.expect("a usage").total), (StopReason::ToolUse, 6));
        assert_eq!(facts.model, *"anthropic/synthetic-a");
        let blocks = entry.content().blocks();
        assert_eq!(blocks[0].kind, BlockKind::Thinking);
        assert_eq!(blocks[1].kind, BlockKind::Text);
        for (block, call) in blocks[2..].iter().zip(&answer.calls) {
            let (id, name, arguments) = block.call().expect("a call");
            assert!(id.as_bytes().starts_with(b"call_0003_") && name == *call.tool.name());
            let arguments: serde_json::Value = serde_json::from_str(arguments).expect(arguments);
            assert!(arguments.is_object() && arguments.to_string().len() > 80, "{arguments}");
        }
        assert_eq!(blocks.len(), 9);
    }

    #[test]
    fn an_answer_may_be_empty_and_end_in_every_way() {
        for (stop, read) in [
            (Stop::Stop, StopReason::Stop),
            (Stop::Length, StopReason::Length),
            (Stop::ToolUse, StopReason::ToolUse),
            (Stop::Error, StopReason::Error),
            (Stop::Aborted, StopReason::Aborted),
        ] {
            let answer = Answer { thinking_bytes: 0, text_bytes: 0, ..answer(Vec::new(), stop, IdStyle::Fresh) };
            let mut out = String::new();
            assistant(&answer, &[], Model::Gemini, "{}", 1, &mut out);
            let entry = entry(&out);
            assert!(entry.content().is_empty());
            assert!(matches!(entry.kind(), Kind::Message(Role::Assistant(facts)) if facts.stop == read), "{out}");
        }
    }

    #[test]
    fn ids_are_fresh_reused_or_clashing() {
        let ids = |style, nth| call_ids(&answer(every_tool(), Stop::ToolUse, style), nth);
        assert_ne!(ids(IdStyle::Fresh, 1)[0], ids(IdStyle::Fresh, 2)[0]);
        assert_eq!(ids(IdStyle::Reused, 1), ids(IdStyle::Reused, 2));
        assert_eq!(ids(IdStyle::Clashing, 1)[0], ids(IdStyle::Clashing, 1)[1]);
    }

    #[test]
    fn a_result_has_its_text_and_its_images_and_may_fail() {
        for (bytes, split, images) in [(0, false, 0), (0, false, 2), (0, true, 1), (900, false, 0), (900, true, 3)] {
            for salt in 0..2 {
                let outcome = Outcome { text: Text { salt, bytes, ..TEXT }, split, error: salt == 1, images };
                let mut out = String::new();
                tool_result(Tool::Read, &outcome, "x", 5, &mut out);
                let entry = entry(&out);
                assert!(matches!(entry.kind(), Kind::Message(Role::ToolResult { is_error, .. }) if *is_error == (salt == 1)), "{out}");
                let size = Size::of_original(&entry);
                assert_eq!(size.images, u64::from(images));
                assert!(size.bytes <= bytes && size.bytes * 10 >= bytes * 9, "{} of {bytes}", size.bytes);
            }
        }
    }

    #[test]
    fn a_result_may_be_missing_doubled_or_foreign() {
        let outcome = Outcome { text: TEXT, split: false, error: false, images: 0 };
        let ids = |reply| {
            let mut ids = Vec::new();
            tool_results(&call(Tool::Bash, reply), "mine", 5, &mut String::new(), &mut |body| {
                let Kind::Message(Role::ToolResult { call_id, .. }) = entry(body).kind().clone() else { panic!("{body}") };
                ids.push(call_id.to_string_lossy());
            });
            ids
        };
        assert!(ids(Reply::Missing).is_empty());
        assert_eq!(ids(Reply::Given(outcome)), ["mine"]);
        assert_eq!(ids(Reply::Twice(outcome)), ["mine", "mine"]);
        assert_eq!(ids(Reply::Foreign(outcome)), ["nobody_c"]);
    }

    #[test]
    fn what_people_and_extensions_write_reads_as_what_it_is() {
        for salt in 0..8 {
            let text = Text { salt, ..TEXT };
            let (mut message, mut prompt, mut shown, mut hidden) = (String::new(), String::new(), String::new(), String::new());
            user(text, u8::from(salt == 3), 5, &mut message);
            system(text, 5, &mut prompt);
            bash(text, false, 5, &mut shown);
            bash(text, true, 5, &mut hidden);
            assert_eq!(entry(&message).kind(), &Kind::Message(Role::User));
            assert_eq!(entry(&prompt).kind(), &Kind::Message(Role::System));
            assert_eq!(entry(&shown).kind(), &Kind::Message(Role::BashExecution { excluded: false }));
            assert_eq!(Size::of_original(&entry(&hidden)), Size::default());
            assert!([&message, &prompt, &shown].iter().all(|body| Size::of_original(&entry(body)).bytes >= 400));
        }
    }

    #[test]
    fn fields_without_a_message_complete_an_entry() {
        let with = |kind: &str, write: &dyn Fn(&mut String)| {
            let mut out = format!(r#"{{"type":"{kind}","id":"a","targetId":"b","#);
            write(&mut out);
            out.push('}');
            Entry::parse(&out).expect("an entry").kind().clone()
        };
        assert_eq!(with("custom_message", &|out| custom_message(TEXT, out)), Kind::CustomMessage);
        assert!(matches!(with("custom", &|out| custom(TEXT, out)), Kind::Custom { custom_type } if custom_type == *"synthetic.state"));
        assert_eq!(with("branch_summary", &|out| summary(TEXT, out)), Kind::BranchSummary);
        for (omit, salt) in [(true, 1), (false, 1), (false, 2)] {
            let edit = with("context_edit", &|out| {
                out.push_str(r#""replacement":"#);
                replacement(Text { salt, ..TEXT }, omit, out);
            });
            assert!(matches!(edit, Kind::ContextEdit { omits, .. } if omits == omit));
        }
    }
}
