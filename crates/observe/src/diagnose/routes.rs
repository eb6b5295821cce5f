//! Routes over a mirror or a federated Service.

use mirror_core::{
    api::{
        k8s::Service,
        labels as l,
        route::{BackendRef, Route, RouteKind, RouteRule},
    },
    mirror::is_our_route,
};

use super::{context::PathContext, layer::LayerReport};
use crate::finding::{Finding, Level, causes::Cause};

/// What routes do to the requests; adds what was looked at.
pub fn judge(way: &PathContext<'_>, service: &Service, report: &mut LayerReport) {
    let routes = match &way.facts.source.routes {
        Ok(routes) => routes,
        Err(why) => return report.cannot_see("routes", why),
    };
    let port = way.facts.port.map(i32::from);
    let concerns = |route: &&Route| {
        let mut parents = route.services();
        parents.any(|(name, of)| {
            name == service.metadata.name() && (port.is_none() || of.is_none() || of == port)
        })
    };
    let prefers = !service.metadata.annotation(l::PREFER).is_empty();
    let mut own = 0;
    for route in routes.iter().filter(concerns) {
        if is_our_route(route) {
            own += 1;
            continue;
        }
        match foreign(way, service, route, prefers) {
            Some(found) => report.find(Some(found)),
            None => report.see(format!("{} of somebody else applies to it", path(route))),
        }
    }
    if own > 0 {
        report.see(format!(
            "{own} routes of the controller apply its preference"
        ));
    }
}

fn path(route: &Route) -> String {
    format!("{} {}", route.kind.kind(), route.metadata.resource_id())
}

fn foreign(
    way: &PathContext<'_>,
    service: &Service,
    route: &Route,
    prefers: bool,
) -> Option<Finding> {
    let kind = format!("{}.{}", route.kind.plural(), route.kind.group());
    let metadata = &route.metadata;
    let id = [metadata.namespace(), &kind, metadata.name()];
    let source = &way.commands.source;
    let delete = || source.kubectl("-n {} delete {} {}", &id);
    let path = path(route);
    let preference = service.metadata.annotation(l::PREFER);
    let conflict = |cause| {
        let evidence = format!(
            "{path} applies to {}, which prefers {preference}",
            service.metadata.name()
        );
        Some(Finding::degraded(cause, evidence).fixed_by(&delete()))
    };
    if prefers && route.kind == RouteKind::Profile {
        return conflict(Cause::ServiceProfileConflict);
    }
    let Ok(known) = &way.facts.source.neighbours else {
        return if prefers {
            conflict(Cause::RouteConflict)
        } else {
            None
        };
    };
    let own = service.metadata.name();
    let is_gone = |name: &&str| *name != own && !known.contains_key(*name);
    let rules = route.spec.rules.iter();
    let rules: Vec<Vec<Option<&str>>> = rules.map(backends).collect();
    let backends: Vec<&str> = rules.iter().flatten().flatten().copied().collect();
    let found = if let Some(missing) = backends.iter().find(|name| is_gone(name)) {
        // Requests that other rules match, or that other backends get, are answered.
        let fails = |rule: &Vec<Option<&str>>| {
            !rule.is_empty()
                && rule
                    .iter()
                    .all(|name| name.is_some_and(|name| is_gone(&name)))
        };
        let level = if rules.iter().all(fails) {
            Level::Error
        } else {
            Level::Warning
        };
        let evidence = format!("{path} sends requests to Service {missing}, which does not exist");
        Finding::new(Cause::RouteBackendMissing, level, evidence)
    } else if prefers {
        return conflict(Cause::RouteConflict);
    } else if backends.is_empty() || backends.contains(&own) {
        return None;
    } else {
        let evidence = format!("{path} sends requests to {}", backends.join(", "));
        Finding::degraded(Cause::ForeignRoute, evidence)
    };
    Some(found.fixed_by(&source.kubectl("-n {} edit {} {}", &id)))
}

/// The backends of a rule that get requests: the names of Services of the route's namespace, and `None` for what is not
/// known.
fn backends(rule: &RouteRule) -> Vec<Option<&str>> {
    let used = rule
        .backend_refs
        .iter()
        .filter(|backend| backend.weight != Some(0));
    let is_service = |backend: &BackendRef| {
        ["", "Service"].contains(&&*backend.kind)
            && ["", "core"].contains(&&*backend.group)
            && !backend.rest.contains_key("namespace")
    };
    used.map(|backend| is_service(backend).then_some(&*backend.name))
        .collect()
}
