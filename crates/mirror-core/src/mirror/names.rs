//! Names of local objects, and to whom the name of a local Service belongs. A name is parsed only together with the labels
//! that say what the object is.

use std::fmt;

use super::{
    metadata::{Owner, is_managed, owner},
    outcome::{Problem, Reason},
};
use crate::api::{
    k8s::Service,
    names::{MAX_LABEL, MAX_SUBDOMAIN, is_dns_label},
};

/// Suffix of federated Services.
pub const FEDERATED_SUFFIX: &str = "-federated";
/// Name of the Service of a target cluster that leads to its API server, for other clusters.
pub const API_SERVER_SERVICE: &str = "kubernetes-api";
/// Port of this Service, and of the local one that leads there through a gateway. Linkerd's own Pods do not send
/// connections to 443 and 6443, the ports of API servers, through their proxies.
pub const API_SERVER_PORT: u16 = 8443;

/// A Service in the namespace of Links that leads to the gateway of a Link itself. A Link has at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayService {
    /// `probe-<link>`: the controller sends its probes to it.
    Probe,
    /// `api-<link>`: leads to the API server of the target cluster, through its gateway for API servers.
    ApiServer,
}

impl GatewayService {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Probe, Self::ApiServer];

    fn prefix(self) -> &'static str {
        match self {
            Self::Probe => "probe-",
            Self::ApiServer => "api-",
        }
    }

    /// The name of the Service for a Link.
    pub fn name(self, link: &str) -> String {
        format!("{}{link}", self.prefix())
    }

    /// Which of them has this name, and for which Link.
    pub(crate) fn parse(name: &str) -> Option<(Self, &str)> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|service| Some((service, name.strip_prefix(service.prefix())?)))
    }

    /// The Link of the Service of this name.
    pub(crate) fn link_of(name: &str) -> Option<&str> {
        Self::parse(name).map(|(_, link)| link)
    }
}

/// `<service>-<cluster>`.
pub fn mirror_name(service: &str, cluster: &str) -> String {
    format!("{service}-{cluster}")
}

/// `<host name>-<cluster>`: the ClusterIP Service that leads to one host of a headless Service.
pub fn endpoint_mirror_name(hostname: &str, cluster: &str) -> String {
    format!("{hostname}-{cluster}")
}

/// `<service>-federated`.
pub fn federated_name(service: &str) -> String {
    format!("{service}{FEDERATED_SUFFIX}")
}

/// Returns a Service name if some version of Kubernetes accepts it.
///
/// A remote API server is not trusted, and can return Services with invalid names.
pub(crate) fn fits(name: String) -> Result<String, Problem> {
    if is_dns_label(&name) {
        return Ok(name);
    }
    let shown: String = name.chars().take(MAX_SUBDOMAIN).collect();
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    Err(if name.len() > MAX_LABEL && name.bytes().all(letter) {
        let message = format!(
            "Service name {shown} is too long: {} characters, at most {MAX_LABEL} are allowed",
            name.len()
        );
        Problem::new(Reason::NameTooLong, message)
    } else {
        Problem::new(
            Reason::InvalidService,
            format!("invalid Service name {shown:?}"),
        )
    })
}

/// The name of the members, if this is the name of a federated Service.
pub(crate) fn member_name(name: &str) -> Option<&str> {
    name.strip_suffix(FEDERATED_SUFFIX)
        .filter(|service| !service.is_empty())
}

/// The name without `-<suffix>`, if anything is left of it.
pub(crate) fn without_suffix<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    name.strip_suffix(suffix)?
        .strip_suffix('-')
        .filter(|rest| !rest.is_empty())
}

/// What a local Service is for. Each purpose has one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<'a> {
    /// The federated Service of members of this name.
    Federated(&'a str),
    /// The Service that leads to the gateway of this Link itself.
    Gateway(GatewayService, &'a str),
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
        host: &'a str,
    },
}

impl fmt::Display for Purpose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Federated(service) => write!(f, "federated Service {service}"),
            Self::Gateway(GatewayService::Probe, link) => {
                write!(f, "the probe Service of Link {link}")
            }
            Self::Gateway(GatewayService::ApiServer, link) => {
                write!(f, "the Service for the API server of Link {link}")
            }
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
    /// We wrote the Service, and somebody has changed its labels since, so that its purpose is unknown. Any key
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
        Owner::Gateway(_) => {
            GatewayService::parse(name).map(|(service, link)| Purpose::Gateway(service, link))
        }
        Owner::Foreign => None,
    };
    match claim {
        Some(claim) => NameOwner::Purpose(claim),
        None if is_managed(&service.metadata) => NameOwner::Stray,
        None => NameOwner::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_63_characters_fit_and_longer_ones_do_not() {
        let service = "s".repeat(58);
        assert_eq!(fits(mirror_name(&service, "east")).map(|n| n.len()), Ok(63));
        let problem = fits(mirror_name(&format!("{service}s"), "east")).unwrap_err();
        assert_eq!(problem.reason, Reason::NameTooLong);
        assert!(
            problem.message.contains("64 characters"),
            "{}",
            problem.message
        );
    }

    #[test]
    fn a_name_that_begins_with_a_digit_is_left_to_the_api_server() {
        for name in ["0", "1db", "4711"] {
            assert_eq!(fits(mirror_name(name, "east")), Ok(format!("{name}-east")));
        }
    }

    #[test]
    fn invalid_names_are_refused_in_one_short_line() {
        let endless = "\u{1b}".repeat(1 << 20);
        let longest = format!("-{}", "w".repeat(57));
        for name in [
            "Web", "web.a", "../web", "web\nx", "-web", "", &longest, &endless,
        ] {
            let problem = fits(mirror_name(name, "east")).unwrap_err();
            assert_eq!(problem.reason, Reason::InvalidService, "{name:.20}");
            assert!(!problem.message.contains(char::is_control), "{name:.20}");
            assert!(problem.message.len() < 2_000, "{name:.20}");
        }
        let problem = fits(mirror_name(&"w".repeat(1 << 20), "east")).unwrap_err();
        assert_eq!(problem.reason, Reason::NameTooLong);
        assert!(problem.message.len() < 400);
    }

    #[test]
    fn only_whole_suffixes_are_removed() {
        for (name, suffix, rest) in [
            ("web-east", "east", Some("web")),
            ("a-b-c", "b-c", Some("a")),
            ("a-b-c", "c", Some("a-b")),
            ("east", "east", None),
            ("-east", "east", None),
            ("webeast", "east", None),
            ("web-west", "east", None),
        ] {
            assert_eq!(
                without_suffix(name, suffix),
                rest,
                "{name} without {suffix}"
            );
        }
    }
}
