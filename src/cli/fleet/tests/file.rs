//! What files mean, and which are refused.

use std::{collections::BTreeSet, fs, path::Path};

use clap::{Args as _, Command, FromArgMatches as _};
use hints::hint::hint_of;
use links::{
    fleet::loaded::{LoadedFleet, link_flags, load_offline, parse},
    fleet_file::schema,
    link::{flags::LinkArgs, keys},
};
use manifests::link::in_words;

use crate::cli::{common::args::Global, fleet::source::FleetOnly};

/// Flags of `link` that the file does not have: `fleet` chooses the account of each cluster, and its token does not expire.
const LEFT_OUT: [&str; 2] = ["service-account-name", "token-duration"];

fn loaded(text: &str) -> anyhow::Result<LoadedFleet> {
    parse("fleet.yaml", text, Path::new("/fleets"), "linkerd")
}

/// The links of a file, each with the flags of the file.
fn links(text: &str) -> Vec<String> {
    let loaded = loaded(text).unwrap();
    let links = loaded.links.iter().map(|link| {
        let words = loaded.fleet.set_for(&link.ends);
        let words = words.map(|set| format!("--{}={}", in_words(set.key, '-'), set.text));
        let words = words.collect::<Vec<_>>().join(" ");
        let line = format!("{}>{} {words}", link.ends.source, link.ends.target);
        line.trim_end().to_owned()
    });
    links.collect()
}

const CLUSTERS: &str = "name: f\nclusters: [{name: a}, {name: b}, {name: c}]\n";

#[test]
fn entries_name_links_and_the_most_special_setting_wins() {
    for (rest, expected) in [
        ("links: []", &[][..]),
        ("links: [{mesh: [a, b]}]", &["a>b", "b>a"]),
        (
            "links: [{mesh: all}]",
            &["a>b", "a>c", "b>a", "b>c", "c>a", "c>b"],
        ),
        ("links: [{hub: a, spokes: all}]", &["b>a", "c>a"]),
        (
            "links: [{hub: a, spokes: [b], mutual: true}]",
            &["a>b", "b>a"],
        ),
        (
            "links: [{groups: {one: [a, b], two: [c]}}]",
            &["a>b", "b>a"],
        ),
        ("links: [{target: a, source: b}]", &["b>a"]),
        (
            "links: [{target: a, source: b, mutual: true}]",
            &["a>b", "b>a"],
        ),
        (
            "defaults: {federation: none, copy: listed}\n\
             links:\n\
             - {mesh: [a, b], settings: {federation: any, excludedLabels: [x, y.io/*]}}\n\
             - {target: a, source: b, settings: {federation: local-members, gatewayNetworks: 192.0.2.0/24}}",
            &[
                "a>b --copy=listed --excluded-labels=x,y.io/* --federation=any",
                "b>a --copy=listed --excluded-labels=x,y.io/* --federation=local-members --gateway-networks=192.0.2.0/24",
            ],
        ),
        // A contradiction that a single link decides is none.
        (
            "links:\n\
             - {mesh: [a, b], settings: {federation: none}}\n\
             - {hub: a, spokes: [b], settings: {federation: any}}\n\
             - {target: a, source: b, settings: {federation: any}}",
            &["a>b --federation=none", "b>a --federation=any"],
        ),
    ] {
        assert_eq!(links(&format!("{CLUSTERS}{rest}\n")), expected, "{rest}");
    }
}

