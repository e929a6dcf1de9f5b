//! The table of a run, on the screen and as JSON.

use crate::screen::line;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use fold_invariants::owed::Arm;
use fold_invariants::probes::PROBES;
use fold_models::agent::Profile;
use fold_sim::report::{Report, Rewrite};
use fold_sim::run::{Found, Summary};
use fold_sim::world::Step;
use serde_json::{Value, json};

/// A table with a heading row; numbers to the right.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Millionths as per cent.
pub fn per_cent(ppm: u64) -> String {
    format!("{}.{}%", ppm / 10_000, ppm / 1_000 % 10)
}

/// Nano-dollars as dollars.
pub fn dollars(nano: u64) -> String {
    format!("{}.{:04}", nano / 1_000_000_000, nano / 100_000 % 10_000)
}

fn counts(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(name, count)| format!("{} {name}", thousands(*count))).collect::<Vec<_>>().join(", ")
}

/// A row of the table: its name, and how an arm's report fills it.
type Line = (&'static str, fn(&Report) -> String);

/// The rows of every table of arms.
const LINES: [Line; 18] = [
    ("sessions", |report| thousands(report.sessions)),
    ("requests", |report| thousands(report.totals.requests)),
    ("commits", |report| thousands(report.commits)),
    ("rewrites by cause", |report| counts(&report.rewrites)),
    ("deferred", |report| counts(&report.deferrals)),
    ("folds", |report| thousands(report.folds)),
    ("  of them parents", |report| thousands(report.parents)),
    ("  of them recovered", |report| thousands(report.folds_recovered)),
    ("peak request, tokens", |report| thousands(report.peak)),
    ("index share of the window", |report| per_cent(report.index_ppm())),
    ("cached share of the prompts", |report| per_cent(report.cached_ppm())),
    ("fresh tokens", |report| thousands(report.totals.used.fresh)),
    ("cached tokens", |report| thousands(report.totals.used.cached)),
    ("output tokens", |report| thousands(report.totals.used.output)),
    ("dollars, all sessions", |report| match (report.totals.tiered, report.totals.flat) {
        (tiered, flat) if tiered == flat => dollars(tiered),
        (tiered, flat) => format!("{} ({} without the tier)", dollars(tiered), dollars(flat)),
    }),
    ("dollars a request", |report| dollars(report.totals.tiered.checked_div(report.totals.requests).unwrap_or(0))),
    ("dollars a session, median", |report| {
        format!("{} ({} to {})", dollars(report.cost_at(500_000)), dollars(report.cost_at(100_000)), dollars(report.cost_at(900_000)))
    }),
    ("ended early", |report| counts(&report.stops)),
];

/// Arms side by side.
pub fn arms(reports: &std::collections::BTreeMap<Arm, Report>) -> String {
    let head: Vec<&str> = std::iter::once("").chain(reports.keys().map(|arm| arm.name())).collect();
    table(&head, LINES.iter().map(|(name, fill)| std::iter::once((*name).to_owned()).chain(reports.values().map(fill)).collect()))
}

/// The whole table; with `full`, probes that nobody hit are named.
pub fn print(summary: &Summary, profile: Profile, seconds: f64, full: bool) -> Result<(), String> {
    for text in arms(&summary.arms).lines() {
        line(text)?;
    }
    if let Some(report) = summary.arms.get(&Arm::Fold) {
        figures(report, profile)?;
    }
    let missed = summary.probes.missed();
    line(&format!("probes hit: {} of {}", PROBES.len() - missed.len(), PROBES.len()))?;
    if full && !missed.is_empty() {
        line(&format!("  not hit: {}", missed.join(", ")))?;
    }
    line(&format!("violations: {}", summary.found.len()))?;
    line(&format!("trace digest: {}", summary.digest()))?;
    let sessions: u64 = summary.arms.values().map(|report| report.sessions).sum();
    line(&format!("{sessions} sessions in {seconds:.1} s: {:.0} a second", sessions as f64 / seconds.max(0.001)))
}

/// The figures a commit is judged by, in true tokens.
fn figures(report: &Report, profile: Profile) -> Result<(), String> {
    if let Some((least, most)) = report.after_ppm {
        line(&format!("window right after a commit that reached its target: {} to {} of the budget", per_cent(least), per_cent(most)))?;
    }
    if profile != Profile::Campaign || report.sessions != 1 {
        return Ok(());
    }
    let tax = Tax::of(&report.commits_in_detail);
    line(&format!("tax measured (tokens sent anew at commits ÷ tokens appended): {}", tax.measured))?;
    line(&format!("tax by the rule, Σ(after − prefix) ÷ Σ(before − after):       {}", tax.ruled))?;
    line(&format!("after ÷ (before − after):                                    {}", tax.plain))?;
    line("nominal, minTarget ÷ (maxTarget − minTarget):                0.333")
}

/// What the published rule says of a session's commits, as decimal ratios.
pub struct Tax {
    /// Tokens after the first changed byte at the second to the last commit, over tokens appended between the first and the last.
    pub measured: String,
    /// The same by what the commits left and took.
    pub ruled: String,
    /// Without what stands before the earliest target.
    pub plain: String,
}

impl Tax {
    /// Of the commits of one session.
    pub fn of(commits: &[Rewrite]) -> Self {
        let later = commits.get(1..).unwrap_or_default();
        let sum = |figure: fn(&Rewrite) -> u64| later.iter().map(figure).sum::<u64>();
        let ratio = |part: u64, whole: u64| {
            let milli = (u128::from(part) * 1_000).checked_div(u128::from(whole)).unwrap_or(0);
            format!("{}.{:03}", milli / 1_000, milli % 1_000)
        };
        let freed = sum(|commit| commit.before.saturating_sub(commit.after));
        Tax {
            measured: ratio(sum(|commit| commit.resent), sum(|commit| commit.appended)),
            ruled: ratio(sum(|commit| commit.after.saturating_sub(commit.prefix)), freed),
            plain: ratio(sum(|commit| commit.after), freed),
        }
    }
}

/// What the screen shows, for machines.
pub fn json(summary: &Summary, what: &str, which: Value, seconds: f64, reproduce: &dyn Fn(&Found) -> String) -> Value {
    let arms: serde_json::Map<String, Value> = summary.arms.iter().map(|(arm, report)| (arm.name().to_owned(), arm_json(report))).collect();
    let probes: serde_json::Map<String, Value> = PROBES.iter().map(|probe| ((*probe).to_owned(), summary.probes.count(probe).into())).collect();
    let violations: Vec<Value> = summary
        .found
        .iter()
        .map(|found| {
            let violation = &found.violation;
            json!({
                "invariant": violation.invariant, "arm": violation.arm, "seed": found.seed, "step": violation.step,
                "expected": violation.expected, "seen": violation.seen, "reproduce": reproduce(found),
            })
        })
        .collect();
    let fold = summary.arms.get(&Arm::Fold);
    let mut value = json!({
        "schema": 1,
        "sessions": summary.arms.values().map(|report| report.sessions).sum::<u64>(),
        "requests": summary.arms.values().map(|report| report.totals.requests).sum::<u64>(),
        "commits": fold.map_or(0, |report| report.commits),
        "violations": violations,
        "digest": summary.digest(),
        "arms": arms,
        "probes": probes,
        "seconds": seconds,
    });
    value[what] = which;
    value
}

fn arm_json(report: &Report) -> Value {
    json!({
        "sessions": report.sessions,
        "requests": report.totals.requests,
        "fresh": report.totals.used.fresh,
        "cached": report.totals.used.cached,
        "output": report.totals.used.output,
        "dollars": report.totals.tiered as f64 / 1e9,
        "dollars_flat": report.totals.flat as f64 / 1e9,
        "dollars_median": report.cost_at(500_000) as f64 / 1e9,
        "dollars_10th": report.cost_at(100_000) as f64 / 1e9,
        "dollars_90th": report.cost_at(900_000) as f64 / 1e9,
        "after_commit_ppm": report.after_ppm,
        "commits_in_detail": if report.sessions == 1 { json!(report.commits_in_detail) } else { Value::Null },
        "rewrites": report.rewrites,
        "deferred": report.deferrals,
        "peak": report.peak,
        "commits": report.commits,
        "folds": report.folds,
        "parents": report.parents,
        "folds_recovered": report.folds_recovered,
        "index_ppm": report.index_ppm(),
        "cached_ppm": report.cached_ppm(),
        "ended_early": report.stops,
    })
}

/// A session step by step; `at` shows one step and its neighbours.
pub fn steps(steps: &[Step], at: Option<usize>) -> Result<(), String> {
    let near = |step: &&Step| at.is_none_or(|at| step.op.abs_diff(at) <= 3);
    let rows = steps.iter().filter(near).map(|step| {
        vec![
            format!("{} {}", step.op, step.name),
            format!("{}.{:03}", step.ms / 1_000, step.ms % 1_000),
            thousands(step.messages as u64),
            thousands(step.tokens),
            if step.occupancy == 0 { String::new() } else { format!("{} ± {}", thousands(step.occupancy), thousands(step.margin)) },
            step.marks.to_string(),
            step.roots.to_string(),
            thousands(step.would_rewrite),
            thousands(step.would_read),
            thousands(step.cached),
            thousands(step.fresh),
            dollars(step.nano_dollars),
        ]
    });
    let head = ["operation", "seconds", "messages", "tokens", "estimate", "marks", "roots", "rewrite", "read", "cached", "fresh", "dollars"];
    for text in table(&head, rows).lines() {
        line(text)?;
    }
    for step in steps.iter().filter(near).filter(|step| !step.note.is_empty()) {
        line(&format!("{:>5}: {}", step.op, step.note))?;
    }
    Ok(())
}
