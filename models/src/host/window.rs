//! The window, kept from entry to entry.
//!
//! An append pushes one message, an edit replaces, removes or puts back one, a compaction or a move in the tree makes the window anew
//! from Pi's projection, reusing every message that was read before. Messages follow one another by the position of their source on the
//! branch, but for the one or two a compaction contributes, which stand first; so a message is found by binary search.

use super::ids::Ids;
use crate::shown::{Role as ShownRole, Said, Shown};
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
    pub(super) journal: &'a [Entry],
    pub(super) ids: &'a Ids,
    pub(super) depth: &'a [usize],
}

impl Tree<'_> {
    fn at(&self, entry: &Entry) -> usize {
        self.ids.get(self.journal, entry.id()).expect("an entry of a branch stands in the journal")
    }

    fn depth(&self, entry: &Entry) -> usize {
        self.depth[self.at(entry)]
    }

    /// Where an id stands on a branch.
    fn position(&self, branch: &[Entry], id: &str) -> Option<usize> {
        let depth = self.depth[self.ids.get(self.journal, id)?];
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
    /// The newest edit of each target in context: positions on the branch, and in the journal.
    edits: BTreeMap<usize, usize>,
    /// What an extension shows over the branch: an edit that is on no branch, or an omission.
    overlay: BTreeMap<usize, Option<Entry>>,
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
                    // What is written wins; whoever shows something over it says so again.
                    self.overlay.remove(&target);
                    self.edits.insert(target, at);
                    self.edit(branch, target, at, model);
                }
            }
            _ => {
                if let Some(role) = plain_role(entry) {
                    let said = Said::Content(entry.content().raw());
                    let shown = self.keep(at, Shown::of(position, entry, None, role, said, model));
                    return self.put(self.shown.len(), shown);
                }
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

    /// The last entry of the branch, written at `at` in the journal, edits the entry at `target`.
    fn edit(&mut self, branch: &[Entry], target: usize, at: usize, model: &TokenModel) {
        if !self.holds(branch, target) {
            return;
        }
        let (source, edit) = (&branch[target], branch.last().expect("the edit"));
        let omits = matches!(edit.kind(), Kind::ContextEdit { omits: true, .. });
        if matches!(source.kind(), Kind::Compaction { .. }) {
            // Pi writes no such edit, but a journal may hold one: the summary is gone.
            while Some(target) == self.compaction && omits && self.head > 0 {
                self.head -= 1;
                self.take(0);
            }
            return;
        }
        let shown = if omits {
            None
        } else if let (Some(content), Some(role)) = (edit.replacement(), plain_role(source)) {
            let said = Said::Content(content.raw());
            Some(self.keep(at, Shown::of(target, source, Some(edit), role, said, model)))
        } else {
            let pair = [source.clone(), edit.clone()];
            let projected = projection(&pair);
            projected[0].messages.first().map(|message| self.keep(at, Shown::read(target, source, Some(edit), message, model)))
        };
        self.replace(target, shown);
    }

    /// Puts another message, or none, in the place of an entry's.
    fn replace(&mut self, target: usize, shown: Option<Arc<Shown>>) {
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

    /// Shows these contents over the branch, and nothing else over it.
    pub(super) fn lay_over(&mut self, branch: &[Entry], journal: &[Entry], overlay: BTreeMap<usize, Option<Entry>>, model: &TokenModel) {
        let content = |edit: &Option<Entry>| edit.as_ref().and_then(Entry::replacement).map(|content| content.raw().to_owned());
        let before = std::mem::replace(&mut self.overlay, overlay);
        let differs = |at: &&usize| before.get(*at).map(content) != self.overlay.get(*at).map(content);
        let changed: Vec<usize> = before.keys().chain(self.overlay.keys().filter(|at| !before.contains_key(at))).filter(differs).copied().collect();
        for target in changed {
            if !self.holds(branch, target) {
                continue;
            }
            let written = self.edits.get(&target).map(|at| &journal[*at]);
            let edit = match self.overlay.get(&target) {
                Some(over) => over.as_ref(),
                None => written,
            };
            let omits = matches!(self.overlay.get(&target), Some(None));
            let pair: Vec<Entry> = std::iter::once(&branch[target]).chain(edit).cloned().collect();
            let projected = projection(&pair);
            let message = projected[0].messages.first().filter(|_| !omits);
            let shown = message.map(|message| Arc::new(Shown::read(target, &branch[target], edit, message, model)));
            self.replace(target, shown);
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

    /// What is shown over the branch: position, and the content's edit.
    pub(super) fn overlay(&self) -> impl Iterator<Item = (usize, Option<&Entry>)> {
        self.overlay.iter().map(|(at, edit)| (*at, edit.as_ref()))
    }

    /// Makes the window of a branch, reading only what was never read.
    pub(super) fn remake(&mut self, branch: &[Entry], tree: Tree<'_>, model: &TokenModel) {
        self.anchor(branch, tree);
        let context = projection(branch);
        let edits = edits(&context);
        self.overlay.clear();
        let standing = edits.iter().filter_map(|(target, edit)| Some((tree.position(branch, target)?, tree.at(edit))));
        self.edits = standing.collect();
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

/// The role of an entry whose content stands in its message and can be edited.
fn plain_role(entry: &Entry) -> Option<ShownRole> {
    match entry.kind() {
        Kind::Message(Role::User) => Some(ShownRole::User),
        Kind::Message(Role::Assistant(_)) => Some(ShownRole::Assistant),
        Kind::Message(Role::ToolResult { .. }) => Some(ShownRole::ToolResult),
        Kind::CustomMessage => Some(ShownRole::Custom),
        _ => None,
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
pub fn from_scratch(branch: &[Entry], model: &TokenModel) -> Vec<Arc<Shown>> {
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
