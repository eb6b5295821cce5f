//! The objects that should exist: a Service and its EndpointSlices, with the addresses of the gateway. Pure builders.

pub(crate) mod endpoints;
pub(crate) mod service;
