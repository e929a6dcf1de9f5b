//! A session: reads the journal entry by entry and answers, at a boundary, with entries to append.
//!
//! The journal is the only state. What a commit decided is read back from its record when the host has written it, in a live
//! session and in a reopened one alike; a decision that was never written changes nothing.
//!
//! | where | what |
//! |---|---|
//! | here | observing entries, deciding at a boundary |
//! | `decision` | what a boundary answers |
//! | `decided` | what the journal says an agent or a person decided |
//! | `expand` | one level of a fold shown, and folded again |
//! | `map` | the window as a map, for screens |
//! | `misses` | what made the provider read anew |
//! | `notice` | one message before the band is reached, if asked for |
//! | `peeks` | peeks that were read, one line left of each |
//! | `promises` | edits that a record promised and the branch does not hold yet: the overlay |
//! | `shortfall` | what keeps a window above its target |
//! | `repairs` | what another extension tore apart is put together once |
//! | `recovery` | originals given back, second copies |
//! | `status` | what a person may want to know |
//! | `suspension` | nothing is done unasked after an internal error |
//! | `choice` | what a decision may be about: what an id names, what pins take |
//! | `view` | its folds, marks and entries, to be read |

mod choice;
mod decided;
mod decision;
mod expand;
mod map;
mod misses;
mod notice;
mod peeks;
mod promises;
mod recovery;
mod repairs;
mod shortfall;
mod status;
mod suspension;
mod view;

pub use crate::fold::{COMMIT_RECORD, DECISION, Decided};
pub use choice::Pins;
pub use decision::{Commit, Decision, Deferral, Draft, Moment, OverFence, Recovery, Trigger};
pub use map::{Category, Gauge, Item, Row, State};
pub use misses::Misses;
pub use notice::NOTICE;
pub use recovery::{Original, RecoverError, Saved};
pub use shortfall::{Obstacle, Shortfall};
pub use status::Status;
pub use view::{FoldView, Mark, Origin, Place};

pub(crate) use choice::{Choice, Named, Unmarked};
pub(crate) use expand::{Unclosed, Unopened};
pub(crate) use peeks::line_of;

use crate::config::Settings;
use crate::fold::{Changes, Context, CutPolicy, Cuts, Edit, Fold, FoldId, FoldKind, Lattice, Planner, Promise, Record, Shown, Units, brief_bound};
use crate::journal::{Digest, Entry, Kind, Role, StopReason};
use crate::window::{Band, IMAGE_TOKENS, Occupancy, Size};
use decided::Agreed;
use misses::Attribution;
use promises::Promises;
use repairs::Repairs;
use std::collections::{BTreeMap, BTreeSet};

/// How a block of reasoning names its signature; within a text the quotes would be escaped.
const SIGNED: &str = "\"thinkingSignature\":\"";
/// What stands there on the Chat Completions wire: the field that the reasoning came in, which signs nothing.
const FIELDS: [&str; 4] = ["\"", "reasoning\"", "reasoning_content\"", "reasoning_text\""];

/// Whether an answer holds reasoning that its provider signed.
fn is_signed(line: &str) -> bool {
    line.match_indices(SIGNED).any(|(at, _)| !FIELDS.iter().any(|field| line[at + SIGNED.len()..].starts_with(field)))
}

/// The runtime's view of one branch.
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    band: Band,
    policy: CutPolicy,
    context: Context,
    units: Units,
    cuts: Cuts,
    occupancy: Occupancy,
    lattice: Lattice,
    /// The digests that records hold for what they folded.
    digests: BTreeMap<usize, Digest>,
    /// Those of what was dissolved, by fold.
    dissolved: BTreeMap<FoldId, BTreeMap<usize, Digest>>,
    promises: Promises,
    agreed: Agreed,
    repairs: Repairs,
    /// Ephemeral peeks that are shown whole.
    peeks: BTreeSet<usize>,
    /// Sum of what can be moved: shown, ripe, not held, editable, nobody else's.
    movable: Size,
    /// A person's words in the window; a carrier counts its own content only.
    words: Size,
    /// What was appended since the last commit record; `None` before the first.
    since_commit: Option<Size>,
    misses: Attribution,
    /// Whether the notice of this approach to the band was given.
    noticed: bool,
    /// Folded originals of which no second copy is known.
    unsaved: Vec<usize>,
    last_answer: Option<usize>,
    /// An answer failed or was cut off before its first word, and neither a good one came since nor a person has spoken.
    failed: bool,
    /// After one did, room was made by a commit or by the host's compaction.
    retried: bool,
    /// Why nothing is done unasked. No journal tells; a session that is opened again does not know it.
    suspended: Option<String>,
    /// Records that do not count, and why.
    uncounted: Vec<(usize, &'static str)>,
}

