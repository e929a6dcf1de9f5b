//! What an answer names of what was read before: paths and names in its calls and in its words, and whether the place they come from is still in sight.
//!
//! A recorded agent went on whatever an arm did with its window; where what it names was gone, a live one would have had to look for it, or to guess.
//! Only words that can hardly be made up twice count: twelve characters or more, with a slash, a dot, an underscore or a digit in them.

use super::World;
use fold_models::shown::Role;
use fold_runtime::journal::Entry;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Characters from which on a name is hardly made up twice.
const LONG: usize = 12;

/// Places of a name that are looked at, the newest first.
const PLACES: usize = 16;

/// Where each name was said, by position on the branch.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Vec<usize>>);

impl World<'_> {
    /// Where the sources of what this entry names are, before it is appended.
    pub(super) fn names(&mut self, entry: &Entry) {
        let said: BTreeSet<String> = names(entry);
        for name in said {
            let Some(places) = self.sources.0.get(&name) else { continue };
            let class = self.sight(&name, places);
            *self.report.sources.entry(class).or_insert(0) += 1;
        }
    }

    /// The leaf may be the source of what is named later.
    pub(super) fn becomes_a_source(&mut self) {
        let Some(at) = self.host.branch().len().checked_sub(1) else { return };
        for name in names(&self.host.branch()[at]) {
            let places = self.sources.0.entry(name).or_default();
            places.push(at);
            if places.len() > PLACES {
                places.remove(0);
            }
        }
    }

    fn sight(&self, name: &str, places: &[usize]) -> &'static str {
        let window = self.host.window();
        let shown = |at: usize| window.iter().find(|shown| shown.at == at);
        let says = |at: &usize| shown(*at).is_some_and(|shown| shown.content().contains(name));
        if places.iter().rev().any(says) {
            return "in sight";
        }
        let brief = |shown: &&std::sync::Arc<fold_models::shown::Shown>| shown.facts.placeholder || shown.role == Role::CompactionSummary;
        if window.iter().filter(brief).any(|shown| shown.content().contains(name)) {
            return "in a brief";
        }
        let Some(session) = &self.session else { return "out of sight" };
        let here = |at: &usize| {
            let id = self.host.branch().get(*at).map_or("", Entry::id);
            shown(*at).is_some() || session.roots().any(|(root, ..)| session.hidden(root).is_some_and(|hidden| hidden.contains(&id)))
        };
        if places.iter().rev().any(here) { "one call away" } else { "out of sight" }
    }
}

/// The names in what an entry says: of an answer its words and the arguments of its calls, of a result and of a person the text.
fn names(entry: &Entry) -> BTreeSet<String> {
    let content = serde_json::from_str::<Value>(entry.content().raw()).unwrap_or_default();
    let mut found = BTreeSet::new();
    collect(&content, &mut found);
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')));
            let telling = |name: &&str| name.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'/' | b'.' | b'_'));
            let trimmed = parts.map(|name| name.trim_matches(['.', '/', '-']));
            found.extend(trimmed.filter(|name| (LONG..200).contains(&name.len())).filter(telling).map(str::to_owned));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(fields) => {
            // Ids and pictures name nothing.
            let says = |name: &str| !matches!(name, "id" | "data" | "type" | "thinkingSignature" | "textSignature" | "thoughtSignature");
            fields.iter().filter(|(name, _)| says(name)).for_each(|(_, value)| collect(value, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_and_identifiers_and_no_plain_words() {
        let line = r#"{"type":"message","id":"a","message":{"role":"assistant","content":[{"type":"text","text":"Understandably I read (src/world/sources.rs).\n"},
            {"type":"toolCall","id":"call_0123456789ab","name":"read","arguments":{"path":"/home/me/notes_of_2026.md","limit":2000}}]}}"#;
        let found = names(&Entry::parse(&line.replace('\n', "")).expect("an entry"));
        assert_eq!(found, BTreeSet::from(["src/world/sources.rs".to_owned(), "home/me/notes_of_2026.md".to_owned()]));
    }
}
