//! The planner against every plan there is, on sessions small enough to try them all: served by the caches themselves, at prices drawn.

use super::course::{Course, Level, Request};
use super::{Optimum, Planner, measure, sent};
use crate::meters::Geometry;
use crate::run;
use crate::world;
use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, Stream, draw};
use fold_models::cache::{ends, markers, paged, prefix, units};
use fold_models::price::{Rates, Row, Tier};
use fold_models::shown::WireRole;
use fold_models::wire::Piece;

const MINUTE_MS: u64 = 60 * 1_000;
const GEOMETRIES: usize = 6;

/// A message that leaves, of so many tokens.
fn piece(name: u64, tokens: u64, role: WireRole) -> Piece {
    Piece { wire: name, tokens, blocks: 1, role, placeholder: false }
}

/// A batch of the course: its answer and its results, and how many messages come before it.
struct Batch {
    begins: usize,
    ends: usize,
    held: bool,
}

/// A session of few requests. Its answers call one to three tools, or are followed by a person's words; idle times pass each lifetime now and
/// then; a batch in six is held, and of each two folds that stand one behind the other the second goes into the first.
fn course(seed: u64) -> Course {
    let mut stream = Stream::named(seed, "course");
    let mut messages = Vec::new();
    if stream.chance(1, 2) {
        messages.push(piece(1, stream.between(20, 400), WireRole::System));
    }
    messages.push(piece(2, stream.between(10, 300), WireRole::User));
    let (mut requests, mut batches, mut at_ms) = (Vec::new(), Vec::new(), 1_000);
    for number in 0..stream.between(2, 7) {
        requests.push(Request { at_ms, messages: messages.len(), output: stream.between(0, 50) });
        let name = 100 * (number + 1);
        let begins = messages.len();
        messages.push(Piece { blocks: 2, ..piece(name, stream.between(5, 60), WireRole::Assistant) });
        let results = stream.between(0, 3);
        messages.extend((1..=results).map(|result| piece(name + result, stream.between(50, 500), WireRole::Tool)));
        if results == 0 {
            messages.push(piece(name, stream.between(5, 200), WireRole::User));
        }
        batches.push(Batch { begins, ends: messages.len(), held: results == 0 || stream.chance(1, 6) });
        at_ms += stream.weighted(&[(8, 2_000), (1, 5 * MINUTE_MS), (1, 6 * MINUTE_MS), (1, 40 * MINUTE_MS), (1, 180 * MINUTE_MS)]);
    }
    messages.truncate(requests.last().expect("a request").messages);
    let overhead = stream.between(1, 300);
    let largest = overhead + messages.iter().map(|piece| piece.tokens).sum::<u64>();
    let limit = if stream.chance(1, 3) { stream.between(largest / 2, largest) } else { largest };
    let small = stream.between(5, 80);
    let mut levels = vec![Level { from: 0, covers: 0, pieces: Vec::new() }];
    for (number, batch) in batches.iter().enumerate().take(requests.len().saturating_sub(2)) {
        if !batch.held {
            let pieces = folded(&messages, &batches[..=number], small);
            levels.push(Level { from: number + 2, covers: batch.ends, pieces });
        }
    }
    let course = Course { name: "model".to_owned(), overhead, limit, messages, requests, levels };
    course.check().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    course
}

/// What is shown when these batches are folded.
fn folded(messages: &[Piece], batches: &[Batch], small: u64) -> Vec<Piece> {
    let mut pieces = messages[..batches[0].begins].to_vec();
    let last = batches.iter().rposition(|batch| !batch.held).expect("one that is not held");
    let mut alone: Option<usize> = None;
    for batch in &batches[..=last] {
        let all = &messages[batch.begins..batch.ends];
        if batch.held {
            pieces.extend(all);
            alone = None;
        } else if let Some(parent) = alone.take() {
            // The second of two is in the first, whose placeholder says so.
            pieces[parent].wire += 50;
            pieces[parent].tokens += 3;
        } else {
            alone = Some(pieces.len() + 1);
            let shown = |(at, piece): (usize, &Piece)| match at {
                0 => *piece,
                1 => Piece { wire: piece.wire + 20, tokens: small, placeholder: true, ..*piece },
                _ => Piece { wire: piece.wire + 20, tokens: 3, ..*piece },
            };
            pieces.extend(all.iter().enumerate().map(shown));
        }
    }
    pieces
}

/// Small rules, so that small requests meet them.
fn geometries(stream: &mut Stream) -> [Geometry; GEOMETRIES] {
    let idle_ms = 5 * MINUTE_MS;
    let minimum = stream.between(0, 600);
    let look_back = stream.between(1, 6);
    let rules = markers::Rules { minimum, look_back: u32::try_from(look_back).expect("small"), idle_ms, marks_placeholder: false };
    [
        Geometry::Steps(prefix::Rules { step: stream.between(1, 128), minimum, idle_ms }),
        Geometry::Paged(paged::Rules { block: stream.between(1, 16), capacity: 1_000_000 }),
        Geometry::Ends(ends::Rules { minimum, look_back: usize::try_from(look_back).expect("small"), idle_ms: 30 * MINUTE_MS }),
        Geometry::Markers(rules),
        Geometry::Markers(markers::Rules { marks_placeholder: true, ..rules }),
        Geometry::Units(units::Rules { step: stream.between(1, 64), idle_ms: 120 * MINUTE_MS }),
    ]
}

