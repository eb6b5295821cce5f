//! How many requests commands send, with many Links and mirrors. The table in docs/performance.md has a formula for each
//! kind of object, which the test compares with the audit logs of the control planes. No controller runs.

use std::{collections::BTreeMap, path::PathBuf, time::Instant};

use control_plane::{AuditEvent, ControlPlane};
use futures::{StreamExt as _, stream};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use linkerd_mc::api::{k8s::EndpointSlice, link::Link, wire::Wire};
use serde_json::{Value, json};

use crate::support::{
    audit::{mark, requests},
    installation::NAMESPACE,
    links::objects,
    objects::{apply, namespace},
    planes::alone,
    program::run,
};

const GUIDE: &str = include_str!("../../docs/performance.md");
/// The user whose requests are counted.
const USER: &str = "observer";
/// The namespace of the mirrors.
const SHOP: &str = "shop";
/// Objects that are created at once.
const AT_ONCE: usize = 32;

/// The numbers in the formulas of the table.
#[derive(Clone, Copy)]
struct Sizes {
    links: usize,
    /// With the federated Service.
    mirrors: usize,
    /// All EndpointSlices of the source cluster.
    slices: usize,
}

impl Sizes {
    /// The value of a formula such as `2 + L + ⌈M/500⌉`.
    fn value(self, formula: &str) -> usize {
        formula.split(" + ").map(|term| self.term(term)).sum()
    }

    fn term(self, term: &str) -> usize {
        let digits = term.find(|c: char| !c.is_ascii_digit());
        let (times, name) = term.split_at(digits.unwrap_or(term.len()));
        let times = if times.is_empty() {
            1
        } else {
            times.parse().unwrap()
        };
        let pages = |objects: usize| objects.div_ceil(500).max(1);
        times
            * match name {
                "" => 1,
                "L" => self.links,
                // The credentials Secrets.
                "N" => self.links.min(8),
                "C" if self.links <= 32 => self.links,
                "C" | "⌈L/500⌉" => pages(self.links),
                "⌈M/500⌉" => pages(self.mirrors),
                "⌈(L+M)/500⌉" => pages(self.links + self.mirrors),
                "⌈E/500⌉" => pages(self.slices),
                name => panic!("unknown term {name}"),
            }
    }
}

/// A command of the table, and the formulas of its row.
struct Row {
    args: Vec<&'static str>,
    /// For Links, Services, EndpointSlices, Secrets and others; then for each target cluster.
    formulas: Vec<&'static str>,
    /// The sum for the source cluster, with 500 Links and 10,000 mirrors.
    sum: usize,
}

/// The kinds in the columns of the table. Others are counted together.
const KINDS: [&str; 4] = ["links", "services", "endpointslices", "secrets"];

fn rows() -> Vec<Row> {
    let table = GUIDE.split("## Requests of commands").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [command, formulas @ .., sum] = cells.as_slice() else {
            panic!("{line}");
        };
        assert_eq!(formulas.len(), KINDS.len() + 2, "{line}");
        Row {
            args: command.trim_matches('`').split(' ').collect(),
            formulas: formulas.to_vec(),
            sum: sum.replace(',', "").parse().unwrap(),
        }
    });
    rows.collect()
}

/// The clusters, with the objects that a controller would have written.
struct Scene<'a> {
    source: &'a ControlPlane,
    far: &'a ControlPlane,
    kubeconfig: PathBuf,
    sizes: Sizes,
}

