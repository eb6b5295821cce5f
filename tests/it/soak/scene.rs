//! Two clusters, three Links between them, and the exported Services. [`Scene`] makes each change in a cluster and
//! records it, so it knows the expected mirrors.

use std::collections::{BTreeMap, BTreeSet};

use control_plane::{FaultProxy, Lent, eventually};
use fastrand::Rng;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    gateways::Gateways,
    links::{condition_is, objects, unlink},
    objects::{
        annotation, apply, delete, endpoints, export, hosts, label, member, namespace, patch,
        ports, regroup, services, stateful, web,
    },
    planes::installed,
    program::run,
};

/// The Links. All lead to the same cluster, each through its own proxy.
pub(super) const LINKS: [&str; 3] = ["one", "two", "flaps"];
/// Index of the Link that is deleted and created again.
pub(super) const FLAPS: usize = 2;
/// Namespace of all objects.
pub(super) const NAMESPACE: &str = "soak";
/// Number of Services that are created, changed and deleted.
const SERVICES: usize = 16;
/// Maximum number of hosts of the headless Service.
const HOSTS: usize = 5;
/// Selects the members of federated Services, in both clusters.
const SELECTOR: &str = "--federated-service-selector=mirror.linkerd.io/federated=soak";

/// A Service of the target cluster: the index of the Link that mirrors it, if any, whether it uses remote discovery,
/// and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exported {
    to: Option<(usize, bool)>,
    port: u16,
}

impl Exported {
    /// The value of the label.
    fn label(self) -> Option<String> {
        let (link, direct) = self.to?;
        let direct = if direct { "-direct" } else { "" };
        Some(format!("{}{direct}", LINKS[link]))
    }
}

/// The clusters, and the current state of all objects.
pub(super) struct Scene {
    /// Proxies that can disturb connections: one to the target cluster for each Link, and one to the controller's own
    /// cluster.
    pub(super) lines: [FaultProxy; LINKS.len() + 1],
    pub(super) controller: Controller,
    gateways: Gateways,
    printed: Vec<Vec<Value>>,
    exported: BTreeMap<String, Exported>,
    hosts: BTreeSet<usize>,
    /// Whether `guest` is a member in the target cluster, and in the source cluster.
    guests: [bool; 2],
    // After the controller: fields are dropped in this order.
    pub(super) source: Lent,
    far: Lent,
}

impl Scene {
    /// Starts the clusters and a controller. Each Link except for [`FLAPS`] has one Service that stays exported. The
    /// first Link also has a headless Service. All other exported Services come later.
    pub(super) async fn set() -> Self {
        let (source, far) = tokio::join!(
            installed("soak-source", "192.0.2.60"),
            installed("soak-far", "192.0.2.61")
        );
        namespace(NAMESPACE, &[&source, &far]).await;
        let lines = [&far, &far, &far, &source].map(|plane| plane.fault_proxy().unwrap());
        let printed = LINKS.iter().zip(&lines).map(|(link, line)| {
            let address = format!("--api-server-address={}", line.url());
            let flags = [&*address, SELECTOR, "--enable-headless-services"];
            let mut printed = objects(&far, link, &flags);
            printed[2]["spec"]["probeSpec"] = json!({
                "path": format!("/{link}"), "port": "4191", "period": "1s", "timeout": "1s", "failureThreshold": "2",
            });
            printed
        });
        let printed = printed.collect();
        let gateways = Gateways::start();
        let flags = ["--probe-address", &gateways.address(), SELECTOR];
        let controller = Controller::start_through(&source, &lines[LINKS.len()].url(), &flags);
        let mut scene = Self {
            source,
            far,
            lines,
            controller,
            gateways,
            printed,
            exported: BTreeMap::new(),
            hosts: BTreeSet::from([0]),
            guests: [false; 2],
        };
        for link in 0..LINKS.len() {
            scene.link(link).await;
            if link != FLAPS {
                scene.create(&format!("pillar-{link}"), Some((link, link == 1)), 80);
            }
        }
        for (name, exported) in scene.exported.clone() {
            scene.make(&name, exported).await;
        }
        stateful(&scene.far, NAMESPACE, "db", LINKS[0]).await;
        scene.write_hosts().await;
        for plane in [&scene.source, &scene.far] {
            for (name, federated) in [("member", "soak"), ("guest", "no")] {
                export(plane, NAMESPACE, &member(name, federated, "no")).await;
            }
        }
        scene
    }

