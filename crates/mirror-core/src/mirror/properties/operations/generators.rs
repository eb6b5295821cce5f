//! Generators of histories.

mod federated;

use proptest::prelude::*;

pub(crate) use self::federated::{drains, last_members, memberships, preferences};

use super::{
    Addresses, Allowed, ApiServer, CLUSTERS, CONSENTS, Edit, Form, HOSTS, History, LINK_NAMES,
    Limited, LinkMade, NAMES, NAMESPACES, Operation, ServiceMade, TEAMS,
};
use crate::mirror::{FederatedThrough, Federation, Liveness, NamespacePhase};

/// Share of valid Links.
const GOOD: f64 = 0.85;

pub(crate) fn local_name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..NAMES.len(), 0..CLUSTERS.len())
            .prop_map(|(name, cluster)| format!("{}-{}", NAMES[name], CLUSTERS[cluster])),
        2 => (0..NAMES.len()).prop_map(|name| format!("{}-federated", NAMES[name])),
        1 => (0..LINK_NAMES.len()).prop_map(|link| format!("probe-{}", LINK_NAMES[link])),
        1 => (0..LINK_NAMES.len()).prop_map(|link| format!("api-{}", LINK_NAMES[link])),
    ]
}

fn service_made() -> impl Strategy<Value = ServiceMade> {
    (
        prop_oneof![1 => Just(0usize), 4 => Just(1usize), 1 => Just(2usize)],
        prop::bool::weighted(0.4),
        prop_oneof![5 => Just(0usize), 4 => Just(1usize), 1 => 2usize..4],
        prop_oneof![4 => Just(0usize), 1 => 1usize..3],
        0usize..3,
        prop_oneof![4 => Just(0usize), 1 => 1..CONSENTS.len()],
    )
        .prop_map(|(export, member, form, ports, label, to)| ServiceMade {
            export,
            member,
            form,
            ports,
            label,
            prefers: 0,
            to,
        })
}

pub(crate) fn broken_form() -> impl Strategy<Value = Form> {
    prop_oneof![
        Just(Form::BadPort),
        Just(Form::BadName),
        Just(Form::Unreadable),
        Just(Form::Unknown),
    ]
}

fn allowed() -> impl Strategy<Value = Allowed> {
    prop_oneof![
        6 => Just(Allowed::All),
        2 => Just(Allowed::Team),
        1 => Just(Allowed::NoTeam),
        1 => Just(Allowed::Name),
    ]
}

fn federation() -> impl Strategy<Value = Federation> {
    prop_oneof![
        5 => Just(Federation::Any),
        3 => Just(Federation::LocalMembers),
        1 => Just(Federation::None),
    ]
}

fn through() -> impl Strategy<Value = FederatedThrough> {
    prop_oneof![
        Just(FederatedThrough::Discovery),
        Just(FederatedThrough::Gateway)
    ]
}

/// `good`: the share of valid Links, and of those with a gateway. If all are good, none is drained.
fn link_made(good: f64) -> impl Strategy<Value = LinkMade> {
    (
        0..CLUSTERS.len(),
        0i64..3,
        (prop::bool::weighted(good), broken_form()),
        prop::bool::weighted(good),
        prop::bool::weighted(0.6),
        prop::bool::weighted(0.7),
        (
            allowed(),
            federation(),
            through(),
            prop::bool::weighted((1.0 - good) * 2.0),
            prop::bool::weighted(0.3),
        ),
    )
        .prop_map(
            |(cluster, created, (valid, broken), gateway, probe, headless, policy)| LinkMade {
                cluster,
                created,
                form: if valid { Form::Valid } else { broken },
                gateway,
                probe,
                headless,
                allowed: policy.0,
                federation: policy.1,
                through: policy.2,
                api: if policy.4 {
                    ApiServer::Gateway
                } else {
                    ApiServer::Direct
                },
                drained: policy.3,
                prefers: 0,
            },
        )
}

fn within() -> impl Strategy<Value = usize> {
    prop_oneof![16 => Just(0usize), 1 => Just(1usize), 2 => Just(2usize), 1 => Just(3usize)]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![10 => service_edit(), 4 => slice_edit()]
}

