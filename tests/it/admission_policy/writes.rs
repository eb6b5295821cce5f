//! Writes of all kinds but routes and Events: those that a policy refuses, with its message, and those that the
//! policies permit. Also helpers to build requests.

use http::Method;
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::installation::NAMESPACE;

/// A request: method, path of the object or of its kind, body.
pub(super) type Try = (Method, String, Value);

/// Path of the objects of a kind, by plural name, in a namespace.
///
/// Routes of Linkerd's own policy are named `policy/httproutes`.
fn path(kind: &str, namespace: &str) -> String {
    let (kind, group) = match kind.split_once('/') {
        Some((_, "httproutes")) => ("httproutes", "/apis/policy.linkerd.io/v1beta3"),
        Some((_, kind)) => (kind, "/apis/policy.linkerd.io/v1alpha1"),
        None => (kind, group_of(kind)),
    };
    format!("{group}/namespaces/{namespace}/{kind}")
}

/// The path of the API of a kind.
fn group_of(kind: &str) -> &'static str {
    match kind {
        "endpointslices" => "/apis/discovery.k8s.io/v1",
        "deployments" => "/apis/apps/v1",
        "leases" => "/apis/coordination.k8s.io/v1",
        "httproutes" => "/apis/gateway.networking.k8s.io/v1",
        "tcproutes" => "/apis/gateway.networking.k8s.io/v1alpha2",
        _ => "/api/v1",
    }
}

pub(super) fn create(kind: &str, namespace: &str, object: Value) -> Try {
    (Method::POST, path(kind, namespace), without_nulls(object))
}

/// The object without fields that are null. The API server would read an annotation that is null as an empty one.
pub(super) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
        for value in fields.values_mut() {
            *value = without_nulls(value.take());
        }
    }
    object
}

pub(super) fn change(kind: &str, namespace: &str, name: &str, patch: Value) -> Try {
    let path = path(kind, namespace);
    (Method::PATCH, format!("{path}/{name}"), patch)
}

pub(super) fn delete(kind: &str, namespace: &str, name: &str) -> Try {
    let path = path(kind, namespace);
    (Method::DELETE, format!("{path}/{name}"), Value::Null)
}

/// The object, changed by a merge patch. Fields that the patch removes are null afterwards: see [`without_nulls`].
pub(super) fn with(mut object: Value, patch: Value) -> Value {
    match patch {
        Value::Object(patch) => {
            for (key, value) in patch {
                object[&key] = with(object[&key].take(), value);
            }
            object
        }
        value => value,
    }
}

/// Labels of a mirror of a Service of `cluster`.
fn of(cluster: &str) -> Value {
    json!({ l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: cluster })
}

pub(super) fn labels(labels: Value) -> Value {
    let mut object = json!({ "metadata": {} });
    object["metadata"]["labels"] = labels;
    object
}

fn spec(spec: Value) -> Value {
    let mut object = json!({});
    object["spec"] = spec;
    object
}

/// A merge patch that removes an annotation.
pub(super) fn without(annotation: &str) -> Value {
    json!({ "metadata": { "annotations": { annotation: null } } })
}

/// A merge patch with the annotations that the installation in this namespace writes.
pub(super) fn signed(namespace: &str) -> Value {
    json!({ "metadata": { "annotations": {
        l::MANAGED_BY: l::MANAGER, l::INSTALLATION: namespace, l::DESIRED_STATE: "0123456789abcdef",
    } } })
}

