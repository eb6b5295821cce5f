//! The shell around the core: watches, timers, sockets and writes. All I/O of `run-controller` is here.
//!
//! What should be is decided in `mirror`; nothing in this module decides it.

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
