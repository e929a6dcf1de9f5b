//! Folding: from entries to units and cuts, from cuts to a commit, and the words that stand where originals were.
//!
//! `unit` finds what is folded whole, `cut` which runs become marks, `commit` how many of them the one rewrite applies; `mint` makes the folds,
//! `write` the edits, `record` what the journal keeps of both, `restore` what it promised and does not hold yet. `context` and `lattice` hold what the branch shows and which folds stand on it.
//! Everything is a pure function of the branch, the settings and the model; nothing here appends anything.

mod brief;
mod clip;
mod commit;
mod context;
mod cut;
mod decided;
mod lattice;
mod mint;
mod record;
mod restore;
mod text;
mod unit;
mod write;

pub use brief::{Bound, Child, brief, gist, parent_brief};
pub use clip::clip_content;
pub use cut::Carrier;
pub use decided::{DECISION, Decided};
pub use record::{COMMIT_RECORD, Recorded, recorded};
pub use text::{BRIEF_VERSION, FoldId, FoldKind, FoldName, brief_bound, clip, placeholder, quote, result_line};
pub use unit::{Unit, UnitKind, Units};

pub(crate) use brief::{Told, fit};
pub(crate) use clip::text_of;
pub(crate) use commit::Planner;
pub(crate) use context::{Context, Shown};
pub(crate) use cut::{CutPolicy, Cuts};
pub(crate) use lattice::{Fold, Lattice};
pub(crate) use record::{Changes, Promise, Record};
pub(crate) use restore::{as_folded, content_of, promised_content};
pub(crate) use text::{CLOSE, OPEN, disarm, edge_after, edge_before, json};
pub(crate) use write::{Edit, OWN_TOOL, Outcome};
