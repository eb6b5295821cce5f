//! `verify` with canaries in two clusters. There are no proxies and no kubelets: [`stand_in`] replaces them.

mod stand_in;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use control_plane::{Asked, ControlPlane, Interceptor, Verdict, eventually};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

use self::stand_in::StandIn;
use linkerd_mc::api::labels::MULTICLUSTER_NAMESPACE;

use crate::support::{
    SOON,
    audit::{Use, asked_by, granted, mark, requests},
    controller::Controller,
    links::{links, own_link, status_that, unlink},
    objects::namespace,
    planes::{Alone, alone},
    program::{Outcome, run},
    versions::has_version,
};

const GUIDE: &str = include_str!("../../docs/ci.md");
/// The namespace of the canaries, and the name of the Link.
const NS: &str = "verified";
/// The user of the roles in docs/ci.md.
const USER: &str = "verifier";
/// What the API server does not see here: the stand-in answers for the client Pod, and the others say why a step failed.
const NOT_SEEN: [(&str, &str); 3] = [("pods/proxy", "get"), ("pods", "get"), ("links", "get")];
/// The first minor version of Kubernetes that serves version v1 of MutatingAdmissionPolicy, which [`stand_in`] uses.
const MUTATING_POLICIES: u32 = 36;

/// Two linked clusters, and proxies to their API servers.
struct Scene {
    // Clients before servers: fields are dropped in this order.
    _controller: Controller,
    stand_in: StandIn,
    ways: [Interceptor; 2],
    kubeconfig: PathBuf,
    alone: Alone,
}

impl Scene {
    /// With an administrator.
    async fn start() -> Option<Self> {
        Self::start_as(&["system:masters"]).await
    }

    /// With a user of these groups.
    async fn start_as(groups: &[&str]) -> Option<Self> {
        let alone = alone().await;
        let (source, far) = (&*alone.source, &*alone.far);
        if !has_version(source, MUTATING_POLICIES, "verify with canaries").await {
            return None;
        }
        let leader = source
            .user_kubeconfig("leader", &["system:masters"])
            .unwrap();
        let controller = Controller::start_as(&leader, &["--identity", "leader"]);
        own_link(source, far, NS, &[]).await;
        let is_alive = |gateway: &linkerd_mc::api::link::GatewayStatus| gateway.alive == Some(true);
        status_that(source, NS, |status| {
            let connected = status.condition("Connected");
            connected.is_some_and(|c| c.status == "True")
                && status.gateway.as_ref().is_some_and(is_alive)
        })
        .await;
        let link = links(source).get(NS).await.unwrap();
        let stand_in = StandIn::start(source, far, NS, &link.spec.gateway_identity).await;
        let ways = [source, far].map(|plane| plane.intercept(Some((USER, groups))).unwrap());
        let paths = [source, far].into_iter().zip(&ways).map(|(plane, way)| {
            let through = plane.kubeconfig_through(&way.url(), USER, &[]);
            through.unwrap()
        });
        let kubeconfig = std::env::join_paths(paths).unwrap().into();
        let scene = Self {
            _controller: controller,
            stand_in,
            ways,
            kubeconfig,
            alone,
        };
        scene.undisturbed();
        Some(scene)
    }

    /// The arguments that name the clusters.
    fn args(&self, more: &[&str]) -> Vec<String> {
        let (source, far) = (self.alone.source.name(), self.alone.far.name());
        let own = [
            "verify",
            "--source",
            source,
            "--target",
            far,
            "--link",
            NS,
            "--namespace",
            NS,
            // The machine may be busy.
            "--request-timeout=30s",
            "--timeout=5m",
        ];
        let all = own.iter().chain(more);
        all.map(|arg| (*arg).to_owned()).collect()
    }