#[test]
fn settings_of_clusters_are_those_of_the_links_to_them() {
    let text = "
name: f
namespace: mc
clusters:
- name: a
  context: admin@a
  kubeconfig: a.yaml
  apiServerAddress: a.example.com:6443
  proxyUrl: http://me:s3cret@proxy:3128
  gatewayAddresses: [192.0.2.1, gw.example.com]
  gatewayPort: 4243
  insecureTargetTls: true
- name: b
  apiServerThroughGateway: true
links:
- mesh: all
  settings: {enableHeadlessServices: false}
";
    assert_eq!(
        links(text),
        [
            "a>b --namespace=mc --api-server-through-gateway=true --enable-headless-services=false",
            "b>a --namespace=mc --api-server-address=a.example.com:6443 --proxy-url=http://me:s3cret@proxy:3128 \
             --insecure-target-tls=true --gateway-addresses=192.0.2.1,gw.example.com --gateway-port=4243 \
             --enable-headless-services=false",
        ]
    );
    let loaded = loaded(text).unwrap();
    assert_eq!(
        (loaded.namespace.as_str(), loaded.accounts.as_str()),
        ("mc", "mc")
    );
    let access = loaded.access(&client::Access::default(), &loaded.fleet.clusters[0]);
    assert_eq!(
        access.kubeconfig.as_deref(),
        Some(Path::new("/fleets/a.yaml"))
    );
    assert_eq!(access.context.as_deref(), Some("admin@a"));
}

