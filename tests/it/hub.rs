//! The control planes, Links and controller that most tests share.

use std::sync::Arc;

use control_plane::ControlPlane;
use tokio::sync::OnceCell;

use crate::{
    fleet::{Controller, installed, link},
    gateways::Gateways,
};

/// Control planes that tests share: `west` is linked to `east` and `north`, and has the one controller that there may
/// be on it. A test has namespaces of its own, and makes a Link of its own if it changes one.
pub(crate) struct Hub {
    pub(crate) east: Arc<ControlPlane>,
    pub(crate) north: Arc<ControlPlane>,
    pub(crate) west: Arc<ControlPlane>,
    /// What the controller probes, whatever the Links say.
    pub(crate) gateways: Gateways,
    pub(crate) controller: Controller,
}

impl Hub {
    /// A target, and the source.
    pub(crate) fn pair(&self) -> (&ControlPlane, &ControlPlane) {
        (&self.east, &self.west)
    }
}

/// The shared control planes, started by whoever asks first.
pub(crate) async fn hub() -> &'static Hub {
    static HUB: OnceCell<Hub> = OnceCell::const_new();
    HUB.get_or_init(|| async {
        let (east, north, west) = tokio::join!(
            installed("east", "192.0.2.10"),
            installed("north", "192.0.2.30"),
            installed("west", "192.0.2.20")
        );
        link(&west, &east, "east", &[]).await;
        link(&west, &north, "north", &[]).await;
        let gateways = Gateways::start();
        let controller = Controller::start(&west, &["--probe-address", &gateways.address()]);
        Hub {
            east,
            north,
            west,
            gateways,
            controller,
        }
    })
    .await
}
