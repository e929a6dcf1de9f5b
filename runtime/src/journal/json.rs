//! Shallow JSON: objects as (key, raw value) pairs and strings as WTF-8 bytes.
//!
//! `String`, `Value`, tagged enums and `flatten` all refuse a lone surrogate escape, and derived structs refuse a repeated key,
//! which `JSON.parse` accepts (the last one wins). So every object is read through [`Fields`].

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
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

/// The bytes of a JSON string, as [`Text`] has them; borrowed unless it was written with escapes.
pub(crate) struct Bytes<'a>(pub Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowed;
        impl<'de> Visitor<'de> for Borrowed {
            type Value = Bytes<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Bytes<'de>, E> {
                Ok(Bytes(Cow::Borrowed(bytes)))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Bytes<'de>, E> {
                Ok(Bytes(Cow::Borrowed(text.as_bytes())))
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes<'de>, E> {
                Ok(Bytes(Cow::Owned(bytes.to_vec())))
            }
            fn visit_str<E>(self, text: &str) -> Result<Bytes<'de>, E> {
                Ok(Bytes(Cow::Owned(text.as_bytes().to_vec())))
            }
        }
        deserializer.deserialize_bytes(Borrowed)
    }
}

/// How many bytes a JSON string has as [`Text`], without the text.
#[derive(Clone, Copy)]
pub(crate) struct Length(pub usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;
        impl Visitor<'_> for Counted {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Length, E> {
                Ok(Length(bytes.len()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Length, E> {
                Ok(Length(text.len()))
            }
        }
        deserializer.deserialize_bytes(Counted)
    }
}

/// What a JSON value says that is a string without escapes: almost every name and id.
fn plain(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('\\'))
}

/// The fields of a JSON object, in order, values unparsed.
pub(crate) struct Fields<'a>(Vec<(Bytes<'a>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads an object; `None` for any other JSON value or for malformed text.
    pub(crate) fn parse(raw: &'a str) -> Option<Self> {
        // A refusal costs more than a look: it says where and why.
        raw.trim_start().starts_with('{').then(|| serde_json::from_str(raw).ok()).flatten()
    }

    /// The raw text of the last field of that name, as `JSON.parse` would keep it.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| *key.0 == *name.as_bytes()).map(|(_, value)| value.get())
    }

    /// That field as a string, if it is one.
    pub(crate) fn text(&self, name: &str) -> Option<Text> {
        self.bytes(name).map(|bytes| Text(bytes.into_owned()))
    }

    /// The same for a look at it, without a copy where none is needed.
    pub(crate) fn bytes(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        let raw = self.raw(name)?;
        match plain(raw) {
            Some(text) => Some(Cow::Borrowed(text.as_bytes())),
            None => serde_json::from_str(raw).ok().map(|Bytes(bytes)| bytes),
        }
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
                let mut fields = Vec::with_capacity(12);
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The fields of a line and of the message in it.
pub(crate) struct Line<'a> {
    /// Its own fields; [`Line::message`] may stand in for the one of that name.
    pub fields: Fields<'a>,
    /// Those of its `message`, if that is an object.
    pub message: Option<Fields<'a>>,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it is no JSON object. Almost every line is read in one pass; one whose `message` is no object, in two.
    pub(crate) fn parse(raw: &'a str) -> Option<Self> {
        serde_json::from_str(raw).ok().or_else(|| {
            let fields = Fields::parse(raw)?;
            let message = fields.raw("message").and_then(Fields::parse);
            Some(Line { fields, message })
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Line<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Line<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
                let (mut fields, mut message) = (Vec::with_capacity(8), None);
                while let Some(key) = map.next_key::<Bytes<'de>>()? {
                    if *key.0 == *b"message" {
                        let found: Fields<'de> = map.next_value()?;
                        // Names are the one thing that serde_json takes with a raw control character in it: the slow way refuses them.
                        if found.0.iter().any(|(name, _)| name.0.iter().any(u8::is_ascii_control)) {
                            return Err(A::Error::custom("a control character in a name"));
                        }
                        message = Some(found);
                    } else {
                        fields.push((key, map.next_value()?));
                    }
                }
                Ok(Line { fields: Fields(fields), message })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The elements of a JSON array, unparsed; `None` for any other value.
pub(crate) fn elements(raw: &str) -> Option<Vec<&str>> {
    serde_json::from_str::<Vec<&RawValue>>(raw).ok().map(|elements| elements.into_iter().map(RawValue::get).collect())
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
