//! Labels of Services in a target cluster that look as if they should export a Service, and select nothing, such as
//! `mirror.linkerd.io/exported=True`.

use std::collections::BTreeMap;

use futures::try_join;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{ListParams, PartialObjectMeta},
};

use client::ReadError;
use mirror_core::api::{
    labels::{EXPORTED, FEDERATED},
    link::Link,
    metadata::ResourceId,
    selector::Selector,
};

/// The labels of a Service that export it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportLabels {
    /// Values of the labels, by key.
    values: BTreeMap<&'static str, String>,
}

/// Maximum number of Services that are looked at.
const MOST: u32 = 500;

/// The first Services with other values of these labels than the usual ones.
pub async fn unusual(client: &Client) -> Result<BTreeMap<ResourceId, ExportLabels>, ReadError> {
    let services: Api<Service> = Api::all(client.clone());
    let list = async |key: &str, usual: &str| {
        let unusual = format!("{key},{key} notin ({usual})");
        let first = ListParams::default().labels(&unusual).limit(MOST);
        services.list_metadata(&first).await
    };
    let (exported, federated) = try_join!(
        list(EXPORTED, "true,remote-discovery"),
        list(FEDERATED, "member")
    )?;
    let all = exported.items.iter().chain(&federated.items);
    Ok(all
        .map(|service| (ResourceId::of(service), labels_of(service)))
        .collect())
}

fn labels_of(service: &PartialObjectMeta<Service>) -> ExportLabels {
    let labels = service.metadata.labels.as_ref();
    let of = |key: &'static str| Some((key, labels?.get(key)?.clone()));
    ExportLabels {
        values: [EXPORTED, FEDERATED].into_iter().filter_map(of).collect(),
    }
}

/// A warning if the labels of a Service look as if they should export it, and the Link does not select them.
pub fn misspelled(link: &Link, service: &ResourceId, labels: &ExportLabels) -> Option<String> {
    let spec = &link.spec;
    let selectors = [
        &spec.selector,
        &spec.remote_discovery_selector,
        &spec.federated_service_selector,
    ];
    let mut selectors = selectors
        .into_iter()
        .filter_map(|s| Selector::parse(s.as_ref()).ok()?);
    let of = |key: &str| labels.values.get(key).map(String::as_str);
    if selectors.any(|selector| selector.selects(of)) {
        return None;
    }
    labels.values.iter().find_map(|(&key, value)| {
        let meant = meant(key, value).filter(|meant| meant != value)?;
        Some(format!(
            "the Service {service} is not exported: no selector of the Link matches its label {key}={value}; did you mean \
             {key}={meant}?"
        ))
    })
}

/// The value that somebody meant who wrote this one.
fn meant(key: &str, value: &str) -> Option<&'static str> {
    let lower = value.to_ascii_lowercase().replace('_', "-");
    let yes = ["true", "yes", "y", "on", "1", "enabled"].contains(&lower.as_str());
    match key {
        EXPORTED if yes => Some("true"),
        EXPORTED if lower == "remote-discovery" => Some("remote-discovery"),
        FEDERATED if yes || lower == "member" => Some("member"),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Labels with one value.
    pub fn labelled(key: &'static str, value: &str) -> ExportLabels {
        ExportLabels {
            values: BTreeMap::from([(key, value.to_owned())]),
        }
    }

    #[test]
    fn labels_that_select_nothing_are_reported_if_they_look_like_a_mistake() {
        let link: Link = serde_json::from_value(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": "east" },
            "spec": {
                "targetClusterName": "east",
                "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
                "remoteDiscoverySelector": { "matchLabels": { "mirror.linkerd.io/exported": "remote-discovery" } },
                "federatedServiceSelector": { "matchLabels": { "mirror.linkerd.io/federated": "member" } },
            },
        }))
        .unwrap();
        let web = ResourceId::new("shop", "web");
        let said =
            |key: &'static str, value: &'static str| misspelled(&link, &web, &labelled(key, value));
        for (key, value, meant) in [
            (EXPORTED, "True", Some("exported=true?")),
            (EXPORTED, "yes", Some("exported=true?")),
            (
                EXPORTED,
                "Remote_Discovery",
                Some("exported=remote-discovery?"),
            ),
            (FEDERATED, "true", Some("federated=member?")),
            (FEDERATED, "Member", Some("federated=member?")),
            (EXPORTED, "true", None),
            (EXPORTED, "remote-discovery", None),
            (FEDERATED, "member", None),
            // For other Links, or off.
            (EXPORTED, "team-b", None),
            (EXPORTED, "false", None),
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
