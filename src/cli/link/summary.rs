//! What `link` says at the end: how many Services are mirrored, and which are not. Pure.

use crate::api::{
    labels,
    link::{Link, ServiceStatus},
    selector::Selector,
};

/// Services that are named; more are only counted.
const NAMED: usize = 3;

/// One line about the Services of a target cluster.
pub(super) fn summary(target: &str, source: &str, link: &Link) -> String {
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
    let more = match failed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let not = match failed.len() {
        0 => String::new(),
        count => {
            let named = failed[..count.min(NAMED)].join(", ");
            format!(", {count} not: {named}{more}")
        }
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

/// A warning if a label looks as if it should export a Service, and does not: `exported=True` selects nothing.
pub(super) fn misspelled(
    link: &Link,
    service: &str,
    of: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let spec = &link.spec;
    let selectors = [
        &spec.selector,
        &spec.remote_discovery_selector,
        &spec.federated_service_selector,
    ];
    let selectors = selectors
        .into_iter()
        .filter_map(|s| Selector::parse(s.as_ref()).ok()?);
    if selectors.into_iter().any(|selector| {
        let known: Vec<(&str, String)> = [labels::EXPORTED, labels::FEDERATED]
            .into_iter()
            .filter_map(|key| Some((key, of(key)?)))
            .collect();
        selector.selects(|key| {
            known
                .iter()
                .find(|(k, _)| *k == key)
                .map(|(_, v)| v.as_str())
        })
    }) {
        return None;
    }
    let meant = |key: &str, value: &str| {
        let lower = value.to_ascii_lowercase().replace('_', "-");
        let yes = ["true", "yes", "y", "on", "1", "enabled"].contains(&lower.as_str());
        match key {
            labels::EXPORTED if yes => Some("true"),
            labels::EXPORTED if lower == "remote-discovery" => Some("remote-discovery"),
            labels::FEDERATED if yes || lower == "member" => Some("member"),
            _ => None,
        }
    };
    let mut keys = [labels::EXPORTED, labels::FEDERATED].into_iter();
    keys.find_map(|key| {
        let value = of(key)?;
        let meant = meant(key, &value).filter(|meant| *meant != value)?;
        Some(format!(
            "the Service {service} is not exported: no selector of the Link matches its label {key}={value}; did you mean \
             {key}={meant}?"
        ))
    })
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

    #[test]
    fn labels_that_select_nothing_are_reported_if_they_look_like_a_mistake() {
        let link = link(&json!({}));
        let said = |key: &'static str, value: &'static str| {
            misspelled(&link, "shop/web", |asked| {
                (asked == key).then(|| value.to_owned())
            })
        };
        for (key, value, meant) in [
            (labels::EXPORTED, "True", Some("exported=true?")),
            (labels::EXPORTED, "yes", Some("exported=true?")),
            (
                labels::EXPORTED,
                "Remote_Discovery",
                Some("exported=remote-discovery?"),
            ),
            (labels::FEDERATED, "true", Some("federated=member?")),
            (labels::FEDERATED, "Member", Some("federated=member?")),
            (labels::EXPORTED, "true", None),
            (labels::EXPORTED, "remote-discovery", None),
            (labels::FEDERATED, "member", None),
            // For other Links, or off.
            (labels::EXPORTED, "team-b", None),
            (labels::EXPORTED, "false", None),
        ] {
            let said = said(key, value);
            assert_eq!(said.is_some(), meant.is_some(), "{key}={value}: {said:?}");
            if let (Some(said), Some(meant)) = (said, meant) {
                assert!(said.ends_with(meant), "{said}");
                assert!(said.contains(&format!("{key}={value}")), "{said}");
            }
        }
    }
}
