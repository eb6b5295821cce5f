//! When keys may be written again.

use super::*;

use Change::{Labels, NewService, Traffic};

/// Contents that are all different.
fn contents() -> impl FnMut() -> Content {
    let mut last = 0;
    move || {
        last += 1;
        Content(last)
    }
}

/// Writes a key as often as allowed for this number of seconds. Returns the times in milliseconds.
fn written(change: Change, mut content: impl FnMut() -> Content, seconds: u64) -> Vec<u128> {
    let (key, began) = (Key::mirror("east", "ns", "a"), Instant::now());
    let mut paces = Paces::new(began);
    let (mut now, mut times) = (began, Vec::new());
    while now < began + Duration::from_secs(seconds) {
        let content = content();
        if let Some(next) = paces.not_before(&key, (change, content), now) {
            now = next;
            continue;
        }
        paces.begins(&key, change, now);
        paces.wrote(&key, content, change == NewService, now);
        times.push((now - began).as_millis());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn first_write_is_not_delayed_and_later_ones_are_spaced() {
    assert_eq!(written(Traffic, contents(), 2), [0, 0, 0, 500, 1000, 1500]);
    let slow = [0, 500, 1500, 3500, 7500, 15_500, 25_500, 35_500];
    assert_eq!(written(Labels, contents(), 40), slow);
    // A Service that is deleted again and again.
    assert_eq!(written(NewService, contents(), 40), slow);
}

#[tokio::test(start_paused = true)]
async fn equal_writes_in_a_row_wait_twice_as_long_each_time_up_to_a_minute() {
    let times = written(Traffic, || Content(1), 260);
    let seconds: Vec<_> = times.iter().map(|time| time / 1000).collect();
    assert_eq!(
        seconds,
        [0, 0, 0, 0, 1, 1, 2, 4, 8, 16, 32, 64, 124, 184, 244]
    );
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let mut paces = Paces::new(now);
    for _ in 0..TIMES {
        assert!(!paces.is_reverted(&key, Content(1)));
        paces.wrote(&key, Content(1), false, now);
    }
    assert!(paces.is_reverted(&key, Content(1)));
    // Another write does not wait, and ends the row.
    assert_eq!(paces.not_before(&key, (Traffic, Content(2)), now), None);
    paces.wrote(&key, Content(2), false, now);
    assert!(!paces.is_reverted(&key, Content(1)));
}

#[tokio::test(start_paused = true)]
async fn equal_writes_with_time_between_them_are_not_in_a_row() {
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let mut paces = Paces::new(now);
    for number in 0..20 {
        paces.wrote(&key, Content(1), false, now + FORGOTTEN * number);
        assert!(!paces.is_reverted(&key, Content(1)), "{number}");
    }
    // Old keys are forgotten.
    let other = Key::mirror("east", "ns", "b");
    paces.begins(&other, Traffic, now + FORGOTTEN * 40);
    assert_eq!(paces.keys.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_of_traffic_do_not_wait_for_labels() {
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let at = |ms| now + Duration::from_millis(ms);
    let (mut paces, mut content) = (Paces::new(now), contents());
    let mut next = |paces: &Paces, change, ms| paces.not_before(&key, (change, content()), at(ms));
    for (ms, change) in [(0, Labels), (500, Labels), (1500, Labels), (1600, Traffic)] {
        assert_eq!(next(&paces, change, ms), None, "{ms}");
        paces.begins(&key, change, at(ms));
    }
    // The pause for labels stays the same.
    assert_eq!(next(&paces, Labels, 2500), Some(at(3500)));
    assert_eq!(next(&paces, Traffic, 2500), None);
    // After a while all limits are reset.
    assert_eq!(next(&paces, Labels, 30_000), None);
    paces.begins(&key, Labels, at(30_000));
    assert_eq!(next(&paces, Labels, 30_000), Some(at(30_500)));
}

#[tokio::test(start_paused = true)]
async fn services_that_were_deleted_with_their_link_are_created_again_without_delay() {
    let (key, now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let next = |paces: &Paces, change| paces.not_before(&key, (change, Content(9)), now);
    let mut paces = Paces::new(now);
    for content in 0..3 {
        paces.wrote(&key, Content(content), true, now);
    }
    let after = Duration::from_secs(2);
    assert_eq!(next(&paces, NewService), Some(now + after));
    // A deletion waits no longer than any other change that affects traffic.
    assert_eq!(next(&paces, Traffic), None);
    paces.may_create_again("west", now);
    assert_eq!(next(&paces, NewService), Some(now + after));
    paces.may_create_again("east", now);
    assert_eq!(next(&paces, NewService), None);
}

#[tokio::test(start_paused = true)]
async fn pauses_after_failures_double_up_to_a_minute_and_end_with_success() {
    let (key, mut now) = (Key::mirror("east", "ns", "a"), Instant::now());
    let mut paces = Paces::new(now);
    let mut delays = Vec::new();
    for failures in 0..14 {
        assert_eq!(paces.failures(&key), failures);
        let next = paces.failed(&key, None, now);
        delays.push(next - now);
        // Also if a try takes long.
        now = next + 2 * FORGOTTEN;
        paces.begins(&Key::mirror("east", "ns", "b"), Traffic, now);
    }
    assert!(delays[0] <= Duration::from_millis(100), "{delays:?}");
    assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(60)));
    assert!(delays[13] > Duration::from_secs(40), "{delays:?}");
    paces.succeeded(&key);
    let wait = Duration::from_secs(5);
    assert!(paces.failed(&key, None, now) <= now + Duration::from_millis(100));
    assert_eq!(paces.failed(&key, Some(wait), now), now + wait);
}
