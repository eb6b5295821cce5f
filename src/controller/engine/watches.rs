//! The watches of the local cluster. Routes are watched as soon as the API server serves their kind: our own, and those of
//! others that apply to federated Services.

use std::time::Duration;

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Secret},
};
use kube::{Api, Client, Resource, core::PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::sleep,
};

use super::local_event::{LocalEvent, LocalHandler, Needed, Start};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        map::Map,
        metadata::Metadata,
        route::{Route, RouteKind},
        wire::Wire,
    },
    client::requests::explain,
    controller::{
        metrics::{Metrics, ResourceKind},
        watch::{ConnectionStatus, Event, EventHandler, notice_recovery, watch},
    },
    mirror::{self, Config, FEDERATED_SUFFIX, LocalQueries, Omitted, Query, is_our_route},
};

/// Time between two checks whether the API server serves a kind. People may install CRDs at any time.
const LOOK: Duration = Duration::from_secs(10);

/// Starts the watches of the local cluster. They run until the set is dropped. If one ends earlier, the engine has
/// stopped receiving. Some watches start when `needed` says so.
pub(in crate::controller) fn watch_local(
    client: &Client,
    config: &Config,
    metrics: &Metrics,
    outbox: &mpsc::Sender<LocalEvent>,
    needed: latest::Receiver<Needed>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (recovered, seen) = latest::channel(0);
    tasks.spawn(notice_recovery(client.clone(), recovered));
    let start = Start {
        client,
        ours: &config.namespace,
        outbox,
        metrics,
        recovered: seen,
    };
    let namespaces = start.handler(
        "Namespaces",
        ResourceKind::Namespace,
        LocalEvent::Namespaces,
    );
    tasks.spawn(watch(
        start.watched(Api::<PartialObjectMeta<Namespace>>::all(client.clone())),
        namespaces,
    ));
    let LocalQueries {
        mirrors,
        gateways,
        gateway_slices,
        links,
        credentials,
    } = mirror::local_queries();
    tasks.spawn(start.services(&mirrors, "mirror Services", LocalEvent::Mirrors));
    tasks.spawn(start.slices(&mirrors, "mirror EndpointSlices", LocalEvent::Slices));
    tasks.spawn(start.services(&gateways, "Services of gateways", LocalEvent::Gateways));
    let what = "EndpointSlices of gateways";
    tasks.spawn(start.slices(&gateway_slices, what, LocalEvent::GatewaySlices));
    tasks.spawn(start.watch::<LinkObject, _>(
        &links,
        ("Links", ResourceKind::Link),
        LocalEvent::Links,
        None,
    ));
    tasks.spawn(start.watch::<Secret, _>(
        &credentials,
        ("Secrets", ResourceKind::Secret),
        LocalEvent::Secrets,
        None,
    ));
    start.watch_members(config, needed.clone(), &mut tasks);
    let when = match config.routes {
        Some(_) => WatchTime::Always,
        None => WatchTime::Needed(needed),
    };
    watch_routes(client, &start, &when, &mut tasks);
    tasks
}

impl Start<'_> {
    /// Watches what a query selects.
    fn watch<K, T>(
        &self,
        query: &Query,
        (what, kind): (&str, ResourceKind),
        wrap: fn(Event<T>) -> LocalEvent,
        metadata: Option<fn(&mut T) -> &mut Metadata>,
    ) -> impl Future<Output = ()> + Send + use<K, T>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
        T: From<K> + Send + Sync + 'static,
    {
        let api = if query.of_installation {
            Api::namespaced(self.client.clone(), self.ours)
        } else {
            Api::all(self.client.clone())
        };
        let mut watched = self.watched::<K>(api);
        (watched.labels, watched.fields) = (query.labels.clone(), query.fields.clone());
        let mut handler = self.handler(what, kind, wrap);
        handler.metadata = metadata;
        watch(watched, handler)
    }

    /// Watches Services, and only those annotations of them that are read or not too large.
    fn services(
        &self,
        query: &Query,
        what: &str,
        wrap: fn(Event<Service>) -> LocalEvent,
    ) -> impl Future<Output = ()> + Send + use<> {
        let what = (what, ResourceKind::Service);
        self.watch::<Wire<Service>, _>(query, what, wrap, Some(|object| &mut object.metadata))
    }

    /// Watches slices, and only those annotations of them that are read or not too large.
    fn slices(
        &self,
        query: &Query,
        what: &str,
        wrap: fn(Event<EndpointSlice>) -> LocalEvent,
    ) -> impl Future<Output = ()> + Send + use<> {
        let what = (what, ResourceKind::EndpointSlice);
        self.watch::<Wire<EndpointSlice>, _>(query, what, wrap, Some(|object| &mut object.metadata))
    }

    /// Watches the Services that are members of federated Services, and their slices as soon as they are needed.
    fn watch_members(
        &self,
        config: &Config,
        needed: latest::Receiver<Needed>,
        tasks: &mut JoinSet<()>,
    ) {
        let Some(selector) = &config.local_members else {
            let outbox = self.outbox.clone();
            tasks.spawn(async move {
                let none = Event::List {
                    objects: Vec::new(),
                    omitted: Omitted::default(),
                };
                // If the engine has ended, the next event notices it.
                let _ = outbox.send(LocalEvent::Members(none)).await;
                std::future::pending::<()>().await;
            });
            return;
        };
        let members = Query::of_labels(selector.query());
        tasks.spawn(self.services(&members, "federated members", LocalEvent::Members));
        // Kubernetes copies the labels of a Service to the slices that it creates for it.
        let slices = self.slices(
            &members,
            "EndpointSlices of federated members",
            LocalEvent::MemberSlices,
        );
        let begins = config.routes.is_some();
        tasks.spawn(async move {
            // With preferences, requests go to local members only if these are available.
            if !begins {
                Needed::wait(needed, |needed| needed.members).await;
            }
            slices.await;
        });
    }
}

