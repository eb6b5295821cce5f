//! Operations: the changes of clusters from which histories are made.
//!
//! Names are chosen to collide: `a-b` of cluster `c` and `a` of `b-c`, `a` of cluster `federated`, hosts named like
//! Services, a Service `probe` in the namespace of probe Services. The mirror of `a` of cluster `federated-c` is named
//! like a slice of `a-federated`.

mod generators;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) use self::generators::{
    addresses, broken_form, crowd, drains, history, last_members, limited, liveness, local_name,
    memberships, plain_history, preferences, slice_edit,
};
use crate::{
    api::{
        duration::rfc3339,
        k8s::{EndpointPort, EndpointSlice, Service, ServicePort},
        labels as l,
        link::{Link, LinkObject, LinkStatus},
    },
    mirror::{
        FederatedThrough, Federation, Liveness, NamespacePhase,
        fixtures::{LINKS, NS, at, endpoint, link, port, slice, svc, through_gateway},
    },
};

pub(crate) const LINK_NAMES: [&str; 3] = ["c", "b-c", "z"];
pub(crate) const CLUSTERS: [&str; 4] = ["c", "b-c", "federated", "federated-c"];
const NAMES: [&str; 4] = ["a", "a-b", "h", "probe"];
const HOSTS: [&str; 3] = ["h", "a", "i"];
/// A namespace that is protected.
pub(crate) const PROTECTED: &str = "kube-system";
const NAMESPACES: [&str; 4] = [NS, LINKS, "new", PROTECTED];
/// When drains end; simulations begin earlier.
pub(crate) const DRAINED_UNTIL: i64 = 1_000;
/// Values of the label `team` of namespaces.
pub(crate) const TEAMS: [&str; 2] = ["a", "b"];

/// Operations in order. Printed as one operation per line.
#[derive(Clone)]
pub(crate) struct History(pub(crate) Vec<Operation>);

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|act| write!(f, "\n  {act:?}"))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A Link is applied, or deleted.
    Link(usize, Option<LinkMade>),
    /// The addresses and the liveness of a gateway change.
    Gateway(usize, Addresses, Liveness),
    /// The usual gateway's address is now in the Service range of the cluster, or no longer is.
    Networks(bool),
    /// Drains end, or the clock is set back to before their end.
    Clock(bool),
    /// The limit now omits Services, or slices, or nothing.
    Limit(usize, Limited),
    /// The watches of a target cluster are rejected for a while, and then list again.
    Refused(usize),
    /// A Service of a target cluster is created, changed or deleted.
    Remote(usize, usize, usize, Option<ServiceMade>),
    /// A slice of a target cluster is created, changed or deleted: hosts, and whether they are ready.
    Slice(usize, usize, usize, usize, Option<Vec<(usize, bool)>>),
    /// A Service of the local cluster is created, changed or deleted.
    Member(usize, usize, Option<ServiceMade>),
    /// A slice of such a Service is created, changed or deleted: hosts, and whether they are ready.
    MemberSlice(usize, usize, usize, Option<Vec<(usize, bool)>>),
    /// Somebody else creates a route of a federated Service, or deletes it.
    Route(bool),
    /// Somebody else deletes our routes.
    DropRoutes,
    /// Somebody else removes the CRD of `HTTPRoute`, or creates it.
    Served(bool),
    /// A namespace is created, terminates or is deleted.
    Namespace(usize, Option<NamespacePhase>),
    /// A namespace gets the label of a team, or loses it.
    Label(usize, Option<usize>),
    /// Somebody else creates a Service with a name that we may need, or deletes it.
    Stranger(usize, String, bool),
    /// Linkerd's own service mirror created this.
    Legacy(usize, usize, usize, bool),
    /// Another installation created this.
    Theirs(usize, usize, usize, bool),
    /// Somebody edits something of ours.
    Edit(usize, Edit),
    /// Somebody deletes something of ours.
    Delete(usize),
    /// The controller restarts.
    Restart,
    /// The controller restarts with preferences enabled or not.
    Preferences(bool),
    /// Kubernetes collects garbage.
    Collect,
}

impl Operation {
    /// Whether somebody else changes objects in the local cluster.
    pub(crate) fn is_meddling(&self) -> bool {
        matches!(
            self,
            Self::Namespace(..)
                | Self::Stranger(..)
                | Self::Legacy(..)
                | Self::Theirs(..)
                | Self::Edit(..)
                | Self::Delete(..)
        )
    }
}

