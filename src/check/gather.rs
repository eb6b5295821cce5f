//! Collects the [`Facts`] about one cluster. Reads only (reviews of access are created, but never stored).
//!
//! One list for each kind, in pages, never a request for each mirror. All requests run at the same time.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::{ConfigMap, Container, Namespace, Pod},
};
use kube::{
    Api, Client,
    api::{PartialObjectMeta, PostParams},
};
use serde_json::Value;

use super::{
    facts::{Crd, Endpoints, Facts, Known, LinkFacts, MeshedPod, Proxy, Workload, label},
    remote::is_permitted,
    survey::{Depth, Source, list, survey},
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels,
    },
    client::explain,
};

/// Label of pods that have a proxy; the value is the namespace of its control plane.
const CONTROL_PLANE_NS: &str = "linkerd.io/control-plane-ns";
/// Name of the proxy's container.
const PROXY: &str = "linkerd-proxy";
/// Variable of the proxy's environment that holds its trust anchors.
const PROXY_TRUST_ANCHORS: &str = "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS";
/// ConfigMap with the trust anchors that proxies are given.
const TRUST_ROOTS: (&str, &str) = ("linkerd-identity-trust-roots", "ca-bundle.crt");
/// Path of the Link CRD.
const CRD_PATH: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.multicluster.linkerd.io";
/// Reviews of access that run at the same time.
const REVIEWS_AT_ONCE: usize = 8;

/// What our controller does: API group, resource, verbs, and whether only in its own namespace.
///
/// As in `templates/controller.yaml.hbs`, without the creation of namespaces, which is optional.
#[rustfmt::skip]
const CONTROLLER_NEEDS: [(&str, &str, &[&str], bool); 9] = [
    ("", "services", &["list", "watch", "get", "create", "patch", "delete"], false),
    ("discovery.k8s.io", "endpointslices", &["list", "watch", "get", "create", "patch", "delete"], false),
    ("", "endpoints", &["get", "delete"], false),
    ("", "namespaces", &["list", "watch"], false),
    ("events.k8s.io", "events", &["create", "patch"], false),
    ("", "secrets", &["list", "watch", "get"], true),
    ("multicluster.linkerd.io", "links", &["list", "watch", "get"], true),
    ("multicluster.linkerd.io", "links/status", &["patch"], true),
    ("coordination.k8s.io", "leases", &["get", "create", "update"], true),
];

/// Collects the facts about one cluster and the target clusters of its Links.
pub async fn facts(source: &Source, now: Timestamp, version: &str) -> Facts {
    let client = &source.client;
    let mirrored = format!("{}=true", labels::MIRRORED_SERVICE);
    let gateways = format!("{}=true", labels::MIRRORED_GATEWAY);
    let (
        extension_namespaces,
        survey,
        serves_links,
        may_list_links,
        crd,
        deployments,
        mirrors,
        probes,
        slices,
        trust_roots,
    ) = futures::join!(
        extension_namespaces(client),
        survey(source, Depth::Targets),
        serves_links(client),
        is_permitted(client, "multicluster.linkerd.io", "links", "list"),
        crd(client),
        deployments(client),
        services(client, &mirrored),
        services(client, &gateways),
        slices(client),
        trust_roots(client, &source.linkerd_namespace),
    );

    let mut namespaces: BTreeSet<_> = extension_namespaces.iter().flatten().cloned().collect();
    let links = survey.links.as_deref().unwrap_or_default();
    namespaces.extend(links.iter().map(LinkFacts::namespace).map(str::to_owned));
    let controller_namespace = deployments
        .iter()
        .flatten()
        .find(|w| w.is_ours())
        .map(|w| w.namespace.clone())
        .or_else(|| namespaces.first().cloned());
    let (pods, controller_denied) = futures::join!(
        // When even that failed, the next requests would only wait as long again.
        async {
            match &extension_namespaces {
                Ok(_) => pods(client, &namespaces).await,
                Err(why) => Err(why.clone()),
            }
        },
        async {
            match controller_namespace {
                Some(namespace) => controller_denied(client, &namespace).await,
                None => Err("the extension has no namespace".to_owned()),
            }
        }
    );
    Facts {
        now,
        version: version.to_owned(),
        linkerd_namespace: source.linkerd_namespace.clone(),
        extension_namespaces,
        survey,
        serves_links,
        may_list_links,
        crd,
        deployments,
        controller_denied,
        mirrors,
        probes,
        endpoints: slices.map(|slices| Endpoints::count(&slices)),
        pods,
        trust_roots,
    }
}

/// Namespaces of the extension, by the label that Linkerd's own commands go by.
pub async fn extension_namespaces(client: &Client) -> Known<Vec<String>> {
    let selector = format!(
        "{} in ({},{})",
        labels::EXTENSION,
        labels::EXTENSION_NAME,
        labels::EXTENSION_NAME_LEGACY
    );
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let namespaces = list(&api, &selector)
        .await
        .map_err(|error| explain(&error))?;
    Ok(namespaces
        .into_iter()
        .filter_map(|ns| ns.metadata.name)
        .collect())
}

/// Mirrors of all Links and federated Services.
pub async fn mirrors(client: &Client) -> Known<Vec<Service>> {
    services(client, &format!("{}=true", labels::MIRRORED_SERVICE)).await
}

