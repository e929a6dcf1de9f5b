//! What requests cost: dated prices, and the ledger of an arm.
//!
//! A price is per token, in whole nano-dollars (one dollar a million tokens is 1,000), so that sums are exact. Where a model has a second
//! tier it applies to every token of a request whose input, cached or not, is strictly above the tier's threshold.

use std::collections::BTreeMap;
use std::fmt;

/// Nano-dollars per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// A prompt token that was not cached.
    pub input: u64,
    /// A prompt token read from the cache.
    pub cached: u64,
    /// A prompt token written to a cache that charges for writing; 0 where writing costs nothing and is not reported.
    pub written: u64,
    /// A generated token.
    pub output: u64,
}

/// Rates of long requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The largest input, in tokens, that is still short.
    pub input_tokens: u64,
    /// What every token of a longer request costs.
    #[serde(rename = "nano_dollars_per_token")]
    pub rates: Rates,
}

/// What a model cost from a day on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Who bills.
    pub provider: String,
    /// Over which wire.
    pub wire: String,
    /// For which model.
    pub model: String,
    /// The day it was read, `YYYY-MM-DD`.
    pub date: String,
    /// Where, in words.
    pub source: String,
    /// The base rates.
    #[serde(rename = "nano_dollars_per_token")]
    pub rates: Rates,
    /// The rates of long requests, if they differ.
    #[serde(default)]
    pub above: Option<Tier>,
    /// A prompt token written to a cache that keeps it for an hour instead of five minutes, where that can be had: nano-dollars.
    #[serde(default)]
    pub written_for_an_hour: Option<u64>,
}

/// What one request used, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Used {
    /// Prompt tokens neither read from nor written to a cache.
    pub fresh: u64,
    /// Prompt tokens read from a cache.
    pub cached: u64,
    /// Prompt tokens written to one.
    pub written: u64,
    /// Generated tokens.
    pub output: u64,
}

impl From<fold_runtime::journal::Usage> for Used {
    fn from(usage: fold_runtime::journal::Usage) -> Self {
        Used { fresh: usage.input, cached: usage.cache_read, written: usage.cache_write, output: usage.output }
    }
}

/// What one request cost, in nano-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// As billed.
    pub tiered: u64,
    /// As it would be without the second tier.
    pub flat: u64,
    /// Whether it was long.
    pub long: bool,
}

impl Rates {
    /// What so many tokens cost at these rates, in nano-dollars.
    pub fn of(&self, used: Used) -> u64 {
        self.input * used.fresh + self.cached * used.cached + self.written * used.written + self.output * used.output
    }
}

impl Row {
    /// The cost of a request.
    ///
    /// ```
    /// use fold_models::price::{Prices, Used};
    /// let row = Prices::bundled().find("openai", "openai-chat", "gpt-5.5", "2026-12-01").cloned().expect("a price");
    /// let cost = row.cost(Used { fresh: 72_000, cached: 200_000, written: 0, output: 1_000 });
    /// assert_eq!((cost.tiered, cost.long), (72_000 * 5_000 + 200_000 * 500 + 1_000 * 30_000, false));
    /// ```
    pub fn cost(&self, used: Used) -> Cost {
        let input = used.fresh + used.cached + used.written;
        let flat = self.rates.of(used);
        match self.above.filter(|tier| input > tier.input_tokens) {
            Some(tier) => Cost { tiered: tier.rates.of(used), flat, long: true },
            None => Cost { tiered: flat, flat, long: false },
        }
    }

