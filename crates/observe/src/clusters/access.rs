//! Asks an API server what the user and our controller may do. Access reviews are not stored.

use std::fmt::Debug;

use client::ReadError;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::{Api, Client, Resource, api::PostParams};
use mirror_core::api::{labels, route::GATEWAY_API};
use serde::{Serialize, de::DeserializeOwned};

use super::snapshot::Known;

/// Access reviews that run concurrently.
const REVIEWS_AT_ONCE: usize = 8;

/// Permissions that our controller needs.
#[derive(Clone, Copy)]
struct Need {
    group: &'static str,
    /// With its subresource, if any.
    resource: &'static str,
    verbs: &'static [&'static str],
    /// Name of the object, if limited to one; otherwise empty.
    name: &'static str,
    /// Whether they are needed only in the controller's namespace.
    own: bool,
}

impl Need {
    /// The resource, with its group if it is a route: there are `httproutes` in two groups.
    fn full_name(&self) -> String {
        let is_route = [GATEWAY_API, "policy.linkerd.io", "linkerd.io"].contains(&self.group);
        let group = if is_route { self.group } else { "" };
        [self.resource, group]
            .join(".")
            .trim_end_matches('.')
            .to_owned()
    }
}

const fn need(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    own: bool,
) -> Need {
    Need {
        group,
        resource,
        verbs,
        name: "",
        own,
    }
}

/// Permissions that our controller needs.
///
/// Same as `templates/controller-access.yaml.hbs` (a test compares them), without the optional creation of namespaces.
#[rustfmt::skip]
const CONTROLLER_NEEDS: [Need; 14] = [
    need("", "services", &["list", "watch", "get", "create", "patch", "delete"], false),
    need("discovery.k8s.io", "endpointslices", &["list", "watch", "get", "create", "patch", "delete"], false),
    need("", "endpoints", &["get", "delete"], false),
    need("", "namespaces", &["list", "watch"], false),
    need("networking.k8s.io", "servicecidrs", &["list"], false),
    need("networking.k8s.io", "ipaddresses", &["list"], false),
    need(GATEWAY_API, "httproutes", &["list", "watch", "delete"], false),
    need(GATEWAY_API, "tcproutes", &["list", "watch", "delete"], false),
    need("", "secrets", &["list", "watch"], true),
    need("multicluster.linkerd.io", "links", &["list", "watch"], true),
    need("multicluster.linkerd.io", "links/status", &["patch"], true),
    need("", "events", &["create"], true),
    Need { name: labels::LEASE_NAME, ..need("coordination.k8s.io", "leases", &["get", "update"], true) },
    need("coordination.k8s.io", "leases", &["create"], true),
];

/// Permissions that it needs in addition where preferences are enabled.
#[rustfmt::skip]
const ROUTE_NEEDS: [Need; 6] = [
    need(GATEWAY_API, "httproutes", &["create", "patch"], false),
    need(GATEWAY_API, "tcproutes", &["create", "patch"], false),
    need(GATEWAY_API, "grpcroutes", &["list", "watch"], false),
    need(GATEWAY_API, "tlsroutes", &["list", "watch"], false),
    need("policy.linkerd.io", "httproutes", &["list", "watch"], false),
    need("linkerd.io", "serviceprofiles", &["list", "watch"], false),
];

/// Whether the user of `client` may do something in all namespaces.
pub async fn is_permitted(client: &Client, group: &str, resource: &str, verb: &str) -> Known<bool> {
    let everywhere = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        ..Default::default()
    };
    may(client, everywhere).await
}

/// Whether the user of `client` may do something.
pub async fn may(client: &Client, what: ResourceAttributes) -> Known<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(what),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = reviewed(client, &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// The API server's answer to a review.
pub async fn reviewed<K>(client: &Client, review: &K) -> Known<K>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let (api, params) = (Api::all(client.clone()), PostParams::default());
    Ok(api.create(&params, review).await?)
}

/// Permissions that our controller needs and does not have. `namespace` is where it runs; `writes_routes`: preferences are
/// enabled.
pub async fn controller_denied(
    client: &Client,
    namespace: &str,
    writes_routes: bool,
) -> Known<Vec<String>> {
    let of_routes = ROUTE_NEEDS.iter().filter(|_| writes_routes);
    let needs = CONTROLLER_NEEDS
        .iter()
        .chain(of_routes)
        .flat_map(|need| need.verbs.iter().map(move |verb| (need, *verb)));
    let denied: Vec<Option<String>> = stream::iter(needs)
        .map(|(need, verb)| async move {
            let permitted = may_controller(client, namespace, need, verb).await?;
            Ok::<_, ReadError>((!permitted).then(|| format!("{verb} {}", need.full_name())))
        })
        .buffered(REVIEWS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(denied.into_iter().flatten().collect())
}

async fn may_controller(
    client: &Client,
    controller_namespace: &str,
    need: &Need,
    verb: &str,
) -> Known<bool> {
    let (resource, subresource) = match need.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (need.resource, None),
    };
    let accounts = "system:serviceaccounts";
    let account = labels::CONTROLLER_NAME;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!(
                "system:serviceaccount:{controller_namespace}:{account}"
            )),
            groups: Some(vec![
                accounts.to_owned(),
                format!("{accounts}:{controller_namespace}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(need.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(str::to_owned),
                name: Some(need.name.to_owned()).filter(|name| !name.is_empty()),
                verb: Some(verb.to_owned()),
                namespace: need.own.then(|| controller_namespace.to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = reviewed(client, &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use manifests::{install::install, values::Values};
    use serde_json::Value;

    use super::*;

    /// Group, resource, verb, name, and whether only in the controller's namespace.
    type Permission = (String, String, String, String, bool);

    /// What the manifests of `install` permit our controller.
    fn permitted(values: &Values) -> BTreeSet<Permission> {
        let manifest = install("mc", values).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut permitted = BTreeSet::new();
        for object in manifest.objects().unwrap() {
            let own = object["kind"] == "Role";
            if object["metadata"]["name"] != labels::CONTROLLER_NAME
                || !(own || object["kind"] == "ClusterRole")
            {
                continue;
            }
            for rule in list(&object["rules"]) {
                for resource in list(&rule["resources"]) {
                    permitted.extend(list(&rule["verbs"]).iter().map(|verb| {
                        (
                            text(&rule["apiGroups"][0]),
                            text(&resource),
                            text(verb),
                            text(&rule["resourceNames"][0]),
                            own,
                        )
                    }));
                }
            }
        }
        permitted
    }

    fn needed<'a>(needs: impl Iterator<Item = &'a Need>) -> BTreeSet<Permission> {
        let all = needs.flat_map(|need| {
            need.verbs.iter().map(|verb| {
                let [group, resource, verb, name] =
                    [need.group, need.resource, verb, need.name].map(str::to_owned);
                (group, resource, verb, name, need.own)
            })
        });
        all.collect()
    }

    #[test]
    fn the_controller_needs_what_install_permits() {
        let always = || CONTROLLER_NEEDS.iter();
        assert_eq!(permitted(&Values::default()), needed(always()));
        let mut values = Values::default();
        values.federation.routes = true;
        assert_eq!(permitted(&values), needed(always().chain(&ROUTE_NEEDS)));
    }
}
