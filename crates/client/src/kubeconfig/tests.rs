//! Kubeconfigs that hold secrets in every place, and plugins that print them.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::hint_of;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::*;
use crate::{Access, ResponseLimits, multiplexed, requests::explain};

const DEADLINE: Duration = Duration::from_secs(5);

/// A kubeconfig with these fields of the cluster and the user (YAML flow syntax).
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "current-context: east
contexts:
- {{name: east, context: {{cluster: east, user: me}}}}
clusters:
- {{name: east, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}
users:
- {{name: me, user: {{{user}}}}}
"
    )
}

fn access(folder: &Path, text: &str) -> Access {
    let path = folder.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    Access {
        kubeconfig: Some(path),
        ..Access::default()
    }
}

/// All that is said about a kubeconfig from which no client can be made, by both kinds of clients.
async fn complaints(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let access = access(folder.path(), text);
    let brief = access.client(DEADLINE).await.map(drop);
    let long = match access.config() {
        Ok(config) => multiplexed(config, ResponseLimits::of_pages())
            .await
            .map(drop),
        Err(error) => Err(error),
    };
    [brief, long]
        .into_iter()
        .filter_map(Result::err)
        .map(|error| {
            let path = folder.path().display().to_string();
            let hint = hint_of(&error).unwrap_or_default();
            format!("{error:#}; {hint}; {error:?}").replace(&path, "")
        })
        .collect()
}

#[tokio::test]
async fn yaml_errors_have_a_position_and_quote_nothing() {
    let user = |user: &str| kubeconfig("", user);
    for text in [
        "s3cret".into(),
        "clusters: [s3cret".into(),
        "users:\n- name: me\n  user:\n    token: s3cret\n   password: s3cret\n".into(),
        "users:\n- name: me\n  user:\n    token: \"s3cret\n".into(),
        "users:\n- name: me\n  user:\n    token: 's3cret' x\n".into(),
        "users:\n- name: me\n  user:\n\ttoken: s3cret\n".into(),
        "users:\n- name: me\n  user: s3cret\n".into(),
        "users: s3cret".into(),
        "*s3cret".into(),
        "a: *s3cret\ntoken: s3cret".into(),
        "a: !s3cret [\n".into(),
        user("token: [s3cret]"),
        user("token: {s3cret: 1}"),
        user("exec: s3cret"),
        user("exec: {args: s3cret}"),
        user("exec: {interactiveMode: s3cret}"),
        user("exec: {command: x, provideClusterInfo: s3cret}"),
        user("as-groups: s3cret"),
        kubeconfig("insecure-skip-tls-verify: s3cret", ""),
    ] {
        let found = complaints(&text).await;
        assert_eq!(found.len(), 2, "accepted: {text}");
        for complaint in found {
            assert!(!complaint.contains("s3cret"), "{complaint}");
            assert!(complaint.contains("at line "), "{complaint}");
        }
    }
}

#[tokio::test]
async fn plugins_and_values_are_never_quoted() {
    let exec = |script: &str| {
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, \
             args: [-c, '{script}', s3cret], env: [{{name: KEY, value: s3cret}}]}}"
        );
        kubeconfig("", &user)
    };
    let user = |user: &str| kubeconfig("", user);
    let status = |status: &str| {
        exec(&format!(
            "echo \"{{apiVersion: client.authentication.k8s.io/v1, status: {status}}}\""
        ))
    };
    let plugin = |fields: &str| {
        let version = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";
        user(&format!("exec: {{{version}, {fields}}}"))
    };
    for (text, expected) in [
        (
            exec("echo s3cret; echo s3cret >&2; exit 7"),
            "executable sh failed with exit code 7",
        ),
        (exec("echo s3cret; kill -9 $$"), "executable sh was killed"),
        (
            exec("echo s3cret"),
            "executable sh printed no valid ExecCredential",
        ),
        (
            exec("echo status: [s3cret"),
            "executable sh printed no valid ExecCredential",
        ),
        (
            exec("echo kind: s3cret"),
            "executable sh printed no valid ExecCredential",
        ),
        (
            status("{token: x, expirationTimestamp: s3cret}"),
            "executable sh printed no valid ExecCredential",
        ),
        (
            plugin("command: /s3cret/missing/plugin --token s3cret"),
            "the exec plugin of the kubeconfig is not installed, or not on PATH",
        ),
        (
            plugin("command: /missing/plugin, args: [s3cret]"),
            "the credential plugin /missing/plugin is not installed, or not on PATH",
        ),
        (plugin("args: [s3cret]"), "exec: there is no command"),
        (
            user("auth-provider: {name: s3cret, config: {}}"),
            "the auth-provider is not supported",
        ),
        (
            user("auth-provider: {name: gcp, config: {access-token: s3cret, cmd-path: s3cret}}"),
            "the auth-provider is not supported",
        ),
        (
            user("tokenFile: /missing/s3cret"),
            "tokenFile: cannot read the file: No such file",
        ),
        (
            user("token: \"s3cret\\n\""),
            "invalid characters in the token",
        ),
        (user("username: \"s3cret\\n\", password: \"s3cret\\n\""), ""),
        (
            user("client-certificate-data: '-s3cret-', client-key-data: '-s3cret-'"),
            "client-certificate-data: not base64",
        ),
        (
            user("client-certificate: /missing/s3cret, client-key: /missing/s3cret"),
            "client-certificate: cannot read the file: No such file",
        ),
        (
            user(
                "client-certificate-data: LS0tLS1CRUdJTiBzM2NyZXQ=, client-key-data: LS0tLS1CRUdJTiBzM2NyZXQ=",
            ),
            "client-certificate: not PEM",
        ),
        (
            kubeconfig(
                "certificate-authority-data: LS0tLS1CRUdJTiBzM2NyZXQtLS0tLQpzM2NyZXQ6IHMzY3JldAo=",
                "",
            ),
            "certificate-authority: not PEM",
        ),
        (
            kubeconfig("certificate-authority: /missing/s3cret", ""),
            "certificate-authority: cannot read the file: No such file",
        ),
        (
            kubeconfig("proxy-url: 'gopher://me:s3cret@proxy.example'", ""),
            "proxy-url",
        ),
        (
            kubeconfig("proxy-url: 'http://s3cret s3cret'", ""),
            "proxy-url",
        ),
    ] {
        for complaint in complaints(&text).await {
            assert!(!complaint.contains("s3cret"), "{complaint}");
            assert!(complaint.contains(expected), "{complaint}\n{text}");
        }
    }
}

