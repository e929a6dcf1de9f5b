//! What a person is shown of the window: every message is in one row, every row in one category, and the shares are those of the bar.

use crate::Broken;
use fold_models::shown::{Role, Shown};
use fold_runtime::session::{Category, FoldView, Gauge, Item, Place, Row, State};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether a map and a gauge tell what a window shows. `folds` tells of a message whether any fold on the branch hides or carries it: what looks like a
/// placeholder elsewhere is what somebody said, or what another extension wrote.
///
/// # Errors
/// [`Broken`]: `mapped`.
pub fn tells(rows: &[Row<'_>], gauge: &Gauge, shown: u64, window: &[Arc<Shown>], folds: &dyn Fn(&Shown) -> bool) -> Result<(), Broken> {
    let broken = |expected: &str, seen: String| Err(Broken::new("mapped", expected, seen));
    let mut alone = BTreeSet::new();
    let mut folded = BTreeSet::new();
    for row in rows {
        match &row.item {
            // What is shown of an expanded fold has rows of its own.
            Item::Fold(FoldView { place: Place::Open, .. }, _) if row.shown == 0 => {}
            Item::Fold(..) => folded.extend(row.entries.iter().copied()),
            Item::Unit { state: State::Folded, id, .. } => return broken("nothing hidden has a row of its own", format!("{id} has one")),
            Item::Unit { .. } => {
                if let Some(twice) = row.entries.iter().find(|id| !alone.insert(**id)) {
                    return broken("an entry is in one row", format!("{twice} is in two"));
                }
            }
        }
    }
    // The message that called a placeholder's result stays for its sake, and is neither hidden nor raw.
    let is_told = |message: &Shown| alone.contains(message.source.id()) || folded.contains(message.source.id()) || message.role == Role::Assistant;
    if let Some(message) = window.iter().find(|message| message.facts.sent && !message.facts.blank && !is_told(message)) {
        return broken("every message is in a row", format!("{} is in none", message.source.id()));
    }
    // What a person's message carries is in no batch, and counts with its fold.
    let is_ours = |message: &&Arc<Shown>| message.facts.placeholder && message.role == Role::ToolResult && folds(message);
    if let Some(message) = window.iter().filter(is_ours).find(|message| !folded.contains(message.source.id())) {
        return broken("every placeholder is in the row of its fold", format!("that of {} is in none", message.source.id()));
    }
    let sum: u64 = gauge.weights.iter().sum();
    if sum != shown {
        return broken("the categories sum up to what is shown", format!("{sum} of {shown}"));
    }
    for category in Category::ALL {
        let of: u64 = rows.iter().filter(|row| row.category == category).map(|row| row.shown).sum();
        if category != Category::Raw && of != gauge.weights[category as usize] {
            return broken("rows and bar agree", format!("{category:?} is {of} by its rows, {} by the bar", gauge.weights[category as usize]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fold_runtime::config::Settings;
    use fold_runtime::journal::Entry;
    use fold_runtime::session::Session;

    fn session() -> Session {
        let line = |id: &str, text: &str| format!(r#"{{"type":"message","id":"{id}","message":{{"role":"user","content":"{text}"}}}}"#);
        let entries: Vec<Entry> = [line("a", "why?"), line("b", "how?")].iter().map(|line| Entry::parse(line).unwrap()).collect();
        Session::open(&entries, &Settings::default(), 20_000).unwrap()
    }

    #[test]
    fn a_map_that_counts_twice_or_leaves_out_is_caught() {
        let session = session();
        let (rows, gauge, shown) = (session.map(), session.gauge(), session.shown().weight());
        assert_eq!(tells(&rows, &gauge, shown, &[], &|_| true), Ok(()));
        let twice: Vec<_> = rows.iter().chain(&rows[..1]).cloned().collect();
        assert!(tells(&twice, &gauge, shown, &[], &|_| true).is_err());
        assert!(tells(&rows, &gauge, shown + 1, &[], &|_| true).is_err());
        let pinned: Vec<_> = rows.iter().cloned().map(|row| Row { category: Category::Pinned, ..row }).collect();
        assert!(tells(&pinned, &gauge, shown, &[], &|_| true).is_err());
        let hidden: Vec<_> = rows.iter().cloned().map(|row| Row { item: Item::Unit { id: "a", state: State::Folded, mark: None }, ..row }).collect();
        assert!(tells(&hidden, &gauge, shown, &[], &|_| true).is_err());
    }
}
