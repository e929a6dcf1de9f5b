//! `cargo xtask campaign`: the 64-stage assignment through the arms, before every provider's cache and price at once, and the least that folding could cost before each.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_models::price::{Prices, Totals};
use fold_sim::meters::{Meter, Meters};
use fold_sim::optimum::course::Course;
use fold_sim::optimum::{Optimum, Planner, measure};
use fold_sim::report::{Report, Run};
use fold_sim::screen::{Json, line, wrapped};
use fold_sim::table::{dollars, fixed, per_cent, table, thousands};
use fold_sim::world;
use serde_json::{Value, json};
use std::path::PathBuf;

mod plots;
mod published;
mod sweep;

/// The 64-stage assignment through the arms, before every cache and price that is modelled: what each would have read, written and cost.
#[derive(clap::Args)]
pub struct Arguments {
    /// The seed of the assignment.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Options of the policy in the place of those drawn, as JSON.
    #[arg(long)]
    settings: Option<String>,
    /// Also draw it: pictures of occupancy, of cost, and of cost against facts kept, as SVG in this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Also write what the screen shows as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The arms that came to the end of it, or how far they came.
struct Came {
    arm: Arm,
    report: Report,
    meters: Meters,
}

/// Whether no invariant was broken.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let json = Json::at(arguments.json.as_deref(), &[])?;
    let mut plan = draw(Profile::Campaign, arguments.seed);
    if let Some(text) = &arguments.settings {
        let options: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(|why| format!("--settings is no JSON object: {why}"))?;
        plan.settings.as_object_mut().ok_or("the drawn settings are no object")?.extend(options);
    }
    line(&format!("seed {} of the campaign: 64 stages in a window of {} tokens", arguments.seed, thousands(plan.window)))?;
    let (mut came, mut found) = (Vec::new(), Vec::new());
    for arm in Arm::ALL {
        let (Run { report, violation, .. }, meters) = world::metered(&plan, arm)?;
        found.extend(violation);
        came.push(Came { arm, report, meters });
    }
    let first = came.first().ok_or("there is no arm")?;
    let course = Course::of(&plan)?;
    let planner = Planner::new(&course);
    let fold = came.iter().filter(|of| of.arm == Arm::Fold);
    let kept = fold.flat_map(|of| &of.report.commits_in_detail).map(|commit| commit.after).min().unwrap_or(0);
    let least = |meter: &Meter| {
        let optimum = |kept| planner.optimum(meter.geometry, meter.price.as_ref(), kept);
        Ok(Least { any: optimum(0)?, keeping: optimum(kept)? })
    };
    let leasts: Vec<Least> = first.meters.iter().map(least).collect::<Result<_, String>>()?;
    for (at, (meter, least)) in first.meters.iter().zip(&leasts).enumerate() {
        line("")?;
        let price = meter
            .price
            .as_ref()
            .map_or_else(|| "whoever runs the model pays for the machine".to_owned(), |row| format!("{} of {}", row.model, row.date));
        line(&format!("{}: {price}", meter.cache))?;
        let arms = came.iter().filter_map(|of| Some((of.arm.name(), of.meters.iter().nth(at)?.totals, of.report.stops.is_empty())));
        let optima = [("optimum", least.any.totals, true), ("optimum, keeping", least.keeping.totals, true)];
        let rows = arms.chain(optima).map(|(arm, totals, ended)| row(arm, &totals, meter, ended.then_some(least)));
        let head = ["arm", "requests", "read", "written", "fresh", "read share", "dollars", "without the tier", "of optimum", "keeping"];
        for text in table(&head, rows).lines() {
            line(text)?;
        }
    }
    for text in wrapped(&OF_OPTIMUM.replace("{kept}", &thousands(kept)), 120) {
        line(&text)?;
    }
    line("")?;
    line("where the sixteen facts were when the last message asked for them")?;
    let classes = ["raw", "brief", "clipped", "one peek", "several peeks", "absent"];
    let seen = |of: &Came| {
        let counts = classes.iter().map(|class| of.report.facts.get(class).copied().unwrap_or(0).to_string());
        std::iter::once(of.arm.name().to_owned()).chain(counts).collect()
    };
    for text in table(&["arm", classes[0], classes[1], classes[2], classes[3], classes[4], classes[5]], came.iter().map(seen)).lines() {
        line(text)?;
    }
    // The published dollars were made of gpt-5.5's prices.
    let rates = Prices::bundled().newest("gpt-5.5").ok_or("the price table has no gpt-5.5")?.rates;
    let published = published::beside(&came, &rates)?;
    let bands = sweep::bands(&plan)?;
    if let Some(folder) = &arguments.svg {
        for path in plots::write(&came, plan.window, folder)? {
            line(&format!("drawn: {}", path.display()))?;
        }
    }
    let early: Vec<&str> = came.iter().filter(|of| !of.report.stops.is_empty()).map(|of| of.arm.name()).collect();
    if !early.is_empty() {
        line(&format!("{} ended early, at a full window: what it would have cost to go on is not in its row.", early.join(", ")))?;
    }
    for violation in &found {
        line(&format!("VIOLATION of {} by {}: expected {}, seen {}", violation.invariant, violation.arm, violation.expected, violation.seen))?;
    }
    let arms: Vec<Value> = came.iter().map(|of| value(of, &leasts)).collect();
    let optima = |which: fn(&Least) -> &Optimum| -> Vec<Value> {
        first.meters.iter().zip(&leasts).map(|(meter, least)| optimum_value(meter, which(least))).collect()
    };
    json.write(&json!({
        "schema": 2,
        "seed": arguments.seed,
        "window": plan.window,
        "arms": arms,
        "optimum": optima(|least| &least.any),
        "optimum_keeping": { "tokens": kept, "caches": optima(|least| &least.keeping) },
        "published": published,
        "bands": bands,
        "violations": found,
    }))?;
    Ok(found.is_empty())
}

