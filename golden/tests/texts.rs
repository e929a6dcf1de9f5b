//! Every text that a model or a person reads, as it stands today. A change here is a change of what is shown: review it, then take it
//! with `INSTA_UPDATE=always cargo test -p fold-golden`.

use fold_invariants::owed::Arm;
use fold_models::agent::{Profile, draw};
use fold_runtime::config::Settings;
use fold_runtime::fold::{Bound, Child, FoldKind, FoldName, brief, clip, gist, parent_brief, placeholder, result_line};
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::window::Band;
use fold_sim::run::trace;
use insta::assert_snapshot;

fn entry(id: &str, message: &str) -> Entry {
    Entry::parse(&format!(r#"{{"type":"message","id":"{id}","message":{message}}}"#)).expect("an entry")
}

fn run() -> [Entry; 4] {
    [
        entry("u1", r#"{"role":"user","content":"Make the retry test pass, and never touch the lock file."}"#),
        entry(
            "a1",
            r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"text","text":"The timer looks wrong.\nI will read it first.\n\nThen run the tests."},{"type":"toolCall","id":"1","name":"read","arguments":{"path":"src/retry/timer.rs","limit":200}},{"type":"toolCall","id":"2","name":"bash","arguments":{"command":"cargo test retry 2>&1 | tail -n 40"}}]}"#,
        ),
        entry(
            "r1",
            r#"{"role":"toolResult","toolCallId":"1","toolName":"read","content":[{"type":"text","text":"pub fn next(&mut self) -> Duration {\n    self.base * 2\n}"}]}"#,
        ),
        entry(
            "r2",
            r#"{"role":"toolResult","toolCallId":"2","toolName":"bash","isError":true,"content":[{"type":"text","text":"running 3 tests\ntest retry::waits ... FAILED\n⟦end f_0⟧ \u001b[31mred\u001b[0m\nerror: test failed\nexit code 101"},{"type":"image","data":"AA","mimeType":"image/png"}]}"#,
        ),
    ]
}

const ROOMY: Bound = Bound { chars: 2_000, bytes: 4_000 };

fn name() -> FoldName {
    FoldName::of(FoldKind::Span, [("a1", Digest::of(b"a1")), ("r1", Digest::of(b"r1"))], [])
}

#[test]
fn a_placeholder_of_a_span_with_a_hidden_user_message() {
    let run = run();
    let entries: Vec<&Entry> = run.iter().collect();
    let text = brief(&entries, &[&run[0]], ROOMY);
    assert_snapshot!(placeholder(&name().id(12), FoldKind::Span, 4, "u1", "r2", &text));
}

#[test]
fn a_brief_with_little_room() {
    let run = run();
    let entries: Vec<&Entry> = run.iter().collect();
    assert_snapshot!(brief(&entries, &[&run[0]], Bound { chars: 200, bytes: 240 }));
}

#[test]
fn a_placeholder_of_a_consolidation() {
    let run = run();
    let entries: Vec<&Entry> = run.iter().collect();
    let child =
        |digit: char, kind, entries_hidden| Child { id: format!("f_00000000000{digit}"), kind, entries: entries_hidden, gist: gist(&entries) };
    let children = [child('1', FoldKind::Tool, 1), child('2', FoldKind::Span, 7), child('3', FoldKind::Consolidated, 40)];
    let text = parent_brief(&children, &entries[1..2], &[], ROOMY);
    let crowded = parent_brief(&children, &[], &[], Bound { chars: 130, bytes: 160 });
    let both = format!("{}\n\nwith little room:\n{crowded}", placeholder(&name().id(14), FoldKind::Consolidated, 49, "a1", "r9", &text));
    assert_snapshot!(both);
}

#[test]
fn a_clip_and_a_result_line() {
    let text = "line of output\n".repeat(300);
    assert_snapshot!(format!("{}\n\n{}", clip(&text, "r1", 60, 30).expect("shorter"), result_line(&name().id(12))));
}

#[test]
fn refusals_of_settings_and_budgets() {
    let settings = r#"{"thresholds":{"maxTarget":0.2,"minTarget":0.8,"consolidateAfter":10,"minFoldChars":8000},"toolFoldTreshold":1,"providerInputBudget":0,"palette":{"map":"jet","start":0,"end":1}}"#;
    let mut lines = Settings::parse(settings).expect_err("refused");
    lines.push(Band::new(&Settings::default(), 9_999).expect_err("refused"));
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_whole_session_step_by_step() {
    let (run, steps) = trace(&draw(Profile::Steady, 3), Arm::Fold, None).expect("a session");
    assert_eq!(run.violation, None);
    let told: Vec<String> = steps
        .iter()
        .filter(|step| !step.note.is_empty())
        .map(|step| format!("{:>3} {} tokens, estimate {}: {}", step.op, step.tokens, step.occupancy, step.note))
        .collect();
    assert_snapshot!(format!("{}\n{}", told.join("\n"), run.digest));
}
