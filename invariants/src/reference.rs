//! The naive reference: what the fold law decides, recomputed from the whole branch.
//!
//! Written from `docs/law.md` and from nothing the runtime decides with. It keeps no state and takes no shortcut: every question goes
//! back to the entries, and a window that might be is built and weighed whole. It shares with the runtime what is not a decision: the
//! view of an entry, Pi's projection, sizes, the band, and the texts that stand where originals were. `meter` counts, `walk` finds
//! units and marks, `lattice` makes folds and weighs windows; here they become one verdict.

mod lattice;
mod meter;
mod walk;

use crate::commit::Record;
use fold_runtime::config::Settings;
use fold_runtime::fold::{BRIEF_VERSION, FoldKind, brief_bound, clip};
use fold_runtime::journal::{BlockKind, Content, Digest, Entry, Kind, Role};
use fold_runtime::session::{COMMIT_RECORD, Draft};
use fold_runtime::window::{Band, MessageContent, Projected, Size, projection};
use lattice::{Fold, State};
use meter::Meter;
use std::collections::{BTreeMap, BTreeSet};
use walk::{Unit, UnitKind};

/// What the law says at a boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Below the trigger.
    Quiet,
    /// At the trigger, but nothing is done: `waiting`, `rearm`, `nothing ripe`, `nothing but held` or `below the floor`.
    Deferred(String),
    /// One rewrite of what is shown.
    Commit {
        /// `fence` or `band`.
        trigger: String,
        /// The record, then its edits.
        drafts: Vec<Draft>,
        /// Occupancy before, in tokens.
        before: u64,
        /// The occupancy aimed at, in tokens.
        target: u64,
        /// The occupancy the folds leave, before any clip, in tokens.
        after: u64,
    },
}

/// The verdict on a branch under a model with this context window, in tokens.
///
/// # Panics
/// When the budget is too small for any decision; see [`Band::new`].
pub fn decide(branch: &[Entry], settings: &Settings, window: u64) -> Verdict {
    let band = Band::new(settings, window).expect("a budget worth managing");
    let meter = Meter::of(branch);
    let before = meter.tokens();
    let fence = band.over_fence(before, meter.margin(&band));
    if !fence && before < band.max_target {
        return Verdict::Quiet;
    }
    if !fence && meter.waiting {
        return Verdict::Deferred("waiting".into());
    }
    if !fence && meter.appended().is_some_and(|tokens| tokens < band.budget / 20) {
        return Verdict::Deferred("rearm".into());
    }
    View::of(branch, settings, band, meter).commit(if fence { "fence" } else { "band" })
}

/// Estimated tokens of the next request.
///
/// # Panics
/// When the budget is too small for any decision; see [`Band::new`].
pub fn occupancy(branch: &[Entry], settings: &Settings, window: u64) -> u64 {
    Band::new(settings, window).expect("a budget worth managing");
    Meter::of(branch).tokens()
}

/// The commit records that count, by position: well formed, each fold called by what it lists and made of ripe units and known folds of
/// the branch. Anything else under that name is nobody's record.
fn records(branch: &[Entry]) -> BTreeMap<usize, Record> {
    let units = walk::units(branch);
    let (mut counting, mut known) = (BTreeMap::new(), BTreeSet::new());
    for (at, entry) in branch.iter().enumerate() {
        let Some(record) = Record::of(entry) else { continue };
        let ripe = |id: &String| -> Option<&Unit> {
            let place = branch[..at].iter().rposition(|entry| entry.id() == id)?;
            units.iter().find(|unit| unit.entries.contains(&place) && unit.ripe.is_some_and(|ripe| ripe < at))
        };
        let mut made: BTreeSet<String> = known.clone();
        let sound = record.folds.iter().all(|fold| {
            let parts: Option<Vec<&Unit>> = fold.parts.iter().map(|(id, _)| ripe(id)).collect();
            let claims = parts.is_some_and(|units| !fold.children.is_empty() || units.iter().any(|unit| unit.kind != UnitKind::User));
            let carrier = ripe(&fold.carrier).is_some_and(|unit| matches!(unit.kind, UnitKind::Batch | UnitKind::User | UnitKind::Custom));
            let children = fold.children.iter().all(|(child, _)| made.contains(child));
            let sound = fold.name().is_some() && claims && carrier && children;
            made.insert(fold.id.clone());
            sound
        });
        if sound {
            known = made;
            counting.insert(at, record);
        }
    }
    counting
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// What an entry shows: a content, if it has one that an edit could change, and its size.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    content: Option<String>,
    size: Size,
}