/// The least that folding can cost before one cache.
struct Least {
    any: Optimum,
    /// Where every commit leaves as many tokens as the policy's own do.
    keeping: Optimum,
}

/// Said below the tables.
const OF_OPTIMUM: &str = "optimum knows every request beforehand and folds by the law's own cuts, but when and as deep as is cheapest before this cache. \
    What is good about raw work stands in no bill, so it keeps none; \"keeping\", it leaves at least {kept} tokens, as every commit of fold did. \
    The last two columns are an arm's dollars, or its fresh tokens where nobody bills, over the least that any such plan costs. \
    An arm that does what the planner may not can be below 1: native forgets, and a clip is cheaper than a fold.";

/// What an arm costs of the least that folding can cost, in millionths.
fn of_optimum(totals: &Totals, meter: &Meter, optimum: &Optimum) -> u64 {
    let cost = u128::from(measure(totals, meter.price.as_ref()));
    u64::try_from(cost * 1_000_000 / u128::from(optimum.least.max(1))).unwrap_or(u64::MAX)
}

/// An arm that ended early is not compared.
fn row(arm: &str, totals: &Totals, meter: &Meter, least: Option<&Least>) -> Vec<String> {
    let used = totals.used;
    let prompt = used.fresh + used.cached + used.written;
    let cost = |nano: u64| if meter.price.is_some() { dollars(nano) } else { String::new() };
    let of = |optimum: Option<&Optimum>| optimum.map_or_else(String::new, |optimum| fixed(of_optimum(totals, meter, optimum), 6, 3));
    vec![
        arm.to_owned(),
        thousands(totals.requests),
        thousands(used.cached),
        thousands(used.written),
        thousands(used.fresh),
        per_cent((used.cached * 1_000_000).checked_div(prompt).unwrap_or(0)),
        cost(totals.tiered),
        cost(totals.flat),
        of(least.map(|least| &least.any)),
        of(least.map(|least| &least.keeping)),
    ]
}

/// The optimum before one cache.
fn optimum_value(meter: &Meter, optimum: &Optimum) -> Value {
    let (used, priced) = (optimum.totals.used, meter.price.as_ref());
    let commits: Vec<Value> = optimum
        .commits
        .iter()
        .map(|commit| json!({ "request": commit.request, "tokens_before": commit.before, "tokens_after": commit.after }))
        .collect();
    json!({
        "cache": meter.cache,
        "least": optimum.least,
        "least_of": if priced.is_some() { "nano_dollars" } else { "fresh" },
        "read": used.cached,
        "written": used.written,
        "fresh": used.fresh,
        "output": used.output,
        "nano_dollars": priced.map(|_| optimum.totals.tiered),
        "nano_dollars_without_tier": priced.map(|_| optimum.totals.flat),
        "commits": commits,
    })
}

fn value(of: &Came, leasts: &[Least]) -> Value {
    let meters: Vec<Value> = of
        .meters
        .iter()
        .zip(leasts)
        .map(|(meter, least)| {
            let of = |optimum| of.report.stops.is_empty().then(|| of_optimum(&meter.totals, meter, optimum));
            let (used, priced) = (meter.totals.used, meter.price.as_ref());
            json!({
                "cache": meter.cache,
                "model": priced.map(|row| &row.model),
                "price_date": priced.map(|row| &row.date),
                "read": used.cached,
                "written": used.written,
                "fresh": used.fresh,
                "output": used.output,
                "nano_dollars": priced.map(|_| meter.totals.tiered),
                "nano_dollars_without_tier": priced.map(|_| meter.totals.flat),
                "of_optimum_ppm": of(&least.any),
                "of_optimum_keeping_ppm": of(&least.keeping),
            })
        })
        .collect();
    json!({
        "arm": of.arm.name(),
        "requests": of.report.totals.requests,
        "commits": of.report.commits,
        "commits_in_detail": of.report.commits_in_detail,
        "rewrites": of.report.rewrites,
        "facts": of.report.facts,
        "upkeep": of.report.upkeep,
        "prompts": of.meters.prompts(),
        "ended_early": of.report.stops,
        "caches": meters,
    })
}
