//! Parsing of Links: each invalid field is reported in one clear sentence, and each absent one has its default.

use super::*;
use crate::mirror::fixtures::{ip, link};

/// A situation, and the change of a valid Link for it.
type Usable = (&'static str, fn(&mut Link));
/// The change of a valid Link, and the expected error.
type Refused = (fn(&mut Link), &'static str);
/// The change of a valid probe, and the expected error.
type Unprobed = (fn(&mut ProbeSpec), &'static str);

fn changed(change: fn(&mut Link)) -> Link {
    let mut made = link("east");
    change(&mut made);
    made
}

fn probe_of(change: fn(&mut ProbeSpec)) -> Result<Option<Probe>, String> {
    let mut made = link("east");
    change(&mut made.spec.probe_spec);
    let target = Target::parse(&made, false).unwrap();
    target.gateway.unwrap().probe
}

fn requirement(operator: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
    let selector =
        serde_json::json!({ "matchExpressions": [{ "key": "a", "operator": operator }] });
    serde_json::from_value(selector).unwrap()
}

#[test]
fn each_field_that_makes_a_link_unusable_is_named_with_its_value() {
    let cases: [Refused; 11] = [
        (
            |link| link.spec.target_cluster_name.clear(),
            r#"invalid spec.targetClusterName "": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            |link| link.spec.target_cluster_name = "East".into(),
            r#"invalid spec.targetClusterName "East": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            |link| link.spec.target_cluster_name = "east.eu".into(),
            r#"invalid spec.targetClusterName "east.eu": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            |link| link.spec.target_cluster_name = "-east".into(),
            r#"invalid spec.targetClusterName "-east": must be a DNS label (a-z, 0-9 and -, up to 63 characters)"#,
        ),
        (
            |link| link.spec.gateway_port.clear(),
            r#"invalid spec.gatewayPort "": must be a port number"#,
        ),
        (
            |link| link.spec.gateway_port = "0".into(),
            r#"invalid spec.gatewayPort "0": must be a port number"#,
        ),
        (
            |link| link.spec.gateway_port = "65536".into(),
            r#"invalid spec.gatewayPort "65536": must be a port number"#,
        ),
        (
            |link| link.spec.gateway_port = "mc-gateway".into(),
            r#"invalid spec.gatewayPort "mc-gateway": must be a port number"#,
        ),
        (
            |link| link.spec.selector = Some(requirement("Gt")),
            r#"invalid spec.selector: unknown selector operator "Gt""#,
        ),
        (
            |link| link.spec.remote_discovery_selector = Some(requirement("In")),
            "invalid spec.remoteDiscoverySelector: operator In requires at least one value",
        ),
        (
            |link| link.spec.federated_service_selector = Some(requirement("NotIn")),
            "invalid spec.federatedServiceSelector: operator NotIn requires at least one value",
        ),
    ];
    for (change, sentence) in cases {
        let error = Target::parse(&changed(change), false).unwrap_err();
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn unusual_but_valid_links_are_accepted() {
    let cases: [Usable; 5] = [
        ("a port without a gateway is not looked at", |link| {
            link.spec.gateway_address.clear();
            link.spec.gateway_port = "none".into();
        }),
        ("spaces around a port", |link| {
            link.spec.gateway_port = " 4143 ".into();
        }),
        ("no identity", |link| link.spec.gateway_identity.clear()),
        ("no selectors", |link| {
            link.spec.selector = None;
            link.spec.remote_discovery_selector = None;
            link.spec.federated_service_selector = None;
        }),
        ("a probe that cannot be read", |link| {
            link.spec.probe_spec.port = "x".into();
        }),
    ];
    for (what, change) in cases {
        assert!(Target::parse(&changed(change), false).is_ok(), "{what}");
    }
}

#[test]
fn a_bad_probe_field_stops_probing_and_says_why() {
    let cases: [Unprobed; 10] = [
        (
            |probe| probe.path = "/ready x".into(),
            r#"invalid spec.probeSpec.path "/ready x": must be a path such as /ready"#,
        ),
        (
            |probe| probe.path = "/r\u{e9}ady#now".into(),
            r#"invalid spec.probeSpec.path "/réady#now": must be a path such as /ready"#,
        ),
        (
            |probe| probe.port.clear(),
            r#"invalid spec.probeSpec.port "": must be a port number"#,
        ),
        (
            |probe| probe.port = "http".into(),
            r#"invalid spec.probeSpec.port "http": must be a port number"#,
        ),
        (
            |probe| probe.period = "3".into(),
            r#"invalid spec.probeSpec.period "3": must be a duration such as 3s"#,
        ),
        (
            |probe| probe.period.clear(),
            r#"invalid spec.probeSpec.period "": must be a duration such as 3s"#,
        ),
        (
            |probe| probe.period = "-3s".into(),
            r#"invalid spec.probeSpec.period "-3s": must be a duration such as 3s"#,
        ),
        (
            |probe| probe.period = "0s".into(),
            r#"invalid spec.probeSpec.period "0s": must be a duration such as 3s"#,
        ),
        (
            |probe| probe.timeout = Some("soon".into()),
            r#"invalid spec.probeSpec.timeout "soon": must be a duration such as 3s"#,
        ),
        (
            |probe| probe.failure_threshold = Some("0".into()),
            r#"invalid spec.probeSpec.failureThreshold "0": must be a number above 0"#,
        ),
    ];
    for (change, sentence) in cases {
        assert_eq!(probe_of(change), Err(sentence.to_owned()));
    }
}

#[test]
fn a_link_whose_name_gives_no_service_name_is_not_probed_and_says_why() {
    let mut made = link("east");
    made.metadata.name = Some("east.eu".into());
    let probe = |made: &Link| Target::parse(made, false).unwrap().gateway.unwrap().probe;
    let sentence =
        "cannot create a probe Service for the Link: invalid Service name \"probe-east.eu\"";
    assert_eq!(probe(&made), Err(sentence.to_owned()));
    made.spec.probe_spec.path.clear();
    assert_eq!(probe(&made), Ok(None));
}

#[test]
fn a_probe_has_the_defaults_of_the_crd_and_waits_no_longer_than_its_period() {
    let probe = probe_of(|_| {}).unwrap().unwrap();
    assert_eq!(
        (probe.path.as_str(), probe.port, probe.threshold),
        ("/ready", 4191, 3)
    );
    let patient = probe_of(|probe| probe.failure_threshold = Some(" 5 ".into()));
    assert_eq!(patient.unwrap().unwrap().threshold, 5);
    assert_eq!(
        probe_of(|probe| probe.path.clear()),
        Ok(None),
        "no path, no probe"
    );
    assert_eq!(
        probe_of(|probe| probe.path = "live".into())
            .unwrap()
            .unwrap()
            .path,
        "/live"
    );
    for (period, timeout, waits) in [
        ("3s", None, 3_000),
        ("3s", Some(""), 3_000),
        ("3s", Some("30s"), 3_000),
        ("3s", Some("500ms"), 500),
        ("1m", None, 30_000),
        ("1m", Some("45s"), 45_000),
        ("1ns", Some("30s"), 100),
    ] {
        let mut spec = link("east").spec.probe_spec;
        period.clone_into(&mut spec.period);
        spec.timeout = timeout.map(str::to_owned);
        let read = super::probe("east", &spec).unwrap().unwrap();
        assert_eq!(
            read.timeout,
            Duration::from_millis(waits),
            "{period} {timeout:?}"
        );
    }
}

#[test]
fn gateway_addresses_are_trimmed_sorted_and_distinguished_from_names() {
    let name = |text: &str| Host::Name(text.to_owned());
    for (text, hosts) in [
        ("", vec![]),
        (" , ", vec![]),
        ("192.0.2.1", vec![Host::Ip(ip("192.0.2.1"))]),
        (
            "gw.example.com, 192.0.2.1 ,192.0.2.1",
            vec![Host::Ip(ip("192.0.2.1")), name("gw.example.com")],
        ),
        ("2001:db8::1", vec![Host::Ip(ip("2001:db8::1"))]),
        ("[2001:db8::1]", vec![Host::Ip(ip("2001:db8::1"))]),
        ("192.0.2.999", vec![name("192.0.2.999")]),
    ] {
        assert_eq!(Host::parse_list(text), hosts, "{text:?}");
    }
}

#[test]
fn a_port_or_a_url_is_no_address_of_a_gateway() {
    for text in [
        "gw.example.com:4143",
        "192.0.2.1:4143",
        "[2001:db8::1]:4143",
        "https://gw.example.com",
        "a b",
    ] {
        let hosts = Host::parse_list(text);
        let [Host::Name(name)] = &hosts[..] else {
            panic!("{text}: {hosts:?}");
        };
        let why = Host::objection(name).unwrap();
        assert!(why.starts_with("spec.gatewayAddress must have"), "{text}");
    }
    for name in ["gw.example.com", "GW.example.com.", "my_gateway", "4143"] {
        assert_eq!(Host::objection(name), None, "{name}");
    }
}

#[test]
fn without_a_domain_a_target_has_that_of_kubernetes() {
    let target = |change| Target::parse(&changed(change), false).unwrap();
    let absent = target(|link| link.spec.target_cluster_domain.clear());
    assert_eq!(absent.domain, "cluster.local");
    let other = target(|link| link.spec.target_cluster_domain = "east.example".to_owned());
    assert_eq!(other.domain, "east.example");
}

#[test]
fn the_setting_for_headless_services_of_a_link_overrides_the_default() {
    for (says, by_default, headless) in [
        (None, false, false),
        (None, true, true),
        (Some("enabled"), false, true),
        (Some("true"), false, true),
        (Some("disabled"), true, false),
        (Some("false"), true, false),
        (Some("perhaps"), true, true),
    ] {
        let mut made = link("east");
        if let Some(says) = says {
            let annotations = made.metadata.annotations.get_or_insert_default();
            annotations.insert(l::HEADLESS_SERVICES.to_owned(), says.to_owned());
        }
        let read = Target::parse(&made, by_default).unwrap();
        assert_eq!(read.headless, headless, "{says:?}, by default {by_default}");
    }
}

#[test]
fn a_rule_that_says_what_is_copied_can_make_a_link_invalid() {
    for key in [l::COPIED_LABELS, l::COPIED_ANNOTATIONS] {
        for (rules, valid) in [
            ("", true),
            ("a.io/*, b", true),
            ("a.io/*,b c", false),
            ("mirror.linkerd.io/*", false),
        ] {
            let mut made = link("east");
            let annotations = made.metadata.annotations.get_or_insert_default();
            annotations.insert(key.to_owned(), rules.to_owned());
            let read = Target::parse(&made, false);
            assert_eq!(read.is_ok(), valid, "{key}: {rules}");
            if let Err(error) = read {
                assert!(error.to_string().contains(key), "{error}");
            }
        }
    }
}

#[test]
fn networks_of_gateways_are_read_or_make_a_link_invalid() {
    let read = |networks: Option<&str>| {
        let mut made = link("east");
        let annotations = made.metadata.annotations.get_or_insert_default();
        let key = l::GATEWAY_NETWORKS.to_owned();
        annotations.extend(networks.map(|text| (key, text.to_owned())));
        Target::parse(&made, false).map(|target| target.gateway.unwrap().networks)
    };
    let two = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    for (networks, expected) in [
        (None, None),
        (Some(""), None),
        (Some(" , "), None),
        (Some("10.0.0.0/8, ::1"), Some(two)),
    ] {
        assert_eq!(read(networks), Ok(expected), "{networks:?}");
    }
    let error = read(Some("10.0.0.0/8,east")).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid annotation multicluster.linkerd.io/gateway-networks: invalid network \"east\" (use an address, or a \
         network such as 192.0.2.0/24)"
    );
    // IPv4-mapped addresses are read as IPv4 addresses.
    assert_eq!(
        Host::parse_list("::ffff:192.0.2.1,192.0.2.1"),
        [Host::Ip("192.0.2.1".parse().unwrap())]
    );
}

#[test]
fn services_are_watched_with_as_few_selectors_as_possible() {
    let queries = |change| {
        let target = Target::parse(&changed(change), false).unwrap();
        let selectors = target.service_selectors();
        selectors.iter().map(Selector::query).collect::<Vec<_>>()
    };
    assert_eq!(
        queries(|_| {}),
        [
            "mirror.linkerd.io/exported in (remote-discovery,true)",
            "mirror.linkerd.io/federated in (member)"
        ]
    );
    assert_eq!(
        queries(|link| link.spec.selector = None),
        [
            "mirror.linkerd.io/exported in (remote-discovery)",
            "mirror.linkerd.io/federated in (member)"
        ]
    );
}

#[test]
fn link_says_whether_only_listed_keys_are_copied() {
    let read = |which: Option<&str>| {
        let mut made = link("east");
        let annotations = made.metadata.annotations.get_or_insert_default();
        annotations.extend(which.map(|which| (l::COPY.to_owned(), which.to_owned())));
        Target::parse(&made, false).map(|target| target.exclusions)
    };
    let all = read(None);
    assert_eq!(read(Some("all")), all);
    assert_ne!(read(Some(" listed ")), all);
    let error = read(Some("none")).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid annotation multicluster.linkerd.io/copy: invalid value \"none\" (use all or listed)"
    );
}

#[test]
fn link_says_through_what_its_cluster_takes_part_in_federated_services() {
    let read = |through: Option<&str>| {
        let mut made = link("east");
        let annotations = made.metadata.annotations.get_or_insert_default();
        let key = l::FEDERATED_THROUGH;
        annotations.extend(through.map(|through| (key.to_owned(), through.to_owned())));
        FederatedThrough::of(&made.metadata)
    };
    for (through, expected) in [
        (None, FederatedThrough::Discovery),
        (Some("discovery"), FederatedThrough::Discovery),
        (Some(" gateway "), FederatedThrough::Gateway),
    ] {
        assert_eq!(read(through), Ok(expected), "{through:?}");
    }
    let error = read(Some("pods")).unwrap_err().to_string();
    assert_eq!(error, "invalid value \"pods\" (use discovery or gateway)");
}
