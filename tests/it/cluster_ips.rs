//! A source cluster whose Service range is full: what needs no ClusterIP goes on, what needs one waits in quiet, and has
//! it soon after there is one.

use std::time::Duration;

use control_plane::{ControlPlane, eventually};
use futures::{StreamExt as _, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::{
    fleet::{CONTROLLER, Controller, SOON, install, namespace},
    hub::alone,
    links::{condition, condition_is, mirror_is, own_link, status_that, unlink},
    objects::{patch, ports, relabel, service, services, web},
};

/// Services that are exported.
const SERVICES: usize = 200;
/// How long it is looked at.
const OBSERVED: Duration = Duration::from_secs(20);

/// Requests of the controller that would write Services or EndpointSlices, since then.
fn tries(source: &ControlPlane, since: u64) -> usize {
    let audit = source.audit_since(since).unwrap();
    let is_try = |event: &&control_plane::AuditEvent| {
        event.user == CONTROLLER
            && ["services", "endpointslices"].contains(&event.resource.as_str())
            && matches!(event.verb.as_str(), "create" | "patch" | "delete")
    };
    audit.iter().filter(is_try).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_wait_in_quiet_while_no_cluster_ip_is_left_and_are_mirrored_soon_after() {
    let pair = alone().await;
    let far = &pair.far;
    let source = ControlPlane::start_with_few_cluster_ips("few")
        .await
        .unwrap();
    install(&source, "192.0.2.80").await;
    namespace("few", &[&source, far]).await;
    let name = |number: usize| format!("web-{number}");
    let api = services(far, "few");
    stream::iter(0..SERVICES)
        .for_each_concurrent(16, async |number| {
            let made = web(&name(number), "few");
            api.create(&PostParams::default(), &made).await.unwrap();
        })
        .await;
    own_link(&source, far, "few", &["--enable-headless-services"]).await;
    let controller = Controller::start(&source, &[]);
    let all = i64::try_from(SERVICES).unwrap();
    let status = status_that(&source, "few", |status| {
        condition(status, "ClusterIPsExhausted").is_some_and(|c| c.status == "True")
            && condition(status, "Ready").is_some_and(|c| c.status == "True")
            && status
                .mirrored
                .zip(status.unhealthy)
                .is_some_and(|(a, b)| a + b == all)
    })
    .await;
    let mirrored = usize::try_from(status.mirrored.unwrap()).unwrap();
    assert!((5..14).contains(&mirrored), "{mirrored}");
    let said = condition(&status, "ClusterIPsExhausted").unwrap();
    let waiting = SERVICES - mirrored;
    assert!(
        said.message.contains(&format!(": {waiting};")),
        "{}",
        said.message
    );

    let mark = source.audit_mark().unwrap();
    tokio::time::sleep(OBSERVED).await;
    let tries = tries(&source, mark);
    eprintln!("{tries} tries to write in {OBSERVED:?} while {waiting} Services wait");
    assert!(tries < 5, "{tries}");
    let log = controller.log();
    assert!(
        log.matches("no ClusterIP is left in the Service range")
            .count()
            < 60,
        "{log}"
    );

    // It says the same where only one family of addresses has none left.
    let mut dual = serde_json::to_value(web("dual", "no")).unwrap();
    dual["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    let dual = serde_json::from_value(dual).unwrap();
    let refused = services(&source, "few")
        .create(&PostParams::default(), &dual)
        .await;
    let Err(kube::Error::Api(refused)) = refused else {
        panic!("{refused:?}")
    };
    let says = |words| refused.message.contains(words);
    assert!(
        refused.code == 500 && says("allocate a serviceIP") && says("range is full"),
        "{refused:?}"
    );

    // Updates and headless Services need none.
    let api = services(&source, "few");
    let ours = ListParams::default().labels(&format!("{}=few", l::CLUSTER_NAME));
    let standing = api.list(&ours).await.unwrap().items;
    let standing: Vec<String> = standing
        .into_iter()
        .filter_map(|s| s.metadata.name)
        .collect();
    let exported = |mirror: &String| mirror.strip_suffix("-few").unwrap().to_owned();
    let changed = json!({ "spec": { "ports": [{ "name": "http", "port": 8181 }] } });
    patch(far, "few", &exported(&standing[0]), changed).await;
    service(&source, "few", &standing[0], |s| {
        ports(s) == [("http", 8181)]
    })
    .await;
    let mut headless = web("headless", "few");
    headless.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    services(far, "few")
        .create(&PostParams::default(), &headless)
        .await
        .unwrap();
    service(&source, "few", "headless-few", |_| true).await;
    let left = (0..SERVICES)
        .map(name)
        .find(|name| !standing.contains(&format!("{name}-few")));
    mirror_is(&source, "few", "few", &left.unwrap(), "NoClusterIP").await;

    // As many are withdrawn as stand; of those that wait so many are left that all of them find room.
    let mut waiting: Vec<String> = (0..SERVICES).map(name).collect();
    waiting.retain(|name| !standing.contains(&format!("{name}-few")));
    for gone in &waiting[mirrored..] {
        services(far, "few")
            .delete(gone, &DeleteParams::default())
            .await
            .unwrap();
    }
    let freed = std::time::Instant::now();
    for gone in &standing {
        relabel(far, "few", &exported(gone), None).await;
    }
    for name in &waiting[..mirrored] {
        service(&source, "few", &format!("{name}-few"), |_| true).await;
    }
    let took = freed.elapsed();
    eprintln!("{mirrored} have theirs {took:?} after as many were given back");
    assert!(took < Duration::from_secs(20), "{took:?}");
    status_that(&source, "few", |s| {
        condition(s, "ClusterIPsExhausted").is_none()
    })
    .await;
    condition_is(&source, "few", "Ready", "True", "Mirroring").await;
    unlink(&source, "few").await;
    eventually("no mirrors", SOON, async || {
        Ok(api.list(&ours).await?.items.is_empty().then_some(()))
    })
    .await
    .unwrap();
}
