//! Checks of gateways, mirrors and their endpoints, and of what the controller reports about them.

use std::collections::BTreeSet;

use mirror_core::{
    api::{
        conditions::{
            CLUSTER_IPS_EXHAUSTED, DRAINED, GATEWAY_ADDRESS_REFUSED, READY, drained,
            gateway_address_refused::ALL_REFUSED,
        },
        k8s::Service,
        labels::{self, GATEWAY_NETWORKS},
        link::{LinkStatus, ServiceCondition, ServiceStatus},
        members::remote_members,
    },
    mirror::{GatewayService, Reason},
};

use super::rule::Verdict;
use crate::{
    clusters::{
        link_findings::not_ready,
        link_summary::LinkSummary,
        service_range,
        snapshot::{FullSnapshot, LinkSnapshot, ServiceRange},
    },
    finding::{Finding, causes::Cause},
};

pub fn ready(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    // Unknown with a CRD without conditions, which the check of the CRD reports.
    if !snapshot
        .crd
        .as_ref()
        .is_ok_and(|crd| crd.status_fields.contains("conditions"))
    {
        return Verdict::Skip;
    }
    let problems = snapshot.links().iter().filter_map(|link| {
        let found = match link.condition(READY) {
            Some(_) => not_ready(link, &snapshot.cluster.flags)?,
            None => "no status reported yet".into(),
        };
        Some(found.of(link.cluster()))
    });
    Verdict::of(problems.collect::<Vec<_>>())
}

pub fn gateway_addresses(snapshot: &FullSnapshot) -> Verdict {
    let mut links = snapshot.links().iter();
    if links.all(|link| link.link.spec.gateway_address.is_empty()) {
        return Verdict::Skip;
    }
    let (mut none_left, mut some_left) = (Vec::new(), Vec::new());
    for link in snapshot.links() {
        let Some((reason, message)) = link.problem_condition(GATEWAY_ADDRESS_REFUSED) else {
            continue;
        };
        let (problems, what) = if reason == ALL_REFUSED {
            (&mut none_left, "all gateway addresses are refused")
        } else {
            (&mut some_left, "some gateway addresses are refused")
        };
        problems.push(Finding::from(format!(
            "{}: {what}: {message}; allow their networks with the annotation {GATEWAY_NETWORKS} of the Link",
            link.cluster()
        )));
    }
    if none_left.is_empty() && !some_left.is_empty() {
        return Verdict::Warn(some_left);
    }
    none_left.append(&mut some_left);
    Verdict::of(none_left)
}

pub fn drains(snapshot: &FullSnapshot) -> Verdict {
    let (mut problems, mut drained) = (Vec::new(), Vec::new());
    for link in snapshot.links() {
        let Some((reason, message)) = link.problem_condition(DRAINED) else {
            continue;
        };
        let cluster = link.cluster();
        if reason == drained::DRAINED {
            drained.push(format!("{cluster}: drained {message}"));
        } else {
            let flags = &snapshot.cluster.flags;
            let list = flags.mc("status --services --cluster-name {}", &[cluster]);
            let finding = Finding::degraded(Cause::Drained, format!("drained {message}"));
            problems.push(finding.of(cluster).fixed_by(&list));
        }
    }
    if problems.is_empty() && drained.is_empty() {
        Verdict::Skip
    } else if problems.is_empty() {
        Verdict::PassWith(drained)
    } else {
        Verdict::Fail(problems)
    }
}

pub fn gateways(snapshot: &FullSnapshot) -> Verdict {
    let gateways: Vec<_> = snapshot
        .links()
        .iter()
        .filter(|link| link.has_gateway())
        .collect();
    if gateways.is_empty() {
        return Verdict::Skip;
    }
    let (mut problems, mut alive) = (Vec::new(), Vec::new());
    for link in gateways {
        match gateway_problem(snapshot, link) {
            Some(problem) => problems.push(Finding::from(problem).of(link.cluster())),
            None => alive.push(link.cluster().to_owned()),
        }
    }
    if problems.is_empty() {
        Verdict::PassWith(alive)
    } else {
        Verdict::Fail(problems)
    }
}

pub fn gateway_problem(snapshot: &FullSnapshot, link: &LinkSnapshot) -> Option<String> {
    let probes = match &snapshot.probes {
        Err(why) => return Some(format!("cannot list probe Services: {why}")),
        Ok(probes) => probes,
    };
    let mut probes = probes
        .iter()
        .filter(|probe| probe.metadata.label(labels::CLUSTER_NAME) == link.cluster())
        // Those for the API server have the same labels.
        .filter(|service| {
            let others = GatewayService::ALL.into_iter();
            let mut others = others.filter(|service| *service != GatewayService::Probe);
            !others.any(|other| service.metadata.name() == other.name(link.name()))
        });
    let Some(probe) = probes.next() else {
        return Some("probe Service not found".to_owned());
    };
    if probes.next().is_some() {
        return Some("found more than one probe Service".to_owned());
    }
    match &snapshot.endpoints {
        Err(why) => return Some(format!("cannot list EndpointSlices: {why}")),
        Ok(endpoints) if endpoints.of(&probe.metadata.resource_id()).total == 0 => {
            return Some(format!(
                "probe Service {} has no endpoints",
                probe.metadata.name()
            ));
        }
        Ok(_) => {}
    }
    let gateway = link.status().and_then(|status| status.gateway.as_ref());
    match gateway.map(|gateway| gateway.alive) {
        Some(Some(true)) => None,
        Some(Some(false)) => LinkSummary::of(link).gateway?.problem(),
        Some(None) => Some("the gateway has not answered a probe yet".to_owned()),
        None => Some("no status of the gateway reported yet".to_owned()),
    }
}

