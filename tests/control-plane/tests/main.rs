//! The control planes themselves: what other tests take for granted.

mod controllers;
mod faults;
mod planes;
mod pool;

use control_plane::ControlPlane;
use tokio::sync::OnceCell;

/// A control plane that tests share, each with its own namespaces. It lives as long as the process.
async fn shared() -> anyhow::Result<&'static ControlPlane> {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| ControlPlane::start("shared"))
        .await
}
