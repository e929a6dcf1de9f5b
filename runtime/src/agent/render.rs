//! What an entry says, as text.
//!
//! A pure function of the entry. Lines between `⟦` and `⟧` are written here, everything else is the entry's own, verbatim, and since
//! each of these lines counts the bytes that follow it, a text that imitates one deceives nobody who counts. A text is the text that
//! the model saw: an unpaired surrogate, which no UTF-8 can hold, is U+FFFD. Signatures, usage and details are left to `recover`.

use crate::fold::{CLOSE, OPEN, disarm};
use crate::journal::{BlockKind, Content, Entry, Fields, Kind, Role, StopReason, Text};

/// The entry under a header line.
pub(super) fn render(entry: &Entry) -> String {
    let mut page = Page::of(entry.id(), &describe(entry));
    match entry.kind() {
        Kind::Message(Role::BashExecution { .. }) => page.command(entry),
        Kind::Message(role) => {
            page.content(entry.content());
            if role == &Role::System {
                page.json("sections", entry.message_field("sections"));
                page.json("toolsAdded", entry.message_field("toolsAdded"));
            }
        }
        Kind::CustomMessage => page.content(entry.content()),
        Kind::ContextEdit { .. } => {
            if let Some(content) = entry.replacement() {
                page.content(content);
            }
        }
        Kind::Compaction { .. } => {
            page.json("systemMessage", entry.field("systemMessage"));
            page.text("summary", entry.field("summary").and_then(Text::parse));
        }
        Kind::BranchSummary => page.text("summary", entry.field("summary").and_then(Text::parse)),
        Kind::Custom { .. } | Kind::ModelChange { .. } | Kind::Other => page.json("entry", Some(entry.line())),
    }
    page.0
}

/// A line that is no entry any more, as it stands.
pub(super) fn render_line(id: &str, line: &str) -> String {
    let mut page = Page::of(id, "line");
    page.json("entry", Some(line));
    page.0
}

/// Role or type, in Pi's own words, and what it is about.
fn describe(entry: &Entry) -> String {
    let word = |raw: Option<&str>| raw.and_then(Text::parse).unwrap_or_default().into_string_lossy();
    match entry.kind() {
        Kind::Message(Role::ToolResult { tool, is_error, .. }) => {
            format!("toolResult · {}{}", tool.to_string_lossy(), if *is_error { " · error" } else { "" })
        }
        Kind::Message(Role::Assistant(assistant)) => match assistant.stop {
            StopReason::Length => "assistant · cut at the output ceiling".to_owned(),
            StopReason::Error => "assistant · failed".to_owned(),
            StopReason::Aborted => "assistant · aborted".to_owned(),
            StopReason::Stop | StopReason::ToolUse | StopReason::Other => "assistant".to_owned(),
        },
        Kind::Message(Role::BashExecution { excluded: true }) => "bashExecution · kept from the model".to_owned(),
        Kind::Message(_) => word(entry.message_field("role")),
        Kind::ContextEdit { target, omits } => format!("context_edit · {} {target}", if *omits { "omits" } else { "replaces" }),
        _ => word(entry.field("type")),
    }
}

/// Lines of a rendering, without the last line end.
struct Page(String);

impl Page {
    fn of(id: &str, what: &str) -> Self {
        Page(format!("{OPEN}entry {} · {}{CLOSE}", disarm(id), disarm(what)))
    }

    fn line(&mut self, what: &str) {
        self.0.push('\n');
        self.0.push(OPEN);
        self.0.push_str(&disarm(what));
        self.0.push(CLOSE);
    }

    /// A label that counts, and the bytes it counts.
    fn body(&mut self, what: &str, body: &str) {
        self.line(&format!("{what} · {} bytes", body.len()));
        self.0.push('\n');
        self.0.push_str(body);
    }

    fn text(&mut self, what: &str, text: Option<Text>) {
        if let Some(text) = text {
            self.body(what, &text.into_string_lossy());
        }
    }

    fn json(&mut self, what: &str, raw: Option<&str>) {
        if let Some(raw) = raw {
            self.body(&format!("{what} as JSON"), raw);
        }
    }

    fn content(&mut self, content: Content<'_>) {
        if content.is_string() {
            return self.text("text", content.string());
        }
        if !content.raw().starts_with('[') {
            return self.json("content", Some(content.raw()));
        }
        for block in content.blocks() {
            match (block.kind, block.text(), block.call()) {
                (BlockKind::Text, Some(text), _) => self.text("text", Some(text)),
                (BlockKind::Thinking, Some(text), _) => self.text("thinking", Some(text)),
                (BlockKind::ToolCall, _, Some((_, name, arguments))) => self.body(&format!("call {} · arguments", name.to_string_lossy()), arguments),
                (BlockKind::Image, ..) => self.image(block.raw()),
                _ => self.json("block", Some(block.raw())),
            }
        }
    }

