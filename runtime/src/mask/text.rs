//! The line that stands where a result was.
//!
//! It is a function of the result alone: no clock, no count that grows, no neighbour. So the newest edit of an entry tells whether it is masked, and
//! no state of our own is needed.

use crate::fold::{disarm, json};
use crate::journal::{BlockKind, Content, Entry, Kind, Role};
use crate::window::Size;

/// What every placeholder begins with, in pi-compaction and here; sessions that one of them masked are read by the other.
pub const PREFIX: &str = "[pi-compaction] Earlier ";

/// The tool that gives originals back.
pub const QUERY_TOOL: &str = "context_tree_query";

/// A call as it is written in placeholders and asked for: lone surrogates, control characters and what looks like a marker are shown otherwise, so
/// that a placeholder stays one line.
pub(super) fn call_key(call_id: &str) -> String {
    disarm(call_id)
}

/// The line for a tool's result; `None` for anything else.
///
/// ```
/// use fold_runtime::{journal::Entry, mask::placeholder};
/// let line = r#"{"type":"message","id":"r","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":"12345"}}"#;
/// let expected = "[pi-compaction] Earlier read result cleared from context (5 bytes of text). Original: context_tree_query {\"ids\":[\"c1\"]}";
/// assert_eq!(placeholder(&Entry::parse(line)?).as_deref(), Some(expected));
/// # Ok::<(), fold_runtime::journal::EntryError>(())
/// ```
pub fn placeholder(result: &Entry) -> Option<String> {
    let Kind::Message(Role::ToolResult { call_id, tool, .. }) = result.kind() else { return None };
    let Size { bytes, images } = Size::of_original(result);
    let images = match images {
        0 => String::new(),
        1 => " and 1 image".to_owned(),
        several => format!(" and {several} images"),
    };
    let (tool, call) = (disarm(&tool.to_string_lossy()), json(&call_key(&call_id.to_string_lossy())));
    Some(format!("{PREFIX}{tool} result cleared from context ({bytes} bytes of text{images}). Original: {QUERY_TOOL} {{\"ids\":[{call}]}}"))
}

/// A placeholder as the content of an edit: one block of text, as JSON.
pub(super) fn content(placeholder: &str) -> String {
    format!("[{{\"type\":\"text\",\"text\":{}}}]", json(placeholder))
}

/// Whether a content is a placeholder: one line that begins like one, and nothing else. Of whichever version.
pub fn is_placeholder(content: Content<'_>) -> bool {
    if !content.raw().contains(PREFIX) {
        return false;
    }
    let text = match (content.string(), &content.blocks()[..]) {
        (Some(text), _) => Some(text),
        (None, [block]) if block.kind == BlockKind::Text => block.text(),
        _ => None,
    };
    text.is_some_and(|text| {
        let text = text.to_string_lossy();
        text.starts_with(PREFIX) && !text.contains('\n')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(call: &str, tool: &str, content: &str) -> Entry {
        let line =
            format!(r#"{{"type":"message","id":"r","message":{{"role":"toolResult","toolCallId":{call},"toolName":{tool},"content":{content}}}}}"#);
        Entry::parse(&line).expect("an entry")
    }

    fn edit(content: &str) -> Entry {
        Entry::parse(&format!(r#"{{"type":"context_edit","id":"e","targetId":"r","replacement":{{"content":{content}}}}}"#)).expect("an edit")
    }

    #[test]
    fn a_placeholder_is_one_line_whatever_names_hold() {
        let text = placeholder(&result(r#""a\nb\u2028\ud83d""#, r#""re\nad\u001b""#, "[]")).expect("a result");
        assert!(!text.chars().any(char::is_control) && !text.contains('\u{2028}'), "{text}");
        assert!(text.starts_with("[pi-compaction] Earlier re\u{fffd}ad\u{fffd} result"), "{text}");
    }

    #[test]
    fn a_placeholder_counts_images() {
        let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let with = |images: &str| placeholder(&result(r#""c""#, r#""read""#, images)).expect("a result");
        assert!(with(&format!("[{image}]")).contains("(0 bytes of text and 1 image)"));
        assert!(with(&format!("[{image},{image}]")).contains("(0 bytes of text and 2 images)"));
    }

    #[test]
    fn a_placeholder_is_known_again_and_nothing_else_is_taken_for_one() {
        let text = placeholder(&result(r#""c""#, r#""read""#, r#""x""#)).expect("a result");
        let is = |content: &str| is_placeholder(edit(content).replacement().expect("a replacement"));
        assert!(is(&content(&text)) && is(&json(&text)));
        assert!(!is(&json(&format!("{text}\nand more"))) && !is(&json(&format!("see {text}"))));
        assert!(!is(&format!("[{},{}]", &content(&text)[1..content(&text).len() - 1], r#"{"type":"text","text":"more"}"#)));
        assert_eq!(placeholder(&edit("\"x\"")), None);
    }
}
