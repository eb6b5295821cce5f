//! `linkerd-mc hand-back`: hands mirrors back to Linkerd's service mirror without interrupting traffic.
//!
//! Linkerd's service mirror writes v1 Endpoints, and Kubernetes creates slices for these. It writes no Endpoints for
//! mirrors that it considers up to date, nor for hosts whose mirror exists, so this command writes them. Then our
//! slices can be deleted. If an address is in two slices, Linkerd's destination controller stores it only once. When
//! one of the slices is deleted, it drops the address until the other slice changes. So the command writes the other
//! slice once more.

mod endpoints;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use client::{Cluster, timing};
use futures::{StreamExt as _, TryStreamExt as _};
use hints::{hint::fail, prose::counted};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams},
};
use links::poll::poll;
use mirror_core::api::{
    labels as l, link::Link, members::MEMBERS, metadata::ResourceId, text::one_line,
};
use observe::clusters::leader::leader;
use serde_json::{Map, Value, json};

use super::common::{
    args::{self, Global},
    complete,
    interrupt::on_interrupt,
    output,
    prompt::{canceled, confirmed},
    wait::spin,
};

const EXAMPLES: &str = "\
Examples:
  # List the mirrors that would be handed back
  linkerd-mc hand-back --dry-run

  # Stop the controller, then hand all mirrors back
  kubectl -n linkerd-multicluster scale deployment \\
    linkerd-multicluster-controller --replicas=0
  linkerd-mc hand-back --yes";

/// Annotation of slices that Kubernetes created: when they were written again, after ours were deleted.
const WRITTEN_AGAIN: &str = "mirror.linkerd.io/written-again";
/// Services that are processed concurrently.
const AT_ONCE: usize = 8;
/// Poll interval for the slices that Kubernetes creates.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Hand all mirrors back to Linkerd's service mirror without interrupting traffic
///
/// Writes v1 Endpoints for each mirror, waits until Kubernetes has created EndpointSlices for them, and deletes those
/// of linkerd-mc. Federated Services keep their slices. Services keep their addresses and lose the annotations of
/// linkerd-mc; Links lose their status. Stop the controller first, and start Linkerd's service mirror afterwards. If the
/// command is interrupted, run it again.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct HandBack {
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = l::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Show what would be done, with the mirrors that would be handed back, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// How long to wait for the EndpointSlices of each mirror
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

impl HandBack {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        !self.dry_run
    }
}

