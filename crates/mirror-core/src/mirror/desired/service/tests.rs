//! Mirror Services: their contents, and which differences are written.

use super::*;
use crate::mirror::fixtures::{Svc, link, map, port, svc, target};

/// What an edit does, and the edit of a Service.
type Edit = (&'static str, fn(&mut Service));

/// The mirror in gateway mode, as it is created.
fn made(remote: &Service, headless: bool) -> Service {
    mirror(
        "mc",
        &target("east"),
        remote,
        MirrorMode::Gateway,
        "web-east",
        headless,
    )
    .service()
}

fn ours(service: &Service, key: &str) -> Option<String> {
    service.metadata.annotations.get(key).map(str::to_owned)
}

#[test]
fn labels_and_annotations_are_those_of_linkerds_service_mirror() {
    let mut made = link("east");
    made.spec.excluded_labels = vec!["private/*".to_owned()];
    made.spec.excluded_annotations = vec!["private/*".to_owned(), l::OPAQUE_PORTS.to_owned()];
    let target = Target::parse(&made, false).unwrap();
    let remote = svc("web")
        .exported()
        .label("team", "a")
        .label("private/x", "1")
        .annotation("note", "b")
        .annotation("private/x", "1")
        .annotation(l::OPAQUE_PORTS, "80")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}")
        .version(7);
    let labels = [
        ("team", "a"),
        (l::MIRRORED_SERVICE, "true"),
        (l::CLUSTER_NAME, "east"),
    ];
    let flat = [(l::REMOTE_DISCOVERY, "east"), (l::REMOTE_SERVICE, "web")];
    for (mode, expected) in [
        (MirrorMode::Gateway, labels.to_vec()),
        (MirrorMode::RemoteDiscovery, [&labels[..], &flat].concat()),
    ] {
        let mirror = mirror("mc", &target, &remote.0, mode, "web-east", false).service();
        assert_eq!(mirror.metadata.labels, map(&expected));
        let mut annotations = mirror.metadata.annotations;
        assert!(annotations.contains_key(l::DESIRED_STATE));
        annotations.remove(l::DESIRED_STATE);
        let expected = map(&[
            ("note", "b"),
            (l::OPAQUE_PORTS, "80"),
            (l::REMOTE_FQ_NAME, "web.ns.svc.cluster.local"),
            (l::REMOTE_RESOURCE_VERSION, "7"),
            (l::MANAGED_BY, l::MANAGER),
            (l::INSTALLATION, "mc"),
            (l::COPIED_KEYS, "team;config.linkerd.io/opaque-ports,note"),
        ]);
        assert_eq!(annotations, expected);
    }
}

#[test]
fn labels_and_annotations_that_are_no_longer_copied_are_removed_from_mirrors() {
    let (dns, argo) = (
        "external-dns.alpha.kubernetes.io/hostname",
        "argocd.argoproj.io/instance",
    );
    let remote = svc("web")
        .label(argo, "shop")
        .annotation(dns, "a.example")
        .0;
    let target = |allowed: bool| {
        let mut made = link("east");
        if allowed {
            let annotations = made.metadata.annotations.get_or_insert_default();
            annotations.insert(
                l::COPIED_LABELS.to_owned(),
                "argocd.argoproj.io/*".to_owned(),
            );
            annotations.insert(l::COPIED_ANNOTATIONS.to_owned(), dns.to_owned());
        }
        Target::parse(&made, false).unwrap()
    };
    let (open, shut) = (target(true), target(false));
    let desired = |target| {
        mirror(
            "mc",
            target,
            &remote,
            MirrorMode::Gateway,
            "web-east",
            false,
        )
    };
    let before = desired(&open).service();
    assert_eq!(before.metadata.labels.get(argo), Some("shop"));
    assert_eq!(before.metadata.annotations.get(dns), Some("a.example"));
    let Some(Write::Patch(patch)) = patch(&desired(&shut), &before) else {
        panic!("no patch");
    };
    let metadata = &patch.body["metadata"];
    for (kind, key) in [("labels", argo), ("annotations", dns)] {
        assert!(
            metadata[kind].as_object().unwrap().contains_key(key),
            "{key}"
        );
        assert_eq!(metadata[kind][key], Value::Null, "{key}");
    }
    let after = desired(&shut).service();
    assert_eq!(super::patch(&desired(&shut), &after), None);
}

/// A mirror of `before` to which somebody adds a label and an annotation, and the labels and annotations that a patch
/// changes once the Service is `after`.
fn changed_by(before: &Svc, after: &Svc, edit: fn(&mut Service)) -> Option<[Value; 2]> {
    let east = target("east");
    let desired = |remote| mirror("mc", &east, remote, MirrorMode::Gateway, "web-east", false);
    let mut actual = desired(&before.0).service();
    actual.metadata.labels.insert("theirs", "x");
    actual.metadata.annotations.insert("theirs", "x");
    edit(&mut actual);
    patch(&desired(&after.0), &actual).map(|write| {
        let Write::Patch(patch) = write else {
            panic!("{write:?}");
        };
        let metadata = &patch.body["metadata"];
        ["labels", "annotations"].map(|field| metadata[field].clone())
    })
}

