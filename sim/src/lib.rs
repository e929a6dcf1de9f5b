//! The simulator: a plan through an arm, step by step, with the invariants on.
//!
//! | where | what |
//! |---|---|
//! | [`world`] | one session of one arm: host, provider, cache, clock, store and runtime around a plan |
//! | [`report`] | what an arm did and what it cost; reports add up |
//! | [`run`] | a seed through every arm, a failing plan shrunk |
//! | [`meters`] | the same requests before several providers: caches and prices |
//! | [`optimum`] | the least a session can cost by folding, knowing the future |
//! | [`sabotage`] | planted bugs, at the seam between runtime and world |
//! | [`replay`] | a recorded session as a plan |
//! | [`saving`] | recorded sessions through every arm, and what folding would have saved, in words |
//! | [`sent`] | what left a session, for another host to be asked |
//! | [`table`], [`screen`] | what came of it, on a terminal and as JSON |
//!
//! Same plan, same build or another, one thread or many: the same digest.

pub mod meters;
pub mod optimum;
pub mod replay;
pub mod report;
pub mod run;
pub mod sabotage;
pub mod saving;
pub mod screen;
pub mod sent;
pub mod table;
pub mod world;
