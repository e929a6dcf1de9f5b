//! What an arm did and what it cost. Reports add up: of two seeds, of two shards.

use crate::run::Fault;
use fold_invariants::owed::Arm;
use fold_invariants::probes::Probes;
use fold_models::price::Totals;
use fold_runtime::journal::Digest;
use serde::Serialize;
use std::collections::BTreeMap;

/// A broken invariant, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// The arm that owes it.
    pub arm: &'static str,
    /// The operation of the plan, counted from 0.
    pub step: usize,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub seen: String,
}

/// A commit in true tokens, which the runtime does not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// The window when it was made, and when its edits stood.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// What stands before the earliest target.
    pub prefix: u64,
    /// What the next request sent anew of what had been sent: everything after the first changed byte that was not appended since.
    pub resent: u64,
    /// Tokens appended since the commit before, or since the start.
    pub appended: u64,
}

/// One arm's doings.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sessions.
    pub sessions: u64,
    /// Requests and what they cost.
    pub totals: Totals,
    /// Commits of the runtime.
    pub commits: u64,
    /// Rewrites of the cached prefix, by whose doing.
    pub rewrites: BTreeMap<&'static str, u64>,
    /// True tokens of signed reasoning that rewrites made the provider drop, each once.
    pub reasoning_lost: u64,
    /// Folds made, parents among them, and folds that gave every byte back.
    pub folds: u64,
    /// See `folds`.
    pub parents: u64,
    /// See `folds`.
    pub folds_recovered: u64,
    /// The largest request, in tokens.
    pub peak: u64,
    /// Bytes of placeholders and bytes of the windows they stood in, summed over requests.
    pub index_bytes: u128,
    /// See `index_bytes`.
    pub window_bytes: u128,
    /// What each session cost, in nano-dollars by the tier.
    pub costs: Vec<u64>,
    /// Why boundaries at the trigger did nothing.
    pub deferrals: BTreeMap<&'static str, u64>,
    /// Sessions that ended before their plan did, by reason.
    pub stops: BTreeMap<&'static str, u64>,
    /// Requests that were taken, by what came before each: how many, tokens read from the cache, tokens.
    pub classes: BTreeMap<&'static str, [u64; 3]>,
    /// Where facts were when they were asked for.
    pub facts: BTreeMap<&'static str, u64>,
    /// Where the sources were of what answers named, in recorded conversations.
    pub sources: BTreeMap<&'static str, u64>,
    /// What it took to have them again, and to keep a store: calls and tokens, by what was done.
    pub upkeep: BTreeMap<&'static str, u64>,
    /// Every commit in true tokens; kept for single-session profiles.
    pub commits_in_detail: Vec<Rewrite>,
    /// Largest window share (millionths of the budget) right after a commit that reached its target, and the smallest.
    pub after_ppm: Option<(u64, u64)>,
}

impl Report {
    /// Adds another report of the same arm.
    pub fn merge(&mut self, other: Report) {
        self.sessions += other.sessions;
        self.totals.merge(other.totals);
        self.commits += other.commits;
        self.reasoning_lost += other.reasoning_lost;
        self.folds += other.folds;
        self.parents += other.parents;
        self.folds_recovered += other.folds_recovered;
        self.peak = self.peak.max(other.peak);
        self.index_bytes += other.index_bytes;
        self.window_bytes += other.window_bytes;
        self.costs.extend(other.costs);
        for (counts, more) in [
            (&mut self.rewrites, other.rewrites),
            (&mut self.deferrals, other.deferrals),
            (&mut self.stops, other.stops),
            (&mut self.facts, other.facts),
            (&mut self.sources, other.sources),
            (&mut self.upkeep, other.upkeep),
        ] {
            for (name, count) in more {
                *counts.entry(name).or_insert(0) += count;
            }
        }
        for (name, [requests, read, prompt]) in other.classes {
            let class = self.classes.entry(name).or_insert([0; 3]);
            *class = [class[0] + requests, class[1] + read, class[2] + prompt];
        }
        self.commits_in_detail.extend(other.commits_in_detail);
        self.after_ppm = match (self.after_ppm, other.after_ppm) {
            (Some(left), Some(right)) => Some((left.0.min(right.0), left.1.max(right.1))),
            (left, right) => left.or(right),
        };
    }

    /// Cached share of all prompt tokens, in millionths.
    pub fn cached_ppm(&self) -> u64 {
        let used = self.totals.used;
        ratio_ppm(used.cached.into(), (used.fresh + used.cached + used.written).into())
    }

    /// Share of placeholders in the bytes sent, in millionths.
    pub fn index_ppm(&self) -> u64 {
        ratio_ppm(self.index_bytes, self.window_bytes)
    }

    /// A session's cost at a share of the ranking (in millionths), in nano-dollars.
    pub fn cost_at(&self, ppm: usize) -> u64 {
        let mut costs = self.costs.clone();
        costs.sort_unstable();
        let last = costs.len().saturating_sub(1);
        costs.get((last * ppm + 500_000) / 1_000_000).copied().unwrap_or(0)
    }
}

fn ratio_ppm(part: u128, whole: u128) -> u64 {
    u64::try_from((part * 1_000_000).checked_div(whole).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// A plan through one arm.
#[derive(Clone, Debug)]
pub struct Run {
    /// The arm.
    pub arm: Arm,
    /// What it did.
    pub report: Report,
    /// What was exercised.
    pub probes: Probes,
    /// The first violation, which ended the session.
    pub violation: Option<Violation>,
    /// Names the whole course of the session: what was decided and sent.
    pub digest: String,
    /// The faults of the plan, and what came of them.
    pub faults: BTreeMap<&'static str, Fault>,
    /// Names what it came to: course, journal, second copies, and what a person was told.
    pub outcome: Digest,
}