impl Session {
    /// Opens a branch for a model with this context window, in tokens.
    ///
    /// # Errors
    /// A sentence when the budget is too small; see [`Band::new`].
    pub fn open(branch: &[Entry], settings: &Settings, window: u64) -> Result<Self, String> {
        let band = Band::new(settings, window)?;
        let policy = CutPolicy { min_fold: settings.thresholds.min_fold_chars, brief_chars: brief_bound(band.budget) };
        let mut session = Session {
            settings: settings.clone(),
            band,
            cuts: Cuts::new(policy.clone()),
            policy,
            context: Context::default(),
            units: Units::default(),
            occupancy: Occupancy::new(),
            lattice: Lattice::default(),
            digests: BTreeMap::new(),
            dissolved: BTreeMap::new(),
            promises: Promises::default(),
            agreed: Agreed::default(),
            repairs: Repairs::default(),
            peeks: BTreeSet::new(),
            movable: Size::default(),
            words: Size::default(),
            since_commit: None,
            misses: Attribution::default(),
            noticed: false,
            unsaved: Vec::new(),
            last_answer: None,
            failed: false,
            retried: false,
            suspended: None,
            uncounted: Vec::new(),
        };
        for entry in branch {
            session.observe(entry);
        }
        Ok(session)
    }

    /// Takes other settings or another model's context window from here on, as if the branch were opened with them; what was committed
    /// stays, and nothing that is shown changes. Costs what opening the branch costs.
    ///
    /// # Errors
    /// Like [`Session::open`]; everything is as it was then.
    pub fn configure(&mut self, settings: &Settings, window: u64) -> Result<(), String> {
        let opened = Session::open(&self.context.entries, settings, window)?;
        let (unsaved, suspended) = (std::mem::take(&mut self.unsaved), self.suspended.take());
        *self = Session { unsaved, suspended, ..opened };
        Ok(())
    }

    /// Takes the next entry of the branch. Costs what the entry costs.
    pub fn observe(&mut self, entry: &Entry) {
        let size = Size::of_original(entry);
        let at = self.context.push(entry, size);
        self.approach(entry);
        match entry.kind() {
            Kind::ContextEdit { target, omits } => self.edit(target, *omits, entry),
            Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD => self.record(at, entry),
            Kind::Custom { custom_type } if *custom_type == *DECISION => self.decided(entry),
            Kind::Compaction { first_kept } => self.compacted(at, first_kept.as_deref(), size),
            Kind::ModelChange { model } => {
                self.occupancy.model(model);
                self.misses.model(model);
            }
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() => {
                self.occupancy.answered(&assistant.model, assistant.usage, size);
                self.misses.answered(&assistant.model, assistant.usage);
                if is_signed(entry.line()) {
                    self.misses.signed(at);
                }
                self.appended(size);
                self.last_answer = Some(at);
                (self.failed, self.retried) = (false, false);
            }
            kind => {
                match kind {
                    Kind::Message(Role::User) => {
                        self.words = self.words + size;
                        (self.failed, self.retried) = (false, false);
                    }
                    Kind::Message(Role::Assistant(answer)) => self.failed |= matches!(answer.stop, StopReason::Error | StopReason::Length),
                    _ => {}
                }
                if line_of(entry).is_some() {
                    self.peeks.insert(at);
                }
                self.occupancy.added(size);
                self.appended(size);
            }
        }
        for unit in self.units.observe(entry) {
            let number = self.context.ripened(unit, &self.settings.blacklist_auto_fold_tools);
            for at in self.context.units[number].entries.clone().into_iter().filter(|&at| self.context.is_movable(at)) {
                self.movable = self.movable + self.context.shown[at];
            }
            // A batch whose call a compaction left out cannot be folded, however late its results ripen.
            if self.context.units[number].entries[0] >= self.context.kept_from() {
                self.cuts.walk(number, &self.context, self.context.newest_user());
            }
        }
        if entry.is_good_answer() {
            self.context.answers += 1;
        }
    }

