//! The kubeconfig of a credentials Secret, whole or broken.

use std::{cell::LazyCell, time::Duration};

use linkerd_mc::{
    client::{
        CredentialsError, ResponseLimits, credentials_expiry, credentials_identity,
        from_credentials, watcher_from_credentials,
    },
    manifests::yaml,
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::draw::{Draw, is_one_line, put};

/// A good one. All in it that could be a secret has [`MARKER`] in it.
const GOOD: &str = include_str!("../kubeconfig.yaml");
const MARKER: &str = "s3cret";

/// Fields that run a command or read a file. An empty name means no file.
const FORBIDDEN: [&str; 6] = [
    "/clusters/1/cluster/certificate-authority",
    "/users/1/user/exec",
    "/users/1/user/auth-provider",
    "/users/1/user/tokenFile",
    "/users/1/user/client-certificate",
    "/users/1/user/client-key",
];
/// All other fields that lead somewhere.
const FIELDS: [&str; 24] = [
    "/clusters/1/cluster/server",
    "/clusters/1/cluster/certificate-authority-data",
    "/clusters/1/cluster/proxy-url",
    "/clusters/1/cluster/tls-server-name",
    "/clusters/1/cluster/insecure-skip-tls-verify",
    "/clusters/1/cluster/disable-compression",
    "/clusters/1/cluster/extensions",
    "/clusters/1/cluster/s3cret",
    "/users/1/user/token",
    "/users/1/user/username",
    "/users/1/user/password",
    "/users/1/user/client-certificate-data",
    "/users/1/user/client-key-data",
    "/users/1/user/as",
    "/users/1/user/as-uid",
    "/users/1/user/as-groups",
    "/users/1/user/as-user-extra",
    "/users/1/user/extensions",
    "/users/1/user/s3cret",
    "/contexts/1/context",
    "/contexts/1/context/namespace",
    "/current-context",
    "/preferences",
    "/users",
];
const WORDS: [&str; 18] = [
    MARKER,
    "",
    "https://",
    "http://",
    "socks5://",
    "ftp://",
    "192.0.2.1",
    ":6443",
    "s3cret@",
    "/s3cret",
    "?s3cret",
    "[::1]",
    "*",
    "czNjcmV0",
    "e30.eyJleHAiOjF9.e30",
    "\n",
    "é",
    "east",
];

/// Never panics, tells nothing of what it read, and takes no kubeconfig that reaches out of itself.
pub fn kubeconfig(data: &[u8]) {
    let mut draw = Draw(data);
    if draw.flip() {
        let _ = judged(draw.0);
        return;
    }
    let mut tree: Value = yaml::from_yaml(GOOD).unwrap();
    for _ in 0..draw.below(4) {
        let fields = if draw.below(4) == 0 {
            &FORBIDDEN[..]
        } else {
            &FIELDS
        };
        let field = *draw.pick(fields);
        let value = draw.json(&WORDS, 3);
        put(&mut tree, field, value);
    }
    let reaches_out = FORBIDDEN
        .iter()
        .filter_map(|field| tree.pointer(field))
        .any(|value| !value.is_null() && *value != "");
    let address = tree
        .pointer("/clusters/1/cluster/server")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let text = if draw.flip() {
        tree.to_string()
    } else {
        yaml::to_yaml(&tree).unwrap()
    };
    if draw.flip() {
        let _ = judged(&draw.garble(&text));
    } else if judged(text.as_bytes()).is_ok() {
        assert!(!reaches_out, "taken: {text}");
        assert!(
            address.starts_with("https://") || address.starts_with("http://"),
            "taken: {text}"
        );
    }
}

fn judged(bytes: &[u8]) -> Result<(), CredentialsError> {
    thread_local! {
        static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| {
            Builder::new_current_thread().enable_all().build().unwrap()
        });
    }
    let _ = credentials_expiry(bytes);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let once = from_credentials(bytes, Duration::from_secs(1))
                .await
                .map(drop);
            let watcher = watcher_from_credentials(bytes, None, ResponseLimits::of_pages())
                .await
                .map(drop);
            assert_eq!(once, watcher, "one client takes what the other does not");
            let identity = credentials_identity(bytes);
            tokio::task::yield_now().await; // the clients' tasks end
            match (&once, identity) {
                (Ok(()), Ok(identity)) => assert!(!identity.server.starts_with(':')),
                (Ok(()), Err(error)) => panic!("a client of no cluster: {error}"),
                (Err(error), _) => {
                    is_one_line(&error.to_string());
                    assert!(!format!("{error} {error:?}").contains(MARKER));
                }
            }
            once
        })
    })
}
