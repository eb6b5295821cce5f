//! The output of `link-gen` for one control plane, used in another.

use control_plane::{ControlPlane, LinkerdOptions};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, api::ListParams};
use linkerd_mc::api::{labels as l, link::Link};
use serde_json::json;

use crate::support::{
    credentials::secrets,
    installation::{ACCOUNT, CONTROLLER, NAMESPACE, can_i, gateway_addresses, parsed, reinstall},
    planes::{bare, linking},
    program::run,
};

/// The kubeconfig inside of the credentials Secret `name`.
async fn credentials(source: &ControlPlane, namespace: &str, name: &str) -> String {
    let secrets = Api::<Secret>::namespaced(source.client(), namespace);
    let data = secrets.get(name).await.unwrap().data.unwrap();
    String::from_utf8(data["kubeconfig"].0.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn link_gen_output_of_one_cluster_works_in_another() {
    let pair = linking().await;
    let (east, west) = (&*pair.far, &*pair.source);
    let addresses = json!([{ "ip": "192.0.2.10" }, { "hostname": "gw.example.com" }]);
    gateway_addresses(east, addresses).await;

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

        let first = west.apply(&outcome.stdout).await.unwrap();
        assert_eq!(first.matches(" created\n").count(), 3, "{first}");
        let second = west.apply(&outcome.stdout).await.unwrap();
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
        let kubeconfig = credentials(west, NAMESPACE, &secret).await;
        assert_eq!(kubeconfig, credentials(west, "linkerd", &secret).await);
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
async fn account_in_a_namespace_of_its_own_is_out_of_reach_for_the_controller() {
    let pair = linking().await;
    let east = &*pair.far;
    let values = "remoteMirrorServiceAccountNamespace=access,remoteMirrorServiceAccountName=peers";
    reinstall(east, &["--set", values]).await;
    let args = [
        "link-gen",
        "--cluster-name=east",
        "--service-account-name=peers",
    ];
    let missing = run(east.kubeconfig(), &args).failure();
    assert!(missing.contains("--service-account-namespace"), "{missing}");

    let args = [
        &args[..],
        &["--service-account-namespace=access", "-o=json"],
    ]
    .concat();
    let printed = parsed(&run(east.kubeconfig(), &args).stdout);
    assert!(printed.iter().any(|object| object["kind"] == "Link"));
    let secret = printed
        .iter()
        .find(|object| object["metadata"]["namespace"] == NAMESPACE);
    let secret: Secret = serde_json::from_value(secret.unwrap().clone()).unwrap();
    let data = secret.data.unwrap();
    let path = east.folder().join("peers");
    std::fs::write(&path, &data["kubeconfig"].0).unwrap();
    let file = format!("--kubeconfig={}", path.display());
    let who = east.kubectl(&[&file, "auth", "whoami"]).await.unwrap();
    assert!(who.contains("system:serviceaccount:access:peers"), "{who}");
    east.kubectl(&[&file, "get", "services", "-A"])
        .await
        .unwrap();

    let controller = format!("--as={CONTROLLER}");
    for (namespace, expected) in [(NAMESPACE, true), ("access", false)] {
        let may = can_i(east, &["list", "secrets", "-n", namespace, &controller]).await;
        assert_eq!(may, expected, "{namespace}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn link_gen_names_what_the_target_lacks_and_prints_no_objects() {
    let east = bare("lacking").await;
    let link_gen = |extra: &[&str]| {
        let args = [&["link-gen", "--cluster-name", "east"], extra].concat();
        run(east.kubeconfig(), &args).failure()
    };
    insta::assert_snapshot!("no-config", link_gen(&[]));
    east.linkerd(&LinkerdOptions::default()).await.unwrap();
    insta::assert_snapshot!("no-account", link_gen(&[]));

    reinstall(&east, &[]).await;
    insta::assert_snapshot!("no-address", link_gen(&["--token-duration=1h"]));
    insta::assert_snapshot!(
        "no-gateway",
        link_gen(&["--token-duration=1h", "--gateway-name=gone"])
    );

    // Nothing was requested for links that are not possible. The Secret is that of `install`.
    let of_type = format!("type={}", l::BOUND_TOKEN_TYPE);
    let params = ListParams::default().fields(&of_type);
    let bound = secrets(&east).list(&params).await.unwrap();
    let names: Vec<_> = bound.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, [format!("{ACCOUNT}-bound")]);

    // The account may read Linkerd's configuration, but no ServiceAccounts.
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let denied = link_gen(&["--as", &account]).replace(east.url(), "SERVER");
    insta::assert_snapshot!("denied", denied);

    east.kill_api_server().unwrap();
    insta::assert_snapshot!("away", link_gen(&[]).replace(east.url(), "SERVER"));
}

#[test]
fn usage_errors_are_reported_without_a_request() {
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