/// A time, as checks write it: their output is kept.
pub fn endpoints(snapshot: &FullSnapshot) -> Verdict {
    let (mirrors, endpoints) = match (&snapshot.mirrors, &snapshot.endpoints) {
        (Err(why), _) => return Verdict::fail(format!("cannot list mirror services: {why}")),
        (_, Err(why)) => return Verdict::fail(format!("cannot list EndpointSlices: {why}")),
        (Ok(mirrors), Ok(_)) if mirrors.is_empty() => return Verdict::Skip,
        (Ok(mirrors), Ok(endpoints)) => (mirrors, endpoints),
    };
    let empty = mirrors
        .iter()
        .filter(|mirror| has_own_endpoints(mirror))
        .filter(|mirror| endpoints.of(&mirror.metadata.resource_id()).total == 0)
        .map(|mirror| format!("Service {} has no endpoints", mirror.metadata.resource_id()));
    Verdict::of(empty.collect())
}

/// Whether a mirror has EndpointSlices; Linkerd discovers the endpoints of remote discovery in the target cluster.
pub fn has_own_endpoints(mirror: &Service) -> bool {
    let annotation = |key| mirror.metadata.annotation(key);
    let is_discovered = [labels::REMOTE_DISCOVERY, labels::LOCAL_DISCOVERY]
        .iter()
        .any(|key| !annotation(key).is_empty());
    mirror.metadata.label(labels::REMOTE_DISCOVERY).is_empty() && !is_discovered
}

pub fn foreign_endpoints(snapshot: &FullSnapshot) -> Verdict {
    match &snapshot.foreign {
        _ if snapshot.mirrors.as_ref().is_ok_and(Vec::is_empty) => Verdict::Skip,
        Err(why) => Verdict::warn(format!("cannot list the endpoints of mirrors: {why}")),
        Ok(found) => Verdict::of(
            found
                .iter()
                .map(|found| found.finding(&snapshot.cluster.flags))
                .collect(),
        ),
    }
}

pub fn orphans(snapshot: &FullSnapshot) -> Verdict {
    let mirrors = match &snapshot.mirrors {
        Err(why) => return Verdict::fail(format!("cannot list mirror services: {why}")),
        Ok(mirrors) if mirrors.is_empty() => return Verdict::Skip,
        Ok(mirrors) => mirrors,
    };
    if snapshot
        .links()
        .iter()
        .any(|link| link.unreadable.is_some())
    {
        return Verdict::Skip; // the mirrors may belong to that Link
    }
    let clusters: BTreeSet<_> = snapshot.links().iter().map(LinkSnapshot::cluster).collect();
    let mut problems = Vec::new();
    for mirror in mirrors {
        let cluster = mirror.metadata.label(labels::CLUSTER_NAME);
        if !cluster.is_empty() && !clusters.contains(cluster) {
            let what = format!("is an orphan: {cluster} has no Link");
            problems.push(unlinked(snapshot, mirror, &what, cluster));
        }
        for (_, cluster) in remote_members(|key| mirror.metadata.annotations.get(key)) {
            if !clusters.contains(cluster) {
                let what = format!("has a member in {cluster}, which has no Link");
                problems.push(unlinked(snapshot, mirror, &what, cluster));
            }
        }
    }
    Verdict::of(problems)
}

/// The problem of a Service that names a cluster without a Link.
fn unlinked(snapshot: &FullSnapshot, mirror: &Service, what: &str, cluster: &str) -> Finding {
    let flags = &snapshot.cluster.flags;
    let unlink = match mirror.metadata.annotation(labels::INSTALLATION) {
        "" => flags.mc("unlink {} --apply", &[cluster]),
        namespace => flags.mc("unlink {} --namespace {} --apply", &[cluster, namespace]),
    };
    let service = mirror.metadata.resource_id();
    Finding::from(format!("Service {service} {what}")).fixed_by(&unlink)
}

pub fn name_conflicts(snapshot: &FullSnapshot) -> Verdict {
    per_status(snapshot, |status| {
        not_done(status)
            .filter(|(reason, _)| *reason == Reason::NameConflict.as_str())
            .map(|(_, problem)| problem)
            .collect()
    })
}

