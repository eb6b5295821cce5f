//! Reads what the time line of a cluster needs besides what other readers know: Events, and objects of which only the times
//! count. All in one round of requests side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use client::{
    Cluster, ReadError,
    requests::{PAGE, list_all, list_some, within},
};
use futures::{
    FutureExt as _,
    future::{LocalBoxFuture, join_all},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod, Secret},
};
use kube::{
    Api, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    core::NamespaceResourceScope,
};
use mirror_core::api::metadata::ResourceId;
use serde::{Serialize, de::DeserializeOwned};

use super::{collect_full::of_extension, snapshot::Known, workloads::IDENTITY_PODS};
use crate::timeline::{EventNames, Happened, Timeline, history, of_events};

/// Maximum number of Events of a namespace.
const EVENTS: usize = 5_000;
/// Maximum number of Secrets.
const SECRETS: usize = 8;
/// The kinds that decide who may connect to a Pod: version, name and plural.
const POLICIES: [(&str, &str, &str); 2] = [
    ("v1beta3", "Server", "servers"),
    ("v1alpha1", "AuthorizationPolicy", "authorizationpolicies"),
];

/// What is read of a cluster for its time line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The namespaces whose Events are read, and the names of the objects that count.
    pub events: BTreeMap<String, EventNames>,
    /// Secrets, of which only the metadata is read.
    pub secrets: BTreeSet<ResourceId>,
    /// Namespaces whose policies are read.
    pub policies: BTreeSet<String>,
    /// Namespaces of which the Pods and Deployments of the extension are read.
    pub extension: BTreeSet<String>,
}

/// What is read, in words, and how.
type HistoryRead<'a> = (String, LocalBoxFuture<'a, Known<Vec<Happened>>>);

impl HistoryQuery {
    /// Adds Events of objects with these names.
    pub fn events_of<'n>(&mut self, namespace: &str, names: impl IntoIterator<Item = &'n str>) {
        let all = self.events.entry(namespace.to_owned()).or_default();
        all.extend(names.into_iter().map(str::to_owned));
    }
}

/// What a cluster says, in a time line in which it has this name. Each request ends within the deadline.
pub async fn read_history(name: &str, cluster: &Cluster, query: &HistoryQuery) -> Timeline {
    let reads = reads(cluster, query).into_iter();
    let reads = reads.map(async |(what, read)| (what, within(cluster.deadline, read).await));
    let (mut happened, mut unseen) = (Vec::new(), Vec::new());
    for (what, read) in join_all(reads).await {
        match read {
            Ok(found) => happened.extend(found),
            Err::<_, ReadError>(why) => unseen.push(format!("{what} of {name}: {why}")),
        }
    }
    let more = query.secrets.len().saturating_sub(SECRETS);
    if more > 0 {
        unseen.push(format!("{more} more Secrets of {name}: {SECRETS} are read"));
    }
    let mut timeline = Timeline::default();
    timeline.add(name, happened, &unseen);
    timeline
}

fn reads<'a>(cluster: &'a Cluster, query: &'a HistoryQuery) -> Vec<HistoryRead<'a>> {
    let linkerd = &cluster.linkerd_namespace;
    let identity = objects::<Pod>(cluster, linkerd, IDENTITY_PODS.to_owned());
    let mut reads = vec![(
        "Pods of linkerd-identity".to_owned(),
        identity.boxed_local(),
    )];
    for (namespace, names) in &query.events {
        let what = format!("Events in namespace {namespace}");
        reads.push((what, events(cluster, namespace, names).boxed_local()));
    }
    for id in query.secrets.iter().take(SECRETS) {
        reads.push((format!("Secret {id}"), secret(cluster, id).boxed_local()));
    }
    for namespace in &query.policies {
        for (version, kind, plural) in POLICIES {
            let gvk = GroupVersionKind::gvk("policy.linkerd.io", version, kind);
            let kind = ApiResource::from_gvk_with_plural(&gvk, plural);
            let what = format!("{plural} in namespace {namespace}");
            reads.push((what, policies(cluster, namespace, kind).boxed_local()));
        }
    }
    for namespace in &query.extension {
        let pods = objects::<Pod>(cluster, namespace, of_extension());
        reads.push((format!("Pods in namespace {namespace}"), pods.boxed_local()));
        let deployments = objects::<Deployment>(cluster, namespace, of_extension());
        let what = format!("Deployments in namespace {namespace}");
        reads.push((what, deployments.boxed_local()));
    }
    reads
}

