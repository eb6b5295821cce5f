//! The control planes, Links and controller that most tests share.

use std::sync::Arc;

use control_plane::ControlPlane;
use kube::api::{DeleteParams, ListParams};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::{
    fleet::{Controller, installed, link},
    gateways::Gateways,
    links::links,
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

/// Two more control planes for tests that start, stop and kill controllers on the one or do harm to the other. One test
/// at a time: two controllers on one cluster would take each other's mirrors away.
pub(crate) struct Alone {
    pub(crate) source: Arc<ControlPlane>,
    pub(crate) far: Arc<ControlPlane>,
    _turn: MutexGuard<'static, ()>,
}

/// Two control planes, and whose turn it is.
struct Pair {
    turn: Mutex<()>,
    planes: OnceCell<[Arc<ControlPlane>; 2]>,
}

impl Pair {
    const fn new() -> Self {
        Self {
            turn: Mutex::const_new(()),
            planes: OnceCell::const_new(),
        }
    }

    /// Waits for one's turn. There is no Link, and `far` answers.
    async fn take(&'static self, names: [&str; 2]) -> Alone {
        let turn = self.turn.lock().await;
        let planes = self.planes.get_or_init(async || {
            let (source, far) = tokio::join!(
                installed(names[0], "192.0.2.40"),
                installed(names[1], "192.0.2.50")
            );
            [source, far]
        });
        let [source, far] = planes.await.clone();
        // A test that failed may have left them otherwise.
        far.resume_api_server().unwrap();
        let all = ListParams::default();
        links(&source)
            .delete_collection(&DeleteParams::default(), &all)
            .await
            .unwrap();
        Alone {
            source,
            far,
            _turn: turn,
        }
    }
}

/// The pair for tests of controllers that start and stop.
pub(crate) async fn alone() -> Alone {
    static PAIR: Pair = Pair::new();
    PAIR.take(["source", "far"]).await
}

/// The pair for tests of faults: of networks, and of API servers.
pub(crate) async fn faulty() -> Alone {
    static PAIR: Pair = Pair::new();
    PAIR.take(["faulty-source", "faulty-far"]).await
}

/// The pair for tests that kill the controller at every write.
pub(crate) async fn swept() -> Alone {
    static PAIR: Pair = Pair::new();
    PAIR.take(["swept-source", "swept-far"]).await
}
