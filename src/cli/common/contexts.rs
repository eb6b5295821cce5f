//! Which clusters a command uses: the current context, those of `--context a,b`, or all.

use std::time::Duration;

use clap::Args;
use client::{Access, Cluster, IdentifiedCluster, ReadError, ReadErrorKind};
use hints::{hint::fail, suggest::ClusterFlags};
use observe::clusters::{
    collect::NOT_INSTALLED,
    kube_context::{KubeContext, side_by_side},
    snapshot::ClusterSnapshot,
};

use super::{args::Global, output};

/// Which contexts to use.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Contexts {
    /// Use all contexts of the kubeconfig; for several of them, pass --context a,b,c
    #[arg(long, conflicts_with = "context")]
    pub all_contexts: bool,
}

impl Contexts {
    /// The chosen clusters, at least one. Fails on a context that is not in the kubeconfig.
    ///
    /// Sends no requests, except to contexts that may lead to one cluster. A kubeconfig may run a command for each context; these run concurrently.
    pub async fn select(
        self,
        global: &Global,
        deadline: Duration,
    ) -> anyhow::Result<Vec<KubeContext>> {
        let access = global.access();
        let names = self.names(&access)?;
        let [name] = names.as_slice() else {
            if access.api_addr.is_some() {
                return Err(fail(
                    "--api-addr cannot be used with several clusters",
                    "leave it out, or pass a single context",
                ));
            }
            let contexts = names.iter().map(|name| {
                let access = access.with_context(name);
                context_of(name.clone(), access, deadline)
            });
            let contexts = side_by_side(contexts).await;
            if self.all_contexts {
                let known = told_apart(contexts).await;
                return Ok(without_doubles(known, |context| &context.name));
            }
            return Ok(contexts);
        };
        // With a single cluster, an error fails the command.
        let access = match &access.context {
            Some(_) => access.with_context(name),
            None => access,
        };
        let client = Cluster::new(name, &access, deadline);
        let client = client.await?;
        Ok(vec![KubeContext {
            name: name.clone(),
            client: Ok(client),
            flags: access.flags(),
        }])
    }

    fn names(self, access: &Access) -> anyhow::Result<Vec<String>> {
        if self.all_contexts {
            let contexts = access.kubeconfig()?.contexts;
            let names: Vec<_> = contexts.into_iter().map(|context| context.name).collect();
            if names.is_empty() {
                return Err(fail(
                    "the kubeconfig has no contexts",
                    "check --kubeconfig and $KUBECONFIG",
                ));
            }
            return Ok(names);
        }
        let Some(wanted) = &access.context else {
            // In a pod there is no kubeconfig, and the cluster has no name.
            let current = access.kubeconfig().ok().and_then(|k| k.current_context);
            return Ok(vec![current.unwrap_or_else(|| "this cluster".to_owned())]);
        };
        let kubeconfig = access.kubeconfig()?;
        if kubeconfig
            .contexts
            .iter()
            .any(|context| context.name == *wanted)
        {
            // A name may contain a comma.
            return Ok(vec![wanted.clone()]);
        }
        let names = split(wanted);
        for name in &names {
            access.with_context(name).context_name(&kubeconfig)?;
        }
        if names.is_empty() {
            return Err(fail("--context is empty", "pass --context a,b,c"));
        }
        Ok(names)
    }
}

/// Fails if there is only one cluster, and its Links cannot be listed.
pub fn refuse_silence(snapshots: &[ClusterSnapshot]) -> anyhow::Result<()> {
    let [snapshot] = snapshots else {
        return Ok(());
    };
    snapshot.links.as_ref().map(|_| ()).map_err(|why| {
        if why.kind == ReadErrorKind::NotInstalled {
            return not_installed(&snapshot.name, &snapshot.flags);
        }
        fail(
            format!("cannot list the Links of {}: {why}", snapshot.name),
            format!(
                "check that the cluster is up and that you may list Links; {} shows details",
                snapshot.flags.mc("check", &[])
            ),
        )
    })
}

/// The error of a cluster without the extension.
pub fn not_installed(cluster: &str, flags: &ClusterFlags) -> anyhow::Error {
    fail(
        format!("{NOT_INSTALLED} in {cluster}"),
        format!("install it with {}", flags.install()),
    )
}

/// The flags that name all of these clusters, of which there is at least one, for commands that take several.
pub fn flags_of_all(contexts: &[KubeContext]) -> ClusterFlags {
    let (first, rest) = contexts.split_first().expect("a command has a cluster");
    let names = rest.iter().map(|context| context.name.as_str());
    names.fold(first.flags.clone(), ClusterFlags::and_context)
}

