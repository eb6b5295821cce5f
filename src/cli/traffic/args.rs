//! The flags of `traffic`.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use observe::clusters::traffic::ServiceWanted;

use crate::cli::common::{
    args::{cluster_name, duration, namespace, timeout},
    complete,
    contexts::Contexts,
    format::OutputFormat,
    service_name::{ServiceName, service_name},
};

const EXAMPLES: &str = "\
Examples:
  # Show which clusters serve the mirrors and federated Services, and how well
  linkerd-mc traffic --interval 2s

  # Show those of one Service, by its name here or in the target cluster
  linkerd-mc traffic default/web --interval 2s

  # Show the Services that lose requests
  linkerd-mc traffic --interval 2s -o json \\
    | jq '.rows[] | select(.unanswered > .requests
        or .requests > 0 and .successRate < 0.99)'";

/// Show which cluster serves the requests to a Service: rate, success, latency
///
/// The numbers are those of the clients: the proxies of all Pods in the mesh are read twice, through the API server, and
/// what they have counted in between is shown. Neither Prometheus nor the target clusters are needed. This requires
/// permission to list Pods and to get `pods/proxy`.
///
/// Requests that failed in the client's proxy, because no endpoint was available, have no cluster. Those that have no
/// answer, because they are under way or their caller has given up, are counted apart. An endpoint of a federated
/// Service is found in the EndpointSlices of its clusters, which are read with the credentials of the Links.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TrafficArgs {
    #[command(flatten)]
    pub contexts: Contexts,
    /// Show only this Service: a mirror or federated Service, or the Service that is mirrored
    #[arg(value_name = "[NAMESPACE/]SERVICE", value_parser = service_name)]
    pub service: Option<ServiceName>,
    /// Show the Services of this namespace
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub namespace: Option<String>,
    /// Show the Services of all namespaces, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Show only requests that this cluster serves; `local` is the clients' own cluster
    #[arg(long, value_name = "NAME", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    pub cluster_name: Option<String>,
    /// Read only the clients in this namespace
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub client_namespace: Option<String>,
    /// Maximum number of clients that are read in a cluster
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_clients: u32,
    /// Time between the two samples
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = interval)]
    pub interval: Duration,
    /// Update the output after each interval, until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// Timeout of each request to a cluster or a proxy
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    pub request_timeout: Duration,
}

impl TrafficArgs {
    /// Those of a page that shows all Services, of at most so many clients of a cluster.
    pub fn of_all(max_clients: u32, request_timeout: Duration) -> Self {
        Self {
            contexts: Contexts::default(),
            service: None,
            namespace: None,
            all_namespaces: true,
            cluster_name: None,
            client_namespace: None,
            max_clients,
            interval: Duration::from_secs(10),
            watch: true,
            output: OutputFormat::Text,
            request_timeout,
        }
    }

    /// The Services that are shown.
    pub fn wanted(&self) -> ServiceWanted {
        let service = self.service.clone();
        let (of_name, name) = service.map(|s| (s.namespace, s.name)).unzip();
        ServiceWanted {
            namespace: of_name.flatten().or_else(|| self.namespace.clone()),
            name,
        }
    }
}

/// Parses an interval. In less than a second, clients do too little.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_secs(1) {
        return Err("must be at least 1s".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_at_least_a_second() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("999ms"), Err("must be at least 1s".to_owned()));
        assert!(interval("soon").is_err());
    }
}
