//! What Linkerd's policy controller tells the client's proxy: the routes and the backends of its requests.

use hints::suggest::Suggested;
use mirror_core::api::labels as l;

use super::{context::PathContext, layer::LayerReport, subject::Subject};
use crate::{
    clusters::{
        linkerd_api::{
            ClientPolicy, DiscoveredProfile, PolicyBackend, PolicyReference, PolicyRoute,
        },
        request_path::{ClientView, DESTINATION},
    },
    finding::{
        Finding,
        causes::{Cause, Layer},
    },
};

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Policy);
    let view = match &way.facts.view {
        None => {
            report.cannot_see(
                "what Linkerd tells the proxy of the calling Pod",
                "no Pod was named; pass --from POD",
            );
            return report;
        }
        Some(Err(why)) => {
            report.cannot_see("what Linkerd tells the proxy of the calling Pod", why);
            return report;
        }
        Some(Ok(view)) => view,
    };
    match &view.policy {
        Err(why) => report.cannot_see("the client's policy", why),
        Ok(policy) => client_policy(way, view, policy, &mut report),
    }
    match &view.profile {
        Err(why) => report.cannot_see("the ServiceProfile of the client", why),
        Ok(profile) => service_profile(way, profile, &mut report),
    }
    report
}

fn client_policy(
    way: &PathContext<'_>,
    view: &ClientView,
    policy: &ClientPolicy,
    report: &mut LayerReport,
) {
    let id = &way.facts.service;
    let is_service = policy.parent.as_ref().is_some_and(|parent| {
        matches!(parent, PolicyReference::Object { kind, .. } if kind.eq_ignore_ascii_case("service"))
            && parent.name() == id.name
    });
    // Earlier layers know that the Service declares the port.
    if !is_service || policy.is_undefined_port() {
        let what = if is_service {
            format!("knows Service {id} without port {}", view.port)
        } else {
            format!("does not know the ClusterIP of Service {id}")
        };
        let evidence = format!("Linkerd's policy controller {what}");
        let restart = restart(way);
        report.find(Some(
            Finding::broken(Cause::UnknownToLinkerd, evidence).fixed_by(&restart),
        ));
        return;
    }
    let is_default =
        |route: &PolicyRoute| matches!(route.route, None | Some(PolicyReference::Default(_)));
    let mut found_any = false;
    for route in policy.routes.iter().filter(|route| !is_default(route)) {
        found_any = true;
        let found = of_route(way, route, report);
        report.find(found);
    }
    if !found_any {
        report.see("no route changes where the client's requests go");
    }
}

/// What a route does to the requests. Those in the namespace of the Service were judged before, by what they say.
fn of_route(
    way: &PathContext<'_>,
    route: &PolicyRoute,
    report: &mut LayerReport,
) -> Option<Finding> {
    let Some(PolicyReference::Object {
        group,
        kind,
        namespace,
        name,
        ..
    }) = &route.route
    else {
        return None;
    };
    let path = format!("{kind} {namespace}/{name}");
    // Controllers of Linkerd write kinds in lower case.
    let resource = format!("{}.{group}", kind.to_ascii_lowercase());
    let source = &way.commands.source;
    let edit = || source.kubectl("-n {} edit {} {}", &[namespace, &resource, name]);
    let delete = || source.kubectl("-n {} delete {} {}", &[namespace, &resource, name]);
    if let Some(why) = fails(route) {
        let evidence =
            format!("{path} applies to the client's requests, and all of them fail: {why}");
        return Some(Finding::broken(Cause::RouteBackendMissing, evidence).fixed_by(&edit()));
    }
    let backends: Vec<String> = route.backends.iter().map(describe).collect();
    let state = format!(
        "{path} sends the client's requests to {}",
        backends.join(", ")
    );
    let is_own = |backend: &PolicyBackend| is_called(way, backend);
    if *namespace == way.facts.service.namespace
        || is_plain(way) && route.backends.iter().any(is_own)
    {
        report.see(state);
        return None;
    }
    Some(if is_plain(way) {
        Finding::degraded(Cause::ForeignRoute, state).fixed_by(&edit())
    } else {
        Finding::degraded(Cause::RouteConflict, state).fixed_by(&delete())
    })
}

/// Why all requests of a route fail, if they do.
fn fails(route: &PolicyRoute) -> Option<&str> {
    if let Some(why) = &route.failure {
        return Some(why);
    }
    match route.backends.as_slice() {
        [] => Some("it has no backend"),
        [first, ..] => {
            let all = route
                .backends
                .iter()
                .all(|backend| backend.failure.is_some());
            first.failure.as_deref().filter(|_| all)
        }
    }
}

fn describe(backend: &PolicyBackend) -> String {
    let name = backend
        .backend
        .as_ref()
        .map_or("a backend", PolicyReference::name);
    match &backend.failure {
        Some(why) => format!("{name} (fails: {why})"),
        None => name.to_owned(),
    }
}

/// Whether a backend is the Service that is called.
fn is_called(way: &PathContext<'_>, backend: &PolicyBackend) -> bool {
    let id = &way.facts.service;
    matches!(
        &backend.backend,
        Some(PolicyReference::Object { namespace, name, .. }) if *namespace == id.namespace && *name == id.name
    )
}

/// Whether the Service has no preference, which the controller applies by routes.
fn is_plain(way: &PathContext<'_>) -> bool {
    match &way.subject {
        Subject::Federated(federated) => {
            federated.service.metadata.annotation(l::PREFER).is_empty()
        }
        _ => true,
    }
}

/// A `ServiceProfile`. One in the namespace of the client applies to its requests only. One in the namespace of the
/// Service was judged before.
fn service_profile(way: &PathContext<'_>, profile: &DiscoveredProfile, report: &mut LayerReport) {
    let Some(PolicyReference::Object {
        namespace, name, ..
    }) = &profile.profile
    else {
        return;
    };
    // Linkerd names a `ServiceProfile` without a name where there is none.
    if name.is_empty() {
        return;
    }
    let path = format!("ServiceProfile {namespace}/{name}");
    let own = format!(
        "{}.{}.svc.",
        way.facts.service.name, way.facts.service.namespace
    );
    let others: Vec<&str> = profile
        .overrides
        .iter()
        .map(|(authority, _)| authority.as_str())
        .filter(|authority| !authority.starts_with(&own))
        .collect();
    let is_elsewhere = *namespace != way.facts.service.namespace;
    let (cause, evidence) = if is_elsewhere && !is_plain(way) {
        let evidence = format!("{path} applies to the client's requests");
        (Cause::ServiceProfileConflict, evidence)
    } else if !others.is_empty() && is_plain(way) {
        let evidence = format!(
            "{path} sends the client's requests to {}",
            others.join(", ")
        );
        (Cause::ForeignRoute, evidence)
    } else {
        return report.see(format!("{path} applies to the client's requests"));
    };
    let delete = way.commands.source.kubectl(
        "-n {} delete serviceprofiles.linkerd.io {}",
        &[namespace, name],
    );
    report.find(Some(Finding::degraded(cause, evidence).fixed_by(&delete)));
}

/// The command that restarts Linkerd's destination and policy controllers, which are in the same Pods.
pub fn restart(way: &PathContext<'_>) -> Suggested {
    let namespace = way.linkerd_namespace();
    way.commands.source.kubectl(
        "-n {} rollout restart deployment/{}",
        &[namespace, DESTINATION],
    )
}
