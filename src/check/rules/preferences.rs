//! Checks of what members of federated Services prefer, and whether it is so.

use std::collections::{BTreeMap, BTreeSet};

use super::{rule::Verdict, services::id};
use crate::{
    api::{
        k8s::Service,
        labels::PREFER,
        preference::{Preference, clusters},
    },
    check::{
        facts::{Facts, LinkFacts},
        preferred::Preferred,
    },
    mirror::{Reason, federated_name},
};

/// How a preference is written.
const SYNTAX: &str = "write an order such as local,east, or weights such as east=80,local=20";
/// How a controller is installed that heeds preferences.
const INSTALL: &str =
    "`linkerd-mc install --set federation.routes=true`, with your values, prints one that does";

/// What is wrong with each preference, if anything, by namespace and name of the federated Service. What is found first
/// counts: statuses of Links say it again.
#[derive(Default)]
struct Found(BTreeMap<(String, String), Option<String>>);

impl Found {
    fn note(&mut self, namespace: &str, federated: String, problem: Option<String>) {
        let known = self.0.entry((namespace.to_owned(), federated)).or_default();
        if known.is_none() {
            *known = problem;
        }
    }
}

pub(super) fn heeded(facts: &Facts) -> Verdict {
    let mirrors = facts.mirrors.as_deref().unwrap_or_default();
    let members = match &facts.local_members {
        Ok(members) => members.as_slice(),
        // Another check says why.
        Err(_) if facts.mirrors.is_err() => &[],
        Err(why) => return Verdict::warn(format!("cannot tell: {why}")),
    };
    let ignores = facts
        .controller()
        .is_some_and(|ours| !ours.heeds_preferences);
    let mut found = Found::default();
    for member in members {
        let (namespace, name) = member.metadata.id();
        if let Some(text) = member.metadata.annotations.get(PREFER) {
            found.note(
                &namespace,
                federated_name(&name),
                of_member(member, text, ignores),
            );
        }
    }
    for mirror in mirrors {
        let (namespace, name) = mirror.metadata.id();
        if let Some(preference) = Preferred::of(mirror).preference {
            found.note(&namespace, name, of_federated(facts, mirror, &preference));
        }
    }
    for link in facts.links() {
        for (namespace, federated, problem) in of_link(link, ignores) {
            found.note(namespace, federated, Some(problem));
        }
    }
    if found.0.is_empty() {
        return Verdict::Skip;
    }
    Verdict::of(found.0.into_values().flatten().collect())
}

/// What is wrong with the preference of a local member.
fn of_member(member: &Service, text: &str, ignores: bool) -> Option<String> {
    let service = id(member);
    match text.parse::<Preference>() {
        Err(error) => Some(format!(
            "Service {service}: failed to read the annotation {PREFER}: {error}; {SYNTAX}"
        )),
        Ok(preference) if ignores => Some(format!(
            "Service {service} prefers {preference}, and the controller does not heed it; {INSTALL}"
        )),
        Ok(_) => None,
    }
}

/// What is wrong with the preference of a federated Service.
fn of_federated(facts: &Facts, service: &Service, preference: &str) -> Option<String> {
    if facts.links().iter().any(|link| link.unreadable.is_some()) {
        return None; // it may be that one
    }
    let linked: BTreeSet<_> = facts.links().iter().map(LinkFacts::cluster).collect();
    let unknown = clusters(preference).filter(|cluster| !linked.contains(cluster));
    let unknown: Vec<_> = unknown.collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "Service {} prefers {}, which has no Link; `linkerd-mc link` makes one",
            id(service),
            unknown.join(" and ")
        )
    })
}

/// What the controller says of the preferences of members in other clusters: namespaces, federated Services and problems.
fn of_link(link: &LinkFacts, ignores: bool) -> impl Iterator<Item = (&str, String, String)> {
    let services = link.status().into_iter();
    let services = services.flat_map(|status| &status.federated_services);
    services.filter_map(move |service| {
        let condition = service.conditions.first()?;
        let is = |reason: Reason| condition.reason == reason.as_str();
        let hint = if is(Reason::InvalidPreference) {
            SYNTAX.to_owned()
        } else if is(Reason::NoRoutes) && ignores {
            INSTALL.to_owned()
        } else if is(Reason::NoRoutes) {
            "install the CRDs of the Gateway API".to_owned()
        } else if is(Reason::RouteConflict) {
            format!("delete that route, or the annotation {PREFER}")
        } else {
            return None;
        };
        let remote = &service.remote_ref;
        let (namespace, name) = (remote.namespace.as_str(), remote.name.as_str());
        let problem = format!("{namespace}/{name}: {}; {hint}", condition.message);
        Some((namespace, federated_name(name), problem))
    })
}

pub(super) fn taken(facts: &Facts) -> Verdict {
    let mirrors = facts.mirrors.as_deref().unwrap_or_default().iter();
    let preferred = mirrors.map(|mirror| (mirror, Preferred::of(mirror)));
    let preferred: Vec<_> = preferred
        .filter(|(_, preferred)| preferred.preference.is_some())
        .collect();
    if preferred.is_empty() {
        return Verdict::Skip;
    }
    let at = |time: jiff::Timestamp| time.strftime("at %Y-%m-%d %H:%M:%S UTC").to_string();
    let elsewhere = preferred
        .iter()
        .filter(|(_, preferred)| preferred.has_failed_over());
    let problems = elsewhere.filter_map(|(service, preferred)| {
        let said = preferred.absence(at, at)?;
        Some(format!("Service {} {said}", id(service)))
    });
    let mut problems: Vec<String> = problems.collect();
    if !problems.is_empty() {
        problems.push("`linkerd-mc status --services` shows who takes the requests now".to_owned());
    }
    Verdict::of(problems)
}
