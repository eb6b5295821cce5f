//! The objects that should exist: a Service and its EndpointSlices, and the addresses of the gateway in them. Pure builders.

pub(crate) mod endpoints;
pub(crate) mod reach;
pub(crate) mod service;

pub use reach::Reach;
