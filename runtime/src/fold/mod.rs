//! Folding: from entries to units, and the words that stand where originals were.
//!
//! Everything here is a pure function of the branch's original entries; nothing knows what is shown in their place or how full the
//! window is.

mod brief;
mod cut;
mod text;
mod unit;

pub use brief::{Bound, brief};
pub use cut::{Carrier, Cut, CutPolicy, Cuts, Rendered};
pub use text::{BRIEF_VERSION, FoldId, FoldKind, brief_bound, clip, placeholder, quote, result_line};
pub use unit::{Unit, UnitKind, Units};
