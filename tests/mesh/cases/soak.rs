//! Operations of people and clusters in random order, while requests go to mirrors of all modes. No request may fail,
//! and proxies must have the right endpoints soon after each operation.
//!
//! `just mesh-soak` runs it. `LINKERD_MC_MESH_OPERATIONS` sets the number of operations, `LINKERD_MC_MESH_SEED` repeats
//! the random choices of an earlier run.

mod state;

use std::{collections::BTreeMap, env, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::state::{Mode, State};
use super::{definition, migrate, modes, of, outages, rotate::ROTATE};
use crate::{
    load::{Load, Tally, until_answered},
    rig::{
        NAMESPACE, Rig,
        cluster::EXTENSION,
        controller::OURS,
        deployments::Deployments,
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED, MODES},
        pod::Pod,
    },
    table::{Row, seconds},
};

const OPERATIONS: usize = 100;
/// How long something is unavailable.
const AWAY: Duration = Duration::from_secs(8);
/// Linkerd's watches of the target come back one by one, each after a delay that doubles with each attempt. Until all
/// are back, it may read a slice with a new Pod before it reads the Pod, and does not try again.
const LINKERD_BACK: Duration = Duration::from_secs(30);
/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(1);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    KillController,
    ReplaceController,
    SwitchGated,
    SwitchFlat,
    OwnMember,
    OtherMember,
    ReplacePod,
    UnreadyPod,
    LinkAgain,
    Unlink,
    UnlinkByHand,
    Rotate,
    TargetAway,
    TargetRestarted,
    SourceRestarted,
    DestinationRestarted,
    SlicesDeleted,
    MirrorsChanged,
    GatewayLost,
    DnsAway,
    DefinitionReplaced,
    HandedBack,
}

impl Operation {
    const ALL: [Self; 22] = [
        Self::KillController,
        Self::ReplaceController,
        Self::SwitchGated,
        Self::SwitchFlat,
        Self::OwnMember,
        Self::OtherMember,
        Self::ReplacePod,
        Self::UnreadyPod,
        Self::LinkAgain,
        Self::Unlink,
        Self::UnlinkByHand,
        Self::Rotate,
        Self::TargetAway,
        Self::TargetRestarted,
        Self::SourceRestarted,
        Self::DestinationRestarted,
        Self::SlicesDeleted,
        Self::MirrorsChanged,
        Self::GatewayLost,
        Self::DnsAway,
        Self::DefinitionReplaced,
        Self::HandedBack,
    ];
}

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
    let deployments = Deployments::new(rig).await?;
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
    let mut slowest = Duration::ZERO;
    for count in 1..=operations {
        let chosen = soak.random.usize(..Operation::ALL.len());
        let operation = Operation::ALL[chosen];
        let what = || format!("operation {count}, {operation:?}, seed {seed}");
        let began = Instant::now();
        soak.perform(operation).await.with_context(what)?;
        let acted = Instant::now();
        soak.is_right().await.with_context(what)?;
        let followed = acted.elapsed();
        slowest = slowest.max(followed);
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
            "{operations} operations of {} kinds, seed {seed}; right at most {} after one",
            done.len(),
            seconds(slowest)
        ),
    })
}

