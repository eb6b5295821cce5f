//! linkerd-mc links Kubernetes clusters: it mirrors Services between them for Linkerd.
//!
//! ```text
//!  remote watches (per Link) ─▶ stores ─┐
//!  local watches (shared)    ─▶ stores ─┤
//!  gateway probe, DNS        ───────────┼─▶ keys ───▶ queue    ─▶ observe ─▶ mirror::plan ─▶ apply ─▶ local API server
//!  Links, credential Secrets ───────────┘                   ▲                  (pure)          │ └──▶ Link.status
//!                                                           └───── retry with backoff ◀─ error ┘
//! ```
//!
//! - **Level-triggered.** An event carries no work: it marks a key dirty. The key is looked up afresh, what
//!   should be is computed from all that is known now, and the difference is written.
//! - **The core is pure.** [`mirror`] has no client, no clock and no logging.
//! - **One writer.** Only `controller::apply` changes the cluster, only `controller::status` a Link's status.
//! - **Unknown is not absent.** Nothing is deleted because of what cannot be seen.
//! - **Nothing changed, nothing written.**
//!
//! A module uses only those to its right: `main → cli → {controller, check, manifests, client} → mirror → api`
//! ([`hint`] is a leaf for all). A test holds that.

pub mod api;
pub mod check;
pub mod cli;
pub mod client;
pub mod controller;
pub mod hint;
pub mod manifests;
pub mod mirror;
