//! Federated Services whose members prefer a cluster: hold-downs, their routes, and the mirrors that routes lead to.

mod effect;
mod left;

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{key, web};
use crate::{
    api::{
        labels as l,
        preference::{ClusterRef, FailedOver, Outage},
        route::{Route, RouteKind},
    },
    mirror::{
        FederatedThrough, Federation, InvalidLink, Key, Object, State, Store, Target, Write,
        fixtures::{
            Svc, at, backing, body, described, endpoint, link, plan, reported, slice, state,
        },
    },
};

const HOLD: Duration = Duration::from_secs(30);
const NOW: i64 = 1_700_000_000;

/// A state in which routes are enabled, and none exists.
fn routed() -> State {
    let mut state = state();
    state.config.routes = Some(HOLD);
    state.now = at(NOW);
    state.here().routes = RouteKind::ALL
        .map(|kind| (kind, Some(Store::default())))
        .into();
    state
}

/// The Link of a cluster that takes part in this way.
fn through(cluster: &str, through: FederatedThrough) -> Target {
    let mut made = link(cluster);
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(l::FEDERATED_THROUGH.to_owned(), through.as_str().to_owned());
    Target::parse(&made, false).unwrap()
}

fn flat(cluster: &str) -> Target {
    through(cluster, FederatedThrough::Discovery)
}

fn pods(mut state: State, ready: bool) -> State {
    let mut pods = slice("web", "pods");
    pods.endpoints = [endpoint("192.0.2.50", None, ready)].into();
    let slices = state.here().member_slices.get_or_insert_default();
    slices.put(Arc::new(pods));
    state
}

fn prefers(place: &str) -> Svc {
    web().annotation(l::PREFER, place)
}

/// The state after the writes of a plan, of Services and routes.
fn after(mut state: State, key: &Key) -> State {
    for write in plan(&state, key).writes {
        match write {
            Write::Create(Object::Service(mut service)) => {
                service.metadata.uid = Some("uid-web-federated".into());
                service.metadata.resource_version = Some("10".into());
                service.spec.cluster_ip = Some("10.0.0.9".into());
                state.here().mirrors.put(Arc::new(*service));
            }
            Write::Create(Object::Route(mut route)) => {
                for owner in &mut route.metadata.owner_references {
                    owner.uid = "uid-web-federated".into();
                }
                route.metadata.uid = Some("uid-route".into());
                let known = state.here().routes.entry(route.kind).or_default();
                known.get_or_insert_default().put(Arc::new(*route));
            }
            Write::Create(Object::EndpointSlice(mut slice)) => {
                for owner in &mut slice.metadata.owner_references {
                    owner.uid = "uid-web-federated".into();
                }
                state.here().slices.put(Arc::new(*slice));
            }
            Write::Patch(patch) if patch.name == "web-federated" => {
                let known = state.existing("ns", "web-federated").unwrap().clone();
                let mut known = known;
                let annotations = patch.body["metadata"]["annotations"].as_object().unwrap();
                for (key, value) in annotations {
                    match value.as_str() {
                        Some(value) => known.metadata.annotations.insert(key, value),
                        None => known.metadata.annotations.remove(key),
                    }
                }
                state.here().mirrors.put(Arc::new(known));
            }
            Write::Patch(_) => {}
            Write::Delete { name, .. } => {
                for routes in state.here().routes.values_mut().flatten() {
                    routes.forget("ns", &name);
                }
                state.here().mirrors.forget("ns", &name);
            }
            other => panic!("{other:?}"),
        }
    }
    state
}

fn failed_over(state: &State) -> Option<String> {
    let federated = state.existing("ns", "web-federated").unwrap();
    let text = federated.metadata.annotations.get(l::FAILED_OVER);
    text.map(str::to_owned)
}

fn annotation(state: &State, name: &str) -> Option<String> {
    let federated = state.existing("ns", "web-federated").unwrap();
    federated.metadata.annotations.get(name).map(str::to_owned)
}

