//! Hostile objects of a target cluster affect only its own mirrors, and those of a namespace of the own cluster not the
//! controller.

use std::time::{Duration, Instant};

use control_plane::eventually;
use kube::api::ListParams;
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    gateway_api::permit,
    links::{condition_is, in_step, mirror_is, own_link, unlink},
    objects::{
        annotation, create, export, gone, label, namespace, ports, service, services, slices_that,
        web,
    },
    planes::alone,
    program::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn large_and_misleading_objects_do_no_harm_to_other_mirrors() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("hostile", &[source, far]).await;
    own_link(source, far, "hostile", &["--enable-headless-services"]).await;
    let _controller = Controller::start(source, &[]);

    // Annotations of 200 KiB fit into a mirror. Annotations of nearly the maximum size in Kubernetes do not: the mirror
    // has annotations of the controller, too.
    for (name, size) in [("large", 200 << 10), ("too-large", (256 << 10) - 200)] {
        let mut large = web(name, "hostile");
        let annotations = large.metadata.annotations.get_or_insert_default();
        annotations.insert("large".into(), "x".repeat(size));
        export(far, "hostile", &large).await;
    }
    let mut many: Value = serde_json::to_value(web("many", "hostile")).unwrap();
    let list: Vec<Value> = (0..250)
        .map(|n| json!({ "name": format!("p{n}"), "port": 1000 + n }))
        .collect();
    many["spec"]["ports"] = json!(list);
    export(far, "hostile", &serde_json::from_value(many).unwrap()).await;

    // Services with the labels of mirrors, of the Link's own cluster or of another one, are not mirrored.
    for (name, cluster) in [("liar", "hostile"), ("other-liar", "elsewhere")] {
        let mut liar = web(name, "hostile");
        let labels = liar.metadata.labels.get_or_insert_default();
        labels.insert(l::MIRRORED_SERVICE.into(), "true".into());
        labels.insert(l::CLUSTER_NAME.into(), cluster.into());
        export(far, "hostile", &liar).await;
    }
    // Labels and annotations that would make Linkerd use another Service, turn the mirror into a federated Service or a
    // gateway Service, or make it look up to date.
    let mut pretender = web("pretender", "hostile");
    let labels = pretender.metadata.labels.get_or_insert_default();
    for key in [
        l::CLUSTER_NAME,
        l::REMOTE_DISCOVERY,
        l::REMOTE_SERVICE,
        l::MIRRORED_GATEWAY,
        l::HEADLESS_MIRROR,
        l::FEDERATED,
    ] {
        labels.insert(key.into(), "evil".into());
    }
    let annotations = pretender.metadata.annotations.get_or_insert_default();
    for key in [
        l::REMOTE_DISCOVERY,
        l::LOCAL_DISCOVERY,
        l::MANAGED_BY,
        l::DESIRED_STATE,
        l::COPIED_KEYS,
        l::REMOTE_FQ_NAME,
        l::GATEWAY_IDENTITY,
        l::REMOTE_GATEWAY_IDENTITY,
    ] {
        annotations.insert(key.into(), "evil".into());
    }
    export(far, "hostile", &pretender).await;

    let mirror = service(source, "hostile", "pretender-hostile", |_| true).await;
    assert_eq!(label(&mirror, l::CLUSTER_NAME), Some("hostile"));
    let all = serde_json::to_string(&mirror.metadata).unwrap();
    assert!(!all.contains("evil"), "{all}");
    assert_eq!(annotation(&mirror, l::LOCAL_DISCOVERY), None);
    let slices = slices_that(source, "hostile", "pretender-hostile", |s| !s.is_empty()).await;
    let text = serde_json::to_string(&slices).unwrap();
    assert!(!text.contains("evil"), "{text}");
    service(source, "hostile", "large-hostile", |_| true).await;
    let many = service(source, "hostile", "many-hostile", |_| true).await;
    assert_eq!(ports(&many).len(), 250);
    slices_that(source, "hostile", "many-hostile", |s| {
        s.iter().flat_map(|s| s.ports.iter().flatten()).count() == 250
    })
    .await;
    // The controller does not copy metadata that is too large for a mirror.
    mirror_is(source, "hostile", "hostile", "too-large", "LimitExceeded").await;
    condition_is(source, "hostile", "Ready", "True", "Mirroring").await;
    let liars = services(source, "hostile")
        .list(&ListParams::default())
        .await;
    let names = liars
        .unwrap()
        .items
        .into_iter()
        .filter_map(|s| s.metadata.name);
    assert!(!names.into_iter().any(|name| name.contains("liar")));
    let plan = ["plan", "hostile", "--output", "json"];
    let plan = run(source.kubeconfig(), &plan).stdout;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["changes"], json!([]));
    unlink(source, "hostile").await;
    gone(source, "hostile", "many-hostile").await;
}

/// The controller's memory limit with the default values of the chart, in MiB: see
/// `manifests::install::tests::memory_limit_is_computed_from_max_mib_unless_set`.
const MEMORY: u64 = 512;
/// How long a controller may take from its start to a mirror beside hostile Services. Its program is not optimized.
const BESIDE: Duration = Duration::from_secs(5);

