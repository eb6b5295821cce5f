//! Services whose requests concern a problem that a check has found: `check` leads to `diagnose` of one of them.

use mirror_core::{
    api::{k8s::Service, labels, link::ServiceCondition, metadata::ResourceId},
    mirror::{Reason, federated_name, mirror_name},
};

use super::services::{gateway_problem, has_own_endpoints, waiting};
use crate::clusters::snapshot::FullSnapshot;

/// A mirror behind a gateway that has a problem.
pub fn behind_gateways(snapshot: &FullSnapshot) -> Option<ResourceId> {
    let links = snapshot.links().iter().filter(|link| link.has_gateway());
    let mut broken = links.filter(|link| gateway_problem(snapshot, link).is_some());
    broken.find_map(|link| {
        let mut mirrors = mirrors(snapshot);
        let is_behind =
            |mirror: &&Service| mirror.metadata.label(labels::CLUSTER_NAME) == link.cluster();
        mirrors
            .find(is_behind)
            .map(|found| found.metadata.resource_id())
    })
}

/// A mirror without endpoints.
pub fn without_endpoints(snapshot: &FullSnapshot) -> Option<ResourceId> {
    let endpoints = snapshot.endpoints.as_ref().ok()?;
    let mut ids = mirrors(snapshot).map(|mirror| mirror.metadata.resource_id());
    ids.find(|id| endpoints.of(id).total == 0)
}

/// The mirrors that have endpoints in this cluster.
fn mirrors(snapshot: &FullSnapshot) -> impl Iterator<Item = &Service> {
    let mirrors = snapshot.mirrors.iter().flatten();
    mirrors.filter(|mirror| has_own_endpoints(mirror))
}

/// A Service that is not mirrored, or is no member, by the name that it would have here.
pub fn not_mirrored(snapshot: &FullSnapshot) -> Option<ResourceId> {
    snapshot.links().iter().find_map(|link| {
        let status = link.status()?;
        let lists = [
            (&status.mirror_services, false),
            (&status.federated_services, true),
        ];
        lists.into_iter().find_map(|(list, is_federated)| {
            let is_named = |said: &ServiceCondition| said.reason != Reason::NameConflict.as_str();
            let (service, _) = waiting(list).find(|(_, said)| is_named(said))?;
            let remote = &service.remote_ref;
            let name = if is_federated {
                federated_name(&remote.name)
            } else {
                mirror_name(&remote.name, link.cluster())
            };
            Some(ResourceId::new(&remote.namespace, &name))
        })
    })
}