/// Records that a cluster has failed over.
fn with_outage(state: State, cluster: &str, since: i64, until: Option<i64>) -> State {
    let outage = Outage {
        since: at(NOW + since),
        until: until.map(|until| at(NOW + until)),
    };
    let text = FailedOver([(ClusterRef::from(cluster), outage)].into()).to_string();
    state.edited("ns", "web-federated", |service| {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(l::FAILED_OVER, &text);
    })
}

/// A local member with ready Pods that prefers a cluster, while east has a member that Linkerd discovers.
fn beside_flat(place: &str) -> State {
    let state = routed().linked(flat("east"), &[web()], &[]);
    after(pods(state.local_member(prefers(place)), true), &key())
}

#[test]
fn a_cluster_whose_endpoints_cannot_be_known_is_never_left_out() {
    let state = with_outage(beside_flat("east"), "east", -60, Some(-10));
    assert_eq!(failed_over(&after(state, &key())), None);
    let state = with_outage(beside_flat("east"), "east", -60, None);
    assert_eq!(failed_over(&after(state, &key())), None);
}

#[test]
fn a_hold_down_ends_no_later_than_the_present_setting_says() {
    let until = |state: &State| {
        let text = failed_over(state).unwrap();
        let out = FailedOver::read(&text).0;
        out[&ClusterRef::Local].until
    };
    let gateway = through("east", FederatedThrough::Gateway);
    let state = routed().linked(gateway, &[web()], &[backing("web")]);
    let state = after(pods(state.local_member(prefers("local")), true), &key());
    let waits = after(with_outage(state.clone(), "local", -60, Some(20)), &key());
    assert_eq!(until(&waits), Some(at(NOW + 20)));
    // The clock was an hour ahead, or the hold-down was longer.
    let waits = after(with_outage(state, "local", 3_000, Some(3_600)), &key());
    assert_eq!(until(&waits), Some(at(NOW + 30)));
}

#[test]
fn in_flat_networks_a_local_member_stays_named_during_its_hold_down() {
    // Nobody here knows whether the other members have endpoints. It may be the only one.
    let left = after(pods(beside_flat("local"), false), &key());
    assert!(failed_over(&left).is_some());
    assert_eq!(
        annotation(&left, l::LOCAL_DISCOVERY).as_deref(),
        Some("web")
    );
    let back = after(pods(left, true), &key());
    assert_eq!(
        annotation(&back, l::LOCAL_DISCOVERY).as_deref(),
        Some("web")
    );
    // The route leads to all members for a while.
    assert!(failed_over(&back).is_some());
    let writes = plan(&back, &key()).writes;
    let rule = &body(&writes, "web-federated-80")["spec"]["rules"][0];
    let backends = rule["backendRefs"].as_array().unwrap();
    let names: Vec<_> = backends.iter().map(|backend| &backend["name"]).collect();
    assert_eq!(names, ["web-federated"]);
}

/// A route of ours to the local member, and a change of it.
fn with_route(change: impl FnOnce(&mut Route)) -> State {
    let mut state = beside_flat("local");
    let routes = state.here().routes[&RouteKind::Http].as_ref().unwrap();
    let mut route = routes.iter().next().unwrap().as_ref().clone();
    change(&mut route);
    let known = state.here().routes.entry(RouteKind::Http).or_default();
    known.get_or_insert_default().put(Arc::new(route));
    state
}

const PATCHED: [&str; 1] = ["patch HTTPRoute ns/web-federated-80"];

