//! When the loop wakes up without a message. Pure: all inputs are arguments.

use tokio::time::Instant;

/// The times that the loop may wait for. A time in the past is due now.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    pub now: Instant,
    /// The latest time of the next pass.
    pub latest: Instant,
    /// Whether keys may be processed: this replica is the leader, and has listed its cluster.
    pub works: bool,
    /// The API server asked for a pause until then.
    pub throttled: Instant,
    /// Whether another write may start. If not, the end of a current one wakes the loop.
    pub free_slot: bool,
    /// When the next delayed key is due.
    pub key: Option<Instant>,
    /// When the next status of a Link is due.
    pub status: Option<Instant>,
    /// When the next lookup of a name that belongs to somebody else is due, if a lookup may start.
    pub lookup: Option<Instant>,
    /// When the next drain ends, a preferred cluster receives requests again, or a new cluster joins federated Services.
    pub turn: Option<Instant>,
}

impl Timers {
    /// When the loop wakes up if no message arrives: at the first timer for which it can do something, and at `latest`
    /// at the latest. Without a free slot or during a pause, a due key must not make the loop spin.
    pub fn next(&self) -> Instant {
        if !self.works {
            return self.latest;
        }
        let key = self.key.filter(|_| self.free_slot);
        let due = [key, self.status, self.lookup, self.turn];
        let due = due.into_iter().flatten().min();
        due.map_or(self.latest, |due| due.max(self.throttled))
            .min(self.latest)
            .max(self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn loop_wakes_only_for_possible_work_and_never_in_the_past() {
        tokio::time::advance(Duration::from_secs(60)).await;
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let past = now - Duration::from_secs(30);
        let idle = Timers {
            now,
            latest: at(5),
            works: true,
            throttled: past,
            free_slot: true,
            key: None,
            status: None,
            lookup: None,
            turn: None,
        };
        let overdue = Timers {
            key: Some(past),
            status: Some(past),
            lookup: Some(past),
            turn: Some(past),
            ..idle
        };
        let cases = [
            ("nothing is due", idle, at(5)),
            ("all is overdue", overdue, now),
            (
                "overdue, and not leading or not listed",
                Timers {
                    works: false,
                    ..overdue
                },
                at(5),
            ),
            (
                "a key is overdue, and all slots are taken",
                Timers {
                    free_slot: false,
                    key: Some(past),
                    ..idle
                },
                at(5),
            ),
            (
                "all slots are taken, a status is due",
                Timers {
                    free_slot: false,
                    key: Some(past),
                    status: Some(at(2)),
                    ..idle
                },
                at(2),
            ),
            (
                "overdue, and throttled for a while",
                Timers {
                    throttled: at(3),
                    ..overdue
                },
                at(3),
            ),
            (
                "overdue, and throttled for long",
                Timers {
                    throttled: at(40),
                    ..overdue
                },
                at(5),
            ),
            (
                "the first of several",
                Timers {
                    key: Some(at(3)),
                    status: Some(at(2)),
                    lookup: Some(at(1)),
                    ..idle
                },
                at(1),
            ),
            (
                "a drain that ends",
                Timers {
                    turn: Some(at(4)),
                    ..idle
                },
                at(4),
            ),
            (
                "nothing before the latest",
                Timers {
                    key: Some(at(9)),
                    ..idle
                },
                at(5),
            ),
        ];
        for (what, timers, expected) in cases {
            assert_eq!(timers.next(), expected, "{what}");
        }
    }
}
