//! What is wrong with a Link, by what its controller reports. Pure.

use hints::suggest::ClusterFlags;
use mirror_core::api::{
    conditions::{
        CONNECTED, CREDENTIALS_VALID, DRAINED, GATEWAY_ADDRESS_REFUSED, GATEWAY_ALIVE, READY,
        connected,
    },
    duration::utc,
};

use super::{
    credentials::{own, rotate},
    link_summary::{GatewaySummary, LinkSummary},
    snapshot::{ClusterSnapshot, LinkSnapshot},
};
use crate::finding::{Finding, causes::Cause};

/// What is wrong with a Link of a cluster, causes before consequences. Without an active controller, what its status says
/// is no fact.
pub fn findings(
    link: &LinkSnapshot,
    cluster: &ClusterSnapshot,
    summary: &LinkSummary,
) -> Vec<Finding> {
    let flags = &cluster.flags;
    let leader = cluster.leader_of(link);
    if let Some(silence) = leader.and_then(|leader| leader.silence(flags)) {
        return vec![silence];
    }
    let mut found = Vec::new();
    found.extend(not_ready(link, flags));
    if let Some((_, refused)) = link.problem_condition(GATEWAY_ADDRESS_REFUSED) {
        found.push(format!("gateway addresses are refused: {refused}").into());
    }
    let gateway = summary.gateway.as_ref();
    let dead = gateway.and_then(GatewaySummary::problem);
    found.extend(dead.map(|dead| Finding::broken(Cause::ProbesFail, dead)));
    found.extend(unprobed(link).map(Finding::warning));
    if let Some(count) = summary.unmirrored() {
        let list = flags.mc("status --services --cluster-name {}", &[&summary.cluster]);
        found.push(Finding::warning(count).fixed_by(&list));
    }
    if let Some((_, until)) = link.problem_condition(DRAINED) {
        found.push(Finding::degraded(
            Cause::Drained,
            format!("drained {until}"),
        ));
    }
    found
}

/// What keeps a gateway from being reached or probed that is not known to be dead.
fn unprobed(link: &LinkSnapshot) -> Option<String> {
    let condition = link.status()?.condition(GATEWAY_ALIVE)?;
    let is_said = condition.status != "False" && !condition.message.is_empty();
    is_said.then(|| condition.message.clone())
}

/// Why a Link is not ready; `None` if it is, or if nobody reports that.
pub fn not_ready(link: &LinkSnapshot, flags: &ClusterFlags) -> Option<Finding> {
    let status = link.status()?;
    let failing = [CREDENTIALS_VALID, CONNECTED, READY]
        .into_iter()
        .filter_map(|type_| status.condition(type_))
        .find(|condition| condition.status != "True")?;
    let what = match failing.message.as_str() {
        "" => format!(
            "{} is {}: {}",
            failing.type_, failing.status, failing.reason
        ),
        message => flags.inserted(message),
    };
    if failing.status != "False" {
        return Some(Finding::warning(what));
    }
    let cause = cause(&failing.type_, &failing.reason);
    let is_silent = (&*failing.type_, &*failing.reason) == (CONNECTED, connected::UNREACHABLE);
    let what = if is_silent {
        let server = own(link).map(|own| format!(" {}", own.identity.server));
        let since = utc(failing.last_transition_time.0);
        format!(
            "its API server{} has not answered since {since} ({what}); mirrors stay as they are, and new exports do not \
             arrive",
            server.unwrap_or_default()
        )
    } else {
        what
    };
    let found = Finding {
        cause,
        ..what.into()
    };
    Some(match cause {
        Some(Cause::CredentialsRefused) => found.fixed_by(&rotate(link, flags)),
        Some(Cause::CertificateInvalid | Cause::CredentialsUnusable) => {
            found.fixed_by(&flags.link())
        }
        _ => found,
    })
}

/// Why the controller does not reach the target cluster, by a condition that is `False`. `None` if that is not known from
/// the condition alone.
pub fn cause(type_: &str, reason: &str) -> Option<Cause> {
    match (type_, reason) {
        (CREDENTIALS_VALID, _) => Some(Cause::CredentialsUnusable),
        (CONNECTED, connected::CERTIFICATE_INVALID) => Some(Cause::CertificateInvalid),
        (CONNECTED, connected::UNAUTHORIZED) => Some(Cause::CredentialsRefused),
        // It may be the network, or a gateway that is not there.
        (CONNECTED, connected::GATEWAY_UNREACHABLE) => None,
        (CONNECTED, _) => Some(Cause::TargetApiUnreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clusters::fixtures::to;

    #[test]
    fn target_that_does_not_answer_is_named_with_its_address_and_what_stays() {
        let mut link = to("east", "192.0.2.9:6443", "east");
        let condition = json!([{
            "type": CONNECTED, "status": "False", "reason": connected::UNREACHABLE, "message": "timed out",
            "lastTransitionTime": "2026-01-01T00:04:48Z",
        }]);
        let status = link.link.status.as_mut().unwrap();
        status.conditions = serde_json::from_value(condition).unwrap();
        let found = not_ready(&link, &ClusterFlags::default()).unwrap();
        assert_eq!(
            found.evidence,
            "its API server 192.0.2.9:6443 has not answered since 2026-01-01 00:04:48 UTC (timed out); mirrors stay as \
             they are, and new exports do not arrive"
        );
    }
}
