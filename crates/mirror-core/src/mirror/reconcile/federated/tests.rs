//! Federated Services: the situations and weaknesses of Linkerd's service mirror, numbered as in `mirror/tests.rs`.

mod new;
mod preferred;
mod unconfirmed;

use crate::{
    api::labels as l,
    mirror::{
        InvalidLink, Key, Liveness, State, Target,
        fixtures::{
            LINKS, Svc, at, body, described, link, map, omitted, plan, port, reported, slice,
            state, svc,
        },
    },
};

const CREATE: [&str; 1] = ["create Service ns/web-federated"];
const PATCH: [&str; 1] = ["patch Service ns/web-federated"];
const DELETE: [&str; 1] = ["delete Service ns/web-federated"];

fn key() -> Key {
    Key::federated("ns", "web")
}

fn web() -> Svc {
    svc("web").member()
}

/// A Link with this time of creation.
fn aged(cluster: &str, created: i64) -> Target {
    let mut made = link(cluster);
    made.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        at(created),
    ));
    Target::parse(&made, false).unwrap()
}

/// Clusters east and west, east's Link the older one.
fn both(east: &[Svc], west: &[Svc]) -> State {
    linked(state(), east, west)
}

fn linked(state: State, east: &[Svc], west: &[Svc]) -> State {
    state
        .linked(aged("east", 1), east, &[])
        .linked(aged("west", 2), west, &[])
}

fn stands() -> State {
    both(&[web()], &[web()]).worked_on(&key())
}

fn unreadable(state: State, link: &str) -> State {
    state.with_link(link, |entry| {
        entry.target = Err(InvalidLink::GatewayPort("x".to_owned()));
    })
}

/// Both discovery annotations of the planned Service, remote members first.
fn members(state: &State) -> (Option<String>, Option<String>) {
    let state = state.clone().worked_on(&key());
    let metadata = &state.existing("ns", "web-federated").unwrap().metadata;
    let text = |key| metadata.annotations.get(key).map(str::to_owned);
    (text(l::REMOTE_DISCOVERY), text(l::LOCAL_DISCOVERY))
}

