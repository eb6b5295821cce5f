//! Labels and annotations by which a target cluster could control other tools of the source cluster.

use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    links::{annotate, condition_is, in_step, own_link, unlink},
    objects::{annotation, export, gone, label, namespace, service, web},
    planes::hub,
};

const DNS: &str = "external-dns.alpha.kubernetes.io/hostname";
const ARGO: &str = "argocd.argoproj.io/instance";
const INSTANCE: &str = "app.kubernetes.io/instance";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn metadata_for_other_tools_is_copied_only_if_the_link_allows_it() {
    let (east, west) = hub().await.pair();
    namespace("tools", &[east, west]).await;
    own_link(west, east, "tools", &[]).await;
    let mut made = web("web", "tools");
    let labels = made.metadata.labels.get_or_insert_default();
    labels.insert(ARGO.to_owned(), "shop".to_owned());
    labels.insert(INSTANCE.to_owned(), "shop".to_owned());
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(DNS.to_owned(), "shop.example".to_owned());
    annotations.insert("retry.linkerd.io/http".to_owned(), "5xx".to_owned());
    export(east, "tools", &made).await;

    let mirror = service(west, "tools", "web-tools", |_| true).await;
    assert_eq!(label(&mirror, ARGO), None);
    assert_eq!(label(&mirror, INSTANCE), None);
    assert_eq!(annotation(&mirror, DNS), None);
    assert_eq!(annotation(&mirror, "retry.linkerd.io/http"), Some("5xx"));

    let allow = async |labels: Option<&str>, annotations: Option<&str>| {
        let rules = json!({ l::COPIED_LABELS: labels, l::COPIED_ANNOTATIONS: annotations });
        annotate(west, "tools", rules).await;
    };
    allow(Some("argocd.argoproj.io/*"), Some(DNS)).await;
    let allowed = service(west, "tools", "web-tools", |s| annotation(s, DNS).is_some()).await;
    assert_eq!(annotation(&allowed, DNS), Some("shop.example"));
    assert_eq!(label(&allowed, ARGO), Some("shop"));
    assert_eq!(label(&allowed, INSTANCE), None);

    allow(Some("argocd.argoproj.io/*"), None).await;
    let fewer = service(west, "tools", "web-tools", |s| annotation(s, DNS).is_none()).await;
    assert_eq!(label(&fewer, ARGO), Some("shop"));

    annotate(west, "tools", json!({ l::COPY: "listed" })).await;
    let retry = "retry.linkerd.io/http";
    let listed = service(west, "tools", "web-tools", |s| {
        annotation(s, retry).is_none()
    });
    assert_eq!(label(&listed.await, ARGO), Some("shop"));
    annotate(west, "tools", json!({ l::COPY: null })).await;
    service(west, "tools", "web-tools", |s| {
        annotation(s, retry).is_some()
    })
    .await;

    allow(Some("mirror.linkerd.io/*"), None).await;
    let invalid = condition_is(west, "tools", "Ready", "False", "InvalidLink").await;
    assert!(
        invalid.message.contains(l::COPIED_LABELS),
        "{}",
        invalid.message
    );

    allow(None, None).await;
    condition_is(west, "tools", "Ready", "True", "Mirroring").await;
    service(west, "tools", "web-tools", |s| label(s, ARGO).is_none()).await;
    in_step(west, "tools", &[]).await;
    unlink(west, "tools").await;
    gone(west, "tools", "web-tools").await;
}
