//! A link gets new credentials while requests go to its mirrors.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::without_failures;
use crate::{
    rig::{
        NAMESPACE, Rig,
        cluster::{Cluster, EXTENSION},
        deployments::{Deployments, LINKERD},
        mirrors::FOLLOWS,
        wait::SOON,
    },
    table::{Row, seconds},
};

pub(super) const ROTATE: &str = "linkerd-mc rotate east --target east --source west";
/// An API server caches for ten seconds that a token was valid.
const REFUSED: Duration = Duration::from_secs(20);

/// Afterwards Pods of the target change, before and after its API server is killed and comes back.
pub(super) async fn under_load(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut deployments = Deployments::new(&rig.west).await?;
    // Other links may use the first token, because the installation created it, so it is kept.
    deployments.shell(rig, ROTATE).await?;
    // Whatever `rotate` did: Linkerd must not use the first token, which stays valid.
    rig.west.linkerd.restart_destination().await?;
    let old = OldCredentials::keep(&rig.west, &rig.east).await?;
    let load = rig.load().await?;
    deployments.shell(rig, ROTATE).await?;
    old.are_refused(&rig.east).await?;
    let mut gone = vec![rig.replace_pod().await?];
    rig.proxy_is_right(FOLLOWS).await?;

    rig.east.plane.kill_api_server()?;
    rig.east.plane.restart_api_server().await?;
    rig.link_is_ready().await?;
    gone.push(rig.replace_pod().await?);
    let changed = tokio::time::Instant::now();
    let host = rig.east_pods.last().map(|pod| format!("{}-east", pod.name));
    rig.target(&host.context("no Pods")?).await?;
    rig.proxy_is_right(SOON).await?;
    let followed = changed.elapsed();
    let row = without_failures(&load.finish().await?)?;
    drop(gone);
    Ok(row.with(format!(
        "the old token is refused; after the restart of the target's API server proxies follow within {}",
        seconds(followed)
    )))
}

/// The credentials of a link as they were.
pub(super) struct OldCredentials {
    kubeconfig: Vec<u8>,
}

impl OldCredentials {
    /// Keeps the current ones, which are accepted.
    pub(super) async fn keep(source: &Cluster, target: &Cluster) -> anyhow::Result<Self> {
        let kept = Self::read(source, target, EXTENSION).await?;
        kept.ask(target).await?;
        Ok(kept)
    }

    /// Waits until they are refused.
    pub(super) async fn are_refused(&self, target: &Cluster) -> anyhow::Result<()> {
        eventually("the old token to be refused", REFUSED, async || {
            let asked = self.ask(target).await;
            let Err(error) = asked else { return Ok(None) };
            let error = format!("{error:#}");
            ensure!(error.contains("logged in"), "{error}");
            Ok(Some(()))
        })
        .await
    }

    /// Fails unless our controller and Linkerd have others now, which are accepted.
    pub(super) async fn are_replaced(
        &self,
        source: &Cluster,
        target: &Cluster,
    ) -> anyhow::Result<()> {
        for namespace in [EXTENSION, LINKERD] {
            let new = Self::read(source, target, namespace).await?;
            ensure!(
                new.kubeconfig != self.kubeconfig,
                "{namespace} has the old ones"
            );
            new.ask(target).await?;
        }
        Ok(())
    }

    /// Those in a namespace of the source cluster.
    async fn read(source: &Cluster, target: &Cluster, namespace: &str) -> anyhow::Result<Self> {
        let secrets: Api<Secret> = Api::namespaced(source.plane.client(), namespace);
        let name = format!("cluster-credentials-{}", target.name());
        let secret = secrets.get(&name).await?;
        let kubeconfig = secret.data.and_then(|mut data| data.remove("kubeconfig"));
        let kubeconfig = kubeconfig.with_context(|| format!("no {name} in {namespace}"))?;
        Ok(Self {
            kubeconfig: kubeconfig.0,
        })
    }

    /// Sends a request with them to the target's API server, whatever way the link takes.
    async fn ask(&self, target: &Cluster) -> anyhow::Result<()> {
        let file = target.place.home.join("kept-credentials");
        fs::write(&file, &self.kubeconfig)?;
        let file = file.display().to_string();
        let own = ["--kubeconfig", &file, "--server", target.plane.url()];
        let ask = [&own[..], &["get", "services", "-n", NAMESPACE]].concat();
        target.plane.kubectl(&ask).await.map(|_| ())
    }
}
