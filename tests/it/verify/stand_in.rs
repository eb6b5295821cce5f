//! Replaces what these control planes lack compared with a cluster with Linkerd: an injector, a scheduler and a kubelet
//! for the Pods of canaries, and proxies between them. No container of a Pod runs. The stand-in computes what a client
//! would be answered, from the labels of Pods and from the Services.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{Asked, ControlPlane, Verdict, eventually};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::labels::VERIFY;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::interval};

use crate::support::{SOON, objects::apply};

/// The node of all Pods.
const NODE: &str = "verify";
/// Time between two lists of the Pods.
const LOOK: Duration = Duration::from_millis(50);
const GATEWAY: &str = "canary-gateway-";

/// What is known of the canaries.
#[derive(Debug, Default)]
struct Canaries {
    /// Names of Services of the source cluster, by address.
    services: BTreeMap<String, String>,
    /// Whether there is a Pod that answers.
    has_server: bool,
}

/// The running stand-in. It ends when this is dropped.
pub(super) struct StandIn {
    canaries: Arc<Mutex<Canaries>>,
    /// The identity of the gateway.
    gateway: String,
    namespace: &'static str,
    task: JoinHandle<()>,
}

impl StandIn {
    /// Starts a stand-in for canaries in this namespace.
    pub(super) async fn start(
        source: &ControlPlane,
        target: &ControlPlane,
        namespace: &'static str,
        gateway: &str,
    ) -> Self {
        for plane in [source, target] {
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
            apply(plane, &[node]).await;
            inject(plane).await;
        }
        let canaries = Arc::<Mutex<Canaries>>::default();
        let task = tokio::spawn(follow(
            [source.client(), target.client()],
            namespace,
            canaries.clone(),
        ));
        Self {
            canaries,
            gateway: gateway.to_owned(),
            namespace,
            task,
        }
    }

    /// Returns a function that answers the requests with which `verify` makes the client Pod call a Service. For other
    /// requests, the function returns `None`.
    pub(super) fn answers(&self) -> impl Fn(&Asked) -> Option<Verdict> + Send + Sync + 'static {
        let (namespace, domain) = (self.namespace, self.domain());
        let client = format!("default.{namespace}.serviceaccount.identity.{domain}");
        let (canaries, gateway) = (self.canaries.clone(), self.gateway.clone());
        move |asked| {
            let (_, path) = asked.uri.path().split_once("/pods/client:8080/proxy/")?;
            let (_key, address) = path.split_once('/')?;
            let canaries = canaries.lock().unwrap();
            let service = canaries.services.get(address);
            let answer = match service.filter(|_| canaries.has_server) {
                None => json!({ "failed": "no endpoint" }),
                Some(name) if name.starts_with(GATEWAY) => json!({ "seen": gateway }),
                Some(_) => json!({ "seen": client }),
            };
            Some(Verdict::Answer(200, Vec::new(), answer.to_string()))
        }
    }
}

impl StandIn {
    /// The end of each identity: the namespace of Linkerd and the trust domain.
    pub(super) fn domain(&self) -> String {
        let (_, domain) = self.gateway.split_once(".identity.").unwrap();
        domain.to_owned()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes the API server add a proxy to each Pod of canaries, as Linkerd's injector does, and waits until it does.
async fn inject(plane: &ControlPlane) {
    let api = "admissionregistration.k8s.io/v1";
    let patch = "[JSONPatch{op: \"add\", path: \"/spec/containers/-\", \
                 value: Object.spec.containers{name: \"linkerd-proxy\", image: \"proxy\"}}]";
    let policy = json!({
        "apiVersion": api, "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": "stand-in-injector" },
        "spec": {
            "matchConstraints": {
                "objectSelector": { "matchExpressions": [{ "key": VERIFY, "operator": "Exists" }] },
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                }],
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }],
        },
    });
    let binding = json!({
        "apiVersion": api, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": "stand-in-injector" },
        "spec": { "policyName": "stand-in-injector" },
    });
    apply(plane, &[policy, binding]).await;
    let pods: Api<Pod> = Api::namespaced(plane.client(), "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pod = json!({
        "metadata": { "name": "probe", "labels": { VERIFY: "probe" } },
        "spec": { "containers": [{ "name": "app", "image": "app" }] },
    });
    let pod = serde_json::from_value(pod).unwrap();
    eventually("the injector's stand-in", SOON, async || {
        let created = pods.create(&dry, &pod).await?;
        let containers = created.spec.unwrap_or_default().containers.len();
        Ok((containers == 2).then_some(()))
    })
    .await
    .unwrap();
}

/// Acts as scheduler and kubelet, and records what proxies would know.
async fn follow(
    clients: [kube::Client; 2],
    namespace: &'static str,
    canaries: Arc<Mutex<Canaries>>,
) {
    let mut looks = interval(LOOK);
    loop {
        looks.tick().await;
        let mut has_server = false;
        for client in &clients {
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let Ok(all) = pods.list(&ListParams::default()).await else {
                continue;
            };
            for pod in all {
                has_server |= pod.labels().get("component").is_some_and(|c| c == "canary");
                // The Pod may already be deleted.
                let _ = play(&pods, &pod).await;
            }
        }
        let services: Api<Service> = Api::namespaced(clients[0].clone(), namespace);
        let Ok(services) = services.list(&ListParams::default()).await else {
            continue;
        };
        let addresses = services.into_iter().filter_map(|service| {
            let address = service.spec.as_ref()?.cluster_ip.clone()?;
            Some((address, service.name_any()))
        });
        let mut known = canaries.lock().unwrap();
        known.services = addresses.collect();
        known.has_server = has_server;
    }
}

/// Does for a Pod what a scheduler and a kubelet do: binds it, reports that it runs, and removes it when it is deleted.
async fn play(pods: &Api<Pod>, pod: &Pod) -> kube::Result<()> {
    let name = pod.name_any();
    let is_bound = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
    let is_running = pod.status.as_ref().is_some_and(|s| s.pod_ip.is_some());
    if pod.metadata.deletion_timestamp.is_some() {
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&name, &now).await?;
    } else if !is_bound {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "kind": "Node", "name": NODE },
        });
        let _: Value = pods
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await?;
    } else if !is_running {
        let conditions = ["Initialized", "ContainersReady", "Ready"]
            .map(|condition| json!({ "type": condition, "status": "True" }));
        let status = json!({ "status": {
            "phase": "Running", "podIP": "192.0.2.77", "podIPs": [{ "ip": "192.0.2.77" }],
            "conditions": conditions,
        } });
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(())
}
