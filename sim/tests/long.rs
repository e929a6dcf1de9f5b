//! A long session that was never folded: one commit, its edits spread over many boundaries, one rewrite.

use fold_models::agent::text::Shape;
use fold_models::agent::{Text, body};
use fold_models::host::{Answer, Host, ToolResult};
use fold_models::tokens::TokenModel;
use fold_runtime::config::Settings;
use fold_runtime::journal::Usage;
use fold_runtime::session::{Decision, Draft, Moment, Session};

const ENTRIES: usize = 20_000;

/// A step of an agent: a call and its result.
fn step(host: &mut Host, number: usize) {
    let call = format!(r#"[{{"type":"toolCall","id":"c{number}","name":"read","arguments":{{"path":"src/{number}.rs"}}}}]"#);
    host.assistant(&Answer { content: &call, stop: "toolUse", usage: Usage::default(), provider: "p", model: "m", error: None });
    let mut said = String::new();
    body::custom_message(Text { salt: number as u64, bytes: 200, shape: Shape::Source }, &mut said);
    let at = said.find("\"content\":").expect("a content") + 10;
    let end = said.rfind(",\"display\"").expect("an end");
    let content = format!(r#"[{{"type":"text","text":{}}}]"#, &said[at..end]);
    host.tool_result(&ToolResult { call_id: &format!("c{number}"), tool: "read", content: &content, is_error: false });
}

#[test]
fn a_session_of_twenty_thousand_entries_is_folded_by_one_record_and_rewritten_once() {
    let mut host = Host::new(1, 0, TokenModel::new(1, 0));
    host.user("\"go\"");
    for number in 0..ENTRIES / 2 {
        step(&mut host, number);
    }
    let settings = Settings::parse("{}").expect("the defaults");
    // Held to a fifth of what it grew to.
    let mut session = Session::open(host.branch(), &settings, 150_000).expect("a session");
    host.request();
    let unfolded: usize = host.branch().iter().map(|entry| entry.line().len() + 1).sum();
    let (mut seen, mut records, mut boundaries, mut rewrites, mut edits, mut hidden) = (host.branch().len(), 0, 0, 0, 0, 0);
    loop {
        boundaries += 1;
        let drafts = match session.boundary(Moment::TurnEnd) {
            Decision::Commit(commit) => {
                records += 1;
                hidden += commit.drafts.len() + commit.left - 1;
                commit.drafts
            }
            Decision::Recovery(recovery) => recovery.drafts,
            Decision::Quiet | Decision::Notice { .. } | Decision::Deferred(_) => break,
        };
        let written = drafts.iter().filter(|draft| matches!(draft, Draft::ContextEdit { .. })).count();
        assert!(written <= Moment::TurnEnd.edits(seen), "{written} edits at one boundary");
        edits += written;
        host.boundary(&drafts).expect("drafts that the host takes");
        host.branch()[seen..].iter().for_each(|entry| session.observe(entry));
        seen = host.branch().len();
        let overlay = session.overlay();
        host.lay_over(overlay.iter().map(|(id, content)| (*id, *content))).expect("an overlay");
        rewrites += usize::from(host.request().rewrites());
    }
    let grown = host.branch().iter().map(|entry| entry.line().len() + 1).sum::<usize>() - unfolded;
    println!("{ENTRIES} entries of {unfolded} bytes: {edits} edits at {boundaries} boundaries, the journal grew by {grown} bytes");
    assert_eq!((records, rewrites, edits), (1, 1, hidden));
    assert!(boundaries > 100 && session.unwritten() == 0, "{boundaries} boundaries");
    assert!(grown <= 320 * hidden, "{grown} bytes for {hidden} edits");
}
