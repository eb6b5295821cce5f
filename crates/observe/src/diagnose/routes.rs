//! Routes over a mirror or a federated Service.

use mirror_core::{
    api::{
        k8s::Service,
        labels as l,
        route::{BackendRef, Route, RouteKind},
    },
    mirror::is_our_route,
};

use super::{
    causes::Cause,
    context::PathContext,
    layer::{Finding, LayerReport},
};

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
    let delete = way.commands.source.kubectl(
        "-n {} delete {} {}",
        &[metadata.namespace(), &kind, metadata.name()],
    );
    let path = path(route);
    let preference = service.metadata.annotation(l::PREFER);
    let found = if prefers && route.kind == RouteKind::Profile {
        let evidence = format!(
            "{path} applies to {}, which prefers {preference}",
            service.metadata.name()
        );
        Finding::degraded(Cause::ServiceProfileConflict, evidence)
    } else if prefers {
        let evidence = format!(
            "{path} applies to {}, which prefers {preference}",
            service.metadata.name()
        );
        Finding::degraded(Cause::RouteConflict, evidence)
    } else {
        // Only those of this namespace are known.
        let refs = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
        let is_here = |backend: &&BackendRef| !backend.rest.contains_key("namespace");
        let backends: Vec<&str> = refs.filter(is_here).map(|backend| &*backend.name).collect();
        let known = way.facts.source.neighbours.as_ref().ok()?;
        let own = service.metadata.name();
        let missing = backends
            .iter()
            .find(|name| **name != own && !known.contains_key(**name));
        match missing {
            Some(missing) => Finding::broken(
                Cause::RouteBackendMissing,
                format!("{path} sends requests to Service {missing}, which does not exist"),
            ),
            None if backends.is_empty() || backends.contains(&own) => return None,
            None => Finding::degraded(
                Cause::ForeignRoute,
                format!("{path} sends requests to {}", backends.join(", ")),
            ),
        }
    };
    Some(found.fixed_by(&delete))
}
