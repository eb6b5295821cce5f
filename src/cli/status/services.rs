//! The Services that Links bring: mirrors as they are in the cluster, and what the controller says of them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    api::{
        k8s::Service,
        labels,
        link::{ServiceCondition, ServiceStatus},
        members::{local_member, remote_members},
    },
    check::facts::{Count, Endpoints, LinkFacts},
    mirror,
};

/// A mirror, a federated Service, or one that should be there and is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceRow {
    /// The cluster that it is in.
    pub(super) context: String,
    /// Namespace.
    pub(super) namespace: String,
    /// Name; `null` when it is not there.
    pub(super) service: Option<String>,
    /// How it gets to its endpoints; `null` when it is not there.
    pub(super) mode: Option<Mode>,
    /// What it stands for, `<service>@<cluster>`; a federated Service stands for several.
    pub(super) from: Vec<String>,
    /// Its endpoints in this cluster; `null` when it has them elsewhere.
    pub(super) endpoints: Option<CountOutput>,
    /// Whether the controller is content with it; `null` when it says nothing.
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
    links: &[LinkFacts],
    mirrors: &[Service],
    endpoints: &Endpoints,
    cluster: Option<&str>,
) -> Vec<ServiceRow> {
    let mut said = said(links);
    let mut rows = Vec::new();
    for mirror in mirrors {
        let (namespace, name) = mirror.metadata.id();
        let mode = Mode::of(mirror);
        let own = matches!(mode, Mode::Gateway | Mode::Headless | Mode::HeadlessPod);
        let word = said.remove(&(namespace.clone(), name.clone()));
        rows.push(ServiceRow {
            context: context.to_owned(),
            from: from(mirror, mode),
            endpoints: own.then(|| endpoints.of(&namespace, &name).into()),
            namespace,
            service: Some(name),
            mode: Some(mode),
            ..word.map(Word::row).unwrap_or_default()
        });
    }
    // What is left is said of Services that are not there.
    rows.extend(said.into_iter().filter_map(|((namespace, _), word)| {
        let row = word.row();
        (row.healthy == Some(false)).then(|| ServiceRow {
            context: context.to_owned(),
            namespace,
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

/// What a mirror stands for.
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

/// What controllers say of one local Service.
struct Word<'a> {
    from: String,
    condition: &'a ServiceCondition,
}

impl Word<'_> {
    /// Whether the cluster takes no part because somebody wants it so.
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

/// What controllers say, by the local Service that it concerns. Of several words about one federated Service
/// the first complaint counts.
fn said(links: &[LinkFacts]) -> BTreeMap<(String, String), Word<'_>> {
    let mut said: BTreeMap<_, Word<'_>> = BTreeMap::new();
    let mut note = |link: &LinkFacts, service: &'_ ServiceStatus, condition, name: String| {
        let remote = &service.remote_ref;
        let local = condition_local(condition).unwrap_or(name);
        let word = Word {
            from: format!("{}@{}", remote.name, link.cluster()),
            condition,
        };
        let place = (remote.namespace.clone(), local);
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
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::state::tests::{condition, link};

    fn service(name: &str, labels: &Value, annotations: &Value, cluster_ip: &str) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "labels": labels, "annotations": annotations},
            "spec": {"clusterIP": cluster_ip},
        }))
        .unwrap()
    }

    fn status(name: &str, status: &str, message: &str) -> Value {
        json!({
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": {"name": name, "namespace": "shop"},
            "conditions": [condition("Mirrored", status, message, 1)],
        })
    }

    fn all() -> Vec<ServiceRow> {
        let of_east = json!({labels::CLUSTER_NAME: "east"});
        let fq =
            |name: &str| json!({labels::REMOTE_FQ_NAME: format!("{name}.shop.svc.cluster.local")});
        let mirrors = [
            service("web-east", &of_east, &fq("web"), "10.0.0.1"),
            service("db-east", &of_east, &fq("db"), "None"),
            service(
                "db-0-east",
                &json!({labels::CLUSTER_NAME: "east", labels::HEADLESS_MIRROR: "db-east"}),
                &fq("db-0.db"),
                "10.0.0.2",
            ),
            service(
                "api-west",
                &json!({labels::CLUSTER_NAME: "west", labels::REMOTE_DISCOVERY: "west", labels::REMOTE_SERVICE: "api"}),
                &fq("api"),
                "10.0.0.3",
            ),
            service(
                "web-federated",
                &json!({}),
                &json!({labels::REMOTE_DISCOVERY: "web@east,web@west", labels::LOCAL_DISCOVERY: "web"}),
                "10.0.0.4",
            ),
        ];
        let slices = [serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "labels": {labels::SLICE_SERVICE: "web-east"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"], "conditions": {"ready": false}}],
        }))
        .unwrap()];
        let links = [
            link(
                "east",
                &json!({
                    "mirrorServices": [status("web", "True", ""), status("gone", "False", "no such namespace"), status("past", "True", "")],
                    "federatedServices": [status("web", "False", "headless")],
                }),
            ),
            link(
                "west",
                &json!({"federatedServices": [status("web", "True", "")]}),
            ),
        ];
        rows("here", &links, &mirrors, &Endpoints::count(&slices), None)
    }

    #[test]
    fn what_is_there_meets_what_is_said_of_it() {
        let lines: Vec<_> = all()
            .iter()
            .map(|row| {
                format!(
                    "{} {} {} {} {} {}",
                    row.service.as_deref().unwrap_or("-"),
                    row.mode.map_or("-", Mode::as_str),
                    row.from.join(","),
                    row.endpoints
                        .map_or_else(|| "-".into(), |e| format!("{}/{}", e.ready, e.total)),
                    row.healthy
                        .map_or_else(|| "-".into(), |healthy| healthy.to_string()),
                    row.message.as_deref().unwrap_or("-"),
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        - - gone@east - false no such namespace
        api-west remote-discovery api@west - - -
        db-0-east headless-pod db-0.db@east 0/0 - -
        db-east headless db@east 0/0 - -
        web-east gateway web@east 1/2 true -
        web-federated federated web@(local),web@east,web@west - false headless
        ");
    }

    #[test]
    fn member_of_a_drained_cluster_is_no_complaint() {
        let drained = json!({"federatedServices": [{
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": {"name": "web", "namespace": "shop"},
            "conditions": [{
                "type": "Mirrored", "status": "False", "reason": "Drained", "message": "until then",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }]});
        let complains = json!({"federatedServices": [status("web", "False", "headless")]});
        let federated = service(
            "web-federated",
            &json!({}),
            &json!({labels::REMOTE_DISCOVERY: "web@west"}),
            "10.0.0.4",
        );
        let none = Endpoints::default();
        for (west, mirrors, expected) in [
            (
                &json!({}),
                &[federated.clone()][..],
                Some((Some(true), "Drained")),
            ),
            (&complains, &[federated], Some((Some(false), "Because"))),
            (&json!({}), &[], None),
        ] {
            let links = [link("east", &drained), link("west", west)];
            let rows = rows("here", &links, mirrors, &none, None);
            let row = rows.first();
            let row = row.map(|row| (row.healthy, row.reason.as_deref().unwrap_or_default()));
            assert_eq!(row, expected);
        }
    }

    #[test]
    fn rows_of_one_cluster_are_those_that_come_from_it() {
        let links: [LinkFacts; 0] = [];
        let mirrors = [
            service(
                "web-east",
                &json!({labels::CLUSTER_NAME: "east"}),
                &json!({}),
                "10.0.0.1",
            ),
            service(
                "web-west",
                &json!({labels::CLUSTER_NAME: "west"}),
                &json!({}),
                "10.0.0.2",
            ),
            service(
                "web-federated",
                &json!({}),
                &json!({labels::REMOTE_DISCOVERY: "web@east,web@west"}),
                "10.0.0.3",
            ),
        ];
        let rows = rows(
            "here",
            &links,
            &mirrors,
            &Endpoints::default(),
            Some("east"),
        );
        let names: Vec<_> = rows
            .iter()
            .filter_map(|row| row.service.as_deref())
            .collect();
        assert_eq!(names, ["web-east", "web-federated"]);
    }
}
