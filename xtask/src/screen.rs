//! Standard output that may be closed or full: `head` in a pipe is no reason to panic, a full disk is an error.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// Prints a line. A closed pipe is silence; anything else that goes wrong is an error. Control characters of foreign text are
/// shown as U+FFFD, so that an entry id cannot draw on the terminal.
pub fn line(text: &str) -> Result<(), String> {
    let text: String = text.chars().map(|character| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }).collect();
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output could not be written: {error}")),
        _ => Ok(()),
    }
}

/// Writes what the screen showed as one JSON object, where a file was asked for.
pub fn report(path: Option<&Path>, value: &serde_json::Value) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, format!("{value:#}\n")).map_err(|error| format!("{} could not be written: {error}", path.display()))
}

/// How long something took, in seconds of the wall: for a person's eyes, and never for a decision.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "what is shown is real time")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = std::time::Instant::now();
    let out = work();
    (start.elapsed().as_secs_f64(), out)
}
