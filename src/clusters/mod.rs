//! What is known about linked clusters: a snapshot of each ([`snapshot`]), the topology of several ([`topology`]), and
//! the state of their Links ([`link_summary`]). `status`, `graph`, `check` and `diagnose` use this module.
//! [`request_path`] is what is known about one Service, and the way to it.
//!
//! Modules with a client only read. Only [`canaries`] also writes.

pub(crate) mod access;
pub(crate) mod bundle;
pub(crate) mod canaries;
pub(crate) mod cluster_client;
pub(crate) mod collect;
pub(crate) mod collect_full;
mod confinement;
pub(crate) mod credentials;
pub(crate) mod foreign_endpoints;
pub(crate) mod gather;
pub(crate) mod leader;
pub(crate) mod link_summary;
pub(crate) mod linkerd_api;
pub(crate) mod misspelled;
pub(crate) mod own_routes;
pub(crate) mod preference_status;
pub(crate) mod proxies;
pub(crate) mod request_path;
pub(crate) mod service_range;
pub(crate) mod shown_mode;
pub(crate) mod skipped_ports;
pub(crate) mod snapshot;
pub(crate) mod target;
pub(crate) mod topology;
pub(crate) mod traffic;
pub(crate) mod trust_anchors;
pub(crate) mod workloads;
