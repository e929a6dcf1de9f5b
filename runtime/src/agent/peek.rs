//! A peek: originals as text, slice by slice.
//!
//! Everything a fold hides, or one entry, is one text, the *rendering*: entries in branch order, each under its header. An offset is a
//! byte of that text. The first look, at offset 0, shows its beginning and its end when the whole does not fit; every other look shows
//! what follows the offset. The looks that the answers propose, one after the other, give the whole rendering without a gap or a repetition,
//! byte for byte. Nothing is shown before every original was checked against the digest its record holds.

use super::render::{render, render_line};
use super::{Action, Detail, Refusal, StatusPage};
use crate::fold::{CLOSE, OPEN, disarm, edge_after, edge_before};
use crate::journal::{Digest, Entry};
use crate::ports::ObjectStore;
use crate::session::{Original, RecoverError, Session};
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeInclusive};

/// How many bytes of the rendering one peek may show (fold law, the nine verbs).
pub const PEEK_BYTES: RangeInclusive<usize> = 1_024..=128_000;
/// How many it shows unless told.
const DEFAULT_BYTES: usize = 16_000;
/// The share of a first look that its beginning gets, in percent.
const HEAD: usize = 60;

/// A look at originals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peek {
    /// A fold at any depth, or an entry.
    pub id: String,
    /// The byte of the rendering where the slice begins.
    #[serde(default)]
    pub offset: usize,
    /// Bytes of the rendering to show, within [`PEEK_BYTES`]. The lines around them are not counted.
    #[serde(default = "default_bytes")]
    pub bytes: usize,
    /// Whether the answer may be replaced by its last line once it was read.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub ephemeral: bool,
}

fn default_bytes() -> usize {
    DEFAULT_BYTES
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

impl Peek {
    /// The first look at a fold or an entry, ephemeral, of 16,000 bytes.
    pub fn of(id: &str) -> Self {
        Peek { id: id.to_owned(), offset: 0, bytes: DEFAULT_BYTES, ephemeral: true }
    }

    fn at(&self, offset: usize, bytes: usize) -> Action {
        Action::Peek(Peek { offset, bytes, ..self.clone() })
    }

    fn refused(&self, rule: impl Into<String>, call: Action) -> Refusal {
        Refusal::new(&self.id, rule, call)
    }
}

/// Shows what a fold hides at any depth, or one entry. `room` is what the answer may take, in tokens, estimated at the densest
/// measured rate; `store` stands in for what the journal lost. Costs what the fold weighs. The last line is [`peek_line`].
///
/// # Errors
/// [`Refusal`]: bytes out of bounds, no such id on this branch, a damaged original, an offset past the end, no room.
pub fn peek(session: &Session, peek: &Peek, store: Option<&dyn ObjectStore>, room: u64) -> Result<String, Refusal> {
    let rendering = originals(session, peek, store, room).map(|originals| rendering(session, &originals))?;
    let look = Look { session, rendering: &rendering, room };
    let from_start = peek.offset >= rendering.len();
    if !PEEK_BYTES.contains(&peek.bytes) {
        let rule = format!("bytes is {}; it must be from {} to {}", peek.bytes, PEEK_BYTES.start(), PEEK_BYTES.end());
        let offset = if from_start { 0 } else { peek.offset };
        return Err(peek.refused(rule, look.fitting(&Peek { offset, bytes: DEFAULT_BYTES, ..peek.clone() })));
    }
    if from_start {
        let rule = format!("offset {} is past the end; all of it is {} bytes", peek.offset, rendering.len());
        return Err(peek.refused(rule, look.fitting(&Peek { offset: 0, ..peek.clone() })));
    }
    let answer = answer(peek, &rendering);
    let needed = session.tokens(answer.len());
    if needed > room {
        let rule = format!("the answer would be about {needed} tokens, and there is room for {room}");
        return Err(peek.refused(rule, look.fitting(peek)));
    }
    Ok(answer)
}

/// A rendering and the room for an answer.
struct Look<'a> {
    session: &'a Session,
    rendering: &'a str,
    room: u64,
}

impl Look<'_> {
    /// The peek with its bytes halved until the answer fits; a status where nothing does.
    fn fitting(&self, peek: &Peek) -> Action {
        let least = *PEEK_BYTES.start();
        let halves = std::iter::successors(Some(peek.bytes), |bytes| (*bytes > least).then(|| (bytes / 2).max(least)));
        let mut peeks = halves.map(|bytes| Peek { bytes, ..peek.clone() });
        let fits = |peek: &Peek| self.session.tokens(answer(peek, self.rendering).len()) <= self.room;
        peeks.find(fits).map_or_else(Action::status, Action::Peek)
    }
}

