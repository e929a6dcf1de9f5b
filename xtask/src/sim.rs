//! `cargo xtask sim` and `cargo xtask trace`: seeds through arms, a table, and where something broke the way back to it.

use fold_invariants::owed::Arm;
use fold_models::agent::{Plan, Profile, draw};
use fold_runtime::journal::Digest;
use fold_sim::report::Run;
use fold_sim::run::{Found, Summary, plan, seed, smallest, trace};
use fold_sim::sabotage::Sabotage;
use fold_sim::screen::{Json, line};
use fold_sim::table;
use fold_sim::world::Options;
use serde::Serialize;
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Violations that are shrunk and stored; more of them are counted.
const SHRUNK: usize = 3;

#[derive(clap::Args)]
pub struct Arguments {
    /// The seeds to run, `A..B` without B; by default 2,000 of swarm, 400 of steady, 4 of endless and campaign, 6 of chat.
    #[arg(long, value_parser = range)]
    seeds: Option<Range<u64>>,
    /// swarm, steady, endless, chat or campaign.
    #[arg(long, default_value = "swarm")]
    profile: Profile,
    /// Which arms, separated by commas: fold, none, native, mask.
    #[arg(long, value_delimiter = ',', default_value = "fold,none,native")]
    arm: Vec<Arm>,
    /// Sessions at a time; all cores by default.
    #[arg(long, value_parser = jobs)]
    jobs: Option<usize>,
    /// Also write what the screen shows as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Runs a stored plan instead of seeds.
    #[arg(long, conflicts_with_all = ["seeds", "profile"])]
    plan: Option<PathBuf>,
    /// Runs that shrinking one failing plan may take; 0 leaves it as it is.
    #[arg(long, default_value_t = 600)]
    shrink: usize,
    /// Plants a bug, to see the checks find it; a name that does not exist lists those that do.
    #[arg(long)]
    sabotage: Option<Sabotage>,
}

pub fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("seeds are a range A..B with A below B, such as 0..2000, not {text}");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let range = from.parse().map_err(|_| wrong())?..to.parse().map_err(|_| wrong())?;
    if range.is_empty() { Err(wrong()) } else { Ok(range) }
}

fn jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| *jobs > 0);
    jobs.ok_or_else(|| "give a number from 1 up; without --jobs every core has a session".to_owned())
}

/// How many seeds a profile is run over unless told otherwise.
fn usual(profile: Profile) -> Range<u64> {
    0..match profile {
        Profile::Swarm => 2_000,
        Profile::Steady => 400,
        Profile::Endless => 4,
        Profile::Chat => 6,
        Profile::Campaign => 4,
    }
}

/// Whether everything held.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let options = Options { sabotage: arguments.sabotage, ..Options::default() };
    let mut arms = arguments.arm.clone();
    arms.sort_unstable();
    arms.dedup();
    let report = Json::at(arguments.json.as_deref(), arguments.plan.as_slice())?;
    if let Some(file) = &arguments.plan {
        return stored(file, &arms, options, report);
    }
    let seeds = arguments.seeds.clone().unwrap_or_else(|| usual(arguments.profile));
    let names: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
    let (profile, flag) = (arguments.profile.name(), sabotage_flag(options));
    line(&format!("seeds {}..{} of profile {profile}, arms {}{flag}", seeds.start, seeds.end, names.join(", ")))?;
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (seconds, summary) = fold_sim::screen::timed(|| all(arguments.profile, seeds.clone(), &arms, jobs, options));
    let summary = summary?;
    // Only the profile that draws everything should have taken every path.
    let full = arguments.profile == Profile::Swarm && seeds == usual(arguments.profile) && Arm::DEFAULT.iter().all(|arm| arms.contains(arm));
    table::print(&summary, arguments.profile, seconds, full)?;
    let reproduce = |found: &Found| reproduce(arguments.profile, found, options);
    let mut plans = Vec::new();
    for (index, found) in summary.found.iter().enumerate() {
        tell(found, &reproduce(found))?;
        if index == SHRUNK {
            line("  (plans of further violations are not shrunk; their seeds show them again)")?;
        }
        let kept = (index < SHRUNK).then(|| shrink(draw(arguments.profile, found.seed), found, options, arguments.shrink));
        plans.push(kept.transpose()?);
    }
    let seeds = json!({ "from": seeds.start, "to": seeds.end });
    let mut value = table::json(&summary, "seeds", seeds, seconds, &reproduce);
    value["profile"] = json!(arguments.profile.name());
    value["sabotage"] = json!(planted(options));
    for (violation, plan) in value["violations"].as_array_mut().into_iter().flatten().zip(plans) {
        violation["plan"] = json!(plan);
    }
    report.write(&value)?;
    Ok(summary.found.is_empty())
}

