//! The Services of Links: mirrors in the cluster, and what the controller reports about them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    api::{
        k8s::Service,
        labels,
        link::{ServiceCondition, ServiceStatus},
        members::{local_member, remote_members},
        resource_id::ResourceId,
    },
    clusters::{
        preference_status::PreferenceStatus,
        snapshot::{Count, Endpoints, LinkSnapshot},
    },
    mirror,
};

/// A mirror, a federated Service, or one that should exist and does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceRow {
    /// Its cluster.
    pub(super) context: String,
    /// Namespace.
    pub(super) namespace: String,
    /// Name; `null` if it does not exist.
    pub(super) service: Option<String>,
    /// How it gets to its endpoints; `null` if it does not exist.
    pub(super) mode: Option<Mode>,
    /// What it mirrors, `<service>@<cluster>`; several for a federated Service.
    pub(super) from: Vec<String>,
    /// Its endpoints in this cluster; `null` if Linkerd discovers them in other clusters.
    pub(super) endpoints: Option<CountOutput>,
    /// Which clusters receive its requests; only for a federated Service.
    #[serde(flatten)]
    pub(super) preferred: PreferenceStatus,
    /// Whether the controller reports it as healthy; `null` if it reports nothing.
    pub(super) healthy: Option<bool>,
    /// The controller's reason, one word.
    pub(super) reason: Option<String>,
    /// The controller's reason, one sentence.
    pub(super) message: Option<String>,
}

/// Endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct CountOutput {
    /// Those that take traffic.
    pub(super) ready: usize,
    /// All.
    pub(super) total: usize,
}

impl From<Count> for CountOutput {
    fn from(Count { ready, total }: Count) -> Self {
        Self { ready, total }
    }
}

/// How a mirror gets to its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    /// Through the target cluster's gateway.
    Gateway,
    /// As `Gateway`, with a Service for each pod.
    Headless,
    /// The Service of one pod of a `Headless` one.
    HeadlessPod,
    /// From pod to pod.
    RemoteDiscovery,
    /// From pod to pod, in several clusters.
    Federated,
}

impl Mode {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Headless => "headless",
            Self::HeadlessPod => "headless-pod",
            Self::RemoteDiscovery => "remote-discovery",
            Self::Federated => "federated",
        }
    }

    fn of(mirror: &Service) -> Self {
        let has = |key| !mirror.metadata.label(key).is_empty();
        if !members(mirror).is_empty() {
            Self::Federated
        } else if has(labels::REMOTE_DISCOVERY) {
            Self::RemoteDiscovery
        } else if has(labels::HEADLESS_MIRROR) {
            Self::HeadlessPod
        } else if mirror.is_headless() {
            Self::Headless
        } else {
            Self::Gateway
        }
    }
}

/// The rows of one cluster, by namespace and name. `cluster` keeps only those of one target cluster.
pub(super) fn rows(
    context: &str,
    links: &[LinkSnapshot],
    mirrors: &[Service],
    endpoints: &Endpoints,
    cluster: Option<&str>,
) -> Vec<ServiceRow> {
    let mut said = said(links);
    let mut rows = Vec::new();
    for mirror in mirrors {
        let id = mirror.metadata.resource_id();
        let mode = Mode::of(mirror);
        let own = matches!(mode, Mode::Gateway | Mode::Headless | Mode::HeadlessPod);
        let word = said.remove(&id);
        rows.push(ServiceRow {
            context: context.to_owned(),
            from: from(mirror, mode),
            endpoints: own.then(|| endpoints.of(&id).into()),
            namespace: id.namespace,
            service: Some(id.name),
            mode: Some(mode),
            preferred: PreferenceStatus::of(mirror),
            ..word.map(Word::row).unwrap_or_default()
        });
    }
    // The rest is about Services that do not exist.
    rows.extend(said.into_iter().filter_map(|(id, word)| {
        let row = word.row();
        (row.healthy == Some(false)).then(|| ServiceRow {
            context: context.to_owned(),
            namespace: id.namespace,
            ..row
        })
    }));
    if let Some(cluster) = cluster {
        let of_cluster = |from: &String| from.rsplit_once('@').is_some_and(|(_, c)| c == cluster);
        rows.retain(|row| row.from.iter().any(of_cluster));
    }
    rows.sort_by(|a, b| {
        (&a.namespace, &a.service, &a.from).cmp(&(&b.namespace, &b.service, &b.from))
    });
    rows
}

