//! The band, swept: how deep a commit cuts and how late it comes, and the tax that each pays.

use fold_invariants::owed::Arm;
use fold_models::agent::Plan;
use fold_sim::screen::line;
use fold_sim::table::{Tax, dollars, fixed, per_cent, table, thousands};
use fold_sim::world;
use serde_json::{Value, json};

/// Shares of the budget in per cent: where a commit fires, and where it stops.
const BANDS: [(u64, u64); 11] = [(80, 20), (21, 20), (30, 20), (80, 10), (80, 35), (80, 40), (60, 20), (70, 20), (90, 20), (90, 40), (60, 40)];

/// Runs every band through the fold arm; the table, and the same as JSON.
pub(super) fn bands(plan: &Plan) -> Result<Value, String> {
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for (max, min) in BANDS {
        let mut swept = plan.clone();
        let settings = swept.settings.as_object_mut().ok_or("the drawn settings are no object")?;
        let share = |percent: u64| serde_json::from_str::<Value>(&format!("0.{percent:02}")).unwrap_or_default();
        settings.insert(
            "thresholds".to_owned(),
            json!({ "maxTarget": share(max), "minTarget": share(min), "consolidateAfter": 10, "minFoldChars": 8_000 }),
        );
        let (run, meters) = world::metered(&swept, Arm::Fold)?;
        if let Some(broken) = run.violation {
            return Err(format!("the band {max} to {min} broke {}: expected {}, seen {}", broken.invariant, broken.expected, broken.seen));
        }
        let nominal = min * 1_000_000 / (max - min);
        let measured = Tax::of(&run.report).map(|tax| tax.measured);
        let totals = meters.iter().next().map(|meter| meter.totals).unwrap_or_default();
        rows.push(vec![
            format!("{max}% to {min}%"),
            thousands(run.report.commits),
            fixed(nominal, 6, 3),
            measured.map_or_else(String::new, |ppm| fixed(ppm, 6, 3)),
            thousands(totals.used.fresh),
            thousands(totals.used.cached),
            per_cent(run.report.cached_ppm()),
            dollars(totals.tiered),
        ]);
        values.push(json!({
            "max_percent": max, "min_percent": min, "commits": run.report.commits, "tax_nominal_ppm": nominal, "tax_measured_ppm": measured,
            "fresh": totals.used.fresh, "cached": totals.used.cached, "nano_dollars": totals.tiered,
        }));
    }
    line("")?;
    line(
        "the band: where a commit fires and where it stops, in shares of the budget; the rewrite tax is what a commit makes the provider read anew",
    )?;
    line("of every token that came since the one before, by the rule min/(max-min) and as measured; first cache of the tables above")?;
    let head = ["band", "commits", "tax by the rule", "tax measured", "fresh", "cached", "cached share", "dollars"];
    for text in table(&head, rows).lines() {
        line(text)?;
    }
    Ok(json!(values))
}
