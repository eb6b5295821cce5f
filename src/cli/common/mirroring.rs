//! Flags of mirroring that `run-controller` and `plan` share, so that a plan shows what the controller will do.

use std::{collections::BTreeSet, time::Duration};

use clap::{ArgAction, ArgMatches, Args, FromArgMatches as _, builder::BoolishValueParser};
use clap_complete::ArgValueCompleter;
use client::requests::explain;
use controller::preview::{self, PreviewSettings};
use hints::hint::HintExt as _;
use kube::Client;
use mirror_core::{
    api::{labels, selector_text},
    mirror::{Config, Exclusions, Limits},
};
use observe::clusters::workloads::ControllerSettings;

use super::{args, complete, output};

/// Flags of mirroring. A flag that is not given is `None`, so that `plan` can take its value from the running
/// controller.
#[derive(Clone, Debug, Args)]
pub struct Mirroring {
    /// Namespace of Links and their credentials
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub namespace: String,
    /// Adopt the mirrors of the installation whose Links are in this namespace, once there are Links to the same clusters
    #[arg(long, value_name = "NAMESPACE", value_parser = args::namespace)]
    take_over_from: Option<String>,
    /// Create missing namespaces for mirrors
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_namespace_creation: Option<bool>,
    /// Mirror headless Services as headless, unless a Link sets this itself
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_headless_services: Option<bool>,
    /// Maximum number of mirrored Services per target cluster [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_services_per_link: Option<u32>,
    /// Maximum size of a Service's labels and annotations in KiB; if they are larger, none are copied [default: 16]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_metadata_kib_per_service: Option<u16>,
    /// Maximum memory for the Services and EndpointSlices of a target cluster, in MiB [default: 32]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(1..))]
    max_mib_per_link: Option<u16>,
    /// Maximum number of namespaces that are created per target cluster [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_namespaces_per_link: Option<u32>,
    /// Namespaces in which nothing is mirrored or federated, whatever a Link allows; an empty value for none. The
    /// namespace of the Links is always protected [default: kube-system,kube-public,kube-node-lease,linkerd]
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',', value_parser = namespace_or_blank)]
    protected_namespaces: Option<Vec<String>>,
    /// Trust domain of the workloads of this cluster, which Services of other clusters name if they are exported to some
    /// clusters only
    #[arg(long, value_name = "DOMAIN", value_parser = args::object_name)]
    trust_domain: Option<String>,
    /// Services of this cluster that join federated Services [default: mirror.linkerd.io/federated=member]
    #[arg(long, value_name = "SELECTOR", value_parser = args::selector)]
    federated_service_selector: Option<String>,
    /// Do not let Services of this cluster join federated Services
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    no_local_federation: Option<bool>,
    /// Apply the preferences of members of federated Services, with Gateway API routes
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_parser = BoolishValueParser::new(), hide_possible_values = true
    )]
    enable_routes: Option<bool>,
    /// How long a preferred cluster must be available again before it receives requests [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    hold_down: Option<Duration>,
    /// How long federated Services do not name the cluster of a new link, so that Linkerd has added it [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    join_delay: Option<Duration>,
    /// Labels of local members that are not copied to federated Services, such as a,example.com/*
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-labels"
    )]
    excluded_labels: Option<Vec<String>>,
    /// Annotations of local members that are not copied to federated Services
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        alias = "exclude-annotations"
    )]
    excluded_annotations: Option<Vec<String>>,
}

/// The settings in the arguments of a container that runs the controller; `None` for those of another.
pub type Parse = fn(Vec<String>) -> Option<Mirroring>;

/// Default of `--max-services-per-link`.
const MAX_SERVICES: u32 = 10_000;
/// Default of `--max-metadata-kib-per-service`.
const MAX_METADATA: u16 = 16;
/// Default of `--max-mib-per-link`.
const MAX_MIB: u16 = 32;
/// Bytes of a KiB and of a MiB.
const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;
/// Default of `--max-namespaces-per-link`.
const MAX_NAMESPACES: u32 = 100;
/// Default of `--hold-down`.
const HOLD_DOWN: Duration = Duration::from_secs(30);
/// Default of `--join-delay`. In the suite with real proxies, 5 s are enough for one cluster whose API server is 150 ms
/// away each way. Linkerd adds several one after the other.
const JOIN_DELAY: Duration = Duration::from_secs(20);

impl Mirroring {
    /// The settings of the running controller, overridden by the flags that are `given`. If they cannot be read, prints
    /// a note and returns `self`, which has only the given flags. Fails if the API server does not respond.
    pub async fn over_deployment(
        &self,
        given: &ArgMatches,
        client: &Client,
        parse: Parse,
    ) -> anyhow::Result<Self> {
        match Self::running(&self.namespace, client, parse).await? {
            Ok(mut settings) => {
                settings.update_from_arg_matches(given)?;
                Ok(settings)
            }
            Err(why) => {
                output::note(&format!(
                    "{why}; planning with the given flags and the defaults of run-controller"
                ));
                Ok(self.clone())
            }
        }
    }

