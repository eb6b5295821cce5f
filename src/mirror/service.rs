//! Mirror Services: what they should be, and the patch that makes them so.

use std::borrow::Cow;

use kube::{ResourceExt as _, core::ObjectMeta};
use serde_json::{Value, json};

use super::{
    export::Mode,
    metadata::{Map, fq_name, sign},
    plan::{Kind, Problem, Reason, Write, forced_metadata, guarded, patch_metadata},
    target::Target,
};
use crate::api::{
    k8s::{Service, ServicePort, ServiceSpec},
    labels as l,
};

/// Whether a local Service can stand for a remote one at all.
///
/// The message for a Service without ports is Linkerd's.
pub(super) fn mirrorable(remote: &Service) -> Result<(), Problem> {
    let invalid = |message: &str| Err(Problem::new(Reason::InvalidService, message));
    if remote.spec.type_.as_deref() == Some("ExternalName") {
        invalid("ExternalName Services have no endpoints to mirror")
    } else if remote.spec.ports.is_empty() {
        invalid("object spec has no exposed ports")
    } else {
        Ok(())
    }
}

/// The mirror of a Service. `headless`: without a ClusterIP of its own.
pub(super) fn mirror(
    target: &Target,
    remote: &Service,
    mode: Mode,
    name: &str,
    headless: bool,
) -> Service {
    let (service, namespace) = (remote.name_any(), remote.namespace().unwrap_or_default());
    let mut labels = mirrored_labels(target, remote);
    if mode == Mode::RemoteDiscovery {
        labels.insert(l::REMOTE_DISCOVERY.to_owned(), target.cluster.clone());
        labels.insert(l::REMOTE_SERVICE.to_owned(), service.clone());
    }
    let mut annotations = target
        .exclusions
        .annotations(remote.metadata.annotations.as_ref());
    annotations.insert(
        l::REMOTE_FQ_NAME.to_owned(),
        fq_name(&service, &namespace, &target.domain),
    );
    let version = remote.resource_version();
    build(
        &namespace,
        name,
        labels,
        annotations,
        remote.spec.ports.clone(),
        headless,
        version,
    )
}

/// Labels that the mirror of a Service and everything around it carry.
pub(super) fn mirrored_labels(target: &Target, remote: &Service) -> Map {
    let mut labels = target.exclusions.labels(remote.metadata.labels.as_ref());
    labels.insert(l::MIRRORED_SERVICE.to_owned(), "true".to_owned());
    labels.insert(l::CLUSTER_NAME.to_owned(), target.cluster.clone());
    labels
}

/// A desired Service, signed. `version`: what is written along as the remote resource version.
pub(super) fn build(
    namespace: &str,
    name: &str,
    labels: Map,
    mut annotations: Map,
    ports: Vec<ServicePort>,
    headless: bool,
    version: Option<String>,
) -> Service {
    sign(&labels, &mut annotations, |feed| {
        feed(if headless { b"headless" } else { b"" });
        for port in &ports {
            feed(port.name.as_deref().unwrap_or_default().as_bytes());
            feed(port.protocol().as_bytes());
            feed(port.app_protocol.as_deref().unwrap_or_default().as_bytes());
            feed(&port.port.to_be_bytes());
            feed(target_port(port).as_bytes());
        }
    });
    if let Some(version) = version {
        annotations.insert(l::REMOTE_RESOURCE_VERSION.to_owned(), version);
    }
    Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: ServiceSpec {
            cluster_ip: headless.then(|| "None".to_owned()),
            ports,
            selector: None,
            type_: Some("ClusterIP".to_owned()),
        },
    }
}

/// The write that makes `actual` what is desired; `None` if it is.
///
/// Whether a Service is headless cannot be changed: the caller replaces it (see [`must_be_replaced`]).
pub(super) fn patch(desired: &Service, actual: &Service) -> Option<Write> {
    let metadata = patch_metadata(&desired.metadata, &actual.metadata);
    let mut spec = serde_json::Map::new();
    if !same_ports(&desired.spec.ports, &actual.spec.ports) {
        spec.insert("ports".to_owned(), json!(desired.spec.ports));
    }
    if actual
        .spec
        .selector
        .as_ref()
        .is_some_and(|selector| !selector.is_empty())
    {
        spec.insert("selector".to_owned(), Value::Null);
    }
    if actual
        .spec
        .type_
        .as_deref()
        .is_some_and(|type_| type_ != "ClusterIP")
    {
        spec.insert("type".to_owned(), json!("ClusterIP"));
        spec.insert("externalName".to_owned(), Value::Null);
    }
    if metadata.is_none() && spec.is_empty() {
        return None;
    }
    let metadata = metadata.unwrap_or_else(|| forced_metadata(&desired.metadata, &actual.metadata));
    let rest = if spec.is_empty() {
        json!({})
    } else {
        json!({ "spec": spec })
    };
    Some(guarded(Kind::Service, &actual.metadata, metadata, rest))
}

/// Whether `actual` can become `desired` in place: a ClusterIP, or its absence, is for life.
pub(super) fn must_be_replaced(desired: &Service, actual: &Service) -> bool {
    desired.is_headless() != actual.is_headless()
}

/// Whether ports are the same once Kubernetes' defaults are filled in.
pub(super) fn same_ports(left: &[ServicePort], right: &[ServicePort]) -> bool {
    let same = |a: &ServicePort, b: &ServicePort| {
        a.port == b.port
            && a.name.as_deref().unwrap_or_default() == b.name.as_deref().unwrap_or_default()
            && a.protocol() == b.protocol()
            && a.app_protocol == b.app_protocol
            && (a.target_port == b.target_port || target_port(a) == target_port(b))
    };
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
}

fn target_port(port: &ServicePort) -> Cow<'_, str> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    match &port.target_port {
        None => port.port.to_string().into(),
        Some(IntOrString::Int(number)) => number.to_string().into(),
        Some(IntOrString::String(name)) => name.into(),
    }
}

#[cfg(test)]
mod tests;
