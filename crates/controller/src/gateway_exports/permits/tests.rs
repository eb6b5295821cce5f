//! Random exports, against a gateway in memory that answers as Linkerd's.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A name, the clusters, and whether it is headless.
type Made = (usize, Option<&'static str>, bool);

/// Everything that is there, and the time.
struct Scene {
    permits: Permits,
    exported: BTreeMap<(String, String), ExportedService>,
    objects: BTreeMap<(PolicyKind, String), Value>,
    now: Instant,
    writes: usize,
}

fn gateway(permits: bool) -> ExportGateway {
    ExportGateway {
        namespace: "mc".to_owned(),
        deployment: "gateway".to_owned(),
        domain: "cluster.local".to_owned(),
        linkerd_namespace: "linkerd".to_owned(),
        permits,
        protected: BTreeSet::new(),
    }
}

fn object(name: &str, annotations: &Value, spec: &Value) -> Arc<DynamicObject> {
    let object = json!({ "metadata": { "name": name, "annotations": annotations }, "spec": spec });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn ours(name: &str, spec: &Value) -> Arc<DynamicObject> {
    object(
        name,
        &json!({ "mirror.linkerd.io/managed-by": "linkerd-mc" }),
        spec,
    )
}

fn id(number: usize) -> (String, String) {
    ("app".to_owned(), format!("s{number:03}"))
}

fn consent(to: Option<&str>) -> Option<ExportConsent> {
    ExportConsent::of(|_| to).ok()
}

fn host(number: usize) -> String {
    format!("s{number:03}.app.svc.cluster.local")
}

impl Scene {
    /// With the objects of `install`, as long as not only exported Services are permitted.
    fn new() -> Self {
        let mut scene = Self {
            permits: Permits::new(gateway(true)),
            exported: BTreeMap::new(),
            objects: BTreeMap::new(),
            now: Instant::now(),
            writes: 0,
        };
        scene.whole();
        scene.list();
        scene
    }

    fn whole(&mut self) {
        let name = name(PolicyKind::Whole, 0);
        self.objects
            .insert((PolicyKind::Whole, name.clone()), json!({}));
        let found = object(&name, &json!({}), &json!({}));
        self.permits.on(PolicyKind::Whole, &Event::Apply(found));
    }

    fn list(&mut self) {
        for kind in PolicyKind::ALL {
            let objects = self.objects.iter().filter(|((of, _), _)| *of == kind);
            let objects = objects.map(|((_, name), spec)| ours(name, spec)).collect();
            let omitted = mirror_core::mirror::Omitted::default();
            self.permits.on(kind, &Event::List { objects, omitted });
        }
    }

    /// The controller restarts.
    fn restart(&mut self, permits: bool) {
        self.permits = Permits::new(gateway(permits));
        self.list();
    }

    fn export(&mut self, (number, to, is_headless): Made) {
        let service = ExportedService {
            is_headless,
            consent: consent(to),
        };
        self.exported.insert(id(number), service);
    }

    fn write(&mut self, write: PolicyWrite) {
        self.writes += 1;
        match write {
            PolicyWrite::Create(kind, created) => {
                let name = created["metadata"]["name"].as_str().unwrap().to_owned();
                let spec = created["spec"].clone();
                self.permits.on(kind, &Event::Apply(ours(&name, &spec)));
                assert_eq!(self.objects.insert((kind, name), spec), None, "it exists");
            }
            PolicyWrite::Replace(kind, name, spec) => {
                self.permits.on(kind, &Event::Apply(ours(&name, &spec)));
                assert!(
                    self.objects.insert((kind, name), spec).is_some(),
                    "it does not exist"
                );
            }
            PolicyWrite::Delete(kind, name) => {
                self.permits.deleted(kind, &name);
                assert!(
                    self.objects.remove(&(kind, name)).is_some(),
                    "it does not exist"
                );
            }
        }
    }

    /// Writes until nothing is left to do, and looks at the state after each write.
    fn settle(&mut self, mut look: impl FnMut(&Self)) {
        for _ in 0..1000 {
            let exported = self.exported.iter().collect();
            match self.permits.next(Some(&exported), self.now) {
                NextPermits::Rest => return,
                NextPermits::At(at) => self.now = at,
                NextPermits::Write(writes) => {
                    for write in writes {
                        self.write(write);
                        look(self);
                    }
                }
            }
        }
        panic!("it does not settle: {:#?}", self.objects);
    }

    fn of(&self, kind: PolicyKind) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.objects.iter();
        let all = all.filter(move |((of, _), _)| *of == kind);
        all.map(|((_, name), spec)| (name.as_str(), spec))
    }

    fn has_whole(&self) -> bool {
        self.of(PolicyKind::Whole).next().is_some()
    }

    /// What the gateway answers for a host to a workload of this trust domain.
    fn answer(&self, host: &str, domain: &str) -> u16 {
        let is_of = |hosts: &Hosts| {
            let pods = host.split_once('.').map(|(_, rest)| format!("*.{rest}"));
            hosts.contains(host) || pods.is_some_and(|pods| hosts.contains(&pods))
        };
        let routes: Vec<(&str, Hosts)> = self
            .of(PolicyKind::Route)
            .map(|(name, spec)| (name, hosts_of(spec)))
            .collect();
        let exact = routes.iter().find(|(_, hosts)| is_of(hosts));
        let route = exact.or_else(|| routes.iter().find(|(_, hosts)| hosts.is_empty()));
        let Some((route, _)) = route else {
            return match (routes.is_empty(), self.has_whole()) {
                (true, true) => 200,
                (true, false) => 403,
                (false, _) => 404,
            };
        };
        let policies = self.of(PolicyKind::Policy);
        let mut policies = policies.filter(|(_, spec)| spec["targetRef"]["name"] == **route);
        let permits = policies.any(|(_, spec)| {
            let name = spec["requiredAuthenticationRefs"][0]["name"]
                .as_str()
                .unwrap();
            let identities = self
                .of(PolicyKind::Identities)
                .find(|(own, _)| *own == name);
            let identities = identities
                .map(|(_, spec)| identities_of(spec))
                .unwrap_or_default();
            identities.contains("*") || identities.contains(&format!("*.identity.linkerd.{domain}"))
        });
        if permits || self.has_whole() {
            200
        } else {
            403
        }
    }

    fn wants(&self, number: usize, domain: &str) -> u16 {
        match self.exported.get(&id(number)) {
            Some(ExportedService {
                consent: Some(consent),
                ..
            }) if consent.includes(domain) => 200,
            Some(ExportedService {
                consent: Some(_), ..
            }) => 403,
            _ if self
                .exported
                .values()
                .all(|service| service.consent.is_none()) =>
            {
                403
            }
            _ => 404,
        }
    }
}

const DOMAINS: [&str; 2] = ["west.example", "north.example"];
const NAMES: usize = 40;

fn made() -> impl Strategy<Value = Option<Made>> {
    let to = prop_oneof![
        3 => Just(None),
        2 => Just(Some(DOMAINS[0])),
        1 => Just(Some("north.example,west.example")),
        1 => Just(Some("no name")),
    ];
    prop::option::weighted(0.8, (Just(0), to, prop::bool::weighted(0.2)))
}

fn changes() -> impl Strategy<Value = Vec<(usize, Option<Made>)>> {
    prop::collection::vec((0..NAMES, made()), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn gateway_answers_as_exports_say_and_no_request_fails_meanwhile(
        first in changes(), later in changes(), restarts in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        for changes in [first, later] {
            let before: Vec<[u16; 2]> = (0..NAMES)
                .map(|number| DOMAINS.map(|domain| scene.answer(&host(number), domain)))
                .collect();
            for (number, made) in changes {
                match made {
                    Some((_, to, headless)) => scene.export((number, to, headless)),
                    None => drop(scene.exported.remove(&id(number))),
                }
            }
            if restarts {
                scene.restart(true);
            }
            scene.settle(|scene| {
                for (number, before) in before.iter().enumerate() {
                    for (domain, before) in DOMAINS.iter().zip(before) {
                        let now = scene.answer(&host(number), domain);
                        let end = scene.wants(number, domain);
                        let stays = *before == end && end == 200;
                        assert!(!stays || now == 200, "{number} {domain}: {now}");
                        let never = *before != 200 && end != 200;
                        assert!(!never || now != 200, "{number} {domain}: {now}");
                    }
                }
            });
            for number in 0..NAMES {
                for domain in DOMAINS {
                    let now = scene.answer(&host(number), domain);
                    prop_assert_eq!(now, scene.wants(number, domain), "{} {}", number, domain);
                }
            }
            prop_assert!(!scene.has_whole());
            let mut all: Vec<String> = Vec::new();
            for (_, spec) in scene.of(PolicyKind::Route) {
                let hosts = hosts_of(spec);
                prop_assert!(!hosts.is_empty() && hosts.len() <= HOSTS);
                all.extend(hosts);
            }
            let hosts = all.len();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), hosts, "a host is in two routes");
            // At rest, nothing is written.
            let writes = scene.writes;
            scene.restart(true);
            scene.now += HOLD * 100;
            scene.settle(|_| ());
            prop_assert_eq!(scene.writes, writes);
        }
    }

    #[test]
    fn no_request_fails_when_groups_are_removed(changes in changes()) {
        let mut scene = Scene::new();
        for (number, made) in changes {
            if let Some((_, to, headless)) = made {
                scene.export((number, to, headless));
            }
        }
        scene.settle(|_| ());
        scene.restart(false);
        // As long as `install` was not applied, nobody could use the gateway without groups.
        scene.settle(|_| panic!("it is written without the policy for the whole gateway"));
        scene.whole();
        scene.settle(|scene| {
            for (number, exported) in &scene.exported {
                let served = |domain: &&&str| {
                    exported.consent.as_ref().is_some_and(|consent| consent.includes(domain))
                };
                for domain in DOMAINS.iter().filter(served) {
                    let host = format!("{}.app.svc.cluster.local", number.1);
                    assert_eq!(scene.answer(&host, domain), 200);
                }
            }
        });
        prop_assert_eq!(scene.objects.len(), 1, "only the policy of the whole gateway is left");
    }
}

