//! Checks of the controller, and of other service mirrors that get in its way.

use super::rule::Verdict;
use crate::{
    api::labels,
    check::facts::{Confinement, Facts, Workload},
};

/// Label `component` of a controller that the original's `link` made.
const LEGACY: &str = "service-mirror";
/// Label `component` of the original's mirror of local federated members.
const LOCAL: &str = "local-service-mirror";

pub(super) fn permissions(facts: &Facts) -> Verdict {
    if facts.links().is_empty() {
        return Verdict::Skip;
    }
    match &facts.controller_denied {
        // Who may not ask about others' permissions can check the rest all the same.
        Err(why) => Verdict::warn(format!("cannot tell: {why}")),
        Ok(denied) if denied.is_empty() => Verdict::Pass,
        Ok(denied) => Verdict::fail(format!("not permitted: {}", denied.join(", "))),
    }
}

pub(super) fn confined(facts: &Facts) -> Verdict {
    let Ok(deployments) = deployments(facts) else {
        return Verdict::Skip;
    };
    let mut ours = deployments.iter().filter(|workload| workload.is_ours());
    if !ours.any(|ours| !ours.is_unconfined) {
        return Verdict::Skip;
    }
    let (missing, differing) = match &facts.confinement {
        Err(why) => return Verdict::warn(format!("cannot tell: {why}")),
        Ok(Confinement::Unavailable) => return Verdict::Skip,
        Ok(Confinement::Installed { missing, differing }) => (missing, differing),
    };
    let missing = missing.iter().map(|what| {
        format!("{what} is not there: who has the controller's token may write any Service")
    });
    let differing = differing
        .iter()
        .map(|what| format!("{what} is not what this version installs"));
    let mut problems: Vec<String> = missing.chain(differing).collect();
    if !problems.is_empty() {
        problems.push("`linkerd-mc install`, with your values, prints it".to_owned());
    }
    Verdict::of(problems)
}

pub(super) fn running(facts: &Facts) -> Verdict {
    if facts.links().is_empty() {
        return Verdict::Skip;
    }
    let ours: Vec<_> = match deployments(facts) {
        Err(verdict) => return verdict,
        Ok(all) => all.iter().filter(|w| w.is_ours()).collect(),
    };
    match ours.as_slice() {
        [] => Verdict::fail(format!(
            "Deployment {} is not there",
            labels::CONTROLLER_NAME
        )),
        [one] if one.available > 0 => Verdict::Pass,
        [one] => Verdict::fail(format!(
            "Deployment {} has {}/{} replicas available",
            id(one),
            one.available,
            one.desired
        )),
        several => Verdict::fail(format!(
            "there is more than one: {}",
            several.iter().map(|w| id(w)).collect::<Vec<_>>().join(", ")
        )),
    }
}

pub(super) fn managed(facts: &Facts) -> Verdict {
    match deployments(facts) {
        Err(verdict) => verdict,
        Ok([]) => Verdict::Skip,
        Ok(all) => Verdict::of(
            all.iter()
                .filter(|w| w.component == LEGACY)
                .map(|w| {
                    format!(
                        "Deployment {} was made by the deprecated `linkerd multicluster link`",
                        id(w)
                    )
                })
                .collect(),
        ),
    }
}

pub(super) fn no_second(facts: &Facts) -> Verdict {
    if facts.links().is_empty() {
        return Verdict::Skip;
    }
    let all = match deployments(facts) {
        Err(verdict) => return verdict,
        Ok(all) => all,
    };
    let ours_runs = all.iter().any(|w| w.is_ours() && w.desired > 0);
    let problems = all
        .iter()
        .filter(|w| !w.is_ours() && w.desired > 0)
        .filter_map(|w| {
            // Without ours it is no second one.
            if !ours_runs {
                return None;
            }
            match &w.cluster {
                Some(cluster) if facts.links().iter().any(|link| link.cluster() == cluster) => {
                    Some(format!(
                        "Deployment {} mirrors from {cluster} too; delete it",
                        id(w)
                    ))
                }
                _ if w.component == LOCAL => Some(format!(
                    "Deployment {} writes federated Services too; delete it",
                    id(w)
                )),
                _ => None,
            }
        });
    Verdict::of(problems.collect())
}

pub(super) fn versions(facts: &Facts) -> Verdict {
    let Ok(all) = deployments(facts) else {
        return Verdict::Skip;
    };
    let Some(ours) = all.iter().find(|w| w.is_ours()) else {
        return Verdict::Skip;
    };
    // The proxy injector puts a container of its own into pods, not into Deployments.
    let Some(tag) = ours.images.first().and_then(|image| tag(image)) else {
        return Verdict::Skip;
    };
    if tag.trim_start_matches('v') == facts.version.trim_start_matches('v') {
        return Verdict::Pass;
    }
    Verdict::fail(format!(
        "the controller's image is {tag}, this is {}",
        facts.version
    ))
}

/// Tag of an image; none when the image is pinned by digest, or has no tag.
pub(super) fn tag(image: &str) -> Option<&str> {
    if image.contains('@') {
        return None;
    }
    let name = image.rsplit('/').next()?;
    name.split_once(':').map(|(_, tag)| tag)
}

fn deployments(facts: &Facts) -> Result<&[Workload], Verdict> {
    match &facts.deployments {
        Ok(all) => Ok(all),
        Err(why) => Err(Verdict::fail(format!("cannot list Deployments: {why}"))),
    }
}

fn id(workload: &Workload) -> String {
    format!("{}/{}", workload.namespace, workload.name)
}
