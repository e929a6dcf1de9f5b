//! What a commit may write: checked from the entries it appended, by a reader of records that is not the runtime's.

use crate::Broken;
use crate::others::{Choices, Tale, batch_of, is_retired, tale};
use crate::probes::Probes;
use crate::reference::history::Standing;
use fold_runtime::config::Settings;
use fold_runtime::fold::{FoldKind, FoldName, clip_content, result_line};
use fold_runtime::journal::{Digest, Entry, Kind, Role};
use fold_runtime::session::COMMIT_RECORD;
use fold_runtime::window::Size;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A record as it stands in the journal; what makes it well formed.
#[derive(Deserialize)]
pub(crate) struct Record {
    v: u32,
    #[serde(default)]
    pub(crate) trigger: String,
    #[serde(default)]
    bound: serde_json::Value,
    pub(crate) folds: Vec<Written>,
    pub(crate) edits: Vec<Promised>,
    /// Ids of folds that are opened, closed, dissolved.
    #[serde(default)]
    pub(crate) opens: Vec<String>,
    #[serde(default)]
    pub(crate) closes: Vec<String>,
    #[serde(default)]
    pub(crate) dissolves: Vec<String>,
}

/// An edit as a record promises it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Promised {
    pub(crate) target: String,
    /// SHA-256 of the content as written; an omission has none.
    pub(crate) sha256: Option<String>,
    /// Text bytes and images that it shows.
    #[serde(default)]
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) images: u64,
    /// Head and tail, where it is the original clipped.
    pub(crate) clip: Option<(usize, usize)>,
}

/// A fold as a record holds it.
#[derive(Deserialize)]
pub(crate) struct Written {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) carrier: String,
    pub(crate) parts: Vec<(String, String)>,
    #[serde(default)]
    pub(crate) children: Vec<(String, String)>,
    /// A supplied brief.
    pub(crate) brief: Option<String>,
}

impl Record {
    /// Reads a record of version 1.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        match entry.kind() {
            Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD => {
                let mut record = serde_json::from_str(entry.field("data")?).ok().filter(|record: &Record| record.v == 1)?;
                // A blank brief is none.
                record.folds.iter_mut().for_each(|fold| fold.brief = fold.brief.take().filter(|text| !text.trim().is_empty()));
                Some(record)
            }
            _ => None,
        }
    }

    /// Characters its briefs may have.
    pub(crate) fn bound(&self) -> Option<usize> {
        self.bound.as_u64().and_then(|bound| usize::try_from(bound).ok())
    }
}

impl Written {
    /// Its kind.
    pub(crate) fn kind(&self) -> Option<FoldKind> {
        [FoldKind::Tool, FoldKind::Span, FoldKind::Consolidated].into_iter().find(|known| known.name() == self.kind)
    }

    /// What it is called by what it lists, if its id says the same.
    pub(crate) fn name(&self) -> Option<FoldName> {
        let digests = |list: &[(String, String)]| -> Option<Vec<(String, Digest)>> {
            list.iter().map(|(id, sha)| Some((id.clone(), Digest::parse(sha)?))).collect()
        };
        let (parts, children) = (digests(&self.parts)?, digests(&self.children)?);
        let own = parts.iter().map(|(id, sha)| (id.as_str(), *sha));
        let name = FoldName::of(self.kind()?, own, children.iter().map(|(id, sha)| (id.as_str(), *sha)));
        (name.id(self.id.len().saturating_sub(2)).as_str() == self.id).then_some(name)
    }
}

/// A fold as the records tell it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) carrier: usize,
    pub(crate) parts: Vec<usize>,
    pub(crate) children: Vec<String>,
    pub(crate) parent: Option<String>,
    pub(crate) depth: u32,
    pub(crate) name: Digest,
    /// Characters that a brief of it may have: what the record says that made it.
    pub(crate) bound: usize,
    /// Bytes of its placeholder, once it was seen.
    pub(crate) placeholder: Option<u64>,
    /// The brief that somebody supplied for it.
    pub(crate) supplied: Option<String>,
    pub(crate) standing: Standing,
    /// SHA-256 of what its carrier shows while it is shown, once a record promised it.
    pub(crate) said: Option<String>,
}

/// The folds of a branch, from its records alone.
#[derive(Clone, Debug, Default)]
pub struct Folds {
    pub(crate) known: BTreeMap<String, Known>,
    /// The fold that an entry is a part of, if that is not dissolved.
    pub(crate) owner: BTreeMap<usize, String>,
    /// Entries that were looked at for compactions, and the first position that none of these left out.
    pub(crate) seen: usize,
    pub(crate) kept_from: usize,
}

/// A commit: where its record stands, and what that promises.
#[derive(Clone, Copy)]
pub struct Commit<'a> {
    /// The branch, the record included.
    pub branch: &'a [Entry],
    /// The position of the record.
    pub record: usize,
    /// Every edit the record promises, in its order: target, and content as JSON text (or an omission). Their entries may come later.
    pub edits: &'a [(String, Option<String>)],
    /// The session's settings.
    pub settings: &'a Settings,
}

impl Folds {
    /// The folds that the records of a branch tell of, unchecked.
    pub fn read(branch: &[Entry], position: &dyn Fn(&str) -> Option<usize>) -> Self {
        let mut folds = Folds::default();
        for (at, entry) in branch.iter().enumerate() {
            let Some(record) = Record::of(entry) else { continue };
            folds.compacted(&branch[..at], position, &mut Probes::default());
            for fold in &record.folds {
                let _ = folds.take((fold, record.bound().unwrap_or(0)), branch, position, &mut Probes::default());
            }
            folds.turn(&record, at);
            folds.remember(&record, position);
        }
        folds
    }

    /// Checks a commit that was just written, and takes its folds in.
    ///
    /// # Errors
    /// [`Broken`], for the first invariant that does not hold.
    pub fn commit(&mut self, commit: Commit<'_>, position: &dyn Fn(&str) -> Option<usize>, probes: &mut Probes) -> Result<(), Broken> {
        let branch = commit.branch;
        let record =
            Record::of(&branch[commit.record]).ok_or_else(|| Broken::new("lossless", "a commit begins with its record", "something else"))?;
        self.compacted(&branch[..commit.record], position, probes);
        promised(&record, commit, position)?;
        let turns = !(record.opens.is_empty() && record.closes.is_empty() && record.dissolves.is_empty());
        if turns || matches!(record.trigger.as_str(), "expand" | "refold") {
            self.turned(commit, &record, position, probes)?;
            self.turn(&record, commit.record);
            self.remember(&record, position);
            return self.sizes(commit, &record);
        }
        self.keeps_open(commit, &record, position, probes)?;
        if matches!(record.trigger.as_str(), "recovery" | "peek") {
            return self.without_folds(commit, &record, position, probes);
        }
        let choices = Choices::of(&branch[..commit.record], &record);
        choices.held(self, commit, &record, position, probes)?;
        let before: BTreeMap<usize, String> = self.shown().map(|(id, known)| (known.carrier, id.to_owned())).collect();
        for fold in &record.folds {
            self.take((fold, record.bound().unwrap_or(0)), branch, position, probes)?;
            choices.supplied(fold, probes)?;
        }
        let made: BTreeSet<&str> = record.folds.iter().map(|fold| fold.id.as_str()).collect();
        self.edits(commit, &record, &before, &made, position, probes)?;
        let folded_before = |at: usize| self.owner.get(&at).is_some_and(|id| !made.contains(id.as_str()));
        held(commit, &record, position, &folded_before, probes)?;
        self.sizes(commit, &record)?;
        self.remember(&record, position);
        probes.when("commit by the band", record.trigger == "band");
        probes.when("commit by the fence", record.trigger == "fence");
        probes.when("commit by overflow", record.trigger == "overflow");
        probes.when("commit by a person", record.trigger == "person");
        probes.when("commit without folds", record.folds.is_empty());
        probes.when("commit of several folds", record.folds.len() > 1);
        Ok(())
    }

