//! Links of any shape.

use linkerd_mc::{
    api::{labels as l, link::Link},
    mirror::{Host, Target, allowed_namespaces},
};
use serde_json::{Value, json};

use super::{
    draw::{Draw, is_one_line, put},
    states,
};

const FIELDS: [&str; 26] = [
    "/spec/targetClusterName",
    "/spec/targetClusterDomain",
    "/spec/targetClusterLinkerdNamespace",
    "/spec/clusterCredentialsSecret",
    "/spec/gatewayAddress",
    "/spec/gatewayPort",
    "/spec/gatewayIdentity",
    "/spec/probeSpec",
    "/spec/probeSpec/path",
    "/spec/probeSpec/port",
    "/spec/probeSpec/period",
    "/spec/probeSpec/timeout",
    "/spec/probeSpec/failureThreshold",
    "/spec/selector",
    "/spec/selector/matchLabels",
    "/spec/selector/matchExpressions",
    "/spec/remoteDiscoverySelector",
    "/spec/federatedServiceSelector",
    "/spec/excludedLabels",
    "/spec/excludedAnnotations",
    "/spec",
    "/status",
    "/metadata/name",
    "/metadata/annotations",
    "/metadata/creationTimestamp",
    "/metadata",
];
const WORDS: [&str; 24] = [
    "east",
    "",
    "-",
    ".",
    "/",
    "*",
    ",",
    " ",
    "\n",
    "\u{1b}[2J",
    "192.0.2.1",
    "::1",
    "gateway.example",
    "4143",
    "65536",
    "3s",
    "300ms",
    "9999999h",
    "-1",
    "a.io/b",
    "In",
    "key",
    "operator",
    "values",
];

/// Values of the annotations that restrict a target cluster.
const RESTRICTIONS: [&str; 13] = [
    "listed",
    "discovery",
    "gateway",
    "any",
    "local-members",
    "none",
    "",
    " ",
    "team=a",
    "!team,a.io/x in (b,c)",
    "kubernetes.io/metadata.name=shop",
    "in (",
    "\u{1b}[2J",
];

/// The input is a Link, or not. A Link is usable, or not. Each error is one line.
pub fn link(data: &[u8]) {
    let mut draw = Draw(data);
    let text = if draw.flip() {
        draw.0.to_vec()
    } else {
        let mut tree = states::link("east", &json!({}));
        for _ in 0..draw.below(4) {
            let field = *draw.pick(&FIELDS);
            let value = draw.json(&WORDS, 3);
            put(&mut tree, field, value);
        }
        for key in [
            l::ALLOWED_NAMESPACES,
            l::COPY,
            l::FEDERATION,
            l::FEDERATED_THROUGH,
        ] {
            if draw.flip() {
                let text = draw.text(&RESTRICTIONS);
                // Where the annotations are no map any more, it is no Link.
                if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
                    let annotations = metadata.entry("annotations").or_insert(json!({}));
                    if let Value::Object(annotations) = annotations {
                        annotations.insert(key.to_owned(), text.into());
                    }
                }
            }
        }
        if draw.flip() {
            draw.garble(&tree.to_string())
        } else {
            tree.to_string().into_bytes()
        }
    };
    match serde_json::from_slice::<Link>(&text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(link) => judge(&link),
    }
}

fn judge(link: &Link) {
    let written = serde_json::to_value(link).unwrap();
    let read: Link = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(&read, link);
    assert_eq!(serde_json::to_value(&read).unwrap(), written);

    for headless in [false, true] {
        let target = match Target::parse(link, headless) {
            Err(error) => return is_one_line(&error.to_string()),
            Ok(target) => target,
        };
        assert_eq!(Target::parse(&read, headless).as_ref(), Ok(&target));
        assert!(states::is_dns_label(&target.cluster), "{}", target.cluster);
        for selector in target.service_selectors() {
            assert!(!selector.query().is_empty());
        }
        let annotation = |key| link.metadata.annotations.as_ref()?.get(key);
        let allowed = annotation(l::ALLOWED_NAMESPACES).map(|text| allowed_namespaces(text));
        assert_eq!(target.allowed_namespaces, allowed.transpose().unwrap());
        let federation = annotation(l::FEDERATION).map_or("any", |text| text.trim());
        assert_eq!(target.federation.as_str(), federation);
        let through = annotation(l::FEDERATED_THROUGH).map_or("discovery", |text| text.trim());
        assert_eq!(target.federated_through.as_str(), through);
        let Some(gateway) = target.gateway else {
            assert_eq!(Host::parse_list(&link.spec.gateway_address), []);
            continue;
        };
        assert!(!gateway.hosts.is_empty() && gateway.port > 0);
        assert!(gateway.hosts.is_sorted());
        match gateway.probe {
            Err(why) => is_one_line(&why),
            Ok(None) => assert_eq!(link.spec.probe_spec.path, ""),
            Ok(Some(probe)) => {
                assert!(probe.path.starts_with('/'));
                assert!(probe.port > 0 && probe.threshold > 0);
                assert!(!probe.timeout.is_zero() && probe.timeout <= probe.period);
            }
        }
    }
    assert!(matches!(written["spec"], Value::Object(_)));
}
