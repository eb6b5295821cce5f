//! Kubernetes Events about invalid Links, and about Services that are not mirrored: on the Link, and on the Service
//! itself if its cluster permits that. Deduplicated and rate-limited. The complete record is the Link's status.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use tokio::{sync::mpsc, time::Instant};

use super::clock;
use crate::{
    api::{conditions::ready::INVALID_LINK, labels as l, link::LinkStatus, text::in_brief},
    client::requests::request,
    mirror::{Problem, Reason, RemoteRef},
};

/// Something to create an Event for.
pub(super) struct News {
    /// Namespace and name of the Link.
    pub(super) link: (String, String),
    /// UID of the Link. Without it, `kubectl describe` does not find the Event.
    pub(super) link_uid: Option<String>,
    /// The problem.
    pub(super) what: What,
}

/// A problem.
pub(super) enum What {
    /// The Link is invalid; one sentence says why.
    InvalidLink(String),
    /// A Service is not mirrored.
    Skipped {
        /// The Service in the target cluster.
        remote: RemoteRef,
        /// UID of that Service.
        uid: Option<String>,
        /// Client of the target cluster.
        client: Option<Client>,
        /// Why.
        problem: Problem,
    },
}

/// Minimum time between two Events about the same problem.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);
/// Maximum burst of Events. After that, one per second.
const BURST: u32 = 50;
/// Maximum number of problems that are remembered for deduplication. Beyond that, all are forgotten.
const REMEMBERED: usize = 10_000;
/// Linkerd's reason for Services that are not mirrored.
const SKIPPED: &str = "ServiceMirroringSkipped";

/// Whether a Link's status reports the problem already, so that a restart does not create Events again.
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

/// Creates Events until the sender is dropped.
pub(super) async fn run(local: Client, mut news: mpsc::Receiver<News>) {
    let mut told: HashMap<((String, String), String), Instant> = HashMap::new();
    let (mut tokens, mut filled) = (BURST, Instant::now());
    while let Some(news) = news.recv().await {
        let now = Instant::now();
        let gained = u32::try_from(now.duration_since(filled).as_secs()).unwrap_or(BURST);
        if gained > 0 {
            (tokens, filled) = (tokens.saturating_add(gained).min(BURST), now);
        }
        let message = match &news.what {
            What::InvalidLink(message) => message.clone(),
            What::Skipped {
                remote, problem, ..
            } => {
                let RemoteRef {
                    namespace, service, ..
                } = remote;
                format!("{namespace}/{service}: {}", message(problem))
            }
        };
        let key = (news.link.clone(), message.clone());
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
        let on_link = ObjectReference {
            api_version: Some("multicluster.linkerd.io/v1alpha3".to_owned()),
            kind: Some("Link".to_owned()),
            namespace: Some(news.link.0.clone()),
            name: Some(news.link.1.clone()),
            uid: news.link_uid.clone(),
            ..ObjectReference::default()
        };
        match news.what {
            What::InvalidLink(_) => {
                let told = Told {
                    source: &news.link.1,
                    type_: "Warning",
                    reason: INVALID_LINK,
                };
                tell(&local, on_link, told, message).await;
            }
            What::Skipped {
                remote,
                uid,
                client,
                problem,
            } => {
                let told = Told {
                    source: &remote.cluster,
                    type_: "Normal",
                    reason: SKIPPED,
                };
                tell(&local, on_link, told, message).await;
                let Some(client) = client else { continue };
                let on_service = ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Service".to_owned()),
                    namespace: Some(remote.namespace.clone()),
                    name: Some(remote.service.clone()),
                    uid,
                    ..ObjectReference::default()
                };
                tell(&client, on_service, told, self::message(&problem)).await;
            }
        }
    }
}

/// The fields of an Event other than its message.
#[derive(Clone, Copy)]
struct Told<'a> {
    /// Last part of the source's name: the target cluster, or the Link if it names none.
    source: &'a str,
    /// Kubernetes' type: `Normal` or `Warning`.
    type_: &'static str,
    reason: &'static str,
}

/// The message of a problem. The prefix, and the text for a missing namespace, are those of Linkerd's service mirror.
fn message(problem: &Problem) -> String {
    let why = match problem.reason {
        Reason::MissingNamespace => "namespace does not exist",
        _ => &problem.message,
    };
    format!("Skipped mirroring service: {why}")
}

async fn tell(client: &Client, about: ObjectReference, told: Told<'_>, message: String) {
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
        message: Some(in_brief(&message)),
        reason: Some(told.reason.to_owned()),
        source: Some(EventSource {
            component: Some(format!("{}-{}", l::EVENT_SOURCE_PREFIX, told.source)),
            host: None,
        }),
        type_: Some(told.type_.to_owned()),
        involved_object: about,
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    if request(api.create(&PostParams::default(), &event))
        .await
        .is_err()
    {
        tracing::debug!(namespace, "failed to create an Event");
    }
}