    fn appended(&mut self, size: Size) {
        if let Some(since) = &mut self.since_commit {
            *since = *since + size;
        }
    }

    fn edit(&mut self, target: &str, omits: bool, edit: &Entry) {
        let Some(&at) = self.context.by_id.get(target) else { return };
        if self.promises.keeps(at, edit) {
            return;
        }
        self.promises.end(at);
        self.take_out(at);
        if omits && self.is_failed_attempt(at) {
            self.misses.changed("host omission", at);
        } else {
            self.misses.changed("foreign edit", at);
            self.context.foreign.insert(at);
            self.edited_by_others(at);
        }
        self.occupancy.changed();
        // An edit of what a compaction left out is no longer looked at.
        if at < self.context.kept_from() {
            return self.put_in(at);
        }
        let before = self.context.shown[at];
        let (after, state) = self.as_edited(at, edit);
        self.occupancy.added(after.saturating_sub(before));
        self.occupancy.taken(before.saturating_sub(after));
        self.show(at, after, state, None);
        self.put_in(at);
    }

    /// What an entry shows after an edit.
    fn as_edited(&self, at: usize, edit: &Entry) -> (Size, Shown) {
        let entry = &self.context.entries[at];
        let state = match edit.replacement() {
            None => Shown::Gone,
            Some(content) if content.raw() == entry.content().raw() => Shown::Raw,
            Some(_) => Shown::Replaced,
        };
        (Size::of_edited(entry, edit), state)
    }

    /// Before something changes what an entry shows, or whether it may be moved.
    fn take_out(&mut self, at: usize) {
        if self.context.is_movable(at) {
            self.movable = self.movable.saturating_sub(self.context.shown[at]);
        }
    }

    /// After it.
    fn put_in(&mut self, at: usize) {
        if self.context.is_movable(at) {
            self.movable = self.movable + self.context.shown[at];
        }
    }

    /// An entry is shown with another content from here on, which may hold a placeholder of so many bytes.
    fn show(&mut self, at: usize, after: Size, state: Shown, placeholder: Option<u64>) {
        let before = self.context.shown[at];
        if self.context.entries[at].kind() == &Kind::Message(Role::User) {
            // A carrier counts its own content only.
            let own = self.context.original[at];
            let was = if self.carried(at) { own } else { before };
            self.words = self.words.saturating_sub(was) + if placeholder.is_some() { own } else { after };
        }
        (self.context.shown[at], self.context.state[at]) = (after, state);
        // A boundary looks at every peek in this set: one that is not shown whole is not in it.
        if state != Shown::Raw {
            self.peeks.remove(&at);
        } else if line_of(&self.context.entries[at]).is_some() {
            self.peeks.insert(at);
        }
        match placeholder {
            Some(bytes) => self.lattice.placed(at, bytes),
            None => {
                self.lattice.placeholders.remove(&at);
            }
        }
    }

    /// Whether what is shown of a user message holds a placeholder now.
    fn carried(&self, at: usize) -> bool {
        self.lattice.placeholders.contains(&at)
    }

    /// An answer that failed or was cut off, or a result of it, before the host tried again: omitting it is the host's own business.
    fn is_failed_attempt(&self, at: usize) -> bool {
        if self.context.unit_of[at].is_some() {
            return false;
        }
        let failed = |at: usize| match self.context.entries[at].kind() {
            Kind::Message(Role::Assistant(assistant)) => matches!(assistant.stop, StopReason::Error | StopReason::Length),
            _ => false,
        };
        match self.context.entries[at].kind() {
            Kind::Message(Role::Assistant(_)) => failed(at),
            Kind::Message(Role::ToolResult { .. }) => {
                let answer = (0..at).rev().find(|&before| matches!(self.context.entries[before].kind(), Kind::Message(Role::Assistant(_))));
                answer.is_some_and(failed)
            }
            _ => false,
        }
    }

    fn record(&mut self, position: usize, entry: &Entry) {
        if let Err(why) = self.counted(position, entry) {
            self.uncounted.push((position, why));
        }
    }

