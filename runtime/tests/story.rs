//! The session that `docs/how-it-works.md` follows: one result of a tool, from its line in the journal to its second copy.
//!
//! The session is built here by hand and by nothing random. Each block of the page that names a station has to stand, literally, in what
//! the code produces for it, so that the page cannot say what is no longer so.

use fold_runtime::agent::{Action, act};
use fold_runtime::config::Settings;
use fold_runtime::fold::{Unit, UnitKind, Units};
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::ports::{ObjectStore, StoreError};
use fold_runtime::session::{Commit, Decision, Draft, Moment, RecoverError, Session, Trigger};
use fold_runtime::window::{MessageContent, Size, projection};
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../docs/how-it-works.md");
/// Where a block of the page leaves something out.
const CUT: &str = "[...]";

/// Small enough that twelve batches fold twice. Nothing is clipped, so that folds alone are seen.
const SETTINGS: &str = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.75,"consolidateAfter":2,"minFoldChars":500},"toolFoldThreshold":0}"#;
const WINDOW: u64 = 10_000;

fn open(branch: &[Entry]) -> Session {
    Session::open(branch, &Settings::parse(SETTINGS).expect("settings"), WINDOW).expect("a session")
}

/// The host: writes entries one after the other.
#[derive(Default)]
struct Host {
    branch: Vec<Entry>,
}