    /// The same for whoever writes for an hour; nothing where that cannot be had, or where long requests have a rate of their own for it, which no
    /// table tells.
    pub fn for_an_hour(&self) -> Option<Row> {
        let written = self.written_for_an_hour.filter(|_| self.above.is_none())?;
        Some(Row { rates: Rates { written, ..self.rates }, ..self.clone() })
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in [("provider", &self.provider), ("wire", &self.wire), ("model", &self.model), ("source", &self.source)] {
            if value.trim().is_empty() {
                return Err(format!("\"{name}\" is empty; it says what the price is of"));
            }
        }
        if !is_date(&self.date) {
            return Err(format!("\"date\" is \"{}\"; it is a day, YYYY-MM-DD", self.date));
        }
        let Rates { input, cached, written: _, output } = self.rates;
        if input == 0 || output == 0 {
            return Err("input and output cost something; a price of 0 is a price that was forgotten".into());
        }
        if cached > input {
            return Err(format!("a cached token costs {cached}, more than a fresh one ({input})"));
        }
        if self.written_for_an_hour.is_some_and(|hour| hour <= self.rates.written) {
            return Err("\"written_for_an_hour\" is no more than \"written\"; what is kept longer costs more".into());
        }
        let Some(Tier { input_tokens, rates }) = self.above else { return Ok(()) };
        if input_tokens == 0 {
            return Err("\"above.input_tokens\" is 0, so the base rates would never apply".into());
        }
        let pairs = [(rates.input, input), (rates.cached, cached), (rates.written, self.rates.written), (rates.output, output)];
        if pairs.iter().any(|(above, base)| above < base) {
            return Err("a rate of \"above\" is lower than its base rate; a long request is never cheaper".into());
        }
        Ok(())
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |part: &str, length: usize| if part.len() == length && part.bytes().all(|b| b.is_ascii_digit()) { part.parse().ok() } else { None };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days: u32 = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A table of prices that was checked when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices(Vec<Row>);

/// Why a table of prices was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceError(String);

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PriceError {}

impl Prices {
    /// Reads a table: a JSON array of rows, at most one per provider, wire, model and date.
    ///
    /// # Errors
    /// [`PriceError`] says which row is wrong, and how.
    ///
    /// ```
    /// let error = fold_models::price::Prices::read("[{}]").unwrap_err();
    /// assert!(error.to_string().contains("missing field `provider`"));
    /// ```
    pub fn read(json: &str) -> Result<Self, PriceError> {
        let rows: Vec<Row> = serde_json::from_str(json).map_err(|error| PriceError(format!("the price table cannot be read: {error}")))?;
        let mut seen = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            let number = index + 1;
            let name = format!("row {number} ({} {} {} {})", row.provider, row.wire, row.model, row.date);
            row.check().map_err(|why| PriceError(format!("{name}: {why}")))?;
            if let Some(first) = seen.insert((&row.provider, &row.wire, &row.model, &row.date), number) {
                return Err(PriceError(format!("{name}: row {first} has the same provider, wire, model and date")));
            }
        }
        Ok(Prices(rows))
    }

    /// The table that comes with this crate.
    pub fn bundled() -> Self {
        Self::read(include_str!("../data/prices.json")).expect("the bundled table passes its own checks")
    }

    /// What a model cost on a day (`YYYY-MM-DD`): the newest row that is not later.
    pub fn find(&self, provider: &str, wire: &str, model: &str, day: &str) -> Option<&Row> {
        let of_model = |row: &&Row| row.provider == provider && row.wire == wire && row.model == model && row.date.as_str() <= day;
        self.0.iter().filter(of_model).max_by(|one, other| one.date.cmp(&other.date))
    }

    /// The newest row of a model, whoever bills it over whichever wire.
    pub fn newest(&self, model: &str) -> Option<&Row> {
        self.0.iter().filter(|row| row.model == model).max_by(|one, other| one.date.cmp(&other.date))
    }

    /// Its rows.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

/// What an arm used and what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests, summarizers' included.
    pub requests: u64,
    /// Requests above the tier's threshold.
    pub long: u64,
    /// Tokens.
    pub used: Used,
    /// Nano-dollars as billed.
    pub tiered: u64,
    /// Nano-dollars without the second tier.
    pub flat: u64,
}

impl Totals {
    /// Adds one request.
    pub fn add(&mut self, used: Used, cost: Cost) {
        self.merge(Totals { requests: 1, long: u64::from(cost.long), used, tiered: cost.tiered, flat: cost.flat });
    }

    /// Adds other totals.
    pub fn merge(&mut self, other: Totals) {
        self.requests += other.requests;
        self.long += other.long;
        self.used.fresh += other.used.fresh;
        self.used.cached += other.used.cached;
        self.used.written += other.used.written;
        self.used.output += other.used.output;
        self.tiered += other.tiered;
        self.flat += other.flat;
    }
}

/// The totals of several arms.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ledger(BTreeMap<String, Totals>);

impl Ledger {
    /// Bills a request to an arm; gives its cost.
    pub fn bill(&mut self, arm: &str, row: &Row, used: Used) -> Cost {
        let cost = row.cost(used);
        if !self.0.contains_key(arm) {
            self.0.insert(arm.to_owned(), Totals::default());
        }
        self.0.get_mut(arm).expect("just put in").add(used, cost);
        cost
    }

    /// Adds another ledger, arm by arm.
    pub fn merge(&mut self, other: &Ledger) {
        for (arm, totals) in &other.0 {
            self.0.entry(arm.clone()).or_default().merge(*totals);
        }
    }

    /// The totals of an arm; zeros if nothing was billed to it.
    pub fn arm(&self, arm: &str) -> Totals {
        self.0.get(arm).copied().unwrap_or_default()
    }

