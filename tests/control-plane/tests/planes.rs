//! What a control plane can do once it has started.

use std::time::Duration;

use anyhow::Context as _;
use control_plane::{ControlPlane, LinkerdOptions, eventually, trust_anchor};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::shared;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn control_plane_answers_kubectl_and_has_metrics() -> anyhow::Result<()> {
    let plane = shared().await?;
    let namespaces = plane
        .kubectl(&["get", "namespaces", "--output", "name"])
        .await?;
    assert!(
        namespaces.lines().any(|line| line == "namespace/default"),
        "{namespaces}"
    );
    assert_eq!(
        plane.kubectl(&["config", "current-context"]).await?.trim(),
        "shared"
    );
    assert!(
        plane
            .kubectl(&["version"])
            .await?
            .contains("Server Version: v1.")
    );
    let error = plane
        .kubectl(&["get", "service", "nobody"])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"nobody\" not found"), "{error}");
    assert!(plane.metrics().await?.contains("apiserver_request_total"));
    Ok(())
}

#[tokio::test]
async fn keeps_endpoints_of_services() -> anyhow::Result<()> {
    let plane = shared().await?;
    let manifest = include_str!("web.yaml");
    plane
        .kubectl_stdin(&["apply", "--filename", "-"], manifest)
        .await?;
    let status = json!({ "status": {
        "phase": "Running",
        "podIP": "192.0.2.7",
        "podIPs": [{ "ip": "192.0.2.7" }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    }});
    plane
        .kubectl(&[
            "patch",
            "pod",
            "web",
            "--namespace=web",
            "--subresource=status",
            "--patch",
            &status.to_string(),
        ])
        .await?;

    let endpoints: Api<Endpoints> = Api::namespaced(plane.client(), "web");
    let slices: Api<EndpointSlice> = Api::namespaced(plane.client(), "web");
    eventually("the address of the Pod", LIMIT, async || {
        let subsets = endpoints.get("web").await?.subsets.unwrap_or_default();
        let made = slices
            .list(&ListParams::default().labels("kubernetes.io/service-name=web"))
            .await?;
        let in_slice = made
            .iter()
            .flat_map(|slice| &slice.endpoints)
            .any(|endpoint| endpoint.addresses == ["192.0.2.7"]);
        let in_endpoints = subsets
            .iter()
            .flat_map(|subset| &subset.addresses)
            .flatten()
            .any(|address| address.ip == "192.0.2.7");
        Ok((in_slice && in_endpoints).then_some(()))
    })
    .await?;
    // A slice that a controller of ours would make, for a Service of both address families.
    let families = [
        "get",
        "service",
        "both",
        "--namespace=web",
        "--output=jsonpath={.spec.ipFamilies}",
    ];
    assert_eq!(plane.kubectl(&families).await?, r#"["IPv4","IPv6"]"#);
    assert_eq!(slices.get("both-ours").await?.endpoints.len(), 1);
    Ok(())
}

#[tokio::test]
async fn fills_the_token_of_a_service_account() -> anyhow::Result<()> {
    let plane = shared().await?;
    plane
        .kubectl_stdin(&["apply", "--filename", "-"], include_str!("token.yaml"))
        .await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "default");
    let token = eventually("a token", LIMIT, async || {
        let data = secrets.get("reader-token").await?.data.unwrap_or_default();
        Ok(data
            .get("token")
            .map(|token| token.0.clone())
            .filter(|_| data.contains_key("ca.crt")))
    });
    let token = format!("--token={}", String::from_utf8(token.await?)?);
    let kubeconfig = format!("--kubeconfig={}", anonymous(plane)?);
    let read = async |resource| {
        plane
            .kubectl(&["auth", "can-i", "list", resource, &token, &kubeconfig])
            .await
    };
    assert_eq!(read("services").await?.trim(), "yes");
    // kubectl answers with its exit code.
    assert!(read("secrets").await.is_err());
    Ok(())
}

/// A kubeconfig without a user: a client certificate would go before a token.
fn anonymous(plane: &ControlPlane) -> anyhow::Result<String> {
    let path = plane.folder().join("anonymous.kubeconfig");
    let authority = plane.folder().join("ca.crt");
    let cluster = json!({ "server": plane.url(), "certificate-authority": authority });
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": cluster }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "" } }],
        "current-context": "c",
    });
    std::fs::write(&path, kubeconfig.to_string())?;
    path.into_os_string()
        .into_string()
        .ok()
        .context("a path that is not UTF-8")
}

