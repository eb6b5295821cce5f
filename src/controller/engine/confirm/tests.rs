//! Tests of when confirmations are requested, and which of them are valid.

use super::*;

/// Here the precondition of an answer is only the number of a session.
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
fn asked(stage: &mut Stage) -> Vec<ConfirmationRequest> {
    std::iter::from_fn(|| stage.next()).collect()
}

/// The clusters that have confirmed what a key asks of them, while the session has this number.
fn confirmed(stage: &mut Stage, key: &Key, session: u64, now: Instant) -> Vec<String> {
    let confirmed = stage.confirmed(key, |_| Some(&session), now);
    confirmed.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_cluster_are_limited_and_others_do_not_wait_for_it() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    for number in 0..AT_ONCE + 2 {
        let (key, remote) = mirror("hangs", &format!("web-{number:02}"));
        stage.need(&key, &remote);
        stage.need(&key, &remote);
    }
    let first = asked(&mut stage);
    assert_eq!(first.len(), AT_ONCE);
    let (key, remote) = mirror("answers", "web");
    stage.need(&key, &remote);
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
    let answered = || {
        let mut stage = Stage::default();
        assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0]);
        stage.need(&key, &remote);
        assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0], "not asked");
        let question = stage.next().unwrap();
        assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0], "no answer");
        assert!(stage.answered(&question, Some((now, 1))));
        stage
    };
    let mut stage = answered();
    assert_eq!(confirmed(&mut stage, &key, 1, now + RECENT), ["east"]);
    stage.use_up(&key);
    assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0], "used twice");
    let late = now + RECENT + Duration::from_millis(1);
    for (session, at, what) in [(1, late, "old"), (2, now, "of another session")] {
        let mut stage = answered();
        assert_eq!(confirmed(&mut stage, &key, session, at), [""; 0], "{what}");
        assert_eq!(stage.len(), 0, "{what}");
        stage.need(&key, &remote);
        assert!(stage.next().is_some(), "{what}: asked again");
    }
}

#[tokio::test(start_paused = true)]
async fn each_cluster_of_a_key_confirms_for_itself() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    let key = Key::federated("ns", "web");
    let needed = [remote("east", "web"), remote("west", "web")];
    for remote in &needed {
        stage.need(&key, remote);
    }
    let questions = asked(&mut stage);
    assert_eq!(questions.len(), 2);
    assert_eq!(stage.clusters_of(&key), ["east", "west"]);
    assert!(stage.answered(&questions[0], Some((now, 1))));
    assert_eq!(confirmed(&mut stage, &key, 1, now), ["east"]);
    // While west is being asked, it is not asked again.
    stage.use_up(&key);
    stage.need(&key, &needed[1]);
    assert_eq!(asked(&mut stage), []);
    assert!(!stage.answered(&questions[1], None));
    stage.need(&key, &needed[1]);
    assert_eq!(asked(&mut stage), [questions[1].clone()]);
    assert!(stage.answered(&questions[1], Some((now, 1))));
    // West has its member again, so its confirmation is not needed any more.
    stage.keep(&key, &needed[..1]);
    assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0]);
    assert_eq!(stage.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn unneeded_confirmations_are_neither_requested_nor_used() {
    let (mut stage, now) = (Stage::default(), Instant::now());
    let (key, remote) = mirror("east", "web");
    stage.need(&key, &remote);
    stage.forget(&key);
    assert_eq!((stage.next(), stage.len()), (None, 0));
    // The answer to an earlier question does not answer the new one.
    stage.need(&key, &remote);
    let before = stage.next().unwrap();
    stage.forget(&key);
    stage.need(&key, &remote);
    assert!(!stage.answered(&before, Some((now, 1))));
    assert_eq!(confirmed(&mut stage, &key, 1, now), [""; 0]);
    let question = stage.next().unwrap();
    assert!(stage.answered(&question, Some((now, 1))));
    assert_eq!(confirmed(&mut stage, &key, 1, now), ["east"]);
    stage.use_up(&key);
    assert!(stage.clusters.is_empty());
}
