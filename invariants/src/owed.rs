//! Which arm owes which invariant, and at what price it is looked at.

/// A way to manage a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// The fold runtime.
    Fold,
    /// No management: the session ends where the window does.
    None,
    /// Pi's own compaction.
    Native,
    /// The fold runtime, and an agent that writes a brief of its own for whatever is about to be folded: short, and lossy.
    FoldBriefs,
    /// The fold runtime beside a long-term store, into which the agent writes and from which it recalls.
    FoldStore,
    /// Pi's own compaction beside such a store.
    NativeStore,
    /// The fold runtime with the band of pi-fold's first generation, its notice, and briefs by the model.
    FoldOnce,
    /// The fold runtime where a person asks for a commit as soon as there is a mark: every mark by itself, each at the price of a rewrite.
    FoldImmediate,
    /// Old tool results masked, and Pi's own compaction behind it.
    Mask,
}

impl Arm {
    /// All of them, in the order of tables.
    pub const ALL: [Arm; 9] =
        [Arm::Fold, Arm::None, Arm::Native, Arm::FoldBriefs, Arm::FoldStore, Arm::NativeStore, Arm::FoldOnce, Arm::FoldImmediate, Arm::Mask];
    /// Those that are compared unless told otherwise.
    pub const USUAL: [Arm; 3] = [Arm::Fold, Arm::None, Arm::Native];
    /// Those that the fold runtime runs.
    pub const FOLDING: [Arm; 5] = [Arm::Fold, Arm::FoldBriefs, Arm::FoldStore, Arm::FoldOnce, Arm::FoldImmediate];
    /// Those that change what is shown, and can give it back.
    const KEEPING: [Arm; 6] = [Arm::Fold, Arm::FoldBriefs, Arm::FoldStore, Arm::FoldOnce, Arm::FoldImmediate, Arm::Mask];
    /// Those that keep what they send within what a provider takes.
    const MANAGED: [Arm; 8] =
        [Arm::Fold, Arm::Native, Arm::FoldBriefs, Arm::FoldStore, Arm::NativeStore, Arm::FoldOnce, Arm::FoldImmediate, Arm::Mask];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Fold => "fold",
            Arm::None => "none",
            Arm::Native => "native",
            Arm::FoldBriefs => "fold-briefs",
            Arm::FoldStore => "fold+store",
            Arm::NativeStore => "native+store",
            Arm::FoldOnce => "fold-1x",
            Arm::FoldImmediate => "fold-immediate",
            Arm::Mask => "mask",
        }
    }

    /// Whether the fold runtime is at work.
    pub fn folds(self) -> bool {
        Arm::FOLDING.contains(&self)
    }

    /// Whether the agent supplies briefs of its own.
    pub fn writes_briefs(self) -> bool {
        matches!(self, Arm::FoldBriefs | Arm::FoldOnce)
    }

    /// Whether there is a long-term store beside the window.
    pub fn has_store(self) -> bool {
        matches!(self, Arm::FoldStore | Arm::NativeStore)
    }

    /// Whether old tool results are masked.
    pub fn masks(self) -> bool {
        self == Arm::Mask
    }
}

impl std::str::FromStr for Arm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Arm::ALL.map(Arm::name).join(", ");
        Arm::ALL.into_iter().find(|arm| arm.name() == name).ok_or_else(|| format!("there is no arm \"{name}\"; there are {names}"))
    }
}

/// How often an invariant is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// After every step.
    Step,
    /// At every request.
    Request,
    /// At every commit.
    Commit,
    /// At every commit of a swarm session, and of every tenth session of the other profiles; and where a session ends.
    Sampled,
}

/// An invariant: who owes it, and when it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// Its name.
    pub invariant: &'static str,
    /// When it is looked at.
    pub tier: Tier,
    /// The arms that owe it.
    pub arms: &'static [Arm],
    /// Probes of which at least one tells that it was exercised.
    pub probes: &'static [&'static str],
}

