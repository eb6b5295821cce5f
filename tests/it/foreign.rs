//! `check` finds endpoints of mirrors that no service mirror created.

use control_plane::{ControlPlane, eventually};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::{
    SOON,
    links::{checked, in_step, own_link, unlink},
    objects::{addresses, export, gone, namespace, slices, slices_of, slices_that, web},
    planes::hub,
};

/// The foreign endpoints that `check` reports in this namespace.
fn foreign(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let found = checked(plane, "mirror services have no foreign endpoints");
    let error = found["error"].as_str().unwrap_or_default();
    let begin = format!("Service {namespace}/");
    let lines = error.lines().filter(|line| line.starts_with(&begin));
    lines.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_foreign_endpoints_under_a_mirrors_name() {
    let (east, west) = hub().await.pair();
    namespace("shared", &[east, west]).await;
    own_link(west, east, "shared", &[]).await;
    for name in ["slice", "legacy", "well"] {
        export(east, "shared", &web(name, "shared")).await;
        slices_that(west, "shared", &format!("{name}-shared"), |s| {
            addresses(s) == ["192.0.2.10"]
        })
        .await;
    }
    assert_eq!(foreign(west, "shared"), [""; 0]);

    // No watch of the controller selects this slice or these Endpoints.
    let slice = json!({
        "metadata": { "name": "mine", "labels": {
            "kubernetes.io/service-name": "slice-shared",
            "endpointslice.kubernetes.io/managed-by": "linkerd-mc",
        } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.66"] }],
        "ports": [{ "name": "http", "port": 80 }],
    });
    let slice = serde_json::from_value(slice).unwrap();
    slices(west, "shared")
        .create(&PostParams::default(), &slice)
        .await
        .unwrap();
    let legacy = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "legacy-shared", "namespace": "shared" },
        "subsets": [{ "addresses": [{ "ip": "192.0.2.67" }], "ports": [{ "name": "http", "port": 80 }] }],
    });
    west.kubectl_stdin(&["create", "-f", "-"], &legacy.to_string())
        .await
        .unwrap();
    // Kubernetes creates a slice for the Endpoints.
    slices_that(west, "shared", "legacy-shared", |s| s.len() == 2).await;
    let found = foreign(west, "shared");
    let begin = |service: &str| format!("Service shared/{service}: part of its traffic goes to ");
    assert_eq!(
        found,
        [
            format!(
                "{}Endpoints of the same name, which no service mirror created; find out what did, then delete it: run \
                 `kubectl --context west -n shared delete endpoints legacy-shared`",
                begin("legacy-shared")
            ),
            format!(
                "{}EndpointSlice mine (managed by linkerd-mc), which no service mirror created; find out what did, then \
                 delete it: run \
                 `kubectl --context west -n shared delete endpointslice mine`",
                begin("slice-shared")
            ),
        ]
    );

    // Does what the commands in the messages do.
    slices(west, "shared")
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    west.kubectl(&["-n", "shared", "delete", "endpoints", "legacy-shared"])
        .await
        .unwrap();
    eventually("the slice of the Endpoints to go", SOON, async || {
        let left = slices_of(west, "shared", "legacy-shared").await?;
        Ok((left.len() == 1).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(foreign(west, "shared"), [""; 0]);
    in_step(west, "shared", &[]).await;
    unlink(west, "shared").await;
    for name in ["slice", "legacy", "well"] {
        gone(west, "shared", &format!("{name}-shared")).await;
    }
}
