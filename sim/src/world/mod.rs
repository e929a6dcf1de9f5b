//! One session of one arm.
//!
//! The plan says what happens; the host writes it, the provider counts and refuses, the cache reads, and at each turn's end the arm
//! may append. Time passes in the event queue only. After every step the checks look at the journal and at the requests. The
//! first broken invariant ends the session: what follows a fault proves nothing.
//!
//! | where | what |
//! |---|---|
//! | here | the plan, operation by operation; the bill; the trace |
//! | `request` | what leaves, whether it is taken, what comes back |
//! | `wires` | whether every wire would take it, and whose fault it is where one would not |
//! | `runtime` | the boundary, and the checks of what is decided and given back |
//! | `writing` | drafts on their way into the journal, whole or not, and the checks of what then stands |
//! | `copies` | second copies on a disk that goes wrong |
//! | `agent` | the policy's own tool, as an agent uses it |
//! | `arms` | what tells the arms apart beside who manages the window |
//! | `facts` | facts that are asked for later: where they are, and what it costs to have them again |
//! | `sources` | whether what an answer names is still in sight |
//! | `trouble` | a provider that fails, and a host that tries again |
//! | `mask` | the arm that masks old tool results |
//! | `host` | reopening, forks, navigation, models, compaction, another extension |
//! | `recording` | a recorded conversation instead of a plan |

use crate::meters::Meters;
use crate::replay::Recording;
use crate::report::{Report, Run, Violation};
use crate::run::Fault;
use crate::sabotage::{Sabotage, Saboteur};
use crate::sent::Sent;
use fold_invariants::Broken;
use fold_invariants::commit::Folds;
use fold_invariants::owed::Arm;
use fold_invariants::probes::Probes;
use fold_invariants::window::Change;
use fold_models::agent::{Density, Geometry, Model, Op, Plan, Profile, Trouble, body};
use fold_models::cache::{self, Cache, Forecast, Served};
use fold_models::clock::EventQueue;
use fold_models::host::Host;
use fold_models::price::{Prices, Row, Used};
use fold_models::provider::{self, usage};
use fold_models::store::MemoryStore;
use fold_models::tokens::TokenModel;
use fold_models::wire::reasoning::Reasoning;
use fold_models::wire::{Chain, Reader, Rule, Wire};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Digest, Entry, Kind, Usage};
use fold_runtime::ports::Provider;
use fold_runtime::session::{COMMIT_RECORD, Moment, Session, Trigger};
use fold_runtime::window::Band;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

mod agent;
mod arms;
mod copies;
mod facts;
mod host;
mod mask;
mod recording;
mod request;
mod runtime;
mod sources;
mod trouble;
mod wires;
mod writing;

/// 2026-01-01, the first moment of every session.
const START_MS: u64 = 1_767_225_600_000;

/// Boundaries in which a session comes to rest: those that the edits of a commit are spread over, and two commits that find a little more.
const QUIESCES_WITHIN: usize = 40;

/// The first byte of an answer comes so long after its request.
pub(crate) const FIRST_BYTE_MS: u64 = 700;

static PRICES: LazyLock<Prices> = LazyLock::new(Prices::bundled);
/// What is kept for an hour.
static HOUR: LazyLock<Option<Row>> = LazyLock::new(|| PRICES.newest("claude-opus-4-8").and_then(Row::for_an_hour));

/// A request that was taken: its tokens, and what the cache had and kept of it.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    prompt: u64,
    served: Served,
}

impl Taken {
    /// With so many tokens of an answer.
    fn used(self, output: u64) -> Used {
        let Taken { prompt, served: Served { read, written } } = self;
        Used { fresh: prompt - read - written, cached: read, written, output }
    }

    /// The same as a provider reports it.
    fn usage(self, output: u64) -> Usage {
        usage(self.prompt, self.served.read, self.served.written, output)
    }
}

/// What happens next.
enum Event {
    /// The next operation of the plan.
    Op(usize),
    /// The answer of that operation is there.
    Answered { op: usize, taken: Taken },
    /// Its tools have run.
    Ran(usize),
}

