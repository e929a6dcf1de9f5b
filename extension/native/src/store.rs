//! Second copies of originals in SQLite, beside the session files; safe with several Pi processes at once.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use rusqlite::{Connection, OptionalExtension};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

/// How long another process may hold the database before a call gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A database of originals by their SHA-256.
pub struct Store {
    connection: Connection,
    batch: Batch,
}

/// Whether what is put now goes into one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// No: each has its own.
    None,
    /// Yes, and nothing was put yet.
    Empty,
    /// Yes, and the transaction has begun.
    Begun,
}

impl Store {
    /// Opens the database, or makes one that its owner alone may read.
    ///
    /// # Errors
    /// [`StoreError`], with the path: folding goes on without second copies.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let told = |error: &dyn std::fmt::Display| StoreError(format!("the store of second copies, {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        // SQLite gives its other two files the mode of the first.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map_err(|error| told(&error))?;
        let connection = Connection::open(path).map_err(|error| told(&error))?;
        // The patience comes first: the other pragmas wait for locks themselves.
        connection
            .busy_timeout(PATIENCE)
            .and_then(|()| connection.pragma_update(None, "journal_mode", "wal"))
            .and_then(|()| connection.pragma_update(None, "synchronous", "full"))
            .and_then(|()| {
                connection.execute_batch("create table if not exists originals (digest blob primary key, line blob not null) without rowid")
            })
            .map_err(|error| told(&error))?;
        Ok(Store { connection, batch: Batch::None })
    }

    /// Does work whose puts become one transaction: each alone waits for the disk, and a first commit has tens of thousands. They read back within
    /// the work already. Where nothing is put, nobody is waited for.
    ///
    /// # Errors
    /// Beside what the work gave: why what was put is not kept after all, none of it.
    pub fn together<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, Result<(), StoreError>) {
        self.roll_back();
        self.batch = Batch::Empty;
        let out = work(self);
        let kept = match std::mem::replace(&mut self.batch, Batch::None) {
            Batch::Begun if self.connection.is_autocommit() => Err(undone()),
            Batch::Begun => self.connection.execute_batch("commit").map_err(failed),
            Batch::Empty | Batch::None => Ok(()),
        };
        self.roll_back();
        (out, kept)
    }

    /// Ends a transaction that a failed commit, or a panic before it, left open.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // What a database that cannot commit says of this tells nothing new.
            let _ = self.connection.execute_batch("rollback");
        }
    }
}

impl ObjectStore for Store {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        match self.batch {
            Batch::None => {
                let (put, kept) = self.together(|store| store.put(digest, bytes));
                return put.and(kept);
            }
            // A transaction that reads first and writes then would not wait for another process.
            Batch::Empty => self.connection.execute_batch("begin immediate").map_err(failed)?,
            // A disk that is full ends a transaction by itself.
            Batch::Begun if self.connection.is_autocommit() => return Err(undone()),
            Batch::Begun => {}
        }
        self.batch = Batch::Begun;
        let mut insert = self.connection.prepare_cached("insert or replace into originals values (?1, ?2)").map_err(failed)?;
        insert.execute((digest.as_bytes(), bytes)).map(drop).map_err(failed)
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let mut asked = self.connection.prepare_cached("select line from originals where digest = ?1").map_err(failed)?;
        asked.query_row((digest.as_bytes(),), |row| row.get(0)).optional().map_err(failed)
    }
}

fn undone() -> StoreError {
    StoreError("the copies of this time were taken back by the database".to_owned())
}

fn failed(error: rusqlite::Error) -> StoreError {
    StoreError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("pi-fold-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }

    #[test]
    fn what_is_kept_is_given_back_also_to_another_process_and_its_owner_alone_may_read_it() {
        let folder = folder("kept");
        let path = folder.join("pi-fold.sqlite");
        let (digest, other) = (Digest::of(b"four"), Digest::of(b"five"));
        let mut store = Store::open(&path).expect("a store");
        store.put(digest, b"four").expect("kept");
        let mut second = Store::open(&path).expect("the same store");
        assert_eq!((second.get(digest), second.get(other)), (Ok(Some(b"four".to_vec())), Ok(None)));
        second.put(digest, b"five").expect("written over");
        assert_eq!(store.get(digest), Ok(Some(b"five".to_vec())));
        #[cfg(unix)]
        for name in ["pi-fold.sqlite", "pi-fold.sqlite-wal", "pi-fold.sqlite-shm"] {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.join(name)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn copies_of_one_time_are_one_transaction_that_is_kept_whole_or_not_at_all() {
        let folder = folder("together");
        let path = folder.join("pi-fold.sqlite");
        let mut store = Store::open(&path).expect("a store");
        let other = Store::open(&path).expect("the same store");
        let digest = |number: u32| Digest::of(&number.to_le_bytes());
        let kept = |store: &Store, number: u32| store.get(digest(number)).expect("a store that reads").is_some();
        let ((), done) = store.together(|store| {
            for number in 0..100 {
                store.put(digest(number), &[7; 1_000]).expect("put");
                assert!(kept(store, number), "it reads back at once");
                assert!(!kept(&other, number), "and is not kept yet");
            }
        });
        assert_eq!(done, Ok(()));
        assert!((0..100).all(|number| kept(&other, number)));
        // A database that may not grow: whatever is said of the single ones, the end says that none is kept.
        let pages: u32 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).expect("a count");
        store.connection.pragma_update_and_check(None, "max_page_count", pages + 10, |_| Ok(())).expect("a bound");
        let (refused, done) = store.together(|store| (100..200).filter(|number| store.put(digest(*number), &[7; 1_000]).is_err()).count());
        assert!(refused > 0);
        assert_eq!(done.is_ok(), kept(&other, 100), "{done:?}");
        assert_eq!(store.together(|_| ()).1, Ok(()), "and the next time is another one");
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn two_writers_wait_for_each_other() {
        let folder = folder("two");
        let path = folder.join("pi-fold.sqlite");
        let write = |first: u32| {
            let mut store = Store::open(&path).expect("a store");
            for number in first..first + 40 {
                store.put(Digest::of(&number.to_le_bytes()), &number.to_le_bytes()).expect("kept");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(0));
            scope.spawn(|| write(1_000));
        });
        let store = Store::open(&path).expect("a store");
        assert!((0..40).chain(1_000..1_040).all(|number: u32| store.get(Digest::of(&number.to_le_bytes())).is_ok_and(|kept| kept.is_some())));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_path_below_a_file_and_a_damaged_database_are_refused_with_their_names() {
        let folder = folder("refused");
        let file = folder.join("file");
        std::fs::write(&file, "not a folder").expect("a file");
        let refused = Store::open(&file.join("pi-fold.sqlite")).err().expect("refused");
        assert!(refused.0.contains("file/pi-fold.sqlite"), "{refused}");
        let damaged = folder.join("damaged.sqlite");
        std::fs::write(&damaged, vec![7_u8; 8_192]).expect("a file");
        assert!(Store::open(&damaged).err().expect("refused").0.contains("damaged.sqlite"));
        let _ = std::fs::remove_dir_all(folder);
    }
}
