//! What others had their say in, told from the branch alone: foreign edits, peeks, pins, withdrawn marks, agreed cuts, supplied briefs.

use crate::Broken;
use crate::commit::{Commit, Folds, Record, Written, digest_of, is_first_show, showing};
use crate::probes::Probes;
use crate::reference::decisions::Decisions;
use crate::reference::walk::{Unit, UnitKind, units};
use fold_runtime::agent::parse_peek_line;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::session::DECISION;
use std::collections::BTreeSet;

/// What became of an entry on a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tale {
    /// Whether nothing of it is shown.
    pub(crate) omitted: bool,
    /// The first and the last edit that keeps no promise.
    pub(crate) foreign: Option<(usize, usize)>,
    /// The newest recovery that names it.
    pub(crate) recovered: Option<usize>,
    /// Whether what it shows is a record's doing.
    ours: bool,
    /// Whether a record gave it a content of ours after a foreign edit.
    again: bool,
    /// Whether anything ever edited it or promised to.
    touched: bool,
    /// Whether a record has it show its own content again.
    own: bool,
}

impl Tale {
    /// Whether it shows its own content, and nobody else ever had a say in that.
    pub(crate) fn is_raw(&self) -> bool {
        self.foreign.is_none() && (self.own || !self.touched)
    }

    /// Whether it shows what somebody else says, and no record gave it another content since the first time.
    pub(crate) fn is_lost(&self) -> bool {
        self.foreign.is_some() && !self.omitted && !self.ours && !self.again
    }
}

/// Tells it. An omission by the host counts as somebody else's, which allows more than the law and never less.
pub(crate) fn tale(branch: &[Entry], at: usize) -> Tale {
    let (mut tale, mut promised) = (Tale::default(), None);
    for (place, entry) in branch.iter().enumerate().skip(at) {
        if let Some(record) = Record::of(entry) {
            let Some(edit) = record.edits.into_iter().find(|edit| edit.target == branch[at].id()) else { continue };
            tale.again |= tale.foreign.is_some() && edit.sha256.is_some() && edit.clip.is_none();
            (tale.omitted, tale.ours, tale.touched) = (edit.sha256.is_none(), true, true);
            tale.own = edit.clip.is_none() && edit.sha256 == Some(digest_of(branch[at].content().raw()));
            tale.recovered = if record.trigger == "recovery" { Some(place) } else { tale.recovered };
            promised = Some(edit.sha256);
        } else if let Kind::ContextEdit { target, omits } = entry.kind()
            && **target == *branch[at].id()
        {
            if promised.as_ref() == Some(&entry.replacement().map(|content| digest_of(content.raw()))) {
                continue;
            }
            tale.foreign.get_or_insert((place, place)).1 = place;
            (tale.omitted, tale.ours, tale.touched, tale.own) = (*omits, false, true, false);
            promised = None;
        }
    }
    tale
}

/// The message that called and its results, if the entry is one of them.
pub(crate) fn batch_of(branch: &[Entry], at: usize) -> Option<Vec<usize>> {
    let is_result = |at: &usize| matches!(branch[*at].kind(), Kind::Message(Role::ToolResult { .. }));
    let speaks = |at: &usize| matches!(branch[*at].kind(), Kind::Message(Role::Assistant(_)));
    let call = (0..=at).rev().find(speaks).filter(|call| *call == at || is_result(&at))?;
    let ends = |at: &usize| {
        matches!(branch[*at].kind(), Kind::CustomMessage | Kind::Compaction { .. })
            || matches!(branch[*at].kind(), Kind::Message(Role::Assistant(_) | Role::User | Role::Custom | Role::System))
    };
    let results = (call + 1..branch.len()).take_while(|at| !ends(at)).filter(is_result);
    let batch: Vec<usize> = std::iter::once(call).chain(results).collect();
    batch.contains(&at).then_some(batch)
}

/// Whether a content is exactly the line that an ephemeral peek ends with.
pub(crate) fn is_retired(peek: &Entry, content: &str) -> bool {
    let Kind::Message(Role::ToolResult { tool, is_error: false, .. }) = peek.kind() else { return false };
    let text = |entry: &Entry| {
        let blocks = entry.content().blocks();
        blocks.iter().filter_map(|block| block.text()).map(|text| text.to_string_lossy()).collect::<Vec<String>>().join("\n")
    };
    let line = text(&showing(content));
    let is_line = parse_peek_line(&line).is_some_and(|(peek, _)| peek.ephemeral);
    let whole = text(peek);
    *tool == *"pi_fold_context"
        && is_line
        && (whole == line || whole.ends_with(&format!("\n{line}")))
        && showing(content).content().blocks().len() == 1
}

