//! Linkerd's destination controller in a Pod with a proxy of its own, whose only way to the target is the gateway. Its
//! Pods skip the proxy on ports 443 and 6443, so it needs a Service of the target on another port.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context as _;
use control_plane::eventually;
use tokio::time::Instant;

use super::private;
use crate::{
    requests,
    rig::{
        Rig,
        cluster::{EXTENSION, port_of},
        cluster_ip,
        deployments::LINKERD,
        destination::has_listed,
        linkerd::DESTINATION,
        pod::{Pod, PodTemplate},
        process::Process,
        wait::SOON,
    },
    table::{Row, seconds},
};

/// The Service of `west` through which Linkerd reaches the API server of `east`.
const HERE: &str = "api-east";
/// How often it starts.
const STARTS: u8 = 5;
/// Where it serves its metrics.
const METRICS: u16 = 9996;
/// What it logs when it cannot reach a cluster.
const FAILED: &str = "Error adding cluster east";
/// After this time, Linkerd has given up.
const GIVEN_UP: Duration = Duration::from_secs(45);

/// A destination controller in a Pod of its own.
struct Controller {
    process: Process,
    pod: Pod,
}

impl Controller {
    /// Starts a Pod and, when its proxy is ready, the controller in it, as the kubelet starts a native sidecar first.
    async fn start(rig: &mut Rig, number: u8) -> anyhow::Result<Self> {
        let name = format!("linkerd-destination-{number}");
        // The gateway lets nobody else through.
        let mut template = PodTemplate::app(LINKERD, &name, "linkerd-destination");
        template.own = &[DESTINATION];
        let port = port_of(rig.west.plane.url())?;
        let pod = Pod::start(&mut rig.west, template, &[port]).await?;
        let process = Self::run(rig, &pod)?;
        Ok(Self { process, pod })
    }

    fn run(rig: &Rig, pod: &Pod) -> anyhow::Result<Process> {
        let place = &rig.west.place;
        let arguments = [
            "destination",
            &format!("-kubeconfig={}", rig.west.plane.kubeconfig().display()),
            "-controller-namespace=linkerd",
            "-identity-trust-domain=cluster.local",
            "-cluster-domain=cluster.local",
            &format!("-addr=127.0.0.1:{DESTINATION}"),
            &format!("-metrics-addr=0.0.0.0:{METRICS}"),
        ];
        let log = place.logs.join(format!("{}-controller.log", pod.name));
        let program = pod.program("controller", &arguments, log);
        program.with("HOSTNAME", &pod.name).start()
    }

    /// Waits until it has listed `east`.
    async fn knows(&mut self, limit: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let metrics = format!("{}:{METRICS}", self.pod.address);
        let waited = eventually("Linkerd to list east", limit, async || {
            let (_, known) = requests::get(&metrics, "/metrics").await?;
            Ok(has_listed(&known, "east").then_some(()))
        });
        let outcome = waited.await;
        self.process.require_running()?;
        outcome.map(|()| began.elapsed())
    }
}

/// The controller starts with its proxy ready, and then before its proxy.
pub(super) async fn through_gateway(rig: &mut Rig) -> anyhow::Result<Row> {
    let private = private::begin(rig).await?;
    link(rig).await?;
    let mut times = Vec::new();
    for number in 0..STARTS {
        let mut controller = Controller::start(rig, number).await?;
        let listed = controller.knows(SOON).await;
        times.push(listed.with_context(|| format!("start {number}"))?);
        controller.pod.delete().await?;
    }
    let most = times.into_iter().max().unwrap_or_default();

    // The proxy comes after the controller has tried, as with a proxy that is no native sidecar.
    let mut late = Controller::start(rig, STARTS).await?;
    late.process.kill();
    late.pod.proxy.kill();
    let before = fs::read_to_string(late.process.log())?.len();
    late.process = Controller::run(rig, &late.pod)?;
    eventually("Linkerd to fail", GIVEN_UP, async || {
        let log = fs::read_to_string(late.process.log())?;
        Ok(log[before..].contains(FAILED).then_some(()))
    })
    .await?;
    late.pod.proxy.restart()?;
    late.pod.proxy_ready().await?;
    let known = late.knows(GIVEN_UP).await;
    late.pod.delete().await?;

    // Linkerd follows new and deleted Secrets, and no changes of them.
    let secret = [
        "delete",
        "secret",
        "cluster-credentials-east",
        "-n",
        "linkerd",
    ];
    rig.west.plane.kubectl(&secret).await?;
    private::end(rig, private).await?;
    let late = known.map_or_else(|_| "never".to_owned(), seconds);
    Ok(Row::of(&BTreeMap::new()).with(format!(
        "{STARTS} starts: {} at most until Linkerd lists east; {late} if its proxy starts after Linkerd has tried",
        seconds(most)
    )))
}

/// Links so that Linkerd's way leads through the gateway too, as the documents say.
async fn link(rig: &Rig) -> anyhow::Result<()> {
    let link = [
        "link-gen",
        "--cluster-name=east",
        "--enable-headless-services",
        "--api-server-through-gateway",
        "--discovery-through-gateway",
    ];
    rig.west.apply(&rig.east.linkerd_mc(&link)?).await?;
    rig.link_is_ready().await?;
    let here = rig.west.services(EXTENSION).get(HERE).await?;
    rig.source
        .dns
        .know(&format!("{HERE}.{EXTENSION}.svc"), cluster_ip(&here)?);
    Ok(())
}