/// What a mirror mirrors, `<service>@<cluster>`.
fn from(mirror: &Service, mode: Mode) -> Vec<String> {
    let cluster = mirror.metadata.label(labels::CLUSTER_NAME);
    let remote = mirror.metadata.label(labels::REMOTE_SERVICE);
    if mode == Mode::Federated {
        return members(mirror);
    }
    if !remote.is_empty() {
        return vec![format!("{remote}@{cluster}")];
    }
    let fq_name = mirror.metadata.annotation(labels::REMOTE_FQ_NAME);
    let namespace = mirror.metadata.namespace.as_deref().unwrap_or_default();
    let remote = fq_name
        .split_once(&format!(".{namespace}.svc."))
        .map_or(fq_name, |(name, _)| name);
    vec![format!("{remote}@{cluster}")]
}

/// Members of a federated Service; none of any other.
fn members(service: &Service) -> Vec<String> {
    let annotation = |key: &str| service.metadata.annotations.get(key);
    let local = local_member(annotation).map(|name| format!("{name}@(local)"));
    let remote = remote_members(annotation).map(|(name, cluster)| format!("{name}@{cluster}"));
    local.into_iter().chain(remote).collect()
}

/// What a controller reports about one local Service.
struct Word<'a> {
    from: String,
    condition: &'a ServiceCondition,
}

impl Word<'_> {
    /// Whether the cluster is drained.
    fn is_drained(&self) -> bool {
        self.condition.reason == mirror::Reason::Drained.as_str()
    }

    fn row(self) -> ServiceRow {
        let is_drained = self.is_drained();
        let ServiceCondition {
            status,
            reason,
            message,
            ..
        } = self.condition;
        ServiceRow {
            from: vec![self.from],
            healthy: Some(status == "True" || is_drained),
            reason: Some(reason.clone()),
            message: Some(message.clone()).filter(|message| !message.is_empty()),
            ..ServiceRow::default()
        }
    }
}

/// What controllers report, by the local Service that the entry is about. If several Links report on one federated
/// Service, the first problem counts.
fn said(links: &[LinkSnapshot]) -> BTreeMap<ResourceId, Word<'_>> {
    let mut said: BTreeMap<_, Word<'_>> = BTreeMap::new();
    let mut note = |link: &LinkSnapshot, service: &'_ ServiceStatus, condition, name: String| {
        let remote = &service.remote_ref;
        let local = condition_local(condition).unwrap_or(name);
        let word = Word {
            from: format!("{}@{}", remote.name, link.cluster()),
            condition,
        };
        let place = ResourceId::new(&remote.namespace, local);
        let complained = said
            .get(&place)
            .is_some_and(|word| word.condition.status != "True" && !word.is_drained());
        if !complained {
            said.insert(place, word);
        }
    };
    for link in links {
        let Some(status) = link.status() else {
            continue;
        };
        for service in &status.mirror_services {
            if let Some(condition) = service.conditions.first() {
                let name = mirror::mirror_name(&service.remote_ref.name, link.cluster());
                note(link, service, condition, name);
            }
        }
        for service in &status.federated_services {
            if let Some(condition) = service.conditions.first() {
                let name = mirror::federated_name(&service.remote_ref.name);
                note(link, service, condition, name);
            }
        }
    }
    said
}

fn condition_local(condition: &ServiceCondition) -> Option<String> {
    condition.local_ref.as_ref().map(|local| local.name.clone())
}

#[cfg(test)]
mod tests;