#[test]
fn what_cannot_be_meant_is_an_error_with_its_line_and_a_suggestion() {
    for (text, what, hint) in [
        (
            "",
            "line 1 of fleet.yaml must be a map, not nothing",
            "use the keys name, id, namespace",
        ),
        (
            "a: [",
            "cannot read fleet.yaml",
            "it must be one YAML document",
        ),
        (
            "name: f\n",
            "missing clusters in fleet.yaml, line 1",
            "clusters: The clusters",
        ),
        (
            "name: F\nclusters: []\nlinks: []\n",
            "invalid name in fleet.yaml, line 1: must be a DNS label",
            "name: Name of the fleet",
        ),
        (
            "name: f\ncluster: []\n",
            "unknown key cluster in fleet.yaml, line 2",
            "did you mean clusters?",
        ),
        (
            "name: f\nclusters:\n- name: a\n  content: b\nlinks: []\n",
            "unknown key content in fleet.yaml, line 4",
            "did you mean context?",
        ),
        (
            "name: f\nclusters:\n- contexts: b-*\n  name: a\nlinks: []\n",
            "name cannot be used with contexts (line 4 of fleet.yaml)",
            "remove one of them; contexts names the clusters itself",
        ),
        (
            "name: f\nclusters:\n- clusterProfiles: {context: hub, namespace: a}\n  context: a\nlinks: []\n",
            "context cannot be used with clusterProfiles (line 4 of fleet.yaml)",
            "remove one of them",
        ),
        (
            "name: f\nclusters:\n- clusterProfiles: {context: hub}\nlinks: []\n",
            "missing namespace in fleet.yaml, line 3",
            "namespace: Namespace of the ClusterProfiles",
        ),
        (
            "name: f\nclusters:\n- clusterProfiles: {context: hub, namespace: a/b}\nlinks: []\n",
            "invalid namespace in fleet.yaml, line 3: must be a DNS label, got ",
            "name the namespace of the ClusterProfiles",
        ),
        (
            "name: f\nclusters:\n- clusterProfiles: {context: hub, namespace: a, label: b}\nlinks: []\n",
            "unknown key label in fleet.yaml, line 3",
            "known keys: context, namespace, selector",
        ),
        (
            "name: f\nclusters:\n- contexts: b-*\nlinks: []\n",
            "invalid contexts in fleet.yaml, line 3",
            "`kubectl config get-contexts` lists all",
        ),
        (
            "name: f\nclusters:\n- contexts: [b]\nlinks: []\n",
            "invalid contexts in fleet.yaml, line 3: must be a text",
            "contexts: Instead of name and context",
        ),
        (
            "name: f\nclusters:\n- name: a\n- name: a\nlinks: []\n",
            "two clusters of fleet.yaml are called a: at line 3 and at line 4",
            "give each cluster a name of its own",
        ),
        (
            "name: f\nclusters:\n- name: a\n  context: x\n- name: b\n  context: x\nlinks: []\n",
            "the clusters a and b of fleet.yaml have the same context (line 5)",
            "choose a context for each cluster",
        ),
        (
            "name: f\nclusters: [{name: admin}, {name: b}]\nlinks: [{mesh: all}]\n",
            "invalid the link from admin to b in fleet.yaml (mesh, line 3)",
            "the account of a cluster in other clusters has its name",
        ),
        (
            "name: f\nclusters: [{name: default}, {name: b}]\nlinks: [{target: b, source: default}]\n",
            "invalid the link from default to b in fleet.yaml (link, line 3)",
            "the account of a cluster in other clusters has its name",
        ),
    ] {
        refused(text, what, hint);
    }
    for (rest, what, hint) in [
        (
            "links: [{mesh: [a, 7]}]",
            "invalid mesh in fleet.yaml, line 3: must be a text; quote a name that is a number, got 7",
            "mesh: Clusters",
        ),
        (
            "links: [{mesh: [a, d]}]",
            "unknown cluster d in fleet.yaml, line 3",
            "did you mean",
        ),
        (
            "links: [{mesh: [a, a]}]",
            "invalid mesh in fleet.yaml, line 3: a occurs twice",
            "mesh: Clusters",
        ),
        (
            "links:\n- settings: {}\n",
            "the links at line 4 of fleet.yaml are of no kind, or of several",
            "use mesh, or hub",
        ),
        (
            "links: [{mesh: all, hub: a}]",
            "the links at line 3 of fleet.yaml are of no kind, or of several",
            "use mesh",
        ),
        (
            "links: [{hub: a}]",
            "missing spokes in fleet.yaml, line 3",
            "spokes: The spokes of a hub",
        ),
        (
            "links: [{hub: a, spokes: [a, b]}]",
            "invalid spokes in fleet.yaml, line 3: a is the hub",
            "spokes: The spokes",
        ),
        (
            "links: [{mesh: all, mutual: true}]",
            "invalid mutual in fleet.yaml, line 3: it says nothing about mesh, got true",
            "mutual: Whether",
        ),
        (
            "links: [{source: a, target: a}]",
            "invalid source in fleet.yaml, line 3: a cluster cannot be linked to itself: a is the target",
            "source: The cluster",
        ),
        (
            "defaults:\n  excludedLabel: x\nlinks: []\n",
            "unknown key excludedLabel in fleet.yaml, line 4",
            "did you mean excludedLabels?",
        ),
        (
            "defaults:\n  federation: all\nlinks: []\n",
            "invalid federation in fleet.yaml, line 4: must be one of any, local-members, none, got \"all\"",
            "federation: Which federated Services",
        ),
        (
            "defaults: {selector: 'a in b'}\nlinks: []\n",
            "invalid selector in fleet.yaml, line 3: ",
            "selector: Services to mirror",
        ),
        (
            "defaults: {selector: true}\nlinks: []\n",
            "invalid selector in fleet.yaml, line 3: must be a text",
            "selector: ",
        ),
        (
            "defaults: {enableHeadlessServices: 'no'}\nlinks: []\n",
            "invalid enableHeadlessServices in fleet.yaml, line 3: must be true or false, got \"no\"",
            "enableHeadlessServices: ",
        ),
        (
            "defaults: {gatewayNetworks: [192.0.2.0/24, x]}\nlinks: []\n",
            "invalid gatewayNetworks in fleet.yaml, line 3: ",
            "gatewayNetworks: ",
        ),
        (
            "links:\n- mesh: [a, b]\n  settings: {copy: all}\n- hub: a\n  spokes: [b]\n  settings: {copy: listed}\n",
            "the link from b to a has two values of copy in fleet.yaml: all (mesh, line 5) and listed (hub, line 8)",
            "remove one of them, or set copy for the link alone, with target: a and source: b",
        ),
        (
            "links:\n- {source: a, target: b, settings: {copy: all}}\n- {source: a, target: b, settings: {copy: listed}}\n",
            "the link from a to b has two values of copy in fleet.yaml: all (link, line 4) and listed (link, line 5)",
            "remove one of them",
        ),
    ] {
        refused(&format!("{CLUSTERS}{rest}"), what, hint);
    }
}

