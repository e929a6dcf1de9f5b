//! The runtime at a boundary, and everything that is checked of what it decides, writes and gives back.

use super::{Outcome, World};
use crate::report::Rewrite;
use fold_invariants::Broken;
use fold_invariants::commit::{Commit as Written, Folds};
use fold_invariants::probes::PROBES;
use fold_invariants::reference::{self, Verdict};
use fold_invariants::window::{Cause, Change};
use fold_models::agent::Density;
use fold_models::wire::{Rule, validate};
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::session::{Commit, Decision, Draft, Session, Trigger};
use sha2::Digest as _;
use std::collections::BTreeSet;

impl World<'_> {
    pub(super) fn boundary(&mut self) -> Outcome {
        self.catch_up();
        let Some(session) = &self.session else { return Ok(()) };
        let honest = session.boundary();
        let marks = session.marks();
        let band = session.band();
        let decision = match &mut self.saboteur {
            Some(saboteur) => saboteur.decides(honest, self.host.branch(), &self.settings, self.model.context_window),
            None => honest,
        };
        let commits = matches!(decision, Decision::Commit(_));
        if matches!(decision, Decision::Quiet) && self.reported.is_some_and(|total| total >= band.max_target) {
            return Err(Broken::new("band", "a commit or a reason at or above the trigger", "quiet"));
        }
        let by_band = matches!(&decision, Decision::Commit(commit) if commit.trigger == Trigger::Band);
        // No estimate makes more than six tokens of one (2 to 12 bytes a token), or more than 1,200 of an image.
        let most = |total: u64| total + 6 * (self.appended - self.reported_at);
        if by_band && self.reported.is_some_and(|total| most(total) < band.max_target) {
            return Err(Broken::new(
                "band",
                format!("no commit below the trigger, {}", band.max_target),
                format!("one at {} tokens", self.tokens_now()),
            ));
        }
        // The first commit of a session, every eighth one after it, and a boundary now and then.
        let nth = self.report.commits;
        let due = if commits {
            nth == 0 || self.plan.seed.wrapping_add(nth).is_multiple_of(8)
        } else {
            (self.plan.seed ^ self.step as u64).is_multiple_of(128)
        };
        if self.deep && due {
            self.compare("band", &decision)?;
        }
        self.trace.update(match &decision {
            Decision::Quiet => "quiet",
            Decision::Deferred(deferral) => deferral.reason(),
            Decision::Commit(_) => "commit",
        });
        if let Some(draft) = self.saboteur.as_mut().and_then(|saboteur| saboteur.meddles(&decision, self.host.branch(), marks)) {
            let _ = self.host.boundary(&[draft]);
        }
        if !commits && self.host.branch().len() != self.seen {
            return Err(Broken::new("quiet", "nothing written where nothing was decided", "an entry of ours"));
        }
        match decision {
            Decision::Quiet => {
                self.probes.when("boundary quiet with marks", marks > 0);
                Ok(())
            }
            Decision::Deferred(deferral) => {
                let reason = deferral.reason();
                *self.report.deferrals.entry(reason).or_insert(0) += 1;
                self.note = format!("{}deferred: {reason}; ", self.note);
                let probe = PROBES.into_iter().find(|probe| probe.strip_prefix("deferred: ") == Some(reason));
                probe.into_iter().for_each(|probe| self.probes.hit(probe));
                Ok(())
            }
            Decision::Commit(commit) => self.carry_out(&commit),
        }
    }

    /// The decision equals that of the naive reference on the same branch.
    pub(super) fn compare(&mut self, invariant: &'static str, decision: &Decision) -> Outcome {
        if self.without_reference {
            return Ok(());
        }
        self.probes.hit("decision compared with the reference");
        let expected = reference::decide(self.host.branch(), &self.settings, self.model.context_window);
        let ours = match decision {
            Decision::Quiet => Verdict::Quiet,
            Decision::Deferred(deferral) => Verdict::Deferred(deferral.reason().into()),
            Decision::Commit(commit) => Verdict::Commit {
                trigger: commit.trigger.name().into(),
                drafts: commit.drafts.clone(),
                before: commit.before,
                target: commit.target,
                after: commit.after,
            },
        };
        if ours == expected {
            return Ok(());
        }
        let (expected, seen) = tell_apart(&expected, &ours);
        Err(Broken::new(invariant, expected, seen))
    }

    pub(super) fn carry_out(&mut self, commit: &Commit) -> Outcome {
        if self.commits_since_request > 0 {
            return Err(Broken::new("progress", "one commit between two requests", "a second one"));
        }
        self.commits_since_request += 1;
        let record = self.host.branch().len();
        let before = self.tokens_now();
        let sound = validate(self.host.window()).is_ok();
        for (index, draft) in commit.drafts.iter().enumerate() {
            self.trace.update(match draft {
                Draft::Custom { data, .. } => data.as_bytes(),
                Draft::ContextEdit { target, .. } => target.as_bytes(),
            });
            self.host.boundary(std::slice::from_ref(draft)).map_err(|why| Broken::new("attributed", "drafts that the host takes", why))?;
            if self.deep && sound && index > 0 && self.plan.seed.wrapping_add(self.report.commits).is_multiple_of(4) {
                self.probes.hit("prefix of drafts validated");
                if let Err(error) = validate(self.host.window())
                    && !matches!(error.rule, Rule::AssistantLast | Rule::NoMessages | Rule::PlaceholderLast)
                {
                    return Err(Broken::new("pairing", "calls and results paired after every draft", format!("after draft {index}: {error}")));
                }
            }
        }
        self.true_band(commit)?;
        self.changed_by_us(commit, record, before);
        self.catch_up();
        let branch = self.host.branch();
        let position = |id: &str| self.host.position(id);
        let written = Written { branch, record, settings: &self.settings };
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

    /// The true count after a commit that reached its target. The target holds the overhead and all that cannot move; beside it stand the
    /// estimator's margin and what came since the provider last counted. Where one density holds and is no thinner than what is
    /// assumed before anything is measured, no freed byte is counted for more than it was.
    pub(super) fn true_band(&mut self, commit: &Commit) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let even = matches!(self.plan.world.density, Density::Constant(milli) if milli <= 4_000) && self.reported.is_some();
        // An image is assumed to cost more than it does, so freeing one is counted for too much.
        let images = self.host.window().iter().chain(self.host.last_request()).any(|shown| shown.facts.images > 0);
        if !even || images || commit.shortfall.is_some() {
            return Ok(());
        }
        self.probes.hit("true count compared after a commit");
        let most = commit.target + session.margin() + (self.appended - self.reported_at);
        let seen = self.tokens_now();
        if seen > most {
            let expected = format!("at most {most} true tokens after a commit with the target {}", commit.target);
            return Err(Broken::new("band", expected, seen.to_string()));
        }
        Ok(())
    }

    pub(super) fn changed_by_us(&mut self, commit: &Commit, record: usize, before: u64) {
        let targets: BTreeSet<usize> = self.host.branch()[record + 1..]
            .iter()
            .filter_map(|entry| if let Kind::ContextEdit { target, .. } = entry.kind() { self.host.position(target) } else { None })
            .collect();
        let after = self.tokens_now();
        let earliest = targets.first().copied().unwrap_or(0);
        let prefix: u64 = self.host.window().iter().take_while(|shown| shown.at < earliest).map(|shown| shown.tokens).sum();
        self.changes.push(Change { cause: Cause::Commit, targets: Some(targets) });
        self.reported = None;
        self.excused.clear();
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

    /// Every fold that is new gives back exactly the lines the journal holds, in their order.
    pub(super) fn lossless(&mut self, made: usize) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let new: Vec<String> = session.folds().map(|(id, _)| id.to_owned()).filter(|id| !self.recovered.contains(id)).collect();
        if new.len() != made {
            return Err(Broken::new("lossless", format!("{made} new folds on the branch"), format!("the runtime knows {}", new.len())));
        }
        for id in new {
            self.gives_back(&id)?;
            self.report.folds_recovered += 1;
            self.recovered.insert(id);
        }
        Ok(())
    }

    pub(super) fn gives_back(&mut self, id: &str) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let originals = session.recover(id, None).map_err(|error| Broken::new("lossless", format!("fold {id} whole"), error.to_string()))?;
        let hidden = self.folds.hidden(id).unwrap_or_default();
        let lines: Vec<&str> = hidden.iter().map(|&at| self.host.branch()[at].line()).collect();
        let given: Vec<&str> = originals.iter().map(|original| original.line.as_str()).collect();
        if lines.is_empty() || lines != given {
            return Err(Broken::new(
                "lossless",
                format!("the {} lines fold {id} hides", lines.len()),
                format!("{} lines, or other ones", given.len()),
            ));
        }
        self.probes.hit("fold recovered");
        Ok(())
    }

    /// A session opened from the journal is the one that lived through it.
    pub(super) fn reopened(&mut self, invariant: &'static str) -> Outcome {
        let Some(live) = &self.session else { return Ok(()) };
        let opened = Session::open(self.host.branch(), &self.settings, self.model.context_window)
            .map_err(|why| Broken::new(invariant, "a session that opens", why))?;
        self.probes.hit("reopened session compared");
        let portrait = |session: &Session| {
            let roots: Vec<String> = session.roots().map(|(id, depth, entries)| format!("{id}:{depth}:{entries}")).collect();
            (session.occupancy(), session.margin(), session.marks(), roots, session.index_bytes(), session.shown())
        };
        let (lived, read) = (portrait(live), portrait(&opened));
        if lived != read {
            return Err(Broken::new(invariant, format!("{lived:?}"), format!("{read:?}")));
        }
        if live.boundary() != opened.boundary() {
            return Err(Broken::new(invariant, "the same next decision", "another one"));
        }
        Ok(())
    }

    /// Opens the runtime on the branch as it is now.
    pub(super) fn open(&mut self) -> Outcome {
        if self.session.is_none() {
            return Ok(());
        }
        let session = Session::open(self.host.branch(), &self.settings, self.model.context_window)
            .map_err(|why| Broken::new("resume", "a session that opens", why))?;
        self.session = Some(session);
        self.seen = self.host.branch().len();
        let host = &self.host;
        self.folds = Folds::read(host.branch(), &|id| host.position(id));
        self.recovered = self.session.iter().flat_map(Session::folds).map(|(id, _)| id.to_owned()).collect();
        Ok(())
    }

    /// A journal that lost a line gives it back from the store.
    pub(super) fn second_copies(&mut self) -> Outcome {
        let Some(fold) = self.recovered.iter().next().filter(|_| self.deep).cloned() else { return Ok(()) };
        let Some(&lost) = self.folds.hidden(&fold).unwrap_or_default().first() else { return Ok(()) };
        let original = self.host.branch()[lost].line().to_owned();
        let mut branch = self.host.branch().to_vec();
        // What the runtime was never offered (a fold made before a fork, say) is offered when it opens the journal.
        let mut session =
            Session::open(&branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        self.store.fail(Some("no space left on device"));
        if session.save(&mut self.store).is_ok() {
            return Err(Broken::new("lossless", "a store that refuses is heard", "nothing was said"));
        }
        self.store.fail(None);
        session.save(&mut self.store).map_err(|error| Broken::new("lossless", "what was refused is offered again", error.to_string()))?;
        let damaged = original.replacen('{', "{\"damaged\":true,", 1);
        branch[lost] = Entry::parse(&damaged).map_err(|error| Broken::new("lossless", "a line", error.to_string()))?;
        let session =
            Session::open(&branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        if session.recover(&fold, None).is_ok() {
            return Err(Broken::new("lossless", "a damaged original is noticed", "it was given back"));
        }
        let given = session.recover(&fold, Some(&self.store)).map_err(|error| Broken::new("lossless", "the second copy", error.to_string()))?;
        if !given.iter().any(|one| one.from_store && one.line == original) {
            return Err(Broken::new("lossless", "the second copy of the damaged line", "another line"));
        }
        self.store.damage(self.host.branch()[lost].digest(), |bytes| bytes.push(b' '));
        if session.recover(&fold, Some(&self.store)).is_ok() {
            return Err(Broken::new("lossless", "a damaged second copy is noticed", "it was given back"));
        }
        self.probes.hit("fold recovered from the store");
        Ok(())
    }
}

/// Where two verdicts differ first.
fn tell_apart(expected: &Verdict, seen: &Verdict) -> (String, String) {
    let short = |verdict: &Verdict| match verdict {
        Verdict::Commit { trigger, drafts, before, target, after } => {
            format!("a commit by {trigger} of {} drafts, {before} to {after} of {target}", drafts.len())
        }
        Verdict::Deferred(reason) => format!("deferred: {reason}"),
        Verdict::Quiet => "quiet".to_owned(),
    };
    let (Verdict::Commit { drafts: ours, .. }, Verdict::Commit { drafts: theirs, .. }) = (seen, expected) else {
        return (short(expected), short(seen));
    };
    // The record differs wherever an edit does; the edit tells more.
    let differing = theirs.iter().zip(ours).enumerate().filter(|(_, (one, other))| one != other);
    let Some((index, (one, other))) = differing.min_by_key(|(index, _)| (*index == 0, *index)) else {
        return (short(expected), short(seen));
    };
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    let same = one.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count();
    let excerpt = |text: &str| {
        let from = text.floor_char_boundary(same.saturating_sub(60));
        let to = text.ceil_char_boundary((same + 200).min(text.len()));
        text[from..to].to_owned()
    };
    (format!("{}; draft {index}: …{}", short(expected), excerpt(&one)), format!("{}; draft {index}: …{}", short(seen), excerpt(&other)))
}
