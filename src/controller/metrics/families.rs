//! The metric families: names, help texts, labels, buckets, and their registry.

use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector, exponential_buckets,
};

/// One field per family. The help texts in [`Families::new`] describe them.
pub(super) struct Families {
    pub(super) registry: Registry,
    pub(super) gateway_alive: IntGaugeVec,
    pub(super) gateway_enabled: IntGaugeVec,
    pub(super) gateway_latency: IntGaugeVec,
    pub(super) gateway_probe_latency: HistogramVec,
    pub(super) gateway_probes: IntCounterVec,
    pub(super) endpoint_repairs: IntCounterVec,
    pub(super) namespace_cache: IntGaugeVec,
    pub(super) service_cache: IntGaugeVec,
    pub(super) endpoints_cache: IntGaugeVec,
    pub(super) taken_in: IntGaugeVec,
    pub(super) queue_depth: IntGauge,
    pub(super) postponed: IntCounter,
    pub(super) in_flight: IntGauge,
    pub(super) plan: Histogram,
    pub(super) apply: Histogram,
    pub(super) propagation: Histogram,
    pub(super) writes: IntCounterVec,
    pub(super) watch_restarts: IntCounterVec,
    pub(super) last_contact: GaugeVec,
    pub(super) credentials_expiry: GaugeVec,
    pub(super) link_ready: IntGaugeVec,
    pub(super) link_invalid: IntGaugeVec,
    pub(super) link_drained: IntGaugeVec,
    pub(super) active: IntGaugeVec,
    pub(super) failed_over: IntGaugeVec,
    pub(super) mirrored: IntGaugeVec,
    pub(super) federated: IntGaugeVec,
    pub(super) unhealthy: IntGaugeVec,
    pub(super) leader: IntGauge,
    pub(super) tasks: IntGauge,
}

