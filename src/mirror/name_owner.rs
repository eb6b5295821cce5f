//! Whose a local Service is: what it stands for, as its labels and its name tell.

use std::fmt;

use super::{
    metadata::{Owner, is_managed, owner},
    names::{PROBE_PREFIX, member_name, without_suffix},
};
use crate::api::k8s::Service;

/// Something that wants a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    /// The federated Service of members of this name.
    Federated(&'a str),
    /// The probe Service of this Link.
    Probe(&'a str),
    /// The mirror of a Service.
    Mirror {
        /// Target cluster.
        cluster: &'a str,
        /// Remote Service.
        service: &'a str,
    },
    /// The endpoint mirror of a host.
    Host {
        /// Target cluster.
        cluster: &'a str,
        /// Remote headless Service.
        service: &'a str,
        /// Host name.
        host: &'a str,
    },
}

impl fmt::Display for Purpose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Federated(service) => write!(f, "federated Service {service}"),
            Self::Probe(link) => write!(f, "the probe Service of Link {link}"),
            Self::Mirror { cluster, service } => {
                write!(f, "Service {service} of cluster {cluster}")
            }
            Self::Host {
                cluster,
                service,
                host,
            } => write!(f, "host {host} of Service {service} of cluster {cluster}"),
        }
    }
}

/// Whose a local Service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameOwner<'a> {
    /// Its labels say what it stands for, and its name agrees.
    Purpose(Purpose<'a>),
    /// We wrote it, and somebody has changed its labels since, so that it stands for nothing any more. Who
    /// wants its name may take it.
    Stray,
    /// The installation whose Links are in this namespace has written it.
    Theirs(&'a str),
    /// A federated Service that does not say which installation it belongs to, and names clusters that no Link here
    /// names.
    Unnamed,
    /// It is not ours.
    Foreign,
}

impl fmt::Display for NameOwner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Purpose(claim) => claim.fmt(f),
            Self::Theirs(namespace) => write!(f, "the installation in namespace {namespace}"),
            Self::Unnamed => f.write_str("a federated Service of clusters without a Link"),
            Self::Stray | Self::Foreign => f.write_str("a Service that is not a mirror"),
        }
    }
}

/// What a local Service stands for, as its labels and its name tell.
pub(crate) fn labelled(service: &Service) -> NameOwner<'_> {
    let name = service.metadata.name();
    let claim = match owner(&service.metadata) {
        Owner::Mirror(cluster) => {
            without_suffix(name, cluster).map(|service| Purpose::Mirror { cluster, service })
        }
        Owner::EndpointMirror(cluster, headless) => without_suffix(name, cluster)
            .zip(without_suffix(headless, cluster))
            .map(|(host, service)| Purpose::Host {
                cluster,
                service,
                host,
            }),
        Owner::Federated => member_name(name).map(Purpose::Federated),
        Owner::Probe(_) => name.strip_prefix(PROBE_PREFIX).map(Purpose::Probe),
        Owner::Foreign => None,
    };
    match claim {
        Some(claim) => NameOwner::Purpose(claim),
        None if is_managed(&service.metadata) => NameOwner::Stray,
        None => NameOwner::Foreign,
    }
}
