//! Changes of the local cluster: updates the state, and enqueues the keys that they concern.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt as _, core::PartialObjectMeta};
use tokio::{
    sync::{mpsc, watch as latest},
    task::JoinSet,
    time::Instant,
};

use super::{
    absorb::absorb,
    link_state::LinkState,
    local_event::{LocalEvent, Start},
    routes::watch_routes,
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
        watch::{Event, EventHandler as _, Watched, watch},
    },
    mirror::{self, Config, Key, LeftOut, NamespacePhase, Namespaces, Store},
};

/// Starts the watches of the local cluster. They run until the set is dropped. If one ends earlier, the engine has
/// stopped receiving. The watch of the slices of members starts when `needed` becomes true.
pub(in crate::controller) fn watch_local(
    client: &Client,
    config: &Config,
    metrics: &Metrics,
    outbox: &mpsc::Sender<LocalEvent>,
    mut needed: latest::Receiver<bool>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let start = Start { outbox, metrics };
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
        Watched::all(Api::<PartialObjectMeta<Namespace>>::all(all())),
        namespaces,
    ));
    let mirrors = start.handler(
        "mirror Services",
        ResourceKind::Service,
        LocalEvent::Mirrors,
    );
    tasks.spawn(watch(
        Watched::all(Api::<Wire<Service>>::all(all())).labels(&mirrored),
        mirrors,
    ));
    let slices = start.handler(
        "mirror EndpointSlices",
        ResourceKind::EndpointSlice,
        LocalEvent::Slices,
    );
    tasks.spawn(watch(
        Watched::all(Api::<Wire<EndpointSlice>>::all(all())).labels(&mirrored),
        slices,
    ));
    let probes = start.handler("probe Services", ResourceKind::Service, LocalEvent::Probes);
    tasks.spawn(watch(
        Watched::all(Api::<Wire<Service>>::namespaced(all(), ours)).labels(&gateways),
        probes,
    ));
    let slices = start.handler(
        "probe EndpointSlices",
        ResourceKind::EndpointSlice,
        LocalEvent::ProbeSlices,
    );
    tasks.spawn(watch(
        Watched::all(Api::<Wire<EndpointSlice>>::namespaced(all(), ours))
            .labels(mirror::slices_of_probes()),
        slices,
    ));
    let links = start.handler("Links", ResourceKind::Link, LocalEvent::Links);
    tasks.spawn(watch(
        Watched::all(Api::<LinkObject>::namespaced(all(), ours)),
        links,
    ));
    let secrets = start.handler("Secrets", ResourceKind::Secret, LocalEvent::Secrets);
    let credentials = format!("type={}", l::CREDENTIALS_TYPE);
    tasks.spawn(watch(
        Watched::all(Api::<Secret>::namespaced(all(), ours)).fields(credentials),
        secrets,
    ));
    let mut members = start.handler(
        "federated members",
        ResourceKind::Service,
        LocalEvent::Members,
    );
    match config.local_members.as_ref().map(Selector::query) {
        Some(selector) => {
            tasks.spawn(watch(
                Watched::all(Api::<Wire<Service>>::all(all())).labels(&selector),
                members,
            ));
            // Kubernetes copies the labels of a Service to the slices that it creates for it.
            let slices = start.handler(
                "EndpointSlices of federated members",
                ResourceKind::EndpointSlice,
                LocalEvent::MemberSlices,
            );
            let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(all())).labels(selector);
            let begins = config.routes.is_some();
            tasks.spawn(async move {
                if begins {
                    // Requests go to local members only if these are available.
                } else if needed.wait_for(|needed| *needed).await.is_err() {
                    // The engine has ended, which is not a failure of this watch.
                    std::future::pending::<()>().await;
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
    if config.routes.is_some() {
        watch_routes(client, &start, &mut tasks);
    }
    tasks
}

impl Engine {
    /// Handles a change of the local cluster.
    pub(super) fn on_local_event(&mut self, local: LocalEvent) {
        let (was_complete, now) = (self.state.is_complete(), Instant::now());
        let state = &mut self.state;
        let mut keys: Vec<Key> = Vec::new();
        match local {
            LocalEvent::Mirrors(change) => {
                let deletes = matches!(&change, Event::Delete(gone) if !gone.is_headless());
                let touched = absorb(&mut state.mirrors, change, true);
                for service in &touched {
                    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
                    self.lookups.changed(namespace, name, now);
                }
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| state.keys_of_local(service)),
                );
                if deletes && !touched.is_empty() {
                    // The deleted Service had a ClusterIP.
                    keys.extend(self.addresses.release());
                }
            }
            LocalEvent::Probes(change) => {
                let touched = absorb(&mut state.probes, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| state.keys_of_local(service)),
                );
                self.follow_probes(&keys);
            }
            LocalEvent::Slices(change) => {
                let touched = absorb(&mut state.slices, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| state.keys_of_local_slice(slice)),
                );
            }
            LocalEvent::ProbeSlices(change) => {
                let touched = absorb(&mut state.probe_slices, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| state.keys_of_local_slice(slice)),
                );
            }
            LocalEvent::Members(change) => {
                let touched = absorb(&mut state.members, change, false);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| state.keys_of_member(service)),
                );
            }
            LocalEvent::MemberSlices(change) => {
                let was_listed = state.member_slices.is_some();
                let touched = absorb(&mut state.member_slices, change, false);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| state.keys_of_member_slice(slice)),
                );
                if !was_listed {
                    let members = state.members.iter().flat_map(Store::iter);
                    keys.extend(members.flat_map(|member| state.keys_of_member(member)));
                }
            }
            LocalEvent::Routes(kind, change) => keys.extend(self.on_routes_event(kind, change)),
            LocalEvent::Namespaces(change) => {
                for (name, namespace) in namespaces(&mut state.namespaces, change) {
                    let Some(concerned) = state.change_namespace(&name, namespace) else {
                        continue;
                    };
                    self.lookups.namespace_changed(&name, now);
                    keys.extend(concerned);
                }
            }
            LocalEvent::Links(change) => self.on_links_event(change),
            LocalEvent::Recovered => self.queue.hurry(),
            LocalEvent::Networks(networks) => {
                keys.extend(state.change_networks(networks));
                for state in self.links.values_mut() {
                    state.status.touch();
                }
            }
            LocalEvent::Secrets(change) => {
                let changed = match &change {
                    Event::List { .. } => None,
                    Event::Apply(secret) | Event::Delete(secret) => Some(secret.name_any()),
                };
                secrets(&mut self.secrets, change);
                let uses = |state: &LinkState| {
                    let own = &state.link.spec.cluster_credentials_secret;
                    changed.as_ref().is_none_or(|changed| changed == own)
                };
                let links = self.links.iter().filter(|(_, state)| uses(state));
                let links: Vec<String> = links.map(|(name, _)| name.clone()).collect();
                self.check_sessions(&links);
            }
        }
        match (was_complete, self.state.is_complete()) {
            (true, true) => self.enqueue_all(queue::LOCAL, keys),
            (false, true) => {
                self.enqueue_all(queue::LOCAL, self.state.keys());
                // Slices of federated Services stay for streams that started with them, so the slices of members are
                // needed too.
                if self.state.has_federated_slices() {
                    self.watch_members.send_replace(true);
                }
            }
            _ => {}
        }
    }
}

