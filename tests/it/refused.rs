//! An admission webhook of the source cluster that refuses some mirrors, with codes that mean something else when the API
//! server itself answers with them, or that does not answer at all. Others do not wait.

use std::time::{Duration, Instant};

use control_plane::{Asked, Verdict, eventually};
use linkerd_mc::api::link::LinkStatus;
use serde_json::json;

use crate::support::{
    controller::Controller,
    links::{condition_is, links, own_link, status_that, unlink},
    objects::{export, namespace, patch, ports, service, web},
    planes::alone,
};

/// Namespace, cluster and export label.
const NAME: &str = "refused";
/// The refusals, and what the status says about each.
const KINDS: [(&str, &str); 3] = [
    ("code-404", "no such team"),
    ("code-409", "taken by another team"),
    ("silence", "context deadline exceeded"),
];
/// Number of Services that are refused in each way.
const EACH: usize = 10;
/// How long a change of a mirror that stands may take. Mirrors of one Service change twice a second at most.
const SOON_ENOUGH: Duration = Duration::from_secs(2);

/// How long after the end of the refusals all are mirrored: each is tried at least once a minute, and the status follows.
const HEALED: Duration = Duration::from_secs(75);

fn judge(asked: &Asked) -> Verdict {
    match asked.uri.path() {
        "/code-404" => Verdict::Refuse(404, "no such team"),
        "/code-409" => Verdict::Refuse(409, "taken by another team"),
        _ => Verdict::Hold,
    }
}

/// Whether the status names each refused Service, with the words of the webhook or of the API server.
fn names_all(status: &LinkStatus) -> bool {
    let said = |name: &str, words: &str| {
        let mut services = status.mirror_services.iter();
        let found = services.find(|service| service.remote_ref.name == name);
        let mut conditions = found.into_iter().flat_map(|service| &service.conditions);
        conditions.any(|condition| condition.message.contains(words))
    };
    let named =
        |(kind, words): &(&str, &str)| (0..EACH).all(|n| said(&format!("{kind}-{n}"), words));
    KINDS.iter().all(named)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn services_that_a_webhook_refuses_delay_no_change_of_others_and_are_named() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(NAME, &[source, far]).await;
    own_link(source, far, NAME, &[]).await;
    let kinds = KINDS.map(|(kind, _)| kind);
    let webhook = source.admission_webhook(NAME, &kinds).await.unwrap();
    webhook.judge(judge);
    // The allowance of the cluster is large enough, so that only the refusals could delay anything.
    let flags = ["--max-in-flight-writes=512", "--max-writes-per-link=500"];
    let _controller = Controller::start(source, &flags);
    export(far, NAME, &web("stands", NAME)).await;
    service(source, NAME, "stands-refused", |_| true).await;
    for (kind, _) in KINDS {
        for number in 0..EACH {
            let mut made = web(&format!("{kind}-{number}"), NAME);
            let labels = made.metadata.labels.get_or_insert_default();
            labels.insert("refused".into(), kind.into());
            export(far, NAME, &made).await;
        }
    }
    let mut longest = Duration::ZERO;
    for port in 1000..1030 {
        let change = json!({ "spec": { "ports": [{ "name": "http", "port": port }] } });
        let began = Instant::now();
        patch(far, NAME, "stands", change).await;
        service(source, NAME, "stands-refused", |mirror| {
            ports(mirror).iter().any(|(_, number)| *number == port)
        })
        .await;
        longest = longest.max(began.elapsed());
    }
    println!("a change of a mirror took at most {longest:?}");
    assert!(longest < SOON_ENOUGH, "{longest:?}");
    status_that(source, NAME, names_all).await;
    condition_is(source, NAME, "Ready", "True", "Mirroring").await;

    // Nobody has to help when the webhook allows them.
    webhook.judge(|_| Verdict::Allow);
    let all = i64::try_from(KINDS.len() * EACH + 1).ok();
    let began = Instant::now();
    eventually("all to be mirrored", HEALED, async || {
        let status = links(source).get(NAME).await?.status.unwrap_or_default();
        Ok((status.mirrored == all).then_some(()))
    })
    .await
    .unwrap();
    println!(
        "all were mirrored {:?} after the webhook allowed them",
        began.elapsed()
    );
    unlink(source, NAME).await;
}
