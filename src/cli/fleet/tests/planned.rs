//! What is planned for clusters as they may be.

use std::{fmt::Write as _, path::Path};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use client::kubeconfig_in;
use hints::suggest::ClusterFlags;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::ResourceExt as _;
use links::{
    fleet::{
        facts::{ClusterFacts, TargetSide},
        link_plan::LinkCase,
        loaded::{LoadedFleet, parse},
        part::UsedClusters,
        plan::FleetPlan,
        removal::KnownClusters,
    },
    link::{api_server::ApiServerFacts, facts::LinkFacts},
};
use manifests::{
    install::{RemoteAccess, allow},
    kubeconfig::{self as portable, ClusterEntry, KubeconfigContext},
    link::ClusterName,
};
use mirror_core::api::{labels, link::LinkerdConfig};
use serde_json::{Value, json};

use crate::cli::fleet::view;

pub const FILE: &str =
    "name: f\nclusters: [{name: east}, {name: west}]\nlinks: [{target: east, source: west}]\n";
const NAMESPACE: &str = labels::MULTICLUSTER_NAMESPACE;
const API_GATEWAY: &str = r#"{"addresses":["192.0.2.7"],"port":4143,"identity":"api.id","service":"linkerd-multicluster/kubernetes-api"}"#;

/// The file, with the consent of the user to delete and to take over.
pub fn loaded(text: &str) -> LoadedFleet {
    let mut loaded = parse("fleet.yaml", text, Path::new(""), "linkerd").unwrap();
    loaded.consent.prunes = Some(10);
    loaded.consent.takes_over = true;
    loaded
}

pub fn name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

/// A token of the account `west` in east; `n` tells tokens apart.
pub fn token(n: u8, expires: Option<i64>) -> String {
    token_of("west", n, expires)
}

fn token_of(account: &str, n: u8, expires: Option<i64>) -> String {
    let mut claims = json!({
        "sub": format!("system:serviceaccount:{NAMESPACE}:{account}"),
        "kubernetes.io/serviceaccount/service-account.uid": format!("uid-of-{account}"),
        "n": n,
    });
    if let Some(at) = expires {
        claims["exp"] = json!(at);
    }
    format!(
        "e30.{}.sig",
        BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())
    )
}

/// A token of the account `west` in east, bound to the Secret with this UID.
fn bound(secret: &str, expires: i64) -> String {
    let bound = json!({ "serviceaccount": { "uid": "uid-of-west" }, "secret": { "name": "s", "uid": secret } });
    let subject = format!("system:serviceaccount:{NAMESPACE}:west");
    let claims = json!({ "sub": subject, "exp": expires, "kubernetes.io": bound });
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    format!("e30.{claims}.sig")
}

/// A cluster with the extension, and a gateway at this address.
pub fn installed(cluster: &str, address: &str) -> ClusterFacts {
    let gateway: Service = serde_json::from_value(json!({
        "metadata": { "name": "linkerd-gateway", "annotations": {
            "mirror.linkerd.io/gateway-identity": "gw.id", "mirror.linkerd.io/probe-path": "/ready",
            "mirror.linkerd.io/probe-period": "3",
        } },
        "spec": { "ports": [{ "name": "mc-gateway", "port": 4143 }, { "name": "mc-probe", "port": 4191 }] },
        "status": { "loadBalancer": { "ingress": [{ "ip": address }] } },
    }))
    .unwrap();
    let facts = LinkFacts {
        context: KubeconfigContext {
            name: cluster.to_owned(),
            cluster_name: cluster.to_owned(),
            cluster: ClusterEntry {
                server: format!("https://{cluster}.example"),
                certificate_authority_data: Some("Q0E=".to_owned()),
                ..ClusterEntry::default()
            },
            ..KubeconfigContext::default()
        },
        uid: Some(format!("uid-of-cluster-{cluster}")),
        flags: ClusterFlags::of_context(cluster),
        config: LinkerdConfig {
            cluster_domain: "cluster.local".to_owned(),
            identity_trust_domain: "cluster.local".to_owned(),
            ..LinkerdConfig::default()
        },
        gateway: Some(gateway),
    };
    ClusterFacts {
        uid: Some(format!("uid-of-cluster-{cluster}")),
        has_links: true,
        target: Some(Ok(TargetSide {
            facts,
            inside: ApiServerFacts {
                gateway: serde_json::from_str(API_GATEWAY).ok(),
                ..ApiServerFacts::default()
            },
        })),
        ..ClusterFacts::default()
    }
}

