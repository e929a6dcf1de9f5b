//! A session: reads the journal entry by entry and answers, at a boundary, with entries to append.
//!
//! The journal is the only state. What a commit decided is read back from its record when the host has written it, in a live
//! session and in a reopened one alike; a decision that was never written changes nothing.

use crate::config::Settings;
use crate::fold::{
    Context, CutPolicy, Cuts, Fold, FoldKind, Lattice, Obstacle, Outcome, Planner, Record, Shortfall, Shown, UnitKind, Units, brief_bound,
};
use crate::journal::{Digest, Entry, Kind, Role, StopReason};
use crate::ports::{Clock, ObjectStore, PrefixCache, StoreError};
use crate::window::{Band, IMAGE_TOKENS, Occupancy, Size};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::fold::COMMIT_RECORD;

/// An entry the host is asked to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draft {
    /// State, never in context: custom type and JSON data.
    Custom {
        /// Whose state.
        custom_type: &'static str,
        /// JSON text.
        data: String,
    },
    /// Replaces (JSON text of the content) or omits (`None`) an earlier entry.
    ContextEdit {
        /// The entry's id.
        target: String,
        /// The new content.
        replacement: Option<String>,
    },
}

/// What a boundary decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Occupancy is below the trigger.
    Quiet,
    /// The trigger is reached, but nothing is done, for this reason.
    Deferred(Deferral),
    /// One rewrite of what is shown.
    Commit(Commit),
}

/// What made a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// Occupancy reached the band's upper edge.
    Band,
    /// The next request would not have fitted.
    Fence,
}

impl Trigger {
    /// The word for it in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Band => "band",
            Trigger::Fence => "fence",
        }
    }
}

/// A commit, as drafts and as numbers (tokens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The record first, then the edits, in an order in which every prefix keeps calls and results paired.
    pub drafts: Vec<Draft>,
    /// Why now.
    pub trigger: Trigger,
    /// Occupancy before.
    pub before: u64,
    /// The occupancy it aims at.
    pub target: u64,
    /// The occupancy it is estimated to leave, clips not counted; above `target` when no more can be folded.
    pub after: u64,
    /// Folds it makes, parents included.
    pub folds: usize,
    /// How many of them contain others.
    pub parents: usize,
    /// User messages it hides.
    pub hidden_users: usize,
    /// Entries it clips.
    pub clips: usize,
    /// What keeps it above its target, if it is.
    pub shortfall: Option<Shortfall>,
}

/// Why a boundary at the trigger did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deferral {
    /// No good answer has followed the last change of what is shown, so the true count is not known.
    WaitingForAnswer,
    /// Less than 5% of the budget was appended since the last commit.
    Rearm,
    /// No mark would free anything.
    NothingRipe,
    /// No mark would free anything, and something ripe is held by choice.
    NothingButHeld,
    /// All marks together free less than 2% of the budget.
    BelowFloor,
}

impl Deferral {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Deferral::WaitingForAnswer => "waiting",
            Deferral::Rearm => "rearm",
            Deferral::NothingRipe => "nothing ripe",
            Deferral::NothingButHeld => "nothing but held",
            Deferral::BelowFloor => "below the floor",
        }
    }
}

/// What a person may want to know of a session; tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Estimated tokens of the next request.
    pub occupancy: u64,
    /// The band in force.
    pub band: Band,
    /// Cuts that wait for a commit.
    pub marks: usize,
    /// Folds on the branch, and how many of them no other contains.
    pub folds: usize,
    /// See `folds`.
    pub roots: usize,
    /// Milliseconds since the last answer, if there was one that tells its time.
    pub idle_ms: Option<u64>,
    /// Tokens after the first pending mark: what a commit would make the provider read anew.
    pub rewrite: u64,
    /// Tokens the next request would read from the provider's cache as things stand, and after such a commit.
    pub cached: (u64, u64),
}

/// One original as given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The entry's id.
    pub id: String,
    /// Its exact line.
    pub line: String,
    /// Whether the journal did not have it and the second copy was used.
    pub from_store: bool,
}

