//! When the status of a Link is written: at most every two seconds, and later after a failure. While only messages and
//! reports about Services change, the pauses double. A status that somebody else changed is restored, at most once a
//! minute. Fields that the CRD pruned are sent once each time that Links are listed.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio::time::Instant;

use client::timing::Backoff;
use mirror_core::{
    api::{
        conditions::READY,
        link::{Link, LinkStatus},
    },
    mirror::link_status::{Expiry, StatusInputs, expiry},
};

/// Time between two writes for one Link.
const EVERY: Duration = Duration::from_secs(2);
/// Delay before a write, so that changes in quick succession are written together.
const GATHER: Duration = Duration::from_millis(100);
/// Minimum time between two computations of a status that is not sent yet.
const COMPUTE_EVERY: Duration = Duration::from_secs(1);
/// Maximum time between two writes while only the reports about Services change, of which there may be hundreds. If
/// only the text of messages changes, it is [`LONGEST`], because a target cluster's messages may differ each time.
const LONGEST_OF_SERVICES: Duration = Duration::from_secs(10);
/// Maximum delay after a failure, and while only the text of messages changes.
const LONGEST: Duration = Duration::from_secs(60);
/// Minimum time between two restorations of a status that somebody else overwrites, so that both do not write in a
/// loop.
const RESTORE_EVERY: Duration = Duration::from_secs(60);

/// The state of writing one Link's status.
pub struct StatusState {
    /// The last status that was sent; at first the status of the Link. Never a status that was read back: a CRD without
    /// our fields prunes them, and a comparison with its result would cause endless writes.
    last: LinkStatus,
    /// What the API server stored of it. If the Link has another status, somebody else wrote it.
    stored: LinkStatus,
    restored: Option<Instant>,
    /// When a status was last sent.
    written: Option<Instant>,
    /// How often in a row a status was sent in which only messages or Services differed.
    repeats: Backoff,
    /// Whether the Link's status has to be compared with the last one that was sent: after a list of Links or a failed
    /// write. Links are listed after a change of the CRD, which may have new fields.
    unchecked: bool,
    /// When the status has to be computed next: after a change, or because the token is about to expire, or expires.
    due: Option<Instant>,
    not_before: Instant,
    writing: bool,
    failures: Backoff,
}

impl StatusState {
    pub fn seeded(link: &Link) -> Self {
        Self {
            stored: has(link).into_owned(),
            last: has(link).into_owned(),
            restored: None,
            written: None,
            repeats: Backoff::new(EVERY, LONGEST),
            unchecked: false,
            due: None,
            not_before: Instant::now(),
            writing: false,
            failures: Backoff::new(2 * EVERY, LONGEST),
        }
    }

    /// The last status that was sent.
    pub fn last(&self) -> &LinkStatus {
        &self.last
    }

    /// When the status has to be computed next; `None` while a write is in progress, or if nothing has changed.
    pub fn next(&self) -> Option<Instant> {
        self.due.filter(|_| !self.writing)
    }

    /// Records that the status is computed now. It is due again after a change, or when the state of the token changes:
    /// about to expire, then expired.
    pub fn look(&mut self, expiry: Option<&Expiry>, now: Timestamp) {
        let lasts = expiry.and_then(|expiry| expiry::changes_in(expiry.at, now));
        self.due = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
    }

    /// Whether the status must not be written yet. After a restart, a Link that was ready stays so until the first sync
    /// is complete or a problem is known. Otherwise `Ready` would become false and then true again.
    pub fn holds_back(&self, inputs: &StatusInputs) -> bool {
        let is_well = inputs.invalid.is_none()
            && inputs.duplicate_of.is_none()
            && !matches!(inputs.credentials, Some(Err(_)))
            && !matches!(inputs.connected, Some(Err(_)));
        let mut last = self.last.conditions.iter();
        is_well && !inputs.settled && last.any(|c| c.type_ == READY && c.status == "True")
    }

