//! Tests of what a new link keeps of the one that is there.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::json;

use crate::link::existing::*;

fn kubeconfig(server: &str, authority: &str, uid: Option<&str>) -> KubeconfigTarget {
    let claims = json!({
        "sub": "system:serviceaccount:mc:west",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
    });
    let token = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    let text = json!({
        "clusters": [{ "cluster": { "server": server, "certificate-authority-data": authority } }],
        "users": [{ "user": { "token": format!("e30.{token}.sig") } }],
    });
    KubeconfigTarget::of(text.to_string().as_bytes()).unwrap()
}

#[test]
fn flags_that_set_something_are_flags_of_a_link() {
    let mut fields = Vec::new();
    for setting in &SETTINGS {
        fields.push(setting.flag());
    }
    fields.extend(GATEWAY_FLAGS.map(str::to_owned));
    let others = [
        "api_server_address",
        "api_server_through_gateway",
        "proxy_url",
        "service_account_name",
        "service_account_namespace",
    ];
    fields.extend(others.map(str::to_owned));
    let command = command();
    for field in &fields {
        let mut known = command.get_arguments();
        assert!(known.any(|arg| arg.get_id() == field), "{field}");
    }
}

fn command() -> Command {
    LinkArgs::augment_args(Command::new("link"))
}

/// The flags of a command line, and which of them are there.
fn flags(line: &str) -> (LinkArgs, Given) {
    let words = line.split_whitespace();
    let matches = command().no_binary_name(true).try_get_matches_from(words);
    let matches = matches.unwrap();
    (
        LinkArgs::from_arg_matches(&matches).unwrap(),
        Given::of(&matches),
    )
}

fn there() -> Link {
    let annotations = json!({
        labels::ALLOWED_NAMESPACES: "team=a",
        labels::GATEWAY_NETWORKS: "192.0.2.0/24",
        labels::FEDERATION: "none",
        labels::DRAINED_UNTIL: "later",
    });
    serde_json::from_value(json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": "east", "annotations": annotations },
        "spec": {
            "targetClusterName": "east",
            "gatewayAddress": "192.0.2.1,gw.example.com", "gatewayPort": "31000",
            "selector": { "matchLabels": { "a": "b" } },
            "federatedServiceSelector": { "matchLabels": { "c": "d" } },
            "excludedLabels": ["secret"],
        },
    }))
    .unwrap()
}

#[test]
fn what_is_set_stays_unless_a_flag_names_it() {
    let (old, credentials) = (there(), kubeconfig("https://old", "a", None));
    let existing = Existing {
        link: Some(&old),
        credentials: Some(&credentials),
        is_of_another: false,
    };
    let (args, given) = flags("--gateway-port 4143");
    let args = existing.over(&args, &given);
    assert_eq!(args.api_server_address.as_deref(), Some("https://old"));
    assert_eq!(args.service_account_name, "west");
    assert_eq!(args.service_account_namespace.as_deref(), Some("mc"));
    assert_eq!(args.gateway_addresses, ["192.0.2.1", "gw.example.com"]);
    assert_eq!(args.gateway_port, 4143);
    assert!(args.gateway);

    let line = "--api-server-address https://new --service-account-name own \
                --gateway-addresses 192.0.2.9";
    let (args, given) = flags(line);
    let args = existing.over(&args, &given);
    assert_eq!(args.api_server_address.as_deref(), Some("https://new"));
    assert_eq!(args.service_account_name, "own");
    assert_eq!(args.service_account_namespace, None);
    assert_eq!(args.gateway_addresses, ["192.0.2.9"]);
    assert_eq!(args.gateway_port, 31_000);

    let mut new = there();
    new.spec.excluded_labels = vec![];
    new.spec.selector = None;
    new.spec.federated_service_selector = None;
    new.metadata.annotations =
        Some([(labels::FEDERATION.to_owned(), "local-members".to_owned())].into());
    existing.keep(
        &mut new,
        &Given::of_test(&["federation", "excluded_labels"]),
    );
    let annotations = new.annotations();
    assert_eq!(annotations[labels::ALLOWED_NAMESPACES], "team=a");
    assert_eq!(annotations[labels::GATEWAY_NETWORKS], "192.0.2.0/24");
    assert_eq!(annotations[labels::FEDERATION], "local-members");
    assert_eq!(new.spec.excluded_labels, [""; 0]);
    assert_eq!(new.spec.selector, old.spec.selector);
    assert_eq!(
        new.spec.federated_service_selector,
        old.spec.federated_service_selector
    );
    assert!(
        !annotations.contains_key(labels::DRAINED_UNTIL),
        "nothing that `drain` wrote"
    );
}

