//! A source cluster whose Service range is so full that no more mirrors fit: mirrors leave a quarter of it free. Work
//! that needs no ClusterIP continues. Services that need one wait, and the controller makes hardly any attempts for
//! them. It mirrors them soon after ClusterIPs become free.

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, eventually};
use futures::{StreamExt as _, stream};
use kube::api::{ListParams, PostParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    installation::{CONTROLLER, install},
    links::{condition, condition_is, mirror_is, own_link, status_that, unlink},
    objects::{
        apply, delete, export, namespace, patch, ports, relabel, service, services, stateful, web,
    },
    planes::alone,
    versions::{SERVICE_RANGES, has_version},
};

/// The condition that says that no ClusterIP is left.
const EXHAUSTED: &str = "ClusterIPsExhausted";
/// Number of exported Services.
const SERVICES: usize = 200;
/// How long this test observes the controller. Tests in `controller::virtual_time` do so for hours.
const OBSERVED: Duration = Duration::from_secs(5);

/// Number of requests of the controller to write Services or EndpointSlices, since this mark of the audit log.
fn tries(source: &ControlPlane, since: u64) -> usize {
    let audit = source.audit_since(since).unwrap();
    let is_try = |event: &&control_plane::AuditEvent| {
        event.user == CONTROLLER
            && ["services", "endpointslices"].contains(&event.resource.as_str())
            && matches!(event.verb.as_str(), "create" | "patch" | "delete")
    };
    audit.iter().filter(is_try).count()
}

/// Name of the target cluster, of its Link, and of the namespace of the exported Services.
const FEW: &str = "few";

/// Name of an exported Service.
fn name(number: usize) -> String {
    format!("web-{number}")
}

/// Converts the name of an exported Service to that of its mirror. `exported` does the opposite.
fn mirror(exported: &str) -> String {
    format!("{exported}-{FEW}")
}
fn exported(mirror: &str) -> &str {
    mirror.strip_suffix("-few").unwrap()
}

/// A source cluster with this range of `ClusterIP`s.
async fn with_range(range: &'static str) -> ControlPlane {
    let source = ControlPlane::start_with_few_cluster_ips(FEW, range);
    let source = source.await.unwrap();
    install(&source, "192.0.2.80").await;
    source
}

/// Exports this number of Services in a namespace of both clusters.
async fn export_many(source: &ControlPlane, far: &ControlPlane, name_space: &str, number: usize) {
    namespace(name_space, &[source, far]).await;
    let api = services(far, name_space);
    stream::iter(0..number)
        .for_each_concurrent(16, async |number| {
            let made = web(&name(number), FEW);
            api.create(&PostParams::default(), &made).await.unwrap();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn services_wait_while_no_cluster_ip_is_left_and_are_mirrored_when_some_are_free() {
    let pair = alone().await;
    let far = &pair.far;
    let source = with_range("10.96.0.0/28").await;
    export_many(&source, far, FEW, SERVICES).await;
    own_link(&source, far, FEW, &["--enable-headless-services"]).await;
    let controller = Controller::start(&source, &[]);

    let mirrored = wait_until_the_range_is_full(&source).await;
    others_wait_in_quiet(&source, &controller, SERVICES - mirrored).await;
    a_quarter_is_free_and_one_exhausted_address_family_gives_the_same_error(&source).await;
    let api = services(&source, FEW);
    let ours = ListParams::default().labels(&format!("{}={FEW}", l::CLUSTER_NAME));
    let standing = api.list(&ours).await.unwrap().items;
    let standing: Vec<String> = standing
        .into_iter()
        .filter_map(|s| s.metadata.name)
        .collect();
    let mut waiting: Vec<String> = (0..SERVICES).map(name).collect();
    waiting.retain(|name| !standing.contains(&mirror(name)));
    work_that_needs_no_cluster_ip_continues(&source, far, &standing[0]).await;
    mirror_is(&source, FEW, FEW, &waiting[0], "NoClusterIP").await;
    freed_cluster_ips_are_used(&source, far, &standing, &waiting).await;

    condition_is(&source, FEW, "Ready", "True", "Mirroring").await;
    unlink(&source, FEW).await;
    eventually("no mirrors", SOON, async || {
        Ok(api.list(&ours).await?.items.is_empty().then_some(()))
    })
    .await
    .unwrap();
}

/// Refuses all Services in this namespace, and waits until this is in effect.
async fn refuse_services(plane: &ControlPlane, namespace: &str) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "no-services" },
        "spec": {
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"],
                    "operations": ["CREATE"],
                }],
            },
            "validations": [{ "expression": "false", "message": "no Services here" }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "no-services" },
        "spec": { "policyName": "no-services", "validationActions": ["Deny"] },
    });
    apply(plane, &[policy, binding]).await;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = services(plane, namespace);
    eventually("a refusal", SOON, async || {
        let made = api.create(&dry_run, &web("tried", "no")).await;
        Ok(made.is_err().then_some(()))
    })
    .await
    .unwrap();
}

