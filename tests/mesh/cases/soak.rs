//! Operations of people and clusters in random order, while requests go to mirrors of all modes. No request may fail,
//! and proxies must have the right endpoints soon after each operation.
//!
//! `just mesh-soak` runs it. `LINKERD_MC_MESH_OPERATIONS` sets the number of operations, `LINKERD_MC_MESH_SEED` repeats
//! the random choices of an earlier run.

mod operation;
mod state;
mod steps;

use std::{collections::BTreeMap, env, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::{operation::Operation, state::State};
use super::{definition, migrate, modes, of, outages, rotate::ROTATE, unlink};
use crate::{
    load::{Load, Tally, until_answered},
    rig::{
        NAMESPACE, Rig,
        cluster::EXTENSION,
        controller::OURS,
        deployments::Deployments,
        federation::Form,
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED, MODES},
        pod::Pod,
    },
    table::{Row, seconds},
};

const OPERATIONS: usize = 100;
/// How long something is unavailable.
const AWAY: Duration = Duration::from_secs(8);
/// How long Linkerd's watches of the target may take to come back. Until all are back, it may read a slice with a new
/// Pod before it reads the Pod, and does not try again.
const LINKERD_BACK: Duration = Duration::from_secs(30);
/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(1);

/// A soak in progress.
struct Soak<'a> {
    rig: &'a mut Rig,
    random: fastrand::Rng,
    deployments: Deployments,
    state: State,
    loads: BTreeMap<&'static str, Load>,
    /// Results of loads that have ended.
    ended: Vec<Tally>,
    /// Pods that were asked to terminate.
    gone: Vec<Pod>,
}

/// Runs the operations, one after the other.
pub(super) async fn run(rig: &mut Rig) -> anyhow::Result<Row> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let operations = number("LINKERD_MC_MESH_OPERATIONS")
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(OPERATIONS);
    let seed = number("LINKERD_MC_MESH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("soak: {operations} operations, LINKERD_MC_MESH_SEED={seed}");
    let deployments = Deployments::new(&rig.west).await?;
    let mut soak = Soak {
        rig,
        random: fastrand::Rng::with_seed(seed),
        deployments,
        state: State::new(),
        loads: BTreeMap::new(),
        ended: Vec::new(),
        gone: Vec::new(),
    };
    soak.start(&MODES).await?;
    let mut done = BTreeMap::<Operation, usize>::new();
    let (mut slowest, mut after_outages) = (Duration::ZERO, Duration::ZERO);
    for count in 1..=operations {
        let chosen = soak.random.usize(..Operation::ALL.len());
        let operation = Operation::ALL[chosen];
        let what = || format!("operation {count}, {operation:?}, seed {seed}");
        let began = Instant::now();
        soak.perform(operation).await.with_context(what)?;
        let acted = Instant::now();
        if operation.cuts_watches() {
            sleep(LINKERD_BACK).await;
        }
        if operation.restarts_linkerd() {
            soak.state.streams_are_new();
        }
        soak.is_right(acted + FOLLOWS).await.with_context(what)?;
        let followed = acted.elapsed();
        if operation.cuts_watches() {
            after_outages = after_outages.max(followed);
        } else {
            slowest = slowest.max(followed);
        }
        let (took, followed) = (seconds(began.elapsed()), seconds(followed));
        println!("{count}: {operation:?}, right {followed} later, {took} in all");
        *done.entry(operation).or_default() += 1;
    }
    soak.stop(&MODES).await?;
    let requests = soak.ended.iter().map(|tally| tally.requests).sum();
    Ok(Row {
        requests,
        failed: 0,
        oracle: "right".to_owned(),
        measured: format!(
            "{operations} operations of {} kinds, seed {seed}; right at most {} after one, {} after those that cut \
             Linkerd's watches",
            done.len(),
            seconds(slowest),
            seconds(after_outages)
        ),
    })
}

