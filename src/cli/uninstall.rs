//! `linkerd-mc uninstall`: prints the objects of the extension, to delete them.

use clap::Args;
use client::Cluster;
use futures::future::try_join_all;
use hints::{hint::fail, prose::counted};
use kube::{ResourceExt as _, api::ListParams, core::ObjectMeta};
use links::{
    inventory as objects,
    inventory::{ApiKind, ListedObject},
};
use manifests::render::{Manifest, ObjectName};
use mirror_core::api::{labels, link::LinkObject, members::remote_members};
use observe::clusters::collect::older_links;

use super::common::{
    args::{Global, ManifestOutput},
    output,
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
const KEEPING: [ApiKind; 9] = [
    objects::DEPLOYMENT,
    objects::STATEFUL_SET,
    objects::DAEMON_SET,
    objects::CRON_JOB,
    objects::JOB,
    objects::REPLICA_SET,
    objects::POD,
    objects::VOLUME_CLAIM,
    objects::SERVICE,
];

/// Print the objects of the extension, to delete them with `kubectl delete -f -`
///
/// Fails if there are Links, because only the controller removes their mirrors, and if mirrors of deleted Links are
/// left. A namespace that is Linkerd's, or that
/// has workloads, Services or volumes of others, stays.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Uninstall {
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub async fn run(global: &Global, args: &Uninstall) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    refuse_links(&cluster).await?;
    refuse_mirrors(&cluster).await?;
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
    output::data(&args.output.format(&Manifest::of_names(found)?)?)
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
    let mut found: Vec<ObjectName> = names(try_join_all(lists).await?).collect();
    let mut kept = Vec::new();
    for namespace in objects::NAMESPACE.list(cluster, None, ours).await? {
        let name = namespace.name();
        let why = match keeping(cluster, name, &others).await? {
            _ if name == linkerd_namespace => "it is Linkerd's".to_owned(),
            Some(other) => format!("it has the {} {}", other.kind, other.name),
            None => {
                found.push(namespace.object);
                continue;
            }
        };
        let lists = IN_NAMESPACE.map(|kind| kind.list(cluster, Some(name), ours));
        found.extend(names(try_join_all(lists).await?));
        kept.push((namespace.object.name, why));
    }
    Ok((found, kept))
}

fn names(lists: Vec<Vec<ListedObject>>) -> impl Iterator<Item = ObjectName> {
    lists.into_iter().flatten().map(|listed| listed.object)
}

/// The first of others' objects that keeps a Namespace.
async fn keeping(
    cluster: &Cluster,
    namespace: &str,
    others: &str,
) -> anyhow::Result<Option<ObjectName>> {
    let lists = KEEPING.map(|kind| kind.list_metadata(cluster, Some(namespace), others));
    let lists = try_join_all(lists).await?;
    Ok(KEEPING.into_iter().zip(lists).find_map(|(kind, list)| {
        let first = list.iter().find(|metadata| !is_controlled(metadata))?;
        Some(kind.of_metadata(first))
    }))
}

/// Whether the object belongs to one that [`keeping`] looks at itself. Pods of the extension have no label of it.
fn is_controlled(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners
        .any(|owner| owner.controller == Some(true) && KEEPING.iter().any(|kind| kind.is_of(owner)))
}

async fn refuse_links(cluster: &Cluster) -> anyhow::Result<()> {
    let all = cluster.all::<LinkObject>();
    let found = cluster
        .request_opt("list Links", all.list(&ListParams::default()))
        .await?;
    if found.is_none()
        && let Some(older) = older_links(&cluster.client).await
    {
        return Err(fail(
            older,
            "delete its Links with the version of Linkerd that made them: deleting the CRD would delete them, and their \
             mirrors with them",
        ));
    }
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
        "unlink {} --namespace {} --apply",
        &[cluster_name, namespace],
    );
    Err(fail(
        format!("this cluster is still linked to {}", names.join(", ")),
        format!("unlink each of them first, as with {unlink}"),
    ))
}

