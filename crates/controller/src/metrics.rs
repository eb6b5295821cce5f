//! All metrics of the controller. No other module registers metrics.
//!
//! `gateway_*`, `service_mirror_endpoint_repairs` and `*_cache_size` have exactly the names and labels of Linkerd's
//! service mirror, so that its dashboards and `linkerd viz` work. Our own metrics begin with `linkerd_mc_`, except
//! `federated_active_cluster`. Label values come from Links and from closed enums, and the names of federated Services up
//! to a limit, so a hostile cluster cannot create series without end. All series of a Link are removed with it (Linkerd's service mirror leaves some
//! behind).

#[cfg(test)]
mod dashboards;
mod families;
mod labels;
#[cfg(test)]
mod reference;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use prometheus::{GaugeVec, HistogramVec, TextEncoder};

use families::{Families, NO_LABELS, OF_CLUSTER, OF_LINK};
pub use labels::{Cache, FederatedCounts, LOCAL, LinkCounts, ResourceKind, Verb, WriteResult};

/// All metrics. A clone shares the same metrics.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

impl Metrics {
    /// New metrics with their own registry, for a program that was built from `commit`; it is empty where nobody knows. The
    /// process creates them once; tests create several.
    pub fn new(commit: &str) -> Self {
        let families = Families::new();
        // For Prometheus, an empty label is the same as no label.
        let build = [env!("CARGO_PKG_VERSION"), commit];
        families.build_info.with_label_values(&build).set(1.0);
        Self(Arc::new(families))
    }

    /// Sets whether a gateway is probed, and resets its state: not alive, no latency.
    pub fn gateway_enabled(&self, cluster: &str, enabled: bool) {
        // They are missing if there was no successful probe.
        let _ = self.0.gateway_latency.remove_label_values(&[cluster]);
        let _ = self.0.gateway_probe_latency.remove_label_values(&[cluster]);
        set(&self.0.gateway_enabled, cluster, flag(enabled));
        self.gateway_alive(cluster, false);
    }

    /// Sets whether a gateway is alive; `false` also while it is unknown.
    pub fn gateway_alive(&self, cluster: &str, alive: bool) {
        set(&self.0.gateway_alive, cluster, flag(alive));
    }

    /// Counts a probe that succeeded.
    pub fn probe_succeeded(&self, cluster: &str, latency: Duration) {
        let (latencies, probes) = (&self.0.gateway_probe_latency, &self.0.gateway_probes);
        let millis = latency.as_secs_f64() * 1000.0;
        set(&self.0.gateway_latency, cluster, millis.trunc());
        latencies.with_label_values(&[cluster]).observe(millis);
        probes.with_label_values(&[cluster, "true"]).inc();
    }

    /// Counts a probe that failed.
    pub fn probe_failed(&self, cluster: &str) {
        let probes = &self.0.gateway_probes;
        probes.with_label_values(&[cluster, "false"]).inc();
    }

    /// Counts that all endpoints of a Link are planned again because its gateway changed.
    pub fn endpoint_repair(&self, cluster: &str) {
        self.0.endpoint_repairs.with_label_values(&[cluster]).inc();
    }

    /// Sets the number of objects in a store; `cluster` is [`LOCAL`] or a target cluster.
    pub fn cache_size(&self, cache: Cache, cluster: &str, objects: usize) {
        let family = match cache {
            Cache::Namespaces => &self.0.namespace_cache,
            Cache::Services => &self.0.service_cache,
            Cache::Endpoints => &self.0.endpoints_cache,
        };
        set(family, cluster, number(objects));
    }

    /// Sets the size of the objects that are kept of a target cluster, in bytes.
    pub fn taken_in(&self, cluster: &str, bytes: usize) {
        set(&self.0.taken_in, cluster, number(bytes));
    }

    /// Counts that a write was delayed, because its key was written recently.
    pub fn postponed(&self) {
        self.0.postponed.with_label_values(NO_LABELS).inc();
    }

    /// Sets the number of keys that wait: in the queue, or for confirmations.
    pub fn queue_depth(&self, keys: usize) {
        set_only(&self.0.queue_depth, number(keys));
    }

    /// Sets the number of keys that are being processed.
    pub fn in_flight(&self, keys: usize) {
        set_only(&self.0.in_flight, number(keys));
    }

    /// Records the time to compute one plan.
    pub fn planned(&self, took: Duration) {
        observe(&self.0.plan, took);
    }

    /// Records the time to execute one plan.
    pub fn applied(&self, took: Duration) {
        observe(&self.0.apply, took);
    }

    /// Records the time from the event of a remote change to the last local write for it.
    pub fn propagated(&self, took: Duration) {
        observe(&self.0.propagation, took);
    }

