//! The selectors for requests to a target cluster. The watches of the controller and the lists of `plan` share them, so
//! that both see the same objects.

use std::collections::BTreeSet;

use super::{
    Target,
    export::{Mode, member, mode},
};
use crate::{
    api::{k8s::Service, labels as l, selector::Selector},
    mirror::key::Names,
};

/// Maximum number of names in one selector of [`slices_of`]: a name has up to 63 characters, and the length of a URL is
/// limited to a few thousand.
pub const NAMES: usize = 50;

/// The label selectors for requests to a target cluster. The target cluster sends only objects that match one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Selectors of Services.
    pub services: Vec<String>,
    /// Selectors of the EndpointSlices of Services behind the gateway; none if the Link has no gateway mode.
    ///
    /// Kubernetes copies a Service's labels to its slices. Slices that Kubernetes does not create itself are found with
    /// [`Target::unselected`] and [`slices_of`].
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

    /// Services behind the gateway that have no selector. Kubernetes creates no slices for them. Slices that people
    /// create need not have the Service's labels, so they are requested by the Service's name.
    pub fn unselected<'a>(
        &self,
        by_slices: bool,
        services: impl Iterator<Item = &'a Service>,
    ) -> impl Iterator<Item = (String, String)> {
        services
            .filter(move |service| self.is_unselected(by_slices, service))
            .map(|service| service.metadata.id())
    }

    /// Whether it is one of the Services that [`Target::unselected`] finds.
    pub fn is_unselected(&self, by_slices: bool, service: &Service) -> bool {
        let is_behind_gateway = || {
            mode(self, service) == Some(Mode::Gateway)
                || by_slices && self.gateway.is_some() && member(self, service)
        };
        service.spec.selector.is_empty() && is_behind_gateway()
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
    use crate::mirror::fixtures::{Svc, link, map, svc, target};

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
    fn unselected_services_are_those_in_gateway_mode_without_a_selector() {
        let selecting = |mut service: Svc| {
            service.0.spec.selector = map(&[("app", "web")]);
            service
        };
        for (what, by_slices, service, unselected) in [
            ("exported", false, svc("web").exported(), true),
            (
                "with a selector",
                false,
                selecting(svc("web").exported()),
                false,
            ),
            ("for remote discovery", true, svc("web").discovered(), false),
            ("a member", false, svc("web").member(), false),
            (
                "a member behind the gateway",
                true,
                svc("web").member(),
                true,
            ),
        ] {
            let found: Vec<_> = target("east")
                .unselected(by_slices, [&service.0].into_iter())
                .collect();
            let expected = unselected.then(|| ("ns".to_owned(), "web".to_owned()));
            assert_eq!(found, Vec::from_iter(expected), "{what}");
        }
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
