//! Finds objects of known kinds by label or name, without their contents; applies and deletes them.

use client::requests::is_served;
use hints::hint::fail;
use k8s_openapi::{
    Resource,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        },
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        coordination::v1::Lease,
        core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        discovery::v1::EndpointSlice,
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
    core::{ApiResource, GroupVersionKind, ObjectMeta},
};
use manifests::render::ObjectName;
use mirror_core::api::labels::MANAGER;

use client::Cluster;

/// A kind of object: its group and version, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiKind(&'static str, &'static str);

/// A kind with a type of its own.
const fn of<K: Resource>() -> ApiKind {
    ApiKind(K::API_VERSION, K::KIND)
}

pub const ADMISSION_BINDING: ApiKind = of::<ValidatingAdmissionPolicyBinding>();
pub const ADMISSION_POLICY: ApiKind = of::<ValidatingAdmissionPolicy>();
pub const API_SERVICE: ApiKind = of::<APIService>();
pub const CLUSTER_ROLE: ApiKind = of::<ClusterRole>();
pub const CLUSTER_ROLE_BINDING: ApiKind = of::<ClusterRoleBinding>();
pub const CRON_JOB: ApiKind = of::<CronJob>();
pub const CUSTOM_RESOURCE: ApiKind = of::<CustomResourceDefinition>();
pub const DAEMON_SET: ApiKind = of::<DaemonSet>();
pub const DEPLOYMENT: ApiKind = of::<Deployment>();
pub const DISRUPTION_BUDGET: ApiKind = of::<PodDisruptionBudget>();
pub const ENDPOINT_SLICE: ApiKind = of::<EndpointSlice>();
pub const JOB: ApiKind = of::<Job>();
pub const LEASE: ApiKind = of::<Lease>();
pub const MUTATING_WEBHOOK: ApiKind = of::<MutatingWebhookConfiguration>();
pub const NAMESPACE: ApiKind = of::<Namespace>();
pub const NETWORK_POLICY: ApiKind = of::<NetworkPolicy>();
pub const POD: ApiKind = of::<Pod>();
pub const REPLICA_SET: ApiKind = of::<ReplicaSet>();
pub const ROLE: ApiKind = of::<Role>();
pub const ROLE_BINDING: ApiKind = of::<RoleBinding>();
pub const SECRET: ApiKind = of::<Secret>();
pub const SERVICE: ApiKind = of::<Service>();
pub const SERVICE_ACCOUNT: ApiKind = of::<ServiceAccount>();
pub const STATEFUL_SET: ApiKind = of::<StatefulSet>();
pub const VALIDATING_WEBHOOK: ApiKind = of::<ValidatingWebhookConfiguration>();
pub const VOLUME_CLAIM: ApiKind = of::<PersistentVolumeClaim>();

pub const LINK: ApiKind = ApiKind("multicluster.linkerd.io/v1alpha3", "Link");
pub const SERVER: ApiKind = ApiKind("policy.linkerd.io/v1beta3", "Server");
pub const AUTHORIZATION_POLICY: ApiKind =
    ApiKind("policy.linkerd.io/v1alpha1", "AuthorizationPolicy");
pub const MESH_TLS_AUTHENTICATION: ApiKind =
    ApiKind("policy.linkerd.io/v1alpha1", "MeshTLSAuthentication");
pub const NETWORK_AUTHENTICATION: ApiKind =
    ApiKind("policy.linkerd.io/v1alpha1", "NetworkAuthentication");

impl ApiKind {
    /// The identity of an object of this kind.
    pub fn named(self, namespace: Option<String>, name: String) -> ObjectName {
        ObjectName {
            api_version: self.0.to_owned(),
            kind: self.1.to_owned(),
            namespace,
            name,
        }
    }

    /// The identity of the object that has this metadata.
    pub fn of_metadata(self, metadata: &ObjectMeta) -> ObjectName {
        let name = metadata.name.clone().unwrap_or_default();
        self.named(metadata.namespace.clone(), name)
    }

    /// Whether the owner is of this kind.
    pub fn is_of(self, owner: &OwnerReference) -> bool {
        self.0 == owner.api_version && self.1 == owner.kind
    }

    /// Whether the API server knows this kind.
    pub async fn is_served(self, cluster: &Cluster) -> anyhow::Result<bool> {
        let asked = is_served(&cluster.client, self.0, self.1);
        cluster.request("list the API resources", asked).await
    }

