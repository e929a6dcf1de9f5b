//! The naive reference: what the fold law decides, recomputed from the whole branch.
//!
//! Written from `docs/law.md` and from nothing the runtime decides with. It keeps no state and takes no shortcut: every question goes
//! back to the entries, and a window that might be is built and weighed whole. It shares with the runtime what is not a decision: the
//! view of an entry, Pi's projection, sizes, the band, and the texts that stand where originals were. `meter` counts and keeps the
//! promises, `walk` finds units and marks, `lattice` makes folds and weighs windows, `clips` cuts what is not folded, `promises` derives
//! what is promised and not written, `decisions` reads what was decided by others, `repairs` puts right what somebody else tore,
//! `peeks` retires what was read, `history` tells which records count and how each fold stands, `turns` opens folds and closes them;
//! here they become one verdict. [`mod@mask`] is the other policy's, which shares the count with it and nothing else.

mod clips;
pub(crate) mod decisions;
pub(crate) mod history;
mod lattice;
pub mod mask;
mod meter;
mod peeks;
mod promises;
mod repairs;
mod turns;
pub(crate) mod walk;

use crate::commit::{Record, showing};
use decisions::Decisions;
use fold_runtime::config::Settings;
use fold_runtime::fold::{BRIEF_VERSION, FoldKind, brief_bound};
use fold_runtime::journal::{Digest, Entry, Kind, Role, StopReason};
pub use fold_runtime::session::Moment;
use fold_runtime::session::{COMMIT_RECORD, Draft};
use fold_runtime::window::{Band, IMAGE_TOKENS, MessageContent, Size, projection};
use history::{History, Standing};
use lattice::{Fold, State};
use meter::Meter;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
pub use turns::{Asked, asked};
use walk::{Unit, UnitKind};

/// The most edits that may be written at a moment, on a branch of this many entries.
fn most_edits(moment: Moment, entries: usize) -> usize {
    let at_a_turn = (1_000_000 / entries.max(1)).max(20);
    match moment {
        Moment::TurnEnd | Moment::Refused => at_a_turn,
        Moment::Settling => 10 * at_a_turn,
        Moment::Request | Moment::Asked => 0,
    }
}

/// The type of the message that a commit is near.
pub const NOTICE: &str = "pi-fold.notice";

/// What the law says at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Below the trigger.
    Quiet,
    /// At the trigger, but nothing is done: `waiting`, `rearm`, `nothing ripe`, `nothing but held`, `below the floor`,
    /// `refused again` or `suspended`.
    Deferred(String),
    /// Nothing is decided, but promised edits are written.
    Recovery {
        /// The edits.
        drafts: Vec<Draft>,
        /// Edits that stay promised and unwritten.
        left: usize,
        /// Why nothing was decided, if the trigger is reached.
        deferral: Option<String>,
    },
    /// Nothing but a message that a commit is near.
    Notice,
    /// One rewrite of what is shown.
    Commit {
        /// `fence`, `band`, `overflow` or `person`; `recovery` for repairs, `peek` for the retirement of peeks, `refold` where open folds
        /// are closed and nothing else is done.
        trigger: String,
        /// Open folds that a record of their own closes first.
        refolded: usize,
        /// The record or both, then edits: older ones that are still promised, then its own, as many as may be written.
        drafts: Vec<Draft>,
        /// Edits that stay promised and unwritten.
        left: usize,
        /// Occupancy before, in tokens.
        before: u64,
        /// The occupancy aimed at, in tokens.
        target: u64,
        /// The occupancy the folds leave, before any clip, in tokens.
        after: u64,
    },
}

/// An edit by the position of its target: the new content, or an omission.
type Edit = (usize, Option<String>);

/// Entries and what they show from a record on, in its order.
type Edits = Vec<(usize, Shown)>;

