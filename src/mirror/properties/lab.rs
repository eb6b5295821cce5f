//! A controller in a laboratory: a local cluster and target clusters in memory, watches that lag, and the loop
//! that works on dirty keys as `controller::engine` does.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use kube::{Resource, ResourceExt as _, core::ObjectMeta};

use super::{
    super::fixtures::{GATEWAY, LINKS, NS, entry, ip, world},
    acts::{Act, Addresses, CLUSTERS, Edit, LINK_NAMES, LinkMade, ServiceMade, name, namespace},
    cluster::{Changed, Cluster, Id, JUNK, Refusal, id},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{
        GatewayState, Grouped, Inserted, InvalidLink, Key, Kind, LinkEntry, Links, Liveness,
        NamespacePhase, Object, Objects, Owner, Patch, Plan, Remote, RemoteRef, Report, Reported,
        Target, World, Write,
        claims::{Holder, holder},
        federated_name, member,
        metadata::annotation,
        metadata::is_managed,
        metadata::label,
        mode, owner, plan,
        service::mirrorable,
        store::version,
    },
};

/// Pieces of work after which a controller that is left alone must have come to rest.
const PATIENCE: usize = 3_000;

/// Choices made at random, the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// What a watch has to say.
#[derive(Clone, Debug)]
enum Event {
    Mirror(Seen<Service>),
    Probe(Seen<Service>),
    Slice(Seen<EndpointSlice>),
    ProbeSlice(Seen<EndpointSlice>),
    Member(Seen<Service>),
    Namespace(String),
    /// Of the cluster of this Link.
    Remote(String, Seen<Service>),
    RemoteSlice(String, Seen<EndpointSlice>),
    /// All watches of this Link's cluster have listed.
    Synced(String),
}

#[derive(Clone, Debug)]
enum Seen<T> {
    Apply(Arc<T>),
    Delete(Arc<T>),
}

/// What a target cluster has.
#[derive(Clone, Debug, Default)]
struct Far {
    services: BTreeMap<Id, Service>,
    slices: BTreeMap<Id, EndpointSlice>,
}

/// A Link as it is, and what there is to know through it.
#[derive(Clone, Debug)]
struct Linked {
    made: LinkMade,
    gateway: GatewayState,
    limited: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lab {
    pub(super) cluster: Cluster,
    members: BTreeMap<Id, Service>,
    far: BTreeMap<String, Far>,
    links: BTreeMap<String, Linked>,
    pub(super) world: World,
    dirty: BTreeSet<Key>,
    failed: BTreeSet<Key>,
    lanes: BTreeMap<&'static str, VecDeque<Event>>,
    said: BTreeMap<(RemoteRef, bool), Report>,
    pub(super) dice: Dice,
    versions: u64,
    /// Writes done so far.
    pub(super) writes: usize,
    /// The controller ends after so many writes.
    pub(super) ends_after: Option<usize>,
}

fn exists<T: Clone>(object: &T) -> Option<Arc<T>> {
    Some(Arc::new(object.clone()))
}

impl Lab {
    pub(super) fn new(seed: u64, create_namespaces: bool) -> Self {
        let mut cluster = Cluster::default();
        cluster.create_namespace(NS);
        cluster.create_namespace(LINKS);
        let mut world = world();
        world.config.create_namespaces = create_namespaces;
        Self {
            cluster,
            members: BTreeMap::new(),
            far: BTreeMap::new(),
            links: BTreeMap::new(),
            world,
            dirty: BTreeSet::new(),
            failed: BTreeSet::new(),
            lanes: BTreeMap::new(),
            said: BTreeMap::new(),
            dice: Dice::new(seed),
            versions: 1_000_000,
            writes: 0,
            ends_after: None,
        }
    }

    fn mark(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.dirty.extend(keys);
    }

    // === what happens ===

    pub(super) fn act(&mut self, act: &Act) {
        match act {
            Act::Link(link, made) => self.relink(LINK_NAMES[*link], made.as_ref()),
            Act::Gateway(link, addresses, liveness) => {
                let state = GatewayState {
                    addresses: match addresses {
                        Addresses::Unresolved => None,
                        Addresses::Empty => Some(Vec::new()),
                        Addresses::V4 => Some(vec![ip(GATEWAY)]),
                        Addresses::Dual => Some(vec![ip(GATEWAY), ip("2001:db8::1")]),
                    },
                    liveness: *liveness,
                };
                self.gateway(LINK_NAMES[*link], state);
            }
            Act::Limit(link, on) => self.limit(LINK_NAMES[*link], *on),
            Act::Remote(cluster, ns, service, made) => {
                let id = (namespace(*ns).to_owned(), name(*service).to_owned());
                self.remote(CLUSTERS[*cluster], &id, made.as_ref());
            }
            Act::Slice(cluster, ns, service, index, hosts) => {
                let slice = super::acts::remote_slice(
                    namespace(*ns),
                    name(*service),
                    *index,
                    hosts.as_deref().unwrap_or_default(),
                );
                self.remote_slice(CLUSTERS[*cluster], slice, hosts.is_some());
            }
            Act::Member(ns, service, made) => {
                let id = (namespace(*ns).to_owned(), name(*service).to_owned());
                self.member(&id, made.as_ref());
            }
            Act::Namespace(ns, phase) => self.namespace(namespace(*ns), *phase),
            Act::Stranger(ns, name, on) => self.stranger(namespace(*ns), name, *on),
            Act::Legacy(cluster, ns, service, federated) => {
                self.legacy(
                    CLUSTERS[*cluster],
                    namespace(*ns),
                    name(*service),
                    *federated,
                );
            }
            Act::Edit(pick, edit) => self.edit(*pick, *edit),
            Act::Delete(pick) => {
                if let Some(id) = self.nth_of_ours(*pick) {
                    let changed = self.cluster.drop_service(&id);
                    self.watched(changed);
                }
            }
            Act::Restart => self.restart(),
            Act::Collect => {
                let changed = self.cluster.collect_garbage();
                self.watched(changed);
            }
        }
    }