    /// Does what a record says; nothing of it, and why, where it does not count.
    fn counted(&mut self, position: usize, entry: &Entry) -> Result<(), &'static str> {
        let record = Record::parse(entry).ok_or("it does not read as one, or a fold in it is not called by what it lists")?;
        let folds = record
            .folds(&self.context, &self.lattice, &self.digests)
            .ok_or("what a fold in it names is not finished work on the branch before it, or is another fold's already")?;
        let changed = if record.changes.any() {
            let mut lattice = self.lattice.clone();
            folds.iter().for_each(|(fold, units, _)| lattice.insert(fold.clone(), units.iter().copied()));
            lattice.apply(&record.changes, &self.context).ok_or("a fold that it opens, closes or dissolves cannot be at that place")?;
            Some(lattice)
        } else {
            None
        };
        let swallowed = folds.iter().flat_map(|(fold, ..)| &fold.children).filter_map(|child| self.lattice.folds.get(child));
        let carriers: Vec<usize> = swallowed.map(|child| child.carrier.position()).collect();
        let (mut claimed, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for (fold, units, digests) in folds {
            taken.extend(fold.parts.iter().copied().chain([fold.carrier.position()]));
            self.unsaved.extend(&fold.parts);
            self.digests.extend(fold.parts.iter().copied().zip(digests));
            claimed.extend(&units);
            self.dissolved.remove(&fold.id);
            if changed.is_none() {
                self.lattice.insert(fold, units);
            }
        }
        if let Some(lattice) = changed {
            self.lattice = lattice;
            self.turned(&record.changes);
        } else if !self.cuts.apply(&claimed, &taken) || carriers.into_iter().any(|at| self.is_free(at)) {
            self.walk_again();
        }
        self.occupancy.changed();
        if !matches!(record.trigger.as_str(), "recovery" | "peek" | "expand" | "refold") {
            self.since_commit = Some(Size::default());
            self.noticed = false;
        }
        if !record.promises.is_empty() {
            let first = record.promises.iter().filter_map(|(target, _)| self.context.by_id.get(target)).min();
            self.misses.changed(Trigger::word(&record.trigger), first.copied().unwrap_or(position));
        }
        if record.trigger == Trigger::Recovery.name() {
            self.repaired(record.promises.iter().map(|(target, _)| target.as_str()));
        }
        for (index, (target, promise)) in record.promises.into_iter().enumerate() {
            let Some(&at) = self.context.by_id.get(&target) else { continue };
            if at >= self.context.kept_from() && at < position && self.context.is_editable(at) {
                self.promises.make((position, index), at, promise);
                self.promised(at, promise);
            }
        }
        if matches!(record.trigger.as_str(), "band" | "person") {
            self.end_withdrawals();
        }
        if record.trigger == Trigger::Person.name() {
            self.suspended = None;
        }
        self.retried |= record.trigger == Trigger::Overflow.name();
        Ok(())
    }

    /// What a record promises is shown from its place on, whether its edit is there yet or not.
    fn promised(&mut self, at: usize, promise: Promise) {
        let entry = &self.context.entries[at];
        let is_user = entry.kind() == &Kind::Message(Role::User);
        let as_long = promise.clip.is_none() && promise.size == self.context.original[at];
        let gives_back = |digest| as_long && Digest::of(entry.content().raw().as_bytes()) == digest;
        let state = match promise.digest {
            None => Shown::Gone,
            Some(digest) if gives_back(digest) => Shown::Raw,
            Some(_) => Shown::Replaced,
        };
        let carries = state == Shown::Replaced && promise.clip.is_none() && self.lattice.carriers.contains_key(&at);
        let own = if is_user { self.context.original[at].bytes } else { 0 };
        let (bytes, images) = self.context.shown[at].minus(promise.size);
        self.occupancy.freed(bytes, images);
        self.take_out(at);
        if carries && self.context.foreign.contains(&at) {
            self.repairs.asserted.insert(at);
        }
        self.show(at, promise.size, state, carries.then(|| promise.size.bytes.saturating_sub(own)));
        self.put_in(at);
    }

