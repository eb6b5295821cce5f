//! Which objects are those of a link.

use serde_json::{Value, json};

use super::*;
use crate::test_server::TestServer;

fn link(namespace: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": cluster, "namespace": namespace },
        "spec": {
            "targetClusterName": cluster,
            "clusterCredentialsSecret": format!("cluster-credentials-{cluster}"),
        },
    })
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": { labels::CLUSTER_NAME: "east", labels::MIRRORED_SERVICE: "true" },
        },
    })
}

/// What `unlink` of east in the namespace `mc` finds.
async fn found(objects: Vec<Value>, only: Option<&str>) -> LinkedObjects {
    let cluster = TestServer::new(objects).cluster();
    let name = "east".parse().unwrap();
    Box::pin(LinkedObjects::gather(
        &cluster, &name, only, "mc", "linkerd",
    ))
    .await
    .unwrap()
}

fn names(found: LinkedObjects) -> Vec<String> {
    let all = found.all();
    all.map(|object| format!("{} {}", object.kind, object.name))
        .collect()
}

fn with_secret(name: &str, cluster: &str, secret: &str) -> Value {
    let mut link = link("mc", cluster);
    link["metadata"]["name"] = name.into();
    link["spec"]["clusterCredentialsSecret"] = secret.into();
    link
}

/// The Secrets that go with the Link `only`, or with all of east, if these Links are there.
async fn secrets_of(links: impl IntoIterator<Item = Value>, only: Option<&str>) -> Vec<String> {
    let mut objects: Vec<Value> = ["own", "other", "cluster-credentials-east"]
        .map(|name| object("v1", "Secret", "mc", name))
        .into();
    objects.extend(links);
    let found = Box::pin(found(objects, only)).await;
    let secrets = found.own_secrets.into_iter().chain(found.secrets);
    secrets.map(|secret| secret.object.name).collect()
}

#[tokio::test]
async fn secret_that_only_the_link_names_is_deleted_before_it() {
    let objects = vec![
        object("v1", "Secret", "mc", "own"),
        object("v1", "Secret", "mc", "cluster-credentials-east"),
        with_secret("a", "east", "own"),
    ];
    let all = names(Box::pin(found(objects.clone(), None)).await);
    let last = "Secret cluster-credentials-east";
    assert_eq!(all, ["Secret own", "Link a", last]);

    // Neither is found again without this one of two Links.
    for (secret, expected) in [("own", "Secret own"), ("cluster-credentials-east", last)] {
        let mut objects = objects.clone();
        objects[2] = with_secret("a", "east", secret);
        objects.push(with_secret("b", "east", "other"));
        let one = names(Box::pin(found(objects, Some("a"))).await);
        assert_eq!(one, [expected, "Link a"]);
    }
}

#[tokio::test]
async fn secret_stays_if_another_link_of_the_namespace_has_it() {
    let usual = "cluster-credentials-east";
    for (links, only, expected) in [
        // Of two Links to the cluster, one stays.
        (
            [("a", "east", "own"), ("b", "east", "other")],
            Some("a"),
            &["own"][..],
        ),
        ([("a", "east", "own"), ("b", "east", "own")], Some("a"), &[]),
        ([("a", "east", ""), ("b", "east", "other")], Some("a"), &[]),
        // A Link to another cluster may name any Secret.
        (
            [("a", "east", "own"), ("b", "north", "other")],
            None,
            &["own", usual],
        ),
        ([("a", "east", usual), ("b", "north", usual)], None, &[]),
        (
            [("a", "east", "own"), ("b", "north", usual)],
            None,
            &["own"],
        ),
    ] {
        let made = links.map(|(name, cluster, secret)| with_secret(name, cluster, secret));
        assert_eq!(secrets_of(made, only).await, expected, "{links:?}");
    }
}

