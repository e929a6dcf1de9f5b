//! Expanding a fold by one level, folding it again, dissolving it.
//!
//! Each is a record like that of a commit, with the folds it opens, closes or dissolves in a list of their own. One that somebody asks for is
//! appended at once and carried out at the boundaries that follow; an expansion that is due is closed at the next commit.
//! `docs/law.md`, "Expanding, folding again, dissolving", is the specification.

use super::{Commit, Decision, Draft, Session, Trigger};
use crate::fold::{Carrier, Changes, Edit, Fold, FoldId, Shown, content_of};
use crate::journal::{Entry, Kind, Role};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Good answers after which an expansion is due (fold law, the nine verbs).
const ANSWERS: usize = 8;

/// Why a fold may not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It is pinned.
    Pinned,
    /// A compaction left a part of it out.
    LeftOut,
    /// Somebody else edited an entry of it.
    Foreign(String),
    /// An original is not what was folded.
    Damaged(String),
    /// An entry that carries a fold inside it belongs to another fold by now.
    Taken(String),
    /// The estimate would reach the trigger: the estimate, and the trigger.
    TooLarge(u64, u64),
    /// Pins and expansions would take too much: tokens, and the most there may be.
    OverCap(u64, u64),
}

/// Why an open fold may not be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unclosed {
    /// An id that is pinned in it.
    Pinned(String),
    /// Somebody else edited an entry of it.
    Foreign(String),
    /// An original is not what was folded, so that the brief would be another.
    Damaged(String),
}

impl Session {
    /// A record opened, closed or dissolved folds: others are held, and what was dissolved is folded no more.
    pub(super) fn turned(&mut self, changes: &Changes) {
        for id in &changes.dissolves {
            let fold = &self.lattice.folds[id.as_str()];
            let digests = fold.parts.iter().filter_map(|at| Some((*at, self.digests.remove(at)?))).collect();
            self.dissolved.insert(fold.id.clone(), digests);
        }
        self.hold_open();
        self.begin_anew();
    }

    /// Works out anew what open folds hold.
    pub(super) fn hold_open(&mut self) {
        // What an outer one claims holds the claims of those in it.
        let outermost = |id: &&FoldId| !self.lattice.around(id).any(|outer| self.lattice.open.contains_key(outer));
        let open = self.lattice.open.keys().filter(outermost).map(|id| &self.lattice.folds[id]);
        self.context.opened = open.flat_map(|fold| self.lattice.claim(fold, &self.context)).collect();
    }

    /// The record that shows one level of a shown fold.
    pub(crate) fn expansion(&self, id: &FoldId) -> Result<Draft, Unopened> {
        let (draft, after) = self.opened(id, Changes { opens: vec![id.to_string()], ..Changes::default() })?;
        let (tokens, cap) = (after.pins().tokens, after.pins().cap);
        if tokens > cap { Err(Unopened::OverCap(tokens, cap)) } else { Ok(draft) }
    }

    /// The record that dissolves a root without children, and the session after it.
    pub(crate) fn dissolution(&self, id: &FoldId) -> Result<(Draft, Session), Unopened> {
        self.opened(id, Changes { dissolves: vec![id.to_string()], ..Changes::default() })
    }

    fn opened(&self, id: &FoldId, changes: Changes) -> Result<(Draft, Session), Unopened> {
        let fold = &self.lattice.folds[id];
        let entry = |at: usize| self.context.entries[at].id().to_owned();
        let hidden = self.lattice.hidden(fold);
        if self.lattice.pinned.contains(id) {
            return Err(Unopened::Pinned);
        }
        let inner = self.lattice.within(fold);
        let carriers = inner.iter().filter_map(|id| self.lattice.folds.get(id)).map(|fold| fold.carrier.position());
        if hidden.iter().copied().chain(carriers).any(|at| at < self.context.kept_from()) {
            return Err(Unopened::LeftOut);
        }
        if let Some(at) = self.foreign_in(fold) {
            return Err(Unopened::Foreign(entry(at)));
        }
        if let Some(at) = self.damaged_in(&hidden) {
            return Err(Unopened::Damaged(entry(at)));
        }
        let draft = self.record_of(Trigger::Expand, &self.opening(fold), &changes);
        let after = self.after(&draft);
        if after.lattice.shown(id.as_str()).is_some() {
            // The record would not count.
            let children = fold.children.iter().filter_map(|child| self.lattice.folds.get(child));
            let taken = children.map(|child| child.carrier.position()).find(|at| !hidden.contains(at));
            return Err(Unopened::Taken(entry(taken.unwrap_or(fold.carrier.position()))));
        }
        let (would, most) = (after.occupancy(), self.band.max_target);
        if would >= most { Err(Unopened::TooLarge(would, most)) } else { Ok((draft, after)) }
    }

