//! The desired state of the rig, and the endpoints that proxies should have.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::ensure;
use control_plane::eventually;

use crate::rig::{
    NAMESPACE, Rig,
    mirrors::{FLAT, GATED, MODES},
};

/// How a Service is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Gateway,
    Discovery,
}

impl Mode {
    /// The label's value.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Gateway => "true",
            Self::Discovery => "remote-discovery",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Gateway => Self::Discovery,
            Self::Discovery => Self::Gateway,
        }
    }
}

/// The mode of a Service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub(super) mode: Mode,
    /// Whether the mode has changed since Linkerd started: streams that were open then keep their endpoints.
    switched: bool,
}

impl Export {
    const fn of(mode: Mode) -> Self {
        Self {
            mode,
            switched: false,
        }
    }

    /// Changes the mode.
    pub(super) const fn switch(&mut self) {
        self.mode = self.mode.other();
        self.switched = true;
    }
}

/// The desired state.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) gated: Export,
    pub(super) flat: Export,
    /// Whether the target's member was reached through its gateway since Linkerd started: streams that were open then
    /// keep that endpoint.
    pub(super) through_gateway: bool,
    /// Whether the source's own member exists, and the target's.
    pub(super) own_member: bool,
    pub(super) other_member: bool,
}

impl State {
    /// The state at the start of the rig.
    pub(super) const fn new() -> Self {
        Self {
            gated: Export::of(Mode::Gateway),
            flat: Export::of(Mode::Discovery),
            through_gateway: false,
            own_member: true,
            other_member: true,
        }
    }

    /// Records that Linkerd has decided again for all streams how it finds endpoints.
    pub(super) const fn streams_are_new(&mut self) {
        (self.gated.switched, self.flat.switched) = (false, false);
        self.through_gateway = false;
    }

    /// Whether streams may have been opened before a change of how endpoints are found.
    pub(super) const fn has_old_streams(self) -> bool {
        self.gated.switched || self.flat.switched || self.through_gateway
    }

    /// The sets of endpoints that a proxy may have for a mirror.
    fn allowed(self, rig: &Rig, mirror: &str) -> Vec<BTreeSet<SocketAddr>> {
        let (gateway, pods) = (rig.expected(GATED), rig.expected(FLAT));
        let export = match mirror {
            GATED => self.gated,
            FLAT => self.flat,
            _ => {
                let own = if self.own_member {
                    rig.expected_unlinked()
                } else {
                    BTreeSet::new()
                };
                if !self.other_member {
                    return vec![own];
                }
                let through_gateway = self.through_gateway.then_some(gateway);
                let others = std::iter::once(pods).chain(through_gateway);
                return others.map(|others| &own | &others).collect();
            }
        };
        match export.mode {
            _ if export.switched => vec![gateway, pods],
            Mode::Gateway => vec![gateway],
            Mode::Discovery => vec![pods],
        }
    }

    /// Waits until the proxy has the right endpoints for all mirrors.
    pub(super) async fn is_followed(self, rig: &Rig, limit: Duration) -> anyhow::Result<()> {
        for mirror in MODES {
            let allowed = self.allowed(rig, mirror);
            let service = format!("{NAMESPACE}/{mirror}");
            let what = format!("the proxy to balance {service} over one of {allowed:?}");
            eventually(&what, limit, async || {
                let known = rig.source.oracle.endpoints()?.remove(&service);
                let known = known.unwrap_or_default();
                ensure!(allowed.contains(&known), "it has {known:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }
}
