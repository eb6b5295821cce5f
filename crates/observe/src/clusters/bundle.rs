//! What a colleague needs to look into a problem without access to the cluster: objects, logs and metrics, bounded in
//! number and size, and without secrets ([`redaction`]).

mod kinds;
pub mod redaction;

use std::collections::BTreeSet;

use client::{
    Cluster,
    requests::{list_some, within},
};
use futures::{StreamExt as _, stream};
use http::Request;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, LogParams},
};
use mirror_core::api::labels;
use serde_json::Value;

use self::{
    kinds::{BundledKind, KINDS, ListedIn},
    redaction::without_secrets,
};
use super::{
    request_path::Noted,
    snapshot::Known,
    workloads::{container_statuses, containers},
};
use crate::timeline::{Happened, history};

/// Requests that run concurrently.
const AT_ONCE: usize = 8;
/// Maximum number of objects of a kind.
const MOST_OBJECTS: usize = 2_000;
/// Maximum length of a log: lines, and bytes.
const LOG: (i64, i64) = (5_000, 2 << 20);
/// Name of the controller's port for metrics, and that of a proxy's.
const METRICS_PORTS: [&str; 2] = ["ctrl-admin", "linkerd-admin"];

/// One file of a bundle.
#[derive(Debug)]
pub struct BundleFile {
    /// Its path in the folder of the cluster, such as `logs/controller-1.log`.
    pub path: String,
    /// What it holds, in a few words.
    pub what: String,
    /// Its content, or why there is none.
    pub content: Known<BundleContent>,
}

/// The content of a file.
#[derive(Debug)]
pub enum BundleContent {
    /// Objects, and whether there are more of them than a bundle holds.
    Objects(Vec<Value>, bool),
    /// Text, as it is.
    Text(String),
}

/// Reads all files of a cluster, and what happened to the objects in them. `namespaces` are those of the extension and of the
/// Links, if they are known.
pub async fn files(
    cluster: &Cluster,
    namespaces: &Known<BTreeSet<String>>,
) -> (Vec<BundleFile>, Vec<Happened>) {
    let noted = Noted::default();
    let (listed, secrets) = futures::join!(
        lists(cluster, namespaces, &noted),
        secrets(cluster, namespaces.clone().unwrap_or_default(), &noted)
    );
    let pods = listed
        .iter()
        .filter(|(kind, _)| kind.plural == "pods")
        .filter_map(|(_, file)| match &file.content {
            Ok(BundleContent::Objects(pods, _)) => Some(pods),
            _ => None,
        });
    let pods = pods.flatten().cloned();
    let pods = pods.filter_map(|pod| serde_json::from_value(pod).ok());
    let of_pods = of_pods(cluster, pods.collect()).await;
    let mut files: Vec<_> = listed.into_iter().map(|(_, file)| file).collect();
    files.push(secrets);
    files.extend(of_pods);
    (files, noted.into_inner())
}

/// One file for each kind.
async fn lists(
    cluster: &Cluster,
    namespaces: &Known<BTreeSet<String>>,
    noted: &Noted,
) -> Vec<(&'static BundledKind, BundleFile)> {
    let lists = stream::iter(KINDS).map(async |kind| {
        let content = match (&kind.scope, namespaces) {
            (ListedIn::Installation, Err(why)) => Err(why.clone()),
            (_, namespaces) => {
                let namespaces = namespaces.iter().flatten().map(String::as_str);
                let list = list(cluster, kind, namespaces.collect(), noted);
                asked(cluster, list).await
            }
        };
        let file = BundleFile {
            path: format!("objects/{}.yaml", kind.file),
            what: kind.what.to_owned(),
            content: content.map(|(objects, cut)| BundleContent::Objects(objects, cut)),
        };
        (kind, file)
    });
    lists.buffered(AT_ONCE).collect().await
}

async fn list(
    cluster: &Cluster,
    kind: &BundledKind,
    namespaces: Vec<&str>,
    noted: &Noted,
) -> kube::Result<(Vec<Value>, bool)> {
    let resource = kind.resource();
    let client = || cluster.client.clone();
    let apis: Vec<Api<DynamicObject>> = match kind.scope {
        ListedIn::All => vec![Api::all_with(client(), &resource)],
        ListedIn::Linkerd => {
            let namespace = &cluster.linkerd_namespace;
            vec![Api::namespaced_with(client(), namespace, &resource)]
        }
        ListedIn::Installation => namespaces
            .into_iter()
            .map(|namespace| Api::namespaced_with(client(), namespace, &resource))
            .collect(),
    };
    let (mut objects, mut is_cut) = (Vec::new(), false);
    for api in apis {
        let which = ListParams {
            label_selector: kind.selector(),
            ..ListParams::default()
        };
        match list_some(&api, &which, MOST_OBJECTS).await {
            // The API server does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            found => {
                let (found, has_more) = found?;
                objects.extend(found);
                is_cut |= has_more;
            }
        }
    }
    is_cut |= objects.len() > MOST_OBJECTS;
    objects.truncate(MOST_OBJECTS);
    noted.borrow_mut().extend(kind.history(&objects));
    let objects = objects.into_iter().map(|object| kind.shown(object));
    Ok((objects.collect(), is_cut))
}

