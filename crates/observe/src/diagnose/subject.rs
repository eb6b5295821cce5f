//! What the Service that is called is: a mirror, a federated Service, or one that should be there and is not.

use std::collections::BTreeSet;

use crate::{
    clusters::{
        request_path::RequestPath,
        snapshot::{LinkSnapshot, ReadError, ReadErrorKind},
    },
    finding::Level,
};
use mirror_core::{
    api::{
        k8s::Service,
        labels as l,
        link::ServiceCondition,
        members::{local_member, remote_members},
    },
    mirror::{FEDERATED_SUFFIX, Reason},
};

/// Maximum edit distance between a name that was typed and one that is suggested for it.
const TYPOS: usize = 2;

/// What the Service is.
pub enum Subject<'a> {
    /// A mirror of one cluster's Service.
    Mirror(MirrorOf<'a>),
    /// A federated Service.
    Federated(Federated<'a>),
    /// There is no mirror of this name. By its name, it would be that of one of these.
    Absent(Vec<Wanted<'a>>),
    /// There is no federated Service of this name. Its members would have this one.
    AbsentFederated(&'a str),
}

/// A mirror of a Service.
pub struct MirrorOf<'a> {
    /// The local Service.
    pub service: &'a Service,
    /// How its endpoints are reached.
    pub mode: Mode,
    /// The target cluster.
    pub cluster: &'a str,
    /// Name of the Service in the target cluster.
    pub remote: String,
    /// The host of that headless Service, if it is the mirror of one.
    pub host: Option<String>,
}

/// How endpoints in target clusters are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Through the gateway.
    Gateway,
    /// Linkerd discovers the Pods, and connects to them.
    Discovery,
}

/// A federated Service.
pub struct Federated<'a> {
    /// The local Service.
    pub service: &'a Service,
    /// Its members of target clusters: name and cluster.
    pub members: Vec<(&'a str, &'a str)>,
    /// The member of this cluster.
    pub local: Option<&'a str>,
    /// How the members of target clusters are reached.
    pub mode: Mode,
}

/// A mirror that a name would have.
pub struct Wanted<'a> {
    /// The Link.
    pub link: &'a LinkSnapshot,
    /// Name of the Service in the target cluster.
    pub remote: &'a str,
}

/// Why there is nothing to diagnose.
#[derive(Debug)]
pub struct NoSubject {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl<'a> Subject<'a> {
    /// What the Service of these facts is.
    pub fn of(facts: &'a RequestPath) -> Result<Self, NoSubject> {
        let id = &facts.service;
        let service = facts.source.service.as_ref().map_err(|why| NoSubject {
            what: format!("cannot read Service {id}: {why}"),
            hint: unread(why, "get Services"),
        })?;
        match service {
            Some(service) if is_mirror(service) => Ok(Self::existing(service)),
            Some(_) => taken(facts).ok_or_else(|| own(facts)),
            None => absent(facts).ok_or_else(|| unknown(facts)),
        }
    }

    fn existing(service: &'a Service) -> Self {
        let annotation = |key: &str| service.metadata.annotations.get(key);
        let local = local_member(annotation);
        let members: Vec<_> = remote_members(annotation).collect();
        if local.is_some() || !members.is_empty() {
            let is_discovered = [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY]
                .iter()
                .any(|key| annotation(key).is_some());
            return Self::Federated(Federated {
                service,
                members,
                local,
                mode: if is_discovered {
                    Mode::Discovery
                } else {
                    Mode::Gateway
                },
            });
        }
        let metadata = &service.metadata;
        let discovered = metadata.label(l::REMOTE_DISCOVERY);
        let cluster = match metadata.label(l::CLUSTER_NAME) {
            "" => discovered,
            cluster => cluster,
        };
        let name = remote_of(service, cluster);
        // A host of a headless Service, such as `db-0.db`.
        let (host, remote) = match name.split_once('.') {
            Some((host, remote)) => (Some(host.to_owned()), remote.to_owned()),
            None => (None, name),
        };
        Self::Mirror(MirrorOf {
            service,
            host,
            remote,
            mode: if discovered.is_empty() {
                Mode::Gateway
            } else {
                Mode::Discovery
            },
            cluster,
        })
    }

    /// The local Service, if it exists.
    pub fn service(&self) -> Option<&'a Service> {
        match self {
            Self::Mirror(mirror) => Some(mirror.service),
            Self::Federated(federated) => Some(federated.service),
            Self::Absent(_) | Self::AbsentFederated(_) => None,
        }
    }