impl Soak<'_> {
    /// Starts loads on existing mirrors, and counts requests from the time when the mirrors work.
    async fn start(&mut self, mirrors: &[&'static str]) -> anyhow::Result<()> {
        for mirror in mirrors {
            let target = self.rig.target(mirror).await?;
            let load = Load::start(&self.rig.client, std::slice::from_ref(&target));
            until_answered(&self.rig.client, &target).await?;
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

    /// Checks that the proxy has the right endpoints, our controller has nothing to do, and no request has failed.
    async fn is_right(&self) -> anyhow::Result<()> {
        self.rig.link_is_ready().await?;
        self.state.is_followed(self.rig, FOLLOWS).await?;
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
            Operation::KillController => self.rig.controller.restart().await,
            Operation::ReplaceController => {
                let script = format!(
                    "kubectl --context west -n {EXTENSION} rollout restart deployment {OURS}\n\
                     kubectl --context west -n {EXTENSION} rollout status deployment {OURS}"
                );
                self.shell(&script).await
            }
            Operation::SwitchGated => {
                self.state.gated = self.state.gated.other();
                self.switch("gated", self.state.gated.label()).await
            }
            Operation::SwitchFlat => {
                self.state.flat = self.state.flat.other();
                self.switch("flat", self.state.flat.label()).await
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
                self.unlinked("linkerd-mc --context west unlink --cluster-name east --apply --yes")
                    .await
            }
            Operation::UnlinkByHand => {
                self.unlinked(
                    "linkerd-mc --context west unlink --cluster-name east \
                     | kubectl --context west delete --ignore-not-found -f -",
                )
                .await
            }
            Operation::Rotate => self.shell(ROTATE).await,
            Operation::TargetAway => {
                let new = self.known_pod().await?;
                let old = outages::cut_off(self.rig, new, AWAY).await?;
                self.gone.push(old);
                sleep(LINKERD_BACK).await;
                Ok(())
            }
            Operation::TargetRestarted => {
                self.rig.east.plane.kill_api_server()?;
                self.rig.east.plane.restart_api_server().await?;
                sleep(LINKERD_BACK).await;
                Ok(())
            }
            Operation::SourceRestarted => {
                self.rig.west.plane.kill_api_server()?;
                self.rig.west.plane.restart_api_server().await
            }
            Operation::DestinationRestarted => self.rig.west.linkerd.restart_destination().await,
            Operation::SlicesDeleted => self.delete_slices().await,
            Operation::MirrorsChanged => self.meddle().await,
            Operation::GatewayLost => {
                modes::lose_gateway(self.rig).await?;
                sleep(AWAY).await;
                self.rig.link().await
            }
            Operation::DnsAway => {
                self.rig.dns.away(true);
                sleep(AWAY).await;
                self.rig.dns.away(false);
                Ok(())
            }
            Operation::DefinitionReplaced => {
                definition::replace_by_linkerds(self.rig).await?;
                sleep(HOLD).await;
                self.rig.west.install().await
            }
            Operation::HandedBack => {
                if self.state.switched {
                    // The guide says to do this: afterwards no old stream is left.
                    self.rig.west.linkerd.restart_destination().await?;
                    self.state.switched = false;
                    self.state.is_followed(self.rig, FOLLOWS).await?;
                }
                migrate::walk(self.rig, &mut self.deployments, "Go back").await?;
                self.state.is_followed(self.rig, FOLLOWS).await?;
                migrate::walk(self.rig, &mut self.deployments, "Take over").await
            }
        }
    }

    async fn shell(&mut self, script: &str) -> anyhow::Result<()> {
        self.deployments.shell(self.rig, script).await.map(|_| ())
    }

    /// Changes the mode of a Service of the target.
    async fn switch(&mut self, service: &str, mode: &str) -> anyhow::Result<()> {
        self.state.switched = true;
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

    /// Unlinks and links again. Meanwhile the load continues only on Services with a local member.
    async fn unlinked(&mut self, script: &str) -> anyhow::Result<()> {
        if !self.state.own_member {
            self.has_member(true, self.state.other_member).await?;
            self.state.is_followed(self.rig, FOLLOWS).await?;
        }
        self.stop(&[GATED, FLAT]).await?;
        self.shell(script).await?;
        let service = format!("{NAMESPACE}/{FEDERATED}");
        let own = self.rig.expected_unlinked();
        self.rig.oracle.agrees(&service, &own, FOLLOWS).await?;
        self.rig.link().await?;
        self.start(&[GATED, FLAT]).await
    }

    /// A Pod that is not ready, and that Linkerd has read already. When Linkerd's watches come back, it may read a
    /// slice with a new Pod before it reads the Pod, and does not try again.
    async fn known_pod(&mut self) -> anyhow::Result<Pod> {
        let new = self.rig.start_pod().await?;
        self.rig.east_pods.insert(0, new);
        self.state.is_followed(self.rig, FOLLOWS).await?;
        let new = self.rig.east_pods.remove(0);
        new.set_ready(false).await?;
        self.state.is_followed(self.rig, FOLLOWS).await?;
        Ok(new)
    }

    /// Deletes the slices of a mirror, as a person might.
    async fn delete_slices(&self) -> anyhow::Result<()> {
        // Slices that stay for open streams, after a change to remote discovery, are not made again.
        if self.state.gated != Mode::Gateway {
            return Ok(());
        }
        let slices: Api<EndpointSlice> = Api::namespaced(self.rig.west.plane.client(), NAMESPACE);
        let of_mirror = format!("kubernetes.io/service-name={GATED}");
        let params = ListParams::default().labels(&of_mirror);
        for slice in slices.list(&params).await? {
            let name = slice.metadata.name.unwrap_or_default();
            slices.delete(&name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Changes labels and annotations of mirrors, as a person might.
    async fn meddle(&mut self) -> anyhow::Result<()> {
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
