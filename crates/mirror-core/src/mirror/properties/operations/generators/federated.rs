//! Histories of one federated Service.

use proptest::prelude::*;

use super::{
    super::{
        Allowed, ApiServer, CLUSTERS, DRAINED_UNTIL, Form, History, LINK_NAMES, LinkMade,
        Operation, PREFERENCES, ServiceMade,
    },
    addresses, beginning, broken_form, federation, limited, liveness, route_edit, slice_edit,
    through,
};

/// A Link to a cluster with a member of a federated Service, with a gateway or without, drained or not.
fn federating(link: usize) -> impl Strategy<Value = Operation> {
    federating_and_preferring(link, Just(0))
}

/// As [`federating`], with one of these preferences.
fn federating_and_preferring(
    link: usize,
    prefers: impl Strategy<Value = usize>,
) -> impl Strategy<Value = Operation> {
    let any = (
        0i64..3,
        any::<[bool; 3]>(),
        through(),
        federation(),
        prefers,
    );
    any.prop_map(
        move |(created, [gateway, drained, probe], through, federation, prefers)| {
            let made = LinkMade {
                cluster: link,
                created,
                form: Form::Valid,
                gateway,
                probe,
                headless: false,
                allowed: Allowed::All,
                federation,
                through,
                api: ApiServer::Direct,
                drained,
                prefers,
            };
            Operation::Link(link, Some(made))
        },
    )
}

/// Two clusters with members of one federated Service, which are drained and undrained.
pub(crate) fn drains(length: usize) -> impl Strategy<Value = History> {
    let service = (prop::bool::weighted(0.8), 0usize..3).prop_map(|(member, label)| ServiceMade {
        export: 0,
        member,
        form: 0,
        ports: 0,
        label,
        prefers: 0,
        to: 0,
    });
    let joins = |cluster: usize| {
        let service = service.clone();
        service.prop_map(move |made| Operation::Remote(cluster, 0, 0, Some(made)))
    };
    let act = prop_oneof![
        4 => (0usize..2).prop_flat_map(federating),
        1 => (0usize..2).prop_map(|link| Operation::Link(link, None)),
        4 => (0usize..2, prop::option::weighted(0.7, service.clone()))
            .prop_map(|(cluster, made)| Operation::Remote(cluster, 0, 0, made)),
        2 => prop::option::weighted(0.6, service.clone()).prop_map(|made| Operation::Member(0, 0, made)),
        4 => any::<bool>().prop_map(Operation::Clock),
        1 => (0usize..2, limited()).prop_map(|(link, limited)| Operation::Limit(link, limited)),
        1 => Just(Operation::Restart),
    ];
    let first = (federating(0), federating(1), joins(0), joins(1));
    let first = first.prop_map(|(one, two, here, there)| vec![one, two, here, there]);
    beginning(first, act, length)
}

/// Three clusters whose members join and leave one federated Service, and changes of their endpoints.
pub(crate) fn memberships(length: usize) -> impl Strategy<Value = History> {
    // All have a port for TCP: without one, the source of the ports would decide whether others have endpoints.
    let service = (prop::bool::weighted(0.7), 0usize..2, 0usize..3);
    let service = service.prop_map(|(member, ports, label)| ServiceMade {
        export: 0,
        member,
        form: 0,
        ports,
        label,
        prefers: 0,
        to: 0,
    });
    let hosts = prop::collection::vec((2usize..4, prop::bool::weighted(0.8)), 0..2);
    let act = prop_oneof![
        2 => (0..LINK_NAMES.len()).prop_flat_map(federating),
        1 => (0..LINK_NAMES.len()).prop_map(|link| Operation::Link(link, None)),
        8 => (0..CLUSTERS.len(), prop::option::weighted(0.7, service.clone()))
            .prop_map(|(cluster, made)| Operation::Remote(cluster, 0, 0, made)),
        3 => (0..CLUSTERS.len(), prop::option::weighted(0.8, hosts.clone()))
            .prop_map(|(cluster, hosts)| Operation::Slice(cluster, 0, 0, 0, hosts)),
        3 => prop::option::weighted(0.7, service.clone()).prop_map(|made| Operation::Member(0, 0, made)),
        3 => prop::option::weighted(0.8, hosts)
            .prop_map(|hosts| Operation::MemberSlice(0, 0, 0, hosts)),
        3 => (0..LINK_NAMES.len(), addresses(), liveness())
            .prop_map(|(link, addresses, liveness)| Operation::Gateway(link, addresses, liveness)),
        1 => any::<bool>().prop_map(Operation::Clock),
        1 => Just(Operation::Restart),
    ];
    let joins = move |cluster: usize| {
        let service = service.clone();
        service.prop_map(move |made| Operation::Remote(cluster, 0, 0, Some(made)))
    };
    let first = (
        federating(0),
        federating(1),
        federating(2),
        joins(0),
        joins(1),
    );
    let first = first.prop_map(|(one, two, three, here, there)| vec![one, two, three, here, there]);
    beginning(first, act, length)
}