impl Soak<'_> {
    /// Starts loads on existing mirrors, and counts requests from the time when the mirrors work.
    async fn start(&mut self, mirrors: &[&'static str]) -> anyhow::Result<()> {
        for mirror in mirrors {
            let target = self.rig.target(mirror).await?;
            let load = Load::start(&self.rig.source.client, std::slice::from_ref(&target));
            until_answered(&self.rig.source.client, &target).await?;
            self.loads.insert(mirror, load);
        }
        self.state.is_followed(self.rig, FOLLOWS).await?;
        for mirror in mirrors {
            if let Some(load) = self.loads.get(mirror) {
                load.count_anew();
            }
        }
        Ok(())
    }

    /// Ends loads, and checks that none of their requests failed.
    async fn stop(&mut self, mirrors: &[&'static str]) -> anyhow::Result<()> {
        for mirror in mirrors {
            if let Some(load) = self.loads.remove(mirror) {
                let tallies = load.finish().await?;
                let tally = of(&tallies, mirror)?;
                ensure!(tally.failed == 0, "{mirror}: {tally}");
                self.ended.push(tally.clone());
            }
        }
        Ok(())
    }

    /// Checks that our controller has nothing to do and the proxy has the right endpoints in time, and that no request
    /// has failed a moment later.
    async fn is_right(&mut self, until: Instant) -> anyhow::Result<()> {
        self.rig.source.controller.revive().await?;
        self.rig.link_is_ready().await?;
        self.rig.has_nothing_to_do(until - Instant::now()).await?;
        self.state
            .is_followed(self.rig, until - Instant::now())
            .await?;
        sleep(HOLD).await;
        for (mirror, load) in &self.loads {
            let tallies = load.so_far();
            let failed = tallies.get(*mirror).filter(|tally| tally.failed > 0);
            ensure!(failed.is_none(), "{mirror}: {}", of(&tallies, mirror)?);
        }
        Ok(())
    }

    async fn perform(&mut self, operation: Operation) -> anyhow::Result<()> {
        match operation {
            Operation::KillController => self.rig.source.controller.restart().await,
            Operation::ReplaceController => {
                let script = format!(
                    "kubectl --context west -n {EXTENSION} rollout restart deployment {OURS}\n\
                     kubectl --context west -n {EXTENSION} rollout status deployment {OURS}"
                );
                self.shell(&script).await
            }
            Operation::SwitchGated => {
                self.state.gated.switch();
                self.switch("gated", self.state.gated.mode.label()).await
            }
            Operation::SwitchFlat => {
                self.state.flat.switch();
                self.switch("flat", self.state.flat.mode.label()).await
            }
            Operation::SwitchForm => {
                for form in [Form::Gateway, Form::Discovery] {
                    self.state.through_gateway = true;
                    self.rig.federate_through(form).await?;
                    self.state.is_followed(self.rig, FOLLOWS).await?;
                }
                Ok(())
            }
            Operation::ReplaceHeadless => {
                let how = modes::How::AtOnce;
                modes::replace_headless(self.rig, how).await.map(|_| ())
            }
            Operation::OwnMember => {
                self.has_member(
                    !self.state.own_member || !self.state.other_member,
                    self.state.other_member,
                )
                .await
            }
            Operation::OtherMember => {
                self.has_member(
                    self.state.own_member,
                    !self.state.other_member || !self.state.own_member,
                )
                .await
            }
            Operation::ReplacePod => {
                let old = self.rig.replace_pod().await?;
                self.gone.push(old);
                Ok(())
            }
            Operation::UnreadyPod => {
                let pod = self.rig.east_pods.remove(0);
                pod.set_ready(false).await?;
                let followed = self.state.is_followed(self.rig, FOLLOWS).await;
                pod.set_ready(true).await?;
                self.rig.east_pods.push(pod);
                followed
            }
            Operation::LinkAgain => self.rig.link().await,
            Operation::Unlink => {
                self.before_unlink().await?;
                self.shell("linkerd-mc --context west unlink east --apply --yes")
                    .await?;
                self.after_unlink().await
            }
            Operation::UnlinkByHand => {
                self.before_unlink().await?;
                unlink::by_hand(self.rig).await?;
                self.after_unlink().await
            }
            Operation::Rotate => self.shell(ROTATE).await,
            Operation::TargetAway => {
                let new = self.known_pod().await?;
                let old = outages::cut_off(self.rig, new, AWAY).await?;
                self.gone.push(old);
                Ok(())
            }
            Operation::TargetRestarted => {
                self.rig.east.plane.kill_api_server()?;
                self.rig.east.plane.restart_api_server().await
            }
            Operation::SourceRestarted => {
                let west = &self.rig.west;
                west.plane.kill_api_server()?;
                west.plane.restart_api_server().await?;
                // Its delay doubles with each restart. The next operation may create Services, which it must know first.
                west.linkerd.policy_follows(&west.plane).await
            }
            Operation::DestinationRestarted => self.rig.west.linkerd.restart_destination().await,
            Operation::SlicesDeleted => self.delete_slices().await,
            Operation::MirrorsChanged => self.meddle().await,
            Operation::GatewayLost => {
                modes::lose_gateway(self.rig).await?;
                sleep(AWAY).await;
                self.rig.link().await
            }
            Operation::GatewayKilled => self.kill_gateway().await,
            Operation::DnsAway => {
                self.rig.source.dns.away(true);
                sleep(AWAY).await;
                self.rig.source.dns.away(false);
                Ok(())
            }
            Operation::DefinitionReplaced => {
                definition::replace_by_linkerds(self.rig).await?;
                sleep(HOLD).await;
                self.rig.west.install().await
            }
            Operation::HandedBack => {
                // The guide says to do this: afterwards no old stream is left.
                self.renew_streams().await?;
                migrate::walk(self.rig, &mut self.deployments, "Go back").await?;
                self.state.is_followed(self.rig, FOLLOWS).await?;
                migrate::walk(self.rig, &mut self.deployments, "Take over").await
            }
        }
    }

    async fn shell(&mut self, script: &str) -> anyhow::Result<()> {
        self.deployments.shell(self.rig, script).await.map(|_| ())
    }

    /// Lets Linkerd decide again how it finds endpoints, if a stream is older than a change of that.
    async fn renew_streams(&mut self) -> anyhow::Result<()> {
        if self.state.has_old_streams() {
            self.rig.west.linkerd.restart_destination().await?;
            self.state.streams_are_new();
            self.state.is_followed(self.rig, FOLLOWS).await?;
        }
        Ok(())
    }

    /// Changes the mode of a Service of the target.
    async fn switch(&mut self, service: &str, mode: &str) -> anyhow::Result<()> {
        modes::label(&self.rig.east, service, modes::EXPORTED, mode.into()).await
    }

    /// Sets which members the federated Service has. At least one has to stay.
    async fn has_member(&mut self, own: bool, other: bool) -> anyhow::Result<()> {
        (self.state.own_member, self.state.other_member) = (own, other);
        // Members join before others leave.
        let mut members = [(&self.rig.west, own), (&self.rig.east, other)];
        members.sort_by_key(|(_, is_member)| !is_member);
        for (cluster, is_member) in members {
            let value = if is_member {
                "member".into()
            } else {
                Value::Null
            };
            modes::label(cluster, "web", modes::MEMBER, value).await?;
        }
        Ok(())
    }

    /// While the clusters are not linked, the load continues only on a Service with a local member.
    async fn before_unlink(&mut self) -> anyhow::Result<()> {
        if !self.state.own_member {
            self.has_member(true, self.state.other_member).await?;
            self.state.is_followed(self.rig, FOLLOWS).await?;
        }
        self.stop(&[GATED, FLAT]).await
    }

    /// Checks that the proxy has only the local member, and links again.
    async fn after_unlink(&mut self) -> anyhow::Result<()> {
        let service = format!("{NAMESPACE}/{FEDERATED}");
        let own = self.rig.expected_unlinked();
        self.rig
            .source
            .oracle
            .agrees(&service, &own, FOLLOWS)
            .await?;
        self.rig.link().await?;
        self.start(&[GATED, FLAT]).await
    }
}
