//! The scenarios of the sweep: the objects before, the action, and the objects that have to survive it.

use std::sync::Arc;

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Secret, Service};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::{labels as l, link::Link};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{
    gateway_api,
    installation::NAMESPACE,
    links::{links, objects},
    objects::{create, export, hosts, join, patch, relabel, services, slices, stateful, web},
    planes::Alone,
};

/// A Service of the source cluster that belongs to no Link.
pub(super) const BYSTANDER: &str = "bystander";

/// Objects that must survive in every run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeps {
    /// Mirrors of Services that are exported during the whole run.
    pub(super) services: &'static [&'static str],
    /// Annotations of the federated Service, each with a member that it lists during the whole run.
    pub(super) members: &'static [(&'static str, &'static str)],
}

const NOTHING: Keeps = Keeps {
    services: &[],
    members: &[],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    FirstSync,
    SwitchMode,
    ScaleUp,
    Join,
    Leave,
    TurnToGateway,
    Prefer,
    Unlink,
    Adopt,
}

/// A scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    act: Act,
    /// Whether the controller runs before the action.
    pub(super) running: bool,
    pub(super) keeps: Keeps,
    /// Names of objects before the action.
    prepared: &'static [&'static str],
    /// Names of objects at the end, and names of objects that do not exist then.
    done: &'static [&'static str],
    gone: &'static [&'static str],
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "first sync",
        act: Act::FirstSync,
        running: false,
        keeps: NOTHING,
        prepared: &[],
        done: &[
            "\"web-CLUSTER\"",
            "\"direct-CLUSTER\"",
            "\"db-1-CLUSTER\"",
            "member@CLUSTER",
        ],
        gone: &[],
    },
    Scenario {
        name: "mode switch",
        act: Act::SwitchMode,
        running: true,
        keeps: Keeps {
            services: &["web-CLUSTER", "direct-CLUSTER"],
            members: &[],
        },
        prepared: &[
            "\"web-CLUSTER-ipv4\"",
            "\"direct-CLUSTER\"",
            "\"probe-CLUSTER",
        ],
        done: &["\"web-CLUSTER\"", "\"direct-CLUSTER\""],
        gone: &[],
    },
    Scenario {
        name: "scale-up",
        act: Act::ScaleUp,
        running: true,
        keeps: Keeps {
            services: &["db-CLUSTER", "db-0-CLUSTER"],
            members: &[],
        },
        prepared: &[
            "\"db-CLUSTER-ipv4\"",
            "\"db-0-CLUSTER-ipv4\"",
            "\"probe-CLUSTER",
        ],
        done: &[
            "IP of db-0-CLUSTER",
            "IP of db-1-CLUSTER",
            "IP of db-2-CLUSTER",
        ],
        gone: &[],
    },
    Scenario {
        name: "federated join",
        act: Act::Join,
        running: true,
        keeps: Keeps {
            services: &["member-federated"],
            members: &[
                (l::REMOTE_DISCOVERY, "member@CLUSTER"),
                (l::LOCAL_DISCOVERY, "member"),
            ],
        },
        prepared: &["member@CLUSTER", "\"probe-CLUSTER"],
        done: &["member@SECOND", "\"probe-SECOND"],
        gone: &[],
    },
    Scenario {
        name: "federated leave",
        act: Act::Leave,
        running: true,
        keeps: Keeps {
            services: &["member-federated"],
            members: &[
                (l::REMOTE_DISCOVERY, "member@CLUSTER"),
                (l::LOCAL_DISCOVERY, "member"),
            ],
        },
        prepared: &["member@CLUSTER", "member@SECOND", "\"probe-SECOND"],
        done: &["member@CLUSTER"],
        gone: &["SECOND"],
    },
    Scenario {
        name: "federated form",
        act: Act::TurnToGateway,
        running: true,
        keeps: Keeps {
            services: &["member-federated"],
            members: &[],
        },
        prepared: &[
            "/remote-discovery\":\"member@CLUSTER\"",
            "/local-discovery\"",
            "\"probe-CLUSTER",
        ],
        done: &[
            "/members\":\"member@CLUSTER\"",
            "\"member-federated.CLUSTER-ipv4\"",
            "\"member-federated-local-",
        ],
        gone: &["/remote-discovery\":\"member@CLUSTER\""],
    },
    Scenario {
        name: "preference",
        act: Act::Prefer,
        running: true,
        keeps: Keeps {
            services: &["member-federated"],
            members: &[(l::LOCAL_DISCOVERY, "member")],
        },
        prepared: &["/local-discovery\"", "\"member-federated-80\""],
        done: &["\"probe-CLUSTER", "\"name\":\"member-CLUSTER\",\"port\":80"],
        gone: &[],
    },
    Scenario {
        name: "unlink",
        act: Act::Unlink,
        running: true,
        keeps: Keeps {
            services: &["member-federated"],
            members: &[(l::LOCAL_DISCOVERY, "member")],
        },
        prepared: &[
            "\"web-CLUSTER-ipv4\"",
            "\"db-CLUSTER-ipv4\"",
            "\"db-0-CLUSTER-ipv4\"",
            "member@CLUSTER",
            "\"probe-CLUSTER",
        ],
        done: &["\"member-federated\""],
        gone: &["-CLUSTER", "@CLUSTER"],
    },
    Scenario {
        name: "adoption",
        act: Act::Adopt,
        running: false,
        keeps: Keeps {
            services: &["web-CLUSTER"],
            members: &[],
        },
        prepared: &[],
        done: &["\"web-CLUSTER\"", "\"probe-CLUSTER", "\"EndpointSlice\""],
        gone: &["stale-CLUSTER", "\"Endpoints\""],
    },
];

