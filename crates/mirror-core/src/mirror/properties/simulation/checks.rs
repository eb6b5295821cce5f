//! What must hold for each write, and when the controller is at rest.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        cluster::{Cluster, Id, JUNK},
        operations::{self, CLUSTERS},
    },
    LOOPBACK, Simulation, linkerd,
    policy::is_protected,
    watches::{is_mirror, is_probe},
};
use crate::{
    api::{k8s::EndpointSlice, labels as l, members::MEMBERS, metadata::Metadata},
    mirror::{
        Confirmed, FederatedThrough, Indexed as _, Key, Outcome, Owner, ServiceOutcome, Write,
        desired::service::mirrorable,
        federated_name,
        fixtures::{LINKS, NS},
        metadata::{installation, is_managed, is_our_slice, remote_members},
        names::{NameOwner, member_name, without_suffix},
        owner,
        ownership::membership::Form,
        plan,
    },
};

/// The endpoints in a federated Service, each with its cluster. A cluster with `None` is a member. Local Pods have an
/// empty name as their cluster.
pub(crate) type Shares = BTreeSet<(String, Option<String>)>;

/// Checks that a patch keeps what others have added to an object, if the object says which keys are copied.
pub(crate) fn keys_of_others_stay(before: &Metadata, after: &Metadata) {
    if !before.annotations.contains_key(l::COPIED_KEYS) {
        return;
    }
    let of = |metadata: &Metadata| {
        [&metadata.labels, &metadata.annotations].map(|keys| keys.contains_key(JUNK))
    };
    assert_eq!(of(after), of(before), "{before:?}");
}

impl Simulation {
    /// Checks that a federated Service loses no cluster that cannot be seen, and none that has a member.
    pub(crate) fn names_stay(&self, before: &Metadata, after: Option<&Metadata>) {
        if owner(before) != Owner::Federated {
            return;
        }
        self.last_member_stays(before, after);
        let tokens = |metadata: &Metadata| -> BTreeSet<(String, String)> {
            let owned = |(service, cluster): (&str, &str)| (service.to_owned(), cluster.to_owned());
            remote_members(metadata).map(owned).collect()
        };
        let names = after.map(tokens).unwrap_or_default();
        for (service, cluster) in tokens(before).difference(&names) {
            let name = before.name.as_deref().unwrap_or_default();
            if name != federated_name(service) {
                continue;
            }
            let namespace = before.namespace.as_deref().unwrap_or_default();
            let Some((target, entry)) = self.state.link(cluster) else {
                self.may_be_collected(cluster, before);
                continue;
            };
            if !self.may_join(cluster, namespace, service) {
                continue; // it may leave, whatever is known of the cluster
            }
            if self.may_be_drained(cluster, namespace, service) {
                continue; // likewise
            }
            // In a Service that is made of slices, each remote member needs a gateway.
            let is_flat =
                after.is_some_and(|after| after.annotations.contains_key(l::REMOTE_DISCOVERY));
            if target.gateway.is_none() && !is_flat {
                continue;
            }
            if target.gateway.is_none() && target.federated_through == FederatedThrough::Gateway {
                continue;
            }
            let token = format!("{service}@{cluster}");
            let Some(remote) = &entry.remote else {
                panic!("{token} lost, its cluster cannot be seen");
            };
            let known = remote.service(namespace, service);
            assert!(
                known.is_some() || !remote.may_omit(namespace, service),
                "{token} lost to a limit"
            );
            let id = (namespace.to_owned(), service.clone());
            let far = self.far.get(cluster).and_then(|far| far.services.get(&id));
            let joins = far.is_some_and(|s| {
                // A Service that the controller knows as unfit may have changed since.
                self.state.member(target, s)
                    && !s.is_headless()
                    && mirrorable(s).is_ok()
                    && known.is_none_or(|known| known.metadata.version() == s.metadata.version())
            });
            assert!(!joins, "{token} lost, and it is a member");
        }
    }

    /// Checks that a federated Service loses the last member that serves it only if no cluster could serve it. While a
    /// cluster waits until it may join, a Service may be without members, but it keeps its `ClusterIP`.
    fn last_member_stays(&self, before: &Metadata, after: Option<&Metadata>) {
        let Some(service) = member_name(before.name()) else {
            return;
        };
        let id = (before.namespace(), service);
        let is_served = |metadata: &Metadata| {
            let mut local = MEMBERS.iter().map(|[_, local]| local);
            let is_flat = metadata.annotations.contains_key(l::REMOTE_DISCOVERY);
            let form = if is_flat {
                Form::Discovery
            } else {
                Form::Slices
            };
            local.any(|key| metadata.annotations.contains_key(key))
                || remote_members(metadata).any(|(_, of)| {
                    self.could_serve(of, id, Some(form)) || self.serves_unseen(of, id)
                })
        };
        if after.is_some_and(is_served) {
            return;
        }
        let mut could: Vec<&str> = CLUSTERS.to_vec();
        could.retain(|cluster| {
            self.could_serve(cluster, id, None)
                && self.is_up_to_date(cluster, before.namespace(), service)
        });
        if after.is_some() {
            could.retain(|cluster| remote_members(before).any(|(_, named)| named == *cluster));
        }
        assert!(
            could.is_empty(),
            "{could:?} could serve {before:?}: {after:?}"
        );
    }

