//! The roles that `install` prints grant exactly what the controller uses. The test lets the controller do everything
//! that it can do. Then it compares the roles with the audit logs of the source and the target cluster.

use std::{collections::BTreeSet, path::Path};

use control_plane::{AuditEvent, ControlPlane, eventually};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Service};
use kube::{
    Api,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    },
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{mark, requests},
    controller::Controller,
    gateway_api,
    gateways::Gateways,
    installation::{ACCOUNT, CONTROLLER, NAMESPACE, may_create_namespaces, reinstall},
    links::{condition_is, in_step, member_is, mirror_is, own_link, unlink},
    objects::{
        addresses, annotation, cluster_ip, delete, export, gone, hosts, label, linkerds_mirror,
        member, members_are, namespace, patch, regroup, relabel, service, services, slices,
        slices_of, slices_that, stateful, web,
    },
    planes::alone,
    program::run,
    versions::{SERVICE_RANGES, has_version},
};

/// Permissions of the remote-access account that our programs do not use: API group, resource, verbs, and who uses
/// them.
#[rustfmt::skip]
const FOR_LINKERD: [(&str, &str, &[&str], &str); 7] = [
    ("apps", "replicasets", &["get", "list", "watch"], "destination watches them, and gets one that it has not seen yet: they lead from Pods to Deployments"),
    ("batch", "jobs", &["get", "list", "watch"], "destination gets the Jobs that own Pods; older versions watch them"),
    ("", "pods", &["get", "list", "watch"], "destination watches the Pods behind endpoints"),
    ("", "endpoints", &["get", "list", "watch"], "destination watches them with enableEndpointSlices off, and so does Linkerd's service mirror"),
    ("policy.linkerd.io", "servers", &["get", "list", "watch"], "destination watches them for the protocols of ports"),
    ("discovery.k8s.io", "endpointslices", &["get"], "Linkerd's extension grants it, and who may list may read"),
    ("", "events", &["patch"], "Linkerd's service mirror counts repeated Events"),
];

/// Selects local members. The Deployment does not set this flag.
const MEMBERS: &str = "--federated-service-selector=mirror.linkerd.io/federated=rbac";

/// API group, resource (with its subresource) and verb.
type Use = (String, String, String);

/// Permissions of a role.
fn permitted(role: &Value) -> BTreeSet<Use> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        serde_json::from_value(rule[field].clone()).unwrap()
    };
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                for verb in list(rule, "verbs") {
                    all.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    all
}

/// Permissions that a user used in the namespaces that `place` selects. The namespace of cluster-wide requests is
/// empty.
fn done(events: &[AuditEvent], user: &str, place: impl Fn(&str) -> bool) -> BTreeSet<Use> {
    let own = events
        .iter()
        .filter(|event| event.user == user && place(&event.namespace));
    own.map(|event| {
        let resource = match event.subresource.as_str() {
            "" => event.resource.clone(),
            sub => format!("{}/{sub}", event.resource),
        };
        (event.group.clone(), resource, event.verb.clone())
    })
    .collect()
}

fn denied<'a>(events: &'a [AuditEvent], user: &str) -> Vec<&'a AuditEvent> {
    let refused = |event: &&AuditEvent| event.user == user && matches!(event.code, 401 | 403);
    events.iter().filter(refused).collect()
}

fn role<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .unwrap()
}

/// A controller that runs as in its Deployment: with the permissions of its ServiceAccount, and a lease.
fn controller(plane: &ControlPlane, gateways: &Gateways) -> Controller {
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:linkerd-multicluster",
        "system:authenticated",
    ];
    let kubeconfig = plane.user_kubeconfig(CONTROLLER, &groups).unwrap();
    Controller::start_as(
        &kubeconfig,
        &[
            "--identity=rbac",
            "--enable-namespace-creation",
            "--enable-routes",
            "--export-gateway=linkerd-gateway",
            "--permit-exports",
            MEMBERS,
            "--probe-address",
            &gateways.address(),
        ],
    )
}