/// A price: reading costs least, writing most; a second tier about where the requests are.
fn price(stream: &mut Stream, tokens: u64) -> Row {
    let cached = stream.between(1, 50);
    let input = cached + stream.between(1, 50);
    let rates = Rates { input, cached, written: input + stream.between(0, 20), output: stream.between(1, 300) };
    let above = Rates { input: 2 * rates.input, cached: 2 * rates.cached, written: 2 * rates.written, output: rates.output + 1 };
    let words = || "test".to_owned();
    let tier = Tier { input_tokens: stream.between(tokens / 3, tokens), rates: above };
    let above = stream.chance(1, 2).then_some(tier);
    Row { provider: words(), wire: words(), model: words(), date: "2026-01-01".to_owned(), source: words(), rates, above, written_for_an_hour: None }
}

/// The least of all plans, if any keeps within the limit.
fn exhaustive(course: &Course, geometry: Geometry, price: Option<&Row>, kept: u64) -> Option<u64> {
    fn try_all(course: &Course, kept: u64, levels: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
        let request = levels.len();
        if request == course.requests.len() {
            return each(levels);
        }
        let last = levels.last().copied().unwrap_or(0);
        for level in last..=course.deepest(request) {
            let tokens = course.chain(request, level).tokens();
            if tokens <= course.limit && (level == last || tokens >= kept) {
                levels.push(level);
                try_all(course, kept, levels, each);
                levels.pop();
            }
        }
    }
    let mut least = None;
    try_all(course, kept, &mut Vec::new(), &mut |levels| {
        let cost = measure(&sent(course, geometry, price, levels), price);
        least = Some(least.map_or(cost, |least: u64| least.min(cost)));
    });
    least
}

#[test]
fn no_plan_costs_less_and_before_steps_and_blocks_one_costs_as_much() {
    let mut exact = [0; GEOMETRIES];
    let (mut tried, mut forced, mut stuck, mut committed) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let course = course(seed);
        let planner = Planner::new(&course);
        let mut stream = Stream::named(seed, "price");
        let row = price(&mut stream, course.limit);
        let price = stream.chance(4, 5).then_some(&row);
        let last = course.requests.len() - 1;
        let request = usize::try_from(stream.below(last as u64 + 1)).expect("a request");
        let kept = if stream.chance(1, 3) { course.chain(request, course.deepest(request)).tokens() } else { 0 };
        forced += u64::from(course.chain(last, 0).tokens() > course.limit);
        for (kind, geometry) in geometries(&mut stream).into_iter().enumerate() {
            let Some(least) = exhaustive(&course, geometry, price, kept) else {
                stuck += 1;
                planner.optimum(geometry, price, kept).expect_err("a request that fits at no level");
                continue;
            };
            let found: Optimum = planner.optimum(geometry, price, kept).expect("a plan");
            let reached = measure(&found.totals, price);
            assert!(found.least <= least && least <= reached, "seed {seed}, {geometry:?}: {} <= {least} <= {reached}", found.least);
            if matches!(geometry, Geometry::Steps(_) | Geometry::Paged(_)) {
                assert_eq!((found.least, reached), (least, least), "seed {seed}, {geometry:?}");
            }
            tried += 1;
            committed += u64::from(!found.commits.is_empty());
            exact[kind] += u64::from(found.least == least && reached == least);
        }
    }
    println!("of {tried} plans {committed} commit, {exact:?} exact by geometry, {forced} courses forced, {stuck} stuck");
    assert!(tried > 4 * SEEDS && forced > SEEDS / 10 && stuck > 0 && committed > tried / 4, "{tried} {forced} {stuck} {committed}");
}

/// Sessions tried, each before six caches.
const SEEDS: u64 = 1_000;

/// The policy chooses among the planner's levels: found by the size of each of its requests, they cost before every cache what the policy's own
/// requests cost there, to the last token.
#[test]
fn the_policy_walks_along_the_levels_of_the_planner_and_costs_no_less() {
    let mut plan = draw(Profile::Campaign, 0);
    plan.ops.truncate(150);
    let course = Course::of(&plan).expect("a course");
    let planner = Planner::new(&course);
    let (_, steps) = run::trace(&plan, Arm::Fold, None).expect("a run");
    let mut levels: Vec<usize> = Vec::new();
    for (request, tokens) in steps.iter().map(|step| step.cached + step.fresh).filter(|tokens| *tokens > 0).enumerate() {
        let from = levels.last().copied().unwrap_or(0);
        let level = (from..=course.deepest(request)).find(|level| planner.reads.tokens(request, *level) == tokens);
        levels.push(level.unwrap_or_else(|| panic!("request {request} of {tokens} tokens is at no level")));
    }
    assert_eq!(levels.len(), course.requests.len());
    let after = |at: usize| planner.reads.tokens(at, levels[at]);
    let kept = (1..levels.len()).filter(|at| levels[at - 1] < levels[*at]).map(after).min().expect("a commit");
    let (run, meters) = world::metered(&plan, Arm::Fold).expect("a run");
    assert!(run.report.commits >= 3 && run.violation.is_none());
    for meter in meters.iter() {
        let price = meter.price.as_ref();
        assert_eq!(sent(&course, meter.geometry, price, &levels), meter.totals, "{}", meter.cache);
        for kept in [0, kept] {
            let least = planner.optimum(meter.geometry, price, kept).expect("a plan").least;
            let cost = measure(&meter.totals, price);
            assert!(least < cost, "{}, keeping {kept}: {least} of {cost}", meter.cache);
        }
    }
}
