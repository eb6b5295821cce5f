//! `linkerd-mc unlink`: what to delete so that a cluster is linked no more, or deleting it.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
};

use super::{
    args::{self, Global, Output},
    cluster::{Cluster, block_on},
    inventory::{self as objects, delete},
    output,
};
use crate::{
    api::{k8s::Service, labels, link::Link},
    hint::fail,
    manifests::{
        identity::{self, Identity},
        link::ClusterName,
    },
};

const EXAMPLES: &str = "\
Examples:
  # Delete the link to east, and wait until its mirrors are gone
  linkerd-mc unlink --cluster-name east --apply

  # See what there is, and delete it by hand
  linkerd-mc unlink --cluster-name east
  linkerd-mc unlink --cluster-name east | kubectl delete --ignore-not-found -f -

  # Only what Linkerd's own `multicluster link` and `controllers` left behind
  linkerd-mc unlink --cluster-name east --only-controller | kubectl delete -f -";

/// Time between two looks at mirrors that are on their way out.
const RETRY: Duration = Duration::from_millis(500);

/// Print what links a cluster to this one, for `kubectl delete -f -`, or delete it
///
/// These are the Link, both Secrets, the probe Service, every mirror, federated Services that have no
/// other member, and what Linkerd's own controllers for this link left behind; those that exist.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Unlink {
    /// Name of the target cluster
    #[arg(long, value_name = "NAME")]
    cluster_name: ClusterName,
    /// Namespace of the Link
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace)]
    namespace: String,
    /// Only what Linkerd's own controllers for this link left behind
    #[arg(long)]
    only_controller: bool,
    /// Delete the link, and wait until the controller has removed the mirrors
    #[arg(long)]
    apply: bool,
    /// With --apply: do not ask
    #[arg(long, requires = "apply")]
    yes: bool,
    /// With --apply: wait this long
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration, requires = "apply")]
    wait: Duration,
    #[command(flatten)]
    output: Output,
}

/// What links a cluster to this one.
#[derive(Debug, Default)]
struct Linked {
    links: Vec<Identity>,
    secrets: Vec<Identity>,
    /// Objects of Linkerd's own controllers for this link.
    leftovers: Vec<Identity>,
    mirrors: Mirrors,
}

/// Services that are there because of a link.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mirrors {
    /// The probe Service and mirrors.
    own: Vec<Identity>,
    /// Federated Services that have no other member.
    federated: Vec<Identity>,
    /// Federated Services that have other members too.
    shared: Vec<Identity>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Unlink) -> anyhow::Result<()> {
    block_on(unlink(global, args))
}

async fn unlink(global: &Global, args: &Unlink) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    let mut linked = Box::pin(Linked::gather(&cluster, args, &global.linkerd_namespace)).await?;
    if args.only_controller {
        linked = Linked {
            leftovers: linked.leftovers,
            ..Default::default()
        };
    }
    if linked.is_empty() {
        return Err(nothing_there(&cluster, args).await);
    }
    if args.apply {
        return apply(&cluster, args, linked).await;
    }
    for service in &linked.mirrors.shared {
        output::note(&format!(
            "note: the federated Service {} has other members; the controller takes this one out",
            path(service)
        ));
    }
    output::data(&args.output.format(&identity::manifest(linked.all())?))
}

async fn apply(cluster: &Cluster, args: &Unlink, linked: Linked) -> anyhow::Result<()> {
    let (name, count) = (&args.cluster_name, linked.mirrors.len());
    let question = format!("Delete the link to {name}, and its {count} mirrors?");
    if !args.yes && !confirmed(&question)? {
        return Err(fail("nothing was deleted", "--yes deletes without asking"));
    }
    let had_link = !linked.links.is_empty();
    // The Link first: while it is there, the controller makes again what is deleted.
    for object in linked
        .links
        .iter()
        .chain(&linked.secrets)
        .chain(&linked.leftovers)
    {
        delete(cluster, object).await?;
    }
    if args.only_controller {
        return Ok(());
    }
    // Without a Link no controller knows that these mirrors are to go.
    if !had_link {
        for object in linked.mirrors.own.iter().chain(&linked.mirrors.federated) {
            delete(cluster, object).await?;
        }
    }
    let started = Instant::now();
    let progress = output::spinner(&format!("waiting until {count} mirrors of {name} are gone"));
    loop {
        let left = Mirrors::gather(cluster, name).await?.len();
        if left == 0 {
            break;
        }
        progress.set_message(format!("waiting until {left} mirrors of {name} are gone"));
        if started.elapsed() >= args.wait {
            return Err(fail(
                format!("{left} mirrors of {name} are still there"),
                format!(
                    "is the controller running? `linkerd-mc unlink --cluster-name {name} | kubectl delete -f -` does without"
                ),
            ));
        }
        tokio::time::sleep(RETRY).await;
    }
    progress.finish_and_clear();
    output::note(&format!(
        "the link to {name} is gone, and so are its mirrors"
    ));
    Ok(())
}

