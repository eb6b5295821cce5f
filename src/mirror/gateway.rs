//! The probe Service of a Link: what the controller's probes go to, through the mesh.
//!
//! Its slice carries the gateway's identity: that is what makes Linkerd's proxy speak mTLS to it.

use kube::ResourceExt;

use super::{
    endpoints::{self, Dress, Through},
    metadata::{Map, Owner, is_managed, owner},
    mirrors::stand,
    names::{fits, probe_name},
    plan::{Plan, Write},
    service,
    target::{Gateway, Probe, Target},
    world::World,
};
use crate::api::{
    k8s::{EndpointSlice, Service, ServicePort},
    labels as l,
};

/// The plan for the probe Service of one Link.
pub(super) fn plan(world: &World, link: &str) -> Plan {
    let actual = world.probe(link);
    let slices = world.local_probe_slices(link);
    let links = world.links.as_ref();
    if links
        .and_then(|links| links.get(link))
        .is_some_and(|entry| entry.target.is_err())
    {
        return Plan::default(); // a Link that cannot be read now: what it made stays
    }
    let wanted = world.probe_link(link).and_then(|(target, entry)| {
        let gateway = target.gateway.as_ref()?;
        let probe = gateway.probe.as_ref().ok()?.as_ref()?;
        Some((target, gateway, probe, entry.gateway.addresses.as_deref()))
    });
    let mut writes = Vec::new();
    match wanted {
        None => {
            let ours = actual.filter(|actual| is_managed(&actual.metadata));
            writes.extend(ours.map(Write::delete_service));
            endpoints::reconcile(Vec::new(), slices, &mut writes);
        }
        Some((target, gateway, probe, addresses)) => {
            let name = probe_name(link);
            let foreign = actual.is_some_and(|a| !matches!(owner(&a.metadata), Owner::Probe(_)));
            let slot = (world.config.namespace.clone(), name.clone());
            if fits(name).is_err() || foreign || world.foreign.contains_key(&slot) {
                return Plan::default();
            }
            let mut desired = probe_service(world, target, probe);
            desired.metadata.uid = actual.and_then(ResourceExt::uid);
            let slices_wanted = addresses
                .map(|addresses| probe_slices(&desired, target, gateway, probe, addresses));
            let cluster = &target.cluster;
            stand(
                &desired,
                slices_wanted,
                actual,
                &slices,
                cluster,
                &mut writes,
            );
        }
    }
    Plan {
        writes,
        ..Plan::default()
    }
}

fn labels(target: &Target) -> Map {
    [
        (l::EXTENSION, l::EXTENSION_NAME),
        (l::MIRRORED_GATEWAY, "true"),
        (l::CLUSTER_NAME, &target.cluster),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn port(probe: &Probe) -> ServicePort {
    ServicePort {
        name: Some(l::PROBE_PORT_NAME.to_owned()),
        protocol: Some("TCP".to_owned()),
        port: i32::from(probe.port),
        ..ServicePort::default()
    }
}

fn probe_service(world: &World, target: &Target, probe: &Probe) -> Service {
    let name = probe_name(&target.link);
    let namespace = &world.config.namespace;
    service::build(
        namespace,
        &name,
        labels(target),
        Map::new(),
        vec![port(probe)],
        false,
        None,
    )
}

/// Never unready: it is the probe that finds out.
fn probe_slices(
    service: &Service,
    target: &Target,
    gateway: &Gateway,
    probe: &Probe,
    addresses: &[std::net::IpAddr],
) -> Vec<EndpointSlice> {
    let dress = Dress::new(labels(target), None, &gateway.identity);
    let at_probe_port = Gateway {
        port: probe.port,
        ..gateway.clone()
    };
    let through = Through {
        gateway: &at_probe_port,
        addresses,
        ready: true,
        backed: true,
    };
    endpoints::through_gateway(service, &dress, &[port(probe)], &through)
}