    /// Counts a write to the local API server.
    pub fn write(&self, verb: Verb, kind: ResourceKind, outcome: WriteResult) {
        let labels = [verb.as_str(), kind.as_str(), outcome.as_str()];
        self.0.writes.with_label_values(&labels).inc();
    }

    /// Counts that a watch failed and is restarted; `cluster` is [`LOCAL`] or a target cluster.
    pub fn watch_restarted(&self, cluster: &str, kind: ResourceKind) {
        let restarts = &self.0.watch_restarts;
        restarts.with_label_values(&[cluster, kind.as_str()]).inc();
    }

    /// Sets when a cluster's API server last responded.
    pub fn last_contact(&self, cluster: &str, at: Timestamp) {
        set(&self.0.last_contact, cluster, seconds(at));
    }

    /// Sets when the token expires that a Link's session uses; `None` if it never expires, or if there is no token.
    pub fn credentials_expire(&self, link: &str, at: Option<Timestamp>) {
        let family = &self.0.credentials_expiry;
        if let Some(at) = at {
            set(family, link, seconds(at));
        } else {
            // It is missing if the token never expired.
            let _ = family.remove_label_values(&[link]);
        }
    }

    /// Sets whether a Link is ready.
    pub fn link_ready(&self, link: &str, ready: bool) {
        set(&self.0.link_ready, link, flag(ready));
    }

    /// Sets whether a Link is invalid.
    pub fn link_invalid(&self, link: &str, invalid: bool) {
        set(&self.0.link_invalid, link, flag(invalid));
    }

    /// Sets whether the cluster of a Link is drained.
    pub fn link_drained(&self, link: &str, drained: bool) {
        set(&self.0.link_drained, link, flag(drained));
    }

    /// Sets how many federated Services send requests to this cluster first, and how many prefer it but leave it out.
    pub fn preferred(&self, cluster: &str, active: usize, failed_over: usize) {
        set(&self.0.active, cluster, number(active));
        set(&self.0.failed_over, cluster, number(failed_over));
    }

    /// Sets what is counted of a federated Service; `None` if it is gone.
    pub fn federated_service(&self, service: &str, counts: Option<FederatedCounts>) {
        let endpoints = counts.and_then(|counts| counts.endpoints);
        let members = counts.map(|counts| counts.members);
        for (family, count) in [
            (&self.0.members, members),
            (&self.0.ready_endpoints, endpoints),
        ] {
            if let Some(count) = count {
                set(family, service, number(count));
            } else {
                // It is missing if it was never set.
                let _ = family.remove_label_values(&[service]);
            }
        }
    }

    /// Sets the numbers of a Link's Services by state.
    pub fn link_counts(&self, link: &str, counts: LinkCounts) {
        set(&self.0.mirrored, link, number(counts.mirrored));
        set(&self.0.federated, link, number(counts.federated));
        set(&self.0.unhealthy, link, number(counts.unhealthy));
    }

    /// Sets whether this replica is the leader.
    pub fn leader(&self, leads: bool) {
        set_only(&self.0.leader, flag(leads));
    }

    /// Removes all series of a Link.
    pub fn remove_link(&self, link: &str) {
        self.0.remove(OF_LINK, link);
    }

    /// Removes all series of a target cluster. No existing Link may name it.
    pub fn remove_cluster(&self, cluster: &str) {
        self.0.remove(OF_CLUSTER, cluster);
    }

    /// All metrics in Prometheus' text format 0.0.4.
    pub fn render(&self) -> String {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            set_only(&self.0.tasks, number(runtime.metrics().num_alive_tasks()));
        }
        TextEncoder::new()
            .encode_to_string(&self.0.registry.gather())
            .expect("the registry leaves out empty families, and text has no other error")
    }
}

/// Sets the series of a cluster or a Link.
fn set(family: &GaugeVec, label: &str, value: f64) {
    family.with_label_values(&[label]).set(value);
}

/// Sets the series of a family without labels.
fn set_only(family: &GaugeVec, value: f64) {
    family.with_label_values(NO_LABELS).set(value);
}

