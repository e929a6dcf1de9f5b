//! The profile that draws the world too: any cache, the provider's own troubles, a clock that jumps, and facts that are asked for later.
//!
//! Everything else is a swarm session, drawn from the same seed: what is here is laid over it, from streams of its own.

use crate::agent::plan::{Geometry, Op, Plan, Profile, Reply, Trouble};
use crate::agent::stream::Stream;
use crate::agent::swarm;
use crate::agent::text::{Shape, TELLS_A_FACT};

/// Draws a session; see the head of this file.
pub(crate) fn draw(seed: u64) -> Plan {
    let mut plan = swarm::draw(seed);
    plan.profile = Profile::Full;
    let mut world = Stream::named(seed, "full world");
    plan.world.cache = *world.pick(&Geometry::ALL);
    plan.world.router = world.chance(1, 4).then(|| world.salt());
    let mut facts = Stream::named(seed, "full facts");
    let planted = if facts.chance(1, 3) { 0 } else { plant(&mut plan, &mut facts) };
    let mut events = Stream::named(seed, "full events");
    let (troubled, jumps) = (events.chance(1, 2), events.chance(1, 3));
    let mut ops = Vec::with_capacity(plan.ops.len() + plan.ops.len() / 8);
    for op in plan.ops {
        let turns = matches!(op, Op::User { .. });
        if matches!(op, Op::Answer(_)) && events.chance(1, 40) && troubled {
            // Three are tried again, a fourth is not.
            ops.push(Op::Trouble { trouble: *events.pick(&Trouble::ALL), times: u8::try_from(events.between(1, 5)).expect("few") });
        }
        if events.chance(1, 60) && jumps {
            let far = i64::try_from(events.size(1_000, 100_000_000)).expect("about a day");
            ops.push(Op::Jump { ms: if events.chance(1, 2) { far } else { -far } });
        }
        if turns && planted > 0 && facts.chance(1, 3) {
            ops.push(question(&mut facts, 3));
        }
        ops.push(op);
    }
    if planted > 0 {
        ops.push(question(&mut facts, 16));
    }
    plan.ops = ops;
    plan
}

fn question(facts: &mut Stream, most: u64) -> Op {
    Op::Question { nth: (0..facts.between(1, most)).map(|_| u32::try_from(facts.below(1_000)).expect("below a thousand")).collect() }
}

/// Puts facts into some of the results and of a person's words; tells into how many.
fn plant(plan: &mut Plan, facts: &mut Stream) -> u64 {
    let mut planted = 0;
    for op in &mut plan.ops {
        let texts: Vec<_> = match op {
            Op::User { text, .. } => vec![text],
            Op::Answer(answer) => {
                let given = answer.calls.iter_mut().filter_map(|call| match &mut call.reply {
                    Reply::Given(outcome) if !outcome.split => Some(&mut outcome.text),
                    _ => None,
                });
                given.collect()
            }
            _ => Vec::new(),
        };
        for text in texts {
            if text.bytes >= TELLS_A_FACT && text.shape != Shape::Nasty && facts.chance(1, 8) {
                text.shape = Shape::Fact;
                planted += 1;
            }
        }
    }
    planted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::fault::FAULTS;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_fault_and_every_cache_is_drawn_often_and_everything_that_is_special() {
        let (mut armed, mut caches, mut routed): (BTreeMap<_, u32>, BTreeMap<_, u32>, u32) = Default::default();
        let mut features = BTreeSet::new();
        for plan in (0..1_000).map(draw) {
            plan.faults().into_keys().for_each(|fault| *armed.entry(fault).or_default() += 1);
            *caches.entry(plan.world.cache).or_default() += 1;
            routed += u32::from(plan.world.router.is_some());
            features.extend(plan.features());
        }
        let rare: Vec<_> = FAULTS.iter().filter(|fault| armed.get(*fault).is_none_or(|count| *count < 30)).collect();
        assert!(rare.is_empty() && armed.len() == FAULTS.len(), "of 1,000 sessions: {armed:?}");
        assert!(Geometry::ALL.iter().all(|cache| caches[cache] > 60) && (150..350).contains(&routed), "{caches:?}, {routed} routed");
        let missing: Vec<_> = Plan::all_features().into_iter().filter(|name| !features.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn facts_are_planted_before_they_are_asked_for() {
        let asking = (0..200).map(draw).filter(|plan| plan.ops.iter().any(|op| matches!(op, Op::Question { .. })));
        let plans: Vec<Plan> = asking.collect();
        assert!((80..180).contains(&plans.len()), "{}", plans.len());
        assert!(plans.iter().all(|plan| serde_json::to_string(plan).expect("JSON").contains("\"fact\"")));
    }

    #[test]
    fn a_plan_without_a_fault_takes_as_many_operations() {
        for plan in (0..100).map(draw) {
            for fault in plan.faults().into_keys() {
                let without = plan.without(fault);
                assert_eq!(without.ops.len(), plan.ops.len());
                assert!(without.faults().iter().all(|(name, count)| *name != fault && plan.faults()[name] == *count), "{fault}");
            }
        }
    }
}
