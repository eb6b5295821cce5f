//! The only writer of Link statuses: compares them with the last one that was sent, and writes those that are due.

mod state;

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;

pub(super) use self::state::StatusState;
use self::state::has;
use super::{done::Done, link_state::LinkState, state::Engine};
use crate::{
    api::link::{LinkObject, LinkStatus},
    client::requests::{RequestError, request},
    controller::metrics::{LinkCounts, ResourceKind, Verb, WriteResult},
    mirror::{
        status::{expiry, status},
        target::drain::until,
    },
    timing,
};

impl LinkState {
    /// When the status has to be computed next.
    pub(super) fn next_status(&self) -> Option<Instant> {
        self.status.next().filter(|_| !self.holds_back())
    }

    /// Records that the status is computed now. It is due again after a change, or when the state of the token changes:
    /// about to expire, then expired.
    fn look(&mut self, now: Timestamp) {
        let expiry = self.facts.expiry.as_ref();
        let lasts = expiry.and_then(|expiry| expiry::lasts(expiry.at, now));
        self.status.look(lasts);
    }

    /// Whether the status must not be written yet. After a restart it is not written before the first sync is complete
    /// or a problem is known, because counts would go down and up again.
    fn holds_back(&self) -> bool {
        let well = self.facts.invalid.is_none()
            && self.facts.duplicate_of.is_none()
            && !matches!(self.facts.credentials, Some(Err(_)))
            && !matches!(self.facts.connected, Some(Err(_)));
        well && !self.facts.settled && self.status.was_ready()
    }
}

impl Engine {
    /// Writes the statuses that are due.
    pub(super) fn write_statuses(&mut self) {
        if !self.writer.fence.holds() {
            return;
        }
        let now = Instant::now();
        let client = self.client();
        let namespace = self.state.config.namespace.clone();
        for (name, state) in &mut self.links {
            if state.next_status().is_none_or(|due| due > now) {
                continue;
            }
            let entry = self.state.links.get(name);
            state.facts.listed = entry.and_then(|entry| entry.listed.clone());
            if let Some(gateway) = &mut state.facts.gateway {
                gateway.refused = self.state.refused(name);
            }
            let drain = self.state.drain_of(name);
            match (&state.facts.drain, &drain) {
                (None, Some(drain)) => {
                    tracing::info!(link = name, "drained {}", until(drain.until));
                }
                (Some(_), None) => tracing::info!(link = name, "no longer drained"),
                _ => {}
            }
            state.facts.drain = drain;
            let ready = state.facts.settled && matches!(state.facts.connected, Some(Ok(())));
            let wall = timing::now();
            state.look(wall);
            let last = state.status.last();
            let mut sent = status(last, &state.facts, &state.outcomes, whole_seconds(wall));
            if state.carried && !state.facts.settled {
                carry(last, &mut sent);
            }
            let count =
                |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
            let counts = LinkCounts {
                mirrored: count(sent.mirrored),
                federated: count(sent.federated),
                unhealthy: count(sent.unhealthy),
            };
            self.metrics.link_counts(name, counts);
            self.metrics.link_ready(name, ready);
            self.metrics
                .link_invalid(name, state.facts.invalid.is_some());
            self.metrics.link_drained(name, state.facts.drain.is_some());
            let mut before = last.clone();
            if sent == before {
                if !state.status.is_sent_again(&state.link, now) {
                    continue;
                }
                before = has(&state.link).into_owned();
            } else if state.status.waits(&sent, now) {
                continue;
            }
            state.status.begin(now);
            let api: Api<LinkObject> = Api::namespaced(client.clone(), &namespace);
            let (link, metrics) = (name.clone(), self.metrics.clone());
            let uid = state.link.uid();
            self.tasks.spawn(async move {
                let body = body(&before, &sent);
                let patch = Patch::Merge(&body);
                let parameters = PatchParams::default();
                let answer = request(api.patch_status(&link, &parameters, &patch)).await;
                let outcome = if answer.is_ok() {
                    WriteResult::Ok
                } else {
                    WriteResult::Error
                };
                metrics.write(Verb::Patch, ResourceKind::Link, outcome);
                let ended = match answer {
                    Ok(object) => Ok(object.link.status.unwrap_or_default()),
                    // The Link was deleted, or its CRD has no status: there is nothing to write to.
                    Err(RequestError::Status(status)) if status.code == 404 => {
                        Ok(LinkStatus::default())
                    }
                    Err(RequestError::Status(status)) => Err(status.message.clone()),
                    Err(RequestError::Unanswered(message)) => Err(message),
                };
                Done::Status {
                    link,
                    uid,
                    sent: Box::new(sent),
                    ended: ended.map(Box::new),
                }
            });
        }
    }

