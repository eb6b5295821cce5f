//! The endpoints that Linkerd's destination controller tells the client's proxy, compared with those that there are.

use std::{collections::BTreeSet, net::IpAddr};

use hints::prose::{counted, listed};
use mirror_core::api::k8s::{EndpointSlice, Service, ServicePort};

use super::{
    context::PathContext,
    layer::LayerReport,
    policy::restart,
    subject::{Mode, Subject},
};
use crate::{
    clusters::{linkerd_api::DiscoveredEndpoint, request_path::TargetFacts},
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// Maximum number of addresses in a text.
const SHOWN: usize = 3;

pub fn judge(way: &PathContext<'_>, mode: Mode, report: &mut LayerReport) {
    let Some(view) = way.view() else {
        return; // The layer before says why.
    };
    let judged: Vec<(&str, LayerReport)> = view
        .endpoints
        .iter()
        .filter_map(|told| {
            let endpoints = match &told.endpoints {
                Ok(endpoints) => endpoints.as_deref(),
                Err(why) => {
                    let what = format!("the endpoints that {} tells the proxy", teller(&told.by));
                    report.cannot_see(what, why);
                    return None;
                }
            };
            let mut of_pod = LayerReport::new(Layer::Discovery);
            told_by(way, mode, (view.port, endpoints), &mut of_pod);
            Some((told.by.as_str(), of_pod))
        })
        .collect();
    let causes = |(_, judged): &(&str, LayerReport)| -> Vec<Cause> {
        judged
            .findings
            .iter()
            .filter_map(|found| found.cause)
            .collect()
    };
    let is_same = judged
        .windows(2)
        .all(|two| causes(&two[0]) == causes(&two[1]));
    let count = judged.len();
    for (at, (by, judged)) in judged.into_iter().enumerate() {
        if is_same && at > 0 {
            continue;
        }
        if is_same || judged.findings.is_empty() {
            report.seen.extend(judged.seen);
            report.unseen.extend(judged.unseen);
        }
        for found in judged.findings {
            report.find(Some(if is_same {
                found
            } else {
                of_one(way, found, by, count)
            }));
        }
    }
}

/// What one Pod of several tells is wrong: the proxies that have asked it, and this may be one of them, fail.
fn of_one(way: &PathContext<'_>, found: Finding, by: &str, count: usize) -> Finding {
    let evidence = format!(
        "{}; this is what {by} tells, one of {count} Pods",
        found.evidence
    );
    let restart = way
        .commands
        .source
        .kubectl("-n {} delete pod {}", &[way.linkerd_namespace(), by]);
    Finding {
        level: Level::Warning,
        evidence,
        actions: vec![],
        ..found
    }
    .fixed_by(&restart)
}

fn teller(pod: &str) -> &str {
    match pod {
        "" => "Linkerd",
        pod => pod,
    }
}

/// Judges what a Pod of the destination controller tells.
fn told_by(
    way: &PathContext<'_>,
    mode: Mode,
    (port, told): (u16, Option<&[DiscoveredEndpoint]>),
    report: &mut LayerReport,
) {
    let Some(told) = told else {
        let evidence = format!(
            "Linkerd's destination controller does not know Service {}",
            way.facts.service
        );
        let found = Finding::broken(Cause::UnknownToLinkerd, evidence);
        return report.find(Some(found.fixed_by(&restart(way))));
    };
    match (mode, &way.facts.target) {
        (Mode::Gateway, _) => match &way.facts.source.slices {
            Err(why) => report.cannot_see("EndpointSlices", why),
            Ok(slices) => {
                let port = port_of(way.subject.service(), port);
                let there = ComparedAddresses::of(told, slices, port);
                slices_of_here(way, &there, report);
            }
        },
        (Mode::Discovery, Some(target)) => of_target(way, target, (told, port), report),
        (Mode::Discovery, None) => of_unseen_target(way, told, report),
    }
}

/// Addresses that Linkerd tells, and those that are ready.
struct ComparedAddresses {
    told: BTreeSet<IpAddr>,
    ready: BTreeSet<IpAddr>,
}

impl ComparedAddresses {
    /// Of slices, only the addresses of the families that Linkerd tells: it may be configured to use IPv4 alone.
    /// And only those that have this port of the Service, if it is known: Linkerd tells of no others.
    fn of(
        told: &[DiscoveredEndpoint],
        slices: &[EndpointSlice],
        port: Option<&ServicePort>,
    ) -> Self {
        let told: BTreeSet<IpAddr> = told.iter().map(|endpoint| endpoint.address.ip()).collect();
        let slices: Vec<&EndpointSlice> = match port {
            Some(port) => with_port(slices, port).collect(),
            None => slices.iter().collect(),
        };
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let ready = endpoints.filter(|endpoint| endpoint.is_ready());
        let ready = ready.flat_map(|endpoint| &endpoint.addresses);
        let ready = ready.filter_map(|address| address.parse().ok());
        let is_used = |address: &IpAddr| {
            told.is_empty()
                || told
                    .iter()
                    .any(|other| other.is_ipv4() == address.is_ipv4())
        };
        Self {
            ready: ready.filter(is_used).collect(),
            told,
        }
    }

    fn are_apart(&self) -> bool {
        self.told.is_disjoint(&self.ready) && !self.ready.is_empty()
    }

    fn stale(&self) -> Vec<&IpAddr> {
        self.told.difference(&self.ready).collect()
    }
}

fn port_of(service: Option<&Service>, number: u16) -> Option<&ServicePort> {
    let mut ports = service?.spec.ports.iter();
    ports.find(|port| port.port == i32::from(number))
}

fn list<'i>(addresses: impl IntoIterator<Item = &'i IpAddr>) -> String {
    let addresses: Vec<String> = addresses.into_iter().map(ToString::to_string).collect();
    if addresses.is_empty() {
        return "none".to_owned();
    }
    listed(&addresses, SHOWN)
}

