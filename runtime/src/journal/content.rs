//! The content of a message: one string, or a list of blocks.
//!
//! A content can be megabytes and is asked for sizes, calls and texts, so [`Content::parts`] answers from one pass over it and
//! copies only what is asked for. What that pass does not expect is read block by block instead: slower, never different.

use super::json::{Bytes, Fields, Text, elements};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// One content block of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// What it holds.
    pub kind: BlockKind,
    raw: &'a str,
    /// The text of a text or thinking block, as a JSON string.
    text: Option<&'a str>,
}

/// What a content block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text,
    /// The model's reasoning.
    Thinking,
    /// A tool call.
    ToolCall,
    /// An image.
    Image,
    /// Anything else.
    Other,
}

impl BlockKind {
    fn of(name: &[u8]) -> Self {
        match name {
            b"text" => BlockKind::Text,
            b"thinking" => BlockKind::Thinking,
            b"toolCall" => BlockKind::ToolCall,
            b"image" => BlockKind::Image,
            _ => BlockKind::Other,
        }
    }
}

impl<'a> Block<'a> {
    fn new(raw: &'a str) -> Self {
        let fields = Fields::parse(raw);
        let kind = fields.as_ref().and_then(|fields| fields.bytes("type")).map_or(BlockKind::Other, |name| BlockKind::of(&name));
        let text = fields.and_then(|fields| fields.raw(if kind == BlockKind::Thinking { "thinking" } else { "text" }));
        Block { kind, raw, text }
    }

    /// The text of a text or thinking block.
    pub fn text(&self) -> Option<Text> {
        Text::parse(self.text?)
    }

    /// Id, name and raw JSON arguments of a tool call.
    pub fn call(&self) -> Option<(Text, Text, &'a str)> {
        let fields = Fields::parse(self.raw)?;
        Some((fields.text("id").unwrap_or_default(), fields.text("name").unwrap_or_default(), fields.raw("arguments").unwrap_or("{}")))
    }

    /// The block as it stands in the line.
    pub fn raw(&self) -> &'a str {
        self.raw
    }
}

/// A message content: one string, or a list of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a>(&'a str);

impl<'a> Content<'a> {
    /// An absent or null content, which Pi reads as an empty list.
    pub const EMPTY: Content<'static> = Content("[]");

    /// The empty string, which Pi reads where a system message has no content.
    pub const EMPTY_STRING: Content<'static> = Content("\"\"");

    pub(crate) fn of(json: &'a str) -> Self {
        Content(json)
    }

    /// The content as JSON text.
    pub fn raw(&self) -> &'a str {
        self.0
    }

    /// The content if it is one plain string.
    pub fn string(&self) -> Option<Text> {
        self.is_string().then(|| Text::parse(self.0)).flatten()
    }

    /// Whether it is one plain string.
    pub(crate) fn is_string(&self) -> bool {
        self.0.starts_with('"')
    }

    /// Its blocks; empty for a plain string.
    pub fn blocks(&self) -> Vec<Block<'a>> {
        elements(self.0).unwrap_or_default().into_iter().map(Block::new).collect()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        // Valid JSON already: the first characters tell.
        match self.0.as_bytes().first() {
            Some(b'"') => self.0 == "\"\"",
            Some(b'[') => self.0[1..].trim_start().starts_with(']'),
            _ => true,
        }
    }

    /// What it says, part by part, with strings as `T` takes them: whole, borrowed, or only counted. A plain string is one text.
    pub(crate) fn parts<T: Deserialize<'a>>(&self) -> Vec<Part<'a, T>> {
        if self.is_string() {
            return serde_json::from_str(self.0).into_iter().map(|text| Part::Text(Some(text))).collect();
        }
        serde_json::from_str(self.0).unwrap_or_else(|_| self.blocks().iter().map(Part::of).collect())
    }
}

/// What a block says. A string that is missing, or no string, is `None`.
pub(crate) enum Part<'a, T> {
    Text(Option<T>),
    Thinking(Option<T>),
    Call {
        id: Option<T>,
        name: Option<T>,
        arguments: &'a str,
    },
    Image,
    /// Anything else, as it stands in the line.
    Other(&'a str),
}

impl<'a, T: Deserialize<'a>> Part<'a, T> {
    /// The slow way, for every block that there can be.
    fn of(block: &Block<'a>) -> Self {
        let string = |raw: Option<&'a str>| raw.and_then(|raw| serde_json::from_str(raw).ok());
        match block.kind {
            BlockKind::Text => Part::Text(string(block.text)),
            BlockKind::Thinking => Part::Thinking(string(block.text)),
            BlockKind::ToolCall => {
                let fields = Fields::parse(block.raw);
                let field = |name| fields.as_ref().and_then(|fields| fields.raw(name));
                Part::Call { id: string(field("id")), name: string(field("name")), arguments: field("arguments").unwrap_or("{}") }
            }
            BlockKind::Image => Part::Image,
            BlockKind::Other => Part::Other(block.raw),
        }
    }
}

/// The fast way: every string where one belongs, and no kind that is not known; else an error.
impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Part<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Part<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part<'de, T>, A::Error> {
                let (mut kind, mut text, mut thinking, mut id, mut name) = (BlockKind::Other, None, None, None, None);
                let mut arguments: Option<&'de RawValue> = None;
                while let Some(Bytes(key)) = map.next_key()? {
                    match &*key {
                        b"type" => kind = BlockKind::of(&map.next_value::<Bytes<'de>>()?.0),
                        b"text" => text = Some(map.next_value()?),
                        b"thinking" => thinking = Some(map.next_value()?),
                        b"id" => id = Some(map.next_value()?),
                        b"name" => name = Some(map.next_value()?),
                        b"arguments" => arguments = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(match kind {
                    BlockKind::Text => Part::Text(text),
                    BlockKind::Thinking => Part::Thinking(thinking),
                    BlockKind::ToolCall => Part::Call { id, name, arguments: arguments.map_or("{}", RawValue::get) },
                    BlockKind::Image => Part::Image,
                    BlockKind::Other => return Err(A::Error::custom("a kind that is not known")),
                })
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}