    fn relink(&mut self, link: &str, made: Option<&LinkMade>) {
        let concerned = |lab: &Self, cluster: &str| lab.world.keys_of_cluster(cluster);
        let old = self.links.get(link).map(|l| CLUSTERS[l.made.cluster]);
        let new = made.map(|made| CLUSTERS[made.cluster]);
        let clusters: BTreeSet<&str> = old.into_iter().chain(new).collect();
        let mut keys: Vec<Key> = clusters.iter().flat_map(|c| concerned(self, c)).collect();
        let links = self.world.links.get_or_insert_default();
        links.remove(link);
        self.links.remove(link);
        if let Some(made) = made {
            let linked = Linked {
                made: made.clone(),
                gateway: GatewayState {
                    addresses: Some(vec![ip(GATEWAY)]),
                    liveness: Liveness::Alive,
                },
                limited: false,
            };
            let entry = linked.entry(link, None);
            self.links.insert(link.to_owned(), linked);
            let links = self.world.links.get_or_insert_default();
            links.insert(link.to_owned(), entry);
            let lane = self.lanes.entry("remote").or_default();
            lane.retain(|event| event.link() != Some(link));
            lane.push_back(Event::Synced(link.to_owned()));
        }
        keys.extend(clusters.iter().flat_map(|c| concerned(self, c)));
        self.mark(keys);
    }

    /// All Links are deleted, and all members leave.
    pub(super) fn part(&mut self) {
        for link in LINK_NAMES {
            self.relink(link, None);
        }
        let members: Vec<Id> = self.members.keys().cloned().collect();
        for id in members {
            self.member(&id, None);
        }
    }

    /// Every headless Service gets an endpoint: without any, its mirror keeps the form that it has.
    pub(super) fn furnish(&mut self) {
        let bare: Vec<(String, Id)> = self
            .far
            .iter()
            .flat_map(|(cluster, far)| {
                let headless = far.services.iter().filter(|(_, s)| s.is_headless());
                headless.map(move |(id, _)| (cluster.clone(), id.clone()))
            })
            .collect();
        for (cluster, (namespace, name)) in bare {
            let slice = super::acts::remote_slice(&namespace, &name, 0, &[(2, true)]);
            self.remote_slice(&cluster, slice, true);
        }
    }

    fn gateway(&mut self, link: &str, state: GatewayState) {
        let Some(linked) = self.links.get_mut(link) else {
            return;
        };
        linked.gateway = state.clone();
        let cluster = CLUSTERS[linked.made.cluster];
        if let Some(known) = self.world.links.as_mut().and_then(|l| l.get_mut(link)) {
            *known.gateway = state;
        }
        let keys = self.world.keys_of_cluster(cluster);
        self.mark(keys);
    }

    fn limit(&mut self, link: &str, on: bool) {
        let Some(linked) = self.links.get_mut(link) else {
            return;
        };
        linked.limited = on;
        let lane = self.lanes.entry("remote").or_default();
        lane.push_back(Event::Synced(link.to_owned()));
    }

    fn remote(&mut self, cluster: &str, id: &Id, made: Option<&ServiceMade>) {
        self.versions += 1;
        let far = self.far.entry(cluster.to_owned()).or_default();
        let before = far.services.remove(id);
        if let Some(made) = made {
            let mut service = made.service(&id.0, &id.1);
            service.metadata.resource_version = Some(self.versions.to_string());
            if let Some(before) = &before {
                service.metadata.uid.clone_from(&before.metadata.uid);
                // Whether a Service is headless is for life.
                if before.is_headless() != service.is_headless() {
                    service.metadata.uid = Some(format!("far-{}", self.versions));
                }
            }
            far.services.insert(id.clone(), service);
        }
        let after = far.services.get(id).cloned();
        for (link, linked) in &self.links {
            if CLUSTERS[linked.made.cluster] != cluster {
                continue;
            }
            let watches = |service: &Option<Service>| {
                service.as_ref().is_some_and(|s| linked.watches(link, s))
            };
            let event = match (watches(&before), watches(&after)) {
                (_, true) => Seen::Apply(Arc::new(after.clone().unwrap())),
                (true, false) => {
                    let mut gone = before.clone().unwrap();
                    gone.metadata.resource_version = Some(self.versions.to_string());
                    Seen::Delete(Arc::new(gone))
                }
                (false, false) => continue,
            };
            let lane = self.lanes.entry("remote").or_default();
            lane.push_back(Event::Remote(link.clone(), event));
        }
    }

