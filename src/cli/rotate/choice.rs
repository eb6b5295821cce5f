//! Which links are meant. Pure.

use hints::hint::{fail, misuse};
use links::{
    fleet::loaded::LoadedFleet, fleet_file::LinkEnds, linked::known_clusters,
    rotate::gather::SourceCluster,
};
use manifests::link::ClusterName;
use mirror_core::api::{conditions::ready::DUPLICATE_CLUSTER, link::Link};

use super::args::LinkChoice;

/// The links of the file that are named, or from and to clusters that are; all if there are no names. Fails if a name is not
/// in the file, or if there are no links.
pub fn chosen_of_file<'l>(
    loaded: &'l LoadedFleet,
    names: &[LinkChoice],
) -> anyhow::Result<Vec<&'l LinkEnds>> {
    let known = &loaded.fleet.links;
    for name in names {
        match name {
            LinkChoice::Cluster(name) => {
                loaded.cluster(name)?;
            }
            LinkChoice::Link(ends) if !known.contains_key(ends) => {
                return Err(fail(
                    format!("the file does not have {ends}"),
                    "name a link of the file, as SOURCE/TARGET",
                ));
            }
            LinkChoice::Link(_) => {}
        }
    }
    let is_named = |ends: &LinkEnds, name: &LinkChoice| match name {
        LinkChoice::Cluster(name) => [&ends.source, &ends.target].contains(&name),
        LinkChoice::Link(link) => link == ends,
    };
    let is_chosen =
        |ends: &&LinkEnds| names.is_empty() || names.iter().any(|name| is_named(ends, name));
    let chosen: Vec<&LinkEnds> = known.keys().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(fail(
            "the file has no such links",
            "name a cluster that has links, or name none for all",
        ));
    }
    Ok(chosen)
}

/// The Links of a source cluster to the named target clusters, at least one each; all if there are no names. Of several
/// Links to one cluster, those that the controller does not use are left out.
pub fn chosen_of_cluster<'l>(
    source: &SourceCluster,
    names: &[LinkChoice],
    known: &'l [Link],
) -> anyhow::Result<Vec<&'l Link>> {
    let missing = |what: &str| {
        let hint = known_clusters(
            known,
            "choose another namespace with --namespace, or another cluster with --source",
        );
        let namespace = &source.namespace;
        fail(
            format!("no Link to {what} found in namespace {namespace:?}"),
            hint,
        )
    };
    if names.is_empty() {
        let all = known.iter().filter(|link| !is_duplicate(link));
        let all: Vec<&Link> = all.collect();
        return match all.as_slice() {
            [] => Err(missing("any cluster")),
            _ => Ok(all),
        };
    }
    let found = names.iter().map(|name| match name {
        LinkChoice::Cluster(name) => {
            link_to(known, name).ok_or_else(|| missing(&format!("{:?}", name.to_string())))
        }
        LinkChoice::Link(_) => Err(misuse(
            "SOURCE/TARGET names a link of a file, and there is no --file",
            "name the target cluster, and pass the context of the source cluster with --source",
        )),
    });
    found.collect()
}

/// The Link to this cluster that the controller uses.
pub fn link_to<'l>(links: &'l [Link], target: &ClusterName) -> Option<&'l Link> {
    let target = target.to_string();
    let mut links = links.iter();
    links.find(|link| link.spec.target_cluster_name == target && !is_duplicate(link))
}

/// Whether the controller uses an older Link to the same cluster instead.
fn is_duplicate(link: &Link) -> bool {
    let ready = link
        .status
        .as_ref()
        .and_then(|status| status.condition("Ready"));
    ready.is_some_and(|ready| ready.reason == DUPLICATE_CLUSTER)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use links::fleet::loaded::parse;

    use super::*;
    use crate::cli::rotate::args::choice;

    #[test]
    fn links_are_chosen_by_their_clusters_and_their_names() {
        let file = "name: f\nclusters: [{name: a}, {name: b}, {name: c}, {name: d}]\nlinks: [{hub: a, spokes: [b, c], mutual: true}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        for (names, expected) in [
            ("", "a/b a/c b/a c/a"),
            ("b", "a/b b/a"),
            ("a", "a/b a/c b/a c/a"),
            ("c/a", "c/a"),
            ("b c/a", "a/b b/a c/a"),
            ("x", "the file has no cluster x"),
            ("d", "the file has no such links"),
            ("b/c", "the file does not have the link from b to c"),
        ] {
            let names: Vec<_> = names
                .split_whitespace()
                .map(|name| choice(name).unwrap())
                .collect();
            let found = match chosen_of_file(&loaded, &names) {
                Ok(found) => found
                    .iter()
                    .map(|ends| format!("{}/{}", ends.source, ends.target))
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        }
    }
}
