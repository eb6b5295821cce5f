//! A summary of the state of one Link, from its status. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mirror_core::{
    api::{
        conditions::{DRAINED, GATEWAY_ADDRESS_REFUSED, GATEWAY_ALIVE},
        duration::utc,
        link::ServiceStatus,
    },
    mirror::{FederatedThrough, Reason, is_through_gateway},
};
use serde::Serialize;

use super::{
    leader::Leader,
    snapshot::{ClusterSnapshot, LinkSnapshot},
};
use crate::finding::Finding;

/// How the controller reaches the API server of a target cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiServerThrough {
    /// At the address in the credentials.
    #[default]
    Direct,
    /// Through a gateway, so that it has to be reachable only in the target cluster.
    Gateway,
}

/// The state of a Link. Its JSON is the documented output of `status` and `graph`: a field that is `null` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkSummary {
    /// Name of the target cluster.
    pub cluster: String,
    /// Namespace of the Link.
    pub namespace: String,
    /// Name of the Link.
    pub name: String,
    /// The condition `Ready`: the credentials are valid, the cluster is connected, and all mirrors are written.
    pub ready: Option<bool>,
    /// Whether the target cluster's API server responds.
    pub connected: Option<bool>,
    /// How the controller reaches it.
    pub api_server_through: ApiServerThrough,
    /// Whether the credentials are usable.
    pub credentials_valid: Option<bool>,
    /// When they expire; `null` if they never do, or may not be read.
    pub credentials_expire: Option<Timestamp>,
    /// The gateway; `null` when the Link has none.
    pub gateway: Option<GatewaySummary>,
    /// Number of Services that are mirrored.
    pub mirrored: i64,
    /// Number of Services that are members of federated Services.
    pub federated: i64,
    /// How the target cluster takes part in federated Services; `null` if the Link's annotation is invalid.
    pub federated_through: Option<FederatedThrough>,
    /// Number of Services that should be mirrored or federated and are not.
    pub unhealthy: i64,
    /// How many of them have which reason, as far as the Link's status lists them.
    pub unhealthy_reasons: BTreeMap<String, usize>,
    /// Until when the target cluster is drained, and which federated Services it has not left, from the Link's status.
    /// `null` if it is not drained.
    pub drained: Option<String>,
    /// When one of these fields last changed.
    pub last_change: Option<Timestamp>,
    /// The problem, from the Link's status.
    pub message: Option<String>,
    /// What is wrong, causes before consequences; empty if nothing was judged.
    pub findings: Vec<Finding>,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
    /// The controller that reports all this; `null` if its Lease does not exist or may not be read. If it is not
    /// active, all this is old.
    pub controller: Option<Leader>,
    /// Whether the status says that it is about an earlier version of the Link.
    #[serde(skip)]
    pub is_behind: bool,
}

/// The state of a target cluster's gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySummary {
    /// Whether it answers probes.
    pub alive: Option<bool>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Latency of a recent probe, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The port of its probes.
    pub probe_port: Option<u16>,
    /// Why it is not alive.
    pub error: Option<String>,
}

impl GatewaySummary {
    /// What is wrong with a gateway that does not answer its probes.
    pub fn problem(&self) -> Option<String> {
        if self.alive != Some(false) {
            return None;
        }
        let addresses = match self.addresses.join(",") {
            none if none.is_empty() => "unknown address".to_owned(),
            addresses => addresses,
        };
        let port = self.probe_port.map(|port| format!(" port {port}"));
        let since = self.since.map(|since| format!(" since {}", utc(since)));
        let error = self.error.as_ref().map(|error| format!(": {error}"));
        Some(format!(
            "the gateway at {addresses}{} fails probes{}{}; check its Pods and the firewall",
            port.unwrap_or_default(),
            since.unwrap_or_default(),
            error.unwrap_or_default()
        ))
    }
}

impl LinkSummary {
    /// The state of a Link of a cluster.
    pub fn in_cluster(link: &LinkSnapshot, cluster: &ClusterSnapshot) -> Self {
        Self {
            controller: cluster.leader_of(link).cloned(),
            ..Self::of(link)
        }
    }

