//! Tests against real control planes. One binary: it links once, and its tests share the control planes.

mod install;
mod link_gen;
mod program;
