//! Where gateways may not be: in this cluster itself, and outside of the networks that a Link allows.

use control_plane::{ControlPlane, eventually};
use kube::api::{Patch, PatchParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::{
    fleet::{SOON, namespace},
    hub::hub,
    links::{apply, checked, condition_says, edit, in_step, links, objects, status_that, unlink},
    objects::{
        addresses, cluster_ip, export, gone, service, services, slices_of, slices_that, web,
    },
    program::run,
};

const REFUSED: &str = "GatewayAddressRefused";

/// Sets what a Link allows, or takes it away.
async fn allow(plane: &ControlPlane, link: &str, networks: Option<&str>) {
    let annotations = json!({ l::GATEWAY_NETWORKS: networks });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    links(plane)
        .patch(link, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Gives a Link's gateway this address.
async fn moved(plane: &ControlPlane, link: &str, address: &str) {
    edit(plane, link, json!({ "gatewayAddress": address })).await;
}

/// What `check` says of the addresses of gateways: result and error.
fn used(plane: &ControlPlane) -> (Value, String) {
    let found = checked(plane, "addresses of gateways are used");
    let error = found["error"].as_str().unwrap_or_default().to_owned();
    (found["result"].clone(), error)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_in_this_cluster_or_outside_of_its_networks_is_not_used() {
    let (east, west) = hub().await.pair();
    namespace("inside", &[east, west]).await;
    export(east, "inside", &web("web", "inside")).await;
    apply(west, &objects(east, "inside", &[])).await;
    let has = async |expected: &[&str]| {
        slices_that(west, "inside", "web-inside", |s| addresses(s) == expected).await;
    };
    let says = async |reason: &str, text: &str| {
        condition_says(west, "inside", REFUSED, ("True", reason), text).await;
    };
    has(&["192.0.2.10"]).await;
    let made = service(west, "inside", "web-inside", |_| true).await;
    let is_free = |status: &linkerd_mc::api::link::LinkStatus| {
        crate::links::condition(status, REFUSED).is_none()
    };

    // Some are refused: the others are used.
    let some = "127.0.0.1,::ffff:169.254.169.254,192.0.2.11";
    moved(west, "inside", some).await;
    has(&["192.0.2.11"]).await;
    let text = "127.0.0.1 is a loopback address; 169.254.169.254 is a link-local address";
    says("SomeRefused", text).await;
    let shown = status_that(west, "inside", |status| {
        let gateway = status.gateway.as_ref();
        gateway.is_some_and(|gateway| gateway.addresses == ["192.0.2.11"])
    });
    assert_eq!(shown.await.unhealthy, Some(0));
    assert!(used(west).1.contains(text));
    in_step(west, "inside", &[]).await;

    // All are: what a name resolves to, the API server, and the Service range.
    let kubernetes = services(west, "default").get("kubernetes").await.unwrap();
    let own = cluster_ip(&kubernetes).to_owned();
    let mirror = cluster_ip(&made).to_owned();
    for (address, why) in [
        ("localhost".to_owned(), "is a loopback address".to_owned()),
        (own.clone(), format!("{own} is this cluster's API server")),
        (
            mirror.clone(),
            format!("{mirror} is in this cluster's Service range"),
        ),
    ] {
        moved(west, "inside", &address).await;
        says("AllRefused", &why).await;
        has(&[]).await;
        // A name is looked up first; until then no address is known.
        status_that(west, "inside", |status| {
            let told = crate::links::said(&status.mirror_services, "inside", "web");
            told.is_some_and(|told| {
                let begin = "Failed to get gateway address: ";
                let is_whole = told.message.starts_with(begin) && told.message.contains(&why);
                told.reason == "Error" && is_whole
            })
        })
        .await;
        in_step(west, "inside", &[]).await;
        // And again.
        moved(west, "inside", "192.0.2.10").await;
        has(&["192.0.2.10"]).await;
        status_that(west, "inside", is_free).await;
    }

    // A Link may allow less.
    allow(west, "inside", Some("198.51.100.0/24")).await;
    has(&[]).await;
    assert!(
        slices_of(west, "default", "probe-inside")
            .await
            .unwrap()
            .is_empty()
    );
    let why = "192.0.2.10 is in none of the networks that the Link allows";
    says("AllRefused", why).await;
    let (result, error) = used(west);
    assert_eq!(result, "error");
    assert!(
        error.contains(&format!(
            "inside: no address of the gateway is used: {why}; "
        )),
        "{error}"
    );
    let status = run(west.kubeconfig(), &["status"]).data();
    assert!(status.contains(why), "{status}");
    let plan = run(west.kubeconfig(), &["plan", "--link=inside", "-o=json"]);
    assert_eq!(plan.code, 0, "{}", plan.stdout);
    assert!(plan.stdout.contains(why), "{}", plan.stdout);

    // Or more, where it says so.
    allow(west, "inside", Some("198.51.100.0/24, 192.0.2.0/24")).await;
    has(&["192.0.2.10"]).await;
    status_that(west, "inside", is_free).await;
    allow(west, "inside", Some(&mirror)).await;
    moved(west, "inside", &mirror).await;
    has(&[&mirror]).await;

    // What cannot be read changes nothing.
    allow(west, "inside", Some("east")).await;
    let told = condition_says(
        west,
        "inside",
        "Ready",
        ("False", "InvalidLink"),
        l::GATEWAY_NETWORKS,
    );
    told.await;
    has(&[&mirror]).await;

    // The ClusterIP was the same all the time.
    let still = services(west, "inside").get("web-inside").await.unwrap();
    assert_eq!(cluster_ip(&still), mirror);
    allow(west, "inside", None).await;
    eventually("the slices to go", SOON, async || {
        let left = slices_of(west, "inside", "web-inside").await?;
        Ok(left.is_empty().then_some(()))
    })
    .await
    .unwrap();
    unlink(west, "inside").await;
    gone(west, "inside", "web-inside").await;
}

#[test]
fn link_gen_writes_what_a_link_allows_and_refuses_what_is_no_network() {
    let nowhere = std::path::Path::new("/nonexistent");
    for (networks, error) in [
        (
            "10.0.0.1/8",
            "10.0.0.1/8 is not the first address of its network, which is 10.0.0.0/8",
        ),
        (
            "east",
            "\"east\" is neither an address nor a network such as 192.0.2.0/24",
        ),
    ] {
        let flag = format!("--gateway-networks=192.0.2.0/24,{networks}");
        let outcome = run(nowhere, &["link-gen", "--cluster-name=east", &flag]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn link_gen_says_which_addresses_are_not_used() {
    let (east, _) = hub().await.pair();
    let link_gen = |flags: &[&str]| {
        let address = format!("--api-server-address={}", east.url());
        let own = ["link-gen", "--cluster-name=east", &address];
        run(east.kubeconfig(), &[&own[..], flags].concat())
    };
    let told = "the controller does not use these addresses of the gateway: ";
    let usual = link_gen(&[]);
    assert!(!usual.stderr.contains(told), "{}", usual.stderr);
    let loopback = link_gen(&["--gateway-addresses=127.0.0.1,192.0.2.1"]);
    let all = format!("{told}127.0.0.1 is a loopback address; --gateway-addresses gives others");
    assert!(loopback.stderr.contains(&all), "{}", loopback.stderr);
    let allowed = link_gen(&[
        "--gateway-addresses=127.0.0.1",
        "--gateway-networks=127.0.0.1,192.0.2.0/24",
    ]);
    assert!(!allowed.stderr.contains(told), "{}", allowed.stderr);
    let annotation = "multicluster.linkerd.io/gateway-networks: 127.0.0.1/32,192.0.2.0/24\n";
    assert!(allowed.stdout.contains(annotation), "{}", allowed.stdout);
    let elsewhere = link_gen(&["--gateway-networks=198.51.100.0/24"]);
    let why = "192.0.2.10 is in none of the networks that the Link allows";
    assert!(elsewhere.stderr.contains(why), "{}", elsewhere.stderr);
}
