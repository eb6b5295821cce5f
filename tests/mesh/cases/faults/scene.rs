//! What faults need of the rig, and what is started for them.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use control_plane::eventually;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::time::timeout;

use super::text;
use crate::{
    load::{Load, Target},
    requests::Client,
    rig::{
        NAMESPACE, Rig,
        cluster::EXTENSION,
        condition_of,
        deployments::Deployments,
        linkerd::{DESTINATION, POLICY, report_destination, stand_in_for},
        mirrors::address_of,
        pod::Pod,
        wait::SOON,
        workloads::service,
    },
};

/// A Service that exists only while a fault needs it.
pub(super) const LATE: &str = "late";
/// Its mirror.
pub(super) const LATE_EAST: &str = "late-east";
/// How long a request that fails may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The rig while there is a fault.
pub(super) struct Scene<'r> {
    pub(super) rig: &'r mut Rig,
    deployments: Deployments,
    /// The namespace of the Service that is called.
    pub(super) namespace: String,
    /// The Pod that calls, in the namespace of the applications.
    pub(super) caller: String,
    client: Client,
    /// Pods that were started for it.
    pub(super) pods: Vec<Pod>,
    /// Requests that go on meanwhile.
    pub(super) load: Option<Load>,
    /// Whether [`LATE`] was exported.
    is_late_exported: bool,
}

impl<'r> Scene<'r> {
    pub(super) async fn begin(rig: &'r mut Rig) -> anyhow::Result<Self> {
        let deployments = Deployments::new(&rig.west).await?;
        let client = rig.source.client.clone();
        let scene = Self {
            rig,
            deployments,
            namespace: NAMESPACE.to_owned(),
            caller: "client".to_owned(),
            client,
            pods: Vec::new(),
            load: None,
            is_late_exported: false,
        };
        fs::write(scene.editor(), "#!/bin/sh\n")?;
        scene.destination_is_ready(true).await?;
        Ok(scene)
    }

    /// Removes what was made for a fault.
    pub(super) async fn clean(mut self) -> anyhow::Result<()> {
        self.load = None;
        let up = "kubectl --context west -n linkerd scale deployment/linkerd-destination --replicas=1\n\
                  kubectl --context west -n linkerd-multicluster scale deployment/linkerd-multicluster-controller --replicas=1";
        self.paste(up).await?;
        self.paste("true").await?;
        let taken = [
            "-n",
            NAMESPACE,
            "delete",
            "service",
            LATE_EAST,
            "--ignore-not-found",
        ];
        self.west(&taken).await?;
        let east = self.rig.east.services(NAMESPACE);
        let _ = east.delete(LATE, &DeleteParams::default()).await;
        let west = self.rig.west.services(NAMESPACE);
        eventually("what was made for it to go", SOON, async || {
            Ok(west.get_opt(LATE_EAST).await?.is_none().then_some(()))
        })
        .await?;
        for pod in std::mem::take(&mut self.pods) {
            let _ = pod.delete().await;
        }
        Ok(())
    }

    /// Runs a command of a person, with both contexts; Deployments are followed meanwhile.
    pub(super) async fn paste(&mut self, command: &str) -> anyhow::Result<String> {
        // `link` asks before it changes settings, and `edit` opens an editor.
        let command = match command.strip_prefix("linkerd-mc link ") {
            Some(rest) => format!("linkerd-mc link --yes {rest}"),
            None if command.contains(" edit ") => format!("KUBE_EDITOR='sh ./editor' {command}"),
            None => command.to_owned(),
        };
        self.deployments.shell(self.rig, &command).await
    }

    /// A diagnosis as a document, and how long it took.
    pub(super) async fn diagnose(
        &mut self,
        service: &str,
        port: u16,
    ) -> anyhow::Result<(Value, Duration)> {
        let (namespace, caller) = (&self.namespace, &self.caller);
        // Nothing here is a kubelet that forwards to Linkerd's controllers.
        let [west, east] =
            [&self.rig.west, &self.rig.east].map(|cluster| cluster.network.gateway());
        let linkerd = format!(
            "--linkerd-destination {west}:{DESTINATION} --linkerd-policy {west}:{POLICY} --target-linkerd-policy {east}:{POLICY}"
        );
        let script = format!(
            "linkerd-mc --quiet --context west diagnose {namespace}/{service}:{port} --from {NAMESPACE}/{caller} --target east --cluster-name east {linkerd} -o json 2>&1 || [ $? -eq 1 ]"
        );
        let began = Instant::now();
        let printed = self.deployments.shell(self.rig, &script).await?;
        let took = began.elapsed();
        let found = serde_json::from_str(&printed).with_context(|| printed.clone())?;
        Ok((found, took))
    }

    /// What `diagnose` finds by itself, with nobody to name the Service, while it is called.
    pub(super) async fn overview(&mut self, service: &str, port: u16) -> anyhow::Result<Value> {
        let target = self.target(service, port).await?;
        let load = Load::start(&self.client, &[target]);
        let script = "linkerd-mc --quiet --context west diagnose --target east --cluster-name east -o json 2>&1 || [ $? -eq 1 ]";
        let printed = self.deployments.shell(self.rig, script).await?;
        load.finish().await?;
        serde_json::from_str(&printed).with_context(|| printed.clone())
    }

