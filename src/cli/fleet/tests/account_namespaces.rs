//! Accounts in a namespace of their own.

use std::mem;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use client::{fingerprint, kubeconfig_in};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt as _;
use links::fleet::{
    extension::ExtensionFiles,
    facts::{ClusterFacts, FormerAccounts},
    layout::FleetFiles,
    loaded::LoadedFleet,
    part::UsedClusters,
};
use mirror_core::api::link::LinkStatus;
use observe::clusters::snapshot::{Destination, LinkerdCredentials};
use serde_json::json;

use super::{
    planned::{FILE, done, installed, lines, loaded, plan_with, short, with_link},
    rendered::{objects, render_with, targets},
};
use crate::cli::fleet::view;

/// The file with this namespace of accounts.
fn with_key(namespace: &str) -> String {
    format!("{FILE}serviceAccountNamespace: {namespace}\n")
}

#[test]
fn accounts_are_in_the_namespace_of_the_file() {
    let loaded = loaded(&with_key("access"));
    let (mut east, west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            "east create ClusterRole /west: the account of west",
            "east create ServiceAccount access/west: the account of west",
            "east create Secret access/west-bound: the account of west",
            "east create ClusterRoleBinding /west: the account of west",
            "west create Secret linkerd-multicluster/cluster-credentials-east: link, line 3",
            "west create Secret linkerd/cluster-credentials-east: link, line 3",
            "west create Link linkerd-multicluster/east: link, line 3",
        ]
    );
    // Nobody else makes it.
    east.accounts.lacks_namespace = true;
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            "east: the namespace access of accounts does not exist; create it with `kubectl --context east create namespace access`"
        ]
    );
}

#[test]
fn rendered_accounts_are_in_the_namespace_of_the_file() {
    let (loaded, targets) = (loaded(&with_key("access")), targets(&["east", "west"]));
    let none = FleetFiles::new();
    let files = render_with(&loaded, &targets, None, &ExtensionFiles::Kept, &none).files;
    let account = objects(&files, "east/accounts/west.yaml");
    let namespaces = account.iter().map(|object| {
        let subject = &object["subjects"][0]["namespace"];
        let own = &object["metadata"]["namespace"];
        let namespace = own.as_str().or(subject.as_str());
        format!(
            "{} {}",
            object["kind"].as_str().unwrap(),
            namespace.unwrap_or("-")
        )
    });
    assert_eq!(
        namespaces.collect::<Vec<_>>(),
        [
            "ClusterRole -",
            "ServiceAccount access",
            "Secret access",
            "ClusterRoleBinding access",
        ]
    );
    let link = &objects(&files, "west/links/east.yaml")[0];
    assert_eq!(link["metadata"]["namespace"], "linkerd-multicluster");
}

/// The clusters of [`FILE`] when all is done, and the file names another namespace now.
fn before_the_move() -> [ClusterFacts; 2] {
    let [mut east, west] = done(&loaded(FILE));
    let accounts = &mut east.accounts;
    accounts.former = FormerAccounts {
        accounts: mem::take(&mut accounts.accounts),
        tokens: mem::take(&mut accounts.tokens),
    };
    [east, west]
}

/// A token of the account in the new namespace.
fn new_token() -> String {
    let claims = json!({
        "sub": "system:serviceaccount:access:west",
        "kubernetes.io/serviceaccount/service-account.uid": "uid-of-new",
    });
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    format!("e30.{claims}.sig")
}

