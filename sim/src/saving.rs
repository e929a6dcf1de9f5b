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
            // Pi's compaction may have been let through where folding made no room.
            let native = sum.arms.get(&Arm::Native).filter(|native| native.totals.tiered != fold.totals.tiered);
            words.extend(native.and_then(|_| beside(replayed, Arm::Native, "with Pi's compaction")));
        } else {
            if never > 0 {
                words.push(format!("In {never} of {} sessions nothing would have been folded.", replayed.len()));
            }
            words.extend(beside(replayed, Arm::Native, "with Pi's compaction"));
            words.extend(beside(replayed, Arm::None, "with neither"));
        }
    }
    for (arm, what) in [(Arm::Fold, "With folding"), (Arm::Native, "With Pi's compaction"), (Arm::None, "With neither")] {
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
        ([one], 1) => Some(format!("{what}, the session would have ended after {} of {} requests, at a full window.", requests(one, arm), most(one))),
        (early, all) => Some(format!("{what}, {} of {all} sessions would have ended early, at a full window.", early.len())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fold_models::price::Used;

    const SESSION: &str = concat!(
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n",
        "{\"type\":\"message\",\"id\":\"u\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n",
        "{\"type\":\"message\",\"id\":\"left\",\"parentId\":\"u\",\"message\":{\"role\":\"assistant\",\"content\":[],\"usage\":",
        "{\"input\":10,\"output\":20,\"cacheRead\":30,\"cacheWrite\":40,\"totalTokens\":100,\"cost\":{\"total\":0.25}}}}\n",
        "{\"type\":\"compaction\",\"id\":\"c\",\"parentId\":\"u\",\"summary\":\"s\",\"firstKeptEntryId\":\"u\",\"usage\":",
        "{\"input\":5,\"cost\":{\"total\":0.5}}}\n",
        "{\"type\":\"usage\",\"id\":\"w\",\"parentId\":\"c\",\"usage\":{\"cacheRead\":7}}\n",
        "{\"type\":\"message\",\"id\":\"bad\",\"parentId\":\"w\",\"message\":{\"role\":\"assistant\",\"content\":[],\"usage\":{\"input\":-1}}}\n",
    );

    /// A session that each arm came through at a cost in dollars; at a negative one it ended early.
    fn session(commits: u64, fold: i64, none: i64, native: i64) -> Replayed {
        let report = |commits: u64, dollars: i64| {
            let mut report = Report { commits, sessions: 1, peak: 1_000, ..Report::default() };
            report.totals.tiered = dollars.unsigned_abs() * 1_000_000_000;
            report.totals.requests = if dollars < 0 { 3 } else { 9 };
            if dollars < 0 {
                report.stops.insert("the window is full", 1);
            }
            report
        };
        let mut summary = Summary::default();
        summary.arms.extend([(Arm::Fold, report(commits, fold)), (Arm::None, report(0, none)), (Arm::Native, report(0, native))]);
        let recording = Recording::read(SESSION.as_bytes()).expect("a session");
        Replayed { name: "s".to_owned(), recording, summary, stopped: BTreeMap::new() }
    }

    fn words(sessions: &[Replayed]) -> String {
        verdict(sessions, 60_000).join(" ")
    }

    #[test]
    fn what_was_really_paid_counts_every_call_in_the_file_also_where_the_branch_was_left() {
        let used = Used { fresh: 15, cached: 37, written: 40, output: 20 };
        assert_eq!(session(0, 1, 1, 1).recording.paid, Paid { calls: 3, used, nano_dollars: 750_000_000 });
        assert!(words(&[session(0, 1, 1, 1)]).ends_with(
            "Really paid: $0.75, at the prices of then, for 3 answers and summaries with 15 fresh, 37 cached, 40 cache-written and 20 output tokens."
        ));
    }

    #[test]
    fn folding_that_costs_less_more_or_the_same_is_said_to() {
        let text = words(&[session(1, 3, 4, 6)]);
        assert!(text.starts_with("Folding would have cost $3.00 instead of $6.00 with Pi's compaction: $3.00 less (50.0%). "), "{text}");
        assert!(text.contains("Folding would have cost $3.00 instead of $4.00 with neither: $1.00 less (25.0%)."), "{text}");
        let text = words(&[session(1, 3, 3, 2)]);
        assert!(text.starts_with("Folding would have cost $3.00, more than the $2.00 with Pi's compaction: $1.00 more (50.0%). "), "{text}");
        assert!(text.contains("Folding would have cost what it costs with neither: $3.00."), "{text}");
    }

    #[test]
    fn an_arm_that_ended_early_is_compared_with_nothing() {
        let text = words(&[session(1, 3, -1, 6)]);
        assert!(!text.contains("with neither:") && text.contains("With neither, the session would have ended after 3 of 9 requests"), "{text}");
        let text = words(&[session(1, 3, 4, 6), session(1, 5, -1, 6), session(0, 1, 1, 1)]);
        assert!(
            text.starts_with("In 1 of 3 sessions nothing would have been folded. Folding would have cost $9.00 instead of $13.00 with Pi's"),
            "{text}"
        );
        assert!(
            text.contains("cost $4.00 instead of $5.00 with neither over the 2 of 3 sessions that both came through: $1.00 less (20.0%)."),
            "{text}"
        );
        assert!(text.contains("With neither, 1 of 3 sessions would have ended early, at a full window."), "{text}");
    }

    #[test]
    fn where_nothing_would_have_been_folded_the_reason_is_said_and_no_saving() {
        let text = words(&[session(0, 1, 1, 1)]);
        assert!(
            text.starts_with("This session never reached 80% of the budget (48,000 of 60,000 tokens; the largest request had 1,000): nothing"),
            "{text}"
        );
        assert!(!text.contains("Folding would"), "{text}");
        let mut held = session(0, 1, 1, 1);
        held.summary.arms.get_mut(&Arm::Fold).expect("an arm").deferrals.insert("nothing ripe", 3);
        assert!(words(&[held]).starts_with("This session came near the budget of 60,000 tokens, but nothing in it could be folded (nothing ripe)."));
    }

    #[test]
    fn a_folder_is_every_session_file_at_any_depth_below_it_in_order() {
        let folder = std::env::temp_dir().join(format!("pi-fold-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for name in ["b/2.jsonl", "b/1.jsonl", "a/deep/3.jsonl", "a/notes.txt"] {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&folder, folder.join("b/around")).expect("a link");
        let (found, refused) = files(&[folder.clone(), folder.join("a/notes.txt"), folder.join("nowhere")]);
        let expected = ["a/deep/3.jsonl", "b/1.jsonl", "b/2.jsonl", "a/notes.txt", "nowhere"].map(|name| folder.join(name));
        assert_eq!((found, refused), (expected.to_vec(), Vec::new()));
        std::fs::create_dir(folder.join("c")).expect("a folder");
        let (found, refused) = files(&[folder.join("c")]);
        assert!(found.is_empty() && refused.len() == 1 && refused[0].contains("there is no *.jsonl"), "{refused:?}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