/// A step as a person can read it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Step {
    /// The operation, counted from 0, and its name.
    pub op: usize,
    /// See `op`.
    pub name: &'static str,
    /// Milliseconds since the session's start.
    pub ms: u64,
    /// Messages in the window and their true tokens, overhead included.
    pub messages: usize,
    /// See `messages`.
    pub tokens: u64,
    /// What the runtime thinks it is, and how far off that may be.
    pub occupancy: u64,
    /// See `occupancy`.
    pub margin: u64,
    /// Cuts that wait, folds that stand in the window.
    pub marks: usize,
    /// See `marks`.
    pub roots: usize,
    /// Tokens a commit would make the provider read anew, and tokens the next request would read from the cache as things stand.
    pub would_rewrite: u64,
    /// See `would_rewrite`.
    pub would_read: u64,
    /// Tokens read from the cache and read anew by the step's request.
    pub cached: u64,
    /// See `cached`.
    pub fresh: u64,
    /// Cost so far, in nano-dollars.
    pub nano_dollars: u64,
    /// What the boundary decided, what rewrote the window, why the session ended.
    pub note: String,
}

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A planted bug.
    pub sabotage: Option<Sabotage>,
    /// Whether to keep every step.
    pub trace: bool,
    /// Leaves the naive reference out, so that the other checks are seen to catch what they name.
    pub without_reference: bool,
}

/// Runs a plan through an arm.
///
/// # Errors
/// A sentence when the plan cannot be run at all: settings that are refused, a budget too small.
pub fn run(plan: &Plan, arm: Arm, options: Options) -> Result<(Run, Vec<Step>), String> {
    let mut world = World::new(plan, arm, options)?;
    let outcome = world.play();
    let steps = std::mem::take(&mut world.steps);
    Ok((world.finish(outcome), steps))
}

/// Runs a plan through an arm and keeps every request.
///
/// # Errors
/// A sentence when the plan cannot be run at all.
pub fn record(plan: &Plan, arm: Arm) -> Result<Vec<Sent>, String> {
    let mut world = World::new(plan, arm, Options::default())?;
    world.recorder = Some(Recorder { settings: plan.settings.to_string(), ..Recorder::default() });
    // A broken invariant is told by whoever looks for one.
    let _ = world.play();
    Ok(world.recorder.take().map_or_else(Vec::new, |recorder| recorder.sent))
}

/// Runs a plan through an arm, before every provider that is modelled at once.
///
/// # Errors
/// A sentence when the plan cannot be run at all.
pub fn metered(plan: &Plan, arm: Arm) -> Result<(Run, Meters), String> {
    let mut world = World::new(plan, arm, Options::default())?;
    world.meters = Some(Meters::all());
    let outcome = world.play();
    let meters = world.meters.take().unwrap_or_else(Meters::all);
    Ok((world.finish(outcome), meters))
}

/// A request of a session that nothing is taken out of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Entries of the branch when it left.
    pub entries: usize,
    /// When it left.
    pub at_ms: u64,
    /// Tokens of its answer.
    pub output: u64,
}

/// Runs a plan without a policy and gives the branch it comes to, its requests and how its tokens are counted.
pub(crate) fn asked(plan: &Plan) -> Result<(Vec<Entry>, Vec<Asked>, TokenModel), String> {
    let mut world = World::new(plan, Arm::None, Options::default())?;
    world.asked = Some(Vec::new());
    world.play().map_err(|broken| format!("{}: expected {}, seen {}", broken.invariant, broken.expected, broken.seen))?;
    Ok((world.host.branch().to_vec(), world.asked.take().unwrap_or_default(), world.host.token_model().clone()))
}

/// Re-issues a recorded conversation through an arm; a `busy` agent tends its window on the way.
///
/// # Errors
/// A sentence when the budget is too small, or an entry cannot be written again.
pub fn replay(recording: &Recording, budget: u64, arm: Arm, busy: bool) -> Result<(Run, Option<String>), String> {
    let plan = recording.plan(budget);
    let mut world = World::new(&plan, arm, Options::default())?;
    world.recorded = true;
    let outcome = world.re_issue(&recording.entries, busy)?;
    let explained = world.explained.take();
    Ok((world.finish(outcome), explained))
}

/// Keeps what is sent.
#[derive(Default)]
struct Recorder {
    sent: Vec<Sent>,
    /// The settings in force, as JSON.
    settings: String,
    /// The session of the last request, and how many entries of it are kept.
    known: (u32, usize),
}