    /// Whether this status is not sent yet, because it differs from the last one only in messages or in Services. While
    /// that goes on, the pauses between two writes double.
    pub fn waits(&mut self, sent: &LinkStatus, now: Instant) -> bool {
        let Some(longest) = longest_pause(&self.last, sent) else {
            self.repeats.reset();
            return false;
        };
        let Some(written) = self.written else {
            self.repeats.reset();
            self.repeats.next_pause();
            return false;
        };
        let pause = self.repeats.pause().min(longest);
        let waits = now < written + pause;
        if waits {
            self.not_before = (now + COMPUTE_EVERY).min(written + pause);
            self.compute_at(written + pause);
        } else if now < written + 2 * longest {
            self.repeats.next_pause();
        } else {
            self.repeats.reset();
        }
        waits
    }

    /// Records that a write starts.
    pub fn begin(&mut self, now: Instant) {
        self.unchecked = false;
        self.writing = true;
        self.written = Some(now);
    }

    /// Records the result of a write: the status that the API server stored, or an error.
    pub fn end(&mut self, sent: LinkStatus, ended: Result<LinkStatus, String>) {
        self.writing = false;
        let has_failed = ended.is_err();
        let delay = if let Ok(stored) = ended {
            self.last = sent;
            self.stored = stored;
            self.failures.reset();
            EVERY
        } else {
            self.unchecked = true;
            self.failures.next_pause()
        };
        self.not_before = Instant::now() + delay;
        self.due = self.due.map(|due| due.max(self.not_before));
        if has_failed {
            self.mark_dirty();
        }
    }

    /// Records that something may have changed.
    pub fn mark_dirty(&mut self) {
        self.compute_at(Instant::now() + GATHER);
    }