#[test]
#[expect(clippy::large_stack_arrays, reason = "a table of worlds")]
fn members_join_and_leave_as_in_linkerds_service_mirror() {
    let one_each = "web@east: web-federated\nweb@west: web-federated";
    let east_only = "web@east: web-federated\nweb@west: absent";
    let nobody = "web@east: absent\nweb@west: absent";
    let local = || both(&[], &[]).local_member(web());
    let mut theirs = both(&[web()], &[]);
    theirs.foreign.insert(
        ("ns".to_owned(), "web-federated".to_owned()),
        "somebody".to_owned(),
    );
    let mut homeless = both(&[web()], &[]);
    homeless.here().namespaces.set("ns", None);
    let mut left_home = local().worked_on(&key());
    left_home.here().members = crate::mirror::Store::default();
    for (situation, state, writes, reports) in [
        (
            "3.5 a member joins, no Service yet",
            both(&[web()], &[]),
            &CREATE[..],
            east_only,
        ),
        (
            "two at once: one Service names both",
            both(&[web()], &[web()]),
            &CREATE,
            one_each,
        ),
        ("3.5 nothing changed", stands(), &[], one_each),
        (
            "3.5 another one joins",
            linked(both(&[web()], &[]).worked_on(&key()), &[web()], &[web()]),
            &PATCH,
            one_each,
        ),
        (
            "3.5 one leaves",
            linked(stands(), &[web()], &[]),
            &PATCH,
            east_only,
        ),
        (
            "3.5 its label is removed",
            linked(stands(), &[web()], &[svc("web")]),
            &PATCH,
            east_only,
        ),
        ("3.5 all leave", linked(stands(), &[], &[]), &DELETE, nobody),
        ("3.5 the local cluster joins", local(), &CREATE, nobody),
        ("3.5 the local member leaves", left_home, &DELETE, nobody),
        (
            "3.5 a change of the younger one's labels",
            linked(stands(), &[web()], &[web().label("a", "b")]),
            &[],
            one_each,
        ),
        (
            "3.5 a change of the oldest one's labels",
            linked(stands(), &[web().label("a", "b")], &[web()]),
            &PATCH,
            one_each,
        ),
        (
            "3.5 a headless member",
            both(&[web().headless()], &[]),
            &[],
            "web@east: InvalidService: Headless service cannot join federated service\nweb@west: absent",
        ),
        (
            "3.2 the namespace is missing",
            homeless,
            &[],
            "web@east: MissingNamespace: Namespace does not exist\nweb@west: absent",
        ),
        (
            "the name is a user's",
            theirs,
            &[],
            "web@east: NameConflict: the name ns/web-federated is taken by somebody\nweb@west: absent",
        ),
        (
            "D13 ports differ: it is a member all the same",
            both(&[web()], &[web().ports(vec![port("http", 81)])]),
            &CREATE,
            "web@east: web-federated\n\
             web@west: web-federated, PortConflict: ports differ from those of ns/web-federated",
        ),
        (
            "a gateway has no part in it",
            stands().with_link("east", |entry| entry.gateway.liveness = Liveness::Dead),
            &[],
            one_each,
        ),
        (
            "a cluster that cannot be seen keeps its place",
            stands().with_link("west", |entry| entry.remote = None),
            &[],
            "web@east: web-federated\nweb@west: unknown",
        ),
        (
            "a Link that cannot be read keeps its place",
            unreadable(stands(), "west"),
            &[],
            "web@east: web-federated",
        ),
        (
            "beyond the limit absence says nothing",
            linked(stands(), &[web()], &[]).with_link("west", |entry| {
                entry.remote.as_mut().unwrap().omitted = vec![omitted("web", true)];
            }),
            &[],
            "web@east: web-federated\nweb@west: unknown",
        ),
    ] {
        let plan = plan(&state, &key());
        assert_eq!(described(&plan.writes), writes, "{situation}");
        assert_eq!(reported(&plan).join("\n"), reports, "{situation}");
    }
}

#[test]
fn annotations_name_the_members_in_a_fixed_order() {
    let some = |text: &str| Some(text.to_owned());
    for (state, expected) in [
        (both(&[web()], &[]), (some("web@east"), None)),
        (both(&[web()], &[web()]), (some("web@east,web@west"), None)),
        (both(&[], &[]).local_member(web()), (None, some("web"))),
        (
            both(&[], &[web()]).local_member(web()),
            (some("web@west"), some("web")),
        ),
    ] {
        assert_eq!(members(&state), expected);
    }
}

#[test]
fn labels_and_ports_are_those_of_the_local_member_or_of_the_oldest_link() {
    let of = |team: &str| web().label("team", team);
    let old_west = state().linked(aged("east", 2), &[of("east")], &[]).linked(
        aged("west", 1),
        &[of("west")],
        &[],
    );
    let tie = state().linked(aged("east", 1), &[of("east")], &[]).linked(
        aged("west", 1),
        &[of("west")],
        &[],
    );
    for (situation, state, team) in [
        (
            "3.5 the oldest Link",
            both(&[of("east")], &[of("west")]),
            "east",
        ),
        ("3.5 the oldest Link, whatever its name", old_west, "west"),
        ("a tie goes to the name", tie, "east"),
        (
            "3.5 the local one is always the oldest",
            both(&[of("east")], &[]).local_member(of("here")),
            "here",
        ),
        (
            "only the younger one has a member",
            both(&[], &[of("west")]),
            "west",
        ),
    ] {
        let state = state.worked_on(&key());
        let metadata = &state.existing("ns", "web-federated").unwrap().metadata;
        let labels = &metadata.labels;
        assert_eq!(labels.get("team"), Some(team), "{situation}");
        assert!(
            !labels.contains_key(l::CLUSTER_NAME),
            "{situation}: it is no cluster's"
        );
        assert_eq!(labels.get(l::MIRRORED_SERVICE), Some("true"), "{situation}");
    }
}