fn endpoints(count: usize) -> String {
    counted(count, "endpoint")
}

/// Compares the endpoints that Linkerd tells with the slices of this cluster.
fn slices_of_here(way: &PathContext<'_>, there: &ComparedAddresses, report: &mut LayerReport) {
    let what = format!(
        "Linkerd tells the proxy of {}, and the EndpointSlices of Service {} have {}",
        list(&there.told),
        way.facts.service,
        list(&there.ready)
    );
    let found = if there.are_apart() {
        Finding::broken(Cause::EndpointsNotTold, what)
    } else if !there.stale().is_empty() {
        Finding::degraded(Cause::EndpointsStale, what)
    } else {
        return report.see(format!(
            "Linkerd tells the proxy of {}, as the EndpointSlices do",
            endpoints(there.told.len())
        ));
    };
    report.find(Some(found.fixed_by(&restart(way))));
}

/// Compares the endpoints that Linkerd tells with the slices of the target cluster. A federated Service has other
/// clusters too.
fn of_target(
    way: &PathContext<'_>,
    target: &TargetFacts,
    (told, port): (&[DiscoveredEndpoint], u16),
    report: &mut LayerReport,
) {
    let cluster = &target.cluster;
    let slices = match &target.slices {
        Err(why) => return report.cannot_see(format!("EndpointSlices of {cluster}"), why),
        Ok(slices) => slices,
    };
    let service = target.service.as_ref().ok().and_then(Option::as_ref);
    let there = ComparedAddresses::of(told, slices, port_of(service, port));
    let is_whole = matches!(way.subject, Subject::Mirror(_));
    let is_member = way
        .subject
        .remotes()
        .iter()
        .any(|(name, _)| name == cluster);
    if !is_member {
        return;
    }
    let what = format!(
        "Linkerd tells the proxy of {}, and Service {} in {cluster} has {}",
        list(&there.told),
        target.remote,
        list(&there.ready)
    );
    let found = if there.are_apart() {
        let level = way.level();
        Finding::new(Cause::EndpointsNotTold, level, what)
    } else if is_whole && !there.stale().is_empty() {
        Finding::degraded(Cause::EndpointsStale, what)
    } else {
        let common = there.told.intersection(&there.ready).count();
        return report.see(format!(
            "Linkerd tells the proxy of {} in {cluster}, as the EndpointSlices there do",
            endpoints(common)
        ));
    };
    // Linkerd has not heard of the target cluster: new credentials and a restart of its controller end that.
    let found = match way.facts.link_to(cluster) {
        Some(link) => found.fixed_by(&way.commands.rotate(cluster, link.namespace())),
        None => found.fixed_by(&restart(way)),
    };
    report.find(Some(found));
}

/// Judges the endpoints that Linkerd tells, if nobody looked into the target cluster.
fn of_unseen_target(way: &PathContext<'_>, told: &[DiscoveredEndpoint], report: &mut LayerReport) {
    if !told.is_empty() {
        return report.see(format!(
            "Linkerd tells the proxy of {}",
            endpoints(told.len())
        ));
    }
    let evidence = "Linkerd tells the proxy of no endpoint in any cluster";
    report.find(Some(nothing_left(way, evidence)));
}

/// No cluster has an endpoint of the Service.
pub fn nothing_left(way: &PathContext<'_>, evidence: impl Into<String>) -> Finding {
    let found = Finding::broken(Cause::NothingDiscovered, evidence);
    let namespace = &way.facts.service.namespace;
    let remotes = way.subject.remotes().into_iter();
    remotes.fold(found, |found, (cluster, remote)| {
        found.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl(
                "-n {} get endpointslices -l kubernetes.io/service-name={}",
                &[namespace, remote],
            )
        })
    })
}

/// The slices whose Pods have a port of a Service. Kubernetes leaves a port out that no container declares.
pub fn with_port<'s>(
    slices: &'s [EndpointSlice],
    port: &ServicePort,
) -> impl Iterator<Item = &'s EndpointSlice> {
    let name = port.name.as_deref().unwrap_or_default().to_owned();
    slices.iter().filter(move |slice| {
        let mut ports = slice.ports.iter();
        ports.any(|of| of.name.as_deref().unwrap_or_default() == name)
    })
}
