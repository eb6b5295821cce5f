//! New credentials for a link: minted, taken up by both readers, the old ones revoked; and from wherever it was cut off.

use std::collections::BTreeSet;

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::{
    credentials::{kubeconfig, secrets},
    faults::said,
    fleet::{Controller, SOON, namespace},
    hub::alone,
    links::{condition_is, in_step, links, own_link, unlink},
    objects::{export, gone, service, web},
    program::{Outcome, run},
};

const LINKERD: &str = "linkerd";

/// Linkerd's destination controller, as far as a restart of it goes: here nobody rolls Deployments out, and this one
/// says that it is, whatever changes.
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

/// All of a kubeconfig but its token, in no order.
fn rest(kubeconfig: &str) -> BTreeSet<String> {
    let text = kubeconfig.replace(&token(kubeconfig), "");
    text.lines()
        .map(|line| line.replace("- ", "").trim().to_owned())
        .collect()
}

/// The kubeconfig that Linkerd has of a cluster.
async fn linkerds(plane: &ControlPlane, cluster: &str) -> String {
    let of_cluster = ListParams::default().labels(&format!("{}={cluster}", l::CREDENTIALS_CLUSTER));
    let found = Api::<Secret>::namespaced(plane.client(), LINKERD)
        .list(&of_cluster)
        .await
        .unwrap();
    let data = found.items[0].data.clone().unwrap();
    String::from_utf8(data[l::KUBECONFIG_KEY].0.clone()).unwrap()
}

/// Token Secrets that were minted for one link alone.
async fn minted(plane: &ControlPlane) -> Vec<String> {
    let own = ListParams::default().labels(l::TOKEN_OF_LINK);
    let found = secrets(plane).list(&own).await.unwrap();
    found.iter().map(ResourceExt::name_any).collect()
}

/// Waits until an API server accepts a token, or does not.
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

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_rotated_again_and_again_and_from_wherever_it_was_cut_off() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("turned", &[source, far]).await;
    let config = source.folder().join("rotate.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &config).unwrap();
    let rotate = |more: &[&str]| -> Outcome {
        let args = [
            "rotate",
            "--cluster-name=turn",
            "--from",
            far.name(),
            "--to",
            source.name(),
        ];
        run(&config, &[&args, more].concat())
    };
    let json = |outcome: Outcome| -> Value {
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let all: Value = serde_json::from_str(&outcome.stdout).unwrap();
        all["links"][0].clone()
    };

    let unknown = rotate(&[]).failure();
    assert!(unknown.contains("no Link in the namespace"), "{unknown}");
    own_link(source, far, "turn", &[]).await;
    export(far, "turned", &web("web", "turn")).await;
    let mut controller = Controller::start(source, &[]);
    service(source, "turned", "web-turn", |_| true).await;
    in_step(source, "turn", &[]).await;
    let (first, since) = (
        kubeconfig(source, "turn").await,
        source.audit().unwrap().len(),
    );

    // It says what it would do, and does nothing.
    let dry = rotate(&["--dry-run", "-o=json"]);
    assert!(
        dry.stderr.contains("turn: would make a token Secret"),
        "{}",
        dry.stderr
    );
    assert_eq!(json(dry)["result"], "planned");
    assert_eq!(minted(far).await, Vec::<String>::new());
    let young = json(rotate(&["--older-than=1h", "-o=json"]));
    assert_eq!(young["result"], "skipped");

    // Without Linkerd's destination controller there is no telling when the old token may go.
    let lacking = rotate(&[]);
    assert_eq!(lacking.code, 1);
    assert!(
        lacking.stderr.contains("there is no Deployment"),
        "{}",
        lacking.stderr
    );
    let second = kubeconfig(source, "turn").await;
    let deployments = destination(source).await;

    let outcome = rotate(&["-o=json"]);
    let messages = outcome.stderr.clone();
    let done = json(outcome);
    assert_eq!(done["result"], "rotated");
    let third = kubeconfig(source, "turn").await;
    assert_eq!(token(&third), token(&linkerds(source, "turn").await));
    assert_eq!(rest(&first), rest(&third));
    let status = links(source).get("turn").await.unwrap().status.unwrap();
    assert_eq!(
        done["credentialsFingerprint"],
        json!(status.credentials_fingerprint)
    );
    // The first token is that of `install`, and other links may have it; the second one was this link's alone.
    assert_eq!(done["kept"], json!([]));
    assert_eq!(done["revoked"].as_array().unwrap().len(), 1);
    is_accepted(far, &token(&first), true).await;
    is_accepted(far, &token(&second), false).await;
    is_accepted(far, &token(&third), true).await;
    let restarted = deployments.get("linkerd-destination").await.unwrap();
    let template = restarted.spec.unwrap().template.metadata.unwrap();
    assert!(
        template
            .annotations
            .unwrap()
            .contains_key("kubectl.kubernetes.io/restartedAt")
    );

    // Cut off while it waits for a controller that does not run: the old token works, and the next run goes on.
    controller.kill();
    let cut = rotate(&["--wait=1s"]);
    assert_eq!(cut.code, 1);
    assert!(
        cut.stderr.contains("does not use the new credentials"),
        "{}",
        cut.stderr
    );
    assert_eq!(token(&linkerds(source, "turn").await), token(&third));
    is_accepted(far, &token(&third), true).await;
    assert_eq!(minted(far).await.len(), 2);
    let controller = Controller::start(source, &[]);
    let resumed = rotate(&[]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(
        resumed.stderr.contains("goes on with the token Secret"),
        "{}",
        resumed.stderr
    );
    is_accepted(far, &token(&third), false).await;
    assert_eq!(minted(far).await.len(), 1);

    // The controller goes on with it, mirrors were not written, and nobody was told a token.
    condition_is(source, "turn", "Ready", "True", "Mirroring").await;
    export(far, "turned", &web("later", "turn")).await;
    service(source, "turned", "later-turn", |_| true).await;
    let touched = said(source, "turned", since);
    assert!(
        !touched.iter().any(|write| write.contains("web-turn")),
        "{touched:?}"
    );
    let last = kubeconfig(source, "turn").await;
    let told = [messages, resumed.stderr, cut.stderr, controller.log()].concat();
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
