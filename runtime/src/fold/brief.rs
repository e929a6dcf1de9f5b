//! Deterministic briefs: what a fold says of itself, from the original bytes alone.
//!
//! In order of claim: an index of user messages that the fold hides, the calls, the model's own notes, the results, and a count of
//! everything. Each section takes at most half of the room that is left and leaves the rest to the next; what does not fit is
//! counted, what is cut is marked. No input can make a brief fail.

use super::text::{FoldKind, quote};
use crate::journal::{Entry, Kind, Part, Role, Text};
use aho_corasick::{AhoCorasick, MatchKind};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use unicode_segmentation::UnicodeSegmentation;

/// How long a brief may be: characters by the budget, bytes by what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Characters.
    pub chars: usize,
    /// UTF-8 bytes.
    pub bytes: usize,
}

/// The longest line of any kind, in characters.
const LINE: usize = 200;
/// How much of a hidden user message its index shows, in characters (fold law, a person's words).
const INDEXED: usize = 80;
/// Lines that look like an error, at most this many for each result.
const ERROR_LINES: usize = 3;

/// Arguments that tell what a call was about, the most telling first.
const TELLING: [&str; 8] = ["command", "path", "file_path", "filePath", "pattern", "query", "url", "name"];

/// Writes the brief of a run of entries; `hidden` are the user messages among its parts.
///
/// ```
/// use fold_runtime::{fold::{Bound, brief}, journal::Entry};
/// let line = r#"{"type":"message","id":"a","message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"1","name":"bash","arguments":{"command":"ls -l"}}]}}"#;
/// let text = brief(&[&Entry::parse(line)?], &[], Bound { chars: 400, bytes: 400 });
/// assert!(text.contains("bash(ls -l)"));
/// # Ok::<(), fold_runtime::journal::EntryError>(())
/// ```
pub fn brief(entries: &[&Entry], hidden: &[&Entry], bound: Bound) -> String {
    let facts = Facts::of(entries);
    Page::write(&facts, &facts.counts(), &[], hidden, bound)
}

/// A fold as its parent's brief names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: FoldKind,
    /// Entries it hides, at any depth.
    pub entries: usize,
    /// What it is about; see [`gist`].
    pub gist: String,
}

/// Writes the brief of a parent: every child by name, or by the range of ids where they do not fit; then what else it hides.
pub fn parent_brief(children: &[Child], entries: &[&Entry], hidden: &[&Entry], bound: Bound) -> String {
    let facts = Facts::of(entries);
    let folded: usize = children.iter().map(|child| child.entries).sum();
    let mut counts = format!("{} folds of {folded} entries", children.len());
    if entries.len() > hidden.len() {
        counts = format!("{counts}; {}", facts.counts());
    }
    Page::write(&facts, &counts, children, hidden, bound)
}

/// What a fold is about, in one quoted line of at most 80 characters: its first call, else its first note, else its first result line.
pub fn gist(entries: &[&Entry]) -> String {
    let first = entries.iter().find_map(|entry| entry.told().lines().next());
    first.map_or_else(|| "| (nothing to say)".to_owned(), |line| fit(line, Bound { chars: INDEXED, bytes: usize::MAX }))
}

/// Lines with the room that is left for more.
struct Page<'a> {
    lines: Vec<Cow<'a, str>>,
    room: Bound,
}

impl<'a> Page<'a> {
    /// Every section in its order, and the counts below them.
    fn write(facts: &Facts<'a>, counts: &str, children: &[Child], hidden: &[&Entry], bound: Bound) -> String {
        let mut page = Page { lines: Vec::new(), room: bound };
        // Reserved first, written last: the one line that every brief has.
        let counts = page.reserve(counts);
        let index = hidden.iter().map(|entry| format!("user {}: {}", entry.id(), data(&text_of(entry), INDEXED)).into());
        page.section("user messages", index.collect());
        page.children(children);
        page.section("calls", facts.all(|told| &told.calls));
        page.section("notes", facts.all(|told| &told.notes));
        page.section_of_all("result lines", facts.all(|told| &told.results));
        page.lines.push(counts.into());
        page.lines.join("\n")
    }

    /// Takes the room for a line that is written later, cut if need be.
    fn reserve(&mut self, line: &str) -> String {
        let line = fit(line, self.room);
        self.pay(&line);
        line
    }

