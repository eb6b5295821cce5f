//! Does for the Pods that a command creates what a scheduler and kubelets do: binds them, runs their programs, and ends
//! them when they are deleted. Linkerd's injector has given them a proxy.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    Rig,
    cluster::{Cluster, NODE},
    injector::Injectors,
    pod::Pod,
    script::Script,
};

/// Poll interval for the Pods.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the Pods of one namespace in both clusters.
pub(crate) struct Kubelet {
    namespace: &'static str,
    /// By UID.
    running: BTreeMap<String, Pod>,
    _injectors: Injectors,
}

impl Kubelet {
    /// Starts the injectors. Nothing runs yet.
    pub(crate) async fn start(rig: &Rig, namespace: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            namespace,
            running: BTreeMap::new(),
            _injectors: Injectors::start(rig).await?,
        })
    }

    /// Runs a shell script, with the contexts `west` and `east`. Meanwhile Pods are followed, and this is done again and
    /// again.
    pub(crate) async fn shell(
        &mut self,
        rig: &mut Rig,
        script: &str,
        mut also: impl AsyncFnMut(&mut Rig) -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        let script = Script::new(rig, script)?;
        let follow = async || {
            self.follow(&mut rig.west).await?;
            self.follow(&mut rig.east).await?;
            also(rig).await
        };
        script.run_while(LOOK, follow).await
    }

    /// Starts and ends the Pods of a cluster.
    async fn follow(&mut self, cluster: &mut Cluster) -> anyhow::Result<()> {
        let pods: Api<PodObject> = Api::namespaced(cluster.plane.client(), self.namespace);
        for pod in pods.list(&ListParams::default()).await? {
            let uid = pod.uid().unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                self.running.remove(&uid);
                let now = DeleteParams::default().grace_period(0);
                pods.delete(&pod.name_any(), &now).await?;
            } else if let Entry::Vacant(place) = self.running.entry(uid.clone()) {
                let bound = bind(&pods, &pod).await?;
                let files = format!("{}-{}", pod.name_any(), uid.get(..8).unwrap_or(&uid));
                place.insert(Pod::adopt(cluster, &bound, &files).await?);
            }
        }
        Ok(())
    }
}

/// Gives a Pod the only node of its cluster.
async fn bind(pods: &Api<PodObject>, pod: &PodObject) -> anyhow::Result<PodObject> {
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "kind": "Node", "name": NODE },
    });
    let _: Value = pods
        .create_subresource("binding", &name, &PostParams::default(), &binding)
        .await?;
    Ok(pods.get(&name).await?)
}