    /// Every arm, by name.
    pub fn arms(&self) -> impl Iterator<Item = (&str, &Totals)> {
        self.0.iter().map(|(arm, totals)| (arm.as_str(), totals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Prices::bundled().find("openai", "openai-responses", "gpt-5.5", "2027-01-01").cloned().expect("a price")
    }

    #[test]
    fn the_tier_applies_strictly_above_its_threshold_and_to_the_whole_request() {
        let at = Used { fresh: 2_000, cached: 270_000, written: 0, output: 100 };
        assert_eq!(row().cost(at), Cost { tiered: 148_000_000, flat: 148_000_000, long: false });
        let above = Used { fresh: 2_001, ..at };
        let cost = row().cost(above);
        assert_eq!(cost, Cost { tiered: 2_001 * 10_000 + 270_000 * 1_000 + 100 * 45_000, flat: 148_005_000, long: true });
    }

    #[test]
    fn observed_requests_fall_on_the_observed_side_of_the_tier() {
        let long = |fresh| row().cost(Used { fresh, ..Used::default() }).long;
        assert_eq!([267_186, 271_964, 272_000, 272_001, 272_210, 272_658].map(long), [false, false, false, true, true, true]);
    }

    #[test]
    fn a_price_is_the_newest_that_is_not_later_than_the_day() {
        let text = |date: &str, input: u64| {
            format!(
                r#"{{"provider":"p","wire":"w","model":"m","date":"{date}","source":"here","nano_dollars_per_token":{{"input":{input},"cached":1,"written":0,"output":9}}}}"#
            )
        };
        let prices = Prices::read(&format!("[{},{}]", text("2026-03-01", 8), text("2026-01-01", 4))).expect("a table");
        let on = |day| prices.find("p", "w", "m", day).map(|row| row.rates.input);
        assert_eq!([on("2025-12-31"), on("2026-01-01"), on("2026-02-28"), on("2026-03-01")], [None, Some(4), Some(4), Some(8)]);
        assert_eq!(prices.find("p", "w", "other", "2026-03-01"), None);
    }

    #[test]
    fn a_table_with_a_fault_is_refused_with_the_row_and_the_reason() {
        let good = r#"{"provider":"p","wire":"w","model":"m","date":"2026-02-28","source":"here","nano_dollars_per_token":{"input":4,"cached":1,"written":0,"output":9},"above":{"input_tokens":5,"nano_dollars_per_token":{"input":4,"cached":1,"written":0,"output":9}}}"#;
        assert!(Prices::read(&format!("[{good}]")).is_ok());
        let faults = [
            ("\"p\"", "\" \"", "\"provider\" is empty"),
            ("2026-02-28", "2026-02-29", "it is a day"),
            ("2026-02-28", "28.2.2026", "it is a day"),
            ("\"output\":9}}}", "\"output\":8}}}", "never cheaper"),
            ("\"input_tokens\":5", "\"input_tokens\":0", "would never apply"),
            (
                "{\"input\":4,\"cached\":1,\"written\":0,\"output\":9},",
                "{\"input\":4,\"cached\":5,\"written\":0,\"output\":9},",
                "more than a fresh one",
            ),
            ("{\"input\":4,\"cached\":1,\"written\":0,\"output\":9},", "{\"input\":4,\"cached\":1,\"written\":0,\"output\":0},", "forgotten"),
            ("\"input\":4,", "\"input\":4.5,", "cannot be read"),
            ("\"wire\"", "\"wires\"", "unknown field `wires`"),
            ("\"date\"", "\"written_for_an_hour\":0,\"date\"", "kept longer costs more"),
        ];
        for (from, to, why) in faults {
            let error = Prices::read(&format!("[{}]", good.replacen(from, to, 1))).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let error = Prices::read(&format!("[{good},{good}]")).expect_err("twice").to_string();
        assert!(error.contains("row 2") && error.contains("row 1 has the same"), "{error}");
    }

    #[test]
    fn what_is_written_for_an_hour_has_a_price_of_its_own() {
        let row = Prices::bundled().newest("claude-opus-4-8").cloned().expect("a price");
        let hour = row.for_an_hour().expect("a price for an hour");
        let used = Used { written: 1_000, ..Used::default() };
        assert_eq!((row.cost(used).flat, hour.cost(used).flat), (6_250_000, 10_000_000));
        assert_eq!(Prices::bundled().newest("gpt-5.5").and_then(Row::for_an_hour), None);
    }

    #[test]
    fn a_ledger_adds_up_per_arm_and_merges_exactly() {
        let (mut one, mut other, mut all) = (Ledger::default(), Ledger::default(), Ledger::default());
        for (index, fresh) in [1_000u64, 300_000, 7].into_iter().enumerate() {
            let used = Used { fresh, cached: 10, written: 0, output: 3 };
            let arm = if index == 2 { "native" } else { "fold" };
            let cost = if index == 0 { one.bill(arm, &row(), used) } else { other.bill(arm, &row(), used) };
            assert_eq!(all.bill(arm, &row(), used), cost);
        }
        one.merge(&other);
        assert_eq!(one, all);
        let fold = all.arm("fold");
        assert_eq!((fold.requests, fold.long, fold.used), (2, 1, Used { fresh: 301_000, cached: 20, written: 0, output: 6 }));
        assert_eq!((fold.tiered - fold.flat, all.arms().count(), all.arm("none")), (300_000 * 5_000 + 10 * 500 + 3 * 15_000, 2, Totals::default()));
    }

    #[test]
    fn a_reported_usage_is_billed_as_it_is() {
        let used = Used::from(crate::provider::usage(1_000, 640, 128, 5));
        assert_eq!(used, Used { fresh: 232, cached: 640, written: 128, output: 5 });
    }
}
