//! `linkerd-mc install`: prints the objects of the extension.

use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgMatches, Args, ValueHint};
use clap_complete::ArgValueCompleter;
use client::Access;
use hints::hint::{HintExt as _, misuse};
pub use links::extension::{ExtensionObjects, InstallFacts};
use links::{fleet::loaded::named, given::Given};
use manifests::{
    link::ClusterName,
    values::{Typing, UserValues, Values},
};
use mirror_core::api::{labels, link::LinkerdConfig};

use super::{
    common::{
        args::{self, Global, ManifestOutput},
        cluster::block_on,
        complete, output,
    },
    fleet::{FleetFile, clusters},
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Install into the cluster of the current context
  linkerd-mc install | kubectl apply -f -

  # Install without a gateway, in a cluster that only mirrors from others
  linkerd-mc install --gateway=false | kubectl apply -f -

  # Use a controller image from your own registry
  linkerd-mc install --set controller.image.name=registry.example.com/mc \\
    | kubectl apply -f -

  # Write a values file for high availability, and use it
  linkerd-mc install --ha --print-values > values.yaml
  linkerd-mc install --values values.yaml | kubectl apply -f -

  # List the images to copy into a registry of a cluster without the internet
  linkerd-mc install --registry registry.example.com --images

  # Render without a cluster, as one JSON object per line
  linkerd-mc install --ignore-cluster -o json

  # Install into east, with the values of a file of `fleet`
  linkerd-mc install --file fleet.yaml east \\
    | kubectl --context east apply -f -";

/// What belongs to the file of a fleet, which has the values.
const NOT_WITH_FILE: [&str; 14] = [
    "namespace",
    "gateway",
    "gateway_port",
    "gateway_probe_seconds",
    "gateway_probe_port",
    "gateway_service_type",
    "gateway_healthcheck_nodeport",
    "service_mirror_credentials",
    "ha",
    "registry",
    "values",
    "set",
    "set_string",
    "set_file",
];

/// Print the manifests of the multicluster extension
///
/// Pipe the output into `kubectl apply -f -`. The command reads Linkerd's trust domain and CNI mode from the cluster,
/// and changes nothing itself.
///
/// With --file, the values are those of `install` at the top of the file of a fleet, and over them those of the cluster.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Install {
    /// With --file, the cluster of the file
    #[arg(value_name = "CLUSTER", requires = "file", add = ArgValueCompleter::new(clusters))]
    cluster: Option<ClusterName>,
    #[command(flatten)]
    fleet: FleetFile,
    /// Namespace of the extension
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Install the gateway that other clusters send traffic to
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    gateway: bool,
    /// Port of the gateway for mirrored traffic
    #[arg(long, value_name = "PORT", default_value_t = 4143, value_parser = clap::value_parser!(u16).range(1..))]
    gateway_port: u16,
    /// Interval of the probes that other clusters send to the gateway, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    gateway_probe_seconds: u32,
    /// Port of the gateway for probes
    #[arg(long, value_name = "PORT", default_value_t = 4191, value_parser = clap::value_parser!(u16).range(1..))]
    gateway_probe_port: u16,
    /// Type of the gateway's Service
    #[arg(long, value_name = "TYPE", default_value = "LoadBalancer", value_parser = ["LoadBalancer", "NodePort", "ClusterIP"])]
    gateway_service_type: String,
    /// Node port for the load balancer's health checks of the gateway; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    gateway_healthcheck_nodeport: u16,
    /// Create the ServiceAccount that controllers of other clusters use
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    service_mirror_credentials: bool,
    /// Run several replicas of each component, spread over nodes and zones if possible
    #[arg(long)]
    ha: bool,
    /// Registry of all images; replaces the one in controller.image.name and in gateway.pauseImage
    #[arg(
        long,
        value_name = "REGISTRY",
        value_parser = args::registry,
        env = "LINKERD_DOCKER_REGISTRY",
        hide_env_values = true
    )]
    registry: Option<String>,
    /// Do not contact the cluster
    #[arg(long)]
    ignore_cluster: bool,
    /// How long to wait for Linkerd to be installed, such as 5m
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = args::duration)]
    wait: Duration,
    /// Print all values with comments, as set by the other flags, instead of the manifests
    #[arg(long, conflicts_with = "format")]
    print_values: bool,
    /// Print the images that the manifests name, one a line, instead of the manifests
    #[arg(long, conflicts_with_all = ["format", "print_values"])]
    images: bool,
    #[command(flatten)]
    output: ManifestOutput,
    #[command(flatten)]
    values: ValueArgs,
}

/// Values from files and flags, as in Helm.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Values")]
struct ValueArgs {
    /// Set values from a YAML file; - is stdin (repeatable)
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    values: Vec<String>,
    /// Set values, such as gateway.replicas=2,podLabels.team=mesh (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Like --set, but all values are text (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set_string: Vec<String>,
    /// Like --set, but read each value from a file (repeatable)
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
}

