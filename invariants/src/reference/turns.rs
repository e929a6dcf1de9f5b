//! Folds that are opened, closed again, dissolved: who may be, what their records promise, and which of them a commit closes first.

use super::history::Standing;
use super::lattice::Fold;
use super::{Edits, Shown, View, edit_json, json};
use fold_runtime::config::Settings;
use fold_runtime::fold::BRIEF_VERSION;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::session::COMMIT_RECORD;
use fold_runtime::window::{Band, IMAGE_TOKENS, Size};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What may be asked for, with the id of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// To show one level of it.
    Expand(&'a str),
    /// To show it as it was before.
    Refold(&'a str),
    /// To give back the units of a leaf, to be cut otherwise.
    Dissolve(&'a str),
}

/// The record that answers it, as JSON text.
///
/// # Errors
/// Why it is refused, in a word or two.
///
/// # Panics
/// When the budget is too small for any decision; see [`Band::new`].
pub fn asked(branch: &[Entry], settings: &Settings, window: u64, asked: Asked<'_>) -> Result<String, &'static str> {
    let band = Band::new(settings, window).expect("a budget worth managing");
    let view = View::of(branch, settings, band).standing();
    let (Asked::Expand(id) | Asked::Refold(id) | Asked::Dissolve(id)) = asked;
    let fold = view.history.newest(id).ok_or("unknown")?;
    match asked {
        Asked::Expand(_) => view.expands(fold, "opens", true),
        Asked::Refold(_) if !view.history.is_open(fold) => Err("not open"),
        Asked::Refold(_) if view.pinned_within(fold) => Err("pinned"),
        Asked::Refold(_) if view.is_damaged(fold) => Err("changed"),
        Asked::Refold(_) if !view.may_close(fold) => Err("foreign"),
        Asked::Refold(_) => Ok(view.refolds(&[fold])),
        Asked::Dissolve(_) if !view.history.folds[fold].children.is_empty() => Err("with children"),
        Asked::Dissolve(_) if view.history.folds[fold].parent.is_some() => Err("no root"),
        Asked::Dissolve(_) => view.expands(fold, "dissolves", false),
    }
}

impl View<'_> {
    /// The units that a fold claims while it is open, those of user messages too.
    pub(super) fn claim(&self, fold: usize) -> BTreeSet<usize> {
        let is_user = |at: &usize| self.branch[*at].kind() == &Kind::Message(Role::User);
        let carriers = self.history.carriers(fold).into_iter().filter(is_user);
        self.history.hides(fold).into_iter().chain(carriers).map(|at| self.unit_of[&at]).collect()
    }

    /// Whether somebody else edited anything that a fold hides at any depth, or the batch or message of a carrier.
    fn foreign_within(&self, fold: usize) -> bool {
        let carriers = self.history.carriers(fold).into_iter().flat_map(|at| self.units[self.unit_of[&at]].entries.clone());
        self.history.hides(fold).into_iter().chain(carriers).any(|at| self.foreign(at))
    }

    /// Whether a unit of its claim is pinned, or it is itself, or a fold in it.
    fn pinned_within(&self, fold: usize) -> bool {
        let pinned = |fold: &usize| self.decisions.pinned_folds.contains(&self.history.folds[*fold].id);
        self.history.within(fold).iter().any(pinned) || self.claim(fold).iter().any(|unit| self.decisions.pinned.contains(unit))
    }

    fn may_close(&self, fold: usize) -> bool {
        self.history.is_open(fold) && !self.foreign_within(fold) && !self.is_damaged(fold) && !self.pinned_within(fold)
    }

    /// Whether eight good answers have followed the newest record that opened it or a fold in it.
    fn is_read(&self, fold: usize) -> bool {
        let since = |fold: usize| match self.history.folds[fold].standing {
            Standing::Open(since) => Some(since),
            _ => None,
        };
        let newest = self.history.within(fold).into_iter().filter_map(since).max().unwrap_or(0);
        self.branch[newest..].iter().filter(|entry| entry.is_good_answer()).count() >= 8
    }

    /// The open folds that a commit closes first, in branch order, outer ones before those in them, none of which is in another one.
    pub(super) fn closing(&self, is_urgent: bool) -> Vec<usize> {
        let mut open: Vec<usize> = self.history.open_folds().filter(|fold| self.may_close(*fold) && (is_urgent || self.is_read(*fold))).collect();
        open.sort_by_key(|fold| (self.standing.folds[*fold].units[0], Reverse(self.standing.folds[*fold].depth)));
        let mut closing: Vec<usize> = Vec::new();
        for fold in open {
            if closing.iter().all(|outer| !self.history.within(*outer).contains(&fold)) {
                closing.push(fold);
            }
        }
        closing
    }

    /// The record that closes these folds.
    pub(super) fn refolds(&self, folds: &[usize]) -> String {
        self.closes("refold", folds)
    }

    /// The same, but for this reason.
    pub(super) fn closes(&self, trigger: &str, folds: &[usize]) -> String {
        self.turned(trigger, "closes", folds, &folds.iter().flat_map(|fold| self.closed(*fold)).collect())
    }

    /// A record that makes no fold: it opens, closes or dissolves these.
    fn turned(&self, trigger: &str, list: &str, folds: &[usize], edits: &Edits) -> String {
        let ids: Vec<String> = folds.iter().map(|fold| json(&self.history.folds[*fold].id)).collect();
        let edits: Vec<String> = edits.iter().map(|(at, shown)| edit_json(self.branch[*at].id(), shown)).collect();
        format!(
            r#"{{"v":1,"trigger":"{trigger}","brief_version":{BRIEF_VERSION},"bound":{},"folds":[],"edits":[{}],"{list}":[{}]}}"#,
            self.bound(),
            edits.join(","),
            ids.join(",")
        )
    }

    /// The branch with a record at its end.
    pub(super) fn followed_by(&self, record: &str) -> Vec<Entry> {
        let is_free = |id: &String| self.branch.iter().all(|entry| entry.id() != id);
        let id = (0..).map(|number| format!("r{number}")).find(is_free).expect("there are more ids than entries");
        let entry = format!(r#"{{"type":"custom","id":"{id}","customType":"{COMMIT_RECORD}","data":{record}}}"#);
        self.branch.iter().cloned().chain([Entry::parse(&entry).expect("a record")]).collect()
    }

    /// Only what shows something else than before is named.
    fn changed(&self, edits: impl IntoIterator<Item = (usize, Shown)>) -> Edits {
        let changes = |(at, shown): &(usize, Shown)| self.shown.get(at).is_some_and(|before| before.content != shown.content);
        edits.into_iter().filter(changes).collect()
    }

    /// What one level of a fold shows, in branch order.
    fn opened_up(&self, fold: usize) -> Edits {
        let fold = &self.standing.folds[fold];
        let original = |at: usize| (at, Shown::original(&self.branch[at]));
        let mut shown: BTreeMap<usize, Shown> = fold.parts.iter().map(|at| original(*at)).collect();
        if fold.children.is_empty() && self.branch[fold.carrier].kind() == &Kind::Message(Role::User) {
            shown.extend([original(fold.carrier)]);
        }
        for child in fold.children.iter().map(|child| &self.standing.folds[*child]) {
            shown.extend(self.as_shown(child));
        }
        self.changed(shown)
    }

    /// The carrier of a fold with its placeholder, and the other results of that batch.
    fn as_shown(&self, fold: &Fold) -> Vec<(usize, Shown)> {
        let lines = self.beside(fold).into_iter().map(|at| (at, Shown::written(self.line(fold))));
        std::iter::once((fold.carrier, Shown::written(self.carried(fold)))).chain(lines).collect()
    }

    /// What a fold shows that is closed again, then what it hides.
    fn closed(&self, fold: usize) -> Edits {
        let (hides, inside) = (self.history.hides(fold), self.history.within(fold));
        let fold = &self.standing.folds[fold];
        let mut edits = self.as_shown(fold);
        let placed: BTreeSet<usize> = edits.iter().map(|(at, _)| *at).collect();
        let carries = |at: &usize| {
            let shown = |fold: &usize| self.history.folds[*fold].standing == Standing::Shown && self.history.folds[*fold].carrier == *at;
            self.branch[*at].kind() == &Kind::Message(Role::User) && inside.iter().any(shown)
        };
        let users: BTreeSet<usize> = inside.iter().map(|fold| self.history.folds[*fold].carrier).filter(carries).collect();
        edits.extend(users.difference(&hides).filter(|at| !placed.contains(at)).map(|at| (*at, Shown::original(&self.branch[*at]))));
        edits.sort_by_key(|(at, _)| *at);
        let mut gone: Vec<usize> = hides.difference(&placed).copied().collect();
        gone.sort_by_key(|at| (self.unit_of[at], Reverse(*at)));
        edits.extend(gone.into_iter().map(|at| (at, Shown::NOTHING)));
        self.changed(edits)
    }

    /// The record that opens or dissolves a fold; else why that is refused.
    fn expands(&self, fold: usize, list: &str, is_capped: bool) -> Result<String, &'static str> {
        if self.history.folds[fold].standing != Standing::Shown {
            return Err("not shown");
        }
        let (hides, carriers) = (self.history.hides(fold), self.history.carriers(fold));
        if hides.union(&carriers).any(|at| !self.shown.contains_key(at)) {
            return Err("left out in part");
        }
        if self.is_damaged(fold) {
            return Err("changed");
        }
        if self.foreign_within(fold) {
            return Err("foreign");
        }
        if self.decisions.pinned_folds.contains(&self.history.folds[fold].id) {
            return Err("pinned");
        }
        if !self.history.may_open(fold) {
            return Err("taken");
        }
        let record = self.turned("expand", list, &[fold], &self.opened_up(fold));
        let branch = self.followed_by(&record);
        let after = View::of(&branch, self.settings, self.band).standing();
        if after.meter.tokens() >= self.band.max_target {
            return Err("too large");
        }
        if is_capped && after.pinned_tokens() > self.band.budget / 4 {
            return Err("over the cap");
        }
        Ok(record)
    }

    /// Whether an original that a fold hides is not what it was.
    fn is_damaged(&self, fold: usize) -> bool {
        let written: Vec<&crate::commit::Written> = self.history.records.values().flat_map(|record| &record.folds).collect();
        let damaged = |(at, (_, digest)): (&usize, &(String, String))| self.branch[*at].digest().to_string() != *digest;
        self.history.within(fold).into_iter().any(|fold| self.history.folds[fold].parts.iter().zip(&written[fold].parts).any(damaged))
    }

    /// What is kept by choice, in tokens: pinned units, what open folds claim, placeholders of pinned roots.
    fn pinned_tokens(&self) -> u64 {
        let units: Vec<usize> = self.decisions.pinned.union(&self.opened).copied().collect();
        let kept: Size = self.entries(&units).iter().filter_map(|at| Some(self.shown.get(at)?.size)).sum();
        let roots = self.standing.roots.iter().map(|root| &self.standing.folds[*root]);
        let placeholders: u64 = roots.filter(|fold| self.decisions.pinned_folds.contains(fold.id.as_str())).map(|fold| fold.text.len() as u64).sum();
        self.meter.rate_min().tokens_at_most(kept.bytes + placeholders) + kept.images * IMAGE_TOKENS
    }
}