/// What a Link's limit omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Nothing.
    No,
    /// All Services except those of one name.
    Services,
    /// The same Services, but their names are not kept.
    Unnamed,
    /// All slices except the first of one Service.
    Slices,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Addresses {
    Unresolved,
    Empty,
    V4,
    Dual,
    /// An address that is refused, and one that may be.
    Mixed,
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    StripCluster,
    MoveCluster(usize),
    StripMirrored,
    StripHeadless,
    Unmanage,
    /// Removes the annotation that names the installation.
    Disown,
    /// Adds a label and an annotation of somebody else.
    Junk,
    /// Removes the record of copied keys.
    Unrecord,
    Relabel,
    Ports,
    Tokens,
    SliceEndpoints,
    SliceLabels,
    /// Makes a slice belong to another Service, by its label.
    SliceService,
    SliceOwner,
    /// Removes all owners of a slice.
    SliceOwners,
    /// Adds an owner to a slice.
    SecondOwner,
    /// Removes all annotations of a slice.
    SliceAnnotations,
    /// Adds a label and an annotation of somebody else to a slice.
    SliceJunk,
    /// Removes the owner of a route, its label or its annotations.
    RouteOwner,
    RouteLabel,
    RouteAnnotations,
    /// Adds a label and an annotation of somebody else to a route.
    RouteJunk,
}

/// Whether a Link is valid, and if not, what can still be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Valid,
    /// The port of its gateway is not a port number.
    BadPort,
    /// The name of its cluster cannot be part of a Service's name.
    BadName,
    /// It cannot be decoded, except the name of its cluster.
    Unreadable,
    /// It cannot be decoded, not even the name of its cluster.
    Unknown,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own"
)]
pub(crate) struct LinkMade {
    pub(crate) cluster: usize,
    pub(crate) created: i64,
    pub(crate) form: Form,
    pub(crate) gateway: bool,
    pub(crate) probe: bool,
    pub(crate) headless: bool,
    pub(crate) allowed: Allowed,
    pub(crate) federation: Federation,
    pub(crate) through: FederatedThrough,
    pub(crate) api: ApiServer,
    /// Whether the cluster is drained until [`DRAINED_UNTIL`].
    pub(crate) drained: bool,
    /// Its preference, as an index of [`PREFERENCES`].
    pub(crate) prefers: usize,
}

/// How the API server of a target cluster is reached, if it has a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiServer {
    Direct,
    /// Through the gateway, and Linkerd reaches it too.
    Gateway,
    /// Through the gateway, and Linkerd cannot discover endpoints.
    Undiscovered,
}

/// Into which namespaces a target cluster may mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// All that are not protected.
    All,
    /// Those of one team.
    Team,
    /// Those of no team.
    NoTeam,
    /// One, by name.
    Name,
}

impl Allowed {
    fn selector(self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Team => Some(format!("team={}", TEAMS[0])),
            Self::NoTeam => Some("!team".to_owned()),
            Self::Name => Some(format!("{}={NS}", l::NAMESPACE_NAME)),
        }
    }
}

impl LinkMade {
    /// Whether Linkerd can discover endpoints of the cluster.
    pub(crate) fn is_discovered(&self) -> bool {
        !self.gateway || self.api != ApiServer::Undiscovered
    }

    pub(crate) fn link(&self, name: &str) -> Link {
        let mut made = link(name);
        made.metadata.creation_timestamp = Some(Time(at(self.created)));
        CLUSTERS[self.cluster].clone_into(&mut made.spec.target_cluster_name);
        if !self.gateway {
            made.spec.gateway_address.clear();
        }
        match self.form {
            Form::Valid | Form::Unreadable => {}
            Form::BadPort => {
                // Invalid with or without a gateway.
                "none".clone_into(&mut made.spec.gateway_port);
                "192.0.2.1".clone_into(&mut made.spec.gateway_address);
            }
            Form::BadName => "East".clone_into(&mut made.spec.target_cluster_name),
            Form::Unknown => made.spec.target_cluster_name.clear(),
        }
        if !self.probe {
            made.spec.probe_spec.path.clear();
        }
        if self.api != ApiServer::Direct && self.gateway {
            let discovery = self.api == ApiServer::Gateway && self.probe;
            through_gateway(&mut made, discovery);
        }
        let annotations = made.metadata.annotations.get_or_insert_default();
        if let Some(selector) = self.allowed.selector() {
            annotations.insert(l::ALLOWED_NAMESPACES.to_owned(), selector);
        }
        let federation = self.federation.as_str().to_owned();
        annotations.insert(l::FEDERATION.to_owned(), federation);
        let through = self.through.as_str().to_owned();
        annotations.insert(l::FEDERATED_THROUGH.to_owned(), through);
        if self.api == ApiServer::Gateway && self.gateway && !self.probe {
            annotations.insert(
                l::DISCOVERY_API_SERVER.to_owned(),
                "https://east".to_owned(),
            );
        }
        if self.prefers > 0 {
            annotations.insert(l::PREFER.to_owned(), PREFERENCES[self.prefers].to_owned());
        }
        if self.drained {
            let until = rfc3339(at(DRAINED_UNTIL));
            annotations.insert(l::DRAINED_UNTIL.to_owned(), until);
        }
        made
    }

