//! `linkerd-mc hand-back`: the mirrors as Linkerd's own service mirror keeps them, while traffic flows.
//!
//! Linkerd's service mirror keeps v1 Endpoints, of which Kubernetes makes slices. It makes no Endpoints for mirrors that
//! it believes to be right, and none for hosts whose mirror is there, so they are made here. Then our slices can go, with
//! the care that Linkerd's destination controller needs: it knows an address that is in two slices once, and forgets it
//! when it goes from one of them, until the other one changes.

mod endpoints;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};

use super::{
    args::{self, Global},
    cluster::{Cluster, block_on},
    complete, output,
    progress::spin,
};
use crate::{
    api::{labels as l, link::Link},
    controller::{clock, lease},
    hint::fail,
};

const EXAMPLES: &str = "\
Examples:
  # What would be handed back
  linkerd-mc hand-back --dry-run

  # Stop the controller, then hand all mirrors back
  kubectl -n linkerd-multicluster scale deployment \\
    linkerd-multicluster-controller --replicas=0
  linkerd-mc hand-back";

/// On slices that Kubernetes made: when they were written once more, after ours had gone.
const WRITTEN_AGAIN: &str = "mirror.linkerd.io/written-again";
/// Services that are worked on at the same time.
const AT_ONCE: usize = 8;
/// Time between two looks for what Kubernetes makes.
const LOOK: Duration = Duration::from_millis(100);

/// Give all mirrors back to Linkerd's own service mirror, without losing a request
///
/// Writes v1 Endpoints for each mirror, waits until Kubernetes has made EndpointSlices of them, and deletes those of
/// linkerd-mc. Services keep their addresses, and no longer say that they belong to linkerd-mc; Links lose their status.
/// The controller has to be stopped before; Linkerd's own may be started afterwards. Whatever ends it on the way, run it
/// again.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct HandBack {
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = l::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Say which mirrors would be handed back, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait this long for the slices of each mirror
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration)]
    wait: Duration,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &HandBack) -> anyhow::Result<()> {
    block_on(hand_back(global, args))
}

async fn hand_back(global: &Global, args: &HandBack) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    if !args.dry_run {
        require_stopped(&cluster, &args.namespace).await?;
    }
    let mirrors = Mirror::gather(&cluster, &args.namespace).await?;
    if args.dry_run {
        let mut names: Vec<String> = mirrors.iter().map(Mirror::to_string).collect();
        names.push(String::new()); // for the end of the last line
        return output::data(&names.join("\n"));
    }
    forget_statuses(&cluster, &args.namespace).await?;
    let count = mirrors.len();
    let work = futures::stream::iter(mirrors)
        .map(|mirror| {
            let cluster = &cluster;
            async move { mirror.hand_back(cluster, args.wait).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>();
    spin("handing the mirrors back", work).await?;
    output::note(&format!(
        "handed back: {count} {}; Linkerd's own service mirror can be started",
        if count == 1 { "Service" } else { "Services" }
    ));
    Ok(())
}

/// Fails while a controller leads: it would make again what is deleted here.
async fn require_stopped(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), namespace);
    let found = cluster
        .request("read the lease", leases.get_opt(lease::NAME))
        .await?;
    if found.is_some_and(|found| is_held(&found, clock::now())) {
        return Err(fail(
            format!("the controller in the namespace {namespace:?} is running"),
            format!(
                "stop it first: kubectl -n {namespace} scale deployment {} --replicas=0",
                l::CONTROLLER_NAME
            ),
        ));
    }
    Ok(())
}

/// Takes away what the controller has said of the Links: it says it no longer, and who waits for Ready after it was
/// started again has to wait until it is.
async fn forget_statuses(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let api = Api::<PartialObjectMeta<Link>>::namespaced(cluster.client.clone(), namespace);
    let params = ListParams::default();
    let found = api.list_metadata(&params);
    let links = cluster.request("list Links", found).await?;
    let api = Api::<Link>::namespaced(cluster.client.clone(), namespace);
    let (params, none) = (
        PatchParams::default(),
        Patch::Merge(json!({ "status": null })),
    );
    for link in links {
        let name = link.name_any();
        let patched = api.patch_status(&name, &params, &none);
        let what = format!("change the status of the Link {namespace}/{name}");
        cluster.request_opt(&what, patched).await?;
    }
    Ok(())
}

/// Whether somebody holds a lease and has renewed it in time.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else {
        return false;
    };
    let held = spec.holder_identity.as_ref();
    let (Some(_), Some(renewed)) = (held.filter(|holder| !holder.is_empty()), &spec.renew_time)
    else {
        return false;
    };
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0).into());
    renewed.0.checked_add(lasts).is_ok_and(|ends| ends > now)
}

/// A Service to hand back: a mirror, a host's mirror, a federated Service, or one that a gateway is probed through.
struct Mirror {
    namespace: String,
    service: String,
    /// Slices of ours; Services in remote discovery and federated ones may have none.
    ours: Vec<EndpointSlice>,
}

impl std::fmt::Display for Mirror {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.namespace, self.service)
    }
}

