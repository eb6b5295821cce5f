//! Links whose controller reaches the API server of the target cluster only through the gateway.

use std::{
    io::ErrorKind::PermissionDenied,
    net::{IpAddr, SocketAddr, TcpListener},
    path::PathBuf,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::{ControlPlane, Fault, FaultProxy, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt as _};
use linkerd_mc::{
    api::{labels as l, link::Link},
    mirror::API_SERVER_SERVICE,
};
use requirements::missing;
use serde_json::Value;

use crate::support::{
    SOON,
    controller::Controller,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE, install, parsed},
    links::{checked, condition_is, objects, unlink},
    objects::{
        addresses, apply, cluster_ip, delete, export, gone, namespace, ports, service, slices_that,
        web,
    },
    planes::hub,
    program::run,
};

/// Name of the namespace, of the Link and its target cluster, and of the source control plane.
const NAME: &str = "private";
const SERVICE: &str = "api-private";
const DISCOVERY: &str = "discovery-private";

/// ClusterIP and port of a gateway Service that leads to an API server.
fn address(service: &Service) -> SocketAddr {
    let ip: IpAddr = cluster_ip(service).parse().unwrap();
    SocketAddr::new(ip, 443)
}

/// A source cluster whose ClusterIPs are loopback addresses, so that a test can listen there. Also the kubeconfig of
/// its controller.
async fn source() -> (ControlPlane, PathBuf) {
    let source = ControlPlane::start_with_loopback_cluster_ips(NAME);
    let source = source.await.unwrap();
    install(&source, "192.0.2.80").await;
    let kubeconfig = source
        .kubeconfig_through(source.url(), CONTROLLER, &CONTROLLER_GROUPS)
        .unwrap();
    (source, kubeconfig)
}

/// There is no mesh here. A TCP proxy at the ClusterIP of the gateway Service stands in for Linkerd's proxy and the
/// gateway. No DNS resolves the address in the credentials, so the controller has no other way.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn controller_needs_only_the_gateway_to_reach_an_api_server() {
    let denied =
        TcpListener::bind(("127.0.0.1", 443)).is_err_and(|error| error.kind() == PermissionDenied);
    if denied {
        return missing("root", "an API server behind a gateway, at port 443");
    }
    let far = &hub().await.east;
    let (source, kubeconfig) = source().await;
    namespace(NAME, &[far, &source]).await;
    export(far, NAME, &web("web", NAME)).await;
    let gateways = Gateways::start();
    let flags = [
        "--leader-elect=false",
        "--probe-address",
        &gateways.address(),
    ];
    let _controller = Controller::start_probing(&kubeconfig, &flags);
    let printed = objects(far, NAME, &["--api-server-through-gateway"]);
    let [_, link] = printed.as_slice() else {
        panic!("Linkerd's control plane cannot use the gateway: {printed:?}");
    };
    let set = &link["metadata"]["annotations"];
    assert_eq!(set[l::API_SERVER_THROUGH], "gateway");
    assert_eq!(set[l::FEDERATED_THROUGH], "gateway");
    apply(&source, &printed).await;

    let first = service(&source, NAMESPACE, SERVICE, |_| true).await;
    assert_eq!(ports(&first), [("https", 443)]);
    let through: FaultProxy = far.fault_proxy_at(address(&first)).unwrap();
    service(&source, NAME, "web-private", |_| true).await;
    condition_is(&source, NAME, "Connected", "True", "Connected").await;
    let slices = slices_that(&source, NAMESPACE, SERVICE, |slices| {
        addresses(slices) == ["192.0.2.10"]
    })
    .await;
    let annotations = slices[0].metadata.annotations.as_ref().unwrap();
    let fq_name = "kubernetes.default.svc.cluster.local";
    assert_eq!(annotations[l::REMOTE_FQ_NAME], fq_name);

    // First only the API server behind the gateway fails. Then the gateway fails, too. Then both work again.
    through.set(Fault::Refuse);
    condition_is(&source, NAME, "Connected", "False", "Unreachable").await;
    gateways.kill("/ready");
    condition_is(&source, NAME, "Connected", "False", "GatewayUnreachable").await;
    export(far, NAME, &web("late", NAME)).await;
    gateways.revive("/ready");
    through.set(Fault::None);
    service(&source, NAME, "late-private", |_| true).await;

    // The controller creates the gateway Service again, with a new ClusterIP, and connects there.
    delete(&source, NAMESPACE, SERVICE).await;
    let second = service(&source, NAMESPACE, SERVICE, |now| now.uid() != first.uid()).await;
    let _followed = far.fault_proxy_at(address(&second)).unwrap();
    drop(through);
    export(far, NAME, &web("later", NAME)).await;
    service(&source, NAME, "later-private", |_| true).await;
    commands_do_not_need_the_gateway(far, &source).await;
    linkerd_goes_through_the_gateway_too(far, &source).await;
    unlink(&source, NAME).await;
    gone(&source, NAMESPACE, SERVICE).await;
    gone(&source, NAMESPACE, DISCOVERY).await;
}

