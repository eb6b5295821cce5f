//! Mirror Services: their desired state, and the patch that brings it about.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    api::{
        k8s::{Service, ServicePort, ServiceSpec},
        labels as l,
    },
    mirror::{
        metadata::{
            DesiredMetadata,
            desired::{DesiredEntries, copied_keys},
            fq_name, sign,
        },
        outcome::{Problem, Reason},
        target::{Target, export::MirrorMode},
        write::{self, Object, ObjectKind, Write},
    },
};

/// Whether a remote Service can be mirrored at all.
///
/// The message for a Service without ports is Linkerd's.
pub(crate) fn mirrorable(remote: &Service) -> Result<(), Problem> {
    let invalid = |message: &str| Err(Problem::new(Reason::InvalidService, message));
    if remote.spec.type_.as_deref() == Some("ExternalName") {
        invalid("ExternalName Services have no endpoints to mirror")
    } else if remote.spec.ports.is_empty() {
        invalid("object spec has no exposed ports")
    } else {
        Ok(())
    }
}

/// The problem to report for a Service with too much metadata to be copied.
pub(crate) fn not_copied(remote: &Service) -> Option<Problem> {
    let message = "labels and annotations are not copied: they are too large";
    let is_trimmed = remote.is_trimmed;
    is_trimmed.then(|| Problem::new(Reason::LimitExceeded, message))
}

/// A local Service that should exist.
#[derive(Clone, Debug)]
pub(crate) struct Desired<'a> {
    /// The installation that the Service belongs to.
    pub(crate) installation: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// UID of the existing Service, if there is one.
    pub(crate) uid: Option<&'a str>,
    pub(crate) metadata: DesiredMetadata<'a>,
    pub(crate) ports: &'a [ServicePort],
    /// Whether the Service has no ClusterIP.
    pub(crate) headless: bool,
}

impl<'a> Desired<'a> {
    /// Adds the version of the remote Service from which this is built. It is written as an annotation.
    pub(crate) fn of_version(mut self, version: Option<&'a str>) -> Self {
        if let Some(version) = version {
            let annotations = &mut self.metadata.annotations;
            annotations.insert(l::REMOTE_RESOURCE_VERSION, version.into());
        }
        self
    }

    pub(crate) fn create(&self) -> Write {
        Write::Create(Object::Service(Box::new(self.service())))
    }

    /// The object to create.
    pub(crate) fn service(&self) -> Service {
        Service {
            metadata: self.metadata.object_metadata(self.namespace, self.name),
            spec: ServiceSpec {
                cluster_ip: self.headless.then(|| "None".into()),
                ports: self.ports.into(),
                type_: Some("ClusterIP".into()),
                ..ServiceSpec::default()
            },
            ..Service::default()
        }
    }
}

/// The mirror of a Service. `headless`: without a ClusterIP.
pub(crate) fn mirror<'a>(
    installation: &'a str,
    target: &'a Target,
    remote: &'a Service,
    mode: MirrorMode,
    name: &'a str,
    headless: bool,
) -> Desired<'a> {
    let metadata = &remote.metadata;
    let (service, namespace) = (metadata.name(), metadata.namespace());
    let mut labels = mirrored_labels(target, remote);
    if mode == MirrorMode::RemoteDiscovery {
        labels.insert(l::REMOTE_DISCOVERY, target.cluster.as_str().into());
        labels.insert(l::REMOTE_SERVICE, service.into());
    }
    let mut annotations = target.exclusions.annotations(&metadata.annotations);
    annotations.insert(
        l::REMOTE_FQ_NAME,
        fq_name(service, namespace, &target.domain).into(),
    );
    let desired_metadata = DesiredMetadata {
        labels,
        annotations,
    };
    let ports = &remote.spec.ports;
    let desired = build(
        installation,
        namespace,
        name,
        desired_metadata,
        ports,
        headless,
    );
    desired.of_version(metadata.resource_version.as_deref())
}

/// Labels of the mirror of a Service, of its slices and of its endpoint mirrors.
pub(crate) fn mirrored_labels<'a>(target: &'a Target, remote: &'a Service) -> DesiredEntries<'a> {
    let mut labels = target.exclusions.labels_of(remote);
    labels.insert(l::MIRRORED_SERVICE, "true".into());
    labels.insert(l::CLUSTER_NAME, target.cluster.as_str().into());
    labels
}

/// A desired Service, with the annotations that mark it as ours.
pub(crate) fn build<'a>(
    installation: &'a str,
    namespace: &'a str,
    name: &'a str,
    mut metadata: DesiredMetadata<'a>,
    ports: &'a [ServicePort],
    headless: bool,
) -> Desired<'a> {
    sign(&mut metadata, installation, |feed| {
        feed(if headless { b"headless" } else { b"" });
        for port in ports {
            feed(port.name.as_deref().unwrap_or_default().as_bytes());
            feed(port.protocol().as_bytes());
            feed(port.app_protocol.as_deref().unwrap_or_default().as_bytes());
            feed(&port.port.to_be_bytes());
            feed(target_port(port).as_bytes());
        }
    });
    // Not part of the hash: a missing record alone is no reason to write.
    let record = copied_keys(&metadata.labels, &metadata.annotations);
    metadata.annotations.insert(l::COPIED_KEYS, record.into());
    Desired {
        installation,
        namespace,
        name,
        uid: None,
        metadata,
        ports,
        headless,
    }
}

/// The write that turns `actual` into what is desired; `None` if nothing differs.
///
/// Whether a Service is headless cannot be changed: the caller replaces it (see [`must_be_replaced`]).
pub(crate) fn patch(desired: &Desired<'_>, actual: &Service) -> Option<Write> {
    let mut spec = serde_json::Map::new();
    if !same_ports(desired.ports, &actual.spec.ports) {
        spec.insert("ports".to_owned(), json!(desired.ports));
    }
    if !actual.spec.selector.is_empty() {
        spec.insert("selector".to_owned(), Value::Null);
    }
    let type_ = actual.spec.type_.as_deref();
    if type_.is_some_and(|type_| type_ != "ClusterIP") {
        spec.insert("type".to_owned(), json!("ClusterIP"));
        spec.insert("externalName".to_owned(), Value::Null);
    }
    let rest = if spec.is_empty() {
        json!({})
    } else {
        json!({ "spec": spec })
    };
    let (metadata, actual) = (&desired.metadata, &actual.metadata);
    write::patch(
        ObjectKind::Service,
        desired.name,
        metadata,
        None,
        actual,
        rest,
    )
}

/// Whether `actual` must be deleted and created again to become `desired`: a Service cannot become headless, and a
/// headless one cannot get a ClusterIP.
pub(crate) fn must_be_replaced(desired: &Desired<'_>, actual: &Service) -> bool {
    desired.headless != actual.is_headless()
}

/// Whether ports are the same once Kubernetes' defaults are filled in.
pub(crate) fn same_ports(left: &[ServicePort], right: &[ServicePort]) -> bool {
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
