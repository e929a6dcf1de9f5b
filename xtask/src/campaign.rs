//! `cargo xtask campaign`: the 64-stage assignment through the arms, before every provider's cache and price at once.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_sim::meters::{Meter, Meters};
use fold_sim::report::{Report, Run};
use fold_sim::screen::{Json, line};
use fold_sim::table::{dollars, per_cent, table, thousands};
use fold_sim::world;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The 64-stage assignment through the arms, before every cache and price that is modelled: what each would have read, written and cost.
#[derive(clap::Args)]
pub struct Arguments {
    /// The seed of the assignment.
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    let plan = draw(Profile::Campaign, arguments.seed);
    line(&format!("seed {} of the campaign: 64 stages in a window of {} tokens", arguments.seed, thousands(plan.window)))?;
    let (mut came, mut found) = (Vec::new(), Vec::new());
    for arm in Arm::ALL {
        let (Run { report, violation, .. }, meters) = world::metered(&plan, arm)?;
        found.extend(violation);
        came.push(Came { arm, report, meters });
    }
    let first = came.first().ok_or("there is no arm")?;
    for (at, meter) in first.meters.iter().enumerate() {
        line("")?;
        let price = meter
            .price
            .as_ref()
            .map_or_else(|| "whoever runs the model pays for the machine".to_owned(), |row| format!("{} of {}", row.model, row.date));
        line(&format!("{}: {price}", meter.cache))?;
        let rows = came.iter().filter_map(|of| Some(row(of, of.meters.iter().nth(at)?)));
        for text in table(&["arm", "requests", "read", "written", "fresh", "read share", "dollars", "without the tier"], rows).lines() {
            line(text)?;
        }
    }
    let early: Vec<&str> = came.iter().filter(|of| !of.report.stops.is_empty()).map(|of| of.arm.name()).collect();
    if !early.is_empty() {
        line(&format!("{} ended early, at a full window: what it would have cost to go on is not in its row.", early.join(", ")))?;
    }
    for violation in &found {
        line(&format!("VIOLATION of {} by {}: expected {}, seen {}", violation.invariant, violation.arm, violation.expected, violation.seen))?;
    }
    let arms: Vec<Value> = came.iter().map(value).collect();
    json.write(&json!({ "schema": 1, "seed": arguments.seed, "window": plan.window, "arms": arms, "violations": found }))?;
    Ok(found.is_empty())
}

fn row(of: &Came, meter: &Meter) -> Vec<String> {
    let used = meter.totals.used;
    let prompt = used.fresh + used.cached + used.written;
    let cost = |nano: u64| if meter.price.is_some() { dollars(nano) } else { String::new() };
    vec![
        of.arm.name().to_owned(),
        thousands(of.report.totals.requests),
        thousands(used.cached),
        thousands(used.written),
        thousands(used.fresh),
        per_cent((used.cached * 1_000_000).checked_div(prompt).unwrap_or(0)),
        cost(meter.totals.tiered),
        cost(meter.totals.flat),
    ]
}

fn value(of: &Came) -> Value {
    let meters: Vec<Value> = of
        .meters
        .iter()
        .map(|meter| {
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
            })
        })
        .collect();
    json!({
        "arm": of.arm.name(),
        "requests": of.report.totals.requests,
        "commits": of.report.commits,
        "rewrites": of.report.rewrites,
        "ended_early": of.report.stops,
        "caches": meters,
    })
}
