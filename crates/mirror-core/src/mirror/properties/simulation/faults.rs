//! What must hold at rest after faults: gateways that change while their clusters are away, a clock that was wrong,
//! preferences that were disabled, writes that are not allowed.

use k8s_openapi::jiff::SignedDuration;

use super::{super::operations::PREFERENCES, HOLD_DOWN, Simulation, watches::is_mirror};
use crate::{
    api::{labels as l, preference::FailedOver},
    mirror::{
        Indexed as _, Liveness, NamespacePhase,
        fixtures::ip,
        is_our_route,
        names::{NameOwner, Purpose, member_name},
    },
};

impl Simulation {
    /// Checks that the endpoints of mirrors are those of their gateways, as far as these are known.
    pub(crate) fn gateways_are_followed(&self) {
        for slice in self.cluster.slices.values() {
            if !self.state.writes_slice(slice) || !is_mirror(slice) {
                continue;
            }
            let namespace = slice.metadata.namespace();
            let service = slice.group().unwrap_or_default();
            let Some(service) = self.state.existing(namespace, service) else {
                continue;
            };
            let NameOwner::Purpose(Purpose::Mirror { cluster, .. } | Purpose::Host { cluster, .. }) =
                self.state.name_owner(service)
            else {
                continue;
            };
            let Some((target, entry)) = self.state.link(cluster) else {
                continue;
            };
            let is_there = self.state.namespace(namespace).map(|known| known.phase);
            let gateway = target.gateway.as_ref();
            let reach =
                gateway.and_then(|gateway| self.state.gateway_addresses(gateway, &entry.gateway));
            let (Some(reach), Some(NamespacePhase::Active)) = (reach, is_there) else {
                continue;
            };
            let probed = self.links[&target.link].made.probe;
            let ready = match entry.gateway.liveness {
                Liveness::Unknown if probed => continue,
                Liveness::Dead if probed => false,
                _ => !reach.addresses.is_empty(),
            };
            for endpoint in &slice.endpoints {
                assert_eq!(endpoint.is_ready(), ready, "{slice:?}");
                let known = |address: &&str| reach.addresses.contains(&ip(address));
                let mut addresses = endpoint.addresses.iter().map(AsRef::as_ref);
                assert!(
                    service.is_headless() || addresses.all(|a| known(&a)),
                    "{slice:?}"
                );
            }
        }
    }

    /// Checks that no cluster has to wait for longer than the present hold-down.
    pub(crate) fn hold_downs_end(&self) {
        for (id, service) in &self.cluster.services {
            let text = service.metadata.annotations.get(l::FAILED_OVER);
            let out = text.map(FailedOver::read).unwrap_or_default().0;
            let latest = self.state.now + SignedDuration::try_from(HOLD_DOWN).unwrap();
            let until = out.values().filter_map(|out| out.until).max();
            assert!(
                until.is_none_or(|until| until <= latest),
                "{id:?}: {text:?}"
            );
        }
    }

    /// Checks that nothing is left of preferences while they are not enabled.
    pub(crate) fn nothing_is_left_of_preferences(&self) {
        if self.state.config.routes.is_some() {
            return;
        }
        for route in self.cluster.routes.values() {
            assert!(!is_our_route(route), "{route:?}");
        }
        for (id, service) in &self.cluster.services {
            let prefers = service.metadata.annotations.contains_key(l::PREFER);
            assert!(!prefers, "{id:?}");
        }
    }

    /// Checks that each preference is that of the local member, or of a Link if there is none.
    pub(crate) fn only_local_members_and_links_prefer(&self) {
        for (id, service) in &self.cluster.services {
            let Some(text) = service.metadata.annotations.get(l::PREFER) else {
                continue;
            };
            let member = member_name(&id.1).unwrap_or_default();
            let member = (id.0.clone(), member.to_owned());
            let known = if let Some(local) = self.members.get(&member) {
                local.metadata.annotations.get(l::PREFER) == Some(text)
            } else {
                let mut links = self.links.values();
                links.any(|linked| PREFERENCES[linked.made.prefers] == text)
            };
            assert!(known, "{id:?} prefers {text}");
        }
    }

    /// Checks that nothing has to be written but what is denied.
    pub(crate) fn only_denied_writes_are_left(&self) {
        for key in self.state.keys() {
            assert!(self.is_denied(&key), "{key} was not worked on");
        }
    }
}