    /// The record that shows an open fold as it was.
    pub(crate) fn refolding(&self, id: &FoldId) -> Result<Draft, Unclosed> {
        let fold = &self.lattice.folds[id];
        if let Some(why) = self.unclosed(fold) {
            return Err(why);
        }
        let (edits, changes) = self.closing(&[fold]);
        Ok(self.record_of(Trigger::Refold, &edits, &changes))
    }

    /// The open folds that a commit closes first. One that cannot wait closes all that may be.
    fn due_folds(&self, urgent: bool) -> Vec<&Fold> {
        if self.lattice.open.is_empty() {
            return Vec::new();
        }
        let mut open: Vec<&Fold> = self.lattice.open.keys().map(|id| &self.lattice.folds[id]).collect();
        open.sort_by_key(|fold| (fold.units.0, Reverse(fold.depth)));
        let (mut due, mut inner) = (Vec::new(), BTreeSet::new());
        for fold in open {
            if !inner.contains(&fold.id) && (urgent || self.is_read(fold)) && self.unclosed(fold).is_none() {
                inner.extend(self.lattice.within(fold));
                due.push(fold);
            }
        }
        due
    }

    /// Whether enough answers have followed every record that opened a fold here.
    fn is_read(&self, fold: &Fold) -> bool {
        let inner = self.lattice.within(fold);
        let mut opened = inner.iter().chain([&fold.id]).filter_map(|id| self.lattice.open.get(id));
        opened.all(|answers| self.context.answers - answers >= ANSWERS)
    }

    /// What keeps an open fold from being closed.
    fn unclosed(&self, fold: &Fold) -> Option<Unclosed> {
        if let Some(at) = self.foreign_in(fold) {
            return Some(Unclosed::Foreign(self.context.entries[at].id().to_owned()));
        }
        if let Some(at) = self.damaged_in(&self.lattice.hidden(fold)) {
            return Some(Unclosed::Damaged(self.context.entries[at].id().to_owned()));
        }
        let pinned = &self.lattice.pinned;
        let inner = self.lattice.within(fold);
        if let Some(id) = inner.iter().chain([&fold.id]).find(|id| pinned.contains(*id)) {
            return Some(Unclosed::Pinned(id.to_string()));
        }
        if self.context.pinned.is_empty() {
            return None;
        }
        let claim = self.lattice.claim(fold, &self.context);
        let firsts = claim.into_iter().map(|unit| self.context.units[unit].entries[0]);
        let held = firsts.into_iter().find(|at| self.context.pinned.contains(at))?;
        Some(Unclosed::Pinned(self.context.entries[held].id().to_owned()))
    }

    /// An entry that somebody else edited, among those that a fold hides at any depth and the batches or messages that carry it and those in it.
    fn foreign_in(&self, fold: &Fold) -> Option<usize> {
        if self.context.foreign.is_empty() {
            return None;
        }
        let inner = self.lattice.within(fold);
        let folds = inner.iter().filter_map(|id| self.lattice.folds.get(id)).chain([fold]);
        let batch = |carrier: &Carrier| carrier.answer().into_iter().chain(carrier.others().to_vec()).chain([carrier.position()]);
        let entries = folds.flat_map(|fold| batch(&fold.carrier).chain(fold.parts.iter().copied()));
        entries.into_iter().find(|at| self.context.foreign.contains(at))
    }

    /// An original among those that folds hide which is not what was folded.
    fn damaged_in(&self, hidden: &[usize]) -> Option<usize> {
        hidden.iter().copied().find(|at| self.digests.get(at) != Some(&self.context.entries[*at].digest()))
    }

