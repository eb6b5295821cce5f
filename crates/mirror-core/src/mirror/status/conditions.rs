//! Conditions of a Link itself: credentials, connection, gateway, readiness.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::facts::{Exceeded, Expiry, StatusInputs};
use crate::{
    api::{conditions as c, text::in_brief},
    mirror::{
        Liveness,
        status::expiry::{self, Stage},
        target::networks::refused_message,
    },
};

pub(crate) fn conditions(
    previous: &[Condition],
    facts: &StatusInputs,
    without_cluster_ip: usize,
    now: Timestamp,
) -> Vec<Condition> {
    let mut said: Vec<(&str, &str, &str, String)> = vec![ready(facts)];
    // For GitOps tools: nothing but a change of the Links ends this (kstatus, `Stalled`).
    if facts.invalid.is_some() || facts.duplicate_of.is_some() {
        let (_, _, reason, message) = ready(facts);
        said.push((c::STALLED, "True", reason, message));
    }
    match &facts.credentials {
        None => {}
        Some(Ok(())) => said.push((
            c::CREDENTIALS_VALID,
            "True",
            c::credentials_valid::VALID,
            String::new(),
        )),
        Some(Err((reason, message))) => {
            said.push((c::CREDENTIALS_VALID, "False", reason, message.clone()));
        }
    }
    if let Some(Expiry { at, cluster }) = &facts.expiry
        && let Some(problem) = expiry::problem(*at, now, cluster)
    {
        let expired = Stage::of(*at, now) == Stage::Expired;
        let reason = if expired {
            c::credentials_expiring::EXPIRED
        } else {
            c::credentials_expiring::EXPIRES_SOON
        };
        said.push((c::CREDENTIALS_EXPIRING, "True", reason, problem));
    }
    if let Some(insecure) = facts.insecure {
        said.push((
            c::INSECURE_TLS,
            "True",
            insecure.reason(),
            insecure.problem(),
        ));
    }
    match &facts.connected {
        None => said.push((
            c::CONNECTED,
            "Unknown",
            c::connected::NOT_TRIED,
            String::new(),
        )),
        Some(Ok(())) => said.push((c::CONNECTED, "True", c::connected::CONNECTED, String::new())),
        Some(Err(message)) => said.push((
            c::CONNECTED,
            "False",
            c::connected::UNREACHABLE,
            message.clone(),
        )),
    }
    if let Some(gateway) = &facts.gateway {
        let unknown = gateway
            .unresolved
            .clone()
            .or_else(|| gateway.unprobed.clone());
        said.push(match gateway.state.liveness {
            Liveness::Alive => (
                c::GATEWAY_ALIVE,
                "True",
                c::gateway_alive::PROBE_SUCCEEDED,
                gateway.unresolved.clone().unwrap_or_default(),
            ),
            Liveness::Dead => (
                c::GATEWAY_ALIVE,
                "False",
                c::gateway_alive::PROBE_FAILED,
                unknown.unwrap_or_default(),
            ),
            Liveness::Unknown => (
                c::GATEWAY_ALIVE,
                "Unknown",
                c::gateway_alive::NOT_PROBED,
                unknown.unwrap_or_default(),
            ),
        });
    }
    if let Some(gateway) = facts.gateway.as_ref().filter(|g| !g.refused.is_empty()) {
        let known = gateway.state.addresses.iter().flatten().count();
        let reason = if gateway.refused.len() < known {
            c::gateway_address_refused::SOME_REFUSED
        } else {
            c::gateway_address_refused::ALL_REFUSED
        };
        let message = refused_message(&gateway.refused);
        said.push((c::GATEWAY_ADDRESS_REFUSED, "True", reason, message));
    }
    if let Some(exceeded) = facts.exceeded {
        let message = exceeded_message(exceeded);
        said.push((
            c::LIMIT_EXCEEDED,
            "True",
            c::limit_exceeded::LIMIT_EXCEEDED,
            message,
        ));
    }
    if let Some(drain) = facts.drain {
        said.push((c::DRAINED, "True", drain.reason(), drain.to_string()));
    }
    if without_cluster_ip > 0 {
        let message = format!(
            "Services waiting for a ClusterIP: {without_cluster_ip}; the Service range of this cluster is full, or less than a quarter of it would be free: delete unused Services, or add a ServiceCIDR (Kubernetes 1.33 or later)"
        );
        let reason = c::cluster_ips_exhausted::NO_CLUSTER_IP;
        said.push((c::CLUSTER_IPS_EXHAUSTED, "True", reason, message));
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
    let not = |reason, message: &str| (c::READY, "False", reason, message.to_owned());
    if let Some(message) = &facts.invalid {
        return not(c::ready::INVALID_LINK, message);
    }
    if let Some(older) = &facts.duplicate_of {
        return not(
            c::ready::DUPLICATE_CLUSTER,
            &format!("Link {older} is older and has the same target cluster"),
        );
    }
    match (&facts.credentials, &facts.connected, &facts.held_up) {
        (Some(Err((_, message))), _, _) => not(c::ready::CREDENTIALS_INVALID, message),
        (_, Some(Err(message)), _) => not(c::ready::DISCONNECTED, message),
        (_, _, Some(why)) => not(
            c::ready::CHANGE_NOT_IN_EFFECT,
            &format!("the change of the Link is not in effect yet: {why}"),
        ),
        (_, Some(Ok(())), None) if facts.settled => {
            (c::READY, "True", c::ready::MIRRORING, String::new())
        }
        _ => not(c::ready::SYNCING, ""),
    }
}