    fn remote_slice(&mut self, cluster: &str, mut slice: EndpointSlice, stands: bool) {
        self.versions += 1;
        slice.metadata.resource_version = Some(self.versions.to_string());
        let id = id(&slice.metadata);
        let far = self.far.entry(cluster.to_owned()).or_default();
        let before = far.slices.remove(&id);
        let event = if stands {
            far.slices.insert(id, slice.clone());
            Seen::Apply(Arc::new(slice))
        } else {
            let Some(mut gone) = before else { return };
            gone.metadata.resource_version = Some(self.versions.to_string());
            Seen::Delete(Arc::new(gone))
        };
        for (link, linked) in &self.links {
            if CLUSTERS[linked.made.cluster] == cluster {
                let lane = self.lanes.entry("remote slices").or_default();
                lane.push_back(Event::RemoteSlice(link.clone(), event.clone()));
            }
        }
    }

    fn member(&mut self, id: &Id, made: Option<&ServiceMade>) {
        self.versions += 1;
        let before = self.members.remove(id);
        let taken = |service: &Option<Service>| {
            service
                .as_ref()
                .is_some_and(|s| label(&s.metadata, l::FEDERATED) == Some("member"))
        };
        let after = made.map(|made| {
            let mut service = made.service(&id.0, &id.1);
            service.metadata.resource_version = Some(self.versions.to_string());
            service
        });
        let event = match (taken(&before), taken(&after)) {
            (_, true) => Seen::Apply(Arc::new(after.clone().unwrap())),
            (true, false) => {
                let mut gone = before.clone().unwrap();
                gone.metadata.resource_version = Some(self.versions.to_string());
                Seen::Delete(Arc::new(gone))
            }
            (false, false) => return,
        };
        if let Some(after) = after.filter(|after| taken(&Some(after.clone()))) {
            self.members.insert(id.clone(), after);
        }
        self.push("members", Event::Member(event));
    }

    fn namespace(&mut self, name: &str, phase: Option<NamespacePhase>) {
        if name == LINKS || self.cluster.namespaces.get(name).copied() == phase {
            return;
        }
        let changed = if phase == Some(NamespacePhase::Active) {
            // One on its way out never comes back; it goes, and another one comes.
            let mut changed = self.cluster.clear_namespace(name, None);
            changed.extend(self.cluster.create_namespace(name));
            changed
        } else {
            self.cluster.clear_namespace(name, phase)
        };
        self.watched(changed);
        if phase != Some(NamespacePhase::Active) {
            let gone: Vec<Id> = self
                .members
                .keys()
                .filter(|id| id.0 == name)
                .cloned()
                .collect();
            for id in gone {
                self.member(&id, None);
            }
        }
    }

    fn stranger(&mut self, namespace: &str, name: &str, on: bool) {
        let id = (namespace.to_owned(), name.to_owned());
        let theirs = self.cluster.services.get(&id).is_some_and(|service| {
            self.cluster
                .strangers
                .contains(&service.uid().unwrap_or_default())
        });
        if on {
            let service = super::super::fixtures::svc(name).within(namespace).0;
            if let Ok((service, changed)) = self.cluster.create_service(service) {
                self.cluster
                    .strangers
                    .insert(service.uid().unwrap_or_default());
                self.watched(changed);
            }
        } else if theirs {
            let changed = self.cluster.drop_service(&id);
            self.watched(changed);
        }
    }

    /// As Linkerd's own service mirror would have left it.
    fn legacy(&mut self, cluster: &str, namespace: &str, service: &str, federated: bool) {
        use super::super::fixtures::svc;
        let made = if federated {
            svc(&federated_name(service))
                .label(l::MIRRORED_SERVICE, "true")
                .annotation(l::REMOTE_DISCOVERY, &format!("{service}@{cluster}"))
        } else {
            svc(&format!("{service}-{cluster}")).mirrored_by_linkerd(cluster, service)
        };
        let made = made.within(namespace).label("old", "yes");
        if let Ok((made, changed)) = self.cluster.create_service(made.0) {
            self.watched(changed);
            if !federated {
                self.cluster
                    .endpoints
                    .insert(id(&made.metadata), cluster.to_owned());
            }
        }
    }

    fn nth_of_ours(&self, pick: usize) -> Option<Id> {
        let ours: Vec<&Id> = self
            .cluster
            .services
            .iter()
            .filter(|(_, service)| is_managed(&service.metadata))
            .map(|(id, _)| id)
            .collect();
        (!ours.is_empty()).then(|| ours[pick % ours.len()].clone())
    }

