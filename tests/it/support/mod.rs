//! Code that the tests share: the program, control planes, controllers, objects, and functions that wait. This module
//! has no tests. Tests import from here and never from each other. The benchmarks use these modules too.

use std::time::Duration;

// Requests of the controller, from audit logs.
pub(crate) mod audit;
// Controllers that run as processes.
pub(crate) mod controller;
// Kubeconfigs in the Secrets of Links.
pub(crate) mod credentials;
// Refusals, and Links that lead through a proxy.
pub(crate) mod faults;
// Routes.
pub(crate) mod gateway_api;
// A stand-in for gateways, which answers probes.
pub(crate) mod gateways;
// `install` and `link-gen`, applied.
pub(crate) mod installation;
// Links: creates and edits them, and reads their status.
pub(crate) mod links;
// Namespaces, Services and endpoints: creates and changes them, and waits for them.
pub(crate) mod objects;
// A second installation.
pub(crate) mod other;
// The control planes that tests share, and those that they use one after another.
pub(crate) mod page;
pub(crate) mod planes;
// One run of the program.
pub(crate) mod program;
// Variants of `install`.
pub(crate) mod variants;
// What depends on the version of Kubernetes.
pub(crate) mod versions;

/// Timeout for anything that should take only a moment.
pub(crate) const SOON: Duration = Duration::from_secs(60);
