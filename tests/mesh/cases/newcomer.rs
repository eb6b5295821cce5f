//! A second client, whose proxy opens new streams. Linkerd decides once for each stream how it finds endpoints, and the
//! streams of a load stay open, so a change for new streams shows only here.

use anyhow::ensure;

use crate::{
    requests::Client,
    rig::{Rig, pod::Pod},
};

/// Requests until a Pod of the target has answered. A federated Service has a local Pod, too.
const ATTEMPTS: usize = 60;

/// A client that sends requests only now and then. Its proxy drops its state for a Service after 5 s without requests.
pub(super) struct Newcomer {
    pod: Pod,
    pub(super) client: Client,
}

impl Newcomer {
    /// Starts it in a Pod of `west`.
    pub(super) async fn start(rig: &mut Rig) -> anyhow::Result<Self> {
        let pod = rig.start_client_pod().await?;
        let client = Client::start(&pod)?;
        Ok(Self { pod, client })
    }

    /// Sends requests to a mirror until a Pod of `east` answers, and checks which client that Pod sees.
    pub(super) async fn is_seen_as(
        &self,
        rig: &Rig,
        mirror: &str,
        identity: &str,
    ) -> anyhow::Result<()> {
        let target = rig.target(mirror).await?;
        for _ in 0..ATTEMPTS {
            let answer = self.client.get(target.address, &target.host).await?;
            ensure!(answer.status == 200, "{mirror} answers {answer:?}");
            let is_east = |pod: &Pod| answer.pod.as_ref() == Some(&pod.name);
            if rig.east_pods.iter().any(is_east) {
                let seen = answer.client.unwrap_or_default();
                ensure!(
                    seen == identity,
                    "{mirror}: a Pod sees {seen}, not {identity}"
                );
                return Ok(());
            }
        }
        anyhow::bail!("{mirror}: no Pod of the other cluster has answered {ATTEMPTS} requests")
    }

    /// Deletes its Pod.
    pub(super) async fn delete(self) -> anyhow::Result<()> {
        self.pod.delete().await
    }
}
