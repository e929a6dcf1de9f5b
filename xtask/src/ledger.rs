//! `cargo xtask ledger`: published totals billed again with our prices.

use fold_models::price::Prices;
use fold_models::published::{Run, Verdict, read};
use fold_sim::screen::{Json, line};
use fold_sim::table::{dollars, table, thousands};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
        files.push(json!({ "file": name.to_string(), "runs": values }));
    }
    json.write(&json!({ "schema": 1, "model": row.model, "date": row.date, "source": row.source, "files": files, "contradicted": !clean }))?;
    Ok(clean)
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
