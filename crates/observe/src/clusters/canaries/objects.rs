//! The objects that `verify` creates. Pure.
//!
//! All Pods run [`program`](super::program), from the image of the controller.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, HTTPGetAction, Namespace, Pod, PodSecurityContext,
        PodSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext, Service,
        ServicePort, ServiceSpec,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use kube::core::ObjectMeta;

use mirror_core::api::labels::{COMPONENT, VERIFY};

use super::program::{CanaryKey, READY, SERVICE_PORT};

/// Name of the Pod in the target cluster that answers.
pub const SERVER: &str = "canary";
/// Name of the Pod in the source cluster that sends requests.
pub const CLIENT: &str = "client";
/// The port of all Pods.
pub const POD_PORT: u16 = 8080;
/// The container of ours. Linkerd's injector adds others.
pub(super) const CONTAINER: &str = "canary";

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
#[derive(Clone)]
pub struct CanarySpec {
    /// The namespace of the canaries.
    pub namespace: String,
    /// The run that makes them, as the value of their label.
    pub run: String,
    /// The image of all Pods.
    pub image: String,
    /// The key with which the client is asked.
    pub key: CanaryKey,
    /// How long a Pod may run, so that what a killed run leaves ends too.
    pub lifetime: Duration,
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
            spec: Some(self.pod_spec(role)),
            status: None,
        }
    }

    fn pod_spec(&self, role: Role) -> PodSpec {
        PodSpec {
            // It needs no API server; Linkerd's proxy has a token of its own.
            automount_service_account_token: Some(false),
            // As the API server sets it.
            service_account_name: Some("default".to_owned()),
            containers: vec![self.container(role)],
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            // Its program ends at the same time. This also ends the proxy.
            active_deadline_seconds: i64::try_from(self.seconds()).ok(),
            restart_policy: Some("Never".to_owned()),
            // Nothing is lost with it.
            termination_grace_period_seconds: Some(1),
            ..PodSpec::default()
        }
    }

    /// The lifetime in seconds, rounded up.
    fn seconds(&self) -> u64 {
        self.lifetime.as_secs() + u64::from(self.lifetime.subsec_nanos() > 0)
    }

    /// The arguments of the program; `cli::canary` parses them.
    fn args(&self, role: Role) -> Vec<String> {
        let key = match role {
            Role::Server => None,
            Role::Client => Some(self.key.digest()),
        };
        let lifetime = format!("{}s", self.seconds());
        let all = ["canary".to_owned(), self.run.clone(), lifetime];
        all.into_iter().chain(key).collect()
    }

    fn container(&self, role: Role) -> Container {
        Container {
            name: CONTAINER.to_owned(),
            image: Some(self.image.clone()),
            args: Some(self.args(role)),
            ports: Some(vec![ContainerPort {
                name: Some("http".to_owned()),
                container_port: POD_PORT.into(),
                ..ContainerPort::default()
            }]),
            readiness_probe: Some(Probe {
                http_get: Some(HTTPGetAction {
                    path: Some(READY.to_owned()),
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
            image: "registry.example/linkerd-mc:1".to_owned(),
            key: CanaryKey::random().unwrap(),
            lifetime: Duration::from_millis(89_001),
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
            assert_eq!(of_container["readOnlyRootFilesystem"], true);
            assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        }
    }

    #[test]
    fn pods_end_by_themselves_and_do_not_show_the_key() {
        let spec = spec();
        let [server, client] = [Role::Server, Role::Client].map(|role| {
            let pod = serde_json::to_value(spec.pod("x", role)).unwrap();
            assert_eq!(pod["spec"]["activeDeadlineSeconds"], 90);
            assert_eq!(pod["spec"]["restartPolicy"], "Never");
            assert!(!pod.to_string().contains(spec.key.text()));
            pod["spec"]["containers"][0]["args"].clone()
        });
        assert_eq!(server, json!(["canary", "0123abcd", "90s"]));
        let digest = spec.key.digest();
        assert_eq!(client, json!(["canary", "0123abcd", "90s", digest]));
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
