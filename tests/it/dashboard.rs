//! The page of `dashboard`, with real clusters and in a real browser.

use std::time::Instant;

use browser::{Browser, Tab};
use serde_json::json;

use crate::support::{
    links::{objects, unlink},
    objects::{apply, export, namespace, web},
    page::{HOSTILE, serve},
    planes::hub,
};

/// Cluster, namespace and path of the gateway of this test.
const NAME: &str = "seen";
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
