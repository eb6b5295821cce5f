//! Routes of the local cluster: our own, and those of others that apply to federated Services.

use std::time::Duration;

use kube::{Api, Client};
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::sleep,
};

use super::local_event::{LocalEvent, LocalHandler, Needed, Start};
use crate::{
    api::{
        map::Map,
        routes::{Route, RouteKind},
        wire::Wire,
    },
    client::requests::explain,
    controller::{
        metrics::ResourceKind,
        watch::{ConnectionStatus, Event, EventHandler, watch},
    },
    mirror::{FEDERATED_SUFFIX, is_our_route},
};

/// Time between two checks whether the API server serves a kind. People may install CRDs at any time.
const LOOK: Duration = Duration::from_secs(10);

/// When routes are watched.
#[derive(Clone)]
pub(super) enum When {
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
    when: &When,
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
    when: &When,
    tasks: &mut JoinSet<()>,
) {
    let what = format!("{} of {}", kind.plural(), kind.group());
    let routes = start.handler(&what, ResourceKind::Route, move |change| {
        LocalEvent::Routes(kind, Some(change))
    });
    let mut routes = RouteTeller(routes.cutting(|route| &mut route.metadata));
    let (client, outbox) = (client.clone(), start.outbox.clone());
    let watched = start.watched(Api::<Wire<Route>>::all_with(
        client.clone(),
        &kind.resource(),
    ));
    let when = when.clone();
    tasks.spawn(async move {
        if let When::Needed(needed) = when {
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
