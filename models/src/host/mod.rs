//! Pi's session: an append-only tree of entries, the branch that is active, and the window the model is shown of it.
//!
//! It does what Pi 1.6 does and decides nothing about folding. Entries are written as Pi writes them, key by key; a boundary takes all
//! drafts or none and then appends them one by one; the window is kept from entry to entry and can be made again from nothing
//! ([`Host::rebuild`]), which must give the same.
//!
//! | where | what |
//! |---|---|
//! | `line` | how a line is written |
//! | `window` | the window, message by message |
//! | `compaction` | Pi's estimate, its threshold, its cut |

mod compaction;
mod ids;
mod line;
mod window;

pub use compaction::{Compaction, KEEP_RECENT, Part, RESERVE, Summarize};
pub use window::{Request, from_scratch};

use crate::provider::usage_json;
use crate::shown::Shown;
use crate::tokens::TokenModel;
use fold_runtime::journal::{Branch, Content, Entry, Kind, Role, Usage};
use fold_runtime::session::Draft;
use ids::Ids;
use line::{iso, quote};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use window::{Tree, Window};

/// An assistant message to append.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// Its blocks, as JSON.
    pub content: &'a str,
    /// `stop`, `toolUse`, `length`, `error` or `aborted`.
    pub stop: &'a str,
    /// What the provider reported.
    pub usage: Usage,
    /// The provider that answered.
    pub provider: &'a str,
    /// The model that answered.
    pub model: &'a str,
    /// Why it failed, if it did.
    pub error: Option<&'a str>,
}

/// A tool result to append.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolResult<'a> {
    /// The call it answers.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// Its blocks, as JSON.
    pub content: &'a str,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// A session as Pi holds it.
#[derive(Clone, Debug)]
pub struct Host {
    number: u32,
    counter: u32,
    /// Ids that are not given to new entries.
    avoided: BTreeSet<Box<str>>,
    now_ms: u64,
    model: TokenModel,
    journal: Vec<Entry>,
    ids: Ids,
    /// How many entries precede each entry of the journal on its branch.
    depth: Vec<usize>,
    branch: Vec<Entry>,
    /// Where each entry of the branch stands in the journal.
    path: Vec<usize>,
    window: Window,
}

impl Host {
    /// An empty session. Its number tells its ids from those of other sessions; below 256 they never meet.
    pub fn new(number: u32, now_ms: u64, model: TokenModel) -> Self {
        Host {
            number,
            counter: 0,
            avoided: BTreeSet::new(),
            now_ms,
            model,
            journal: Vec::new(),
            ids: Ids::default(),
            depth: Vec::new(),
            branch: Vec::new(),
            path: Vec::new(),
            window: Window::default(),
        }
    }

    /// A session reopened from its journal: the leaf is the last entry, as in Pi.
    ///
    /// # Errors
    /// A sentence when an id appears twice, a parent is missing or not before its child; real files may be odd, a session of this model
    /// is not.
    pub fn open(number: u32, now_ms: u64, model: TokenModel, journal: &[Entry]) -> Result<Self, String> {
        let mut host = Host::new(number, now_ms, model);
        for entry in journal {
            host.place(entry)?;
        }
        let at = journal.len().checked_sub(1);
        host.settle(at);
        Ok(host)
    }

    /// The session's id.
    pub fn session_id(&self) -> String {
        format!("00000000-0000-7000-8000-{:012x}", self.number)
    }