struct World<'p> {
    plan: &'p Plan,
    arm: Arm,
    settings: Settings,
    host: Host,
    /// Hosts so far; each session has its number.
    hosts: u32,
    model: provider::Model,
    voice: Model,
    queue: EventQueue<Event>,
    now: u64,
    cache: Box<dyn Cache>,
    chain: Chain,
    reader: Reader,
    reasoning: Reasoning,
    price: &'static Row,
    session: Option<Session>,
    masking: Option<mask::Masking>,
    /// Entries of the branch the runtime has seen.
    seen: usize,
    store: MemoryStore,
    /// Second copies that were whole when they were looked at last.
    whole: BTreeSet<Digest>,
    /// Second copies that rotted since they were looked at last.
    rotted: BTreeSet<Digest>,
    /// What a person was last told of them.
    warned: Option<String>,
    folds: Folds,
    recovered: BTreeSet<String>,
    changes: Vec<Change>,
    /// Whether the last request parted from the one before it, and the branch tells why.
    rewritten: bool,
    /// What came before the request that left last.
    class: &'static str,
    /// Commits since the last request, by trigger and by what had been appended then.
    committed: BTreeMap<(Trigger, u64), u32>,
    /// The process dies after so many of the next drafts, or died just now.
    crash: Option<u32>,
    died: bool,
    /// Boundaries that another extension will drop, and whether it dropped the last one.
    drops: u32,
    dropped: bool,
    /// Requests that the provider will refuse whatever they hold, and whether it calls their bodies too large.
    refusals: u8,
    /// See `refusals`.
    too_large: bool,
    /// How the provider fails the next requests, and how many; how many it has failed in a row.
    trouble: Option<(Trouble, u8)>,
    /// See `trouble`.
    failed: u8,
    /// When the request that failed is tried again, in milliseconds from then.
    retry_after: Option<u64>,
    /// How far the host's clock is off, in milliseconds.
    skew: i64,
    /// Facts that were planted so far: the entry, and the salt of its text.
    planted: Vec<(String, u64)>,
    /// Where names were said, in a recorded conversation.
    sources: sources::Sources,
    /// Faults that came to pass.
    faults: BTreeSet<&'static str>,
    /// A person stopped the run; whoever goes on now does it unasked.
    aborted: bool,
    /// Folding is suspended since the host reported an internal error.
    suspended: bool,
    /// What another extension edited last of what a fold hides or carries.
    fought: Option<String>,
    /// The session was opened from its journal at least once.
    reopened: bool,
    /// Faults of requests that are the host's.
    excused: BTreeSet<(Wire, String, Rule)>,
    reports_usage: bool,
    /// The last reported total, while nothing has changed what is shown since, and what had been appended by then.
    reported: Option<u64>,
    reported_at: u64,
    answers: u64,
    step: usize,
    /// Checks that recompute everything are worth their time in this session.
    deep: bool,
    appended: u64,
    unsent_commit: Option<(usize, u64)>,
    /// Prompt tokens of the requests that were taken, how many of them were cached, and how many written; tokens of summarizer calls.
    admitted: (u64, u64, u64),
    summarized: u64,
    appended_at_commit: u64,
    /// Requests in a row that were not sent.
    stopped: u32,
    /// A recorded conversation: what cannot be sent ends it.
    recorded: bool,
    /// The entry a busy agent tended its window at last, and how often it has peeked.
    tended: usize,
    peeked: u64,
    without_reference: bool,
    probes: Probes,
    report: Report,
    saboteur: Option<Saboteur>,
    recorder: Option<Recorder>,
    meters: Option<Meters>,
    asked: Option<Vec<Asked>>,
    trace: Sha256,
    keeps_steps: bool,
    steps: Vec<Step>,
    note: String,
    last_read: (u64, u64),
    ended: bool,
    /// Why the session ended early, at length.
    explained: Option<String>,
}

type Outcome<T = ()> = Result<T, Broken>;

