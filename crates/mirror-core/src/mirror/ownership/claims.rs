//! Claims: which object has a name, and which one may take a free name.
//!
//! Several objects can claim one name. `a` of cluster `b-c` and `a-b` of cluster `c` both map to `a-b-c`. Host names of
//! two headless Services may be equal. A cluster may be named `federated`. The object that has the name keeps it, so
//! that a ClusterIP never leads to another Service. A free name goes to the first claim in this order, whichever key is
//! planned first: federated Services, gateway Services, mirrors (the oldest Link first), hosts (the oldest Link first,
//! then by name of the headless Service).

use std::fmt;

use super::membership::has_member;
use crate::{
    api::k8s::{EndpointSlice, Service},
    mirror::{
        desired::service::mirrorable,
        key::Key,
        metadata::{Installation, is_managed, member_clusters},
        names::{GatewayService, NameOwner, Purpose, labelled, member_name},
        outcome::{Problem, Reason},
        state::{State, store::Indexed as _},
        target::export::MirrorMode,
    },
};

/// All ways to read a name as `<rest>-<cluster>`, as rest and cluster.
fn splits(name: &str) -> impl Iterator<Item = (&str, &str)> {
    name.match_indices('-')
        .map(|(at, _)| (&name[..at], &name[at + 1..]))
        .filter(|(rest, _)| !rest.is_empty())
}

impl State {
    /// To whom the name of a local Service belongs.
    pub(crate) fn name_owner<'a>(&self, service: &'a Service) -> NameOwner<'a> {
        let metadata = &service.metadata;
        match (labelled(service), self.installation_of(metadata)) {
            (NameOwner::Foreign, _) => NameOwner::Foreign,
            (_, Installation::Theirs(namespace)) => NameOwner::Theirs(namespace),
            (NameOwner::Purpose(Purpose::Federated(_)), Installation::Unclaimed)
                if is_managed(metadata) && !self.names_any(member_clusters(metadata)) =>
            {
                NameOwner::Unnamed
            }
            (known, _) => known,
        }
    }

    /// Whether a Link names, or may have named, one of these clusters. Also true if there are no clusters.
    fn names_any<'a>(&self, clusters: impl Iterator<Item = &'a str>) -> bool {
        let mut clusters = clusters.peekable();
        clusters.peek().is_none()
            || clusters.any(|cluster| self.link(cluster).is_some() || self.may_keep(cluster))
    }

    /// Whether a Service that is not ours has this name.
    pub(crate) fn is_foreign(&self, namespace: &str, name: &str) -> bool {
        self.existing(namespace, name).map_or_else(
            || {
                let slot = (namespace.to_owned(), name.to_owned());
                self.foreign.contains_key(&slot)
            },
            |actual| self.name_owner(actual) == NameOwner::Foreign,
        )
    }

    /// Whether `own` may have this name. If not, the problem says to whom the name belongs, or who has precedence.
    pub(crate) fn grants(
        &self,
        own: Purpose<'_>,
        namespace: &str,
        name: &str,
    ) -> Result<(), Problem> {
        let taken_by = |who: &dyn fmt::Display| {
            let message = format!("the name {namespace}/{name} is taken by {who}");
            Err(Problem::new(Reason::NameConflict, message))
        };
        let actual = self.existing(namespace, name);
        match actual.map(|actual| self.name_owner(actual)) {
            Some(NameOwner::Purpose(claim)) if claim == own => return Ok(()),
            Some(NameOwner::Stray) => {}
            Some(other) => return taken_by(&other),
            None => {
                let slot = (namespace.to_owned(), name.to_owned());
                if let Some(who) = self.foreign.get(&slot) {
                    return taken_by(who);
                }
            }
        }
        match self.first_claim(namespace, name) {
            Some(first) if first != own => taken_by(&first),
            _ => Ok(()),
        }
    }

    /// Whether there is a claim to this name.
    pub fn is_wanted(&self, namespace: &str, name: &str) -> bool {
        self.first_claim(namespace, name).is_some()
    }

    /// The claim to this name that has precedence, considering all that is known.
    pub(crate) fn first_claim<'a>(&'a self, namespace: &str, name: &'a str) -> Option<Purpose<'a>> {
        if let Some(service) = member_name(name)
            && has_member(self, namespace, service)
        {
            return Some(Purpose::Federated(service));
        }
        if namespace == self.config.namespace
            && let Some((service, link)) = GatewayService::parse(name)
            && let Some((target, _)) = self.active_link(link)
            && target.has(service)
        {
            return Some(Purpose::Gateway(service, link));
        }
        let mirrors = splits(name).filter_map(|(service, cluster)| {
            let (target, entry) = self.link(cluster)?;
            let seen = entry.remote.as_ref()?.service(namespace, service)?;
            self.mode(target, seen)?;
            if self.forbids(target, namespace).is_some() {
                return None;
            }
            mirrorable(seen).ok()?;
            Some((target.age(), Purpose::Mirror { cluster, service }))
        });
        if let Some((_, claim)) = mirrors.min_by_key(|(age, _)| *age) {
            return Some(claim);
        }
        let hosts = splits(name).filter_map(|(host, cluster)| {
            let service = self.first_with_host(namespace, host, cluster)?;
            let (target, _) = self.link(cluster)?;
            Some((
                target.age(),
                Purpose::Host {
                    cluster,
                    service,
                    host,
                },
            ))
        });
        hosts.min_by_key(|(age, _)| *age).map(|(_, claim)| claim)
    }

    /// The first headless Service, by name, of a cluster that has a ready host of this name.
    fn first_with_host(&self, namespace: &str, host: &str, cluster: &str) -> Option<&str> {
        let (target, entry) = self.link(cluster)?;
        let remote = entry.remote.as_ref()?;
        let may_have = target.headless && target.gateway.is_some();
        if !may_have || self.forbids(target, namespace).is_some() {
            return None;
        }
        remote
            .slices
            .iter()
            .flat_map(|store| store.with_host(namespace, host))
            .filter(|slice| has_ready_host(slice, host))
            .filter_map(|slice| slice.group())
            .filter(|service| {
                remote.service(namespace, service).is_some_and(|seen| {
                    seen.is_headless()
                        && self.mode(target, seen) == Some(MirrorMode::Gateway)
                        && mirrorable(seen).is_ok()
                })
            })
            .min()
    }

    /// Keys of all objects that may claim this name.
    pub fn keys_for_name(&self, namespace: &str, name: &str) -> Vec<Key> {
        let mut keys = Vec::new();
        keys.extend(member_name(name).map(|service| Key::federated(namespace, service)));
        if namespace == self.config.namespace
            && let Some(link) = GatewayService::link_of(name)
        {
            keys.push(Key::gateway(link));
        }
        for (rest, cluster) in splits(name) {
            let Some((target, entry)) = self.link(cluster) else {
                continue;
            };
            keys.push(Key::mirror(cluster, namespace, rest));
            let remote = entry.remote.as_ref().filter(|_| target.headless);
            let slices = remote
                .into_iter()
                .flat_map(|remote| &remote.slices)
                .flat_map(|store| store.with_host(namespace, rest));
            let services = slices.filter_map(|slice| slice.group());
            keys.extend(services.map(|service| Key::mirror(cluster, namespace, service)));
        }
        keys
    }
}

fn has_ready_host(slice: &EndpointSlice, host: &str) -> bool {
    slice
        .endpoints
        .iter()
        .any(|endpoint| endpoint.is_ready() && endpoint.hostname.as_deref() == Some(host))
}

#[cfg(test)]
mod tests;