/// Fails if Services are left that the controller wrote: without it, their endpoints stay as they are. Those that were
/// handed back to Linkerd's service mirror are not the controller's any more.
async fn refuse_mirrors(cluster: &Cluster) -> anyhow::Result<()> {
    let mirrored = format!("{}=true", labels::MIRRORED_SERVICE);
    let mut found = objects::SERVICE
        .list_metadata(cluster, None, &mirrored)
        .await?;
    found.retain(|mirror| annotation(mirror, labels::MANAGED_BY).is_some());
    let Some(first) = found.first() else {
        return Ok(());
    };
    let name = objects::SERVICE.of_metadata(first);
    let namespace = name.namespace.as_deref().unwrap_or_default();
    let own = first.labels.as_ref();
    let own = own.and_then(|all| all.get(labels::CLUSTER_NAME));
    let of = own.map(String::as_str).or_else(|| {
        let mut members = remote_members(|key| annotation(first, key));
        members.next().map(|(_, cluster)| cluster)
    });
    let delete = if let Some(of) = of {
        let links = annotation(first, labels::INSTALLATION);
        cluster.flags.mc(
            "unlink {} --namespace {} --apply",
            &[of, links.unwrap_or(labels::MULTICLUSTER_NAMESPACE)],
        )
    } else {
        cluster
            .flags
            .kubectl("-n {} delete service {}", &[namespace, &name.name])
    };
    Err(fail(
        format!(
            "this cluster still has {} without a Link, such as {namespace}/{}",
            counted(found.len(), "mirror"),
            name.name
        ),
        format!("wait until the controller has removed them, or delete them, as with {delete}"),
    ))
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let all = metadata.annotations.as_ref()?;
    all.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use hints::hint::hint_of;
    use links::test_server::TestServer;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: ApiKind, namespace: &str, name: &str) -> Value {
        let object = kind.named(None, String::new());
        let mut metadata = json!({ "name": name });
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        json!({ "apiVersion": object.api_version, "kind": object.kind, "metadata": metadata })
    }

    /// An object of the extension.
    fn ours(kind: ApiKind, namespace: &str, name: &str) -> Value {
        let mut object = object(kind, namespace, name);
        object["metadata"]["labels"] = json!({ labels::EXTENSION: labels::EXTENSION_NAME });
        object
    }

    /// An object that another one controls.
    fn controlled(by: (&str, &str), mut object: Value) -> Value {
        let (api_version, kind) = by;
        object["metadata"]["ownerReferences"] = json!([
            { "apiVersion": api_version, "kind": kind, "name": "any", "uid": "any", "controller": true },
        ]);
        object
    }

    #[tokio::test]
    async fn namespaces_with_objects_of_others_stay() {
        const ALL: &str = "ClusterRole reads, Namespace mc";
        const REST: &str = "ClusterRole reads, Deployment controller, ServiceAccount controller";
        let named = |found: &[ObjectName]| {
            let names = found
                .iter()
                .map(|object| format!("{} {}", object.kind, object.name));
            names.collect::<Vec<_>>().join(", ")
        };
        let extension = [
            ours(objects::CLUSTER_ROLE, "", "reads"),
            ours(objects::DEPLOYMENT, "mc", "controller"),
            ours(objects::SERVICE_ACCOUNT, "mc", "controller"),
            ours(objects::NAMESPACE, "", "mc"),
            controlled(
                ("apps/v1", "Deployment"),
                object(objects::REPLICA_SET, "mc", "controller"),
            ),
            controlled(
                ("apps/v1", "ReplicaSet"),
                object(objects::POD, "mc", "controller"),
            ),
        ];
        let rollout = ("argoproj.io/v1alpha1", "Rollout");
        let mut cases = vec![
            (None, "linkerd", ""),
            (
                Some(object(objects::DEPLOYMENT, "shop", "web")),
                "linkerd",
                "",
            ),
            (None, "mc", "it is Linkerd's"),
            (
                Some(controlled(
                    rollout,
                    object(objects::REPLICA_SET, "mc", "web"),
                )),
                "linkerd",
                "it has the ReplicaSet web",
            ),
        ];
        for (kind, why) in [
            (objects::DEPLOYMENT, "it has the Deployment web"),
            (objects::SERVICE, "it has the Service web"),
            (objects::STATEFUL_SET, "it has the StatefulSet web"),
            (objects::DAEMON_SET, "it has the DaemonSet web"),
            (objects::CRON_JOB, "it has the CronJob web"),
            (objects::JOB, "it has the Job web"),
            (objects::REPLICA_SET, "it has the ReplicaSet web"),
            (objects::POD, "it has the Pod web"),
            (
                objects::VOLUME_CLAIM,
                "it has the PersistentVolumeClaim web",
            ),
        ] {
            cases.push((Some(object(kind, "mc", "web")), "linkerd", why));
        }
        for (other, linkerd, why) in cases {
            let mut objects = extension.to_vec();
            objects.extend(other);
            let cluster = TestServer::new(objects).cluster();
            let (found, kept) = installed(&cluster, linkerd).await.unwrap();
            let expected = if why.is_empty() { ALL } else { REST };
            assert_eq!(named(&found), expected, "{why}");
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

    #[tokio::test]
    async fn mirrors_of_deleted_links_are_not_left_behind() {
        let mirror = |labels: &Value, annotations: &Value| {
            let mut mirror = object(objects::SERVICE, "shop", "web-east");
            mirror["metadata"]["labels"] = labels.clone();
            mirror["metadata"]["labels"][labels::MIRRORED_SERVICE] = "true".into();
            mirror["metadata"]["annotations"] = annotations.clone();
            mirror
        };
        let of_east = json!({ labels::CLUSTER_NAME: "east" });
        let by_us =
            |more: (&str, &str)| json!({ labels::MANAGED_BY: labels::MANAGER, more.0: more.1 });
        for (labels, annotations, expected) in [
            // Linkerd's, also after they were handed back.
            (&of_east, json!({}), None),
            (
                &of_east,
                by_us((labels::INSTALLATION, "mc")),
                Some("unlink east --namespace mc --apply`"),
            ),
            (
                &json!({}),
                by_us((labels::REMOTE_DISCOVERY, "web@north")),
                Some("unlink north --apply`"),
            ),
            // No cluster is left whose link `unlink` could delete.
            (
                &json!({}),
                by_us((labels::REMOTE_DISCOVERY, "")),
                Some("-n shop delete service web-east`"),
            ),
        ] {
            let server = TestServer::new(vec![mirror(labels, &annotations)]);
            let refused = refuse_mirrors(&server.cluster()).await.err();
            let said = refused.as_ref().map(ToString::to_string);
            assert_eq!(
                said.as_deref(),
                expected.map(
                    |_| "this cluster still has 1 mirror without a Link, such as shop/web-east"
                )
            );
            let hint = refused.as_ref().and_then(hint_of).unwrap_or_default();
            assert!(hint.ends_with(expected.unwrap_or_default()), "{hint}");
        }
    }
}
