//! Tests of when confirmations are requested, and which of them are valid.

use super::*;

/// Here the basis of an answer is only the number of a session.
type Stage = Confirmations<u64>;

fn remote(cluster: &str, service: &str) -> RemoteRef {
    RemoteRef {
        cluster: cluster.to_owned(),
        namespace: "ns".to_owned(),
        service: service.to_owned(),
    }
}

fn mirror(cluster: &str, service: &str) -> (Key, RemoteRef) {
    (
        Key::mirror(cluster, "ns", service),
        remote(cluster, service),
    )
}

/// All questions that may be asked now.
fn asked(stage: &mut Stage) -> Vec<Question> {
    std::iter::from_fn(|| stage.next()).collect()
}

/// Whether a key has the confirmations that it needs, while the session has this number.
fn take(stage: &mut Stage, key: &Key, needed: &[RemoteRef], session: u64, now: Instant) -> bool {
    stage.take(key, needed, |_| Some(&session), now)
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_cluster_are_limited_and_others_do_not_wait_for_it() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    for number in 0..AT_ONCE + 2 {
        let (key, remote) = mirror("hangs", &format!("web-{number:02}"));
        stage.need(&key, std::slice::from_ref(&remote));
        stage.need(&key, &[remote]);
    }
    let first = asked(&mut stage);
    assert_eq!(first.len(), AT_ONCE);
    let (key, remote) = mirror("answers", "web");
    stage.need(&key, &[remote]);
    assert_eq!(asked(&mut stage).len(), 1);
    assert!(!stage.answered(&first[0], None));
    let second = asked(&mut stage);
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].remote.service, "web-08");
    for question in first[1..].iter().chain(&second) {
        assert!(stage.answered(question, Some((now, 1))));
    }
    assert_eq!(asked(&mut stage).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn confirmation_is_used_once_while_recent_and_on_the_same_basis() {
    let now = Instant::now();
    let (key, remote) = mirror("east", "web");
    let needed = [remote];
    let confirmed = || {
        let mut stage = Stage::default();
        assert!(!take(&mut stage, &key, &needed, 1, now));
        stage.need(&key, &needed);
        assert!(!take(&mut stage, &key, &needed, 1, now), "not asked yet");
        let question = stage.next().unwrap();
        assert!(!take(&mut stage, &key, &needed, 1, now), "no answer yet");
        assert!(stage.answered(&question, Some((now, 1))));
        stage
    };
    let mut stage = confirmed();
    assert!(take(&mut stage, &key, &needed, 1, now + RECENT));
    assert!(!take(&mut stage, &key, &needed, 1, now), "used twice");
    let late = now + RECENT + Duration::from_millis(1);
    for (session, at, what) in [(1, late, "old"), (2, now, "of another session")] {
        let mut stage = confirmed();
        assert!(!take(&mut stage, &key, &needed, session, at), "{what}");
        assert_eq!(stage.len(), 0, "{what}");
        stage.need(&key, &needed);
        assert!(stage.next().is_some(), "{what}: asked again");
    }
}

#[tokio::test(start_paused = true)]
async fn key_of_several_clusters_needs_all_confirmations_and_keeps_received_ones() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    let key = Key::federated("ns", "web");
    let needed = [remote("east", "web"), remote("west", "web")];
    stage.need(&key, &needed);
    let questions = asked(&mut stage);
    assert_eq!(questions.len(), 2);
    assert!(!stage.answered(&questions[0], Some((now, 1))));
    assert!(!stage.answered(&questions[1], None));
    assert!(!take(&mut stage, &key, &needed, 1, now));
    // Only the missing confirmation is requested again.
    stage.need(&key, &needed);
    let again = asked(&mut stage);
    assert_eq!(again, [questions[1].clone()]);
    assert!(stage.answered(&again[0], Some((now, 1))));
    // Two confirmations are not enough for three needs.
    let more = [&needed[..], &[remote("north", "web")]].concat();
    assert!(!take(&mut stage, &key, &more, 1, now));
    assert!(take(&mut stage, &key, &needed[..1], 1, now));
    assert_eq!(stage.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn unneeded_confirmations_are_neither_requested_nor_used() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    let (key, remote) = mirror("east", "web");
    let needed = [remote];
    stage.need(&key, &needed);
    stage.forget(&key);
    assert_eq!((stage.next(), stage.len()), (None, 0));
    // The answer to an earlier question does not answer the new one.
    stage.need(&key, &needed);
    let before = stage.next().unwrap();
    stage.forget(&key);
    stage.need(&key, &needed);
    assert!(!stage.answered(&before, Some((now, 1))));
    assert!(!take(&mut stage, &key, &needed, 1, now));
    let question = stage.next().unwrap();
    assert!(stage.answered(&question, Some((now, 1))));
    assert!(take(&mut stage, &key, &needed, 1, now));
    assert!(stage.clusters.is_empty() && stage.ready.is_empty());
}
