//! The objects that `verify` creates. Pure.
//!
//! All Pods run agnhost's `netexec`, the HTTP server of Kubernetes' own tests: as a server it answers with the headers that
//! it was sent (`/header`) and with the name of its Pod (`/hostname`), as a client it sends a request when it is asked to
//! (`/dial`). It would also run commands (`/shell`), so an empty folder hides the shell of the image.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EmptyDirVolumeSource, HTTPGetAction, Namespace,
        Pod, PodSecurityContext, PodSpec, Probe, ResourceRequirements, SeccompProfile,
        SecurityContext, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use kube::core::ObjectMeta;

use mirror_core::api::labels::{COMPONENT, VERIFY};

/// Name of the Pod in the target cluster that answers.
pub const SERVER: &str = "canary";
/// Name of the Pod in the source cluster that sends requests.
pub const CLIENT: &str = "client";
/// The port of all Pods.
pub const POD_PORT: u16 = 8080;
/// The port of all Services.
pub const SERVICE_PORT: u16 = 80;
/// The container of ours. Linkerd's injector adds others.
const CONTAINER: &str = "canary";
/// The user `nobody`.
const USER: i64 = 65534;
/// Maximum time that a Pod runs, in seconds. A run takes minutes.
const LIFETIME: i64 = 3600;
/// The folder of the image's shell.
const SHELL: &str = "/bin";

/// What a Pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers requests.
    Server,
    /// Sends requests when the API server asks it to.
    Client,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "canary",
            Self::Client => "client",
        }
    }

    /// What Linkerd's proxy of the Pod does about requests to it.
    fn annotations(self) -> BTreeMap<String, String> {
        let own = match self {
            // A request without an identity is refused, whatever the policies of the cluster are.
            Self::Server => (
                "config.linkerd.io/default-inbound-policy",
                "all-authenticated",
            ),
            // The API server asks the client, and has no identity.
            Self::Client => ("config.linkerd.io/skip-inbound-ports", "8080"),
        };
        let all = [("linkerd.io/inject", "enabled"), own];
        texts(&all)
    }
}

/// How canaries are made.
#[derive(Clone, Debug)]
pub struct CanarySpec {
    /// The namespace of the canaries.
    pub namespace: String,
    /// The run that makes them, as the value of their label.
    pub run: String,
    /// The image of all Pods.
    pub image: String,
}

