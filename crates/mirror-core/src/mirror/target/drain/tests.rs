//! Drained clusters: which federated Services they leave, and when they return.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;
use crate::{
    api::labels as l,
    mirror::{
        Federation, InvalidLink, Key, LinkEntry, Plan, RemoteRef, State, Target,
        fixtures::{Svc, at, body, described, entry, link, plan, port, reported, state, svc},
    },
};

/// The end of drains in these tests. The states begin at 0.
const UNTIL: i64 = 3600;

fn key() -> Key {
    Key::federated("ns", "web")
}

fn web() -> Svc {
    svc("web").member()
}

/// The Link of a cluster. The first one in the alphabet is the oldest.
fn target(cluster: &str, drained: bool) -> Target {
    let mut made = link(cluster);
    let age = cluster.bytes().next().map_or(0, i64::from);
    made.metadata.creation_timestamp = Some(Time(at(age)));
    if drained {
        let until = (l::DRAINED_UNTIL.to_owned(), rfc3339(at(UNTIL)));
        made.metadata.annotations = Some([until].into());
    }
    Target::parse(&made, false).unwrap()
}

/// What is known of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Member,
    NoMember,
    Not,
    /// Its Link cannot be read.
    Invalid,
}
use Seen::{Invalid, Member, NoMember, Not};

/// A state with a federated Service that names these clusters, if any, and with Links to clusters: whether each is
/// drained, and what is known of it.
fn such(tokens: &str, clusters: &[(&str, bool, Seen)]) -> State {
    let mut made = state();
    if !tokens.is_empty() {
        let all = tokens
            .split(',')
            .filter_map(|token| token.split_once('@'))
            .map(|(_, cluster)| cluster);
        let before = all.fold(state(), |state, cluster| {
            state.linked(target(cluster, false), &[web()], &[])
        });
        made.here().mirrors = before.worked_on(&key()).local.unwrap().mirrors;
    }
    clusters
        .iter()
        .fold(made, |state, (cluster, drained, seen)| {
            let made = LinkEntry {
                ..entry(target(cluster, *drained))
            };
            let services: &[Svc] = if *seen == Member { &[web()] } else { &[] };
            state
                .with_entry(made, services, &[])
                .with_link(cluster, |entry| match seen {
                    Member | NoMember => {}
                    Not => entry.remote = None,
                    Invalid => entry.target = Err(InvalidLink::GatewayPort("x".to_owned())),
                })
        })
}

/// The remote members after a plan; `-` if the Service is deleted, or not created.
fn members_after(state: &State, plan: &Plan) -> String {
    let annotation = |metadata: &crate::api::metadata::Metadata| {
        let list = metadata.annotations.get(l::REMOTE_DISCOVERY);
        list.unwrap_or_default().to_owned()
    };
    match plan.writes.as_slice() {
        [] => {
            let stands = state.existing("ns", "web-federated");
            stands.map_or_else(|| "-".into(), |service| annotation(&service.metadata))
        }
        [crate::mirror::Write::Create(crate::mirror::Object::Service(service))] => {
            annotation(&service.metadata)
        }
        [crate::mirror::Write::Delete { .. }] => "-".to_owned(),
        writes => {
            let patch = body(writes, "web-federated");
            let list = &patch["metadata"]["annotations"][l::REMOTE_DISCOVERY];
            list.as_str().unwrap_or_default().to_owned()
        }
    }
}

/// The state after a plan of this key, with the list of members that it writes.
fn after(state: &State, members: &str) -> State {
    let state = state.clone();
    if state.existing("ns", "web-federated").is_none() {
        return state.worked_on(&key());
    }
    state.edited("ns", "web-federated", |service| {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(l::REMOTE_DISCOVERY, members);
    })
}

#[test]
fn cluster_that_linkerd_cannot_discover_is_no_other_member() {
    let members = [("east", true, Member), ("west", false, Member)];
    let state = such("web@east,web@west", &members).with_link("west", |entry| {
        entry.target.as_mut().unwrap().has_discovery = false;
    });
    assert_eq!(
        members_after(&state, &plan(&state, &key())),
        "web@east,web@west"
    );
}

