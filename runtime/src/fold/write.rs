//! Writing a commit: the edits that carry it out, in their order, and the clips that follow.
//!
//! The one place where shown bytes change. An edit is written only where what is shown of its entry changes, and one for each entry.

use super::clip::clip_content;
use super::commit::{Freed, Node, Planner, State, Work, plus, text};
use super::context::{Context, Shown};
use super::cut::Carrier;
use super::lattice::Fold;
use super::text::{FoldName, json, result_line};
use super::unit::UnitKind;
use crate::journal::{Content, Entry, Kind, Role};
use crate::window::Size;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Head and tail of a clipped result, in bytes, and what is worth clipping (fold law, clipping).
const RESULT_CLIP: (usize, usize) = (400, 200);
const CLIPPABLE: usize = 2_000;
/// Head and tail of a clipped user message, in bytes, and the good answers that must have followed it.
const USER_CLIP: (usize, usize) = (2_000, 500);
const USER_ANSWERS: usize = 8;
/// What no first-show clip goes below, in bytes of text (fold law, first-show clip).
const FIRST_SHOW: usize = 600;
/// The tool whose output is never clipped: our own.
pub(crate) const OWN_TOOL: &str = "pi_fold_context";

/// What a commit would do.
pub(crate) struct Outcome {
    /// New folds with the names of their children: leaves, then parents in the order they were made.
    pub folds: Vec<(Fold, Vec<FoldName>)>,
    /// Edits before this one are those of new roots, the others are clips.
    pub of_roots: usize,
    /// In an order in which every prefix keeps calls and results paired.
    pub edits: Vec<Edit>,
    /// User messages hidden, entries clipped.
    pub hidden_users: usize,
    pub clips: usize,
}

impl Outcome {
    /// What all edits together take away.
    pub fn freed(&self, context: &Context) -> Freed {
        Edit::freed(&self.edits, context)
    }
}

/// One entry with another content.
pub(crate) struct Edit {
    pub at: usize,
    /// The new content; `None` omits.
    pub content: Option<String>,
    /// Size of what is shown afterwards.
    pub size: Size,
    /// Head and tail in bytes, where the content is the original clipped.
    pub clip: Option<(usize, usize)>,
    /// Whether it gives a person's message its own content back.
    gives_back: bool,
}

impl Edit {
    /// What edits together take away.
    pub fn freed(edits: &[Edit], context: &Context) -> Freed {
        edits.iter().fold((0, 0), |freed, edit| plus(freed, context.shown[edit.at].minus(edit.size)))
    }

    /// The entry is not shown.
    pub fn omit(at: usize) -> Self {
        Edit { at, content: None, size: Size::default(), clip: None, gives_back: false }
    }

    /// The entry shows its own content.
    pub fn own(context: &Context, at: usize) -> Self {
        Edit { gives_back: true, ..Self::replace(at, context.entries[at].content().raw().to_owned(), context.original[at]) }
    }

    /// The entry shows this content.
    pub fn replace(at: usize, content: String, size: Size) -> Self {
        Edit { at, content: Some(content), size, clip: None, gives_back: false }
    }

    /// The entry shows this content, whatever it weighs.
    pub fn of(at: usize, content: String) -> Self {
        let size = Size::of_content(Content::of(&content));
        Self::replace(at, content, size)
    }

    /// Puts one text in the place of a content.
    pub fn say(at: usize, words: &str) -> Self {
        Self::replace(at, format!("[{}]", text_block(words)), text(words.len()))
    }
}

impl Planner<'_> {
    /// Clips what the model has not read yet, the longest most, until it `fits`; blacklisted results only where the rest is not enough.
    pub fn first_show(&self, outcome: &mut Outcome, blacklist: &BTreeSet<String>, fits: impl Fn(Freed) -> bool) {
        let context = self.context;
        let folded = outcome.freed(context);
        if fits(folded) {
            return;
        }
        let edited: BTreeSet<usize> = outcome.edits.iter().map(|edit| edit.at).collect();
        let spared = |at: usize| match context.entries[at].kind() {
            Kind::Message(Role::ToolResult { tool, .. }) => blacklist.contains(&tool.to_string_lossy()),
            _ => false,
        };
        let unread = |at: &usize| {
            context.unit_of[*at].is_none()
                && matches!(context.entries[*at].kind(), Kind::Message(Role::User | Role::ToolResult { .. }))
                && context.state[*at] == Shown::Raw
                && !context.foreign.contains(at)
                && !edited.contains(at)
        };
        let texts = context.in_context().filter(unread).map(|at| (at, text_len(context.entries[at].content())));
        let (last, first): (Vec<_>, Vec<_>) = texts.filter(|(_, text)| *text > FIRST_SHOW).partition(|(at, _)| spared(*at));
        let mut clips: Vec<Edit> = Vec::new();
        for candidates in [first, last] {
            let done = clips.len();
            let mut level = candidates.iter().map(|(_, text)| *text).max().unwrap_or(0);
            while level > FIRST_SHOW {
                level = (level / 4 * 3 + level % 4 * 3 / 4).max(FIRST_SHOW);
                let head = level / 3 * 2 + level % 3 * 2 / 3;
                clips.truncate(done);
                let longer = candidates.iter().filter(|(_, text)| *text > level);
                clips.extend(longer.filter_map(|(at, _)| clip(context, *at, (head, level - head))));
                if fits(plus(folded, Edit::freed(&clips, context))) {
                    return outcome.add(clips);
                }
            }
        }
        outcome.add(clips);
    }
}

