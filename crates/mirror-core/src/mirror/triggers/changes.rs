//! Changes that update the [`State`] and return their keys in one step: changes of Links, of the cluster's networks, of
//! its namespaces, and of the time.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::{exported_keys, once_each};
use crate::{
    api::map::Map,
    mirror::{
        key::Key,
        names::{GatewayService, member_name},
        state::{
            State,
            links::Links,
            namespaces::{Namespace, NamespacePhase},
        },
        target::{
            Target,
            networks::{ClusterNetworks, Refused},
        },
    },
};

impl State {
    /// Changes a Link, and returns all keys that this concerns.
    pub fn change_link(&mut self, link: &str, change: impl FnOnce(&mut Links)) -> Vec<Key> {
        let mut clusters = self.clusters_of_link(link);
        let mut keys = Vec::new();
        // The local objects of a cluster are the same before and after.
        for cluster in &clusters {
            self.extend_with_exports(cluster, &mut keys);
        }
        let mut any = self.links.is_any_cluster(link);
        change(&mut self.links);
        any |= self.links.is_any_cluster(link);
        clusters.extend(self.clusters_of_link(link));
        if any {
            keys.extend(self.keys()); // it decides whether objects without a Link in charge are kept
        }
        for cluster in &clusters {
            keys.extend(self.keys_of_cluster(cluster));
        }
        // Claims to the names of its gateway Services gain or lose precedence.
        for service in GatewayService::ALL {
            keys.extend(self.keys_for_name(&self.config.namespace, &service.name(link)));
        }
        once_each(keys)
    }

    /// Sets the networks of this cluster. Returns the keys of the clusters whose gateways have addresses that are
    /// refused from now on, or no longer are.
    pub fn change_networks(&mut self, now: ClusterNetworks) -> Vec<Key> {
        let refused = |state: &Self| -> BTreeMap<String, Vec<Refused>> {
            let of = |target: &Target| {
                let api = state.api_gateway_addresses(&target.link).into_iter();
                let mut refused = state.refused(&target.link);
                refused.extend(api.flat_map(|reach| reach.refused));
                (target.cluster.clone(), refused)
            };
            state.active().map(|(target, _)| of(target)).collect()
        };
        let before = refused(self);
        let Some(local) = &mut self.local else {
            return Vec::new();
        };
        local.networks = now;
        let changed = refused(self).into_iter();
        let keys = changed
            .filter(|(cluster, refused)| before.get(cluster) != Some(refused))
            .flat_map(|(cluster, _)| self.keys_of_cluster(&cluster));
        once_each(keys.collect())
    }

    /// The clusters that a change of a Link may concern: the one that it names, the one that was listed last, and those
    /// that other Links left for the one that it names.
    fn clusters_of_link(&self, link: &str) -> BTreeSet<String> {
        let Some(entry) = self.links.get(link) else {
            return BTreeSet::new();
        };
        let named = entry.cluster.as_deref();
        let left = named
            .into_iter()
            .flat_map(|named| self.links.left_for(named));
        let own = [named, entry.listed.as_deref()].into_iter().flatten();
        own.chain(left).map(str::to_owned).collect()
    }

    /// Sets the state of a namespace; `None` if it is deleted. Returns the keys that this concerns; `None` if nothing
    /// has changed, or the local cluster has not been listed.
    pub fn change_namespace(&mut self, name: &str, now: Option<Namespace>) -> Option<Vec<Key>> {
        let known = &mut self.local.as_mut()?.namespaces;
        if known.get(name) == now.as_ref() {
            return None;
        }
        let cluster = |namespace: Option<&Namespace>| namespace?.created_for().map(str::to_owned);
        let counted = cluster(now.as_ref());
        let before = known.set(name, now);
        let mut keys = self.keys_of_namespace(name);
        // A created namespace no longer counts, so another one may be created.
        let freed = cluster(before.as_ref()).filter(|freed| Some(freed) != counted.as_ref());
        if let Some(freed) = freed {
            keys.extend(self.keys_of_missing_namespaces(&freed));
        }
        Some(keys)
    }

