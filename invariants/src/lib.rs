//! What must always hold, written apart from what it checks.
//!
//! | where | what |
//! |---|---|
//! | [`reference`] | the naive reference: the whole decision from the whole branch, every time, by the fold law alone |

pub mod reference;
