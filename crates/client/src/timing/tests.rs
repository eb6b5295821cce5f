//! Tests of the clock in virtual time, of jitter, backoff and rate limits.

use proptest::{collection::vec, prelude::*};
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn time_of_day_follows_the_virtual_time_of_tests() {
    let before = now();
    advance(Duration::from_secs(3600)).await;
    let passed = now().duration_since(before).as_secs_f32();
    assert!((passed - 3600.0).abs() < 1.0, "{passed} s");
}

#[test]
fn jitter_stays_below_its_bound_and_varies() {
    assert_eq!(jitter(Duration::ZERO), Duration::ZERO);
    assert_eq!(jitter(Duration::from_nanos(1)), Duration::ZERO);
    let bound = Duration::from_millis(300);
    let drawn: Vec<_> = (0..1000).map(|_| jitter(bound)).collect();
    assert!(drawn.iter().all(|d| *d < bound));
    // All 1,000 draws fall into one half with a probability of 2^-999.
    assert!(drawn.iter().any(|d| *d < bound / 2));
    assert!(drawn.iter().any(|d| *d >= bound / 2));
}

#[test]
fn pauses_double_up_to_the_longest() {
    for (first, longest, pauses) in [
        (1, 60, [1, 2, 4, 8, 16, 32, 60, 60]),
        (2, 10, [2, 4, 8, 10, 10, 10, 10, 10]),
        (5, 3, [3; 8]),
        (0, 3, [0; 8]),
    ] {
        let mut backoff = Backoff::new(SECOND * first, SECOND * longest);
        assert_eq!(
            pauses.map(|_| backoff.next_pause()),
            pauses.map(|pause| SECOND * pause)
        );
        assert_eq!(backoff.failures(), 8);
        backoff.reset();
        assert_eq!(
            (backoff.failures(), backoff.pause()),
            (0, SECOND * pauses[0])
        );
    }
}

#[test]
fn many_failures_do_not_overflow() {
    let mut backoff = Backoff::new(SECOND, Duration::MAX);
    backoff.failures = u32::MAX - 1;
    let pauses = [(); 3].map(|()| backoff.next_pause());
    assert_eq!(pauses, [SECOND * u32::MAX; 3]);
}

#[test]
fn bucket_gives_its_burst_and_then_its_rate() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(3.0, 0.5, start);
    for (seconds, asked, given) in [
        (0, 5, 3),
        (1, 5, 0),
        (2, 5, 1),
        (7, 5, 2),
        (8, 5, 1),
        (60, 9, 3),
    ] {
        let now = start + SECOND * seconds;
        let taken = (0..asked).filter(|_| bucket.try_take(now)).count();
        assert_eq!(taken, given, "after {seconds} s");
        assert!(!bucket.is_full(now));
    }
    assert!(bucket.is_full(start + SECOND * 66));
}

#[test]
fn bucket_may_be_overdrawn_and_hold_a_surplus() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(10.0, 2.0, start);
    bucket.take(10.0, start);
    assert_eq!(bucket.overdrawn(start), None);
    bucket.take(3.0, start);
    assert_eq!(bucket.overdrawn(start), Some(SECOND * 3 / 2));
    assert_eq!(bucket.overdrawn(start + SECOND * 2), None);
    bucket.set(15.0, start);
    assert!((bucket.tokens(start + SECOND) - 15.0).abs() < 0.001);
    bucket.take(6.0, start + SECOND);
    assert!((bucket.tokens(start + SECOND * 9) - 10.0).abs() < 0.001);
}

proptest! {
    #[test]
    fn pauses_never_shrink_and_jitter_takes_a_quarter_at_most(
        first in 0_u64..1 << 40,
        longest in 0_u64..1 << 50,
        failures in 1_usize..100,
    ) {
        let (first, longest) = (Duration::from_nanos(first), Duration::from_nanos(longest));
        let mut backoff = Backoff::new(first, longest);
        let mut last = Duration::ZERO;
        for _ in 0..failures {
            let full = backoff.pause();
            prop_assert!(full >= last && full <= longest && full <= (last * 2).max(first));
            let jittered = backoff.next_jittered();
            prop_assert!(jittered <= full && jittered >= full * 3 / 4);
            last = full;
        }
    }

    #[test]
    fn no_span_of_time_gets_more_than_the_burst_and_the_rate(
        burst in 1_u32..50,
        per_second in 1_u32..20,
        waits in vec(0_u64..3_000, 1..100),
    ) {
        let (burst, per_second) = (f64::from(burst), f64::from(per_second));
        let mut now = Instant::now();
        let mut bucket = TokenBucket::new(burst, per_second, now);
        let mut taken = vec![];
        for wait in waits {
            now += Duration::from_millis(wait);
            taken.extend(bucket.try_take(now).then_some(now));
            prop_assert!((0.0..=burst).contains(&bucket.tokens(now)));
        }
        for (index, from) in taken.iter().enumerate() {
            for (count, to) in (1_u32..).zip(&taken[index..]) {
                let most = burst + per_second * (*to - *from).as_secs_f64();
                prop_assert!(f64::from(count) <= most + 0.001);
            }
        }
    }
}
