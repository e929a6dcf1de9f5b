//! A message as the model is shown it, read once when it enters the window.
//!
//! Everything a request needs to know of a message is worked out here and kept: what is sent of it, its calls, its sizes, its hashes, its
//! true tokens. Afterwards a window is a list of shared pointers, and nothing parses JSON again.

use crate::hash::{hash, mix};
use crate::tokens::TokenModel;
use fold_runtime::journal::{BlockKind, Content, Entry, Kind, Role as EntryRole, StopReason, Text};
use fold_runtime::window::{Message, MessageContent};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// What a block of an edit begins with that is a placeholder of the runtime, or the line beside one (fold law, placeholder).
const MARKER: &str = "\"text\":\"⟦pi-fold f_";
/// The same of the line that masking leaves.
const MASKED: &str = "\"text\":\"[pi-compaction] Earlier ";
/// What stands in a clipped text, which may begin like anything.
const CLIPPED: &str = "bytes clipped here by the context manager";

/// How an answer's content names what its provider signed, in reasoning and in calls; within a text the quotes would be escaped.
const SIGNATURES: [&str; 2] = ["\"thinkingSignature\":\"", "\"thoughtSignature\":\""];
/// What stands in a signature's place on the Chat Completions wire: the field that the reasoning came in, which signs nothing.
const UNSIGNED: [&str; 4] = ["", "reasoning", "reasoning_content", "reasoning_text"];

/// Characters Pi's own estimate takes an image for.
const ESTIMATED_IMAGE: u64 = 4_800;

const COMPACTION_FRAME: usize =
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n\n</summary>".len();
const BRANCH_FRAME: usize = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n</summary>".len();

/// A role in Pi's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// System prompt and tool declarations.
    System,
    /// A person.
    User,
    /// The model.
    Assistant,
    /// What a tool answered.
    ToolResult,
    /// What an extension wrote.
    Custom,
    /// A person's command.
    BashExecution,
    /// What was said on a branch that was left.
    BranchSummary,
    /// What was said before a compaction.
    CompactionSummary,
    /// A role Pi does not send.
    Other,
}