/// A list of short items, as long as annotations may be.
fn long(item: impl Fn(&str) -> String) -> String {
    let mut list = String::new();
    for number in 0_u32.. {
        let item = item(&format!("{number:x}"));
        if list.len() + item.len() > 255 << 10 {
            break;
        }
        list.push_str(&item);
    }
    list.pop();
    list
}

/// People who may create Services in one namespace write what looks like federated Services, with as much in each
/// annotation that is read as it can hold.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn services_of_one_namespace_do_not_end_the_controller() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("crowded", &[source]).await;
    namespace("quiet", &[source, far]).await;
    permit(source, true).await;
    let times = "2026-01-02T03:04:05Z/2026-01-02T03:05:00Z";
    let lists = [
        (l::PREFER, long(|name| format!("{name},"))),
        (l::FAILED_OVER, long(|name| format!("{name}={times},"))),
        (l::REMOTE_DISCOVERY, long(|name| format!("web@{name},"))),
        (l::COPIED_KEYS, long(|name| format!("{name},"))),
    ];
    for number in 0..20 {
        let (key, list) = &lists[number % lists.len()];
        let mut hostile = web(&format!("web{number}-federated"), "no");
        let labels = hostile.metadata.labels.get_or_insert_default();
        labels.insert(l::MIRRORED_SERVICE.into(), "true".into());
        let annotations = hostile.metadata.annotations.get_or_insert_default();
        annotations.insert((*key).into(), list.clone());
        if number % 8 < 4 {
            annotations.insert(l::MANAGED_BY.into(), "linkerd-mc".into());
            annotations.insert(l::INSTALLATION.into(), "linkerd-multicluster".into());
        }
        create(source, "crowded", &hostile).await;
    }
    own_link(source, far, "beside", &[]).await;
    export(far, "quiet", &web("web", "beside")).await;
    let began = Instant::now();
    let controller = Controller::start(source, &["--enable-routes"]);
    service(source, "quiet", "web-beside", |_| true).await;
    let (took, memory) = (began.elapsed(), controller.peak_memory());
    println!("mirrored after {took:?}, at most {memory} MiB");
    assert!(took < BESIDE, "{took:?}");
    assert!(memory < MEMORY, "{memory} MiB");
    unlink(source, "beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_are_linked_both_ways_do_not_mirror_mirrors() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("mutual", &[source, far]).await;
    // Mirrors get a copy of this label. They get no copy of Linkerd's label for export.
    let flags = [
        "--selector=mutual=yes",
        "--federated-service-selector=mutual=yes",
    ];
    own_link(source, far, "there", &flags).await;
    own_link(far, source, "here", &flags).await;
    let exported = |name: &str| {
        let mut exported = web(name, "no");
        let labels = exported.metadata.labels.get_or_insert_default();
        labels.insert("mutual".into(), "yes".into());
        exported
    };
    let flags = ["--federated-service-selector=mutual=yes"];
    let _controllers = [
        Controller::start(source, &flags),
        Controller::start(far, &flags),
    ];
    for plane in [source, far] {
        create(plane, "mutual", &exported("web")).await;
    }
    for (plane, cluster) in [(source, "there"), (far, "here")] {
        let mirror = service(plane, "mutual", &format!("web-{cluster}"), |_| true).await;
        assert_eq!(label(&mirror, "mutual"), Some("yes"));
        let members = format!("web@{cluster}");
        service(plane, "mutual", "web-federated", |s| {
            annotation(s, l::REMOTE_DISCOVERY) == Some(&members)
                && annotation(s, l::LOCAL_DISCOVERY) == Some("web")
        })
        .await;
    }
    // These Services are exported after both mirrors exist. When they are mirrored, the controllers have seen the
    // mirrors and ignored them.
    for (plane, other, cluster) in [(source, far, "here"), (far, source, "there")] {
        let later = format!("later-{cluster}");
        create(plane, "mutual", &exported(&later)).await;
        service(other, "mutual", &format!("{later}-{cluster}"), |_| true).await;
    }
    let expected = |cluster: &str, other: &str| {
        let mut names = vec![
            "web".to_owned(),
            format!("web-{cluster}"),
            "web-federated".to_owned(),
            format!("later-{other}"),
            format!("later-{other}-federated"),
            format!("later-{cluster}-{cluster}"),
            format!("later-{cluster}-federated"),
        ];
        names.sort();
        names
    };
    for (plane, cluster, other) in [(source, "there", "here"), (far, "here", "there")] {
        let names = eventually("all that there should be", SOON, async || {
            let all = services(plane, "mutual")
                .list(&ListParams::default())
                .await?;
            let names = all.items.into_iter().filter_map(|s| s.metadata.name);
            let mut names: Vec<String> = names.collect();
            names.sort();
            Ok((names.len() >= 7).then_some(names))
        });
        assert_eq!(names.await.unwrap(), expected(cluster, other));
    }
    in_step(source, "there", &flags).await;
    unlink(source, "there").await;
    in_step(far, "here", &flags).await;
    unlink(far, "here").await;
    gone(source, "mutual", "web-there").await;
    gone(far, "mutual", "web-here").await;
}
