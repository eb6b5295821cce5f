//! Tests of turns, delays and failures.

use std::time::Duration;

use super::*;

fn key(cluster: &str, service: &str) -> Key {
    Key::mirror(cluster, "ns", service)
}

fn pop(queue: &mut Queue, now: Instant) -> Option<Key> {
    queue.pop(now, |_| ConcurrencyLimit::ALL)
}

#[tokio::test(start_paused = true)]
async fn cluster_gets_its_share_of_places_while_others_wait() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for service in ["1", "2", "3", "4"] {
        queue.enqueue(key("busy", service), LOCAL);
    }
    let next = |queue: &mut Queue, barred: &str| {
        let limit = |flow: &str| match flow {
            "few" => ConcurrencyLimit::of(1, 1),
            flow if flow == barred => ConcurrencyLimit::NONE,
            _ => ConcurrencyLimit::of(usize::MAX, 2),
        };
        let key = queue.pop(now, limit);
        key.map(|key| key.to_string())
    };
    assert_eq!(next(&mut queue, "").as_deref(), Some("ns/1@busy"));
    assert_eq!(next(&mut queue, "busy"), None);
    assert_eq!(next(&mut queue, "").as_deref(), Some("ns/4@busy"));
    queue.enqueue(key("idle", "1"), LOCAL);
    queue.enqueue(key("idle", "2"), LOCAL);
    assert_eq!(next(&mut queue, "").as_deref(), Some("ns/1@idle"));
    assert_eq!(next(&mut queue, "").as_deref(), Some("ns/2@idle"));
    assert_eq!(
        next(&mut queue, "").as_deref(),
        Some("ns/2@busy"),
        "no other cluster waits"
    );
    queue.done(&key("busy", "1"));
    assert_eq!(next(&mut queue, "idle").as_deref(), Some("ns/3@busy"));
    assert_eq!(next(&mut queue, ""), None);
    // A cluster with a limit of one gets one place, even if others wait.
    queue.enqueue(key("few", "1"), LOCAL);
    queue.enqueue(key("few", "2"), LOCAL);
    assert_eq!(next(&mut queue, "").as_deref(), Some("ns/1@few"));
    assert_eq!(next(&mut queue, ""), None);
}

#[tokio::test(start_paused = true)]
async fn postponed_key_comes_at_its_time_or_when_it_is_enqueued() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let (a, at) = (key("east", "a"), now + Duration::from_secs(2));
    queue.enqueue(a.clone(), LOCAL);
    pop(&mut queue, now);
    queue.enqueue(a.clone(), LOCAL);
    queue.postpone(&a, at);
    assert_eq!(
        (pop(&mut queue, now), queue.next_due(), queue.len()),
        (None, Some(at), 1)
    );
    queue.enqueue(a.clone(), LOCAL);
    assert_eq!(pop(&mut queue, now), Some(a.clone()));
    queue.postpone(&a, at);
    assert_eq!(pop(&mut queue, at), Some(a));
    assert_eq!((queue.next_due(), queue.len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn key_is_queued_once_and_never_processed_concurrently() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.enqueue(key("east", "a"), LOCAL);
    queue.enqueue(key("east", "a"), LOCAL);
    assert_eq!(queue.len(), 1);
    assert_eq!(pop(&mut queue, now), Some(key("east", "a")));
    queue.enqueue(key("east", "a"), LOCAL);
    assert_eq!(pop(&mut queue, now), None);
    queue.done(&key("east", "a"));
    assert_eq!(pop(&mut queue, now), Some(key("east", "a")));
    queue.done(&key("east", "a"));
    assert_eq!(
        (pop(&mut queue, now), queue.len(), queue.running()),
        (None, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_take_turns() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for service in ["1", "2", "3"] {
        queue.enqueue(key("busy", service), LOCAL);
    }
    queue.enqueue(key("idle", "1"), LOCAL);
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, now))
        .map(|k| k.to_string())
        .collect();
    assert_eq!(order, ["ns/1@busy", "ns/1@idle", "ns/3@busy", "ns/2@busy"]);
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_cluster_are_for_its_oldest_and_its_newest_key() {
    let (mut waiting, now) = (Queue::default(), Instant::now());
    for service in ["1", "2", "3", "4", "5"] {
        waiting.enqueue(key("east", service), LOCAL);
    }
    let order = std::iter::from_fn(|| waiting.pop(now, |_| ConcurrencyLimit::ALL));
    let order: Vec<String> = order.map(|key| key.to_string()).collect();
    assert_eq!(
        order,
        [
            "ns/1@east",
            "ns/5@east",
            "ns/2@east",
            "ns/4@east",
            "ns/3@east"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn enqueueing_ends_a_delay() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.enqueue(key("east", "a"), LOCAL);
    let key = pop(&mut queue, now).unwrap();
    queue.retry(&key, now + Duration::from_secs(5));
    assert_eq!(queue.next_due(), Some(now + Duration::from_secs(5)));
    queue.enqueue(key.clone(), LOCAL);
    assert_eq!(pop(&mut queue, now), Some(key.clone()));
    assert_eq!(queue.next_due(), None);
    queue.retry(&key, now + Duration::from_secs(5));
    queue.hurry();
    assert_eq!(pop(&mut queue, now), Some(key));
    assert_eq!(queue.next_due(), None);
}

#[tokio::test(start_paused = true)]
async fn keys_of_several_clusters_wait_in_the_lanes_that_enqueued_them() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for number in 0..10_000 {
        queue.enqueue(Key::federated("ns", &format!("busy-{number:05}")), "busy");
    }
    queue.enqueue(Key::federated("ns", "idle"), "idle");
    queue.enqueue(Key::gateway("idle"), "idle");
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, now))
        .map(|key| key.to_string())
        .take(4)
        .collect();
    assert_eq!(
        order,
        [
            "ns/busy-00000-federated",
            "ns/idle-federated",
            "ns/busy-09999-federated",
            "the gateway of Link idle"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn key_enqueued_by_two_clusters_comes_once_at_the_first_turn() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let shared = Key::federated("ns", "shared");
    for service in ["1", "2", "3"] {
        queue.enqueue(key("busy", service), LOCAL);
    }
    queue.enqueue(shared.clone(), "busy");
    queue.enqueue(shared.clone(), "idle");
    queue.enqueue(shared.clone(), "idle");
    assert_eq!(queue.len(), 4);
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, now)).collect();
    let expected = [
        key("busy", "1"),
        shared.clone(),
        key("busy", "3"),
        key("busy", "2"),
    ];
    assert_eq!(order, expected);
    assert!(queue.flows.is_empty() && queue.turns.is_empty());
    // It keeps its flow when it fails and is processed again.
    queue.retry(&shared, now + Duration::from_secs(1));
    queue.enqueue(key("idle", "1"), LOCAL);
    queue.hurry();
    assert_eq!(pop(&mut queue, now), Some(key("idle", "1")));
    assert_eq!(pop(&mut queue, now), Some(shared.clone()));
    queue.enqueue_again(&shared);
    queue.done(&shared);
    assert_eq!(queue.queued[&shared][0].0.as_ref(), "idle");
}

#[tokio::test(start_paused = true)]
async fn released_key_comes_again_when_enqueued_or_after_a_delay() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let a = key("east", "a");
    queue.enqueue(a.clone(), LOCAL);
    pop(&mut queue, now);
    queue.enqueue(a.clone(), LOCAL);
    queue.done(&a);
    assert_eq!(pop(&mut queue, now), Some(a.clone()));
    queue.done(&a);
    assert_eq!((pop(&mut queue, now), queue.running()), (None, 0));
    let due = now + Duration::from_secs(1);
    queue.delay(&a, "east", due);
    assert_eq!(queue.next_due(), Some(due));
    assert_eq!(pop(&mut queue, now), None);
    assert_eq!(pop(&mut queue, due), Some(a));
}