/// Adds the account `west`, with its token, as the fleet makes it if it is `labelled`.
fn with_account(facts: &mut ClusterFacts, labelled: bool) {
    let manifest = allow(NAMESPACE, &["west".to_owned()], RemoteAccess::Full, false).unwrap();
    for mut object in manifest.into_objects().unwrap() {
        if labelled {
            object["metadata"]["labels"][labels::FLEET] = json!("f");
        }
        object["metadata"]["annotations"][labels::CREATED_BY] = json!("linkerd-mc/cli 0.0.1");
        match object["kind"].as_str().unwrap() {
            "ClusterRole" => facts
                .accounts
                .roles
                .push(serde_json::from_value(object).unwrap()),
            "ClusterRoleBinding" => facts
                .accounts
                .bindings
                .push(serde_json::from_value(object).unwrap()),
            "ServiceAccount" => {
                object["metadata"]["uid"] = json!("uid-of-west");
                if labelled {
                    let uid = "uid-of-cluster-west";
                    object["metadata"]["annotations"][labels::CLUSTER_UID] = json!(uid);
                }
                facts
                    .accounts
                    .accounts
                    .push(serde_json::from_value(object).unwrap());
            }
            _ => {
                let mut secret: Secret = serde_json::from_value(object).unwrap();
                let data = secret.data.get_or_insert_default();
                data.insert(
                    "token".to_owned(),
                    k8s_openapi::ByteString(token(1, None).into_bytes()),
                );
                facts.accounts.tokens.push(secret);
            }
        }
    }
}

/// The link of [`FILE`] as it is there: with this token, and with the label of a fleet.
pub fn with_link(
    loaded: &LoadedFleet,
    source: &mut ClusterFacts,
    target: &ClusterFacts,
    held: &str,
    fleet: Option<&str>,
) {
    let Some(Ok(side)) = &target.target else {
        panic!("no target");
    };
    let token = portable::Secret::new(held);
    let link = &loaded.links[0];
    let made = link.objects(loaded, side, Some(&token), &mut Vec::new());
    let mut made = made.unwrap();
    let label = fleet.map(|fleet| (labels::FLEET.to_owned(), fleet.to_owned()));
    for secret in std::iter::once(made.credentials).chain(made.control_plane_credentials) {
        let mut secret = secret;
        secret
            .metadata
            .labels
            .get_or_insert_default()
            .extend(label.clone());
        source.credentials.push(secret);
    }
    made.link
        .metadata
        .labels
        .get_or_insert_default()
        .extend(label);
    source.links.push(made.link);
}

/// The clusters east and west as they are when all is done.
pub fn done(loaded: &LoadedFleet) -> [ClusterFacts; 2] {
    let (mut east, mut west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    with_account(&mut east, true);
    with_link(loaded, &mut west, &east, &token(1, None), Some("f"));
    [east, west]
}

pub fn plan(loaded: &LoadedFleet, clusters: &[(&str, Result<&ClusterFacts, &str>)]) -> FleetPlan {
    plan_with(loaded, &UsedClusters::default(), clusters)
}

pub fn plan_with(
    loaded: &LoadedFleet,
    used: &UsedClusters,
    clusters: &[(&str, Result<&ClusterFacts, &str>)],
) -> FleetPlan {
    let names: Vec<ClusterName> = clusters.iter().map(|(of, _)| name(of)).collect();
    let known: KnownClusters<'_> = names
        .iter()
        .zip(clusters.iter().map(|(_, facts)| *facts))
        .collect();
    FleetPlan::of(loaded, &known, used, Timestamp::from_second(1000).unwrap())
}

/// A plan of east and west in short: `cluster verb kind name: why; field: before -> after (place)`.
pub fn short(loaded: &LoadedFleet, [east, west]: [&ClusterFacts; 2]) -> Vec<String> {
    lines(&plan(loaded, &[("east", Ok(east)), ("west", Ok(west))]))
}

pub fn lines(plan: &FleetPlan) -> Vec<String> {
    let mut lines = Vec::new();
    for cluster in &plan.clusters {
        for change in cluster.steps.iter().map(|step| &step.change) {
            let mut line = format!(
                "{} {} {} {}/{}: {}",
                cluster.name, change.verb, change.kind, change.namespace, change.name, change.why
            );
            for field in &change.fields {
                let (name, before, after) = (&field.field, &field.before, &field.after);
                write!(line, "; {name}: {before} -> {after}").unwrap();
                line.extend(field.place.iter().map(|place| format!(" ({place})")));
            }
            lines.push(line);
        }
        lines.extend(
            cluster
                .problems
                .iter()
                .map(|problem| format!("{}: {problem}", cluster.name)),
        );
    }
    lines
}

#[test]
fn new_link_needs_an_account_two_secrets_and_a_link() {
    let (east, west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    let loaded = loaded(FILE);
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            "east create ClusterRole /west: the account of west",
            "east create ServiceAccount linkerd-multicluster/west: the account of west",
            "east create Secret linkerd-multicluster/west-bound: the account of west",
            "east create ClusterRoleBinding /west: the account of west",
            "west create Secret linkerd-multicluster/cluster-credentials-east: link, line 3",
            "west create Secret linkerd/cluster-credentials-east: link, line 3",
            "west create Link linkerd-multicluster/east: link, line 3",
        ]
    );
    let plan = plan(&loaded, &[("east", Ok(&east)), ("west", Ok(&west))]);
    assert_eq!(
        anstream::adapter::strip_str(&view::text(&plan)).to_string(),
        "east\n  + ClusterRole west: the account of west\n  + ClusterRoleBinding west: the account of west\n  + Secret \
         west-bound: the account of west\n  + ServiceAccount west: the account of west\nwest\n  + Link east: link, line 3\n  + \
         2 Secrets cluster-credentials-east: link, line 3\n7 to create, 0 to change, 0 to delete.\n"
    );
}

