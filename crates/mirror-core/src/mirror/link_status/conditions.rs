//! Conditions of a Link itself, and what is known of it for them: credentials, connection, gateway, readiness.

use std::collections::BTreeSet;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::{
    expiry::{self, ExpiryState},
    loss::{ConnectionLoss, LossCause},
};
use crate::{
    api::{conditions as c, text::in_brief, tls::InsecureTls},
    mirror::{
        GatewayState, Limits, Liveness, Omitted, Refused, RemoteState,
        target::{drain::DrainState, networks::refused_message},
    },
};

/// What is known of a Link itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusInputs {
    /// Generation of the Link that is in use, or if a newer one is about to be in effect, the last one that was.
    pub generation: Option<i64>,
    /// What is wrong with the Link's fields.
    pub invalid: Option<String>,
    /// Name of the older Link that has the target cluster.
    pub duplicate_of: Option<String>,
    /// Whether the credentials can be used; `None` before they were read. `Err`: reason and message.
    pub credentials: Option<Result<(), (&'static str, String)>>,
    /// Whether the target cluster answers; `None` before the first answer or failure. `Err`: the error.
    pub connected: Option<Result<(), ConnectionLoss>>,
    /// Whether the API server is reached through a gateway.
    pub through_gateway: bool,
    /// Why no address of that gateway is known or used.
    pub no_api_gateway: Option<String>,
    /// Why a change of the Link is not in effect yet: what it selects now cannot be listed. The error.
    pub held_up: Option<String>,
    /// Which credentials are in use; `None` if none are yet.
    pub credentials_in_use: Option<String>,
    /// When the token of the Link expires, if ever.
    pub expiry: Option<Expiry>,
    /// Why the connection in use is not safe, if it is not.
    pub insecure: Option<InsecureTls>,
    /// The target cluster that was listed last.
    pub listed: Option<String>,
    /// Whether all exported Services of the target cluster were listed and reconciled.
    pub settled: bool,
    /// What is omitted because of the limit, if anything is.
    pub exceeded: Option<Exceeded>,
    /// The gateway, if the Link has one.
    pub gateway: Option<GatewayInputs>,
    /// The drain of the target cluster, if it is drained.
    pub drain: Option<DrainState>,
}

/// The expiry of a Link's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When the token expires.
    pub at: Timestamp,
    /// The target cluster.
    pub cluster: String,
}

/// What a Link's limits omit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The limits.
    pub limits: Limits,
    /// Whether the bytes are the cause.
    pub heavy: bool,
    /// Services that are omitted.
    pub services: usize,
    /// Services with slices that are omitted.
    pub incomplete: usize,
}

impl Exceeded {
    /// What limits omit of a target cluster; `None` for nothing.
    pub fn of(remote: &RemoteState, limits: Limits) -> Option<Self> {
        let (services, incomplete) = (count(&remote.omitted), count(&remote.omitted_slices));
        let mut all = remote.omitted.iter().chain(&remote.omitted_slices);
        (services > 0 || incomplete > 0).then_some(Self {
            limits,
            heavy: all.any(Omitted::is_heavy),
            services,
            incomplete,
        })
    }
}

/// Number of Services: those with names, each counted once, and those whose names are not known.
fn count(left: &[Omitted]) -> usize {
    let named: BTreeSet<_> = left.iter().flat_map(Omitted::services).collect();
    named.len() + left.iter().map(Omitted::unnamed).sum::<usize>()
}

/// What is known of a Link's gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayInputs {
    /// Addresses and liveness.
    pub state: GatewayState,
    /// Latency to show, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Why it is not probed.
    pub unprobed: Option<String>,
    /// Why its address is not known.
    pub unresolved: Option<String>,
    /// Why its last probes failed.
    pub failure: Option<String>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}

