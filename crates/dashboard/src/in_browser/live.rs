//! What changes is seen without a reload, and costs nothing that stays.

use std::time::Instant;

use super::*;

/// Changes of a busy day.
const CHANGES: usize = 400;

#[tokio::test]
async fn a_change_is_seen_at_once_and_leaves_alone_what_somebody_uses() {
    if !Browser::installed("changes are seen") {
        return;
    }
    let mut page = opened(Some(fixtures::few())).await;
    page.until("document.getElementById('state').textContent === 'live'")
        .await;
    page.value(
        "window.kept = document.querySelector('#clusters details'); kept.open = true; \
         kept.querySelector('button').focus(); window.focused = document.activeElement",
    )
    .await;
    let shown = "document.getElementById('problems').textContent.includes('no answer within 10 s')";
    assert_eq!(page.value(shown).await, false);
    let start = Instant::now();
    page.server.hub.show(fixtures::unanswered());
    page.until(shown).await;
    eprintln!("a change is seen after {} ms", start.elapsed().as_millis());
    let kept = "kept.isConnected && kept.open && document.activeElement === focused && focused.localName === 'button'";
    assert_eq!(page.value(kept).await, true);
    // Two minutes later, nothing was read.
    page.value("window.later = 120000").await;
    page.until("document.getElementById('state').textContent.startsWith('old: 2m')")
        .await;
    assert_eq!(page.value("document.body.className").await, "old");
    page.is_content();
}

#[tokio::test]
#[ignore = "long: just test-all"]
async fn a_tab_that_is_left_open_does_not_grow() {
    if !Browser::installed("an open tab does not grow") {
        return;
    }
    let mut page = opened(Some(fixtures::few())).await;
    let mut held = Vec::new();
    for round in 0..=2 {
        for change in 0..=CHANGES / 2 {
            // Ends as it began.
            let facts = match change % 2 {
                0 => fixtures::few(),
                _ => fixtures::unanswered(),
            };
            page.show(facts, round * CHANGES + change).await;
        }
        page.tab.complaints("");
        held.push(settled(&mut page).await);
    }
    eprintln!(
        "nodes, listeners, bytes after each {} changes: {held:?}",
        CHANGES / 2
    );
    // The first round warms up.
    let [_, [nodes, listeners, bytes], last] = held[..] else {
        unreachable!("three rounds")
    };
    assert!(last[0] <= nodes && last[1] <= listeners, "{held:?}");
    assert!(last[2] < bytes * 1.05, "{held:?}");
}

/// Nodes, listeners and bytes that are needed. What one collection frees of the script lets the next one free nodes, so the
/// garbage is collected until the nodes stay the same.
async fn settled(page: &mut Opened) -> [f64; 3] {
    let none = || serde_json::json!({});
    let count = |of: &Value, key: &str| of[key].as_f64().unwrap();
    let mut before = f64::INFINITY;
    loop {
        let collect = page.tab.call("HeapProfiler.collectGarbage", none());
        collect.await.unwrap();
        let nodes = page.tab.call("Memory.getDOMCounters", none());
        let nodes = nodes.await.unwrap();
        let now = count(&nodes, "nodes");
        if now >= before {
            let heap = page.tab.call("Runtime.getHeapUsage", none());
            let heap = heap.await.unwrap();
            return [
                now,
                count(&nodes, "jsEventListeners"),
                count(&heap, "usedSize"),
            ];
        }
        before = now;
    }
}

#[tokio::test]
#[ignore = "long: just test-all"]
async fn the_page_is_there_at_once() {
    if !Browser::installed("the first paint is measured") {
        return;
    }
    for (clusters, mirrors) in [(3, 1_000), (50, 10_000)] {
        let mut page = opened(Some(fixtures::many(clusters, mirrors))).await;
        let url = page.url();
        // What the browser needs for one word.
        let least = paints(&mut page, "data:text/html,word").await;
        let paints = paints(&mut page, &url).await;
        let bytes = page.value("performance.getEntriesByType('navigation')[0].transferSize");
        let bytes = bytes.await;
        eprintln!(
            "{clusters} clusters, {mirrors} mirrors: {bytes} bytes, painted after {paints:.0?} ms, one word after \
             {least:.0?} ms"
        );
        // On a machine that does nothing else it is a tenth of this.
        assert!(paints[0] < 1_000.0, "{paints:?}");
    }
}

/// When a page is painted first, in ms after its navigation began: several times, sorted.
async fn paints(page: &mut Opened, url: &str) -> Vec<f64> {
    let mut paints = Vec::new();
    for _ in 0..5 {
        page.tab.open(url).await.unwrap();
        page.until("performance.getEntriesByName('first-contentful-paint').length")
            .await;
        let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        paints.push(page.value(paint).await.as_f64().unwrap());
    }
    paints.sort_by(f64::total_cmp);
    paints
}
