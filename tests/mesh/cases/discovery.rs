//! Linkerd's destination controller in a Pod with a proxy of its own, whose only way to the target is the gateway. Its
//! Pods skip the proxy on ports 443 and 6443, so it needs a Service of the target on another port.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::eventually;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::private;
use crate::{
    requests,
    rig::{
        NAMESPACE, Rig,
        cluster::{EXTENSION, port_of},
        destination::has_listed,
        linkerd::DESTINATION,
        pod::{Pod, PodTemplate},
        process::Process,
        wait::SOON,
    },
    table::{Row, seconds},
};

/// The Service of `east` for its API server, and the Service of `west` that leads there.
const THERE: &str = "kubernetes-api";
const HERE: &str = "linkerd-api-east";
/// Their port.
const PORT: u16 = 8443;
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
        let mut template = PodTemplate::app(NAMESPACE, &name, "client");
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
    let secret = ["secret", "cluster-credentials-east", "-n", "linkerd"];
    let secret = rig.west.get(&secret).await?;
    let walls = private::begin(rig).await?;
    serve(rig, secret).await?;
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

    for (cluster, name) in [(&rig.east, THERE), (&rig.west, HERE)] {
        let service = [&format!("service/{name}"), &format!("endpointslice/{name}")];
        let delete = ["delete", "-n", EXTENSION, service[0], service[1]];
        cluster.plane.kubectl(&delete).await?;
    }
    // Linkerd follows new and deleted Secrets, and no changes of them.
    let secret = [
        "delete",
        "secret",
        "cluster-credentials-east",
        "-n",
        "linkerd",
    ];
    rig.west.plane.kubectl(&secret).await?;
    private::end(rig, walls).await?;
    let late = known.map_or_else(|_| "never".to_owned(), seconds);
    Ok(Row::of(&BTreeMap::new()).with(format!(
        "{STARTS} starts: {} at most until Linkerd lists east; {late} if its proxy starts after Linkerd has tried",
        seconds(most)
    )))
}

/// Creates the Services, and the credentials that lead to them.
async fn serve(rig: &Rig, secret: Value) -> anyhow::Result<()> {
    let port = port_of(rig.east.plane.url())?;
    let there = rig.east.network.gateway().to_string();
    rig.east
        .apply(&objects(THERE, &there, port, &json!({})))
        .await?;
    let slices = ["endpointslice", "api-east-ipv4", "-n", EXTENSION];
    let slice = rig.west.get(&slices).await?;
    let identity = "mirror.linkerd.io/remote-gateway-identity";
    let annotations = json!({
        identity: slice["metadata"]["annotations"][identity],
        "mirror.linkerd.io/remote-svc-fq-name": format!("{THERE}.{EXTENSION}.svc.cluster.local"),
    });
    let address = slice["endpoints"][0]["addresses"][0].as_str();
    let address = address.context("api-east has no endpoint")?;
    rig.west
        .apply(&objects(HERE, address, 4143, &annotations))
        .await?;
    let service = rig.west.services(EXTENSION).get(HERE).await?;
    let ip = service.spec.and_then(|spec| spec.cluster_ip);
    let ip = ip.context("no ClusterIP")?;

    let own = ["secret", "cluster-credentials-east", "-n", EXTENSION];
    let own = rig.west.get(&own).await?;
    let kubeconfig = own["data"]["kubeconfig"].as_str().unwrap_or_default();
    let kubeconfig = String::from_utf8(BASE64_STANDARD.decode(kubeconfig)?)?;
    let mut lines: Vec<_> = kubeconfig.lines().map(str::to_owned).collect();
    let server = lines.iter_mut().find(|line| line.contains("server:"));
    let server = server.context("no server in the kubeconfig")?;
    let (before, _) = server.split_once("server:").unwrap_or_default();
    *server = format!("{before}server: https://{ip}:{PORT}");
    let metadata = &secret["metadata"];
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": secret["type"],
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"],
            "labels": metadata["labels"], "annotations": metadata["annotations"],
        },
        "data": { "kubeconfig": BASE64_STANDARD.encode(lines.join("\n")) },
    });
    rig.west.apply(&secret.to_string()).await
}

/// A Service on [`PORT`] and its slice.
fn objects(name: &str, address: &str, port: u16, annotations: &Value) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": EXTENSION },
        "spec": { "ports": [{ "name": "https", "port": PORT }] },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": EXTENSION, "annotations": annotations,
            "labels": { "kubernetes.io/service-name": name },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [service, slice] }).to_string()
}
