//! Failures of networks and API servers between the controller and its clusters. The controller deletes no mirror that
//! is still needed, and everything else continues. All mirrors are correct within seconds after the failure.

mod deaths;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Fault, FaultProxy, Interceptor, Verdict, eventually};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::config::Kubeconfig;
use linkerd_mc::{api::link::LinkStatus, timing};
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, nothing_was_deleted, requests, said_in, writes},
    controller::Controller,
    credentials::{client, kubeconfig},
    faults::{refusal, through},
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE},
    links::{condition, in_step, is_lost, is_well, own_link, status_that, unlink},
    objects::{
        addresses, cluster_ips, delete, export, gone, has_members, member, namespace, patch,
        relabel, service, slices_that, web,
    },
    planes::alone,
    program::run,
};

/// How soon after the end of a fault all mirrors have to be correct.
const HEALED: Duration = Duration::from_secs(10);
/// How soon the controller has to detect that a cluster stopped responding.
const NOTICED: Duration = Duration::from_secs(45);

/// Namespace of the Services of clusters that stop responding.
const SILENCE: &str = "silence";
/// Three clusters that stop responding, each in another way, and one that works.
const CLUSTERS: [&str; 4] = ["stalled", "held", "endless", "steady"];
/// Selects the members in the source cluster.
const MEMBERS: &str = "--federated-service-selector=mirror.linkerd.io/federated=stalled";

/// Proxies to the clusters that stop responding. `stalled` forwards no byte. The other two still answer HTTP/2 pings:
/// `held` answers no request, and `endless` answers a list of Services with a body that never ends.
struct Lines {
    stalled: FaultProxy,
    held: Interceptor,
    endless: Interceptor,
}

impl Lines {
    /// Links the four clusters.
    async fn link(source: &ControlPlane, far: &ControlPlane) -> Self {
        let stalled = far.fault_proxy().unwrap();
        let (held, endless) = (far.intercept(None).unwrap(), far.intercept(None).unwrap());
        own_link(source, far, "stalled", &[&through(&stalled.url())]).await;
        own_link(source, far, "held", &[&through(&held.url())]).await;
        own_link(source, far, "endless", &[&through(&endless.url())]).await;
        own_link(source, far, "steady", &[]).await;
        Self {
            stalled,
            held,
            endless,
        }
    }

    fn fall_silent(&self) {
        self.stalled.set(Fault::Stall);
        self.held.judge(|_| Verdict::Hold);
        self.held.cut();
        self.endless.judge(|asked| {
            if asked.is_list("services") {
                Verdict::Endless
            } else if asked.is_watch("services") {
                refusal(410, "Expired")
            } else {
                Verdict::Forward
            }
        });
        self.endless.cut();
    }

    fn heal(&self) {
        self.stalled.set(Fault::None);
        self.held.forward();
        self.held.cut();
    }
}