#[test]
fn what_is_as_it_should_be_is_not_written_again() {
    let loaded = loaded(FILE);
    let [east, west] = done(&loaded);
    assert_eq!(short(&loaded, [&east, &west]), [""; 0]);

    // Another user has other names of contexts.
    let [mut east, west] = done(&loaded);
    if let Some(Ok(side)) = &mut east.target {
        side.facts.context.name = "admin@east".to_owned();
        side.facts.context.cluster_name = "production".to_owned();
    }
    assert_eq!(short(&loaded, [&east, &west]), [""; 0]);

    // A valid token stays: one of another Secret, and one that was requested.
    for (held, is_valid) in [
        (bound("rotated", 2000), true),
        (bound("rotated", 999), false),
        (bound("deleted", 2000), false),
        (token(2, Some(2000)), true),
        (token(2, Some(999)), false),
        (token(3, None), true),
        (token(4, None), false),
    ] {
        let (mut east, mut west) = (
            installed("east", "192.0.2.1"),
            installed("west", "192.0.2.2"),
        );
        with_account(&mut east, true);
        let mut rotated = east.accounts.tokens[0].clone();
        rotated.metadata.name = Some("west-token-x".to_owned());
        rotated.metadata.uid = Some("rotated".to_owned());
        rotated
            .labels_mut()
            .insert(labels::TOKEN_OF_LINK.to_owned(), "id".to_owned());
        let data = rotated.data.get_or_insert_default();
        data.insert(
            "token".to_owned(),
            k8s_openapi::ByteString(token(3, None).into_bytes()),
        );
        east.accounts.tokens.insert(0, rotated);
        with_link(&loaded, &mut west, &east, &held, Some("f"));
        let changed: Vec<String> = short(&loaded, [&east, &west])
            .into_iter()
            .map(|line| line.split(": ").next().unwrap().to_owned())
            .collect();
        let secrets = [
            "west patch Secret linkerd-multicluster/cluster-credentials-east",
            "west patch Secret linkerd/cluster-credentials-east",
        ];
        assert_eq!(
            changed,
            if is_valid { vec![] } else { secrets.to_vec() },
            "{held}"
        );
    }
}

#[test]
fn first_token_of_an_account_is_not_made_again_after_a_rotation() {
    let loaded = loaded(FILE);
    let [mut east, west] = done(&loaded);
    east.accounts.tokens[0].metadata.name = Some("west-token-x".to_owned());
    assert_eq!(short(&loaded, [&east, &west]), [""; 0]);

    // The link has lost its credentials.
    let [mut east, mut west] = done(&loaded);
    east.accounts.tokens.clear();
    west.credentials.clear();
    let made = "east create Secret linkerd-multicluster/west-bound: the account of west";
    assert_eq!(short(&loaded, [&east, &west])[0], made);
}

