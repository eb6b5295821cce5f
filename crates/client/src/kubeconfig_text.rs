//! Text → kubeconfig, as kubectl reads it: the last of equal keys counts, and entries may lack what is not needed.

use std::path::{MAIN_SEPARATOR, Path};

use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use serde_saphyr::Error;

/// A kubeconfig whose entries may have no names.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawKubeconfig {
    kind: Option<String>,
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(rename = "current-context")]
    current_context: Option<String>,
    #[serde(deserialize_with = "or_default")]
    clusters: Vec<Option<RawCluster>>,
    #[serde(deserialize_with = "or_default")]
    users: Vec<Option<RawUser>>,
    #[serde(deserialize_with = "or_default")]
    contexts: Vec<Option<RawContext>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCluster {
    #[serde(deserialize_with = "or_default")]
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawUser {
    #[serde(deserialize_with = "or_default")]
    name: String,
    user: Option<AuthInfo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContext {
    #[serde(deserialize_with = "or_default")]
    name: String,
    context: Option<RawNames>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNames {
    #[serde(deserialize_with = "or_default")]
    cluster: String,
    user: Option<String>,
    namespace: Option<String>,
}

/// `null` is nothing.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Parses YAML as Go does: the last of equal keys counts.
pub fn of_yaml<T: DeserializeOwned>(text: &str) -> Result<T, Box<serde_saphyr::Error>> {
    let options = || {
        serde_saphyr::options! {
            with_snippet: false,
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        }
    };
    let whole: Value = serde_saphyr::from_str_with_options(text, options())?;
    // Only an error of the text has a position.
    T::deserialize(whole).map_err(|error| {
        let typed = serde_saphyr::from_str_with_options::<T>(text, options());
        typed.err().unwrap_or_else(|| Error::custom(error)).into()
    })
}

/// The first document of a text, which is all that Go reads.
fn first_document(text: &str) -> &str {
    let is_end = |line: &str| line == "---" || line.starts_with("--- ");
    let mut has_content = false;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        if is_end(trimmed) && has_content {
            return &text[..end];
        }
        has_content |= !(trimmed.is_empty() || trimmed.starts_with(['#', '%']));
        end += line.len();
    }
    text
}

/// Parses a kubeconfig; an empty text is an empty one.
pub fn parse(text: &str) -> Result<Kubeconfig, Box<serde_saphyr::Error>> {
    let file: Option<RawKubeconfig> = of_yaml(first_document(text))?;
    let file = file.unwrap_or_default();
    let clusters = file.clusters.into_iter().flatten();
    let clusters = clusters.map(|entry| NamedCluster {
        name: entry.name,
        cluster: entry.cluster,
        ..NamedCluster::default()
    });
    let users = file.users.into_iter().flatten();
    let users = users.map(|entry| NamedAuthInfo {
        name: entry.name,
        auth_info: entry.user,
        ..NamedAuthInfo::default()
    });
    let contexts = file.contexts.into_iter().flatten();
    let contexts = contexts.map(|entry| NamedContext {
        name: entry.name,
        context: entry.context.map(|names| Context {
            cluster: names.cluster,
            user: names.user,
            namespace: names.namespace,
            ..Context::default()
        }),
        ..NamedContext::default()
    });
    Ok(Kubeconfig {
        kind: file.kind,
        api_version: file.api_version,
        current_context: file.current_context,
        clusters: clusters.collect(),
        auth_infos: users.collect(),
        contexts: contexts.collect(),
        ..Kubeconfig::default()
    })
}

/// Makes the paths in a kubeconfig relative to its folder, except empty ones and the names of commands on `PATH`.
pub fn resolve_paths(kubeconfig: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        if let Some(path) = path.as_mut().filter(|path| !path.is_empty())
            && let Some(resolved) = folder.join(&*path).to_str()
        {
            resolved.clone_into(path);
        }
    };
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .flat_map(|of| &mut of.cluster)
    {
        resolve(&mut cluster.certificate_authority);
    }
    for user in kubeconfig
        .auth_infos
        .iter_mut()
        .flat_map(|of| &mut of.auth_info)
    {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        if let Some(exec) = &mut user.exec
            && exec
                .command
                .as_ref()
                .is_some_and(|command| command.contains(MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
}
