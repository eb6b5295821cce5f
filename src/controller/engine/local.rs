//! Changes of the local cluster: updates the state, and enqueues the keys that they concern.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt as _, core::PartialObjectMeta};
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    absorb::{absorb, absorb_listed, absorb_routes, namespaces},
    link_state::LinkState,
    local_event::{LocalEvent, Needed, Required, Start},
    routes::{When, watch_routes},
    state::Engine,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        link::LinkObject,
        selector::Selector,
        wire::Wire,
    },
    controller::{
        metrics::{Metrics, ResourceKind},
        queue,
        watch::{Event, EventHandler as _, notice_recovery, watch},
    },
    mirror::{self, Config, Key, LeftOut},
};

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
        outbox,
        metrics,
        recovered: seen,
    };
    let (mirrored, gateways) = (
        format!("{}=true", l::MIRRORED_SERVICE),
        format!("{}=true", l::MIRRORED_GATEWAY),
    );
    let ours = config.namespace.as_str();
    let all = || client.clone();

    let namespaces = start.handler(
        "Namespaces",
        ResourceKind::Namespace,
        LocalEvent::Namespaces,
    );
    tasks.spawn(watch(
        start.watched(Api::<PartialObjectMeta<Namespace>>::all(all())),
        namespaces,
    ));
    let mirrors = start
        .handler(
            "mirror Services",
            ResourceKind::Service,
            LocalEvent::Mirrors,
        )
        .cutting(|object| &mut object.metadata);
    tasks.spawn(watch(
        start
            .watched(Api::<Wire<Service>>::all(all()))
            .labels(&mirrored),
        mirrors,
    ));
    let slices = start
        .handler(
            "mirror EndpointSlices",
            ResourceKind::EndpointSlice,
            LocalEvent::Slices,
        )
        .cutting(|object| &mut object.metadata);
    tasks.spawn(watch(
        start
            .watched(Api::<Wire<EndpointSlice>>::all(all()))
            .labels(&mirrored),
        slices,
    ));
    let probes = start
        .handler("probe Services", ResourceKind::Service, LocalEvent::Probes)
        .cutting(|object| &mut object.metadata);
    tasks.spawn(watch(
        start
            .watched(Api::<Wire<Service>>::namespaced(all(), ours))
            .labels(&gateways),
        probes,
    ));
    let slices = start
        .handler(
            "probe EndpointSlices",
            ResourceKind::EndpointSlice,
            LocalEvent::ProbeSlices,
        )
        .cutting(|object| &mut object.metadata);
    tasks.spawn(watch(
        start
            .watched(Api::<Wire<EndpointSlice>>::namespaced(all(), ours))
            .labels(mirror::slices_of_probes()),
        slices,
    ));
    let links = start.handler("Links", ResourceKind::Link, LocalEvent::Links);
    tasks.spawn(watch(
        start.watched(Api::<LinkObject>::namespaced(all(), ours)),
        links,
    ));
    let secrets = start.handler("Secrets", ResourceKind::Secret, LocalEvent::Secrets);
    let credentials = format!("type={}", l::CREDENTIALS_TYPE);
    tasks.spawn(watch(
        start
            .watched(Api::<Secret>::namespaced(all(), ours))
            .fields(credentials),
        secrets,
    ));
    let mut members = start
        .handler(
            "federated members",
            ResourceKind::Service,
            LocalEvent::Members,
        )
        .cutting(|object| &mut object.metadata);
    match config.local_members.as_ref().map(Selector::query) {
        Some(selector) => {
            tasks.spawn(watch(
                start
                    .watched(Api::<Wire<Service>>::all(all()))
                    .labels(&selector),
                members,
            ));
            // Kubernetes copies the labels of a Service to the slices that it creates for it.
            let slices = start
                .handler(
                    "EndpointSlices of federated members",
                    ResourceKind::EndpointSlice,
                    LocalEvent::MemberSlices,
                )
                .cutting(|object| &mut object.metadata);
            let watched = start
                .watched(Api::<Wire<EndpointSlice>>::all(all()))
                .labels(selector);
            let begins = config.routes.is_some();
            let needed = needed.clone();
            tasks.spawn(async move {
                // With preferences, requests go to local members only if these are available.
                if !begins {
                    Needed::wait(needed, |needed| needed.members).await;
                }
                watch(watched, slices).await;
            });
        }
        None => {
            tasks.spawn(async move {
                let none = Event::List {
                    objects: Vec::new(),
                    left_out: LeftOut::default(),
                };
                members.on_event(none).await;
                std::future::pending::<()>().await;
            });
        }
    }
    let when = match config.routes {
        Some(_) => When::Always,
        None => When::Needed(needed),
    };
    watch_routes(client, &start, &when, &mut tasks);
    tasks
}

