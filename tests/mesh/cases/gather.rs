//! `gather` of both clusters of the rig.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::ControlPlane;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::ListParams};
use serde_json::json;

use crate::{
    rig::{Rig, cluster::EXTENSION, cluster::linkerd_mc},
    table::Row,
};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest size of the archive, in bytes.
const MOST: u64 = 4 << 20;
/// The name of a Secret of the case, and its value.
const MARKED: &str = "gather-must-not-show-this";
/// The keys of Secrets whose values nobody else may see. The others are certificates and names.
const SECRET: [&str; 5] = ["token", "kubeconfig", "tls.key", "key.pem", MARKED];

/// The archive is made in time, is small, and has what belongs to both clusters, but no value of a Secret.
pub(super) async fn of_both(rig: &mut Rig) -> anyhow::Result<Row> {
    let clusters = [&rig.west, &rig.east];
    let mut secrets = Vec::new();
    for cluster in clusters {
        let marked = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": MARKED, "namespace": EXTENSION },
            "stringData": { MARKED: MARKED },
        });
        cluster.apply(&marked.to_string()).await?;
        secrets.extend(values(&cluster.plane).await?);
    }
    let home = &rig.west.place.home;
    let (kubeconfig, archive) = (home.join("gather-contexts"), home.join("gathered.tar.gz"));
    ControlPlane::merged_kubeconfig(&clusters.map(|cluster| &cluster.plane), &kubeconfig)?;
    let output = archive.display().to_string();
    let began = Instant::now();
    linkerd_mc(&kubeconfig, &["gather", "--context=west,east", &output])?;
    let took = began.elapsed();
    let size = archive.metadata()?.len();
    let files = files(&archive)?;
    std::fs::remove_file(&archive)?;
    for cluster in clusters {
        let gone = ["delete", "secret", MARKED, "-n", EXTENSION];
        cluster.plane.kubectl(&gone).await?;
    }
    ensure!(took < LIMIT, "it took {took:?}");
    ensure!(size < MOST, "the archive has {size} bytes");
    for path in [
        "west/check.txt",
        "west/objects/links.yaml",
        "east/objects/exported.yaml",
    ] {
        let has = files.iter().any(|(name, _)| name.ends_with(path));
        ensure!(has, "the archive has no {path}");
    }
    ensure!(
        secrets.len() >= 4,
        "there are only {} secrets",
        secrets.len()
    );
    for (path, content) in &files {
        let shown = secrets.iter().any(|secret| content.contains(secret));
        ensure!(!shown, "{path} shows a Secret");
    }
    let whole: usize = files.iter().map(|(_, content)| content.len()).sum();
    Ok(Row {
        requests: 0,
        failed: 0,
        oracle: "-".to_owned(),
        measured: format!(
            "{} files, {} kB packed, {} kB unpacked, {:.1} s; none of {} secret values in it",
            files.len(),
            size / 1024,
            whole / 1024,
            took.as_secs_f32(),
            secrets.len() / 2,
        ),
    })
}

/// The values that nobody else may see, as they are and in base64.
async fn values(plane: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let all: Api<Secret> = Api::all(plane.client());
    let all = all.list(&ListParams::default()).await?.items;
    let entries = all
        .into_iter()
        .flat_map(|secret| secret.data.unwrap_or_default());
    let mut values = Vec::new();
    for (_, value) in entries.filter(|(key, _)| SECRET.contains(&key.as_str())) {
        values.push(BASE64_STANDARD.encode(&value.0));
        values.push(String::from_utf8(value.0)?);
    }
    Ok(values)
}

/// Paths and contents of the files in an archive.
fn files(archive: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive)?));
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let mut content = String::new();
        entry.read_to_string(&mut content)?;
        files.push((entry.path()?.display().to_string(), content));
    }
    Ok(files)
}
