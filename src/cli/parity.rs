//! Our flags compared with those of `linkerd multicluster`: names, defaults, and whether help shows them. What is not
//! the same is in `docs/differences.md`.

use std::{fs, path::Path};

use clap::Command;

use Here::{Absent, Differs, Same};

/// How a flag is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    /// With the same short name and default, and as visible.
    Same,
    /// With something else, of which the page tells.
    Differs,
    /// Refused, of which the page tells.
    Absent,
}

/// A flag: command, name, short name, default, whether it is hidden, and how it is here.
type Flag = (
    &'static str,
    &'static str,
    Option<char>,
    &'static str,
    bool,
    Here,
);

/// The flags of `linkerd multicluster`, as of linkerd2 of August 2026. An empty command: those of all commands.
#[rustfmt::skip] // a table: one flag a line
const FLAGS: [Flag; 73] = [
    ("", "linkerd-namespace", Some('L'), "linkerd", false, Same),
    ("", "kubeconfig", None, "", false, Same),
    ("", "context", None, "", false, Same),
    ("", "as", None, "", false, Same),
    ("", "as-group", None, "", false, Same),
    ("", "api-addr", None, "", false, Same),
    ("", "verbose", None, "false", false, Same),
    ("install", "gateway", None, "true", false, Same),
    ("install", "gateway-port", None, "4143", false, Same),
    ("install", "gateway-probe-seconds", None, "3", false, Same),
    ("install", "gateway-probe-port", None, "4191", false, Same),
    ("install", "service-mirror-credentials", None, "true", false, Same),
    ("install", "gateway-service-type", None, "LoadBalancer", false, Same),
    ("install", "gateway-healthcheck-nodeport", None, "0", false, Same),
    ("install", "ha", None, "false", false, Same),
    ("install", "wait", None, "5m0s", false, Differs),
    ("install", "ignore-cluster", None, "false", false, Same),
    ("install", "output", Some('o'), "yaml", false, Same),
    ("install", "values", Some('f'), "", false, Same),
    ("install", "set", None, "", false, Same),
    ("install", "set-string", None, "", false, Same),
    ("install", "set-file", None, "", false, Same),
    ("link-gen", "namespace", None, "linkerd-multicluster", false, Same),
    ("link-gen", "cluster-name", None, "", false, Same),
    ("link-gen", "api-server-address", None, "", false, Same),
    ("link-gen", "service-account-name", None, "linkerd-service-mirror-remote-access-default", false, Same),
    ("link-gen", "gateway-name", None, "linkerd-gateway", false, Same),
    ("link-gen", "gateway-namespace", None, "linkerd-multicluster", false, Same),
    ("link-gen", "selector", Some('l'), "mirror.linkerd.io/exported=true", false, Same),
    ("link-gen", "remote-discovery-selector", None, "mirror.linkerd.io/exported=remote-discovery", false, Same),
    ("link-gen", "federated-service-selector", None, "mirror.linkerd.io/federated=member", false, Same),
    ("link-gen", "gateway-addresses", None, "", false, Same),
    ("link-gen", "gateway-port", None, "0", false, Same),
    ("link-gen", "excluded-annotations", None, "", false, Same),
    ("link-gen", "excluded-labels", None, "", false, Same),
    ("link-gen", "gateway", None, "true", false, Same),
    ("link-gen", "output", Some('o'), "yaml", false, Same),
    ("link", "namespace", None, "linkerd-multicluster", false, Same),
    ("link", "cluster-name", None, "", false, Same),
    ("link", "api-server-address", None, "", false, Same),
    ("link", "service-account-name", None, "linkerd-service-mirror-remote-access-default", false, Same),
    ("link", "gateway-name", None, "linkerd-gateway", false, Same),
    ("link", "gateway-namespace", None, "linkerd-multicluster", false, Same),
    ("link", "selector", Some('l'), "mirror.linkerd.io/exported=true", false, Same),
    ("link", "gateway-addresses", None, "", false, Same),
    ("link", "gateway-port", None, "0", false, Same),
    ("link", "gateway", None, "true", false, Same),
    ("link", "output", Some('o'), "yaml", false, Differs),
    ("link", "control-plane-version", None, "", false, Absent),
    ("link", "service-mirror-retry-limit", None, "3", false, Absent),
    ("link", "log-level", None, "info", false, Absent),
    ("link", "log-format", None, "plain", false, Absent),
    ("link", "registry", None, "cr.l5d.io/linkerd", false, Absent),
    ("link", "ha", None, "false", false, Absent),
    ("link", "values", Some('f'), "", false, Absent),
    ("link", "set", None, "", false, Absent),
    ("link", "set-string", None, "", false, Absent),
    ("link", "set-file", None, "", false, Absent),
    ("unlink", "namespace", None, "linkerd-multicluster", false, Same),
    ("unlink", "cluster-name", None, "", false, Same),
    ("unlink", "only-controller", None, "false", false, Same),
    ("unlink", "output", Some('o'), "yaml", false, Same),
    ("uninstall", "output", Some('o'), "yaml", false, Same),
    ("allow", "namespace", None, "linkerd-multicluster", false, Same),
    ("allow", "service-account-name", None, "", false, Same),
    ("allow", "ignore-cluster", None, "false", false, Same),
    ("allow", "output", Some('o'), "yaml", false, Same),
    ("gateways", "cluster-name", None, "", false, Same),
    ("gateways", "wait", Some('w'), "30s", false, Same),
    ("gateways", "output", Some('o'), "", false, Same),
    ("check", "output", Some('o'), "table", false, Same),
    ("check", "wait", None, "5m0s", false, Differs),
    ("check", "timeout", None, "10s", false, Same),
];
/// Flags that are accepted and mean nothing, which help does not show.
const HIDDEN: [(&str, &str); 2] = [("check", "proxy"), ("check", "namespace")];

