//! What linking again would change: the settings of the Link, and its credentials. Pure.

use client::fingerprint;
use hints::hint::fail;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use manifests::link::SETTINGS;
use mirror_core::api::{duration::utc_minute, labels, link::Link, selector::Selector};
use serde_json::{Map, Value, json};

use crate::link_credentials::KubeconfigTarget;

/// The setting of credentials that says how long they last.
pub const TOKEN: &str = "token";

/// A setting whose value would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub field: &'static str,
    pub old: String,
    pub new: String,
}

impl std::fmt::Display for SettingChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (old, new) = (or_none(&self.old), or_none(&self.new));
        write!(f, "{}: {old} -> {new}", self.field)
    }
}

/// A value as it is shown.
fn or_none(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}

/// Fields of the spec that say which cluster is the target and how it is reached, except `probeSpec`, which has a line of its
/// own. A change of a field that neither is here nor a setting is neither shown nor asked for.
const FIELDS: [&str; 7] = [
    "targetClusterName",
    "targetClusterDomain",
    "targetClusterLinkerdNamespace",
    "clusterCredentialsSecret",
    "gatewayAddress",
    "gatewayPort",
    "gatewayIdentity",
];
/// Annotations that say how the API server is reached, with their names in the list.
const ANNOTATIONS: [(&str, &str); 2] = [
    (labels::API_GATEWAY, "apiGateway"),
    (labels::DISCOVERY_API_SERVER, "discoveryApiServer"),
];

/// All fields of the spec that `link` writes.
fn fields() -> impl Iterator<Item = &'static str> {
    let settings = SETTINGS
        .iter()
        .filter(|setting| setting.annotation().is_none());
    FIELDS
        .into_iter()
        .chain(settings.map(|setting| setting.key))
}

/// All annotations that `link` writes, with their names in the list.
fn annotations() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = SETTINGS.iter();
    let settings = settings.filter_map(|setting| Some((setting.annotation()?, setting.key)));
    settings.chain(ANNOTATIONS)
}

/// The changes of a Link. A setting that is only added counts too: it may be a restriction, or lift one.
pub fn settings_changes(old: &Link, new: &Link) -> Vec<SettingChange> {
    let (before, after) = (settings(old), settings(new));
    let pairs = before.into_iter().zip(after);
    let changed = pairs.filter(|((_, old), (_, new))| old != new);
    changed
        .map(|((field, old), (_, new))| SettingChange { field, old, new })
        .collect()
}

/// The settings of a Link, in the order of the list.
fn settings(link: &Link) -> Vec<(&'static str, String)> {
    let spec = json!(link.spec);
    let fields = fields().map(|field| (field, shown(&spec[field])));
    let probe = &link.spec.probe_spec;
    let probes = if probe.path.is_empty() {
        String::new()
    } else {
        format!(
            "{} on port {} every {}",
            probe.path, probe.port, probe.period
        )
    };
    let annotations = annotations().map(|(key, field)| {
        let set = link.annotations().get(key);
        (field, set.cloned().unwrap_or_default())
    });
    fields
        .chain([("probeSpec", probes)])
        .chain(annotations)
        .collect()
}

/// A field on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(keys) => {
            let keys = keys.iter().filter_map(Value::as_str);
            keys.collect::<Vec<_>>().join(",")
        }
        selector => {
            let parsed = serde_json::from_value::<LabelSelector>(selector.clone()).ok();
            let parsed = parsed.map(|selector| Selector::parse(Some(&selector)));
            match parsed {
                Some(Ok(selected)) => selected.map(|s| s.query()).unwrap_or_default(),
                _ => selector.to_string(),
            }
        }
    }
}

/// The changes of valid credentials. `None` as the old ones: the user may not read them.
pub fn credentials_changes(
    old: Option<&KubeconfigTarget>,
    new: &KubeconfigTarget,
) -> Vec<SettingChange> {
    let Some(old) = old else {
        return vec![SettingChange {
            field: "credentials",
            old: "you may not read them".to_owned(),
            new: "new ones".to_owned(),
        }];
    };
    let account = |target: &KubeconfigTarget| {
        let account = target.account.as_ref();
        account.map_or_else(String::new, |of| format!("{}/{}", of.namespace, of.name))
    };
    let lasts = |target: &KubeconfigTarget| {
        let expires = target.account.as_ref().and_then(|account| account.expires);
        match expires {
            Some(at) => format!("expires on {}", utc_minute(at)),
            None => "does not expire".to_owned(),
        }
    };
    let authority = |target: &KubeconfigTarget| match (target.is_unverified, &*target.authority) {
        (true, _) => "not verified".to_owned(),
        (false, "") => "a public one".to_owned(),
        (false, authority) => format!("fingerprint {}", fingerprint(authority.as_bytes())),
    };
    let all = [
        ("API server", old.server.clone(), new.server.clone()),
        ("certificate authority", authority(old), authority(new)),
        ("proxy", old.proxy.shown(), new.proxy.shown()),
        ("ServiceAccount", account(old), account(new)),
        (TOKEN, lasts(old), lasts(new)),
    ];
    all.into_iter()
        .filter(|(_, old, new)| old != new && !old.is_empty())
        .map(|(field, old, new)| SettingChange { field, old, new })
        .collect()
}