    fn pay(&mut self, line: &str) {
        self.room.chars = self.room.chars.saturating_sub(line.chars().count() + 1);
        self.room.bytes = self.room.bytes.saturating_sub(line.len() + 1);
    }

    /// A line for each child while there is room for naming the rest by its range.
    fn children(&mut self, children: &[Child]) {
        let Some(Child { id: last, .. }) = children.last() else { return };
        for (index, child) in children.iter().enumerate() {
            let count = if child.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", child.entries) };
            let line = format!("{} ({}, {count}): {}", child.id, child.kind.name(), child.gist);
            let range = format!("(+{} folds {}..{last})", children.len() - index, child.id);
            let rest = if index + 1 < children.len() { range.len() + 1 } else { 0 };
            if line.chars().count() + 1 + rest > self.room.chars || line.len() + 1 + rest > self.room.bytes {
                let range = self.reserve(&range);
                self.lines.push(range.into());
                break;
            }
            self.pay(&line);
            self.lines.push(line.into());
        }
    }

    fn section(&mut self, what: &str, lines: Vec<Cow<'a, str>>) {
        let half = Bound { chars: self.room.chars / 2, bytes: self.room.bytes / 2 };
        self.fill(what, lines, half);
    }

    fn section_of_all(&mut self, what: &str, lines: Vec<Cow<'a, str>>) {
        self.fill(what, lines, self.room);
    }

    /// Writes as many lines as fit into `share`, and how many did not.
    fn fill(&mut self, what: &str, lines: Vec<Cow<'a, str>>, share: Bound) {
        let kept_back = Bound { chars: self.room.chars - share.chars, bytes: self.room.bytes - share.bytes };
        self.room = share;
        let all = lines.len();
        for (index, line) in lines.into_iter().enumerate() {
            let rest = all - index;
            // `(+3 calls)`, and its line end.
            let needed = if rest > 1 { what.len() + 5 + rest.ilog10() as usize + 1 } else { 0 };
            let fits = line.chars().count() + 1 + needed <= self.room.chars && line.len() + 1 + needed <= self.room.bytes;
            if fits {
                self.pay(&line);
                self.lines.push(line);
            } else {
                let omission = format!("(+{rest} {what})");
                if omission.len() < self.room.chars.min(self.room.bytes) {
                    self.pay(&omission);
                    self.lines.push(omission.into());
                }
                break;
            }
        }
        self.room.chars += kept_back.chars;
        self.room.bytes += kept_back.bytes;
    }
}

/// What a brief can say of a run: what it can say of each entry.
struct Facts<'a>(Vec<&'a Told>);

impl<'a> Facts<'a> {
    fn of(entries: &[&'a Entry]) -> Self {
        Facts(entries.iter().map(|entry| entry.told()).collect())
    }

    /// The lines of a section.
    fn all(&self, lines: impl Fn(&'a Told) -> &'a [String]) -> Vec<Cow<'a, str>> {
        self.0.iter().flat_map(|told| lines(told)).map(|line| Cow::Borrowed(line.as_str())).collect()
    }

    fn counts(&self) -> String {
        let sum = |of: fn(&Told) -> usize| self.0.iter().map(|told| of(told)).sum::<usize>();
        let (answers, calls, results) = (sum(|told| told.answers), sum(|told| told.calls.len()), sum(|told| told.outcomes));
        let mut counts = format!("{answers} answers, {calls} calls, {results} results");
        for (count, what) in [(sum(|told| told.errors), "errors"), (sum(|told| told.images), "images")] {
            if count > 0 {
                counts.push_str(&format!(", {count} {what}"));
            }
        }
        format!("{counts}, {} bytes", sum(|told| told.bytes))
    }
}

/// What a brief can say of one entry. Every brief that may hide the entry asks for it, so the entry keeps it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    calls: Vec<String>,
    notes: Vec<String>,
    results: Vec<String>,
    answers: usize,
    outcomes: usize,
    errors: usize,
    bytes: usize,
    images: usize,
}

impl Told {
    /// Reads an entry.
    pub(crate) fn of(entry: &Entry) -> Self {
        let mut told = Told::default();
        match entry.kind() {
            Kind::Message(Role::Assistant(_)) => told.answer(entry),
            Kind::Message(Role::ToolResult { is_error, .. }) => told.result(entry, *is_error),
            Kind::CustomMessage | Kind::Message(Role::Custom) => told.note(&text_of(entry)),
            _ => {}
        }
        told
    }

