//! Second copies of originals, in memory, on a disk that may go wrong.
//!
//! A disk has one fault at a time, from when it is told of it until it is told otherwise, so that a session meets it as people do: for a
//! while. Two faults stay out of sight until the process has ended: a write that was never synced, and one that the end tore.
//! Rot comes by itself, to one object, at any time. Nothing here tells what is damaged; that is for the reader to find.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Every write is refused for want of space (ENOSPC).
    NoSpace,
    /// Every write is refused with an input/output error (EIO).
    WriteError,
    /// Every read is refused with an input/output error (EIO).
    ReadError,
    /// Every write is acknowledged, and only its first half is there.
    ShortWrite,
    /// Every write is acknowledged and reads back; once the process has ended, its second half is zeros.
    TornWrite,
    /// Every write is acknowledged and reads back; once the process has ended, it is not there.
    LostSync,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] = [Fault::NoSpace, Fault::WriteError, Fault::ReadError, Fault::ShortWrite, Fault::TornWrite, Fault::LostSync];
}

/// A store that forgets nothing while its disk is sound.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    objects: BTreeMap<Digest, Vec<u8>>,
    fault: Option<Fault>,
    /// Objects that were written, damaged or lost since somebody asked.
    changed: BTreeSet<Digest>,
    /// Objects that the end of the process will tear or lose.
    unsynced: BTreeMap<Digest, Fault>,
}

impl MemoryStore {
    /// From now on the disk has this fault; `None` repairs it. What it keeps stays as it is.
    pub fn fail(&mut self, fault: Option<Fault>) {
        self.fault = fault;
    }

    /// What is wrong with the disk.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The process ends and another opens the store: what was not synced is torn or lost. Tells which of both came to light.
    pub fn reopen(&mut self) -> BTreeSet<Fault> {
        let unsynced = std::mem::take(&mut self.unsynced);
        self.changed.extend(unsynced.keys());
        for (digest, fault) in &unsynced {
            match (fault, self.objects.get_mut(digest)) {
                (Fault::TornWrite, Some(bytes)) => {
                    let half = bytes.len() / 2;
                    bytes[half..].fill(0);
                }
                _ => drop(self.objects.remove(digest)),
            }
        }
        unsynced.into_values().collect()
    }

    /// Flips a bit of one object, the `nth` of all that there are, counted round; names it.
    pub fn rot(&mut self, nth: usize) -> Option<Digest> {
        let nth = nth.checked_rem(self.objects.len())?;
        let (digest, bytes) = self.objects.iter_mut().nth(nth)?;
        let middle = bytes.len() / 2;
        match bytes.get_mut(middle) {
            Some(byte) => *byte ^= 1,
            None => bytes.push(0),
        }
        self.changed.insert(*digest);
        Some(*digest)
    }

    /// Changes the bytes kept under a digest; whether there were any.
    pub fn damage(&mut self, digest: Digest, how: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.changed.insert(digest);
        self.objects.get_mut(&digest).map(how).is_some()
    }

    /// Whether these bytes stand under a digest, whatever the disk says of it.
    pub fn holds(&self, digest: Digest, bytes: &[u8]) -> bool {
        self.objects.get(&digest).is_some_and(|kept| kept == bytes)
    }

    /// Objects that may not be what they were when this was asked last: nothing but these has to be looked at again.
    pub fn changed(&mut self) -> BTreeSet<Digest> {
        std::mem::take(&mut self.changed)
    }

    /// Names all that is kept.
    pub fn portrait(&self) -> Digest {
        let all = self.objects.iter().map(|(digest, bytes)| format!("{digest} {}\n", Digest::of(bytes)));
        Digest::of(all.collect::<String>().as_bytes())
    }

