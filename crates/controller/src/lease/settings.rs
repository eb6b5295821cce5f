//! Name and timeouts of the lease.

use std::time::Duration;

use anyhow::bail;
use mirror_core::api::labels::LEASE_NAME;

use super::rules::usable;

/// Name and timeouts of the lease.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Name of the Lease.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Our name in the lease; no other process that runs at the same time may use it.
    pub identity: String,
    /// How long the lease must be unchanged before another replica may take it.
    pub duration: Duration,
    /// How long after its last successful renewal a leader gives up its leadership.
    pub renew_deadline: Duration,
    /// Time between two reads of a candidate, and between two renewals of a leader.
    pub retry: Duration,
}

impl LeaseSettings {
    /// The lease [`LEASE_NAME`] with the times of Linkerd's service mirror: 30 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            name: LEASE_NAME.to_owned(),
            namespace: namespace.into(),
            identity: identity.into(),
            duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// Fails, with the flag to change, if a leader could not renew its Lease before that ends.
    pub fn validate(&self) -> anyhow::Result<()> {
        if self.identity.is_empty() {
            bail!("leader election requires a non-empty --identity");
        }
        if self.retry.is_zero()
            || self.retry >= self.renew_deadline
            || self.renew_deadline > usable(self.duration)
        {
            bail!(
                "invalid lease settings: must be retry < renew deadline <= 9/10 of the lease duration, got {:?}, {:?}, {:?}",
                self.retry,
                self.renew_deadline,
                self.duration
            );
        }
        Ok(())
    }

    /// Timeout of one request, short enough for a second try if the API server does not respond.
    pub fn request_limit(&self) -> Duration {
        self.renew_deadline / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documents name these times.
    #[test]
    fn a_leader_renews_every_two_seconds_and_is_replaced_after_thirty() {
        let settings = LeaseSettings::new("linkerd-multicluster", "a");
        let times = [settings.retry, settings.renew_deadline, settings.duration];
        assert_eq!(times.map(|time| time.as_secs()), [2, 10, 30]);
    }

    #[test]
    fn inconsistent_settings_are_rejected() {
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
}
