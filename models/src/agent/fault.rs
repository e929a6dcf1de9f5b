//! What goes wrong in a plan, by name, and the same plan without it.
//!
//! A fault that is armed may never come to pass (a disk that fails while nobody writes), and one that came to pass may have changed nothing.
//! The second is found out by running the plan again without the fault.

use crate::agent::plan::{Op, Plan, Stop, Trouble};
use crate::store::Fault;
use std::collections::BTreeMap;

/// Every fault that a plan can arm: of the disk, of the host, of the provider, of the clock.
pub const FAULTS: [&str; 28] = [
    "disk: no space left",
    "disk: write error",
    "disk: read error",
    "disk: short write",
    "disk: torn write",
    "disk: lost sync",
    "disk: rot",
    "host: crash inside a commit",
    "host: boundary dropped",
    "host: reload",
    "host: fork",
    "host: navigation",
    "host: edit by another extension",
    "host: compaction by somebody else",
    "host: internal error of the policy",
    "host: abort",
    "host: settings changed",
    "provider: overflow",
    "provider: rate limit",
    "provider: overloaded",
    "provider: body too large",
    "provider: timeout",
    "provider: stream cut off",
    "provider: failed answer",
    "provider: length stop",
    "provider: no usage",
    "clock: jump",
    "clock: idle past the cache's lifetime",
];

/// Milliseconds that every operation takes, and so an idle time in the place of one that is left out.
pub const STEP_MS: u64 = 200;

impl Fault {
    /// Its name among [`FAULTS`].
    pub fn name(self) -> &'static str {
        match self {
            Fault::NoSpace => "disk: no space left",
            Fault::WriteError => "disk: write error",
            Fault::ReadError => "disk: read error",
            Fault::ShortWrite => "disk: short write",
            Fault::TornWrite => "disk: torn write",
            Fault::LostSync => "disk: lost sync",
        }
    }
}

impl Trouble {
    /// Its name among [`FAULTS`].
    pub fn name(self) -> &'static str {
        match self {
            Trouble::RateLimit => "provider: rate limit",
            Trouble::Overloaded => "provider: overloaded",
            Trouble::TooLarge => "provider: body too large",
            Trouble::Timeout => "provider: timeout",
            Trouble::CutStream => "provider: stream cut off",
        }
    }
}

impl Stop {
    /// Its name among [`FAULTS`], if it is one.
    pub fn fault(self) -> Option<&'static str> {
        match self {
            Stop::Error => Some("provider: failed answer"),
            Stop::Aborted => Some("host: abort"),
            Stop::Length => Some("provider: length stop"),
            Stop::Stop | Stop::ToolUse => None,
        }
    }
}

impl Op {
    /// Which of [`FAULTS`] it arms, where a cache forgets after `lifetime_ms`.
    pub fn fault(&self, lifetime_ms: u64) -> Option<&'static str> {
        match self {
            Op::Answer(answer) => answer.stop.fault(),
            Op::Disk { fault } => fault.map(Fault::name),
            Op::Rot { .. } => Some("disk: rot"),
            Op::Crash { .. } => Some("host: crash inside a commit"),
            Op::DropDrafts => Some("host: boundary dropped"),
            Op::Resume => Some("host: reload"),
            Op::Fork { .. } => Some("host: fork"),
            Op::Tree { .. } => Some("host: navigation"),
            Op::ForeignEdit { .. } => Some("host: edit by another extension"),
            Op::Compact { .. } => Some("host: compaction by somebody else"),
            Op::Fail => Some("host: internal error of the policy"),
            Op::Configure { .. } => Some("host: settings changed"),
            Op::Refuse { .. } => Some("provider: overflow"),
            Op::Trouble { trouble, .. } => Some(trouble.name()),
            Op::SetUsage { reported: false } => Some("provider: no usage"),
            Op::Jump { .. } => Some("clock: jump"),
            Op::Idle { ms } if *ms > lifetime_ms => Some("clock: idle past the cache's lifetime"),
            _ => None,
        }
    }
}

impl Plan {
    /// The faults it arms, and how often each.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut armed = BTreeMap::new();
        for fault in self.ops.iter().filter_map(|op| op.fault(self.world.cache_ttl_ms)) {
            *armed.entry(fault).or_insert(0) += 1;
        }
        armed
    }

    /// The same without one kind of fault, at the same times: whoever goes another way does so for its want alone.
    ///
    /// ```
    /// use fold_models::agent::{Profile, draw};
    /// let plan = draw(Profile::Full, 3);
    /// let (fault, _) = plan.faults().pop_first().expect("something goes wrong in it");
    /// assert!(!plan.without(fault).faults().contains_key(fault));
    /// ```
    #[must_use]
    pub fn without(&self, fault: &str) -> Plan {
        let mut plan = self.clone();
        for op in &mut plan.ops {
            if op.fault(self.world.cache_ttl_ms) != Some(fault) {
                continue;
            }
            match op {
                Op::Answer(answer) => answer.stop = if answer.calls.is_empty() { Stop::Stop } else { Stop::ToolUse },
                // As long as a pause that nothing forgets.
                _ => *op = Op::Idle { ms: STEP_MS },
            }
        }
        plan
    }
}
