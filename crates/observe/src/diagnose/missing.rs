//! Why there is no mirror, or no federated Service, of this name.

use mirror_core::{api::link::ServiceCondition, mirror::Reason};

use super::{
    connection,
    context::PathContext,
    controller, exported,
    layer::LayerReport,
    subject::{Wanted, reported, similar},
};
use crate::{
    clusters::snapshot::LinkSnapshot,
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// Why none of the mirrors exists that would have this name. The longest name of a cluster is meant most likely.
pub fn mirror(way: &PathContext<'_>, wanted: &[Wanted<'_>]) -> LayerReport {
    let mut report = LayerReport::new(Layer::Objects);
    let reported = |one: &&Wanted<'_>| {
        let namespace = &way.facts.service.namespace;
        reported(one.link, false, namespace, one.remote).is_some()
    };
    let most_likely = wanted.iter().max_by_key(|one| one.link.cluster().len());
    if let Some(one) = wanted.iter().find(reported).or(most_likely) {
        let found = why(way, one.link, one.remote, false, &mut report);
        report.find(found);
    }
    report
}

/// Why no federated Service exists of members with this name.
pub fn federated(way: &PathContext<'_>, member: &str) -> LayerReport {
    let mut report = LayerReport::new(Layer::Objects);
    let namespace = &way.facts.service.namespace;
    let links = || way.facts.source.links.iter().flatten();
    let is_reported = |link: &&LinkSnapshot| reported(link, true, namespace, member).is_some();
    let of_target = links().find(|link| way.facts.target_of(link.cluster()).is_some());
    let one = links().find(is_reported).or(of_target);
    let link = match (one, links().count()) {
        (Some(link), _) => Some(link),
        (None, 2..) => {
            let found = in_no_cluster(way, member, &mut report);
            report.find(Some(found));
            return report;
        }
        (None, _) => links().next(),
    };
    if let Some(link) = link {
        let found = why(way, link, member, true, &mut report);
        report.find(found);
    } else if let Err(why) = &way.facts.source.links {
        report.cannot_see("the Links", why);
    } else {
        let evidence = "this cluster has no Link";
        let found = Finding::broken(Cause::LinkMissing, evidence)
            .fixed_by(&way.commands.link("CLUSTER", "linkerd-multicluster"));
        report.find(Some(found));
    }
    report
}

/// No Link says anything of a member, and no cluster was named that should have it: what is wrong with one of the Links may
/// be the reason.
fn in_no_cluster(way: &PathContext<'_>, member: &str, report: &mut LayerReport) -> Finding {
    let broken = Level::Error;
    let mut names = Vec::new();
    for link in way.facts.source.links.iter().flatten() {
        let obstacle = connection::invalid(way, link, broken)
            .or_else(|| controller::judge(way, link.namespace(), broken, report))
            .or_else(|| connection::broken(way, link, broken, report));
        if let Some(found) = obstacle {
            return found;
        }
        names.push(link.cluster());
    }
    let namespace = &way.facts.service.namespace;
    let evidence = format!(
        "the status of no Link lists a member {namespace}/{member}: none of {} has one with the label; with --target, it is \
         looked up in the cluster that should have it",
        names.join(", ")
    );
    let list = way
        .commands
        .source
        .mc("status --services --namespace {}", &[namespace]);
    Finding::broken(Cause::NotExported, evidence).fixed_by(&list)
}

/// The first obstacle of a Service of a target cluster.
fn why(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    remote: &str,
    federated: bool,
    report: &mut LayerReport,
) -> Option<Finding> {
    let broken = Level::Error;
    if let Some(found) = connection::invalid(way, link, broken) {
        return Some(found);
    }
    if let Some(found) = controller::judge(way, link.namespace(), broken, report) {
        return Some(found);
    }
    let namespace = &way.facts.service.namespace;
    let said = reported(link, federated, namespace, remote);
    let is_refuted = said.is_some_and(|said| is_refuted(way, said));
    let local = said
        .filter(|said| said.status != "True")
        .and_then(|said| of_reason(way, link, said));
    let (first, last) = if is_refuted {
        (
            None,
            local.filter(|found| found.cause == Some(Cause::NameConflict)),
        )
    } else {
        (local, None)
    };
    first
        .or_else(|| connection::broken(way, link, broken, report))
        .or(last)
        .or_else(|| {
            // The status of the Link is some seconds behind what is seen in the target cluster.
            let target = way.facts.target_of(link.cluster());
            let is_seen = target.is_some_and(|target| target.service.is_ok());
            let found = exported::not_exported(way, link, remote, federated);
            found.filter(|_| is_seen || said.is_none())
        })
        .or_else(|| Some(not_yet(way, link, remote, said)))
}

