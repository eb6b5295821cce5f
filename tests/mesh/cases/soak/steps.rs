//! Operations of several steps.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{Soak, state::Mode};
use crate::{
    cases::gateway,
    rig::{
        NAMESPACE,
        mirrors::{FLAT, FOLLOWS, GATED},
        pod::Pod,
    },
};

impl Soak<'_> {
    /// Kills the gateway's proxy until it is known to be dead. Meanwhile the load continues only on the federated
    /// Service, which does not use it.
    pub(super) async fn kill_gateway(&mut self) -> anyhow::Result<()> {
        self.renew_streams().await?;
        self.stop(&[GATED, FLAT]).await?;
        let (_, limit) = gateway::probing(self.rig).await?;
        self.rig.gateway.proxy.kill();
        // The Link's status is written every two seconds at most.
        let limit = limit + Duration::from_secs(2);
        gateway::is_dead(self.rig, limit).await?;
        self.rig.gateway.proxy.restart()?;
        self.rig.gateway.proxy_ready().await?;
        self.rig.link_is_ready().await?;
        self.start(&[GATED, FLAT]).await
    }

    /// A Pod that is not ready, and that Linkerd has read already. When Linkerd's watches come back, it may read a
    /// slice with a new Pod before it reads the Pod, and does not try again.
    pub(super) async fn known_pod(&mut self) -> anyhow::Result<Pod> {
        let new = self.rig.start_pod().await?;
        self.rig.east_pods.insert(0, new);
        self.state.is_followed(self.rig, FOLLOWS).await?;
        let new = self.rig.east_pods.remove(0);
        new.set_ready(false).await?;
        self.state.is_followed(self.rig, FOLLOWS).await?;
        Ok(new)
    }

    /// Deletes the slices of a mirror, as a person might.
    pub(super) async fn delete_slices(&self) -> anyhow::Result<()> {
        // Slices that stay for open streams, after a change to remote discovery, are not made again.
        if self.state.gated.mode != Mode::Gateway {
            return Ok(());
        }
        let slices = self.rig.slices();
        let of_mirror = format!("kubernetes.io/service-name={GATED}");
        let params = ListParams::default().labels(&of_mirror);
        for slice in slices.list(&params).await? {
            let name = slice.metadata.name.unwrap_or_default();
            slices.delete(&name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Changes labels and annotations of mirrors, as a person might.
    pub(super) async fn meddle(&mut self) -> anyhow::Result<()> {
        let changes = [
            json!({ "metadata": { "labels": { "mirror.linkerd.io/mirrored-service": null } } }),
            json!({ "metadata": { "labels": { "multicluster.linkerd.io/remote-discovery": "nowhere" } } }),
            json!({ "metadata": { "annotations": { "mirror.linkerd.io/remote-svc-fq-name": "nowhere" } } }),
            json!({ "spec": { "selector": { "app": "nothing" } } }),
        ];
        let services = self.rig.west.services(NAMESPACE);
        for mirror in [GATED, FLAT] {
            let change = &changes[self.random.usize(..changes.len())];
            services
                .patch(mirror, &PatchParams::default(), &Patch::Merge(change))
                .await?;
        }
        Ok(())
    }
}
