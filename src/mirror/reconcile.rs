//! One file for each kind of key: what exists is compared with what should, and the difference is the plan.

pub(crate) mod federated;
pub(crate) mod mirror;
pub(crate) mod probe;
pub(crate) mod service;