/// Whether this cluster shows that what is reported for a Service that it does not have is no longer so. A name that is free
/// may still be one that another Link has precedence for.
fn is_refuted(way: &PathContext<'_>, said: &ServiceCondition) -> bool {
    let source = &way.facts.source;
    let is = |reason: Reason| said.reason == reason.as_str();
    is(Reason::MissingNamespace) && matches!(source.namespace_exists, Ok(true))
        || is(Reason::NameConflict) && matches!(source.service, Ok(None))
}

/// The cause that the controller reports for a Service.
pub fn of_reason(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    said: &ServiceCondition,
) -> Option<Finding> {
    let id = &way.facts.service;
    let source = &way.commands.source;
    let (namespace, name) = (link.namespace(), link.name());
    let is = |reason: Reason| said.reason == reason.as_str();
    let plan = || source.mc("plan {} --namespace {}", &[name, namespace]);
    let edit = || {
        source.kubectl(
            "-n {} edit links.multicluster.linkerd.io {}",
            &[namespace, name],
        )
    };
    let (cause, command) = if is(Reason::MissingNamespace) {
        (
            Cause::NamespaceMissing,
            source.kubectl("create namespace {}", &[&id.namespace]),
        )
    } else if is(Reason::NameConflict) {
        (
            Cause::NameConflict,
            source.kubectl("-n {} get service {} -o yaml", &[&id.namespace, &id.name]),
        )
    } else if is(Reason::NameTooLong) {
        (Cause::NameTooLong, plan())
    } else if is(Reason::NamespaceNotAllowed) {
        (Cause::NamespaceNotAllowed, edit())
    } else if is(Reason::InvalidService) {
        (Cause::ServiceInvalid, plan())
    } else if is(Reason::LimitExceeded) {
        (Cause::LimitExceeded, plan())
    } else if is(Reason::FederationNotAllowed) {
        (Cause::FederationNotAllowed, edit())
    } else if is(Reason::ExportedToOthers) || is(Reason::UnclearExport) {
        (Cause::ExportedToOthers, plan())
    } else if is(Reason::NoClusterIp) {
        (Cause::NoClusterIp, source.kubectl("get servicecidrs", &[]))
    } else if is(Reason::NoGateway) {
        (
            Cause::NoGateway,
            way.commands.link_with_gateway(link.cluster(), namespace),
        )
    } else if is(Reason::NoDiscovery) {
        (Cause::NoDiscovery, plan())
    } else if is(Reason::Error) {
        (Cause::WriteFailed, plan())
    } else {
        return None;
    };
    let evidence = format!(
        "Link {} reports {}: {}",
        link.id(),
        said.reason,
        said.message
    );
    let found = Finding::broken(cause, evidence).since(Some(said.last_transition_time.0));
    Some(found.fixed_by(&command))
}

/// The finding if no obstacle is known.
fn not_yet(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    remote: &str,
    said: Option<&ServiceCondition>,
) -> Finding {
    let namespace = &way.facts.service.namespace;
    let state = match said {
        Some(said) => format!(
            "Link {} reports {} for {namespace}/{remote}",
            link.id(),
            said.reason
        ),
        None => format!("{} exports {namespace}/{remote}", link.cluster()),
    };
    let meant = similar(way.facts).map(|name| format!("; did you mean {namespace}/{name}?"));
    let evidence = format!(
        "{state}, but Service {} does not exist{}",
        way.facts.service,
        meant.unwrap_or_default()
    );
    let plan = way
        .commands
        .source
        .mc("plan {} --namespace {}", &[link.name(), link.namespace()]);
    Finding::broken(Cause::NotMirroredYet, evidence).fixed_by(&plan)
}
