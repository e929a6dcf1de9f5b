//! What a cache would read of a request, given the level before it: for every cache from the same few places in the request.
//!
//! A place is a number of messages from the beginning; 0 is the end of what precedes them. What was held of older requests is not
//! remembered, for then the planner would have to look at every history. In its stead stands the best that any history could have left.

use super::course::{Course, Level};
use crate::meters::Geometry;
use fold_models::cache::Served;
use fold_models::shown::WireRole;
use fold_models::wire::Piece;

/// Sums over messages, up to each place.
#[derive(Default)]
struct Sums {
    tokens: Vec<u64>,
    blocks: Vec<u64>,
    /// Places where a prefix may end, by the rules of [`fold_models::cache::ends`].
    ends: Vec<u64>,
}

impl Sums {
    fn over(pieces: &[Piece], next: Option<&Piece>) -> Self {
        let mut sums = Sums { tokens: vec![0], blocks: vec![0], ends: vec![0] };
        let (mut tokens, mut blocks, mut ends) = (0, 0, 0);
        for (at, piece) in pieces.iter().enumerate() {
            let next = pieces.get(at + 1).or(next).map(|next| next.role);
            tokens += piece.tokens;
            blocks += u64::from(piece.blocks);
            ends += u64::from(piece.role == WireRole::User || (piece.role == WireRole::Tool && next != Some(WireRole::Tool)));
            sums.tokens.push(tokens);
            sums.blocks.push(blocks);
            sums.ends.push(ends);
        }
        sums
    }
}

/// What two levels have in common, whichever levels came before the first of them. Places; 0 where there is none.
#[derive(Clone, Copy, Default)]
struct Pair {
    /// How far the second begins like the first, or like any before the first.
    common: usize,
    /// The longest request at the first, or at any before it, that the second begins with.
    ended: usize,
    /// The same for what ends with the last placeholder of a level.
    placed: usize,
    /// The same for what any two levels up to the first have in common.
    met: usize,
}

/// A request, its level, and the level of the request before it.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub request: usize,
    pub before: usize,
    pub level: usize,
}

/// Every answer to what a request reads, in time that does not depend on its length.
pub(super) struct Reads<'c> {
    course: &'c Course,
    raw: Sums,
    levels: Vec<Sums>,
    /// The last placeholder of each level.
    placeholders: Vec<usize>,
    /// By the second level, then by the first.
    pairs: Vec<Vec<Pair>>,
    system: usize,
}

impl<'c> Reads<'c> {
    /// Compares every two levels. Takes time and room as the square of their number.
    pub fn new(course: &'c Course) -> Self {
        let sums = |level: &Level| Sums::over(&level.pieces, course.messages.get(level.covers));
        let last = |level: &Level| level.pieces.iter().rposition(|piece| piece.placeholder).map_or(0, |at| at + 1);
        let mut reads = Reads {
            course,
            raw: Sums::over(&course.messages, None),
            levels: course.levels.iter().map(sums).collect(),
            placeholders: course.levels.iter().map(last).collect(),
            pairs: Vec::new(),
            system: course.system(),
        };
        // Where each level parts from those before it, nearest to the beginning first.
        let mut partings: Vec<Vec<usize>> = Vec::with_capacity(course.levels.len());
        for level in 0..course.levels.len() {
            let commons: Vec<usize> = (0..level).map(|before| reads.common(before, level)).collect();
            reads.pairs.push(reads.pairs_of(level, &commons, &partings));
            partings.push(commons);
            partings[level].sort_unstable();
        }
        reads
    }

    fn pairs_of(&self, level: usize, commons: &[usize], partings: &[Vec<usize>]) -> Vec<Pair> {
        let mut best = Pair::default();
        let mut pairs = Vec::with_capacity(level + 1);
        for (before, &common) in commons.iter().enumerate() {
            let met = partings[before].partition_point(|place| *place <= common).checked_sub(1).map_or(0, |at| partings[before][at]);
            best.met = best.met.max(met);
            best.common = best.common.max(common);
            best.ended = best.ended.max(self.last_request(before, common));
            best.placed = best.placed.max(Some(self.placeholders[before]).filter(|at| *at <= common).unwrap_or(0));
            pairs.push(best);
        }
        pairs.push(best);
        pairs
    }

    /// How far two levels begin alike.
    fn common(&self, one: usize, other: usize) -> usize {
        let all = |level: usize| {
            let Level { covers, pieces, .. } = &self.course.levels[level];
            pieces.iter().chain(&self.course.messages[*covers..])
        };
        all(one).zip(all(other)).take_while(|(one, other)| one == other).count()
    }

    /// The longest request at a level that is no longer than this.
    fn last_request(&self, level: usize, most: usize) -> usize {
        let from = self.course.levels[level].from;
        let requests = &self.course.requests[from.min(self.course.requests.len())..];
        let shorter = requests.partition_point(|request| self.length(level, request.messages) <= most);
        shorter.checked_sub(1).map_or(0, |last| self.length(level, requests[last].messages))
    }

    fn length(&self, level: usize, messages: usize) -> usize {
        let Level { covers, pieces, .. } = &self.course.levels[level];
        pieces.len() + messages - covers
    }

    fn sum(&self, level: usize, place: usize, of: impl Fn(&Sums) -> &Vec<u64>) -> u64 {
        let (folded, raw) = (of(&self.levels[level]), of(&self.raw));
        match place.checked_sub(folded.len() - 1) {
            None => folded[place],
            Some(behind) => folded[folded.len() - 1] + raw[self.course.levels[level].covers + behind] - raw[self.course.levels[level].covers],
        }
    }

