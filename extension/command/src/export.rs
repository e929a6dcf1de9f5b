//! `pi-fold export`: the exact lines of a fold, or the folds that there are.

use crate::complain;
use crate::originals::{File, Original, State, anew, counted, kind};
use fold_sim::screen::line;
use fold_sim::table::thousands;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Arguments {
    /// A session file of the Pi coding agent.
    file: PathBuf,
    /// The fold; without it the folds of the file are listed.
    fold: Option<String>,
    /// A new file for the lines, readable by you alone, instead of standard output.
    #[arg(short = 'o', long = "output", value_name = "OUT", requires = "fold")]
    output: Option<PathBuf>,
}

/// Whether the fold could be given back.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let file = File::read(&arguments.file)?;
    let Some(fold) = &arguments.fold else {
        let listed = list(&file);
        if listed.is_empty() {
            line(&format!("{}: nothing was folded", arguments.file.display()))?;
        }
        return listed.iter().try_for_each(|text| line(text)).map(|()| true);
    };
    if !file.folds.contains_key(fold) {
        let listed = list(&file);
        let there = if listed.is_empty() { "nothing was folded in it".to_owned() } else { format!("it has\n{}", listed.join("\n")) };
        return Err(format!("there is no fold {fold:?} in {}; {there}", arguments.file.display()));
    }
    let originals = file.originals(fold);
    let lost: Vec<&Original> = originals.iter().filter(|original| original.bytes.is_none()).collect();
    if !lost.is_empty() {
        complain(&format!("error: the fold {fold} cannot be given back whole, and nothing is given back in its place:"));
        lost.iter().for_each(|original| complain(&format!("  {}: {}", original.entry, original.why)));
        return Ok(false);
    }
    for original in originals.iter().filter(|original| original.state > State::Whole) {
        complain(&format!("note: {}: {}", original.entry, original.why));
    }
    let lines: String = originals.iter().filter_map(|original| original.bytes.as_deref()).flat_map(|line| [line, "\n"]).collect();
    match &arguments.output {
        Some(path) => write_new(path, lines.as_bytes()),
        None => match std::io::stdout().lock().write_all(lines.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("standard output could not be written: {error}")),
            _ => Ok(()),
        },
    }
    .map(|()| true)
}

/// Writes a file that was not there; what could not be written whole is taken away again.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => format!("{} exists and is not written over; give another name", path.display()),
        _ => format!("{} could not be written: {error}", path.display()),
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        format!("{} could not be written: {error}", path.display())
    })
}

/// Every fold in a line of its own, below those that contain it.
fn list(file: &File) -> Vec<String> {
    let (briefs, mut lines) = (file.briefs(), Vec::new());
    file.roots().into_iter().for_each(|root| describe(file, &briefs, root, 0, &mut lines));
    lines
}

fn describe(file: &File, briefs: &BTreeMap<String, String>, fold: &str, depth: usize, lines: &mut Vec<String>) {
    let originals = file.originals(fold);
    let bytes: usize = originals.iter().filter_map(|original| original.bytes.as_ref()).map(|line| line.len() + 1).sum();
    let damaged = if originals.iter().any(|original| original.state == State::Damaged) { ", damaged" } else { "" };
    let (kind, entries) = (kind(file.folds[fold].kind), counted(originals.len(), "entry", "entries"));
    let says = briefs.get(fold).cloned().unwrap_or_else(|| anew(&originals));
    lines.push(format!("{}{fold}  {kind}, {entries}, {} bytes{damaged}  {says}", "  ".repeat(depth), thousands(bytes as u64)));
    // A record that was made up may name a fold as its own descendant.
    if depth < file.folds.len() {
        file.children(fold).into_iter().for_each(|child| describe(file, briefs, child, depth + 1, lines));
    }
}