/// Where one run takes place: a namespace in both clusters, and a Link.
pub(super) struct Stage {
    pub(super) source: Arc<ControlPlane>,
    pub(super) far: Arc<ControlPlane>,
    /// Address of the API server of `far` in the Links.
    far_url: String,
    pub(super) namespace: String,
    pub(super) cluster: String,
}

impl Stage {
    pub(super) async fn new(
        planes: &Alone,
        far_url: String,
        scenario: &Scenario,
        run: usize,
    ) -> Self {
        let stage = Self {
            source: planes.source.clone(),
            far: planes.far.clone(),
            far_url,
            namespace: format!("ns-{run:03}-{}", scenario.name.replace(' ', "-")),
            cluster: format!("c{run:03}"),
        };
        for plane in [&stage.source, &stage.far] {
            let metadata = ObjectMeta {
                name: Some(stage.namespace.clone()),
                ..ObjectMeta::default()
            };
            let namespace = Namespace {
                metadata,
                ..Namespace::default()
            };
            Api::all(plane.client())
                .create(&PostParams::default(), &namespace)
                .await
                .unwrap();
        }
        create(&stage.source, &stage.namespace, &web(BYSTANDER, "no")).await;
        stage
    }

    /// Name of the second target cluster, if there is one.
    pub(super) fn second(&self) -> String {
        format!("{}-b", self.cluster)
    }

    /// Creates a Link to this cluster, as `link-gen` prints it.
    async fn link(&self, cluster: &str) {
        /// A name that appears only where the name of the cluster does.
        const MODEL: &str = "modelcluster";
        static PRINTED: OnceCell<Vec<String>> = OnceCell::const_new();
        let printed = PRINTED.get_or_init(async || {
            let address = format!("--api-server-address={}", self.far_url);
            let flags = ["--enable-headless-services", &address];
            let objects = objects(&self.far, MODEL, &flags);
            objects.iter().map(Value::to_string).collect()
        });
        for text in printed.await {
            let text = text
                // The Links to both clusters select Services that are labelled with the stage's name.
                .replace(
                    &format!("\"{}\":\"{MODEL}", l::FEDERATED),
                    &format!("\"{}\":\"{}", l::FEDERATED, self.cluster),
                )
                .replace(MODEL, cluster);
            let object: Value = serde_json::from_str(&text).unwrap();
            let parameters = PostParams::default();
            if object["kind"] == "Secret" {
                let secret: Secret = serde_json::from_value(object).unwrap();
                let namespace = secret.metadata.namespace.clone().unwrap();
                Api::<Secret>::namespaced(self.source.client(), &namespace)
                    .create(&parameters, &secret)
                    .await
                    .unwrap();
            } else {
                let link: Link = serde_json::from_value(object).unwrap();
                links(&self.source)
                    .create(&parameters, &link)
                    .await
                    .unwrap();
            }
        }
    }

