//! What a client did between two samples of its proxy.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::histogram::Histogram;
use crate::clusters::{
    counters::growth,
    traffic::{Measure, TrafficKey, TrafficSample},
};

/// What happened to the requests of one client to one endpoint, or that never got to one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Requests that succeeded.
    pub success: f64,
    /// Requests that failed.
    pub failure: f64,
    /// Those of them that failed by an error, such as a timeout or a reset.
    pub error: f64,
    /// Requests that were sent to the endpoint.
    pub sent: f64,
    /// How long they took.
    pub latency: Histogram,
    /// Open connections at the end.
    pub open: f64,
}

impl Activity {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.success += other.success;
        self.failure += other.failure;
        self.error += other.error;
        self.sent += other.sent;
        self.latency.merge(&other.latency);
        self.open += other.open;
    }

    /// All requests that ended.
    pub fn requests(&self) -> f64 {
        self.success + self.failure
    }

    /// Requests that were sent, and did not end: they are under way, or their caller has given up.
    pub fn unanswered(&self) -> f64 {
        (self.sent - self.requests()).max(0.0)
    }
}

/// What one client did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientActivity {
    /// The time between the two samples.
    pub lasted: Duration,
    /// By where it sent requests to.
    pub by_key: BTreeMap<Arc<TrafficKey>, Activity>,
}

/// What a client did between two samples.
///
/// A counter that is lower than before has started again from zero, and so have all if the proxy has started again. A
/// series that was not there has started from zero too, because proxies make series when they need them.
pub fn increase(first: &TrafficSample, second: &TrafficSample) -> ClientActivity {
    // Of one process the time never changes, so they are the same bits.
    let same_process = first.started.map(f64::to_bits) == second.started.map(f64::to_bits);
    let mut activity = ClientActivity {
        lasted: second.taken.saturating_duration_since(first.taken),
        by_key: BTreeMap::new(),
    };
    let mut unanswered = BTreeMap::<_, f64>::new();
    for (series, value) in &second.series {
        let before = first.series.get(series).filter(|_| same_process);
        let before = before.copied().unwrap_or_default();
        let grown = growth(before, *value);
        if series.measure == Measure::Unanswered {
            *unanswered.entry(series.key.clone()).or_default() += grown;
            continue;
        }
        let of_key = activity.by_key.entry(series.key.clone()).or_default();
        match series.measure {
            Measure::Success => of_key.success += grown,
            Measure::Failure => of_key.failure += grown,
            Measure::Error => {
                of_key.failure += grown;
                of_key.error += grown;
            }
            Measure::Sent => of_key.sent += grown,
            Measure::Unanswered => {}
            Measure::Latency(bound) => of_key.latency.add(bound, grown),
            Measure::Open => of_key.open += value,
        }
    }
    for (key, unanswered) in unanswered {
        // No request counts twice: what endpoints have counted as errors is not counted again.
        let of_service = activity.by_key.iter();
        let of_service = of_service.filter(|(other, _)| other.service == key.service);
        let counted: f64 = of_service.map(|(_, activity)| activity.error).sum();
        let of_key = activity.by_key.entry(key).or_default();
        let left = (unanswered - counted).max(0.0);
        of_key.failure += left;
        of_key.error += left;
    }
    activity
}

#[cfg(test)]
mod tests {
    use mirror_core::api::metadata::ResourceId;
    use proptest::{collection::vec, prelude::*};
    use tokio::time::Instant;

    use super::*;
    use crate::clusters::traffic::{Bound, sample::SeriesId};

    /// A sample of a proxy after so many seconds; each series as its measure, a number for its other labels, and its value.
    fn sample(
        zero: Instant,
        seconds: u64,
        started: f64,
        series: &[(Measure, u64, f64)],
    ) -> TrafficSample {
        let key = Arc::new(TrafficKey {
            service: ResourceId::new("shop", "web-east"),
            ..TrafficKey::default()
        });
        let series = series.iter().map(|(measure, others, value)| {
            let id = SeriesId {
                key: key.clone(),
                measure: *measure,
                others: *others,
            };
            (id, *value)
        });
        TrafficSample {
            taken: zero + Duration::from_secs(seconds),
            started: Some(started),
            series: series.collect(),
        }
    }

    fn between(
        first: &[(Measure, u64, f64)],
        second: &[(Measure, u64, f64)],
        restarted: bool,
    ) -> Activity {
        let zero = Instant::now();
        let first = sample(zero, 0, 100.0, first);
        let second = sample(zero, 10, if restarted { 200.0 } else { 100.0 }, second);
        let found = increase(&first, &second);
        assert_eq!(found.lasted, Duration::from_secs(10));
        found.by_key.into_values().next().unwrap_or_default()
    }

