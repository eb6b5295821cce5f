//! The file of a fleet, with the flags of each of its links.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use clap::{Args as _, Command};
use client::{Access, Cluster};
use hints::hint::{fail, misuse};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::config::Kubeconfig;
use manifests::{
    install::RemoteAccess,
    link::{ClusterName, in_words},
};

use crate::{
    cluster_name::context_of,
    fleet::{
        by_context::clusters,
        hub::{HubCluster, hub_clusters},
        profiles::CredentialPlugin,
    },
    fleet_file as fleet,
    fleet_file::{
        ClusterSources, FlagValue, Fleet, FleetCluster, FleetLink, FoundCluster, LinkEnds,
        LinkFlags, ProfileQuery,
    },
    given::Given,
    link::{existing::Existing, flags::LinkArgs, keys},
    typed,
};

/// A file that can be used.
pub struct LoadedFleet {
    /// The file, as messages and commands name it.
    pub name: String,
    pub fleet: Fleet,
    pub links: Vec<LoadedLink>,
    /// Namespace of the Links.
    pub namespace: String,
    /// Namespace of the accounts, in all target clusters.
    pub accounts: String,
    /// Namespace of Linkerd's control planes.
    pub linkerd: String,
    /// What the user has allowed.
    pub consent: Consent,
    folder: PathBuf,
    /// The kubeconfigs of clusters that hubs have named, or why there is none.
    given: BTreeMap<ClusterName, Arc<Result<Kubeconfig, String>>>,
}

/// What is only done if the user says so.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    /// The clusters that were built again: what is recorded of them is about others.
    pub replaced: BTreeSet<ClusterName>,
    /// Whether Links of others get the settings of the file.
    pub takes_over: bool,
    /// How many Links that are not in the file are deleted at most; none at all without a number.
    pub prunes: Option<usize>,
}

/// A link of the file, as `link` gets it on the command line.
pub struct LoadedLink {
    pub ends: LinkEnds,
    pub args: LinkArgs,
    pub given: Given,
}

/// The flags that the keys of the file stand for.
pub fn link_flags() -> LinkFlags {
    let command = LinkArgs::augment_args(Command::new("link"));
    LinkFlags::new(command, |key, text| {
        keys::set(&mut LinkArgs::default(), key, text)
    })
}

/// Reads the file, and what it does not name itself: contexts, and ClusterProfiles with these plugins.
pub async fn load(
    all: &Access,
    linkerd: LinkerdFlag<'_>,
    file: &Path,
    plugins: &[CredentialPlugin],
) -> anyhow::Result<LoadedFleet> {
    let (name, text) = text_of(file)?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let mut sources = FoundSources {
        all,
        folder,
        hubs: BTreeMap::new(),
    };
    let queries = fleet::profile_queries(&name, &text, &link_flags())?;
    for query in queries {
        let found = Box::pin(hub_clusters(all, folder, &query, plugins)).await;
        let found = found.with_context(|| {
            format!(
                "cannot read the clusterProfiles of {name}, line {}",
                query.line
            )
        })?;
        sources.hubs.insert(query, found);
    }
    let mut loaded = parse_with(&name, &text, folder, linkerd, &sources)?;
    let hubs = sources.hubs.into_values().flatten();
    let given = hubs.map(|(name, cluster)| (name, cluster.kubeconfig));
    loaded.given = given.collect();
    Ok(loaded)
}

/// Reads the file without ClusterProfiles. Sends no request.
pub fn load_offline(
    all: &Access,
    linkerd: LinkerdFlag<'_>,
    file: &Path,
) -> anyhow::Result<LoadedFleet> {
    let (name, text) = text_of(file)?;
    let sources = FoundSources {
        all,
        folder: file.parent().unwrap_or_else(|| Path::new("")),
        hubs: BTreeMap::new(),
    };
    let folder = sources.folder;
    parse_with(&name, &text, folder, linkerd, &sources)
}