/// The namespaces in a change, with their new state.
fn namespaces(
    known: &mut Option<Namespaces>,
    change: Event<PartialObjectMeta<Namespace>>,
) -> BTreeMap<String, Option<mirror::Namespace>> {
    let now = |object: &PartialObjectMeta<Namespace>| {
        let phase = match object.metadata.deletion_timestamp {
            None => NamespacePhase::Active,
            Some(_) => NamespacePhase::Terminating,
        };
        let labels = object.labels().iter();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
        Some(mirror::Namespace::new(phase, labels))
    };
    match change {
        Event::List { objects, .. } => {
            let known = known.get_or_insert_default().names();
            let mut all: BTreeMap<_, _> = known.map(|name| (name.to_owned(), None)).collect();
            all.extend(
                objects
                    .iter()
                    .map(|object| (object.name_any(), now(object))),
            );
            all
        }
        Event::Apply(object) => [(object.name_any(), now(&object))].into(),
        Event::Delete(object) => [(object.name_any(), None)].into(),
    }
}

fn secrets(known: &mut Option<BTreeMap<String, Option<Arc<[u8]>>>>, change: Event<Secret>) {
    let kubeconfig = |secret: &Secret| {
        let data = secret.data.as_ref()?.get(l::KUBECONFIG_KEY)?;
        Some(Arc::from(data.0.as_slice()))
    };
    match change {
        Event::List { objects, .. } => {
            *known = Some(
                objects
                    .iter()
                    .map(|s| (s.name_any(), kubeconfig(s)))
                    .collect(),
            );
        }
        Event::Apply(secret) => {
            known
                .get_or_insert_default()
                .insert(secret.name_any(), kubeconfig(&secret));
        }
        Event::Delete(secret) => {
            known.get_or_insert_default().remove(&secret.name_any());
        }
    }
}
