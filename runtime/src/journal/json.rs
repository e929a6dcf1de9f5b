//! Shallow JSON: objects as (key, raw value) pairs and strings as WTF-8 bytes.
//!
//! `String`, `Value`, tagged enums and `flatten` all refuse a lone surrogate escape, and derived structs refuse a repeated key,
//! which `JSON.parse` accepts (the last one wins). So every object is read through [`Fields`].

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A JavaScript string: UTF-8, except that an unpaired surrogate is kept as its three WTF-8 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// The bytes, as WTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text with each unpaired surrogate shown as U+FFFD.
    pub fn to_string_lossy(&self) -> String {
        match std::str::from_utf8(&self.0) {
            Ok(text) => text.to_owned(),
            Err(_) => self.0.utf8_chunks().fold(String::new(), |mut out, chunk| {
                out.push_str(chunk.valid());
                // One surrogate is three invalid bytes; the decoder reports them one by one, led by 0xED.
                if chunk.invalid().first() == Some(&0xED) {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                out
            }),
        }
    }

    /// [`Text::to_string_lossy`] without a copy where the text is valid.
    pub fn into_string_lossy(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|error| Text(error.into_bytes()).to_string_lossy())
    }

    /// Reads a JSON string literal; `None` if `raw` is any other value.
    pub(crate) fn parse(raw: &str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(text.as_bytes().to_vec())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// The fields of a JSON object, in order, values unparsed.
pub(crate) struct Fields<'a>(Vec<(Key<'a>, &'a RawValue)>);

/// A field's name; borrowed unless it was written with escapes.
struct Key<'a>(Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(bytes)))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text.as_bytes())))
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(bytes.to_vec())))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.as_bytes().to_vec())))
            }
        }
        deserializer.deserialize_bytes(Name)
    }
}

impl<'a> Fields<'a> {
    /// Reads an object; `None` for any other JSON value or for malformed text.
    pub(crate) fn parse(raw: &'a str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }

    /// The raw text of the last field of that name, as `JSON.parse` would keep it.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| *key.0 == *name.as_bytes()).map(|(_, value)| value.get())
    }

    /// That field as a string, if it is one.
    pub(crate) fn text(&self, name: &str) -> Option<Text> {
        self.raw(name).and_then(Text::parse)
    }

    /// That field as a non-negative whole number, however JSON writes it (`3`, `3.0`, `3e0`), if it is one.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        let raw = self.raw(name)?;
        raw.parse().ok().or_else(|| {
            let number: f64 = raw.parse().ok().filter(|number: &f64| number.fract() == 0.0 && (0.0..9.0e15).contains(number))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, not negative, and below 2^53")]
            Some(number as u64)
        })
    }

    /// That field as `true`; missing, `false` and everything else is `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The elements of a JSON array, unparsed; `None` for any other value.
pub(crate) fn elements(raw: &str) -> Option<Vec<&str>> {
    struct Array;
    impl<'de> Visitor<'de> for Array {
        type Value = Vec<&'de str>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut out = Vec::new();
            while let Some(raw) = seq.next_element::<&RawValue>()? {
                out.push(raw.get());
            }
            Ok(out)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let out = Deserializer::deserialize_seq(&mut deserializer, Array).ok()?;
    deserializer.end().ok().map(|()| out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_survives_in_values_and_keys() {
        let fields = Fields::parse(r#"{"a":"x\ud83dy","b\udc00":1,"n":7}"#).expect("an object");
        let text = fields.text("a").expect("a string");
        assert_eq!(text.as_bytes(), b"x\xed\xa0\xbdy");
        assert_eq!(text.to_string_lossy(), "x\u{fffd}y");
        assert_eq!(fields.count("n"), Some(7));
    }

    #[test]
    fn the_last_of_two_equal_keys_wins_as_in_javascript() {
        let fields = Fields::parse(r#"{"a":1,"a":2}"#).expect("an object");
        assert_eq!(fields.count("a"), Some(2));
    }

    #[test]
    fn arrays_and_strings_are_no_objects() {
        assert!(Fields::parse("[1]").is_none());
        assert!(Fields::parse("{").is_none());
        assert_eq!(elements("[1, {\"a\":2}]"), Some(vec!["1", "{\"a\":2}"]));
        assert_eq!(elements("{}"), None);
    }
}