/// Whether a federated Service has the members of this test.
fn is_complete(federated: &Service) -> bool {
    has_members(federated, Some("member@stalled"), Some("member"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn silent_clusters_are_noticed_and_others_are_unaffected() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(SILENCE, &[source, far]).await;
    let lines = Lines::link(source, far).await;
    for cluster in CLUSTERS {
        export(far, SILENCE, &web(cluster, cluster)).await;
    }
    for name in ["withdrawn", "changed"] {
        export(far, SILENCE, &web(name, "stalled")).await;
    }
    for place in [source, far] {
        export(place, SILENCE, &member("member", "stalled", "no")).await;
    }
    let _controller = Controller::start(source, &[MEMBERS]);
    for cluster in CLUSTERS {
        is_well(source, cluster).await;
        let name = format!("{cluster}-{cluster}");
        slices_that(source, SILENCE, &name, |s| addresses(s) == ["192.0.2.50"]).await;
    }
    service(source, SILENCE, "withdrawn-stalled", |_| true).await;
    service(source, SILENCE, "member-federated", is_complete).await;
    let before = cluster_ips(source, SILENCE).await;
    let since = mark(source);
    let silent = timing::now();

    silence_is_noticed(source, &lines).await;
    everything_else_goes_on(source, far).await;
    mirrors_of_silent_clusters_stay(source, far, since, silent).await;
    only_changes_are_written_after_it(source, &lines).await;

    let after = cluster_ips(source, SILENCE).await;
    for (name, ip) in before
        .iter()
        .filter(|(name, _)| *name != "withdrawn-stalled")
    {
        assert_eq!(after.get(name), Some(ip), "{name}");
    }
    for cluster in CLUSTERS {
        in_step(source, cluster, &[MEMBERS]).await;
        unlink(source, cluster).await;
    }
    gone(source, SILENCE, "later-stalled").await;
}

async fn silence_is_noticed(source: &ControlPlane, lines: &Lines) {
    let fell_silent = Instant::now();
    lines.fall_silent();
    status_that(source, "endless", |status| {
        condition(status, "Connected").is_some_and(|c| c.message.contains("too large"))
    })
    .await;
    lines.endless.forward();
    for cluster in ["stalled", "held"] {
        let why = is_lost(source, cluster).await;
        let took = fell_silent.elapsed();
        eprintln!("{cluster}: noticed after {took:?}: {why}");
        assert!(took < NOTICED, "{cluster} was noticed after {took:?}");
    }
}

/// The controller still mirrors the cluster that works, and repairs edited mirrors. Members stay.
async fn everything_else_goes_on(source: &ControlPlane, far: &ControlPlane) {
    export(far, SILENCE, &web("meanwhile", "steady")).await;
    service(source, SILENCE, "meanwhile-steady", |_| true).await;
    let evil = json!({ "spec": { "selector": { "app": "evil" } } });
    patch(source, SILENCE, "changed-stalled", evil).await;
    service(source, SILENCE, "changed-stalled", |s| {
        s.spec.as_ref().unwrap().selector.is_none()
    })
    .await;
    service(source, SILENCE, "member-federated", is_complete).await;
}

/// The controller cannot see changes in a cluster that does not respond, and deletes none of its mirrors.
async fn mirrors_of_silent_clusters_stay(
    source: &ControlPlane,
    far: &ControlPlane,
    since: u64,
    silent: Timestamp,
) {
    export(far, SILENCE, &web("later", "stalled")).await;
    relabel(far, SILENCE, "withdrawn", None).await;
    let lost: LinkStatus = status_that(source, "stalled", |_| true).await;
    assert_eq!(lost.mirrored, Some(3), "{lost:#?}");
    let told = condition(&lost, "Connected")
        .unwrap()
        .last_transition_time
        .0;
    // Kubernetes stores whole seconds.
    assert!(told.as_second() >= silent.as_second(), "{told}");
    nothing_was_deleted(source, SILENCE, since);
}

async fn only_changes_are_written_after_it(source: &ControlPlane, lines: &Lines) {
    let outage = mark(source);
    let healed = Instant::now();
    lines.heal();
    service(source, SILENCE, "later-stalled", |_| true).await;
    gone(source, SILENCE, "withdrawn-stalled").await;
    let took = healed.elapsed();
    eprintln!("all right again {took:?} after the end of the silence");
    assert!(took < HEALED, "{took:?}");
    for cluster in ["stalled", "held", "endless"] {
        is_well(source, cluster).await;
    }
    eprintln!("and told after {:?}", healed.elapsed());
    let mut made = said_in(source, SILENCE, outage);
    made.retain(|said| !said.contains("later-stalled"));
    let slice = |said: &String| said.contains("withdrawn-stalled");
    assert!(made.iter().all(slice), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn mirroring_recovers_from_broken_and_slow_connections() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("broken-line", &[source, far]).await;
    let line = far.fault_proxy().unwrap();
    own_link(source, far, "line", &[&through(&line.url())]).await;
    // The list of these Services has more bytes than a connection below transfers before it is reset.
    for number in 0..8 {
        let mut fat = web(&format!("web-{number}"), "line");
        let annotations = fat.metadata.annotations.get_or_insert_default();
        annotations.insert("fat".into(), "x".repeat(2000));
        export(far, "broken-line", &fat).await;
    }
    let _controller = Controller::start(source, &[]);
    status_that(source, "line", |s| s.mirrored == Some(8)).await;
    let before = cluster_ips(source, "broken-line").await;
    let since = mark(source);
    let arrives = async |name: &str, limit: Duration| {
        let started = Instant::now();
        service(source, "broken-line", &format!("{name}-line"), |_| true).await;
        let took = started.elapsed();
        eprintln!("{name}: mirrored after {took:?}");
        assert!(took < limit, "{name}: {took:?}");
    };

    line.cut();
    export(far, "broken-line", &web("cut", "line")).await;
    arrives("cut", HEALED).await;

    line.set(Fault::Refuse);
    is_lost(source, "line").await;
    export(far, "broken-line", &web("refused", "line")).await;
    line.set(Fault::None);
    arrives("refused", HEALED).await;
    is_well(source, "line").await;

    line.set(Fault::Delay(Duration::from_millis(300)));
    export(far, "broken-line", &web("delayed", "line")).await;
    arrives("delayed", HEALED).await;
    line.set(Fault::Throttle(20_000));
    line.cut();
    export(far, "broken-line", &web("throttled", "line")).await;
    arrives("throttled", 3 * HEALED).await;

    // Lists fail again and again: existing mirrors stay.
    line.set(Fault::Refuse);
    is_lost(source, "line").await;
    line.set(Fault::ResetAfter(9000));
    status_that(source, "line", |status| {
        let why = condition(status, "Connected").map(|connected| &*connected.message);
        why.is_some_and(|why| why.contains("list") && !why.contains("refused"))
    })
    .await;
    export(far, "broken-line", &web("reset", "line")).await;
    line.set(Fault::None);
    arrives("reset", HEALED).await;
    is_well(source, "line").await;

    nothing_was_deleted(source, "broken-line", since);
    let after = cluster_ips(source, "broken-line").await;
    assert!(before.iter().all(|(name, ip)| after.get(name) == Some(ip)));
    in_step(source, "line", &[]).await;
    unlink(source, "line").await;
    gone(source, "broken-line", "reset-line").await;
}

/// The answer of Kubernetes to too many requests.
fn too_many(seconds: u32) -> Verdict {
    let headers = vec![
        ("content-type", "text/plain; charset=utf-8".to_owned()),
        ("retry-after", seconds.to_string()),
    ];
    Verdict::Answer(
        429,
        headers,
        "Too many requests, please try again later.\n".into(),
    )
}

/// Namespace of the Services of the cluster that refuses requests.
const REFUSALS: &str = "refusals";
/// The controller has to repeat this number of requests before the test checks that it logged the error only once.
const RETRIES: usize = 10;
/// The account whose token is revoked.
const EXPIRING: &str = "expiring";

/// A cluster whose API server refuses requests in several ways, one after the other.
struct Refusing<'a> {
    source: &'a ControlPlane,
    far: &'a ControlPlane,
    server: Interceptor,
    rounds: usize,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn refusing_target_is_asked_again_and_its_mirrors_stay() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(REFUSALS, &[source, far]).await;
    let server = far.intercept(None).unwrap();
    let account = format!("--service-account-name={EXPIRING}");
    let flags = [&*through(&server.url()), &account];
    let allowed = run(far.kubeconfig(), &["allow", &account]).data();
    far.apply(&allowed).await.unwrap();
    own_link(source, far, "refuses", &flags).await;
    export(far, REFUSALS, &web("web", "refuses")).await;
    let controller = Controller::start(source, &[]);
    is_well(source, "refuses").await;
    service(source, REFUSALS, "web-refuses", |_| true).await;
    let since = mark(source);

    let mut refusing = Refusing {
        source,
        far,
        server,
        rounds: 0,
    };
    refusing.a_short_break_is_no_news().await;
    refusing.too_many_requests_are_told().await;
    refusing.errors_are_told_once(&controller).await;
    refusing.what_is_too_old_is_listed_again().await;
    refusing.redirects_are_not_followed().await;
    refusing.a_revoked_token_is_refused(&allowed).await;
    own_link(source, far, "refuses", &flags).await;
    refusing.recovers("a new token").await;

    nothing_was_deleted(source, REFUSALS, since);
    in_step(source, "refuses", &[]).await;
    unlink(source, "refuses").await;
    gone(source, REFUSALS, "web-refuses").await;
}

impl Refusing<'_> {
    /// Stops refusing, and checks that a new Service is mirrored in time.
    async fn recovers(&mut self, what: &str) {
        self.rounds += 1;
        let name = format!("after-{}", self.rounds);
        let healed = Instant::now();
        self.server.forward();
        self.exported_is_mirrored(&name).await;
        let took = healed.elapsed();
        eprintln!("{what}: right again after {took:?}");
        assert!(took < HEALED, "{what}: {took:?}");
        is_well(self.source, "refuses").await;
    }

    async fn exported_is_mirrored(&self, name: &str) {
        export(self.far, REFUSALS, &web(name, "refuses")).await;
        let mirror = format!("{name}-refuses");
        service(self.source, REFUSALS, &mirror, |_| true).await;
    }

    async fn a_short_break_is_no_news(&mut self) {
        let calm = status_that(self.source, "refuses", |_| true).await;
        self.server.cut();
        self.recovers("cut").await;
        let now = status_that(self.source, "refuses", |_| true).await;
        assert_eq!(
            condition(&now, "Connected").unwrap().last_transition_time,
            condition(&calm, "Connected").unwrap().last_transition_time
        );
    }

    async fn too_many_requests_are_told(&mut self) {
        self.server.judge(|_| too_many(2));
        self.server.cut();
        let why = is_lost(self.source, "refuses").await;
        assert!(why.contains("too many"));
        self.recovers("too many requests").await;
    }

    /// The controller logs each error once, not at every retry.
    async fn errors_are_told_once(&mut self, controller: &Controller) {
        let refused = Arc::new(AtomicUsize::new(0));
        let count = refused.clone();
        self.server.judge(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            refusal(500, "InternalError")
        });
        self.server.cut();
        let why = is_lost(self.source, "refuses").await;
        assert!(why.contains("made up"));
        let told = || controller.log().matches("not connected").count();
        let (before, since) = (told(), mark(self.source));
        let retries = refused.load(Ordering::SeqCst) + RETRIES;
        eventually("retries", SOON, async || {
            Ok((refused.load(Ordering::SeqCst) >= retries).then_some(()))
        })
        .await
        .unwrap();
        assert!(told() <= before + 1, "{}", controller.log());
        assert!(writes(self.source, since).len() <= 1);
        self.recovers("errors").await;
    }

    /// The API server can report an outdated resource version as an event of a watch, or as its answer to a watch.
    async fn what_is_too_old_is_listed_again(&mut self) {
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
        let json = vec![("content-type", "application/json".to_owned())];
        let expired = Verdict::Answer(200, json, format!("{gone}\n"));
        for verdict in [expired, refusal(410, "Expired")] {
            self.server.judge(move |asked| {
                if asked.is_watch("services") {
                    verdict.clone()
                } else {
                    Verdict::Forward
                }
            });
            self.server.cut();
            let name = format!("listed-{}", mark(self.far));
            self.exported_is_mirrored(&name).await;
            self.recovers("too old").await;
        }
    }

    async fn redirects_are_not_followed(&mut self) {
        // The client trusts the certificate of this server, so it could follow the redirect.
        let elsewhere = format!("{}/evil", self.far.url());
        self.server.judge(move |_| {
            Verdict::Answer(302, vec![("location", elsewhere.clone())], String::new())
        });
        let since = mark(self.far);
        let is_asked = || {
            let audit = requests(self.far, since);
            audit.iter().any(|event| event.uri.contains("evil"))
        };
        self.server.cut();
        is_lost(self.source, "refuses").await;
        assert!(!is_asked());
        // A request that is made does appear in the audit log.
        let evil = self.far.kubectl(&["get", "--raw", "/evil"]).await;
        assert!(evil.is_err() && is_asked());
        self.recovers("redirects").await;
    }

    /// Revokes the token while a watch is open. Afterwards, creates the account again, with another token.
    async fn a_revoked_token_is_refused(&mut self, allowed: &str) {
        let far = self.far;
        far.kubectl(&["-n", NAMESPACE, "delete", "sa", EXPIRING])
            .await
            .unwrap();
        let secret = format!("{EXPIRING}-token");
        let get = ["-n", NAMESPACE, "get", "secret", &secret];
        eventually("the token to be revoked", SOON, async || {
            Ok(far.kubectl(&get).await.is_err().then_some(()))
        })
        .await
        .unwrap();
        // The API server caches for some seconds that the token was valid, and does not close open watches.
        let revoked = kubeconfig(self.source, "refuses").await;
        let client = client(Kubeconfig::from_yaml(&revoked).unwrap()).await;
        eventually("a refusal of the token", SOON, async || {
            Ok(client.apiserver_version().await.err())
        })
        .await
        .unwrap();
        self.server.cut();
        let status = status_that(self.source, "refuses", |status| {
            condition(status, "Ready").is_some_and(|ready| ready.status == "False")
        })
        .await;
        let refused = condition(&status, "Ready").unwrap();
        assert!(refused.message.contains("Unauthorized"), "{refused:?}");
        far.apply(allowed).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_as_long_as_the_local_api_server_says() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("refused-writes", &[source, far]).await;
    own_link(source, far, "refused", &[]).await;
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let _controller = Controller::start_through(source, &server.url(), &[]);
    is_well(source, "refused").await;

    for (verdict, least) in [
        (too_many(3), Duration::from_secs(3)),
        (refusal(500, "InternalError"), Duration::ZERO),
    ] {
        let tries = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = tries.clone();
        server.judge(move |asked| {
            let is_one = asked.is_write() && asked.uri.path().contains("/refused-writes/");
            let mut tries = seen.lock().unwrap();
            if is_one && tries.len() < 2 {
                tries.push(Instant::now());
                return verdict.clone();
            }
            Verdict::Forward
        });
        let name = format!("web-{}", least.as_secs());
        export(far, "refused-writes", &web(&name, "refused")).await;
        let mirror = format!("{name}-refused");
        slices_that(source, "refused-writes", &mirror, |s| {
            addresses(s) == ["192.0.2.50"]
        })
        .await;
        let tries = tries.lock().unwrap().clone();
        let [first, second] = tries[..] else {
            panic!("{tries:?}")
        };
        assert!(second - first >= least, "{:?}", second - first);
        // Waits for this deletion, so that no write is in progress when the next round begins.
        delete(far, "refused-writes", &name).await;
        gone(source, "refused-writes", &mirror).await;
    }
    in_step(source, "refused", &[]).await;
    unlink(source, "refused").await;
}
