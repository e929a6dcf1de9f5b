//! Whether a request would be taken on every wire that the session may go on with, and whose fault it is where it would not.

use super::{Outcome, World, is_record};
use fold_invariants::Broken;
use fold_invariants::owed::owes;
use fold_models::agent::Model;
use fold_models::host::from_scratch;
use fold_models::shown::{Role as ShownRole, Shown};
use fold_models::wire::{Reader, Rule, Terms, WireError};
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::mask::is_placeholder;
use fold_runtime::session::{Decision, Moment, Session, Trigger};
use std::collections::BTreeSet;
use std::sync::Arc;

impl World<'_> {
    /// The request would be taken, by the model in force and by one on any other wire that the session may go on with; where it would not,
    /// the host alone is at fault.
    pub(super) fn validate(&mut self) -> Outcome {
        if !owes(self.arm, "wire_valid") {
            return Ok(());
        }
        self.probes.hit("request validated");
        let mut errors = self.reader.judge(self.host.window(), &self.terms());
        errors.sort_by_key(|error| error.wire != self.voice.wire());
        let mut without = None;
        for error in errors.into_iter().filter(|error| !NOT_OWED.contains(&error.rule)) {
            // Once the host's fault, a message stays it until we rewrite the window.
            let known = (error.wire, error.entry.clone(), error.rule);
            if self.excused.contains(&known) || self.excuses(&error, &mut without) || self.waits_for_repair() {
                self.excused.insert(known);
                self.probes.hit("request the host alone made invalid");
                continue;
            }
            return Err(Broken::new(
                "wire_valid",
                "a request that the provider takes, or one that it would not take without our edits either",
                format!("{:?}: {error}; {}", error.wire, self.around(error.index)),
            ));
        }
        Ok(())
    }

    /// What the request is sent under.
    pub(super) fn terms(&self) -> Terms {
        Terms::new(self.model.context_window)
    }

    /// Whether what another extension tore apart is put together by nobody, because folding is suspended.
    fn waits_for_repair(&self) -> bool {
        let opened = || Session::open(self.host.branch(), &self.settings, self.model.context_window).ok();
        let repairs = |session: Session| matches!(session.boundary(Moment::Request), Decision::Commit(commit) if commit.trigger == Trigger::Recovery);
        self.suspended && opened().is_some_and(repairs)
    }

    /// The messages around one, in short.
    pub(super) fn around(&self, index: usize) -> String {
        let near = self.host.window().iter().enumerate().skip(index.saturating_sub(5)).take(8);
        let short = |(at, shown): (usize, &Arc<Shown>)| {
            let calls: Vec<String> = shown.facts.calls.iter().map(|call| call.id.to_string_lossy()).collect();
            let ours = if shown.facts.placeholder {
                " placeholder"
            } else if shown.facts.edited {
                " edited"
            } else {
                ""
            };
            let (role, entry, answers) = (shown.role, shown.source.id(), shown.facts.answers.to_string_lossy());
            format!("{at} {role:?} {entry} [{}{answers}]{ours}", calls.join(" "))
        };
        near.map(short).collect::<Vec<_>>().join(", ")
    }

    /// Whether the window without our edits is refused for the same thing, on the same wire. That window is made when first asked for, and
    /// kept in `without`.
    pub(super) fn excuses(&self, error: &WireError, without: &mut Option<Vec<Arc<Shown>>>) -> bool {
        if is_its_own(error.rule) && !self.is_ours(&error.entry) {
            return true;
        }
        // Nothing of ours is there that could be at fault.
        if !self.host.branch().iter().any(is_record) {
            return true;
        }
        let window = without.get_or_insert_with(|| from_scratch(&without_ours(self.host.branch()), self.host.token_model()));
        let refuses = |window: &[Arc<Shown>]| {
            let errors = readers().judge(window, &self.terms());
            let same = |other: &WireError| other.entry == error.entry || error.rule == Rule::FirstNotUser;
            errors.iter().any(|other| (other.wire, other.rule) == (error.wire, error.rule) && same(other))
        };
        if depends_on_all(error.rule) {
            return refuses(window);
        }
        let Some(at) = window.iter().position(|shown| shown.source.id() == error.entry) else { return false };
        // Judged alone: an earlier fault of the host's, which a fold may hide, must not cover for this one.
        let answer = (0..=at).rev().find(|&before| window[before].role == ShownRole::Assistant).unwrap_or(at);
        let end = (at + 1..window.len()).find(|&after| window[after].role != ShownRole::ToolResult).unwrap_or(window.len());
        refuses(&window[answer..end])
    }

    pub(super) fn is_ours(&self, entry: &str) -> bool {
        self.host.window().iter().any(|shown| shown.source.id() == entry && shown.facts.placeholder)
    }
}

/// Rules that the law does not promise to keep everywhere: in about six of ten thousand sessions no user message is left before a call that a fold keeps.
/// Anthropic and Gemini refuse a request that begins with an answer, and Gemini a call behind one (`docs/deviations.md`).
pub(super) const NOT_OWED: [Rule; 2] = [Rule::FirstNotUser, Rule::CallTurn];

/// A reader that has read nothing, for the models that plans know.
pub(super) fn readers() -> Reader {
    Reader::new(&[Model::Anthropic, Model::Responses, Model::Chat, Model::Gemini].map(Model::name))
}

/// Whether a rule is about what only the host writes: an edit of ours changes no call and no reasoning, and hiding an id makes no other one
/// repeat it.
fn is_its_own(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::EmptyEdit
            | Rule::AssistantLast
            | Rule::NoMessages
            | Rule::ReusedId
            | Rule::ReusedItem
            | Rule::BadId
            | Rule::BrokenArguments
            | Rule::ReasoningAlone
            | Rule::Torn
    )
}

/// Whether a rule looks further back than to the answer before.
fn depends_on_all(rule: Rule) -> bool {
    matches!(rule, Rule::FirstNotUser | Rule::CallTurn | Rule::TooManyImages | Rule::TooManyMarkers | Rule::BodyTooLarge)
}

/// A branch as it would be if the runtime had never written; its entries leave their ids behind, which a compaction may name.
fn without_ours(branch: &[Entry]) -> Vec<Entry> {
    let mut promised: BTreeSet<String> = BTreeSet::new();
    let silent = |entry: &Entry| {
        let id = serde_json::Value::from(entry.id());
        Entry::parse(&format!("{{\"type\":\"label\",\"id\":{id}}}")).expect("a label is an entry")
    };
    let mut out = Vec::with_capacity(branch.len());
    for entry in branch {
        let ours = match entry.kind() {
            _ if is_record(entry) => {
                promised.extend(super::promised(entry));
                true
            }
            Kind::ContextEdit { target, omits } => {
                let content = entry.replacement().map_or(String::new(), |content| content.raw().to_owned());
                promised.contains(&**target) && (*omits || content.contains("pi-fold")) || entry.replacement().is_some_and(is_placeholder)
            }
            _ => false,
        };
        out.push(if ours { silent(entry) } else { entry.clone() });
    }
    out
}
