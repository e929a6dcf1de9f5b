//! What left a simulated session, request by request, so that another host can be asked what it would have sent.

use crate::world;
use fold_invariants::owed::Arm;
use fold_models::agent::Plan;
use fold_models::shown::Shown;
use fold_runtime::journal::Entry;
use std::sync::Arc;

/// A request, and the session as it stood when it left.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Which session it left from; a fork is another one.
    pub session: u32,
    /// What that session has written since the request before; the whole journal at its first one.
    pub written: Vec<Entry>,
    /// The end of the branch.
    pub leaf: Option<String>,
    /// The settings in force, as JSON, and the model's context window in tokens.
    pub settings: String,
    /// See `settings`.
    pub window: u64,
    /// Messages before this one are those of the session's request before.
    pub from: usize,
    /// The messages from there on.
    pub messages: Vec<Arc<Shown>>,
    /// Pi's estimate of the request in tokens, as the model of Pi makes it, and the reserve that is kept beside it.
    pub estimate: u64,
    /// See `estimate`.
    pub reserve: u64,
    /// Whether Pi would compact by itself.
    pub compacts: bool,
    /// How many tokens a compaction would keep, and what it would be.
    pub keep: u64,
    /// See `keep`.
    pub cut: Option<Cut>,
}

/// Where a compaction would cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The first entry that is kept.
    pub first_kept: String,
    /// Messages that are summarized before it: of whole turns, and of the turn it cuts.
    pub history: usize,
    /// See `history`.
    pub turn_prefix: usize,
}

/// Runs a plan through an arm and gives every request that was sent; a session that breaks an invariant gives those before it.
///
/// # Errors
/// A sentence when the plan cannot be run at all.
pub fn record(plan: &Plan, arm: Arm) -> Result<Vec<Sent>, String> {
    world::record(plan, arm)
}
