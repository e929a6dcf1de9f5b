//! `cargo xtask replay`: re-issues a recorded session entry by entry, folds it, and checks what comes out.
//!
//! The recorded messages of the final branch are the conversation; recorded compactions and edits are set aside. The world is small:
//! four bytes a token and no overhead, a boundary after every complete turn. Checked at every commit: the window changes nowhere before the
//! earliest target, every prefix of the drafts keeps calls and results paired, every fold gives back its exact entries, and a reopened
//! session decides the same.

use fold_runtime::config::Settings;
use fold_runtime::journal::{BlockKind, Branch, Entry, Journal, Kind, Role};
use fold_runtime::session::{Commit, Decision, Draft, Session};
use fold_runtime::window::{IMAGE_TOKENS, Rate, Size, projection};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Report {
    file: String,
    budget: u64,
    entries: usize,
    requests: usize,
    commits: usize,
    folds: usize,
    folds_recovered: usize,
    peak_tokens: u64,
    final_tokens: u64,
    unfolded_tokens: u64,
    /// Why the replay ended before the file did, if it did.
    stopped: Option<String>,
    /// What was odd about the file, with line numbers.
    notices: Vec<String>,
    violations: Vec<Violation>,
}

#[derive(Serialize)]
struct Violation {
    invariant: &'static str,
    entry: usize,
    seen: String,
}

/// Whether every file came through without a violation.
pub fn run(files: &[PathBuf], budget: u64, json: Option<&Path>) -> Result<bool, String> {
    let (mut reports, mut refused) = (Vec::new(), Vec::new());
    crate::screen::line(&format!(
        "{:<40} {:>8} {:>8} {:>8} {:>6} {:>9} {:>9} {:>9}",
        "file", "entries", "requests", "commits", "folds", "peak", "final", "unfolded"
    ))?;
    for file in files {
        let report = match replay(file, budget) {
            Ok(report) => report,
            Err(reason) => {
                refused.push(reason);
                continue;
            }
        };
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        crate::screen::line(&format!(
            "{:<40} {:>8} {:>8} {:>8} {:>6} {:>9} {:>9} {:>9}",
            name, report.entries, report.requests, report.commits, report.folds, report.peak_tokens, report.final_tokens, report.unfolded_tokens
        ))?;
        for notice in &report.notices {
            crate::screen::line(&format!("  {notice}"))?;
        }
        if let Some(reason) = &report.stopped {
            crate::screen::line(&format!("  stopped: {reason}"))?;
        }
        for violation in &report.violations {
            crate::screen::line(&format!("  VIOLATION of {} at entry {}: {}", violation.invariant, violation.entry, violation.seen))?;
        }
        reports.push(report);
    }
    crate::screen::report(json, &serde_json::json!({ "schema": 1, "files": reports, "refused": refused }))?;
    let clean = reports.iter().all(|report| report.violations.is_empty());
    // A violation outweighs a file that could not be read, which is said all the same.
    if !clean {
        refused.iter().for_each(|reason| eprintln!("error: {reason}"));
    }
    if clean && !refused.is_empty() { Err(refused.join("\n")) } else { Ok(clean) }
}

fn replay(file: &Path, budget: u64) -> Result<Report, String> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{name} could not be read: {error}"))?;
    let journal = Journal::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
    let Branch { entries: branch, problems } = Branch::of(&journal.entries);
    let skipped = journal.skipped.iter().map(|skipped| format!("line {}: {}", skipped.line, skipped.why));
    let notices = skipped.chain(problems.iter().map(crate::inspect::describe)).collect();
    let conversation: Vec<Entry> =
        branch.into_iter().filter(|entry| !matches!(entry.kind(), Kind::Compaction { .. } | Kind::ContextEdit { .. })).collect();
    if !conversation.iter().any(|entry| matches!(entry.kind(), Kind::Message(_))) {
        return Err(format!("{name} holds no message to replay"));
    }
    let mut world = World::new(budget)?;
    let unfolded = tokens(projection(&conversation).iter().map(Size::of).sum());
    for (index, entry) in conversation.iter().enumerate() {
        let answer = matches!(entry.kind(), Kind::Message(Role::Assistant(_)));
        if answer && !world.request() {
            break;
        }
        world.append(if answer { world.with_usage(entry)? } else { entry.clone() });
        let turn_ends = conversation.get(index + 1).is_none_or(|next| !matches!(next.kind(), Kind::Message(Role::ToolResult { .. })));
        let in_turn = matches!(entry.kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }));
        if turn_ends && in_turn {
            world.boundary()?;
        }
    }
    let folds_recovered = world.session.folds().filter(|(id, _)| world.session.recover(id, None).is_ok()).count();
    Ok(Report {
        file: name,
        budget,
        entries: conversation.len(),
        requests: world.requests,
        commits: world.commits,
        folds: world.session.folds().count(),
        folds_recovered,
        peak_tokens: world.peak,
        final_tokens: tokens(world.window),
        unfolded_tokens: unfolded,
        stopped: world.stopped,
        notices,
        violations: world.violations,
    })
}

