//! The journal: what Pi wrote, byte for byte, and where it stands in the tree.
//!
//! Nothing in here interprets a fold. It may not drop, reorder or rewrite a byte of an entry: these bytes are what is hashed and
//! given back. Views are shallow and parsed on demand, because a lone surrogate escape (`"\ud83d"`), which JavaScript writes
//! without complaint, cannot be held by `String` or `serde_json::Value`.

mod branch;
mod content;
mod digest;
mod entry;
mod file;
mod json;

pub use branch::{Branch, BranchProblem};
pub use content::{Block, BlockKind, Content};
pub use digest::Digest;
pub use entry::{Assistant, Entry, EntryError, Kind, Role, StopReason, Usage};
pub use file::{Journal, ReadError, Skipped};
pub use json::Text;

pub(crate) use content::Part;
pub(crate) use json::{Fields, Length};
