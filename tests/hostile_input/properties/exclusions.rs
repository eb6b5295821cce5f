//! What mirrors get of labels and annotations, under any rules of exclusion.

use std::collections::BTreeMap;

use linkerd_mc::{
    api::labels as l,
    mirror::{Confirmed, Key, Object, Target, Write, plan, target::tool_keys},
};
use serde_json::{Map, Value, json};

use super::{
    draw::Draw,
    states::{self, LINKS, NS},
};

const KEYS: [&str; 28] = [
    "team",
    "a.io/x",
    "a.io/y",
    "a.iox/x",
    "*",
    "a.io/*",
    "a.io/",
    "/",
    l::OPAQUE_PORTS,
    "config.linkerd.io/other",
    l::MIRRORED_SERVICE,
    l::CLUSTER_NAME,
    l::REMOTE_DISCOVERY,
    l::LOCAL_DISCOVERY,
    l::REMOTE_SERVICE,
    l::REMOTE_FQ_NAME,
    l::MANAGED_BY,
    l::INSTALLATION,
    l::DESIRED_STATE,
    l::COPIED_KEYS,
    l::SLICE_SERVICE,
    l::SLICE_MANAGED_BY,
    "argocd.argoproj.io/instance",
    "kubectl.kubernetes.io/last-applied-configuration",
    "external-dns.alpha.kubernetes.io/hostname",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/name",
    "retry.linkerd.io/http",
];
/// Rules that say what is copied though other tools act on it.
const COPIED: [&str; 8] = [
    "",
    " ",
    "team",
    "a.io/*",
    "argocd.argoproj.io/*",
    " argocd.argoproj.io/instance ",
    "external-dns.alpha.kubernetes.io/hostname",
    "app.kubernetes.io/instance",
];
const RULES: [&str; 16] = [
    "",
    " ",
    "*",
    "/*",
    "team",
    " team ",
    "a.io/*",
    "a.io/x",
    "a.io*",
    "config.linkerd.io/*",
    "mirror.linkerd.io/*",
    "multicluster.linkerd.io/*",
    l::OPAQUE_PORTS,
    l::CLUSTER_NAME,
    "argocd.argoproj.io/*",
    "app.kubernetes.io/instance",
];
/// Prefixes that no label and no annotation is ever copied under.
const OURS: [&str; 2] = ["mirror.linkerd.io/", "multicluster.linkerd.io/"];