/// A Service that is not a mirror.
fn plain(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "type": "ClusterIP", "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// A mirror of a Service of the cluster east.
fn mirror(name: &str) -> Value {
    with(with(plain(name), labels(of("east"))), signed(NAMESPACE))
}

fn federated(name: &str) -> Value {
    let of_east = json!({ "metadata": { "annotations": { l::REMOTE_DISCOVERY: "web@east" } } });
    let labelled = with(labels(json!({ l::MIRRORED_SERVICE: "true" })), of_east);
    with(with(plain(name), labelled), signed(NAMESPACE))
}

/// A merge patch that moves the list of members of a federated Service into another annotation.
fn members(annotation: &str) -> Value {
    with(
        without(l::REMOTE_DISCOVERY),
        json!({ "metadata": { "annotations": { annotation: "web@east" } } }),
    )
}

fn probe(name: &str) -> Value {
    let of_probe = json!({ l::MIRRORED_GATEWAY: "true", l::CLUSTER_NAME: "east" });
    with(with(plain(name), labels(of_probe)), signed(NAMESPACE))
}

/// A slice of a Service, as the controller writes it. The UID of its owner is a placeholder.
pub(super) fn slice(service: &str, cluster: &str) -> Value {
    let of_service = json!({ l::SLICE_SERVICE: service, l::SLICE_MANAGED_BY: l::MANAGER });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{service}-new"), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Service", "name": service, "uid": "u" },
        ] },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.66"] }],
        "ports": [{ "name": "http", "port": 4143 }],
    });
    let slice = with(slice, labels(of_service));
    with(with(slice, labels(of(cluster))), signed(NAMESPACE))
}