#[tokio::test]
async fn audit_log_has_who_writes() -> anyhow::Result<()> {
    let plane = shared().await?;
    let before = plane.audit_mark()?;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "default");
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "noted" } }))?;
    maps.create(&PostParams::default(), &map).await?;
    maps.get("noted").await?;
    assert!(maps.create(&PostParams::default(), &map).await.is_err());

    let events = plane.audit_since(before)?;
    let mine: Vec<_> = events
        .iter()
        .filter(|event| event.resource == "configmaps" && event.name == "noted")
        .collect();
    let seen: Vec<_> = mine
        .iter()
        .map(|event| (event.verb.as_str(), event.code, event.is_write()))
        .collect();
    assert_eq!(
        seen,
        [
            ("create", 201, true),
            ("get", 200, false),
            ("create", 409, false)
        ]
    );
    assert!(
        mine.iter()
            .all(|event| event.user == "kubernetes-admin" && event.namespace == "default")
    );
    assert!(mine.iter().all(|event| event.received <= event.noted));
    Ok(())
}

#[tokio::test]
async fn authorizes_other_users() -> anyhow::Result<()> {
    let plane = shared().await?;
    let kubeconfig = plane.user_kubeconfig("alice", &["readers"])?;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let error = plane
        .kubectl(&["get", "services", &kubeconfig])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("User \"alice\" cannot list resource \"services\""),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn linkerd_configuration_and_definitions_are_there() -> anyhow::Result<()> {
    let plane = shared().await?;
    plane.linkerd(&LinkerdOptions::default()).await?;
    plane
        .linkerd(&LinkerdOptions {
            cni_enabled: true,
            ..LinkerdOptions::default()
        })
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "linkerd");
    let values = maps.get("linkerd-config").await?.data.unwrap_or_default()["values"].clone();
    assert!(
        values.contains("identityTrustDomain: cluster.local\n")
            && values.contains("cniEnabled: true\n"),
        "{values}"
    );
    let roots = maps
        .get("linkerd-identity-trust-roots")
        .await?
        .data
        .unwrap_or_default()["ca-bundle.crt"]
        .clone();
    assert!(roots.starts_with("-----BEGIN CERTIFICATE-----"), "{roots}");
    let indented = roots.trim_end().replace('\n', "\n  ");
    assert!(values.contains(&indented), "{values}");

    plane
        .kubectl_stdin(&["create", "--filename", "-"], include_str!("policy.yaml"))
        .await?;
    let server = [
        "get",
        "servers.v1beta1.policy.linkerd.io",
        "admin",
        "--output=jsonpath={.spec.proxyProtocol}",
    ];
    assert_eq!(plane.kubectl(&server).await?, "HTTP/1");
    let wrong =
        include_str!("policy.yaml").replace("proxyProtocol: HTTP/1", "proxyProtocol: HTTP/9");
    let error = plane
        .kubectl_stdin(&["create", "--filename", "-"], &wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("Unsupported value: \"HTTP/9\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn two_control_planes_run_side_by_side() -> anyhow::Result<()> {
    let (east, shared) = tokio::try_join!(ControlPlane::start("east"), shared())?;
    let trusted = trust_anchor()?;
    let anchors = trusted.clone();
    let (east, prepared) = tokio::spawn(async move {
        // Other tests do such things in tasks of their own.
        let options = LinkerdOptions {
            trust_anchors: Some(anchors),
            ..LinkerdOptions::default()
        };
        let prepared = east.linkerd(&options).await;
        (east, prepared)
    })
    .await?;
    prepared?;
    let maps: Api<ConfigMap> = Api::namespaced(east.client(), "linkerd");
    let roots = maps.get("linkerd-identity-trust-roots").await?.data;
    assert_eq!(roots.unwrap_or_default()["ca-bundle.crt"], trusted);

    let merged = shared.folder().join("merged.kubeconfig");
    ControlPlane::merged_kubeconfig(&[&east, shared], &merged)?;
    let merged = format!("--kubeconfig={}", merged.display());
    let contexts = shared
        .kubectl(&["config", "get-contexts", "--output=name", &merged])
        .await?;
    assert_eq!(contexts, "east\nshared\n");
    east.kubectl(&["create", "namespace", "only-east"]).await?;
    assert!(
        shared
            .kubectl(&["get", "namespace", "only-east", &merged, "--context=east"])
            .await
            .is_ok()
    );
    assert!(
        shared
            .kubectl(&["get", "namespace", "only-east", &merged, "--context=shared"])
            .await
            .is_err()
    );
    Ok(())
}
