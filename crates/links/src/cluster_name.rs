//! The name of a cluster, from the context that a tool made for it. Pure.

use manifests::link::ClusterName;

/// The longest DNS label.
const LONGEST: usize = 63;

/// The name of the cluster behind a context: what people call it, as a DNS label. `None` if nothing of it is left.
pub fn cluster_name(context: &str) -> Option<ClusterName> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = called(context).to_ascii_lowercase();
    let name: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .take(LONGEST)
        .collect();
    name.trim_matches('-').parse().ok()
}

/// The part of a context that names the cluster.
fn called(context: &str) -> &str {
    let local = ["kind-", "k3d-"];
    if let Some(name) = local.iter().find_map(|tool| context.strip_prefix(tool)) {
        return name;
    }
    // arn:aws:eks:<region>:<account>:cluster/<name>
    if let Some((_, name)) = context.split_once(":cluster/")
        && context.starts_with("arn:")
    {
        return name;
    }
    // gke_<project>_<zone>_<name>
    if let Some(rest) = context.strip_prefix("gke_") {
        return rest.splitn(3, '_').last().unwrap_or(rest);
    }
    // <user>@<name>.<region>.eksctl.io
    if let Some(rest) = context.strip_suffix(".eksctl.io") {
        let cluster = rest.rsplit('@').next().unwrap_or(rest);
        return cluster.split('.').next().unwrap_or(cluster);
    }
    context
}

/// The context of a cluster: the one of this name, or the only one that a tool made for a cluster of this name. `Err`
/// has all candidates.
pub fn context_of<'c>(
    cluster: &str,
    contexts: impl Iterator<Item = &'c str> + Clone,
) -> Result<&'c str, Vec<&'c str>> {
    if let Some(named) = contexts.clone().find(|context| *context == cluster) {
        return Ok(named);
    }
    let is_of = |context: &&str| cluster_name(context).is_some_and(|n| n.to_string() == cluster);
    match contexts.filter(is_of).collect::<Vec<_>>().as_slice() {
        [only] => Ok(only),
        several => Err(several.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_tools_have_the_name_of_the_cluster() {
        let long = "x".repeat(70);
        for (context, expected) in [
            ("east", Some("east")),
            ("kind-east", Some("east")),
            ("k3d-east", Some("east")),
            (
                "arn:aws:eks:eu-west-1:123456789012:cluster/east",
                Some("east"),
            ),
            ("arn:aws-cn:eks:cn-north-1:1:cluster/East_1", Some("east-1")),
            ("gke_my-project_europe-west1-b_east", Some("east")),
            ("me@east.eu-west-1.eksctl.io", Some("east")),
            ("admin@east.example.com", Some("admin-east-example-com")),
            ("Production East", Some("production-east")),
            ("-", None),
            ("", None),
            ("kind-", None),
            (long.as_str(), Some(&long[..63])),
        ] {
            let name = cluster_name(context).map(|name| name.to_string());
            assert_eq!(name.as_deref(), expected, "{context}");
        }
    }

    #[test]
    fn cluster_is_found_by_its_context_or_by_the_only_one_of_its_name() {
        let contexts = ["kind-east", "west", "kind-west", "kind-north", "k3d-north"];
        let found = |cluster| context_of(cluster, contexts.iter().copied());
        assert_eq!(found("east"), Ok("kind-east"));
        assert_eq!(found("west"), Ok("west"));
        assert_eq!(found("kind-west"), Ok("kind-west"));
        assert_eq!(found("north"), Err(vec!["kind-north", "k3d-north"]));
        assert_eq!(found("south"), Err(vec![]));
    }
}
