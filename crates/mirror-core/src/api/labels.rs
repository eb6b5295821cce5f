//! Every label, annotation and well-known name that Linkerd's multicluster extension uses in API objects.
//!
//! Source: Linkerd's `pkg/k8s/labels.go` and its multicluster chart. Ours are marked as such.

/// Prefix of the labels and annotations that a service mirror owns. No key under it is ever copied.
pub const MIRROR_PREFIX: &str = "mirror.linkerd.io/";
/// Prefix of the labels and annotations of multicluster discovery. No key under it is ever copied.
pub const MULTICLUSTER_PREFIX: &str = "multicluster.linkerd.io/";

/// Label of everything that the extension installs; the value is [`EXTENSION_NAME`].
pub const EXTENSION: &str = "linkerd.io/extension";
/// Value of [`EXTENSION`].
pub const EXTENSION_NAME: &str = "multicluster";
/// Value of [`EXTENSION`] before Linkerd 2.10.
pub const EXTENSION_NAME_LEGACY: &str = "linkerd-multicluster";
/// Annotation on objects in generated manifests: `<tool> <version>`.
pub const CREATED_BY: &str = "linkerd.io/created-by";
/// Label of the extension's workloads: `gateway`, `controller`, `service-mirror`, …
pub const COMPONENT: &str = "component";
/// Value of [`COMPONENT`] on the controller.
pub const COMPONENT_CONTROLLER: &str = "controller";

/// Label that a user puts on a Service to export it: `true` or `remote-discovery`.
pub const EXPORTED: &str = "mirror.linkerd.io/exported";
/// Annotation that a user puts on an exported Service (ours): the trust domains of the clusters that it is exported to, joined
/// by commas. Without it, these are all clusters.
pub const EXPORT_TO: &str = "multicluster.linkerd.io/export-to";
/// Selects Services that are exported by that label, in whichever mode.
pub const EXPORTED_ANYHOW: &str = "mirror.linkerd.io/exported in (true,remote-discovery)";
/// Label that a user puts on a Service to make it a federated member: `member`.
pub const FEDERATED: &str = "mirror.linkerd.io/federated";
/// Default selector of the members of federated Services.
pub const FEDERATED_MEMBERS: &str = "mirror.linkerd.io/federated=member";
/// Label of every object that a service mirror created, value `true`.
pub const MIRRORED_SERVICE: &str = "mirror.linkerd.io/mirrored-service";
/// Label that names the target cluster of a mirror. Federated Services have none.
pub const CLUSTER_NAME: &str = "mirror.linkerd.io/cluster-name";
/// Label of the Services that lead to a gateway itself: `probe-<link>`, and ours `api-<link>`. Value `true`.
pub const MIRRORED_GATEWAY: &str = "mirror.linkerd.io/mirrored-gateway";
/// Label of an endpoint mirror: the name of the headless mirror it belongs to.
pub const HEADLESS_MIRROR: &str = "mirror.linkerd.io/headless-mirror-svc-name";
/// As a label: the target cluster of a remote-discovery mirror.
/// As an annotation on a federated Service: its remote members, `<service>@<cluster>` joined by commas.
pub const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";
/// Label of a remote-discovery mirror: the name of the Service in the target cluster.
pub const REMOTE_SERVICE: &str = "multicluster.linkerd.io/remote-service";
/// Annotation on a federated Service: its member in the local cluster, a Service name.
pub const LOCAL_DISCOVERY: &str = "multicluster.linkerd.io/local-discovery";
/// Annotation on a federated Service that is made of slices (ours): its remote members, as in [`REMOTE_DISCOVERY`],
/// with which Linkerd would ignore the slices.
pub const MEMBERS: &str = "multicluster.linkerd.io/members";
/// Annotation on a federated Service that is made of slices (ours): its member in the local cluster.
pub const LOCAL_MEMBER: &str = "multicluster.linkerd.io/local-member";
/// Annotation on the local member of a federated Service, or else on the oldest Link whose cluster has a member; copied
/// to the federated Service (ours): the clusters that receive its requests first.
pub const PREFER: &str = "multicluster.linkerd.io/prefer";
/// Annotation on a federated Service (ours): the preferred clusters that receive no requests now, and since when.
pub const FAILED_OVER: &str = "multicluster.linkerd.io/failed-over";
/// Label of the control plane's copy of the credentials Secret.
pub const CREDENTIALS_CLUSTER: &str = "multicluster.linkerd.io/cluster-name";
/// Annotation of the control plane's copy of the credentials Secret.
pub const TRUST_DOMAIN: &str = "multicluster.linkerd.io/trust-domain";
/// Annotation of the control plane's copy of the credentials Secret.
pub const CLUSTER_DOMAIN: &str = "multicluster.linkerd.io/cluster-domain";
/// Annotation of a Link and of its credentials (ours): the UID of the Namespace kube-system of the target cluster. On an
/// account that `fleet` has made: that of the cluster that uses it.
pub const CLUSTER_UID: &str = "multicluster.linkerd.io/cluster-uid";
/// Label of token Secrets in a target cluster (ours): the only link that uses the token.
pub const TOKEN_OF_LINK: &str = "multicluster.linkerd.io/token-of-link";
/// Label of what `fleet` has made or taken over (ours): the name of the fleet.
pub const FLEET: &str = "multicluster.linkerd.io/fleet";
/// Argo CD: objects with a lower wave are applied earlier, and pruned later. Objects without it have 0.
pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
/// Annotation on a Link (ours): `enabled` or `disabled`; overrides the controller's flag.
pub const HEADLESS_SERVICES: &str = "multicluster.linkerd.io/headless-services";
/// Annotation on a Link (ours): labels that are copied although they control other tools, as rules joined by commas.
pub const COPIED_LABELS: &str = "multicluster.linkerd.io/copied-labels";
/// Annotation on a Link (ours): annotations that are copied although they control other tools, as rules joined by commas.
pub const COPIED_ANNOTATIONS: &str = "multicluster.linkerd.io/copied-annotations";
/// Annotation on a Link (ours): which labels and annotations are copied to mirrors: `all` except those that control other
/// tools, or only those that the Link has `listed` as copied.
pub const COPY: &str = "multicluster.linkerd.io/copy";
/// Annotation on a Link (ours): label selector of the local namespaces that its cluster may mirror into. Without the
/// annotation, these are all namespaces that are not protected.
pub const ALLOWED_NAMESPACES: &str = "multicluster.linkerd.io/allowed-namespaces";
/// Annotation on a Link (ours): which federated Services its cluster may join: `any`, `local-members` or `none`.
pub const FEDERATION: &str = "multicluster.linkerd.io/federation";
/// Annotation on a Link (ours): how its cluster takes part in federated Services: through `discovery` or its `gateway`.
pub const FEDERATED_THROUGH: &str = "multicluster.linkerd.io/federated-through";
/// Annotation on a Link (ours): the gateway through which the controller reaches the API server of the target cluster, as
/// JSON. Without it, the controller uses the address in the credentials.
pub const API_GATEWAY: &str = "multicluster.linkerd.io/api-gateway";
/// Annotation on a Link (ours) with [`API_GATEWAY`]: where Linkerd's control plane reaches the API server, for remote
/// discovery, if not through that gateway.
pub const DISCOVERY_API_SERVER: &str = "multicluster.linkerd.io/discovery-api-server";
/// Annotation on a Link (ours): the time (RFC 3339) until which its cluster is drained. A drained cluster takes no part
/// in federated Services that have another member.
pub const DRAINED_UNTIL: &str = "multicluster.linkerd.io/drained-until";
/// Annotation on a Link (ours): networks, joined by commas, that the addresses of its gateway must be in.
pub const GATEWAY_NETWORKS: &str = "multicluster.linkerd.io/gateway-networks";
/// Label of all that `verify` creates (ours): the run that has created it. `verify` deletes nothing without it.
pub const VERIFY: &str = "multicluster.linkerd.io/verify";
/// Annotation on the controller's Deployment (ours): `disabled` if its values omit the admission policies.
pub const ADMISSION_POLICY: &str = "multicluster.linkerd.io/admission-policy";

