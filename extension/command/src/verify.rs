//! `pi-fold verify`: every original of every fold of a file, hashed again.

use crate::originals::{File, Original, State, counted, kind};
use fold_sim::screen::{Json, line};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Originals that are said of a fold on the screen.
const SAID: usize = 5;

#[derive(clap::Args)]
pub struct Arguments {
    /// A session file of the Pi coding agent.
    file: PathBuf,
    /// Also write what the screen shows, and every original that is not whole, as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Whether nothing is damaged beyond what the store has.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let json = Json::at(arguments.json.as_deref(), std::slice::from_ref(&arguments.file))?;
    let file = File::read(&arguments.file)?;
    let (mut folds, mut counts) = (Vec::new(), BTreeMap::from(State::ALL.map(|state| (state, 0))));
    line(&format!("{}: {} in {}", arguments.file.display(), counted(file.order.len(), "fold", "folds"), counted(file.records, "record", "records")))?;
    for note in file.notes.iter().chain(&file.newer).chain(&file.unreadable) {
        line(&format!("  {note}"))?;
    }
    for id in &file.order {
        let originals = file.originals(id);
        let state = originals.iter().map(|original| original.state).max().unwrap_or(State::Whole);
        *counts.entry(state).or_insert(0) += 1;
        let what = file.folds[id].kind;
        line(&format!("{id}  {} fold of {}: {}", kind(what), counted(originals.len(), "entry", "entries"), state.words()))?;
        let wrong: Vec<&Original> = originals.iter().filter(|original| original.state > State::Whole).collect();
        for original in wrong.iter().take(SAID) {
            let place = original.line.map_or(String::new(), |line| format!(" (line {line})"));
            line(&format!("  {}{place}: {}; {}", original.entry, original.state.words(), original.why))?;
        }
        if wrong.len() > SAID {
            line(&format!("  … and {} more; --json has them", wrong.len() - SAID))?;
        }
        folds.push(json!({ "id": id, "kind": kind(what), "entries": originals.len(), "state": state, "not_whole": wrong }));
    }
    let store = match &file.store {
        Some(path) => format!("second copies: {}", path.display()),
        None => format!("second copies: none, there is no {} that could be read beside the file", fold_store::NAME),
    };
    line(&store)?;
    let summary: Vec<String> = counts.iter().filter(|(_, count)| **count > 0).map(|(state, count)| format!("{count} {}", state.words())).collect();
    line(&if summary.is_empty() { "nothing was folded".to_owned() } else { summary.join(", ") })?;
    let damaged = counts[&State::Damaged] > 0 || !file.unreadable.is_empty();
    let counts: BTreeMap<String, usize> = counts.into_iter().map(|(state, count)| (json!(state).as_str().unwrap_or("").to_owned(), count)).collect();
    let value: Value = json!({
        "schema": 1,
        "file": arguments.file.display().to_string(),
        "store": file.store.as_ref().map(|path| path.display().to_string()),
        "records": file.records,
        "folds": folds,
        "counts": counts,
        "unreadable": file.unreadable,
        "newer": file.newer,
        "notes": file.notes,
        "damaged": damaged,
    });
    json.write(&value)?;
    if !damaged && !file.newer.is_empty() {
        return Err("not every fold was looked at; a newer pi-fold can".to_owned());
    }
    Ok(!damaged)
}
