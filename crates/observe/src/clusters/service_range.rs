//! Whether the Service range has enough addresses for the Services that target clusters export. Pure.

use client::service_range::available;
use mirror_core::{
    api::{k8s::Service, labels as l, link::ServiceStatus, members::remote_members},
    mirror::Reason,
};

use super::{
    link_summary::LinkSummary,
    snapshot::{LinkSnapshot, ServiceRange},
};

/// How many `ClusterIP`s mirrors may still take, if the waiting Services need more than that. A quarter of the range stays
/// free.
pub fn shortage(range: &ServiceRange, waiting: usize) -> Option<u64> {
    let left = u64::try_from(available(&range.networks, range.used)).unwrap_or_default();
    (waiting as u64 > left).then_some(left)
}

/// Number of Services of a Link's target cluster that wait to be mirrored or federated: the counts in the Link's
/// status, minus existing mirrors and memberships, minus Services that will not be mirrored for another reason.
pub fn waiting(link: &LinkSnapshot, mirrors: &[Service]) -> usize {
    let cluster = link.cluster();
    let state = LinkSummary::of(link);
    let count = |n: i64| usize::try_from(n).unwrap_or_default();
    let wanted = count(state.mirrored) + count(state.federated) + count(state.unhealthy);
    let stands = |mirror: &&Service| {
        let labels = &mirror.metadata.labels;
        let mut members = remote_members(|key| mirror.metadata.annotations.get(key));
        let is_mirror = labels.get(l::CLUSTER_NAME) == Some(cluster);
        (is_mirror && !labels.contains_key(l::HEADLESS_MIRROR))
            || members.any(|(_, of)| of == cluster)
    };
    let standing = mirrors.iter().filter(stands).count();
    let status = link.status();
    let lists = status.map(|status| [&status.mirror_services, &status.federated_services]);
    let listed = lists.into_iter().flatten().flatten();
    let never = listed.filter(|service| will_not_be(service)).count();
    wanted.saturating_sub(standing).saturating_sub(never)
}

/// Whether a Service without a mirror fails for another reason than a missing address.
fn will_not_be(service: &ServiceStatus) -> bool {
    let wait = [Reason::Error, Reason::MissingNamespace, Reason::NoClusterIp].map(Reason::as_str);
    let condition = service.conditions.first().filter(|c| c.status != "True");
    condition.is_some_and(|condition| !wait.contains(&condition.reason.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clusters::fixtures::link;

    #[test]
    fn shortage_returns_what_mirrors_may_take_if_services_need_more() {
        for (networks, used, waiting, expected) in [
            (&["10.96.0.0/24"][..], 10, 180, None),
            (&["10.96.0.0/24"], 10, 181, Some(180)),
            (&["10.96.0.0/24"], 190, 0, None),
            (&["10.96.0.0/24"], 190, 1, Some(0)),
            (&["10.96.0.0/24"], 300, 1, Some(0)),
            (&["10.96.0.0/24", "10.97.0.0/24"], 254, 127, None),
            (&["10.96.0.0/24", "10.97.0.0/24"], 254, 128, Some(127)),
            (&["10.96.0.0/12"], 5, 786_425, None),
            (&["10.96.0.0/12"], 5, 786_426, Some(786_425)),
            (&["0.0.0.0/0"], 0, usize::MAX, Some(3_221_225_470)),
            (&["10.96.0.1/32"], 0, 1, Some(0)),
            (&["fd00::/120"], 0, 191, None),
            (&["fd00::/120"], 0, 192, Some(191)),
            (&["fd00::/64"], 100_000, 10_000_000, None),
            (&[], 0, 1, Some(0)),
        ] {
            let range = ServiceRange {
                networks: networks.iter().map(|net| net.parse().unwrap()).collect(),
                used,
            };
            let left = shortage(&range, waiting);
            assert_eq!(left, expected, "{networks:?} {used} {waiting}");
        }
    }

    #[test]
    fn missing_services_wait_unless_they_fail_for_other_reasons() {
        let service = |labels: Value, annotations: Value| -> Service {
            let metadata = json!({ "name": "x", "labels": labels, "annotations": annotations });
            serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap()
        };
        let of = |cluster: &str| service(json!({ l::CLUSTER_NAME: cluster }), json!({}));
        let host = service(
            json!({ l::CLUSTER_NAME: "east", l::HEADLESS_MIRROR: "db-east" }),
            json!({}),
        );
        let federated = |members: &str| service(json!({}), json!({ l::REMOTE_DISCOVERY: members }));
        let entry = |reason: &str| {
            json!({
                "controllerName": "linkerd.io/service-mirror", "remoteRef": { "name": "web", "namespace": "shop" },
                "conditions": [{
                    "type": "Mirrored", "status": "False", "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            })
        };
        let counts = |mirrored: i64, federated: i64, unhealthy: i64, entries: Value| {
            json!({
                "mirrored": mirrored, "federated": federated, "unhealthy": unhealthy, "mirrorServices": entries,
            })
        };
        for (what, status, mirrors, expected) in [
            ("nothing is known", json!({}), vec![], 0),
            (
                "all stand",
                counts(1, 1, 0, json!([])),
                vec![of("east"), federated("a@east")],
                0,
            ),
            ("none stand", counts(0, 0, 7, json!([])), vec![], 7),
            (
                "some exist with an error",
                counts(1, 0, 2, json!([])),
                vec![of("east"), of("east")],
                1,
            ),
            (
                "mirrors of other clusters do not count",
                counts(0, 0, 2, json!([])),
                vec![of("west"), federated("a@west")],
                2,
            ),
            (
                "endpoint mirrors do not count",
                counts(1, 0, 1, json!([])),
                vec![of("east"), host],
                1,
            ),
            (
                "a member of two federated Services",
                counts(0, 1, 1, json!([])),
                vec![federated("a@west,a@east")],
                1,
            ),
            (
                "some fail for other reasons",
                counts(
                    0,
                    0,
                    4,
                    json!([
                        entry("NameConflict"),
                        entry("Error"),
                        entry("MissingNamespace"),
                        entry("NoClusterIP")
                    ]),
                ),
                vec![],
                3,
            ),
        ] {
            assert_eq!(
                waiting(&link("east", &status), &mirrors),
                expected,
                "{what}"
            );
        }
    }
}
