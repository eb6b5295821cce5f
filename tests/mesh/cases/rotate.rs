//! A link gets new credentials while requests go to its mirrors.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use control_plane::eventually;

use super::without_failures;
use crate::{
    rig::{NAMESPACE, Rig, deployments::Deployments, mirrors::FOLLOWS, wait::SOON},
    table::{Row, seconds},
};

pub(super) const ROTATE: &str = "linkerd-mc rotate --cluster-name east --from east --to west";
/// Writes the current credentials to a file.
const KEEP: &str = "kubectl --context west -n linkerd-multicluster get secret cluster-credentials-east \
                    -o 'jsonpath={.data.kubeconfig}' | base64 -d > old-credentials";
/// An API server caches for ten seconds that a token was valid.
const REFUSED: Duration = Duration::from_secs(20);

/// Afterwards Pods of the target change, before and after its API server is killed and comes back.
pub(super) async fn under_load(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut deployments = Deployments::new(rig).await?;
    // Other links may use the first token, because the installation created it, so it is kept.
    deployments.shell(rig, ROTATE).await?;
    // Whatever `rotate` did: Linkerd must not use the first token, which stays valid.
    rig.west.linkerd.restart_destination().await?;
    let old = OldCredentials::keep(rig, &mut deployments).await?;
    let load = rig.load().await?;
    deployments.shell(rig, ROTATE).await?;
    old.are_refused(rig).await?;
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

/// A file with the credentials of the link to `east` as they were.
pub(super) struct OldCredentials(String);

impl OldCredentials {
    /// Keeps the current ones, which are accepted.
    pub(super) async fn keep(rig: &mut Rig, deployments: &mut Deployments) -> anyhow::Result<Self> {
        deployments.shell(rig, KEEP).await?;
        let kept = rig.west.place.home.join("old-credentials");
        let kept = Self(kept.display().to_string());
        kept.ask(rig).await?;
        Ok(kept)
    }

    /// Waits until they are refused.
    pub(super) async fn are_refused(&self, rig: &Rig) -> anyhow::Result<()> {
        eventually("the old token to be refused", REFUSED, async || {
            let asked = self.ask(rig).await;
            let Err(error) = asked else { return Ok(None) };
            let error = format!("{error:#}");
            ensure!(error.contains("logged in"), "{error}");
            Ok(Some(()))
        })
        .await
    }

    /// Sends a request with them to the target's API server, whatever way the link takes.
    async fn ask(&self, rig: &Rig) -> anyhow::Result<()> {
        let own = ["--kubeconfig", &self.0, "--server", rig.east.plane.url()];
        let ask = [&own[..], &["get", "services", "-n", NAMESPACE]].concat();
        rig.east.plane.kubectl(&ask).await.map(|_| ())
    }
}
