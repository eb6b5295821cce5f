//! Changes of the local cluster: into the world, and what they concern into the queue.

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
    routes::watch_routes,
    state::Engine,
    teller::{Local, Start},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        link::LinkObject,
        wire::Wire,
    },
    controller::{
        metrics::{Kind, Metrics},
        queue,
        watch::{Change, Listener as _, Watched, watch},
    },
    mirror::{self, Config, Key, LeftOut, NamespacePhase, Namespaces, Objects, Selector},
};

/// Starts the watches of the local cluster. They run until the set is dropped; that one ends means that nobody
/// listens. That of the slices of members begins when `needed` says so.
pub(in crate::controller) fn watch_local(
    client: &Client,
    config: &Config,
    metrics: &Metrics,
    outbox: &mpsc::Sender<Local>,
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

    let namespaces = start.teller("Namespaces", Kind::Namespace, Local::Namespaces);
    tasks.spawn(watch(
        Watched::all(Api::<PartialObjectMeta<Namespace>>::all(all())),
        namespaces,
    ));
    let mirrors = start.teller("mirror Services", Kind::Service, Local::Mirrors);
    tasks.spawn(watch(
        Watched::all(Api::<Wire<Service>>::all(all())).labels(&mirrored),
        mirrors,
    ));
    let slices = start.teller("mirror EndpointSlices", Kind::EndpointSlice, Local::Slices);
    tasks.spawn(watch(
        Watched::all(Api::<Wire<EndpointSlice>>::all(all())).labels(&mirrored),
        slices,
    ));
    let probes = start.teller("probe Services", Kind::Service, Local::Probes);
    tasks.spawn(watch(
        Watched::all(Api::<Wire<Service>>::namespaced(all(), ours)).labels(&gateways),
        probes,
    ));
    let slices = start.teller(
        "probe EndpointSlices",
        Kind::EndpointSlice,
        Local::ProbeSlices,
    );
    tasks.spawn(watch(
        Watched::all(Api::<Wire<EndpointSlice>>::namespaced(all(), ours))
            .labels(mirror::slices_of_probes()),
        slices,
    ));
    let links = start.teller("Links", Kind::Link, Local::Links);
    tasks.spawn(watch(
        Watched::all(Api::<LinkObject>::namespaced(all(), ours)),
        links,
    ));
    let secrets = start.teller("Secrets", Kind::Secret, Local::Secrets);
    let credentials = format!("type={}", l::CREDENTIALS_TYPE);
    tasks.spawn(watch(
        Watched::all(Api::<Secret>::namespaced(all(), ours)).fields(credentials),
        secrets,
    ));
    let mut members = start.teller("federated members", Kind::Service, Local::Members);
    match config.local_members.as_ref().map(Selector::query) {
        Some(selector) => {
            tasks.spawn(watch(
                Watched::all(Api::<Wire<Service>>::all(all())).labels(&selector),
                members,
            ));
            // Kubernetes copies the labels of a Service to the slices that it makes for it.
            let slices = start.teller(
                "EndpointSlices of federated members",
                Kind::EndpointSlice,
                Local::MemberSlices,
            );
            let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(all())).labels(selector);
            let begins = config.routes.is_some();
            tasks.spawn(async move {
                if begins {
                    // Whether local members can take requests decides where those go.
                } else if needed.wait_for(|needed| *needed).await.is_err() {
                    // The engine has ended, which is no failure of this watch.
                    std::future::pending::<()>().await;
                }
                watch(watched, slices).await;
            });
        }
        None => {
            tasks.spawn(async move {
                let none = Change::List {
                    objects: Vec::new(),
                    left_out: LeftOut::default(),
                };
                members.tell(none).await;
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
    /// Takes in a change of the local cluster.
    pub(super) fn local(&mut self, local: Local) {
        let (was_complete, now) = (self.world.is_complete(), Instant::now());
        let world = &mut self.world;
        let mut keys: Vec<Key> = Vec::new();
        match local {
            Local::Mirrors(change) => {
                let deletes = matches!(&change, Change::Delete(gone) if !gone.is_headless());
                let touched = absorb(&mut world.mirrors, change, true);
                for service in &touched {
                    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
                    self.lookups.changed(namespace, name, now);
                }
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| world.keys_of_local(service)),
                );
                if deletes && !touched.is_empty() {
                    // It had an address.
                    keys.extend(self.addresses.release());
                }
            }
            Local::Probes(change) => {
                let touched = absorb(&mut world.probes, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| world.keys_of_local(service)),
                );
                self.follow_probes(&keys);
            }
            Local::Slices(change) => {
                let touched = absorb(&mut world.slices, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| world.keys_of_local_slice(slice)),
                );
            }
            Local::ProbeSlices(change) => {
                let touched = absorb(&mut world.probe_slices, change, true);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| world.keys_of_local_slice(slice)),
                );
            }
            Local::Members(change) => {
                let touched = absorb(&mut world.members, change, false);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|service| world.keys_of_member(service)),
                );
            }
            Local::MemberSlices(change) => {
                let was_listed = world.member_slices.is_some();
                let touched = absorb(&mut world.member_slices, change, false);
                keys.extend(
                    touched
                        .iter()
                        .flat_map(|slice| world.keys_of_member_slice(slice)),
                );
                if !was_listed {
                    let members = world.members.iter().flat_map(Objects::iter);
                    keys.extend(members.flat_map(|member| world.keys_of_member(member)));
                }
            }
            Local::Routes(kind, change) => keys.extend(self.routes_changed(kind, change)),
            Local::Namespaces(change) => {
                for (name, namespace) in namespaces(&mut world.namespaces, change) {
                    let Some(concerned) = world.change_namespace(&name, namespace) else {
                        continue;
                    };
                    self.lookups.namespace_changed(&name, now);
                    keys.extend(concerned);
                }
            }
            Local::Links(change) => self.links_changed(change),
            Local::Recovered => self.queue.hurry(),
            Local::Networks(networks) => {
                keys.extend(world.change_networks(networks));
                for state in self.links.values_mut() {
                    state.status.touch();
                }
            }
            Local::Secrets(change) => {
                let changed = match &change {
                    Change::List { .. } => None,
                    Change::Apply(secret) | Change::Delete(secret) => Some(secret.name_any()),
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
        match (was_complete, self.world.is_complete()) {
            (true, true) => self.mark_all(queue::LOCAL, keys),
            (false, true) => {
                self.mark_all(queue::LOCAL, self.world.keys());
                // They stand for streams that began when the Service was made of them.
                if self.world.has_federated_slices() {
                    self.watch_members.send_replace(true);
                }
            }
            _ => {}
        }
    }
}

