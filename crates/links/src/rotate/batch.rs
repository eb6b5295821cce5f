//! Rotates links of one source cluster together: all of them get their new tokens, then Linkerd is restarted once, and
//! then the old tokens are revoked.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures::future::join_all;
use hints::hint::fail;
use mirror_core::api::link::Link;
use observe::clusters::{
    destination_restart::{DestinationRestart, meshed},
    kube_context::side_by_side,
};
use tokio::sync::Semaphore;

use crate::{
    linked::{KnownLinks, links},
    rotate::{
        decision::{DESTINATION, TokenHolder},
        flags::RotationFlags,
        gather::{self, SourceCluster, TargetCluster},
        outcome::{Ending, RotationDetails, RotationOutcome},
        restart,
        rotation::Rotation,
    },
};

/// A link to rotate.
pub struct WantedRotation {
    pub link: Link,
    /// Its target cluster, or why it cannot be used. Without one, the controller's Secret has the new token already.
    pub target: anyhow::Result<Option<TargetCluster>>,
}

/// How the links of one source cluster are rotated.
pub struct Batch<'a> {
    pub flags: &'a RotationFlags,
    pub source: &'a SourceCluster,
    /// Bounds how many links get a new token at the same time, and how many clusters are restarted. Other source clusters
    /// may share it.
    pub limit: &'a Semaphore,
    /// Whether links get their new tokens even if a restart would make Linkerd lose a cluster now. The old tokens stay, and
    /// a later run restarts Linkerd and revokes them.
    pub prepares: bool,
}

impl<'a> Batch<'a> {
    /// Rotates these links. `known` are all of the source cluster.
    pub async fn rotate(
        &self,
        known: &KnownLinks,
        wanted: Vec<WantedRotation>,
    ) -> anyhow::Result<Vec<RotationOutcome>> {
        let mut outcomes = Vec::new();
        let due = self.due(known, wanted, &mut outcomes).await?;
        // Checked before anything is changed: without the restart, all links would stay half rotated.
        if let Err(error) = self.in_source(self.may_restart(&known.links, &due).await) {
            self.source.cluster.console.error(&error);
            outcomes.extend(due.into_iter().map(|rotation| rotation.failed(&error)));
            return Ok(outcomes);
        }
        if self.flags.dry_run {
            outcomes.extend(self.planned(&known.links, due).await);
            return Ok(outcomes);
        }
        if self.restarts(&due) {
            self.say_restart(&known.links).await;
        }
        let written = self.written(due, &mut outcomes).await;
        let restarted = Box::pin(self.restarted(&written)).await;
        let restarted = self
            .in_source(restarted)
            .inspect_err(|error| self.source.cluster.console.error(error));
        // Read only now, when all links have their new tokens.
        let holders = if written.iter().any(Rotation::revokes) {
            gather::holders(self.source, self.flags.revoke_shared).await
        } else {
            Ok(Vec::new())
        };
        let holders = holders.context("cannot find out who uses the old tokens");
        let holders = self
            .in_source(holders)
            .inspect_err(|error| self.source.cluster.console.error(error));
        for rotation in written {
            outcomes.push(self.ended(rotation, &restarted, &holders).await);
        }
        Ok(outcomes)
    }

