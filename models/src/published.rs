//! Published ledgers: the totals of runs that others paid for, billed again with our prices.
//!
//! A total has no requests in it, so that of what a second tier added only the limits can be said: it was paid for so many requests, each of which was
//! over the threshold and none larger than the largest that was seen.

use crate::price::{Rates, Row, Used};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The totals of one run, as they were published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// Who managed its context.
    pub arm: String,
    /// Requests of the agent.
    pub requests: u64,
    /// Tokens of the agent.
    pub used: Used,
    /// What was paid, if that was published.
    pub bill: Option<Bill>,
    /// What a summarizer used, if that was published.
    pub summarizer: Option<Used>,
    /// Its requests by what came before each, where that was published.
    pub classes: Vec<Class>,
}

/// Requests of one class: what came before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// How many.
    pub requests: u64,
    /// Tokens that the longest common prefix with the request before would have had, and all of them, by the publisher's own count.
    pub ideal: (u64, u64),
    /// Tokens that the provider read from its cache, and all of them, as it reported.
    pub served: (u64, u64),
}

/// What was paid for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// For the agent's requests, in nano-dollars.
    pub agent: u64,
    /// For requests beside them, in nano-dollars.
    pub beside: u64,
    /// All of it, in nano-dollars.
    pub total: u64,
    /// How many of the agent's requests were long.
    pub long: u64,
    /// The largest request, in input tokens.
    pub peak: u64,
}

/// What our prices say of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The agent's tokens at the base rates, in nano-dollars.
    pub flat: u64,
    /// What the second tier may have added, least and most, in nano-dollars; nothing where no bill tells how many requests were long.
    pub tier: Option<(u64, u64)>,
    /// What the bill has above the base rates, in nano-dollars; negative where it has less.
    pub above: Option<i128>,
    /// The summarizer's tokens at the base rates, in nano-dollars.
    pub summarizer: Option<u64>,
    /// What follows.
    pub verdict: Verdict,
}

/// Whether a bill is the one our prices make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// To the cent: no request was long, and every part is derived.
    Reproduced,
    /// The base rates and the published parts add up to the cent; what the second tier added lies within what it may have been.
    WithinTier,
    /// No bill was published beside the totals.
    Unbilled,
    /// It is another one.
    Contradicted,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced to the cent",
            Verdict::WithinTier => "adds up to the cent; the surcharge lies within its limits",
            Verdict::Unbilled => "no bill was published",
            Verdict::Contradicted => "contradicted",
        }
    }
}

/// Half a cent in nano-dollars: sums that differ by less are the same to the cent.
const HALF_A_CENT: u64 = 5_000_000;

impl Run {
    /// The run billed at a row's rates.
    pub fn check(&self, row: &Row) -> Check {
        let flat = row.rates.of(self.used);
        let summarizer = self.summarizer.map(|used| row.rates.of(used));
        let Some(bill) = self.bill else { return Check { flat, tier: None, above: None, summarizer, verdict: Verdict::Unbilled } };
        let above = i128::from(bill.agent) - i128::from(flat);
        let tier = self.tier(&bill, row);
        let adds_up =
            bill.total.abs_diff(bill.agent + bill.beside) < HALF_A_CENT && summarizer.is_none_or(|own| own.abs_diff(bill.beside) < HALF_A_CENT);
        let half = i128::from(HALF_A_CENT);
        let verdict = match tier {
            (least, most) if adds_up && (i128::from(least) - half..i128::from(most) + half).contains(&above) => {
                // What was paid beside the requests is derived only where its tokens are known.
                let derived = bill.long == 0 && (bill.beside == 0 || summarizer.is_some());
                if derived { Verdict::Reproduced } else { Verdict::WithinTier }
            }
            _ => Verdict::Contradicted,
        };
        Check { flat, tier: Some(tier), above: Some(above), summarizer, verdict }
    }