impl<'p> World<'p> {
    fn new(plan: &'p Plan, arm: Arm, options: Options) -> Result<Self, String> {
        let settings = arms::settings(arm, &plan.settings)?;
        refuse(plan, arm)?;
        let tokens = match plan.world.density {
            Density::Constant(milli) => TokenModel::constant(milli, plan.world.overhead_tokens),
            Density::Drifting(salt) => TokenModel::new(salt, plan.world.overhead_tokens),
        };
        let model = provider::Model { name: plan.world.model.name(), context_window: plan.window, max_output: 32_000 };
        let session = if arm.folds() { Some(Session::open(&[], &settings, model.context_window())?) } else { None };
        let masking = if arm.masks() { Some(mask::Masking::new(plan, model.context_window())?) } else { None };
        let mut queue = EventQueue::starting_at(START_MS);
        queue.at(START_MS, Event::Op(0));
        Ok(World {
            plan,
            arm,
            settings,
            host: Host::new(0, START_MS, tokens),
            hosts: 1,
            voice: plan.world.model,
            chain: Chain::new(&model.name, plan.world.overhead_tokens),
            reader: wires::readers(),
            reasoning: Reasoning::default(),
            model,
            queue,
            now: START_MS,
            cache: cache::of(plan.world.cache, plan.world.cache_ttl_ms, plan.world.router),
            price: price(plan.world.cache)?,
            session,
            masking,
            seen: 0,
            store: MemoryStore::default(),
            whole: BTreeSet::new(),
            rotted: BTreeSet::new(),
            warned: None,
            folds: Folds::default(),
            recovered: BTreeSet::new(),
            changes: Vec::new(),
            rewritten: false,
            class: "first",
            committed: BTreeMap::new(),
            crash: None,
            died: false,
            drops: 0,
            dropped: false,
            refusals: 0,
            too_large: false,
            trouble: None,
            failed: 0,
            retry_after: None,
            skew: 0,
            planted: Vec::new(),
            sources: sources::Sources::default(),
            faults: BTreeSet::new(),
            aborted: false,
            suspended: false,
            fought: None,
            reopened: false,
            excused: BTreeSet::new(),
            reports_usage: plan.world.reports_usage,
            reported: None,
            reported_at: 0,
            answers: 0,
            step: 0,
            deep: matches!(plan.profile, Profile::Swarm | Profile::Full) || plan.seed.is_multiple_of(10),
            appended: 0,
            unsent_commit: None,
            admitted: (0, 0, 0),
            summarized: 0,
            appended_at_commit: 0,
            stopped: 0,
            recorded: false,
            tended: 0,
            peeked: 0,
            without_reference: options.without_reference,
            probes: Probes::default(),
            report: Report::default(),
            saboteur: options.sabotage.map(Saboteur::new),
            recorder: None,
            meters: None,
            asked: None,
            trace: Sha256::new(),
            keeps_steps: options.trace,
            steps: Vec::new(),
            note: String::new(),
            last_read: (0, 0),
            ended: false,
            explained: None,
        })
    }

    fn finish(mut self, outcome: Outcome) -> Run {
        let violation = outcome.err().map(|broken| Violation {
            invariant: broken.invariant,
            arm: self.arm.name(),
            step: self.step,
            expected: broken.expected,
            seen: broken.seen,
        });
        self.report.sessions = 1;
        self.report.commits += self.masking.as_ref().map_or(0, |masking| masking.batches);
        self.report.costs = vec![self.report.totals.tiered];
        let digest: String = std::mem::take(&mut self.trace).finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let faults = self.faults.iter().map(|name| (*name, Fault { delivered: 1, ..Fault::default() })).collect();
        let outcome = if self.plan.profile == Profile::Full { self.came_to(&digest) } else { Digest::of(digest.as_bytes()) };
        Run { arm: self.arm, report: self.report, probes: self.probes, violation, digest, faults, outcome }
    }

    /// What the session came to, beyond its course: every byte of its journal, the second copies, what a person was told of them.
    fn came_to(&self, course: &str) -> Digest {
        let mut text = format!("{course} {:?} {:?} {}", self.report.totals, self.warned, self.store.portrait());
        self.host.journal().iter().for_each(|entry| text.push_str(entry.line()));
        Digest::of(text.as_bytes())
    }