/// Every invariant of this slice.
pub const OWED: [Owed; 22] = [
    Owed { invariant: "append_only", tier: Tier::Request, arms: &Arm::ALL, probes: &["request after appends"] },
    Owed {
        invariant: "attributed",
        tier: Tier::Request,
        arms: &Arm::ALL,
        probes: &["rewrite by a commit", "rewrite by the host", "rewrite by masking"],
    },
    Owed { invariant: "lossless", tier: Tier::Commit, arms: &Arm::KEEPING, probes: &["fold recovered", "masked result recovered"] },
    Owed { invariant: "conservation", tier: Tier::Commit, arms: &Arm::FOLDING, probes: &["entry omitted"] },
    Owed { invariant: "nesting", tier: Tier::Commit, arms: &Arm::FOLDING, probes: &["consolidation"] },
    Owed { invariant: "pairing", tier: Tier::Commit, arms: &Arm::KEEPING, probes: &["prefix of drafts validated"] },
    Owed { invariant: "wire_valid", tier: Tier::Request, arms: &Arm::MANAGED, probes: &["request validated"] },
    Owed {
        invariant: "band",
        tier: Tier::Sampled,
        arms: &Arm::KEEPING,
        probes: &["decision compared with the reference", "true count compared after a commit", "mask compared with the reference"],
    },
    Owed { invariant: "quiet", tier: Tier::Step, arms: &Arm::KEEPING, probes: &["boundary quiet with marks", "turn's end quiet with results"] },
    Owed {
        invariant: "held",
        tier: Tier::Commit,
        arms: &Arm::KEEPING,
        probes: &[
            "commit beside a held batch",
            "commit beside a pin",
            "commit beside a withdrawn mark",
            "commit beside an open fold",
            "batch masked",
        ],
    },
    // A refused call changes nothing, and was to be refused; one that was not to be refused is carried out.
    Owed {
        invariant: "no_op",
        tier: Tier::Step,
        arms: &Arm::FOLDING,
        probes: &["action refused", "leaf expanded", "expand refused: not shown", "refold refused: not open"],
    },
    // No request whose estimate is over the fence is sent: it is folded, clipped, or stopped. The host's own compaction is let through where nothing of
    // ours makes room, and nowhere else.
    Owed {
        invariant: "fence",
        tier: Tier::Request,
        arms: &Arm::FOLDING,
        probes: &[
            "request stopped by the fence",
            "compaction after an overflow",
            "compaction held back at a turn's end",
            "compaction let through at a turn's end",
            "commit before a request",
            "commit by overflow",
            "commit without folds",
            "first-show clip of a result",
            "first-show clip of a user message",
            "first-show clip of a blacklisted result",
        ],
    },
    // A crash after any draft leaves a session that opens, pairs calls and results with the overlay, and is lossless; every folded
    // original has a sound second copy, or a person was told that it has none.
    Owed {
        invariant: "durable",
        tier: Tier::Sampled,
        arms: &Arm::KEEPING,
        probes: &[
            "crash inside a commit",
            "fork into a commit",
            "boundary dropped",
            "record alone after a dropped boundary",
            "recovery of promised edits",
            "commit spread over boundaries",
            "promise ended by a foreign edit",
            "second copy refused",
            "second copy repaired",
            "second copies looked at again",
            "crash inside a batch",
        ],
    },
    // After an internal error the window stays as it is until a person's commit, or until the session is opened again.
    Owed {
        invariant: "suspension",
        tier: Tier::Step,
        arms: &Arm::FOLDING,
        probes: &["deferred: suspended", "compaction while suspended", "suspension ended by a person", "suspension ended by opening the session"],
    },
    Owed {
        invariant: "resume",
        tier: Tier::Sampled,
        arms: &Arm::KEEPING,
        probes: &["reopened session compared", "settings changed in a folded session", "reopened masker compared"],
    },
    Owed { invariant: "fork", tier: Tier::Sampled, arms: &Arm::KEEPING, probes: &["fork of a folded session", "masked session opened again"] },
    Owed { invariant: "bounded", tier: Tier::Commit, arms: &Arm::FOLDING, probes: &["placeholder measured"] },
    Owed { invariant: "mapped", tier: Tier::Sampled, arms: &Arm::FOLDING, probes: &["map compared with the window"] },
    Owed { invariant: "no_carrier", tier: Tier::Commit, arms: &Arm::FOLDING, probes: &["placeholder in a user message", "notice given"] },
    // One retry after a refusal, and nothing of ours after a person's abort.
    Owed {
        invariant: "progress",
        tier: Tier::Step,
        arms: &Arm::ALL,
        probes: &["session ended", "deferred: refused again", "retry given up for a person's abort", "commit after a person's abort"],
    },
    Owed { invariant: "accounting", tier: Tier::Step, arms: &Arm::ALL, probes: &["session ended"] },
    Owed { invariant: "determinism", tier: Tier::Step, arms: &Arm::ALL, probes: &["session ended"] },
];

/// Whether an arm owes an invariant.
pub fn owes(arm: Arm, invariant: &str) -> bool {
    OWED.iter().any(|owed| owed.invariant == invariant && owed.arms.contains(&arm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invariant_is_owed_by_somebody_and_names_probes_that_exist() {
        for owed in OWED {
            assert!(!owed.arms.is_empty() && !owed.probes.is_empty(), "{} is vacuous", owed.invariant);
            for probe in owed.probes {
                assert!(crate::probes::is_known(probe), "{} names the unknown probe {probe}", owed.invariant);
            }
        }
    }

    #[test]
    fn the_table_tells_arms_apart() {
        assert!(owes(Arm::Fold, "lossless") && !owes(Arm::Native, "lossless") && !owes(Arm::None, "wire_valid"));
        assert!(Arm::FOLDING.iter().all(|arm| owes(*arm, "fence")) && owes(Arm::NativeStore, "wire_valid"));
        assert!(owes(Arm::Mask, "lossless") && !owes(Arm::Mask, "nesting"));
    }

    #[test]
    fn an_arm_is_called_by_its_name_and_a_wrong_one_is_told_all_names() {
        assert!(Arm::ALL.into_iter().all(|arm| arm.name().parse() == Ok(arm)));
        assert_eq!(
            "msak".parse::<Arm>().unwrap_err(),
            "there is no arm \"msak\"; there are fold, none, native, fold-briefs, fold+store, native+store, fold-1x, fold-immediate, mask"
        );
        assert!(Arm::USUAL.into_iter().all(|arm| Arm::ALL.contains(&arm)));
    }
}
