//! The bridge between Pi and the fold runtime: one handle per session.
//!
//! Entries cross once, as lines; what comes back is a small plan as JSON text. What may take long runs on tokio's blocking pool, so
//! that Pi's screen never waits for it; a panic there becomes a JavaScript error, folding is suspended, and nothing is
//! printed. No decision is taken here: what a plan says is what the runtime said.
//!
//! | where | what |
//! |---|---|
//! | here | the calls that JavaScript makes |
//! | `held` | the session behind a handle, and what each call does with it |
//! | `plan` | decisions as JSON |
//! | `settings` | what is refused of a settings file, and where it stands |
//! | `shades` | the colours of the fold bar |
//!
//! Second copies are kept by `fold-store`.

mod held;
mod plan;
mod settings;
mod shades;

use held::Held;
use napi::bindgen_prelude::{Buffer, spawn_blocking};
use napi::{Error, Result, Status};
use napi_derive::napi;
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError};

/// What is left where another extension's output is on the screen: nothing. A panic is told as an error of the call that met it.
fn silence() {
    static SILENT: Once = Once::new();
    SILENT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// A session of the fold runtime.
#[napi]
pub struct Fold {
    held: Arc<Mutex<Held>>,
}

/// What every call is answered with: JSON text, or an error that names what was refused.
type Answer = std::result::Result<String, String>;

#[napi]
impl Fold {
    /// Reads a branch (its entries as lines, from the root to the leaf) under these settings, for a model with this context window in
    /// tokens. `store` is the path of the database of second copies; without it there are none.
    ///
    /// # Errors
    /// Settings that are refused, a line that is no entry, a budget too small to decide anything in.
    #[napi(factory)]
    pub async fn open(branch: Buffer, settings: String, window: u32, store: Option<String>) -> Result<Fold> {
        silence();
        let held = worker(move || Held::open(&branch, &settings, window, store)).await?;
        Ok(Fold { held: Arc::new(Mutex::new(held)) })
    }

    /// Takes entries that the branch has grown by, and answers what is to be appended at this moment (`turn_end`, `settling`, `request`,
    /// `refused`, `asked`; none for entries alone). Before a request that changes nothing the plan holds what [`Fold::request`] answers; where a
    /// turn ends, what [`Fold::save`] answers.
    ///
    /// # Errors
    /// A line that is no entry; a moment there is none of; an internal error, after which folding is suspended.
    #[napi]
    pub async fn turn(&self, lines: Buffer, moment: Option<String>) -> Result<String> {
        self.with(move |held| held.turn(&lines, moment.as_deref())).await
    }

    /// The same while the caller waits, where it is over in a moment: waking a worker costs more than most turns. `null` where it would not be, or
    /// where another call is at work: nothing was done then, and [`Fold::turn`] is to be asked. The text `null` where the entries were taken: then it is to
    /// be asked for the moment alone.
    ///
    /// # Errors
    /// As [`Fold::turn`].
    #[napi]
    pub fn turn_now(&self, lines: Buffer, moment: Option<String>) -> Result<Option<String>> {
        self.at_once(|held| held.turn_now(&lines, moment.as_deref()))
    }

    /// What every request has to show beside the branch, and whether it may leave.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn request(&self) -> Result<String> {
        self.with(|held| Ok(held.request())).await
    }

    /// Whether the host's own compaction is let through, after the boundary of this moment.
    ///
    /// # Errors
    /// A moment there is none of; an internal error.
    #[napi]
    pub async fn lets_host_compact(&self, moment: String) -> Result<String> {
        self.with(move |held| held.lets_host_compact(&moment)).await
    }

    /// Carries out a call of the tool: a JSON object, as the model wrote it. `room` is what the answer may take, in tokens.
    ///
    /// # Errors
    /// An internal error. A refusal is an answer.
    #[napi]
    pub async fn act(&self, call: String, room: u32) -> Result<String> {
        self.with(move |held| Ok(held.act(&call, room))).await
    }

    /// How the window stands, in numbers and words.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn status(&self) -> Result<String> {
        self.with(|held| Ok(held.status())).await
    }

    /// What the fold bar shows: what was measured, weights by category, counts.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn gauge(&self) -> Result<String> {
        self.with(|held| Ok(held.gauge())).await
    }

    /// The window row by row, from its first entry to its last; or what a fold holds, one level of it, `null` where there is no such fold.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn map(&self, inside: Option<String>) -> Result<String> {
        self.with(move |held| Ok(held.map(inside.as_deref()))).await
    }

    /// The originals behind these ids as a person reads them: so many bytes of their text from an offset on, where that ends, and how long the whole is.
    ///
    /// # Errors
    /// An internal error. What cannot be given back is said in its place.
    #[napi]
    pub async fn read(&self, ids: Vec<String>, offset: u32, bytes: u32) -> Result<String> {
        self.with(move |held| Ok(held.read(&ids, offset, bytes))).await
    }

    /// Folds that are shown and save something, as other extensions are offered them.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn candidates(&self) -> Result<String> {
        self.with(|held| Ok(held.candidates())).await
    }

    /// Takes other settings, or another model's context window in tokens.
    ///
    /// # Errors
    /// What is refused, by name; everything is as it was then.
    #[napi]
    pub async fn configure(&self, settings: String, window: u32) -> Result<String> {
        self.with(move |held| held.configure(&settings, window)).await
    }

    /// Sees to the second copies of what was folded; what a person is to be told.
    ///
    /// # Errors
    /// An internal error. A store that fails is an answer.
    #[napi]
    pub async fn save(&self) -> Result<String> {
        self.with(|held| Ok(held.save())).await
    }

    /// The exact lines of what a fold hides, one below the other.
    ///
    /// # Errors
    /// Why they cannot be given back.
    #[napi]
    pub async fn recover(&self, fold: String) -> Result<Buffer> {
        let held = Arc::clone(&self.held);
        worker(move || lock(&held).recover(&fold)).await.map(Buffer::from)
    }

    /// Stops whatever is done unasked, after an error on the other side; what a person is to be told, once.
    ///
    /// # Errors
    /// An internal error.
    #[napi]
    pub async fn suspend(&self, reason: String) -> Result<String> {
        self.with(move |held| Ok(held.suspend(&reason))).await
    }

    /// Panics, so that a test can see what becomes of it.
    ///
    /// # Errors
    /// Always.
    #[napi]
    pub async fn panic(&self) -> Result<String> {
        self.with(|_| panic!("planted")).await
    }

    /// Panics while the caller waits, so that a test can see what becomes of it.
    ///
    /// # Errors
    /// Always.
    #[napi]
    pub fn panic_now(&self) -> Result<Option<String>> {
        self.at_once(|_| panic!("planted"))
    }

    /// Work while the caller waits; none where another call is at work.
    fn at_once(&self, work: impl FnOnce(&mut Held) -> std::result::Result<Option<String>, String>) -> Result<Option<String>> {
        let mut held = match self.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut held)));
        answer.unwrap_or_else(|_| Err(panicked(&mut held))).map_err(refused)
    }

    async fn with(&self, work: impl FnOnce(&mut Held) -> Answer + Send + 'static) -> Result<String> {
        let held = Arc::clone(&self.held);
        let after = Arc::clone(&self.held);
        let answer = spawn_blocking(move || work(&mut lock(&held))).await;
        answer.unwrap_or_else(|_| Err(panicked(&mut lock(&after)))).map_err(refused)
    }
}

