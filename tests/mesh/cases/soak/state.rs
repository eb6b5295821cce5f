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

/// The desired state.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) gated: Mode,
    pub(super) flat: Mode,
    /// Whether the mode of a Service was ever changed: streams that were open then keep their endpoints.
    pub(super) switched: bool,
    /// Whether the source's own member exists, and the target's.
    pub(super) own_member: bool,
    pub(super) other_member: bool,
}

impl State {
    /// The state at the start of the rig.
    pub(super) const fn new() -> Self {
        Self {
            gated: Mode::Gateway,
            flat: Mode::Discovery,
            switched: false,
            own_member: true,
            other_member: true,
        }
    }

    /// The sets of endpoints that a proxy may have for a mirror.
    fn allowed(self, rig: &Rig, mirror: &str) -> Vec<BTreeSet<SocketAddr>> {
        let (gateway, pods) = (rig.expected(GATED), rig.expected(FLAT));
        let mode = match mirror {
            GATED => self.gated,
            FLAT => self.flat,
            _ => {
                let own = if self.own_member {
                    rig.expected_unlinked()
                } else {
                    BTreeSet::new()
                };
                let others = if self.other_member {
                    pods
                } else {
                    BTreeSet::new()
                };
                return vec![&own | &others];
            }
        };
        match mode {
            _ if self.switched => vec![gateway, pods],
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
                let known = rig.oracle.endpoints()?.remove(&service);
                let known = known.unwrap_or_default();
                ensure!(allowed.contains(&known), "it has {known:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }
}
