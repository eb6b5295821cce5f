//! Tests of when confirmations are requested, and which of them are valid.

use super::*;

/// Here the precondition of an answer is only the number of a session.
type BySession = Confirmations<u64>;

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

/// All requests that may be asked now.
fn asked(known: &mut BySession) -> Vec<ConfirmationRequest> {
    std::iter::from_fn(|| known.next()).collect()
}

/// The clusters that have confirmed what a key asks of them, while the session has this number.
fn confirmed(known: &mut BySession, key: &Key, session: u64, now: Instant) -> Vec<String> {
    let confirmed = known.confirmed(key, |_| Some(session), now);
    confirmed.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_cluster_are_limited_and_others_do_not_wait_for_it() {
    let (mut known, now) = (BySession::default(), Instant::now());
    for number in 0..AT_ONCE + 2 {
        let (key, remote) = mirror("hangs", &format!("web-{number:02}"));
        known.need(&key, &remote);
        known.need(&key, &remote);
    }
    let first = asked(&mut known);
    assert_eq!(first.len(), AT_ONCE);
    let (key, remote) = mirror("answers", "web");
    known.need(&key, &remote);
    assert_eq!(asked(&mut known).len(), 1);
    assert!(!known.answered(&first[0], None));
    let second = asked(&mut known);
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].remote.service, "web-08");
    for request in first[1..].iter().chain(&second) {
        assert!(known.answered(request, Some((now, 1))));
    }
    assert_eq!(asked(&mut known).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_waiting_requests_delay_no_other() {
    const MANY: usize = 20_000;
    let began = std::time::Instant::now();
    let mut known = BySession::default();
    for number in 0..MANY {
        let (key, remote) = mirror("hangs", &format!("web-{number:05}"));
        known.need(&key, &remote);
    }
    let first = asked(&mut known);
    assert_eq!(first.len(), AT_ONCE);
    for number in 0..MANY {
        let (key, remote) = mirror("answers", &format!("web-{number:05}"));
        known.need(&key, &remote);
        let request = known.next().unwrap();
        assert_eq!(request.key, key);
        known.answered(&request, None);
    }
    let mut left = first;
    let mut answered = Vec::new();
    while let Some(request) = left.pop() {
        known.answered(&request, None);
        answered.push(request.remote.service);
        left.extend(known.next());
    }
    assert_eq!(answered.len(), MANY);
    assert_eq!(known.len(), 0);
    // Looking at all requests for each of them takes minutes.
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_cluster_are_withdrawn_together() {
    let mut known = BySession::default();
    let shared = Key::federated("ns", "web");
    known.need(&shared, &remote("answers", "web"));
    for number in 0..AT_ONCE + 2 {
        let (key, remote) = mirror("away", &format!("web-{number:02}"));
        known.need(&key, &remote);
    }
    known.need(&shared, &remote("away", "web"));
    let (forgotten, needed) = mirror("away", "forgotten");
    known.need(&forgotten, &needed);
    known.forget(&forgotten);
    let running = asked(&mut known);
    assert_eq!(running.len(), AT_ONCE + 1);
    let waiting = [
        mirror("away", "web-08").0,
        mirror("away", "web-09").0,
        shared,
    ];
    assert_eq!(known.withdraw("away"), waiting);
    assert_eq!(known.withdraw("away"), []);
    assert_eq!(asked(&mut known), []);
    // Those that run are answered as usual.
    for request in &running {
        assert!(known.answered(request, Some((Instant::now(), 1))));
    }
    assert_eq!(known.len(), AT_ONCE + 1);
    known.need(&waiting[0], &remote("away", "web-08"));
    assert_eq!(asked(&mut known).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn confirmation_is_used_once_while_recent_and_on_the_same_basis() {
    let now = Instant::now();
    let (key, remote) = mirror("east", "web");
    let answered = || {
        let mut known = BySession::default();
        assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0]);
        known.need(&key, &remote);
        assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0], "not asked");
        let request = known.next().unwrap();
        assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0], "no answer");
        assert!(known.answered(&request, Some((now, 1))));
        known
    };
    let mut known = answered();
    assert_eq!(confirmed(&mut known, &key, 1, now + RECENT), ["east"]);
    known.use_up(&key);
    assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0], "used twice");
    let late = now + RECENT + Duration::from_millis(1);
    for (session, at, what) in [(1, late, "old"), (2, now, "of another session")] {
        let mut known = answered();
        assert_eq!(confirmed(&mut known, &key, session, at), [""; 0], "{what}");
        assert_eq!(known.len(), 0, "{what}");
        known.need(&key, &remote);
        assert!(known.next().is_some(), "{what}: asked again");
    }
}

#[tokio::test(start_paused = true)]
async fn each_cluster_of_a_key_confirms_for_itself() {
    let (mut known, now) = (BySession::default(), Instant::now());
    let key = Key::federated("ns", "web");
    let needed = [remote("east", "web"), remote("west", "web")];
    for remote in &needed {
        known.need(&key, remote);
    }
    let requests = asked(&mut known);
    assert_eq!(requests.len(), 2);
    assert!(known.keys[&key].keys().eq(["east", "west"]));
    assert!(known.answered(&requests[0], Some((now, 1))));
    assert_eq!(confirmed(&mut known, &key, 1, now), ["east"]);
    // While west is being asked, it is not asked again.
    known.use_up(&key);
    known.need(&key, &needed[1]);
    assert_eq!(asked(&mut known), []);
    assert!(!known.answered(&requests[1], None));
    known.need(&key, &needed[1]);
    assert_eq!(asked(&mut known), [requests[1].clone()]);
    assert!(known.answered(&requests[1], Some((now, 1))));
    // West has its member again, so its confirmation is not needed any more.
    known.keep(&key, &needed[..1]);
    assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0]);
    assert_eq!(known.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn unneeded_confirmations_are_neither_requested_nor_used() {
    let (mut known, now) = (BySession::default(), Instant::now());
    let (key, remote) = mirror("east", "web");
    known.need(&key, &remote);
    known.forget(&key);
    assert_eq!((known.next(), known.len()), (None, 0));
    // The answer to an earlier request does not answer the new one.
    known.need(&key, &remote);
    let before = known.next().unwrap();
    known.forget(&key);
    known.need(&key, &remote);
    assert!(!known.answered(&before, Some((now, 1))));
    assert_eq!(confirmed(&mut known, &key, 1, now), [""; 0]);
    let request = known.next().unwrap();
    assert!(known.answered(&request, Some((now, 1))));
    assert_eq!(confirmed(&mut known, &key, 1, now), ["east"]);
    known.use_up(&key);
    assert!(known.running.is_empty());
    assert_eq!(known.next(), None);
    assert!(known.waiting.is_empty());
}
