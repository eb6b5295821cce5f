//! Into which namespaces target clusters may mirror, and which federated Services they may join.

use super::*;
use crate::{
    api::map::Map,
    mirror::{
        InvalidLink, Key, Namespace, NamespacePhase, Plan,
        fixtures::{
            LINKS, NS, Svc, backing, body, described, entry, hosts, link, map, omitted, plan,
            plan_unconfirmed, reported, state, svc, target,
        },
    },
};

/// The Link to a cluster, with these annotations.
fn with(cluster: &str, annotations: &[(&str, &str)]) -> Target {
    parse(cluster, annotations).unwrap()
}

fn parse(cluster: &str, annotations: &[(&str, &str)]) -> Result<Target, InvalidLink> {
    let mut made = link(cluster);
    let pairs = annotations.iter();
    let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    made.metadata.annotations = Some(pairs.collect());
    Target::parse(&made, true)
}

fn allowing(cluster: &str, selector: &str) -> Target {
    with(cluster, &[(l::ALLOWED_NAMESPACES, selector)])
}

fn joining(cluster: &str, federation: &str) -> Target {
    with(cluster, &[(l::FEDERATION, federation)])
}

/// The state with these labels on the namespace of Services.
fn labelled(mut state: State, labels: &[(&str, &str)]) -> State {
    let now = Namespace::new(NamespacePhase::Active, labels.iter().copied());
    state.change_namespace(NS, Some(now));
    state
}

fn web() -> Svc {
    svc("web").exported()
}

fn exporting(target: Target) -> State {
    state().linked(target, &[web()], &[backing("web")])
}

fn mirror_plan(state: &State, namespace: &str) -> Plan {
    plan(state, &Key::mirror("east", namespace, "web"))
}

/// The writes of a plan of the mirror, in a state in which the mirror exists.
fn leaving(state: &State) -> Vec<String> {
    let plan = mirror_plan(state, NS);
    assert_eq!(plan.confirm, [], "the target cluster has no say in it");
    described(&plan.writes)
}

const GONE: [&str; 2] = [
    "delete EndpointSlice ns/web-east-ipv4",
    "delete Service ns/web-east",
];

