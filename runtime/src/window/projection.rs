//! Branch to messages, exactly as Pi builds its session projection.
//!
//! Whole-branch and allocation-light: this is what a reader, a replay and the checks use. Rules, each seen in real Pi: only the
//! newest compaction of the path counts, and it stands first; then come the entries it keeps, without their system messages, then
//! everything after it. A context edit counts if it lies among those; the last one per target wins; it changes nothing but
//! the content of a user, assistant, tool-result or custom message, or omits whatever it targets.

use crate::journal::{Content, Entry, Kind, Role};
use std::collections::BTreeMap;

/// One entry in context and the messages it contributes.
#[derive(Clone, Debug)]
pub struct Projected<'a> {
    /// Where they come from.
    pub source: &'a Entry,
    /// None for an omitted entry or one that is never in context; two for a compaction that carries a system message.
    pub messages: Vec<Message<'a>>,
}

/// A message as the model will see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<'a> {
    /// The role in Pi's own terms: `user`, `assistant`, `toolResult`, `system`, `custom`, `bashExecution`, `branchSummary`,
    /// `compactionSummary`, or a role not known here.
    pub role: String,
    /// What it says.
    pub content: MessageContent<'a>,
}

/// Where a message's content comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageContent<'a> {
    /// A string or blocks, original or edited.
    Content(Content<'a>),
    /// A string an edit gives an assistant message or tool result: it stands as one text block.
    TextBlock(Content<'a>),
    /// The summary of a compaction or branch, as a JSON string.
    Summary(&'a str),
    /// A person's command, its output and exit status: the whole message, as JSON.
    Bash(&'a str),
    /// A system message inside a compaction entry, as JSON.
    System(&'a str),
}

/// Projects a branch.
///
/// ```
/// use fold_runtime::journal::{Branch, Journal};
/// let file = concat!(
///     "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n",
///     "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n",
///     "{\"type\":\"context_edit\",\"id\":\"b\",\"parentId\":\"a\",\"targetId\":\"a\",\"replacement\":null}\n",
/// );
/// let journal = Journal::read(file.as_bytes())?;
/// let branch = Branch::of(&journal.entries);
/// assert!(fold_runtime::window::projection(&branch.entries).iter().all(|entry| entry.messages.is_empty()));
/// # Ok::<(), fold_runtime::journal::ReadError>(())
/// ```
pub fn projection(branch: &[Entry]) -> Vec<Projected<'_>> {
    let context = context_entries(branch);
    let mut edits: BTreeMap<&str, &Entry> = BTreeMap::new();
    for entry in &context {
        if let Kind::ContextEdit { target, .. } = entry.kind() {
            edits.insert(target, entry);
        }
    }
    context
        .iter()
        .enumerate()
        .map(|(index, &source)| {
            let silent = index > 0 && matches!(source.kind(), Kind::Compaction { .. });
            let messages = if silent { Vec::new() } else { messages(source, edits.get(source.id()).copied()) };
            Projected { source, messages }
        })
        .collect()
}

/// The entries in context, in the order the model sees them.
fn context_entries(branch: &[Entry]) -> Vec<&Entry> {
    let newest = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Compaction { .. }));
    let Some(at) = newest else { return branch.iter().collect() };
    let Kind::Compaction { first_kept } = branch[at].kind() else { unreachable!("rposition found a compaction") };
    let kept = branch[..at]
        .iter()
        .skip_while(|entry| first_kept.as_deref() != Some(entry.id()))
        .filter(|entry| entry.kind() != &Kind::Message(Role::System));
    std::iter::once(&branch[at]).chain(kept).chain(&branch[at + 1..]).collect()
}

fn messages<'a>(source: &'a Entry, edit: Option<&'a Entry>) -> Vec<Message<'a>> {
    if edit.is_some_and(|edit| matches!(edit.kind(), Kind::ContextEdit { omits: true, .. })) {
        return Vec::new();
    }
    let message = |role: &str, content| Message { role: role.to_owned(), content };
    let edited = |role: &str| {
        let content = edit.and_then(Entry::replacement);
        let blocks_only = matches!(role, "assistant" | "toolResult");
        message(
            role,
            match content {
                Some(content) if blocks_only && content.string().is_some() => MessageContent::TextBlock(content),
                content => MessageContent::Content(content.unwrap_or_else(|| source.content())),
            },
        )
    };
    match source.kind() {
        Kind::Message(Role::User) => vec![edited("user")],
        Kind::Message(Role::Assistant(_)) => vec![edited("assistant")],
        Kind::Message(Role::ToolResult { .. }) => vec![edited("toolResult")],
        Kind::CustomMessage | Kind::Message(Role::Custom) => vec![edited("custom")],
        Kind::Message(Role::System) => {
            let content = source.message_field("content").filter(|raw| *raw != "null").is_some();
            let content = if content { source.content() } else { Content::EMPTY_STRING };
            vec![message("system", MessageContent::Content(content))]
        }
        Kind::Message(Role::BashExecution { .. }) => vec![message("bashExecution", MessageContent::Bash(source.field("message").unwrap_or("{}")))],
        Kind::Message(Role::Other) => {
            let role = source.message_field("role").and_then(|raw| serde_json::from_str::<String>(raw).ok()).unwrap_or_default();
            // Pi applies no replacement to a role it does not know.
            vec![message(&role, MessageContent::Content(source.content()))]
        }
        Kind::BranchSummary => vec![message("branchSummary", MessageContent::Summary(source.field("summary").unwrap_or("\"\"")))],
        Kind::Compaction { .. } => {
            let system = source.field("systemMessage").filter(|raw| raw.starts_with('{'));
            let system = system.map(|raw| message("system", MessageContent::System(raw)));
            let summary = message("compactionSummary", MessageContent::Summary(source.field("summary").unwrap_or("\"\"")));
            system.into_iter().chain([summary]).collect()
        }
        Kind::Custom { .. } | Kind::ContextEdit { .. } | Kind::ModelChange { .. } | Kind::Other => Vec::new(),
    }
}
