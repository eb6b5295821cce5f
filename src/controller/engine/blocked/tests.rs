//! Which keys are tried, when, and how many tries fail.

use std::collections::VecDeque;

use tokio::time::advance;

use super::*;

fn denied(number: usize) -> Key {
    Key::mirror("east", "bulk", &format!("s-{number}"))
}

/// What the API server says to a try, by the number of tries before.
type Words = fn(usize) -> String;

fn same(_: usize) -> String {
    "no".to_owned()
}

fn other_each_time(number: usize) -> String {
    format!("no to request {number}")
}

/// Tries the keys that are due for this number of seconds, and denies them. Returns the times of the tries.
async fn tried(blocked: &mut Blocked, seconds: u64, words: Words) -> Vec<Instant> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut times = Vec::new();
    while let Some(next) = blocked.next_due().filter(|next| *next < end) {
        tokio::time::sleep_until(next).await;
        for key in blocked.due(Instant::now()) {
            let message = words(blocked.group_of.len() + times.len());
            blocked.deny(&key, &message, Instant::now());
            times.push(Instant::now());
        }
    }
    times
}

fn group_of(count: usize) -> Blocked {
    group_in(count, same)
}

fn group_in(count: usize, words: Words) -> Blocked {
    let mut blocked = Blocked::default();
    for number in 0..count {
        blocked.deny(&denied(number), &words(number), Instant::now());
    }
    blocked
}

