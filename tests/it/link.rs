//! `link` and `plan`: one command links two clusters, and `plan` shows beforehand what the controller would do.

mod again;
mod from_file;
mod unanswered;

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use control_plane::{ControlPlane, LinkerdOptions, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    credentials,
    installation::{NAMESPACE, link_gen},
    links::{condition_is, edit, links, unlink},
    objects::{export, gone, namespace, service, web},
    planes::{bare, hub, linking},
    program::{Outcome, run},
};

async fn exported(plane: &ControlPlane) {
    let service = serde_json::from_value(json!({
        "metadata": { "name": "web", "labels": { "mirror.linkerd.io/exported": "remote-discovery" } },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    }))
    .unwrap();
    Api::<k8s_openapi::api::core::v1::Service>::namespaced(plane.client(), "link-command")
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
}

/// Runs the program with something on standard input.
fn run_with(kubeconfig: &std::path::Path, args: &[&str], input: &str) -> (i32, String, String) {
    use std::io::Write as _;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// In a pipe, `link` prints a line when a wait begins. After Ctrl-C, it prints in one line what it has done, and which
/// command continues.
fn interrupted_link_says_what_is_done(kubeconfig: &std::path::Path) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", kubeconfig)
        .args(["link", "--target", "link-east", "--source", "link-west"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut waits = lines.by_ref().map(Result::unwrap);
    let waits = waits.find(|line| line.starts_with("waiting for the Link link-east"));
    assert!(waits.is_some(), "it says nothing while it waits");
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(sent.unwrap().success());
    let last = lines.last().unwrap().unwrap();
    let expected = "interrupted: the Link link-east is written in link-west, but not ready; run";
    assert!(last.starts_with(expected), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn link_connects_two_clusters_and_mirrors_what_plan_predicted() {
    let pair = linking().await;
    let (east, west) = (&*pair.far, &*pair.source);
    namespace("link-command", &[east, west]).await;
    exported(east).await;
    let kubeconfig = west.folder().join("both.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();

    // Before linking, `plan` reads the Link and its Secrets from stdin. It applies nothing.
    let proposed = link_gen(east, "link-east", &[]);
    let plan = ["--context", "link-west", "plan", "--link-file", "-"];
    let whole = [&plan[..], &["--diff"]].concat();
    let (code, diff, errors) = run_with(&kubeconfig, &whole, &proposed);
    assert_eq!(code, 2, "{errors}");
    assert!(
        diff.contains("+ Service link-command/web-link-east"),
        "{diff}"
    );
    assert!(
        diff.contains("+ Service linkerd-multicluster/probe-link-east"),
        "{diff}"
    );
    assert!(!diff.contains("token"), "{diff}");
    let json = [&plan[..], &["-o", "json"]].concat();
    let (_, json, _) = run_with(&kubeconfig, &json, &proposed);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["problems"], json!([]));
    assert!(
        json["changes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["verb"] == "create")
    );

    // No controller runs yet.
    interrupted_link_says_what_is_done(&kubeconfig);
    let _controller = Controller::start(west, &[]);
    let linked = run(
        &kubeconfig,
        &["link", "--target", "link-east", "--source", "link-west"],
    );
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    assert!(
        linked
            .stderr
            .contains("link-west is linked to link-east\nits token expires on 20"),
        "{}",
        linked.stderr
    );
    assert_eq!(
        linked.stdout,
        "Services of link-east in link-west: 1 mirrored, 0 federated\n"
    );

    // Linkerd ignores a change of its Secret until it restarts. If the Secret did not change, `link` asks for no
    // restart.
    let link_again = || {
        let linked = run(
            &kubeconfig,
            &["link", "--target", "link-east", "--source", "link-west"],
        );
        assert_eq!(linked.code, 0, "{}", linked.stderr);
        linked.stderr
    };
    let restart =
        "`kubectl --context link-west -n linkerd rollout restart deployment/linkerd-destination`";
    let said = link_again();
    assert!(!said.contains("restart"), "{said}");
    let secrets = Api::<Secret>::namespaced(west.client(), "linkerd");
    let other = Patch::Merge(json!({ "stringData": { "kubeconfig": "another" } }));
    secrets
        .patch(
            "cluster-credentials-link-east",
            &PatchParams::default(),
            &other,
        )
        .await
        .unwrap();
    let said = link_again();
    assert!(said.contains(restart), "{said}");

    // After linking, nothing is left to do. `plan` does not know a Link that was not applied.
    let again = run(
        &kubeconfig,
        &["--context", "link-west", "plan", "link-east"],
    );
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "Nothing to do.\n"),
        "{}",
        again.stderr
    );
    let unknown = run(&kubeconfig, &["--context", "link-west", "plan", "north"]).failure();
    assert!(unknown.contains("Link north not found"), "{unknown}");
    assert!(
        unknown.contains("hint: known Links: link-east"),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn link_says_what_is_missing_and_applies_nothing() {
    let pair = linking().await;
    let plane = &*pair.source;
    let kubeconfig = plane.kubeconfig();
    let missing = run(kubeconfig, &["link", "--source", "link-west"]).misuse();
    assert!(missing.contains("error: missing --target"), "{missing}");
    let same = run(
        kubeconfig,
        &["link", "--target", "link-west", "--source", "link-west"],
    )
    .misuse();
    assert!(same.contains("are both"), "{same}");
    let unknown = run(
        kubeconfig,
        &["link", "--target", "nowhere", "--source", "link-west"],
    )
    .failure();
    assert!(
        unknown.contains("\"nowhere\" is not in the kubeconfig"),
        "{unknown}"
    );
    let links = plane
        .kubectl(&["get", "links", "-A", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(links, "");
    without_the_crd_nothing_is_applied(plane).await;
}

/// Creates a cluster that has the namespaces but not the CRD. `link` applies nothing to it until the extension is installed.
async fn without_the_crd_nothing_is_applied(from: &ControlPlane) {
    let bare = bare("link-bare").await;
    bare.linkerd(&LinkerdOptions::default()).await.unwrap();
    namespace(NAMESPACE, &[&bare]).await;
    let kubeconfig = bare.folder().join("bare.kubeconfig");
    ControlPlane::merged_kubeconfig(&[&bare, from], &kubeconfig).unwrap();
    let args = ["link", "--target", from.name(), "--source", "link-bare"];
    let said = run(&kubeconfig, &args).failure();
    let why = "link-bare has no CRD for Links; nothing was applied";
    assert!(said.contains(why), "{said}");
    assert_eq!(stored(&bare, from.name()).await, [None, None]);

    // A moment after `install`, the API server still says that the storage of Links is not ready. `link` tries again.
    let printed = run(&kubeconfig, &["install"]).data();
    bare.apply(&printed).await.unwrap();
    let linked = run(&kubeconfig, &[&args[..], &["--wait=0s"]].concat());
    assert_eq!(linked.code, 0, "{}", linked.stderr);

    // Where no controller will start, it does not wait.
    let scaled = [
        "scale",
        "deployment/linkerd-multicluster-controller",
        "--replicas=0",
    ];
    let scaled = [&["-n", NAMESPACE][..], &scaled].concat();
    bare.kubectl(&scaled).await.unwrap();
    let said = run(&kubeconfig, &[&args[..], &["--wait=1h"]].concat()).failure();
    assert!(
        said.contains("is written in link-bare, but no controller runs: "),
        "{said}"
    );
    assert!(said.contains("scaled to 0"), "{said}");
    assert!(
        said.contains(" --replicas=1`; then the Link becomes ready by itself"),
        "{said}"
    );
}

/// The kubeconfigs in the Secrets of a link: the controller's and Linkerd's.
async fn stored(plane: &ControlPlane, cluster: &str) -> [Option<String>; 2] {
    let name = format!("cluster-credentials-{cluster}");
    let mut found = [None, None];
    for (found, namespace) in found.iter_mut().zip([NAMESPACE, "linkerd"]) {
        let secrets = Api::<Secret>::namespaced(plane.client(), namespace);
        let secret = secrets.get_opt(&name).await.unwrap();
        let data = secret.and_then(|secret| secret.data);
        let data = data.map(|mut data| data.remove("kubeconfig").unwrap().0);
        *found = data.map(|data| String::from_utf8(data).unwrap());
    }
    found
}

/// Links west to another of the shared control planes, with selectors that only this Link uses.
fn link_west(kubeconfig: &std::path::Path, from: &str, name: &str, more: &[&str]) -> Outcome {
    let own = [
        format!("--selector=mirror.linkerd.io/exported={name}"),
        format!("--remote-discovery-selector=mirror.linkerd.io/exported={name}-direct"),
        format!("--federated-service-selector=mirror.linkerd.io/federated={name}"),
    ];
    let mut args = vec![
        "link",
        "--target",
        from,
        "--source",
        "west",
        "--cluster-name",
        name,
    ];
    args.extend(own.iter().map(String::as_str));
    args.extend(more);
    run(kubeconfig, &args)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_another_cluster_has_is_not_taken_from_it() {
    let hub = hub().await;
    let (east, north, west) = (&*hub.east, &*hub.north, &*hub.west);
    namespace("reclaimed", &[east, north, west]).await;
    for plane in [east, north] {
        export(plane, "reclaimed", &web("web", "reclaimed")).await;
    }
    let kubeconfig = west.folder().join("reclaimed.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east, north], &kubeconfig).unwrap();
    let link = |from: &str, more: &[&str]| link_west(&kubeconfig, from, "reclaimed", more);
    let linked = |outcome: Outcome| assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    linked(link("east", &[]));
    let mirror = service(west, "reclaimed", "web-reclaimed", |_| true).await;

    // The same cluster is no conflict, even with another account or another address.
    let allow = ["allow", "--service-account-name=reclaimed"];
    east.apply(&run(east.kubeconfig(), &allow).data())
        .await
        .unwrap();
    linked(link("east", &["--service-account-name=reclaimed", "--yes"]));
    let token = credentials::token(&credentials::kubeconfig(west, "reclaimed").await);
    assert_eq!(
        credentials::account(&token),
        "system:serviceaccount:linkerd-multicluster:reclaimed"
    );
    let nobody = "--api-server-address=https://127.0.0.1:1";
    linked(link("east", &[nobody, "--wait=0s", "--yes"]));
    // Nor is it with another account of the same name, which no token of the link belongs to.
    let delete = ["-n", NAMESPACE, "delete", "serviceaccount", "reclaimed"];
    east.kubectl(&delete).await.unwrap();
    east.apply(&run(east.kubeconfig(), &allow).data())
        .await
        .unwrap();
    let url = format!("--api-server-address={}", east.url());
    linked(link("east", &[&url, "--yes"]));

    let before = stored(west, "reclaimed").await;
    let said = link("north", &[]).failure();
    for part in [
        "error: the name reclaimed is taken: the Link reclaimed in west leads to another cluster; nothing was applied",
        "or pass --replace to move the name to this cluster",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(stored(west, "reclaimed").await, before);
    let kept = service(west, "reclaimed", "web-reclaimed", |_| true).await;
    assert_eq!(kept.uid(), mirror.uid());

    // `link` also reads the Secret that the Link names. It refuses too if the user may not read that Secret.
    let kept = before[0].clone().unwrap();
    let args = [
        "-n",
        NAMESPACE,
        "create",
        "secret",
        "generic",
        "reclaimed-own",
    ];
    let literal = format!("--from-literal=kubeconfig={kept}");
    west.kubectl(&[&args[..], &[&literal]].concat())
        .await
        .unwrap();
    edit(
        west,
        "reclaimed",
        json!({ "clusterCredentialsSecret": "reclaimed-own" }),
    )
    .await;
    for namespace in [NAMESPACE, "linkerd"] {
        let args = [
            "-n",
            namespace,
            "delete",
            "secret",
            "cluster-credentials-reclaimed",
        ];
        west.kubectl(&args).await.unwrap();
    }
    let said = link("north", &[]).failure();
    assert!(said.contains("in west leads to another cluster"), "{said}");
    let roles = RESTRICTED.replace("links-nothing", "reads-nothing");
    let roles = [
        (north, roles.clone()),
        (west, roles.replace("secrets, ", "")),
    ];
    for (plane, roles) in &roles {
        plane.apply(roles).await.unwrap();
    }
    let said = link("north", &["--as=reads-nothing"]).failure();
    let why = "in west may lead to another cluster, and you may not read its credentials";
    assert!(said.contains(why), "{said}");
    assert_eq!(stored(west, "reclaimed").await, [None, None]);

    linked(link("north", &["--replace", "--yes"]));
    let after = credentials::kubeconfig(west, "reclaimed").await;
    assert!(after.contains(north.url()), "not of north");
    unlink(west, "reclaimed").await;
    gone(west, "reclaimed", "web-reclaimed").await;
    for (plane, roles) in &roles {
        let delete = ["delete", "-f", "-"];
        plane.kubectl_stdin(&delete, roles).await.unwrap();
    }
}

/// A user who may do all that `link` needs, except for writing Links.
const RESTRICTED: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: links-nothing}
rules:
- {apiGroups: [''], resources: [secrets, serviceaccounts, services, configmaps], verbs: ['*']}
- {apiGroups: [multicluster.linkerd.io], resources: [links], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: links-nothing}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: links-nothing}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: links-nothing}]
";
/// A policy that refuses the Link `unmade`.
const POLICY: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: unmade}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [multicluster.linkerd.io], apiVersions: ['*'], operations: [CREATE], resources: [links]}
  validations: [{expression: object.metadata.name != 'unmade', message: no such Link}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: unmade}
spec: {policyName: unmade, validationActions: [Deny]}
";

#[tokio::test(flavor = "multi_thread")]
async fn link_that_cannot_be_written_leaves_no_credentials() {
    let (east, west) = hub().await.pair();
    let kubeconfig = west.folder().join("unmade.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    for plane in [east, west] {
        plane.apply(RESTRICTED).await.unwrap();
    }
    let said = link_west(&kubeconfig, "east", "unmade", &["--as=links-nothing"]).failure();
    let why = "west does not permit this user to patch links in namespace linkerd-multicluster; nothing was applied";
    assert!(said.contains(why), "{said}");
    assert_eq!(stored(west, "unmade").await, [None, None]);

    // No request can tell in advance whether an admission policy refuses an object.
    west.apply(POLICY).await.unwrap();
    let unmade = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": "unmade" },
        "spec": { "targetClusterName": "unmade" },
    });
    let unmade = serde_json::from_value(unmade).unwrap();
    eventually("the policy", SOON, async || {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        Ok(links(west).create(&dry, &unmade).await.err())
    })
    .await
    .unwrap();
    let said = link_west(&kubeconfig, "east", "unmade", &[]).failure();
    for part in [
        "error: cannot link west to unmade",
        "no such Link",
        "deleted the new Secret linkerd-multicluster/cluster-credentials-unmade",
        "deleted the new Secret linkerd/cluster-credentials-unmade",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(stored(west, "unmade").await, [None, None]);

    // `link` restores credentials that existed before.
    let create = [
        "-n",
        NAMESPACE,
        "create",
        "secret",
        "generic",
        "cluster-credentials-unmade",
        "--type=mirror.linkerd.io/remote-kubeconfig",
        "--from-literal=kubeconfig=old",
    ];
    west.kubectl(&create).await.unwrap();
    let said = link_west(&kubeconfig, "east", "unmade", &[]).failure();
    let restored = "restored the Secret linkerd-multicluster/cluster-credentials-unmade";
    assert!(said.contains(restored), "{said}");
    assert_eq!(stored(west, "unmade").await, [Some("old".to_owned()), None]);
    for (plane, object) in [(west, POLICY), (west, RESTRICTED), (east, RESTRICTED)] {
        plane
            .kubectl_stdin(&["delete", "-f", "-"], object)
            .await
            .unwrap();
    }
}

/// With two Links for one cluster, the controller uses the older one, and commands can name each of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_links_for_a_cluster_can_be_named() {
    let (east, west) = hub().await.pair();
    namespace("twice", &[east, west]).await;
    export(east, "twice", &web("web", "twice")).await;
    let kubeconfig = west.folder().join("twice.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &kubeconfig).unwrap();
    let linked = link_west(&kubeconfig, "east", "twice", &[]);
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    let mirror = service(west, "twice", "web-twice", |_| true).await;
    let mut second = links(west).get("twice").await.unwrap();
    second.metadata = kube::core::ObjectMeta {
        name: Some("twice-again".into()),
        ..Default::default()
    };
    second.status = None;
    let proposed = serde_json::to_string(&second).unwrap();
    let west_config = west.kubeconfig();
    let note = |errors: &str| {
        let note = "the Link twice-again does nothing while there is the older Link twice";
        assert!(errors.contains(note), "{errors}");
    };
    let (code, nothing, errors) = run_with(west_config, &["plan", "--link-file=-"], &proposed);
    assert_eq!((code, &*nothing), (0, "Nothing to do.\n"), "{errors}");
    note(&errors);
    links(west)
        .create(&PostParams::default(), &second)
        .await
        .unwrap();
    condition_is(west, "twice-again", "Ready", "False", "DuplicateCluster").await;
    let plan = run(west_config, &["plan", "twice-again"]);
    assert_eq!((plan.code, &*plan.stdout), (0, "Nothing to do.\n"));
    note(&plan.stderr);

    let printed = run(west_config, &["unlink", "--link=twice-again", "-o=json"]);
    assert_eq!(printed.stdout.lines().count(), 1, "{}", printed.stdout);
    assert!(printed.stdout.contains("twice-again"), "{}", printed.stdout);
    let unlinked = run(
        west_config,
        &["unlink", "--link=twice-again", "--apply", "--yes"],
    );
    assert_eq!(unlinked.code, 0, "{}", unlinked.stderr);
    let said = "deleted the Link twice-again\nnote: twice stays linked by the Link twice";
    assert!(unlinked.stderr.contains(said), "{}", unlinked.stderr);
    let left = links(west).get_opt("twice-again").await.unwrap();
    assert!(left.is_none());
    let kept = service(west, "twice", "web-twice", |_| true).await;
    assert_eq!(kept.uid(), mirror.uid());
    assert!(stored(west, "twice").await.iter().all(Option::is_some));

    // A Link with another name links to the cluster already.
    unlink(west, "twice").await;
    gone(west, "twice", "web-twice").await;
    links(west)
        .create(&PostParams::default(), &second)
        .await
        .unwrap();
    let said = link_west(&kubeconfig, "east", "twice", &[]).failure();
    let why = "the Link twice-again links west to twice already; nothing was applied";
    assert!(said.contains(why), "{said}");
    let last = ["unlink", "--link=twice-again", "--apply", "--yes"];
    let last = run(west_config, &last);
    assert_eq!(last.code, 0, "{}", last.stderr);
    assert_eq!(stored(west, "twice").await, [None, None]);
}