    /// How many objects it keeps.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl ObjectStore for MemoryStore {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let kept = match self.fault {
            Some(Fault::NoSpace) => return Err(StoreError("no space left on device".to_owned())),
            Some(Fault::WriteError) => return Err(StoreError("input/output error".to_owned())),
            Some(Fault::ShortWrite) => &bytes[..bytes.len() / 2],
            _ => bytes,
        };
        self.changed.insert(digest);
        self.objects.insert(digest, kept.to_vec());
        match self.fault {
            Some(fault @ (Fault::TornWrite | Fault::LostSync)) => self.unsynced.insert(digest, fault),
            _ => self.unsynced.remove(&digest),
        };
        Ok(())
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        if self.fault == Some(Fault::ReadError) {
            return Err(StoreError("input/output error".to_owned()));
        }
        Ok(self.objects.get(&digest).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with one object, written while the disk had this fault.
    fn written(fault: Option<Fault>) -> (MemoryStore, Digest, Result<(), StoreError>) {
        let (mut store, digest) = (MemoryStore::default(), Digest::of(b"four"));
        store.fail(fault);
        let put = store.put(digest, b"four");
        (store, digest, put)
    }

    #[test]
    fn what_was_put_comes_back_and_putting_it_again_is_no_error() {
        let (mut store, digest, _) = written(None);
        store.put(digest, b"four").expect("kept twice");
        assert!(store.reopen().is_empty());
        assert_eq!((store.get(digest), store.len()), (Ok(Some(b"four".to_vec())), 1));
        assert_eq!(store.get(Digest::of(b"two")), Ok(None));
    }

    #[test]
    fn a_disk_that_refuses_says_why_and_keeps_what_it_had() {
        let (mut store, digest, _) = written(None);
        for (fault, why) in [(Fault::NoSpace, "no space left on device"), (Fault::WriteError, "input/output error")] {
            store.fail(Some(fault));
            assert_eq!(store.put(Digest::of(b"two"), b"two"), Err(StoreError(why.into())));
            assert_eq!((store.get(digest), store.len()), (Ok(Some(b"four".to_vec())), 1));
        }
        store.fail(Some(Fault::ReadError));
        assert!(store.put(digest, b"four").is_ok() && store.get(digest).is_err());
    }

    #[test]
    fn a_short_write_is_seen_at_once_and_a_torn_or_a_lost_one_when_the_process_has_ended() {
        let (store, digest, put) = written(Some(Fault::ShortWrite));
        assert_eq!((put, store.get(digest)), (Ok(()), Ok(Some(b"fo".to_vec()))));
        for (fault, left) in [(Fault::TornWrite, Some(b"fo\0\0".to_vec())), (Fault::LostSync, None)] {
            let (mut store, digest, put) = written(Some(fault));
            assert_eq!((put, store.get(digest)), (Ok(()), Ok(Some(b"four".to_vec()))));
            assert_eq!(store.reopen(), BTreeSet::from([fault]));
            assert_eq!(store.get(digest), Ok(left));
        }
    }

    #[test]
    fn a_write_that_a_sound_disk_repeats_is_synced() {
        let (mut store, digest, _) = written(Some(Fault::LostSync));
        store.fail(None);
        store.put(digest, b"four").expect("kept");
        assert!(store.reopen().is_empty() && store.holds(digest, b"four"));
    }

    #[test]
    fn rot_and_damage_are_given_back_as_they_are_for_the_reader_to_find() {
        let (mut store, digest, _) = written(None);
        assert_eq!((store.changed(), store.changed()), (BTreeSet::from([digest]), BTreeSet::new()));
        assert_eq!(store.rot(7), Some(digest));
        assert_eq!(store.changed(), BTreeSet::from([digest]));
        assert_eq!(store.get(digest), Ok(Some(b"fotr".to_vec())));
        assert!(store.damage(digest, |bytes| bytes.truncate(1)) && !store.holds(digest, b"four"));
        assert!(!store.damage(Digest::of(b"two"), Vec::clear));
        assert_eq!(MemoryStore::default().rot(0), None);
    }
}
