//! Headless Services: a headless mirror, and one ClusterIP Service for each named host behind it.
//!
//! The hosts of a StatefulSet are reached by name. Each ready host gets an endpoint mirror, which leads to it through
//! the gateway. The headless mirror's endpoints map the host's name to its endpoint mirror.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    super::service::reconcile_service, context::MirrorContext, plain::plain, unseen::follow,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{
        desired::{
            endpoints::{self, GatewayEndpoints, HostEndpoint, SlicePort},
            service::{self, Desired},
        },
        metadata::{DesiredMetadata, desired::DesiredEntries, fq_name},
        names::{Purpose, endpoint_mirror_name, fits},
        outcome::{Outcome, Problem},
        target::export::MirrorMode,
        write::Write,
    },
};

/// Ports as the target cluster's slice has them, sorted; a key, so that hosts with equal ports share a slice.
type Ports<'a> = Vec<SlicePort<'a>>;

/// The plan for a headless Service of a Link that mirrors headless Services as headless ones.
pub(crate) fn plan(
    context: &MirrorContext<'_>,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    if let Some(problem) = context.omitted_slices() {
        return keep_hosts(context, problem, writes);
    }
    let slices: Vec<&EndpointSlice> = context.remote_slices().collect();
    if slices.is_empty() && context.local.is_none() {
        return Ok(Outcome::Unknown); // its hosts decide its form, and have not been seen yet
    }
    if !has_hosts(&slices, context.local) {
        return plain(context, MirrorMode::Gateway, writes);
    }
    let desired = context.mirror(MirrorMode::Gateway, true);
    if context.replace(&desired, writes) {
        return Ok(Outcome::Unknown);
    }
    match context.through() {
        Ok(through) => by_host(context, &desired, &through, &ready_hosts(&slices), writes),
        Err(problem) => {
            context.reconcile(&desired, None, writes);
            Err(problem)
        }
    }
}

/// Some hosts may be unknown, so all hosts stay as they are.
fn keep_hosts(
    context: &MirrorContext<'_>,
    problem: Problem,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    let gateway = (context.target, context.gateway);
    writes.extend(follow(context.state, gateway, &context.this()));
    match context.local {
        None => Err(problem),
        Some(_) => Ok(context.mirrored(Some(problem))),
    }
}

/// Plans the headless mirror, and an endpoint mirror for each host.
fn by_host(
    context: &MirrorContext<'_>,
    desired: &Desired<'_>,
    through: &GatewayEndpoints<'_>,
    hosts: &BTreeMap<&str, Ports<'_>>,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    let mut endpoint_mirrors = Vec::new();
    let mut kept = BTreeSet::new();
    let mut problems: Vec<Problem> = through.problem().into_iter().collect();
    let mut groups: BTreeMap<&Ports<'_>, Vec<HostEndpoint<'_>>> = BTreeMap::new();
    for (host, ports) in hosts {
        match context.endpoint_mirror(host, through, &mut endpoint_mirrors) {
            Err(problem) => problems.push(problem),
            Ok((mirror, address)) => {
                kept.insert(mirror);
                if let Some(address) = address {
                    let group = groups.entry(ports).or_default();
                    group.push((*host, address, through.ready));
                }
            }
        }
    }
    let actual = context.local_slices();
    let groups = groups.into_iter().enumerate();
    let slices = groups.flat_map(|(index, (ports, hosts))| {
        endpoints::by_host(desired, through.identity, index, &hosts, ports, actual)
    });
    context.reconcile(desired, Some(slices.collect()), writes);
    // Removals come first: new endpoint mirrors may need the ClusterIPs that they free.
    context.drop_endpoint_mirrors(|mirror| kept.contains(mirror), writes);
    writes.append(&mut endpoint_mirrors);
    let joined = problems.into_iter().reduce(|first, next| Problem {
        message: format!("{}; {}", first.message, next.message),
        ..first
    });
    joined.map_or_else(|| Ok(context.mirrored(None)), Err)
}