/// The verdict on a branch under a model with this context window, in tokens.
///
/// # Panics
/// When the budget is too small for any decision; see [`Band::new`].
pub fn decide(branch: &[Entry], settings: &Settings, window: u64, moment: Moment) -> Verdict {
    let band = Band::new(settings, window).expect("a budget worth managing");
    let view = View::of(branch, settings, band).standing();
    let decided = view.repairs().map_or_else(|| view.decided(moment), Ok);
    let mut edits = decided.as_ref().map_or_else(|_| view.unwritten.clone(), Plan::writes);
    let left = edits.len().saturating_sub(most_edits(moment, branch.len()));
    edits.truncate(edits.len() - left);
    let edits = edits.into_iter().map(|(at, replacement)| Draft::ContextEdit { target: branch[at].id().to_owned(), replacement });
    match decided {
        Ok(Plan { trigger, records, refolded, target, after, .. }) => {
            let records = records.into_iter().map(|data| Draft::Custom { custom_type: COMMIT_RECORD, data });
            let (drafts, before) = (records.chain(edits).collect(), view.meter.tokens());
            Verdict::Commit { trigger: trigger.into(), refolded, drafts, left, before, target, after }
        }
        Err(deferral) if edits.len() > 0 => Verdict::Recovery { drafts: edits.collect(), left, deferral: deferral.map(str::to_owned) },
        Err(Some(deferral)) => Verdict::Deferred(deferral.into()),
        Err(None) if view.notice_is_due(moment) => Verdict::Notice,
        Err(None) => Verdict::Quiet,
    }
}

/// The verdict while folding is suspended, which no branch tells.
///
/// # Panics
/// Like [`decide`].
pub fn decide_suspended(branch: &[Entry], settings: &Settings, window: u64, moment: Moment) -> Verdict {
    if moment == Moment::Asked {
        return decide(branch, settings, window, moment);
    }
    let band = Band::new(settings, window).expect("a budget worth managing");
    match View::of(branch, settings, band).trigger(moment) {
        Err(None) => Verdict::Quiet,
        Ok(_) | Err(Some(_)) => Verdict::Deferred("suspended".into()),
    }
}

/// Whether the host's own compaction is let through at a moment: where nothing of ours makes room, while folding is suspended (which no branch tells),
/// and where a person asks for it.
///
/// # Panics
/// Like [`decide`].
pub fn lets_host_compact(branch: &[Entry], settings: &Settings, window: u64, moment: Moment, suspended: bool) -> bool {
    let band = Band::new(settings, window).expect("a budget worth managing");
    let view = View::of(branch, settings, band);
    match moment {
        _ if suspended || moment == Moment::Asked => true,
        Moment::Refused => matches!(view.standing().decided(moment), Err(Some("nothing ripe" | "nothing but held"))),
        _ => view.over_fence(view.meter.tokens()),
    }
}

/// What every request has to show beside the branch: targets and contents (or omissions) that are promised and not written yet, in the
/// order of their records. A promise whose content cannot be derived any more is not among them.
pub fn overlay(branch: &[Entry]) -> Vec<(String, Option<String>)> {
    // What stands on a branch depends on no setting and no model.
    let settings = Settings::default();
    let band = Band::new(&settings, 1_000_000).expect("a budget worth managing");
    let view = View::of(branch, &settings, band);
    view.unwritten.into_iter().map(|(at, content)| (branch[at].id().to_owned(), content)).collect()
}

/// Entries that somebody else edited, by position: neither the host nor to carry out a promise.
pub(crate) fn foreign(branch: &[Entry]) -> BTreeSet<usize> {
    Meter::of(branch, &records(branch)).foreign.into_keys().collect()
}

/// Estimated tokens of the next request.
///
/// # Panics
/// When the budget is too small for any decision; see [`Band::new`].
pub fn occupancy(branch: &[Entry], settings: &Settings, window: u64) -> u64 {
    Band::new(settings, window).expect("a budget worth managing");
    Meter::of(branch, &records(branch)).tokens()
}