    /// Waits until a diagnosis no longer names this cause.
    pub(super) async fn is_well(
        &mut self,
        service: &str,
        port: u16,
        cause: &str,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + SOON;
        loop {
            let (found, _) = self.diagnose(service, port).await?;
            if found["finding"].is_null() {
                return Ok(());
            }
            let still = text(&found["finding"], "cause");
            ensure!(
                Instant::now() < end,
                "{cause} was fixed, and {still} is found: {found:#}"
            );
        }
    }

    /// The address of a Service once it exists.
    pub(super) async fn target(&self, service: &str, port: u16) -> anyhow::Result<Target> {
        eventually(&format!("mirror {service}"), SOON, async || {
            self.existing(service, port).await
        })
        .await
    }

    /// The address of a Service, if it exists.
    pub(super) async fn existing(
        &self,
        service: &str,
        port: u16,
    ) -> anyhow::Result<Option<Target>> {
        let namespace = &self.namespace;
        let found = self.rig.west.services(namespace).get_opt(service).await?;
        Ok(found.as_ref().and_then(address_of).map(|address| Target {
            name: service.to_owned(),
            address: (address, port).into(),
            host: format!("{service}.{namespace}.svc.cluster.local"),
        }))
    }

    /// The client of the Pod that calls.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits until requests to a Service fail, or it does not exist.
    pub(super) async fn is_not_answered(&self, service: &str, port: u16) -> anyhow::Result<()> {
        eventually("requests to fail", SOON, async || {
            let Some(target) = self.existing(service, port).await? else {
                return Ok(Some(()));
            };
            let answer = timeout(PATIENCE, self.client.get(target.address, &target.host)).await;
            let failed = match answer {
                Err(_) => true,
                Ok(answer) => answer?.status != 200,
            };
            Ok(failed.then_some(()))
        })
        .await
    }

    /// Exports a Service of `east` that was not there before. Does not undo what another fault has done to it.
    pub(super) async fn export_late(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.is_late_exported, true) {
            return Ok(());
        }
        self.create_late().await
    }

    /// Creates this Service, or applies it again.
    pub(super) async fn create_late(&self) -> anyhow::Result<()> {
        let late = service(LATE, "mirror.linkerd.io/exported", "true");
        self.rig.east.apply(&late.to_string()).await
    }

    /// Like [`Self::export_late`], and waits for the mirror.
    pub(super) async fn mirror_late(&mut self) -> anyhow::Result<()> {
        self.export_late().await?;
        self.rig.target(LATE_EAST).await.map(|_| ())
    }

    /// Waits until a condition of the Link has this status and reason.
    pub(super) async fn link_is(&self, condition: &str, status: &str) -> anyhow::Result<()> {
        eventually(&format!("{condition} to be {status}"), SOON, async || {
            let link = self.rig.link_object().await?;
            Ok((condition_of(&link, condition) == Some(status)).then_some(()))
        })
        .await
    }

    /// Waits until the Link reports this reason for a Service.
    pub(super) async fn reports(&self, service: &str, reason: &str) -> anyhow::Result<()> {
        eventually(&format!("the Link to report {reason}"), SOON, async || {
            let link = self.rig.link_object().await?;
            let lists = ["mirrorServices", "federatedServices"];
            let all = lists
                .iter()
                .filter_map(|list| link["status"][list].as_array())
                .flatten();
            let mut all = all.filter(|one| one["remoteRef"]["name"] == service);
            Ok(all
                .any(|one| one["conditions"][0]["reason"] == reason)
                .then_some(()))
        })
        .await
    }

    /// `kubectl` in `west`.
    pub(super) async fn west(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.rig.west.plane.kubectl(arguments).await
    }

    /// `kubectl` in `east`.
    pub(super) async fn east(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.rig.east.plane.kubectl(arguments).await
    }

    /// A merge patch of an object in the namespace of the extension in `west`.
    pub(super) async fn patch_west(
        &self,
        kind: &str,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<()> {
        let patch = patch.to_string();
        let arguments = [
            "-n",
            EXTENSION,
            "patch",
            kind,
            name,
            "--type=merge",
            "-p",
            &patch,
        ];
        self.west(&arguments).await.map(|_| ())
    }

    /// Writes the status of the Pod that stands in place of Linkerd's destination controller, as its kubelet would.
    pub(super) async fn destination_is_ready(&self, ready: bool) -> anyhow::Result<()> {
        report_destination(&self.rig.west, ready).await
    }

    /// The program in place of the editor that `kubectl edit` opens.
    fn editor(&self) -> PathBuf {
        self.rig.west.place.home.join("editor")
    }

    /// What people change in an editor, as a command of `sed`.
    pub(super) fn people_edit(&self, change: &str) -> anyhow::Result<()> {
        let mut editor = OpenOptions::new().append(true).open(self.editor())?;
        Ok(writeln!(editor, "sed -i '{change}' \"$1\"")?)
    }

    /// Calls from this Pod from now on.
    pub(super) fn call_from(&mut self, pod: &Pod) -> anyhow::Result<()> {
        self.client = Client::start(pod)?;
        self.caller.clone_from(&pod.name);
        Ok(())
    }
}

/// Creates the Pod in place of Linkerd's destination controller again, without what a fault has written into its status.
pub(super) async fn forget_destination(rig: &Rig) -> anyhow::Result<()> {
    stand_in_for(&rig.west.plane, "destination").await
}

/// The current time.
#[expect(clippy::disallowed_methods, reason = "objects have times")]
pub(super) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
