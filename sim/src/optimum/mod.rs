//! The least a session can cost by folding: a planner that knows every request beforehand, and chooses when to commit and how deep.
//!
//! It has the same session as every arm: the same entries, requests, answers and times. Its action space:
//!
//! - Before any request it may commit. A commit folds all the law's cuts from the stalest up to some cut that is ripe by then; there is no other
//!   choice. Cuts, placeholders and parents are those of a commit that a person asks for (see [`course`]), so what is shown at a level does not
//!   depend on how it was reached. The law chooses among the same levels whenever it reaches its target by folds alone.
//! - What is folded stays folded. Nothing is expanded, clipped, pinned or briefed; no request waits for a cache to come or go; deciding costs nothing.
//! - A request holds at most the budget, and leaves room for an answer. The planner knows its size, so no margin is kept.
//! - A commit may be bound to leave so many tokens at least, as the law's target binds it. Without that bound the cheapest window is the smallest: raw work is
//!   read at a cost, and what it is good for stands in no bill.
//! - A request costs what the price says of its tokens read, written and fresh and of its answer, by the tier its input falls into. Where nobody
//!   bills, it costs its fresh tokens.
//!
//! A dynamic program over (request, level): the cheapest way to have this request at this level is the cheapest over the levels the request before it
//! may have had. For *r* requests and *l* levels it takes at most *r* × *l*² / 2 steps of constant time (3 million for the campaign, whose levels ripen one by
//! one), and *r* × *l* of memory.
//!
//! What a cache reads depends on the request before this one, which the program knows, and on older ones, which it does not:
//!
//! | geometry | the least |
//! |---|---|
//! | steps | exact: the request before begins like this one at least as far as any older one does, and is at least as young |
//! | blocks | exact while the memory holds one request; a smaller memory would read less |
//! | message ends, markers | a lower bound: an old request that ended before everything a commit changes is taken to be held still, whatever levels came since |
//! | units | a lower bound: so is what any two levels up to the last have in common, whether or not both were sent |
//!
//! Message by message no level shows again what a level before it had replaced, but for a person's message that carried a placeholder and gets its
//! own words back; where one does, steps and blocks are a lower bound too. In each case a read is counted too high and never too low, and nowhere does a read cost
//! more than what it saves: so no plan in the action space costs less. What the plan found truly costs is seen by sending it to the cache itself
//! ([`Optimum::totals`]): where both agree, the least is exact.
//!
//! An arm outside the action space can be below it: `native` forgets what the planner must keep an index of, and a clip is cheaper than a fold.

pub mod course;
mod reads;
#[cfg(test)]
mod tests;

use crate::meters::Geometry;
use crate::world::FIRST_BYTE_MS;
use course::Course;
use fold_models::cache::Served;
use fold_models::price::{Cost, Row, Totals, Used};
use reads::{Reads, Step};

/// The cheapest plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// No plan in the action space costs less: nano-dollars, or fresh tokens where nobody bills.
    pub least: u64,
    /// What the plan found costs before the cache itself.
    pub totals: Totals,
    /// When it commits.
    pub commits: Vec<Commit>,
    /// The level of each request.
    pub levels: Vec<usize>,
}

/// A commit of the planner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The request it comes before.
    pub request: usize,
    /// Tokens the request would hold without it.
    pub before: u64,
    /// Tokens it holds.
    pub after: u64,
}

/// Plans one course before any cache.
pub struct Planner<'c> {
    course: &'c Course,
    reads: Reads<'c>,
}

impl<'c> Planner<'c> {
    /// Compares the levels of a course.
    pub fn new(course: &'c Course) -> Self {
        Planner { course, reads: Reads::new(course) }
    }

    /// The cheapest plan before a cache at a price, whose commits leave so many tokens in the request after them, or more.
    ///
    /// # Errors
    /// A sentence when a request fits at no level.
    ///
    /// # Panics
    /// If a written token costs less than a read one: then a lower bound would have to read as little as possible.
    pub fn optimum(&self, geometry: Geometry, price: Option<&Row>, kept: u64) -> Result<Optimum, String> {
        assert!(price.is_none_or(|row| reads_pay(geometry, row)), "a read costs more than what it saves");
        let (least, levels) = self.cheapest(geometry, price, kept)?;
        Ok(Optimum { least, totals: sent(self.course, geometry, price, &levels), commits: self.commits(&levels), levels })
    }

