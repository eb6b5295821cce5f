//! The members and endpoints of each federated Service, as metrics. Target clusters choose the names of these Services, so
//! the number of series is limited.

use std::collections::{BTreeMap, BTreeSet};

use mirror_core::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    members::{local_member, remote_members},
    metadata::ResourceId,
};

use crate::metrics::{FederatedCounts, Metrics};

/// Number of federated Services with series of their own. The first that are seen keep theirs as long as they exist, so no
/// target cluster takes them away. The rest have one sum.
pub const MOST: usize = 500;
/// What the series of the rest are labelled with. No name of a Service is written like this.
const REST: &str = "others";

/// The federated Services that are counted.
#[derive(Debug, Default)]
pub struct FederatedSeries {
    /// Those that have series of their own.
    own: BTreeSet<ResourceId>,
    rest: BTreeMap<ResourceId, FederatedCounts>,
}

impl FederatedSeries {
    /// Updates a Service; `None` if it does not exist.
    pub fn note(&mut self, id: ResourceId, now: Option<FederatedCounts>, metrics: &Metrics) {
        if let Some(counts) = now.filter(|_| self.own.contains(&id) || self.own.len() < MOST) {
            metrics.federated_service(&id.to_string(), Some(counts));
            self.rest.remove(&id);
            self.own.insert(id);
        } else if self.own.remove(&id) {
            metrics.federated_service(&id.to_string(), None);
        } else if let Some(counts) = now {
            self.rest.insert(id, counts);
        } else {
            self.rest.remove(&id);
        }
        let rest = self.rest.values().copied().reduce(FederatedCounts::plus);
        metrics.federated_service(REST, rest);
    }
}

/// The members of a Service, and its ready endpoints if it is made of slices. Of others, only Linkerd knows the endpoints.
pub fn counts<'s>(
    service: &Service,
    slices: impl Iterator<Item = &'s EndpointSlice>,
) -> FederatedCounts {
    let annotation = |key: &str| service.metadata.annotations.get(key);
    let local = usize::from(local_member(annotation).is_some());
    let is_of_slices = [l::MEMBERS, l::LOCAL_MEMBER].map(annotation) != [None; 2];
    let endpoints = slices.flat_map(|slice| &slice.endpoints);
    FederatedCounts {
        members: remote_members(annotation).count() + local,
        endpoints: is_of_slices.then(|| endpoints.filter(|endpoint| endpoint.is_ready()).count()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.render();
        let of_services = text
            .lines()
            .filter(|line| line.contains("federated_service="));
        of_services.map(str::to_owned).collect()
    }

    #[test]
    fn members_are_counted_and_endpoints_only_where_they_are_known() {
        let service = |annotations: Value| {
            serde_json::from_value(json!({ "metadata": { "annotations": annotations } })).unwrap()
        };
        let endpoint =
            |ready| json!({ "addresses": ["192.0.2.1"], "conditions": { "ready": ready } });
        let slice = json!({ "metadata": {}, "addressType": "IPv4", "endpoints": [endpoint(true), endpoint(false)] });
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        let discovery = service(
            json!({ l::REMOTE_DISCOVERY: "web@east,web@north", l::LOCAL_DISCOVERY: "web" }),
        );
        let of_slices = service(json!({ l::MEMBERS: "web@east" }));
        let found = [discovery, of_slices].map(|service| counts(&service, [&slice].into_iter()));
        let expected = [(3, None), (1, Some(1))];
        assert_eq!(
            found.map(|found| (found.members, found.endpoints)),
            expected
        );
    }

    #[test]
    fn services_beyond_the_limit_are_summed_and_take_no_series_from_others() {
        let (metrics, mut federated) = (Metrics::new(""), FederatedSeries::default());
        let counts = |members| {
            Some(FederatedCounts {
                members,
                endpoints: Some(1),
            })
        };
        let id = |name: &str| ResourceId::new("shop", name);
        for number in 0..MOST {
            federated.note(id(&format!("web-{number}")), counts(2), &metrics);
        }
        for name in ["a", "b"] {
            federated.note(id(name), counts(3), &metrics);
        }
        let all = series(&metrics);
        assert_eq!(all.len(), 2 * (MOST + 1));
        let rest = r#"linkerd_mc_federated_members{federated_service="others"} 6"#;
        assert!(all.iter().any(|line| line == rest), "{all:#?}");
        federated.note(id("web-0"), None, &metrics);
        federated.note(id("a"), counts(1), &metrics);
        federated.note(id("b"), None, &metrics);
        let all = series(&metrics);
        assert!(
            !all.iter()
                .any(|line| line.contains("others") || line.contains("web-0\""))
        );
        let own = r#"linkerd_mc_federated_members{federated_service="shop/a"} 1"#;
        assert!(all.iter().any(|line| line == own));
    }
}
