//! What is mirrored, and how: flags that `run-controller` and `plan` share, so that one foretells the other.

use std::{collections::BTreeSet, time::Duration};

use clap::{ArgAction, Args, builder::BoolishValueParser};
use clap_complete::ArgValueCompleter;

use kube::Client;

use super::{args, complete, output};
use crate::{
    api::{labels, selector::parse_selector},
    controller::preview,
    hint::HintExt as _,
    mirror::{Config, Exclusions, Limits, Selector},
};

/// What the controller is told about mirroring. What is not given is `None`, so that `plan` can take it from the
/// controller that runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Mirroring {
    /// Namespace of Links and their credentials
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(crate) namespace: String,
    /// Adopt the mirrors of the installation whose Links are in this namespace, once Links here name their clusters
    #[arg(long, value_name = "NAMESPACE", value_parser = args::namespace)]
    take_over_from: Option<String>,
    /// Create namespaces that exported Services need
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_namespace_creation: Option<bool>,
    /// Mirror headless Services as headless ones, where a Link does not say otherwise
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_headless_services: Option<bool>,
    /// Services of one target cluster that are mirrored, and hosts of its headless ones, at most [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_services_per_link: Option<u32>,
    /// Labels and annotations of one Service, at most, KiB; of one that has more none are copied [default: 16]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_metadata_kib_per_service: Option<u16>,
    /// Memory that Services and EndpointSlices of one target cluster take, at most, MiB [default: 32]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..))]
    max_mib_per_link: Option<u16>,
    /// Namespaces that are created for one target cluster, at most [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_namespaces_per_link: Option<u32>,
    /// Namespaces in which nothing is mirrored or federated, whatever a Link says; nothing for none. That of the Links
    /// always is one [default: kube-system,kube-public,kube-node-lease,linkerd]
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',', value_parser = namespace_or_blank)]
    protected_namespaces: Option<Vec<String>>,
    /// Which Services of this cluster are members of federated Services [default: mirror.linkerd.io/federated=member]
    #[arg(long, value_name = "SELECTOR")]
    federated_service_selector: Option<String>,
    /// Leave Services of this cluster out of federated Services
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    no_local_federation: Option<bool>,
    /// Heed what members of federated Services prefer, with routes of the Gateway API
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_routes: Option<bool>,
    /// How long a preferred cluster that was away must have been back before it takes requests again [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    hold_down: Option<Duration>,
    /// Labels of local members that federated Services do not get, such as a,example.com/*
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-labels"
    )]
    excluded_labels: Option<Vec<String>>,
    /// Annotations of local members that federated Services do not get
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-annotations"
    )]
    excluded_annotations: Option<Vec<String>>,
}

/// The settings in the arguments of a container that runs the controller; `None` for those of another.
pub(crate) type Parse = fn(Vec<String>) -> Option<Mirroring>;

/// Services of one Link that are mirrored, at most, unless told otherwise.
const MAX_SERVICES: u32 = 10_000;
/// KiB of labels and annotations of one Service that are copied, at most, unless told otherwise.
const MAX_METADATA: u16 = 16;
/// MiB of one target cluster, at most, unless told otherwise.
const MAX_MIB: u16 = 32;
/// Bytes of a KiB and of a MiB.
const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;
/// Namespaces that are created for one target cluster, at most, unless told otherwise.
const MAX_NAMESPACES: u32 = 100;
/// How long a preferred cluster must have been back, unless told otherwise.
const HOLD_DOWN: Duration = Duration::from_secs(30);