#[test]
#[expect(clippy::type_complexity, reason = "a table")]
fn drained_clusters_leave_services_with_another_member_at_once() {
    const EAST_WEST: &str = "web@east,web@west";
    let cases: &[(&str, &str, &[(&str, bool, Seen)], &str)] = &[
        (
            "another member",
            EAST_WEST,
            &[("east", true, Member), ("west", false, Member)],
            "web@west",
        ),
        (
            "it cannot be seen",
            EAST_WEST,
            &[("east", true, Not), ("west", false, Member)],
            "web@west",
        ),
        (
            "it seems to have left",
            EAST_WEST,
            &[("east", true, NoMember), ("west", false, Member)],
            "web@west",
        ),
        (
            "it is new",
            "web@west",
            &[("east", true, Member), ("west", false, Member)],
            "web@west",
        ),
        (
            "another one is new",
            "web@east",
            &[("east", true, Member), ("west", false, Member)],
            "web@west",
        ),
        (
            "no Service yet",
            "",
            &[("east", true, Member), ("west", false, Member)],
            "web@west",
        ),
        (
            "the only one",
            "web@east",
            &[("east", true, Member)],
            "web@east",
        ),
        (
            "the only one, no Service yet",
            "",
            &[("east", true, Member)],
            "web@east",
        ),
        (
            "the only one, and it cannot be seen",
            "web@east",
            &[("east", true, Not)],
            "web@east",
        ),
        (
            "the other one cannot be seen",
            EAST_WEST,
            &[("east", true, Member), ("west", false, Not)],
            EAST_WEST,
        ),
        (
            "it is out, and the other one cannot be seen",
            "web@west",
            &[("east", true, Member), ("west", false, Not)],
            "web@west",
        ),
        (
            "it is out, and the other Link cannot be read",
            "web@west",
            &[("east", true, Member), ("west", false, Invalid)],
            "web@west",
        ),
        (
            "it is out, and the other one leaves",
            "web@west",
            &[("east", true, Member), ("west", false, NoMember)],
            "web@east",
        ),
        (
            "it is out, and the other Link is gone",
            "web@west",
            &[("east", true, Member)],
            "web@east",
        ),
        (
            "both are drained, and one is out",
            "web@west",
            &[("east", true, Member), ("west", true, Member)],
            "web@west",
        ),
        (
            "both are drained, and both are in",
            EAST_WEST,
            &[("east", true, Member), ("west", true, Member)],
            EAST_WEST,
        ),
        (
            "both are drained, and no Service yet",
            "",
            &[("east", true, Member), ("west", true, Member)],
            EAST_WEST,
        ),
        (
            "both are drained, and a third comes",
            EAST_WEST,
            &[
                ("east", true, Member),
                ("west", true, Member),
                ("north", false, Member),
            ],
            "web@north",
        ),
        (
            "its own Link cannot be read",
            EAST_WEST,
            &[("east", true, Invalid), ("west", false, Member)],
            EAST_WEST,
        ),
        (
            "none is drained",
            EAST_WEST,
            &[("east", false, Member), ("west", false, Member)],
            EAST_WEST,
        ),
    ];
    for (what, tokens, clusters, expected) in cases {
        let state = such(tokens, clusters);
        let first = plan(&state, &key());
        let members = members_after(&state, &first);
        assert_eq!(members, *expected, "{what}");
        // A cluster that has to confirm its absence is not a drained one.
        let drained = |remote: &RemoteRef| {
            clusters
                .iter()
                .any(|(cluster, drained, _)| *drained && *cluster == remote.cluster)
        };
        assert!(
            !first.confirm.iter().any(drained),
            "{what}: {:?}",
            first.confirm
        );
        let state = after(&state, &members);
        let again = members_after(&state, &plan(&state, &key()));
        assert_eq!(again, members, "{what}: planned again");
    }
}

#[test]
fn a_local_member_counts_as_another_member() {
    let state = such("web@east", &[("east", true, Member)]).local_member(web());
    let patch = body(&plan(&state, &key()).writes, "web-federated");
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations[l::REMOTE_DISCOVERY], serde_json::Value::Null);
    assert_eq!(annotations[l::LOCAL_DISCOVERY], "web");
}

#[test]
fn drain_changes_nothing_but_the_list_of_members() {
    let of = |team: &str, number| web().label("team", team).ports(vec![port("http", number)]);
    let linked = |state: State, drained| {
        state
            .linked(target("east", drained), &[of("east", 80)], &[])
            .linked(target("west", false), &[of("west", 81)], &[])
    };
    let state = linked(linked(state(), false).worked_on(&key()), true);
    let patch = body(&plan(&state, &key()).writes, "web-federated");
    assert_eq!(patch["metadata"]["labels"]["team"], "east");
    assert_eq!(patch.get("spec"), None);
    assert_eq!(
        patch["metadata"]["annotations"][l::REMOTE_DISCOVERY],
        "web@west"
    );
}

#[test]
fn mirror_of_a_drained_cluster_stays() {
    let both = || svc("web").member().discovered();
    let key = Key::mirror("east", "ns", "web");
    let state = state().linked(target("east", false), &[both()], &[]);
    let state = state.worked_on(&key);
    let state = state.linked(target("east", true), &[both()], &[]);
    assert_eq!(described(&plan(&state, &key).writes), [""; 0]);
}