/// Runs the command.
pub async fn run(global: &Global, args: &HandBack) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    if !args.dry_run {
        require_stopped(&cluster, &args.namespace).await?;
    }
    let mirrors = Mirror::gather(&cluster, &args.namespace).await?;
    if args.dry_run {
        output::note(&format!(
            "would hand back {}",
            counted(mirrors.len(), "Service")
        ));
        let names = mirrors.iter().map(|mirror| one_line(&mirror.to_string()));
        let mut names: Vec<String> = names.collect();
        names.push(String::new()); // for the end of the last line
        return output::data(&names.join("\n"));
    }
    let count = counted(mirrors.len(), "Service");
    let otherwise = "pass --yes to hand them back without confirmation";
    let question = format!("Hand back {count} to Linkerd's service mirror?");
    if !args.yes && !mirrors.is_empty() && !confirmed(&question, otherwise)? {
        return Err(canceled());
    }
    on_interrupt(
        "a part of the mirrors may be handed back",
        "run the same command again, which does the rest",
    );
    forget_statuses(&cluster, &args.namespace).await?;
    let work = futures::stream::iter(mirrors)
        .map(|mirror| {
            let cluster = &cluster;
            async move { mirror.hand_back(cluster, args.wait).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>();
    spin("handing back mirrors", work).await?;
    // A controller that has started meanwhile would take them over again.
    require_stopped(&cluster, &args.namespace).await?;
    output::note(&format!(
        "handed back {count}; you can now start Linkerd's service mirror"
    ));
    Ok(())
}

/// Fails if a controller holds the lease, or if its Deployment would start one: it would create again what is deleted
/// here.
async fn require_stopped(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let leader = leader(&cluster.client, namespace).await;
    let leading = leader
        .map_err(|why| anyhow::anyhow!("failed to read the lease: {why}"))?
        .filter(|leader| leader.active);
    let what = "read the controller's Deployment";
    let deployment = cluster.get::<Deployment>(what, namespace, l::CONTROLLER_NAME);
    let is_wanted = deployment.await?.is_some_and(|found| {
        let wanted = found.spec.and_then(|spec| spec.replicas);
        wanted.unwrap_or(1) > 0
    });
    if leading.is_none() && !is_wanted {
        return Ok(());
    }
    let stop = cluster.flags.kubectl(
        "-n {} scale deployment {} --replicas=0",
        &[namespace, l::CONTROLLER_NAME],
    );
    // An interrupted `take-over` holds the lease for ever.
    let is_taken_over =
        leading.is_some_and(|leader| leader.holder.as_deref() == Some(l::TAKE_OVER_HOLDER));
    if is_taken_over && !is_wanted {
        let release = cluster
            .flags
            .kubectl("-n {} delete lease {}", &[namespace, l::LEASE_NAME]);
        return Err(fail(
            format!("an interrupted take-over holds the lease in namespace {namespace:?}"),
            format!("if no take-over runs any more, delete the lease with {release}"),
        ));
    }
    let hint = if is_wanted {
        format!("stop it first with {stop}")
    } else {
        "wait until its lease has expired, or stop the process that holds it".to_owned()
    };
    Err(fail(
        format!(
            "the controller is running in namespace {namespace:?}, and would take the mirrors back"
        ),
        hint,
    ))
}

/// Clears the status of the Links, because it is no longer updated. Whoever waits for `Ready` after the controller is
/// started again must not see the old value.
pub async fn forget_statuses(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let api = cluster.api::<PartialObjectMeta<Link>>(namespace);
    let params = ListParams::default();
    let found = api.list_metadata(&params);
    let links = cluster.request("list Links", found).await?;
    let api = cluster.api::<Link>(namespace);
    let (params, none) = (
        PatchParams::default(),
        Patch::Merge(json!({ "status": null })),
    );
    for link in links {
        let name = link.name_any();
        let patched = api.patch_status(&name, &params, &none);
        let what = format!("clear the status of the Link {namespace}/{name}");
        cluster.request_opt(&what, patched).await?;
    }
    Ok(())
}

/// A Service to hand back: a mirror, a host's mirror, a federated Service, or a probe Service.
struct Mirror {
    service: ResourceId,
    /// Our slices, which Endpoints replace. None of a federated Service: its slices stay. Linkerd's service mirror names the
    /// members of the Service, with which Linkerd ignores slices. It has no Endpoints for it, so nobody would remove those
    /// that we wrote.
    ours: Vec<EndpointSlice>,
}

impl std::fmt::Display for Mirror {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.service, out)
    }
}

impl Mirror {
    /// All Services of an installation. They keep our annotations until they are handed back completely.
    async fn gather(cluster: &Cluster, installation: &str) -> anyhow::Result<Vec<Self>> {
        let services = cluster.all::<PartialObjectMeta<Service>>();
        let slices = cluster.all::<EndpointSlice>();
        let list = async |label: &str| {
            let params = ListParams::default().labels(label);
            let found = services.list_metadata(&params);
            cluster.request("list mirrors", found).await
        };
        let ours = format!("{}={}", l::SLICE_MANAGED_BY, l::MANAGER);
        let params = ListParams::default().labels(&ours);
        let (mirrors, probes, slices) = futures::try_join!(
            list(l::MIRRORED_SERVICE),
            list(l::MIRRORED_GATEWAY),
            cluster.request("list EndpointSlices", slices.list(&params)),
        )?;
        let mut of_services = BTreeMap::<ResourceId, Vec<EndpointSlice>>::new();
        for slice in slices {
            if let Some(service) = service_of(&slice) {
                of_services.entry(service).or_default().push(slice);
            }
        }
        let all = mirrors.into_iter().chain(probes);
        let own = all.filter(|service| {
            let annotations = service.annotations();
            let of = annotations.get(l::INSTALLATION);
            annotations.contains_key(l::MANAGED_BY) && of.is_none_or(|of| of == installation)
        });
        let own: BTreeMap<ResourceId, bool> = own
            .map(|service| (ResourceId::of(&service), is_federated(&service)))
            .collect();
        Ok(own
            .into_iter()
            .map(|(service, is_federated)| Self {
                ours: of_services
                    .remove(&service)
                    .filter(|_| !is_federated)
                    .unwrap_or_default(),
                service,
            })
            .collect())
    }

