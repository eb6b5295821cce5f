//! The extension on a control plane, as `install` and `link-gen` print it.

use control_plane::{ControlPlane, LinkerdOptions, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use linkerd_mc::{
    api::{labels as l, link::Link},
    mirror::API_SERVER_SERVICE,
};
use serde_json::{Value, json};

use crate::support::{SOON, objects::apply, program::run};

/// Namespace of the extension.
pub(crate) const NAMESPACE: &str = "linkerd-multicluster";
/// User of the controller in requests. As in a cluster, this is its ServiceAccount, with only the permissions that the
/// installation grants.
pub(crate) const CONTROLLER: &str =
    "system:serviceaccount:linkerd-multicluster:linkerd-multicluster-controller";
/// Its groups.
pub(crate) const CONTROLLER_GROUPS: [&str; 2] = ["system:serviceaccounts", "system:authenticated"];
/// The account whose credentials other clusters have.
pub(crate) const ACCOUNT: &str = "linkerd-service-mirror-remote-access-default";

/// Puts Linkerd's configuration and our installation on a control plane; its gateway has this address.
pub(crate) async fn install(plane: &ControlPlane, gateway: &str) {
    plane.linkerd(&LinkerdOptions::default()).await.unwrap();
    reinstall(plane, &[]).await;
    gateway_addresses(plane, json!([{ "ip": gateway }])).await;
    confined(plane, NAMESPACE).await;
}

/// Gives the gateway these addresses, as the status of a load balancer lists them.
pub(crate) async fn gateway_addresses(plane: &ControlPlane, ingress: Value) {
    load_balancer(plane, l::GATEWAY_NAME, ingress).await;
}

/// Gives the Service of a gateway these addresses.
async fn load_balancer(plane: &ControlPlane, name: &str, ingress: Value) {
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    Api::<Service>::namespaced(plane.client(), NAMESPACE)
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// Applies the network of a gateway that leads to the API server at this address, as `install` prints it. A load balancer
/// gives the gateway its own address. Returns what was applied.
pub(crate) async fn api_gateway(
    plane: &ControlPlane,
    api_server: &str,
    gateway: &str,
) -> Vec<Value> {
    let set = format!("apiGateway.apiServerAddress={api_server}");
    let limited = "gateway.forward=exported";
    let install = ["install", "--ignore-cluster", "--output=json"];
    let install = [&install[..], &["--set", &set, "--set", limited]].concat();
    let installed = run(plane.kubeconfig(), &install);
    let mut own = parsed(&installed.stdout);
    own.retain(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let is_network = ["Service", "EndpointSlice"].contains(&object["kind"].as_str().unwrap());
        is_network && [API_SERVER_SERVICE, l::API_GATEWAY_NAME].contains(&name)
    });
    assert_eq!(own.len(), 3, "{}", installed.stderr);
    apply(plane, &own).await;
    load_balancer(plane, l::API_GATEWAY_NAME, json!([{ "ip": gateway }])).await;
    own
}

/// The user of the controller of the installation in a namespace.
pub(crate) fn account(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:linkerd-multicluster-controller")
}

/// Waits until the API server enforces the admission policy of an installation. It reads policies every second.
pub(crate) async fn confined(plane: &ControlPlane, namespace: &str) {
    let foreign =
        json!({ "metadata": { "name": "foreign" }, "spec": { "ports": [{ "port": 80 }] } });
    eventually("the admission policy", SOON, async || {
        let path = "/api/v1/namespaces/default/services";
        let refused = refused(plane, &account(namespace), path, &foreign).await?;
        let by_policy = |why: String| why.contains("ValidatingAdmissionPolicy");
        Ok(refused.is_some_and(by_policy).then_some(()))
    })
    .await
    .unwrap();
}

/// Waits until the API server serves Links. It does so a moment after the CRD was created.
pub(crate) async fn links_are_served(plane: &ControlPlane) {
    let links = Api::<Link>::all(plane.client());
    let all = ListParams::default();
    eventually("Links to be served", SOON, async || {
        Ok(links.list(&all).await.ok().map(|_| ()))
    })
    .await
    .unwrap();
}

/// Waits until the controller may create namespaces, after an installation that permits it.
pub(crate) async fn may_create_namespaces(plane: &ControlPlane) {
    let new = json!({ "metadata": { "name": "new" } });
    eventually("the permission to create namespaces", SOON, async || {
        let refused = refused(plane, CONTROLLER, "/api/v1/namespaces", &new).await?;
        Ok(refused.is_none().then_some(()))
    })
    .await
    .unwrap();
}

/// Why a user may not create this object, if it may not. Nothing is created.
async fn refused(
    plane: &ControlPlane,
    user: &str,
    path: &str,
    object: &Value,
) -> anyhow::Result<Option<String>> {
    let create = http::Request::post(format!("{path}?dryRun=All"))
        .header("Content-Type", "application/json")
        .header("Impersonate-User", user)
        .body(object.to_string().into_bytes())?;
    match plane.client().request_text(create).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// What `link-gen` prints for `target` under the name `cluster`; the address is that of the API server unless `flags`
/// give another.
pub(crate) fn link_gen(target: &ControlPlane, cluster: &str, flags: &[&str]) -> String {
    let address = format!("--api-server-address={}", target.url());
    let mut args = vec!["link-gen", "--cluster-name", cluster];
    if !flags.iter().any(|flag| flag.starts_with("--api-server-")) {
        args.push(&address);
    }
    args.extend(flags);
    let outcome = run(target.kubeconfig(), &args);
    // It warns that loopback addresses are not reachable from other clusters. Here they are.
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout
}

/// Links `source` to `target`.
pub(crate) async fn link(
    source: &ControlPlane,
    target: &ControlPlane,
    cluster: &str,
    flags: &[&str],
) {
    let printed = link_gen(target, cluster, &[flags, &["--output=json"]].concat());
    apply(source, &parsed(&printed)).await;
}

/// Applies what `install` prints with these flags, and returns it.
pub(crate) async fn reinstall(plane: &ControlPlane, flags: &[&str]) -> Vec<Value> {
    let args = [&["install", "--output=json"], flags].concat();
    let printed = parsed(&run(plane.kubeconfig(), &args).data());
    apply(plane, &printed).await;
    printed
}

/// Objects that were printed as JSON, each on its line.
pub(crate) fn parsed(printed: &str) -> Vec<Value> {
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Whether an API server permits a request: the answer of `kubectl auth can-i`.
pub(crate) async fn can_i(plane: &ControlPlane, args: &[&str]) -> bool {
    match plane.kubectl(&[&["auth", "can-i"], args].concat()).await {
        Ok(answer) => answer.trim() == "yes",
        Err(error) => {
            // For "no", kubectl fails without a message.
            assert!(error.to_string().ends_with("failed: "), "{error}");
            false
        }
    }
}
