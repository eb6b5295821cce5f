//! What is known about linked clusters: a snapshot of each ([`snapshot`]), the topology of several ([`topology`]), and
//! the state of their Links ([`link_summary`]). `status`, `graph` and `check` use this module.
//!
//! Only [`collect`], [`collect_full`] and the modules that they use have a client. They only read.

mod access;
pub mod cluster_client;
pub mod collect;
pub mod collect_full;
mod confinement;
pub mod credentials;
pub mod foreign_endpoints;
pub mod link_summary;
mod linkerd_config;
pub mod preference_status;
pub mod service_range;
pub mod snapshot;
mod target;
pub mod topology;
pub mod trust_anchors;
mod workloads;