    /// Whether nobody has updated this for some time.
    pub fn is_old(&self) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|controller| !controller.active)
    }

    /// Why this does not tell how the Link is now; `None` if it does, as far as is known.
    pub fn outdated(&self) -> Option<&'static str> {
        if self.is_old() {
            Some("old: no controller is active")
        } else {
            self.is_behind
                .then_some("the controller has not seen its last change yet")
        }
    }

    /// How many Services are not mirrored, of how many, and why; `None` if there are none.
    pub fn unmirrored(&self) -> Option<String> {
        if self.unhealthy <= 0 {
            return None;
        }
        let all = self.mirrored + self.federated + self.unhealthy;
        let mut reasons: Vec<_> = self.unhealthy_reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let reasons: Vec<_> = match reasons.as_slice() {
            [(reason, _)] => vec![(*reason).clone()],
            reasons => reasons
                .iter()
                .map(|(reason, count)| format!("{count} {reason}"))
                .collect(),
        };
        let why = match reasons.as_slice() {
            [] => String::new(),
            reasons => format!(" ({})", reasons.join(", ")),
        };
        Some(format!(
            "{} of {all} Services are not mirrored{why}",
            self.unhealthy
        ))
    }

    /// The state of a Link, without its controller.
    pub fn of(link: &LinkSnapshot) -> Self {
        let status = link.status().cloned().unwrap_or_default();
        let gateway = link.has_gateway().then(|| {
            let gateway = status.gateway.clone().unwrap_or_default();
            GatewaySummary {
                alive: gateway.alive,
                since: gateway.since.map(|time| time.0),
                latency_ms: gateway.latency_ms,
                addresses: addresses_of(link, gateway.addresses),
                probe_port: link.link.spec.probe_spec.port.parse().ok(),
                error: gateway_error(link),
            }
        });
        let lists = [&status.mirror_services, &status.federated_services];
        let services = lists.into_iter().flatten().flat_map(|s| &s.conditions);
        let changes = status
            .conditions
            .iter()
            .map(|condition| condition.last_transition_time.0)
            .chain(services.map(|condition| condition.last_transition_time.0))
            .chain(gateway.iter().filter_map(|gateway| gateway.since));
        let listed = |done: bool| {
            move |services: &[ServiceStatus]| {
                services
                    .iter()
                    .filter(|s| is_done(s) == done)
                    .count()
                    .try_into()
                    .unwrap_or(i64::MAX)
            }
        };
        // Linkerd's service mirror writes lists without counts.
        let mirrored = status
            .mirrored
            .unwrap_or_else(|| listed(true)(&status.mirror_services));
        let federated = status
            .federated
            .unwrap_or_else(|| listed(true)(&status.federated_services));
        let unhealthy = status.unhealthy.unwrap_or_else(|| {
            listed(false)(&status.mirror_services) + listed(false)(&status.federated_services)
        });
        Self {
            cluster: link.cluster().to_owned(),
            namespace: link.namespace().to_owned(),
            name: link.name().to_owned(),
            ready: holds(link, "Ready"),
            connected: holds(link, "Connected"),
            api_server_through: if is_through_gateway(&link.link) {
                ApiServerThrough::Gateway
            } else {
                ApiServerThrough::Direct
            },
            credentials_valid: holds(link, "CredentialsValid"),
            credentials_expire: link
                .credentials
                .as_ref()
                .and_then(|known| known.as_ref().ok()?.expiry),
            drained: link
                .problem_condition(DRAINED)
                .map(|(_, message)| message.to_owned()),
            last_change: changes.max(),
            message: message(link),
            findings: Vec::new(),
            unseen: Vec::new(),
            gateway,
            mirrored,
            federated,
            federated_through: FederatedThrough::of(&link.link.metadata).ok(),
            unhealthy,
            unhealthy_reasons: reasons(link),
            controller: None,
            // Linkerd's service mirror reports no generation. Before anybody does, the CRD has -1.
            is_behind: status
                .observed_generation
                .filter(|observed| *observed >= 0)
                .is_some_and(|observed| link.link.metadata.generation != Some(observed)),
        }
    }

    /// Whether a condition is true; `None` if that is unknown.
    pub fn condition(&self, name: LinkCondition) -> Option<bool> {
        match name {
            LinkCondition::Ready => self.ready,
            LinkCondition::Connected => self.connected,
            LinkCondition::CredentialsValid => self.credentials_valid,
            LinkCondition::GatewayAlive => self.gateway.as_ref().and_then(|gateway| gateway.alive),
        }
    }
}

/// The conditions of a Link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCondition {
    /// Credentials valid, connected, and all mirrors written.
    Ready,
    /// The target cluster's API server responds.
    Connected,
    /// The credentials are usable.
    CredentialsValid,
    /// The gateway answers probes.
    GatewayAlive,
}

/// The addresses of a gateway: those that its host names have, or else what the Link says.
fn addresses_of(link: &LinkSnapshot, resolved: Vec<String>) -> Vec<String> {
    if !resolved.is_empty() {
        return resolved;
    }
    let named = link.link.spec.gateway_address.split(',').map(str::trim);
    let named = named.filter(|host| !host.is_empty());
    named.map(str::to_owned).collect()
}

fn gateway_error(link: &LinkSnapshot) -> Option<String> {
    let (status, message) = link.condition(GATEWAY_ALIVE)?;
    (status != "True" && !message.is_empty()).then(|| message.to_owned())
}

/// How many Services are not mirrored for which reason.
fn reasons(link: &LinkSnapshot) -> BTreeMap<String, usize> {
    let status = link.status().cloned().unwrap_or_default();
    let services = status
        .mirror_services
        .iter()
        .chain(&status.federated_services);
    let conditions = services.filter_map(|service| service.conditions.first());
    let mut reasons = BTreeMap::new();
    for condition in conditions {
        if condition.status != "True" && !Reason::is_intended(&condition.reason) {
            *reasons.entry(condition.reason.clone()).or_default() += 1;
        }
    }
    reasons
}

fn is_done(service: &ServiceStatus) -> bool {
    service
        .conditions
        .first()
        .is_some_and(|c| c.status == "True")
}

