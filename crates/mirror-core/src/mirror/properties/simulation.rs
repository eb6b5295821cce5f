//! A simulated controller: a local cluster and target clusters in memory, watches that lag, and a loop that reconciles
//! queued keys as `controller::engine` does.

mod admission;
mod checks;
mod faults;
mod linkerd;
mod lists;
mod meddling;
mod policy;
mod targets;
mod watches;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    cluster::{Cluster, Id},
    operations::{
        Addresses, CLUSTERS, DRAINED_UNTIL, Form, LINK_NAMES, Limited, LinkMade, Operation,
        PROTECTED, TRUST_DOMAIN, name, namespace, remote_slice,
    },
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        map::Map,
        route::{Route, RouteKind},
    },
    mirror::{
        ClusterNetworks, GatewayState, Key, Outcome, RemoteRef, State, Store,
        fixtures::{GATEWAY, LINKS, NS, at, ip, state},
        metadata::is_managed,
    },
};

/// An address that is refused.
const LOOPBACK: &str = "127.0.0.1";
/// The hold-down of preferred clusters. It is shorter than a step of the clock.
const HOLD_DOWN: Duration = Duration::from_secs(30);
/// Number of steps within which a controller must come to rest if nothing else happens.
const PATIENCE: usize = 3_000;

/// Random choices, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Mirror(Seen<Service>),
    Probe(Seen<Service>),
    Slice(Seen<EndpointSlice>),
    ProbeSlice(Seen<EndpointSlice>),
    Member(Seen<Service>),
    Namespace(String),
    /// A Service of this Link's cluster.
    Remote(String, Seen<Service>),
    RemoteSlice(String, Seen<EndpointSlice>),
    MemberSlice(Seen<EndpointSlice>),
    Route(RouteKind, Seen<Route>),
    /// The routes of all kinds have been listed.
    Routes,
    /// A kind of routes is served now, and has been listed, or is not served any more.
    Served(RouteKind),
    /// All watches of this Link's cluster have listed.
    Synced(String),
    /// The watch of Services has listed again.
    Listed(String),
    /// The watch of slices has listed again.
    ListedSlices(String),
}

#[derive(Clone, Debug)]
pub(crate) enum Seen<T> {
    Apply(Arc<T>),
    Delete(Arc<T>),
}

/// What a target cluster has.
#[derive(Clone, Debug, Default)]
struct Far {
    services: BTreeMap<Id, Service>,
    slices: BTreeMap<Id, EndpointSlice>,
}

/// A Link, and the state of its gateway and its target cluster.
#[derive(Clone, Debug)]
struct ClusterMembership {
    made: LinkMade,
    gateway: GatewayState,
    limited: Limited,
    /// The cluster that was listed last, as its status says.
    listed: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) cluster: Cluster,
    members: BTreeMap<Id, Service>,
    member_slices: BTreeMap<Id, EndpointSlice>,
    far: BTreeMap<String, Far>,
    links: BTreeMap<String, ClusterMembership>,
    pub(crate) state: State,
    queued: BTreeSet<Key>,
    failed: BTreeSet<Key>,
    lanes: BTreeMap<&'static str, VecDeque<Event>>,
    reports: BTreeMap<(RemoteRef, bool), Outcome>,
    pub(crate) rng: Rng,
    versions: u64,
    /// What Linkerd knows of the local cluster.
    linkerd: linkerd::Known,
    /// Writes done so far.
    pub(crate) writes: usize,
    /// The controller crashes after this many writes.
    pub(crate) ends_after: Option<usize>,
    /// This cluster answers no question whether it exports a Service.
    silent: Option<&'static str>,
    /// Whether gateways share no address.
    apart: bool,
    /// Whether the present controller watches routes.
    watches_routes: bool,
}

impl Simulation {
    /// `max_namespaces`: how many namespaces may be created for a target cluster.
    pub(crate) fn new(seed: u64, max_namespaces: usize) -> Self {
        let mut cluster = Cluster::default();
        for name in [NS, LINKS, PROTECTED] {
            cluster.create_namespace(name, &Map::default());
        }
        let mut state = state();
        state.here().namespaces = cluster.namespaces.clone().into_iter().collect();
        state.config.join_delay = Duration::from_secs(60);
        state.config.max_namespaces = max_namespaces;
        state.config.protected_namespaces = [PROTECTED.to_owned()].into();
        state.config.trust_domain = Some(TRUST_DOMAIN.to_owned());
        Self {
            cluster,
            members: BTreeMap::new(),
            member_slices: BTreeMap::new(),
            far: BTreeMap::new(),
            links: BTreeMap::new(),
            state,
            queued: BTreeSet::new(),
            failed: BTreeSet::new(),
            lanes: BTreeMap::new(),
            reports: BTreeMap::new(),
            rng: Rng::new(seed),
            versions: 1_000_000,
            linkerd: linkerd::Known::new(),
            writes: 0,
            ends_after: None,
            silent: None,
            apart: false,
            watches_routes: false,
        }
    }

