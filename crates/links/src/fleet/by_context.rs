//! The clusters of the contexts that an entry of the file names by pattern. Pure.

use std::collections::BTreeMap;

use hints::hint::fail;
use kube::config::NamedContext;
use manifests::link::ClusterName;

use crate::{cluster_name::cluster_name, context_pattern::matching, fleet_file::FoundCluster};

/// The clusters of the contexts that a list such as `prod-*,staging` names, by name, whatever the order of the kubeconfig.
pub fn clusters(patterns: &str, contexts: &[NamedContext]) -> anyhow::Result<Vec<FoundCluster>> {
    let names: Vec<String> = contexts.iter().map(|of| of.name.clone()).collect();
    let mut found: BTreeMap<ClusterName, String> = BTreeMap::new();
    let mut behind: BTreeMap<&str, String> = BTreeMap::new();
    for context in matching(patterns, &names)? {
        let name = cluster_name(&context).ok_or_else(|| {
            fail(
                format!("no name of a cluster can be made of the context {context}"),
                "name fewer contexts, and give this cluster an entry with name and context",
            )
        })?;
        let entry = contexts.iter().find(|of| of.name == context);
        let cluster = entry.and_then(|of| of.context.as_ref());
        if let Some(cluster) = cluster
            && let Some(other) = behind.insert(&cluster.cluster, context.clone())
        {
            return Err(fail(
                format!("the contexts {other} and {context} are of the same cluster"),
                "name fewer contexts, so that one is left; if their users lead to different clusters, give each an entry with \
                 name and context",
            ));
        }
        if let Some(other) = found.insert(name.clone(), context.clone()) {
            return Err(fail(
                format!(
                    "the clusters of the contexts {other} and {context} are both called {name}"
                ),
                "name fewer contexts, and give each of these clusters an entry with name and context",
            ));
        }
    }
    let found = found.into_iter();
    let found = found.map(|(name, context)| FoundCluster { name, context });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use kube::config::Context;

    use super::*;

    /// Contexts, each with its cluster.
    fn contexts(pairs: &[(&str, &str)]) -> Vec<NamedContext> {
        let pairs = pairs.iter();
        let all = pairs.map(|(name, cluster)| NamedContext {
            name: (*name).to_owned(),
            context: Some(Context {
                cluster: (*cluster).to_owned(),
                ..Context::default()
            }),
            other: BTreeMap::default(),
        });
        all.collect()
    }

    #[test]
    fn clusters_are_those_of_the_contexts_in_the_order_of_their_names() {
        let all = contexts(&[
            ("staging", "s"),
            ("prod-b", "b"),
            ("arn:aws:eks:eu-west-1:1:cluster/prod-a", "a"),
            ("viewer@prod-b", "b"),
            ("kind-x", "x"),
            ("k3d-x", "y"),
            ("---", "z"),
        ]);
        for (patterns, expected) in [
            ("prod-*", "prod-b=prod-b"),
            (
                "staging, *prod-a, prod-*",
                "prod-a=arn:aws:eks:eu-west-1:1:cluster/prod-a prod-b=prod-b staging=staging",
            ),
            ("test-*", "no context of the kubeconfig is called test-*"),
            (
                "*prod-b",
                "the contexts prod-b and viewer@prod-b are of the same cluster",
            ),
            (
                "*x",
                "the clusters of the contexts kind-x and k3d-x are both called x",
            ),
            ("-*", "no name of a cluster can be made of the context ---"),
        ] {
            let mut reversed = all.clone();
            reversed.reverse();
            let shown = |all: &[NamedContext]| match clusters(patterns, all) {
                Ok(found) => found
                    .iter()
                    .map(|of| format!("{}={}", of.name, of.context))
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown(&all), expected);
            if !expected.contains(" and ") {
                assert_eq!(shown(&reversed), expected);
            }
        }
    }
}
