//! Credentials of a Link: missing, malformed, rotated, of another cluster, of the wrong kind.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use control_plane::eventually;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{ResourceExt as _, api::DeleteParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, requests},
    credentials::{kubeconfig, put, secrets},
    installation::{link_gen, parsed},
    links::{
        condition, condition_is, condition_says, in_step, objects, own_link, status_that, unlink,
    },
    objects::{
        addresses, apply, delete, export, gone, namespace, service, services, slices_that, web,
    },
    planes::hub,
    program::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_link_waits_for_its_credentials() {
    let (east, west) = hub().await.pair();
    namespace("waiting", &[east, west]).await;
    export(east, "waiting", &web("web", "waits")).await;
    let printed = objects(east, "waits", &[]);
    apply(west, &printed[2..]).await;
    let missing = condition_is(west, "waits", "CredentialsValid", "False", "SecretMissing").await;
    assert!(
        missing.message.contains("cluster-credentials-waits"),
        "{}",
        missing.message
    );
    condition_is(west, "waits", "Ready", "False", "CredentialsInvalid").await;
    apply(west, &printed[..2]).await;
    condition_is(west, "waits", "Ready", "True", "Mirroring").await;
    service(west, "waiting", "web-waits", |_| true).await;
    in_step(west, "waits", &[]).await;
    unlink(west, "waits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_credentials_leave_the_old_connection_running() {
    let (east, west) = hub().await.pair();
    namespace("broken", &[east, west]).await;
    own_link(west, east, "broken", &[]).await;
    condition_is(west, "broken", "Ready", "True", "Mirroring").await;
    let good = kubeconfig(west, "broken").await;
    let still_mirrors = async |name: &str| {
        export(east, "broken", &web(name, "broken")).await;
        service(west, "broken", &format!("{name}-broken"), |_| true).await;
    };

    put(west, "broken", Some("no kubeconfig: s3cret")).await;
    let broken = condition_is(
        west,
        "broken",
        "CredentialsValid",
        "False",
        "CredentialsUnusable",
    )
    .await;
    assert!(!broken.message.contains("s3cret"), "{}", broken.message);
    condition_is(west, "broken", "Connected", "True", "Connected").await;
    still_mirrors("malformed").await;
    put(west, "broken", Some(&good)).await;
    condition_is(west, "broken", "CredentialsValid", "True", "Valid").await;

    put(west, "broken", None).await;
    condition_is(
        west,
        "broken",
        "CredentialsValid",
        "False",
        "SecretMalformed",
    )
    .await;
    still_mirrors("empty").await;

    // A token that the target cluster does not accept.
    let token = good.lines().find(|line| line.contains("token:")).unwrap();
    let indent = &token[..token.len() - token.trim_start().len()];
    put(
        west,
        "broken",
        Some(&good.replace(token, &format!("{indent}token: s3cret"))),
    )
    .await;
    condition_says(
        west,
        "broken",
        "CredentialsValid",
        ("False", "CredentialsFail"),
        "Unauthorized",
    )
    .await;
    still_mirrors("refused").await;

    let secret = secrets(west)
        .get("cluster-credentials-broken")
        .await
        .unwrap();
    secrets(west)
        .delete(&secret.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    condition_is(west, "broken", "CredentialsValid", "False", "SecretMissing").await;
    still_mirrors("gone").await;
    apply(west, &objects(east, "broken", &[])[..1]).await;
    condition_is(west, "broken", "Ready", "True", "Mirroring").await;
    condition_is(west, "broken", "CredentialsValid", "True", "Valid").await;
    in_step(west, "broken", &[]).await;
    unlink(west, "broken").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_credentials_are_used_and_mirrors_are_not_written() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    let expiry = r#"linkerd_mc_credentials_expiry_timestamp_seconds{link="rotated"}"#;
    namespace("rotated", &[east, west]).await;
    own_link(west, east, "rotated", &["--token-duration=never"]).await;
    export(east, "rotated", &web("web", "rotated")).await;
    let before = service(west, "rotated", "web-rotated", |_| true).await;
    // This token never expires.
    hub.controller.metric_is(expiry, |at| at.is_none()).await;

    let allow = run(
        east.kubeconfig(),
        &["allow", "--service-account-name", "rotated"],
    )
    .data();
    east.apply(&allow).await.unwrap();
    let flags = ["--service-account-name=rotated", "--token-duration=24h"];
    let since = mark(east);
    own_link(west, east, "rotated", &flags).await;
    eventually("watches with the new credentials", SOON, async || {
        let watches = requests(east, since).into_iter().filter(|event| {
            event.user == "system:serviceaccount:linkerd-multicluster:rotated"
                && event.verb == "watch"
        });
        let seen: std::collections::BTreeSet<_> = watches.map(|event| event.resource).collect();
        Ok((seen.contains("services") && seen.contains("endpointslices")).then_some(()))
    })
    .await
    .unwrap();
    condition_is(west, "rotated", "Ready", "True", "Mirroring").await;
    let day = 24.0 * 3600.0;
    let tomorrow = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() + day;
    hub.controller
        .metric_is(expiry, |at| {
            at.is_some_and(|at| (at - tomorrow).abs() < 600.0)
        })
        .await;
    export(east, "rotated", &web("more", "rotated")).await;
    service(west, "rotated", "more-rotated", |_| true).await;
    let after = services(west, "rotated").get("web-rotated").await.unwrap();
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
    in_step(west, "rotated", &[]).await;
    unlink(west, "rotated").await;
}

/// Condition for a token that expires soon, or has expired.
const EXPIRING: &str = "CredentialsExpiring";

#[tokio::test(flavor = "multi_thread")]
async fn link_says_when_its_token_is_about_to_expire() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    let metric = r#"linkerd_mc_credentials_expiry_timestamp_seconds{link="ending"}"#;
    let allow = ["allow", "--service-account-name", "ending"];
    let allow = run(east.kubeconfig(), &allow).data();
    east.apply(&allow).await.unwrap();
    let flags = ["--service-account-name=ending", "--token-duration=24h"];
    own_link(west, east, "ending", &flags).await;
    condition_is(west, "ending", "Ready", "True", "Mirroring").await;
    let told = condition_is(west, "ending", EXPIRING, "True", "ExpiresSoon").await;
    let at: Option<f64> = hub.controller.metric(metric).await.unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number")]
    let at = Timestamp::from_second(at.unwrap() as i64).unwrap();
    let expected = format!(
        "the token expires on {}; renew it with `linkerd-mc rotate ending`",
        at.strftime("%Y-%m-%d %H:%M UTC")
    );
    assert!(told.message.starts_with(&expected), "{}", told.message);

    // The new token never expires.
    let never = ["--service-account-name=ending", "--token-duration=never"];
    own_link(west, east, "ending", &never).await;
    status_that(west, "ending", |s| condition(s, EXPIRING).is_none()).await;
    hub.controller.metric_is(metric, |at| at.is_none()).await;
    condition_is(west, "ending", "Ready", "True", "Mirroring").await;
    in_step(west, "ending", &[]).await;
    unlink(west, "ending").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn link_says_when_its_token_has_expired_also_if_it_never_worked() {
    let (east, west) = hub().await.pair();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let end = Timestamp::from_second(i64::try_from(now).unwrap() + 10).unwrap();
    let claims = json!({ "exp": end.as_second() }).to_string();
    let token = format!("e30.{}.none", BASE64_URL_SAFE_NO_PAD.encode(claims));
    let mut printed = objects(east, "ended", &[]);
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: '{}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: a, user: {{token: '{token}'}}}}]\n",
        east.url()
    );
    printed[0]["data"] = json!({ l::KUBECONFIG_KEY: ByteString(kubeconfig.into()) });
    apply(west, &printed).await;
    let told = condition_is(west, "ended", EXPIRING, "True", "Expired").await;
    assert!(
        told.message.starts_with("the token expired on "),
        "{}",
        told.message
    );
    // The condition was set before the token expired.
    assert!(told.last_transition_time.0 < end, "{told:?}");
    condition_is(west, "ended", "Connected", "False", "Unauthorized").await;
    unlink(west, "ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_credentials_lead_to_another_cluster_the_mirrors_follow() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("moved", &[east, north, west]).await;
    export(east, "moved", &web("only-east", "moved")).await;
    export(north, "moved", &web("only-north", "moved")).await;
    own_link(west, east, "moved", &[]).await;
    service(west, "moved", "only-east-moved", |_| true).await;
    // First only the Secrets, then the Link.
    let printed = objects(north, "moved", &[]);
    apply(west, &printed[..2]).await;
    gone(west, "moved", "only-east-moved").await;
    service(west, "moved", "only-north-moved", |_| true).await;
    apply(west, &printed[2..]).await;
    slices_that(west, "moved", "only-north-moved", |s| {
        addresses(s) == ["192.0.2.30"]
    })
    .await;
    delete(north, "moved", "only-north").await;
    gone(west, "moved", "only-north-moved").await;
    in_step(west, "moved", &[]).await;
    unlink(west, "moved").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_would_run_a_command_are_refused() {
    let (east, west) = hub().await.pair();
    let proof = west.folder().join("ran");
    let mut printed = parsed(&link_gen(east, "exec", &["--output=json"]));
    let exec = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: '{}'}}}}]\n\
         users: [{{name: a, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['{}'], interactiveMode: Never}}}}}}]\n",
        east.url(),
        proof.display()
    );
    printed[0]["data"] = json!({ l::KUBECONFIG_KEY: ByteString(exec.into()) });
    apply(west, &printed).await;
    let refused = condition_is(
        west,
        "exec",
        "CredentialsValid",
        "False",
        "CredentialsUnusable",
    )
    .await;
    assert!(
        refused.message.contains("exec plugin"),
        "{}",
        refused.message
    );
    assert!(!proof.exists());
    unlink(west, "exec").await;
}
