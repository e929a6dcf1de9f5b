//! What masking decides, read off the whole branch, and the rules that no batch may break.
//!
//! Written from the rules in the header of `fold_runtime::mask` and from nothing that it decides with. It shares the count of tokens with the reference
//! of folding, and with the runtime Pi's projection, sizes, and the words of a placeholder.

use super::meter::Meter;
use crate::Broken;
use fold_runtime::journal::{BlockKind, Entry, Kind, Role};
use fold_runtime::mask::{Settings, placeholder};
use fold_runtime::session::Draft;
use fold_runtime::window::{IMAGE_TOKENS, Size, projection};
use std::collections::{BTreeMap, BTreeSet};

/// What the rules say at a turn's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Masked {
    /// Below the trigger.
    Quiet,
    /// At the trigger, but nothing is done: `nothing to mask` or `below the floor`.
    Deferred(String),
    /// One batch.
    Batch {
        /// Ids of the results, the oldest first.
        results: Vec<String>,
        /// The occupancy it leaves, in tokens.
        after: u64,
    },
}

/// Trigger, target and floor, in tokens.
fn thresholds(settings: &Settings, window: u64) -> (u64, u64, u64) {
    let share = |ppm: u32| (u128::from(window) * u128::from(ppm) / 1_000_000) as u64;
    let trigger = settings.trigger_tokens.min(share(settings.trigger_ratio_ppm));
    let target = settings.target_tokens.min(share(settings.target_ratio_ppm));
    (trigger, target, settings.min_clear_tokens.min(trigger.saturating_sub(target)))
}

/// The verdict on a branch under a model with this context window, in tokens.
pub fn decide(branch: &[Entry], settings: &Settings, window: u64) -> Masked {
    let count = |branch: &[Entry]| Meter::of(branch, &BTreeMap::new());
    let (trigger, target, floor) = thresholds(settings, window);
    let meter = count(branch);
    let before = meter.tokens();
    if !settings.enabled || before < trigger {
        return Masked::Quiet;
    }
    let heavy = |at: &usize| {
        let size = Size::of_original(&branch[*at]);
        meter.rate_mean().tokens_at_least(size.bytes) + size.images * IMAGE_TOKENS >= settings.min_entry_tokens
    };
    let rules = Rules::of(branch, settings);
    let eligible: Vec<usize> = (0..branch.len()).filter(|at| rules.keeps(*at).is_none()).filter(heavy).collect();
    // The branch as it would be with so many of them masked, counted anew.
    let left = |results: usize| {
        let edits = eligible[..results].iter().map(|at| masked(&branch[*at]));
        count(&branch.iter().cloned().chain(edits).collect::<Vec<_>>()).tokens()
    };
    let enough = (1..=eligible.len()).find(|results| left(*results) <= target).unwrap_or(eligible.len());
    let after = left(enough);
    if enough == 0 {
        Masked::Deferred("nothing to mask".into())
    } else if before.saturating_sub(after) < floor {
        Masked::Deferred("below the floor".into())
    } else {
        Masked::Batch { results: eligible[..enough].iter().map(|at| branch[*at].id().to_owned()).collect(), after }
    }
}

/// The edit that masks a result.
fn masked(result: &Entry) -> Entry {
    let text = serde_json::Value::from(placeholder(result).unwrap_or_default());
    let (id, target) = (format!("mask of {}", result.id()), serde_json::Value::from(result.id()));
    let content = format!("[{{\"type\":\"text\",\"text\":{text}}}]");
    let line = format!("{{\"type\":\"context_edit\",\"id\":{id:?},\"targetId\":{target},\"replacement\":{{\"content\":{content}}}}}");
    Entry::parse(&line).expect("an edit is an entry")
}

/// What the rules look at, whatever an entry weighs in tokens.
struct Rules<'a> {
    branch: &'a [Entry],
    settings: &'a Settings,
    /// Entries that contribute to the window.
    shown: BTreeSet<&'a str>,
    edited: BTreeSet<&'a str>,
    /// Where the newest turns begin.
    recent: usize,
    /// The last word of a person or a tool.
    word: Option<usize>,
}

impl<'a> Rules<'a> {
    fn of(branch: &'a [Entry], settings: &'a Settings) -> Self {
        let shown: BTreeSet<&str> =
            projection(branch).into_iter().filter(|projected| !projected.messages.is_empty()).map(|projected| projected.source.id()).collect();
        let edits = branch.iter().filter_map(|entry| match entry.kind() {
            Kind::ContextEdit { target, .. } => Some(&**target),
            _ => None,
        });
        let turns: Vec<usize> = (0..branch.len()).filter(|at| branch[*at].is_good_answer() && shown.contains(branch[*at].id())).collect();
        let recent = turns.len().checked_sub(settings.keep_recent_turns).map_or(0, |first| turns[first]);
        let speaks = |at: &usize| matches!(branch[*at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }));
        let word = (0..branch.len()).rev().filter(speaks).find(|at| shown.contains(branch[*at].id()));
        Rules { branch, settings, edited: edits.collect(), shown, recent, word }
    }

    /// Why an entry stays as it is; `None` where no rule keeps it.
    fn keeps(&self, at: usize) -> Option<&'static str> {
        let entry = &self.branch[at];
        let Kind::Message(Role::ToolResult { tool, .. }) = entry.kind() else { return Some("is no tool result") };
        if !self.shown.contains(entry.id()) {
            Some("is not in the window")
        } else if self.edited.contains(entry.id()) {
            Some("was edited before")
        } else if self.settings.exclude_tools.contains(&tool.to_string_lossy()) {
            Some("is of an excluded tool")
        } else if at >= self.recent {
            Some("is in the newest turns")
        } else if self.word == Some(at) {
            Some("is what a request may end with")
        } else if self.reads_skill(at) {
            Some("is what a skill said")
        } else if placeholder(entry).is_none_or(|line| line.len() as u64 >= Size::of_original(entry).weight()) {
            Some("is no heavier than its line")
        } else {
            None
        }
    }

    fn reads_skill(&self, result: usize) -> bool {
        let Kind::Message(Role::ToolResult { call_id, .. }) = self.branch[result].kind() else { return false };
        let answer = self.branch[..result].iter().rfind(|entry| matches!(entry.kind(), Kind::Message(Role::Assistant(_))));
        let blocks = answer.map(|answer| answer.content().blocks()).unwrap_or_default();
        let calls = blocks.iter().filter(|block| block.kind == BlockKind::ToolCall).filter_map(|block| block.call());
        calls.filter(|(id, ..)| id == call_id).any(|(_, _, arguments)| {
            let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(arguments).unwrap_or_default();
            let path = |name: &str| fields.get(name).and_then(|path| path.as_str()).unwrap_or_default().replace('\\', "/");
            ["path", "file_path", "filePath"].into_iter().any(|name| path(name) == "SKILL.md" || path(name).ends_with("/SKILL.md"))
        })
    }
}

