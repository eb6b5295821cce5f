//! What the tests have in common: the program, control planes, controllers, objects, and ways to wait for what is to be.
//! No tests are here, and tests import from here and never from each other. The benchmarks use these modules too.

use std::time::Duration;

// What the controller did, from audit logs.
pub(crate) mod audit;
// Controllers that run as processes.
pub(crate) mod controller;
// Kubeconfigs in the Secrets of Links.
pub(crate) mod credentials;
// Refusals, and Links that lead through what stands in the way.
pub(crate) mod faults;
// Routes.
pub(crate) mod gateway_api;
// A stand-in for gateways, which answers probes.
pub(crate) mod gateways;
// `install` and `link-gen`, applied.
pub(crate) mod installation;
// Links: made, edited, and what their status says.
pub(crate) mod links;
// Namespaces, Services and endpoints: made, changed, waited for.
pub(crate) mod objects;
// A second installation.
pub(crate) mod other;
// The control planes that tests share, and those that one test has at a time.
pub(crate) mod planes;
// One run of the program.
pub(crate) mod program;

/// How long anything may take that takes a moment.
pub(crate) const SOON: Duration = Duration::from_secs(60);
