//! The metric families: names, help texts, labels, buckets, and their registry.

use std::collections::HashMap;

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Registry,
    core::{Collector, MetricVec, MetricVecBuilder},
    exponential_buckets,
    proto::MetricFamily,
};

/// Labels with the name of a target cluster.
pub const OF_CLUSTER: &[&str] = &["target_cluster_name", "cluster"];
/// The label with the name of a Link.
pub const OF_LINK: &[&str] = &["link"];

/// For the only series of a family without labels.
pub const NO_LABELS: &[&str] = &[];

const VALID: &str = "names and labels are constants, valid and unique";

/// Defines [`Families`] from a table: field, type, name, labels, help text, and for a histogram its buckets.
macro_rules! families {
    ($($field:ident: $type:ident, $name:literal, $labels:tt, $help:literal $(, $buckets:expr)?;)*) => {
        /// The table above, and the registry of all families.
        pub struct Families {
            pub registry: Registry,
            $(pub $field: $type,)*
        }

        impl Families {
            pub fn new() -> Self {
                let registry = Registry::new();
                $(
                    let opts = HistogramOpts::new($name, $help)$(.buckets($buckets))?;
                    let $field = register(&registry, $type::of(opts, &$labels), &$labels);
                )*
                #[cfg(target_os = "linux")]
                register_process(&registry);
                Self { registry, $($field,)* }
            }

            /// Removes all series in which one of these labels has this value.
            pub fn remove(&self, labels: &[&str], value: &str) {
                $(remove(&self.$field, labels, value);)*
            }
        }
    };
}

families! {
    gateway_alive: GaugeVec, "gateway_alive", ["target_cluster_name"],
        "1 if the gateway's probes succeed, 0 if they fail or the state is unknown";
    gateway_enabled: GaugeVec, "gateway_enabled", ["target_cluster_name"],
        "1 if the gateway is probed";
    gateway_latency: GaugeVec, "gateway_latency", ["target_cluster_name"],
        "Latency of the last successful probe, milliseconds";
    gateway_probe_latency: HistogramVec, "gateway_probe_latency_ms", ["target_cluster_name"],
        "Latency of successful probes, milliseconds", probe_buckets();
    gateway_probes: IntCounterVec, "gateway_probes", ["target_cluster_name", "probe_successful"],
        "Number of probes by outcome, including failures below the threshold";
    endpoint_repairs: IntCounterVec, "service_mirror_endpoint_repairs", ["target_cluster_name"],
        "Number of times that all endpoints of a Link were planned again because its gateway changed";
    namespace_cache: GaugeVec, "namespace_cache_size", ["cluster"],
        "Namespaces in memory";
    service_cache: GaugeVec, "service_cache_size", ["cluster"],
        "Services in memory";
    endpoints_cache: GaugeVec, "endpoints_cache_size", ["cluster"],
        "EndpointSlices in memory";
    taken_in: GaugeVec, "linkerd_mc_taken_in_bytes", ["cluster"],
        "Memory for the Services and EndpointSlices of the target cluster";
    queue_depth: GaugeVec, "linkerd_mc_queue_depth", [],
        "Number of keys in the queue";
    postponed: IntCounterVec, "linkerd_mc_postponed_total", [],
        "Number of times that a key was delayed because it was written recently";
    in_flight: GaugeVec, "linkerd_mc_in_flight", [],
        "Number of keys that are being processed";
    plan: HistogramVec, "linkerd_mc_plan_seconds", [],
        "Time to plan a key", exponential_buckets(1e-6, 4.0, 9).expect(VALID);
    apply: HistogramVec, "linkerd_mc_apply_seconds", [],
        "Time to execute a plan", exponential_buckets(0.001, 2.0, 15).expect(VALID);
    propagation: HistogramVec, "linkerd_mc_propagation_seconds", [],
        "Time from the event of a remote change to the last local write for it", exponential_buckets(0.002, 2.0, 16).expect(VALID);
    writes: IntCounterVec, "linkerd_mc_writes_total", ["verb", "kind", "result"],
        "Number of writes to the local API server";
    watch_restarts: IntCounterVec, "linkerd_mc_watch_restarts_total", ["cluster", "kind"],
        "Number of watch restarts after failures";
    last_contact: GaugeVec, "linkerd_mc_last_contact_timestamp_seconds", ["cluster"],
        "Unix time of the last response of the cluster's API server";
    credentials_expiry: GaugeVec, "linkerd_mc_credentials_expiry_timestamp_seconds", ["link"],
        "Unix time when the token for the Link's target cluster expires; absent if it never does";
    link_ready: GaugeVec, "linkerd_mc_link_ready", ["link"],
        "1 if the Link's condition Ready is True";
    link_invalid: GaugeVec, "linkerd_mc_link_invalid", ["link"],
        "1 if the Link is invalid; its mirrors are not updated";
    link_drained: GaugeVec, "linkerd_mc_link_drained", ["link"],
        "1 while the Link's cluster is drained";
    active: GaugeVec, "federated_active_cluster", ["cluster"],
        "Number of federated Services with a preference that send requests to the cluster first";
    failed_over: GaugeVec, "linkerd_mc_federated_failed_over", ["cluster"],
        "Number of federated Services that prefer the cluster but send it no requests, because it is unavailable or was until recently";
    members: GaugeVec, "linkerd_mc_federated_members", ["federated_service"],
        "Number of members of a federated Service, or of those beyond the first 500 together";
    ready_endpoints: GaugeVec, "linkerd_mc_federated_ready_endpoints", ["federated_service"],
        "Number of ready endpoints of a federated Service with members behind gateways; absent for others";
    mirrored: GaugeVec, "linkerd_mc_mirrored", ["link"],
        "Number of mirrored Services of a Link";
    federated: GaugeVec, "linkerd_mc_federated", ["link"],
        "Number of Services of a Link that are members of a federated Service";
    unhealthy: GaugeVec, "linkerd_mc_unhealthy", ["link"],
        "Number of Services of a Link that should be mirrored or federated and are not";
    leader: GaugeVec, "linkerd_mc_leader", [],
        "1 if this replica holds the lease, 0 if it is on standby";
    tasks: GaugeVec, "linkerd_mc_tasks", [],
        "Number of live async tasks: watches, probes, requests";
    build_info: GaugeVec, "linkerd_mc_build_info", ["version", "commit"],
        "Always 1; the labels have the version, and the commit if known at build time";
}

