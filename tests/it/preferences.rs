//! Federated Services whose members prefer a cluster: the routes that the controller writes, and how they change.

use std::time::{Duration, Instant};

use browser::{Browser, Tab};
use control_plane::{AuditEvent, ControlPlane, eventually, gateway_api_crds};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use linkerd_mc::api::{labels as l, route::RouteKind};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    gateway_api::{permit, routes},
    gateways::Gateways,
    installation::parsed,
    links::{checked, in_step, member_is, mirror_is, own_link, unlink},
    objects::{
        addresses, annotation, apply, delete, endpoints, gone, join, namespace, patch, service,
        slices_of, slices_that,
    },
    page::serve,
    planes::{Alone, alone},
    program::run,
};

/// Namespace, cluster and group of members of this test.
const NAME: &str = "preferred";
const FLAGS: [&str; 3] = [
    "--federated-service-selector=mirror.linkerd.io/federated=preferred",
    "--enable-routes",
    "--hold-down=3s",
];
const SERVICE: &str = "web-federated";
const ROUTE: &str = "web-federated-80";
const MIRROR: &str = "web-preferred";
const GATEWAY: &str = "192.0.2.50";
/// Weight of a preferred cluster next to [`SERVICE`], which gets about one request in a million.
const HEAVY: u64 = 1_000_000;

/// A member with two endpoints that are ready.
async fn member(plane: &ControlPlane) {
    join(plane, NAME, "web", NAME, "no").await;
    endpoints(plane, NAME, "web", 2).await;
}

/// Sets the preference of the local member. Null removes it.
async fn prefer(plane: &ControlPlane, preference: Value) {
    let change = json!({ "metadata": { "annotations": { l::PREFER: preference } } });
    patch(plane, NAME, "web", change).await;
}

/// The Services that a route sends requests to, with their weights.
fn backends(route: &DynamicObject) -> Vec<(&str, u64)> {
    let backends = route.data["spec"]["rules"][0]["backendRefs"].as_array();
    let backends = backends.into_iter().flatten();
    backends
        .map(|backend| {
            let name = backend["name"].as_str().unwrap();
            (name, backend["weight"].as_u64().unwrap())
        })
        .collect()
}

/// Waits until the route sends requests to these Services with these weights.
async fn routed(plane: &ControlPlane, to: &[(&str, u64)]) -> DynamicObject {
    eventually(&format!("the route to lead to {to:?}"), SOON, async || {
        let found = routes(plane, NAME, "HTTPRoute").get_opt(ROUTE).await?;
        Ok(found.filter(|route| backends(route) == to))
    })
    .await
    .unwrap()
}

/// Waits until there is no route.
async fn unrouted(plane: &ControlPlane) {
    eventually("the route to go", SOON, async || {
        let found = routes(plane, NAME, "HTTPRoute").get_opt(ROUTE).await?;
        Ok(found.is_none().then_some(()))
    })
    .await
    .unwrap();
}

/// The times in the annotation for the local cluster: since when it gets no requests, and until when.
fn left_out(service: &Service) -> Option<(&str, &str)> {
    let out = annotation(service, l::FAILED_OVER)?;
    out.strip_prefix("local=")?.split_once('/')
}

fn is_ready(slices: &[EndpointSlice], address: &str) -> bool {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let mut own = endpoints.filter(|endpoint| endpoint.addresses.iter().any(|a| a == address));
    own.any(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.ready) != Some(false)
    })
}

/// Two clusters with a member each, of which the local one is preferred, and a controller that may create routes.
struct Scene {
    // Before the control planes: fields are dropped in this order.
    _controller: Controller,
    gateways: Gateways,
    alone: Alone,
}

