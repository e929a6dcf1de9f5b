//! Writing what the runtime decided, draft by draft: whole, cut off by a crash, or dropped by another extension; and what is checked of
//! what then stands in the journal and in the window.

use super::wires::{NOT_OWED, readers};
use super::{Outcome, World, promised};
use crate::report::Rewrite;
use crate::sabotage::Saboteur;
use fold_invariants::Broken;
use fold_invariants::commit::{Commit as Written, recovery};
use fold_invariants::window::{Cause, Change};
use fold_models::wire::{Rule, validate};
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::session::{COMMIT_RECORD, Commit, Draft, Recovery, Trigger};
use sha2::Digest as _;
use std::collections::{BTreeMap, BTreeSet};

/// What a record promises, target by target; `None` omits.
type Edits = Vec<(String, Option<String>)>;

impl World<'_> {
    /// Appends drafts one by one, unless somebody drops them or the process dies; tells how many were written. Records by themselves are
    /// appended at once, which is no boundary that anybody could drop.
    pub(super) fn write(&mut self, drafts: &[Draft]) -> Outcome<usize> {
        let boundary = !drafts.iter().all(|draft| matches!(draft, Draft::Custom { .. }));
        if boundary && self.drops > 0 {
            if self.dropped && matches!(drafts[0], Draft::Custom { .. }) {
                return Err(Broken::new("progress", "the record alone after a boundary that was dropped", "another boundary, which was dropped too"));
            }
            self.drops -= 1;
            self.dropped = true;
            self.faults.insert("host: boundary dropped");
            self.probes.hit("boundary dropped");
            self.note = format!("{}dropped; ", self.note);
            return Ok(0);
        }
        self.dropped &= !boundary;
        let crash = self.crash.take_if(|after| (*after as usize) < drafts.len());
        let written = crash.map_or(drafts.len(), |after| after as usize);
        // Without the extension, the branch alone has to be sound after every draft.
        self.host.lay_over([]).map_err(|why| Broken::new("attributed", "an empty overlay", why))?;
        let every_draft = self.deep && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(4) && validate(self.host.window()).is_ok();
        // Drafts change nothing of the window as it would be without them.
        let (mut reader, mut without) = (readers(), None);
        if every_draft {
            // What stands before the drafts is told of with the request.
            reader.judge(self.host.window(), &self.terms());
        }
        for (index, draft) in drafts[..written].iter().enumerate() {
            self.trace.update(match draft {
                Draft::Custom { data, .. } => data.as_bytes(),
                Draft::CustomMessage { content, .. } => content.as_bytes(),
                Draft::ContextEdit { target, .. } => target.as_bytes(),
            });
            self.host.boundary(std::slice::from_ref(draft)).map_err(|why| Broken::new("attributed", "drafts that the host takes", why))?;
            if every_draft && index > 0 {
                self.probes.hit("prefix of drafts validated");
                let errors = reader.judge(self.host.window(), &self.terms());
                let later = |rule| matches!(rule, Rule::AssistantLast | Rule::NoMessages | Rule::PlaceholderLast) || NOT_OWED.contains(&rule);
                let broken = errors.into_iter().find(|error| !later(error.rule) && !self.excuses(error, &mut without));
                if let Some(error) = broken {
                    let seen = format!("after draft {index}, {:?}: {error}", error.wire);
                    return Err(Broken::new("pairing", "calls and results paired after every draft", seen));
                }
            }
        }
        if crash.is_some() {
            self.faults.insert("host: crash inside a commit");
            self.probes.hit("crash inside a commit");
            self.note = format!("{}died after {written} of {} drafts; ", self.note, drafts.len());
            self.died = true;
        }
        Ok(written)
    }

    /// After writing: the live session reads what was written, or a new one opens the journal.
    fn read_back(&mut self) -> Outcome {
        if std::mem::take(&mut self.died) {
            self.process_ends();
            let folds = self.folds.clone();
            let recovered = self.recovered.clone();
            self.open()?;
            // What was known before the crash has been checked; what came with it is yet to be.
            (self.folds, self.recovered) = (folds, recovered);
            return Ok(());
        }
        self.catch_up()
    }

    /// Edits that an earlier commit promised: they change nothing that is shown.
    pub(super) fn go_on(&mut self, decided: &Recovery) -> Outcome {
        let from = self.host.branch().len();
        let shown: Vec<u64> = self.host.window().iter().map(|shown| shown.digest).collect();
        self.write(&decided.drafts)?;
        self.read_back()?;
        recovery(&self.host.branch()[..from], &self.host.branch()[from..], &mut self.probes)?;
        if shown.iter().copied().ne(self.host.window().iter().map(|shown| shown.digest)) {
            return Err(Broken::new("attributed", "edits that were promised change nothing that is shown", "another window"));
        }
        self.note = format!("{}wrote {} promised edits, {} left; ", self.note, decided.drafts.len(), decided.left);
        Ok(())
    }

    /// A message before the band is reached; it is a message like any other.
    pub(super) fn tells(&mut self, draft: &Draft) -> Outcome {
        if !self.settings.pre_commit_notice {
            return Err(Broken::new("no_carrier", "no notice where it is off", format!("{draft:?}")));
        }
        self.probes.when("notice given again", self.probes.count("notice given") > 0);
        self.probes.hit("notice given");
        let before = self.host.message_tokens();
        self.write(std::slice::from_ref(draft))?;
        self.appended += self.host.message_tokens().saturating_sub(before);
        self.note = format!("{}told that the band is near; ", self.note);
        self.read_back()
    }

    /// Whether all of it came to stand on the branch, or is promised there.
    pub(super) fn carry_out(&mut self, commit: &Commit) -> Outcome<bool> {
        let from = self.host.branch().len();
        let before = self.tokens_now();
        // After a boundary that was dropped the record goes alone.
        let alone = self.dropped && !self.saboteur.as_ref().is_some_and(Saboteur::insists);
        self.probes.when("record alone after a dropped boundary", alone && commit.drafts.len() > 1);
        let drafts = if alone { commit.records() } else { &commit.drafts[..] };
        if self.write(drafts)? == 0 {
            // Not even the journal knows.
            return self.read_back().map(|()| false);
        }
        // Clips shift the share within which results are clipped, so another commit may find a little more; it ends soon. Peeks make way batch by batch,
        // each of them one that was there.
        let count = self.committed.entry((commit.trigger, self.appended)).or_insert(0);
        *count += 1;
        let most = match commit.trigger {
            Trigger::Band => 1,
            Trigger::Peek => 32,
            _ => 3,
        };
        if *count > most {
            return Err(Broken::new(
                "progress",
                "something new before another commit of the same kind",
                format!("{count} by {}", commit.trigger.name()),
            ));
        }
        self.read_back()?;
        if commit.trigger == Trigger::Person {
            let suspended = std::mem::take(&mut self.suspended);
            self.probes.when("suspension ended by a person", suspended);
            if let (Some(saboteur), Some(session)) = (&self.saboteur, &mut self.session)
                && suspended
                && saboteur.suspends_for_ever()
            {
                session.suspend("for ever");
            }
        }
        // Folds that were due are closed by a record of their own, which a crash may have parted from that of the commit.
        let records = self.records(from);
        let asked = usize::from(commit.refolded > 0 && commit.trigger != Trigger::Refold) + 1;
        let whole = records.len() == asked;
        if whole {
            self.true_band(commit)?;
        }
        let edits = self.promised_edits(&records, &commit.drafts)?;
        for (&record, edits) in records.iter().zip(&edits) {
            let committed = (whole && Some(&record) == records.last()).then_some(commit);
            self.changed_by_us(record, commit.trigger, committed, edits, before);
            self.written(record, edits)?;
        }
        self.probes.when("refolded by a record alone", commit.trigger == Trigger::Refold);
        self.lossless(if whole { commit.folds } else { 0 })?;
        if self.deep && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(5) {
            self.reopened("resume")?;
        }
        self.save()?;
        Ok(whole)
    }

    /// What a record of ours says, checked against the branch that it stands on.
    pub(super) fn written(&mut self, record: usize, edits: &[(String, Option<String>)]) -> Outcome {
        let position = |id: &str| self.host.position(id);
        let written = Written { branch: self.host.branch(), record, edits, settings: &self.settings };
        self.folds.commit(written, &position, &mut self.probes)
    }

    /// Positions of the records from here on.
    pub(super) fn records(&self, from: usize) -> Vec<usize> {
        let is_record = |entry: &Entry| matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD);
        (from..self.host.branch().len()).filter(|&at| is_record(&self.host.branch()[at])).collect()
    }

    /// Every edit that each of these records promises, with its content: as it was written, or as the overlay shows it. What a later one of them
    /// promises anew was never either.
    pub(super) fn promised_edits(&self, records: &[usize], drafts: &[Draft]) -> Outcome<Vec<Edits>> {
        let mut contents: BTreeMap<String, Option<String>> = BTreeMap::new();
        for draft in drafts {
            if let Draft::ContextEdit { target, replacement } = draft {
                contents.insert(target.clone(), replacement.clone());
            }
        }
        if let Some(session) = &self.session {
            contents.extend(session.overlay().into_iter().map(|(target, content)| (target.to_owned(), content.map(str::to_owned))));
        }
        let mut anew: BTreeSet<String> = BTreeSet::new();
        let mut all = Vec::new();
        for &record in records.iter().rev() {
            let targets = promised(&self.host.branch()[record]);
            let known = targets.iter().filter(|target| !anew.contains(*target)).map(|target| match contents.remove(target) {
                Some(content) => Ok((target.clone(), content)),
                None => Err(Broken::new("durable", "every promised edit is written or shown over the branch", format!("{target} is neither"))),
            });
            all.push(known.collect::<Outcome<Vec<_>>>()?);
            anew.extend(targets);
        }
        all.reverse();
        Ok(all)
    }

    /// A record stands on the branch: what it names may be shown otherwise from here on. `commit` is what it carries out whole.
    pub(super) fn changed_by_us(
        &mut self,
        record: usize,
        trigger: Trigger,
        commit: Option<&Commit>,
        edits: &[(String, Option<String>)],
        before: u64,
    ) {
        let cause = match (commit.map(|commit| commit.trigger), trigger) {
            (Some(Trigger::Peek), _) => Cause::PeekRetired,
            (Some(Trigger::Recovery), _) => Cause::Recovery,
            (Some(Trigger::Band | Trigger::Fence | Trigger::Overflow | Trigger::Person), _) => Cause::Commit,
            (_, Trigger::Expand) => Cause::Expand,
            _ => Cause::Refold,
        };
        let named = promised(&self.host.branch()[record]);
        let targets: BTreeSet<usize> = named.iter().filter_map(|target| self.host.position(target)).collect();
        self.changes.push(Change { cause, targets: Some(targets) });
        self.reported = None;
        self.excused.clear();
        let Some(commit) = commit.filter(|_| cause == Cause::Commit) else {
            self.note = format!("{}{}; ", self.note, cause.name());
            return;
        };
        let after = self.tokens_now();
        let earliest = edits.iter().filter_map(|(target, _)| self.host.position(target)).min().unwrap_or(0);
        let prefix: u64 = self.host.window().iter().take_while(|shown| shown.at < earliest).map(|shown| shown.tokens).sum();
        self.report.commits += 1;
        self.report.folds += commit.folds as u64;
        self.report.parents += commit.parents as u64;
        self.probes.when("commit above its target", commit.shortfall.is_some());
        self.probes.when("commit without usage", !self.reports_usage);
        let detail = Rewrite { before, after, prefix, resent: 0, appended: self.appended - self.appended_at_commit };
        self.appended_at_commit = self.appended;
        self.unsent_commit = Some((self.report.commits_in_detail.len(), self.appended));
        self.report.commits_in_detail.push(detail);
        if let (None, Some(session)) = (&commit.shortfall, &self.session) {
            let share = after * 1_000_000 / session.band().budget;
            let (least, most) = self.report.after_ppm.unwrap_or((share, share));
            self.report.after_ppm = Some((least.min(share), most.max(share)));
        }
        let missing = commit.shortfall.as_ref().map_or(String::new(), |shortfall| {
            let in_the_way: Vec<String> = shortfall.obstacles.iter().take(3).map(|(what, tokens)| format!("{tokens} {what:?}")).collect();
            format!(", {} too many: {}", shortfall.missing, in_the_way.join(", ").to_lowercase())
        });
        self.note = format!(
            "{}committed by {}: {} folds ({} parents), {} to {} of {}{missing}; ",
            self.note,
            commit.trigger.name(),
            commit.folds,
            commit.parents,
            commit.before,
            commit.after,
            commit.target
        );
    }
}