/// The role a message has when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WireRole {
    /// It never leaves, and the wire does not notice it.
    Nothing,
    /// `system`.
    System,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool`.
    Tool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its id.
    pub id: Text,
    /// The tool.
    pub name: Text,
    /// Whether its arguments are a JSON object.
    pub object: bool,
}

/// Text sent, in bytes, by kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Text.
    pub text: u64,
    /// Reasoning.
    pub thinking: u64,
    /// Names and arguments of calls.
    pub calls: u64,
}

/// What a provider signed in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Signed {
    /// Names the first signed reasoning; nothing where none is signed.
    pub reasoning: Option<u64>,
    /// Whether neither words nor a call follow the last signed reasoning.
    pub alone: bool,
    /// Whether an edit took signatures away and left what they were for.
    pub torn: bool,
}

/// What a wire looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The role it leaves in.
    pub wire: WireRole,
    /// Whether it leaves at all: failed and empty answers do not, nor do empty lists of blocks.
    pub sent: bool,
    /// The calls of an assistant message.
    pub calls: Box<[Call]>,
    /// The call a tool result answers; empty for every other message.
    pub answers: Text,
    /// The tool a result is of; empty for every other message.
    pub tool: Text,
    /// Whether a tool result reports failure.
    pub is_error: bool,
    /// Why an answer ended.
    pub stop: Option<StopReason>,
    /// Its text.
    pub bytes: Bytes,
    /// Its images.
    pub images: u64,
    /// Blocks of its content; a plain string is one.
    pub blocks: u64,
    /// Whether a block of text in it says nothing.
    pub hollow: bool,
    /// What is signed in it.
    pub signed: Signed,
    /// Names the model of an answer; 0 for every other message.
    pub model: u64,
    /// Whether a context edit gave it its content.
    pub edited: bool,
    /// Whether that content holds a placeholder.
    pub placeholder: bool,
    /// Whether it says nothing: no visible text, no image, no call.
    pub blank: bool,
    /// Whether an id or a name in it holds an unpaired surrogate, which nobody repairs on the way out.
    pub broken_name: bool,
    /// Whether the arguments of a call hold one: they leave as they are.
    pub broken_arguments: bool,
}

/// A message of the window.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The entry it comes from.
    pub source: Entry,
    /// The context edit that gave it its content, if one did.
    pub edit: Option<Entry>,
    /// The position of its source on the branch. An entry has the same one on every branch it is on.
    pub at: usize,
    /// Whose message it is.
    pub role: Role,
    /// Names source, role and content: equal where a message of the same entry shows the same.
    pub digest: u64,
    /// Names what leaves, whichever entry it comes from: equal where a provider's cache would find it equal.
    pub wire: u64,
    /// True tokens; 0 if it does not leave.
    pub tokens: u64,
    /// Pi's own estimate: characters by four.
    pub estimate: u64,
    /// What a wire looks at.
    pub facts: Facts,
    content: Place,
}

/// What a message says, as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'a> {
    /// A string or blocks.
    Content(&'a str),
    /// The content of a system message.
    System(&'a str),
    /// A summary.
    Summary(&'a str),
    /// A command: the whole message.
    Bash(&'a str),
    /// The system message a compaction carries: the whole of it.
    Prompt(&'a str),
}

impl<'a> Said<'a> {
    fn raw(&self) -> &'a str {
        match self {
            Said::Content(raw) | Said::System(raw) | Said::Summary(raw) | Said::Bash(raw) | Said::Prompt(raw) => raw,
        }
    }
}

/// Where a content stands.
#[derive(Clone, Debug)]
enum Place {
    /// In the line of the edit, or of the source where there is none.
    Line(Range<usize>),
    /// Nowhere: Pi reads this where a content is missing.
    Missing(&'static str),
}

impl PartialEq for Shown {
    fn eq(&self, other: &Self) -> bool {
        let key = |shown: &Shown| (shown.at, shown.role, shown.digest, shown.wire, shown.tokens, shown.estimate);
        key(self) == key(other) && self.source.id() == other.source.id() && self.content() == other.content() && self.facts == other.facts
    }
}

impl Shown {
    /// Reads a message that Pi's projection shows of `source`, under the edit that stands for it.
    ///
    /// # Panics
    /// If `message` is no projection of the two.
    pub fn read(at: usize, source: &Entry, edit: Option<&Entry>, message: &Message<'_>, model: &TokenModel) -> Self {
        let role = role(&message.role);
        let said = match message.content {
            MessageContent::Content(content) | MessageContent::TextBlock(content) if role == Role::System => Said::System(content.raw()),
            MessageContent::Content(content) | MessageContent::TextBlock(content) => Said::Content(content.raw()),
            MessageContent::Summary(raw) => Said::Summary(raw),
            MessageContent::Bash(raw) => Said::Bash(raw),
            MessageContent::System(raw) => Said::Prompt(raw),
        };
        // An edit of a role that cannot be edited changes nothing.
        let edit = edit.filter(|_| within(source.line(), said.raw()).is_none());
        Self::of(at, source, edit, role, said, model)
    }

    /// Reads what a host has just written, which it need not look for: `said` stands in the line of the edit, or of the source.
    pub(crate) fn of(at: usize, source: &Entry, edit: Option<&Entry>, role: Role, said: Said<'_>, model: &TokenModel) -> Self {
        let raw = said.raw();
        let read = match said {
            Said::Content(raw) => Read::content(raw, || edit.map_or_else(|| source.content(), |edit| edit.replacement().unwrap_or(Content::EMPTY))),
            Said::System(_) => Read::system(source.field("message").unwrap_or("{}")),
            Said::Summary(raw) => Read::summary(raw, role),
            Said::Bash(raw) => Read::bash(raw),
            Said::Prompt(raw) => Read::system(raw),
        };
        let holder = edit.unwrap_or(source);
        let content = within(holder.line(), raw).map_or_else(|| Place::Missing(missing(raw)), Place::Line);
        let estimate = read.estimate;
        let content_hash = hash(0, raw.as_bytes());
        let digest = mix(hash(role as u64, source.id().as_bytes()), content_hash);
        let sent = read.wire_text.clone();
        let facts = facts(role, source, edit.is_some().then_some(raw), read);
        let leaves = sent.map_or(content_hash, |sent| hash(0, &sent));
        let wire = mix(hash(facts.wire as u64, facts.answers.as_bytes()), leaves);
        let mut shown = Shown { source: source.clone(), edit: edit.cloned(), at, role, digest, wire, tokens: 0, estimate, facts, content };
        shown.tokens = model.message(&shown);
        shown
    }

    /// The content as JSON text, exactly as the journal holds it: a content, a summary's string, or the whole message of a command or of a
    /// compaction's system prompt.
    pub fn content(&self) -> &str {
        match &self.content {
            Place::Line(range) => &self.edit.as_ref().unwrap_or(&self.source).line()[range.clone()],
            Place::Missing(json) => json,
        }
    }

    /// Whether a person, an extension or the host begins a turn with it.
    pub fn starts_turn(&self) -> bool {
        matches!(self.role, Role::User | Role::BashExecution | Role::Custom | Role::BranchSummary)
    }
}

/// Names a model, given as `provider/model`, in [`Facts::model`].
pub fn name_of_model(name: &Text) -> u64 {
    hash(1, name.as_bytes())
}

/// What a signature is known by, if that is one.
fn signature(text: &str) -> Option<u64> {
    (!UNSIGNED.contains(&text)).then(|| hash(0, text.as_bytes()))
}

fn role(name: &str) -> Role {
    match name {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "toolResult" => Role::ToolResult,
        "custom" => Role::Custom,
        "bashExecution" => Role::BashExecution,
        "branchSummary" => Role::BranchSummary,
        "compactionSummary" => Role::CompactionSummary,
        _ => Role::Other,
    }
}

/// Where `part` lies in `line`, if it does.
fn within(line: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    (start + part.len() <= line.len()).then(|| start..start + part.len())
}

fn missing(raw: &str) -> &'static str {
    ["[]", "\"\"", "{}"].into_iter().find(|known| *known == raw).expect("a content stands in the line of its entry or edit")
}

fn facts(role: Role, source: &Entry, edited: Option<&str>, read: Read) -> Facts {
    let (mut answers, mut tool, mut failed, mut stop, mut model, mut excluded) = (Text::default(), Text::default(), false, None, 0, false);
    match source.kind() {
        Kind::Message(EntryRole::ToolResult { call_id, tool: name, is_error }) => {
            (answers, tool, failed) = (call_id.clone(), name.clone(), *is_error);
        }
        Kind::Message(EntryRole::Assistant(assistant)) => {
            (stop, model) = (Some(assistant.stop), name_of_model(&assistant.model));
        }
        Kind::Message(EntryRole::BashExecution { excluded: kept_back }) => excluded = *kept_back,
        _ => {}
    }
    let wire = match role {
        Role::System => WireRole::System,
        Role::Assistant => WireRole::Assistant,
        Role::ToolResult => WireRole::Tool,
        Role::Other => WireRole::Nothing,
        Role::BashExecution if excluded => WireRole::Nothing,
        Role::User | Role::Custom | Role::BashExecution | Role::BranchSummary | Role::CompactionSummary => WireRole::User,
    };
    let sent = match wire {
        WireRole::Nothing => false,
        WireRole::System => read.bytes.text > 0,
        // A plain string leaves even when it is empty; of a list, empty texts are taken out, and what is then empty stays at home.
        WireRole::User => read.bytes.text > 0 || read.images > 0 || (read.plain && role == Role::User),
        WireRole::Assistant => !matches!(stop, Some(StopReason::Error | StopReason::Aborted)) && (read.visible || !read.calls.is_empty()),
        WireRole::Tool => true,
    };
    // What is given its own content back is as the host has it, whatever a tool wrote there.
    let edited = edited.filter(|content| *content != source.content().raw());
    let blank = !read.visible && read.images == 0 && read.calls.is_empty();
    let signatures = |content: &str| SIGNATURES.iter().map(|name| content.matches(name).count()).sum::<usize>();
    let torn = |content: &str| wire == WireRole::Assistant && !blank && signatures(content) < signatures(source.content().raw());
    let broken = |text: &Text| std::str::from_utf8(text.as_bytes()).is_err();
    Facts {
        broken_name: broken(&answers) || read.calls.iter().any(|call| broken(&call.id) || broken(&call.name)),
        wire,
        sent,
        calls: read.calls.into(),
        answers,
        tool,
        is_error: failed,
        stop,
        bytes: read.bytes,
        images: read.images,
        blocks: read.blocks,
        hollow: read.hollow,
        signed: Signed { torn: edited.is_some_and(torn), ..read.signed },
        model,
        broken_arguments: read.broken_arguments,
        edited: edited.is_some(),
        placeholder: edited.is_some_and(|content| content.contains(MASKED) || (content.contains(MARKER) && !content.contains(CLIPPED))),
        blank,
    }
}

/// Pi's estimate of a system message given as JSON.
pub(crate) fn estimate_of_system(message: &str) -> u64 {
    Read::system(message).estimate
}

/// What one pass over a content finds.
#[derive(Default)]
struct Read {
    bytes: Bytes,
    images: u64,
    calls: Vec<Call>,
    blocks: u64,
    /// Some block of text is nothing but white space.
    hollow: bool,
    signed: Signed,
    broken_arguments: bool,
    /// The content is one string.
    plain: bool,
    /// Some text is more than white space.
    visible: bool,
    /// Pi's estimate, in tokens.
    estimate: u64,
    /// What leaves, where it is not the content itself.
    wire_text: Option<Vec<u8>>,
}

impl Read {
    /// `odd` gives the content again, for the slow reader.
    fn content<'a>(raw: &str, odd: impl FnOnce() -> Content<'a>) -> Self {
        let mut read = Read::default();
        let mut units = 0;
        if let Some(text) = raw.starts_with('"').then(|| serde_json::from_str::<Measured>(raw).ok()).flatten() {
            (read.plain, read.blocks) = (true, 1);
            units += read.text(text);
        } else if let Some(blocks) = quick(raw) {
            for block in blocks {
                units += read.block(block);
            }
        } else {
            for block in odd().blocks() {
                units += read.odd_block(&block);
            }
        }
        read.estimate = (units + read.images * ESTIMATED_IMAGE).div_ceil(4);
        read
    }

    fn text(&mut self, text: Measured) -> u64 {
        self.bytes.text += text.bytes;
        self.visible |= !text.blank;
        self.hollow |= text.blank;
        self.signed.alone &= text.blank;
        text.units
    }

    fn thinking(&mut self, text: Measured, signature: Option<u64>) -> u64 {
        self.bytes.thinking += text.bytes;
        self.signed.alone |= signature.is_some();
        self.signed.reasoning = self.signed.reasoning.or(signature);
        text.units
    }

    fn call(&mut self, id: Text, name: Text, arguments: &str) -> u64 {
        let measured = (Measured::of(name.as_bytes()), Measured::of(arguments.as_bytes()));
        self.bytes.calls += measured.0.bytes + measured.1.bytes;
        self.signed.alone = false;
        self.broken_arguments |= arguments.contains("\\u") && serde_json::from_str::<serde_json::Value>(arguments).is_err();
        self.calls.push(Call { id, name, object: arguments.starts_with('{') });
        measured.0.units + measured.1.units
    }

    fn block(&mut self, block: QuickBlock<'_>) -> u64 {
        self.blocks += 1;
        match block.kind.0 {
            BlockKind::Text => block.text.map_or(0, |text| self.text(text)),
            BlockKind::Thinking => self.thinking(block.thinking.unwrap_or_default(), block.signature.and_then(|signature| signature.0)),
            BlockKind::ToolCall => {
                let arguments = block.arguments.map_or("{}", RawValue::get);
                self.call(block.id.unwrap_or_default(), block.name.unwrap_or_default(), arguments)
            }
            BlockKind::Image | BlockKind::Other => {
                self.images += 1;
                0
            }
        }
    }

    /// The runtime's own reader, for what a strict one refuses: repeated keys, unpaired surrogates in keys, values of a wrong type.
    fn odd_block(&mut self, block: &fold_runtime::journal::Block<'_>) -> u64 {
        let text = block.text().map_or_else(Measured::default, |text| Measured::of(text.as_bytes()));
        self.blocks += 1;
        match block.kind {
            BlockKind::Text => self.text(text),
            BlockKind::Thinking => {
                let signature = block.raw().split_once(SIGNATURES[0]).and_then(|(_, rest)| signature(rest.split('"').next()?));
                self.thinking(text, signature)
            }
            BlockKind::ToolCall => block.call().map_or(0, |(id, name, arguments)| self.call(id, name, arguments)),
            BlockKind::Image => {
                self.images += 1;
                0
            }
            BlockKind::Other => self.text(Measured::of(block.raw().as_bytes())),
        }
    }

    fn summary(raw: &str, role: Role) -> Self {
        let text = serde_json::from_str::<Measured>(raw).unwrap_or_default();
        let frame = if role == Role::CompactionSummary { COMPACTION_FRAME } else { BRANCH_FRAME };
        let bytes = Bytes { text: text.bytes + frame as u64, ..Bytes::default() };
        Read { bytes, visible: true, estimate: text.units.div_ceil(4), ..Read::default() }
    }

    /// Named sections and tool declarations count as the text and the JSON they are.
    fn system(message: &str) -> Self {
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct System<'a> {
            #[serde(borrow)]
            content: Option<&'a RawValue>,
            #[serde(borrow)]
            sections: Option<&'a RawValue>,
            #[serde(borrow, rename = "toolsAdded")]
            tools: Option<&'a RawValue>,
        }
        let parts: System<'_> = serde_json::from_str(message).unwrap_or_default();
        let content = parts.content.map_or("\"\"", RawValue::get);
        let text = serde_json::from_str::<Measured>(content).unwrap_or_else(|_| {
            quick(content).unwrap_or_default().into_iter().filter_map(|block| block.text).fold(Measured::default(), Measured::and)
        });
        let sections: BTreeMap<Text, Option<Measured>> = parts.sections.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let sections = sections.into_values().flatten().fold(Measured::default(), Measured::and);
        let tools = parts.tools.map_or_else(Measured::default, |raw| Measured::of(raw.get().as_bytes()));
        let all = text.and(sections).and(tools);
        let wire_text = [content, parts.sections.map_or("", RawValue::get), parts.tools.map_or("", RawValue::get)].concat().into_bytes();
        Read {
            bytes: Bytes { text: all.bytes, ..Bytes::default() },
            visible: !all.blank,
            estimate: all.units.div_ceil(4),
            wire_text: Some(wire_text),
            ..Read::default()
        }
    }

    /// A person's command leaves as the text Pi makes of it.
    fn bash(raw: &str) -> Self {
        #[derive(serde::Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Bash {
            command: Text,
            output: Text,
            exit_code: Option<i64>,
            cancelled: Option<bool>,
            truncated: Option<bool>,
            full_output_path: Option<Text>,
        }
        let bash: Bash = serde_json::from_str(raw).unwrap_or_default();
        let mut text: Vec<u8> = [b"Ran `", bash.command.as_bytes(), b"`\n"].concat();
        match bash.output.as_bytes() {
            b"" => text.extend_from_slice(b"(no output)"),
            output => text.extend([b"```\n", output, b"\n```"].concat()),
        }
        match bash.exit_code {
            _ if bash.cancelled == Some(true) => text.extend_from_slice(b"\n\n(command cancelled)"),
            None | Some(0) => {}
            Some(code) => text.extend_from_slice(format!("\n\nCommand exited with code {code}").as_bytes()),
        }
        if let (Some(true), Some(path)) = (bash.truncated, &bash.full_output_path) {
            text.extend([b"\n\n[Output truncated. Full output: ", path.as_bytes(), b"]"].concat());
        }
        let estimate = Measured::of(bash.command.as_bytes()).and(Measured::of(bash.output.as_bytes())).units.div_ceil(4);
        let bytes = Bytes { text: text.len() as u64, ..Bytes::default() };
        Read { bytes, visible: true, estimate, wire_text: Some(text), ..Read::default() }
    }
}

/// A list of blocks of the usual shape, read in one pass; `None` if any is unusual.
fn quick(raw: &str) -> Option<Vec<QuickBlock<'_>>> {
    let blocks: Vec<QuickBlock<'_>> = serde_json::from_str(raw).ok()?;
    blocks.iter().all(|block| block.kind.0 != BlockKind::Other).then_some(blocks)
}

#[derive(serde::Deserialize)]
struct QuickBlock<'a> {
    #[serde(rename = "type")]
    kind: QuickKind,
    text: Option<Measured>,
    thinking: Option<Measured>,
    #[serde(rename = "thinkingSignature")]
    signature: Option<Signature>,
    id: Option<Text>,
    name: Option<Text>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// What a signature is known by; nothing where none stands.
struct Signature(Option<u64>);

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Signature;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a signature")
            }
            fn visit_str<E>(self, text: &str) -> Result<Signature, E> {
                Ok(Signature(signature(text)))
            }
        }
        deserializer.deserialize_str(Word)
    }
}

struct QuickKind(BlockKind);

impl<'de> Deserialize<'de> for QuickKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = QuickKind;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind of block")
            }
            fn visit_str<E>(self, word: &str) -> Result<QuickKind, E> {
                Ok(QuickKind(match word {
                    "text" => BlockKind::Text,
                    "thinking" => BlockKind::Thinking,
                    "toolCall" => BlockKind::ToolCall,
                    "image" => BlockKind::Image,
                    _ => BlockKind::Other,
                }))
            }
        }
        deserializer.deserialize_str(Word)
    }
}

/// A text, measured while it is read and not kept.
#[derive(Clone, Copy, Default)]
struct Measured {
    /// UTF-8, three bytes for an unpaired surrogate.
    bytes: u64,
    /// UTF-16, which is what JavaScript calls a length.
    units: u64,
    /// Nothing but white space.
    blank: bool,
}

impl Measured {
    fn of(bytes: &[u8]) -> Self {
        let units = if bytes.is_ascii() {
            bytes.len()
        } else {
            bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() + bytes.iter().filter(|byte| **byte >= 0xf0).count()
        };
        let blank = match bytes.first() {
            Some(first) if first.is_ascii_graphic() => false,
            _ => std::str::from_utf8(bytes).is_ok_and(|text| text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty()),
        };
        Measured { bytes: bytes.len() as u64, units: units as u64, blank }
    }

    fn and(self, other: Measured) -> Measured {
        Measured { bytes: self.bytes + other.bytes, units: self.units + other.units, blank: self.blank && other.blank }
    }
}

impl<'de> Deserialize<'de> for Measured {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Length;
        impl Visitor<'_> for Length {
            type Value = Measured;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Measured, E> {
                Ok(Measured::of(bytes))
            }
            fn visit_str<E>(self, text: &str) -> Result<Measured, E> {
                Ok(Measured::of(text.as_bytes()))
            }
        }
        deserializer.deserialize_bytes(Length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::window::projection;

    fn shown(lines: &[&str]) -> Vec<Shown> {
        let entries: Vec<Entry> = lines.iter().map(|line| Entry::parse(line).expect("an entry")).collect();
        let edit = entries.iter().rfind(|entry| matches!(entry.kind(), Kind::ContextEdit { .. }));
        let window = projection(&entries);
        let read = |projected: &fold_runtime::window::Projected<'_>| {
            let read = |message: &Message<'_>| Shown::read(0, projected.source, edit, message, &TokenModel::new(1, 0));
            projected.messages.iter().map(read).collect::<Vec<_>>()
        };
        window.iter().flat_map(read).collect()
    }

    fn message(json: &str) -> Shown {
        shown(&[&format!(r#"{{"type":"message","id":"a","message":{json}}}"#)]).remove(0)
    }

    #[test]
    fn an_answer_is_read_into_text_thinking_and_calls() {
        let shown = message(
            r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sig"},{"type":"text","text":"é𝄞"},{"type":"toolCall","id":"c1","name":"ls","arguments":{"p":1}}]}"#,
        );
        assert_eq!(shown.facts.bytes, Bytes { text: 6, thinking: 2, calls: 9 });
        assert_eq!(shown.facts.calls.to_vec(), [Call { id: "c1".into(), name: "ls".into(), object: true }]);
        // Two units of thinking, three of text (one pair), nine of the call.
        assert_eq!((shown.estimate, shown.facts.sent, shown.facts.wire), (14u64.div_ceil(4), true, WireRole::Assistant));
    }

    #[test]
    fn reasoning_is_signed_by_a_signature_and_not_by_the_name_of_a_field() {
        let answer = |blocks: &str| message(&format!(r#"{{"role":"assistant","stopReason":"stop","content":[{blocks}]}}"#)).facts.signed;
        let thinking = |signature: &str| format!(r#"{{"type":"thinking","thinking":"hm","thinkingSignature":"{signature}"}}"#);
        let text = r#"{"type":"text","text":"so"}"#;
        assert_eq!((answer(&thinking("")), answer(&thinking("reasoning_content"))), (Signed::default(), Signed::default()));
        let signed = answer(&thinking("c2ln"));
        assert!(signed.reasoning.is_some() && signed.alone && !signed.torn);
        let followed = answer(&format!("{},{text}", thinking("c2ln")));
        assert_eq!((followed.reasoning, followed.alone), (signed.reasoning, false));
        assert!(answer(&format!("{},{text},{}", thinking("c2ln"), thinking("b2"))).alone, "the last of two stands alone");
        assert_ne!(answer(&thinking("other")).reasoning, signed.reasoning);
        // A repeated key is read by the slow reader.
        assert_eq!(answer(&thinking("c2ln").replace("\"hm\"", "\"a\",\"thinking\":\"hm\"")), signed);
    }

    #[test]
    fn an_edit_that_takes_a_signature_and_leaves_what_it_signed_is_seen() {
        let call = |signature: &str| format!(r#"{{"type":"toolCall","id":"c","name":"ls","arguments":{{}}{signature}}}"#);
        let signed = call(r#","thoughtSignature":"c2ln""#);
        let source = format!(r#"{{"type":"message","id":"r","message":{{"role":"assistant","stopReason":"toolUse","content":[{signed}]}}}}"#);
        let edit = |content: &str| format!(r#"{{"type":"context_edit","id":"e","targetId":"r","replacement":{{"content":[{content}]}}}}"#);
        assert!(shown(&[&source, &edit(&call(""))])[0].facts.signed.torn);
        assert!(!shown(&[&source, &edit(&signed)])[0].facts.signed.torn);
        assert!(!shown(&[&source, &edit("")])[0].facts.signed.torn, "nothing is left");
    }

    #[test]
    fn what_the_quick_reader_refuses_the_slow_one_reads_the_same() {
        let usual = message(r#"{"role":"user","content":[{"type":"text","text":"one"},{"type":"image","data":"AAAA"}]}"#);
        let odd = message(r#"{"role":"user","content":[{"type":"text","text":"zero","text":"one","k\ud83d":1},{"type":"image","data":"AAAA"}]}"#);
        assert_eq!((usual.facts.bytes, usual.facts.images, usual.estimate), (odd.facts.bytes, odd.facts.images, odd.estimate));
        assert_eq!((usual.facts.images, usual.estimate), (1, 4_803u64.div_ceil(4)));
    }

    #[test]
    fn a_failed_answer_an_empty_one_and_a_private_command_stay_at_home() {
        for json in [
            r#"{"role":"assistant","stopReason":"error","content":[{"type":"text","text":"half"}]}"#,
            r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":" \n"}]}"#,
            r#"{"role":"bashExecution","command":"ls","output":"a","excludeFromContext":true}"#,
            r#"{"role":"user","content":[{"type":"text","text":""}]}"#,
            r#"{"role":"oracle","content":"hm"}"#,
        ] {
            let shown = message(json);
            assert!(!shown.facts.sent && shown.tokens == 0, "{json}");
        }
        assert!(message(r#"{"role":"toolResult","toolCallId":"c","toolName":"ls","content":[]}"#).facts.sent);
    }

    #[test]
    fn an_edit_is_seen_and_its_placeholder_too() {
        let result = r#"{"type":"message","id":"r","message":{"role":"toolResult","toolCallId":"c","toolName":"ls","content":[{"type":"text","text":"long"}]}}"#;
        let edit = |text: &str| {
            format!(r#"{{"type":"context_edit","id":"e","targetId":"r","replacement":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
        };
        let folded = shown(&[result, &edit("⟦pi-fold f_0 · tool fold · 1 entry⟧")]).remove(0);
        assert!(folded.facts.edited && folded.facts.placeholder && !folded.facts.blank);
        let blank = shown(&[result, &edit("  ")]).remove(0);
        assert!(blank.facts.edited && blank.facts.blank && !blank.facts.placeholder);
        let original = shown(&[result]).remove(0);
        let restored = shown(&[result, &edit("long")]).remove(0);
        assert_eq!((original.digest, original.wire), (restored.digest, restored.wire));
        assert_ne!(original.digest, folded.digest);
    }

    #[test]
    fn a_command_weighs_the_text_pi_makes_of_it() {
        let shown = message(r#"{"role":"bashExecution","command":"ls","output":"a\n","exitCode":2}"#);
        assert_eq!(shown.facts.bytes.text, "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 2".len() as u64);
        assert_eq!((shown.facts.wire, shown.estimate), (WireRole::User, 1));
    }

    #[test]
    fn a_system_message_counts_its_sections_and_tools() {
        let shown = message(r#"{"role":"system","content":"abc","sections":{"x":"de","y":null},"toolsAdded":[{"n":1}]}"#);
        assert_eq!((shown.facts.bytes.text, shown.estimate), (3 + 2 + 9, 14u64.div_ceil(4)));
    }

    #[test]
    fn an_unpaired_surrogate_matters_in_a_name_and_not_in_a_text() {
        let call = |id: &str| {
            format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"{id}","name":"ls","arguments":{{}}}}]}}"#)
        };
        assert!(message(&call("c\\ud83d")).facts.broken_name);
        assert!(!message(&call("c")).facts.broken_name);
        assert!(!message(r#"{"role":"user","content":"\ud83d"}"#).facts.broken_name);
        let arguments = |text: &str| message(&call("c").replace("{}", &format!(r#"{{"a":"{text}"}}"#))).facts.broken_arguments;
        assert_eq!([arguments("\\ud83d"), arguments("\\ud83d\\ude00"), arguments("\\u00e9"), arguments("d83d")], [true, false, false, false]);
    }

    #[test]
    fn the_same_words_of_two_entries_leave_alike_and_are_two_messages() {
        let of = |id: &str| shown(&[&format!(r#"{{"type":"message","id":"{id}","message":{{"role":"user","content":"hi"}}}}"#)]).remove(0);
        assert_eq!(of("a").wire, of("b").wire);
        assert_ne!(of("a").digest, of("b").digest);
    }
}
