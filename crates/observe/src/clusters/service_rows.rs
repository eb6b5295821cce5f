//! The Services of Links: mirrors in a cluster, and what its controller reports about them. Pure.

use std::collections::BTreeMap;

use mirror_core::{
    api::{
        k8s::Service,
        labels,
        link::{ServiceCondition, ServiceStatus},
        members::{local_member, remote_members},
        metadata::ResourceId,
    },
    mirror,
};
use serde::Serialize;

use super::{
    preference_status::PreferenceStatus,
    shown_mode::ShownMode,
    snapshot::{Count, Endpoints, LinkSnapshot},
};

/// A mirror, a federated Service, or one that should exist and does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRow {
    /// Its cluster.
    pub context: String,
    /// Namespace.
    pub namespace: String,
    /// Name; `null` if it does not exist.
    pub service: Option<String>,
    /// How it gets to its endpoints; `null` if it does not exist.
    pub mode: Option<ShownMode>,
    /// What it mirrors, `<service>@<cluster>`; several for a federated Service.
    pub from: Vec<String>,
    /// Its endpoints in this cluster; `null` if Linkerd discovers them in other clusters.
    pub endpoints: Option<CountOutput>,
    /// Which clusters receive its requests; only for a federated Service.
    #[serde(flatten)]
    pub preferred: PreferenceStatus,
    /// Whether the controller reports it as healthy; `null` if it reports nothing.
    pub healthy: Option<bool>,
    /// The controller's reason, one word.
    pub reason: Option<String>,
    /// The controller's reason, one sentence.
    pub message: Option<String>,
}

/// Endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountOutput {
    /// Those that take traffic.
    pub ready: usize,
    /// All.
    pub total: usize,
}

impl From<Count> for CountOutput {
    fn from(Count { ready, total }: Count) -> Self {
        Self { ready, total }
    }
}

/// Which Services are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFilter {
    /// Those that come from this cluster.
    pub cluster: Option<String>,
    /// Those of this namespace.
    pub namespace: Option<String>,
    /// Those with this name, in this cluster or in a target cluster.
    pub name: Option<String>,
}

/// The rows of one cluster that are wanted, by namespace and name.
pub fn rows(
    context: &str,
    links: &[LinkSnapshot],
    mirrors: &[Service],
    endpoints: &Endpoints,
    wanted: &ServiceFilter,
) -> Vec<ServiceRow> {
    let mut reports = Reports::of(links);
    let mut rows = Vec::new();
    for mirror in mirrors {
        let id = mirror.metadata.resource_id();
        let mode = ShownMode::of(mirror);
        let own = matches!(
            mode,
            ShownMode::Gateway | ShownMode::Headless | ShownMode::HeadlessPod
        );
        let from = from(mirror, mode);
        let word = if mode == ShownMode::Federated {
            reports.take_members(&id, &from)
        } else {
            reports.take_mirror(&id, mirror.metadata.label(labels::CLUSTER_NAME))
        };
        rows.push(ServiceRow {
            context: context.to_owned(),
            from,
            endpoints: own.then(|| endpoints.of(&id).into()),
            namespace: id.namespace,
            service: Some(id.name),
            mode: Some(mode),
            preferred: PreferenceStatus::of(mirror),
            ..word.map(ServiceReport::row).unwrap_or_default()
        });
    }
    // The rest is about Services that have no mirror, or are not members.
    rows.extend(reports.0.into_iter().filter_map(|(key, word)| {
        let is_shown = word.is_problem() || word.is_intended();
        is_shown.then(|| ServiceRow {
            context: context.to_owned(),
            namespace: key.local.namespace,
            ..word.row()
        })
    }));
    rows.retain(|row| wanted.has(row));
    rows.sort_by(|a, b| {
        (&a.namespace, &a.service, &a.from).cmp(&(&b.namespace, &b.service, &b.from))
    });
    rows
}

impl ServiceFilter {
    fn has(&self, row: &ServiceRow) -> bool {
        let sources = || row.from.iter().filter_map(|from| from.rsplit_once('@'));
        let of_cluster = |cluster: &String| sources().any(|(_, of)| of == cluster);
        let is_named = |name: &String| {
            row.service.as_ref() == Some(name) || sources().any(|(source, _)| source == name)
        };
        self.cluster.as_ref().is_none_or(of_cluster)
            && self
                .namespace
                .as_ref()
                .is_none_or(|wanted| *wanted == row.namespace)
            && self.name.as_ref().is_none_or(is_named)
    }
}

