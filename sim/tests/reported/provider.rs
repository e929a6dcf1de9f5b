//! What a cache reads, and reasoning that is bound to what stands before it.

use crate::talk::{SPANS, Talk, blocks, call, log, omits, target};
use crate::{must, seen_to_fail};
use fold_models::agent::Geometry;
use fold_models::cache;
use fold_models::shown::Shown;
use fold_models::wire::Chain;
use fold_runtime::journal::{BlockKind, Entry, Kind, Role};
use fold_runtime::session::{Decision, Draft, Moment};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a line stands that is another one in every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// At the end of what a tool answered, where it was written once and stays.
    Written,
    /// In the system prompt.
    System,
    /// In the first message.
    First,
    /// In a message behind all others, which is not kept.
    Last,
}

/// The request of a window, behind a system prompt of this name.
fn request(system: &str, window: &[Arc<Shown>], talk: &Talk) -> Chain {
    let mut chain = Chain::new(system, talk.host.token_model().overhead);
    chain.update(window, 0, talk.host.token_model());
    chain
}

/// Forty turns below the band, to which nothing is done but appending: what is read of the last twenty requests, in hundredths.
fn read_of_forty_turns(geometry: Geometry, line: Line) -> Result<u64, String> {
    let mut cache = cache::of(geometry, 300_000, None);
    let mut talk = Talk::with_overhead(4_000, SPANS, 272_000);
    let first = talk.asks("go");
    let (mut read, mut sent) = (0, 0);
    for turn in 0..40_u64 {
        let volatile = format!("It is {turn} minutes past nine.");
        let mut system = "system".to_owned();
        let mut window = talk.host.window().to_vec();
        match line {
            Line::Written => {}
            Line::System => system.push_str(&volatile),
            Line::First => {
                let mut over = talk.clone();
                over.host.lay_over([(&*first, Some(&*blocks(&volatile)))])?;
                window = over.host.window().to_vec();
            }
            Line::Last => {
                let mut over = talk.clone();
                over.host.custom_message("reminder", &blocks(&volatile));
                window = over.host.window().to_vec();
            }
        }
        let chain = request(&system, &window, &talk);
        let served = cache.serve(&chain, turn * 60_000, turn * 60_000 + 700);
        if turn >= 20 {
            (read, sent) = (read + served.read, sent + chain.tokens());
        }
        let id = format!("call_{turn}");
        talk.calls(&[&id], "toolUse");
        let suffix = if line == Line::Written { &*volatile } else { "" };
        talk.returns(&id, "read", &log(turn, 3_000).replacen('"', &format!("\"{suffix}"), 1));
        let decision = talk.decides(Moment::TurnEnd);
        must(decision == Decision::Quiet, || format!("something is done at turn {turn}: {decision:?}"))?;
    }
    Ok(read * 100 / sent)
}

/// DCP#410, context-mode#822 and #1007 (18% were read, and over 90% without), pi-lens#1016 (at index 0), SynapsCLI#81, oh-my-pi#11897 and
/// #12392 (a line at the end takes the markers with it), the-last-harness#468 and #469 (the system prompt). What is written once and stays
/// costs no cache anything; at the end it costs those that hold only what a request ended with.
#[test]
fn a_line_that_changes_with_every_request_costs_what_the_cache_holds_behind_it() {
    for geometry in Geometry::ALL {
        let reads = |line: Line| {
            let read = read_of_forty_turns(geometry, line)?;
            must(read >= 85, || format!("{read}% are read of {geometry:?} with the line in {line:?}"))
        };
        let by_ends = matches!(geometry, Geometry::Ends | Geometry::Markers | Geometry::MarkersForAnHour | Geometry::SpareMarker);
        for line in [Line::System, Line::First, Line::Last] {
            if line == Line::Last && !by_ends {
                assert_eq!(reads(line), Ok(()));
            } else {
                seen_to_fail("% are read", |planted| reads(if planted { line } else { Line::Written }));
            }
        }
    }
}

/// redpanda ai-sdk-go#205, tidebreak#1154. Twelve calls at once lie further apart than twenty blocks, and one marker that moves along finds
/// nothing; the spare one behind the folds does.
#[test]
fn twelve_calls_at_once_lose_no_more_than_what_stands_behind_the_last_fold() {
    seen_to_fail("0 of", |planted| {
        let geometry = if planted { Geometry::Markers } else { Geometry::SpareMarker };
        let mut cache = cache::of(geometry, 300_000, None);
        let mut talk = Talk::with_overhead(900, SPANS, 20_000);
        talk.asks("go");
        let commit = talk.until_due(1_500);
        talk.writes(&commit.drafts);
        cache.serve(&request("system", talk.host.window(), &talk), 0, 700);
        let ids: Vec<String> = (0..12).map(|nth| format!("parallel_{nth}")).collect();
        talk.calls(&ids.iter().map(String::as_str).collect::<Vec<_>>(), "toolUse");
        for (nth, id) in (0..).zip(&ids) {
            talk.returns(id, "read", &log(nth, 400));
        }
        let chain = request("system", talk.host.window(), &talk);
        let folds = chain.links().iter().rfind(|link| link.placeholder).ok_or("no fold")?.tokens;
        let read = cache.serve(&chain, 10_000, 10_700).read;
        must(read >= folds, || format!("{read} of {} tokens are read, and the folds end at {folds}", chain.tokens()))
    });
}

