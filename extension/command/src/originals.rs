//! A session file, its folds as their records name them, and where each original still is.
//!
//! A fold is looked for in the whole file, not on one branch: a damaged line can orphan a branch, and what was folded before it is still there.
//! An original is taken for what was folded only by its SHA-256, wherever its bytes come from.

use crate::rewrite::{as_javascript, content};
use fold_runtime::fold::{COMMIT_RECORD, FoldKind, Recorded, gist, recorded};
use fold_runtime::journal::{Digest, Entry, Journal, Kind, ReadError, Text};
use fold_runtime::ports::ObjectStore as _;
use fold_store::Store;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How an original, or the worst of a fold's, is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The journal has its exact line.
    Whole,
    /// The journal has a line of the same content and other bytes.
    Reformatted,
    /// The journal does not have it; the store does.
    StoreOnly,
    /// Neither has it.
    Damaged,
}

impl State {
    pub const ALL: [State; 4] = [State::Whole, State::Reformatted, State::StoreOnly, State::Damaged];

    pub fn words(self) -> &'static str {
        match self {
            State::Whole => "whole",
            State::Reformatted => "reformatted, same content",
            State::StoreOnly => "in the store only",
            State::Damaged => "damaged",
        }
    }
}

/// An original that a fold hides.
#[derive(Serialize)]
pub struct Original {
    /// The entry's id.
    pub entry: String,
    /// The number of its line in the file, if an entry of this id is there.
    pub line: Option<usize>,
    pub state: State,
    /// What is to be said of it; nothing where it is whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The exact line, without its end.
    #[serde(skip)]
    pub bytes: Option<String>,
}

/// A session file and the store beside it.
pub struct File {
    pub journal: Journal,
    /// What was odd about the file, in sentences.
    pub notes: Vec<String>,
    /// Folds by id, and their ids in the order of their records.
    pub folds: BTreeMap<String, Recorded>,
    pub order: Vec<String>,
    /// Records that name folds in a way that this version does not understand.
    pub newer: Vec<String>,
    /// Records that cannot vouch for what they folded.
    pub unreadable: Vec<String>,
    pub records: usize,
    pub store: Option<PathBuf>,
    opened: Option<Store>,
    positions: BTreeMap<String, Vec<usize>>,
    /// Folds in other folds.
    contained: BTreeSet<String>,
}

