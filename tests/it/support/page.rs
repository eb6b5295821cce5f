//! The page of `dashboard`.

use std::{fs, process::Stdio};

use control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// How a kubeconfig may call a cluster.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\">'\u{1b}[31m";

/// The page of these clusters, of which the first has a hostile name, and its address.
pub(crate) async fn serve(planes: &[&ControlPlane]) -> (Child, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    ControlPlane::merged_kubeconfig(planes, &file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
    kubeconfig["contexts"][0]["name"] = json!(HOSTILE);
    kubeconfig["current-context"] = json!(HOSTILE);
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(["dashboard", "--all-contexts", "--no-browser"])
        .env("KUBECONFIG", &file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    (child, url, folder)
}
