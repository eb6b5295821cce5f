//! When the status of a Link is written: at most every two seconds, and later after a failure. If only the text of
//! messages or the reports about Services change, the pauses double. A status that somebody else changed is restored,
//! at most once a minute. Fields that the CRD pruned are sent once each time that Links are listed.

use std::{borrow::Cow, time::Duration};

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
/// Maximum time between two writes while only the reports about Services change. There may be hundreds of Services.
const LONGEST_OF_SERVICES: Duration = Duration::from_secs(10);
/// Maximum delay after a failure.
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
    /// Whether it is due only because the text of messages changed.
    only_words: bool,
    /// How often in a row it was sent only because of that.
    rewordings: Backoff,
    /// How often in a row it was sent only because of reports about Services.
    of_services: Backoff,
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
            only_words: false,
            rewordings: Backoff::new(EVERY, LONGEST),
            of_services: Backoff::new(EVERY, LONGEST_OF_SERVICES),
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

    /// Whether this status is not sent yet, because only its reports about Services have changed. While nothing else
    /// changes, the pauses between two writes double.
    pub(super) fn waits(&mut self, sent: &LinkStatus, now: Instant) -> bool {
        let before = self.written.filter(|_| is_of_services(&self.last, sent));
        let Some(written) = before else {
            self.of_services.reset();
            return false;
        };
        let pause = self.of_services.pause();
        let waits = now < written + pause;
        if waits {
            self.touch_at(written + pause);
        } else if now < written + 2 * LONGEST_OF_SERVICES {
            self.of_services.next_pause();
        } else {
            self.of_services.reset();
        }
        waits
    }

    /// Records that a write starts.
    pub(super) fn begin(&mut self, now: Instant) {
        self.unchecked = false;
        self.writing = true;
        self.written = Some(now);
        if std::mem::take(&mut self.only_words) {
            self.rewordings.next_pause();
        } else {
            self.rewordings.reset();
        }
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
        self.only_words = false;
        self.touch_at(Instant::now() + GATHER);
    }

    /// Records that only the text of a message has changed. While nothing else changes, the pauses between two writes
    /// double, up to a minute, because a target cluster's messages may differ each time.
    pub(in crate::controller::engine) fn reword(&mut self) {
        self.only_words |= self.due.is_none();
        let last = self.written.map(|at| at + self.rewordings.pause());
        let soon = Instant::now() + GATHER;
        self.touch_at(last.map_or(soon, |last| last.max(soon)));
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

/// Whether two statuses differ only in their reports about Services and in the text of messages.
fn is_of_services(last: &LinkStatus, sent: &LinkStatus) -> bool {
    let kept = |status: &LinkStatus| {
        let conditions = status.conditions.iter();
        let conditions: Vec<_> = conditions
            .map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone()))
            .collect();
        let LinkStatus {
            mirror_services: _,
            federated_services: _,
            mirrored: _,
            federated: _,
            unhealthy: _,
            conditions: _,
            gateway,
            target_cluster_name,
            credentials_fingerprint,
            observed_generation,
        } = status;
        let names = (target_cluster_name.clone(), credentials_fingerprint.clone());
        (conditions, gateway.clone(), names, *observed_generation)
    };
    kept(last) == kept(sent)
}

/// The status that a Link has.
pub(super) fn has(link: &Link) -> Cow<'_, LinkStatus> {
    let status = link.status.as_ref();
    status.map_or_else(Cow::default, Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep_until;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn service_reports_are_written_with_backoff_and_conditions_immediately() {
        let mut state = StatusState::seeded(&Link::default());
        let started = Instant::now();
        let mut at = Vec::new();
        let mut sent = LinkStatus::default();
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
        let mut state = StatusState::seeded(&Link::default());
        let started = Instant::now();
        let write = async |state: &mut StatusState| {
            sleep_until(state.next().unwrap()).await;
            state.look(None);
            state.begin(Instant::now());
            let sent = LinkStatus::default();
            state.end(sent.clone(), Ok(sent));
            started.elapsed().as_secs()
        };
        let mut at = Vec::new();
        for _ in 0..8 {
            state.reword();
            at.push(write(&mut state).await);
        }
        assert_eq!(at, [0, 4, 12, 28, 60, 120, 180, 240]);
        state.reword();
        state.touch();
        assert_eq!(write(&mut state).await, 242);
        state.reword();
        assert_eq!(write(&mut state).await, 244);
    }
}
