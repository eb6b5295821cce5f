//! One connection to one target cluster: its client, its watches, its heartbeat.
//!
//! A session only sends events to the engine. A cluster that is dead, slow or hostile delays only its own session.

mod event;
mod heartbeat;

use std::{net::SocketAddr, pin::pin, sync::Arc};

use client::{ResponseLimits, credentials_expiry, insecure_tls};
use kube::{Api, Client};
use mirror_core::{
    api::{
        k8s::{EndpointConditions, EndpointSlice, Service},
        map::Map,
        names::MAX_SUBDOMAIN,
        wire::{StoredObject, Wire},
    },
    budget::Budget,
    mirror::{Indexed, Limit, Limits, Names},
};
use tokio::{runtime::Handle, sync::watch as latest};
use tokio_util::sync::CancellationToken;

pub use self::event::{HEARTBEAT_SOURCE, Outbox, SessionEvent, UsableCredentials};
use self::{
    event::{Reporter, Source},
    heartbeat::heartbeat,
};
use super::{
    transport::Transport,
    watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
};

/// The parameters of a session. A different spec needs a new session.
#[derive(Clone, PartialEq, Eq)]
pub struct Spec {
    /// Kubeconfig, from the Secret. Never printed.
    pub kubeconfig: Arc<[u8]>,
    /// Where to connect to, if not to the server of the kubeconfig: the Service that leads through the gateway.
    pub address: Option<SocketAddr>,
    /// Label selectors of Services, one watch each.
    pub services: Vec<String>,
    /// Label selectors of EndpointSlices of Services behind the gateway, one watch each.
    pub slices: Vec<String>,
    /// Objects beyond these limits are omitted.
    pub limits: Limits,
}

/// Resources that all sessions share.
#[derive(Clone)]
pub struct Shared {
    /// Limits on the size of API servers' responses.
    pub pages: ResponseLimits,
    /// Budget for the bytes of all objects that are kept.
    pub bytes: Budget,
    /// How target clusters are reached.
    pub transport: Arc<dyn Transport>,
    /// The runtime that they run in.
    pub runtime: Handle,
}

/// A running session.
pub struct Session {
    /// Distinguishes its events from those of an earlier session.
    pub id: u64,
    pub spec: Spec,
    /// Bytes of the objects that it keeps.
    pub bytes: Budget,
    stop: CancellationToken,
}

/// Maximum average number of EndpointSlices per Service in a watch.
const SLICES_PER_SERVICE: usize = 10;

/// The limit of the EndpointSlices in a watch.
pub fn limit_of_slices(limits: Limits) -> Limit {
    Limit::of(limits.services.saturating_mul(SLICES_PER_SERVICE))
}

impl Session {
    /// Starts a session. Its first event is [`SessionEvent::Usable`] or [`SessionEvent::Unusable`]. If there are more
    /// Services than the limit, those in `first` have priority.
    pub fn start(
        link: &str,
        id: u64,
        spec: Spec,
        first: Names,
        shared: &Shared,
        outbox: Outbox,
    ) -> Self {
        let stop = CancellationToken::new();
        let bytes = shared.bytes.part(spec.limits.bytes);
        let (own, shared) = (bytes.clone(), shared.clone());
        let runtime = shared.runtime.clone();
        let (link, work, token) = (link.to_owned(), spec.clone(), stop.clone());
        runtime.spawn(async move {
            let reporter = Reporter { link, id, outbox };
            token
                .run_until_cancelled(Box::pin(run(work, first, (shared, own), reporter)))
                .await;
        });
        Self {
            id,
            spec,
            bytes,
            stop,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes the client for the credentials, and reports whether they are usable; `None` if they are not.
async fn connect(spec: &Spec, shared: &Shared, reporter: &Reporter) -> Option<Client> {
    let pages = shared.pages.of_link();
    match shared
        .transport
        .client(&spec.kubeconfig, spec.address, pages)
        .await
    {
        Ok(client) => {
            let usable = UsableCredentials {
                client: client.clone(),
                expires: credentials_expiry(&spec.kubeconfig),
                insecure: insecure_tls(&spec.kubeconfig),
            };
            reporter.send(SessionEvent::Usable(usable)).await;
            Some(client)
        }
        Err(error) => {
            let unusable = SessionEvent::Unusable(error.to_string());
            reporter.send(unusable).await;
            None
        }
    }
}

async fn run(spec: Spec, first: Names, (shared, own): (Shared, Budget), reporter: Reporter) {
    let Some(client) = connect(&spec, &shared, &reporter).await else {
        return;
    };
    let (recovered, seen) = latest::channel(0);
    let limits = spec.limits;
    let services = spec.services.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<Service>>::all(client.clone()))
            .labels(selector)
            .limit(Limit::of(limits.services).within(own.clone()).first(&first))
            .recovered(&seen);
        let handler = Watching {
            index,
            report: SessionEvent::Services,
            service: |service: &Service| service.metadata.id(),
            limits,
            trim: Box::new(move |service: Service| service.trimmed(limits.metadata)),
            source: Source::new(index, &reporter),
        };
        watch(watched, handler)
    });
    let services = pin!(futures::future::join_all(services));
    let slices = spec.slices.iter().enumerate().map(|(index, selector)| {
        let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(client.clone()))
            .labels(selector)
            .limit(limit_of_slices(limits).within(own.clone()))
            .recovered(&seen);
        let handler = Watching {
            index,
            report: SessionEvent::Slices,
            service: service_of,
            limits,
            trim: Box::new(bare),
            source: Source::new(spec.services.len() + index, &reporter),
        };
        watch(watched, handler)
    });
    let slices = pin!(futures::future::join_all(slices));
    let beat = pin!(heartbeat(client.clone(), recovered, &reporter));
    tokio::join!(services, slices, beat);
}

