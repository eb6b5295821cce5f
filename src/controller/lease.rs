//! Leader election on one Lease: who may write, and until when.
//!
//! **Flow.** A candidate looks at the lease every few seconds. It takes it when it is missing, released, or
//! unchanged for its whole duration by the candidate's own monotonic clock. The leader renews it. Every write
//! carries the resourceVersion that was seen (the API server refuses updates of a Lease without one), so of
//! two writers one gets a conflict and looks again.
//!
//! **Guarantees.** [`Fence::holds`] is false before anybody else may take the lease, also in a process that
//! was stopped for longer than that: it is a comparison with the monotonic clock, not a flag that a task has
//! to clear. The times in the record are for people; no decision compares wall clocks.
//!
//! **Assumptions.** Clocks of two machines differ in speed by no more than 5 %. Identities are unique among
//! processes that run at once (a pod's name is). Writers check the fence before each write.
//!
//! **Caveats.** A write that was on its way when the process stopped may arrive later; the preconditions of
//! every write are what makes that harmless. `CLOCK_MONOTONIC` stands still while a whole machine is
//! suspended, so a resumed machine may believe in its lease until its first renewal fails.
//!
//! Needs on Leases in its namespace: get, create, update.

mod elector;
mod record;
mod rules;
#[cfg(test)]
mod simulation;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{anyhow, bail};
use kube::{Api, Client};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    elector::{Elector, Failure, Held},
    rules::{Act, Sight, fence_end, usable},
};
use super::{clock::jitter, trouble::Trouble};

/// Default name of the lease. The original has one for each Link, `service-mirror-write-<link>`.
pub const NAME: &str = "service-mirror-write";

/// Which lease, and how patient everybody is.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Name of the Lease.
    pub name: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Our name in the lease; no other process that runs at the same time may use it.
    pub identity: String,
    /// How long the lease must be unchanged before another may take it.
    pub duration: Duration,
    /// How long after its last successful renewal a leader gives up.
    pub renew_deadline: Duration,
    /// Time between two looks of a candidate, and between two renewals of a leader.
    pub retry: Duration,
}

/// Permission to write, until it is lost or released. Dropping it ends it without releasing the lease.
#[derive(Debug)]
pub struct Leadership {
    fence: Fence,
    quit: CancellationToken,
    release_limit: Duration,
    /// Renews; ends with why the lease was lost, or with nothing after a release. Taken once it has ended.
    task: Option<JoinHandle<Option<anyhow::Error>>>,
}

/// To be asked before each write.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<Until>>);

#[derive(Debug)]
struct Until {
    base: Instant,
    /// Nanoseconds after `base` until which one may write; 0 once it is closed, and then for good.
    nanos: AtomicU64,
}

impl LeaseSettings {
    /// The lease [`NAME`] with the original's times: 30 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            name: NAME.to_owned(),
            namespace: namespace.into(),
            identity: identity.into(),
            duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    fn validate(&self) -> anyhow::Result<()> {
        if self.identity.is_empty() {
            bail!("leader election needs an identity that is not empty");
        }
        if self.retry.is_zero()
            || self.retry >= self.renew_deadline
            || self.renew_deadline > usable(self.duration)
        {
            bail!(
                "leader election needs retry < renew deadline < 9/10 of the lease's duration, not {:?}, {:?}, {:?}",
                self.retry,
                self.renew_deadline,
                self.duration
            );
        }
        Ok(())
    }

    /// Limit of one request: a silent API server leaves time for a second try.
    fn request_limit(&self) -> Duration {
        self.renew_deadline / 2
    }
}

impl Fence {
    /// A fence that always holds, for a controller that runs without leader election.
    pub fn always() -> Self {
        Self(None)
    }

    /// A fence that never holds, for a replica that stands by.
    pub fn closed() -> Self {
        let (base, nanos) = (Instant::now(), AtomicU64::new(0));
        Self(Some(Arc::new(Until { base, nanos })))
    }

    /// Whether one may write now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|until| {
            let nanos = until.nanos.load(Ordering::SeqCst);
            nanos > 0 && Instant::now() < until.base + Duration::from_nanos(nanos)
        })
    }

    fn until(base: Instant, end: Instant) -> Self {
        let fence = Self(Some(Arc::new(Until {
            base,
            nanos: AtomicU64::new(1),
        })));
        fence.extend(end);
        fence
    }

    /// Holds until `end`, unless it was closed.
    fn extend(&self, end: Instant) {
        if let Some(until) = &self.0 {
            let nanos = u64::try_from((end - until.base).as_nanos()).unwrap_or(u64::MAX);
            let _ = until
                .nanos
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                    (now > 0).then_some(nanos)
                });
        }
    }

    fn close(&self) {
        if let Some(until) = &self.0 {
            until.nanos.store(0, Ordering::SeqCst);
        }
    }
}

