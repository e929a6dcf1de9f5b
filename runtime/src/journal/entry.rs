//! One entry: the exact line Pi wrote, and what the runtime needs to know of it.
//!
//! The view is shallow: it remembers where contents lie in the line and parses them when asked. Whatever it does not know passes
//! through untouched, because the line itself is what is kept.

use super::content::Content;
use super::digest::Digest;
use super::json::{Fields, Line, Text};
use crate::fold::Told;
use crate::window::Size;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// An entry of a session journal. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Entry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    line: Box<str>,
    id: Box<str>,
    parent: Option<Box<str>>,
    kind: Kind,
    /// Where the content (of a message, a custom message or a replacement) lies in the line.
    content: Range<usize>,
    digest: OnceLock<Digest>,
    /// What that content weighs.
    weighed: OnceLock<Size>,
    /// What a brief can say of it.
    told: OnceLock<Box<Told>>,
}

/// What an entry is, as far as the window is concerned.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A message of the conversation.
    Message(Role),
    /// A message an extension wrote; the model sees it in the user's role.
    CustomMessage,
    /// State of an extension, never in context.
    Custom {
        /// Whose state it is.
        custom_type: Text,
    },
    /// Replaces or omits one earlier entry in future context.
    ContextEdit {
        /// The entry it edits.
        target: Box<str>,
        /// `true` omits the target, `false` replaces its content.
        omits: bool,
    },
    /// Pi's own compaction.
    Compaction {
        /// The first entry kept in context; the compaction's own id keeps nothing before it.
        first_kept: Option<Box<str>>,
    },
    /// A summary of a branch that was left.
    BranchSummary,
    /// Another model from here on.
    ModelChange {
        /// `provider/model`.
        model: Text,
    },
    /// Anything else, known or not; never in context.
    Other,
}

/// Whose message it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// System prompt and tool declarations.
    System,
    /// A person.
    User,
    /// The model.
    Assistant(Assistant),
    /// What a tool answered.
    ToolResult {
        /// The call it answers.
        call_id: Text,
        /// The tool's name.
        tool: Text,
        /// Whether the tool reports failure.
        is_error: bool,
    },
    /// A person's `!command`; `excluded` ones (`!!`) are kept from the model.
    BashExecution {
        /// Whether the model is not to see it.
        excluded: bool,
    },
    /// A custom message as migrated files hold it (`hookMessage` before version 3).
    Custom,
    /// A role not known here.
    Other,
}

/// The facts of an assistant message.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Assistant {
    /// Why the answer ended.
    pub stop: StopReason,
    /// What the provider measured, if it reported anything but zeros.
    pub usage: Option<Usage>,
    /// `provider/model`, as the answer names them.
    pub model: Text,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopReason {
    /// It was complete.
    Stop,
    /// It ran into the output ceiling.
    Length,
    /// It wants tools run.
    ToolUse,
    /// The provider failed; Pi does not send such an answer again.
    Error,
    /// A person stopped it; Pi does not send such an answer again.
    Aborted,
    /// Anything else.
    #[default]
    Other,
}

/// A provider's count, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens that were not read from a cache.
    pub input: u64,
    /// Generated tokens.
    pub output: u64,
    /// Prompt tokens read from a cache.
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    pub cache_write: u64,
    /// Everything together, as reported, else the sum.
    pub total: u64,
}

impl Usage {
    /// The tokens of the request, without the answer.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// Why a line is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// The line is not a JSON object.
    NotAnObject,
    /// The entry has no `id`; only version 1 of the format may leave it out.
    NoId,
    /// A second `session` header; only the first one counts.
    SecondHeader,
}

impl std::fmt::Display for EntryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EntryError::NotAnObject => "the line is not a JSON object; it is skipped, as Pi does",
            EntryError::NoId => "the entry has no \"id\", which only version 1 of the session format may leave out; it is skipped",
            EntryError::SecondHeader => "a second session header; only the first one counts, as in Pi",
        })
    }
}

impl std::error::Error for EntryError {}

impl Entry {
    /// Reads one line of a session file of version 3, without its line end.
    ///
    /// # Errors
    /// [`EntryError`] when the line is no JSON object or has no id.
    ///
    /// ```
    /// use fold_runtime::journal::{Entry, Kind, Role};
    /// let line = r#"{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"hi"}}"#;
    /// let entry = Entry::parse(line)?;
    /// assert_eq!(entry.kind(), &Kind::Message(Role::User));
    /// assert_eq!(entry.line(), line);
    /// # Ok::<(), fold_runtime::journal::EntryError>(())
    /// ```
    pub fn parse(line: &str) -> Result<Self, EntryError> {
        Self::parse_version(line, 3)
    }

    /// Reads a line of version 2 or later.
    pub(super) fn parse_version(line: &str, version: u64) -> Result<Self, EntryError> {
        Self::of_parsed(line, &Line::parse(line).ok_or(EntryError::NotAnObject)?, version)
    }

