//! Links as people write them: each field absent, empty, or in another form. Each works as it does with Linkerd, or the
//! message names the field and what it needs. What else is checked later, `it::by_hand` tries on a real API server.

use serde_json::{Value, json};

use super::*;
use crate::mirror::fixtures::link;

/// What comes of a Link with this value of a field: the error, or the lines of the parsed Link that are new. `null`: the
/// field is absent.
fn read(path: &str, value: &Value) -> String {
    let parsed = |raw: &Value| {
        let object: LinkObject = serde_json::from_value(raw.clone()).unwrap();
        Target::parse_object(&object, false)
    };
    let lines = |target: &Target| -> Vec<String> {
        let text = format!("{target:#?}");
        text.lines().map(|line| line.trim().to_owned()).collect()
    };
    let mut raw = serde_json::to_value(link("east")).unwrap();
    let before = lines(&parsed(&raw).unwrap());
    let path = format!("/spec/{path}");
    let (parent, field) = path.trim_end_matches('/').rsplit_once('/').unwrap();
    let fields = raw.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => fields.remove(field),
        value => fields.insert(field.to_owned(), value.clone()),
    };
    match parsed(&raw) {
        Ok(target) => {
            let mut after = lines(&target);
            after.retain(|line| !before.contains(line));
            after.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_field_works_as_with_linkerd_or_is_named_with_what_it_needs() {
    let cases = [
        (
            "targetClusterName",
            json!(null),
            r#"invalid spec.targetClusterName "": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            "targetClusterName",
            json!("East"),
            r#"invalid spec.targetClusterName "East": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            "targetClusterName",
            json!(7),
            "failed to read the Link: spec.targetClusterName: invalid type: integer `7`, expected a string",
        ),
        ("targetClusterDomain", json!(null), ""),
        ("targetClusterDomain", json!(""), ""),
        (
            "targetClusterDomain",
            json!("east.example.com"),
            r#"domain: "east.example.com","#,
        ),
        (
            "targetClusterDomain",
            json!("East.Example.com"),
            r#"domain: "East.Example.com","#,
        ),
        (
            "targetClusterDomain",
            json!("east.example.com."),
            r#"domain: "east.example.com.","#,
        ),
        (
            "targetClusterDomain",
            json!(7),
            "failed to read the Link: spec.targetClusterDomain: invalid type: integer `7`, expected a string",
        ),
        ("targetClusterLinkerdNamespace", json!(null), ""),
        ("targetClusterLinkerdNamespace", json!(""), ""),
        ("targetClusterLinkerdNamespace", json!("other"), ""),
        (
            "targetClusterLinkerdNamespace",
            json!(7),
            "failed to read the Link: spec.targetClusterLinkerdNamespace: invalid type: integer `7`, expected a string",
        ),
        ("clusterCredentialsSecret", json!(null), ""),
        ("clusterCredentialsSecret", json!("other"), ""),
        (
            "clusterCredentialsSecret",
            json!(7),
            "failed to read the Link: spec.clusterCredentialsSecret: invalid type: integer `7`, expected a string",
        ),
        ("gatewayAddress", json!(null), "gateway: None,"),
        ("gatewayAddress", json!(""), "gateway: None,"),
        ("gatewayAddress", json!(" "), "gateway: None,"),
        (
            "gatewayAddress",
            json!("192.0.2.1:4143"),
            r#"Name( "192.0.2.1:4143","#,
        ),
        ("gatewayAddress", json!("[2001:DB8::1]"), "2001:db8::1,"),
        (
            "gatewayAddress",
            json!("GW.Example.com"),
            r#"Name( "GW.Example.com","#,
        ),
        (
            "gatewayAddress",
            json!("a.example.com, 192.0.2.7,"),
            r#"192.0.2.7, Name( "a.example.com","#,
        ),
        (
            "gatewayAddress",
            json!(["192.0.2.1"]),
            "failed to read the Link: spec.gatewayAddress: invalid type: sequence, expected a string",
        ),
        (
            "gatewayPort",
            json!(null),
            r#"invalid spec.gatewayPort "": must be a port number"#,
        ),
        (
            "gatewayPort",
            json!(""),
            r#"invalid spec.gatewayPort "": must be a port number"#,
        ),
        ("gatewayPort", json!(" 4143 "), ""),
        (
            "gatewayPort",
            json!("mc-gateway"),
            r#"invalid spec.gatewayPort "mc-gateway": must be a port number"#,
        ),
        ("gatewayPort", json!("+4143"), ""),
        (
            "gatewayPort",
            json!(4143),
            "failed to read the Link: spec.gatewayPort: invalid type: integer `4143`, expected a string",
        ),
        ("gatewayIdentity", json!(null), r#"identity: "","#),
        (
            "gatewayIdentity",
            json!("Gateway.Identity"),
            r#"identity: "Gateway.Identity","#,
        ),
        (
            "gatewayIdentity",
            json!(7),
            "failed to read the Link: spec.gatewayIdentity: invalid type: integer `7`, expected a string",
        ),
        ("probeSpec", json!(null), "None,"),
        ("probeSpec", json!({}), "None,"),
        (
            "probeSpec",
            json!("/ready"),
            r#"failed to read the Link: spec.probeSpec: invalid type: string "/ready", expected an object"#,
        ),
        ("probeSpec/path", json!(null), "None,"),
        ("probeSpec/path", json!("ready"), ""),
        (
            "probeSpec/path",
            json!("/Ready?x=1"),
            r#"path: "/Ready?x=1","#,
        ),
        (
            "probeSpec/port",
            json!(null),
            r#"probe: Err( "invalid spec.probeSpec.port \"\": must be a port number","#,
        ),
        (
            "probeSpec/port",
            json!(4191),
            "failed to read the Link: spec.probeSpec.port: invalid type: integer `4191`, expected a string",
        ),
        (
            "probeSpec/port",
            json!("admin"),
            r#"probe: Err( "invalid spec.probeSpec.port \"admin\": must be a port number","#,
        ),
        (
            "probeSpec/period",
            json!(null),
            r#"probe: Err( "invalid spec.probeSpec.period \"\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/period",
            json!(""),
            r#"probe: Err( "invalid spec.probeSpec.period \"\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/period",
            json!("3"),
            r#"probe: Err( "invalid spec.probeSpec.period \"3\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/period",
            json!("3S"),
            r#"probe: Err( "invalid spec.probeSpec.period \"3S\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/period",
            json!("0s"),
            r#"probe: Err( "invalid spec.probeSpec.period \"0s\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/period",
            json!(3),
            "failed to read the Link: spec.probeSpec.period: invalid type: integer `3`, expected a string",
        ),
        ("probeSpec/failureThreshold", json!(""), ""),
        (
            "probeSpec/failureThreshold",
            json!("0"),
            r#"probe: Err( "invalid spec.probeSpec.failureThreshold \"0\": must be a number above 0","#,
        ),
        (
            "probeSpec/failureThreshold",
            json!("many"),
            r#"probe: Err( "invalid spec.probeSpec.failureThreshold \"many\": must be a number above 0","#,
        ),
        (
            "probeSpec/failureThreshold",
            json!(3),
            "failed to read the Link: spec.probeSpec.failureThreshold: invalid type: integer `3`, expected a string",
        ),
        ("probeSpec/timeout", json!(""), ""),
        (
            "probeSpec/timeout",
            json!("1"),
            r#"probe: Err( "invalid spec.probeSpec.timeout \"1\": must be a duration such as 3s","#,
        ),
        (
            "probeSpec/timeout",
            json!(1),
            "failed to read the Link: spec.probeSpec.timeout: invalid type: integer `1`, expected a string",
        ),
        ("selector", json!(null), "gateway_selector: None,"),
        ("selector", json!({}), "gateway_selector: None,"),
        (
            "selector",
            json!({"matchLabels":{}}),
            "gateway_selector: None,",
        ),
        (
            "selector",
            json!({"matchLabels":{"a":true}}),
            "failed to read the Link: spec.selector.matchLabels.a: invalid type: boolean `true`, expected a string",
        ),
        (
            "selector",
            json!({"matchLabels":{"A B":"c"}}),
            r#"invalid spec.selector: invalid label key "A B""#,
        ),
        (
            "selector",
            json!({"matchExpressions":[{"key":"a","operator":"exists"}]}),
            r#"invalid spec.selector: unknown selector operator "exists""#,
        ),
        (
            "selector",
            json!("a=b"),
            r#"failed to read the Link: spec.selector: invalid type: string "a=b", expected LabelSelector"#,
        ),
        (
            "remoteDiscoverySelector",
            json!(null),
            "discovery_selector: None,",
        ),
        (
            "federatedServiceSelector",
            json!(null),
            "federated_selector: None,",
        ),
        ("excludedAnnotations", json!([""]), ""),
        (
            "excludedAnnotations",
            json!(["a/*", "b"]),
            r#"excluded: [ Prefix( "a/", Key( "b","#,
        ),
        (
            "excludedAnnotations",
            json!("a/*,b"),
            r#"failed to read the Link: spec.excludedAnnotations: invalid type: string "a/*,b", expected a sequence"#,
        ),
        (
            "excludedLabels",
            json!([7]),
            "failed to read the Link: spec.excludedLabels[0]: invalid type: integer `7`, expected a string",
        ),
        ("excludedLabels", json!(["*"]), r#"excluded: [ Key( "*","#),
        (
            "",
            json!(null),
            "failed to read the Link: missing field `spec`",
        ),
        ("other", json!("x"), ""),
    ];
    for (field, value, expected) in cases {
        assert_eq!(read(field, &value), expected, "{field}: {value}");
    }
}