fn holds(link: &LinkSnapshot, type_: &str) -> Option<bool> {
    match link.condition(type_)?.0 {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// The message of the first condition that is not true, causes before consequences; otherwise that of refused gateway
/// addresses.
fn message(link: &LinkSnapshot) -> Option<String> {
    let mut failing = ["CredentialsValid", "Connected", "Ready", "GatewayAlive"]
        .iter()
        .filter_map(|type_| link.condition(type_))
        .filter(|(status, message)| *status != "True" && !message.is_empty());
    let failing = failing.next().map(|(_, message)| message.to_owned());
    failing.or_else(|| {
        let (_, refused) = link.problem_condition(GATEWAY_ADDRESS_REFUSED)?;
        Some(format!("gateway addresses are refused: {refused}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::clusters::fixtures::{condition, link};

    fn service(status: &str, time: u8) -> Value {
        json!({
            "controllerName": "linkerd.io/service-mirror",
            "remoteRef": {"name": "web", "namespace": "shop"},
            "conditions": [condition("Mirrored", status, "", time)],
        })
    }

    #[test]
    fn status_of_our_controller_is_used() {
        let link = link(
            "east",
            &json!({
                "mirrorServices": [service("False", 5)],
                "conditions": [
                    condition("Ready", "False", "not connected", 2),
                    condition("Connected", "False", "no answer", 3),
                    condition("CredentialsValid", "True", "fine", 1),
                ],
                "gateway": {"alive": false, "since": "2026-01-01T00:00:04Z", "latencyMs": 7, "addresses": ["192.0.2.1"]},
                "mirrored": 700, "federated": 2, "unhealthy": 1,
            }),
        );
        insta::assert_json_snapshot!(LinkSummary::of(&link), @r#"
        {
          "cluster": "east",
          "namespace": "linkerd-multicluster",
          "name": "east",
          "ready": false,
          "connected": false,
          "apiServerThrough": "direct",
          "credentialsValid": true,
          "credentialsExpire": null,
          "gateway": {
            "alive": false,
            "since": "2026-01-01T00:00:04Z",
            "latencyMs": 7,
            "addresses": [
              "192.0.2.1"
            ],
            "probePort": null,
            "error": null
          },
          "mirrored": 700,
          "federated": 2,
          "federatedThrough": "discovery",
          "unhealthy": 1,
          "unhealthyReasons": {
            "Because": 1
          },
          "drained": null,
          "lastChange": "2026-01-01T00:00:05Z",
          "message": "no answer",
          "findings": [],
          "unseen": [],
          "controller": null
        }
        "#);
    }

    #[test]
    fn lists_of_linkerds_service_mirror_are_counted() {
        let link = link(
            "east",
            &json!({
                "mirrorServices": [service("True", 1), service("False", 2), service("True", 3)],
                "federatedServices": [service("True", 1), service("False", 0)],
            }),
        );
        let state = LinkSummary::of(&link);
        assert_eq!(
            (state.mirrored, state.federated, state.unhealthy),
            (2, 1, 2)
        );
        assert_eq!((state.ready, state.connected), (None, None));
        assert_eq!(
            state.last_change,
            Some("2026-01-01T00:00:03Z".parse().unwrap())
        );
        assert_eq!(state.gateway.unwrap().alive, None);
    }

    #[test]
    fn a_link_without_a_status_is_unknown() {
        let mut link = link("east", &json!({}));
        link.link.status = None;
        link.link.spec.gateway_address.clear();
        let state = LinkSummary::of(&link);
        assert_eq!(
            (state.ready, state.gateway, state.last_change),
            (None, None, None)
        );
    }

    #[test]
    fn services_that_are_not_mirrored_are_counted_by_reason() {
        let mut link = LinkSummary {
            unhealthy: 61,
            ..LinkSummary::default()
        };
        for (reasons, expected) in [
            (json!({}), "61 of 61 Services are not mirrored"),
            (
                json!({"MissingNamespace": 61}),
                "61 of 61 Services are not mirrored (MissingNamespace)",
            ),
            (
                json!({"MissingNamespace": 1, "NameConflict": 60}),
                "61 of 61 Services are not mirrored (60 NameConflict, 1 MissingNamespace)",
            ),
        ] {
            link.unhealthy_reasons = serde_json::from_value(reasons).unwrap();
            assert_eq!(link.unmirrored().as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_dead_gateway_has_an_address_a_port_and_an_error() {
        let mut gateway = GatewaySummary {
            alive: Some(true),
            ..GatewaySummary::default()
        };
        assert_eq!(gateway.problem(), None);
        gateway.alive = Some(false);
        gateway.addresses = vec!["192.0.2.1".into()];
        gateway.since = Some("2026-11-21T11:48:00Z".parse().unwrap());
        gateway.probe_port = Some(4191);
        gateway.error = Some("connection refused".into());
        assert_eq!(
            gateway.problem().unwrap(),
            "the gateway at 192.0.2.1 port 4191 fails probes since 2026-11-21 11:48:00 UTC: connection refused; check its \
             Pods and the firewall"
        );
    }
}
