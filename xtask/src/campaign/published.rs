//! What others measured on the assignment that this campaign imitates, beside what the model gives.
//!
//! Theirs were live runs of a model that decided by itself how often to ask; ours sends one request for every batch, whoever manages the window. So shares and
//! ratios are comparable, totals are not.

use super::Came;
use fold_invariants::owed::Arm;
use fold_models::price::{Rates, Used};
use fold_sim::screen::line;
use fold_sim::table::{dollars, fixed, table, thousands};
use serde_json::{Value, json};

/// A row of the results published for pi-fold 3.0: one turn of 64 stages, a budget of 251,520 tokens, sixteen questions afterwards.
struct Published {
    condition: &'static str,
    arm: Arm,
    correct: &'static str,
    wrong: &'static str,
    cents: u64,
    fresh: u64,
    cached: u64,
}

/// The five conditions (pi-fold 3.0, its README, section "Results"). No output tokens were published, and no requests.
const RESULTS: [Published; 5] = [
    Published { condition: "Compaction", arm: Arm::Native, correct: "4", wrong: "3", cents: 15_124, fresh: 7_640_000, cached: 160_200_000 },
    Published {
        condition: "Compaction + memory store",
        arm: Arm::NativeStore,
        correct: "14",
        wrong: "0",
        cents: 20_170,
        fresh: 9_650_000,
        cached: 231_700_000,
    },
    Published {
        condition: "pi-fold, deterministic briefs",
        arm: Arm::Fold,
        correct: "11.3 avg",
        wrong: "3.5 avg",
        cents: 9_365,
        fresh: 5_740_000,
        cached: 91_200_000,
    },
    Published {
        condition: "pi-fold + memory store",
        arm: Arm::FoldStore,
        correct: "14",
        wrong: "0",
        cents: 10_085,
        fresh: 5_570_000,
        cached: 102_200_000,
    },
    Published {
        condition: "pi-fold, agent-written briefs",
        arm: Arm::FoldBriefs,
        correct: "3",
        wrong: "9",
        cents: 11_196,
        fresh: 7_120_000,
        cached: 108_800_000,
    },
];

/// Fresh and cached tokens of pi-fold against itself, folds applied at once and by epochs (pi-fold 2.x, its README, the second experiment).
const IMMEDIATE: (u64, u64) = (19_623_502, 2_658_304);
/// See [`IMMEDIATE`].
const EPOCH: (u64, u64) = (3_603_440, 11_185_664);

fn millions(tokens: u64) -> String {
    format!("{} M", fixed(tokens, 6, 2))
}

fn count(counts: &std::collections::BTreeMap<&'static str, u64>, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| counts.get(name)).sum()
}

/// The tables, on the screen and as JSON. `rates` are those that the published dollars were made of.
pub(super) fn beside(came: &[Came], rates: &Rates) -> Result<Value, String> {
    line("")?;
    line("the five conditions as published, and the arms of the model")?;
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for row in &RESULTS {
        let Some(of) = came.iter().find(|of| of.arm == row.arm) else { continue };
        // What is left pays for the answers, for the tier and for whatever was not told.
        let input = rates.of(Used { fresh: row.fresh, cached: row.cached, ..Used::default() });
        let (used, seen) = (of.report.totals.used, &of.report.facts);
        let (sight, call) = (count(seen, &["raw", "brief"]), count(seen, &["clipped", "one peek", "several peeks"]));
        rows.push(vec![
            row.condition.to_owned(),
            format!("{} / {}", row.correct, row.wrong),
            dollars(row.cents * 10_000_000),
            dollars(input),
            millions(row.fresh),
            millions(row.cached),
            of.arm.name().to_owned(),
            millions(used.fresh),
            millions(used.cached),
            dollars(of.report.totals.tiered),
            format!("{sight} / {call} / {}", count(seen, &["absent"])),
        ]);
        values.push(json!({
            "condition": row.condition, "published_cents": row.cents, "published_input_nano_dollars": input,
            "published_fresh": row.fresh, "published_cached": row.cached, "arm": of.arm.name(),
            "facts_in_sight": sight, "facts_one_call_away": call, "facts_absent": count(seen, &["absent"]),
        }));
    }
    let head = [
        "published",
        "right / wrong",
        "dollars",
        "of them input, at most",
        "fresh",
        "cached",
        "arm",
        "fresh",
        "cached",
        "dollars",
        "in sight / a call / absent",
    ];
    for text in table(&head, rows).lines() {
        line(text)?;
    }
    let fresh = |arm: Arm| came.iter().find(|of| of.arm == arm).map_or(0, |of| of.report.totals.used.fresh);
    let (at_once, epochs) = (fresh(Arm::FoldImmediate), fresh(Arm::Fold));
    let ratio = |one: u64, other: u64| (one * 1_000_000).checked_div(other).unwrap_or(0);
    line("")?;
    line(&format!(
        "folds applied at once against epochs: published {} and {} fresh tokens, {} times as many; the model {} and {}, {} times",
        millions(IMMEDIATE.0),
        millions(EPOCH.0),
        fixed(ratio(IMMEDIATE.0, EPOCH.0), 6, 1),
        millions(at_once),
        millions(epochs),
        fixed(ratio(at_once, epochs), 6, 1),
    ))?;
    line("read again because the window had lost it, in tokens:")?;
    let reread = |of: &Came| {
        let upkeep = &of.report.upkeep;
        let tokens = count(upkeep, &["tokens read again"]);
        let looked = count(upkeep, &["tokens peeked", "tokens recalled"]);
        vec![of.arm.name().to_owned(), thousands(tokens), thousands(looked)]
    };
    for text in table(&["arm", "sources read again", "peeked or recalled"], came.iter().map(reread)).lines() {
        line(text)?;
    }
    Ok(json!({
        "results": values,
        "immediate_over_epoch_ppm": { "published": ratio(IMMEDIATE.0, EPOCH.0), "model": ratio(at_once, epochs) },
    }))
}