    /// The objects of this kind that have certain labels; in all namespaces if none is given.
    pub async fn list(
        self,
        cluster: &Cluster,
        namespace: Option<&str>,
        labels: &str,
    ) -> anyhow::Result<Vec<ListedObject>> {
        let found = self.list_metadata(cluster, namespace, labels).await?;
        let listed = found.iter().map(|meta| ListedObject::new(self, meta));
        Ok(listed.collect())
    }

    /// Like [`Self::list`], but their metadata.
    pub async fn list_metadata(
        self,
        cluster: &Cluster,
        namespace: Option<&str>,
        labels: &str,
    ) -> anyhow::Result<Vec<ObjectMeta>> {
        let kind = resource(self.0, self.1);
        let (api, params) = (
            api(cluster, &kind, namespace),
            ListParams::default().labels(labels),
        );
        let what = format!("list {}", kind.plural);
        let found = cluster
            .request_opt(&what, api.list_metadata(&params))
            .await?;
        let found = found.into_iter().flatten();
        Ok(found.map(|object| object.metadata).collect())
    }

    /// Which of these names exist.
    pub async fn with_names(
        self,
        cluster: &Cluster,
        namespace: Option<&str>,
        names: &[String],
    ) -> anyhow::Result<Vec<ListedObject>> {
        let kind = resource(self.0, self.1);
        let api = api(cluster, &kind, namespace);
        let what = format!("read {}", kind.plural);
        let mut found = Vec::new();
        for name in names {
            let object = cluster.request(&what, api.get_metadata_opt(name)).await?;
            found.extend(object.map(|object| ListedObject::new(self, &object.metadata)));
        }
        Ok(found)
    }
}

/// A kind, as requests need it. All kinds here have the regular plural.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn api(cluster: &Cluster, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    let client = cluster.client.clone();
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, kind),
        None => Api::all_with(client, kind),
    }
}

/// The objects of the kind of this one, in its namespace.
fn api_of(cluster: &Cluster, object: &ObjectName) -> Api<DynamicObject> {
    let kind = resource(&object.api_version, &object.kind);
    api(cluster, &kind, object.namespace.as_deref())
}

/// An object, as it was when it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    pub object: ObjectName,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl ListedObject {
    pub fn new(kind: ApiKind, metadata: &ObjectMeta) -> Self {
        Self {
            object: kind.of_metadata(metadata),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// The same object, whatever has changed of it.
    pub fn in_any_version(self) -> Self {
        Self {
            resource_version: None,
            ..self
        }
    }

    /// The UID and the version that the object must still have.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn preconditions(&self) -> (Option<String>, Option<String>) {
        (self.uid.clone(), self.resource_version.clone())
    }

    /// Deletes the object if it has not changed since. Succeeds if it does not exist.
    pub async fn delete(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        });
        let (api, ObjectName { kind, name, .. }) = (api_of(cluster, &self.object), &self.object);
        let deleted = async {
            match api.delete(name, &params).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                answer => answer.map(|_| true),
            }
        };
        let what = format!("delete {kind} {name}");
        let deleted = cluster.request_opt(&what, deleted).await?;
        if deleted.unwrap_or(true) {
            return Ok(());
        }
        let namespace = self.object.namespace.as_deref().unwrap_or_default();
        Err(fail(
            format!("cannot delete the {kind} {namespace}/{name}: it has changed meanwhile"),
            "run this again, which looks at it as it is now",
        ))
    }
}

/// Changes an object with a JSON merge patch.
pub async fn merge(
    cluster: &Cluster,
    object: &ObjectName,
    patch: &serde_json::Value,
) -> anyhow::Result<()> {
    let (api, ObjectName { kind, name, .. }) = (api_of(cluster, object), object);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let what = format!("change {kind} {name}");
    let patched = api.patch(name, &params, &patch);
    cluster.request(&what, patched).await.map(|_| ())
}

/// Creates or updates an object, as `kubectl apply --server-side` does. Returns it as it is stored.
pub async fn apply(cluster: &Cluster, object: &serde_json::Value) -> anyhow::Result<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let [version, kind, name] =
        ["/apiVersion", "/kind", "/metadata/name"].map(|pointer| text(pointer).unwrap_or_default());
    let api = api(
        cluster,
        &resource(version, kind),
        text("/metadata/namespace"),
    );
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status"); // the controller's
    }
    let parameters = PatchParams::apply(MANAGER).force();
    let what = format!("apply {kind} {name}");
    cluster
        .request(&what, api.patch(name, &parameters, &Patch::Apply(&object)))
        .await
}
