//! Bugs that were reported of other context managers, each as a test that fails when its cause is planted.
//!
//! Every test states one property and looks at it twice: in an honest run it holds, and with the reported cause planted the same property
//! fails, for the reason that is named ([`seen_to_fail`]). The reports are public; their numbers stand at the tests. A green run proves
//! that the causes that were planted are seen, not that there are no others.
//!
//! | where | what goes wrong |
//! |---|---|
//! | `pairing` | a call without its result, a result without its call |
//! | `loops` | compactions and retries that never end |
//! | `measure` | a decision by the wrong number |
//! | `unread` | text that is cut in the wrong place, words that are lost, pointers that lead nowhere |
//! | `journal` | sessions that are opened again and forked |
//! | `provider` | what a cache reads, and reasoning that is bound to what stands before it |
//! | `talk` | sessions written by hand |
//!
//! What was reported and is in no test here:
//! - notes and new windows (codex#43194, #43709, #43855, oh-my-pi#12316): nothing of that kind is built;
//! - a change of effort that loses the cached messages (claude-code#43657): effort is not modelled; that the bytes stay the same is tested;
//! - reasoning after a change of the model (opencode PR 14393): which model takes whose reasoning is the host's to know, and no model of a wire here does;
//! - more than four markers in a request (kern-ai#316): the host places the markers, and the model of a cache places three at most;
//! - text that is denser than it looks (oh-my-pi PR 6556): every drawn session has it, `fold_models::tokens` says how;
//! - a finished task that is done again (claude-code#7759, #24792): no model answers here; that a person's words stand in their order is tested.

mod journal;
mod loops;
mod measure;
mod pairing;
mod provider;
mod talk;
mod unread;

/// The honest run has the property, and with the cause planted it is lost for the reason that is expected.
fn seen_to_fail(expected: &str, property: impl Fn(bool) -> Result<(), String>) {
    if let Err(why) = property(false) {
        panic!("the honest run: {why}");
    }
    let why = property(true).expect_err("what was planted breaks nothing");
    assert!(why.contains(expected), "what was planted broke it for another reason than \"{expected}\": {why}");
    println!("planted: {why}");
}

/// A property that is stated as a condition.
fn must(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