    fn edit(&mut self, pick: usize, edit: Edit) {
        let slices: Vec<Id> = self
            .cluster
            .slices
            .iter()
            .filter(|(_, slice)| label(&slice.metadata, l::MIRRORED_SERVICE).is_some())
            .map(|(id, _)| id.clone())
            .collect();
        let nth = |ids: &[Id]| (!ids.is_empty()).then(|| ids[pick % ids.len()].clone());
        let changed = match edit {
            Edit::SliceEndpoints => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    slice.endpoints.clear();
                    slice.ports.clear();
                })
            }),
            Edit::SliceLabels => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    drop_label(&mut slice.metadata, l::CLUSTER_NAME);
                })
            }),
            Edit::SliceOwner => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    for owner in slice.metadata.owner_references.iter_mut().flatten() {
                        "somebody-else".clone_into(&mut owner.uid);
                    }
                })
            }),
            _ => self.nth_of_ours(pick).map(|id| {
                self.cluster
                    .edit_service(&id, |service| edit_service(service, edit))
            }),
        };
        self.watched(changed.unwrap_or_default());
    }

    // === watches ===

    fn push(&mut self, lane: &'static str, event: Event) {
        self.lanes.entry(lane).or_default().push_back(event);
    }

    /// What the watches of the local cluster make of changes.
    pub(super) fn watched(&mut self, changes: Vec<Changed>) {
        for change in changes {
            match change {
                Changed::Namespace(name) => self.push("namespaces", Event::Namespace(name)),
                Changed::Service(before, after) => {
                    let (before, after) = (before.as_deref(), after.as_deref());
                    if let Some(seen) = seen(before, after, is_mirror) {
                        self.push("mirrors", Event::Mirror(seen));
                    }
                    if let Some(seen) = seen(before, after, is_probe) {
                        self.push("probes", Event::Probe(seen));
                    }
                }
                Changed::Slice(before, after) => {
                    let (before, after) = (before.as_deref(), after.as_deref());
                    if let Some(seen) = seen(before, after, is_mirror) {
                        self.push("slices", Event::Slice(seen));
                    }
                    if let Some(seen) = seen(before, after, is_probe) {
                        self.push("probe slices", Event::ProbeSlice(seen));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Mirror(seen) => {
                let touched = absorb(&mut self.world.mirrors, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.world.keys_of_local(s))
                    .collect();
                self.mark(keys);
            }
            Event::Probe(seen) => {
                let touched = absorb(&mut self.world.probes, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.world.keys_of_local(s))
                    .collect();
                self.mark(keys);
            }
            Event::Slice(seen) => {
                let touched = absorb(&mut self.world.slices, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.world.keys_of_local_slice(s))
                    .collect();
                self.mark(keys);
            }
            Event::ProbeSlice(seen) => {
                let touched = absorb(&mut self.world.probe_slices, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.world.keys_of_local_slice(s))
                    .collect();
                self.mark(keys);
            }
            Event::Member(seen) => {
                let touched = absorb(&mut self.world.members, seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|s| self.world.keys_of_member(s))
                    .collect();
                self.mark(keys);
            }
            Event::Namespace(name) => {
                let known = self.world.namespaces.get_or_insert_default();
                match self.cluster.namespaces.get(&name) {
                    Some(phase) => known.insert(name.clone(), *phase),
                    None => known.remove(&name),
                };
                let keys = self.world.keys_of_namespace(&name);
                self.mark(keys);
            }
            Event::Synced(link) => self.synced(&link),
            Event::Remote(link, seen) => {
                let Some((cluster, remote)) = self.remote_of(&link) else {
                    return;
                };
                // Before and after the change: what kept others from a name may be gone.
                let object = match &seen {
                    Seen::Apply(object) | Seen::Delete(object) => id(&object.metadata),
                };
                if remote.over_limit && object.1 != "a" {
                    return; // what is beyond the limit is not looked at; the next list tells
                }
                let mut keys = self.world.keys_of_remote(&cluster, &object.0, &object.1);
                if let Some((_, remote)) = self.remote_of(&link) {
                    store(&mut remote.services[0], seen);
                }
                keys.extend(self.world.keys_of_remote(&cluster, &object.0, &object.1));
                self.mark(keys);
            }
            Event::RemoteSlice(link, seen) => {
                let Some((cluster, remote)) = self.remote_of(&link) else {
                    return;
                };
                let touched = store(&mut remote.slices[0], seen);
                let keys: Vec<Key> = touched
                    .iter()
                    .flat_map(|slice| self.world.keys_of_remote_slice(&cluster, slice))
                    .collect();
                self.mark(keys);
            }
        }
    }

    fn remote_of(&mut self, link: &str) -> Option<(String, &mut Remote)> {
        let links = self.world.links.as_mut()?;
        let cluster = links.get(link)?.cluster.clone();
        let remote = links.get_mut(link)?.remote.as_mut()?;
        Some((cluster, remote))
    }

    /// The watches of a Link have listed its cluster.
    fn synced(&mut self, link: &str) {
        let Some(linked) = self.links.get(link) else {
            return;
        };
        let cluster = CLUSTERS[linked.made.cluster];
        let remote = linked.list(link, self.far.get(cluster));
        let before = self.world.keys_of_cluster(cluster);
        if let Some(known) = self.world.links.as_mut().and_then(|l| l.get_mut(link)) {
            *known.remote = Some(remote);
        }
        // What the list told makes older events of these watches moot.
        for lane in ["remote", "remote slices"] {
            let lane = self.lanes.entry(lane).or_default();
            lane.retain(|event| event.link() != Some(link));
        }
        let after = self.world.keys_of_cluster(cluster);
        let said: Vec<Key> = self
            .said
            .keys()
            .filter(|(remote, _)| remote.cluster == cluster)
            .map(|(remote, federated)| {
                if *federated {
                    Key::federated(&remote.namespace, &remote.service)
                } else {
                    Key::mirror(cluster, &remote.namespace, &remote.service)
                }
            })
            .collect();
        self.mark(before.into_iter().chain(after).chain(said));
    }

    /// What a controller that starts now would know.
    pub(super) fn fresh_world(&self) -> World {
        let mut fresh = world();
        fresh.config = self.world.config.clone();
        fresh.namespaces = Some(self.cluster.namespaces.clone());
        for service in self.cluster.services.values() {
            if is_mirror(service) {
                fresh.mirrors.as_mut().and_then(|s| s.put(exists(service)?));
            }
            if is_probe(service) {
                fresh.probes.as_mut().and_then(|s| s.put(exists(service)?));
            }
        }
        for slice in self.cluster.slices.values() {
            if is_mirror(slice) {
                fresh.slices.as_mut().and_then(|s| s.put(exists(slice)?));
            }
            if is_probe(slice) {
                fresh
                    .probe_slices
                    .as_mut()
                    .and_then(|s| s.put(exists(slice)?));
            }
        }
        for member in self.members.values() {
            fresh.members.as_mut().and_then(|s| s.put(exists(member)?));
        }
        let entries = self.links.iter().map(|(link, linked)| {
            let far = self.far.get(CLUSTERS[linked.made.cluster]);
            (
                link.clone(),
                linked.entry(link, Some(linked.list(link, far))),
            )
        });
        fresh.links = Some(entries.collect::<Links>());
        fresh
    }

    pub(super) fn restart(&mut self) {
        self.lanes.clear();
        self.failed.clear();
        self.said.clear();
        self.world = self.fresh_world();
        self.dirty = self.world.keys().into_iter().collect();
    }

    // === the controller ===

    /// One thing happens: an event arrives, or a key is worked on. `false`: there is nothing to do.
    pub(super) fn step(&mut self) -> bool {
        let lanes: Vec<&'static str> = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.is_empty())
            .map(|(lane, _)| *lane)
            .collect();
        let choices = self.dirty.len() + lanes.len();
        if choices == 0 {
            return false;
        }
        let choice = self.dice.below(choices);
        if let Some(lane) = lanes.get(choice) {
            let event = self.lanes.get_mut(lane).and_then(VecDeque::pop_front);
            self.deliver(event.unwrap());
        } else {
            let key = self.dirty.iter().nth(choice - lanes.len()).unwrap().clone();
            self.dirty.remove(&key);
            self.work(&key);
        }
        true
    }

    /// Lets the controller work until it rests. It must.
    pub(super) fn drain(&mut self) {
        let mut idle = 0;
        for _ in 0..PATIENCE {
            if self.step() {
                continue;
            }
            let changed = self.cluster.collect_garbage();
            self.watched(changed);
            self.look_again();
            if self.lanes.values().any(|lane| !lane.is_empty()) || !self.dirty.is_empty() {
                continue;
            }
            if self.failed.is_empty() {
                return;
            }
            assert!(idle < 10, "never succeeds: {:?}", self.failed);
            idle += 1;
            self.dirty.append(&mut self.failed);
        }
        panic!("does not come to rest: {:?}", self.dirty);
    }

    /// Names that belonged to others are looked at from time to time.
    fn look_again(&mut self) {
        let slots: Vec<Id> = self.world.foreign.keys().cloned().collect();
        for slot in slots {
            let live = self.cluster.services.get(&slot).cloned();
            if live
                .as_ref()
                .is_some_and(|live| owner(&live.metadata) == Owner::Foreign)
            {
                continue;
            }
            let mut keys = self.world.claimants(&slot.0, &slot.1);
            keys.extend(self.world.keys_of_namespace(&slot.0));
            self.world.foreign.remove(&slot);
            if let Some(live) = live {
                self.absorb_service(live);
            }
            self.mark(keys);
        }
    }

    pub(super) fn work(&mut self, key: &Key) {
        let Plan {
            writes,
            confirm,
            report,
        } = plan(&self.world, key);
        if writes.is_empty() {
            self.told(&report);
            return;
        }
        if confirm.iter().any(|remote| self.is_exported(remote, key)) {
            self.failed.insert(key.clone());
            return;
        }
        let mut uids = BTreeMap::new();
        for write in writes {
            if self.ends_after == Some(self.writes) {
                self.ends_after = None;
                self.restart();
                return;
            }
            self.writes += 1;
            if let Err(refusal) = self.write(write.clone(), &mut uids) {
                self.refused(key, &write, &refusal);
                return;
            }
        }
        self.told(&report);
        self.dirty.insert(key.clone());
    }

    fn told(&mut self, report: &[Reported]) {
        for said in report {
            let about = (said.remote.clone(), said.federated);
            match &said.report {
                Report::Unknown => {}
                Report::Absent => {
                    self.said.remove(&about);
                }
                report => {
                    self.said.insert(about, report.clone());
                }
            }
        }
    }

    /// Asks a target cluster itself.
    fn is_exported(&self, remote: &RemoteRef, key: &Key) -> bool {
        let id = (remote.namespace.clone(), remote.service.clone());
        let far = self.far.get(&remote.cluster);
        let (Some(service), Some((target, _))) = (
            far.and_then(|far| far.services.get(&id)),
            self.world.link(&remote.cluster),
        ) else {
            return false;
        };
        match key {
            Key::Federated { .. } => member(target, service),
            _ => mode(target, service).is_some(),
        }
    }

    fn write(&mut self, write: Write, uids: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
        match write {
            Write::Create(Object::Namespace { name, .. }) => {
                let changed = self.cluster.create_namespace(&name);
                let phase = self.cluster.namespaces[&name];
                let known = self.world.namespaces.get_or_insert_default();
                known.entry(name).or_insert(phase);
                self.watched(changed);
            }
            Write::Create(Object::Service(service)) => {
                let name = service.name_any();
                let (service, changed) = self.cluster.create_service(*service)?;
                uids.insert(name, service.uid().unwrap_or_default());
                self.watched(changed);
                self.absorb_service(service);
            }
            Write::Create(Object::EndpointSlice(mut slice)) => {
                for owner in slice.metadata.owner_references.iter_mut().flatten() {
                    if owner.uid.is_empty() {
                        owner.uid = uids.get(&owner.name).ok_or(Refusal::Conflict)?.clone();
                    }
                }
                let (slice, changed) = self.cluster.create_slice(*slice)?;
                self.watched(changed);
                self.absorb_slice(slice);
            }
            Write::Patch(mut patch) => {
                if let Some(owners) = patch.body.pointer_mut("/metadata/ownerReferences") {
                    for owner in owners.as_array_mut().into_iter().flatten() {
                        if owner["uid"] == "" {
                            let name = owner["name"].as_str().unwrap_or_default();
                            let uid = uids.get(name).ok_or(Refusal::Conflict)?.clone();
                            owner["uid"] = uid.into();
                        }
                    }
                }
                self.patch(&patch)?;
            }
            Write::Delete {
                kind,
                namespace,
                name,
                uid,
            } => {
                let id = (namespace, name);
                match kind {
                    Kind::EndpointSlice => {
                        match self.cluster.delete_slice(&id, &uid) {
                            Err(Refusal::NotFound) => {}
                            other => self.watched(other?),
                        }
                        for store in [&mut self.world.slices, &mut self.world.probe_slices] {
                            store.as_mut().and_then(|s| s.forget(&id.0, &id.1));
                        }
                    }
                    _ => {
                        self.members_stay(&id, None);
                        match self.cluster.delete_service(&id, &uid) {
                            Err(Refusal::NotFound) => {}
                            other => {
                                let changed = other?;
                                self.watched(changed);
                                // Kubernetes' endpoints controller.
                                self.cluster.endpoints.remove(&id);
                            }
                        }
                        let probe = self
                            .world
                            .probes
                            .as_mut()
                            .and_then(|s| s.forget(&id.0, &id.1));
                        let gone = self
                            .world
                            .mirrors
                            .as_mut()
                            .and_then(|s| s.forget(&id.0, &id.1));
                        let keys = gone.or(probe).map(|gone| self.world.keys_of_local(&gone));
                        self.mark(keys.into_iter().flatten());
                    }
                }
            }
            Write::RetireEndpoints {
                namespace,
                name,
                cluster,
            } => {
                let id = (namespace, name);
                if self.cluster.endpoints.get(&id) == Some(&cluster) {
                    self.cluster.endpoints.remove(&id);
                }
            }
        }
        Ok(())
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), Refusal> {
        if patch.kind == Kind::EndpointSlice {
            let (slice, changed) = self.cluster.patch_slice(patch)?;
            self.watched(changed);
            self.absorb_slice(slice);
        } else {
            let id = (patch.namespace.clone(), patch.name.clone());
            let before = self.cluster.services.get(&id).cloned();
            let (service, changed) = self.cluster.patch_service(patch)?;
            if let Some(before) = before {
                self.names_stay(&before.metadata, Some(&service.metadata));
            }
            self.watched(changed);
            self.absorb_service(service);
        }
        Ok(())
    }

    /// What became of a key whose write was refused.
    fn refused(&mut self, key: &Key, write: &Write, refusal: &Refusal) {
        let (_, kind, namespace, name) = write.describe();
        let id = (namespace.to_owned(), name.to_owned());
        match (refusal, write) {
            (Refusal::Exists, Write::Create(Object::Service(wanted))) => {
                let Some(live) = self.cluster.services.get(&id).cloned() else {
                    unreachable!()
                };
                let fq = |metadata| annotation(metadata, l::REMOTE_FQ_NAME);
                let same_origin =
                    is_managed(&live.metadata) && fq(&live.metadata) == fq(&wanted.metadata);
                if owner(&live.metadata) != Owner::Foreign || same_origin {
                    self.look_at(live);
                    self.failed.insert(key.clone());
                } else {
                    self.world.foreign.insert(id, "somebody".to_owned());
                    self.dirty.insert(key.clone());
                }
            }
            _ => {
                // Look again, at what is really there.
                if kind == "EndpointSlice" {
                    match self.cluster.slices.get(&id).cloned() {
                        Some(live) if is_managed(&live.metadata) => self.absorb_slice(live),
                        Some(_) => {}
                        None => {
                            self.world
                                .slices
                                .as_mut()
                                .and_then(|s| s.forget(&id.0, &id.1));
                        }
                    }
                } else if kind == "Service" {
                    match self.cluster.services.get(&id).cloned() {
                        Some(live)
                            if owner(&live.metadata) != Owner::Foreign
                                || is_managed(&live.metadata) =>
                        {
                            self.look_at(live)
                        }
                        _ => {
                            self.world
                                .mirrors
                                .as_mut()
                                .and_then(|s| s.forget(&id.0, &id.1));
                            self.world
                                .probes
                                .as_mut()
                                .and_then(|s| s.forget(&id.0, &id.1));
                        }
                    }
                }
                self.failed.insert(key.clone());
            }
        }
    }

    fn absorb_service(&mut self, service: Service) {
        let store = match owner(&service.metadata) {
            Owner::Probe(_) => &mut self.world.probes,
            _ => &mut self.world.mirrors,
        };
        store.as_mut().map(|store| store.insert(Arc::new(service)));
    }

    /// What a live look found is news: the watch's own event of it will be an old one.
    fn look_at(&mut self, live: Service) {
        let mut keys = self.world.keys_of_local(&live);
        let (namespace, name) = id(&live.metadata);
        let stores = [&self.world.mirrors, &self.world.probes]
            .into_iter()
            .flatten();
        for known in stores.filter_map(|store| store.get(&namespace, &name)) {
            keys.extend(self.world.keys_of_local(known));
        }
        self.absorb_service(live);
        self.mark(keys);
    }

    fn absorb_slice(&mut self, slice: EndpointSlice) {
        let probe = slice.labels().contains_key(l::MIRRORED_GATEWAY);
        let store = if probe {
            &mut self.world.probe_slices
        } else {
            &mut self.world.slices
        };
        store.as_mut().map(|store| store.insert(Arc::new(slice)));
    }

    // === what must hold ===

    fn members_stay(&self, id: &Id, after: Option<&ObjectMeta>) {
        if let Some(before) = self.cluster.services.get(id) {
            self.names_stay(&before.metadata, after);
        }
    }

    /// A federated Service loses no cluster that cannot be seen, and none that has a member.
    fn names_stay(&self, before: &ObjectMeta, after: Option<&ObjectMeta>) {
        if owner(before) != Owner::Federated {
            return;
        }
        let tokens = |metadata: &ObjectMeta| -> BTreeSet<String> {
            let list = annotation(metadata, l::REMOTE_DISCOVERY).unwrap_or_default();
            list.split(',').map(str::to_owned).collect()
        };
        let after = after.map(tokens).unwrap_or_default();
        for token in tokens(before).difference(&after) {
            let Some((service, cluster)) = token.split_once('@') else {
                continue;
            };
            let name = before.name.as_deref().unwrap_or_default();
            if name != federated_name(service) {
                continue;
            }
            let links = self
                .links
                .iter()
                .filter(|(_, l)| CLUSTERS[l.made.cluster] == cluster);
            let broken = links.clone().count() > 0 && links.clone().all(|(_, l)| !l.made.valid);
            assert!(!broken, "{token} lost, its Link cannot be read");
            let Some((target, entry)) = self.world.link(cluster) else {
                continue;
            };
            let Some(remote) = &entry.remote else {
                panic!("{token} lost, its cluster cannot be seen");
            };
            let namespace = before.namespace.as_deref().unwrap_or_default();
            let known = remote.service(namespace, service);
            assert!(
                known.is_some() || !remote.over_limit,
                "{token} lost to a limit"
            );
            let id = (namespace.to_owned(), service.to_owned());
            let far = self.far.get(cluster).and_then(|far| far.services.get(&id));
            let joins = far.is_some_and(|s| {
                // One that is seen as unfit may have changed since.
                member(target, s)
                    && !s.is_headless()
                    && mirrorable(s).is_ok()
                    && known.is_none_or(|known| version(known.as_ref()) == version(s))
            });
            assert!(!joins, "{token} lost, and it is a member");
        }
    }

    /// The same target clusters and the same people's objects, and nothing of ours.
    pub(super) fn from_scratch(&self) -> Self {
        let mut anew = self.clone();
        let Cluster {
            strangers,
            services,
            ..
        } = &mut anew.cluster;
        services.retain(|_, service| strangers.contains(&service.uid().unwrap_or_default()));
        anew.cluster.slices.clear();
        anew.cluster.endpoints.clear();
        anew.restart();
        anew
    }

    /// Whether all that stands stands where it would have come first, however it came there. What we have
    /// written and cannot see any more, because it lost its label, does not.
    pub(super) fn is_in_line(&self) -> bool {
        self.cluster
            .services
            .iter()
            .all(|((namespace, name), service)| {
                let first = self.world.first_claim(namespace, name);
                match holder(service) {
                    Holder::Claim(claim) => first == Some(claim),
                    Holder::Stray => false,
                    Holder::Foreign => true,
                }
            })
    }

    /// What stands of ours, or looks like it, and is seen.
    pub(super) fn ours(&self) -> Vec<String> {
        let services = self
            .cluster
            .services
            .iter()
            .filter(|(_, s)| is_mirror(*s) || is_probe(*s));
        let services = services
            .filter(|(_, s)| is_managed(&s.metadata))
            .map(|(id, _)| id);
        let slices = self
            .cluster
            .slices
            .iter()
            .filter(|(_, s)| is_mirror(*s) || is_probe(*s));
        let slices = slices.map(|(id, _)| id);
        services
            .chain(slices)
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect()
    }

    /// At rest, no key there is has anything to write, in the eyes of this controller or of a new one, and
    /// what was said of each Service still holds.
    pub(super) fn is_settled(&self) {
        let mut keys: BTreeSet<Key> = self.world.keys().into_iter().collect();
        for (cluster, far) in &self.far {
            for id in far.services.keys().chain(far.slices.keys()) {
                keys.extend(self.world.keys_of_remote(cluster, &id.0, &id.1));
            }
        }
        let mut fresh = self.fresh_world();
        fresh.foreign.clone_from(&self.world.foreign);
        keys.extend(fresh.keys());
        let mut said = BTreeMap::new();
        for key in &keys {
            let again = plan(&self.world, key);
            assert_eq!(again.writes, [], "{key} was not worked on");
            let anew = plan(&fresh, key);
            let stripped = |write: &Write| {
                // What lost the label that we watch is invisible until its name is asked for.
                let (verb, _, namespace, name) = write.describe();
                let id = (namespace.to_owned(), name.to_owned());
                let hidden = self
                    .cluster
                    .services
                    .get(&id)
                    .is_some_and(|s| !is_mirror(s))
                    || self.cluster.slices.get(&id).is_some_and(|s| !is_mirror(s));
                verb == "create" && hidden
            };
            if !anew.writes.iter().any(stripped) {
                assert_eq!(
                    anew.writes,
                    [],
                    "{key} would be written by a new controller"
                );
            }
            for Reported {
                remote,
                federated,
                report,
            } in again.report
            {
                if !matches!(report, Report::Absent | Report::Unknown) {
                    said.insert((remote, federated), report);
                } else if report == Report::Absent {
                    let about = (remote, federated);
                    assert_eq!(self.said.get(&about), None, "{about:?} is absent");
                }
            }
        }
        for (about, report) in said {
            assert_eq!(self.said.get(&about), Some(&report), "of {about:?}");
        }
    }
}

impl Linked {
    fn target(&self, link: &str) -> Result<Target, InvalidLink> {
        Target::parse(&self.made.link(link), self.made.headless)
    }

    fn entry(&self, link: &str, remote: Option<Remote>) -> LinkEntry {
        match self.target(link) {
            Ok(target) => LinkEntry {
                remote,
                gateway: self.gateway.clone(),
                ..entry(target)
            },
            Err(error) => LinkEntry {
                cluster: CLUSTERS[self.made.cluster].to_owned(),
                target: Err(error),
                remote: None,
                gateway: GatewayState::default(),
            },
        }
    }

    fn watches(&self, link: &str, service: &Service) -> bool {
        let labels = service.labels();
        self.target(link).is_ok_and(|target| {
            target
                .service_selectors()
                .iter()
                .any(|selector| selector.matches(labels))
        })
    }

    fn list(&self, link: &str, far: Option<&Far>) -> Remote {
        let mut services = Objects::default();
        let mut slices = Objects::default();
        for service in far.iter().flat_map(|far| far.services.values()) {
            let beyond = self.limited && service.name_any() != "a";
            if self.watches(link, service) && !beyond {
                services.put(Arc::new(service.clone()));
            }
        }
        for slice in far.iter().flat_map(|far| far.slices.values()) {
            slices.put(Arc::new(slice.clone()));
        }
        Remote {
            services: vec![services],
            slices: vec![slices],
            over_limit: self.limited,
        }
    }
}

impl Event {
    fn link(&self) -> Option<&str> {
        match self {
            Self::Remote(link, _) | Self::RemoteSlice(link, _) | Self::Synced(link) => Some(link),
            _ => None,
        }
    }
}

fn is_mirror(object: &impl Resource) -> bool {
    label(object.meta(), l::MIRRORED_SERVICE) == Some("true")
}

fn is_probe(object: &impl Resource) -> bool {
    label(object.meta(), l::MIRRORED_GATEWAY) == Some("true")
        && object.meta().namespace.as_deref() == Some(LINKS)
}

/// What a watch with a label selector says of a change.
fn seen<T: Resource + Clone>(
    before: Option<&T>,
    after: Option<&T>,
    watched: fn(&T) -> bool,
) -> Option<Seen<T>> {
    let was = before.filter(|before| watched(before));
    match (was, after) {
        (_, Some(after)) if watched(after) => Some(Seen::Apply(Arc::new(after.clone()))),
        (Some(was), after) => {
            // Kubernetes sends the last state that matched, with the version of the change.
            let mut gone = was.clone();
            if let Some(after) = after {
                gone.meta_mut()
                    .resource_version
                    .clone_from(&after.meta().resource_version);
            }
            Some(Seen::Delete(Arc::new(gone)))
        }
        (None, _) => None,
    }
}

fn absorb<T: Grouped>(known: &mut Option<Objects<T>>, seen: Seen<T>) -> Vec<Arc<T>> {
    store(known.get_or_insert_default(), seen)
}

fn store<T: Grouped>(known: &mut Objects<T>, seen: Seen<T>) -> Vec<Arc<T>> {
    match seen {
        Seen::Apply(object) => match known.insert(object.clone()) {
            Inserted::Stale => Vec::new(),
            Inserted::Taken(before) => before.into_iter().chain([object]).collect(),
        },
        Seen::Delete(object) => known.remove(&object).into_iter().collect(),
    }
}

fn drop_label(metadata: &mut ObjectMeta, key: &str) {
    if let Some(labels) = &mut metadata.labels {
        labels.remove(key);
    }
}

fn edit_service(service: &mut Service, edit: Edit) {
    let metadata = &mut service.metadata;
    match edit {
        Edit::StripCluster => drop_label(metadata, l::CLUSTER_NAME),
        Edit::MoveCluster(cluster) => {
            let labels = metadata.labels.get_or_insert_default();
            labels.insert(l::CLUSTER_NAME.to_owned(), CLUSTERS[cluster].to_owned());
        }
        Edit::StripMirrored => drop_label(metadata, l::MIRRORED_SERVICE),
        Edit::StripHeadless => drop_label(metadata, l::HEADLESS_MIRROR),
        Edit::Unmanage => {
            metadata
                .annotations
                .get_or_insert_default()
                .remove(l::MANAGED_BY);
        }
        Edit::Junk => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(JUNK.to_owned(), "1".to_owned());
        }
        Edit::Relabel => {
            // Only one that we have set: others may add labels.
            if let Some(team) = metadata.labels.get_or_insert_default().get_mut("team") {
                "somebody".clone_into(team);
            }
        }
        Edit::Ports => service.spec.ports = vec![super::super::fixtures::port("odd", 1)],
        Edit::Tokens => {
            let annotations = metadata.annotations.get_or_insert_default();
            if let Some(tokens) = annotations.get_mut(l::REMOTE_DISCOVERY) {
                *tokens = format!("x@gone, {tokens},,");
            }
        }
        Edit::SliceEndpoints | Edit::SliceLabels | Edit::SliceOwner => {}
    }
}
