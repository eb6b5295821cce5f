//! The core of linkerd-mc: decides what should exist in a cluster, given everything that is known about it and about the
//! clusters that it is linked to.
//!
//! [`mirror`] decides, with the types of [`api`]; [`budget`] counts bytes. None of them has a client, a clock, a runtime or a log; the dependencies of
//! this crate offer none.

pub mod api;
pub mod budget;
pub mod mirror;