    fn play(&mut self) -> Outcome {
        while let Some((now, event)) = self.queue.pop() {
            self.now = now;
            self.host.set_now(now.saturating_add_signed(self.skew));
            match event {
                Event::Op(op) if op < self.plan.ops.len() => {
                    self.step = op;
                    self.op(op)?;
                }
                Event::Op(_) => break,
                Event::Answered { op, taken } => self.answered(op, taken)?,
                Event::Ran(op) => {
                    self.ran(op)?;
                    self.next(op);
                }
            }
            if self.ended {
                break;
            }
        }
        self.end()
    }

    fn next(&mut self, op: usize) {
        self.keep_step(op);
        self.queue.after(200, Event::Op(op + 1));
    }

    fn op(&mut self, at: usize) -> Outcome {
        let mut buffer = String::new();
        (self.aborted, self.retry_after) = (false, None);
        let op = &self.plan.ops[at];
        if matches!(
            op,
            Op::Idle { .. } | Op::Resume | Op::Fork { .. } | Op::Tree { .. } | Op::SetUsage { .. } | Op::Jump { .. } | Op::Configure { .. }
        ) {
            self.faults.extend(op.fault(self.plan.world.cache_ttl_ms));
        }
        match op {
            Op::Answer(answer) => {
                self.keeps_notes()?;
                let taken = if self.ended { None } else { self.request()? };
                if let Some(taken) = taken {
                    self.queue.after(800 + answer.salt % 4_000, Event::Answered { op: at, taken });
                    return Ok(());
                }
                if let Some(wait) = self.retry_after.take().filter(|_| !self.ended) {
                    self.queue.after(wait, Event::Op(at));
                    return Ok(());
                }
                if self.ended {
                    return Ok(());
                }
            }
            Op::User { text, images } => {
                body::user(*text, *images, self.now, &mut buffer);
                self.message(&buffer);
                self.plant(*text);
            }
            Op::Bash { text, excluded } => {
                body::bash(*text, *excluded, self.now, &mut buffer);
                self.message(&buffer);
            }
            Op::System { text } => {
                body::system(*text, self.now, &mut buffer);
                self.message(&buffer);
            }
            Op::Custom { text } => {
                body::custom(*text, &mut buffer);
                self.append("custom", &buffer);
            }
            Op::CustomMessage { text } => {
                body::custom_message(*text, &mut buffer);
                self.append("custom_message", &buffer);
            }
            Op::BranchSummary { text } => {
                body::summary(*text, &mut buffer);
                let from = self.host.leaf().map_or(String::new(), |leaf| leaf.id().to_owned());
                self.append("branch_summary", &format!("\"fromId\":\"{from}\",{buffer}"));
            }
            Op::Idle { ms } => {
                self.probes.when("idle past the cache's lifetime in a folded session", *ms > self.plan.world.cache_ttl_ms && self.report.commits > 0);
                self.keep_step(at);
                self.queue.after(*ms, Event::Op(at + 1));
                return Ok(());
            }
            Op::Compact { .. } => {
                let before = self.host.branch().len();
                self.compact(false)?;
                if self.host.branch().len() > before {
                    self.faults.extend(op.fault(0));
                }
            }
            Op::Resume => self.resume()?,
            Op::Fork { back } => self.fork(*back)?,
            Op::Tree { back } => self.tree(*back)?,
            Op::ModelSwitch { window_ppm, model } => self.switch(*window_ppm, *model)?,
            Op::ForeignEdit { back, omit, text } => {
                body::replacement(*text, *omit, &mut buffer);
                if self.foreign_edit(*back, *omit, &buffer) {
                    self.faults.extend(op.fault(0));
                }
            }
            Op::SetUsage { reported } => self.reports_usage = *reported,
            Op::Crash { after } => self.crash = Some(*after),
            Op::DropDrafts => self.drops += 1,
            Op::Disk { fault } => self.store.fail(*fault),
            Op::Rot { nth } => self.rot(*nth),
            Op::Fail => self.fails()?,
            Op::Refuse { times } => self.refusals = *times,
            Op::Trouble { trouble: Trouble::TooLarge, times } => (self.refusals, self.too_large) = (*times, true),
            Op::Trouble { trouble, times } => self.trouble = Some((*trouble, *times)),
            Op::Jump { ms } => self.jumps(*ms),
            Op::Question { nth } => {
                self.question(nth)?;
                if self.ended {
                    return Ok(());
                }
            }
            Op::Configure { settings } => self.configure(settings)?,
            Op::Ask => drop(self.boundary(Moment::Asked)?),
            Op::Act { verb, nth, text } => {
                self.acts(*verb, *nth, *text)?;
                if self.ended {
                    return Ok(());
                }
            }
        }
        self.next(at);
        Ok(())
    }