impl Scene {
    async fn set() -> Self {
        let alone = alone().await;
        let (source, far) = (&*alone.source, &*alone.far);
        permit(source, true).await;
        namespace(NAME, &[source, far]).await;
        let gateways = Gateways::start();
        let address = gateways.address();
        let flags = [&FLAGS[..], &["--probe-address", &address]].concat();
        let controller = Controller::start(source, &flags);
        member(source).await;
        member(far).await;
        prefer(source, "local".into()).await;
        own_link(source, far, NAME, &["--federated-through=gateway"]).await;
        Self {
            _controller: controller,
            gateways,
            alone,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn routes_prefer_a_cluster_fail_over_and_fail_back() {
    let scene = Scene::set().await;
    let source = &*scene.alone.source;

    // Without the Gateway API, requests go to all members, and the Link reports it.
    let said = member_is(source, NAME, NAME, "web", "NoRoutes").await;
    assert_eq!(
        said.message,
        "no cluster is preferred: HTTPRoute is not installed"
    );
    source.install_gateway_api().await.unwrap();
    let both = [("web", HEAVY), (SERVICE, 1)];
    let made = routed(source, &both).await;
    let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
    let federated = service(source, NAME, SERVICE, |now| {
        annotation(now, l::PREFER) == Some("local")
    })
    .await;
    assert_eq!(Some(&owner.uid), federated.metadata.uid.as_ref());
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &FLAGS).await;

    kinds_of_routes_are_removed(source).await;
    leaves_and_returns(source).await;
    other_cluster_is_preferred(source, &scene.gateways).await;

    // The preference is invalid, then names a cluster without a Link, and is then removed.
    prefer(source, "east=0".into()).await;
    let said = member_is(source, NAME, NAME, "web", "InvalidPreference").await;
    assert!(
        said.message.contains("invalid weight \"0\""),
        "{}",
        said.message
    );
    unrouted(source).await;
    prefer(source, "local".into()).await;
    routed(source, &both).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    prefer(source, "nowhere,local".into()).await;
    let said = member_is(source, NAME, NAME, "web", "InvalidPreference").await;
    assert_eq!(said.message, "preferred clusters without a Link: nowhere");
    prefer(source, Value::Null).await;
    unrouted(source).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &FLAGS).await;

    prefer(source, "local".into()).await;
    routed(source, &both).await;
    routes_that_are_left_are_named(source).await;

    // Kubernetes deletes the routes with the federated Service that owns them.
    unlink(source, NAME).await;
    delete(source, NAME, "web").await;
    gone(source, NAME, SERVICE).await;
    unrouted(source).await;
}

/// Somebody removes the CRDs of routes, and with them all routes. The Link reports that. When the CRDs are back, the
/// controller creates the route again.
async fn kinds_of_routes_are_removed(source: &ControlPlane) {
    source.uninstall_gateway_api().await.unwrap();
    let said = member_is(source, NAME, NAME, "web", "NoRoutes").await;
    assert_eq!(
        said.message,
        "no cluster is preferred: HTTPRoute is not installed"
    );
    in_step(source, NAME, &FLAGS).await;
    source.install_gateway_api().await.unwrap();
    routed(source, &[("web", HEAVY), (SERVICE, 1)]).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &FLAGS).await;
}

/// The installation does not allow routes any more. The running controller still has its flag, so its routes stay, and
/// `install` and `check` name them.
async fn routes_that_are_left_are_named(source: &ControlPlane) {
    let route = format!("HTTPRoute {NAME}/{ROUTE}");
    let off = run(source.kubeconfig(), &["install", "-o=json"]);
    assert_eq!(off.code, 0, "{}", off.stderr);
    let warning = format!(
        "warning: federation.routes is off, and routes are left of the time when it was on: {route}"
    );
    assert!(off.stderr.starts_with(&warning), "{}", off.stderr);
    apply(source, &parsed(&off.stdout)).await;
    let check = checked(source, "preferences of federated services are applied");
    assert_eq!(check["result"], "warning");
    let error = check["error"].as_str().unwrap();
    assert!(error.contains(&format!("{route} is left")), "{error}");
    permit(source, true).await;
}