/// Uses all modes of mirroring, and all cases in which the controller needs more permissions.
async fn mirror_in_all_modes(source: &ControlPlane, far: &ControlPlane) {
    // In gateway mode, the controller adopts a mirror of Linkerd's service mirror, and deletes the Endpoints.
    let managed = |s: &Service| annotation(s, l::MANAGED_BY) == Some(l::MANAGER);
    service(source, "rbac", "web-rbac", managed).await;
    let slices_of_web = slices_that(source, "rbac", "web-rbac", |s| {
        addresses(s) == ["192.0.2.50"]
    })
    .await;
    // Remote discovery, a headless Service, a federated Service with a local member, and a namespace that has to be
    // created.
    service(source, "rbac", "direct-rbac", |s| {
        label(s, l::REMOTE_DISCOVERY) == Some("rbac")
    })
    .await;
    service(source, "rbac", "db-rbac", |s| cluster_ip(s) == "None").await;
    service(source, "rbac", "db-0-rbac", |_| true).await;
    let members = (Some("shared@rbac"), Some("shared"));
    members_are(source, "rbac", "shared-federated", members.0, members.1).await;
    member_is(source, "rbac", "rbac", "shared", "Mirrored").await;
    service(source, "rbac-created", "there-rbac", |_| true).await;
    // If a name is taken, the controller reads the object with this name, and writes Events in both clusters.
    mirror_is(source, "rbac", "rbac", "taken", "NameConflict").await;
    condition_is(source, "rbac", "GatewayAlive", "True", "ProbeSucceeded").await;

    // Somebody removes the labels by which the controller watches a slice, so the slice is missing in the watch.
    let slice = slices_of_web[0].metadata.name.clone().unwrap();
    let unlabelled = json!({ "metadata": { "labels": {
        l::MIRRORED_SERVICE: null, l::CLUSTER_NAME: null,
    } } });
    slices(source, "rbac")
        .patch(&slice, &PatchParams::default(), &Patch::Merge(unlabelled))
        .await
        .unwrap();
    slices_that(source, "rbac", "web-rbac", |found| {
        let labels = found[0].metadata.labels.as_ref();
        labels.is_some_and(|all| all.contains_key(l::MIRRORED_SERVICE))
    })
    .await;
    // When the mode changes, the controller updates the mirror, and its slices stay.
    relabel(far, "rbac", "web", Some("rbac-direct")).await;
    let flat = |s: &Service| label(s, l::REMOTE_DISCOVERY).is_some();
    service(source, "rbac", "web-rbac", flat).await;
}

/// Asserts that `granted` and `used` are equal, except for the permissions in `others`.
fn each_is_used(
    whose: &str,
    granted: &BTreeSet<Use>,
    used: &BTreeSet<Use>,
    others: &BTreeSet<Use>,
) {
    let idle: Vec<_> = granted
        .difference(used)
        .filter(|g| !others.contains(g))
        .collect();
    assert!(idle.is_empty(), "{whose} grants what nobody uses: {idle:?}");
    let needless: Vec<_> = others
        .iter()
        .filter(|o| used.contains(o) || !granted.contains(o))
        .collect();
    assert!(
        needless.is_empty(),
        "{whose} needs no exceptions for these: {needless:?}"
    );
}

