//! The host and the wire against what real Pi 1.6.0 made of the same sessions (`models/pi/`, answered by `answer.mjs`).

use fold_models::host::Host;
use fold_models::shown::WireRole;
use fold_models::tokens::TokenModel;
use fold_models::wire::{Item, send};
use fold_runtime::journal::Journal;

#[derive(serde::Deserialize)]
struct Case {
    session: String,
    keep: u64,
    estimate: u64,
    plan: Option<(String, usize, usize, Option<String>)>,
    sent: String,
    system: Option<String>,
}

#[test]
fn estimate_cut_system_prompt_and_request_equal_real_pis() {
    let (mut cases, mut plans, mut split) = (0, 0, 0);
    for (line, json) in include_str!("../pi/sessions.jsonl").lines().enumerate() {
        let case: Case = serde_json::from_str(json).expect("a case");
        let journal = Journal::read(case.session.as_bytes()).expect("a session");
        let mut host = Host::open(1, 0, TokenModel::new(1, 0), &journal.entries).expect("a session of this model");
        assert_eq!(host.estimate(), case.estimate, "estimate of line {line}");
        let plan = host.plan_compaction(case.keep).map(|plan| (plan.first_kept, plan.history.len(), plan.turn_prefix.len(), plan.previous));
        assert_eq!(plan, case.plan, "cut of line {line}");
        let mut sent = String::new();
        send(host.window(), &mut |item| {
            sent.push(match item {
                Item::Synthetic(..) => 't',
                Item::Message(_, shown) => match shown.facts.wire {
                    WireRole::System => 's',
                    WireRole::User => 'u',
                    WireRole::Assistant => 'a',
                    WireRole::Tool => 't',
                    WireRole::Nothing => unreachable!("it does not leave"),
                },
            });
        });
        assert_eq!(sent, case.sent, "request of line {line}");
        let carried = host.compaction("summary", None).field("systemMessage").map(str::to_owned);
        assert_eq!(carried, case.system, "system prompt of line {line}");
        cases += 1;
        plans += usize::from(case.plan.is_some());
        split += usize::from(case.plan.is_some_and(|plan| plan.2 > 0));
    }
    assert!(cases >= 50 && plans >= 30 && split >= 15, "{cases} sessions, {plans} cuts, {split} inside a turn prove little");
}
