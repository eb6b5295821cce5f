//! New credentials for a link: a token is created, the controller and Linkerd use it, and the old token is revoked.
//! `rotate` also continues after an interruption at any point.

use std::{collections::BTreeSet, path::PathBuf};

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::said,
    controller::Controller,
    credentials::{kubeconfig, secrets},
    links::{condition_is, in_step, links, own_link, unlink},
    objects::{export, gone, namespace, service, web},
    planes::alone,
    program::{Outcome, run},
};

const LINKERD: &str = "linkerd";

/// Stands in for Linkerd's destination controller. No controller runs Deployments here, so its status always says that
/// the rollout is complete.
async fn destination(plane: &ControlPlane) -> Api<Deployment> {
    let api = Api::<Deployment>::namespaced(plane.client(), LINKERD);
    let deployment = json!({
        "metadata": { "name": "linkerd-destination" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "destination" } },
            "template": {
                "metadata": { "labels": { "app": "destination" } },
                "spec": { "containers": [{ "name": "destination", "image": "none" }] },
            },
        },
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    api.create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let status = Patch::Merge(json!({ "status": { "observedGeneration": 1_000_000 } }));
    api.patch_status("linkerd-destination", &PatchParams::default(), &status)
        .await
        .unwrap();
    api
}

/// The token in a kubeconfig.
fn token(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find(|line| line.contains("token:"));
    line.unwrap().split(':').nth(1).unwrap().trim().to_owned()
}

/// All lines of a kubeconfig except for its token, without their order.
fn rest(kubeconfig: &str) -> BTreeSet<String> {
    let text = kubeconfig.replace(&token(kubeconfig), "");
    text.lines()
        .map(|line| line.replace("- ", "").trim().to_owned())
        .collect()
}

/// The kubeconfig of a cluster that Linkerd reads.
async fn linkerds(plane: &ControlPlane, cluster: &str) -> String {
    let of_cluster = ListParams::default().labels(&format!("{}={cluster}", l::CREDENTIALS_CLUSTER));
    let found = Api::<Secret>::namespaced(plane.client(), LINKERD)
        .list(&of_cluster)
        .await
        .unwrap();
    let data = found.items[0].data.clone().unwrap();
    String::from_utf8(data[l::KUBECONFIG_KEY].0.clone()).unwrap()
}

/// Token Secrets that were created for one link only.
async fn minted(plane: &ControlPlane) -> Vec<String> {
    let own = ListParams::default().labels(l::TOKEN_OF_LINK);
    let found = secrets(plane).list(&own).await.unwrap();
    found.iter().map(ResourceExt::name_any).collect()
}

/// Waits until an API server accepts a token, or refuses it.
async fn is_accepted(plane: &ControlPlane, token: &str, accepted: bool) {
    let token = format!("--token={token}");
    let server = format!("--server={}", plane.url());
    let args = [
        "--kubeconfig=/dev/null",
        "--insecure-skip-tls-verify",
        &server,
        &token,
        "get",
        "services",
    ];
    eventually("the API server to know of it", SOON, async || {
        Ok((plane.kubectl(&args).await.is_ok() == accepted).then_some(()))
    })
    .await
    .unwrap();
}

/// The Link whose credentials are rotated, between two clusters.
struct Rotation<'a> {
    source: &'a ControlPlane,
    far: &'a ControlPlane,
    /// Kubeconfig with contexts of both clusters.
    config: PathBuf,
}