impl<'a> Scene<'a> {
    async fn set(
        source: &'a ControlPlane,
        far: &'a ControlPlane,
        links: usize,
        mirrors: usize,
    ) -> Self {
        namespace(SHOP, &[source, far]).await;
        let pattern = serde_json::to_string(&objects(far, "pattern", &[])).unwrap();
        let numbers: Vec<usize> = (0..links).collect();
        for_each(source, &numbers, |number| {
            serde_json::from_str(&pattern.replace("pattern", &cluster(number))).unwrap()
        })
        .await;
        let api = Api::<Link>::namespaced(source.client(), NAMESPACE);
        let status = stream::iter(0..links).map(async |number| {
            let (name, params) = (cluster(number), PatchParams::default());
            api.patch_status(&name, &params, &Patch::Merge(status()))
                .await
                .unwrap();
        });
        status.buffer_unordered(AT_ONCE).collect::<()>().await;
        for_each(source, &numbers, |number| {
            let of = &cluster(number);
            let labels = json!({ "mirror.linkerd.io/mirrored-gateway": "true", "mirror.linkerd.io/cluster-name": of });
            pair(NAMESPACE, &format!("probe-{of}"), &labels, &json!({}))
        })
        .await;
        // The federated Service is one of the mirrors.
        let members: Vec<String> = (0..links)
            .map(|number| format!("all@{}", cluster(number)))
            .collect();
        let members = json!({ "multicluster.linkerd.io/remote-discovery": members.join(",") });
        let mirrored = json!({ "mirror.linkerd.io/mirrored-service": "true" });
        apply(
            source,
            &[service(SHOP, "all-federated", &mirrored, &members)],
        )
        .await;
        let numbers: Vec<usize> = (0..mirrors - 1).collect();
        for_each(source, &numbers, |number| {
            let of = &cluster(number % links);
            let labels = json!({ "mirror.linkerd.io/mirrored-service": "true", "mirror.linkerd.io/cluster-name": of });
            let fq_name = json!({ "mirror.linkerd.io/remote-svc-fq-name": format!("web-{number}.shop.svc.cluster.local") });
            pair(SHOP, &format!("web-{number}-{of}"), &labels, &fq_name)
        })
        .await;
        let all: Api<Wire<EndpointSlice>> = Api::all(source.client());
        let slices = all
            .list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
            .len();
        Self {
            source,
            far,
            kubeconfig: source.user_kubeconfig(USER, &["system:masters"]).unwrap(),
            sizes: Sizes {
                links,
                mirrors,
                slices,
            },
        }
    }

    /// The requests of one run, by verb and kind, and how many the target clusters got.
    fn count(&self, args: &[&str]) -> Counted {
        let (here, there) = (mark(self.source), mark(self.far));
        let start = Instant::now();
        let outcome = run(&self.kubeconfig, args);
        let took = start.elapsed();
        let mut counted = Counted::default();
        for event in seen(self.source, here, |event| event.user == USER) {
            let resource = [event.resource.as_str(), &event.subresource].join("/");
            let name = match resource.trim_end_matches('/') {
                "" => event.uri.clone(),
                name => name.to_owned(),
            };
            *counted
                .here
                .entry(format!("{} {name}", event.verb))
                .or_default() += 1;
        }
        counted.there = seen(self.far, there, |event| {
            event.user.contains("remote-access")
        })
        .len();
        let sum: usize = counted.here.values().sum();
        eprintln!(
            "{}: {sum} requests, {} in target clusters, {:.1} s, exit code {}",
            args.join(" "),
            counted.there,
            took.as_secs_f64(),
            outcome.code,
        );
        assert!(sum > 0, "{}", outcome.stderr);
        counted
    }
}

/// The requests of a run: by verb and kind to the source cluster, and all to target clusters.
#[derive(Default, Debug)]
struct Counted {
    here: BTreeMap<String, usize>,
    there: usize,
}

impl Counted {
    /// The requests for each of [`KINDS`], for others, and to target clusters.
    fn by_column(&self) -> Vec<usize> {
        let kind = |what: &str| what.split(' ').nth(1).unwrap_or_default().to_owned();
        let of = |is: &dyn Fn(&str) -> bool| {
            let found = self.here.iter().filter(|(what, _)| is(&kind(what)));
            found.map(|(_, count)| count).sum()
        };
        let mut all: Vec<usize> = KINDS
            .iter()
            .map(|known| of(&|kind| kind == *known))
            .collect();
        all.push(of(&|kind| !KINDS.contains(&kind)));
        all.push(self.there);
        all
    }
}