    /// Records that a namespace was created with these labels, unless it is already known. Returns the keys that this
    /// concerns: others may have waited for it.
    pub fn created_namespace(&mut self, name: &str, labels: Map) -> Vec<Key> {
        if self.namespace(name).is_some() {
            return Vec::new();
        }
        let phase = NamespacePhase::Active;
        let keys = self.change_namespace(name, Some(Namespace { phase, labels }));
        keys.unwrap_or_default()
    }

    /// Keys of what a target cluster exports in namespaces that do not exist here.
    fn keys_of_missing_namespaces(&self, cluster: &str) -> Vec<Key> {
        let remote = self.remote(cluster);
        let mut keys = Vec::new();
        for store in remote.into_iter().flat_map(|remote| &remote.services) {
            let missing = store
                .namespaces()
                .filter(|name| self.namespace(name).is_none());
            for service in missing.flat_map(|name| store.in_namespace(name)) {
                keys.extend(exported_keys(cluster, service));
            }
        }
        keys
    }

    /// When the next drain ends, or the next hold-down of a preferred cluster, or when the next new cluster joins federated
    /// Services.
    pub fn next_turn(&self) -> Option<Timestamp> {
        let ends = self.links.drains().map(|(_, until)| until);
        let ends = ends.filter(|until| *until > self.now);
        let returns = self.local.as_ref();
        let returns = returns.and_then(|local| local.mirrors.next_due(self.now));
        let new = self.new_since(self.now).map(|(_, joins)| joins);
        ends.chain(returns).chain(new).min()
    }

    /// The keys of the federated Services with a preferred cluster whose hold-down ends in this period. If the clock was
    /// set back, those of all hold-downs: they may end too late by this clock.
    fn returned(&self, before: Timestamp, now: Timestamp) -> Vec<Key> {
        let local = self.local.iter();
        let (from, to) = if now < before {
            (now, Timestamp::MAX)
        } else {
            (before, now)
        };
        let due = local.flat_map(|local| local.mirrors.due_between(from, to));
        let names = due.map(|service| (service.metadata.namespace(), service.metadata.name()));
        let keys = names
            .filter_map(|(namespace, name)| Some(Key::federated(namespace, member_name(name)?)));
        let mut seen = BTreeSet::new();
        keys.filter(|key| seen.insert(key.clone())).collect()
    }

    /// The clusters that join federated Services later than at this time, because their Links are new, each with when.
    fn new_since(&self, time: Timestamp) -> impl Iterator<Item = (&Target, Timestamp)> {
        let delay = self.config.join_delay;
        let since = time.checked_sub(delay).unwrap_or(Timestamp::MIN);
        let linked = self.links.linked_since(since);
        let joins =
            linked.filter_map(move |(target, at)| Some((target, at.checked_add(delay).ok()?)));
        joins.filter(move |(_, joins)| *joins > time)
    }

    /// Sets the time. Returns the keys that this concerns, by cluster, for clusters whose drain has ended, or that are
    /// drained again because the clock was set back, or that are not new any more; and the keys of federated Services whose
    /// requests return to a cluster.
    pub fn advance(&mut self, now: Timestamp) -> (BTreeMap<String, Vec<Key>>, Vec<Key>) {
        let before = std::mem::replace(&mut self.now, now);
        let returned = self.returned(before, now);
        let drains = self.links.drains();
        let turned = drains.filter(|(_, until)| (*until > before) != (*until > now));
        let turned = turned.map(|(target, _)| target);
        let new = self.new_since(before.min(now));
        let new = new.filter(|(_, joins)| (*joins > before) != (*joins > now));
        let turned = turned.chain(new.map(|(target, _)| target));
        let turned = turned.map(|Target { cluster, .. }| {
            let mut keys = self.keys_of_cluster(cluster);
            keys.retain(|key| matches!(key, Key::Federated { .. }));
            (cluster.clone(), keys)
        });
        (turned.collect(), returned)
    }
}
