//! Why there is no mirror.

use mirror_core::api::{k8s::Service, labels as l};
use serde_json::{Value, json};

use super::{
    cases::{LINK, ROTATE, broken, changed, hold},
    scene::{
        MC, commands, condition, gateway_mirror, link, names, now, service, service_status,
        with_target,
    },
};
use crate::{
    clusters::{
        request_path::RequestPath,
        snapshot::{ReadError, ReadErrorKind},
    },
    diagnose::diagnose,
};

fn missing(link_conditions: &[Value], said: &[Value]) -> RequestPath {
    changed(gateway_mirror(), |facts| {
        facts.source.service = Ok(None);
        facts.source.slices = Ok(vec![]);
        facts.source.links = Ok(vec![link(link_conditions, said, &[])]);
    })
}

#[test]
fn obstacle_of_a_mirror_that_is_missing_is_found() {
    let unconnected = |reason: &str| condition("Connected", "False", reason, "no");
    let said = |reason: &str| service_status("web", "False", reason);
    let silent = |active: bool| {
        changed(missing(&[], &[]), |facts| {
            let leader = facts.source.leaders.get_mut(MC).unwrap();
            leader.as_mut().unwrap().as_mut().unwrap().active = active;
        })
    };
    let without_namespace = |conditions: &[Value]| {
        changed(missing(conditions, &[said("MissingNamespace")]), |facts| {
            facts.source.namespace_exists = Ok(false);
        })
    };
    let lease = "kubectl --context west -n linkerd-multicluster delete lease service-mirror-write";
    hold(vec![
        (
            "the controller is down",
            silent(false),
            broken(
                "objects",
                "ControllerDown",
                "kubectl --context west -n linkerd-multicluster rollout restart deployment/linkerd-multicluster-controller",
            ),
        ),
        (
            "the controller is scaled to nothing",
            changed(silent(false), |facts| {
                facts.source.controllers.as_mut().unwrap()[0].desired = 0;
            }),
            broken(
                "objects",
                "ControllerDown",
                "kubectl --context west -n linkerd-multicluster scale deployment/linkerd-multicluster-controller --replicas=1",
            ),
        ),
        (
            "nobody renews the Lease",
            changed(silent(true), |facts| {
                let leader = facts.source.leaders.get_mut(MC).unwrap();
                let leader = leader.as_mut().unwrap().as_mut().unwrap();
                leader.holder = Some("stranger".to_owned());
                leader.renewed = Some("2026-11-26T02:59:00Z".parse().unwrap());
            }),
            broken("objects", "LeaseHeldByNobody", lease),
        ),
        (
            "expired",
            changed(missing(&[unconnected("Unauthorized")], &[]), |facts| {
                let link = &mut facts.source.links.as_mut().unwrap()[0];
                link.credentials.as_mut().unwrap().as_mut().unwrap().expiry = Some(now());
            }),
            broken("objects", "CredentialsExpired", ROTATE),
        ),
        (
            "revoked",
            missing(&[unconnected("Unauthorized")], &[]),
            broken("objects", "CredentialsRefused", ROTATE),
        ),
        (
            "wrong authority",
            missing(&[unconnected("CertificateInvalid")], &[]),
            broken("objects", "CertificateInvalid", LINK),
        ),
        (
            "away",
            missing(&[unconnected("Unreachable")], &[]),
            broken(
                "objects",
                "TargetApiUnreachable",
                "linkerd-mc --context west status --cluster-name east",
            ),
        ),
        (
            "no Secret",
            missing(
                &[condition(
                    "CredentialsValid",
                    "False",
                    "SecretMissing",
                    "gone",
                )],
                &[],
            ),
            broken("objects", "CredentialsUnusable", LINK),
        ),
        (
            "namespace",
            without_namespace(&[]),
            broken(
                "objects",
                "NamespaceMissing",
                "kubectl --context west create namespace shop",
            ),
        ),
        (
            "taken",
            changed(missing(&[], &[said("NameConflict")]), |facts| {
                facts.source.service = Ok(Some(service("web-east", &json!({}), &json!({}), &[80])));
            }),
            broken(
                "objects",
                "NameConflict",
                "kubectl --context west -n shop get service web-east -o yaml",
            ),
        ),
        (
            "limit",
            missing(&[], &[said("LimitExceeded")]),
            broken(
                "objects",
                "LimitExceeded",
                "linkerd-mc --context west plan east",
            ),
        ),
        (
            "no gateway, which `link` alone would keep so",
            missing(&[], &[said("NoGateway")]),
            broken("objects", "NoGateway", &format!("{LINK} --gateway")),
        ),
        (
            "a local reason is found although the target is away",
            without_namespace(&[unconnected("Unreachable")]),
            broken(
                "objects",
                "NamespaceMissing",
                "kubectl --context west create namespace shop",
            ),
        ),
        (
            "not exported, as far as the Link says",
            missing(&[], &[]),
            broken(
                "objects",
                "NotExported",
                "in east: kubectl -n shop label service web mirror.linkerd.io/exported=true --overwrite",
            ),
        ),
        (
            "not exported",
            changed(with_target(missing(&[], &[])), |facts| {
                facts.target.as_mut().unwrap().service =
                    Ok(Some(service("web", &json!({}), &json!({}), &[80])));
            }),
            broken(
                "objects",
                "NotExported",
                "kubectl --context east-admin -n shop label service web mirror.linkerd.io/exported=true --overwrite",
            ),
        ),
        (
            "misspelled value of a label",
            exported_as("true", &json!({ l::EXPORTED: "ture" })),
            broken(
                "objects",
                "NotExported",
                "kubectl --context east-admin -n shop label service web mirror.linkerd.io/exported=true --overwrite",
            ),
        ),
        (
            "misspelled key of a label",
            exported_as("true", &json!({ "mirror.linkerd.io/exportd": "true" })),
            broken(
                "objects",
                "NotExported",
                "kubectl --context east-admin -n shop label service web mirror.linkerd.io/exported=true \
                 mirror.linkerd.io/exportd- --overwrite",
            ),
        ),
        (
            "misspelled selector of the Link",
            exported_as("ture", &json!({ l::EXPORTED: "true" })),
            broken(
                "objects",
                "NotExported",
                "linkerd-mc link --target east-admin --source west --cluster-name east --selector \
                 mirror.linkerd.io/exported=true",
            ),
        ),
        (
            "not in the target",
            changed(with_target(missing(&[], &[])), |facts| {
                facts.target.as_mut().unwrap().service = Ok(None);
            }),
            broken(
                "objects",
                "MissingInTarget",
                "kubectl --context east-admin -n shop get services",
            ),
        ),
        (
            "gone in the target, and the Link's status is behind",
            changed(
                with_target(missing(&[], &[service_status("web", "True", "Mirrored")])),
                |facts| facts.target.as_mut().unwrap().service = Ok(None),
            ),
            broken(
                "objects",
                "MissingInTarget",
                "kubectl --context east-admin -n shop get services",
            ),
        ),
        (
            "exported to others, as the Link says",
            missing(&[], &[said("ExportedToOthers")]),
            broken(
                "objects",
                "ExportedToOthers",
                "linkerd-mc --context west plan east",
            ),
        ),
        (
            "exported to others",
            exported_to("north.example"),
            broken(
                "objects",
                "ExportedToOthers",
                "kubectl --context east-admin -n shop annotate service web \
                 multicluster.linkerd.io/export-to=north.example,cluster.local --overwrite",
            ),
        ),
        (
            "exported to nobody",
            exported_to(""),
            broken(
                "objects",
                "ExportedToOthers",
                "kubectl --context east-admin -n shop annotate service web \
                 multicluster.linkerd.io/export-to=cluster.local --overwrite",
            ),
        ),
        (
            "exported, and not mirrored yet",
            with_target(missing(&[], &[])),
            broken(
                "objects",
                "NotMirroredYet",
                "linkerd-mc --context west plan east",
            ),
        ),
        (
            "invalid Link",
            changed(missing(&[], &[]), |facts| {
                facts.source.links.as_mut().unwrap()[0]
                    .link
                    .spec
                    .gateway_port = "x".to_owned();
            }),
            broken(
                "objects",
                "LinkInvalid",
                "kubectl --context west -n linkerd-multicluster edit links.multicluster.linkerd.io east",
            ),
        ),
    ]);
}

