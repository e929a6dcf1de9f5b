//! Folding: from entries to units, and the words that stand where originals were.
//!
//! Everything here is a pure function of original bytes; nothing knows the rest of the window.

mod brief;
mod cut;
mod text;
mod unit;

pub use brief::{Bound, brief};
pub use cut::{Carrier, Cut, CutPolicy, Cuts, Rendered};
pub use text::{BRIEF_VERSION, FoldId, FoldKind, brief_bound, clip, placeholder, quote, result_line};
pub use unit::{Unit, UnitKind, Units};
