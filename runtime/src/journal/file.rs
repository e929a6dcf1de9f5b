//! A whole session file: header, entries, and what had to be skipped.
//!
//! Reads what Pi reads and skips what Pi skips, but never in silence: every skipped line is reported with its number.

use super::entry::{Entry, EntryError};
use super::json::{Fields, Line};
use std::fmt;

/// A session file as read.
#[derive(Debug)]
pub struct Journal {
    /// The version its header states; a header without one is version 1. Newer than 3 is read as 3, as Pi does.
    pub version: u64,
    /// The session's id, if the header has one.
    pub session: Option<String>,
    /// The entries in file order.
    pub entries: Vec<Entry>,
    /// For each entry the number of its line, counted from 1.
    pub lines: Vec<usize>,
    /// Lines that are no entry.
    pub skipped: Vec<Skipped>,
}

/// A line that was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its number, counted from 1.
    pub line: usize,
    /// Why.
    pub why: EntryError,
}

/// Why a file is not a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes are not UTF-8, from this offset on.
    NotUtf8(usize),
    /// The first entry is not a `session` header with an id.
    NoHeader,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotUtf8(at) => write!(f, "not UTF-8 from byte {at} on; a session file is UTF-8 text, one JSON object a line"),
            ReadError::NoHeader => f.write_str(
                "no header: the first entry of a session file is {\"type\":\"session\",\"id\":\"…\",…}, without a byte order mark before it",
            ),
        }
    }
}

impl std::error::Error for ReadError {}

impl Journal {
    /// Reads the bytes of a session file.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no session file at all. A malformed line is no error: see [`Journal::skipped`].
    ///
    /// ```
    /// use fold_runtime::journal::Journal;
    /// let file = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"type\":\"label\",\"id\":\"a\",\"parentId\":null}\nnonsense\n";
    /// let journal = Journal::read(file.as_bytes())?;
    /// assert_eq!(journal.entries.len(), 1);
    /// assert_eq!(journal.skipped[0].line, 3);
    /// # Ok::<(), fold_runtime::journal::ReadError>(())
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let text = std::str::from_utf8(bytes).map_err(|error| ReadError::NotUtf8(error.valid_up_to()))?;
        let (version, session) = header(text).ok_or(ReadError::NoHeader)?;
        let mut journal = Journal { version, session, entries: Vec::new(), lines: Vec::new(), skipped: Vec::new() };
        // Version 1 counts positions among the lines that parse, header included, as `firstKeptEntryIndex` does.
        let mut positions: Vec<Option<String>> = Vec::new();
        for (index, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = index + 1;
            let parsed = Line::parse(line);
            if parsed.as_ref().is_some_and(|parsed| is_header(&parsed.fields)) {
                if !positions.is_empty() {
                    journal.skipped.push(Skipped { line: number, why: EntryError::SecondHeader });
                }
                positions.push(None);
                continue;
            }
            let entry = parsed.ok_or(EntryError::NotAnObject).and_then(|parsed| {
                if version >= 2 {
                    return Entry::of_parsed(line, &parsed, version);
                }
                let (parent, id) = (journal.entries.last().map(Entry::id), format!("v1-{number}"));
                let entry = Entry::of_v1(line, &parsed, &id, parent, |at| usize::try_from(at).ok().and_then(|at| positions.get(at)?.clone()));
                positions.push(Some(id));
                Ok(entry)
            });
            match entry {
                Ok(entry) => {
                    journal.entries.push(entry);
                    journal.lines.push(number);
                }
                Err(why) => journal.skipped.push(Skipped { line: number, why }),
            }
        }
        Ok(journal)
    }
}

fn is_header(fields: &Fields<'_>) -> bool {
    fields.bytes("type").is_some_and(|kind| *kind == *b"session")
}

/// The header is the first line that holds a JSON value other than `null`, `false`, `0` or `""`, which Pi skips like noise.
fn header(text: &str) -> Option<(u64, Option<String>)> {
    let holds_value =
        |line: &&str| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok() && !matches!(line.trim(), "null" | "false" | "0" | "\"\"");
    let fields = text.split('\n').find(holds_value).and_then(Fields::parse).filter(is_header)?;
    let id = fields.text("id")?;
    Some((fields.count("version").unwrap_or(1), Some(id.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Kind;

    #[test]
    fn version_one_gets_ids_from_line_numbers_and_a_chain_of_parents() {
        let file = concat!(
            "{\"type\":\"session\",\"id\":\"s\"}\n",
            "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n",
            "torn {\n",
            "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"two\"}}\n",
            "{\"type\":\"compaction\",\"summary\":\"s\",\"firstKeptEntryIndex\":2}\n",
        );
        let journal = Journal::read(file.as_bytes()).expect("a session");
        let ids: Vec<_> = journal.entries.iter().map(|entry| (entry.id(), entry.parent())).collect();
        assert_eq!(ids, [("v1-2", None), ("v1-4", Some("v1-2")), ("v1-5", Some("v1-4"))]);
        assert_eq!(journal.entries[2].kind(), &Kind::Compaction { first_kept: Some("v1-4".into()) });
        assert_eq!(journal.skipped, [Skipped { line: 3, why: EntryError::NotAnObject }]);
    }

    #[test]
    fn what_is_no_session_is_refused_with_its_reason() {
        assert_eq!(Journal::read(b"").unwrap_err(), ReadError::NoHeader);
        assert_eq!(Journal::read(b"{\"type\":\"label\",\"id\":\"a\"}\n").unwrap_err(), ReadError::NoHeader);
        assert_eq!(Journal::read(b"{\"type\":\"session\"}\n\xff").unwrap_err(), ReadError::NotUtf8(19));
    }

    const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";
    const LABEL: &str = "{\"type\":\"label\",\"id\":\"a\",\"parentId\":null}\n";

    #[test]
    fn a_header_comes_first_and_has_an_id() {
        let read = |file: String| Journal::read(file.as_bytes()).map(|journal| journal.entries.len());
        assert_eq!(read(format!("{LABEL}{HEADER}")), Err(ReadError::NoHeader));
        assert_eq!(read(format!("{}{LABEL}", HEADER.replace("\"s\"", "5"))), Err(ReadError::NoHeader));
        assert_eq!(read(format!("[1]\n{HEADER}{LABEL}")), Err(ReadError::NoHeader));
        assert_eq!(read(format!("torn {{\nnull\n{HEADER}{LABEL}")), Ok(1));
    }

    #[test]
    fn a_version_written_as_three_point_zero_is_three() {
        let journal = Journal::read(format!("{}{LABEL}", HEADER.replace(":3,", ":3.0,")).as_bytes()).expect("a session");
        assert_eq!((journal.version, journal.entries[0].id()), (3, "a"));
    }

    #[test]
    fn a_second_header_is_reported() {
        let journal = Journal::read(format!("{HEADER}{LABEL}{HEADER}").as_bytes()).expect("a session");
        assert_eq!(journal.skipped, [Skipped { line: 3, why: EntryError::SecondHeader }]);
    }
}