/// The names in `a,b,c`, each once.
fn split(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

async fn context_of(name: String, access: Access, deadline: Duration) -> KubeContext {
    let client = Cluster::new(&name, &access, deadline).await;
    KubeContext {
        name,
        client: client.map_err(ReadError::from),
        flags: access.flags(),
    }
}

/// Asks the clusters that may be others of these contexts which cluster they are.
async fn told_apart(contexts: Vec<KubeContext>) -> Vec<(KubeContext, Option<IdentifiedCluster>)> {
    let clients = || {
        contexts
            .iter()
            .filter_map(|context| context.client.as_ref().ok())
    };
    let known = contexts.iter().map(async |context| {
        let client = context.client.as_ref().ok()?;
        let own = &client.identity;
        let mut others = clients().map(|other| &other.identity);
        if others.any(|other| other.server == own.server && other != own) {
            return Some(client.identify().await);
        }
        Some(IdentifiedCluster {
            identity: own.clone(),
            uid: None,
        })
    });
    let known = side_by_side(known).await;
    contexts.into_iter().zip(known).collect()
}

/// Keeps the first of several contexts that certainly lead to one cluster, and says which are left out.
pub fn without_doubles<T>(
    all: Vec<(T, Option<IdentifiedCluster>)>,
    context: impl Fn(&T) -> &str,
) -> Vec<T> {
    let mut kept: Vec<(T, Option<IdentifiedCluster>)> = Vec::new();
    for (own, known) in all {
        let is_it = |(_, other): &&(T, Option<IdentifiedCluster>)| {
            let pair = known.as_ref().zip(other.as_ref());
            pair.is_some_and(|(known, other)| known.is(other))
        };
        match kept.iter().find(is_it) {
            None => kept.push((own, known)),
            Some((first, _)) => output::note(&format!(
                "left out the context {}: it leads to the same cluster as {}",
                context(&own),
                context(first)
            )),
        }
    }
    kept.into_iter().map(|(own, _)| own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
contexts:
- {name: east, context: {cluster: east}}
- {name: west, context: {cluster: west}}
- {name: 'east,west', context: {cluster: west}}
- {name: east-again, context: {cluster: east}}
- {name: broken, context: {cluster: nowhere}}
- {name: path-a, context: {cluster: path-a}}
- {name: path-b, context: {cluster: path-b}}
- {name: proxy-a, context: {cluster: proxy-a}}
- {name: proxy-b, context: {cluster: proxy-b}}
- {name: name-a, context: {cluster: name-a}}
- {name: name-b, context: {cluster: name-b}}
- {name: user-a, context: {cluster: teleport, user: a}}
- {name: user-b, context: {cluster: teleport, user: b}}
- {name: user-as, context: {cluster: teleport, user: as}}
clusters:
- {name: path-a, cluster: {server: 'https://rancher.example/k8s/clusters/a'}}
- {name: path-b, cluster: {server: 'https://rancher.example/k8s/clusters/b/'}}
- {name: proxy-a, cluster: {server: 'https://192.0.2.1', proxy-url: 'http://127.0.0.1:1'}}
- {name: proxy-b, cluster: {server: 'https://192.0.2.1', proxy-url: 'http://127.0.0.1:2'}}
- {name: name-a, cluster: {server: 'https://127.0.0.1:1', tls-server-name: a.example}}
- {name: name-b, cluster: {server: 'https://127.0.0.1:1', tls-server-name: b.example}}
- {name: teleport, cluster: {server: 'https://127.0.0.1:2'}}
- {name: east, cluster: {server: 'https://east.example'}}
- {name: west, cluster: {server: 'https://west.example'}}
users:
- {name: a, user: {token: a}}
- {name: b, user: {token: b}}
- {name: as, user: {token: b, as: admin}}
current-context: west
";

    async fn names(context: Option<&str>, all_contexts: bool) -> anyhow::Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let global = Global {
            kubeconfig: Some(path),
            context: context.map(str::to_owned),
            ..Global::default()
        };
        let contexts = Contexts { all_contexts };
        let contexts = contexts.select(&global, Duration::from_secs(1)).await?;
        Ok(contexts
            .into_iter()
            .map(|context| match context.client {
                Ok(client) => client.name,
                Err(_) => format!("{}!", context.name),
            })
            .collect())
    }

    #[tokio::test]
    async fn contexts_are_one_some_or_all() {
        for (context, all, expected) in [
            (None, false, "west"),
            (Some("east"), false, "east"),
            (Some("east, west,,east"), false, "east west"),
            (Some("west,broken"), false, "west broken!"),
            (Some("east,west"), false, "east,west"),
            (
                None,
                true,
                "east west broken! path-a path-b proxy-a proxy-b name-a name-b user-a user-b",
            ),
        ] {
            let names = names(context, all).await.unwrap();
            assert_eq!(names.join(" "), expected, "{context:?} {all}");
        }
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_an_error_that_names_it() {
        for (context, expected) in [
            ("north", "context \"north\" is not in the kubeconfig"),
            ("east,north", "context \"north\" is not in the kubeconfig"),
            (" , ", "--context is empty"),
        ] {
            let error = names(Some(context), false).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