/// The local member loses its endpoints and gets them back. It gets requests again only after the hold-down.
async fn leaves_and_returns(source: &ControlPlane) {
    endpoints(source, NAME, "web", 0).await;
    routed(source, &[(SERVICE, 1)]).await;
    let left = service(source, NAME, SERVICE, |now| left_out(now).is_some()).await;
    assert_eq!(left_out(&left).unwrap().1, "..");
    endpoints(source, NAME, "web", 2).await;
    let waits = service(source, NAME, SERVICE, |now| {
        left_out(now).is_some_and(|(_, until)| until != "..")
    })
    .await;
    assert_eq!(left_out(&waits).unwrap().0, left_out(&left).unwrap().0);
    // During the hold-down, requests that go to all members do not reach the local member either.
    let slices = slices_of(source, NAME, SERVICE).await.unwrap();
    assert!(
        is_ready(&slices, GATEWAY) && !is_ready(&slices, "192.0.2.100"),
        "{slices:?}"
    );
    service(source, NAME, SERVICE, |now| left_out(now).is_none()).await;
    routed(source, &[("web", HEAVY), (SERVICE, 1)]).await;
    slices_that(source, NAME, SERVICE, |now| is_ready(now, "192.0.2.100")).await;
    in_step(source, NAME, &FLAGS).await;
}

/// While somebody else has a route of this kind, the controller deletes its own route, and does not change theirs.
async fn others_have(source: &ControlPlane, version: &str, kind: &str, name: &str, spec: &Value) {
    let theirs = routes(source, NAME, kind);
    let route = json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    let route: DynamicObject = serde_json::from_value(route).unwrap();
    let made = theirs.create(&PostParams::default(), &route).await.unwrap();
    unrouted(source).await;
    let said = member_is(source, NAME, NAME, "web", "RouteConflict").await;
    assert_eq!(
        said.message,
        format!("no cluster is preferred: {kind} {name} already routes these requests")
    );
    let now = theirs.get(name).await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        made.metadata.resource_version
    );
    theirs.delete(name, &DeleteParams::default()).await.unwrap();
    routed(source, &[("web", HEAVY), (SERVICE, 1)]).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
}