    /// The same when the line is parsed already.
    pub(super) fn of_parsed(line: &str, parsed: &Line<'_>, version: u64) -> Result<Self, EntryError> {
        let id = identifier(&parsed.fields, "id").ok_or(EntryError::NoId)?;
        let parent = identifier(&parsed.fields, "parentId");
        let kept = identifier(&parsed.fields, "firstKeptEntryId");
        Ok(Self::assemble(line, parsed, id, parent, version, kept))
    }

    /// A line of version 1, where position stands for identity: the caller says who it is, whose child, and, for a
    /// compaction, which entry it keeps from.
    pub(super) fn of_v1(line: &str, parsed: &Line<'_>, id: &str, parent: Option<&str>, kept: impl Fn(u64) -> Option<String>) -> Self {
        let first_kept = parsed.fields.count("firstKeptEntryIndex").and_then(kept).map(String::into_boxed_str);
        let first_kept = first_kept.or_else(|| identifier(&parsed.fields, "firstKeptEntryId"));
        Self::assemble(line, parsed, id.into(), parent.map(Box::from), 1, first_kept)
    }

    fn assemble(line: &str, parsed: &Line<'_>, id: Box<str>, parent: Option<Box<str>>, version: u64, first_kept: Option<Box<str>>) -> Self {
        let Line { fields, message } = parsed;
        let kind = kind(fields, message.as_ref(), version, first_kept);
        let content = match &kind {
            Kind::CustomMessage => fields.raw("content"),
            Kind::ContextEdit { .. } => fields.raw("replacement").and_then(Fields::parse).and_then(|replacement| replacement.raw("content")),
            _ => message.as_ref().and_then(|message| message.raw("content")),
        };
        let content = content.filter(|raw| *raw != "null").map_or(0..0, |raw| range_in(line, raw));
        Entry(Arc::new(Inner {
            line: line.into(),
            id,
            parent,
            kind,
            content,
            digest: OnceLock::new(),
            weighed: OnceLock::new(),
            told: OnceLock::new(),
        }))
    }

    /// The exact line.
    pub fn line(&self) -> &str {
        &self.0.line
    }

    /// Its id; `v1-<line>` in files of version 1, which have none.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The entry it follows; `None` for a root.
    pub fn parent(&self) -> Option<&str> {
        self.0.parent.as_deref()
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// The SHA-256 of the exact line, computed when first asked for: most entries are never folded.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of(self.0.line.as_bytes()))
    }

    /// A field of the entry itself, as JSON text.
    pub fn field(&self, name: &str) -> Option<&str> {
        let raw = Fields::parse(&self.0.line)?.raw(name)?;
        Some(&self.0.line[range_in(&self.0.line, raw)])
    }

    /// A field of the entry's message, as JSON text.
    pub fn message_field(&self, name: &str) -> Option<&str> {
        Fields::parse(self.field("message")?)?.raw(name)
    }

    /// The content of a message or custom message; empty where Pi reads an empty list.
    pub fn content(&self) -> Content<'_> {
        if matches!(self.kind(), Kind::ContextEdit { .. }) { Content::EMPTY } else { self.stated_content() }
    }

    /// What its content, or the one it gives its target, weighs in a window; worked out when first asked for.
    pub(crate) fn content_size(&self) -> Size {
        *self.0.weighed.get_or_init(|| Size::of_content(self.stated_content()))
    }

    /// What a brief can say of it; read when first asked for.
    pub(crate) fn told(&self) -> &Told {
        self.0.told.get_or_init(|| Box::new(Told::of(self)))
    }

    fn stated_content(&self) -> Content<'_> {
        if self.0.content.is_empty() { Content::EMPTY } else { Content::of(&self.0.line[self.0.content.clone()]) }
    }

    /// Whether it is a *good answer*: complete, cut at the ceiling or asking for tools, and not empty.
    pub fn is_good_answer(&self) -> bool {
        matches!(self.kind(), Kind::Message(Role::Assistant(Assistant { stop: StopReason::Stop | StopReason::Length | StopReason::ToolUse, .. })))
            && !self.content().is_empty()
    }

    /// The content a replacing context edit gives its target; `None` for any other entry.
    pub fn replacement(&self) -> Option<Content<'_>> {
        matches!(self.kind(), Kind::ContextEdit { omits: false, .. }).then(|| self.stated_content())
    }
}

/// Where `part` lies in `whole`; `part` is always a slice of it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    assert!(start + part.len() <= whole.len(), "a field lies in its line");
    start..start + part.len()
}

fn identifier(fields: &Fields<'_>, name: &str) -> Option<Box<str>> {
    fields.text(name).map(|text| text.into_string_lossy().into())
}