/// What is installed where.
struct InstallPlace {
    access: Access,
    linkerd: String,
    /// The values of the file.
    given: UserValues,
    args: Install,
}

/// Runs the command. `given` are its flags as clap has them.
pub fn run(global: &Global, args: &Install, given: &ArgMatches) -> anyhow::Result<()> {
    let place = if args.fleet.file.is_some() {
        block_on(Box::pin(InstallPlace::of_file(
            global,
            args,
            &Given::of(given),
        )))?
    } else {
        InstallPlace {
            access: global.access(),
            linkerd: global.linkerd_namespace.clone(),
            given: UserValues::default(),
            args: args.clone(),
        }
    };
    let InstallPlace {
        access,
        linkerd,
        given,
        args,
    } = place;
    if args.print_values {
        let (values, warnings) = merged(&linkerd, &args, &given, None)?;
        output::warnings(&warnings);
        return output::data(&values.documented()?);
    }
    if args.images {
        let (values, warnings) = merged(&linkerd, &args, &given, None)?;
        output::warnings(&warnings);
        return output::data(&(values.images().join("\n") + "\n"));
    }
    let asked = InstallFacts::of(&access, &linkerd, args.wait);
    let facts = (!args.ignore_cluster)
        .then(|| block_on(asked))
        .transpose()?;
    let made = rendered(&linkerd, &args, &given, facts.as_ref())?;
    output::warnings(&made.warnings);
    output::data(&args.output.format(&made.manifest)?)
}

impl InstallPlace {
    /// A cluster of the file.
    async fn of_file(global: &Global, args: &Install, given: &Given) -> anyhow::Result<Self> {
        if let Some(flag) = NOT_WITH_FILE.iter().find(|flag| given.has(&[**flag])) {
            return Err(misuse(
                format!("--{} cannot be used with --file", flag.replace('_', "-")),
                "write it into the file, as a value of `install`",
            ));
        }
        let (Some(loaded), Some(name)) = (args.fleet.load(global).await?, &args.cluster) else {
            return Err(misuse(
                "missing the name of a cluster",
                "name a cluster of the file",
            ));
        };
        let cluster = loaded.cluster(name)?;
        let own = loaded.access(&global.access(), cluster);
        Ok(Self {
            access: if args.ignore_cluster || args.print_values || args.images {
                own
            } else {
                named(&own, name)?
            },
            linkerd: loaded.linkerd.clone(),
            given: cluster.install.clone(),
            args: args.of_fleet(&loaded.namespace),
        })
    }
}

impl Install {
    /// The arguments for a cluster of a fleet. Its file says where the image is, and not a variable of whoever runs the
    /// command.
    fn of_fleet(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            registry: None,
            ..self.clone()
        }
    }
}

/// What `install --file` prints for these values.
#[cfg(test)]
pub fn install_with(
    linkerd: &str,
    namespace: &str,
    given: &UserValues,
    facts: Option<&InstallFacts>,
) -> anyhow::Result<ExtensionObjects> {
    use clap::FromArgMatches as _;
    let command = Install::augment_args(clap::Command::new("install")).no_binary_name(true);
    let command = Global::augment_args(command);
    let matches = command.try_get_matches_from(std::iter::empty::<&str>())?;
    let args = Install::from_arg_matches(&matches)?.of_fleet(namespace);
    rendered(linkerd, &args, given, facts)
}

/// The objects with the values of all flags and files.
fn rendered(
    linkerd: &str,
    args: &Install,
    given: &UserValues,
    facts: Option<&InstallFacts>,
) -> anyhow::Result<ExtensionObjects> {
    let config = facts.map(|facts| &facts.config);
    let (values, warnings) = merged(linkerd, args, given, config)?;
    ExtensionObjects::of(&args.namespace, values, facts, warnings)
}

/// The values of all flags and files, over those that are given, with a warning for each obsolete key.
fn merged(
    linkerd: &str,
    args: &Install,
    given: &UserValues,
    config: Option<&LinkerdConfig>,
) -> anyhow::Result<(Values, Vec<String>)> {
    let base = values(linkerd, args, config);
    let (mut values, warnings) = args.values.over(given, &base)?;
    if let Some(registry) = args.registry.as_deref().filter(|text| !text.is_empty()) {
        values.use_registry(registry);
    }
    Ok((values, warnings))
}

