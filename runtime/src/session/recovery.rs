//! Originals, kept twice and given back whole.

use super::Session;
use crate::fold::{Fold, FoldId};
use crate::journal::Digest;
use crate::ports::{ObjectStore, StoreError};

/// One original as given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The entry's id.
    pub id: String,
    /// Its exact line.
    pub line: String,
    /// Whether the journal did not have it and the second copy was used.
    pub from_store: bool,
}

/// Why a fold cannot be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// There is no such fold, or no such entry, on the branch.
    Unknown(String),
    /// An original is missing or is not the one that was folded, and no second copy replaces it.
    Damaged {
        /// The fold.
        fold: String,
        /// The entry.
        entry: String,
    },
}

impl std::fmt::Display for RecoverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecoverError::Unknown(id) => write!(f, "there is no {id} on this branch"),
            RecoverError::Damaged { fold, entry } => write!(
                f,
                "entry {entry} of fold {fold} differs from what was folded and no second copy of it was found; nothing is given back in its place"
            ),
        }
    }
}

impl std::error::Error for RecoverError {}

/// What became of the second copies that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// How many stood there as they must.
    pub found: usize,
    /// How many were not there, and are now.
    pub written: usize,
    /// The entries whose copies were damaged or could not be read, and are whole again.
    pub repaired: Vec<String>,
    /// How many originals have no sound copy that is known of. They are offered again the next time.
    pub left: usize,
    /// The first thing that went wrong.
    pub error: Option<StoreError>,
}

impl Saved {
    /// What a person is to be told; `None` where all is well.
    pub fn warning(&self) -> Option<String> {
        let left = self.error.as_ref().map(|error| {
            format!(
                "{} folded originals have no second copy ({error}). The journal holds them; folding goes on, and they are offered to the store again at the next boundary",
                self.left
            )
        });
        let repaired = (!self.repaired.is_empty())
            .then(|| format!("the second copies of {} were damaged and have been written again from the journal", self.repaired.join(", ")));
        match (left, repaired) {
            (Some(left), Some(repaired)) => Some(format!("{left}; {repaired}")),
            (left, repaired) => left.or(repaired),
        }
    }
}

impl Session {
    /// Sees to a second copy of every folded original that none is known of: after opening of all, later of those folded since. What
    /// is missing or damaged is written from the journal and read back; what cannot be is offered again the next time.
    ///
    /// The journal still holds every original: whatever goes wrong here is a warning, never a stop.
    pub fn save(&mut self, store: &mut dyn ObjectStore) -> Saved {
        let mut saved = Saved::default();
        let mut left = Vec::new();
        while let Some(at) = self.unsaved.pop() {
            let entry = &self.context.entries[at];
            // What is not what was folded would only hide the loss.
            if self.digests.get(&at) != Some(&entry.digest()) {
                continue;
            }
            let sound = |copy: &[u8]| copy == entry.line().as_bytes();
            let stood = store.get(entry.digest());
            if matches!(&stood, Ok(Some(copy)) if sound(copy)) {
                saved.found += 1;
                continue;
            }
            let put = store.put(entry.digest(), entry.line().as_bytes());
            let refused = put.is_err();
            let back = put.and_then(|()| store.get(entry.digest()));
            match back {
                Ok(Some(copy)) if sound(&copy) && stood == Ok(None) => saved.written += 1,
                Ok(Some(copy)) if sound(&copy) => saved.repaired.push(entry.id().to_owned()),
                other => {
                    left.push(at);
                    saved.error.get_or_insert(other.err().unwrap_or_else(|| StoreError("what was written does not read back".to_owned())));
                }
            }
            // A disk that takes nothing now is asked again the next time.
            if refused {
                break;
            }
        }
        self.unsaved.extend(left);
        saved.left = self.unsaved.len();
        saved
    }

    /// How many folded originals have no second copy that is known of.
    pub fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Looks at the second copy of every folded original again, and writes from the journal what is missing or damaged.
    pub fn heal(&mut self, store: &mut dyn ObjectStore) -> Saved {
        self.unsaved = self.digests.keys().copied().collect();
        self.save(store)
    }

    /// The exact entries that a fold hides at any depth, in branch order, each checked against the digest its record holds; the
    /// store stands in for what the journal lost.
    ///
    /// # Errors
    /// [`RecoverError`] when the fold is unknown, or an original is not what was folded and the store does not have it.
    pub fn recover(&self, fold: &str, store: Option<&dyn ObjectStore>) -> Result<Vec<Original>, RecoverError> {
        let found = self.lattice.folds.get(fold).ok_or_else(|| RecoverError::Unknown(fold.to_owned()))?;
        let digest = |at: usize| self.digest_in(&found.id, at);
        self.lattice.hidden(found).into_iter().map(|at| self.original(fold, at, digest(at), store)).collect()
    }

    /// The exact entry with this id: checked like [`Session::recover`] if a fold hides it, else as it stands on the branch.
    ///
    /// # Errors
    /// [`RecoverError`] when the branch has no such entry, or it is not what was folded and the store does not have it.
    pub fn recover_entry(&self, id: &str, store: Option<&dyn ObjectStore>) -> Result<Original, RecoverError> {
        let at = *self.context.by_id.get(id).ok_or_else(|| RecoverError::Unknown(id.to_owned()))?;
        let digest = self.digests.get(&at).copied();
        let hides = |fold: &&Fold| fold.parts.contains(&at) && !self.lattice.dissolved.contains(&fold.id);
        match digest.and_then(|_| self.lattice.folds.values().find(hides)) {
            Some(fold) => self.original(fold.id.as_str(), at, digest, store),
            None => Ok(Original { id: id.to_owned(), line: self.context.entries[at].line().to_owned(), from_store: false }),
        }
    }

    /// The digest that its record holds for a part of a fold, or of one in it.
    fn digest_in(&self, fold: &FoldId, at: usize) -> Option<Digest> {
        self.dissolved.get(fold).and_then(|parts| parts.get(&at)).or_else(|| self.digests.get(&at)).copied()
    }

    fn original(&self, fold: &str, at: usize, digest: Option<Digest>, store: Option<&dyn ObjectStore>) -> Result<Original, RecoverError> {
        let entry = &self.context.entries[at];
        if digest == Some(entry.digest()) {
            return Ok(Original { id: entry.id().to_owned(), line: entry.line().to_owned(), from_store: false });
        }
        let copy = digest.zip(store).and_then(|(digest, store)| store.get(digest).ok().flatten().filter(|bytes| Digest::of(bytes) == digest));
        let line = copy.and_then(|bytes| String::from_utf8(bytes).ok());
        line.map(|line| Original { id: entry.id().to_owned(), line, from_store: true })
            .ok_or_else(|| RecoverError::Damaged { fold: fold.to_owned(), entry: entry.id().to_owned() })
    }
}