/// The namespaces that a change names, with what they are now.
fn namespaces(
    known: &mut Option<Namespaces>,
    change: Change<PartialObjectMeta<Namespace>>,
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
        Change::List { objects, .. } => {
            let known = known.get_or_insert_default().names();
            let mut all: BTreeMap<_, _> = known.map(|name| (name.to_owned(), None)).collect();
            all.extend(
                objects
                    .iter()
                    .map(|object| (object.name_any(), now(object))),
            );
            all
        }
        Change::Apply(object) => [(object.name_any(), now(&object))].into(),
        Change::Delete(object) => [(object.name_any(), None)].into(),
    }
}

fn secrets(known: &mut Option<BTreeMap<String, Option<Arc<[u8]>>>>, change: Change<Secret>) {
    let kubeconfig = |secret: &Secret| {
        let data = secret.data.as_ref()?.get(l::KUBECONFIG_KEY)?;
        Some(Arc::from(data.0.as_slice()))
    };
    match change {
        Change::List { objects, .. } => {
            *known = Some(
                objects
                    .iter()
                    .map(|s| (s.name_any(), kubeconfig(s)))
                    .collect(),
            );
        }
        Change::Apply(secret) => {
            known
                .get_or_insert_default()
                .insert(secret.name_any(), kubeconfig(&secret));
        }
        Change::Delete(secret) => {
            known.get_or_insert_default().remove(&secret.name_any());
        }
    }
}
