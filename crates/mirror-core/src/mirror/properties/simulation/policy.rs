//! What the import policy allows, computed without the core: from the settings of each Link, and from the namespaces as
//! the controller sees them.

use super::{
    super::operations::{
        Allowed, CLUSTERS, DRAINED_UNTIL, LinkMade, PROTECTED, TEAMS, TRUST_DOMAIN,
    },
    Simulation,
};
use crate::{
    api::{k8s::Service, labels as l, map::Map},
    mirror::{
        FederatedThrough, Federation, Owner, Target, federated_name,
        fixtures::{LINKS, NS, at},
        member,
        metadata::remote_members,
        names::{NameOwner, Purpose, without_suffix},
        owner,
        ownership::membership::Form,
    },
};

/// Label of namespaces.
const TEAM: &str = "team";

/// Whether a namespace may contain only probe Services.
pub(crate) fn is_protected(namespace: &str) -> bool {
    namespace == LINKS || namespace == PROTECTED
}

/// Whether a Service is of a kind that can be a member.
fn can_be_member(service: &Service) -> bool {
    let spec = &service.spec;
    let external = spec.type_.as_deref() == Some("ExternalName");
    !service.is_headless() && !spec.ports.is_empty() && !external
}

/// Whether a Service of a target cluster is exported to this cluster, if it is exported at all.
pub(crate) fn is_exported_here(service: &Service) -> bool {
    let to = service.metadata.annotations.get(l::EXPORT_TO);
    to.is_none_or(|to| to == TRUST_DOMAIN)
}

impl Simulation {
    /// Somebody sets the team of a namespace, or removes it.
    pub(crate) fn label(&mut self, namespace: &str, team: Option<usize>) {
        let team = team.map(|team| TEAMS[team]);
        let changed = self.cluster.label_namespace(namespace, TEAM, team);
        self.watched(changed);
    }

    /// Whether a target cluster that has a Link in charge may mirror into a namespace.
    fn may_mirror(&self, cluster: &str, namespace: &str) -> bool {
        let known = self.state.namespace(namespace);
        let team = known.and_then(|known| known.labels.get(TEAM));
        let Some((target, _)) = self.state.link(cluster) else {
            return true;
        };
        let allows = match self.links[&target.link].made.allowed {
            Allowed::All => true,
            Allowed::Team => team == Some(TEAMS[0]),
            Allowed::NoTeam => team.is_none(),
            Allowed::Name => namespace == NS,
        };
        allows && !is_protected(namespace)
    }

    fn has_local_member(&self, namespace: &str, service: &str) -> bool {
        let here = self.state.local.as_ref().unwrap();
        let local = here.members.get(namespace, service);
        local.is_some_and(|local| can_be_member(local))
    }

    /// Whether a target cluster may join this federated Service.
    pub(crate) fn may_join(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        let Some((target, _)) = self.state.link(cluster) else {
            return true;
        };
        let joins = match self.links[&target.link].made.federation {
            Federation::Any => true,
            Federation::LocalMembers => self.has_local_member(namespace, service),
            Federation::None => false,
        };
        joins && self.may_mirror(cluster, namespace)
    }

    /// Whether a target cluster is drained, and leaves a federated Service without being asked, because another member
    /// takes part.
    pub(crate) fn may_be_drained(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        let is_drained = |cluster: &str| {
            let before_its_end = self.state.now < at(DRAINED_UNTIL);
            let link = self.state.link(cluster);
            link.is_some_and(|(target, _)| self.links[&target.link].made.drained && before_its_end)
        };
        let made = |cluster: &str| {
            let link = self.state.link(cluster);
            link.map(|(target, _)| &self.links[&target.link].made)
        };
        let has_member = |other: &str| {
            self.may_join(other, namespace, service) && self.has_member(other, namespace, service)
        };
        // Where one member comes through a gateway, all others need one.
        let is_behind_gateway = |other: &str| {
            let through =
                |made: &LinkMade| made.gateway && made.through == FederatedThrough::Gateway;
            let counts = has_member(other) || self.is_leaving(other, namespace, service);
            made(other).is_some_and(through) && counts
        };
        let by_gateways = CLUSTERS.iter().any(|other| is_behind_gateway(other));
        let takes_part = |other: &str| {
            let has_gateway = made(other).is_some_and(|made| made.gateway);
            let needs_gateway =
                by_gateways || made(other).is_some_and(|m| m.through == FederatedThrough::Gateway);
            // Linkerd may not know it yet.
            let link = self.state.link(other);
            let is_new = link.is_some_and(|(_, entry)| self.state.is_new(entry));
            let known = self.state.existing(namespace, &federated_name(service));
            let by_slices =
                by_gateways || known.is_some_and(|known| Form::of(known) == Form::Slices);
            let waits = is_new && !by_slices && !self.is_named(other, namespace, service);
            let is_discovered =
                by_slices || needs_gateway || made(other).is_some_and(LinkMade::is_discovered);
            !is_drained(other)
                && !waits
                && has_member(other)
                && (has_gateway || !needs_gateway)
                && is_discovered
        };
        is_drained(cluster)
            && (self.has_local_member(namespace, service)
                || CLUSTERS.iter().any(|other| takes_part(other)))
    }

    /// Whether a target cluster could serve a federated Service, for all that the controller has seen: it has a member, may
    /// join, and can be reached. It may be drained, or so new that Linkerd does not know it yet.
    /// `form`: the form of the federated Service; `None` for the one that the Link asks for.
    pub(crate) fn could_serve(
        &self,
        cluster: &str,
        (namespace, service): (&str, &str),
        form: Option<Form>,
    ) -> bool {
        let Some((target, _)) = self.state.link(cluster) else {
            return false;
        };
        let made = &self.links[&target.link].made;
        let asked = match made.through {
            FederatedThrough::Gateway => Form::Slices,
            FederatedThrough::Discovery => Form::Discovery,
        };
        let is_reached = match form.unwrap_or(asked) {
            Form::Slices => made.gateway,
            Form::Discovery => made.is_discovered(),
        };
        is_reached
            && self.has_member(cluster, namespace, service)
            && self.may_join(cluster, namespace, service)
    }

