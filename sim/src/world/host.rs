//! What a person and the host do between turns: reopen, fork, go elsewhere, switch models, compact; and another extension.

use super::{Outcome, World, arms};
use crate::sabotage::Saboteur;
use fold_invariants::Broken;
use fold_invariants::window::{Cause, Change};
use fold_models::agent::Model;
use fold_models::host::{KEEP_RECENT, RESERVE, Summarize};
use fold_models::price::Used;
use fold_models::provider;
use fold_models::shown::Shown;
use fold_models::wire::Chain;
use fold_runtime::journal::{Kind, Role};
use fold_runtime::session::{Draft, Moment, Place};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl World<'_> {
    pub(super) fn resume(&mut self) -> Outcome {
        self.catch_up()?;
        self.reopened("resume")?;
        self.process_ends();
        self.open()
    }

    /// A person changes the settings: nothing that is shown changes, and the session is the one that opening its journal with them gives.
    pub(super) fn configure(&mut self, settings: &Value) -> Outcome {
        self.catch_up()?;
        self.settings = arms::settings(self.arm, settings).map_err(|refused| Broken::new("resume", "settings that can be read", refused))?;
        if let Some(recorder) = &mut self.recorder {
            recorder.settings = settings.to_string();
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        let shown: Vec<u64> = self.host.window().iter().map(|shown| shown.digest).collect();
        let (size, marks) = (session.shown(), session.marks());
        if !self.saboteur.as_ref().is_some_and(Saboteur::keeps_settings) {
            session.configure(&self.settings, self.model.context_window).map_err(|why| Broken::new("resume", "settings that are taken", why))?;
        }
        self.probes.when("settings changed in a folded session", self.report.commits > 0);
        self.probes.when("settings changed with marks pending", marks > 0);
        self.note = format!("{}settings {settings}; ", self.note);
        let resized = session.shown() != size;
        // Other settings may make room where there was none.
        self.committed.clear();
        self.lay_over()?;
        if resized || shown.iter().copied().ne(self.host.window().iter().map(|shown| shown.digest)) {
            return Err(Broken::new("quiet", "other settings change nothing that is shown", "another window"));
        }
        self.reopened("resume")
    }

    /// The host reports an internal error of the runtime: a person is told once, and nothing is done unasked from here on.
    pub(super) fn fails(&mut self) -> Outcome {
        self.catch_up()?;
        let Some(session) = &mut self.session else { return Ok(()) };
        self.faults.insert("host: internal error of the policy");
        let told = session.suspend("the plan says so");
        if told.is_some() == self.suspended {
            return Err(Broken::new("suspension", "a person is told once", format!("{told:?}")));
        }
        self.suspended = true;
        self.note = format!("{}{}; ", self.note, told.unwrap_or_else(|| "suspended already".to_owned()));
        self.probes.when("suspended with folds in the window", self.report.commits > 0);
        Ok(())
    }

    /// Whether Pi asks for its own compaction, by its threshold.
    pub(super) fn host_asks(&self) -> bool {
        self.host.over_threshold(self.model.context_window, self.reserve())
    }

    /// Tokens that Pi keeps free: a person on a small window sets the reserve in proportion.
    pub(super) fn reserve(&self) -> u64 {
        RESERVE.min(self.model.context_window / 5)
    }

    /// Tokens that a compaction keeps.
    pub(super) fn keep(&self) -> u64 {
        KEEP_RECENT.min(self.model.context_window / 4)
    }

    /// An entry so far back, where the branch may be cut: inside a commit's entries as well as anywhere else.
    fn cut(&self, back: u32) -> Option<String> {
        let last = self.host.branch().len().checked_sub(1)?;
        Some(self.host.branch()[last.saturating_sub(back as usize)].id().to_owned())
    }

    /// Whether the branch ends inside a commit: promises stand that no edit keeps.
    fn cut_inside(&mut self) {
        let inside = self.session.as_ref().is_some_and(|session| session.unwritten() > 0);
        self.probes.when("fork into a commit", inside);
    }

    pub(super) fn fork(&mut self, back: u32) -> Outcome {
        let Some(at) = self.cut(back) else { return Ok(()) };
        self.probes.when("fork of a folded session", self.report.commits > 0);
        self.host = self.host.fork(&at, self.hosts).map_err(|why| Broken::new("fork", "a fork", why))?;
        self.hosts += 1;
        self.moved("fork")
    }

    pub(super) fn tree(&mut self, back: u32) -> Outcome {
        let Some(at) = self.cut(back) else { return Ok(()) };
        self.probes.when("navigation in a folded session", self.report.commits > 0);
        self.host.tree(&at).map_err(|why| Broken::new("fork", "a navigation", why))?;
        self.moved("fork")
    }

    pub(super) fn moved(&mut self, invariant: &'static str) -> Outcome {
        self.changes.push(Change { cause: Cause::Navigation, targets: None });
        self.reported = None;
        self.unsent_commit = None;
        self.committed.clear();
        self.note = format!("{}{invariant}; ", self.note);
        self.same_window()?;
        self.open()?;
        self.cut_inside();
        if self.deep {
            let decision = self.session.as_ref().map(|session| session.boundary(Moment::TurnEnd));
            decision.iter().try_for_each(|decision| self.compare("fork", decision, Moment::TurnEnd))?;
            self.mapped()?;
        }
        Ok(())
    }

    /// What a person is shown of the window is what is in it.
    pub(super) fn mapped(&mut self) -> Outcome {
        let Some(session) = &self.session else { return Ok(()) };
        let folds = |shown: &Shown| self.folds.touches(shown.at);
        fold_invariants::map::tells(&session.map(), &session.gauge(), session.shown().weight(), self.host.window(), &folds)?;
        self.probes.when("map compared with the window", session.roots().next().is_some());
        Ok(())
    }

    /// The window that was kept from entry to entry is the one that Pi's projection gives.
    pub(super) fn same_window(&mut self) -> Outcome {
        self.probes.hit("incremental window compared");
        let made = self.host.rebuild();
        let digests = |window: &[Arc<Shown>]| window.iter().map(|shown| shown.digest).collect::<Vec<_>>();
        if digests(&made) == digests(self.host.window()) {
            return Ok(());
        }
        Err(Broken::new("resume", "a window kept by appends equals one made from nothing", "another one"))
    }

    pub(super) fn switch(&mut self, window_ppm: u32, model: Model) -> Outcome {
        let window = u64::try_from(u128::from(self.plan.window) * u128::from(window_ppm) / 1_000_000).unwrap_or(u64::MAX);
        self.host.model_change(model.provider(), model.id());
        self.voice = model;
        self.model = provider::Model { name: model.name(), context_window: window, max_output: self.model.max_output };
        self.chain = Chain::new(&self.model.name, self.plan.world.overhead_tokens);
        self.chain.update(self.host.last_request(), 0, self.host.token_model());
        self.probes.when("model switch in a folded session", self.report.commits > 0);
        self.reported = None;
        self.open()
    }

    /// Whether another extension found something to edit.
    pub(super) fn foreign_edit(&mut self, back: u32, omit: bool, replacement: &str) -> bool {
        let branch = self.host.branch();
        let Some(last) = branch.len().checked_sub(1) else { return false };
        // Another extension may come back to what it edited before.
        let again = self.fought.as_deref().filter(|_| back % 2 == 1).and_then(|id| self.host.position(id));
        let expanded = self.session.as_ref().filter(|_| back % 4 == 2).and_then(|session| {
            let open = session.forest().into_iter().find(|view| view.place == Place::Open)?;
            let inside = session.hidden(open.id)?;
            self.host.position(inside[back as usize % inside.len()])
        });
        let masked = self.masks_one(back as usize).filter(|_| back % 4 == 2);
        let at = again.or(expanded).or(masked).unwrap_or_else(|| last.saturating_sub(back as usize));
        let content = replacement.strip_prefix("{\"content\":").and_then(|rest| rest.strip_suffix('}'));
        // Another extension that tears a call from its result is a host's fault the wire would refuse; where a fold hides them it cannot know.
        let is_call = matches!(branch[at].kind(), Kind::Message(Role::Assistant(_) | Role::ToolResult { .. }));
        let folded = self.session.is_some() && self.folds.touches(at);
        if omit && is_call && !folded {
            return false;
        }
        let is_assistant = matches!(branch[at].kind(), Kind::Message(Role::Assistant(_)));
        let draft = Draft::ContextEdit { target: branch[at].id().to_owned(), replacement: content.filter(|_| !omit).map(str::to_owned) };
        let edited = !is_assistant && self.host.boundary(&[draft]).is_ok();
        if edited {
            self.probes.when("foreign edit of a folded session", self.report.commits > 0);
            self.probes.when("foreign edit of what a fold hides or carries", folded);
            if folded {
                self.fought = Some(self.host.branch()[at].id().to_owned());
            }
            let promised = self.session.as_ref().is_some_and(|session| session.overlay().iter().any(|(id, _)| *id == self.host.branch()[at].id()));
            self.probes.when("promise ended by a foreign edit", promised);
            self.reported = None;
            self.changes.push(Change { cause: Cause::ForeignEdit, targets: Some(BTreeSet::from([at])) });
        }
        edited
    }

    /// Pi's own compaction, by itself or because a person asks for it.
    pub(super) fn compact(&mut self, by_itself: bool) -> Outcome {
        let keep = self.keep();
        let (mut read, mut written) = (0, 0);
        let compacted = self.host.compact(keep, &mut |part: &Summarize<'_>| {
            read += part.messages.iter().map(|shown| shown.tokens).sum::<u64>() + 400;
            let summary = summary(part);
            written += summary.len() as u64 / 4;
            summary
        });
        if compacted.is_none() {
            return Ok(());
        }
        self.summarized += read;
        let used = Used { fresh: read, cached: 0, written: 0, output: written };
        if let Some(meters) = &mut self.meters {
            meters.beside(used);
        }
        self.bill(used);
        self.report.totals.requests -= 1;
        self.probes.when("compaction of a folded session", !by_itself && self.report.commits > 0);
        self.reported = None;
        self.unsent_commit = None;
        // The walk begins anew: what could not be folded may be now.
        self.committed.clear();
        self.changes.push(Change { cause: Cause::Compaction, targets: None });
        self.note = format!("{}compacted; ", self.note);
        self.same_window()?;
        // What is promised still is shown over what was kept.
        self.catch_up()
    }
}

/// What a summarizer makes of so many messages: about a twentieth of their length, from 200 bytes to 8,000.
fn summary(part: &Summarize<'_>) -> String {
    let bytes: u64 = part.messages.iter().map(|shown| shown.facts.bytes.text).sum();
    let length = usize::try_from((bytes / 20).clamp(200, 8_000)).unwrap_or(8_000);
    let mut text = format!("## Progress\n{} messages were summarized.\n", part.messages.len());
    while text.len() < length {
        text.push_str("- looked at a module, changed a function, ran the tests and read what they said\n");
    }
    text
}
