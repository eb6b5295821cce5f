//! Tests of every rule: on a cluster that passes all rules, and after one change to that cluster at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

mod cases;
mod ends;
mod gateway;
mod identities;
mod remedies;

use mirror_core::api::{
    consent::ExportConsent, gateway_suffixes::GatewaySuffixes, k8s::EndpointSlice, labels,
    link::LinkerdConfig, metadata::ResourceId, tls::InsecureTls,
};

use self::{
    cases::{CASES, Change, crowd, prefer},
    identities::issuer,
};
use super::{CheckResult, Level, RULES, Topic};
use crate::clusters::{
    certificates::{ProxyCertificates, Validity},
    fixtures::route,
    fixtures::{A, B},
    foreign_endpoints::{EndpointsSource, ForeignEndpoints},
    gateway_permits::{Export, GatewayPermits},
    leader::{Leader, Leaders},
    misspelled::{ServiceLabels, tests::labelled},
    pod_networks::PodNetworks,
    skipped_ports::SkippedPorts,
    snapshot::{
        AccessRule, ClusterSnapshot, Confinement, Crd, Destination, Endpoints, FullSnapshot, Known,
        LinkCredentials, LinkSnapshot, LinkerdCredentials, MeshedPod, Proxy, ServiceRange,
        TargetSnapshot, Workload,
    },
};

const NOW: &str = "2026-11-21T12:00:00Z";

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config(anchors: &str) -> LinkerdConfig {
    from(json!({"identityTrustAnchorsPEM": anchors, "linkerdVersion": "edge-26.8.1"}))
}

fn config_in(trust_domain: &str) -> LinkerdConfig {
    LinkerdConfig {
        identity_trust_domain: trust_domain.to_owned(),
        ..config(A)
    }
}

fn rule(group: &str, resource: &str, names: &[&str], verbs: &[&str]) -> AccessRule {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    AccessRule {
        groups: owned(&[group]),
        resources: owned(&[resource]),
        names: owned(names),
        verbs: owned(verbs),
    }
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": "Mirrored", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": NOW,
    })
}

fn service_status(name: &str, condition: &Value) -> Value {
    json!({
        "controllerName": "linkerd.io/service-mirror",
        "remoteRef": {"name": name, "namespace": "shop"},
        "conditions": [condition],
    })
}

fn link(cluster: &str) -> LinkSnapshot {
    LinkSnapshot {
        unreadable: None,
        link: from(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": {
                "name": cluster, "namespace": "linkerd-multicluster",
                "annotations": {labels::CREATED_BY: "linkerd-mc/cli 1.2.3"},
            },
            "spec": {
                "targetClusterName": cluster,
                "selector": {"matchLabels": {labels::EXPORTED: "true"}},
                "clusterCredentialsSecret": format!("cluster-credentials-{cluster}"),
                "gatewayAddress": "192.0.2.1",
                "gatewayPort": "4143",
                "probeSpec": {"path": "/ready", "port": "4191", "period": "3s"},
                "remoteDiscoverySelector": {},
            },
            "status": {
                "mirrorServices": [service_status("web", &condition("True", "Mirrored", ""))],
                "federatedServices": [service_status("web", &condition("True", "Mirrored", ""))],
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": NOW,
                }, {
                    "type": "Drained", "status": "True", "reason": "Drained", "message": "until then",
                    "lastTransitionTime": NOW,
                }],
                "gateway": {"alive": true},
                "unhealthy": 0,
            },
        })),
        credentials: Some(Ok(LinkCredentials::default())),
        target: Some(Ok(TargetSnapshot {
            denied: Ok(vec![]),
            rules: Ok(vec![
                rule("", "services", &[], &["list", "get", "watch"]),
                rule("", "configmaps", &["linkerd-config"], &["get"]),
            ]),
            config: Ok(config_in("east.example")),
            labels: Ok(ServiceLabels::default()),
            ahead: jiff::SignedDuration::ZERO,
            pods: Ok(vec!["10.2.0.7".parse().unwrap()]),
        })),
    }
}