    fn tokens_to(&self, level: usize, place: usize) -> u64 {
        self.course.overhead + self.sum(level, place, |sums| &sums.tokens)
    }

    fn role(&self, level: usize, place: usize) -> Option<WireRole> {
        let Level { covers, pieces, .. } = &self.course.levels[level];
        let behind = || self.course.messages.get(covers + place - pieces.len());
        pieces.get(place).or_else(behind).map(|piece| piece.role)
    }

    /// Tokens of a request at a level.
    pub fn tokens(&self, request: usize, level: usize) -> u64 {
        self.tokens_to(level, self.length(level, self.course.requests[request].messages))
    }

    /// What a cache serves: exactly where nothing was committed before the request, at least as much as it can be otherwise.
    pub fn served(&self, geometry: Geometry, step: Step) -> Served {
        let here = Here::of(self, step);
        let warm = |idle_ms: u64| self.is_warm(step.request, idle_ms);
        match geometry {
            Geometry::Steps(rules) => {
                let read = if warm(rules.idle_ms) { rules.readable(self.tokens_to(step.level, here.shared())) } else { 0 };
                Served { read, written: 0 }
            }
            Geometry::Ends(rules) => {
                let ends = |place: usize| self.sum(step.level, place, |sums| &sums.ends);
                let near = |place: &usize| ends(here.length) - ends(*place) <= rules.look_back as u64;
                let held = if warm(rules.idle_ms) { here.requests().into_iter().filter(near).collect() } else { Vec::new() };
                self.written_to_the_end(step.level, here.length, rules.minimum, held)
            }
            Geometry::Markers(rules) => {
                let mut held = Vec::new();
                if warm(rules.idle_ms) {
                    held.extend(here.requests());
                    held.extend(here.placeholders().into_iter().filter(|_| rules.marks_placeholder));
                    held.push(self.system);
                }
                let placeholder = Some(self.placeholders[step.level]).filter(|at| *at > 0 && rules.marks_placeholder);
                let markers: Vec<usize> = [self.system, here.length].into_iter().chain(placeholder).collect();
                let blocks = |place: usize| self.sum(step.level, place, |sums| &sums.blocks);
                held.retain(|place| markers.iter().any(|at| at >= place && blocks(*at) - blocks(*place) < u64::from(rules.look_back)));
                self.written_to_the_end(step.level, here.length, rules.minimum, held)
            }
            Geometry::Units(rules) => {
                let mut held = Vec::new();
                if warm(rules.idle_ms) {
                    held.extend(here.requests());
                    // What two requests had in common is a unit for the third, and before the first commit none parted.
                    held.extend((step.before > 0).then_some(here.pair.met));
                }
                let answered = held.into_iter().map(|place| self.behind_the_answer(step.level, place).min(here.length));
                let tokens = answered.map(|place| self.tokens_to(step.level, place)).max().unwrap_or(0);
                Served { read: tokens - tokens % rules.step, written: 0 }
            }
            Geometry::Paged(rules) => {
                if step.request == 0 {
                    return Served::default();
                }
                let shared = here.shared();
                let place = if here.requests().contains(&shared) { self.behind_the_answer(step.level, shared) } else { shared };
                let most = self.tokens_to(step.level, here.length) - 1;
                Served { read: self.tokens_to(step.level, place).min(most) / rules.block * rules.block, written: 0 }
            }
        }
    }

    /// Whether anything can be held still. All that is held was used by the request before, or earlier.
    fn is_warm(&self, request: usize, idle_ms: u64) -> bool {
        let at = |number: usize| self.course.requests[number].at_ms;
        request > 0 && at(request) - at(request - 1) < idle_ms
    }

    /// The longest held prefix is read, and the rest written.
    fn written_to_the_end(&self, level: usize, length: usize, minimum: u64, held: Vec<usize>) -> Served {
        let tokens = self.tokens_to(level, length);
        if tokens < minimum {
            return Served::default();
        }
        let read = held.into_iter().map(|place| self.tokens_to(level, place)).filter(|tokens| *tokens >= minimum).max().unwrap_or(0);
        Served { read, written: tokens - read }
    }

    /// What follows a request and is the answer to it is held too.
    fn behind_the_answer(&self, level: usize, place: usize) -> usize {
        place + usize::from(self.role(level, place) == Some(WireRole::Assistant))
    }
}

/// The places of one step.
struct Here {
    /// The end of the request.
    length: usize,
    /// The end of the request before it, where nothing was committed since.
    last: Option<usize>,
    pair: Pair,
    /// The last placeholder, where the request before had it too.
    placeholder: Option<usize>,
}

impl Here {
    fn of(reads: &Reads<'_>, Step { request, before, level }: Step) -> Self {
        let messages = |request: usize| reads.course.requests[request].messages;
        let last = request.checked_sub(1).filter(|_| before == level).map(|last| reads.length(level, messages(last)));
        Here {
            length: reads.length(level, messages(request)),
            last,
            pair: reads.pairs[level][before],
            placeholder: last.map(|_| reads.placeholders[level]),
        }
    }

    /// What an earlier request begins with too.
    fn shared(&self) -> usize {
        self.last.unwrap_or(self.pair.common).min(self.length)
    }

    /// Where earlier requests ended.
    fn requests(&self) -> Vec<usize> {
        self.last.into_iter().chain([self.pair.ended]).filter(|place| *place > 0).collect()
    }

    /// Where earlier requests had their last placeholder.
    fn placeholders(&self) -> Vec<usize> {
        self.placeholder.into_iter().chain([self.pair.placed]).filter(|place| *place > 0).collect()
    }
}