/// The host, the provider and the checks around one session.
struct World {
    budget: u64,
    session: Session,
    branch: Vec<Entry>,
    window: Size,
    requests: usize,
    commits: usize,
    drafted: usize,
    peak: u64,
    stopped: Option<String>,
    violations: Vec<Violation>,
}

impl World {
    fn new(budget: u64) -> Result<Self, String> {
        let session = Session::open(&[], &Settings::default(), budget)?;
        let (branch, violations) = (Vec::new(), Vec::new());
        Ok(World { budget, session, branch, window: Size::default(), requests: 0, commits: 0, drafted: 0, peak: 0, stopped: None, violations })
    }

    fn append(&mut self, entry: Entry) {
        self.window = self.window + Size::of_original(&entry);
        self.session.observe(&entry);
        self.branch.push(entry);
    }

    /// Sends the window; `false` when it does not fit, which ends the replay with a reason.
    fn request(&mut self) -> bool {
        let sent = tokens(self.window);
        if sent > self.budget {
            let largest = self.branch.iter().map(|entry| (Size::of_original(entry).weight(), entry.id())).max().unwrap_or_default();
            self.stopped = Some(format!(
                "request {} would hold {sent} of {} tokens and nothing that is ripe can be folded; the largest entry is {} with {} bytes. A larger --budget replays further",
                self.requests + 1,
                self.budget,
                largest.1,
                largest.0
            ));
            return false;
        }
        self.requests += 1;
        self.peak = self.peak.max(sent);
        true
    }

