//! Scenarios with large numbers: many Services that are not exported, many Links, and federated Services with many
//! members.

use std::time::{Duration, Instant};

use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use linkerd_mc::api::link::{Link, LinkStatus};
use serde_json::json;

use crate::{
    churn::{Subject, churn},
    counted::Counted,
    limit::Work,
    objects::{all, count, create, namespace, service},
    process::{cost, sockets},
    scenarios::{Bench, SLICES, settled},
    support::{installation::NAMESPACE, program::run},
};

/// Exported Services of `noise`.
const HEARD: usize = 100;
/// Exported Services of each Link of `links`.
const EACH: usize = 20;
/// Federated Services, and members of each, of `federated`.
const FEDERATED: usize = 500;
const MEMBERS: usize = 20;

impl Bench {
    /// Time, memory and bytes for [`HEARD`] exported Services. First the target cluster has only the Services of
    /// `--services` besides them, which this Link does not select. Then it also has those of `--noise`.
    pub async fn noise(&mut self) {
        self.export(
            "heard",
            HEARD,
            json!({ "mirror.linkerd.io/exported": "heard" }),
        )
        .await;
        let way = Counted::start(self.east.url(), Duration::ZERO).await;
        let flags = ["--selector=mirror.linkerd.io/exported=heard"];
        let yaml = self.link_yaml("heard", &way.url(), &flags);
        for noise in [0, self.args.noise] {
            self.others(noise).await;
            self.stop();
            self.writes();
            let before = way.received();
            let started = Instant::now();
            self.controller();
            self.apply(&yaml).await;
            self.mirrored(HEARD).await;
            let took = started.elapsed();
            let bytes = (way.received() - before) / 1024;
            let mut row = self.row(&format!("noise {noise}"), Some(took), None);
            row.objects = HEARD;
            row.note = format!("{bytes} KiB came from the target cluster");
            self.report.add(row);
            self.unlink().await;
        }
    }

    /// Many Links; with as many `--services` as they have together, their first sync is compared with the limit. Then
    /// changes of the Services of one of them: first beside these Links alone, and then also beside a Link to a dead and
    /// one to a slow target cluster.
    pub async fn links(&mut self) {
        let count = self.args.links;
        let name = |index: usize| format!("l{index:03}");
        for index in 0..count {
            let link = name(index);
            let labels = json!({ "mirror.linkerd.io/exported": link });
            self.export(&link, EACH, labels).await;
        }
        let mut yaml = String::new();
        let url = self.east.url().to_owned();
        for index in 0..count {
            let selector = format!("--selector=mirror.linkerd.io/exported={}", name(index));
            yaml.push_str(&self.link_yaml(&name(index), &url, &[&selector]));
            yaml.push_str("---\n");
        }
        self.stop();
        self.writes();
        let idle = cost(self.controller().pid());
        let mirrors = count * EACH;
        let started = Instant::now();
        self.apply(&yaml).await;
        // Lists of hundreds of Links would slow down what is measured.
        self.metric_is(SLICES, |slices| slices >= mirrors).await;
        self.ready(count).await;
        let took = started.elapsed();
        self.mirrored(mirrors).await;
        let sockets = sockets(self.controller().pid());
        let tasks = self.controller().metric("linkerd_mc_tasks").await;
        let tasks: usize = tasks.unwrap().unwrap();
        let limit = (self.args.services == mirrors).then_some(Work::Create);
        let mut row = self.row(&format!("{count} Links"), Some(took), limit);
        row.objects = mirrors;
        row.note = format!(
            "all Ready; {sockets} sockets; {tasks} tasks; {:.1} MiB before the first Link",
            idle.rss
        );
        self.report.add(row);
        self.rest(mirrors).await;

        let first = name(0);
        let subjects: Vec<Subject> = (0..EACH)
            .map(|index| Subject {
                namespace: namespace("bench", index),
                name: format!("{first}-{index}"),
                mirror: format!("{first}-{index}-{first}"),
            })
            .collect();
        let time = Duration::from_secs(self.args.seconds);
        let slow = Counted::start(self.east.url(), Duration::from_secs(1)).await;
        for troubled in [false, true] {
            if troubled {
                // Nobody listens on port 9. The proxy of the slow Link delays each chunk of a response by a second.
                for (name, url) in [("dead", "https://127.0.0.1:9"), ("slow", &slow.url())] {
                    let selector = "--selector=mirror.linkerd.io/exported=l001";
                    let yaml = self.link_yaml(name, url, &[selector]);
                    self.apply(&yaml).await;
                }
            }
            self.writes();
            let outcome = churn(&self.remote, &self.local, &subjects, time).await;
            let others = if troubled { "with" } else { "without" };
            let mut row = self.row(
                &format!("churn {others} a dead and a slow Link"),
                None,
                None,
            );
            row.objects = subjects.len();
            row.note = outcome.to_string();
            self.report.add(row);
        }
        self.unlink().await;
    }

