//! Seeds through arms, sums over seeds, and a failing plan made small.

use crate::report::{Report, Run, Violation};
use crate::sabotage::Sabotage;
use crate::world::{self, Options, Step};
use fold_invariants::owed::Arm;
use fold_invariants::probes::Probes;
use fold_models::agent::{Plan, Profile, draw, shrink};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// A violation of a seed.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What was broken.
    #[serde(flatten)]
    pub violation: Violation,
}

/// What a range of seeds came to. Sums of ranges are sums of seeds, whoever ran them.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Arm by arm.
    pub arms: BTreeMap<Arm, Report>,
    /// What was exercised.
    pub probes: Probes,
    /// What was broken.
    pub found: Vec<Found>,
    /// The digest of each seed's runs.
    digests: BTreeMap<u64, Vec<String>>,
}

impl Summary {
    /// Adds the runs of one seed.
    pub fn add(&mut self, seed: u64, runs: Vec<Run>) {
        for run in runs {
            self.digests.entry(seed).or_default().push(run.digest);
            self.probes.merge(&run.probes);
            self.found.extend(run.violation.map(|violation| Found { seed, violation }));
            self.arms.entry(run.arm).or_default().merge(run.report);
        }
    }

    /// Adds another summary under a number of its own.
    pub fn absorb(&mut self, number: u64, other: &Summary) {
        self.digests.entry(number).or_default().push(other.digest());
        self.probes.merge(&other.probes);
        self.found.extend(other.found.iter().cloned());
        for (arm, report) in &other.arms {
            self.arms.entry(*arm).or_default().merge(report.clone());
        }
    }

    /// Names the whole course of all sessions.
    pub fn digest(&self) -> String {
        let mut sha = Sha256::new();
        for (seed, digests) in &self.digests {
            sha.update(seed.to_le_bytes());
            digests.iter().for_each(|digest| sha.update(digest));
        }
        sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Seeds run.
    pub fn seeds(&self) -> u64 {
        self.digests.len() as u64
    }
}

/// Runs the plan of a seed through some arms.
///
/// # Errors
/// A sentence when the plan cannot be run: a fault of the harness.
pub fn seed(profile: Profile, seed: u64, arms: &[Arm], options: Options) -> Result<Vec<Run>, String> {
    plan(&draw(profile, seed), arms, options)
}

/// Runs a plan through some arms.
///
/// # Errors
/// A sentence when the plan cannot be run.
pub fn plan(plan: &Plan, arms: &[Arm], options: Options) -> Result<Vec<Run>, String> {
    arms.iter().map(|&arm| world::run(plan, arm, options).map(|(run, _)| run).map_err(|why| format!("seed {}: {why}", plan.seed))).collect()
}

/// One session step by step.
///
/// # Errors
/// A sentence when the plan cannot be run.
pub fn trace(plan: &Plan, arm: Arm, sabotage: Option<Sabotage>) -> Result<(Run, Vec<Step>), String> {
    world::run(plan, arm, Options { trace: true, sabotage, ..Options::default() })
}

/// The smallest plan found that breaks the same invariant in the same arm: operations first, then values.
pub fn smallest(plan: Plan, violation: &Violation, options: Options, most_tries: usize) -> Plan {
    let arm = Arm::ALL.into_iter().find(|arm| arm.name() == violation.arm).unwrap_or(Arm::Fold);
    shrink::shrink(plan, most_tries, &mut |candidate| {
        let run = world::run(candidate, arm, options);
        run.is_ok_and(|(run, _)| run.violation.is_some_and(|found| found.invariant == violation.invariant))
    })
}
