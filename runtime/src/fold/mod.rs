//! Folding: from entries to units and cuts, from cuts to a commit, and the words that stand where originals were.
//!
//! [`unit`](Units) finds what is folded whole, [`cut`](Cuts) which runs become marks, `commit` the one rewrite that applies them.
//! Everything is a pure function of the branch, the settings and the model; nothing here appends anything.

mod brief;
mod clip;
mod commit;
mod context;
mod cut;
mod lattice;
mod record;
mod text;
mod unit;

pub use brief::{Bound, Child, brief, gist, parent_brief};
pub use clip::clip_content;
pub use commit::{Obstacle, Shortfall};
pub use cut::Carrier;
pub use record::COMMIT_RECORD;
pub use text::{BRIEF_VERSION, FoldId, FoldKind, FoldName, brief_bound, clip, placeholder, quote, result_line};
pub use unit::{Unit, UnitKind, Units};

pub(crate) use commit::{Outcome, Planner};
pub(crate) use context::{Context, Shown};
pub(crate) use cut::{CutPolicy, Cuts};
pub(crate) use lattice::{Fold, Lattice};
pub(crate) use record::Record;