/// A batch that is about to be appended to a branch touches nothing that a rule keeps, and each of its edits is the placeholder of its target.
///
/// # Errors
/// [`Broken`]: `held` where a rule keeps a target, `attributed` for any other draft.
pub fn batch(branch: &[Entry], settings: &Settings, drafts: &[Draft]) -> Result<(), Broken> {
    let rules = Rules::of(branch, settings);
    let mut last = None;
    for draft in drafts {
        let Draft::ContextEdit { target, replacement: Some(content) } = draft else {
            return Err(Broken::new("attributed", "edits that replace a content, and nothing else", format!("{draft:?}")));
        };
        let at = branch.iter().position(|entry| entry.id() == target).unwrap_or(branch.len());
        if at == branch.len() || last.is_some_and(|last| last >= at) {
            return Err(Broken::new("attributed", "results of this branch, the oldest first, once each", format!("{target} after {last:?}")));
        }
        last = Some(at);
        if let Some(why) = rules.keeps(at) {
            return Err(Broken::new("held", "a batch of what no rule keeps", format!("{target} {why}")));
        }
        if masked(&branch[at]).replacement().is_none_or(|honest| honest.raw() != content) {
            return Err(Broken::new("attributed", format!("the line for {target}"), content.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch() -> Vec<Entry> {
        let mut lines = Vec::new();
        for turn in 0..4 {
            let tool = if turn == 1 { "ask" } else { "read" };
            lines.push(format!(r#"{{"type":"message","id":"a{turn}","message":{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"c{turn}","name":"{tool}","arguments":{{"path":"x/SKILL.{}"}}}}]}}}}"#, if turn == 0 { "md" } else { "txt" }));
            lines.push(format!(
                r#"{{"type":"message","id":"r{turn}","message":{{"role":"toolResult","toolCallId":"c{turn}","toolName":"{tool}","content":"{}"}}}}"#,
                "x".repeat(4_000)
            ));
        }
        lines.iter().map(|line| Entry::parse(line).expect("an entry")).collect()
    }

    fn settings() -> Settings {
        let exclude_tools = BTreeSet::from(["ask".to_owned()]);
        Settings { trigger_tokens: 2_000, target_tokens: 1_000, min_clear_tokens: 500, keep_recent_turns: 1, exclude_tools, ..Settings::default() }
    }

    fn drafts(branch: &[Entry], results: &[&str]) -> Vec<Draft> {
        let of = |id: &&str| branch.iter().find(|entry| entry.id() == *id).expect("an entry");
        let content = |result: &Entry| masked(result).replacement().expect("a replacement").raw().to_owned();
        results.iter().map(|id| Draft::ContextEdit { target: (*id).to_owned(), replacement: Some(content(of(id))) }).collect()
    }

    #[test]
    fn the_verdict_is_that_of_the_rules() {
        let Masked::Batch { results, after } = decide(&branch(), &settings(), 1_000_000) else { panic!("a batch") };
        assert_eq!(results, ["r2"]);
        assert!((3_000..3_100).contains(&after), "{after}");
    }

    #[test]
    fn each_kept_result_is_refused_by_its_rule() {
        let seen = |results: &[&str]| batch(&branch(), &settings(), &drafts(&branch(), results)).err().map(|broken| (broken.invariant, broken.seen));
        assert_eq!(seen(&["r2"]), None);
        for (result, why) in [("r0", "is what a skill said"), ("r1", "is of an excluded tool"), ("r3", "is in the newest turns")] {
            assert_eq!(seen(&[result]), Some(("held", format!("{result} {why}"))));
        }
        assert_eq!(seen(&["r2", "r2"]).map(|(invariant, _)| invariant), Some("attributed"));
    }

    #[test]
    fn what_was_masked_and_what_is_no_placeholder_is_refused() {
        let mut after = branch();
        after.push(masked(&branch()[5]));
        let broken = batch(&after, &settings(), &drafts(&branch(), &["r2"])).unwrap_err();
        assert_eq!((broken.invariant, broken.seen.as_str()), ("held", "r2 was edited before"));
        let other = [Draft::ContextEdit { target: "r2".into(), replacement: Some("[]".into()) }];
        assert_eq!(batch(&branch(), &settings(), &other).unwrap_err().invariant, "attributed");
        let omission = [Draft::ContextEdit { target: "r2".into(), replacement: None }];
        assert_eq!(batch(&branch(), &settings(), &omission).unwrap_err().invariant, "attributed");
    }
}