    /// Whether a target cluster that was not listed since a restart has a member. It keeps its place and its endpoints.
    pub(crate) fn serves_unseen(&self, cluster: &str, (namespace, service): (&str, &str)) -> bool {
        let id = (namespace.to_owned(), service.to_owned());
        let live = self.far.get(cluster).and_then(|far| far.services.get(&id));
        let unseen = self
            .state
            .link(cluster)
            .filter(|(_, entry)| entry.remote.is_none());
        let has_it = |target: &Target| {
            live.is_some_and(|live| member(target, live) && is_exported_here(live))
        };
        unseen.is_some_and(|(target, _)| has_it(target))
    }

    /// A Service of a target cluster as the controller has seen it, and its cluster.
    fn seen(&self, cluster: &str, namespace: &str, service: &str) -> Option<(&Target, &Service)> {
        let (target, entry) = self.state.link(cluster)?;
        Some((target, entry.remote.as_ref()?.service(namespace, service)?))
    }

    /// Whether a target cluster has a member, for all that the controller has seen.
    fn has_member(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        let seen = self.seen(cluster, namespace, service);
        seen.is_some_and(|(target, seen)| {
            member(target, seen) && can_be_member(seen) && is_exported_here(seen)
        })
    }

    /// Whether the controller has seen the last version of a Service of a target cluster.
    pub(crate) fn is_up_to_date(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        let id = (namespace.to_owned(), service.to_owned());
        let live = self.far.get(cluster).and_then(|far| far.services.get(&id));
        let seen = self.seen(cluster, namespace, service);
        let version = |service: &Service| service.metadata.version();
        live.map(version) == seen.map(|(_, seen)| version(seen))
    }

    /// Whether the silent cluster is named as a member without having one: until it confirms this, the form of the
    /// federated Service depends on it too.
    fn is_leaving(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        self.silent == Some(cluster)
            && self.is_named(cluster, namespace, service)
            && self.may_join(cluster, namespace, service)
    }

    /// Whether a federated Service names a cluster as a member.
    fn is_named(&self, cluster: &str, namespace: &str, service: &str) -> bool {
        let known = self.state.existing(namespace, &federated_name(service));
        known.is_some_and(|known| {
            let mut members = remote_members(&known.metadata);
            members.any(|named| named == (service, cluster))
        })
    }

    fn any_lacks_gateway(&self) -> bool {
        let mut links = self.links.values().map(|linked| &linked.made);
        links.any(|made| !made.gateway && made.through == FederatedThrough::Gateway)
    }

    /// Checks that a Service may be created.
    pub(crate) fn may_stand(&self, service: &Service) {
        let metadata = &service.metadata;
        let namespace = metadata.namespace();
        if let Owner::Mirror(cluster) = owner(metadata)
            && let Some(exported) = without_suffix(metadata.name(), cluster)
            && let Some((_, seen)) = self.seen(cluster, namespace, exported)
        {
            assert!(is_exported_here(seen), "{metadata:?}");
        }
        match owner(metadata) {
            Owner::Mirror(cluster) | Owner::EndpointMirror(cluster, _) => {
                assert!(self.may_mirror(cluster, namespace), "{metadata:?}");
            }
            Owner::Federated => {
                assert!(!is_protected(namespace), "{metadata:?}");
                for (member, cluster) in remote_members(metadata) {
                    assert!(self.may_join(cluster, namespace, member), "{metadata:?}");
                }
            }
            Owner::Gateway(_) | Owner::Foreign => {}
        }
    }

    /// Checks that a namespace may be created.
    pub(crate) fn may_be_created(&self, name: &str, labels: &Map) {
        let cluster = labels.get(l::CLUSTER_NAME).unwrap_or_default();
        assert!(self.may_mirror(cluster, name), "{name} for {cluster}");
        let namespaces = self.cluster.namespaces.values();
        let created = namespaces.filter(|known| known.labels.get(l::CLUSTER_NAME) == Some(cluster));
        let max = self.state.config.max_namespaces;
        assert!(created.count() < max, "more than {max} for {cluster}");
    }

    /// Checks that at rest all objects of a target cluster are in namespaces that its Link allows, and that the cluster
    /// is only in federated Services that it may join.
    pub(crate) fn nothing_stands_where_it_may_not(&self) {
        for ((namespace, name), service) in &self.cluster.services {
            let NameOwner::Purpose(claim) = self.state.name_owner(service) else {
                continue;
            };
            match claim {
                Purpose::Mirror { cluster, .. } | Purpose::Host { cluster, .. } => {
                    assert!(self.may_mirror(cluster, namespace), "{namespace}/{name}");
                }
                Purpose::Federated(own) => {
                    for (member, cluster) in remote_members(&service.metadata) {
                        let joins = member == own && self.state.link(cluster).is_some();
                        let may = !joins || self.may_join(cluster, namespace, member);
                        // A member whose Link lost its gateway keeps its endpoints, and the Service keeps its form.
                        // Then no member without a gateway can take part, and a drained cluster may have to stay.
                        let drained = self.may_be_drained(cluster, namespace, member);
                        let may = may && (!drained || self.any_lacks_gateway());
                        assert!(may, "{namespace}/{name}: {member}@{cluster}");
                    }
                }
                Purpose::Gateway(..) => {}
            }
        }
    }
}
