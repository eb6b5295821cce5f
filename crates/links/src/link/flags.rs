//! The flags of all commands that generate a link.

use std::time::Duration;

use clap::{Args, Command, FromArgMatches as _, ValueEnum};
use hints::{console::Console, hint::misuse};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use manifests::link::{EXPORTED, LinkOptions};
use mirror_core::{
    api::{labels, selector_text::parse_selector},
    mirror::FederatedThrough,
};

use crate::{
    proxy_url::{ProxyUrl, proxy_url},
    rotate::tokens::Lifetime,
    typed,
};

/// Flags of all commands that generate a link.
#[derive(Clone, Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct LinkArgs {
    /// Namespace of the Link in the source cluster, and of the ServiceAccount in the target cluster, unless
    /// --service-account-namespace names another one
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = typed::namespace)]
    pub namespace: String,
    /// Address of the target's API server that the source cluster can reach [default: the kubeconfig's]
    #[arg(long, value_name = "URL", value_parser = typed::server_address)]
    pub api_server_address: Option<String>,
    /// Reach the target's API server through its gateway for that, so that nothing but gateways has to be open: set
    /// apiGateway.apiServerAddress there. Remote discovery also needs --discovery-through-gateway or --api-server-address,
    /// and without them the target cluster joins federated Services through its gateway
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub api_server_through_gateway: bool,
    /// Let Linkerd's control plane reach the target's API server through that gateway too, for remote discovery
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub discovery_through_gateway: bool,
    /// Proxy on the way to the target's API server: http://, https:// or socks5://, or `none` [default: the kubeconfig's]
    #[arg(long, value_name = "URL", value_parser = proxy_url)]
    pub proxy_url: Option<ProxyUrl>,
    /// Allow connections to the target's API server without verified TLS: insecure-skip-tls-verify in the kubeconfig, or
    /// http://, over which no token is sent. An attacker on the network can then steal the token and change what is
    /// mirrored
    #[arg(long)]
    pub insecure_target_tls: bool,
    /// ServiceAccount in the target cluster that the source cluster uses
    #[arg(long, value_name = "NAME", default_value = labels::REMOTE_ACCESS_ACCOUNT, value_parser = typed::object_name)]
    pub service_account_name: String,
    /// Namespace of the ServiceAccount in the target cluster [default: that of the Link]
    #[arg(long, value_name = "NAMESPACE", value_parser = typed::namespace)]
    pub service_account_namespace: Option<String>,
    /// How long a new token is valid, such as 24h; `never` for one that never expires [default: 90 days, or never if the
    /// target cluster limits tokens to less than a week]. Run `linkerd-mc rotate` before it expires: an expired token cuts
    /// the controller and Linkerd off from the target cluster, and proxies keep the last endpoints, even with a new token
    /// in the Secrets, until linkerd-destination restarts
    #[arg(long, value_name = "DURATION", value_parser = token_duration)]
    pub token_duration: Option<Lifetime>,
    /// Use the target's gateway; without it, only remote discovery and federated Services work
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub gateway: bool,
    /// Name of the gateway's Service
    #[arg(long, value_name = "NAME", default_value = labels::GATEWAY_NAME, value_parser = typed::object_name)]
    pub gateway_name: String,
    /// Namespace of the gateway's Service
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = typed::namespace)]
    pub gateway_namespace: String,
    /// Addresses of the gateway, comma-separated; `any` for those of its load balancer, which are the default
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = gateway_address)]
    pub gateway_addresses: Vec<String>,
    /// Port of the gateway; 0 for the port of its Service
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub gateway_port: u16,
    /// Which settings the link gets that no flag names
    #[arg(long, value_name = "PROFILE", default_value = "open")]
    pub profile: LinkProfile,
    #[command(flatten)]
    pub options: LinkOptions,
}

impl Default for LinkArgs {
    /// Those of a command line without flags.
    fn default() -> Self {
        let command = Self::augment_args(Command::new("link")).no_binary_name(true);
        let matches = command.try_get_matches_from([""; 0]);
        let defaults = matches.and_then(|matches| Self::from_arg_matches(&matches));
        defaults.expect("no flag is required, and each default is a value")
    }
}