/// Sends the changes of a watch as events of the session.
struct Watching<T> {
    index: usize,
    report: fn(usize, Event<T>) -> SessionEvent,
    service: fn(&T) -> (String, String),
    limits: Limits,
    /// Removes what is not kept of an object.
    trim: Box<dyn Fn(T) -> T + Send + Sync>,
    source: Source,
}

impl<T: StoredObject + Indexed + Send + Sync> EventHandler<T> for Watching<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.source
            .reporter
            .send((self.report)(self.index, change))
            .await
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        self.source.on_connection(connection).await;
    }

    /// Objects are omitted, and known by name, however many bytes the name has. So none is kept that cannot be in
    /// Kubernetes.
    fn keeps(&self, object: &T) -> bool {
        let is_possible = |group: &str| group.len() <= MAX_SUBDOMAIN;
        object.metadata().has_possible_ids() && object.group().is_none_or(is_possible)
    }

    fn trimmed(&self, object: T) -> T {
        (self.trim)(object)
    }

    fn cost(&self, object: &T) -> usize {
        self.limits.cost(object)
    }

    fn service(&self, object: &T) -> (String, String) {
        (self.service)(object)
    }
}

/// A slice without what is not needed of slices in target clusters: annotations, the Pods of endpoints with their nodes
/// and zones, and conditions other than `ready`.
pub fn bare(mut slice: EndpointSlice) -> EndpointSlice {
    slice.metadata.annotations = Map::default();
    for endpoint in &mut slice.endpoints {
        endpoint.pod = None;
        let EndpointConditions { ready, .. } = endpoint.conditions;
        endpoint.conditions = EndpointConditions {
            ready,
            ..EndpointConditions::default()
        };
    }
    slice
}

/// Namespace and name of the Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> (String, String) {
    let service = slice.group().unwrap_or_default();
    (slice.metadata.namespace().to_owned(), service.to_owned())
}

#[cfg(test)]
mod tests {
    use mirror_core::api::{labels as l, metadata::Metadata};
    use tokio::sync::mpsc;

    use super::*;

    /// A handler for slices.
    fn handler() -> Watching<EndpointSlice> {
        let (outbox, _) = mpsc::channel(1);
        let reporter = Reporter {
            link: "east".to_owned(),
            id: 1,
            outbox,
        };
        Watching {
            index: 0,
            report: SessionEvent::Slices,
            service: service_of,
            limits: Limits {
                services: 1,
                metadata: 1,
                bytes: 1,
                host: 0,
            },
            trim: Box::new(bare),
            source: Source::new(0, &reporter),
        }
    }

    #[test]
    fn objects_with_names_that_kubernetes_does_not_allow_are_not_kept() {
        let handler = handler();
        let keeps = |namespace: usize, name: usize, uid: usize, service: usize| {
            let text = |length: usize| "x".repeat(length);
            handler.keeps(&EndpointSlice {
                metadata: Metadata {
                    namespace: Some(text(namespace).into()),
                    name: Some(text(name).into()),
                    uid: Some(text(uid).into()),
                    labels: Map::from([(l::SLICE_SERVICE, text(service).as_str())]),
                    ..Metadata::default()
                },
                ..EndpointSlice::default()
            })
        };
        assert!(keeps(253, 253, 128, 253));
        for longer in [
            keeps(254, 1, 1, 1),
            keeps(1, 254, 1, 1),
            keeps(1, 1, 129, 1),
            keeps(1, 1, 1, 254),
        ] {
            assert!(!longer);
        }
    }
}
