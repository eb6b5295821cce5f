//! Sends the controller's requests to the target cluster of a Link, with the Link's credentials, and reads Linkerd's
//! configuration. Reads only.

use std::time::Duration;

use client::{
    ReadError, from_credentials,
    requests::{clock_of, within},
};
use k8s_openapi::api::{
    authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    core::v1::ConfigMap,
};
use kube::{Api, Client};
use manifests::yaml;
use mirror_core::api::{labels, link::LinkerdConfig};

use super::{
    access::{is_permitted, reviewed},
    collect_mesh::some_of_pods,
    misspelled::{ServiceLabels, service_labels},
    snapshot::{AccessRule, Known, TargetSnapshot},
};

/// Permissions that the controller needs in a target cluster, cluster-wide: API group, resource, verb.
const NEEDED: [(&str, &str, &str); 4] = [
    ("", "services", "list"),
    ("", "services", "watch"),
    ("discovery.k8s.io", "endpointslices", "list"),
    ("discovery.k8s.io", "endpointslices", "watch"),
];

/// Reads from a target cluster. All requests together take no longer than `deadline`.
pub async fn target_snapshot(
    kubeconfig: &[u8],
    linkerd_namespace: &str,
    deadline: Duration,
) -> Known<TargetSnapshot> {
    let client = from_credentials(kubeconfig, deadline)
        .await
        .map_err(|error| error.to_string())?;
    let unreachable = |why: ReadError| why.context("cannot reach the cluster");
    let requests = async {
        let ahead = clock_of(&client).await?;
        let (denied, rules, config, labels, pods) = futures::join!(
            denied(&client),
            rules(&client, linkerd_namespace),
            config_in_force(&client, linkerd_namespace),
            service_labels(&client),
            some_of_pods(&client)
        );
        Known::Ok(TargetSnapshot {
            denied,
            rules,
            config,
            labels,
            ahead,
            pods,
        })
    };
    within(deadline, requests).await.map_err(unreachable)
}

/// The labels of the Services of a target cluster, with the credentials of a Link.
pub async fn labels_of(kubeconfig: &[u8], deadline: Duration) -> Known<ServiceLabels> {
    let client = from_credentials(kubeconfig, deadline).await;
    let client = client.map_err(|error| error.to_string())?;
    within(deadline, service_labels(&client)).await
}

async fn denied(client: &Client) -> Known<Vec<String>> {
    let mut denied = Vec::new();
    for (group, resource, verb) in NEEDED {
        if !is_permitted(client, group, resource, verb).await? {
            denied.push(format!("{verb} {resource}"));
        }
    }
    Ok(denied)
}

/// All permissions of the user of `client` in a namespace, including those that are cluster-wide.
async fn rules(client: &Client, namespace: &str) -> Known<Vec<AccessRule>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..Default::default()
    };
    let answer = reviewed(client, &review).await?;
    let rules = answer.status.map(|status| status.resource_rules);
    Ok(rules
        .unwrap_or_default()
        .into_iter()
        .map(|rule| AccessRule {
            groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            names: rule.resource_names.unwrap_or_default(),
            verbs: rule.verbs,
        })
        .collect())
}

/// Linkerd's configuration in a cluster.
pub async fn linkerd_config(client: &Client, namespace: &str) -> Known<LinkerdConfig> {
    let namespace = or_default(namespace);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let config = api.get(labels::LINKERD_CONFIG).await?;
    let values = config
        .data
        .and_then(|mut data| data.remove(labels::LINKERD_CONFIG_KEY))
        .ok_or_else(|| {
            format!(
                "ConfigMap {namespace}/{} has no key {}",
                labels::LINKERD_CONFIG,
                labels::LINKERD_CONFIG_KEY
            )
        })?;
    let config = yaml::from_yaml::<LinkerdConfig>(&values);
    let config = config
        .map_err(|error| format!("ConfigMap {namespace}/{}: {error}", labels::LINKERD_CONFIG))?;
    Ok(config.with_domains())
}

/// Linkerd's configuration, with the trust anchors that are in force: proxies read them from a ConfigMap of their own. The
/// configuration has those of the installation, or none if something else provides them. Without permission to read the
/// ConfigMap, they are all that is known.
pub async fn config_in_force(client: &Client, namespace: &str) -> Known<LinkerdConfig> {
    let (config, anchors) = futures::join!(
        linkerd_config(client, namespace),
        trust_roots(client, namespace)
    );
    let mut config = config?;
    if let Ok(Some(anchors)) = anchors {
        config.identity_trust_anchors_pem = anchors;
    }
    Ok(config)
}

/// The trust anchors that proxies of a cluster accept, as one PEM bundle.
pub async fn trust_roots(client: &Client, namespace: &str) -> Known<Option<String>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), or_default(namespace));
    let map = api.get_opt(labels::LINKERD_TRUST_ROOTS).await?;
    let data = map.and_then(|map| map.data);
    Ok(data.and_then(|mut data| data.remove(labels::LINKERD_TRUST_ROOTS_KEY)))
}

/// The namespace of Linkerd.
fn or_default(namespace: &str) -> &str {
    match namespace {
        "" => labels::LINKERD_NAMESPACE,
        namespace => namespace,
    }
}