/// EndpointSlices of mirrors and probe Services.
pub async fn endpoints(client: &Client) -> Known<Endpoints> {
    Ok(Endpoints::count(&slices(client).await?))
}

async fn services(client: &Client, selector: &str) -> Known<Vec<Service>> {
    let mut services: Vec<Service> = list(&Api::all(client.clone()), selector)
        .await
        .map_err(|error| explain(&error))?;
    services.sort_by(|a, b| {
        let key = |s: &Service| (s.metadata.namespace.clone(), s.metadata.name.clone());
        key(a).cmp(&key(b))
    });
    Ok(services)
}

async fn slices(client: &Client) -> Known<Vec<EndpointSlice>> {
    // All that have endpoints carry the name of a cluster; federated Services have none of their own.
    list(&Api::all(client.clone()), labels::CLUSTER_NAME)
        .await
        .map_err(|error| explain(&error))
}

async fn serves_links(client: &Client) -> Known<bool> {
    match client
        .list_api_group_resources("multicluster.linkerd.io/v1alpha3")
        .await
    {
        Ok(list) => Ok(list
            .resources
            .iter()
            .any(|resource| resource.kind == "Link")),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(explain(&error)),
    }
}

async fn crd(client: &Client) -> Known<Crd> {
    let request = http::Request::get(CRD_PATH).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let crd: Value = client
        .request(request)
        .await
        .map_err(|error| explain(&error))?;
    Ok(crd_of(&crd))
}

fn crd_of(crd: &Value) -> Crd {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let version = versions
        .into_iter()
        .flatten()
        .find(|version| version["name"] == "v1alpha3");
    let Some(version) = version else {
        return Crd::default();
    };
    let status = version.pointer("/schema/openAPIV3Schema/properties/status/properties");
    let columns = version["additionalPrinterColumns"].as_array();
    Crd {
        status_fields: status
            .and_then(Value::as_object)
            .map(|fields| fields.keys().cloned().collect())
            .unwrap_or_default(),
        has_columns: columns.is_some_and(|columns| !columns.is_empty()),
    }
}

async fn deployments(client: &Client) -> Known<Vec<Workload>> {
    let selector = format!(
        "{} in (controller,service-mirror,local-service-mirror)",
        labels::COMPONENT
    );
    let deployments = list::<Deployment>(&Api::all(client.clone()), &selector).await;
    let deployments = deployments.map_err(|error| explain(&error))?;
    Ok(deployments
        .iter()
        .map(workload)
        .filter(is_service_mirror)
        .collect())
}

/// `component: controller` is a label that anybody may use.
fn is_service_mirror(workload: &Workload) -> bool {
    workload.is_ours() || workload.cluster.is_some() || workload.component == "local-service-mirror"
}

fn workload(deployment: &Deployment) -> Workload {
    let metadata = &deployment.metadata;
    let spec = deployment.spec.as_ref();
    let status = deployment.status.as_ref();
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let cluster = label(metadata, labels::CLUSTER_NAME);
    Workload {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        component: label(metadata, labels::COMPONENT).to_owned(),
        cluster: (!cluster.is_empty()).then(|| cluster.to_owned()),
        desired: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        available: status
            .and_then(|status| status.available_replicas)
            .unwrap_or(0),
        images: pod
            .into_iter()
            .flat_map(|pod| &pod.containers)
            .filter_map(|container| container.image.clone())
            .collect(),
    }
}

async fn controller_denied(client: &Client, namespace: &str) -> Known<Vec<String>> {
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

async fn trust_roots(client: &Client, namespace: &str) -> Known<Option<String>> {
    let (name, key) = TRUST_ROOTS;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = api.get_opt(name).await.map_err(|error| explain(&error))?;
    Ok(map
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove(key)))
}

async fn pods(client: &Client, namespaces: &BTreeSet<String>) -> Known<Vec<MeshedPod>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pods = list(&api, CONTROL_PLANE_NS)
            .await
            .map_err(|error| explain(&error))?;
        all.extend(pods.iter().map(meshed_pod));
    }
    Ok(all)
}

fn meshed_pod(pod: &Pod) -> MeshedPod {
    let status = pod.status.as_ref();
    // A native sidecar is an init container.
    let containers = pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        spec.containers.iter().chain(init)
    });
    let ready: BTreeMap<_, _> = status
        .into_iter()
        .flat_map(|status| {
            let init = status.init_container_statuses.iter().flatten();
            status.container_statuses.iter().flatten().chain(init)
        })
        .map(|status| (status.name.as_str(), status.ready))
        .collect();
    let proxy = containers
        .into_iter()
        .find(|container| container.name == PROXY);
    MeshedPod {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        phase: status.and_then(|s| s.phase.clone()).unwrap_or_default(),
        reason: status.and_then(|s| s.reason.clone()).unwrap_or_default(),
        proxy: proxy.map(|container| Proxy {
            ready: ready.get(PROXY).copied().unwrap_or_default(),
            image: container.image.clone().unwrap_or_default(),
            trust_anchors: trust_anchors_of(container),
        }),
    }
}

fn trust_anchors_of(container: &Container) -> Option<String> {
    let env = container.env.iter().flatten();
    env.filter(|variable| variable.name == PROXY_TRUST_ANCHORS)
        .find_map(|variable| variable.value.clone())
}
