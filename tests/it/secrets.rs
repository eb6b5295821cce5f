//! Credentials appear only in their Secrets. No log, message, status, Event or metric contains them, not even after
//! errors.

use control_plane::{ControlPlane, eventually};

use crate::support::{
    SOON,
    controller::Controller,
    credentials::{kubeconfig, put},
    links::{condition, condition_is, own_link, status_that, unlink},
    objects::{export, gone, namespace, service, web},
    planes::alone,
    program::run,
};

/// A text that appears only in credentials.
const MARKER: &str = "Zm9yYmlkZGVu-marker";

/// Commands that read credentials, or fail before they could.
const COMMANDS: [&[&str]; 9] = [
    &["check", "--wait=0s"],
    &["check", "-o", "json", "--wait=0s"],
    &["status"],
    &["status", "-o", "json"],
    &["gateways"],
    &["plan", "hush"],
    &["unlink", "--cluster-name", "hush"],
    &[
        "link-gen",
        "--cluster-name",
        "x",
        "--service-account-name",
        "missing",
    ],
    &["link-gen", "--cluster-name", "x", "--namespace", "missing"],
];

/// Everything that people or programs can read.
async fn readable(plane: &ControlPlane, controller: &Controller) -> Vec<(String, String)> {
    let mut all = vec![("the log".to_owned(), controller.log())];
    for path in ["/metrics", "/ready", "/live"] {
        all.push((path.to_owned(), controller.get(path).await.unwrap().1));
    }
    let kinds = "links,events,services,endpointslices,endpoints,leases,namespaces";
    let objects = plane.kubectl(&["get", kinds, "-A", "-o", "json"]).await;
    all.push(("objects".to_owned(), objects.unwrap()));
    for args in COMMANDS {
        let outcome = run(plane.kubeconfig(), args);
        assert!(
            !outcome.stderr.contains("unexpected argument"),
            "{args:?}: {}",
            outcome.stderr
        );
        // `link-gen` prints credentials if it succeeds, so its commands here have to fail.
        assert!(args[0] != "link-gen" || outcome.code != 0, "{args:?}");
        all.push((args.join(" "), outcome.stdout + &outcome.stderr));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn credentials_are_in_no_log_status_event_metric_or_output() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("hush", &[source, far]).await;
    own_link(source, far, "hush", &[]).await;
    export(far, "hush", &web("web", "hush")).await;
    let controller = Controller::start(source, &[]);
    service(source, "hush", "web-hush", |_| true).await;
    condition_is(source, "hush", "Ready", "True", "Mirroring").await;

    let good = kubeconfig(source, "hush").await;
    let token = good
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "))
        .unwrap()
        .trim_matches(['"', '\'']);
    let signature = token.rsplit('.').next().unwrap();
    assert!(signature.len() > 20, "not a token as Kubernetes makes them");
    let admin = std::fs::read_to_string(source.kubeconfig()).unwrap();
    let key = admin
        .lines()
        .find_map(|line| line.trim().strip_prefix("client-key-data: "))
        .unwrap();
    let secrets = [signature, key, MARKER];
    let search = async |when: &str| {
        for (place, text) in readable(source, &controller).await {
            assert!(!text.is_empty(), "{when}: {place} is empty");
            for secret in secrets {
                assert!(
                    !text.contains(secret),
                    "{when}: {place} repeats {secret}:\n{text}"
                );
            }
        }
    };
    search("all is well").await;

    // An invalid kubeconfig, a token that is not accepted, a server that does not exist, and a kubeconfig that reads a
    // file.
    let server = far.url();
    let broken = [
        format!("users: [{MARKER}"),
        format!("{MARKER}: {{ current-context: {MARKER} }}"),
        good.replace(token, MARKER),
        good.replace(token, MARKER)
            .replace(server, "https://127.0.0.1:1"),
        good.replace(server, &format!("https://{MARKER}@127.0.0.1:1/{MARKER}")),
        good.replace("token:", &format!("tokenFile: /{MARKER}\n    token:")),
    ];
    for (number, text) in broken.iter().enumerate() {
        assert_ne!(*text, good, "{number}");
        put(source, "hush", Some(text)).await;
        let is_told = async || {
            let status = status_that(source, "hush", |_| true).await;
            let told = condition(&status, "CredentialsValid").cloned();
            Ok(told.filter(|told| told.status == "False"))
        };
        let told = eventually("the credentials to be refused", SOON, is_told).await;
        eprintln!("{number}: {}", told.unwrap().message);
        search(&format!("broken credentials {number}")).await;
        put(source, "hush", Some(&good)).await;
        condition_is(source, "hush", "CredentialsValid", "True", "Valid").await;
    }
    unlink(source, "hush").await;
    gone(source, "hush", "web-hush").await;
}
