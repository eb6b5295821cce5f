//! The rules of leader election: what to do about a lease, and until when its holder may write. Pure.
//!
//! No client, no clock. `lease.rs` supplies the input. The simulation supplies two candidates with drifting clocks.

use std::time::Duration;

use tokio::time::Instant;

/// What one candidate sees in the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// How long after a change others must not take it.
    pub duration: Duration,
    /// The resourceVersion. Every write changes it.
    pub version: String,
}

/// The lease as it was last read.
#[derive(Clone, Debug)]
pub struct Sight {
    pub record: Option<Record>,
    /// When we first read the record with this resourceVersion, or that there is none, by our own clock.
    since: Instant,
    /// The last record, if the lease was deleted since.
    deleted: Option<Record>,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// There is no lease, and nobody may believe to hold it: create it.
    Create,
    /// It is free, or its holder has not renewed it for its whole duration: write it with our name.
    Take,
    /// It has our name: write it again.
    Renew,
    /// It belongs to somebody else, or did until it was deleted, and may not be taken before this time, unless it changes.
    Wait(Instant),
}

impl Sight {
    /// The result of the first read. The holder gets its full duration from now on, even if the times in its record are
    /// old, because they are from another clock.
    pub fn new(record: Option<Record>, now: Instant) -> Self {
        Self {
            record,
            since: now,
            deleted: None,
        }
    }

    /// The result of another read. `now` must be taken after the response has arrived, because a later time is safe.
    pub fn update(&mut self, record: Option<Record>, now: Instant) {
        let version = |r: &Option<Record>| r.as_ref().map(|r| r.version.clone());
        if version(&self.record) != version(&record) {
            self.since = now;
            self.deleted = self.record.take().filter(|_| record.is_none());
        }
        self.record = record;
    }

    /// The holder of the lease, if there is one.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.record.as_ref().map(|r| r.holder.as_str());
        holder.filter(|h| !h.is_empty())
    }
}

/// What `me` has to do about the lease at `now`. `duration` is that of the leases that `me` writes.
///
/// Who deletes a lease takes nothing away from its holder, who may still write: until it notices, or for the duration.
/// People also delete leases of holders that never existed, with any duration. So the candidate waits no longer than for
/// a lease like its own: all replicas have the same settings.
pub fn decide(sight: &Sight, now: Instant, me: &str, duration: Duration) -> Act {
    let (record, duration, free) = match (&sight.record, &sight.deleted) {
        (Some(record), _) if record.holder == me => return Act::Renew,
        (Some(record), _) => (record, record.duration, Act::Take),
        (None, Some(deleted)) if deleted.holder != me => {
            (deleted, deleted.duration.min(duration), Act::Create)
        }
        (None, _) => return Act::Create,
    };
    if record.holder.is_empty() {
        return free;
    }
    let until = sight.since + duration;
    if now >= until { free } else { Act::Wait(until) }
}

/// Until when a replica may write that took or renewed the lease with a request sent at `start`.
///
/// Others count the duration from when they read that write, which is later.
pub fn fence_end(start: Instant, duration: Duration) -> Instant {
    start + usable(duration)
}

/// The part of a lease's duration that its holder may use. The remaining tenth compensates for clocks of different
/// speed (5 % each way), and for a write that is sent at the last moment.
pub fn usable(duration: Duration) -> Duration {
    duration / 10 * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(30);

    fn record(holder: &str, version: u64) -> Record {
        Record {
            holder: holder.to_owned(),
            duration: DURATION,
            version: version.to_string(),
        }
    }

    #[test]
    fn who_may_take_the_lease_and_when() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let seen = |record: Option<Record>| Sight::new(record, at(100));
        for (what, sight, now, act) in [
            ("there is none", seen(None), at(100), Act::Create),
            ("released", seen(Some(record("", 1))), at(100), Act::Take),
            ("ours", seen(Some(record("a", 1))), at(100), Act::Renew),
            (
                "ours, long ago",
                seen(Some(record("a", 1))),
                at(999),
                Act::Renew,
            ),
            (
                "first sight of another's",
                seen(Some(record("b", 1))),
                at(100),
                Act::Wait(at(130)),
            ),
            (
                "just before its end",
                seen(Some(record("b", 1))),
                at(129),
                Act::Wait(at(130)),
            ),
            (
                "silent for its duration",
                seen(Some(record("b", 1))),
                at(130),
                Act::Take,
            ),
            (
                "its own duration counts, not ours",
                seen(Some(Record {
                    duration: Duration::from_secs(5),
                    ..record("b", 1)
                })),
                at(105),
                Act::Take,
            ),
        ] {
            assert_eq!(decide(&sight, now, "a", DURATION), act, "{what}");
        }
    }

    #[test]
    fn change_of_the_record_restarts_the_wait_and_a_read_does_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sight = Sight::new(Some(record("b", 1)), at(0));
        sight.update(Some(record("b", 1)), at(10));
        assert_eq!(decide(&sight, at(10), "a", DURATION), Act::Wait(at(30)));
        sight.update(Some(record("b", 2)), at(20));
        assert_eq!(decide(&sight, at(20), "a", DURATION), Act::Wait(at(50)));
        sight.update(Some(record("c", 3)), at(26));
        assert_eq!(decide(&sight, at(40), "a", DURATION), Act::Wait(at(56)));
        assert_eq!(sight.holder(), Some("c"));
        sight.update(Some(record("", 4)), at(41));
        assert_eq!(sight.holder(), None);
    }

    #[test]
    fn lease_that_was_deleted_is_created_when_its_holder_cannot_write_any_more() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (holder, first) in [
            ("b", Act::Wait(at(55))),
            ("", Act::Create),
            ("a", Act::Create),
        ] {
            let mut sight = Sight::new(Some(record(holder, 1)), at(0));
            // The holder may have renewed it just before it was deleted.
            sight.update(None, at(25));
            assert_eq!(decide(&sight, at(25), "a", DURATION), first, "{holder}");
            sight.update(None, at(40));
            assert_eq!(decide(&sight, at(40), "a", DURATION), first, "{holder}");
            assert_eq!(
                decide(&sight, at(55), "a", DURATION),
                Act::Create,
                "{holder}"
            );
            // Somebody else has created it.
            sight.update(Some(record("c", 2)), at(56));
            assert_eq!(
                decide(&sight, at(56), "a", DURATION),
                Act::Wait(at(86)),
                "{holder}"
            );
            assert_eq!(sight.holder(), Some("c"));
        }
        // Somebody has written a lease for an hour, and deletes it again.
        let hour = Record {
            duration: Duration::from_secs(3600),
            ..record("b", 1)
        };
        let mut sight = Sight::new(Some(hour), at(0));
        sight.update(None, at(5));
        assert_eq!(decide(&sight, at(5), "a", DURATION), Act::Wait(at(35)));
    }

    #[test]
    fn the_fence_ends_before_anybody_else_may_take_the_lease() {
        let start = Instant::now();
        assert_eq!(
            fence_end(start, DURATION),
            start + Duration::from_secs(27),
            "a tenth earlier"
        );
    }
}
