//! The core of linkerd-mc. It decides what should exist in a cluster, from all that is known of this cluster and of the
//! clusters that it links to.
//!
//! [`mirror`] decides, with the types of [`api`]; [`budget`] counts bytes. None of them has a client, a clock, a runtime
//! or a log, and the dependencies of this crate offer none.

pub mod api;
pub mod budget;
pub mod mirror;
