//! Asks an API server who may do what: the user, and our controller. Reviews are answered, never stored.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use super::facts::Known;
use crate::{api::labels, client::explain};

/// Reviews of access that run at the same time.
const REVIEWS_AT_ONCE: usize = 8;

/// What our controller does: API group, resource, verbs, and whether only in its own namespace.
///
/// As in `templates/controller-access.yaml.hbs` (a test compares), without the creation of namespaces, which is optional.
#[rustfmt::skip]
const CONTROLLER_NEEDS: [(&str, &str, &[&str], bool); 10] = [
    ("", "services", &["list", "watch", "get", "create", "patch", "delete"], false),
    ("discovery.k8s.io", "endpointslices", &["list", "watch", "get", "create", "patch", "delete"], false),
    ("", "endpoints", &["get", "delete"], false),
    ("", "namespaces", &["list", "watch"], false),
    ("networking.k8s.io", "servicecidrs", &["list"], false),
    ("", "secrets", &["list", "watch"], true),
    ("multicluster.linkerd.io", "links", &["list", "watch"], true),
    ("multicluster.linkerd.io", "links/status", &["patch"], true),
    ("", "events", &["create"], true),
    ("coordination.k8s.io", "leases", &["get", "create", "update"], true),
];

/// Whether the user of `client` may do something in all namespaces.
pub(super) async fn is_permitted(
    client: &Client,
    group: &str,
    resource: &str,
    verb: &str,
) -> Known<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .map_err(|error| explain(&error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// What our controller needs and is not permitted. `namespace` is where it runs.
pub(super) async fn controller_denied(client: &Client, namespace: &str) -> Known<Vec<String>> {
    let needs = CONTROLLER_NEEDS
        .iter()
        .flat_map(|(group, resource, verbs, own)| {
            verbs
                .iter()
                .map(move |verb| (*group, *resource, *verb, *own))
        });
    let denied: Vec<Option<String>> = stream::iter(needs)
        .map(|(group, resource, verb, own)| async move {
            let place = own.then_some(namespace);
            let permitted =
                may_controller(client, namespace, (group, resource, verb), place).await?;
            Ok::<_, String>((!permitted).then(|| format!("{verb} {resource}")))
        })
        .buffered(REVIEWS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(denied.into_iter().flatten().collect())
}

async fn may_controller(
    client: &Client,
    controller_namespace: &str,
    (group, resource, verb): (&str, &str, &str),
    place: Option<&str>,
) -> Known<bool> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (resource, None),
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
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(str::to_owned),
                verb: Some(verb.to_owned()),
                namespace: place.map(str::to_owned),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .map_err(|error| explain(&error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::manifests::{install::install, values::Values};

    #[test]
    fn the_controller_needs_what_install_permits() {
        let manifest = install("mc", &Values::default()).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut permitted = Vec::new();
        for object in manifest.objects() {
            let own = object["kind"] == "Role";
            if object["metadata"]["name"] != labels::CONTROLLER_NAME
                || !(own || object["kind"] == "ClusterRole")
            {
                continue;
            }
            for rule in object["rules"].as_array().unwrap() {
                let verbs: Vec<_> = rule["verbs"].as_array().unwrap().iter().map(text).collect();
                permitted.push((
                    text(&rule["apiGroups"][0]),
                    text(&rule["resources"][0]),
                    verbs,
                    own,
                ));
            }
        }
        let needed = CONTROLLER_NEEDS.map(|(group, resource, verbs, own)| {
            let verbs = verbs.iter().map(|&verb| verb.to_owned()).collect();
            (group.to_owned(), resource.to_owned(), verbs, own)
        });
        assert_eq!(permitted, needed);
    }
}