fn refused(text: &str, what: &str, hint: &str) {
    let Err(error) = loaded(text) else {
        panic!("accepted: {text}");
    };
    let (said, hinted) = (error.to_string(), hint_of(&error).unwrap_or_default());
    assert!(said.starts_with(what), "{text}\n{said}");
    assert!(hinted.starts_with(hint), "{text}\n{hinted}");
}

#[test]
fn contexts_that_a_pattern_names_are_clusters_with_the_settings_of_the_entry() {
    const KUBECONFIG: &str = "contexts:
- {name: prod-b, context: {cluster: b}}
- {name: kind-prod-a, context: {cluster: a}}
- {name: hub, context: {cluster: hub}}
";
    let folder = tempfile::tempdir().unwrap();
    let (file, kubeconfig) = (folder.path().join("f.yaml"), folder.path().join("config"));
    fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let global = |kubeconfig: Option<&Path>| Global {
        kubeconfig: kubeconfig.map(Path::to_owned),
        linkerd_namespace: "linkerd".to_owned(),
        ..Global::default()
    };
    let read = |clusters: &str, global: &Global| {
        fs::write(
            &file,
            format!("name: f\nclusters:\n{clusters}links: [{{mesh: all}}]\n"),
        )
        .unwrap();
        load_offline(&global.access(), global.linkerd_flag(), &file)
    };
    let by_command = global(Some(&kubeconfig));
    let all = "- name: hub\n- contexts: '*prod-*'\n  gatewayPort: 4243\n";
    let loaded = read(all, &by_command).unwrap();
    let clusters = loaded.fleet.clusters.iter();
    let clusters = clusters.map(|of| {
        let context = of.context.as_deref().unwrap_or_default();
        format!("{} {context} {}", of.name, of.line)
    });
    assert_eq!(
        clusters.collect::<Vec<_>>(),
        ["hub  3", "prod-a kind-prod-a 4", "prod-b prod-b 4"]
    );
    let links = loaded.links.iter();
    let links = links.map(|link| format!("{} {}", link.ends.target, link.args.gateway_port));
    let links: BTreeSet<String> = links.collect();
    let expected = ["hub 0", "prod-a 4243", "prod-b 4243"];
    assert_eq!(links, expected.map(str::to_owned).into());

    // A kubeconfig of the entry, from the folder of the file.
    let own = "- contexts: prod-b,hub\n  kubeconfig: config\n";
    let loaded = read(own, &global(Some(Path::new("/missing")))).unwrap();
    assert_eq!(loaded.links.len(), 2);

    for (clusters, what) in [
        (
            "- contexts: prod-*\n- name: prod-b\n",
            "are called prod-b: at line 3 and at line 4",
        ),
        (
            "- name: x\n  context: prod-b\n- contexts: prod-*\n",
            "have the same context (line 5)",
        ),
        (
            "- contexts: prod-*\n- contexts: '*b'\n",
            "are called prod-b: at line 3 and at line 4",
        ),
        ("- contexts: east-*\n", "invalid contexts in "),
    ] {
        let error = read(clusters, &by_command).err().unwrap();
        assert!(error.to_string().contains(what), "{error:#}");
    }
    // Another person has other contexts, so that nobody knows which clusters have left the file.
    let loaded = read(all, &by_command).unwrap();
    let only = FleetOnly {
        only: vec!["hub".to_owned()],
        also: Vec::new(),
    };
    let error = only.used(&by_command, &loaded).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--only cannot be used with contexts (line 4 of "),
        "{error:#}"
    );
}

