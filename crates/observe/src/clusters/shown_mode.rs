//! How the mirrors and federated Services of a cluster get to their endpoints. Pure.

use serde::Serialize;

use mirror_core::api::{
    k8s::Service,
    labels,
    members::{local_member, remote_members},
};

/// How a mirror gets to its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShownMode {
    /// Through the target cluster's gateway.
    Gateway,
    /// As `Gateway`, with a Service for each pod.
    Headless,
    /// The Service of one pod of a `Headless` one.
    HeadlessPod,
    /// From pod to pod.
    RemoteDiscovery,
    /// One Service over several clusters, from pod to pod or through gateways.
    Federated,
}

impl ShownMode {
    /// The mode, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Headless => "headless",
            Self::HeadlessPod => "headless-pod",
            Self::RemoteDiscovery => "remote-discovery",
            Self::Federated => "federated",
        }
    }

    /// The mode of a mirror or federated Service.
    pub fn of(mirror: &Service) -> Self {
        let has = |key| !mirror.metadata.label(key).is_empty();
        let annotation = |key: &str| mirror.metadata.annotations.get(key);
        if local_member(annotation).is_some() || remote_members(annotation).next().is_some() {
            Self::Federated
        } else if has(labels::REMOTE_DISCOVERY) {
            Self::RemoteDiscovery
        } else if has(labels::HEADLESS_MIRROR) {
            Self::HeadlessPod
        } else if mirror.is_headless() {
            Self::Headless
        } else {
            Self::Gateway
        }
    }
}