    /// As [`Self::new`], with a cluster that confirms nothing.
    pub(crate) fn with_silent(cluster: &'static str, seed: u64) -> Self {
        Self {
            silent: Some(cluster),
            ..Self::new(seed, 0)
        }
    }

    /// As [`Self::new`], where nobody may create Services of these names.
    pub(crate) fn denying(names: Vec<String>, seed: u64) -> Self {
        let mut simulation = Self::new(seed, 0);
        simulation.cluster.denied.extend(names);
        simulation
    }

    /// The silent cluster answers again, as after a new connection.
    pub(crate) fn answers_again(&mut self) {
        self.silent = None;
        self.queued.extend(self.state.keys());
    }

    /// As [`Self::new`], with preferences enabled.
    pub(crate) fn preferring(seed: u64) -> Self {
        let mut simulation = Self::new(seed, 0);
        (simulation.apart, simulation.watches_routes) = (true, true);
        simulation.state.config.routes = Some(HOLD_DOWN);
        let listed = RouteKind::ALL.map(|kind| (kind, Some(Store::default())));
        simulation.state.here().routes = listed.into();
        simulation
    }

    /// The addresses of a Link's gateway. Two gateways that share an address cannot be distinguished in one Service.
    /// With preferences they have to be, so they share none.
    fn gateway_of(&self, link: &str) -> [&'static str; 2] {
        if self.apart && link == LINK_NAMES[1] {
            ["192.0.2.2", "2001:db8::2"]
        } else {
            [GATEWAY, "2001:db8::1"]
        }
    }

    fn mark(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.queued.extend(keys);
    }
    pub(crate) fn act(&mut self, act: &Operation) {
        match act {
            Operation::Link(link, made) => self.relink(LINK_NAMES[*link], made.as_ref()),
            Operation::Gateway(link, addresses, liveness) => {
                let [own, other] = self.gateway_of(LINK_NAMES[*link]);
                let state = GatewayState {
                    addresses: match addresses {
                        Addresses::Unresolved => None,
                        Addresses::Empty => Some(Vec::new()),
                        Addresses::V4 => Some(vec![ip(own)]),
                        Addresses::Dual => Some(vec![ip(own), ip(other)]),
                        Addresses::Mixed => Some(vec![ip(LOOPBACK), ip(own)]),
                        Addresses::Refused => Some(vec![ip(LOOPBACK)]),
                    },
                    liveness: *liveness,
                };
                self.gateway(LINK_NAMES[*link], state);
            }
            Operation::Networks(refuses) => {
                let range = refuses.then(|| ip(GATEWAY).into());
                let networks = ClusterNetworks {
                    services: range.into_iter().collect(),
                    ..ClusterNetworks::default()
                };
                let keys = self.state.change_networks(networks);
                self.mark(keys);
            }
            Operation::Clock(ends) => {
                let now = at(if *ends { DRAINED_UNTIL } else { 0 });
                let (drained, returned) = self.state.advance(now);
                let keys = drained.into_values().flatten().chain(returned);
                self.queued.extend(keys);
            }
            Operation::Limit(link, limited) => self.limit(LINK_NAMES[*link], *limited),
            Operation::Refused(link) => self.list_again(LINK_NAMES[*link]),
            Operation::Remote(cluster, ns, service, made) => {
                let id = (namespace(*ns).to_owned(), name(*service).to_owned());
                self.remote(CLUSTERS[*cluster], &id, made.as_ref());
            }
            Operation::Slice(cluster, ns, service, index, hosts) => {
                let slice = remote_slice(
                    namespace(*ns),
                    name(*service),
                    *index,
                    hosts.as_deref().unwrap_or_default(),
                );
                self.remote_slice(CLUSTERS[*cluster], slice, hosts.is_some());
            }
            Operation::Member(ns, service, made) => {
                let id = (namespace(*ns).to_owned(), name(*service).to_owned());
                self.member(&id, made.as_ref());
            }
            Operation::MemberSlice(ns, service, index, hosts) => {
                let slice = remote_slice(
                    namespace(*ns),
                    name(*service),
                    *index,
                    hosts.as_deref().unwrap_or_default(),
                );
                self.member_slice(slice, hosts.is_some());
            }
            Operation::Route(on) => {
                let changed = self.cluster.stranger_route(NS, "a-federated", *on);
                self.watched(changed);
            }
            Operation::DropRoutes => {
                let changed = self
                    .cluster
                    .drop_routes(|route| is_managed(&route.metadata));
                self.watched(changed);
            }
            Operation::Served(on) => self.serve_routes(RouteKind::Http, *on),
            Operation::Namespace(ns, phase) => self.namespace(namespace(*ns), *phase),
            Operation::Label(ns, team) => self.label(namespace(*ns), *team),
            Operation::Stranger(ns, name, on) => self.stranger(namespace(*ns), name, *on),
            Operation::Legacy(cluster, ns, service, federated) => {
                self.legacy(
                    CLUSTERS[*cluster],
                    namespace(*ns),
                    name(*service),
                    *federated,
                );
            }
            Operation::Theirs(cluster, ns, service, federated) => {
                self.theirs(
                    CLUSTERS[*cluster],
                    namespace(*ns),
                    name(*service),
                    *federated,
                );
            }
            Operation::Edit(pick, edit) => self.edit(*pick, *edit),
            Operation::Delete(pick) => {
                if let Some(id) = self.nth_of_ours(*pick) {
                    let changed = self.cluster.drop_service(&id);
                    self.watched(changed);
                }
            }
            Operation::Restart => {
                self.restart();
                if self.rng.below(2) == 0 {
                    self.unlist();
                }
                if self.rng.below(2) == 0 {
                    self.unlist_routes();
                }
            }
            Operation::Preferences(on) => {
                self.state.config.routes = on.then_some(HOLD_DOWN);
                self.restart();
            }
            Operation::Collect => {
                let changed = self.cluster.collect_garbage();
                self.watched(changed);
            }
        }
    }

