//! Labels and annotations of Services that control other tools, or mark a Service as theirs.
//!
//! If they were copied, whoever may write Services in a target cluster could control tools of the source cluster: its
//! DNS, load balancers, ingress and deployment tools. `docs/differences.md` has the same table, and a test compares
//! them.

/// A key that a tool acts on, or a prefix of such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// A key, or a prefix if it does not end in a letter or a digit.
    pub key: &'static str,
    /// The tool that reads it from Services.
    pub tool: &'static str,
    /// Where its documentation says so.
    pub page: &'static str,
}

impl Mark {
    /// Whether it is a prefix.
    pub fn is_prefix(&self) -> bool {
        !self.key.ends_with(|c: char| c.is_ascii_alphanumeric())
    }
}

const fn mark(key: &'static str, tool: &'static str, page: &'static str) -> Mark {
    Mark { key, tool, page }
}

/// All marks, sorted by key. No key begins with a prefix from this list.
///
/// `retry.linkerd.io/`, `timeout.linkerd.io/` and `balancer.linkerd.io/` are left out on purpose: they tell Linkerd how
/// clients call this mirror.
pub const MARKS: [Mark; 44] = [
    mark(
        "app.kubernetes.io/instance",
        "Argo CD",
        "https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/",
    ),
    mark(
        "app.kubernetes.io/managed-by",
        "Helm, Argo CD, operators",
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/",
    ),
    mark(
        "argocd.argoproj.io/",
        "Argo CD",
        "https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/",
    ),
    mark(
        "cloud.google.com/",
        "Google Cloud",
        "https://cloud.google.com/kubernetes-engine/docs/how-to/standalone-neg",
    ),
    mark(
        "consul.hashicorp.com/",
        "Consul",
        "https://developer.hashicorp.com/consul/docs/register/service/k8s/annotations",
    ),
    mark(
        "controller.autoneg.dev/",
        "Google Cloud",
        "https://googlecloudplatform.github.io/gke-autoneg-controller",
    ),
    mark(
        "external-dns.alpha.kubernetes.io/",
        "external-dns",
        "https://kubernetes-sigs.github.io/external-dns/latest/docs/annotations/annotations/",
    ),
    mark(
        "external-dns.kubernetes.io/",
        "external-dns",
        "https://kubernetes-sigs.github.io/external-dns/latest/docs/annotations/annotations/",
    ),
    mark(
        "getambassador.io/",
        "Emissary-ingress",
        "https://www.getambassador.io/reference/core/annotations/",
    ),
    mark(
        "haproxy.org/",
        "HAProxy",
        "https://github.com/haproxytech/kubernetes-ingress",
    ),
    mark(
        "helm.sh/",
        "Helm",
        "https://helm.sh/docs/chart_best_practices/labels/",
    ),
    mark(
        "helm.toolkit.fluxcd.io/",
        "Flux",
        "https://fluxcd.io/docs/components/helm/helmreleases/",
    ),
    mark(
        "ingress.kubernetes.io/",
        "Kong",
        "https://developer.konghq.com/kubernetes-ingress-controller/reference/annotations",
    ),
    mark(
        "io.cilium/",
        "Cilium",
        "https://docs.cilium.io/en/latest/network/clustermesh/load-balancing/",
    ),
    mark(
        "konghq.com/",
        "Kong",
        "https://developer.konghq.com/kubernetes-ingress-controller/reference/annotations",
    ),
    mark(
        "kube-vip.io/",
        "kube-vip",
        "https://github.com/kube-vip/kube-vip-cloud-provider",
    ),
    mark(
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubectl",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    mark(
        "kubernetes.io/elb.",
        "Huawei Cloud",
        "https://support.huaweicloud.com/intl/en-us/my-kualalumpur-1-usermanual-cce/cce_10_0385.html",
    ),
    mark(
        "kustomize.toolkit.fluxcd.io/",
        "Flux",
        "https://fluxcd.io/docs/components/kustomize/kustomization/",
    ),
    mark(
        "lbipam.cilium.io/",
        "Cilium",
        "https://docs.cilium.io/en/stable/network/lb-ipam/",
    ),
    mark(
        "load-balancer.hetzner.cloud/",
        "Hetzner Cloud",
        "https://pkg.go.dev/github.com/hetznercloud/hcloud-cloud-controller-manager",
    ),
    mark(
        "loadbalancer.openstack.org/",
        "OpenStack",
        "https://pkg.go.dev/k8s.io/cloud-provider-openstack/pkg/openstack",
    ),
    mark(
        "meta.helm.sh/",
        "Helm",
        "https://helm.sh/docs/chart_best_practices/labels/",
    ),
    mark(
        "metallb.io/",
        "MetalLB",
        "https://metallb.universe.tf/usage/",
    ),
    mark(
        "metallb.universe.tf/",
        "MetalLB",
        "https://metallb.universe.tf/usage/",
    ),
    mark(
        "networking.gke.io/",
        "Google Cloud",
        "https://cloud.google.com/kubernetes-engine/docs/concepts/service-load-balancer-parameters",
    ),
    mark(
        "oci-load-balancer.oraclecloud.com/",
        "Oracle Cloud",
        "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm",
    ),
    mark(
        "oci-network-load-balancer.oraclecloud.com/",
        "Oracle Cloud",
        "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm",
    ),
    mark(
        "oci.oraclecloud.com/",
        "Oracle Cloud",
        "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm",
    ),
    mark(
        "projectcontour.io/",
        "Contour",
        "https://projectcontour.io/docs/1.26/config/annotations/",
    ),
    mark(
        "prometheus.io/",
        "Prometheus",
        "https://prometheus.io/docs/prometheus/latest/configuration/configuration/",
    ),
    mark(
        "service.alpha.openshift.io/",
        "OpenShift",
        "https://github.com/openshift/service-ca-operator",
    ),
    mark(
        "service.beta.kubernetes.io/",
        "Clouds, such as AWS and Azure",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    mark(
        "service.beta.openshift.io/",
        "OpenShift",
        "https://github.com/openshift/service-ca-operator",
    ),
    mark(
        "service.cilium.io/",
        "Cilium",
        "https://docs.cilium.io/en/latest/network/clustermesh/load-balancing/",
    ),
    mark(
        "service.cloud.tencent.com/",
        "Tencent Cloud",
        "https://www.tencentcloud.com/document/product/457/39142",
    ),
    mark(
        "service.kubernetes.io/ibm-",
        "IBM Cloud",
        "https://cloud.ibm.com/docs/containers?topic=containers-vpc-lbaas",
    ),
    mark(
        "service.kubernetes.io/qcloud-",
        "Tencent Cloud",
        "https://www.tencentcloud.com/document/product/457/39142",
    ),
    mark(
        "service.kubernetes.io/service-proxy-name",
        "Kubernetes",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    mark(
        "service.kubernetes.io/tke-",
        "Tencent Cloud",
        "https://www.tencentcloud.com/document/product/457/39142",
    ),
    mark(
        "service.kubernetes.io/topology-aware-hints",
        "Kubernetes",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    mark(
        "service.kubernetes.io/topology-mode",
        "Kubernetes",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    mark(
        "tailscale.com/",
        "Tailscale",
        "https://tailscale.com/docs/kubernetes-operator/ingress",
    ),
    mark(
        "traefik.ingress.kubernetes.io/",
        "Traefik",
        "https://doc.traefik.io/traefik/v3.8/reference/routing-configuration/kubernetes/ingress/",
    ),
];

/// The mark of a label or annotation.
///
/// No prefix is a prefix of another mark, so only the last mark that is not greater than the key can match.
pub fn find(key: &str) -> Option<&'static Mark> {
    let behind = MARKS.partition_point(|mark| mark.key <= key);
    let mark = MARKS.get(behind.checked_sub(1)?)?;
    let is_it = if mark.is_prefix() {
        key.starts_with(mark.key)
    } else {
        key == mark.key
    };
    is_it.then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_sorted_and_no_prefix_begins_another() {
        for pair in MARKS.windows(2) {
            assert!(pair[0].key < pair[1].key, "{}", pair[1].key);
            let begins = pair[0].is_prefix() && pair[1].key.starts_with(pair[0].key);
            assert!(!begins, "{}", pair[1].key);
        }
    }

    #[test]
    fn each_mark_is_found_and_similar_keys_are_not() {
        for mark in &MARKS {
            let more = format!("{}x", mark.key);
            assert_eq!(find(mark.key), Some(mark));
            assert_eq!(find(&more), mark.is_prefix().then_some(mark), "{more}");
            let less = &mark.key[..mark.key.len() - 1];
            assert_eq!(find(less), None, "{less}");
        }
        for key in [
            "",
            "/",
            "app",
            "zzz.io/x",
            "app.kubernetes.io/name",
            "external-dns.alpha.kubernetes.iox/hostname",
            "service.kubernetes.io/headless",
            "retry.linkerd.io/http",
            "timeout.linkerd.io/request",
            "balancer.linkerd.io/failure-accrual",
            "config.linkerd.io/opaque-ports",
        ] {
            assert_eq!(find(key), None, "{key}");
        }
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let text = include_str!("../../../../docs/differences.md");
        let told: Vec<&str> = text
            .lines()
            .skip_while(|line| *line != "| Key | Who acts on it |")
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let rows = MARKS.map(|Mark { key, tool, page }| {
            let any = if mark(key, tool, page).is_prefix() {
                "*"
            } else {
                ""
            };
            format!("| `{key}{any}` | [{tool}]({page}) |")
        });
        assert_eq!(told, rows);
    }
}
