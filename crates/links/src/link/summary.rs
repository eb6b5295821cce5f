//! What `link` says at the end: how many Services are mirrored, and which are not. Pure.

use hints::prose::listed;
use mirror_core::api::{
    link::{Link, ServiceStatus},
    selector::Selector,
};

/// Services that are named; more are only counted.
const NAMED: usize = 3;

/// One line about the Services of a target cluster.
pub fn summary(target: &str, source: &str, link: &Link) -> String {
    let status = link.status.clone().unwrap_or_default();
    let all = [&status.mirror_services, &status.federated_services];
    let mut failed: Vec<String> = all.into_iter().flatten().filter_map(failure).collect();
    failed.sort();
    failed.dedup();
    let count = |count: Option<i64>| count.unwrap_or_default();
    let (mirrored, federated) = (count(status.mirrored), count(status.federated));
    let what = format!("Services of {target} in {source}");
    if mirrored + federated == 0 && failed.is_empty() {
        return format!(
            "{what}: none is exported yet; export one with {}",
            how(link)
        );
    }
    let not = match failed.len() {
        0 => String::new(),
        count => format!(", {count} not: {}", listed(&failed, NAMED)),
    };
    format!("{what}: {mirrored} mirrored, {federated} federated{not}")
}

/// A Service that is not mirrored, with the reason.
fn failure(service: &ServiceStatus) -> Option<String> {
    let condition = service.conditions.first()?;
    let of = &service.remote_ref;
    (condition.status != "True")
        .then(|| format!("{}/{} ({})", of.namespace, of.name, condition.reason))
}

/// The labels that export a Service.
fn how(link: &Link) -> String {
    let spec = &link.spec;
    let selectors = [
        &spec.selector,
        &spec.remote_discovery_selector,
        &spec.federated_service_selector,
    ];
    let selectors = selectors.into_iter().filter_map(|selector| {
        let selector = selector.as_ref()?;
        match &selector.match_labels {
            Some(labels) if labels.len() == 1 && selector.match_expressions.is_none() => labels
                .iter()
                .next()
                .map(|(key, value)| format!("{key}={value}")),
            _ => Some(Selector::parse(Some(selector)).ok()??.query()),
        }
    });
    let all: Vec<String> = selectors.collect();
    match all.split_last() {
        None => "a selector of the Link".to_owned(),
        Some((only, [])) => format!("the label {only}"),
        Some((last, rest)) => format!("the label {} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link(status: &serde_json::Value) -> Link {
        serde_json::from_value(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": "east" },
            "spec": {
                "targetClusterName": "east",
                "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
                "remoteDiscoverySelector": { "matchLabels": { "mirror.linkerd.io/exported": "remote-discovery" } },
                "federatedServiceSelector": { "matchLabels": { "mirror.linkerd.io/federated": "member" } },
            },
            "status": status,
        }))
        .unwrap()
    }

    fn service(name: &str, status: &str, reason: &str) -> serde_json::Value {
        json!({
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": { "namespace": "missing", "name": name },
            "conditions": [{
                "type": "Mirrored", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        })
    }

    #[test]
    fn summary_counts_and_names_what_is_not_mirrored() {
        let missing = |count: usize| {
            let names = (0..count).map(|n| service(&format!("o{n}"), "False", "MissingNamespace"));
            names.collect::<Vec<_>>()
        };
        for (status, expected) in [
            (
                json!({ "mirrored": 50, "federated": 10, "mirrorServices": [service("orders", "False", "MissingNamespace"), service("web", "True", "Mirrored")] }),
                "Services of east in west: 50 mirrored, 10 federated, 1 not: missing/orders (MissingNamespace)",
            ),
            (
                json!({ "mirrored": 1, "federated": 0 }),
                "Services of east in west: 1 mirrored, 0 federated",
            ),
            (
                json!({ "mirrored": 0, "federated": 0, "federatedServices": missing(5) }),
                "Services of east in west: 0 mirrored, 0 federated, 5 not: missing/o0 (MissingNamespace), missing/o1 \
                 (MissingNamespace), missing/o2 (MissingNamespace) and 2 more",
            ),
            (
                json!({}),
                "Services of east in west: none is exported yet; export one with the label \
                 mirror.linkerd.io/exported=true, mirror.linkerd.io/exported=remote-discovery or \
                 mirror.linkerd.io/federated=member",
            ),
        ] {
            assert_eq!(summary("east", "west", &link(&status)), expected);
        }
    }
}
