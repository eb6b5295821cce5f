//! What is imported from clusters as they are.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use k8s_openapi::{ByteString, api::core::v1::ServiceAccount};
use links::{
    fleet::{
        facts::{ImportedCluster, TargetSide},
        imported::{ImportedFleet, import},
        loaded::LoadedFleet,
    },
    link::flags::LinkArgs,
    link_credentials::KubeconfigTarget,
};
use manifests::{kubeconfig::Secret, link::ClusterName};
use mirror_core::api::labels;
use proptest::prelude::*;
use serde_json::json;

use super::planned::{installed, loaded, name};

const NAMES: [&str; 5] = ["east", "hub", "north", "on", "west"];

/// A token of the account of `source` in this namespace of `target`.
fn token(namespace: &str, source: &ClusterName, target: &ClusterName) -> Secret {
    let claims = json!({
        "sub": format!("system:serviceaccount:{namespace}:{source}"),
        "kubernetes.io/serviceaccount/service-account.uid": format!("{source}@{target}"),
    });
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    Secret::new(format!("e30.{claims}.sig"))
}

/// What is known of the clusters as targets.
fn sides() -> BTreeMap<ClusterName, TargetSide> {
    let sides = NAMES.iter().zip(1_u8..).map(|(of, n)| {
        let facts = installed(of, &format!("192.0.2.{n}"));
        (name(of), facts.target.unwrap().unwrap())
    });
    sides.collect()
}

/// The clusters when a file is applied. Their contexts are called `kind-` and so on.
fn applied(
    loaded: &LoadedFleet,
    sides: &BTreeMap<ClusterName, TargetSide>,
) -> Vec<ImportedCluster> {
    let clusters = sides.iter().zip(1_u8..).map(|((of, side), n)| {
        let mut cluster = ImportedCluster {
            context: format!("kind-{of}"),
            derived: Some(of.clone()),
            entry: side.facts.context.cluster.clone(),
            gateway: Some((vec![format!("192.0.2.{n}")], 4143)),
            ..ImportedCluster::default()
        };
        for link in &loaded.links {
            let (source, target) = (&link.ends.source, &link.ends.target);
            if target == of {
                let account: ServiceAccount = serde_json::from_value(json!({
                    "metadata": { "name": source.to_string(), "uid": format!("{source}@{target}") },
                }))
                .unwrap();
                cluster.accounts.push(account);
            }
            if source == of {
                let made = link.objects(
                    loaded,
                    &sides[target],
                    Some(&token(&loaded.accounts, source, target)),
                    &mut Vec::new(),
                );
                let made = made.unwrap();
                cluster.links.push(made.link);
                cluster.credentials.push(made.credentials);
                cluster.credentials.extend(made.control_plane_credentials);
            }
        }
        cluster
    });
    clusters.collect()
}

fn imported(clusters: &[ImportedCluster]) -> ImportedFleet {
    import(
        clusters,
        Some("f"),
        "new",
        labels::MULTICLUSTER_NAMESPACE,
        &LinkArgs::default().options,
    )
}

/// The links of a file as the objects that they make.
fn made(loaded: &LoadedFleet, sides: &BTreeMap<ClusterName, TargetSide>) -> Vec<String> {
    let made = loaded.links.iter().map(|link| {
        let (source, target) = (&link.ends.source, &link.ends.target);
        let token = token(&loaded.accounts, source, target);
        let made = link.objects(loaded, &sides[target], Some(&token), &mut Vec::new());
        let manifest = made.unwrap().manifest().unwrap();
        format!("{source} > {target}\n{}", manifest.to_yaml())
    });
    made.collect()
}

/// A file with these clusters, settings of each, and entries of links.
fn file(of_clusters: &[&str], links: &str) -> String {
    let clusters = NAMES.iter().zip(of_clusters);
    let clusters = clusters.map(|(name, set)| format!("- {{name: \"{name}\"{set}}}\n"));
    format!(
        "name: f\nid: new\nclusters:\n{}links:{links}",
        clusters.collect::<String>()
    )
}