    /// Every entry a fold hides at any depth, in branch order; `None` if no record tells of it.
    pub fn hidden(&self, fold: &str) -> Option<Vec<usize>> {
        let (mut all, mut stack) = (Vec::new(), vec![self.known.get(fold)?]);
        while let Some(known) = stack.pop() {
            all.extend(&known.parts);
            stack.extend(known.children.iter().filter_map(|child| self.known.get(child)));
        }
        all.sort_unstable();
        Some(all)
    }

    /// Every entry that some fold hides, by its position.
    pub fn originals(&self) -> impl Iterator<Item = usize> + '_ {
        self.owner.keys().copied()
    }

    /// Whether an entry is a part of a fold, or carries a placeholder.
    pub fn touches(&self, at: usize) -> bool {
        self.owner.contains_key(&at) || self.known.values().any(|known| known.standing != Standing::Dissolved && known.carrier == at)
    }

    /// How many folds the records tell of.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// The folds whose placeholders are shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.known.iter().filter(|(_, known)| known.standing == Standing::Shown).map(|(id, known)| (id.as_str(), known))
    }

    /// One fold: its digests, its name, and that it takes nothing that another has.
    fn take(
        &mut self,
        (fold, bound): (&Written, usize),
        branch: &[Entry],
        position: &dyn Fn(&str) -> Option<usize>,
        probes: &mut Probes,
    ) -> Result<(), Broken> {
        let id = &fold.id;
        let kind = fold.kind().ok_or_else(|| Broken::new("nesting", "a fold has one of three kinds", format!("{id} is a {}", fold.kind)))?;
        let mut parts = Vec::new();
        for (part, sha) in &fold.parts {
            let at = position(part).ok_or_else(|| Broken::new("lossless", "a part is on the branch", format!("{part} of {id} is not")))?;
            let digest = Digest::of(branch[at].line().as_bytes());
            if Digest::parse(sha) != Some(digest) {
                return Err(Broken::new("lossless", format!("the digest of {part} is {digest}"), format!("{id} says {sha}")));
            }
            if let Some(other) = self.owner.insert(at, id.clone()) {
                return Err(Broken::new("nesting", "an entry is a part of one fold", format!("{part} is a part of {other} and of {id}")));
            }
            parts.push(at);
        }
        if parts.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Broken::new("nesting", "parts stand in branch order", format!("those of {id} do not")));
        }
        let mut depth = 0;
        for (child, sha) in &fold.children {
            let known = self.known.get_mut(child).ok_or_else(|| Broken::new("nesting", "a child exists", format!("{child} of {id} does not")))?;
            if matches!(known.standing, Standing::Open(_) | Standing::Dissolved) {
                return Err(Broken::new("nesting", "a child is neither open nor dissolved", format!("{child} of {id} is {:?}", known.standing)));
            }
            known.standing = Standing::Closed;
            if known.parent.replace(id.clone()).is_some() {
                return Err(Broken::new("nesting", "a fold has one parent", format!("{child} has two, one of them {id}")));
            }
            if known.name.to_string() != *sha {
                return Err(Broken::new("lossless", format!("the name of {child} is {}", known.name), format!("{id} says {sha}")));
            }
            depth = depth.max(known.depth);
        }
        if (kind == FoldKind::Consolidated) != (fold.children.len() >= 2) {
            return Err(Broken::new(
                "nesting",
                "a consolidation has at least two folds among its parts",
                format!("{id} is {} and has {}", fold.kind, fold.children.len()),
            ));
        }
        let name = fold.name().ok_or_else(|| Broken::new("lossless", "a fold is called by what it lists", fold.id.clone()))?.digest();
        let carrier = position(&fold.carrier).ok_or_else(|| Broken::new("conservation", "a carrier is on the branch", fold.carrier.clone()))?;
        probes.when("tool fold", kind == FoldKind::Tool);
        probes.when("span fold", kind == FoldKind::Span);
        probes.when("consolidation", kind == FoldKind::Consolidated);
        probes.when("consolidation of consolidations", depth >= 2);
        let depths: BTreeSet<u32> = fold.children.iter().map(|(child, _)| self.known[child].depth).collect();
        probes.when("consolidation of mixed depth", depths.len() > 1);
        let carriers = fold.children.iter().filter(|(child, _)| self.known[child].carrier != carrier).count();
        probes.when("entries riding along", kind == FoldKind::Consolidated && parts.len() > carriers);
        let children = fold.children.iter().map(|(child, _)| child.clone()).collect();
        let standing = self.shown_again(carrier);
        let dissolved = self.known.values().filter(|known| known.standing == Standing::Dissolved);
        probes.when("dissolved fold cut anew", dissolved.flat_map(|known| &known.parts).any(|at| parts.contains(at)));
        let known = Known {
            carrier,
            parts,
            children,
            parent: None,
            depth: depth + 1,
            name,
            bound,
            placeholder: None,
            supplied: fold.brief.clone(),
            standing,
            said: None,
        };
        self.known.insert(id.clone(), known);
        Ok(())
    }

    /// A record that only puts right what somebody else tore, or only retires peeks of one batch.
    fn without_folds(
        &self,
        commit: Commit<'_>,
        record: &Record,
        position: &dyn Fn(&str) -> Option<usize>,
        probes: &mut Probes,
    ) -> Result<(), Broken> {
        if !record.folds.is_empty() || record.edits.is_empty() {
            return Err(Broken::new("conservation", "edits and no folds in a record of this trigger", record.trigger.clone()));
        }
        let before = &commit.branch[..commit.record];
        let mut batches: BTreeMap<usize, BTreeMap<usize, Option<&str>>> = BTreeMap::new();
        for (target, content) in commit.edits {
            let at = position(target).unwrap_or_default();
            let batch = batch_of(before, at).ok_or_else(|| Broken::new("conservation", "a target in a batch", target.clone()))?;
            batches.entry(batch[0]).or_default().insert(at, content.as_deref());
        }
        if record.trigger == "recovery" {
            return batches.iter().try_for_each(|(call, edits)| self.put_right(before, *call, edits, probes));
        }
        if batches.len() > 1 {
            return Err(Broken::new("conservation", "peeks of one batch", format!("of {}", batches.len())));
        }
        Choices::of(before, record).held(self, commit, record, position, probes)?;
        for (at, content) in batches.values().flatten() {
            if !self.is_peek_line(commit, *at, *content) {
                return Err(Broken::new("conservation", "the line of a due peek", before[*at].id().to_owned()));
            }
            probes.hit("peek retired at once");
        }
        Ok(())
    }

    /// Whether a due peek is replaced by exactly its line: one that was read, is shown raw, and that no fold touches.
    fn is_peek_line(&self, commit: Commit<'_>, at: usize, content: Option<&str>) -> bool {
        let before = &commit.branch[..commit.record];
        let untouched = || batch_of(before, at).is_some_and(|batch| !batch.iter().any(|at| self.touches(*at)));
        let is_line = content.is_some_and(|content| is_retired(&before[at], content));
        is_line && at < last_read(commit) && untouched() && tale(before, at).is_raw()
    }

    /// A torn batch is shown whole again, or not at all, by the rule that has its turn.
    fn put_right(&self, before: &[Entry], call: usize, edits: &BTreeMap<usize, Option<&str>>, probes: &mut Probes) -> Result<(), Broken> {
        let wrong = |expected: &str, at: usize| Err(Broken::new("conservation", format!("a torn batch: {expected}"), before[at].id().to_owned()));
        let batch = batch_of(before, call).unwrap_or_default();
        let tales: BTreeMap<usize, Tale> = batch.iter().map(|at| (*at, tale(before, *at))).collect();
        let put_right = tales.values().filter_map(|tale| tale.recovered).max();
        let edited = tales.values().filter_map(|tale| tale.foreign).map(|(_, last)| last).max();
        let (gone, shown): (Vec<usize>, Vec<usize>) = batch.iter().partition(|at| tales[*at].omitted);
        if gone.is_empty() || shown.is_empty() || edited <= put_right || !batch.iter().any(|at| self.touches(*at)) {
            return wrong("of a fold, and edited by somebody else since it was put right", call);
        }
        let carried = self.shown().find(|(_, known)| batch.contains(&known.carrier));
        let shows = carried.is_some() == put_right.is_none();
        let unwritten = unkept(before, &mut Probes::default());
        let goes = |at: &usize| !tales[at].omitted || unwritten.iter().any(|promise| promise.target == before[*at].id());
        let wanted: BTreeSet<usize> = if shows { gone.into_iter().collect() } else { batch.iter().copied().filter(goes).collect() };
        if edits.keys().copied().collect::<BTreeSet<usize>>() != wanted {
            return wrong("all that is missing is shown, or all that is shown or yet to be omitted is omitted", call);
        }
        for (at, content) in edits {
            let entry = &before[*at];
            let sound = match (content, carried) {
                (None, _) => !shows,
                (Some(content), Some((id, known))) if *at == known.carrier => shows && text_of(content).starts_with(&format!("⟦pi-fold {id} · ")),
                (Some(content), Some((id, _))) if *at != call => shows && text_of(content) == line_of(id),
                (Some(content), _) => shows && *content == entry.content().raw(),
            };
            if !sound {
                return wrong("as the fold had it, its own content, or nothing", *at);
            }
        }
        probes.when("recovery of a torn batch", put_right.is_none());
        probes.when("torn batch given up", put_right.is_some());
        Ok(())
    }

    /// Whether an entry is a part of a fold that is `root` or lies under it.
    fn root_of(&self, at: usize) -> Option<&str> {
        let mut id = self.owner.get(&at)?;
        while let Some(parent) = &self.known[id].parent {
            id = parent;
        }
        Some(id)
    }

    /// Every edit has one of the few reasons there are.
    fn edits(
        &mut self,
        commit: Commit<'_>,
        record: &Record,
        before: &BTreeMap<usize, String>,
        made: &BTreeSet<&str>,
        position: &dyn Fn(&str) -> Option<usize>,
        probes: &mut Probes,
    ) -> Result<(), Broken> {
        let branch = commit.branch;
        let carriers: BTreeMap<usize, String> = self.shown().map(|(id, known)| (known.carrier, id.to_owned())).collect();
        let read = last_read(commit);
        // The root whose placeholder a batch carries, by the message that called.
        let by_answer: BTreeMap<usize, &String> = carriers.iter().filter_map(|(carrier, id)| Some((answer_of(branch, *carrier)?, id))).collect();
        for ((target, replacement), promise) in commit.edits.iter().zip(&record.edits) {
            let at = position(target).ok_or_else(|| Broken::new("attributed", "a target is on the branch", target.clone()))?;
            let entry = &branch[at];
            let Some(replacement) = replacement else {
                probes.hit("entry omitted");
                let in_new = self.root_of(at).is_some_and(|root| made.contains(root));
                if !in_new {
                    return Err(Broken::new("conservation", "what is omitted is a part of a fold of this commit", format!("{target} is not")));
                }
                probes.when("user message hidden", matches!(entry.kind(), Kind::Message(Role::User)));
                continue;
            };
            let shows = showing(replacement);
            let content = shows.content();
            let again = |id: &&String| tale(&branch[..commit.record], at).is_lost() && text_of(replacement).starts_with(&format!("⟦pi-fold {id} · "));
            if let Some(id) = carriers.get(&at).filter(|id| made.contains(id.as_str()) || again(id)) {
                probes.when("lost placeholder shown again", !made.contains(id.as_str()));
                let block = content.blocks().last().and_then(|block| block.text()).unwrap_or_default().to_string_lossy();
                let known = &self.known[id];
                placeholder(&block, id, known, entry, self.source_bytes(known, branch))?;
                if matches!(entry.kind(), Kind::Message(Role::User)) {
                    kept_words(entry, content.raw())?;
                }
                probes.hit("placeholder measured");
                probes.when("placeholder in a tool result", matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })));
                probes.when("placeholder in a user message", matches!(entry.kind(), Kind::Message(Role::User)));
                probes.when("placeholder in a custom message", matches!(entry.kind(), Kind::CustomMessage | Kind::Message(Role::Custom)));
                let bytes = block.len() as u64;
                let id = id.clone();
                if let Some(known) = self.known.get_mut(&id) {
                    known.placeholder = Some(bytes);
                }
                continue;
            }
            let text = content.blocks().first().and_then(|block| block.text()).unwrap_or_default().to_string_lossy();
            let beside = answer_of(branch, at).and_then(|answer| by_answer.get(&answer));
            let is_line = beside.is_some_and(|id| made.contains(id.as_str()) && text == line_of(id));
            // A clipped message that carried a fold made here, inside a parent made here, is whole again too.
            let carried = before.contains_key(&at) || record.folds.iter().any(|fold| fold.carrier == *target);
            let gives_back = content.raw() == entry.content().raw() && carried;
            let is_first = is_first_show(record, promise, at, read);
            let is_clip = is_first || is_late_clip(entry, promise, at, read);
            let is_result = matches!(entry.kind(), Kind::Message(Role::ToolResult { .. }));
            let is_peek = self.is_peek_line(commit, at, Some(replacement));
            probes.when("peek retired in a commit", is_peek);
            probes.when("user message given back", gives_back);
            probes.when("result clipped", is_clip && !is_first && is_result);
            probes.when("user message clipped", is_clip && !is_first && !is_result);
            probes.when("first-show clip of a result", is_first && is_result);
            probes.when("first-show clip of a user message", is_first && !is_result);
            probes.when("first-show clip of a blacklisted result", is_first && is_blacklisted(entry, commit.settings));
            if !is_line && !gives_back && !is_clip && !is_peek {
                return Err(Broken::new(
                    "conservation",
                    "a replacement is a placeholder, a line beside one, a clip, the line of a peek, or a user's own words given back",
                    format!("{target} gets {}", content.raw().chars().take(160).collect::<String>()),
                ));
            }
        }
        Ok(())
    }

    /// Bytes a brief stands for; `None` where they cannot be told from the records.
    pub(crate) fn source_bytes(&self, known: &Known, branch: &[Entry]) -> Option<u64> {
        let own: u64 = known.parts.iter().map(|&at| Size::of_original(&branch[at]).weight()).sum();
        known.children.iter().try_fold(own, |sum, child| Some(sum + self.known[child].placeholder?))
    }

    /// What the commit adds to the journal, once all its edits are written, stands in proportion to what it hides.
    fn sizes(&self, commit: Commit<'_>, record: &Record) -> Result<(), Broken> {
        let line = &commit.branch[commit.record];
        let ids = commit.edits.iter().map(|(target, _)| target.as_str()).chain([line.id()]);
        let longest = ids.map(str::len).max().unwrap_or(8).max(8) as u64;
        let content = |(_, content): &(String, Option<String>)| content.as_ref().map_or(0, |content| content.len() as u64);
        let edits: u64 = commit.edits.iter().map(|edit| EDIT_BYTES + 3 * (longest - 8) + content(edit)).sum();
        let written = line.line().len() as u64 + 1 + edits;
        let replaced: u64 = commit.edits.iter().filter(|(_, content)| content.is_some()).map(|edit| content(edit) + 320).sum();
        let hidden: u64 = record.folds.iter().map(|fold| fold.parts.len() as u64).sum();
        let omitted = commit.edits.iter().filter(|(_, content)| content.is_none()).count() as u64;
        // What the next record promises anew is promised here and never written.
        let superseded = record.edits.len().saturating_sub(commit.edits.len()) as u64;
        // A brief that somebody supplied stands in the record beside its placeholder.
        let supplied: u64 =
            record.folds.iter().filter_map(|fold| Some(serde_json::Value::from(fold.brief.as_ref()?.as_str()).to_string().len() as u64)).sum();
        // An id of eight digits stands in an edit three times and in the record twice.
        let allowed = 320 * hidden.max(omitted)
            + replaced
            + supplied
            + 320 * record.folds.len() as u64
            + (160 + longest - 8) * superseded
            + 6 * (longest - 8) * (hidden + commit.edits.len() as u64 + 1)
            + 1_000;
        if written > allowed {
            return Err(Broken::new("bounded", format!("at most {allowed} bytes for {hidden} hidden entries"), format!("{written} bytes written")));
        }
        Ok(())
    }
}