type Runs = Result<Vec<Run>, String>;

/// Every seed through every arm, in whatever order, summed in the order of the seeds.
fn all(profile: Profile, seeds: Range<u64>, arms: &[Arm], jobs: usize, options: Options) -> Result<Summary, String> {
    let next = AtomicU64::new(seeds.start);
    let done: Mutex<Vec<(u64, Runs)>> = Mutex::new(Vec::new());
    let total = seeds.end - seeds.start;
    // Sessions share nothing, so only whole ones are spread over threads.
    std::thread::scope(|scope| {
        for _ in 0..total.min(jobs as u64) {
            scope.spawn(|| {
                // The end of the range is never passed, however near to the largest number it is.
                let take = |at: u64| (at < seeds.end).then(|| at + 1);
                while let Ok(at) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                    let runs = seed(profile, at, arms, options);
                    let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    done.push((at, runs));
                    progress(done.len() as u64, total);
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    let mut summary = Summary::default();
    for (at, runs) in done {
        summary.add(at, runs?);
    }
    Ok(summary)
}

/// Whole steady sessions that one core runs in a second, every check on.
pub fn sessions_per_second() -> Result<f64, String> {
    let (seconds, summary) = fold_sim::screen::timed(|| all(Profile::Steady, 0..400, &[Arm::Fold], 1, Options::default()));
    let summary = summary?;
    if summary.found.is_empty() {
        Ok(summary.seeds() as f64 / seconds)
    } else {
        Err("a steady session broke an invariant; see cargo xtask sim --profile steady".into())
    }
}

fn progress(done: u64, total: u64) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() && (done.is_multiple_of(20) || done == total) {
        let end = if done == total { "\n" } else { "" };
        let _ = write!(stderr, "\r{done} of {total} seeds{end}");
    } else if !stderr.is_terminal() && done.is_multiple_of((total / 4).max(1)) {
        let _ = writeln!(stderr, "{done} of {total} seeds");
    }
}

/// The name of the planted bug.
fn planted(options: Options) -> Option<&'static str> {
    let known = options.sabotage.and_then(|sabotage| Sabotage::ALL.into_iter().find(|(known, _)| *known == sabotage));
    known.map(|(_, name)| name)
}

fn sabotage_flag(options: Options) -> String {
    planted(options).map_or(String::new(), |name| format!(" --sabotage {name}"))
}

fn reproduce(profile: Profile, found: &Found, options: Options) -> String {
    let (seed, arm) = (found.seed, found.violation.arm);
    format!("cargo xtask sim --profile {} --seeds {seed}..{} --arm {arm}{}", profile.name(), seed + 1, sabotage_flag(options))
}

/// The same of a stored plan.
fn reproduce_plan(file: &Path, found: &Found, options: Options) -> String {
    format!("cargo xtask sim --plan {} --arm {}{}", file.display(), found.violation.arm, sabotage_flag(options))
}

fn tell(found: &Found, reproduce: &str) -> Result<(), String> {
    let violation = &found.violation;
    line(&format!("VIOLATION of {} by {}, seed {}, operation {}", violation.invariant, violation.arm, found.seed, violation.step))?;
    line(&format!("  expected: {}", violation.expected))?;
    line(&format!("  seen:     {}", violation.seen))?;
    line(&format!("  again:    {reproduce}"))
}

/// A plan that was stored.
#[derive(Serialize)]
struct Stored {
    file: PathBuf,
    operations: usize,
    operations_before: usize,
}

/// Stores the smallest plan that breaks the same invariant, or with no tries the plan itself. The beginning of its own digest is in its
/// name: no plan takes the place of another.
fn shrink(plan: Plan, found: &Found, options: Options, tries: usize) -> Result<Stored, String> {
    let operations_before = plan.ops.len();
    let small = smallest(plan, &found.violation, options, tries);
    let text = serde_json::to_string_pretty(&small).map_err(|error| format!("a plan could not be written: {error}"))?;
    let sabotage = planted(options).map_or(String::new(), |name| format!("-{name}"));
    let digest = Digest::of(text.as_bytes()).to_string();
    let folder = Path::new("target/plans");
    let file = folder.join(format!("{}-{}{sabotage}-{}.json", found.violation.invariant, found.seed, &digest[..8]));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, text))
        .map_err(|error| format!("{} could not be written: {error}", file.display()))?;
    let how = if tries == 0 { "stored:   " } else { "shrunk:   " };
    let to = if tries == 0 { String::new() } else { format!(" to {}", small.ops.len()) };
    line(&format!("  {how}{operations_before} operations{to}, in {}; {}", file.display(), reproduce_plan(&file, found, options)))?;
    Ok(Stored { file, operations: small.ops.len(), operations_before })
}

fn read(file: &Path) -> Result<Plan, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{} could not be read: {error}", file.display()))?;
    Plan::parse(&text).map_err(|why| format!("{}: {why}", file.display()))
}

