//! Tests against real control planes. One binary: it links once, and its tests share the control planes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says why it failed"
)]
#![expect(clippy::large_futures, reason = "a test's stack is large enough")]

mod allow;
mod check;
mod cluster_ips;
mod confined;
mod corners;
mod crashes;
mod credentials;
mod drain;
mod examples;
mod faults;
mod federated;
mod fleet;
mod foreign;
mod gateway_api;
mod gateways;
mod hand_back;
mod headless;
mod help;
mod hostile;
mod hostile_target;
mod hub;
mod install;
mod installations;
mod leader;
mod lifecycle;
mod limit;
mod link;
mod link_gen;
mod links;
mod liveness;
mod mirroring;
mod networks;
mod objects;
mod outages;
mod ownership;
mod plan;
mod policy;
mod preferences;
mod program;
mod quiet;
mod rbac;
mod restart;
mod rotate;
mod secrets;
mod soak;
mod stalls;
mod status;
mod through_gateways;
mod tls;
mod tools;
mod unlink;
mod unreadable;
mod version;
mod watches;
mod words;