fn service(
    name: &str,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> mirror_core::api::k8s::Service {
    from(json!({
        "metadata": {
            "name": name, "namespace": "shop",
            "labels": labels.iter().copied().collect::<BTreeMap<_, _>>(),
            "annotations": annotations.iter().copied().collect::<BTreeMap<_, _>>(),
        },
        "spec": {},
    }))
}

fn endpoints(services: &[&str]) -> Endpoints {
    let slices: Vec<EndpointSlice> = services
        .iter()
        .map(|service| {
            from(json!({
                "metadata": {"namespace": "shop", "labels": {labels::SLICE_SERVICE: service}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["192.0.2.1"]}],
            }))
        })
        .collect();
    Endpoints::count(&slices)
}

fn deployment(name: &str, component: &str, cluster: Option<&str>) -> Workload {
    Workload {
        id: ResourceId::new("linkerd-multicluster", name),
        component: component.into(),
        cluster: cluster.map(str::to_owned),
        desired: 1,
        available: 1,
        images: vec!["registry.example/controller:v1.2.3".into()],
        local_members: Some(labels::FEDERATED_MEMBERS.into()),
        applies_preferences: true,
        ..Workload::default()
    }
}

fn confinement(missing: &[&str], differing: &[&str]) -> Confinement {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    Confinement::Installed {
        missing: owned(missing),
        differing: owned(differing),
    }
}

/// A cluster that links to one other cluster and passes all checks.
fn well() -> FullSnapshot {
    let of_east = [(labels::CLUSTER_NAME, "east")];
    FullSnapshot {
        now: NOW.parse().unwrap(),
        ahead: jiff::SignedDuration::ZERO,
        version: "1.2.3".into(),
        extension_namespaces: Ok(vec!["linkerd-multicluster".into()]),
        cluster: ClusterSnapshot {
            uid: None,
            name: "west".into(),
            flags: hints::suggest::ClusterFlags::default(),
            identity: client::Identity::default(),
            links: Ok(vec![link("east")]),
            config: Ok(config_in("west.example")),
            leaders: Leaders::from([(
                "linkerd-multicluster".to_owned(),
                Ok(Some(Leader {
                    active: true,
                    ..Leader::default()
                })),
            )]),
        },
        serves_links: Ok(true),
        may_list_links: Ok(true),
        crd: Ok(Crd {
            status_fields: [
                "conditions",
                "gateway",
                "mirrored",
                "federated",
                "unhealthy",
                "targetClusterName",
                "observedGeneration",
            ]
            .map(str::to_owned)
            .into(),
            has_columns: true,
        }),
        deployments: Ok(vec![deployment(
            labels::CONTROLLER_NAME,
            "controller",
            None,
        )]),
        controller_denied: Ok(vec![]),
        confinement: Ok(confinement(&[], &[])),
        mirrors: Ok(vec![
            service("web-east", &of_east, &[]),
            service(
                "api-east",
                &[of_east[0], (labels::REMOTE_DISCOVERY, "east")],
                &[],
            ),
            service(
                "web-federated",
                &[],
                &[
                    (labels::REMOTE_DISCOVERY, "web@east"),
                    (labels::LOCAL_DISCOVERY, "web"),
                    (labels::PREFER, "local,east"),
                ],
            ),
        ]),
        local_members: Ok(vec![service("web", &[], &[(labels::PREFER, "local,east")])]),
        routes: Ok(vec![]),
        probes: Ok(vec![service("probe-east", &of_east, &[])]),
        endpoints: Ok(endpoints(&["web-east", "probe-east"])),
        foreign: Ok(vec![]),
        range: Ok(None),
        pods: Ok(vec![MeshedPod {
            id: ResourceId::new("linkerd-multicluster", "controller-1"),
            phase: "Running".into(),
            component: labels::COMPONENT_CONTROLLER.into(),
            proxy: Some(Proxy {
                ready: true,
                image: "registry.example/proxy:edge-26.8.1".into(),
                trust_anchors: Some(A.into()),
                forwards_to: Some(GatewaySuffixes::of_variable("svc.cluster.local.")),
            }),
            ..MeshedPod::default()
        }]),
        exports: Ok(vec![cases::export()]),
        permits: Ok(GatewayPermits {
            is_whole: false,
            hosts: ["web.shop.svc.cluster.local".to_owned()].into(),
        }),
        destination: Ok(Destination {
            namespace: "linkerd".into(),
            credentials: BTreeMap::from([("east".to_owned(), LinkerdCredentials::default())]),
            started: Some("2026-11-20T12:00:00Z".parse().unwrap()),
            pods: 3,
        }),
        trust_roots: Ok(Some(A.into())),
        issuer: Ok(issuer("2026-11-01T00:00:00Z", "2027-11-01T00:00:00Z")),
        certificates: Ok(certificate("2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z")),
        meshed: Ok(40),
        pod_networks: Ok(PodNetworks {
            networks: vec!["10.1.0.0/24".parse().unwrap()],
            own: vec!["10.1.0.7".parse().unwrap()],
        }),
    }
}

