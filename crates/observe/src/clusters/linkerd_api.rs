//! Asks Linkerd's destination and policy controllers what they tell a proxy: the gRPC calls that proxies send themselves.
//!
//! | Call | Answer |
//! | --- | --- |
//! | [`LinkerdApi::endpoints`] | `Destination/Get`: the endpoints of a Service, of all clusters |
//! | [`LinkerdApi::profile`] | `Destination/GetProfile`: which Service, or which Pod, has an address |
//! | [`LinkerdApi::client_policy`] | `OutboundPolicies/Get`: the routes and backends of a Service's port |
//! | [`LinkerdApi::server_policy`] | `InboundServerPolicies/GetPort`: who may connect to a port of a Pod |
//!
//! Both controllers listen without TLS inside a Pod of `linkerd-destination`, on 8086 and 8090. A port-forward ends in the
//! Pod itself, so the Pod's proxy sees nothing of it. The user needs `list` for `pods` and `create` (older API servers:
//! `get`) for `pods/portforward` in Linkerd's namespace. Where there is no kubelet, or no right, the controllers can be
//! asked at addresses that the user gives.
//!
//! A call with the name of a Pod is answered as that Pod's proxy is: the controllers do not check who asks.

mod answers;
mod connection;
mod error;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use kube::Client;
use linkerd2_proxy_api::{
    destination::{GetDestination, Update, destination_client::DestinationClient, update},
    inbound::{PortSpec, inbound_server_policies_client::InboundServerPoliciesClient},
    net::{IpAddress, TcpAddress},
    outbound::{
        TrafficSpec, outbound_policies_client::OutboundPoliciesClient, traffic_spec::Target,
    },
};
use mirror_core::api::{metadata::ResourceId, text::in_brief};
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status, Streaming, transport::Channel};

use self::{
    answers::address,
    connection::{Controllers, DESTINATION, POLICY},
};
pub use self::{
    answers::{
        Authorization, ClientPolicy, DiscoveredEndpoint, DiscoveredProfile, PermittedClients,
        PolicyBackend, PolicyReference, PolicyRoute, ServerPolicy,
    },
    connection::ControllerAddresses,
    error::LinkerdApiError,
};

/// A federated Service has an answer for each of its clusters. After this time without another one, there is none.
const SETTLED: Duration = Duration::from_millis(300);
/// Maximum number of endpoints that are kept.
const MAX_ENDPOINTS: usize = 100_000;

/// A Pod whose proxy is told the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyWorkload {
    /// The Pod that asks.
    pub pod: ResourceId,
    /// Its node, which says in which zone it is; empty if it has none.
    pub node: String,
}

impl ProxyWorkload {
    /// The token of its requests to the destination controller (`LINKERD2_PROXY_DESTINATION_CONTEXT`).
    fn context_token(&self) -> String {
        let ResourceId { namespace, name } = &self.pod;
        json!({ "ns": namespace, "nodeName": self.node, "pod": name }).to_string()
    }

    /// Its name in requests to the policy controller (`LINKERD2_PROXY_POLICY_WORKLOAD`).
    fn workload(&self) -> String {
        let ResourceId { namespace, name } = &self.pod;
        json!({ "ns": namespace, "pod": name }).to_string()
    }
}

/// Linkerd's destination and policy controllers of a cluster. It only reads.
#[derive(Clone)]
pub struct LinkerdApi {
    controllers: Controllers,
    /// Timeout of each call, including its connection.
    deadline: Duration,
}

impl LinkerdApi {
    /// The controllers in each ready Pod of `linkerd-destination`; at least one. Each call is a port-forward of its own.
    pub async fn in_cluster(
        client: &Client,
        linkerd_namespace: &str,
        deadline: Duration,
    ) -> Result<Vec<Self>, LinkerdApiError> {
        let found = Controllers::find(client, linkerd_namespace, deadline).await?;
        let all = found.into_iter().map(|controllers| Self {
            controllers,
            deadline,
        });
        Ok(all.collect())
    }

    /// The controllers at these addresses. One without an address cannot be asked.
    pub fn at(addresses: ControllerAddresses, deadline: Duration) -> Self {
        Self {
            controllers: Controllers::At(addresses),
            deadline,
        }
    }

    /// The controllers at these addresses, or all in the cluster if there are none.
    pub async fn reach(
        client: &Client,
        linkerd_namespace: &str,
        addresses: &ControllerAddresses,
        deadline: Duration,
    ) -> Result<Vec<Self>, LinkerdApiError> {
        if *addresses == ControllerAddresses::default() {
            return Self::in_cluster(client, linkerd_namespace, deadline).await;
        }
        Ok(vec![Self::at(addresses.clone(), deadline)])
    }

    /// The Pod in which they are; empty if addresses were given.
    pub fn pod(&self) -> &str {
        self.controllers.pod()
    }

