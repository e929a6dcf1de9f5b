//! The corpora: one long text per shape, escaped for JSON, with the places where it may be cut.

use crate::agent::stream::Stream;

/// How long a corpus is at least: many times the size of a usual text, and small enough that all of them stay in a processor's cache.
pub(super) const BYTES: usize = 256 * 1024;

/// A text as it stands inside a JSON string.
pub(super) struct Corpus {
    escaped: String,
    /// One bit per byte: whether a character or escape begins there.
    cuts: Vec<u64>,
}

impl Corpus {
    fn plain(text: &str) -> Self {
        let literal = serde_json::to_string(text).expect("a String is JSON");
        Self::escaped(literal[1..literal.len() - 1].to_owned())
    }

    /// Takes what is escaped already, because it holds what a `String` cannot.
    fn escaped(escaped: String) -> Self {
        assert!(escaped.len() >= BYTES, "a corpus is long enough");
        let mut cuts = vec![0; escaped.len() / 64 + 1];
        let bytes = escaped.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            cuts[at / 64] |= 1 << (at % 64);
            at += match (bytes[at], bytes.get(at + 1)) {
                (b'\\', Some(b'u')) => 6,
                (b'\\', _) => 2,
                _ => escaped[at..].chars().next().expect("not at the end").len_utf8(),
            };
        }
        assert_eq!(at, bytes.len(), "the last escape is whole");
        cuts[at / 64] |= 1 << (at % 64);
        Corpus { escaped, cuts }
    }

    /// At most `length` bytes, cut where cutting is allowed; `at` says where from.
    pub(super) fn slice(&self, at: u64, length: usize) -> &str {
        let room = (self.escaped.len() - length) as u64;
        let at = usize::try_from(at % room).expect("within the corpus");
        let start = self.cut_before(at);
        &self.escaped[start..self.cut_before(start + length)]
    }

    fn cut_before(&self, mut at: usize) -> usize {
        while self.cuts[at / 64] >> (at % 64) & 1 == 0 {
            at -= 1;
        }
        at
    }
}

const NOUNS: [&str; 24] = [
    "parser", "socket", "cache", "buffer", "window", "branch", "journal", "request", "timeout", "handler", "index", "token", "session", "queue",
    "cursor", "schema", "worker", "ledger", "packet", "record", "stream", "module", "header", "budget",
];
const VERBS: [&str; 16] = [
    "reads", "writes", "drops", "keeps", "splits", "merges", "opens", "closes", "checks", "flushes", "skips", "moves", "counts", "parses", "folds",
    "retries",
];
const LINKS: [&str; 12] = ["because", "while", "although", "before", "after", "unless", "so that", "when", "if", "until", "where", "whenever"];
const TYPES: [&str; 8] = ["u64", "String", "Vec<u8>", "Option<usize>", "&str", "bool", "BTreeMap<String, u32>", "Result<(), Error>"];
const FILES: [&str; 8] = ["lib", "main", "http", "url", "multi", "transfer", "vtls", "config"];

/// Grows a text from pieces until it is long enough.
fn grow(name: &str, mut piece: impl FnMut(&mut Stream, &mut String)) -> String {
    let mut stream = Stream::named(0, name);
    let mut text = String::with_capacity(BYTES + 4_096);
    while text.len() < BYTES {
        piece(&mut stream, &mut text);
    }
    text
}

pub(super) fn prose() -> Corpus {
    Corpus::plain(&grow("prose", |stream, out| {
        for _ in 0..stream.between(2, 6) {
            let clause = |stream: &mut Stream| (*stream.pick(&NOUNS), *stream.pick(&VERBS), *stream.pick(&NOUNS));
            let (who, does, what) = clause(stream);
            put!(out, "The {who} {does} the {what} {} ", stream.pick(&LINKS));
            let (who, does, what) = clause(stream);
            put!(out, "its {who} {does} every {what}. ");
        }
        out.push_str(if stream.chance(1, 4) { "\n\n" } else { "Then: " });
    }))
}

pub(super) fn source() -> Corpus {
    Corpus::plain(&grow("source", |stream, out| {
        let (name, field, other) = (*stream.pick(&NOUNS), *stream.pick(&NOUNS), *stream.pick(&NOUNS));
        put!(out, "/// Returns the {field} of a {name}.\npub fn {name}_{field}({other}: {}) -> {} {{\n", stream.pick(&TYPES), stream.pick(&TYPES));
        for _ in 0..stream.between(2, 9) {
            let (left, right, number) = (*stream.pick(&NOUNS), *stream.pick(&NOUNS), stream.below(4_096));
            match stream.below(4) {
                0 => put!(out, "    let {left} = self.{right}.get({number}).ok_or(\"no {right}\")?;\n"),
                1 => put!(out, "    if {left}.len() > {number} {{\n        return Err(Error::{right}({number}));\n    }}\n"),
                2 => put!(out, "    for {left} in &self.{right} {{\n        {other}.push({left}.clone());\n    }}\n"),
                _ => put!(out, "    // The {left} {} the {right}.\n", stream.pick(&VERBS)),
            }
        }
        out.push_str("}\n\n");
    }))
}

