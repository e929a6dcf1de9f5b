//! Facts that are asked for later: where each of them is at that moment, and what the agent does to have it again.
//!
//! | class | where the fact is |
//! |---|---|
//! | raw | in the window, as it was said, or in a copy of that |
//! | brief | in a placeholder or a summary |
//! | clipped | its entry is shown without it; the original is one call away |
//! | one peek | hidden by a fold or a mask whose placeholder is shown, and one look of the longest kind shows it |
//! | several peeks | the same, further down |
//! | absent | nowhere the agent can see or name |

use super::{Outcome, World};
use fold_models::agent::Text;
use fold_models::agent::text::{Shape, TELLS_A_FACT, fact};
use fold_models::shown::Shown;
use fold_runtime::agent::{Action, act};
use fold_runtime::journal::Entry;
use fold_runtime::mask::QUERY_TOOL;
use serde_json::{Value, json};

/// The longest look that one peek takes, in bytes.
const LONGEST_PEEK: u64 = 128_000;

/// A fact that was asked for.
struct Asked {
    /// The entry that states it.
    entry: String,
    /// The salt of its text.
    salt: u64,
    /// What it is.
    value: String,
    class: &'static str,
    /// The call that shows it again.
    look: Option<Look>,
}

/// A call of a policy's own tool.
enum Look {
    /// Of a fold or an entry.
    Peek(String),
    /// Of a masked result.
    Query(String),
}

impl World<'_> {
    /// The leaf's text may state a fact.
    pub(super) fn plant(&mut self, text: Text) {
        if text.shape == Shape::Fact && text.bytes >= TELLS_A_FACT {
            let entry = self.host.leaf().map_or(String::new(), |leaf| leaf.id().to_owned());
            self.planted.push((entry, text.salt));
        }
    }

    /// A person asks for facts: it is counted where they are, and the agent goes and gets what it cannot see.
    pub(super) fn question(&mut self, nth: &[u32]) -> Outcome {
        self.catch_up()?;
        let here = |(entry, _): &&(String, u64)| self.host.position(entry).is_some();
        let known: Vec<&(String, u64)> = self.planted.iter().filter(here).collect();
        let mut asked: Vec<Asked> = Vec::new();
        for nth in nth.iter().filter(|_| !known.is_empty()) {
            let (entry, salt) = known[*nth as usize % known.len()];
            if !asked.iter().any(|other| other.salt == *salt) {
                asked.push(self.sought(entry, *salt));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = asked.iter().map(|one| fact(one.salt).0).collect();
        let text = json!(format!("What did the runs find for {}?", keys.join(", ")));
        self.message(&format!("{{\"role\":\"user\",\"content\":{text},\"timestamp\":{}}}", self.now));
        for one in &asked {
            *self.report.facts.entry(one.class).or_insert(0) += 1;
            self.note = format!("{}{} is {}; ", self.note, fact(one.salt).0, one.class);
        }
        for one in asked {
            if self.ended {
                break;
            }
            self.gets(&one)?;
        }
        Ok(())
    }

    fn sought(&self, entry: &str, salt: u64) -> Asked {
        let value = fact(salt).1;
        let (class, look) = self.place(entry, &value);
        Asked { entry: entry.to_owned(), salt, value, class, look }
    }

    /// Where a fact is, and what an agent would have to name to see it.
    fn place(&self, entry: &str, value: &str) -> (&'static str, Option<Look>) {
        let window = self.host.window();
        let says = |shown: &&std::sync::Arc<Shown>| shown.content().contains(value);
        let is_brief = |shown: &Shown| shown.facts.placeholder || shown.role == fold_models::shown::Role::CompactionSummary;
        if let Some(shown) = window.iter().filter(says).min_by_key(|shown| is_brief(shown)) {
            return (if is_brief(shown) { "brief" } else { "raw" }, None);
        }
        let shown = window.iter().find(|shown| shown.source.id() == entry);
        if let Some(shown) = shown.filter(|_| self.masking.is_some()) {
            let query = json!({ "ids": [shown.facts.answers.to_string_lossy()] }).to_string();
            let (class, look) =
                if self.unmasks(&query).is_some_and(|text| text.contains(value)) { ("one peek", query) } else { return ("absent", None) };
            return (class, Some(Look::Query(look)));
        }
        if shown.is_some_and(|shown| !shown.facts.placeholder) {
            return ("clipped", Some(Look::Peek(peek(entry))));
        }
        let Some(session) = &self.session else { return ("absent", None) };
        let hides = |(id, ..): &(&str, u32, usize)| session.hidden(id).is_some_and(|hidden| hidden.contains(&entry));
        let Some((root, ..)) = session.roots().find(hides) else { return ("absent", None) };
        let look = |id: &str| Action::parse(&peek(id)).and_then(|action| act(session, &action, Some(&self.store), u64::MAX));
        for id in [root, entry] {
            if look(id).is_ok_and(|reply| reply.text.contains(value)) {
                return ("one peek", Some(Look::Peek(peek(id))));
            }
        }
        let recovered = session.recover(root, Some(&self.store));
        let whole = recovered.is_ok_and(|originals| originals.iter().any(|original| original.line.contains(value)));
        (if whole { "several peeks" } else { "absent" }, whole.then(|| Look::Peek(peek(entry))))
    }

    /// The agent sees it, recalls it, peeks at it, or reads its source again.
    fn gets(&mut self, one: &Asked) -> Outcome {
        if matches!(one.class, "raw" | "brief") {
            return Ok(());
        }
        // Half of what an agent sees it finds worth a note.
        if self.arm.has_store() && one.salt.is_multiple_of(2) {
            let Some(taken) = self.request()? else { return Ok(()) };
            let text = format!("noted earlier: {} is {}", fact(one.salt).0, one.value);
            self.counts("recalls", "tokens recalled", text.len() as u64);
            let query = json!({ "query": fact(one.salt).0 }).to_string();
            return self.exchange(taken, ("memory_recall", &query), (&text, false));
        }
        match &one.look {
            Some(Look::Peek(call)) if self.session.is_some() => {
                let seen = self.looks(call)?;
                self.counts("peeks for facts", "tokens peeked", seen.map_or(0, |text| text.len() as u64));
                return Ok(());
            }
            Some(Look::Query(call)) => {
                let Some(taken) = self.request()? else { return Ok(()) };
                let text = self.unmasks(call).unwrap_or_default();
                self.counts("peeks for facts", "tokens peeked", text.len() as u64);
                return self.exchange(taken, (QUERY_TOOL, call), (&text, false));
            }
            _ => {}
        }
        let Some(at) = self.host.position(&one.entry) else { return Ok(()) };
        let Some(taken) = self.request()? else { return Ok(()) };
        let text = words(&self.host.branch()[at]);
        self.counts("sources read again", "tokens read again", text.len() as u64);
        let call = json!({ "path": format!("target/runs/{}.log", fact(one.salt).0) }).to_string();
        self.exchange(taken, ("read", &call), (&text, false))
    }
}

fn peek(id: &str) -> String {
    json!({ "action": "peek", "id": id, "bytes": LONGEST_PEEK }).to_string()
}

/// What an entry's message says.
fn words(entry: &Entry) -> String {
    let content = serde_json::from_str::<Value>(entry.content().raw()).unwrap_or_default();
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    content.as_str().map_or_else(|| blocks.collect::<Vec<_>>().join("\n"), str::to_owned)
}