/// The records that count, by position.
fn records(branch: &[Entry]) -> BTreeMap<usize, Record> {
    History::of(branch, &walk::units(branch)).records
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// What an entry shows: a content, if it has one that an edit could change, and its size.
#[derive(Clone, Debug)]
struct Shown {
    content: Option<String>,
    size: Size,
    /// Head and tail, where it is the original clipped.
    clip: Option<(usize, usize)>,
}

impl Shown {
    const NOTHING: Shown = Shown { content: None, size: Size { bytes: 0, images: 0 }, clip: None };

    fn original(entry: &Entry) -> Self {
        Shown { content: Some(entry.content().raw().to_owned()), size: Size::of_original(entry), clip: None }
    }

    fn written(content: String) -> Self {
        Shown { size: Size::of_original(&showing(&content)), content: Some(content), clip: None }
    }
}

/// What is decided, before it is cut to what may be written at once.
struct Plan {
    trigger: &'static str,
    /// One, or that which closes open folds and one.
    records: Vec<String>,
    refolded: usize,
    /// What was promised before the last record, and is not written.
    unwritten: Vec<Edit>,
    /// What the last record promises, in its order.
    edits: Edits,
    target: u64,
    after: u64,
}

impl Plan {
    /// Every edit that is to be written, older ones first; what the newest record names is written for it only.
    fn writes(&self) -> Vec<Edit> {
        let older = self.unwritten.iter().filter(|(at, _)| self.edits.iter().all(|(named, _)| named != at));
        older.cloned().chain(self.edits.iter().map(|(at, shown)| (*at, shown.content.clone()))).collect()
    }
}

/// The branch as one decision sees it.
struct View<'a> {
    branch: &'a [Entry],
    settings: &'a Settings,
    band: Band,
    meter: Meter,
    /// Positions in context, in the order the model sees them.
    context: Vec<usize>,
    /// What stands at each position in context before this commit, promises included.
    shown: BTreeMap<usize, Shown>,
    /// What is promised, can be derived, and is on the branch in no edit yet; in the order of the records.
    unwritten: Vec<Edit>,
    compaction: Option<usize>,
    /// What each original weighs, by position.
    weights: Vec<u64>,
    units: Vec<Unit>,
    /// Position to unit.
    unit_of: BTreeMap<usize, usize>,
    newest_user: Option<usize>,
    /// The records that count, and how the folds stand that they tell of.
    history: History,
    /// The units that open folds claim, those of user messages too.
    opened: BTreeSet<usize>,
    decisions: Decisions,
    /// The window before this commit, with the folds that the records tell of.
    standing: State,
}