/// Waits until this process leads. `None` when it was stopped first.
///
/// Errors of the API server are logged, once a change, and waited out. Fails only on wrong settings.
pub async fn acquire(
    client: Client,
    settings: LeaseSettings,
    stop: CancellationToken,
) -> anyhow::Result<Option<Leadership>> {
    settings.validate()?;
    let elector = Elector {
        api: Api::namespaced(client, &settings.namespace),
        settings,
    };
    let lease_name = elector.lease_name();
    let mut trouble = Trouble::new(format!("read or write the lease {lease_name}"));
    let mut sight = None;
    let mut holder = None;
    loop {
        let started = Instant::now();
        let mut next = started + elector.settings.retry + jitter(elector.settings.retry / 5);
        let looked = stop.run_until_cancelled(elector.look(&mut sight)).await;
        let Some(looked) = looked else {
            return Ok(None);
        };
        match looked {
            Ok((act, lease)) => {
                let written = match act {
                    Act::Wait(free) => {
                        next = next.min(free);
                        None
                    }
                    // Not cancelled by `stop`: a lease that was taken has to be released.
                    Act::Create | Act::Take | Act::Renew => Some(elector.take(lease).await),
                };
                match written {
                    Some(Ok(held)) if stop.is_cancelled() => {
                        elector.release(held).await;
                        return Ok(None);
                    }
                    Some(Ok(held)) => {
                        tracing::info!(lease = lease_name, "leading");
                        return Ok(Some(Leadership::start(elector, held)));
                    }
                    None | Some(Err(Failure::Conflict)) => {
                        trouble.clear();
                    }
                    Some(Err(Failure::Other(reason))) => {
                        trouble.set(&reason);
                    }
                }
            }
            Err(reason) => {
                trouble.set(&reason);
            }
        }
        let seen = sight.as_ref().and_then(Sight::holder);
        if holder.as_deref() != seen {
            holder = seen.map(str::to_owned);
            tracing::info!(lease = lease_name, holder, "standing by");
        }
        if stop.run_until_cancelled(sleep_until(next)).await.is_none() {
            return Ok(None);
        }
    }
}

impl Leadership {
    fn start(elector: Elector, mut held: Held) -> Self {
        let fence = Fence::until(held.start, fence_end(held.start, elector.settings.duration));
        let quit = CancellationToken::new();
        let release_limit = elector.settings.renew_deadline;
        let task = tokio::spawn({
            let (fence, quit) = (fence.clone(), quit.clone());
            async move {
                let lost = quit
                    .run_until_cancelled(elector.keep(&mut held, &fence))
                    .await;
                fence.close();
                if lost.is_none() {
                    elector.release(held).await;
                }
                lost
            }
        });
        Self {
            fence,
            quit,
            release_limit,
            task: Some(task),
        }
    }

    /// What writers ask before each write.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Resolves when the lease is lost, with the reason. Then all work has to stop. May be dropped and called
    /// again, as in a `select!`.
    pub async fn lost(&mut self) -> anyhow::Error {
        let ended = match &mut self.task {
            Some(task) => task.await,
            None => Ok(None),
        };
        self.task = None;
        self.fence.close();
        match ended {
            Ok(Some(reason)) => reason,
            Ok(None) => anyhow!("the lease was given up before"),
            Err(error) => anyhow::Error::new(error).context("the task that renews the lease died"),
        }
    }

    /// Gives the lease up, so that another replica need not wait. All writers must have stopped before.
    pub async fn release(mut self) {
        self.fence.close();
        self.quit.cancel();
        if let Some(task) = self.task.take() {
            // The requests have limits of their own; this one is for the sum of them.
            let _ = timeout(self.release_limit, task).await;
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.close();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let good = LeaseSettings::new("linkerd-multicluster", "a");
        assert!(good.validate().is_ok());
        let seconds = Duration::from_secs;
        for (duration, renew_deadline, retry, identity) in [
            (30, 10, 0, "a"),
            (30, 10, 10, "a"),
            (30, 28, 2, "a"),
            (30, 30, 2, "a"),
            (30, 10, 2, ""),
        ] {
            let wrong = LeaseSettings {
                duration: seconds(duration),
                renew_deadline: seconds(renew_deadline),
                retry: seconds(retry),
                identity: identity.into(),
                ..good.clone()
            };
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }

    /// Compiles only if callers may spawn these.
    #[expect(dead_code, reason = "checked by the compiler")]
    fn elections_can_be_spawned(client: Client, settings: LeaseSettings, mut leader: Leadership) {
        fn send(_: impl Send) {}
        send(acquire(client, settings, CancellationToken::new()));
        send(async move {
            leader.lost().await;
            leader.release().await;
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_ends_by_the_clock_and_never_reopens_once_closed() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let fence = Fence::until(now, now + 3 * second);
        let writer = fence.clone();
        tokio::time::advance(2 * second).await;
        assert!(writer.holds());
        fence.extend(now + 5 * second);
        tokio::time::advance(2 * second).await;
        assert!(writer.holds());
        // As in a process that was stopped: no task of ours has run in between.
        tokio::time::advance(second).await;
        assert!(!writer.holds());
        fence.extend(now + 60 * second);
        assert!(writer.holds());
        fence.close();
        fence.extend(now + 90 * second);
        assert!(!writer.holds());
        assert!(Fence::always().holds());
    }
}