    /// The least cost, and the level of each request.
    fn cheapest(&self, geometry: Geometry, price: Option<&Row>, kept: u64) -> Result<(u64, Vec<usize>), String> {
        // By request and level: the least cost up to there, and the level before.
        let mut table: Vec<Vec<Option<(u64, usize)>>> = Vec::with_capacity(self.course.requests.len());
        for request in 0..self.course.requests.len() {
            let arrive = |level| {
                let tokens = self.reads.tokens(request, level);
                let cost = |before| self.cost(geometry, price, Step { request, before, level });
                if tokens > self.course.limit {
                    return None;
                }
                let Some(last) = table.last() else { return Some((cost(level), level)) };
                let from = if tokens < kept { level } else { 0 };
                let ways = (from..last.len().min(level + 1)).rev().filter_map(|before| Some((last[before]?.0 + cost(before), before)));
                // Of equal ones the one that committed last.
                ways.min_by_key(|(cost, _)| *cost)
            };
            let row: Vec<_> = (0..=self.course.deepest(request)).map(arrive).collect();
            if row.iter().all(Option::is_none) {
                return Err(format!("request {request} fits at no level within {} tokens", self.course.limit));
            }
            table.push(row);
        }
        let ends = table.last().into_iter().flatten().enumerate().filter_map(|(level, way)| Some((way.as_ref()?.0, level)));
        let (least, mut level) = ends.min().unwrap_or_default();
        let mut levels = Vec::with_capacity(table.len());
        for row in table.iter().rev() {
            levels.push(level);
            level = row[level].map_or(0, |(_, before)| before);
        }
        levels.reverse();
        Ok((least, levels))
    }

    fn cost(&self, geometry: Geometry, price: Option<&Row>, step: Step) -> u64 {
        let used = used(self.reads.tokens(step.request, step.level), self.reads.served(geometry, step), self.course.requests[step.request].output);
        price.map_or(used.fresh, |row| row.cost(used).tiered)
    }

    fn commits(&self, levels: &[usize]) -> Vec<Commit> {
        let deeper = levels.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]);
        let commit = |(at, pair): (usize, &[usize])| {
            let tokens = |level| self.reads.tokens(at + 1, level);
            Commit { request: at + 1, before: tokens(pair[0]), after: tokens(pair[1]) }
        };
        deeper.map(commit).collect()
    }
}

/// What the requests at these levels cost before the cache itself.
pub fn sent(course: &Course, geometry: Geometry, price: Option<&Row>, levels: &[usize]) -> Totals {
    let (mut cache, mut totals) = (geometry.empty(), Totals::default());
    for (number, (request, level)) in course.requests.iter().zip(levels).enumerate() {
        let chain = course.chain(number, *level);
        let served = cache.serve(&chain, request.at_ms, request.at_ms + FIRST_BYTE_MS);
        let used = used(chain.tokens(), served, request.output);
        totals.add(used, price.map_or_else(Cost::default, |row| row.cost(used)));
    }
    totals
}

/// What totals come to in the planner's measure.
pub fn measure(totals: &Totals, price: Option<&Row>) -> u64 {
    if price.is_some() { totals.tiered } else { totals.used.fresh }
}

fn used(tokens: u64, Served { read, written }: Served, output: u64) -> Used {
    Used { fresh: tokens - read - written, cached: read, written, output }
}

/// Whether a token read costs no more than it would cost unread, in either tier.
fn reads_pay(geometry: Geometry, row: &Row) -> bool {
    let writes = matches!(geometry, Geometry::Ends(_) | Geometry::Markers(_));
    let rates = [Some(row.rates), row.above.map(|tier| tier.rates)];
    rates.into_iter().flatten().all(|rates| rates.cached <= if writes { rates.written } else { rates.input })
}
