//! Writing what the runtime decided, draft by draft: whole, cut off by a crash, or dropped by another extension; and what is checked of
//! what then stands in the journal and in the window.

use super::{Outcome, World, promised};
use crate::report::Rewrite;
use fold_invariants::Broken;
use fold_invariants::commit::{Commit as Written, recovery};
use fold_invariants::window::{Cause, Change};
use fold_models::wire::{Rule, validate};
use fold_runtime::session::{Commit, Draft, Recovery, Trigger};
use sha2::Digest as _;
use std::collections::{BTreeMap, BTreeSet};

impl World<'_> {
    /// Appends drafts one by one, unless somebody drops them or the process dies; tells how many were written.
    fn write(&mut self, drafts: &[Draft]) -> Outcome<usize> {
        if std::mem::take(&mut self.drops) {
            self.probes.hit("boundary dropped");
            self.note = format!("{}dropped; ", self.note);
            return Ok(0);
        }
        let crash = self.crash.take_if(|after| (*after as usize) < drafts.len());
        let written = crash.map_or(drafts.len(), |after| after as usize);
        // Without the extension, the branch alone has to be sound after every draft.
        self.host.lay_over([]).map_err(|why| Broken::new("attributed", "an empty overlay", why))?;
        let every_draft = self.deep && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(4) && validate(self.host.window()).is_ok();
        for (index, draft) in drafts[..written].iter().enumerate() {
            self.trace.update(match draft {
                Draft::Custom { data, .. } => data.as_bytes(),
                Draft::ContextEdit { target, .. } => target.as_bytes(),
            });
            self.host.boundary(std::slice::from_ref(draft)).map_err(|why| Broken::new("attributed", "drafts that the host takes", why))?;
            if every_draft && index > 0 {
                self.probes.hit("prefix of drafts validated");
                if let Err(error) = validate(self.host.window())
                    && !matches!(error.rule, Rule::AssistantLast | Rule::NoMessages | Rule::PlaceholderLast)
                {
                    return Err(Broken::new("pairing", "calls and results paired after every draft", format!("after draft {index}: {error}")));
                }
            }
        }
        if crash.is_some() {
            self.probes.hit("crash inside a commit");
            self.note = format!("{}died after {written} of {} drafts; ", self.note, drafts.len());
            self.died = true;
        }
        Ok(written)
    }

    /// After writing: the live session reads what was written, or a new one opens the journal.
    fn read_back(&mut self) -> Outcome {
        if std::mem::take(&mut self.died) {
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

    pub(super) fn carry_out(&mut self, commit: &Commit) -> Outcome {
        let record = self.host.branch().len();
        let before = self.tokens_now();
        if self.write(&commit.drafts)? == 0 {
            // Nothing came of it: not even the journal knows.
            return self.read_back();
        }
        // Clips shift the share within which results are clipped, so another commit may find a little more; it ends soon.
        let count = self.committed.entry((commit.trigger, self.appended)).or_insert(0);
        *count += 1;
        if *count > if commit.trigger == Trigger::Band { 1 } else { 3 } {
            return Err(Broken::new(
                "progress",
                "something new before another commit of the same kind",
                format!("{count} by {}", commit.trigger.name()),
            ));
        }
        self.read_back()?;
        self.true_band(commit)?;
        let edits = self.promised_edits(record, commit)?;
        self.changed_by_us(commit, &edits, before);
        let branch = self.host.branch();
        let position = |id: &str| self.host.position(id);
        let written = Written { branch, record, edits: &edits, settings: &self.settings };
        self.folds.commit(written, &position, &mut self.probes)?;
        self.lossless(commit.folds)?;
        if self.deep && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(5) {
            self.reopened("resume")?;
        }
        if let Some(session) = &mut self.session {
            session.save(&mut self.store).map_err(|error| Broken::new("lossless", "a sound store keeps what it is given", error.to_string()))?;
        }
        Ok(())
    }

    /// Every edit that the record at a position promises, with its content: as it was written, or as the overlay shows it.
    fn promised_edits(&self, record: usize, commit: &Commit) -> Outcome<Vec<(String, Option<String>)>> {
        let mut contents: BTreeMap<String, Option<String>> = BTreeMap::new();
        for draft in &commit.drafts {
            if let Draft::ContextEdit { target, replacement } = draft {
                contents.insert(target.clone(), replacement.clone());
            }
        }
        if let Some(session) = &self.session {
            contents.extend(session.overlay().into_iter().map(|(target, content)| (target.to_owned(), content.map(str::to_owned))));
        }
        let targets = promised(&self.host.branch()[record]);
        targets
            .into_iter()
            .map(|target| match contents.remove(&target) {
                Some(content) => Ok((target, content)),
                None => Err(Broken::new("durable", "every promised edit is written or shown over the branch", format!("{target} is neither"))),
            })
            .collect()
    }

    fn changed_by_us(&mut self, commit: &Commit, edits: &[(String, Option<String>)], before: u64) {
        let targets: BTreeSet<usize> = edits.iter().filter_map(|(target, _)| self.host.position(target)).collect();
        let after = self.tokens_now();
        let earliest = targets.first().copied().unwrap_or(0);
        let prefix: u64 = self.host.window().iter().take_while(|shown| shown.at < earliest).map(|shown| shown.tokens).sum();
        let cause = match commit.trigger {
            Trigger::Peek => Cause::PeekRetired,
            Trigger::Recovery => Cause::Recovery,
            Trigger::Band | Trigger::Fence | Trigger::Overflow | Trigger::Person => Cause::Commit,
        };
        self.changes.push(Change { cause, targets: Some(targets) });
        self.reported = None;
        self.excused.clear();
        if cause != Cause::Commit {
            self.note = format!("{}{}; ", self.note, cause.name());
            return;
        }
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