    pub async fn federated(&mut self) {
        let labels = json!({ "mirror.linkerd.io/federated": "bench" });
        self.export("fed", FEDERATED, labels).await;
        let url = self.east.url().to_owned();
        let mut yaml = String::new();
        for index in 0..MEMBERS {
            let flags = [
                "--selector=mirror.linkerd.io/exported=nothing",
                "--federated-service-selector=mirror.linkerd.io/federated=bench",
            ];
            yaml.push_str(&self.link_yaml(&format!("m{index:02}"), &url, &flags));
            yaml.push_str("---\n");
        }
        self.stop();
        self.writes();
        self.controller();
        let started = Instant::now();
        self.apply(&yaml).await;
        self.ready(MEMBERS).await;
        let took = started.elapsed();
        let links = Api::<Link>::namespaced(self.local.clone(), NAMESPACE);
        self.until("membership", async || {
            let all = links.list(&ListParams::default()).await.unwrap().items;
            let expected = i64::try_from(FEDERATED).ok();
            all.iter()
                .all(|link| link.status.as_ref().and_then(|s| s.federated) == expected)
        })
        .await;
        let mut row = self.row(&format!("federated, {MEMBERS} members"), Some(took), None);
        row.objects = FEDERATED;
        "all Links Ready".clone_into(&mut row.note);
        self.report.add(row);
        self.unlink().await;
    }

    /// Exports Services `<prefix>-0`, `<prefix>-1`, … of the target cluster.
    async fn export(&self, prefix: &str, count: usize, labels: serde_json::Value) {
        all((0..count).map(|index| {
            let name = format!("{prefix}-{index}");
            let service = service(&namespace("bench", index), &name, labels.clone());
            create(self.remote.clone(), service)
        }))
        .await;
    }

    /// Creates Services that are not exported, and waits until Kubernetes has created their slices. They are headless,
    /// because the allocation of a ClusterIP takes longer the more of them exist.
    async fn others(&self, count: usize) {
        all((0..count).map(|index| {
            let name = format!("noise-{index}");
            let mut service = service(&namespace("bench", index), &name, json!({}));
            service.spec.cluster_ip = Some("None".into());
            create(self.remote.clone(), service)
        }))
        .await;
        settled(&self.remote, self.args.services + HEARD + count).await;
    }

    pub fn link_yaml(&self, name: &str, url: &str, flags: &[&str]) -> String {
        let mut args = vec![
            "link-gen",
            "--cluster-name",
            name,
            "--api-server-address",
            url,
        ];
        args.extend(flags);
        let outcome = run(self.east.kubeconfig(), &args);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stdout
    }

    pub async fn apply(&self, yaml: &str) {
        let server_side = ["apply", "--server-side", "-f", "-"];
        self.west.kubectl_stdin(&server_side, yaml).await.unwrap();
    }

    /// Waits until `expected` Links are Ready.
    async fn ready(&self, expected: usize) {
        let links = Api::<Link>::namespaced(self.local.clone(), NAMESPACE);
        let is_ready = |status: &LinkStatus| {
            let mut conditions = status.conditions.iter();
            conditions.any(|c| c.type_ == "Ready" && c.status == "True")
        };
        self.until("readiness", async || {
            let all = links.list(&ListParams::default()).await.unwrap().items;
            let ready = all.iter().filter_map(|link| link.status.as_ref());
            ready.filter(|status| is_ready(status)).count() == expected
        })
        .await;
    }

    /// Deletes all Links, and waits until the controller has removed their mirrors.
    pub async fn unlink(&mut self) {
        let links = Api::<Link>::namespaced(self.local.clone(), NAMESPACE);
        let all = ListParams::default();
        links
            .delete_collection(&DeleteParams::default(), &all)
            .await
            .unwrap();
        self.until("removal", async || count(&self.local).await == (0, 0))
            .await;
    }
}
