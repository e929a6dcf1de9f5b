//! What leaves for a provider, and whether it would be accepted.
//!
//! Between a window and a request stands pi-ai: it leaves out failed answers, answers calls that nobody answered ("No result provided")
//! as soon as an assistant or user message or the end arrives, and holds a system message back until the calls before it are
//! answered. A tool result whose call is gone passes through it untouched, and the provider refuses the request. This module does the
//! same, then judges the outcome by the rules of the Chat Completions wire, and by the rules other wires have for what stands in
//! an edited message. Only facts cached in [`Shown`] are read.

use crate::hash::{hash, mix};
use crate::shown::{Call, Shown, WireRole};
use crate::tokens::TokenModel;
use fold_runtime::journal::{StopReason, Text};
use std::fmt;
use std::sync::Arc;

/// What pi-ai answers in a tool's place.
pub const NO_RESULT: &str = "No result provided";

/// One message of a request.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A message of the window, by its index.
    Message(usize, &'a Shown),
    /// A result that pi-ai made up, and the index of the assistant message that called.
    Synthetic(usize, &'a Call),
}

impl Item<'_> {
    fn index(&self) -> usize {
        match self {
            Item::Message(index, _) | Item::Synthetic(index, _) => *index,
        }
    }
}

/// pi-ai on its way through a window.
#[derive(Debug, Default)]
struct Sender {
    /// The assistant message whose calls may still be unanswered.
    pending: Option<usize>,
    /// System messages that wait for those answers.
    held: Vec<usize>,
}

impl Sender {
    fn take<'a>(&mut self, window: &'a [Arc<Shown>], index: usize, emit: &mut impl FnMut(Item<'a>)) {
        let shown: &'a Shown = &window[index];
        match shown.facts.wire {
            WireRole::Nothing => return,
            WireRole::Assistant => {
                self.close(window, index, emit);
                if matches!(shown.facts.stop, Some(StopReason::Error | StopReason::Aborted)) {
                    return;
                }
                self.pending = (!shown.facts.calls.is_empty()).then_some(index);
            }
            WireRole::User => self.close(window, index, emit),
            WireRole::System if self.pending.is_some() => return self.held.push(index),
            WireRole::System | WireRole::Tool => {}
        }
        if shown.facts.sent {
            emit(Item::Message(index, shown));
        }
    }

    /// Answers what is unanswered before the message at `index`.
    fn close<'a>(&mut self, window: &'a [Arc<Shown>], index: usize, emit: &mut impl FnMut(Item<'a>)) {
        let Some(asked) = self.pending.take() else { return };
        for call in &window[asked].facts.calls {
            let answers = |shown: &Arc<Shown>| shown.facts.wire == WireRole::Tool && shown.facts.answers == call.id;
            if !window[asked + 1..index].iter().any(answers) {
                emit(Item::Synthetic(asked, call));
            }
        }
        for held in self.held.drain(..) {
            if window[held].facts.sent {
                emit(Item::Message(held, &window[held]));
            }
        }
    }
}

/// Calls `emit` with every message of the request a window becomes, in order.
pub fn send<'a>(window: &'a [Arc<Shown>], emit: &mut impl FnMut(Item<'a>)) {
    let mut sender = Sender::default();
    for index in 0..window.len() {
        sender.take(window, index, emit);
    }
    sender.close(window, window.len(), emit);
}

/// The start of a request up to the end of one message: what names it, and its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Names everything up to here.
    pub hash: u64,
    /// True tokens up to here.
    pub tokens: u64,
    /// Content blocks up to here.
    pub blocks: u32,
    /// Whose message ends here; what precedes the messages counts as the system's.
    pub role: WireRole,
    /// Whether that message holds a placeholder.
    pub placeholder: bool,
}

/// A message as a chain takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Names what leaves.
    pub wire: u64,
    /// Its true tokens.
    pub tokens: u64,
    /// Its content blocks.
    pub blocks: u32,
    /// Whose it is.
    pub role: WireRole,
    /// Whether it holds a placeholder.
    pub placeholder: bool,
}

