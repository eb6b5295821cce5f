//! `link` for clusters that are linked already, and for clusters whose contexts have names that tools such as kind give
//! them.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
    core::ObjectMeta,
};
use linkerd_mc::api::link::Link;
use serde_json::{Value, json};

use super::{link_west, run_with, stored};
use crate::support::{
    SOON,
    audit::{mark, requests},
    controller::Controller,
    credentials::{claims, kubeconfig as kubeconfig_of, token},
    installation::{NAMESPACE, api_gateway, link_gen},
    links::{links, unlink},
    objects::{export, gone, namespace, service, web},
    planes::{hub, linking},
    program::run,
};

/// How many tokens were requested since this mark of the audit log.
fn tokens_requested(plane: &ControlPlane, account: &str, since: u64) -> usize {
    let requested = requests(plane, since);
    let requested = requested.iter();
    requested
        .filter(|event| event.subresource == "token" && event.name == account)
        .count()
}

/// A second `link` keeps every setting that its flags do not change.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_on_a_link_stays_when_it_is_linked_again() {
    let (east, west) = hub().await.pair();
    let kubeconfig = west.folder().join("kept.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let allow = ["allow", "--service-account-name=kept"];
    let allowed = run(east.kubeconfig(), &allow).data();
    east.apply(&allowed).await.unwrap();
    let link = |more: &[&str]| link_west(&kubeconfig, "east", "kept", more);
    let first = link(&[
        "--excluded-labels=secret",
        "--allowed-namespaces=kubernetes.io/metadata.name in (a,b)",
        "--federation=none",
        "--gateway-addresses=192.0.2.77",
        "--gateway-networks=192.0.2.0/24",
        "--service-account-name=kept",
        "--enable-headless-services",
    ]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let settings = async || {
        let link = links(west).get("kept").await.unwrap();
        let mut annotations = link.metadata.annotations.unwrap_or_default();
        annotations.retain(|key, _| key.starts_with("multicluster.linkerd.io/"));
        (serde_json::to_value(link.spec).unwrap(), annotations)
    };
    let (set, secrets) = (settings().await, stored(west, "kept").await);
    // Somebody else sets an annotation, as GitOps tools and people do.
    let copied = "multicluster.linkerd.io/copied-labels";
    let annotate = [
        "-n",
        NAMESPACE,
        "annotate",
        "link",
        "kept",
        &format!("{copied}=team"),
    ];
    west.kubectl(&annotate).await.unwrap();

    // Without flags, `link` changes nothing. It does not restore the default selectors either.
    let again = run(
        &kubeconfig,
        &[
            "link",
            "--target=east",
            "--source=west",
            "--cluster-name=kept",
        ],
    );
    assert_eq!(again.code, 0, "{}", again.stderr);
    let kept = settings().await;
    assert_eq!(kept.0, set.0);
    assert_eq!(kept.1[copied], "team");
    assert_eq!(kept.1.len(), set.1.len() + 1);
    assert_eq!(stored(west, "kept").await, secrets);

    // `link` lists what changes. Without a terminal, it requires `--yes`. A dry run lists the same changes, and prints
    // no credentials.
    let change = [
        "--federation=any",
        "--excluded-labels=",
        "--excluded-annotations=x",
    ];
    let list = [
        "excludedAnnotations: (none) -> x",
        "excludedLabels: secret -> (none)",
        "federation: none -> (none)",
    ];
    let refused = link(&change).failure();
    let dry = link(&[&change[..], &["--dry-run"]].concat()).stdout;
    for line in list {
        assert!(refused.contains(&format!("- {line}\n")), "{refused}");
        assert!(dry.contains(&format!("  {line}\n")), "{dry}");
    }
    assert!(refused.contains("hint: pass --yes"), "{refused}");
    assert_eq!(dry.lines().count(), 1 + list.len(), "{dry}");
    assert_eq!(settings().await, kept);
    let changed = link(&[&change[..], &["--yes"]].concat());
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let (spec, annotations) = settings().await;
    assert_eq!(spec["excludedLabels"], Value::Null);
    assert_eq!(spec["excludedAnnotations"], json!(["x"]));
    assert_eq!(spec["gatewayAddress"], "192.0.2.77");
    assert!(!annotations.contains_key("multicluster.linkerd.io/federation"));
    assert_eq!(
        annotations["multicluster.linkerd.io/allowed-namespaces"],
        "kubernetes.io/metadata.name in (a,b)"
    );

    // A flag also removes an annotation that somebody else wrote.
    let gone = link(&["--copied-labels=", "--allowed-namespaces=any", "--yes"]);
    assert_eq!(gone.code, 0, "{}", gone.stderr);
    let (_, annotations) = settings().await;
    assert!(!annotations.contains_key(copied), "{annotations:?}");
    assert!(!annotations.contains_key("multicluster.linkerd.io/allowed-namespaces"));

    // The addresses of the load balancer come back.
    let balanced = link(&["--gateway-addresses=any", "--yes"]);
    assert_eq!(balanced.code, 0, "{}", balanced.stderr);
    assert_eq!(settings().await.0["gatewayAddress"], "192.0.2.10");
    let set = link(&["--gateway-addresses=192.0.2.77", "--yes"]);
    assert_eq!(set.code, 0, "{}", set.stderr);

    // `link-gen` uses the defaults, unless `--from-existing` gives it a Link.
    let existing = links(west).get("kept").await.unwrap();
    let existing = serde_json::to_string(&existing).unwrap();
    let generate = [
        "link-gen",
        "--cluster-name=kept",
        "-o=json",
        "--from-existing=-",
    ];
    let (code, made, errors) = run_with(east.kubeconfig(), &generate, &existing);
    assert_eq!(code, 0, "{errors}");
    let made: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
    assert_eq!(made["spec"]["gatewayAddress"], "192.0.2.77");
    assert_eq!(made["spec"]["excludedAnnotations"], json!(["x"]));
    let headless = "multicluster.linkerd.io/headless-services";
    assert_eq!(made["metadata"]["annotations"][headless], "enabled");
    unlink(west, "kept").await;
}

/// Linkerd goes on with the old credentials. If `link` says so only when the Link is ready, it may never say so: the next
/// run finds nothing to change.
#[tokio::test(flavor = "multi_thread")]
async fn new_credentials_are_warned_about_although_the_link_does_not_become_ready() {
    let (east, west) = hub().await.pair();
    let kubeconfig = west.folder().join("unready.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let link = |more: &[&str]| link_west(&kubeconfig, "east", "unready", more);
    let first = link(&[]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let nobody = "--api-server-address=https://127.0.0.1:1";
    let said = link(&[nobody, "--wait=2s", "--yes"]).failure();
    for part in [
        "linkerd-destination in west still uses the old credentials for unready",
        "rollout restart deployment/linkerd-destination",
        "error: the Link unready in west is not ready after 2s",
    ] {
        assert!(said.contains(part), "{said}");
    }
    unlink(west, "unready").await;
}

/// Credentials that are gone or revoked are replaced without a question, because nothing that works is lost. A dry run
/// says so. It requests no token, because nobody could revoke it.
#[tokio::test(flavor = "multi_thread")]
async fn dry_run_says_which_credentials_are_replaced_and_requests_none() {
    let (east, west) = hub().await.pair();
    let kubeconfig = west.folder().join("renewed.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let allow = ["allow", "--service-account-name=renewed"];
    let allowed = run(east.kubeconfig(), &allow).data();
    east.apply(&allowed).await.unwrap();
    let account = "--service-account-name=renewed";
    let link = |more: &[&str]| {
        let linked = link_west(&kubeconfig, "east", "renewed", &[&[account], more].concat());
        assert_eq!(linked.code, 0, "{}", linked.stderr);
        linked
    };
    let since = mark(east);
    let dry = link(&["--token-duration=24h", "--dry-run"]);
    assert_eq!(
        dry.stdout,
        "would create the Link renewed in west\n  a token is requested that expires after 24h0m0s\n"
    );
    let printed = ["--token-duration=24h", "--dry-run", "-o=yaml"];
    let refused = link_west(&kubeconfig, "east", "renewed", &printed).misuse();
    assert!(refused.contains("use link-gen"), "{refused}");
    assert_eq!(tokens_requested(east, "renewed", since), 0);
    link(&["--wait=0s"]);
    let since = mark(east);
    let kept = "would keep all settings of the Link renewed in west\n";
    assert_eq!(link(&["--dry-run"]).stdout, kept);
    // Nor is one requested before the question.
    let asked = link_west(
        &kubeconfig,
        "east",
        "renewed",
        &[account, "--token-duration=24h"],
    );
    let asked = asked.failure();
    assert!(asked.contains("\n- token: expires on "), "{asked}");
    assert_eq!(tokens_requested(east, "renewed", since), 0);

    // The token is revoked, and Linkerd's Secret is deleted.
    let (of_mc, of_linkerd) = ("linkerd-multicluster", "linkerd");
    let secret = "cluster-credentials-renewed";
    let held = claims(&token(&kubeconfig_of(west, "renewed").await));
    let bound = held["kubernetes.io"]["secret"]["name"].as_str().unwrap();
    assert!(bound.starts_with("renewed-token-"), "{bound}");
    east.kubectl(&["-n", of_mc, "delete", "secret", bound])
        .await
        .unwrap();
    let requested = "  a token is requested that expires after 2160h0m0s\n";
    let revoked = format!("{requested}  token: revoked or expired -> a new one\n");
    let restart = "  linkerd-destination has to be restarted then, because it ignores changes of its Secret: `kubectl \
                   --context west -n linkerd rollout restart deployment/linkerd-destination`\n";
    assert_eq!(
        link(&["--dry-run"]).stdout,
        format!("{kept}{revoked}{restart}")
    );
    west.kubectl(&["-n", of_linkerd, "delete", "secret", secret])
        .await
        .unwrap();
    let missing = |namespace: &str| format!("  Secret {namespace}/{secret}: missing -> written\n");
    assert_eq!(
        link(&["--dry-run"]).stdout,
        format!("{kept}{revoked}{}", missing(of_linkerd))
    );
    // Before a question, the same is said.
    let asked = link_west(
        &kubeconfig,
        "east",
        "renewed",
        &[account, "--excluded-labels=x"],
    );
    let asked = asked.failure();
    assert!(
        asked.contains("\n- token: revoked or expired -> a new one\n"),
        "{asked}"
    );

    west.kubectl(&["-n", of_mc, "delete", "secret", secret])
        .await
        .unwrap();
    assert_eq!(
        link(&["--dry-run"]).stdout,
        format!("{kept}{requested}{}{}", missing(of_mc), missing(of_linkerd))
    );
    link(&["--wait=0s"]);
    assert_eq!(link(&["--dry-run"]).stdout, kept);
    unlink(west, "renewed").await;
}

/// A link through the gateway needs no credentials of Linkerd. A Link of another namespace to the same cluster may.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_a_link_of_another_namespace_needs_are_not_to_be_deleted() {
    let pair = linking().await;
    let (east, west) = (&*pair.far, &*pair.source);
    api_gateway(east, "10.96.0.1", "192.0.2.51").await;
    namespace("shared-left", &[west]).await;
    let kubeconfig = west.folder().join("left.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let link = |way: &[&str]| {
        let ends = ["link", "--target=link-east", "--source=link-west"];
        let own = ["--cluster-name=left", "--wait=0s"];
        let linked = run(&kubeconfig, &[&ends[..], &own, way].concat());
        assert_eq!(linked.code, 0, "{}", linked.stderr);
        linked.stderr
    };
    link(&[]);
    let mut other = links(west).get("left").await.unwrap();
    other.metadata = ObjectMeta {
        name: Some("left".to_owned()),
        ..ObjectMeta::default()
    };
    other.status = None;
    let others = Api::<Link>::namespaced(west.client(), "shared-left");
    others.create(&PostParams::default(), &other).await.unwrap();
    let said = link(&["--api-server-through-gateway", "--yes"]);
    assert!(!said.contains("delete secret"), "{said}");

    others
        .delete("left", &DeleteParams::default())
        .await
        .unwrap();
    let said = link(&[]);
    let delete = "`kubectl --context link-west -n linkerd delete secret cluster-credentials-left`";
    assert!(said.contains(delete), "{said}");
    unlink(west, "left").await;
    west.kubectl(&[
        "-n",
        "linkerd",
        "delete",
        "secret",
        "cluster-credentials-left",
    ])
    .await
    .unwrap();
}

/// The contexts have names as kind gives them. Each direction has its own API server address. A cluster cannot be
/// linked to itself.
#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_linked_in_both_directions_under_derived_names() {
    let pair = linking().await;
    let (east, west) = (&*pair.far, &*pair.source);
    for plane in [east, west] {
        eventually("the Links", SOON, async || {
            Ok(links(plane).list(&ListParams::default()).await.ok())
        })
        .await
        .unwrap();
    }
    let kubeconfig = west.folder().join("mutual.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let kind = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, kind.replace("link-", "kind-mutual-")).unwrap();
    let mutual = [
        "link",
        "--target=kind-mutual-east",
        "--source=kind-mutual-west",
        "--mutual",
        "--wait=0s",
        "--api-server-address=https://east.example:6443",
        "--source-api-server-address=https://west.example:6443",
    ];
    let linked = run(&kubeconfig, &mutual);
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    let told =
        "the cluster of the context kind-mutual-east is called mutual-east; pass --cluster-name";
    assert!(linked.stderr.contains(told), "{}", linked.stderr);
    for (plane, name, url) in [
        (west, "mutual-east", "https://east.example:6443"),
        (east, "mutual-west", "https://west.example:6443"),
    ] {
        let [own, linkerds] = stored(plane, name).await;
        assert!(own.unwrap().contains(url) && linkerds.unwrap().contains(url));
    }
    let again = run(&kubeconfig, &mutual[..5]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let [own, _] = stored(east, "mutual-west").await;
    assert!(own.unwrap().contains("https://west.example:6443"));

    // No controller runs, so neither becomes ready. Both are made, and named.
    unlink(east, "mutual-west").await;
    let waits = run(&kubeconfig, &[&mutual[..4], &["--wait=1s"]].concat());
    assert_eq!(waits.code, 1, "{}", waits.stderr);
    for link in [
        "mutual-east in kind-mutual-west",
        "mutual-west in kind-mutual-east",
    ] {
        let told = format!("the Link {link} is not ready after 1s");
        assert!(waits.stderr.contains(&told), "{}", waits.stderr);
    }
    links(east).get("mutual-west").await.unwrap();

    // A second context leads to the same cluster.
    let twin = std::fs::read_to_string(west.kubeconfig()).unwrap();
    let twin = twin
        .replace("link-west", "twin")
        .replace("127.0.0.1", "localhost");
    let path = west.folder().join("twin.kubeconfig");
    std::fs::write(&path, twin).unwrap();
    let both = std::process::Command::new(west.kubectl_program())
        .env(
            "KUBECONFIG",
            std::env::join_paths([west.kubeconfig(), &path]).unwrap(),
        )
        .args(["config", "view", "--flatten"])
        .output()
        .unwrap();
    std::fs::write(&path, both.stdout).unwrap();
    let itself = ["link", "--target=twin", "--source=link-west", "--wait=0s"];
    let refused = run(&path, &itself).misuse();
    let why = "the contexts twin and link-west lead to the same cluster";
    assert!(refused.contains(why), "{refused}");
}

/// The CRD of Links, with what `change` makes of its selectors and other fields.
async fn change_crd(plane: &ControlPlane, change: impl Fn(&mut Value)) {
    let name = "links.multicluster.linkerd.io";
    let crd = plane.kubectl(&["get", "crd", name, "-o", "json"]).await;
    let mut crd: Value = serde_json::from_str(&crd.unwrap()).unwrap();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        change(&mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]);
    }
    let replaced = Api::<CustomResourceDefinition>::all(plane.client());
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    replaced
        .replace(name, &PostParams::default(), &crd)
        .await
        .unwrap();
}

/// A selector is one value: with the labels of the old and the new one, nothing would be selected any more.
#[tokio::test(flavor = "multi_thread")]
async fn new_selector_of_an_applied_link_replaces_the_old_one() {
    const SELECTORS: [&str; 3] = [
        "selector",
        "remoteDiscoverySelector",
        "federatedServiceSelector",
    ];
    let pair = linking().await;
    let (east, west) = (&*pair.far, &*pair.source);
    namespace("selected", &[east, west]).await;
    for (name, team) in [("web", "shop"), ("other", "bank")] {
        let mut exported = web(name, "true");
        let labels = exported.metadata.labels.get_or_insert_default();
        labels.insert("team".into(), team.into());
        export(east, "selected", &exported).await;
    }
    let kubeconfig = west.folder().join("selected.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let _controller = Controller::start(west, &[]);
    let file = west.folder().join("link-east.yaml");
    std::fs::write(&file, link_gen(east, "link-east", &[])).unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    let link = |more: &[&str]| {
        let clusters = ["link", "--target=link-east", "--source=link-west", "--yes"];
        run(&kubeconfig, &[&clusters[..], more].concat())
    };
    // The API server notices a change of the CRD a moment later, and either kind has to work. So the test does not wait.
    for crd in ["Linkerd's", "ours"] {
        if crd == "Linkerd's" {
            change_crd(west, |spec| {
                // Older versions have fewer of them.
                for selector in SELECTORS {
                    if let Some(Value::Object(selector)) = spec.get_mut(selector) {
                        selector.remove("x-kubernetes-map-type");
                    }
                }
            })
            .await;
        }
        west.kubectl(&apply).await.unwrap();
        let stands = service(west, "selected", "web-link-east", |_| true).await;
        service(west, "selected", "other-link-east", |_| true).await;
        let dry = link(&["--selector=team=shop", "--dry-run"]);
        let changed = link(&["--selector=team=shop"]);
        assert_eq!(changed.code, 0, "{crd}: {}", changed.stderr);
        let spec = json!(links(west).get("link-east").await.unwrap().spec);
        let wanted = json!({ "matchLabels": { "team": "shop" } });
        assert_eq!(spec["selector"], wanted, "{crd}");
        let losses = "deletes 1 mirror, with its ClusterIP";
        assert!(dry.stdout.contains(losses), "{crd}: {}", dry.stdout);
        assert!(changed.stderr.contains(losses), "{crd}: {}", changed.stderr);
        gone(west, "selected", "other-link-east").await;
        let kept = service(west, "selected", "web-link-east", |_| true).await;
        assert_eq!(kept.metadata.uid, stands.metadata.uid, "{crd}");

        // Expressions in place of labels, and back.
        let either = link(&["--selector=team in (shop,bank)"]);
        assert_eq!(either.code, 0, "{crd}: {}", either.stderr);
        assert!(
            !either.stderr.contains("deletes"),
            "{crd}: {}",
            either.stderr
        );
        service(west, "selected", "other-link-east", |_| true).await;
        let same = link(&["--selector=team=shop"]);
        assert_eq!(same.code, 0, "{crd}: {}", same.stderr);
        gone(west, "selected", "other-link-east").await;
        let none = link(&["--remote-discovery-selector=team=flat"]);
        assert_eq!(none.code, 0, "{crd}: {}", none.stderr);
        let spec = json!(links(west).get("link-east").await.unwrap().spec);
        let wanted = json!({ "matchLabels": { "team": "flat" } });
        assert_eq!(spec["remoteDiscoverySelector"], wanted, "{crd}");

        if crd == "Linkerd's" {
            let install = run(west.kubeconfig(), &["install"]).data();
            west.apply(&install).await.unwrap();
            unlink(west, "link-east").await;
            gone(west, "selected", "web-link-east").await;
        }
    }

    // An API server that does not store what it gets, here because its CRD has no such field.
    change_crd(west, |spec| {
        spec.as_object_mut().unwrap().remove("excludedLabels");
    })
    .await;
    let refused = eventually("the CRD to lose a field", SOON, async || {
        let linked = link(&["--excluded-labels=secret"]);
        Ok((linked.code != 0).then_some(linked))
    });
    let refused = refused.await.unwrap().failure();
    let said = "the Link link-east is not as it was written: excludedLabels is (none), not secret";
    assert!(refused.contains(said), "{refused}");
    assert!(refused.contains("hint: "), "{refused}");
}
