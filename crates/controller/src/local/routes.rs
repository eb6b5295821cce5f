//! The watches of routes. They start as soon as the API server serves the kind.

use std::time::Duration;

use client::requests::{explain, served_version};
use kube::{Api, Client};
use mirror_core::api::{
    route::{Route, RouteKind},
    wire::Wire,
};
use tokio::{sync::watch as latest, time::sleep};

use super::{
    LocalHandler, Start,
    event::{LocalEvent, Needed},
};
use crate::{
    route_versions::RouteVersions,
    watch::{ConnectionStatus, EventHandler as _, Watched, watch},
};

/// Time between two checks whether the API server serves a kind. People may install CRDs at any time.
const LOOK: Duration = Duration::from_secs(10);

impl Start<'_> {
    /// Watches routes of a kind as soon as the API server serves it. If `waits`, once routes are needed. Then only the
    /// kinds that we write are watched, because without preferences there are no rights on the others.
    pub fn watch_routes(
        &self,
        kind: RouteKind,
        versions: RouteVersions,
        waits: Option<latest::Receiver<Needed>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let what = format!("{} of {}", kind.plural(), kind.group());
        let mut handler = self.handler(&what, move |change| LocalEvent::Routes(kind, Some(change)));
        let (client, outbox) = (self.client.clone(), self.outbox.clone());
        let (recovered, mut lost) = (self.recovered.clone(), handler.is_lost.subscribe());
        async move {
            if let Some(needed) = waits {
                Needed::wait(needed, |needed| needed.routes).await;
                if !kind.is_written() {
                    // If the engine has ended, the next event notices it.
                    let _ = outbox.send(LocalEvent::Routes(kind, None)).await;
                    std::future::pending::<()>().await;
                }
            }
            loop {
                let version = until_served(&client, kind, &mut handler).await;
                versions.set(kind, version);
                let api = Api::<Wire<Route>>::all_with(client.clone(), &kind.resource_in(version));
                tokio::select! {
                    () = watch(Watched::all(api).recovered(&recovered), &mut handler) => return,
                    () = until_gone(&client, kind, version, &mut lost) => {}
                }
            }
        }
    }
}

/// Waits until the API server serves a kind, and returns the API version to watch. Sends one event if it does not serve
/// the kind yet.
async fn until_served(
    client: &Client,
    kind: RouteKind,
    handler: &mut LocalHandler<Route>,
) -> &'static str {
    let mut is_reported = false;
    loop {
        match served_version(client, kind).await {
            Err(error) => {
                let lost = ConnectionStatus::Lost(explain(&error).into());
                handler.on_connection(lost).await;
            }
            Ok(version) => {
                handler.on_connection(ConnectionStatus::Alive).await;
                if let Some(version) = version {
                    return version;
                }
                if !std::mem::replace(&mut is_reported, true) {
                    // If the engine has ended, the next event notices it.
                    let _ = handler.outbox.send(LocalEvent::Routes(kind, None)).await;
                }
            }
        }
        sleep(LOOK).await;
    }
}

/// Waits until the API server no longer serves this API version of a kind: somebody has removed its CRD, or replaced it.
/// `lost`: whether the watch fails, because only then is there a reason to look.
async fn until_gone(
    client: &Client,
    kind: RouteKind,
    version: &str,
    lost: &mut latest::Receiver<bool>,
) {
    loop {
        if lost.wait_for(|is_lost| *is_lost).await.is_err() {
            std::future::pending::<()>().await; // the watch has ended
        }
        if let Ok(served) = served_version(client, kind).await
            && served != Some(version)
        {
            return;
        }
        sleep(LOOK).await;
    }
}