/// When routes are watched.
#[derive(Clone)]
pub(super) enum WatchTime {
    /// Always, because preferences are enabled.
    Always,
    /// Once some of ours may be left from a time when preferences were enabled. Then only the kinds that we write are
    /// watched, because without preferences there are no rights on the others.
    Needed(latest::Receiver<Needed>),
}

/// Watches routes, each kind as soon as the API server serves it.
pub(super) fn watch_routes(
    client: &Client,
    start: &Start<'_>,
    when: &WatchTime,
    tasks: &mut JoinSet<()>,
) {
    for kind in RouteKind::ALL {
        watch_kind(client, kind, start, when, tasks);
    }
}

fn watch_kind(
    client: &Client,
    kind: RouteKind,
    start: &Start<'_>,
    when: &WatchTime,
    tasks: &mut JoinSet<()>,
) {
    let what = format!("{} of {}", kind.plural(), kind.group());
    let routes = start.handler(&what, ResourceKind::Route, move |change| {
        LocalEvent::Routes(kind, Some(change))
    });
    let mut routes = RouteTeller(routes.truncating(|route| &mut route.metadata));
    let (client, outbox) = (client.clone(), start.outbox.clone());
    let watched = start.watched(Api::<Wire<Route>>::all_with(
        client.clone(),
        &kind.resource(),
    ));
    let when = when.clone();
    tasks.spawn(async move {
        if let WatchTime::Needed(needed) = when {
            Needed::wait(needed, |needed| needed.routes).await;
            if !kind.is_written() {
                // If the engine has ended, the next event notices it.
                let _ = outbox.send(LocalEvent::Routes(kind, None)).await;
                std::future::pending::<()>().await;
            }
        }
        until_served(&client, kind, &outbox, &mut routes).await;
        watch(watched, routes).await;
    });
}

/// Waits until the API server serves a kind. Sends one event if it does not serve it yet.
async fn until_served(
    client: &Client,
    kind: RouteKind,
    outbox: &mpsc::Sender<LocalEvent>,
    routes: &mut RouteTeller,
) {
    let version = format!("{}/{}", kind.group(), kind.version());
    let mut is_told = false;
    loop {
        let is_served = match client.list_api_group_resources(&version).await {
            Ok(list) => {
                let mut known = list.resources.iter();
                known.any(|known| known.name == kind.plural())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => {
                routes
                    .on_connection(ConnectionStatus::Lost(explain(&error)))
                    .await;
                sleep(LOOK).await;
                continue;
            }
        };
        routes.on_connection(ConnectionStatus::Alive).await;
        if is_served {
            return;
        }
        if !std::mem::replace(&mut is_told, true) {
            // If the engine has ended, the next event notices it.
            let _ = outbox.send(LocalEvent::Routes(kind, None)).await;
        }
        sleep(LOOK).await;
    }
}

/// Handles events of routes, of those that concern federated Services.
struct RouteTeller(LocalHandler<Route>);

impl EventHandler<Route> for RouteTeller {
    async fn on_event(&mut self, change: Event<Route>) -> bool {
        self.0.on_event(change).await
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        self.0.on_connection(connection).await;
    }

    fn keeps(&self, route: &Route) -> bool {
        is_our_route(route)
            || route
                .services()
                .any(|(name, _)| name.ends_with(FEDERATED_SUFFIX))
    }

    fn trimmed(&self, mut route: Route) -> Route {
        if is_our_route(&route) {
            return self.0.trimmed(route);
        }
        // Of others' routes, only the objects that they apply to are needed.
        route.metadata.labels = Map::default();
        route.metadata.annotations = Map::default();
        route.without_rules()
    }
}
