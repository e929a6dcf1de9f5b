//! The window: what a model sees of a branch, and what it weighs.

mod band;
mod occupancy;
mod projection;
mod size;

pub use band::{Band, Rate};
pub use occupancy::Occupancy;
pub use projection::{Message, MessageContent, Projected, projection};
pub use size::{IMAGE_TOKENS, Size};
