//! What records promised, and what of it the branch does not hold yet.
//!
//! A record is the change; its edits only carry it out. The host writes them one by one, may stop in the middle, and may write the rest
//! at later boundaries: until then they are the overlay. `docs/law.md`, "Promises", is the specification.

use super::{Draft, Session};
use crate::fold::{Edit, Promise, promised_content};
use crate::journal::{Digest, Entry, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The promises in force, by what they name.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    by_target: BTreeMap<usize, Standing>,
    /// Those that no edit keeps yet: position of the record and place in it, and the target.
    unkept: BTreeMap<(usize, usize), usize>,
}

#[derive(Clone, Debug)]
struct Standing {
    promise: Promise,
    /// Position of its record, and its place in it.
    place: (usize, usize),
    /// The content, derived when first asked for; `None` where it cannot be.
    content: OnceLock<Option<String>>,
}

impl Promises {
    /// Takes a promise; an older one of the same target ends.
    pub fn make(&mut self, place: (usize, usize), target: usize, promise: Promise) {
        self.end(target);
        self.by_target.insert(target, Standing { promise, place, content: OnceLock::new() });
        self.unkept.insert(place, target);
    }

    /// Whether an edit of the target carries out what was promised of it.
    pub fn keeps(&mut self, target: usize, edit: &Entry) -> bool {
        let Some(standing) = self.by_target.get(&target) else { return false };
        let written = edit.replacement().map(|content| Digest::of(content.raw().as_bytes()));
        let omits = matches!(edit.kind(), Kind::ContextEdit { omits: true, .. });
        let kept = standing.promise.digest == written && omits == written.is_none();
        if kept {
            self.unkept.remove(&standing.place);
        }
        kept
    }

    /// Whether what is promised of the target is on the branch in no edit yet.
    pub fn is_unkept(&self, target: usize) -> bool {
        self.by_target.get(&target).is_some_and(|standing| self.unkept.contains_key(&standing.place))
    }

    /// Whether what is promised of the target is this content.
    pub fn is_of(&self, target: usize, content: &str) -> bool {
        let promised = |standing: &Standing| standing.promise.digest == Some(Digest::of(content.as_bytes()));
        self.by_target.get(&target).is_some_and(promised)
    }

    /// Somebody else's edit wins.
    pub fn end(&mut self, target: usize) {
        if let Some(standing) = self.by_target.remove(&target) {
            self.unkept.remove(&standing.place);
        }
    }

    /// A compaction left out what lies before its kept range.
    pub fn end_before(&mut self, kept: usize) {
        self.by_target.retain(|target, _| *target >= kept);
        self.unkept.retain(|_, target| *target >= kept);
    }
}

impl Session {
    /// What the host has to show in every request in the place of what the branch holds: target and content (JSON text; `None` omits),
    /// in the order of writing. Costs what is missing.
    pub fn overlay(&self) -> Vec<(&str, Option<&str>)> {
        self.unkept(&[]).map(|(at, content)| (self.context.entries[at].id(), content)).collect()
    }

    /// Promised contents that cannot be derived again, because an original is damaged or another version of the rules wrote the record:
    /// the ids of their entries, which are shown as the branch has them.
    pub fn unkeepable(&self) -> Vec<&str> {
        let lost = |at: &&usize| self.promised_content(**at).is_none();
        self.promises.unkept.values().filter(lost).map(|&at| self.context.entries[at].id()).collect()
    }

    /// How many edits are promised and not on the branch yet.
    pub fn unwritten(&self) -> usize {
        self.promises.unkept.len()
    }

    /// The edits to write now, at most `limit`: unkept promises first, then those of a commit that is decided now. Tells how many are left.
    pub(super) fn writing(&self, limit: usize, new: Vec<Edit>) -> (Vec<Draft>, usize) {
        if self.promises.unkept.is_empty() && new.len() <= limit {
            return (new.into_iter().map(|edit| self.draft(edit.at, edit.content)).collect(), 0);
        }
        let mut older = self.unkept(&new);
        let mut drafts: Vec<Draft> = older.by_ref().take(limit).map(|(at, content)| self.draft(at, content.map(str::to_owned))).collect();
        let left = older.count();
        let room = limit - drafts.len();
        let more = new.len().saturating_sub(room);
        drafts.extend(new.into_iter().take(room).map(|edit| self.draft(edit.at, edit.content)));
        (drafts, left + more)
    }

    fn draft(&self, at: usize, replacement: Option<String>) -> Draft {
        Draft::ContextEdit { target: self.context.entries[at].id().to_owned(), replacement }
    }

    /// Unkept promises that these edits do not supersede and whose contents can be derived.
    fn unkept<'a>(&'a self, new: &[Edit]) -> impl Iterator<Item = (usize, Option<&'a str>)> + use<'a> {
        let named: BTreeSet<usize> = new.iter().map(|edit| edit.at).collect();
        let stands = move |at: &usize| !named.contains(at);
        self.promises.unkept.values().copied().filter(stands).filter_map(|at| Some((at, self.promised_content(at)?)))
    }

    /// The content that is promised of an entry, derived again; `None` where it is not what was promised.
    fn promised_content(&self, at: usize) -> Option<Option<&str>> {
        let Standing { promise, content, .. } = self.promises.by_target.get(&at)?;
        if promise.digest.is_none() {
            return Some(None);
        }
        content.get_or_init(|| promised_content(&self.context, &self.lattice, at, promise)).as_deref().map(Some)
    }
}