/// The originals behind an id, each checked.
fn originals(session: &Session, peek: &Peek, store: Option<&dyn ObjectStore>, room: u64) -> Result<Vec<Original>, Refusal> {
    let id = peek.id.as_str();
    let tree = Action::Status(StatusPage { detail: Detail::Tree, page: 1 });
    let found = match session.recover(id, store) {
        Err(RecoverError::Unknown(_)) => session.recover_entry(id, store).map(|entry| vec![entry]),
        found => found,
    };
    found.map_err(|error| match error {
        RecoverError::Unknown(_) if id.is_empty() => peek.refused("the id is empty", tree),
        RecoverError::Unknown(_) => peek.refused("this branch has no fold and no entry with this id", tree),
        RecoverError::Damaged { .. } => peek.refused(error.to_string(), first_sound(session, id, store, room).unwrap_or(tree)),
    })
}

/// A peek of the first entry of a fold that is whole.
fn first_sound(session: &Session, fold: &str, store: Option<&dyn ObjectStore>, room: u64) -> Option<Action> {
    let hidden = session.hidden(fold)?;
    // An entry that is called like a fold is hidden behind it.
    let mut entries = hidden.into_iter().filter(|entry| session.hidden(entry).is_none());
    let sound = entries.find(|entry| session.recover_entry(entry, store).is_ok())?;
    Some(look(session, Peek::of(sound), store, room))
}

/// This peek, or the call that works in its place.
pub(super) fn look(session: &Session, sound: Peek, store: Option<&dyn ObjectStore>, room: u64) -> Action {
    peek(session, &sound, store, room).map_or_else(|refusal| refusal.call, |_| Action::Peek(sound))
}

fn rendering(session: &Session, originals: &[Original]) -> String {
    originals.iter().map(|original| rendered(session, original)).collect::<Vec<_>>().join("\n")
}

fn rendered(session: &Session, original: &Original) -> String {
    // The second copy of a line of the oldest format names nobody: what it says is all there is.
    let kept = session.entry(&original.id).filter(|entry| entry.line() == original.line).cloned();
    match kept.or_else(|| Entry::parse(&original.line).ok()) {
        Some(entry) => render(&entry),
        None => render_line(&original.id, &original.line),
    }
}

/// What a person reads, who has no window to fill: originals as text, from a byte on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What is read.
    pub text: String,
    /// The byte of the whole where it begins.
    pub start: usize,
    /// How many bytes the whole has.
    pub whole: usize,
}

/// The originals behind these ids (folds at any depth, or entries), one below the other, as text: `bytes` of it from `offset` on. Every original is
/// checked as for a peek; where one cannot be given back, a line says so in its place, and the others are shown.
///
/// ```
/// use fold_runtime::{agent::read, config::Settings, journal::Entry, session::Session};
/// let line = r#"{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"hello"}}"#;
/// let session = Session::open(&[Entry::parse(line).unwrap()], &Settings::default(), 100_000).unwrap();
/// let reading = read(&session, &["a1", "b2"], 0, 1_000, None);
/// assert!(reading.text.contains("hello") && reading.text.contains("there is no b2 on this branch"));
/// ```
pub fn read(session: &Session, ids: &[&str], offset: usize, bytes: usize, store: Option<&dyn ObjectStore>) -> Reading {
    let entries = ids.iter().flat_map(|id| session.hidden(id).unwrap_or_else(|| vec![id]));
    let texts = entries.map(|entry| match session.recover_entry(entry, store) {
        Ok(original) => rendered(session, &original),
        Err(why) => format!("{OPEN}pi-fold: {why}{CLOSE}"),
    });
    let all = texts.collect::<Vec<_>>().join("\n");
    let start = all.floor_char_boundary(offset.min(all.len()));
    let end = if all.len() - start <= bytes { all.len() } else { edge_before(&all, start + bytes) };
    Reading { text: all[start..end].to_owned(), start, whole: all.len() }
}

/// What of a rendering a look shows: one range, or a beginning and an end.
fn ranges(text: &str, offset: usize, bytes: usize) -> (Range<usize>, Option<Range<usize>>) {
    if offset == 0 && bytes < text.len() {
        let head = bytes * HEAD / 100;
        return (0..edge_before(text, head), Some(edge_after(text, text.len() - (bytes - head))..text.len()));
    }
    // Where the answer before ended: a boundary. Anywhere else the character that was asked for is shown whole.
    let start = text.floor_char_boundary(offset);
    let end = if text.len() - start <= bytes { text.len() } else { edge_before(text, start + bytes) };
    (start..end, None)
}

