//! New credentials for a link: a token is created, the controller and Linkerd use it, and the old token is revoked.

mod interrupted;
mod refused;
mod unanswered;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use control_plane::{ControlPlane, Lent, eventually};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{Api, ResourceExt, api::ListParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{mark, said_in},
    controller::Controller,
    credentials::{claims, destination, kubeconfig, secrets, token},
    installation::{ACCOUNT, NAMESPACE, reinstall},
    links::{condition_is, in_step, links, own_link, unlink},
    objects::{export, namespace, service, web},
    planes::{Alone, alone},
    program::{Outcome, run},
};

const LINKERD: &str = "linkerd";
/// The namespace of the mirrors.
const NS: &str = "turned";

/// All lines of a kubeconfig except for its token, without their order.
fn rest(kubeconfig: &str) -> BTreeSet<String> {
    let text = kubeconfig.replace(&token(kubeconfig), "");
    text.lines()
        .map(|line| line.replace("- ", "").trim().to_owned())
        .collect()
}

/// The name of the Secret to which the token of a kubeconfig is bound.
fn bound_to(kubeconfig: &str) -> String {
    let claims = claims(&token(kubeconfig));
    let name = claims["kubernetes.io"]["secret"]["name"].as_str();
    name.unwrap().to_owned()
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

/// Names of the token Secrets that `rotate` has created, each for one link.
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
        let is_accepted = match plane.kubectl(&args).await {
            Ok(_) => true,
            Err(error) if error.to_string().contains("Unauthorized") => false,
            Err(error) => return Err(error),
        };
        Ok((is_accepted == accepted).then_some(()))
    })
    .await
    .unwrap();
}

/// The Link whose credentials are rotated, between two clusters.
struct Rotation {
    // Before the control planes: fields are dropped in this order.
    controller: Controller,
    source: Lent,
    far: Lent,
    /// Path of a kubeconfig with contexts of both clusters.
    config: PathBuf,
    deployments: Api<Deployment>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn rotate_replaces_tokens_and_revokes_the_old_ones() {
    let alone = alone().await;
    let rotation = Rotation::between(&alone).await;
    let (source, far) = (rotation.source.clone(), rotation.far.clone());
    let first = rotation.kubeconfig().await;
    let since = mark(&source);

    rotation.a_dry_run_changes_nothing().await;
    let unknown = run(
        &rotation.config,
        &["rotate", "nowhere", "--source", source.name()],
    );
    assert!(unknown.failure().contains("no Link to \"nowhere\""));
    let kept = result(&rotation.run(&["-o=json"]));
    let shared = format!("{NAMESPACE}/{}", bound_to(&first));
    assert_eq!(kept["kept"], json!([shared]));
    assert_eq!(kept["revoked"], json!([]));
    let second = rotation.kubeconfig().await;
    rotation
        .the_token_expires_and_its_secret_is_empty(&second)
        .await;
    rotation.the_old_token_is_revoked(&first, &second).await;
    let restarted = rotation
        .deployments
        .get("linkerd-destination")
        .await
        .unwrap();
    let template = restarted.spec.unwrap().template.metadata.unwrap();
    assert!(
        template
            .annotations
            .unwrap()
            .contains_key("kubectl.kubernetes.io/restartedAt")
    );
    let third = rotation.kubeconfig().await;
    rotation.without_a_restart_the_old_token_stays(&third).await;
    let fourth = rotation.kubeconfig().await;
    rotation
        .the_shared_token_is_revoked_later(&first, &fourth)
        .await;

    // `unlink` prints how to revoke the tokens of a Link. When the clusters are linked again, the token in use stays.
    let unlink = ["--context", source.name(), "unlink", "--cluster-name=turn"];
    let printed = run(&rotation.config, &unlink);
    let revoke = format!("-n {NAMESPACE} delete secret -l multicluster.linkerd.io/token-of-link=");
    assert!(printed.stderr.contains(&revoke), "{}", printed.stderr);
    let before = rotation.kubeconfig().await;
    let (target, own) = (far.name(), source.name());
    let link = [
        "link",
        "--target",
        target,
        "--source",
        own,
        "--cluster-name=turn",
    ];
    let linked = run(&rotation.config, &link);
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    // They say the same, in the order of whoever wrote them first; nothing has to be restarted for that.
    assert_eq!(rotation.kubeconfig().await, before);
    assert!(!linked.stderr.contains("restart"), "{}", linked.stderr);

    // The controller still works, and has not written the old mirror meanwhile. Its log has no token.
    condition_is(&source, "turn", "Ready", "True", "Mirroring").await;
    export(&far, NS, &web("later", "turn")).await;
    service(&source, NS, "later-turn", |_| true).await;
    let touched = said_in(&source, NS, since);
    assert!(
        !touched.iter().any(|write| write.contains("web-turn")),
        "{touched:?}"
    );
    let log = rotation.controller.log();
    for kubeconfig in [&first, &second, &third, &fourth] {
        assert!(!log.contains(&token(kubeconfig)));
    }
}

impl Rotation {
    /// Links two clusters, and waits for a mirror.
    async fn between(alone: &Alone) -> Self {
        let (source, far) = (alone.source.clone(), alone.far.clone());
        namespace(NS, &[&source, &far]).await;
        let config = source.folder().join("rotate.kubeconfig");
        ControlPlane::merged_kubeconfig(&[&source, &far], &config).unwrap();
        own_link(&source, &far, "turn", &[]).await;
        export(&far, NS, &web("web", "turn")).await;
        let controller = Controller::start(&source, &[]);
        service(&source, NS, "web-turn", |_| true).await;
        in_step(&source, "turn", &[]).await;
        let deployments = destination(&source).await;
        Self {
            controller,
            source,
            far,
            config,
            deployments,
        }
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let (from, to) = (self.far.name(), self.source.name());
        let args = ["rotate", "turn", "--target", from, "--source", to];
        [&args, more].concat()
    }

