//! Outbound ports that do not pass a proxy. Pure.

use mirror_core::api::link::LinkerdConfig;

/// Outbound ports that do not pass a proxy, as Linkerd writes them: `25,4567-4568`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedPorts(pub String);

impl SkippedPorts {
    /// Whether this port is one of them. What is neither a port nor a range is none, as for Linkerd's `proxy-init`.
    pub fn contains(&self, port: u16) -> bool {
        self.0.split(',').any(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bounds = (first.trim().parse(), last.trim().parse());
            matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&port))
        })
    }

    /// Those of a control plane: Pods skip them unless they say otherwise.
    pub fn of_control_plane(config: &LinkerdConfig) -> Option<Self> {
        let init = config.rest.get("proxyInit")?;
        let ports = init.get("ignoreOutboundPorts")?.as_str()?;
        Some(Self(ports.to_owned()))
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
