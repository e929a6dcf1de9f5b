//! Windows for the tests of the wires.

use super::judge::{Fault, Judge, Memory, State};
use super::{Item, Reader, Rule, Terms, Wire, send};
use crate::shown::{Shown, WireRole, name_of_model};
use crate::tokens::TokenModel;
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::window::projection;
use std::sync::Arc;
use std::sync::LazyLock;

pub(super) const USER: &str = r#"{"role":"user","content":"go"}"#;
pub(super) const ANSWER: &str = r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"done"}]}"#;
pub(super) const PLACEHOLDER: &str = "⟦pi-fold f_0 · tool fold · 1 entry⟧";

/// What the model of each wire is called by [`by`].
pub(super) static OWN: LazyLock<[u64; 4]> = LazyLock::new(|| Wire::ALL.map(|wire| name_of_model(&format!("p/{wire:?}").as_str().into())));

pub(super) fn model() -> TokenModel {
    TokenModel::new(3, 100)
}

/// The window of a branch whose messages have the ids `m0`, `m1`, …
pub(super) fn window(lines: &[String]) -> Vec<Arc<Shown>> {
    let entries: Vec<Entry> = lines.iter().map(|line| Entry::parse(line).expect("an entry")).collect();
    let edit = |id: &str| entries.iter().rfind(|entry| matches!(entry.kind(), Kind::ContextEdit { target, .. } if **target == *id));
    let mut out = Vec::new();
    for (at, projected) in projection(&entries).iter().enumerate() {
        for message in &projected.messages {
            out.push(Arc::new(Shown::read(at, projected.source, edit(projected.source.id()), message, &model())));
        }
    }
    out
}

pub(super) fn messages(messages: &[&str]) -> Vec<String> {
    let line = |(at, json): (usize, &&str)| format!(r#"{{"type":"message","id":"m{at}","message":{json}}}"#);
    messages.iter().enumerate().map(line).collect()
}

/// Another content, as JSON, for a message.
pub(super) fn given(mut lines: Vec<String>, target: &str, content: &str) -> Vec<String> {
    lines.push(format!(r#"{{"type":"context_edit","id":"e","targetId":"{target}","replacement":{{"content":{content}}}}}"#));
    lines
}

pub(super) fn edited(lines: Vec<String>, target: &str, text: &str) -> Vec<String> {
    given(lines, target, &format!(r#"[{{"type":"text","text":"{text}"}}]"#))
}

pub(super) fn call(id: &str) -> String {
    format!(r#"{{"type":"toolCall","id":"{id}","name":"ls","arguments":{{}}}}"#)
}

/// An answer that calls; of no model.
pub(super) fn calls(ids: &[&str]) -> String {
    let blocks: Vec<String> = ids.iter().map(|id| call(id)).collect();
    format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{}]}}"#, blocks.join(","))
}

pub(super) fn thinking(text: &str, signature: &str) -> String {
    format!(r#"{{"type":"thinking","thinking":"{text}","thinkingSignature":"{signature}"}}"#)
}

/// An answer of a wire's own model.
pub(super) fn by(wire: Wire, blocks: &str, stop: &str) -> String {
    format!(r#"{{"role":"assistant","provider":"p","model":"{wire:?}","stopReason":"{stop}","content":[{blocks}]}}"#)
}

pub(super) fn result(id: &str) -> String {
    format!(r#"{{"role":"toolResult","toolCallId":"{id}","toolName":"ls","content":[{{"type":"text","text":"out"}}]}}"#)
}

fn told(window: &[Arc<Shown>], wire: Wire, terms: &Terms) -> Vec<(Rule, usize)> {
    let mut reader = Reader::new(&Wire::ALL.map(|wire| format!("p/{wire:?}")));
    let errors = reader.judge(window, terms).into_iter().filter(|error| error.wire == wire);
    errors.inspect(|error| assert!(error.to_string().starts_with('4'), "{error}")).map(|error| (error.rule, error.index)).collect()
}

/// What a wire refuses.
pub(super) fn refused_on(wire: Wire, lines: &[String], terms: &Terms) -> Vec<(Rule, usize)> {
    told(&window(lines), wire, terms)
}

fn reads(wire: Wire, lines: &[String], from: State) -> Vec<Fault> {
    let window = window(lines);
    let mut memory = Memory::default();
    let mut judge = Judge::new(wire, OWN[wire as usize], from, None, &mut memory);
    for (index, shown) in window.iter().enumerate() {
        judge.read(Item::Message(index, shown));
    }
    judge.end(&Terms::default());
    memory.faults
}

/// What a wire refuses of messages that no pi-ai has mended.
pub(super) fn unsent(wire: Wire, lines: &[String]) -> Vec<(Rule, usize)> {
    reads(wire, lines, State::default()).into_iter().map(|fault| (fault.rule, fault.index.unwrap_or_default())).collect()
}

/// What a wire refuses where so many bytes have come before.
pub(super) fn counted(wire: Wire, bytes: u64, lines: &[String]) -> Vec<Rule> {
    reads(wire, lines, State { bytes, ..State::default() }).into_iter().map(|fault| fault.rule).collect()
}

/// The kinds of messages that leave, in order; `x` is a result that was made up.
pub(super) fn sent(lines: &[String]) -> String {
    let window = window(lines);
    let mut out = String::new();
    send(&window, &mut |item| {
        out.push(match item {
            Item::Synthetic(..) => 'x',
            Item::Message(_, shown) => match shown.facts.wire {
                WireRole::System => 's',
                WireRole::User => 'u',
                WireRole::Assistant => 'a',
                WireRole::Tool => 't',
                WireRole::Nothing => unreachable!("it does not leave"),
            },
        });
    });
    out
}