#[test]
fn addresses_of_another_cluster_are_not_kept_and_restrictions_are() {
    let old = there();
    let existing = Existing {
        link: Some(&old),
        credentials: None,
        is_of_another: true,
    };
    let (args, given) = flags("");
    let args = existing.over(&args, &given);
    assert_eq!(args.gateway_addresses, [""; 0]);
    assert_eq!((args.gateway_port, args.api_server_address), (0, None));
    let mut new = there();
    new.metadata.annotations = None;
    existing.keep(&mut new, &given);
    assert_eq!(new.annotations()[labels::ALLOWED_NAMESPACES], "team=a");
}

#[test]
fn way_to_the_api_server_stays_unless_a_flag_names_it() {
    const OLD: &str = "https://api-east.mc.svc";
    let credentials = kubeconfig(OLD, "a", None);
    let [direct, mut alone] = [there(), there()];
    let set = alone.metadata.annotations.as_mut().unwrap();
    set.insert(labels::API_GATEWAY.to_owned(), "{}".to_owned());
    let mut both = alone.clone();
    let set = both.metadata.annotations.as_mut().unwrap();
    let address = "https://east:6443".to_owned();
    set.insert(labels::DISCOVERY_API_SERVER.to_owned(), address);
    let over = |link: &Link, line: &str| {
        let existing = Existing {
            link: Some(link),
            credentials: Some(&credentials),
            is_of_another: false,
        };
        let (args, given) = flags(line);
        let args = existing.over(&args, &given);
        let by_gateway = args.options.federated_through == FederatedThrough::Gateway;
        let way = args.api_server_through_gateway;
        (way, args.api_server_address, by_gateway)
    };
    let at = |address: &str| Some(address.to_owned());
    let through = " --api-server-through-gateway";
    for (link, line, expected) in [
        (&direct, "", (false, at(OLD), false)),
        (&direct, through, (true, None, true)),
        (&alone, "", (true, None, true)),
        (
            &alone,
            " --api-server-address https://b",
            (true, at("https://b"), false),
        ),
        (
            &alone,
            " --api-server-through-gateway=false",
            (false, None, false),
        ),
        (&alone, " --gateway=false", (false, None, false)),
        (&both, "", (true, at("https://east:6443"), false)),
    ] {
        assert_eq!(over(link, line), expected, "{line}");
    }
    let (args, _) = flags("--api-server-through-gateway");
    let refused = args.agree_on_discovery().unwrap_err().to_string();
    assert!(
        refused.contains("--federated-through=discovery"),
        "{refused}"
    );
}

#[test]
fn proxy_stays_unless_a_flag_names_it() {
    let text = json!({ "clusters": [{ "cluster": {
        "server": "https://old", "proxy-url": "http://me:s3cret@proxy:3128",
    } }] });
    let credentials = KubeconfigTarget::of(text.to_string().as_bytes()).unwrap();
    assert_eq!(credentials.proxy.shown(), "http://proxy:3128");
    let existing = Existing {
        credentials: Some(&credentials),
        ..Existing::default()
    };
    for (line, expected) in [
        ("", "http://proxy:3128"),
        (" --proxy-url none", "none"),
        (" --proxy-url socks5://other:1080", "socks5://other:1080"),
    ] {
        let (args, given) = flags(line);
        let args = existing.over(&args, &given);
        assert_eq!(args.proxy_url.unwrap().shown(), expected, "{line}");
    }
}

#[test]
fn gateway_stays_off_unless_a_flag_names_it() {
    let mut old = there();
    old.spec.gateway_address.clear();
    old.spec.selector = None;
    let existing = Existing {
        link: Some(&old),
        ..Existing::default()
    };
    for (more, expected) in [
        ("", false),
        (" --gateway", true),
        (" --gateway-addresses 192.0.2.1", true),
        (" --federation any", false),
    ] {
        let (args, given) = flags(more);
        assert_eq!(existing.over(&args, &given).gateway, expected, "{more}");
    }
    // With a gateway again, its selector is the default.
    let mut new = there();
    existing.keep(&mut new, &Given::default());
    assert_eq!(new.spec.selector, there().spec.selector);
    // Without one, what only gateways have goes.
    let old = there();
    let existing = Existing {
        link: Some(&old),
        ..Existing::default()
    };
    let mut new = there();
    new.spec.gateway_address.clear();
    new.spec.selector = None;
    existing.keep(&mut new, &Given::of_test(&["gateway"]));
    assert!(!new.annotations().contains_key(labels::GATEWAY_NETWORKS));
    assert_eq!(new.spec.selector, None);
}
