//! What a message weighs: provider-visible text in bytes, and images.
//!
//! Never usage, details, signatures, or the length of a base64 image.

use super::projection::{Message, MessageContent, Projected};
use crate::journal::{Content, Entry, Fields, Kind, Length, Part, Role, StopReason};

/// Tokens an image costs unless the host knows better (fold law, occupancy).
pub const IMAGE_TOKENS: u64 = 1_200;

/// Bytes an image weighs where a share of the window is cut by weight: its tokens at four bytes each.
const IMAGE_WEIGHT: u64 = IMAGE_TOKENS * 4;

const COMPACTION_FRAME: &str = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n\n</summary>";
const BRANCH_FRAME: &str = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n</summary>";

/// Text bytes (UTF-8, WTF-8 for lone surrogates) and number of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Size {
    /// Provider-visible text.
    pub bytes: u64,
    /// Images.
    pub images: u64,
}

impl Size {
    fn text(bytes: usize) -> Self {
        Size { bytes: bytes as u64, images: 0 }
    }

    /// One number in bytes, images at 4,800: for shares and comparisons, where the tokens per byte cancel.
    pub fn weight(self) -> u64 {
        self.bytes.saturating_add(self.images.saturating_mul(IMAGE_WEIGHT))
    }

    /// What the model sees of a projected entry.
    ///
    /// Errored and aborted answers weigh nothing: the host's adapters never send them.
    pub fn of(projected: &Projected<'_>) -> Self {
        if let Kind::Message(Role::Assistant(assistant)) = projected.source.kind()
            && matches!(assistant.stop, StopReason::Error | StopReason::Aborted)
        {
            return Size::default();
        }
        projected.messages.iter().map(|message| Self::of_message(message, projected.source)).sum()
    }

    /// What the model would see of an entry that nothing edited.
    pub fn of_original(entry: &Entry) -> Self {
        match entry.kind() {
            Kind::Message(Role::Assistant(assistant)) if matches!(assistant.stop, StopReason::Error | StopReason::Aborted) => Size::default(),
            Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. } | Role::Custom) | Kind::CustomMessage => entry.content_size(),
            Kind::Custom { .. } | Kind::ContextEdit { .. } | Kind::ModelChange { .. } | Kind::Other => Size::default(),
            _ => super::projection(std::slice::from_ref(entry)).iter().map(Self::of).sum(),
        }
    }

    /// What the model sees of an entry that `edit` was the last to edit; some entries take no other content, some are never sent.
    pub(crate) fn of_edited(entry: &Entry, edit: &Entry) -> Self {
        match (entry.kind(), edit.kind()) {
            (Kind::Message(Role::User | Role::ToolResult { .. } | Role::Custom) | Kind::CustomMessage, Kind::ContextEdit { omits: false, .. }) => {
                edit.content_size()
            }
            _ => super::projection(&[entry.clone(), edit.clone()]).first().map_or(Size::default(), Self::of),
        }
    }

    fn of_message(message: &Message<'_>, source: &Entry) -> Self {
        match message.content {
            MessageContent::Content(content) | MessageContent::TextBlock(content) if message.role == "system" => {
                Self::of_content(content) + Self::of_prompt_parts(source.field("message").unwrap_or("{}"))
            }
            MessageContent::Content(content) | MessageContent::TextBlock(content) => Self::of_content(content),
            MessageContent::Summary(summary) => {
                let frame = if message.role == "compactionSummary" { COMPACTION_FRAME } else { BRANCH_FRAME };
                Self::text(frame.len() + serde_json::from_str(summary).map_or(0, |Length(bytes)| bytes))
            }
            MessageContent::Bash(_) if source.kind() == &Kind::Message(Role::BashExecution { excluded: true }) => Size::default(),
            MessageContent::Bash(raw) => Self::text(bash_text_len(raw)),
            MessageContent::System(raw) => Self::text(raw.len()),
        }
    }

    /// What is left when `other` is taken away; never below nothing.
    pub fn saturating_sub(self, other: Size) -> Size {
        Size { bytes: self.bytes.saturating_sub(other.bytes), images: self.images.saturating_sub(other.images) }
    }

    /// The signed difference, in bytes and images.
    pub fn minus(self, other: Size) -> (i64, i64) {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        (signed(self.bytes) - signed(other.bytes), signed(self.images) - signed(other.images))
    }

    pub(crate) fn of_content(content: Content<'_>) -> Self {
        let text = |length: Option<Length>| length.map_or(0, |Length(bytes)| bytes);
        content
            .parts()
            .into_iter()
            .map(|part| match part {
                Part::Text(length) | Part::Thinking(length) => Self::text(text(length)),
                Part::Call { name, arguments, .. } => Self::text(text(name) + arguments.len()),
                Part::Image => Size { bytes: 0, images: 1 },
                Part::Other(raw) => Self::text(raw.len()),
            })
            .sum()
    }

    /// Named sections and tool declarations of a system message count as the JSON they are.
    fn of_prompt_parts(message: &str) -> Self {
        let fields = Fields::parse(message);
        Self::text(["sections", "toolsAdded"].iter().filter_map(|name| fields.as_ref()?.raw(name)).map(str::len).sum())
    }
}

