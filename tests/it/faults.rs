//! Networks and API servers that fail, between the controller and what it works with: nothing that lives is taken away,
//! everything else goes on, and all is right within seconds of the end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_plane::{AuditEvent, ControlPlane, Fault, Verdict, eventually};
use kube::api::ListParams;
use linkerd_mc::api::{labels as l, link::LinkStatus};

use crate::{
    fleet::{CONTROLLER, CONTROLLER_GROUPS, Controller, SOON, namespace},
    gateways::Gateways,
    hub::faulty,
    links::{condition, condition_is, in_step, own_link, status_that, unlink},
    objects::{
        addresses, annotation, cluster_ip, delete, export, gone, patch, relabel, service, services,
        slices_that, web,
    },
    program::run,
};

/// How soon after a fault has gone all has to be right.
const HEALED: Duration = Duration::from_secs(10);
/// How soon a cluster that fell silent has to be known to have.
const NOTICED: Duration = Duration::from_secs(45);

/// A flag of `link-gen`.
pub(crate) fn through(url: &str) -> String {
    format!("--api-server-address={url}")
}

/// What the controller wrote in a namespace since the audit log had this length.
fn writes(plane: &ControlPlane, namespace: &str, since: usize) -> Vec<AuditEvent> {
    let mut audit = plane.audit().unwrap().split_off(since);
    audit.retain(|event| {
        event.user == CONTROLLER && event.is_write() && event.namespace == namespace
    });
    audit
}

/// The same, as a person reads it.
pub(crate) fn said(plane: &ControlPlane, namespace: &str, since: usize) -> Vec<String> {
    let writes = writes(plane, namespace, since);
    let say = |write: &AuditEvent| format!("{} {}", write.verb, write.name);
    writes.iter().map(say).collect()
}

/// The `ClusterIP`s of all Services of a namespace.
pub(crate) async fn ips(plane: &ControlPlane, namespace: &str) -> BTreeMap<String, String> {
    let all = services(plane, namespace)
        .list(&ListParams::default())
        .await;
    let all = all.unwrap().items;
    all.iter()
        .map(|service| {
            let name = service.metadata.name.clone().unwrap();
            (name, cluster_ip(service).to_owned())
        })
        .collect()
}

pub(crate) async fn is_lost(plane: &ControlPlane, link: &str) -> String {
    condition_is(plane, link, "Connected", "False", "Unreachable")
        .await
        .message
}

