//! What has to hold for input of unknown origin, as functions of bytes that panic where it does not.
//!
//! `cargo test` calls them with random bytes. The fuzz targets in `fuzz/` call them with bytes that evolve to reach new
//! code. They use only the public items of the library.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "for tests, and for the package of the fuzz targets"
)]

mod draw;
mod exclusions;
mod kubeconfig;
mod link;
mod names;
mod networks;
mod selector;
mod states;
mod values;

pub use exclusions::exclusions;
pub use kubeconfig::kubeconfig;
pub use link::link;
pub use names::names;
pub use networks::networks;
pub use selector::selector;
pub use values::values;