    /// The least and the most that the second tier may have added, in nano-dollars.
    fn tier(&self, bill: &Bill, row: &Row) -> (u64, u64) {
        let Some(tier) = row.above.filter(|_| bill.long > 0) else { return (0, 0) };
        let more = |above: u64, base: u64| above - base;
        let Rates { input, cached, written, output } = row.rates;
        let (fresh, read) = (more(tier.rates.input, input), more(tier.rates.cached, cached));
        let input_tokens = self.used.fresh + self.used.cached;
        // The cheapest tokens first, of as few as make every long request long; the dearest first, of as many as the largest allows.
        let (least, most) = ((bill.long * (tier.input_tokens + 1)).min(input_tokens), (bill.long * bill.peak).min(input_tokens));
        let taken = |tokens: u64, first: u64| (tokens.min(first), tokens - tokens.min(first));
        let (cheap, dear) = taken(least, self.used.cached);
        let (dearest, rest) = taken(most, self.used.fresh);
        let spoken = self.used.output * more(tier.rates.output, output) + self.used.written * more(tier.rates.written, written);
        (cheap * read + dear * fresh, dearest * fresh + rest * read + spoken)
    }
}

/// Reads a published extract.
///
/// # Errors
/// What is missing, and in which run.
pub fn read(json: &str) -> Result<Vec<Run>, String> {
    let file: File = serde_json::from_str(json).map_err(|error| format!("no ledger of published totals: {error}"))?;
    if file.runs.is_empty() {
        return Err("no ledger of published totals: there is no run in it".to_owned());
    }
    file.runs.into_iter().map(Published::run).collect()
}

