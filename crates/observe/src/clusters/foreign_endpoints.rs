//! Finds endpoints of a mirror that no service mirror created. They silently receive a part of its traffic. Pure.

use std::collections::BTreeMap;

use crate::finding::{Finding, causes::Cause};
use hints::suggest::ClusterFlags;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        metadata::{Metadata, ResourceId},
    },
    mirror::is_managed,
};

/// Endpoints of a mirror that belong to somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignEndpoints {
    /// The mirror.
    pub mirror: ResourceId,
    /// The object with the endpoints.
    pub by: EndpointsSource,
}

impl ForeignEndpoints {
    /// What is wrong with the mirror. The object with the endpoints is in its namespace.
    pub fn finding(&self, flags: &ClusterFlags) -> Finding {
        let Self { mirror, by } = self;
        let (kind, name, what) = match by {
            EndpointsSource::Endpoints => {
                let what = "Endpoints of the same name".to_owned();
                ("endpoints", &mirror.name, what)
            }
            EndpointsSource::Slice { name, manager } => {
                let by = match manager.as_str() {
                    "" => String::new(),
                    manager => format!(" (managed by {manager})"),
                };
                ("endpointslice", name, format!("EndpointSlice {name}{by}"))
            }
        };
        let evidence = format!(
            "Service {mirror}: part of its traffic goes to {what}, which no service mirror created; find out what did, \
             then delete it"
        );
        let delete = flags.kubectl("-n {} delete {} {}", &[&mirror.namespace, kind, name]);
        Finding::broken(Cause::ForeignEndpoints, evidence).fixed_by(&delete)
    }
}

/// An object with endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointsSource {
    /// Endpoints with the Service's name, for which Kubernetes creates slices.
    Endpoints,
    /// An `EndpointSlice` that our controller did not write.
    Slice {
        /// Its name.
        name: String,
        /// Who manages it, from its label; may be empty.
        manager: String,
    },
}

/// Finds slices with endpoints of these mirrors that are foreign: created neither by our controller, nor by Kubernetes
/// for the Endpoints of Linkerd's service mirror. Mirrors without our annotations are Linkerd's and have Endpoints.
pub fn find<'a>(
    mirrors: impl Iterator<Item = &'a Service>,
    slices: &[EndpointSlice],
) -> Vec<ForeignEndpoints> {
    let signed: BTreeMap<ResourceId, bool> = mirrors
        .map(|mirror| (mirror.metadata.resource_id(), is_managed(&mirror.metadata)))
        .collect();
    let mut found: Vec<ForeignEndpoints> = slices
        .iter()
        .filter(|slice| slice.endpoints.iter().any(|e| !e.addresses.is_empty()))
        .filter_map(|slice| {
            let Metadata { labels, .. } = &slice.metadata;
            let service = labels.get(l::SLICE_SERVICE)?;
            let mirror = ResourceId::new(slice.metadata.namespace(), service);
            let is_ours = *signed.get(&mirror)?;
            let manager = labels.get(l::SLICE_MANAGED_BY).unwrap_or_default();
            let by = match manager {
                l::ENDPOINTS_MIRRORING => is_ours.then_some(EndpointsSource::Endpoints)?,
                _ if is_made_by_us(&slice.metadata) => return None,
                manager => EndpointsSource::Slice {
                    name: slice.metadata.name().to_owned(),
                    manager: manager.to_owned(),
                },
            };
            Some(ForeignEndpoints { mirror, by })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether our controller created a slice. It has to have the labels that the controller watches too, because anybody
/// can write the name of a manager.
fn is_made_by_us(metadata: &Metadata) -> bool {
    let label = |key| metadata.labels.get(key);
    let seen = [l::MIRRORED_SERVICE, l::MIRRORED_GATEWAY];
    let is_seen = seen.into_iter().any(|key| label(key) == Some("true"));
    is_seen && (label(l::SLICE_MANAGED_BY) == Some(l::MANAGER) || is_managed(metadata))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mirror(name: &str, signed: bool) -> Service {
        let annotations = if signed {
            json!({ l::MANAGED_BY: l::MANAGER })
        } else {
            json!({})
        };
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": name, "annotations": annotations }, "spec": {},
        }))
        .unwrap()
    }

    fn slice(namespace: &str, service: &str, labels: &Value, endpoints: usize) -> EndpointSlice {
        let mut labels = labels.clone();
        labels[l::SLICE_SERVICE] = json!(service);
        let endpoint = json!({ "addresses": ["192.0.2.1"] });
        serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": format!("{service}-x"), "labels": labels },
            "addressType": "IPv4", "endpoints": vec![endpoint; endpoints],
        }))
        .unwrap()
    }

    #[test]
    fn endpoints_of_a_mirror_are_those_of_its_service_mirror() {
        let seen =
            |manager: &str| json!({ l::MIRRORED_SERVICE: "true", l::SLICE_MANAGED_BY: manager });
        let by = |manager: &str| json!({ l::SLICE_MANAGED_BY: manager });
        let (ours, mirroring) = (l::MANAGER, l::ENDPOINTS_MIRRORING);
        let of = |manager: &str| {
            let (name, manager) = ("web-east-x".to_owned(), manager.to_owned());
            Some(EndpointsSource::Slice { name, manager })
        };
        let probe = json!({ l::MIRRORED_GATEWAY: "true", l::SLICE_MANAGED_BY: ours });
        for (what, signed, slice, expected) in [
            (
                "ours",
                true,
                slice("shop", "web-east", &seen(ours), 1),
                None,
            ),
            (
                "that of a probe Service",
                true,
                slice("shop", "web-east", &probe, 1),
                None,
            ),
            (
                "one that says so, and that the controller does not see",
                true,
                slice("shop", "web-east", &by(ours), 1),
                of(ours),
            ),
            (
                "of others",
                true,
                slice("shop", "web-east", &by("me"), 1),
                of("me"),
            ),
            (
                "of nobody",
                true,
                slice("shop", "web-east", &json!({}), 1),
                of(""),
            ),
            (
                "as the controller sees them",
                true,
                slice("shop", "web-east", &seen("me"), 1),
                of("me"),
            ),
            (
                "without endpoints",
                true,
                slice("shop", "web-east", &by("me"), 0),
                None,
            ),
            (
                "of Endpoints, on a mirror of ours",
                true,
                slice("shop", "web-east", &seen(mirroring), 1),
                Some(EndpointsSource::Endpoints),
            ),
            (
                "of Endpoints, on a mirror of Linkerd's own service mirror",
                false,
                slice("shop", "web-east", &seen(mirroring), 1),
                None,
            ),
            (
                "of others, on such a mirror",
                false,
                slice("shop", "web-east", &by("me"), 1),
                of("me"),
            ),
            (
                "in another namespace",
                true,
                slice("other", "web-east", &by("me"), 1),
                None,
            ),
            (
                "of another Service",
                true,
                slice("shop", "web", &by("me"), 1),
                None,
            ),
        ] {
            let mirrors = [mirror("web-east", signed), mirror("api-east", true)];
            let found = find(mirrors.iter(), &[slice.clone(), slice]);
            let expected: Vec<ForeignEndpoints> = expected
                .into_iter()
                .map(|by| ForeignEndpoints {
                    mirror: ResourceId::new("shop", "web-east"),
                    by,
                })
                .collect();
            assert_eq!(found, expected, "{what}");
        }
    }
}
