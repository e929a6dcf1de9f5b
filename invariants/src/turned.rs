//! Records that fold nothing: folds are opened, closed, or dissolved. Who may be, and what each has to promise, entry by entry.

use crate::Broken;
use crate::commit::{Commit, Folds, Known, Record, digest_of, line_of, placeholder, showing, superseded, text_of};
use crate::others::{Choices, batch_of, tale};
use crate::probes::Probes;
use crate::reference::foreign;
use crate::reference::history::Standing;
use fold_runtime::journal::{Entry, Kind, Role};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What an entry is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Own,
    Nothing,
    Placeholder(String),
    Line(String),
}

type Position<'p> = &'p dyn Fn(&str) -> Option<usize>;

impl Folds {
    /// Takes note of compactions on a branch that ends before a record.
    pub(crate) fn compacted(&mut self, before: &[Entry], position: Position<'_>, probes: &mut Probes) {
        for (at, entry) in before.iter().enumerate().skip(self.seen) {
            let Kind::Compaction { first_kept } = entry.kind() else { continue };
            let kept = first_kept.as_deref().and_then(position).filter(|kept| *kept < at).unwrap_or(at);
            self.kept_from = self.kept_from.max(kept);
            let out = |at: &usize| *at < self.kept_from;
            let ended = |(id, known): &(&String, &Known)| match known.standing {
                Standing::Shown => out(&known.carrier),
                Standing::Open(_) => out(&known.carrier) || self.hidden(id).unwrap_or_default().iter().any(out),
                Standing::Closed | Standing::Dissolved => false,
            };
            let is_open = |known: &Known| matches!(known.standing, Standing::Open(_));
            probes.when("open fold ended by a compaction", self.known.iter().filter(ended).any(|(_, known)| is_open(known)));
            let ended: Vec<String> = self.known.iter().filter(ended).map(|(id, _)| id.clone()).collect();
            ended.iter().for_each(|id| self.stands(id, Standing::Closed));
        }
        self.seen = self.seen.max(before.len());
    }

    fn stands(&mut self, id: &str, standing: Standing) {
        if let Some(known) = self.known.get_mut(id) {
            known.standing = standing;
        }
    }

    /// How a fold stands that would be shown here.
    pub(crate) fn shown_again(&self, carrier: usize) -> Standing {
        if carrier < self.kept_from { Standing::Closed } else { Standing::Shown }
    }

    /// A fold and all folds in it.
    fn within(&self, id: &str) -> BTreeSet<String> {
        let children = self.known.get(id).into_iter().flat_map(|known| &known.children);
        children.flat_map(|child| self.within(child)).chain([id.to_owned()]).collect()
    }

    /// What a record does to the folds it names, whatever it may do.
    pub(crate) fn turn(&mut self, record: &Record, at: usize) {
        for id in &record.opens {
            self.stands(id, Standing::Open(at));
            for child in self.known.get(id).map(|known| known.children.clone()).unwrap_or_default() {
                let standing = self.shown_again(self.known[&child].carrier);
                self.stands(&child, standing);
            }
        }
        for id in &record.closes {
            self.within(id).iter().for_each(|inner| self.stands(inner, Standing::Closed));
            self.stands(id, Standing::Shown);
        }
        for id in &record.dissolves {
            self.stands(id, Standing::Dissolved);
            self.owner.retain(|_, owner| owner != id);
        }
    }

    /// Keeps what a record promised to the carriers of shown folds, the first time: it is the same ever after.
    pub(crate) fn remember(&mut self, record: &Record, position: Position<'_>) {
        for promise in record.edits.iter().filter(|promise| promise.clip.is_none()) {
            let Some(at) = position(&promise.target) else { continue };
            let carried = self.known.values_mut().find(|known| known.standing == Standing::Shown && known.carrier == at);
            if let Some(known) = carried {
                known.said = known.said.take().or_else(|| promise.sha256.clone());
            }
        }
    }