/// What a mirror mirrors, `<service>@<cluster>`.
fn from(mirror: &Service, mode: ShownMode) -> Vec<String> {
    let cluster = mirror.metadata.label(labels::CLUSTER_NAME);
    let remote = mirror.metadata.label(labels::REMOTE_SERVICE);
    if mode == ShownMode::Federated {
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

/// What a controller reports about one Service of a target cluster.
struct ServiceReport<'a> {
    from: String,
    condition: &'a ServiceCondition,
}

impl ServiceReport<'_> {
    fn is_problem(&self) -> bool {
        self.condition.status != "True" && !self.is_intended()
    }

    /// Whether it is left out on purpose.
    fn is_intended(&self) -> bool {
        mirror::Reason::is_intended(&self.condition.reason)
    }

    fn row(self) -> ServiceRow {
        let is_problem = self.is_problem();
        let ServiceCondition {
            reason, message, ..
        } = self.condition;
        ServiceRow {
            from: vec![self.from],
            healthy: Some(!is_problem),
            reason: Some(reason.clone()),
            message: Some(message.clone()).filter(|message| !message.is_empty()),
            ..ServiceRow::default()
        }
    }
}

/// What a report is about. Two clusters may want the same name for their mirrors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReportKey {
    local: ResourceId,
    is_federated: bool,
    cluster: String,
}

/// What controllers report.
#[derive(Default)]
struct Reports<'a>(BTreeMap<ReportKey, ServiceReport<'a>>);

impl<'a> Reports<'a> {
    fn of(links: &'a [LinkSnapshot]) -> Self {
        let mut reports = Self::default();
        for link in links {
            let Some(status) = link.status() else {
                continue;
            };
            for service in &status.mirror_services {
                let name = mirror::mirror_name(&service.remote_ref.name, link.cluster());
                reports.note(link, service, name, false);
            }
            for service in &status.federated_services {
                let name = mirror::federated_name(&service.remote_ref.name);
                reports.note(link, service, name, true);
            }
        }
        reports
    }

    fn note(
        &mut self,
        link: &LinkSnapshot,
        service: &'a ServiceStatus,
        name: String,
        is_federated: bool,
    ) {
        let Some(condition) = service.conditions.first() else {
            return;
        };
        let remote = &service.remote_ref;
        let local = condition_local(condition).unwrap_or(name);
        let key = ReportKey {
            local: ResourceId::new(&remote.namespace, local),
            is_federated,
            cluster: link.cluster().to_owned(),
        };
        if !self.0.get(&key).is_some_and(ServiceReport::is_problem) {
            let from = format!("{}@{}", remote.name, link.cluster());
            self.0.insert(key, ServiceReport { from, condition });
        }
    }

    /// The report about the mirror of a Service of this cluster.
    fn take_mirror(&mut self, local: &ResourceId, cluster: &str) -> Option<ServiceReport<'a>> {
        self.0.remove(&ReportKey {
            local: local.clone(),
            is_federated: false,
            cluster: cluster.to_owned(),
        })
    }

    /// The report about the members of a federated Service: the first problem, if there is one.
    fn take_members(
        &mut self,
        local: &ResourceId,
        members: &[String],
    ) -> Option<ServiceReport<'a>> {
        let first = ReportKey {
            local: local.clone(),
            is_federated: true,
            cluster: String::new(),
        };
        let of_service = self.0.range(first..);
        let of_service = of_service.take_while(|(key, _)| key.is_federated && key.local == *local);
        let of_members = of_service.filter(|(_, word)| members.contains(&word.from));
        let keys: Vec<ReportKey> = of_members.map(|(key, _)| key.clone()).collect();
        let mut words: Vec<_> = keys.iter().filter_map(|key| self.0.remove(key)).collect();
        let first = words
            .iter()
            .position(ServiceReport::is_problem)
            .unwrap_or_default();
        (first < words.len()).then(|| words.swap_remove(first))
    }
}

fn condition_local(condition: &ServiceCondition) -> Option<String> {
    condition.local_ref.as_ref().map(|local| local.name.clone())
}

#[cfg(test)]
mod tests;