fn unrecorded(service: &mut Service) {
    service.metadata.annotations.remove(l::COPIED_KEYS);
}

#[test]
fn keys_that_people_add_survive_our_writes_and_keys_of_the_target_vanish_with_it() {
    let before = svc("web").label("team", "a").annotation("note", "b");
    let after = svc("web").version(2);
    let [labels, annotations] = changed_by(&before, &after, |_| {}).unwrap();
    for (changed, copied) in [(&labels, "team"), (&annotations, "note")] {
        let changed = changed.as_object().unwrap();
        assert_eq!(changed.get(copied), Some(&Value::Null), "{copied}");
        assert!(!changed.contains_key("theirs"), "beside {copied}");
    }
    // A copied key goes with the target's, even if somebody has changed its value since.
    let before = before.label("theirs", "y");
    let [labels, _] = changed_by(&before, &after, |_| {}).unwrap();
    assert_eq!(labels["theirs"], Value::Null);
    // So does an annotation that is not known here, because all annotations together are too large.
    let before = svc("web").annotation("note", "b");
    let truncate = |service: &mut Service| assert!(service.metadata.truncate(0));
    let [_, annotations] = changed_by(&before, &after, truncate).unwrap();
    assert_eq!(annotations["note"], Value::Null);
    assert_eq!(changed_by(&before, &before, truncate), None);
    // Labels and annotations are recorded separately.
    let before = svc("web").annotation("theirs", "y");
    let [labels, annotations] = changed_by(&before, &after, |_| {}).unwrap();
    assert_eq!(labels.get("theirs"), None);
    assert_eq!(annotations["theirs"], Value::Null);
}

#[test]
fn mirror_without_a_record_of_copied_keys_gets_exactly_the_desired_ones() {
    let before = svc("web").label("team", "a").annotation("note", "b");
    // Without a record it is not known who wrote a key. So every key that is not desired is removed.
    let after = svc("web").version(2);
    let [labels, annotations] = changed_by(&before, &after, unrecorded).unwrap();
    for (changed, copied) in [(&labels, "team"), (&annotations, "note")] {
        assert_eq!(changed.get(copied), Some(&Value::Null), "{copied}");
        assert_eq!(changed.get("theirs"), Some(&Value::Null), "beside {copied}");
    }
    assert_eq!(annotations[l::COPIED_KEYS], json!(";"));
    // Nothing is written if nothing is missing.
    assert_eq!(changed_by(&before, &before, unrecorded), None);
    assert_eq!(changed_by(&before, &before, |_| {}), None);
    let repaired = changed_by(&before, &before, |service| {
        service
            .metadata
            .annotations
            .insert(l::COPIED_KEYS, "theirs;theirs");
    });
    assert_eq!(repaired.unwrap()[1][l::COPIED_KEYS], json!("team;note"));
}

#[test]
fn keys_that_people_add_survive_on_a_mirror_that_lost_our_marks() {
    let (east, remote) = (target("east"), svc("web").label("team", "a").0);
    let mut desired = mirror("mc", &east, &remote, MirrorMode::Gateway, "web-east", false);
    let mut actual = desired.service();
    actual.metadata.labels.insert("theirs", "x");
    actual.metadata.annotations.remove(l::MANAGED_BY);
    desired.metadata.unsign();
    let Some(Write::Patch(patch)) = patch(&desired, &actual) else {
        panic!("no patch");
    };
    assert_eq!(patch.body["metadata"]["labels"].get("theirs"), None);
}

#[test]
fn only_ports_of_a_services_specification_are_copied() {
    let remote: Service = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "ns" },
        "spec": {
            "type": "NodePort",
            "clusterIP": "10.0.0.7",
            "selector": { "app": "web" },
            "sessionAffinity": "ClientIP",
            "externalTrafficPolicy": "Local",
            "ports": [
                { "name": "http", "protocol": "TCP", "port": 80, "targetPort": "web", "nodePort": 30080,
                  "appProtocol": "kubernetes.io/h2c" },
                { "name": "dns", "protocol": "UDP", "port": 53, "targetPort": 5353, "nodePort": 30053 },
            ],
        },
    }))
    .unwrap();
    let mirror = made(&remote, false);
    let expected = json!({
        "type": "ClusterIP",
        "ports": [
            { "name": "http", "protocol": "TCP", "port": 80, "targetPort": "web",
              "appProtocol": "kubernetes.io/h2c" },
            { "name": "dns", "protocol": "UDP", "port": 53, "targetPort": 5353 },
        ],
    });
    assert_eq!(json!(mirror.spec), expected, "D14");
}

#[test]
fn only_headless_mirrors_have_no_cluster_ip() {
    for (headless, address) in [(true, Some("None")), (false, None)] {
        let mirror = made(&svc("web").0, headless);
        assert_eq!(mirror.spec.cluster_ip.as_deref(), address);
    }
}