    /// The links for which there is something to do. Adds the outcomes of the others.
    async fn due(
        &self,
        known: &KnownLinks,
        wanted: Vec<WantedRotation>,
        outcomes: &mut Vec<RotationOutcome>,
    ) -> anyhow::Result<Vec<Rotation<'a>>> {
        let destination = self.source.destination(&known.links).await;
        let gathered = wanted.into_iter().map(async |wanted| {
            let cluster = wanted.link.spec.target_cluster_name.clone();
            (cluster, Box::pin(self.gather(known, wanted)).await)
        });
        let mut due = Vec::new();
        for (cluster, gathered) in side_by_side(gathered).await {
            match gathered {
                Ok(mut rotation) => {
                    if let Some((result, reason)) = rotation.decide(self.flags, &destination) {
                        self.source
                            .cluster
                            .console
                            .note(&format!("{}: {reason}", self.source.link_to(&cluster)));
                        outcomes.push(rotation.ended(result, Some(reason)));
                    } else {
                        due.push(rotation);
                    }
                }
                Err(error) => {
                    self.source.cluster.console.error(&error);
                    outcomes.push(RotationOutcome {
                        source: self.source.name.clone(),
                        cluster,
                        result: Ending::Failed,
                        reason: Some(format!("{error:#}")),
                        done: RotationDetails::default(),
                    });
                }
            }
        }
        Ok(due)
    }

    /// Reads what is known of a link. Fails if it cannot be decoded, because then the controller would not take the new
    /// token.
    async fn gather(
        &self,
        known: &KnownLinks,
        wanted: WantedRotation,
    ) -> anyhow::Result<Rotation<'a>> {
        let WantedRotation { link, target } = wanted;
        let what = self.cannot_rotate(&link.spec.target_cluster_name);
        let gathered = async {
            known.check_decoded(&self.source.cluster, &link)?;
            Rotation::gather(self.source, target?, link).await
        };
        gathered.await.context(what)
    }

    fn cannot_rotate(&self, cluster: &str) -> String {
        let link = self.source.link_to(cluster);
        format!("cannot rotate the credentials for {link}")
    }

    /// Names the source cluster in an error, if there are several.
    fn in_source<T>(&self, done: anyhow::Result<T>) -> anyhow::Result<T> {
        match &self.source.name {
            Some(name) => done.with_context(|| format!("cannot rotate the credentials in {name}")),
            None => done,
        }
    }

    /// What would be done. Links that need a restart fail, as they would, if Linkerd cannot be restarted.
    async fn planned(&self, links: &[Link], due: Vec<Rotation<'_>>) -> Vec<RotationOutcome> {
        due.iter().for_each(Rotation::say_steps);
        let restart = if self.restarts(&due) {
            self.say_restart(links).await;
            restart::is_possible(self.source, links, &proven(&due)).await
        } else {
            Ok(())
        };
        let restart = self
            .in_source(restart)
            .inspect_err(|error| self.source.cluster.console.error(error));
        let planned = due.into_iter().map(|rotation| match &restart {
            Err(error) if rotation.needs_restart() => rotation.failed(error),
            _ => rotation.planned(),
        });
        planned.collect()
    }

    /// Says what the restart of Linkerd causes. In a run, only what is too much at once: a dry run has said all.
    async fn say_restart(&self, links: &[Link]) {
        let SourceCluster { name, cluster, .. } = self.source;
        let of = name
            .as_ref()
            .map_or_else(String::new, |name| format!("{name}: "));
        let (destination, proxies) =
            futures::join!(self.source.destination(links), meshed(&cluster.client));
        let restart = match destination {
            Ok(destination) => DestinationRestart::of(&destination, proxies),
            Err(why) => {
                let what = "what a restart of linkerd-destination causes";
                let unseen = format!("{of}{what} could not be seen, because {why}");
                return cluster.console.warning(&unseen);
            }
        };
        match restart.problem() {
            Some(problem) => cluster.console.warning(&format!("{of}{problem}")),
            None if self.flags.dry_run => cluster.console.note(&format!("{of}{}", restart.text())),
            None => {}
        }
    }

    /// Whether Linkerd is restarted for these links.
    fn restarts(&self, links: &[Rotation<'_>]) -> bool {
        !self.flags.no_restart && links.iter().any(Rotation::needs_restart)
    }

    /// Fails if Linkerd has to be restarted, and cannot be.
    async fn may_restart(&self, links: &[Link], due: &[Rotation<'_>]) -> anyhow::Result<()> {
        if !self.restarts(due) {
            return Ok(());
        }
        if self.prepares {
            return restart::has_destination(self.source).await;
        }
        restart::is_possible(self.source, links, &proven(due)).await
    }

    /// Puts new tokens into use. Returns the links that have them, and adds the outcomes of the others.
    async fn written(
        &self,
        due: Vec<Rotation<'a>>,
        outcomes: &mut Vec<RotationOutcome>,
    ) -> Vec<Rotation<'a>> {
        let writes = due.into_iter().map(async |mut rotation| {
            let _permit = self.limit.acquire().await;
            let ended = Box::pin(rotation.write(self.flags.wait)).await;
            (rotation, ended)
        });
        let mut written = Vec::new();
        for (rotation, ended) in join_all(writes).await {
            match ended.with_context(|| self.cannot_rotate(rotation.cluster())) {
                Ok(()) => written.push(rotation),
                Err(error) => {
                    self.source.cluster.console.error(&error);
                    outcomes.push(rotation.failed(&error));
                }
            }
        }
        written
    }

    /// Restarts Linkerd's destination controller if one of the links needs it, and checks that no old Pod of it is left.
    async fn restarted(&self, written: &[Rotation<'_>]) -> anyhow::Result<()> {
        if !self.restarts(written) {
            return Ok(());
        }
        let source = self.source;
        let _permit = self.limit.acquire().await;
        // The clusters may have changed since they were read.
        let links = links(&source.cluster, &source.namespace).await?;
        restart::is_possible(source, &links, &proven(written)).await?;
        let waiting = format!("restarting {DESTINATION}");
        let restart = restart::restart(source, self.flags.wait);
        source.wait_for(&waiting, Box::pin(restart)).await?;
        let known = source.destination(&links).await;
        let known = known.map_err(|why| {
            fail(
                format!("cannot find out whether an old Pod of {DESTINATION} is left: {why}"),
                "repair the cause, then run this again; no token was revoked",
            )
        })?;
        let mut clusters = written.iter().map(Rotation::cluster);
        if let Some(cluster) = clusters.find(|cluster| known.is_outdated(cluster)) {
            return Err(fail(
                format!("a Pod of {DESTINATION} still has the old credentials for {cluster}"),
                format!(
                    "see {}, then run this again; no token was revoked",
                    source
                        .cluster
                        .flags
                        .kubectl("-n {} get pods", &[&source.linkerd])
                ),
            ));
        }
        self.source.cluster.console.note(&match &source.name {
            Some(name) => format!("{name}: restarted {DESTINATION}"),
            None => format!("restarted {DESTINATION}"),
        });
        Ok(())
    }

    /// Revokes the old tokens of a link, if Linkerd does not use them any more.
    async fn ended(
        &self,
        mut rotation: Rotation<'_>,
        restarted: &anyhow::Result<()>,
        holders: &anyhow::Result<Vec<TokenHolder>>,
    ) -> RotationOutcome {
        if rotation.needs_restart() && self.flags.no_restart {
            let reason = rotation.restart_is_needed();
            return rotation.ended(Ending::RestartNeeded, Some(reason));
        }
        let in_doubt = match (restarted, holders) {
            (Err(error), _) if rotation.needs_restart() => Some(error),
            (_, Err(error)) if rotation.revokes() => Some(error),
            _ => None,
        };
        if let Some(error) = in_doubt {
            rotation.keep();
            return rotation.failed(error);
        }
        let holders = holders.as_deref().unwrap_or_default();
        match self.in_source(rotation.revoke(holders).await) {
            Ok(()) => {
                let ending = rotation.ending();
                rotation.ended(ending, None)
            }
            Err(error) => {
                self.source.cluster.console.error(&error);
                rotation.failed(&error)
            }
        }
    }
}

/// The target clusters that the controller is seen to reach with new tokens.
fn proven(rotations: &[Rotation<'_>]) -> BTreeSet<String> {
    let proven = rotations.iter().filter(|it| it.proves_connection());
    proven.map(|it| it.cluster().to_owned()).collect()
}