/// A type of the table.
trait Family {
    fn of(opts: HistogramOpts, labels: &[&str]) -> Self;
}

impl Family for GaugeVec {
    fn of(opts: HistogramOpts, labels: &[&str]) -> Self {
        Self::new(opts.common_opts, labels).expect(VALID)
    }
}

impl Family for IntCounterVec {
    fn of(opts: HistogramOpts, labels: &[&str]) -> Self {
        Self::new(opts.common_opts, labels).expect(VALID)
    }
}

impl Family for HistogramVec {
    fn of(opts: HistogramOpts, labels: &[&str]) -> Self {
        Self::new(opts, labels).expect(VALID)
    }
}

fn register<B>(registry: &Registry, family: MetricVec<B>, labels: &[&str]) -> MetricVec<B>
where
    B: MetricVecBuilder + 'static,
{
    registry.register(Box::new(family.clone())).expect(VALID);
    if labels.is_empty() {
        // Its only series is there from the start.
        family.with_label_values(NO_LABELS);
    }
    family
}

/// The metrics of the process, which only Linux has.
#[cfg(target_os = "linux")]
fn register_process(registry: &Registry) {
    registry
        .register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))
        .expect(VALID);
}

fn remove<B: MetricVecBuilder>(family: &MetricVec<B>, labels: &[&str], value: &str) {
    let found = family.collect();
    for series in found.iter().flat_map(MetricFamily::get_metric) {
        let has = series.get_label().iter();
        let has: HashMap<&str, &str> = has.map(|label| (label.name(), label.value())).collect();
        if labels.iter().any(|label| has.get(label) == Some(&value)) {
            // It may be gone already: then there is nothing to do.
            let _ = family.remove(&has);
        }
    }
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