/// The requests since a mark, each once.
fn seen(plane: &ControlPlane, since: u64, is: impl Fn(&AuditEvent) -> bool) -> Vec<AuditEvent> {
    let mut events = requests(plane, since);
    events.retain(|event| is(event) && (event.verb != "watch" || event.stage == "ResponseStarted"));
    events
}

fn cluster(number: usize) -> String {
    format!("c{number}")
}

/// The status of a Link whose gateway is dead: `check --wait` waits for it.
fn status() -> Value {
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "status": status, "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({ "status": {
        "conditions": [
            condition("Ready", "True"), condition("Connected", "True"), condition("CredentialsValid", "True"),
            condition("GatewayAlive", "False"),
        ],
        "gateway": { "alive": false, "addresses": ["192.0.2.10"], "since": "2026-01-01T00:00:00Z" },
        "mirrored": 1, "federated": 1, "unhealthy": 0,
    } })
}

fn service(namespace: &str, name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace, "labels": labels, "annotations": annotations },
        "spec": { "ports": [{ "port": 80 }] },
    })
}

/// A Service and its slice.
fn pair(namespace: &str, name: &str, labels: &Value, annotations: &Value) -> Vec<Value> {
    let mut of_slice = labels.clone();
    of_slice["kubernetes.io/service-name"] = name.into();
    of_slice["endpointslice.kubernetes.io/managed-by"] = "linkerd-mc".into();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{name}-ipv4"), "namespace": namespace, "labels": of_slice },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.10"], "conditions": { "ready": true } }],
        "ports": [{ "name": "", "port": 4143 }],
    });
    vec![service(namespace, name, labels, annotations), slice]
}

/// Creates the objects for each number.
async fn for_each(plane: &ControlPlane, numbers: &[usize], of: impl Fn(usize) -> Vec<Value>) {
    let created = stream::iter(numbers).map(async |number| apply(plane, &of(*number)).await);
    created.buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Runs the commands of the table, and compares each column with its formula.
async fn requests_are_those_of_the_table(links: usize, mirrors: usize) {
    let alone = alone().await;
    let scene = Scene::set(&alone.source, &alone.far, links, mirrors).await;
    let mut wrong = Vec::new();
    let mut first = Counted::default();
    for row in rows() {
        let counted = scene.count(&row.args);
        let mut found = counted.by_column();
        if row.args.contains(&"--wait") {
            // The row is about each repeat, and the row before it about the first round.
            let repeats = counted.here["get /version"] - 1;
            let first = first.by_column();
            found = found
                .iter()
                .zip(first)
                .map(|(all, first)| (all - first) / repeats)
                .collect();
        }
        let expected: Vec<usize> = row
            .formulas
            .iter()
            .map(|formula| scene.sizes.value(formula))
            .collect();
        if found != expected {
            wrong.push(format!(
                "{}: {found:?}, and not {expected:?}: {counted:#?}",
                row.args.join(" ")
            ));
        }
        first = counted;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn commands_send_the_requests_of_the_table() {
    requests_are_those_of_the_table(3, 600).await;
}

/// Says also how long the commands take. One less of each, so that no list ends with a full page: the API server would not
/// know yet that it was the last.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just requests"]
async fn commands_with_500_links_and_10_000_mirrors_take_minutes() {
    requests_are_those_of_the_table(499, 9_999).await;
}

#[test]
fn sums_of_the_table_are_those_of_its_formulas() {
    let sizes = Sizes {
        links: 500,
        mirrors: 10_000,
        slices: 10_500,
    };
    for row in rows() {
        let here = &row.formulas[..=KINDS.len()];
        let sum: usize = here.iter().map(|formula| sizes.value(formula)).sum();
        assert_eq!(sum, row.sum, "{}", row.args.join(" "));
    }
}