impl Mirroring {
    /// These settings, and those of `others` where these say nothing.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            namespace: self.namespace,
            take_over_from: self.take_over_from.or(others.take_over_from),
            enable_namespace_creation: self
                .enable_namespace_creation
                .or(others.enable_namespace_creation),
            enable_headless_services: self
                .enable_headless_services
                .or(others.enable_headless_services),
            max_services_per_link: self.max_services_per_link.or(others.max_services_per_link),
            max_metadata_kib_per_service: self
                .max_metadata_kib_per_service
                .or(others.max_metadata_kib_per_service),
            max_mib_per_link: self.max_mib_per_link.or(others.max_mib_per_link),
            max_namespaces_per_link: self
                .max_namespaces_per_link
                .or(others.max_namespaces_per_link),
            protected_namespaces: self.protected_namespaces.or(others.protected_namespaces),
            federated_service_selector: self
                .federated_service_selector
                .or(others.federated_service_selector),
            no_local_federation: self.no_local_federation.or(others.no_local_federation),
            enable_routes: self.enable_routes.or(others.enable_routes),
            hold_down: self.hold_down.or(others.hold_down),
            excluded_labels: self.excluded_labels.or(others.excluded_labels),
            excluded_annotations: self.excluded_annotations.or(others.excluded_annotations),
        }
    }

    /// These settings, and those of the controller that runs where these say nothing. Where they cannot be found out
    /// a note says so.
    pub(crate) async fn or_of_deployment(&self, client: &Client, parse: Parse) -> Self {
        let (namespace, name) = (&self.namespace, labels::CONTROLLER_NAME);
        let why = match preview::controller_args(client, namespace).await {
            Ok(Some(containers)) => {
                if let Some(settings) = containers.into_iter().find_map(parse) {
                    return self.clone().or(settings);
                }
                format!("failed to read the arguments of Deployment {namespace}/{name}")
            }
            Ok(None) => format!("there is no Deployment {namespace}/{name}"),
            Err(error) => format!("{error:#}"),
        };
        output::note(&format!(
            "{why}: planning with the defaults of run-controller, and the flags given here"
        ));
        self.clone()
    }

    /// What the core has to know. Fails on a selector that is none.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let text = self
            .federated_service_selector
            .as_deref()
            .unwrap_or(labels::FEDERATED_MEMBERS);
        let selector = || -> anyhow::Result<Option<Selector>> {
            let parsed = parse_selector(text)?;
            Ok(Selector::parse(Some(&parsed))?)
        };
        let members = selector().hint(
            || format!("--federated-service-selector {text:?} is no selector"),
            || "selectors look like mirror.linkerd.io/federated=member".into(),
        )?;
        let keys = |keys: &Option<Vec<String>>| keys.clone().unwrap_or_default();
        Ok(Config {
            namespace: self.namespace.clone(),
            take_over_from: self.take_over_from.clone(),
            max_namespaces: self.max_namespaces(),
            protected_namespaces: self.protected_namespaces(),
            local_members: members.filter(|_| self.no_local_federation != Some(true)),
            local_exclusions: Exclusions::new(
                &keys(&self.excluded_labels),
                &keys(&self.excluded_annotations),
            ),
            routes: self
                .enable_routes
                .unwrap_or_default()
                .then(|| self.hold_down.unwrap_or(HOLD_DOWN)),
        })
    }

    /// Missing namespaces that are created for one target cluster, at most.
    fn max_namespaces(&self) -> usize {
        let most = self.max_namespaces_per_link.unwrap_or(MAX_NAMESPACES);
        let creates = self.enable_namespace_creation.unwrap_or_default();
        if creates {
            usize::try_from(most).unwrap_or(usize::MAX)
        } else {
            0
        }
    }

    /// Namespaces in which nothing is mirrored or federated.
    fn protected_namespaces(&self) -> BTreeSet<String> {
        let usual = || {
            let kubernetes = labels::KUBERNETES_NAMESPACES;
            let all = kubernetes.into_iter().chain([labels::LINKERD_NAMESPACE]);
            all.map(str::to_owned).collect()
        };
        let mut all: BTreeSet<String> = match &self.protected_namespaces {
            Some(given) => given.iter().cloned().collect(),
            None => usual(),
        };
        all.remove("");
        all
    }

    /// Whether headless Services are mirrored as such where a Link does not say.
    pub(crate) fn headless(&self) -> bool {
        self.enable_headless_services.unwrap_or_default()
    }

    /// What is taken in of one target cluster, at most.
    pub(crate) fn limits(&self) -> Limits {
        let services = self.max_services_per_link.unwrap_or(MAX_SERVICES);
        let metadata = self.max_metadata_kib_per_service.unwrap_or(MAX_METADATA);
        let bytes = self.max_mib_per_link.unwrap_or(MAX_MIB);
        let services = usize::try_from(services).unwrap_or(usize::MAX);
        Limits {
            services,
            hosts: services,
            metadata: KIB * usize::from(metadata),
            bytes: MIB * usize::from(bytes),
        }
    }
}

/// Parses an item of a list of namespaces, which may be empty.
fn namespace_or_blank(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Ok(String::new()),
        name => args::namespace(name),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::controller;

    #[test]
    fn flags_win_over_the_settings_of_the_controller_that_runs() {
        let parse = |flags: &[&str]| {
            let args = ["run-controller"].iter().chain(flags);
            controller(args.map(|arg| (*arg).to_owned()))
                .unwrap()
                .mirroring
        };
        let runs = parse(&[
            "--enable-headless-services",
            "--enable-namespace-creation",
            "--max-services-per-link=7",
            "--excluded-labels=a",
            "--protected-namespaces=a,, b",
            "--federated-service-selector=a=b",
        ]);
        let same = parse(&[]).or(runs.clone());
        assert!(same.headless());
        assert_eq!(same.limits().services, 7);
        let config = same.config().unwrap();
        assert_eq!(config.max_namespaces, 100);
        let protected: Vec<_> = config.protected_namespaces.into_iter().collect();
        assert_eq!(protected, ["a", "b"]);
        assert_eq!(config.local_members.unwrap().query(), "a in (b)");
        let other = parse(&[
            "--enable-headless-services=false",
            "--max-services-per-link=8",
            "--no-local-federation",
            "--max-namespaces-per-link=3",
            "--protected-namespaces=",
        ])
        .or(runs);
        assert!(!other.headless());
        assert_eq!(other.limits().services, 8);
        let config = other.config().unwrap();
        assert!(config.local_members.is_none());
        assert_eq!(config.max_namespaces, 3);
        assert!(config.protected_namespaces.is_empty());
        let defaults = parse(&[]);
        assert!(!defaults.headless());
        assert_eq!(defaults.limits().services, 10_000);
        let config = defaults.config().unwrap();
        assert_eq!(config.max_namespaces, 0);
        let protected: Vec<_> = config.protected_namespaces.into_iter().collect();
        assert_eq!(
            protected,
            ["kube-node-lease", "kube-public", "kube-system", "linkerd"]
        );
        assert_eq!(
            config.local_members.unwrap().query(),
            "mirror.linkerd.io/federated in (member)"
        );
    }
}
