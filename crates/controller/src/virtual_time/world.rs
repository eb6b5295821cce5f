//! A source cluster, its target clusters, and the controller between them.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use client::{ResponseLimits, of_test_connections, of_test_server};
use kube::Client;
use mirror_core::{
    api::{labels as l, link::LinkStatus, selector_text::parse},
    mirror::{Config, Limits},
};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    network::{Gateway, Network},
    server::{ApiServer, Asked},
    wire::Wire,
};
use crate::{
    apply::Writer,
    engine::{self, Health, Settings},
    lease::Fence,
    local,
    metrics::Metrics,
    networks,
    route_versions::RouteVersions,
};

/// Namespace of Links.
pub const LINKS: &str = "mc";
/// Namespace of Services.
pub const NS: &str = "ns";
/// The token of all target clusters at first.
pub const TOKEN: &str = "first";

/// A source cluster, with target clusters that a network connects.
pub struct World {
    pub source: ApiServer,
    pub network: Network,
    pub metrics: Metrics,
    /// Settings of the controller, from its next start on.
    pub config: Config,
    /// Its number of writes at the same time.
    pub slots: usize,
    /// Maximum number of Services of each target cluster.
    pub services: usize,
    /// The permission to write that it gets at its next start.
    pub fence: Fence,
    controller: Option<Controller>,
}

/// A running controller.
struct Controller {
    stop: CancellationToken,
    engine: JoinHandle<anyhow::Result<()>>,
    /// They end when this is dropped.
    _watches: JoinSet<()>,
}

impl World {
    /// A source cluster without Links, and no controller yet.
    pub fn new() -> Self {
        fastrand::seed(1); // the same jitter each time
        Self {
            source: ApiServer::new(&["default", LINKS, NS], None),
            network: Network::default(),
            metrics: Metrics::new(""),
            config: Config {
                namespace: LINKS.to_owned(),
                local_members: parse(l::FEDERATED_MEMBERS).expect("a selector"),
                ..Config::default()
            },
            slots: 32,
            services: 2_000,
            fence: Fence::always(),
            controller: None,
        }
    }

    /// A source cluster that mirrors the Service `web` of the target cluster `east`.
    pub async fn mirroring() -> (Self, ApiServer) {
        let mut world = Self::new();
        let east = world.target("east");
        east.export("web");
        world.start();
        world.in_sync(&["east"], &["web-east"]).await;
        (world, east)
    }

    /// A target cluster with a Link to it and a gateway that is alive.
    pub fn target(&self, name: &str) -> ApiServer {
        let target = self.cluster(name);
        self.credentials(name, TOKEN);
        let link = link(name);
        self.source.change(|objects| objects.create("links", link));
        target
    }

    /// A target cluster with a gateway that is alive, and no Link to it.
    pub fn cluster(&self, name: &str) -> ApiServer {
        let target = ApiServer::new(&["default", NS], Some(TOKEN));
        self.network.connect(&host(name), &target);
        self.network.gateway(name, Gateway::Alive);
        target
    }

    /// Creates or replaces the credentials Secret of a Link.
    pub fn credentials(&self, name: &str, token: &str) {
        let kubeconfig = kubeconfig(&host(name), token);
        let secret = secret(name, &kubeconfig.to_string());
        let id = (LINKS.to_owned(), credentials_of(name));
        self.source
            .change(|objects| match objects.get("secrets", &id) {
                Some(_) => objects.patch("secrets", &id, &secret, false),
                None => objects.create("secrets", secret),
            });
    }

    /// Says how a cluster takes part in federated Services; `None` for discovery.
    pub fn federate_through(&self, cluster: &str, way: Option<&str>) {
        let id = (LINKS.to_owned(), cluster.to_owned());
        let way = json!({ "metadata": { "annotations": { l::FEDERATED_THROUGH: way } } });
        self.source
            .change(|objects| objects.patch("links", &id, &way, false));
    }

    /// Starts the controller, as the leader.
    pub fn start(&mut self) {
        let fence = self.fence.clone();
        // If the controller has ended, the test finds it.
        let _ = self.stand_by().send(fence);
    }

    /// Starts the controller, as a replica that becomes the leader when a fence is sent to it.
    pub fn stand_by(&mut self) -> oneshot::Sender<Fence> {
        let source = self.source.clone();
        self.start_with(of_test_server(move |request| {
            source.clone().answer(request)
        }))
    }

    /// Starts it, with HTTP/2 between it and all API servers. Returns the connections to the source and to a target.
    pub fn start_over_http2(&mut self, cluster: &str, target: &ApiServer) -> [Wire; 2] {
        let wires = [Wire::to(&self.source), Wire::to(target)];
        self.network.connect_over(&host(cluster), &wires[1]);
        let config = kube::Config::new("https://source.test".parse().expect("an address"));
        let client = of_test_connections(&config, ResponseLimits::of_pages(), wires[0].clone());
        let elect = self.start_with(client.expect("a client"));
        let _ = elect.send(self.fence.clone());
        wires
    }