fn answer(peek: &Peek, text: &str) -> String {
    let (first, last) = ranges(text, peek.offset, peek.bytes);
    let (head, tail) = (&text[first.clone()], last.clone().map_or("", |last| &text[last]));
    let line = peek_line(peek, Digest::of([head, tail].concat().as_bytes()));
    if first == (0..text.len()) {
        return format!("{text}\n{line}");
    }
    let shown = last.as_ref().map_or_else(|| told(&first), |last| format!("{} and {}", told(&first), told(last)));
    let next = if first.end < text.len() {
        format!("go on: pi_fold_context {}", peek.at(first.end, peek.bytes).call())
    } else {
        format!("this is the end; the beginning: pi_fold_context {}", peek.at(0, peek.bytes).call())
    };
    let note = format!("{OPEN}pi-fold peek of {}: bytes {shown} of {}; {next}{CLOSE}", disarm(&peek.id), text.len());
    let gap = last.map_or(String::new(), |last| format!("\n{OPEN}pi-fold: {} bytes between, not shown{CLOSE}\n", last.start - first.end));
    format!("{note}\n{head}{gap}{tail}\n{note}\n{line}")
}

fn told(range: &Range<usize>) -> String {
    format!("{}..{}", range.start, range.end)
}

/// The last line of an answer, which is all that is left of it once an ephemeral peek is retired: the call that shows the same bytes
/// again, and the SHA-256 of those bytes, beginning and end joined, without the lines around them.
///
/// ```
/// use fold_runtime::{agent::{Peek, parse_peek_line, peek_line}, journal::Digest};
/// let (peek, digest) = (Peek::of("f_0123456789ab"), Digest::of(b"text"));
/// let line = peek_line(&peek, digest);
/// assert!(line.starts_with(r#"⟦pi-fold peeked {"action":"peek","id":"f_0123456789ab","offset":0,"bytes":16000} · sha256 982d9e3e"#));
/// assert_eq!(parse_peek_line(&line), Some((peek, digest)));
/// ```
pub fn peek_line(peek: &Peek, shown: Digest) -> String {
    format!("{OPEN}{PEEKED}{}{SHOWN}{shown}{CLOSE}", Action::Peek(peek.clone()).call())
}

const PEEKED: &str = "pi-fold peeked ";
const SHOWN: &str = " · sha256 ";

/// Reads a line that [`peek_line`] wrote; `None` for any other text.
pub fn parse_peek_line(line: &str) -> Option<(Peek, Digest)> {
    let inner = line.strip_prefix(OPEN)?.strip_suffix(CLOSE)?.strip_prefix(PEEKED)?;
    let (call, digest) = inner.rsplit_once(SHOWN)?;
    let Ok(Action::Peek(peek)) = Action::parse(call) else { return None };
    let digest = Digest::parse(digest)?;
    // One way to write it: what reads alike but is written otherwise is not ours.
    (peek_line(&peek, digest) == line).then_some((peek, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_look_shows_six_tenths_of_the_beginning_and_four_of_the_end() {
        let text = "x".repeat(10_000);
        assert_eq!(ranges(&text, 0, 2_000), (0..1_200, Some(9_200..10_000)));
        assert_eq!(ranges(&text, 0, 10_000), (0..10_000, None));
        assert_eq!(ranges(&text, 1_200, 2_000), (1_200..3_200, None));
        assert_eq!(ranges(&text, 9_999, 2_000), (9_999..10_000, None));
    }

    #[test]
    fn an_offset_within_a_character_shows_the_character_whole() {
        let text = "é".repeat(2_000);
        assert_eq!(ranges(&text, 1_201, 1_024), (1_200..2_224, None));
        assert_eq!(ranges(&text, 3_999, 1_024), (3_998..4_000, None));
    }

    #[test]
    fn a_slice_ends_between_graphemes_and_never_stands_still() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(400);
        for bytes in 1_024..1_060 {
            let (head, tail) = ranges(&text, 0, bytes);
            let (next, _) = ranges(&text, head.end, bytes);
            for edge in [head.end, tail.map_or(0, |tail| tail.start), next.end] {
                assert_eq!(edge % family.len(), 0, "{bytes}");
            }
        }
        let zalgo = format!("a{}", "\u{301}".repeat(3_000));
        let (mut at, mut looks) = (0, 0);
        while at < zalgo.len() {
            let (slice, _) = ranges(&zalgo, at, 1_024);
            assert!(slice.start == at && slice.end > at);
            (at, looks) = (slice.end, looks + 1);
        }
        assert!(looks < 10);
    }

    #[test]
    fn a_line_that_is_written_otherwise_is_not_ours() {
        let line = peek_line(&Peek { ephemeral: false, ..Peek::of("⟧ · sha256 ") }, Digest::of(b""));
        assert!(parse_peek_line(&line).is_some());
        for other in [line.replace("\"offset\":0,", ""), line.replace("peeked ", "peeked  "), format!("{line}\n"), String::new()] {
            assert_eq!(parse_peek_line(&other), None, "{other}");
        }
    }
}