fn text_of(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// What the file does not name itself.
struct FoundSources<'s> {
    all: &'s Access,
    /// The folder of the file.
    folder: &'s Path,
    /// The clusters of ClusterProfiles.
    hubs: BTreeMap<ProfileQuery, BTreeMap<ClusterName, HubCluster>>,
}

impl ClusterSources for FoundSources<'_> {
    fn contexts(
        &self,
        kubeconfig: Option<&str>,
        patterns: &str,
    ) -> anyhow::Result<Vec<FoundCluster>> {
        let access = Access {
            kubeconfig: self.all.kubeconfig.clone(),
            ..Access::default()
        };
        let access = access.with_kubeconfig_of_fleet(kubeconfig.map(|own| self.folder.join(own)));
        clusters(patterns, &access.kubeconfig()?.contexts)
    }

    fn profiles(&self, query: &ProfileQuery) -> anyhow::Result<Vec<FoundCluster>> {
        let found = self.hubs.get(query).into_iter().flatten();
        let found = found.map(|(name, cluster)| FoundCluster {
            name: name.clone(),
            context: cluster.context.clone(),
        });
        Ok(found.collect())
    }
}

/// Parses the text of a file in this folder that names all of its clusters.
pub fn parse(name: &str, text: &str, folder: &Path, linkerd: &str) -> anyhow::Result<LoadedFleet> {
    let flag = LinkerdFlag {
        namespace: linkerd,
        is_given: false,
    };
    parse_with(name, text, folder, flag, &NoSources)
}

/// There is nothing but the file.
struct NoSources;

impl ClusterSources for NoSources {
    fn contexts(&self, _: Option<&str>, patterns: &str) -> anyhow::Result<Vec<FoundCluster>> {
        clusters(patterns, &[])
    }

    fn profiles(&self, _: &ProfileQuery) -> anyhow::Result<Vec<FoundCluster>> {
        Ok(Vec::new())
    }
}

/// `--linkerd-namespace`.
#[derive(Clone, Copy)]
pub struct LinkerdFlag<'f> {
    pub namespace: &'f str,
    /// Whether it is on the command line.
    pub is_given: bool,
}

impl LinkerdFlag<'_> {
    /// The namespace of the file, or else that of the flag. Fails if they differ.
    fn agreed(self, file: &str, set: Option<&(String, u64)>) -> anyhow::Result<String> {
        let Some((set, line)) = set else {
            return Ok(self.namespace.to_owned());
        };
        if self.is_given && set != self.namespace {
            return Err(misuse(
                format!(
                    "--linkerd-namespace is {}, but linkerdNamespace in {file}, line {line}, is {set}",
                    self.namespace
                ),
                "leave the flag out, or correct the file",
            ));
        }
        Ok(set.clone())
    }
}

/// Leaves settings of several links out of those that cannot use them: a selector for mirrors, for example, where the
/// target cluster has no gateway. What is set for the link itself stays, and is refused.
fn leave_out_idle(fleet: &mut Fleet) {
    let all: Vec<LinkEnds> = fleet.links.keys().cloned().collect();
    for ends in all {
        let (Ok((args, _)), true) = (
            args_of(fleet.set_for(&ends)),
            fleet.links.contains_key(&ends),
        ) else {
            continue; // refused below, with its places
        };
        let idle: Vec<String> = args.useless().map(|(flag, _)| name_of(flag)).collect();
        if let Some(link) = fleet.links.get_mut(&ends) {
            let is_idle = |key: &str| idle.contains(&in_words(key, '-'));
            link.settings
                .retain(|key, value| value.place.part == "link" || !is_idle(key));
        }
    }
}

/// The name of a flag as messages have it, such as `--federated-through=gateway`.
fn name_of(flag: &str) -> String {
    let name = flag.trim_start_matches('-').split('=').next();
    name.unwrap_or_default().to_owned()
}

