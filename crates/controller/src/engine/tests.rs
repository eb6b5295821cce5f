//! The engine, with events as its only input. No test waits, so no task that the engine starts runs: nothing is written,
//! and no cluster is asked.

mod confirmed;
mod leaving;
mod routes;
mod series;
mod starting;

use std::sync::Arc;

use client::{ResponseLimits, timing};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Client, core::ObjectMeta};
use mirror_core::{
    api::{
        k8s::Service,
        labels as l,
        link::{Link, LinkObject},
    },
    mirror::{
        Key, Limits, Omitted,
        fixtures::{link, state},
        link_status::status,
    },
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch as latest},
};

use super::{Engine, Settings, link_state::LinkState};
use crate::{
    apply::Writer,
    lease::Fence,
    local::LocalEvent,
    metrics::Metrics,
    route_versions::RouteVersions,
    session::{HEARTBEAT_SOURCE, Session, SessionEvent, UsableCredentials},
    transport::Sockets,
    watch::{ConnectionStatus, Event},
};

/// Name of the Secret of all Links.
const CREDENTIALS: &str = "credentials";

pub fn client() -> Client {
    let never = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>(
        )
    });
    Client::new(never, "default")
}

/// A leader that has not listed anything.
fn starting() -> Engine {
    let settings = Settings {
        config: state().config,
        headless: false,
        max_in_flight: 1,
        limits: Limits {
            services: 2,
            host: 0,
            metadata: 1 << 14,
            bytes: 1 << 20,
        },
        bytes: 1 << 20,
        writes_each_second: 50,
        pages: ResponseLimits::of_pages(),
        probe_address: Some("127.0.0.1:1".to_owned()),
        transport: Arc::new(Sockets),
        sessions: Handle::current(),
    };
    let writer = Writer {
        client: client(),
        routes: RouteVersions::default(),
        fence: Fence::closed(),
        metrics: Metrics::new(""),
    };
    let (event_requests, _) = mpsc::channel(1);
    let (mut engine, ..) = Engine::new(settings, writer, latest::Sender::default(), event_requests);
    engine.on_elected(Fence::always());
    engine
}

/// A leader that has listed its cluster, in which there are credentials and no Links.
fn engine() -> Engine {
    let mut engine = starting();
    engine.state.local = state().local;
    engine.on_local_event(LocalEvent::Secrets(list(vec![secret()])));
    engine
}

fn list<T>(objects: Vec<T>) -> Event<T> {
    Event::List {
        objects: objects.into_iter().map(Arc::new).collect(),
        omitted: Omitted::default(),
    }
}

fn secret() -> Secret {
    let kubeconfig = ByteString(b"not read".to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some(CREDENTIALS.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([(l::KUBECONFIG_KEY.to_owned(), kubeconfig)].into()),
        ..Secret::default()
    }
}

/// A Link to a cluster, with credentials.
fn link_to(name: &str, cluster: &str) -> Link {
    let mut link = link(name);
    link.spec.target_cluster_name = cluster.to_owned();
    link.spec.cluster_credentials_secret = CREDENTIALS.to_owned();
    link
}

/// The credentials are usable, and the cluster answers.
fn connected() -> [SessionEvent; 2] {
    [
        SessionEvent::Usable(UsableCredentials {
            client: client(),
            expires: None,
            insecure: None,
        }),
        SessionEvent::ConnectionStatus(HEARTBEAT_SOURCE, ConnectionStatus::Alive),
    ]
}

impl Engine {
    fn apply(&mut self, link: &Link) {
        let link = link.clone();
        let unreadable = None;
        self.on_links_event(Event::Apply(Arc::new(LinkObject { link, unreadable })));
    }

    fn delete(&mut self, link: &Link) {
        let link = link.clone();
        let unreadable = None;
        self.on_links_event(Event::Delete(Arc::new(LinkObject { link, unreadable })));
    }

    fn known(&self, link: &str) -> &LinkState {
        &self.links[link]
    }

    fn pending(&self, link: &str) -> Option<&Session> {
        self.known(link).next.as_ref().map(|next| &next.session)
    }

    fn current(&self, link: &str) -> Option<&Session> {
        self.known(link)
            .current
            .as_ref()
            .map(|known| &known.session)
    }

    /// The keys of the first sync of a Link that have not been processed yet.
    fn outstanding(&self, link: &str) -> Vec<Key> {
        let keys = self.known(link).first_sync.iter().flatten();
        keys.cloned().collect()
    }

    /// Reports an event of the newest session of a Link.
    fn report(&mut self, link: &str, event: SessionEvent) {
        let current = || self.current(link);
        let id = self.pending(link).or_else(current).unwrap().id;
        self.on_session_event(link, id, event);
    }

    /// Reports that the newest session of a Link is connected, and has listed these objects in each of its watches.
    fn listed(&mut self, link: &str, services: &[Service]) {
        for event in connected() {
            self.report(link, event);
        }
        let spec = self.pending(link).unwrap().spec.clone();
        for index in 0..spec.services.len() {
            let services = list(services.to_vec());
            self.report(link, SessionEvent::Services(index, services));
        }
        for index in 0..spec.slices.len() {
            self.report(link, SessionEvent::Slices(index, list(Vec::new())));
        }
    }

    /// Records that all keys have been processed.
    fn settle_all(&mut self, keys: &[Key]) {
        for key in keys {
            self.processed(key, &[]);
        }
    }

    /// The status of a condition in the status that would be written now.
    fn condition(&self, link: &str, type_: &str) -> Option<(String, String)> {
        let state = self.known(link);
        let now = status(
            &state.link.status.clone().unwrap_or_default(),
            &self.inputs(link).unwrap(),
            &state.outcomes,
            timing::now(),
        );
        let mut found = now.conditions.into_iter();
        found
            .find(|c| c.type_ == type_)
            .map(|c| (c.status, c.reason))
    }

    fn ready(&self, link: &str) -> String {
        self.condition(link, "Ready").unwrap().1
    }

    /// The series of a cluster that its metrics have.
    fn series_of(&self, cluster: &str) -> Vec<String> {
        let labels = ["cluster", "target_cluster_name"].map(|l| format!("{l}=\"{cluster}\""));
        let text = self.metrics.render();
        let is_of = |line: &&str| labels.iter().any(|label| line.contains(label));
        let lines = text.lines().filter(is_of);
        lines.map(str::to_owned).collect()
    }
}
