//! A small world for the reference: a branch that grows by turns, and a host that appends what it is asked to.

use fold_invariants::reference::overlay;
use fold_runtime::journal::{Branch, Entry, Kind, Role};
use fold_runtime::session::{DECISION, Decided, Draft};
use fold_runtime::window::{Size, projection};

/// Id, tool and JSON arguments of a call.
pub type Call = (String, String, String);

/// A branch under construction.
#[derive(Clone)]
pub struct World {
    /// Root first.
    pub branch: Vec<Entry>,
    /// Tokens of system prompt and tools that no entry shows.
    pub overhead: u64,
    /// Bytes a token, in tenths.
    pub rate: u64,
    /// Who answers.
    pub model: &'static str,
    random: u64,
}

pub fn text(content: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json(content))
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("JSON")
}

/// That many bytes of lines.
pub fn lines(bytes: usize) -> String {
    "a line of output that says little\n".chars().cycle().take(bytes).collect()
}

impl World {
    pub fn new(seed: u64) -> Self {
        World { branch: Vec::new(), overhead: 1_000, rate: 33, model: "m", random: seed.wrapping_mul(2).wrapping_add(1) }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.random >> 33) % end as u64).expect("small")
    }

    /// True this often in a thousand.
    pub fn in_thousand(&mut self, times: usize) -> bool {
        self.below(1_000) < times
    }

    /// A further image block, this often in a thousand.
    pub fn image(&mut self, times: usize) -> &'static str {
        if self.in_thousand(times) { r#",{"type":"image","data":"AAAA","mimeType":"image/png"}"# } else { "" }
    }

    /// One of the last `most` entries in context where a compaction may cut; Pi never cuts before a result.
    pub fn cut(&mut self, most: usize) -> String {
        let starts = |entry: &&Entry| !matches!(entry.kind(), Kind::Message(Role::ToolResult { .. }));
        let context = projection(&self.branch);
        let context: Vec<String> = context.iter().map(|projected| projected.source).filter(starts).map(|entry| entry.id().to_owned()).collect();
        context[context.len() - 1 - self.below(context.len().min(most))].clone()
    }

    /// One of the last `most` entries, whatever it is: an edit may aim anywhere.
    pub fn any(&mut self, most: usize) -> String {
        let back = self.below(self.branch.len().min(most));
        self.branch[self.branch.len() - 1 - back].id().to_owned()
    }

    fn id(&self) -> String {
        format!("e{}", self.branch.len())
    }

    /// Appends an entry with these fields.
    pub fn entry(&mut self, fields: &str) -> String {
        let id = self.id();
        let parent = self.branch.last().map_or("null".to_owned(), |entry| json(entry.id()));
        self.branch.push(Entry::parse(&format!(r#"{{"id":"{id}","parentId":{parent},{fields}}}"#)).expect("an entry"));
        id
    }

    /// What an agent or a person decided.
    pub fn decision(&mut self, decided: &Decided) -> String {
        self.entry(&format!(r#""type":"custom","customType":"{DECISION}","data":{}"#, decided.data()))
    }

    pub fn message(&mut self, message: &str) -> String {
        self.entry(&format!(r#""type":"message","message":{message}"#))
    }

    pub fn user(&mut self, content: &str) -> String {
        self.message(&format!(r#"{{"role":"user","content":{}}}"#, json(content)))
    }

    pub fn custom(&mut self, content: &str) -> String {
        self.entry(&format!(r#""type":"custom_message","customType":"x","display":true,"content":{}"#, json(content)))
    }

    /// The branch as the host shows it: what is promised and not written stands over it.
    pub fn seen(&self) -> World {
        let mut seen = self.clone();
        let overlay = overlay(&self.branch).into_iter();
        seen.apply(&overlay.map(|(target, replacement)| Draft::ContextEdit { target, replacement }).collect::<Vec<Draft>>());
        seen
    }

    /// What the provider would count now.
    fn prompt(&self) -> u64 {
        let shown: Size = projection(&self.seen().branch).iter().map(Size::of).sum();
        self.overhead + shown.bytes * 10 / self.rate + shown.images * 1_200
    }

    /// An answer with a note and calls (id, tool, arguments), measured.
    pub fn answer(&mut self, note: &str, calls: &[Call]) -> String {
        let stop = if calls.is_empty() { "stop" } else { "toolUse" };
        self.answer_as(note, calls, stop, true)
    }

    /// The same with a stop reason, measured or not.
    pub fn answer_as(&mut self, note: &str, calls: &[Call], stop: &str, measured: bool) -> String {
        let call = |(id, tool, arguments): &Call| format!(r#"{{"type":"toolCall","id":"{id}","name":"{tool}","arguments":{arguments}}}"#);
        let note = (!note.is_empty()).then(|| text(note));
        let blocks: Vec<String> = note.into_iter().chain(calls.iter().map(call)).collect();
        let (input, output) = if measured { (self.prompt(), blocks.iter().map(String::len).sum::<usize>() / 4) } else { (0, 0) };
        let model = self.model;
        self.message(&format!(
            r#"{{"role":"assistant","provider":"p","model":"{model}","stopReason":"{stop}","content":[{}],"usage":{{"input":{input},"output":{output},"cacheRead":0,"cacheWrite":0}}}}"#,
            blocks.join(",")
        ))
    }

    pub fn result(&mut self, call: &str, tool: &str, blocks: &str, is_error: bool) -> String {
        self.message(&format!(r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"{tool}","isError":{is_error},"content":[{blocks}]}}"#))
    }

    /// One call with one result of this many bytes.
    pub fn step(&mut self, bytes: usize) -> String {
        let call = format!("c{}", self.branch.len());
        self.answer("", &[(call.clone(), "bash".to_owned(), format!(r#"{{"command":"make {call}"}}"#))]);
        self.result(&call, "bash", &text(&lines(bytes)), false)
    }

    /// Appends drafts as a host would.
    pub fn apply(&mut self, drafts: &[Draft]) {
        for draft in drafts {
            match draft {
                Draft::Custom { custom_type, data } => self.entry(&format!(r#""type":"custom","customType":"{custom_type}","data":{data}"#)),
                Draft::CustomMessage { custom_type, content } => {
                    self.entry(&format!(r#""type":"custom_message","customType":"{custom_type}","display":true,"content":{content}"#))
                }
                Draft::ContextEdit { target, replacement } => {
                    let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!(r#"{{"content":{content}}}"#));
                    self.entry(&format!(r#""type":"context_edit","targetId":{},"replacement":{replacement}"#, json(target)))
                }
            };
        }
        let tree = Branch::of(&self.branch);
        assert!(tree.problems.is_empty() && tree.entries.len() == self.branch.len(), "the branch stays a path");
    }
}
