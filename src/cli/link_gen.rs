//! `linkerd-mc link-gen`: reads from the target cluster what a link needs, and prints the link's objects.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Secret as KubernetesSecret, Service, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};

use super::{
    args::{self, Global, Output},
    cluster::{Cluster, block_on},
    complete, output,
    progress::spin,
};
use crate::{
    api::{duration::format_go_duration, labels, link::Link, selector_text::parse_selector},
    client::Access,
    hint::{fail, misuse},
    manifests::{
        gateway::{Gateway, Overrides},
        kubeconfig::{Context, Secret, is_local_address},
        link::{ClusterName, LinkObjects, Options, Target, link},
    },
    mirror::{
        self, ClusterNetworks, Copied, CopiedError, FederatedThrough, Federation, Host,
        PolicyError, Refused, allowed_namespaces, copied_rules, refusal, refused_message,
        target::networks,
    },
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Mirror Services of east into west
  linkerd-mc --context east link-gen --cluster-name east \\
    | kubectl --context west apply -f -

  # Use an API server address that west can reach
  linkerd-mc --context east link-gen --cluster-name east \\
    --api-server-address https://east.example.com:6443

  # Link on a flat network without a gateway, with a token for 90 days
  linkerd-mc --context east link-gen --cluster-name east \\
    --gateway=false --token-duration 2160h";

/// How long to wait for the token of a new Secret.
const TOKEN_WAIT: Duration = Duration::from_secs(5);
/// Poll interval for it.
const TOKEN_LOOK: Duration = Duration::from_millis(250);

/// Print the objects that link another cluster to this one
///
/// Run it against the target cluster, whose Services are mirrored. Apply the output to the source cluster, where the
/// mirrors are created. The output has two Secrets with credentials, and the Link.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LinkGen {
    /// Name of the target cluster, and the suffix of its mirrors
    #[arg(long, value_name = "NAME")]
    cluster_name: ClusterName,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    output: Output,
}

/// Flags of all commands that generate a link.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// Namespace of the Link in the source cluster, and of the ServiceAccount in the target cluster
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Address of the target's API server that the source cluster can reach [default: the kubeconfig's]
    #[arg(long, value_name = "URL", value_parser = args::server_address)]
    api_server_address: Option<String>,
    /// Allow connections to the target's API server without verified TLS: http://, or insecure-skip-tls-verify in the
    /// kubeconfig. An attacker on the network can then steal the token and change what is mirrored
    #[arg(long)]
    insecure_target_tls: bool,
    /// ServiceAccount in the target cluster that the source cluster uses
    #[arg(long, value_name = "NAME", default_value = labels::REMOTE_ACCESS_ACCOUNT, value_parser = args::object_name)]
    service_account_name: String,
    /// Namespace of this ServiceAccount, if it is not that of the Link
    #[arg(long, value_name = "NAMESPACE", value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    service_account_namespace: Option<String>,
    /// Use a token that expires after this time, such as 24h, instead of the ServiceAccount's token Secret. Run
    /// `linkerd-mc rotate` before it expires: an expired token cuts the controller and Linkerd off from the target
    /// cluster, and proxies keep the last endpoints, even with a new token in the Secrets, until linkerd-destination
    /// restarts
    #[arg(long, value_name = "DURATION", value_parser = token_duration)]
    token_duration: Option<Duration>,
    /// Use the target's gateway; without it, only remote discovery and federated Services work
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    gateway: bool,
    /// Name of the gateway's Service
    #[arg(long, value_name = "NAME", default_value = labels::GATEWAY_NAME, value_parser = args::object_name)]
    gateway_name: String,
    /// Namespace of the gateway's Service
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    gateway_namespace: String,
    /// Addresses of the gateway, comma-separated [default: those of its load balancer]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = args::host)]
    gateway_addresses: Vec<String>,
    /// Port of the gateway; 0 for the port of its Service
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    gateway_port: u16,
    /// Services to mirror through the gateway
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/exported=true", value_parser = parse_selector)]
    selector: LabelSelector,
    /// Services to mirror with remote discovery (pod to pod)
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/exported=remote-discovery", value_parser = parse_selector)]
    remote_discovery_selector: LabelSelector,
    /// Services that join federated Services
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/federated=member", value_parser = parse_selector)]
    federated_service_selector: LabelSelector,
    /// Annotations that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "excluded-annotations",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = args::keys
    )]
    exclude_annotations: Vec<String>,
    /// Labels that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "excluded-labels",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = args::keys
    )]
    exclude_labels: Vec<String>,
    /// Annotations that are copied to mirrors although they control other tools, such as external-dns: keys, or
    /// prefixes such as example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    copied_annotations: Vec<String>,
    /// Labels that are copied to mirrors although they control other tools, such as Argo CD: keys, or prefixes such as
    /// example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    copied_labels: Vec<String>,
    /// Labels and annotations that are copied to mirrors
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Copies::All)]
    copy: Copies,
    /// Networks that gateway addresses must be in, such as 192.0.2.0/24; also applies to addresses that a host name
    /// resolves to [default: all but loopback, link-local, multicast, metadata servers, and the source cluster's API
    /// server and Service range]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = gateway_network)]
    gateway_networks: Vec<String>,
    /// Mirror headless Services as headless Services
    #[arg(long)]
    enable_headless_services: bool,
    /// Namespaces of the source cluster that may be mirrored into, as a label selector such as
    /// 'kubernetes.io/metadata.name in (shop,web)' [default: all that are not protected]
    #[arg(long, value_name = "SELECTOR", value_parser = allowed)]
    allowed_namespaces: Option<String>,
    /// Which federated Services of the source cluster the target cluster may join
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Federated::Any)]
    federation: Federated,
    /// How the target cluster joins federated Services
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Through::Discovery)]
    federated_through: Through,
}

