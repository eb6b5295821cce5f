//! The selectors for requests to a target cluster. The watches of the controller and the lists of `plan` share them, so
//! that both see the same objects.

use std::collections::BTreeSet;

use super::Target;
use crate::{
    api::{labels as l, selector::Selector},
    mirror::key::Names,
};

/// Maximum number of names in one selector of [`slices_of`]: a name has up to 63 characters, and the length of a URL is
/// limited to a few thousand.
const NAMES: usize = 50;

/// The label selectors for requests to a target cluster. The target cluster sends only objects that match one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Selectors of Services.
    pub services: Vec<String>,
    /// Selectors of the EndpointSlices of Services behind the gateway; none if the Link has no gateway mode.
    ///
    /// Kubernetes copies a Service's labels to the slices that it creates. Whoever creates slices for a Service without
    /// a selector has to label them, as Linkerd requires it of Endpoints.
    pub slices: Vec<String>,
}

impl Target {
    /// The selectors for this cluster. `by_slices`: the value of [`Links::by_slices`](crate::mirror::Links::by_slices).
    pub fn queries(&self, by_slices: bool) -> Queries {
        let texts = |selectors: &[Selector]| selectors.iter().map(Selector::query).collect();
        Queries {
            services: texts(&self.service_selectors()),
            slices: texts(&self.slice_selectors(by_slices)),
        }
    }
}

/// Selectors of the slices of Services with these names. They ignore the namespaces, so slices of other Services with
/// the same names match too, and the caller has to ignore these.
pub fn slices_of(names: &Names) -> Vec<String> {
    let names: BTreeSet<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    names
        .chunks(NAMES)
        .map(|names| format!("{} in ({})", l::SLICE_SERVICE, names.join(",")))
        .collect()
}

/// Selects the slices of probe Services, in the namespace of Links. Slices that Kubernetes creates for the Endpoints of
/// Linkerd's own service mirror have no other label of ours than the one for the cluster.
pub fn slices_of_probes() -> String {
    format!("{},!{}", l::CLUSTER_NAME, l::MIRRORED_SERVICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::fixtures::{link, target};

    #[test]
    fn slices_are_requested_if_the_link_has_gateway_mode() {
        let exported = "mirror.linkerd.io/exported in (true)";
        assert_eq!(target("east").queries(false).slices, [exported]);
        let mut flat = link("east");
        flat.spec.selector = None;
        let queries = Target::parse(&flat, false).unwrap().queries(false);
        let services = [
            "mirror.linkerd.io/exported in (remote-discovery)",
            "mirror.linkerd.io/federated in (member)",
        ];
        let services = services.map(str::to_owned).into();
        let slices = Vec::new();
        assert_eq!(queries, Queries { services, slices });
    }

    #[test]
    fn slices_of_members_are_requested_if_federated_services_are_made_of_slices() {
        let (exported, members) = (
            "mirror.linkerd.io/exported in (true)",
            "mirror.linkerd.io/federated in (member)",
        );
        assert_eq!(target("east").queries(true).slices, [exported, members]);
        let mut without = link("east");
        without.spec.gateway_address.clear();
        let without = Target::parse(&without, false).unwrap();
        assert_eq!(without.queries(true).slices, [exported]);
    }

    #[test]
    fn slices_are_requested_by_name_once_each_and_in_batches() {
        let name = |n: usize| ("a".to_owned(), format!("s{n:03}"));
        let mut names: Names = (0..NAMES).map(name).collect();
        names.insert(("b".to_owned(), "s000".to_owned()));
        let one = slices_of(&names);
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].matches("s000").count(), 1);
        assert!(one[0].starts_with("kubernetes.io/service-name in (s000,s001,"));
        names.insert(name(NAMES));
        assert_eq!(slices_of(&names).len(), 2);
        assert_eq!(slices_of(&Names::new()), [""; 0]);
    }
}