/// Whether credentials get another token of the same account. If nobody has asked for one, the old one is not valid.
pub fn revoked(old: &KubeconfigTarget, new: &KubeconfigTarget) -> Option<String> {
    let account = |of: &KubeconfigTarget| {
        let account = of.account.as_ref()?;
        Some((account.namespace.clone(), account.name.clone()))
    };
    let is_of_same = account(new).is_some() && account(old) == account(new);
    (is_of_same && old.token != new.token)
        .then(|| "token: revoked or expired -> a new one".to_owned())
}

/// A JSON merge patch that turns the old Link into the new one: it also removes the settings that only the old one has,
/// whoever wrote them. Server-side apply would keep these, and so the labels of an old selector beside those of the new one.
pub fn replacement(old: &Link, new: &Link) -> Value {
    let (before, mut spec) = (json!(old.spec), json!(new.spec));
    for field in fields() {
        let replaced = replaced(&before[field], &spec[field]);
        spec[field] = replaced;
    }
    if new.spec.probe_spec.path.is_empty() {
        // Without a gateway, nothing is probed. Otherwise, what only others set of it stays.
        spec["probeSpec"] = replaced(&before["probeSpec"], &spec["probeSpec"]);
    }
    let own = annotations().map(|(key, _)| key);
    let gone = own.chain([labels::CLUSTER_UID]).filter(|key| {
        old.annotations().contains_key(*key) && !new.annotations().contains_key(*key)
    });
    let mut annotations: Map<String, Value> =
        gone.map(|key| (key.to_owned(), Value::Null)).collect();
    let set = new.annotations().iter();
    annotations.extend(set.map(|(key, value)| (key.clone(), json!(value))));
    json!({
        "metadata": { "annotations": annotations, "labels": new.labels() },
        "spec": spec,
    })
}

/// A merge patch from one value to another.
fn replaced(before: &Value, after: &Value) -> Value {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return after.clone();
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let set = new.iter();
    let set = set.map(|(key, value)| (key.clone(), replaced(&before[key], value)));
    Value::Object(gone.chain(set).collect())
}

/// Fails if the API server has stored other settings than those of the Link that was written.
pub fn check_stored(stored: &Link, written: &Link) -> anyhow::Result<()> {
    let unlike = settings_changes(stored, written);
    if unlike.is_empty() {
        return Ok(());
    }
    let unlike = unlike.iter().map(|SettingChange { field, old, new }| {
        format!("{field} is {}, not {}", or_none(old), or_none(new))
    });
    Err(fail(
        format!(
            "the Link {} is not as it was written: {}",
            stored.name_any(),
            unlike.collect::<Vec<_>>().join(", ")
        ),
        "look for what changes Links when they are written: an admission webhook or policy, or a CRD without these fields",
    ))
}

#[cfg(test)]
mod tests {
    use manifests::kubeconfig::Secret;
    use mirror_core::mirror::fixtures::merge_patch;
    use proptest::{
        collection::{btree_map, vec},
        option,
        prelude::*,
    };

    use super::*;