#[tokio::test]
async fn secret_that_a_new_link_needs_stays() {
    let (usual, linkerds) = ("cluster-credentials-east", "any");
    let mut of_linkerd = object("v1", "Secret", "linkerd", linkerds);
    of_linkerd["metadata"]["labels"] = json!({ labels::CREDENTIALS_CLUSTER: "east" });
    let secrets = [object("v1", "Secret", "mc", usual), of_linkerd];
    for (made, expected) in [
        (None, Some(&[usual, linkerds][..])),
        (Some(with_secret("b", "north", usual)), Some(&[linkerds])),
        (Some(link("other", "east")), Some(&[usual])),
        (Some(link("mc", "east")), None),
    ] {
        let server = TestServer::new(secrets.to_vec());
        let (cluster, name) = (server.cluster(), "east".parse().unwrap());
        let gather = LinkedObjects::gather(&cluster, &name, None, "mc", "linkerd");
        let mut linked = Box::pin(gather).await.unwrap();
        server.replace(secrets.iter().cloned().chain(made).collect());
        let kept = linked.keep_used(&cluster, &name, "mc", "linkerd");
        let kept = Box::pin(kept).await.ok();
        let deleted = kept.map(|()| {
            linked
                .secrets
                .iter()
                .map(ListedObject::name)
                .collect::<Vec<_>>()
        });
        assert_eq!(deleted.as_deref(), expected);
    }
}

#[tokio::test]
async fn secret_of_a_link_that_cannot_be_decoded_is_its_own() {
    let undecodable = |name: &str, cluster: &str, secret: &str| {
        let mut link = with_secret(name, cluster, secret);
        link["spec"]["selector"] = json!({ "matchLabels": { "exported": true } });
        link
    };
    for (links, expected) in [
        (
            vec![undecodable("a", "east", "own")],
            &["own", "cluster-credentials-east"][..],
        ),
        // The other Link has it too.
        (
            vec![
                link("mc", "east"),
                undecodable("b", "north", "cluster-credentials-east"),
            ],
            &[],
        ),
    ] {
        assert_eq!(secrets_of(links, None).await, expected);
    }
}

#[tokio::test]
async fn objects_that_name_no_namespace_stay_with_a_link_of_another_one() {
    let installed = |namespace: &str, name: &str| {
        let mut mirror = object("v1", "Service", "shop", name);
        mirror["metadata"]["annotations"] = json!({ labels::INSTALLATION: namespace });
        mirror
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut objects = vec![
        link("other", "east"),
        object("v1", "Service", "shop", "web-east"),
        object(rbac, "ClusterRole", "", "access-east"),
        object(rbac, "ClusterRoleBinding", "", "access-east"),
    ];
    // The Link of the other namespace has all of this.
    let linked = Box::pin(found(objects.clone(), None)).await;
    assert_eq!(linked.elsewhere, ["other/east"]);
    assert!(linked.is_empty(), "{linked:?}");

    // What is left of a Link that was here.
    objects.push(installed("mc", "ours-east"));
    objects.push(installed("other", "theirs-east"));
    objects.push(object(rbac, "Role", "mc", "reads-east"));
    objects.push(object("v1", "Secret", "mc", "cluster-credentials-east"));
    assert_eq!(
        names(Box::pin(found(objects.clone(), None)).await),
        [
            "Role reads-east",
            "Service ours-east",
            "Secret cluster-credentials-east",
        ]
    );

    // Nobody else has them: the only Link is here, or was here.
    let all = [
        "ClusterRole access-east",
        "ClusterRoleBinding access-east",
        "Role reads-east",
        "Service web-east",
        "Service ours-east",
        "Secret cluster-credentials-east",
    ];
    objects.remove(0);
    assert_eq!(names(Box::pin(found(objects.clone(), None)).await), all);
    objects.push(link("mc", "east"));
    let with_link = [&["Link east"][..], &all].concat();
    assert_eq!(names(Box::pin(found(objects, None)).await), with_link);
}