#[test]
fn names_that_are_no_mirror_get_a_suggestion() {
    let named = |name: &str, service: Option<Service>| {
        changed(gateway_mirror(), |facts| {
            facts.service.name = name.to_owned();
            facts.source.service = Ok(service);
            facts.source.neighbours = Ok(names(&[
                ("web-east", true),
                ("web-federated", true),
                ("web", false),
            ]));
        })
    };
    let own = || Some(service("web", &json!({}), &json!({}), &[80]));
    for (facts, what, hint) in [
        (
            named("web-esat", None),
            "Service shop/web-esat does not exist, and its name ends",
            "did you mean shop/web-east?",
        ),
        (
            named("other", None),
            "Service shop/other does not exist, and its name ends",
            "`linkerd-mc status --services` lists",
        ),
        (
            named("web", own()),
            "Service shop/web belongs to this cluster",
            "name one of shop/web-east, shop/web-federated",
        ),
        (
            changed(named("web", None), |facts| {
                facts.source.namespace_exists = Ok(false);
            }),
            "Service shop/web does not exist",
            "there is no namespace shop",
        ),
        (
            changed(named("web-east", None), |facts| {
                facts.source.service = Err(ReadError::new(ReadErrorKind::Forbidden, "no"));
            }),
            "cannot read Service shop/web-east: no",
            "you have to be permitted",
        ),
    ] {
        let none = diagnose(&facts, &commands(&facts)).err().unwrap();
        assert!(none.what.starts_with(what), "{}", none.what);
        assert!(none.hint.starts_with(hint), "{}", none.hint);
    }
}

