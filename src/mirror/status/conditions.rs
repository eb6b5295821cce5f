//! Conditions of a Link itself: credentials, connection, gateway, readiness.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::facts::{ALL_REFUSED, Exceeded, Expiry, GATEWAY_REFUSED, StatusInputs};
use crate::{
    api::{link::CLUSTER_IPS_EXHAUSTED, text::in_brief},
    mirror::{
        Liveness, Reason,
        status::expiry::{self, Stage},
        target::{drain::DRAINED, networks::refused_message, tls::INSECURE_TLS},
    },
};

pub(crate) fn conditions(
    previous: &[Condition],
    facts: &StatusInputs,
    without_cluster_ip: usize,
    now: Timestamp,
) -> Vec<Condition> {
    let mut said: Vec<(&str, &str, &str, String)> = vec![ready(facts)];
    match &facts.credentials {
        None => {}
        Some(Ok(())) => said.push(("CredentialsValid", "True", "Valid", String::new())),
        Some(Err((reason, message))) => {
            said.push(("CredentialsValid", "False", reason, message.clone()));
        }
    }
    if let Some(Expiry { at, cluster }) = &facts.expiry
        && let Some(problem) = expiry::problem(*at, now, cluster)
    {
        let expired = Stage::of(*at, now) == Stage::Expired;
        let reason = if expired { "Expired" } else { "ExpiresSoon" };
        said.push(("CredentialsExpiring", "True", reason, problem));
    }
    if let Some(insecure) = facts.insecure {
        said.push((INSECURE_TLS, "True", insecure.reason(), insecure.problem()));
    }
    match &facts.connected {
        None => said.push(("Connected", "Unknown", "NotTried", String::new())),
        Some(Ok(())) => said.push(("Connected", "True", "Connected", String::new())),
        Some(Err(message)) => said.push(("Connected", "False", "Unreachable", message.clone())),
    }
    if let Some(gateway) = &facts.gateway {
        let unknown = gateway
            .unresolved
            .clone()
            .or_else(|| gateway.unprobed.clone());
        said.push(match gateway.state.liveness {
            Liveness::Alive => (
                "GatewayAlive",
                "True",
                "ProbeSucceeded",
                gateway.unresolved.clone().unwrap_or_default(),
            ),
            Liveness::Dead => (
                "GatewayAlive",
                "False",
                "ProbeFailed",
                unknown.unwrap_or_default(),
            ),
            Liveness::Unknown => (
                "GatewayAlive",
                "Unknown",
                "NotProbed",
                unknown.unwrap_or_default(),
            ),
        });
    }
    if let Some(gateway) = facts.gateway.as_ref().filter(|g| !g.refused.is_empty()) {
        let known = gateway.state.addresses.iter().flatten().count();
        let reason = if gateway.refused.len() < known {
            "SomeRefused"
        } else {
            ALL_REFUSED
        };
        let message = refused_message(&gateway.refused);
        said.push((GATEWAY_REFUSED, "True", reason, message));
    }
    if let Some(exceeded) = facts.exceeded {
        let message = exceeded_message(exceeded);
        said.push(("LimitExceeded", "True", "LimitExceeded", message));
    }
    if let Some(drain) = facts.drain {
        said.push((DRAINED, "True", drain.reason(), drain.to_string()));
    }
    if without_cluster_ip > 0 {
        let message = format!(
            "Services waiting for a ClusterIP: {without_cluster_ip}; the Service range of this cluster is full: delete unused Services, or add a ServiceCIDR"
        );
        let reason = Reason::NoClusterIp.as_str();
        said.push((CLUSTER_IPS_EXHAUSTED, "True", reason, message));
    }
    said.into_iter()
        .map(|(type_, status, reason, message)| Condition {
            last_transition_time: previous
                .iter()
                .find(|before| before.type_ == type_ && before.status == status)
                .map_or(Time(now), |before| before.last_transition_time.clone()),
            message: in_brief(&message),
            observed_generation: facts.generation,
            reason: reason.to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
        })
        .collect()
}

fn exceeded_message(exceeded: Exceeded) -> String {
    let Exceeded {
        limits,
        heavy,
        hosts,
        services,
        cut,
    } = exceeded;
    let cause = if heavy {
        let own = limits.bytes >> 20;
        format!(
            "exported objects need more memory than the Link's limit of {own} MiB, or the limit of all Links"
        )
    } else {
        format!("more than {} Services are exported", limits.services)
    };
    let services = (services > 0).then(|| format!("{cause}; left out: {services}"));
    let much = if hosts {
        let most = limits.hosts;
        format!("headless Services have more than {most} hosts")
    } else {
        "too many EndpointSlices".to_owned()
    };
    let cut = (cut > 0).then(|| format!("{much}; incomplete Services: {cut}"));
    services
        .into_iter()
        .chain(cut)
        .collect::<Vec<_>>()
        .join("; ")
}

pub(crate) fn ready(facts: &StatusInputs) -> (&'static str, &'static str, &'static str, String) {
    let not = |reason, message: &str| ("Ready", "False", reason, message.to_owned());
    if let Some(message) = &facts.invalid {
        return not("InvalidLink", message);
    }
    if let Some(older) = &facts.duplicate_of {
        return not(
            "DuplicateCluster",
            &format!("Link {older} is older and has the same target cluster"),
        );
    }
    match (&facts.credentials, &facts.connected) {
        (Some(Err((_, message))), _) => not("CredentialsInvalid", message),
        (_, Some(Err(message))) => not("Disconnected", message),
        (_, Some(Ok(()))) if facts.settled => ("Ready", "True", "Mirroring", String::new()),
        _ => not("Syncing", ""),
    }
}