    /// Starts the controller. It becomes the leader when a fence is sent to it.
    fn start_with(&mut self, client: Client) -> oneshot::Sender<Fence> {
        let settings = self.settings();
        let (outbox, inbox) = engine::local_channel();
        let needed = inbox.needed.subscribe();
        let metrics = self.metrics.clone();
        let routes = RouteVersions::default();
        let config = &settings.config;
        let mut watches = local::watch_local(&client, config, &metrics, &outbox, needed, &routes);
        watches.spawn(networks::run(client.clone(), None, outbox));
        let (elect, elected) = oneshot::channel();
        let writer = Writer {
            client,
            routes,
            fence: Fence::closed(),
            metrics,
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let engine = tokio::spawn(async move {
            let health = Health::default();
            engine::run(settings, writer, inbox, elected, &health, &stopped).await
        });
        self.controller = Some(Controller {
            stop,
            engine,
            _watches: watches,
        });
        elect
    }

    /// Waits until the controller ends by itself. Returns why.
    pub async fn ended(&mut self) -> String {
        let controller = self.controller.take().expect("a running controller");
        let ended = controller.engine.await.expect("no panic");
        ended.expect_err("a failure").to_string()
    }

    /// Stops the controller, which must not have ended before.
    pub async fn stop(&mut self) {
        let controller = self.controller.take().expect("a running controller");
        assert!(!controller.engine.is_finished(), "the engine has ended");
        controller.stop.cancel();
        controller
            .engine
            .await
            .expect("no panic")
            .expect("no failure");
    }

    fn settings(&self) -> Settings {
        Settings {
            config: self.config.clone(),
            headless: true,
            max_in_flight: self.slots,
            limits: Limits {
                services: self.services,
                host: 0,
                metadata: 1 << 14,
                bytes: 1 << 24,
            },
            bytes: 1 << 26,
            writes_each_second: 50,
            pages: ResponseLimits::of_pages(),
            probe_address: None,
            transport: Arc::new(self.network.clone()),
            sessions: Handle::current(),
        }
    }

    /// The status of a Link.
    pub fn status(&self, link: &str) -> LinkStatus {
        let link = self.source.get("links", LINKS, link).expect("a Link");
        let status = link["status"].clone();
        serde_json::from_value(status).unwrap_or_default()
    }

    /// Number of writes to the source cluster since `mark`, which must all be of the status of this Link.
    pub fn status_writes(&self, mark: usize, link: &str) -> usize {
        let (written, own) = (
            self.source.writes(mark),
            format!("patch links/status {link}"),
        );
        assert!(written.iter().all(|write| *write == own), "{written:?}");
        written.len()
    }

    /// Status, reason and message of a condition of a Link.
    pub fn condition(&self, link: &str, type_: &str) -> Option<(String, String, String)> {
        let mut conditions = self.status(link).conditions.into_iter();
        let found = conditions.find(|condition| condition.type_ == type_)?;
        Some((found.status, found.reason, found.message))
    }

    /// Whether a condition of a Link has this status.
    pub fn is(&self, link: &str, type_: &str, status: &str) -> bool {
        let found = self.condition(link, type_);
        found.is_some_and(|(now, ..)| now == status)
    }

    /// The number of writes of a kind with this verb and result that the metrics have.
    pub fn counted(&self, verb: &str, kind: &str, result: &str) -> usize {
        let labels = format!(r#"{{kind="{kind}",result="{result}",verb="{verb}"}} "#);
        let (text, series) = (
            self.metrics.render(),
            format!("linkerd_mc_writes_total{labels}"),
        );
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix(&series));
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Whether the metric says that a Link is ready.
    pub fn is_ready_by_metric(&self, link: &str) -> bool {
        let ready = format!("linkerd_mc_link_ready{{link=\"{link}\"}} 1");
        self.metrics.render().lines().any(|line| line == ready)
    }

    /// Whether a Service of this name exists in the source cluster.
    pub fn has(&self, service: &str) -> bool {
        self.source.get("services", NS, service).is_some()
    }

    /// Edits the mirror `web-east`, as somebody else does. Only a watch or a list shows it.
    pub fn edit_mirror(&self) {
        let evil = json!({ "spec": { "selector": { "app": "evil" } } });
        self.source.edit("web-east", &evil);
    }

    /// Whether that edit was undone.
    pub fn is_repaired(&self) -> bool {
        let mirror = self.source.get("services", NS, "web-east");
        mirror.is_some_and(|mirror| mirror["spec"]["selector"].is_null())
    }

    /// Waits until these Links are ready and these mirrors exist.
    pub async fn in_sync(&self, links: &[&str], mirrors: &[&str]) {
        within(SYNC, "the first sync", || {
            links.iter().all(|link| self.is(link, "Ready", "True"))
                && mirrors.iter().all(|mirror| self.has(mirror))
        })
        .await;
    }
}

/// How long a first sync takes at most.
const SYNC: Duration = Duration::from_secs(30);
/// Time between two looks at a condition.
const LOOK: Duration = Duration::from_millis(100);

/// Lets time pass until something holds. Returns how long that took, which is at most `limit`.
pub async fn within(limit: Duration, what: &str, holds: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "waited for {what} for {limit:?}");
        sleep(LOOK).await;
    }
    began.elapsed()
}