    /// The host compacted the window itself: what is before the kept range is gone from it, and the walk begins anew over what is kept.
    fn compacted(&mut self, at: usize, first_kept: Option<&str>, summary: Size) {
        let kept = first_kept.and_then(|id| self.context.by_id.get(id)).copied().unwrap_or(at);
        self.shown_again(kept);
        let mut gone = Size::default();
        for before in 0..at {
            // Only the newest compaction's summary is shown.
            let kind = self.context.entries[before].kind();
            let stays = before >= kept && !matches!(kind, Kind::Message(Role::System) | Kind::Compaction { .. });
            if !stays && !matches!(kind, Kind::ContextEdit { .. } | Kind::Custom { .. }) {
                if kind == &Kind::Message(Role::User) {
                    let was = if self.carried(before) { self.context.original[before] } else { self.context.shown[before] };
                    self.words = self.words.saturating_sub(was);
                }
                gone = gone + self.context.shown[before];
                (self.context.shown[before], self.context.state[before]) = (Size::default(), Shown::Gone);
            }
        }
        self.misses.changed("compaction", 0);
        self.retried |= self.failed;
        self.context.compaction = Some((at, kept));
        self.lattice.close_before(kept);
        self.hold_open();
        self.promises.end_before(kept);
        self.begin_anew();
        self.occupancy.taken(gone);
        self.occupancy.added(summary);
        self.occupancy.changed();
    }

    /// A compaction may keep what the one before it had left out; that shows again what its edits on the branch make of it.
    fn shown_again(&mut self, kept: usize) {
        let (now, before) = (kept, self.context.kept_from());
        if now >= before {
            return;
        }
        let mut newest = BTreeMap::new();
        for (edit, entry) in self.context.entries.iter().enumerate() {
            if let Kind::ContextEdit { target, .. } = entry.kind()
                && let Some(at) = self.context.by_id.get(&**target)
                && (now..before).contains(at)
            {
                newest.insert(*at, edit);
            }
        }
        for at in now..before {
            if matches!(self.context.entries[at].kind(), Kind::Message(Role::System) | Kind::Compaction { .. }) {
                continue;
            }
            let edited = newest.get(&at).map(|&edit| self.as_edited(at, &self.context.entries[edit]));
            let (after, state) = edited.unwrap_or((self.context.original[at], Shown::Raw));
            self.show(at, after, state, None);
            self.occupancy.added(after);
        }
    }

    /// Decides what to append at this moment. Below the band this costs the same however long the session is; at the band it looks at the
    /// marks.
    pub fn boundary(&self, moment: Moment) -> Decision {
        if self.suspended.is_some() && moment != Moment::Asked {
            return self.trigger(moment).map_or(Decision::Quiet, |_| Decision::Deferred(Deferral::Suspended));
        }
        let limit = moment.edits(self.context.entries.len());
        let decision = self.decide(moment, limit);
        let deferral = match decision {
            Decision::Quiet => None,
            Decision::Deferred(deferral) => Some(deferral),
            Decision::Commit(_) | Decision::Recovery(_) | Decision::Notice { .. } => return decision,
        };
        if matches!(moment, Moment::TurnEnd | Moment::Settling)
            && let Some(edits) = self.cheap_retirement()
        {
            return self.without_folds(Trigger::Peek, (self.occupancy.tokens(), self.target(false)), limit, edits, &Changes::default());
        }
        match self.writing(limit, Vec::new()) {
            (drafts, _) if drafts.is_empty() => match self.notice(moment) {
                Some(draft) if decision == Decision::Quiet => Decision::Notice { draft },
                _ => decision,
            },
            (drafts, left) => Decision::Recovery(Recovery { drafts, left, deferral }),
        }
    }

    fn decide(&self, moment: Moment, limit: usize) -> Decision {
        let before = self.occupancy.tokens();
        if let Some(edits) = self.torn_batches() {
            return self.without_folds(Trigger::Recovery, (before, self.target(false)), limit, edits, &Changes::default());
        }
        let Some(trigger) = self.trigger(moment) else { return Decision::Quiet };
        if trigger == Trigger::Overflow && self.retried {
            return Decision::Deferred(Deferral::RefusedAgain);
        }
        if trigger == Trigger::Band && self.occupancy.waiting() {
            return Decision::Deferred(Deferral::WaitingForAnswer);
        }
        if trigger == Trigger::Band && self.since_commit.is_some_and(|since| self.tokens_at_most(since) < self.band.budget / 20) {
            return Decision::Deferred(Deferral::Rearm);
        }
        self.commit_after_closing(before, trigger, limit)
    }

    /// What a moment asks for, as things stand.
    fn trigger(&self, moment: Moment) -> Option<Trigger> {
        let occupancy = self.occupancy.tokens();
        match moment {
            Moment::Asked => Some(Trigger::Person),
            Moment::Refused => Some(Trigger::Overflow),
            _ if self.is_over_fence(occupancy) => Some(Trigger::Fence),
            Moment::TurnEnd | Moment::Settling if occupancy >= self.band.max_target => Some(Trigger::Band),
            Moment::TurnEnd | Moment::Settling | Moment::Request => None,
        }
    }

