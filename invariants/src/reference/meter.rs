//! Occupancy, read off the whole branch: one pass, one running sum for each term of the law.

use crate::commit::{Promised, Record};
use fold_runtime::journal::{Assistant, Digest, Entry, Kind, Role, StopReason};
use fold_runtime::window::{Band, IMAGE_TOKENS, Rate, Size, projection};
use std::collections::BTreeMap;

/// What was counted and what came since.
#[derive(Default)]
pub(super) struct Meter {
    /// Total of the last good usage of the model in force.
    anchor: Option<u64>,
    /// The model in force.
    model: Option<String>,
    added: Size,
    freed: (i64, i64),
    /// Shown size of every entry, by position; absent where nothing is shown.
    shown: BTreeMap<usize, Size>,
    /// Tokens and size where the increment under way began.
    base: Option<(u64, Size)>,
    increments: Vec<(u64, u64)>,
    errors: Vec<u64>,
    /// Whether no good answer has followed the newest change of what is shown.
    pub(super) waiting: bool,
    /// What entries brought since the newest record that makes a commit, if there is one.
    pub(super) since_record: Option<Size>,
    /// Entries that somebody else edited: where they were first and last.
    pub(super) foreign: BTreeMap<usize, (usize, usize)>,
    /// What records promise and nothing has ended, by the position of the target.
    pub(super) promises: BTreeMap<usize, Promise>,
}

/// What a record says that an entry shows from there on.
#[derive(Clone)]
pub(super) struct Promise {
    /// The position of the record, and the place in it.
    pub(super) place: (usize, usize),
    pub(super) edit: Promised,
    /// Whether an edit on the branch says the same.
    pub(super) kept: bool,
}

impl Promise {
    pub(super) fn size(&self) -> Size {
        if self.edit.sha256.is_some() { Size { bytes: self.edit.bytes, images: self.edit.images } } else { Size::default() }
    }

    /// Whether an edit of its target gives it exactly the promised content.
    fn kept_by(&self, edit: &Entry) -> bool {
        edit.replacement().map(|content| Digest::of(content.raw().as_bytes()).to_string()) == self.edit.sha256
    }
}