pub fn unhealthy(snapshot: &FullSnapshot) -> Verdict {
    let nothing_works = |link: &LinkSnapshot| {
        let LinkSummary {
            mirrored,
            federated,
            unhealthy,
            ..
        } = LinkSummary::of(link);
        mirrored + federated == 0 && unhealthy > 0
    };
    match unmirrored(snapshot) {
        // Some are mirrored from each cluster.
        Verdict::Fail(problems) if !snapshot.links().iter().any(nothing_works) => {
            Verdict::Warn(problems)
        }
        verdict => verdict,
    }
}

fn unmirrored(snapshot: &FullSnapshot) -> Verdict {
    per_status(snapshot, |status| {
        let listed: Vec<_> = not_done(status).collect();
        let count = usize::try_from(status.unhealthy.unwrap_or_default()).unwrap_or_default();
        let beyond = count.saturating_sub(listed.len());
        let mut problems: Vec<_> = listed
            .into_iter()
            .filter(|(reason, _)| *reason != Reason::NameConflict.as_str())
            .map(|(_, problem)| problem)
            .collect();
        if beyond > 0 {
            problems.push(format!(
                "{beyond} more, which do not fit into the Link's status"
            ));
        }
        let too_many = [Reason::LimitExceeded.as_str(), CLUSTER_IPS_EXHAUSTED];
        let said = status.conditions.iter();
        let said = said.filter(|c| too_many.contains(&c.type_.as_str()) && c.status == "True");
        problems.extend(said.map(|c| c.message.clone()));
        problems
    })
}

pub fn service_range(snapshot: &FullSnapshot) -> Verdict {
    let (links, Ok(mirrors)) = (snapshot.links(), &snapshot.mirrors) else {
        return Verdict::Skip;
    };
    let waiting = links
        .iter()
        .map(|link| (link.cluster(), service_range::waiting(link, mirrors)));
    let waiting: Vec<_> = waiting.filter(|(_, count)| *count > 0).collect();
    match &snapshot.range {
        _ if links.is_empty() => Verdict::Skip,
        _ if waiting.is_empty() => Verdict::Pass,
        Err(why) => Verdict::warn(format!("cannot read the Service range: {why}")),
        Ok(None) => Verdict::Skip,
        Ok(Some(range)) => Verdict::of(range_problem(range, &waiting).into_iter().collect()),
    }
}

/// The problem if Services, by target cluster, wait for more addresses than mirrors may take, and a remedy.
fn range_problem(range: &ServiceRange, waiting: &[(&str, usize)]) -> Option<String> {
    let all = waiting.iter().map(|(_, count)| count).sum();
    let left = service_range::shortage(range, all)?;
    let of: Vec<String> = waiting
        .iter()
        .map(|(cluster, count)| format!("{count} from {cluster}"))
        .collect();
    let networks: Vec<String> = range.networks.iter().map(ToString::to_string).collect();
    Some(format!(
        "the Service range {} has {left} ClusterIPs left for mirrors, which leave a quarter of it free, and up to {all} \
         Services wait to be mirrored ({}); add a ServiceCIDR, or use narrower selectors in the Links",
        networks.join(", "),
        of.join(", ")
    ))
}

/// Services that should be mirrored or federated and are not, with reason and message.
fn not_done(status: &LinkStatus) -> impl Iterator<Item = (&str, String)> {
    let lists = [&status.mirror_services, &status.federated_services];
    let waiting = lists.into_iter().flat_map(|list| waiting(list));
    waiting.map(|(service, said)| {
        let sentence = sentence(service, &said.reason, &said.message);
        (said.reason.as_str(), sentence)
    })
}

/// Services of a list that are not done. Those that are left out on purpose are omitted.
pub fn waiting(
    list: &[ServiceStatus],
) -> impl Iterator<Item = (&ServiceStatus, &ServiceCondition)> {
    list.iter().filter_map(|service| {
        let said = service.conditions.first().filter(|c| c.status != "True")?;
        (!Reason::is_intended(&said.reason)).then_some((service, said))
    })
}

fn sentence(service: &ServiceStatus, reason: &str, message: &str) -> String {
    let remote = &service.remote_ref;
    let why = if message.is_empty() {
        String::new()
    } else {
        format!(" ({message})")
    };
    format!("{}/{}: {reason}{why}", remote.namespace, remote.name)
}

pub fn federated_ports(snapshot: &FullSnapshot) -> Verdict {
    per_status(snapshot, |status| {
        let differing = status.federated_services.iter().filter_map(|service| {
            let condition = service.conditions.first()?;
            (condition.reason == Reason::PortConflict.as_str()).then(|| {
                format!(
                    "{}/{}: {}",
                    service.remote_ref.namespace, service.remote_ref.name, condition.message
                )
            })
        });
        differing.collect()
    })
}

fn per_status(snapshot: &FullSnapshot, judge: impl Fn(&LinkStatus) -> Vec<String>) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let problems = snapshot.links().iter().flat_map(|link| {
        let problems = link.status().map(&judge).unwrap_or_default();
        problems
            .into_iter()
            .map(|problem| format!("{}: {problem}", link.cluster()))
    });
    Verdict::of(problems.collect())
}