    /// Checks that at rest each federated Service exists that a cluster could serve which need not wait.
    pub(crate) fn is_served(&self) {
        for cluster in CLUSTERS {
            let is_new = |(_, entry)| self.state.is_new(entry);
            if !self.could_serve(cluster, (NS, "a"), None)
                || self.state.link(cluster).is_none_or(is_new)
            {
                continue;
            }
            let id = (NS.to_owned(), federated_name("a"));
            assert!(self.cluster.services.contains_key(&id), "{cluster}");
        }
    }

    /// What other clusters have in the federated Services: the form of each Service, and its members and endpoints
    /// that are not of this cluster.
    pub(crate) fn shares_beside(&self, cluster: &str) -> BTreeMap<Id, (Form, Shares)> {
        let services = self.cluster.services.iter();
        let federated = services.filter(|(_, s)| owner(&s.metadata) == Owner::Federated);
        let shares = federated.map(|(id, service)| {
            let mut shares = Shares::new();
            let members = remote_members(&service.metadata).map(|(_, of)| of);
            shares.extend(members.map(|of| (of.to_owned(), None)));
            let slices = self.cluster.slices.values();
            let own = slices.filter(|slice| {
                let of = (
                    slice.metadata.namespace(),
                    slice.group().unwrap_or_default(),
                );
                of == (&*id.0, &*id.1) && is_our_slice(slice)
            });
            for slice in own {
                let of = slice
                    .metadata
                    .labels
                    .get(l::CLUSTER_NAME)
                    .unwrap_or_default();
                shares.extend(slice.endpoints.iter().map(|endpoint| {
                    let at = format!("{:?} ready={}", endpoint.addresses, endpoint.is_ready());
                    (of.to_owned(), Some(at))
                }));
            }
            shares.retain(|(of, _)| of != cluster);
            (id.clone(), (Form::of(service), shares))
        });
        shares.collect()
    }

    /// Checks that objects of a cluster without a Link in charge are removed only if no other Link may have created
    /// them.
    pub(crate) fn may_be_collected(&self, cluster: &str, what: &Metadata) {
        if is_protected(what.namespace()) {
            return; // nothing may exist here, whichever Link it belongs to
        }
        for (name, linked) in &self.links {
            let listed = linked.listed.as_deref();
            let named = linked.made.named();
            let waits = |to: &str| {
                let in_charge = self.state.link(to);
                in_charge.is_none_or(|(_, entry)| entry.remote.is_none())
            };
            let kept = match (linked.made.form, named) {
                (operations::Form::Valid, Some(to)) => {
                    listed == Some(cluster) && to != cluster && waits(to)
                }
                (_, None) if listed.is_none() => true,
                _ => named == Some(cluster) || listed == Some(cluster),
            };
            assert!(!kept, "{name} may be the Link of {cluster}: {what:?}");
        }
    }

    /// Checks that a mirror, an endpoint mirror or a federated Service may be deleted.
    pub(crate) fn may_go(&self, before: &Metadata) {
        if let Owner::Mirror(cluster) | Owner::EndpointMirror(cluster, _) = owner(before)
            && self.state.link(cluster).is_none()
        {
            // If the name is not that of a mirror of the cluster, somebody has changed the label: the Service has no
            // purpose.
            if without_suffix(before.name(), cluster).is_some() {
                self.may_be_collected(cluster, before);
            }
            // Somebody may have removed its annotation since the controller saw it last.
            let known = self.state.existing(before.namespace(), before.name());
            let installation = known.and_then(|known| installation(&known.metadata));
            assert_eq!(
                installation,
                Some(LINKS),
                "not of this installation: {before:?}"
            );
        }
        self.names_stay(before, None);
    }

    /// A copy with the same target clusters and the objects of other people, but without our objects.
    pub(crate) fn emptied(&self) -> Self {
        let mut anew = self.clone();
        let Cluster {
            strangers,
            services,
            ..
        } = &mut anew.cluster;
        services.retain(|_, service| {
            strangers.contains(service.metadata.uid.as_deref().unwrap_or_default())
        });
        anew.cluster.slices.clear();
        anew.cluster.endpoints.clear();
        anew.linkerd.clear();
        anew.restart();
        anew
    }

    /// Whether each existing object has the first claim to its name. This is false for an object of ours that we cannot
    /// see any more because it lost its label, and for one that cannot be recognized as ours because it lost its
    /// annotations.
    pub(crate) fn is_in_line(&self) -> bool {
        self.cluster
            .services
            .iter()
            .all(|((namespace, name), service)| {
                let first = self.state.first_claim(namespace, name);
                match self.state.name_owner(service) {
                    NameOwner::Purpose(claim) => first == Some(claim),
                    NameOwner::Stray | NameOwner::Unnamed => false,
                    NameOwner::Theirs(_) | NameOwner::Foreign => self
                        .cluster
                        .strangers
                        .contains(service.metadata.uid.as_deref().unwrap_or_default()),
                }
            })
    }

