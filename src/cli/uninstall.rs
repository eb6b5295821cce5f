//! `linkerd-mc uninstall`: prints the objects of the extension, to delete them.

use clap::Args;
use futures::future::try_join_all;
use kube::{ResourceExt as _, api::ListParams};

use super::common::{
    args::{Global, ManifestOutput},
    cluster::Cluster,
    inventory::{self as objects, ApiKind},
    output,
};
use crate::{
    api::{labels, link::LinkObject},
    hint::fail,
    manifests::render::{Manifest, ObjectName},
};

const EXAMPLES: &str = "\
Examples:
  # Uninstall from the cluster of the current context
  linkerd-mc uninstall | kubectl delete -f -";

/// Kinds of installed objects, except those that are deleted with their Namespace, and Namespaces.
const KINDS: [ApiKind; 10] = [
    objects::CLUSTER_ROLE,
    objects::CLUSTER_ROLE_BINDING,
    objects::ROLE,
    objects::ROLE_BINDING,
    objects::CUSTOM_RESOURCE,
    objects::API_SERVICE,
    objects::MUTATING_WEBHOOK,
    objects::VALIDATING_WEBHOOK,
    objects::ADMISSION_BINDING,
    objects::ADMISSION_POLICY,
];

/// Kinds of installed objects that are deleted with their Namespace, and by name if it stays.
const IN_NAMESPACE: [ApiKind; 11] = [
    objects::DEPLOYMENT,
    objects::DISRUPTION_BUDGET,
    objects::SERVICE,
    objects::ENDPOINT_SLICE,
    objects::SERVER,
    objects::AUTHORIZATION_POLICY,
    objects::MESH_TLS_AUTHENTICATION,
    objects::NETWORK_AUTHENTICATION,
    objects::NETWORK_POLICY,
    objects::SECRET,
    objects::SERVICE_ACCOUNT,
];

/// Kinds of objects that keep a Namespace if they are not the extension's. Not those that every Namespace has.
const KEEPING: [ApiKind; 5] = [
    objects::DEPLOYMENT,
    objects::STATEFUL_SET,
    objects::DAEMON_SET,
    objects::VOLUME_CLAIM,
    objects::SERVICE,
];

/// Print the objects of the extension, to delete them with `kubectl delete -f -`
///
/// Fails if there are Links, because only the controller removes their mirrors. A namespace that is Linkerd's, or that
/// has workloads, Services or volumes of others, stays.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub(crate) async fn run(global: &Global, args: &Uninstall) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    refuse_links(&cluster).await?;
    let (found, kept) = installed(&cluster, &global.linkerd_namespace).await?;
    if found.is_empty() {
        return Err(fail(
            "the multicluster extension is not installed in this cluster",
            "choose another cluster with --context",
        ));
    }
    for (namespace, why) in kept {
        output::warning(&format!("the Namespace {namespace} stays: {why}"));
    }
    output::data(&args.output.format(&Manifest::of_names(found)?))
}

/// The installed objects, and the Namespaces that stay, with the reasons.
async fn installed(
    cluster: &Cluster,
    linkerd_namespace: &str,
) -> anyhow::Result<(Vec<ObjectName>, Vec<(String, String)>)> {
    let extension = format!(
        "({},{})",
        labels::EXTENSION_NAME,
        labels::EXTENSION_NAME_LEGACY
    );
    let ours = &format!("{} in {extension}", labels::EXTENSION);
    // The controller's own Services are not labelled as the extension.
    let others = format!(
        "{} notin {extension},!{},!{}",
        labels::EXTENSION,
        labels::MIRRORED_SERVICE,
        labels::MIRRORED_GATEWAY
    );
    let lists = KINDS.map(|kind| kind.list(cluster, None, ours));
    let mut found = try_join_all(lists).await?.concat();
    let mut kept = Vec::new();
    for namespace in objects::NAMESPACE.list(cluster, None, ours).await? {
        let name = namespace.name.as_str();
        let lists = KEEPING.map(|kind| kind.list(cluster, Some(name), &others));
        let why = match try_join_all(lists).await?.concat().first() {
            _ if name == linkerd_namespace => "it is Linkerd's".to_owned(),
            Some(other) => format!("it has the {} {}", other.kind, other.name),
            None => {
                found.push(namespace);
                continue;
            }
        };
        let lists = IN_NAMESPACE.map(|kind| kind.list(cluster, Some(name), ours));
        found.extend(try_join_all(lists).await?.concat());
        kept.push((namespace.name, why));
    }
    Ok((found, kept))
}