    /// The recorded answer with the usage this world measures.
    fn with_usage(&self, entry: &Entry) -> Result<Entry, String> {
        let Some(recorded) = entry.message_field("usage") else { return Ok(entry.clone()) };
        let (input, output) = (tokens(self.window), tokens(Size::of_original(entry)));
        let measured = format!("{{\"input\":{input},\"output\":{output},\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":{}}}", input + output);
        let start = recorded.as_ptr().addr() - entry.line().as_ptr().addr();
        let mut line = entry.line().to_owned();
        line.replace_range(start..start + recorded.len(), &measured);
        if line.contains("\"id\"") && Entry::parse(&line).is_ok_and(|again| again.id() == entry.id()) {
            return Entry::parse(&line).map_err(|error| error.to_string());
        }
        // Version 1 has no id in the line: give it the one it goes by.
        let line = line.replacen('{', &format!("{{\"id\":\"{}\",", entry.id()), 1);
        Entry::parse(&line).map_err(|error| format!("entry {} with a measured usage: {error}", entry.id()))
    }

    fn boundary(&mut self) -> Result<(), String> {
        let decision = self.session.boundary();
        let reopened = Session::open(&self.branch, &Settings::default(), self.budget)?;
        if matches!(decision, Decision::Commit(_)) && reopened.boundary() != decision {
            self.violation("resume", "a reopened session decides otherwise".into());
        }
        match decision {
            Decision::Commit(commit) => self.carry_out(&commit),
            Decision::Quiet | Decision::Deferred(_) => Ok(()),
        }
    }

    fn carry_out(&mut self, commit: &Commit) -> Result<(), String> {
        self.commits += 1;
        let folds_before = self.session.folds().count();
        let before = shown(&self.branch);
        let paired_before = unpaired(&self.branch);
        for draft in &commit.drafts {
            let entry = self.draft(draft)?;
            self.session.observe(&entry);
            self.branch.push(entry);
            if unpaired(&self.branch).0.difference(&paired_before.0).next().is_some() {
                self.violation("pairing", format!("after {draft:?} a result stands without its call"));
            }
        }
        if unpaired(&self.branch).1.difference(&paired_before.1).next().is_some() {
            self.violation("pairing", "a call stands without its result after the commit".into());
        }
        let after = shown(&self.branch);
        let targets: BTreeSet<&str> = commit
            .drafts
            .iter()
            .filter_map(|draft| if let Draft::ContextEdit { target, .. } = draft { Some(target.as_str()) } else { None })
            .collect();
        let untouched = before.iter().take_while(|(id, _)| !targets.contains(id.as_str())).count();
        if after.get(..untouched) != Some(&before[..untouched]) {
            self.violation("append_only", "bytes before the earliest target changed".into());
        }
        if before.iter().any(|(id, content)| !targets.contains(id.as_str()) && !after.contains(&(id.clone(), content.clone()))) {
            self.violation("attributed", "an entry changed that the commit does not name".into());
        }
        self.window = projection(&self.branch).iter().map(Size::of).sum();
        let made = self.session.folds().count() - folds_before;
        if made != commit.folds {
            self.violation("lossless", format!("the commit wrote {} folds and its record gives back {made}", commit.folds));
        }
        self.check_folds();
        Ok(())
    }

    fn check_folds(&mut self) {
        let originals: BTreeMap<&str, &str> = self.branch.iter().map(|entry| (entry.id(), entry.line())).collect();
        let mut found = Vec::new();
        for (id, _) in self.session.folds() {
            match self.session.recover(id, None) {
                Err(error) => found.push(("lossless", error.to_string())),
                Ok(entries) => {
                    for original in entries {
                        if originals.get(original.id.as_str()) != Some(&original.line.as_str()) {
                            found.push(("lossless", format!("fold {id} gives back other bytes for {}", original.id)));
                        }
                    }
                }
            }
        }
        for (invariant, seen) in found {
            self.violation(invariant, seen);
        }
    }

    fn draft(&mut self, draft: &Draft) -> Result<Entry, String> {
        self.drafted += 1;
        let id = format!("pf{}", self.drafted);
        let line = match draft {
            Draft::Custom { custom_type, data } => format!(r#"{{"type":"custom","id":"{id}","customType":"{custom_type}","data":{data}}}"#),
            Draft::ContextEdit { target, replacement } => {
                let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
                format!(
                    r#"{{"type":"context_edit","id":"{id}","targetId":{},"replacement":{replacement}}}"#,
                    serde_json::Value::from(target.as_str())
                )
            }
        };
        Entry::parse(&line).map_err(|error| format!("a draft of ours is no entry: {error}"))
    }

    fn violation(&mut self, invariant: &'static str, seen: String) {
        self.violations.push(Violation { invariant, entry: self.branch.len(), seen });
    }
}

fn tokens(size: Size) -> u64 {
    Rate::UNMEASURED.tokens_at_most(size.bytes) + size.images * IMAGE_TOKENS
}

/// The window as (entry, content) pairs.
fn shown(branch: &[Entry]) -> Vec<(String, String)> {
    let window = projection(branch);
    window
        .iter()
        .flat_map(|projected| projected.messages.iter().map(|message| (projected.source.id().to_owned(), format!("{:?}", message.content))))
        .collect()
}

/// Results shown without their call, and calls shown without their result.
fn unpaired(branch: &[Entry]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut open, mut orphans) = (BTreeMap::new(), BTreeSet::new());
    for projected in projection(branch).iter().filter(|projected| !projected.messages.is_empty()) {
        match projected.source.kind() {
            Kind::Message(Role::Assistant(_)) => {
                let blocks = projected.source.content().blocks();
                let calls = blocks.iter().filter(|block| block.kind == BlockKind::ToolCall).filter_map(|block| block.call());
                open.extend(calls.map(|(id, _, _)| (id.to_string_lossy(), projected.source.id().to_owned())));
            }
            Kind::Message(Role::ToolResult { call_id, .. }) if open.remove(&call_id.to_string_lossy()).is_none() => {
                orphans.insert(projected.source.id().to_owned());
            }
            _ => {}
        }
    }
    (orphans, open.into_values().collect())
}
