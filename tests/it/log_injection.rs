//! Messages of a target cluster are reported as one short line.

use control_plane::Verdict;
use serde_json::json;

use crate::support::{
    controller::Controller,
    faults::through,
    links::{is_lost, is_well, own_link, unlink},
    objects::{export, namespace, service, web},
    planes::alone,
    program::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_target_cluster_are_one_short_line_without_control_characters() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("words", &[source, far]).await;
    let remote = far.intercept(None).unwrap();
    own_link(source, far, "words", &[&through(&remote.url())]).await;
    export(far, "words", &web("web", "words")).await;
    let controller = Controller::start(source, &[]);
    service(source, "words", "web-words", |_| true).await;
    is_well(source, "words").await;

    let forged = "2026-01-01T00:00:00Z ERROR forged";
    let said = format!(
        "no\n{forged}\r\n\u{1b}[31mred\u{1b}[0m\u{202e}\n{}",
        "x".repeat(100 << 10)
    );
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": said, "reason": "Forbidden", "code": 403,
    })
    .to_string();
    remote.judge(move |asked| {
        if asked.uri.path().ends_with("/version") {
            return Verdict::Forward;
        }
        let headers = vec![("content-type", "application/json".to_owned())];
        Verdict::Answer(403, headers, status.clone())
    });
    remote.cut();

    let bad = |c: char| c.is_control() || c == '\u{202e}';
    let message = is_lost(source, "words").await;
    assert!(message.contains(forged), "{message}");
    assert!(message.chars().count() <= 500, "{}", message.len());
    assert!(
        message.ends_with('…') && !message.contains(bad),
        "{message:?}"
    );

    let log = controller.log();
    assert!(log.contains(forged), "{log}");
    for line in log.lines() {
        assert!(!line.starts_with(forged) && !line.contains(bad), "{line:?}");
        assert!(line.chars().count() <= 1_000, "{} characters", line.len());
    }

    let told = run(source.kubeconfig(), &["status"]);
    assert!(told.stdout.contains(forged), "{}", told.stdout);
    for text in [&told.stdout, &told.stderr] {
        assert!(!text.lines().any(|line| line.starts_with(forged)), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    remote.forward();
    is_well(source, "words").await;
    unlink(source, "words").await;
}
