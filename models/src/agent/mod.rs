//! Agents as data: what an agent, a person and the world do in one synthetic session.
//!
//! A [`Plan`] is drawn once from a seed and is from then on the only source of a session: it is stored as JSON, cut down when a
//! check fails, and run again by later builds that would draw something else from the same seed. Nothing here runs a session or
//! knows the fold law; a plan may ask for anything that can happen to Pi, also for what a sane agent would not do.
//!
//! | where | what |
//! |---|---|
//! | [`Stream`] | named random streams, integers only |
//! | [`Plan`], [`Op`] | the session as data |
//! | [`draw`], [`Profile`] | seed to plan |
//! | [`text`] | texts by (salt, bytes, shape), at the cost of a copy |
//! | [`body`] | ops to the JSON of Pi's messages |
//! | [`shrink`] | a failing plan to a small one |

/// `write!` into a `String`, which takes all.
macro_rules! put {
    ($out:expr, $($piece:tt)*) => {
        std::fmt::Write::write_fmt($out, format_args!($($piece)*)).expect("a String takes all")
    };
}

pub mod body;
mod draw;
mod fault;
mod feature;
mod full;
mod plan;
pub mod shrink;
mod stream;
mod swarm;
pub mod text;

pub use draw::draw;
pub use fault::FAULTS;
pub use plan::{
    Answer, Aside, Call, Density, Geometry, IdStyle, Model, Op, Outcome, Plan, Profile, Reply, SCHEMA, Stop, Text, Tool, Trouble, Verb, World,
};
pub use stream::Stream;