pub(crate) async fn is_well(plane: &ControlPlane, link: &str) {
    condition_is(plane, link, "Ready", "True", "Mirroring").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_fall_silent_are_noticed_and_everything_else_goes_on() {
    let pair = faulty().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("silence", &[source, far]).await;
    let stalled = far.fault_proxy().unwrap();
    // These two answer pings; what stands behind them does not answer, or never ends.
    let (held, endless) = (far.intercept(None).unwrap(), far.intercept(None).unwrap());
    own_link(source, far, "stalled", &[&through(&stalled.url())]).await;
    own_link(source, far, "held", &[&through(&held.url())]).await;
    own_link(source, far, "endless", &[&through(&endless.url())]).await;
    own_link(source, far, "steady", &[]).await;
    for cluster in ["stalled", "held", "endless", "steady"] {
        export(far, "silence", &web(cluster, cluster)).await;
    }
    for name in ["withdrawn", "changed"] {
        export(far, "silence", &web(name, "stalled")).await;
    }
    for place in [source, far] {
        let mut member = web("member", "no");
        let labels = member.metadata.labels.get_or_insert_default();
        labels.insert(l::FEDERATED.into(), "stalled".into());
        export(place, "silence", &member).await;
    }
    let flag = "--federated-service-selector=mirror.linkerd.io/federated=stalled";
    let controller = Controller::start(source, &[flag]);
    for cluster in ["stalled", "held", "endless", "steady"] {
        is_well(source, cluster).await;
        let name = format!("{cluster}-{cluster}");
        slices_that(source, "silence", &name, |s| addresses(s) == ["192.0.2.50"]).await;
    }
    service(source, "silence", "withdrawn-stalled", |_| true).await;
    let members = |s: &k8s_openapi::api::core::v1::Service| {
        annotation(s, l::REMOTE_DISCOVERY) == Some("member@stalled")
            && annotation(s, l::LOCAL_DISCOVERY) == Some("member")
    };
    service(source, "silence", "member-federated", members).await;
    let before = ips(source, "silence").await;
    let since = source.audit().unwrap().len();

    let fell_silent = Instant::now();
    stalled.set(Fault::Stall);
    held.judge(|_| Verdict::Hold);
    held.cut();
    endless.judge(|asked| {
        if asked.is_list("services") {
            Verdict::Endless
        } else if asked.is_watch("services") {
            refusal(410, "Expired")
        } else {
            Verdict::Forward
        }
    });
    endless.cut();
    status_that(source, "endless", |status| {
        condition(status, "Connected").is_some_and(|c| c.message.contains("too large"))
    })
    .await;
    endless.forward();
    for cluster in ["stalled", "held"] {
        let why = is_lost(source, cluster).await;
        let took = fell_silent.elapsed();
        eprintln!("{cluster}: noticed after {took:?}: {why}");
        assert!(took < NOTICED, "{cluster} was noticed after {took:?}");
    }
    // Meanwhile the other cluster is mirrored, what people break is repaired, and members stay.
    export(far, "silence", &web("meanwhile", "steady")).await;
    service(source, "silence", "meanwhile-steady", |_| true).await;
    patch(
        source,
        "silence",
        "changed-stalled",
        serde_json::json!({ "spec": { "selector": { "app": "evil" } } }),
    )
    .await;
    service(source, "silence", "changed-stalled", |s| {
        s.spec.as_ref().unwrap().selector.is_none()
    })
    .await;
    service(source, "silence", "member-federated", members).await;
    // What changes there cannot be known here.
    export(far, "silence", &web("later", "stalled")).await;
    relabel(far, "silence", "withdrawn", None).await;
    let lost: LinkStatus = status_that(source, "stalled", |_| true).await;
    assert_eq!(lost.mirrored, Some(3), "{lost:#?}");
    let told = condition(&lost, "Connected")
        .unwrap()
        .last_transition_time
        .0;
    assert!(told > k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let deleted = said(source, "silence", since);
    assert!(
        !deleted.iter().any(|said| said.starts_with("delete")),
        "{deleted:?}"
    );

    let outage = source.audit().unwrap().len();
    let healed = Instant::now();
    stalled.set(Fault::None);
    held.forward();
    held.cut();
    service(source, "silence", "later-stalled", |_| true).await;
    gone(source, "silence", "withdrawn-stalled").await;
    let took = healed.elapsed();
    eprintln!("all right again {took:?} after the end of the silence");
    assert!(took < HEALED, "{took:?}");
    for cluster in ["stalled", "held", "endless"] {
        is_well(source, cluster).await;
    }
    eprintln!("and told after {:?}", healed.elapsed());
    // No more than what had changed.
    let mut made = said(source, "silence", outage);
    made.retain(|said| !said.contains("later-stalled"));
    let slice = |said: &String| said.contains("withdrawn-stalled");
    assert!(made.iter().all(slice), "{made:?}");
    let after = ips(source, "silence").await;
    for (name, ip) in before
        .iter()
        .filter(|(name, _)| *name != "withdrawn-stalled")
    {
        assert_eq!(after.get(name), Some(ip), "{name}");
    }
    for cluster in ["stalled", "held", "endless", "steady"] {
        in_step(source, cluster, &[flag]).await;
        unlink(source, cluster).await;
    }
    gone(source, "silence", "later-stalled").await;
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_or_crawl_are_made_up_for() {
    let pair = faulty().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("broken-line", &[source, far]).await;
    let line = far.fault_proxy().unwrap();
    own_link(source, far, "line", &[&through(&line.url())]).await;
    // A list that is longer than the resets below allow.
    for number in 0..8 {
        let mut fat = web(&format!("web-{number}"), "line");
        let annotations = fat.metadata.annotations.get_or_insert_default();
        annotations.insert("fat".into(), "x".repeat(2000));
        export(far, "broken-line", &fat).await;
    }
    let _controller = Controller::start(source, &[]);
    status_that(source, "line", |s| s.mirrored == Some(8)).await;
    let before = ips(source, "broken-line").await;
    let since = source.audit().unwrap().len();
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

    // Lists break off, again and again: what was known stays.
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

    let deleted = said(source, "broken-line", since);
    assert!(
        !deleted.iter().any(|said| said.starts_with("delete")),
        "{deleted:?}"
    );
    let after = ips(source, "broken-line").await;
    assert!(before.iter().all(|(name, ip)| after.get(name) == Some(ip)));
    in_step(source, "line", &[]).await;
    unlink(source, "line").await;
    gone(source, "broken-line", "reset-line").await;
}

/// A refusal as Kubernetes words it.
pub(crate) fn refusal(code: u16, reason: &str) -> Verdict {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("made up: {reason}"), "reason": reason, "code": code,
    });
    let headers = vec![("content-type", "application/json".to_owned())];
    Verdict::Answer(code, headers, status.to_string())
}

/// What Kubernetes answers when too much is asked of it at once.
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

#[tokio::test(flavor = "multi_thread")]
async fn target_clusters_that_refuse_are_asked_again_and_what_was_known_stays() {
    let pair = faulty().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("refusals", &[source, far]).await;
    let server = far.intercept(None).unwrap();
    let flags = [&*through(&server.url()), "--service-account-name=expiring"];
    let allow = ["allow", "--service-account-name", "expiring"];
    let allowed = run(far.kubeconfig(), &allow).data();
    far.kubectl_stdin(&["apply", "-f", "-"], &allowed)
        .await
        .unwrap();
    own_link(source, far, "refuses", &flags).await;
    export(far, "refusals", &web("web", "refuses")).await;
    let controller = Controller::start(source, &[]);
    is_well(source, "refuses").await;
    service(source, "refusals", "web-refuses", |_| true).await;
    let since = source.audit().unwrap().len();

    let mut round = 0;
    let mut goes_on = async |what: &str| {
        round += 1;
        let name = format!("after-{round}");
        let healed = Instant::now();
        server.forward();
        export(far, "refusals", &web(&name, "refuses")).await;
        service(source, "refusals", &format!("{name}-refuses"), |_| true).await;
        let took = healed.elapsed();
        eprintln!("{what}: right again after {took:?}");
        assert!(took < HEALED, "{what}: {took:?}");
        is_well(source, "refuses").await;
    };

    // A connection that is had again at once is no news.
    let calm = status_that(source, "refuses", |_| true).await;
    server.cut();
    goes_on("cut").await;
    let now = status_that(source, "refuses", |_| true).await;
    assert_eq!(
        condition(&now, "Connected").unwrap().last_transition_time,
        condition(&calm, "Connected").unwrap().last_transition_time
    );

    server.judge(|_| too_many(2));
    server.cut();
    assert!(is_lost(source, "refuses").await.contains("too many"));
    goes_on("too many requests").await;

    server.judge(|_| refusal(500, "InternalError"));
    server.cut();
    assert!(is_lost(source, "refuses").await.contains("made up"));
    // It is told once, not once a try.
    let told = || controller.log().matches("not connected").count();
    let (before, written) = (told(), source.audit().unwrap().len());
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(told() <= before + 1, "{}", controller.log());
    let audit = source.audit().unwrap().split_off(written);
    let statuses = audit
        .iter()
        .filter(|event| event.user == CONTROLLER && event.is_write());
    assert!(statuses.count() <= 1);
    goes_on("errors").await;

    // Too old to go on from: said in a watch, and said instead of one.
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
    let json = vec![("content-type", "application/json".to_owned())];
    let expired = Verdict::Answer(200, json, format!("{gone}\n"));
    for verdict in [expired, refusal(410, "Expired")] {
        server.judge(move |asked| {
            if asked.is_watch("services") {
                verdict.clone()
            } else {
                Verdict::Forward
            }
        });
        server.cut();
        // It is seen by listing again.
        let name = format!("listed-{}", far.audit().unwrap().len());
        export(far, "refusals", &web(&name, "refuses")).await;
        service(source, "refusals", &format!("{name}-refuses"), |_| true).await;
        goes_on("too old").await;
    }

    // A redirect is no answer, and is not followed.
    let elsewhere = format!("{}/evil", source.url());
    server
        .judge(move |_| Verdict::Answer(302, vec![("location", elsewhere.clone())], String::new()));
    let asked = source.audit().unwrap().len();
    server.cut();
    is_lost(source, "refuses").await;
    let audit = source.audit().unwrap().split_off(asked);
    assert!(!audit.iter().any(|event| event.uri.contains("evil")));
    goes_on("redirects").await;

    // A token that expires, or is revoked, under a running watch.
    far.kubectl(&["-n", crate::fleet::NAMESPACE, "delete", "sa", "expiring"])
        .await
        .unwrap();
    let secret = "expiring-token";
    eventually("the token to be revoked", SOON, async || {
        let args = ["-n", crate::fleet::NAMESPACE, "get", "secret", secret];
        Ok(far.kubectl(&args).await.is_err().then_some(()))
    })
    .await
    .unwrap();
    // The API server may remember for some seconds that it was good, and lets running watches run.
    let refused = eventually("a refusal", SOON, async || {
        server.cut();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let status = status_that(source, "refuses", |_| true).await;
        let ready = condition(&status, "Ready").cloned();
        Ok(ready.filter(|ready| ready.status == "False"))
    });
    let refused = refused.await.unwrap();
    assert!(refused.message.contains("Unauthorized"), "{refused:?}");
    far.kubectl_stdin(&["apply", "-f", "-"], &allowed)
        .await
        .unwrap();
    eventually("a new token", SOON, async || {
        let path = "jsonpath={.data.token}";
        let args = [
            "-n",
            crate::fleet::NAMESPACE,
            "get",
            "secret",
            secret,
            "-o",
            path,
        ];
        Ok((!far.kubectl(&args).await?.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    own_link(source, far, "refuses", &flags).await;
    goes_on("a new token").await;

    let done = said(source, "refusals", since);
    assert!(
        !done.iter().any(|said| said.starts_with("delete")),
        "{done:?}"
    );
    in_step(source, "refuses", &[]).await;
    unlink(source, "refuses").await;
    crate::objects::gone(source, "refusals", "web-refuses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_api_server_that_refuses_writes_is_left_alone_for_as_long_as_it_says() {
    let pair = faulty().await;
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
        let tries = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
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
        // Something to do, so that the next round begins with nothing under way.
        delete(far, "refused-writes", &name).await;
        gone(source, "refused-writes", &mirror).await;
    }
    in_step(source, "refused", &[]).await;
    unlink(source, "refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_servers_may_die_and_come_back() {
    let pair = faulty().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("deaths", &[source, far]).await;
    own_link(source, far, "dies", &["--enable-headless-services"]).await;
    export(far, "deaths", &web("web", "dies")).await;
    crate::headless::stateful(far, "deaths", "db", "dies").await;
    crate::headless::hosts(far, "deaths", "db", &[("db-0", true)]).await;
    for place in [source, far] {
        let mut member = web("member", "no");
        let labels = member.metadata.labels.get_or_insert_default();
        labels.insert(l::FEDERATED.into(), "dies".into());
        export(place, "deaths", &member).await;
    }
    // The gateway lives all the time: what is written is not its doing.
    let gateways = Gateways::start().address();
    let flag = "--federated-service-selector=mirror.linkerd.io/federated=dies";
    let flags = [flag, "--probe-address", &gateways];
    let mut controller = Controller::start(source, &flags);
    is_well(source, "dies").await;
    service(source, "deaths", "db-0-dies", |_| true).await;
    let members = |s: &k8s_openapi::api::core::v1::Service| {
        annotation(s, l::REMOTE_DISCOVERY) == Some("member@dies")
            && annotation(s, l::LOCAL_DISCOVERY) == Some("member")
    };
    service(source, "deaths", "member-federated", members).await;
    let before = ips(source, "deaths").await;

    let since = source.audit().unwrap().len();
    far.kill_api_server().unwrap();
    is_lost(source, "dies").await;
    // The local member, and the Service that others ask for, go on.
    let ports = serde_json::json!({ "spec": { "ports": [{ "name": "http", "port": 8081 }] } });
    patch(source, "deaths", "member", ports).await;
    let federated = service(source, "deaths", "member-federated", |s| {
        crate::objects::ports(s) == [("http", 8081)]
    })
    .await;
    assert!(members(&federated));
    // Also a controller that starts now takes nothing away.
    controller.kill();
    let _controller = Controller::start(source, &flags);
    is_lost(source, "dies").await;
    let healed = Instant::now();
    far.restart_api_server().await.unwrap();
    is_well(source, "dies").await;
    eprintln!(
        "the target's API server: right again {:?} after its start began",
        healed.elapsed()
    );
    assert_eq!(said(source, "deaths", since), ["patch member-federated"]);

    let since = source.audit().unwrap().len();
    source.kill_api_server().unwrap();
    export(far, "deaths", &web("meanwhile", "dies")).await;
    crate::headless::hosts(far, "deaths", "db", &[("db-0", true), ("db-1", true)]).await;
    source.restart_api_server().await.unwrap();
    let healed = Instant::now();
    for name in ["meanwhile-dies", "db-1-dies"] {
        slices_that(source, "deaths", name, |s| addresses(s) == ["192.0.2.50"]).await;
    }
    let took = healed.elapsed();
    eprintln!("the local API server: right again after {took:?}");
    assert!(took < HEALED, "{took:?}");
    // Slices follow the gateway too, which nobody answers for here.
    let mut done = writes(source, "deaths", since);
    done.retain(|write| write.resource == "services" && write.verb != "create");
    assert_eq!(done, []);
    let after = ips(source, "deaths").await;
    for (name, ip) in &before {
        assert_eq!(after.get(name), Some(ip), "{name}");
    }
    in_step(source, "dies", &[flag]).await;
    unlink(source, "dies").await;
    gone(source, "deaths", "web-dies").await;
}
