//! The course of a session: what every request would hold if nothing were ever folded, and what the law's folds would make of it.
//!
//! A course is read off the arm that folds nothing, in a window without end. Beside it runs a session of the runtime that a person asks for a
//! commit before every request: what it shows then is the next *level*. Cuts, carriers, briefs, placeholders and parents are the runtime's own.

use crate::world::{FIRST_BYTE_MS, asked};
use fold_models::agent::{Op, Plan};
use fold_models::host::Host;
use fold_models::shown::{Shown, WireRole};
use fold_models::tokens::TokenModel;
use fold_models::wire::{Chain, Piece, send};
use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Decision, Moment, Session};
use fold_runtime::window::Band;
use std::sync::Arc;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it leaves, in milliseconds.
    pub at_ms: u64,
    /// How many of the course's messages it would hold.
    pub messages: usize,
    /// Tokens of its answer.
    pub output: u64,
}

/// How far a session is folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The first request before which so much is ripe.
    pub from: usize,
    /// The first so many messages of the course are shown as `pieces`, those after them as they are.
    pub covers: usize,
    /// See `covers`.
    pub pieces: Vec<Piece>,
}

/// A session that only appends, and how it can be folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// What precedes the messages, by name, and its tokens.
    pub name: String,
    /// See `name`.
    pub overhead: u64,
    /// The most tokens a request may hold.
    pub limit: u64,
    /// Every message that leaves.
    pub messages: Vec<Piece>,
    /// Every request.
    pub requests: Vec<Request>,
    /// Nothing folded, then more and more; each hides what the one before it hides.
    pub levels: Vec<Level>,
}

/// A window that nothing fills.
const WITHOUT_END: u64 = 1 << 40;

impl Course {
    /// The course of a plan, within the budget and the window of the plan: what is not kept free for an answer may be filled to the last token.
    ///
    /// The answers report no usage, so that the runtime counts what it shows and not what it would have shown.
    ///
    /// # Errors
    /// A sentence when the plan cannot be run, or does something else than append.
    pub fn of(plan: &Plan) -> Result<Self, String> {
        let mut open = plan.clone();
        (open.window, open.world.reports_usage) = (WITHOUT_END, false);
        open.ops.retain(|op| !matches!(op, Op::SetUsage { .. }));
        if let Some(op) = open.ops.iter().find(|op| !appends(op)) {
            return Err(format!("a course only appends; \"{}\" does something else", op.name()));
        }
        let settings = Settings::parse(&plan.settings.to_string()).map_err(|refused| refused.join("; "))?;
        let band = Band::new(&settings, plan.window)?;
        let (branch, asked, tokens) = asked(&open)?;
        let mut course = Course {
            name: format!("{}/{}", plan.world.model.provider(), plan.world.model.id()),
            overhead: plan.world.overhead_tokens,
            limit: band.budget.min(plan.window - band.answer_room()),
            messages: Vec::new(),
            requests: Vec::with_capacity(asked.len()),
            levels: vec![Level { from: 0, covers: 0, pieces: Vec::new() }],
        };
        let mut folding = Folding::new(&settings, plan.window, tokens)?;
        for (number, request) in asked.iter().enumerate() {
            folding.goes_on(&branch[folding.seen..request.entries])?;
            let raw = pieces(&folding.raw);
            if raw.get(..course.messages.len()) != Some(&course.messages[..]) {
                return Err(format!("a course only appends; request {number} parts from the one before it"));
            }
            course.messages = raw;
            course.requests.push(Request { at_ms: request.at_ms, messages: course.messages.len(), output: request.output });
            folding.commits()?;
            course.reaches(number, &pieces(&folding.folded));
        }
        course.check()?;
        Ok(course)
    }

    /// Takes in what is shown before a request when all that is ripe is folded.
    fn reaches(&mut self, number: usize, folded: &[Piece]) {
        let same = self.messages.iter().rev().zip(folded.iter().rev()).take_while(|(one, other)| one == other).count();
        let level = Level { from: number, covers: self.messages.len() - same, pieces: folded[..folded.len() - same].to_vec() };
        let last = self.levels.last().expect("the first level folds nothing");
        if (last.covers, &last.pieces) != (level.covers, &level.pieces) {
            self.levels.push(level);
        }
    }

    /// The request at a level.
    pub fn chain(&self, request: usize, level: usize) -> Chain {
        let mut chain = Chain::new(&self.name, self.overhead);
        let level = &self.levels[level];
        let rest = &self.messages[level.covers..self.requests[request].messages];
        level.pieces.iter().chain(rest).for_each(|piece| chain.append(*piece));
        chain
    }

    /// The deepest level there is before a request.
    pub fn deepest(&self, request: usize) -> usize {
        self.levels.partition_point(|level| level.from <= request) - 1
    }

    /// How many messages of the system's stand at the beginning.
    pub(super) fn system(&self) -> usize {
        system(&self.messages)
    }