/// Gateway API 1.6 serves `TCPRoute` as `v1` only, which Linkerd does not read yet. The route is written nevertheless, and
/// counts as soon as a later Linkerd says that it has accepted it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn tcp_routes_of_the_newest_gateway_api_are_written_and_what_linkerd_does_not_read_is_said() {
    let scene = Scene::set().await;
    let (source, far) = (&*scene.alone.source, &*scene.alone.far);
    let crds = tokio::task::spawn_blocking(gateway_api_crds).await;
    let crds = crds.unwrap().unwrap();
    source
        .kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()])
        .await
        .unwrap();
    routed(source, &[("web", HEAVY), (SERVICE, 1)]).await;
    let port = json!([{ "name": "db", "port": 80, "appProtocol": "postgres" }]);
    for plane in [source, far] {
        patch(plane, NAME, "web", json!({ "spec": { "ports": port } })).await;
    }

    let said = member_is(source, NAME, NAME, "web", "RouteNotAccepted").await;
    let why = format!(
        "no cluster is preferred: Linkerd has not accepted TCPRoute {ROUTE}, because it reads TCPRoute as v1alpha2, which \
         the API server does not serve"
    );
    assert_eq!(said.message, why);
    unrouted(source).await;
    let check = checked(source, "preferences of federated services are applied");
    assert_eq!(check["result"], "warning");

    let resource = RouteKind::Tcp.resource_in("v1");
    let routes = Api::<DynamicObject>::namespaced_with(source.client(), NAME, &resource);
    let accepted = json!({ "status": { "parents": [{
        "controllerName": "linkerd.io/policy-controller",
        "parentRef": { "group": "", "kind": "Service", "name": SERVICE, "port": 80 },
        "conditions": [{
            "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
            "lastTransitionTime": "2026-11-29T00:00:00Z",
        }],
    }] } });
    routes
        .patch_status(ROUTE, &PatchParams::default(), &Patch::Merge(accepted))
        .await
        .unwrap();
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &FLAGS).await;

    prefer(source, Value::Null).await;
    eventually("the route to go", SOON, async || {
        Ok(routes.get_opt(ROUTE).await?.is_none().then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn routes_of_others_are_respected_and_our_own_are_repaired() {
    let scene = Scene::set().await;
    let source = &*scene.alone.source;
    source.install_gateway_api().await.unwrap();
    let both = [("web", HEAVY), (SERVICE, 1)];
    routed(source, &both).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    let route = json!({
        "parentRefs": [{ "group": "", "kind": "Service", "name": SERVICE }],
        "rules": [{ "backendRefs": [{ "name": "web", "port": 80 }] }],
    });
    let profile = json!({ "routes": [{ "name": "all", "condition": { "pathRegex": ".*" } }] });
    let group = "gateway.networking.k8s.io";
    let name = format!("{SERVICE}.{NAME}.svc.cluster.local");
    others_have(
        source,
        &format!("{group}/v1"),
        "GRPCRoute",
        "theirs",
        &route,
    )
    .await;
    others_have(source, &format!("{group}/v1"), "TLSRoute", "theirs", &route).await;
    others_have(
        source,
        "linkerd.io/v1alpha2",
        "ServiceProfile",
        &name,
        &profile,
    )
    .await;

    let ours = routes(source, NAME, "HTTPRoute");
    let rules = json!([{ "backendRefs": [{ "name": "web", "port": 80 }] }]);
    let change = json!({ "spec": { "hostnames": ["a.example"], "rules": rules } });
    ours.patch(ROUTE, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
    let healed = routed(source, &both).await;
    assert_eq!(healed.data["spec"]["hostnames"], Value::Null);
    ours.delete(ROUTE, &DeleteParams::default()).await.unwrap();
    routed(source, &both).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
}

/// The controller creates a mirror of the preferred cluster. It deletes the mirror only after it has removed the
/// cluster from the route.
async fn other_cluster_is_preferred(source: &ControlPlane, gateways: &Gateways) {
    prefer(source, format!("{NAME},local").into()).await;
    let first = [(MIRROR, HEAVY), (SERVICE, 1)];
    routed(source, &first).await;
    slices_that(source, NAME, MIRROR, |now| addresses(now) == [GATEWAY]).await;
    mirror_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &FLAGS).await;

    gateways.kill("/ready");
    let both = [("web", HEAVY), (SERVICE, 1)];
    routed(source, &both).await;
    gateways.revive("/ready");
    routed(source, &first).await;

    prefer(source, format!("{NAME}=1,local=4").into()).await;
    routed(source, &[(MIRROR, HEAVY / 4), ("web", HEAVY), (SERVICE, 1)]).await;

    let mark = source.audit_mark().unwrap();
    prefer(source, "local".into()).await;
    gone(source, NAME, MIRROR).await;
    routed(source, &both).await;
    let done = source.audit_since(mark).unwrap();
    let when = |verb: &str, resource: &str, name: &str| {
        let is = |event: &&AuditEvent| {
            event.verb == verb && event.resource == resource && event.name == name
        };
        let event = done.iter().find(|event| is(event) && event.code == 200);
        event.map(|event| event.noted)
    };
    let turned = when("patch", "httproutes", ROUTE).unwrap();
    let deleted = when("delete", "services", MIRROR).unwrap();
    assert!(turned < deleted, "{turned} {deleted}");
}

/// Waits until the row of the federated Service says this. Returns how long that took.
async fn federated_is(tab: &mut Tab, said: &str) -> Duration {
    let since = Instant::now();
    let row = "[...document.querySelectorAll('#federated tbody tr')]";
    let wanted = format!("{row}.some((row) => row.textContent.includes('{said}'))");
    tab.until(&wanted).await.unwrap();
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn failover_and_its_end_are_seen_without_a_reload() {
    if !Browser::installed("the page shows a failover") {
        return;
    }
    let scene = Scene::set().await;
    let source = &*scene.alone.source;
    source.install_gateway_api().await.unwrap();
    let (_page, url, _folder) = serve(&[source]).await;
    let mut browser = Browser::start().await.unwrap();
    let mut tab = browser.tab().await.unwrap();
    tab.open(&url).await.unwrap();
    federated_is(&mut tab, "healthy").await;
    endpoints(source, NAME, "web", 0).await;
    let failed_over = federated_is(&mut tab, "failed over").await;
    endpoints(source, NAME, "web", 2).await;
    let returned = federated_is(&mut tab, "healthy").await;
    eprintln!(
        "a failover is seen after {failed_over:?}, its end {returned:?} after the endpoints are back, of which the \
         hold-down is 3 s"
    );
    let (own, _) = url.rsplit_once('/').unwrap();
    let complaints = tab.complaints(own);
    assert!(complaints.is_empty(), "{complaints:#?}");
}
