//! Finds objects of known kinds by label or name, without their contents; applies and deletes them.

use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};

use super::cluster::Cluster;
use crate::{api::labels::MANAGER, client::requests::is_served, manifests::identity::Identity};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectKind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
) -> ObjectKind {
    ObjectKind {
        group,
        version,
        name,
        plural,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const POLICY: &str = "policy.linkerd.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

pub(crate) const CLUSTER_ROLE: ObjectKind = kind(RBAC, "v1", "ClusterRole", "clusterroles");
pub(crate) const CLUSTER_ROLE_BINDING: ObjectKind =
    kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings");
pub(crate) const ROLE: ObjectKind = kind(RBAC, "v1", "Role", "roles");
pub(crate) const ROLE_BINDING: ObjectKind = kind(RBAC, "v1", "RoleBinding", "rolebindings");
pub(crate) const SERVICE_ACCOUNT: ObjectKind = kind("", "v1", "ServiceAccount", "serviceaccounts");
pub(crate) const DEPLOYMENT: ObjectKind = kind("apps", "v1", "Deployment", "deployments");
pub(crate) const SECRET: ObjectKind = kind("", "v1", "Secret", "secrets");
pub(crate) const SERVICE: ObjectKind = kind("", "v1", "Service", "services");
pub(crate) const NAMESPACE: ObjectKind = kind("", "v1", "Namespace", "namespaces");
pub(crate) const STATEFUL_SET: ObjectKind = kind("apps", "v1", "StatefulSet", "statefulsets");
pub(crate) const DAEMON_SET: ObjectKind = kind("apps", "v1", "DaemonSet", "daemonsets");
pub(crate) const VOLUME_CLAIM: ObjectKind =
    kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) const NETWORK_POLICY: ObjectKind = kind(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
);
pub(crate) const SERVER: ObjectKind = kind(POLICY, "v1beta3", "Server", "servers");
pub(crate) const AUTHORIZATION_POLICY: ObjectKind = kind(
    POLICY,
    "v1alpha1",
    "AuthorizationPolicy",
    "authorizationpolicies",
);
pub(crate) const MESH_TLS_AUTHENTICATION: ObjectKind = kind(
    POLICY,
    "v1alpha1",
    "MeshTLSAuthentication",
    "meshtlsauthentications",
);
pub(crate) const NETWORK_AUTHENTICATION: ObjectKind = kind(
    POLICY,
    "v1alpha1",
    "NetworkAuthentication",
    "networkauthentications",
);
pub(crate) const LEASE: ObjectKind = kind("coordination.k8s.io", "v1", "Lease", "leases");
pub(crate) const DISRUPTION_BUDGET: ObjectKind = kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
);
pub(crate) const LINK: ObjectKind = kind("multicluster.linkerd.io", "v1alpha3", "Link", "links");
pub(crate) const CUSTOM_RESOURCE_DEFINITION: ObjectKind = kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub(crate) const API_SERVICE: ObjectKind =
    kind("apiregistration.k8s.io", "v1", "APIService", "apiservices");
pub(crate) const MUTATING_WEBHOOK: ObjectKind = kind(
    ADMISSION,
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
pub(crate) const VALIDATING_WEBHOOK: ObjectKind = kind(
    ADMISSION,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);

pub(crate) const ADMISSION_POLICY: ObjectKind = kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
);
pub(crate) const ADMISSION_POLICY_BINDING: ObjectKind = kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
);

/// Kinds of objects that commands delete or apply themselves, to find the one of an [`Identity`].
const ALL: [ObjectKind; 18] = [
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    DEPLOYMENT,
    SECRET,
    SERVICE,
    NAMESPACE,
    LEASE,
    DISRUPTION_BUDGET,
    LINK,
    CUSTOM_RESOURCE_DEFINITION,
    API_SERVICE,
    MUTATING_WEBHOOK,
    VALIDATING_WEBHOOK,
    ADMISSION_POLICY,
    ADMISSION_POLICY_BINDING,
];

impl ObjectKind {
    /// The identity of an object of this kind.
    pub(crate) fn named(self, namespace: Option<String>, name: String) -> Identity {
        Identity {
            api_version: if self.group.is_empty() {
                self.version.to_owned()
            } else {
                format!("{}/{}", self.group, self.version)
            },
            kind: self.name.to_owned(),
            namespace,
            name,
        }
    }

    fn api(self, cluster: &Cluster, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.name);
        let resource = ApiResource::from_gvk_with_plural(&gvk, self.plural);
        let client = cluster.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Whether the API server knows this kind.
    pub(crate) async fn is_served(self, cluster: &Cluster) -> anyhow::Result<bool> {
        let version = self.named(None, String::new()).api_version;
        let asked = is_served(&cluster.client, &version, self.name);
        cluster.request("list the API resources", asked).await
    }

    /// The objects of this kind that have certain labels; in all namespaces if none is given.
    pub(crate) async fn list(
        self,
        cluster: &Cluster,
        namespace: Option<&str>,
        labels: &str,
    ) -> anyhow::Result<Vec<Identity>> {
        let api = self.api(cluster, namespace);
        let params = ListParams::default().labels(labels);
        let found = cluster
            .request_opt(&format!("list {}", self.plural), api.list_metadata(&params))
            .await?;
        Ok(found
            .into_iter()
            .flatten()
            .map(|object| self.named(object.namespace(), object.name_any()))
            .collect())
    }

    /// Which of these names exist.
    pub(crate) async fn with_names(
        self,
        cluster: &Cluster,
        namespace: &str,
        names: &[String],
    ) -> anyhow::Result<Vec<Identity>> {
        let api = self.api(cluster, Some(namespace));
        let mut found = Vec::new();
        for name in names {
            let what = format!("read {}", self.plural);
            let object = cluster.request(&what, api.get_metadata_opt(name)).await?;
            found.extend(object.map(|object| self.named(object.namespace(), object.name_any())));
        }
        Ok(found)
    }
}

/// Deletes an object. Succeeds if it does not exist.
pub(crate) async fn delete(cluster: &Cluster, identity: &Identity) -> anyhow::Result<()> {
    let kind = ALL
        .into_iter()
        .find(|kind| {
            kind.named(None, String::new()).api_version == identity.api_version
                && kind.name == identity.kind
        })
        .ok_or_else(|| anyhow::anyhow!("cannot delete objects of kind {}", identity.kind))?;
    let api = kind.api(cluster, identity.namespace.as_deref());
    cluster
        .request_opt(
            &format!("delete {} {}", identity.kind, identity.name),
            api.delete(&identity.name, &DeleteParams::default()),
        )
        .await?;
    Ok(())
}

/// Creates or updates an object, as `kubectl apply --server-side` does.
///
/// Fails for kinds that no command applies.
pub(crate) async fn apply(cluster: &Cluster, object: &serde_json::Value) -> anyhow::Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    let kind = ALL
        .into_iter()
        .find(|kind| Some(kind.name) == text("/kind"))
        .ok_or_else(|| anyhow::anyhow!("cannot apply {name}: unknown kind"))?;
    let api = kind.api(cluster, text("/metadata/namespace"));
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status"); // the controller's
    }
    let parameters = PatchParams::apply(MANAGER).force();
    let what = format!("apply {} {name}", kind.name);
    cluster
        .request(&what, api.patch(name, &parameters, &Patch::Apply(&object)))
        .await?;
    Ok(())
}
