//! The shell around the core: watches, timers, sockets and writes. All I/O of `run-controller` is here.
//!
//! The module `mirror` computes the desired state. This module only carries it out.

pub mod admin;
mod allowance;
mod apply;
mod engine;
mod events;
pub mod gateway;
mod gateway_exports;
mod gateway_tasks;
pub mod lease;
mod local;
pub mod metrics;
mod networks;
mod pace;
pub mod preview;
pub mod probe;
mod queue;
mod route_versions;
mod run;
mod session;
mod transport;
mod trouble;
#[cfg(test)]
mod virtual_time;
mod watch;

pub use self::{
    engine::Settings,
    gateway_exports::ExportGateway,
    run::{Options, run},
    transport::Sockets,
};
