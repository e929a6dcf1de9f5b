//! `cargo xtask replay`: recorded sessions through every arm, the same table, the same checks.

use fold_invariants::owed::Arm;
use fold_sim::run::Found;
use fold_sim::saving::{self, Replayed};
use fold_sim::screen::{Json, line, timed};
use fold_sim::table;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Session files of the Pi coding agent, or folders with some in them.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The context window and budget, in tokens.
    #[arg(long, default_value_t = 60_000, value_parser = tokens)]
    budget: u64,
    /// Which arms, separated by commas: fold, none, native, mask.
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

/// Whether every file came through without a violation.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut arms = arguments.arm.clone();
    arms.sort_unstable();
    arms.dedup();
    let (files, mut refused) = saving::files(&arguments.files);
    let json = Json::at(arguments.json.as_deref(), &files)?;
    let mut replayed = Vec::new();
    let (seconds, printed) = timed(|| -> Result<(), String> {
        for file in &files {
            match Replayed::of(file, arguments.budget, &arms, arguments.busy) {
                Ok(one) => {
                    print(&one, arguments)?;
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
        for text in table::arms(&saving::sums(&replayed).arms).lines() {
            line(text)?;
        }
        tell(&saving::verdict(&replayed, arguments.budget))?;
    }
    line(&format!("violations: {found}"))?;
    let mut value = saving::as_json(&replayed, &refused, arguments.budget, seconds, &|one, found| reproduce(one, arguments, found));
    value["busy"] = arguments.busy.into();
    json.write(&value)?;
    let clean = replayed.iter().all(|one| one.summary.found.is_empty());
    // A violation outweighs a file that could not be read, which is said all the same.
    if !clean {
        refused.iter().for_each(|reason| complain(reason));
    }
    if clean && !refused.is_empty() { Err(refused.join("\n")) } else { Ok(clean) }
}

/// Says on standard error what went wrong; that it is closed is no reason to panic.
pub fn complain(reason: &str) {
    let _ = writeln!(std::io::stderr().lock(), "error: {reason}");
}

fn tell(sentences: &[String]) -> Result<(), String> {
    sentences.iter().try_for_each(|sentence| line(&format!("  {sentence}")))
}

fn print(one: &Replayed, arguments: &Arguments) -> Result<(), String> {
    let density = one.recording.milli_bytes_per_token;
    let source = if one.recording.calibrated { "from the recorded usage" } else { "assumed, the recorded usage says nothing" };
    line(&format!(
        "{}: {} entries, budget {} tokens, {} bytes a token ({source})",
        one.name,
        one.recording.entries.len(),
        table::thousands(arguments.budget),
        table::fixed(density, 3, 2)
    ))?;
    tell(&one.recording.notices[..one.recording.notices.len().min(NOTICES)])?;
    if one.recording.notices.len() > NOTICES {
        line(&format!("  … and {} more such oddities, all survived; --json has them", one.recording.notices.len() - NOTICES))?;
    }
    for text in table::arms(&one.summary.arms).lines() {
        line(text)?;
    }
    for (arm, why) in &one.stopped {
        line(&format!("  {arm} stopped: {why}"))?;
    }
    tell(&saving::verdict(std::slice::from_ref(one), arguments.budget))?;
    saving::violations(one, &|found| reproduce(one, arguments, found)).iter().try_for_each(|text| line(text))
}

fn reproduce(one: &Replayed, arguments: &Arguments, found: &Found) -> String {
    let busy = if arguments.busy { " --busy" } else { "" };
    format!("cargo xtask replay {} --budget {} --arm {}{busy}", one.name, arguments.budget, found.violation.arm)
}