#[test]
fn the_hash_changes_exactly_with_the_desired_state() {
    let hash = |remote: Svc| {
        let mirror = made(&remote.0, false);
        ours(&mirror, l::DESIRED_STATE)
    };
    let udp = ServicePort {
        protocol: Some("UDP".into()),
        ..port("http", 80)
    };
    let plain = hash(svc("web"));
    for (what, remote, same) in [
        ("its version", svc("web").version(9), true),
        (
            "what is not copied",
            svc("web").label("mirror.linkerd.io/x", "1"),
            true,
        ),
        ("a label", svc("web").label("a", "b"), false),
        ("an annotation", svc("web").annotation("a", "b"), false),
        (
            "a port's number",
            svc("web").ports(vec![port("http", 81)]),
            false,
        ),
        (
            "a port's name",
            svc("web").ports(vec![port("web", 80)]),
            false,
        ),
        ("a port's protocol", svc("web").ports(vec![udp]), false),
    ] {
        assert_eq!(hash(remote) == plain, same, "{what}");
    }
}

#[test]
fn a_patch_has_only_what_differs_and_equal_services_get_none() {
    let (east, remote) = (target("east"), svc("web").0);
    let desired = mirror("mc", &east, &remote, MirrorMode::Gateway, "web-east", false);
    let differing = |edit: fn(&mut Service)| {
        let mut actual = desired.service();
        actual.metadata.uid = Some("u".into());
        actual.metadata.resource_version = Some("5".into());
        edit(&mut actual);
        patch(&desired, &actual).map(|write| match write {
            Write::Patch(patch) => patch.body,
            other => panic!("{other:?}"),
        })
    };
    let nothing: [Edit; 4] = [
        ("nothing", |_| {}),
        ("a key of others", |s| {
            s.metadata.annotations.insert("a", "b");
        }),
        ("the remote version alone", |s| {
            let annotations = &mut s.metadata.annotations;
            annotations.insert(l::REMOTE_RESOURCE_VERSION, "0");
        }),
        ("a ClusterIP that Kubernetes gave", |s| {
            s.spec.cluster_ip = Some("10.0.0.9".into());
        }),
    ];
    for (what, edit) in nothing {
        assert_eq!(differing(edit), None, "{what}");
    }
    let ports = differing(|s| s.spec.ports[0].port = 81).unwrap();
    assert_eq!(ports["spec"]["ports"][0]["port"], 80);
    assert_eq!(
        (
            &ports["metadata"]["uid"],
            &ports["metadata"]["resourceVersion"]
        ),
        (&json!("u"), &json!("5"))
    );
    let selector = differing(|s| s.spec.selector = map(&[("app", "x")])).unwrap();
    assert_eq!(selector["spec"], json!({ "selector": null }));
    let kind = differing(|s| s.spec.type_ = Some("ExternalName".into())).unwrap();
    assert_eq!(
        kind["spec"],
        json!({ "type": "ClusterIP", "externalName": null })
    );
    let stale = differing(|s| {
        s.metadata.labels.insert(l::REMOTE_SERVICE, "web");
    });
    assert_eq!(
        stale.unwrap()["metadata"]["labels"][l::REMOTE_SERVICE],
        Value::Null
    );
}

#[test]
fn ports_are_compared_with_kubernetes_defaults_filled_in() {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let bare = ServicePort {
        protocol: None,
        ..port("http", 80)
    };
    let to = |target: IntOrString| ServicePort {
        target_port: Some(target),
        ..port("http", 80)
    };
    let app = ServicePort {
        app_protocol: Some("x".into()),
        ..port("http", 80)
    };
    for (what, other, same) in [
        ("no protocol is TCP", bare, true),
        ("no target port is the port", to(IntOrString::Int(80)), true),
        (
            "the same number as text is the same",
            to(IntOrString::String("80".into())),
            true,
        ),
        ("another target port", to(IntOrString::Int(8080)), false),
        (
            "a named target port",
            to(IntOrString::String("web".into())),
            false,
        ),
        ("an application protocol", app, false),
    ] {
        assert_eq!(same_ports(&[port("http", 80)], &[other]), same, "{what}");
    }
    assert!(!same_ports(&[port("http", 80)], &[]));
    assert!(!same_ports(
        &[port("a", 1), port("b", 2)],
        &[port("b", 2), port("a", 1)]
    ));
}

#[test]
fn a_mirror_with_annotations_too_large_to_be_kept_is_written_only_if_it_differs() {
    let remote = |note: &str| svc("web").annotation("note", note).0;
    let mut actual = made(&remote("a"), false);
    actual
        .metadata
        .annotations
        .insert("theirs", "x".repeat(1000));
    assert!(actual.metadata.truncate(500));
    assert_eq!(ours(&actual, "note"), None);
    let east = target("east");
    let patched = |remote: &Service, actual: &Service| {
        let desired = mirror("mc", &east, remote, MirrorMode::Gateway, "web-east", false);
        patch(&desired, actual)
    };
    assert_eq!(patched(&remote("a"), &actual), None);
    let Some(Write::Patch(change)) = patched(&remote("b"), &actual) else {
        panic!("another annotation is written");
    };
    assert_eq!(change.body["metadata"]["annotations"]["note"], "b");
    actual.metadata.annotations.insert(l::INSTALLATION, "other");
    assert!(patched(&remote("a"), &actual).is_some());
}