/// Bytes of the line of an edit without its content: type, three ids of eight digits, a time, and the frame of a replacement.
const EDIT_BYTES: u64 = 170;

/// An entry that shows a content, given as JSON text, to be weighed or read.
pub(crate) fn showing(content: &str) -> Entry {
    Entry::parse(&format!(r#"{{"type":"custom_message","id":"","content":{content}}}"#)).expect("contents are JSON")
}

pub(crate) fn digest_of(content: &str) -> String {
    Digest::of(content.as_bytes()).to_string()
}

/// The edits are those the record promises, with the contents it promises and described as it describes them, each target once.
fn promised(record: &Record, commit: Commit<'_>, position: &dyn Fn(&str) -> Option<usize>) -> Result<(), Broken> {
    let superseded = superseded(record, commit);
    let written: Vec<&Promised> = record.edits.iter().filter(|promise| !superseded.contains(&promise.target)).collect();
    if written.len() != commit.edits.len() {
        return Err(Broken::new("attributed", format!("{} edits were promised", written.len()), format!("there are {}", commit.edits.len())));
    }
    let mut seen = BTreeSet::new();
    for (promise, (target, content)) in written.into_iter().zip(commit.edits) {
        let wrong = |expected: String, seen: String| Err(Broken::new("attributed", expected, seen));
        if promise.target != *target || content.as_deref().map(digest_of) != promise.sha256 {
            return wrong(format!("the edit of {} that the record promises", promise.target), format!("one of {target}"));
        }
        if !seen.insert(target) {
            return wrong("each target once".to_owned(), format!("{target} twice"));
        }
        let Some(at) = position(target).filter(|at| *at < commit.record) else {
            return wrong("a target on the branch before the record".to_owned(), target.clone());
        };
        // An answer that failed shows nothing, whatever its content: it is never sent.
        let own = |content: &str| commit.branch[at].content().raw() == content;
        let size = match content.as_deref() {
            None => Size::default(),
            Some(content) if own(content) => Size::of_original(&commit.branch[at]),
            Some(content) => Size::of_original(&showing(content)),
        };
        if (size.bytes, size.images) != (promise.bytes, promise.images) {
            return wrong(format!("the size of what {target} shows, {size:?}"), format!("{} bytes and {} images", promise.bytes, promise.images));
        }
        let entry = &commit.branch[at];
        if let Some((head, tail)) = promise.clip
            && clip_content(entry.content(), entry.id(), head, tail) != *content
        {
            return wrong(format!("{target} clipped to {head} and {tail} bytes"), "another content".to_owned());
        }
    }
    Ok(())
}

/// Targets that the record behind one that closes folds promises anew: what the first one promised was never written nor shown.
pub(crate) fn superseded(record: &Record, commit: Commit<'_>) -> BTreeSet<String> {
    let next = commit.branch.get(commit.record + 1).and_then(Record::of).filter(|_| record.trigger == "refold");
    next.into_iter().flat_map(|next| next.edits).map(|edit| edit.target).collect()
}

/// What was promised by a record and by no edit after it, told from the records alone.
struct Unkept {
    target: String,
    sha256: Option<String>,
    /// Whether another edit of that record is on the branch.
    begun: bool,
}

/// What a branch leaves to be written, in the order of its records and in each record's order.
fn unkept(branch: &[Entry], probes: &mut Probes) -> Vec<Unkept> {
    let place = |id: &str, end: usize| branch[..end].iter().rposition(|entry| entry.id() == id);
    // By the position of the target: position of the record, place in it, SHA-256, and whether an edit has said so.
    let mut open: BTreeMap<usize, (usize, usize, Option<String>, bool)> = BTreeMap::new();
    let (mut begun, mut kept_from) = (BTreeSet::new(), 0);
    for (at, entry) in branch.iter().enumerate() {
        if let Kind::Compaction { first_kept } = entry.kind() {
            kept_from = first_kept.as_deref().and_then(|first| place(first, at)).unwrap_or(at);
            open = open.split_off(&kept_from);
        }
        for (index, promise) in Record::of(entry).into_iter().flat_map(|record| record.edits).enumerate() {
            if let Some(target) = place(&promise.target, at).filter(|target| *target >= kept_from) {
                open.insert(target, (at, index, promise.sha256, false));
            }
        }
        let Kind::ContextEdit { target, .. } = entry.kind() else { continue };
        let Some(target) = place(target, at) else { continue };
        match open.get_mut(&target) {
            Some((record, _, sha256, kept)) if entry.replacement().map(|content| digest_of(content.raw())) == *sha256 => {
                *kept = true;
                begun.insert(*record);
            }
            Some((.., kept)) => {
                probes.when("promise ended by a foreign edit", !*kept);
                open.remove(&target);
            }
            None => {}
        }
    }
    let mut open: Vec<_> = open.into_iter().filter(|(_, (.., kept))| !kept).collect();
    open.sort_by_key(|(_, (record, index, ..))| (*record, *index));
    let unkept = |(target, (record, _, sha256, _)): (usize, (usize, usize, Option<String>, bool))| Unkept {
        target: branch[target].id().to_owned(),
        sha256,
        begun: begun.contains(&record),
    };
    open.into_iter().map(unkept).collect()
}

/// Entries written where no record was: exactly the next edits that are promised and not on the branch yet, as promised. `before` is the
/// branch without them.
///
/// # Errors
/// [`Broken`]: `attributed`, for an entry nobody promised, or one out of its order.
pub fn recovery(before: &[Entry], written: &[Entry], probes: &mut Probes) -> Result<(), Broken> {
    let mut next = unkept(before, probes).into_iter();
    for edit in written {
        let Some(promise) = next.next() else {
            return Err(Broken::new("attributed", "nothing, for nothing is left to write", edit.line().to_owned()));
        };
        let Kind::ContextEdit { target, .. } = edit.kind() else {
            return Err(Broken::new("attributed", "promised edits alone where no record is", edit.line().to_owned()));
        };
        let found = edit.replacement().map(|content| digest_of(content.raw()));
        if **target != *promise.target || found != promise.sha256 {
            return Err(Broken::new("attributed", format!("the promised edit of {}", promise.target), edit.line().to_owned()));
        }
        probes.hit("recovery of promised edits");
        probes.when("commit spread over boundaries", promise.begun);
    }
    Ok(())
}

/// The text of a content's last block.
pub(crate) fn text_of(content: &str) -> String {
    showing(content).content().blocks().last().and_then(|block| block.text()).unwrap_or_default().to_string_lossy()
}

pub(crate) fn line_of(id: &str) -> String {
    // The line names its fold and nothing else, so another fold's line tells its shape.
    let other = FoldName::of(FoldKind::Tool, [], []).id(12);
    result_line(&other).replace(other.as_str(), id)
}

/// The message that called for a tool result.
fn answer_of(branch: &[Entry], result: usize) -> Option<usize> {
    if !matches!(branch[result].kind(), Kind::Message(Role::ToolResult { .. })) {
        return None;
    }
    (0..result).rev().find(|&before| matches!(branch[before].kind(), Kind::Message(Role::Assistant(_))))
}

/// A user carrier keeps every word of its own.
pub(crate) fn kept_words(user: &Entry, replacement: &str) -> Result<(), Broken> {
    let content = user.content();
    let own = match content.string() {
        Some(_) => content.raw().to_owned(),
        None => content.raw().trim().trim_start_matches('[').trim_end_matches(']').to_owned(),
    };
    if replacement.contains(&own) {
        Ok(())
    } else {
        Err(Broken::new("lossless", "a user message keeps its words beside a placeholder", user.id().to_owned()))
    }
}

/// A placeholder says what never has to change, within its bounds, and quotes whatever is not its own.
pub(crate) fn placeholder(text: &str, id: &str, known: &Known, carrier: &Entry, source: Option<u64>) -> Result<(), Broken> {
    let wrong = |invariant, expected: &str, seen: &str| Err(Broken::new(invariant, format!("placeholder of {id}: {expected}"), seen.to_owned()));
    if matches!(carrier.kind(), Kind::Message(Role::Assistant(_))) {
        return wrong("no_carrier", "never in an assistant message", carrier.id());
    }
    let lines: Vec<&str> = text.lines().collect();
    let framed =
        lines.len() >= 4 && lines[0].starts_with(&format!("⟦pi-fold {id} · ")) && lines[lines.len() - 1].starts_with(&format!("⟦end {id} · "));
    if !framed {
        return wrong("bounded", "begins and ends with its own name", text);
    }
    if let Some(words) = &known.supplied {
        let said = text.splitn(3, '\n').nth(2).and_then(|rest| Some(rest.rsplit_once('\n')?.0));
        return if said == Some(words) { Ok(()) } else { wrong("lossless", "what was supplied, verbatim", text) };
    }
    let inner = &lines[2..lines.len() - 1];
    for line in inner {
        let (own, _) = line.split_once("| ").unwrap_or((line, ""));
        if !is_ours(own.trim_end(), &known.children) {
            return wrong("no_carrier", "every line is ours or quoted", line);
        }
    }
    let brief: usize = inner.iter().map(|line| line.chars().count() + 1).sum::<usize>() - 1;
    if brief > known.bound {
        return wrong("bounded", &format!("a brief of at most {} characters", known.bound), &format!("{brief}"));
    }
    let bytes = inner.iter().map(|line| line.len() as u64 + 1).sum::<u64>() - 1;
    if source.is_some_and(|source| bytes > (source / 4).max(1)) {
        return wrong("bounded", &format!("a brief of at most a quarter of {} bytes", source.unwrap_or(0)), &format!("{bytes}"));
    }
    Ok(())
}

/// The few things a brief says in its own voice.
fn is_ours(words: &str, children: &[String]) -> bool {
    let plain = |character: char| character.is_ascii_digit() || ", ;…".contains(character) || character.is_ascii_lowercase();
    let counts = |words: &str| words.starts_with(|first: char| first.is_ascii_digit()) && words.chars().all(plain);
    let names_only_children = children.iter().any(|child| words.starts_with(child.as_str()) && words[child.len()..].starts_with(" ("));
    let omission = words.strip_prefix("(+").and_then(|rest| rest.strip_suffix(')'));
    let omission = omission.is_some_and(|rest| match rest.split_once(" folds ") {
        Some((_, range)) => range.split("..").all(|id| children.iter().any(|child| child == id)),
        None => counts(rest),
    });
    let cut = words.ends_with('…') && words.starts_with("(+");
    words.is_empty() || counts(words) || names_only_children || omission || cut || (words.starts_with("user ") && words.ends_with(':'))
}

/// Where the last answer before a record stands: what comes before it was read by a model.
pub(crate) fn last_read(commit: Commit<'_>) -> usize {
    commit.branch[..commit.record].iter().rposition(Entry::is_good_answer).unwrap_or(0)
}

fn is_blacklisted(entry: &Entry, settings: &Settings) -> bool {
    matches!(entry.kind(), Kind::Message(Role::ToolResult { tool, .. }) if settings.blacklist_auto_fold_tools.contains(&tool.to_string_lossy()))
}

/// Whether it is a cut before the first reading: only where a request would be too large, of what no model has read, and of the text at
/// least 600 bytes, two thirds of them from its head. That its content is that cut is told already.
pub(crate) fn is_first_show(record: &Record, promise: &Promised, at: usize, read: usize) -> bool {
    let too_large = matches!(record.trigger.as_str(), "fence" | "overflow");
    promise.clip.is_some_and(|(head, tail)| {
        let all = head.saturating_add(tail);
        too_large && at >= read && all >= 600 && all.checked_mul(2).is_some_and(|twice| head == twice / 3)
    })
}

/// Whether it is a cut of what a model has read: an old result, or a person's heavy words.
fn is_late_clip(entry: &Entry, promise: &Promised, at: usize, read: usize) -> bool {
    let lengths = match entry.kind() {
        Kind::Message(Role::ToolResult { .. }) => (400, 200),
        _ => (2_000, 500),
    };
    at < read && promise.clip == Some(lengths)
}

/// Held, unread and newest things are left alone, but for what is cut before its first reading. What was folded before it came to be held
/// stays folded, and may become a part of a larger fold.
fn held(
    commit: Commit<'_>,
    record: &Record,
    position: &dyn Fn(&str) -> Option<usize>,
    folded_before: &dyn Fn(usize) -> bool,
    probes: &mut Probes,
) -> Result<(), Broken> {
    let branch = &commit.branch[..commit.record];
    let read = last_read(commit);
    let newest_user = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Message(Role::User)));
    for promise in &record.edits {
        let target = &promise.target;
        let Some(at) = position(target) else { continue };
        if is_first_show(record, promise, at, read) {
            continue;
        }
        if at >= read {
            return Err(Broken::new("held", "what no good answer has followed stays as it is", format!("{target} is edited")));
        }
        if promise.sha256.is_none() && Some(at) == newest_user {
            return Err(Broken::new("held", "the newest user message stays", target.clone()));
        }
        if is_blacklisted(&branch[at], commit.settings) && !folded_before(at) {
            return Err(Broken::new("held", "results of held tools stay raw", target.clone()));
        }
    }
    let beside = branch.iter().any(|entry| is_blacklisted(entry, commit.settings));
    probes.when("commit beside a held batch", beside);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, message: &str) -> Entry {
        Entry::parse(&format!(r#"{{"type":"message","id":"{id}","message":{message}}}"#)).expect("an entry")
    }

    /// Two batches of one result each, and an answer that has read them.
    fn branch() -> Vec<Entry> {
        let call = |id: &str| {
            format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"{id}","name":"ls","arguments":{{}}}}]}}"#)
        };
        let result = |id: &str, tool: &str| {
            let text = "x".repeat(9_000);
            format!(r#"{{"role":"toolResult","toolCallId":"{id}","toolName":"{tool}","content":[{{"type":"text","text":"{text}"}}]}}"#)
        };
        vec![
            entry("u", r#"{"role":"user","content":"go"}"#),
            entry("a1", &call("1")),
            entry("r1", &result("1", "ls")),
            entry("a2", &call("2")),
            entry("r2", &result("2", "held")),
            entry("a3", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"done"}]}"#),
        ]
    }

    fn fold(kind: FoldKind, carrier: &str, parts: &[&Entry], children: &[(String, Digest)]) -> (String, String, Digest) {
        let own = parts.iter().map(|part| (part.id(), part.digest()));
        let name = FoldName::of(kind, own, children.iter().map(|(id, sha)| (id.as_str(), *sha)));
        let id = name.id(12).to_string();
        let list = |pairs: Vec<(&str, Digest)>| pairs.into_iter().map(|(id, sha)| format!("[\"{id}\",\"{sha}\"]")).collect::<Vec<_>>().join(",");
        let parts = list(parts.iter().map(|part| (part.id(), part.digest())).collect());
        let children = list(children.iter().map(|(id, sha)| (id.as_str(), *sha)).collect());
        let json = format!(r#"{{"id":"{id}","kind":"{}","carrier":"{carrier}","parts":[{parts}],"children":[{children}]}}"#, kind.name());
        (json, id, name.digest())
    }

    fn text(text: &str) -> String {
        format!(r#"[{{"type":"text","text":{}}}]"#, serde_json::Value::from(text))
    }

    /// An edit as a record promises it, and what it gives its target.
    type Edit = (String, (String, Option<String>));

    fn omission(target: &str) -> Edit {
        (format!(r#"{{"target":"{target}"}}"#), (target.to_owned(), None))
    }

    fn replacement(target: &str, content: String, more: &str) -> Edit {
        let (sha, bytes) = (digest_of(&content), Size::of_original(&showing(&content)).bytes);
        (format!(r#"{{"target":"{target}","sha256":"{sha}","bytes":{bytes}{more}}}"#), (target.to_owned(), Some(content)))
    }

    fn clipped(entry: &Entry, head: usize, tail: usize) -> Edit {
        let content = clip_content(entry.content(), entry.id(), head, tail).expect("shorter");
        replacement(entry.id(), content, &format!(r#","clip":[{head},{tail}]"#))
    }

    fn record(trigger: &str, folds: &[&str], edits: &[Edit]) -> Entry {
        let edits: Vec<&str> = edits.iter().map(|(promise, _)| promise.as_str()).collect();
        let data = format!(r#"{{"v":1,"trigger":"{trigger}","bound":400,"folds":[{}],"edits":[{}]}}"#, folds.join(","), edits.join(","));
        Entry::parse(&format!(r#"{{"type":"custom","id":"c","customType":"{COMMIT_RECORD}","data":{data}}}"#)).expect("a record")
    }

    /// What the checks say of a record after this branch and of these edits.
    fn judged(branch: &[Entry], record: Entry, edits: &[Edit], settings: &Settings) -> Option<&'static str> {
        let mut branch = branch.to_vec();
        branch.push(record);
        let edits: Vec<(String, Option<String>)> = edits.iter().map(|(_, edit)| edit.clone()).collect();
        let position = |id: &str| branch.iter().position(|entry| entry.id() == id);
        let commit = Commit { branch: &branch, record: branch.len() - 1, edits: &edits, settings };
        Folds::default().commit(commit, &position, &mut Probes::default()).err().map(|broken| broken.invariant)
    }

    /// What the checks say of a commit of these folds and edits (target, new text or nothing).
    fn verdict(branch: &[Entry], folds: &[&str], edits: &[(&str, Option<&str>)], settings: &Settings) -> Option<&'static str> {
        let edit = |(target, words): &(&str, Option<&str>)| words.map_or_else(|| omission(target), |words| replacement(target, text(words), ""));
        let edits: Vec<Edit> = edits.iter().map(edit).collect();
        judged(branch, record("band", folds, &edits), &edits, settings)
    }

    fn placeholder_of(id: &str) -> String {
        format!("⟦pi-fold {id} · tool fold · 1 entry⟧\nwords\n| quoted\n1 results\n⟦end {id} · r1..r1 · 1 entry⟧")
    }

    #[test]
    fn a_sound_commit_passes() {
        let branch = branch();
        let (json, id, _) = fold(FoldKind::Tool, "r1", &[&branch[2]], &[]);
        assert_eq!(verdict(&branch, &[&json], &[("r1", Some(&placeholder_of(&id)))], &Settings::default()), None);
    }

    #[test]
    fn each_rule_is_broken_by_what_breaks_it() {
        let branch = branch();
        let plain = Settings::default();
        let (one, id, name) = fold(FoldKind::Tool, "r1", &[&branch[2]], &[]);
        let (again, _, _) = fold(FoldKind::Span, "r1", &[&branch[2]], &[]);
        let (two, second, _) = fold(FoldKind::Tool, "r2", &[&branch[4]], &[]);
        let (lonely, _, _) = fold(FoldKind::Consolidated, "r1", &[&branch[3]], &[(id.clone(), name)]);
        let placed = placeholder_of(&id);
        let shown = [("r1", Some(placed.as_str()))];
        assert_eq!(verdict(&branch, &[&one, &again], &shown, &plain), Some("nesting"), "an entry in two folds");
        assert_eq!(verdict(&branch, &[&one, &lonely], &shown, &plain), Some("nesting"), "a consolidation of one");
        assert_eq!(verdict(&branch, &[&one.replace("tool", "span")], &shown, &plain), Some("lossless"), "a name that is not its own");
        assert_eq!(verdict(&branch, &[&one], &[("r1", Some(&placed)), ("u", None)], &plain), Some("conservation"), "an omission in no fold");
        assert_eq!(
            verdict(&branch, &[&one], &[("r1", Some(&placed)), ("r2", Some("cut"))], &plain),
            Some("conservation"),
            "a replacement without a reason"
        );
        let unquoted = placed.replace("| quoted", "Ran quoted");
        assert_eq!(verdict(&branch, &[&one], &[("r1", Some(&unquoted))], &plain), Some("no_carrier"), "words of a tool in our voice");
        let long = placed.replace("| quoted", &format!("| {}", "long ".repeat(100)));
        assert_eq!(verdict(&branch, &[&one], &[("r1", Some(&long))], &plain), Some("bounded"), "a long brief");
        let held = Settings::parse(r#"{"blacklistAutoFoldTools":["held"]}"#).expect("settings");
        let placed_second = placeholder_of(&second);
        assert_eq!(verdict(&branch, &[&two], &[("r2", Some(&placed_second))], &held), Some("held"), "a held result");
        assert_eq!(verdict(&branch[..5], &[&two], &[("r2", Some(&placed_second))], &plain), Some("held"), "an unread result");
        let other = branch[2].line().replace("xx", "yy");
        let mut damaged = branch.clone();
        damaged[2] = Entry::parse(&other).expect("an entry");
        assert_eq!(verdict(&damaged, &[&one], &shown, &plain), Some("lossless"), "a digest of other bytes");
    }

    #[test]
    fn a_record_promises_each_edit_once_and_says_what_it_is() {
        let branch = branch();
        let plain = Settings::default();
        let (one, id, _) = fold(FoldKind::Tool, "r1", &[&branch[2]], &[]);
        let sound = [replacement("r1", text(&placeholder_of(&id)), "")];
        let said = |edits: &[Edit], done: &[Edit]| judged(&branch, record("band", &[&one], edits), done, &plain);
        assert_eq!(said(&sound, &sound), None);
        assert_eq!(said(&sound, &[]), Some("attributed"), "an edit is missing");
        assert_eq!(said(&sound, &[replacement("r1", text("other"), "")]), Some("attributed"), "another content");
        assert_eq!(said(&sound, &[replacement("r2", text(&placeholder_of(&id)), "")]), Some("attributed"), "another target");
        let twice = [sound[0].clone(), sound[0].clone()];
        assert_eq!(said(&twice, &twice), Some("attributed"), "a target twice");
        let heavier = [(sound[0].0.replace(r#""bytes":"#, r#""bytes":1"#), sound[0].1.clone())];
        assert_eq!(said(&heavier, &heavier), Some("attributed"), "another size");
        let seen = [replacement("r1", text(&placeholder_of(&id)), r#","images":1"#)];
        assert_eq!(said(&seen, &seen), Some("attributed"), "an image that is not there");
        let cut = [replacement("r1", text(&placeholder_of(&id)), r#","clip":[400,200]"#)];
        assert_eq!(said(&cut, &cut), Some("attributed"), "a clip that is none");
        let late = [sound[0].clone(), replacement("c", text("words"), "")];
        assert_eq!(said(&late, &late), Some("attributed"), "a target that is not before the record");
    }

    #[test]
    fn a_cut_before_the_first_reading_belongs_to_the_fence_or_an_overflow_and_keeps_two_to_one() {
        let branch = &branch()[..5];
        let held = Settings::parse(r#"{"blacklistAutoFoldTools":["held"]}"#).expect("settings");
        let cut = |trigger: &str, at: usize, head: usize, tail: usize| {
            let edits = [clipped(&branch[at], head, tail)];
            judged(branch, record(trigger, &[], &edits), &edits, &held)
        };
        assert_eq!((cut("fence", 4, 400, 200), cut("overflow", 4, 4_000, 2_000)), (None, None));
        assert_eq!(cut("band", 4, 400, 200), Some("conservation"), "by the band");
        assert_eq!(cut("fence", 4, 300, 150), Some("conservation"), "too short");
        assert_eq!(cut("fence", 4, 300, 300), Some("conservation"), "as much tail as head");
        assert_eq!(cut("fence", 2, 4_000, 2_000), Some("conservation"), "of what was read");
        assert_eq!(cut("fence", 2, 400, 200), None, "an old result");
        let (promise, done) = clipped(&branch[4], 400, 200);
        let untold = [(promise.replace(r#","clip":[400,200]"#, ""), done)];
        assert_eq!(judged(branch, record("fence", &[], &untold), &untold, &held), Some("conservation"), "a clip the record does not tell of");
    }

    #[test]
    fn a_held_result_is_clipped_only_before_it_was_read() {
        let branch = branch();
        let held = Settings::parse(r#"{"blacklistAutoFoldTools":["held"]}"#).expect("settings");
        let edits = [clipped(&branch[4], 400, 200)];
        assert_eq!(judged(&branch, record("fence", &[], &edits), &edits, &held), Some("held"));
        assert_eq!(judged(&branch[..5], record("fence", &[], &edits), &edits, &held), None);
    }

    #[test]
    fn a_record_that_grows_without_hiding_anything_is_not_bounded() {
        let branch = branch();
        let edits = [clipped(&branch[2], 400, 200)];
        let sound = record("band", &[], &edits);
        let padded = sound.line().replace(r#""v":1,"#, &format!(r#""v":1,"note":"{}","#, "x".repeat(2_000)));
        assert_eq!(judged(&branch, sound, &edits, &Settings::default()), None);
        assert_eq!(judged(&branch, Entry::parse(&padded).expect("a record"), &edits, &Settings::default()), Some("bounded"));
    }

    fn edit(id: &str, (target, content): &(String, Option<String>)) -> Entry {
        let replacement = content.as_ref().map_or("null".to_owned(), |content| format!(r#"{{"content":{content}}}"#));
        Entry::parse(&format!(r#"{{"type":"context_edit","id":"{id}","targetId":"{target}","replacement":{replacement}}}"#)).expect("an edit")
    }

    /// A record of three promises after this branch, then these entries, and what the check says of what is written next.
    fn recovered(promises: &[Edit], then: &[Entry], written: &[Entry], probes: &mut Probes) -> Option<&'static str> {
        let mut before = branch();
        before.push(record("band", &[], promises));
        before.extend(then.iter().cloned());
        recovery(&before, written, probes).err().map(|broken| broken.invariant)
    }

    #[test]
    fn a_boundary_without_a_record_writes_the_next_promised_edits_and_nothing_else() {
        let promises = [replacement("r1", text("one"), ""), omission("a1"), replacement("r2", text("two"), "")];
        let edits: Vec<Entry> = promises.iter().enumerate().map(|(index, (_, done))| edit(&format!("e{index}"), done)).collect();
        let mut probes = Probes::default();
        let mut said = |then: &[Entry], written: &[Entry]| recovered(&promises, then, written, &mut probes);
        assert_eq!((said(&[], &edits), said(&[], &edits[..1]), said(&edits[..1], &edits[1..]), said(&edits, &[])), (None, None, None, None));
        assert_eq!(said(&[], &edits[1..]), Some("attributed"), "one is left out");
        assert_eq!(said(&edits, &edits[..1]), Some("attributed"), "one is written twice");
        let other = edit("e3", &("r1".to_owned(), Some(text("other"))));
        assert_eq!(said(&[], std::slice::from_ref(&other)), Some("attributed"), "another content");
        assert_eq!(said(&[], &branch()[..1]), Some("attributed"), "no edit");
        // Another edit of its target, or a compaction that leaves it out, ends a promise.
        assert_eq!(said(std::slice::from_ref(&other), &edits[1..]), None);
        assert_eq!(said(&[other], &edits), Some("attributed"), "what somebody else edited");
        let compaction = Entry::parse(r#"{"type":"compaction","id":"k","summary":"","firstKeptEntryId":"r2"}"#).expect("an entry");
        assert_eq!((said(std::slice::from_ref(&compaction), &edits[2..]), said(&[compaction], &edits)), (None, Some("attributed")));
        // So does a newer record; and what is not in context then is promised nothing.
        let newer = [omission("r1"), omission("nobody")];
        let (again, gone) = (record("band", &[], &newer), edit("e4", &newer[0].1));
        assert_eq!(said(std::slice::from_ref(&again), &[edits[1].clone(), edits[2].clone(), gone]), None);
        assert_eq!(said(&[again], &edits), Some("attributed"), "what a newer record promised otherwise");
        for probe in ["recovery of promised edits", "commit spread over boundaries", "promise ended by a foreign edit"] {
            assert!(probes.count(probe) > 0, "{probe}");
        }
    }

    fn line(json: &str) -> Entry {
        Entry::parse(json).expect("an entry")
    }

    /// The branch with a fold of its first batch, then these entries and one answer.
    fn folded(then: &[Entry]) -> (Vec<Entry>, String) {
        let mut branch = branch();
        let (one, id, _) = fold(FoldKind::Tool, "r1", &[&branch[2]], &[]);
        let edits = [replacement("r1", text(&placeholder_of(&id)), "")];
        branch.push(line(&record("band", &[&one], &edits).line().replace(r#""id":"c""#, r#""id":"c1""#)));
        branch.push(edit("p1", &edits[0].1));
        branch.extend(then.iter().cloned());
        branch.push(entry("a9", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"on"}]}"#));
        (branch, id)
    }

    /// What the checks say of a record after a branch whose folds are known.
    fn judged_on(branch: &[Entry], trigger: &str, folds: &[&str], edits: &[Edit], probes: &mut Probes) -> Option<&'static str> {
        let mut branch = branch.to_vec();
        let position = |branch: &[Entry], id: &str| branch.iter().position(|entry| entry.id() == id);
        let mut known = Folds::read(&branch, &|id| position(&branch, id));
        branch.push(record(trigger, folds, edits));
        let edits: Vec<(String, Option<String>)> = edits.iter().map(|(_, edit)| edit.clone()).collect();
        let commit = Commit { branch: &branch, record: branch.len() - 1, edits: &edits, settings: &Settings::default() };
        known.commit(commit, &|id| position(&branch, id), probes).err().map(|broken| broken.invariant)
    }

    #[test]
    fn a_torn_batch_is_shown_whole_again_once_and_then_given_up() {
        let mut probes = Probes::default();
        let gone = ("r1".to_owned(), None);
        let (torn, id) = folded(&[edit("f1", &gone)]);
        let (whole, _) = folded(&[]);
        let again = [replacement("r1", text(&placeholder_of(&id)), "")];
        let mut said = |branch: &[Entry], edits: &[Edit]| judged_on(branch, "recovery", &[], edits, &mut probes);
        assert_eq!(said(&torn, &again), None);
        assert_eq!(said(&whole, &again), Some("conservation"), "nothing is torn");
        assert_eq!(said(&torn, &[omission("a1")]), Some("conservation"), "given up at once");
        assert_eq!(said(&torn, &[replacement("r1", text("words"), "")]), Some("conservation"), "something else");
        assert_eq!(said(&torn, &[omission("a2")]), Some("conservation"), "a batch of no fold");
        assert_eq!(said(&torn, &[again[0].clone(), omission("a1")]), Some("conservation"), "both ways");
        let recovered = line(&record("recovery", &[], &again).line().replace(r#""id":"c""#, r#""id":"c2""#));
        let (settled, _) = folded(&[edit("f1", &gone), recovered.clone()]);
        assert_eq!(said(&settled, &again), Some("conservation"), "put right already");
        let (twice, _) = folded(&[edit("f1", &gone), recovered, edit("f2", &gone)]);
        assert_eq!(said(&twice, &again), Some("conservation"), "shown again a second time");
        assert_eq!(said(&twice, &[omission("a1")]), None);
        assert!(probes.count("recovery of a torn batch") == 1 && probes.count("torn batch given up") == 1);
    }

    #[test]
    fn a_lost_placeholder_is_shown_again_once_inside_a_commit() {
        let mut probes = Probes::default();
        let other = ("r1".to_owned(), Some(text("what somebody else says")));
        let (lost, id) = folded(&[edit("f1", &other)]);
        let again = [replacement("r1", text(&placeholder_of(&id)), "")];
        let mut said = |branch: &[Entry], edits: &[Edit]| judged_on(branch, "band", &[], edits, &mut probes);
        assert_eq!(said(&lost, &again), None);
        assert_eq!(said(&lost, &[replacement("r1", text("words"), "")]), Some("conservation"), "other words");
        assert_eq!(said(&folded(&[]).0, &again), Some("conservation"), "it is not lost");
        let shown = line(&record("band", &[], &again).line().replace(r#""id":"c""#, r#""id":"c2""#));
        let (twice, _) = folded(&[edit("f1", &other), shown, edit("f2", &other)]);
        assert_eq!(said(&twice, &again), Some("conservation"), "a second time");
        assert_eq!(probes.count("lost placeholder shown again"), 1);
    }

    #[test]
    fn a_peek_that_was_read_makes_way_for_exactly_its_line() {
        use fold_runtime::agent::{Peek, peek_line};
        let mut probes = Probes::default();
        let line_of = |ephemeral| peek_line(&Peek { ephemeral, ..Peek::of("f_0123456789ab") }, Digest::of(b"x"));
        let with = |line: &str| {
            let mut branch = branch();
            let result = serde_json::json!({"role": "toolResult", "toolCallId": "2", "toolName": "pi_fold_context",
                "content": [{"type": "text", "text": format!("{}\n{line}", "x".repeat(9_000))}]});
            branch[3] = entry("a2", &branch[3].field("message").expect("a message").replace("ls", "pi_fold_context"));
            branch[4] = entry("r2", &result.to_string());
            branch
        };
        let (due, kept) = (line_of(true), line_of(false));
        let mut said =
            |branch: &[Entry], trigger: &str, words: &str| judged_on(branch, trigger, &[], &[replacement("r2", text(words), "")], &mut probes);
        assert_eq!((said(&with(&due), "peek", &due), said(&with(&due), "band", &due)), (None, None));
        assert_eq!(said(&with(&due), "peek", &kept), Some("conservation"), "another line");
        assert_eq!(said(&with(&kept), "peek", &kept), Some("conservation"), "a peek that stays");
        assert_eq!(said(&with(&due)[..5], "peek", &due), Some("conservation"), "before it was read");
        assert_eq!(said(&branch(), "peek", &due), Some("conservation"), "no peek at all");
        assert_eq!((probes.count("peek retired at once"), probes.count("peek retired in a commit")), (1, 1));
    }

    fn decision(data: &str) -> Entry {
        line(&format!(r#"{{"type":"custom","id":"d","customType":"pi-fold.decision","data":{data}}}"#))
    }

    /// The branch with this decision, and what the checks say of a fold of its first batch that says these words.
    fn decided(data: &str, trigger: &str, brief: Option<&str>, words: &str, probes: &mut Probes) -> Option<&'static str> {
        let mut branch = branch();
        let (mut json, id, _) = fold(FoldKind::Tool, "r1", &[&branch[2]], &[]);
        if let Some(brief) = brief {
            json.insert_str(json.len() - 1, &format!(r#","brief":{}"#, serde_json::Value::from(brief)));
        }
        branch.push(entry("a4", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"on"}]}"#));
        branch.push(decision(data));
        let placed = placeholder_of(&id).replace("| quoted\n1 results", words);
        judged_on(&branch, trigger, &[&json], &[replacement("r1", text(&placed), "")], probes)
    }

    #[test]
    fn what_is_pinned_or_withdrawn_stays_raw_but_the_fence_ignores_what_was_withdrawn() {
        let mut probes = Probes::default();
        let mut said = |data: &str, trigger: &str| decided(data, trigger, None, "| words", &mut probes);
        let pin = |ids: &str| format!(r#"{{"v":1,"verb":"pin","units":[{ids}]}}"#);
        assert_eq!((said(&pin(r#""a1""#), "band"), said(&pin(r#""a1""#), "fence")), (Some("held"), Some("held")));
        assert_eq!((said(&pin(r#""a2""#), "band"), said(&pin(r#""a1","no""#), "band")), (None, None), "another unit, or none");
        let withdrawn = r#"{"v":1,"verb":"unmark","units":["a1"]}"#;
        assert_eq!((said(withdrawn, "band"), said(withdrawn, "person")), (Some("held"), Some("held")));
        assert_eq!(said(withdrawn, "fence"), None);
        assert_eq!(said(&withdrawn.replace("a1", "a3"), "band"), None);
        for probe in ["commit beside a pin", "commit beside a withdrawn mark", "urgent commit ignores a withdrawn mark"] {
            assert!(probes.count(probe) > 0, "{probe}");
        }
    }

    #[test]
    fn a_pinned_user_message_may_be_cut_before_it_was_read_and_never_after() {
        let mut branch = branch();
        let long = "x".repeat(9_000);
        branch.push(entry("u2", &format!(r#"{{"role":"user","content":"{long}"}}"#)));
        let cut = [clipped(&branch[6], 400, 200)];
        assert_eq!(judged_on(&branch, "fence", &[], &cut, &mut Probes::default()), None);
        branch.push(decision(r#"{"v":1,"verb":"pin","units":["u2"]}"#));
        assert_eq!(judged_on(&branch, "fence", &[], &cut, &mut Probes::default()), None);
        branch.push(entry("a4", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"read"}]}"#));
        let late = [clipped(&branch[6], 2_000, 500)];
        for (trigger, cut) in [("fence", &cut), ("band", &late)] {
            assert_eq!(judged_on(&branch, trigger, &[], cut, &mut Probes::default()), Some("held"), "{trigger}");
        }
    }

    #[test]
    fn a_supplied_brief_stands_verbatim_and_only_where_it_was_supplied() {
        let mut probes = Probes::default();
        let cut = r#"{"v":1,"verb":"cut","units":["a1"],"brief":"Ran the tests.\nAll pass."}"#;
        let brief = "Ran the tests.\nAll pass.";
        let mut said = |data: &str, brief: Option<&str>, words: &str| decided(data, "band", brief, words, &mut probes);
        assert_eq!(said(cut, Some(brief), brief), None);
        assert_eq!(said(cut, Some(brief), "| Ran the tests.\n| All pass."), Some("lossless"), "quoted");
        assert_eq!(said(cut, None, "| words"), Some("lossless"), "left out");
        assert_eq!(said(&cut.replace("a1", "a3"), Some(brief), brief), Some("lossless"), "supplied for others");
        assert_eq!((probes.count("agreed cut folded"), probes.count("supplied brief shown")), (2, 2));
    }

    #[test]
    fn a_supplied_brief_may_be_as_long_again_in_the_record() {
        let brief = "ran the tests ".repeat(150);
        let cut = format!(r#"{{"v":1,"verb":"cut","units":["a1"],"brief":"{brief}"}}"#);
        assert_eq!(decided(&cut, "band", Some(&brief), &brief, &mut Probes::default()), None);
    }
}
