//! Measures the core (the module `mirror`) alone, on one CPU: plans per second when nothing has changed, bytes of
//! memory for each mirrored Service, and how the time for one Service grows with the number of Services. Run it with
//! `cargo bench --bench plan`. It fails if that time grows by more than half.
//!
//! Each exported Service of a state has three ports and a slice of three endpoints, and all mirrors exist. The
//! benchmark plans all Services in turn. A single one stays in the cache of the CPU, but ten thousand do not fit into
//! the cache. The bytes are the growth of the resident memory of this process.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot go on has failed"
)]

mod growth;

use std::{
    hint::black_box,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use comfy_table::Table;
use linkerd_mc::{
    api::k8s::{EndpointSlice, Service},
    mirror::{
        Config, Confirmed, GatewayState, Key, LinkEntry, Liveness, NamespacePhase, Object,
        RemoteState, State, Store, Target, Write, plan,
    },
};
use serde_json::{Value, json};

/// Sizes of states, in mirrored Services.
const SIZES: [usize; 3] = [10_000, 1_000, 1];
/// The smallest size for which bytes are shown. With fewer Services, the pages of resident memory are too coarse.
const MANY: usize = 10_000;
/// Services of one namespace.
const PER_NAMESPACE: usize = 100;
/// Each figure is the best of this number of runs, because other work of the machine only makes a run slower.
const RUNS: usize = 5;
/// Minimum duration of a run.
const RUN: Duration = Duration::from_millis(500);
/// Plans per second that one CPU should reach with one Service. Below this, the benchmark prints a line, but does not
/// fail.
const DEMANDED: f64 = 200_000.0;

fn main() -> ExitCode {
    let mut table = Table::new();
    table.set_header(["figure", "services", "value", "unit"]);
    for size in SIZES {
        let (state, keys, memory) = existing(size);
        let best = (0..RUNS).map(|_| rate(&state, &keys)).fold(0.0, f64::max);
        if size == 1 && best < DEMANDED {
            eprintln!("below the {DEMANDED} plans/s that are demanded");
        }
        let mut row = |figure: &str, value: String, unit: &str| {
            table.add_row([figure.to_owned(), size.to_string(), value, unit.to_owned()]);
        };
        row("unchanged", format!("{best:.0}"), "plans/s");
        for (what, bytes) in memory.into_iter().filter(|_| size >= MANY) {
            row(what, (bytes / size).to_string(), "bytes/Service");
        }
    }
    let (figures, ratios, flat) = growth::measure();
    for growth::Figure {
        what,
        services,
        each,
    } in figures
    {
        let micros = format!("{:.1}", each.as_secs_f64() * 1e6);
        table.add_row([what, &services.to_string(), &micros, "µs/Service"]);
    }
    for (what, ratio) in ratios {
        let ratio = format!("{ratio:.2}");
        table.add_row([what, "10,000 to 1,000", &ratio, "times"]);
    }
    println!("{table}");
    if flat {
        ExitCode::SUCCESS
    } else {
        eprintln!("one Service takes longer among many");
        ExitCode::FAILURE
    }
}

fn rate(state: &State, keys: &[Key]) -> f64 {
    let begin = Instant::now();
    let mut plans = 0_u32;
    loop {
        for key in keys {
            assert!(
                black_box(plan(state, black_box(key), Confirmed::All))
                    .writes
                    .is_empty()
            );
        }
        plans += u32::try_from(keys.len()).unwrap();
        let took = begin.elapsed();
        if took >= RUN {
            return f64::from(plans) / took.as_secs_f64();
        }
    }
}

/// A state in which all mirrors exist, its keys, and the bytes that each part of the state takes.
fn existing(size: usize) -> (State, Vec<Key>, Vec<(&'static str, usize)>) {
    let mut state = state(size);
    let keys: Vec<Key> = (0..size)
        .map(|index| Key::mirror("east", &namespace(index), &name(index)))
        .collect();
    let mut memory = Vec::new();

    let begin = resident();
    let mut services = Store::default();
    for index in 0..size {
        services.put(Arc::new(service(index)));
    }
    memory.push(("remote Service", resident().saturating_sub(begin)));

    let begin = resident();
    let mut slices = Store::default();
    for index in 0..size {
        slices.put(Arc::new(slice(index)));
    }
    memory.push(("remote slice", resident().saturating_sub(begin)));

    let known = &mut state.links;
    known.insert("east".to_owned(), entry("east", services, slices));
    let mut mirrors = Vec::new();
    let mut mirror_slices = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        for write in plan(&state, key, Confirmed::All).writes {
            // Serializes the objects, to parse them below, as if they came from the API server. Strings and lists of
            // built objects have unused capacity, which would count as memory.
            match write {
                Write::Create(Object::Service(mut made)) => {
                    made.metadata.uid = Some(uid(index).into());
                    made.spec.cluster_ip = Some("10.101.102.103".into());
                    mirrors.push(serde_json::to_string(&stamped(json!(made))).unwrap());
                }
                Write::Create(Object::EndpointSlice(mut made)) => {
                    for owner in &mut made.metadata.owner_references {
                        owner.uid = uid(index).into();
                    }
                    made.metadata.uid = Some(uid(size + index).into());
                    mirror_slices.push(serde_json::to_string(&stamped(json!(made))).unwrap());
                }
                other => panic!("not a creation: {other:?}"),
            }
        }
    }
    let begin = resident();
    for text in &mirrors {
        let made: Service = serde_json::from_str(text).unwrap();
        state
            .local
            .get_or_insert_default()
            .mirrors
            .put(Arc::new(made));
    }
    memory.push(("local mirror Service", resident().saturating_sub(begin)));

    let begin = resident();
    for text in &mirror_slices {
        let made: EndpointSlice = serde_json::from_str(text).unwrap();
        state
            .local
            .get_or_insert_default()
            .slices
            .put(Arc::new(made));
    }
    memory.push(("local mirror slice", resident().saturating_sub(begin)));
    memory.push(("all four", memory.iter().map(|(_, bytes)| bytes).sum()));
    (state, keys, memory)
}

/// Resident memory of this process, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

fn namespace(index: usize) -> String {
    format!("team-{:03}", index / PER_NAMESPACE)
}

fn name(index: usize) -> String {
    format!("service-{index:05}")
}

fn uid(index: usize) -> String {
    format!("{index:08x}-89ab-4def-8123-456789abcdef")
}

/// Adds the metadata that the API server sets.
fn stamped(mut object: serde_json::Value) -> serde_json::Value {
    let metadata = &mut object["metadata"];
    metadata["resourceVersion"] = json!("123456789");
    metadata["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    metadata["managedFields"] = json!([{
        "manager": "kubectl",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:ports": { ".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {} } } },
    }]);
    object
}

