//! What the tool did about a fold that somebody asked to have opened, closed or cut anew: by the reference's judgement it had to do it, or
//! to refuse it.

use crate::Broken;
use crate::commit::Record;
use crate::probes::Probes;
pub use crate::reference::Asked;
use crate::reference::asked;
use fold_runtime::config::Settings;
use fold_runtime::journal::Entry;

/// A record that the tool had appended behind this branch: it was not to be refused, and says exactly what the law says.
///
/// # Errors
/// [`Broken`]: `no_op`, where it was to be refused; `band`, where it says something else.
pub fn granted(before: &[Entry], settings: &Settings, window: u64, record: &Entry, probes: &mut Probes) -> Result<(), Broken> {
    let wrong = |invariant, expected: String| Err(Broken::new(invariant, expected, record.line().chars().take(400).collect::<String>()));
    let read = Record::of(record);
    let lists = read.as_ref().map(|record| (&record.opens[..], &record.closes[..], &record.dissolves[..]));
    let question = match lists {
        Some(([id], [], [])) => Asked::Expand(id),
        Some(([], [id], [])) => Asked::Refold(id),
        Some(([], [], [id])) => Asked::Dissolve(id),
        _ => return wrong("nesting", "a record that opens, closes or dissolves one fold".to_owned()),
    };
    match asked(before, settings, window, question) {
        Err(why) => wrong("no_op", format!("{question:?} is refused: {why}")),
        Ok(data) if record.field("data") != Some(&data) => wrong("band", format!("{question:?} is answered with {data}")),
        Ok(_) => {
            probes.when("refolded because it was asked for", matches!(question, Asked::Refold(_)));
            Ok(())
        }
    }
}

/// The tool refused: it had to. A fold that is to be cut anew may be refused for its cuts too, which is not looked at here.
///
/// # Errors
/// [`Broken`]: `no_op`, where nothing speaks against it.
pub fn refused(before: &[Entry], settings: &Settings, window: u64, question: Asked<'_>, probes: &mut Probes) -> Result<(), Broken> {
    let why = match (asked(before, settings, window, question), question) {
        (Err(why), _) => why,
        (Ok(_), Asked::Dissolve(_)) => return Ok(()),
        (Ok(data), _) => return Err(Broken::new("no_op", format!("{question:?} is answered with {data}"), "it was refused")),
    };
    let probe = match (question, why) {
        // A carrier that is taken is too rare for a probe of its own.
        (Asked::Expand(_), "unknown" | "not shown" | "taken") => "expand refused: not shown",
        (Asked::Expand(_), "changed") => "expand refused: an original has changed",
        (Asked::Expand(_), "left out in part") => "expand refused: left out in part",
        (Asked::Expand(_), "foreign") => "expand refused: edited by somebody else",
        (Asked::Expand(_), "pinned") => "expand refused: pinned",
        (Asked::Expand(_), "too large") => "expand refused: the window would be too large",
        (Asked::Expand(_), _) => "expand refused: over the cap of pins",
        (Asked::Refold(_), "foreign") => "refold refused: edited by somebody else",
        (Asked::Refold(_), "pinned") => "refold refused: pinned",
        (Asked::Refold(_), _) => "refold refused: not open",
        (Asked::Dissolve(_), _) => "dissolving refused",
    };
    probes.hit(probe);
    Ok(())
}