impl LinkArgs {
    /// Fails if a flag says something about the gateway that another one turns off.
    pub(super) fn agree(&self) -> anyhow::Result<()> {
        let for_gateways = [
            (
                self.federated_through == Through::Gateway,
                "--federated-through=gateway",
            ),
            (!self.gateway_addresses.is_empty(), "--gateway-addresses"),
            (self.gateway_port != 0, "--gateway-port"),
            (!self.gateway_networks.is_empty(), "--gateway-networks"),
        ];
        match for_gateways.iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) if !self.gateway => Err(misuse(
                format!("{flag} cannot be used with --gateway=false"),
                "remove one of them",
            )),
            _ => Ok(()),
        }
    }
}

/// How a target cluster joins federated Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Through {
    /// Linkerd discovers its endpoints; Pods must be able to connect to those of the target cluster
    Discovery,
    /// Through its gateway, on any network
    Gateway,
}

impl From<Through> for FederatedThrough {
    fn from(how: Through) -> Self {
        match how {
            Through::Discovery => Self::Discovery,
            Through::Gateway => Self::Gateway,
        }
    }
}

/// Which labels and annotations are copied to mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Copies {
    /// All that are not excluded, except those that control other tools
    All,
    /// Only those of --copied-labels and --copied-annotations, and which ports are opaque
    Listed,
}

impl From<Copies> for Copied {
    fn from(which: Copies) -> Self {
        match which {
            Copies::All => Self::All,
            Copies::Listed => Self::Listed,
        }
    }
}

/// Which federated Services a target cluster may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Federated {
    /// All that it has members of
    Any,
    /// Only those that have a member in the source cluster
    LocalMembers,
    /// None
    None,
}