/// The clusters when west has a token of its account in the new namespace, and uses it.
fn moved() -> [ClusterFacts; 2] {
    let [mut east, mut west] = before_the_move();
    let accounts = &mut east.accounts;
    let mut account = accounts.former.accounts[0].clone();
    account.metadata.namespace = Some("access".to_owned());
    account.metadata.uid = Some("uid-of-new".to_owned());
    let mut secret = accounts.former.tokens[0].clone();
    secret.metadata.namespace = Some("access".to_owned());
    let data = secret.data.get_or_insert_default();
    data.insert("token".to_owned(), ByteString(new_token().into_bytes()));
    (accounts.accounts, accounts.tokens) = (vec![account], vec![secret]);
    let subjects = accounts.bindings[0].subjects.as_mut().unwrap();
    let mut own = subjects[0].clone();
    own.namespace = Some("access".to_owned());
    subjects.insert(0, own);

    (west.links, west.credentials) = (Vec::new(), Vec::new());
    with_link(
        &loaded(&with_key("access")),
        &mut west,
        &east,
        &new_token(),
        Some("f"),
    );
    let held = kubeconfig_in(&west.credentials[0]).unwrap();
    west.links[0].status = Some(LinkStatus {
        credentials_fingerprint: Some(fingerprint(&held.0)),
        ..LinkStatus::default()
    });
    west.destination = Some(Ok(linkerd(600)));
    [east, west]
}

/// Linkerd of west, which started at this second. Its credentials were written at the second 500.
fn linkerd(started: i64) -> Destination {
    let at = |second| Some(jiff::Timestamp::from_second(second).unwrap());
    let credentials = LinkerdCredentials {
        changed: at(500),
        ..LinkerdCredentials::default()
    };
    Destination {
        namespace: "linkerd".to_owned(),
        credentials: [("east".to_owned(), credentials)].into(),
        started: at(started),
        pods: 1,
    }
}

#[test]
fn account_that_moves_is_made_before_the_old_one_goes() {
    let loaded = loaded(&with_key("access"));
    let [east, west] = before_the_move();
    let new = "the account of west, until now in the namespace linkerd-multicluster";
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            format!("east create ServiceAccount access/west: {new}"),
            format!("east create Secret access/west-bound: {new}"),
            "east patch ClusterRoleBinding /west: for the accounts in both namespaces".to_owned(),
            "west patch Secret linkerd-multicluster/cluster-credentials-east: new credentials"
                .to_owned(),
            "west patch Secret linkerd/cluster-credentials-east: new credentials".to_owned(),
        ]
    );

    // West has its new token. Nothing is left to do without consent to delete.
    let [east, west] = moved();
    let mut without = loaded_without_consent();
    let plan = plan_with(
        &without,
        &UsedClusters::default(),
        &[("east", Ok(&east)), ("west", Ok(&west))],
    );
    assert_eq!(lines(&plan), [""; 0]);
    let text = anstream::adapter::strip_str(&view::text(&plan)).to_string();
    assert_eq!(
        text,
        "east\n  · Secret west-bound: the account is in the namespace access now\n  · ServiceAccount west: the account is in \
         the namespace access now\nNothing to write. 2 objects stay without --prune.\n"
    );
    without.consent.prunes = Some(0);
    let now = "the account is in the namespace access now";
    assert_eq!(
        short(&without, [&east, &west]),
        [
            format!("east delete ServiceAccount linkerd-multicluster/west: {now}"),
            format!("east delete Secret linkerd-multicluster/west-bound: {now}"),
            format!("east patch ClusterRoleBinding /west: {now}"),
        ]
    );
    // Somebody has deleted it: the binding is for the new account alone.
    let [mut east, west] = moved();
    east.accounts.former = FormerAccounts::default();
    assert_eq!(
        short(&without, [&east, &west]),
        ["east patch ClusterRoleBinding /west: not as it has to be"]
    );
}

fn loaded_without_consent() -> LoadedFleet {
    let mut loaded = loaded(&with_key("access"));
    loaded.consent.prunes = None;
    loaded
}

