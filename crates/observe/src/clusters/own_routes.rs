//! The routes that our controllers wrote. Pure.

use hints::suggest::{ClusterFlags, Suggested};
use mirror_core::api::{
    labels,
    metadata::ResourceId,
    route::{Route, RouteKind},
};

/// A route that a controller wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRoute {
    kind: RouteKind,
    /// Namespace and name.
    id: ResourceId,
    /// The installation that it belongs to; empty if it names none.
    pub installation: String,
}

impl OwnRoute {
    /// What is kept of a route.
    pub fn of(route: &Route) -> Self {
        Self {
            kind: route.kind,
            id: route.metadata.resource_id(),
            installation: route.metadata.annotation(labels::INSTALLATION).to_owned(),
        }
    }

    /// Kind, namespace and name.
    pub fn path(&self) -> String {
        format!("{} {}", self.kind.kind(), self.id)
    }

    /// The command that deletes it.
    pub fn deletion(&self, flags: &ClusterFlags) -> Suggested {
        let ResourceId { namespace, name } = &self.id;
        let resource = format!("{}.{}", self.kind.plural(), self.kind.group());
        flags.kubectl("-n {} delete {} {}", &[namespace, &resource, name])
    }
}

#[cfg(test)]
mod tests {
    use hints::suggest::ClusterFlags;

    use crate::clusters::fixtures::route;

    #[test]
    fn route_is_named_with_all_that_deletes_it() {
        let route = route("web-federated-80");
        assert_eq!(route.path(), "HTTPRoute shop/web-federated-80");
        assert_eq!(
            route.deletion(&ClusterFlags::default()).line(),
            "kubectl -n shop delete httproutes.gateway.networking.k8s.io web-federated-80"
        );
        assert_eq!(route.installation, "linkerd-multicluster");
    }
}
