//! What an agent or a person decided: pins, withdrawn marks, agreed cuts, supplied briefs.

use super::View;
use super::walk::{Unit, UnitKind};
use crate::commit::Record;
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::session::{DECISION, Decided};
use std::collections::{BTreeMap, BTreeSet};

/// The decisions in force at the end of a branch. Units are indices.
#[derive(Default)]
pub(crate) struct Decisions {
    pub(crate) pinned: BTreeSet<usize>,
    /// Ids of pinned folds.
    pub(crate) pinned_folds: BTreeSet<String>,
    pub(crate) withdrawn: BTreeSet<usize>,
    /// Agreed cuts; no two share a unit.
    pub(crate) cuts: Vec<Vec<usize>>,
    /// The newest brief that was supplied for exactly these units.
    pub(crate) briefs: BTreeMap<Vec<usize>, String>,
    /// Where the newest decision stands that counts, or the newest record that ended a withdrawal, opened, closed or dissolved a fold.
    pub(super) rewalked: Option<usize>,
}

/// Reads a decision of version 1.
fn read(entry: &Entry) -> Option<Decided> {
    let Kind::Custom { custom_type } = entry.kind() else { return None };
    let data: serde_json::Value = serde_json::from_str(entry.field("data").filter(|_| *custom_type == *DECISION)?).ok()?;
    (data["v"].as_u64() == Some(1)).then(|| serde_json::from_value(data).ok())?
}

impl Decisions {
    /// Reads a branch; `released` passes over every withdrawal that nothing has ended yet.
    pub(crate) fn of(branch: &[Entry], units: &[Unit], records: &BTreeMap<usize, Record>, released: bool) -> Self {
        let ends: BTreeSet<usize> =
            records.iter().filter(|(_, record)| matches!(record.trigger.as_str(), "band" | "person")).map(|(at, _)| *at).collect();
        let (mut decisions, mut folds) = (Decisions::default(), BTreeSet::new());
        for (at, entry) in branch.iter().enumerate() {
            if let Some(record) = records.get(&at) {
                folds.extend(record.folds.iter().map(|fold| fold.id.clone()));
                if ends.contains(&at) && !decisions.withdrawn.is_empty() {
                    decisions.withdrawn.clear();
                    decisions.rewalked = Some(at);
                }
                if [&record.opens, &record.closes, &record.dissolves].into_iter().any(|list| !list.is_empty()) {
                    decisions.rewalked = Some(at);
                }
            }
            let Some(decided) = read(entry) else { continue };
            let in_force = ends.last().is_none_or(|end| *end < at);
            if released && in_force && matches!(decided, Decided::Unmark { .. }) {
                continue;
            }
            let names = Names { branch, units, folds: &folds, at };
            if decisions.take(decided, &names).is_some() {
                decisions.rewalked = Some(at);
            }
        }
        decisions
    }

    /// Takes a decision in, if it counts.
    fn take(&mut self, decided: Decided, names: &Names<'_>) -> Option<()> {
        match decided {
            Decided::Pin { units, folds } => {
                let (units, folds) = (names.units(&units)?, names.folds(folds)?);
                self.pinned.extend(units);
                self.pinned_folds.extend(folds);
            }
            Decided::Unpin { units, folds } => {
                let (units, folds) = (names.units(&units)?, names.folds(folds)?);
                self.pinned.retain(|unit| !units.contains(unit));
                self.pinned_folds.retain(|fold| !folds.contains(fold));
            }
            Decided::Unmark { units } => self.withdrawn.extend(names.ripe(&units)?),
            Decided::Cut { units, brief } => {
                let units = names.ripe(&units)?;
                let ends = |unit: &usize| names.units[*unit].kind.foldable() || names.units[*unit].kind == UnitKind::Ender;
                let between: Vec<usize> = (*units.first()?..=*units.last()?).filter(ends).collect();
                if between != units {
                    return None;
                }
                self.cuts.retain(|cut| cut.iter().all(|unit| !units.contains(unit)));
                self.cuts.push(units.clone());
                // A placeholder says something.
                if let Some(words) = brief.filter(|words| !words.trim().is_empty()) {
                    self.briefs.insert(units, words);
                }
            }
        }
        Some(())
    }
}

/// What a decision at `at` may name.
struct Names<'a> {
    branch: &'a [Entry],
    units: &'a [Unit],
    folds: &'a BTreeSet<String>,
    at: usize,
}

impl Names<'_> {
    /// The units whose first entries have these ids; an entry that begins no unit stands for none. `None` where one is not on the branch.
    fn units(&self, ids: &[String]) -> Option<Vec<usize>> {
        let place = |id: &String| self.branch[..self.at].iter().position(|entry| entry.id() == id);
        let places: Vec<usize> = ids.iter().map(place).collect::<Option<_>>()?;
        Some(places.into_iter().filter_map(|place| self.units.iter().position(|unit| unit.entries[0] == place)).collect())
    }

    /// The same for ripe units of a kind that is folded; `None` where one is something else.
    fn ripe(&self, ids: &[String]) -> Option<Vec<usize>> {
        let ripe = |unit: &usize| self.units[*unit].kind.foldable() && self.units[*unit].ripe.is_some_and(|ripe| ripe < self.at);
        self.units(ids).filter(|units| units.len() == ids.len() && units.iter().all(ripe))
    }

    fn folds(&self, ids: Vec<String>) -> Option<Vec<String>> {
        ids.iter().all(|id| self.folds.contains(id)).then_some(ids)
    }
}

impl View<'_> {
    /// The brief that was supplied for a leaf of exactly these units.
    pub(super) fn supplied(&self, units: &[usize]) -> Option<String> {
        self.decisions.briefs.get(units).cloned()
    }

    /// Whether an entry is a user message that somebody pinned, or that an open fold claims.
    pub(super) fn pinned_user(&self, at: usize) -> bool {
        let kept = |unit: &usize| self.decisions.pinned.contains(unit) || self.opened.contains(unit);
        self.unit_of.get(&at).is_some_and(|unit| self.units[*unit].kind == UnitKind::User && kept(unit))
    }
}
