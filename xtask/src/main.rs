//! The commands of this project. This file only dispatches.

mod bench;
mod campaign;
mod conform;
mod extension;
mod inspect;
mod ledger;
mod replay;
mod sim;
mod test;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Journals are many small strings; this allocator takes and gives them back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status: 0 clean, 42 a violation was found, 1 the harness or its input was at fault.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "The commands of pi-fold", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must be green: formatting, lints, and every test.
    Test,
    /// The Pi package, built into `extension/dist`.
    Extension(extension::Arguments),
    /// Thousands of seeded sessions through every arm, invariants on; a table.
    Sim(sim::Arguments),
    /// One session step by step: window, marks, occupancy, cause, cost.
    Trace(sim::TraceArguments),
    /// What a turn, a commit and an open cost, with ratios from one run.
    Bench(bench::Arguments),
    /// What the tests in a real Pi compare with; see `docs/testing.md`.
    #[command(subcommand, hide = true)]
    Conform(conform::Command),
    /// Recorded sessions through every arm: what folding would have saved, with the invariants on.
    Replay(replay::Arguments),
    /// The 64-stage assignment through the arms, before every cache and price that is modelled.
    Campaign(campaign::Arguments),
    /// Published ledgers billed again: what our prices make of their totals, and whether that is what was paid.
    Ledger(ledger::Arguments),
    /// What a model sees of a session file, and what it weighs.
    Inspect {
        /// Session files of the Pi coding agent.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Also write what the screen shows as one JSON object.
        #[arg(long)]
        json: Option<PathBuf>,
    },
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
        Command::Test => test::run().map(|()| true),
        Command::Extension(arguments) => extension::run(&arguments).map(|()| true),
        Command::Bench(arguments) => bench::run(&arguments).map(|()| true),
        Command::Conform(command) => conform::run(&command).map(|()| true),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Trace(arguments) => sim::trace_one(&arguments),
        Command::Inspect { files, json } => inspect::run(&files, json.as_deref()).map(|()| true),
        Command::Campaign(arguments) => campaign::run(&arguments),
        Command::Ledger(arguments) => ledger::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(42),
        Err(reason) => {
            replay::complain(&reason);
            ExitCode::from(1)
        }
    }
}