impl Piece {
    /// A message that leaves: the reasoning and the text of an answer are one block each, its calls and images one more for each.
    pub fn of(item: Item<'_>, model: &TokenModel) -> Self {
        let shown = match item {
            Item::Message(_, shown) => shown,
            Item::Synthetic(_, call) => {
                let wire = mix(hash(0, NO_RESULT.as_bytes()), hash(0, call.id.as_bytes()));
                return Piece { wire, tokens: model.synthetic(), blocks: 1, role: WireRole::Tool, placeholder: false };
            }
        };
        let facts = &shown.facts;
        let one = |bytes: u64| u32::from(bytes > 0);
        let more = u32::try_from(facts.calls.len() as u64 + facts.images).unwrap_or(u32::MAX);
        let blocks = (one(facts.bytes.thinking) + one(facts.bytes.text)).saturating_add(more).max(1);
        let blocks = if facts.wire == WireRole::Tool { 1 } else { blocks };
        Piece { wire: shown.wire, tokens: shown.tokens, blocks, role: facts.wire, placeholder: facts.placeholder }
    }
}

/// A request as its prefixes, kept from one request of a session to the next.
///
/// Two requests begin alike exactly as far as the hashes of their links agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    links: Vec<Link>,
    /// Where each message of the window begins, and behind them its end; nowhere while system messages are held back.
    starts: Vec<Option<Start>>,
}

/// The place before a message: the links so far, and the assistant message whose calls may still be unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Start {
    links: usize,
    pending: Option<usize>,
}

impl Chain {
    /// A request without messages: `name` stands for what precedes them (model, system prompt, tools), of `overhead` tokens.
    pub fn new(name: &str, overhead: u64) -> Self {
        let first = Link { hash: hash(0, name.as_bytes()), tokens: overhead, blocks: 1, role: WireRole::System, placeholder: false };
        Chain { links: vec![first], starts: Vec::new() }
    }

    /// Appends one message of a person's, of so many tokens.
    pub fn push(&mut self, wire: u64, tokens: u64) {
        self.append(Piece { wire, tokens, blocks: 1, role: WireRole::User, placeholder: false });
    }

    /// Appends one message.
    pub fn append(&mut self, piece: Piece) {
        let last = self.links.last().expect("a chain begins with what precedes the messages");
        let Piece { wire, tokens, blocks, role, placeholder } = piece;
        self.links.push(Link {
            hash: mix(last.hash, wire),
            tokens: last.tokens + tokens,
            blocks: last.blocks.saturating_add(blocks),
            role,
            placeholder,
        });
    }

    /// Makes this the chain of `window`, which agrees with the window of the last call before index `from`. Costs what follows `from`.
    pub fn update(&mut self, window: &[Arc<Shown>], from: usize, model: &TokenModel) {
        let from = from.min(self.starts.len().saturating_sub(1));
        let (at, start) = (0..=from).rev().find_map(|at| Some((at, (*self.starts.get(at)?)?))).unwrap_or((0, Start { links: 1, pending: None }));
        self.links.truncate(start.links);
        self.starts.truncate(at);
        let mut sender = Sender { pending: start.pending, held: Vec::new() };
        for index in at..window.len() {
            self.begin(&sender);
            sender.take(window, index, &mut |item| self.item(item, model));
        }
        self.begin(&sender);
        sender.close(window, window.len(), &mut |item| self.item(item, model));
    }

    fn begin(&mut self, sender: &Sender) {
        self.starts.push(sender.held.is_empty().then_some(Start { links: self.links.len(), pending: sender.pending }));
    }

    fn item(&mut self, item: Item<'_>, model: &TokenModel) {
        self.append(Piece::of(item, model));
    }

    /// A request that begins like this one, as far as its messages lie within so many tokens, and goes on with something else.
    #[must_use]
    pub fn going_on_after(&self, tokens: u64) -> Chain {
        let within = self.links.iter().take_while(|link| link.tokens <= tokens).count().max(1);
        let mut chain = Chain { links: self.links[..within].to_vec(), starts: Vec::new() };
        chain.push(hash(0, b"what nobody has said yet"), 1);
        chain
    }

    /// True tokens of the whole request.
    pub fn tokens(&self) -> u64 {
        self.links.last().map_or(0, |link| link.tokens)
    }

    /// Its prefixes, shortest first.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}

/// Why a provider refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A call has no result before the next message.
    MissingResult,
    /// A result has no call before it.
    OrphanResult,
    /// A call has two results.
    RepeatedResult,
    /// A call or a result has no id.
    EmptyId,
    /// A call names no tool.
    EmptyName,
    /// Two calls of one message have one id.
    RepeatedId,
    /// The arguments of a call are no JSON object.
    Arguments,
    /// An id or a name is no Unicode text.
    BrokenName,
    /// The last message is the assistant's: there is nothing to answer.
    AssistantLast,
    /// There is nothing but a system prompt.
    NoMessages,
    /// An edit left a message with nothing in it, which several wires refuse.
    EmptyEdit,
    /// A placeholder stands in an assistant message, where one wire or another drops, refuses or imitates it.
    PlaceholderInAssistant,
    /// A placeholder stands in the last user message or tool result.
    PlaceholderLast,
}

