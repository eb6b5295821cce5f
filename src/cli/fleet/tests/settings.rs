//! Each setting of a Link is known wherever settings are looked at.

use std::path::Path;

use clap::{Args as _, Command};
use links::{
    fleet::{link_settings::link_settings, loaded::parse},
    given::Given,
    link::{existing::Existing, flags::LinkArgs},
    steps::{Action, settings_changes},
};
use manifests::link::LinkOptions;
use mirror_core::api::link::Link;
use serde_json::json;

use super::planned::{FILE, installed, loaded, name, plan};

/// A value of each flag that sets something of a Link: not its default, and as the file has it.
const VALUES: [(&str, &str); 13] = [
    ("allowed_namespaces", "allowedNamespaces: team=a"),
    ("copied_annotations", "copiedAnnotations: [a.example/x]"),
    ("copied_labels", "copiedLabels: [a.example/x]"),
    ("copy", "copy: listed"),
    ("enable_headless_services", "enableHeadlessServices: true"),
    ("excluded_annotations", "excludedAnnotations: [a]"),
    ("excluded_labels", "excludedLabels: [a]"),
    (
        "federated_service_selector",
        "federatedServiceSelector: a=b",
    ),
    ("federated_through", "federatedThrough: gateway"),
    ("federation", "federation: none"),
    ("gateway_networks", "gatewayNetworks: [192.0.2.0/24]"),
    ("remote_discovery_selector", "remoteDiscoverySelector: a=b"),
    ("selector", "selector: a=b"),
];

/// The Link of `west` to `east` with these settings.
fn link(settings: &str) -> Link {
    let file = format!(
        "name: f\nclusters: [{{name: east}}, {{name: west}}]\n\
         links: [{{target: east, source: west, settings: {{{settings}}}}}]\n"
    );
    let loaded = loaded(&file);
    let side = installed("east", "192.0.2.1").target.unwrap().unwrap();
    assert_eq!(loaded.links[0].ends.target, name("east"));
    let made = loaded.links[0].objects(&loaded, &side, None, &mut Vec::new());
    made.unwrap().link
}

#[test]
fn each_setting_is_kept_shown_and_imported() {
    let command = LinkOptions::augment_args(Command::new("x"));
    let mut flags: Vec<&str> = command
        .get_arguments()
        .map(|arg| arg.get_id().as_str())
        .collect();
    flags.sort_unstable();
    assert_eq!(
        flags,
        VALUES.map(|(flag, _)| flag),
        "add a value for a new flag"
    );

    let defaults = LinkArgs::default().options;
    let usual = link("");
    for (flag, setting) in VALUES {
        let set = link(setting);
        assert_ne!(json!(usual), json!(set), "{flag} changes nothing");
        assert_eq!(
            settings_changes(&usual, &set).len(),
            1,
            "`link` does not show a change of {flag}"
        );

        let existing = Existing {
            link: Some(&set),
            ..Existing::default()
        };
        let mut again = usual.clone();
        existing.keep(&mut again, &Given::default());
        assert_eq!(json!(again), json!(set), "`link` does not keep {flag}");

        let (key, _) = setting.split_once(':').unwrap();
        let imported = link_settings(&set, &defaults);
        assert!(
            imported.contains_key(key),
            "`fleet import` does not know {flag}"
        );
    }
}

#[test]
fn settings_of_several_links_concern_only_links_that_can_use_them() {
    let idle = "{selector: a=b, gatewayNetworks: [192.0.2.0/24], copy: listed}";
    let parsed = |defaults: &str, of_mesh: &str, single: &str| {
        let text = format!(
            "name: f\nclusters: [{{name: flat, gateway: false}}, {{name: west}}]\ndefaults: {defaults}\n\
             links:\n- {{mesh: all, settings: {of_mesh}}}\n- {{target: flat, source: west, settings: {single}}}\n"
        );
        parse("fleet.yaml", &text, Path::new(""), "linkerd")
    };
    for (defaults, of_mesh) in [(idle, "{}"), ("{}", idle)] {
        let loaded = parsed(defaults, of_mesh, "{}").unwrap();
        let shown = loaded.links.iter().map(|link| {
            let set = loaded.fleet.links[&link.ends].settings.keys();
            let set: Vec<&str> = set.copied().collect();
            assert_eq!(link.given.has(&["selector"]), set.contains(&"selector"));
            (link.ends.target.to_string(), set)
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (
                    "west".to_owned(),
                    vec!["copy", "gatewayNetworks", "selector"]
                ),
                ("flat".to_owned(), vec!["copy"]),
            ]
        );
    }
    let refused = parsed("{}", "{}", "{selector: a=b}")
        .map(|_| ())
        .unwrap_err();
    assert!(format!("{refused:#}").contains("--selector cannot be used with --gateway=false"));
}

#[test]
fn account_has_the_rights_that_its_link_needs() {
    let (east, west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    for (settings, reads_pods) in [
        ("{}", true),
        ("{remoteDiscoverySelector: ''}", true),
        ("{federatedServiceSelector: ''}", true),
        (
            "{remoteDiscoverySelector: '', federatedServiceSelector: ''}",
            false,
        ),
    ] {
        let loaded = loaded(&FILE.replace(
            "source: west",
            &format!("source: west, settings: {settings}"),
        ));
        let plan = plan(&loaded, &[("east", Ok(&east)), ("west", Ok(&west))]);
        let steps = plan.steps_in(&name("east")).unwrap();
        let role = steps.iter().find_map(|step| match &step.action {
            Action::Apply(object) if object["kind"] == "ClusterRole" => Some(object.to_string()),
            _ => None,
        });
        assert_eq!(role.unwrap().contains("pods"), reads_pods, "{settings}");
    }
}