/// Seconds between requests.
pub fn pauses(asked: &[Asked]) -> Vec<f64> {
    let pairs = asked.windows(2);
    let pauses = pairs.map(|pair| pair[1].at - pair[0].at);
    pauses.map(|pause| pause.as_secs_f64()).collect()
}

pub const fn hours(hours: u64) -> Duration {
    Duration::from_secs(3600 * hours)
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Address of the API server of a cluster.
fn host(cluster: &str) -> String {
    format!("{cluster}.test")
}

/// Name of the Secret of a Link.
pub fn credentials_of(link: &str) -> String {
    format!("credentials-{link}")
}

/// A Link to the cluster of the same name. Its gateway is probed once a minute.
pub fn link(name: &str) -> Value {
    let equals = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": name, "namespace": LINKS },
        "spec": {
            "targetClusterName": name,
            "targetClusterDomain": "cluster.local",
            "clusterCredentialsSecret": credentials_of(name),
            "gatewayAddress": "192.0.2.1",
            "gatewayPort": "4143",
            "gatewayIdentity": "gateway.identity",
            "probeSpec": { "path": "/ready", "period": "60s", "port": "4191", "failureThreshold": "3" },
            "selector": equals(l::EXPORTED, "true"),
            "remoteDiscoverySelector": equals(l::EXPORTED, "remote-discovery"),
            "federatedServiceSelector": equals(l::FEDERATED, "member"),
        },
    })
}

fn kubeconfig(host: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "target",
        "contexts": [{ "name": "target", "context": { "cluster": "target", "user": "mirror" } }],
        "clusters": [{ "name": "target", "cluster": { "server": format!("https://{host}") } }],
        "users": [{ "name": "mirror", "user": { "token": token } }],
    })
}

fn secret(link: &str, kubeconfig: &str) -> Value {
    json!({
        "metadata": { "name": credentials_of(link), "namespace": LINKS },
        "type": l::CREDENTIALS_TYPE,
        "data": { l::KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig) },
    })
}

/// A Service with one port and a selector, and its slice, which has one ready endpoint.
pub fn exported(name: &str, (label, value): (&str, &str)) -> [(&'static str, Value); 2] {
    let service = json!({
        "metadata": { "name": name, "namespace": NS, "labels": { label: value } },
        "spec": {
            "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
        },
    });
    let slice = json!({
        "metadata": {
            "name": format!("{name}-x"),
            "namespace": NS,
            "labels": { label: value, l::SLICE_SERVICE: name },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.1.0.1"], "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    [("services", service), ("endpointslices", slice)]
}

impl ApiServer {
    /// Exports a Service in gateway mode.
    pub fn export(&self, name: &str) {
        self.export_as(name, (l::EXPORTED, "true"));
    }

    /// Exports a Service by this label.
    pub fn export_as(&self, name: &str, label: (&str, &str)) {
        for (resource, object) in exported(name, label) {
            self.change(|objects| objects.create(resource, object));
        }
    }

    /// Applies a merge patch to a Service.
    pub fn edit(&self, service: &str, patch: &Value) {
        let id = (NS.to_owned(), service.to_owned());
        self.change(|objects| objects.patch("services", &id, patch, false));
    }

    /// Sets the port of a Service.
    pub fn set_port(&self, service: &str, port: u16) {
        let ports =
            json!([{ "name": "http", "port": port, "protocol": "TCP", "targetPort": 8080 }]);
        self.edit(service, &json!({ "spec": { "ports": ports } }));
    }

    /// Sets the range of `ClusterIP`s.
    pub fn set_service_range(&self, cidr: &str) {
        let range = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": { "name": "kubernetes" }, "spec": { "cidrs": [cidr] },
        });
        self.change(|objects| objects.create("servicecidrs", range).map(drop));
    }

    /// Limits the number of Services that have a `ClusterIP`.
    pub fn limit_cluster_ips(&self, number: usize) {
        self.change(|objects| {
            objects.cluster_ips = number;
            Ok(())
        });
    }

    /// Deletes an object.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        let id = (namespace.to_owned(), name.to_owned());
        self.change(|objects| objects.delete(resource, &id, None));
    }
}