    async fn hand_back(&self, cluster: &Cluster, wait: Duration) -> anyhow::Result<()> {
        let slices = cluster.api::<EndpointSlice>(&self.service.namespace);
        if !self.ours.is_empty() {
            self.write_endpoints(cluster).await?;
            self.wait_for_theirs(cluster, &slices, wait).await?;
        }
        for slice in &self.ours {
            let name = slice.name_any();
            let params = DeleteParams::default();
            let deleted = slices.delete(&name, &params);
            let what = format!("delete the EndpointSlice {}/{name}", self.service.namespace);
            cluster.request_opt(&what, deleted).await?;
        }
        // Linkerd reads these slices again, in case it dropped addresses.
        let now = timing::now().to_string();
        let patch = json!({ "metadata": { "annotations": { WRITTEN_AGAIN: now } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        for slice in self.theirs(cluster, &slices).await? {
            let name = slice.name_any();
            let patched = slices.patch(&name, &params, &patch);
            let what = format!("change the EndpointSlice {}/{name}", self.service.namespace);
            cluster.request_opt(&what, patched).await?;
        }
        let services = cluster.api::<Service>(&self.service.namespace);
        // Without our annotations, our controller removes these Endpoints if it adopts the Service again.
        let unsigned = l::SIGNATURE.map(|key| (key.to_owned(), Value::Null));
        let unsigned = json!({ "metadata": { "annotations": Map::from_iter(unsigned) } });
        let patch = Patch::Merge(&unsigned);
        let patched = services.patch_metadata(&self.service.name, &params, &patch);
        let what = format!("change the Service {self}");
        cluster.request_opt(&what, patched).await?;
        Ok(())
    }

    /// Writes Endpoints with the addresses of our slices. If those that exist have all addresses, they stay as they
    /// are: Linkerd's service mirror or an interrupted run wrote them. Others are replaced: Kubernetes leaves some
    /// behind if a mirror had a selector for a while.
    async fn write_endpoints(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let ResourceId { namespace, name } = &self.service;
        let api = cluster.api::<Endpoints>(namespace);
        let what = format!("read the Endpoints {self}");
        let known = cluster.get::<Endpoints>(&what, namespace, name).await?;
        let mut endpoints = endpoints::of_slices(namespace, name, &self.ours);
        let params = PostParams::default();
        let Some(known) = known else {
            let what = format!("create the Endpoints {self}");
            let created = api.create(&params, &endpoints);
            return cluster.request(&what, created).await.map(|_| ());
        };
        if endpoints::has_all(&known, &self.ours) {
            return Ok(());
        }
        endpoints.metadata.resource_version = known.metadata.resource_version;
        let what = format!("replace the Endpoints {self}");
        let replaced = api.replace(name, &params, &endpoints);
        cluster.request(&what, replaced).await.map(|_| ())
    }

    /// Waits until the slices that Kubernetes makes have all addresses of ours.
    async fn wait_for_theirs(
        &self,
        cluster: &Cluster,
        slices: &Api<EndpointSlice>,
        wait: Duration,
    ) -> anyhow::Result<()> {
        let wanted: BTreeSet<&str> = endpoints::addresses(&self.ours).collect();
        let attempt = async || {
            let theirs = self.theirs(cluster, slices).await?;
            let there: BTreeSet<&str> = endpoints::addresses(&theirs).collect();
            anyhow::Ok(wanted.is_subset(&there).then_some(()).ok_or(()))
        };
        poll(POLL_INTERVAL, wait, attempt, |()| ()).await?.map_err(|()| {
            fail(
                format!("Kubernetes created no EndpointSlices for the Endpoints {self} within {wait:?}"),
                "check that kube-controller-manager runs endpointslice-mirroring-controller; nothing of this mirror was deleted",
            )
        })
    }

    /// The slices that Kubernetes created for its Endpoints.
    async fn theirs(
        &self,
        cluster: &Cluster,
        slices: &Api<EndpointSlice>,
    ) -> anyhow::Result<Vec<EndpointSlice>> {
        let selector = format!(
            "{}={},{}={}",
            l::SLICE_SERVICE,
            self.service.name,
            l::SLICE_MANAGED_BY,
            l::ENDPOINTS_MIRRORING
        );
        let params = ListParams::default().labels(&selector);
        let found = cluster.request("list EndpointSlices", slices.list(&params));
        Ok(found.await?.items)
    }
}

/// Whether a Service of ours is a federated one: it names its members.
fn is_federated(service: &impl kube::ResourceExt) -> bool {
    let mut keys = MEMBERS.iter().flatten();
    keys.any(|key| service.annotations().contains_key(*key))
}

/// The Service of a slice.
fn service_of(slice: &EndpointSlice) -> Option<ResourceId> {
    let service = slice.labels().get(l::SLICE_SERVICE)?;
    Some(ResourceId::new(slice.namespace()?, service))
}
