//! When what is written, by a clock that the tests set.

use mirror_core::mirror::Omitted;

use super::*;

/// What the gateway has before anything is written: all Services of the cluster.
const ALL: &str = "[]";

/// Everything that is known, and the time.
struct Scene {
    forwarding: Forwarding,
    now: Instant,
    version: u32,
}

fn service(id: &str) -> std::sync::Arc<Service> {
    let (namespace, name) = id.split_once('/').unwrap();
    let mut service = Service::default();
    service.metadata.namespace = Some(namespace.into());
    service.metadata.name = Some(name.into());
    service.into()
}

fn list(ids: &[&str]) -> Event<Service> {
    Event::List {
        objects: ids.iter().map(|id| service(id)).collect(),
        omitted: Omitted::default(),
    }
}

fn deployment(annotation: &str, version: u32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "resourceVersion": version.to_string() },
        "spec": { "selector": {}, "template": { "metadata": { "annotations": { ADDITIONAL_ENV: annotation } } } },
    }))
    .unwrap()
}

impl Scene {
    /// Before anything is known.
    fn new() -> Self {
        let now = Instant::now();
        let gateway = ExportGateway {
            namespace: "mc".to_owned(),
            deployment: "gateway".to_owned(),
            domain: "cluster.local".to_owned(),
            linkerd_namespace: "linkerd".to_owned(),
            permits: false,
            protected: ["kube-system".to_owned()].into(),
        };
        Self {
            forwarding: Forwarding::new(gateway, now),
            now,
            version: 0,
        }
    }

    /// With these exports, and a gateway with this annotation.
    fn with(annotation: &str, exported: &[&str]) -> Self {
        let mut scene = Self::new();
        scene.forwarding.on(ExportChange::Exported(list(exported)));
        scene.forwarding.on(ExportChange::Members(list(&[])));
        scene.annotated(annotation);
        scene
    }

    fn annotated(&mut self, annotation: &str) {
        self.version += 1;
        let found = deployment(annotation, self.version);
        self.forwarding
            .on(ExportChange::Gateway(Event::Apply(found.into())));
    }

    fn export(&mut self, id: &str) {
        self.forwarding
            .on(ExportChange::Exported(Event::Apply(service(id))));
    }

    fn withdraw(&mut self, id: &str) {
        self.forwarding
            .on(ExportChange::Exported(Event::Delete(service(id))));
    }

    /// What is written within a time, each with the seconds that it took: the API server answers at once.
    fn within(&mut self, time: Duration) -> Vec<(u64, String)> {
        let (began, end) = (self.now, self.now + time);
        let mut written = Vec::new();
        loop {
            match self.forwarding.next(self.now) {
                Next::At(at) if at <= end => self.now = at,
                Next::Write(patch) => {
                    assert_eq!(
                        patch["metadata"]["resourceVersion"],
                        self.version.to_string()
                    );
                    let annotations = &patch["spec"]["template"]["metadata"]["annotations"];
                    let annotation = annotations[ADDITIONAL_ENV].as_str().unwrap().to_owned();
                    self.annotated(&annotation);
                    let suffixes = GatewaySuffixes::of_annotation(&annotation).unwrap();
                    written.push(((self.now - began).as_secs(), suffixes.to_string()));
                }
                _ => {
                    self.now = end;
                    return written;
                }
            }
        }
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const SHOP: &str = "shop.svc.cluster.local.";

fn of(suffixes: &[&str]) -> String {
    GatewaySuffixes(suffixes.iter().map(|text| (*text).to_owned()).collect()).to_annotation()
}

#[test]
fn nothing_is_concluded_before_all_lists() {
    let mut scene = Scene::new();
    scene.annotated(ALL);
    scene
        .forwarding
        .on(ExportChange::Exported(list(&["shop/web"])));
    assert_eq!(scene.forwarding.next(scene.now), Next::Rest);
    scene
        .forwarding
        .on(ExportChange::Members(list(&["team/api"])));
    let both = format!("{SHOP},team.svc.cluster.local.");
    assert_eq!(scene.within(KEEP * 2), [(0, both)]);
}

#[test]
fn gateway_that_forwards_to_all_is_limited_at_once_also_without_exports() {
    for annotation in [
        ALL,
        "",
        &of(&["svc.cluster.local."]),
        &of(&["default.svc.cluster.local."]),
    ] {
        let mut scene = Scene::with(annotation, &[]);
        assert_eq!(scene.within(KEEP * 2), [(0, String::new())], "{annotation}");
    }
}

#[test]
fn nothing_is_written_at_rest_nor_for_further_exports_in_a_namespace() {
    let mut scene = Scene::with(&of(&[SHOP]), &["shop/web"]);
    assert_eq!(scene.within(KEEP * 24), []);
    scene.export("shop/api");
    scene.withdraw("shop/web");
    assert_eq!(scene.within(KEEP * 24), []);
    assert_eq!(Scene::with(&of(&[]), &[]).within(KEEP * 24), []);
}

#[test]
fn new_namespaces_are_collected_and_then_wait_for_the_rollout() {
    let mut scene = Scene::with(&of(&[]), &[]);
    scene.export("shop/web");
    assert_eq!(scene.within(seconds(4)), []);
    scene.export("team/web");
    let both = format!("{SHOP},team.svc.cluster.local.");
    assert_eq!(scene.within(seconds(2)), [(1, both.clone())]);
    scene.export("more/web");
    assert_eq!(
        scene.within(seconds(60)),
        [(29, format!("more.svc.cluster.local.,{both}"))]
    );
}

#[test]
fn namespace_without_exports_stays_for_an_hour_also_when_others_come() {
    let mut scene = Scene::with(&of(&[SHOP]), &["shop/web"]);
    scene.withdraw("shop/web");
    assert_eq!(scene.within(seconds(1800)), []);
    scene.export("team/web");
    let team = "team.svc.cluster.local.";
    assert_eq!(scene.within(seconds(60)), [(5, format!("{SHOP},{team}"))]);
    assert_eq!(scene.within(KEEP), [(1740, team.to_owned())]);
    // One that is exported again meanwhile is not removed.
    scene.withdraw("team/web");
    assert_eq!(scene.within(seconds(3000)), []);
    scene.export("team/web");
    assert_eq!(scene.within(KEEP), []);
}

#[test]
fn services_beside_the_api_server_and_in_protected_namespaces_are_listed_one_by_one() {
    let mut scene = Scene::with(
        ALL,
        &["default/web", "mc/web", "kube-system/dns", "shop/web"],
    );
    let expected = "dns.kube-system.svc.cluster.local.,shop.svc.cluster.local.,\
                    web.default.svc.cluster.local.,web.mc.svc.cluster.local.";
    assert_eq!(scene.within(seconds(60)), [(0, expected.to_owned())]);
}

#[test]
fn missing_or_deleted_gateway_is_left_alone() {
    let mut scene = Scene::with(ALL, &["shop/web"]);
    let gone = deployment(ALL, 1);
    scene
        .forwarding
        .on(ExportChange::Gateway(Event::Delete(gone.into())));
    assert_eq!(scene.within(KEEP), []);
}

#[test]
fn list_that_no_proxy_can_start_with_is_not_written() {
    let many: Vec<String> = (0..4000)
        .map(|number| format!("{number:040}/web"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut scene = Scene::with(ALL, &many);
    let next = scene.forwarding.next(scene.now);
    assert!(
        matches!(next, Next::TooLong(bytes) if bytes > LONGEST),
        "{next:?}"
    );
}