    /// Our existing objects that the controller can see.
    pub(crate) fn ours(&self) -> Vec<String> {
        let services = self
            .cluster
            .services
            .iter()
            .filter(|(_, s)| is_mirror(*s) || is_probe(*s));
        let ours =
            |metadata: &Metadata| is_managed(metadata) && installation(metadata) == Some(LINKS);
        let services = services
            .filter(|(_, s)| ours(&s.metadata))
            .map(|(id, _)| id);
        let slices = self
            .cluster
            .slices
            .iter()
            .filter(|(_, s)| is_mirror(*s) || is_probe(*s));
        // Slices of a Service that no longer names its installation stay with the Service.
        let left = |slice: &EndpointSlice| {
            let service = slice.group().unwrap_or_default().to_owned();
            let id = (slice.metadata.namespace().to_owned(), service);
            let service = self.cluster.services.get(&id);
            service.is_some_and(|s| is_managed(&s.metadata) && installation(&s.metadata).is_none())
        };
        let slices = slices
            .filter(|(_, slice)| ours(&slice.metadata) && !left(slice))
            .map(|(id, _)| id);
        let routes = self.cluster.routes.iter();
        let routes = routes
            .filter(|(_, route)| ours(&route.metadata))
            .map(|((_, id), _)| id);
        services
            .chain(slices)
            .chain(routes)
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect()
    }

    /// Checks that at rest no key has anything to write, neither for this controller nor for a new one, and that the
    /// last report for each Service still holds.
    pub(crate) fn is_settled(&self) {
        self.nothing_stands_where_it_may_not();
        self.gateways_are_followed();
        self.hold_downs_end();
        self.nothing_is_left_of_preferences();
        self.only_local_members_and_links_prefer();
        let mut keys: BTreeSet<Key> = self.state.keys().into_iter().collect();
        for (cluster, far) in &self.far {
            for id in far.services.keys().chain(far.slices.keys()) {
                keys.insert(Key::mirror(cluster, &id.0, &id.1));
                keys.insert(Key::federated(&id.0, &id.1));
            }
        }
        let mut fresh = self.fresh_world();
        fresh.foreign.clone_from(&self.state.foreign);
        keys.extend(fresh.keys());
        let mut said = BTreeMap::new();
        let answering = CLUSTERS.into_iter().filter(|of| Some(*of) != self.silent);
        let answering = answering.map(str::to_owned).collect();
        let confirmed = Confirmed::By(&answering);
        for key in &keys {
            let again = plan(&self.state, key, confirmed);
            assert_eq!(again.writes, [], "{key} was not worked on");
            let anew = plan(&fresh, key, confirmed);
            let stripped = |write: &Write| {
                // An object that lost the label that we watch is invisible until a write uses its name.
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
            for ServiceOutcome {
                remote,
                federated,
                report,
            } in again.report
            {
                if !matches!(report, Outcome::Absent | Outcome::Unknown) {
                    said.insert((remote, federated), report);
                } else if report == Outcome::Absent {
                    let about = (remote, federated);
                    assert_eq!(self.reports.get(&about), None, "{about:?} is absent");
                }
            }
        }
        for (about, report) in said {
            assert_eq!(self.reports.get(&about), Some(&report), "of {about:?}");
        }
        for slice in self.cluster.slices.values() {
            let mut addresses = slice.endpoints.iter().flat_map(|e| &e.addresses);
            assert!(addresses.all(|a| **a != *LOOPBACK), "{slice:?}");
        }
        for route in self.cluster.routes.values() {
            if !is_managed(&route.metadata) {
                continue;
            }
            for backend in route.backends() {
                let id = (route.metadata.namespace().to_owned(), backend.to_owned());
                let is_there =
                    self.cluster.services.contains_key(&id) || self.members.contains_key(&id);
                assert!(
                    is_there,
                    "requests go to {id:?}, which is not there: {route:?}"
                );
            }
        }
        let slices = || self.cluster.slices.values();
        let ours = slices().filter(|slice| is_our_slice(slice));
        let (known, all, mut ours) = (&self.linkerd, linkerd::said(slices()), linkerd::said(ours));
        // Linkerd ignores the slices of a Service whose members it discovers.
        ours.retain(|id, _| !self.cluster.is_discovered(id));
        // Only our slices are compared. Of slices that others created, Linkerd may have forgotten an address: one that
        // a slice of ours had too, until Kubernetes deleted that slice as garbage.
        for (id, endpoints) in ours {
            let known = known.get(&id).cloned().unwrap_or_default();
            let forgotten: Vec<_> = endpoints.difference(&known).collect();
            assert_eq!(forgotten, [""; 0], "forgotten by Linkerd, of {id:?}");
        }
        for (id, endpoints) in known {
            let all = all.get(id).cloned().unwrap_or_default();
            let gone: Vec<_> = endpoints.difference(&all).collect();
            assert_eq!(gone, [""; 0], "gone, and Linkerd has them of {id:?}");
        }
    }
}
