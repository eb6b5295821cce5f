//! What is known about linked clusters: a snapshot of each ([`snapshot`]), the topology of several ([`topology`]), and
//! the state of their Links ([`link_summary`], [`link_findings`]). `status`, `graph`, `check` and `diagnose` use this module.
//! [`request_path`] is what is known about one Service, and the way to it.
//!
//! Modules with a client only read. Only [`canaries`] also writes.

pub mod access;
pub mod bundle;
pub mod canaries;
pub mod certificates;
pub mod collect;
pub mod collect_full;
pub mod collect_mesh;
mod confinement;
pub mod controller_start;
pub mod counters;
pub mod credentials;
pub mod destination_restart;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod foreign_endpoints;
pub mod gateway_clients;
pub mod gateway_permits;
pub mod gather;
pub mod history;
pub mod kube_context;
pub mod leader;
pub mod link_findings;
pub mod link_state;
pub mod link_summary;
pub mod linkerd_api;
pub mod linkerd_secrets;
pub mod linkerd_way;
pub mod misspelled;
pub mod own_routes;
pub mod pod_networks;
mod port_forward;
pub mod preference_status;
pub mod proxies;
pub mod request_path;
mod served_routes;
pub mod service_range;
pub mod service_rows;
pub mod shown_mode;
pub mod skipped_ports;
pub mod snapshot;
pub mod target;
pub mod topology;
pub mod traffic;
pub mod trust_anchors;
pub mod workloads;
