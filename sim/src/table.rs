//! The table of a run, on the screen and as JSON.

use crate::report::{Report, Rewrite};
use crate::run::{Fault, Found, Summary};
use crate::screen::line;
use crate::world::Step;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use fold_invariants::owed::Arm;
use fold_invariants::probes;
use fold_models::agent::{FAULTS, Profile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A table with a heading row; numbers to the right.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    let last = head.len() - 1;
    for (at, column) in table.column_iter_mut().enumerate().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((1, u16::from(at == last)));
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

/// A count of the smallest unit as a decimal: `digits` of it lie behind the point, `places` are shown; half is rounded up.
pub fn fixed(number: u64, digits: u32, places: u32) -> String {
    let step = 10_u64.pow(digits - places);
    let rounded = number / step + u64::from(number % step >= step.div_ceil(2));
    let unit = 10_u64.pow(places);
    format!("{}.{:0width$}", rounded / unit, rounded % unit, width = places as usize)
}

/// Millionths as per cent.
pub fn per_cent(ppm: u64) -> String {
    fixed(ppm, 4, 1) + "%"
}

/// Nano-dollars as dollars, to a hundredth of a cent.
pub fn dollars(nano: u64) -> String {
    fixed(nano, 9, 4)
}

/// Nano-dollars in a sentence: to a cent from ten cents on, else to a hundredth of one.
pub fn money(nano: u64) -> String {
    format!("${}", fixed(nano, 9, if nano >= 100_000_000 { 2 } else { 4 }))
}

type Counts = BTreeMap<&'static str, u64>;

/// A row of the table of arms: its name, and how an arm's report fills it.
enum Row {
    Figure(&'static str, fn(&Report) -> String),
    /// A sum, and below it one row for everything that is counted in any arm: side by side they stay narrow.
    Counts(&'static str, fn(&Report) -> &Counts),
}

/// The rows of every table of arms.
const ROWS: [Row; 26] = [
    Row::Figure("sessions", |report| thousands(report.sessions)),
    Row::Figure("requests", |report| thousands(report.totals.requests)),
    Row::Figure("commits", |report| thousands(report.commits)),
    Row::Counts("rewrites by cause", |report| &report.rewrites),
    Row::Figure("reasoning lost, tokens", |report| thousands(report.reasoning_lost)),
    Row::Counts("deferred", |report| &report.deferrals),
    Row::Figure("folds", |report| thousands(report.folds)),
    Row::Figure("  of them parents", |report| thousands(report.parents)),
    Row::Figure("  of them recovered", |report| thousands(report.folds_recovered)),
    Row::Figure("peak request, tokens", |report| thousands(report.peak)),
    Row::Figure("index share of the window", |report| per_cent(report.index_ppm())),
    Row::Figure("cached share of the prompts", |report| per_cent(report.cached_ppm())),
    Row::Figure("fresh tokens", |report| thousands(report.totals.used.fresh)),
    Row::Figure("cached tokens", |report| thousands(report.totals.used.cached)),
    Row::Figure("written tokens", |report| thousands(report.totals.used.written)),
    Row::Figure("output tokens", |report| thousands(report.totals.used.output)),
    Row::Figure("dollars, all sessions", |report| dollars(report.totals.tiered)),
    Row::Figure("  without the tier", |report| dollars(report.totals.flat)),
    Row::Figure("dollars a request", |report| dollars(a_request(report))),
    Row::Figure("dollars a session, median", |report| dollars(report.cost_at(500_000))),
    Row::Figure("  10th percentile", |report| dollars(report.cost_at(100_000))),
    Row::Figure("  90th percentile", |report| dollars(report.cost_at(900_000))),
    Row::Counts("ended early", |report| &report.stops),
    Row::Counts("facts when asked for", |report| &report.facts),
    Row::Counts("sources of what answers name", |report| &report.sources),
    Row::Counts("looked for again", |report| &report.upkeep),
];

/// Nano-dollars.
fn a_request(report: &Report) -> u64 {
    report.totals.tiered.checked_div(report.totals.requests).unwrap_or(0)
}

/// What a person asks first, in the order of [`ROWS`].
const FIRST: [&str; 11] = [
    "sessions",
    "requests",
    "commits",
    "rewrites by cause",
    "folds",
    "peak request, tokens",
    "cached share of the prompts",
    "fresh tokens",
    "cached tokens",
    "output tokens",
    "dollars, all sessions",
];

/// Arms side by side.
pub fn arms(reports: &BTreeMap<Arm, Report>) -> String {
    of_rows(reports, &|_| true)
}

/// Arms side by side, in the few rows that a person asks for first.
pub fn arms_in_short(reports: &BTreeMap<Arm, Report>) -> String {
    of_rows(reports, &|name| FIRST.contains(&name))
}

fn of_rows(reports: &BTreeMap<Arm, Report>, wanted: &dyn Fn(&str) -> bool) -> String {
    let head: Vec<&str> = std::iter::once("").chain(reports.keys().map(|arm| arm.name())).collect();
    let row = |name: String, fill: &dyn Fn(&Report) -> String| std::iter::once(name).chain(reports.values().map(fill)).collect::<Vec<_>>();
    let shown = ROWS.iter().filter(|kind| match kind {
        Row::Figure(name, _) | Row::Counts(name, _) => wanted(name),
    });
    let rows = shown.flat_map(|kind| match kind {
        Row::Figure(name, fill) => vec![row((*name).to_owned(), fill)],
        Row::Counts(name, of) => {
            let sum = row((*name).to_owned(), &|report| thousands(of(report).values().sum()));
            let counted: BTreeSet<&str> = reports.values().flat_map(|report| of(report).keys().copied()).collect();
            let each = |what: &str| row(format!("  {what}"), &|report| thousands(of(report).get(what).copied().unwrap_or(0)));
            std::iter::once(sum).chain(counted.into_iter().map(each)).collect()
        }
    });
    table(&head, rows)
}

/// The whole table of seeded sessions; a run that is `full` should have taken every named path, and a warning names those that it did not.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(summary: &Summary, profile: Profile, seconds: f64, full: bool) -> Result<(), String> {
    for text in arms(&summary.arms).lines() {
        line(text)?;
    }
    if let Some(report) = summary.arms.get(&Arm::Fold) {
        figures(report, profile)?;
    }
    if profile == Profile::Full {
        faults(&summary.faults)?;
    }
    let probes = probes::of(summary.arms.keys().copied());
    let missed = summary.probes.missed(&probes);
    line(&format!("probes hit: {} of {}", probes.len() - missed.len(), probes.len()))?;
    warning(&missed).filter(|_| full).map_or(Ok(()), |text| line(&text))?;
    line(&format!("violations: {}", summary.found.len()))?;
    line(&format!("trace digest: {}", summary.digest()))?;
    let sessions: u64 = summary.arms.values().map(|report| report.sessions).sum();
    line(&format!("{sessions} sessions in {seconds:.1} s: {:.0} a second", sessions as f64 / seconds.max(0.001)))
}

/// What went wrong around the sessions: armed, came to pass, run again without it, came to something else then.
fn faults(faults: &BTreeMap<&'static str, Fault>) -> Result<(), String> {
    let row = |name: &str| {
        let Fault { armed, delivered, compared, changed } = faults.get(name).copied().unwrap_or_default();
        vec![name.to_owned(), thousands(armed), thousands(delivered), thousands(compared), thousands(changed)]
    };
    let text = table(&["fault, sessions", "armed", "came to pass", "run again without", "came to something else"], FAULTS.into_iter().map(row));
    text.lines().try_for_each(line)
}

/// Faults that were never armed, never came to pass, or never changed anything: a green run says nothing about them.
pub fn idle_faults(summary: &Summary) -> Vec<&'static str> {
    let idle = |name: &&str| {
        let fault = summary.faults.get(name).copied().unwrap_or_default();
        fault.armed == 0 || fault.delivered == 0 || fault.changed == 0
    };
    FAULTS.into_iter().filter(idle).collect()
}

/// What a green run did not exercise.
fn warning(missed: &[&str]) -> Option<String> {
    let paths = missed.join(", ");
    (!missed.is_empty()).then(|| format!("warning: no session took {paths}; what is checked there was not seen to hold"))
}

/// The figures a commit is judged by, in true tokens.
fn figures(report: &Report, profile: Profile) -> Result<(), String> {
    if let Some((least, most)) = report.after_ppm {
        line(&format!("window right after a commit that reached its target: {} to {} of the budget", per_cent(least), per_cent(most)))?;
    }
    let Some(tax) = Tax::of(report).filter(|_| profile == Profile::Campaign) else { return Ok(()) };
    let ratio = |ppm: u64| fixed(ppm, 6, 3);
    line(&format!("tax measured (tokens sent anew at commits ÷ tokens appended): {}", ratio(tax.measured)))?;
    line(&format!("tax by the rule, Σ(after − prefix) ÷ Σ(before − after):       {}", ratio(tax.ruled)))?;
    line(&format!("after ÷ (before − after):                                    {}", ratio(tax.plain)))?;
    line("nominal, minTarget ÷ (maxTarget − minTarget):                0.333")
}

/// What the published rule says of a session's commits, in millionths.
pub struct Tax {
    /// Tokens after the first changed byte at the second to the last commit, over tokens appended between the first and the last.
    pub measured: u64,
    /// The same by what the commits left and took.
    pub ruled: u64,
    /// Without what stands before the earliest target.
    pub plain: u64,
}

impl Tax {
    /// Of one session; several have no first commit in common.
    pub fn of(report: &Report) -> Option<Self> {
        if report.sessions != 1 {
            return None;
        }
        let later = report.commits_in_detail.get(1..).unwrap_or_default();
        let sum = |figure: fn(&Rewrite) -> u64| later.iter().map(figure).sum::<u64>();
        let ratio = |part: u64, whole: u64| {
            let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole)).unwrap_or(0);
            u64::try_from(ppm).unwrap_or(u64::MAX)
        };
        let freed = sum(|commit| commit.before.saturating_sub(commit.after));
        Some(Tax {
            measured: ratio(sum(|commit| commit.resent), sum(|commit| commit.appended)),
            ruled: ratio(sum(|commit| commit.after.saturating_sub(commit.prefix)), freed),
            plain: ratio(sum(|commit| commit.after), freed),
        })
    }
}

