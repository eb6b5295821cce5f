//! What a cluster has of Linkerd's service mirror and of linkerd-mc.

use std::collections::{BTreeMap, BTreeSet};

use client::{Cluster, fingerprint, kubeconfig_in};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{
    Client, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
};
use links::linkerd::linkerd_config;
use mirror_core::{
    api::{labels as l, link::LinkObject, members::remote_members, metadata::ResourceId},
    mirror::Target,
};
use observe::clusters::{
    collect_full::{missing_in_crd, service_mirrors},
    leader::leader,
    snapshot::Workload,
};

use crate::cli::{
    common::{
        mirroring::{Mirroring, Parse},
        output,
        wait::spin,
    },
    link::is_ready,
    plan::{Preview, preview_of},
};
/// Selects the Pods of all service mirrors.
const PODS: &str = "component in (controller,linkerd-service-mirror,local-service-mirror)";
/// Label of the Pods of linkerd-mc's controller; the value is its name.
const APP: &str = "app";

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub namespace: String,
    /// The Deployments of Linkerd's service mirror.
    pub programs: Vec<Workload>,
    /// Their Pods, also those that end.
    pub pods: Vec<String>,
    /// The Deployment of linkerd-mc's controller.
    pub own: Option<Workload>,
    pub lead: Lead,
    pub links: Vec<FormerLink>,
    /// The mirrors and federated Services of these Links.
    pub mirrors: Vec<FormerMirror>,
    /// What the CRD of Links lacks.
    pub crd_lacks: Vec<String>,
    /// Whether Linkerd reads EndpointSlices.
    pub reads_slices: bool,
}

/// Who holds the Lease of linkerd-mc's controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    #[default]
    Nobody,
    /// This command, or an earlier run.
    Reserved,
    /// A controller.
    Controller(String),
}

#[derive(Debug)]
pub struct FormerLink {
    pub name: String,
    pub cluster: String,
    /// Why linkerd-mc cannot use it.
    pub problem: Option<String>,
    pub is_ready: bool,
    /// What linkerd-mc's controller would write now, or why that is not known.
    pub preview: Result<Preview, String>,
}

/// A Service that a service mirror made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerMirror {
    pub id: ResourceId,
    pub uid: String,
    /// The cluster of a mirror; `None` for a federated Service.
    pub cluster: Option<String>,
    /// Whether linkerd-mc has adopted it.
    pub is_ours: bool,
}

impl Found {
    pub async fn read(
        cluster: &Cluster,
        namespace: &str,
        linkerd: &str,
        parse: Parse,
    ) -> anyhow::Result<Self> {
        let config = linkerd_config(cluster, linkerd).await?;
        let (programs, own) = programs(cluster, namespace).await?;
        let links = links(cluster, namespace, parse, own.is_some()).await?;
        let clusters = links.iter().map(|link| link.cluster.as_str()).collect();
        Ok(Self {
            namespace: namespace.to_owned(),
            pods: pods(cluster, namespace).await?,
            lead: lead(cluster, namespace).await?,
            mirrors: mirrors(cluster, namespace, &clusters).await?,
            crd_lacks: missing_in_crd(&cluster.client)
                .await
                .map_err(|why| anyhow::anyhow!("cannot read the CRD of Links: {why}"))?,
            reads_slices: config.reads_endpoint_slices(),
            programs,
            own,
            links,
        })
    }

    /// Whether Linkerd's service mirror runs, or is about to.
    pub fn linkerds_runs(&self) -> bool {
        !self.pods.is_empty() || self.programs.iter().any(|program| program.desired > 0)
    }

    /// Whether a mirror will be deleted by linkerd-mc's controller, as far as that is known.
    pub fn goes(&self, id: &ResourceId) -> bool {
        self.is_written("delete", id)
    }

    /// Whether nothing will adopt the mirror: all that concerns its Links is known, and does not write it.
    pub fn stays_foreign(&self, mirror: &FormerMirror) -> bool {
        let concerned = |link: &&FormerLink| {
            let of = mirror.cluster.as_ref();
            of.is_none_or(|of| *of == link.cluster)
        };
        let mut links = self.links.iter().filter(concerned);
        !mirror.is_ours
            && links.all(|link| link.preview.is_ok())
            && !self.is_written("patch", &mirror.id)
            && !self.goes(&mirror.id)
    }

    fn is_written(&self, verb: &str, id: &ResourceId) -> bool {
        let links = self.links.iter();
        let mut previews = links.filter_map(|link| link.preview.as_ref().ok());
        previews.any(|preview| preview.writes_service(verb, &id.namespace, &id.name))
    }
}

/// The Deployments of Linkerd's service mirror in a namespace, and that of linkerd-mc's controller.
pub async fn programs(
    cluster: &Cluster,
    namespace: &str,
) -> anyhow::Result<(Vec<Workload>, Option<Workload>)> {
    let found = service_mirrors(&cluster.client).await;
    let mut found = found.map_err(|why| anyhow::anyhow!("cannot list Deployments: {why}"))?;
    found.retain(|workload| workload.id.namespace == namespace);
    let own = found.iter().position(Workload::is_ours);
    let own = own.map(|at| found.remove(at));
    Ok((found, own))
}