    /// The target clusters that it leads to, with the names of the Services there.
    pub fn remotes(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Mirror(mirror) => vec![(mirror.cluster, &mirror.remote)],
            Self::Federated(federated) => federated
                .members
                .iter()
                .map(|(name, cluster)| (*cluster, *name))
                .collect(),
            Self::Absent(wanted) => wanted
                .iter()
                .map(|wanted| (wanted.link.cluster(), wanted.remote))
                .collect(),
            Self::AbsentFederated(_) => Vec::new(),
        }
    }

    /// How its endpoints in target clusters are reached; `None` if it does not exist.
    pub fn mode(&self) -> Option<Mode> {
        match self {
            Self::Mirror(mirror) => Some(mirror.mode),
            Self::Federated(federated) => Some(federated.mode),
            Self::Absent(_) | Self::AbsentFederated(_) => None,
        }
    }

    /// How bad it is if a target cluster cannot be reached: a federated Service may have other members.
    pub fn level(&self) -> Level {
        match self {
            Self::Federated(Federated { local, members, .. })
                if local.is_some() || members.len() != 1 =>
            {
                Level::Warning
            }
            _ => Level::Error,
        }
    }

    /// What it is, in words.
    pub fn describe(&self) -> String {
        let list = |all: Vec<String>| all.join(", ");
        match self {
            Self::Mirror(MirrorOf {
                mode,
                cluster,
                remote,
                host,
                ..
            }) => {
                let host = host.as_ref().map(|host| format!("host {host} of "));
                let host = host.unwrap_or_default();
                format!("mirror of {host}{remote} in {cluster}, {}", mode.words())
            }
            Self::Federated(federated) => {
                let own = federated.local.map(|name| format!("{name} (this cluster)"));
                let others = federated.members.iter();
                let others = others.map(|(name, cluster)| format!("{name} in {cluster}"));
                format!(
                    "federated Service of {}, {}",
                    list(own.into_iter().chain(others).collect()),
                    federated.mode.words()
                )
            }
            Self::Absent(wanted) => {
                let wanted = wanted.iter();
                let wanted = wanted.map(|w| format!("{} in {}", w.remote, w.link.cluster()));
                format!("no mirror; by its name that of {}", list(wanted.collect()))
            }
            Self::AbsentFederated(member) => {
                format!("no federated Service; its members would be named {member}")
            }
        }
    }
}

impl Mode {
    fn words(self) -> &'static str {
        match self {
            Self::Gateway => "through the gateway",
            Self::Discovery => "from Pod to Pod",
        }
    }
}

/// What a Link's status says about one Service, as a mirror or as a member.
pub fn reported<'a>(
    link: &'a LinkSnapshot,
    federated: bool,
    namespace: &str,
    name: &str,
) -> Option<&'a ServiceCondition> {
    let status = link.status()?;
    let list = if federated {
        &status.federated_services
    } else {
        &status.mirror_services
    };
    let mut found = list.iter();
    let found = found.find(|s| s.remote_ref.namespace == namespace && s.remote_ref.name == name)?;
    found.conditions.first()
}

fn is_mirror(service: &Service) -> bool {
    !service.metadata.label(l::MIRRORED_SERVICE).is_empty()
}

/// Name of the Service, or of the host of one, that a mirror mirrors.
fn remote_of(service: &Service, cluster: &str) -> String {
    let metadata = &service.metadata;
    let fq_name = metadata.annotation(l::REMOTE_FQ_NAME);
    let in_namespace = format!(".{}.svc.", metadata.namespace());
    let of_host = || {
        let name = metadata.name();
        name.strip_suffix(&format!("-{cluster}")).unwrap_or(name)
    };
    match metadata.label(l::REMOTE_SERVICE) {
        "" => match fq_name.split_once(&in_namespace) {
            Some((name, _)) => name,
            None => of_host(),
        },
        name => name,
    }
    .to_owned()
}

/// The mirrors that have a name, by the clusters of the Links.
fn wanted(facts: &RequestPath) -> Vec<Wanted<'_>> {
    let links = facts.source.links.iter().flatten();
    let wanted = links.filter_map(|link| {
        let name = facts.service.name.strip_suffix(link.cluster())?;
        let remote = name.strip_suffix('-').filter(|name| !name.is_empty())?;
        Some(Wanted { link, remote })
    });
    wanted.collect()
}

