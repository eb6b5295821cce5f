//! All changes of Services and slices during a run, in order, as a watch reports them. Also the rules that a run must
//! not break: no other file has any.

use std::{collections::BTreeMap, time::Duration};

use control_plane::AuditEvent;
use futures::TryStreamExt as _;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use linkerd_mc::api::labels as l;
use serde_json::json;
use tokio::time::timeout;

use super::{
    scenarios::Keeps,
    stage::{BYSTANDER, Stage},
};
use crate::support::installation::{CONTROLLER, NAMESPACE};

/// Marks the end of the history: the name of a slice, and the value of an annotation of [`BYSTANDER`].
const MARK: &str = "the-end";

/// Start of the user names of controllers in a target cluster. The users are ServiceAccounts of the extension.
const ACCOUNTS: &str = "system:serviceaccount:linkerd-multicluster:";

/// A change of a Service.
#[derive(Clone, Debug)]
enum Event {
    Added(Box<Service>),
    Modified(Box<Service>),
    Deleted,
}

/// The changes of each Service of a stage, in order. For each slice of the controller, how often it was created and how
/// often it was deleted. The keys are names without the parts that differ from run to run.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    services: BTreeMap<String, Vec<Event>>,
    slices: BTreeMap<String, [usize; 2]>,
}

/// A point in the history of the stage.
pub(super) struct Point {
    version: String,
    /// Positions in the audit logs of both clusters.
    marks: [u64; 2],
}

/// The current point.
pub(super) async fn now(stage: &Stage) -> anyhow::Result<Point> {
    let list = services(stage).list(&ListParams::default()).await?;
    Ok(Point {
        version: list.metadata.resource_version.unwrap_or_default(),
        marks: [stage.source.audit_mark()?, stage.far.audit_mark()?],
    })
}

/// Requests since that point that the controller must not make, from the audit logs: writes to objects that are not
/// ours, and any write in the target cluster.
pub(super) fn forbidden_requests(stage: &Stage, since: &Point) -> anyhow::Result<Vec<String>> {
    let is_ours = |event: &AuditEvent| match event.resource.as_str() {
        "events" | "leases" => true,
        "links" => event.subresource == "status",
        _ if event.namespace == NAMESPACE => ["probe-", "api-"]
            .iter()
            .any(|begin| event.name.starts_with(begin)),
        // Names of slices of a federated Service begin with the name of the Service.
        _ => event.name.contains(&stage.cluster) || event.name.contains("-federated"),
    };
    let is_here = |event: &AuditEvent| [&*stage.namespace, NAMESPACE].contains(&&*event.namespace);
    let mut here = stage.source.audit_since(since.marks[0])?;
    here.retain(|event| {
        event.user == CONTROLLER && event.is_write() && is_here(event) && !is_ours(event)
    });
    let mut there = stage.far.audit_since(since.marks[1])?;
    there.retain(|event| {
        event.user.starts_with(ACCOUNTS) && !["get", "list", "watch"].contains(&&*event.verb)
    });
    let say = |event: &AuditEvent| format!("{} {}, which is not ours", event.verb, event.uri);
    Ok(here.iter().chain(&there).map(say).collect())
}

fn services(stage: &Stage) -> Api<Service> {
    Api::namespaced(stage.source.client(), &stage.namespace)
}

/// All writes to the stage since that point, to investigate a violation.
pub(super) fn account(stage: &Stage, since: &Point) -> anyhow::Result<String> {
    let mut audit = stage.source.audit_since(since.marks[0])?;
    audit.retain(|event| {
        event.namespace == stage.namespace && !["get", "list", "watch"].contains(&&*event.verb)
    });
    let say = |event: &AuditEvent| {
        let who = event.user.rsplit(':').next().unwrap_or_default();
        let AuditEvent {
            noted,
            verb,
            resource,
            name,
            code,
            ..
        } = event;
        format!("\n  {noted} {who}: {verb} {resource} {name}: {code}")
    };
    Ok(audit.iter().map(say).collect())
}

