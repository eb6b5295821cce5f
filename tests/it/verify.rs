//! `verify`: canaries in two clusters, without proxies and kubelets, for which [`stand_in`] stands in.

mod stand_in;

use std::path::PathBuf;

use control_plane::{ControlPlane, Interceptor, Verdict, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::Value;

use self::stand_in::StandIn;
use crate::support::{
    SOON,
    controller::Controller,
    links::{links, own_link, status_that, unlink},
    planes::{Alone, alone},
    program::{Outcome, run},
    versions::has_version,
};

const GUIDE: &str = include_str!("../../docs/verify.md");
/// The namespace of the canaries, and the name of the Link.
const NS: &str = "verified";
/// Somebody with the roles of the page.
const USER: &str = "verifier";
/// Since when there are admission policies that change objects.
const MUTATING_POLICIES: u32 = 36;

/// Two linked clusters, and the ways to their API servers.
struct Scene {
    alone: Alone,
    ways: [Interceptor; 2],
    kubeconfig: PathBuf,
    stand_in: StandIn,
    _controller: Controller,
}

impl Scene {
    async fn start() -> Option<Self> {
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
        for plane in [source, far] {
            plane.apply(roles()).await.unwrap();
            let may = ["auth", "can-i", "create", "namespaces", "--as", USER];
            eventually("the roles to be in force", SOON, async || {
                Ok(plane.kubectl(&may).await.ok())
            })
            .await
            .unwrap();
        }
        let ways = [source, far].map(|plane| plane.intercept(Some((USER, &[]))).unwrap());
        let paths = [source, far].into_iter().zip(&ways).map(|(plane, way)| {
            let through = plane.kubeconfig_through(&way.url(), USER, &[]);
            through.unwrap()
        });
        let kubeconfig = std::env::join_paths(paths).unwrap().into();
        let scene = Self {
            alone,
            ways,
            kubeconfig,
            stand_in,
            _controller: controller,
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

    /// From now on nothing is disturbed.
    fn undisturbed(&self) {
        for way in &self.ways {
            let answers = self.stand_in.answers();
            way.judge(move |asked| answers(asked).unwrap_or(Verdict::Forward));
        }
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

/// The roles of the page.
fn roles() -> &'static str {
    let block = GUIDE.split("\n```yaml\n").nth(1).unwrap();
    block.split_once("\n```").unwrap().0
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
async fn canaries_are_measured_in_each_mode_and_nothing_is_left() {
    let Some(scene) = Scene::start().await else {
        return;
    };
    let junit = scene.alone.source.folder().join("verify.xml");
    let file = junit.display().to_string();
    let outcome = scene.run(&["--failover", "-o", "json", "--junit", &file]);
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
        "federated|local member|passed|canary-local answers".to_owned(),
        "federated|failover|passed|canary-local answers".to_owned(),
        "federated|failback|passed|canary answers".to_owned(),
        "|removal|passed|no mirror is left".to_owned(),
        format!("|deletion|passed|the namespace {NS} is gone in both clusters"),
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
        report.contains("tests=\"16\" failures=\"0\" skipped=\"0\""),
        "{report}"
    );
    assert_eq!(scene.left().await, [""; 0]);
    unlink(&scene.alone.source, NS).await;
}