/// What the screen shows, for machines; `what` names `which` sessions it is of, `reproduce` gives the command that shows a violation again.
pub fn json(summary: &Summary, what: &str, which: Value, seconds: f64, reproduce: &dyn Fn(&Found) -> String) -> Value {
    let arms: serde_json::Map<String, Value> = summary.arms.iter().map(|(arm, report)| (arm.name().to_owned(), arm_json(report))).collect();
    let probes: serde_json::Map<String, Value> =
        probes::of(summary.arms.keys().copied()).into_iter().map(|probe| (probe.to_owned(), summary.probes.count(probe).into())).collect();
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
        "faults": summary.faults,
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
        "written": report.totals.used.written,
        "output": report.totals.used.output,
        "facts": report.facts,
        "sources": report.sources,
        "request_classes": report.classes,
        "upkeep": report.upkeep,
        "dollars": report.totals.tiered as f64 / 1e9,
        "dollars_flat": report.totals.flat as f64 / 1e9,
        "dollars_request": a_request(report) as f64 / 1e9,
        "dollars_median": report.cost_at(500_000) as f64 / 1e9,
        "dollars_10th": report.cost_at(100_000) as f64 / 1e9,
        "dollars_90th": report.cost_at(900_000) as f64 / 1e9,
        "after_commit_ppm": report.after_ppm,
        "commits_in_detail": if report.sessions == 1 { json!(report.commits_in_detail) } else { Value::Null },
        "tax_ppm": Tax::of(report).map(|tax| json!({ "measured": tax.measured, "by_the_rule": tax.ruled, "after_to_freed": tax.plain })),
        "rewrites": report.rewrites,
        "reasoning_lost": report.reasoning_lost,
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

/// What the columns of a trace mean.
const COLUMNS: [&str; 6] = [
    "tokens    true count of the window, overhead included",
    "estimate  the runtime's count+margin; the margin is the worst of its last eight under-estimates and at least 5% of the budget;",
    "          ! where the true count is above both: before the first answer, without reported usage, where text turns dense",
    "rewrite   tokens that a commit would make the provider read anew, were it made now",
    "read      tokens that the next request would read from the cache as things stand",
    "cached, fresh: of this step's request; dollars: so far",
];

/// A session step by step; `at` shows one step and its neighbours.
///
/// # Errors
/// Standard output cannot be written.
pub fn steps(steps: &[Step], at: Option<usize>) -> Result<(), String> {
    COLUMNS.into_iter().try_for_each(line)?;
    let near = |step: &&Step| at.is_none_or(|at| step.op.abs_diff(at) <= 3);
    let rows = steps.iter().filter(near).map(|step| {
        vec![
            format!("{} {}", step.op, step.name),
            fixed(step.ms, 3, 1),
            thousands(step.messages as u64),
            thousands(step.tokens),
            estimate(step),
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

/// The runtime's count and margin, and whether the truth is above both; nothing in an arm without a runtime.
fn estimate(step: &Step) -> String {
    if step.occupancy == 0 {
        return String::new();
    }
    let above = if step.tokens > step.occupancy.saturating_add(step.margin) { "! " } else { "" };
    format!("{above}{}+{}", thousands(step.occupancy), thousands(step.margin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_rounded_half_up_and_never_cut_off() {
        assert_eq!((per_cent(49_499), per_cent(49_500), per_cent(999_950)), ("4.9%".into(), "5.0%".into(), "100.0%".into()));
        assert_eq!((dollars(49_999), dollars(50_000), dollars(1_999_950_000)), ("0.0000".into(), "0.0001".into(), "2.0000".into()));
        assert_eq!((money(99_999_999), money(100_000_000), money(15_045_100_000)), ("$0.1000".into(), "$0.10".into(), "$15.05".into()));
        assert_eq!((fixed(3_995, 3, 2), fixed(1_234, 3, 3)), ("4.00".into(), "1.234".into()));
    }

    #[test]
    fn a_table_of_arms_fits_a_terminal_and_has_a_row_for_every_cause() {
        let report = |cause| Report { rewrites: BTreeMap::from([(cause, 1_234_567), ("commit", 1)]), ..Report::default() };
        let text =
            arms(&BTreeMap::from([(Arm::Fold, report("runtime and host")), (Arm::None, report("navigation")), (Arm::Native, report("host omit"))]));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{text}");
        let row = |name: &str| text.lines().find(|line| line.contains(name)).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(row("rewrites by cause").as_deref(), Some("│ rewrites by cause 1,234,568 1,234,568 1,234,568 │"));
        assert_eq!(row("navigation").as_deref(), Some("│ navigation 0 1,234,567 0 │"));
    }

    #[test]
    fn the_short_table_has_the_long_ones_rows_and_fits_eighty_columns() {
        let large = Report { peak: 1_048_576, ..Report::default() };
        let reports = BTreeMap::from([(Arm::Fold, large.clone()), (Arm::None, large.clone()), (Arm::Native, large)]);
        let (long, short) = (arms(&reports), arms_in_short(&reports));
        assert_eq!(short.lines().filter(|line| line.starts_with('│')).count(), FIRST.len() + 1, "{short}");
        let names = |text: &str| text.lines().filter_map(|line| Some(line.split_once("  ")?.0.to_owned())).collect::<Vec<_>>();
        assert!(names(&short).iter().all(|name| names(&long).contains(name)), "{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
    }

    #[test]
    fn paths_that_nobody_took_are_named_in_a_warning_and_nothing_is_said_where_there_are_none() {
        assert_eq!(warning(&[]), None);
        assert!(warning(&["one path", "another"]).is_some_and(|text| text.starts_with("warning: no session took one path, another;")));
    }

    #[test]
    fn a_true_count_above_estimate_and_margin_is_marked_in_a_trace() {
        let step = |tokens| Step { tokens, occupancy: 9_000, margin: 1_000, ..Step::default() };
        assert_eq!((estimate(&step(10_000)).as_str(), estimate(&step(10_001)).as_str()), ("9,000+1,000", "! 9,000+1,000"));
    }
}
