//! Many control planes with an installation and a controller each, and helpers that compare all their objects.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use control_plane::{ControlPlane, eventually};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, ObjectMeta},
};
use linkerd_mc::api::{labels, link::Link};
use serde_json::{Value, json};

use super::{run_fleet, spawn_fleet};
use crate::support::{
    SOON,
    audit::mark,
    controller::Controller,
    installation::{NAMESPACE, install, links_are_served},
    links::{condition, links},
    objects::{export, namespace, web},
    program::Outcome,
};

/// Control planes that are started at the same time. Each needs a core for some seconds.
const STARTED_AT_ONCE: usize = 2;
/// How long all Links may take to be ready.
const ALL_READY: Duration = Duration::from_secs(300);

/// The namespace of the exported Services.
pub(super) const SHOP: &str = "shop";

/// Control planes that each export a Service, in the order of their names.
pub(super) struct Planes {
    // Fields are dropped in this order, so controllers end before the servers that they use.
    _controllers: Vec<Controller>,
    pub(super) all: Vec<ControlPlane>,
    pub(super) folder: tempfile::TempDir,
    pub(super) kubeconfig: PathBuf,
    marks: Vec<u64>,
}

/// The objects in a cluster, by kind, namespace and name.
pub(super) type Inventory = BTreeMap<String, Value>;

/// Names for this number of control planes.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