#[test]
fn hosts_of_headless_services_are_in_the_route_of_their_service() {
    let mut scene = Scene::new();
    scene.export((1, Some("west.example"), true));
    scene.settle(|_| ());
    let found: Vec<(&str, &Value)> = scene.of(PolicyKind::Route).collect();
    let expected = json!({
        "parentRefs": [{ "group": "policy.linkerd.io", "kind": "Server", "name": "linkerd-gateway" }],
        "hostnames": ["*.s001.app.svc.cluster.local", "s001.app.svc.cluster.local"],
        "rules": [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }],
    });
    assert_eq!(found, [("linkerd-gateway-exports-1", &expected)]);
    let identities: Vec<Value> = scene
        .of(PolicyKind::Identities)
        .map(|(_, s)| s.clone())
        .collect();
    assert_eq!(
        identities,
        [json!({ "identities": ["*.identity.linkerd.west.example"] })]
    );
    assert_eq!(
        scene.answer("db-0.s001.app.svc.cluster.local", "west.example"),
        200
    );
    assert_eq!(
        scene.answer("db-0.s001.app.svc.cluster.local", "north.example"),
        403
    );
}

#[test]
fn thousand_exports_need_few_routes() {
    let mut scene = Scene::new();
    for number in 0..1008 {
        scene.export((number, None, false));
    }
    scene.settle(|_| ());
    assert_eq!(scene.of(PolicyKind::Route).count(), 63);
    // One more changes one route.
    let writes = scene.writes;
    scene.exported.remove(&id(500));
    scene.export((2000, None, false));
    scene.settle(|_| ());
    assert_eq!(scene.of(PolicyKind::Route).count(), 64);
    assert_eq!(scene.writes - writes, 4);
}

