//! All metrics of the controller. No other module registers metrics.
//!
//! `gateway_*`, `service_mirror_endpoint_repairs` and `*_cache_size` have exactly the names and labels of Linkerd's
//! service mirror, so that its dashboards and `linkerd viz` work. Our own metrics begin with `linkerd_mc_`. Label
//! values come from Links and from closed enums, never from remote objects, so a hostile cluster cannot create series.
//! All series of a Link are removed with it (Linkerd's service mirror leaves some behind).

#[cfg(test)]
mod dashboards;
mod families;
mod labels;
#[cfg(test)]
mod reference;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use prometheus::{
    TextEncoder,
    core::{MetricVec, MetricVecBuilder},
};

use families::Families;
pub(crate) use labels::{Cache, LOCAL, LinkCounts, ResourceKind, Verb, WriteResult};

/// All metrics. A clone shares the same metrics.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Families>);

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// New metrics with their own registry. The process creates them once; tests create several.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Families::new()))
    }

    /// Sets whether a gateway is probed, and resets its state: not alive, no latency.
    pub(crate) fn gateway_enabled(&self, cluster: &str, enabled: bool) {
        self.drop_gateway_state(cluster);
        let target = &[cluster];
        self.0
            .gateway_enabled
            .with_label_values(target)
            .set(enabled.into());
        self.0.gateway_alive.with_label_values(target).set(0);
    }

    /// Sets whether a gateway is alive; `false` also while it is unknown.
    pub(crate) fn gateway_alive(&self, cluster: &str, alive: bool) {
        self.0
            .gateway_alive
            .with_label_values(&[cluster])
            .set(alive.into());
    }

    /// Counts a probe that succeeded.
    pub(crate) fn probe_succeeded(&self, cluster: &str, latency: Duration) {
        let families = &self.0;
        let millis = i64::try_from(latency.as_millis()).unwrap_or(i64::MAX);
        families
            .gateway_latency
            .with_label_values(&[cluster])
            .set(millis);
        families
            .gateway_probe_latency
            .with_label_values(&[cluster])
            .observe(latency.as_secs_f64() * 1000.0);
        families
            .gateway_probes
            .with_label_values(&[cluster, "true"])
            .inc();
    }

    /// Counts a probe that failed.
    pub(crate) fn probe_failed(&self, cluster: &str) {
        self.0
            .gateway_probes
            .with_label_values(&[cluster, "false"])
            .inc();
    }

    /// Counts that all endpoints of a Link are planned again because its gateway changed.
    pub(crate) fn endpoint_repair(&self, cluster: &str) {
        self.0.endpoint_repairs.with_label_values(&[cluster]).inc();
    }

    /// Sets the number of objects in a store; `cluster` is [`LOCAL`] or a target cluster.
    pub(crate) fn cache_size(&self, cache: Cache, cluster: &str, objects: usize) {
        let gauges = match cache {
            Cache::Namespaces => &self.0.namespace_cache,
            Cache::Services => &self.0.service_cache,
            Cache::Endpoints => &self.0.endpoints_cache,
        };
        gauges.with_label_values(&[cluster]).set(count(objects));
    }

    /// Sets the size of the objects that are kept of a target cluster, in bytes.
    pub(crate) fn taken_in(&self, cluster: &str, bytes: usize) {
        let gauges = &self.0.taken_in;
        gauges.with_label_values(&[cluster]).set(count(bytes));
    }

    /// Counts that a write was delayed, because its key was written recently.
    pub(crate) fn postponed(&self) {
        self.0.postponed.inc();
    }

    /// Sets the number of keys in the queue.
    pub(crate) fn queue_depth(&self, keys: usize) {
        self.0.queue_depth.set(count(keys));
    }

    /// Sets the number of keys that are being processed.
    pub(crate) fn in_flight(&self, keys: usize) {
        self.0.in_flight.set(count(keys));
    }

    /// Records the time to compute one plan.
    pub(crate) fn planned(&self, took: Duration) {
        self.0.plan.observe(took.as_secs_f64());
    }

    /// Records the time to execute one plan.
    pub(crate) fn applied(&self, took: Duration) {
        self.0.apply.observe(took.as_secs_f64());
    }

    /// Records the time from the event of a remote change to the last local write for it.
    pub(crate) fn propagated(&self, took: Duration) {
        self.0.propagation.observe(took.as_secs_f64());
    }

    /// Counts a write to the local API server.
    pub(crate) fn write(&self, verb: Verb, kind: ResourceKind, outcome: WriteResult) {
        self.0
            .writes
            .with_label_values(&[verb.as_str(), kind.as_str(), outcome.as_str()])
            .inc();
    }

    /// Counts that a watch failed and is restarted; `cluster` is [`LOCAL`] or a target cluster.
    pub(crate) fn watch_restarted(&self, cluster: &str, kind: ResourceKind) {
        self.0
            .watch_restarts
            .with_label_values(&[cluster, kind.as_str()])
            .inc();
    }

    /// Sets when a cluster's API server last responded.
    pub(crate) fn last_contact(&self, cluster: &str, at: Timestamp) {
        self.0
            .last_contact
            .with_label_values(&[cluster])
            .set(at.as_duration().as_secs_f64());
    }

    /// Sets when the token expires that a Link's session uses; `None` if it never expires, or if there is no token.
    pub(crate) fn credentials_expire(&self, link: &str, at: Option<Timestamp>) {
        let gauges = &self.0.credentials_expiry;
        match at {
            Some(at) => gauges
                .with_label_values(&[link])
                .set(at.as_duration().as_secs_f64()),
            None => drop_series(gauges, &[link]),
        }
    }

    /// Sets whether a Link is ready.
    pub(crate) fn link_ready(&self, link: &str, ready: bool) {
        self.0
            .link_ready
            .with_label_values(&[link])
            .set(ready.into());
    }

    /// Sets whether a Link is invalid.
    pub(crate) fn link_invalid(&self, link: &str, invalid: bool) {
        self.0
            .link_invalid
            .with_label_values(&[link])
            .set(invalid.into());
    }

    /// Sets whether the cluster of a Link is drained.
    pub(crate) fn link_drained(&self, link: &str, drained: bool) {
        self.0
            .link_drained
            .with_label_values(&[link])
            .set(drained.into());
    }

    /// Sets how many federated Services send requests to this cluster first, and how many prefer it but leave it out.
    pub(crate) fn preferred(&self, cluster: &str, active: usize, left_out: usize) {
        let families = &self.0;
        for (gauges, services) in [
            (&families.active, active),
            (&families.failed_over, left_out),
        ] {
            gauges.with_label_values(&[cluster]).set(count(services));
        }
    }

    /// Sets the numbers of a Link's Services by state.
    pub(crate) fn link_counts(&self, link: &str, counts: LinkCounts) {
        let families = &self.0;
        for (gauges, services) in [
            (&families.mirrored, counts.mirrored),
            (&families.federated, counts.federated),
            (&families.unhealthy, counts.unhealthy),
        ] {
            gauges.with_label_values(&[link]).set(count(services));
        }
    }

    /// Sets whether this replica is the leader.
    pub(crate) fn leader(&self, leads: bool) {
        self.0.leader.set(leads.into());
    }

    /// Removes all series of a Link.
    pub(crate) fn remove_link(&self, link: &str) {
        let families = &self.0;
        for gauges in [
            &families.link_ready,
            &families.link_invalid,
            &families.link_drained,
            &families.mirrored,
            &families.federated,
            &families.unhealthy,
        ] {
            drop_series(gauges, &[link]);
        }
        drop_series(&families.credentials_expiry, &[link]);
    }

    /// Removes all series of a target cluster. No existing Link may name it.
    pub(crate) fn remove_cluster(&self, cluster: &str) {
        let families = &self.0;
        self.drop_gateway_state(cluster);
        for gauges in [
            &families.gateway_alive,
            &families.gateway_enabled,
            &families.service_cache,
            &families.endpoints_cache,
            &families.active,
            &families.failed_over,
        ] {
            drop_series(gauges, &[cluster]);
        }
        drop_series(&families.gateway_probes, &[cluster, "true"]);
        drop_series(&families.gateway_probes, &[cluster, "false"]);
        drop_series(&families.endpoint_repairs, &[cluster]);
        drop_series(&families.last_contact, &[cluster]);
        drop_series(&families.taken_in, &[cluster]);
        for kind in ResourceKind::ALL {
            drop_series(&families.watch_restarts, &[cluster, kind.as_str()]);
        }
    }

    /// All metrics in Prometheus' text format 0.0.4.
    pub(crate) fn render(&self) -> String {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.0.tasks.set(count(runtime.metrics().num_alive_tasks()));
        }
        TextEncoder::new()
            .encode_to_string(&self.0.registry.gather())
            .expect("the registry leaves out empty families, and text has no other error")
    }

    fn drop_gateway_state(&self, cluster: &str) {
        drop_series(&self.0.gateway_latency, &[cluster]);
        drop_series(&self.0.gateway_probe_latency, &[cluster]);
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Removes the series with these labels. It may be missing, if a Link was deleted before all its metrics were set.
fn drop_series<B: MetricVecBuilder>(series: &MetricVec<B>, labels: &[&str]) {
    let _ = series.remove_label_values(labels);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Metrics in which every family has a series, among them those of the Link `l` to the cluster `c`.
    pub(crate) fn filled() -> Metrics {
        let m = Metrics::new();
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