    #[test]
    fn counters_that_start_again_count_from_zero() {
        use Measure::{Error, Failure, Open, Success, Unanswered};
        for (first, second, restarted, expected) in [
            (
                &[(Success, 0, 5.0)][..],
                &[(Success, 0, 12.0)][..],
                false,
                (7.0, 0.0, 0.0),
            ),
            // Only one series was dropped and made again: the other one goes on.
            (
                &[(Success, 0, 5.0), (Success, 1, 50.0)],
                &[(Success, 0, 2.0), (Success, 1, 51.0)],
                false,
                (3.0, 0.0, 0.0),
            ),
            // The proxy has started again, and has counted more than before.
            (
                &[(Success, 0, 5.0)],
                &[(Success, 0, 12.0)],
                true,
                (12.0, 0.0, 0.0),
            ),
            // A series is new.
            (&[], &[(Failure, 0, 2.0)], false, (0.0, 2.0, 0.0)),
            // A series has gone.
            (&[(Success, 0, 5.0)], &[], false, (0.0, 0.0, 0.0)),
            // A timeout at an endpoint, which the route counts too, and an error that only the route has seen.
            (
                &[],
                &[(Failure, 0, 1.0), (Error, 1, 3.0), (Unanswered, 2, 3.0)],
                false,
                (0.0, 4.0, 0.0),
            ),
            (
                &[],
                &[(Error, 1, 3.0), (Unanswered, 2, 5.0)],
                false,
                (0.0, 5.0, 0.0),
            ),
            // The endpoint counts each try, and the route none of them if the last one succeeds.
            (
                &[],
                &[(Success, 0, 1.0), (Error, 1, 2.0)],
                false,
                (1.0, 2.0, 0.0),
            ),
            // Connections do not add up over time.
            (
                &[(Open, 0, 5.0)],
                &[(Open, 0, 3.0), (Open, 1, 1.0)],
                false,
                (0.0, 0.0, 4.0),
            ),
        ] {
            let found = between(first, second, restarted);
            let found = (found.success, found.failure, found.open);
            assert_eq!(found, expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn requests_that_do_not_end_are_told_apart_from_those_that_fail() {
        let sent = |count| (Measure::Sent, 0, count);
        for (ended, unanswered) in [
            (vec![], 12.0),
            (
                vec![(Measure::Success, 0, 7.0), (Measure::Error, 1, 2.0)],
                3.0,
            ),
            // They were sent before.
            (vec![(Measure::Success, 0, 20.0)], 0.0),
        ] {
            let next = [vec![sent(17.0)], ended].concat();
            let found = between(&[sent(5.0)], &next, false);
            assert!(
                (found.unanswered() - unanswered).abs() < f64::EPSILON,
                "{found:?}"
            );
        }
    }

    #[test]
    fn latencies_of_all_statuses_are_one_histogram() {
        let bucket = |bound: f64, others: u64, count: f64| {
            (Measure::Latency(Bound::of(bound)), others, count)
        };
        let first = [bucket(1.0, 0, 4.0), bucket(f64::INFINITY, 0, 4.0)];
        let second = [
            bucket(1.0, 0, 6.0),
            bucket(f64::INFINITY, 0, 7.0),
            bucket(1.0, 1, 1.0),
            bucket(f64::INFINITY, 1, 1.0),
        ];
        let found = between(&first, &second, false);
        let mut expected = Histogram::default();
        expected.add(Bound::of(1.0), 3.0);
        expected.add(Bound::of(f64::INFINITY), 4.0);
        assert_eq!(found.latency, expected);
    }

    proptest! {
        /// The increases of a counter over any samples are what was counted, as long as no restart hides some.
        #[test]
        fn increases_add_up_to_what_was_counted(steps in vec((0_u32..50, any::<bool>()), 1..20)) {
            let zero = Instant::now();
            let (mut value, mut counted, mut started) = (0.0, 0.0, 0.0);
            let mut last = sample(zero, 0, started, &[(Measure::Success, 0, value)]);
            let mut found = 0.0;
            for (second, (more, restarts)) in (1..).zip(steps) {
                if restarts {
                    (value, started) = (0.0, started + 1.0);
                }
                value += f64::from(more);
                counted += f64::from(more);
                let next = sample(zero, second, started, &[(Measure::Success, 0, value)]);
                let grown = increase(&last, &next);
                found += grown.by_key.values().map(Activity::requests).sum::<f64>();
                last = next;
            }
            prop_assert!((found - counted).abs() < 1e-9, "{found} {counted}");
        }

        /// Nothing is ever negative, whatever the samples.
        #[test]
        fn nothing_is_negative(first in vec(0.0..100.0, 4), second in vec(0.0..100.0, 4)) {
            let of = |values: Vec<f64>| {
                let measures = [Measure::Success, Measure::Failure, Measure::Open, Measure::Success];
                let series = measures.into_iter().zip(0..).zip(values);
                series.map(|((measure, others), value)| (measure, others, value)).collect::<Vec<_>>()
            };
            let found = between(&of(first), &of(second), false);
            prop_assert!(found.success >= 0.0 && found.failure >= 0.0 && found.open >= 0.0);
        }
    }
}
