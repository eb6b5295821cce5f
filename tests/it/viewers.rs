//! With the roles in docs/permissions.md, people can look but change nothing. The test compares the roles with the
//! audit log of a cluster, as the test of the controller's roles does.

use std::{collections::BTreeSet, path::Path};

use control_plane::{AuditEvent, ControlPlane, eventually};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{Use, asked_by, granted, mark, requests},
    controller::Controller,
    links::{mirror_is, own_link, unlink},
    objects::{export, namespace, web},
    planes::{alone, hub},
    program::run,
};

const GUIDE: &str = include_str!("../../docs/permissions.md");
/// The group that docs/permissions.md binds, and a user in this group.
const GROUP: &str = "on-call";
const USER: &str = "viewer";
const NS: &str = "viewers";
/// What `check` lists only while Services wait for a `ClusterIP`.
const WHILE_SERVICES_WAIT: [&str; 2] = ["servicecidrs", "ipaddresses"];

/// The block of YAML with this number in docs/permissions.md.
fn block(number: usize) -> &'static str {
    let mut blocks = GUIDE.split("\n```yaml\n").skip(1);
    let block = blocks.nth(number).and_then(|rest| rest.split_once("\n```"));
    block.unwrap_or_else(|| panic!("no block {number}")).0
}

/// What the viewer asked for: what the API server permitted, and what it refused.
fn asked(events: &[AuditEvent]) -> (BTreeSet<Use>, BTreeSet<Use>) {
    asked_by(USER, events)
}

/// A Pod in the mesh.
fn client_pod() -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "client", "namespace": NS, "labels": { "linkerd.io/control-plane-ns": "linkerd" },
        },
        "spec": { "containers": [{ "name": "linkerd-proxy", "image": "none" }] },
    })
    .to_string()
}

