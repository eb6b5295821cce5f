//! The Service in the target cluster, its Pods, and the trust anchors of both clusters.

use hints::suggest::ClusterFlags;
use mirror_core::api::{
    k8s::{Endpoint, EndpointSlice, ServicePort},
    link::LinkerdConfig,
    metadata::{ResourceId, cluster_uid},
};

use super::{
    context::PathContext,
    endpoints::{nothing_left, with_port},
    exported, inbound,
    layer::LayerReport,
    subject::Subject,
};
use crate::{
    clusters::{
        request_path::TargetFacts,
        snapshot::{Count, Endpoints, Known},
        trust_anchors,
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = of_service(way);
    if way.has_no_endpoint() && !report.is_broken() {
        let evidence = format!("no endpoint of Service {} is ready", way.facts.service);
        report.find(Some(nothing_left(way, evidence)));
    }
    report
}

fn of_service(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Target);
    let Some(mode) = way.subject.mode() else {
        return report;
    };
    let is_federated = matches!(way.subject, Subject::Federated(_));
    let level = way.level();
    let Some(target) = &way.facts.target else {
        report.cannot_see(
            "the target cluster",
            "no context was named; pass --target CONTEXT",
        );
        return report;
    };
    let cluster = target.cluster.as_str();
    let others = way.subject.remotes().into_iter();
    for (other, _) in others.filter(|(other, _)| *other != cluster) {
        report.cannot_see(
            format!("the Service in {other}"),
            format!("--target {} is {cluster}", target.context),
        );
    }
    let link = way.facts.link_to(cluster);
    let recorded = link.and_then(|link| cluster_uid(&link.link));
    let is_proven = recorded.is_some() && recorded == target.uid.as_deref();
    let what = format!(
        "whether context {} is the cluster of Link {cluster}",
        target.context
    );
    if !is_proven && !is_same(way, target) {
        report.cannot_see(
            what,
            "its API server has another address and another certificate authority than the Link's credentials",
        );
    } else if !is_proven && target.context != cluster {
        report.cannot_see(
            what,
            "the Link does not record the UID of its cluster, so the context was taken for it",
        );
    }
    match &target.service {
        Err(why) => report.cannot_see(format!("Service {} in {cluster}", target.remote), why),
        Ok(None) => {
            let found = exported::missing(way, cluster, &target.remote.name);
            report.find(Some(Finding { level, ..found }));
            return report;
        }
        Ok(Some(_)) => {
            if let Some(link) = way.facts.link_to(cluster)
                && let Some(found) =
                    exported::not_exported(way, link, &target.remote.name, is_federated)
            {
                report.find(Some(Finding { level, ..found }));
                return report;
            }
            report.see(format!(
                "Service {} is exported by {cluster}",
                target.remote
            ));
        }
    }
    endpoints(way, target, level, &mut report);
    inbound::of_server(way, target, (mode, level), &mut report);
    trust_roots(way, target, level, &mut report);
    report
}

/// Whether a context may be that of the Link. A public authority, or a proxy before the API server, proves nothing.
fn is_same(way: &PathContext<'_>, target: &TargetFacts) -> bool {
    let link = way.facts.link_to(&target.cluster);
    let own = link.and_then(|link| link.credentials.as_ref()?.as_ref().ok());
    own.is_none_or(|own| {
        let theirs = &own.identity;
        theirs.server == target.identity.server
            || theirs.authorities.is_empty()
            || target.identity.authorities.is_empty()
            || !theirs.authorities.is_disjoint(&target.identity.authorities)
    })
}

fn endpoints(way: &PathContext<'_>, target: &TargetFacts, level: Level, report: &mut LayerReport) {
    let slices = match &target.slices {
        Ok(slices) => slices,
        Err(why) => return report.cannot_see(format!("EndpointSlices of {}", target.remote), why),
    };
    let Count { ready, total } = Endpoints::count(slices).of(&target.remote);
    let state = format!(
        "{ready} of {total} endpoints of {} in {} are ready",
        target.remote, target.cluster
    );
    let host = match &way.subject {
        Subject::Mirror(mirror) => mirror.host.as_deref(),
        _ => None,
    };
    let is_of_host =
        |endpoint: &Endpoint| host.is_none_or(|host| endpoint.hostname.as_deref() == Some(host));
    let mut all = slices.iter().flat_map(|slice| &slice.endpoints);
    if ready > 0 && all.any(|endpoint| endpoint.is_ready() && is_of_host(endpoint)) {
        let found = undeclared(way, target, (slices, level), report);
        report.find(found);
        return report.see(state);
    }
    let state = match host.filter(|_| ready > 0) {
        Some(host) => format!("{state}, and none of host {host}"),
        None => state,
    };
    let found = no_pods(way, &target.cluster, &target.remote.name, level, state);
    report.find(Some(found));
}

