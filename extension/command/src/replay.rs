//! `pi-fold replay`: recorded sessions through folding, Pi's compaction, and neither.

use fold_invariants::owed::Arm;
use fold_sim::run::{Found, Summary};
use fold_sim::saving::{self, Replayed};
use fold_sim::screen::{Json, line, timed, wrapped};
use fold_sim::table::{self, dollars, thousands};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Session files of the Pi coding agent, or folders with some in them at any depth.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The context window and the budget, in tokens.
    #[arg(long, default_value_t = 200_000, value_parser = tokens)]
    budget: u64,
    /// Also write what came of it, file by file, as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn tokens(text: &str) -> Result<u64, String> {
    let tokens = text.parse().ok().filter(|tokens| *tokens >= 10_000);
    tokens.ok_or_else(|| "give a whole number of tokens, such as 200000; folding needs at least 10000".to_owned())
}

/// Columns of a terminal that nobody made wider.
const WIDTH: usize = 80;

/// Oddities of a file that are told on the screen.
const NOTICES: usize = 3;

/// Characters that a file's name may take in the list.
const NAME: usize = 28;

/// Whether every file came through without a violation of what must always hold.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let (files, mut refused) = saving::files(&arguments.files);
    let json = Json::at(arguments.json.as_deref(), &files)?;
    let progress = Progress { of: files.len(), shown: std::io::stderr().is_terminal() };
    let mut replayed = Vec::new();
    let (seconds, ()) = timed(|| {
        for (index, file) in files.iter().enumerate() {
            progress.at(index, &file.display().to_string());
            match Replayed::of(file, arguments.budget, &Arm::USUAL, false) {
                Ok(one) => replayed.push(one),
                Err(why) => refused.push(why),
            }
        }
        progress.done();
    });
    for why in &refused {
        line(&format!("not replayed: {why}"))?;
    }
    if !replayed.is_empty() {
        print(&replayed, arguments.budget)?;
    }
    for one in &replayed {
        saving::violations(one, &|found| again(one, arguments, found)).iter().try_for_each(|text| line(text))?;
    }
    json.write(&saving::as_json(&replayed, &refused, arguments.budget, seconds, &|one, found| again(one, arguments, found)))?;
    let clean = replayed.iter().all(|one| one.summary.found.is_empty());
    match refused.len() {
        0 => Ok(clean),
        _ if !clean => Ok(false),
        count => Err(format!("{count} of {} could not be replayed", count + replayed.len())),
    }
}

fn again(one: &Replayed, arguments: &Arguments, _: &Found) -> String {
    format!("pi-fold replay {} --budget {}", one.name, arguments.budget)
}

fn print(replayed: &[Replayed], budget: u64) -> Result<(), String> {
    if let [one] = replayed {
        let density = table::fixed(one.recording.milli_bytes_per_token, 3, 2);
        let source = if one.recording.calibrated { "measured" } else { "assumed" };
        line(&one.name)?;
        let entries = thousands(one.recording.entries.len() as u64);
        line(&format!("{entries} entries, budget {} tokens, {density} bytes a token ({source})", thousands(budget)))?;
    } else {
        line(&format!("{} sessions, budget {} tokens, dollars:", replayed.len(), thousands(budget)))?;
        for text in list(replayed).lines() {
            line(text)?;
        }
        if replayed.iter().any(|one| one.summary.arms.values().any(|report| !report.stops.is_empty())) {
            line("* ended early, at a full window")?;
        }
    }
    for one in replayed {
        let name = if replayed.len() > 1 { format!("{}: ", tail(&one.name)) } else { String::new() };
        let more = one.recording.notices.len().saturating_sub(NOTICES);
        let and_more = (more > 0).then(|| format!("… and {more} more; --json has them"));
        for notice in one.recording.notices.iter().take(NOTICES).chain(and_more.as_ref()) {
            wrapped(&format!("{name}{notice}"), WIDTH - 2).iter().try_for_each(|text| line(&format!("  {text}")))?;
        }
    }
    for text in table::arms_in_short(&saving::sums(replayed).arms).lines() {
        line(text)?;
    }
    let prices = format!("Dollars are {}.", saving::PRICES);
    let sentences = saving::verdict(replayed, budget).into_iter().chain([prices]);
    sentences.flat_map(|sentence| wrapped(&sentence, WIDTH)).try_for_each(|text| line(&text))
}

/// A line for each file, and the total.
fn list(replayed: &[Replayed]) -> String {
    let cost = |summary: &Summary, arm: Arm| {
        let report = summary.arms.get(&arm);
        let early = report.is_some_and(|report| !report.stops.is_empty());
        format!("{}{}", dollars(report.map_or(0, |report| report.totals.tiered)), if early { "*" } else { " " })
    };
    let paid = |one: &Replayed| one.recording.paid.nano_dollars;
    let told = |nano: u64| if nano == 0 { "-".to_owned() } else { dollars(nano) };
    let row = |one: &Replayed| {
        let commits = one.summary.arms.get(&Arm::Fold).map_or(0, |report| report.commits);
        vec![
            tail(&one.name),
            commits.to_string(),
            cost(&one.summary, Arm::Fold),
            cost(&one.summary, Arm::Native),
            cost(&one.summary, Arm::None),
            told(paid(one)),
        ]
    };
    let sums = saving::sums(replayed);
    let commits = sums.arms.get(&Arm::Fold).map_or(0, |report| report.commits);
    let total = vec![
        "total".to_owned(),
        commits.to_string(),
        cost(&sums, Arm::Fold),
        cost(&sums, Arm::Native),
        cost(&sums, Arm::None),
        told(replayed.iter().map(paid).sum()),
    ];
    table::table(&["session", "commits", "fold ", "native ", "none ", "paid"], replayed.iter().map(row).chain([total]))
}

/// The end of a name, which tells more than its beginning.
fn tail(name: &str) -> String {
    let clean: Vec<char> = name.chars().map(|character| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }).collect();
    match clean.len().checked_sub(NAME) {
        Some(over) if over > 0 => std::iter::once('…').chain(clean[over + 1..].iter().copied()).collect(),
        _ => clean.into_iter().collect(),
    }
}

/// What is being read, in one line of a terminal that is written over.
struct Progress {
    of: usize,
    shown: bool,
}

impl Progress {
    fn at(&self, index: usize, name: &str) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K{} of {}: {}", index + 1, self.of, tail(name));
        }
    }

    fn done(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
