//! What is left of Linkerd's service mirror after linkerd-mc has taken over.

use client::Cluster;
use hints::{hint::fail, prose::counted};
use links::{
    inventory as objects,
    inventory::{ApiKind, ListedObject},
    linked::{leftovers, links_elsewhere},
};
use mirror_core::api::text::one_line;

use super::{found::Found, plan::TakeOverStep};
use crate::cli::common::{interrupt::on_interrupt, output, prompt::confirmed};

/// Objects of the extension in its namespace that only Linkerd's service mirrors need.
const SHARED: [(ApiKind, &[&str]); 6] = [
    (objects::DEPLOYMENT, &["linkerd-local-service-mirror"]),
    (
        objects::DISRUPTION_BUDGET,
        &["linkerd-local-service-mirror"],
    ),
    (objects::SERVICE_ACCOUNT, &["linkerd-local-service-mirror"]),
    (objects::SERVER, &["service-mirror", "local-service-mirror"]),
    (
        objects::AUTHORIZATION_POLICY,
        &["service-mirror", "local-service-mirror"],
    ),
    (objects::LEASE, &["local-service-mirror-write"]),
];

/// The same, in no namespace.
const CLUSTER_WIDE: [(ApiKind, &[&str]); 2] = [
    (
        objects::CLUSTER_ROLE,
        &[
            "linkerd-multicluster-controller-access-local-resources",
            "linkerd-local-service-mirror-access-local-resources",
        ],
    ),
    (
        objects::CLUSTER_ROLE_BINDING,
        &["linkerd-local-service-mirror-access-local-resources"],
    ),
];

/// Deletes it, or lists it with `--dry-run`.
pub async fn remove(
    cluster: &Cluster,
    found: &Found,
    steps: &[TakeOverStep],
    dry_run: bool,
    yes: bool,
) -> anyhow::Result<()> {
    let namespace = found.namespace.as_str();
    if !steps.is_empty() {
        let take_over = cluster.flags.mc("take-over --namespace {}", &[namespace]);
        return Err(fail(
            "linkerd-mc has not taken over all mirrors",
            format!("run {take_over} first"),
        ));
    }
    let left = left(cluster, found, namespace).await?;
    let count = counted(left.len(), "object");
    for ListedObject { object, .. } in &left {
        let place = object
            .namespace
            .as_deref()
            .map_or_else(String::new, |of| format!("{of}/"));
        let shown = one_line(&format!("{} {place}{}", object.kind, object.name));
        output::data(&(shown + "\n"))?;
    }
    if dry_run {
        output::note(&format!("would delete {count} of Linkerd's service mirror"));
        return Ok(());
    }
    let otherwise = "pass --yes to delete without confirmation";
    let question = format!("Delete {count} of Linkerd's service mirror?");
    if !yes && !left.is_empty() && !confirmed(&question, otherwise)? {
        return Err(fail("canceled: nothing was deleted", otherwise));
    }
    on_interrupt(
        "objects of Linkerd's service mirror may be left",
        "run the same command again, which deletes the rest",
    );
    for object in left {
        object.in_any_version().delete(cluster).await?;
    }
    output::note(&format!("deleted {count} of Linkerd's service mirror"));
    Ok(())
}

/// The objects that exist. Those that are in no namespace stay if another namespace has Links, which may need them.
async fn left(
    cluster: &Cluster,
    found: &Found,
    namespace: &str,
) -> anyhow::Result<Vec<ListedObject>> {
    let elsewhere = links_elsewhere(cluster, namespace).await?;
    let is_only_one = elsewhere.is_some_and(|links| links.is_empty());
    let mut left = Vec::new();
    for link in &found.links {
        let name = link.cluster.parse()?;
        left.extend(Box::pin(leftovers(cluster, namespace, &name, !is_only_one)).await?);
        let probe = [format!("probe-gateway-{name}")];
        let probe = objects::SERVICE.with_names(cluster, Some(namespace), &probe);
        left.extend(probe.await?);
    }
    let here = SHARED.into_iter().map(|named| (Some(namespace), named));
    let wide = CLUSTER_WIDE.into_iter().filter(|_| is_only_one);
    for (namespace, (kind, names)) in here.chain(wide.map(|named| (None, named))) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        left.extend(kind.with_names(cluster, namespace, &names).await?);
    }
    Ok(left)
}
