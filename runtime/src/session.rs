//! A session: reads the journal entry by entry and answers, at a boundary, with entries to append.
//!
//! The journal is the only state. What a commit decided is read back from its record when the host has written it, in a live
//! session and in a reopened one alike; a decision that was never written changes nothing.

use crate::config::Settings;
use crate::fold::{CutPolicy, Cuts, FoldId, FoldKind, Rendered, UnitKind, Units, brief_bound};
use crate::journal::{Digest, Entry, Fields, Kind, Role};
use crate::window::{Band, Occupancy, Size};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The custom type of a commit record.
pub const COMMIT_RECORD: &str = "pi-fold.commit";

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

/// A commit, as drafts and as numbers (tokens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The record first, then the edits, in an order in which every prefix keeps calls and results paired.
    pub drafts: Vec<Draft>,
    /// Whether the window was over the fence.
    pub fence: bool,
    /// Occupancy before.
    pub before: u64,
    /// The occupancy it aims at.
    pub target: u64,
    /// The occupancy it is estimated to leave; above `target` when no more can be folded.
    pub after: u64,
    /// How many folds it makes.
    pub folds: usize,
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
    /// All marks together free less than 2% of the budget.
    BelowFloor,
}

/// A fold on the branch.
#[derive(Clone, Debug)]
struct Fold {
    kind: FoldKind,
    parts: Vec<(String, Digest)>,
}

/// Why a fold cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// There is no such fold on the branch.
    Unknown(String),
    /// An original is missing or is not the one that was folded.
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
            RecoverError::Damaged { fold, entry } => {
                write!(f, "entry {entry} of fold {fold} is missing or differs from what was folded; nothing is given back in its place")
            }
        }
    }
}

impl std::error::Error for RecoverError {}

/// The runtime's view of one branch.
#[derive(Debug)]
pub struct Session {
    band: Band,
    policy: CutPolicy,
    branch: Vec<Entry>,
    by_id: BTreeMap<String, usize>,
    shown: Vec<Size>,
    units: Units,
    cuts: Cuts,
    occupancy: Occupancy,
    folds: BTreeMap<String, Fold>,
    /// Targets that records promised and whose edits are not seen yet.
    promised: BTreeSet<usize>,
    /// Entries whose content someone else edited.
    foreign: BTreeSet<usize>,
    /// Sum of what can be moved: shown, ripe, not held, and Pi can edit it.
    movable: Size,
    ripe: BTreeSet<usize>,
    newest_user: Option<usize>,
    /// What was appended since the last commit record; `None` before the first.
    since_commit: Option<Size>,
}

impl Session {
    /// Opens a branch for a model with this context window.
    ///
    /// # Errors
    /// A sentence when the budget is too small; see [`Band::new`].
    pub fn open(branch: &[Entry], settings: &Settings, window: u64) -> Result<Self, String> {
        let band = Band::new(settings, window)?;
        let policy = CutPolicy {
            min_fold: settings.thresholds.min_fold_chars,
            brief_chars: brief_bound(band.budget),
            blacklist: settings.blacklist_auto_fold_tools.clone(),
        };
        let mut session = Session {
            band,
            cuts: Cuts::new(policy.clone()),
            policy,
            branch: Vec::new(),
            by_id: BTreeMap::new(),
            shown: Vec::new(),
            units: Units::default(),
            occupancy: Occupancy::new(),
            folds: BTreeMap::new(),
            promised: BTreeSet::new(),
            foreign: BTreeSet::new(),
            movable: Size::default(),
            ripe: BTreeSet::new(),
            newest_user: None,
            since_commit: None,
        };
        for entry in branch {
            session.observe(entry);
        }
        Ok(session)
    }

    /// Takes the next entry of the branch. Costs what the entry costs.
    pub fn observe(&mut self, entry: &Entry) {
        let at = self.branch.len();
        self.branch.push(entry.clone());
        self.by_id.insert(entry.id().to_owned(), at);
        let size = Size::of_original(entry);
        self.shown.push(size);
        if entry.kind() == &Kind::Message(Role::User) {
            self.newest_user = Some(at);
        }
        match entry.kind() {
            Kind::ContextEdit { target, .. } => self.edit(target, entry),
            Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD => self.record(entry),
            Kind::Compaction { .. } => self.compacted(size),
            Kind::ModelChange => self.occupancy.model_changed(),
            Kind::Message(Role::Assistant(assistant)) if entry.is_good_answer() => {
                self.occupancy.answered(assistant.usage, size);
                self.appended(size);
            }
            _ => {
                self.occupancy.added(size);
                self.appended(size);
            }
        }
        let ripened = self.units.observe(entry);
        for at in ripened.iter().filter(|unit| unit.kind != UnitKind::Irregular && unit.kind != UnitKind::Ender).flat_map(|unit| &unit.entries) {
            if !self.foreign.contains(at) && self.ripe.insert(*at) {
                self.movable = self.movable + self.shown[*at];
            }
        }
        self.cuts.ripened(ripened, &self.branch, self.newest_user);
    }

