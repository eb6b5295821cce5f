//! What sends requests of a federated Service elsewhere.

use mirror_core::api::{labels as l, route::Route};
use serde_json::json;

use super::{
    cases::{LINK, broken, changed, degraded, hold, route},
    scene::{condition, federated, link, service_status, with_target},
};

#[test]
fn what_sends_requests_of_a_federated_service_elsewhere_is_found() {
    let member = service_status("web", "True", "Mirrored");
    let profile = || {
        let mut profile = json!({
            "apiVersion": "linkerd.io/v1alpha2", "kind": "ServiceProfile",
            "metadata": { "namespace": "shop", "name": "web-federated.shop.svc.cluster.local" },
        });
        profile["spec"] = json!({ "routes": [{ "name": "all" }] });
        serde_json::from_value::<Route>(profile).unwrap()
    };
    // Of two clusters with members, the context of one was named.
    let of_north = |facts| {
        changed(with_target(facts), |facts| {
            let target = facts.target.as_mut().unwrap();
            target.cluster = "north".to_owned();
            target.context = "north-admin".to_owned();
        })
    };
    let http = || {
        route(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "theirs",
            "web-federated",
            "web",
        )
    };
    hold(vec![
        (
            "ServiceProfile",
            changed(federated("local", &member), |facts| {
                facts.source.routes = Ok(vec![profile()]);
            }),
            degraded(
                "objects",
                "ServiceProfileConflict",
                "kubectl --context west -n shop delete serviceprofiles.linkerd.io web-federated.shop.svc.cluster.local",
            ),
        ),
        (
            "route",
            changed(federated("local", &member), |facts| {
                facts.source.routes = Ok(vec![http()]);
            }),
            degraded(
                "objects",
                "RouteConflict",
                "kubectl --context west -n shop delete httproutes.gateway.networking.k8s.io theirs",
            ),
        ),
        (
            "drained",
            changed(federated("", &member), |facts| {
                facts.source.links = Ok(vec![link(
                    &[condition("Drained", "True", "Drained", "until noon")],
                    &[],
                    std::slice::from_ref(&member),
                )]);
            }),
            degraded(
                "objects",
                "Drained",
                "linkerd-mc --context west drain east --end",
            ),
        ),
        (
            "failed over",
            changed(federated("local,east", &member), |facts| {
                let service = facts.source.service.as_mut().unwrap().as_mut().unwrap();
                service
                    .metadata
                    .annotations
                    .insert(l::FAILED_OVER, "local=2026-11-26T02:00:00Z/..");
            }),
            degraded(
                "objects",
                "FailedOver",
                "linkerd-mc --context west status shop/web-federated",
            ),
        ),
        (
            "ports",
            changed(
                federated("", &service_status("web", "True", "PortConflict")),
                |facts| facts.port = Some(81),
            ),
            broken(
                "objects",
                "PortConflict",
                "in east: kubectl -n shop edit service web",
            ),
        ),
        (
            "misspelled cluster of a preference",
            federated(
                "eest,local",
                &service_status("web", "True", "InvalidPreference"),
            ),
            degraded(
                "objects",
                "PreferenceInvalid",
                "kubectl --context west -n shop annotate service web multicluster.linkerd.io/prefer=east,local --overwrite",
            ),
        ),
        (
            "port that no member has",
            changed(federated("", &member), |facts| facts.port = Some(81)),
            broken("objects", "PortNotDeclared", ""),
        ),
        (
            "no member",
            changed(federated("", &member), |facts| {
                facts.source.service = Ok(None);
                facts.source.links = Ok(vec![link(&[], &[], &[])]);
            }),
            broken(
                "objects",
                "NotExported",
                "in east: kubectl -n shop label service web mirror.linkerd.io/federated=member --overwrite",
            ),
        ),
        (
            "ports, and the context of another cluster",
            of_north(federated(
                "",
                &service_status("web", "True", "PortConflict"),
            )),
            degraded(
                "objects",
                "PortConflict",
                "in east: kubectl -n shop edit service web",
            ),
        ),
        (
            "credentials, and the context of another cluster",
            of_north(changed(federated("", &member), |facts| {
                let refused = condition("CredentialsValid", "False", "Refused", "401");
                facts.source.links = Ok(vec![link(&[refused], &[], std::slice::from_ref(&member))]);
            })),
            degraded("objects", "CredentialsUnusable", LINK),
        ),
    ]);
}
