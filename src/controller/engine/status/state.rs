//! When the status of a Link is written: at most every two seconds, and later after a failure. While type, status and
//! reason of all conditions stay the same, the pauses double. A status that somebody else changed is restored,
//! at most once a minute. Fields that the CRD pruned are sent once each time that Links are listed.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::{
    api::link::{Link, LinkStatus},
    timing::Backoff,
};

/// Time between two writes for one Link.
const EVERY: Duration = Duration::from_secs(2);
/// Delay before a write, so that changes in quick succession are written together.
const GATHER: Duration = Duration::from_millis(100);
/// Maximum time between two writes while the conditions stay the same. There may be hundreds of Services. If only the
/// text of messages changes, it is [`LONGEST`], because a target cluster's messages may differ each time.
const LONGEST_OF_SERVICES: Duration = Duration::from_secs(10);
/// Maximum delay after a failure, and while only the text of messages changes.
const LONGEST: Duration = Duration::from_secs(60);
/// Minimum time between two writes for a changed latency alone, which has to differ by more than half.
const LATENCY_EVERY: Duration = Duration::from_secs(600);

/// Minimum time between two restorations of a status that somebody else overwrites, so that both do not write in a
/// loop.
const RESTORE_EVERY: Duration = Duration::from_secs(60);

/// The state of writing one Link's status.
pub(in crate::controller::engine) struct StatusState {
    /// The last status that was sent; at first the status of the Link. Never a status that was read back: a CRD without
    /// our fields prunes them, and a comparison with its result would cause endless writes.
    last: LinkStatus,
    /// What the API server stored of it. If the Link has another status, somebody else wrote it.
    stored: LinkStatus,
    restored: Option<Instant>,
    /// When a status was last sent.
    written: Option<Instant>,
    /// How often in a row it was sent while the conditions stayed the same.
    repeats: Backoff,
    /// Whether the Link's status has to be compared with the last one that was sent: after a list of Links or a failed
    /// write. Links are listed after a change of the CRD, which may have new fields.
    unchecked: bool,
    /// When changes are due to be written.
    due: Option<Instant>,
    /// When the status changes because time passes: the token is about to expire, or expires.
    turns: Option<Instant>,
    not_before: Instant,
    writing: bool,
    failures: Backoff,
    latency_written: Option<Instant>,
}

impl StatusState {
    pub(in crate::controller::engine) fn seeded(link: &Link) -> Self {
        Self {
            stored: has(link).into_owned(),
            last: has(link).into_owned(),
            restored: None,
            written: None,
            repeats: Backoff::new(EVERY, LONGEST),
            unchecked: false,
            due: None,
            turns: None,
            not_before: Instant::now(),
            writing: false,
            failures: Backoff::new(2 * EVERY, LONGEST),
            latency_written: None,
        }
    }

    /// The last status that was sent.
    pub(super) fn last(&self) -> &LinkStatus {
        &self.last
    }

    /// When the status has to be computed next.
    pub(super) fn next(&self) -> Option<Instant> {
        let turns = self.turns.map(|at| at.max(self.not_before));
        let next = [self.due, turns].into_iter().flatten().min();
        next.filter(|_| !self.writing)
    }

    /// Records that the status is computed now, and that it changes after this time if nothing else happens.
    pub(super) fn look(&mut self, turns_in: Option<Duration>) {
        self.due = None;
        self.turns = turns_in.and_then(|time| Instant::now().checked_add(time));
    }

    /// Whether this status is not sent yet, because type, status and reason of all conditions are the same as before.
    /// While they stay so, the pauses between two writes double.
    pub(super) fn waits(&mut self, sent: &LinkStatus, now: Instant) -> bool {
        let longest = match Difference::between(&self.last, sent) {
            Difference::Conditions => {
                self.repeats.reset();
                return false;
            }
            Difference::Services => LONGEST_OF_SERVICES,
            Difference::Messages => LONGEST,
        };
        let Some(written) = self.written else {
            self.repeats.reset();
            self.repeats.next_pause();
            return false;
        };
        let pause = self.repeats.pause().min(longest);
        let waits = now < written + pause;
        if waits {
            self.touch_at(written + pause);
        } else if now < written + 2 * longest {
            self.repeats.next_pause();
        } else {
            self.repeats.reset();
        }
        waits
    }