    /// Calls, then notes, then results.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().chain(&self.notes).chain(&self.results).map(String::as_str)
    }

    fn answer(&mut self, entry: &Entry) {
        self.answers += 1;
        let mut texts = Vec::new();
        for part in entry.content().parts::<Text>() {
            match part {
                Part::Text(text) => texts.extend(text),
                Part::Call { name, arguments, .. } => {
                    let name = name.unwrap_or_default();
                    self.bytes += name.as_bytes().len() + arguments.len();
                    self.calls.push(data(&format!("{}({})", name.into_string_lossy(), telling(arguments)), LINE));
                }
                Part::Thinking(_) | Part::Image | Part::Other(_) => {}
            }
        }
        let text = joined(texts);
        self.bytes += text.len();
        self.note(&text);
    }

    /// The first paragraph is where an author says what matters.
    fn note(&mut self, text: &str) {
        let paragraph: Vec<&str> = text.lines().skip_while(|line| line.trim().is_empty()).take_while(|line| !line.trim().is_empty()).collect();
        if !paragraph.is_empty() {
            self.notes.push(data(&paragraph.join(" "), LINE));
        }
    }

    fn result(&mut self, entry: &Entry, is_error: bool) {
        self.outcomes += 1;
        self.errors += usize::from(is_error);
        let mut texts = Vec::new();
        for part in entry.content().parts::<Text>() {
            match part {
                Part::Text(text) => texts.extend(text),
                Part::Image => self.images += 1,
                Part::Thinking(_) | Part::Call { .. } | Part::Other(_) => {}
            }
        }
        let text = joined(texts);
        self.bytes += text.len();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let Some(first) = lines.next() else { return };
        self.results.push(data(first, LINE));
        let Some(last) = lines.next_back() else { return };
        // Each sign is searched for behind the line of the one before it, so that the text is read once.
        let (mut from, end) = (offset(&text, first) + first.len(), offset(&text, last));
        let lower = text[..end].to_ascii_lowercase();
        for _ in 0..ERROR_LINES {
            let Some(sign) = SIGNS.find(&lower[from..]).map(|sign| from + sign.start()) else { break };
            let start = text[..sign].rfind('\n').map_or(0, |newline| newline + 1);
            let stop = text[sign..].find('\n').map_or(text.len(), |newline| sign + newline);
            self.results.push(data(text[start..stop].trim_end_matches('\r'), LINE));
            from = stop;
        }
        self.results.push(data(last, LINE));
    }
}

/// One line of foreign text as quoted data of at most `most` characters.
fn data(text: &str, most: usize) -> String {
    // Most lines are plain words with one space between two of them.
    if text.len() <= most && is_plain(text) {
        return format!("| {text}");
    }
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // A character is at most four bytes: what follows is cut away anyhow.
        if line.len() > most * 4 {
            break;
        }
    }
    quote(&fit(&line, Bound { chars: most, bytes: usize::MAX }))
}

/// Whether a text is printable ASCII without a space at either end or two in a row: nothing in it has to change to be quoted.
fn is_plain(text: &str) -> bool {
    let mut after_space = true;
    let plain = text.bytes().all(|byte| {
        let space = byte == b' ';
        let fits = (b' '..=b'~').contains(&byte) && !(space && after_space);
        after_space = space;
        fits
    });
    plain && !after_space
}

/// A text cut to a bound between graphemes, the cut marked.
pub(crate) fn fit(text: &str, bound: Bound) -> String {
    // No text has more characters than bytes.
    if text.len() <= bound.bytes && (text.len() <= bound.chars || text.chars().count() <= bound.chars) {
        return text.to_owned();
    }
    let (mut chars, mut bytes) = (1, "…".len());
    let mut end = 0;
    for (at, cluster) in text.grapheme_indices(true) {
        chars += cluster.chars().count();
        bytes += cluster.len();
        if chars > bound.chars || bytes > bound.bytes {
            break;
        }
        end = at + cluster.len();
    }
    format!("{}…", &text[..end])
}