    fn commit(&self, before: u64, trigger: Trigger, limit: usize) -> Decision {
        let urgent = trigger.is_urgent();
        // What was withdrawn waits for the next commit that can wait.
        let released = (urgent && !self.context.withdrawn.is_empty()).then(|| self.released());
        let (context, cuts, movable) = match &released {
            Some((context, cuts, movable)) => (context, cuts, *movable),
            None => (&self.context, &self.cuts, self.movable),
        };
        let target = self.band.target(self.occupancy.immovable(movable));
        // A peek that was read makes way first.
        let retirement = self.retirement(context);
        let (retired, base) = match &retirement {
            Some((edits, after)) => (after, Edit::freed(edits, context)),
            None => (context, (0, 0)),
        };
        let context = retired;
        let planner = self.planner(context, trigger == Trigger::Person);
        let estimate = |(bytes, images): (i64, i64)| self.occupancy.after_freeing(bytes.saturating_add(base.0), images.saturating_add(base.1));
        let marks = cuts.marks(context);
        let plan = planner.plan(&marks, target, estimate);
        let after = estimate(plan.freed());
        let nothing = Decision::Deferred(if context.holds() { Deferral::NothingButHeld } else { Deferral::NothingRipe });
        if !plan.folds() && !urgent {
            return nothing;
        }
        if trigger == Trigger::Band && before.saturating_sub(after) < self.band.budget / 50 {
            return Decision::Deferred(Deferral::BelowFloor);
        }
        let mut outcome = plan.outcome();
        // A message that was clipped, carries a fold that a parent swallows at once, and is clipped again shows what it showed.
        let stands = |edit: &Edit| edit.clip.is_some() && self.stands(edit);
        outcome.of_roots -= outcome.edits[..outcome.of_roots].iter().filter(|edit| stands(edit)).count();
        outcome.edits.retain(|edit| !stands(edit));
        let left_over = estimate(outcome.freed(context));
        if urgent && (trigger == Trigger::Overflow || self.is_over_fence(left_over)) {
            let goal = self.band.budget / 5 * 3 + self.band.budget % 5 * 3 / 5;
            planner.first_show(&mut outcome, &self.settings.blacklist_auto_fold_tools, |freed| estimate(freed) <= goal);
        }
        if outcome.edits.is_empty() {
            return nothing;
        }
        self.assert_lost(&mut outcome);
        if let Some((edits, _)) = retirement {
            peeks::add(&mut outcome, edits);
        }
        let shortfall = (after > target).then(|| self.shortfall(after, after - target, &outcome));
        let data = Record::write(&self.context, trigger.name(), self.policy.brief_chars, &outcome.folds, &outcome.edits, &Changes::default());
        let parents = outcome.folds.iter().filter(|(fold, _)| fold.kind == FoldKind::Consolidated).count();
        let (folds, hidden_users, clips) = (outcome.folds.len(), outcome.hidden_users, outcome.clips);
        let (edits, left) = self.writing(limit, outcome.edits);
        let drafts = std::iter::once(Draft::Custom { custom_type: COMMIT_RECORD, data }).chain(edits).collect();
        Decision::Commit(Commit { drafts, left, trigger, before, target, after, folds, parents, refolded: 0, hidden_users, clips, shortfall })
    }

    /// Everything a commit over this context is computed from.
    fn planner<'a>(&'a self, context: &'a Context, takes_all: bool) -> Planner<'a> {
        Planner {
            context,
            lattice: &self.lattice,
            policy: &self.policy,
            consolidate_after: self.settings.thresholds.consolidate_after,
            clip_ppm: self.settings.tool_fold_threshold_ppm,
            words_limit: self.band.budget / 10,
            rate: self.occupancy.rate_mean(),
            words: self.words,
            takes_all,
        }
    }

    /// The occupancy a commit would aim at; one that cannot wait knows no withdrawals.
    fn target(&self, urgent: bool) -> u64 {
        let movable = if urgent && !self.context.withdrawn.is_empty() { self.released().2 } else { self.movable };
        self.band.target(self.occupancy.immovable(movable))
    }

    fn is_over_fence(&self, tokens: u64) -> bool {
        self.band.over_fence(tokens, self.occupancy.margin(&self.band))
    }