impl Engine {
    /// Handles a change of the local cluster.
    pub(super) fn on_local_event(&mut self, event: LocalEvent) {
        let (lists, now) = (event.lists(), Instant::now());
        let mut keys: Vec<Key> = Vec::new();
        match (event, &mut self.state.local) {
            (LocalEvent::Links(change), _) => self.on_links_event(change),
            (LocalEvent::Secrets(change), _) => self.on_secrets_event(change),
            (LocalEvent::Room(room), _) => {
                let next = self.addresses.set_room(room);
                self.try_for_address(next);
            }
            (LocalEvent::Recovered, _) => {
                self.queue.hurry();
                self.denied.hurry(now);
            }
            (event, None) => self.first_lists.on_event(event),
            (LocalEvent::Mirrors(change), Some(local)) => {
                let deletes = matches!(&change, Event::Delete(gone) if !gone.is_headless());
                let touched = absorb_listed(&mut local.mirrors, change, true);
                for service in &touched {
                    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
                    self.lookups.changed(namespace, name, now);
                    keys.extend(self.state.keys_of_local(service));
                }
                if deletes && !touched.is_empty() {
                    // The deleted Service had a ClusterIP.
                    keys.extend(self.addresses.freed());
                }
            }
            (LocalEvent::Probes(change), Some(local)) => {
                for service in absorb_listed(&mut local.probes, change, true) {
                    keys.extend(self.state.keys_of_local(&service));
                }
                self.follow_probes(&keys);
            }
            (LocalEvent::Slices(change), Some(local)) => {
                for slice in absorb_listed(&mut local.slices, change, true) {
                    keys.extend(self.state.keys_of_local_slice(&slice));
                }
            }
            (LocalEvent::ProbeSlices(change), Some(local)) => {
                for slice in absorb_listed(&mut local.probe_slices, change, true) {
                    keys.extend(self.state.keys_of_local_slice(&slice));
                }
            }
            (LocalEvent::Members(change), Some(local)) => {
                for service in absorb_listed(&mut local.members, change, false) {
                    keys.extend(self.state.keys_of_member(&service));
                }
            }
            (LocalEvent::MemberSlices(change), Some(local)) => {
                let was_listed = local.member_slices.is_some();
                for slice in absorb(&mut local.member_slices, change, false) {
                    keys.extend(self.state.keys_of_member_slice(&slice));
                }
                if !was_listed {
                    keys.extend(self.state.keys_of_members());
                }
            }
            (LocalEvent::Routes(kind, change), Some(local)) => {
                let (touched, news) = absorb_routes(&mut local.routes, kind, change);
                for route in touched {
                    keys.extend(self.state.keys_of_route(&route));
                }
                if news {
                    keys.extend(self.state.keys_of_all_routed());
                }
            }
            (LocalEvent::Namespaces(change), Some(local)) => {
                for (name, namespace) in namespaces(&local.namespaces, change) {
                    let Some(concerned) = self.state.change_namespace(&name, namespace) else {
                        continue;
                    };
                    self.lookups.namespace_changed(&name, now);
                    keys.extend(concerned);
                }
            }
            (LocalEvent::Networks(networks), Some(_)) => {
                keys.extend(self.state.change_networks(networks));
                for state in self.links.values_mut() {
                    state.status.touch();
                }
            }
        }
        self.enqueue_all(queue::LOCAL, keys);
        let Some(kind) = lists else { return };
        let knew_mirrors = self.first_lists.with_mirrors().is_some();
        if let Some(local) = self.first_lists.on_listed(kind) {
            self.on_listed(local);
        }
        if kind == Required::Mirrors && !knew_mirrors {
            let all: Vec<String> = self.links.keys().cloned().collect();
            self.check_sessions(&all);
        }
    }

    fn on_secrets_event(&mut self, change: Event<Secret>) {
        let changed = match &change {
            Event::List { .. } => None,
            Event::Apply(secret) | Event::Delete(secret) => Some(secret.name_any()),
        };
        self.sessions.on_secrets_event(change);
        let uses = |state: &LinkState| {
            let own = &state.link.spec.cluster_credentials_secret;
            changed.as_ref().is_none_or(|changed| changed == own)
        };
        let links = self.links.iter().filter(|(_, state)| uses(state));
        let links: Vec<String> = links.map(|(name, _)| name.clone()).collect();
        self.check_sessions(&links);
    }
}