impl Families {
    pub(super) fn new() -> Self {
        let r = Registry::new();
        let target = &["target_cluster_name"];
        let cluster = &["cluster"];
        let link = &["link"];
        let build = gauges(
            &r,
            "linkerd_mc_build_info",
            "Always 1; the labels have the version, and the commit if known at build time",
            &["version", "commit"],
        );
        // For Prometheus, an empty label is the same as no label.
        let commit = env!("LINKERD_MC_BUILD_COMMIT");
        build
            .with_label_values(&[env!("CARGO_PKG_VERSION"), commit])
            .set(1);
        #[cfg(target_os = "linux")]
        r.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))
        .expect(VALID);
        Self {
            gateway_alive: gauges(
                &r,
                "gateway_alive",
                "1 if the gateway's probes succeed, 0 if they fail or the state is unknown",
                target,
            ),
            gateway_enabled: gauges(&r, "gateway_enabled", "1 if the gateway is probed", target),
            gateway_latency: gauges(
                &r,
                "gateway_latency",
                "Latency of the last successful probe, milliseconds",
                target,
            ),
            gateway_probe_latency: register(
                &r,
                HistogramVec::new(
                    HistogramOpts::new(
                        "gateway_probe_latency_ms",
                        "Latency of successful probes, milliseconds",
                    )
                    .buckets(probe_buckets()),
                    target,
                )
                .expect(VALID),
            ),
            gateway_probes: counters(
                &r,
                "gateway_probes",
                "Number of probes by outcome, including failures below the threshold",
                &["target_cluster_name", "probe_successful"],
            ),
            endpoint_repairs: counters(
                &r,
                "service_mirror_endpoint_repairs",
                "Number of times that all endpoints of a Link were planned again because its gateway changed",
                target,
            ),
            namespace_cache: gauges(&r, "namespace_cache_size", "Namespaces in memory", cluster),
            service_cache: gauges(&r, "service_cache_size", "Services in memory", cluster),
            endpoints_cache: gauges(
                &r,
                "endpoints_cache_size",
                "EndpointSlices in memory",
                cluster,
            ),
            taken_in: gauges(
                &r,
                "linkerd_mc_taken_in_bytes",
                "Memory for the Services and EndpointSlices of the target cluster",
                cluster,
            ),
            queue_depth: gauge(&r, "linkerd_mc_queue_depth", "Number of keys in the queue"),
            postponed: register(
                &r,
                IntCounter::new(
                    "linkerd_mc_postponed_total",
                    "Number of times that a key was delayed because it was written recently",
                )
                .expect(VALID),
            ),
            in_flight: gauge(
                &r,
                "linkerd_mc_in_flight",
                "Number of keys that are being processed",
            ),
            plan: histogram(
                &r,
                "linkerd_mc_plan_seconds",
                "Time to plan a key",
                exponential_buckets(1e-6, 4.0, 9),
            ),
            apply: histogram(
                &r,
                "linkerd_mc_apply_seconds",
                "Time to execute a plan",
                exponential_buckets(0.001, 2.0, 15),
            ),
            propagation: histogram(
                &r,
                "linkerd_mc_propagation_seconds",
                "Time from the event of a remote change to the last local write for it",
                exponential_buckets(0.002, 2.0, 16),
            ),
            writes: counters(
                &r,
                "linkerd_mc_writes_total",
                "Number of writes to the local API server",
                &["verb", "kind", "result"],
            ),
            watch_restarts: counters(
                &r,
                "linkerd_mc_watch_restarts_total",
                "Number of watch restarts after failures",
                &["cluster", "kind"],
            ),
            last_contact: times(
                &r,
                "linkerd_mc_last_contact_timestamp_seconds",
                "Unix time of the last response of the cluster's API server",
                cluster,
            ),
            credentials_expiry: times(
                &r,
                "linkerd_mc_credentials_expiry_timestamp_seconds",
                "Unix time when the token for the Link's target cluster expires; absent if it never does",
                link,
            ),
            link_ready: gauges(
                &r,
                "linkerd_mc_link_ready",
                "1 if the Link's condition Ready is True",
                link,
            ),
            link_invalid: gauges(
                &r,
                "linkerd_mc_link_invalid",
                "1 if the Link is invalid; its mirrors are not updated",
                link,
            ),
            active: gauges(
                &r,
                "federated_active_cluster",
                "Number of federated Services with a preference that send requests to the cluster first",
                cluster,
            ),
            failed_over: gauges(
                &r,
                "linkerd_mc_federated_failed_over",
                "Number of federated Services that prefer the cluster but send it no requests, because it is unavailable or was until recently",
                cluster,
            ),
            link_drained: gauges(
                &r,
                "linkerd_mc_link_drained",
                "1 while the Link's cluster is drained",
                link,
            ),
            mirrored: gauges(
                &r,
                "linkerd_mc_mirrored",
                "Number of mirrored Services of a Link",
                link,
            ),
            federated: gauges(
                &r,
                "linkerd_mc_federated",
                "Number of Services of a Link that are members of a federated Service",
                link,
            ),
            unhealthy: gauges(
                &r,
                "linkerd_mc_unhealthy",
                "Number of Services of a Link that should be mirrored or federated and are not",
                link,
            ),
            leader: gauge(
                &r,
                "linkerd_mc_leader",
                "1 if this replica holds the lease, 0 if it is on standby",
            ),
            tasks: gauge(
                &r,
                "linkerd_mc_tasks",
                "Number of live async tasks: watches, probes, requests",
            ),
            registry: r,
        }
    }
}

const VALID: &str = "names and labels are constants, valid and unique";

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    registry.register(Box::new(collector.clone())).expect(VALID);
    collector
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    register(registry, IntGauge::new(name, help).expect(VALID))
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    let opts = Opts::new(name, help);
    register(registry, IntGaugeVec::new(opts, labels).expect(VALID))
}

fn times(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
    let opts = Opts::new(name, help);
    register(registry, GaugeVec::new(opts, labels).expect(VALID))
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    let opts = Opts::new(name, help);
    register(registry, IntCounterVec::new(opts, labels).expect(VALID))
}

fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: prometheus::Result<Vec<f64>>,
) -> Histogram {
    let opts = HistogramOpts::new(name, help).buckets(buckets.expect(VALID));
    register(registry, Histogram::with_opts(opts).expect(VALID))
}

/// 1…5, 10…50, …, 10,000…50,000, five steps each: as in Linkerd's service mirror.
fn probe_buckets() -> Vec<f64> {
    let decades = [1.0, 10.0, 100.0, 1_000.0, 10_000.0];
    let steps = |decade: f64| [1.0, 2.0, 3.0, 4.0, 5.0].map(|step| step * decade);
    decades.into_iter().flat_map(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_buckets_are_those_of_linkerds_service_mirror() {
        let buckets = probe_buckets();
        assert_eq!(buckets.len(), 25);
        assert_eq!(buckets[..6], [1.0, 2.0, 3.0, 4.0, 5.0, 10.0]);
        assert_eq!(buckets[20..], [1e4, 2e4, 3e4, 4e4, 5e4]);
    }
}
