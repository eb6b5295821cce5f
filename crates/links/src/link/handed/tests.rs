//! What a file with a link may have, and what not.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::hint_of;
use serde_json::{Value, json};

use crate::link::handed::*;

const IN: HandedNamespaces<'static> = HandedNamespaces {
    links: "mc",
    linkerd: "linkerd",
};

fn kubeconfig_of(edit: impl Fn(&mut Value)) -> String {
    let mut kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "east",
        "clusters": [{ "name": "east", "cluster": {
            "server": "https://192.0.2.1:6443", "certificate-authority-data": "Y2E=",
        } }],
        "contexts": [{ "name": "east", "context": { "cluster": "east", "user": "west" } }],
        "users": [{ "name": "west", "user": { "token": "s3cret" } }],
    });
    edit(&mut kubeconfig);
    BASE64_STANDARD.encode(kubeconfig.to_string())
}

fn secret(namespace: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "mirror.linkerd.io/remote-kubeconfig",
        "metadata": {
            "name": "cluster-credentials-east", "namespace": namespace,
            "labels": { "multicluster.linkerd.io/cluster-name": "east" },
        },
        "data": { "kubeconfig": kubeconfig },
    })
}

/// The two Secrets and the Link of a good file.
fn objects() -> Vec<Value> {
    let good = kubeconfig_of(|_| ());
    let link = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link",
        "metadata": {
            "name": "east", "namespace": "mc",
            "annotations": { "multicluster.linkerd.io/federation": "any", "linkerd.io/created-by": "x" },
        },
        "spec": {
            "targetClusterName": "east", "clusterCredentialsSecret": "cluster-credentials-east",
            "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
        },
    });
    vec![secret("mc", &good), secret("linkerd", &good), link]
}

fn read(objects: &[Value]) -> anyhow::Result<HandedLink> {
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    HandedLink::read("east.yaml", &text.join("\n---\n"), &IN)
}

#[test]
fn link_and_its_secrets_are_taken_and_so_are_secrets_alone() {
    let all = objects();
    let whole = read(&all).unwrap();
    assert_eq!(whole.name.to_string(), "east");
    assert_eq!(whole.target.server, "https://192.0.2.1:6443");
    assert!(whole.link.is_some() && whole.control_plane_credentials.is_some());
    let secrets = read(&all[..2]).unwrap();
    assert!(secrets.link.is_none() && secrets.control_plane_credentials.is_some());
    let alone = read(&[all[2].clone(), all[0].clone(), Value::Null]).unwrap();
    assert!(alone.link.is_some() && alone.control_plane_credentials.is_none());
}

#[test]
fn everything_else_is_refused_in_one_sentence_that_quotes_no_credentials() {
    type Edit = fn(&mut Vec<Value>);
    let cases: [(Edit, &str); 29] = [
        (
            Vec::clear,
            "it has no Secret with credentials for the controller",
        ),
        (
            |all| drop(all.drain(..2)),
            "it has no Secret with credentials for the controller",
        ),
        (
            |all| {
                all.push(json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "x" } }));
            },
            "it has the \"ClusterRoleBinding\" \"x\", and a link has only Secrets and a Link",
        ),
        (
            |all| all.push(json!({ "apiVersion": "v1", "kind": "List", "items": [] })),
            "it has the \"List\" \"\", and",
        ),
        (|all| all.push(json!("s3cret")), "it has the \"\" \"\", and"),
        (
            |all| all[2]["apiVersion"] = json!("multicluster.linkerd.io/v1alpha1"),
            "it has the \"Link\" \"east\", and",
        ),
        (
            |all| all.push(all[2].clone()),
            "the Link \"east\" is the second of its kind",
        ),
        (
            |all| all.push(all[1].clone()),
            "the Secret \"cluster-credentials-east\" is the second of its kind",
        ),
        (
            |all| all.push(secret("kube-system", "")),
            "the Secret \"cluster-credentials-east\" is in the namespace \"kube-system\", and a link's objects are in mc and linkerd",
        ),
        (
            |all| all[2]["metadata"]["namespace"] = json!("linkerd"),
            "the Link \"east\" is in the namespace \"linkerd\", and",
        ),
        (
            |all| all[2]["status"] = json!({}),
            "the Link \"east\" has \"status\", which a link's never has",
        ),
        (
            |all| all[2]["metadata"]["finalizers"] = json!(["x"]),
            "the Link \"east\" has \"finalizers\", which",
        ),
        (
            |all| all[0]["metadata"]["ownerReferences"] = json!([]),
            "the Secret \"cluster-credentials-east\" has \"ownerReferences\", which",
        ),
        (
            |all| all[0]["metadata"]["annotations"] = json!({ "replicator.example/to": "all" }),
            "the Secret \"cluster-credentials-east\" has \"replicator.example/to\" in its annotations",
        ),
        (
            |all| all[2]["metadata"]["labels"] = json!({ "notlinkerd.io/x": "" }),
            "the Link \"east\" has \"notlinkerd.io/x\" in its labels",
        ),
        (
            |all| all[2]["metadata"]["name"] = json!("north"),
            "its Link has the name \"north\", and not east",
        ),
        (
            |all| all[2]["spec"]["targetClusterName"] = json!("north"),
            "its Link has the cluster \"north\", and not east",
        ),
        (
            |all| all[2]["spec"]["clusterCredentialsSecret"] = json!("other"),
            "its Link has the Secret \"other\", and not cluster-credentials-east",
        ),
        (
            |all| all[2]["spec"]["gatewayPort"] = json!([]),
            "the Link \"east\" cannot be decoded",
        ),
        (
            |all| all[0]["metadata"]["name"] = json!("token"),
            "\"token\" is not the name of a link's Secret",
        ),
        (
            |all| all[1]["metadata"]["name"] = json!("cluster-credentials-north"),
            "the Secret \"cluster-credentials-north\" in linkerd is not called cluster-credentials-east",
        ),
        (
            |all| all[1]["type"] = json!("Opaque"),
            "the Secret \"cluster-credentials-east\" in linkerd is not of the type mirror.linkerd.io/remote-kubeconfig",
        ),
        (
            |all| {
                all[1]["metadata"]["labels"]["multicluster.linkerd.io/cluster-name"] =
                    json!("north");
            },
            "the Secret \"cluster-credentials-east\" in linkerd has the label of another cluster",
        ),
        (
            |all| all[0]["stringData"] = json!({ "kubeconfig": "s3cret" }),
            "the Secret \"cluster-credentials-east\" has \"stringData\", which",
        ),
        (
            |all| all[0]["data"]["more"] = json!(""),
            "the Secret \"cluster-credentials-east\" in mc has other data than a kubeconfig",
        ),
        (
            |all| all[0]["data"] = json!({}),
            "the Secret \"cluster-credentials-east\" in mc has other data than a kubeconfig",
        ),
        (
            |all| all[0]["data"]["kubeconfig"] = json!(BASE64_STANDARD.encode("{s3cret")),
            "the kubeconfig of the Secret \"cluster-credentials-east\" in mc is not valid YAML",
        ),
        (
            |all| all[0]["data"]["kubeconfig"] = json!(BASE64_STANDARD.encode("s3cret")),
            "the kubeconfig of the Secret \"cluster-credentials-east\" in mc is not complete",
        ),
        (
            |all| all[0]["metadata"]["name"] = json!("\u{1b}[2K"),
            "\"\\u{1b}[2K\" is not the name of a link's Secret",
        ),
    ];
    for (edit, expected) in cases {
        let mut all = objects();
        edit(&mut all);
        refused(&all, expected);
    }
}

