//! The fold runtime: decides what a coding agent's context window holds.
//!
//! One sentence: **the session journal is the only state; the runtime reads it and answers with entries to append.**
//! Nothing here reads a clock, draws a random number, starts a thread or touches a file.
//!
//! | where | what |
//! |---|---|
//! | [`journal`] | entries as exact bytes with a typed view, session files, the active branch, digests |
//! | [`window`] | what the model sees of a branch (Pi's projection), and what it weighs |
//! | [`fold`] | units, cuts, the commit that folds them, and the words that stand where originals were |
//! | [`mask`] | observation masking: under pressure, old tool results give way to one line each; a policy of its own beside folding |
//! | [`session`] | the runtime's view of one branch: observe entries, decide at a boundary, give originals back, tell how it stands |
//! | [`agent`] | the tool an agent has: peek at originals, expand folds, read the status, decide what is folded how; what it refuses, and why; originals as a person reads them |
//! | [`ports`] | the abstract world: clock, provider, prefix cache, object store |
//! | [`config`] | the seven options: validated whole, or refused by name |

pub mod agent;
pub mod config;
pub mod fold;
pub mod journal;
pub mod mask;
pub mod ports;
pub mod session;
pub mod window;