/// The finding if no ready Pod has a port that is called, or that may be called.
fn undeclared(
    way: &PathContext<'_>,
    target: &TargetFacts,
    (slices, level): (&[EndpointSlice], Level),
    report: &mut LayerReport,
) -> Option<Finding> {
    let service = target.service.as_ref().ok()?.as_ref()?;
    let is_tcp = |port: &ServicePort| port.protocol.as_deref().is_none_or(|of| of == "TCP");
    let called = |port: &&ServicePort| {
        is_tcp(port) && way.facts.port.is_none_or(|of| port.port == i32::from(of))
    };
    let ports: Vec<&ServicePort> = service.spec.ports.iter().filter(called).collect();
    let is_served = |port: &&&ServicePort| {
        let mut of_port = with_port(slices, port);
        of_port.any(|slice| slice.endpoints.iter().any(Endpoint::is_ready))
    };
    let without: Vec<String> = ports
        .iter()
        .filter(|port| !is_served(port))
        .map(|port| port.port.to_string())
        .collect();
    if without.is_empty() {
        return None;
    }
    let evidence = format!(
        "no container of the ready Pods of {} in {} declares the port behind port {}",
        target.remote,
        target.cluster,
        without.join(", ")
    );
    if without.len() < ports.len() {
        // Which of them is called is not known.
        report.see(format!("{evidence}, so requests to it fail"));
        return None;
    }
    let found = Finding::new(Cause::PortHasNoContainer, level, evidence);
    let ResourceId { namespace, name } = &target.remote;
    Some(found.fixed_in(way.commands, &target.cluster, |flags| {
        flags.kubectl("-n {} get service {} -o yaml", &[namespace, name])
    }))
}

fn no_pods(
    way: &PathContext<'_>,
    cluster: &str,
    remote: &str,
    level: Level,
    evidence: String,
) -> Finding {
    let namespace = &way.facts.service.namespace;
    let found = Finding::new(Cause::NoReadyPods, level, evidence);
    found.fixed_in(way.commands, cluster, |flags| {
        flags.kubectl(
            "-n {} get endpointslices -l kubernetes.io/service-name={}",
            &[namespace, remote],
        )
    })
}

fn trust_roots(
    way: &PathContext<'_>,
    target: &TargetFacts,
    level: Level,
    report: &mut LayerReport,
) {
    match no_common_anchor(way, target, level) {
        Err((of, why)) => report.cannot_see(format!("the trust anchors of {of}"), why),
        Ok(None) => report.see("the clusters share a trust anchor"),
        Ok(found) => report.find(found),
    }
}

/// A finding if the clusters have no trust anchor in common. `Err` is the cluster whose anchors are not known, and why.
pub fn no_common_anchor(
    way: &PathContext<'_>,
    target: &TargetFacts,
    level: Level,
) -> Result<Option<Finding>, (String, String)> {
    let known = |of: &str, config: &Known<LinkerdConfig>| {
        let config = config
            .as_ref()
            .map_err(|why| (of.to_owned(), why.to_string()))?;
        let parsed = trust_anchors::parse(&config.identity_trust_anchors_pem);
        parsed.map_err(|why| (of.to_owned(), why))
    };
    let own = known("this cluster", &way.facts.source.config)?;
    let theirs = known(&target.cluster, &target.config)?;
    let list = |all: &trust_anchors::Anchors| {
        let all = all.iter().map(|der| trust_anchors::describe(der));
        all.collect::<Vec<_>>().join(", ")
    };
    if !own.is_disjoint(&theirs) {
        return Ok(None);
    }
    let evidence = format!(
        "this cluster trusts {}, and {} trusts {}",
        list(&own),
        target.cluster,
        list(&theirs)
    );
    let found = Finding::new(Cause::TrustRootsDiffer, level, evidence);
    let bundle = |flags: &ClusterFlags, namespace: &str| {
        flags.kubectl(
            "-n {} get configmap linkerd-identity-trust-roots -o yaml",
            &[namespace],
        )
    };
    let found = found.fixed_by(&bundle(&way.commands.source, way.linkerd_namespace()));
    let theirs = &target.linkerd_namespace;
    Ok(Some(found.fixed_in(
        way.commands,
        &target.cluster,
        |flags| bundle(flags, theirs),
    )))
}
