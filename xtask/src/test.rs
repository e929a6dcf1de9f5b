//! `cargo xtask test`: formatting, lints, tests, documentation examples, the extension in a real Pi; in the order of what fails fastest.

use crate::extension;
use std::process::Command;

pub fn run() -> Result<(), String> {
    step("formatting", &["fmt", "--all", "--check"])?;
    step("lints", &["clippy", "--workspace", "--all-targets", "--profile", "sim", "--", "-D", "warnings"])?;
    if cargo(&["nextest", "--version"]).output().is_ok_and(|output| output.status.success()) {
        step("tests", &["nextest", "run", "--workspace", "--cargo-profile", "sim"])?;
        step("documentation examples", &["test", "--workspace", "--doc", "--profile", "sim"])?;
    } else {
        println!("cargo-nextest is not installed; plain `cargo test` runs the same tests.");
        step("tests and documentation examples", &["test", "--workspace", "--profile", "sim"])?;
    }
    extension::build(extension::Build::Checked)?;
    extension::test()
}

fn step(name: &str, arguments: &[&str]) -> Result<(), String> {
    println!("== {name}: cargo {}", arguments.join(" "));
    let status = cargo(arguments).status().map_err(|error| format!("cargo could not be started for {name}: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{name} failed; run `cargo {}` to see it alone", arguments.join(" ")))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}