    pub(crate) fn restart(&mut self) {
        self.lanes.clear();
        self.failed.clear();
        self.reports.clear();
        self.watches_routes = self.needs_routes();
        self.state = self.fresh_world();
        // The new controller has listed all clusters, and the statuses of their Links say so.
        for linked in self.links.values_mut() {
            if linked.made.form == Form::Valid {
                linked.listed = linked.made.named().map(str::to_owned);
            }
        }
        self.queued = self.state.keys().into_iter().collect();
    }

    /// Delivers one event, or reconciles one key. `false` if there is nothing to do.
    pub(crate) fn step(&mut self) -> bool {
        let lanes: Vec<&'static str> = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.is_empty())
            .map(|(lane, _)| *lane)
            .collect();
        let choices = self.queued.len() + lanes.len();
        if choices == 0 {
            return false;
        }
        let choice = self.rng.below(choices);
        if let Some(lane) = lanes.get(choice) {
            let event = self.lanes.get_mut(lane).and_then(VecDeque::pop_front);
            self.deliver(event.unwrap());
        } else {
            let key = self
                .queued
                .iter()
                .nth(choice - lanes.len())
                .unwrap()
                .clone();
            self.queued.remove(&key);
            self.work(&key);
        }
        true
    }

    /// Lets the controller work until it comes to rest. Panics if it does not.
    pub(crate) fn drain(&mut self) {
        let mut idle = 0;
        for _ in 0..PATIENCE {
            if self.step() {
                continue;
            }
            let changed = self.cluster.collect_garbage();
            self.watched(changed);
            self.look_again();
            if self.lanes.values().any(|lane| !lane.is_empty()) || !self.queued.is_empty() {
                continue;
            }
            if self.failed.is_empty() {
                return;
            }
            if idle == 3 && self.failed.iter().all(|key| self.is_denied(key)) {
                return; // until somebody changes what is denied
            }
            assert!(idle < 10, "never succeeds: {:?}", self.failed);
            idle += 1;
            self.queued.append(&mut self.failed);
        }
        panic!("does not come to rest: {:?}", self.queued);
    }
}

impl Event {
    fn link(&self) -> Option<&str> {
        match self {
            Self::Remote(link, _)
            | Self::RemoteSlice(link, _)
            | Self::Synced(link)
            | Self::Listed(link)
            | Self::ListedSlices(link) => Some(link),
            _ => None,
        }
    }
}
