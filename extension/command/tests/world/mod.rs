//! A session that really was folded, in a folder of its own: what a host would have written, and the store beside it.

use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Decision, Draft, Moment, Session};
use fold_store::Store;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Small enough that twelve batches fold twice, and that two folds make a parent.
const SETTINGS: &str = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.75,"consolidateAfter":2,"minFoldChars":500},"toolFoldThreshold":0}"#;
/// Folds that hide the first result, one in another.
pub const AROUND: usize = 3;
const WINDOW: u64 = 10_000;
const HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#;

pub struct Folded {
    pub folder: PathBuf,
    pub branch: Vec<Entry>,
    pub session: Session,
}

pub fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pi-fold-command-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

/// The command, in a folder.
pub fn pi_fold(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pi-fold")).args(arguments).current_dir(folder).output().expect("it starts")
}

/// Everything it said.
pub fn screen(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Folded {
    /// Writes `session.jsonl` into a new folder.
    pub fn new(name: &str) -> Self {
        let mut folded = Folded {
            folder: folder(name),
            branch: Vec::new(),
            session: Session::open(&[], &Settings::parse(SETTINGS).expect("settings"), WINDOW).expect("a session"),
        };
        folded.append("message", "u0", r#""message":{"role":"user","content":"Make the tests pass."}"#);
        for n in 0..14 {
            folded.batch(n);
            let Decision::Commit(commit) = folded.session.boundary(Moment::TurnEnd) else { continue };
            for draft in &commit.drafts {
                folded.draft(draft);
            }
        }
        let lines: Vec<String> = folded.branch.iter().map(|entry| entry.line().to_owned()).collect();
        folded.write(&lines);
        assert!(folded.parent().is_some(), "the first result is folded, and its fold twice more");
        folded
    }

    /// Lines as a session file has them, in the place of what was there.
    pub fn write(&self, lines: &[String]) {
        std::fs::write(self.folder.join("session.jsonl"), format!("{HEADER}\n{}\n", lines.join("\n"))).expect("written");
    }

    /// The file with one entry's line made another.
    pub fn with(&self, id: &str, change: impl Fn(&str) -> String) {
        let line = |entry: &Entry| if entry.id() == id { change(entry.line()) } else { entry.line().to_owned() };
        let lines: Vec<String> = self.branch.iter().map(line).collect();
        assert!(lines.iter().zip(&self.branch).any(|(line, entry)| line != entry.line()), "something was changed");
        self.write(&lines);
    }

    /// Keeps second copies of everything that was folded.
    pub fn keep(&mut self) {
        let mut store = Store::open(&self.folder.join(fold_store::NAME)).expect("a store");
        assert_eq!(self.session.save(&mut store).warning(), None);
    }

    /// The largest fold that hides the first result, and the smallest: the first contains others that contain the second.
    pub fn parent(&self) -> Option<(String, String)> {
        let around = self.session.forest().into_iter().filter(|fold| self.session.hidden(fold.id).is_some_and(|ids| ids.contains(&"r0")));
        let around: Vec<_> = around.map(|fold| (fold.depth, fold.id.to_owned())).collect();
        let (largest, smallest) = (around.iter().max()?, around.iter().min()?);
        (largest.0 == 3 && smallest.0 == 1 && around.len() == AROUND).then(|| (largest.1.clone(), smallest.1.clone()))
    }

    /// The exact lines that a fold hides, as the session itself says.
    pub fn hidden(&self, fold: &str) -> String {
        let ids = self.session.hidden(fold).expect("a fold");
        let line = |id: &str| self.branch.iter().find(|entry| entry.id() == id).expect("an entry").line().to_owned() + "\n";
        ids.into_iter().map(line).collect()
    }

    /// A call and its result, with what JSON can escape in it.
    fn batch(&mut self, n: usize) {
        let content = format!(r#"[{{"type":"toolCall","id":"call_{n}","name":"bash","arguments":{{"command":"test {n}"}}}}]"#);
        // A provider that counts as the runtime does.
        let read = self.session.occupancy();
        let usage =
            format!(r#""usage":{{"input":10,"output":5,"cacheRead":{read},"cacheWrite":0,"totalTokens":{},"cost":{{"total":3e-7}}}}"#, read + 15);
        self.append("message", &format!("a{n}"), &format!(r#""message":{{"role":"assistant","content":{content},{usage},"stopReason":"toolUse"}}"#));
        let text = serde_json::Value::from(format!("größe {n} 😀\n\"{}\"", "line of output/".repeat(220)));
        let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
        let fields = format!(r#""message":{{"role":"toolResult","toolCallId":"call_{n}","toolName":"bash","content":{content},"isError":false}}"#);
        self.append("message", &format!("r{n}"), &fields);
    }

    fn draft(&mut self, draft: &Draft) {
        let id = format!("x{}", self.branch.len());
        let fields = draft.fields();
        let (kind, fields) = fields.strip_prefix("\"type\":\"").and_then(|rest| rest.split_once("\",")).expect("a type first");
        self.append(kind, &id, fields);
    }

    fn append(&mut self, kind: &str, id: &str, fields: &str) {
        let parent = self.branch.last().map_or("null".to_owned(), |leaf| format!("\"{}\"", leaf.id()));
        let minute = self.branch.len() % 60;
        let line = format!(r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:{minute:02}:00.000Z",{fields}}}"#);
        let entry = Entry::parse(&line).expect("an entry");
        self.session.observe(&entry);
        self.branch.push(entry);
    }
}

impl Drop for Folded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