/// `idle`: what the source cluster is too old for.
fn roles_fit(
    objects: &[Value],
    source: &[AuditEvent],
    target: &[AuditEvent],
    idle: &BTreeSet<Use>,
) {
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    assert_eq!(denied(source, CONTROLLER), [&source[0]; 0]);
    assert_eq!(denied(target, &account), [&target[0]; 0]);

    let nobody = BTreeSet::new();
    let own = "linkerd-multicluster-controller";
    // Each permission of the ClusterRole must be used outside of our own namespace.
    let elsewhere = done(source, CONTROLLER, |namespace| namespace != NAMESPACE);
    let cluster_role = permitted(role(objects, "ClusterRole", own));
    each_is_used("the ClusterRole", &cluster_role, &elsewhere, idle);
    let here = done(source, CONTROLLER, |namespace| namespace == NAMESPACE);
    each_is_used(
        "the Role",
        &permitted(role(objects, "Role", own)),
        &here,
        &nobody,
    );

    let others = FOR_LINKERD.iter().flat_map(|(group, resource, verbs, _)| {
        verbs.iter().map(|verb| {
            (
                (*group).to_owned(),
                (*resource).to_owned(),
                (*verb).to_owned(),
            )
        })
    });
    let remote = permitted(role(objects, "ClusterRole", ACCOUNT));
    let used = done(target, &account, |_| true);
    each_is_used(
        "the remote-access account",
        &remote,
        &used,
        &others.collect(),
    );
}

