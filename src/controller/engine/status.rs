//! The one writer of Link status: compares with what it sent last, and writes at most every two seconds.
//! What somebody else made of it is put right, at most once a minute; what a CRD dropped is sent once each time that
//! Links are listed.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::Instant;

use super::{Engine, done::Done, link_state::LinkState};
use crate::{
    api::link::{Link, LinkObject, LinkStatus},
    controller::{
        apply::{Answer, request},
        clock,
        metrics::{Kind, LinkCounts, Outcome, Verb},
    },
    mirror::{expiry, status::status},
};

/// Time between two writes for one Link.
const EVERY: Duration = Duration::from_secs(2);
/// News wait this long, so that those that come together are written together.
const GATHER: Duration = Duration::from_millis(100);
/// Longest delay after a failure.
const LONGEST: Duration = Duration::from_secs(60);
/// Latency alone is a reason to write after this time, if it moved by more than half.
const LATENCY_EVERY: Duration = Duration::from_secs(600);

/// Time between two writes of what somebody else overwrote: who does so again and again must not make us.
const RESTORE_EVERY: Duration = Duration::from_secs(60);

/// Where the status of one Link stands.
pub(super) struct StatusState {
    /// What was sent last; at first what the Link had. Never what is read back: a CRD that does not know our
    /// fields prunes them, and must not make us write for ever.
    last: LinkStatus,
    /// What the API server made of that. What a Link has instead was written by somebody else.
    stored: LinkStatus,
    restored: Option<Instant>,
    /// Links were listed, or a write failed, since what the Link has was compared with what was sent last. A CRD that
    /// knows more than the one before comes with such a list.
    unchecked: bool,
    /// When news are due to be written.
    due: Option<Instant>,
    /// When there are news by the passing of time: the token is about to expire, or does.
    turns: Option<Instant>,
    not_before: Instant,
    writing: bool,
    failures: u32,
    latency_written: Option<Instant>,
}

impl StatusState {
    pub(super) fn seeded(link: &Link) -> Self {
        Self {
            stored: has(link).into_owned(),
            last: has(link).into_owned(),
            restored: None,
            unchecked: false,
            due: None,
            turns: None,
            not_before: Instant::now(),
            writing: false,
            failures: 0,
            latency_written: None,
        }
    }

    /// Something may have changed.
    pub(super) fn touch(&mut self) {
        let at = (Instant::now() + GATHER).max(self.not_before);
        self.due.get_or_insert(at);
    }

    /// Takes in what a Link has. It may be our own last write, or an older one; it is compared when there was time.
    pub(super) fn seen(&mut self, link: &Link) {
        if self.is_overwritten(link) {
            self.touch();
        }
    }

    /// Takes in that Links were listed, and what this one has.
    pub(super) fn listed(&mut self, link: &Link) {
        if *has(link) != self.last {
            self.unchecked = true;
            self.touch();
        }
    }

    /// Whether somebody else wrote what a Link has, in place of what was sent.
    fn is_overwritten(&self, link: &Link) -> bool {
        let has = has(link);
        *has != self.stored && *has != self.last
    }

    /// Whether what was sent last is due to be sent again, in place of what a Link has.
    fn is_sent_again(&mut self, link: &Link, now: Instant) -> bool {
        let unchecked = std::mem::take(&mut self.unchecked);
        if !self.is_overwritten(link) {
            return unchecked && *has(link) != self.last;
        }
        let again = self.restored.map(|at| at + RESTORE_EVERY);
        if let Some(again) = again.filter(|again| *again > now) {
            self.due = Some(again);
            return false;
        }
        let link = link.name_any();
        tracing::warn!(link, "somebody else changed the status of the Link");
        self.restored = Some(now);
        true
    }

    /// Takes in a latency, milliseconds: told if it moved by more than half and the last one was told long
    /// ago. What a Link's status said before a restart counts as told just then.
    pub(super) fn latency(&mut self, told: &mut Option<i64>, now: i64) {
        let written = *self.latency_written.get_or_insert_with(Instant::now);
        let moved = told.is_some_and(|told| (now - told).abs() * 2 > told);
        if told.is_none() || (moved && written.elapsed() >= LATENCY_EVERY) {
            *told = Some(now);
            self.latency_written = Some(Instant::now());
            self.touch();
        }
    }

    /// Whether the Link said to be ready before this process looked at it.
    fn was_ready(&self) -> bool {
        self.last
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }
}

