//! Random histories of Services, their Pods and their Endpoints.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The Service that comes last.
pub(super) const LAST: &str = "zz-last";
const EXPORTED: &str = "mirror.linkerd.io/exported";
const FEDERATED: &str = "mirror.linkerd.io/federated";
const SERVICES: [&str; 3] = ["web", "db", "0x"];
/// The first port of the last Service.
pub(super) const MARK: usize = 1000;
/// A label that a Service may have.
const LABEL: &str = "team";
/// An annotation that a Service may have.
const ANNOTATION: &str = "example.com/note";

/// What a Service is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// With a selector, so that Pods are its endpoints.
    Selecting,
    /// Without a ClusterIP.
    Headless,
    /// Without a selector: somebody writes its Endpoints.
    Manual,
    /// Leads to a name.
    External,
}

/// How a Service is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Export {
    /// Not at all.
    No,
    /// Through the gateway.
    Gateway,
    /// From Pod to Pod.
    Discovery,
    /// As a member of a federated Service.
    Member,
    /// Through the gateway, and as a member.
    Both,
}

/// A change.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A Service is created, or gets other ports and labels; of another shape, it is created anew.
    Service {
        name: &'static str,
        shape: Shape,
        export: Export,
        ports: usize,
        label: Option<u8>,
        annotation: Option<u8>,
    },
    /// A Service is deleted.
    Delete(&'static str),
    /// A Pod of a Service is there, ready or not.
    Pod {
        service: &'static str,
        number: u8,
        ready: bool,
    },
    /// A Pod is deleted.
    Gone { service: &'static str, number: u8 },
    /// Endpoints that somebody writes, with the label of an export or without.
    Endpoints {
        service: &'static str,
        addresses: u8,
        exported: bool,
    },
    /// A member in the source clusters.
    Local { name: &'static str, member: bool },
    /// The last Service is created.
    Last,
}

/// Some steps in a namespace of their own.
pub(super) struct History {
    pub(super) namespace: String,
    pub(super) steps: Vec<Step>,
}

/// A command of kubectl and its input.
type Command = (Vec<String>, Option<Value>);

impl History {
    /// The history of a seed.
    pub(super) fn random(seed: u64, number: u64, length: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut steps, mut shapes) = (Vec::new(), BTreeMap::new());
        for _ in 0..length {
            let step = Step::random(&mut random);
            // Kubernetes writes the Endpoints of a Service with a selector. Linkerd's reads those, ours the slices.
            if let Step::Endpoints { service, .. } = &step
                && shapes
                    .get(service)
                    .is_some_and(|shape| *shape != Shape::Manual)
            {
                continue;
            }
            // A Service cannot change its shape: another one takes its place.
            if let Step::Service { name, shape, .. } = &step
                && shapes
                    .insert(*name, *shape)
                    .is_some_and(|former| former != *shape)
            {
                steps.push(Step::Delete(name));
            }
            if let Step::Delete(name) = &step {
                shapes.remove(name);
            }
            steps.push(step);
        }
        Self {
            namespace: format!("history-{number}"),
            steps,
        }
    }
}

fn one<T: Copy>(random: &mut fastrand::Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

impl Step {
    fn random(random: &mut fastrand::Rng) -> Self {
        let service = one(random, &SERVICES);
        let number = random.u8(..2);
        let maybe = |random: &mut fastrand::Rng| random.bool().then(|| random.u8(..2));
        match random.u8(..12) {
            0..=4 => Self::Service {
                name: service,
                shape: one(
                    random,
                    &[
                        Shape::Selecting,
                        Shape::Selecting,
                        Shape::Headless,
                        Shape::Manual,
                        Shape::External,
                    ],
                ),
                export: one(
                    random,
                    &[
                        Export::No,
                        Export::Gateway,
                        Export::Gateway,
                        Export::Discovery,
                        Export::Member,
                        Export::Both,
                    ],
                ),
                ports: random.usize(..PORTS),
                label: maybe(random),
                annotation: maybe(random),
            },
            5 => Self::Delete(service),
            6 | 7 => Self::Pod {
                service,
                number,
                ready: random.u8(..3) > 0,
            },
            8 => Self::Gone { service, number },
            9 | 10 => Self::Endpoints {
                service,
                addresses: random.u8(..3),
                exported: random.bool(),
            },
            _ => Self::Local {
                name: service,
                member: random.bool(),
            },
        }
    }

    /// Whether it is a step in the source clusters.
    pub(super) fn is_of_sources(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    /// What kubectl is asked to do.
    pub(super) fn commands(&self, namespace: &str) -> Vec<Command> {
        let own = |words: &[&str]| {
            let words = [&["-n", namespace], words].concat();
            words.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let apply = |object: Value| (own(&["apply", "--force", "-f", "-"]), Some(object));
        let delete = |kind: &str, name: &str| {
            let words = [
                "delete",
                "--ignore-not-found",
                "--force",
                "--grace-period=0",
                kind,
                name,
            ];
            (own(&words), None)
        };
        match self {
            Self::Service {
                name,
                shape,
                export,
                ports,
                label,
                annotation,
            } => {
                let service = service(name, *shape, *export, *ports, *label, *annotation);
                vec![apply(service)]
            }
            Self::Last => vec![apply(service(
                LAST,
                Shape::Selecting,
                Export::Gateway,
                0,
                None,
                None,
            ))],
            Self::Delete(name) => vec![delete("service", name)],
            Self::Gone { service, number } => vec![delete("pod", &format!("{service}-{number}"))],
            Self::Pod {
                service,
                number,
                ready,
            } => {
                let name = format!("{service}-{number}");
                let patch = json!({ "status": {
                    "phase": "Running", "podIP": address(service, *number), "podIPs": [{ "ip": address(service, *number) }],
                    "conditions": [{ "type": "Ready", "status": if *ready { "True" } else { "False" } }],
                } });
                let status = [
                    "patch",
                    "pod",
                    &name,
                    "--subresource=status",
                    "--type=merge",
                    "-p",
                    &patch.to_string(),
                ];
                vec![apply(pod(&name, service)), (own(&status), None)]
            }
            Self::Endpoints {
                service,
                addresses,
                exported,
            } => vec![apply(endpoints(service, *addresses, *exported))],
            Self::Local { name, member } => {
                let export = if *member { Export::Member } else { Export::No };
                vec![apply(service(
                    name,
                    Shape::Selecting,
                    export,
                    0,
                    None,
                    None,
                ))]
            }
        }
    }
}

fn address(service: &str, number: u8) -> String {
    let at = SERVICES.iter().position(|name| *name == service);
    format!("10.9.{}.{}", at.unwrap_or_default(), number + 1)
}

/// Ports that a Service may have.
const PORTS: usize = 3;

fn ports(which: usize) -> Value {
    match which {
        0 => json!([{ "name": "http", "port": 80, "targetPort": 8080 }]),
        1 => {
            json!([{ "name": "http", "port": 80, "targetPort": 8080 }, { "name": "admin", "port": 9990, "targetPort": "admin" }])
        }
        _ => json!([{ "port": 5432, "appProtocol": "https" }]),
    }
}

fn service(
    name: &str,
    shape: Shape,
    export: Export,
    which: usize,
    label: Option<u8>,
    annotation: Option<u8>,
) -> Value {
    let mut labels = Map::new();
    if let Some(value) = label {
        labels.insert(LABEL.to_owned(), json!(format!("t{value}")));
    }
    let exported = match export {
        Export::Gateway | Export::Both => Some("true"),
        Export::Discovery => Some("remote-discovery"),
        Export::No | Export::Member => None,
    };
    labels.extend(exported.map(|value| (EXPORTED.to_owned(), json!(value))));
    if matches!(export, Export::Member | Export::Both) {
        labels.insert(FEDERATED.to_owned(), json!("member"));
    }
    let annotations = annotation.map(|value| json!({ ANNOTATION: format!("n{value}") }));
    let mut spec = json!({ "ports": ports(which) });
    match shape {
        Shape::Selecting => spec["selector"] = json!({ "app": name }),
        Shape::Headless => {
            spec["selector"] = json!({ "app": name });
            spec["clusterIP"] = json!("None");
        }
        Shape::Manual => {}
        Shape::External => spec = json!({ "type": "ExternalName", "externalName": "example.com" }),
    }
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": spec,
    })
}

fn pod(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": service } },
        "spec": {
            "nodeName": "node", "hostname": name, "subdomain": service, "automountServiceAccountToken": false,
            "containers": [{ "name": "app", "image": "app", "ports": [{ "name": "admin", "containerPort": 9990 }] }],
        },
    })
}

fn endpoints(service: &str, addresses: u8, exported: bool) -> Value {
    let labels = exported.then(|| json!({ EXPORTED: "true" }));
    let addresses = (0..addresses).map(|number| json!({ "ip": address(service, number + 10) }));
    let addresses: Vec<Value> = addresses.collect();
    let subset = json!({ "addresses": addresses, "ports": [{ "name": "http", "port": 8080 }] });
    let subsets = if addresses.is_empty() {
        json!([])
    } else {
        json!([subset])
    };
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": service, "labels": labels },
        "subsets": subsets,
    })
}