/// Runs commands that only read. Returns the report of `check`.
fn look(kubeconfig: &Path) -> Value {
    for command in [
        &["status", "--services", "-o", "json"][..],
        &["gateways", "-o", "json"],
        &["status", "-o", "mermaid"],
    ] {
        let outcome = run(kubeconfig, command);
        assert_eq!(outcome.code, 0, "{command:?}: {}", outcome.stderr);
        assert!(
            outcome.stdout.contains(NS),
            "{command:?}: {}",
            outcome.stdout
        );
    }
    let called = format!("{NS}/web-{NS}");
    let diagnosis = run(kubeconfig, &["diagnose", &called, "--from", "nobody"]);
    assert!(
        diagnosis.stderr.contains("does not exist"),
        "{}",
        diagnosis.stderr
    );
    // Also what happened.
    let diagnosis = run(kubeconfig, &["diagnose", &called, "-o", "json"]);
    assert!(
        diagnosis.stdout.contains("happened"),
        "{}",
        diagnosis.stderr
    );
    let outcome = run(kubeconfig, &["check", "--wait=0s", "-o", "json"]);
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// The checks that fail because something may not be read.
fn unread(report: &Value) -> Vec<&str> {
    let checks = report["categories"][0]["checks"].as_array().unwrap().iter();
    let unread = checks.filter(|check| check.to_string().contains("forbidden"));
    unread
        .filter_map(|check| check["description"].as_str())
        .collect()
}

/// Applies roles, and waits until the API server permits this verb, which the last role grants. The API server reads
/// roles from a cache.
async fn apply(plane: &ControlPlane, block: &str, verb: &str, resource: &str, namespace: &str) {
    plane.apply(block).await.unwrap();
    let who = ["--as", USER, "--as-group", GROUP, "--namespace", namespace];
    let question = [&["auth", "can-i", verb, resource], &who[..]].concat();
    eventually("the roles to be in force", SOON, async || {
        Ok(plane.kubectl(&question).await.ok())
    })
    .await
    .unwrap();
}

/// The role that Kubernetes aggregates has the Links.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_view_sees_the_links_and_whoever_may_view_a_namespace_its_mirrors() {
    const OWN: &str = "viewed";
    let hub = hub().await;
    let (east, west) = (&*hub.east, &*hub.west);
    namespace(OWN, &[east, west]).await;
    export(east, OWN, &web("web", OWN)).await;
    own_link(west, east, OWN, &[]).await;
    mirror_is(west, OWN, OWN, "web", "Mirrored").await;
    let bind = |kind: &str, name: &str| {
        let (role, user) = ("--clusterrole=view", format!("--user={name}"));
        ["create", kind, name, role, &user, "-n", OWN].map(str::to_owned)
    };
    for args in [
        bind("rolebinding", "developer"),
        bind("clusterrolebinding", "onlooker"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        west.kubectl(&args).await.unwrap();
    }
    let of = |user: &str| west.user_kubeconfig(user, &[]).unwrap();
    let (developer, onlooker) = (of("developer"), of("onlooker"));
    eventually("the roles to be in force", SOON, async || {
        let may = |path: &Path, args: &[&str]| run(path, args).code == 0;
        Ok((may(&developer, &["status", "-n", OWN]) && may(&onlooker, &["status"])).then_some(()))
    })
    .await
    .unwrap();
    let own = run(&developer, &["status", "-n", OWN]).data();
    assert!(own.contains("web-viewed"), "{own}");
    assert!(own.contains("you may not list Links, so "), "{own}");
    let refused = run(&developer, &["status"]).failure();
    assert!(refused.contains("cannot list the Links"), "{refused}");
    let links = run(&onlooker, &["status"]).data();
    assert!(links.contains(OWN), "{links}");
    unlink(west, OWN).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn roles_for_people_who_only_look_are_sufficient_and_each_verb_in_them_is_used() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    source.install_gateway_api().await.unwrap();
    namespace(NS, &[source, far]).await;
    export(far, NS, &web("web", NS)).await;
    own_link(source, far, NS, &[]).await;
    let controller = Controller::start(source, &[]);
    mirror_is(source, NS, NS, "web", "Mirrored").await;
    let kubeconfig = source.user_kubeconfig(USER, &[GROUP]).unwrap();

    // Without permission to read Secrets, the API server refuses only requests for Secrets.
    let (view, credentials) = (block(0), block(1));
    apply(
        source,
        view,
        "list",
        "links.multicluster.linkerd.io",
        "default",
    )
    .await;
    let since = mark(source);
    let report = look(&kubeconfig);
    let (_, refused) = asked(&requests(source, since));
    let secrets = |verb: &str| (String::new(), "secrets".to_owned(), verb.to_owned());
    let only = |uses: &[Use]| uses.iter().cloned().collect::<BTreeSet<Use>>();
    assert_eq!(
        refused,
        only(&[secrets("get"), secrets("list")]),
        "{report:#}"
    );
    assert_eq!(
        unread(&report),
        [
            "remote cluster access credentials are valid",
            "Linkerd has the credentials of each Link",
            "Linkerd's destination controller can be restarted",
            "Linkerd's issuer certificate is not about to end"
        ],
        "{report:#}"
    );

    // With this permission, it only refuses to list the Secrets of Linkerd, such as the key of its issuer.
    let own = format!("cluster-credentials-{NS}");
    let named = credentials.replace("cluster-credentials-east", &own);
    apply(source, &named, "get", &format!("secrets/{own}"), "linkerd").await;
    let since = mark(source);
    let report = look(&kubeconfig);
    assert_eq!(
        unread(&report),
        ["Linkerd's issuer certificate is not about to end"],
        "{report:#}"
    );
    let plan = run(&kubeconfig, &["plan", NS]);
    assert!([0, 2].contains(&plan.code), "{}", plan.stderr);
    let (permitted, refused) = asked(&requests(source, since));
    assert_eq!(refused, only(&[secrets("list")]));
    let all = granted(view).into_iter().chain(granted(credentials));
    let idle = all.filter(|granted| {
        let (_, resource, _) = granted;
        !permitted.contains(granted) && !WHILE_SERVICES_WAIT.contains(&resource.as_str())
    });
    assert_eq!(idle.collect::<Vec<_>>(), [], "granted, and not used");
    let changes: Vec<&Use> = permitted
        .iter()
        .filter(|(_, resource, verb)| {
            !["get", "list"].contains(&verb.as_str()) && !resource.ends_with("accessreviews")
        })
        .collect();
    assert!(changes.is_empty(), "{changes:?}");

    // `traffic` reads the proxies of client Pods. This Pod has no address, so the API server connects to nothing.
    eventually("a Pod in the mesh", SOON, async || {
        // The ServiceAccount of the namespace may not exist yet.
        Ok(source.apply(&client_pod()).await.ok())
    })
    .await
    .unwrap();
    let running = [
        "patch",
        "pod",
        "client",
        "-n",
        NS,
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"phase":"Running"}}"#,
    ];
    source.kubectl(&running).await.unwrap();
    let traffic = block(2);
    let ask = ["traffic", "--interval=1s", "--request-timeout=5s"];
    let outcome = run(&kubeconfig, &ask);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("pods/proxy"), "{}", outcome.stderr);
    apply(source, traffic, "get", "pods/proxy", NS).await;
    let since = mark(source);
    let outcome = run(&kubeconfig, &ask);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("no proxy could be read"),
        "{}",
        outcome.stderr
    );
    let (permitted, refused) = asked(&requests(source, since));
    assert_eq!(refused, BTreeSet::new());
    let idle: Vec<Use> = granted(traffic).difference(&permitted).cloned().collect();
    assert_eq!(idle, [], "granted, and not used");

    for block in [view, credentials, traffic] {
        let file = source.folder().join("viewers.yaml");
        std::fs::write(&file, block).unwrap();
        let file = file.display().to_string();
        source.kubectl(&["delete", "-f", &file]).await.unwrap();
    }
    drop(controller);
    unlink(source, NS).await;
}