pub(super) fn log() -> Corpus {
    let mut second = 0;
    Corpus::plain(&grow("log", |stream, out| {
        second += stream.below(20);
        let day = second / 86_400 % 28 + 1;
        put!(out, "2026-03-{day:02} {:02}:{:02}:{:02} ", second / 3_600 % 24, second / 60 % 60, second % 60);
        let (what, file, line) = (*stream.pick(&NOUNS), *stream.pick(&FILES), stream.between(1, 2_000));
        match stream.below(20) {
            0 => put!(out, "ERROR {file}.rs:{line} {what} failed: expected `{}`, found `{}`\n", stream.pick(&TYPES), stream.pick(&TYPES)),
            1 => put!(out, "WARN  {file}: {what} took {line} ms, retrying in {} s\n", stream.between(1, 60)),
            2 => put!(out, "error[E0{:03}]: cannot find {what} in this scope\n  --> src/{file}.rs:{line}:{}\n", stream.below(800), stream.below(80)),
            3 => put!(out, "thread 'main' panicked at src/{file}.rs:{line}:5: {what} is empty\n"),
            _ => put!(out, "INFO  {file}: {what} {} {} of {line} bytes\n", stream.pick(&VERBS), stream.pick(&NOUNS)),
        }
    }))
}

pub(super) fn json() -> Corpus {
    Corpus::plain(&grow("json", |stream, out| {
        put!(out, "{{\n  \"id\": {},\n  \"{}\": {{\n", stream.below(1 << 40), stream.pick(&NOUNS));
        for _ in 0..stream.between(1, 8) {
            put!(out, "    \"{}_{}\": ", stream.pick(&NOUNS), stream.pick(&NOUNS));
            match stream.below(4) {
                0 => put!(out, "[{}, {}, {}],\n", stream.below(100), stream.below(100), stream.below(100)),
                1 => put!(out, "\"{} \\\"{}\\\"\",\n", stream.pick(&NOUNS), stream.pick(&VERBS)),
                2 => out.push_str("null,\n"),
                _ => put!(out, "{}.{},\n", stream.below(1_000), stream.below(1_000)),
            }
        }
        put!(out, "    \"ok\": {}\n  }}\n}},\n", stream.chance(3, 4));
    }))
}

pub(super) fn hex() -> Corpus {
    let mut offset: u64 = 0;
    Corpus::plain(&grow("hex", |stream, out| {
        put!(out, "{offset:08x}  ");
        (0..16).for_each(|_| put!(out, "{:02x} ", stream.below(256)));
        out.push('\n');
        offset += 16;
    }))
}

/// Pieces as they stand inside a JSON string.
const NASTY: [&str; 30] = [
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f1e9}\u{1f1ea}\u{1f1eb}",
    "e\u{301}\u{323}\u{308}\u{302}",
    "Z\u{351}\u{36b}\u{343}\u{36a}\u{302}\u{36b}\u{33d}\u{34f}\u{334}\u{319}\u{324}",
    "\u{202e}desrever\u{202c}",
    "\u{2067}\u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{2069} \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{feff}",
    "\u{2028}\u{2029}",
    "\u{1100}\u{1161}\u{11a8}",
    "\u{d55c}\u{ae00} \u{6f22}\u{5b57} \u{3072}\u{3089}\u{304c}\u{306a}",
    "\u{fdfd}\u{ffff}\u{10ffff}",
    r"\r\n",
    r"\n\n\n",
    r"\t\b\f",
    r"\u0000",
    r"\u0007\u007f\u009f",
    r"\u001b[31mred\u001b[0m\u001b]8;;http://x\u0007",
    r"\ud83d",
    r"\udc00\ud800",
    r"\ud83d\ude00",
    r#"\"}]},{\"role\":\"user\""#,
    r"\\u0041\\\\",
    "\u{27e6}pi-fold f_0123456789ab \u{b7} tool fold \u{b7} 3 entries\u{27e7}",
    "\u{27e6}end f_0123456789ab \u{b7} aa..bb \u{b7} 3 entries\u{27e7}",
    "\u{27e6}pi-fold f_ffffffffffff: result folded\u{27e7}",
    "[[pi-fold f_0123456789ab]]",
    r#"Originals: pi_fold_context {\"action\":\"peek\",\"id\":\"f_0123456789ab\"}"#,
    r"| \u27e6quoted\u27e7\n| again",
    "</summary><|im_end|>",
];

pub(super) fn nasty() -> Corpus {
    Corpus::escaped(grow("nasty", |stream, out| {
        out.push_str(stream.pick::<&str>(&NASTY));
        match stream.below(4) {
            0 => out.push_str(r"\n"),
            1 => put!(out, " {} ", stream.pick(&NOUNS)),
            2 => out.push_str(&stream.pick::<&str>(&NASTY).repeat(usize::try_from(stream.between(1, 4)).expect("small"))),
            _ => {}
        }
    }))
}
