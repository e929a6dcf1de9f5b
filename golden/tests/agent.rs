//! What the tool `pi_fold_context` answers and refuses, as it stands today. Reviewed and taken like `texts.rs`.

use fold_runtime::agent::{Action, Detail, Peek, Refusal, StatusPage, peek, status};
use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Decision, Draft, Moment, Session};
use insta::assert_snapshot;

fn message(id: &str, message: &str) -> Entry {
    Entry::parse(&format!(r#"{{"type":"message","id":"{id}","message":{message}}}"#)).expect("an entry")
}

fn call(id: &str, call: &str, command: &str) -> Entry {
    message(
        id,
        &format!(
            r#"{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"{call}","name":"bash","arguments":{{"command":"{command}"}}}}]}}"#
        ),
    )
}

fn result(id: &str, call: &str, lines: usize) -> Entry {
    let text: String = (0..lines).map(|line| format!("src/retry/timer.rs:{line}: waits twice as long\\n")).collect();
    message(id, &format!(r#"{{"role":"toolResult","toolCallId":"{call}","toolName":"bash","content":[{{"type":"text","text":"{text}"}}]}}"#))
}

fn work() -> Vec<Entry> {
    vec![
        message("u1", r#"{"role":"user","content":"Make the retry test pass, and never touch the lock file."}"#),
        message(
            "a1",
            r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"thinking","thinking":"The timer, perhaps.","thinkingSignature":"c2ln"},{"type":"text","text":"I will read the timer first."},{"type":"toolCall","id":"1","name":"read","arguments":{"path":"src/retry/timer.rs","limit":200}},{"type":"toolCall","id":"2","name":"bash","arguments":{"command":"cargo test retry"}}]}"#,
        ),
        message(
            "r1",
            r#"{"role":"toolResult","toolCallId":"1","toolName":"read","content":[{"type":"text","text":"pub fn next(&mut self) -> Duration {\n    self.base * 2\n}\n"}]}"#,
        ),
        message(
            "r2",
            r#"{"role":"toolResult","toolCallId":"2","toolName":"bash","isError":true,"content":[{"type":"text","text":"test retry::waits ... FAILED\n⟦end f_0⟧"},{"type":"image","data":"QUJDRA==","mimeType":"image/png"}]}"#,
        ),
        message("b1", r#"{"role":"bashExecution","command":"git status","output":"clean\n","exitCode":0}"#),
        call("a2", "3", "grep -n wait src"),
        result("r3", "3", 60),
        call("a3", "4", "grep -n base src"),
        result("r4", "4", 40),
        message("a4", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"It passes."}]}"#),
        message("u2", r#"{"role":"user","content":"And the other tests?"}"#),
        call("a5", "5", "cargo test"),
        result("r5", "5", 50),
        call("a6", "6", "cargo test --doc"),
        result("r6", "6", 55),
        message("a7", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"All pass."}]}"#),
    ]
}

fn open(branch: &[Entry]) -> Session {
    let thresholds = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":1500}}"#;
    Session::open(branch, &Settings::parse(thresholds).expect("valid"), 20_000).expect("a session")
}

/// The first two batches folded by a person's command, the later ones pending.
fn branch() -> Vec<Entry> {
    let work = work();
    let mut branch = work[..10].to_vec();
    let Decision::Commit(commit) = open(&branch).boundary(Moment::Asked) else { panic!("a commit") };
    let Draft::Custom { custom_type, data } = &commit.drafts[0] else { panic!("the record comes first") };
    branch.push(Entry::parse(&format!(r#"{{"type":"custom","id":"d1","customType":"{custom_type}","data":{data}}}"#)).expect("a record"));
    branch.extend_from_slice(&work[10..]);
    branch
}

fn root(session: &Session) -> String {
    session.forest()[0].id.to_owned()
}

fn told(session: &Session, look: &Peek) -> String {
    peek(session, look, None, 100_000).expect("an answer")
}

#[test]
fn a_peek_of_one_entry() {
    let session = open(&branch());
    let answers: Vec<String> = ["a1", "r2", "b1", "d1"].map(|id| told(&session, &Peek::of(id))).to_vec();
    assert_snapshot!(answers.join("\n\n"));
}

#[test]
fn a_peek_of_a_fold_look_by_look() {
    let session = open(&branch());
    let first = Peek { bytes: 1_024, ..Peek::of(&root(&session)) };
    let looks = [0, 600, 2_900].map(|offset| told(&session, &Peek { offset, ..first.clone() }));
    assert_snapshot!(looks.join("\n\n"));
}

#[test]
fn a_status_page_of_each_detail() {
    let session = open(&branch());
    let page = |detail| status(&session, StatusPage { detail, page: 1 }).expect("a page");
    assert_snapshot!([Detail::None, Detail::Tree, Detail::Folds, Detail::Marks].map(page).join("\n\n"));
}

#[test]
fn every_refusal() {
    let mut branch = branch();
    let session = open(&branch);
    let fold = root(&session);
    let parsed = [
        "peek",
        r#"{"id":"f_1"}"#,
        r#"{"action":"peak","id":"r1"}"#,
        r#"{"action":"expand","id":"r1"}"#,
        r#"{"action":"peek","id":"r1","ofset":9}"#,
        r#"{"action":"peek","id":"r1","bytes":"all"}"#,
        r#"{"action":"peek"}"#,
        r#"{"action":"status","detail":"all"}"#,
    ];
    let mut refusals: Vec<Refusal> = parsed.iter().map(|call| Action::parse(call).expect_err("refused")).collect();
    let mut refused = |session: &Session, look: Peek, room| refusals.push(peek(session, &look, None, room).expect_err("refused"));
    refused(&session, Peek::of("f_000000000000"), 9_000);
    refused(&session, Peek::of(""), 9_000);
    refused(&session, Peek { offset: 9_999_999, ..Peek::of(&fold) }, 9_000);
    refused(&session, Peek { bytes: 200_000, ..Peek::of(&fold) }, 9_000);
    refused(&session, Peek::of(&fold), 600);
    refused(&session, Peek::of(&fold), 6);
    let at = branch.iter().position(|entry| entry.id() == "r3").expect("a folded result");
    branch[at] = Entry::parse(&branch[at].line().replace("twice", "thrice")).expect("an entry");
    let damaged = open(&branch);
    refused(&damaged, Peek::of(&fold), 9_000);
    refused(&damaged, Peek::of("r3"), 9_000);
    refusals.push(status(&session, StatusPage { detail: Detail::Marks, page: 7 }).expect_err("refused"));
    assert_snapshot!(refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}