/// A condition to report: type, status, reason, message.
type Reported = (&'static str, &'static str, &'static str, String);

pub(crate) fn conditions(
    previous: &[Condition],
    facts: &StatusInputs,
    without_cluster_ip: usize,
    now: Timestamp,
) -> Vec<Condition> {
    let reported = [
        Some(ready(facts)),
        stalled(facts),
        credentials_valid(facts),
        credentials_expiring(facts, now),
        facts.insecure.map(|insecure| {
            let reason = insecure.reason();
            (c::INSECURE_TLS, "True", reason, insecure.problem())
        }),
        Some(connected(facts)),
        facts.gateway.as_ref().map(gateway_alive),
        facts.gateway.as_ref().and_then(gateway_address_refused),
        facts.exceeded.map(|exceeded| {
            let reason = c::limit_exceeded::LIMIT_EXCEEDED;
            let message = exceeded_message(exceeded);
            (c::LIMIT_EXCEEDED, "True", reason, message)
        }),
        facts
            .drain
            .map(|drain| (c::DRAINED, "True", drain.reason(), drain.to_string())),
        cluster_ips_exhausted(without_cluster_ip),
    ];
    let reported = reported.into_iter().flatten();
    reported
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

/// For GitOps tools: nothing but a change of the Links ends this (kstatus, `Stalled`).
fn stalled(facts: &StatusInputs) -> Option<Reported> {
    let is_stalled = facts.invalid.is_some() || facts.duplicate_of.is_some();
    let (_, _, reason, message) = ready(facts);
    is_stalled.then_some((c::STALLED, "True", reason, message))
}

fn credentials_valid(facts: &StatusInputs) -> Option<Reported> {
    Some(match facts.credentials.as_ref()? {
        Ok(()) => {
            let reason = c::credentials_valid::VALID;
            (c::CREDENTIALS_VALID, "True", reason, String::new())
        }
        Err((reason, message)) => (c::CREDENTIALS_VALID, "False", reason, message.clone()),
    })
}

fn credentials_expiring(facts: &StatusInputs, now: Timestamp) -> Option<Reported> {
    let Expiry { at, cluster } = facts.expiry.as_ref()?;
    let remedy = format!("renew it with `linkerd-mc rotate {cluster}`");
    let problem = expiry::problem(*at, now, &remedy)?;
    let reason = match ExpiryState::of(*at, now) {
        ExpiryState::Expired => c::credentials_expiring::EXPIRED,
        ExpiryState::Valid | ExpiryState::ExpiresSoon => c::credentials_expiring::EXPIRES_SOON,
    };
    Some((c::CREDENTIALS_EXPIRING, "True", reason, problem))
}

fn connected(facts: &StatusInputs) -> Reported {
    let (status, reason, message) = match (&facts.connected, &facts.no_api_gateway) {
        (None, _) => ("Unknown", c::connected::NOT_TRIED, String::new()),
        (Some(Ok(())), _) => ("True", c::connected::CONNECTED, String::new()),
        (Some(Err(loss)), _) if loss.cause == LossCause::Certificate => {
            ("False", c::connected::CERTIFICATE_INVALID, loss.why.clone())
        }
        (Some(Err(loss)), _) if loss.cause == LossCause::Token => {
            ("False", c::connected::UNAUTHORIZED, loss.why.clone())
        }
        (Some(Err(loss)), _) if loss.cause == LossCause::NoService => {
            ("False", c::connected::UNREACHABLE, loss.why.clone())
        }
        (Some(Err(_)), Some(why)) => {
            let message = format!("cannot reach the gateway that leads to the API server: {why}");
            ("False", c::connected::GATEWAY_UNREACHABLE, message)
        }
        (Some(Err(why)), None) if facts.through_gateway => {
            let message = format!("neither the API server nor its gateway answers: {why}");
            ("False", c::connected::UNREACHABLE, message)
        }
        (Some(Err(loss)), _) => ("False", c::connected::UNREACHABLE, loss.why.clone()),
    };
    (c::CONNECTED, status, reason, message)
}

fn gateway_alive(gateway: &GatewayInputs) -> Reported {
    let unresolved = gateway.unresolved.as_ref();
    let unresolved =
        unresolved.map(|why| format!("cannot resolve the address of the gateway: {why}"));
    let unresolved = unresolved.as_ref();
    let unknown = unresolved.or(gateway.unprobed.as_ref());
    let (status, reason, message) = match gateway.state.liveness {
        Liveness::Alive => ("True", c::gateway_alive::PROBE_SUCCEEDED, unresolved),
        Liveness::Dead => (
            "False",
            c::gateway_alive::PROBE_FAILED,
            unknown.or(gateway.failure.as_ref()),
        ),
        Liveness::Unknown => ("Unknown", c::gateway_alive::NOT_PROBED, unknown),
    };
    let message = message.cloned().unwrap_or_default();
    (c::GATEWAY_ALIVE, status, reason, message)
}

fn gateway_address_refused(gateway: &GatewayInputs) -> Option<Reported> {
    let known = gateway.state.addresses.iter().flatten().count();
    let reason = match gateway.refused.len() {
        0 => return None,
        refused if refused < known => c::gateway_address_refused::SOME_REFUSED,
        _ => c::gateway_address_refused::ALL_REFUSED,
    };
    let message = refused_message(&gateway.refused);
    Some((c::GATEWAY_ADDRESS_REFUSED, "True", reason, message))
}

fn cluster_ips_exhausted(waiting: usize) -> Option<Reported> {
    let message = || {
        format!(
            "Services waiting for a ClusterIP: {waiting}; the Service range of this cluster is full, or less than a quarter of it would be free: delete unused Services, or add a ServiceCIDR (Kubernetes 1.33 or later)"
        )
    };
    let reason = c::cluster_ips_exhausted::NO_CLUSTER_IP;
    (waiting > 0).then(|| (c::CLUSTER_IPS_EXHAUSTED, "True", reason, message()))
}

fn exceeded_message(exceeded: Exceeded) -> String {
    let Exceeded {
        limits,
        heavy,
        services,
        incomplete,
    } = exceeded;
    let memory = format!(
        "exported objects exceed the memory limit of this Link ({} MiB) or of the controller",
        limits.bytes >> 20
    );
    let cause = if heavy {
        memory.clone()
    } else {
        format!("more than {} Services are exported", limits.services)
    };
    let services = (services > 0).then(|| format!("{cause}; omitted: {services}"));
    let cause = if heavy && services.is_none() {
        &memory
    } else {
        "too many EndpointSlices"
    };
    let incomplete =
        (incomplete > 0).then(|| format!("{cause}; incomplete Services: {incomplete}"));
    let causes = services.into_iter().chain(incomplete);
    causes.collect::<Vec<_>>().join("; ")
}

impl StatusInputs {
    /// Whether the Link is ready.
    pub fn is_ready(&self) -> bool {
        let (_, status, ..) = ready(self);
        status == "True"
    }
}

pub(crate) fn ready(facts: &StatusInputs) -> Reported {
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
        (_, Some(Err(loss)), _) => not(c::ready::DISCONNECTED, &loss.why),
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