/// What a route loses, and how.
type Mark = (&'static str, fn(&mut Route));

#[test]
fn a_route_of_ours_that_lost_a_mark_is_repaired() {
    let marks: [Mark; 4] = [
        ("its owner", |route| {
            route.metadata.owner_references = Box::default();
        }),
        ("its annotations", |route| {
            for key in l::SIGNATURE {
                route.metadata.annotations.remove(key);
            }
        }),
        ("its label", |route| {
            route.metadata.labels.remove(l::MIRRORED_SERVICE);
        }),
        ("its owner and parents", |route| {
            route.metadata.owner_references = Box::default();
            route.spec.parent_refs = Box::default();
        }),
    ];
    assert_eq!(
        described(&plan(&with_route(|_| ()), &key()).writes),
        [""; 0]
    );
    for (what, strip) in marks {
        let state = with_route(strip);
        assert_eq!(described(&plan(&state, &key()).writes), PATCHED, "{what}");
        let writes = plan(&state, &key()).writes;
        let metadata = &body(&writes, "web-federated-80")["metadata"];
        if what.starts_with("its owner") {
            let owners = &metadata["ownerReferences"];
            assert_eq!(owners[0]["name"], json!("web-federated"), "{what}");
        }
        // It goes with the preference, and with the federated Service.
        let mut without = state.clone();
        without.here().members.put(web().version(2).arc());
        let deleted = described(&plan(&without, &key()).writes);
        assert!(
            deleted.contains(&"delete HTTPRoute ns/web-federated-80".to_owned()),
            "{what}: {deleted:?}"
        );
        let mut gone = state.clone();
        gone.here().members = Store::default();
        gone.links = crate::mirror::Links::default();
        assert_eq!(
            described(&plan(&gone, &key()).writes),
            [
                "delete HTTPRoute ns/web-federated-80",
                "delete Service ns/web-federated"
            ],
            "{what}"
        );
        let route = state.local.as_ref().unwrap().routes[&RouteKind::Http]
            .as_ref()
            .unwrap();
        let route = route.iter().next().unwrap();
        assert!(state.keys_of_route(route).contains(&key()), "{what}");
    }
}

/// The member of east is not exported, has a mirror, and the local member prefers it.
fn led_to_east(federation: Federation) -> State {
    let mut made = link("east");
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(l::FEDERATION.to_owned(), federation.as_str().to_owned());
    let target = Target::parse(&made, false).unwrap();
    let state = routed().linked(target, &[web()], &[backing("web")]);
    let state = after(pods(state.local_member(prefers("east")), true), &key());
    let state = after(state, &mirror());
    after(state, &key())
}

fn mirror() -> Key {
    Key::mirror("east", "ns", "web")
}

#[test]
fn a_preference_mirrors_no_service_of_a_cluster_that_may_not_join() {
    let exists = |state: &State| state.existing("ns", "web-east").is_some();
    assert!(exists(&led_to_east(Federation::Any)));
    assert!(exists(&led_to_east(Federation::LocalMembers)));
    assert!(!exists(&led_to_east(Federation::None)));
    // The local member decides about `local-members`, so its mirrors depend on it.
    let state = led_to_east(Federation::LocalMembers);
    assert!(state.keys_of_member(&web().0).contains(&mirror()));
}

#[test]
fn without_routes_the_mirrors_that_routes_lead_to_stay_until_these_are_gone() {
    let routes = |state: &State| {
        let known = state.routes();
        known.flat_map(Store::iter).count()
    };
    let mut off = led_to_east(Federation::Any);
    assert_eq!(routes(&off), 1);
    off.config.routes = None;
    // While routes are not listed, which they may never be, nothing is given up.
    let mut unlisted = off.clone();
    unlisted.here().routes.clear();
    for key in [mirror(), key()] {
        assert_eq!(described(&plan(&unlisted, &key).writes), [""; 0], "{key}");
    }
    // Routes first, then the mirrors.
    assert_eq!(described(&plan(&off, &mirror()).writes), [""; 0]);
    let cleaned = after(off, &key());
    assert_eq!(routes(&cleaned), 0);
    let cleaned = after(cleaned, &key());
    assert_eq!(annotation(&cleaned, l::PREFER), None);
    let removed = described(&plan(&cleaned, &mirror()).writes);
    assert_eq!(removed, ["delete Service ns/web-east"]);
    // An installation that never had routes does not wait for them.
    let mut never = state().linked(flat("east"), &[web()], &[]);
    never.here().routes.clear();
    let made = after(never.local_member(prefers("east")), &key());
    assert_eq!(annotation(&made, l::PREFER), None);
}

#[test]
fn service_with_a_preference_stays_until_its_routes_are_listed() {
    let mut state = led_to_east(Federation::Any).linked(flat("east"), &[], &[]);
    state.here().members = Store::default();
    let mut unlisted = state.clone();
    unlisted.here().routes.clear();
    assert_eq!(described(&plan(&unlisted, &key()).writes), [""; 0]);
    assert_eq!(
        described(&plan(&state, &key()).writes),
        [
            "delete HTTPRoute ns/web-federated-80",
            "delete Service ns/web-federated"
        ]
    );
}

/// The Link of a cluster that Linkerd discovers, of this age, and what it prefers.
fn preferring(cluster: &str, created: i64, place: &str) -> Target {
    let mut made = link(cluster);
    made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        at(created),
    ));
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(l::PREFER.to_owned(), place.to_owned());
    Target::parse(&made, false).unwrap()
}

