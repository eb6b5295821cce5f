//! Objects of clusters in which `unlink` and `uninstall` run.

/// Objects that a link leaves in a cluster over time: ours, those of the value `controllers` of Linkerd's chart, and
/// those of `linkerd multicluster link --ha` of Linkerd 2.17.
pub(super) const LINKED: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Secret
type: mirror.linkerd.io/remote-kubeconfig
metadata: {name: cluster-credentials-east, namespace: linkerd-multicluster}
---
apiVersion: v1
kind: Secret
type: mirror.linkerd.io/remote-kubeconfig
metadata:
  name: any-name
  namespace: linkerd
  labels: {multicluster.linkerd.io/cluster-name: east}
---
apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {name: east, namespace: linkerd-multicluster}
spec: {targetClusterName: east, clusterCredentialsSecret: cluster-credentials-east}
---
apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {name: north, namespace: linkerd-multicluster}
spec: {targetClusterName: north, clusterCredentialsSecret: own-north}
---
apiVersion: v1
kind: Secret
type: mirror.linkerd.io/remote-kubeconfig
metadata: {name: own-north, namespace: linkerd-multicluster}
---
apiVersion: v1
kind: Service
metadata:
  name: probe-east
  namespace: linkerd-multicluster
  labels: {mirror.linkerd.io/mirrored-gateway: "true", mirror.linkerd.io/cluster-name: east}
spec: {ports: [{port: 4191}]}
---
apiVersion: v1
kind: Service
metadata:
  name: web-east
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: "true", mirror.linkerd.io/cluster-name: east}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata:
  name: web-north
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: "true", mirror.linkerd.io/cluster-name: north}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata:
  name: web-federated
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: "true"}
  annotations: {multicluster.linkerd.io/remote-discovery: web@east}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata:
  name: both-federated
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: "true"}
  annotations: {multicluster.linkerd.io/remote-discovery: "web@east,web@north"}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: mine-east, namespace: shop, labels: {mirror.linkerd.io/cluster-name: east}}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: controller-east
  namespace: linkerd-multicluster
  labels: {component: controller, mirror.linkerd.io/cluster-name: east}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: linkerd-service-mirror-access-local-resources-east
  labels: {component: service-mirror, mirror.linkerd.io/cluster-name: east}
rules: []
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: linkerd-service-mirror-east
  namespace: linkerd-multicluster
  labels: {linkerd.io/extension: multicluster, component: service-mirror, mirror.linkerd.io/cluster-name: east}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: linkerd-service-mirror-access-local-resources-east
  labels: {linkerd.io/extension: multicluster, component: service-mirror, mirror.linkerd.io/cluster-name: east}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: linkerd-service-mirror-access-local-resources-east}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: linkerd-service-mirror-read-remote-creds-east
  namespace: linkerd-multicluster
  labels: {linkerd.io/extension: multicluster, component: service-mirror, mirror.linkerd.io/cluster-name: east}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: linkerd-service-mirror-read-remote-creds-east
  namespace: linkerd-multicluster
  labels: {linkerd.io/extension: multicluster, component: service-mirror, mirror.linkerd.io/cluster-name: east}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: linkerd-service-mirror-read-remote-creds-east}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: linkerd-service-mirror-east
  namespace: linkerd-multicluster
  labels: {linkerd.io/extension: multicluster, component: service-mirror, mirror.linkerd.io/cluster-name: east}
spec:
  replicas: 0
  selector: {matchLabels: {component: linkerd-service-mirror, mirror.linkerd.io/cluster-name: east}}
  template:
    metadata:
      labels: {component: linkerd-service-mirror, mirror.linkerd.io/cluster-name: east}
    spec:
      containers: [{name: service-mirror, image: none}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: linkerd-service-mirror-east
  namespace: linkerd-multicluster
  labels: {component: linkerd-service-mirror}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {component: linkerd-service-mirror, mirror.linkerd.io/cluster-name: east}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: controller-east, namespace: linkerd-multicluster}
spec: {maxUnavailable: 1, selector: {matchLabels: {component: controller}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: service-mirror-write-east, namespace: linkerd-multicluster}
spec: {}
"#;

/// Another installation has a Link to the same cluster, east. The user `restricted` may not see that Link.
pub(super) const ANOTHER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: other-mc}
---
apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {name: far, namespace: other-mc}
spec: {targetClusterName: east}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: unlinks}
rules:
- {apiGroups: ['', apps, rbac.authorization.k8s.io, policy, coordination.k8s.io], resources: ['*'], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: unlinks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: unlinks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: restricted}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: unlinks, namespace: linkerd-multicluster}
rules:
- {apiGroups: [multicluster.linkerd.io], resources: [links], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: unlinks, namespace: linkerd-multicluster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: unlinks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: restricted}]
";

/// A mirror of a Link that somebody has deleted, and a CronJob in the namespace of the extension.
pub(super) const LEFT: &str = "
apiVersion: v1
kind: Service
metadata:
  name: left-south
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: 'true', mirror.linkerd.io/cluster-name: south}
  annotations: {mirror.linkerd.io/managed-by: linkerd-mc, mirror.linkerd.io/installation: linkerd-multicluster}
spec: {ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup, namespace: linkerd-multicluster}
spec:
  schedule: '@daily'
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: backup, image: none}]}}}
";
