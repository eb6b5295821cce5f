//! The whole engine against API servers in memory, under tokio's paused time: hours pass in milliseconds.
//!
//! The engine, its watches, sessions, probes and writes are the real ones. Only [`Transport`](super::transport) and the
//! API servers are replaced, by servers that keep objects, versions and histories, and that tests can make fail. These
//! tests are about what takes long: retries, unresponsive servers, outages, and hours without a change. `tests/it` has
//! those about HTTP, RBAC, admission and the lease, against real control planes.

mod network;
mod objects;
mod refusal;
mod server;
mod wire;
mod world;

mod api_servers;
mod backoff;
mod churn;
mod cluster_ips;
mod credentials;
mod denied;
mod gateways;
mod joins;
mod leader;
mod names;
mod obstacles;
mod outages;
mod rest;
mod silence;
mod walk;
mod watches;
