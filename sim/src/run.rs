//! Seeds through arms, sums over seeds, and a failing plan made small.

use crate::report::{Report, Run, Violation};
use crate::sabotage::Sabotage;
use crate::world::{self, Options, Step};
use fold_invariants::owed::Arm;
use fold_invariants::probes::Probes;
use fold_models::agent::{Op, Plan, Profile, Stream, draw, shrink};
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

/// How often a fault was armed, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Sessions whose plans hold it.
    pub armed: u64,
    /// Sessions in which it came to pass.
    pub delivered: u64,
    /// Of these, how many were run again without it.
    pub compared: u64,
    /// Of these, how many came to something else.
    pub changed: u64,
}

impl Fault {
    fn merge(&mut self, other: Fault) {
        self.armed += other.armed;
        self.delivered += other.delivered;
        self.compared += other.compared;
        self.changed += other.changed;
    }
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
    /// What went wrong around the sessions, by name.
    pub faults: BTreeMap<&'static str, Fault>,
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
            for (name, fault) in run.faults {
                self.faults.entry(name).or_default().merge(fault);
            }
            self.arms.entry(run.arm).or_default().merge(run.report);
        }
    }

    /// Adds another summary under a number of its own.
    pub fn absorb(&mut self, number: u64, other: &Summary) {
        self.digests.entry(number).or_default().push(other.digest());
        self.probes.merge(&other.probes);
        self.found.extend(other.found.iter().cloned());
        for (name, fault) in &other.faults {
            self.faults.entry(name).or_default().merge(*fault);
        }
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
    let mut runs = Vec::with_capacity(arms.len());
    for &arm in arms {
        let run = |plan: &Plan| world::run(plan, arm, options).map(|(run, _)| run).map_err(|why| format!("seed {}: {why}", plan.seed));
        let mut with = run(plan)?;
        if plan.profile == Profile::Full {
            with_and_without(plan, &mut with, run)?;
        }
        runs.push(with);
    }
    Ok(runs)
}

/// The arm that the full profile draws for a seed: mostly those that fold.
pub fn drawn(seed: u64) -> Arm {
    const ARMS: [(u64, Arm); 9] = [
        (8, Arm::Fold),
        (2, Arm::FoldBriefs),
        (2, Arm::FoldOnce),
        (1, Arm::FoldImmediate),
        (1, Arm::FoldStore),
        (1, Arm::Native),
        (1, Arm::NativeStore),
        (1, Arm::None),
        (3, Arm::Mask),
    ];
    Stream::named(seed, "full arm").weighted(&ARMS)
}

/// What went wrong in a session, and for one fault that came to pass whether it mattered: the same session is run again without it. What no decision
/// may depend on has to leave its course as it was: the disk of the second copies, the clock, and where one process ends and another opens the journal.
fn with_and_without(plan: &Plan, run: &mut Run, again: impl Fn(&Plan) -> Result<Run, String>) -> Result<(), String> {
    let came: Vec<&'static str> = run.faults.iter().filter(|(_, fault)| fault.delivered > 0).map(|(name, _)| *name).collect();
    for name in plan.faults().into_keys() {
        run.faults.entry(name).or_default().armed = 1;
    }
    if came.is_empty() || run.violation.is_some() {
        return Ok(());
    }
    let name = came[usize::try_from(plan.seed).unwrap_or(0) % came.len()];
    let without = again(&plan.without(name))?;
    let fault = run.faults.entry(name).or_default();
    fault.compared = 1;
    fault.changed = u64::from(without.outcome != run.outcome);
    run.violation = without
        .violation
        .clone()
        .map(|broken| Violation { expected: format!("{} (in the same session without \"{name}\")", broken.expected), ..broken });
    let acted = |run: &Run| (run.report.commits, run.report.folds, run.report.totals.requests, run.report.deferrals.clone());
    let (invariant, same) = match name {
        // Times stand in the lines that folds are named after: what is decided is the same, its names are not, and so not what an agent picks by them.
        "clock: jump" => ("determinism", acted(&without) == acted(run) || plan.ops.iter().any(|op| matches!(op, Op::Act { .. }))),
        // Who was suspended is no more once the session is opened again.
        "host: reload" => ("resume", without.digest == run.digest || run.faults.contains_key("host: internal error of the policy")),
        name if name.starts_with("disk:") => ("durable", without.digest == run.digest),
        _ => ("", true),
    };
    if run.violation.is_none() && !same {
        let expected = format!("the same course with \"{name}\" and without");
        run.violation = Some(Violation { invariant, arm: run.arm.name(), step: plan.ops.len(), expected, seen: "another one".to_owned() });
    }
    Ok(())
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
        let runs = self::plan(candidate, &[arm], options);
        runs.is_ok_and(|runs| runs[0].violation.as_ref().is_some_and(|found| found.invariant == violation.invariant))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed of the full profile whose fold session this fault reached and was compared for.
    fn reached(fault: &str) -> (Plan, Run) {
        let compared = |seed: u64| {
            let drawn = draw(Profile::Full, seed);
            let run = plan(&drawn, &[Arm::Fold], Options::default()).expect("runs").remove(0);
            let acts = drawn.ops.iter().any(|op| matches!(op, Op::Act { .. }));
            (!acts && run.faults.get(fault).is_some_and(|fault| fault.compared == 1)).then_some((drawn, run))
        };
        (0..600).find_map(compared).expect("a seed that reaches it")
    }

    #[test]
    fn what_must_not_change_a_course_is_told_when_it_does() {
        for (fault, invariant) in [("clock: jump", "determinism"), ("disk: rot", "durable"), ("host: reload", "resume")] {
            let (plan, honest) = reached(fault);
            assert_eq!(honest.violation, None);
            // As if a decision had hung on it.
            let mut run = Run { faults: BTreeMap::from([(fault, Fault { delivered: 1, ..Fault::default() })]), ..honest.clone() };
            let another = Run { digest: "another".to_owned(), report: Report { commits: honest.report.commits + 1, ..honest.report }, ..honest };
            with_and_without(&plan, &mut run, |_| Ok(another.clone())).expect("compared");
            assert_eq!(run.violation.expect("a violation").invariant, invariant);
        }
    }

    #[test]
    fn a_violation_of_the_same_session_without_a_fault_is_one() {
        let (plan, mut run) = reached("host: fork");
        let broken = Violation { invariant: "band", arm: "fold", step: 3, expected: "this".to_owned(), seen: "that".to_owned() };
        let without = Run { violation: Some(broken), ..run.clone() };
        with_and_without(&plan, &mut run, |_| Ok(without.clone())).expect("compared");
        let told = run.violation.expect("a violation").expected;
        assert!(told.starts_with("this (in the same session without \"") && told.ends_with("\")"), "{told}");
    }
}
