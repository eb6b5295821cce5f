//! What Linkerd's destination controller has to know.

use super::{context::PathContext, endpoints, layer::LayerReport, subject::Mode};
use crate::{
    clusters::{
        credentials,
        request_path::DESTINATION,
        snapshot::{Destination, LinkSnapshot},
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Discovery);
    pods(way, &mut report);
    let Some(mode) = way.subject.mode() else {
        return report;
    };
    match mode {
        Mode::Gateway => report.see(
            "the endpoints are in this cluster, so no credentials for target clusters are needed",
        ),
        Mode::Discovery => credentials_of_targets(way, &mut report),
    }
    endpoints::judge(way, mode, &mut report);
    report
}

/// What Linkerd needs to discover Pods in target clusters.
fn credentials_of_targets(way: &PathContext<'_>, report: &mut LayerReport) {
    let destination = match &way.facts.source.destination {
        Ok(destination) => destination,
        Err(why) => return report.cannot_see("Linkerd's credentials for target clusters", why),
    };
    let level = way.level();
    for (cluster, _) in way.subject.remotes() {
        if let Some(link) = way.facts.link_to(cluster) {
            let found = of_link(way, link, destination, level);
            if found.is_none() {
                report.see(format!(
                    "Linkerd has credentials for {cluster}, and uses them"
                ));
            }
            report.find(found);
        }
    }
}

/// The Pods of the controller.
fn pods(way: &PathContext<'_>, report: &mut LayerReport) {
    let namespace = way.linkerd_namespace();
    let pods = match &way.facts.source.destination_pods {
        Ok(pods) => pods,
        Err(why) => return report.cannot_see(format!("the Pods of {DESTINATION}"), why),
    };
    let desired = way.facts.source.destination_replicas.as_ref().ok();
    let desired = desired.copied().flatten();
    let (ready, all) = (pods.iter().filter(|pod| pod.ready).count(), pods.len());
    let state = format!("{ready} of {all} Pods of {namespace}/{DESTINATION} are ready");
    if ready > 0 {
        return report.see(state);
    }
    if all == 0 && desired.is_none() {
        return report.cannot_see(
            format!("the Pods of {DESTINATION}"),
            format!("namespace {namespace} has none, and no Deployment of this name"),
        );
    }
    let source = &way.commands.source;
    let finding = Finding::broken(Cause::DestinationDown, state);
    let names = [namespace, DESTINATION];
    report.find(Some(finding.fixed_by(&if desired == Some(0) {
        source.kubectl("-n {} scale deployment/{} --replicas=1", &names)
    } else {
        source.kubectl("-n {} rollout restart deployment/{}", &names)
    })));
}

/// What is wrong with Linkerd's credentials for one target cluster.
fn of_link(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    known: &Destination,
    level: Level,
) -> Option<Finding> {
    let (cluster, namespace) = (link.cluster(), link.namespace());
    let source = &way.commands.source;
    let rotate = || way.commands.rotate(cluster, namespace);
    let missing = credentials::missing(link, known, source);
    if let Some(found) = missing.or_else(|| credentials::ignored(link, known, source)) {
        let mut found = Finding { level, ..found };
        for action in &mut found.actions {
            if action.command == source.link() {
                action.command = way.commands.link(cluster, namespace);
            }
        }
        return Some(found);
    }
    let theirs = known.credentials.get(cluster)?;
    if theirs.expiry.is_some_and(|expiry| expiry <= way.facts.now) {
        let evidence = format!(
            "the token in Secret {}/{} has expired",
            known.namespace, theirs.name
        );
        return Some(
            Finding::new(Cause::LinkerdCredentialsExpired, level, evidence).fixed_by(&rotate()),
        );
    }
    if let Some(found) = credentials::unused(link, known, source) {
        return Some(found);
    }
    let links = way.facts.source.links.as_deref().unwrap_or_default();
    let found = credentials::differs(link, links, known, source)?;
    Some(
        Finding {
            actions: vec![],
            ..found
        }
        .fixed_by(&rotate()),
    )
}
