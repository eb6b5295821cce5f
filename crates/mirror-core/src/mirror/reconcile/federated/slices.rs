//! EndpointSlices of a federated Service that has members behind gateways: those of each gateway, and those of the local
//! member's Pods.
//!
//! Linkerd reads identity and authority of each slice (`port_publisher.go`), so one Service can span gateways and Pods.
//! It ignores the slices of a Service that names its members for discovery.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    failover::Preferred,
    members::{FederatedService, Members, SourceFields},
};
use crate::{
    api::{k8s::EndpointSlice, labels as l, preference::ClusterRef},
    mirror::{
        desired::{
            endpoints::{self, DesiredSlice, GatewayEndpoints, SlicePort, slice_metadata},
            service::Desired,
        },
        metadata::{ContentHash, DesiredMetadata, fq_name, is_our_slice},
        outcome::Problem,
        ownership::membership::{ClusterMembership, Form},
        state::State,
        target::Target,
        write::Write,
    },
};

/// Maximum number of endpoints in a slice of local Pods, the same as in slices of Kubernetes' own controller.
const ENDPOINTS: usize = 100;

impl Members<'_> {
    /// Plans the writes for its slices. Returns what is wrong with gateways, by cluster.
    pub(super) fn reconcile_slices(
        &self,
        fields: &SourceFields<'_>,
        preferred: &Preferred,
        writes: &mut Vec<Write>,
    ) -> BTreeMap<String, Problem> {
        let FederatedService {
            state, namespace, ..
        } = *self.of;
        let actual = state.local_slices(namespace, &self.of.name);
        let (mut problems, mut kept, mut members) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        for &cluster in &self.clusters {
            let Some(member) = self.memberships.get(cluster) else {
                kept.insert(Some(cluster)); // no Link is in charge of it now
                continue;
            };
            let own: Vec<_> = of_cluster(actual, cluster).collect();
            let turns = self.turns_to_slices() && self.of.named.contains(cluster);
            match through(state, member, &own, turns) {
                Ok(None) => {
                    kept.insert(Some(cluster));
                }
                Ok(Some(mut through)) => {
                    // A cluster that has failed over gets no endpoints, instead of endpoints that are not ready: while
                    // the gateway's liveness is unknown, readiness is copied from the existing endpoints.
                    through.backed &=
                        !preferred.has_failed_over(&ClusterRef::Linked(cluster.into()));
                    problems.extend(through.problem().map(|wrong| (cluster.to_owned(), wrong)));
                    members.push((cluster, self.behind(member.target, fields), through));
                }
                Err(problem) => {
                    problems.insert(cluster.to_owned(), problem);
                    kept.insert(Some(cluster));
                }
            }
        }
        let slices = members.iter().flat_map(|(cluster, service, through)| {
            let mut slices = endpoints::through_gateway(service, through, &format!("{cluster}-"));
            // The name with `-` could be that of a slice of the mirror of `web` of a cluster `federated-east`.
            let end = self.of.name.len();
            for slice in &mut slices {
                slice.name.replace_range(end..=end, ".");
            }
            slices
        });
        let mut desired: Vec<DesiredSlice<'_>> = slices.collect();
        let metadata = DesiredMetadata {
            labels: fields.labels.clone(),
            ..DesiredMetadata::default()
        };
        let local = self.with_metadata(metadata, fields);
        match self.of_local_pods(&local, preferred) {
            Some(slices) => desired.extend(slices),
            None => {
                kept.insert(None);
            }
        }
        let stays = |slice: &EndpointSlice| kept.contains(&cluster_of(slice));
        endpoints::reconcile_except(state, desired, actual, stays, writes);
        problems
    }

    /// Whether Linkerd discovers the endpoints of the members until now.
    fn turns_to_slices(&self) -> bool {
        self.of.form_until_now() == Some(Form::Discovery) && self.form == Form::Slices
    }

    /// The Service from which the slices of a gateway get their metadata and ports.
    fn behind<'s>(&'s self, target: &'s Target, fields: &'s SourceFields<'_>) -> Desired<'s> {
        let mut labels = fields.labels.clone();
        labels.insert(l::CLUSTER_NAME, target.cluster.as_str().into());
        let name = fq_name(self.of.service, self.of.namespace, &target.domain);
        let annotations = [(l::REMOTE_FQ_NAME, name.into())].into();
        let metadata = DesiredMetadata {
            labels,
            annotations,
        };
        self.with_metadata(metadata, fields)
    }

    /// The slices for the Pods of the local member. `None` to leave them as they are, because its slices are not known.
    fn of_local_pods<'s>(
        &'s self,
        local: &'s Desired<'_>,
        preferred: &Preferred,
    ) -> Option<Vec<DesiredSlice<'s>>> {
        if self.of.local.is_none() {
            return Some(Vec::new());
        }
        let known = self.of.state.member_slices()?;
        let pods = known.in_group(self.of.namespace, self.of.service).iter();
        let may_be_ready = !preferred.has_failed_over(&ClusterRef::Local);
        Some(
            pods.flat_map(|pods| of_pods(local, pods, may_be_ready))
                .collect(),
        )
    }

    fn with_metadata<'s>(
        &'s self,
        metadata: DesiredMetadata<'s>,
        fields: &'s SourceFields<'_>,
    ) -> Desired<'s> {
        Desired {
            installation: &self.of.state.config.namespace,
            namespace: self.of.namespace,
            name: &self.of.name,
            uid: self.of.uid(),
            metadata,
            ports: fields.ports,
            headless: false,
        }
    }
}