    /// The settings of the running controller, or why they cannot be read. Fails if the API server does not respond.
    pub async fn running(
        namespace: &str,
        client: &Client,
        parse: Parse,
    ) -> anyhow::Result<Result<Self, String>> {
        let name = labels::CONTROLLER_NAME;
        let why = match preview::controller_args(client, namespace).await {
            Ok(Some(containers)) => match containers.into_iter().find_map(parse) {
                Some(settings) => return Ok(Ok(settings)),
                None => format!("failed to read the arguments of Deployment {namespace}/{name}"),
            },
            Ok(None) => format!("Deployment {namespace}/{name} not found"),
            Err(error) => match error.downcast_ref() {
                Some(why @ kube::Error::Api(_)) => {
                    format!(
                        "cannot read Deployment {namespace}/{name}: {}",
                        explain(why)
                    )
                }
                _ => return Err(error),
            },
        };
        Ok(Err(why))
    }

    /// What `preview` needs of them, and what to do if the target cluster cannot be read with the Link's credentials.
    /// Fails on an invalid selector.
    pub fn of_preview(&self, unreadable: String) -> anyhow::Result<PreviewSettings> {
        Ok(PreviewSettings {
            config: self.config()?,
            headless: self.headless(),
            limits: self.limits(),
            unreadable,
        })
    }

    /// The settings that `check` needs, from these flags.
    pub fn settings(self) -> ControllerSettings {
        let usual = ControllerSettings::default();
        let members = self.federated_service_selector.or(usual.local_members);
        ControllerSettings {
            local_members: members.filter(|_| self.no_local_federation != Some(true)),
            applies_preferences: self.enable_routes.unwrap_or_default(),
            export_gateway: None,
            permits_exports: false,
        }
    }

    /// The configuration of the core. Fails on an invalid selector.
    pub fn config(&self) -> anyhow::Result<Config> {
        let text = self
            .federated_service_selector
            .as_deref()
            .unwrap_or(labels::FEDERATED_MEMBERS);
        let members = selector_text::parse(text).hint(
            || format!("invalid --federated-service-selector: {text:?}"),
            || "use a label selector such as mirror.linkerd.io/federated=member".into(),
        )?;
        let keys = |keys: &Option<Vec<String>>| keys.clone().unwrap_or_default();
        Ok(Config {
            namespace: self.namespace.clone(),
            take_over_from: self.take_over_from.clone(),
            max_namespaces: self.max_namespaces(),
            protected_namespaces: self.protected_namespaces(),
            trust_domain: self.trust_domain.clone(),
            local_members: members.filter(|_| self.no_local_federation != Some(true)),
            local_exclusions: Exclusions::new(
                &keys(&self.excluded_labels),
                &keys(&self.excluded_annotations),
            ),
            routes: self
                .enable_routes
                .unwrap_or_default()
                .then(|| self.hold_down.unwrap_or(HOLD_DOWN)),
            join_delay: self.join_delay.unwrap_or(JOIN_DELAY),
        })
    }

    /// Maximum number of namespaces that are created per target cluster.
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

    /// Whether headless Services are mirrored as headless, unless a Link sets it.
    pub fn headless(&self) -> bool {
        self.enable_headless_services.unwrap_or_default()
    }

    /// Limits per target cluster.
    pub fn limits(&self) -> Limits {
        let services = self.max_services_per_link.unwrap_or(MAX_SERVICES);
        let metadata = self.max_metadata_kib_per_service.unwrap_or(MAX_METADATA);
        let bytes = self.max_mib_per_link.unwrap_or(MAX_MIB);
        Limits {
            services: usize::try_from(services).unwrap_or(usize::MAX),
            metadata: KIB * usize::from(metadata),
            bytes: MIB * usize::from(bytes),
            host: Limits::HOST,
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
    use super::*;
    use crate::cli::controller;

    #[test]
    fn flags_override_the_settings_of_the_running_controller() {
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
        let over = |flags: &[&str]| {
            let command = clap::Command::new("plan").no_binary_name(true);
            let given = Mirroring::augment_args(command).get_matches_from(flags);
            let mut settings = runs.clone();
            settings.update_from_arg_matches(&given).unwrap();
            settings
        };
        let same = over(&[]);
        assert!(same.headless());
        assert_eq!(same.limits().services, 7);
        let config = same.config().unwrap();
        assert_eq!(config.max_namespaces, 100);
        let protected: Vec<_> = config.protected_namespaces.into_iter().collect();
        assert_eq!(protected, ["a", "b"]);
        assert_eq!(config.local_members.unwrap().query(), "a in (b)");
        let other = over(&[
            "--enable-headless-services=false",
            "--max-services-per-link=8",
            "--no-local-federation",
            "--max-namespaces-per-link=3",
            "--protected-namespaces=",
        ]);
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

    #[test]
    fn arguments_set_local_members_and_preferences() {
        for (args, local_members, applies_preferences) in [
            (&[][..], Some("mirror.linkerd.io/federated=member"), false),
            (&["--federated-service-selector=a=b"], Some("a=b"), false),
            (
                &["--federated-service-selector", "a=b", "--enable-routes"],
                Some("a=b"),
                true,
            ),
            (
                &["--no-local-federation", "--enable-routes=true"],
                None,
                true,
            ),
            (
                &["--no-local-federation=false", "--enable-routes=False"],
                Some("mirror.linkerd.io/federated=member"),
                false,
            ),
            (
                &["--enable-routes-not=true"],
                Some("mirror.linkerd.io/federated=member"),
                false,
            ),
        ] {
            let line = ["run-controller"].iter().chain(args);
            let settings = crate::cli::settings_of(line.map(ToString::to_string).collect());
            let settings = settings.unwrap_or_default();
            assert_eq!(settings.local_members.as_deref(), local_members, "{args:?}");
            assert_eq!(
                settings.applies_preferences, applies_preferences,
                "{args:?}"
            );
        }
    }
}
