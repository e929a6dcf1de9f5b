//! Small branches, said in words, and what a host writes of drafts.

use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Draft, Session};

/// One line, read.
pub fn entry(line: &str) -> Entry {
    Entry::parse(line).expect("an entry")
}

/// What the host writes of drafts, with ids that say where they stand.
pub fn written(drafts: &[Draft], from: usize) -> Vec<Entry> {
    let line = |(index, draft): (usize, &Draft)| format!(r#"{{{},"id":"d{}"}}"#, draft.fields(), from + index);
    drafts.iter().enumerate().map(line).map(|line| entry(&line)).collect()
}

/// A line per word: `u` a person's message, `c` custom, `s` system, `a` an answer, `b` a batch of one result, `B` of two, `i` a call whose
/// result is missing, `k` a compaction, `e` somebody else's edit. The number is the length of the text, or chooses what is kept or edited.
pub fn spoken(words: &[(char, usize)]) -> Vec<Entry> {
    let mut lines = Vec::new();
    let text = |bytes: usize| format!(r#"[{{"type":"text","text":"{}"}}]"#, "y".repeat(bytes));
    let message = |id: String, message: String| format!(r#"{{"type":"message","id":"{id}","message":{message}}}"#);
    let mut known = vec!["none".to_owned()];
    for (n, &(kind, bytes)) in words.iter().enumerate() {
        let other = known[bytes % known.len()].clone();
        let calls: Vec<String> = (0..if kind == 'B' { 2 } else { 1 })
            .map(|call| format!(r#"{{"type":"toolCall","id":"{n}-{call}","name":"t","arguments":{{"path":"f{n}"}}}}"#))
            .collect();
        match kind {
            'u' => lines.push(message(format!("u{n}"), format!(r#"{{"role":"user","content":{}}}"#, text(bytes)))),
            's' => lines.push(message(format!("s{n}"), format!(r#"{{"role":"system","content":{}}}"#, text(bytes)))),
            'k' => lines.push(format!(r#"{{"type":"compaction","id":"k{n}","summary":"so far","firstKeptEntryId":"{other}"}}"#)),
            'e' => lines.push(format!(r#"{{"type":"context_edit","id":"e{n}","targetId":"{other}","replacement":{{"content":"mine"}}}}"#)),
            'c' => lines.push(format!(r#"{{"type":"custom_message","id":"c{n}","customType":"x","content":{}}}"#, text(bytes))),
            'a' => lines.push(message(format!("a{n}"), format!(r#"{{"role":"assistant","stopReason":"stop","content":{}}}"#, text(bytes)))),
            _ => {
                lines.push(message(format!("a{n}"), format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{}]}}"#, calls.join(","))));
                let results = if kind == 'i' { 0 } else { calls.len() };
                lines.extend((0..results).map(|call| {
                    let result = format!(r#"{{"role":"toolResult","toolCallId":"{n}-{call}","toolName":"t","content":{}}}"#, text(bytes));
                    message(format!("r{n}-{call}"), result)
                }));
            }
        }
        known.extend(lines[known.len() - 1..].iter().map(|line| entry(line).id().to_owned()));
    }
    lines.iter().map(|line| entry(line)).collect()
}

/// A session with a small budget, small folds and groups of two.
pub fn small(branch: &[Entry]) -> Session {
    let settings = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":1500},"blacklistAutoFoldTools":[]}"#;
    Session::open(branch, &Settings::parse(settings).expect("valid"), 20_000).expect("a session")
}
