//! Texts by (salt, bytes, shape), at the cost of a copy.
//!
//! A session writes hundreds of texts and a campaign of sessions millions, so a text is a slice of a corpus that is built once per
//! process and stored *as it stands inside a JSON string*: writing one is a search for two cut points and one copy. A cut never
//! falls into a character or an escape. What a text of a given salt says is part of a stored plan's meaning: a change here is a
//! change of every stored plan.

mod corpus;

use corpus::Corpus;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// English sentences in paragraphs.
    Prose,
    /// Program text.
    Source,
    /// Build and server logs, an error line now and then.
    Log,
    /// Pretty-printed JSON.
    Json,
    /// A dump of bytes.
    Hex,
    /// What breaks text handling: joined emoji, combining and bidirectional marks, controls, lone surrogates, and words that look
    /// like the policy's own placeholders.
    Nasty,
    /// A log in which one line, anywhere, states a [`fact`].
    Fact,
}

/// A fact that a text of [`Shape::Fact`] states: what is asked for, and the answer, which stands nowhere else.
pub fn fact(salt: u64) -> (String, String) {
    let key = scatter(salt);
    (format!("k{:08x}", key >> 32), format!("v{:016x}", scatter(key)))
}

/// Texts that are shorter state no fact.
pub const TELLS_A_FACT: u64 = 200;

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 7] = [Shape::Prose, Shape::Source, Shape::Log, Shape::Json, Shape::Hex, Shape::Nasty, Shape::Fact];

    fn corpus(self) -> &'static Corpus {
        static CORPORA: [LazyLock<Corpus>; 6] = [
            LazyLock::new(corpus::prose),
            LazyLock::new(corpus::source),
            LazyLock::new(corpus::log),
            LazyLock::new(corpus::json),
            LazyLock::new(corpus::hex),
            LazyLock::new(corpus::nasty),
        ];
        &CORPORA[if self == Shape::Fact { Shape::Log } else { self } as usize]
    }
}

/// Texts from this size on carry their salt, so that two texts of one session are the same only if their plan says so.
const STAMPED: u64 = 24;

/// The longest slice taken from a corpus at once; longer texts are several.
const SLICE: usize = corpus::BYTES / 2;

/// Appends a text as a JSON string literal.
///
/// What stands between the quotation marks is at most `bytes` long and at most a few bytes shorter; the text itself is shorter again by what
/// escapes take (a few in a hundred; about a third for [`Shape::Nasty`]).
///
/// ```
/// use fold_models::agent::text::{Shape, json_string};
/// let mut out = String::new();
/// json_string(7, 2_000, Shape::Log, &mut out);
/// let text: String = serde_json::from_str(&out).expect("a JSON string");
/// assert!((1_800..=2_000).contains(&text.len()));
/// ```
pub fn json_string(salt: u64, bytes: u64, shape: Shape, out: &mut String) {
    out.push('"');
    inside(salt, bytes, shape, out);
    out.push('"');
}

/// The same without the quotation marks, for a text within a text.
pub(crate) fn inside(salt: u64, bytes: u64, shape: Shape, out: &mut String) {
    if bytes < STAMPED {
        return slices(salt, bytes, shape, out);
    }
    // Some texts begin with their salt and some end with it: a stamp in front would keep what is nasty from ever standing first.
    let stamp_first = salt.is_multiple_of(2);
    let start = out.len();
    if stamp_first {
        put!(out, "{salt:x} ");
        slices(salt, bytes - (out.len() - start) as u64, shape, out);
    } else {
        let digits = u64::from((u64::BITS - salt.leading_zeros()).div_ceil(4));
        slices(salt, bytes - digits - 1, shape, out);
        put!(out, " {salt:x}");
    }
    debug_assert!((out.len() - start) as u64 <= bytes, "a text never exceeds its size");
}