/// Changes of Services.
fn service_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::StripCluster),
        (0..CLUSTERS.len()).prop_map(Edit::MoveCluster),
        Just(Edit::StripMirrored),
        Just(Edit::StripHeadless),
        Just(Edit::Unmanage),
        Just(Edit::Disown),
        Just(Edit::Junk),
        Just(Edit::Unrecord),
        Just(Edit::Relabel),
        Just(Edit::Ports),
        Just(Edit::Tokens),
    ]
}

/// Changes of slices.
pub(crate) fn slice_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::SliceEndpoints),
        Just(Edit::SliceLabels),
        Just(Edit::SliceService),
        Just(Edit::SliceOwner),
        Just(Edit::SliceOwners),
        Just(Edit::SecondOwner),
        Just(Edit::SliceAnnotations),
        Just(Edit::SliceJunk),
    ]
}

/// Changes of routes.
pub(crate) fn route_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::RouteOwner),
        Just(Edit::RouteLabel),
        Just(Edit::RouteAnnotations),
        Just(Edit::RouteJunk),
    ]
}

/// Changes of the desired state: Links, target clusters, members.
fn wish(good: f64) -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (0..LINK_NAMES.len(), prop::option::weighted(0.8, link_made(good)))
            .prop_map(|(link, made)| Operation::Link(link, made)),
        8 => (0..CLUSTERS.len(), within(), 0..NAMES.len(), prop::option::weighted(0.75, service_made()))
            .prop_map(|(c, n, s, made)| Operation::Remote(c, n, s, made)),
        6 => (
            0..CLUSTERS.len(),
            within(),
            0..NAMES.len(),
            0usize..2,
            prop::option::weighted(0.8, prop::collection::vec((0..HOSTS.len() + 1, prop::bool::weighted(0.8)), 0..3)),
        )
            .prop_map(|(c, n, s, i, hosts)| Operation::Slice(c, n, s, i, hosts)),
        2 => (within(), 0..NAMES.len(), prop::option::weighted(0.7, service_made()))
            .prop_map(|(n, s, made)| Operation::Member(n, s, made)),
        2 => (
            within(),
            0..NAMES.len(),
            0usize..2,
            prop::option::weighted(0.8, prop::collection::vec((0..HOSTS.len() + 1, prop::bool::weighted(0.8)), 0..3)),
        )
            .prop_map(|(n, s, i, hosts)| Operation::MemberSlice(n, s, i, hosts)),
        2 => (within(), prop::option::weighted(0.7, 0..TEAMS.len()))
            .prop_map(|(n, team)| Operation::Label(n, team)),
    ]
}

pub(crate) fn limited() -> impl Strategy<Value = Limited> {
    prop_oneof![
        Just(Limited::No),
        Just(Limited::Services),
        Just(Limited::Unnamed),
        Just(Limited::Slices),
    ]
}

pub(crate) fn liveness() -> impl Strategy<Value = Liveness> {
    prop_oneof![
        Just(Liveness::Unknown),
        Just(Liveness::Alive),
        Just(Liveness::Dead)
    ]
}

pub(crate) fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        Just(Addresses::Unresolved),
        Just(Addresses::Empty),
        Just(Addresses::V4),
        Just(Addresses::Dual),
        Just(Addresses::Mixed),
        Just(Addresses::Refused)
    ]
}

/// Changes of what is known of target clusters.
fn news() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (0..LINK_NAMES.len(), addresses(), liveness())
            .prop_map(|(link, addresses, liveness)| Operation::Gateway(link, addresses, liveness)),
        2 => (0..LINK_NAMES.len(), limited()).prop_map(|(link, limited)| Operation::Limit(link, limited)),
        1 => (0..LINK_NAMES.len()).prop_map(Operation::Refused),
        1 => any::<bool>().prop_map(Operation::Networks),
        2 => any::<bool>().prop_map(Operation::Clock),
    ]
}