impl CanarySpec {
    fn metadata(&self, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        let mut all = texts(labels);
        all.insert(VERIFY.to_owned(), self.run.clone());
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(all),
            ..ObjectMeta::default()
        }
    }

    /// The namespace.
    pub fn namespace(&self) -> Namespace {
        Namespace {
            metadata: self.metadata(&self.namespace, &[]),
            ..Namespace::default()
        }
    }

    /// A Pod.
    pub fn pod(&self, name: &str, role: Role) -> Pod {
        let labels = [(COMPONENT, role.as_str())];
        Pod {
            metadata: ObjectMeta {
                annotations: Some(role.annotations()),
                ..self.metadata(name, &labels)
            },
            spec: Some(self.pod_spec()),
            status: None,
        }
    }

    fn pod_spec(&self) -> PodSpec {
        PodSpec {
            // It needs no API server; Linkerd's proxy has a token of its own.
            automount_service_account_token: Some(false),
            // As the API server sets it.
            service_account_name: Some("default".to_owned()),
            containers: vec![self.container()],
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_group: Some(USER),
                run_as_non_root: Some(true),
                run_as_user: Some(USER),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            // Ends what a run that was killed has left.
            active_deadline_seconds: Some(LIFETIME),
            // Nothing is lost with it.
            termination_grace_period_seconds: Some(1),
            volumes: Some(vec![Volume {
                name: "nothing".to_owned(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            }]),
            ..PodSpec::default()
        }
    }

    fn container(&self) -> Container {
        let args = ["netexec", "--http-port=8080", "--udp-port=-1"];
        Container {
            name: CONTAINER.to_owned(),
            image: Some(self.image.clone()),
            args: Some(args.map(str::to_owned).to_vec()),
            ports: Some(vec![ContainerPort {
                name: Some("http".to_owned()),
                container_port: POD_PORT.into(),
                ..ContainerPort::default()
            }]),
            readiness_probe: Some(Probe {
                http_get: Some(HTTPGetAction {
                    path: Some("/hostname".to_owned()),
                    port: IntOrString::Int(POD_PORT.into()),
                    ..HTTPGetAction::default()
                }),
                period_seconds: Some(1),
                ..Probe::default()
            }),
            resources: Some(ResourceRequirements {
                requests: Some(quantities(&[("cpu", "10m"), ("memory", "16Mi")])),
                limits: Some(quantities(&[("memory", "64Mi")])),
                ..ResourceRequirements::default()
            }),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    ..Capabilities::default()
                }),
                read_only_root_filesystem: Some(true),
                run_as_non_root: Some(true),
                ..SecurityContext::default()
            }),
            volume_mounts: Some(vec![VolumeMount {
                name: "nothing".to_owned(),
                mount_path: SHELL.to_owned(),
                ..VolumeMount::default()
            }]),
            ..Container::default()
        }
    }

    /// A Service in front of the servers of its cluster, with these labels in addition.
    pub fn service(&self, name: &str, labels: &BTreeMap<String, String>) -> Service {
        let labels: Vec<(&str, &str)> = labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        Service {
            metadata: self.metadata(name, &labels),
            spec: Some(ServiceSpec {
                ports: Some(vec![ServicePort {
                    name: Some("http".to_owned()),
                    port: SERVICE_PORT.into(),
                    target_port: Some(IntOrString::Int(POD_PORT.into())),
                    ..ServicePort::default()
                }]),
                selector: Some(texts(&[(COMPONENT, Role::Server.as_str())])),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn quantities(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), Quantity((*value).to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> CanarySpec {
        CanarySpec {
            namespace: "verify".to_owned(),
            run: "0123abcd".to_owned(),
            image: "registry.example/agnhost:1".to_owned(),
        }
    }

    #[test]
    fn all_objects_have_the_label_by_which_they_are_found() {
        let spec = spec();
        let labels = [
            spec.namespace().metadata.labels,
            spec.pod(SERVER, Role::Server).metadata.labels,
            spec.service("x", &BTreeMap::new()).metadata.labels,
        ];
        for labels in labels {
            assert_eq!(labels.unwrap()[VERIFY], "0123abcd");
        }
    }

    #[test]
    fn pods_meet_the_restricted_profile_and_are_injected() {
        for role in [Role::Server, Role::Client] {
            let pod = serde_json::to_value(spec().pod("x", role)).unwrap();
            let annotations = &pod["metadata"]["annotations"];
            assert_eq!(annotations["linkerd.io/inject"], "enabled");
            let of_pod = &pod["spec"]["securityContext"];
            assert_eq!(of_pod["runAsNonRoot"], true);
            assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault");
            let container = &pod["spec"]["containers"][0];
            let of_container = &container["securityContext"];
            assert_eq!(of_container["allowPrivilegeEscalation"], false);
            assert_eq!(of_container["capabilities"]["drop"], json!(["ALL"]));
            assert_eq!(container["resources"]["limits"]["memory"], "64Mi");
            assert_eq!(container["volumeMounts"][0]["mountPath"], "/bin");
        }
    }

    #[test]
    fn services_select_servers_only() {
        let labels = texts(&[("mirror.linkerd.io/exported", "true")]);
        let service = spec().service("gateway", &labels);
        let all = service.metadata.labels.unwrap();
        assert_eq!(all["mirror.linkerd.io/exported"], "true");
        let selector = service.spec.unwrap().selector.unwrap();
        let server = spec().pod(SERVER, Role::Server).metadata.labels.unwrap();
        let client = spec().pod(CLIENT, Role::Client).metadata.labels.unwrap();
        let (key, value) = selector.iter().next().unwrap();
        assert_eq!(selector.len(), 1);
        assert_eq!(server.get(key), Some(value));
        assert_ne!(client.get(key), Some(value));
    }
}
