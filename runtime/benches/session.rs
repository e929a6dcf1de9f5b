//! What a turn, a commit and an open cost. `cargo xtask bench` runs these and prints the ratios that matter.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Branch, Entry, Journal};
use fold_runtime::session::{Decision, Draft, Moment, Session};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// Text with lines, paths and now and then an error, `bytes` long; as tools print it.
fn output(salt: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    let mut line = salt;
    while text.len() < bytes {
        line = line.wrapping_mul(25_214_903_917).wrapping_add(11);
        let verdict = if line.is_multiple_of(97) { "error: not found" } else { "ok" };
        text.push_str(&format!("src/module_{}/file_{}.rs:{}: {verdict}\\n", line % 31, line % 101, line % 1_009));
    }
    text.truncate(bytes);
    text.trim_end_matches('\\').to_owned()
}

fn question() -> String {
    r#"{"type":"message","id":"u0000000","parentId":null,"message":{"role":"user","content":"go"}}"#.to_owned()
}

/// A call and its result of `bytes`, as Pi writes them.
fn turn(index: usize, bytes: usize, prompt: u64) -> [String; 2] {
    let text = output(index, bytes);
    [
        format!(
            r#"{{"type":"message","id":"a{index:07}","parentId":"r{index:07}","timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"call_{index}","name":"read","arguments":{{"path":"src/file_{index}.rs"}}}}],"api":"openai-completions","provider":"openai","model":"m","usage":{{"input":{prompt},"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":{}}},"stopReason":"toolUse","timestamp":1767225600000}}}}"#,
            prompt + 20
        ),
        format!(
            r#"{{"type":"message","id":"r{index:07}","parentId":"a{index:07}","timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"toolResult","toolCallId":"call_{index}","toolName":"read","content":[{{"type":"text","text":"{text}"}}],"isError":false,"timestamp":1767225600000}}}}"#
        ),
    ]
}

fn entry(line: &str) -> Entry {
    Entry::parse(line).expect("an entry")
}

/// An endless turn of so many entries, folded on the way as a host would, and the lines of the turns that follow.
struct Grown {
    session: Session,
    turns: usize,
    drafted: usize,
    prompt: u64,
}

impl Grown {
    fn to(entries: usize, budget: u64) -> Self {
        let mut session = Session::open(&[], &Settings::default(), budget).expect("a session");
        session.observe(&entry(&question()));
        let mut grown = Grown { session, turns: 0, drafted: 0, prompt: 1_000 };
        let mut held = 1;
        while held < entries {
            let lines = grown.next();
            lines.iter().for_each(|entry| grown.session.observe(entry));
            held += 2 + grown.commit();
        }
        grown
    }

    fn next(&mut self) -> [Entry; 2] {
        self.turns += 1;
        turn(self.turns, 2_000, self.session.occupancy()).map(|line| entry(&line))
    }

    fn commit(&mut self) -> usize {
        let Decision::Commit(commit) = self.session.boundary(Moment::TurnEnd) else { return 0 };
        for draft in &commit.drafts {
            self.drafted += 1;
            self.session.observe(&written(draft, self.drafted));
        }
        self.prompt = self.session.occupancy();
        commit.drafts.len()
    }
}

fn written(draft: &Draft, number: usize) -> Entry {
    entry(&format!(r#"{{{},"id":"d{number:07}"}}"#, draft.fields()))
}

/// One turn (a call, its result, a boundary that stays quiet) in sessions of three lengths.
fn per_turn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn");
    group.measurement_time(Duration::from_secs(4));
    for entries in [200, 2_000, 20_000] {
        let mut grown = Grown::to(entries, 60_000);
        let start = grown.turns;
        group.bench_function(entries.to_string(), |bencher| {
            bencher.iter_custom(|turns| {
                let mut spent = Duration::ZERO;
                let mut quiet = 0;
                while quiet < turns {
                    if grown.turns > start + entries / 10 {
                        grown = Grown::to(entries, 60_000);
                    }
                    let next = grown.next();
                    let (took, stays_quiet) = timed(|| {
                        next.iter().for_each(|entry| grown.session.observe(entry));
                        matches!(black_box(grown.session.boundary(Moment::TurnEnd)), Decision::Quiet)
                    });
                    if stays_quiet {
                        spent += took;
                        quiet += 1;
                    } else {
                        grown.commit();
                    }
                }
                spent
            });
        });
    }
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures real time")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = std::time::Instant::now();
    let out = work();
    (start.elapsed(), out)
}

/// A boundary that commits so many folds at once; the originals are hashed within.
fn commit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    group.sample_size(20).measurement_time(Duration::from_secs(4));
    let settings = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.001,"consolidateAfter":10,"minFoldChars":8000}}"#;
    let settings = Settings::parse(settings).expect("settings");
    for (folds, bytes) in [(100, 8_500), (300, 8_700)] {
        let mut lines = vec![question()];
        lines.extend((0..=folds).flat_map(|index| turn(index, bytes, 1_000_000)));
        let window = 1_100_000;
        let open = || {
            let branch: Vec<Entry> = lines.iter().map(|line| entry(line)).collect();
            Session::open(&branch, &settings, window).expect("a session")
        };
        let Decision::Commit(commit) = open().boundary(Moment::TurnEnd) else { panic!("a commit of {folds} folds") };
        assert_eq!(commit.folds - commit.parents, folds, "leaves");
        group.bench_function(folds.to_string(), |bencher| {
            bencher.iter_batched(open, |session| black_box(session.boundary(Moment::TurnEnd)), BatchSize::PerIteration);
        });
    }
}

/// Entries as a typed parser would read them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "what is measured is the parsing")]
struct Typed {
    r#type: String,
    id: Option<String>,
    parent_id: Option<String>,
    message: Option<TypedMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "what is measured is the parsing")]
struct TypedMessage {
    role: String,
    content: Option<TypedContent>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    stop_reason: Option<String>,
    usage: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "what is measured is the parsing")]
enum TypedContent {
    Text(String),
    Blocks(Vec<TypedBlock>),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "what is measured is the parsing")]
struct TypedBlock {
    r#type: String,
    text: Option<String>,
    name: Option<String>,
    arguments: Option<serde_json::Value>,
}

/// Opening a journal of 10 MB against a typed parse and the SHA-256 of the same bytes.
fn open(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open");
    group.sample_size(20).measurement_time(Duration::from_secs(4));
    let mut file = String::from("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n");
    file.push_str(&question());
    file.push('\n');
    let mut index = 0;
    while file.len() < 10_000_000 {
        for line in turn(index, 2_000, 1_000) {
            file.push_str(&line);
            file.push('\n');
        }
        index += 1;
    }
    group.bench_function("session", |bencher| {
        bencher.iter_with_large_drop(|| {
            let journal = Journal::read(file.as_bytes()).expect("a session");
            let branch = Branch::of(&journal.entries);
            Session::open(&branch.entries, &Settings::default(), 100_000_000).expect("a session")
        });
    });
    group.bench_function("parse and hash", |bencher| {
        bencher.iter_with_large_drop(|| {
            let typed: Vec<Typed> = file.lines().map(|line| serde_json::from_str(line).expect("typed")).collect();
            (typed, Sha256::digest(file.as_bytes()))
        });
    });
}

criterion_group!(benches, per_turn, commit, open);
criterion_main!(benches);