impl LinkState {
    /// When the status has to be looked at next.
    pub(super) fn next_status(&self) -> Option<Instant> {
        let turns = self.status.turns.map(|at| at.max(self.status.not_before));
        let next = [self.status.due, turns].into_iter().flatten().min();
        next.filter(|_| !self.status.writing && !self.holds_back())
    }

    /// The status is looked at now: it is next due when something is touched, or the token comes to its next stage.
    fn look(&mut self, now: Timestamp) {
        self.status.due = None;
        let expiry = self.facts.expiry.as_ref();
        let lasts = expiry.and_then(|expiry| expiry::lasts(expiry.at, now));
        self.status.turns = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
    }

    /// After a restart nothing is said until as much is known as before, or something is known to be wrong:
    /// counts would only go down and up again.
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
        let namespace = self.world.config.namespace.clone();
        for (name, state) in &mut self.links {
            if state.next_status().is_none_or(|due| due > now) {
                continue;
            }
            let entry = self.world.links.as_ref().and_then(|links| links.get(name));
            state.facts.listed = entry.and_then(|entry| entry.listed.clone());
            if let Some(gateway) = &mut state.facts.gateway {
                gateway.refused = self.world.refused(name);
            }
            let ready = state.facts.settled && matches!(state.facts.connected, Some(Ok(())));
            let wall = clock::now();
            state.look(wall);
            let last = &state.status.last;
            let mut sent = status(last, &state.facts, &state.ledger, wall);
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
            let mut before = state.status.last.clone();
            if sent == before {
                if !state.status.is_sent_again(&state.link, now) {
                    continue;
                }
                before = has(&state.link).into_owned();
            }
            state.status.unchecked = false;
            state.status.writing = true;
            let api: Api<LinkObject> = Api::namespaced(client.clone(), &namespace);
            let (link, metrics) = (name.clone(), self.metrics.clone());
            let uid = state.link.uid();
            self.tasks.spawn(async move {
                let body = body(&before, &sent);
                let patch = Patch::Merge(&body);
                let parameters = PatchParams::default();
                let answer = request(api.patch_status(&link, &parameters, &patch)).await;
                let outcome = if answer.is_ok() {
                    Outcome::Ok
                } else {
                    Outcome::Error
                };
                metrics.write(Verb::Patch, Kind::Link, outcome);
                let ended = match answer {
                    Ok(object) => Ok(object.link.status.unwrap_or_default()),
                    // The Link is gone, or its CRD has no status: either way there is nothing to write to.
                    Err(Answer::Status(status)) if status.code == 404 => Ok(LinkStatus::default()),
                    Err(Answer::Status(status)) => Err(status.message.clone()),
                    Err(Answer::None(message)) => Err(message),
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

    /// Takes in the end of a write.
    pub(super) fn status_written(
        &mut self,
        link: &str,
        uid: Option<&str>,
        sent: LinkStatus,
        ended: Result<LinkStatus, String>,
    ) {
        // A Link of this name that was made since has a status of its own.
        let state = self.links.get_mut(link);
        let Some(state) = state.filter(|state| state.link.uid().as_deref() == uid) else {
            return;
        };
        let status = &mut state.status;
        status.writing = false;
        let delay = match ended {
            Ok(stored) => {
                status.last = sent;
                status.stored = stored;
                status.failures = 0;
                EVERY
            }
            Err(message) => {
                tracing::warn!(link, "failed to write the status of the Link: {message}");
                status.failures = status.failures.saturating_add(1);
                status.unchecked = true;
                let delay = EVERY
                    .saturating_mul(1 << status.failures.min(6))
                    .min(LONGEST);
                status.due.get_or_insert_with(|| Instant::now() + delay);
                delay
            }
        };
        status.not_before = Instant::now() + delay;
        status.due = status.due.map(|due| due.max(status.not_before));
    }
}

/// The status that a Link has.
fn has(link: &Link) -> Cow<'_, LinkStatus> {
    let status = link.status.as_ref();
    status.map_or_else(Cow::default, Cow::Borrowed)
}

/// What was said of Services stands: a cluster that was not seen yet is no reason to take it back.
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

/// The merge patch from one status to the next: fields that fell away are cleared by name.
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
    use std::sync::Arc;

    use tokio::time::sleep_until;

    use super::*;
    use crate::mirror::status::{Expiry, Ledger};

    #[tokio::test(start_paused = true)]
    async fn status_is_looked_at_once_when_the_token_is_about_to_expire_and_once_when_it_does() {
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
            let status = status(&state.status.last, &state.facts, &Ledger::default(), now());
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
