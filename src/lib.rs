//! linkerd-mc links Kubernetes clusters: it mirrors Services between them for Linkerd.
//!
//! A module uses only those below it; `tests/layering` enforces this, and `docs/modules.md` is drawn from the code.
//!
//! | Module | Responsibility |
//! | --- | --- |
//! | [`cli`] | one file for each command; arguments and output |
//! | [`controller`], [`check`] | the controller (`run-controller`); the rules of `check` |
//! | [`diagnose`], [`traffic`], [`verify`] | the layers of `diagnose`; the sums of `traffic`; the judgements of `verify` |
//! | [`fleet`] | the file of `fleet`: which clusters link to which |
//! | [`clusters`] | what `status`, `traffic`, `graph`, `check` and `diagnose` find out about clusters and their Links, and the canaries of `verify` |
//! | [`client`], [`manifests`] | requests to API servers; the objects of `install` and `link-gen` |
//! | [`mirror`] | the core: computes what has to be written |
//! | [`api`] | types and syntax of Kubernetes and Linkerd |
//! | [`budget`] | a number of bytes that its users share |
//! | [`timing`] | the clock, jitter, backoff and rate limits, for all modules above but the core |
//! | [`junit`] | reports of `check` and `verify` for CI |
//! | [`hint`], [`suggest`] | errors with a hint for the user, and commands to paste, for all modules above |
//!
//! Rules of the design (`docs/architecture.md` follows a Service through the code):
//!
//! - **Level-triggered.** An event only enqueues a key. The key is then planned from the current state.
//! - **The core is pure.** [`mirror`] has no client, no clock and no logging.
//! - **One writer.** In the controller, only `controller::apply` writes mirrors, and only `controller::engine::status`
//!   writes the status of a Link. The command `hand-back` does both too, while no controller runs, and `take-over` removes such statuses.
//! - **Unknown is not absent.** Nothing is deleted because it could not be read.
//! - **Nothing changed, nothing written.**

mod check;
pub mod cli;
pub mod client;
mod clusters;
pub mod controller;
mod diagnose;
mod fleet;
mod hint;
mod junit;
pub mod manifests;
mod suggest;
pub mod timing;
mod traffic;
mod verify;

pub use mirror_core::{api, budget, mirror};
