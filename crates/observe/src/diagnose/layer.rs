//! What a layer says: what was looked at, what could not be looked at, and what is wrong.

use std::fmt;

use hints::suggest::{ClusterFlags, Suggested};
use serde_json::json;

use crate::{
    clusters::request_path::PodState,
    finding::{Finding, Level, Remedy, causes::Layer},
};

/// The judgement on one layer.
#[derive(Clone, Debug)]
pub struct LayerReport {
    /// Which layer.
    pub layer: Layer,
    /// What was looked at, and is as it should be; one line each.
    pub seen: Vec<String>,
    /// What could not be looked at, and why; one line each.
    pub unseen: Vec<String>,
    /// What is wrong; the first is the cause of the others.
    pub findings: Vec<Finding>,
}

/// How commands name the clusters.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// The source cluster.
    pub source: ClusterFlags,
    /// Its context, if known.
    pub source_context: Option<String>,
    /// The target cluster, if its context was named.
    pub target: Option<ClusterFlags>,
    /// Its context.
    pub target_context: Option<String>,
    /// The cluster that this context is for, by the Links. Other clusters have no known context.
    pub target_cluster: Option<String>,
    /// What is the same for both, for commands that name both.
    pub both: ClusterFlags,
}

impl LayerReport {
    /// A layer in which nothing was seen yet.
    pub fn new(layer: Layer) -> Self {
        Self {
            layer,
            seen: Vec::new(),
            unseen: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Notes what was seen.
    pub fn see(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    /// Notes what could not be seen, and why.
    pub fn cannot_see(&mut self, what: impl fmt::Display, why: impl fmt::Display) {
        self.unseen.push(format!("{what}: {why}"));
    }

    /// Notes what is wrong, if something is.
    pub fn find(&mut self, finding: Option<Finding>) {
        self.findings.extend(finding);
    }

    /// Whether requests fail in this layer.
    pub fn is_broken(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.level == Level::Error)
    }

    /// One word for its state.
    pub fn state(&self) -> &'static str {
        match self.findings.iter().map(|finding| finding.level).max() {
            Some(Level::Error) => "broken",
            Some(Level::Warning) => "degraded",
            None if self.seen.is_empty() => "unknown",
            None => "ok",
        }
    }
}

impl Finding {
    /// The commands that start the Pod again that calls, or what is known of its owner if kubectl cannot restart that.
    pub fn fixed_by_restart(self, source: &ClusterFlags, pod: &PodState) -> Self {
        let namespace = &pod.id.namespace;
        match pod.restartable() {
            Some(workload) => {
                let restart = source.kubectl("-n {} rollout restart {}", &[namespace, workload]);
                self.fixed_by(&restart)
            }
            None => self.fixed_by_owner(source, pod),
        }
    }

    /// The command that changes an annotation of the Pod that calls, by the template of its workload, which starts it again.
    pub fn fixed_by_annotation(
        self,
        source: &ClusterFlags,
        pod: &PodState,
        (annotation, value): (&str, &str),
    ) -> Self {
        let Some(workload) = pod.restartable() else {
            return self.fixed_by_owner(source, pod);
        };
        let template = json!({ "metadata": { "annotations": { annotation: value } } });
        let patch = json!({ "spec": { "template": template } }).to_string();
        self.fixed_by(&source.kubectl(
            "-n {} patch {} --type=merge -p {}",
            &[&pod.id.namespace, workload, &patch],
        ))
    }

    fn fixed_by_owner(mut self, source: &ClusterFlags, pod: &PodState) -> Self {
        let PodState { id, workload, .. } = pod;
        let owner = match workload {
            Some(owner) => {
                format!("; kubectl cannot restart its owner {owner}: do it as that is done")
            }
            None => "; kubectl cannot restart it, because nothing owns it".to_owned(),
        };
        self.evidence.push_str(&owner);
        let show = source.kubectl("-n {} get pods {} -o yaml", &[&id.namespace, &id.name]);
        self.fixed_by(&show)
    }

