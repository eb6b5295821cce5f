//! The page by keyboard alone.

use super::*;

/// What has the focus: a word for it, and whether it can be seen.
const FOCUSED: &str = "(() => {
    const it = document.activeElement;
    if (it === document.body) return null;
    const { outlineStyle, outlineWidth } = getComputedStyle(it);
    const seen = it.matches(':focus-visible') && outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
    window.reached.add(it);
    return `${it.localName} ${it.id || it.getAttribute('aria-label') || it.textContent.trim().slice(0, 40)}${seen ? '' : ' UNSEEN'}`;
})()";
/// What can be used and was not reached.
const UNREACHED: &str = "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]
    .filter((it) => it.checkVisibility() && !window.reached.has(it)).map((it) => it.outerHTML.slice(0, 200))";

#[tokio::test]
async fn keyboard_alone_reaches_all_copies_commands_and_finds_services() {
    if !Browser::installed("the page can be used with a keyboard") {
        return;
    }
    let mut page = opened(Some(fixtures::few())).await;
    page.value("window.reached = new Set()").await;
    let mut stops = Vec::new();
    loop {
        page.tab.press("Tab").await.unwrap();
        let Value::String(stop) = page.value(FOCUSED).await else {
            break;
        };
        stops.push(stop);
        assert!(stops.len() < 200, "{stops:#?}");
    }
    assert!(stops.len() > 15, "{stops:#?}");
    assert!(stops[0].starts_with("a Skip"), "{stops:#?}");
    let unseen = stops.iter().filter(|stop| stop.ends_with("UNSEEN"));
    assert_eq!(unseen.collect::<Vec<_>>(), [""; 0]);
    let unreached = page.value(UNREACHED).await;
    assert_eq!(unreached, serde_json::json!([]));

    let origin = page.origin();
    page.browser.permit_clipboard(&origin).await.unwrap();
    let button = "document.querySelector('.command button')";
    page.value(&format!("{button}.focus()")).await;
    page.tab.press("Enter").await.unwrap();
    page.until(&format!("{button}.textContent === 'Copied'"))
        .await;
    let copied = page.value("navigator.clipboard.readText()").await;
    assert_eq!(copied, "linkerd-mc --context west diagnose shop/auth-north");

    page.tab.press("/").await.unwrap();
    page.until("document.activeElement.id === 'q'").await;
    for letter in ["w", "e", "b"] {
        page.tab.press(letter).await.unwrap();
    }
    page.until("document.querySelector('#found a')").await;
    page.tab.press("Enter").await.unwrap();
    page.until("document.activeElement.id === 'service'").await;
    let heading = page.value("document.querySelector('#service h2').textContent");
    assert_eq!(heading.await, "shop/web-federated in west");
    // First the search, then the Service.
    for gone in ["found", "service"] {
        page.tab.press("Escape").await.unwrap();
        page.until(&format!("document.getElementById('{gone}').hidden"))
            .await;
    }
    page.is_content();
}

#[tokio::test]
async fn nothing_moves_for_those_who_want_that() {
    if !Browser::installed("reduced motion is respected") {
        return;
    }
    let mut page = opened(None).await;
    let motion = "getComputedStyle(document.querySelector('.loading')).animationName";
    for (wanted, name) in [("no-preference", "breathe"), ("reduce", "none")] {
        let preferred = [("prefers-reduced-motion", wanted)];
        page.tab.prefer(&preferred).await.unwrap();
        assert_eq!(page.value(motion).await, name, "{wanted}");
    }
}
