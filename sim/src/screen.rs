//! Standard output that may be closed or full: `head` in a pipe is no reason to panic, a full disk is an error.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Prints a line. A closed pipe is silence; anything else that goes wrong is an error. Control characters of foreign text are
/// shown as U+FFFD, so that an entry id cannot draw on the terminal.
///
/// # Errors
/// Why standard output cannot be written.
pub fn line(text: &str) -> Result<(), String> {
    let text: String = text.chars().map(|character| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }).collect();
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output could not be written: {error}")),
        _ => Ok(()),
    }
}

/// A sentence in lines of at most so many characters, as far as its words allow.
///
/// ```
/// assert_eq!(fold_sim::screen::wrapped("one two three", 8), ["one two", "three"]);
/// ```
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Where `--json` puts what the screen shows: asked for a place before the work starts, written when it is done.
pub struct Json<'a>(Option<&'a Path>);

impl<'a> Json<'a> {
    /// Refuses a place that cannot be written, and one of the files that are read, before any work is done for it.
    ///
    /// # Errors
    /// Why the place will not do.
    pub fn at(path: Option<&'a Path>, read: &[PathBuf]) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Json(None)) };
        let same = |other: &PathBuf| path.canonicalize().is_ok_and(|place| other.canonicalize().is_ok_and(|other| other == place));
        if read.iter().any(same) {
            return Err(format!("--json {} is a file that is read here; give another one", path.display()));
        }
        let made = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path).and_then(|_| std::fs::remove_file(path));
        let possible = match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => made(path),
            Err(error) => Err(error),
            Ok(file) if file.is_file() => OpenOptions::new().write(true).open(path).and_then(|_| made(&beside(&path.canonicalize()?))),
            Ok(folder) if folder.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // A pipe or a device is written as it is, and opening it now might be seen at its other end.
            Ok(_) => Ok(()),
        };
        possible.map(|()| Json(Some(path))).map_err(|error| cannot(path, &error))
    }

    /// Writes it as one object. The file is there whole or not at all: one of before stays until the new one stands beside it.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn write(self, value: &serde_json::Value) -> Result<(), String> {
        let Some(path) = self.0 else { return Ok(()) };
        let text = format!("{value:#}\n");
        let written = if path.exists() && !path.is_file() {
            std::fs::write(path, text)
        } else {
            let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let new = beside(&place);
            let moved = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, place));
            moved.inspect_err(|_| drop(std::fs::remove_file(&new)))
        };
        written.map_err(|error| cannot(path, &error))
    }
}

/// A name that nobody else has, in the same folder.
fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".pi-fold-{}.tmp", std::process::id()))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("--json {} cannot be written: {error}", path.display())
}

/// How long something took, in seconds of the wall: for a person's eyes, and never for a decision.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "what is shown is real time")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = std::time::Instant::now();
    let out = work();
    (start.elapsed().as_secs_f64(), out)
}
