//! Our projection against what real Pi 1.6.0 made of the same files (`golden/pi/`, made by `generate.mjs`).

use fold_runtime::journal::{Branch, Journal};
use fold_runtime::window::{Message, MessageContent, projection};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Fixtures on which we differ from Pi, on purpose.
///
/// `leaf-without-id`: an entry of version 2 or 3 without an id cannot be addressed, so it is skipped and reported.
const KNOWN: [&str; 1] = ["leaf-without-id"];

#[derive(serde::Deserialize)]
struct Case<'a> {
    name: String,
    #[serde(borrow)]
    session: Vec<&'a RawValue>,
    #[serde(borrow)]
    expected: Vec<Expected<'a>>,
}

#[derive(serde::Deserialize)]
struct Expected<'a> {
    line: usize,
    role: String,
    /// Where the content holds a lone surrogate it comes as `content_json`, a string of JSON text.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    content_json: Option<String>,
}

/// JSON text with insignificant differences gone: key order and escapes. An unpaired surrogate becomes a visible mark of its own.
fn canonical(raw: &str) -> String {
    let mut marked = String::new();
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        marked.push_str(before);
        let length = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xd800..0xdc00), Some(0xdc00..)) => 12,
            (Some(unit), _) => {
                marked.push_str(&format!("<{unit:x}>"));
                rest = &escape[6..];
                continue;
            }
            (None, _) => 2,
        };
        marked.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    marked.push_str(rest);
    serde_json::from_str::<serde_json::Value>(&marked).map_or_else(|error| panic!("{error}: {raw}"), |value| value.to_string())
}

/// The surrogate that the text begins with an escape of.
fn surrogate(text: &str) -> Option<u32> {
    let unit = u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

fn content(message: &Message<'_>) -> String {
    let picked = |raw: &str, names: &[&str]| {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(raw).expect("an object");
        let fields: Vec<_> = names.iter().filter_map(|name| Some(format!("\"{name}\":{}", fields.get(*name)?))).collect();
        format!("{{{}}}", fields.join(","))
    };
    match message.content {
        MessageContent::Content(content) => content.raw().to_owned(),
        MessageContent::TextBlock(content) => format!("[{{\"type\":\"text\",\"text\":{}}}]", content.raw()),
        MessageContent::Summary(summary) => summary.to_owned(),
        MessageContent::Bash(raw) => {
            picked(raw, &["command", "output", "exitCode", "cancelled", "truncated", "fullOutputPath", "excludeFromContext"])
        }
        MessageContent::System(raw) => serde_json::from_str::<BTreeMap<String, &RawValue>>(raw).expect("an object")["content"].get().to_owned(),
    }
}

#[test]
fn the_projection_equals_real_pis_on_every_fixture() {
    let fixtures = include_str!("../pi/projection.jsonl");
    let (mut cases, mut messages, mut different) = (0, 0, Vec::new());
    for line in fixtures.lines() {
        let case: Case<'_> = serde_json::from_str(line).expect("a fixture");
        let session: Vec<String> = case.session.iter().map(|raw| serde_json::from_str(raw.get()).expect("a line")).collect();
        let journal = Journal::read(session.join("\n").as_bytes()).expect("a session");
        let numbers: BTreeMap<&str, usize> =
            journal.entries.iter().map(fold_runtime::journal::Entry::id).zip(journal.lines.iter().copied()).collect();
        let branch = Branch::of(&journal.entries);
        let window = projection(&branch.entries);
        let ours: Vec<_> = window
            .iter()
            .flat_map(|projected| {
                projected.messages.iter().map(|message| (numbers[projected.source.id()] - 1, message.role.clone(), canonical(&content(message))))
            })
            .collect();
        let pis: Vec<_> = case
            .expected
            .iter()
            .map(|expected| {
                (
                    expected.line,
                    expected.role.clone(),
                    canonical(expected.content_json.as_deref().unwrap_or_else(|| expected.content.expect("a content").get())),
                )
            })
            .collect();
        if ours != pis && !KNOWN.contains(&case.name.as_str()) {
            different.push(format!("{}\n  ours: {ours:?}\n  Pi's: {pis:?}", case.name));
        }
        cases += 1;
        messages += ours.len();
    }
    assert!(different.is_empty(), "{} fixtures differ:\n{}", different.len(), different.join("\n"));
    assert!(cases >= 100 && messages >= 500, "{cases} fixtures with {messages} messages prove little");
}
