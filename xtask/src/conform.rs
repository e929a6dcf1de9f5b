//! `cargo xtask conform`: what the tests in a real Pi compare with. It is no command for people, and help does not show it.
//!
//! Both parts write a JSON array a line to standard output. Contents stay the JSON text they are, so that nothing is lost that no reader
//! in Rust could hold, an unpaired surrogate for one.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_models::shown::{Role, Shown};
use fold_runtime::journal::{Branch, Entry, Journal};
use fold_runtime::window::{Message, MessageContent, projection};
use fold_sim::sent::{Sent, record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(clap::Subcommand)]
pub enum Command {
    /// What we show of every session file of a folder, by name: `[name, [[line, role, form, content], ...]]`. Lines are counted from 0.
    Project {
        /// The folder.
        folder: PathBuf,
    },
    /// Simulated sessions, request by request: `[seed, facts, [entry, ...], [[id, role, form, content], ...]]`; the entries were written since
    /// the request before, the messages follow those of the request before that still stand.
    Record {
        /// The seeds to run, `A..B` without B.
        #[arg(long, value_parser = crate::sim::range)]
        seeds: Range<u64>,
        /// What the sessions are like.
        #[arg(long, default_value = "swarm")]
        profile: Profile,
        /// The arm.
        #[arg(long, default_value = "fold")]
        arm: Arm,
    },
}

pub fn run(command: &Command) -> Result<(), String> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    match command {
        Command::Project { folder } => project(folder, &mut out)?,
        Command::Record { seeds, profile, arm } => {
            for seed in seeds.clone() {
                let sent = record(&draw(*profile, seed), *arm).map_err(|why| format!("seed {seed}: {why}"))?;
                sent.iter().try_for_each(|sent| put(&mut out, &request(seed, sent)))?;
            }
        }
    }
    out.flush().map_err(|error| unwritten(&error))
}

fn project(folder: &Path, out: &mut impl Write) -> Result<(), String> {
    let unread = |path: &Path, error: std::io::Error| format!("{} could not be read: {error}", path.display());
    let files = std::fs::read_dir(folder).map_err(|error| unread(folder, error))?;
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|error| unread(&file, error))?;
        let journal = Journal::read(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        // Where two entries have one id, the later one stands.
        let lines: BTreeMap<&str, usize> = journal.entries.iter().map(Entry::id).zip(journal.lines.iter().copied()).collect();
        let branch = Branch::of(&journal.entries);
        let window = projection(&branch.entries);
        let messages = window.iter().flat_map(|projected| projected.messages.iter().map(|message| (projected.source.id(), message)));
        let messages: Vec<String> = messages.map(|(id, message)| projected(lines[id] - 1, message)).collect();
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        put(out, &format!("[{},[{}]]", Value::from(name), messages.join(",")))?;
    }
    Ok(())
}

fn projected(line: usize, message: &Message<'_>) -> String {
    let (form, raw) = match message.content {
        MessageContent::Content(content) => ("content", content.raw()),
        MessageContent::TextBlock(content) => ("text", content.raw()),
        MessageContent::Summary(raw) => ("summary", raw),
        MessageContent::Bash(raw) | MessageContent::System(raw) => ("whole", raw),
    };
    format!("[{line},{},\"{form}\",{raw}]", Value::from(message.role.as_str()))
}

fn request(seed: u64, sent: &Sent) -> String {
    let facts = json!({
        "session": sent.session,
        "leaf": sent.leaf,
        "settings": sent.settings,
        "window": sent.window,
        "from": sent.from,
        "estimate": sent.estimate,
        "reserve": sent.reserve,
        "compacts": sent.compacts,
        "keep": sent.keep,
        "cut": sent.cut.as_ref().map(|cut| json!([cut.first_kept, cut.history, cut.turn_prefix])),
    });
    let entries: Vec<String> = sent.written.iter().map(|entry| Value::from(entry.line()).to_string()).collect();
    let messages: Vec<String> = sent.messages.iter().map(|shown| message(shown)).collect();
    format!("[{seed},{facts},[{}],[{}]]", entries.join(","), messages.join(","))
}

fn message(shown: &Shown) -> String {
    let raw = shown.content();
    let (role, form) = match shown.role {
        // A compaction holds the whole of the prompt it carries on, an entry of its own only the content.
        Role::System if raw.starts_with('{') => ("system", "whole"),
        Role::System => ("system", "content"),
        Role::User => ("user", "content"),
        Role::Assistant => ("assistant", "content"),
        Role::ToolResult => ("toolResult", "content"),
        Role::Custom => ("custom", "content"),
        Role::BashExecution => ("bashExecution", "whole"),
        Role::BranchSummary => ("branchSummary", "summary"),
        Role::CompactionSummary => ("compactionSummary", "summary"),
        Role::Other => ("other", "content"),
    };
    let block = shown.facts.edited && matches!(shown.role, Role::Assistant | Role::ToolResult) && raw.starts_with('"');
    format!("[{},\"{role}\",\"{}\",{raw}]", Value::from(shown.source.id()), if block { "text" } else { form })
}

fn put(out: &mut impl Write, line: &str) -> Result<(), String> {
    writeln!(out, "{line}").map_err(|error| unwritten(&error))
}

fn unwritten(error: &std::io::Error) -> String {
    format!("standard output could not be written: {error}")
}
