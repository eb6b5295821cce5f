//! What a file for `plan` may have.

use super::*;

const LINK: &str = r"
apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {name: east, namespace: linkerd-multicluster}
spec: {targetClusterName: east, clusterCredentialsSecret: cluster-credentials-east}
---
";

/// A Secret whose kubeconfig has this user.
fn secret(user: &Value) -> String {
    let kubeconfig = json!({
        "clusters": [{ "name": "east", "cluster": { "server": "https://192.0.2.1:6443" } }],
        "contexts": [{ "name": "east", "context": { "cluster": "east", "user": "east" } }],
        "users": [{ "name": "east", "user": user }],
        "current-context": "east",
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "mirror.linkerd.io/remote-kubeconfig",
        "metadata": { "name": "cluster-credentials-east", "namespace": "linkerd-multicluster" },
        "stringData": {}, "data": {
            "kubeconfig": k8s_openapi::ByteString(kubeconfig.to_string().into_bytes()),
        },
    });
    format!("{secret}\n---\n")
}

#[test]
fn file_has_a_link_and_its_credentials_and_nothing_else() {
    let token = secret(&json!({ "token": "hidden" }));
    let found = proposed(&format!("{LINK}{token}{token}")).unwrap();
    assert_eq!(found.link.name_any(), "east");
    assert_eq!(found.credentials.len(), 1);
    let role = "{kind: ClusterRoleBinding, metadata: {name: admin}}";
    let program = json!({ "exec": { "command": "hidden", "apiVersion": "v1" } });
    for (text, why) in [
        (
            format!("{LINK}{role}"),
            r#"it has the "ClusterRoleBinding" "admin""#,
        ),
        (format!("{LINK}{LINK}"), "the Link east is the second one"),
        (
            format!("kind: List\nitems: [{role}]"),
            r#"it has the "ClusterRoleBinding" "admin""#,
        ),
        (
            format!("{LINK}{}", secret(&program)),
            r#"the kubeconfig of the Secret "cluster-credentials-east" in linkerd-multicluster, in users, has "exec", which a link's never has"#,
        ),
        (token, "no Link found"),
        ("{".to_owned(), "invalid YAML"),
    ] {
        let Err(said) = proposed(&text) else {
            panic!("{why}");
        };
        assert_eq!(said, why);
        assert!(!said.contains("hidden"));
    }
}
