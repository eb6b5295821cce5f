//! Which links of the file are meant. Pure.

use crate::{
    cli::fleet::loaded::LoadedFleet, fleet::LinkEnds, hint::fail, manifests::link::ClusterName,
};

/// The links from and to these clusters, and these links; all if none are named. Fails if one of them is not in the file,
/// or if there are none.
pub(super) fn chosen<'l>(
    loaded: &'l LoadedFleet,
    clusters: &[ClusterName],
    links: &[LinkEnds],
) -> anyhow::Result<Vec<&'l LinkEnds>> {
    for cluster in clusters {
        loaded.cluster(cluster)?;
    }
    let known = &loaded.fleet.links;
    if let Some(ends) = links.iter().find(|ends| !known.contains_key(ends)) {
        return Err(fail(
            format!("the file does not have {ends}"),
            "name a link of the file, as SOURCE/TARGET",
        ));
    }
    let is_all = clusters.is_empty() && links.is_empty();
    let is_chosen = |ends: &&LinkEnds| {
        is_all
            || links.contains(ends)
            || clusters.contains(&ends.source)
            || clusters.contains(&ends.target)
    };
    let chosen: Vec<&LinkEnds> = known.keys().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(fail(
            "the file has no such links",
            "name a cluster that has links, or leave --cluster out",
        ));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::fleet::loaded::parse;

    #[test]
    fn links_are_chosen_by_their_clusters_and_their_names() {
        let file = "name: f\nclusters: [{name: a}, {name: b}, {name: c}, {name: d}]\nlinks: [{hub: a, spokes: [b, c], mutual: true}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        for (clusters, links, expected) in [
            ("", "", "a/b a/c b/a c/a"),
            ("b", "", "a/b b/a"),
            ("a", "", "a/b a/c b/a c/a"),
            ("", "c/a", "c/a"),
            ("b", "c/a", "a/b b/a c/a"),
            ("x", "", "the file has no cluster x"),
            ("d", "", "the file has no such links"),
            ("", "b/c", "the file does not have the link from b to c"),
        ] {
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let clusters: Vec<_> = words(clusters).iter().map(|c| c.parse().unwrap()).collect();
            let links = words(links).into_iter().map(|link| {
                let (source, target) = link.split_once('/').unwrap();
                LinkEnds {
                    source: source.parse().unwrap(),
                    target: target.parse().unwrap(),
                }
            });
            let links: Vec<LinkEnds> = links.collect();
            let found = match chosen(&loaded, &clusters, &links) {
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