impl Planes {
    /// Starts control planes of these names, installs the extension, and starts the controllers.
    pub(super) async fn start(names: &[String]) -> Self {
        let started = names.iter().zip(10_u8..).map(|(name, last)| async move {
            let plane = ControlPlane::start(name).await.unwrap();
            install(&plane, &format!("192.0.2.{last}")).await;
            links_are_served(&plane).await;
            namespace(SHOP, &[&plane]).await;
            export(&plane, SHOP, &web("web", "true")).await;
            plane
        });
        let all: Vec<ControlPlane> = stream::iter(started)
            .buffered(STARTED_AT_ONCE)
            .collect()
            .await;
        let controllers: Vec<Controller> = all
            .iter()
            .map(|plane| Controller::start(plane, &[]))
            .collect();
        for controller in &controllers {
            controller.ready_within(SOON).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let each: Vec<&ControlPlane> = all.iter().collect();
        ControlPlane::merged_kubeconfig(&each, &kubeconfig).unwrap();
        Self {
            marks: all.iter().map(mark).collect(),
            _controllers: controllers,
            all,
            folder,
            kubeconfig,
        }
    }

    /// Writes a fleet file with these clusters and links. The name of each cluster is that of its context.
    pub(super) fn file(&self, name: &str, clusters: &[String], links: &str) -> PathBuf {
        let clusters = clusters.join("\n- name: ");
        let text = format!("name: f\nid: t\nclusters:\n- name: {clusters}\nlinks: {links}\n");
        let file = self.folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// Runs a command of `fleet`.
    pub(super) fn run(&self, command: &str, file: &Path, flags: &[&str]) -> Outcome {
        run_fleet(&self.kubeconfig, command, file, flags)
    }

    /// Starts a command of `fleet` without a terminal, and discards its output.
    pub(super) fn spawn(&self, command: &str, file: &Path, flags: &[&str]) -> Child {
        spawn_fleet(&self.kubeconfig, command, file, flags)
    }

    /// The number of writes of linkerd-mc and kubectl since the last call.
    pub(super) fn counted(&mut self) -> usize {
        let planes = self.all.iter().zip(&mut self.marks);
        let writes = planes.map(|(plane, mark_of)| {
            let since = plane.audit_next(mark_of).unwrap();
            let own = since.iter().filter(|event| {
                let agent = event.user_agent.as_str();
                let is_own = ["linkerd-mc/", "kubectl"]
                    .iter()
                    .any(|own| agent.starts_with(own));
                event.is_write() && is_own && event.user == "kubernetes-admin"
            });
            own.count()
        });
        writes.sum()
    }

    /// Waits until each of these clusters has a Link to each of the others, and all these Links are ready.
    pub(super) async fn ready(&self, clusters: &[String]) {
        let planes = self.all.iter();
        for plane in planes.filter(|plane| clusters.iter().any(|name| name == plane.name())) {
            let what = format!("all Links of {} to be ready", plane.name());
            let waited = eventually(&what, ALL_READY, async || {
                let found = links(plane).list(&ListParams::default()).await?.items;
                let ready = found.iter().filter(|link| is_ready(link));
                anyhow::ensure!(
                    ready.clone().count() + 1 == clusters.len(),
                    "{} of {} are ready",
                    ready.count(),
                    found.len()
                );
                Ok(Some(()))
            });
            waited.await.unwrap();
        }
    }

    /// The inventory of each cluster, in the order of [`Self::all`].
    pub(super) async fn inventories(&self) -> Vec<Inventory> {
        let each = self.all.iter().map(inventory);
        stream::iter(each).buffered(4).collect().await
    }
}

/// Whether the status of a Link says that its current generation is ready.
pub(super) fn is_ready(link: &Link) -> bool {
    let Some(ready) = link
        .status
        .as_ref()
        .and_then(|status| condition(status, "Ready"))
    else {
        return false;
    };
    ready.status == "True" && ready.observed_generation == link.metadata.generation
}

/// All objects in a cluster of the kinds that a fleet, its links and their mirrors consist of.
pub(super) async fn inventory(plane: &ControlPlane) -> Inventory {
    let client = || plane.client();
    let all = [
        listed::<Link>(Api::namespaced(client(), NAMESPACE)).await,
        listed::<Secret>(Api::all(client())).await,
        listed::<ServiceAccount>(Api::all(client())).await,
        listed::<ClusterRole>(Api::all(client())).await,
        listed::<ClusterRoleBinding>(Api::all(client())).await,
        listed::<Service>(Api::all(client())).await,
    ];
    all.into_iter().flatten().collect()
}

/// The objects of a kind, without what changes by itself: status, versions, and when a token was used.
async fn listed<K>(api: Api<K>) -> Inventory
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let found = api.list(&ListParams::default()).await.unwrap();
    let found = found.items.into_iter().map(|mut object| {
        let name = object.name_any();
        let namespace = object.namespace().unwrap_or_default();
        let key = format!("{} {namespace}/{name}", K::kind(&()));
        let meta: &mut ObjectMeta = object.meta_mut();
        meta.resource_version = None;
        meta.managed_fields = None;
        if let Some(labels) = &mut meta.labels {
            labels.remove("kubernetes.io/legacy-token-last-used");
        }
        let mut value = json!(object);
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        (key, value)
    });
    found.collect()
}

/// The objects without generated values: UIDs, times, tokens and addresses.
pub(super) fn shape(inventory: &Inventory) -> Inventory {
    let objects = inventory.iter().map(|(key, value)| {
        let mut value = value.clone();
        for path in [
            "/metadata/uid",
            "/metadata/creationTimestamp",
            "/metadata/generation",
        ] {
            clear(&mut value, path);
        }
        for path in [
            "/metadata/ownerReferences",
            "/spec/clusterIP",
            "/spec/clusterIPs",
        ] {
            clear(&mut value, path);
        }
        for annotation in [
            "kubernetes.io/service-account.uid",
            labels::REMOTE_RESOURCE_VERSION,
        ] {
            let annotation = annotation.replace('/', "~1");
            clear(&mut value, &format!("/metadata/annotations/{annotation}"));
        }
        let data = value.pointer_mut("/data").and_then(Value::as_object_mut);
        for (_, of_key) in data.into_iter().flatten() {
            *of_key = Value::Null;
        }
        (key.clone(), value)
    });
    objects.collect()
}

/// Sets a field to null, if it exists.
fn clear(value: &mut Value, path: &str) {
    if let Some(found) = value.pointer_mut(path) {
        *found = Value::Null;
    }
}
