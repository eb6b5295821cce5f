//! Tests against real control planes. One binary: it links once, and its tests share the control planes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fleet;
mod gateways;
mod install;
mod link_gen;
mod links;
mod mirroring;
mod objects;
mod program;
