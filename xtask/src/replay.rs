//! `cargo xtask replay`: recorded sessions through every arm, the same table, the same checks.

use crate::screen::{Json, line, timed};
use crate::table;
use fold_invariants::owed::Arm;
use fold_sim::replay::Recording;
use fold_sim::run::{Found, Summary};
use fold_sim::world;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Arguments {
    /// Session files of the Pi coding agent.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The context window and budget, in tokens.
    #[arg(long, default_value_t = 60_000, value_parser = tokens)]
    budget: u64,
    /// Which arms, separated by commas: fold, none, native.
    #[arg(long, value_delimiter = ',', default_value = "fold,none,native")]
    arm: Vec<Arm>,
    /// An agent tends the window on the way: it peeks at every tenth fold, pins, expands, briefs and re-cuts; the session is forked in the middle and
    /// opened again every fifty entries.
    #[arg(long)]
    busy: bool,
    /// Also write what the screen shows as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn tokens(text: &str) -> Result<u64, String> {
    let tokens = text.parse().ok().filter(|tokens| *tokens >= 10_000);
    tokens.ok_or_else(|| "give a whole number of tokens, such as 60000; folding needs at least 10000".to_owned())
}

/// Oddities of a file that the screen shows.
const NOTICES: usize = 8;

/// A file that was replayed.
struct Replayed {
    name: String,
    recording: Recording,
    summary: Summary,
    busy: bool,
    /// Why an arm ended before the file did.
    stopped: BTreeMap<&'static str, String>,
}

/// Whether every file came through without a violation.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut arms = arguments.arm.clone();
    arms.sort_unstable();
    arms.dedup();
    let json = Json::at(arguments.json.as_deref(), &arguments.files)?;
    let (mut replayed, mut refused) = (Vec::new(), Vec::new());
    let (seconds, printed) = timed(|| -> Result<(), String> {
        for file in &arguments.files {
            match replay(file, arguments.budget, &arms, arguments.busy) {
                Ok(one) => {
                    print(&one, arguments.budget)?;
                    replayed.push(one);
                }
                Err(why) => refused.push(why),
            }
        }
        Ok(())
    });
    printed?;
    let found: usize = replayed.iter().map(|one| one.summary.found.len()).sum();
    if replayed.len() > 1 {
        line(&format!("all {} files:", replayed.len()))?;
        for text in table::arms(&sums(&replayed).arms).lines() {
            line(text)?;
        }
    }
    line(&format!("violations: {found}"))?;
    json.write(&as_json(&replayed, &refused, arguments, seconds))?;
    let clean = replayed.iter().all(|one| one.summary.found.is_empty());
    // A violation outweighs a file that could not be read, which is said all the same.
    if !clean {
        refused.iter().for_each(|reason| eprintln!("error: {reason}"));
    }
    if clean && !refused.is_empty() { Err(refused.join("\n")) } else { Ok(clean) }
}

fn replay(file: &Path, budget: u64, arms: &[Arm], busy: bool) -> Result<Replayed, String> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{name} could not be read: {error}"))?;
    let recording = Recording::read(&bytes).map_err(|why| format!("{name}: {why}"))?;
    let (mut runs, mut stopped) = (Vec::new(), BTreeMap::new());
    for &arm in arms {
        let (run, explained) = world::replay(&recording, budget, arm, busy).map_err(|why| format!("{name}: {why}"))?;
        stopped.extend(explained.map(|why| (arm.name(), why)));
        runs.push(run);
    }
    let mut summary = Summary::default();
    summary.add(0, runs);
    Ok(Replayed { name, recording, summary, busy, stopped })
}

fn print(one: &Replayed, budget: u64) -> Result<(), String> {
    let density = one.recording.milli_bytes_per_token;
    let source = if one.recording.calibrated { "from the recorded usage" } else { "assumed, the recorded usage says nothing" };
    line(&format!(
        "{}: {} entries, budget {} tokens, {} bytes a token ({source})",
        one.name,
        one.recording.entries.len(),
        table::thousands(budget),
        table::fixed(density, 3, 2)
    ))?;
    for notice in one.recording.notices.iter().take(NOTICES) {
        line(&format!("  {notice}"))?;
    }
    if one.recording.notices.len() > NOTICES {
        line(&format!("  … and {} more such oddities, all survived; --json has them", one.recording.notices.len() - NOTICES))?;
    }
    for text in table::arms(&one.summary.arms).lines() {
        line(text)?;
    }
    for (arm, why) in &one.stopped {
        line(&format!("  {arm} stopped: {why}"))?;
    }
    for found in &one.summary.found {
        let violation = &found.violation;
        line(&format!("VIOLATION of {} by {}, entry {}", violation.invariant, violation.arm, violation.step))?;
        line(&format!("  expected: {}", violation.expected))?;
        line(&format!("  seen:     {}", violation.seen))?;
        line(&format!("  again:    {}", reproduce(one, budget, found)))?;
    }
    Ok(())
}

fn reproduce(one: &Replayed, budget: u64, found: &Found) -> String {
    let busy = if one.busy { " --busy" } else { "" };
    format!("cargo xtask replay {} --budget {budget} --arm {}{busy}", one.name, found.violation.arm)
}

/// All files together.
fn sums(replayed: &[Replayed]) -> Summary {
    let mut sums = Summary::default();
    replayed.iter().enumerate().for_each(|(index, one)| sums.absorb(index as u64, &one.summary));
    sums
}

/// One object with the sums, and the files one by one.
fn as_json(replayed: &[Replayed], refused: &[String], arguments: &Arguments, seconds: f64) -> Value {
    let budget = arguments.budget;
    let mut violations = Vec::new();
    let mut files = Vec::new();
    for one in replayed {
        let own = table::json(&one.summary, "file", json!(one.name), seconds, &|found| reproduce(one, budget, found));
        for violation in own["violations"].as_array().into_iter().flatten() {
            let mut violation = violation.clone();
            violation["file"] = json!(one.name);
            violations.push(violation);
        }
        files.push(json!({
            "file": one.name,
            "entries": one.recording.entries.len(),
            "notices": one.recording.notices,
            "milli_bytes_per_token": one.recording.milli_bytes_per_token,
            "calibrated": one.recording.calibrated,
            "stopped": one.stopped,
            "arms": own["arms"],
            "digest": own["digest"],
        }));
    }
    let mut value = table::json(&sums(replayed), "files", json!(files), seconds, &|_| String::new());
    value["violations"] = json!(violations);
    value["refused"] = json!(refused);
    value["budget"] = json!(budget);
    value["busy"] = json!(arguments.busy);
    value
}