impl From<Federated> for Federation {
    fn from(which: Federated) -> Self {
        match which {
            Federated::Any => Self::Any,
            Federated::LocalMembers => Self::LocalMembers,
            Federated::None => Self::None,
        }
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &LinkGen) -> anyhow::Result<()> {
    let access = global.access();
    let objects = block_on(generate(
        &access,
        &global.linkerd_namespace,
        &args.cluster_name,
        &args.link,
    ))?;
    output::data(&args.output.format(&objects.manifest()?))
}

/// Reads the target cluster behind `access`, and builds the objects that link another cluster to it.
pub(crate) async fn generate(
    access: &Access,
    linkerd_namespace: &str,
    cluster_name: &ClusterName,
    args: &LinkArgs,
) -> anyhow::Result<LinkObjects> {
    args.agree()?;
    let context = context(access, args)?;
    let cluster = Cluster::connect(access).await?;
    // In sequence: they share a connection, and the first error is the one to report.
    let config = cluster.linkerd_config(linkerd_namespace).await?;
    let token = token(&cluster, args).await?;
    let gateway = if args.gateway {
        Some(gateway(&cluster, args).await?)
    } else {
        None
    };
    let target = Target {
        name: cluster_name.clone(),
        config,
        linkerd_namespace: linkerd_namespace.to_owned(),
        kubeconfig: context.kubeconfig(&args.service_account_name, &token)?,
        gateway,
    };
    let options = Options {
        namespace: args.namespace.clone(),
        selector: args.selector.clone(),
        remote_discovery_selector: args.remote_discovery_selector.clone(),
        federated_service_selector: args.federated_service_selector.clone(),
        exclude_annotations: args.exclude_annotations.clone(),
        exclude_labels: args.exclude_labels.clone(),
        copied_annotations: args.copied_annotations.clone(),
        copied_labels: args.copied_labels.clone(),
        copy: args.copy.into(),
        gateway_networks: args.gateway_networks.clone(),
        headless_services: args.enable_headless_services,
        allowed_namespaces: args.allowed_namespaces.clone(),
        federation: args.federation.into(),
        federated_through: args.federated_through.into(),
    };
    if is_local_address(&context.cluster.server) {
        output::warning(&format!(
            "the link uses the API server address {}, which other clusters cannot reach; \
             pass an address that they can reach with --api-server-address",
            context.cluster.server
        ));
    }
    let made = link(&target, &options);
    warn_of_refused(&made.link)?;
    Ok(made)
}

/// Warns about addresses that the controller will refuse. Only the controller knows what names resolve to, and the
/// networks of the source cluster.
fn warn_of_refused(link: &Link) -> anyhow::Result<()> {
    let Some(gateway) = mirror::Target::parse(link, false)?.gateway else {
        return Ok(());
    };
    let known = gateway.hosts.iter().filter_map(|host| match host {
        Host::Ip(address) => Some(*address),
        Host::Name(_) => None,
    });
    let refused: Vec<Refused> = known
        .filter_map(|address| {
            let cluster = ClusterNetworks::default();
            let why = refusal(address, gateway.networks.as_deref(), &cluster)?;
            Some(Refused { address, why })
        })
        .collect();
    if !refused.is_empty() {
        output::warning(&format!(
            "the controller refuses these gateway addresses: {}; pass others with --gateway-addresses, or allow their \
             networks with --gateway-networks",
            refused_message(&refused)
        ));
    }
    Ok(())
}

/// The current context, with the API server address for the source cluster.
fn context(access: &Access, args: &LinkArgs) -> anyhow::Result<Context> {
    let kubeconfig = access.kubeconfig()?;
    let name = access.context_name(&kubeconfig)?;
    let mut context = Context::take(&kubeconfig, &name, |path| std::fs::read(path))?;
    if let Some(address) = &args.api_server_address {
        context.cluster.server.clone_from(address);
    }
    match context.cluster.insecure_tls() {
        Some(insecure) if !args.insecure_target_tls => Err(fail(
            insecure.what(),
            format!(
                "{}; or pass --insecure-target-tls to link anyway",
                insecure.remedy()
            ),
        )),
        Some(insecure) => {
            output::warning(&format!(
                "{}: an attacker on the network can steal the token and change what is mirrored; `check` fails for this link",
                insecure.what()
            ));
            Ok(context)
        }
        None => Ok(context),
    }
}

async fn token(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<Secret> {
    let namespace = args.service_account_namespace.as_ref();
    let (namespace, name) = (
        namespace.unwrap_or(&args.namespace),
        &args.service_account_name,
    );
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), namespace);
    let account = cluster
        .request("read the ServiceAccount", accounts.get_opt(name))
        .await?;
    if account.is_none() {
        return Err(fail(
            format!("ServiceAccount {name:?} not found in namespace {namespace:?}"),
            "create one with `linkerd-mc install` or `linkerd-mc allow`, or choose another with --service-account-name and --service-account-namespace",
        ));
    }
    match args.token_duration {
        Some(duration) => mint(cluster, &accounts, name, duration).await,
        None => stored_token(cluster, namespace, name).await,
    }
}

/// The token of an account's Secret. Waits for it, because Kubernetes adds it shortly after `allow` or `install`.
async fn stored_token(cluster: &Cluster, namespace: &str, name: &str) -> anyhow::Result<Secret> {
    let secrets = Api::<KubernetesSecret>::namespaced(cluster.client.clone(), namespace);
    let tokens =
        ListParams::default().fields(&format!("type={}", labels::SERVICE_ACCOUNT_TOKEN_TYPE));
    let started = Instant::now();
    let looking = async {
        loop {
            let found = cluster
                .request("list the token Secrets", secrets.list(&tokens))
                .await?
                .items
                .into_iter()
                .find(|secret| is_of(secret, name));
            let Some(secret) = found else {
                return Err(fail(
                    format!(
                        "no token Secret of ServiceAccount {name:?} found in namespace {namespace:?}"
                    ),
                    "create one with `linkerd-mc install` or `linkerd-mc allow`, or request a token with --token-duration",
                ));
            };
            let token = secret.data.as_ref().and_then(|data| data.get("token"));
            if let Some(token) = token.filter(|token| !token.0.is_empty()) {
                let text = std::str::from_utf8(&token.0).context("the token is not valid UTF-8")?;
                return Ok(Secret::new(text));
            }
            if started.elapsed() > TOKEN_WAIT {
                return Err(fail(
                    format!(
                        "the Secret {namespace}/{} has no token yet",
                        secret.metadata.name.as_deref().unwrap_or_default()
                    ),
                    "check that kube-controller-manager, which adds the token, is running, or request a token with --token-duration",
                ));
            }
            tokio::time::sleep(TOKEN_LOOK).await;
        }
    };
    spin("waiting for the token", looking).await
}