#[test]
fn each_link_is_an_entry_and_what_all_have_in_common_is_said_once() {
    for (links, expected) in [
        (" []\n", "links: []\n"),
        (
            "\n- {mesh: [east, \"on\"]}\n",
            "links:\n- target: \"on\"\n  source: east\n- target: east\n  source: \"on\"\n",
        ),
        (
            "\n- target: east\n  source: west\n  settings:\n    copy: listed\n",
            "links:\n- target: east\n  source: west\n  settings:\n    copy: listed\n",
        ),
        (
            "\n- {target: west, source: east, settings: {excludedLabels: [a, b.io/*]}}\n\
             - {target: hub, source: west, settings: {excludedLabels: [a, b.io/*], selector: \"a in (b,c),!d\"}}\n",
            "defaults:\n  excludedLabels: [a, b.io/*]\nlinks:\n- target: west\n  source: east\n- target: hub\n  source: west\n  \
             settings:\n    selector: a in (b,c),!d\n",
        ),
    ] {
        let (loaded, sides) = (loaded(&file(&[""; 5], links)), sides());
        let imported = imported(&applied(&loaded, &sides));
        assert_eq!(imported.left_out, [""; 0]);
        let text = imported.fleet.text().unwrap();
        let (_, after) = text.split_once("  context: kind-west\n").unwrap();
        assert_eq!(after, expected, "{links}");
    }
}

#[test]
fn what_cannot_be_said_is_left_out_and_named() {
    let text = file(
        &[""; 5],
        "\n- mesh: [east, west]\n- {target: hub, source: west}\n",
    );
    let (loaded, sides) = (loaded(&text), sides());
    let left_out = |change: &dyn Fn(&mut Vec<ImportedCluster>)| {
        let mut clusters = applied(&loaded, &sides);
        change(&mut clusters);
        let imported = imported(&clusters);
        let links = imported.fleet.links.keys();
        let links = links.map(|ends| format!("{}>{}", ends.source, ends.target));
        (links.collect::<Vec<_>>().join(" "), imported.left_out)
    };
    let all = "east>west west>east west>hub";
    assert_eq!(left_out(&|_| ()), (all.to_owned(), vec![]));
    // The hub is not among the contexts.
    assert_eq!(
        left_out(&|clusters| drop(clusters.remove(1))),
        (
            "east>west west>east".to_owned(),
            vec![
                "the Link hub of kind-west: it leads to hub, which is none of the contexts"
                    .to_owned()
            ]
        )
    );
    // What a Link has set is not known if it cannot be decoded.
    assert_eq!(
        left_out(&|clusters| {
            let unreadable = &mut clusters[4].unreadable;
            unreadable.insert("hub".to_owned(), "spec.selector: no object".to_owned());
        }),
        (
            "east>west west>east".to_owned(),
            vec![
                "the Link hub of kind-west: it cannot be decoded: spec.selector: no object"
                    .to_owned()
            ]
        )
    );
    // Without credentials, the name decides.
    assert_eq!(
        left_out(&|clusters| clusters[4].credentials.clear()),
        (all.to_owned(), vec![])
    );
    // The name of a cluster is the one that Links have, whatever its context is called.
    let renamed = |clusters: &mut Vec<ImportedCluster>| {
        clusters[1].context = "production".to_owned();
        clusters[1].derived = Some(name("production"));
    };
    assert_eq!(left_out(&renamed), (all.to_owned(), vec![]));
    // Two clusters cannot have one name.
    assert_eq!(
        left_out(&|clusters| clusters[2].derived = Some(name("east"))).1,
        ["the context kind-north: it has no name that no other cluster has"]
    );
    let other_name = |clusters: &mut Vec<ImportedCluster>| {
        clusters[4].links[0].metadata.name = Some("old-east".to_owned());
    };
    assert_eq!(
        left_out(&other_name),
        (
            "east>west west>hub".to_owned(),
            vec!["the Link old-east of west: a fleet has only Links with the name of their cluster, east".to_owned()]
        )
    );
}

