//! When the status of a Link is written: at most every two seconds, ever less often where only words differ or only what is
//! said of Services, and later after a failure. What somebody else made of it is put right, at most once a minute; what a CRD dropped is sent once
//! each time that Links are listed.

use std::{borrow::Cow, time::Duration};

use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::api::link::{Link, LinkStatus};

/// Time between two writes for one Link.
const EVERY: Duration = Duration::from_secs(2);
/// News wait this long, so that those that come together are written together.
const GATHER: Duration = Duration::from_millis(100);
/// Time between two writes, at most, while nothing changes but what is said of Services: there may be hundreds of them.
const LONGEST_OF_SERVICES: Duration = Duration::from_secs(10);
/// Longest delay after a failure.
const LONGEST: Duration = Duration::from_secs(60);
/// Latency alone is a reason to write after this time, if it moved by more than half.
const LATENCY_EVERY: Duration = Duration::from_secs(600);

/// Time between two writes of what somebody else overwrote: who does so again and again must not make us.
const RESTORE_EVERY: Duration = Duration::from_secs(60);

/// Where the status of one Link stands.
pub(in crate::controller::engine) struct StatusState {
    /// What was sent last; at first what the Link had. Never what is read back: a CRD that does not know our
    /// fields prunes them, and must not make us write for ever.
    last: LinkStatus,
    /// What the API server made of that. What a Link has instead was written by somebody else.
    stored: LinkStatus,
    restored: Option<Instant>,
    /// When it was sent last.
    written: Option<Instant>,
    /// Whether it is due because of other words, and nothing else.
    only_words: bool,
    /// How often in a row it was sent because of that.
    rewordings: u32,
    /// How often in a row it was sent because of what is said of Services.
    of_services: u32,
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
    pub(in crate::controller::engine) fn seeded(link: &Link) -> Self {
        Self {
            stored: has(link).into_owned(),
            last: has(link).into_owned(),
            restored: None,
            written: None,
            only_words: false,
            rewordings: 0,
            of_services: 0,
            unchecked: false,
            due: None,
            turns: None,
            not_before: Instant::now(),
            writing: false,
            failures: 0,
            latency_written: None,
        }
    }

    /// What was sent last.
    pub(super) fn last(&self) -> &LinkStatus {
        &self.last
    }

    /// When it has to be looked at next.
    pub(super) fn next(&self) -> Option<Instant> {
        let turns = self.turns.map(|at| at.max(self.not_before));
        let next = [self.due, turns].into_iter().flatten().min();
        next.filter(|_| !self.writing)
    }

    /// It is looked at now, and there are news by the passing of so much time.
    pub(super) fn look(&mut self, turns_in: Option<Duration>) {
        self.due = None;
        self.turns = turns_in.and_then(|time| Instant::now().checked_add(time));
    }

    /// Whether this is not sent yet: it says other things of Services, and nothing else. While that goes on, the pauses
    /// between two writes double.
    pub(super) fn waits(&mut self, sent: &LinkStatus, now: Instant) -> bool {
        let before = self.written.filter(|_| is_of_services(&self.last, sent));
        let Some(written) = before else {
            self.of_services = 0;
            return false;
        };
        let pause = doubled(self.of_services).min(LONGEST_OF_SERVICES);
        let waits = now < written + pause;
        if waits {
            self.touch_at(written + pause);
        } else if now < written + 2 * LONGEST_OF_SERVICES {
            self.of_services = self.of_services.saturating_add(1);
        } else {
            self.of_services = 0;
        }
        waits
    }

    /// It is sent.
    pub(super) fn begin(&mut self, now: Instant) {
        self.unchecked = false;
        self.writing = true;
        self.written = Some(now);
        let in_a_row = self.rewordings.saturating_add(1);
        self.rewordings = if self.only_words { in_a_row } else { 0 };
        self.only_words = false;
    }

    /// It was sent: what the API server made of it, or not.
    pub(super) fn end(&mut self, sent: LinkStatus, ended: Result<LinkStatus, String>) {
        self.writing = false;
        let delay = if let Ok(stored) = ended {
            self.last = sent;
            self.stored = stored;
            self.failures = 0;
            EVERY
        } else {
            self.failures = self.failures.saturating_add(1);
            self.unchecked = true;
            let delay = doubled(self.failures);
            self.due.get_or_insert_with(|| Instant::now() + delay);
            delay
        };
        self.not_before = Instant::now() + delay;
        self.due = self.due.map(|due| due.max(self.not_before));
    }

    /// Something may have changed.
    pub(in crate::controller::engine) fn touch(&mut self) {
        self.only_words = false;
        self.touch_at(Instant::now() + GATHER);
    }

    /// Something is said in other words. That is written ever less often, up to once a minute, while nothing else
    /// changes: what a target cluster says may read differently each time.
    pub(in crate::controller::engine) fn reword(&mut self) {
        self.only_words |= self.due.is_none();
        let last = self.written.map(|at| at + doubled(self.rewordings));
        let soon = Instant::now() + GATHER;
        self.touch_at(last.map_or(soon, |last| last.max(soon)));
    }

    fn touch_at(&mut self, at: Instant) {
        let at = at.max(self.not_before);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Takes in what a Link has. It may be our own last write, or an older one; it is compared when there was time.
    pub(in crate::controller::engine) fn seen(&mut self, link: &Link) {
        if self.is_overwritten(link) {
            self.touch();
        }
    }

    /// Takes in that Links were listed, and what this one has.
    pub(in crate::controller::engine) fn listed(&mut self, link: &Link) {
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

    /// Takes in a latency, milliseconds: told if it moved by more than half and the last one was told long
    /// ago. What a Link's status said before a restart counts as told just then.
    pub(in crate::controller::engine) fn latency(&mut self, told: &mut Option<i64>, now: i64) {
        let written = *self.latency_written.get_or_insert_with(Instant::now);
        let moved = told.is_some_and(|told| (now - told).abs() * 2 > told);
        if told.is_none() || (moved && written.elapsed() >= LATENCY_EVERY) {
            *told = Some(now);
            self.latency_written = Some(Instant::now());
            self.touch();
        }
    }

    /// Whether the Link said to be ready before this process looked at it.
    pub(super) fn was_ready(&self) -> bool {
        self.last
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }
}

/// Whether two statuses differ in what they say of Services, or in words, and in nothing else.
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

/// A pause that doubles.
fn doubled(times: u32) -> Duration {
    EVERY.saturating_mul(1 << times.min(6)).min(LONGEST)
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
    async fn what_is_said_of_services_is_written_ever_less_often_and_conditions_at_once() {
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
    async fn other_words_are_written_ever_less_often_and_a_change_at_once() {
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
