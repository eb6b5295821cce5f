//! The probe Service of a Link: what the controller's probes go to, through the mesh.
//!
//! Its slice carries the gateway's identity: that is what makes Linkerd's proxy speak mTLS to it.

use std::{borrow::Cow, net::IpAddr};

use super::{
    endpoints::{self, DesiredSlice, Through},
    holder::{Claim, Holder},
    metadata::{Dress, is_managed},
    names::{fits, probe_name},
    outcome::Plan,
    reach::Reach,
    service::{self, Desired},
    stand::stand,
    target::{Gateway, Probe, Target},
    wanted::Wanted,
    world::World,
    write::Write,
};
use crate::api::{
    k8s::{Service, ServicePort},
    labels as l,
};

/// What a probe Service is made of.
struct Wish<'a> {
    target: &'a Target,
    gateway: &'a Gateway,
    probe: &'a Probe,
    reach: Option<Reach<'a>>,
}

/// What the probe Service of a Link should be made of, if there should be one.
fn wanted<'a>(world: &'a World, link: &str) -> Option<Wish<'a>> {
    let (target, entry) = world.probe_link(link)?;
    let (gateway, probe) = target.probed()?;
    Some(Wish {
        target,
        gateway,
        probe,
        reach: world.reach(gateway, &entry.gateway),
    })
}

/// The plan for the probe Service of one Link.
pub(super) fn plan(world: &World, link: &str) -> Plan {
    let links = world.links.as_ref();
    if links
        .and_then(|links| links.get(link))
        .is_some_and(|entry| entry.target.is_err())
    {
        return Plan::default(); // a Link that cannot be read now: what it made stays
    }
    let mut plan = Plan::default();
    match wanted(world, link) {
        None => remove(world, link, &mut plan.writes),
        Some(wanted) => wanted.write(world, &mut plan.writes),
    }
    plan
}

fn remove(world: &World, link: &str, writes: &mut Vec<Write>) {
    let is_probe = |service: &&Service| match world.holder(service) {
        Holder::Claim(claim) => claim == Claim::Probe(link),
        Holder::Stray => true,
        Holder::Theirs(_) | Holder::Unnamed | Holder::Foreign => false,
    };
    let ours = world
        .probe(link)
        .filter(is_probe)
        .filter(|service| is_managed(&service.metadata));
    writes.extend(ours.map(Write::delete_service));
    endpoints::reconcile(world, Vec::new(), world.local_probe_slices(link), writes);
}

impl Wish<'_> {
    fn write(&self, world: &World, writes: &mut Vec<Write>) {
        let link = self.target.link.as_str();
        let Ok(name) = fits(probe_name(link)) else {
            return;
        };
        let namespace = world.config.namespace.as_str();
        let actual = world.standing(namespace, &name);
        if world
            .grants(Claim::Probe(link), namespace, &name, actual)
            .is_err()
        {
            return;
        }
        let ports = [self.port()];
        let dress = Dress {
            labels: self.labels(),
            ..Dress::default()
        };
        // The namespace of Links is also the name of the installation.
        let mut desired = service::build(namespace, namespace, &name, dress, &ports, false);
        desired.uid = actual.and_then(|actual| actual.metadata.uid.as_deref());
        let slices = self
            .reach
            .as_ref()
            .map(|reach| self.slices(&desired, reach));
        let present = world.local_probe_slices(link);
        stand(
            world,
            &desired,
            slices,
            actual,
            present,
            &self.target.cluster,
            writes,
        );
    }

    fn labels(&self) -> Wanted<'_> {
        [
            (l::EXTENSION, l::EXTENSION_NAME.into()),
            (l::MIRRORED_GATEWAY, "true".into()),
            (l::CLUSTER_NAME, self.target.cluster.as_str().into()),
        ]
        .into()
    }

    fn port(&self) -> ServicePort {
        ServicePort {
            name: Some(l::PROBE_PORT_NAME.into()),
            protocol: Some("TCP".into()),
            port: i32::from(self.probe.port),
            ..ServicePort::default()
        }
    }

    /// Never unready: it is the probe that finds out.
    fn slices<'s>(
        &'s self,
        service: &'s Desired<'_>,
        reach: &'s Reach<'_>,
    ) -> Vec<DesiredSlice<'s>> {
        let through = Through {
            port: self.probe.port,
            identity: &self.gateway.identity,
            addresses: Cow::Borrowed(&reach.addresses),
            refused: Vec::new(),
            ready: true,
            backed: true,
        };
        endpoints::through_gateway(service, &through, "")
    }
}

impl World {
    /// The ClusterIP of a Link's probe Service, once there is one that is ours.
    pub fn probe_address(&self, link: &str) -> Option<IpAddr> {
        let service = self.probe(link)?;
        let ours = self.holder(service) == Holder::Claim(Claim::Probe(link));
        let ip = service.spec.cluster_ip.as_deref().filter(|_| ours)?;
        ip.parse().ok()
    }
}

#[cfg(test)]
mod tests;
