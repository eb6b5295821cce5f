//! Reads kubeconfigs, and says what is wrong with one.
//!
//! Messages never quote a kubeconfig, nor arguments, environment and output of the plugins that it names: all of them
//! may hold secrets. Errors of kube quote them, so none of those may get into an error chain.

use std::{
    io,
    path::{Path, PathBuf},
};

use kube::{
    client::{AuthError, RustlsTlsError},
    config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError, LoadDataError},
};

use crate::hint::{HintExt as _, fail};

/// The kubeconfig at `path`; without a path those of `$KUBECONFIG`, merged, or `~/.kube/config`.
pub(super) fn read(path: Option<&Path>) -> anyhow::Result<Kubeconfig> {
    if let Some(path) = path {
        return read_file(path, "check the path in --kubeconfig");
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    match merged(std::env::split_paths(&listed))? {
        Some(kubeconfig) => Ok(kubeconfig),
        None if listed.is_empty() => {
            let home = std::env::home_dir().ok_or_else(|| fail("no home directory", SET))?;
            read_file(&home.join(".kube/config"), SET)
        }
        None => Err(fail(
            "no file that KUBECONFIG names exists",
            "check KUBECONFIG, or pass --kubeconfig",
        )),
    }
}

const SET: &str = "set KUBECONFIG, or pass --kubeconfig";

/// Whether `$KUBECONFIG` names a file.
pub(super) fn is_set() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|listed| !listed.is_empty())
}

/// The files that exist, merged as kubectl does: the first one that has a name or a value wins. `None` if none exists.
fn merged(paths: impl Iterator<Item = PathBuf>) -> anyhow::Result<Option<Kubeconfig>> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.filter(|path| path.exists()) {
        let next = read_file(&path, "check the files that KUBECONFIG names")?;
        merged = Some(match merged {
            Some(before) => before
                .merge(next)
                .map_err(|error| fail(unusable(&error), "check the files that KUBECONFIG names"))?,
            None => next,
        });
    }
    Ok(merged)
}

/// Fails if a context names a user that is not there. kube, as client-go, would send requests without credentials.
pub(super) fn require_user(kubeconfig: &Kubeconfig, context: &str) -> anyhow::Result<()> {
    let mut contexts = kubeconfig.contexts.iter();
    let named = contexts.find(|named| named.name == context);
    let user = named.and_then(|named| named.context.as_ref()?.user.as_ref());
    let Some(user) = user.filter(|user| !user.is_empty()) else {
        return Ok(());
    };
    if kubeconfig
        .auth_infos
        .iter()
        .any(|known| known.name == *user)
    {
        return Ok(());
    }
    Err(fail(
        format!("context {context:?} has the user {user:?}, who is not in the kubeconfig"),
        "log in to the cluster again, or correct the user of the context in the kubeconfig",
    ))
}

/// Fails if a kubeconfig runs a program or names a file in any of its entries.
pub(super) fn require_data(kubeconfig: &Kubeconfig, path: &Path) -> anyhow::Result<()> {
    let clusters = kubeconfig.clusters.iter();
    let clusters = clusters.filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter();
    let users = users.filter_map(|named| named.auth_info.as_ref());
    let files = clusters.filter_map(file_of_cluster);
    let Some(what) = files.chain(users.filter_map(program_or_file)).next() else {
        return Ok(());
    };
    Err(fail(
        format!(
            "the kubeconfig {} may not have {what}, because a fleet file names it",
            path.display()
        ),
        "whoever can change the fleet file would choose what is run or read on this machine; leave out its key kubeconfig, \
         and name the kubeconfig yourself with KUBECONFIG, which can list several",
    ))
}

/// A reference to a file in a cluster, if there is one. As for kubectl, an empty name means no file.
pub(super) fn file_of_cluster(cluster: &Cluster) -> Option<&'static str> {
    is_file(cluster.certificate_authority.as_ref()).then_some("a certificate-authority file")
}

/// A reference to a command or a file in a user, if there is one.
pub(super) fn program_or_file(user: &AuthInfo) -> Option<&'static str> {
    [
        (user.exec.is_some(), "an exec plugin"),
        (user.auth_provider.is_some(), "an auth provider"),
        (is_file(user.token_file.as_ref()), "a tokenFile"),
        (
            is_file(user.client_certificate.as_ref()),
            "a client-certificate file",
        ),
        (is_file(user.client_key.as_ref()), "a client-key file"),
    ]
    .into_iter()
    .find_map(|(is_there, what)| is_there.then_some(what))
}

fn is_file(name: Option<&String>) -> bool {
    name.is_some_and(|name| !name.is_empty())
}

fn read_file(path: &Path, hint: &str) -> anyhow::Result<Kubeconfig> {
    let mut kubeconfig = Kubeconfig::read_from(path)
        .map_err(|error| anyhow::Error::msg(unusable(&error)))
        .hint(
            || format!("cannot read the kubeconfig {}", path.display()),
            || hint.to_owned(),
        )?;
    // For kubectl, an empty name is none.
    kubeconfig.current_context = kubeconfig.current_context.filter(|name| !name.is_empty());
    Ok(kubeconfig)
}