async fn refuse_links(cluster: &Cluster) -> anyhow::Result<()> {
    let all = cluster.all::<LinkObject>();
    let found = cluster
        .request_opt("list Links", all.list(&ListParams::default()))
        .await?;
    let links = found.into_iter().flatten().map(|object| object.link);
    let mut links: Vec<(String, String)> = links
        .map(|link| {
            let namespace = link.namespace().unwrap_or_default();
            (link.spec.target_cluster_name, namespace)
        })
        .collect();
    links.sort();
    links.dedup();
    let Some((cluster_name, namespace)) = links.first() else {
        return Ok(());
    };
    let names: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
    let unlink = cluster.flags.mc(
        "unlink --cluster-name {} --namespace {} --apply",
        &[cluster_name, namespace],
    );
    Err(fail(
        format!("this cluster is still linked to {}", names.join(", ")),
        format!("unlink each of them first, as with {unlink}"),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::{StreamExt as _, stream};
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;
    use crate::client::of_test_server;

    /// A cluster with these objects of the extension (`ours`) and of others, as `namespace/plural/name`.
    fn cluster(ours: &'static [&'static str], others: &'static [&'static str]) -> Cluster {
        let server = move |request: Request<Body>| {
            let uri = request.uri().to_string();
            let asked = if uri.contains("notin") { others } else { ours };
            let path = request.uri().path();
            let plural = path.rsplit('/').next().unwrap();
            let namespace = path
                .split("/namespaces/")
                .nth(1)
                .and_then(|rest| rest.split('/').next());
            let mut items = Vec::new();
            for object in asked {
                let parts: Vec<_> = object.split('/').collect();
                if parts[1] == plural && namespace.is_none_or(|namespace| namespace == parts[0]) {
                    let mut metadata = BTreeMap::from([("name", parts[2])]);
                    if !parts[0].is_empty() {
                        metadata.insert("namespace", parts[0]);
                    }
                    items.push(json!({ "metadata": metadata }));
                }
            }
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {}, "items": items,
            });
            let body = Bytes::from(list.to_string());
            let body = StreamBody::new(stream::iter([Ok(Frame::data(body))]).boxed());
            async { Ok::<_, BoxError>(Response::new(body)) }
        };
        Cluster::of_test_server(of_test_server(server))
    }

    #[tokio::test]
    async fn namespaces_with_objects_of_others_stay() {
        const OURS: &[&str] = &[
            "/clusterroles/reads",
            "mc/deployments/controller",
            "mc/serviceaccounts/controller",
            "/namespaces/mc",
        ];
        const ALL: &str = "ClusterRole reads, Namespace mc";
        const REST: &str = "ClusterRole reads, Deployment controller, ServiceAccount controller";
        let named = |found: &[ObjectName]| {
            let names = found
                .iter()
                .map(|object| format!("{} {}", object.kind, object.name));
            names.collect::<Vec<_>>().join(", ")
        };
        for (others, linkerd, expected, why) in [
            (&[][..], "linkerd", ALL, ""),
            (&["shop/deployments/web"], "linkerd", ALL, ""),
            (
                &["mc/deployments/web"],
                "linkerd",
                REST,
                "it has the Deployment web",
            ),
            (
                &["mc/services/web"],
                "linkerd",
                REST,
                "it has the Service web",
            ),
            (
                &["mc/statefulsets/db"],
                "linkerd",
                REST,
                "it has the StatefulSet db",
            ),
            (
                &["mc/daemonsets/cni"],
                "linkerd",
                REST,
                "it has the DaemonSet cni",
            ),
            (
                &["mc/persistentvolumeclaims/db"],
                "linkerd",
                REST,
                "it has the PersistentVolumeClaim db",
            ),
            (&[], "mc", REST, "it is Linkerd's"),
        ] {
            let (found, kept) = installed(&cluster(OURS, others), linkerd).await.unwrap();
            assert_eq!(named(&found), expected, "{others:?}");
            let kept: Vec<_> = kept
                .into_iter()
                .map(|(name, why)| format!("{name}: {why}"))
                .collect();
            let why = if why.is_empty() {
                vec![]
            } else {
                vec![format!("mc: {why}")]
            };
            assert_eq!(kept, why);
        }
    }
}