/// A refusal: which message, which entry, which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The rule.
    pub rule: Rule,
    /// The index of the message in the window.
    pub index: usize,
    /// The id of the entry it comes from; empty where there is no message.
    pub entry: String,
    /// The call id, where the rule is about one.
    pub call: String,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WireError { rule, index, entry, call } = self;
        write!(f, "400 Invalid value for 'messages[{index}]' (entry {entry}): ")?;
        match rule {
            Rule::MissingResult => write!(
                f,
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
                 The following tool_call_ids did not have response messages: {call}"
            ),
            Rule::OrphanResult => {
                write!(f, "messages with role 'tool' must be a response to a preceding message with 'tool_calls' ('{call}' answers none)")
            }
            Rule::RepeatedResult => write!(f, "Duplicate value for 'tool_call_id': '{call}' has been answered already"),
            Rule::EmptyId => write!(f, "'tool_call_id' must be a non-empty string"),
            Rule::EmptyName => write!(f, "'function.name' of call '{call}' must be a non-empty string"),
            Rule::RepeatedId => write!(f, "Duplicate value for 'tool_calls[].id' of '{call}' in message with role 'assistant'"),
            Rule::Arguments => write!(f, "the arguments of call '{call}' are not a JSON object"),
            Rule::BrokenName => write!(f, "an id or a name holds an unpaired surrogate; the body is not valid Unicode"),
            Rule::AssistantLast => write!(f, "the conversation must end with a user message or a tool result"),
            Rule::NoMessages => write!(f, "[] is too short: at least one message is needed beside the system prompt"),
            Rule::EmptyEdit => write!(f, "content must be non-empty; an edit left nothing of it"),
            Rule::PlaceholderInAssistant => write!(f, "a placeholder stands in an assistant message"),
            Rule::PlaceholderLast => write!(f, "a placeholder stands in the last user message or tool result"),
        }
    }
}

impl std::error::Error for WireError {}

/// A provider reading a request.
#[derive(Debug, Default)]
struct Judge<'a> {
    batch: Option<(usize, &'a Shown)>,
    answered: Vec<bool>,
    last: Option<(usize, WireRole)>,
    refused: Option<(Rule, usize, Text)>,
}

impl<'a> Judge<'a> {
    fn refuse(&mut self, rule: Rule, index: usize, call: &Text) {
        if self.refused.is_none() {
            self.refused = Some((rule, index, call.clone()));
        }
    }

    fn read(&mut self, item: Item<'a>) {
        let role = match item {
            Item::Message(index, shown) => {
                match shown.facts.wire {
                    WireRole::Tool => self.result(index, &shown.facts.answers),
                    _ => self.end_batch(),
                }
                if shown.facts.broken_name {
                    self.refuse(Rule::BrokenName, index, &Text::default());
                }
                if shown.facts.wire == WireRole::Assistant {
                    self.calls(index, shown);
                }
                shown.facts.wire
            }
            Item::Synthetic(index, call) => {
                self.result(index, &call.id);
                WireRole::Tool
            }
        };
        if role != WireRole::System {
            self.last = Some((item.index(), role));
        }
    }

    fn calls(&mut self, index: usize, shown: &'a Shown) {
        let calls = &shown.facts.calls;
        for (at, call) in calls.iter().enumerate() {
            let rule = if call.id.as_bytes().is_empty() {
                Rule::EmptyId
            } else if call.name.as_bytes().is_empty() {
                Rule::EmptyName
            } else if calls[..at].iter().any(|earlier| earlier.id == call.id) {
                Rule::RepeatedId
            } else if !call.object {
                Rule::Arguments
            } else {
                continue;
            };
            self.refuse(rule, index, &call.id);
        }
        if !calls.is_empty() {
            self.batch = Some((index, shown));
            self.answered.clear();
            self.answered.resize(calls.len(), false);
        }
    }

    fn result(&mut self, index: usize, id: &Text) {
        let call = self.batch.and_then(|(_, asked)| asked.facts.calls.iter().position(|call| call.id == *id));
        match call {
            _ if id.as_bytes().is_empty() => self.refuse(Rule::EmptyId, index, id),
            None => self.refuse(Rule::OrphanResult, index, id),
            Some(call) if self.answered[call] => self.refuse(Rule::RepeatedResult, index, id),
            Some(call) => self.answered[call] = true,
        }
    }

