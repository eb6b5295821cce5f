//! A Link that is not applied yet.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use mirror_core::api::link::{Link, LinkObject};

/// A Link that is not applied yet, and its credentials, if these are not applied yet either.
pub struct Proposed {
    /// The Link, as it would be.
    pub link: Link,
    /// Kubeconfigs by name of their Secret.
    pub credentials: BTreeMap<String, Vec<u8>>,
}

/// Adds a Link to the `known` ones, as if it were applied `now`. It replaces the Link of its name, and keeps that
/// Link's creation time and status. A new Link is the youngest.
pub fn add(known: &mut Vec<LinkObject>, mut link: Link, now: Timestamp) {
    let name = link.name_any();
    let live = known.iter().position(|known| known.link.name_any() == name);
    let live = live.map(|at| known.remove(at).link);
    let created = live
        .as_ref()
        .and_then(|live| live.metadata.creation_timestamp.clone());
    link.metadata.creation_timestamp = Some(created.unwrap_or(Time(now)));
    link.status = live.and_then(|live| live.status);
    known.push(LinkObject {
        link,
        unreadable: None,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link(name: &str, address: &str, more: serde_json::Value) -> Link {
        let mut link = json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": name },
            "spec": { "targetClusterName": "east", "gatewayAddress": address },
        });
        if let (Some(link), serde_json::Value::Object(more)) = (link.as_object_mut(), more) {
            link.extend(more);
        }
        serde_json::from_value(link).unwrap()
    }

    #[test]
    fn changed_link_keeps_its_age_and_a_new_one_is_the_youngest() {
        let then = "2026-01-01T00:00:00Z";
        let now: Timestamp = "2026-11-25T00:00:00Z".parse().unwrap();
        let live = json!({
            "metadata": { "name": "east", "creationTimestamp": then },
            "status": { "targetClusterName": "east" },
        });
        let live = || LinkObject {
            link: link("east", "192.0.2.1", live.clone()),
            unreadable: None,
        };
        for (name, created, has_status, count) in [
            ("east", then, true, 1),
            ("again", "2026-11-25T00:00:00Z", false, 2),
        ] {
            let mut known = vec![live()];
            add(&mut known, link(name, "192.0.2.2", json!({})), now);
            assert_eq!(known.len(), count);
            let added = &known.last().unwrap().link;
            assert_eq!(added.spec.gateway_address, "192.0.2.2");
            let age = added.metadata.creation_timestamp.as_ref();
            assert_eq!(age.map(|time| time.0), Some(created.parse().unwrap()));
            assert_eq!(added.status.is_some(), has_status);
        }
    }
}
