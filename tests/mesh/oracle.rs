//! The endpoints that a proxy has for a Service, read from its log. Answers do not show them, because a balancer may
//! prefer one endpoint for minutes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use control_plane::eventually;

/// Reads the log of one proxy.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    log: PathBuf,
}

impl Oracle {
    /// Reads this log of a proxy.
    pub(crate) fn new(log: &Path) -> Self {
        Self { log: log.into() }
    }

    /// The endpoints that the proxy has for each Service, by `namespace/name`.
    pub(crate) fn endpoints(&self) -> anyhow::Result<BTreeMap<String, BTreeSet<SocketAddr>>> {
        Ok(parse(&fs::read_to_string(&self.log)?))
    }

    /// Waits until the proxy has exactly these endpoints for a Service.
    pub(crate) async fn agrees(
        &self,
        service: &str,
        expected: &BTreeSet<SocketAddr>,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let what = format!("the proxy to balance {service} over {expected:?}");
        eventually(&what, limit, async || {
            let known = self.endpoints()?.remove(service).unwrap_or_default();
            anyhow::ensure!(known == *expected, "it has {known:?}");
            Ok(Some(()))
        })
        .await
    }
}

/// Parses the log lines of balancers. A line names the Service in its spans, `service{ns=app name=web port=80}`, and
/// ends with the event, such as `Adding endpoint addr=10.241.2.11:8080`. A new balancer, and one whose stream was
/// opened again, gets all endpoints first, so its former endpoints no longer count.
fn parse(log: &str) -> BTreeMap<String, BTreeSet<SocketAddr>> {
    let mut endpoints: BTreeMap<String, BTreeSet<SocketAddr>> = BTreeMap::new();
    for line in log.lines() {
        let Some((spans, event)) = split(line) else {
            continue;
        };
        let Some(service) = service_of(spans) else {
            continue;
        };
        let known = endpoints.entry(service).or_default();
        if event.starts_with("Discovered update=Reset") {
            known.clear();
        }
        let address = field(event, "endpoint addr=").or_else(|| field(event, "unchanged addr="));
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            continue;
        };
        if event.starts_with("Removing") {
            known.remove(&address);
        } else if !event.starts_with("Unknown") {
            known.insert(address);
        }
    }
    endpoints
}

/// The spans and the event of a log line of a balancer.
fn split(line: &str) -> Option<(&str, &str)> {
    [
        " linkerd_pool_p2c: ",
        " linkerd_proxy_balance_queue::worker: ",
    ]
    .iter()
    .find_map(|module| line.rsplit_once(module))
}

fn service_of(spans: &str) -> Option<String> {
    let (_, span) = spans.rsplit_once("service{")?;
    Some(format!("{}/{}", field(span, "ns=")?, field(span, "name=")?))
}

/// The value after a name, up to the next space or brace.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = text.split_once(name)?;
    value.split([' ', '}']).next()
}