/// What is wrong with a kubeconfig.
pub(super) fn unusable(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::Parse(error) => {
            format!("not a valid kubeconfig{}", position(error))
        }
        KubeconfigError::LoadCertificateAuthority(error) => data("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => data("client-key", error),
        KubeconfigError::ParseCertificates(_) => "certificate-authority: not PEM".to_owned(),
        // These name contexts and clusters, or nothing at all.
        KubeconfigError::CurrentContextNotSet
        | KubeconfigError::KindMismatch
        | KubeconfigError::ApiVersionMismatch
        | KubeconfigError::LoadContext(_)
        | KubeconfigError::LoadClusterOfContext(_)
        | KubeconfigError::MissingClusterUrl
        | KubeconfigError::ParseClusterUrl(_)
        | KubeconfigError::ParseProxyUrl(_) => error.to_string(),
        _ => "it cannot be used".to_owned(),
    }
}

/// Hint for all that is wrong with a user of a kubeconfig.
pub(super) const CHECK_USER: &str = "check the user of the context in the kubeconfig";

/// Why no client can be made for a kubeconfig's cluster and user.
pub(super) fn no_client(error: &kube::Error) -> anyhow::Error {
    let why = match error {
        kube::Error::Auth(error) => unauthenticated(error, None),
        kube::Error::InferKubeconfig(error) => unusable(error),
        kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)) => {
            "the certificate authority of the kubeconfig cannot be used".to_owned()
        }
        kube::Error::RustlsTls(RustlsTlsError::MissingPrivateKey) => {
            "the client-key of the kubeconfig has no private key".to_owned()
        }
        kube::Error::RustlsTls(_) => {
            "the client certificate or its key in the kubeconfig cannot be used".to_owned()
        }
        kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => {
            "the proxy-url of the kubeconfig has a protocol that is not supported".to_owned()
        }
        _ => "the kubeconfig cannot be used".to_owned(),
    };
    fail(why, CHECK_USER)
}

const PLUGIN: &str = "the exec plugin of the kubeconfig";

/// The exec plugin in messages. `command` is its command, if it may be named.
pub(super) fn executable(command: Option<&str>) -> String {
    command.map_or_else(
        || PLUGIN.to_owned(),
        |command| format!("executable {command}"),
    )
}

/// Why there are no credentials. `command` is that of the exec plugin, if it may be named.
pub(super) fn unauthenticated(error: &AuthError, command: Option<&str>) -> String {
    let executable = executable(command);
    match error {
        AuthError::AuthExecRun { out, .. } => match out.status.code() {
            Some(code) => format!("{executable} failed with exit code {code}"),
            None => format!("{executable} was killed by a signal"),
        },
        AuthError::AuthExecStart(error) if error.kind() == io::ErrorKind::NotFound => {
            let plugin = command.map_or_else(
                || PLUGIN.to_owned(),
                |command| format!("the credential plugin {command}"),
            );
            format!("{plugin} is not installed, or not on PATH")
        }
        AuthError::AuthExecStart(error) => match command {
            Some(command) => format!("cannot run the executable {command}: {error}"),
            None => format!("cannot run {PLUGIN}: {error}"),
        },
        AuthError::AuthExecParse(error) => {
            format!(
                "{executable} printed no valid ExecCredential{}",
                position(error)
            )
        }
        AuthError::ExecPluginFailed => format!("{executable} printed no valid ExecCredential"),
        AuthError::MissingCommand => format!("{PLUGIN} has no command"),
        AuthError::MalformedTokenExpirationDate(_) => {
            "an expiry of the kubeconfig is not a valid time".to_owned()
        }
        AuthError::ReadTokenFile(error, _) => {
            format!("cannot read the tokenFile of the kubeconfig: {error}")
        }
        AuthError::InvalidBasicAuth(_) => {
            "invalid characters in the user name or password of the kubeconfig".to_owned()
        }
        AuthError::InvalidBearerToken(_) => {
            "invalid characters in the token of the kubeconfig".to_owned()
        }
        AuthError::AuthExec(_) | AuthError::ParseTokenKey(_) => {
            "the auth-provider of the kubeconfig failed, or is not supported".to_owned()
        }
        _ => format!("no credentials from {PLUGIN}"),
    }
}

/// Where the text of a YAML error is. Its message may quote the text.
fn position(error: &serde_saphyr::Error) -> String {
    error.location().map_or_else(String::new, |at| {
        format!(": error at line {}, column {}", at.line(), at.column())
    })
}

fn data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("{field}-data: not base64"),
        LoadDataError::ReadFile(error, _) => format!("{field}: cannot read the file: {error}"),
        LoadDataError::NoBase64DataOrFile => format!("{field}: no data"),
    }
}

#[cfg(test)]
mod tests;