impl File {
    /// Reads a file, and looks for a store beside it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let bytes = std::fs::read(path).map_err(|error| format!("{name} could not be read: {error}"))?;
        let mut notes = Vec::new();
        let journal = match Journal::read(&bytes) {
            // Pi reads such bytes as U+FFFD; the digest of their line tells that they are not what was folded.
            Err(error @ ReadError::NotUtf8(_)) => {
                notes.push(error.to_string());
                Journal::read(String::from_utf8_lossy(&bytes).as_bytes())
            }
            read => read,
        };
        let journal = journal.map_err(|error| format!("{name}: {error}"))?;
        notes.extend(journal.skipped.iter().map(|skipped| format!("line {}: {}", skipped.line, skipped.why)));
        let beside = path.parent().unwrap_or_else(|| Path::new("")).join(fold_store::NAME);
        let opened = Store::open_to_read(&beside).unwrap_or_else(|error| {
            notes.push(format!("no second copies are looked at: {error}"));
            None
        });
        let mut file = File {
            journal,
            notes,
            folds: BTreeMap::new(),
            order: Vec::new(),
            newer: Vec::new(),
            unreadable: Vec::new(),
            records: 0,
            store: opened.as_ref().map(|_| beside),
            opened,
            positions: BTreeMap::new(),
            contained: BTreeSet::new(),
        };
        file.index();
        Ok(file)
    }

    fn index(&mut self) {
        for (at, entry) in self.journal.entries.iter().enumerate() {
            self.positions.entry(entry.id().to_owned()).or_default().push(at);
            if !matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD) {
                continue;
            }
            self.records += 1;
            let Some(folds) = recorded(entry) else {
                let place = format!("the fold record {} (line {})", entry.id(), self.journal.lines[at]);
                match version(entry) {
                    Some(version) if version > 1 => self.newer.push(format!("{place} has version {version}, which a newer pi-fold wrote")),
                    _ => self.unreadable.push(format!("{place} is damaged: what it folded cannot be told")),
                }
                continue;
            };
            for fold in folds {
                self.contained.extend(fold.children.iter().cloned());
                if !self.folds.contains_key(&fold.id) {
                    self.order.push(fold.id.clone());
                    self.folds.insert(fold.id.clone(), fold);
                }
            }
        }
    }

    /// Ids of the folds that no other contains, in the order of what they hide.
    pub fn roots(&self) -> Vec<&str> {
        let mut roots: Vec<&str> = self.order.iter().map(String::as_str).filter(|id| !self.contained.contains(*id)).collect();
        roots.sort_by_key(|id| self.place(id));
        roots
    }

    /// Ids of the folds that a fold contains itself and that are in the file, in the order of what they hide.
    pub fn children(&self, fold: &str) -> Vec<&str> {
        let children = self.folds.get(fold).map_or(&[][..], |fold| &fold.children);
        let mut children: Vec<&str> = children.iter().filter_map(|child| Some(self.folds.get_key_value(child)?.0.as_str())).collect();
        children.sort_by_key(|id| self.place(id));
        children
    }

    /// Where the first entry of a fold stands that is in the file.
    fn place(&self, fold: &str) -> usize {
        let (parts, _) = self.hidden(fold);
        parts.keys().filter_map(|entry| self.positions.get(*entry)?.first().copied()).min().unwrap_or(usize::MAX)
    }

    /// What a fold hides at any depth, by entry, and the folds in it of which the file has no record.
    fn hidden(&self, fold: &str) -> (BTreeMap<&str, Digest>, Vec<String>) {
        let (mut parts, mut lost) = (BTreeMap::new(), Vec::new());
        // A record that was made up may name a fold as its own descendant.
        let mut seen = BTreeSet::new();
        let mut next = vec![fold];
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.folds.get(id) {
                Some(found) => {
                    parts.extend(found.parts.iter().map(|(entry, digest)| (entry.as_str(), *digest)));
                    next.extend(found.children.iter().map(String::as_str));
                }
                None => lost.push(id.to_owned()),
            }
        }
        (parts, lost)
    }

    /// Every original that a fold hides at any depth, in the order of the session. A fold in it that has no record any more is one that is damaged.
    pub fn originals(&self, fold: &str) -> Vec<Original> {
        let (parts, lost) = self.hidden(fold);
        let mut originals: Vec<Original> = parts.into_iter().map(|(entry, digest)| self.original(entry, digest)).collect();
        let places: BTreeMap<String, (usize, usize)> =
            originals.iter().map(|original| (original.entry.clone(), self.stands(original, &originals, originals.len()))).collect();
        originals.sort_by_key(|original| places[&original.entry]);
        originals.extend(lost.into_iter().map(|id| Original {
            why: format!("the record of the fold {id}, which it contains, is not in the file"),
            entry: id,
            line: None,
            state: State::Damaged,
            bytes: None,
        }));
        originals
    }

    /// Where an original stands among the others: at its own place, or so many steps behind the nearest ancestor that the file has.
    fn stands(&self, original: &Original, all: &[Original], steps: usize) -> (usize, usize) {
        if let Some(at) = self.positions.get(&original.entry) {
            return (at[0], 0);
        }
        let copy = original.bytes.as_deref().and_then(|line| Entry::parse(line).ok());
        let Some(parent) = copy.as_ref().and_then(Entry::parent).filter(|_| steps > 0) else { return (usize::MAX, 0) };
        let (at, behind) = match (self.positions.get(parent), all.iter().find(|other| other.entry == parent)) {
            (Some(at), _) => (at[0], 0),
            (None, Some(other)) => self.stands(other, all, steps - 1),
            (None, None) => (usize::MAX, 0),
        };
        (at, behind + 1)
    }

    fn original(&self, id: &str, digest: Digest) -> Original {
        let lines: Vec<usize> = self.positions.get(id).cloned().unwrap_or_default();
        let found = |state, line: usize, why: String, bytes: String| Original {
            entry: id.to_owned(),
            line: Some(self.journal.lines[line]),
            state,
            why,
            bytes: Some(bytes),
        };
        let entry = |at: usize| &self.journal.entries[at];
        if let Some(&at) = lines.iter().find(|at| entry(**at).digest() == digest) {
            return found(State::Whole, at, String::new(), entry(at).line().to_owned());
        }
        let is_folded = |line: &String| Digest::of(line.as_bytes()) == digest;
        let rewritten = lines.iter().find_map(|&at| Some((at, as_javascript(entry(at).line()).filter(is_folded)?)));
        if let Some((at, exact)) = rewritten {
            return found(State::Reformatted, at, "only spaces or escapes differ; written as Pi writes it, it is what was folded".to_owned(), exact);
        }
        let asked = self.opened.as_ref().map_or(Ok(None), |store| store.get(digest));
        let failed = asked.as_ref().err().map(|error| format!("; the store could not be asked: {error}"));
        let copy = asked.ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok()).filter(is_folded);
        if let Some(copy) = copy {
            let meant = content(&copy);
            if let Some(&at) = lines.iter().find(|at| meant.is_some() && content(entry(**at).line()) == meant) {
                return found(State::Reformatted, at, "its keys are in another order; the store has its bytes".to_owned(), copy);
            }
            let (line, why) = match lines.last() {
                Some(&at) => (Some(self.journal.lines[at]), "its line is not what was folded; the store has it"),
                None => (None, "no line of the file is this entry; the store has it"),
            };
            return Original { entry: id.to_owned(), line, state: State::StoreOnly, why: why.to_owned(), bytes: Some(copy) };
        }
        let store = match (&self.opened, failed) {
            (_, Some(failed)) => failed,
            (Some(_), None) => ", and the store does not have it".to_owned(),
            (None, None) => ", and there is no store".to_owned(),
        };
        let why = match lines.last() {
            Some(_) => format!("its line is not what was folded{store}"),
            None => format!("no line of the file is this entry{store}"),
        };
        Original { entry: id.to_owned(), line: lines.last().map(|&at| self.journal.lines[at]), state: State::Damaged, why, bytes: None }
    }

    /// What folds say of themselves, by id: the first line of a brief as its placeholder has it, else what one that contains it says of it.
    pub fn briefs(&self) -> BTreeMap<String, String> {
        let (mut own, mut told) = (BTreeMap::new(), BTreeMap::new());
        for entry in &self.journal.entries {
            let Some(content) = entry.replacement() else { continue };
            let text = content.string().or_else(|| content.blocks().first()?.text()).map(Text::into_string_lossy);
            let Some((id, rest)) = text.as_deref().and_then(|text| text.strip_prefix("⟦pi-fold ")?.split_once(' ')) else { continue };
            // Behind the head and the sentence that says whose words these are.
            let mut brief = rest.lines().skip(2).peekable();
            own.insert(id.to_owned(), brief.peek().copied().unwrap_or_default().to_owned());
            let inside = brief.filter_map(|line| line.split_once(" (").zip(line.split_once("): ")));
            told.extend(inside.map(|((id, _), (_, gist))| (id.to_owned(), gist.to_owned())));
        }
        told.extend(own);
        told
    }
}

/// A line that says what these originals are about, where no placeholder ever did.
pub fn anew(originals: &[Original]) -> String {
    let entries: Vec<Entry> = originals.iter().filter_map(|original| Entry::parse(original.bytes.as_deref()?).ok()).collect();
    gist(&entries.iter().collect::<Vec<_>>())
}

/// "tool fold", as placeholders call it.
pub fn kind(kind: FoldKind) -> &'static str {
    match kind {
        FoldKind::Tool => "tool",
        FoldKind::Span => "span",
        FoldKind::Consolidated => "consolidated",
    }
}

/// The version that a record says it has.
fn version(entry: &Entry) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Data {
        v: u64,
    }
    serde_json::from_str::<Data>(entry.field("data")?).ok().map(|data| data.v)
}

/// "1 entry", "2 entries".
pub fn counted(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}
