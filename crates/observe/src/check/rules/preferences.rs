//! Checks of the preferences of federated Services, and of failover.

use std::collections::{BTreeMap, BTreeSet};

use mirror_core::{
    api::{
        duration::utc, k8s::Service, labels::PREFER, metadata::ResourceId, preference::Preference,
    },
    mirror::{Reason, federated_name},
};

use super::rule::Verdict;
use crate::{
    clusters::{
        misspelled::unlinked,
        own_routes::OwnRoute,
        preference_status::PreferenceStatus,
        snapshot::{FullSnapshot, LinkSnapshot},
    },
    finding::Finding,
};

/// The syntax of a preference.
const SYNTAX: &str = "use an order such as local,east, or weights such as east=80,local=20";
/// How to install a controller that applies preferences.
const INSTALL: &str = "enable routes with `install --set federation.routes=true` and your values";

/// The problem of each preference, if there is one, by federated Service. Only the first problem that is found counts,
/// because the statuses of Links repeat it.
#[derive(Default)]
struct FoundRoutes(BTreeMap<ResourceId, Option<Finding>>);

impl FoundRoutes {
    fn note(&mut self, federated: ResourceId, problem: Option<Finding>) {
        let known = self.0.entry(federated).or_default();
        if known.is_none() {
            *known = problem;
        }
    }
}

pub fn applied(snapshot: &FullSnapshot) -> Verdict {
    let mirrors = snapshot.mirrors.as_deref().unwrap_or_default();
    let members = match &snapshot.local_members {
        Ok(members) => members.as_slice(),
        // Another check reports why.
        Err(_) if snapshot.mirrors.is_err() => &[],
        Err(why) => return Verdict::warn(format!("cannot list the local members: {why}")),
    };
    let ignores = snapshot
        .controller()
        .is_some_and(|ours| !ours.applies_preferences);
    let mut found = FoundRoutes::default();
    for member in members {
        if let Some(text) = member.metadata.annotations.get(PREFER) {
            let ResourceId { namespace, name } = member.metadata.resource_id();
            let federated = ResourceId::new(namespace, federated_name(&name));
            let problem = of_member(member, text, ignores);
            found.note(federated, problem.map(Finding::from));
        }
    }
    for mirror in mirrors {
        if let Some(preference) = PreferenceStatus::of(mirror).preference {
            let problem = of_federated(snapshot, mirror, &preference);
            found.note(mirror.metadata.resource_id(), problem);
        }
    }
    for link in snapshot.links() {
        for (federated, problem) in of_link(link, ignores) {
            found.note(federated, Some(problem.into()));
        }
    }
    let left = match &snapshot.routes {
        Ok(routes) => left_over(snapshot, routes),
        Err(why) => return Verdict::warn(format!("cannot list routes: {why}")),
    };
    if found.0.is_empty() && left.is_empty() {
        return Verdict::Skip;
    }
    Verdict::of([left, found.0.into_values().flatten().collect()].concat())
}

/// The problem of routes that are left in installations whose controller writes none any more.
fn left_over(snapshot: &FullSnapshot, routes: &[OwnRoute]) -> Vec<Finding> {
    let ours = snapshot.deployments.iter().flatten();
    let writers = ours.filter(|workload| workload.is_ours() && workload.applies_preferences);
    let writers: BTreeSet<&str> = writers.map(|w| w.id.namespace.as_str()).collect();
    let is_left = |route: &&OwnRoute| match route.installation.as_str() {
        "" => writers.is_empty(),
        installation => !writers.contains(installation),
    };
    let left: Vec<&OwnRoute> = routes.iter().filter(is_left).collect();
    let Some(first) = left.first() else {
        return Vec::new();
    };
    let delete = first.deletion(&snapshot.cluster.flags);
    let remedy = "the controller deletes such routes, and then the mirrors that they lead to; if it does not run, or \
                  lacks the rights, apply the output of `install` with your values, or delete them with kubectl";
    let left = left.iter().map(|route| {
        let path = route.path();
        Finding::from(format!(
            "{path} is left, and still prefers a cluster, but the controller does not write routes"
        ))
    });
    left.chain([Finding::from(remedy).fixed_by(&delete)])
        .collect()
}