#[tokio::test]
async fn authority_that_would_be_ignored_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pem = rcgen::generate_simple_self_signed(["east".to_owned()]).unwrap();
    let pem = pem.cert.pem();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, &pem).unwrap();
    let (data, file) = (BASE64_STANDARD.encode(pem), file.display().to_string());
    for (fields, refused) in [
        (
            format!("certificate-authority-data: {data}, insecure-skip-tls-verify: true"),
            true,
        ),
        (
            format!("certificate-authority: {file}, insecure-skip-tls-verify: true"),
            true,
        ),
        (
            format!("certificate-authority: {file}, insecure-skip-tls-verify: false"),
            false,
        ),
        (
            "certificate-authority: '', insecure-skip-tls-verify: true".to_owned(),
            false,
        ),
    ] {
        let found = complaints(&kubeconfig(&fields, "token: x")).await;
        let said = "cannot use cluster \"east\" of the kubeconfig /kubeconfig: there are a certificate-authority, which";
        let all_say = found.iter().all(|complaint| complaint.starts_with(said));
        assert_eq!(
            (found.len(), all_say),
            (if refused { 2 } else { 0 }, true),
            "{found:?}"
        );
    }
}

/// A plugin that fails when it is asked for the next token.
#[tokio::test]
async fn plugins_are_not_quoted_in_the_errors_of_requests() {
    let folder = tempfile::tempdir().unwrap();
    let expired = folder.path().join("expired");
    let script = format!(
        "test -e {} && echo s3cret && exit 7; \
         echo \"{{apiVersion: client.authentication.k8s.io/v1, status: {{token: x, expirationTimestamp: 2001-01-01T00:00:00Z}}}}\"",
        expired.display()
    );
    let user = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, args: [-c, '{script}'], env: [{{name: KEY, value: s3cret}}]}}"
    );
    let access = access(folder.path(), &kubeconfig("", &user));
    let config = access.config().unwrap();
    let clients = [
        access.client(DEADLINE).await.unwrap(),
        multiplexed(config, ResponseLimits::of_pages())
            .await
            .unwrap(),
    ];
    std::fs::write(&expired, "").unwrap();
    for client in clients {
        let error = Api::<Namespace>::all(client).get("x").await.unwrap_err();
        assert_eq!(explain(&error), "executable sh failed with exit code 7");
    }
}

#[test]
fn files_are_merged_as_kubectl_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let none = folder.path().join("missing");
    let a = file("a", "current-context: ''\ncontexts: [{name: a}]");
    let b = file("b", "current-context: b\ncontexts: [{name: b}]");
    let empty = file("empty", "");
    for (paths, expected) in [
        (vec![&none], None),
        (vec![], None),
        (vec![&none, &b], Some((Some("b"), vec!["b"]))),
        (vec![&a, &none, &b], Some((Some("b"), vec!["a", "b"]))),
        (vec![&empty, &b], Some((Some("b"), vec!["b"]))),
        (vec![&a], Some((None, vec!["a"]))),
    ] {
        let found = merged(paths.into_iter().cloned(), "").unwrap();
        let found = found.as_ref().map(|kubeconfig| {
            let names = kubeconfig.contexts.iter().map(|c| c.name.as_str());
            (kubeconfig.current_context.as_deref(), names.collect())
        });
        assert_eq!(found, expected);
    }
    let broken = file("broken", "users: s3cret");
    assert!(merged([broken].into_iter(), "").is_err());
}