#[test]
fn objects_of_others_are_never_touched_and_changes_of_ours_are_repaired() {
    let mut scene = Scene::new();
    scene.export((1, None, false));
    scene.settle(|_| ());
    let theirs = object("linkerd-gateway-exports-7", &json!({}), &json!({}));
    let other = ours("linkerd-gateway-exports-07", &json!({}));
    for found in [theirs, other] {
        scene.permits.on(PolicyKind::Route, &Event::Apply(found));
    }
    let writes = scene.writes;
    scene.settle(|_| ());
    assert_eq!(scene.writes, writes);

    let key = (PolicyKind::Policy, "linkerd-gateway-exports-1".to_owned());
    scene
        .objects
        .insert(key.clone(), json!({ "requiredAuthenticationRefs": [] }));
    scene.restart(true);
    scene.settle(|_| ());
    assert_eq!(
        scene.objects.get(&key),
        None,
        "the host has moved to another group"
    );
    assert_eq!(scene.answer(&host(1), "west.example"), 200);
}

#[test]
fn nothing_is_written_before_all_is_known() {
    let mut scene = Scene::new();
    assert_eq!(scene.permits.next(None, scene.now), NextPermits::Rest);
    scene.permits = Permits::new(gateway(true));
    let none = BTreeMap::new();
    assert_eq!(
        scene.permits.next(Some(&none), scene.now),
        NextPermits::Rest
    );
}
