//! Kubernetes Events about Services that are not mirrored: on the Link, and on the Service itself where its
//! cluster allows that. De-duplicated and rationed: they are a courtesy, the status is the record.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use tokio::{sync::mpsc, time::Instant};

use super::{apply::request, clock};
use crate::{
    api::{labels as l, link::LinkStatus},
    mirror::{Problem, Reason, RemoteRef},
};

/// Something to tell.
pub(super) struct News {
    /// Namespace and name of the Link.
    pub(super) link: (String, String),
    /// UID of the Link: without it `kubectl describe` does not find the Event.
    pub(super) link_uid: Option<String>,
    /// The Service in the target cluster, and its UID.
    pub(super) remote: RemoteRef,
    /// UID of that Service.
    pub(super) remote_uid: Option<String>,
    /// Client of the target cluster.
    pub(super) remote_client: Option<Client>,
    /// What is wrong.
    pub(super) problem: Problem,
}

/// The same is not told again within this time.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);
/// So many at once, and one more each second.
const BURST: u32 = 50;
/// So many things are remembered as told; beyond that all are forgotten.
const REMEMBERED: usize = 10_000;
/// Linkerd's reason.
const REASON: &str = "ServiceMirroringSkipped";

/// Whether a Link's status says it already: a restart is no news.
pub(super) fn is_recorded(status: &LinkStatus, remote: &RemoteRef, problem: &Problem) -> bool {
    let mut entries = status
        .mirror_services
        .iter()
        .chain(&status.federated_services);
    entries.any(|entry| {
        let (name, namespace) = (&entry.remote_ref.name, &entry.remote_ref.namespace);
        let mut conditions = entry.conditions.iter();
        (name, namespace) == (&remote.service, &remote.namespace)
            && conditions
                .any(|said| said.status == "False" && said.reason == problem.reason.as_str())
    })
}

/// Tells what comes in, until nobody sends any more.
pub(super) async fn run(local: Client, mut news: mpsc::Receiver<News>) {
    let mut told: HashMap<(RemoteRef, String), Instant> = HashMap::new();
    let (mut tokens, mut filled) = (BURST, Instant::now());
    while let Some(news) = news.recv().await {
        let now = Instant::now();
        let gained = u32::try_from(now.duration_since(filled).as_secs()).unwrap_or(BURST);
        if gained > 0 {
            (tokens, filled) = (tokens.saturating_add(gained).min(BURST), now);
        }
        let message = message(&news.problem);
        let key = (news.remote.clone(), message.clone());
        let fresh = told
            .get(&key)
            .is_none_or(|at| now.duration_since(*at) > REPEAT_AFTER);
        if !fresh || tokens == 0 {
            continue;
        }
        tokens -= 1;
        if told.len() >= REMEMBERED {
            told.clear();
        }
        told.insert(key, now);
        let RemoteRef {
            cluster,
            namespace,
            service,
        } = &news.remote;
        let on_link = ObjectReference {
            api_version: Some("multicluster.linkerd.io/v1alpha3".to_owned()),
            kind: Some("Link".to_owned()),
            namespace: Some(news.link.0.clone()),
            name: Some(news.link.1.clone()),
            uid: news.link_uid.clone(),
            ..ObjectReference::default()
        };
        tell(
            &local,
            on_link,
            cluster,
            format!("{namespace}/{service}: {message}"),
        )
        .await;
        if let Some(client) = &news.remote_client {
            let on_service = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Service".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(service.clone()),
                uid: news.remote_uid.clone(),
                ..ObjectReference::default()
            };
            tell(client, on_service, cluster, message).await;
        }
    }
}

/// The first two are Linkerd's words.
fn message(problem: &Problem) -> String {
    let why = match problem.reason {
        Reason::MissingNamespace => "namespace does not exist",
        _ => &problem.message,
    };
    format!("Skipped mirroring service: {why}")
}

async fn tell(client: &Client, about: ObjectReference, cluster: &str, message: String) {
    let namespace = about.namespace.clone().unwrap_or_default();
    let now = clock::now();
    let event = Event {
        metadata: ObjectMeta {
            generate_name: about.name.as_ref().map(|name| format!("{name}.")),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        message: Some(message),
        reason: Some(REASON.to_owned()),
        source: Some(EventSource {
            component: Some(format!("{}-{cluster}", l::EVENT_SOURCE_PREFIX)),
            host: None,
        }),
        type_: Some("Normal".to_owned()),
        involved_object: about,
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    if request(api.create(&PostParams::default(), &event))
        .await
        .is_err()
    {
        tracing::debug!(namespace, "an Event was not taken");
    }
}
