//! Leader election with one Lease: which replica may write, and until when.
//!
//! **Flow.** A candidate reads the lease every few seconds. It takes the lease if it is missing, released, or unchanged
//! for its whole duration by the candidate's own monotonic clock. If it was deleted, a candidate that knew its holder
//! waits for that duration too, because the holder may not have noticed. The leader renews the lease, and gives up its
//! leadership when there is none to renew. Every write has the
//! resourceVersion that was read (the API server rejects updates of a Lease without one). So of two concurrent writers,
//! one gets a conflict and reads the lease again.
//!
//! **Guarantees.** [`Fence::holds`] becomes false before another replica may take the lease, even in a process that was
//! stopped for longer than that: it compares with the monotonic clock, and is not a flag that a task has to clear. The
//! times in the record are only for people. No decision depends on wall clocks.
//!
//! **Assumptions.** Clocks of two machines differ in speed by no more than 5 %. Identities are unique among processes
//! that run at the same time (names of pods are). Writers check the fence before each write of an object or a status.
//!
//! **Caveats.** If somebody deletes the lease, a candidate that has never seen it creates one at once, and its writes may
//! overlap with those of the old leader until that one's next renewal. A write that was sent before the process stopped may arrive later. The preconditions of every write
//! make that harmless. `CLOCK_MONOTONIC` does not advance while a whole machine is suspended, so a resumed machine may
//! assume that it holds the lease until its first renewal fails.
//!
//! Permissions that it needs for Leases in its namespace: get, create, update.

mod elector;
mod fence;
mod record;
mod rules;
mod settings;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use anyhow::anyhow;
use client::timing::jitter;
use kube::{Api, Client};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    elector::{Elector, Failure, Held},
    rules::{Act, Sight, fence_end},
};
pub use self::{fence::Fence, settings::LeaseSettings};
use super::trouble::Trouble;

/// Permission to write, until it is lost or released. Dropping it ends the permission without releasing the lease.
#[derive(Debug)]
pub struct Leadership {
    fence: Fence,
    quit: CancellationToken,
    release_limit: Duration,
    /// Renews the lease. Returns why the lease was lost, or nothing after a release. `None` once it has ended.
    task: Option<JoinHandle<Option<anyhow::Error>>>,
}

/// Waits until this process is the leader. `None` if it was stopped before.
///
/// Errors of the API server are logged when they change, and requests are retried. Fails only if the settings are
/// invalid.
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
            Ok((Act::Wait(free), _)) => {
                next = next.min(free);
                trouble.clear();
            }
            // Not cancelled by `stop`, because a lease that was taken has to be released.
            Ok((Act::Create | Act::Take | Act::Renew, lease)) => match elector.take(lease).await {
                Ok(held) if stop.is_cancelled() => {
                    elector.release(held).await;
                    return Ok(None);
                }
                Ok(held) => {
                    tracing::info!(lease = lease_name, "became the leader");
                    return Ok(Some(Leadership::start(elector, held)));
                }
                Err(Failure::Conflict) => {
                    trouble.clear();
                }
                Err(Failure::Other(reason)) => {
                    trouble.set(&reason);
                }
            },
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

    /// The fence that writers check before each write.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until the lease is lost, and returns the reason. Then all work has to stop. The future may be dropped and
    /// this called again, as in a `select!`.
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

    /// Releases the lease, so that another replica does not have to wait. All writers must have stopped before.
    pub async fn release(mut self) {
        self.fence.close();
        self.quit.cancel();
        if let Some(task) = self.task.take() {
            // Each request has its own timeout. This one is for all of them together.
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
mod tests;