    // ---- appending ------------------------------------------------------------------------------------------------------------------

    fn message(&mut self, body: &str) {
        self.append("message", &format!("\"message\":{body}"));
    }

    fn append(&mut self, kind: &str, fields: &str) {
        let before = self.host.message_tokens();
        self.host.append(kind, "", fields);
        self.appended += self.host.message_tokens().saturating_sub(before);
    }

    /// Lets the runtime see what the host has written, and the host show what the runtime promised.
    fn catch_up(&mut self) -> Outcome {
        let Some(session) = &mut self.session else { return Ok(()) };
        if self.seen == self.host.branch().len() {
            return Ok(());
        }
        let misses = session.misses().provider;
        for entry in &self.host.branch()[self.seen..] {
            match self.saboteur.as_mut().and_then(|saboteur| saboteur.observed(entry)) {
                Some(other) => session.observe(&other),
                None => session.observe(entry),
            }
        }
        if session.misses().provider > misses {
            self.probes.hit("miss of the provider's own");
            if self.rewritten {
                let seen = format!("{:?}", session.misses());
                return Err(Broken::new("attributed", "no miss of the provider's own after a request that parted from the one before it", seen));
            }
        }
        self.seen = self.host.branch().len();
        self.lay_over()
    }

    /// What is promised and not written yet is shown over the branch.
    fn lay_over(&mut self) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let forgotten = self.reopened && self.saboteur.as_ref().is_some_and(Saboteur::forgets_overlay);
        let overlay = if session.unwritten() > 0 && !forgotten { session.overlay() } else { Vec::new() };
        let overlay = overlay.iter().map(|(target, content)| (*target, *content));
        self.host.lay_over(overlay).map_err(|why| Broken::new("durable", "an overlay over entries that the host shows", why))
    }

    fn tokens_now(&self) -> u64 {
        self.host.message_tokens() + self.plan.world.overhead_tokens
    }

    fn stop(&mut self, reason: &'static str) -> Outcome {
        *self.report.stops.entry(reason).or_insert(0) += 1;
        self.note = format!("{}stopped: {reason}; ", self.note);
        self.ended = true;
        self.keep_step(self.step);
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        self.probes.hit("session ended");
        self.adds_up()?;
        self.catch_up()?;
        self.quiesces()?;
        if self.deep {
            self.same_window()?;
            self.reopened("resume")?;
            self.mapped()?;
        }
        self.healed()?;
        self.second_copies()
    }

    /// Once nothing goes wrong any more and nothing comes, a few boundaries write what is still to be written, and then there is nothing to do.
    fn quiesces(&mut self) -> Outcome {
        (self.crash, self.drops, self.refusals, self.trouble) = (None, 0, 0, None);
        self.store.fail(None);
        if self.session.is_none() || self.recorded || self.aborted {
            return Ok(());
        }
        for _ in 0..QUIESCES_WITHIN {
            let before = self.host.branch().len();
            self.boundary(Moment::TurnEnd)?;
            if self.host.branch().len() == before {
                return Ok(());
            }
        }
        Err(Broken::new("progress", format!("nothing to do {QUIESCES_WITHIN} boundaries after the last fault"), "another entry at each of them"))
    }

    /// The bill is for the requests that were taken and the summaries that were made, each token once, at the row's rates.
    fn adds_up(&self) -> Outcome {
        let (totals, rates) = (&self.report.totals, &self.price.rates);
        let used = totals.used;
        let (prompt, cached, written) = self.admitted;
        let all = used.fresh + used.cached + used.written;
        if (all, used.cached, used.written) != (prompt + self.summarized, cached, written) {
            let seen = format!("{all} billed, {} of them cached and {} written", used.cached, used.written);
            let expected = format!("{} prompt tokens, {cached} of them cached and {written} written", prompt + self.summarized);
            return Err(Broken::new("accounting", expected, seen));
        }
        let flat = used.fresh * rates.input + used.cached * rates.cached + used.written * rates.written + used.output * rates.output;
        if totals.flat != flat || totals.tiered < flat {
            return Err(Broken::new(
                "accounting",
                format!("{flat} nano-dollars, or more by the tier"),
                format!("{} and {}", totals.flat, totals.tiered),
            ));
        }
        Ok(())
    }

    fn keep_step(&mut self, op: usize) {
        if !self.keeps_steps {
            return;
        }
        // What goes wrong here goes wrong at the next boundary too, where it is told.
        let _ = self.catch_up();
        let clock = self.queue.clock();
        let status = self.session.as_ref().map(|session| session.status(&clock, &Forecast { cache: &self.cache, last: &self.chain }));
        let step = Step {
            op,
            name: self.plan.ops.get(op).map_or("end", Op::name),
            ms: self.now - START_MS,
            messages: self.host.window().len(),
            tokens: self.tokens_now(),
            occupancy: status.as_ref().map_or(0, |status| status.occupancy),
            margin: self.session.as_ref().map_or(0, Session::margin),
            marks: status.as_ref().map_or(0, |status| status.marks),
            roots: status.as_ref().map_or(0, |status| status.roots),
            would_rewrite: status.as_ref().map_or(0, |status| status.rewrite),
            would_read: status.as_ref().map_or(0, |status| status.cached.0),
            cached: self.last_read.0,
            fresh: self.last_read.1,
            nano_dollars: self.report.totals.tiered,
            note: std::mem::take(&mut self.note).trim_end_matches("; ").to_owned(),
        };
        self.last_read = (0, 0);
        self.steps.push(step);
    }
}