#[tokio::test(start_paused = true)]
async fn many_denied_keys_cause_one_request_a_second() {
    for count in [60, 1_500] {
        let tries = tried(&mut group_of(count), 600, same).await;
        assert!(
            (600..=810).contains(&tries.len()),
            "{count}: {}",
            tries.len()
        );
    }
    // Each of a few is tried about once a minute.
    let tries = tried(&mut group_of(3), 600, same).await;
    assert!((28..=60).contains(&tries.len()), "{}", tries.len());
    assert!(tries[1] - tries[0] < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn refusals_in_other_words_each_time_cause_no_more_requests() {
    for (count, range) in [
        (1, 10..=14),
        (5, 50..=70),
        (60, 480..=810),
        (1_500, 600..=810),
    ] {
        let mut blocked = group_in(count, other_each_time);
        tried(&mut blocked, 600, other_each_time).await;
        let tries = tried(&mut blocked, 600, other_each_time).await;
        assert!(range.contains(&tries.len()), "{count}: {}", tries.len());
        assert_eq!(blocked.group_of.len(), count);
        assert!(blocked.denied.len() <= SEPARATE + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn groups_of_a_namespace_are_limited_and_leave_others_alone() {
    let (mut blocked, now) = (group_in(100, other_each_time), Instant::now());
    blocked.deny(&Key::mirror("east", "bulk-2", "x"), "another cause", now);
    blocked.deny(&Key::mirror("east", "a", "x"), "another cause", now);
    let sizes = blocked.denied.iter();
    let sizes = sizes.map(|((namespace, _), group)| (&**namespace, group.keys.len()));
    let mut expected = vec![("a", 1), ("bulk", 100 - SEPARATE)];
    expected.extend([("bulk", 1); SEPARATE]);
    expected.push(("bulk-2", 1));
    assert!(sizes.eq(expected), "{:?}", blocked.denied);
    // When one of the shared group succeeds, others of it follow.
    assert_eq!(blocked.succeeded(&denied(SEPARATE), now).len(), MORE);
}

#[tokio::test(start_paused = true)]
async fn when_one_succeeds_the_others_of_its_group_follow() {
    let (mut blocked, now) = (group_of(100), Instant::now());
    blocked.deny(&Key::federated("bulk", "x"), "another cause", now);
    blocked.deny(&Key::mirror("east", "other", "x"), "no", now);
    let (mut open, mut rounds) = (vec![denied(0)], 0);
    while !open.is_empty() {
        let next = open.iter().flat_map(|key| blocked.succeeded(key, now));
        open = next.collect();
        rounds += 1;
    }
    assert!(rounds <= 9, "{rounds}");
    assert_eq!(blocked.group_of.len(), 2);
    assert_eq!(blocked.succeeded(&denied(0), now), []);
}

#[tokio::test(start_paused = true)]
async fn the_names_in_a_message_do_not_make_another_cause() {
    let mut blocked = Blocked::default();
    for number in 0..3 {
        let message = format!("services \"s-{number}-east\" is forbidden: no");
        blocked.deny(&denied(number), &message, Instant::now());
    }
    assert_eq!(blocked.denied.len(), 1);
    blocked.deny(&denied(0), "exceeded quota", Instant::now());
    assert_eq!(blocked.denied.len(), 2);
    assert_eq!(blocked.group_of.len(), 3);
}

fn key(number: usize) -> Key {
    Key::mirror("east", "ns", &format!("web-{number:03}"))
}

/// A shortage of `ClusterIP`s for which this number of keys wait.
fn short(waiting: usize) -> Blocked {
    let mut blocked = Blocked::default();
    assert_eq!(blocked.may_create(&key(0), 1), Ok(()));
    for number in 0..waiting {
        blocked.lacks_address(&key(number), Instant::now());
    }
    blocked
}

#[tokio::test(start_paused = true)]
async fn first_key_is_tried_after_2_s_and_others_with_backoff() {
    let (started, mut blocked) = (Instant::now(), short(200));
    assert!(blocked.may_create(&key(500), 1).is_err());
    let mut at = Vec::new();
    while at.len() < 10 {
        tokio::time::sleep_until(blocked.next_due().unwrap()).await;
        let [key] = &blocked.due(Instant::now())[..] else {
            panic!("not one key");
        };
        assert_eq!(blocked.may_create(key, 1), Ok(()));
        assert_eq!(blocked.due(Instant::now()), []);
        blocked.lacks_address(key, Instant::now());
        assert_eq!(blocked.may_create(key, 1), Err(Shortage::NoneFree));
        at.push(started.elapsed().as_secs());
    }
    assert_eq!(at, [2, 6, 14, 30, 62, 126, 254, 510, 810, 1110]);
}

#[tokio::test(start_paused = true)]
async fn few_tries_fail_when_some_addresses_are_free_again() {
    let mut blocked = short(200);
    let (mut free, mut vain) = (50, 0);
    let mut next: VecDeque<Key> = blocked.next_for_address().into_iter().collect();
    while let Some(key) = next.pop_front() {
        if free > 0 {
            free -= 1;
            next.extend(blocked.succeeded(&key, Instant::now()));
        } else {
            vain += 1;
            blocked.lacks_address(&key, Instant::now());
        }
    }
    let waiting = blocked.addresses.waiting().count();
    assert_eq!((free, waiting, vain), (0, 150, 51));
    let first = Instant::now() + ADDRESSES.first;
    assert_eq!(blocked.next_due(), Some(first));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_while_too_little_of_the_range_is_free() {
    let mut blocked = Blocked::default();
    assert_eq!(blocked.set_free(Some(3)), None);
    assert_eq!(blocked.may_create(&key(0), 2), Ok(()));
    assert_eq!(blocked.may_create(&key(1), 2), Err(Shortage::RangeFull));
    // Others wait for their turn, also those that need less.
    assert_eq!(blocked.may_create(&key(2), 1), Err(Shortage::NoneFree));
    assert_eq!(blocked.may_create(&key(9), 0), Err(Shortage::NoneFree));
    blocked.set_free(Some(-1));
    advance(ADDRESSES.longest).await;
    assert_eq!(blocked.next_due(), None);
    assert_eq!(blocked.due(Instant::now()), []);
    assert_eq!(blocked.freed(), None);
    assert_eq!(blocked.free, Some(0));
    // As soon as there is room, all follow the first one.
    assert_eq!(blocked.set_free(Some(10)), Some(key(1)));
    assert_eq!(blocked.may_create(&key(1), 2), Ok(()));
    let next = blocked.succeeded(&key(1), Instant::now());
    assert_eq!(next, [key(2), key(9)]);
    for key in next {
        assert_eq!(blocked.may_create(&key, 1), Ok(()));
        blocked.succeeded(&key, Instant::now());
    }
    assert_eq!(blocked.free, Some(6));
    assert_eq!(blocked.set_free(None), None);
    assert_eq!(blocked.may_create(&key(3), 1000), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn keys_need_no_turn_after_a_shortage_and_unused_turns_pass_on() {
    let mut blocked = short(3);
    advance(ADDRESSES.first).await;
    let first = blocked.due(Instant::now()).remove(0);
    assert_eq!(first, key(0));
    // The Service was deleted meanwhile.
    assert_eq!(blocked.needs_no_address(&first), Some(key(1)));
    assert_eq!(blocked.needs_no_address(&key(2)), None);
    assert_eq!(blocked.may_create(&key(9), 1), Err(Shortage::NoneFree));
    assert_eq!(blocked.succeeded(&key(1), Instant::now()), [key(9)]);
    assert_eq!(blocked.succeeded(&key(9), Instant::now()), []);
    assert_eq!(blocked.may_create(&key(10), 1), Ok(()));
    assert_eq!(blocked.next_due(), None);
}
