//! Reads the fields of a Lease, and sets those that we write. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use super::{rules::Record, settings::LeaseSettings};

/// The fields of a lease that the rules need. If its duration is missing or invalid, `default` is used.
pub fn record(lease: &Lease, default: Duration) -> Record {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|s| s.lease_duration_seconds);
    let seconds = seconds.and_then(|s| u64::try_from(s).ok());
    Record {
        holder: spec
            .and_then(|s| s.holder_identity.clone())
            .unwrap_or_default(),
        duration: seconds.map_or(default, Duration::from_secs),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// The lease to write in order to take it.
pub fn taken(seen: Option<Lease>, settings: &LeaseSettings, now: Timestamp) -> Lease {
    let mut lease = seen.unwrap_or_default();
    lease.metadata.name = Some(settings.name.clone());
    lease.metadata.namespace = Some(settings.namespace.clone());
    let mut lease = renewed(lease, settings, now);
    let exists = lease.metadata.resource_version.is_some();
    let spec = lease.spec.get_or_insert_default();
    let before = spec.holder_identity.replace(settings.identity.clone());
    if before.as_ref() != Some(&settings.identity) {
        let transitions = spec.lease_transitions.unwrap_or(0);
        spec.lease_transitions = Some(transitions.saturating_add(exists.into()));
    }
    // Identifies this claim: the same identity with another time is another claim.
    spec.acquire_time.clone_from(&spec.renew_time);
    lease
}

/// The lease to write in order to renew it.
///
/// Its renew time increases even if the wall clock does not advance or is set back. Otherwise the write might change
/// nothing, the API server would keep the resourceVersion, and others would conclude that the holder is dead.
pub fn renewed(mut lease: Lease, settings: &LeaseSettings, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(whole_seconds(settings.duration));
    spec.renew_time = Some(MicroTime(later_than(spec, now)));
    lease
}

/// The lease to write in order to release it, in the same way as client-go.
pub fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(later_than(spec, now)));
    lease
}

/// Now, or a microsecond after the lease's last renewal, whichever is later.
fn later_than(spec: &LeaseSpec, now: Timestamp) -> Timestamp {
    let step = SignedDuration::from_micros(1);
    let before = spec.renew_time.as_ref();
    let least = before.and_then(|time| time.0.checked_add(step).ok());
    least.map_or(now, |least| least.max(now))
}

/// Whole seconds for the Lease, rounded up, so that others do not wait for less than our duration.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

pub fn is_same_claim(a: &Lease, b: &Lease) -> bool {
    let claim = |lease: &Lease| {
        let spec = lease.spec.clone().unwrap_or_default();
        (spec.holder_identity, spec.acquire_time)
    };
    claim(a) == claim(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LeaseSettings {
        LeaseSettings::new("linkerd-multicluster", "a")
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(micros).unwrap()
    }

    fn held_by(holder: &str, transitions: i32) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some("7".into());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_transitions: Some(transitions),
            acquire_time: Some(MicroTime(at(1))),
            renew_time: Some(MicroTime(at(50))),
            lease_duration_seconds: Some(30),
            ..LeaseSpec::default()
        });
        lease
    }

    #[test]
    fn a_lease_that_is_taken_has_our_name_and_counts_changes_of_holder() {
        for (what, seen, transitions) in [
            ("made", None, 0),
            ("from another", Some(held_by("b", 4)), 5),
            ("released", Some(held_by("", 4)), 5),
            ("ours before", Some(held_by("a", 4)), 4),
        ] {
            let version = seen
                .as_ref()
                .and_then(|l: &Lease| l.metadata.resource_version.clone());
            let lease = taken(seen, &settings(), at(100));
            assert_eq!(lease.metadata.resource_version, version, "{what}");
            let spec = lease.spec.unwrap();
            assert_eq!(spec.holder_identity.as_deref(), Some("a"), "{what}");
            assert_eq!(spec.lease_transitions, Some(transitions), "{what}");
            assert_eq!(spec.lease_duration_seconds, Some(30), "{what}");
            assert_eq!(spec.acquire_time, Some(MicroTime(at(100))), "{what}");
            assert_eq!(spec.renew_time, Some(MicroTime(at(100))), "{what}");
        }
    }

    #[test]
    fn every_renewal_changes_the_record_even_if_the_wall_clock_does_not_move() {
        let lease = renewed(held_by("a", 0), &settings(), at(10));
        assert_eq!(
            lease.spec.as_ref().unwrap().renew_time,
            Some(MicroTime(at(51)))
        );
        let lease = renewed(lease, &settings(), at(10));
        assert_eq!(
            lease.spec.as_ref().unwrap().renew_time,
            Some(MicroTime(at(52)))
        );
        assert_eq!(lease.spec.unwrap().acquire_time, Some(MicroTime(at(1))));
    }

    #[test]
    fn a_released_lease_names_nobody_and_keeps_its_version() {
        let lease = released(held_by("a", 3), at(100));
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
        let seen = record(&lease, Duration::from_secs(30));
        assert_eq!(seen.holder, "");
        assert_eq!(seen.duration, Duration::from_secs(1));
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(3));
    }

    #[test]
    fn the_same_identity_at_another_time_is_another_claim() {
        let ours = held_by("a", 0);
        let renewed = renewed(ours.clone(), &settings(), at(100));
        assert!(is_same_claim(&ours, &renewed));
        assert!(!is_same_claim(
            &ours,
            &taken(Some(renewed), &settings(), at(200))
        ));
        assert!(!is_same_claim(&ours, &held_by("b", 0)));
        assert!(!is_same_claim(&ours, &Lease::default()));
    }

    #[test]
    fn invalid_durations_in_a_record_are_ignored() {
        let default = Duration::from_secs(30);
        for (seconds, duration) in [
            (None, default),
            (Some(-5), default),
            (Some(15), Duration::from_secs(15)),
        ] {
            let mut lease = held_by("b", 0);
            lease.spec.as_mut().unwrap().lease_duration_seconds = seconds;
            assert_eq!(record(&lease, default).duration, duration);
        }
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(30)), 30);
        assert_eq!(whole_seconds(Duration::from_millis(2_500)), 3);
    }
}