/// Which settings a link gets that no flag names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LinkProfile {
    /// Those that mirror everything that is exported
    #[default]
    Open,
    /// --copy=listed and --federation=local-members; requires --allowed-namespaces, and with a gateway --gateway-networks
    Strict,
}

impl LinkProfile {
    /// Its word in the file of a fleet.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::from_str(text, false).map_err(|_| "must be one of open, strict".to_owned())
    }
}

/// The word for the addresses of the gateway's load balancer.
const ANY: &str = "any";

/// What a flag about the gateway does together with `--gateway=false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Useless {
    /// It is refused.
    Refused,
    /// `link` refuses it, and `link-gen` warns, because `linkerd multicluster link-gen` accepts it.
    RefusedByLink,
    /// It has no effect, as for `linkerd multicluster`, and both say so.
    Warned,
}

impl LinkArgs {
    /// Fails, or warns, if a flag says something about the gateway that another one turns off. `is_link` is whether the
    /// command is `link`.
    pub fn agree(&self, is_link: bool, console: &dyn Console) -> anyhow::Result<()> {
        if self.api_server_through_gateway
            && self.api_server_address.is_none()
            && self
                .proxy_url
                .as_ref()
                .is_some_and(|proxy| proxy.url().is_some())
        {
            return Err(misuse(
                "--proxy-url cannot be used with --api-server-through-gateway",
                "remove one of them, or pass --api-server-address for Linkerd's control plane",
            ));
        }
        let set = self.set_addresses();
        if !set.is_empty() && set.len() < self.gateway_addresses.len() {
            return Err(misuse(
                "--gateway-addresses has both any and addresses",
                "pass either",
            ));
        }
        for (flag, useless) in self.useless() {
            if useless == Useless::Refused || is_link && useless == Useless::RefusedByLink {
                return Err(misuse(
                    format!("{flag} cannot be used with --gateway=false"),
                    "remove one of them",
                ));
            }
            console.warning(&format!("{flag} has no effect with --gateway=false"));
        }
        Ok(())
    }

    /// Fails if Linkerd's control plane would have two ways to the API server, or if federated Services were to be
    /// discovered and it has none.
    pub fn agree_on_discovery(&self) -> anyhow::Result<()> {
        if self.discovery_through_gateway && !self.api_server_through_gateway {
            return Err(misuse(
                "--discovery-through-gateway needs --api-server-through-gateway",
                "pass both, or neither",
            ));
        }
        if self.discovery_through_gateway && self.api_server_address.is_some() {
            return Err(misuse(
                "--discovery-through-gateway cannot be used with --api-server-address",
                "remove one of them",
            ));
        }
        let discovers = self.options.federated_through == FederatedThrough::Discovery;
        if discovers && self.is_without_discovery() {
            return Err(misuse(
                "--federated-through=discovery cannot be used with --api-server-through-gateway alone",
                "pass --discovery-through-gateway or --api-server-address for Linkerd's control plane, or \
                 --federated-through=gateway",
            ));
        }
        Ok(())
    }

    /// The addresses of the gateway; none for those of its load balancer.
    pub fn set_addresses(&self) -> Vec<String> {
        let set = self.gateway_addresses.iter();
        set.filter(|address| *address != ANY).cloned().collect()
    }

    /// Whether Linkerd's control plane cannot reach the target's API server.
    pub fn is_without_discovery(&self) -> bool {
        self.api_server_through_gateway
            && self.api_server_address.is_none()
            && !self.discovery_through_gateway
    }

    /// The flags that were given, and have no effect.
    pub fn useless(&self) -> impl Iterator<Item = (&'static str, Useless)> {
        use Useless::{Refused, RefusedByLink, Warned};
        let options = &self.options;
        let nothing_else = self.is_without_discovery();
        let through_gateway = options.federated_through == FederatedThrough::Gateway;
        let networks = options
            .gateway_networks
            .iter()
            .any(|network| network != "any");
        let addresses = !self.set_addresses().is_empty();
        let port = self.gateway_port != 0;
        let selects = options.selector != LabelSelector::default()
            && parse_selector(EXPORTED).is_ok_and(|default| options.selector != default);
        let other_name = self.gateway_name != labels::GATEWAY_NAME;
        let other_namespace = self.gateway_namespace != labels::MULTICLUSTER_NAMESPACE;
        let given = [
            (nothing_else, "--api-server-through-gateway", Refused),
            (through_gateway, "--federated-through=gateway", Refused),
            (networks, "--gateway-networks", Refused),
            (addresses, "--gateway-addresses", RefusedByLink),
            (port, "--gateway-port", RefusedByLink),
            (selects, "--selector", RefusedByLink),
            (other_name, "--gateway-name", Warned),
            (other_namespace, "--gateway-namespace", Warned),
        ];
        let is_off = !self.gateway;
        given
            .into_iter()
            .filter(move |(is_given, ..)| is_off && *is_given)
            .map(|(_, flag, useless)| (flag, useless))
    }
}