/// The names of the Pods of Linkerd's service mirror in a namespace. Those that have ended do not count.
pub async fn pods(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<String>> {
    let api = cluster.api::<Pod>(namespace);
    let params = ListParams::default().labels(PODS);
    let found = cluster.request("list Pods", api.list(&params)).await?;
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let is_own = pod.labels().get(APP).map(String::as_str) == Some(l::CONTROLLER_NAME);
        !is_own && !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let pods = found.items.into_iter().filter(runs);
    Ok(pods.map(|pod| pod.name_any()).collect())
}

async fn lead(cluster: &Cluster, namespace: &str) -> anyhow::Result<Lead> {
    let found = leader(&cluster.client, namespace).await;
    let found = found.map_err(|why| anyhow::anyhow!("failed to read the lease: {why}"))?;
    Ok(match found.filter(|leader| leader.active) {
        None => Lead::Nobody,
        Some(leader) => match leader.holder {
            Some(holder) if holder == l::TAKE_OVER_HOLDER => Lead::Reserved,
            holder => Lead::Controller(holder.unwrap_or_default()),
        },
    })
}

async fn links(
    cluster: &Cluster,
    namespace: &str,
    parse: Parse,
    has_settings: bool,
) -> anyhow::Result<Vec<FormerLink>> {
    let api = cluster.api::<LinkObject>(namespace);
    let params = ListParams::default();
    let listed = cluster.request_opt("list Links", api.list(&params)).await?;
    let mut found = Vec::new();
    for object in listed.into_iter().flatten() {
        let parsed = Target::parse_object(&object, false);
        let link = &object.link;
        let secret = &link.spec.cluster_credentials_secret;
        let held = fingerprint_of(cluster, namespace, secret).await?;
        let problem = match (&parsed, &held) {
            (Err(invalid), _) => Some(invalid.to_string()),
            (Ok(_), None) => Some(format!("its Secret {secret:?} has no credentials")),
            (Ok(_), Some(_)) => None,
        };
        let name = link.name_any();
        let preview = if has_settings && problem.is_none() {
            let reading = format!("reading the cluster of the Link {name}");
            let preview = preview(&cluster.client, namespace, &name, parse);
            let preview = spin(&reading, Box::pin(preview)).await;
            preview.map_err(|error| output::in_one_line(&error))
        } else {
            Ok(Preview::default())
        };
        found.push(FormerLink {
            cluster: link.spec.target_cluster_name.clone(),
            is_ready: is_ready(link, &held.unwrap_or_default()).is_ok(),
            name,
            problem,
            preview,
        });
    }
    for at in 0..found.len() {
        let twin = found.iter().enumerate().find(|(other, link)| {
            *other != at && link.cluster == found[at].cluster && link.problem.is_none()
        });
        if let Some((_, twin)) = twin
            && found[at].problem.is_none()
        {
            let why = format!("the Link {} is for the same cluster", twin.name);
            found[at].problem = Some(why);
        }
    }
    Ok(found)
}

/// What linkerd-mc's controller would write for a Link, with the settings of its Deployment.
async fn preview(
    client: &Client,
    namespace: &str,
    link: &str,
    parse: Parse,
) -> anyhow::Result<Preview> {
    let settings = Mirroring::running(namespace, client, parse).await?;
    let settings = settings.map_err(anyhow::Error::msg)?;
    let settings = settings.of_preview("check its credentials".to_owned())?;
    Box::pin(preview_of(client, settings, link)).await
}

/// The fingerprint of the credentials in a Secret; `None` if there are none.
pub async fn fingerprint_of(
    cluster: &Cluster,
    namespace: &str,
    secret: &str,
) -> anyhow::Result<Option<String>> {
    if secret.is_empty() {
        return Ok(None);
    }
    let read = cluster.get::<Secret>("read the credentials", namespace, secret);
    let found = read.await?;
    let kubeconfig = found.as_ref().and_then(kubeconfig_in);
    Ok(kubeconfig.map(|kubeconfig| fingerprint(&kubeconfig.0)))
}

/// The mirrors of these clusters, and the federated Services with members in them. Those of other installations are left
/// out.
pub async fn mirrors(
    cluster: &Cluster,
    namespace: &str,
    clusters: &BTreeSet<&str>,
) -> anyhow::Result<Vec<FormerMirror>> {
    let api = cluster.all::<PartialObjectMeta<Service>>();
    let params = ListParams::default().labels(l::MIRRORED_SERVICE);
    let found = cluster.request("list mirrors", api.list_metadata(&params));
    let found = found.await?.items.into_iter();
    let mirrors = found.filter_map(|service| {
        let annotations = service.annotations();
        let annotation = |key: &str| annotations.get(key).map(String::as_str);
        let of = service.labels().get(l::CLUSTER_NAME).cloned();
        let is_concerned = match &of {
            Some(of) => clusters.contains(of.as_str()),
            None => remote_members(annotation).any(|(_, of)| clusters.contains(of)),
        };
        let installation = annotation(l::INSTALLATION);
        let is_ours = annotation(l::MANAGED_BY) == Some(l::MANAGER);
        (is_concerned && installation.is_none_or(|of| of == namespace)).then(|| FormerMirror {
            id: ResourceId::of(&service),
            uid: service.uid().unwrap_or_default(),
            cluster: of,
            is_ours,
        })
    });
    let sorted: BTreeMap<ResourceId, FormerMirror> =
        mirrors.map(|mirror| (mirror.id.clone(), mirror)).collect();
    Ok(sorted.into_values().collect())
}
