//! Linkerd's injector, for the Pods that `verify` creates. The rig's own Pods are injected by `linkerd inject`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use control_plane::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, api::PostParams};
use linkerd_mc::api::labels::VERIFY;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;

use super::{
    NAMESPACE, Rig,
    cluster::Cluster,
    linkerd::TRUST_ROOTS,
    process::{Process, Program},
    wait::{self, SOON},
};

/// Where an injector looks for its certificate and for Linkerd's configuration. Each one has a folder of its own there.
const FILES: &str = "/var/run/linkerd";
const PORT: u16 = 8443;

/// The injectors of both clusters. They end when this is dropped.
pub(super) struct Injectors {
    _processes: Vec<Process>,
}

impl Injectors {
    /// Starts an injector in each cluster, and waits until the API servers ask them.
    pub(super) async fn start(rig: &Rig) -> anyhow::Result<Self> {
        let mut processes = Vec::new();
        for cluster in [&rig.west, &rig.east] {
            processes.push(start(cluster).await?);
        }
        Ok(Self {
            _processes: processes,
        })
    }
}

/// Writes what an injector reads, and returns the folder and the certificate.
async fn write_files(cluster: &Cluster) -> anyhow::Result<(PathBuf, String)> {
    let address = cluster.network.gateway().to_string();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([address])?;
    let configs: Api<ConfigMap> = Api::namespaced(cluster.plane.client(), "linkerd");
    let config = configs.get("linkerd-config").await?.data;
    let values = config.and_then(|mut data| data.remove("values"));
    let folder = cluster.plane.folder().join("injector");
    let write = |file: &str, content: &str| {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        fs::write(path, content)
    };
    write("tls/tls.crt", &cert.pem())?;
    write("tls/tls.key", &signing_key.serialize_pem())?;
    write("config/values", &values.context("no values of Linkerd")?)?;
    let roots = fs::read_to_string(Path::new(TRUST_ROOTS).join("ca-bundle.crt"))?;
    write("identity/trust-roots/ca-bundle.crt", &roots)?;
    Ok((folder, cert.pem()))
}

async fn start(cluster: &Cluster) -> anyhow::Result<Process> {
    let (folder, certificate) = write_files(cluster).await?;
    let at = cluster.network.gateway();
    let arguments = [
        "proxy-injector",
        &format!("-kubeconfig={}", cluster.plane.kubeconfig().display()),
        &format!("-addr={at}:{PORT}"),
        &format!("-metrics-addr={at}:{}", PORT + 1000),
    ];
    let log = format!("{}-injector.log", cluster.name());
    let program = cluster.place.programs.join("controller");
    fs::create_dir_all(FILES)?;
    let program = Program::new(&program, &arguments, cluster.place.logs.join(log));
    let program = program.with_folder(&folder, FILES);
    let mut process = program.start()?;
    wait::listens((at, PORT).into(), &mut process).await?;
    cluster
        .apply(&webhook(&format!("https://{at}:{PORT}/"), &certificate))
        .await?;
    let pods: Api<Pod> = Api::namespaced(cluster.plane.client(), NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pod = serde_json::from_value(json!({
        "metadata": {
            "name": "probe", "labels": { VERIFY: "probe" },
            "annotations": { "linkerd.io/inject": "enabled" },
        },
        "spec": { "serviceAccountName": "default", "containers": [{ "name": "app", "image": "app" }] },
    }))?;
    eventually("the injector to be asked", SOON, async || {
        let created = serde_json::to_string(&pods.create(&dry, &pod).await?)?;
        anyhow::ensure!(created.contains("linkerd-proxy"), "got {created}");
        Ok(Some(()))
    })
    .await?;
    Ok(process)
}

/// What `linkerd install` prints for the injector, for the Pods of `verify` only.
fn webhook(url: &str, certificate: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "linkerd-proxy-injector-webhook-config" },
        "webhooks": [{
            "name": "linkerd-proxy-injector.linkerd.io",
            "objectSelector": { "matchExpressions": [{ "key": VERIFY, "operator": "Exists" }] },
            "clientConfig": { "url": url, "caBundle": STANDARD.encode(certificate) },
            "failurePolicy": "Fail",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            }],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }],
    })
    .to_string()
}
