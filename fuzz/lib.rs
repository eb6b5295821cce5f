//! Makes the properties of `tests/hostile_input` available to the fuzz targets.

#[path = "../tests/hostile_input/properties/mod.rs"]
pub mod properties;