#[test]
fn when_the_oldest_member_leaves_the_next_members_labels_are_used_at_once() {
    let of = |team: &str| web().label("team", team);
    let before = both(&[of("east")], &[of("west")]).worked_on(&key());
    let plan = plan(&linked(before, &[], &[of("west")]), &key());
    let body = body(&plan.writes, "web-federated");
    assert_eq!(body["metadata"]["labels"]["team"], "west");
    assert_eq!(
        body["metadata"]["annotations"][l::REMOTE_DISCOVERY],
        "web@west"
    );
    assert_eq!(
        plan.confirm.len(),
        1,
        "east is asked again before it loses its place"
    );
    assert_eq!(plan.confirm[0].cluster, "east");
}

#[test]
fn while_the_oldest_member_cannot_be_seen_only_the_list_of_members_changes() {
    let of = |team: &str| web().label("team", team);
    let before = both(&[of("east")], &[]).worked_on(&key());
    let now =
        linked(before, &[of("east")], &[of("west")]).with_link("east", |entry| entry.remote = None);
    let plan = plan(&now, &key());
    let body = body(&plan.writes, "web-federated");
    assert_eq!(
        body["metadata"]["annotations"][l::REMOTE_DISCOVERY],
        "web@east,web@west"
    );
    assert_eq!(body["metadata"]["labels"]["team"], "east");
    assert_eq!(body.get("spec"), None);
}

#[test]
fn change_of_members_brings_the_label_back_that_somebody_took_away() {
    let before = both(&[web()], &[]).worked_on(&key());
    let now = linked(before, &[web()], &[web()])
        .edited("ns", "web-federated", |service| {
            service.metadata.labels.remove(l::MIRRORED_SERVICE);
        })
        .with_link("east", |entry| entry.remote = None);
    let body = body(&plan(&now, &key()).writes, "web-federated");
    assert_eq!(body["metadata"]["labels"][l::MIRRORED_SERVICE], "true");
    assert_eq!(body.get("spec"), None);
}

#[test]
fn members_of_a_deleted_link_leave() {
    let mut state = stands();
    state.links.remove("west");
    let plan = plan(&state, &key());
    let body = body(&plan.writes, "web-federated");
    assert_eq!(
        body["metadata"]["annotations"][l::REMOTE_DISCOVERY],
        "web@east"
    );
}

#[test]
fn federated_service_of_linkerd_is_deleted_once_all_its_members_have_left() {
    for (what, remote, local, selects_members, expected) in [
        ("its only cluster has left", "web@east", false, true, true),
        (
            "the same, and no local member is asked for",
            "web@east",
            false,
            false,
            true,
        ),
        ("a local member has left", "web@east", true, true, true),
        (
            "whether there is a local member is not known",
            "web@east",
            true,
            false,
            false,
        ),
        (
            "a cluster that no Link names",
            "web@east,web@north",
            false,
            true,
            false,
        ),
    ] {
        let mut standing = svc("web-federated")
            .label(l::MIRRORED_SERVICE, "true")
            .annotation(l::REMOTE_DISCOVERY, remote);
        if local {
            standing = standing.annotation(l::LOCAL_DISCOVERY, "web");
        }
        let mut state = both(&[], &[]).local(&[standing]);
        if !selects_members {
            state.config.local_members = None;
        }
        let writes = if expected { &DELETE[..] } else { &[] };
        assert_eq!(described(&plan(&state, &key()).writes), writes, "{what}");
    }
}

#[test]
fn federated_service_that_lost_its_metadata_is_repaired_in_place() {
    let state = stands().edited("ns", "web-federated", |service| {
        service.metadata.labels.remove(l::MIRRORED_SERVICE);
        service.metadata.annotations.remove(l::REMOTE_DISCOVERY);
    });
    assert_eq!(described(&plan(&state, &key()).writes), PATCH);
}