/// How a flag of `command` differs from that of Linkerd; `None` if it does not.
fn difference(command: &Command, flag: &Flag) -> Option<String> {
    let (_, name, short, default, hidden, _) = *flag;
    let mut all = command.get_arguments();
    let Some(own) = all.find(|arg| arg.get_long() == Some(name)) else {
        return Some("absent".to_owned());
    };
    let values = own.get_default_values().iter();
    let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
    let values = values.join(",");
    // A flag without a value is off.
    let off = ["", "false"];
    let same_default =
        values == default || off.contains(&values.as_str()) && off.contains(&default);
    let mut differences = Vec::new();
    if !same_default {
        differences.push(format!("default {values:?}, not {default:?}"));
    }
    if own.get_short() != short {
        differences.push(format!("short name {:?}", own.get_short()));
    }
    if own.is_hide_set() != hidden {
        differences.push(format!("hidden: {}", own.is_hide_set()));
    }
    (!differences.is_empty()).then(|| differences.join(", "))
}

#[test]
fn flags_are_those_of_linkerd_multicluster_or_listed_as_different() {
    let mut all = super::command();
    all.build();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/differences.md");
    let page = fs::read_to_string(page).unwrap();
    let mut wrong = Vec::new();
    for flag in &FLAGS {
        let (name, long, .., here) = *flag;
        let command = if name.is_empty() {
            Some(&all)
        } else {
            all.find_subcommand(name)
        };
        let found = difference(command.unwrap(), flag);
        let expected = match &found {
            None => Same,
            Some(what) if what == "absent" => Absent,
            Some(_) => Differs,
        };
        if here != expected {
            wrong.push(format!("{name} --{long}: {found:?}"));
        }
        let listed = page.lines().any(|line| {
            line.starts_with(&format!("| `{name}")) && line.contains(&format!("`--{long}`"))
        });
        if here != Same && !listed {
            wrong.push(format!("{name} --{long} is not in docs/differences.md"));
        }
    }
    for (name, long) in HIDDEN {
        let mut known = all.find_subcommand(name).unwrap().get_arguments();
        let is_there = known.any(|arg| arg.get_long() == Some(long) && arg.is_hide_set());
        if !is_there {
            wrong.push(format!("{name} --{long} is not accepted, or shown"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