/// Reads a text of settings: a list of what is refused, each with the line it stands in and one sentence; empty where all is well.
///
/// # Errors
/// An internal error.
#[napi]
pub async fn refused_settings(text: String) -> Result<String> {
    silence();
    worker(move || Ok(settings::refused(&text))).await
}

/// Every option with the value it has under a text of settings, as JSON; the defaults where the text is refused.
///
/// # Errors
/// An internal error.
#[napi]
pub async fn whole_settings(text: String) -> Result<String> {
    silence();
    worker(move || Ok(settings::whole(&text))).await
}

/// The six shades of the fold bar under a text of settings, each with the deeper tone of its marks, as lists of red, green and blue.
///
/// # Errors
/// An internal error.
#[napi]
pub async fn shades_of(settings: String, is_dark: bool) -> Result<String> {
    silence();
    let shades = move || shades::shades(&fold_runtime::config::Settings::parse(&settings).unwrap_or_default().palette, is_dark);
    worker(move || Ok(serde_json::json!(shades()).to_string())).await
}

/// What a model is told of the tool.
#[napi]
pub fn tool_description() -> &'static str {
    fold_runtime::agent::DESCRIPTION
}

/// Folding stops; what a person is to be told.
fn panicked(held: &mut Held) -> String {
    format!("the fold runtime panicked; {}", held.suspend("the fold runtime panicked"))
}

/// A panic holds nobody up: what it left behind is a session that is suspended.
fn lock(held: &Mutex<Held>) -> std::sync::MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn worker<T: Send + 'static>(work: impl FnOnce() -> std::result::Result<T, String> + Send + 'static) -> Result<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err("the fold runtime panicked; nothing was changed".to_owned())).map_err(refused)
}

fn refused(why: String) -> Error {
    Error::new(Status::GenericFailure, why)
}
