//! When keys may be written, and how many writes a cluster may cause.

use super::*;

use Change::{Labels, NewService, Traffic};

/// Writes a key as often as allowed for this number of seconds. Returns the times in milliseconds.
fn written(rate_limit: &mut RateLimit, change: Change, seconds: u64) -> Vec<u128> {
    let key = Key::mirror("east", "ns", "a");
    let began = Instant::now();
    let (mut now, mut times) = (began, Vec::new());
    while now < began + Duration::from_secs(seconds) {
        if let Some(next) = rate_limit.not_before(&key, change, now) {
            now = next;
            continue;
        }
        rate_limit.wrote(&key, change, 1, "east", now);
        if change == NewService {
            rate_limit.created(&key, now);
        }
        times.push((now - began).as_millis());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn first_write_is_not_delayed_and_later_ones_are_spaced() {
    let mut rate_limit = RateLimit::new(100, 10);
    assert_eq!(
        written(&mut rate_limit, Traffic, 2),
        [0, 0, 0, 500, 1000, 1500]
    );
    let mut rate_limit = RateLimit::new(100, 10);
    let labels = written(&mut rate_limit, Labels, 40);
    assert_eq!(labels, [0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500]);
}

#[tokio::test(start_paused = true)]
async fn changes_of_traffic_do_not_wait_for_labels() {
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let at = |ms| now + Duration::from_millis(ms);
    let mut rate_limit = RateLimit::new(100, 10);
    for (ms, change) in [(0, Labels), (500, Labels), (1500, Labels), (1600, Traffic)] {
        assert_eq!(rate_limit.not_before(&key, change, at(ms)), None, "{ms}");
        rate_limit.wrote(&key, change, 1, "", at(ms));
    }
    // The pause for labels stays the same.
    assert_eq!(
        rate_limit.not_before(&key, Labels, at(2500)),
        Some(at(3500))
    );
    assert_eq!(rate_limit.not_before(&key, Traffic, at(2500)), None);
    // After a while all limits are reset.
    assert_eq!(rate_limit.not_before(&key, Labels, at(30_000)), None);
    rate_limit.wrote(&key, Labels, 1, "", at(30_000));
    assert_eq!(
        rate_limit.not_before(&key, Labels, at(30_000)),
        Some(at(30_500))
    );
}

#[tokio::test(start_paused = true)]
async fn service_that_is_deleted_repeatedly_is_created_with_backoff() {
    let mut rate_limit = RateLimit::new(100, 10);
    let times = written(&mut rate_limit, NewService, 40);
    assert_eq!(times, [0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500]);
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let next = |rate_limit: &RateLimit, change| rate_limit.not_before(&key, change, now);
    let mut rate_limit = RateLimit::new(100, 10);
    for _ in 0..3 {
        rate_limit.created(&key, now);
    }
    rate_limit.wrote(&key, NewService, 5, "east", now);
    assert_eq!(
        next(&rate_limit, NewService),
        Some(now + Duration::from_secs(2))
    );
    // A deletion waits no longer than any other change that affects traffic.
    assert_eq!(next(&rate_limit, Traffic), None);
    // Services of other clusters still wait, but not Services that are created again with their Link.
    rate_limit.adds("west", 1, now);
    assert!(next(&rate_limit, NewService).is_some());
    rate_limit.adds("east", 1, now);
    assert_eq!(next(&rate_limit, NewService), None);
}

#[tokio::test(start_paused = true)]
async fn each_cluster_has_an_allowance_that_is_refilled() {
    let now = Instant::now();
    let at = |ms| now + Duration::from_millis(ms);
    let mut rate_limit = RateLimit::new(2, 10);
    let other = Key::mirror("west", "ns", "a");
    rate_limit.wrote(&other, Traffic, 1001, "west", now);
    let allowed = |rate_limit: &RateLimit, by, now| rate_limit.allowance(by, now);
    assert_eq!(allowed(&rate_limit, "west", now), Allowed::Nothing);
    assert_eq!(allowed(&rate_limit, "east", now), Allowed::Much);
    assert_eq!(rate_limit.next_allowed(now), Some(at(500)));
    assert_eq!(allowed(&rate_limit, "west", at(500)), Allowed::Little);
    assert_eq!(rate_limit.next_allowed(at(500)), None);
    assert_eq!(allowed(&rate_limit, "west", at(449_999)), Allowed::Little);
    assert_eq!(allowed(&rate_limit, "west", at(451_000)), Allowed::Much);
    // Writes that no target cluster caused are not counted.
    rate_limit.wrote(&other, Traffic, 100, "", now);
    assert_eq!(allowed(&rate_limit, "", now), Allowed::Much);
    // An allowance does not grow beyond a burst, and a full one is forgotten.
    assert!((rate_limit.left("west", at(600_000)) - BURST).abs() < 0.01);
    rate_limit.wrote(&other, Traffic, 1, "", at(600_001));
    assert!(rate_limit.clusters.is_empty());
    assert_eq!(rate_limit.written.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn writes_that_were_not_allowed_count_towards_no_allowance() {
    let now = Instant::now();
    let mut rate_limit = RateLimit::new(2, 10);
    for number in 0..1_500 {
        let key = Key::mirror("west", "ns", &format!("s-{number}"));
        rate_limit.wrote(&key, Traffic, 6, "west", now);
        rate_limit.refund("west", 6, now);
    }
    assert_eq!(rate_limit.allowance("west", now), Allowed::Much);
    assert!((rate_limit.left("west", now) - BURST).abs() < 0.01);
    rate_limit.refund("", 6, now);
    assert!(!rate_limit.clusters.contains_key(""));
}

#[tokio::test(start_paused = true)]
async fn additions_for_a_list_are_bounded_and_expire() {
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut rate_limit = RateLimit::new(2, 100);
    let key = Key::mirror("west", "ns", "a");
    let has_more =
        |rate_limit: &RateLimit, now| rate_limit.allowance("west", now) == Allowed::Added;
    assert!(!has_more(&rate_limit, now));
    rate_limit.adds("west", 50, now);
    rate_limit.adds("west", 80, now);
    assert!((rate_limit.left("west", at(299)) - BURST - 2400.0).abs() < 0.01);
    assert!(has_more(&rate_limit, at(299)) && !has_more(&rate_limit, at(300)));
    rate_limit.wrote(&key, Traffic, 2400, "west", at(1));
    assert_eq!(rate_limit.allowance("west", at(1)), Allowed::Much);
    // Unused additions expire, and there is no allowance without a cluster.
    rate_limit.adds("west", 1, at(2));
    assert!((rate_limit.left("west", at(302)) - BURST).abs() < 0.01);
    rate_limit.adds("", 1, at(2));
    rate_limit.adds("east", 0, at(2));
    assert_eq!(rate_limit.clusters.len(), 1);
}
