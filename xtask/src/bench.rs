//! `cargo xtask bench`: the benchmarks, and the ratios that matter, from one run.

use crate::{extension, sim};
use fold_sim::screen::{Json, line};
use fold_sim::table;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// What the extension costs inside a real Pi instead: a turn, a commit, memory, a long session that was never folded.
    #[arg(long)]
    pi: bool,
    /// Also write what the screen shows as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let json = Json::at(arguments.json.as_deref(), &[])?;
    let (headings, rows) =
        if arguments.pi { (vec!["what", "median", "ratio", "asked for"], in_pi()?) } else { (vec!["what", "median", "ratio"], alone()?) };
    let objects: Vec<_> = rows.iter().map(|row| json!({ "what": row[0], "median": row[1], "ratio": row[2], "asked": row.get(3) })).collect();
    for text in table::table(&headings, rows).lines() {
        line(text)?;
    }
    json.write(&json!({ "schema": 1, "rows": objects }))
}

/// What the extension costs, as the benchmark in Pi has it.
fn in_pi() -> Result<Vec<Vec<String>>, String> {
    extension::build(extension::Build::Release)?;
    let text = extension::bench()?;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|error| format!("the benchmark in Pi said no rows: {error}: {text}"))?;
    let cell = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or("").to_owned();
    Ok(rows.iter().map(|row| ["what", "median", "ratio", "asked"].map(|name| cell(row, name)).to_vec()).collect())
}

fn alone() -> Result<Vec<Vec<String>>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["bench", "--package", "fold-runtime", "--profile", "sim", "--bench", "session"];
    let status = Command::new(cargo).args(arguments).status().map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err(format!("a benchmark failed; run `cargo {}` to see it alone", arguments.join(" ")));
    }
    let median = |name: &str| median(name);
    let turns = [median("turn/200")?, median("turn/2000")?, median("turn/20000")?];
    let (hundred, three_hundred) = (median("commit/100")?, median("commit/300")?);
    let (open, parse) = (median("open/session")?, median("open/parse and hash")?);
    let sessions = sim::sessions_per_second()?;
    let us = |nanos: f64| format!("{:.1} µs", nanos / 1e3);
    let ms = |nanos: f64| format!("{:.1} ms", nanos / 1e6);
    let rows = [
        ["a turn (observe, observe, boundary) at 200 entries".to_owned(), us(turns[0]), format!("{:.2} of 2,000 entries", turns[0] / turns[1])],
        ["at 2,000 entries".to_owned(), us(turns[1]), "1".to_owned()],
        ["at 20,000 entries".to_owned(), us(turns[2]), format!("{:.2} of 2,000 entries", turns[2] / turns[1])],
        ["a commit of 100 folds over 0.8 MB".to_owned(), ms(hundred), "1".to_owned()],
        ["of 300 folds over 2.5 MB".to_owned(), ms(three_hundred), format!("{:.2} of 100 folds", three_hundred / hundred)],
        ["opening a journal of 10 MB".to_owned(), ms(open), format!("{:.2} of a typed parse and SHA-256", open / parse)],
        ["typed parse and SHA-256 of the same bytes".to_owned(), ms(parse), "1".to_owned()],
        ["steady sessions a second on one core, checks on".to_owned(), format!("{sessions:.0}"), String::new()],
    ];
    Ok(rows.into_iter().map(Vec::from).collect())
}

/// The median of a benchmark that has just run, in nanoseconds.
fn median(name: &str) -> Result<f64, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let file = target.join("criterion").join(name).join("new/estimates.json");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{} could not be read: {error}", file.display()))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    value["median"]["point_estimate"].as_f64().ok_or_else(|| format!("{} holds no median", file.display()))
}