/// Parses an address of the gateway. An empty list stands for those of its load balancer, too.
pub fn gateway_address(text: &str) -> Result<String, String> {
    match text.trim() {
        "" | ANY => Ok(ANY.to_owned()),
        address => typed::host(address),
    }
}

/// Kubernetes rejects durations of less than ten minutes.
fn token_duration(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime::Endless);
    }
    let duration = typed::duration(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(600) {
        return Err("must be at least 10m".to_owned());
    }
    Ok(Lifetime::Of(duration))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArgs,
    }

    #[test]
    fn flags_about_a_gateway_that_is_off_are_not_ignored_in_silence() {
        let useless = |line: &str| {
            let line = Line::try_parse_from(std::iter::once("link").chain(line.split(' ')));
            let args = line.unwrap().link;
            let useless: Vec<_> = args.useless().collect();
            let refused =
                [true, false].map(|is_link| args.agree(is_link, Default::default()).is_err());
            (useless, refused)
        };
        for (flag, name, refused) in [
            (
                "--federated-through=gateway",
                "--federated-through=gateway",
                [true, true],
            ),
            (
                "--api-server-through-gateway",
                "--api-server-through-gateway",
                [true, true],
            ),
            (
                "--gateway-networks=192.0.2.0/24",
                "--gateway-networks",
                [true, true],
            ),
            (
                "--gateway-addresses=192.0.2.1",
                "--gateway-addresses",
                [true, false],
            ),
            ("--gateway-port=4143", "--gateway-port", [true, false]),
            ("-l a=b", "--selector", [true, false]),
            ("--gateway-name=gateway", "--gateway-name", [false, false]),
            (
                "--gateway-namespace=other",
                "--gateway-namespace",
                [false, false],
            ),
        ] {
            let (found, is_refused) = useless(&format!("--gateway=false {flag}"));
            assert_eq!(
                found.iter().map(|(flag, _)| *flag).collect::<Vec<_>>(),
                [name]
            );
            assert_eq!(is_refused, refused, "{flag}");
            assert_eq!(useless(flag), (vec![], [false, false]), "{flag}");
        }
        // As in scripts that pass the default.
        for flag in ["-l mirror.linkerd.io/exported=true", "--gateway-port=0"] {
            let (found, _) = useless(&format!("--gateway=false {flag}"));
            assert_eq!(found, []);
        }
    }

    #[test]
    fn addresses_of_the_gateway_can_be_those_of_its_load_balancer_again() {
        let set = |addresses: &str| {
            let flag = format!("--gateway-addresses={addresses}");
            let line = Line::try_parse_from(["link", &flag]).map_err(|error| error.to_string())?;
            let args = line.link;
            args.agree(true, Default::default())
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(args.set_addresses())
        };
        assert_eq!(set("any"), Ok(vec![]));
        assert_eq!(set(""), Ok(vec![]));
        let list = ["192.0.2.1", "gw.example.com"].map(str::to_owned);
        assert_eq!(set("192.0.2.1,gw.example.com"), Ok(list.to_vec()));
        for wrong in ["any,192.0.2.1", "192.0.2.1,", "https://a"] {
            set(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_token_lives_for_ten_minutes_at_least() {
        let day = Duration::from_secs(86_400);
        assert_eq!(token_duration("24h"), Ok(Lifetime::Of(day)));
        assert_eq!(token_duration("never"), Ok(Lifetime::Endless));
        assert!(token_duration("10m").is_ok());
        for text in ["9m59s", "0", "soon", ""] {
            assert!(token_duration(text).is_err(), "{text:?}");
        }
    }
}
