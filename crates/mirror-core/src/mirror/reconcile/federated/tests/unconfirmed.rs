//! Clusters that seem to have left, and have not confirmed it.

use std::collections::BTreeSet;

use super::{PATCH, aged, key, stands, web};
use crate::{
    api::labels as l,
    mirror::{
        self, Confirmed, GatewayState, Liveness, Plan, State,
        fixtures::{
            Svc, at, backing, body, described, ip, link, map, plan_unconfirmed, port, reported,
            state, svc,
        },
        target::Target,
    },
};

/// The plan once these clusters have confirmed that they left.
fn plan_with(state: &State, confirmed: &[&str]) -> Plan {
    let confirmed: BTreeSet<String> = confirmed.iter().map(|of| (*of).to_owned()).collect();
    mirror::plan(state, &key(), Confirmed::By(&confirmed))
}

fn asked(plan: &Plan) -> Vec<&str> {
    plan.confirm.iter().map(|of| of.cluster.as_str()).collect()
}

/// East has the oldest member of three, and its watch says that it is gone.
fn east_seems_gone() -> State {
    state()
        .linked(aged("east", 1), &[web()], &[])
        .linked(aged("west", 2), &[web()], &[])
        .linked(aged("north", 3), &[web()], &[])
        .worked_on(&key())
        .linked(aged("east", 1), &[], &[])
}

/// The local cluster has joined, and gives ports and labels.
fn with_local() -> State {
    state()
        .linked(aged("east", 1), &[web()], &[])
        .linked(aged("west", 2), &[web()], &[])
        .local_member(web())
        .worked_on(&key())
        .linked(aged("east", 1), &[], &[])
}

/// A situation, the clusters that have confirmed that they left, the members after the plan (remote and local; `None`
/// if nothing is written), and the clusters that are asked.
type Case<'a> = (
    &'a str,
    State,
    &'a [&'a str],
    Option<[Option<&'a str>; 2]>,
    &'a [&'a str],
);

#[test]
fn unconfirmed_leave_changes_nothing_and_delays_nobody() {
    let gone =
        |state: State, cluster: &str, created: i64| state.linked(aged(cluster, created), &[], &[]);
    let mut unlinked = east_seems_gone();
    unlinked.links.remove("north");
    let mut left = with_local();
    left.here().members = crate::mirror::Store::default();
    let changed = with_local().local_member(web().ports(vec![port("sql", 5432)]));
    let nobody = gone(gone(east_seems_gone(), "west", 2), "north", 3);
    let north_left = gone(east_seems_gone(), "north", 3);
    let all = &["east", "north", "west"][..];
    let cases: [Case<'_>; 11] = [
        ("nothing else", east_seems_gone(), &[], None, &["east"]),
        (
            "a cluster joins",
            east_seems_gone().linked(aged("south", 4), &[web()], &[]),
            &[],
            Some([Some("web@east,web@north,web@south,web@west"), None]),
            &["east"],
        ),
        (
            "the local cluster joins",
            east_seems_gone().local_member(web()),
            &[],
            Some([Some("web@east,web@north,web@west"), Some("web")]),
            &["east"],
        ),
        (
            "a Link is deleted",
            unlinked,
            &[],
            Some([Some("web@east,web@west"), None]),
            &["east"],
        ),
        (
            "the local cluster leaves",
            left,
            &[],
            Some([Some("web@east,web@west"), None]),
            &["east"],
        ),
        (
            "the ports of the local member change",
            changed,
            &[],
            Some([Some("web@east,web@west"), Some("web")]),
            &["east"],
        ),
        (
            "another cluster leaves too, and nobody confirms it",
            north_left.clone(),
            &[],
            None,
            &["east", "north"],
        ),
        (
            "only the other one confirms it",
            north_left.clone(),
            &["north"],
            Some([Some("web@east,web@west"), None]),
            &["east", "north"],
        ),
        (
            "both confirm it",
            north_left,
            &["east", "north"],
            Some([Some("web@west"), None]),
            &["east", "north"],
        ),
        (
            "all leave, and all but one confirm it",
            nobody.clone(),
            &["north", "west"],
            Some([Some("web@east"), None]),
            all,
        ),
        (
            "all leave, and nobody confirms it",
            nobody.clone(),
            &[],
            None,
            all,
        ),
    ];
    for (what, state, confirmed, members, expected) in cases {
        let plan = plan_with(&state, confirmed);
        assert_eq!(asked(&plan), expected, "{what}");
        match members {
            None => assert_eq!(described(&plan.writes), [""; 0], "{what}"),
            Some([remote, local]) => {
                assert_eq!(described(&plan.writes), PATCH, "{what}");
                let annotations = &body(&plan.writes, "web-federated")["metadata"]["annotations"];
                // A key that is not in the patch stays as it is.
                let named = |key, before: Option<&str>| {
                    let now = annotations.get(key);
                    now.map_or_else(
                        || before.map(str::to_owned),
                        |now| now.as_str().map(str::to_owned),
                    )
                };
                let before = state.existing("ns", "web-federated").unwrap();
                let before = |key| before.metadata.annotations.get(key);
                let [others, own] = [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY];
                assert_eq!(named(others, before(others)).as_deref(), remote, "{what}");
                assert_eq!(named(own, before(own)).as_deref(), local, "{what}");
            }
        }
    }
    let deleted = plan_with(&nobody, all);
    assert_eq!(described(&deleted.writes), super::DELETE);
}