    /// The command that fixes it in a target cluster.
    pub fn fixed_in(
        mut self,
        commands: &Commands,
        cluster: &str,
        command: impl FnOnce(&ClusterFlags) -> Suggested,
    ) -> Self {
        let unnamed = ClusterFlags::default();
        let known = commands
            .target
            .as_ref()
            .filter(|_| commands.is_target(cluster));
        let flags = known.unwrap_or(&unnamed);
        self.actions.push(Remedy {
            cluster: known.is_none().then(|| cluster.to_owned()),
            command: command(flags),
        });
        self
    }
}

impl Commands {
    /// Whether the context of the target is for this cluster.
    fn is_target(&self, cluster: &str) -> bool {
        self.target_cluster.as_deref() == Some(cluster)
    }

    /// The context of a target cluster, if it was named.
    fn context_of(&self, cluster: &str) -> Option<&str> {
        let context = self.target_context.as_deref();
        context.filter(|_| self.is_target(cluster))
    }

    /// The command that replaces the credentials of a Link.
    pub fn rotate(&self, cluster: &str, namespace: &str) -> Suggested {
        match self.context_of(cluster) {
            Some(context) => self.source.mc(
                "rotate {} --target {} --namespace {}",
                &[cluster, context, namespace],
            ),
            None => self
                .source
                .mc("rotate {} --namespace {}", &[cluster, namespace]),
        }
    }

    /// The command that links a cluster again with the port that its gateway has. `link` alone keeps the one of the Link.
    pub fn link_with_port(&self, cluster: &str, namespace: &str) -> Suggested {
        let (target, source) = self.contexts(cluster);
        self.both.mc(
            "link --target {} --source {} --cluster-name {} --namespace {} --gateway-port 0",
            &[target, source, cluster, namespace],
        )
    }

    /// The command that links a cluster again with its gateway. `link` alone keeps a Link without one as it is.
    pub fn link_with_gateway(&self, cluster: &str, namespace: &str) -> Suggested {
        let (target, source) = self.contexts(cluster);
        self.both.mc(
            "link --target {} --source {} --cluster-name {} --namespace {} --gateway",
            &[target, source, cluster, namespace],
        )
    }

    /// The command that links a cluster again with these addresses of its gateway. `link` alone keeps those of the Link.
    pub fn link_with_addresses(
        &self,
        cluster: &str,
        namespace: &str,
        addresses: &[String],
    ) -> Suggested {
        let (target, source) = self.contexts(cluster);
        self.both.mc(
            "link --target {} --source {} --cluster-name {} --namespace {} --gateway-addresses {}",
            &[target, source, cluster, namespace, &addresses.join(",")],
        )
    }

    /// The command that links a cluster again with another selector in this field of the Link.
    pub fn link_with_selector(
        &self,
        cluster: &str,
        namespace: &str,
        field: &str,
        selector: &str,
    ) -> Suggested {
        let (target, source) = self.contexts(cluster);
        let values = [target, source, cluster, namespace, selector];
        match field {
            "remoteDiscoverySelector" => self.both.mc(
                "link --target {} --source {} --cluster-name {} --namespace {} --remote-discovery-selector {}",
                &values,
            ),
            "federatedServiceSelector" => self.both.mc(
                "link --target {} --source {} --cluster-name {} --namespace {} --federated-service-selector {}",
                &values,
            ),
            _ => self.both.mc(
                "link --target {} --source {} --cluster-name {} --namespace {} --selector {}",
                &values,
            ),
        }
    }

    fn contexts<'a>(&'a self, cluster: &'a str) -> (&'a str, &'a str) {
        let target = self.context_of(cluster).unwrap_or(cluster);
        let source = self.source_context.as_deref().unwrap_or("SOURCE");
        (target, source)
    }

    /// The command that links a cluster again with its federated Services behind its gateway.
    pub fn link_through_gateway(&self, cluster: &str, namespace: &str) -> Suggested {
        let (target, source) = self.contexts(cluster);
        self.both.mc(
            "link --target {} --source {} --cluster-name {} --namespace {} --federated-through gateway",
            &[target, source, cluster, namespace],
        )
    }

    /// The command that links a cluster again. It has the name of a cluster in place of a context that is not known.
    pub fn link(&self, cluster: &str, namespace: &str) -> Suggested {
        let (target, source) = self.contexts(cluster);
        self.both.mc(
            "link --target {} --source {} --cluster-name {} --namespace {}",
            &[target, source, cluster, namespace],
        )
    }
}