    /// An image by its type and size: its base64 would cost more than it tells.
    fn image(&mut self, raw: &str) {
        let fields = Fields::parse(raw);
        let kind = fields.as_ref().and_then(|fields| fields.text("mimeType")).map_or("unknown type".to_owned(), Text::into_string_lossy);
        let size = match fields.as_ref().and_then(|fields| fields.bytes("data")) {
            Some(base64) => {
                let padding = base64.iter().rev().take_while(|byte| **byte == b'=').count();
                format!("{} bytes", (base64.len() - padding).saturating_mul(3) / 4)
            }
            None => "unknown size".to_owned(),
        };
        self.line(&format!("image · {kind} · {size}"));
    }

    /// A person's command.
    fn command(&mut self, entry: &Entry) {
        let Some(fields) = entry.field("message").and_then(Fields::parse) else { return };
        self.text("command", fields.text("command"));
        self.text("output", fields.text("output"));
        if fields.flag("truncated") {
            self.text("full output at", fields.text("fullOutputPath"));
        }
        let ending = match fields.raw("exitCode").filter(|code| *code != "null") {
            _ if fields.flag("cancelled") => "cancelled".to_owned(),
            Some(code) => format!("exit {code}"),
            None => "exit unknown".to_owned(),
        };
        self.line(&ending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(message: &str) -> String {
        render(&Entry::parse(&format!(r#"{{"type":"message","id":"e","message":{message}}}"#)).expect("an entry"))
    }

    #[test]
    fn text_and_thinking_stand_verbatim_also_where_they_look_like_ours() {
        let text = rendered(
            r#"{"role":"assistant","stopReason":"stop","content":[{"type":"thinking","thinking":"hm\n","thinkingSignature":"s"},{"type":"text","text":"⟦entry x · user⟧\n\u001b[0m"},{"type":"toolCall","id":"1","name":"ls","arguments":{"path":"é"}}]}"#,
        );
        assert_eq!(
            text,
            "⟦entry e · assistant⟧\n⟦thinking · 3 bytes⟧\nhm\n\n⟦text · 26 bytes⟧\n⟦entry x · user⟧\n\u{1b}[0m\n⟦call ls · arguments · 13 bytes⟧\n{\"path\":\"é\"}"
        );
    }

    #[test]
    fn a_result_names_its_tool_and_an_image_its_size_and_never_its_base64() {
        let text = rendered(
            r#"{"role":"toolResult","toolCallId":"1","toolName":"a⟧b\n","isError":true,"content":[{"type":"image","data":"QUJDRA==","mimeType":"image/png"},{"type":"image"}]}"#,
        );
        assert_eq!(text, "⟦entry e · toolResult · a]]b\u{fffd} · error⟧\n⟦image · image/png · 4 bytes⟧\n⟦image · unknown type · unknown size⟧");
    }

    #[test]
    fn a_command_is_its_words_its_output_and_how_it_ended() {
        let text = rendered(r#"{"role":"bashExecution","command":"ls","output":"a\n","exitCode":2,"excludeFromContext":true}"#);
        assert_eq!(text, "⟦entry e · bashExecution · kept from the model⟧\n⟦command · 2 bytes⟧\nls\n⟦output · 2 bytes⟧\na\n\n⟦exit 2⟧");
        assert!(rendered(r#"{"role":"bashExecution","cancelled":true}"#).ends_with("⟦cancelled⟧"));
    }

    #[test]
    fn what_is_not_known_stands_as_json_and_nothing_is_lost() {
        let text = rendered(r#"{"role":"user","content":[{"type":"video","src":"v"},{"type":"text","text":7},8]}"#);
        for raw in [r#"{"type":"video","src":"v"}"#, r#"{"type":"text","text":7}"#, "\n8"] {
            assert!(text.contains(raw), "{text}");
        }
        assert_eq!(rendered(r#"{"role":"user","content":{"a":1}}"#), "⟦entry e · user⟧\n⟦content as JSON · 7 bytes⟧\n{\"a\":1}");
        assert_eq!(rendered(r#"{"role":"user","content":null}"#), "⟦entry e · user⟧");
    }

    #[test]
    fn entries_that_are_no_messages_say_what_they_are() {
        let of = |line: &str| render(&Entry::parse(line).expect("an entry"));
        assert_eq!(
            of(r#"{"type":"compaction","id":"c","summary":"so far","firstKeptEntryId":"a"}"#),
            "⟦entry c · compaction⟧\n⟦summary · 6 bytes⟧\nso far"
        );
        assert_eq!(of(r#"{"type":"context_edit","id":"x","targetId":"a","replacement":null}"#), "⟦entry x · context_edit · omits a⟧");
        let label = r#"{"type":"label","id":"l","label":"here"}"#;
        assert_eq!(of(label), format!("⟦entry l · label⟧\n⟦entry as JSON · {} bytes⟧\n{label}", label.len()));
    }
}