#[test]
fn report_for_an_unconfirmed_leave_stays() {
    let reports = reported(&plan_unconfirmed(&east_seems_gone(), &key()));
    assert_eq!(reports[0], "web@east: unknown");
    assert_eq!(reports[2], "web@west: web-federated");
    assert_eq!(plan_unconfirmed(&stands(), &key()).confirm, []);
}

#[test]
fn only_member_of_a_drained_cluster_leaves_once_that_is_confirmed() {
    let drained = Target {
        drained_until: Some(at(60)),
        ..aged("east", 1)
    };
    let member = state().linked(aged("east", 1), &[web()], &[]);
    let gone = member.worked_on(&key()).linked(drained, &[], &[]);
    let waits = plan_unconfirmed(&gone, &key());
    assert_eq!(described(&waits.writes), [""; 0]);
    assert_eq!(asked(&waits), ["east"]);
    let confirmed = plan_with(&gone, &["east"]);
    assert_eq!(described(&confirmed.writes), super::DELETE);
    assert_eq!(asked(&confirmed), ["east"]);
}

/// Clusters that take part through their gateways: east with a selector, so that its slices are known.
fn through_gateways(east: &[Svc]) -> State {
    let target = |cluster: &str| {
        let mut made = link(cluster);
        let annotations = made.metadata.annotations.get_or_insert_default();
        annotations.insert(l::FEDERATED_THROUGH.to_owned(), "gateway".to_owned());
        Target::parse(&made, false).unwrap()
    };
    let mut member = svc("web").member();
    member.0.spec.selector = map(&[("app", "web")]);
    let whole = state()
        .linked(target("east"), &[member.clone()], &[backing("web")])
        .linked(target("west"), &[member], &[backing("web")])
        .with_link("west", |entry| {
            entry.gateway.addresses = Some(vec![ip("192.0.2.2")]);
        })
        .worked_on(&key());
    whole.linked(target("east"), east, &[])
}

#[test]
fn gateways_of_all_members_are_followed_while_a_leave_is_unconfirmed() {
    let gone = through_gateways(&[]);
    let waits = plan_unconfirmed(&gone, &key());
    assert_eq!(
        (described(&waits.writes), asked(&waits)),
        (vec![], vec!["east"])
    );
    let dead = |state: State, cluster: &str| {
        state.with_link(cluster, |entry| {
            entry.gateway = GatewayState {
                liveness: Liveness::Dead,
                ..entry.gateway.clone()
            };
        })
    };
    for cluster in ["east", "west"] {
        let plan = plan_unconfirmed(&dead(gone.clone(), cluster), &key());
        let slice = format!("patch EndpointSlice ns/web-federated.{cluster}-ipv4");
        assert_eq!(described(&plan.writes), [slice]);
        assert_eq!(asked(&plan), ["east"]);
    }
}
