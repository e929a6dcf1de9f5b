//! Clipping a content: its text cut to head and tail, its images kept.

use super::text::{clip, json};
use crate::journal::{Block, BlockKind, Content, Text};

/// The content with all its text as one block of at most about `head` + `tail` bytes, followed by its images; `None` if there is
/// nothing to gain. The marker names `entry`, which gives all of it back.
pub fn clip_content(content: Content<'_>, entry: &str, head: usize, tail: usize) -> Option<String> {
    let text = text_of(content);
    let clipped = format!("{{\"type\":\"text\",\"text\":{}}}", json(&clip(&text, entry, head, tail)?));
    let blocks = content.blocks();
    let images = blocks.iter().filter(|block| block.kind == BlockKind::Image).map(Block::raw);
    Some(format!("[{}]", std::iter::once(clipped.as_str()).chain(images).collect::<Vec<_>>().join(",")))
}

/// All text of a content, its blocks joined by a line end.
pub(crate) fn text_of(content: Content<'_>) -> String {
    match content.string() {
        Some(text) => text.into_string_lossy(),
        None => {
            let blocks = content.blocks();
            let texts = blocks.iter().filter(|block| block.kind == BlockKind::Text).filter_map(Block::text);
            texts.map(Text::into_string_lossy).collect::<Vec<_>>().join("\n")
        }
    }
}
