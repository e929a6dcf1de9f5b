//! The naive reference: alone on branches small enough to know the verdict by hand, and beside the runtime on long ones.

mod agreement;
mod others;
mod promises;
mod turns;
mod verdicts;
mod world;