    /// Whether the mirror or federated Service with this name must exist all the time.
    pub(super) fn stays(name: &str) -> bool {
        name.starts_with("pillar-") || name == "db-one" || name == "member-federated"
    }

    /// Members that `member-federated` must have all the time.
    pub(super) fn stay() -> impl Iterator<Item = String> {
        let links = LINKS.iter().enumerate().filter(|(link, _)| *link != FLAPS);
        links.map(|(_, link)| format!("member@{link}"))
    }

    fn create(&mut self, name: &str, to: Option<(usize, bool)>, port: u16) {
        self.exported.insert(name.to_owned(), Exported { to, port });
    }

    async fn make(&self, name: &str, exported: Exported) {
        let mut service = web(name, &exported.label().unwrap_or_else(|| "no".into()));
        let spec = service.spec.as_mut().unwrap();
        let ports = spec.ports.get_or_insert_default();
        ports.truncate(1);
        ports[0].port = exported.port.into();
        export(&self.far, NAMESPACE, &service).await;
    }

    async fn write_hosts(&self) {
        let names: Vec<String> = self.hosts.iter().map(|n| format!("db-{n}")).collect();
        let ready: Vec<(&str, bool)> = names.iter().map(|name| (&**name, true)).collect();
        hosts(&self.far, NAMESPACE, "db", &ready).await;
    }

    /// A random Service that exists. If `moves` is set, one whose export may change.
    fn any(&self, random: &mut Rng, moves: bool) -> Option<String> {
        let names = self.exported.keys();
        let names: Vec<&String> = names
            .filter(|name| !moves || name.starts_with("svc-"))
            .collect();
        random.choice(names).cloned()
    }

    /// Changes a port.
    pub(super) async fn edit(&mut self, random: &mut Rng) {
        let Some(name) = self.any(random, false) else {
            return;
        };
        let port = random.u16(1000..30_000);
        self.exported
            .entry(name.clone())
            .and_modify(|e| e.port = port);
        let ports = json!([{ "name": "http", "port": port, "targetPort": 8080 }]);
        patch(
            &self.far,
            NAMESPACE,
            &name,
            json!({ "spec": { "ports": ports } }),
        )
        .await;
    }

    /// Changes the mode or the Link of an exported Service, or withdraws it.
    pub(super) async fn move_export(&mut self, random: &mut Rng) {
        let Some(name) = self.any(random, true) else {
            return;
        };
        let to = (random.u8(..4) > 0).then(|| (random.usize(..LINKS.len()), random.bool()));
        let exported = self.exported.get_mut(&name).unwrap();
        exported.to = to;
        let labels = json!({ "metadata": { "labels": { l::EXPORTED: exported.label() } } });
        patch(&self.far, NAMESPACE, &name, labels).await;
        endpoints(&self.far, NAMESPACE, &name, 1).await;
    }

    /// Deletes or creates a Service.
    pub(super) async fn delete_or_create(&mut self, random: &mut Rng) {
        let name = format!("svc-{}", random.usize(..SERVICES));
        if self.exported.remove(&name).is_some() {
            delete(&self.far, NAMESPACE, &name).await;
            return;
        }
        self.create(
            &name,
            Some((random.usize(..LINKS.len()), random.bool())),
            80,
        );
        self.make(&name, self.exported[&name]).await;
    }

    /// Sets how many endpoints of a Service are ready: none, one or two.
    pub(super) async fn change_endpoints(&mut self, random: &mut Rng) {
        if let Some(name) = self.any(random, false) {
            endpoints(&self.far, NAMESPACE, &name, random.usize(..3)).await;
        }
    }

    /// Adds or removes a host of the headless Service. One stays.
    pub(super) async fn scale(&mut self, random: &mut Rng) {
        let host = random.usize(1..HOSTS);
        if !self.hosts.remove(&host) {
            self.hosts.insert(host);
        }
        self.write_hosts().await;
    }

    /// Adds or removes a member of a federated Service, in the target or the source cluster.
    pub(super) async fn join_or_leave(&mut self, random: &mut Rng) {
        let place = random.usize(..2);
        self.guests[place] ^= true;
        let federated = if self.guests[place] { "soak" } else { "no" };
        let plane = [&self.far, &self.source][place];
        regroup(plane, NAMESPACE, "guest", Some(federated)).await;
    }

