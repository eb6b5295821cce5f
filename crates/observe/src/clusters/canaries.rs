//! The canaries of `verify`: Pods and Services in a namespace of their own, in both clusters.
//!
//! The only part of [`super`] that writes. It writes into namespaces that it has made itself, which have the label
//! [`VERIFY`](mirror_core::api::labels::VERIFY), and deletes nothing without this label. A deletion names the UID of what was
//! read, so an object that has taken the name meanwhile stays.

mod objects;

pub mod dial;
pub mod mirrors;
pub mod namespaces;
pub mod permissions;
pub mod pods;
pub mod services;

pub use self::objects::{CLIENT, CanarySpec, Role, SERVER};