/// The subject if a Service that no controller has written has a name that a Link wants.
fn taken(facts: &RequestPath) -> Option<Subject<'_>> {
    let is_reported = |wanted: &Wanted<'_>| {
        let said = reported(wanted.link, false, &facts.service.namespace, wanted.remote);
        said.is_some_and(|said| said.reason == Reason::NameConflict.as_str())
    };
    let mut wanted = wanted(facts);
    wanted.retain(is_reported);
    if !wanted.is_empty() {
        return Some(Subject::Absent(wanted));
    }
    let member = member_of(facts)?;
    let links = facts.source.links.iter().flatten();
    let mut said = links.filter_map(|link| reported(link, true, &facts.service.namespace, member));
    let is_reported = said.any(|said| said.reason == Reason::NameConflict.as_str());
    is_reported.then_some(Subject::AbsentFederated(member))
}

fn absent(facts: &RequestPath) -> Option<Subject<'_>> {
    if let Some(member) = member_of(facts) {
        return Some(Subject::AbsentFederated(member));
    }
    let wanted = wanted(facts);
    (!wanted.is_empty()).then_some(Subject::Absent(wanted))
}

fn member_of(facts: &RequestPath) -> Option<&str> {
    let member = facts.service.name.strip_suffix(FEDERATED_SUFFIX)?;
    (!member.is_empty()).then_some(member)
}

/// The answer if the Service is an ordinary one of this cluster.
fn own(facts: &RequestPath) -> NoSubject {
    let id = &facts.service;
    let links = facts.source.links.iter().flatten();
    let names: BTreeSet<String> = links
        .map(|link| format!("{}-{}", id.name, link.cluster()))
        .chain([format!("{}{FEDERATED_SUFFIX}", id.name)])
        .collect();
    let found: Vec<String> = mirrors(facts)
        .filter(|name| names.contains(*name))
        .map(|name| format!("{}/{name}", id.namespace))
        .collect();
    NoSubject {
        what: format!(
            "Service {id} belongs to this cluster: it is neither a mirror nor a federated Service"
        ),
        hint: match found.as_slice() {
            [] => "`linkerd-mc status --services` lists the mirrors".to_owned(),
            found => format!("name one of {}", found.join(", ")),
        },
    }
}

/// What to do if something that is needed could not be read.
fn unread(why: &ReadError, what: &str) -> String {
    if why.kind == ReadErrorKind::Forbidden {
        format!("you have to be permitted to {what}; docs/permissions.md has the roles")
    } else {
        "check that the API server answers, or pass a longer --request-timeout".to_owned()
    }
}

/// The answer if the Service does not exist, and its name ends in no name of a linked cluster.
fn unknown(facts: &RequestPath) -> NoSubject {
    let id = &facts.service;
    if let Err(why) = &facts.source.links {
        return NoSubject {
            what: format!("Service {id} does not exist, and the Links cannot be listed: {why}"),
            hint: unread(why, "list Links"),
        };
    }
    let links = facts.source.links.iter().flatten();
    let clusters: BTreeSet<&str> = links.map(LinkSnapshot::cluster).collect();
    let hint = match (similar(facts), facts.source.namespace_exists.as_ref()) {
        (Some(name), _) => format!("did you mean {}/{name}?", id.namespace),
        (None, Ok(false)) => format!("there is no namespace {}", id.namespace),
        _ if clusters.is_empty() => {
            "this cluster has no Link; `linkerd-mc link` creates one".to_owned()
        }
        _ => "`linkerd-mc status --services` lists the mirrors".to_owned(),
    };
    let known: Vec<&str> = clusters.into_iter().collect();
    let what = match known.as_slice() {
        [] => format!("Service {id} does not exist"),
        known => format!(
            "Service {id} does not exist, and its name ends with that of no linked cluster ({})",
            known.join(", ")
        ),
    };
    NoSubject { what, hint }
}

/// The mirror of the namespace whose name is most like the one that was typed.
pub fn similar(facts: &RequestPath) -> Option<&str> {
    closest(&facts.service.name, mirrors(facts))
}

/// The name that is most like the one that was typed, if any is.
pub fn closest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.map(|name| (strsim::damerau_levenshtein(typed, name), name));
    let near = near.filter(|(letters, _)| *letters <= TYPOS);
    near.min().map(|(_, name)| name)
}

fn mirrors(facts: &RequestPath) -> impl Iterator<Item = &str> {
    let all = facts.source.neighbours.iter().flatten();
    all.filter(|(_, neighbour)| neighbour.is_mirror)
        .map(|(name, _)| name.as_str())
}
