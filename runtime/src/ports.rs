//! The abstract world: what the runtime asks of it, and nothing more.
//!
//! The extension implements these with the real world, the simulator with models. A port only answers; none of them can change a
//! decision of the fold law, which is a function of the branch, the settings and the model.

use crate::journal::Digest;
use std::fmt;

/// Time, in milliseconds since an epoch of the host's choice. It never runs backwards within a session.
pub trait Clock {
    /// Now.
    fn now_ms(&self) -> u64;
}

/// The model's facts.
pub trait Provider {
    /// Tokens that a request and its answer may hold together.
    fn context_window(&self) -> u64;
}

/// What is known of the provider's prefix cache.
pub trait PrefixCache {
    /// Tokens that a request beginning with the last one's first `prefix` tokens would read from the cache at `now_ms`, by the
    /// provider's rules of granularity, minimum size and expiry.
    fn forecast(&self, prefix: u64, now_ms: u64) -> u64;
}

/// Second copies of originals, addressed by SHA-256.
pub trait ObjectStore {
    /// Keeps `bytes` under their digest, in the place of whatever stands there; keeping the same bytes again is no error.
    ///
    /// # Errors
    /// [`StoreError`]; the journal still holds the original, so a failure is a warning and never a stop.
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError>;

    /// Gives back what was kept under a digest, `None` if nothing was. The caller checks the digest.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError>;
}

/// Why a store did not do what it was asked; a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}