/// What was decided before a record, in force for it.
pub(crate) struct Choices {
    units: Vec<Unit>,
    decisions: Decisions,
    /// Withdrawn units, honoured by this record or not.
    withdrawn: BTreeSet<usize>,
    /// First entries of the units, to be told by ids.
    ids: Vec<String>,
}

impl Choices {
    /// Reads a branch that ends before the record.
    pub(crate) fn of(before: &[Entry], record: &Record) -> Self {
        let decided = |entry: &Entry| matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *DECISION);
        if !before.iter().any(decided) {
            return Choices { units: Vec::new(), decisions: Decisions::default(), withdrawn: BTreeSet::new(), ids: Vec::new() };
        }
        let units = units(before);
        let records = crate::reference::history::History::of(before, &units).records;
        let mut decisions = Decisions::of(before, &units, &records, false);
        let withdrawn = decisions.withdrawn.clone();
        if matches!(record.trigger.as_str(), "fence" | "overflow") {
            decisions.withdrawn.clear();
        }
        let ids = before.iter().map(|entry| entry.id().to_owned()).collect();
        Choices { units, decisions, withdrawn, ids }
    }

    fn entries(&self, units: &BTreeSet<usize>) -> BTreeSet<usize> {
        units.iter().filter(|unit| self.units[**unit].ripe.is_some()).flat_map(|unit| self.units[*unit].entries.iter().copied()).collect()
    }

    /// Whether one of these entries is of a pinned unit, or one of these folds is pinned.
    pub(crate) fn pins(&self, entries: &BTreeSet<usize>, folds: &BTreeSet<String>) -> bool {
        let units = self.decisions.pinned.iter().flat_map(|unit| &self.units[*unit].entries);
        units.into_iter().any(|at| entries.contains(at)) || folds.iter().any(|fold| self.decisions.pinned_folds.contains(fold))
    }

    /// What was raw when it was pinned or withdrawn stays raw; a pinned user message is not even cut before it was read.
    pub(crate) fn held(
        &self,
        folds: &Folds,
        commit: Commit<'_>,
        record: &Record,
        position: &dyn Fn(&str) -> Option<usize>,
        probes: &mut Probes,
    ) -> Result<(), Broken> {
        let users = self.decisions.pinned.iter().filter(|unit| self.units[**unit].kind == UnitKind::User);
        let users: BTreeSet<usize> = users.map(|unit| self.units[*unit].entries[0]).collect();
        let held = self.entries(&self.decisions.pinned.union(&self.decisions.withdrawn).copied().collect());
        let (withdrawn, read) = (self.entries(&self.withdrawn), crate::commit::last_read(commit));
        for promise in &record.edits {
            let Some(at) = position(&promise.target) else { continue };
            let folded = folds.touches(at) || batch_of(commit.branch, at).is_some_and(|batch| batch.iter().any(|at| folds.touches(*at)));
            let wrong = |rule: &str| Err(Broken::new("held", rule, format!("{} is edited", promise.target)));
            // What nothing has answered yet may be cut before it is read for the first time, pinned or not.
            if users.contains(&at) && (!folded || promise.clip.is_some()) && !is_first_show(record, promise, at, read) {
                return wrong("a pinned user message stays as it is");
            }
            if held.contains(&at) && !folded && !is_first_show(record, promise, at, read) {
                return wrong("what is pinned or withdrawn stays raw");
            }
            let urgent = matches!(record.trigger.as_str(), "fence" | "overflow");
            probes.when("urgent commit ignores a withdrawn mark", urgent && withdrawn.contains(&at));
        }
        probes.when("commit beside a pin", !self.decisions.pinned.is_empty());
        probes.when("commit beside a withdrawn mark", !self.decisions.withdrawn.is_empty());
        Ok(())
    }

    /// A leaf says what was supplied for exactly its units, and nothing else that it calls supplied.
    pub(crate) fn supplied(&self, fold: &Written, probes: &mut Probes) -> Result<(), Broken> {
        let parts: BTreeSet<&str> = fold.parts.iter().map(|(id, _)| id.as_str()).collect();
        let mine = |unit: &Unit| unit.kind != UnitKind::User && unit.entries.iter().any(|at| parts.contains(&*self.ids[*at]));
        let claimed: Vec<usize> = (0..self.units.len()).filter(|unit| mine(&self.units[*unit])).collect();
        let is_leaf = fold.children.is_empty();
        let supplied = self.decisions.briefs.get(&claimed).filter(|_| is_leaf);
        if supplied != fold.brief.as_ref() {
            return Err(Broken::new("lossless", format!("{} says what was supplied: {supplied:?}", fold.id), format!("{:?}", fold.brief)));
        }
        probes.when("agreed cut folded", is_leaf && self.decisions.cuts.contains(&claimed));
        probes.when("supplied brief shown", supplied.is_some());
        Ok(())
    }
}