#[tokio::test(flavor = "multi_thread")]
async fn rotate_replaces_tokens_revokes_the_old_ones_and_resumes_after_an_interruption() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("turned", &[source, far]).await;
    let config = source.folder().join("rotate.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &config).unwrap();
    let rotation = Rotation {
        source,
        far,
        config,
    };

    let unknown = rotation.run(&[]).failure();
    assert!(unknown.contains("no Link to"), "{unknown}");
    own_link(source, far, "turn", &[]).await;
    export(far, "turned", &web("web", "turn")).await;
    let mut controller = Controller::start(source, &[]);
    service(source, "turned", "web-turn", |_| true).await;
    in_step(source, "turn", &[]).await;
    let first = rotation.kubeconfig().await;
    let since = source.audit().unwrap().len();

    rotation.a_dry_run_changes_nothing().await;
    rotation.a_destination_controller_is_needed();
    let second = rotation.kubeconfig().await;
    let deployments = destination(source).await;
    let messages = rotation.the_old_token_is_revoked(&first, &second).await;
    let restarted = deployments.get("linkerd-destination").await.unwrap();
    let template = restarted.spec.unwrap().template.metadata.unwrap();
    assert!(
        template
            .annotations
            .unwrap()
            .contains_key("kubectl.kubernetes.io/restartedAt")
    );
    let third = rotation.kubeconfig().await;
    controller.kill();
    let cut = rotation.without_a_controller_both_tokens_stay(&third).await;
    let controller = Controller::start(source, &[]);
    let resumed = rotation.the_next_run_goes_on(&third).await;

    // The controller continues with it, no mirror was written, and no output has a token.
    condition_is(source, "turn", "Ready", "True", "Mirroring").await;
    export(far, "turned", &web("later", "turn")).await;
    service(source, "turned", "later-turn", |_| true).await;
    let touched = said(source, "turned", since);
    assert!(
        !touched.iter().any(|write| write.contains("web-turn")),
        "{touched:?}"
    );
    let last = rotation.kubeconfig().await;
    let told = [messages, resumed, cut, controller.log()].concat();
    for kubeconfig in [&first, &second, &third, &last] {
        assert!(!told.contains(&token(kubeconfig)));
    }
    unlink(source, "turn").await;
    gone(source, "turned", "web-turn").await;
    deployments
        .delete("linkerd-destination", &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

impl Rotation<'_> {
    fn run(&self, more: &[&str]) -> Outcome {
        let (from, to) = (self.far.name(), self.source.name());
        let args = ["rotate", "--cluster-name=turn", "--from", from, "--to", to];
        run(&self.config, &[&args, more].concat())
    }

    /// The kubeconfig that our controller reads.
    async fn kubeconfig(&self) -> String {
        kubeconfig(self.source, "turn").await
    }

    async fn a_dry_run_changes_nothing(&self) {
        let dry = self.run(&["--dry-run", "-o=json"]);
        assert!(
            dry.stderr.contains("turn: would create a token Secret"),
            "{}",
            dry.stderr
        );
        assert_eq!(result(&dry)["result"], "planned");
        assert_eq!(minted(self.far).await, Vec::<String>::new());
        let young = result(&self.run(&["--older-than=1h", "-o=json"]));
        assert_eq!(young["result"], "skipped");
    }

    /// Without Linkerd's destination controller, `rotate` cannot know when the old token is unused.
    fn a_destination_controller_is_needed(&self) {
        let lacking = self.run(&[]);
        assert_eq!(lacking.code, 1);
        assert!(
            lacking.stderr.contains("linkerd-destination not found"),
            "{}",
            lacking.stderr
        );
    }

    /// The controller and Linkerd use the third token then. Returns the output of the program.
    async fn the_old_token_is_revoked(&self, first: &str, second: &str) -> String {
        let outcome = self.run(&["-o=json"]);
        let done = result(&outcome);
        assert_eq!(done["result"], "rotated");
        let third = self.kubeconfig().await;
        assert_eq!(token(&third), token(&linkerds(self.source, "turn").await));
        assert_eq!(rest(first), rest(&third));
        let link = links(self.source).get("turn").await.unwrap();
        assert_eq!(
            done["credentialsFingerprint"],
            json!(link.status.unwrap().credentials_fingerprint)
        );
        // Other links may use the first token, because `install` created it. The second one belonged only to this link.
        assert_eq!(done["kept"], json!([]));
        assert_eq!(done["revoked"].as_array().unwrap().len(), 1);
        is_accepted(self.far, &token(first), true).await;
        is_accepted(self.far, &token(second), false).await;
        is_accepted(self.far, &token(&third), true).await;
        outcome.stderr
    }

    /// The command is interrupted while it waits for a controller that does not run. Returns the output of the program.
    async fn without_a_controller_both_tokens_stay(&self, third: &str) -> String {
        let cut = self.run(&["--wait=1s"]);
        assert_eq!(cut.code, 1);
        assert!(
            cut.stderr.contains("does not use the new credentials"),
            "{}",
            cut.stderr
        );
        let linkerds = linkerds(self.source, "turn").await;
        assert_eq!(token(&linkerds), token(third));
        is_accepted(self.far, &token(third), true).await;
        assert_eq!(minted(self.far).await.len(), 2);
        cut.stderr
    }

    /// Returns the output of the program.
    async fn the_next_run_goes_on(&self, third: &str) -> String {
        let resumed = self.run(&[]);
        assert_eq!(resumed.code, 0, "{}", resumed.stderr);
        assert!(
            resumed.stderr.contains("continuing with the token Secret"),
            "{}",
            resumed.stderr
        );
        is_accepted(self.far, &token(third), false).await;
        assert_eq!(minted(self.far).await.len(), 1);
        resumed.stderr
    }
}

/// The result for the Link, from the JSON of a successful run.
fn result(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let all: Value = serde_json::from_str(&outcome.stdout).unwrap();
    all["links"][0].clone()
}
