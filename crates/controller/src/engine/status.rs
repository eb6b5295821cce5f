//! The only writer of Link statuses: compares them with the last one that was sent, and writes those that are due.

mod state;

use client::{
    fingerprint,
    requests::{RequestError, request},
    timing,
};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use mirror_core::{
    api::{
        conditions::READY,
        link::{LinkObject, LinkStatus},
    },
    mirror::{
        link_status::{Exceeded, Expiry, GatewayInputs, StatusInputs, status},
        refused_message,
        target::drain::until,
    },
};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use self::state::StatusState;
use super::{
    link_state::LinkState,
    state::{Done, Engine},
};
use crate::metrics::{LinkCounts, Metrics, ResourceKind, Verb, WriteResult};

impl Engine {
    /// Writes the statuses that are due.
    pub fn write_statuses(&mut self) {
        if !self.writer.fence.holds() {
            return;
        }
        let now = Instant::now();
        let is_due = |state: &LinkState| state.status.next().is_some_and(|due| due <= now);
        let links = self.links.iter().filter(|(_, state)| is_due(state));
        let due: Vec<String> = links.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.write_status(name, now);
        }
    }

    /// What is known of a Link, for its status.
    pub fn inputs(&self, name: &str) -> Option<StatusInputs> {
        let (state, entry) = (self.links.get(name)?, self.state.links.get(name)?);
        let is_active = entry.target.is_ok() && state.duplicate_of.is_none();
        let secret = &state.link.spec.cluster_credentials_secret;
        let kubeconfig = self.sessions.kubeconfig(secret).filter(|_| is_active);
        let credentials = state.credentials_in_use();
        let current = state.current.as_ref().map(|current| &current.session);
        let exceeded = |remote| Exceeded::of(remote, self.settings.limits);
        Some(StatusInputs {
            generation: state.link.metadata.generation,
            invalid: entry.target.as_ref().err().map(ToString::to_string),
            duplicate_of: state.duplicate_of.clone(),
            credentials: state.credentials(kubeconfig.and_then(Result::err)),
            connected: state.connected(),
            held_up: state.held_up(),
            credentials_in_use: current.map(|current| fingerprint(&current.spec.kubeconfig)),
            expiry: credentials.and_then(|credentials| {
                Some(Expiry {
                    at: credentials.expires?,
                    cluster: state.link.spec.target_cluster_name.clone(),
                })
            }),
            insecure: credentials.and_then(|credentials| credentials.insecure),
            listed: entry.listed.clone(),
            settled: state.is_synced(),
            through_gateway: state.api_gateway.is_some(),
            no_api_gateway: self.no_api_gateway(name),
            exceeded: entry.remote.as_ref().and_then(exceeded),
            gateway: state.gateway.as_ref().map(|gateway| GatewayInputs {
                state: entry.gateway.clone(),
                refused: self.state.refused(name),
                ..gateway.inputs(name)
            }),
            drain: self.state.drain_of(name),
        })
    }

    /// Why no address of the gateway through which the API server of a Link is reached is known or used.
    fn no_api_gateway(&self, name: &str) -> Option<String> {
        let way = self.links.get(name)?.api_gateway.as_ref()?;
        let Some(reach) = self.state.api_gateway_addresses(name) else {
            return way.unresolved.clone();
        };
        let is_refused = reach.addresses.is_empty();
        is_refused.then(|| refused_message(&reach.refused))
    }

    /// Writes the status of a Link, if it has changed, and may be written now.
    fn write_status(&mut self, name: String, now: Instant) {
        let state = self.links.get_mut(&name);
        let is_in_effect = state.is_some_and(LinkState::is_in_effect);
        let inputs = self.inputs(&name);
        let (Some(mut inputs), Some(state)) = (inputs, self.links.get_mut(&name)) else {
            return;
        };
        if inputs.is_ready() && !is_in_effect {
            // For GitOps tools: they wait until the new generation is observed.
            inputs.generation = state.effective;
        }
        let wall = timing::now();
        state.status.look(inputs.expiry.as_ref(), wall);
        if state.status.holds_back(&inputs) {
            return;
        }
        let was_drained = std::mem::replace(&mut state.is_drained, inputs.drain.is_some());
        match &inputs.drain {
            Some(drain) if !was_drained => {
                tracing::info!(link = name, "drained {}", until(drain.until));
            }
            None if was_drained => tracing::info!(link = name, "no longer drained"),
            _ => {}
        }
        let last = state.status.last();
        let mut sent = status(last, &inputs, &state.outcomes, whole_seconds(wall));
        if state.keeps_reports && !inputs.settled {
            keep_reports(last, &mut sent);
        }
        measure(&self.metrics, &name, &inputs, &sent);
        let mut before = last.clone();
        if sent == before {
            if !state.status.is_sent_again(&state.link, now) {
                return;
            }
            before = state.link.status.clone().unwrap_or_default();
        } else if state.status.waits(&sent, now) {
            return;
        }
        state.status.begin(now);
        let (uid, metrics) = (state.link.uid(), self.metrics.clone());
        let api = Api::namespaced(self.client(), &self.state.config.namespace);
        self.tasks.spawn(async move {
            let ended = patch_status(&api, &name, &body(&before, &sent), &metrics).await;
            Done::Status {
                link: name,
                uid,
                sent: Box::new(sent),
                ended: ended.map(Box::new),
            }
        });
    }

    /// Handles the result of a write.
    pub fn on_status_written(
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

/// Keeps what the last status reports about Services: it stays until the first sync is complete.
fn keep_reports(last: &LinkStatus, sent: &mut LinkStatus) {
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

/// Updates the metrics of a Link.
fn measure(metrics: &Metrics, link: &str, inputs: &StatusInputs, sent: &LinkStatus) {
    let count = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let counts = LinkCounts {
        mirrored: count(sent.mirrored),
        federated: count(sent.federated),
        unhealthy: count(sent.unhealthy),
    };
    metrics.link_counts(link, counts);
    let ready = sent.condition(READY);
    metrics.link_ready(link, ready.is_some_and(|ready| ready.status == "True"));
    metrics.link_invalid(link, inputs.invalid.is_some());
    metrics.link_drained(link, inputs.drain.is_some());
}

/// Sends a patch of a status. Returns the status that the API server stored.
async fn patch_status(
    api: &Api<LinkObject>,
    link: &str,
    body: &Value,
    metrics: &Metrics,
) -> Result<LinkStatus, String> {
    let patch = Patch::Merge(body);
    let answer = request(api.patch_status(link, &PatchParams::default(), &patch)).await;
    let outcome = match &answer {
        Ok(_) => WriteResult::Ok,
        Err(_) => WriteResult::Error,
    };
    metrics.write(Verb::Patch, ResourceKind::Link, outcome);
    match answer {
        Ok(object) => Ok(object.link.status.unwrap_or_default()),
        // The Link was deleted, or its CRD has no status: there is nothing to write to.
        Err(RequestError::Status(status)) if status.code == 404 => Ok(LinkStatus::default()),
        Err(RequestError::Status(status)) => Err(status.message.clone()),
        Err(RequestError::Unanswered(why)) => Err(why.to_string()),
    }
}

/// The merge patch from one status to the next. Removed fields are set to null.
fn body(before: &LinkStatus, now: &LinkStatus) -> Value {
    let mut body = json!(now);
    set_removed_to_null(&json!(before), &mut body);
    json!({ "status": body })
}

fn set_removed_to_null(before: &Value, now: &mut Value) {
    let (Some(before), Some(now)) = (before.as_object(), now.as_object_mut()) else {
        return;
    };
    for (field, before) in before {
        match now.get_mut(field) {
            Some(now) => set_removed_to_null(before, now),
            None => drop(now.insert(field.clone(), Value::Null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use mirror_core::{api::link::Link, mirror::link_status::Outcomes};
    use tokio::time::sleep_until;

    use super::*;

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
        let inputs = StatusInputs {
            expiry: Some(Expiry {
                at: first + Duration::from_secs(90 * DAY),
                cluster: "east".into(),
            }),
            ..StatusInputs::default()
        };
        state.status.mark_dirty();
        let mut looks = Vec::new();
        while let Some(due) = state.status.next() {
            assert!(looks.len() < 4, "{looks:?}");
            sleep_until(due).await;
            state.status.look(inputs.expiry.as_ref(), now());
            let status = status(state.status.last(), &inputs, &Outcomes::default(), now());
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