/// What the tokens of a session cost behind a cache: the newest price of a model that has it, and where there is none, as in an own machine,
/// gpt-5.5's.
fn price(cache: Geometry) -> Result<&'static Row, String> {
    let newest = |model: &str| PRICES.newest(model).ok_or_else(|| format!("the price table has no {model}"));
    match cache {
        Geometry::Ends => newest("gpt-5.6-sol"),
        Geometry::Markers | Geometry::SpareMarker => newest("claude-opus-4-8"),
        Geometry::MarkersForAnHour => HOUR.as_ref().ok_or_else(|| "the price table has no hour of claude-opus-4-8".to_owned()),
        Geometry::Units => newest("deepseek-flash"),
        Geometry::Steps | Geometry::LongSteps | Geometry::Blocks | Geometry::Radix => {
            PRICES.find("openai", "openai-chat", "gpt-5.5", "2026-11-30").ok_or_else(|| "the price table has no gpt-5.5 on the Chat wire".to_owned())
        }
    }
}

/// A plan that no world can run: drawn ones never are, edited ones may be.
fn refuse(plan: &Plan, arm: Arm) -> Result<(), String> {
    const CENTURY_MS: u64 = 100 * 365 * 86_400_000;
    if plan.world.density == Density::Constant(0) {
        return Err("world.density is 0 thousandths of a byte per token; it must be at least 1".to_owned());
    }
    for op in &plan.ops {
        match op {
            Op::Idle { ms } if *ms > CENTURY_MS => return Err(format!("an idle time of {ms} ms is longer than a century")),
            Op::ModelSwitch { window_ppm, .. } => {
                let window = u128::from(plan.window) * u128::from(*window_ppm) / 1_000_000;
                if !(10_000..=u128::from(u64::MAX)).contains(&window) {
                    return Err(format!("a model switch to a window of {window} tokens; folding needs at least 10,000"));
                }
            }
            Op::Configure { settings } => {
                Band::new(&arms::settings(arm, settings)?, plan.window)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_record(entry: &Entry) -> bool {
    matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD)
}

/// The targets that a record promises to edit.
fn promised(record: &Entry) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Edits {
        edits: Vec<Edit>,
    }
    #[derive(serde::Deserialize)]
    struct Edit {
        target: String,
    }
    let data = record.field("data").and_then(|data| serde_json::from_str::<Edits>(data).ok());
    data.map_or_else(Vec::new, |data| data.edits.into_iter().map(|edit| edit.target).collect())
}