impl Meter {
    /// Reads a branch with the records on it that count.
    pub(super) fn of(branch: &[Entry], records: &BTreeMap<usize, Record>) -> Self {
        let mut meter = Meter::default();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, entry) in branch.iter().enumerate() {
            places.insert(entry.id(), at);
            match entry.kind() {
                Kind::Message(Role::Assistant(answer)) if entry.is_good_answer() => meter.answer(at, entry, answer),
                Kind::ModelChange { model } => meter.model(model.to_string_lossy()),
                Kind::Custom { .. } if records.contains_key(&at) => {
                    if !matches!(records[&at].trigger.as_str(), "recovery" | "peek" | "expand" | "refold") {
                        meter.since_record = Some(Size::default());
                    }
                    meter.change();
                    for (index, edit) in records[&at].edits.iter().enumerate() {
                        if let Some(target) = places.get(&*edit.target) {
                            meter.promise(*target, Promise { place: (at, index), edit: edit.clone(), kept: false });
                        }
                    }
                }
                &Kind::ContextEdit { ref target, omits } => {
                    let Some(&target) = places.get(&**target) else { continue };
                    match meter.promises.get_mut(&target) {
                        Some(promise) if promise.kept_by(entry) => promise.kept = true,
                        _ => meter.edit(at, target, &branch[target], entry, omits && omittable(&branch[..at], target)),
                    }
                }
                Kind::Compaction { .. } => meter.compact(at, branch, &places),
                _ => meter.append(at, Size::of_original(entry)),
            }
            // A compaction rewrites the window; it brings nothing to fold.
            let appends = !matches!(entry.kind(), Kind::Compaction { .. });
            if let Some(since) = meter.since_record.as_mut().filter(|_| appends) {
                *since = *since + Size::of_original(entry);
            }
        }
        meter
    }

    fn append(&mut self, at: usize, size: Size) {
        self.shown.insert(at, size);
        self.added = self.added + size;
    }

    fn answer(&mut self, at: usize, entry: &Entry, answer: &Assistant) {
        let size = Size::of_original(entry);
        self.model(answer.model.to_string_lossy());
        self.waiting = false;
        let Some(usage) = answer.usage else { return self.append(at, size) };
        if self.anchor.is_some() {
            self.errors.push(usage.prompt().saturating_sub(self.tokens()));
        }
        self.shown.insert(at, size);
        (self.anchor, self.added, self.freed) = (Some(usage.total), Size::default(), (0, 0));
        self.calibrate(usage.total);
    }

    fn calibrate(&mut self, total: u64) {
        let shown = self.total();
        match self.base {
            Some((tokens, _)) if tokens <= total && total - tokens < 5_000 => return,
            Some((tokens, then)) if tokens <= total => {
                let grown = shown.saturating_sub(then);
                let text_tokens = (total - tokens).saturating_sub(grown.images.saturating_mul(IMAGE_TOKENS));
                if grown.bytes > 0 && text_tokens > 0 {
                    self.increments.push((grown.bytes, text_tokens));
                }
            }
            _ => {}
        }
        self.base = Some((total, shown));
    }

    /// Another model than before knows nothing of what was measured.
    fn model(&mut self, name: String) {
        if self.model.replace(name).is_some_and(|before| Some(before) != self.model) {
            (self.anchor, self.base, self.freed, self.added) = (None, None, (0, 0), self.total());
            (self.increments, self.errors) = (Vec::new(), Vec::new());
        }
    }

    fn change(&mut self) {
        (self.waiting, self.base) = (true, None);
    }

    /// From the record on, an entry in context weighs as promised.
    fn promise(&mut self, target: usize, promise: Promise) {
        let Some(old) = self.shown.get(&target).copied() else { return };
        self.shown.insert(target, promise.size());
        self.free(old.minus(promise.size()));
        self.promises.insert(target, promise);
    }

    /// An edit that keeps no promise: the host's, or somebody else's.
    fn edit(&mut self, place: usize, at: usize, target: &Entry, edit: &Entry, hosts: bool) {
        self.promises.remove(&at);
        if !hosts {
            self.foreign.entry(at).or_insert((place, place)).1 = place;
        }
        self.change();
        let Some(old) = self.shown.get(&at).copied() else { return };
        let new = Size::of(&projection(&[target.clone(), edit.clone()])[0]);
        self.shown.insert(at, new);
        self.added = self.added + new.saturating_sub(old);
        self.free(old.saturating_sub(new).minus(Size::default()));
    }

    fn free(&mut self, (bytes, images): (i64, i64)) {
        self.base = None;
        self.freed = (self.freed.0.saturating_add(bytes), self.freed.1.saturating_add(images));
    }

    fn compact(&mut self, at: usize, branch: &[Entry], places: &BTreeMap<&str, usize>) {
        self.change();
        let mut kept: BTreeMap<usize, Size> =
            projection(&branch[..=at]).iter().map(|projected| (places[projected.source.id()], Size::of(projected))).collect();
        self.promises.retain(|target, _| kept.contains_key(target));
        kept.extend(self.promises.iter().map(|(target, promise)| (*target, promise.size())));
        let before = std::mem::replace(&mut self.shown, kept);
        // One by one, so that what comes back into context does not make up for what leaves it.
        for (place, old) in &before {
            self.free(old.saturating_sub(self.shown.get(place).copied().unwrap_or_default()).minus(Size::default()));
        }
        let back: Size = self.shown.range(..at).filter(|(place, _)| !before.contains_key(place)).map(|(_, size)| *size).sum();
        self.added = self.added + back + self.shown[&at];
    }

    fn total(&self) -> Size {
        self.shown.values().copied().sum()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.if_freed((0, 0))
    }

    /// Occupancy if this much (bytes, images; negative where it grows) were freed too.
    pub(super) fn if_freed(&self, (bytes, images): (i64, i64)) -> u64 {
        let (bytes, images) = (self.freed.0.saturating_add(bytes), self.freed.1.saturating_add(images));
        let plus = tokens(self.rate_min().tokens_at_most(self.added.bytes), self.added.images);
        let grown = tokens(self.rate_max().tokens_at_most(bytes.min(0).unsigned_abs()), images.min(0).unsigned_abs());
        let gone = tokens(self.rate_max().tokens_at_least(bytes.max(0).unsigned_abs()), images.max(0).unsigned_abs());
        self.anchor.unwrap_or(0).saturating_add(plus).saturating_add(grown).saturating_sub(gone)
    }

    /// Tokens that were appended since the newest record; `None` without one.
    pub(super) fn appended(&self) -> Option<u64> {
        self.since_record.map(|size| tokens(self.rate_min().tokens_at_most(size.bytes), size.images))
    }

    pub(super) fn margin(&self, band: &Band) -> u64 {
        self.errors.iter().rev().take(8).copied().max().unwrap_or(0).max(band.budget / 20)
    }

    fn newest(&self) -> &[(u64, u64)] {
        &self.increments[self.increments.len().saturating_sub(6)..]
    }

    pub(super) fn rate_min(&self) -> Rate {
        self.newest().iter().map(|(bytes, tokens)| Rate::measured(*bytes, *tokens)).min().unwrap_or(Rate::UNMEASURED)
    }

    fn rate_max(&self) -> Rate {
        self.newest().iter().map(|(bytes, tokens)| Rate::measured(*bytes, *tokens)).max().unwrap_or(Rate::UNMEASURED)
    }

    pub(super) fn rate_mean(&self) -> Rate {
        let sum = self.newest().iter().fold((0u64, 0u64), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
        if sum.1 == 0 { Rate::UNMEASURED } else { Rate::measured(sum.0, sum.1) }
    }
}

/// Whether it is an answer that failed or was cut short, or a result behind one, and no good answer came since: what the host omits.
fn omittable(branch: &[Entry], at: usize) -> bool {
    if branch[at + 1..].iter().any(Entry::is_good_answer) {
        return false;
    }
    let answer = |entry: &Entry| match entry.kind() {
        Kind::Message(Role::Assistant(answer)) => Some(matches!(answer.stop, StopReason::Error | StopReason::Length)),
        _ => None,
    };
    match branch[at].kind() {
        Kind::Message(Role::ToolResult { .. }) => branch[..at].iter().rev().find_map(answer) == Some(true),
        _ => answer(&branch[at]) == Some(true),
    }
}

fn tokens(text: u64, images: u64) -> u64 {
    text.saturating_add(images.saturating_mul(IMAGE_TOKENS))
}
