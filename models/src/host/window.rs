//! The window, kept from entry to entry.
//!
//! An append pushes one message, an edit replaces, removes or puts back one, a compaction or a move in the tree makes the window anew
//! from Pi's projection, reusing every message that was read before. Messages follow one another by the position of their source on the
//! branch, but for the one or two a compaction contributes, which stand first; so a message is found by binary search.

use crate::shown::Shown;
use crate::tokens::TokenModel;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::window::{Projected, projection};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request differs in from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The index of the first message that differs; the length of the shorter window if it is a prefix of the other.
    pub first_change: usize,
    /// How many messages the request before had.
    pub before: usize,
    /// How many this one has.
    pub now: usize,
}

impl Request {
    /// Whether messages that were sent before have changed or gone.
    pub fn rewrites(&self) -> bool {
        self.first_change < self.before
    }
}

/// Where the entries of a journal stand.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) by_id: &'a BTreeMap<Box<str>, usize>,
    pub(super) depth: &'a [usize],
}

impl Tree<'_> {
    fn at(&self, entry: &Entry) -> usize {
        self.by_id[entry.id()]
    }

    fn depth(&self, entry: &Entry) -> usize {
        self.depth[self.at(entry)]
    }

    /// Where an id stands on a branch.
    fn position(&self, branch: &[Entry], id: &str) -> Option<usize> {
        let depth = self.depth[*self.by_id.get(id)?];
        branch.get(depth).is_some_and(|entry| entry.id() == id).then_some(depth)
    }
}

/// The window and what is remembered to keep it.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) shown: Vec<Arc<Shown>>,
    /// How many messages of the compaction stand first.
    head: usize,
    /// The position of the newest compaction.
    pub(super) compaction: Option<usize>,
    /// The position of the first entry it keeps; its own where it keeps none.
    pub(super) kept_from: usize,
    /// The position of the newest entry that changed what was shown before it.
    pub(super) changed_at: Option<usize>,
    /// True tokens of all messages.
    pub(super) tokens: u64,
    /// Pi's estimate of all messages.
    pub(super) estimate: u64,
    /// The message each entry of the journal gives its content to, original or edit, once read.
    read: Vec<Option<Arc<Shown>>>,
    pub(super) previous: Vec<Arc<Shown>>,
    /// Messages before this index are those of the previous request.
    touched: usize,
}

impl Window {
    /// Takes the last entry of `branch`, which stands at `at` in the journal.
    pub(super) fn append(&mut self, branch: &[Entry], at: usize, tree: Tree<'_>, model: &TokenModel) {
        let position = branch.len() - 1;
        let entry = &branch[position];
        match entry.kind() {
            Kind::Compaction { .. } => self.remake(branch, tree, model),
            Kind::ContextEdit { target, .. } => {
                self.changed_at = Some(position);
                if let Some(target) = tree.position(branch, target) {
                    self.edit(branch, target, at, entry, model);
                }
            }
            _ => {
                let projected = projection(std::slice::from_ref(entry));
                if let Some(message) = projected[0].messages.first() {
                    let shown = self.keep(at, Shown::read(position, entry, None, message, model));
                    self.put(self.shown.len(), shown);
                }
            }
        }
    }

    /// Remembers a message by the entry that gave it its content.
    fn keep(&mut self, holder: usize, shown: Shown) -> Arc<Shown> {
        let shown = Arc::new(shown);
        if self.read.len() <= holder {
            self.read.resize(holder + 1, None);
        }
        self.read[holder] = Some(Arc::clone(&shown));
        shown
    }

    /// An edit of the entry at `target`, written at `at` in the journal.
    fn edit(&mut self, branch: &[Entry], target: usize, at: usize, edit: &Entry, model: &TokenModel) {
        if !self.holds(branch, target) {
            return;
        }
        let pair = [branch[target].clone(), edit.clone()];
        let projected = projection(&pair);
        if matches!(branch[target].kind(), Kind::Compaction { .. }) {
            // Pi writes no such edit, but a journal may hold one: the summary is gone.
            while Some(target) == self.compaction && projected[0].messages.is_empty() && self.head > 0 {
                self.head -= 1;
                self.take(0);
            }
            return;
        }
        let message = projected[0].messages.first();
        let shown = message.map(|message| self.keep(at, Shown::read(target, &branch[target], Some(edit), message, model)));
        match (self.find(target), shown) {
            (Ok(index), Some(shown)) => {
                self.take(index);
                self.put(index, shown);
            }
            (Ok(index), None) => self.take(index),
            (Err(index), Some(shown)) => self.put(index, shown),
            (Err(_), None) => {}
        }
    }

