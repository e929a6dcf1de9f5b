//! The arm that masks: old tool results give way to one line each at a turn's end; Pi's own compaction stays behind it.
//!
//! It shares the host, the provider and the checks of requests with the other arms, and nothing with folding.

use super::{Outcome, World};
use crate::report::Rewrite;
use fold_invariants::Broken;
use fold_invariants::reference::mask::{self as reference, Masked};
use fold_invariants::window::{Cause, Change};
use fold_models::agent::{Density, Plan, Profile};
use fold_models::shown::Shown;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::mask::{Batch, Decision, Deferral, Masker, QUERY_BYTES, Settings, is_placeholder};
use fold_runtime::session::Draft;
use sha2::Digest as _;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Masking in a world.
pub(super) struct Masking {
    settings: Settings,
    masker: Masker,
    /// Entries of the branch it has seen.
    seen: usize,
    /// Batches that came to stand on the branch, whole or in part.
    pub(super) batches: u64,
    /// Turns' ends so far.
    asked: u64,
}

impl Masking {
    /// Masking for a plan and a model with this context window.
    pub(super) fn new(plan: &Plan, window: u64) -> Result<Self, String> {
        let settings = settings(plan);
        Ok(Masking { masker: Masker::open(&[], &settings, window)?, settings, seen: 0, batches: 0, asked: 0 })
    }
}

/// The published settings, but in a swarm: there every seed has its own, so that each rule keeps something from time to time. Seed 0, which a recorded
/// session has too, is as published.
fn settings(plan: &Plan) -> Settings {
    let mut settings = Settings::default();
    if !matches!(plan.profile, Profile::Swarm | Profile::Full) {
        return settings;
    }
    let one_of = |seed: u64, choices: u64| usize::try_from(seed % choices).unwrap_or(0);
    let seed = plan.seed;
    settings.keep_recent_turns = [10, 1, 3, 5][one_of(seed, 4)];
    (settings.trigger_ratio_ppm, settings.target_ratio_ppm) =
        [(600_000, 350_000), (800_000, 300_000), (400_000, 100_000), (700_000, 650_000)][one_of(seed / 4, 4)];
    settings.min_clear_tokens = [50_000, 0, 2_000][one_of(seed, 3)];
    settings.min_entry_tokens = [256, 0, 1_000][one_of(seed / 3, 3)];
    let tools: &[&str] = [&["ask_user_question"][..], &["read"], &["bash", "grep"], &[], &["edit"]][one_of(seed, 5)];
    settings.exclude_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    settings
}