#[tokio::test(start_paused = true)]
async fn shared_key_keeps_the_turns_of_all_that_enqueued_it() {
    let shared = || Key::federated("ns", "web");
    let now = Instant::now();
    let only_local = |queue: &mut Queue| {
        queue.pop(now, |flow| match flow {
            LOCAL => ConcurrencyLimit::ALL,
            _ => ConcurrencyLimit::NONE,
        })
    };
    // While it runs.
    let mut queue = Queue::default();
    queue.enqueue(shared(), LOCAL);
    pop(&mut queue, now);
    queue.enqueue(shared(), LOCAL);
    queue.enqueue(shared(), "east");
    queue.done(&shared());
    assert_eq!(only_local(&mut queue), Some(shared()));
    // After a failure.
    queue.retry(&shared(), now + Duration::from_secs(1));
    queue.enqueue(shared(), "east");
    assert_eq!(only_local(&mut queue), Some(shared()));
    // While it is postponed for a cluster.
    let mut queue = Queue::default();
    queue.enqueue(shared(), "east");
    pop(&mut queue, now);
    queue.enqueue(shared(), LOCAL);
    queue.postpone(&shared(), now);
    assert_eq!(only_local(&mut queue), Some(shared()));
    queue.done(&shared());
    assert_eq!(pop(&mut queue, now), None, "it was in the queue once");
}

#[tokio::test(start_paused = true)]
async fn full_flow_leaves_out_new_keys_and_says_when_it_is_empty() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let add = |queue: &mut Queue, key: Key| queue.enqueue_up_to(2, key, "east");
    assert!(add(&mut queue, key("east", "a")));
    assert!(add(&mut queue, Key::federated("ns", "b")));
    assert_eq!(queue.drained().len(), 0, "nothing was left out");
    assert!(!add(&mut queue, key("east", "c")));
    assert!(add(&mut queue, key("east", "a")), "it waits already");
    assert!(add(&mut queue, key("west", "c")), "it has another flow");
    queue.enqueue(key("east", "local"), LOCAL);
    assert_eq!(queue.len(), 4);
    while let Some(next) = pop(&mut queue, now) {
        assert!(add(&mut queue, next.clone()), "it is running");
        assert_eq!(queue.drained().len(), usize::from(queue.queued.is_empty()));
        queue.again.clear();
        queue.done(&next);
    }
    assert_eq!(queue.drained().len(), 0, "it was returned already");
    // Delayed keys come again.
    queue.enqueue(key("east", "d"), LOCAL);
    let d = pop(&mut queue, now).unwrap();
    queue.postpone(&d, now + Duration::from_secs(60));
    assert!(add(&mut queue, key("east", "a")) && add(&mut queue, key("east", "c")));
    assert!(add(&mut queue, d));
    assert!(!add(&mut queue, key("east", "e")));
    assert_eq!(queue.len(), 3);
}
