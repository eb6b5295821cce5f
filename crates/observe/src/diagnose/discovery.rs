//! What Linkerd's destination controller has to know.

use super::{
    causes::{Cause, Layer},
    context::PathContext,
    endpoints,
    layer::{Finding, Impact, LayerReport},
    subject::Mode,
};
use crate::clusters::{
    credentials,
    request_path::DESTINATION,
    snapshot::{Destination, LinkSnapshot},
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
    let impact = way.impact();
    for (cluster, _) in way.subject.remotes() {
        if let Some(link) = way.facts.link_to(cluster) {
            let found = of_link(way, link, destination, impact);
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
    impact: Impact,
) -> Option<Finding> {
    let (cluster, namespace) = (link.cluster(), link.namespace());
    let source = &way.commands.source;
    let restart = || {
        source.kubectl(
            "-n {} rollout restart deployment/{}",
            &[&known.namespace, DESTINATION],
        )
    };
    let relink = || way.commands.link(cluster, namespace);
    let rotate = || way.commands.rotate(cluster, namespace);
    if let Some(problem) = credentials::missing(link, known) {
        let found = Finding::new(Cause::LinkerdSecretMissing, impact, short(problem.text()));
        return Some(found.fixed_by(&relink()).fixed_by(&restart()));
    }
    if let Some(problem) = credentials::ignored(link, known) {
        let secret = known
            .credentials
            .get(cluster)
            .map(|found| found.name.clone());
        let delete = source.kubectl(
            "-n {} delete secret {}",
            &[&known.namespace, &secret.unwrap_or_default()],
        );
        let found = Finding::new(Cause::LinkerdSecretIgnored, impact, short(problem.text()));
        return Some(
            found
                .fixed_by(&delete)
                .fixed_by(&relink())
                .fixed_by(&restart()),
        );
    }
    let theirs = known.credentials.get(cluster)?;
    if theirs.expiry.is_some_and(|expiry| expiry <= way.facts.now) {
        let evidence = format!(
            "the token in Secret {}/{} has expired",
            known.namespace, theirs.name
        );
        return Some(
            Finding::new(Cause::LinkerdCredentialsExpired, impact, evidence).fixed_by(&rotate()),
        );
    }
    if let Some(problem) = credentials::unused(link, known) {
        return Some(
            Finding::degraded(Cause::LinkerdSecretStale, short(problem.text()))
                .fixed_by(&restart()),
        );
    }
    let links = way.facts.source.links.as_deref().unwrap_or_default();
    let problem = credentials::differs(link, links, known)?;
    Some(
        Finding::degraded(Cause::LinkerdCredentialsDiffer, short(problem.text()))
            .fixed_by(&rotate()),
    )
}

/// The problem without its remedy.
fn short(problem: &str) -> String {
    let (what, _) = problem.split_once(';').unwrap_or((problem, ""));
    what.to_owned()
}