#[test]
fn drain_is_reported_for_each_member() {
    let drained = "Drained: the cluster is drained until 1970-01-01T01:00:00Z";
    for (tokens, clusters, expected) in [
        (
            "web@east,web@west",
            &[("east", true, Member), ("west", false, Member)][..],
            format!("web@east: {drained}\nweb@west: web-federated"),
        ),
        (
            "web@east,web@west",
            &[("east", true, Not), ("west", false, Member)],
            format!("web@east: {drained}\nweb@west: web-federated"),
        ),
        (
            "web@west",
            &[("east", true, Not), ("west", false, Member)],
            "web@east: unknown\nweb@west: web-federated".to_owned(),
        ),
        (
            "web@east",
            &[("east", true, Member), ("west", false, NoMember)],
            format!(
                "web@east: web-federated, {drained}, but stays because there is no other member\nweb@west: absent"
            ),
        ),
    ] {
        let reports = reported(&plan(&such(tokens, clusters), &key())).join("\n");
        assert_eq!(reports, expected);
    }
}

#[test]
fn policy_comes_before_a_drain() {
    let mut refused = target("east", true);
    refused.federation = Federation::None;
    let state = state().linked(refused, &[web()], &[]);
    let reports = reported(&plan(&state, &key())).join("\n");
    assert!(reports.contains("FederationNotAllowed"), "{reports}");
    assert_eq!(described(&plan(&state, &key()).writes), [""; 0]);
}

#[test]
fn end_of_a_drain_is_a_time() {
    for (text, expected) in [
        ("1970-01-01T01:00:00Z", Some(3600)),
        (" 1970-01-01T01:00:00Z ", Some(3600)),
        ("1970-01-01T02:00:00+01:00", Some(3600)),
        ("1970-01-01T01:00:00.5Z", Some(3600)),
        ("9999-12-30T00:00:00Z", Some(253_402_128_000)),
        ("", None),
        ("1h", None),
        ("soon", None),
        ("1970-01-01", None),
        ("1970-01-01T01:00:00", None),
        ("1970-13-01T01:00:00Z", None),
    ] {
        let known = drained_until(text).map(Timestamp::as_second);
        assert_eq!(known.ok(), expected, "{text:?}");
    }
    let mut made = link("east");
    let annotation = (l::DRAINED_UNTIL.to_owned(), "soon".to_owned());
    made.metadata.annotations = Some([annotation].into());
    assert_eq!(
        Target::parse(&made, false).unwrap_err().to_string(),
        "invalid annotation multicluster.linkerd.io/drained-until: invalid time \"soon\" (use RFC 3339, such as 2026-01-31T12:00:00Z)"
    );
}

#[test]
fn passing_time_concerns_the_federated_services_of_drained_clusters() {
    let exported = || svc("api").exported();
    let mut state = such("web@east,web@west", &[("west", false, Member)]).linked(
        target("east", true),
        &[web(), exported()],
        &[],
    );
    assert_eq!(state.next_turn(), Some(at(UNTIL)));
    assert_eq!(state.advance(at(UNTIL - 1)).0, BTreeMap::new());
    let concerned = BTreeMap::from([("east".to_owned(), vec![key()])]);
    assert_eq!(state.advance(at(UNTIL)).0, concerned);
    assert_eq!(state.next_turn(), None);
    assert_eq!(state.advance(at(UNTIL + 1)).0, BTreeMap::new());
    // The clock is set back.
    assert_eq!(state.advance(at(1)).0, concerned);
}

#[test]
fn drain_of_a_link_counts_the_federated_services_it_is_still_in() {
    let drain = |state: &State, link| state.drain_of(link).map(|drain| drain.to_string());
    let until = "until 1970-01-01T01:00:00Z";
    for (tokens, clusters, reason, expected) in [
        (
            "web@west",
            &[("east", true, Member), ("west", false, Member)][..],
            drained::DRAINED,
            "",
        ),
        (
            "web@east,web@west",
            &[("east", true, Member), ("west", false, Member)],
            drained::LEAVING,
            "; federated Services to leave: 1",
        ),
        (
            "web@east",
            &[("east", true, Not)],
            drained::LAST_MEMBER,
            "; federated Services that it stays in because they have no other member: 1",
        ),
    ] {
        let mut state = such(tokens, clusters);
        let said = drain(&state, "east").unwrap();
        assert_eq!(said, format!("{until}{expected}"));
        assert_eq!(shown_end(&said), Some(at(UNTIL)));
        assert_eq!(state.drain_of("east").unwrap().reason(), reason);
        assert_eq!(drain(&state, "west"), None);
        state.advance(at(UNTIL));
        assert_eq!(drain(&state, "east"), None);
    }
    // A federated Service of another installation does not count.
    let theirs = such(
        "web@east,web@west",
        &[("east", true, Member), ("west", false, Member)],
    )
    .edited("ns", "web-federated", |service| {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(l::INSTALLATION, "elsewhere");
    });
    assert_eq!(theirs.drain_of("east").unwrap().reason(), drained::DRAINED);
}