    fn link(spec: &Value, annotations: &Value) -> Link {
        let mut all = json!({ "targetClusterName": "east" });
        all.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": "east", "annotations": annotations },
            "spec": all,
        }))
        .unwrap()
    }

    #[test]
    fn changes_are_one_line_each_and_removals_are_explicit() {
        let old = link(
            &json!({
                "gatewayAddress": "192.0.2.1", "gatewayPort": "4143",
                "selector": { "matchLabels": { "a": "b" } },
                "excludedLabels": ["secret", "x.io/*"],
                "probeSpec": { "path": "/ready", "port": "4191", "period": "3s", "timeout": "30s" },
            }),
            &json!({ labels::ALLOWED_NAMESPACES: "team=a", labels::DRAINED_UNTIL: "later", labels::COPY: "all" }),
        );
        let new = link(
            &json!({
                "gatewayAddress": "192.0.2.9", "gatewayPort": "4143",
                "selector": { "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b", "c"] }] },
                "probeSpec": { "path": "/ready", "port": "4191", "period": "5s" },
            }),
            &json!({ labels::COPY: "listed" }),
        );
        let shown: Vec<String> = settings_changes(&old, &new)
            .iter()
            .map(SettingChange::to_string)
            .collect();
        assert_eq!(
            shown,
            [
                "gatewayAddress: 192.0.2.1 -> 192.0.2.9",
                "selector: a in (b) -> a in (b,c)",
                "excludedLabels: secret,x.io/* -> (none)",
                "probeSpec: /ready on port 4191 every 3s -> /ready on port 4191 every 5s",
                "copy: all -> listed",
                "allowedNamespaces: team=a -> (none)",
            ]
        );
        let patch = replacement(&old, &new);
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({ labels::ALLOWED_NAMESPACES: null, labels::COPY: "listed" })
        );
        let spec = &patch["spec"];
        assert_eq!(spec["excludedLabels"], Value::Null);
        assert_eq!(spec["selector"]["matchLabels"], Value::Null);
        assert_eq!(settings_changes(&old, &old), []);
    }

    fn selectors() -> impl Strategy<Value = Value> {
        let labels = btree_map("[ab]", "[cd]", 0..3);
        let expressions = vec(("[ab]", vec("[cd]", 1..3)), 0..2);
        option::of((labels, expressions)).prop_map(|selector| {
            let Some((labels, expressions)) = selector else {
                return Value::Null;
            };
            let mut made = json!({});
            if !labels.is_empty() {
                made["matchLabels"] = json!(labels);
            }
            if !expressions.is_empty() {
                let all = expressions.into_iter();
                let all = all
                    .map(|(key, values)| json!({ "key": key, "operator": "In", "values": values }));
                made["matchExpressions"] = all.collect();
            }
            made
        })
    }

    proptest! {
        #[test]
        fn replacement_leaves_the_settings_of_the_new_link_alone(
            [one, two] in [selectors(), selectors()],
            [three, four] in [vec("[a-c]", 0..3), vec("[a-c]", 0..3)],
            [five, six] in [option::of("[a-c]"), option::of("[a-c]")],
            [has_gateway, has_one_then] in any::<[bool; 2]>(),
        ) {
            let of = |selector: &Value, excluded: &[String], federation: &Option<String>, has_gateway: bool| {
                let mut annotations = json!({ "own": "kept" });
                if let Some(federation) = federation {
                    annotations[labels::FEDERATION] = json!(federation);
                }
                let mut spec = json!({ "selector": selector, "excludedLabels": excluded });
                if has_gateway {
                    spec["gatewayAddress"] = json!("192.0.2.1");
                    spec["probeSpec"] = json!({ "path": "/ready", "port": "4191", "period": "3s" });
                }
                link(&spec, &annotations)
            };
            let old = of(&one, &three, &five, has_gateway);
            let new = of(&two, &four, &six, has_one_then);
            let mut stored = json!(old);
            merge_patch(&mut stored, &replacement(&old, &new));
            let stored: Link = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(&stored.spec, &new.spec);
            prop_assert_eq!(stored.annotations(), new.annotations());
            prop_assert!(check_stored(&stored, &new).is_ok());
            prop_assert_eq!(check_stored(&old, &new).is_ok(), settings_changes(&old, &new).is_empty());
        }
    }

    #[test]
    fn changes_of_credentials_do_not_show_them() {
        let kubeconfig = |server: &str, name: &str, expires: Option<i64>| {
            use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
            let claims =
                json!({ "sub": format!("system:serviceaccount:mc:{name}"), "exp": expires });
            let token = format!(
                "e30.{}.sig",
                BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())
            );
            let text = json!({
                "clusters": [{ "cluster": { "server": server } }],
                "users": [{ "user": { "token": token } }],
            });
            KubeconfigTarget::of(text.to_string().as_bytes()).unwrap()
        };
        let old = kubeconfig("https://a", "west", Some(1_800_000_000));
        let new = kubeconfig("https://b", "shared", None);
        let shown = |old| {
            let changes = credentials_changes(old, &new);
            changes
                .iter()
                .map(SettingChange::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Some(&old)),
            [
                "API server: https://a -> https://b",
                "ServiceAccount: mc/west -> mc/shared",
                "token: expires on 2027-01-15 08:00 UTC -> does not expire",
            ]
        );
        assert_eq!(shown(Some(&new)), [""; 0]);
        // Whoever can change the Secret could have switched this off.
        let mut unverified = new.clone();
        unverified.is_unverified = true;
        assert!(!unverified.is_same(&new));
        let verified = ["certificate authority: not verified -> a public one"];
        assert_eq!(shown(Some(&unverified)), verified);
        let mut other = new.clone();
        other.authority = "Q0E=".to_owned();
        assert_eq!(shown(Some(&other)).len(), 1);
        let other = kubeconfig("https://b", "shared", Some(1_800_000_000));
        let mut gone = new.clone();
        gone.token = Some(Secret::new("old"));
        for (old, is_revoked) in [(&old, false), (&new, false), (&other, true), (&gone, true)] {
            assert_eq!(revoked(old, &new).is_some(), is_revoked);
        }
        assert_eq!(
            shown(None),
            ["credentials: you may not read them -> new ones"]
        );
    }
}