    /// Runs `rotate`, and asserts that it prints no token, plain or in Base64. Tokens are JSON in Base64.
    fn run(&self, more: &[&str]) -> Outcome {
        let outcome = run(&self.config, &self.args(more));
        for text in [&outcome.stdout, &outcome.stderr] {
            assert!(!text.contains("eyJ") && !text.contains("ZXlK"), "{text}");
        }
        outcome
    }

    /// Starts the program with this kubeconfig, without waiting for it.
    fn start(&self, config: &Path) -> Child {
        Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", config)
            .args(self.args(&["-o=json"]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The kubeconfig that our controller reads.
    async fn kubeconfig(&self) -> String {
        kubeconfig(&self.source, "turn").await
    }

    /// Asserts that the controller's Secret and Linkerd's Secret have this token.
    async fn both_have(&self, token_: &str) {
        let [own, theirs] = [
            self.kubeconfig().await,
            linkerds(&self.source, "turn").await,
        ];
        assert_eq!([token(&own), token(&theirs)], [token_, token_]);
    }

    async fn a_dry_run_changes_nothing(&self) {
        let dry = self.run(&["--dry-run", "-o=json"]);
        assert!(
            dry.stderr.contains("turn: would create a token Secret"),
            "{}",
            dry.stderr
        );
        let restart =
            "no Pod of linkerd-destination runs, and each that starts lists 1 cluster: 5 lists; ";
        assert!(dry.stderr.contains(restart), "{}", dry.stderr);
        assert_eq!(result(&dry)["result"], "planned");
        assert_eq!(minted(&self.far).await, Vec::<String>::new());
        let young = result(&self.run(&["--older-than=1h", "-o=json"]));
        assert_eq!(young["result"], "skipped");
    }

    /// The new token lasts as long as the old one, and nobody who reads the Secrets of the target cluster has it.
    async fn the_token_expires_and_its_secret_is_empty(&self, kubeconfig: &str) {
        let claims = claims(&token(kubeconfig));
        let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
        assert_eq!(lasts, 90 * 86_400);
        let secret = secrets(&self.far).get(&bound_to(kubeconfig)).await.unwrap();
        assert_eq!(secret.data, None);
        let owner = &secret.metadata.owner_references.unwrap()[0];
        assert_eq!((&*owner.kind, &*owner.name), ("ServiceAccount", ACCOUNT));
    }

    /// Rotates again, so that the controller and Linkerd use the third token.
    async fn the_old_token_is_revoked(&self, first: &str, second: &str) {
        let done = result(&self.run(&["-o=json"]));
        assert_eq!(done["result"], "rotated");
        let third = self.kubeconfig().await;
        assert_eq!(token(&third), token(&linkerds(&self.source, "turn").await));
        assert_eq!(rest(first), rest(&third));
        let link = links(&self.source).get("turn").await.unwrap();
        assert_eq!(
            done["credentialsFingerprint"],
            json!(link.status.unwrap().credentials_fingerprint)
        );
        // Other links may use the first token, because `install` created it. The second one belonged only to this link.
        assert_eq!(done["kept"], json!([]));
        assert_eq!(done["revoked"].as_array().unwrap().len(), 1);
        is_accepted(&self.far, &token(first), true).await;
        is_accepted(&self.far, &token(second), false).await;
        is_accepted(&self.far, &token(&third), true).await;
    }

    /// With `--no-restart`, the old token stays valid. The next run revokes it, and creates no further token.
    async fn without_a_restart_the_old_token_stays(&self, third: &str) {
        let done = result(&self.run(&["--no-restart", "-o=json"]));
        assert_eq!(done["result"], "restartNeeded");
        assert_eq!(done["kept"].as_array().unwrap().len(), 1);
        assert_eq!(done["revoked"], json!([]));
        let fourth = self.kubeconfig().await;
        is_accepted(&self.far, &token(third), true).await;

        let finished = self.run(&["--older-than=1h", "-o=json"]);
        assert!(
            finished.stderr.contains("finishing an earlier rotation"),
            "{}",
            finished.stderr
        );
        let finished = result(&finished);
        assert_eq!(finished["result"], "rotated");
        assert_eq!(finished["revoked"], done["kept"]);
        self.both_have(&token(&fourth)).await;
        is_accepted(&self.far, &token(third), false).await;
        assert_eq!(minted(&self.far).await.len(), 1);
    }

    /// Deletes the Secrets of a link.
    async fn forget(&self, cluster: &str) {
        let name = format!("cluster-credentials-{cluster}");
        for namespace in [NAMESPACE, LINKERD] {
            let args = ["-n", namespace, "delete", "secret", &name];
            self.source.kubectl(&args).await.unwrap();
        }
    }

    /// Lets Kubernetes store a token that never expires.
    async fn store_token(&self) {
        let value = "remoteMirrorServiceAccountToken=true";
        reinstall(&self.far, &["--set", value]).await;
        let tokens = Api::<Secret>::namespaced(self.far.client(), NAMESPACE);
        eventually("the token Secret to be filled", SOON, async || {
            let secret = tokens.get(&format!("{ACCOUNT}-token")).await?;
            Ok(secret.data.and_then(|data| data.get("token").cloned()))
        })
        .await
        .unwrap();
    }

    /// `--revoke-shared` keeps the shared token while another link has it. Later it revokes the token, although no
    /// Secret has it any more.
    async fn the_shared_token_is_revoked_later(&self, first: &str, fourth: &str) {
        self.store_token().await;
        own_link(&self.source, &self.far, "twin", &[]).await;
        condition_is(&self.source, "twin", "Ready", "True", "Mirroring").await;
        let kept = self.run(&["--revoke-shared", "-o=json"]);
        let why = "because the Secret linkerd/cluster-credentials-twin has its token";
        assert!(kept.stderr.contains(why), "{}", kept.stderr);
        // Nobody has the token that `install` stored.
        let unused = format!("{NAMESPACE}/{ACCOUNT}-token");
        assert_eq!(result(&kept)["revoked"], json!([unused]));
        unlink(&self.source, "twin").await;
        self.forget("twin").await;
        is_accepted(&self.far, &token(first), true).await;
        let done = result(&self.run(&["--revoke-shared", "-o=json"]));
        let shared = format!("{NAMESPACE}/{}", bound_to(first));
        assert_eq!(done["revoked"], json!([shared]));
        is_accepted(&self.far, &token(first), false).await;
        self.both_have(&token(fourth)).await;
        reinstall(&self.far, &[]).await;
    }
}

/// The result for the Link, from the JSON of a successful run.
fn result(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let all: Value = serde_json::from_str(&outcome.stdout).unwrap();
    all["links"][0].clone()
}
