//! What is wrong with a mirror, or a federated Service, that exists.

use std::collections::BTreeSet;

use mirror_core::{
    api::{
        conditions::DRAINED,
        duration::utc,
        k8s::{Endpoint, Service},
        labels as l,
        link::ServiceCondition,
        members::local_member,
    },
    mirror::Reason,
};

use super::{
    connection,
    context::PathContext,
    controller, exported,
    layer::LayerReport,
    missing::of_reason,
    routes,
    subject::{Federated, MirrorOf, Mode, reported},
};
use crate::{
    clusters::{
        foreign_endpoints, misspelled,
        preference_status::PreferenceStatus,
        snapshot::{Count, LinkSnapshot},
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// Judges a mirror.
pub fn mirror(way: &PathContext<'_>, mirror: &MirrorOf<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Objects);
    let MirrorOf {
        service, cluster, ..
    } = mirror;
    describe(way, service, mirror.mode, &mut report);
    let Some(link) = way.facts.link_to(cluster) else {
        match &way.facts.source.links {
            Err(why) => report.cannot_see("the Links", why),
            Ok(_) => report.find(Some(unlinked(way, service, cluster))),
        }
        common(way, service, &mut report);
        return report;
    };
    let declared = declares(service, way.facts.port);
    // What the mirror lacks, its controller would write.
    let lags = !declared && target_declares(way, cluster) != Some(false);
    let level = if lags && target_declares(way, cluster).is_some() || is_left_empty(way, mirror) {
        Level::Error
    } else {
        Level::Warning
    };
    let found = connection::invalid(way, link, level)
        .or_else(|| unattended(way, link.namespace(), level, &mut report))
        .or_else(|| connection::broken(way, link, level, &mut report));
    let is_held_up = found.is_some();
    report.find(found);
    let said = way
        .status(link)
        .and_then(|_| reported(link, false, &way.facts.service.namespace, &mirror.remote));
    if !declared {
        // A Service that is gone or not exported has no port for the mirror.
        let is_seen = way
            .facts
            .target_of(cluster)
            .is_some_and(|target| target.service.is_ok());
        let gone = exported::not_exported(way, link, &mirror.remote, false).filter(|_| is_seen);
        report.find(Some(gone.unwrap_or_else(|| {
            undeclared(way, service, link, &mirror.remote, is_held_up, said)
        })));
    } else if let Some(said) = said.filter(|said| said.status != "True") {
        let found = of_reason(way, link, said);
        report.find(found.map(|found| Finding {
            level: Level::Warning,
            ..found
        }));
    }
    common(way, service, &mut report);
    report
}

/// Judges a federated Service.
pub fn federated(way: &PathContext<'_>, federated: &Federated<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Objects);
    let service = federated.service;
    describe(way, service, federated.mode, &mut report);
    let member = way
        .facts
        .service
        .name
        .strip_suffix("-federated")
        .unwrap_or_default();
    let declared = declares(service, way.facts.port);
    let mut judged = Vec::new();
    for link in way.facts.source.links.iter().flatten() {
        let said = reported(link, true, &way.facts.service.namespace, member);
        let takes_part = federated
            .members
            .iter()
            .any(|(_, cluster)| *cluster == link.cluster());
        if !takes_part && said.is_none() {
            continue;
        }
        let found = connection::invalid(way, link, Level::Warning).or_else(|| {
            let is_new = !judged.contains(&link.namespace());
            judged.push(link.namespace());
            let judge = || unattended(way, link.namespace(), Level::Warning, &mut report);
            is_new.then(judge).flatten()
        });
        report.find(found);
        let found = connection::broken(way, link, Level::Warning, &mut report);
        report.find(found);
        report.find(drained(way, link));
        let said = said.filter(|_| way.status(link).is_some());
        report.find(said.and_then(|said| of_member(way, link, said, declared)));
    }
    if let Err(why) = &way.facts.source.links {
        report.cannot_see("the Links", why);
    }
    if !declared && !report.is_broken() {
        let found = not_declared(way, service, "the members have to declare it too");
        report.find(Some(found));
    }
    failed_over(way, service, &mut report);
    common(way, service, &mut report);
    report
}

/// What is wrong with the controller. Nobody else sets endpoints ready again.
fn unattended(
    way: &PathContext<'_>,
    namespace: &str,
    level: Level,
    report: &mut LayerReport,
) -> Option<Finding> {
    let found = controller::judge(way, namespace, level, report)?;
    let is_gated = way.subject.mode() == Some(Mode::Gateway);
    if !is_gated || !way.has_no_endpoint() {
        return Some(found);
    }
    let evidence = format!(
        "{}; no endpoint of the Service is ready, and nobody else sets one ready again",
        found.evidence
    );
    Some(Finding {
        level: Level::Error,
        evidence,
        ..found
    })
}

/// Says what the Service is made of.
fn describe(way: &PathContext<'_>, service: &Service, mode: Mode, report: &mut LayerReport) {
    let ports: Vec<String> = service
        .spec
        .ports
        .iter()
        .map(|port| port.port.to_string())
        .collect();
    report.see(format!(
        "Service {} has ports {}",
        way.facts.service,
        ports.join(", ")
    ));
    if mode == Mode::Discovery {
        return;
    }
    match way.endpoints() {
        Ok(Count { ready, total }) => report.see(format!("{ready} of {total} endpoints are ready")),
        Err(why) => report.cannot_see("EndpointSlices", why),
    }
}

/// What is wrong with mirrors and federated Services alike.
fn common(way: &PathContext<'_>, service: &Service, report: &mut LayerReport) {
    match &way.facts.source.slices {
        Err(why) => report.cannot_see("EndpointSlices", why),
        Ok(slices) => {
            for found in foreign_endpoints::find(std::iter::once(service), slices) {
                report.find(Some(found.finding(&way.commands.source)));
            }
        }
    }
    routes::judge(way, service, report);
}

/// Whether the Service has the port that is called.
fn declares(service: &Service, port: Option<u16>) -> bool {
    let mut ports = service.spec.ports.iter();
    port.is_none_or(|port| ports.any(|own| own.port == i32::from(port)))
}

/// Whether the Service in the target cluster has it; `None` if unknown.
/// Whether the target cluster is known to have endpoints of which the mirror has none.
fn is_left_empty(way: &PathContext<'_>, mirror: &MirrorOf<'_>) -> bool {
    let target = way.facts.target_of(mirror.cluster);
    let slices = target.into_iter().flat_map(|target| &target.slices);
    let mut endpoints = slices.flatten().flat_map(|slice| &slice.endpoints);
    mirror.mode == Mode::Gateway
        && way.endpoints().is_ok_and(|count| count.total == 0)
        && endpoints.any(Endpoint::is_ready)
}

fn target_declares(way: &PathContext<'_>, cluster: &str) -> Option<bool> {
    let target = way.facts.target_of(cluster)?;
    let service = target.service.as_ref().ok()?.as_ref()?;
    Some(declares(service, way.facts.port))
}

/// The mirror lacks the port that is called.
fn undeclared(
    way: &PathContext<'_>,
    service: &Service,
    link: &LinkSnapshot,
    remote: &str,
    is_held_up: bool,
    said: Option<&ServiceCondition>,
) -> Finding {
    let cluster = link.cluster();
    let namespace = &way.facts.service.namespace;
    match target_declares(way, cluster) {
        Some(true) if !is_held_up => {
            let port = way.facts.port.unwrap_or_default();
            let reason = said.map_or("nothing", |said| said.reason.as_str());
            let evidence = format!(
                "{namespace}/{remote} in {cluster} declares port {port}, and its mirror does not; the Link reports {reason}"
            );
            let plan = way
                .commands
                .source
                .mc("plan {} --namespace {}", &[link.name(), link.namespace()]);
            Finding::broken(Cause::NotMirroredYet, evidence).fixed_by(&plan)
        }
        Some(true) => not_declared(way, service, "the Service in the target cluster does"),
        Some(false) | None => {
            let finding = not_declared(way, service, "Linkerd refuses requests to it");
            finding.fixed_in(way.commands, cluster, |flags| {
                flags.kubectl("-n {} edit service {}", &[namespace, remote])
            })
        }
    }
}

fn not_declared(way: &PathContext<'_>, service: &Service, more: &str) -> Finding {
    let ports: Vec<String> = service
        .spec
        .ports
        .iter()
        .map(|port| port.port.to_string())
        .collect();
    let evidence = format!(
        "Service {} declares {}, and not {}; {more}",
        way.facts.service,
        ports.join(", "),
        way.facts.port.unwrap_or_default()
    );
    Finding::broken(Cause::PortNotDeclared, evidence)
}

/// The cluster of a mirror has no Link.
fn unlinked(way: &PathContext<'_>, service: &Service, cluster: &str) -> Finding {
    let evidence = format!("no Link has the target cluster {cluster}");
    let installation = match service.metadata.annotation(l::INSTALLATION) {
        "" => l::MULTICLUSTER_NAMESPACE,
        namespace => namespace,
    };
    Finding::broken(Cause::LinkMissing, evidence)
        .fixed_by(&way.commands.link(cluster, installation))
}

/// The cluster of a member is drained.
fn drained(way: &PathContext<'_>, link: &LinkSnapshot) -> Option<Finding> {
    let (reason, message) = way.problem(link, DRAINED)?;
    let evidence = format!("Link {} has Drained {reason}: {message}", link.id());
    let end = way.commands.source.mc(
        "drain {} --end --namespace {}",
        &[link.cluster(), link.namespace()],
    );
    let found = Finding::degraded(Cause::Drained, evidence).since(link.since(DRAINED));
    Some(found.fixed_by(&end))
}

/// What the controller reports about a member.
fn of_member(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    said: &ServiceCondition,
    declared: bool,
) -> Option<Finding> {
    let is = |reason: Reason| said.reason == reason.as_str();
    let evidence = || {
        format!(
            "Link {} reports {}: {}",
            link.id(),
            said.reason,
            said.message
        )
    };
    if is(Reason::PortConflict) {
        let level = if declared {
            Level::Warning
        } else {
            Level::Error
        };
        let found = Finding::new(Cause::PortConflict, level, evidence());
        let found = found.since(Some(said.last_transition_time.0));
        let name = way
            .facts
            .service
            .name
            .strip_suffix("-federated")
            .unwrap_or_default();
        return Some(found.fixed_in(way.commands, link.cluster(), |flags| {
            flags.kubectl(
                "-n {} edit service {}",
                &[&way.facts.service.namespace, name],
            )
        }));
    }
    if [
        Reason::InvalidPreference,
        Reason::NoRoutes,
        Reason::RouteNotAccepted,
        Reason::PreferenceIgnored,
    ]
    .into_iter()
    .any(is)
    {
        return Some(invalid_preference(way, evidence()));
    }
    if said.status == "True" || Reason::is_intended(&said.reason) {
        return None;
    }
    let found = of_reason(way, link, said)?;
    Some(Finding {
        level: Level::Warning,
        ..found
    })
}

/// A preference that is not applied. A misspelled name of a cluster is corrected, where a member of this cluster has it.
fn invalid_preference(way: &PathContext<'_>, evidence: String) -> Finding {
    let (id, source) = (&way.facts.service, &way.commands.source);
    let service = way
        .facts
        .source
        .service
        .as_ref()
        .ok()
        .and_then(Option::as_ref);
    let preference = service.and_then(|service| PreferenceStatus::of(service).preference);
    let links = way.facts.source.links.as_deref().unwrap_or_default();
    let linked: BTreeSet<&str> = links.iter().map(LinkSnapshot::cluster).collect();
    let found = preference.and_then(|preference| misspelled::unlinked(&preference, &linked));
    let evidence = match &found {
        Some(found) => format!("Service {id} {}", found.text),
        None => evidence,
    };
    let broken = Finding::degraded(Cause::PreferenceInvalid, evidence);
    let local =
        service.and_then(|service| local_member(|key: &str| service.metadata.annotations.get(key)));
    match (found.and_then(|found| found.meant), local) {
        (Some(meant), Some(member)) => broken.fixed_by(&source.kubectl(
            "-n {} annotate service {} {}={} --overwrite",
            &[&id.namespace, member, l::PREFER, &meant],
        )),
        _ => broken.fixed_by(&source.mc("status --services --namespace {}", &[&id.namespace])),
    }
}

/// Others receive the requests of a preferred cluster.
fn failed_over(way: &PathContext<'_>, service: &Service, report: &mut LayerReport) {
    let preferred = PreferenceStatus::of(service);
    let Some(preference) = &preferred.preference else {
        return;
    };
    if !preferred.has_failed_over {
        report.see(format!("prefers {preference}"));
        return;
    }
    let time = |time| format!("at {}", utc(time));
    let evidence = preferred.absence(time, time).unwrap_or_default();
    let command = way.commands.source.mc(
        "status {}/{}",
        &[&way.facts.service.namespace, &way.facts.service.name],
    );
    report.find(Some(
        Finding::degraded(Cause::FailedOver, evidence).fixed_by(&command),
    ));
}
