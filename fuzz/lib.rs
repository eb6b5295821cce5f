//! The properties of `tests/hostile_input`, for the targets.

#[path = "../tests/hostile_input/properties/mod.rs"]
pub mod properties;