/// A Link to one of three clusters, which may take part in a federated Service in any way, or in none.
fn linked(link: usize) -> impl Strategy<Value = Operation> {
    let own = prop_oneof![4 => Just(link), 1 => 0..LINK_NAMES.len()];
    let api = prop_oneof![
        Just(ApiServer::Direct),
        Just(ApiServer::Gateway),
        Just(ApiServer::Undiscovered)
    ];
    let form = prop_oneof![8 => Just(Form::Valid), 1 => broken_form()];
    let any = (
        own,
        prop_oneof![2 => 0i64..3, 3 => -1_000i64..-990, 1 => Just(DRAINED_UNTIL)],
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.3),
        through(),
        federation(),
        api,
        form,
    );
    any.prop_map(
        move |(cluster, created, gateway, drained, through, federation, api, form)| {
            let made = LinkMade {
                cluster,
                created,
                form,
                gateway,
                probe: false,
                headless: false,
                allowed: Allowed::All,
                federation,
                through,
                api,
                drained,
                prefers: 0,
            };
            Operation::Link(link, Some(made))
        },
    )
}

/// Whatever may take a member out of a federated Service, or let one join: members, Links that are applied, renamed,
/// replaced and deleted, drains, new clusters that wait, gateways, discovery, forms, limits and watches that begin again.
pub(crate) fn last_members(length: usize) -> impl Strategy<Value = History> {
    let service = (
        prop::bool::weighted(0.8),
        prop_oneof![6 => Just(0usize), 1 => 1usize..4],
    );
    let service = service.prop_map(|(member, form)| ServiceMade {
        export: 0,
        member,
        form,
        ports: 0,
        label: 0,
        prefers: 0,
        to: 0,
    });
    let joins = |cluster: usize| {
        let service = service.clone();
        service.prop_map(move |made| Operation::Remote(cluster, 0, 0, Some(made)))
    };
    let hosts = prop::collection::vec((2usize..4, prop::bool::weighted(0.8)), 0..2);
    let links = 0..LINK_NAMES.len();
    let act = prop_oneof![
        5 => links.clone().prop_flat_map(linked),
        3 => links.clone().prop_map(|link| Operation::Link(link, None)),
        6 => (links.clone(), prop::option::weighted(0.7, service.clone()))
            .prop_map(|(cluster, made)| Operation::Remote(cluster, 0, 0, made)),
        2 => (links.clone(), prop::option::weighted(0.8, hosts))
            .prop_map(|(cluster, hosts)| Operation::Slice(cluster, 0, 0, 0, hosts)),
        2 => prop::option::weighted(0.5, service.clone())
            .prop_map(|made| Operation::Member(0, 0, made)),
        2 => (links.clone(), addresses(), liveness())
            .prop_map(|(link, addresses, liveness)| Operation::Gateway(link, addresses, liveness)),
        1 => (links.clone(), limited()).prop_map(|(link, limited)| Operation::Limit(link, limited)),
        1 => links.prop_map(Operation::Refused),
        3 => any::<bool>().prop_map(Operation::Clock),
        1 => Just(Operation::Restart),
    ];
    let first = (linked(0), linked(1), joins(0), joins(1));
    let first = first.prop_map(|(one, two, here, there)| vec![one, two, here, there]);
    beginning(first, act, length)
}

/// Two clusters with members of one federated Service that have preferences, as their Links do, and changes
/// of their endpoints.
pub(crate) fn preferences(length: usize) -> impl Strategy<Value = History> {
    let service = (
        0usize..2,
        prop::bool::weighted(0.9),
        0usize..3,
        0..PREFERENCES.len(),
    );
    let service = service.prop_map(|(export, member, ports, prefers)| ServiceMade {
        export,
        member,
        form: 0,
        ports,
        label: 0,
        prefers,
        to: 0,
    });
    let linked = |link| federating_and_preferring(link, 0..PREFERENCES.len());
    let joins = |cluster: usize| {
        let service = service.clone();
        service.prop_map(move |made| Operation::Remote(cluster, 0, 0, Some(made)))
    };
    let hosts = prop::collection::vec((2usize..4, prop::bool::weighted(0.6)), 0..2);
    let act = prop_oneof![
        2 => (0usize..2).prop_flat_map(linked),
        1 => (0usize..2).prop_map(|link| Operation::Link(link, None)),
        3 => (0usize..2, prop::option::weighted(0.8, service.clone()))
            .prop_map(|(cluster, made)| Operation::Remote(cluster, 0, 0, made)),
        3 => (0usize..2, prop::option::weighted(0.9, hosts.clone()))
            .prop_map(|(cluster, hosts)| Operation::Slice(cluster, 0, 0, 0, hosts)),
        3 => prop::option::weighted(0.8, service.clone()).prop_map(|made| Operation::Member(0, 0, made)),
        4 => prop::option::weighted(0.9, hosts)
            .prop_map(|hosts| Operation::MemberSlice(0, 0, 0, hosts)),
        3 => (0usize..2, addresses(), liveness())
            .prop_map(|(link, addresses, liveness)| Operation::Gateway(link, addresses, liveness)),
        3 => any::<bool>().prop_map(Operation::Clock),
        1 => any::<bool>().prop_map(Operation::Route),
        1 => Just(Operation::DropRoutes),
        1 => prop::bool::weighted(0.6).prop_map(Operation::Served),
        2 => (0usize..8, prop_oneof![2 => route_edit(), 1 => slice_edit()])
            .prop_map(|(pick, edit)| Operation::Edit(pick, edit)),
        1 => any::<bool>().prop_map(Operation::Preferences),
        1 => (0usize..2, limited()).prop_map(|(link, limited)| Operation::Limit(link, limited)),
        1 => Just(Operation::Restart),
    ];
    let first = (linked(0), linked(1), joins(0), joins(1));
    let first = first.prop_map(|(one, two, here, there)| vec![one, two, here, there]);
    beginning(first, act, length)
}
