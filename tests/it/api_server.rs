//! Links whose controller reaches the API server of the target cluster only through the gateway.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::{ControlPlane, Fault, FaultProxy, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt as _};
use linkerd_mc::{
    api::{labels as l, link::Link},
    mirror::{API_SERVER_PORT, API_SERVER_SERVICE},
};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE, api_gateway, install},
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
/// The address of the gateway that leads to the API server.
const GATEWAY: &str = "192.0.2.11";

/// ClusterIP and port of a gateway Service that leads to an API server.
fn address(service: &Service) -> SocketAddr {
    let ip: IpAddr = cluster_ip(service).parse().unwrap();
    SocketAddr::new(ip, API_SERVER_PORT)
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
    let own = install_the_gateway(far).await;
    let printed = objects(far, NAME, &["--api-server-through-gateway"]);
    let [_, link] = printed.as_slice() else {
        panic!("Linkerd's control plane has no way: {printed:?}");
    };
    let set = &link["metadata"]["annotations"];
    let way: Value = serde_json::from_str(set[l::API_GATEWAY].as_str().unwrap()).unwrap();
    let there = format!("{NAMESPACE}/{API_SERVER_SERVICE}");
    assert_eq!(way["addresses"], json!([GATEWAY]));
    assert_eq!(
        (&way["port"], &way["service"]),
        (&json!(4143), &json!(there))
    );
    assert_eq!(set[l::FEDERATED_THROUGH], "gateway");
    apply(&source, &printed).await;

    let first = service(&source, NAMESPACE, SERVICE, |_| true).await;
    assert_eq!(ports(&first), [("https", 8443)]);
    let through: FaultProxy = far.fault_proxy_at(address(&first)).unwrap();
    service(&source, NAME, "web-private", |_| true).await;
    condition_is(&source, NAME, "Connected", "True", "Connected").await;
    let slices = slices_that(&source, NAMESPACE, SERVICE, |slices| {
        addresses(slices) == [GATEWAY]
    })
    .await;
    let annotations = slices[0].metadata.annotations.as_ref().unwrap();
    let fq_name = format!("{API_SERVER_SERVICE}.{NAMESPACE}.svc.cluster.local");
    assert_eq!(annotations[l::REMOTE_FQ_NAME], fq_name);

    through.set(Fault::Refuse);
    condition_is(&source, NAME, "Connected", "False", "Unreachable").await;
    export(far, NAME, &web("late", NAME)).await;
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
    for object in own {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let [kind, name] = [kind, name].map(|text| text.as_str().unwrap());
        let delete = ["delete", kind, name, "-n", NAMESPACE];
        far.kubectl(&delete).await.unwrap();
    }
}

/// What `install` prints in the target cluster for a gateway that leads to its API server. A load balancer gives the gateway
/// an address. Without it, `link-gen` says what to install.
async fn install_the_gateway(far: &ControlPlane) -> Vec<Value> {
    let link_gen = [
        "link-gen",
        "--cluster-name",
        NAME,
        "--api-server-through-gateway",
    ];
    let refused = run(far.kubeconfig(), &link_gen);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    let kubernetes = Api::<Service>::namespaced(far.client(), "default");
    let kubernetes = kubernetes.get("kubernetes").await.unwrap();
    let address = cluster_ip(&kubernetes);
    let set = format!("apiGateway.apiServerAddress={address}");
    assert!(
        refused.stderr.contains(&format!("set {set}")),
        "{}",
        refused.stderr
    );

    api_gateway(far, address, GATEWAY).await
}

/// Linkerd's destination controller can use the gateway, too, by the same Service.
async fn linkerd_goes_through_the_gateway_too(far: &ControlPlane, source: &ControlPlane) {
    let flags = [
        "--api-server-through-gateway",
        "--discovery-through-gateway",
    ];
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
    let at = format!("server: https://{SERVICE}.{NAMESPACE}.svc:8443");
    assert_eq!([server(own_secret), server(linkerds)], [at.clone(), at]);
    let set = &link["metadata"]["annotations"];
    let way = set[l::API_GATEWAY].as_str().unwrap();
    assert!(way.contains("\"discovery\":true"), "{way}");
    assert_eq!(set[l::FEDERATED_THROUGH], Value::Null);
    apply(source, &printed).await;
    condition_is(source, NAME, "Connected", "True", "Connected").await;
    let leads = "Linkerd's credentials lead to the API server of each Link";
    assert_eq!(checked(source, leads)["result"], "success");
}

/// Only the controller uses the address that leads through the gateway. Commands use the contexts of their users.
async fn commands_do_not_need_the_gateway(far: &ControlPlane, source: &ControlPlane) {
    let both = source.folder().join("both.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &both).unwrap();
    let contexts = ["--target", far.name(), "--source", source.name()];
    let alone = run(&both, &["plan", NAME]);
    assert_eq!(alone.code, 1, "{}", alone.stdout);
    let hint = "only the controller reaches its API server through a gateway; pass --target";
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
        direct.stdout.contains("  apiGateway: {"),
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
