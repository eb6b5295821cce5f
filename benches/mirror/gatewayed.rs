//! Federated Services that reach other clusters through gateways. Measures their first sync, and how long it takes to
//! make the endpoints of a dead gateway unready.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use linkerd_mc::api::{
    k8s::{Endpoint, EndpointSlice, Service},
    labels as l,
    wire::Wire,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{
    limit::{
        Work,
        gatewayed::{Size, measure},
    },
    objects::{all, create, delete, namespace, paged, service},
    scenarios::{Bench, SLICES, settled},
};

/// The largest number of gateways: they have the addresses 192.0.2.101 to 192.0.2.250.
const GATEWAYS: usize = 150;
/// How long to wait before writes are counted, so that needless writes after the last expected one count too.
const QUIET: Duration = Duration::from_secs(3);

impl Bench {
    /// Federated Services that have local Pods and a member behind the gateway of each Link.
    pub async fn gatewayed(&mut self) {
        let size = Size {
            services: self.args.services,
            gateways: self.args.links,
        };
        assert!(size.gateways <= GATEWAYS, "more than {GATEWAYS} Links");
        self.stop();
        self.join(size).await;
        self.gatewayed_limits(size).await;
        let links: Vec<String> = (0..size.gateways).map(|i| self.gatewayed_link(i)).collect();
        self.apply(&links.join("\n")).await;
        self.writes();
        self.first_sync(size).await;
        self.gateway_dies(size).await;
        self.leave(size).await;
        self.unlink().await;
        self.stop();
        self.gatewayed_limits(size).await;
        self.remove_members(size).await;
    }

    async fn gatewayed_limits(&mut self, size: Size) {
        for writer in self.args.limits.clone() {
            let limit = measure(&self.west, size, writer).await;
            self.report.limit(writer, limit);
        }
    }

    /// Creates members in both clusters, and waits until Kubernetes has created its own slices for them.
    async fn join(&self, size: Size) {
        for client in [&self.remote, &self.local] {
            all((0..size.services).map(|index| {
                let labels = json!({ l::FEDERATED: "member" });
                let member = service(&namespace("bench", index), &member(index), labels);
                create(client.clone(), member)
            }))
            .await;
        }
        settled(&self.remote, self.args.services + size.services).await;
        settled(&self.local, size.services).await;
    }

    /// The objects of a Link, as JSON. Each Link has its own gateway address and probe path, so that a single gateway
    /// can die.
    fn gatewayed_link(&self, index: usize) -> String {
        let name = link(index);
        let address = format!("--gateway-addresses=192.0.2.{}", 101 + index);
        let flags = [
            "--selector=mirror.linkerd.io/exported=nothing",
            "--federated-through=gateway",
            &address,
            "--output=json",
        ];
        let printed = self.link_yaml(&name, self.east.url(), &flags);
        let mut objects: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for object in &mut objects {
            if object["kind"] == "Link" {
                object["spec"]["probeSpec"]["path"] = json!(probe(index));
            }
        }
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        texts.join("\n")
    }

    /// Measures from the start of the controller to the last slice. The Links exist before the start.
    async fn first_sync(&mut self, size: Size) {
        let slices = size.services * (size.gateways + 1);
        let started = Instant::now();
        self.controller();
        let took = loop {
            self.metric_is(SLICES, |known| known >= slices).await;
            let took = started.elapsed();
            if spans_all(&self.local, size).await {
                break took;
            }
            assert!(took < Duration::from_secs(600), "it takes too long");
        };
        tokio::time::sleep(QUIET).await;
        let scenario = format!("gatewayed, {} Links", size.gateways);
        let mut row = self.row(&scenario, Some(took), Some(Work::Gatewayed));
        row.objects = size.services + slices;
        // Each Link has a probe Service with a slice.
        let needed = row.objects + 2 * size.gateways;
        row.note = format!(
            "{} Services, {slices} slices; {needed} writes needed",
            size.services
        );
        self.report.add(row);
    }