#[test]
fn password_of_a_proxy_is_not_shown() {
    let text = "name: f\nclusters:\n- name: a\n  proxyUrl: ftp://me:s3cret@proxy\nlinks: []\n";
    let error = loaded(text).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with("invalid proxyUrl in fleet.yaml, line 4: must be a URL")
    );
    assert!(!format!("{error:#}").contains("s3cret"));
}

/// The flags of `link`.
fn flags() -> BTreeSet<String> {
    let command = LinkArgs::augment_args(Command::new("link"));
    let flags = command.get_arguments().filter_map(|arg| arg.get_long());
    flags.map(str::to_owned).collect()
}

/// The key of a flag.
fn key_of(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |key, word| {
        format!("{key}{}{}", word[..1].to_uppercase(), &word[1..])
    })
}

#[test]
fn each_flag_of_link_is_a_key_or_left_out_for_a_reason() {
    let text = serde_json::to_string(&schema(&link_flags())).unwrap();
    let missing = flags().into_iter();
    let missing = missing.filter(|flag| !text.contains(&format!("\"{}\":", key_of(flag))));
    assert_eq!(
        missing.collect::<BTreeSet<_>>(),
        LEFT_OUT.map(str::to_owned).into()
    );
}

/// The file and the command line have the same rules, each in its own way.
#[test]
fn each_key_sets_what_its_flag_sets() {
    const TEXTS: [&str; 24] = [
        "",
        "true",
        "false",
        "maybe",
        "0",
        "4143",
        "70000",
        "a=b",
        "a in (b, c)",
        "a=",
        "=",
        "any",
        "all",
        "listed",
        "local-members",
        "none",
        "discovery",
        "gateway",
        "192.0.2.0/24,2001:db8::/32",
        "192.0.2.1,gw.example.com",
        "https://east.example.com:6443",
        "socks5://me:s3cret@proxy:1080",
        "example.com/*,app",
        "A_b, c",
    ];
    let mut accepted = BTreeSet::new();
    for flag in flags() {
        if LEFT_OUT.contains(&flag.as_str()) {
            continue;
        }
        for text in TEXTS {
            let (mut args, key) = (LinkArgs::default(), key_of(&flag));
            assert_eq!(in_words(&key, '-'), flag);
            let set = keys::set(&mut args, &key, text).map(|()| format!("{args:?}"));
            let command = LinkArgs::augment_args(Command::new("link")).no_binary_name(true);
            // A switch takes no value.
            let words = match text {
                "true" if key == "insecureTargetTls" => vec![format!("--{flag}")],
                "false" if key == "insecureTargetTls" => vec![],
                text => vec![format!("--{flag}={text}")],
            };
            let typed = command.try_get_matches_from(words);
            let typed = typed.and_then(|typed| LinkArgs::from_arg_matches(&typed));
            let typed = typed.map(|args| format!("{args:?}"));
            assert_eq!(set.as_ref().ok(), typed.as_ref().ok(), "{key}: {text:?}");
            if set.is_ok() {
                accepted.insert(flag.clone());
            }
        }
    }
    assert_eq!(accepted.len(), 25, "{accepted:?}");
}

/// Editors read it. `just reference` writes it anew.
#[test]
fn reference_of_the_fleet_schema_is_current() {
    let text = serde_json::to_string_pretty(&schema(&link_flags())).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/fleet.schema.json");
    if std::env::var_os("LINKERD_MC_DRAW").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        kept, text,
        "schemas/fleet.schema.json is outdated: run `just reference`"
    );
}

/// The example is one that the program takes, and names the schema.
#[test]
fn example_of_a_fleet_is_valid() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet/fleet.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let named = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("# yaml-language-server: $schema=");
    assert!(file.parent().unwrap().join(named.unwrap()).is_file());
    assert!(!loaded(&text).unwrap().links.is_empty());
}