fn service(index: usize) -> Service {
    let port = |name: &str, port: u16| json!({ "name": name, "protocol": "TCP", "port": port, "targetPort": name });
    let object = json!({
        "metadata": {
            "name": name(index),
            "namespace": namespace(index),
            "uid": uid(index),
            "labels": labels(index),
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"apiVersion\":\"v1\",\"kind\":\"Service\"}",
            },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.1.2.3",
            "selector": { "app.kubernetes.io/name": name(index) },
            "ports": [port("http", 80), port("grpc", 8080), port("metrics", 9090)],
        },
    });
    serde_json::from_str(&stamped(object).to_string()).unwrap()
}

/// Labels of a Service. Kubernetes copies them to the slices of the Service.
fn labels(index: usize) -> Value {
    json!({
        "app.kubernetes.io/name": name(index),
        "app.kubernetes.io/part-of": "shop",
        "mirror.linkerd.io/exported": "true",
    })
}

fn slice(index: usize) -> EndpointSlice {
    let mut labels = labels(index);
    labels["kubernetes.io/service-name"] = name(index).into();
    labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io".into();
    let port = |name: &str, port: u16| json!({ "name": name, "protocol": "TCP", "port": port });
    let endpoint = |last: usize| {
        json!({
            "addresses": [format!("10.244.{}.{last}", index % 256)],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": "node-1",
            "targetRef": { "kind": "Pod", "name": format!("{}-{last}", name(index)), "namespace": namespace(index) },
        })
    };
    let object = json!({
        "metadata": {
            "name": format!("{}-x7k2p", name(index)),
            "namespace": namespace(index),
            "uid": uid(index),
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name(index), "uid": uid(index),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [endpoint(1), endpoint(2), endpoint(3)],
        "ports": [port("http", 8080), port("grpc", 8081), port("metrics", 9090)],
    });
    serde_json::from_str(&stamped(object).to_string()).unwrap()
}

/// A state of the source cluster with the namespaces for `size` Services, and no other objects.
fn state(size: usize) -> State {
    let namespaces = (0..size).map(|index| (namespace(index), NamespacePhase::Active));
    let config = Config {
        namespace: "linkerd-multicluster".to_owned(),
        ..Config::default()
    };
    State::listed(config, namespaces)
}

/// A Link to a target cluster that has these Services and slices.
fn entry(cluster: &str, services: Store<Service>, slices: Store<EndpointSlice>) -> LinkEntry {
    let link = serde_json::from_value(json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3",
        "kind": "Link",
        "metadata": { "name": cluster, "namespace": "linkerd-multicluster" },
        "spec": {
            "targetClusterName": cluster,
            "targetClusterDomain": "cluster.local",
            "gatewayAddress": "192.0.2.1",
            "gatewayPort": "4143",
            "gatewayIdentity": "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local",
            "probeSpec": { "path": "/ready", "port": "4191", "period": "3s" },
            "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
            "remoteDiscoverySelector": { "matchLabels": { "mirror.linkerd.io/exported": "remote-discovery" } },
            "federatedServiceSelector": { "matchLabels": { "mirror.linkerd.io/federated": "member" } },
        },
    }));
    let link: linkerd_mc::api::link::Link = link.unwrap();
    LinkEntry {
        cluster: Some(cluster.to_owned()),
        linked: None,
        created: link.metadata.creation_timestamp.as_ref().map(|time| time.0),
        listed: None,
        target: Target::parse(&link, false),
        remote: Some(RemoteState {
            services: vec![services],
            slices: vec![slices],
            ..RemoteState::default()
        }),
        api_gateway: GatewayState::default(),
        gateway: GatewayState {
            addresses: Some(vec!["192.0.2.1".parse().unwrap()]),
            liveness: Liveness::Alive,
        },
    }
}
