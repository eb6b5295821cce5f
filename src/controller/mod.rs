//! The shell around the core: watches, timers, sockets and writes. All I/O of `run-controller` is here.
//!
//! The module `mirror` computes the desired state. This module only carries it out.

pub(crate) mod admin;
mod allowance;
mod apply;
mod engine;
mod events;
pub mod gateway;
mod gateway_tasks;
pub(crate) mod lease;
mod local;
pub(crate) mod metrics;
mod networks;
mod pace;
pub(crate) mod preview;
pub(crate) mod probe;
mod queue;
mod run;
mod session;
mod transport;
mod trouble;
#[cfg(test)]
mod virtual_time;
mod watch;

pub(crate) use self::{
    engine::Settings,
    run::{Options, run},
    transport::Sockets,
};
