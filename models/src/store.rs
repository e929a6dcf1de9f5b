//! Second copies of originals, in memory, with what can go wrong with a disk.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use std::collections::BTreeMap;

/// A store that forgets nothing unless it is told to fail or its objects are damaged.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    objects: BTreeMap<Digest, Vec<u8>>,
    refusal: Option<String>,
}

impl MemoryStore {
    /// From now on every operation fails with this sentence; `None` repairs the disk. What was kept stays.
    pub fn fail(&mut self, why: Option<&str>) {
        self.refusal = why.map(str::to_owned);
    }

    /// Changes the bytes kept under a digest, as a torn write or a rotten sector would; whether there were any.
    pub fn damage(&mut self, digest: Digest, how: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.objects.get_mut(&digest).map(how).is_some()
    }

    /// How many objects it keeps.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn works(&self) -> Result<(), StoreError> {
        self.refusal.as_ref().map_or(Ok(()), |why| Err(StoreError(why.clone())))
    }
}

impl ObjectStore for MemoryStore {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        self.works()?;
        self.objects.entry(digest).or_insert_with(|| bytes.to_vec());
        Ok(())
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.works()?;
        Ok(self.objects.get(&digest).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_and_putting_it_again_is_no_error() {
        let mut store = MemoryStore::default();
        let digest = Digest::of(b"one");
        store.put(digest, b"one").and_then(|()| store.put(digest, b"one")).expect("kept twice");
        assert_eq!((store.get(digest), store.len()), (Ok(Some(b"one".to_vec())), 1));
        assert_eq!(store.get(Digest::of(b"two")), Ok(None));
    }

    #[test]
    fn a_failing_disk_says_why_and_keeps_what_it_had() {
        let mut store = MemoryStore::default();
        let digest = Digest::of(b"one");
        store.put(digest, b"one").expect("kept");
        store.fail(Some("no space left on device"));
        assert_eq!(store.put(Digest::of(b"two"), b"two"), Err(StoreError("no space left on device".into())));
        assert!(store.get(digest).is_err());
        store.fail(None);
        assert_eq!(store.get(digest), Ok(Some(b"one".to_vec())));
    }

    #[test]
    fn damage_is_given_back_as_it_is_for_the_reader_to_find() {
        let mut store = MemoryStore::default();
        let digest = Digest::of(b"one");
        store.put(digest, b"one").expect("kept");
        assert!(store.damage(digest, |bytes| bytes.truncate(1)));
        assert_eq!(store.get(digest), Ok(Some(b"o".to_vec())));
        assert!(!store.damage(Digest::of(b"two"), Vec::clear));
    }
}
