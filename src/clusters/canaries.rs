//! The canaries of `verify`: Pods and Services in a namespace of their own, in both clusters.
//!
//! The only part of [`super`] that writes. It writes into namespaces that it has made itself, which have the label
//! [`VERIFY`](crate::api::labels::VERIFY), and deletes nothing without this label. A deletion names the UID of what was
//! read, so an object that has taken the name meanwhile stays.

mod objects;

pub(crate) mod dial;
pub(crate) mod mirrors;
pub(crate) mod namespaces;
pub(crate) mod permissions;
pub(crate) mod pods;
pub(crate) mod services;

pub(crate) use self::objects::{CLIENT, CanarySpec, Role, SERVER};