impl World<'_> {
    /// A turn has ended.
    pub(super) fn mask_turn_end(&mut self) -> Outcome {
        self.mask()?;
        if self.host_asks() { self.compact(true) } else { Ok(()) }
    }

    fn mask(&mut self) -> Outcome {
        self.catch_up_masker();
        let window = self.model.context_window;
        let Some(masking) = &mut self.masking else { return Ok(()) };
        masking.asked += 1;
        let (honest, trigger) = (masking.masker.boundary(), masking.masker.thresholds().trigger);
        let branch = self.host.branch();
        let decision = match &self.saboteur {
            Some(saboteur) => saboteur.masks(honest, branch, &masking.settings, window),
            None => honest,
        };
        let masks = matches!(decision, Decision::Mask(_));
        if decision == Decision::Quiet && self.reported.is_some_and(|total| total >= trigger) {
            return Err(Broken::new("band", "a batch or a reason at or above the trigger", "quiet"));
        }
        // No estimate makes more than six tokens of one (2 to 12 bytes a token), or more than 1,200 of an image.
        let most = |total: u64| total + 6 * (self.appended - self.reported_at);
        if masks && self.reported.is_some_and(|total| most(total) < trigger) {
            return Err(Broken::new("band", format!("no batch below the trigger, {trigger}"), format!("one at {} tokens", self.tokens_now())));
        }
        let due = if masks { masking.batches.is_multiple_of(3) } else { (self.plan.seed ^ masking.asked).is_multiple_of(16) };
        if self.deep && due {
            self.compare_mask("band", &decision)?;
        }
        self.trace.update(match &decision {
            Decision::Quiet => "quiet",
            Decision::Deferred(deferral) => deferral.reason(),
            Decision::Mask(_) => "mask",
        });
        match decision {
            Decision::Quiet => {
                let is_result = |entry: &Entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. }));
                self.probes.when("turn's end quiet with results", self.host.branch().last().is_some_and(is_result));
            }
            Decision::Deferred(deferral) => {
                self.probes.hit(match deferral {
                    Deferral::NothingEligible => "mask deferred: nothing to mask",
                    Deferral::BelowFloor => "mask deferred: below the floor",
                });
                *self.report.deferrals.entry(deferral.reason()).or_insert(0) += 1;
                self.note = format!("{}deferred: {}; ", self.note, deferral.reason());
            }
            Decision::Mask(batch) => self.write_batch(&batch)?,
        }
        Ok(())
    }

    /// One of the masked results, counted round.
    pub(super) fn masks_one(&self, nth: usize) -> Option<usize> {
        let masked: Vec<&str> = self.masking.as_ref()?.masker.masked().collect();
        self.host.position(masked.get(nth % masked.len().max(1))?)
    }

    /// What a masked result said, to a call of the masking's own tool.
    pub(super) fn unmasks(&self, call: &str) -> Option<String> {
        self.masking.as_ref()?.masker.context_tree_query(call).ok().map(|recovered| recovered.text)
    }

    /// Appends a batch, as far as nobody drops it and the process lives, and looks at what then stands.
    fn write_batch(&mut self, batch: &Batch) -> Outcome {
        let Some(masking) = &self.masking else { return Ok(()) };
        reference::batch(self.host.branch(), &masking.settings, &batch.drafts)?;
        // Who answers whom, and who speaks: an edit changes neither.
        let calls = |window: &[Arc<Shown>]| {
            let of = |shown: &Arc<Shown>| (shown.at, shown.role, shown.facts.answers.clone(), shown.facts.calls.clone());
            window.iter().map(of).collect::<Vec<_>>()
        };
        let (before, spoken) = (self.tokens_now(), calls(self.host.window()));
        let written = self.write(&batch.drafts)?;
        self.probes.when("batch dropped", written == 0 && !self.died);
        self.probes.when("crash inside a batch", self.died && written > 0);
        if calls(self.host.window()) != spoken {
            return Err(Broken::new("pairing", "the same calls and the same results", "others"));
        }
        if written > 0 {
            self.masked_by_us(&batch.drafts[..written], before);
        }
        let whole = written == batch.drafts.len();
        if std::mem::take(&mut self.died) {
            self.open_masker()?;
        }
        self.catch_up_masker();
        if whole {
            self.true_count(batch)?;
        }
        self.masks_are_lossless()?;
        if self.deep && self.plan.seed.wrapping_add(self.answers).is_multiple_of(5) {
            self.masker_reopened("resume")?;
        }
        Ok(())
    }

    /// These edits stand on the branch: what they name is shown otherwise from here on.
    fn masked_by_us(&mut self, edits: &[Draft], before: u64) {
        let target = |draft: &Draft| match draft {
            Draft::ContextEdit { target, .. } => self.host.position(target),
            _ => None,
        };
        let targets: BTreeSet<usize> = edits.iter().filter_map(target).collect();
        let after = self.tokens_now();
        let earliest = targets.first().copied().unwrap_or(0);
        let prefix: u64 = self.host.window().iter().take_while(|shown| shown.at < earliest).map(|shown| shown.tokens).sum();
        let images = targets.iter().any(|at| self.host.branch()[*at].line().contains("\"type\":\"image\""));
        self.probes.hit("batch masked");
        self.probes.when("images masked", images);
        self.probes.when("batch without usage", !self.reports_usage);
        self.note = format!("{}masked {} results, {before} to {after}; ", self.note, targets.len());
        self.changes.push(Change { cause: Cause::Mask, targets: Some(targets) });
        self.reported = None;
        self.excused.clear();
        let detail = Rewrite { before, after, prefix, resent: 0, appended: self.appended - self.appended_at_commit };
        self.appended_at_commit = self.appended;
        self.unsent_commit = Some((self.report.commits_in_detail.len(), self.appended));
        self.report.commits_in_detail.push(detail);
        if let Some(masking) = &mut self.masking {
            masking.batches += 1;
        }
    }

    /// The true count after a whole batch: where one density holds that is no thinner than what is assumed before anything is measured, no freed byte is
    /// counted for more than it was. What came since the provider counted last is estimated, and the estimator may be off by 5% of the window.
    fn true_count(&mut self, batch: &Batch) -> Outcome {
        self.probes.when("batch above its target", batch.after > batch.target);
        let even = matches!(self.plan.world.density, Density::Constant(milli) if milli <= 4_000) && self.reports_usage;
        let images = self.host.window().iter().chain(self.host.last_request()).any(|shown| shown.facts.images > 0);
        let most = batch.after + self.model.context_window / 20 + (self.appended - self.reported_at);
        if even && !images && self.reported_at > 0 && self.tokens_now() > most {
            return Err(Broken::new("band", format!("at most {most} true tokens after a batch"), self.tokens_now().to_string()));
        }
        Ok(())
    }

    /// Everything masked in the window comes back by its call, byte for byte; an answer to an agent is bounded.
    fn masks_are_lossless(&mut self) -> Outcome {
        let Some(masking) = &self.masking else { return Ok(()) };
        for id in masking.masker.masked() {
            let Some(entry) = self.host.entry(id) else { continue };
            let Kind::Message(Role::ToolResult { call_id, .. }) = entry.kind() else {
                return Err(Broken::new("lossless", "tool results are masked, and nothing else", entry.line()));
            };
            let call = call_id.to_string_lossy();
            let given = masking.masker.recover(&call).map_err(|why| Broken::new("lossless", format!("the result of {call}"), why.to_string()))?;
            if !given.iter().any(|original| original.id == id && original.line == entry.line()) {
                return Err(Broken::new("lossless", format!("the line of {id}"), format!("{} other lines", given.len())));
            }
        }
        let newest = masking.masker.masked().last().and_then(|id| self.host.entry(id));
        if let Some(Kind::Message(Role::ToolResult { call_id, .. })) = newest.map(|entry| entry.kind()) {
            self.probes.hit("masked result recovered");
            let call = serde_json::json!({ "ids": [call_id.to_string_lossy()] }).to_string();
            match masking.masker.context_tree_query(&call) {
                Ok(given) if given.text.len() <= QUERY_BYTES + 1_000 => {}
                Ok(given) => return Err(Broken::new("lossless", "an answer of bounded length", format!("{} bytes", given.text.len()))),
                Err(why) => return Err(Broken::new("lossless", format!("an answer to {call}"), why.to_string())),
            }
        }
        Ok(())
    }

    /// Lets masking see what the host has written.
    fn catch_up_masker(&mut self) {
        let Some(masking) = &mut self.masking else { return };
        for entry in &self.host.branch()[masking.seen..] {
            let masked = |target: &str| masking.masker.masked().any(|id| id == target);
            match entry.kind() {
                Kind::ContextEdit { target, .. } if !entry.replacement().is_some_and(is_placeholder) => {
                    self.probes.when("foreign edit of a masked result", masked(target));
                }
                Kind::Compaction { .. } => self.probes.when("compaction of a masked session", masking.masker.masked().next().is_some()),
                _ => {}
            }
            masking.masker.observe(entry);
        }
        masking.seen = self.host.branch().len();
    }

    /// Opens masking on the branch as it is now.
    pub(super) fn open_masker(&mut self) -> Outcome {
        let (branch, window) = (self.host.branch(), self.model.context_window);
        let Some(masking) = &mut self.masking else { return Ok(()) };
        masking.masker = Masker::open(branch, &masking.settings, window).map_err(|why| Broken::new("resume", "thresholds apart", why))?;
        masking.seen = branch.len();
        self.probes.when("masked session opened again", masking.masker.masked().next().is_some());
        let decision = masking.masker.boundary();
        if self.deep { self.compare_mask("fork", &decision) } else { Ok(()) }
    }

    /// Masking opened from the journal is the one that lived through it.
    pub(super) fn masker_reopened(&mut self, invariant: &'static str) -> Outcome {
        self.catch_up_masker();
        let Some(masking) = &self.masking else { return Ok(()) };
        let opened = Masker::open(self.host.branch(), &masking.settings, self.model.context_window)
            .map_err(|why| Broken::new(invariant, "thresholds apart", why))?;
        let portrait = |masker: &Masker| (masker.occupancy(), masker.masked().map(str::to_owned).collect::<Vec<_>>(), masker.boundary());
        let (lived, read) = (portrait(&masking.masker), portrait(&opened));
        self.probes.hit("reopened masker compared");
        if lived != read {
            return Err(Broken::new(invariant, format!("{lived:?}"), format!("{read:?}")));
        }
        Ok(())
    }

    /// The decision is the one that the rules give on the same branch.
    fn compare_mask(&mut self, invariant: &'static str, decision: &Decision) -> Outcome {
        let Some(masking) = self.masking.as_ref().filter(|_| !self.without_reference) else { return Ok(()) };
        self.probes.hit("mask compared with the reference");
        let expected = reference::decide(self.host.branch(), &masking.settings, self.model.context_window);
        let target = |draft: &Draft| match draft {
            Draft::ContextEdit { target, .. } => target.clone(),
            other => format!("{other:?}"),
        };
        let seen = match decision {
            Decision::Quiet => Masked::Quiet,
            Decision::Deferred(deferral) => Masked::Deferred(deferral.reason().into()),
            Decision::Mask(batch) => Masked::Batch { results: batch.drafts.iter().map(target).collect(), after: batch.after },
        };
        if seen == expected { Ok(()) } else { Err(Broken::new(invariant, format!("{expected:?}"), format!("{seen:?}"))) }
    }
}
