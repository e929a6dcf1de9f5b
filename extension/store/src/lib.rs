//! Second copies of originals in SQLite, beside the session files; safe with several Pi processes at once.
//!
//! Who folds opens it with [`Store::open`]; who only looks opens it with [`Store::open_to_read`], which makes nothing and changes nothing.

use fold_runtime::journal::Digest;
use fold_runtime::ports::{ObjectStore, StoreError};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long another process may hold the database before a call gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the database is called, in the folder of the session files.
pub const NAME: &str = "pi-fold.sqlite";

/// A database of originals by their SHA-256.
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Which file was opened; another one may take its name.
    file: Option<FileId>,
    /// Whether SQLite has met a page that is none.
    damaged: Cell<bool>,
    /// What a person is to be told of how it was opened.
    news: Option<String>,
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

/// What tells a file from another one with its name.
type FileId = (u64, u64);

/// Why a database did not open.
enum Fault {
    Damaged(String),
    Other(String),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Fault::Other(error.to_string())
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Fault::Damaged(error.to_string()) } else { Fault::Other(error.to_string()) }
    }
}

impl Store {
    /// Opens the database, or makes one that its owner alone may read. One that is damaged keeps its bytes under another name, and a new
    /// one takes its place.
    ///
    /// # Errors
    /// [`StoreError`], with the path: folding goes on without second copies.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        match Self::connect(path) {
            Ok(store) => Ok(store),
            Err(Fault::Damaged(why)) => Self::anew(path, &why),
            Err(Fault::Other(why)) => Err(told(path, &why)),
        }
    }

    /// The same store, in a state to be written to: as it is, or opened again where its file is damaged or is not there any more.
    ///
    /// # Errors
    /// [`StoreError`], with the path.
    pub fn mended(self) -> Result<(Self, Mended), StoreError> {
        let stands = self.file == file_id(&self.path);
        if stands && !self.damaged.get() {
            return Ok((self, Mended::No));
        }
        let Store { connection, path, .. } = self;
        drop(connection);
        let mut store = if stands { Self::anew(&path, "a page of it is none")? } else { Self::open(&path)? };
        store
            .news
            .get_or_insert_with(|| format!("the store of second copies, {}, was taken away while it was open; it is filled again", path.display()));
        Ok((store, Mended::Yes))
    }

    /// Whether SQLite has met damage since it was opened.
    pub fn is_damaged(&self) -> bool {
        self.damaged.get()
    }

    /// What a person is to be told of how it was opened, once.
    pub fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    fn anew(path: &Path, why: &str) -> Result<Self, StoreError> {
        let aside = set_aside(path).map_err(|error| told(path, &format!("{why}; and it cannot be set aside: {error}")))?;
        let mut store = Self::connect(path).map_err(|fault| match fault {
            Fault::Damaged(why) | Fault::Other(why) => told(path, &why),
        })?;
        let kept = aside.display();
        store.news =
            Some(format!("the store of second copies, {}, was damaged ({why}). It is kept as {kept}, and a new one is filled", path.display()));
        Ok(store)
    }

    fn connect(path: &Path) -> Result<Self, Fault> {
        let mut options = OpenOptions::new();
        // Only a new file is opened here: closing a second handle of an open database would drop the locks that this process has on it.
        options.write(true).create_new(true);
        // SQLite gives its other two files the mode of the first.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        if let Err(error) = options.open(path)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error.into());
        }
        let connection = Connection::open(path)?;
        // The patience comes first: the other pragmas wait for locks themselves.
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch("create table if not exists originals (digest blob primary key, line blob not null) without rowid")?;
        Ok(Store { connection, path: path.to_owned(), file: file_id(path), damaged: Cell::new(false), news: None, batch: Batch::None })
    }

    /// Opens a database that is there, only to read from it; `None` where there is none. Whoever folds meanwhile is not held up.
    ///
    /// # Errors
    /// [`StoreError`], with the path: what stands there is no store of ours, is damaged, or may not be read.
    pub fn open_to_read(path: &Path) -> Result<Option<Self>, StoreError> {
        let told = |error: &dyn std::fmt::Display| told(path, &error.to_string());
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
        let connection = connection.map_err(|error| told(&error))?;
        Ok(Some(Store { connection, path: path.to_owned(), file: file_id(path), damaged: Cell::new(false), news: None, batch: Batch::None }))
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
            Batch::Begun => self.connection.execute_batch("commit").map_err(|error| self.failed(&error)),
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

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        self.damaged.set(self.damaged.get() || is_damage(error));
        StoreError(error.to_string())
    }
}

/// The path as SQLite's URI, in which three characters mean something else, of a database that nobody changes.
fn unchanging(path: &Path) -> String {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let rooted = if cfg!(windows) { format!("/{}", escaped.replace('\\', "/")) } else { escaped };
    format!("file:{rooted}?immutable=1")
}

/// Whether a store had to be opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mended {
    /// It is the one it was, and holds what it held.
    No,
    /// It is another file, which may hold nothing.
    Yes,
}