impl Host {
    fn append(&mut self, kind: &str, id: &str, fields: &str) {
        let parent = self.branch.last().map_or("null".to_owned(), |leaf| format!("\"{}\"", leaf.id()));
        let line =
            format!(r#"{{"type":"{kind}","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:{:02}:00.000Z",{fields}}}"#, self.branch.len());
        self.branch.push(Entry::parse(&line).expect("an entry"));
    }

    /// One call and its result.
    fn batch(&mut self, n: usize, tool: &str, arguments: &str, says: &str) {
        let content = format!(r#"[{{"type":"toolCall","id":"call_{n}","name":"{tool}","arguments":{arguments}}}]"#);
        let call = format!(r#""message":{{"role":"assistant","content":{content},"stopReason":"toolUse"}}"#);
        self.append("message", &format!("a{n}"), &call);
        let content = format!(r#"[{{"type":"text","text":{}}}]"#, serde_json::Value::from(says));
        let fields = format!(r#""message":{{"role":"toolResult","toolCallId":"call_{n}","toolName":"{tool}","content":{content},"isError":false}}"#);
        self.append("message", &format!("r{n}"), &fields);
    }

    /// What a boundary decided, as the host writes it.
    fn write(&mut self, drafts: &[Draft]) {
        for draft in drafts {
            let id = format!("x{}", self.branch.len());
            match draft {
                Draft::CustomMessage { .. } => panic!("no notice was asked for"),
                Draft::Custom { custom_type, data } => self.append("custom", &id, &format!(r#""customType":"{custom_type}","data":{data}"#)),
                Draft::ContextEdit { target, replacement } => {
                    let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!(r#"{{"content":{content}}}"#));
                    self.append("context_edit", &id, &format!(r#""targetId":"{target}","replacement":{replacement}"#));
                }
            }
        }
    }
}

/// The whole session, and where it changed what is shown.
struct Story {
    branch: Vec<Entry>,
    /// Each commit with the batch it came after and the position of its record.
    commits: Vec<(usize, usize, Commit)>,
}

fn tell() -> Story {
    let mut host = Host::default();
    host.append("message", "u0", r#""message":{"role":"user","content":"Make the tests pass."}"#);
    let mut commits: Vec<(usize, usize, Commit)> = Vec::new();
    for n in 0..12 {
        match n {
            0 => host.batch(n, "bash", r#"{"command":"cargo test"}"#, &test_run()),
            1 => host.batch(n, "read", r#"{"path":"src/parser.rs","offset":1}"#, &source(280)),
            9 => {
                // The agent wants the test run back, by the id of the fold that hides it.
                let session = open(&host.branch);
                let fold = leaf(&commits[0].2);
                let call = format!(r#"{{"action":"peek","id":"{fold}"}}"#);
                let room = session.band().max_target - session.occupancy();
                let reply = act(&session, &Action::parse(&call).expect("a call"), None, room).expect("an answer");
                host.batch(n, "pi_fold_context", &call, &reply.text);
            }
            10 | 11 => host.batch(n, "edit", r#"{"path":"src/parser.rs","offset":77}"#, "Replaced 1 line."),
            _ => host.batch(n, "read", &format!(r#"{{"path":"src/part_{n}.rs","offset":1}}"#), &source(if n < 7 { 130 } else { 62 + (n - 6) * 9 })),
        }
        match open(&host.branch).boundary(Moment::TurnEnd) {
            Decision::Quiet => {}
            Decision::Commit(commit) => {
                let record = host.branch.len();
                host.write(&commit.drafts);
                commits.push((n, record, commit));
            }
            other => panic!("quiet or a commit after batch {n}, not {other:?}"),
        }
    }
    Story { branch: host.branch, commits }
}

fn test_run() -> String {
    let mut text = "$ cargo test\nrunning 48 tests\n".to_owned();
    for n in 0..48 {
        let verdict = if n == 31 { "FAILED" } else { "ok" };
        text.push_str(&format!("test parser::tests::case_{n:02}_reads_what_it_wrote ... {verdict}\n"));
    }
    text + "test result: FAILED. 47 passed; 1 failed\nerror: exit status 101"
}

fn source(lines: usize) -> String {
    (1..=lines).map(|n| format!("fn line_{n:03}() {{ step({n:03}); }}\n")).collect()
}

/// The one fold of a commit that makes one.
fn leaf(commit: &Commit) -> String {
    let Draft::Custom { data, .. } = &commit.drafts[0] else { panic!("the record comes first") };
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    data["folds"][0]["id"].as_str().expect("an id").to_owned()
}

/// What a request shows: entry, role, content. Contents that are laid over stand in the place of the branch's own.
fn request(branch: &[Entry], overlay: &[(&str, Option<&str>)]) -> String {
    let over: BTreeMap<&str, &Option<&str>> = overlay.iter().map(|(id, content)| (*id, content)).collect();
    let mut lines = Vec::new();
    for projected in projection(branch) {
        let id = projected.source.id();
        for message in projected.messages {
            let MessageContent::Content(content) = message.content else { panic!("a content") };
            match over.get(id) {
                None => lines.push(format!("{id} {} {}", message.role, content.raw())),
                Some(Some(content)) => lines.push(format!("{id} {} {content}", message.role)),
                Some(None) => {}
            }
        }
    }
    lines.join("\n")
}

/// The text of a content of one text block.
fn text(content: &str) -> String {
    let blocks: serde_json::Value = serde_json::from_str(content).expect("JSON");
    assert_eq!(blocks.as_array().map(Vec::len), Some(1), "one block: {content}");
    blocks[0]["text"].as_str().expect("a text").to_owned()
}

fn lines(entries: &[Entry]) -> String {
    entries.iter().map(Entry::line).collect::<Vec<_>>().join("\n")
}

fn replacement(draft: &Draft) -> &str {
    let Draft::ContextEdit { replacement: Some(content), .. } = draft else { panic!("a replacement, not {draft:?}") };
    content
}

/// The same branch with one line of the journal damaged.
fn damaged(branch: &[Entry], id: &str) -> Vec<Entry> {
    let spoilt = |entry: &Entry| Entry::parse(&entry.line().replace("FAILED", "passed")).expect("an entry");
    branch.iter().map(|entry| if entry.id() == id { spoilt(entry) } else { entry.clone() }).collect()
}

#[derive(Default)]
struct Copies(BTreeMap<Digest, Vec<u8>>);

impl ObjectStore for Copies {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.insert(digest, bytes.to_vec());
        Ok(())
    }
    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(&digest).cloned())
    }
}

#[test]
fn the_story_has_two_commits_and_a_retired_peek_and_each_changes_only_what_the_page_says() {
    let Story { branch, commits } = tell();
    let course: Vec<_> = commits.iter().map(|(n, _, commit)| (*n, commit.trigger, commit.folds, commit.parents, commit.drafts.len())).collect();
    assert_eq!(course, [(7, Trigger::Band, 1, 0, 2), (8, Trigger::Band, 2, 1, 4), (10, Trigger::Peek, 0, 0, 2)]);
    for (_, record, commit) in &commits {
        assert!(commit.left == 0 && commit.after <= commit.before);
        // Nothing changes before the first target.
        let targets: Vec<&str> = commit
            .drafts
            .iter()
            .filter_map(|draft| if let Draft::ContextEdit { target, .. } = draft { Some(target.as_str()) } else { None })
            .collect();
        let (before, after) = (request(&branch[..*record], &[]), request(&branch[..record + commit.drafts.len()], &[]));
        let changed = before.lines().zip(after.lines()).find(|(before, after)| before != after).expect("a change").0;
        assert!(targets.iter().any(|target| changed.starts_with(&format!("{target} "))), "{changed}");
    }
}

#[test]
fn the_record_holds_the_digests_of_the_original_and_of_what_is_shown_and_the_fold_is_called_by_its_parts() {
    let Story { branch, commits } = tell();
    let (_, record, commit) = &commits[0];
    let (record, digest) = (branch[*record].line(), branch[2].digest());
    let shown = replacement(&commit.drafts[1]);
    assert!(record.contains(&format!(r#""parts":[["r0","{digest}"]]"#)));
    assert!(record.contains(&format!(r#""sha256":"{}","bytes":{}"#, Digest::of(shown.as_bytes()), text(shown).len())));
    let name = Digest::of(format!("tool\n2:r0:{digest}").as_bytes()).to_string();
    assert_eq!(leaf(commit), format!("f_{}", &name[..12]));
    assert!(branch[commits[1].1].line().contains(&format!(r#"["{}","{name}"]"#, leaf(commit))), "a parent names its child by the whole digest");
    // A peek ends with a line that names the bytes before it; that line is what stays.
    let peeked = text(branch.iter().find(|entry| entry.id() == "r9").expect("the peek").content().raw());
    let (rendering, last) = peeked.rsplit_once('\n').expect("a last line");
    assert!(last.contains(&Digest::of(rendering.as_bytes()).to_string()) && rendering.ends_with(&test_run()));
    assert_eq!(text(replacement(&commits[2].2.drafts[1])), last);
}

#[test]
fn the_record_alone_shows_what_its_edits_show_and_the_next_boundary_writes_them() {
    let Story { branch, commits } = tell();
    for (_, record, commit) in &commits {
        let whole = &branch[..record + commit.drafts.len()];
        assert!(open(whole).overlay().is_empty());
        for written in 1..commit.drafts.len() {
            let torn = &branch[..record + written];
            let session = open(torn);
            assert_eq!(request(torn, &session.overlay()), request(whole, &[]));
            let Decision::Recovery(recovery) = session.boundary(Moment::TurnEnd) else { panic!("the rest") };
            assert_eq!(recovery.drafts, commit.drafts[written..]);
        }
    }
}

#[test]
fn the_original_comes_back_from_the_journal_at_any_depth_and_from_its_second_copy_when_that_is_damaged() {
    let Story { branch, commits } = tell();
    let (mut session, fold) = (open(&branch), leaf(&commits[0].2));
    let root = session.roots().next().expect("a root").0.to_owned();
    assert!(root != fold && session.children(&root).is_some_and(|children| children.contains(&fold.as_str())));
    for id in [&root, &fold] {
        let given = session.recover(id, None).expect("whole");
        assert!(given.iter().any(|original| original.line == branch[2].line() && !original.from_store));
    }
    let mut copies = Copies::default();
    assert_eq!(session.save(&mut copies).warning(), None);
    let session = open(&damaged(&branch, "r0"));
    assert_eq!(session.recover(&fold, None), Err(RecoverError::Damaged { fold: fold.clone(), entry: "r0".into() }));
    let given = session.recover(&fold, Some(&copies)).expect("the second copy");
    assert!(given.len() == 1 && given[0].from_store && given[0].line == branch[2].line());
}

/// What the code produces, station by station.
fn stations() -> BTreeMap<&'static str, String> {
    let Story { branch, commits } = tell();
    let [(_, one, first), (_, two, second), (_, three, third)] = &commits[..] else { panic!("three changes") };
    let r0 = &branch[2];
    let mut units = Units::default();
    let ripened: Vec<Unit> = branch[..4].iter().flat_map(|entry| units.observe(entry)).filter(|unit| unit.kind == UnitKind::Batch).collect();
    let session = open(&branch[..*one]);
    let figures = |commit: &Commit| {
        let Commit { trigger, before, target, after, folds, parents, .. } = commit;
        format!("{trigger:?}: {before} tokens, target {target}, after {after}; folds {folds}, parents {parents}")
    };
    let torn = open(&branch[..=*one]);
    let overlay = torn.overlay();
    let [(target, Some(content))] = &overlay[..] else { panic!("one promise") };
    let peeked = branch.iter().find(|entry| entry.id() == "r9").expect("the peek");
    let mut copies = Copies::default();
    assert_eq!(open(&branch).save(&mut copies).warning(), None);
    let lost = open(&damaged(&branch, "r0"));
    let fold = leaf(first);
    let refused = lost.recover(&fold, None).expect_err("damaged");
    let given = lost.recover(&fold, Some(&copies)).expect("the second copy");
    BTreeMap::from([
        ("settings", SETTINGS.to_owned()),
        ("journal", lines(&branch[1..3])),
        ("view", format!("{:?}\n{:?}\n{:?}", r0.kind(), r0.digest(), Size::of_original(r0))),
        ("request", request(&branch[..*one], &[])),
        ("unit", format!("{:?}", ripened[0])),
        ("mark", format!("{:?}", session.pending()[0])),
        ("decision", figures(first)),
        ("record", branch[*one].line().to_owned()),
        ("edit", branch[one + 1].line().to_owned()),
        ("placeholder", text(replacement(&first.drafts[1]))),
        ("request-folded", request(&branch[..one + 2], &[])),
        ("overlay", format!("{target} {content}")),
        ("consolidation", figures(second)),
        ("parent-record", branch[*two].line().to_owned()),
        ("parent-edits", lines(&branch[two + 1..two + 4])),
        ("parent", text(replacement(&second.drafts[1]))),
        ("peek", text(peeked.content().raw())),
        ("retired-record", branch[*three].line().to_owned()),
        ("retired", text(replacement(&third.drafts[1]))),
        ("request-last", request(&branch, &[])),
        ("damaged", refused.to_string()),
        ("recovered", format!("{} from_store={} {}", given[0].id, given[0].from_store, given[0].line)),
    ])
}

/// The blocks of the page that name a station: name and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (head, body) = after.split_once('\n').expect("a block has a first line");
        let (block, after) = body.split_once("\n```").expect("a block ends");
        blocks.extend(head.split_once(' ').map(|(_, station)| (station, block)));
        rest = after;
    }
    blocks
}

/// Whether a block is the text, but for what it says it leaves out.
fn shows(block: &str, text: &str) -> bool {
    let pieces: Vec<&str> = block.split(CUT).map(|piece| piece.trim_matches('\n')).collect();
    let mut rest = text;
    for (index, piece) in pieces.iter().enumerate() {
        let Some(at) = rest.find(piece) else { return false };
        if index == 0 && at > 0 {
            return false;
        }
        rest = &rest[at + piece.len()..];
    }
    pieces.last().is_none_or(|last| text.ends_with(last))
}

#[test]
fn every_block_of_the_page_stands_in_what_the_code_produces() {
    let stations = stations();
    let blocks = blocks(PAGE);
    for (station, block) in &blocks {
        let produced = stations.get(station).unwrap_or_else(|| panic!("the page names a station \"{station}\" that this test does not produce"));
        assert!(shows(block, produced), "the page shows for \"{station}\":\n{block}\n\nthe code produces:\n{produced}");
    }
    let named: Vec<&str> = blocks.iter().map(|(station, _)| *station).collect();
    let missing: Vec<_> = stations.keys().filter(|station| !named.contains(station)).collect();
    assert!(missing.is_empty() && named.len() == stations.len(), "stations that the page does not show once: {missing:?} of {named:?}");
}

#[test]
fn a_block_that_leaves_something_out_still_begins_and_ends_as_the_text_does() {
    assert!(shows("ab[...]ef", "abcdef") && shows("[...]cd[...]", "abcdef") && shows("a\n[...]\nf", "a\nb\nf"));
    assert!(!shows("abc", "abcdef") && !shows("b[...]f", "abcdef") && !shows("ab[...]e", "abcdef") && !shows("ax[...]f", "abcdef"));
}

#[test]
#[ignore = "prints every station whole, to write the page from"]
fn print_stations() {
    for (station, text) in stations() {
        println!("== {station}\n{text}\n");
    }
}
