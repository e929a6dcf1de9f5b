//! `cargo xtask ledger`: published totals billed again with our prices.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_models::price::Prices;
use fold_models::published::{Class, Run, Verdict, read};
use fold_sim::screen::{Json, line};
use fold_sim::table::{dollars, per_cent, table, thousands};
use fold_sim::world;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Published ledgers billed again: what our prices make of their totals, and whether that is what was paid.
#[derive(clap::Args)]
pub struct Arguments {
    /// Extracts of campaigns: JSON with `runs`, each with its `usage`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The model whose prices are taken. The published campaigns were billed at those of the default, whatever model they name.
    #[arg(long, default_value = "gpt-5.5")]
    model: String,
    /// Also write what the screen shows as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Whether no bill contradicts the prices.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let json = Json::at(arguments.json.as_deref(), &arguments.files)?;
    let prices = Prices::bundled();
    let row = prices.newest(&arguments.model).ok_or_else(|| {
        let known: Vec<&str> = prices.rows().iter().map(|row| row.model.as_str()).collect();
        format!("there are no prices of {}; there are some of {}", arguments.model, known.join(", "))
    })?;
    line(&format!("prices: {} of {}, {}", row.model, row.date, row.source))?;
    let (mut files, mut clean) = (Vec::new(), true);
    for file in &arguments.files {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name} could not be read: {error}"))?;
        let runs = read(&text).map_err(|why| format!("{name}: {why}"))?;
        line("")?;
        line(&name.to_string())?;
        let (mut rows, mut values, mut sums) = (Vec::new(), Vec::new(), BTreeMap::<&str, Sum>::new());
        for run in &runs {
            let check = run.check(row);
            clean &= check.verdict != Verdict::Contradicted;
            let tier = check.above.zip(check.tier).filter(|(_, (_, most))| *most > 0);
            let told = |(above, (least, most)): (i128, (u64, u64))| format!("{} ({} to {})", signed(above), dollars(least), dollars(most));
            rows.push(vec![
                run.id.clone(),
                thousands(run.requests),
                thousands(run.used.fresh),
                thousands(run.used.cached),
                thousands(run.used.output),
                dollars(check.flat),
                tier.map_or_else(|| check.above.map_or_else(String::new, |_| "0".to_owned()), told),
                run.bill.map_or_else(String::new, |bill| dollars(bill.beside)),
                run.bill.map_or_else(String::new, |bill| dollars(bill.total)),
                check.verdict.words().to_owned(),
            ]);
            values.push(value(run, &check));
            let sum = sums.entry(&run.arm).or_default();
            sum.runs += 1;
            sum.flat += check.flat;
            sum.paid = sum.paid.zip(run.bill).map(|(paid, bill)| paid + bill.total);
        }
        let head = ["run", "requests", "fresh", "cached", "output", "base rates", "long tier (least to most)", "beside", "paid", "verdict"];
        for line_of_table in table(&head, rows).lines() {
            line(line_of_table)?;
        }
        for (arm, Sum { runs, flat, paid }) in &sums {
            let paid = paid.map_or_else(String::new, |paid| format!(", paid {}", dollars(paid)));
            line(&format!("{arm}: {runs} runs, {} dollars at the base rates{paid}", dollars(*flat)))?;
        }
        if runs.iter().any(|run| run.bill.is_some_and(|bill| bill.long > 0)) {
            line(
                "What the long tier added cannot be derived from totals: it is what was paid above the base rates, and its limits are those of so many requests of that size.",
            )?;
        }
        let classes = if runs.iter().any(|run| !run.classes.is_empty()) { by_class(&runs)? } else { Value::Null };
        files.push(json!({ "file": name.to_string(), "runs": values, "request_classes": classes }));
    }
    json.write(&json!({ "schema": 1, "model": row.model, "date": row.date, "source": row.source, "files": files, "contradicted": !clean }))?;
    Ok(clean)
}

/// Tokens of a class: read, and all.
type Share = (u64, u64);