/// Whether a token belongs to the ServiceAccount `name`, and was not created by `rotate` for one link, which revokes it
/// some day.
fn is_of(secret: &KubernetesSecret, name: &str) -> bool {
    let account = secret.annotations().get(labels::SERVICE_ACCOUNT_NAME);
    account.is_some_and(|account| account == name)
        && !secret.labels().contains_key(labels::TOKEN_OF_LINK)
}

async fn mint(
    cluster: &Cluster,
    accounts: &Api<ServiceAccount>,
    name: &str,
    duration: Duration,
) -> anyhow::Result<Secret> {
    let asked = i64::try_from(duration.as_secs()).context("--token-duration is too long")?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(asked),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = cluster
        .request(
            "request a token for the ServiceAccount",
            accounts.create_token_request(name, &PostParams::default(), &request),
        )
        .await?;
    let granted = answer.spec.expiration_seconds.unwrap_or(asked);
    if granted < asked {
        let granted = Duration::from_secs(granted.unsigned_abs());
        output::warning(&format!(
            "the cluster limits the token to {}; run `linkerd-mc rotate` before it expires",
            format_go_duration(granted)
        ));
    }
    let status = answer.status.context("the API server returned no token")?;
    Ok(Secret::new(status.token))
}

async fn gateway(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<Gateway> {
    let (namespace, name) = (&args.gateway_namespace, &args.gateway_name);
    let services = Api::<Service>::namespaced(cluster.client.clone(), namespace);
    let service = cluster
        .request("read the gateway's Service", services.get_opt(name))
        .await?
        .ok_or_else(|| {
            fail(
                format!("gateway Service {name:?} not found in namespace {namespace:?}"),
                "install it with `linkerd-mc install`, choose another with --gateway-name and --gateway-namespace, or link without one with --gateway=false",
            )
        })?;
    let overrides = Overrides {
        addresses: args.gateway_addresses.clone(),
        port: Some(args.gateway_port).filter(|port| *port != 0),
    };
    Gateway::read(&service, &overrides)
}

/// A key or a prefix of labels or annotations to copy.
fn copied(text: &str) -> Result<String, CopiedError> {
    match copied_rules(text)?.first() {
        Some(rule) => Ok((*rule).to_owned()),
        None => Err(CopiedError::NoRule(text.to_owned())),
    }
}

/// A selector of namespaces, as it was typed.
fn allowed(text: &str) -> Result<String, PolicyError> {
    allowed_namespaces(text).map(|_| text.to_owned())
}

/// A network of gateways.
fn gateway_network(text: &str) -> Result<String, String> {
    let read = networks(text).map_err(|error| error.to_string())?;
    let first = read.first().ok_or("must not be empty")?;
    Ok(first.to_string())
}

/// Kubernetes rejects durations of less than ten minutes.
fn token_duration(text: &str) -> Result<Duration, String> {
    let duration = args::duration(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(600) {
        return Err("must be at least 10m".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_of_another_link_is_not_used() {
        let secret = |labels: serde_json::Value| {
            let annotations = serde_json::json!({labels::SERVICE_ACCOUNT_NAME: "west"});
            let metadata = serde_json::json!({"labels": labels, "annotations": annotations});
            serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap()
        };
        let shared = secret(serde_json::json!({labels::EXTENSION: "multicluster"}));
        assert!(is_of(&shared, "west"));
        assert!(!is_of(&shared, "other"));
        let of_a_link = secret(serde_json::json!({labels::TOKEN_OF_LINK: "0123456789abcdef"}));
        assert!(!is_of(&of_a_link, "west"));
    }

    #[test]
    fn a_token_lives_for_ten_minutes_at_least() {
        assert_eq!(token_duration("24h"), Ok(Duration::from_secs(86_400)));
        assert!(token_duration("10m").is_ok());
        for text in ["9m59s", "0", "soon", ""] {
            assert!(token_duration(text).is_err(), "{text:?}");
        }
    }
}
