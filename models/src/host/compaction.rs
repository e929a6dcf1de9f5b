//! Pi's own compaction: when it happens, where it cuts, what it asks to be summarized.
//!
//! All of it looks at Pi's own projection: what an extension shows over the branch is not in there.
//!
//! Pi counts four characters as a token from the last usage on, and does not scale its two constants to a small window: with one of 20,000
//! tokens it compacts at 3,616 and then keeps all it can.

use super::line::quote;
use super::{Host, plain_text};
use crate::shown::{Role, Shown, estimate_of_system};
use fold_runtime::journal::{Assistant, Entry, Kind, Role as EntryRole, StopReason};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens Pi keeps free.
pub const RESERVE: u64 = 16_384;

/// Tokens Pi keeps of the end of a branch.
pub const KEEP_RECENT: u64 = 20_000;

/// Which of Pi's summaries is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The turns before the kept range.
    History,
    /// The beginning of the turn whose end is kept.
    TurnPrefix,
}

/// One call of the summarizer.
#[derive(Clone, Copy, Debug)]
pub struct Summarize<'a> {
    /// Which summary.
    pub part: Part,
    /// The summary before, which this one goes on from.
    pub previous: Option<&'a str>,
    /// What is summarized.
    pub messages: &'a [Arc<Shown>],
}

/// What a compaction would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The first entry that is kept.
    pub first_kept: String,
    /// The turns before it.
    pub history: Vec<Arc<Shown>>,
    /// The beginning of the turn it cuts.
    pub turn_prefix: Vec<Arc<Shown>>,
    /// The summary that stands now.
    pub previous: Option<String>,
}

impl Host {
    /// Pi's estimate of the next request: the last usage and four characters a token from there; all of it in characters if anything
    /// changed what was shown since.
    pub fn estimate(&self) -> u64 {
        self.plain().estimate_of_window()
    }

