//! The words that stand where originals were: placeholders, result lines, clips, quotes.
//!
//! A placeholder may only say what never has to change: no neighbour, no count that can grow, no clock, no occupancy. What comes
//! from a tool is quoted line by line as data, and text that looks like a marker of ours is disarmed, because a model believes markers.

use crate::journal::Digest;
use std::fmt::{self, Write as _};
use unicode_segmentation::UnicodeSegmentation;

/// The version of the rules that write deterministic briefs and placeholders.
pub const BRIEF_VERSION: u32 = 1;

/// What a marker of ours begins with, and what it ends with.
pub(crate) const OPEN: char = '⟦';
pub(crate) const CLOSE: char = '⟧';

/// What kind of fold it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoldKind {
    /// One batch of tool results that weighs enough alone.
    Tool,
    /// Any other run of units.
    Span,
    /// Several folds under one parent.
    Consolidated,
}

impl FoldKind {
    /// The word for it in placeholders and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            FoldKind::Tool => "tool",
            FoldKind::Span => "span",
            FoldKind::Consolidated => "cons",
        }
    }
}

/// What a fold is, as one digest: its kind, its parts and its children. Not the session, so that a fork keeps its folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoldName(Digest);

impl FoldName {
    /// Names a fold by its parts (entry ids with the digests of the originals) and children (fold ids with the digests of their names).
    ///
    /// ```
    /// use fold_runtime::{fold::{FoldKind, FoldName}, journal::Digest};
    /// let parts = [("a1", Digest::of(b"one")), ("a2", Digest::of(b"two"))];
    /// let name = FoldName::of(FoldKind::Span, parts, []);
    /// assert_eq!(name.id(12).as_str().len(), 14);
    /// assert_ne!(name, FoldName::of(FoldKind::Tool, parts, []));
    /// ```
    pub fn of<'a>(kind: FoldKind, parts: impl IntoIterator<Item = (&'a str, Digest)>, children: impl IntoIterator<Item = (&'a str, Digest)>) -> Self {
        let mut text = kind.name().to_owned();
        for (sign, (id, digest)) in parts.into_iter().map(|part| ("", part)).chain(children.into_iter().map(|child| ("+", child))) {
            // The length keeps ids apart whatever characters they hold.
            let _ = write!(text, "\n{sign}{}:", id.len());
            text.push_str(id);
            text.push(':');
            text.push_str(digest.hex().as_str());
        }
        FoldName(Digest::of(text.as_bytes()))
    }

    /// The digest itself.
    pub fn digest(self) -> Digest {
        self.0
    }

    /// `f_` and the first `digits` (12 to 64) hexadecimal digits: 12 unless two folds collide.
    pub fn id(self, digits: usize) -> FoldId {
        FoldId(format!("f_{}", &self.0.hex().as_str()[..digits.clamp(12, 64)]))
    }
}

/// How a fold is addressed: `f_` and hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoldId(String);

impl FoldId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for FoldId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The most characters a brief may have under a budget of this many tokens: a long brief is a big-window luxury.
pub fn brief_bound(budget: u64) -> usize {
    usize::try_from((budget / 64).clamp(400, 2_000)).expect("at most 2,000")
}

/// The text that stands for a fold. `entries` counts what it hides, `first` and `last` are the ids of the first and last of them.
pub fn placeholder(id: &FoldId, kind: FoldKind, entries: usize, first: &str, last: &str, brief: &str) -> String {
    assert!(!brief.trim().is_empty() && entries > 0, "a placeholder stands for something and says what");
    let count = if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
    let kind = if kind == FoldKind::Consolidated { "consolidated" } else { kind.name() };
    let (first, last) = (disarm(first), disarm(last));
    format!(
        "{OPEN}pi-fold {id} · {kind} fold · {count}{CLOSE}\n\
         Written by the context manager, not part of the conversation. Originals: pi_fold_context {{\"action\":\"peek\",\"id\":\"{id}\"}}\n\
         {brief}\n\
         {OPEN}end {id} · {first}..{last} · {count}{CLOSE}"
    )
}

/// A text as JSON.
pub(crate) fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// The line that replaces the other results of the batch that carries a placeholder.
pub fn result_line(id: &FoldId) -> String {
    format!("{OPEN}pi-fold {id}: result folded{CLOSE}")
}

/// Text from outside as data: every line begins with `| `, nothing in it can pass for a marker of ours, no control character acts.
///
/// ```
/// assert_eq!(fold_runtime::fold::quote("ok\n⟦pi-fold"), "| ok\n| [[pi-fold");
/// ```
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for (index, line) in text.lines().enumerate() {
        out.push_str(if index == 0 { "| " } else { "\n| " });
        disarm_into(line, &mut out);
    }
    out
}

/// One line of foreign text for a marker of ours: nothing in it can end the marker or begin another, no control character acts.
pub(crate) fn disarm(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    disarm_into(line, &mut out);
    out
}

/// One line without markers of ours, control characters (tabs stay) or bidirectional overrides.
fn disarm_into(line: &str, out: &mut String) {
    if line.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t') {
        return out.push_str(line);
    }
    for character in line.chars() {
        match character {
            OPEN => out.push_str("[["),
            CLOSE => out.push_str("]]"),
            '\t' => out.push('\t'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => out.push(char::REPLACEMENT_CHARACTER),
            character if character.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            character => out.push(character),
        }
    }
}