    /// Records that a write starts.
    pub(super) fn begin(&mut self, now: Instant) {
        self.unchecked = false;
        self.writing = true;
        self.written = Some(now);
    }

    /// Records the result of a write: the status that the API server stored, or an error.
    pub(super) fn end(&mut self, sent: LinkStatus, ended: Result<LinkStatus, String>) {
        self.writing = false;
        let delay = if let Ok(stored) = ended {
            self.last = sent;
            self.stored = stored;
            self.failures.reset();
            EVERY
        } else {
            self.unchecked = true;
            let delay = self.failures.next_pause();
            self.due.get_or_insert_with(|| Instant::now() + delay);
            delay
        };
        self.not_before = Instant::now() + delay;
        self.due = self.due.map(|due| due.max(self.not_before));
    }

    /// Records that something may have changed.
    pub(in crate::controller::engine) fn touch(&mut self) {
        self.touch_at(Instant::now() + GATHER);
    }

    fn touch_at(&mut self, at: Instant) {
        let at = at.max(self.not_before);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Handles an event of the Link, with its status. The status may be from our own last write, or from an earlier
    /// one.
    pub(in crate::controller::engine) fn seen(&mut self, link: &Link) {
        if self.is_overwritten(link) {
            self.touch();
        }
    }

    /// Handles a list of Links, with the status of this one.
    pub(in crate::controller::engine) fn listed(&mut self, link: &Link) {
        if *has(link) != self.last {
            self.unchecked = true;
            self.touch();
        }
    }

    /// Whether somebody else has overwritten the status of a Link.
    fn is_overwritten(&self, link: &Link) -> bool {
        let has = has(link);
        *has != self.stored && *has != self.last
    }

    /// Whether the last status is due to be sent again, to replace the one that the Link has.
    pub(super) fn is_sent_again(&mut self, link: &Link, now: Instant) -> bool {
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
        tracing::warn!(
            link,
            "restoring the status of the Link, which somebody else changed"
        );
        self.restored = Some(now);
        true
    }

    /// Handles a latency in milliseconds. It is reported if it differs by more than half from the last reported one,
    /// and that was long ago. A latency in the Link's status before a restart counts as reported at the restart.
    pub(in crate::controller::engine) fn latency(&mut self, told: &mut Option<i64>, now: i64) {
        let written = *self.latency_written.get_or_insert_with(Instant::now);
        let moved = told.is_some_and(|told| (now - told).abs() * 2 > told);
        if told.is_none() || (moved && written.elapsed() >= LATENCY_EVERY) {
            *told = Some(now);
            self.latency_written = Some(Instant::now());
            self.touch();
        }
    }

    /// Whether the last status that was sent, or that this process found at its start, has the condition `Ready`.
    pub(super) fn was_ready(&self) -> bool {
        self.last
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }
}

/// In what two statuses differ.
enum Difference {
    /// Only in the text of messages.
    Messages,
    /// In the reports about Services, too.
    Services,
    /// In the type, status or reason of a condition, or in something else about the Link.
    Conditions,
}

impl Difference {
    fn between(last: &LinkStatus, sent: &LinkStatus) -> Self {
        let (last, sent) = (without_messages(last), without_messages(sent));
        if last == sent {
            Self::Messages
        } else if without_services(last) == without_services(sent) {
            Self::Services
        } else {
            Self::Conditions
        }
    }
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
pub(super) fn has(link: &Link) -> Cow<'_, LinkStatus> {
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

    #[tokio::test(start_paused = true)]
    async fn service_reports_are_written_with_backoff_and_conditions_immediately() {
        let mut state = StatusState::seeded(&Link::default());
        let started = Instant::now();
        let mut at = Vec::new();
        let mut sent = LinkStatus {
            target_cluster_name: Some("east".to_owned()),
            ..LinkStatus::default()
        };
        while started.elapsed() < Duration::from_secs(60) {
            state.touch();
            sleep_until(state.next().unwrap()).await;
            state.look(None);
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
            state.touch();
            loop {
                sleep_until(state.next().unwrap()).await;
                state.look(None);
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