/// Changes of what is in the local cluster.
fn meddling() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0usize..8, edit()).prop_map(|(pick, edit)| Operation::Edit(pick, edit)),
        2 => (0usize..8).prop_map(Operation::Delete),
        2 => (within(), local_name(), any::<bool>()).prop_map(|(n, s, on)| Operation::Stranger(n, s, on)),
        2 => (0..CLUSTERS.len(), within(), 0..NAMES.len(), any::<bool>())
            .prop_map(|(c, n, s, federated)| Operation::Legacy(c, n, s, federated)),
        1 => (0..CLUSTERS.len(), within(), 0..NAMES.len(), any::<bool>())
            .prop_map(|(c, n, s, federated)| Operation::Theirs(c, n, s, federated)),
        1 => (
            0..NAMESPACES.len(),
            prop_oneof![
                Just(None),
                Just(Some(NamespacePhase::Active)),
                Just(Some(NamespacePhase::Terminating))
            ]
        )
            .prop_map(|(n, phase)| Operation::Namespace(n, phase)),
        1 => Just(Operation::Restart),
        1 => Just(Operation::Collect),
    ]
}

/// Two Links, which are usually valid, and then any operations.
pub(crate) fn history(length: usize) -> impl Strategy<Value = History> {
    let linked = (link_made(GOOD), link_made(GOOD), any::<bool>()).prop_map(|(one, two, both)| {
        let mut acts = vec![Operation::Link(0, Some(one))];
        if both {
            acts.push(Operation::Link(1, Some(two)));
        }
        acts
    });
    let act = prop_oneof![12 => wish(GOOD), 3 => news(), 6 => meddling()];
    beginning(linked, act, length)
}

/// These operations first, then fewer than `length` others.
fn beginning(
    first: impl Strategy<Value = Vec<Operation>>,
    act: impl Strategy<Value = Operation>,
    length: usize,
) -> impl Strategy<Value = History> {
    (first, prop::collection::vec(act, 1..length)).prop_map(|(mut acts, more)| {
        acts.extend(more);
        History(acts)
    })
}

/// As [`history`], without operations after which the final state depends on earlier states: see `properties.rs`.
pub(crate) fn plain_history(length: usize) -> impl Strategy<Value = History> {
    let act = prop_oneof![4 => wish(1.0), 2 => meddling()];
    prop::collection::vec(act, 1..length).prop_map(History)
}

/// Clusters whose Services, hosts and federated Services all claim the same few names.
pub(crate) fn crowd(length: usize) -> impl Strategy<Value = History> {
    let linked = |link: usize| {
        let cluster = prop_oneof![2 => Just(link), 1 => Just(2usize), 1 => Just(3usize)];
        let any = (cluster, 0i64..3, any::<bool>(), through());
        any.prop_map(move |(cluster, created, headless, through)| {
            let made = LinkMade {
                cluster,
                created,
                form: Form::Valid,
                gateway: true,
                probe: false,
                headless,
                allowed: Allowed::All,
                federation: Federation::Any,
                through,
                api: ApiServer::Direct,
                drained: false,
                prefers: 0,
            };
            Operation::Link(link, Some(made))
        })
    };
    let service =
        (0usize..3, any::<bool>(), 0usize..2).prop_map(|(export, member, form)| ServiceMade {
            export: export.min(1),
            member,
            form,
            ports: 0,
            label: 0,
            prefers: 0,
            to: 0,
        });
    let hosts = prop::collection::vec((0usize..2, prop::bool::weighted(0.8)), 0..3);
    let act = prop_oneof![
        8 => (0..CLUSTERS.len(), 0usize..3, prop::option::weighted(0.6, service.clone()))
            .prop_map(|(c, s, made)| Operation::Remote(c, 0, s, made)),
        6 => (0..CLUSTERS.len(), 0usize..3, 0usize..2, prop::option::weighted(0.6, hosts))
            .prop_map(|(c, s, i, hosts)| Operation::Slice(c, 0, s, i, hosts)),
        2 => (0..CLUSTERS.len(), 0usize..3).prop_map(|(c, s)| Operation::Legacy(c, 0, s, false)),
        2 => (0usize..2, prop::option::weighted(0.5, service))
            .prop_map(|(s, made)| Operation::Member(0, s, made)),
        1 => (0usize..2).prop_flat_map(linked),
        1 => (0usize..2).prop_map(|link| Operation::Link(link, None)),
        2 => (0usize..8).prop_map(Operation::Delete),
    ];
    let first = (linked(0), linked(1)).prop_map(|(one, two)| vec![one, two]);
    beginning(first, act, length)
}
