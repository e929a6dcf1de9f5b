//! The runtime at a boundary, and what is checked of what it decides and gives back.

use super::{Outcome, World};
use fold_invariants::Broken;
use fold_invariants::commit::Folds;
use fold_invariants::probes::PROBES;
use fold_invariants::reference::{self, Verdict};
use fold_models::agent::Density;
use fold_runtime::session::{Commit, Decision, Deferral, Moment, Session, Trigger};
use sha2::Digest as _;

impl World<'_> {
    /// Whether the host is asked to send a request again.
    pub(super) fn boundary(&mut self, moment: Moment) -> Outcome<bool> {
        self.catch_up()?;
        let Some(session) = &self.session else { return Ok(false) };
        let honest = session.boundary(moment);
        let marks = session.marks();
        let band = session.band();
        let decision = match &mut self.saboteur {
            Some(saboteur) => saboteur.decides(honest, moment, self.host.branch(), &self.settings, self.model.context_window),
            None => honest,
        };
        if session.suspended().is_some() != self.suspended {
            let (expected, seen) = if self.suspended { ("", "not ") } else { ("not ", "") };
            return Err(Broken::new("suspension", format!("a session that is {expected}suspended"), format!("it is {seen}suspended")));
        }
        if self.suspended && moment != Moment::Asked && !matches!(decision, Decision::Quiet | Decision::Deferred(Deferral::Suspended)) {
            return Err(Broken::new("suspension", "nothing done unasked while suspended", "a decision"));
        }
        let commits = matches!(decision, Decision::Commit(_));
        let deferral = match &decision {
            Decision::Deferred(deferral) => Some(*deferral),
            Decision::Recovery(recovery) => recovery.deferral,
            Decision::Quiet | Decision::Notice { .. } | Decision::Commit(_) => None,
        };
        let ends_turn = matches!(moment, Moment::TurnEnd | Moment::Settling);
        if ends_turn && !commits && deferral.is_none() && self.reported.is_some_and(|total| total >= band.max_target) {
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
        // The first commit of a session, every eighth one after it, every third of a rarer kind, and a boundary now and then.
        let nth = self.report.commits;
        let one_in = |every: u64| self.plan.seed.wrapping_add(nth).is_multiple_of(every);
        let due = match &decision {
            Decision::Commit(commit) if commit.trigger == Trigger::Band => nth == 0 || one_in(8),
            Decision::Commit(_) => nth == 0 || one_in(3),
            Decision::Recovery(_) => one_in(3),
            _ => (self.plan.seed ^ self.step as u64).is_multiple_of(128),
        };
        if self.deep && due {
            self.compare("band", &decision, moment)?;
        }
        self.trace.update(match &decision {
            Decision::Quiet => "quiet",
            Decision::Notice { .. } => "notice",
            Decision::Deferred(deferral) => deferral.reason(),
            Decision::Recovery(_) => "recovery",
            Decision::Commit(_) => "commit",
        });
        if let Some(draft) = self.saboteur.as_mut().and_then(|saboteur| saboteur.meddles(&decision, self.host.branch(), marks)) {
            let _ = self.host.boundary(&[draft]);
        }
        if matches!(decision, Decision::Quiet | Decision::Deferred(_)) && self.host.branch().len() != self.seen {
            return Err(Broken::new("quiet", "nothing written where nothing was decided", "an entry of ours"));
        }
        if let Some(deferral) = deferral {
            let reason = deferral.reason();
            *self.report.deferrals.entry(reason).or_insert(0) += 1;
            self.note = format!("{}deferred: {reason}; ", self.note);
            let probe = PROBES.into_iter().find(|probe| probe.strip_prefix("deferred: ") == Some(reason));
            probe.into_iter().for_each(|probe| self.probes.hit(probe));
        }
        if let (Some(Deferral::RefusedAgain), Some(session)) = (deferral, &self.session) {
            self.note = format!("{}{}; ", self.note, session.refused_again());
        }
        match decision {
            Decision::Quiet => self.probes.when("boundary quiet with marks", marks > 0),
            Decision::Deferred(_) => {}
            Decision::Notice { draft } => self.tells(&draft)?,
            Decision::Recovery(recovery) => self.go_on(&recovery)?,
            Decision::Commit(commit) => return Ok(self.carry_out(&commit)? && commit.asks_again()),
        }
        Ok(false)
    }

    /// The decision equals that of the naive reference on the same branch.
    pub(super) fn compare(&mut self, invariant: &'static str, decision: &Decision, moment: Moment) -> Outcome {
        if self.without_reference {
            return Ok(());
        }
        self.probes.hit("decision compared with the reference");
        let decides = if self.suspended { reference::decide_suspended } else { reference::decide };
        let expected = decides(self.host.branch(), &self.settings, self.model.context_window, moment);
        let ours = match decision {
            Decision::Quiet => Verdict::Quiet,
            Decision::Notice { .. } => Verdict::Notice,
            Decision::Deferred(deferral) => Verdict::Deferred(deferral.reason().into()),
            Decision::Recovery(recovery) => Verdict::Recovery {
                drafts: recovery.drafts.clone(),
                left: recovery.left,
                deferral: recovery.deferral.map(|deferral| deferral.reason().into()),
            },
            Decision::Commit(commit) => Verdict::Commit {
                trigger: commit.trigger.name().into(),
                refolded: commit.refolded,
                drafts: commit.drafts.clone(),
                left: commit.left,
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

    /// The true count after a commit that reached its target. The target holds the overhead and all that cannot move; beside it stand the
    /// estimator's margin and what came since the provider last counted. Where one density holds and is no thinner than what is
    /// assumed before anything is measured, no freed byte is counted for more than it was.
    pub(super) fn true_band(&mut self, commit: &Commit) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let even = matches!(self.plan.world.density, Density::Constant(milli) if milli <= 4_000) && self.reported.is_some();
        // An image is assumed to cost more than it does, so freeing one is counted for too much.
        let images = self.host.window().iter().chain(self.host.last_request()).any(|shown| shown.facts.images > 0);
        // A refused request proves the estimate wrong; a retirement aims at nothing.
        let aims = matches!(commit.trigger, Trigger::Band | Trigger::Fence | Trigger::Person);
        if !even || images || !aims || commit.shortfall.is_some() {
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

    /// Every fold that is new gives back exactly the lines the journal holds, in their order.
    pub(super) fn lossless(&mut self, made: usize) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        // Both are in the order of their ids.
        let mut recovered = self.recovered.iter().map(String::as_str).peekable();
        let mut is_new = |id: &str| {
            while recovered.next_if(|other| *other < id).is_some() {}
            recovered.next_if_eq(&id).is_none()
        };
        let new: Vec<String> = session.folds().map(|(id, _)| id).filter(|id| is_new(id)).map(str::to_owned).collect();
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
        let originals =
            session.recover(id, Some(&self.store)).map_err(|error| Broken::new("lossless", format!("fold {id} whole"), error.to_string()))?;
        let hidden = self.folds.hidden(id).unwrap_or_default();
        let lines: Vec<&str> = hidden.iter().map(|&at| self.host.branch()[at].line()).collect();
        let given: Vec<&str> = originals.iter().map(|original| original.line.as_str()).collect();
        // The journal has them, whatever has become of the disk.
        if lines.is_empty() || lines != given || originals.iter().any(|original| original.from_store) {
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
        let Some(live) = &self.session else { return self.masker_reopened(invariant) };
        let opened = Session::open(self.host.branch(), &self.settings, self.model.context_window)
            .map_err(|why| Broken::new(invariant, "a session that opens", why))?;
        self.probes.hit("reopened session compared");
        let portrait = |session: &Session| {
            let roots: Vec<String> = session.roots().map(|(id, depth, entries)| format!("{id}:{depth}:{entries}")).collect();
            let over: Vec<String> = session.overlay().into_iter().map(|(id, content)| format!("{id}:{content:?}")).collect();
            (session.occupancy(), session.margin(), session.marks(), roots, session.index_bytes(), session.shown(), over)
        };
        let (lived, read) = (portrait(live), portrait(&opened));
        if lived != read {
            return Err(Broken::new(invariant, format!("{lived:?}"), format!("{read:?}")));
        }
        // Suspension is the only exception, and no exception where a person asks.
        let moment = if self.suspended { Moment::Asked } else { Moment::TurnEnd };
        if live.boundary(moment) != opened.boundary(moment) {
            return Err(Broken::new(invariant, "the same next decision", "another one"));
        }
        Ok(())
    }

    /// Opens the runtime on the branch as it is now.
    pub(super) fn open(&mut self) -> Outcome {
        if self.session.is_none() {
            return self.open_masker();
        }
        let read = self.saboteur.as_ref().and_then(|saboteur| saboteur.opens(self.host.branch()));
        let branch = read.as_deref().unwrap_or(self.host.branch());
        let session =
            Session::open(branch, &self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "a session that opens", why))?;
        self.session = Some(session);
        self.reopened = true;
        self.probes.when("suspension ended by opening the session", std::mem::take(&mut self.suspended));
        self.seen = self.host.branch().len();
        let host = &self.host;
        self.folds = Folds::read(host.branch(), &|id| host.position(id));
        self.recovered = self.session.iter().flat_map(Session::folds).map(|(id, _)| id.to_owned()).collect();
        self.rotted.clear();
        self.save()?;
        self.lay_over()
    }
}

/// Where two verdicts differ first.
fn tell_apart(expected: &Verdict, seen: &Verdict) -> (String, String) {
    let short = |verdict: &Verdict| match verdict {
        Verdict::Commit { trigger, drafts, left, before, target, after, .. } => {
            format!("a commit by {trigger} of {} drafts and {left} left, {before} to {after} of {target}", drafts.len())
        }
        Verdict::Recovery { drafts, left, deferral } => format!("recovery of {} drafts and {left} left, {deferral:?}", drafts.len()),
        Verdict::Deferred(reason) => format!("deferred: {reason}"),
        Verdict::Quiet => "quiet".to_owned(),
        Verdict::Notice => "a notice".to_owned(),
    };
    let drafts = |verdict: &Verdict| match verdict {
        Verdict::Commit { drafts, .. } | Verdict::Recovery { drafts, .. } => drafts.clone(),
        _ => Vec::new(),
    };
    let (ours, theirs) = (drafts(seen), drafts(expected));
    // The record differs wherever an edit does; the edit tells more.
    let differing = theirs.iter().zip(&ours).enumerate().filter(|(_, (one, other))| one != other);
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
