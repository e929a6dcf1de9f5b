//! Recorded sessions through every arm: what folding would have cost, and what that is beside Pi's compaction and beside nothing.
//!
//! A sum compares two arms over those sessions only that both came through whole: one that ended early is cheap because it did less.

use crate::replay::{Paid, Recording};
use crate::report::Report;
use crate::run::{Found, Summary};
use crate::table::{self, money, per_cent, thousands};
use crate::world;
use fold_invariants::owed::Arm;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whose prices the dollars are, in words.
pub const PRICES: &str = "gpt-5.5's prices on OpenAI's Chat wire, as if no pause had been long enough for its prefix cache to forget";

/// A file that was replayed.
pub struct Replayed {
    /// Its path, as it was given.
    pub name: String,
    /// What it holds.
    pub recording: Recording,
    /// What each arm did with it.
    pub summary: Summary,
    /// Why an arm ended before the file did, by its name.
    pub stopped: BTreeMap<&'static str, String>,
}

impl Replayed {
    /// Replays a file through some arms, with a context window and budget of so many tokens; a `busy` agent tends its window on the way.
    ///
    /// # Errors
    /// A sentence with the file's name: it cannot be read, is no session, or holds nothing to replay.
    pub fn of(file: &Path, budget: u64, arms: &[Arm], busy: bool) -> Result<Self, String> {
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
        Ok(Replayed { name, recording, summary, stopped })
    }

    /// What an arm did, if it came through to the end.
    fn whole(&self, arm: Arm) -> Option<&Report> {
        self.summary.arms.get(&arm).filter(|report| report.stops.is_empty())
    }
}

