//! Compactions and retries that never end.

use crate::talk::{Talk, changed};
use crate::{must, seen_to_fail};
use fold_invariants::owed::Arm;
use fold_models::agent::text::Shape;
use fold_models::agent::{Answer, Call, IdStyle, Op, Outcome, Plan, Profile, Reply, Stop, Text, Tool, World, draw};
use fold_models::provider::usage;
use fold_runtime::journal::Entry;
use fold_runtime::session::{Decision, Moment};
use fold_sim::sabotage::Sabotage;
use fold_sim::world::{Options, run};
use serde_json::json;

const DEFAULTS: &str = "{}";

/// One turn of so many batches of so many bytes, in a window of 20,000 tokens of which `overhead` are gone before anybody speaks.
fn turn(overhead: u64, batches: u64, bytes: u64) -> Plan {
    let text = |salt, bytes, shape| Text { salt, bytes, shape };
    let batch = |salt| {
        let outcome = Outcome { text: text(salt, bytes, Shape::Log), split: false, error: false, images: 0 };
        let call = Call { salt, tool: Tool::Read, argument_bytes: 0, reply: Reply::Given(outcome) };
        Op::Answer(Answer { salt, thinking_bytes: 0, text_bytes: 40, stop: Stop::ToolUse, ids: IdStyle::Fresh, calls: vec![call], aside: None })
    };
    let even = draw(Profile::Steady, 0);
    let ops = std::iter::once(Op::User { text: text(1, 100, Shape::Prose), images: 0 }).chain((2..2 + batches).map(batch)).collect();
    let settings = json!({"thresholds": {"maxTarget": 0.8, "minTarget": 0.2, "consolidateAfter": 10, "minFoldChars": 600}, "toolFoldThreshold": 0});
    Plan { settings, window: 20_000, world: World { overhead_tokens: overhead, ..even.world }, ops, ..even }
}

/// opencode PR 48828 (issue 48827), kimi-code#2325 (PR 2498). What cannot be moved reaches the trigger alone, and every step is compacted.
/// Hardly more than a twentieth of the budget comes in here.
#[test]
fn an_overhead_that_reaches_the_trigger_alone_makes_no_commit_at_every_step() {
    seen_to_fail("commits", |planted| {
        let arm = if planted { Arm::FoldImmediate } else { Arm::Fold };
        let (run, _) = run(&turn(15_500, 8, 600), arm, Options::default())?;
        let report = &run.report;
        must(run.violation.is_none(), || format!("{:?}", run.violation))?;
        must(report.commits <= 1, || format!("{} commits in {} requests", report.commits, report.totals.requests))?;
        must(!report.deferrals.is_empty() && report.stops.is_empty(), || "nothing says why there was none".to_owned())
    });
}

/// The same reports, where the overhead leaves no room at all.
#[test]
fn an_overhead_that_leaves_no_room_is_refused_in_words_and_nothing_is_sent_any_more() {
    seen_to_fail("fence", |planted| {
        let sabotage = planted.then_some(Sabotage::SendsOverFence);
        let (run, _) = run(&turn(19_000, 12, 600), Arm::Fold, Options { sabotage, ..Options::default() })?;
        if let Some(broken) = run.violation {
            return Err(format!("{}: {}, {}", broken.invariant, broken.expected, broken.seen));
        }
        let report = &run.report;
        let told = report.stops.contains_key("the window is full");
        must(told && report.commits <= 1 && report.totals.requests <= 2, || format!("{report:?}"))
    });
}

/// How a provider says that a request is too large.
#[derive(Clone, Copy)]
enum Refusal {
    /// With an error.
    Error,
    /// With an answer that was cut off before its first word, at the end of the window.
    EmptyAnswer,
}

/// What came of a provider that refuses every request.
#[derive(Debug, Default)]
struct Attempts {
    requests: u32,
    commits: u32,
    compactions: u32,
    told: String,
}

