//! The exported Services, the mirrors that must appear in `west`, and how long each mirror takes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::labels;
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use crate::{
    clusters::{Clusters, SHOP},
    view::View,
};

/// One label on a Service of one or more clusters, and the mirrors that it causes.
struct Export {
    service: &'static str,
    label: (&'static str, &'static str),
    clusters: &'static [&'static str],
    mirrors: &'static [Mirror],
}

/// A Service that must appear in `west`.
struct Mirror {
    name: &'static str,
    mode: Mode,
}

/// How a mirror gets its endpoints.
#[derive(Clone, Copy)]
enum Mode {
    /// Requests go through the gateway of the target cluster.
    Gateway,
    /// Linkerd asks the target cluster for the Pods, and requests go to them directly.
    RemoteDiscovery,
    /// Clients reach each of `hosts` Pods by its name.
    Headless { hosts: usize },
    /// The endpoint mirror of one Pod of a headless Service. Requests go through the gateway.
    Host,
    /// Linkerd balances requests over the members of `clusters` clusters, including `west`.
    Federated { clusters: usize },
}

const EXPORTS: [Export; 4] = [
    Export {
        service: "web",
        label: (labels::EXPORTED, "true"),
        clusters: &["east"],
        mirrors: &[Mirror {
            name: "web-east",
            mode: Mode::Gateway,
        }],
    },
    Export {
        service: "api",
        label: (labels::EXPORTED, "remote-discovery"),
        clusters: &["north"],
        mirrors: &[Mirror {
            name: "api-north",
            mode: Mode::RemoteDiscovery,
        }],
    },
    Export {
        service: "db",
        label: (labels::EXPORTED, "true"),
        clusters: &["east"],
        mirrors: &[
            Mirror {
                name: "db-east",
                mode: Mode::Headless { hosts: 2 },
            },
            Mirror {
                name: "db-0-east",
                mode: Mode::Host,
            },
            Mirror {
                name: "db-1-east",
                mode: Mode::Host,
            },
        ],
    },
    Export {
        service: "cart",
        label: (labels::FEDERATED, "member"),
        clusters: &["east", "north", "west"],
        mirrors: &[Mirror {
            name: "cart-federated",
            mode: Mode::Federated { clusters: 3 },
        }],
    },
];

/// One mirror, as a row of the table.
pub(crate) struct Row {
    pub(crate) mirror: &'static str,
    pub(crate) mode: &'static str,
    /// The mirror, and how long it took; `None` if it is missing.
    pub(crate) standing: Option<(Standing, Duration)>,
}

/// A mirror that is complete.
pub(crate) struct Standing {
    pub(crate) ports: String,
    pub(crate) endpoints: String,
}

/// Exports the Services, one after the other, and waits for the mirrors of each.
pub(crate) async fn run(
    clusters: &Clusters,
    view: watch::Receiver<View>,
    limit: Duration,
) -> anyhow::Result<Vec<Row>> {
    let end = Instant::now() + limit;
    let mut rows = Vec::new();
    for export in &EXPORTS {
        let started = Instant::now();
        try_join_all(
            export
                .clusters
                .iter()
                .map(|cluster| export.apply(clusters, cluster)),
        )
        .await?;
        let rest = end.saturating_duration_since(Instant::now());
        let looks = export
            .mirrors
            .iter()
            .map(|mirror| mirror.awaited(view.clone(), started, rest));
        rows.extend(join_all(looks).await);
    }
    Ok(rows)
}

/// Fails if mirrors are missing, and names them.
pub(crate) fn require_all(rows: &[Row], limit: Duration) -> anyhow::Result<()> {
    let missing: Vec<&str> = rows
        .iter()
        .filter(|row| row.standing.is_none())
        .map(|row| row.mirror)
        .collect();
    if !missing.is_empty() {
        bail!(
            "not mirrored within {} s: {}",
            limit.as_secs(),
            missing.join(", ")
        );
    }
    Ok(())
}

impl Export {
    /// `kubectl --context CLUSTER -n shop label service SERVICE KEY=VALUE`
    async fn apply(&self, clusters: &Clusters, cluster: &str) -> anyhow::Result<()> {
        let (key, value) = self.label;
        let patch = json!({ "metadata": { "labels": { key: value } } });
        Api::<Service>::namespaced(clusters.named(cluster)?.client(), SHOP)
            .patch(self.service, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("failed to export {} of {cluster}", self.service))?;
        Ok(())
    }
}

impl Mirror {
    async fn awaited(
        &self,
        mut view: watch::Receiver<View>,
        started: Instant,
        rest: Duration,
    ) -> Row {
        let stands = timeout(rest, view.wait_for(|view| self.standing(view).is_some())).await;
        let took = started.elapsed();
        let standing = stands
            .ok()
            .and_then(Result::ok)
            .and_then(|view| self.standing(&view));
        Row {
            mirror: self.name,
            mode: self.mode.name(),
            standing: standing.map(|standing| (standing, took)),
        }
    }

    /// The mirror, if it is complete.
    fn standing(&self, view: &View) -> Option<Standing> {
        let service = view.service(self.name)?;
        let endpoints = match self.mode {
            Mode::Gateway | Mode::Host => through_gateway(view, self.name)?,
            Mode::RemoteDiscovery => {
                let labels = service.labels();
                let cluster = labels.get(labels::REMOTE_DISCOVERY)?;
                format!(
                    "pods of {} in {cluster}",
                    labels.get(labels::REMOTE_SERVICE)?
                )
            }
            Mode::Headless { hosts } => {
                let endpoints = view.slices_of(self.name).flat_map(|slice| &slice.endpoints);
                let mut names: Vec<&str> =
                    endpoints.filter_map(|e| e.hostname.as_deref()).collect();
                names.sort_unstable();
                (names.len() == hosts).then(|| names.join(", "))?
            }
            Mode::Federated { clusters } => {
                let annotations = service.annotations();
                let remote = annotations
                    .get(labels::REMOTE_DISCOVERY)
                    .into_iter()
                    .flat_map(|all| all.split(','));
                let local = annotations.get(labels::LOCAL_DISCOVERY).map(String::as_str);
                let members: Vec<&str> = local.into_iter().chain(remote).collect();
                (members.len() == clusters).then(|| members.join(", "))?
            }
        };
        let ports = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        let ports =
            ports.map(|port| format!("{} {}", port.name.as_deref().unwrap_or("-"), port.port));
        Some(Standing {
            ports: ports.collect::<Vec<_>>().join(", "),
            endpoints,
        })
    }
}

/// `address:port` of the gateway, if the first endpoint is ready.
fn through_gateway(view: &View, service: &str) -> Option<String> {
    let slice = view.slices_of(service).next()?;
    let endpoint = slice.endpoints.first()?;
    let port = slice.ports.iter().flatten().next()?.port?;
    let ready = endpoint
        .conditions
        .as_ref()
        .and_then(|conditions| conditions.ready)
        == Some(true);
    ready.then(|| format!("{}:{port}", endpoint.addresses.join(",")))
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::RemoteDiscovery => "remote discovery",
            Self::Headless { .. } => "headless",
            Self::Host => "host of db-east",
            Self::Federated { .. } => "federated",
        }
    }
}