#[test]
fn what_others_have_made_is_taken_over_and_what_differs_is_shown_with_its_place() {
    let loaded_file = loaded(FILE);
    let (mut east, mut west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    with_account(&mut east, false);
    with_link(&loaded_file, &mut west, &east, &token(1, None), None);
    let taken_over = [
        "west patch Secret linkerd-multicluster/cluster-credentials-east: taken over as it is",
        "west patch Secret linkerd/cluster-credentials-east: taken over as it is",
        "west patch Link linkerd-multicluster/east: taken over as it is",
    ];
    assert_eq!(short(&loaded_file, [&east, &west]), taken_over);

    let other = loaded(&FILE.replace(
        "source: west}",
        "source: west, settings: {federation: none, enableHeadlessServices: true, excludedLabels: [a, b]}}",
    ));
    let link = "west patch Link linkerd-multicluster/east: taken over, with other settings; excludedLabels:  -> a,b (link, line \
                3); enableHeadlessServices:  -> enabled (link, line 3); federation:  -> none (link, line 3)";
    assert_eq!(
        short(&other, [&east, &west]),
        [taken_over[0], taken_over[1], link]
    );

    // A gateway has moved, and the role of the account is that of an older version.
    let [mut east, west] = done(&loaded_file);
    east.accounts.roles[0].rules.as_mut().unwrap().pop();
    if let Some(Ok(side)) = &mut east.target {
        let ports = side.facts.gateway.as_mut().unwrap();
        ports.status = serde_json::from_value(
            json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } }),
        )
        .unwrap();
    }
    assert_eq!(
        short(&loaded_file, [&east, &west]),
        [
            "east patch ClusterRole /west: not as it has to be",
            "west patch Link linkerd-multicluster/east: other settings; gatewayAddress: 192.0.2.1 -> 192.0.2.9",
        ]
    );
}