impl Mirror {
    /// All Services of an installation. They are signed until everything is done for them.
    async fn gather(cluster: &Cluster, installation: &str) -> anyhow::Result<Vec<Self>> {
        let services = Api::<PartialObjectMeta<Service>>::all(cluster.client.clone());
        let slices = Api::<EndpointSlice>::all(cluster.client.clone());
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
        let mut of_services = BTreeMap::<(String, String), Vec<EndpointSlice>>::new();
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
        let names: BTreeSet<(String, String)> = own
            .filter_map(|service| Some((service.namespace()?, service.name_any())))
            .collect();
        Ok(names
            .into_iter()
            .map(|name| {
                let ours = of_services.remove(&name).unwrap_or_default();
                let (namespace, service) = name;
                Self {
                    namespace,
                    service,
                    ours,
                }
            })
            .collect())
    }

    async fn hand_back(&self, cluster: &Cluster, wait: Duration) -> anyhow::Result<()> {
        let slices = Api::<EndpointSlice>::namespaced(cluster.client.clone(), &self.namespace);
        if !self.ours.is_empty() {
            self.write_endpoints(cluster).await?;
            self.wait_for_theirs(cluster, &slices, wait).await?;
        }
        for slice in &self.ours {
            let name = slice.name_any();
            let params = DeleteParams::default();
            let deleted = slices.delete(&name, &params);
            let what = format!("delete the EndpointSlice {}/{name}", self.namespace);
            cluster.request_opt(&what, deleted).await?;
        }
        // Linkerd reads what it may have forgotten.
        let now = clock::now().to_string();
        let patch = json!({ "metadata": { "annotations": { WRITTEN_AGAIN: now } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        for slice in self.theirs(cluster, &slices).await? {
            let name = slice.name_any();
            let patched = slices.patch(&name, &params, &patch);
            let what = format!("change the EndpointSlice {}/{name}", self.namespace);
            cluster.request_opt(&what, patched).await?;
        }
        let services = Api::<Service>::namespaced(cluster.client.clone(), &self.namespace);
        // Our controller removes the Endpoints of a Service that does not say that it is ours, once it is told to take over.
        let unsigned = l::SIGNATURE.map(|key| (key.to_owned(), Value::Null));
        let unsigned = json!({ "metadata": { "annotations": Map::from_iter(unsigned) } });
        let patch = Patch::Merge(&unsigned);
        let patched = services.patch_metadata(&self.service, &params, &patch);
        let what = format!("change the Service {self}");
        cluster.request_opt(&what, patched).await?;
        Ok(())
    }

    /// Those that have all addresses stay as they are: they are Linkerd's own service mirror's. Others are replaced:
    /// Kubernetes leaves some behind where a mirror had a selector for a while.
    async fn write_endpoints(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let api = Api::<Endpoints>::namespaced(cluster.client.clone(), &self.namespace);
        let read = api.get_opt(&self.service);
        let known = cluster
            .request(&format!("read the Endpoints {self}"), read)
            .await?;
        let mut endpoints = endpoints::of_slices(&self.namespace, &self.service, &self.ours);
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
        let replaced = api.replace(&self.service, &params, &endpoints);
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
        let started = Instant::now();
        loop {
            let theirs = self.theirs(cluster, slices).await?;
            let there: BTreeSet<&str> = endpoints::addresses(&theirs).collect();
            if wanted.is_subset(&there) {
                return Ok(());
            }
            if started.elapsed() >= wait {
                return Err(fail(
                    format!(
                        "Kubernetes has made no EndpointSlices of the Endpoints {self} within {wait:?}"
                    ),
                    "its controller endpointslice-mirroring-controller does; nothing of this mirror was deleted",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The slices that Kubernetes made of its Endpoints.
    async fn theirs(
        &self,
        cluster: &Cluster,
        slices: &Api<EndpointSlice>,
    ) -> anyhow::Result<Vec<EndpointSlice>> {
        let selector = format!(
            "{}={},{}={}",
            l::SLICE_SERVICE,
            self.service,
            l::SLICE_MANAGED_BY,
            l::ENDPOINTS_MIRRORING
        );
        let params = ListParams::default().labels(&selector);
        let found = cluster.request("list EndpointSlices", slices.list(&params));
        Ok(found.await?.items)
    }
}

/// Namespace and name of the Service of a slice.
fn service_of(slice: &EndpointSlice) -> Option<(String, String)> {
    let service = slice.labels().get(l::SLICE_SERVICE)?;
    Some((slice.namespace()?, service.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_held_until_it_was_not_renewed_for_its_duration() {
        let now: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        for (spec, held) in [
            (json!({}), false),
            (
                json!({ "holderIdentity": "a", "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:01.000000Z" }),
                true,
            ),
            (
                json!({ "holderIdentity": "a", "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:00.000000Z" }),
                false,
            ),
            (
                json!({ "holderIdentity": "", "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:29.000000Z" }),
                false,
            ),
            (
                json!({ "holderIdentity": "a", "leaseDurationSeconds": 30 }),
                false,
            ),
        ] {
            let lease = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
            assert_eq!(is_held(&lease, now), held, "{lease:?}");
        }
    }
}