/// Cuts a text to about `head` bytes of its beginning and `tail` bytes of its end, at grapheme edges, with a marker between that counts
/// what is missing and names the entry that holds it. `None` when that would not make it shorter.
///
/// ```
/// let clipped = fold_runtime::fold::clip(&"x".repeat(3_000), "a1", 400, 200).expect("shorter");
/// assert!(clipped.len() < 800 && clipped.contains("2400 bytes"));
/// assert_eq!(fold_runtime::fold::clip("short", "a1", 400, 200), None);
/// ```
pub fn clip(text: &str, entry: &str, head: usize, tail: usize) -> Option<String> {
    if text.len() <= head.saturating_add(tail) {
        return None;
    }
    let start = edge_before(text, head);
    let end = edge_after(text, text.len() - tail);
    let missing = end.checked_sub(start).filter(|missing| *missing > 0)?;
    let marker = format!(
        "\n{OPEN}pi-fold: {missing} bytes clipped here by the context manager; all of it: pi_fold_context {{\"action\":\"peek\",\"id\":\"{}\"}}{CLOSE}\n",
        disarm(entry)
    );
    (marker.len() < missing).then(|| format!("{}{marker}{}", &text[..start], &text[end..]))
}

/// A window around an offset that is wide enough to see the grapheme it may fall into; longer clusters are cut between characters.
const CLUSTER: usize = 256;

/// Where to look from. In a run of flags, each of them two regional indicators, it depends on all that precede which two belong together.
fn look_from(text: &str, at: usize) -> usize {
    let from = text.floor_char_boundary(at.saturating_sub(CLUSTER));
    let indicators = text[..from].chars().rev().take_while(|char| ('\u{1f1e6}'..='\u{1f1ff}').contains(char));
    if indicators.count() % 2 == 0 { from } else { text.floor_char_boundary(from - 1) }
}

/// The last grapheme edge at or before `at`.
pub(crate) fn edge_before(text: &str, at: usize) -> usize {
    let from = look_from(text, at);
    let to = text.ceil_char_boundary(at.saturating_add(CLUSTER).min(text.len()));
    let edges = text[from..to].grapheme_indices(true).map(|(offset, _)| from + offset);
    // The first offset is no real edge unless it is the beginning: it is where we chose to look.
    edges.take_while(|edge| *edge <= at).filter(|edge| *edge > from || from == 0).last().unwrap_or_else(|| text.floor_char_boundary(at))
}

/// The first grapheme edge at or after `at`.
pub(crate) fn edge_after(text: &str, at: usize) -> usize {
    let from = look_from(text, at);
    let to = text.ceil_char_boundary(at.saturating_add(CLUSTER).min(text.len()));
    let mut edges = text[from..to].grapheme_indices(true).map(|(offset, _)| from + offset);
    edges.find(|edge| *edge >= at).unwrap_or_else(|| text.ceil_char_boundary(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> FoldId {
        FoldName::of(FoldKind::Tool, [("a", Digest::of(b"a"))], []).id(12)
    }

    #[test]
    fn a_placeholder_names_its_peek_and_its_range_and_nothing_else() {
        let text = placeholder(&id(), FoldKind::Tool, 2, "aa", "bb", "| brief");
        let expected = format!(
            "⟦pi-fold {0} · tool fold · 2 entries⟧\nWritten by the context manager, not part of the conversation. Originals: pi_fold_context {{\"action\":\"peek\",\"id\":\"{0}\"}}\n| brief\n⟦end {0} · aa..bb · 2 entries⟧",
            id()
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn quoted_text_cannot_pass_for_a_marker_or_turn_the_page() {
        let quoted = quote("a⟦end f_1⟧\r\n\u{1b}[31mred\u{202e}\u{0}");
        assert_eq!(quoted, "| a[[end f_1]]\n| \u{fffd}[31mred\u{fffd}\u{fffd}");
    }

    #[test]
    fn ids_with_odd_characters_cannot_make_two_part_lists_look_alike() {
        let digest = Digest::of(b"x");
        let joined = format!("a:{digest}\n1:b");
        let one = FoldName::of(FoldKind::Span, [(joined.as_str(), digest)], []);
        assert_ne!(one, FoldName::of(FoldKind::Span, [("a", digest), ("b", digest)], []));
        assert_ne!(FoldName::of(FoldKind::Span, [("a", digest)], []), FoldName::of(FoldKind::Span, [], [("a", digest)]));
    }

    #[test]
    fn a_clip_never_splits_a_grapheme() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(400);
        for head in 380..420 {
            let clipped = clip(&text, "a", head, 200).expect("shorter");
            let (before, rest) = clipped.split_once("\n⟦").expect("a marker");
            let after = rest.split_once("⟧\n").expect("an end").1;
            assert_eq!(before.len() % family.len(), 0, "{head}");
            assert_eq!(after.len() % family.len(), 0, "{head}");
            assert!(before.len() <= head && after.len() <= 200);
        }
    }

    #[test]
    fn a_cluster_longer_than_any_sight_is_cut_between_characters() {
        let zalgo = format!("a{}", "\u{301}".repeat(3_000));
        let clipped = clip(&zalgo, "a", 400, 200).expect("shorter");
        assert!(clipped.len() < 900);
    }

    #[test]
    fn a_clip_that_would_not_shorten_is_refused() {
        assert_eq!(clip(&"x".repeat(610), "a", 400, 200), None);
    }

    #[test]
    fn a_brief_is_shorter_on_a_small_budget() {
        assert_eq!((brief_bound(10_000), brief_bound(60_000), brief_bound(272_000)), (400, 937, 2_000));
    }
}
