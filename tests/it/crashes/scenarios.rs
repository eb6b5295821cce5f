//! The scenarios of the sweep: the objects before, the action, and the objects that have to survive it.

use linkerd_mc::api::labels as l;
use serde_json::json;

use super::stage::Stage;
use crate::support::objects::{export, hosts, patch, relabel, stateful, web};

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

/// The annotation of a Link whose API server is reached through a gateway.
const API_GATEWAY: &str = r#"{"addresses":["192.0.2.11"],"port":4143,"identity":"api.identity","service":"mc/kubernetes-api"}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    FirstSync,
    SwitchMode,
    ScaleUp,
    Join,
    Leave,
    TurnToGateway,
    ReachThroughGateway,
    ReachDirectly,
    Prefer,
    Unlink,
    Adopt,
}

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    act: Act,
    /// Whether the controller runs before the action.
    pub(super) running: bool,
    pub(super) keeps: Keeps,
    /// Texts that [`normal`](super::state::normal) contains before the action.
    prepared: &'static [&'static str],
    /// Texts that it contains at the end, and texts that it does not contain then.
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
    // The Links of these two have no credentials. With credentials, the controller would connect to the ClusterIP of a
    // gateway Service, where nothing listens.
    Scenario {
        name: "through the gateway",
        act: Act::ReachThroughGateway,
        running: true,
        keeps: NOTHING,
        prepared: &["\"probe-CLUSTER"],
        done: &["\"api-CLUSTER\"", "\"api-CLUSTER-ipv4\""],
        gone: &[],
    },
    Scenario {
        name: "direct way",
        act: Act::ReachDirectly,
        running: true,
        keeps: NOTHING,
        prepared: &["\"probe-CLUSTER", "\"api-CLUSTER-ipv4\""],
        done: &["\"probe-CLUSTER"],
        gone: &["\"api-CLUSTER"],
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
            Act::ReachThroughGateway | Act::ReachDirectly => {}
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
        if !self.has_credentials() {
            stage.without_credentials().await;
        }
        match self.act {
            Act::Leave => stage.link(&stage.second()).await,
            Act::ReachDirectly => stage.annotate(l::API_GATEWAY, Some(API_GATEWAY)).await,
            _ => {}
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
            Act::TurnToGateway => stage.annotate(l::FEDERATED_THROUGH, Some("gateway")).await,
            Act::ReachThroughGateway => {
                stage.annotate(l::API_GATEWAY, Some(API_GATEWAY)).await;
            }
            Act::ReachDirectly => stage.annotate(l::API_GATEWAY, None).await,
            Act::Prefer => stage.link(cluster).await,
            Act::Unlink => stage.unlink(cluster).await,
        }
    }

    /// Whether the Link has credentials, so that the controller can connect.
    pub(super) fn has_credentials(&self) -> bool {
        !matches!(self.act, Act::ReachThroughGateway | Act::ReachDirectly)
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