    /// Changes or deletes a mirror, if it exists.
    pub(super) async fn meddle(&mut self, random: &mut Rng) {
        let Some(name) = self.any(random, false) else {
            return;
        };
        let Some((link, _)) = self.exported[&name].to else {
            return;
        };
        let (mirror, api) = (
            format!("{name}-{}", LINKS[link]),
            services(&self.source, NAMESPACE),
        );
        let done = if random.bool() && !Self::stays(&mirror) {
            api.delete(&mirror, &DeleteParams::default())
                .await
                .map(|_| ())
        } else {
            let evil = json!({ "spec": { "selector": { "app": "evil" } }, "metadata": { "labels": { "evil": "1" } } });
            let evil = Patch::Merge(evil);
            let patched = api.patch(&mirror, &PatchParams::default(), &evil).await;
            patched.map(|_| ())
        };
        assert!(
            !matches!(&done, Err(error) if !matches!(error, kube::Error::Api(status) if status.code == 404)),
            "{done:?}"
        );
    }

    pub(super) async fn link(&self, link: usize) {
        apply(&self.source, &self.printed[link]).await;
    }

    pub(super) async fn unlink(&self, link: usize) {
        unlink(&self.source, LINKS[link]).await;
    }

    pub(super) fn kill(&self, link: usize) {
        self.gateways.kill(&format!("/{}", LINKS[link]));
    }

    pub(super) fn revive(&self, link: usize) {
        self.gateways.revive(&format!("/{}", LINKS[link]));
    }

    /// The expected mirrors, and their modes.
    fn expected(&self) -> BTreeMap<String, String> {
        let mut expected = BTreeMap::new();
        for (name, exported) in &self.exported {
            if let Some((link, direct)) = exported.to {
                let how = format!("http:{}, direct: {direct}", exported.port);
                expected.insert(format!("{name}-{}", LINKS[link]), how);
            }
        }
        expected.insert("db-one".into(), "headless".into());
        for host in &self.hosts {
            expected.insert(format!("db-{host}-one"), "headless".into());
        }
        for (name, [there, here]) in [("member", [true; 2]), ("guest", self.guests)] {
            let all: BTreeSet<String> = LINKS.map(|link| format!("{name}@{link}")).into();
            let remote = if there { all } else { BTreeSet::new() };
            let local = if here { name } else { "" };
            if here || there {
                expected.insert(
                    format!("{name}-federated"),
                    format!("{remote:?} and {local:?}"),
                );
            }
        }
        expected
    }

    /// The existing mirrors, in the form of [`Self::expected`].
    async fn actual(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let ours = ListParams::default().labels(&format!("{}=true", l::MIRRORED_SERVICE));
        let list = services(&self.source, NAMESPACE).list(&ours).await?;
        let say = |service: Service| {
            let name = service.metadata.name.clone().unwrap_or_default();
            let how = if name.ends_with("-federated") {
                let remote = annotation(&service, l::REMOTE_DISCOVERY).unwrap_or_default();
                let remote: BTreeSet<&str> = remote.split(',').filter(|m| !m.is_empty()).collect();
                let local = annotation(&service, l::LOCAL_DISCOVERY).unwrap_or_default();
                format!("{remote:?} and {local:?}")
            } else if name.starts_with("db-") {
                "headless".to_owned()
            } else {
                let ports: Vec<String> = ports(&service)
                    .iter()
                    .map(|(n, p)| format!("{n}:{p}"))
                    .collect();
                let direct = label(&service, l::REMOTE_DISCOVERY).is_some();
                format!("{}, direct: {direct}", ports.join(" "))
            };
            (name, how)
        };
        Ok(list.items.into_iter().map(say).collect())
    }

    /// Waits until all mirrors are as recorded here, and as `plan` computes them.
    pub(super) async fn settle(&self) {
        let expected = self.expected();
        let settled = eventually("all to be in step", 2 * SOON, async || {
            let actual = self.actual().await?;
            let wrong = |(name, how): &(&String, &String)| {
                expected.get(*name) != actual.get(*name) && !how.is_empty()
            };
            let wrong: Vec<_> = expected.iter().chain(&actual).filter(wrong).collect();
            anyhow::ensure!(wrong.is_empty(), "these are not alike: {wrong:?}");
            for link in LINKS {
                let plan = run(self.source.kubeconfig(), &["plan", link, SELECTOR]);
                anyhow::ensure!(plan.code == 0, "plan {link}: {plan:?}");
            }
            Ok(Some(()))
        });
        settled.await.unwrap_or_else(|error| {
            panic!("{error:#}");
        });
        for link in LINKS {
            condition_is(&self.source, link, "Ready", "True", "Mirroring").await;
        }
    }
}