/// Who is cut off from the target cluster may not look again at what it reports.
#[test]
fn report_that_this_cluster_refutes_is_no_obstacle() {
    let cut_off = condition("Connected", "False", "CertificateInvalid", "no");
    let refused = condition("CredentialsValid", "False", "SecretMissing", "gone");
    for reason in ["MissingNamespace", "NameConflict"] {
        let said = service_status("web", "False", reason);
        let with = |conditions: &[Value]| missing(conditions, std::slice::from_ref(&said));
        hold(vec![
            (
                "another authority",
                with(std::slice::from_ref(&cut_off)),
                broken("objects", "CertificateInvalid", LINK),
            ),
            (
                "no Secret",
                with(std::slice::from_ref(&refused)),
                broken("objects", "CredentialsUnusable", LINK),
            ),
        ]);
    }
    let plan = "linkerd-mc --context west plan east";
    let conflict = "kubectl --context west -n shop get service web-east -o yaml";
    let said = |reason: &str| missing(&[], &[service_status("web", "False", reason)]);
    hold(vec![
        (
            "the namespace was created a moment ago",
            said("MissingNamespace"),
            broken("objects", "NotMirroredYet", plan),
        ),
        (
            "another Link has precedence, and has not written its mirror",
            said("NameConflict"),
            broken("objects", "NameConflict", conflict),
        ),
        (
            "the name is taken, and the cluster is away",
            changed(
                missing(
                    &[cut_off],
                    &[service_status("web", "False", "NameConflict")],
                ),
                |facts| {
                    facts.source.service =
                        Ok(Some(service("web-east", &json!({}), &json!({}), &[80])));
                },
            ),
            broken("objects", "NameConflict", conflict),
        ),
    ]);
}

/// A Service with these labels in the target, and a Link that selects this value of the usual label.
/// The target cluster exports the Service to these trust domains, and the Link's status does not say so yet.
fn exported_to(domains: &str) -> RequestPath {
    changed(with_target(missing(&[], &[])), |facts| {
        let (labels, to) = (
            json!({ l::EXPORTED: "true" }),
            json!({ l::EXPORT_TO: domains }),
        );
        let service = service("web", &labels, &to, &[80]);
        facts.target.as_mut().unwrap().service = Ok(Some(service));
    })
}

fn exported_as(selected: &str, labels: &Value) -> RequestPath {
    changed(with_target(missing(&[], &[])), |facts| {
        let link = &mut facts.source.links.as_mut().unwrap()[0].link;
        let selector = json!({ "matchLabels": { l::EXPORTED: selected } });
        link.spec.selector = Some(serde_json::from_value(selector).unwrap());
        let service = service("web", labels, &json!({}), &[80]);
        facts.target.as_mut().unwrap().service = Ok(Some(service));
    })
}