/// A provider that refuses every request, and a host that does what the runtime says until it is told to stop; the summaries of its own
/// compaction are empty and take nothing away. `sees` is what the runtime reads in an entry's place.
fn refused_for_ever(talk: &mut Talk, refusal: Refusal, sees: impl Fn(&[Entry]) -> Vec<Entry>) -> Attempts {
    let first = talk.host.branch()[0].id().to_owned();
    let mut attempts = Attempts::default();
    while attempts.requests < 20 {
        attempts.requests += 1;
        let (stop, at) = match refusal {
            Refusal::Error => ("error", 0),
            Refusal::EmptyAnswer => ("length", talk.window - talk.window / 200),
        };
        talk.told = Some(usage(at, 0, 0, 0));
        let failed = talk.answers("[]", stop);
        talk.host.omit_attempt(&failed).expect("an attempt");
        let session = talk.seen(&sees(talk.host.branch()));
        match session.boundary(Moment::Refused) {
            Decision::Commit(commit) if commit.asks_again() => {
                attempts.commits += 1;
                talk.writes(&commit.drafts);
            }
            _ if session.lets_host_compact(Moment::Refused) => {
                attempts.compactions += 1;
                talk.host.compaction("", Some(&first));
                talk.lays_over();
            }
            _ => {
                attempts.told = session.refused_again();
                break;
            }
        }
    }
    attempts
}

/// One recovery, and then a person is told.
fn recovered_once(attempts: &Attempts) -> Result<(), String> {
    must(attempts.requests == 2 && attempts.commits + attempts.compactions == 1, || format!("it went on: {attempts:?}"))?;
    must(attempts.told.contains("not sent a third time"), || format!("nobody is told: {attempts:?}"))
}

/// A session in which there is much to fold.
fn foldable() -> Talk {
    let mut talk = Talk::new(DEFAULTS, 20_000);
    talk.asks("go");
    (0..6).for_each(|_| talk.batch(8_500));
    talk
}

/// A session in which there is nothing to fold.
fn unfoldable() -> Talk {
    let mut talk = Talk::new(DEFAULTS, 20_000);
    talk.asks(&"read all of this ".repeat(300));
    talk.says("that was much");
    talk.asks("go");
    talk
}

/// The branch without the attempts that failed.
fn without_failures(branch: &[Entry]) -> Vec<Entry> {
    branch.iter().map(|entry| changed(entry, "\"stopReason\":\"error\"", "\"stopReason\":\"aborted\"")).collect()
}

/// The branch with empty answers taken for answers.
fn with_empty_answers(branch: &[Entry]) -> Vec<Entry> {
    branch
        .iter()
        .map(
            |entry| {
                if entry.line().contains("\"stopReason\":\"length\"") {
                    changed(entry, "\"content\":[]", "\"content\":\"…\"")
                } else {
                    entry.clone()
                }
            },
        )
        .collect()
}

/// kilocode#13983: 408 empty compactions in some minutes. Nothing can be folded, and the host's own summary comes to nothing.
#[test]
fn a_compaction_of_the_hosts_that_makes_no_room_is_let_through_once() {
    seen_to_fail("it went on", |planted| {
        let attempts = refused_for_ever(&mut unfoldable(), Refusal::Error, |branch| if planted { without_failures(branch) } else { branch.to_vec() });
        must(attempts.compactions == 1, || format!("it went on: {attempts:?}"))?;
        recovered_once(&attempts)
    });
}

/// earendil-works/pi#6639. The provider cuts every answer off before its first word, with 99% of the window read; the guard takes that for an answer.
#[test]
fn an_answer_that_was_cut_off_before_its_first_word_is_recovered_from_once() {
    seen_to_fail("it went on", |planted| {
        let sees = |branch: &[Entry]| if planted { with_empty_answers(branch) } else { branch.to_vec() };
        let attempts = refused_for_ever(&mut foldable(), Refusal::EmptyAnswer, sees);
        must(attempts.commits >= 1, || format!("no commit: {attempts:?}"))?;
        recovered_once(&attempts)
    });
}

/// The same where only the host's own compaction is left.
#[test]
fn an_answer_that_was_cut_off_before_its_first_word_lets_the_hosts_compaction_through_once() {
    seen_to_fail("it went on", |planted| {
        let sees = |branch: &[Entry]| if planted { with_empty_answers(branch) } else { branch.to_vec() };
        recovered_once(&refused_for_ever(&mut unfoldable(), Refusal::EmptyAnswer, sees))
    });
}

/// openclaw#10613. Room was made, the request is refused again, and whoever counts attempts begins anew.
#[test]
fn a_request_that_is_refused_again_after_room_was_made_ends_the_run() {
    seen_to_fail("it went on", |planted| {
        let spoken = r#"{"type":"message","id":"spoken","message":{"role":"user","content":[]}}"#;
        let spoken = Entry::parse(spoken).expect("a message");
        let sees = |branch: &[Entry]| branch.iter().cloned().chain(planted.then(|| spoken.clone())).collect();
        recovered_once(&refused_for_ever(&mut foldable(), Refusal::Error, sees))
    });
}
