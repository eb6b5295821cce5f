//! Checks of the controller, and of other service mirrors that conflict with it.

use super::rule::Verdict;
use crate::{
    api::labels,
    clusters::snapshot::{Confinement, FullSnapshot, Workload},
};

/// Label `component` of a controller that the deprecated `linkerd multicluster link` created.
const LEGACY: &str = "service-mirror";
/// Label `component` of Linkerd's service mirror for local members of federated Services.
const LOCAL: &str = "local-service-mirror";

pub(super) fn permissions(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    match &snapshot.controller_denied {
        // A warning, because the user may not be permitted to review the access of others.
        Err(why) => Verdict::warn(format!("cannot review the controller's permissions: {why}")),
        Ok(denied) if denied.is_empty() => Verdict::Pass,
        Ok(denied) => Verdict::fail(format!("not permitted: {}", denied.join(", "))),
    }
}

pub(super) fn confined(snapshot: &FullSnapshot) -> Verdict {
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
        problems.push("apply the output of `linkerd-mc install` with your values".to_owned());
    }
    Verdict::of(problems)
}

pub(super) fn running(snapshot: &FullSnapshot) -> Verdict {
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

pub(super) fn managed(snapshot: &FullSnapshot) -> Verdict {
    match deployments(snapshot) {
        Err(verdict) => verdict,
        Ok([]) => Verdict::Skip,
        Ok(all) => Verdict::of(
            all.iter()
                .filter(|w| w.component == LEGACY)
                .map(|w| {
                    format!(
                        "Deployment {} was created by the deprecated `linkerd multicluster link`",
                        w.id
                    )
                })
                .collect(),
        ),
    }
}

pub(super) fn no_second(snapshot: &FullSnapshot) -> Verdict {
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
                    Some(format!(
                        "Deployment {} also mirrors from {cluster}; delete it",
                        w.id
                    ))
                }
                _ if w.component == LOCAL => Some(format!(
                    "Deployment {} also writes federated Services; delete it",
                    w.id
                )),
                _ => None,
            }
        });
    Verdict::of(problems.collect())
}

pub(super) fn versions(snapshot: &FullSnapshot) -> Verdict {
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
        "the controller's image is {tag}, but this CLI is {}",
        snapshot.version
    ))
}

/// Tag of an image; `None` if it is pinned by digest, or has no tag.
pub(super) fn tag(image: &str) -> Option<&str> {
    if image.contains('@') {
        return None;
    }
    let name = image.rsplit('/').next()?;
    name.split_once(':').map(|(_, tag)| tag)
}

fn deployments(snapshot: &FullSnapshot) -> Result<&[Workload], Verdict> {
    match &snapshot.deployments {
        Ok(all) => Ok(all),
        Err(why) => Err(Verdict::fail(format!("cannot list Deployments: {why}"))),
    }
}
