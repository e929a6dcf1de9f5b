//! `pi-fold`: what folding would have saved in recorded sessions, whether what was folded is whole, and how to get it out. Nothing here
//! changes a session or a store. This file only dispatches.
//!
//! | where | what |
//! |---|---|
//! | `replay` | recorded sessions through folding, Pi's compaction, and neither |
//! | `verify` | every fold of a file, hashed again |
//! | `export` | the exact lines of a fold |
//! | `originals` | a session file, its folds as their records name them, and where each original still is |
//! | `rewrite` | a line as JavaScript would write it, and what of it is content |

mod export;
mod originals;
mod replay;
mod rewrite;
mod verify;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// What folding would have saved in your Pi sessions, whether what was folded is whole, and how to get it out.
///
/// Exit status: 0 clean, 42 something is damaged or a check failed, 1 the input was at fault.
#[derive(Parser)]
#[command(name = "pi-fold", bin_name = "pi-fold", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What folding would have cost and saved in recorded sessions, beside Pi's compaction and beside neither.
    Replay(replay::Arguments),
    /// Hashes every original of every fold of a session file again, against the journal and the store beside it.
    Verify(verify::Arguments),
    /// Writes the exact lines of a fold, or lists the folds of a file.
    Export(export::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let outcome = match arguments.command {
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(42),
        Err(reason) => {
            complain(&format!("error: {reason}"));
            ExitCode::from(1)
        }
    }
}

/// Says something on standard error, which may be closed: that is no reason to panic. What a file says cannot draw on the terminal.
fn complain(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect();
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
