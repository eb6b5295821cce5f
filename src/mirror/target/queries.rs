//! What is asked of a target cluster: by the watches of the controller, and by the lists of `plan`. There is one answer
//! for both, so that they see the same.

use std::collections::BTreeSet;

use super::{
    Target,
    export::{Mode, member, mode},
};
use crate::{
    api::{k8s::Service, labels as l, selector::Selector},
    mirror::key::Names,
};

/// Names in one selector of [`slices_of`], at most: a name has up to 63 characters, and a URL may have some thousand.
pub const NAMES: usize = 50;

/// What is asked of a target cluster, as label selectors. No object is transferred that none of them takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Selectors of Services.
    pub services: Vec<String>,
    /// Selectors of the EndpointSlices of Services behind the gateway; none if the Link has no gateway mode.
    ///
    /// Kubernetes copies a Service's labels to its slices; those that it does not make itself are found by
    /// [`Target::unselected`] and [`slices_of`].
    pub slices: Vec<String>,
}

impl Target {
    /// What is asked of this cluster. `by_slices`: as [`Links::by_slices`](crate::mirror::Links::by_slices) says.
    pub fn queries(&self, by_slices: bool) -> Queries {
        let texts = |selectors: &[Selector]| selectors.iter().map(Selector::query).collect();
        Queries {
            services: texts(&self.service_selectors()),
            slices: texts(&self.slice_selectors(by_slices)),
        }
    }

    /// Services behind the gateway that have no selector. Kubernetes makes no slices for them, and those that people make
    /// need not have the Service's labels: they are asked for by the Service's name.
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

/// Selectors of the slices of Services with these names, in all namespaces: what they find in others is not asked for.
pub fn slices_of(names: &Names) -> Vec<String> {
    let names: BTreeSet<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    names
        .chunks(NAMES)
        .map(|names| format!("{} in ({})", l::SLICE_SERVICE, names.join(",")))
        .collect()
}

/// Selects the slices of probe Services, in the namespace of Links. Those that Kubernetes makes of the Endpoints of
/// Linkerd's own service mirror name the cluster and nothing else.
pub fn slices_of_probes() -> String {
    format!("{},!{}", l::CLUSTER_NAME, l::MIRRORED_SERVICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::fixtures::{Svc, link, map, svc, target};

    #[test]
    fn slices_are_asked_for_where_the_link_has_gateway_mode() {
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
    fn slices_of_members_are_asked_for_where_federated_services_are_made_of_slices() {
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
    fn slices_that_people_make_are_those_of_services_in_gateway_mode_without_a_selector() {
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
    fn slices_are_asked_for_by_name_once_each_and_not_all_at_once() {
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
