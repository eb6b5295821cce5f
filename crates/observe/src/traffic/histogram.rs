//! Histograms and their quantiles, as Prometheus computes them (`histogram_quantile`).

use std::collections::BTreeMap;

use crate::clusters::traffic::Bound;

/// Numbers of observations that do not exceed each bound: cumulative, as in Prometheus' text format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(BTreeMap<Bound, f64>);

impl Histogram {
    /// Adds observations to one bucket.
    pub fn add(&mut self, bound: Bound, count: f64) {
        *self.0.entry(bound).or_default() += count;
    }

    /// Adds all buckets of another one.
    pub fn merge(&mut self, other: &Self) {
        for (bound, count) in &other.0 {
            self.add(*bound, *count);
        }
    }

    /// The value that this part of the observations does not exceed. It is interpolated within its bucket. In the last
    /// bucket, which has no end, it is the beginning of that. `None` without observations, or without the last bucket.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let (last, all) = self.0.last_key_value()?;
        if !last.is_infinite() || *all <= 0.0 {
            return None;
        }
        let rank = part * all;
        let (mut start, mut before) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            // A bucket whose counter was read too early has fewer than the one before it.
            let count = count.max(before);
            if bound.is_infinite() {
                // There is a bucket before it, or nothing is known about the values.
                return (self.0.len() > 1).then_some(start);
            }
            let end = bound.get();
            if count >= rank && count > before {
                return Some(start + (end - start) * ((rank - before) / (count - before)).max(0.0));
            }
            (start, before) = (end, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn histogram(buckets: &[(f64, f64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (bound, count) in buckets {
            histogram.add(Bound::of(*bound), *count);
        }
        histogram
    }

    const END: f64 = f64::INFINITY;

    #[test]
    fn quantiles_are_those_of_prometheus() {
        for (buckets, part, expected) in [
            // The examples of Prometheus' own tests: histograms.test, testhistogram.
            (
                &[(0.1, 5.0), (0.2, 7.0), (1.0, 10.0), (END, 12.0)][..],
                0.0,
                Some(0.0),
            ),
            (
                &[(0.1, 5.0), (0.2, 7.0), (1.0, 10.0), (END, 12.0)],
                0.2,
                Some(0.048),
            ),
            (
                &[(0.1, 5.0), (0.2, 7.0), (1.0, 10.0), (END, 12.0)],
                0.5,
                Some(0.15),
            ),
            (
                &[(0.1, 5.0), (0.2, 7.0), (1.0, 10.0), (END, 12.0)],
                0.8,
                Some(0.2 + 0.8 * 2.6 / 3.0),
            ),
            (
                &[(0.1, 5.0), (0.2, 7.0), (1.0, 10.0), (END, 12.0)],
                1.0,
                Some(1.0),
            ),
            // An empty bucket has no quantile in it.
            (&[(1.0, 0.0), (2.0, 4.0), (END, 4.0)], 0.5, Some(1.5)),
            (&[(1.0, 4.0), (2.0, 4.0), (END, 4.0)], 1.0, Some(1.0)),
            // All in the last bucket.
            (&[(1.0, 0.0), (END, 3.0)], 0.5, Some(1.0)),
            (&[(END, 3.0)], 0.5, None),
            (&[(1.0, 3.0)], 0.5, None),
            (&[(1.0, 0.0), (END, 0.0)], 0.5, None),
            (&[], 0.5, None),
            // A bucket that lags behind the one before it.
            (&[(1.0, 4.0), (2.0, 3.0), (END, 4.0)], 1.0, Some(1.0)),
        ] {
            let found = histogram(buckets).quantile(part);
            let near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(near, "{buckets:?} {part}: {found:?} is not {expected:?}");
        }
    }

    const BOUNDS: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 100.0, 1000.0];

    /// Counts observations as a proxy does.
    fn observed(values: &[u32]) -> Histogram {
        let buckets = BOUNDS.iter().chain([&END]).map(|bound| {
            let within = values.iter().filter(|value| f64::from(**value) <= *bound);
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            let count = within.count() as f64;
            (*bound, count)
        });
        histogram(&buckets.collect::<Vec<_>>())
    }

    proptest! {
        /// A quantile is in the bucket of the observation that it is about.
        #[test]
        fn quantile_is_in_the_bucket_of_the_observation(
            mut values in vec(0_u32..1000, 1..60), percent in 1_usize..=100,
        ) {
            let found = observed(&values).quantile(f64::from(u32::try_from(percent).unwrap()) / 100.0).unwrap();
            values.sort_unstable();
            let place = (values.len() * percent).div_ceil(100) - 1;
            let exact = f64::from(values[place]);
            let end = BOUNDS.into_iter().find(|bound| exact <= *bound).unwrap();
            let start = BOUNDS.into_iter().rev().find(|bound| exact > *bound).unwrap_or(0.0);
            prop_assert!(start <= found && found <= end + 1e-9, "{found} is not in {start}..{end}");
        }

        /// A higher quantile is no lower value, and merging is adding.
        #[test]
        fn quantiles_grow_and_histograms_add_up(
            some in vec(0_u32..2000, 0..40), more in vec(0_u32..2000, 1..40), parts in (0.0..1.0, 0.0..1.0),
        ) {
            let mut merged = observed(&some);
            merged.merge(&observed(&more));
            prop_assert_eq!(&merged, &observed(&[some, more].concat()));
            let (low, high) = (f64::min(parts.0, parts.1), f64::max(parts.0, parts.1));
            prop_assert!(merged.quantile(low) <= merged.quantile(high));
        }
    }
}
