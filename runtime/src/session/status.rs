//! What a person may want to know of a session.

use super::Session;
use crate::ports::{Clock, PrefixCache};
use crate::window::{Band, Size};

/// What a person may want to know of a session; tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Estimated tokens of the next request.
    pub occupancy: u64,
    /// The band in force.
    pub band: Band,
    /// Cuts that wait for a commit.
    pub marks: usize,
    /// Folds on the branch, and how many of them no other contains.
    pub folds: usize,
    /// See `folds`.
    pub roots: usize,
    /// Milliseconds since the last answer, if there was one that tells its time.
    pub idle_ms: Option<u64>,
    /// Tokens after the first pending mark: what a commit would make the provider read anew.
    pub rewrite: u64,
    /// Tokens the next request would read from the provider's cache as things stand, and after such a commit.
    pub cached: (u64, u64),
}

impl Session {
    /// What made the provider read anew so far, as this branch tells it.
    pub fn misses(&self) -> &super::Misses {
        &self.misses.told
    }

    /// Commit records on the branch that do not count, by the entry's id, and why: their edits stand as anybody's.
    pub fn uncounted(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.uncounted.iter().map(|&(at, why)| (self.context.entries[at].id(), why))
    }

    /// What a person may want to know. Walks the branch.
    pub fn status(&self, clock: &dyn Clock, cache: &dyn PrefixCache) -> Status {
        let now = clock.now_ms();
        let first = self.cuts.marks(&self.context).first().map(|cut| self.context.units[cut.units[0]].entries[0]);
        let behind: Size = first.map_or(Size::default(), |first| self.context.shown[first..].iter().copied().sum());
        let occupancy = self.occupancy();
        let rewrite = self.read_anew(behind);
        let answered = self.last_answer.and_then(|at| self.context.entries[at].message_field("timestamp")?.parse::<u64>().ok());
        Status {
            occupancy,
            band: self.band,
            marks: self.marks(),
            folds: self.lattice.folds.len(),
            roots: self.lattice.roots.len(),
            idle_ms: answered.map(|answered| now.saturating_sub(answered)),
            rewrite,
            cached: (cache.forecast(occupancy, now), cache.forecast(occupancy - rewrite, now)),
        }
    }
}