#[test]
fn a_link_says_which_namespaces_it_allows_and_which_federated_services() {
    let plain = target("east");
    assert_eq!(plain.allowed_namespaces, None);
    assert_eq!(plain.federation, Federation::Any);
    let allowed = allowing("east", " team in (a, b),!closed");
    let query = allowed.allowed_namespaces.map(|selector| selector.query());
    assert_eq!(query.as_deref(), Some("team in (a,b),!closed"));
    for federation in Federation::ALL {
        let text = format!(" {} ", federation.as_str());
        assert_eq!(joining("east", &text).federation, federation);
    }
    for (key, text, why) in [
        (
            l::ALLOWED_NAMESPACES,
            "",
            "it is empty (leave it out to allow all namespaces that are not protected)",
        ),
        (
            l::ALLOWED_NAMESPACES,
            " ",
            "it is empty (leave it out to allow all namespaces that are not protected)",
        ),
        (
            l::ALLOWED_NAMESPACES,
            "team in a",
            "\"in\" requires a list of values, such as: key in (a, b)",
        ),
        (l::ALLOWED_NAMESPACES, "*", "invalid label key \"*\""),
        (
            l::FEDERATION,
            "",
            "invalid value \"\" (use any, local-members or none)",
        ),
        (
            l::FEDERATION,
            "all",
            "invalid value \"all\" (use any, local-members or none)",
        ),
    ] {
        let error = parse("east", &[(key, text)]).unwrap_err();
        let expected = format!("invalid annotation {key}: {why}");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn namespaces_are_allowed_by_their_labels_and_their_name() {
    let labels = map(&[("team", "a")]);
    let none = Map::default();
    for (selector, labels, allowed) in [
        ("team=a", &labels, true),
        ("team=b", &labels, false),
        ("team", &labels, true),
        ("!team", &labels, false),
        ("!team", &none, true),
        ("team", &none, false),
        ("kubernetes.io/metadata.name in (ns,shop)", &none, true),
        ("kubernetes.io/metadata.name=shop", &labels, false),
        ("kubernetes.io/metadata.name notin (ns)", &none, false),
        ("kubernetes.io/metadata.name=ns,team=a", &labels, true),
    ] {
        let state = labelled(state(), &labels.iter().collect::<Vec<_>>());
        let forbidden = state.forbids(&allowing("east", selector), NS);
        let expected = (!allowed).then_some(Forbidden::Namespace);
        assert_eq!(forbidden, expected, "{selector} {labels:?}");
    }
    // A namespace that does not exist has its name as its only label.
    for (selector, allowed) in [
        ("kubernetes.io/metadata.name=new", true),
        ("!team", true),
        ("team", false),
    ] {
        let forbidden = state().forbids(&allowing("east", selector), "new");
        assert_eq!(forbidden.is_none(), allowed, "{selector}");
    }
}

#[test]
fn no_link_allows_a_protected_namespace() {
    let mut state = state();
    state.config.protected_namespaces = ["kube-system".to_owned()].into();
    for namespace in ["kube-system", LINKS] {
        let name = format!("kubernetes.io/metadata.name={namespace}");
        for target in [target("east"), allowing("east", &name)] {
            let forbidden = state.forbids(&target, namespace);
            assert_eq!(forbidden, Some(Forbidden::Protected), "{namespace}");
        }
    }
    state.config.protected_namespaces.clear();
    assert_eq!(state.forbids(&target("east"), "kube-system"), None);
    assert_eq!(
        state.forbids(&target("east"), LINKS),
        Some(Forbidden::Protected)
    );
}

#[test]
fn a_service_is_mirrored_where_its_link_allows_it() {
    let at_team = labelled(exporting(allowing("east", "team=a")), &[("team", "a")]);
    let made = mirror_plan(&at_team, NS);
    assert_eq!(reported(&made), ["web@east: web-east"]);
    let stands = at_team.worked_on(&Key::mirror("east", NS, "web"));
    assert_eq!(leaving(&stands), [""; 0]);

    let moved = labelled(stands, &[("team", "b")]);
    assert_eq!(leaving(&moved), GONE);
    let why = "web@east: NamespaceNotAllowed: the Link does not allow namespace ns \
               (annotation multicluster.linkerd.io/allowed-namespaces)";
    assert_eq!(reported(&mirror_plan(&moved, NS)), [why]);
    // This does not depend on what is known of its cluster.
    let unseen = moved.clone().with_link("east", |entry| entry.remote = None);
    assert_eq!(leaving(&unseen), GONE);
    assert_eq!(reported(&mirror_plan(&unseen, NS)), ["web@east: unknown"]);
    let withdrawn = moved.clone().with_link("east", |entry| {
        entry.remote = self::entry(target("east")).remote;
    });
    assert_eq!(leaving(&withdrawn), GONE);
    assert_eq!(reported(&mirror_plan(&withdrawn, NS)), ["web@east: absent"]);
    let omitting = withdrawn.with_link("east", |entry| {
        let remote = entry.remote.as_mut().unwrap();
        remote.omitted = vec![omitted("web", true)];
    });
    assert_eq!(leaving(&omitting), GONE);
    // Once the mirror is deleted, nothing is left to do, and the report is the same.
    let mut settled = moved.without_slices();
    settled.here().mirrors = crate::mirror::Store::default();
    assert_eq!(leaving(&settled), [""; 0]);
    assert_eq!(reported(&mirror_plan(&settled, NS)), [why]);
}

#[test]
fn mirrors_of_unreadable_links_are_removed_from_protected_namespaces_too() {
    let key = Key::mirror("east", NS, "web");
    let mut stands = exporting(target("east")).worked_on(&key);
    let invalid = InvalidLink::Unreadable("x".to_owned());
    stands.config.protected_namespaces = [NS.to_owned()].into();
    let why = "web@east: NamespaceNotAllowed: namespace ns is protected from all target clusters";
    assert_eq!(leaving(&stands), GONE);
    assert_eq!(reported(&mirror_plan(&stands, NS)), [why]);
    let mut unreadable = stands.with_link("east", |entry| entry.target = Err(invalid));
    assert_eq!(leaving(&unreadable), GONE);
    unreadable.config.protected_namespaces.clear();
    assert_eq!(leaving(&unreadable), [""; 0]);
}

#[test]
fn forbidden_services_claim_no_name() {
    // The host `web` of `db` has the name of the mirror of `web`.
    let db = svc("db").exported().headless();
    let hosts = hosts("db", &["web", "db-0"]);
    let both = state().linked(
        allowing("east", "team=a"),
        &[web(), db],
        &[backing("web"), hosts],
    );
    for name in ["web-east", "db-0-east"] {
        assert!(!both.is_wanted(NS, name), "{name}");
    }
    let allowed = labelled(both, &[("team", "a")]);
    for name in ["web-east", "db-0-east"] {
        assert!(allowed.is_wanted(NS, name), "{name}");
    }
    // If one of two claims to a name is forbidden, the other gets the name.
    let east = state().linked(
        allowing("c", "team=a"),
        &[svc("a-b").exported()],
        &[backing("a-b")],
    );
    let two = east.linked(target("b-c"), &[svc("a").exported()], &[backing("a")]);
    assert_eq!(
        reported(&plan(&two, &Key::mirror("b-c", NS, "a"))),
        ["a@b-c: a-b-c"]
    );
}

#[test]
fn labels_of_a_namespace_concern_all_keys_in_it() {
    let mut state = exporting(allowing("east", "team=a"));
    let now = |labels: &[(&str, &str)]| {
        Some(Namespace::new(
            NamespacePhase::Active,
            labels.iter().copied(),
        ))
    };
    let keys = state.change_namespace(NS, now(&[("team", "a")])).unwrap();
    assert!(keys.contains(&Key::mirror("east", NS, "web")), "{keys:?}");
    assert!(keys.contains(&Key::federated(NS, "web")), "{keys:?}");
    let name = (l::NAMESPACE_NAME, NS);
    assert_eq!(
        state.change_namespace(NS, now(&[("team", "a"), name])),
        None
    );
    assert!(state.change_namespace(NS, None).is_some());
    assert_eq!(state.change_namespace(NS, None), None);
}

/// The report of the federated Service of `web` in this state, and its members once it was reconciled.
fn federated(state: &State) -> (Vec<String>, Option<String>) {
    let key = Key::federated(NS, "web");
    let reports = reported(&plan(state, &key));
    let after = state.clone().worked_on(&key);
    let made = after.existing(NS, "web-federated").map(|made| {
        let members = [l::LOCAL_DISCOVERY, l::REMOTE_DISCOVERY];
        members.map(|key| made.metadata.annotation(key)).join(" ")
    });
    (reports, made)
}

#[test]
fn a_cluster_joins_the_federated_services_that_its_link_allows() {
    let member = || svc("web").member();
    let alone = |federation| state().linked(joining("east", federation), &[member()], &[]);
    let beside = |federation| alone(federation).local_member(member());
    let joined = "web@east: web-federated".to_owned();
    let no_local = "web@east: FederationNotAllowed: the Link allows only federated Services with a local member, and \
                    ns/web is not one (annotation multicluster.linkerd.io/federation)"
        .to_owned();
    let none = "web@east: FederationNotAllowed: the Link does not allow federated Services \
                (annotation multicluster.linkerd.io/federation)"
        .to_owned();
    for (state, reports, members) in [
        (alone("any"), &joined, Some(" web@east")),
        (alone("local-members"), &no_local, None),
        (alone("none"), &none, None),
        (beside("any"), &joined, Some("web web@east")),
        (beside("local-members"), &joined, Some("web web@east")),
        (beside("none"), &none, Some("web ")),
    ] {
        let (described, made) = federated(&state);
        assert_eq!(described, [reports.as_str()]);
        assert_eq!(made.as_deref(), members, "{reports}");
    }
    // A cluster that may not join claims no name.
    assert!(!alone("local-members").is_wanted(NS, "web-federated"));
    assert!(beside("local-members").is_wanted(NS, "web-federated"));
    // Nothing is reported for a Service that is not a member, or that cannot be seen.
    for federation in ["local-members", "none"] {
        let unseen = alone(federation).with_link("east", |entry| entry.remote = None);
        assert_eq!(federated(&unseen).0, ["web@east: unknown"]);
        let without = state().linked(joining("east", federation), &[], &[]);
        assert_eq!(federated(&without).0, ["web@east: absent"]);
    }
    // A local Service that cannot be a member does not allow others to join.
    let headless = alone("local-members").local_member(member().headless());
    assert_eq!(federated(&headless), (vec![no_local], None));
}

#[test]
fn members_that_are_no_longer_allowed_leave_at_once() {
    let member = || svc("web").member();
    let key = Key::federated(NS, "web");
    let three = state()
        .linked(joining("east", "local-members"), &[member()], &[])
        .linked(target("north"), &[member()], &[])
        .linked(target("west"), &[member()], &[])
        .local_member(member())
        .worked_on(&key);
    let (_, all) = federated(&three);
    assert_eq!(all.as_deref(), Some("web web@east,web@north,web@west"));

    // The last local member is deleted. That of north is too, which north has to confirm.
    let mut left = three.with_link("north", |entry| {
        entry.remote = self::entry(target("north")).remote;
    });
    left.here().members = crate::mirror::Store::default();
    let first = plan_unconfirmed(&left, &key);
    let asked: Vec<_> = first.confirm.iter().map(|of| of.cluster.as_str()).collect();
    assert_eq!(asked, ["north"], "east leaves without asking anybody");
    let patch = body(&first.writes, "web-federated");
    let members = &patch["metadata"]["annotations"][l::REMOTE_DISCOVERY];
    assert_eq!(members, "web@north,web@west");
    let left = left.edited(NS, "web-federated", |service| {
        let annotations = &mut service.metadata.annotations;
        annotations.insert(l::REMOTE_DISCOVERY, "web@north,web@west");
        annotations.remove(l::LOCAL_DISCOVERY);
    });
    assert_eq!(plan_unconfirmed(&left, &key).writes, []);
    let patch = body(&plan(&left, &key).writes, "web-federated");
    let members = &patch["metadata"]["annotations"][l::REMOTE_DISCOVERY];
    assert_eq!(members, "web@west");
}

#[test]
fn a_protected_namespace_has_no_federated_service() {
    let key = Key::federated(NS, "web");
    let member = || svc("web").member();
    let mut stands = state()
        .linked(target("east"), &[member()], &[])
        .local_member(member())
        .worked_on(&key);
    stands.config.protected_namespaces = [NS.to_owned()].into();
    let protected = plan(&stands, &key);
    let gone = ["delete Service ns/web-federated"];
    assert_eq!(described(&protected.writes), gone);
    assert_eq!(protected.confirm, []);
    let why = "web@east: NamespaceNotAllowed: namespace ns is protected from all target clusters";
    assert_eq!(reported(&protected), [why]);
    // The same holds if the Link cannot be read.
    let invalid = InvalidLink::Unreadable("x".to_owned());
    let unreadable = stands.with_link("east", |entry| entry.target = Err(invalid));
    assert_eq!(described(&plan(&unreadable, &key).writes), gone);
}

#[test]
fn namespaces_are_created_up_to_the_limit_of_the_link() {
    let created = |name: &str, cluster: &str| {
        let labels = [(l::MIRRORED_SERVICE, "true"), (l::CLUSTER_NAME, cluster)];
        let namespace = Namespace::new(NamespacePhase::Active, labels);
        (name.to_owned(), Some(namespace))
    };
    let elsewhere = web().within("new");
    let mut state = state().linked(target("east"), &[elsewhere], &[]);
    state.config.max_namespaces = 2;
    for (name, namespace) in [
        created("one", "east"),
        created("other", "west"),
        ("mine".to_owned(), Some(NamespacePhase::Active.into())),
    ] {
        state.change_namespace(&name, namespace);
    }
    let writes = |state: &State| described(&mirror_plan(state, "new").writes);
    assert!(writes(&state).contains(&"create Namespace /new".to_owned()));

    let (name, namespace) = created("two", "east");
    state.change_namespace(&name, namespace.clone());
    assert_eq!(writes(&state), [""; 0]);
    let why = "web@east: LimitExceeded: namespace new does not exist, and the Link's limit of 2 created namespaces is reached";
    assert_eq!(reported(&mirror_plan(&state, "new")), [why]);

    // A namespace that is deleted, or is no longer ours, makes room. The keys that wait for this are returned.
    let waiting = Key::mirror("east", "new", "web");
    for now in [None, Some(NamespacePhase::Active.into())] {
        let mut state = state.clone();
        let keys = state.change_namespace("two", now).unwrap();
        assert!(keys.contains(&waiting), "{keys:?}");
        let federated = Key::federated("new", "web");
        assert!(keys.contains(&federated), "{keys:?}");
        assert!(writes(&state).contains(&"create Namespace /new".to_owned()));
        assert!(!state.may_create_namespace("east", 1));
    }
    let keys = state.change_namespace("other", None).unwrap();
    assert_eq!(keys, []);
}

#[test]
fn the_namespace_of_a_federated_service_is_created_for_a_member_that_has_room() {
    let member = || svc("web").member().within("new");
    let mut state =
        state()
            .linked(target("east"), &[member()], &[])
            .linked(target("west"), &[member()], &[]);
    state.config.max_namespaces = 1;
    let created_for = |state: &State| {
        let plan = plan(state, &Key::federated("new", "web"));
        let labels = plan.creates_namespace().map(|(_, labels)| labels.clone());
        labels.map(|labels| labels.get(l::CLUSTER_NAME).unwrap().to_owned())
    };
    for (cluster, next) in [("east", Some("west")), ("west", None)] {
        assert_eq!(created_for(&state).as_deref(), Some(cluster));
        let labels = [(l::MIRRORED_SERVICE, "true"), (l::CLUSTER_NAME, cluster)];
        let full = format!("of-{cluster}");
        state.created_namespace(&full, labels.into());
        assert_eq!(created_for(&state).as_deref(), next);
    }
}
