//! Sessions written by hand: a host, the runtime at its boundaries, and nobody else. Four bytes are a token.

use fold_models::agent::text::{Shape, json_string};
use fold_models::host::{Answer, Host, ToolResult};
use fold_models::provider::usage;
use fold_models::shown::Shown;
use fold_models::tokens::TokenModel;
use fold_models::wire::validate;
use fold_runtime::config::Settings;
use fold_runtime::journal::{Entry, Usage};
use fold_runtime::session::{Commit, Decision, Draft, Moment, Session};
use std::sync::Arc;

/// Folds of several batches, parents of three; nothing is clipped.
pub const SPANS: &str = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":3,"minFoldChars":4000},"toolFoldThreshold":0}"#;

/// A session.
#[derive(Clone)]
pub struct Talk {
    pub host: Host,
    pub settings: Settings,
    pub window: u64,
    /// What every call is called; by its number if nothing.
    pub call: Option<&'static str>,
    /// What every answer cost; what it truly did if nothing.
    pub told: Option<Usage>,
    calls: u64,
}

impl Talk {
    pub fn new(settings: &str, window: u64) -> Self {
        Talk::with_overhead(1_000, settings, window)
    }

    /// With so many tokens of every request that stand in no entry.
    pub fn with_overhead(overhead: u64, settings: &str, window: u64) -> Self {
        let settings = Settings::parse(settings).expect("settings");
        Talk { host: Host::new(1, 0, TokenModel::constant(4_000, overhead)), settings, window, call: None, told: None, calls: 0 }
    }

    /// True tokens of a request that leaves now.
    pub fn tokens(&self) -> u64 {
        self.host.message_tokens() + self.host.token_model().overhead
    }

    // ---- what happens ---------------------------------------------------------------------------------------------------------------

    /// A person speaks.
    pub fn asks(&mut self, words: &str) -> String {
        self.host.user(&blocks(words)).id().to_owned()
    }

    /// The model answers; `content` is JSON.
    pub fn answers(&mut self, content: &str, stop: &str) -> String {
        let usage = self.told.unwrap_or_else(|| usage(self.tokens(), 0, 0, content.len() as u64 / 4));
        self.host.assistant(&Answer { content, stop, usage, provider: "p", model: "m", error: None }).id().to_owned()
    }

    /// The model answers in words.
    pub fn says(&mut self, words: &str) -> String {
        self.answers(&blocks(words), "stop")
    }

    /// The model calls.
    pub fn calls(&mut self, ids: &[&str], stop: &str) -> String {
        let calls: Vec<String> = ids.iter().map(|id| call(id)).collect();
        self.answers(&format!("[{}]", calls.join(",")), stop)
    }

    /// A tool answers; `words` is a JSON string.
    pub fn returns(&mut self, call_id: &str, tool: &str, words: &str) -> String {
        let content = format!(r#"[{{"type":"text","text":{words}}}]"#);
        self.host.tool_result(&ToolResult { call_id, tool, content: &content, is_error: false }).id().to_owned()
    }

    /// The model calls once, and so many bytes come back.
    pub fn batch(&mut self, bytes: u64) {
        self.calls += 1;
        let id = self.call.map_or_else(|| format!("call_{}", self.calls), str::to_owned);
        self.calls(&[&id], "toolUse");
        self.returns(&id, "read", &log(self.calls, bytes));
    }

    // ---- the runtime ----------------------------------------------------------------------------------------------------------------

    pub fn session(&self) -> Session {
        self.seen(self.host.branch())
    }

    /// A session that sees another branch than the host's.
    pub fn seen(&self, branch: &[Entry]) -> Session {
        Session::open(branch, &self.settings, self.window).expect("a session")
    }

    pub fn decides(&self, moment: Moment) -> Decision {
        self.session().boundary(moment)
    }

    /// Writes what was decided; what is promised and not written is shown over the branch.
    pub fn writes(&mut self, drafts: &[Draft]) {
        self.host.boundary(drafts).expect("drafts that the host takes");
        self.lays_over();
    }

    pub fn lays_over(&mut self) {
        let session = self.session();
        self.host.lay_over(session.overlay()).expect("an overlay");
    }

    /// Works on with results of so many bytes until the band asks for a commit, which is not written yet.
    pub fn until_due(&mut self, bytes: u64) -> Commit {
        for _ in 0..2_000 {
            self.batch(bytes);
            if let Decision::Commit(commit) = self.decides(Moment::TurnEnd) {
                return commit;
            }
        }
        panic!("no commit in 2,000 batches");
    }

    /// What a person's commit decides now; it is not written yet.
    pub fn asked(&self) -> Result<Commit, String> {
        match self.decides(Moment::Asked) {
            Decision::Commit(commit) => Ok(commit),
            other => Err(format!("a commit was asked for, and there was {other:?}")),
        }
    }

    /// Whether the request that leaves now would be taken.
    pub fn is_taken(&self) -> Result<(), String> {
        taken(self.host.window())
    }

    /// The message that an entry shows, if it shows one.
    pub fn shown(&self, id: &str) -> Option<&Arc<Shown>> {
        self.host.window().iter().find(|shown| shown.source.id() == id)
    }
}

pub fn taken(window: &[Arc<Shown>]) -> Result<(), String> {
    validate(window).map_err(|refused| refused.to_string())
}

/// A call of the tool `read`.
pub fn call(id: &str) -> String {
    format!(r#"{{"type":"toolCall","id":"{id}","name":"read","arguments":{{"path":"src/{id}.rs"}}}}"#)
}

/// Words as blocks.
pub fn blocks(words: &str) -> String {
    format!(r#"[{{"type":"text","text":{}}}]"#, serde_json::Value::from(words))
}

/// So many bytes of a log, as a JSON string.
pub fn log(salt: u64, bytes: u64) -> String {
    let mut words = String::new();
    json_string(salt, bytes, Shape::Log, &mut words);
    words
}

/// The text of a message.
pub fn words(shown: &Shown) -> String {
    let content: serde_json::Value = serde_json::from_str(shown.content()).unwrap_or_default();
    let texts = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The target of an edit.
pub fn target(draft: &Draft) -> Option<&str> {
    if let Draft::ContextEdit { target, .. } = draft { Some(target) } else { None }
}

/// An edit that omits an entry.
pub fn omission(target: &str) -> Draft {
    Draft::ContextEdit { target: target.to_owned(), replacement: None }
}

/// Whether a draft omits an entry.
pub fn omits(draft: &Draft) -> bool {
    matches!(draft, Draft::ContextEdit { replacement: None, .. })
}

/// The line of an entry with something else in it.
pub fn changed(entry: &Entry, from: &str, to: &str) -> Entry {
    Entry::parse(&entry.line().replace(from, to)).expect("an entry")
}