#[test]
fn federated_service_that_somebody_made_headless_is_replaced_once_all_members_are_seen() {
    let headless = |state: State| {
        state.edited("ns", "web-federated", |service| {
            service.spec.cluster_ip = Some("None".into());
        })
    };
    let without_west = |state: State| state.with_link("west", |entry| entry.remote = None);
    for (what, state, writes) in [
        ("all are seen", stands(), &DELETE[..]),
        ("one is not", without_west(stands()), &[]),
        (
            "one is not, and another one joins",
            without_west(stands().local_member(web())),
            &PATCH,
        ),
    ] {
        let writes_of = plan(&headless(state), &key()).writes;
        assert_eq!(described(&writes_of), writes, "{what}");
    }
}

#[test]
fn while_the_oldest_cluster_is_not_seen_only_a_change_of_members_is_written() {
    let unseen = |state: State| state.with_link("east", |entry| entry.remote = None);
    let unchanged = plan(&unseen(stands()), &key());
    assert_eq!(described(&unchanged.writes), [""; 0]);
    let joined = unseen(stands()).local_member(web());
    assert_eq!(described(&plan(&joined, &key()).writes), PATCH);
    let left = linked(stands(), &[web()], &[]);
    assert_eq!(described(&plan(&unseen(left), &key()).writes), PATCH);
}

#[test]
fn a_cluster_does_not_stay_a_member_under_another_services_name() {
    let state = stands()
        .edited("ns", "web-federated", |service| {
            let annotations = &mut service.metadata.annotations;
            annotations.insert(l::REMOTE_DISCOVERY, "api@east,web@");
        })
        .with_link("east", |entry| entry.remote = None)
        .with_link("west", |entry| entry.remote = None);
    assert_eq!(described(&plan(&state, &key()).writes), DELETE);
}

#[test]
fn stripped_slices_of_a_name_that_is_somebody_elses_do_not_keep_their_names() {
    let stripped = |service: bool| {
        let mut made = slice("web-federated", "east-ipv4");
        made.metadata.name = Some("web-federated.east-ipv4".into());
        made.metadata.owner_references = Box::default();
        let labels: &[(&str, &str)] = if service {
            &[
                (l::MIRRORED_SERVICE, "true"),
                (l::SLICE_SERVICE, "web-federated"),
            ]
        } else {
            &[(l::MIRRORED_SERVICE, "true")]
        };
        made.metadata.labels = map(labels);
        made.metadata.annotations = map(&[(l::MANAGED_BY, l::MANAGER), (l::INSTALLATION, LINKS)]);
        made
    };
    let deleted = ["delete EndpointSlice ns/web-federated.east-ipv4"];
    for (members, is_theirs, with_label) in [
        (true, true, false),
        (true, true, true),
        (false, false, false),
        (false, false, true),
    ] {
        let east: &[Svc] = if members { &[web()] } else { &[] };
        let mut state = both(east, &[]).local_slice(stripped(with_label));
        if is_theirs {
            let name = ("ns".to_owned(), "web-federated".to_owned());
            state.foreign.insert(name, "somebody".to_owned());
        }
        let found = described(&plan(&state, &key()).writes);
        assert_eq!(found, deleted, "{members} {is_theirs} {with_label}");
    }
}

#[test]
fn fields_of_the_oldest_member_stay_while_its_link_cannot_be_read() {
    let of = |team: &str, at| web().label("team", team).ports(vec![port("http", at)]);
    let two = || both(&[of("east", 80)], &[of("west", 81)]).worked_on(&key());
    let relabelled = |state: State| state.linked(aged("west", 2), &[of("blue", 81)], &[]);
    let from_east = |state: State| linked(state, &[of("blue", 80)], &[of("west", 81)]);
    for (what, state, writes) in [
        ("the older one", unreadable(two(), "east"), &[][..]),
        (
            "the older one, and the other member changes",
            relabelled(unreadable(two(), "east")),
            &[],
        ),
        ("the younger one", unreadable(two(), "west"), &[]),
        (
            "the younger one, and the oldest member changes",
            unreadable(from_east(two()), "west"),
            &PATCH,
        ),
    ] {
        assert_eq!(described(&plan(&state, &key()).writes), writes, "{what}");
    }
}
