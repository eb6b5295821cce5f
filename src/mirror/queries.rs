//! What is asked of a target cluster: by the watches of the controller, and by the lists of `plan`. There is one answer
//! for both, so that they see the same.

use std::collections::BTreeSet;

use super::{
    export::{Mode, mode},
    selector::Selector,
    target::Target,
};
use crate::api::{k8s::Service, labels as l};

/// Services by namespace and name.
pub type Names = BTreeSet<(String, String)>;

/// Names in one selector of [`slices_of`], at most: a name has up to 63 characters, and a URL may have some thousand.
pub const NAMES: usize = 50;

/// What is asked of a target cluster, as label selectors. No object is transferred that none of them takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Selectors of Services.
    pub services: Vec<String>,
    /// Selector of the EndpointSlices of Services in gateway mode; `None` if the Link has no such mode.
    ///
    /// Kubernetes copies a Service's labels to its slices; those that it does not make itself are found by
    /// [`Target::unselected`] and [`slices_of`].
    pub slices: Option<String>,
}

impl Target {
    /// What is asked of this cluster.
    pub fn queries(&self) -> Queries {
        let services = self.service_selectors();
        Queries {
            services: services.iter().map(Selector::query).collect(),
            slices: self.gateway_selector.as_ref().map(Selector::query),
        }
    }

    /// Services in gateway mode that have no selector. Kubernetes makes no slices for them, and those that people make
    /// need not have the Service's labels: they are asked for by the Service's name.
    pub fn unselected<'a>(
        &self,
        services: impl Iterator<Item = &'a Service>,
    ) -> impl Iterator<Item = (String, String)> {
        services
            .filter(|service| self.is_unselected(service))
            .map(|service| service.metadata.id())
    }

    /// Whether it is one of the Services that [`Target::unselected`] finds.
    pub fn is_unselected(&self, service: &Service) -> bool {
        service.spec.selector.is_empty() && mode(self, service) == Some(Mode::Gateway)
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
        assert_eq!(target("east").queries().slices.as_deref(), Some(exported));
        let mut flat = link("east");
        flat.spec.selector = None;
        let queries = Target::parse(&flat, false).unwrap().queries();
        let services = [
            "mirror.linkerd.io/exported in (remote-discovery)",
            "mirror.linkerd.io/federated in (member)",
        ];
        let services = services.map(str::to_owned).into();
        let slices = None;
        assert_eq!(queries, Queries { services, slices });
    }

    #[test]
    fn slices_that_people_make_are_those_of_services_in_gateway_mode_without_a_selector() {
        let selecting = |mut service: Svc| {
            service.0.spec.selector = map(&[("app", "web")]);
            service
        };
        for (what, service, unselected) in [
            ("exported", svc("web").exported(), true),
            ("with a selector", selecting(svc("web").exported()), false),
            ("for remote discovery", svc("web").discovered(), false),
            ("a member", svc("web").member(), false),
        ] {
            let found: Vec<_> = target("east")
                .unselected([&service.0].into_iter())
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
