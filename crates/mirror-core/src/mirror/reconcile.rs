//! One file for each kind of key. Each compares existing objects with desired ones, and the difference is the plan.

pub(crate) mod federated;
pub(crate) mod mirror;
pub(crate) mod probe;
pub(crate) mod service;
