//! Kubernetes Events about invalid Links, and about Services that are not mirrored: on the Link, and on the Service
//! itself if its cluster permits that. Deduplicated and rate-limited for each Link, so that one cannot silence the others.
//! The complete record is the Link's status.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use client::{
    requests::request,
    timing::{self, TokenBucket},
};
use mirror_core::{
    api::{conditions::ready::INVALID_LINK, labels as l, link::LinkStatus, text::in_brief},
    mirror::{Problem, Reason, RemoteRef},
};

/// Something to create an Event for.
pub struct EventRequest {
    /// Namespace and name of the Link.
    pub link: (String, String),
    /// UID of the Link. Without it, `kubectl describe` does not find the Event.
    pub link_uid: Option<String>,
    pub kind: EventKind,
}

/// The problem that an Event reports.
pub enum EventKind {
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
        problem: Problem,
    },
}

/// Minimum time between two Events about the same problem.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);
/// Maximum burst of Events about a Link.
const BURST: f64 = 20.0;
/// Events per second about a Link after that: one in five seconds.
const PER_SECOND: f64 = 0.2;
/// Maximum number of problems of a Link that are remembered for deduplication, and of Links. Beyond that, all are
/// forgotten.
const REMEMBERED: usize = 1_000;
/// Linkerd's reason for Services that are not mirrored.
const SKIPPED: &str = "ServiceMirroringSkipped";

/// Whether a Link's status reports the problem already, so that a restart does not create Events again.
pub fn is_recorded(status: &LinkStatus, remote: &RemoteRef, problem: &Problem) -> bool {
    let mut entries = status
        .mirror_services
        .iter()
        .chain(&status.federated_services);
    entries.any(|entry| {
        let (name, namespace) = (&entry.remote_ref.name, &entry.remote_ref.namespace);
        let mut conditions = entry.conditions.iter();
        (name, namespace) == (&remote.service, &remote.namespace)
            && conditions.any(|reported| {
                reported.status == "False" && reported.reason == problem.reason.as_str()
            })
    })
}

/// The problems of a Link that Events were created for.
struct EventHistory {
    /// When each problem was reported, by its message.
    problems: HashMap<String, Instant>,
    events: TokenBucket,
    /// The last Event in the target cluster.
    on_service: Option<JoinHandle<()>>,
}

impl EventHistory {
    fn nothing(now: Instant) -> Self {
        Self {
            problems: HashMap::new(),
            events: TokenBucket::new(BURST, PER_SECOND, now),
            on_service: None,
        }
    }

    /// Whether a problem may be reported now. It then counts as reported.
    fn permits(&mut self, message: &str, now: Instant) -> bool {
        let at = self.problems.get(message);
        let is_new = at.is_none_or(|at| now.duration_since(*at) > REPEAT_AFTER);
        if !is_new || !self.events.try_take(now) {
            return false;
        }
        if self.problems.len() >= REMEMBERED {
            self.problems.clear();
        }
        self.problems.insert(message.to_owned(), now);
        true
    }

    /// Creates an Event in the target cluster without waiting for it, unless the last one is still under way: a cluster
    /// that does not answer must not delay Events about others.
    fn on_service(&mut self, client: Client, event: Event) {
        if self.on_service.as_ref().is_none_or(JoinHandle::is_finished) {
            self.on_service = Some(tokio::spawn(async move { create(&client, event).await }));
        }
    }
}

/// Creates Events until the sender is dropped.
pub async fn run(local: Client, mut requests: mpsc::Receiver<EventRequest>) {
    let mut reported: HashMap<(String, String), EventHistory> = HashMap::new();
    while let Some(request) = requests.recv().await {
        let now = Instant::now();
        if reported.len() >= REMEMBERED && !reported.contains_key(&request.link) {
            reported.clear();
        }
        let reported = reported
            .entry(request.link.clone())
            .or_insert_with(|| EventHistory::nothing(now));
        let (namespace, name) = (request.link.0.clone(), request.link.1.clone());
        let link = ("multicluster.linkerd.io/v1alpha3", "Link");
        let on_link = reference(link, namespace, name, request.link_uid);
        match request.kind {
            EventKind::InvalidLink(message) => {
                if !reported.permits(&message, now) {
                    continue;
                }
                let text = EventText {
                    source: &request.link.1,
                    type_: "Warning",
                    reason: INVALID_LINK,
                };
                create(&local, event(on_link, text, &message)).await;
            }
            EventKind::Skipped {
                remote,
                uid,
                client,
                problem,
            } => {
                let why = message(&problem);
                let on_links = format!("{}/{}: {why}", remote.namespace, remote.service);
                if !reported.permits(&on_links, now) {
                    continue;
                }
                let text = EventText {
                    source: &remote.cluster,
                    type_: "Normal",
                    reason: SKIPPED,
                };
                create(&local, event(on_link, text, &on_links)).await;
                let Some(client) = client else { continue };
                let (namespace, name) = (remote.namespace.clone(), remote.service.clone());
                let on_service = reference(("v1", "Service"), namespace, name, uid);
                reported.on_service(client, event(on_service, text, &why));
            }
        }
    }
}

/// A reference to an object, with its API version and kind.
fn reference(
    (version, kind): (&str, &str),
    namespace: String,
    name: String,
    uid: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace),
        name: Some(name),
        uid,
        ..ObjectReference::default()
    }
}

/// The fields of an Event other than its message.
#[derive(Clone, Copy)]
struct EventText<'a> {
    /// Last part of the source's name: the target cluster, or for an invalid Link the Link.
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

fn event(about: ObjectReference, text: EventText<'_>, message: &str) -> Event {
    let now = timing::now();
    Event {
        metadata: ObjectMeta {
            generate_name: about.name.as_ref().map(|name| format!("{name}.")),
            namespace: about.namespace.clone(),
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        message: Some(in_brief(message)),
        reason: Some(text.reason.to_owned()),
        source: Some(EventSource {
            component: Some(format!("{}-{}", l::EVENT_SOURCE_PREFIX, text.source)),
            host: None,
        }),
        type_: Some(text.type_.to_owned()),
        involved_object: about,
        ..Event::default()
    }
}

async fn create(client: &Client, event: Event) {
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if request(api.create(&PostParams::default(), &event))
        .await
        .is_err()
    {
        tracing::debug!(namespace, "failed to create an Event");
    }
}
