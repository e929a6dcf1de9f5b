//! Second copies of originals in SQLite, beside the session files; safe with several Pi processes at once.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

/// How long another process may hold the database before a call gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A database of originals by their SHA-256.
pub struct Store {
    connection: Connection,
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
        Ok(Store { connection })
    }
}

impl ObjectStore for Store {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        // A transaction that reads first and writes then would not wait for another process.
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|transaction| {
                transaction.prepare_cached("insert or replace into originals values (?1, ?2)")?.execute((digest.as_bytes(), bytes))?;
                transaction.commit()
            })
            .map_err(failed)
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let mut asked = self.connection.prepare_cached("select line from originals where digest = ?1").map_err(failed)?;
        asked.query_row((digest.as_bytes(),), |row| row.get(0)).optional().map_err(failed)
    }
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
