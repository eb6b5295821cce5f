//! Checks of the controller, and of other service mirrors that conflict with it.

use mirror_core::api::labels::{self, LEASE_NAME};

use super::rule::{INSTALL_AGAIN, Verdict};
use crate::{
    clusters::{
        destination_restart::DestinationRestart,
        leader::pods,
        snapshot::{Confinement, FullSnapshot, Workload},
        workloads::tag,
    },
    finding::Finding,
};

/// Label `component` of a controller that the deprecated `linkerd multicluster link` created.
const LEGACY: &str = "service-mirror";
/// Label `component` of Linkerd's service mirror for local members of federated Services.
const LOCAL: &str = "local-service-mirror";

pub fn permissions(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    match &snapshot.controller_denied {
        // A warning, because the user may not be permitted to review the access of others.
        Err(why) => Verdict::warn(format!("cannot review the controller's permissions: {why}")),
        Ok(denied) if denied.is_empty() => Verdict::Pass,
        Ok(denied) => Verdict::fail(format!(
            "not permitted: {}; {INSTALL_AGAIN}",
            denied.join(", ")
        )),
    }
}

pub fn confined(snapshot: &FullSnapshot) -> Verdict {
    let Ok(deployments) = deployments(snapshot) else {
        return Verdict::Skip;
    };
    let mut ours = deployments.iter().filter(|workload| workload.is_ours());
    if !ours.any(|ours| !ours.is_unconfined) {
        return Verdict::Skip;
    }
    let (missing, differing) = match &snapshot.confinement {
        Err(why) => return Verdict::warn(format!("cannot read the admission policies: {why}")),
        Ok(Confinement::Unavailable) => return Verdict::Skip,
        Ok(Confinement::Installed { missing, differing }) => (missing, differing),
    };
    let missing = missing.iter().map(|what| {
        format!("{what} not found: anyone with the controller's token can write any Service")
    });
    let differing = differing
        .iter()
        .map(|what| format!("{what} differs from that of this version"));
    let mut problems: Vec<String> = missing.chain(differing).collect();
    if !problems.is_empty() {
        problems.push(INSTALL_AGAIN.to_owned());
    }
    Verdict::of(problems)
}

