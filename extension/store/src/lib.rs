//! Second copies of originals in SQLite, beside the session files; safe with several Pi processes at once.
//!
//! Who folds opens it with [`Store::open`]; who only looks opens it with [`Store::open_to_read`], which makes nothing and changes nothing.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// How long another process may hold the database before a call gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the database is called, in the folder of the session files.
pub const NAME: &str = "pi-fold.sqlite";

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
        let told = |error: &dyn Display| named(path, error);
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

    /// Opens a database that is there, only to read from it; `None` where there is none. Whoever folds meanwhile is not held up.
    ///
    /// # Errors
    /// [`StoreError`], with the path: what stands there is no store of ours, is damaged, or may not be read.
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        let told = |error: &dyn Display| named(path, error);
        // SQLite says of a missing file only that it is "unable to open" it, as of one that may not be read.
        match std::fs::File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| told(&error))?,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let checked = |connection: Connection| {
            connection.busy_timeout(PATIENCE)?;
            connection.prepare("select line from originals where digest = ?1").map(drop)?;
            Ok(connection)
        };
        let connection = Connection::open_with_flags(path, flags).and_then(checked).or_else(|error| {
            // A reader puts an index of the log beside the database. Where it cannot, and the log holds nothing, the database is read as it
            // stands.
            let log = std::fs::metadata(format!("{}-wal", path.display()));
            if log.is_ok_and(|log| log.len() > 0) {
                Err(error)
            } else {
                Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI).and_then(checked)
            }
        });
        Ok(Some(Store { connection: connection.map_err(|error| told(&error))? }))
    }
}

fn named(path: &Path, error: &dyn Display) -> StoreError {
    StoreError(format!("the store of second copies, {}: {error}", path.display()))
}

/// The path as SQLite's URI, in which three characters mean something else, of a database that nobody changes.
fn unchanging(path: &Path) -> String {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let rooted = if cfg!(windows) { format!("/{}", escaped.replace('\\', "/")) } else { escaped };
    format!("file:{rooted}?immutable=1")
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
    fn who_only_reads_makes_nothing_changes_nothing_and_sees_what_was_kept() {
        let folder = folder("read");
        let path = folder.join("pi-fold.sqlite");
        assert!(Store::open_to_read(&path).is_ok_and(|store| store.is_none()));
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
        let digest = Digest::of(b"four");
        Store::open(&path).and_then(|mut store| store.put(digest, b"four")).expect("kept");
        let mut reader = Store::open_to_read(&path).expect("opened").expect("a store");
        assert_eq!(reader.get(digest), Ok(Some(b"four".to_vec())));
        assert!(reader.put(digest, b"five").is_err());
        // What is folded while somebody reads is kept, and seen.
        let other = Digest::of(b"six");
        Store::open(&path).and_then(|mut store| store.put(other, b"six")).expect("kept");
        assert_eq!(reader.get(other), Ok(Some(b"six".to_vec())));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[cfg(unix)]
    #[test]
    fn where_nothing_can_be_put_beside_it_a_database_is_read_as_it_stands() {
        let folder = folder("unchanging");
        let path = folder.join("50% ? #1.sqlite");
        let digest = Digest::of(b"four");
        Store::open(&path).and_then(|mut store| store.put(digest, b"four")).expect("kept");
        // Whoever runs this may be one who can write into every folder; SQLite follows no link to its index for anybody.
        std::os::unix::fs::symlink("nowhere", folder.join("50% ? #1.sqlite-shm")).expect("a link");
        let reader = Store::open_to_read(&path).expect("opened").expect("a store");
        assert_eq!(reader.get(digest), Ok(Some(b"four".to_vec())));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn what_is_no_store_is_refused_by_who_only_reads_with_its_name() {
        let folder = folder("foreign");
        let path = folder.join("foreign.sqlite");
        Connection::open(&path).and_then(|connection| connection.execute_batch("create table notes (text)")).expect("another's database");
        let refused = Store::open_to_read(&path).err().expect("refused");
        assert!(refused.0.contains("foreign.sqlite") && refused.0.contains("originals"), "{refused}");
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