    fn run(&self, more: &[&str]) -> Outcome {
        let args = self.args(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(&self.kubeconfig, &args)
    }

    /// From now on, the proxies lose no answers.
    fn undisturbed(&self) {
        for way in &self.ways {
            let answers = self.stand_in.answers();
            way.judge(move |asked| answers(asked).unwrap_or(Verdict::Forward));
        }
    }

    /// From now on, the proxies lose the answer to the write with this number. The result is notified when that
    /// happens.
    fn losing(&self, number: usize) -> Arc<Notify> {
        let (count, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        for way in &self.ways {
            let (answers, count, lost) = (self.stand_in.answers(), count.clone(), lost.clone());
            let judge = move |asked: &Asked| {
                if let Some(answer) = answers(asked) {
                    return answer;
                }
                let is_it = asked.is_write() && count.fetch_add(1, Ordering::SeqCst) + 1 == number;
                if is_it {
                    Verdict::LoseAnswer(lost.clone())
                } else {
                    Verdict::Forward
                }
            };
            way.judge(judge);
        }
        lost
    }

    /// Starts `verify`, and sends it a signal at the write with this number. Also returns whether it got that far.
    async fn signalled(&self, number: usize, signal: &str) -> (std::process::Output, bool) {
        let lost = self.losing(number);
        let mut child = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", &self.kubeconfig)
            .args(self.args(&[]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let reached = timeout(SOON, lost.notified()).await.is_ok();
        let id = child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
        if signal == "-KILL" {
            child.wait().unwrap();
        }
        self.undisturbed();
        (child.wait_with_output().unwrap(), reached)
    }

    /// The clusters that have the namespace of canaries.
    async fn left(&self) -> Vec<&str> {
        let mut left = Vec::new();
        for plane in [&self.alone.source, &self.alone.far] {
            if has_namespace(plane, NS).await {
                left.push(plane.name());
            }
        }
        left
    }
}

/// The objects in docs/ci.md, for the namespace of this test.
fn recipe() -> String {
    let block = GUIDE.split("\n```yaml\n").nth(3).unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    block.replace("linkerd-mc-verify", NS)
}

/// Applies the recipe, and waits until roles and policy are in force.
async fn apply_recipe(plane: &ControlPlane) {
    plane.apply(&recipe()).await.unwrap();
    let may = ["auth", "can-i", "create", "pods", "--as", USER, "-n", NS];
    eventually("the roles to be in force", SOON, async || {
        Ok(plane.kubectl(&may).await.ok())
    })
    .await
    .unwrap();
    eventually("the policy to be in force", SOON, async || {
        let refused = bad_pod(plane, &json!({ "hostPID": true })).await;
        Ok(refused.contains("may not use the node").then_some(()))
    })
    .await
    .unwrap();
}

/// What the API server says to a Pod that the verifier wants to create, with these fields in its `spec`.
async fn bad_pod(plane: &ControlPlane, fields: &Value) -> String {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "bad", "namespace": NS },
        "spec": { "containers": [{ "name": "app", "image": "app" }] },
    });
    for (field, value) in fields.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    let file = plane.folder().join("bad-pod.json");
    std::fs::write(&file, pod.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let create = ["create", "--dry-run=server", "-f", file, "--as", USER];
    match plane.kubectl(&create).await {
        Ok(_) => String::new(),
        Err(error) => format!("{error:#}"),
    }
}

async fn has_namespace(plane: &ControlPlane, name: &str) -> bool {
    let all: Api<Namespace> = Api::all(plane.client());
    all.get_opt(name).await.unwrap().is_some()
}

/// Mode, step, result and detail of each step.
fn steps(document: &Value) -> Vec<String> {
    let steps = document["steps"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    steps
        .map(|step| {
            let names = ["mode", "step", "result", "detail"].map(|name| text(&step[name]));
            names.join("|")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn canaries_are_measured_in_each_mode_and_nothing_is_left() {
    let Some(scene) = Scene::start().await else {
        return;
    };
    let junit = scene.alone.source.folder().join("verify.xml");
    let file = junit.display().to_string();
    let outcome = scene.run(&["-o", "json", "--junit", &file]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let domain = scene.stand_in.domain();
    let client = format!("default.{NS}.serviceaccount.identity.{domain}");
    let gateway = format!("linkerd-gateway.linkerd-multicluster.serviceaccount.identity.{domain}");
    let (source, far) = (scene.alone.source.name(), scene.alone.far.name());
    let answered = format!("answered by canary in {far}");
    let expected = [
        format!("|canaries|passed|canary in {far}, client in {source}"),
        "gateway|mirror|passed|canary-gateway-".to_owned(),
        "gateway|endpoints|passed|ready, at the gateway".to_owned(),
        format!("gateway|request|passed|{answered}"),
        format!("gateway|identity|passed|{gateway}"),
        "remote-discovery|mirror|passed|canary-discovery-".to_owned(),
        format!("remote-discovery|request|passed|{answered}"),
        format!("remote-discovery|identity|passed|{client}"),
        "federated|mirror|passed|canary-member-".to_owned(),
        format!("federated|request|passed|{answered}"),
        format!("federated|identity|passed|{client}"),
        "|removal|passed|no mirror is left".to_owned(),
        "|deletion|passed|no canary is left".to_owned(),
    ];
    let found = steps(&document);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
    assert_eq!(document["success"], true);
    for step in document["steps"].as_array().unwrap() {
        assert_eq!(step["milliseconds"].is_u64(), step["step"] != "identity");
    }
    let report = std::fs::read_to_string(&junit).unwrap();
    assert!(
        report.contains("tests=\"13\" failures=\"0\" skipped=\"0\""),
        "{report}"
    );
    assert_eq!(scene.left().await, [""; 0]);
    unlink(&scene.alone.source, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn job_with_the_roles_of_the_guide_can_verify_and_do_nothing_else() {
    let Some(scene) = Scene::start_as(&[]).await else {
        return;
    };
    let planes = [&*scene.alone.source, &*scene.alone.far];
    for plane in planes {
        apply_recipe(plane).await;
    }
    let since = planes.map(mark);
    let killed = scene.signalled(4, "-KILL").await;
    assert!(killed.1, "{}", String::from_utf8_lossy(&killed.0.stderr));
    let outcome = scene.run(&[]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for plane in planes {
        assert!(has_namespace(plane, NS).await, "{}", plane.name());
        let objects = ["get", "pods,services", "-n", NS, "-o", "name"];
        assert_eq!(plane.kubectl(&objects).await.unwrap().trim(), "");
    }
    // Each verb is used, and none is missing.
    let events = planes
        .iter()
        .zip(since)
        .flat_map(|(plane, since)| requests(plane, since));
    let (permitted, refused) = asked_by(USER, &events.collect::<Vec<_>>());
    let idle = granted(&recipe()).into_iter().filter(|granted| {
        let (_, resource, verb) = granted;
        !permitted.contains(granted) && !NOT_SEEN.contains(&(resource, verb))
    });
    assert_eq!(idle.collect::<Vec<_>>(), [], "granted, and not used");
    let refused: Vec<_> = refused
        .iter()
        .filter(|(_, resource, _)| resource != "secrets")
        .collect();
    assert_eq!(refused, Vec::<&Use>::new(), "needed, and not granted");

    // It is no administrator: nowhere else, and with no Pod that leads to the node.
    let far = planes[1];
    for elsewhere in [
        &["create", "pods", "-n", "kube-system"][..],
        &["create", "namespaces"],
        &["get", "secrets", "-n", NS],
    ] {
        let question = [&["auth", "can-i"], elsewhere, &["--as", USER]].concat();
        assert!(far.kubectl(&question).await.is_err(), "{elsewhere:?}");
    }
    let container = |security: Value| json!({ "containers": [{ "name": "app", "image": "app", "securityContext": security }] });
    assert_eq!(bad_pod(far, &json!({})).await, "");
    let linkerd = container(json!({ "capabilities": { "add": ["NET_ADMIN", "NET_RAW"] } }));
    assert_eq!(bad_pod(far, &linkerd).await, "");
    for (fields, message) in [
        (json!({ "hostNetwork": true }), "may not use the node"),
        (json!({ "hostPID": true }), "may not use the node"),
        (json!({ "hostIPC": true }), "may not use the node"),
        (
            json!({ "serviceAccountName": "admin" }),
            "may only have the ServiceAccount default",
        ),
        (
            json!({ "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] }),
            "volumes may only be",
        ),
        (
            json!({ "volumes": [{ "name": "key", "secret": { "secretName": "key" } }] }),
            "volumes may only be",
        ),
        (
            container(json!({ "privileged": true })),
            "may not be privileged",
        ),
        (
            container(json!({ "capabilities": { "add": ["SYS_ADMIN"] } })),
            "may not be privileged",
        ),
        (
            json!({ "containers": [{ "name": "app", "image": "app", "ports": [{ "containerPort": 1, "hostPort": 1 }] }] }),
            "may not be privileged",
        ),
        (
            json!({ "initContainers": [{ "name": "init", "image": "app", "securityContext": { "privileged": true } }] }),
            "may not be privileged",
        ),
    ] {
        let said = bad_pod(far, &fields).await;
        assert!(said.contains(message), "{fields}: {said}");
    }
    for plane in planes {
        let kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding,clusterrole,clusterrolebinding";
        plane.kubectl(&["delete", kinds, NS]).await.unwrap();
        plane.kubectl(&["delete", "namespace", NS]).await.unwrap();
    }
    unlink(&scene.alone.source, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn run_that_is_killed_anywhere_leaves_nothing_after_the_next_one() {
    let Some(scene) = Scene::start().await else {
        return;
    };
    // A run makes 13 writes. Those with these numbers create a namespace, a Pod and a Service, and delete a Service and
    // a namespace.
    for number in [1, 4, 6, 9, 12] {
        let (output, reached) = scene.signalled(number, "-KILL").await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(reached, "it ended before its write {number}: {said}");
        assert_ne!(scene.left().await, [""; 0], "killed at the write {number}");
        let again = scene.run(&[]);
        assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
        assert_eq!(scene.left().await, [""; 0], "killed at the write {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn cleanup_and_interrupted_runs_leave_nothing() {
    let Some(scene) = Scene::start().await else {
        return;
    };
    // `--cleanup` only deletes.
    scene.signalled(6, "-KILL").await;
    let (source, far) = (scene.alone.source.name(), scene.alone.far.name());
    let clean = [
        "verify",
        "--source",
        source,
        "--target",
        far,
        "--namespace",
        NS,
        "--cleanup",
    ];
    for said in ["the canaries are deleted", "there are no canaries"] {
        let outcome = run(&scene.kubeconfig, &clean);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        assert_eq!(scene.left().await, [""; 0]);
    }
    // An interrupted run deletes the canaries itself.
    for (signal, number) in [("-INT", 6), ("-TERM", 4)] {
        let (output, reached) = scene.signalled(number, signal).await;
        assert!(reached);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(
            said.contains("interrupted: the canaries are deleted"),
            "{said}"
        );
        assert_eq!(scene.left().await, [""; 0]);
    }
    unlink(&scene.alone.source, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn what_is_not_as_it_has_to_be_is_said_and_nothing_is_written() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    let both = source.folder().join("verify-refused.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &both).unwrap();
    let (here, there) = (source.name(), far.name());
    let since = [mark(source), mark(far)];
    let verify = |kubeconfig: &Path, more: &[&str]| {
        let own = ["verify", "--source", here, "--target", there];
        run(kubeconfig, &[&own, more].concat()).failure()
    };
    let said = verify(&both, &[]);
    let expected = format!("{here} has no Link to {there}");
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("linkerd-mc link --target"), "{said}");
    own_link(source, far, NS, &[]).await;
    let said = verify(&both, &["--link", "moon"]);
    assert!(said.contains("has no Link moon"), "{said}");
    // The lease of another test's controller may still look valid.
    let lease = ["delete", "lease", "-n", MULTICLUSTER_NAMESPACE, "--all"];
    source.kubectl(&lease).await.unwrap();
    let said = verify(&both, &["--link", NS]);
    assert!(said.contains("no controller is active"), "{said}");
    let leader = source
        .user_kubeconfig("leader", &["system:masters"])
        .unwrap();
    let controller = Controller::start_as(&leader, &["--identity", "leader"]);
    status_that(source, NS, |status| {
        let connected = status.condition("Connected");
        connected.is_some_and(|c| c.status == "True")
    })
    .await;
    namespace("not-of-verify", &[far]).await;
    let said = verify(&both, &["--link", NS, "--namespace", "not-of-verify"]);
    assert!(said.contains("that verify has not made"), "{said}");
    let clean = ["--cleanup", "--namespace", "not-of-verify"];
    assert!(verify(&both, &clean).contains("that verify has not made"));
    assert!(has_namespace(far, "not-of-verify").await);

    // Somebody who may not create namespaces, in either cluster.
    let paths = [source, far].map(|plane| plane.user_kubeconfig("nobody", &[]).unwrap());
    let nobody: PathBuf = std::env::join_paths(paths).unwrap().into();
    let said = verify(&nobody, &["--link", NS]);
    assert!(
        said.contains("you lack permissions that verify needs"),
        "{said}"
    );
    let lacking = "namespaces (get, create, delete, list, watch)";
    assert!(said.contains(lacking), "{said}");
    // Contexts that do not exist, or lead to one cluster.
    let said = run(&both, &["verify", "--source", here, "--target", "moon"]).failure();
    assert!(said.contains("\"moon\" is not in the kubeconfig"), "{said}");
    let said = run(&both, &["verify", "--source", here, "--target", here]).misuse();
    assert!(said.contains("are both"), "{said}");

    for (plane, since) in [source, far].into_iter().zip(since) {
        let events = requests(plane, since);
        let made = events.iter().filter(|event| {
            ["namespaces", "pods", "services"].contains(&event.resource.as_str())
                && ["create", "delete"].contains(&event.verb.as_str())
                && event.user != "leader"
        });
        let made: Vec<_> = made.filter(|event| event.name != "not-of-verify").collect();
        assert!(made.is_empty(), "{made:?}");
    }
    let all: Api<Namespace> = Api::all(far.client());
    all.delete("not-of-verify", &DeleteParams::default())
        .await
        .unwrap();
    let services: Api<Service> = Api::namespaced(far.client(), "linkerd-mc-verify");
    let found = services.list(&ListParams::default()).await.unwrap();
    assert!(found.items.is_empty());
    drop(controller);
    unlink(source, NS).await;
}
