//! The arguments of `diagnose`. Pure.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use mirror_core::api::metadata::ResourceId;
use observe::clusters::linkerd_api::ControllerAddresses;

use crate::cli::common::{
    args::{cluster_name, host, namespace, object_name, timeout},
    complete,
    format::OutputFormat,
};

const EXAMPLES: &str = "\
Examples:
  # Find out what is broken right now, and why
  linkerd-mc diagnose

  # Find out why requests to a mirror fail
  linkerd-mc diagnose default/web-east

  # For the Pod that calls, and with a look into the target cluster
  linkerd-mc diagnose default/web-east:80 --from client-0 --target east

  # The name of the cause, for a script
  linkerd-mc diagnose default/web-east -o json | jq -r .finding.cause

Exit codes: 0 nothing is broken; 1 a layer is, or nothing could be read.";

/// Find out why requests to a Service of another cluster fail
///
/// Without a Service, it says what is broken right now: which Links do not work, and which mirrors and federated Services
/// lose requests, for how many clients and how. The proxies of up to 100 clients are read twice for that, five seconds apart.
/// The Service that loses most is then diagnosed, for the client that loses most.
///
/// Follows the way of a request from the Pod that calls to the Pods of the target cluster, layer by layer, and stops at the
/// first layer that is broken. For each it says what it looked at, and what it could not look at and why. It prints the
/// cause, what shows it, and the commands that fix it, and what happened in both clusters in the last 24 hours.
///
/// Reads only, and starts nothing. With --from, it asks the proxy of this Pod what it counts, and Linkerd's controllers what
/// they tell this proxy; with --target also who may connect there. For this it forwards a port to a Pod of
/// linkerd-destination. No connection between the clusters is opened.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Diagnose {
    /// The mirror or federated Service that is called, and the port [default: what is broken]
    #[arg(value_name = "NAMESPACE/SERVICE[:PORT]", value_parser = called)]
    pub service: Option<Called>,
    /// The Pod that calls; in the namespace of the Service, unless another one is given. Without a Service, only this Pod's
    /// requests count
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod)]
    pub from: Option<PodName>,
    /// Context of the target cluster, to look at the Service, its Pods and the gateway there
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    pub target: Option<String>,
    /// Name that the Links give the cluster of --target [default: the only target cluster, or the one that is named like the context]
    #[arg(long, value_name = "NAME", requires = "target", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    pub cluster_name: Option<String>,
    #[command(flatten)]
    pub linkerd: LinkerdAddresses,
    /// Go on, and print what has changed whenever a layer has
    #[arg(short, long, requires = "service")]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// Timeout of each request to a cluster. At most five requests are sent one after the other
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = timeout)]
    pub request_timeout: Duration,
}

/// Where Linkerd's controllers are asked. Without an address, by a port-forward to a Pod of `linkerd-destination`.
#[derive(Clone, Debug, Default, Args)]
pub struct LinkerdAddresses {
    /// Address of Linkerd's destination controller, if there can be no port-forward to its Pod
    #[arg(long, value_name = "HOST:PORT", requires_all = ["linkerd_policy", "from"], value_parser = controller_address)]
    pub linkerd_destination: Option<String>,
    /// The same for Linkerd's policy controller
    #[arg(long, value_name = "HOST:PORT", requires = "linkerd_destination", value_parser = controller_address)]
    pub linkerd_policy: Option<String>,
    /// The same for the policy controller of the target cluster
    #[arg(long, value_name = "HOST:PORT", requires = "target", value_parser = controller_address)]
    pub target_linkerd_policy: Option<String>,
}

impl Diagnose {
    /// Those for a Service alone.
    pub fn of_service(service: ResourceId, request_timeout: Duration) -> Self {
        Self {
            service: Some(Called {
                service,
                port: None,
            }),
            from: None,
            target: None,
            cluster_name: None,
            linkerd: LinkerdAddresses::default(),
            watch: false,
            output: OutputFormat::Text,
            request_timeout,
        }
    }
}

impl LinkerdAddresses {
    pub fn of_source(&self) -> ControllerAddresses {
        ControllerAddresses {
            destination: self.linkerd_destination.clone(),
            policy: self.linkerd_policy.clone(),
        }
    }

    pub fn of_target(&self) -> ControllerAddresses {
        ControllerAddresses {
            destination: None,
            policy: self.target_linkerd_policy.clone(),
        }
    }
}

/// A Service, and a port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub service: ResourceId,
    pub port: Option<u16>,
}

/// A Pod, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: Option<String>,
    pub name: String,
}

impl PodName {
    /// The Pod, which is in this namespace if none was named.
    pub fn in_namespace(&self, namespace: &str) -> ResourceId {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        ResourceId::new(namespace, &self.name)
    }
}

/// Parses `NAMESPACE/SERVICE[:PORT]`.
fn called(text: &str) -> Result<Called, String> {
    let Some((of, rest)) = text.split_once('/') else {
        return Err("must be NAMESPACE/SERVICE or NAMESPACE/SERVICE:PORT".to_owned());
    };
    let (name, port) = match rest.split_once(':') {
        None => (rest, None),
        Some((name, port)) => {
            let port = port.parse().ok().filter(|port| *port != 0);
            (
                name,
                Some(port.ok_or("the port must be a number from 1 to 65535")?),
            )
        }
    };
    Ok(Called {
        service: ResourceId::new(namespace(of)?, object_name(name)?),
        port,
    })
}

/// Parses `[NAMESPACE/]POD`.
fn pod(text: &str) -> Result<PodName, String> {
    let (of, name) = match text.split_once('/') {
        Some((of, name)) => (Some(namespace(of)?), name),
        None => (None, text),
    };
    Ok(PodName {
        namespace: of,
        name: object_name(name)?,
    })
}

/// Parses `HOST:PORT`.
fn controller_address(text: &str) -> Result<String, String> {
    let (name, port) = text.rsplit_once(':').unwrap_or_default();
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port && host(name).is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be HOST:PORT, such as 10.0.0.1:8086".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_service_has_a_namespace_and_perhaps_a_port() {
        let shop = |name: &str, port| {
            Ok(Called {
                service: ResourceId::new("shop", name),
                port,
            })
        };
        assert_eq!(called("shop/web-east"), shop("web-east", None));
        assert_eq!(called("shop/web-east:8080"), shop("web-east", Some(8080)));
        for wrong in [
            "web",
            "shop/",
            "/web",
            "shop/web:",
            "shop/web:0",
            "shop/web:x",
            "Shop/web",
            "a/b/c",
        ] {
            assert!(called(wrong).is_err(), "{wrong}");
        }
        assert_eq!(pod("client-0").unwrap().namespace, None);
        assert_eq!(
            pod("shop/client-0").unwrap().namespace.as_deref(),
            Some("shop")
        );
    }
}