    /// Handles the result of a write.
    pub(super) fn on_status_written(
        &mut self,
        link: &str,
        uid: Option<&str>,
        sent: LinkStatus,
        ended: Result<LinkStatus, String>,
    ) {
        // A new Link of the same name has its own status.
        let state = self.links.get_mut(link);
        let Some(state) = state.filter(|state| state.link.uid().as_deref() == uid) else {
            return;
        };
        if let Err(message) = &ended {
            tracing::warn!(link, "failed to write the status of the Link: {message}");
        }
        state.status.end(sent, ended);
    }
}

/// A time as the API server stores it. With fractions of seconds, a status would differ from the stored one, and would
/// be written again after each list of Links.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Keeps what the last status reports about Services: it stays until the cluster has been listed.
fn carry(last: &LinkStatus, sent: &mut LinkStatus) {
    sent.mirror_services.clone_from(&last.mirror_services);
    sent.federated_services.clone_from(&last.federated_services);
    for (sent, last) in [
        (&mut sent.mirrored, last.mirrored),
        (&mut sent.federated, last.federated),
        (&mut sent.unhealthy, last.unhealthy),
    ] {
        *sent = last.or(*sent);
    }
}

/// The merge patch from one status to the next. Removed fields are set to null.
fn body(before: &LinkStatus, now: &LinkStatus) -> serde_json::Value {
    let mut body = json!({ "status": now });
    for (gone, pointer) in [
        (before.gateway.is_some() && now.gateway.is_none(), "gateway"),
        (
            before.target_cluster_name.is_some() && now.target_cluster_name.is_none(),
            "targetClusterName",
        ),
        (
            before.credentials_fingerprint.is_some() && now.credentials_fingerprint.is_none(),
            "credentialsFingerprint",
        ),
    ] {
        if gone {
            body["status"][pointer] = serde_json::Value::Null;
        }
    }
    if let (Some(before), Some(now)) = (&before.gateway, &now.gateway) {
        let gateway = &mut body["status"]["gateway"];
        for (gone, field) in [
            (before.alive.is_some() && now.alive.is_none(), "alive"),
            (before.since.is_some() && now.since.is_none(), "since"),
            (
                before.latency_ms.is_some() && now.latency_ms.is_none(),
                "latencyMs",
            ),
            (
                !before.addresses.is_empty() && now.addresses.is_empty(),
                "addresses",
            ),
        ] {
            if gone {
                gateway[field] = serde_json::Value::Null;
            }
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use tokio::time::sleep_until;

    use super::*;
    use crate::{
        api::link::Link,
        mirror::status::{Expiry, Outcomes},
    };

    #[test]
    fn times_of_a_status_are_those_that_the_api_server_stores() {
        let now = Timestamp::new(1_700_000_000, 123_456_789).unwrap();
        let stored = |at: Timestamp| -> Time {
            serde_json::from_value(serde_json::to_value(Time(at)).unwrap()).unwrap()
        };
        assert_ne!(stored(now).0, now);
        assert_eq!(stored(now).0, whole_seconds(now));
    }

    #[tokio::test(start_paused = true)]
    async fn status_is_due_when_the_token_is_about_to_expire_and_when_it_expires() {
        const DAY: u64 = 86_400;
        let (started, first) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let now = || first + started.elapsed();
        let mut state = LinkState::new(Arc::new(Link::default()));
        state.facts.expiry = Some(Expiry {
            at: first + Duration::from_secs(90 * DAY),
            cluster: "east".into(),
        });
        state.status.touch();
        let mut looks = Vec::new();
        while let Some(due) = state.next_status() {
            assert!(looks.len() < 4, "{looks:?}");
            sleep_until(due).await;
            state.look(now());
            let status = status(
                state.status.last(),
                &state.facts,
                &Outcomes::default(),
                now(),
            );
            let expiring = status.conditions.into_iter().map(|c| (c.type_, c.reason));
            let expiring = expiring.filter(|(type_, _)| type_ == "CredentialsExpiring");
            let reasons: Vec<_> = expiring.map(|(_, reason)| reason).collect();
            looks.push((started.elapsed().as_secs() / DAY, reasons.concat()));
        }
        let expected = [(0, ""), (83, "ExpiresSoon"), (90, "Expired")];
        assert_eq!(
            looks,
            expected.map(|(day, reason)| (day, reason.to_owned()))
        );
    }
}
