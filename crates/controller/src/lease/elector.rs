//! The requests of an election, to read, take, renew and release the lease, each with its own timeout.

use anyhow::anyhow;
use client::{
    requests::{RequestError, within},
    timing,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    fence::Fence,
    record::{is_same_claim, record, released, renewed, taken},
    rules::{Act, Sight, decide, fence_end},
    settings::LeaseSettings,
};
use crate::trouble::Trouble;

const NO_ANSWER: &str = "the API server did not respond in time";

pub struct Elector {
    pub api: Api<Lease>,
    pub settings: LeaseSettings,
}

/// The lease as we last wrote it, and when we sent that request.
pub struct Held {
    pub lease: Lease,
    pub start: Instant,
}

pub enum Failure {
    /// Somebody else wrote first, or deleted the lease: read it again.
    Conflict,
    Other(String),
}

impl Elector {
    pub fn lease_name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Reads the lease, and decides what to do about it.
    pub async fn look(&self, sight: &mut Option<Sight>) -> Result<(Act, Option<Lease>), String> {
        let lease = match self.request(self.api.get_opt(&self.settings.name)).await {
            Ok(lease) => lease,
            Err(Failure::Conflict) => return Err("unexpected conflict on a read".into()),
            Err(Failure::Other(reason)) => return Err(reason),
        };
        let now = Instant::now();
        let record = lease
            .as_ref()
            .map(|lease| record(lease, self.settings.duration));
        let sight = match sight {
            Some(sight) => {
                sight.update(record, now);
                sight
            }
            None => sight.insert(Sight::new(record, now)),
        };
        let LeaseSettings {
            identity, duration, ..
        } = &self.settings;
        Ok((decide(sight, now, identity, *duration), lease))
    }

    /// Writes our name into the lease that was read, or creates the lease.
    pub async fn take(&self, seen: Option<Lease>) -> Result<Held, Failure> {
        let start = Instant::now();
        let exists = seen.is_some();
        let lease = taken(seen, &self.settings, timing::now());
        let lease = if exists {
            self.replace(&lease).await?
        } else {
            let params = PostParams::default();
            self.request(self.api.create(&params, &lease)).await?
        };
        Ok(Held { lease, start })
    }

    /// Renews the lease until that fails permanently. Returns the reason.
    pub async fn keep(&self, held: &mut Held, fence: &Fence) -> anyhow::Error {
        let name = self.lease_name();
        let settings = &self.settings;
        let mut trouble = Trouble::new(format!("renew the lease {name}"));
        let mut last = NO_ANSWER.to_owned();
        let mut next = held.start + settings.retry;
        loop {
            let deadline = held.start + settings.renew_deadline;
            sleep_until(next.min(deadline)).await;
            next = Instant::now() + settings.retry;
            match timeout_at(deadline, self.renew(held)).await {
                Ok(Ok(())) => {
                    trouble.clear();
                    fence.extend(fence_end(held.start, settings.duration));
                }
                Ok(Err(Failure::Conflict)) => {
                    return anyhow!(
                        "the lease {name} was taken, changed or deleted by somebody else"
                    );
                }
                Ok(Err(Failure::Other(reason))) => {
                    trouble.set(&reason);
                    last = reason;
                }
                Err(_) => {}
            }
            if Instant::now() >= held.start + settings.renew_deadline {
                let limit = settings.renew_deadline;
                return anyhow!(last)
                    .context(format!("failed to renew the lease {name} for {limit:?}"));
            }
        }
    }

    /// Renews once. A conflict means that the lease belongs to somebody else, or to nobody.
    async fn renew(&self, held: &mut Held) -> Result<(), Failure> {
        for _ in 0..2 {
            let start = Instant::now();
            let lease = renewed(held.lease.clone(), &self.settings, timing::now());
            match self.replace(&lease).await {
                Ok(lease) => {
                    *held = Held { lease, start };
                    return Ok(());
                }
                // The conflict may be with our own write, whose response was lost.
                Err(Failure::Conflict) => self.reread(held).await?,
                Err(other) => return Err(other),
            }
        }
        Err(Failure::Other("concurrent changes by somebody else".into()))
    }

    /// Reads the lease again. A conflict means that it is no longer ours.
    async fn reread(&self, held: &mut Held) -> Result<(), Failure> {
        let lease = self.request(self.api.get_opt(&self.settings.name)).await?;
        match lease {
            Some(lease) if is_same_claim(&lease, &held.lease) => {
                held.lease = lease;
                Ok(())
            }
            _ => Err(Failure::Conflict),
        }
    }

    /// Releases the lease, if it is still ours.
    pub async fn release(&self, mut held: Held) {
        let name = self.lease_name();
        for _ in 0..2 {
            let written = self
                .replace(&released(held.lease.clone(), timing::now()))
                .await;
            let reason = match written {
                Ok(_) => {
                    tracing::info!(lease = name, "released the lease");
                    return;
                }
                // A renewal may have been in progress when we were told to stop.
                Err(Failure::Conflict) => match self.reread(&mut held).await {
                    Ok(()) => continue,
                    Err(Failure::Conflict) => return,
                    Err(Failure::Other(reason)) => reason,
                },
                Err(Failure::Other(reason)) => reason,
            };
            tracing::warn!(lease = name, reason, "failed to release the lease");
            return;
        }
    }

    /// Writes the lease that was read. If it was deleted since, that is a conflict too.
    async fn replace(&self, lease: &Lease) -> Result<Lease, Failure> {
        let (name, params) = (&self.settings.name, PostParams::default());
        let request = self.api.replace(name, &params, lease);
        let answer = within(self.settings.request_limit(), request).await;
        answer.map_err(|error: RequestError| match error {
            RequestError::Status(status) if status.code == 404 => Failure::Conflict,
            error => error.into(),
        })
    }

    async fn request<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        let answer = within(self.settings.request_limit(), request).await;
        answer.map_err(|error: RequestError| error.into())
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            // A conflict, or the lease was created by somebody else first.
            RequestError::Status(status) if status.code == 409 => Self::Conflict,
            RequestError::Status(status) => Self::Other(status.message.clone()),
            RequestError::Unanswered(why) => Self::Other(why.to_string()),
        }
    }
}
