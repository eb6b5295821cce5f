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

#[cfg(test)]
mod tests {
    use super::*;

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
