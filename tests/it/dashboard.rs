//! The page of `dashboard`, with real clusters and in a real browser.

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use browser::{Browser, Tab};
use control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    preferences::{self, Scene},
    support::{
        links::{objects, unlink},
        objects::{apply, endpoints, export, namespace, web},
        planes::hub,
    },
};

/// Cluster, namespace and path of the gateway of this test.
const NAME: &str = "seen";
/// How a kubeconfig may call a cluster.
const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\">'\u{1b}[31m";

/// The page of these clusters, of which the first has a hostile name, and its address.
async fn serve(planes: &[&ControlPlane]) -> (Child, String, tempfile::TempDir) {
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

/// Waits until the row of the Link says this.
async fn link_is(tab: &mut Tab, said: &str) {
    let row = format!("[...document.querySelectorAll('#links tr[id$=\"-{NAME}\"]')]");
    let wanted = format!("{row}.some((row) => row.textContent.includes('{said}'))");
    tab.until(&wanted).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_clusters_is_seen_without_a_reload() {
    if !Browser::installed("the page shows real clusters") {
        return;
    }
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace(NAME, &[east, west]).await;
    let mut link = objects(east, NAME, &[]);
    link[2]["spec"]["probeSpec"] = json!({
        "path": format!("/{NAME}"), "port": "4191", "period": "1s", "timeout": "1s", "failureThreshold": "2",
    });
    // The API server accepts any text here.
    let mut hostile = link[2].clone();
    hostile["metadata"]["name"] = json!("hostile");
    hostile["spec"]["targetClusterName"] = json!(HOSTILE);
    link.push(hostile);
    apply(west, &link).await;

    let (_page, url, _folder) = serve(&[west, east]).await;
    let mut browser = Browser::start().await.unwrap();
    let mut tab = browser.tab().await.unwrap();
    tab.open(&url).await.unwrap();
    link_is(&mut tab, "alive").await;

    let view = format!(
        "location.hash = 'service/' + encodeURIComponent({}) + '/{NAME}/web-{NAME}'",
        json!(HOSTILE)
    );
    tab.value(&view).await.unwrap();
    tab.until("document.getElementById('service').textContent.includes('There is no such')")
        .await
        .unwrap();
    let exported = Instant::now();
    export(east, NAME, &web("web", NAME)).await;
    tab.until("document.querySelector('#service .way')")
        .await
        .unwrap();
    let seen = exported.elapsed();

    let killed = Instant::now();
    hub.gateways.kill("/seen");
    link_is(&mut tab, "gateway dead").await;
    let dead = killed.elapsed();
    hub.gateways.revive("/seen");
    link_is(&mut tab, "alive").await;
    eprintln!("an exported Service is seen after {seen:?}, a dead gateway after {dead:?}");

    let (own, _) = url.rsplit_once('/').unwrap();
    let complaints = tab.complaints(own);
    assert!(complaints.is_empty(), "{complaints:#?}");
    let name = "document.getElementById('service').textContent.includes('in <img src=x')";
    assert_eq!(tab.value(name).await.unwrap(), true);
    let links =
        "document.getElementById('links').textContent.split('<img src=x onerror').length > 2";
    tab.until(links).await.unwrap();
    let images = tab.value("document.images.length").await.unwrap();
    assert_eq!(images, 0);
    unlink(west, NAME).await;
    unlink(west, "hostile").await;
}

/// Waits until the row of the federated Service says this. Returns how long that took.
async fn federated_is(tab: &mut Tab, said: &str) -> Duration {
    let since = Instant::now();
    let row = "[...document.querySelectorAll('#federated tbody tr')]";
    let wanted = format!("{row}.some((row) => row.textContent.includes('{said}'))");
    tab.until(&wanted).await.unwrap();
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn failover_and_its_end_are_seen_without_a_reload() {
    if !Browser::installed("the page shows a failover") {
        return;
    }
    let scene = Scene::set().await;
    let source = &*scene.alone.source;
    source.install_gateway_api().await.unwrap();
    let (_page, url, _folder) = serve(&[source]).await;
    let mut browser = Browser::start().await.unwrap();
    let mut tab = browser.tab().await.unwrap();
    tab.open(&url).await.unwrap();
    federated_is(&mut tab, "healthy").await;
    endpoints(source, preferences::NAME, "web", 0).await;
    let failed_over = federated_is(&mut tab, "failed over").await;
    endpoints(source, preferences::NAME, "web", 2).await;
    let returned = federated_is(&mut tab, "healthy").await;
    eprintln!(
        "a failover is seen after {failed_over:?}, its end {returned:?} after the endpoints are back, of which the \
         hold-down is 3 s"
    );
    let (own, _) = url.rsplit_once('/').unwrap();
    let complaints = tab.complaints(own);
    assert!(complaints.is_empty(), "{complaints:#?}");
}