    /// The edits that show one level of a fold.
    fn opening(&self, fold: &Fold) -> Vec<Edit> {
        let own = |at: usize| (at, Edit::own(&self.context, at));
        let mut edits: BTreeMap<usize, Edit> = fold.parts.iter().copied().map(own).collect();
        if fold.children.is_empty() && matches!(fold.carrier, Carrier::User(_)) {
            edits.extend([own(fold.carrier.position())]);
        }
        // A message of a person that the fold hides may carry one of its children.
        for child in fold.children.iter().filter_map(|child| self.lattice.folds.get(child)) {
            let batch = child.carrier.others().iter().copied().chain([child.carrier.position()]);
            edits.extend(batch.map(|at| (at, Edit::of(at, content_of(&self.context, &self.lattice, child, at)))));
        }
        edits.into_values().filter(|edit| !self.stands(edit)).collect()
    }

    /// Whether an entry shows what an edit would give it.
    pub(super) fn stands(&self, edit: &Edit) -> bool {
        match (self.context.state[edit.at], &edit.content) {
            (Shown::Gone, content) => content.is_none(),
            (_, None) => false,
            (Shown::Raw, Some(content)) => *content == self.context.entries[edit.at].content().raw(),
            (Shown::Replaced, Some(content)) => self.promises.is_of(edit.at, content),
        }
    }

    /// The edits that show open folds as they were, and what they close.
    fn closing(&self, folds: &[&Fold]) -> (Vec<Edit>, Changes) {
        let edits = folds.iter().flat_map(|fold| self.edits_to_close(fold)).collect();
        (edits, Changes { closes: folds.iter().map(|fold| fold.id.to_string()).collect(), ..Changes::default() })
    }

    fn edits_to_close(&self, fold: &Fold) -> Vec<Edit> {
        let context = &self.context;
        let carrier = fold.carrier.position();
        let mut first = BTreeSet::from([carrier]);
        first.extend(fold.carrier.others());
        let mut edits: Vec<Edit> = first.iter().map(|&at| Edit::of(at, content_of(context, &self.lattice, fold, at))).collect();
        let hidden: BTreeSet<usize> = self.lattice.hidden(fold).into_iter().collect();
        let inner = self.lattice.within(fold);
        let shown = inner.iter().filter_map(|id| self.lattice.shown(id.as_str())).map(|fold| fold.carrier.position());
        let is_user = |at: &usize| context.entries[*at].kind() == &Kind::Message(Role::User);
        let back: BTreeSet<usize> = shown.filter(|at| is_user(at) && !hidden.contains(at) && *at != carrier).collect();
        edits.extend(back.into_iter().map(|at| Edit::own(context, at)));
        edits.sort_by_key(|edit| edit.at);
        let mut omitted: Vec<usize> = hidden.into_iter().filter(|at| !first.contains(at)).collect();
        omitted.sort_by_key(|&at| (context.unit_of[at], Reverse(at)));
        edits.extend(omitted.into_iter().map(Edit::omit));
        edits.retain(|edit| !self.stands(edit));
        edits
    }

    /// The session as it will be when this state stands on the branch.
    fn after(&self, draft: &Draft) -> Session {
        let free = |id: &String| !self.context.by_id.contains_key(id);
        let id = (0_u64..).map(|number| format!("next-{number}")).find(free).unwrap_or_default();
        let mut after = self.clone();
        if let Ok(entry) = Entry::parse(&format!("{{{},\"id\":\"{id}\"}}", draft.fields())) {
            after.observe(&entry);
        }
        after
    }

    /// A commit, after folds that are due were closed.
    pub(super) fn commit_after_closing(&self, before: u64, trigger: Trigger, limit: usize) -> Decision {
        let due = self.due_folds(trigger.is_urgent());
        if due.is_empty() {
            return self.commit(before, trigger, limit);
        }
        let (edits, changes) = self.closing(&due);
        let record = self.record_of(Trigger::Refold, &edits, &changes);
        let refolded = self.after(&record);
        let deferral = match refolded.commit(before, trigger, limit) {
            Decision::Commit(mut commit) => {
                commit.drafts.insert(0, record);
                return Decision::Commit(Commit { refolded: due.len(), ..commit });
            }
            deferral => deferral,
        };
        let (bytes, images) = Edit::freed(&edits, &self.context);
        let after = self.occupancy.after_freeing(bytes, images);
        if trigger == Trigger::Band && before.saturating_sub(after) < self.band.budget / 50 {
            return deferral;
        }
        let target = refolded.target(trigger.is_urgent());
        // A refused request is sent again, and once only: its record tells.
        let alone = if trigger == Trigger::Overflow { trigger } else { Trigger::Refold };
        self.without_folds(alone, (before, target), limit, edits, &changes)
    }
}