    /// Whether the next request may leave, overlay and all. While folding is suspended nothing of ours stops one.
    ///
    /// # Errors
    /// [`OverFence`] where it may not: the provider would have no room to answer, or would refuse it. Walks the window.
    pub fn fence(&self) -> Result<(), OverFence> {
        let estimate = self.occupancy.tokens();
        if self.suspended.is_some() || !self.is_over_fence(estimate) {
            return Ok(());
        }
        Err(OverFence { estimate, margin: self.margin(), budget: self.band.budget, window: self.band.window, largest: self.largest() })
    }

    /// Whether the host's own compaction is let through, after the boundary of this moment: where it asks by its threshold (a turn's end), after
    /// a request was refused for its size, or before one leaves. It is where nothing of ours makes room, and while folding is suspended; where a
    /// person asks, always.
    pub fn lets_host_compact(&self, moment: Moment) -> bool {
        let nothing = |decision| matches!(decision, Decision::Deferred(Deferral::NothingRipe | Deferral::NothingButHeld));
        self.suspended.is_some()
            || match moment {
                Moment::Asked => true,
                Moment::Refused => nothing(self.decide(moment, 0)),
                Moment::TurnEnd | Moment::Settling | Moment::Request => self.fence().is_err(),
            }
    }

    /// What a person is told of [`Deferral::RefusedAgain`]. Walks the window.
    pub fn refused_again(&self) -> String {
        let heaviest =
            self.largest().map_or_else(String::new, |(entry, tokens)| format!("; the heaviest entry in it is {entry} with about {tokens} tokens"));
        format!(
            "the provider refused the request for its size again, after everything that can be folded and clipped was: it holds about {} tokens{heaviest}. It is not sent a third time. Take a model with a larger context window, go back before that entry, or compact",
            self.occupancy()
        )
    }

    /// The heaviest entry that is shown, and its tokens.
    fn largest(&self) -> Option<(String, u64)> {
        let largest = self.context.in_context().max_by_key(|&at| (self.context.shown[at].weight(), std::cmp::Reverse(at)));
        largest.map(|at| (self.context.entries[at].id().to_owned(), self.tokens_at_most(self.context.shown[at])))
    }

    fn tokens_at_most(&self, size: Size) -> u64 {
        self.occupancy.rate_min().tokens_at_most(size.bytes).saturating_add(size.images.saturating_mul(IMAGE_TOKENS))
    }

    /// Estimated tokens of the next request.
    pub fn occupancy(&self) -> u64 {
        self.occupancy.tokens()
    }

    /// How far off that estimate may be, in tokens.
    pub fn margin(&self) -> u64 {
        self.occupancy.margin(&self.band)
    }

    /// The band in force.
    pub fn band(&self) -> Band {
        self.band
    }

    /// How many cuts wait for a commit.
    pub fn marks(&self) -> usize {
        self.cuts.len()
    }

    /// The folds on the branch, by id, nested ones too, without those that were dissolved.
    pub fn folds(&self) -> impl Iterator<Item = (&str, FoldKind)> {
        let stands = |(id, _): &(&FoldId, &Fold)| !self.lattice.dissolved.contains(*id);
        self.lattice.folds.iter().filter(stands).map(|(id, fold)| (id.as_str(), fold.kind))
    }

    /// The folds that no other contains and whose placeholders are in context, in branch order: id, depth, entries hidden.
    pub fn roots(&self) -> impl Iterator<Item = (&str, u32, usize)> {
        let fold = |id: &crate::fold::FoldId| &self.lattice.folds[id];
        self.lattice.roots.values().map(move |id| (id.as_str(), fold(id).depth, fold(id).entries))
    }

    /// What is shown of the branch, by size.
    pub fn shown(&self) -> Size {
        self.occupancy.shown()
    }

    /// Bytes of the placeholders in the window.
    pub fn index_bytes(&self) -> u64 {
        self.lattice.carriers.values().map(|id| self.lattice.folds[id].placeholder).sum()
    }

    /// The folds directly inside a fold, in branch order; `None` if there is no such fold.
    pub fn children(&self, fold: &str) -> Option<Vec<&str>> {
        let found: &Fold = self.lattice.folds.get(fold)?;
        Some(found.children.iter().map(crate::fold::FoldId::as_str).collect())
    }
}