#[test]
fn a_member_of_another_cluster_does_not_decide_who_is_preferred() {
    let alone = routed().linked(flat("east"), &[prefers("east")], &[]);
    let state = after(alone, &key());
    assert_eq!(annotation(&state, l::PREFER), None);
    assert_eq!(
        reported(&plan(&state, &key())),
        [
            "web@east: web-federated, PreferenceIgnored: the annotation multicluster.linkerd.io/prefer of the member \
             in east is ignored: only the Link of east, or a member in this cluster, says which clusters are preferred"
        ]
    );
    // The same manifest may be in all clusters: each applies its own.
    let beside = routed().linked(flat("east"), &[prefers("east")], &[]);
    let state = after(beside.local_member(web()), &key());
    assert_eq!(annotation(&state, l::PREFER), None);
    assert_eq!(reported(&plan(&state, &key())), ["web@east: web-federated"]);
}

#[test]
fn without_a_local_member_the_oldest_link_says_who_is_preferred() {
    let preference = |state: State| annotation(&after(state, &key()), l::PREFER);
    let both = |east: Target, west: Target| {
        routed()
            .linked(east, &[prefers("west")], &[])
            .linked(west, &[web()], &[])
    };
    let one = both(preferring("east", -1, "east,west"), flat("west"));
    assert_eq!(preference(one.clone()).as_deref(), Some("east,west"));
    let reports = reported(&plan(&after(one.clone(), &key()), &key()));
    assert_eq!(
        reports,
        ["web@east: web-federated", "web@west: web-federated"]
    );
    let younger = both(
        preferring("east", -1, "east"),
        preferring("west", 2, "west"),
    );
    assert_eq!(preference(younger).as_deref(), Some("east"));
    // A local member decides alone, whether it prefers a cluster or not.
    let local = one.clone().local_member(web());
    assert_eq!(preference(local), None);
    let local = one.clone().local_member(prefers("local"));
    assert_eq!(preference(local).as_deref(), Some("local"));
    // A change of the Link counts while its cluster is away.
    let away = after(one, &key()).with_link("east", |entry| {
        entry.remote = None;
        entry.target = Ok(preferring("east", -1, "west"));
    });
    let described = body(&plan(&away, &key()).writes, "web-federated");
    assert_eq!(described["metadata"]["annotations"][l::PREFER], "west");
    // While a Link cannot be read, nothing changes.
    let unreadable = after(both(preferring("east", -1, "east"), flat("west")), &key()).with_link(
        "east",
        |entry| {
            entry.target = Err(InvalidLink::GatewayPort("x".to_owned()));
        },
    );
    assert_eq!(preference(unreadable).as_deref(), Some("east"));
}
