//! What `link-gen` prints for one control plane, used from another.

use std::sync::Arc;

use control_plane::{ControlPlane, LinkerdOptions, eventually};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::link::Link;
use serde_json::json;
use std::time::Duration;

use crate::program::run;

const NAMESPACE: &str = "linkerd-multicluster";
const ACCOUNT: &str = "linkerd-service-mirror-remote-access-default";

/// A control plane with Linkerd's configuration and our installation, whose gateway has an address.
async fn installed(name: &str) -> Arc<ControlPlane> {
    let plane = ControlPlane::shared(name).await.unwrap();
    plane.linkerd(&LinkerdOptions::default()).await.unwrap();
    let printed = run(plane.kubeconfig(), &["install"]).data();
    plane
        .kubectl_stdin(&["apply", "-f", "-"], &printed)
        .await
        .unwrap();
    set_addresses(
        &plane,
        json!([{ "ip": "192.0.2.10" }, { "hostname": "gw.example.com" }]),
    )
    .await;
    let tokens = Api::<Secret>::namespaced(plane.client(), NAMESPACE);
    eventually(
        "the token Secret to be filled",
        Duration::from_secs(30),
        async || {
            let secret = tokens.get(&format!("{ACCOUNT}-token")).await?;
            Ok(secret.data.and_then(|data| data.get("token").cloned()))
        },
    )
    .await
    .unwrap();
    plane
}

async fn set_addresses(plane: &ControlPlane, ingress: serde_json::Value) {
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    Api::<Service>::namespaced(plane.client(), NAMESPACE)
        .patch_status(
            "linkerd-gateway",
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await
        .unwrap();
}

/// The kubeconfig inside of the credentials Secret `name`.
async fn credentials(source: &ControlPlane, namespace: &str, name: &str) -> String {
    let secrets = Api::<Secret>::namespaced(source.client(), namespace);
    let data = secrets.get(name).await.unwrap().data.unwrap();
    String::from_utf8(data["kubeconfig"].0.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_cluster_prints_works_in_the_other() {
    let (east, west) = tokio::join!(installed("manifests"), ControlPlane::start("west"));
    let west = west.unwrap();
    west.linkerd(&LinkerdOptions::default()).await.unwrap();
    let printed = run(west.kubeconfig(), &["install"]).data();
    west.kubectl_stdin(&["apply", "-f", "-"], &printed)
        .await
        .unwrap();

    for (cluster, extra, fields) in [
        ("east", &[][..], ("192.0.2.10,gw.example.com", true)),
        (
            "minted",
            &["--token-duration=1h", "--gateway=false", "-o=json"],
            ("", false),
        ),
    ] {
        let outcome = run(
            east.kubeconfig(),
            &[&["link-gen", "--cluster-name", cluster], extra].concat(),
        );
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(
            outcome.stderr.starts_with("warning: "),
            "{}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("--api-server-address"),
            "{}",
            outcome.stderr
        );
        assert_eq!(outcome.stderr.lines().count(), 1);

        let first = west
            .kubectl_stdin(&["apply", "-f", "-"], &outcome.stdout)
            .await
            .unwrap();
        assert_eq!(first.matches(" created\n").count(), 3, "{first}");
        let second = west
            .kubectl_stdin(&["apply", "-f", "-"], &outcome.stdout)
            .await
            .unwrap();
        assert_eq!(second.matches(" unchanged\n").count(), 3, "{second}");

        let link = Api::<Link>::namespaced(west.client(), NAMESPACE)
            .get(cluster)
            .await
            .unwrap();
        let gateway = (
            link.spec.gateway_address.as_str(),
            link.spec.selector.is_some(),
        );
        assert_eq!(gateway, fields);

        let secret = format!("cluster-credentials-{cluster}");
        let kubeconfig = credentials(&west, NAMESPACE, &secret).await;
        assert_eq!(kubeconfig, credentials(&west, "linkerd", &secret).await);
        assert!(!kubeconfig.contains("client-key"), "only a token");
        let path = west.folder().join(cluster);
        std::fs::write(&path, kubeconfig).unwrap();
        let file = format!("--kubeconfig={}", path.display());
        let services = east
            .kubectl(&[&file, "get", "services", "-A"])
            .await
            .unwrap();
        assert!(services.contains("linkerd-gateway"), "{services}");
        let denied = east
            .kubectl(&[&file, "get", "secrets", "-A"])
            .await
            .unwrap_err();
        assert!(format!("{denied:#}").contains("forbidden"), "{denied:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_target_lacks_is_said_in_a_sentence_and_nothing_is_printed() {
    let east = ControlPlane::start("lacking").await.unwrap();
    let link_gen = |extra: &[&str]| {
        let args = [&["link-gen", "--cluster-name", "east"], extra].concat();
        run(east.kubeconfig(), &args).failure()
    };
    insta::assert_snapshot!("no-config", link_gen(&[]));
    east.linkerd(&LinkerdOptions::default()).await.unwrap();
    insta::assert_snapshot!("no-account", link_gen(&[]));

    let printed = run(east.kubeconfig(), &["install"]).data();
    east.kubectl_stdin(&["apply", "-f", "-"], &printed)
        .await
        .unwrap();
    let secret = format!("{ACCOUNT}-token");
    east.kubectl(&["-n", NAMESPACE, "delete", "secret", &secret])
        .await
        .unwrap();
    insta::assert_snapshot!("no-token", link_gen(&[]));
    insta::assert_snapshot!("no-address", link_gen(&["--token-duration=1h"]));
    insta::assert_snapshot!(
        "no-gateway",
        link_gen(&["--token-duration=1h", "--gateway-name=gone"])
    );

    // An account for mirroring reads Linkerd's configuration, but no ServiceAccounts.
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let denied = link_gen(&["--as", &account]).replace(east.url(), "SERVER");
    insta::assert_snapshot!("denied", denied);

    east.kill_api_server().unwrap();
    insta::assert_snapshot!("away", link_gen(&[]).replace(east.url(), "SERVER"));
}

#[test]
fn wrong_usage_is_told_before_any_cluster_is_asked() {
    let nowhere = std::path::Path::new("/nonexistent");
    for (name, args) in [
        ("no-name", &["link-gen"][..]),
        ("bad-name", &["link-gen", "--cluster-name=East"]),
        (
            "bad-selector",
            &["link-gen", "--cluster-name=east", "-l", "a>1"],
        ),
        (
            "short-token",
            &["link-gen", "--cluster-name=east", "--token-duration=1m"],
        ),
    ] {
        let outcome = run(nowhere, args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{name}");
        insta::assert_snapshot!(name, outcome.stderr);
    }
}