    /// A commit leaves alone what an open fold claims; a placeholder in it that somebody else's edit put out of sight is shown again.
    pub(crate) fn keeps_open(&self, commit: Commit<'_>, record: &Record, position: Position<'_>, probes: &mut Probes) -> Result<(), Broken> {
        let before = &commit.branch[..commit.record];
        let open: Vec<&String> = self.known.iter().filter(|(_, known)| matches!(known.standing, Standing::Open(_))).map(|(id, _)| id).collect();
        if open.is_empty() || record.trigger == "recovery" {
            return Ok(());
        }
        probes.when("commit beside an open fold", record.trigger != "peek");
        probes.when("foreign edit in an open fold", open.iter().any(|id| self.is_foreign(id, before)));
        let claimed: BTreeSet<usize> = open.iter().flat_map(|id| self.claimed(id, before)).collect();
        for promise in &record.edits {
            let Some(at) = position(&promise.target).filter(|at| claimed.contains(at)) else { continue };
            let lost = tale(before, at).is_lost() && self.shown().any(|(_, known)| known.carrier == at);
            if !lost {
                return Err(Broken::new(
                    "held",
                    "what an open fold claims stays as it is until that is closed",
                    format!("{} is edited", promise.target),
                ));
            }
        }
        Ok(())
    }

    /// Every entry that an open fold keeps: all of its units, and user messages that it hides, or that carry it or a fold in it.
    fn claimed(&self, id: &str, branch: &[Entry]) -> BTreeSet<usize> {
        let hidden = self.hidden(id).unwrap_or_default();
        let batches = hidden.iter().filter_map(|at| batch_of(branch, *at)).flatten();
        let carriers = self.within(id).into_iter().map(|inner| self.known[&inner].carrier).filter(|at| is_user(&branch[*at]));
        hidden.iter().copied().chain(batches).chain(carriers).collect()
    }

    /// A record that opens one fold, dissolves one, or closes some, and promises exactly what that shows.
    pub(crate) fn turned(&mut self, commit: Commit<'_>, record: &Record, position: Position<'_>, probes: &mut Probes) -> Result<(), Broken> {
        let before = &commit.branch[..commit.record];
        let lists = (record.trigger.as_str(), record.opens.len(), record.closes.len(), record.dissolves.len());
        if !matches!(lists, ("expand", 1, 0, 0) | ("expand", 0, 0, 1) | ("refold" | "overflow", 0, 1.., 0)) || !record.folds.is_empty() {
            return Err(Broken::new(
                "nesting",
                "one fold that is opened or dissolved, or some that are closed, and none that is made",
                format!("{lists:?}"),
            ));
        }
        let choices = Choices::of(before, record);
        let mut wanted: Vec<(usize, Wanted)> = Vec::new();
        for id in record.opens.iter().chain(&record.dissolves) {
            self.may_open(id, before, !record.dissolves.is_empty())?;
            wanted.extend(self.opened(id, before));
        }
        let next = commit.branch.get(commit.record + 1).and_then(Record::of).map(|next| matches!(next.trigger.as_str(), "fence" | "overflow"));
        let urgent = if record.trigger == "overflow" { Some(true) } else { next };
        for id in &record.closes {
            self.may_close(id, before, &choices, urgent)?;
            wanted.extend(self.closed(id, before));
        }
        let nested = |id: &&String| record.closes.iter().any(|other| other != *id && self.within(other).contains(*id));
        if let Some(inner) = record.closes.iter().find(nested) {
            return Err(Broken::new("nesting", "none that is closed is inside another one of them", inner.clone()));
        }
        let said = said_last(before);
        let shows = |at: usize| said.get(before[at].id()).cloned().unwrap_or_else(|| Some(digest_of(before[at].content().raw())));
        wanted.retain(|(at, wanted)| self.digest(before, *at, wanted) != Some(shows(*at)));
        self.says(commit, record, &wanted, position)?;
        self.tell(commit, record, urgent, probes);
        Ok(())
    }

    /// What was taken, for the probes.
    fn tell(&self, commit: Commit<'_>, record: &Record, urgent: Option<bool>, probes: &mut Probes) {
        let known = |id: &String| &self.known[id];
        for id in &record.opens {
            probes.when("leaf expanded", known(id).children.is_empty());
            probes.when("parent expanded", !known(id).children.is_empty());
            probes.when("fold expanded inside an expanded fold", known(id).parent.is_some());
            probes.when("user message shown again", self.hidden(id).unwrap_or_default().iter().any(|at| is_user(&commit.branch[*at])));
        }
        let inner = |id: &String| self.within(id).iter().any(|inner| inner != id && matches!(known(inner).standing, Standing::Open(_)));
        for id in &record.closes {
            probes.when("refolded before a commit that can wait", urgent == Some(false));
            probes.when("refolded before a commit that cannot wait", urgent == Some(true));
            probes.when("refolded with an expanded fold in it", inner(id));
        }
        probes.when("fold dissolved", !record.dissolves.is_empty());
    }