fn valid(from: &str, until: &str) -> Validity {
    Validity {
        from: from.parse().unwrap(),
        until: until.parse().unwrap(),
    }
}

/// The certificate of the controller's proxy.
fn certificate(from: &str, until: &str) -> ProxyCertificates {
    let pod = ResourceId::new("linkerd-multicluster", "controller-1");
    ProxyCertificates {
        seen: BTreeMap::from([(pod, valid(from, until))]),
        unread: BTreeMap::new(),
    }
}

/// The only Link of [`well`].
fn east(snapshot: &mut FullSnapshot) -> &mut LinkSnapshot {
    &mut snapshot.cluster.links.as_mut().unwrap()[0]
}

/// Only the controller reaches the API server, or not.
fn through_gateway(snapshot: &mut FullSnapshot, connected: &str) {
    let east = east(snapshot);
    east.target = None;
    let annotations = east.link.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::API_GATEWAY.into(), "{}".into());
    let condition = json!({
        "type": "Connected", "status": connected, "reason": "Because", "message": "no answer",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let conditions = &mut east.link.status.as_mut().unwrap().conditions;
    conditions.retain(|known| known.type_ != "Connected");
    conditions.push(from(condition));
}

fn target(snapshot: &mut FullSnapshot) -> &mut TargetSnapshot {
    east(snapshot).target.as_mut().unwrap().as_mut().unwrap()
}

fn ours(snapshot: &mut FullSnapshot) -> &mut Workload {
    &mut snapshot.deployments.as_mut().unwrap()[0]
}

fn pod(snapshot: &mut FullSnapshot) -> &mut MeshedPod {
    &mut snapshot.pods.as_mut().unwrap()[0]
}

/// A Service of the target cluster has this label.
fn unusual(snapshot: &mut FullSnapshot, key: &str, value: &str) {
    target(snapshot).labels = Ok(labelled(key, value));
}

/// The Link selects this label, in place of its usual one.
fn select(snapshot: &mut FullSnapshot, key: &str, value: &str) {
    let selector = from(json!({ "matchLabels": { key: value } }));
    east(snapshot).link.spec.selector = Some(selector);
}

/// The ports that the controller's Pod skips, and those of Linkerd's configuration.
fn skip(snapshot: &mut FullSnapshot, of_pod: Option<&str>, of_linkerd: &str) {
    pod(snapshot).skipped_ports = of_pod.map(|ports| SkippedPorts(ports.to_owned()));
    let config = snapshot.cluster.config.as_mut().unwrap();
    let init = json!({ "ignoreOutboundPorts": of_linkerd });
    config.rest.insert("proxyInit".into(), init);
}

fn status(snapshot: &mut FullSnapshot, patch: &Value) {
    let status = east(snapshot).link.status.as_mut().unwrap();
    let mut value = serde_json::to_value(&*status).unwrap();
    for (key, patch) in patch.as_object().unwrap() {
        value[key] = patch.clone();
    }
    *status = from(value);
}

/// The results of all checks.
fn evaluate(snapshot: &FullSnapshot) -> Vec<CheckResult> {
    super::evaluate(snapshot, |_| true).results
}

fn no<T>() -> Known<T> {
    Err("refused".into())
}

#[test]
fn healthy_cluster_passes_every_check() {
    let results = evaluate(&well());
    let not_well: Vec<_> = results.iter().filter(|r| r.level.is_some()).collect();
    assert!(not_well.is_empty(), "{not_well:#?}");
    assert_eq!(
        results.len(),
        RULES.len(),
        "on this cluster nothing is skipped"
    );
    let details: Vec<_> = results
        .iter()
        .filter(|r| r.description.contains('\n'))
        .collect();
    assert_eq!(details[0].description, "Link resources are valid\n\t* east");
}

fn find<'a>(results: &'a [CheckResult], description: &str) -> Option<&'a CheckResult> {
    results
        .iter()
        .find(|result| result.description.lines().next() == Some(description))
}

