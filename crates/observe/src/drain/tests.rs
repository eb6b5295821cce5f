//! What a drain of `east` would do in a cluster with members and mirrors of it.

#![expect(clippy::unnecessary_wraps, reason = "the facts may be unknown")]

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use mirror_core::api::labels as l;
use serde_json::json;

use super::*;
use crate::clusters::traffic::{TrafficKey, TrafficService};

fn id(name: &str) -> ResourceId {
    ResourceId::new("shop", name)
}

fn service(name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Service {
    let map = |all: &[(&str, &str)]| {
        all.iter()
            .copied()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name,
            "labels": map(labels), "annotations": map(annotations),
        },
        "spec": { "clusterIP": "10.0.0.1" },
    }))
    .unwrap()
}

fn federated(remote: &str, local: bool) -> Service {
    let all = [(l::REMOTE_DISCOVERY, remote), (l::LOCAL_DISCOVERY, "web")];
    service("web-federated", &[], &all[..=usize::from(local)])
}

/// A mirror through the gateway.
fn mirror() -> Service {
    service("db-east", &[(l::CLUSTER_NAME, "east")], &[])
}

/// The address of a member's endpoint.
fn address(number: u8) -> IpAddr {
    [10, 0, 0, number].into()
}

/// Members with so many ready endpoints. Those of `unread` are not known.
fn members(ready: &[(&str, u8)], unread: &[&str]) -> Known<TrafficServices> {
    let mut services = TrafficServices::default();
    let web = TrafficService {
        mode: Some(ShownMode::Federated),
        unread: unread.iter().map(|name| (*name).to_owned()).collect(),
        ..TrafficService::default()
    };
    let db = TrafficService {
        mode: Some(ShownMode::Gateway),
        cluster: Some("east".to_owned()),
        ..TrafficService::default()
    };
    services
        .services
        .extend([(id("web-federated"), web), (id("db-east"), db)]);
    let mut number = 0;
    for (cluster, count) in ready {
        for _ in 0..*count {
            number += 1;
            let addresses = &mut services.addresses;
            addresses.insert(
                (id("web-federated"), address(number)),
                [(*cluster).to_owned()].into(),
            );
            let place = (id("web-federated"), (*cluster).to_owned());
            services
                .ready
                .entry(place)
                .or_default()
                .insert(address(number));
        }
    }
    Ok(services)
}

/// A Pod that has sent so many requests to a Service, and sends so many in two seconds.
fn client(
    service: &str,
    number: u8,
    ever: f64,
    now: f64,
) -> (ResourceId, ClientActivity, ClientActivity) {
    let key = Arc::new(TrafficKey {
        service: id(service),
        address: Some(address(number)),
        target_cluster: None,
    });
    let of = |success: f64| ClientActivity {
        lasted: Duration::from_secs(2),
        by_key: BTreeMap::from([(
            key.clone(),
            Activity {
                success,
                ..Activity::default()
            },
        )]),
    };
    (id("front"), of(ever), of(now))
}

fn clients(
    meshed: usize,
    read: Vec<(ResourceId, ClientActivity, ClientActivity)>,
) -> Known<DrainClients> {
    Ok(DrainClients {
        meshed,
        read,
        unread: None,
    })
}

fn forecast(
    mirrors: &[Service],
    services: &Known<TrafficServices>,
    clients: &Known<DrainClients>,
) -> DrainForecast {
    DrainForecast::of(&DrainFacts {
        cluster: "east",
        drained: &["south".to_owned()].into(),
        mirrors,
        services,
        clients,
    })
}

#[test]
fn federated_services_move_if_another_member_has_ready_endpoints() {
    let idle = clients(0, vec![]);
    for (remote, local, ready, unread, expected, can_lose) in [
        (
            "web@east",
            false,
            &[][..],
            &[][..],
            Some(DrainOutcome::Stays),
            Some(false),
        ),
        (
            "web@east,web@south",
            false,
            &[("south", 3)],
            &[],
            Some(DrainOutcome::Stays),
            Some(false),
        ),
        (
            "web@east,web@north",
            false,
            &[("north", 2)],
            &[],
            Some(DrainOutcome::Moves),
            Some(true),
        ),
        (
            "web@east",
            true,
            &[("local", 1)],
            &[],
            Some(DrainOutcome::Moves),
            Some(true),
        ),
        (
            "web@east,web@north",
            false,
            &[("east", 2)],
            &[],
            Some(DrainOutcome::LosesEndpoints),
            Some(false),
        ),
        (
            "web@east,web@north",
            true,
            &[],
            &["north"],
            Some(DrainOutcome::Unknown),
            None,
        ),
        (
            "web@east,web@north",
            true,
            &[("local", 1)],
            &["north"],
            Some(DrainOutcome::Moves),
            Some(true),
        ),
        ("web@north", true, &[], &[], None, Some(true)),
    ] {
        let found = forecast(&[federated(remote, local)], &members(ready, unread), &idle);
        let outcome = found.federated.first().map(|of| of.outcome);
        assert_eq!(
            (outcome, found.can_lose),
            (expected, can_lose),
            "{remote} {local} {ready:?}"
        );
    }
}