/// The length of the text Pi makes of a person's command.
fn bash_text_len(raw: &str) -> usize {
    let Some(fields) = Fields::parse(raw) else { return 0 };
    let len = |name| fields.raw(name).and_then(|raw| serde_json::from_str(raw).ok()).map_or(0, |Length(bytes)| bytes);
    let output = match len("output") {
        0 => "(no output)".len(),
        output => "```\n\n```".len() + output,
    };
    let ending = if fields.flag("cancelled") {
        "\n\n(command cancelled)".len()
    } else {
        fields.raw("exitCode").filter(|code| !matches!(*code, "null" | "0")).map_or(0, |code| "\n\nCommand exited with code ".len() + code.len())
    };
    let truncated = match len("fullOutputPath") {
        path if path > 0 && fields.flag("truncated") => "\n\n[Output truncated. Full output: ]".len() + path,
        _ => 0,
    };
    "Ran ``\n".len() + len("command") + output + ending + truncated
}

impl std::ops::Add for Size {
    type Output = Size;
    fn add(self, other: Size) -> Size {
        Size { bytes: self.bytes.saturating_add(other.bytes), images: self.images.saturating_add(other.images) }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), |total, size| total + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::projection;

    fn size(message: &str) -> Size {
        let entry = Entry::parse(&format!(r#"{{"type":"message","id":"a","message":{message}}}"#)).expect("an entry");
        Size::of(&projection(std::slice::from_ref(&entry))[0])
    }

    #[test]
    fn text_counts_decoded_and_an_image_never_by_its_base64() {
        let size = size(r#"{"role":"user","content":[{"type":"text","text":"\u00e9\n"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#);
        assert_eq!(size, Size { bytes: 3, images: 1 });
        assert_eq!(size.weight(), 4_803);
    }

    #[test]
    fn a_call_counts_its_name_and_arguments_and_a_result_not_its_details() {
        assert_eq!(
            size(r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c1","name":"ls","arguments":{"p":1}}]}"#).bytes,
            9
        );
        assert_eq!(
            size(r#"{"role":"toolResult","toolCallId":"c1","toolName":"ls","details":{"a":"bbbbbbbb"},"content":[{"type":"text","text":"abc"}]}"#)
                .bytes,
            3
        );
    }

    #[test]
    fn an_aborted_answer_weighs_nothing_because_it_is_never_sent() {
        assert_eq!(size(r#"{"role":"assistant","stopReason":"aborted","content":[{"type":"text","text":"half an ans"}]}"#), Size::default());
    }

    #[test]
    fn a_command_counts_as_the_text_pi_makes_of_it() {
        assert_eq!(
            size(r#"{"role":"bashExecution","command":"ls","output":"a\n","exitCode":2}"#).bytes,
            "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 2".len() as u64
        );
        assert_eq!(size(r#"{"role":"bashExecution","command":"ls","output":"","exitCode":0,"excludeFromContext":true}"#), Size::default());
    }
}