/// All changes since that point.
pub(super) async fn changes(stage: &Stage, since: &Point) -> anyhow::Result<Changes> {
    // This change marks the end of the history.
    let mark = json!({ "metadata": { "annotations": { "mark": MARK } } });
    services(stage)
        .patch(BYSTANDER, &PatchParams::default(), &Patch::Merge(mark))
        .await?;
    let mut changes = Changes {
        services: BTreeMap::new(),
        slices: BTreeMap::new(),
    };
    let normal = |name: &str| {
        name.replace(&stage.second(), "SECOND")
            .replace(&stage.cluster, "CLUSTER")
    };
    let parameters = WatchParams::default().disable_bookmarks();
    let api = services(stage);
    let mut events = std::pin::pin!(api.watch(&parameters, &since.version).await?);
    let limit = Duration::from_secs(20);
    while let Some(mut event) = timeout(limit, events.try_next()).await?? {
        if let WatchEvent::Added(service) | WatchEvent::Modified(service) = &mut event {
            let annotations = service.annotations_mut().values_mut();
            annotations.for_each(|value| *value = normal(value));
        }
        let (service, event) = match event {
            WatchEvent::Added(service) => (service.clone(), Event::Added(Box::new(service))),
            WatchEvent::Modified(service) => (service.clone(), Event::Modified(Box::new(service))),
            WatchEvent::Deleted(service) => (service, Event::Deleted),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => anyhow::bail!("{}", status.message),
        };
        if service.name_any() == BYSTANDER && service.annotations().contains_key("mark") {
            break;
        }
        let known = changes.services.entry(normal(&service.name_any()));
        known.or_default().push(event);
    }
    let api: Api<EndpointSlice> = Api::namespaced(stage.source.client(), &stage.namespace);
    let mark = json!({ "metadata": { "name": MARK }, "addressType": "IPv4", "endpoints": [] });
    api.create(&PostParams::default(), &serde_json::from_value(mark)?)
        .await?;
    let mut events = std::pin::pin!(api.watch(&parameters, &since.version).await?);
    while let Some(event) = timeout(limit, events.try_next()).await?? {
        let (slice, which) = match event {
            WatchEvent::Added(slice) => (slice, 0),
            WatchEvent::Deleted(slice) => (slice, 1),
            WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => anyhow::bail!("{}", status.message),
        };
        if slice.name_any() == MARK {
            break;
        }
        if slice.annotations().get(l::MANAGED_BY).map(String::as_str) == Some(l::MANAGER) {
            let known = changes.slices.entry(normal(&slice.name_any()));
            known.or_default()[which] += 1;
        }
    }
    Ok(changes)
}

impl Changes {
    /// Violations of the rules.
    pub(super) fn broken(&self, keeps: Keeps) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, events) in &self.services {
            let mut ip = None;
            for event in events {
                let service = match event {
                    Event::Deleted => {
                        ip = None;
                        if keeps.services.contains(&name.as_str()) {
                            broken.push(format!("{name} was deleted, and its Service is there"));
                        }
                        continue;
                    }
                    Event::Added(service) | Event::Modified(service) => service,
                };
                if !service.labels().contains_key(l::MIRRORED_SERVICE) {
                    broken.push(format!("{name} was changed, and it is not ours"));
                }
                let now = service.spec.as_ref().and_then(|s| s.cluster_ip.clone());
                if ip.is_some() && ip != now {
                    broken.push(format!("the ClusterIP of {name} changed"));
                }
                ip = now;
                for (key, member) in keeps.members {
                    let list = service.annotations().get(*key).map(String::as_str);
                    let mut list = list.unwrap_or_default().split(',');
                    let is_there = list.any(|one| one.trim().starts_with(member));
                    // The controller creates the Service with the current members. Later it must not remove one.
                    if name.ends_with("-federated")
                        && matches!(event, Event::Modified(_))
                        && !is_there
                    {
                        broken.push(format!("{name} lost the member {member}"));
                    }
                }
            }
        }
        broken
    }

    fn counts(&self) -> BTreeMap<String, [usize; 2]> {
        let mut counts = self.slices.clone();
        for (name, events) in &self.services {
            let made = events
                .iter()
                .filter(|e| matches!(e, Event::Added(_)))
                .count();
            let gone = events
                .iter()
                .filter(|e| matches!(e, Event::Deleted))
                .count();
            counts.insert(format!("Service {name}"), [made, gone]);
        }
        counts
    }

    /// Objects that were created or deleted more often than in the undisturbed run.
    pub(super) fn beyond(&self, calm: &Self) -> Vec<String> {
        let usual = calm.counts();
        let counts = self.counts().into_iter();
        counts
            .filter(|(name, count)| {
                let usual = usual.get(name).copied().unwrap_or_default();
                count[0] > usual[0] || count[1] > usual[1]
            })
            .map(|(name, [made, gone])| {
                format!(
                    "{name} was made {made} times and deleted {gone} times, a calm run: {:?}",
                    usual.get(&name)
                )
            })
            .collect()
    }
}