/// Number of Services that are refused: more than there are `ClusterIP`s.
const REFUSED: usize = 300;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn refused_services_take_no_cluster_ips_from_others() {
    let pair = alone().await;
    let far = &pair.far;
    let source = with_range("10.96.0.0/24").await;
    export_many(&source, far, "bulk", REFUSED).await;
    refuse_services(&source, "bulk").await;
    namespace("shop", &[&source, far]).await;
    own_link(&source, far, FEW, &[]).await;
    let _controller = Controller::start(&source, &[]);
    let refused = i64::try_from(REFUSED).ok();
    status_that(&source, FEW, |status| status.unhealthy == refused).await;
    // Also when the number of free addresses was read once more.
    for number in 0..8 {
        let began = Instant::now();
        export(far, "shop", &web(&name(number), FEW)).await;
        service(&source, "shop", &mirror(&name(number)), |_| true).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{number}: {took:?}");
        tokio::time::sleep(OBSERVED).await;
        tokio::time::sleep(OBSERVED).await;
        let status = status_that(&source, FEW, |_| true).await;
        assert!(condition(&status, EXHAUSTED).is_none(), "{status:?}");
    }
    let said = mirror_is(&source, FEW, "bulk", &name(7), "Error").await;
    assert!(said.message.contains("no Services here"), "{said:?}");
}

/// Waits until the Link reports that no ClusterIP is left. Returns how many Services are mirrored.
async fn wait_until_the_range_is_full(source: &ControlPlane) -> usize {
    let all = i64::try_from(SERVICES).unwrap();
    let status = status_that(source, FEW, |status| {
        condition(status, EXHAUSTED).is_some_and(|c| c.status == "True")
            && condition(status, "Ready").is_some_and(|c| c.status == "True")
            && status
                .mirrored
                .zip(status.unhealthy)
                .is_some_and(|(a, b)| a + b == all)
    })
    .await;
    let mirrored = usize::try_from(status.mirrored.unwrap()).unwrap();
    assert!((5..14).contains(&mirrored), "{mirrored}");
    let said = condition(&status, EXHAUSTED).unwrap();
    let waiting = SERVICES - mirrored;
    assert!(
        said.message.contains(&format!(": {waiting};")),
        "{}",
        said.message
    );
    mirrored
}

async fn others_wait_in_quiet(source: &ControlPlane, controller: &Controller, waiting: usize) {
    let mark = source.audit_mark().unwrap();
    tokio::time::sleep(OBSERVED).await;
    let tries = tries(source, mark);
    eprintln!("{tries} tries to write in {OBSERVED:?} while {waiting} Services wait");
    assert!(tries < 5, "{tries}");
    let log = controller.log();
    assert!(log.matches("mirrors are waiting").count() < 60, "{log}");
}

/// Services that are no mirrors can use the quarter that mirrors leave free. Kubernetes returns the same error if only
/// one of two address families has no address left.
async fn a_quarter_is_free_and_one_exhausted_address_family_gives_the_same_error(
    source: &ControlPlane,
) {
    let api = services(source, FEW);
    let mut made = Vec::new();
    let refused = loop {
        let name = format!("dual-{}", made.len());
        let mut dual = serde_json::to_value(web(&name, "no")).unwrap();
        dual["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
        let dual = serde_json::from_value(dual).unwrap();
        match api.create(&PostParams::default(), &dual).await {
            Ok(_) => made.push(name),
            Err(kube::Error::Api(refused)) => break refused,
            Err(error) => panic!("{error}"),
        }
    };
    let checked = "a quarter of the ClusterIPs stays free";
    if has_version(source, SERVICE_RANGES, checked).await {
        assert!((3..=4).contains(&made.len()), "{made:?}");
    }
    for name in made {
        delete(source, FEW, &name).await;
    }
    let says = |words| refused.message.contains(words);
    assert!(
        refused.code == 500 && says("allocate a serviceIP") && says("range is full"),
        "{refused:?}"
    );
}

/// Updates and headless Services need no ClusterIP.
async fn work_that_needs_no_cluster_ip_continues(
    source: &ControlPlane,
    far: &ControlPlane,
    standing: &str,
) {
    let changed = json!({ "spec": { "ports": [{ "name": "http", "port": 8181 }] } });
    patch(far, FEW, exported(standing), changed).await;
    service(source, FEW, standing, |s| ports(s) == [("http", 8181)]).await;
    stateful(far, FEW, "headless", FEW).await;
    service(source, FEW, "headless-few", |_| true).await;
}

/// Removes the label for export from all Services that have a mirror. Of the waiting Services, keeps as many as have
/// room then, and deletes the others.
async fn freed_cluster_ips_are_used(
    source: &ControlPlane,
    far: &ControlPlane,
    standing: &[String],
    waiting: &[String],
) {
    let (next, rest) = waiting.split_at(standing.len());
    for name in rest {
        delete(far, FEW, name).await;
    }
    let freed = Instant::now();
    for name in standing {
        relabel(far, FEW, exported(name), None).await;
    }
    for name in next {
        service(source, FEW, &mirror(name), |_| true).await;
    }
    let (count, took) = (next.len(), freed.elapsed());
    eprintln!("{count} have theirs {took:?} after as many were given back");
    assert!(took < Duration::from_secs(20), "{took:?}");
    status_that(source, FEW, |s| condition(s, EXHAUSTED).is_none()).await;
}
