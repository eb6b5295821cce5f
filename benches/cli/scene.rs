//! The clusters that commands are measured on.

use std::time::Duration;

use control_plane::{Lent, eventually};
use kube::{Api, api::ListParams};
use linkerd_mc::api::{k8s::Service, labels as l, link::Link, wire::Wire};
use serde_json::json;

use crate::support::{
    controller::Controller,
    gateways::Gateways,
    installation::{NAMESPACE, link, link_gen},
    planes::installed,
};

/// How long the controller may take to mirror all Services.
const MIRRORED: Duration = Duration::from_secs(300);

/// The source cluster `west`, and its target clusters `east` and `silent`. [`Scene::link_many`] pauses the API server
/// of `silent`.
pub struct Scene {
    pub east: Lent,
    pub west: Lent,
    silent: Lent,
    /// Answers the probes of all gateways, until [`Scene::link_many`] kills them.
    gateways: Gateways,
}

impl Scene {
    /// Starts the control planes, with the extension installed.
    pub async fn set() -> Self {
        let (east, west, silent) = tokio::join!(
            installed("cli-east", "192.0.2.10"),
            installed("cli-west", "192.0.2.20"),
            installed("cli-silent", "192.0.2.30"),
        );
        Self {
            east,
            west,
            silent,
            gateways: Gateways::start(),
        }
    }

    /// Exports `count` Services of `east`, links `west` to `east`, and waits until all of them are mirrored.
    pub async fn mirror(&self, count: usize) -> Controller {
        let services: Vec<_> = (0..count)
            .map(|n| {
                json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {
                        "name": format!("web-{n}"), "namespace": "default",
                        "labels": { l::EXPORTED: "true", "app": "web", "team": "payments" },
                    },
                    "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80 }] },
                })
            })
            .collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": services }).to_string();
        self.east
            .kubectl_stdin(&["create", "-f", "-"], &list)
            .await
            .unwrap();
        link(&self.west, &self.east, "east", &[]).await;
        let address = self.gateways.address();
        let controller = Controller::start(&self.west, &["--probe-address", &address]);
        let mirrors: Api<Wire<Service>> = Api::all(self.west.client());
        let selector = ListParams::default().labels(&format!("{}=true", l::MIRRORED_SERVICE));
        eventually("all mirrors", MIRRORED, async || {
            let found = mirrors.list_metadata(&selector).await?.items.len();
            Ok((found == count).then_some(()))
        })
        .await
        .unwrap();
        controller
    }

    /// Adds Links until there are `count`, and waits until all gateways are dead. The last Link leads to `silent`, whose
    /// API server then stops answering.
    pub async fn link_many(&self, count: usize) {
        self.gateways.kill("/ready");
        let nobody = [
            "--selector=mirror.linkerd.io/exported=nobody",
            "--remote-discovery-selector=mirror.linkerd.io/exported=nobody",
            "--federated-service-selector=mirror.linkerd.io/federated=nobody",
        ];
        let mut all = String::new();
        for n in 1..count {
            let silent = n == count - 1;
            let target = if silent { &self.silent } else { &self.east };
            all.push_str(&link_gen(target, &format!("more-{n}"), &nobody));
        }
        self.west.apply(&all).await.unwrap();
        let links = Api::<Link>::namespaced(self.west.client(), NAMESPACE);
        let is_dead = |link: &Link| {
            let conditions = link.status.iter().flat_map(|status| &status.conditions);
            let mut conditions = conditions.filter(|condition| condition.type_ == "GatewayAlive");
            conditions.any(|condition| condition.status == "False")
        };
        eventually("dead gateways", MIRRORED, async || {
            let all = links.list(&ListParams::default()).await?.items;
            Ok((all.iter().filter(|link| is_dead(link)).count() == count).then_some(()))
        })
        .await
        .unwrap();
        self.silent.pause_api_server().unwrap();
    }
}