impl Linked {
    async fn gather(cluster: &Cluster, args: &Unlink, linkerd: &str) -> anyhow::Result<Self> {
        let (name, namespace) = (&args.cluster_name, args.namespace.as_str());
        let of_cluster = format!("{}={name}", labels::CLUSTER_NAME);
        let credentials = format!("{}={name}", labels::CREDENTIALS_CLUSTER);
        let (links, leftovers, control_plane_secrets, mirrors) = futures::try_join!(
            links(cluster, namespace),
            leftovers(cluster, namespace, name, &of_cluster),
            objects::SECRET.list(cluster, Some(linkerd), &credentials),
            Mirrors::gather(cluster, name),
        )?;
        let links: Vec<Link> = links
            .into_iter()
            .filter(|link| link.spec.target_cluster_name == name.to_string())
            .collect();
        let mut names: Vec<String> = links
            .iter()
            .map(|link| link.spec.cluster_credentials_secret.clone())
            .filter(|name| !name.is_empty())
            .chain([name.credentials_secret()])
            .collect();
        names.sort();
        names.dedup();
        let mut secrets = objects::SECRET
            .with_names(cluster, namespace, &names)
            .await?;
        secrets.extend(control_plane_secrets);
        Ok(Self {
            links: links
                .iter()
                .map(|link| objects::LINK.named(link.namespace(), link.name_any()))
                .collect(),
            secrets,
            leftovers,
            mirrors,
        })
    }

    fn is_empty(&self) -> bool {
        self.links.is_empty()
            && self.secrets.is_empty()
            && self.leftovers.is_empty()
            && self.mirrors.len() == 0
    }

    fn all(self) -> impl Iterator<Item = Identity> {
        let Mirrors { own, federated, .. } = self.mirrors;
        [self.links, self.secrets, self.leftovers, own, federated]
            .into_iter()
            .flatten()
    }
}

impl Mirrors {
    async fn gather(cluster: &Cluster, name: &ClusterName) -> anyhow::Result<Self> {
        let services = Api::<PartialObjectMeta<Service>>::all(cluster.client.clone());
        let list = async |selector: String| {
            let params = ListParams::default().labels(&selector);
            cluster
                .request("list mirrors", services.list_metadata(&params))
                .await
        };
        let (own, federated) = futures::try_join!(
            list(format!("{}={name}", labels::CLUSTER_NAME)),
            list(format!(
                "{}=true,!{}",
                labels::MIRRORED_SERVICE,
                labels::CLUSTER_NAME
            )),
        )?;
        let own: Vec<ObjectMeta> = own
            .items
            .into_iter()
            .map(|object| object.metadata)
            .collect();
        let federated: Vec<ObjectMeta> = federated
            .items
            .into_iter()
            .map(|object| object.metadata)
            .collect();
        Ok(Self::sort(&name.to_string(), &own, &federated))
    }

    /// Tells what is there only for `cluster`. `own` has its label, `federated` are all federated Services.
    fn sort(cluster: &str, own: &[ObjectMeta], federated: &[ObjectMeta]) -> Self {
        let identity = |meta: &ObjectMeta| {
            objects::SERVICE.named(
                meta.namespace.clone(),
                meta.name.clone().unwrap_or_default(),
            )
        };
        let has = |map: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        let mut mirrors = Self {
            // A Service with the cluster's label alone is somebody else's.
            own: own
                .iter()
                .filter(|meta| {
                    has(&meta.labels, labels::MIRRORED_SERVICE)
                        || has(&meta.labels, labels::MIRRORED_GATEWAY)
                })
                .map(identity)
                .collect(),
            ..Default::default()
        };
        for meta in federated {
            let remote = meta
                .annotations
                .as_ref()
                .and_then(|all| all.get(labels::REMOTE_DISCOVERY))
                .map_or("", String::as_str);
            let members = || remote.split(',').filter(|member| !member.is_empty());
            let is_of_cluster =
                |member: &str| member.split_once('@').is_some_and(|(_, of)| of == cluster);
            if !members().any(is_of_cluster) {
                continue;
            }
            if has(&meta.annotations, labels::LOCAL_DISCOVERY) || !members().all(is_of_cluster) {
                mirrors.shared.push(identity(meta));
            } else {
                mirrors.federated.push(identity(meta));
            }
        }
        mirrors
    }