/// Makes the controller update a route, try to create a route whose name is taken, and delete a route.
async fn routes_come_and_go(source: &ControlPlane) {
    for (kind, port) in [("HTTPRoute", 80), ("TCPRoute", 5432)] {
        let routes = gateway_api::routes(source, "rbac", kind);
        let name = format!("shared-federated-{port}");
        let route = || routes.get_opt(&name);
        let there = |found: Option<_>| Ok(found.map(|_| ()));
        eventually(&name, SOON, async || there(route().await?))
            .await
            .unwrap();
        let change = json!({ "spec": { "rules": [] } });
        routes
            .patch(&name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        eventually("the route to be right", SOON, async || {
            let found = route().await?;
            let rules = |route: &DynamicObject| route.data["spec"]["rules"] != json!([]);
            there(found.filter(rules))
        })
        .await
        .unwrap();
        // Without our label, annotations and owner, the route counts as somebody else's, and the name is taken.
        let change = json!({ "metadata": {
            "labels": { l::MIRRORED_SERVICE: null },
            "annotations": { l::MANAGED_BY: null, l::INSTALLATION: null },
            "ownerReferences": null,
        } });
        routes
            .patch(&name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
        member_is(source, "rbac", "rbac", "shared", "RouteConflict").await;
        routes
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        eventually(&name, SOON, async || there(route().await?))
            .await
            .unwrap();
    }
    // The preference ends, but the federated Service stays. So the controller has to delete the routes itself.
    let nothing = json!({ "metadata": { "annotations": { l::PREFER: null } } });
    patch(source, "rbac", "shared", nothing).await;
    for (kind, port) in [("HTTPRoute", 80), ("TCPRoute", 5432)] {
        let routes = gateway_api::routes(source, "rbac", kind);
        let name = format!("shared-federated-{port}");
        eventually("the route to go", SOON, async || {
            Ok(routes.get_opt(&name).await?.is_none().then_some(()))
        })
        .await
        .unwrap();
    }
}

/// Runs `check` of the source cluster, which uses the credentials of its Links.
fn check(kubeconfig: &Path) {
    let outcome = run(kubeconfig, &["check", "--wait=0s", "-o", "json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let checks = report["categories"][0]["checks"].as_array().unwrap();
    for title in [
        "remote cluster access credentials are valid",
        "service mirror controller has required permissions",
    ] {
        let found = checks.iter().find(|check| check["description"] == title);
        assert_eq!(found.unwrap()["result"], "success", "{report:#}");
    }
}

/// The controller permits others two exported Services, and then none.
async fn permits_come_and_go(source: &ControlPlane) {
    let kind = GroupVersionKind::gvk("policy.linkerd.io", "v1beta3", "HTTPRoute");
    let kind = ApiResource::from_gvk(&kind);
    let routes = Api::<DynamicObject>::namespaced_with(source.client(), NAMESPACE, &kind);
    let hosts_are = async |expected: Option<&[&str]>| {
        eventually("the route of the gateway", SOON, async || {
            let found = routes.get_opt("linkerd-gateway-exports-1").await?;
            let hosts = found.map(|found| found.data["spec"]["hostnames"].clone());
            Ok((hosts == expected.map(|hosts| json!(hosts))).then_some(()))
        })
        .await
        .unwrap();
    };
    let (first, second) = (
        "first.rbac.svc.cluster.local",
        "second.rbac.svc.cluster.local",
    );
    export(source, "rbac", &web("first", "true")).await;
    hosts_are(Some(&[first])).await;
    export(source, "rbac", &web("second", "true")).await;
    hosts_are(Some(&[first, second])).await;
    for name in ["first", "second"] {
        relabel(source, "rbac", name, None).await;
    }
    hosts_are(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_sufficient_and_each_verb_in_them_is_used() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    source.install_gateway_api().await.unwrap();
    let values = "enableNamespaceCreation=true,federation.routes=true,gateway.forward=permitted";
    let objects = reinstall(source, &["--set", values]).await;
    may_create_namespaces(source).await;
    // The first leader creates the lease.
    Api::<Lease>::namespaced(source.client(), NAMESPACE)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    let before = (mark(source), mark(far));
    namespace("rbac", &[source, far]).await;
    namespace("rbac-created", &[far]).await;
    linkerds_mirror(source, "rbac", "web", "rbac").await;
    let mut users = web("taken-rbac", "no");
    users.metadata.labels = None;
    // Routes to an HTTP port and to a TCP port.
    let mut prefers = member("shared", "rbac", "no");
    let annotation = (l::PREFER.to_owned(), "local".to_owned());
    prefers.metadata.annotations = Some([annotation].into());
    let ports = prefers.spec.as_mut().unwrap().ports.get_or_insert_default();
    let mut opaque = ports[0].clone();
    (opaque.name, opaque.port, opaque.app_protocol) = (Some("opaque".to_owned()), 5432, None);
    ports.push(opaque);
    for (plane, service) in [(source, &users), (source, &prefers), (far, &prefers)] {
        export(plane, "rbac", service).await;
    }
    for (name, exported) in [
        ("web", "rbac"),
        ("direct", "rbac-direct"),
        ("taken", "rbac"),
    ] {
        export(far, "rbac", &web(name, exported)).await;
    }
    export(far, "rbac-created", &web("there", "rbac")).await;
    stateful(far, "rbac", "db", "rbac").await;
    hosts(far, "rbac", "db", &[("db-0", true)]).await;
    own_link(source, far, "rbac", &["--enable-headless-services"]).await;

    let gateways = Gateways::start();
    let mut controller = controller(source, &gateways);
    mirror_in_all_modes(source, far).await;
    in_step(source, "rbac", &[MEMBERS]).await;
    routes_come_and_go(source).await;
    permits_come_and_go(source).await;
    check(source.kubeconfig());
    delete(far, "rbac", "db").await;
    gone(source, "rbac", "db-0-rbac").await;
    relabel(far, "rbac", "direct", None).await;
    gone(source, "rbac", "direct-rbac").await;
    unlink(source, "rbac").await;
    gone(source, "rbac", "web-rbac").await;
    // Until here, the federated Service still has its local member.
    regroup(source, "rbac", "shared", None).await;
    gone(source, "rbac", "shared-federated").await;
    // The controller also needs a permission to release its lease.
    assert_eq!(controller.terminate().0, Some(0));

    assert!(services(source, "rbac").get("taken-rbac").await.is_ok());
    assert_eq!(
        slices_of(source, "rbac", "taken-rbac").await.unwrap().len(),
        2
    );
    let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(far.client(), "rbac");
    let told = events
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    assert!(
        told.items
            .iter()
            .any(|event| event.involved_object.name.as_deref() == Some("taken"))
    );

    let (here, there) = (requests(source, before.0), requests(far, before.1));
    let mut idle = BTreeSet::new();
    let checked = "the permission to list IPAddresses is used";
    if !has_version(source, SERVICE_RANGES, checked).await {
        let list = ["networking.k8s.io", "ipaddresses", "list"].map(str::to_owned);
        idle.insert(list.into());
    }
    roles_fit(&objects, &here, &there, &idle);
    reinstall(source, &[]).await;
}