fn observe(family: &HistogramVec, took: Duration) {
    let series = family.with_label_values(NO_LABELS);
    series.observe(took.as_secs_f64());
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Prometheus stores every value as a 64-bit float too.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Metrics in which every family has a series, among them those of the Link `l` to the cluster `c`.
    pub fn filled() -> Metrics {
        let m = Metrics::new("");
        fill_link(&m, "l", "c");
        for cache in [Cache::Namespaces, Cache::Services, Cache::Endpoints] {
            m.cache_size(cache, LOCAL, 7);
        }
        m.queue_depth(1);
        m.postponed();
        m.in_flight(2);
        m.planned(Duration::from_micros(3));
        m.applied(Duration::from_millis(4));
        m.propagated(Duration::from_millis(5));
        m.write(Verb::Create, ResourceKind::Service, WriteResult::Ok);
        m.leader(true);
        let counts = FederatedCounts {
            members: 2,
            endpoints: Some(3),
        };
        m.federated_service("shop/web-federated", Some(counts));
        m
    }

    fn fill_link(m: &Metrics, link: &str, cluster: &str) {
        m.gateway_enabled(cluster, true);
        m.gateway_alive(cluster, true);
        m.probe_succeeded(cluster, Duration::from_micros(12_345));
        m.probe_failed(cluster);
        m.endpoint_repair(cluster);
        m.cache_size(Cache::Services, cluster, 3);
        m.cache_size(Cache::Endpoints, cluster, 4);
        m.taken_in(cluster, 5);
        for kind in ResourceKind::ALL {
            m.watch_restarted(cluster, kind);
        }
        m.last_contact(cluster, Timestamp::from_millisecond(1_500).unwrap());
        m.credentials_expire(link, Some(Timestamp::from_second(2_500).unwrap()));
        m.link_ready(link, true);
        m.link_invalid(link, false);
        m.link_drained(link, true);
        m.preferred(cluster, 2, 1);
        let counts = LinkCounts {
            mirrored: 1,
            federated: 2,
            unhealthy: 3,
        };
        m.link_counts(link, counts);
    }

    fn has(m: &Metrics, line: &str) -> bool {
        m.render().lines().any(|l| l == line)
    }

    #[test]
    fn names_labels_and_units_of_linkerds_metrics_are_exact() {
        let m = filled();
        for line in [
            r#"gateway_alive{target_cluster_name="c"} 1"#,
            r#"gateway_enabled{target_cluster_name="c"} 1"#,
            r#"gateway_latency{target_cluster_name="c"} 12"#,
            r#"gateway_probe_latency_ms_bucket{target_cluster_name="c",le="10"} 0"#,
            r#"gateway_probe_latency_ms_bucket{target_cluster_name="c",le="20"} 1"#,
            r#"gateway_probe_latency_ms_sum{target_cluster_name="c"} 12.345"#,
            r#"gateway_probe_latency_ms_count{target_cluster_name="c"} 1"#,
            r#"gateway_probes{probe_successful="true",target_cluster_name="c"} 1"#,
            r#"gateway_probes{probe_successful="false",target_cluster_name="c"} 1"#,
            r#"service_mirror_endpoint_repairs{target_cluster_name="c"} 1"#,
            r#"namespace_cache_size{cluster="local"} 7"#,
            r#"service_cache_size{cluster="local"} 7"#,
            r#"service_cache_size{cluster="c"} 3"#,
            r#"endpoints_cache_size{cluster="c"} 4"#,
            r#"linkerd_mc_last_contact_timestamp_seconds{cluster="c"} 1.5"#,
            r#"linkerd_mc_credentials_expiry_timestamp_seconds{link="l"} 2500"#,
            r#"linkerd_mc_writes_total{kind="Service",result="ok",verb="create"} 1"#,
            r#"linkerd_mc_unhealthy{link="l"} 3"#,
            "linkerd_mc_leader 1",
        ] {
            assert!(has(&m, line), "{line} not in\n{}", m.render());
        }
    }

    #[test]
    fn removing_a_link_removes_all_its_series_and_no_others() {
        let m = filled();
        let before = m.render();
        fill_link(&m, "gone-link", "gone-cluster");
        assert!(m.render().contains("gone-cluster"));
        m.remove_link("gone-link");
        assert!(!m.render().contains("gone-link"));
        m.remove_cluster("gone-cluster");
        let without_process = |text: &str| -> Vec<String> {
            let ours = |line: &&str| !line.contains("process_");
            text.lines().filter(ours).map(str::to_owned).collect()
        };
        assert_eq!(without_process(&m.render()), without_process(&before));
        m.remove_link("gone-link");
        m.remove_cluster("gone-cluster");
    }

    #[test]
    fn gateway_that_is_probed_again_starts_without_its_old_state() {
        let m = filled();
        m.gateway_enabled("c", false);
        assert!(has(&m, r#"gateway_alive{target_cluster_name="c"} 0"#));
        assert!(has(&m, r#"gateway_enabled{target_cluster_name="c"} 0"#));
        assert!(!m.render().contains("gateway_latency{"));
        assert!(!m.render().contains("gateway_probe_latency_ms_count"));
    }
}
