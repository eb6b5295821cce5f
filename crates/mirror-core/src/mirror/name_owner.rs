//! To whom the name of a local Service belongs: what the Service is for, by its labels and its name.

use std::fmt;

use super::{
    metadata::{Owner, is_managed, owner},
    names::{PROBE_PREFIX, member_name, without_suffix},
};
use crate::api::k8s::Service;

/// What a local Service is for. Each purpose has one name.
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

/// To whom the name of a local Service belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameOwner<'a> {
    /// The Service has a purpose: its labels say which, and its name agrees.
    Purpose(Purpose<'a>),
    /// We wrote the Service, and somebody has changed its labels since, so that it has no purpose any more. Any key
    /// that needs the name may take it.
    Stray,
    /// The installation whose Links are in this namespace has written it.
    Theirs(&'a str),
    /// A federated Service without the annotation for its installation. Its members are in clusters that no Link here
    /// names.
    Unnamed,
    /// The Service does not belong to a service mirror, as far as its labels and name say.
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

/// To whom the name of a local Service belongs, by the Service's labels and name.
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