/// The cluster whose gateway a slice of ours leads to; `None` for slices of local Pods.
fn cluster_of(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.get(l::CLUSTER_NAME)
}

fn of_cluster<'a>(
    slices: &'a [Arc<EndpointSlice>],
    cluster: &'a str,
) -> impl Iterator<Item = &'a EndpointSlice> {
    slices
        .iter()
        .map(AsRef::as_ref)
        .filter(move |slice| is_our_slice(slice) && cluster_of(slice) == Some(cluster))
}

/// Whether a federated Service has any slice of ours.
pub(crate) fn exist(state: &State, namespace: &str, name: &str) -> bool {
    let mut slices = state.local_slices(namespace, name).iter();
    slices.any(|slice| state.writes_slice(slice))
}

/// The endpoints for a member. `None` to leave its slices as they are, even if there are none. `own` are its slices.
/// `turns`: Linkerd discovers the endpoints until now, so a member whose endpoints are not known keeps them.
fn through<'a>(
    state: &State,
    linked: &'a ClusterMembership<'a>,
    own: &[&EndpointSlice],
    turns: bool,
) -> Result<Option<GatewayEndpoints<'a>>, Problem> {
    let seen = linked.membership.seen();
    let known = seen.and_then(|service| linked.is_backed(service));
    let known = known.or_else(|| (turns && own.is_empty()).then_some(true));
    let present = own.iter().flat_map(|slice| &slice.endpoints);
    let backed = known.unwrap_or_else(|| present.clone().next().is_some());
    let gateway = &linked.entry.gateway;
    let through = GatewayEndpoints::of(state, linked.target, gateway, present, backed)?;
    let is_known = known.is_some() || !own.is_empty();
    Ok(is_known.then_some(through))
}

/// The slices with the endpoints of a slice of the local member. The endpoints are not ready if the local cluster has
/// failed over.
fn of_pods<'a>(
    service: &'a Desired<'_>,
    pods: &'a EndpointSlice,
    may_be_ready: bool,
) -> impl Iterator<Item = DesiredSlice<'a>> {
    let address_type = match &*pods.address_type {
        "IPv4" => Some("IPv4"),
        "IPv6" => Some("IPv6"),
        _ => None, // FQDN, which Linkerd does not resolve
    };
    let ports = pods.ports.iter().filter(|port| port.port.is_some());
    let ports: Vec<SlicePort<'_>> = ports.map(SlicePort::of).collect();
    let hash = ContentHash::of(pods.metadata.name().as_bytes());
    let metadata = slice_metadata(service, "");
    let chunks = pods.endpoints.chunks(ENDPOINTS).enumerate();
    chunks.filter_map(move |(number, endpoints)| {
        let mut endpoints = endpoints.to_vec();
        if !may_be_ready {
            for endpoint in &mut endpoints {
                endpoint.conditions.ready = Some(false);
            }
        }
        Some(DesiredSlice::new(
            service,
            &metadata,
            &format!("local-{hash}-{number}"),
            address_type?,
            endpoints,
            ports.clone(),
        ))
    })
}

#[cfg(test)]
mod tests;