    /// The index of the message of an entry, or the index it would have.
    pub(super) fn find(&self, position: usize) -> Result<usize, usize> {
        let found = self.shown[self.head..].binary_search_by_key(&position, |shown| shown.at);
        found.map(|index| index + self.head).map_err(|index| index + self.head)
    }

    fn put(&mut self, index: usize, shown: Arc<Shown>) {
        self.tokens += shown.tokens;
        self.estimate += shown.estimate;
        self.touched = self.touched.min(index);
        self.shown.insert(index, shown);
    }

    fn take(&mut self, index: usize) {
        let gone = self.shown.remove(index);
        self.tokens -= gone.tokens;
        self.estimate -= gone.estimate;
        self.touched = self.touched.min(index);
    }

    /// Whether the entry at a position is in context.
    pub(super) fn holds(&self, branch: &[Entry], position: usize) -> bool {
        match self.compaction {
            Some(compaction) if position < compaction => position >= self.kept_from && branch[position].kind() != &Kind::Message(Role::System),
            _ => true,
        }
    }

    /// Makes the window of a branch, reading only what was never read.
    pub(super) fn remake(&mut self, branch: &[Entry], tree: Tree<'_>, model: &TokenModel) {
        self.anchor(branch, tree);
        let context = projection(branch);
        let edits = edits(&context);
        self.shown.clear();
        (self.head, self.tokens, self.estimate) = (0, 0, 0);
        for projected in &context {
            let Some(first) = projected.messages.first() else { continue };
            let position = tree.depth(projected.source);
            if Some(position) == self.compaction {
                for message in &projected.messages {
                    self.put(self.head, Arc::new(Shown::read(position, projected.source, None, message, model)));
                    self.head += 1;
                }
                continue;
            }
            let edit = edits.get(projected.source.id()).copied();
            let holder = tree.at(edit.unwrap_or(projected.source));
            let known = self.read.get(holder).and_then(Option::as_ref).filter(|shown| shown.source.id() == projected.source.id());
            let shown = match known {
                Some(shown) => Arc::clone(shown),
                None => self.keep(holder, Shown::read(position, projected.source, edit, first, model)),
            };
            self.put(self.shown.len(), shown);
        }
        self.touched = 0;
    }

    /// Finds what of a branch is in context.
    fn anchor(&mut self, branch: &[Entry], tree: Tree<'_>) {
        self.compaction = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Compaction { .. }));
        self.changed_at = branch.iter().rposition(|entry| matches!(entry.kind(), Kind::Compaction { .. } | Kind::ContextEdit { .. }));
        self.kept_from = match self.compaction.map(|at| (at, branch[at].kind())) {
            Some((at, Kind::Compaction { first_kept: Some(first) })) => tree.position(branch, first).filter(|kept| *kept < at).unwrap_or(at),
            Some((at, _)) => at,
            None => 0,
        };
    }

    /// Takes over what another session has read of the first entries of its branch.
    pub(super) fn lend(&mut self, other: &Window, path: &[usize]) {
        self.read = path.iter().map(|at| other.read.get(*at).cloned().flatten()).collect();
    }

    pub(super) fn first_change(&self) -> usize {
        let same = |(now, before): &(&Arc<Shown>, &Arc<Shown>)| Arc::ptr_eq(now, before) || now.digest == before.digest;
        let from = self.touched.min(self.previous.len());
        from + self.shown[from..].iter().zip(&self.previous[from..]).take_while(same).count()
    }

    pub(super) fn request(&mut self) -> Request {
        let first_change = self.first_change();
        let request = Request { first_change, before: self.previous.len(), now: self.shown.len() };
        let from = self.touched.min(self.previous.len());
        self.previous.truncate(from);
        self.previous.extend_from_slice(&self.shown[from..]);
        self.touched = self.shown.len();
        request
    }
}

/// The edit that stands for each target.
fn edits<'a>(context: &[Projected<'a>]) -> BTreeMap<&'a str, &'a Entry> {
    let mut edits = BTreeMap::new();
    for projected in context {
        if let Kind::ContextEdit { target, .. } = projected.source.kind() {
            edits.insert(&**target, projected.source);
        }
    }
    edits
}

/// The window of a branch, read anew.
pub(super) fn from_scratch(branch: &[Entry], model: &TokenModel) -> Vec<Arc<Shown>> {
    let positions: BTreeMap<&str, usize> = branch.iter().enumerate().map(|(at, entry)| (entry.id(), at)).collect();
    let context = projection(branch);
    let edits = edits(&context);
    let mut out = Vec::new();
    for projected in &context {
        let edit = edits.get(projected.source.id()).copied();
        for message in &projected.messages {
            out.push(Arc::new(Shown::read(positions[projected.source.id()], projected.source, edit, message, model)));
        }
    }
    out
}
