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

/// Two more control planes, for tests that start, stop and kill controllers on `source` or pause `far`. Nobody
/// else has them meanwhile: two controllers on one cluster would take each other's mirrors away.
pub(crate) struct Alone {
    pub(crate) source: Arc<ControlPlane>,
    pub(crate) far: Arc<ControlPlane>,
    _turn: MutexGuard<'static, Option<Pair>>,
}

type Pair = [Arc<ControlPlane>; 2];

/// Waits until a pair is free: one of two, so that tests which mostly wait do so side by side. There is no Link,
/// and `far` answers.
pub(crate) async fn alone() -> Alone {
    static PAIRS: [Mutex<Option<Pair>>; 2] = [Mutex::const_new(None), Mutex::const_new(None)];
    let (number, mut turn) = tokio::select! {
        biased;
        turn = PAIRS[0].lock() => (0, turn),
        turn = PAIRS[1].lock() => (1, turn),
    };
    let [source, far] = match turn.as_ref() {
        Some(pair) => pair.clone(),
        None => {
            let (source, far) = (format!("source-{number}"), format!("far-{number}"));
            let (source, far) = tokio::join!(
                installed(&source, "192.0.2.40"),
                installed(&far, "192.0.2.50")
            );
            turn.insert([source, far]).clone()
        }
    };
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
