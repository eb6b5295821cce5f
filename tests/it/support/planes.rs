//! The control planes, Links and controller that most tests share.

use std::sync::Arc;

use control_plane::ControlPlane;
use futures::future::select_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use linkerd_mc::api::labels::CONTROLLER_NAME;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::support::{
    controller::Controller,
    gateways::Gateways,
    installation::{NAMESPACE, installed, link, reinstall},
    links::links,
};

/// Control planes that tests share: `west` is linked to `east` and `north`, and runs the only controller. Each test
/// uses its own namespaces, and creates its own Link if it changes one.
pub(crate) struct Hub {
    pub(crate) east: Arc<ControlPlane>,
    pub(crate) north: Arc<ControlPlane>,
    pub(crate) west: Arc<ControlPlane>,
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

/// Two more control planes, for tests that start, stop and kill controllers, or disturb the API servers. One test uses
/// them at a time, because two controllers on one cluster would delete each other's mirrors.
pub(crate) struct Alone {
    pub(crate) source: Arc<ControlPlane>,
    pub(crate) far: Arc<ControlPlane>,
    _turn: MutexGuard<'static, Option<Prepared>>,
}

/// Control planes with an installation each.
struct Prepared {
    source: Arc<ControlPlane>,
    far: Arc<ControlPlane>,
    /// The Deployment of the controller that tests expect in `source`.
    deployment: Option<Version>,
}

/// The UID and the generation of an object.
type Version = (String, i64);

/// Two control planes for one test at a time. The first test that uses them starts them.
struct Pair {
    names: [&'static str; 2],
    planes: Mutex<Option<Prepared>>,
}

impl Pair {
    const fn new(source: &'static str, far: &'static str) -> Self {
        Self {
            names: [source, far],
            planes: Mutex::const_new(None),
        }
    }

    /// Waits until no other test uses them.
    async fn take(&'static self) -> Alone {
        self.with(self.planes.lock().await).await
    }

    /// Prepares them for a test: there is no Link, `far` answers, and the installation has its default values.
    async fn with(&self, mut turn: MutexGuard<'static, Option<Prepared>>) -> Alone {
        let prepared = if let Some(prepared) = turn.as_mut() {
            prepared
        } else {
            let (source, far) = tokio::join!(
                installed(self.names[0], "192.0.2.40"),
                installed(self.names[1], "192.0.2.50")
            );
            let deployment = deployment(&source).await;
            turn.insert(Prepared {
                source,
                far,
                deployment,
            })
        };
        let (source, far) = (prepared.source.clone(), prepared.far.clone());
        // A test that failed may have left them paused.
        far.resume_api_server().unwrap();
        // `plan` and `check` read the settings from it.
        if deployment(&source).await != prepared.deployment {
            reinstall(&source, &[]).await;
            prepared.deployment = deployment(&source).await;
        }
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

/// A pair for tests of controllers that start and stop, and of faults: the first one that no other test uses. There are
/// several, so that tests that mostly wait can run in parallel.
pub(crate) async fn alone() -> Alone {
    static PAIRS: [Pair; 4] = [
        Pair::new("source-1", "far-1"),
        Pair::new("source-2", "far-2"),
        Pair::new("source-3", "far-3"),
        Pair::new("source-4", "far-4"),
    ];
    let turns = PAIRS
        .iter()
        .map(|pair| Box::pin(async move { (pair, pair.planes.lock().await) }));
    let ((pair, turn), ..) = select_all(turns).await;
    pair.with(turn).await
}

/// The pair for tests of `link` and `link-gen`, whose contexts are `link-west` for the source and `link-east`.
pub(crate) async fn linking() -> Alone {
    static PAIR: Pair = Pair::new("link-west", "link-east");
    PAIR.take().await
}

/// The pair for tests that kill the controller at every write.
pub(crate) async fn swept() -> Alone {
    static PAIR: Pair = Pair::new("swept-source", "swept-far");
    PAIR.take().await
}

/// The version of the controller's Deployment. The generation changes with each change of its specification.
async fn deployment(plane: &ControlPlane) -> Option<Version> {
    let found = Api::<Deployment>::namespaced(plane.client(), NAMESPACE)
        .get_opt(CONTROLLER_NAME)
        .await
        .unwrap()?;
    Some((found.uid()?, found.metadata.generation?))
}