impl Shown {
    const NOTHING: Shown = Shown { content: None, size: Size { bytes: 0, images: 0 } };

    fn original(entry: &Entry) -> Self {
        Shown { content: Some(entry.content().raw().to_owned()), size: Size::of_original(entry) }
    }

    fn written(content: String) -> Self {
        let entry = Entry::parse(&format!(r#"{{"type":"custom_message","id":"","content":{content}}}"#)).expect("contents are JSON");
        Shown { size: Size::of_original(&entry), content: Some(content) }
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
    /// What stands at each position in context before this commit.
    shown: BTreeMap<usize, Shown>,
    compaction: Option<usize>,
    /// What each original weighs, by position.
    weights: Vec<u64>,
    units: Vec<Unit>,
    /// Position to unit.
    unit_of: BTreeMap<usize, usize>,
    newest_user: Option<usize>,
}

impl<'a> View<'a> {
    fn of(branch: &'a [Entry], settings: &'a Settings, band: Band, meter: Meter) -> Self {
        let places: BTreeMap<&str, usize> = branch.iter().enumerate().map(|(at, entry)| (entry.id(), at)).collect();
        let (mut context, mut shown) = (Vec::new(), BTreeMap::new());
        for projected in projection(branch) {
            let at = places[projected.source.id()];
            let content = projected.messages.first().and_then(|message| match message.content {
                MessageContent::Content(content) | MessageContent::TextBlock(content) => Some(content.raw().to_owned()),
                _ => None,
            });
            context.push(at);
            shown.insert(at, Shown { content, size: Size::of(&projected) });
        }
        let units = walk::units(branch);
        let unit_of = units.iter().enumerate().flat_map(|(index, unit)| unit.entries.iter().map(move |at| (*at, index))).collect();
        let compaction = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Compaction { .. }));
        let newest_user = branch.iter().rposition(|entry| entry.kind() == &Kind::Message(Role::User));
        let weights = branch.iter().map(|entry| Size::of_original(entry).weight()).collect();
        View { branch, settings, band, meter, context, shown, compaction, weights, units, unit_of, newest_user }
    }

    fn least(&self) -> u64 {
        self.settings.thresholds.min_fold_chars
    }

    fn foreign(&self, at: usize) -> bool {
        self.meter.foreign.contains(&at)
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

    fn commit(&self, trigger: &str) -> Verdict {
        let before = self.meter.tokens();
        let target = self.band.target(self.immovable());
        let start = self.standing();
        let state = self.fold(&start, target);
        let minted = &state.folds[start.folds.len()..];
        if minted.is_empty() {
            let held =
                self.units.iter().any(|unit| unit.ripe.is_some() && self.held(unit) && unit.entries.iter().all(|at| self.shown.contains_key(at)));
            return Verdict::Deferred(if held { "nothing but held" } else { "nothing ripe" }.into());
        }
        let after = self.estimate(&state);
        if trigger == "band" && before.saturating_sub(after) < self.band.budget / 50 {
            return Verdict::Deferred("below the floor".into());
        }
        let clipped = self.clip_users(self.clip_results(state.clone()));
        let edits = self.edits(&state, &clipped, start.folds.len());
        let record = self.record(trigger, minted, &edits);
        let edits = edits.into_iter().map(|(at, replacement)| Draft::ContextEdit { target: self.branch[at].id().to_owned(), replacement });
        let drafts = std::iter::once(Draft::Custom { custom_type: COMMIT_RECORD, data: record }).chain(edits).collect();
        Verdict::Commit { trigger: trigger.into(), drafts, before, target, after }
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
        let movable = self.meter.rate_mean().tokens_at_least(movable.bytes) + movable.images * fold_runtime::window::IMAGE_TOKENS;
        self.meter.tokens().saturating_sub(movable)
    }

    /// The first number of leaves that suffices, else all of them and groups of mixed depth.
    fn fold(&self, start: &State, target: u64) -> State {
        let mut leaves = start.clone();
        let mut best = self.consolidate(leaves.clone());
        if self.estimate(&best) <= target {
            return best;
        }
        let carriers = start.roots.iter().map(|root| start.folds[*root].carrier);
        let taken: BTreeSet<usize> = start.folds.iter().flat_map(|fold| fold.hides.iter().copied()).chain(carriers).collect();
        for mark in self.marks(&self.claims(start), &taken) {
            let Some(next) = self.leaf(&leaves, &mark) else { continue };
            leaves = next;
            best = self.consolidate(leaves.clone());
            if self.estimate(&best) <= target {
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

    /// Whether an entry shows its own content, whole.
    fn raw(&self, state: &State, at: usize) -> bool {
        self.content(state, at) == Some(self.branch[at].content().raw())
    }

    /// Cuts results in the oldest share of the window to head and tail.
    fn clip_results(&self, mut state: State) -> State {
        let share = u128::from(self.settings.tool_fold_threshold_ppm);
        if share == 0 {
            return state;
        }
        let spoken: Vec<(usize, u128)> = self.context.iter().map(|at| (*at, u128::from(self.spoken(&state, *at)))).collect();
        let total: u128 = spoken.iter().map(|(_, weight)| weight).sum();
        let carriers: BTreeSet<usize> = state.roots.iter().filter_map(|root| self.unit_of.get(&state.folds[*root].carrier).copied()).collect();
        let (before, mut upto) = (state.clone(), 0);
        for (at, weight) in spoken {
            upto += weight;
            let entry = &self.branch[at];
            let Kind::Message(Role::ToolResult { tool, .. }) = entry.kind() else { continue };
            let unit = self.unit_of[&at];
            let batch = &self.units[unit];
            let eligible = batch.kind == UnitKind::Batch && batch.ripe.is_some() && !self.held(batch) && !carriers.contains(&unit);
            if eligible && tool != "pi_fold_context" && !self.foreign(at) && self.raw(&before, at) && upto * 1_000_000 <= share * total {
                self.cut(&mut state, at, (2_000, 400, 200));
            }
        }
        state
    }

    /// What an entry shows outside system messages.
    fn spoken(&self, state: &State, at: usize) -> u64 {
        match self.branch[at].kind() {
            Kind::Message(Role::System) => 0,
            Kind::Compaction { .. } => {
                let whole = projection(std::slice::from_ref(&self.branch[at])).remove(0);
                let messages = whole.messages.into_iter().filter(|message| message.role != "system" && self.size(state, at) != Size::default());
                Size::of(&Projected { source: whole.source, messages: messages.collect() }).weight()
            }
            _ => self.size(state, at).weight(),
        }
    }

    /// Shows head and tail of an entry's text; `false` where that is not lighter.
    fn cut(&self, state: &mut State, at: usize, (least, head, tail): (usize, usize, usize)) -> bool {
        let entry = &self.branch[at];
        let content = entry.content();
        let text = text_of(content);
        let Some(text) = (text.len() >= least).then(|| clip(&text, entry.id(), head, tail)).flatten() else { return false };
        let images = content.blocks().into_iter().filter(|block| block.kind == BlockKind::Image).map(|block| block.raw().to_owned());
        let blocks: Vec<String> = std::iter::once(text_block(&json(&text))).chain(images).collect();
        let shown = Shown::written(format!("[{}]", blocks.join(",")));
        let lighter = shown.size.weight() < self.size(state, at).weight();
        if lighter {
            self.show(state, at, shown);
        }
        lighter
    }

    /// Cuts heavy user messages, heaviest first, while a person's words are above their limit.
    fn clip_users(&self, mut state: State) -> State {
        let mut candidates: Vec<usize> = self.context.iter().copied().filter(|at| self.heavy_user(&state, *at)).collect();
        candidates.sort_by_key(|at| std::cmp::Reverse(self.weight(*at)));
        for at in candidates {
            if self.words_above_limit(&state, None) {
                self.cut(&mut state, at, (0, 2_000, 500));
            }
        }
        state
    }

    fn heavy_user(&self, state: &State, at: usize) -> bool {
        self.branch[at].kind() == &Kind::Message(Role::User)
            && self.raw(state, at)
            && !self.carries(state, at)
            && !self.foreign(at)
            && self.weight(at) > self.least()
            && self.branch[at + 1..].iter().filter(|entry| entry.is_good_answer()).count() >= 8
    }

    /// Every entry whose shown content changes, in the order of the law; `minted` is where the new folds begin.
    fn edits(&self, folded: &State, state: &State, minted: usize) -> Vec<(usize, Option<String>)> {
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
        // What no new fold changed was clipped.
        let placed: BTreeSet<usize> = order.iter().copied().collect();
        order.extend(state.shown.keys().filter(|at| !placed.contains(at)));
        let changed = order.into_iter().filter(|at| self.content(state, *at) != self.shown[at].content.as_deref());
        changed.map(|at| (at, self.content(state, at).map(str::to_owned))).collect()
    }

    /// Every entry in context that a fold, or one inside it, may have changed.
    fn touched(&self, state: &State, fold: &Fold) -> BTreeSet<usize> {
        let mut touched: BTreeSet<usize> = fold.parts.iter().copied().chain([fold.carrier]).collect();
        touched.extend(fold.units.iter().flat_map(|unit| &self.units[*unit].entries));
        touched.extend(fold.children.iter().flat_map(|child| self.touched(state, &state.folds[*child])));
        touched.retain(|at| state.shown.contains_key(at));
        touched
    }

    fn record(&self, trigger: &str, minted: &[Fold], edits: &[(usize, Option<String>)]) -> String {
        let folds: Vec<String> = minted.iter().map(|fold| self.fold_json(fold)).collect();
        let edit = |(at, replacement): &(usize, Option<String>)| {
            let digest = replacement.as_ref().map_or("null".to_owned(), |content| json(&Digest::of(content.as_bytes()).to_string()));
            format!("[{},{digest}]", json(self.branch[*at].id()))
        };
        let edits: Vec<String> = edits.iter().map(edit).collect();
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
        let (kind, carrier) = (fold.kind.name(), json(self.branch[fold.carrier].id()));
        format!(r#"{{"id":"{}","kind":"{kind}","carrier":{carrier},"parts":[{}]{children}}}"#, fold.id, parts.join(","))
    }
}

/// All text of a content, its blocks joined by a line end.
fn text_of(content: Content<'_>) -> String {
    let texts = |content: Content<'_>| {
        let blocks = content.blocks().into_iter().filter(|block| block.kind == BlockKind::Text);
        blocks.filter_map(|block| Some(block.text()?.to_string_lossy())).collect::<Vec<String>>().join("\n")
    };
    content.string().map_or_else(|| texts(content), |text| text.to_string_lossy())
}

/// A text block around a JSON string.
fn text_block(string: &str) -> String {
    format!(r#"{{"type":"text","text":{string}}}"#)
}