fn slices(salt: u64, bytes: u64, shape: Shape, out: &mut String) {
    if shape == Shape::Fact && bytes >= TELLS_A_FACT {
        let (key, value) = fact(salt);
        let line = format!(r"\nfound: {key} is {value}\n");
        let rest = bytes - line.len() as u64;
        let before = scatter(salt ^ rest) % rest;
        slices(salt, before, Shape::Log, out);
        out.push_str(&line);
        return slices(salt.wrapping_add(1), rest - before, Shape::Log, out);
    }
    let corpus = shape.corpus();
    let mut left = usize::try_from(bytes).expect("a text fits in memory");
    out.reserve(left);
    for part in 0.. {
        let length = left.min(SLICE);
        let slice = corpus.slice(scatter(salt.wrapping_add(part)), length);
        out.push_str(slice);
        left -= length;
        if left == 0 {
            return;
        }
    }
}

/// Spreads neighbouring salts over a corpus (the finalizer of SplitMix64, public domain).
fn scatter(salt: u64) -> u64 {
    let mixed = (salt ^ (salt >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::journal::{Digest, Entry};

    fn literal(salt: u64, bytes: u64, shape: Shape) -> String {
        let mut out = String::new();
        json_string(salt, bytes, shape, &mut out);
        out
    }

    #[test]
    fn a_text_is_a_json_string_whatever_its_salt_size_and_shape() {
        for shape in Shape::ALL {
            for salt in 0..400 {
                let literal = literal(salt, salt * 7 % 997, shape);
                let entry = format!(r#"{{"type":"message","id":"a","message":{{"role":"user","content":{literal}}}}}"#);
                let entry = Entry::parse(&entry).expect("an entry");
                assert!(entry.content().string().is_some(), "{shape:?} {salt}: {literal}");
                assert!(!literal.contains('\n'));
                // Only lone surrogates are beyond a String.
                assert!(shape == Shape::Nasty || serde_json::from_str::<String>(&literal).is_ok());
            }
        }
    }

    #[test]
    fn a_text_has_its_size_but_for_a_cut_character() {
        for shape in Shape::ALL {
            for bytes in [0, 1, 5, 23, 24, 25, 100, 2_000, 131_072, 131_073, 300_000, 1_000_000] {
                let inside = literal(bytes + 3, bytes, shape).len() as u64 - 2;
                let parts = bytes / (SLICE as u64) + 1;
                assert!(inside <= bytes && inside + 24 * parts >= bytes, "{shape:?}: {inside} of {bytes}");
            }
        }
    }

    #[test]
    fn texts_are_repeatable_and_differ_by_salt() {
        for shape in Shape::ALL {
            let texts: std::collections::BTreeSet<String> = (0..2_000).map(|salt| literal(salt, 40, shape)).collect();
            assert_eq!(texts.len(), 2_000, "{shape:?}");
            assert_eq!(literal(5, 3_000, shape), literal(5, 3_000, shape));
        }
    }

    #[test]
    fn stored_plans_keep_their_texts() {
        let mut all = String::new();
        for shape in [Shape::Prose, Shape::Source, Shape::Log, Shape::Json, Shape::Hex, Shape::Nasty] {
            json_string(11, 200_000, shape, &mut all);
        }
        assert_eq!(
            Digest::of(all.as_bytes()).to_string(),
            "0b0caaf16638d82c2f82b5537bf30e0adc9edddd26f768aada25c73fd99ff6ae",
            "a corpus changed: stored plans say something else now"
        );
    }

    #[test]
    fn a_fact_is_stated_once_wherever_it_stands() {
        let mut places = std::collections::BTreeSet::new();
        for salt in 0..200 {
            let text = literal(salt, 2_000, Shape::Fact);
            let (key, value) = fact(salt);
            assert_eq!(text.matches(&format!("found: {key} is {value}")).count(), 1, "{text}");
            places.insert(text.find(&value).map(|at| at / 200));
        }
        assert!(places.len() >= 9, "{places:?}");
        assert!(!literal(7, TELLS_A_FACT - 1, Shape::Fact).contains("found: "));
    }

    #[test]
    fn nasty_texts_hold_what_they_promise() {
        let all = literal(1, 200_000, Shape::Nasty);
        for part in ["\u{200d}", "\u{301}", "\u{202e}", r"\r\n", r"\u001b[", r"\u0000", "⟦pi-fold f_", r"\ud83d", r"\udc00", "\u{feff}"] {
            assert!(all.contains(part), "{part:?}");
        }
        assert!(serde_json::from_str::<String>(&all).is_err(), "a lone surrogate is no String");
    }
}