/// A stored plan: the whole table, and every step of the fold arm where it breaks.
fn stored(file: &Path, arms: &[Arm], options: Options, report: Json<'_>) -> Result<bool, String> {
    let stored = read(file)?;
    line(&format!(
        "plan {} of seed {} of profile {}, {} operations{}",
        file.display(),
        stored.seed,
        stored.profile.name(),
        stored.ops.len(),
        sabotage_flag(options)
    ))?;
    let (seconds, runs) = fold_sim::screen::timed(|| plan(&stored, arms, options));
    let mut summary = Summary::default();
    summary.add(stored.seed, runs?);
    table::print(&summary, stored.profile, seconds, false)?;
    let reproduce = |found: &Found| reproduce_plan(file, found, options);
    summary.found.iter().try_for_each(|found| tell(found, &reproduce(found)))?;
    let mut value = table::json(&summary, "plan", json!(file.display().to_string()), seconds, &reproduce);
    value["profile"] = json!(stored.profile.name());
    value["seed"] = json!(stored.seed);
    value["operations"] = json!(stored.ops.len());
    value["sabotage"] = json!(planted(options));
    report.write(&value)?;
    Ok(summary.found.is_empty())
}

#[derive(clap::Args)]
pub struct TraceArguments {
    /// The seed.
    #[arg(required_unless_present = "plan")]
    seed: Option<u64>,
    /// swarm, steady, endless, chat or campaign.
    #[arg(long, default_value = "swarm")]
    profile: Profile,
    /// Traces a stored plan instead of a seed.
    #[arg(long, conflicts_with_all = ["seed", "profile"])]
    plan: Option<PathBuf>,
    /// fold, none, native or mask.
    #[arg(long, default_value = "fold")]
    arm: Arm,
    /// Only this operation and the few around it.
    #[arg(long)]
    at: Option<usize>,
    /// Plants a bug; a name that does not exist lists them.
    #[arg(long)]
    sabotage: Option<Sabotage>,
    /// Also write every step as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One session step by step.
pub fn trace_one(arguments: &TraceArguments) -> Result<bool, String> {
    let report = Json::at(arguments.json.as_deref(), arguments.plan.as_slice())?;
    let (plan, from) = match (&arguments.plan, arguments.seed) {
        (Some(file), _) => (read(file)?, format!("plan {} of ", file.display())),
        (None, seed) => (draw(arguments.profile, seed.unwrap_or_default()), String::new()),
    };
    let options = Options { sabotage: arguments.sabotage, ..Options::default() };
    line(&format!(
        "{from}seed {} of profile {}, arm {}{}: window {} tokens, overhead {}, settings {}",
        plan.seed,
        plan.profile.name(),
        arguments.arm.name(),
        sabotage_flag(options),
        plan.window,
        plan.world.overhead_tokens,
        plan.settings
    ))?;
    let (run, steps) = trace(&plan, arguments.arm, arguments.sabotage)?;
    let last = steps.last().map_or(0, |step| step.op);
    if let Some(at) = arguments.at.filter(|at| *at > last) {
        return Err(format!("--at {at} is behind the end of the session, which is operation {last}"));
    }
    table::steps(&steps, arguments.at)?;
    let mut violation = json!(run.violation);
    if let Some(broken) = &run.violation {
        let found = Found { seed: plan.seed, violation: broken.clone() };
        let again = match &arguments.plan {
            Some(file) => reproduce_plan(file, &found, options),
            None => reproduce(plan.profile, &found, options),
        };
        tell(&found, &again)?;
        violation["reproduce"] = json!(again);
    }
    report.write(&json!({
        "schema": 1,
        "plan": arguments.plan,
        "seed": plan.seed,
        "profile": plan.profile.name(),
        "arm": arguments.arm.name(),
        "sabotage": planted(options),
        "window": plan.window,
        "overhead": plan.world.overhead_tokens,
        "settings": plan.settings,
        "steps": steps,
        "violation": violation,
        "digest": run.digest,
    }))?;
    Ok(run.violation.is_none())
}