fn values(linkerd: &str, args: &Install, config: Option<&LinkerdConfig>) -> Values {
    let mut values = Values {
        linkerd_namespace: linkerd.to_owned(),
        remote_mirror_service_account: args.service_mirror_credentials,
        ..Default::default()
    };
    let gateway = &mut values.gateway;
    gateway.enabled = args.gateway;
    gateway.port = args.gateway_port;
    gateway.probe.seconds = args.gateway_probe_seconds;
    gateway.probe.port = args.gateway_probe_port;
    gateway.service_type.clone_from(&args.gateway_service_type);
    gateway.health_check_node_port =
        Some(args.gateway_healthcheck_nodeport).filter(|port| *port != 0);
    if let Some(config) = config {
        values.take_domains(config);
    }
    if args.ha {
        values.make_highly_available();
    }
    values
}

impl ValueArgs {
    /// Merges these values over the given ones, and both over `base`. Returns them with a warning for each obsolete key.
    fn over(&self, given: &UserValues, base: &Values) -> anyhow::Result<(Values, Vec<String>)> {
        let mut given = given.clone();
        for name in &self.values {
            let shown = if name == "-" { "stdin" } else { name };
            given.add_file(shown, &read_values(name)?)?;
        }
        for text in &self.set {
            given.add_set("--set", text, Typing::Infer)?;
        }
        for text in &self.set_string {
            given.add_set("--set-string", text, Typing::Text)?;
        }
        for text in &self.set_file {
            given.add_set_file(text, read_values)?;
        }
        given.over(base)
    }
}

fn read_values(name: &str) -> anyhow::Result<String> {
    if name == "-" {
        return std::io::read_to_string(std::io::stdin()).context("cannot read values from stdin");
    }
    std::fs::read_to_string(name).hint(
        || format!("cannot read the file {name}"),
        || "check the path".into(),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use manifests::install::install;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_controller_understands_every_argument_that_it_is_given() {
        let mut all = Values {
            enable_namespace_creation: true,
            ..Default::default()
        };
        all.controller.enable_headless_services = true;
        all.federation.excluded_labels = vec!["a".into(), "b.example/*".into()];
        all.federation.excluded_annotations = vec!["c".into()];
        let mut alone = Values::default();
        alone.federation.enabled = false;
        for values in [Values::default(), all, alone] {
            let manifest = install("mc", &values).unwrap();
            let deployment = manifest
                .objects()
                .unwrap()
                .iter()
                .find(|object| {
                    object["metadata"]["name"] == labels::CONTROLLER_NAME
                        && object["kind"] == "Deployment"
                })
                .unwrap();
            let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
                .as_array()
                .unwrap()
                .iter()
                .map(|arg| arg.as_str().unwrap().to_owned());
            let parsed = crate::cli::controller(args).unwrap();
            assert_eq!(parsed.service_mirror.warnings(), [""; 0]);
        }
    }

    /// The values of a command line.
    fn values_of(line: &str) -> Values {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let crate::cli::Command::Install(args) = &cli.command else {
            panic!("not the install command");
        };
        let linkerd = &cli.global.linkerd_namespace;
        let merged = merged(linkerd, args, &UserValues::default(), None);
        merged.unwrap().0
    }

    #[test]
    fn printed_values_are_what_values_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.yaml");
        for flags in [
            "",
            " --ha --registry registry.example:5000/mc",
            " --gateway=false --service-mirror-credentials=false -L mesh",
            " --gateway-port 1 --gateway-probe-port 2 --gateway-probe-seconds 9 --gateway-healthcheck-nodeport 30000",
            " --set identityTrustDomain=own.example,controller.image.version=v1",
            " --set federation.excludedLabels={a,b},podLabels.team=mesh,protectedNamespaces={}",
            " --set controller.resources.limits.memory=1Gi,gateway.tolerations[0].operator=Exists",
        ] {
            let values = values_of(&format!("linkerd-mc install{flags}"));
            std::fs::write(&path, values.documented().unwrap()).unwrap();
            let file = path.display();
            let read = values_of(&format!("linkerd-mc install --values {file}"));
            assert_eq!(read, values, "{flags}");
        }
    }

    #[test]
    fn printed_values_leave_to_the_program_and_the_cluster_what_they_know() {
        let printed = values_of("linkerd-mc install --ha").documented().unwrap();
        for line in ["    # version: ", "# identityTrustDomain: "] {
            assert!(printed.contains(&format!("\n{line}")), "{line}: {printed}");
        }
        let set = values_of("linkerd-mc install --set controller.image.version=v1");
        assert!(set.documented().unwrap().contains("\n    version: v1\n"));
    }

    #[test]
    fn flags_and_values_have_the_same_defaults() {
        let cli = Cli::try_parse_from(["linkerd-mc", "install"]).unwrap();
        let crate::cli::Command::Install(args) = &cli.command else {
            panic!("not the install command");
        };
        let linkerd = &cli.global.linkerd_namespace;
        assert_eq!(values(linkerd, args, None), Values::default());
    }
}