    /// A fold is opened or dissolved while it is shown, whole in context, as it was, and nobody else's edit is in it.
    fn may_open(&self, id: &str, before: &[Entry], dissolves: bool) -> Result<(), Broken> {
        let wrong = |invariant, expected: &str| Err(Broken::new(invariant, format!("a fold that is opened or dissolved {expected}"), id.to_owned()));
        let Some(known) = self.known.get(id) else { return wrong("nesting", "is known") };
        if known.standing != Standing::Shown {
            return wrong("nesting", "is shown");
        }
        if dissolves && (!known.children.is_empty() || known.parent.is_some()) {
            return wrong("nesting", "and dissolved is a root without children");
        }
        let inside = self.within(id);
        let near = |other: &String| inside.contains(other) || self.within(other).contains(id);
        let elsewhere = |at: usize| {
            let other = |(other, known): (&String, &Known)| {
                !near(other) && known.carrier == at && matches!(known.standing, Standing::Shown | Standing::Open(_))
            };
            self.owner.get(&at).is_some_and(|owner| !near(owner)) || self.known.iter().any(other)
        };
        if known.children.iter().any(|child| elsewhere(self.known[child].carrier)) {
            return wrong("nesting", "has children whose carriers nobody has taken");
        }
        let carriers = inside.iter().map(|inner| self.known[inner].carrier);
        if self.hidden(id).unwrap_or_default().into_iter().chain(carriers).any(|at| at < self.kept_from) {
            return wrong("lossless", "is whole in context");
        }
        if self.is_foreign(id, before) {
            return wrong("conservation", "has no entry that somebody else edited");
        }
        Ok(())
    }

    /// A fold is closed while it is open, nobody else's edit is in it, and nothing in it is pinned; where a commit closes it that can wait,
    /// after eight answers.
    fn may_close(&self, id: &str, before: &[Entry], choices: &Choices, urgent: Option<bool>) -> Result<(), Broken> {
        let wrong = |invariant, expected: &str| Err(Broken::new(invariant, format!("a fold that is closed {expected}"), id.to_owned()));
        let Some(Known { standing: Standing::Open(_), .. }) = self.known.get(id) else { return wrong("nesting", "is open") };
        if self.is_foreign(id, before) {
            return wrong("conservation", "has no entry that somebody else edited");
        }
        let claimed = self.claimed(id, before);
        if choices.pins(&claimed, &self.within(id)) {
            return wrong("held", "has nothing pinned in it");
        }
        let since = |inner: &String| match self.known[inner].standing {
            Standing::Open(since) => Some(since),
            _ => None,
        };
        let since = self.within(id).iter().filter_map(since).max().unwrap_or(0);
        let answers = before[since..].iter().filter(|entry| entry.is_good_answer()).count();
        if urgent == Some(false) && answers < 8 {
            return wrong("held", &format!("was read by eight answers, not {answers}"));
        }
        Ok(())
    }

    fn is_foreign(&self, id: &str, before: &[Entry]) -> bool {
        let carriers = self.within(id).into_iter().map(|inner| self.known[&inner].carrier);
        let batches = carriers.flat_map(|at| batch_of(before, at).unwrap_or_else(|| vec![at]));
        let edited = foreign(before);
        self.hidden(id).unwrap_or_default().into_iter().chain(batches).any(|at| edited.contains(&at))
    }

    /// What one level of a fold shows, in branch order.
    fn opened(&self, id: &str, before: &[Entry]) -> Vec<(usize, Wanted)> {
        let known = &self.known[id];
        let mut wanted: BTreeMap<usize, Wanted> = known.parts.iter().map(|at| (*at, Wanted::Own)).collect();
        if known.children.is_empty() && is_user(&before[known.carrier]) {
            wanted.insert(known.carrier, Wanted::Own);
        }
        wanted.extend(known.children.iter().flat_map(|child| self.folded(child, before)));
        wanted.into_iter().collect()
    }

    /// The carrier of a fold, and the other results of its batch.
    fn folded(&self, id: &str, before: &[Entry]) -> Vec<(usize, Wanted)> {
        let carrier = self.known[id].carrier;
        let results = batch_of(before, carrier).unwrap_or_default().into_iter().skip(1).filter(|at| *at != carrier);
        let lines = results.map(|at| (at, Wanted::Line(id.to_owned())));
        std::iter::once((carrier, Wanted::Placeholder(id.to_owned()))).chain(lines).collect()
    }

