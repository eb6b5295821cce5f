//! The canaries of `verify`: Pods and Services in a namespace of their own, in both clusters.
//!
//! The only part of [`super`] that writes. It writes into namespaces that it has made itself, or that somebody has made
//! for it. Both have the label [`VERIFY`](mirror_core::api::labels::VERIFY), and it deletes nothing without this label. A deletion names the UID of what was
//! read, so an object that has taken the name meanwhile stays.

mod deletion;
mod objects;

pub mod dial;
pub mod mirrors;
pub mod namespaces;
pub mod permissions;
pub mod pods;
pub mod program;
pub mod services;

pub use self::objects::{CLIENT, CanarySpec, POD_PORT, Role, SERVER};
