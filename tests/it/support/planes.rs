//! The control planes that tests use, and the controller that many of them share.

use control_plane::{ControlPlane, Lent, Pool};
use serde_json::json;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::support::{
    controller::Controller,
    gateways::Gateways,
    installation::{NAMESPACE, confined, gateway_addresses, install, link, links_are_served},
};

static POOL: Pool = Pool::new();

/// A control plane that is as new, with nothing installed.
pub(crate) async fn bare(name: &str) -> Lent {
    POOL.take(name).await.unwrap()
}

/// A control plane that is as new, with Linkerd's configuration and our installation, whose gateway has this address.
pub(crate) async fn installed(name: &str, gateway: &str) -> Lent {
    let prepare = async |plane: &ControlPlane| {
        install(plane, gateway).await;
        Ok(())
    };
    let plane = POOL.take_prepared(name, "installed", prepare);
    let plane = plane.await.unwrap();
    // The test before may have uninstalled it.
    links_are_served(&plane).await;
    confined(&plane, NAMESPACE).await;
    gateway_addresses(&plane, json!([{ "ip": gateway }])).await;
    plane
}

/// Control planes that tests share: `west` is linked to `east` and `north`, and runs the only controller. Each test
/// uses its own namespaces, and creates its own Link if it changes one.
pub(crate) struct Hub {
    pub(crate) east: Lent,
    pub(crate) north: Lent,
    pub(crate) west: Lent,
    /// The address that the controller probes, whatever the Links say.
    pub(crate) gateways: Gateways,
    pub(crate) controller: Controller,
}

impl Hub {
    /// A target, and the source.
    pub(crate) fn pair(&self) -> (&ControlPlane, &ControlPlane) {
        (&self.east, &self.west)
    }
}

/// The shared control planes. The first caller starts them.
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

/// Two control planes of one test: for tests that start, stop and kill controllers, or disturb the API servers. Two
/// controllers on one cluster would delete each other's mirrors.
pub(crate) struct Alone {
    pub(crate) source: Lent,
    pub(crate) far: Lent,
    _turn: SemaphorePermit<'static>,
}

/// Waits until few enough other tests have two control planes: each takes memory, and wakes up all the time.
pub(crate) async fn alone() -> Alone {
    pair("source", "far").await
}

/// [`alone`] for tests of `link` and `link-gen`: the contexts are `link-west` for the source and `link-east`.
pub(crate) async fn linking() -> Alone {
    pair("link-west", "link-east").await
}

/// [`alone`] for commands that are killed.
pub(crate) async fn killed() -> Alone {
    pair("killed-west", "killed-east").await
}

async fn pair(source: &str, far: &str) -> Alone {
    static TURNS: Semaphore = Semaphore::const_new(4);
    let turn = TURNS.acquire().await.unwrap();
    let (source, far) = tokio::join!(
        installed(source, "192.0.2.40"),
        installed(far, "192.0.2.50")
    );
    Alone {
        source,
        far,
        _turn: turn,
    }
}