/// An excluded key is on no mirror, one that tells other tools what to do only where the Link allows it, all others are
/// unless the Link copies only what it lists, and what the wire format needs always is.
pub fn exclusions(data: &[u8]) {
    let mut draw = Draw(data);
    let discovery = draw.flip();
    let excluded = [rules(&mut draw, &RULES), rules(&mut draw, &RULES)];
    let allowed = [(); 2].map(|()| {
        let count = draw.below(5);
        (0..count)
            .map(|_| (*draw.pick(&COPIED)).to_owned())
            .collect::<Vec<_>>()
    });
    let mut labels = pairs(&mut draw);
    let annotations = pairs(&mut draw);
    labels.remove(l::MIRRORED_SERVICE); // with it the Service is a mirror itself
    let has_mark = annotations.get(l::MANAGED_BY) == Some(&json!(l::MANAGER));
    let mode = if discovery {
        "remote-discovery"
    } else {
        "true"
    };
    labels.insert(l::EXPORTED.to_owned(), mode.into());
    labels.insert(l::FEDERATED.to_owned(), "member".into());

    let only_listed = draw.flip();
    let spec = json!({ "excludedLabels": excluded[0], "excludedAnnotations": excluded[1] });
    let mut link = states::link("east", &spec);
    link["metadata"]["annotations"] = json!({
        l::COPIED_LABELS: allowed[0].join(","), l::COPIED_ANNOTATIONS: allowed[1].join(","),
        l::COPY: if only_listed { "listed" } else { "all" },
    });
    let link = serde_json::from_value(link).unwrap();
    let target = Target::parse(&link, false).unwrap();
    let mut state = states::empty();
    let service = states::service(NS, "web", false, &labels, &annotations);
    let slice = states::slice(NS, "web", None);
    states::add(&mut state, target, vec![service], vec![slice]);

    let keys = [Key::mirror("east", NS, "web"), Key::federated(NS, "web")];
    for (federated, key) in [false, true].into_iter().zip(keys) {
        let writes = plan(&state, &key, Confirmed::All).writes;
        assert_eq!(writes.is_empty(), has_mark, "{key}");
        for write in writes {
            let (metadata, is_slice) = match write {
                Write::Create(Object::Service(made)) => (made.metadata, false),
                Write::Create(Object::EndpointSlice(made)) => (made.metadata, true),
                other => panic!("not a creation: {other:?}"),
            };
            let name = if federated {
                "web-federated"
            } else {
                "web-east"
            };
            let mut wire = BTreeMap::from([(l::MIRRORED_SERVICE, "true")]);
            if !federated {
                wire.insert(l::CLUSTER_NAME, "east");
            }
            if !federated && discovery {
                wire.extend([(l::REMOTE_DISCOVERY, "east"), (l::REMOTE_SERVICE, "web")]);
            }
            if is_slice {
                wire.extend([(l::SLICE_SERVICE, name), (l::SLICE_MANAGED_BY, l::MANAGER)]);
            }
            let dropped = |at: usize, key: &str| {
                let listed = only_listed || tool_keys::find(key).is_some();
                ours(key) || listed && !matches(&allowed[at], key) || matches(&excluded[at], key)
            };
            let made = metadata.labels.iter().collect();
            copied(&made, &labels, &wire, |key| is_slice || dropped(0, key));

            if is_slice {
                continue; // has labels and annotations of ours alone
            }
            let made = metadata.annotations;
            let marks = [(l::MANAGED_BY, l::MANAGER), (l::INSTALLATION, LINKS)];
            let mut wire = BTreeMap::from(marks);
            let mut open = vec![l::DESIRED_STATE, l::COPIED_KEYS];
            if federated {
                wire.insert(l::REMOTE_DISCOVERY, "web@east");
            } else {
                wire.insert(l::REMOTE_FQ_NAME, "web.ns.svc.cluster.local");
                wire.insert(l::REMOTE_RESOURCE_VERSION, "1");
            }
            open.retain(|key| made.contains_key(key));
            assert_eq!(open.len(), 2, "no mark of what was desired");
            let made = made.iter().filter(|(key, _)| !open.contains(key)).collect();
            copied(&made, &annotations, &wire, |key| {
                key != l::OPAQUE_PORTS && dropped(1, key)
            });
        }
    }
}

/// `made` is what the wire format needs and what is not excluded of `from`, no more and no less.
fn copied(
    made: &BTreeMap<&str, &str>,
    from: &Map<String, Value>,
    wire: &BTreeMap<&str, &str>,
    excluded: impl Fn(&str) -> bool,
) {
    let mut expected: BTreeMap<&str, &str> = from
        .iter()
        .filter(|(key, _)| !excluded(key))
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
        .collect();
    expected.extend(wire);
    assert_eq!(made, &expected);
}

fn ours(key: &str) -> bool {
    OURS.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a rule names the key: whole, or up to the slash before its `*`.
fn matches(rules: &[String], key: &str) -> bool {
    rules.iter().map(|rule| rule.trim()).any(|rule| {
        let prefix = rule.strip_suffix('*').filter(|rest| rest.ends_with('/'));
        !rule.is_empty() && (rule == key || prefix.is_some_and(|prefix| key.starts_with(prefix)))
    })
}

fn rules(draw: &mut Draw<'_>, from: &[&str]) -> Vec<String> {
    (0..draw.below(5)).map(|_| draw.text(from)).collect()
}

fn pairs(draw: &mut Draw<'_>) -> Map<String, Value> {
    (0..draw.below(7))
        .map(|_| {
            (
                draw.text(&KEYS),
                draw.text(&["x", l::MANAGER, "true", "a@b"]).into(),
            )
        })
        .collect()
}