/// Annotation of a mirror: resourceVersion of the remote Service it was last written from.
pub const REMOTE_RESOURCE_VERSION: &str = "mirror.linkerd.io/remote-resource-version";
/// Annotation of a mirror and its slices: `<service>.<namespace>.svc.<cluster domain>`.
pub const REMOTE_FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
/// Annotation of a mirror's slices: TLS identity of the target's gateway.
pub const REMOTE_GATEWAY_IDENTITY: &str = "mirror.linkerd.io/remote-gateway-identity";
/// Annotation (ours) of every object that this controller has written; the value is [`MANAGER`].
pub const MANAGED_BY: &str = "mirror.linkerd.io/managed-by";
/// Annotation (ours) of every object that this controller has written: the installation that it belongs to, as the
/// namespace of its Links. Only that installation changes or deletes the object.
pub const INSTALLATION: &str = "mirror.linkerd.io/installation";
/// Annotation (ours): hash of the object's desired state.
pub const DESIRED_STATE: &str = "mirror.linkerd.io/desired-state";
/// Annotation (ours) of every object that this controller has written: the labels and, after a semicolon, the
/// annotations that were copied to it. Only these are ever removed.
pub const COPIED_KEYS: &str = "mirror.linkerd.io/copied-keys";
/// Annotations that mark an object as ours.
pub const SIGNATURE: [&str; 4] = [MANAGED_BY, INSTALLATION, DESIRED_STATE, COPIED_KEYS];
/// Value of [`MANAGED_BY`] and of [`SLICE_MANAGED_BY`].
pub const MANAGER: &str = "linkerd-mc";

