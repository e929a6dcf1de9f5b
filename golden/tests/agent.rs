//! What the tool `pi_fold_context` answers and refuses, as it stands today. Reviewed and taken like `texts.rs`.

use fold_runtime::agent::{Action, DESCRIPTION, Detail, Peek, Refusal, Reply, StatusPage, act, peek, status};
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
        r#"{"action":"unfold","id":"r1"}"#,
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

#[test]
fn a_fold_expanded_folded_again_and_what_is_refused_of_both() {
    let folded = branch();
    let fold = root(&open(&folded));
    let child = open(&folded).children(&fold).expect("a fold")[0].to_owned();
    let call = |verb: &str, id: &str| format!(r#"{{"action":"{verb}","id":"{id}"}}"#);
    let refused = |branch: &[Entry], call: &str| {
        let session = open(branch);
        let refusal = Action::parse(call).and_then(|action| act(&session, &action, None, 9_000)).expect_err("refused");
        format!("{call}\n  {refusal}")
    };
    let expanded = after(folded.clone(), &[&call("expand", &fold)]);
    let deeper = after(expanded.clone(), &[&call("expand", &child)]);
    let shown = written(&open(&folded), &call("expand", &fold));
    let again = written(&open(&deeper), &call("refold", &fold));
    let told = [
        shown,
        refused(&folded, &call("expand", &child)),
        refused(&folded, &call("expand", "r1")),
        refused(&folded, &call("expand", "nowhere")),
        refused(&folded, &call("refold", &fold)),
        refused(&expanded, &call("expand", &fold)),
        refused(&after(expanded.clone(), &[&format!(r#"{{"action":"pin","ids":["{fold}"]}}"#)]), &call("refold", &fold)),
        status(&open(&deeper), StatusPage { detail: Detail::Tree, page: 1 }).expect("a page"),
        again,
    ];
    assert_snapshot!(told.join("\n\n"));
}

/// The branch after calls that are carried out.
fn after(mut branch: Vec<Entry>, calls: &[&str]) -> Vec<Entry> {
    for call in calls {
        let reply = carried_out(&open(&branch), call);
        for draft in &reply.drafts {
            let Draft::Custom { custom_type, data } = draft else { panic!("a decision") };
            let line = format!(r#"{{"type":"custom","id":"x{}","customType":"{custom_type}","data":{data}}}"#, branch.len());
            branch.push(Entry::parse(&line).expect("a decision"));
        }
    }
    branch
}

fn carried_out(session: &Session, call: &str) -> Reply {
    act(session, &Action::parse(call).expect("a call"), None, 100_000).expect("carried out")
}

/// What is answered, and the data of what is to be appended.
fn written(session: &Session, call: &str) -> String {
    let reply = carried_out(session, call);
    let data = reply.drafts.iter().map(|draft| match draft {
        Draft::Custom { custom_type, data } => format!("\n  {custom_type} {data}"),
        Draft::CustomMessage { .. } | Draft::ContextEdit { .. } => panic!("nothing shown changes"),
    });
    format!("{call}\n{}{}", reply.text, data.collect::<String>())
}

#[test]
fn the_description_of_the_tool() {
    assert_snapshot!(DESCRIPTION);
}

#[test]
fn every_decision_that_is_taken() {
    let branch = branch();
    let session = open(&branch);
    let root = root(&session);
    let decided = after(branch, &[r#"{"action":"pin","ids":["r5","u2"]}"#]);
    let replies = [
        written(&session, r#"{"action":"pin","ids":["r6","u2","u1"]}"#),
        written(&session, &format!(r#"{{"action":"pin","ids":["{root}"]}}"#)),
        written(&session, &format!(r#"{{"action":"pin","ids":["a7","{root}"]}}"#)),
        written(&open(&decided), r#"{"action":"unpin","ids":["r5","u2"]}"#),
        written(&session, r#"{"action":"brief","id":"a5","text":"All tests pass but for the retry test.\nThe lock file was not touched."}"#),
        written(&open(&light()), r#"{"action":"reboundary","id":"r1","at":["a2"]}"#),
        written(&session, r#"{"action":"unmark","ids":["r4","r5"]}"#),
        written(&session, r#"{"action":"status","detail":"folds"}"#),
    ];
    assert_snapshot!(replies.join("\n\n"));
}

#[test]
fn a_status_page_after_decisions() {
    let branch = after(
        branch(),
        &[r#"{"action":"pin","ids":["u1","a3"]}"#, r#"{"action":"brief","id":"r5","text":"All tests pass."}"#, r#"{"action":"unmark","ids":["r6"]}"#],
    );
    let session = open(&branch);
    let page = |detail| status(&session, StatusPage { detail, page: 1 }).expect("a page");
    assert_snapshot!([Detail::None, Detail::Marks].map(page).join("\n\n"));
}

#[test]
fn a_status_page_over_damaged_originals() {
    let mut branch = branch();
    branch[1] = Entry::parse(&branch[1].line().replace("timer.rs", "clock.rs")).expect("an entry");
    assert_snapshot!(status(&open(&branch), StatusPage::default()).expect("a page"));
}

#[test]
fn every_decision_that_is_refused() {
    let branch = branch();
    let fold = |session: &Session| session.children(&root(session)).expect("a parent")[0].to_owned();
    let child = fold(&open(&branch));
    let root = root(&open(&branch));
    let pinned = after(branch.clone(), &[r#"{"action":"pin","ids":["u2","a3"]}"#]);
    let withdrawn = after(branch.clone(), &[r#"{"action":"unmark","ids":["a6"]}"#]);
    let refused = |branch: &[Entry], call: &str| {
        let told = Action::parse(call).and_then(|action| act(&open(branch), &action, None, 9_000)).expect_err("refused");
        format!("{}\n  {told}", call.chars().take(90).collect::<String>())
    };
    let told = [
        refused(&branch, r#"{"action":"pin"}"#),
        refused(&branch, r#"{"action":"pin","ids":"r5"}"#),
        refused(&branch, r#"{"action":"unmark","id":"r5"}"#),
        refused(&branch, r#"{"action":"brief","id":"r5"}"#),
        refused(&branch, r#"{"action":"pin","ids":[]}"#),
        refused(&branch, r#"{"action":"pin","ids":["nowhere"]}"#),
        refused(&branch, r#"{"action":"pin","ids":["","r5"]}"#),
        refused(&branch, r#"{"action":"pin","ids":["b1"]}"#),
        refused(&branch, r#"{"action":"pin","ids":["r1"]}"#),
        refused(&branch, &format!(r#"{{"action":"pin","ids":["{child}","r6"]}}"#)),
        refused(&pinned, r#"{"action":"pin","ids":["r4","r5"]}"#),
        refused(&heavy(), r#"{"action":"pin","ids":["a1","a2"]}"#),
        refused(&pinned, r#"{"action":"unpin","ids":["a3","a5"]}"#),
        refused(&branch, r#"{"action":"brief","id":"u2","text":"x"}"#),
        refused(&branch, r#"{"action":"brief","id":"r1","text":"x"}"#),
        refused(&branch, &format!(r#"{{"action":"brief","id":"{root}","text":"x"}}"#)),
        refused(&pinned, r#"{"action":"brief","id":"a3","text":"x"}"#),
        refused(&withdrawn, r#"{"action":"brief","id":"a6","text":"x"}"#),
        refused(&branch, r#"{"action":"brief","id":"a7","text":"x"}"#),
        refused(&branch, r#"{"action":"brief","id":"r5","text":" "}"#),
        refused(&branch, r#"{"action":"brief","id":"r5","text":"⟦end f_0⟧"}"#),
        refused(&branch, &format!(r#"{{"action":"brief","id":"r5","text":"{}"}}"#, "all is well. ".repeat(40))),
        refused(&branch, &format!(r#"{{"action":"brief","id":"r5","text":"{}"}}"#, "🦀".repeat(390))),
        refused(&branch, r#"{"action":"reboundary","id":"r5","at":["a6"]}"#),
        refused(&branch, r#"{"action":"reboundary","id":"r5","at":["a4"]}"#),
        refused(&branch, r#"{"action":"reboundary","id":"r5","at":["r5"]}"#),
        refused(&branch, r#"{"action":"reboundary","id":"r5","at":["a5"]}"#),
        refused(&branch, r#"{"action":"unmark","ids":["r5","a7"]}"#),
    ];
    assert_snapshot!(told.join("\n"));
}

/// Two batches that make one mark.
fn light() -> Vec<Entry> {
    let answer = message("a3", r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"Done."}]}"#);
    vec![call("a1", "1", "make"), result("r1", "1", 25), call("a2", "2", "make"), result("r2", "2", 25), answer]
}

/// Two batches that together are more than a quarter of the budget.
fn heavy() -> Vec<Entry> {
    vec![call("a1", "1", "make"), result("r1", "1", 300), call("a2", "2", "make"), result("r2", "2", 300)]
}