pub fn running(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let ours: Vec<_> = match deployments(snapshot) {
        Err(verdict) => return verdict,
        Ok(all) => all.iter().filter(|w| w.is_ours()).collect(),
    };
    match ours.as_slice() {
        [] => Verdict::fail(format!("Deployment {} not found", labels::CONTROLLER_NAME)),
        [one] if one.available > 0 => Verdict::Pass,
        [one] => Verdict::fail(format!(
            "Deployment {} has {}/{} replicas available",
            one.id, one.available, one.desired
        )),
        several => Verdict::fail(format!(
            "found more than one Deployment of the controller: {}",
            several
                .iter()
                .map(|w| w.id.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

/// Whether a controller has renewed its Lease in time. Without one, the statuses of Links are old.
pub fn reporting(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let (mut problems, mut unknown, mut reports) = (Vec::new(), Vec::new(), false);
    for (namespace, leader) in &snapshot.cluster.leaders {
        match leader {
            Err(why) => unknown.push(Finding::from(format!(
                "cannot read the Lease {namespace}/{LEASE_NAME}: {why}"
            ))),
            Ok(Some(leader)) if leader.active => reports = true,
            Ok(Some(leader)) => {
                problems.extend(leader.silence(&snapshot.cluster.flags));
            }
            // Without a controller of ours, Linkerd's service mirror may be in charge.
            Ok(None) if snapshot.controller().is_none() => {}
            Ok(None) => {
                let what = format!(
                    "no controller has been active: the Lease {namespace}/{LEASE_NAME} does not exist; look at its Pods"
                );
                let pods = pods(&snapshot.cluster.flags, namespace);
                problems.push(Finding::from(what).fixed_by(&pods));
            }
        }
    }
    match (problems.is_empty(), unknown.is_empty(), reports) {
        (true, true, false) => Verdict::Skip,
        (true, true, true) => Verdict::Pass,
        (true, false, _) => Verdict::Warn(unknown),
        (false, ..) => Verdict::Fail(problems),
    }
}

pub fn managed(snapshot: &FullSnapshot) -> Verdict {
    match deployments(snapshot) {
        Err(verdict) => verdict,
        Ok([]) => Verdict::Skip,
        Ok(all) => Verdict::of(
            all.iter()
                .filter(|w| w.component == LEGACY)
                .map(|w| {
                    let cluster = w.cluster.as_deref().unwrap_or_default();
                    let unlink = snapshot.cluster.flags.mc(
                        "unlink {} --namespace {} --only-controller --apply",
                        &[cluster, &w.id.namespace],
                    );
                    let what = format!(
                        "Deployment {} is that of the deprecated command link of Linkerd; remove it",
                        w.id
                    );
                    Finding::from(what).fixed_by(&unlink)
                })
                .collect(),
        ),
    }
}

pub fn no_second(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let all = match deployments(snapshot) {
        Err(verdict) => return verdict,
        Ok(all) => all,
    };
    let ours_runs = all.iter().any(|w| w.is_ours() && w.desired > 0);
    let problems = all
        .iter()
        .filter(|w| !w.is_ours() && w.desired > 0)
        .filter_map(|w| {
            // Without ours, there is no conflict.
            if !ours_runs {
                return None;
            }
            match &w.cluster {
                Some(cluster)
                    if snapshot
                        .links()
                        .iter()
                        .any(|link| link.cluster() == cluster) =>
                {
                    let what = format!("Deployment {} also mirrors from {cluster}", w.id);
                    Some(unwanted(snapshot, w, &what))
                }
                _ if w.component == LOCAL => {
                    let what = format!("Deployment {} also writes federated Services", w.id);
                    Some(unwanted(snapshot, w, &what))
                }
                _ => None,
            }
        });
    Verdict::of(problems.collect())
}

/// The problem of a Deployment that has to be deleted.
fn unwanted(snapshot: &FullSnapshot, workload: &Workload, what: &str) -> Finding {
    let id = &workload.id;
    let flags = &snapshot.cluster.flags;
    let delete = flags.kubectl("-n {} delete deployment {}", &[&id.namespace, &id.name]);
    Finding::from(format!("{what}; delete it")).fixed_by(&delete)
}

pub fn versions(snapshot: &FullSnapshot) -> Verdict {
    let Ok(all) = deployments(snapshot) else {
        return Verdict::Skip;
    };
    let Some(ours) = all.iter().find(|w| w.is_ours()) else {
        return Verdict::Skip;
    };
    // The proxy injector adds its container to pods, not to Deployments.
    let Some(tag) = ours.images.first().and_then(|image| tag(image)) else {
        return Verdict::Skip;
    };
    if tag.trim_start_matches('v') == snapshot.version.trim_start_matches('v') {
        return Verdict::Pass;
    }
    Verdict::fail(format!(
        "the controller's image is {tag}, but this CLI is {}; {INSTALL_AGAIN}",
        snapshot.version
    ))
}

fn deployments(snapshot: &FullSnapshot) -> Result<&[Workload], Verdict> {
    match &snapshot.deployments {
        Ok(all) => Ok(all),
        Err(why) => Err(Verdict::fail(format!("cannot list Deployments: {why}"))),
    }
}

/// What a restart of Linkerd's destination controller causes, which some remedies need.
pub fn destination_restart(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let destination = match &snapshot.destination {
        Err(why) => return Verdict::warn(format!("not checked, because {why}")),
        Ok(destination) => destination,
    };
    let restart = DestinationRestart::of(destination, snapshot.meshed.clone());
    match restart.problem() {
        Some(problem) => Verdict::warn(problem),
        None => Verdict::PassWith(vec![restart.text()]),
    }
}