/// The problem of the preference of a local member.
fn of_member(member: &Service, text: &str, ignores: bool) -> Option<String> {
    let service = member.metadata.resource_id();
    match text.parse::<Preference>() {
        Err(error) => Some(format!(
            "Service {service}: invalid annotation {PREFER}: {error}; {SYNTAX}"
        )),
        Ok(preference) if ignores => Some(format!(
            "Service {service} prefers {preference}, but the controller does not write routes; {INSTALL}"
        )),
        Ok(_) => None,
    }
}

/// The problem of the preference of a federated Service.
fn of_federated(snapshot: &FullSnapshot, service: &Service, preference: &str) -> Option<Finding> {
    if snapshot
        .links()
        .iter()
        .any(|link| link.unreadable.is_some())
    {
        return None; // its target may be the unknown cluster
    }
    let linked: BTreeSet<_> = snapshot.links().iter().map(LinkSnapshot::cluster).collect();
    let found = unlinked(preference, &linked)?;
    let what = format!("Service {} {}", service.metadata.resource_id(), found.text);
    Some(if found.meant.is_some() {
        what.into()
    } else {
        let what = format!("{what}; create one");
        Finding::from(what).fixed_by(&snapshot.cluster.flags.link())
    })
}

/// What the controller reports about preferences: federated Services and problems.
fn of_link(link: &LinkSnapshot, ignores: bool) -> impl Iterator<Item = (ResourceId, String)> {
    let services = link.status().into_iter();
    let services = services.flat_map(|status| &status.federated_services);
    services.filter_map(move |service| {
        let condition = service.conditions.first()?;
        let is = |reason: Reason| condition.reason == reason.as_str();
        let hint = if is(Reason::InvalidPreference) {
            SYNTAX.to_owned()
        } else if is(Reason::PreferenceIgnored) {
            format!("set {PREFER} on that Link")
        } else if is(Reason::NoRoutes) && ignores {
            INSTALL.to_owned()
        } else if is(Reason::NoRoutes) {
            "install the CRDs of the Gateway API".to_owned()
        } else if is(Reason::RouteNotAccepted) {
            "install the experimental channel of the Gateway API, which serves both versions"
                .to_owned()
        } else if is(Reason::RouteConflict) {
            format!("delete that route, or the annotation {PREFER}")
        } else {
            return None;
        };
        let remote = &service.remote_ref;
        let (namespace, name) = (remote.namespace.as_str(), remote.name.as_str());
        let problem = format!("{namespace}/{name}: {}; {hint}", condition.message);
        Some((ResourceId::new(namespace, federated_name(name)), problem))
    })
}

pub fn taken(snapshot: &FullSnapshot) -> Verdict {
    let mirrors = snapshot.mirrors.as_deref().unwrap_or_default().iter();
    let preferred = mirrors.map(|mirror| (mirror, PreferenceStatus::of(mirror)));
    let preferred: Vec<_> = preferred
        .filter(|(_, preferred)| preferred.preference.is_some())
        .collect();
    if preferred.is_empty() {
        return Verdict::Skip;
    }
    let at = |time| format!("at {}", utc(time));
    let elsewhere = preferred
        .iter()
        .filter(|(_, preferred)| preferred.has_failed_over);
    let problems = elsewhere.filter_map(|(service, preferred)| {
        let said = preferred.absence(at, at)?;
        let service = service.metadata.resource_id();
        Some(Finding::from(format!("Service {service} {said}")))
    });
    let mut problems: Vec<Finding> = problems.collect();
    if !problems.is_empty() {
        let status = snapshot.cluster.flags.mc("status --services", &[]);
        let what = "see which clusters receive the requests now";
        problems.push(Finding::from(what).fixed_by(&status));
    }
    Verdict::of(problems)
}