fn share((read, all): Share) -> String {
    if all == 0 { String::new() } else { per_cent(u64::try_from(u128::from(read) * 1_000_000 / u128::from(all)).unwrap_or(0)) }
}

/// What the longest common prefix had and what was served, request class by request class, beside our plain prefix cache over our campaign. Nothing of ours
/// is fitted: seed 0 of the profile, the published steps of 128 tokens, no router.
fn by_class(runs: &[Run]) -> Result<Value, String> {
    let (model, _) = world::metered(&draw(Profile::Campaign, 0), Arm::Fold)?;
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    let sum = |classes: &[&Class]| {
        let add = |pick: fn(&Class) -> Share| classes.iter().fold((0, 0), |sum: Share, class| (sum.0 + pick(class).0, sum.1 + pick(class).1));
        (add(|class| class.ideal), add(|class| class.served))
    };
    let mut tell = |run: &str, class: &str, requests: u64, ideal: Share, served: Share| {
        rows.push(vec![run.to_owned(), class.to_owned(), thousands(requests), share(ideal), share(served)]);
        values
            .push(json!({ "run": run, "class": class, "requests": requests, "longest_prefix": [ideal.0, ideal.1], "served": [served.0, served.1] }));
    };
    let with: Vec<&Run> = runs.iter().filter(|run| !run.classes.is_empty()).collect();
    for run in &with {
        for class in &run.classes {
            tell(&run.id, &class.name, class.requests, class.ideal, class.served);
        }
        let all: Vec<&Class> = run.classes.iter().collect();
        let (ideal, served) = sum(&all);
        tell(&run.id, "all", all.iter().map(|class| class.requests).sum(), ideal, served);
    }
    let names: BTreeSet<&str> = with.iter().flat_map(|run| &run.classes).map(|class| class.name.as_str()).collect();
    for name in names {
        let all: Vec<&Class> = with.iter().flat_map(|run| &run.classes).filter(|class| class.name == name).collect();
        let (ideal, served) = sum(&all);
        tell("all of them", name, all.iter().map(|class| class.requests).sum(), ideal, served);
    }
    // Ours are both: the longest prefix in steps is what its cache serves.
    for (name, [requests, read, prompt]) in &model.report.classes {
        tell("the model, seed 0", name, *requests, (*read, *prompt), (*read, *prompt));
    }
    let all = model.report.classes.values().fold((0, 0, 0), |sum, class| (sum.0 + class[0], sum.1 + class[1], sum.2 + class[2]));
    tell("the model, seed 0", "all", all.0, (all.1, all.2), (all.1, all.2));
    line("")?;
    line("cached share by request class: of the longest common prefix with the request before, and as served")?;
    for text in table(&["run", "requests that came", "requests", "longest prefix", "served"], rows).lines() {
        line(text)?;
    }
    Ok(json!(values))
}

/// What the runs of an arm cost together; `paid` where every one of them says so.
struct Sum {
    runs: u64,
    flat: u64,
    paid: Option<u64>,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { runs: 0, flat: 0, paid: Some(0) }
    }
}

fn signed(nano: i128) -> String {
    let sign = if nano < 0 { "-" } else { "" };
    format!("{sign}{}", dollars(u64::try_from(nano.unsigned_abs()).unwrap_or(u64::MAX)))
}

fn value(run: &Run, check: &fold_models::published::Check) -> Value {
    json!({
        "run": run.id,
        "arm": run.arm,
        "requests": run.requests,
        "fresh": run.used.fresh,
        "cached": run.used.cached,
        "written": run.used.written,
        "output": run.used.output,
        "base_nano_dollars": check.flat,
        "tier_nano_dollars": check.above,
        "tier_limits_nano_dollars": check.tier,
        "summarizer_nano_dollars": check.summarizer,
        "beside_nano_dollars": run.bill.map(|bill| bill.beside),
        "paid_nano_dollars": run.bill.map(|bill| bill.total),
        "verdict": check.verdict.words(),
    })
}
