//! The shell around the core: watches, timers, sockets and writes. All I/O of `run-controller` is here.
//!
//! The module `mirror` computes the desired state. This module only carries it out.

pub mod admin;
mod apply;
pub mod clock;
mod engine;
mod events;
pub mod gateway;
pub mod lease;
pub mod metrics;
mod networks;
mod pace;
pub mod preview;
pub mod probe;
mod queue;
mod run;
mod session;
mod trouble;
mod watch;

pub use self::{
    engine::Settings,
    run::{Options, run},
};