    /// What a fold shows that is closed, in the order in which it is written.
    fn closed(&self, id: &str, before: &[Entry]) -> Vec<(usize, Wanted)> {
        let hidden: BTreeSet<usize> = self.hidden(id).unwrap_or_default().into_iter().collect();
        let mut wanted = self.folded(id, before);
        let placed: BTreeSet<usize> = wanted.iter().map(|(at, _)| *at).collect();
        let inside = self.within(id);
        let carriers: BTreeSet<usize> = self.shown().filter(|(inner, _)| inside.contains(*inner)).map(|(_, known)| known.carrier).collect();
        let free = |at: &usize| is_user(&before[*at]) && !hidden.contains(at) && !placed.contains(at);
        wanted.extend(carriers.into_iter().filter(free).map(|at| (at, Wanted::Own)));
        wanted.sort_by_key(|(at, _)| *at);
        let mut gone: Vec<usize> = hidden.difference(&placed).copied().collect();
        gone.sort_by_key(|at| (batch_of(before, *at).map_or(*at, |batch| batch[0]), Reverse(*at)));
        wanted.extend(gone.into_iter().map(|at| (at, Wanted::Nothing)));
        wanted
    }

    /// SHA-256 of what an entry is to show, if that can be told: nothing has none.
    fn digest(&self, before: &[Entry], at: usize, wanted: &Wanted) -> Option<Option<String>> {
        match wanted {
            Wanted::Own => Some(Some(digest_of(before[at].content().raw()))),
            Wanted::Nothing => Some(None),
            Wanted::Line(id) => Some(Some(digest_of(&format!(r#"[{{"type":"text","text":{}}}]"#, serde_json::Value::from(line_of(id)))))),
            Wanted::Placeholder(id) => self.known[id].said.clone().map(Some),
        }
    }

    /// The promises are exactly these, in this order.
    fn says(&mut self, commit: Commit<'_>, record: &Record, wanted: &[(usize, Wanted)], position: Position<'_>) -> Result<(), Broken> {
        let before = &commit.branch[..commit.record];
        let wrong = |expected: String, seen: String| Err(Broken::new("conservation", expected, seen));
        if record.edits.len() != wanted.len() {
            return wrong(format!("{} entries that show something else", wanted.len()), format!("{}", record.edits.len()));
        }
        let superseded = superseded(record, commit);
        for (promise, (at, wanted)) in record.edits.iter().zip(wanted) {
            if position(&promise.target) != Some(*at) {
                return wrong(format!("{wanted:?} in {}", before[*at].id()), format!("{} in its place", promise.target));
            }
            match (self.digest(before, *at, wanted), wanted) {
                (Some(digest), _) if digest == promise.sha256 => {}
                (None, Wanted::Placeholder(id)) => {
                    if superseded.contains(&promise.target) {
                        continue;
                    }
                    let content = commit.edits.iter().find(|(target, _)| *target == promise.target).and_then(|(_, content)| content.as_deref());
                    let text = text_of(content.unwrap_or("[]"));
                    let known = &self.known[id];
                    placeholder(&text, id, known, &before[*at], self.source_bytes(known, before))?;
                    if is_user(&before[*at]) {
                        crate::commit::kept_words(&before[*at], showing(content.unwrap_or("[]")).content().raw())?;
                    }
                    let bytes = text.len() as u64;
                    if let Some(known) = self.known.get_mut(id) {
                        known.placeholder = Some(bytes);
                    }
                }
                (digest, _) => return wrong(format!("{wanted:?} in {}, {digest:?}", promise.target), format!("{:?}", promise.sha256)),
            }
        }
        Ok(())
    }
}

/// What every entry shows that was ever edited or promised anything: SHA-256 of its content, or nothing where it is omitted.
fn said_last(branch: &[Entry]) -> BTreeMap<String, Option<String>> {
    let mut said = BTreeMap::new();
    for entry in branch {
        if let Some(record) = Record::of(entry) {
            said.extend(record.edits.into_iter().map(|edit| (edit.target, edit.sha256)));
        } else if let Kind::ContextEdit { target, .. } = entry.kind() {
            said.insert(target.to_string(), entry.replacement().map(|content| digest_of(content.raw())));
        }
    }
    said
}

fn is_user(entry: &Entry) -> bool {
    entry.kind() == &Kind::Message(Role::User)
}
