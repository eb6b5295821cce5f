//! Gateway addresses that the controller refuses: those in the source cluster itself, and those outside of the networks
//! that a Link allows.

use control_plane::{ControlPlane, eventually};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    installation::NAMESPACE,
    links::{
        annotate, checked, condition, condition_says, edit, in_step, objects, said, status_that,
        unlink,
    },
    objects::{
        addresses, apply, cluster_ip, export, gone, namespace, service, services, slices_of,
        slices_that, web,
    },
    planes::hub,
    program::run,
    versions::{SERVICE_RANGES, has_version},
};

const REFUSED: &str = "GatewayAddressRefused";

/// Namespace, Link and cluster of the mirror whose gateway address changes.
const INSIDE: &str = "inside";

/// Sets the networks that the Link allows; null removes them.
async fn allow(west: &ControlPlane, networks: Value) {
    annotate(west, INSIDE, json!({ l::GATEWAY_NETWORKS: networks })).await;
}

/// Gives the Link's gateway this address.
async fn move_to(west: &ControlPlane, address: &str) {
    edit(west, INSIDE, json!({ "gatewayAddress": address })).await;
}

/// Waits until the endpoints of the mirror have these addresses.
async fn has(west: &ControlPlane, expected: &[&str]) {
    slices_that(west, INSIDE, "web-inside", |s| addresses(s) == expected).await;
}

/// Waits until the Link says that addresses are refused.
async fn refuses(west: &ControlPlane, reason: &str, text: &str) {
    condition_says(west, INSIDE, REFUSED, ("True", reason), text).await;
}

/// Waits until the Link reports no refused addresses.
async fn refuses_none(west: &ControlPlane) {
    status_that(west, INSIDE, |now| condition(now, REFUSED).is_none()).await;
}