#[test]
fn old_account_stays_as_long_as_something_may_use_it() {
    let loaded = loaded(&with_key("access"));
    let why = |change: &dyn Fn(&mut ClusterFacts)| {
        let [east, mut west] = moved();
        change(&mut west);
        let said = short(&loaded, [&east, &west]);
        assert!(!said.iter().any(|line| line.contains("delete")), "{said:?}");
        let stays = "east: the ServiceAccount linkerd-multicluster/west stays: ";
        let why = said.iter().find_map(|line| line.strip_prefix(stays));
        why.unwrap_or_else(|| panic!("{said:?}")).to_owned()
    };
    let old = |west: &mut ClusterFacts| {
        let [_, before] = done(&super::planned::loaded(FILE));
        let mut other: Secret = before.credentials[1].clone();
        other.labels_mut().clear();
        other.metadata.name = Some("cluster-credentials-other".to_owned());
        west.credentials.push(other);
    };
    assert_eq!(
        why(&old),
        "the Secret linkerd/cluster-credentials-other in west uses it"
    );
    assert_eq!(
        why(&|west| west.links[0].status = None),
        "the controller in west does not use its new credentials yet"
    );
    let restart = "linkerd-destination in west has not restarted since it got new credentials, and still uses it; restart it with ";
    for started in [400, 500] {
        let said = why(&|west| west.destination = Some(Ok(linkerd(started))));
        assert!(said.starts_with(restart), "{said}");
    }
    assert_eq!(
        why(&|west| west.destination = Some(Err("forbidden".to_owned()))),
        "linkerd-destination in west may use it: forbidden"
    );
    // Before the move, too.
    let [east, west] = before_the_move();
    let said = short(&loaded, [&east, &west]);
    assert!(!said.iter().any(|line| line.contains("delete")), "{said:?}");

    // West was not read, or is not used.
    let [east, _] = moved();
    let of = |used: &UsedClusters, west| {
        plan_with(&loaded, used, &[("east", Ok(&east)), ("west", west)])
    };
    let unread = of(&UsedClusters::default(), Err("timed out"));
    assert_eq!(
        lines(&unread),
        [
            "east: the ServiceAccount linkerd-multicluster/west stays: west was not read, and may use it"
        ]
    );
    let only = UsedClusters::named(&loaded, &["east".to_owned()], |_| true).unwrap();
    let plan = plan_with(&loaded, &only, &[("east", Ok(&east))]);
    assert_eq!(lines(&plan), [""; 0]);
    assert_eq!(
        plan.clusters[0].not_done,
        [
            "the ServiceAccount linkerd-multicluster/west stays: west was not read, and may use it; when it does not, delete \
             it with `kubectl --context east -n linkerd-multicluster delete serviceaccount west`"
        ]
    );
    assert!(plan.remaining.is_empty(), "{:?}", plan.remaining);
}

#[test]
fn account_of_a_cluster_that_left_the_file_goes_from_both_namespaces() {
    let without = with_key("access").replace("{target: east, source: west}", "");
    let [east, west] = moved();
    let said = short(&loaded(&without), [&east, &west]);
    let accounts = said.iter().filter(|line| line.contains("ServiceAccount"));
    assert_eq!(
        accounts.collect::<Vec<_>>(),
        [
            "east delete ServiceAccount access/west: not in the file",
            "east delete ServiceAccount linkerd-multicluster/west: not in the file",
        ]
    );
}

#[test]
fn account_moves_back_when_the_key_goes() {
    let [mut east, west] = moved();
    let accounts = &mut east.accounts;
    mem::swap(&mut accounts.accounts, &mut accounts.former.accounts);
    mem::swap(&mut accounts.tokens, &mut accounts.former.tokens);
    // The binding is for the account in the other namespace alone.
    accounts.bindings[0].subjects.as_mut().unwrap().pop();
    accounts.accounts.clear();
    accounts.tokens.clear();
    let said = short(&loaded(FILE), [&east, &west]);
    assert!(
        said[2].ends_with("for the accounts in both namespaces"),
        "{said:?}"
    );
    assert_eq!(said.len(), 5, "{said:?}");
}

/// Links of the namespace that the file had before are not read.
#[test]
fn fleet_with_such_accounts_does_not_move_its_links_either() {
    let [mut east, mut west] = moved();
    east.accounts.former = FormerAccounts::default();
    east.accounts.bindings[0].subjects.as_mut().unwrap().pop();
    west.elsewhere = mem::take(&mut west.links);
    west.credentials.clear();
    let moved = loaded(&format!("{}namespace: mc2\n", with_key("access")));
    assert_eq!(
        short(&moved, [&east, &west]),
        [
            "west: the Link linkerd-multicluster/east of this fleet links it to east already; to move the fleet, apply its file \
             with `links: []` there first"
        ]
    );
}