    fn len(&self) -> usize {
        self.own.len() + self.federated.len() + self.shared.len()
    }
}

/// Links of a namespace; none where there is no such kind.
async fn links(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Link>> {
    let api = Api::<Link>::namespaced(cluster.client.clone(), namespace);
    let found = cluster
        .request_opt("list Links", api.list(&ListParams::default()))
        .await?;
    Ok(found.map(|list| list.items).unwrap_or_default())
}

/// What Linkerd's own `link` and `controllers` made for this link. We make nothing with this label but Services.
async fn leftovers(
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
    of_cluster: &str,
) -> anyhow::Result<Vec<Identity>> {
    let here = Some(namespace);
    let budgets =
        ["linkerd-service-mirror-", "controller-"].map(|prefix| format!("{prefix}{name}"));
    let leases = [format!("service-mirror-write-{name}")];
    let kinds = [
        (objects::DEPLOYMENT, here),
        (objects::CLUSTER_ROLE, None),
        (objects::CLUSTER_ROLE_BINDING, None),
        (objects::ROLE, here),
        (objects::ROLE_BINDING, here),
        (objects::SERVICE_ACCOUNT, here),
    ];
    let lists = kinds.map(|(kind, namespace)| Box::pin(kind.list(cluster, namespace, of_cluster)));
    let (labelled, budgets, leases) = futures::try_join!(
        futures::future::try_join_all(lists),
        objects::DISRUPTION_BUDGET.with_names(cluster, namespace, &budgets),
        objects::LEASE.with_names(cluster, namespace, &leases),
    )?;
    Ok([labelled.concat(), budgets, leases].concat())
}

async fn nothing_there(cluster: &Cluster, args: &Unlink) -> anyhow::Error {
    let known = links(cluster, &args.namespace).await.unwrap_or_default();
    let mut names: Vec<_> = known
        .into_iter()
        .map(|link| link.spec.target_cluster_name)
        .collect();
    names.sort();
    let hint = if names.is_empty() {
        "there are no Links at all; --namespace says where to look".to_owned()
    } else {
        format!("linked clusters: {}", names.join(", "))
    };
    fail(
        format!(
            "nothing links the cluster {:?} to the namespace {:?}",
            args.cluster_name.to_string(),
            args.namespace
        ),
        hint,
    )
}

/// Asks a person, who types yes or no. In a pipe nobody can be asked.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(fail(
            "nobody can be asked whether to delete this",
            "--yes deletes without asking",
        ));
    }
    // A line, not a key: the cursor stays visible, also when Ctrl-C ends the program here.
    let answer: String = dialoguer::Input::new()
        .with_prompt(format!("{question} [y/N]"))
        .allow_empty(true)
        .interact()?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn path(identity: &Identity) -> String {
    let namespace = identity.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", identity.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metas(all: serde_json::Value) -> Vec<ObjectMeta> {
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn only_what_is_there_for_the_cluster_alone_is_deleted() {
        let own = metas(json!([
            { "name": "web-east", "namespace": "shop", "labels": { "mirror.linkerd.io/mirrored-service": "true" } },
            { "name": "probe-east", "namespace": "mc", "labels": { "mirror.linkerd.io/mirrored-gateway": "true" } },
            { "name": "mine", "namespace": "shop", "labels": { "mirror.linkerd.io/cluster-name": "east" } },
        ]));
        let remote = "multicluster.linkerd.io/remote-discovery";
        let local = "multicluster.linkerd.io/local-discovery";
        let federated = metas(json!([
            { "name": "only-east", "namespace": "shop", "annotations": { remote: "a@east,b@east" } },
            { "name": "with-north", "namespace": "shop", "annotations": { remote: "a@east,a@north" } },
            { "name": "with-local", "namespace": "shop", "annotations": { remote: "a@east", local: "a" } },
            { "name": "without", "namespace": "shop", "annotations": { remote: "a@eastern" } },
            { "name": "empty", "namespace": "shop", "annotations": { remote: "", local: "a" } },
        ]));
        let Mirrors {
            own,
            federated,
            shared,
        } = Mirrors::sort("east", &own, &federated);
        let paths = |all: &[Identity]| all.iter().map(path).collect::<Vec<_>>();
        assert_eq!(paths(&own), ["shop/web-east", "mc/probe-east"]);
        assert_eq!(paths(&federated), ["shop/only-east"]);
        assert_eq!(paths(&shared), ["shop/with-north", "shop/with-local"]);
    }
}
