//! Labels and annotations of Services that other tools act on, or use to claim ownership.
//!
//! They are not copied unless a Link allows it. Otherwise, whoever may write Services in a target cluster could control
//! tools of the source cluster: its DNS, load balancers, ingress and deployment tools. `docs/export.md` has the same
//! table, and a test compares them.

/// A key that a tool acts on, or a prefix of such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolKey {
    /// A key, or a prefix if it does not end in a letter or a digit.
    pub key: &'static str,
    /// The tool that reads it from Services.
    pub tool: &'static str,
    /// Where its documentation says so.
    pub page: &'static str,
}

impl ToolKey {
    /// Whether it is a prefix.
    pub fn is_prefix(&self) -> bool {
        !self.key.ends_with(|c: char| c.is_ascii_alphanumeric())
    }
}

const fn row(key: &'static str, tool: &'static str, page: &'static str) -> ToolKey {
    ToolKey { key, tool, page }
}

/// All of them, sorted by key. No key begins with a prefix from this list.
///
/// `retry.linkerd.io/`, `timeout.linkerd.io/` and `balancer.linkerd.io/` are missing on purpose: they tell Linkerd how
/// clients call this mirror.
#[rustfmt::skip]
pub const TOOL_KEYS: [ToolKey; 77] = [
    row("ad.datadoghq.com/", "Datadog", "https://docs.datadoghq.com/containers/cluster_agent/clusterchecks/"),
    row("addonmanager.kubernetes.io/", "Kubernetes' add-on manager", "https://github.com/kubernetes/kubernetes/blob/master/cluster/addons/addon-manager/README.md"),
    row("alb.ingress.kubernetes.io/", "AWS", "https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/"),
    row("anthos.cft.dev/", "Google Cloud", "https://github.com/GoogleCloudPlatform/gke-autoneg-controller"),
    row("app.kubernetes.io/instance", "Argo CD", "https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/"),
    row("app.kubernetes.io/managed-by", "Helm, Argo CD, operators", "https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/"),
    row("applyset.kubernetes.io/", "kubectl, kro", "https://www.kubernetes.dev/resources/keps/3659/"),
    row("argocd.argoproj.io/", "Argo CD", "https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/"),
    row("beta.cloud.google.com/", "Google Cloud", "https://cloud.google.com/kubernetes-engine/docs/how-to/ingress-configuration"),
    row("cis.f5.com/", "F5", "https://clouddocs.f5.com/containers/latest/userguide/config-map.html"),
    row("cleanup.kyverno.io/", "Kyverno", "https://kyverno.io/docs/guides/ttl-cleanup/"),
    row("cloud.google.com/", "Google Cloud", "https://cloud.google.com/kubernetes-engine/docs/how-to/standalone-neg"),
    row("co.elastic.", "Elastic", "https://elastic.co/guide/en/beats/metricbeat/7.9/configuration-autodiscover-hints.html"),
    row("configmanagement.gke.io/", "Google Cloud", "https://docs.cloud.google.com/kubernetes-engine/config-sync/docs/reference/labels-and-annotations"),
    row("configsync.gke.io/", "Google Cloud", "https://docs.cloud.google.com/kubernetes-engine/config-sync/docs/reference/labels-and-annotations"),
    row("consul.hashicorp.com/", "Consul", "https://developer.hashicorp.com/consul/docs/register/service/k8s/annotations"),
    row("controller.autoneg.dev/", "Google Cloud", "https://googlecloudplatform.github.io/gke-autoneg-controller"),
    row("discovery.solo.io/", "Gloo", "https://docs.solo.io/gloo/latest/advanced_configuration/fds_mode/"),
    row("external-dns.alpha.kubernetes.io/", "external-dns", "https://kubernetes-sigs.github.io/external-dns/latest/docs/annotations/annotations/"),
    row("external-dns.kubernetes.io/", "external-dns", "https://kubernetes-sigs.github.io/external-dns/latest/docs/annotations/annotations/"),
    row("field.cattle.io/", "Rancher", "https://github.com/rancher/rancher/blob/0db277711f3f7a5fbc3801343448707e8f952d69/pkg/controllers/managementagent/targetworkloadservice/target_workload_service.go"),
    row("gateway.envoyproxy.io/", "Envoy Gateway", "https://github.com/envoyproxy/gateway/blob/main/internal/provider/kubernetes/predicates.go"),
    row("getambassador.io/", "Emissary-ingress", "https://www.getambassador.io/reference/core/annotations/"),
    row("gloo.solo.io/", "Gloo", "https://docs.solo.io/gloo-edge/main/guides/traffic_management/destination_types/discovered_upstream/discovered-upstream-configuration/"),
    row("haproxy-ingress.github.io/", "HAProxy Ingress", "https://haproxy-ingress.github.io/v0.17/docs/configuration/keys"),
    row("haproxy.com/", "HAProxy", "https://github.com/haproxytech/kubernetes-ingress/blob/master/documentation/annotations.md"),
    row("haproxy.org/", "HAProxy", "https://github.com/haproxytech/kubernetes-ingress"),
    row("helm.sh/", "Helm", "https://helm.sh/docs/chart_best_practices/labels/"),
    row("helm.toolkit.fluxcd.io/", "Flux", "https://fluxcd.io/docs/components/helm/helmreleases/"),
    row("ingress.kubernetes.io/", "Kong", "https://developer.konghq.com/kubernetes-ingress-controller/reference/annotations"),
    row("io.cilium/", "Cilium", "https://docs.cilium.io/en/latest/network/clustermesh/load-balancing/"),
    row("istio.io/", "Istio", "https://istio.io/latest/docs/reference/config/labels/"),
    row("janitor/", "kube-janitor", "https://github.com/hjacobs/kube-janitor"),
    row("k8s-ttl-controller.twin.sh/", "k8s-ttl-controller", "https://github.com/TwiN/k8s-ttl-controller"),
    row("k8s.grafana.com/", "Grafana", "https://grafana.com/docs/grafana-cloud/monitor-infrastructure/kubernetes-monitoring/configuration/helm-chart-config/scrape-app-pod-metrics"),
    row("kapp.k14s.io/", "kapp", "https://carvel.dev/kapp/docs/develop/apply/"),
    row("konghq.com/", "Kong", "https://developer.konghq.com/kubernetes-ingress-controller/reference/annotations"),
    row("kube-router.io/", "kube-router", "https://github.com/cloudnativelabs/kube-router/blob/master/docs/user-guide.md"),
    row("kube-vip.io/", "kube-vip", "https://github.com/kube-vip/kube-vip-cloud-provider"),
    row("kubectl.kubernetes.io/last-applied-configuration", "kubectl", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    row("kubernetes.io/elb.", "Huawei Cloud", "https://support.huaweicloud.com/intl/en-us/my-kualalumpur-1-usermanual-cce/cce_10_0385.html"),
    row("kustomize.toolkit.fluxcd.io/", "Flux", "https://fluxcd.io/docs/components/kustomize/kustomization/"),
    row("lbipam.cilium.io/", "Cilium", "https://docs.cilium.io/en/stable/network/lb-ipam/"),
    row("load-balancer.hetzner.cloud/", "Hetzner Cloud", "https://pkg.go.dev/github.com/hetznercloud/hcloud-cloud-controller-manager"),
    row("loadbalancer.openstack.org/", "OpenStack", "https://pkg.go.dev/k8s.io/cloud-provider-openstack/pkg/openstack"),
    row("meta.helm.sh/", "Helm", "https://helm.sh/docs/chart_best_practices/labels/"),
    row("metallb.io/", "MetalLB", "https://metallb.universe.tf/usage/"),
    row("metallb.universe.tf/", "MetalLB", "https://metallb.universe.tf/usage/"),
    row("metrics.dynatrace.com/", "Dynatrace", "https://docs.dynatrace.com/docs/observe/infrastructure-monitoring/container-platform-monitoring/kubernetes-monitoring/monitor-prometheus-metrics"),
    row("multicluster.kubernetes.io/", "Implementations of the MCS API", "https://github.com/kubernetes/enhancements/tree/master/keps/sig-multicluster/1645-multi-cluster-services-api"),
    row("netbird.io/", "NetBird", "https://github.com/netbirdio/kubernetes-operator/blob/main/docs/usage.md"),
    row("networking.gke.io/", "Google Cloud", "https://cloud.google.com/kubernetes-engine/docs/concepts/service-load-balancer-parameters"),
    row("networking.istio.io/", "Istio", "https://istio.io/latest/docs/reference/config/annotations/"),
    row("newrelic.io/", "New Relic", "https://github.com/newrelic/newrelic-prometheus-configurator"),
    row("objectset.rio.cattle.io/", "Rancher, k3s", "https://github.com/rancher/wrangler/tree/master/pkg/apply"),
    row("oci-load-balancer.oraclecloud.com/", "Oracle Cloud", "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm"),
    row("oci-network-load-balancer.oraclecloud.com/", "Oracle Cloud", "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm"),
    row("oci.oraclecloud.com/", "Oracle Cloud", "https://docs.oracle.com/en-us/iaas/Content/ContEng/Tasks/contengcreatingloadbalancer_topic-Summaryofannotations.htm"),
    row("projectcontour.io/", "Contour", "https://projectcontour.io/docs/1.26/config/annotations/"),
    row("prometheus.io/", "Prometheus", "https://prometheus.io/docs/prometheus/latest/configuration/configuration/"),
    row("resource.twingate.com", "Twingate", "https://github.com/Twingate/kubernetes-operator/wiki/Resource-Management-User-Guide"),
    row("resource.twingate.com/", "Twingate", "https://github.com/Twingate/kubernetes-operator/wiki/Resource-Management-User-Guide"),
    row("service.alpha.openshift.io/", "OpenShift", "https://github.com/openshift/service-ca-operator"),
    row("service.beta.kubernetes.io/", "Clouds, such as AWS and Azure", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    row("service.beta.openshift.io/", "OpenShift", "https://github.com/openshift/service-ca-operator"),
    row("service.cilium.io/", "Cilium", "https://docs.cilium.io/en/latest/network/clustermesh/load-balancing/"),
    row("service.cloud.tencent.com/", "Tencent Cloud", "https://www.tencentcloud.com/document/product/457/39142"),
    row("service.kubernetes.io/ibm-", "IBM Cloud", "https://cloud.ibm.com/docs/containers?topic=containers-vpc-lbaas"),
    row("service.kubernetes.io/qcloud-", "Tencent Cloud", "https://www.tencentcloud.com/document/product/457/39142"),
    row("service.kubernetes.io/service-proxy-name", "Kubernetes", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    row("service.kubernetes.io/tke-", "Tencent Cloud", "https://www.tencentcloud.com/document/product/457/39142"),
    row("service.kubernetes.io/topology-aware-hints", "Kubernetes", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    row("service.kubernetes.io/topology-mode", "Kubernetes", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    row("skupper.io/", "Skupper", "https://docs.redhat.com/en/documentation/red_hat_service_interconnect/1.5/html/using_service_interconnect/skupper-declarative"),
    row("tailscale.com/", "Tailscale", "https://tailscale.com/docs/kubernetes-operator/ingress"),
    row("teleport.dev/", "Teleport", "https://goteleport.com/docs/enroll-resources/auto-discovery/kubernetes-applications/reference/"),
    row("traefik.ingress.kubernetes.io/", "Traefik", "https://doc.traefik.io/traefik/v3.8/reference/routing-configuration/kubernetes/ingress/"),
];

/// The entry for a label or annotation.
///
/// No entry begins with the prefix of another one, so only the last entry that is not greater than the key can match.
pub fn find(key: &str) -> Option<&'static ToolKey> {
    let behind = TOOL_KEYS.partition_point(|known| known.key <= key);
    let known = TOOL_KEYS.get(behind.checked_sub(1)?)?;
    let matches = key == known.key || (known.is_prefix() && key.starts_with(known.key));
    matches.then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_no_prefix_begins_another() {
        for pair in TOOL_KEYS.windows(2) {
            assert!(pair[0].key < pair[1].key, "{}", pair[1].key);
            let begins = pair[0].is_prefix() && pair[1].key.starts_with(pair[0].key);
            assert!(!begins, "{}", pair[1].key);
        }
    }

    #[test]
    fn each_key_is_found_and_similar_keys_are_not() {
        for known in &TOOL_KEYS {
            let more = format!("{}x", known.key);
            assert_eq!(find(known.key), Some(known));
            assert_eq!(find(&more), known.is_prefix().then_some(known), "{more}");
            let less = &known.key[..known.key.len() - 1];
            let own = TOOL_KEYS.iter().find(|other| other.key == less);
            assert_eq!(find(less), own, "{less}");
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
    fn keys_by_which_tools_execute_route_capture_or_delete_are_listed() {
        for key in [
            "ad.datadoghq.com/service.checks",
            "addonmanager.kubernetes.io/mode",
            "alb.ingress.kubernetes.io/auth-type",
            "anthos.cft.dev/autoneg",
            "applyset.kubernetes.io/part-of",
            "beta.cloud.google.com/backend-config",
            "cis.f5.com/as3-pool",
            "cleanup.kyverno.io/ttl",
            "co.elastic.metrics/raw",
            "co.elastic.monitor/1.hosts",
            "discovery.solo.io/function_discovery",
            "field.cattle.io/targetWorkloadIds",
            "gateway.envoyproxy.io/owning-gateway-name",
            "gloo.solo.io/upstream_config",
            "haproxy-ingress.github.io/config-backend",
            "haproxy.com/backend-config-snippet",
            "istio.io/use-waypoint",
            "janitor/ttl",
            "k8s-ttl-controller.twin.sh/ttl",
            "k8s.grafana.com/scrape",
            "kapp.k14s.io/app",
            "kube-router.io/service.advertise.clusterip",
            "metrics.dynatrace.com/scrape",
            "multicluster.kubernetes.io/service-name",
            "netbird.io/expose",
            "networking.istio.io/exportTo",
            "newrelic.io/scrape",
            "objectset.rio.cattle.io/hash",
            "skupper.io/proxy",
        ] {
            assert!(find(key).is_some(), "{key}");
        }
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let text = include_str!("../../../../../docs/export.md");
        let shown: Vec<&str> = text
            .lines()
            .skip_while(|line| *line != "| Key | Who acts on it |")
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let rows = TOOL_KEYS.map(|ToolKey { key, tool, page }| {
            let any = if row(key, tool, page).is_prefix() {
                "*"
            } else {
                ""
            };
            format!("| `{key}{any}` | [{tool}]({page}) |")
        });
        assert_eq!(shown, rows);
    }
}