/// The flags of `link` for these values, and which of them are given.
fn args_of<'f>(values: impl Iterator<Item = &'f FlagValue>) -> anyhow::Result<(LinkArgs, Given)> {
    let (mut args, mut names) = (LinkArgs::default(), Vec::new());
    for value in values {
        let set = keys::set(&mut args, value.key, &value.text);
        set.map_err(|rule| anyhow!("{}: {rule}", value.key))?;
        names.push(in_words(value.key, '_'));
    }
    Ok((args, Given::of_names(names)))
}

/// Parses the text of a file in this folder.
fn parse_with(
    name: &str,
    text: &str,
    folder: &Path,
    flag: LinkerdFlag<'_>,
    sources: &impl ClusterSources,
) -> anyhow::Result<LoadedFleet> {
    let mut fleet = fleet::read(name, text, &link_flags(), sources)?;
    let linkerd = flag.agreed(name, fleet.linkerd.as_ref())?;
    leave_out_idle(&mut fleet);
    let mut links = Vec::new();
    for (ends, link) in &fleet.links {
        let loaded = loaded(&fleet, ends);
        links.push(loaded.with_context(|| format!("invalid {ends} in {name} ({})", places(link)))?);
    }
    let (all, _) = args_of(fleet.flags.iter())?;
    Ok(LoadedFleet {
        name: name.to_owned(),
        accounts: all
            .service_account_namespace
            .unwrap_or_else(|| all.namespace.clone()),
        namespace: all.namespace,
        linkerd,
        consent: Consent::default(),
        folder: folder.to_owned(),
        given: BTreeMap::new(),
        links,
        fleet,
    })
}

fn loaded(fleet: &Fleet, ends: &LinkEnds) -> anyhow::Result<LoadedLink> {
    let account = ends.source.to_string();
    if let Err(rule) = typed::account_name(&account) {
        return Err(fail(
            format!("{account} cannot be the name of an account: it {rule}"),
            "the account of a cluster in other clusters has its name; call the cluster something else",
        ));
    }
    let (mut args, given) = args_of(fleet.set_for(ends))?;
    args.service_account_name = account;
    let (args, given) = args.with_profile(&given)?;
    let args = Existing::default().over(&args, &given);
    args.agree(true, Default::default())?;
    args.agree_on_discovery()?;
    Ok(LoadedLink {
        ends: ends.clone(),
        given,
        args,
    })
}

/// The access with the name of its context: that of the cluster, or the only one that a tool made for it.
pub fn named(access: &Access, name: &ClusterName) -> anyhow::Result<Access> {
    if access.context.is_some() {
        return Ok(access.clone());
    }
    let contexts = access.kubeconfig()?.contexts;
    let contexts = contexts.iter().map(|context| context.name.as_str());
    match context_of(&name.to_string(), contexts) {
        Ok(context) => Ok(access.with_context(context)),
        Err(several) if several.is_empty() => Err(anyhow!(
            "the kubeconfig has no context for {name}: name one with `context` in the file"
        )),
        Err(several) => Err(anyhow!(
            "the kubeconfig has several contexts for {name} ({}): name one with `context` in the file",
            several.join(", ")
        )),
    }
}

/// Where the file names a link.
pub fn places(link: &FleetLink) -> String {
    let places = link.places.iter().map(ToString::to_string);
    places.collect::<Vec<_>>().join("; ")
}

impl LoadedLink {
    /// What its account needs: less if Linkerd's control plane has nothing to discover.
    pub fn access(&self) -> RemoteAccess {
        let options = &self.args.options;
        let selectors = [
            &options.remote_discovery_selector,
            &options.federated_service_selector,
        ];
        let discovers = selectors.iter().any(|of| **of != LabelSelector::default());
        if discovers && !self.args.is_without_discovery() {
            RemoteAccess::Full
        } else {
            RemoteAccess::Gateway
        }
    }