/// Annotation on the gateway Service: its TLS identity.
pub const GATEWAY_IDENTITY: &str = "mirror.linkerd.io/gateway-identity";
/// Annotation on the gateway Service: seconds, or a Go duration.
pub const PROBE_PERIOD: &str = "mirror.linkerd.io/probe-period";
/// Annotation on the gateway Service: path of the probe.
pub const PROBE_PATH: &str = "mirror.linkerd.io/probe-path";
/// Name of the gateway Service's traffic port.
pub const GATEWAY_PORT_NAME: &str = "mc-gateway";
/// Name of the gateway Service's probe port.
pub const PROBE_PORT_NAME: &str = "mc-probe";

/// Annotation that a mirror keeps even when an exclusion rule would drop it.
pub const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";

/// Kubernetes' label of each namespace: its name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Kubernetes' label on an EndpointSlice: the name of its Service.
pub const SLICE_SERVICE: &str = "kubernetes.io/service-name";
/// Kubernetes' label that says which controller owns an EndpointSlice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`SLICE_MANAGED_BY`] on slices that Kubernetes creates for v1 Endpoints.
pub const ENDPOINTS_MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
/// Kubernetes' label on EndpointSlices of headless Services.
pub const SLICE_HEADLESS: &str = "service.kubernetes.io/headless";

/// Annotation of a ServiceAccount token Secret: the account's name.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Type of a ServiceAccount token Secret.
pub const SERVICE_ACCOUNT_TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Type of an empty Secret (ours): tokens of a ServiceAccount are bound to it, and end when it is deleted.
pub const BOUND_TOKEN_TYPE: &str = "mirror.linkerd.io/bound-token";
/// Type of a credentials Secret; it holds [`KUBECONFIG_KEY`].
pub const CREDENTIALS_TYPE: &str = "mirror.linkerd.io/remote-kubeconfig";
/// Data key of a credentials Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Namespaces of Kubernetes itself.
pub const KUBERNETES_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Linkerd's default control-plane namespace.
pub const LINKERD_NAMESPACE: &str = "linkerd";
/// Default namespace of the extension.
pub const MULTICLUSTER_NAMESPACE: &str = "linkerd-multicluster";
/// Default name of the controller's Lease. Linkerd's service mirror has one for each Link, `service-mirror-write-<link>`.
pub const LEASE_NAME: &str = "service-mirror-write";
/// Holder of the Lease while `take-over` runs. It keeps the Lease until it releases it, also if it is interrupted.
pub const TAKE_OVER_HOLDER: &str = "linkerd-mc take-over";
/// Linkerd's configuration: a ConfigMap in its namespace.
pub const LINKERD_CONFIG: &str = "linkerd-config";
/// Data key of [`LINKERD_CONFIG`]: a YAML document.
pub const LINKERD_CONFIG_KEY: &str = "values";
/// Name of the `ConfigMap` with the trust anchors that proxies accept, in the namespace of Linkerd's control plane.
pub const LINKERD_TRUST_ROOTS: &str = "linkerd-identity-trust-roots";
/// Name of the Secret with the certificate with which Linkerd signs those of proxies.
pub const LINKERD_ISSUER: &str = "linkerd-identity-issuer";
/// Data key of [`LINKERD_TRUST_ROOTS`]: a PEM bundle.
pub const LINKERD_TRUST_ROOTS_KEY: &str = "ca-bundle.crt";
/// Default name of the gateway.
pub const GATEWAY_NAME: &str = "linkerd-gateway";
/// Name of the gateway's `Server` in Linkerd's policy, and of the policy that permits all of it.
pub const GATEWAY_SERVER: &str = "linkerd-gateway";
/// Value of [`COMPONENT`] on the policy that the controller writes for exported Services.
pub const GATEWAY_EXPORTS: &str = "gateway-exports";
/// Name of the gateway that leads to the API server.
pub const API_GATEWAY_NAME: &str = "linkerd-api-gateway";
/// Default name of the ServiceAccount that a remote controller uses.
pub const REMOTE_ACCESS_ACCOUNT: &str = "linkerd-service-mirror-remote-access-default";
/// Name of the controller's Deployment and ServiceAccount.
pub const CONTROLLER_NAME: &str = "linkerd-multicluster-controller";
/// Name of a Link's credentials Secret: this and the cluster's name.
pub const CREDENTIALS_PREFIX: &str = "cluster-credentials-";
/// Source of Events about a target cluster: this, `-` and the cluster's name.
pub const EVENT_SOURCE_PREFIX: &str = "linkerd-service-mirror";

/// The annotations that are read of Services, slices and routes in the local cluster.
pub const READ: [&str; 14] = [
    MANAGED_BY,
    INSTALLATION,
    DESIRED_STATE,
    COPIED_KEYS,
    REMOTE_RESOURCE_VERSION,
    REMOTE_FQ_NAME,
    REMOTE_GATEWAY_IDENTITY,
    REMOTE_DISCOVERY,
    LOCAL_DISCOVERY,
    MEMBERS,
    LOCAL_MEMBER,
    PREFER,
    FAILED_OVER,
    OPAQUE_PORTS,
];

/// Whether a service mirror writes this label or annotation, to say what an object is.
pub fn is_of_service_mirrors(key: &str) -> bool {
    key.starts_with(MIRROR_PREFIX) || key.starts_with(MULTICLUSTER_PREFIX)
}