    /// Leaves these ids to entries that are adopted later.
    pub fn avoid<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        self.avoided.extend(ids.into_iter().map(Box::from));
    }

    /// Sets the time that the next entries are written at.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The whole journal, in the order of writing.
    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// The active branch, root first.
    pub fn branch(&self) -> &[Entry] {
        &self.branch
    }

    /// The entry at the end of the branch.
    pub fn leaf(&self) -> Option<&Entry> {
        self.branch.last()
    }

    /// An entry of the journal.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.at(id).map(|at| &self.journal[at])
    }

    /// Where an id stands in the journal.
    fn at(&self, id: &str) -> Option<usize> {
        self.ids.get(&self.journal, id)
    }

    /// The position of an entry on the active branch.
    pub fn position(&self, id: &str) -> Option<usize> {
        let at = self.at(id)?;
        let depth = self.depth[at];
        (self.path.get(depth) == Some(&at)).then_some(depth)
    }

    /// The session as a file of Pi's.
    pub fn file(&self) -> String {
        let mut text = format!(r#"{{"type":"session","version":3,"id":"{}","timestamp":"{}","cwd":"/work"}}"#, self.session_id(), iso(0));
        text.push('\n');
        for entry in &self.journal {
            text.push_str(entry.line());
            text.push('\n');
        }
        text
    }

    // ---- appending ------------------------------------------------------------------------------------------------------------------

    /// Appends an entry of any type: fields that stand before `id` and fields after `timestamp`, each as JSON without braces.
    ///
    /// # Panics
    /// If the fields are not JSON.
    pub fn append(&mut self, kind: &str, before: &str, after: &str) -> &Entry {
        let id = self.fresh_id();
        self.write(&id, kind, before, after)
    }

    fn write(&mut self, id: &str, kind: &str, before: &str, after: &str) -> &Entry {
        let comma = |fields: &str| if fields.is_empty() { "" } else { "," };
        let mut line = String::with_capacity(before.len() + after.len() + 128);
        let _ = write!(line, "{{\"type\":\"{kind}\"{}{before},\"id\":\"{id}\",\"parentId\":", comma(before));
        match self.leaf() {
            Some(leaf) => line.push_str(&quote(leaf.id())),
            None => line.push_str("null"),
        }
        let _ = write!(line, ",\"timestamp\":\"{}\"{}", iso(self.now_ms), comma(after));
        line.push_str(after);
        line.push('}');
        let entry = Entry::parse(&line).unwrap_or_else(|error| panic!("the fields of an entry are JSON: {error}: {line}"));
        self.take(&entry).expect("an entry with a fresh id follows the leaf");
        self.branch.last().expect("just appended")
    }

    /// Appends an entry that was written elsewhere, as a replay does. Where it does not follow the leaf, its own branch becomes the active one.
    ///
    /// # Errors
    /// A sentence when its id is taken or its parent is unknown.
    pub fn adopt(&mut self, entry: &Entry) -> Result<(), String> {
        self.take(entry)
    }

    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        let follows = entry.parent() == self.leaf().map(Entry::id);
        let at = self.place(entry)?;
        if follows {
            self.branch.push(entry.clone());
            self.path.push(at);
            let tree = Tree { journal: &self.journal, ids: &self.ids, depth: &self.depth };
            self.window.append(&self.branch, at, tree, &self.model);
        } else {
            self.settle(Some(at));
        }
        Ok(())
    }

    /// Writes a message: fields, then the content, then more fields.
    fn message(&mut self, fields: &str, content: &str, further: &str) -> &Entry {
        let mut after = String::with_capacity(fields.len() + content.len() + further.len() + 64);
        let _ = write!(after, "\"message\":{{{fields}\"content\":");
        after.push_str(content);
        let _ = write!(after, "{further},\"timestamp\":{}}}", self.now_ms);
        let id = self.fresh_id();
        self.write(&id, "message", "", &after)
    }

    /// A person's message; `content` is JSON, a string or blocks.
    pub fn user(&mut self, content: &str) -> &Entry {
        self.message("\"role\":\"user\",", content, "")
    }

    /// An answer of the model.
    pub fn assistant(&mut self, answer: &Answer<'_>) -> &Entry {
        let error = answer.error.map_or(String::new(), |error| format!(",\"errorMessage\":{}", quote(error)));
        let further = format!(
            ",\"api\":\"openai-completions\",\"provider\":{},\"model\":{},\"usage\":{},\"stopReason\":\"{}\"{error}",
            quote(answer.provider),
            quote(answer.model),
            usage_json(&answer.usage),
            answer.stop,
        );
        self.message("\"role\":\"assistant\",", answer.content, &further)
    }

    /// What a tool answered.
    pub fn tool_result(&mut self, result: &ToolResult<'_>) -> &Entry {
        let fields = format!("\"role\":\"toolResult\",\"toolCallId\":{},\"toolName\":{},", quote(result.call_id), quote(result.tool));
        let further = if result.is_error { ",\"isError\":true" } else { ",\"isError\":false" };
        self.message(&fields, result.content, further)
    }

    /// A person's command; an excluded one (`!!`) is kept from the model.
    pub fn bash(&mut self, command: &str, output: &str, exit_code: i32, excluded: bool) -> &Entry {
        let excluded = if excluded { ",\"excludeFromContext\":true" } else { "" };
        let (command, output) = (quote(command), quote(output));
        let now = self.now_ms;
        let message = format!(
            "\"message\":{{\"role\":\"bashExecution\",\"command\":{command},\"output\":{output},\"exitCode\":{exit_code},\"cancelled\":false,\"truncated\":false{excluded},\"timestamp\":{now}}}"
        );
        self.append("message", "", &message)
    }

    /// A system message: its text as JSON, and further fields (`sections`, `toolsAdded`) as JSON without braces.
    pub fn system(&mut self, content: &str, further: &str) -> &Entry {
        let comma = if further.is_empty() { "" } else { "," };
        self.message("\"role\":\"system\",", content, &format!("{comma}{further}"))
    }

    /// State of an extension; `data` is JSON.
    pub fn custom(&mut self, custom_type: &str, data: &str) -> &Entry {
        self.append("custom", &format!("\"customType\":{},\"data\":{data}", quote(custom_type)), "")
    }

    /// A message of an extension; `content` is JSON.
    pub fn custom_message(&mut self, custom_type: &str, content: &str) -> &Entry {
        self.append("custom_message", &format!("\"customType\":{},\"content\":{content},\"display\":true", quote(custom_type)), "")
    }

    /// Another model from here on.
    pub fn model_change(&mut self, provider: &str, model: &str) -> &Entry {
        self.append("model_change", "", &format!("\"provider\":{},\"modelId\":{}", quote(provider), quote(model)))
    }

    /// A summary of the branch that was left at `from`.
    pub fn branch_summary(&mut self, from: &str, summary: &str) -> &Entry {
        self.append("branch_summary", "", &format!("\"fromId\":{},\"summary\":{}", quote(from), quote(summary)))
    }

    /// A compaction that keeps the branch from `first_kept` on, or nothing (`None`).
    pub fn compaction(&mut self, summary: &str, first_kept: Option<&str>) -> &Entry {
        let id = self.fresh_id();
        let tokens_before = self.estimate();
        let system = compaction::current_system(&self.window.shown, self.now_ms).map_or(String::new(), |json| format!(",\"systemMessage\":{json}"));
        let fields = format!(
            "\"summary\":{},\"firstKeptEntryId\":{},\"tokensBefore\":{tokens_before}{system}",
            quote(summary),
            quote(first_kept.unwrap_or(&id))
        );
        self.write(&id, "compaction", "", &fields)
    }

    fn fresh_id(&mut self) -> String {
        loop {
            self.counter += 1;
            let id = format!("{:08x}", self.number << 24 ^ self.counter);
            if self.at(&id).is_none() && !self.avoided.contains(id.as_str()) {
                return id;
            }
        }
    }

    // ---- boundaries -----------------------------------------------------------------------------------------------------------------

    /// Appends what an extension returned at a turn's end: all of it, one entry after the other, or nothing.
    ///
    /// # Errors
    /// Pi's sentence about the first invalid draft.
    pub fn boundary(&mut self, drafts: &[Draft]) -> Result<Vec<Entry>, String> {
        for draft in drafts {
            self.check(draft).map_err(|why| format!("Invalid boundary entries: {why}"))?;
        }
        Ok(drafts.iter().map(|draft| self.put(draft).clone()).collect())
    }

    /// Whether Pi would take this draft alone.
    fn check(&self, draft: &Draft) -> Result<(), String> {
        let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        match draft {
            Draft::Custom { data, .. } if is_json(data) => Ok(()),
            Draft::Custom { custom_type, .. } => Err(format!("the data of a {custom_type} entry is no JSON")),
            Draft::CustomMessage { content, .. } if content.starts_with(['[', '"']) && is_json(content) => Ok(()),
            Draft::CustomMessage { custom_type, .. } => Err(format!("the content of a {custom_type} message is no text and no list of blocks")),
            Draft::ContextEdit { target, replacement } => {
                if replacement.as_ref().is_some_and(|content| !content.starts_with(['[', '"']) || !is_json(content)) {
                    return Err("Context edit replacement must be null or contain string/array content".to_owned());
                }
                let entry = self.entry(target).ok_or_else(|| format!("Entry {target} not found"))?;
                if self.position(target).is_none() {
                    return Err(format!("Entry {target} is not on the active branch"));
                }
                if !editable(entry) {
                    return Err(format!("Entry {target} does not contribute editable model content"));
                }
                Ok(())
            }
        }
    }

    fn put(&mut self, draft: &Draft) -> &Entry {
        match draft {
            Draft::Custom { custom_type, data } => self.custom(custom_type, data),
            Draft::CustomMessage { custom_type, content } => self.custom_message(custom_type, content),
            Draft::ContextEdit { target, replacement } => {
                let block = replacement.as_ref().is_some_and(|text| text.starts_with('"')) && self.entry(target).is_some_and(speaks_in_blocks);
                let (open, close) = if block { ("[{\"type\":\"text\",\"text\":", "}]") } else { ("", "") };
                let mut after = format!("\"targetId\":{},\"replacement\":", quote(target));
                match replacement {
                    None => after.push_str("null"),
                    Some(content) => {
                        after.extend(["{\"content\":", open, content, close, "}"]);
                    }
                }
                let id = self.fresh_id();
                self.write(&id, "context_edit", "", &after)
            }
        }
    }

    /// Omits a failed attempt and the results of its calls, as Pi does before it compacts and tries again.
    ///
    /// # Errors
    /// A sentence when there is no such entry on the branch, or it is no answer.
    pub fn omit_attempt(&mut self, id: &str) -> Result<Vec<Entry>, String> {
        let at = self.position(id).ok_or_else(|| format!("Entry {id} is not on the active branch"))?;
        if !matches!(self.branch[at].kind(), Kind::Message(Role::Assistant(_))) {
            return Err(format!("Entry {id} is no answer"));
        }
        let calls: Vec<_> = self.branch[at].content().blocks().iter().filter_map(|block| Some(block.call()?.0)).collect();
        let later = self.branch[at + 1..].iter().take_while(|entry| !matches!(entry.kind(), Kind::Message(Role::Assistant(_))));
        let results = later.filter(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { call_id, .. }) if calls.contains(call_id)));
        let targets: Vec<String> = std::iter::once(id).chain(results.map(Entry::id)).map(str::to_owned).collect();
        let drafts: Vec<Draft> = targets.into_iter().map(|target| Draft::ContextEdit { target, replacement: None }).collect();
        self.boundary(&drafts)
    }

    // ---- the tree -------------------------------------------------------------------------------------------------------------------

    /// A new session that holds the branch up to and including an entry. Entries are shared; the new session writes its own from there.
    ///
    /// # Errors
    /// A sentence when the entry is not on the branch.
    pub fn fork(&self, at: &str, number: u32) -> Result<Host, String> {
        let position = self.position(at).ok_or_else(|| format!("Entry {at} is not on the active branch"))?;
        let mut fork = Host::new(number, self.now_ms, self.model.clone());
        for entry in &self.branch[..=position] {
            fork.place(entry).expect("a branch has no two entries of one id");
        }
        fork.window.lend(&self.window, &self.path[..=position]);
        fork.settle(Some(position));
        Ok(fork)
    }

    /// Goes elsewhere in the tree, as `/tree` does: before a message of a person or an extension, to speak again, and onto any other entry.
    ///
    /// # Errors
    /// A sentence when there is no such entry.
    pub fn tree(&mut self, to: &str) -> Result<(), String> {
        let at = self.at(to).ok_or_else(|| format!("Entry {to} not found"))?;
        let entry = &self.journal[at];
        if matches!(entry.kind(), Kind::Message(Role::User) | Kind::CustomMessage) {
            let parent = entry.parent().and_then(|parent| self.at(parent));
            self.settle(parent);
        } else {
            self.settle(Some(at));
        }
        Ok(())
    }

    /// Puts an entry into the journal and into no branch.
    fn place(&mut self, entry: &Entry) -> Result<usize, String> {
        let depth = match entry.parent() {
            None => 0,
            // Almost always.
            parent if parent == self.leaf().map(Entry::id) => self.branch.len(),
            Some(parent) => 1 + self.at(parent).map(|at| self.depth[at]).ok_or_else(|| format!("Entry {parent} not found"))?,
        };
        let at = self.journal.len();
        if self.at(entry.id()).is_some() {
            return Err(format!("Entry {} exists already", entry.id()));
        }
        self.journal.push(entry.clone());
        self.ids.push(&self.journal);
        self.depth.push(depth);
        Ok(at)
    }

    /// Makes the branch that ends at an entry of the journal the active one.
    fn settle(&mut self, leaf: Option<usize>) {
        self.path.clear();
        let mut next = leaf;
        while let Some(at) = next {
            self.path.push(at);
            next = self.journal[at].parent().and_then(|parent| self.at(parent));
        }
        self.path.reverse();
        self.branch = self.path.iter().map(|at| self.journal[*at].clone()).collect();
        self.window.remake(&self.branch, Tree { journal: &self.journal, ids: &self.ids, depth: &self.depth }, &self.model);
    }

    // ---- the window -----------------------------------------------------------------------------------------------------------------

    /// What the model would be shown now.
    pub fn window(&self) -> &[Arc<Shown>] {
        &self.window.shown
    }

    /// The same, made from the journal, what an extension shows over it, and nothing else.
    pub fn rebuild(&self) -> Vec<Arc<Shown>> {
        let branch = Branch::to(&self.journal, self.leaf().map(Entry::id));
        let over = self.window.overlay().map(|(at, edit)| edit.cloned().unwrap_or_else(|| over(self.branch[at].id(), None)));
        window::from_scratch(&branch.entries.iter().cloned().chain(over).collect::<Vec<_>>(), &self.model)
    }

    /// Shows contents over the branch in every request from here on, as an extension does that rewrites a request before it leaves: target
    /// and content as JSON, `None` omits. What was shown over it before, and is not named, is as the branch has it again.
    ///
    /// # Errors
    /// A sentence when a target is not on the active branch or cannot be edited, or a content is no JSON.
    pub fn lay_over<'a>(&mut self, overlay: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<(), String> {
        let mut by_position = BTreeMap::new();
        for (target, content) in overlay {
            let at = self.position(target).ok_or_else(|| format!("Entry {target} is not on the active branch"))?;
            if !editable(&self.branch[at]) {
                return Err(format!("Entry {target} does not contribute editable model content"));
            }
            if content.is_some_and(|content| serde_json::from_str::<serde::de::IgnoredAny>(content).is_err()) {
                return Err(format!("what is shown over entry {target} is no JSON"));
            }
            by_position.insert(at, content.map(|content| over(target, Some(content))));
        }
        if !by_position.is_empty() || self.window.overlay().next().is_some() {
            self.window.lay_over(&self.branch, &self.journal, by_position, &self.model);
        }
        Ok(())
    }

    /// Whether an entry of the branch is in context, shown or omitted: an edit of it would be seen.
    pub fn in_context(&self, id: &str) -> bool {
        self.position(id).is_some_and(|at| self.window.holds(&self.branch, at))
    }

    /// The first message that differs from the window of the last request.
    pub fn first_change(&self) -> usize {
        self.window.first_change()
    }

    /// The window of the last request.
    pub fn last_request(&self) -> &[Arc<Shown>] {
        &self.window.previous
    }

    /// A request leaves: says what changed since the last one and remembers this window. After appends alone it costs what was appended.
    pub fn request(&mut self) -> Request {
        self.window.request()
    }

    /// True tokens of the messages, without overhead and without results that pi-ai makes up.
    pub fn message_tokens(&self) -> u64 {
        self.window.tokens
    }

    /// The count this session's messages are counted by.
    pub fn token_model(&self) -> &TokenModel {
        &self.model
    }
}

/// An edit that stands in no journal.
fn over(target: &str, content: Option<&str>) -> Entry {
    let replacement = content.map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
    let line = format!("{{\"type\":\"context_edit\",\"id\":\"over\",\"targetId\":{},\"replacement\":{replacement}}}", quote(target));
    Entry::parse(&line).expect("an edit is an entry")
}

/// Whether Pi takes an edit of an entry.
fn editable(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::CustomMessage | Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. }))
}

/// Whether Pi turns a string that replaces its content into a block.
fn speaks_in_blocks(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }))
}

/// The text of a content, blocks joined by nothing.
fn plain_text(content: Content<'_>) -> String {
    match content.string() {
        Some(text) => text.to_string_lossy(),
        None => content.blocks().iter().filter_map(|block| Some(block.text()?.to_string_lossy())).collect(),
    }
}

#[cfg(test)]
mod tests;