    fn end_batch(&mut self) {
        let Some((index, asked)) = self.batch.take() else { return };
        if let Some(call) = self.answered.iter().position(|answered| !answered) {
            self.refuse(Rule::MissingResult, index, &asked.facts.calls[call].id);
        }
    }

    fn end(&mut self) {
        self.end_batch();
        match self.last {
            None => self.refuse(Rule::NoMessages, 0, &Text::default()),
            Some((index, WireRole::Assistant)) => self.refuse(Rule::AssistantLast, index, &Text::default()),
            Some(_) => {}
        }
    }
}

/// Whether a provider would take the request this window becomes.
///
/// # Errors
/// [`WireError`], for the first rule that is broken.
pub fn validate(window: &[Arc<Shown>]) -> Result<(), WireError> {
    Reader::default().validate(window)
}

/// A provider that reads the requests of one session, each from where it differs from the one before. What it says is what [`validate`]
/// says.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    read: Vec<Arc<Shown>>,
    /// What was known before each of these messages; nothing where something was refused already, or is not settled yet.
    known: Vec<Option<Known>>,
}

/// What a reader knows before a message.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The assistant message whose calls pi-ai may still have to answer.
    pending: Option<usize>,
    /// The one whose calls are answered, with no message after the answers.
    batch: Option<usize>,
    last: Option<(usize, WireRole)>,
    /// The newest user message or tool result.
    newest: Option<usize>,
}

