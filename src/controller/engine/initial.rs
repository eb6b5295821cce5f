//! The first lists of the local cluster. Until all of them have come there is no [`State`] and no engine: what was not listed
//! cannot be taken for what does not exist.

use std::{
    collections::BTreeMap,
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
};

use tokio::{
    sync::mpsc,
    time::{Duration, timeout},
};

use super::{
    absorb::{Kubeconfigs, absorb, absorb_by_name, absorb_routes, kubeconfig, listed, namespaces},
    local_event::LocalEvent,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        routes::{Route, RouteKind},
    },
    controller::{admin::Liveliness, clock},
    mirror::{ClusterNetworks, Config, Links, Namespaces, State, Store},
};

/// What has been listed so far. `None`: not yet.
#[derive(Default)]
struct InitialLists {
    namespaces: Option<Namespaces>,
    mirrors: Option<Store<Service>>,
    slices: Option<Store<EndpointSlice>>,
    probes: Option<Store<Service>>,
    probe_slices: Option<Store<EndpointSlice>>,
    members: Option<Store<Service>>,
    links: Option<BTreeMap<String, Arc<LinkObject>>>,
    secrets: Option<Kubeconfigs>,
    networks: Option<ClusterNetworks>,
    // These are waited for by what needs them.
    member_slices: Option<Store<EndpointSlice>>,
    routes: BTreeMap<RouteKind, Option<Store<Route>>>,
}

/// The local cluster, listed.
pub(super) struct Listed {
    /// All but the Links, which the engine takes in as it does any list of them.
    pub(super) state: State,
    pub(super) links: Vec<Arc<LinkObject>>,
    pub(super) secrets: Kubeconfigs,
}

/// Takes in changes of the local cluster until all of it has been listed. `None`: their sender is gone.
pub(super) async fn list(
    config: &Config,
    changes: &mut mpsc::Receiver<LocalEvent>,
    alive: &Liveliness,
    heartbeat: Duration,
) -> Option<Listed> {
    let mut lists = InitialLists::default();
    loop {
        alive.beat();
        let Ok(change) = timeout(heartbeat, changes.recv()).await else {
            continue;
        };
        lists.on_event(change?);
        match lists.complete(config) {
            Break(listed) => return Some(listed),
            Continue(incomplete) => lists = incomplete,
        }
    }
}

impl InitialLists {
    fn on_event(&mut self, event: LocalEvent) {
        match event {
            LocalEvent::Namespaces(change) => {
                let Some(known) = listed(&mut self.namespaces, &change) else {
                    return;
                };
                for (name, now) in namespaces(known, change) {
                    match now {
                        Some(now) => known.insert(name, now),
                        None => known.remove(&name),
                    };
                }
            }
            LocalEvent::Mirrors(change) => drop(absorb(&mut self.mirrors, change, true)),
            LocalEvent::Slices(change) => drop(absorb(&mut self.slices, change, true)),
            LocalEvent::Probes(change) => drop(absorb(&mut self.probes, change, true)),
            LocalEvent::ProbeSlices(change) => drop(absorb(&mut self.probe_slices, change, true)),
            LocalEvent::Members(change) => drop(absorb(&mut self.members, change, false)),
            LocalEvent::MemberSlices(change) => {
                drop(absorb(&mut self.member_slices, change, false));
            }
            LocalEvent::Routes(kind, change) => {
                absorb_routes(&mut self.routes, kind, change);
            }
            LocalEvent::Links(change) => {
                if let Some(known) = listed(&mut self.links, &change) {
                    absorb_by_name(known, change, |link| link);
                }
            }
            LocalEvent::Secrets(change) => {
                if let Some(known) = listed(&mut self.secrets, &change) {
                    absorb_by_name(known, change, |secret| kubeconfig(&secret));
                }
            }
            LocalEvent::Networks(networks) => self.networks = Some(networks),
            LocalEvent::Recovered => {}
        }
    }

    /// The local cluster, once all of it has been listed.
    fn complete(self, config: &Config) -> ControlFlow<Listed, Self> {
        match self {
            Self {
                namespaces: Some(namespaces),
                mirrors: Some(mirrors),
                slices: Some(slices),
                probes: Some(probes),
                probe_slices: Some(probe_slices),
                members: Some(members),
                links: Some(links),
                secrets: Some(secrets),
                networks: Some(networks),
                member_slices,
                routes,
            } => Break(Listed {
                state: State {
                    config: config.clone(),
                    namespaces,
                    mirrors,
                    slices,
                    probes,
                    probe_slices,
                    members,
                    member_slices,
                    routes,
                    links: Links::default(),
                    networks,
                    foreign: BTreeMap::new(),
                    now: clock::now(),
                },
                links: links.into_values().collect(),
                secrets,
            }),
            incomplete => Continue(incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{controller::watch::Event, mirror::LeftOut};

    fn list<T>() -> Event<T> {
        Event::List {
            objects: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn there_is_no_state_before_every_kind_has_been_listed() {
        let kinds: [fn() -> LocalEvent; 9] = [
            || LocalEvent::Namespaces(list()),
            || LocalEvent::Mirrors(list()),
            || LocalEvent::Slices(list()),
            || LocalEvent::Probes(list()),
            || LocalEvent::ProbeSlices(list()),
            || LocalEvent::Members(list()),
            || LocalEvent::Links(list()),
            || LocalEvent::Secrets(list()),
            || LocalEvent::Networks(ClusterNetworks::default()),
        ];
        let without = |missing: Option<usize>| {
            let mut lists = InitialLists::default();
            for (index, event) in kinds.iter().enumerate() {
                if Some(index) != missing {
                    lists.on_event(event());
                }
            }
            lists.complete(&Config::default()).is_break()
        };
        assert!(without(None));
        for index in 0..kinds.len() {
            assert!(!without(Some(index)), "{index}");
        }
    }
}