async fn events(cluster: &Cluster, namespace: &str, names: &EventNames) -> Known<Vec<Happened>> {
    let api: Api<Event> = cluster.api(namespace);
    let (events, is_cut) = list_some(&api, &ListParams::default(), EVENTS).await?;
    if is_cut {
        return Err(format!("there are more than {EVENTS}").into());
    }
    Ok(of_events(&events, names))
}

async fn secret(cluster: &Cluster, id: &ResourceId) -> Known<Vec<Happened>> {
    let api: Api<Secret> = cluster.api(&id.namespace);
    let found = api.get_metadata_opt(&id.name).await?;
    Ok(found
        .iter()
        .flat_map(|found| history("Secret", found))
        .collect())
}

async fn policies(cluster: &Cluster, namespace: &str, kind: ApiResource) -> Known<Vec<Happened>> {
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &kind);
    match api.list_metadata(&ListParams::default().limit(PAGE)).await {
        // The API server does not serve the kind.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        found => Ok(found?
            .iter()
            .flat_map(|found| history(&kind.kind, found))
            .collect()),
    }
}

async fn objects<K>(cluster: &Cluster, namespace: &str, selector: String) -> Known<Vec<Happened>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let found = list_all(&cluster.api::<K>(namespace), &selector).await?;
    let kind = K::kind(&());
    Ok(found
        .iter()
        .flat_map(|found| history(&kind, found))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use client::of_test_server;
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use serde_json::json;

    use super::*;

    /// What is not permitted is said, and hides nothing else. Each list is asked for once.
    #[tokio::test]
    async fn what_may_not_be_read_is_unseen_and_the_rest_is_told() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = asked.clone();
        let client = of_test_server(move |request: http::Request<_>| {
            let path = request.uri().path().to_owned();
            let item = json!({
                "metadata": { "namespace": "shop", "name": "x", "creationTimestamp": "2026-11-26T00:00:00Z" },
                "involvedObject": { "kind": "Pod", "namespace": "shop", "name": "web-0" },
                "type": "Warning", "reason": "BackOff", "message": "why", "lastTimestamp": "2026-11-26T01:00:00Z",
            });
            let (code, answer) = if path.contains("/linkerd/") {
                let refused = json!({ "kind": "Status", "status": "Failure", "message": "forbidden", "code": 403 });
                (403, refused)
            } else if path.contains("/servers") {
                let absent = json!({ "kind": "Status", "status": "Failure", "message": "none", "code": 404 });
                (404, absent)
            } else if path.contains("/secrets/") {
                (200, item)
            } else {
                (200, json!({ "metadata": {}, "items": [item] }))
            };
            seen.lock().unwrap().push(path);
            let frame = Ok(Frame::data(Bytes::from(answer.to_string())));
            let body = StreamBody::new(stream::iter([frame]).boxed());
            let answered = http::Response::builder().status(code).body(body);
            async move { Ok(answered?) }
        });
        let mut cluster = Cluster::of_test_server(client);
        cluster.linkerd_namespace = "linkerd".to_owned();
        let mut query = HistoryQuery {
            secrets: [ResourceId::new("mc", "x")].into(),
            policies: ["shop".to_owned()].into(),
            extension: ["mc".to_owned()].into(),
            ..HistoryQuery::default()
        };
        query.events_of("shop", ["web"]);
        query.events_of("shop", ["client"]);
        query.events_of("linkerd", [""]);
        let read = read_history("east", &cluster, &query).await;
        let told: Vec<_> = read
            .happened
            .iter()
            .map(|one| format!("{} {}", one.about, one.what))
            .collect();
        assert_eq!(
            told,
            [
                "Pod shop/web-0 BackOff: why",
                "Secret shop/x created",
                "Pod shop/x created",
                "Deployment shop/x created",
                "AuthorizationPolicy shop/x created",
            ]
        );
        assert_eq!(
            read.unseen,
            [
                "Events in namespace linkerd of east: forbidden",
                "Pods of linkerd-identity of east: forbidden",
            ]
        );
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 8, "{asked:?}");
    }
}
