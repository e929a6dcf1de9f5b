//! What is promised and not written: the content of every such edit, derived again from the originals.

use super::lattice::State;
use super::meter::Promise;
use super::{Shown, View};
use crate::commit::Record;
use fold_runtime::journal::Digest;

impl View<'_> {
    /// Shows what the records promise, written or not.
    pub(super) fn promises(&mut self) {
        let promises = self.meter.promises.clone();
        for (at, promise) in &promises {
            self.shown.get_mut(at).expect("a promise is in context").size = promise.size();
        }
        if promises.values().all(|promise| promise.kept) {
            return;
        }
        let (standing, records) = (self.standing(), super::records(self.branch));
        let mut unwritten = Vec::new();
        for (at, promise) in promises.into_iter().filter(|(_, promise)| !promise.kept) {
            let derived = self.derived(&standing, &records[&promise.place.0], at, &promise);
            // Nobody knows the words of a promise that cannot be derived, but they are not the entry's own.
            let content = derived.clone().unwrap_or(Some(String::new()));
            self.shown.insert(at, Shown { content, size: promise.size(), clip: None });
            unwritten.extend(derived.map(|content| (promise.place, (at, content))));
        }
        unwritten.sort_by_key(|(place, _)| *place);
        self.unwritten = unwritten.into_iter().map(|(_, edit)| edit).collect();
    }

    /// The promised content, or omission; `None` where it cannot be told any more.
    fn derived(&self, standing: &State, record: &Record, at: usize, promise: &Promise) -> Option<Option<String>> {
        let Some(promised) = &promise.edit.sha256 else { return Some(None) };
        let inside = |id: &str| record.folds.iter().any(|fold| fold.children.iter().any(|(child, _)| child == id));
        let made = |id: &str| record.folds.iter().any(|fold| fold.id == id) && !inside(id);
        let mut folds = standing.folds.iter().filter(|fold| made(fold.id.as_str()));
        let content = if let Some((head, tail)) = promise.edit.clip {
            self.clipped(at, head, tail)?
        } else if let Some(fold) = folds.clone().find(|fold| fold.carrier == at) {
            self.carried(fold)
        } else if let Some(fold) = folds.find(|fold| self.beside(fold).contains(&at)) {
            self.line(fold)
        } else {
            self.branch[at].content().raw().to_owned()
        };
        (Digest::of(content.as_bytes()).to_string() == *promised).then_some(Some(content))
    }
}