impl<'a> View<'a> {
    fn of(branch: &'a [Entry], settings: &'a Settings, band: Band) -> Self {
        let units = walk::units(branch);
        let history = History::of(branch, &units);
        let meter = Meter::of(branch, &history.records);
        let places: BTreeMap<&str, usize> = branch.iter().enumerate().map(|(at, entry)| (entry.id(), at)).collect();
        let (mut context, mut shown) = (Vec::new(), BTreeMap::new());
        for projected in projection(branch) {
            let at = places[projected.source.id()];
            let content = projected.messages.first().and_then(|message| match message.content {
                MessageContent::Content(content) | MessageContent::TextBlock(content) => Some(content.raw().to_owned()),
                _ => None,
            });
            context.push(at);
            shown.insert(at, Shown { content, size: Size::of(&projected), clip: None });
        }
        let unit_of = units.iter().enumerate().flat_map(|(index, unit)| unit.entries.iter().map(move |at| (*at, index))).collect();
        let compaction = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Compaction { .. }));
        let newest_user = branch.iter().rposition(|entry| entry.kind() == &Kind::Message(Role::User));
        let weights = branch.iter().map(|entry| Size::of_original(entry).weight()).collect();
        let unwritten = Vec::new();
        let decisions = Decisions::of(branch, &units, &history.records, false);
        let standing = State { shown: BTreeMap::new(), folds: Vec::new(), roots: Vec::new() };
        let mut view = View {
            branch,
            settings,
            band,
            meter,
            context,
            shown,
            unwritten,
            compaction,
            weights,
            units,
            unit_of,
            newest_user,
            history,
            opened: BTreeSet::new(),
            decisions,
            standing,
        };
        view.opened = view.history.open_folds().flat_map(|fold| view.claim(fold)).collect();
        view.promises();
        view
    }

    /// The same, but what was withdrawn and may still be is not: what a commit sees that cannot wait.
    fn released(&self) -> View<'a> {
        let mut view = View::of(self.branch, self.settings, self.band);
        view.decisions = Decisions::of(self.branch, &view.units, &view.history.records, true);
        view.standing()
    }

    /// The same with the folds that the records tell of; nothing can be decided without.
    fn standing(mut self) -> Self {
        self.standing = self.stand();
        self
    }

    fn least(&self) -> u64 {
        self.settings.thresholds.min_fold_chars
    }

    fn foreign(&self, at: usize) -> bool {
        self.meter.foreign.contains_key(&at)
    }

    /// The newest user message or tool result that is shown.
    fn last_word(&self) -> Option<usize> {
        let speaks = |at: &usize| matches!(self.branch[*at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
        self.shown.iter().filter(|(_, shown)| shown.content.is_some()).map(|(at, _)| *at).filter(speaks).max()
    }

    /// What the original at `at` weighs.
    fn weight(&self, at: usize) -> u64 {
        self.weights[at]
    }

    /// What is done at a moment; else why nothing is, which is no word at all where all is quiet.
    fn decided(&self, moment: Moment) -> Result<Plan, Option<&'static str>> {
        let planned = self.trigger(moment).and_then(|trigger| self.commit(trigger).map_err(Some));
        let at_a_boundary = matches!(moment, Moment::TurnEnd | Moment::Settling);
        planned.or_else(|nothing| self.retirement().filter(|_| at_a_boundary).ok_or(nothing))
    }

    /// What a moment asks for; else why nothing is done, which is no word at all where all is quiet.
    fn trigger(&self, moment: Moment) -> Result<&'static str, Option<&'static str>> {
        let tokens = self.meter.tokens();
        match moment {
            Moment::Refused if self.refused_before() => Err(Some("refused again")),
            Moment::Refused => Ok("overflow"),
            Moment::Asked => Ok("person"),
            _ if self.over_fence(tokens) => Ok("fence"),
            Moment::Request => Err(None),
            _ if tokens < self.band.max_target => Err(None),
            _ if self.meter.waiting => Err(Some("waiting")),
            _ if self.meter.appended().is_some_and(|tokens| tokens < self.band.budget / 20) => Err(Some("rearm")),
            _ => Ok("band"),
        }
    }

    /// Whether room was made for a refused request, by a commit or by the host after an answer that failed or was cut off before its first word,
    /// and neither the model nor a person has said anything since.
    fn refused_before(&self) -> bool {
        let speaks = |entry: &Entry| entry.is_good_answer() || entry.kind() == &Kind::Message(Role::User);
        let since = self.branch.iter().rposition(speaks).map_or(0, |at| at + 1);
        let stopped = |stop| matches!(stop, StopReason::Error | StopReason::Length);
        let fails = |entry: &Entry| matches!(entry.kind(), Kind::Message(Role::Assistant(answer)) if stopped(answer.stop));
        let failed = (since..self.branch.len()).find(|at| fails(&self.branch[*at])).unwrap_or(self.branch.len());
        let compacted = self.branch[failed..].iter().any(|entry| matches!(entry.kind(), Kind::Compaction { .. }));
        compacted || self.history.records.range(since..).any(|(_, record)| record.trigger == "overflow")
    }

    fn over_fence(&self, tokens: u64) -> bool {
        self.band.over_fence(tokens, self.meter.margin(&self.band))
    }

    /// What a commit for this reason does, or why there is none. Open folds that are to be closed are closed first; the rest is decided
    /// on the branch that tells of it.
    fn commit(&self, trigger: &'static str) -> Result<Plan, &'static str> {
        let before = self.meter.tokens();
        let closing = self.closing(is_urgent(trigger));
        if closing.is_empty() {
            return self.released_for(trigger).as_ref().unwrap_or(self).plan(trigger, before);
        }
        let record = self.refolds(&closing);
        let branch = self.followed_by(&record);
        let closed = View::of(&branch, self.settings, self.band).standing();
        let released = closed.released_for(trigger);
        let view = released.as_ref().unwrap_or(&closed);
        let refolded = closing.len();
        match view.plan(trigger, before) {
            Ok(plan) => Ok(Plan { records: std::iter::once(record).chain(plan.records).collect(), refolded, ..plan }),
            Err(why) => {
                let after = view.meter.tokens();
                if trigger == "band" && before.saturating_sub(after) < self.band.budget / 50 {
                    return Err(why);
                }
                let alone = if trigger == "overflow" { trigger } else { "refold" };
                Ok(Plan { refolded, ..view.planned(alone, Some(self.closes(alone, &closing)), Vec::new(), after) })
            }
        }
    }

    /// What a commit sees that does not wait for withdrawn marks, where there are any.
    fn released_for(&self, trigger: &str) -> Option<View<'a>> {
        (is_urgent(trigger) && !self.decisions.withdrawn.is_empty()).then(|| self.released())
    }

    /// What the folds of this window and clips do, or why there is nothing to do; `before` is the occupancy before anything was done.
    fn plan(&self, trigger: &'static str, before: u64) -> Result<Plan, &'static str> {
        let target = self.target();
        let peeks = self.due_peeks();
        let start = self.with_lines(self.standing.clone(), &peeks);
        let state = self.fold(&start, target, trigger == "person");
        let minted = &state.folds[start.folds.len()..];
        // A request that is too large may be clipped where nothing can be folded.
        let too_large = is_urgent(trigger);
        if minted.is_empty() && !too_large {
            return Err(self.nothing());
        }
        let after = self.estimate(&state);
        if trigger == "band" && before.saturating_sub(after) < self.band.budget / 50 {
            return Err("below the floor");
        }
        let mut clipped = self.clip_users(self.clip_results(state.clone()));
        if too_large && (trigger == "overflow" || self.over_fence(self.estimate(&clipped))) {
            clipped = self.clip_unread(clipped);
        }
        let (mut edits, mut rest) = self.edits(&state, &clipped, start.folds.len());
        let lines: Edits = rest.extract_if(.., |(at, _)| peeks.contains(at)).collect();
        if minted.is_empty() && rest.is_empty() {
            return Err(self.nothing());
        }
        edits.extend(self.lost_placeholders(&state));
        edits.extend(lines);
        edits.extend(rest);
        Ok(self.planned(trigger, Some(self.record(trigger, minted, &edits)), edits, after))
    }

    fn planned(&self, trigger: &'static str, record: Option<String>, edits: Edits, after: u64) -> Plan {
        let (records, unwritten) = (record.into_iter().collect(), self.unwritten.clone());
        Plan { trigger, records, refolded: 0, unwritten, edits, target: self.target(), after }
    }

    /// The occupancy that a commit aims at.
    fn target(&self) -> u64 {
        self.band.target(self.immovable())
    }

    /// A record that makes no fold, with these edits.
    fn without_folds(&self, trigger: &'static str, edits: Edits) -> Plan {
        let mut state = self.standing.clone();
        state.shown.extend(edits.iter().cloned());
        let (record, after) = (self.record(trigger, &[], &edits), self.estimate(&state));
        self.planned(trigger, Some(record), edits, after)
    }

    /// Why there is nothing to fold.
    fn nothing(&self) -> &'static str {
        let held = |unit: &Unit| unit.ripe.is_some() && self.held(unit) && unit.entries.iter().all(|at| self.shown.contains_key(at));
        if self.units.iter().any(held) { "nothing but held" } else { "nothing ripe" }
    }

    /// X, what no commit can move: occupancy without what is ripe, unheld, editable and nobody else's.
    fn immovable(&self) -> u64 {
        let movable = |unit: &&Unit| unit.ripe.is_some() && !self.held(unit) && (unit.kind.foldable() || unit.kind == UnitKind::User);
        let movable: Size = self
            .units
            .iter()
            .filter(movable)
            .flat_map(|unit| &unit.entries)
            .filter(|at| walk::editable(&self.branch[**at]) && !self.foreign(**at))
            .filter_map(|at| Some(self.shown.get(at)?.size))
            .sum();
        let movable = self.meter.rate_mean().tokens_at_least(movable.bytes) + movable.images * IMAGE_TOKENS;
        self.meter.tokens().saturating_sub(movable)
    }

    /// The first number of leaves that suffices, else (or where all are asked for) all of them; then groups of mixed depth.
    fn fold(&self, start: &State, target: u64, all: bool) -> State {
        let mut leaves = start.clone();
        let mut best = self.consolidate(leaves.clone());
        if !all && self.estimate(&best) <= target {
            return best;
        }
        let hidden = start.folds.iter().filter(|fold| fold.standing != Standing::Dissolved).flat_map(|fold| fold.hides.iter().copied());
        let carries = |fold: &&Fold| matches!(fold.standing, Standing::Shown | Standing::Open(_));
        let taken: BTreeSet<usize> = hidden.chain(start.folds.iter().map(Rc::as_ref).filter(carries).map(|fold| fold.carrier)).collect();
        for mark in self.marks(&self.claims(start), &taken) {
            let Some(next) = self.leaf(&leaves, &mark) else { continue };
            leaves = next;
            best = self.consolidate(leaves.clone());
            if !all && self.estimate(&best) <= target {
                return best;
            }
        }
        while self.estimate(&best) > target
            && let Some(mixed) = self.mixed(&best)
        {
            best = self.consolidate(mixed);
        }
        best
    }

    /// Occupancy if the edits of this state freed their signed difference.
    fn estimate(&self, state: &State) -> u64 {
        let signed = |(bytes, images): (i64, i64), (more, pictures): (i64, i64)| (bytes + more, images + pictures);
        let freed = state.shown.iter().map(|(at, new)| self.shown[at].size.minus(new.size)).fold((0, 0), signed);
        self.meter.if_freed(freed)
    }

    /// Every entry whose shown content changes, in the order of the law: what new folds change, then the rest; `minted` is where the new
    /// folds begin.
    fn edits(&self, folded: &State, state: &State, minted: usize) -> (Edits, Edits) {
        let mut order: Vec<usize> = Vec::new();
        for root in state.roots.iter().filter(|root| **root >= minted) {
            let fold = &state.folds[*root];
            let mut touched = self.touched(state, fold);
            touched.retain(|at| self.content(folded, *at) != self.shown[at].content.as_deref());
            let (shown, gone): (Vec<usize>, Vec<usize>) = touched.into_iter().partition(|at| self.content(state, *at).is_some());
            let rank = |at: &usize| (*at != fold.carrier, self.branch[*at].kind() == &Kind::Message(Role::User), *at);
            let mut first = shown;
            first.sort_by_key(rank);
            order.extend(first);
            let mut gone = gone;
            gone.sort_by_key(|at| (self.unit_of[at], std::cmp::Reverse(*at)));
            order.extend(gone);
        }
        // What no new fold changed was clipped, or was a peek.
        let placed: BTreeSet<usize> = order.iter().copied().collect();
        let rest = state.shown.keys().copied().filter(|at| !placed.contains(at)).collect();
        let changed = |order: Vec<usize>| {
            let changed = order.into_iter().filter(|at| self.content(state, *at) != self.shown[at].content.as_deref());
            changed.map(|at| (at, state.shown[&at].clone())).collect()
        };
        (changed(order), changed(rest))
    }

    /// Every entry in context that a fold, or one inside it, may have changed.
    fn touched(&self, state: &State, fold: &Fold) -> BTreeSet<usize> {
        let mut touched: BTreeSet<usize> = fold.parts.iter().copied().chain([fold.carrier]).collect();
        touched.extend(fold.units.iter().flat_map(|unit| &self.units[*unit].entries));
        touched.extend(fold.children.iter().flat_map(|child| self.touched(state, &state.folds[*child])));
        touched.retain(|at| state.shown.contains_key(at));
        touched
    }

    /// Whether the agent is to be told that a commit is near: once on the way there.
    fn notice_is_due(&self, moment: Moment) -> bool {
        let lead = u128::from(self.settings.notice_lead_share_ppm) * u128::from(self.band.budget) / 1_000_000;
        let line = self.band.max_target.saturating_sub(u64::try_from(lead).expect("a share of the budget"));
        let starts_over = |(at, entry): (usize, &Entry)| match entry.kind() {
            Kind::Compaction { .. } => true,
            Kind::Message(Role::Assistant(answer)) => entry.is_good_answer() && answer.usage.is_some_and(|usage| usage.total < line),
            _ => self.history.records.get(&at).is_some_and(|record| matches!(record.trigger.as_str(), "band" | "fence" | "overflow" | "person")),
        };
        let since = self.branch.iter().enumerate().rev().take_while(|entry| !starts_over(*entry));
        let told = since.map(|(_, entry)| entry).any(is_notice);
        let near = (line..self.band.max_target).contains(&self.meter.tokens());
        self.settings.pre_commit_notice && matches!(moment, Moment::TurnEnd | Moment::Settling) && near && !told
    }

    fn record(&self, trigger: &str, minted: &[Rc<Fold>], edits: &[(usize, Shown)]) -> String {
        let folds: Vec<String> = minted.iter().map(|fold| self.fold_json(fold)).collect();
        let edits: Vec<String> = edits.iter().map(|(at, shown)| edit_json(self.branch[*at].id(), shown)).collect();
        format!(
            r#"{{"v":1,"trigger":"{trigger}","brief_version":{BRIEF_VERSION},"bound":{},"folds":[{}],"edits":[{}]}}"#,
            brief_bound(self.band.budget),
            folds.join(","),
            edits.join(",")
        )
    }

    fn fold_json(&self, fold: &Fold) -> String {
        let pair = |id: &str, digest: &Digest| format!(r#"[{},"{digest}"]"#, json(id));
        let parts: Vec<String> = fold.parts.iter().map(|at| pair(self.branch[*at].id(), &self.branch[*at].digest())).collect();
        let children: Vec<String> = fold.named.iter().map(|(id, digest)| pair(id, digest)).collect();
        let children = if fold.kind == FoldKind::Consolidated { format!(r#","children":[{}]"#, children.join(",")) } else { String::new() };
        let supplied = fold.supplied.as_ref().map_or(String::new(), |words| format!(r#","brief":{}"#, json(words)));
        let (kind, carrier) = (fold.kind.name(), json(self.branch[fold.carrier].id()));
        format!(r#"{{"id":"{}","kind":"{kind}","carrier":{carrier},"parts":[{}]{children}{supplied}}}"#, fold.id, parts.join(","))
    }
}

/// Whether the next request would be too large: such a commit cannot wait.
fn is_urgent(trigger: &str) -> bool {
    matches!(trigger, "fence" | "overflow")
}

/// Whether it is a message of ours that a commit is near.
pub fn is_notice(entry: &Entry) -> bool {
    let custom_type = || entry.field("customType").and_then(|json| serde_json::from_str::<String>(json).ok());
    entry.kind() == &Kind::CustomMessage && custom_type().is_some_and(|name| name == NOTICE)
}

/// An edit as a record promises it.
fn edit_json(target: &str, shown: &Shown) -> String {
    let target = json(target);
    let Some(content) = &shown.content else { return format!(r#"{{"target":{target}}}"#) };
    let images = if shown.size.images > 0 { format!(r#","images":{}"#, shown.size.images) } else { String::new() };
    let clip = shown.clip.map_or(String::new(), |(head, tail)| format!(r#","clip":[{head},{tail}]"#));
    format!(r#"{{"target":{target},"sha256":"{}","bytes":{}{images}{clip}}}"#, Digest::of(content.as_bytes()), shown.size.bytes)
}

/// A text block around a JSON string.
fn text_block(string: &str) -> String {
    format!(r#"{{"type":"text","text":{string}}}"#)
}