    /// Measures from the time when the controller reports a gateway as dead until all slices of the gateway are
    /// unready.
    async fn gateway_dies(&mut self, size: Size) {
        let (listed, is_listed) = oneshot::channel();
        let seen = tokio::spawn(unready(self.local.clone(), size.services, listed));
        is_listed.await.unwrap();
        self.writes();
        let killed = Instant::now();
        self.gateways.kill(&probe(0));
        let series = format!("gateway_alive{{target_cluster_name=\"{}\"}}", link(0));
        self.metric_is(&series, |alive| alive == 0).await;
        let noticed = Instant::now();
        let limit = Duration::from_secs(600);
        let (first, last) = tokio::time::timeout(limit, seen).await.unwrap().unwrap();
        // The metric is read every 50 ms, so the watch may show an unready slice before the metric is 0.
        let dead = noticed.min(first);
        tokio::time::sleep(QUIET).await;
        let took = Some(last - dead);
        let mut row = self.row("a gateway dies", took, Some(Work::Unready));
        row.objects = size.services;
        row.note = format!(
            "{:.2} s from the first slice to the last; taken for dead {:.1} s after its death",
            (last - first).as_secs_f64(),
            (dead - killed).as_secs_f64()
        );
        self.report.add(row);
    }

    /// Removes the label of the local members. Without local members and without Links, no federated Service is left.
    async fn leave(&self, size: Size) {
        all((0..size.services).map(async |index| {
            let services: Api<Wire<Service>> =
                Api::namespaced(self.local.clone(), &namespace("bench", index));
            let patch = Patch::Merge(json!({ "metadata": { "labels": { l::FEDERATED: null } } }));
            services
                .patch(&member(index), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }))
        .await;
    }

    async fn remove_members(&self, size: Size) {
        for client in [&self.remote, &self.local] {
            all((0..size.services).map(|index| {
                let slice = format!("{}-bench", member(index));
                delete(
                    client.clone(),
                    namespace("bench", index),
                    member(index),
                    slice,
                )
            }))
            .await;
        }
    }
}

/// Name of a member, in each cluster.
fn member(index: usize) -> String {
    format!("span-{index}")
}

fn link(index: usize) -> String {
    format!("g{index:03}")
}

/// Path of the probe of a Link's gateway. The stand-in for the gateways tells them apart by it.
fn probe(index: usize) -> String {
    format!("/{}", link(index))
}

/// Whether all federated Services have all members, and all their slices have a ready endpoint.
async fn spans_all(local: &Client, size: Size) -> bool {
    let ours = ListParams::default().labels("mirror.linkerd.io/mirrored-service=true");
    let services: Api<Wire<Service>> = Api::all(local.clone());
    let services = paged(&ours, async |page| services.list(&page).await).await;
    let is_whole = |service: &&Wire<Service>| {
        let annotations = &service.object.metadata.annotations;
        let members = annotations.get(l::MEMBERS).unwrap_or_default();
        annotations.contains_key(l::LOCAL_MEMBER) && members.split(',').count() == size.gateways
    };
    let slices: Api<Wire<EndpointSlice>> = Api::all(local.clone());
    let slices = paged(&ours, async |page| slices.list(&page).await).await;
    let is_ready = |slice: &&Wire<EndpointSlice>| is_ready(&slice.object);
    services.iter().filter(is_whole).count() == size.services
        && slices.iter().filter(is_ready).count() == size.services * (size.gateways + 1)
}

fn is_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(Endpoint::is_ready)
}

/// Watches the slices of the first gateway until `count` of them are unready. Returns when the first and the last of
/// them became unready. Sends to `listed` when the first list is complete, because the watch shows every change after
/// it.
async fn unready(local: Client, count: usize, listed: oneshot::Sender<()>) -> (Instant, Instant) {
    let slices: Api<Wire<EndpointSlice>> = Api::all(local);
    let of_gateway = format!("{}={}", l::CLUSTER_NAME, link(0));
    let config = watcher::Config::default().labels(&of_gateway);
    let mut events = std::pin::pin!(watcher(slices, config).default_backoff());
    let (mut listed, mut first) = (Some(listed), None);
    let mut names = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitDone) => {
                let _ = listed.take().map(|listed| listed.send(()));
            }
            Ok(watcher::Event::Apply(slice)) if !is_ready(&slice.object) => {
                let now = Instant::now();
                let first = *first.get_or_insert(now);
                let metadata = &slice.object.metadata;
                names.insert((metadata.namespace().to_owned(), metadata.name().to_string()));
                if names.len() == count {
                    return (first, now);
                }
            }
            _ => {}
        }
    }
    panic!("the watch has ended")
}