    /// The session without what an extension shows over its branch.
    fn plain(&self) -> Cow<'_, Host> {
        if self.window.overlay().next().is_none() {
            return Cow::Borrowed(self);
        }
        let mut plain = self.clone();
        plain.lay_over([]).expect("nothing is refused where nothing is shown");
        Cow::Owned(plain)
    }

    fn estimate_of_window(&self) -> u64 {
        let trailing = |from: usize| self.window().iter().skip(from).map(|shown| shown.estimate).sum::<u64>();
        let usage = self.window().iter().enumerate().rev().find_map(|(index, shown)| Some((index, shown.at, usage_of(&shown.source)?)));
        match usage {
            Some((index, at, total)) if self.window.changed_at.is_none_or(|changed| at > changed) => total + trailing(index + 1),
            _ => self.whole_estimate(),
        }
    }

    /// Pi's estimate of every message. Several system messages count as the one they amount to.
    fn whole_estimate(&self) -> u64 {
        let systems: Vec<&Arc<Shown>> = self.window().iter().filter(|shown| shown.role == Role::System).collect();
        if systems.len() < 2 {
            return self.window.estimate;
        }
        let apart: u64 = systems.iter().map(|shown| shown.estimate).sum();
        self.window.estimate - apart + current_system(self.window(), 0).map_or(0, |json| estimate_of_system(&json))
    }

    /// Whether Pi would compact by itself: the estimate and the reserve do not fit into the window together.
    pub fn over_threshold(&self, context_window: u64, reserve: u64) -> bool {
        self.estimate().saturating_add(reserve) > context_window
    }

    /// What Pi would compact; `None` if there is nothing to summarize, or the leaf is a compaction.
    pub fn plan_compaction(&self, keep_recent: u64) -> Option<Compaction> {
        self.plain().plan_of_window(keep_recent)
    }

    fn plan_of_window(&self, keep_recent: u64) -> Option<Compaction> {
        if matches!(self.leaf()?.kind(), Kind::Compaction { .. }) {
            return None;
        }
        let context = self.context();
        let cut = cut(&context, keep_recent)?;
        let starts_turn = |at: usize| context[at].1.is_some_and(|shown| shown.starts_turn());
        let turn = if starts_turn(cut) { None } else { (0..=cut).rev().find(|at| starts_turn(*at)) };
        let messages = |from: usize, to: usize| {
            let shown = context[from..to].iter().filter_map(|(_, shown)| *shown).filter(|shown| shown.role != Role::System);
            shown.map(Arc::clone).collect::<Vec<_>>()
        };
        let history = messages(0, turn.unwrap_or(cut));
        let turn_prefix = turn.map_or(Vec::new(), |turn| messages(turn, cut));
        if history.is_empty() && turn_prefix.is_empty() {
            return None;
        }
        let previous = self.window().iter().find(|shown| shown.role == Role::CompactionSummary);
        let previous = previous.and_then(|shown| serde_json::from_str::<fold_runtime::journal::Text>(shown.content()).ok());
        Some(Compaction { first_kept: context[cut].0.id().to_owned(), history, turn_prefix, previous: previous.map(|text| text.to_string_lossy()) })
    }

    /// Compacts as Pi does, with somebody else's summaries. `None` if there was nothing to compact.
    pub fn compact(&mut self, keep_recent: u64, summarizer: &mut dyn FnMut(&Summarize<'_>) -> String) -> Option<Entry> {
        let plan = self.plan_compaction(keep_recent)?;
        let previous = plan.previous.as_deref();
        let mut history = || summarizer(&Summarize { part: Part::History, previous, messages: &plan.history });
        let summary = if plan.turn_prefix.is_empty() {
            history()
        } else {
            let history = if plan.history.is_empty() { previous.unwrap_or("No prior history.").to_owned() } else { history() };
            let prefix = summarizer(&Summarize { part: Part::TurnPrefix, previous: None, messages: &plan.turn_prefix });
            format!("{history}\n\n---\n\n**Turn Context (split turn):**\n\n{prefix}")
        };
        Some(self.compaction(&summary, Some(&plan.first_kept)).clone())
    }

    /// The entries in context after the compaction, each with the message it shows.
    fn context(&self) -> Vec<(&Entry, Option<&Arc<Shown>>)> {
        let from = if self.window.compaction.is_some() { self.window.kept_from } else { 0 };
        let positions = (from..self.branch().len()).filter(|at| Some(*at) != self.window.compaction && self.window.holds(self.branch(), *at));
        positions.map(|at| (&self.branch()[at], self.window.find(at).ok().map(|index| &self.window()[index]))).collect()
    }
}

/// The total of a usage Pi believes.
fn usage_of(entry: &Entry) -> Option<u64> {
    match entry.kind() {
        Kind::Message(EntryRole::Assistant(Assistant { stop, usage, .. })) if !matches!(stop, StopReason::Error | StopReason::Aborted) => {
            usage.map(|usage| usage.total)
        }
        _ => None,
    }
}

type InContext<'a> = (&'a Entry, Option<&'a Arc<Shown>>);