#[test]
fn each_rule_reports_its_problem() {
    for (description, change, level, text) in CASES {
        let mut snapshot = well();
        change(&mut snapshot);
        let results = evaluate(&snapshot);
        let result =
            find(&results, description).unwrap_or_else(|| panic!("{description}: skipped"));
        assert_eq!(
            (result.level, result.findings.is_empty()),
            (*level, text.is_empty()),
            "{result:?}"
        );
        assert!(
            result.text().contains(text),
            "{text:?} is not in {result:?}"
        );
    }
}

#[test]
fn every_rule_has_a_case_that_fails() {
    let failing: BTreeSet<_> = CASES
        .iter()
        .filter(|c| c.2.is_some())
        .map(|c| c.0)
        .collect();
    let missing: Vec<_> = RULES
        .iter()
        .map(|r| r.description)
        .filter(|d| !failing.contains(d))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn checks_that_do_not_apply_have_no_result() {
    let described = |change: Change| {
        let mut snapshot = well();
        change(&mut snapshot);
        let results = evaluate(&snapshot);
        results
            .into_iter()
            .map(|r| r.description)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        described(|f| {
            f.cluster.links = Ok(vec![]);
            f.mirrors = Ok(vec![]);
            f.local_members = Ok(vec![]);
            pod(f).proxy.as_mut().unwrap().forwards_to = None;
        }),
        [
            "multicluster extension Namespace exists",
            "Link CRD exists",
            "Link CRD is up to date",
            "this machine's clock agrees with that of the API server",
            "service mirror controller is restricted by admission policies",
            "extension is managing controllers",
            "controller and CLI versions match",
            "Linkerd reads EndpointSlices",
            "multicluster extension proxies are healthy",
            "multicluster extension proxies are up-to-date",
        ]
    );
    for (description, change) in [
        (
            "extension is managing controllers",
            (|f| f.deployments = Ok(vec![])) as Change,
        ),
        (
            "service mirror controller is restricted by admission policies",
            |f| {
                f.deployments = Ok(vec![]);
            },
        ),
        (
            "service mirror controller is restricted by admission policies",
            |f| {
                f.confinement = Ok(Confinement::Unavailable);
            },
        ),
        (
            "service mirror controller is restricted by admission policies",
            |f| {
                f.confinement = Ok(confinement(&["ValidatingAdmissionPolicy x"], &[]));
                ours(f).is_unconfined = true;
            },
        ),
        ("controller and CLI versions match", |f| {
            ours(f).images = vec!["controller@sha256:00".into()];
        }),
        ("preferences of federated services are applied", |f| {
            f.mirrors = no();
            f.local_members = no();
        }),
        (
            "preferred clusters receive the requests to federated services",
            |f| prefer(f, "", ""),
        ),
        ("Links are ready", |f| f.crd = Ok(Crd::default())),
        ("gateway forwards to what it should", |f| {
            f.deployments = Ok(vec![]);
        }),
        (
            "probe services able to communicate with all gateway mirrors",
            |f| east(f).link.spec.gateway_address.clear(),
        ),
        ("Service range has room for exported services", |f| {
            crowd(f, 5, Ok(None));
        }),
        ("gateway addresses are accepted", |f| {
            east(f).link.spec.gateway_address.clear();
        }),
        ("multicluster extension proxies are up-to-date", |f| {
            f.pods = no();
        }),
    ] {
        assert!(
            !described(change).iter().any(|d| d == description),
            "{description}"
        );
    }
}

#[test]
fn each_check_belongs_to_a_topic_and_is_ranked() {
    let all = evaluate(&well());
    let ranks: Vec<_> = all.iter().map(|result| result.rank).collect();
    assert_eq!(ranks, (0..RULES.len()).collect::<Vec<_>>());
    let by_topic = Topic::ALL.map(|topic| super::evaluate(&well(), |of| of == topic).results);
    let mut by_topic = by_topic.concat();
    by_topic.sort_by_key(|result| result.rank);
    assert_eq!(by_topic, all);
}

#[test]
fn long_lists_are_truncated_and_control_characters_escaped() {
    let mut snapshot = well();
    let orphans = (0..25).map(|n| {
        service(
            &format!("web-{n:02}"),
            &[(labels::CLUSTER_NAME, "\u{1b}[2J")],
            &[],
        )
    });
    snapshot.mirrors = Ok(orphans.collect());
    let results = evaluate(&snapshot);
    let error = find(&results, "all mirror services are part of a Link")
        .unwrap()
        .text();
    assert_eq!(error.lines().count(), 11);
    assert!(error.ends_with("… and 15 more"), "{error}");
    assert!(!error.contains('\u{1b}'));
}

#[test]
fn only_failures_that_may_resolve_are_retried() {
    let mut snapshot = well();
    ours(&mut snapshot).available = 0;
    east(&mut snapshot).target = Some(no());
    let retried: Vec<_> = evaluate(&snapshot)
        .into_iter()
        .filter(|r| r.retry)
        .map(|r| r.description)
        .collect();
    assert_eq!(retried, ["service mirror controllers are running"]);
}

#[test]
fn checks_about_requests_lead_to_the_diagnosis_of_a_service() {
    const DIAGNOSE: &str = "linkerd-mc diagnose ";
    let missing = condition("False", "MissingNamespace", "");
    let dead: fn(&mut FullSnapshot) = |f| status(f, &json!({"gateway": {"alive": false}}));
    let empty: fn(&mut FullSnapshot) = |f| f.endpoints = Ok(Endpoints::default());
    for (what, change, expected) in [
        ("a dead gateway", dead, "shop/web-east"),
        ("a mirror without endpoints", empty, "shop/web-east"),
    ] {
        let mut snapshot = well();
        change(&mut snapshot);
        assert!(
            diagnoses(&snapshot, DIAGNOSE).contains(&expected.to_owned()),
            "{what}"
        );
    }
    for (list, expected) in [
        ("mirrorServices", "shop/late-east"),
        ("federatedServices", "shop/late-federated"),
    ] {
        let mut snapshot = well();
        status(
            &mut snapshot,
            &json!({ list: [service_status("late", &missing)] }),
        );
        assert_eq!(diagnoses(&snapshot, DIAGNOSE), [expected], "{list}");
    }
    assert_eq!(diagnoses(&well(), DIAGNOSE), [""; 0]);
}

/// The Services that the results of all checks tell to diagnose.
fn diagnoses(snapshot: &FullSnapshot, diagnose: &str) -> Vec<String> {
    let results = super::evaluate(snapshot, |_| true).results;
    let fixes = results.into_iter().flat_map(|result| result.actions);
    fixes
        .filter_map(|fix| Some(fix.command.line().strip_prefix(diagnose)?.to_owned()))
        .collect()
}