    /// The endpoints of a Service by its authority, such as `web-east.shop.svc.cluster.local:80`, as this proxy gets them.
    /// `None` if Linkerd knows no such Service.
    pub async fn endpoints(
        &self,
        proxy: &ProxyWorkload,
        authority: &str,
    ) -> Result<Option<Vec<DiscoveredEndpoint>>, LinkerdApiError> {
        let request = GetDestination {
            path: authority.to_owned(),
            context_token: proxy.context_token(),
            ..GetDestination::default()
        };
        self.call(DESTINATION, async |channel, end| {
            let updates = DestinationClient::new(channel).get(request).await;
            let mut updates = updates.map_err(refused)?.into_inner();
            let mut found = EndpointUpdates::default();
            found.take(next(&mut updates).await?)?;
            // The stream stays open. Updates in quick succession belong together.
            let settled = || end.min(Instant::now() + SETTLED);
            while let Ok(update) = timeout_at(settled(), next(&mut updates)).await {
                found.take(update?)?;
            }
            Ok(found.finish())
        })
        .await
    }

    /// The answer that this proxy gets to the question what `target` is: an address, such as the IP and port of a
    /// Service, or an authority.
    pub async fn profile(
        &self,
        proxy: &ProxyWorkload,
        target: &str,
    ) -> Result<DiscoveredProfile, LinkerdApiError> {
        let request = GetDestination {
            path: target.to_owned(),
            context_token: proxy.context_token(),
            ..GetDestination::default()
        };
        self.call(DESTINATION, async |channel, _| {
            let profiles = DestinationClient::new(channel).get_profile(request).await;
            let mut profiles = profiles.map_err(refused)?.into_inner();
            DiscoveredProfile::of(next(&mut profiles).await?)
        })
        .await
    }

    /// The policy for requests of this proxy to an address.
    pub async fn client_policy(
        &self,
        proxy: &ProxyWorkload,
        target: SocketAddr,
    ) -> Result<ClientPolicy, LinkerdApiError> {
        let address = TcpAddress {
            ip: Some(IpAddress::from(target.ip())),
            port: target.port().into(),
        };
        let request = TrafficSpec {
            source_workload: proxy.workload(),
            target: Some(Target::Addr(address)),
        };
        self.call(POLICY, async |channel, _| {
            let policy = OutboundPoliciesClient::new(channel).get(request).await;
            ClientPolicy::of(policy.map_err(refused)?.into_inner())
        })
        .await
    }

    /// The policy of a port of this Pod: who may connect to it.
    pub async fn server_policy(
        &self,
        pod: &ProxyWorkload,
        port: u16,
    ) -> Result<ServerPolicy, LinkerdApiError> {
        let request = PortSpec {
            workload: pod.workload(),
            port: port.into(),
        };
        self.call(POLICY, async |channel, _| {
            let server = InboundServerPoliciesClient::new(channel)
                .get_port(request)
                .await;
            ServerPolicy::of(server.map_err(refused)?.into_inner())
        })
        .await
    }

    /// Connects to the controller with this port, and waits for the answer of a call. The call is told when its time is
    /// over.
    async fn call<T>(
        &self,
        port: u16,
        call: impl AsyncFnOnce(Channel, Instant) -> Result<T, LinkerdApiError>,
    ) -> Result<T, LinkerdApiError> {
        let end = Instant::now() + self.deadline;
        let answer = async {
            let (channel, connection) = self.controllers.connect(port).await?;
            // A little before the end, so that what was found by then is returned.
            connection
                .during(call(channel, end - self.deadline / 20))
                .await
        };
        // Boxed, so that the future of the caller does not contain it twice.
        match timeout_at(end, Box::pin(answer)).await {
            Ok(answer) => answer,
            Err(_) => Err(LinkerdApiError::Late(self.deadline)),
        }
    }
}

/// The endpoints of a Service, from one update to the next.
#[derive(Default)]
struct EndpointUpdates {
    /// Whether the controller knows the Service.
    known: bool,
    found: BTreeMap<SocketAddr, DiscoveredEndpoint>,
}

impl EndpointUpdates {
    fn take(&mut self, update: Update) -> Result<(), LinkerdApiError> {
        match update.update {
            Some(update::Update::Add(set)) => {
                self.known = true;
                for endpoint in set.addrs {
                    let endpoint = DiscoveredEndpoint::of(endpoint, &set.metric_labels)?;
                    self.found.insert(endpoint.address, endpoint);
                }
            }
            Some(update::Update::Remove(set)) => {
                for gone in set.addrs {
                    self.found.remove(&address(Some(gone))?);
                }
            }
            Some(update::Update::NoEndpoints(none)) => {
                self.known |= none.exists;
            }
            None => return Err(LinkerdApiError::Malformed("an update without content")),
        }
        if self.found.len() > MAX_ENDPOINTS {
            return Err(LinkerdApiError::Malformed("too many endpoints"));
        }
        Ok(())
    }

    fn finish(self) -> Option<Vec<DiscoveredEndpoint>> {
        self.known.then(|| self.found.into_values().collect())
    }
}

async fn next<T>(answers: &mut Streaming<T>) -> Result<T, LinkerdApiError> {
    let answer = answers.message().await.map_err(refused)?;
    answer.ok_or(LinkerdApiError::Malformed("it ends at once"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
fn refused(status: Status) -> LinkerdApiError {
    let message = in_brief(status.message());
    match status.code() {
        Code::NotFound => LinkerdApiError::NotFound(message),
        code => LinkerdApiError::Refused(code, message),
    }
}

#[cfg(test)]
mod tests;
