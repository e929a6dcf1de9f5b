//! `cargo xtask inspect`: reads session files as Pi does and says what a model would see of them.

use fold_runtime::config::Settings;
use fold_runtime::journal::{Branch, Journal};
use fold_runtime::session::Session;
use fold_runtime::window::{Rate, Size, projection};
use fold_sim::screen::{Json, line};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is known of one file.
#[derive(Serialize)]
struct Report {
    file: String,
    version: u64,
    entries: usize,
    branch_entries: usize,
    messages: BTreeMap<String, usize>,
    bytes: u64,
    images: u64,
    /// At four bytes a token and 1,200 tokens an image.
    estimated_tokens: u64,
    skipped: Vec<String>,
    problems: Vec<String>,
    uncounted: Vec<Uncounted>,
}

/// A fold record that the runtime does not count.
#[derive(Serialize)]
struct Uncounted {
    entry: String,
    why: &'static str,
}

pub fn run(files: &[PathBuf], json: Option<&Path>) -> Result<(), String> {
    let json = Json::at(json, files)?;
    let (mut reports, mut refused) = (Vec::new(), Vec::new());
    let (files, unread) = fold_sim::saving::files(files);
    refused.extend(unread);
    for file in &files {
        match inspect(file) {
            Ok(report) => {
                print(&report)?;
                reports.push(report);
            }
            Err(reason) => refused.push(reason),
        }
    }
    json.write(&serde_json::json!({ "schema": 1, "files": reports, "refused": refused }))?;
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\n")) }
}

fn inspect(file: &Path) -> Result<Report, String> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{name} could not be read: {error}"))?;
    let journal = Journal::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
    let branch = Branch::of(&journal.entries);
    let window = projection(&branch.entries);
    let mut messages = BTreeMap::new();
    for message in window.iter().flat_map(|projected| &projected.messages) {
        *messages.entry(message.role.clone()).or_insert(0) += 1;
    }
    // Whether a record counts is no matter of settings or model.
    let session = Session::open(&branch.entries, &Settings::default(), 272_000)?;
    let size: Size = window.iter().map(Size::of).sum();
    Ok(Report {
        file: name,
        version: journal.version,
        entries: journal.entries.len(),
        branch_entries: branch.entries.len(),
        messages,
        bytes: size.bytes,
        images: size.images,
        estimated_tokens: Rate::UNMEASURED.tokens_at_most(size.bytes) + size.images * fold_runtime::window::IMAGE_TOKENS,
        skipped: journal.skipped.iter().map(|skipped| format!("line {}: {}", skipped.line, skipped.why)).collect(),
        problems: branch.problems.iter().map(fold_sim::replay::describe).collect(),
        uncounted: session.uncounted().map(|(entry, why)| Uncounted { entry: entry.to_owned(), why }).collect(),
    })
}

fn print(report: &Report) -> Result<(), String> {
    line(&report.file)?;
    line(&format!("  session version {}, {} entries, {} on the active branch", report.version, report.entries, report.branch_entries))?;
    let messages: Vec<_> = report.messages.iter().map(|(role, count)| format!("{count} {role}")).collect();
    line(&format!("  messages: {}", if messages.is_empty() { "none".to_owned() } else { messages.join(", ") }))?;
    line(&format!(
        "  window: {} bytes of text, {} images, about {} tokens if each has 4 bytes (replay measures what they have)",
        report.bytes, report.images, report.estimated_tokens
    ))?;
    for skipped in &report.skipped {
        line(&format!("  {skipped}"))?;
    }
    for problem in &report.problems {
        line(&format!("  {problem}"))?;
    }
    for Uncounted { entry, why } in &report.uncounted {
        line(&format!("  the fold record {entry} does not count, and its edits stand as anybody's: {why}"))?;
    }
    Ok(())
}
