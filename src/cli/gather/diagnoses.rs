//! What `diagnose` says of Services that are not mirrored, and of one mirror of each Link.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};

use client::{Cluster, timing};
use mirror_core::{
    api::{labels, metadata::ResourceId},
    mirror::{federated_name, mirror_name},
};
use observe::{
    clusters::{
        bundle::{BundleContent, BundleFile},
        request_path::{RequestPath, facts_of_another, source_facts},
        snapshot::{FullSnapshot, LinkSnapshot},
    },
    diagnose::{diagnose, layer::Commands, report},
};

/// Maximum number of diagnoses.
const MOST: usize = 20;
/// Diagnoses that are made at once: each but the first sends about 8 requests.
const AT_ONCE: usize = 4;

/// The files of a cluster.
pub async fn diagnoses(
    cluster: &Cluster,
    snapshot: &FullSnapshot,
    commands: &Commands,
) -> Vec<BundleFile> {
    let services: BTreeSet<_> = services(snapshot).take(MOST).collect();
    let Some(first) = services.first() else {
        return Vec::new();
    };
    // What concerns the cluster is read once.
    let of_first = Box::pin(source_facts(cluster, first)).await;
    let files = stream::iter(&services).map(async |service| {
        let path = RequestPath {
            now: timing::now(),
            service: service.clone(),
            port: None,
            source: if service == first {
                of_first.clone()
            } else {
                Box::pin(facts_of_another(&of_first, cluster, service)).await
            },
            client: None,
            proxy: None,
            view: None,
            target: None,
        };
        let text = match diagnose(&path, commands) {
            Ok(diagnosis) => Ok(report::text(&diagnosis)),
            Err(none) => Err(none.what.into()),
        };
        BundleFile {
            path: format!("diagnose/{}-{}.txt", service.namespace, service.name),
            what: format!("output of linkerd-mc diagnose {service}"),
            content: text.map(BundleContent::Text),
        }
    });
    files.buffered(AT_ONCE).collect().await
}

/// Services that are not mirrored, then one mirror of each Link.
fn services(snapshot: &FullSnapshot) -> impl Iterator<Item = ResourceId> {
    let missing = snapshot.links().iter().flat_map(missing);
    let mirrors = snapshot.mirrors.iter().flatten();
    let mut clusters = BTreeSet::new();
    let one_each = mirrors.filter(move |mirror| {
        let cluster = mirror.metadata.label(labels::CLUSTER_NAME);
        !cluster.is_empty() && clusters.insert(cluster.to_owned())
    });
    missing.chain(one_each.map(|mirror| mirror.metadata.resource_id()))
}

/// The names here of the Services of a Link that are not mirrored.
fn missing(link: &LinkSnapshot) -> impl Iterator<Item = ResourceId> {
    let cluster = link.cluster();
    let status = link.status().into_iter();
    status.flat_map(move |status| {
        let mirrors = status.mirror_services.iter();
        let mirrors = mirrors.map(move |of| (of, mirror_name(&of.remote_ref.name, cluster)));
        let members = status.federated_services.iter();
        let members = members.map(|of| (of, federated_name(&of.remote_ref.name)));
        let mut all: Vec<_> = mirrors.chain(members).collect();
        all.retain(|(of, _)| of.conditions.iter().any(|now| now.status != "True"));
        let ids = all.into_iter();
        ids.map(|(of, name)| ResourceId::new(of.remote_ref.namespace.as_str(), name.as_str()))
    })
}
