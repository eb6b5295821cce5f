//! The range of a cluster's `ClusterIP`s, and how many of them are available. Pure.

use std::collections::BTreeSet;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::ServiceCIDR;

/// Name of the `ServiceCIDR` that the API server creates.
const DEFAULT: &str = "kubernetes";

/// The networks of a range that can be parsed.
pub fn cidrs(range: &ServiceCIDR) -> impl Iterator<Item = IpNet> {
    let spec = range.spec.iter();
    let cidrs = spec.flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|text| text.parse().ok())
}

/// The networks of a cluster's first address family: that of the first network of the default range.
pub fn networks(ranges: &[ServiceCIDR]) -> Vec<IpNet> {
    let is_default = |range: &&ServiceCIDR| range.metadata.name.as_deref() == Some(DEFAULT);
    let first = ranges.iter().find(is_default).or_else(|| ranges.first());
    let Some(first) = first.and_then(|range| cidrs(range).next()) else {
        return Vec::new();
    };
    let all = ranges.iter().flat_map(cidrs);
    let own: BTreeSet<IpNet> = all.filter(|net| is_v4(net) == is_v4(&first)).collect();
    // Ranges may overlap.
    let outer = |net: &&IpNet| {
        !own.iter()
            .any(|other| other != *net && other.contains(*net))
    };
    own.iter().filter(outer).copied().collect()
}

/// Whether it is a range of IPv4 addresses.
pub fn is_v4(net: &IpNet) -> bool {
    matches!(net, IpNet::V4(_))
}

/// The number of `ClusterIP`s in these networks. Kubernetes uses neither the first address of a network, nor the last of
/// an IPv4 network.
fn size(networks: &[IpNet]) -> u128 {
    let sizes = networks.iter().map(|net| {
        let bits = u32::from(net.max_prefix_len() - net.prefix_len());
        let all = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
        all.saturating_sub(if is_v4(net) { 2 } else { 1 })
    });
    sizes.fold(0, u128::saturating_add)
}

/// The number of `ClusterIP`s that may be allocated if `used` are, so that a quarter of the networks stays free. Others in
/// the cluster need some too. Negative if less is free.
pub fn available(networks: &[IpNet], used: usize) -> i64 {
    let all = size(networks);
    let number = |of: u128| i64::try_from(of).unwrap_or(i64::MAX);
    number(all - all.div_ceil(4)) - number(used as u128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ranges(all: &[(&str, &[&str])]) -> Vec<ServiceCIDR> {
        let range = |(name, cidrs): &(&str, &[&str])| json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
        let all = all.iter().map(range);
        all.map(|range| serde_json::from_value(range).unwrap())
            .collect()
    }

    #[test]
    fn service_networks_are_of_the_first_family_without_duplicates() {
        for (all, expected) in [
            (&[][..], &[][..]),
            (&[("kubernetes", &["10.96.0.0/16"][..])], &["10.96.0.0/16"]),
            (
                &[("kubernetes", &["10.96.0.0/16", "fd00::/112"])],
                &["10.96.0.0/16"],
            ),
            (
                &[
                    ("a", &["10.97.0.0/24"]),
                    ("kubernetes", &["fd00::/112", "10.96.0.0/16"]),
                ],
                &["fd00::/112"],
            ),
            (
                &[
                    ("a", &["10.97.0.0/24", "fd00::/120"]),
                    ("b", &["10.96.7.0/24"]),
                    ("c", &["10.97.0.0/24", "nonsense"]),
                    ("kubernetes", &["10.96.0.0/16"]),
                ],
                &["10.96.0.0/16", "10.97.0.0/24"],
            ),
            (&[("a", &["10.97.0.0/24"])], &["10.97.0.0/24"]),
        ] {
            let found: Vec<String> = networks(&ranges(all))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(found, expected, "{all:?}");
        }
    }

    #[test]
    fn a_quarter_of_the_range_stays_free() {
        for (range, used, expected) in [
            (&["10.96.0.0/24"][..], 0, 190),
            (&["10.96.0.0/24"], 100, 90),
            (&["10.96.0.0/24"], 190, 0),
            (&["10.96.0.0/24"], 300, -110),
            (&["10.96.0.0/24", "10.97.0.0/24"], 0, 381),
            (&["10.96.0.0/12"], 20_000, 766_430),
            (&["10.96.0.1/32"], 0, 0),
            (&[], 0, 0),
        ] {
            let networks: Vec<IpNet> = range.iter().map(|net| net.parse().unwrap()).collect();
            assert_eq!(available(&networks, used), expected, "{range:?} {used}");
        }
    }
}
