//! The archive of `gather`: its contents, secrets that it must not have, and its list of what `gather` could not read.

use std::{collections::BTreeMap, fs::File, io::Read as _, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::ControlPlane;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, api::Patch, api::PatchParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    controller::Controller,
    credentials::token,
    installation::NAMESPACE,
    links::{mirror_is, own_link, unlink},
    objects::{apply, export, namespace, web},
    planes::alone,
    program::run,
};

const NAME: &str = "gathered";
/// A password. This test puts it into a Secret, and into other places in which people put passwords.
const MARK: &str = "do-not-show-me";

/// The files of an archive, by their paths in the only folder at its top.
fn files(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let (_, path) = path.split_once('/').unwrap();
        let path = path.to_owned();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        (path, content)
    });
    entries.collect()
}

/// Creates a Secret with [`MARK`], and a Pod of the controller with it in its environment. No kubelet runs the Pod, so
/// `gather` cannot read its log.
async fn marked(source: &ControlPlane) {
    let labels = json!({ "linkerd.io/extension": "multicluster", "component": "controller" });
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let encoded = BASE64_STANDARD.encode(MARK);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "mirror.linkerd.io/remote-kubeconfig",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "annotations": { last: format!("{{\"data\":\"{encoded}\"}}") } },
        "data": { "password": encoded },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "automountServiceAccountToken": false, "nodeName": "nowhere",
            "containers": [{
                "name": "app", "image": "app", "env": [{ "name": "PASSWORD", "value": MARK }],
                "ports": [{ "name": "ctrl-admin", "containerPort": 9999 }],
            }],
        },
    });
    apply(source, &[secret, pod]).await;
    let status = json!({ "status": {
        "phase": "Running", "podIP": "192.0.2.9",
        "containerStatuses": [{ "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 1 }],
    } });
    Api::<Pod>::namespaced(source.client(), NAMESPACE)
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// The tokens of all Secrets of the installation.
async fn tokens(plane: &ControlPlane) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(plane.client(), NAMESPACE);
    let all = secrets
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let values = all
        .items
        .into_iter()
        .flat_map(|secret| secret.data.unwrap_or_default());
    let tokens = values.filter_map(|(key, value)| {
        let value = String::from_utf8(value.0).unwrap();
        match key.as_str() {
            "token" => Some(value),
            l::KUBECONFIG_KEY => Some(token(&value)),
            _ => None,
        }
    });
    tokens.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_has_what_a_colleague_needs_and_no_secret() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    namespace(NAME, &[source, far]).await;
    export(far, NAME, &web("web", NAME)).await;
    own_link(source, far, NAME, &[]).await;
    let controller = Controller::start(source, &[]);
    mirror_is(source, NAME, NAME, "web", "Mirrored").await;
    marked(source).await;

    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &both).unwrap();
    let archive = folder.path().join("both.tar.gz");
    let output = archive.display().to_string();
    let contexts = format!("{},{}", source.name(), far.name());
    let gathered = run(&both, &["gather", "--context", &contexts, &output]);
    assert_eq!(gathered.code, 0, "{}", gathered.stderr);
    assert_eq!(gathered.stdout, format!("{output}\n"));
    let found = files(&archive);
    let here = source.name();
    let file = |path: &str| {
        let path = format!("{here}/{path}");
        found
            .get(&path)
            .unwrap_or_else(|| panic!("no {path} in {:?}", found.keys()))
    };
    assert!(file("objects/links.yaml").contains("Connected"));
    assert!(file("objects/mirrors.yaml").contains("web-gathered"));
    assert!(file("objects/endpointslices.yaml").contains("web-gathered"));
    assert!(file("objects/credentials.yaml").contains("cluster-credentials-gathered"));
    assert!(file("objects/pods.yaml").contains("PASSWORD"));
    assert!(file("check.txt").contains("Links are ready"));
    let exported = format!("{}/objects/exported.yaml", far.name());
    assert!(found[&exported].contains("name: web"));
    assert!(found["graph.json"].contains(NAME));
    let timeline = &found["timeline.txt"];
    for line in [
        format!("  {here}  Link {NAMESPACE}/{NAME}: Connected became True"),
        format!("  {}  Service {NAME}/web: created by ", far.name()),
        format!("  {here}  Secret {NAMESPACE}/{NAME}: created by "),
    ] {
        assert!(timeline.contains(&line), "{line}: {timeline}");
    }
    let times: Vec<&str> = timeline
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{timeline}");
    assert!(found["INDEX.md"].contains("| timeline.txt |"));
    assert!(file("diagnose/gathered-web-gathered.txt").contains("gathered/web-gathered"));
    let colored = found.iter().find(|(_, content)| content.contains('\x1b'));
    assert_eq!(colored, None);
    let index = &found["INDEX.md"];
    let unread = format!("{here}/logs/{NAMESPACE}-{NAME}-app.log");
    assert!(index.contains(&unread), "{index}");
    assert!(!found.contains_key(&unread));

    let encoded = BASE64_STANDARD.encode(MARK);
    let mut secrets = vec![MARK.to_owned(), encoded];
    for plane in [source, far] {
        let tokens = tokens(plane).await;
        secrets.extend(tokens.iter().map(|token| BASE64_STANDARD.encode(token)));
        secrets.extend(tokens);
    }
    assert!(secrets.len() > 3, "there are tokens to look for");
    for (path, content) in &found {
        let shown = secrets.iter().find(|secret| content.contains(*secret));
        assert_eq!(shown, None, "{path}");
    }

    // `gather` overwrites no file. If the API server does not answer, it leaves no file.
    let again = run(&both, &["gather", &output]).failure();
    assert!(again.contains("both.tar.gz exists already"), "{again}");
    let nowhere = folder.path().join("nowhere.tar.gz");
    let output = nowhere.display().to_string();
    let silent = ["gather", "--api-addr", "127.0.0.1:1", &output];
    let silent = run(source.kubeconfig(), &silent).failure();
    assert!(silent.contains("cannot read anything"), "{silent}");
    assert!(!nowhere.exists());

    // For a user who may read only Links, the archive lists what is missing.
    let links = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "gathered" },
        "rules": [{ "apiGroups": ["multicluster.linkerd.io"], "resources": ["links"], "verbs": ["list"] }],
    });
    apply(source, &[links]).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "gathered",
        "--clusterrole=gathered",
        "--user=reader",
    ];
    source.kubectl(&bind).await.unwrap();
    let reader = source.user_kubeconfig("reader", &[]).unwrap();
    let few = folder.path().join("few.tar.gz");
    let output = few.display().to_string();
    let gathered = run(&reader, &["gather", &output]);
    assert_eq!(gathered.code, 0, "{}", gathered.stderr);
    assert!(
        gathered.stderr.contains("could not be read, see INDEX.md"),
        "{}",
        gathered.stderr
    );
    let found = files(&few);
    assert!(
        found["INDEX.md"].contains("cannot list resource \"services\""),
        "{}",
        found["INDEX.md"]
    );

    for kind in ["clusterrole", "clusterrolebinding"] {
        source.kubectl(&["delete", kind, "gathered"]).await.unwrap();
    }
    let pod = ["delete", "pod", NAME, "-n", NAMESPACE, "--force"];
    source.kubectl(&pod).await.unwrap();
    let secret = ["delete", "secret", NAME, "-n", NAMESPACE];
    source.kubectl(&secret).await.unwrap();
    drop(controller);
    unlink(source, NAME).await;
}
