//! linkerd-mc links Kubernetes clusters: it mirrors Services between them for Linkerd.
//!
//! This package is the command line: arguments, questions and what is printed. What it calls are crates of their own;
//! `docs/architecture.md` draws which of them uses which.
//!
//! | Crate | Responsibility |
//! | --- | --- |
//! | [`controller`] | the controller (`run-controller`) |
//! | [`links`] | what `link`, `unlink`, `rotate` and `fleet` read, plan and write |
//! | [`observe`] | what `check`, `diagnose`, `status`, `traffic` and `verify` find out about clusters, and their judgements |
//! | [`client`], [`manifests`] | requests to API servers, and the clock; the objects of `install` and `link-gen` |
//! | [`mirror_core`] | the core ([`mirror`]: computes what has to be written), and the types of Kubernetes and Linkerd ([`api`]) |
//! | [`hints`] | errors with a hint, and commands to paste |
//!
//! Rules of the design (`docs/architecture.md` follows a Service through the code):
//!
//! - **Level-triggered.** An event only enqueues a key. The key is then planned from the current state.
//! - **The core is pure.** [`mirror`] has no client, no clock and no logging.
//! - **One writer.** In the controller, only its module `apply` writes mirrors, and only `engine::status`
//!   writes the status of a Link. The command `hand-back` does both too, while no controller runs, and `take-over` removes such statuses.
//! - **Unknown is not absent.** Nothing is deleted because it could not be read.
//! - **Nothing changed, nothing written.**

pub mod cli;

pub use client::{self, timing};
pub use controller;
pub use manifests;
pub use mirror_core::{api, budget, mirror};
