//! Reads kubeconfigs, and says what is wrong with one.
//!
//! Messages never quote a kubeconfig, nor arguments, environment and output of the plugins that it names: all of them
//! may hold secrets. Errors of kube quote them, so none of those may get into an error chain.

use std::{
    io,
    path::{Path, PathBuf},
};

use hints::hint::{HintExt as _, fail};
use kube::{
    client::{AuthError, RustlsTlsError},
    config::{AuthInfo, Cluster, Kubeconfig},
};

use super::kubeconfig_text::{parse, resolve_paths};

/// An entry of a kubeconfig, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeconfigEntry {
    Context(String),
    Cluster(String),
    User(String),
}

impl KubeconfigEntry {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Context(_) => "context",
            Self::Cluster(_) => "cluster",
            Self::User(_) => "user",
        }
    }

    fn name(&self) -> &str {
        let (Self::Context(name) | Self::Cluster(name) | Self::User(name)) = self;
        name
    }

    fn is_in(&self, kubeconfig: &Kubeconfig) -> bool {
        match self {
            Self::Context(name) => kubeconfig.contexts.iter().any(|named| named.name == *name),
            Self::Cluster(name) => kubeconfig.clusters.iter().any(|named| named.name == *name),
            Self::User(name) => kubeconfig
                .auth_infos
                .iter()
                .any(|named| named.name == *name),
        }
    }

    /// The entry and its file in messages. `path` is that of [`read`].
    pub fn named(&self, path: Option<&Path>) -> String {
        let of = |file: &PathBuf| read_file(file, "").is_ok_and(|found| self.is_in(&found));
        let file = files(path).into_iter().find(of);
        let file = file.map_or_else(String::new, |file| format!(" {}", file.display()));
        format!("{} {:?} of the kubeconfig{file}", self.kind(), self.name())
    }
}

/// The kubeconfig at `path`; without a path those of `$KUBECONFIG`, merged, or `~/.kube/config`.
pub fn read(path: Option<&Path>) -> anyhow::Result<Kubeconfig> {
    let hint = match path {
        Some(_) => "check the path in --kubeconfig",
        None if is_set() => "check the files that KUBECONFIG names",
        None => SET,
    };
    let paths = files(path);
    if path.is_none() && is_set() {
        let missing = || {
            fail(
                "no file that KUBECONFIG names exists",
                "check KUBECONFIG, or pass --kubeconfig",
            )
        };
        let merged = merged(paths.into_iter(), hint)?;
        return merged.ok_or_else(missing);
    }
    match paths.first() {
        Some(path) => read_file(path, hint),
        None => Err(fail("no home directory", SET)),
    }
}

/// The files that are read.
fn files(path: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = path {
        return vec![path.to_owned()];
    }
    if is_set() {
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        return std::env::split_paths(&listed).collect();
    }
    let home = std::env::home_dir();
    home.into_iter()
        .map(|home| home.join(".kube/config"))
        .collect()
}

const SET: &str = "set KUBECONFIG, or pass --kubeconfig";

/// Whether `$KUBECONFIG` names a file.
pub fn is_set() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|listed| !listed.is_empty())
}

/// The files that exist, merged as kubectl does: the first one that has a name or a value wins. `None` if none exists.
fn merged(paths: impl Iterator<Item = PathBuf>, hint: &str) -> anyhow::Result<Option<Kubeconfig>> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.filter(|path| path.exists()) {
        let next = read_file(&path, hint)?;
        merged = Some(match merged {
            // Each file is of one kind and version.
            Some(before) => before.merge(next).map_err(|_| {
                fail(
                    "the files that KUBECONFIG names are not all kubeconfigs",
                    hint,
                )
            })?,
            None => next,
        });
    }
    Ok(merged)
}

/// Fails if a context names a user that is not there. kube, as client-go, would send requests without credentials.
pub fn require_user(kubeconfig: &Kubeconfig, context: &str) -> anyhow::Result<()> {
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
pub fn require_data(kubeconfig: &Kubeconfig, path: &Path) -> anyhow::Result<()> {
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
pub fn file_of_cluster(cluster: &Cluster) -> Option<&'static str> {
    is_file(cluster.certificate_authority.as_ref()).then_some("a certificate-authority file")
}

/// A reference to a command or a file in a user, if there is one.
pub fn program_or_file(user: &AuthInfo) -> Option<&'static str> {
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
    let read = std::fs::read(path).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| of_bytes(&bytes));
    let mut kubeconfig = parsed.map_err(anyhow::Error::msg).hint(
        || format!("cannot read the kubeconfig {}", path.display()),
        || hint.to_owned(),
    )?;
    if let Some(folder) = path.parent() {
        resolve_paths(&mut kubeconfig, folder);
    }
    // For kubectl, an empty name is none.
    kubeconfig.current_context = kubeconfig.current_context.filter(|name| !name.is_empty());
    Ok(kubeconfig)
}

/// A kubeconfig, or what is wrong with its text.
pub fn of_bytes(bytes: &[u8]) -> Result<Kubeconfig, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not text in UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let kubeconfig =
        parse(text).map_err(|error| format!("not a valid kubeconfig{}", position(&error)))?;
    let is = |found: &Option<String>, expected: &str| {
        found
            .as_ref()
            .is_none_or(|found| found.is_empty() || found == expected)
    };
    if !is(&kubeconfig.kind, "Config") || !is(&kubeconfig.api_version, "v1") {
        return Err(
            "not a kubeconfig: it has another kind or apiVersion than Config of v1".to_owned(),
        );
    }
    Ok(kubeconfig)
}

/// Hint for all that is wrong with a user of a kubeconfig.
pub const CHECK_USER: &str = "check the user of the context in the kubeconfig";

/// Why no client can be made for a cluster and a user.
pub fn no_client(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)) => fail(
            "certificate-authority: a certificate cannot be used",
            "check the cluster of the context in the kubeconfig",
        ),
        kube::Error::RustlsTls(_) => fail(
            "no certificate authorities of this machine are found",
            "add certificate-authority to the cluster of the context in the kubeconfig",
        ),
        // The names of headers and their values.
        _ => fail("as: invalid characters", CHECK_USER),
    }
}

const PLUGIN: &str = "the exec plugin of the kubeconfig";

/// The exec plugin in messages. `command` is its command, if it may be named.
pub fn executable(command: Option<&str>) -> String {
    command.map_or_else(
        || PLUGIN.to_owned(),
        |command| format!("executable {command}"),
    )
}

/// Why there are no credentials. `command` is that of the exec plugin, if it may be named.
pub fn unauthenticated(error: &AuthError, command: Option<&str>) -> String {
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
        AuthError::InvalidBearerToken(_) => {
            format!("{executable} printed a token with invalid characters")
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

#[cfg(test)]
mod tests;