/// Session files by their names: a file is itself, a folder every `*.jsonl` at any depth below it, sorted. Beside them what cannot be looked
/// into, or holds no session file, each with its reason.
pub fn files(given: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for path in given {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = (found.len(), refused.len());
        below(path, &mut found, &mut refused);
        if before == (found.len(), refused.len()) {
            refused.push(format!("{}: there is no *.jsonl in this folder or below it", path.display()));
        }
    }
    (found, refused)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>, refused: &mut Vec<String>) {
    let typed = |entry: std::io::Result<std::fs::DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
    let listed: std::io::Result<Vec<_>> = std::fs::read_dir(folder).and_then(|entries| entries.map(typed).collect());
    let mut entries = match listed {
        Ok(entries) => entries,
        Err(error) => return refused.push(format!("{} could not be read: {error}", folder.display())),
    };
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (path, kind) in entries {
        // A link to a folder may lead back to where it stands.
        if kind.is_dir() {
            below(&path, found, refused);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file() {
            found.push(path);
        }
    }
}

/// All files together.
pub fn sums(replayed: &[Replayed]) -> Summary {
    let mut sums = Summary::default();
    replayed.iter().enumerate().for_each(|(index, one)| sums.absorb(index as u64, &one.summary));
    sums
}

/// What folding would have meant for these sessions, in sentences: whether anything would have been folded, what it would have cost beside Pi's
/// compaction and beside nothing, and what the sessions really paid.
pub fn verdict(replayed: &[Replayed], budget: u64) -> Vec<String> {
    let mut words = Vec::new();
    let some = if replayed.len() == 1 { "This session" } else { "These sessions" };
    let sum = sums(replayed);
    if let Some(fold) = sum.arms.get(&Arm::Fold) {
        let never = replayed.iter().filter(|one| one.summary.arms.get(&Arm::Fold).is_some_and(|report| report.commits == 0)).count();
        if fold.commits == 0 {
            words.push(unfolded(some, fold, budget));
        } else {
            if never > 0 {
                words.push(format!("In {never} of {} sessions nothing would have been folded.", replayed.len()));
            }
            words.extend(beside(replayed, Arm::Native, "with Pi's compaction"));
            words.extend(beside(replayed, Arm::None, "with neither"));
        }
    }
    for (arm, what) in [(Arm::Fold, "Folding"), (Arm::Native, "Pi's compaction"), (Arm::None, "With neither, the session")] {
        words.extend(ended(replayed, arm, what));
    }
    words.push(paid(replayed));
    words
}

/// Why nothing would have been folded.
fn unfolded(some: &str, fold: &Report, budget: u64) -> String {
    let band = budget * 4 / 5;
    if fold.deferrals.is_empty() && fold.stops.is_empty() && fold.peak < band {
        return format!(
            "{some} never reached 80% of the budget ({} of {} tokens; the largest request had {}): nothing would have been folded.",
            thousands(band),
            thousands(budget),
            thousands(fold.peak)
        );
    }
    let reasons: Vec<&str> = fold.deferrals.keys().copied().collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!("{some} came near the budget of {} tokens, but nothing in it could be folded{reasons}.", thousands(budget))
}

/// What folding costs more or less than another arm, over the sessions that both came through whole.
fn beside(replayed: &[Replayed], other: Arm, name: &str) -> Option<String> {
    let both: Vec<(u64, u64)> = replayed
        .iter()
        .filter_map(|one| Some((one.whole(Arm::Fold)?, one.whole(other)?)))
        .map(|(fold, other)| (fold.totals.tiered, other.totals.tiered))
        .collect();
    let (fold, other) = both.iter().fold((0, 0), |(fold, other), one| (fold + one.0, other + one.1));
    let where_ = match (replayed.len(), both.len()) {
        (_, 0) => return None,
        (all, both) if all == both => String::new(),
        (all, both) => format!(" over the {both} of {all} sessions that both came through"),
    };
    let share = |part: u64| per_cent(u64::try_from(u128::from(part) * 1_000_000 / u128::from(other.max(1))).unwrap_or(u64::MAX));
    let (cost, instead) = (money(fold), money(other));
    Some(match fold.cmp(&other) {
        std::cmp::Ordering::Less => {
            let less = other - fold;
            format!("Folding would have cost {cost} instead of {instead} {name}{where_}: {} less ({}).", money(less), share(less))
        }
        std::cmp::Ordering::Equal => format!("Folding would have cost what it costs {name}{where_}: {cost}."),
        std::cmp::Ordering::Greater => {
            let more = fold - other;
            format!("Folding would have cost {cost}, more than the {instead} {name}{where_}: {} more ({}).", money(more), share(more))
        }
    })
}

/// That an arm would have ended before the file did.
fn ended(replayed: &[Replayed], arm: Arm, what: &str) -> Option<String> {
    let early: Vec<&Replayed> = replayed.iter().filter(|one| one.summary.arms.get(&arm).is_some_and(|report| !report.stops.is_empty())).collect();
    let requests = |one: &Replayed, arm: Arm| one.summary.arms.get(&arm).map_or(0, |report| report.totals.requests);
    let most = |one: &Replayed| one.summary.arms.keys().map(|arm| requests(one, *arm)).max().unwrap_or(0);
    match (early.as_slice(), replayed.len()) {
        ([], _) => None,
        ([one], 1) => Some(format!("{what} would have ended after {} of {} requests, at a full window.", requests(one, arm), most(one))),
        (early, all) => Some(format!("{what} would have ended early at a full window in {} of {all} sessions.", early.len())),
    }
}

/// What the sessions really paid.
fn paid(replayed: &[Replayed]) -> String {
    let mut paid = Paid::default();
    replayed.iter().for_each(|one| paid.add(one.recording.paid));
    if paid.calls == 0 {
        return "Nothing is recorded of what was really paid.".to_owned();
    }
    let Paid { calls, used, nano_dollars } = paid;
    let price = if nano_dollars > 0 { format!("{}, at the prices of then", money(nano_dollars)) } else { "no price recorded".to_owned() };
    format!(
        "Really paid: {price}, for {} answers and summaries with {} fresh, {} cached, {} cache-written and {} output tokens.",
        thousands(calls),
        thousands(used.fresh),
        thousands(used.cached),
        thousands(used.written),
        thousands(used.output)
    )
}

/// The violations of a file, as [`crate::screen::line`] prints them; `again` gives the command that shows one again.
pub fn violations(one: &Replayed, again: &dyn Fn(&Found) -> String) -> Vec<String> {
    let told = |found: &Found| {
        let violation = &found.violation;
        [
            format!("VIOLATION of {} by {}, entry {}", violation.invariant, violation.arm, violation.step),
            format!("  expected: {}", violation.expected),
            format!("  seen:     {}", violation.seen),
            format!("  again:    {}", again(found)),
        ]
    };
    one.summary.found.iter().flat_map(told).collect()
}

/// One object with the sums, and the files one by one. `refused` are files that were not replayed, `again` gives the command that shows a violation
/// again.
pub fn as_json(replayed: &[Replayed], refused: &[String], budget: u64, seconds: f64, again: &dyn Fn(&Replayed, &Found) -> String) -> Value {
    let mut violations = Vec::new();
    let mut files = Vec::new();
    for one in replayed {
        let own = table::json(&one.summary, "file", json!(one.name), seconds, &|found| again(one, found));
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
            "paid": paid_json(one.recording.paid),
            "verdict": verdict(std::slice::from_ref(one), budget),
            "stopped": one.stopped,
            "arms": own["arms"],
            "digest": own["digest"],
        }));
    }
    let mut paid = Paid::default();
    replayed.iter().for_each(|one| paid.add(one.recording.paid));
    let mut value = table::json(&sums(replayed), "files", json!(files), seconds, &|_| String::new());
    value["violations"] = json!(violations);
    value["refused"] = json!(refused);
    value["budget"] = json!(budget);
    value["prices"] = json!(PRICES);
    value["paid"] = paid_json(paid);
    value["verdict"] = json!(verdict(replayed, budget));
    value
}

fn paid_json(paid: Paid) -> Value {
    let Paid { calls, used, nano_dollars } = paid;
    json!({
        "calls": calls, "fresh": used.fresh, "cached": used.cached, "written": used.written, "output": used.output,
        "dollars": nano_dollars as f64 / 1e9,
    })
}