#[test]
fn link_by_another_address_is_known_by_its_old_account_when_the_new_one_was_made() {
    let loaded = loaded(&FILE.replace(
        "{name: east}",
        "{name: east, apiServerAddress: 'https://other.example'}",
    ));
    let (mut east, mut west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    let shared = json!({ "metadata": { "name": "shared", "uid": "uid-of-shared" } });
    let shared = serde_json::from_value(shared).unwrap();
    east.accounts.accounts.push(shared);
    with_link(
        &loaded,
        &mut west,
        &east,
        &token_of("shared", 1, None),
        None,
    );
    let mut made = ClusterFacts::default();
    with_account(&mut made, true);
    let made = made.accounts.accounts.remove(0);
    let requested = portable::Secret::new(token(1, Some(2000)));
    let after = east.accounts.with(made, requested);
    let case = LinkCase {
        loaded: &loaded,
        link: &loaded.links[0],
        source: &west,
        target: &east,
        now: Timestamp::UNIX_EPOCH,
    };
    for accounts in [&east.accounts, &after] {
        let planned = case.plan(accounts).map_err(|obstacle| obstacle.why);
        assert!(planned.is_ok(), "{:?}", planned.err());
    }
}

#[test]
fn only_what_the_fleet_has_made_goes() {
    let file = "name: f\nclusters: [{name: east}, {name: west}]\nlinks: []\n";
    let (full, empty) = (loaded(FILE), loaded(file));
    let [east, west] = done(&full);
    assert_eq!(
        short(&empty, [&east, &west]),
        [
            "east delete ClusterRoleBinding /west: not in the file",
            "east delete ServiceAccount linkerd-multicluster/west: not in the file",
            "east delete Secret linkerd-multicluster/west-bound: not in the file",
            "east delete ClusterRole /west: not in the file",
            "west delete Link linkerd-multicluster/east: not in the file",
            "west delete Secret linkerd-multicluster/cluster-credentials-east: not in the file",
            "west delete Secret linkerd/cluster-credentials-east: not in the file",
        ]
    );
    // Nobody knows whether west still uses its account.
    let unread = plan(&empty, &[("east", Ok(&east)), ("west", Err("timed out"))]);
    assert_eq!(
        lines(&unread),
        ["east: the ServiceAccount west stays: west was not read, and may use it"]
    );
    assert!(!unread.is_pending() && unread.has_problems());
    let unknown = plan(&empty, &[("east", Ok(&east))]);
    assert!(
        lines(&unknown)[0].starts_with(
            "east: the ServiceAccount west stays: west is not in the file, and may use the account; pass --also west"
        )
    );
    // The Link is all that says that east has an account.
    let alone = plan(&empty, &[("west", Ok(&west))]);
    let said = lines(&alone);
    let stays = "west: the account west in east stays: east is not in the file; pass --also east to delete it there";
    assert!(said.iter().any(|line| line.starts_with(stays)), "{said:?}");
    assert!(alone.is_pending() && alone.has_problems());

    // A link of somebody else, and of another fleet.
    for label in [None, Some("other")] {
        let (mut east, mut west) = (
            installed("east", "192.0.2.1"),
            installed("west", "192.0.2.2"),
        );
        with_account(&mut east, true);
        with_link(&full, &mut west, &east, &token(1, None), label);
        assert_eq!(
            short(&empty, [&east, &west]),
            [
                "east: the ServiceAccount west stays: the Secret cluster-credentials-east in west, which is not the fleet's, uses it"
            ]
        );
    }
}

#[test]
fn what_cannot_be_done_is_said_of_the_cluster_that_is_to_blame() {
    let loaded = loaded(FILE);
    let said = |change: &dyn Fn(&mut ClusterFacts, &mut ClusterFacts)| {
        let [mut east, mut west] = done(&loaded);
        change(&mut east, &mut west);
        short(&loaded, [&east, &west])
    };
    let foreign = |east: &mut ClusterFacts, _: &mut ClusterFacts| {
        east.accounts.roles[0].labels_mut().clear();
    };
    assert_eq!(
        said(&foreign),
        ["east: the ClusterRole west is not one of the extension"]
    );
    assert_eq!(
        said(&|_, west| west.has_links = false),
        ["west: it has no CRD for Links: the extension is not installed"]
    );
    assert_eq!(
        said(&|east, _| east.target = Some(Err("no gateway".to_owned()))),
        ["east: no gateway"]
    );
    let other_fleet = |_: &mut ClusterFacts, west: &mut ClusterFacts| {
        west.links[0]
            .labels_mut()
            .insert(labels::FLEET.to_owned(), "g".to_owned());
    };
    assert_eq!(
        said(&other_fleet),
        ["west: the Link east belongs to the fleet g"]
    );
    let duplicate = |_: &mut ClusterFacts, west: &mut ClusterFacts| {
        west.links[0].metadata.name = Some("other".to_owned());
        west.links[0].labels_mut().clear();
    };
    assert_eq!(
        said(&duplicate),
        ["west: the Link other links it to east already"]
    );
    // The cluster was made anew: its account is another one. Nobody has recorded which cluster it was.
    let anew = |east: &mut ClusterFacts, west: &mut ClusterFacts| {
        west.links[0].annotations_mut().remove(labels::CLUSTER_UID);
        for secret in &mut west.credentials {
            secret.annotations_mut().remove(labels::CLUSTER_UID);
        }
        east.accounts.accounts[0].metadata.uid = Some("uid-of-another".to_owned());
        if let Some(Ok(side)) = &mut east.target {
            side.facts.context.cluster.certificate_authority_data = Some("bmV3".to_owned());
        }
    };
    assert_eq!(
        said(&anew),
        [
            "west: the Link east leads to another cluster; if east was built again, pass --replace east"
        ]
    );
}

#[test]
fn linkerd_is_restarted_only_for_other_credentials_or_domains() {
    let loaded = loaded(FILE);
    let [mut east, west] = done(&loaded);
    let outdated = |east: &ClusterFacts| {
        let plan = plan(&loaded, &[("east", Ok(east)), ("west", Ok(&west))]);
        plan.outdates_linkerd("linkerd").join(" ")
    };
    assert_eq!(outdated(&east), "");
    let trust = |east: &mut ClusterFacts, domain: &str| {
        let side = east.target.as_mut().unwrap().as_mut();
        side.unwrap().facts.config.identity_trust_domain = domain.to_owned();
    };
    trust(&mut east, "east.example");
    assert_eq!(outdated(&east), "west");
    trust(&mut east, "cluster.local");
    let token_of_another = k8s_openapi::ByteString(token(9, None).into_bytes());
    let secret = east.accounts.tokens[0].data.as_mut().unwrap();
    secret.insert("token".to_owned(), token_of_another);
    assert_eq!(outdated(&east), "west");
    let (east, west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    let new = plan(&loaded, &[("east", Ok(&east)), ("west", Ok(&west))]);
    assert_eq!(new.outdates_linkerd("linkerd"), [""; 0]);
}

#[test]
fn json_of_a_plan_has_no_credentials() {
    let loaded = loaded(FILE);
    let [mut east, west] = done(&loaded);
    east.accounts.tokens[0].data.as_mut().unwrap().insert(
        "token".to_owned(),
        k8s_openapi::ByteString(token(9, None).into_bytes()),
    );
    let plan = plan(&loaded, &[("east", Ok(&east)), ("west", Ok(&west))]);
    let text = serde_json::to_string(&plan).unwrap();
    assert!(text.contains("new credentials"), "{text}");
    assert!(
        !text.contains(&token(9, None)) && !text.contains(&token(1, None)),
        "{text}"
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["clusters"][1]["changes"][0]["verb"], "patch");
    assert!(kubeconfig_in(&west.credentials[0]).is_some());
}
