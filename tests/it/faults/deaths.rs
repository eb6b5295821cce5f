//! Either API server dies for a while.

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::HEALED;
use crate::support::{
    audit::{mark, said_in, writes_in},
    controller::Controller,
    gateways::Gateways,
    links::{in_step, is_lost, is_well, own_link, unlink},
    objects::{
        addresses, cluster_ips, export, gone, has_members, hosts, member, namespace, patch, ports,
        service, slices_that, stateful, web,
    },
    planes::alone,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn mirrors_survive_the_death_of_either_api_server() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("deaths", &[source, far]).await;
    own_link(source, far, "dies", &["--enable-headless-services"]).await;
    export(far, "deaths", &web("web", "dies")).await;
    stateful(far, "deaths", "db", "dies").await;
    hosts(far, "deaths", "db", &[("db-0", true)]).await;
    for place in [source, far] {
        export(place, "deaths", &member("member", "dies", "no")).await;
    }
    // This gateway always answers. If its state changed, the controller would write slices.
    let gateways = Gateways::start().address();
    let flag = "--federated-service-selector=mirror.linkerd.io/federated=dies";
    let flags = [flag, "--probe-address", &gateways];
    let mut controller = Controller::start(source, &flags);
    is_well(source, "dies").await;
    service(source, "deaths", "db-0-dies", |_| true).await;
    let members = |s: &Service| has_members(s, Some("member@dies"), Some("member"));
    service(source, "deaths", "member-federated", members).await;
    let before = cluster_ips(source, "deaths").await;

    let since = mark(source);
    far.kill_api_server().unwrap();
    is_lost(source, "dies").await;
    // The federated Service still follows its local member.
    let port = json!({ "spec": { "ports": [{ "name": "http", "port": 8081 }] } });
    patch(source, "deaths", "member", port).await;
    let federated = service(source, "deaths", "member-federated", |s| {
        ports(s) == [("http", 8081)]
    })
    .await;
    assert!(members(&federated));
    // A controller that starts now follows it too, and deletes nothing either.
    controller.kill();
    let _controller = Controller::start(source, &flags);
    let port = json!({ "spec": { "ports": [{ "name": "http", "port": 8082 }] } });
    patch(source, "deaths", "member", port).await;
    service(source, "deaths", "member-federated", |s| {
        ports(s) == [("http", 8082)]
    })
    .await;
    let healed = Instant::now();
    far.restart_api_server().await.unwrap();
    is_well(source, "dies").await;
    eprintln!(
        "the target's API server: right again {:?} after its start began",
        healed.elapsed()
    );
    assert_eq!(
        said_in(source, "deaths", since),
        ["patch member-federated"; 2]
    );

    let since = mark(source);
    source.kill_api_server().unwrap();
    export(far, "deaths", &web("meanwhile", "dies")).await;
    hosts(far, "deaths", "db", &[("db-0", true), ("db-1", true)]).await;
    source.restart_api_server().await.unwrap();
    let healed = Instant::now();
    for name in ["meanwhile-dies", "db-1-dies"] {
        slices_that(source, "deaths", name, |s| addresses(s) == ["192.0.2.50"]).await;
    }
    let took = healed.elapsed();
    eprintln!("the local API server: right again after {took:?}");
    assert!(took < HEALED, "{took:?}");
    // Slices are left out, because the controller also writes them when the state of the gateway changes.
    let mut done = writes_in(source, "deaths", since);
    done.retain(|write| write.resource == "services" && write.verb != "create");
    assert_eq!(done, []);
    let after = cluster_ips(source, "deaths").await;
    for (name, ip) in &before {
        assert_eq!(after.get(name), Some(ip), "{name}");
    }
    in_step(source, "dies", &[flag]).await;
    unlink(source, "dies").await;
    gone(source, "deaths", "web-dies").await;
}