/// A session in which every answer carries reasoning that its provider signed, up to the first commit.
struct Signed {
    talk: Talk,
    /// What the commit would append.
    drafts: Vec<Draft>,
    /// What stood before each answer when it was signed.
    bound: BTreeMap<String, u64>,
}

fn signed() -> Result<Signed, String> {
    let mut talk = Talk::new(SPANS, 20_000);
    let mut bound = BTreeMap::new();
    talk.asks("go");
    for number in 0..60 {
        let before = request("system", talk.host.window(), &talk).links().last().ok_or("no request")?.hash;
        let id = format!("thought_{number}");
        let thought = format!(r#"{{"type":"thinking","thinking":"file {number} is next","thinkingSignature":"c2ln{number:04}"}}"#);
        bound.insert(talk.answers(&format!("[{thought},{}]", call(&id)), "toolUse"), before);
        talk.returns(&id, "read", &log(number, 1_500));
        if let Decision::Commit(commit) = talk.decides(Moment::TurnEnd) {
            return Ok(Signed { talk, drafts: commit.drafts, bound });
        }
    }
    Err("no commit".to_owned())
}

/// Answers whose reasoning the next request carries no more: those that it leaves out, and those before which something else stands than
/// when they were signed.
fn lost(talk: &Talk, bound: &BTreeMap<String, u64>) -> u64 {
    let window = talk.host.window();
    let chain = request("system", window, talk);
    let kept = window.iter().zip(chain.links()).filter(|(shown, before)| bound.get(shown.source.id()) == Some(&before.hash)).count();
    (bound.len() - kept) as u64
}

/// claude-code#13012, #12311, #63448, #64066, magic-context (which stripped the newest reasoning where the provider named the earliest).
/// Providers bind reasoning to what stands before it; what an edit loses of it is told, all of it and at once.
#[test]
fn what_a_commit_loses_of_signed_reasoning_is_told_with_the_commit() {
    seen_to_fail("are told of", |planted| {
        let Signed { mut talk, drafts, bound } = signed()?;
        must(lost(&talk, &bound) == 0, || "something is lost by appending".to_owned())?;
        if planted {
            // The window is rewritten on its way out, and the journal does not know.
            let edits = drafts.iter().filter_map(|draft| match draft {
                Draft::ContextEdit { target, replacement } => Some((target.as_str(), replacement.as_deref())),
                _ => None,
            });
            talk.host.lay_over(edits)?;
        } else {
            talk.writes(&drafts);
        }
        let (told, lost) = (talk.session().misses().unsigned, lost(&talk, &bound));
        must(lost >= 8, || format!("only {lost} are lost"))?;
        must(told == lost, || format!("{told} are told of, {lost} are lost"))
    });
}

/// continue#11994 and #12056, dotcraft#260 and #263. On the wire of Responses a reasoning item stands directly before the item that it led
/// to, and that one never without it.
#[test]
fn reasoning_and_the_call_it_led_to_are_folded_together() {
    seen_to_fail("without its reasoning", |planted| {
        let Signed { mut talk, mut drafts, .. } = signed()?;
        if planted {
            // What was thought is old, what was called is still needed.
            let carrier = drafts.iter().filter(|draft| !omits(draft)).find_map(target).ok_or("no carrier")?;
            let asked = &talk.host.branch()[talk.host.position(carrier).ok_or("no carrier")? - 1];
            let call = asked.content().blocks().into_iter().rfind(|block| block.kind == BlockKind::ToolCall).ok_or("no call")?;
            drafts.push(Draft::ContextEdit { target: asked.id().to_owned(), replacement: Some(format!("[{}]", call.raw())) });
        }
        talk.host.boundary(&drafts)?;
        talk.is_taken()?;
        talk.host.window().iter().try_for_each(|shown| whole_items(shown.content(), &shown.source))
    });
}

/// Whether the items of an answer are those it was given with: reasoning, and directly behind it what it led to.
fn whole_items(shown: &str, original: &Entry) -> Result<(), String> {
    if !matches!(original.kind(), Kind::Message(Role::Assistant(_))) {
        return Ok(());
    }
    let kinds = |content: &str| -> Vec<String> {
        let blocks: serde_json::Value = serde_json::from_str(content).unwrap_or_default();
        blocks.as_array().into_iter().flatten().filter_map(|block| Some(block["type"].as_str()?.to_owned())).collect()
    };
    let (now, then) = (kinds(shown), kinds(original.content().raw()));
    let lonely = now.last().is_some_and(|last| last == "thinking");
    must(!lonely, || format!("{} shows reasoning without what it led to", original.id()))?;
    let bare = then.first().is_some_and(|first| first == "thinking") && now.first().is_some_and(|first| first != "thinking");
    must(!bare, || format!("{} shows a call without its reasoning", original.id()))
}