impl Outcome {
    fn add(&mut self, mut clips: Vec<Edit>) {
        clips.sort_by_key(|edit| edit.at);
        self.clips += clips.len();
        self.edits.extend(clips);
    }
}

/// Bytes of the text blocks, joined by a line end.
fn text_len(content: Content<'_>) -> usize {
    super::clip::text_of(content).len()
}

impl Work<'_> {
    pub(super) fn outcome(&self, state: &State) -> Outcome {
        let made = self.leaves[..state.leaves].iter().chain(&state.parents);
        let names = |node: &Node<'_>| node.children.iter().map(|&child| self.nodes[child].fold.name).collect::<Vec<_>>();
        let folds = made.clone().map(|&node| (self.nodes[node].fold.clone().into_owned(), names(&self.nodes[node]))).collect();
        let hidden_users = made.map(|&node| self.nodes[node].hidden.len()).sum();
        let mut edits: Vec<Edit> = Vec::new();
        for &root in state.roots.iter().filter(|&&root| self.nodes[root].new) {
            edits.extend(self.edits(root));
        }
        let clips = self.clips(&mut edits, state.words);
        let clipped = clips.len();
        let of_roots = edits.len();
        edits.extend(clips);
        Outcome { folds, of_roots, edits, hidden_users, clips: clipped }
    }

    /// The edits of a new root: first what is replaced, then what is omitted, results before the message that called them.
    fn edits(&self, root: usize) -> Vec<Edit> {
        let context = self.plan.context;
        let node = &self.nodes[root];
        let fold = &node.fold;
        let carrier = fold.carrier.position();
        let shown = match &fold.carrier {
            Carrier::User(at) => {
                let content = with_block(&context.entries[*at], &node.placeholder);
                Edit::replace(*at, content, context.original[*at] + text(node.placeholder.len()))
            }
            _ => Edit::say(carrier, &node.placeholder),
        };
        let line = result_line(&fold.id);
        let lines = fold.carrier.others().iter().map(|&at| Edit::say(at, &line));
        let mut edits: Vec<Edit> = std::iter::once(shown).chain(lines).collect();
        let kept: BTreeSet<usize> = edits.iter().map(|edit| edit.at).collect();

        let (mut omitted, mut given_back) = (BTreeSet::new(), BTreeSet::new());
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            let node = &self.nodes[at];
            match &node.fold.carrier {
                Carrier::User(user) => {
                    given_back.extend((*user != carrier && (!node.new || context.state[*user] == Shown::Replaced)).then_some(*user))
                }
                Carrier::Custom(custom) => omitted.extend([*custom]),
                Carrier::Result { result, others, .. } => omitted.extend(others.iter().chain([result])),
            }
            if node.new {
                omitted.extend(&node.fold.parts);
                stack.extend(&node.children);
            }
        }
        given_back.retain(|at| !omitted.contains(at));
        edits.extend(given_back.into_iter().map(|at| Edit::own(context, at)));
        omitted.retain(|at| !kept.contains(at) && context.state[*at] != Shown::Gone);
        let mut omitted: Vec<usize> = omitted.into_iter().collect();
        omitted.sort_by_key(|&at| (context.unit_of[at], Reverse(at)));
        edits.extend(omitted.into_iter().map(Edit::omit));
        edits
    }

    /// Old results cut to head and tail, then heavy words of a person; in branch order.
    fn clips(&self, edits: &mut [Edit], words: Size) -> Vec<Edit> {
        let context = self.plan.context;
        let (mut shown, mut state) = (context.shown.clone(), context.state.clone());
        for edit in edits.iter() {
            (shown[edit.at], state[edit.at]) = (edit.size, Shown::Replaced);
        }
        let raw = |at: usize| state[at] == Shown::Raw && !context.foreign.contains(&at);
        let mut clips = Vec::new();
        if self.plan.clip_ppm > 0 {
            let weight = |at: usize| shown[at].weight().saturating_sub(system_weight(&context.entries[at]));
            // What weighs nothing is passed without a look: most of a long branch.
            let counts = |at: &usize| shown[*at] != Size::default() && !matches!(context.entries[*at].kind(), Kind::Message(Role::System));
            let total: u64 = context.in_context().filter(counts).map(weight).sum();
            let share = u64::try_from(u128::from(total) * u128::from(self.plan.clip_ppm) / 1_000_000).unwrap_or(u64::MAX);
            let mut sum = 0;
            for at in context.in_context().filter(counts) {
                sum += weight(at);
                if sum > share {
                    break;
                }
                if raw(at) && self.is_clippable(at) {
                    clips.extend(clip(context, at, RESULT_CLIP));
                }
            }
        }
        let given_back: BTreeSet<usize> = edits.iter().filter(|edit| edit.gives_back).map(|edit| edit.at).collect();
        for clip in self.heavy_words(words, |at| raw(at) || given_back.contains(&at)) {
            match edits.iter_mut().find(|edit| edit.at == clip.at) {
                Some(edit) => *edit = clip,
                None => clips.push(clip),
            }
        }
        clips.sort_by_key(|edit| edit.at);
        clips
    }

    /// Whether it is a result of a ripe batch that nobody holds, large enough to be worth it, and not our own output.
    fn is_clippable(&self, at: usize) -> bool {
        let context = self.plan.context;
        let Kind::Message(Role::ToolResult { tool, .. }) = context.entries[at].kind() else { return false };
        let ripe = context.unit_of[at].is_some_and(|unit| context.units[unit].kind == UnitKind::Batch && !context.held.contains(&unit));
        // No text is longer than the content it stands in.
        let content = context.entries[at].content();
        ripe && *tool != *OWN_TOOL && content.raw().len() >= CLIPPABLE && text_len(content) >= CLIPPABLE
    }

    /// User messages that are clipped because a person's words are above the limit: the heaviest first, long after they were read.
    fn heavy_words(&self, mut words: Size, raw: impl Fn(usize) -> bool) -> Vec<Edit> {
        let context = self.plan.context;
        if !self.plan.above_limit(words) {
            return Vec::new();
        }
        let read = |at: usize| context.answers - context.answers_before[at] >= USER_ANSWERS;
        let heavy = |at: &usize| context.original[*at].weight() > self.plan.policy.min_fold && !context.stays(*at);
        let mut users: Vec<usize> = context.users.iter().copied().filter(|&at| raw(at) && read(at)).filter(heavy).collect();
        users.sort_by_key(|&at| (Reverse(context.original[at].weight()), at));
        let mut clips = Vec::new();
        for at in users {
            if !self.plan.above_limit(words) {
                break;
            }
            if let Some(clip) = clip(context, at, USER_CLIP) {
                words = words.saturating_sub(context.original[at]) + clip.size;
                clips.push(clip);
            }
        }
        clips
    }
}

/// An original cut to head and tail; `None` if that is not lighter.
fn clip(context: &Context, at: usize, (head, tail): (usize, usize)) -> Option<Edit> {
    let entry = &context.entries[at];
    let content = clip_content(entry.content(), entry.id(), head, tail)?;
    let edit = Edit { clip: Some((head, tail)), ..Edit::of(at, content) };
    (edit.size.weight() < context.original[at].weight()).then_some(edit)
}

/// What a compaction carries of the system prompt: no part of the conversation.
fn system_weight(entry: &Entry) -> u64 {
    match entry.kind() {
        Kind::Compaction { .. } => entry.field("systemMessage").filter(|raw| raw.starts_with('{')).map_or(0, |raw| raw.len() as u64),
        _ => 0,
    }
}

pub(super) fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", json(text))
}

/// A person's own content, untouched, with one more text block.
pub(super) fn with_block(user: &Entry, text: &str) -> String {
    let content = user.content();
    let own = if content.string().is_some() {
        format!("{{\"type\":\"text\",\"text\":{}}}", content.raw())
    } else {
        content.raw().trim().strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).unwrap_or_default().to_owned()
    };
    let separator = if own.trim().is_empty() { "" } else { "," };
    format!("[{own}{separator}{}]", text_block(text))
}
