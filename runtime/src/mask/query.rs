//! Originals given back: whole, by call id, to a host; and as text of bounded length to an agent.

use super::{Masker, text};
use crate::fold::{edge_before, json};
use crate::journal::{BlockKind, Entry, Kind, Role};
use crate::session::Original;
use serde::Deserialize;
use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;

/// How many calls one query may name (pi-compaction, interfaces).
pub const IDS: RangeInclusive<usize> = 1..=20;

/// Bytes of originals that one answer shows: what Pi's own tools give at once. The lines around them are not counted.
pub const QUERY_BYTES: usize = 51_200;

/// A look at originals, as an agent asks for it: `{"ids":["call_1"]}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Tool calls, within [`IDS`].
    pub ids: Vec<String>,
    /// The byte of all that they answered where the answer begins; an answer that is cut off names the next one.
    #[serde(default)]
    pub offset: usize,
}

/// What an agent is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What was said, each result under a line that names it; for each call that cannot be given back a line that says why.
    pub text: String,
    /// The images named in it, as blocks of JSON.
    pub images: Vec<String>,
}

/// Why nothing is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The call does not read as a query.
    Malformed(String),
    /// Too few calls, or too many.
    Ids(usize),
    /// No tool result on this branch answers this call.
    Unknown(String),
    /// It stands in the window as it was written.
    NotMasked(String),
    /// Another extension, or the host, changed what is shown of it since.
    ChangedSince(String),
    /// No call of a query can be given back, for these reasons.
    Nothing(Vec<QueryError>),
    /// There is nothing from this byte on.
    PastEnd {
        /// What was asked for.
        offset: usize,
        /// All there is, in bytes.
        whole: usize,
    },
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Malformed(why) => write!(f, "the call does not read as {{\"ids\":[...],\"offset\":0}}: {why}"),
            QueryError::Ids(count) => write!(f, "ids has {count} calls; give {} to {}", IDS.start(), IDS.end()),
            QueryError::Unknown(id) => write!(f, "no tool result on this branch answers the call {}", json(id)),
            QueryError::NotMasked(id) => write!(f, "the result of {} is not masked: it stands in the context as it was written", json(id)),
            QueryError::ChangedSince(id) => {
                write!(f, "what is shown of the result of {} was changed by somebody else, so it is not masked", json(id))
            }
            QueryError::Nothing(reasons) => f.write_str(&reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
            QueryError::PastEnd { offset, whole } => write!(f, "offset {offset} is past the end; all of it is {whole} bytes"),
        }
    }
}

impl std::error::Error for QueryError {}

impl Masker {
    /// The exact entries whose contents were masked, by the call that they answer, in branch order: several where an id was used again. What a
    /// compaction has left out is given back too.
    ///
    /// # Errors
    /// [`QueryError`]: no such call, not masked, changed by somebody else since.
    pub fn recover(&self, call_id: &str) -> Result<Vec<Original>, QueryError> {
        Ok(self.originals(call_id)?.map(|entry| Original { id: entry.id().to_owned(), line: entry.line().to_owned(), from_store: false }).collect())
    }

    fn originals(&self, call_id: &str) -> Result<impl Iterator<Item = &Entry>, QueryError> {
        let results = self.calls.get(&text::call_key(call_id)).ok_or_else(|| QueryError::Unknown(call_id.to_owned()))?;
        if !results.iter().any(|&at| self.is_masked(at)) {
            let edited = results.iter().any(|&at| self.shown.newest_edit(at).is_some());
            let why = if edited { QueryError::ChangedSince } else { QueryError::NotMasked };
            return Err(why(call_id.to_owned()));
        }
        Ok(results.iter().filter(|&&at| self.is_masked(at)).map(|&at| &self.shown.entries[at]))
    }

    /// What an agent's call of the tool is answered: [`QUERY_BYTES`] from `offset` on. The answers to the calls that these name in turn give all of it,
    /// without a gap or a repetition.
    ///
    /// # Errors
    /// [`QueryError`]: a call that does not read as one, too many ids, an offset past the end, and where nothing at all can be given back.
    pub fn context_tree_query(&self, call: &str) -> Result<Recovered, QueryError> {
        let query: Query = serde_json::from_str(call).map_err(|why| QueryError::Malformed(why.to_string()))?;
        if !IDS.contains(&query.ids.len()) {
            return Err(QueryError::Ids(query.ids.len()));
        }
        let (mut whole, mut images, mut refused) = (String::new(), Vec::new(), Vec::new());
        for id in &query.ids {
            match self.originals(id) {
                Ok(originals) => originals.for_each(|entry| render(entry, &mut whole, &mut images)),
                Err(why) => {
                    let _ = writeln!(whole, "[{why}]");
                    refused.push(why);
                }
            }
        }
        if refused.len() == query.ids.len() {
            return Err(QueryError::Nothing(refused));
        }
        let (offset, all) = (whole.floor_char_boundary(query.offset.min(whole.len())), whole.len());
        if offset == all {
            return Err(QueryError::PastEnd { offset: query.offset, whole: all });
        }
        let end = if all - offset <= QUERY_BYTES { all } else { edge_before(&whole, offset + QUERY_BYTES) };
        let mut text = whole[offset..end].to_owned();
        if end < all {
            let ids = query.ids.iter().map(|id| json(id)).collect::<Vec<_>>().join(",");
            let _ = write!(text, "\n[bytes {offset} to {end} of {all}; what follows: {} {{\"ids\":[{ids}],\"offset\":{end}}}]", text::QUERY_TOOL);
        }
        let shown = |at: &usize| (offset..end).contains(at);
        Ok(Recovered { text, images: images.into_iter().filter(|(at, _)| shown(at)).map(|(_, image)| image).collect() })
    }
}

/// A result under a line that names it; images with the byte where they are named.
fn render(entry: &Entry, out: &mut String, images: &mut Vec<(usize, String)>) {
    let Kind::Message(Role::ToolResult { call_id, tool, is_error }) = entry.kind() else { return };
    let failed = if *is_error { ", failed" } else { "" };
    let _ = writeln!(out, "[{} of {}, entry {}{failed}]", tool.to_string_lossy(), json(&call_id.to_string_lossy()), entry.id());
    if let Some(text) = entry.content().string() {
        out.push_str(&text.to_string_lossy());
        out.push('\n');
    }
    for block in entry.content().blocks() {
        match (block.kind, block.text()) {
            (BlockKind::Text, Some(text)) => out.push_str(&text.to_string_lossy()),
            (BlockKind::Image, _) => {
                images.push((out.len(), block.raw().to_owned()));
                out.push_str("[an image]");
            }
            _ => out.push_str(block.raw()),
        }
        out.push('\n');
    }
}
