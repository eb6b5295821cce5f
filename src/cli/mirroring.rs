//! What is mirrored, and how: flags that `run-controller` and `plan` share, so that one foretells the other.

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{args, complete};
use crate::{
    api::labels,
    hint::HintExt as _,
    manifests::selector::parse_selector,
    mirror::{Config, Exclusions, Selector},
};

/// What the controller is told about mirroring.
#[derive(Clone, Debug, Args)]
pub(crate) struct Mirroring {
    /// Namespace of Links and their credentials
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(crate) namespace: String,
    /// Create namespaces that exported Services need
    #[arg(long)]
    enable_namespace_creation: bool,
    /// Mirror headless Services as headless ones, where a Link does not say otherwise
    #[arg(long)]
    enable_headless_services: bool,
    /// Which Services of this cluster are members of federated Services
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "mirror.linkerd.io/federated=member"
    )]
    federated_service_selector: String,
    /// Leave Services of this cluster out of federated Services
    #[arg(long)]
    no_local_federation: bool,
    /// Labels of local members that federated Services do not get, such as a,example.com/*
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-labels"
    )]
    excluded_labels: Vec<String>,
    /// Annotations of local members that federated Services do not get
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-annotations"
    )]
    excluded_annotations: Vec<String>,
}

impl Mirroring {
    /// What the core has to know. Fails on a selector that is none.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let selector = || -> anyhow::Result<Option<Selector>> {
            let parsed = parse_selector(&self.federated_service_selector)?;
            Ok(Selector::parse(Some(&parsed))?)
        };
        let members = selector().hint(
            || {
                let text = &self.federated_service_selector;
                format!("--federated-service-selector {text:?} is no selector")
            },
            || "selectors look like mirror.linkerd.io/federated=member".into(),
        )?;
        Ok(Config {
            namespace: self.namespace.clone(),
            create_namespaces: self.enable_namespace_creation,
            local_members: members.filter(|_| !self.no_local_federation),
            local_exclusions: Exclusions::new(&self.excluded_labels, &self.excluded_annotations),
        })
    }

    /// Whether headless Services are mirrored as such where a Link does not say.
    pub(crate) fn headless(&self) -> bool {
        self.enable_headless_services
    }
}