/// Why a fold cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// There is no such fold on the branch.
    Unknown(String),
    /// An original is missing or is not the one that was folded, and no second copy replaces it.
    Damaged {
        /// The fold.
        fold: String,
        /// The entry.
        entry: String,
    },
}

impl std::fmt::Display for RecoverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecoverError::Unknown(id) => write!(f, "there is no fold {id} on this branch"),
            RecoverError::Damaged { fold, entry } => write!(
                f,
                "entry {entry} of fold {fold} differs from what was folded and no second copy of it was found; nothing is given back in its place"
            ),
        }
    }
}

impl std::error::Error for RecoverError {}

/// The runtime's view of one branch.
#[derive(Debug)]
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
    /// Targets that records promised and whose edits are not seen yet.
    promised: BTreeSet<usize>,
    /// Sum of what can be moved: shown, ripe, not held, editable, nobody else's.
    movable: Size,
    /// A person's words in the window; a carrier counts its own content only.
    words: Size,
    /// What was appended since the last commit record; `None` before the first.
    since_commit: Option<Size>,
    /// Folded originals that no store was offered yet.
    unsaved: Vec<usize>,
    last_answer: Option<usize>,
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
            promised: BTreeSet::new(),
            movable: Size::default(),
            words: Size::default(),
            since_commit: None,
            unsaved: Vec::new(),
            last_answer: None,
        };
        for entry in branch {
            session.observe(entry);
        }
        Ok(session)
    }

    /// Takes the next entry of the branch. Costs what the entry costs.
    pub fn observe(&mut self, entry: &Entry) {
        let size = Size::of_original(entry);
        let at = self.context.push(entry, size);
        match entry.kind() {
            Kind::ContextEdit { target, omits } => self.edit(target, *omits, entry),
            Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD => self.record(entry),
            Kind::Compaction { first_kept } => self.compacted(at, first_kept.as_deref(), size),
            Kind::ModelChange { model } => self.occupancy.model(model),
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() => {
                self.occupancy.answered(&assistant.model, assistant.usage, size);
                self.appended(size);
                self.last_answer = Some(at);
            }
            kind => {
                if kind == &Kind::Message(Role::User) {
                    self.words = self.words + size;
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
            self.cuts.walk(number, &self.context, self.context.newest_user());
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
        let before = self.context.shown[at];
        // An edit of what a compaction left out is no longer looked at.
        let in_context = self.context.compaction.is_none_or(|(_, kept)| at >= kept);
        let after = if in_context { Size::of_edited(&self.context.entries[at], edit) } else { before };
        let (grown, gone) = (after.saturating_sub(before), before.saturating_sub(after));
        let was_movable = self.context.is_movable(at);
        let ours = self.promised.remove(&at);
        if ours {
            let (bytes, images) = before.minus(after);
            self.occupancy.freed(bytes, images);
        } else {
            if !(omits && self.is_failed_attempt(at)) {
                self.context.foreign.insert(at);
            }
            self.occupancy.added(grown);
            self.occupancy.taken(gone);
            self.occupancy.changed();
        }
        if was_movable {
            self.movable = self.movable.saturating_sub(before);
        }
        let carries = ours && !omits && self.lattice.carriers.contains_key(&at);
        if self.context.entries[at].kind() == &Kind::Message(Role::User) {
            let own = |shown: Size| if carries { self.context.original[at] } else { shown };
            let was = if self.carried(at) { self.context.original[at] } else { before };
            self.words = self.words.saturating_sub(was) + own(after);
        }
        self.context.shown[at] = after;
        if in_context {
            self.context.state[at] = match edit.replacement() {
                None => Shown::Gone,
                Some(content) if content.raw() == self.context.entries[at].content().raw() => Shown::Raw,
                Some(_) => Shown::Replaced,
            };
        }
        if self.context.is_movable(at) {
            self.movable = self.movable + after;
        }
        if carries {
            let own = if self.context.entries[at].kind() == &Kind::Message(Role::User) { self.context.original[at].bytes } else { 0 };
            self.lattice.placed(at, after.bytes.saturating_sub(own));
        } else {
            self.lattice.placeholders.remove(&at);
        }
    }

    /// Whether what is shown of a user message holds a placeholder now.
    fn carried(&self, at: usize) -> bool {
        self.lattice.placeholders.contains(&at)
    }

    /// An answer that failed or was cut off, or a result of it: omitting it is the host's own business.
    fn is_failed_attempt(&self, at: usize) -> bool {
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

    fn record(&mut self, entry: &Entry) {
        let Some(record) = Record::parse(entry) else { return };
        let Some(folds) = record.folds(&self.context, &self.lattice) else { return };
        let mut claimed = BTreeSet::new();
        for (fold, units, digests) in folds {
            self.unsaved.extend(&fold.parts);
            self.digests.extend(fold.parts.iter().copied().zip(digests));
            claimed.extend(&units);
            self.lattice.insert(fold, units);
        }
        self.cuts.apply(&claimed);
        self.promised = record.targets(&self.context.by_id).collect();
        self.occupancy.changed();
        self.since_commit = Some(Size::default());
    }

    /// The host compacted the window itself: what is before the kept range is gone from it, and the walk begins anew over what is kept.
    fn compacted(&mut self, at: usize, first_kept: Option<&str>, summary: Size) {
        let kept = first_kept.and_then(|id| self.context.by_id.get(id)).copied().unwrap_or(at);
        let mut gone = Size::default();
        for before in 0..at {
            // Only the newest compaction's summary is shown.
            let kind = self.context.entries[before].kind();
            let stays = before >= kept && !matches!(kind, Kind::Message(Role::System) | Kind::Compaction { .. });
            if !stays && !matches!(kind, Kind::ContextEdit { .. } | Kind::Custom { .. }) {
                if self.context.is_movable(before) {
                    self.movable = self.movable.saturating_sub(self.context.shown[before]);
                }
                if kind == &Kind::Message(Role::User) {
                    let was = if self.carried(before) { self.context.original[before] } else { self.context.shown[before] };
                    self.words = self.words.saturating_sub(was);
                }
                gone = gone + self.context.shown[before];
                (self.context.shown[before], self.context.state[before]) = (Size::default(), Shown::Gone);
            }
        }
        self.context.compaction = Some((at, kept));
        self.lattice.close_before(kept);
        self.promised.retain(|&target| target >= kept);
        self.cuts = Cuts::new(self.policy.clone());
        let newest_user = self.context.newest_user();
        for unit in 0..self.context.units.len() {
            if self.context.units[unit].entries[0] < kept {
                continue;
            }
            let first = self.context.units[unit].entries[0];
            let is_taken = self.lattice.carriers.contains_key(&first) || self.digests.contains_key(&first);
            if self.lattice.claimed.contains(&unit) {
                self.cuts.end_run(&self.context, newest_user);
            } else if !is_taken {
                self.cuts.walk(unit, &self.context, newest_user);
            }
        }
        self.occupancy.taken(gone);
        self.occupancy.added(summary);
        self.occupancy.changed();
    }

    /// Decides what to append at a turn's end. Below the band this costs the same however long the session is; at the band it looks
    /// at the marks.
    pub fn boundary(&self) -> Decision {
        let before = self.occupancy.tokens();
        let fence = self.band.over_fence(before, self.occupancy.margin(&self.band));
        if before < self.band.max_target && !fence {
            return Decision::Quiet;
        }
        if !fence && self.occupancy.waiting() {
            return Decision::Deferred(Deferral::WaitingForAnswer);
        }
        if !fence && self.since_commit.is_some_and(|since| self.tokens_at_most(since) < self.band.budget / 20) {
            return Decision::Deferred(Deferral::Rearm);
        }
        self.commit(before, if fence { Trigger::Fence } else { Trigger::Band })
    }

    fn commit(&self, before: u64, trigger: Trigger) -> Decision {
        let target = self.band.target(self.occupancy.immovable(self.movable));
        let planner = Planner {
            context: &self.context,
            lattice: &self.lattice,
            policy: &self.policy,
            consolidate_after: self.settings.thresholds.consolidate_after,
            clip_ppm: self.settings.tool_fold_threshold_ppm,
            words_limit: self.band.budget / 10,
            rate: self.occupancy.rate_mean(),
            words: self.words,
        };
        let marks = self.cuts.marks(&self.context);
        let Some(plan) = planner.plan(&marks, target, |(bytes, images)| self.occupancy.after_freeing(bytes, images)) else {
            return Decision::Deferred(if self.context.holds() { Deferral::NothingButHeld } else { Deferral::NothingRipe });
        };
        let (bytes, images) = plan.freed();
        let after = self.occupancy.after_freeing(bytes, images);
        if trigger == Trigger::Band && before.saturating_sub(after) < self.band.budget / 50 {
            return Decision::Deferred(Deferral::BelowFloor);
        }
        let outcome = plan.outcome();
        let shortfall = (after > target).then(|| self.shortfall(after, after - target, &outcome));
        let folds: Vec<_> = outcome.folds.iter().map(|(fold, names)| (fold, names.clone())).collect();
        let data = Record::write(&self.context, trigger.name(), self.policy.brief_chars, &folds, &outcome.edits);
        let parents = outcome.folds.iter().filter(|(fold, _)| fold.kind == FoldKind::Consolidated).count();
        let (folds, hidden_users, clips) = (outcome.folds.len(), outcome.hidden_users, outcome.clips);
        let target_of = |at: usize| self.context.entries[at].id().to_owned();
        let edits = outcome.edits.into_iter().map(|(at, replacement)| Draft::ContextEdit { target: target_of(at), replacement });
        let drafts = std::iter::once(Draft::Custom { custom_type: COMMIT_RECORD, data }).chain(edits).collect();
        Decision::Commit(Commit { drafts, trigger, before, target, after, folds, parents, hidden_users, clips, shortfall })
    }

    /// What still stands in the window after a commit that misses its target.
    fn shortfall(&self, after: u64, missing: u64, outcome: &Outcome) -> Shortfall {
        let (mut shown, mut edited) = (self.context.shown.clone(), vec![false; self.context.shown.len()]);
        for (at, content) in &outcome.edits {
            (shown[*at], edited[*at]) = (content.as_deref().map_or(Size::default(), Size::of_json), true);
        }
        let mut sums: BTreeMap<Obstacle, Size> = BTreeMap::new();
        // What weighs nothing is passed without a look: most of a long branch.
        for at in self.context.in_context().filter(|&at| shown[at] != Size::default()) {
            let sum = sums.entry(self.obstacle(at, edited[at])).or_default();
            *sum = *sum + shown[at];
        }
        let tokens = |size: Size| self.occupancy.rate_mean().tokens_at_most(size.bytes).saturating_add(size.images * IMAGE_TOKENS);
        let mut obstacles: Vec<(Obstacle, u64)> = sums.into_iter().map(|(obstacle, size)| (obstacle, tokens(size))).collect();
        let overhead = after.saturating_sub(obstacles.iter().map(|(_, tokens)| tokens).sum());
        obstacles.push((Obstacle::Overhead, overhead));
        obstacles.retain(|(_, tokens)| *tokens > 0);
        obstacles.sort_by_key(|&(obstacle, tokens)| (std::cmp::Reverse(tokens), obstacle));
        Shortfall { missing, obstacles }
    }

    fn obstacle(&self, at: usize, edited: bool) -> Obstacle {
        if self.context.foreign.contains(&at) {
            return Obstacle::Foreign;
        }
        let kind = self.context.entries[at].kind();
        let Some(unit) = self.context.unit_of[at] else {
            let editable =
                matches!(kind, Kind::Message(Role::User | Role::Assistant(_) | Role::ToolResult { .. } | Role::Custom) | Kind::CustomMessage);
            return if editable { Obstacle::Unripe } else { Obstacle::Uneditable };
        };
        match self.context.units[unit].kind {
            UnitKind::Irregular | UnitKind::Ender => Obstacle::Uneditable,
            _ if self.context.held.contains(&unit) => Obstacle::Held,
            UnitKind::User => Obstacle::Words,
            _ if edited || self.lattice.claimed.contains(&unit) => Obstacle::Placeholders,
            _ => Obstacle::Unfoldable,
        }
    }

    fn tokens_at_most(&self, size: Size) -> u64 {
        self.occupancy.rate_min().tokens_at_most(size.bytes).saturating_add(size.images * IMAGE_TOKENS)
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

    /// The folds on the branch, by id, nested ones too.
    pub fn folds(&self) -> impl Iterator<Item = (&str, FoldKind)> {
        self.lattice.folds.iter().map(|(id, fold)| (id.as_str(), fold.kind))
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
        self.lattice.roots.values().map(|id| self.lattice.folds[id].placeholder).sum()
    }

    /// What a person may want to know. Walks the branch.
    pub fn status(&self, clock: &dyn Clock, cache: &dyn PrefixCache) -> Status {
        let now = clock.now_ms();
        let first = self.cuts.marks(&self.context).first().map(|cut| self.context.units[cut.units[0]].entries[0]);
        let behind: Size = first.map_or(Size::default(), |first| self.context.shown[first..].iter().copied().sum());
        let occupancy = self.occupancy();
        let rewrite = self.tokens_at_most(behind).min(occupancy);
        let answered = self.last_answer.and_then(|at| self.context.entries[at].message_field("timestamp")?.parse::<u64>().ok());
        Status {
            occupancy,
            band: self.band,
            marks: self.marks(),
            folds: self.lattice.folds.len(),
            roots: self.lattice.roots.len(),
            idle_ms: answered.map(|answered| now.saturating_sub(answered)),
            rewrite,
            cached: (cache.forecast(occupancy, now), cache.forecast(occupancy - rewrite, now)),
        }
    }

    /// Offers the store every folded original it was not offered yet; what it refuses is offered again the next time.
    ///
    /// # Errors
    /// The first refusal. The journal still holds every original: a warning, never a stop.
    pub fn save(&mut self, store: &mut dyn ObjectStore) -> Result<usize, StoreError> {
        let mut saved = 0;
        while let Some(&at) = self.unsaved.last() {
            let entry = &self.context.entries[at];
            store.put(entry.digest(), entry.line().as_bytes())?;
            self.unsaved.pop();
            saved += 1;
        }
        Ok(saved)
    }

    /// The exact entries that a fold hides at any depth, in branch order, each checked against the digest its record holds; the
    /// store stands in for what the journal lost.
    ///
    /// # Errors
    /// [`RecoverError`] when the fold is unknown, or an original is not what was folded and the store does not have it.
    pub fn recover(&self, fold: &str, store: Option<&dyn ObjectStore>) -> Result<Vec<Original>, RecoverError> {
        let found = self.lattice.folds.get(fold).ok_or_else(|| RecoverError::Unknown(fold.to_owned()))?;
        self.lattice.hidden(found).into_iter().map(|at| self.original(fold, at, store)).collect()
    }

    fn original(&self, fold: &str, at: usize, store: Option<&dyn ObjectStore>) -> Result<Original, RecoverError> {
        let entry = &self.context.entries[at];
        let digest = self.digests.get(&at).copied();
        if digest == Some(entry.digest()) {
            return Ok(Original { id: entry.id().to_owned(), line: entry.line().to_owned(), from_store: false });
        }
        let copy = digest.zip(store).and_then(|(digest, store)| store.get(digest).ok().flatten().filter(|bytes| Digest::of(bytes) == digest));
        let line = copy.and_then(|bytes| String::from_utf8(bytes).ok());
        line.map(|line| Original { id: entry.id().to_owned(), line, from_store: true })
            .ok_or_else(|| RecoverError::Damaged { fold: fold.to_owned(), entry: entry.id().to_owned() })
    }

    /// The folds directly inside a fold, in branch order; `None` if there is no such fold.
    pub fn children(&self, fold: &str) -> Option<Vec<&str>> {
        let found: &Fold = self.lattice.folds.get(fold)?;
        Some(found.children.iter().map(crate::fold::FoldId::as_str).collect())
    }
}