    fn appended(&mut self, size: Size) {
        if let Some(since) = &mut self.since_commit {
            *since = *since + size;
        }
    }

    fn edit(&mut self, target: &str, edit: &Entry) {
        let Some(&at) = self.by_id.get(target) else { return };
        let before = self.shown[at];
        let after = edit.replacement().map_or(Size::default(), Size::of_content);
        self.shown[at] = after;
        let (grown, gone) = (after.saturating_sub(before), before.saturating_sub(after));
        if self.promised.remove(&at) {
            let (bytes, images) = before.minus(after);
            self.occupancy.freed(bytes, images);
        } else {
            self.foreign.insert(at);
            self.occupancy.added(grown);
            self.occupancy.taken(gone);
            self.occupancy.changed();
        }
        if self.ripe.contains(&at) {
            self.movable = (self.movable + grown).saturating_sub(gone);
        }
    }

    fn record(&mut self, entry: &Entry) {
        let Some(record) = Record::parse(entry) else { return };
        let mut claimed = BTreeSet::new();
        for (id, fold) in record.folds {
            claimed.extend(fold.parts.iter().filter_map(|(part, _)| self.by_id.get(part)));
            self.folds.insert(id, fold);
        }
        self.cuts.apply(&claimed);
        self.promised.extend(record.targets.iter().filter_map(|target| self.by_id.get(target)));
        self.occupancy.changed();
        self.since_commit = Some(Size::default());
    }

    /// Pi compacted the window itself: what is before the kept range is gone from it, and the kept range starts a new count.
    fn compacted(&mut self, summary: Size) {
        let window = crate::window::projection(&self.branch);
        let kept: BTreeMap<&str, Size> = window.iter().map(|projected| (projected.source.id(), Size::of(projected))).collect();
        let mut gone = Size::default();
        for (at, entry) in self.branch.iter().enumerate() {
            let shown = kept.get(entry.id()).copied().unwrap_or_default();
            gone = gone + self.shown[at].saturating_sub(shown);
            if self.ripe.contains(&at) {
                self.movable = self.movable.saturating_sub(self.shown[at].saturating_sub(shown));
            }
            self.shown[at] = shown;
        }
        self.promised.clear();
        self.cuts = Cuts::new(self.policy.clone());
        self.occupancy.taken(gone);
        self.occupancy.added(summary);
        self.occupancy.changed();
    }

    /// Decides what to append at a turn's end. Below the band this costs the same however long the session is; at the band it looks
    /// at every mark.
    pub fn boundary(&self) -> Decision {
        let before = self.occupancy.tokens();
        let fence = self.band.over_fence(before, self.occupancy.margin(&self.band));
        if before < self.band.max_target && !fence {
            return Decision::Quiet;
        }
        if !fence && self.occupancy.waiting() {
            return Decision::Deferred(Deferral::WaitingForAnswer);
        }
        if !fence && self.since_commit.is_some_and(|since| self.tokens(since) < self.band.budget / 20) {
            return Decision::Deferred(Deferral::Rearm);
        }
        self.commit(before, fence)
    }

    fn commit(&self, before: u64, fence: bool) -> Decision {
        let target = self.band.target(self.occupancy.immovable(self.movable));
        let mut folds = Vec::new();
        let (mut bytes, mut images) = (0, 0);
        let mut after = before;
        for cut in self.cuts.marks().iter().filter(|cut| !cut.parts().iter().any(|at| self.foreign.contains(at))) {
            if after <= target {
                break;
            }
            let fold = cut.render(&self.branch, self.policy.brief_chars);
            let (free_bytes, free_images) = self.frees(&fold);
            // A mark that frees nothing is passed over and stays pending.
            if free_bytes <= 0 && free_images <= 0 {
                continue;
            }
            bytes += free_bytes;
            images += free_images;
            after = self.occupancy.after_freeing(bytes, images);
            folds.push((cut.kind, cut.parts(), fold));
        }
        if folds.is_empty() {
            return Decision::Deferred(Deferral::NothingRipe);
        }
        if !fence && before.saturating_sub(after) < self.band.budget / 50 {
            return Decision::Deferred(Deferral::BelowFloor);
        }
        let drafts = self.drafts(&folds, fence);
        Decision::Commit(Commit { drafts, fence, before, target, after, folds: folds.len() })
    }

    /// What the edits of a fold take away, in bytes and images; negative where they add.
    fn frees(&self, fold: &Rendered) -> (i64, i64) {
        let mut freed = (0, 0);
        for (at, content) in &fold.edits {
            let after = content.as_deref().map_or(Size::default(), Size::of_json);
            let (bytes, images) = self.shown[*at].minus(after);
            freed = (freed.0 + bytes, freed.1 + images);
        }
        freed
    }

