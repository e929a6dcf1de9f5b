//! The world: what a host, a wire, a provider and time do, with no opinion about folding.
//!
//! The simulator puts the runtime in here and looks at what comes out. Nothing in this crate reads real time, draws an unnamed random
//! number or asks the runtime what it thinks; what it takes from the runtime is the reading of a journal and Pi's projection, which
//! are themselves held against real Pi.
//!
//! | where | what |
//! |---|---|
//! | [`clock`] | virtual milliseconds and the queue of what happens next |
//! | [`shown`] | a message as the model is shown it, with everything a request needs to know of it |
//! | [`tokens`] | the true count of a message, which the runtime cannot see |
//! | [`host`] | Pi's session: journal, branch, boundaries, window, compaction, fork and tree |
//! | [`wire`] | what leaves for a provider, whether each wire would accept it, its prefix as a chain of hashes, and the reasoning a rewrite loses |
//! | [`cache`] | what a provider's prefix cache would read |
//! | [`price`] | dated prices and the ledger of an arm |
//! | [`store`] | second copies of originals, in memory |
//! | [`provider`] | a model's limits, its refusals and the usage it reports |
//!
//! Per request everything is incremental or linear in the window with a few nanoseconds a message; what is linear in the branch happens only
//! at a compaction, a fork or a navigation.

pub mod agent;
pub mod cache;
pub mod clock;
mod hash;
pub mod host;
pub mod price;
pub mod provider;
pub mod published;
pub mod shown;
pub mod store;
pub mod tokens;
pub mod wire;