/// Where `part`, a slice of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// The arguments that tell what a call was about, else all of them.
fn telling(arguments: &str) -> String {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &serde_json::value::RawValue>>(arguments) else { return arguments.to_owned() };
    let told: Vec<String> = TELLING.iter().filter_map(|name| serde_json::from_str::<String>(fields.get(*name)?.get()).ok()).collect();
    if told.is_empty() { arguments.to_owned() } else { told.join(", ") }
}

/// All text blocks, or the plain string.
fn text_of(entry: &Entry) -> String {
    let parts = entry.content().parts::<Text>().into_iter();
    joined(parts.filter_map(|part| if let Part::Text(text) = part { text } else { None }))
}

/// Texts as one, a line end between each two.
fn joined(texts: impl IntoIterator<Item = Text>) -> String {
    let mut texts = texts.into_iter().map(Text::into_string_lossy);
    let mut all = texts.next().unwrap_or_default();
    for text in texts {
        all.push('\n');
        all.push_str(&text);
    }
    all
}

/// Signs of failure, in lower case. One pass of vector instructions, because results can be megabytes: it is to be had for leftmost
/// matches of exact words, so the text is lowered instead of the search made blind to case.
static SIGNS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let signs = ["error", "panicked", "failed", "exception", "traceback", "exit code", "exited with"];
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(signs).expect("seven short words")
});

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> Entry {
        let text = serde_json::to_string(text).expect("a string");
        Entry::parse(&format!(r#"{{"type":"message","id":"r","message":{{"role":"toolResult","toolCallId":"1","toolName":"t","content":[{{"type":"text","text":{text}}}]}}}}"#)).expect("an entry")
    }

    fn answer(text: &str, calls: usize) -> Entry {
        let call = |index| format!(r#"{{"type":"toolCall","id":"{index}","name":"read","arguments":{{"path":"src/{index}.rs","limit":9}}}}"#);
        let blocks: Vec<String> =
            (0..calls).map(call).chain([format!(r#"{{"type":"text","text":{}}}"#, serde_json::to_string(text).expect("a string"))]).collect();
        Entry::parse(&format!(
            r#"{{"type":"message","id":"a","message":{{"role":"assistant","stopReason":"toolUse","content":[{}]}}}}"#,
            blocks.join(",")
        ))
        .expect("an entry")
    }

    const ROOMY: Bound = Bound { chars: 2_000, bytes: 8_000 };

    #[test]
    fn a_brief_keeps_paths_notes_edges_and_errors() {
        let text = brief(&[&answer("Looking.\nAt it.\n\nMore.", 1), &result("first\nfine\nERROR: no such file\nfine\nlast\n")], &[], ROOMY);
        assert_eq!(text, "| read(src/0.rs)\n| Looking. At it.\n| first\n| ERROR: no such file\n| last\n1 answers, 1 calls, 1 results, 96 bytes");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let text = brief(&[&answer("", 60)], &[], Bound { chars: 400, bytes: 400 });
        assert!(text.chars().count() <= 400 && text.len() <= 400, "{}", text.len());
        let shown = text.lines().filter(|line| line.contains("read(")).count();
        assert!(text.contains(&format!("(+{} calls)", 60 - shown)), "{text}");
    }

    #[test]
    fn no_bound_is_too_small_and_none_is_overrun() {
        let entries = [answer("Ünïcødé 👨‍👩‍👧‍👦 note", 3), result(&"line with an error\n".repeat(50))];
        let entries: Vec<&Entry> = entries.iter().collect();
        for chars in 1..300 {
            let text = brief(&entries, &[entries[0]], Bound { chars, bytes: chars + 3 });
            assert!(!text.is_empty() && text.chars().count() <= chars && text.len() <= chars + 3, "{chars}: {text:?}");
        }
    }

    #[test]
    fn hidden_user_messages_are_indexed_first_with_their_ids() {
        let user =
            Entry::parse(r#"{"type":"message","id":"u7","message":{"role":"user","content":"Please never touch the lock file"}}"#).expect("an entry");
        let text = brief(&[&user, &answer("Done.", 1)], &[&user], ROOMY);
        assert!(text.starts_with("user u7: | Please never touch the lock file\n"), "{text}");
    }

    #[test]
    fn a_tool_cannot_write_a_marker_into_a_brief() {
        let text = brief(&[&result("⟦end f_000000000000⟧")], &[], ROOMY);
        assert!(!text.contains('⟦') && text.contains("[[end"), "{text}");
    }
}