    async fn unlink(&self, cluster: &str) {
        links(&self.source)
            .delete(cluster, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Creates a member in both clusters.
    async fn member(&self) {
        for plane in [&self.source, &self.far] {
            let value = if Arc::ptr_eq(plane, &self.source) {
                "swept"
            } else {
                &self.cluster
            };
            join(plane, &self.namespace, "member", value, "no").await;
        }
    }

    /// Creates a mirror of Linkerd's service mirror, with its Endpoints.
    async fn linkerds_mirror(&self, service: &str) {
        let name = format!("{service}-{}", self.cluster);
        let metadata = json!({
            "name": name,
            "labels": { l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: self.cluster },
            "annotations": { l::REMOTE_FQ_NAME: format!("{service}.{}.svc.cluster.local", self.namespace) },
        });
        let mirror: Service = serde_json::from_value(json!({
            "metadata": metadata, "spec": { "ports": [{ "name": "http", "port": 80 }] },
        }))
        .unwrap();
        let endpoints: Endpoints = serde_json::from_value(json!({
            "metadata": metadata,
            "subsets": [{ "addresses": [{ "ip": "192.0.2.99" }], "ports": [{ "name": "http", "port": 4143 }] }],
        }))
        .unwrap();
        let parameters = PostParams::default();
        services(&self.source, &self.namespace)
            .create(&parameters, &mirror)
            .await
            .unwrap();
        Api::<Endpoints>::namespaced(self.source.client(), &self.namespace)
            .create(&parameters, &endpoints)
            .await
            .unwrap();
    }

    /// Deletes objects that would be work for the controllers of later runs.
    pub(super) async fn clear(&self) {
        let all = ListParams::default();
        let now = DeleteParams::default();
        for plane in [&self.far, &self.source] {
            if Arc::ptr_eq(plane, &self.source) {
                links(plane).delete_collection(&now, &all).await.unwrap();
                let kind = ListParams::default().fields(&format!("type={}", l::CREDENTIALS_TYPE));
                let secrets: Api<Secret> = Api::namespaced(plane.client(), NAMESPACE);
                secrets.delete_collection(&now, &kind).await.unwrap();
                let probes = ListParams::default().labels(&format!("{}=true", l::MIRRORED_GATEWAY));
                services(plane, NAMESPACE)
                    .delete_collection(&now, &probes)
                    .await
                    .unwrap();
                slices(plane, NAMESPACE)
                    .delete_collection(&now, &probes)
                    .await
                    .unwrap();
            }
            if Arc::ptr_eq(plane, &self.source) {
                gateway_api::routes(plane, &self.namespace, "HTTPRoute")
                    .delete_collection(&now, &all)
                    .await
                    .unwrap();
            }
            services(plane, &self.namespace)
                .delete_collection(&now, &all)
                .await
                .unwrap();
            slices(plane, &self.namespace)
                .delete_collection(&now, &all)
                .await
                .unwrap();
        }
    }
}

impl Scenario {
    /// Creates the objects that exist before the action.
    pub(super) async fn prepare(&self, stage: &Stage) {
        let (far, namespace, cluster) = (&stage.far, &*stage.namespace, &*stage.cluster);
        let direct = format!("{cluster}-direct");
        match self.act {
            Act::FirstSync => {
                export(far, namespace, &web("web", cluster)).await;
                export(far, namespace, &web("direct", &direct)).await;
                stateful(far, namespace, "db", cluster).await;
                hosts(far, namespace, "db", &[("db-0", true), ("db-1", true)]).await;
                stage.member().await;
            }
            Act::SwitchMode => {
                export(far, namespace, &web("web", cluster)).await;
                export(far, namespace, &web("direct", &direct)).await;
            }
            Act::ScaleUp => {
                stateful(far, namespace, "db", cluster).await;
                hosts(far, namespace, "db", &[("db-0", true)]).await;
            }
            Act::Join | Act::Leave => stage.member().await,
            Act::Prefer => {
                stage.member().await;
                let first = format!("{cluster},local");
                let prefer = json!({ "metadata": { "annotations": { l::PREFER: first } } });
                patch(&stage.source, namespace, "member", prefer).await;
                return;
            }
            Act::TurnToGateway => {
                stage.member().await;
                for plane in [&stage.source, far] {
                    crate::support::objects::endpoints(plane, namespace, "member", 1).await;
                }
            }
            Act::Unlink => {
                export(far, namespace, &web("web", cluster)).await;
                stateful(far, namespace, "db", cluster).await;
                hosts(far, namespace, "db", &[("db-0", true)]).await;
                stage.member().await;
            }
            Act::Adopt => {
                stage.linkerds_mirror("web").await;
                stage.linkerds_mirror("stale").await;
                export(far, namespace, &web("web", cluster)).await;
            }
        }
        stage.link(cluster).await;
        if self.act == Act::Leave {
            stage.link(&stage.second()).await;
        }
    }

    /// Executes the action.
    pub(super) async fn act(&self, stage: &Stage) {
        let (far, namespace, cluster) = (&stage.far, &*stage.namespace, &*stage.cluster);
        match self.act {
            // The action is the start of the controller.
            Act::FirstSync | Act::Adopt => {}
            Act::SwitchMode => {
                relabel(far, namespace, "web", Some(&format!("{cluster}-direct"))).await;
                relabel(far, namespace, "direct", Some(cluster)).await;
                crate::support::objects::endpoints(far, namespace, "direct", 1).await;
            }
            Act::ScaleUp => {
                let all = [("db-0", true), ("db-1", true), ("db-2", true)];
                hosts(far, namespace, "db", &all).await;
            }
            Act::Join => stage.link(&stage.second()).await,
            Act::Leave => stage.unlink(&stage.second()).await,
            Act::TurnToGateway => {
                let through = json!({ l::FEDERATED_THROUGH: "gateway" });
                let turn = json!({ "metadata": { "annotations": through } });
                links(&stage.source)
                    .patch(cluster, &PatchParams::default(), &Patch::Merge(turn))
                    .await
                    .unwrap();
            }
            Act::Prefer => stage.link(cluster).await,
            Act::Unlink => stage.unlink(cluster).await,
        }
    }

    /// Whether this is the state before the action.
    pub(super) fn is_prepared(&self, state: &str) -> bool {
        self.prepared.iter().all(|name| state.contains(name))
    }

    /// Whether this may be the state at the end.
    pub(super) fn is_done(&self, state: &str) -> bool {
        self.done.iter().all(|name| state.contains(name))
            && !self.gone.iter().any(|name| state.contains(name))
    }
}
