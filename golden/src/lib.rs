//! Frozen truths. The tests of this crate compare the runtime with them; see `tests/`.
