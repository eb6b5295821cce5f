//! Real Kubernetes control planes on loopback, for tests: etcd, kube-apiserver and kube-controller-manager, started in
//! a few seconds, with nothing installed and no privileges.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let east = control_plane::ControlPlane::start("east").await?;
//! east.linkerd(&control_plane::LinkerdOptions::default()).await?;
//! println!("{}", east.kubectl(&["get", "namespaces"]).await?);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Helm`] is built and kept in the same way. Whatever else tests build with Go, [`go`] builds.
//! - The binaries come from the folder that `KUBEBUILDER_ASSETS` names, or are built once with Go and kept ([`Assets`]):
//!   the newest Kubernetes, or the oldest that Linkerd supports with `LINKERD_MC_KUBERNETES=oldest`.
//! - Every server has a supervisor that ends it when this process is gone, however that came about; nothing relies on
//!   [`Drop`]. See `process.rs`.
//! - Nothing runs here: Pods stay pending, and a test writes the status or the `EndpointSlice` that it needs. A Pod gets
//!   into the endpoints of a Service once its status has an address and it is bound to a Node, an object like any other.
//! - A [`Pool`] lends control planes to one test after another, each as it was when it was new or prepared
//!   ([`Checkpoint`]).
//! - Addresses of endpoints must not be loopback ones: take 192.0.2.0/24.
//! - Faults of networks are made by a [`FaultProxy`], those of servers by an [`Interceptor`].
//! - This crate knows nothing of the program under test.

mod audit;
mod certificates;
mod clients;
mod crds;
mod events;
mod fault;
mod folder;
mod gateway_api;
mod helm;
mod intercept;
mod kubeconfig;
mod kubectl;
mod linkerd;
mod pieces;
mod plane;
mod pool;
mod process;
mod servers;
mod wait;

pub use audit::AuditEvent;
pub use certificates::trust_anchor;
pub use events::Passing;
pub use fault::{Fault, FaultProxy};
pub use gateway_api::ROUTES;
pub use helm::Helm;
pub use intercept::{Asked, Interceptor, Verdict};
pub use linkerd::LinkerdOptions;
pub use pieces::Pieces;
pub use plane::{Backup, Checkpoint, ControlPlane, Pids};
pub use pool::{Lent, Pool};
pub use programs::{Assets, gateway_api_crds, gitops_crds, go};
pub use wait::eventually;
