//! The clusters of commands that take contexts, or the file of a fleet.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use client::Cluster;
use hints::{hint::misuse, suggest::ClusterFlags};
use links::{
    fleet::loaded::{LoadedFleet, named},
    fleet_file::FleetCluster,
};
use observe::clusters::kube_context::{KubeContext, side_by_side};

use super::plugins::PluginFlags;
use crate::cli::common::{args::Global, contexts::Contexts};

/// The file of a fleet, for commands that can also do without one.
#[derive(Clone, Debug, Default, Args)]
pub struct FleetFile {
    /// Use the clusters of this file of `fleet`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "context")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginFlags,
}

/// Which clusters to use.
#[derive(Clone, Debug, Default, Args)]
pub struct FleetContexts {
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    fleet: FleetFile,
}

/// The chosen clusters.
pub struct SelectedClusters {
    pub contexts: Vec<KubeContext>,
    /// The links of the file, if the clusters are from one.
    pub fleet: Option<FleetLinks>,
}

/// The links of a fleet.
#[derive(Clone, Debug)]
pub struct FleetLinks {
    /// The name of the fleet.
    pub name: String,
    /// Sources and targets.
    pub links: BTreeSet<(String, String)>,
    /// Namespace of the Links.
    pub namespace: String,
}

impl FleetFile {
    /// Reads the file, if there is one.
    pub async fn load(&self, global: &Global) -> anyhow::Result<Option<LoadedFleet>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        global.refuse_address()?;
        self.plugins.load(global, file).await.map(Some)
    }
}

impl FleetContexts {
    /// The chosen clusters. Sends no requests.
    pub async fn select(
        &self,
        global: &Global,
        deadline: Duration,
    ) -> anyhow::Result<SelectedClusters> {
        if let Some(loaded) = self.fleet.load(global).await? {
            if self.contexts.all_contexts {
                return Err(misuse(
                    "--all-contexts cannot be used with --file",
                    "remove one of them",
                ));
            }
            return Ok(of_file(global, &loaded, deadline).await);
        }
        let contexts = self.contexts.select(global, deadline).await?;
        Ok(SelectedClusters {
            contexts,
            fleet: None,
        })
    }
}

impl SelectedClusters {
    /// Only the clusters that have links, if they are from a file.
    pub fn sources(self) -> Self {
        let Some(fleet) = &self.fleet else {
            return self;
        };
        let is_source = |name: &str| fleet.links.iter().any(|(source, _)| source == name);
        let contexts = self.contexts.into_iter();
        let contexts = contexts.filter(|context| is_source(&context.name));
        Self {
            contexts: contexts.collect(),
            fleet: self.fleet,
        }
    }
}

async fn of_file(global: &Global, loaded: &LoadedFleet, deadline: Duration) -> SelectedClusters {
    let clusters = loaded.fleet.clusters.iter();
    let clusters = clusters.map(|cluster| of_cluster(global, loaded, cluster, deadline));
    let contexts = side_by_side(clusters).await;
    let links = loaded.fleet.links.keys();
    let links = links.map(|ends| (ends.source.to_string(), ends.target.to_string()));
    SelectedClusters {
        contexts,
        fleet: Some(FleetLinks {
            name: loaded.fleet.name.clone(),
            links: links.collect(),
            namespace: loaded.namespace.clone(),
        }),
    }
}

/// A cluster under its name in the file, and the flags of commands in it.
async fn of_cluster(
    global: &Global,
    loaded: &LoadedFleet,
    cluster: &FleetCluster,
    deadline: Duration,
) -> KubeContext {
    let name = cluster.name.to_string();
    let access = loaded.access(&global.access(), cluster);
    let access = match named(&access, &cluster.name) {
        Ok(access) => access,
        Err(error) => {
            return KubeContext {
                name,
                client: Err(error.into()),
                flags: ClusterFlags::default(),
            };
        }
    };
    let client = Cluster::new(&name, &access, deadline).await;
    KubeContext {
        name,
        client: client.map_err(Into::into),
        flags: access.flags(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const KUBECONFIG: &str = "
contexts:
- {name: admin@east, context: {cluster: east}}
- {name: west, context: {cluster: west}}
clusters:
- {name: east, cluster: {server: 'https://east.example'}}
- {name: west, cluster: {server: 'https://west.example'}}
";
    const FLEET: &str = "
name: f
clusters: [{name: hub, context: admin@east}, {name: west}, {name: north}]
links: [{hub: hub, spokes: [west, north]}]
";

    fn shown(selected: &SelectedClusters) -> Vec<String> {
        let all = selected.contexts.iter().map(|context| {
            let command = context.flags.kubectl("", &[]);
            let client = match &context.client {
                Ok(client) => client.identity.server.clone(),
                Err(why) => why.text().split(':').next().unwrap_or_default().to_owned(),
            };
            format!("{}: {client}; {}", context.name, command.line())
        });
        all.collect()
    }

    #[tokio::test]
    async fn clusters_of_a_file_have_its_names_and_the_flags_of_their_contexts() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let global = Global {
            kubeconfig: Some(of("kubeconfig", KUBECONFIG)),
            linkerd_namespace: "linkerd".to_owned(),
            ..Global::default()
        };
        let chosen = FleetContexts {
            fleet: FleetFile {
                file: Some(of("fleet.yaml", FLEET)),
                ..FleetFile::default()
            },
            ..FleetContexts::default()
        };
        let second = Duration::from_secs(1);
        let selected = chosen.select(&global, second).await.unwrap();
        let flags = |path: &Path, context: &str| {
            format!(
                "kubectl --kubeconfig {} --context {context}",
                path.display()
            )
        };
        let path = global.kubeconfig.as_ref().unwrap();
        let (hub, west, north) = (
            format!("hub: east.example:443; {}", flags(path, "admin@east")),
            format!("west: west.example:443; {}", flags(path, "west")),
            "north: the kubeconfig has no context for north; kubectl".to_owned(),
        );
        assert_eq!(shown(&selected), [hub, west.clone(), north.clone()]);
        assert_eq!(shown(&selected.sources()), [west, north]);
    }
}