#[derive(Deserialize)]
struct File {
    runs: Vec<Published>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Published {
    run_id: String,
    arm: String,
    usage: Usage,
    billed: Option<Billed>,
    context_events: Option<Events>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Events {
    #[serde(default)]
    counterfactual_by_request_class: BTreeMap<String, Ideal>,
    #[serde(default)]
    observed_cache_by_request_class: BTreeMap<String, Observed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ideal {
    requests: u64,
    ideal_cached_tokens: u64,
    projected_tokens: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Observed {
    cache_read: u64,
    prompt_tokens: u64,
}

impl Events {
    fn classes(self) -> Vec<Class> {
        let Events { counterfactual_by_request_class: ideal, observed_cache_by_request_class: observed } = self;
        let class = |(name, Ideal { requests, ideal_cached_tokens, projected_tokens }): (String, Ideal)| {
            let served = observed.get(&name).map_or((0, 0), |served| (served.cache_read, served.prompt_tokens));
            Class { name, requests, ideal: (ideal_cached_tokens, projected_tokens), served }
        };
        ideal.into_iter().map(class).collect()
    }
}

/// One shape has the agent's totals here, the other has them apart from the summarizer's, with what each cost.
#[derive(Deserialize)]
#[serde(untagged)]
enum Usage {
    #[serde(rename_all = "camelCase")]
    Split {
        message_responses: Paid,
        native_compactions: Paid,
        all_provider: Paid,
        long_context_message_calls: u64,
        peak_prompt_tokens: u64,
    },
    Whole(Tokens),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    requests: u64,
    input_fresh: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paid {
    calls: u64,
    input_fresh: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    usd: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Billed {
    message_calls_usd: f64,
    long_context_calls: u64,
    peak_prompt_tokens: u64,
    out_of_band_usd: f64,
    total_usd: f64,
}

impl Paid {
    fn used(&self) -> Used {
        Used { fresh: self.input_fresh, cached: self.cache_read, written: self.cache_write, output: self.output }
    }
}

impl Published {
    fn run(self) -> Result<Run, String> {
        let Published { run_id: id, arm, usage, billed, context_events } = self;
        let classes = context_events.map_or_else(Vec::new, Events::classes);
        let run = |requests, used, bill, summarizer| Run { id: id.clone(), arm: arm.clone(), requests, used, bill, summarizer, classes };
        let nano = |usd| nano(usd).ok_or_else(|| format!("run {id}: {usd} is no amount of dollars"));
        match usage {
            Usage::Whole(Tokens { requests, input_fresh, cache_read, cache_write, output }) => {
                let used = Used { fresh: input_fresh, cached: cache_read, written: cache_write, output };
                let bill = |billed: &Billed| {
                    let (agent, beside, total) = (nano(billed.message_calls_usd)?, nano(billed.out_of_band_usd)?, nano(billed.total_usd)?);
                    Ok::<_, String>(Bill { agent, beside, total, long: billed.long_context_calls, peak: billed.peak_prompt_tokens })
                };
                Ok(run(requests, used, billed.as_ref().map(bill).transpose()?, None))
            }
            Usage::Split {
                message_responses: own,
                native_compactions: beside,
                all_provider: all,
                long_context_message_calls: long,
                peak_prompt_tokens: peak,
            } => {
                let bill = Bill { agent: nano(own.usd)?, beside: nano(beside.usd)?, total: nano(all.usd)?, long, peak };
                Ok(run(own.calls, own.used(), Some(bill), Some(beside.used())))
            }
        }
    }
}

/// Dollars as nano-dollars; published sums carry the errors of the additions they were made by, far below one.
fn nano(usd: f64) -> Option<u64> {
    let nano = (usd * 1e9).round();
    if nano.partial_cmp(&0.0)? == Ordering::Less || nano >= 1e18 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above, and whole")]
    let nano = nano as u64;
    Some(nano)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::Prices;

    fn row() -> Row {
        Prices::bundled().find("openai", "openai-responses", "gpt-5.5", "2027-01-01").cloned().expect("a price")
    }

    /// The four rows that were published for pi-fold 2.x, agents and summarizers together: stages 1 to 56, and whole runs.
    #[test]
    fn the_published_pairings_of_the_second_generation_reproduce_to_the_cent() {
        let rows = [
            // fresh, cached, output, total tokens, cents at the base rates, cents as published
            (1_249_415, 8_309_760, 38_951, 9_598_126, 1_157, 1_157),
            (1_322_539, 14_602_240, 86_390, 16_011_169, 1_651, 2_100),
            (1_489_599, 9_895_936, 49_778, 11_435_313, 1_389, 1_389),
            (1_407_978, 15_510_016, 52_760, 16_970_754, 1_638, 2_118),
        ];
        for (fresh, cached, output, total, flat, published) in rows {
            let cost = row().rates.of(Used { fresh, cached, written: 0, output });
            assert_eq!((fresh + cached + output, (cost + HALF_A_CENT) / 10_000_000), (total, flat));
            // What lies between is the second tier of requests that were published by their number alone (17 and 20): stated, and within its limits.
            let (bill, long) = (published * 10_000_000, if published == flat { 0 } else { 17 });
            let run = Run {
                id: String::new(),
                arm: String::new(),
                requests: 0,
                used: Used { fresh, cached, written: 0, output },
                bill: Some(Bill { agent: bill, beside: 0, total: bill, long, peak: 372_000 }),
                summarizer: None,
                classes: Vec::new(),
            };
            let verdict = run.check(&row()).verdict;
            assert_eq!(verdict, if long == 0 { Verdict::Reproduced } else { Verdict::WithinTier });
        }
    }

    fn steward(agent: f64, long: u64, total: f64) -> Check {
        let json = format!(
            r#"{{"runs":[{{"runId":"r","arm":"native","usage":{{"requests":3,"inputFresh":1000000,"cacheRead":1000000,"cacheWrite":0,"output":10000}},
            "billed":{{"messageCallsUsd":{agent},"longContextCalls":{long},"peakPromptTokens":900000,"outOfBandUsd":0.5,"totalUsd":{total}}}}}]}}"#
        );
        read(&json).expect("a ledger")[0].check(&row())
    }

    #[test]
    fn a_bill_is_contradicted_where_no_request_makes_it() {
        // 5.80 at the base rates. One long request of 272,001 tokens adds 0.136 at least, one of 900,000 adds 4.50 and 0.15 for the words at most.
        assert_eq!(steward(5.8, 0, 6.3).verdict, Verdict::WithinTier, "what was paid beside has no tokens");
        assert_eq!(steward(5.8, 0, 6.2).verdict, Verdict::Contradicted, "the parts are not the whole");
        assert_eq!(steward(5.9, 0, 6.4).verdict, Verdict::Contradicted, "a surcharge without a long request");
        assert_eq!(steward(5.9, 1, 6.4).verdict, Verdict::Contradicted, "less than a long request adds");
        assert_eq!(
            steward(5.95, 1, 6.45),
            Check {
                flat: 5_800_000_000,
                tier: Some((136_000_500, 4_650_000_000)),
                above: Some(150_000_000),
                summarizer: None,
                verdict: Verdict::WithinTier
            }
        );
        assert_eq!(steward(10.5, 1, 11.0).verdict, Verdict::Contradicted, "more than the largest one adds");
        assert_eq!(steward(5.7, 0, 6.2).verdict, Verdict::Contradicted, "less than the base rates");
    }

    #[test]
    fn a_summarizer_whose_tokens_are_published_is_billed_too() {
        let json = |usd: f64| {
            let paid = |calls: u64, fresh: u64, output: u64, usd: f64| {
                format!(r#"{{"calls":{calls},"inputFresh":{fresh},"cacheRead":0,"cacheWrite":0,"output":{output},"usd":{usd}}}"#)
            };
            let (own, beside, all) = (paid(2, 1_000_000, 10_000, 5.3), paid(1, 100_000, 1_000, usd), paid(3, 1_100_000, 11_000, 5.3 + usd));
            format!(
                r#"{{"runs":[{{"runId":"r","arm":"native","usage":{{"messageResponses":{own},"nativeCompactions":{beside},"allProvider":{all},"longContextMessageCalls":0,"peakPromptTokens":9}}}}]}}"#
            )
        };
        let verdict = |usd| read(&json(usd)).expect("a ledger")[0].check(&row()).verdict;
        assert_eq!([verdict(0.53), verdict(0.54)], [Verdict::Reproduced, Verdict::Contradicted]);
    }

    #[test]
    fn requests_by_class_are_read_with_what_the_longest_prefix_had_and_what_was_served() {
        let json = r#"{"runs":[{"runId":"r","arm":"pifold","usage":{"requests":1,"inputFresh":1,"cacheRead":0,"cacheWrite":0,"output":1},"contextEvents":{
            "counterfactualByRequestClass":{"after-fold":{"requests":6,"idealCachedTokens":1399,"projectedTokens":503998,"counterfactualCacheShare":0.0}},
            "observedCacheByRequestClass":{"after-fold":{"requests":6,"cacheRead":1024,"promptTokens":510000}}}}]}"#;
        let class = Class { name: "after-fold".to_owned(), requests: 6, ideal: (1_399, 503_998), served: (1_024, 510_000) };
        assert_eq!(read(json).expect("a ledger")[0].classes, vec![class]);
    }

    #[test]
    fn what_is_no_ledger_is_refused() {
        for (json, why) in [("{}", "runs"), (r#"{"runs":[]}"#, "no run"), (r#"{"runs":[{"runId":"r","arm":"a","usage":{}}]}"#, "no ledger")] {
            let error = read(json).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let negative = r#"{"runs":[{"runId":"r","arm":"a","usage":{"requests":1,"inputFresh":1,"cacheRead":0,"cacheWrite":0,"output":1},"billed":{"messageCallsUsd":-1.0,"longContextCalls":0,"peakPromptTokens":1,"outOfBandUsd":0,"totalUsd":0}}]}"#;
        assert!(read(negative).expect_err("negative").contains("run r: -1 is no amount of dollars"));
    }
}
