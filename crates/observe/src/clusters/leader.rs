//! Whether the controller of an installation reports: when its Lease was renewed.
//!
//! A status that nobody updates looks like any other, so whatever shows one also shows whether it is old.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use serde::Serialize;

use crate::finding::{Finding, Level, causes::Cause};
use client::{ReadError, requests::get_at};
use hints::suggest::{ClusterFlags, Suggested};
use mirror_core::api::{duration::utc, labels::LEASE_NAME};

use crate::timeline::{Happened, about};

/// How long a Lease is valid if it does not say so.
const DURATION: SignedDuration = SignedDuration::from_secs(30);

/// The controller that reports for an installation. Its JSON is part of the documented output of `status` and `graph`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// Whether it has renewed its Lease in time. If not, no controller runs, and what was reported is old.
    pub active: bool,
    /// The replica that renewed the Lease last; `null` if it released the Lease, as a controller does when it stops.
    pub holder: Option<String>,
    /// When the Lease was renewed last.
    pub renewed: Option<Timestamp>,
    /// Namespace of the Lease, and of the Links.
    #[serde(skip)]
    pub namespace: String,
    /// What happened to the Lease.
    #[serde(skip)]
    pub history: Vec<Happened>,
}

/// The Leases of a cluster's installations, by namespace; `None` where there is none.
pub type Leaders = BTreeMap<String, Result<Option<Leader>, ReadError>>;

impl Leader {
    /// The leader of a Lease; `now` is the API server's time.
    fn of(namespace: &str, lease: Lease, now: Timestamp) -> Self {
        let spec = lease.spec.unwrap_or_default();
        let renewed = spec.renew_time.map(|time| time.0);
        let duration = spec.lease_duration_seconds;
        let duration = duration.map_or(DURATION, |seconds| {
            SignedDuration::from_secs(seconds.into())
        });
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
        let in_time = renewed.is_some_and(|renewed| now.duration_since(renewed) <= duration);
        let active = holder.is_some() && in_time;
        let acquired = spec.acquire_time.map(|time| {
            let count = spec.lease_transitions.unwrap_or_default();
            let who = holder.as_deref().unwrap_or("the last holder");
            (time.0, format!("acquired by {who}, transition {count}"))
        });
        let ended = renewed.filter(|_| !active).map(|at| {
            let what = match &holder {
                Some(holder) => format!("renewed for the last time by {holder}"),
                None => "released by its last holder".to_owned(),
            };
            (at, what)
        });
        let history = acquired.into_iter().chain(ended);
        let history = history.map(|(at, what)| Happened {
            at,
            about: about("Lease", namespace, LEASE_NAME),
            what,
            ..Happened::default()
        });
        Self {
            history: history.collect(),
            active,
            holder,
            renewed,
            namespace: namespace.to_owned(),
        }
    }

    /// What is wrong if no controller is active, and what to do. `when` writes the time of the last renewal.
    pub fn silence(&self, flags: &ClusterFlags) -> Option<Finding> {
        if self.active {
            return None;
        }
        let namespace = &self.namespace;
        let when = self
            .renewed
            .map_or_else(|| "at an unknown time".to_owned(), at);
        let last = match &self.holder {
            Some(holder) => {
                format!("{holder} last renewed the Lease {namespace}/{LEASE_NAME} {when}")
            }
            None => format!("the last one stopped {when}"),
        };
        let text = format!("no controller is active: {last}, and nothing has been reported since");
        Some(
            Finding::new(Cause::ControllerDown, Level::Error, text)
                .fixed_by(&pods(flags, namespace)),
        )
    }
}

fn at(time: Timestamp) -> String {
    format!("at {}", utc(time))
}

/// The command that shows the Pods of a controller.
pub fn pods(flags: &ClusterFlags, namespace: &str) -> Suggested {
    flags.kubectl("-n {} get pods", &[namespace])
}

/// Reads the Leases of these namespaces, side by side.
pub async fn leaders(client: &Client, namespaces: BTreeSet<String>) -> Leaders {
    let leases = namespaces.into_iter().map(async |namespace| {
        let leader = leader(client, &namespace).await;
        (namespace, leader)
    });
    join_all(leases).await.into_iter().collect()
}

/// Reads the Lease of an installation; `None` if there is none.
pub async fn leader(client: &Client, namespace: &str) -> Result<Option<Leader>, ReadError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE_NAME}");
    let (lease, now) = get_at::<Lease>(client, &path).await?;
    Ok(lease.map(|lease| Leader::of(namespace, lease, now)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_leader_is_active_as_long_as_its_lease_is_valid() {
        let at = "2026-11-21T12:00:00.000000Z";
        for (spec, now, active, said) in [
            (
                json!({"holderIdentity": "a", "renewTime": at, "leaseDurationSeconds": 30}),
                "12:00:30",
                true,
                "",
            ),
            (
                json!({"holderIdentity": "a", "renewTime": at}),
                "12:00:30",
                true,
                "",
            ),
            // The clock of the controller is ahead.
            (
                json!({"holderIdentity": "a", "renewTime": at}),
                "11:59:00",
                true,
                "",
            ),
            (
                json!({"holderIdentity": "a", "renewTime": at, "leaseDurationSeconds": 30}),
                "12:00:31",
                false,
                "no controller is active: a last renewed the Lease mc/service-mirror-write at 2026-11-21 12:00:00 UTC, and",
            ),
            (
                json!({"holderIdentity": "", "renewTime": at, "leaseDurationSeconds": 1}),
                "12:00:00",
                false,
                "no controller is active: the last one stopped at 2026-11-21 12:00:00 UTC, and nothing has been reported since",
            ),
            (
                json!({}),
                "12:00:00",
                false,
                "no controller is active: the last one stopped at an unknown time, and",
            ),
            (
                json!({"holderIdentity": "a"}),
                "12:00:00",
                false,
                "no controller is active: a last renewed the Lease mc/service-mirror-write at an unknown time, and",
            ),
        ] {
            let lease = serde_json::from_value(json!({ "spec": spec })).unwrap();
            let now = format!("2026-11-21T{now}Z").parse().unwrap();
            let leader = Leader::of("mc", lease, now);
            assert_eq!(leader.active, active, "{spec} {now}");
            let told = leader.silence(&ClusterFlags::default());
            let told = told.map_or_else(String::new, |told| told.evidence);
            assert!(
                told.starts_with(said) && told.is_empty() == active,
                "{told}"
            );
        }
    }

    #[test]
    fn lease_tells_who_acquired_it_and_when_it_was_renewed_for_the_last_time() {
        for (holder, minute, expected) in [
            ("b", "00", &["12:00 acquired by b, transition 3"][..]),
            (
                "b",
                "09",
                &[
                    "12:00 acquired by b, transition 3",
                    "12:00 renewed for the last time by b",
                ],
            ),
            (
                "",
                "00",
                &[
                    "12:00 acquired by the last holder, transition 3",
                    "12:00 released by its last holder",
                ],
            ),
        ] {
            let at = "2026-11-21T12:00:00.000000Z";
            let spec = json!({
                "holderIdentity": holder, "acquireTime": at, "renewTime": at, "leaseTransitions": 3,
            });
            let lease = serde_json::from_value(json!({ "spec": spec })).unwrap();
            let now = format!("2026-11-21T12:{minute}:01Z").parse().unwrap();
            let told = Leader::of("mc", lease, now).history.into_iter();
            let told = told.map(|one| format!("{} {}", one.at.strftime("%H:%M"), one.what));
            assert_eq!(told.collect::<Vec<_>>(), expected, "{holder} {minute}");
        }
    }
}