    fn compute_at(&mut self, at: Instant) {
        let at = at.max(self.not_before);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Records that Links were listed.
    pub fn listed(&mut self) {
        self.unchecked = true;
    }

    /// Whether somebody else has overwritten the status of a Link.
    fn is_overwritten(&self, link: &Link) -> bool {
        let has = has(link);
        *has != self.stored && *has != self.last
    }

    /// Whether the last status is due to be sent again, to replace the one that the Link has.
    pub fn is_sent_again(&mut self, link: &Link, now: Instant) -> bool {
        let unchecked = std::mem::take(&mut self.unchecked);
        if !self.is_overwritten(link) {
            return unchecked && *has(link) != self.last;
        }
        let again = self.restored.map(|at| at + RESTORE_EVERY);
        if let Some(again) = again.filter(|again| *again > now) {
            self.compute_at(again);
            return false;
        }
        let link = link.name_any();
        tracing::warn!(
            link,
            "restoring the status of the Link, which somebody else changed"
        );
        self.restored = Some(now);
        true
    }
}

/// The maximum pause before this status is sent; `None` if it is sent without a pause, because the type, status or
/// reason of a condition has changed, or something else about the Link.
fn longest_pause(last: &LinkStatus, sent: &LinkStatus) -> Option<Duration> {
    let (last, sent) = (without_messages(last), without_messages(sent));
    if last == sent {
        return Some(LONGEST);
    }
    let differ_in_services = without_services(last) == without_services(sent);
    differ_in_services.then_some(LONGEST_OF_SERVICES)
}

fn without_messages(status: &LinkStatus) -> LinkStatus {
    let mut status = status.clone();
    let services = status.mirror_services.iter_mut();
    for service in services.chain(&mut status.federated_services) {
        for condition in &mut service.conditions {
            condition.message.clear();
        }
    }
    for condition in &mut status.conditions {
        condition.message.clear();
        condition.last_transition_time.0 = Timestamp::UNIX_EPOCH;
        condition.observed_generation = None;
    }
    status
}

fn without_services(status: LinkStatus) -> LinkStatus {
    LinkStatus {
        mirror_services: Vec::new(),
        federated_services: Vec::new(),
        mirrored: None,
        federated: None,
        unhealthy: None,
        ..status
    }
}

/// The status that a Link has.
fn has(link: &Link) -> Cow<'_, LinkStatus> {
    let status = link.status.as_ref();
    status.map_or_else(Cow::default, Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use tokio::time::sleep_until;

    use super::*;

    fn said(message: &str) -> Condition {
        Condition {
            type_: "Connected".to_owned(),
            status: "False".to_owned(),
            reason: "Unreachable".to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    /// A Link that was ready.
    fn ready() -> Link {
        let ready = Condition {
            type_: READY.to_owned(),
            status: "True".to_owned(),
            ..said("")
        };
        Link {
            status: Some(LinkStatus {
                conditions: vec![ready],
                ..LinkStatus::default()
            }),
            ..Link::default()
        }
    }

    #[tokio::test]
    async fn only_a_ready_link_without_a_known_problem_keeps_its_status_until_it_has_settled() {
        let well = StatusInputs {
            credentials: Some(Ok(())),
            connected: Some(Ok(())),
            ..StatusInputs::default()
        };
        let state = StatusState::seeded(&ready());
        assert!(state.holds_back(&StatusInputs::default()), "nothing known");
        assert!(state.holds_back(&well));
        let other = |change: fn(&mut StatusInputs)| {
            let mut inputs = well.clone();
            change(&mut inputs);
            inputs
        };
        let lost = || "away".to_owned().into();
        let known = [
            other(|inputs| inputs.settled = true),
            other(|inputs| inputs.invalid = Some("no port".to_owned())),
            other(|inputs| inputs.duplicate_of = Some("older".to_owned())),
            other(|inputs| inputs.credentials = Some(Err(("Missing", "gone".to_owned())))),
            StatusInputs {
                connected: Some(Err(lost())),
                ..well.clone()
            },
        ];
        for inputs in &known {
            assert!(!state.holds_back(inputs), "{inputs:?}");
        }
        let mut others = ready();
        for (type_, status) in [(READY, "False"), ("Connected", "True")] {
            if let Some(known) = &mut others.status {
                known.conditions[0].type_ = type_.to_owned();
                known.conditions[0].status = status.to_owned();
            }
            let state = StatusState::seeded(&others);
            assert!(!state.holds_back(&well), "{type_} {status}");
        }
        assert!(!StatusState::seeded(&Link::default()).holds_back(&well));
    }

    #[tokio::test(start_paused = true)]
    async fn service_reports_are_written_with_backoff_and_conditions_immediately() {
        let mut state = StatusState::seeded(&Link::default());
        let started = Instant::now();
        let mut at = Vec::new();
        let mut sent = LinkStatus {
            target_cluster_name: Some("east".to_owned()),
            ..LinkStatus::default()
        };
        let mut computed = 0;
        while started.elapsed() < Duration::from_secs(60) {
            state.mark_dirty();
            sleep_until(state.next().unwrap()).await;
            state.look(None, Timestamp::UNIX_EPOCH);
            computed += 1;
            let is_new = started.elapsed() > Duration::from_secs(50) && sent.gateway.is_none();
            sent.mirrored = Some(sent.mirrored.unwrap_or_default() + 1);
            sent.gateway = is_new.then(Default::default).or(sent.gateway);
            if !state.waits(&sent, Instant::now()) {
                state.begin(Instant::now());
                state.end(sent.clone(), Ok(sent.clone()));
                at.push(started.elapsed().as_secs());
            }
        }
        assert_eq!(at, [0, 2, 6, 14, 24, 34, 44, 50, 52, 56]);
        assert!(computed <= 70, "computed {computed} times in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn reworded_messages_are_written_with_backoff_and_changes_immediately() {
        let mut link = Link::default();
        link.status.get_or_insert_default().conditions = vec![said("no answer")];
        let mut state = StatusState::seeded(&link);
        let started = Instant::now();
        let mut sent = LinkStatus::default();
        let mut number = 0;
        let mut write = async |state: &mut StatusState, is_reworded: bool| {
            number += 1;
            if is_reworded {
                sent.conditions = vec![said(&format!("no answer: {number}"))];
            } else {
                sent.target_cluster_name = Some("east".to_owned());
            }
            state.mark_dirty();
            loop {
                sleep_until(state.next().unwrap()).await;
                state.look(None, Timestamp::UNIX_EPOCH);
                if !state.waits(&sent, Instant::now()) {
                    break;
                }
            }
            state.begin(Instant::now());
            state.end(sent.clone(), Ok(sent.clone()));
            started.elapsed().as_secs()
        };
        let mut at = Vec::new();
        for _ in 0..8 {
            at.push(write(&mut state, true).await);
        }
        assert_eq!(at, [0, 4, 12, 28, 60, 120, 180, 240]);
        assert_eq!(write(&mut state, false).await, 242);
        assert_eq!(write(&mut state, true).await, 244);
    }
}