/// A merge patch with these owners: version, kind, name.
pub(super) fn owned(owners: &[(&str, &str, &str)]) -> Value {
    let owner = |(version, kind, name): &(&str, &str, &str)| json!({ "apiVersion": version, "kind": kind, "name": name, "uid": "u" });
    json!({ "metadata": { "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>() } })
}

/// A merge patch with the label that says who manages a slice.
fn managed_by(manager: &str) -> Value {
    labels(json!({ l::SLICE_MANAGED_BY: manager }))
}

fn endpoints(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": name } })
}

pub(super) fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// Objects that exist before the writes, each with its namespace.
pub(super) fn existing_objects() -> Vec<(&'static str, Value)> {
    let selects = || spec(json!({ "selector": { "app": "web" } }));
    let bare = |object: Value| {
        with(
            object,
            labels(json!({ l::MIRRORED_SERVICE: null, l::CLUSTER_NAME: null })),
        )
    };
    let mut all = vec![
        ("kube-system", with(plain("kube-dns"), selects())),
        ("kube-system", mirror("old-east")),
        ("shop", with(plain("my-app"), selects())),
        ("shop", with(plain("users-federated"), selects())),
        ("shop", mirror("web-east")),
        ("shop", bare(mirror("bare-east"))),
        ("shop", with(mirror("theirs-east"), signed("elsewhere"))),
        (
            "shop",
            with(mirror("unmarked-east"), without(l::MANAGED_BY)),
        ),
        (
            "shop",
            with(
                mirror("shown-east"),
                spec(json!({ "externalIPs": ["192.0.2.7"] })),
            ),
        ),
        ("shop", with(plain("adopted-east"), labels(of("east")))),
        ("shop", federated("api-federated")),
        (NAMESPACE, probe("probe-east")),
        ("shop", with(endpoints("adopted-east"), labels(of("east")))),
        ("shop", endpoints("somebodys")),
    ];
    for (name, service, cluster, more) in [
        ("web-east-ipv4", "web-east", "east", json!({})),
        ("bare-east-ipv4", "bare-east", "east", managed_by("")),
        (
            "unmarked-east-ipv4",
            "unmarked-east",
            "east",
            without(l::MANAGED_BY),
        ),
        (
            "theirs-east-ipv4",
            "theirs-east",
            "east",
            signed("elsewhere"),
        ),
    ] {
        all.push((
            "shop",
            with(with(slice(service, cluster), named(name)), more),
        ));
    }
    let somebodys = with(
        with(slice("my-app", "x"), named("somebodys")),
        managed_by("somebody"),
    );
    let unsigned = json!({ "metadata": { "annotations": null } });
    all.push(("shop", with(bare(somebodys), unsigned)));
    all
}

const BY_LABEL: &str =
    "the controller may only write mirrors, federated Services and gateway Services";
const NO_MIRROR: &str = "the controller may only change and delete Services that are mirrors";
const NO_CLUSTER_IP: &str = "the controller may only create Services of type ClusterIP";
const ADDED: &str =
    "the controller may not set selectors, external names, external addresses or load balancer";
pub(super) const FINALIZERS: &str = "the controller may not set finalizers";
const UNMANAGED: &str = "the controller may only write EndpointSlices that it manages";
const WAS_UNMANAGED: &str =
    "the controller may only change and delete EndpointSlices that it manages";
const MOVED: &str = "the controller may not move an EndpointSlice to another Service";
const UNOWNED: &str =
    "the controller may only write EndpointSlices that their Service owns, and nothing else";
pub(super) const UNMARKED: &str =
    "the controller may not create objects without its annotations, or remove them";
pub(super) const THEIRS: &str = "the object belongs to another installation";
const PROTECTED: &str = "the controller may not write in protected namespaces";
const ENDPOINTS: &str =
    "the controller may not write Endpoints, and may only delete those of mirrors";
pub(super) const NAMESPACES: &str = "the controller may only create namespaces for mirrors";
const UNRESTRICTED: &str =
    "the controller may not create namespaces of extensions or for privileged Pods";
const LEASES: &str = "the controller may only create the Lease of its leader election";
/// Message of the policy whose name ends with `-owners`. It checks the Service to which a new slice belongs.
pub(super) const OF_NO_MIRROR: &str =
    "the controller may not write EndpointSlices of Services that are not mirrors";

/// Stands for the message of a write that two policies refuse. The API server returns the message of either.
pub(super) const EITHER: &str = "";

/// Writes with a stolen token, each with the message of the refusal. Each differs in one thing from a write of the
/// controller.
#[rustfmt::skip]
pub(super) fn forbidden() -> Vec<(Try, &'static str)> {
    let new = || mirror("new-east");
    let as_mirror = || with(labels(of("app")), spec(json!({ "selector": null })));
    let finalizers = || json!({ "metadata": { "finalizers": ["example.com/x"] } });
    let services = |object: Value| create("services", "shop", object);
    let slices = |object: Value| create("endpointslices", "shop", object);
    let of_web = || slice("web-east", "east");
    vec![
        (services(with(new(), labels(json!({ l::MIRRORED_SERVICE: null })))), BY_LABEL),
        (services(with(new(), labels(json!({ l::MIRRORED_SERVICE: "yes" })))), BY_LABEL),
        (services(with(new(), labels(json!({ l::CLUSTER_NAME: null })))), BY_LABEL),
        (services(mirror("new")), BY_LABEL),
        // The controller would not recognize these three as its own, and would never remove them.
        (services(with(federated("web-federated"), without(l::REMOTE_DISCOVERY))), BY_LABEL),
        (services(with(new(), labels(json!({ l::HEADLESS_MIRROR: "db" })))), BY_LABEL),
        (services(mirror("new-west")), BY_LABEL),
        (services(with(new(), spec(json!({ "selector": { "app": "web" } })))), ADDED),
        (services(with(new(), spec(json!({ "type": "NodePort" })))), NO_CLUSTER_IP),
        (services(with(new(), spec(json!({ "type": "LoadBalancer" })))), NO_CLUSTER_IP),
        (services(with(new(), spec(json!({ "type": "ExternalName", "externalName": "a.example" })))), NO_CLUSTER_IP),
        (services(with(new(), spec(json!({ "externalName": "a.example" })))), ADDED),
        (services(with(new(), spec(json!({ "externalIPs": ["192.0.2.53"] })))), ADDED),
        (services(with(new(), spec(json!({ "loadBalancerIP": "192.0.2.53" })))), ADDED),
        (services(with(new(), finalizers())), FINALIZERS),
        (services(with(new(), signed("elsewhere"))), THEIRS),
        (services(with(new(), without(l::MANAGED_BY))), UNMARKED),
        (services(with(new(), without(l::INSTALLATION))), UNMARKED),
        (create("services", NAMESPACE, with(probe("probe-new"), without(l::MANAGED_BY))), UNMARKED),
        (services(probe("probe-east")), PROTECTED),
        (create("services", "kube-system", new()), PROTECTED),
        (create("services", "linkerd", new()), PROTECTED),
        (create("services", NAMESPACE, new()), PROTECTED),
        (create("services", NAMESPACE, probe("new-east")), BY_LABEL),

        (change("services", "kube-system", "kube-dns", spec(json!({ "selector": { "app": "x" } }))), BY_LABEL),
        (change("services", "shop", "my-app", as_mirror()), NO_MIRROR),
        (change("services", "shop", "my-app", with(as_mirror(), signed(NAMESPACE))), NO_MIRROR),
        (change("services", "shop", "theirs-east", signed(NAMESPACE)), THEIRS),
        (change("services", "shop", "web-east", signed("elsewhere")), THEIRS),
        (change("services", "shop", "web-east", labels(json!({ l::MIRRORED_SERVICE: null }))), BY_LABEL),
        (change("services", "shop", "web-east", spec(json!({ "selector": { "app": "x" } }))), ADDED),
        (change("services", "shop", "web-east", spec(json!({ "type": "LoadBalancer" }))), NO_CLUSTER_IP),
        (change("services", "shop", "web-east", spec(json!({ "externalIPs": ["192.0.2.53"] }))), ADDED),
        (change("services", "shop", "shown-east", spec(json!({ "externalIPs": ["192.0.2.7", "192.0.2.53"] }))), ADDED),
        (change("services", "shop", "web-east", finalizers()), FINALIZERS),
        (change("services", "shop", "web-east", without(l::MANAGED_BY)), UNMARKED),
        (change("services", "shop", "web-east", without(l::INSTALLATION)), UNMARKED),
        (change("services", "kube-system", "old-east", spec(json!({ "ports": [{ "port": 81 }] }))), PROTECTED),

        (delete("services", "kube-system", "kube-dns"), NO_MIRROR),
        (delete("services", "shop", "my-app"), NO_MIRROR),
        (delete("services", "shop", "theirs-east"), THEIRS),

        (slices(slice("my-app", "app")), OF_NO_MIRROR),
        (slices(slice("users-federated", "east")), OF_NO_MIRROR),
        (slices(with(of_web(), labels(of("west")))), BY_LABEL),
        (slices(with(of_web(), labels(json!({ l::MIRRORED_SERVICE: null })))), BY_LABEL),
        (slices(with(of_web(), managed_by("somebody"))), UNMANAGED),
        (slices(with(of_web(), owned(&[]))), UNOWNED),
        (slices(with(of_web(), owned(&[("v1", "Service", "my-app")]))), UNOWNED),
        (slices(with(of_web(), owned(&[("v1", "ConfigMap", "web-east")]))), UNOWNED),
        (slices(with(of_web(), owned(&[("example.com/v1", "Service", "web-east")]))), UNOWNED),
        // The garbage collector keeps an object while an owner exists: here, until somebody creates the Service.
        (slices(with(slice("later-east", "east"), owned(&[("v1", "Service", "later-east"), ("v1", "Namespace", "shop")]))), UNOWNED),
        (slices(with(of_web(), without(l::MANAGED_BY))), UNMARKED),
        (slices(with(of_web(), without(l::INSTALLATION))), UNMARKED),
        (slices(with(of_web(), finalizers())), FINALIZERS),
        (slices(with(of_web(), signed("elsewhere"))), THEIRS),
        (create("endpointslices", "kube-system", slice("kube-dns", "dns")), EITHER),
        (create("endpointslices", "kube-system", slice("new-dns", "dns")), PROTECTED),
        (create("endpointslices", NAMESPACE, slice("new-gateway", "gateway")), PROTECTED),

        (change("endpointslices", "shop", "somebodys", with(
            with(labels(of("app")), managed_by(l::MANAGER)),
            json!({ "metadata": { "ownerReferences": slice("my-app", "app")["metadata"]["ownerReferences"] } }),
        )), WAS_UNMANAGED),
        (change("endpointslices", "shop", "web-east-ipv4", with(
            labels(json!({ l::SLICE_SERVICE: "my-app", l::CLUSTER_NAME: "app" })),
            json!({ "metadata": { "ownerReferences": slice("my-app", "app")["metadata"]["ownerReferences"] } }),
        )), MOVED),
        (change("endpointslices", "shop", "web-east-ipv4", managed_by("")), UNMANAGED),
        (change("endpointslices", "shop", "web-east-ipv4", owned(&[("v1", "Service", "web-east"), ("v1", "Namespace", "shop")])), UNOWNED),
        (change("endpointslices", "shop", "web-east-ipv4", without(l::MANAGED_BY)), UNMARKED),
        (change("endpointslices", "shop", "theirs-east-ipv4", signed(NAMESPACE)), THEIRS),
        (delete("endpointslices", "shop", "somebodys"), WAS_UNMANAGED),
        (delete("endpointslices", "shop", "theirs-east-ipv4"), THEIRS),

        (create("endpoints", "shop", with(endpoints("web-east"), labels(of("east")))), ENDPOINTS),
        (change("endpoints", "shop", "adopted-east", labels(json!({ "a": "b" }))), ENDPOINTS),
        (delete("endpoints", "shop", "somebodys"), ENDPOINTS),

        ((Method::POST, "/api/v1/namespaces".into(), named("kube-public")), NAMESPACES),
        ((Method::POST, "/api/v1/namespaces".into(), with(named("new"), labels(json!({ "linkerd.io/extension": "x" })))), UNRESTRICTED),
        ((Method::POST, "/api/v1/namespaces".into(), with(named("new"), labels(json!({ "pod-security.kubernetes.io/enforce": "privileged" })))), UNRESTRICTED),
        ((Method::PATCH, "/api/v1/namespaces/shop".into(), labels(json!({ "a": "b" }))), NAMESPACES),
        ((Method::DELETE, "/api/v1/namespaces/shop".into(), Value::Null), NAMESPACES),
        (create("leases", NAMESPACE, named("other")), LEASES),
    ]
}

/// Writes that the controller makes.
#[rustfmt::skip]
pub(super) fn permitted() -> Vec<Try> {
    let services = |object: Value| create("services", "shop", object);
    vec![
        services(mirror("new-east")),
        services(with(mirror("new-east"), spec(json!({ "clusterIP": "None" })))),
        services(with(mirror("db-0-east"), labels(json!({ l::HEADLESS_MIRROR: "db-east" })))),
        services(federated("web-federated")),
        services(with(federated("web-federated"), members(l::LOCAL_DISCOVERY))),
        services(with(federated("web-federated"), members(l::MEMBERS))),
        services(with(federated("web-federated"), members(l::LOCAL_MEMBER))),
        create("services", NAMESPACE, probe("probe-west")),
        change("services", "shop", "web-east", spec(json!({ "ports": [{ "name": "http", "port": 81 }] }))),
        change("services", "shop", "bare-east", labels(of("east"))),
        change("services", "shop", "adopted-east", json!({ "metadata": { "annotations": { "a": "b" } } })),
        change("services", "shop", "adopted-east", signed(NAMESPACE)),
        change("services", "shop", "shown-east", json!({ "metadata": { "annotations": { "a": "b" } } })),
        change("services", "shop", "shown-east", spec(json!({ "type": "ClusterIP", "selector": null, "externalIPs": null }))),
        // The controller restores its annotations where they are missing. An adopted Service gets them last.
        change("services", "shop", "unmarked-east", without(l::INSTALLATION)),
        change("services", "shop", "unmarked-east", signed(NAMESPACE)),
        change("endpointslices", "shop", "unmarked-east-ipv4", with(
            signed(NAMESPACE),
            json!({ "metadata": { "ownerReferences": slice("unmarked-east", "east")["metadata"]["ownerReferences"] } }),
        )),
        delete("services", "shop", "web-east"),
        delete("services", "shop", "bare-east"),
        delete("services", "kube-system", "old-east"),
        delete("services", NAMESPACE, "probe-east"),
        create("endpointslices", "shop", slice("web-east", "east")),
        create("endpointslices", "shop", slice("bare-east", "east")),
        create("endpointslices", "shop", slice("new-east", "east")),
        create("endpointslices", NAMESPACE, with(slice("probe-east", "east"), labels(json!({
            l::MIRRORED_GATEWAY: "true", l::MIRRORED_SERVICE: null,
        })))),
        change("endpointslices", "shop", "web-east-ipv4", json!({ "endpoints": [] })),
        change("endpointslices", "shop", "bare-east-ipv4", managed_by(l::MANAGER)),
        delete("endpointslices", "shop", "web-east-ipv4"),
        delete("endpointslices", "shop", "bare-east-ipv4"),
        delete("endpoints", "shop", "adopted-east"),
        (Method::POST, "/api/v1/namespaces".into(), named("new")),
        // With what the controller writes, and what a webhook may add.
        (Method::POST, "/api/v1/namespaces".into(), with(named("new"), labels(json!({
            l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: "east", "pod-security.kubernetes.io/enforce": "baseline",
        })))),
        create("leases", NAMESPACE, named("service-mirror-write")),
    ]
}
