//! Tests against real control planes. One binary: it links once, and its tests share the control planes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod allow;
mod check;
mod fleet;
mod help;
mod install;
mod link;
mod link_gen;
mod mirroring;
mod program;
mod unlink;
