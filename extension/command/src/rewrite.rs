//! A line of JSON written again: as `JSON.stringify` writes it, or by its content alone.
//!
//! Pi writes a session with `JSON.stringify`. A tool that went over the file may have left other bytes for the same content: spaces, escapes, another
//! order of keys. The first form undoes spaces and escapes, so that the digest of the line is the one it had; the second also forgets
//! the order of keys, so that two lines of one content are equal.

use fold_runtime::journal::Text;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The line as `JSON.stringify(JSON.parse(line))` gives it; `None` where it is no JSON. Keys that look like an index, which JavaScript puts first,
/// stay where they are: no entry of Pi's has any outside a tool's own data.
pub fn as_javascript(line: &str) -> Option<String> {
    write(line, false)
}

/// What two lines of the same content have in common; `None` where it is no JSON.
pub fn content(line: &str) -> Option<String> {
    write(line, true)
}

fn write(line: &str, sorted: bool) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    value(line.trim(), sorted, &mut out)?;
    Some(out)
}

fn value(raw: &str, sorted: bool, out: &mut String) -> Option<()> {
    match raw.as_bytes().first()? {
        b'{' => {
            let mut fields = serde_json::from_str::<Fields<'_>>(raw).ok()?.0;
            if sorted {
                fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
            out.push('{');
            for (index, (key, field)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                string(key, out);
                out.push(':');
                value(field.get(), sorted, out)?;
            }
            out.push('}');
        }
        b'[' => {
            out.push('[');
            for (index, item) in serde_json::from_str::<Vec<&RawValue>>(raw).ok()?.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                value(item.get(), sorted, out)?;
            }
            out.push(']');
        }
        b'"' => string(&serde_json::from_str(raw).ok()?, out),
        b't' | b'f' | b'n' => out.push_str(raw),
        _ => number(raw.parse().ok()?, out),
    }
    Some(())
}

/// A string with the escapes of `JSON.stringify`: the least that JSON asks for, and lone surrogates.
fn string(text: &Text, out: &mut String) {
    out.push('"');
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(valid) => valid,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).expect("valid up to there"),
        };
        for character in valid.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\0'..'\u{20}' => drop(write!(out, "\\u{:04x}", u32::from(character))),
                _ => out.push(character),
            }
        }
        rest = &rest[valid.len()..];
        // What is no UTF-8 is a lone surrogate: three bytes that hold sixteen bits.
        if let [first, second, third, after @ ..] = rest {
            let unit = (u32::from(first & 0x0F) << 12) | (u32::from(second & 0x3F) << 6) | u32::from(third & 0x3F);
            let _ = write!(out, "\\u{unit:04x}");
            rest = after;
        }
    }
    out.push('"');
}

/// A number as JavaScript writes it (ECMA-262, Number::toString): the shortest digits that name it, without an exponent from a millionth up to
/// 10²¹.
fn number(number: f64, out: &mut String) {
    if !number.is_finite() {
        return out.push_str("null");
    }
    if number == 0.0 {
        return out.push('0');
    }
    out.push_str(if number < 0.0 { "-" } else { "" });
    let short = format!("{:e}", number.abs());
    let (digits, exponent) = short.split_once('e').expect("an exponent");
    let (digits, exponent) = (digits.replace('.', ""), exponent.parse::<i32>().expect("a whole exponent"));
    let count = i32::try_from(digits.len()).expect("at most 17 digits");
    // The point stands behind so many digits.
    let point = exponent + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if (count..=21).contains(&point) {
        out.extend([digits.as_str(), &zeros(point - count)]);
    } else if (1..=21).contains(&point) {
        let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.extend([whole, ".", part]);
    } else if (-5..=0).contains(&point) {
        out.extend(["0.", &zeros(-point), &digits]);
    } else {
        let (first, rest) = digits.split_at(1);
        let (dot, sign) = (if rest.is_empty() { "" } else { "." }, if exponent < 0 { '-' } else { '+' });
        let _ = write!(out, "{first}{dot}{rest}e{sign}{}", exponent.abs());
    }
}

/// An object's fields in their order; of a repeated key the last value counts, at the first place, as for `JSON.parse`.
struct Fields<'a>(Vec<(Text, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Text, &RawValue)> = Vec::new();
                let mut places: BTreeMap<Text, usize> = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<Text, &RawValue>().map_err(A::Error::custom)? {
                    match places.get(&key) {
                        Some(&place) => fields[place].1 = value,
                        None => {
                            places.insert(key.clone(), fields.len());
                            fields.push((key, value));
                        }
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_escapes_are_undone_as_javascript_writes_them() {
        let cases = [
            (r#" { "a" : [ 1 , true , null ] , "b" : { } } "#, r#"{"a":[1,true,null],"b":{}}"#),
            (r#"{"t":"\u00e4\u2028\/\u0041\ud83d\ude00"}"#, "{\"t\":\"ä\u{2028}/A😀\"}"),
            (r#""\u0008\u000c\u000A\u000d\u0009\u0001\u001F\u007f\"\\""#, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}\\\"\\\\\""),
            (r#"["\uD83D","x\udE00y"]"#, r#"["\ud83d","x\ude00y"]"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        ];
        for (line, expected) in cases {
            assert_eq!(as_javascript(line).as_deref(), Some(expected), "{line}");
        }
        assert_eq!((as_javascript("{\"a\":1"), as_javascript("{\"a\":tru}"), as_javascript("")), (None, None, None));
    }

    #[test]
    fn numbers_are_written_as_javascript_does() {
        let cases = [
            ("1.0", "1"),
            ("-0", "0"),
            ("1E3", "1000"),
            ("123456789012345680000", "123456789012345680000"),
            ("1e21", "1e+21"),
            ("3.25", "3.25"),
            ("3e-07", "3e-7"),
            ("0.0000015", "0.0000015"),
            ("1.5e-7", "1.5e-7"),
            ("-12.5e1", "-125"),
            ("0.1", "0.1"),
            ("100", "100"),
        ];
        for (raw, expected) in cases {
            assert_eq!(as_javascript(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn content_forgets_the_order_of_keys_and_nothing_else() {
        let line = r#"{"a":{"x":1,"y":[1,2]},"b":"ä"}"#;
        assert_eq!(content(line), content(r#"{ "b":"\u00e4", "a":{"y":[1.0,2],"x":1} }"#));
        for other in [r#"{"a":{"x":1,"y":[2,1]},"b":"ä"}"#, r#"{"a":{"x":1,"y":[1,2]},"b":"a"}"#, r#"{"a":{"x":1,"y":[1,2]}}"#] {
            assert_ne!(content(line), content(other), "{other}");
        }
    }
}