impl ObjectStore for Store {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        match self.batch {
            Batch::None => {
                let (put, kept) = self.together(|store| store.put(digest, bytes));
                return put.and(kept);
            }
            // A transaction that reads first and writes then would not wait for another process.
            Batch::Empty => self.connection.execute_batch("begin immediate").map_err(|error| self.failed(&error))?,
            // A disk that is full ends a transaction by itself.
            Batch::Begun if self.connection.is_autocommit() => return Err(undone()),
            Batch::Begun => {}
        }
        self.batch = Batch::Begun;
        let insert = self.connection.prepare_cached("insert or replace into originals values (?1, ?2)");
        let done = insert.and_then(|mut insert| insert.execute((digest.as_bytes(), bytes)));
        done.map(drop).map_err(|error| self.failed(&error))
    }

    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let asked = self.connection.prepare_cached("select line from originals where digest = ?1");
        let found = asked.and_then(|mut asked| asked.query_row((digest.as_bytes(),), |row| row.get(0)).optional());
        found.map_err(|error| self.failed(&error))
    }
}

fn undone() -> StoreError {
    StoreError("the copies of this time were taken back by the database".to_owned())
}

fn told(path: &Path, why: &str) -> StoreError {
    StoreError(format!("the store of second copies, {}: {why}", path.display()))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be taken away.
#[cfg(not(unix))]
fn file_id(_path: &Path) -> Option<FileId> {
    None
}

/// Gives a database and what belongs to it the first free name of a damaged one. A log that stayed behind would be taken for the new one's.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let named = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    let aside = (1_u32..).map(|number| named(&format!(".damaged-{number}"))).find(|name| !name.exists()).expect("a number is free");
    std::fs::rename(path, &aside)?;
    for end in ["-wal", "-shm"] {
        let log = PathBuf::from(format!("{}{end}", aside.display()));
        std::fs::rename(named(end), log).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(aside)
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
    fn a_path_below_a_file_is_refused_with_its_name() {
        let folder = folder("refused");
        let file = folder.join("file");
        std::fs::write(&file, "not a folder").expect("a file");
        let refused = Store::open(&file.join("pi-fold.sqlite")).err().expect("refused");
        assert!(refused.0.contains("file/pi-fold.sqlite"), "{refused}");
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_damaged_database_keeps_its_bytes_under_another_name_and_a_new_one_takes_its_place() {
        let folder = folder("damaged");
        let path = folder.join("pi-fold.sqlite");
        for number in 1..=2_u8 {
            std::fs::write(&path, vec![number; 8_192]).expect("a file");
            let mut store = Store::open(&path).expect("a new store");
            let news = store.news().expect("news");
            let aside = format!("pi-fold.sqlite.damaged-{number}");
            assert!(news.contains(&aside), "{news}");
            assert_eq!(std::fs::read(folder.join(aside)).expect("kept"), vec![number; 8_192]);
            assert_eq!((store.news(), store.get(Digest::of(b"four"))), (None, Ok(None)));
            store.put(Digest::of(b"four"), b"four").expect("kept");
        }
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn what_is_damaged_or_taken_away_while_it_is_open_is_opened_anew() {
        let folder = folder("open");
        let path = folder.join("pi-fold.sqlite");
        let digest = |number: u32| Digest::of(&number.to_le_bytes());
        let mut store = Store::open(&path).expect("a store");
        store.put(digest(0), b"four").expect("kept");
        let (store, mended) = store.mended().expect("as it is");
        assert_eq!((mended, store.get(digest(0))), (Mended::No, Ok(Some(b"four".to_vec()))));

        // Another process has seen the damage first: its new file is left where it is.
        std::fs::remove_file(&path).expect("taken away");
        let mut other = Store::open(&path).expect("another's");
        other.put(digest(1), b"five").expect("kept");
        let (mut store, mended) = store.mended().expect("opened");
        assert!(store.news().is_some_and(|news| news.contains("taken away")));
        assert_eq!((mended, store.get(digest(1))), (Mended::Yes, Ok(Some(b"five".to_vec()))));
        drop(other);

        for number in 0..200 {
            store.put(digest(number), &[7; 4_000]).expect("kept");
        }
        store.connection.pragma_update(None, "wal_checkpoint", "truncate").expect("all of it is in the file");
        store.connection.execute_batch("pragma shrink_memory").expect("nothing is in memory");
        let size = std::fs::metadata(&path).expect("a file").len();
        std::fs::write(&path, vec![9; usize::try_from(size).expect("small")]).expect("damaged in place");
        let met = (0..200).any(|number| store.get(digest(number)).is_err());
        assert_eq!((met, store.is_damaged()), (true, true));
        let (mut store, mended) = store.mended().expect("opened");
        assert!(store.news().is_some_and(|news| news.contains("pi-fold.sqlite.damaged-1")));
        assert_eq!((mended, store.get(digest(0))), (Mended::Yes, Ok(None)));
        let _ = std::fs::remove_dir_all(folder);
    }
}