    /// The link with another account than that of the name of its source cluster.
    pub fn with_account(&self, account: &str) -> Self {
        let mut args = self.args.clone();
        account.clone_into(&mut args.service_account_name);
        Self {
            ends: self.ends.clone(),
            given: self.given.clone(),
            args,
        }
    }
}

impl LoadedFleet {
    /// Whether a cluster is in the file.
    pub fn has(&self, name: &ClusterName) -> bool {
        let mut clusters = self.fleet.clusters.iter();
        clusters.any(|cluster| cluster.name == *name)
    }

    /// The access to a cluster of the file.
    pub fn access(&self, all: &Access, cluster: &FleetCluster) -> Access {
        let own = cluster.kubeconfig.as_ref();
        let access = Access {
            given: self.given.get(&cluster.name).cloned(),
            context: cluster.context.clone(),
            linkerd_namespace: self.linkerd.clone(),
            ..all.clone()
        };
        access.with_kubeconfig_of_fleet(own.map(|path| self.folder.join(path)))
    }

    /// A connection to a cluster of the file, and how it is made. Sends no request.
    pub async fn connect(
        &self,
        all: &Access,
        name: &ClusterName,
    ) -> anyhow::Result<(Access, Cluster)> {
        let access = named(&self.access(all, self.cluster(name)?), name)?;
        let cluster = Cluster::connect(&access).await?;
        Ok((access, cluster))
    }

    /// A cluster of the file. Fails if there is none of this name.
    pub fn cluster(&self, name: &ClusterName) -> anyhow::Result<&FleetCluster> {
        let clusters = &self.fleet.clusters;
        let found = clusters.iter().find(|cluster| cluster.name == *name);
        found.ok_or_else(|| {
            let known = clusters.iter().map(|cluster| cluster.name.to_string());
            let known: Vec<String> = known.collect();
            fail(
                format!("the file has no cluster {name}"),
                format!("known clusters: {}", known.join(", ")),
            )
        })
    }

    /// Whether this link is in the file.
    pub fn wants(&self, source: &ClusterName, target: &str) -> bool {
        let Ok(target) = target.parse() else {
            return false; // no cluster has such a name
        };
        let source = source.clone();
        self.fleet.links.contains_key(&LinkEnds { source, target })
    }

    /// A link to this cluster. All have the same flags about how it is reached.
    pub fn link_to(&self, target: &ClusterName) -> Option<&LoadedLink> {
        self.links.iter().find(|link| link.ends.target == *target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_of_linkerd_is_that_of_the_file_or_of_the_flag() {
        let linkerd = |set: &str, namespace: &str, is_given: bool| {
            let text = format!("name: f\n{set}clusters: [{{name: a}}]\nlinks: []\n");
            let flag = LinkerdFlag {
                namespace,
                is_given,
            };
            let loaded = parse_with("fleet.yaml", &text, Path::new(""), flag, &NoSources);
            loaded
                .map(|loaded| loaded.linkerd)
                .map_err(|error| error.to_string())
        };
        let set = "linkerdNamespace: mesh\n";
        for (set, flag, is_given, expected) in [
            ("", "linkerd", false, Ok("linkerd")),
            ("", "mesh", true, Ok("mesh")),
            (set, "linkerd", false, Ok("mesh")),
            (set, "mesh", true, Ok("mesh")),
            (
                set,
                "linkerd",
                true,
                Err(
                    "--linkerd-namespace is linkerd, but linkerdNamespace in fleet.yaml, line 2, is mesh",
                ),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(linkerd(set, flag, is_given), expected, "{set}{flag}");
        }
        let wrong = linkerd("linkerdNamespace: A\n", "linkerd", false).unwrap_err();
        assert!(
            wrong.starts_with("invalid linkerdNamespace in fleet.yaml, line 2"),
            "{wrong}"
        );
    }
}
