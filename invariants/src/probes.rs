//! Probes: named counters that prove a path was taken. A run in which one stays at zero has not tested what it says.

use crate::owed::Arm;
use std::collections::BTreeMap;

/// Everything a full swarm run must have met.
pub const PROBES: [&str; 132] = [
    "request after appends",
    "request validated",
    "request the host alone made invalid",
    "request refused for its size",
    "request sent again after an overflow",
    "compaction held back at a turn's end",
    "compaction let through at a turn's end",
    "retry given up for a person's abort",
    "commit after a person's abort",
    "rewrite by a commit",
    "rewrite by the host",
    "rewrite by both",
    "miss of the provider's own",
    "commit by the band",
    "commit by the fence",
    "commit by overflow",
    "commit by a person",
    "commit before a request",
    "commit without folds",
    "commit spread over boundaries",
    "commit of several folds",
    "commit above its target",
    "idle past the cache's lifetime in a folded session",
    "true count compared after a commit",
    "commit beside a held batch",
    "commit without usage",
    "boundary quiet with marks",
    "deferred: waiting",
    "deferred: rearm",
    "deferred: nothing ripe",
    "deferred: nothing but held",
    "deferred: below the floor",
    "deferred: suspended",
    "deferred: refused again",
    "tool fold",
    "span fold",
    "consolidation",
    "consolidation of consolidations",
    "consolidation of mixed depth",
    "entries riding along",
    "entry omitted",
    "placeholder in a tool result",
    "placeholder in a user message",
    "placeholder in a custom message",
    "placeholder measured",
    "map compared with the window",
    "user message hidden",
    "user message given back",
    "user message clipped",
    "result clipped",
    "first-show clip of a result",
    "first-show clip of a user message",
    "first-show clip of a blacklisted result",
    "request stopped by the fence",
    "compaction where nothing else makes room",
    "compaction after an overflow",
    "recovery of promised edits",
    "promise ended by a foreign edit",
    "recovery of a torn batch",
    "torn batch given up",
    "lost placeholder shown again",
    "peek retired at once",
    "peek retired in a commit",
    "commit beside a pin",
    "commit beside a withdrawn mark",
    "urgent commit ignores a withdrawn mark",
    "agreed cut folded",
    "supplied brief shown",
    "commit beside an open fold",
    "leaf expanded",
    "parent expanded",
    "fold expanded inside an expanded fold",
    "user message shown again",
    "refolded because it was asked for",
    "refolded before a commit that can wait",
    "refolded before a commit that cannot wait",
    "refolded by a record alone",
    "refolded with an expanded fold in it",
    "fold dissolved",
    "dissolved fold cut anew",
    "open fold ended by a compaction",
    "foreign edit in an open fold",
    "notice given",
    "notice given again",
    "expand refused: not shown",
    "expand refused: an original has changed",
    "expand refused: left out in part",
    "expand refused: edited by somebody else",
    "expand refused: pinned",
    "expand refused: the window would be too large",
    "expand refused: over the cap of pins",
    "refold refused: not open",
    "refold refused: edited by somebody else",
    "refold refused: pinned",
    "dissolving refused",
    "boundary dropped",
    "record alone after a dropped boundary",
    "crash inside a commit",
    "fork into a commit",
    "fold recovered",
    "fold recovered from the store",
    "disk: no space left",
    "disk: write error",
    "disk: read error",
    "disk: short write",
    "disk: torn write",
    "disk: lost sync",
    "disk: rot",
    "second copy refused",
    "second copy repaired",
    "second copies looked at again",
    "suspended with folds in the window",
    "compaction while suspended",
    "suspension ended by a person",
    "suspension ended by opening the session",
    "prefix of drafts validated",
    "decision compared with the reference",
    "reopened session compared",
    "fork of a folded session",
    "navigation in a folded session",
    "compaction of a folded session",
    "model switch in a folded session",
    "settings changed in a folded session",
    "settings changed with marks pending",
    "foreign edit of a folded session",
    "foreign edit of what a fold hides or carries",
    "incremental window compared",
    "action carried out",
    "action refused",
    "peek answered",
    "peek refused",
    "session ended",
];

/// What a run of the arm that masks must have met beside.
pub const OF_MASKING: [&str; 16] = [
    "batch masked",
    "batch above its target",
    "batch without usage",
    "rewrite by masking",
    "mask deferred: nothing to mask",
    "mask deferred: below the floor",
    "mask compared with the reference",
    "turn's end quiet with results",
    "masked result recovered",
    "images masked",
    "batch dropped",
    "crash inside a batch",
    "reopened masker compared",
    "masked session opened again",
    "compaction of a masked session",
    "foreign edit of a masked result",
];

/// The probes that a run of these arms should hit.
pub fn of(arms: impl IntoIterator<Item = Arm>) -> Vec<&'static str> {
    let masks = arms.into_iter().any(Arm::masks);
    PROBES.into_iter().chain(OF_MASKING.into_iter().filter(|_| masks)).collect()
}

/// Whether there is a probe of this name.
pub fn is_known(name: &str) -> bool {
    PROBES.contains(&name) || OF_MASKING.contains(&name)
}

/// Counts of probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes(BTreeMap<&'static str, u64>);

impl Probes {
    /// Counts one.
    pub fn hit(&mut self, name: &'static str) {
        let count = self.0.entry(name).or_insert_with(|| {
            debug_assert!(is_known(name), "no probe is named {name}");
            0
        });
        *count += 1;
    }

    /// Counts one if it happened.
    pub fn when(&mut self, name: &'static str, happened: bool) {
        if happened {
            self.hit(name);
        }
    }

    /// How often it was hit.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Probes) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_insert(0) += count;
        }
    }

    /// Those of these probes that nobody hit.
    pub fn missed(&self, probes: &[&'static str]) -> Vec<&'static str> {
        probes.iter().copied().filter(|name| self.count(name) == 0).collect()
    }
}