    /// The Link as the API server has it. `listed`: the cluster that was listed last, as its status says.
    pub(crate) fn object(&self, name: &str, listed: Option<&str>) -> LinkObject {
        let mut link = self.link(name);
        link.status = Some(LinkStatus {
            target_cluster_name: listed.map(str::to_owned),
            ..LinkStatus::default()
        });
        let unreadable = matches!(self.form, Form::Unreadable | Form::Unknown);
        LinkObject {
            link,
            unreadable: unreadable.then(|| "not a Link".to_owned()),
        }
    }

    /// The cluster that it names, if that can be read.
    pub(crate) fn named(&self) -> Option<&'static str> {
        let hidden = matches!(self.form, Form::BadName | Form::Unknown);
        (!hidden).then(|| CLUSTERS[self.cluster])
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ServiceMade {
    pub(crate) export: usize,
    pub(crate) member: bool,
    pub(crate) form: usize,
    pub(crate) ports: usize,
    pub(crate) label: usize,
    /// Its preference, as an index of [`PREFERENCES`].
    pub(crate) prefers: usize,
    /// To which clusters it is exported, as an index of [`CONSENTS`].
    pub(crate) to: usize,
}

/// Trust domain of the source cluster.
pub(crate) const TRUST_DOMAIN: &str = "west.example";
/// To which clusters Services are exported; the first one means all.
pub(crate) const CONSENTS: [&str; 4] = ["", TRUST_DOMAIN, "north.example", "no name"];

/// Preferences of members and Links; the first one means none.
pub(crate) const PREFERENCES: [&str; 7] =
    ["", "local", "c", "local,b-c", "b-c,c", "c=3,local=1", "c,c"];

impl ServiceMade {
    pub(crate) fn service(&self, namespace: &str, name: &str) -> Service {
        let mut made = svc(name).within(namespace);
        made = match self.export {
            0 => made,
            1 => made.exported(),
            _ => made.discovered(),
        };
        if self.member {
            made = made.member();
        }
        if self.prefers > 0 {
            made = made.annotation(l::PREFER, PREFERENCES[self.prefers]);
        }
        if self.to > 0 {
            made = made.annotation(l::EXPORT_TO, CONSENTS[self.to]);
        }
        if self.label > 0 {
            made = made.label("team", &self.label.to_string());
        }
        let udp = ServicePort {
            protocol: Some("UDP".into()),
            ..port("dns", 53)
        };
        made = made.ports(match self.ports {
            0 => vec![port("http", 80)],
            1 => vec![port("http", 80), udp],
            _ => vec![udp],
        });
        match self.form {
            1 => made = made.headless(),
            2 => made = made.ports(Vec::new()).headless(),
            3 => {
                made.0.spec.type_ = Some("ExternalName".into());
                made.0.spec.cluster_ip = None;
            }
            _ => {}
        }
        made.0
    }
}

pub(crate) fn namespace(index: usize) -> &'static str {
    NAMESPACES[index]
}

pub(crate) fn name(index: usize) -> &'static str {
    NAMES[index]
}

pub(crate) fn remote_slice(
    namespace: &str,
    service: &str,
    index: usize,
    hosts: &[(usize, bool)],
) -> EndpointSlice {
    let mut made = slice(service, &index.to_string());
    made.metadata.namespace = Some(namespace.into());
    if index > 0 {
        // Hosts of another template, with one more port.
        let mut ports = made.ports.into_vec();
        ports.extend(ports.last().cloned().map(|port| EndpointPort {
            name: Some("more".into()),
            port: Some(9090),
            ..port
        }));
        made.ports = ports.into();
    }
    made.endpoints = hosts
        .iter()
        .map(|(host, ready)| {
            // The index after the last host means an endpoint without a host name.
            endpoint("192.0.2.50", HOSTS.get(*host).copied(), *ready)
        })
        .collect();
    made
}
