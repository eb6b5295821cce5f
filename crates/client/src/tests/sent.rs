//! What a kubeconfig and flags say about the user, and what of it arrives at an API server.

use std::{path::Path, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::access;
use crate::{Access, ResponseLimits, from_credentials, multiplexed};

const DEADLINE: Duration = Duration::from_secs(10);

/// Answers one request. Returns its headers that say who sends it, in order.
async fn one_request(listener: TcpListener) -> Vec<String> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        assert_ne!(count, 0, "{request}");
        request.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    let answer = "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer.as_bytes()).await.unwrap();
    let headers = request.lines().map(str::to_owned);
    let mut who: Vec<_> = headers
        .filter(|line| line.starts_with("authorization:") || line.starts_with("impersonate-"))
        .collect();
    who.sort();
    who
}

/// What arrives when this client lists Namespaces.
async fn sent_by(client: kube::Client, listener: TcpListener) -> Vec<String> {
    let all = ListParams::default();
    let namespaces = Api::<Namespace>::all(client);
    let (headers, _) = futures::join!(one_request(listener), namespaces.list(&all));
    headers
}

/// What both kinds of clients send over plain HTTP for these fields of the user, or why they send nothing.
async fn sent(folder: &Path, user: &str, flags: &Access) -> Result<Vec<String>, String> {
    let mut both = Vec::new();
    for long in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let access = Access {
            kubeconfig: access(folder, &server, user).kubeconfig,
            ..flags.clone()
        };
        let config = access
            .config()
            .map_err(|error| error.root_cause().to_string())?;
        let client = if long {
            multiplexed(config, ResponseLimits::of_pages()).await
        } else {
            crate::build(config, DEADLINE).await
        };
        let client = client.map_err(|error| error.to_string())?;
        both.push(sent_by(client, listener).await);
    }
    assert_eq!(both[0], both[1], "{user}");
    Ok(both.remove(0))
}

fn flags(user: Option<&str>, groups: &[&str]) -> Access {
    Access {
        as_user: user.map(str::to_owned),
        as_groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..Access::default()
    }
}

const WHOLE: &str =
    "as: sudo, as-uid: '42', as-groups: [ops, sre], as-user-extra: {Reason: [ticket-7]}";

#[tokio::test]
async fn user_of_the_kubeconfig_is_impersonated_unless_a_flag_names_another() {
    let folder = tempfile::tempdir().unwrap();
    let of_file = [
        "impersonate-extra-reason: ticket-7",
        "impersonate-group: ops",
        "impersonate-group: sre",
        "impersonate-uid: 42",
        "impersonate-user: sudo",
    ];
    for (user, flags, expected) in [
        (WHOLE, flags(None, &[]), &of_file[..]),
        ("as: sudo", flags(None, &[]), &["impersonate-user: sudo"]),
        ("", flags(None, &[]), &[]),
        ("as: '', as-groups: [], as-uid: ''", flags(None, &[]), &[]),
        // An empty flag is none, as for kubectl.
        (WHOLE, flags(Some(""), &[]), &of_file),
        // Another user has other groups, and another UID.
        (WHOLE, flags(Some("me"), &[]), &["impersonate-user: me"]),
        (
            WHOLE,
            flags(Some("me"), &["a", "b"]),
            &[
                "impersonate-group: a",
                "impersonate-group: b",
                "impersonate-user: me",
            ],
        ),
        (
            WHOLE,
            flags(None, &["a"]),
            &[
                "impersonate-extra-reason: ticket-7",
                "impersonate-group: a",
                "impersonate-uid: 42",
                "impersonate-user: sudo",
            ],
        ),
    ] {
        let found = sent(folder.path(), user, &flags).await;
        let expected = expected.iter().map(|&line| line.to_owned()).collect();
        assert_eq!(found, Ok(expected), "{user} {flags:?}");
    }
}

#[tokio::test]
async fn nobody_is_impersonated_in_part() {
    let folder = tempfile::tempdir().unwrap();
    for (user, flags, expected) in [
        ("", flags(None, &["a"]), "--as-group needs a user"),
        ("", flags(Some(""), &["a"]), "--as-group needs a user"),
        (
            "as-groups: [a]",
            flags(None, &[]),
            "there is as-groups without as",
        ),
        (
            "as-uid: '42'",
            flags(None, &[]),
            "there is as-uid without as",
        ),
        (
            "as: '', as-user-extra: {reason: [x]}",
            flags(None, &[]),
            "there is as-user-extra without as",
        ),
    ] {
        let found = sent(folder.path(), user, &flags).await;
        assert_eq!(found, Err(expected.to_owned()), "{user} {flags:?}");
    }
}

#[tokio::test]
async fn no_credentials_are_sent_without_tls_and_no_plugin_runs() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: ['{}']}}",
        ran.display()
    );
    for user in [
        "token: s3cret",
        "tokenFile: /missing",
        "username: me, password: s3cret",
        "client-certificate-data: eA==, client-key-data: eA==",
        "auth-provider: {name: oidc, config: {id-token: s3cret}}",
        "auth-provider: {name: gcp, config: {cmd-path: /missing}}",
        exec.as_str(),
    ] {
        let user = format!("{user}, as: viewer");
        let found = sent(folder.path(), &user, &Access::default()).await;
        assert_eq!(
            found,
            Ok(vec!["impersonate-user: viewer".to_owned()]),
            "{user}"
        );
    }
    assert!(!ran.exists());
}

#[tokio::test]
async fn token_of_a_link_is_not_sent_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let path = access(folder.path(), &server, "token: s3cret")
        .kubeconfig
        .unwrap();
    let kubeconfig = std::fs::read(path).unwrap();
    let client = from_credentials(&kubeconfig, DEADLINE).await.unwrap();
    assert_eq!(sent_by(client, listener).await, Vec::<String>::new());
}
