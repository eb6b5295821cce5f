//! What is known about linked clusters: a snapshot of each ([`snapshot`]), the topology that several of them make
//! ([`topology`]), and how their Links are ([`link_summary`]). `status`, `graph` and `check` share it.
//!
//! Only [`collect`] and [`collect_full`], and what these use, have a client. They read, and write nothing.

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
