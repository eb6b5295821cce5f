//! Outbound ports that do not pass a proxy. Pure.

use std::{net::IpAddr, ops::RangeInclusive};

use ipnet::IpNet;

use mirror_core::api::link::LinkerdConfig;

/// Outbound ports that do not pass a proxy, as Linkerd writes them: `25,4567-4568`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedPorts(pub String);

impl SkippedPorts {
    /// Whether this port is one of them. What is neither a port nor a range is none, as for Linkerd's `proxy-init`.
    pub fn contains(&self, port: u16) -> bool {
        self.ranges().any(|range| range.contains(&port))
    }

    fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u16>> {
        self.0.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
    }

    /// The same without this port.
    pub fn without(&self, port: u16) -> Self {
        let text = |first: u16, last: u16| match last.checked_sub(first) {
            None => None,
            Some(0) => Some(first.to_string()),
            Some(_) => Some(format!("{first}-{last}")),
        };
        let mut left = Vec::new();
        for range in self.ranges() {
            let (first, last) = (*range.start(), *range.end());
            if range.contains(&port) {
                left.extend(text(first, port.saturating_sub(1)));
                left.extend(text(port.saturating_add(1), last));
            } else {
                left.extend(text(first, last));
            }
        }
        Self(left.join(","))
    }

    /// Those of a control plane: Pods skip them unless they say otherwise.
    pub fn of_control_plane(config: &LinkerdConfig) -> Option<Self> {
        let init = config.rest.get("proxyInit")?;
        let ports = init.get("ignoreOutboundPorts")?.as_str()?;
        Some(Self(ports.to_owned()))
    }
}

/// Subnets to which connections do not pass a proxy, as Linkerd writes them: `10.0.0.0/8,192.0.2.0/24`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSubnets(pub String);

impl SkippedSubnets {
    fn subnets(&self) -> impl Iterator<Item = (&str, IpNet)> {
        let parts = self.0.split(',').map(str::trim);
        parts.filter_map(|part| Some((part, part.parse().ok()?)))
    }

    /// The first one with this address.
    pub fn containing(&self, address: IpAddr) -> Option<&str> {
        let mut subnets = self.subnets();
        subnets.find_map(|(text, net)| net.contains(&address).then_some(text))
    }

    /// The same without those that have this address.
    pub fn without(&self, address: IpAddr) -> Self {
        let left = self.subnets().filter(|(_, net)| !net.contains(&address));
        let left: Vec<&str> = left.map(|(text, _)| text).collect();
        Self(left.join(","))
    }

    /// Those of a control plane: Pods skip them unless they say otherwise.
    pub fn of_control_plane(config: &LinkerdConfig) -> Option<Self> {
        let subnets = config.rest.get("proxyInit")?.get("skipSubnets")?.as_str()?;
        Some(Self(subnets.to_owned()))
    }
}

/// What makes connections to a port skip a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedBy {
    /// The ports of the control plane.
    ControlPlane,
    /// The Pod's annotation.
    Pod,
}

impl SkippedBy {
    /// What makes connections of a Pod to this port skip its proxy, if they do. A Pod that names no ports itself, as with
    /// Linkerd's CNI plugin, skips those of the control plane.
    pub fn of(
        pod: Option<&SkippedPorts>,
        config: Option<&LinkerdConfig>,
        port: u16,
    ) -> Option<Self> {
        let all = config.and_then(SkippedPorts::of_control_plane);
        let skips = |ports: Option<&SkippedPorts>| ports.is_some_and(|ports| ports.contains(port));
        match (skips(pod.or(all.as_ref())), skips(all.as_ref())) {
            (false, _) => None,
            (true, true) => Some(Self::ControlPlane),
            (true, false) => Some(Self::Pod),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_but_one_are_left() {
        for (ports, expected) in [
            ("80", ""),
            ("", ""),
            ("25, 80 ,443", "25,443"),
            ("79-81", "79,81"),
            ("80-82,x,9-3", "81-82"),
            ("1-65535", "1-79,81-65535"),
        ] {
            let left = SkippedPorts(ports.to_owned()).without(80);
            assert_eq!(left.0, expected, "{ports}");
            for port in 1..=65535 {
                let was = SkippedPorts(ports.to_owned()).contains(port);
                assert_eq!(left.contains(port), was && port != 80, "{ports} {port}");
            }
        }
    }
}