    /// What the planner takes for granted.
    ///
    /// # Errors
    /// A sentence that says what is otherwise.
    pub fn check(&self) -> Result<(), String> {
        let (messages, requests) = (&self.messages, &self.requests);
        for (number, request) in requests.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| requests[before]);
            if before.is_some_and(|before| request.messages <= before.messages || request.at_ms < before.at_ms + FIRST_BYTE_MS) {
                return Err(format!("request {number} adds nothing to the one before it, or does not wait for its answer"));
            }
            let last = request.messages.checked_sub(1).and_then(|last| messages.get(last)).map(|piece| piece.role);
            let next = messages.get(request.messages).map(|piece| piece.role);
            if !matches!((last, next), (Some(WireRole::User), _) | (Some(WireRole::Tool), None | Some(WireRole::Assistant | WireRole::User))) {
                return Err(format!("request {number} does not end with a person's message or the last of its results"));
            }
        }
        if self.levels.first().is_none_or(|first| (first.from, first.covers) != (0, 0) || !first.pieces.is_empty()) {
            return Err("the first level folds something".to_owned());
        }
        for (number, pair) in self.levels.windows(2).enumerate() {
            let read = |request: &Request| request.messages >= pair[1].covers;
            let before = pair[1].from.checked_sub(1).and_then(|before| requests.get(before));
            if pair[1].from < pair[0].from || !before.is_some_and(read) || system(&pair[1].pieces) != self.system() {
                return Err(format!("level {} folds what was not read, or what the system says", number + 1));
            }
        }
        let says = |pieces: &[Piece]| pieces.iter().filter(|piece| piece.role == WireRole::System).count();
        if says(messages) > self.system() || self.levels[1..].iter().any(|level| says(&level.pieces) > self.system()) {
            return Err("a message of the system's stands behind others".to_owned());
        }
        Ok(())
    }
}

fn system(pieces: &[Piece]) -> usize {
    pieces.iter().take_while(|piece| piece.role == WireRole::System).count()
}

/// Whether an operation, of a session without a policy, does nothing but append.
fn appends(op: &Op) -> bool {
    matches!(
        op,
        Op::User { .. }
            | Op::Question { .. }
            | Op::Answer(_)
            | Op::Idle { .. }
            | Op::Bash { .. }
            | Op::Custom { .. }
            | Op::CustomMessage { .. }
            | Op::System { .. }
            | Op::Ask
    )
}

fn pieces(host: &Host) -> Vec<Piece> {
    let mut out = Vec::new();
    let window: &[Arc<Shown>] = host.window();
    send(window, &mut |item| out.extend(Piece::of(item, host.token_model())));
    out
}

/// A session twice: as it is, and with everything folded that can be.
struct Folding {
    seen: usize,
    session: Session,
    raw: Host,
    folded: Host,
    records: usize,
}

impl Folding {
    fn new(settings: &Settings, window: u64, tokens: TokenModel) -> Result<Self, String> {
        let session = Session::open(&[], settings, window)?;
        Ok(Folding { seen: 0, session, raw: Host::new(0, 0, tokens.clone()), folded: Host::new(0, 0, tokens), records: 0 })
    }

    fn goes_on(&mut self, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            self.session.observe(entry);
            self.raw.adopt(entry)?;
            self.folded.adopt(entry)?;
        }
        self.seen += entries.len();
        Ok(())
    }

    /// Everything ripe is folded. Its edits are laid over the branch, so that no entry of ours moves another's place on it.
    fn commits(&mut self) -> Result<(), String> {
        if self.session.marks() == 0 {
            return Ok(());
        }
        let Decision::Commit(commit) = self.session.boundary(Moment::Asked) else { return Ok(()) };
        for draft in &commit.drafts {
            self.records += 1;
            let line = format!("{{{},\"id\":\"course-{}\",\"parentId\":null}}", draft.fields(), self.records);
            self.session.observe(&Entry::parse(&line).map_err(|error| error.to_string())?);
        }
        self.folded.lay_over(self.session.overlay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_models::agent::{Profile, draw};

    fn steady(steps: usize) -> Plan {
        let mut plan = draw(Profile::Steady, 3);
        plan.ops.truncate(1 + steps);
        plan
    }

    #[test]
    fn a_session_is_folded_deeper_and_deeper_and_every_level_is_shorter() {
        let course = Course::of(&steady(120)).expect("a course");
        assert_eq!(course.requests.len(), 120);
        assert!(course.levels.len() > 20, "{} levels", course.levels.len());
        let last = course.requests.len() - 1;
        let tokens: Vec<u64> = (0..course.levels.len()).map(|level| course.chain(last, level).tokens()).collect();
        assert!(tokens.is_sorted_by(|one, other| one > other), "{tokens:?}");
    }

    /// The action space has no history: however a level was reached, the window is the same.
    #[test]
    fn a_commit_after_commits_shows_what_one_commit_shows() {
        let plan = steady(160);
        let course = Course::of(&plan).expect("a course");
        let mut open = plan.clone();
        (open.window, open.world.reports_usage) = (WITHOUT_END, false);
        let (branch, asked, tokens) = asked(&open).expect("a run");
        let settings = Settings::parse(&plan.settings.to_string()).expect("settings");
        let parents = |pieces: &[Piece]| pieces.iter().filter(|piece| piece.placeholder).count();
        let mut merged = false;
        for number in (20..asked.len()).step_by(20) {
            let mut once = Folding::new(&settings, plan.window, tokens.clone()).expect("a session");
            once.goes_on(&branch[..asked[number].entries]).expect("entries");
            once.commits().expect("a commit");
            let (level, once) = (course.deepest(number), pieces(&once.folded));
            let rest = &course.messages[course.levels[level].covers..course.requests[number].messages];
            let shown: Vec<Piece> = course.levels[level].pieces.iter().chain(rest).copied().collect();
            let apart = shown.iter().zip(&once).position(|(one, other)| one != other);
            assert_eq!((apart, shown.len()), (None, once.len()), "request {number}");
            merged |= parents(&once) < level;
        }
        assert!(merged, "no parent was made, so nothing was shown of them");
    }

    #[test]
    fn what_does_more_than_append_has_no_course() {
        let mut plan = steady(3);
        plan.ops.push(Op::Fork { back: 1 });
        assert_eq!(Course::of(&plan).expect_err("a refusal"), "a course only appends; \"fork\" does something else");
    }
}
