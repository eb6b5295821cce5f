//! Clusters that a federated Service prefers: which of them receive its requests, and how their members are mirrored,
//! because routes name the mirrors as backends. And the routes: which are ours.

use super::membership::{Form, joinable, local_member};
use crate::{
    api::{
        k8s::Service,
        members,
        preference::{ClusterRef, FailedOver, Preference},
        route::{Route, RouteKind},
    },
    mirror::{
        metadata::{Owner, is_our_route, owner, preferred_clusters},
        outcome::RemoteRef,
        state::State,
        target::{
            Target,
            export::{MirrorMode, member},
            policy::FederatedThrough,
        },
    },
};

/// Whether a cluster has a member of a federated Service. `annotation` returns the value of an annotation of the
/// Service.
pub fn has_member_in<'a>(
    annotation: impl Fn(&str) -> Option<&'a str>,
    cluster: &ClusterRef,
) -> bool {
    match cluster {
        ClusterRef::Local => members::local_member(annotation).is_some(),
        ClusterRef::Linked(name) => {
            members::remote_members(annotation).any(|(_, own)| own == &**name)
        }
    }
}

/// The clusters that receive the requests to a federated Service first; if empty, all members receive them.
/// `has_member` says whether a cluster has a member.
pub fn active_clusters<'a>(
    preference: &'a Preference,
    failed_over: &FailedOver,
    has_member: impl Fn(&ClusterRef) -> bool,
) -> Vec<&'a ClusterRef> {
    let available = preference
        .clusters()
        .filter(|cluster| has_member(cluster) && !failed_over.0.contains_key(cluster));
    let max = if preference.is_order() { 1 } else { usize::MAX };
    available.take(max).collect()
}

/// How the member of a preferred cluster is mirrored if its labels do not ask for it; `None` if its cluster is not
/// preferred.
pub(crate) fn preferred_mode(
    state: &State,
    target: &Target,
    service: &Service,
) -> Option<MirrorMode> {
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    let federated = state.preferring(&target.cluster, namespace, name)?;
    if owner(&federated.metadata) != Owner::Federated {
        return None;
    }
    if !member(target, service) || joinable(service).is_err() {
        return None;
    }
    let has_local_member = local_member(state, namespace, name).is_some();
    if (state.forbids_joining(target, namespace, has_local_member)).is_some() {
        return None;
    }
    match (target.federated_through, Form::of(federated)) {
        (FederatedThrough::Discovery, Form::Discovery) => Some(MirrorMode::RemoteDiscovery),
        // If the Link has lost its gateway, the mirror stays as it is.
        (FederatedThrough::Gateway, _) => Some(MirrorMode::Gateway),
        (FederatedThrough::Discovery, Form::Slices) => {
            target.gateway.is_some().then_some(MirrorMode::Gateway)
        }
    }
}

impl State {
    /// The existing federated Service that prefers the cluster of this member, if any.
    pub fn preferring(&self, cluster: &str, namespace: &str, service: &str) -> Option<&Service> {
        let federated = self.federated(namespace, service)?;
        let mut preferred = preferred_clusters(&federated.metadata);
        preferred
            .any(|preferred| preferred == cluster)
            .then_some(federated)
    }
}

impl State {
    /// Whether this installation may change a route.
    pub(crate) fn owns_route(&self, route: &Route) -> bool {
        is_our_route(route) && !self.is_theirs(&route.metadata)
    }

    /// Our routes that belong to a federated Service.
    pub(crate) fn own_routes<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Route> {
        let kinds = self.routes();
        let routes = kinds.flat_map(move |routes| routes.in_group(namespace, name));
        let routes = routes.map(AsRef::as_ref);
        routes.filter(|route| self.owns_route(route))
    }

    /// Whether a route of ours may send requests to the mirror of a Service. If so, the mirror is kept: requests to a
    /// deleted Service fail.
    pub(crate) fn is_backend(&self, of: &RemoteRef, mirror: &str) -> bool {
        if !self.knows_routes() {
            return self
                .preferring(&of.cluster, &of.namespace, &of.service)
                .is_some();
        }
        let kinds = self.routes();
        let mut routes = kinds.flat_map(|routes| routes.in_namespace(&of.namespace));
        routes.any(|route| self.owns_route(route) && route.backends().any(|name| name == mirror))
    }

    /// Whether the API server has a kind of routes.
    pub(crate) fn has_kind(&self, kind: RouteKind) -> bool {
        let local = self.local.as_ref();
        local.is_some_and(|local| matches!(local.routes.get(&kind), Some(Some(_))))
    }

    /// Whether the routes of all kinds are known.
    pub(crate) fn knows_routes(&self) -> bool {
        let mut kinds = RouteKind::ALL.iter();
        let local = self.local.as_ref();
        local.is_some_and(|local| kinds.all(|kind| local.routes.contains_key(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::labels as l;

    #[test]
    fn federated_service_names_the_clusters_that_have_a_member() {
        let keys = [
            [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY],
            [l::MEMBERS, l::LOCAL_MEMBER],
        ];
        for [others, own] in keys {
            for (annotations, expected) in [
                (&[(others, "web@east,web@west")][..], ["east", "west"]),
                (&[(others, "web@east"), (own, "web")], ["east", "local"]),
            ] {
                let annotation = |key: &str| {
                    let mut pairs = annotations.iter();
                    pairs.find_map(|(known, value)| (*known == key).then_some(*value))
                };
                let all = ["east", "local", "north", "west"];
                let members = all.map(ClusterRef::from).into_iter();
                let members = members.filter(|cluster| has_member_in(annotation, cluster));
                let names: Vec<_> = members.map(|cluster| cluster.to_string()).collect();
                assert_eq!(names, expected, "{annotations:?}");
            }
        }
    }

    #[test]
    fn requests_go_to_preferred_clusters_that_are_available_and_have_a_member() {
        let local = "local=2026-01-02T03:04:05Z/..";
        let both = &format!("{local},east=2026-01-02T03:04:05Z/2026-01-02T03:05:00Z");
        for (preference, away, expected) in [
            ("local,east", "", "local"),
            ("local,east", local, "east"),
            ("local,east", both, ""),
            ("north,east,local", "", "east"),
            ("east=80,north=10,local=10", "", "east,local"),
            ("east=80,local=20", local, "east"),
            ("east=80,local=20", both, ""),
        ] {
            let read: Preference = preference.parse().unwrap();
            let has_member = |cluster: &ClusterRef| cluster.linked() != Some("north");
            let active = active_clusters(&read, &FailedOver::read(away), has_member);
            let names: Vec<_> = active.iter().map(ToString::to_string).collect();
            assert_eq!(names.join(","), expected, "{preference} {away}");
        }
    }
}