#[test]
fn only_the_cluster_has_ready_endpoints() {
    for (remote, local, ready, unread, is_lost) in [
        (
            "web@east,web@north",
            true,
            &[("east", 2)][..],
            &[][..],
            true,
        ),
        (
            "web@east,web@north",
            true,
            &[("east", 2), ("local", 1)],
            &[],
            false,
        ),
        // What it has not, it cannot lose.
        ("web@east,web@north", true, &[], &[], false),
        // The cluster stays.
        ("web@east", false, &[("east", 2)], &[], false),
        (
            "web@east,web@north",
            false,
            &[("east", 2)],
            &["north"],
            false,
        ),
        ("web@east", true, &[], &["east"], true),
    ] {
        let (mirrors, services) = ([federated(remote, local)], members(ready, unread));
        let facts = DrainFacts {
            cluster: "east",
            drained: &BTreeSet::new(),
            mirrors: &mirrors,
            services: &services,
            clients: &clients(0, vec![]),
        };
        let expected = if is_lost {
            vec![id("web-federated")]
        } else {
            vec![]
        };
        assert_eq!(
            facts.only_here(),
            expected,
            "{remote} {local} {ready:?} {unread:?}"
        );
    }
}

#[test]
fn requests_move_to_the_members_that_are_left() {
    let read = vec![
        client("web-federated", 1, 900.0, 240.0),
        client("web-federated", 2, 1.0, 10.0),
    ];
    let members = members(&[("east", 1), ("north", 4)], &[]);
    let found = forecast(
        &[federated("web@east,web@north", true)],
        &members,
        &clients(2, read),
    );
    let [web] = &found.federated[..] else {
        panic!("{found:?}");
    };
    assert_eq!(web.requests_per_second, Some(120.0));
    let others = web.others.iter();
    let others: Vec<_> = others
        .map(|of| {
            (
                of.cluster.as_str(),
                of.ready_endpoints,
                of.requests_per_second,
            )
        })
        .collect();
    assert_eq!(
        others,
        [("local", Some(0), Some(0.0)), ("north", Some(4), Some(5.0))]
    );
    assert_eq!(
        found.answer("west", "east"),
        "west can lose east: requests to 1 federated Service move to other members"
    );
}

#[test]
fn mirrors_with_callers_are_lost_and_those_whose_callers_are_unknown_are_doubtful() {
    let idle = || client("db-east", 9, 0.0, 0.0);
    let calls = || client("db-east", 9, 7.0, 0.0);
    for (clients, callers, can_lose, unseen) in [
        (clients(1, vec![idle()]), &[][..], Some(true), &[][..]),
        (clients(1, vec![calls()]), &["shop/front"], Some(false), &[]),
        (
            clients(2, vec![calls()]),
            &["shop/front"],
            Some(false),
            &["what Pods call: 1 of 2 Pods in the mesh were read; no more are read"],
        ),
        (
            clients(2, vec![idle()]),
            &[],
            None,
            &["what Pods call: 1 of 2 Pods in the mesh were read; no more are read"],
        ),
        (
            Err("forbidden".into()),
            &[],
            None,
            &["what Pods call: forbidden"],
        ),
    ] {
        let found = forecast(&[mirror()], &members(&[], &[]), &clients);
        assert_eq!(found.mirrors[0].callers, callers, "{found:?}");
        assert_eq!(
            (found.can_lose, &found.unseen[..]),
            (
                can_lose,
                &unseen.iter().map(ToString::to_string).collect::<Vec<_>>()[..]
            )
        );
    }
    let called = forecast(
        &[federated("web@east", false), mirror()],
        &members(&[], &[]),
        &clients(1, vec![calls()]),
    );
    assert_eq!(
        called.answer("west", "east"),
        "west cannot lose east: 1 federated Service would have no ready endpoint, and Pods call 1 mirror, which a drain does not move"
    );
    let idle = called.federated[0].requests_per_second;
    assert_eq!(idle.map(|rate| rate.to_string()).as_deref(), Some("0"));
    // Without a mirror, nothing depends on what Pods call.
    let none = forecast(&[], &members(&[], &[]), &Err("forbidden".into()));
    assert_eq!(
        none.answer("west", "east"),
        "west can lose east: nothing here leads to it"
    );
}

#[test]
fn mirrors_to_which_routes_of_a_preference_lead_move_with_their_service() {
    let preferring = service(
        "db-federated",
        &[],
        &[
            (l::REMOTE_DISCOVERY, "db@east"),
            (l::LOCAL_DISCOVERY, "db"),
            (l::PREFER, "east,local"),
        ],
    );
    let read = clients(1, vec![client("db-east", 9, 7.0, 4.0)]);
    let found = forecast(&[preferring, mirror()], &members(&[], &[]), &read);
    assert_eq!(found.mirrors, []);
    assert_eq!(found.federated[0].requests_per_second, Some(2.0));
}