/// Linkerd's destination controller can use the gateway, too. For this, the target cluster needs a Service that
/// `install` prints. In the source cluster, the controller creates another one.
async fn linkerd_goes_through_the_gateway_too(far: &ControlPlane, source: &ControlPlane) {
    let flags = [
        "--api-server-through-gateway",
        "--discovery-through-gateway",
    ];
    let link_gen = [&["link-gen", "--cluster-name", NAME][..], &flags].concat();
    let refused = run(far.kubeconfig(), &link_gen);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    let kubernetes = Api::<Service>::namespaced(far.client(), "default");
    let kubernetes = kubernetes.get("kubernetes").await.unwrap();
    let address = cluster_ip(&kubernetes);
    let hint = format!("set gateway.apiServerAddress={address}");
    assert!(refused.stderr.contains(&hint), "{}", refused.stderr);

    let set = format!("gateway.apiServerAddress={address}");
    let install = [
        "install",
        "--ignore-cluster",
        "--output=json",
        "--set",
        &set,
    ];
    let installed = run(far.kubeconfig(), &install);
    let mut own = parsed(&installed.stdout);
    own.retain(|object| object["metadata"]["name"] == API_SERVER_SERVICE);
    assert_eq!(
        own.len(),
        2,
        "a Service and its slice: {}",
        installed.stderr
    );
    apply(far, &own).await;

    let printed = objects(far, NAME, &flags);
    let [own_secret, linkerds, link] = printed.as_slice() else {
        panic!("{printed:?}");
    };
    let server = |secret: &Value| {
        let kubeconfig = BASE64_STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap());
        let text = String::from_utf8(kubeconfig.unwrap()).unwrap();
        let line = text.lines().find(|line| line.contains("server:"));
        line.unwrap().trim().to_owned()
    };
    let of = |service: &str| format!("server: https://{service}.{NAMESPACE}.svc");
    assert_eq!(server(own_secret), of(SERVICE));
    assert_eq!(server(linkerds), of(DISCOVERY) + ":8443");
    let set = &link["metadata"]["annotations"];
    let named = format!("{NAMESPACE}/{API_SERVER_SERVICE}");
    assert_eq!(set[l::DISCOVERY_SERVICE], named);
    assert_eq!(set[l::FEDERATED_THROUGH], Value::Null);
    apply(source, &printed).await;
    let made = service(source, NAMESPACE, DISCOVERY, |_| true).await;
    assert_eq!(ports(&made), [("https", 8443)]);
    let slices = slices_that(source, NAMESPACE, DISCOVERY, |slices| {
        addresses(slices) == ["192.0.2.10"]
    })
    .await;
    let annotations = slices[0].metadata.annotations.as_ref().unwrap();
    let there = format!("{API_SERVER_SERVICE}.{NAMESPACE}.svc.cluster.local");
    assert_eq!(annotations[l::REMOTE_FQ_NAME], there);
    for object in own {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let delete = ["delete", &kind, API_SERVER_SERVICE, "-n", NAMESPACE];
        far.kubectl(&delete).await.unwrap();
    }
}

/// Only the controller uses the address that leads through the gateway. Commands use the contexts of their users.
async fn commands_do_not_need_the_gateway(far: &ControlPlane, source: &ControlPlane) {
    let both = source.folder().join("both.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &both).unwrap();
    let contexts = ["--target", far.name(), "--source", source.name()];
    let alone = run(&both, &["plan", NAME]);
    assert_eq!(alone.code, 1, "{}", alone.stdout);
    let hint = "only the controller reaches its API server through the gateway; pass --target";
    assert!(alone.stderr.contains(hint), "{}", alone.stderr);
    // `plan` takes from the Link's status whether the gateway is alive, and the status may be seconds behind.
    eventually("plan to find nothing to do", SOON, async || {
        let planned = run(&both, &["plan", NAME, "--target", far.name()]);
        anyhow::ensure!(planned.code == 0, "{}{}", planned.stdout, planned.stderr);
        Ok(Some(()))
    })
    .await
    .unwrap();

    condition_is(source, NAME, "Connected", "True", "Connected").await;
    let access = checked(source, "remote cluster access credentials are valid");
    assert_eq!(access["result"], "success", "{access}");

    // `link` keeps all settings of the Link, including the way through the gateway.
    let again = [
        &["link", "--cluster-name", NAME, "--dry-run"][..],
        &contexts,
    ]
    .concat();
    let again = run(&both, &again);
    let kept = format!(
        "would keep all settings of the Link {NAME} in {}\n",
        source.name()
    );
    assert_eq!((again.code, again.stdout), (0, kept), "{}", again.stderr);
    let direct = [
        &[
            "link",
            "--cluster-name",
            NAME,
            "--dry-run",
            "--api-server-through-gateway=false",
        ][..],
        &contexts,
    ]
    .concat();
    let direct = run(&both, &direct);
    assert_eq!(direct.code, 0, "{}", direct.stderr);
    assert!(
        direct
            .stdout
            .contains("  apiServerThroughGateway: gateway -> (none)\n"),
        "{}",
        direct.stdout
    );

    let fingerprint = async || {
        let links = Api::<Link>::namespaced(source.client(), NAMESPACE);
        links
            .get(NAME)
            .await
            .unwrap()
            .status
            .unwrap()
            .credentials_fingerprint
    };
    let before = fingerprint().await;
    let rotate = [&["rotate", NAME, "--no-restart"][..], &contexts].concat();
    let rotated = run(&both, &rotate);
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    assert!(
        !rotated.stderr.contains("Linkerd has no Secret"),
        "{}",
        rotated.stderr
    );
    assert_ne!(fingerprint().await, before);
    condition_is(source, NAME, "Connected", "True", "Connected").await;
}