/// Where Pi cuts: walking back until `keep_recent` tokens are kept, at the nearest following message that is no tool result.
fn cut(context: &[InContext<'_>], keep_recent: u64) -> Option<usize> {
    if context.is_empty() {
        return None;
    }
    let may_begin = |shown: &Shown| !matches!(shown.role, Role::ToolResult | Role::System | Role::Other);
    let points: Vec<usize> =
        context.iter().enumerate().filter(|(_, (_, shown))| shown.is_some_and(|shown| may_begin(shown))).map(|(at, _)| at).collect();
    let Some(&last) = points.last() else { return Some(0) };
    let mut kept = 0;
    let reached = (0..context.len()).rev().find(|at| {
        kept += context[*at].1.map_or(0, |shown| shown.estimate);
        kept >= keep_recent && context[*at].1.is_some_and(|shown| shown.estimate > 0)
    });
    let mut cut = match reached {
        Some(at) => points.iter().copied().find(|point| *point >= at).unwrap_or(last),
        None => points[0],
    };
    if reached.is_some() && only_an_omitted_attempt(&context[cut + 1..]) {
        cut += 1;
    }
    // Entries that show nothing go with what follows them.
    while cut > 0 && context[cut - 1].1.is_none() && !matches!(context[cut - 1].0.kind(), Kind::Compaction { .. }) {
        cut -= 1;
    }
    Some(cut)
}

/// Whether nothing follows but a failed attempt that was omitted: then the last visible message is not worth keeping alone.
fn only_an_omitted_attempt(suffix: &[InContext<'_>]) -> bool {
    let visible = |entry: &Entry| matches!(entry.kind(), Kind::Message(_) | Kind::CustomMessage | Kind::BranchSummary | Kind::Compaction { .. });
    let omitted = |(entry, shown): &InContext<'_>| visible(entry) && shown.is_none();
    let omitted_ids: Vec<&str> = suffix.iter().filter(|item| omitted(item)).map(|(entry, _)| entry.id()).collect();
    let replaces_another =
        |(entry, _): &InContext<'_>| matches!(entry.kind(), Kind::ContextEdit { target, omits: false } if !omitted_ids.contains(&&**target));
    suffix.iter().any(|item| omitted(item) && matches!(item.0.kind(), Kind::Message(EntryRole::Assistant(_))))
        && !suffix.iter().any(replaces_another)
        && suffix.iter().all(|item| !matches!(item.0.kind(), Kind::Compaction { .. }) && (!visible(item.0) || omitted(item)))
}

/// The system prompt in force, as JSON, which a compaction carries on. Sections are replaced by name; tools are taken as they were added.
pub(super) fn current_system(window: &[Arc<Shown>], now_ms: u64) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut sections: Vec<(String, String)> = Vec::new();
    let mut tools: Vec<String> = Vec::new();
    let systems: Vec<&Arc<Shown>> = window.iter().filter(|shown| shown.role == Role::System).collect();
    if systems.is_empty() {
        return None;
    }
    for shown in systems {
        let carried = matches!(shown.source.kind(), Kind::Compaction { .. });
        let message = if carried { shown.content() } else { shown.source.field("message").unwrap_or("{}") };
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(message).unwrap_or_default();
        let text = if carried {
            fields.get("content").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        } else {
            plain_text(shown.source.content())
        };
        if !text.is_empty() {
            texts.push(text);
        }
        for (name, value) in ordered(fields.get("sections").map(|raw| raw.get())) {
            sections.retain(|(known, _)| *known != name || value != "null");
            match sections.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None if value != "null" => sections.push((name, value)),
                None => {}
            }
        }
        let added = fields.get("toolsAdded").and_then(|raw| raw.get().strip_prefix('[')?.strip_suffix(']')).unwrap_or("");
        if !added.is_empty() {
            tools.push(added.to_owned());
        }
    }
    let sections: Vec<String> = sections.into_iter().map(|(name, value)| format!("{}:{value}", quote(&name))).collect();
    let sections = if sections.is_empty() { String::new() } else { format!(",\"sections\":{{{}}}", sections.join(",")) };
    let tools = if tools.is_empty() { String::new() } else { format!(",\"toolsAdded\":[{}]", tools.join(",")) };
    Some(format!("{{\"role\":\"system\",\"content\":{}{sections}{tools},\"timestamp\":{now_ms}}}", quote(&texts.join("\n\n"))))
}

/// The fields of an object, in their order.
fn ordered(object: Option<&str>) -> Vec<(String, String)> {
    struct Fields(Vec<(String, String)>);
    impl<'de> serde::Deserialize<'de> for Fields {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Object;
            impl<'de> serde::de::Visitor<'de> for Object {
                type Value = Fields;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                    let mut fields = Vec::new();
                    while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                        fields.push((name, value.get().to_owned()));
                    }
                    Ok(Fields(fields))
                }
            }
            deserializer.deserialize_map(Object)
        }
    }
    object.and_then(|json| serde_json::from_str::<Fields>(json).ok()).map_or(Vec::new(), |fields| fields.0)
}