/// What a kubeconfig must not have, in either of the Secrets: the controller would refuse it too, and Linkerd would not.
#[test]
fn kubeconfigs_neither_run_programs_nor_read_files() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 17] = [
        (
            |k| k["users"][0]["user"]["exec"] = json!({ "command": "sh" }),
            ", in users, has \"exec\", which a link's never has",
        ),
        (
            |k| k["users"][0]["user"]["auth-provider"] = json!({ "name": "gcp" }),
            ", in users, has \"auth-provider\", which",
        ),
        (
            |k| k["users"][0]["user"]["tokenFile"] = json!("/var/run/token"),
            ", in users, has \"tokenFile\", which",
        ),
        (
            |k| k["users"][0]["user"]["client-certificate"] = json!("/x"),
            ", in users, has \"client-certificate\", which",
        ),
        (
            |k| k["users"][0]["user"]["client-key"] = json!("/x"),
            ", in users, has \"client-key\", which",
        ),
        (
            |k| k["users"][0]["user"]["client-key-data"] = json!("eA=="),
            ", in users, has \"client-key-data\", which",
        ),
        (
            |k| k["users"][0]["user"]["as"] = json!("admin"),
            ", in users, has \"as\", which",
        ),
        (
            |k| k["users"][0]["user"]["username"] = json!("x"),
            ", in users, has \"username\", which",
        ),
        (
            |k| k["clusters"][0]["cluster"]["certificate-authority"] = json!("/x"),
            ", in clusters, has \"certificate-authority\", which",
        ),
        (
            |k| k["clusters"][0]["cluster"]["extensions"] = json!([]),
            ", in clusters, has \"extensions\", which",
        ),
        (
            |k| k["clusters"][0]["cluster"]["server"] = json!({}),
            " has something else than text in clusters",
        ),
        (
            |k| k["extensions"] = json!([]),
            " has \"extensions\", which",
        ),
        (
            |k| {
                k["users"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({ "name": "x", "user": { "exec": {} } }));
            },
            " does not have exactly one of its users",
        ),
        (
            |k| k["clusters"] = json!([]),
            " does not have exactly one of its clusters",
        ),
        (
            |k| k["current-context"] = json!("other"),
            " does not use its cluster with its token",
        ),
        (
            |k| k["contexts"][0]["context"]["user"] = json!("other"),
            " does not use its cluster with its token",
        ),
        (
            |k| k["users"][0]["user"] = json!({}),
            " does not use its cluster with its token",
        ),
    ];
    for (edit, expected) in cases {
        for (at, namespace) in ["mc", "linkerd"].into_iter().enumerate() {
            let mut all = objects();
            all[at]["data"]["kubeconfig"] = json!(kubeconfig_of(edit));
            let place = "the kubeconfig of the Secret \"cluster-credentials-east\" in";
            refused(&all, &format!("{place} {namespace}{expected}"));
        }
    }
    let more = |k: &mut Value| {
        k["preferences"] = json!({});
        k["contexts"][0]["context"]["namespace"] = json!("x");
        k["clusters"][0]["cluster"]["proxy-url"] = json!("http://192.0.2.9:3128");
        k["clusters"][0]["cluster"]["tls-server-name"] = json!("east");
        k["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    };
    let mut all = objects();
    all[0]["data"]["kubeconfig"] = json!(kubeconfig_of(more));
    assert!(read(&all).is_ok());
}

fn refused(objects: &[Value], expected: &str) {
    let Err(error) = read(objects) else {
        panic!("taken: {expected}");
    };
    let said = format!("{error:#} {}", hint_of(&error).unwrap_or_default());
    let start = format!("refused east.yaml: {expected}");
    assert!(said.starts_with(&start), "{said}\nexpected: {start}");
    assert!(said.contains("; nothing was applied"), "{said}");
    assert!(
        !said.contains("s3cret") && !said.contains('\u{1b}'),
        "{said}"
    );
}