impl Reader {
    /// Whether a provider would take the request this window becomes.
    ///
    /// # Errors
    /// [`WireError`], for the first rule that is broken.
    pub fn validate(&mut self, window: &[Arc<Shown>]) -> Result<(), WireError> {
        let same = self.read.iter().zip(window).take_while(|(before, now)| Arc::ptr_eq(before, now)).count();
        let (at, known) = (0..same).rev().find_map(|at| Some((at, self.known[at]?))).unwrap_or_default();
        self.read.truncate(at);
        self.read.extend_from_slice(&window[at..]);
        self.known.truncate(at);
        let batch = known.batch.map(|asked| (asked, &*window[asked]));
        let answered = vec![true; batch.map_or(0, |(_, asked)| asked.facts.calls.len())];
        let mut judge = Judge { batch, answered, last: known.last, refused: None };
        let mut sender = Sender { pending: known.pending, held: Vec::new() };
        let mut newest = known.newest;
        for (index, shown) in window.iter().enumerate().skip(at) {
            let settled =
                sender.held.is_empty() && judge.refused.is_none() && (judge.batch.is_none() || judge.answered.iter().all(|answered| *answered));
            let batch = judge.batch.map(|(asked, _)| asked);
            self.known.push(settled.then_some(Known { pending: sender.pending, batch, last: judge.last, newest }));
            let facts = &shown.facts;
            if facts.edited {
                if facts.blank {
                    judge.refuse(Rule::EmptyEdit, index, &facts.answers);
                }
                if facts.placeholder && facts.wire == WireRole::Assistant {
                    judge.refuse(Rule::PlaceholderInAssistant, index, &facts.answers);
                }
            }
            if matches!(shown.role, crate::shown::Role::User | crate::shown::Role::ToolResult) {
                newest = Some(index);
            }
            sender.take(window, index, &mut |item| judge.read(item));
        }
        sender.close(window, window.len(), &mut |item| judge.read(item));
        judge.end();
        if let Some(index) = newest.filter(|index| window[*index].facts.placeholder) {
            judge.refuse(Rule::PlaceholderLast, index, &window[index].facts.answers);
        }
        match judge.refused {
            None => Ok(()),
            Some((rule, index, call)) => {
                let entry = window.get(index).map_or(String::new(), |shown| shown.source.id().to_owned());
                Err(WireError { rule, index, entry, call: call.to_string_lossy() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::journal::{Entry, Kind};
    use fold_runtime::window::projection;

    fn model() -> TokenModel {
        TokenModel::new(3, 100)
    }

    /// The window of a branch whose messages have the ids `m0`, `m1`, …
    fn window(lines: &[String]) -> Vec<Arc<Shown>> {
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

    fn messages(messages: &[&str]) -> Vec<String> {
        let line = |(at, json): (usize, &&str)| format!(r#"{{"type":"message","id":"m{at}","message":{json}}}"#);
        messages.iter().enumerate().map(line).collect()
    }

    fn edited(mut lines: Vec<String>, target: &str, text: &str) -> Vec<String> {
        lines.push(format!(
            r#"{{"type":"context_edit","id":"e","targetId":"{target}","replacement":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        ));
        lines
    }

    fn calls(ids: &[&str]) -> String {
        let call = |id: &&str| format!(r#"{{"type":"toolCall","id":"{id}","name":"ls","arguments":{{}}}}"#);
        let blocks: Vec<String> = ids.iter().map(call).collect();
        format!(r#"{{"role":"assistant","stopReason":"toolUse","content":[{}]}}"#, blocks.join(","))
    }

    fn result(id: &str) -> String {
        format!(r#"{{"role":"toolResult","toolCallId":"{id}","toolName":"ls","content":[{{"type":"text","text":"out"}}]}}"#)
    }

    const USER: &str = r#"{"role":"user","content":"go"}"#;
    const ANSWER: &str = r#"{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"done"}]}"#;
    const PLACEHOLDER: &str = "⟦pi-fold f_0 · tool fold · 1 entry⟧";

    fn refused(lines: &[String]) -> (Rule, usize) {
        let error = validate(&window(lines)).expect_err("a refusal");
        assert!(error.to_string().starts_with("400 ") && (error.entry.is_empty() || error.entry == format!("m{}", error.index)), "{error}");
        (error.rule, error.index)
    }

    fn sent(lines: &[String]) -> String {
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

    #[test]
    fn a_plain_loop_is_accepted() {
        let lines = messages(&[USER, &calls(&["c1", "c2"]), &result("c2"), &result("c1"), ANSWER, USER, &calls(&["c1"]), &result("c1")]);
        assert_eq!(validate(&window(&lines)), Ok(()));
        assert_eq!(sent(&lines), "uattauat");
    }

    #[test]
    fn a_call_nobody_answered_gets_a_made_up_result_before_whatever_comes_next() {
        let lines = messages(&[USER, &calls(&["c1", "c2"]), &result("c1"), USER]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uatxu", Ok(())));
        let lines = messages(&[USER, &calls(&["c1", "c2"])]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uaxx", Ok(())));
    }

    #[test]
    fn a_system_message_between_call_and_result_waits() {
        let system = r#"{"role":"system","content":"now with tools"}"#;
        let lines = messages(&[USER, &calls(&["c1"]), system, &result("c1"), USER]);
        assert_eq!((sent(&lines).as_str(), validate(&window(&lines))), ("uatsu", Ok(())));
    }

    #[test]
    fn a_failed_answer_leaves_and_its_result_is_an_orphan() {
        let failed = calls(&["c1"]).replace("toolUse", "error");
        let lines = messages(&[USER, &failed, &result("c1")]);
        assert_eq!(sent(&lines), "ut");
        assert_eq!(refused(&lines), (Rule::OrphanResult, 2));
    }

    #[test]
    fn a_result_after_the_next_question_comes_too_late() {
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), USER, &result("c1")])), (Rule::OrphanResult, 3));
    }

    #[test]
    fn a_missing_result_is_refused_where_pi_did_not_make_one_up() {
        let window = window(&messages(&[USER, &calls(&["c1"]), USER]));
        let mut judge = Judge::default();
        for (index, shown) in window.iter().enumerate() {
            judge.read(Item::Message(index, shown));
        }
        judge.end();
        assert_eq!(judge.refused, Some((Rule::MissingResult, 1, "c1".into())));
    }

    #[test]
    fn each_rule_of_a_call_is_refused_once() {
        let with = |from: &str, to: &str| messages(&[USER, &calls(&["c1"]).replace(from, to), &result("c1")]);
        assert_eq!(refused(&messages(&[USER, &calls(&["c1", "c1"]), &result("c1")])), (Rule::RepeatedId, 1));
        assert_eq!(refused(&messages(&[USER, &calls(&["c1"]), &result("c1"), &result("c1")])), (Rule::RepeatedResult, 3));
        assert_eq!(refused(&messages(&[USER, &calls(&[""])])), (Rule::EmptyId, 1));
        assert_eq!(refused(&messages(&[USER, &result("")])), (Rule::EmptyId, 1));
        assert_eq!(refused(&with("\"ls\"", "\"\"")), (Rule::EmptyName, 1));
        assert_eq!(refused(&with("{}", "[]")), (Rule::Arguments, 1));
        assert_eq!(refused(&with("\"ls\"", "\"\\udc00\"")), (Rule::BrokenName, 1));
    }

    #[test]
    fn a_request_needs_something_to_answer() {
        assert_eq!(refused(&messages(&[USER, ANSWER])), (Rule::AssistantLast, 1));
        assert_eq!(refused(&messages(&[r#"{"role":"system","content":"hm"}"#])), (Rule::NoMessages, 0));
    }

    #[test]
    fn a_placeholder_stands_in_no_assistant_message_and_not_in_the_last_of_the_others() {
        let lines = messages(&[USER, ANSWER, USER, &calls(&["c1"]), &result("c1")]);
        assert_eq!(refused(&edited(lines.clone(), "m1", PLACEHOLDER)), (Rule::PlaceholderInAssistant, 1));
        assert_eq!(refused(&edited(lines.clone(), "m4", PLACEHOLDER)), (Rule::PlaceholderLast, 4));
        assert_eq!(validate(&window(&edited(lines.clone(), "m2", PLACEHOLDER))), Ok(()));
        // An edit that gives an assistant message its own words is no placeholder.
        assert_eq!(validate(&window(&edited(lines, "m1", "done"))), Ok(()));
    }

    #[test]
    fn an_edit_that_leaves_nothing_is_refused() {
        assert_eq!(refused(&edited(messages(&[USER, ANSWER, USER]), "m0", " ")), (Rule::EmptyEdit, 0));
    }

    #[test]
    fn an_updated_chain_equals_one_made_from_scratch_whatever_changed() {
        let system = r#"{"role":"system","content":"more"}"#;
        let all =
            [USER, &calls(&["c1", "c2"]), system, &result("c1"), &result("c2"), ANSWER, &calls(&["c3"]), USER, &calls(&["c4"]), &result("c4"), USER];
        let scratch = |window: &[Arc<Shown>]| {
            let mut chain = Chain::new("m", 100);
            chain.update(window, 0, &model());
            chain
        };
        let full = window(&messages(&all));
        for before in 0..=full.len() {
            for after in 0..=full.len() {
                let mut chain = scratch(&full[..before]);
                chain.update(&full[..after], before.min(after), &model());
                assert_eq!(chain, scratch(&full[..after]), "from {before} to {after} messages");
            }
        }
        for changed in 0..full.len() {
            for gone in [false, true] {
                let mut other = full.clone();
                if gone {
                    other.remove(changed);
                } else {
                    other[changed] = window(&messages(&[USER])).remove(0);
                }
                let mut chain = scratch(&full);
                chain.update(&other, changed, &model());
                assert_eq!(chain, scratch(&other), "message {changed} changed");
            }
        }
    }

    #[test]
    fn a_reader_that_goes_on_says_what_one_that_begins_anew_says() {
        let system = r#"{"role":"system","content":"more"}"#;
        let failed = calls(&["c5"]).replace("toolUse", "error");
        let all = [
            USER,
            &calls(&["c1", "c2"]),
            system,
            &result("c1"),
            &result("c2"),
            ANSWER,
            &calls(&["c3"]),
            USER,
            &calls(&["c4"]),
            &result("c4"),
            &failed,
            &calls(&["c6"]),
            &result("c6"),
            USER,
        ];
        let full = window(&messages(&all));
        let others = window(&edited(messages(&[USER, &result("c4"), system, &calls(&["c4"]), &failed]), "m1", PLACEHOLDER));
        let mut reader = Reader::default();
        let mut refusals = 0;
        for changed in 0..full.len() {
            for (other, shown) in others.iter().enumerate() {
                for end in [changed + 1, full.len()] {
                    let mut window = full.clone();
                    window[changed] = Arc::clone(shown);
                    window.truncate(end);
                    let anew = validate(&window);
                    refusals += usize::from(anew.is_err());
                    assert_eq!(reader.validate(&window), anew, "message {changed} is other {other}, of {end}");
                    assert_eq!(reader.validate(&full[..end]), validate(&full[..end]), "the first {end}");
                }
            }
        }
        assert!(refusals > 20, "only {refusals} refusals");
    }

    #[test]
    fn a_chain_counts_the_overhead_the_messages_and_the_made_up_results() {
        let window = window(&messages(&[USER, &calls(&["c1"])]));
        let mut chain = Chain::new("m", 100);
        chain.update(&window, 0, &model());
        assert_eq!(chain.tokens(), 100 + window.iter().map(|shown| shown.tokens).sum::<u64>() + model().synthetic());
        assert_eq!(chain.links().len(), 4);
    }
}