/// Result and error of the `check` that gateway addresses are accepted.
fn used(plane: &ControlPlane) -> (Value, String) {
    let found = checked(plane, "gateway addresses are accepted");
    let error = found["error"].as_str().unwrap_or_default().to_owned();
    (found["result"].clone(), error)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn gateway_addresses_in_this_cluster_or_outside_allowed_networks_are_refused() {
    let (east, west) = hub().await.pair();
    namespace(INSIDE, &[east, west]).await;
    export(east, INSIDE, &web("web", INSIDE)).await;
    apply(west, &objects(east, INSIDE, &[])).await;
    has(west, &["192.0.2.10"]).await;
    let mirror = service(west, INSIDE, "web-inside", |_| true).await;
    let mirror = cluster_ip(&mirror);

    addresses_that_are_not_refused_are_used(west).await;
    let checked = "gateway addresses in the Service range are refused";
    let is_range_read = has_version(west, SERVICE_RANGES, checked).await;
    addresses_of_this_cluster_are_refused(west, mirror, is_range_read).await;
    addresses_outside_allowed_networks_are_refused(west).await;
    allowed_networks_may_be_in_this_cluster(west, mirror).await;
    unreadable_networks_change_nothing(west, mirror).await;

    let still = services(west, INSIDE).get("web-inside").await.unwrap();
    assert_eq!(cluster_ip(&still), mirror);
    allow(west, Value::Null).await;
    if is_range_read {
        eventually("the slices to go", SOON, async || {
            let left = slices_of(west, INSIDE, "web-inside").await?;
            Ok(left.is_empty().then_some(()))
        })
        .await
        .unwrap();
    } else {
        has(west, &[mirror]).await;
    }
    unlink(west, INSIDE).await;
    gone(west, INSIDE, "web-inside").await;
}

async fn addresses_that_are_not_refused_are_used(west: &ControlPlane) {
    move_to(west, "127.0.0.1,::ffff:169.254.169.254,192.0.2.11").await;
    has(west, &["192.0.2.11"]).await;
    let text = "127.0.0.1 is a loopback address; 169.254.169.254 is a link-local address";
    refuses(west, "SomeRefused", text).await;
    let shown = status_that(west, INSIDE, |status| {
        let gateway = status.gateway.as_ref();
        gateway.is_some_and(|gateway| gateway.addresses == ["192.0.2.11"])
    });
    assert_eq!(shown.await.unhealthy, Some(0));
    assert!(used(west).1.contains(text));
    in_step(west, INSIDE, &[]).await;
}

/// Tries a host name, the API server, and the Service range. Sets a valid address after each.
async fn addresses_of_this_cluster_are_refused(
    west: &ControlPlane,
    mirror: &str,
    is_range_read: bool,
) {
    let kubernetes = services(west, "default").get("kubernetes").await.unwrap();
    let own = cluster_ip(&kubernetes);
    let mut refused = vec![
        ("localhost", "is a loopback address".to_owned()),
        (own, format!("{own} is this cluster's API server")),
    ];
    if is_range_read {
        let why = format!("{mirror} is in this cluster's Service range");
        refused.push((mirror, why));
    }
    for (address, why) in refused {
        move_to(west, address).await;
        refuses(west, "AllRefused", &why).await;
        has(west, &[]).await;
        // The controller has to look up a host name first. Until then it reports that it knows no address.
        status_that(west, INSIDE, |status| {
            let told = said(&status.mirror_services, INSIDE, "web");
            told.is_some_and(|told| {
                let begin = "Failed to get gateway address: ";
                let is_whole = told.message.starts_with(begin) && told.message.contains(&why);
                told.reason == "Error" && is_whole
            })
        })
        .await;
        in_step(west, INSIDE, &[]).await;
        move_to(west, "192.0.2.10").await;
        has(west, &["192.0.2.10"]).await;
        refuses_none(west).await;
    }
}

async fn addresses_outside_allowed_networks_are_refused(west: &ControlPlane) {
    allow(west, json!("198.51.100.0/24")).await;
    has(west, &[]).await;
    assert!(
        slices_of(west, NAMESPACE, "probe-inside")
            .await
            .unwrap()
            .is_empty()
    );
    let why = "192.0.2.10 is not in a network that the Link allows";
    refuses(west, "AllRefused", why).await;
    let (result, error) = used(west);
    assert_eq!(result, "error");
    let told = format!("inside: all gateway addresses are refused: {why}; ");
    assert!(error.contains(&told), "{error}");
    let status = run(west.kubeconfig(), &["status"]).data();
    assert!(status.contains(why), "{status}");
    let plan = run(west.kubeconfig(), &["plan", "inside", "-o=json"]);
    assert_eq!(plan.code, 0, "{}", plan.stdout);
    assert!(plan.stdout.contains(why), "{}", plan.stdout);
}

async fn allowed_networks_may_be_in_this_cluster(west: &ControlPlane, mirror: &str) {
    allow(west, json!("198.51.100.0/24, 192.0.2.0/24")).await;
    has(west, &["192.0.2.10"]).await;
    refuses_none(west).await;
    allow(west, json!(mirror)).await;
    move_to(west, mirror).await;
    has(west, &[mirror]).await;
}

async fn unreadable_networks_change_nothing(west: &ControlPlane, mirror: &str) {
    allow(west, json!("east")).await;
    let invalid = ("False", "InvalidLink");
    condition_says(west, INSIDE, "Ready", invalid, l::GATEWAY_NETWORKS).await;
    has(west, &[mirror]).await;
}

#[test]
fn link_gen_refuses_invalid_gateway_networks() {
    let nowhere = std::path::Path::new("/nonexistent");
    for (networks, error) in [
        (
            "10.0.0.1/8",
            "network 10.0.0.1/8 has host bits set (use 10.0.0.0/8)",
        ),
        (
            "east",
            "invalid network \"east\" (use an address, or a network such as 192.0.2.0/24)",
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
    let told = "the controller refuses these gateway addresses: ";
    let usual = link_gen(&[]);
    assert!(!usual.stderr.contains(told), "{}", usual.stderr);
    let loopback = link_gen(&["--gateway-addresses=127.0.0.1,192.0.2.1"]);
    let all =
        format!("{told}127.0.0.1 is a loopback address; pass others with --gateway-addresses");
    assert!(loopback.stderr.contains(&all), "{}", loopback.stderr);
    let allowed = link_gen(&[
        "--gateway-addresses=127.0.0.1",
        "--gateway-networks=127.0.0.1,192.0.2.0/24",
    ]);
    assert!(!allowed.stderr.contains(told), "{}", allowed.stderr);
    let annotation = "multicluster.linkerd.io/gateway-networks: 127.0.0.1/32,192.0.2.0/24\n";
    assert!(allowed.stdout.contains(annotation), "{}", allowed.stdout);
    let elsewhere = link_gen(&["--gateway-networks=198.51.100.0/24"]);
    let why = "192.0.2.10 is not in a network that the Link allows";
    assert!(elsewhere.stderr.contains(why), "{}", elsewhere.stderr);
}
