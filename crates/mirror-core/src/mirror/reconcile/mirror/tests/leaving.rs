//! Which mirrors are removed, and which stay because their Service cannot be seen.

use std::sync::Arc;

use super::{DELETE, has, hold, key, stands, then, unlinked, web};
use crate::{
    api::labels as l,
    mirror::{
        InvalidLink, State,
        fixtures::{
            described, omitted, plan, plan_unconfirmed, reported, slice, state, svc, target,
        },
    },
};

#[test]
fn mirrors_are_removed_unless_their_service_cannot_be_seen() {
    let absent = "web@east: absent";
    let links_own = || svc("web-east").mirrored_by_linkerd("east", "web");
    let unreadable = |state: State| {
        state.with_link("east", |entry| {
            entry.target = Err(InvalidLink::GatewayPort("x".to_owned()));
        })
    };
    let limited = |state: State, named: bool| {
        state.with_link("east", |entry| {
            entry.remote.as_mut().unwrap().omitted = vec![omitted("web", named)];
        })
    };
    let unexported = || state().linked(target("east"), &[svc("web")], &[]);
    let stray = |service: &str| {
        svc("web-east")
            .annotation(l::MANAGED_BY, l::MANAGER)
            .annotation(
                l::REMOTE_FQ_NAME,
                &format!("{service}.ns.svc.cluster.local"),
            )
    };
    // Kubernetes deletes a slice with its owner, and only then.
    let stripped = |mut state: State, owned: bool| {
        let mut slice = state.local_slices("ns", "web-east")[0].as_ref().clone();
        slice.metadata.labels.remove(l::CLUSTER_NAME);
        if !owned {
            slice.metadata.owner_references = Box::default();
        }
        state.here().slices.put(Arc::new(slice));
        state
    };
    // A mirror that does not name its installation.
    let unclaimed = |state: State| {
        state.edited("ns", "web-east", |service| {
            service.metadata.annotations.remove(l::INSTALLATION);
        })
    };
    hold(vec![
        (
            "3.2 unexported",
            then(web(), &[svc("web")], true),
            &DELETE,
            absent,
        ),
        ("3.2 deleted", then(web(), &[], true), &DELETE, absent),
        ("never exported", has(svc("web")), &[], absent),
        ("the Link was deleted", unlinked(stands()), &DELETE, ""),
        (
            "somebody removed the slice's cluster",
            stripped(unlinked(stands()), true),
            &DELETE[1..],
            "",
        ),
        (
            "somebody removed the slice's cluster and owner",
            stripped(unlinked(stands()), false),
            &DELETE,
            "",
        ),
        (
            "the Link of a mirror of Linkerd's service mirror was deleted",
            unlinked(state().local(&[links_own()])),
            &[],
            "",
        ),
        (
            "Linkerd's service mirror made it, and it is unexported",
            unexported().local(&[links_own()]),
            &["delete Endpoints ns/web-east", "delete Service ns/web-east"],
            absent,
        ),
        (
            "it names no installation, and is unexported",
            unclaimed(then(web(), &[svc("web")], true)),
            &DELETE,
            absent,
        ),
        (
            "it names no installation, and the Link was deleted",
            unlinked(unclaimed(stands())),
            &[],
            "",
        ),
        (
            "it lost its labels, and was written for this Service",
            unexported().local(&[stray("web")]),
            &["delete Service ns/web-east"],
            absent,
        ),
        (
            "it lost its labels, and was written for another Service",
            unexported().local(&[stray("api")]),
            &[],
            absent,
        ),
        ("the Link cannot be read now", unreadable(stands()), &[], ""),
        (
            "the target cluster cannot be seen yet",
            stands().with_link("east", |entry| entry.remote = None),
            &[],
            "web@east: unknown",
        ),
        (
            "beyond the limit absence says nothing",
            limited(then(web(), &[], true), false),
            &[],
            "web@east: unknown",
        ),
        (
            "Services that the limit omits stay, and are reported",
            limited(then(web(), &[], true), true),
            &[],
            "web@east: LimitExceeded: not mirrored: the cluster exports more than the limit",
        ),
        (
            "a user's Service of that name",
            state()
                .linked(target("east"), &[], &[])
                .local(&[svc("web-east").label(l::MIRRORED_SERVICE, "true")]),
            &[],
            absent,
        ),
    ]);
}

#[test]
fn only_our_slices_for_this_cluster_are_deleted_with_a_mirror() {
    for (what, by, cluster, installation, goes) in [
        ("ours", l::MANAGER, "east", "mc", true),
        (
            "ours, for another cluster",
            l::MANAGER,
            "north",
            "mc",
            false,
        ),
        (
            "another installation's",
            l::MANAGER,
            "east",
            "elsewhere",
            false,
        ),
        ("somebody else's, with our label", "me", "east", "mc", false),
        ("somebody else's", "me", "me", "mc", false),
    ] {
        let mut another = slice("web-east", "another");
        let metadata = &mut another.metadata;
        metadata.labels.insert(l::SLICE_MANAGED_BY, by);
        metadata.labels.insert(l::CLUSTER_NAME, cluster);
        metadata.annotations.insert(l::INSTALLATION, installation);
        let state = then(web(), &[], true).local_slice(another);
        let mut expected = DELETE.to_vec();
        if goes {
            expected.insert(0, "delete EndpointSlice ns/web-east-another");
        }
        assert_eq!(described(&plan(&state, &key()).writes), expected, "{what}");
    }
}

#[test]
fn nothing_is_removed_before_the_target_cluster_confirms_it() {
    let gone = plan(&then(web(), &[], true), &key());
    let asked: Vec<&str> = gone
        .confirm
        .iter()
        .map(|remote| remote.service.as_str())
        .collect();
    assert_eq!(asked, ["web"]);
    let waits = plan_unconfirmed(&then(web(), &[], true), &key());
    assert_eq!((waits.writes.len(), &waits.confirm), (0, &gone.confirm));
    assert_eq!(reported(&waits), ["web@east: unknown"]);
    let kept = plan_unconfirmed(&stands(), &key());
    assert_eq!(kept.confirm, []);
}
