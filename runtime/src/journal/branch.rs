//! The active branch: the path from a root to a leaf of the tree that a journal is.

use super::entry::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A path through the tree, root first.
#[derive(Debug)]
pub struct Branch {
    /// Its entries, root first.
    pub entries: Vec<Entry>,
    /// What was odd about the tree.
    pub problems: Vec<BranchProblem>,
}

/// An oddity that is reported and survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchProblem {
    /// The parent of the first entry is not in the journal, so the branch begins there.
    DanglingParent {
        /// The entry whose parent is missing.
        id: String,
        /// The missing parent.
        parent: String,
    },
    /// Two entries have this id; the later one stands.
    DuplicateId(String),
    /// Following parents came back to this entry, so the branch begins there.
    Cycle(String),
}

impl Branch {
    /// The branch that ends at the last entry of the journal, which is what Pi opens.
    ///
    /// ```
    /// use fold_runtime::journal::{Branch, Entry};
    /// let entry = |id: &str, parent: &str| Entry::parse(&format!(r#"{{"type":"label","id":"{id}","parentId":{parent}}}"#));
    /// let journal = [entry("a", "null")?, entry("b", "\"a\"")?, entry("c", "\"a\"")?];
    /// let ids: Vec<_> = Branch::of(&journal).entries.iter().map(|entry| entry.id().to_owned()).collect();
    /// assert_eq!(ids, ["a", "c"]);
    /// # Ok::<(), fold_runtime::journal::EntryError>(())
    /// ```
    pub fn of(journal: &[Entry]) -> Self {
        Self::to(journal, journal.last().map(Entry::id))
    }

    /// The branch that ends at `leaf`; empty when there is no such entry.
    pub fn to(journal: &[Entry], leaf: Option<&str>) -> Self {
        let mut by_id: BTreeMap<&str, &Entry> = BTreeMap::new();
        let mut problems = Vec::new();
        for entry in journal {
            if by_id.insert(entry.id(), entry).is_some() {
                problems.push(BranchProblem::DuplicateId(entry.id().to_owned()));
            }
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = leaf.and_then(|leaf| by_id.get(leaf).copied());
        while let Some(entry) = next {
            if !seen.insert(entry.id()) {
                problems.push(BranchProblem::Cycle(entry.id().to_owned()));
                break;
            }
            entries.push(entry.clone());
            next = entry.parent().and_then(|parent| {
                let found = by_id.get(parent).copied();
                if found.is_none() {
                    problems.push(BranchProblem::DanglingParent { id: entry.id().to_owned(), parent: parent.to_owned() });
                }
                found
            });
        }
        entries.reverse();
        Branch { entries, problems }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, parent: Option<&str>) -> Entry {
        let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
        Entry::parse(&format!(r#"{{"type":"label","id":"{id}","parentId":{parent}}}"#)).expect("an entry")
    }

    #[test]
    fn a_dangling_parent_starts_the_branch_and_is_reported() {
        let branch = Branch::of(&[entry("b", Some("gone")), entry("c", Some("b"))]);
        assert_eq!(branch.entries.len(), 2);
        assert_eq!(branch.problems, [BranchProblem::DanglingParent { id: "b".into(), parent: "gone".into() }]);
    }

    #[test]
    fn a_cycle_ends_instead_of_hanging() {
        let branch = Branch::of(&[entry("a", Some("b")), entry("b", Some("a"))]);
        assert_eq!(branch.entries.len(), 2);
        assert_eq!(branch.problems, [BranchProblem::Cycle("b".into())]);
    }

    #[test]
    fn several_roots_are_several_branches() {
        let journal = [entry("a", None), entry("b", None), entry("c", Some("a"))];
        assert_eq!(Branch::of(&journal).entries.len(), 2);
        assert_eq!(Branch::to(&journal, Some("b")).entries.len(), 1);
        assert_eq!(Branch::to(&journal, Some("nowhere")).entries.len(), 0);
    }
}
