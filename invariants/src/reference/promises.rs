//! What is promised and not written: the content of every such edit, derived again from the originals.

use super::lattice::State;
use super::meter::Promise;
use super::{Shown, View};
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
        let standing = self.stand();
        let mut unwritten = Vec::new();
        for (at, promise) in promises.into_iter().filter(|(_, promise)| !promise.kept) {
            let derived = self.derived(&standing, at, &promise);
            // Nobody knows the words of a promise that cannot be derived, but they are not the entry's own.
            let content = derived.clone().unwrap_or(Some(String::new()));
            self.shown.insert(at, Shown { content, size: promise.size(), clip: None });
            unwritten.extend(derived.map(|content| (promise.place, (at, content))));
        }
        unwritten.sort_by_key(|(place, _)| *place);
        self.unwritten = unwritten.into_iter().map(|(_, edit)| edit).collect();
    }

    /// The promised content, or omission; `None` where it cannot be told any more.
    fn derived(&self, standing: &State, at: usize, promise: &Promise) -> Option<Option<String>> {
        let Some(promised) = &promise.edit.sha256 else { return Some(None) };
        let is_it = |content: &String| Digest::of(content.as_bytes()).to_string() == *promised;
        if let Some((head, tail)) = promise.edit.clip {
            return self.clipped(at, head, tail).filter(is_it).map(Some);
        }
        let carried = standing.shown_folds().filter(|fold| fold.carrier == at).map(|fold| self.carried(fold));
        let lines = standing.shown_folds().filter(|fold| self.beside(fold).contains(&at)).map(|fold| self.line(fold));
        let own = self.branch[at].content().raw().to_owned();
        carried.chain(lines).chain(self.retired(at)).chain([own]).find(is_it).map(Some)
    }
}