fn kind(fields: &Fields<'_>, message: Option<&Fields<'_>>, version: u64, first_kept: Option<Box<str>>) -> Kind {
    let Some(name) = fields.bytes("type") else { return Kind::Other };
    match &*name {
        b"message" => message.map_or(Kind::Other, |message| Kind::Message(role(message, version))),
        b"custom_message" => Kind::CustomMessage,
        b"custom" => Kind::Custom { custom_type: fields.text("customType").unwrap_or_default() },
        b"context_edit" => match (identifier(fields, "targetId"), fields.raw("replacement")) {
            (Some(target), Some(replacement)) => Kind::ContextEdit { target, omits: replacement == "null" },
            _ => Kind::Other,
        },
        b"compaction" => Kind::Compaction { first_kept },
        // A branch summary without text contributes nothing.
        b"branch_summary" if fields.bytes("summary").is_some_and(|text| !text.is_empty()) => Kind::BranchSummary,
        b"model_change" => Kind::ModelChange { model: model_name(fields, "modelId") },
        _ => Kind::Other,
    }
}

fn role(message: &Fields<'_>, version: u64) -> Role {
    let Some(name) = message.bytes("role") else { return Role::Other };
    match &*name {
        b"system" => Role::System,
        b"user" => Role::User,
        b"assistant" => Role::Assistant(assistant(message)),
        b"toolResult" => Role::ToolResult {
            call_id: message.text("toolCallId").unwrap_or_default(),
            tool: message.text("toolName").unwrap_or_default(),
            is_error: message.flag("isError"),
        },
        b"bashExecution" => Role::BashExecution { excluded: message.flag("excludeFromContext") },
        b"custom" => Role::Custom,
        b"hookMessage" if version < 3 => Role::Custom,
        _ => Role::Other,
    }
}

fn assistant(message: &Fields<'_>) -> Assistant {
    let stop = message.bytes("stopReason").map_or(StopReason::Other, |reason| match &*reason {
        b"stop" => StopReason::Stop,
        b"length" => StopReason::Length,
        b"toolUse" => StopReason::ToolUse,
        b"error" => StopReason::Error,
        b"aborted" => StopReason::Aborted,
        _ => StopReason::Other,
    });
    Assistant { stop, usage: message.raw("usage").and_then(Fields::parse).and_then(|usage| usage_of(&usage)), model: model_name(message, "model") }
}

/// `provider/model`.
fn model_name(fields: &Fields<'_>, model: &str) -> Text {
    let name = |field| fields.text(field).unwrap_or_default().into_string_lossy();
    Text::from(format!("{}/{}", name("provider"), name(model)).as_str())
}

fn usage_of(fields: &Fields<'_>) -> Option<Usage> {
    let count = |name| fields.count(name).unwrap_or(0);
    let (input, output, cache_read, cache_write) = (count("input"), count("output"), count("cacheRead"), count("cacheWrite"));
    let sum = [input, output, cache_read, cache_write].into_iter().fold(0u64, u64::saturating_add);
    let total = match count("totalTokens") {
        0 => sum,
        total => total,
    };
    (total > 0).then_some(Usage { input, output, cache_read, cache_write, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_types_and_roles_pass_through() {
        let entry = Entry::parse(r#"{"type":"brand_new","id":"x","extra":{"\udc00":1}}"#).expect("an entry");
        assert_eq!(entry.kind(), &Kind::Other);
        let entry = Entry::parse(r#"{"type":"message","id":"x","message":{"role":"oracle"}}"#).expect("an entry");
        assert_eq!(entry.kind(), &Kind::Message(Role::Other));
        assert!(entry.content().is_empty());
    }

    #[test]
    fn a_field_may_be_written_with_escapes() {
        let entry = Entry::parse(r#"{"type":"mess\u0061ge","id":"\u0061","message":{"role":"us\u0065r","content":"a\ud83d"}}"#).expect("an entry");
        assert_eq!((entry.id(), entry.kind()), ("a", &Kind::Message(Role::User)));
        assert_eq!(entry.content().string().expect("a string").as_bytes(), b"a\xed\xa0\xbd");
    }

    #[test]
    fn a_line_that_is_no_entry_says_why() {
        assert_eq!(Entry::parse("[]").unwrap_err(), EntryError::NotAnObject);
        assert_eq!(Entry::parse(r#"{"type":"message"}"#).unwrap_err(), EntryError::NoId);
    }

    #[test]
    fn all_zero_usage_is_no_usage() {
        let with = |usage: &str| {
            let line = format!(r#"{{"type":"message","id":"a","message":{{"role":"assistant","content":[],"stopReason":"stop","usage":{usage}}}}}"#);
            match Entry::parse(&line).expect("an entry").kind() {
                Kind::Message(Role::Assistant(assistant)) => assistant.usage,
                other => panic!("an assistant, not {other:?}"),
            }
        };
        assert_eq!(with(r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0}"#), None);
        let usage = with(r#"{"input":5,"output":2,"cacheRead":7,"cacheWrite":1}"#).expect("a usage");
        assert_eq!((usage.prompt(), usage.total), (13, 15));
    }
}