#[test]
fn namespace_of_accounts_is_written_if_all_have_the_same() {
    let text = file(&[""; 5], "\n- mesh: [east, west]\n");
    let (before, sides) = (
        loaded(&format!("serviceAccountNamespace: access\n{text}")),
        sides(),
    );
    let mut clusters = applied(&before, &sides);
    let all = imported(&clusters);
    assert_eq!(all.left_out, [""; 0]);
    let said = "id: new\nserviceAccountNamespace: access\nclusters:\n";
    assert!(all.fleet.text().unwrap().contains(said));

    // One of them is elsewhere.
    let secret = &mut clusters[0].credentials[0];
    let held = KubeconfigTarget::of_secret(secret).unwrap();
    let other = held.with_token(&token("other", &name("east"), &name("west")));
    let data = secret.data.get_or_insert_default();
    let other = ByteString(other.unwrap().expose().as_bytes().to_vec());
    data.insert(labels::KUBECONFIG_KEY.to_owned(), other);
    let mixed = imported(&clusters);
    assert_eq!(
        mixed.left_out,
        [
            "the namespaces of accounts: they are in access and other, and a fleet has all in one; `fleet apply` makes them in \
             linkerd-multicluster"
        ]
    );
    assert_eq!(mixed.fleet.links.len(), 2);
    assert!(
        !mixed
            .fleet
            .text()
            .unwrap()
            .contains("serviceAccountNamespace")
    );
}

#[test]
fn password_of_a_proxy_is_not_written() {
    let proxy = ", proxyUrl: http://me:s3cret@proxy:3128";
    let text = file(&[proxy, "", "", "", ""], "\n- mesh: all\n");
    let (loaded, sides) = (loaded(&text), sides());
    let text = imported(&applied(&loaded, &sides)).fleet.text().unwrap();
    assert!(!text.contains("s3cret"), "{text}");
}

/// Settings of clusters that links to them have.
fn of_cluster() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        ", apiServerAddress: https://other.example",
        ", apiServerThroughGateway: true",
        ", apiServerThroughGateway: true, apiServerAddress: https://other.example",
        ", gateway: false",
        ", gatewayAddresses: [gw.example.com, 198.51.100.1], gatewayPort: 4243",
        ", proxyUrl: http://proxy:3128",
    ])
}

/// Settings of links.
fn of_links() -> impl Strategy<Value = String> {
    let all = [
        "federation: none",
        "copy: listed",
        "excludedLabels: [a, b.io/*]",
        "copiedAnnotations: [c.io/d]",
        "enableHeadlessServices: false",
        "allowedNamespaces: \"team in (a,b)\"",
        "federatedServiceSelector: \"\"",
        "remoteDiscoverySelector: \"a,!b,c notin (d,e)\"",
    ];
    let some = prop::sample::subsequence(all.to_vec(), 0..3);
    some.prop_map(|settings| format!("{{{}}}", settings.join(", ")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn imported_file_makes_the_same_links(
        clusters in prop::collection::vec(of_cluster(), 5),
        settings in prop::collection::vec(of_links(), 2),
        links in prop::collection::btree_map((0_usize..5, 0_usize..5), 0_usize..2, 0..14),
        accounts in prop::sample::select(vec!["", "serviceAccountNamespace: access\n"]),
    ) {
        let entries = links.iter().filter(|((source, target), _)| source != target);
        let entries = entries.map(|((source, target), set)| {
            let (source, target) = (NAMES[*source], NAMES[*target]);
            format!("- {{source: \"{source}\", target: \"{target}\", settings: {}}}\n", settings[*set])
        });
        let entries: String = entries.collect();
        let entries = if entries.is_empty() { " []\n".to_owned() } else { format!("\n{entries}") };
        let (before, sides) = (loaded(&format!("{accounts}{}", file(&clusters, &entries))), sides());
        let imported = imported(&applied(&before, &sides));
        prop_assert_eq!(&imported.left_out, &Vec::<String>::new());
        let after = loaded(&imported.fleet.text().unwrap());
        prop_assert_eq!(made(&after, &sides), made(&before, &sides));
    }
}