/// The credentials: names, labels and annotations. The API server sends nothing else of them.
async fn secrets(cluster: &Cluster, mut namespaces: BTreeSet<String>, noted: &Noted) -> BundleFile {
    namespaces.insert(cluster.linkerd_namespace.clone());
    let list = async {
        let of_links = ListParams::default().fields(&format!("type={}", labels::CREDENTIALS_TYPE));
        let mut found = Vec::new();
        for namespace in &namespaces {
            let api: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
            found.extend(api.list_metadata(&of_links).await?.items);
        }
        Ok(found)
    };
    let content = asked(cluster, list).await.map(|found| {
        let changes = found.iter().flat_map(|secret| history("Secret", secret));
        noted.borrow_mut().extend(changes);
        let found = found.iter().filter_map(|secret| {
            let metadata = serde_json::to_value(&secret.metadata).ok()?;
            let mut shown = serde_json::json!({ "kind": "Secret", "metadata": metadata });
            without_secrets(&mut shown);
            Some(shown)
        });
        BundleContent::Objects(found.collect(), false)
    });
    BundleFile {
        path: "objects/credentials.yaml".to_owned(),
        what: "credentials Secrets of Links and of Linkerd: metadata only".to_owned(),
        content,
    }
}

/// Logs and metrics.
async fn of_pods(cluster: &Cluster, pods: Vec<Pod>) -> Vec<BundleFile> {
    let reads = pods.iter().flat_map(|pod| {
        let logs = logs_of(pod).into_iter().map(PodRead::Log);
        let metrics = metrics_of(pod).into_iter().map(PodRead::Metrics);
        logs.chain(metrics).map(move |read| (pod, read))
    });
    let reads: Vec<_> = reads.collect();
    let files = stream::iter(reads).map(async |(pod, read)| match read {
        PodRead::Log(log) => read_log(cluster, pod, log).await,
        PodRead::Metrics(port) => read_metrics(cluster, pod, port).await,
    });
    files.buffered(AT_ONCE).collect().await
}

enum PodRead {
    Log(ContainerLog),
    Metrics(&'static str),
}

struct ContainerLog {
    container: String,
    /// Whether it is that of the container before its last restart.
    is_previous: bool,
}

/// The logs of all containers that have run, and those before their last restart.
fn logs_of(pod: &Pod) -> Vec<ContainerLog> {
    let logs = container_statuses(pod).flat_map(|status| {
        let log = |is_previous| ContainerLog {
            container: status.name.clone(),
            is_previous,
        };
        let previous = (status.restart_count > 0).then(|| log(true));
        [Some(log(false)), previous].into_iter().flatten()
    });
    logs.collect()
}

/// The ports for metrics of a running Pod.
fn metrics_of(pod: &Pod) -> Vec<&'static str> {
    let status = pod.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) != Some("Running") {
        return Vec::new();
    }
    let ports = containers(pod).flat_map(|container| container.ports.iter().flatten());
    let names: BTreeSet<&str> = ports.filter_map(|port| port.name.as_deref()).collect();
    let known = METRICS_PORTS.into_iter();
    known.filter(|port| names.contains(port)).collect()
}

async fn read_log(cluster: &Cluster, pod: &Pod, log: ContainerLog) -> BundleFile {
    let (namespace, name) = id(pod);
    let ContainerLog {
        container,
        is_previous,
    } = log;
    let (lines, bytes) = LOG;
    let parameters = LogParams {
        container: Some(container.clone()),
        previous: is_previous,
        tail_lines: Some(lines),
        limit_bytes: Some(bytes),
        timestamps: true,
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let text = asked(cluster, pods.logs(name, &parameters)).await;
    let before = if is_previous { "-before-restart" } else { "" };
    BundleFile {
        path: format!(
            "logs/{}.log",
            plain(&format!("{namespace}-{name}-{container}{before}"))
        ),
        what: format!("the last {lines} lines of container {container}"),
        content: text.map(BundleContent::Text),
    }
}

/// A name for a file. An API server may give its Pods names that would lead out of a folder, or control a terminal.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    plain.take(200).collect()
}

async fn read_metrics(cluster: &Cluster, pod: &Pod, port: &str) -> BundleFile {
    let (namespace, name) = id(pod);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics");
    let read = ask(&cluster.client, path);
    BundleFile {
        path: format!(
            "metrics/{}.txt",
            plain(&format!("{namespace}-{name}-{port}"))
        ),
        what: format!("metrics at the port {port}"),
        content: asked(cluster, read).await.map(BundleContent::Text),
    }
}

async fn ask(client: &Client, path: String) -> kube::Result<String> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| kube::Error::Service(Box::new(error)))?;
    client.request_text(request).await
}

fn id(pod: &Pod) -> (&str, &str) {
    let metadata = &pod.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// The answer, or why there is none.
async fn asked<T>(cluster: &Cluster, read: impl Future<Output = kube::Result<T>>) -> Known<T> {
    within(cluster.deadline, read).await
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_of_files_do_not_lead_out_of_their_folder() {
        for (name, expected) in [
            ("shop-web-0.app", "shop-web-0.app"),
            ("../../x\u{1b}[2K", ".._.._x__2K"),
            ("a|b\nc", "a_b_c"),
        ] {
            assert_eq!(plain(name), expected);
        }
        assert_eq!(plain(&"a".repeat(300)).len(), 200);
    }
}