/// Whether the Service is mirrored by host: some endpoint, ready or not, has a host name. While there are no endpoints
/// at all, the mirror keeps its form, so that scaling to zero and back changes nothing.
fn has_hosts(slices: &[&EndpointSlice], local: Option<&Service>) -> bool {
    let mut endpoints = slices.iter().flat_map(|slice| &slice.endpoints).peekable();
    if endpoints.peek().is_none() {
        return local.is_none_or(Service::is_headless);
    }
    endpoints.any(|endpoint| endpoint.hostname.is_some())
}

/// Ready hosts by name, each with its ports. A host of a dual-stack Service is in two slices. If their ports differ,
/// the host gets the ports that sort first.
fn ready_hosts<'a>(slices: &[&'a EndpointSlice]) -> BTreeMap<&'a str, Ports<'a>> {
    let mut by_ports: Vec<_> = slices.iter().map(|slice| (ports(slice), *slice)).collect();
    by_ports.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut hosts = BTreeMap::new();
    for (ports, slice) in &by_ports {
        let ready = slice.endpoints.iter().filter(|e| e.is_ready());
        for host in ready.filter_map(|endpoint| endpoint.hostname.as_deref()) {
            hosts.entry(host).or_insert_with(|| ports.clone());
        }
    }
    hosts
}

/// The ports of a slice, sorted.
fn ports(slice: &EndpointSlice) -> Ports<'_> {
    let mut ports: Ports<'_> = slice.ports.iter().map(SlicePort::of).collect();
    ports.sort();
    ports
}

impl MirrorContext<'_> {
    /// Plans the endpoint mirror of one host. Returns its name, and its address once it has one.
    fn endpoint_mirror(
        &self,
        host: &str,
        through: &GatewayEndpoints<'_>,
        writes: &mut Vec<Write>,
    ) -> Result<(String, Option<IpAddr>), Problem> {
        let Self {
            state,
            target,
            namespace,
            ..
        } = self;
        let name = fits(endpoint_mirror_name(host, &target.cluster))?;
        let actual = state.existing(namespace, &name);
        self.claim(host, &name)?;

        let mut labels = service::mirrored_labels(target, self.service);
        labels.insert(l::HEADLESS_MIRROR, self.name.as_str().into());
        let service = fq_name(self.remote_name(), namespace, &target.domain);
        let fq_name = format!("{host}.{service}");
        let mut annotations = DesiredEntries::from([(l::REMOTE_FQ_NAME, fq_name.as_str().into())]);
        if let Some(opaque) = self.service.metadata.annotations.get(l::OPAQUE_PORTS) {
            annotations.insert(l::OPAQUE_PORTS, opaque.into());
        }
        let metadata = DesiredMetadata {
            labels,
            annotations,
        };
        let ports = &self.service.spec.ports;
        let version = self.service.metadata.resource_version.as_deref();
        let installation = &state.config.namespace;
        let mut desired = service::build(installation, namespace, &name, metadata, ports, false)
            .of_version(version);
        if let Some(actual) = actual.filter(|actual| actual.is_headless()) {
            writes.push(Write::delete_service(actual)); // created again in the next pass
            return Ok((name, None));
        }
        desired.uid = actual.and_then(|actual| actual.metadata.uid.as_deref());
        let slices = endpoints::through_gateway(&desired, through, "");
        let actual_slices = state.local_slices(namespace, &name);
        let cluster = &target.cluster;
        reconcile_service(
            state,
            &desired,
            Some(slices),
            actual_slices,
            cluster,
            writes,
        );
        let address = actual
            .and_then(|s| s.spec.cluster_ip.as_deref())
            .and_then(|ip| ip.parse().ok());
        Ok((name, address))
    }

    /// Whether the endpoint mirror may have its name. Host names of different Services may be equal, and a Service may
    /// have the name of a host.
    fn claim(&self, host: &str, name: &str) -> Result<(), Problem> {
        let own = Purpose::Host {
            cluster: &self.target.cluster,
            service: self.remote_name(),
            host,
        };
        let granted = self.state.grants(own, self.namespace, name);
        granted.map_err(|problem| Problem {
            message: format!("host {host} is not mirrored: {}", problem.message),
            ..problem
        })
    }
}

#[cfg(test)]
mod tests;
