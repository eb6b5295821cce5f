//! How many writes a cluster may cause.

use super::*;

#[tokio::test(start_paused = true)]
async fn each_cluster_has_an_allowance_that_is_refilled() {
    let now = Instant::now();
    let at = |ms| now + Duration::from_millis(ms);
    let mut allowances = Allowances::new(2, 10);
    allowances.take("west", 1001, now);
    let allowed = |allowances: &Allowances, by, now| allowances.of(by, now);
    assert_eq!(allowed(&allowances, "west", now), Allowed::Nothing);
    assert_eq!(allowed(&allowances, "east", now), Allowed::Much);
    assert_eq!(allowances.next_allowed(now), Some(at(500)));
    assert_eq!(allowed(&allowances, "west", at(500)), Allowed::Little);
    assert_eq!(allowances.next_allowed(at(500)), None);
    assert_eq!(allowed(&allowances, "west", at(449_999)), Allowed::Little);
    assert_eq!(allowed(&allowances, "west", at(451_000)), Allowed::Much);
    // Writes that no target cluster caused are not counted.
    allowances.take("", 100, now);
    assert_eq!(allowed(&allowances, "", now), Allowed::Much);
    // An allowance does not grow beyond a burst, and a full one is forgotten.
    assert!((allowances.left("west", at(600_000)) - BURST).abs() < 0.01);
    allowances.take("", 1, at(600_001));
    assert!(allowances.clusters.is_empty());
}

#[tokio::test(start_paused = true)]
async fn writes_that_were_not_allowed_count_towards_no_allowance() {
    let now = Instant::now();
    let mut allowances = Allowances::new(2, 10);
    for _ in 0..1_500 {
        allowances.take("west", 6, now);
        allowances.refund("west", 6, now);
    }
    assert_eq!(allowances.of("west", now), Allowed::Much);
    assert!((allowances.left("west", now) - BURST).abs() < 0.01);
    allowances.refund("", 6, now);
    assert!(!allowances.clusters.contains_key(""));
}

#[tokio::test(start_paused = true)]
async fn additions_for_a_list_are_bounded_and_expire() {
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut allowances = Allowances::new(2, 100);
    let has_more = |allowances: &Allowances, now| allowances.of("west", now) == Allowed::Added;
    assert!(!has_more(&allowances, now));
    allowances.adds("west", 50, now);
    allowances.adds("west", 80, now);
    assert!((allowances.left("west", at(299)) - BURST - 2400.0).abs() < 0.01);
    assert!(has_more(&allowances, at(299)) && !has_more(&allowances, at(300)));
    allowances.take("west", 2400, at(1));
    assert_eq!(allowances.of("west", at(1)), Allowed::Much);
    // Unused additions expire, and there is no allowance without a cluster.
    allowances.adds("west", 1, at(2));
    assert!((allowances.left("west", at(302)) - BURST).abs() < 0.01);
    allowances.adds("", 1, at(2));
    allowances.adds("east", 0, at(2));
    assert_eq!(allowances.clusters.len(), 1);
}