    fn drafts(&self, folds: &[(FoldKind, Vec<usize>, Rendered)], fence: bool) -> Vec<Draft> {
        let trigger = if fence { "fence" } else { "band" };
        let mut data = format!(
            "{{\"v\":1,\"trigger\":\"{trigger}\",\"brief_version\":{},\"bound\":{},\"folds\":[",
            crate::fold::BRIEF_VERSION,
            self.policy.brief_chars
        );
        let comma = |first: bool| if first { "" } else { "," };
        for (index, (kind, parts, fold)) in folds.iter().enumerate() {
            let _ = write!(data, "{}{{\"id\":\"{}\",\"kind\":\"{}\",\"parts\":[", comma(index == 0), fold.id, kind.name());
            for (index, &at) in parts.iter().enumerate() {
                let entry = &self.branch[at];
                let _ = write!(data, "{}[{},\"{}\"]", comma(index == 0), serde_json::Value::from(entry.id()), entry.digest());
            }
            data.push_str("]}");
        }
        data.push_str("],\"edits\":[");
        let edits: Vec<&(usize, Option<String>)> = folds.iter().flat_map(|(_, _, fold)| &fold.edits).collect();
        for (index, (at, content)) in edits.iter().enumerate() {
            let digest = content.as_deref().map_or("null".to_owned(), |content| format!("\"{}\"", Digest::of(content.as_bytes())));
            let _ = write!(data, "{}[{},{digest}]", comma(index == 0), serde_json::Value::from(self.branch[*at].id()));
        }
        data.push_str("]}");
        let record = Draft::Custom { custom_type: COMMIT_RECORD, data };
        let edits =
            edits.into_iter().map(|(at, content)| Draft::ContextEdit { target: self.branch[*at].id().to_owned(), replacement: content.clone() });
        std::iter::once(record).chain(edits).collect()
    }

    fn tokens(&self, size: Size) -> u64 {
        self.occupancy.rate_min().tokens_at_most(size.bytes).saturating_add(size.images * crate::window::IMAGE_TOKENS)
    }

    /// Estimated tokens of the next request.
    pub fn occupancy(&self) -> u64 {
        self.occupancy.tokens()
    }

    /// The band in force.
    pub fn band(&self) -> Band {
        self.band
    }

    /// How many cuts wait for a commit.
    pub fn marks(&self) -> usize {
        self.cuts.marks().len()
    }

    /// The folds on the branch, by id.
    pub fn folds(&self) -> impl Iterator<Item = (&str, FoldKind)> {
        self.folds.iter().map(|(id, fold)| (id.as_str(), fold.kind))
    }

    /// The exact entries that a fold hides, in order, each checked against the digest its record holds.
    ///
    /// # Errors
    /// [`RecoverError`] when the fold is unknown or an original is not what was folded.
    pub fn recover(&self, fold: &str) -> Result<Vec<&Entry>, RecoverError> {
        let found = self.folds.get(fold).ok_or_else(|| RecoverError::Unknown(fold.to_owned()))?;
        let original = |(id, digest): &(String, Digest)| {
            let entry = self.by_id.get(id).map(|&at| &self.branch[at]);
            entry
                .filter(|entry| Digest::of(entry.line().as_bytes()) == *digest)
                .ok_or_else(|| RecoverError::Damaged { fold: fold.to_owned(), entry: id.clone() })
        };
        found.parts.iter().map(original).collect()
    }
}

/// A commit record as read back. What cannot be read is no record: its edits then stand as anybody's.
struct Record {
    folds: Vec<(String, Fold)>,
    targets: Vec<String>,
}

impl Record {
    fn parse(entry: &Entry) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Data {
            v: u32,
            folds: Vec<FoldData>,
            edits: Vec<(String, Option<String>)>,
        }
        #[derive(serde::Deserialize)]
        struct FoldData {
            id: String,
            kind: String,
            parts: Vec<(String, String)>,
        }
        let data: Data = serde_json::from_str(Fields::parse(entry.line())?.raw("data")?).ok().filter(|data: &Data| data.v == 1)?;
        let fold = |data: FoldData| {
            let kind = [FoldKind::Tool, FoldKind::Span, FoldKind::Consolidated].into_iter().find(|kind| kind.name() == data.kind)?;
            let parts: Vec<(String, Digest)> = data.parts.into_iter().map(|(id, hex)| Some((id, Digest::parse(&hex)?))).collect::<Option<_>>()?;
            let named = FoldId::of(kind, parts.iter().map(|(id, digest)| (id.as_str(), *digest)), data.id.len().saturating_sub(2));
            (named.to_string() == data.id).then_some((data.id, Fold { kind, parts }))
        };
        let folds = data.folds.into_iter().map(fold).collect::<Option<_>>()?;
        Some(Record { folds, targets: data.edits.into_iter().map(|(target, _)| target).collect() })
    }
}
