//! Pages of others, and clusters with hostile names, against the page in a browser.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// What a page of another origin tries. Its answer names what has worked.
const ATTEMPTS: &str = "(async (url, rebound) => {
    const worked = [];
    const attempt = async (name, what) => { try { if (await what()) worked.push(name); } catch { } };
    const loads = (kind, attributes) => new Promise((done) => {
        const it = Object.assign(document.createElement(kind), attributes);
        it.onload = () => done(it);
        it.onerror = () => done(null);
        document.body.append(it);
    });
    const within = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, 2000, false))]);
    for (const at of [url, rebound]) {
        await attempt('fetch ' + at, async () => (await fetch(at)).ok);
        await attempt('post ' + at, async () => (await fetch(at, { method: 'POST' })).ok);
        await attempt('opaque ' + at, async () => (await (await fetch(at, { mode: 'no-cors' })).text()).length > 0);
        await attempt('events ' + at, () => within(new Promise((done) => { new EventSource(at + 'events').onopen = () => done(true); })));
        await attempt('script ' + at, () => within(loads('script', { src: at })));
        await attempt('style ' + at, () => within(loads('link', { rel: 'stylesheet', href: at })));
        await attempt('image ' + at, () => within(loads('img', { src: at })));
        await attempt('frame ' + at, async () => (await within(loads('iframe', { src: at })))?.contentDocument?.querySelector('#problems'));
    }
    return worked;
})";

/// A page of somebody else, on this machine. It answers until it is dropped.
async fn other_origin() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 23\r\nconnection: close\r\n\r\n\
                          <!doctype html><p>evil<";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (format!("http://evil.{}:{port}/", browser::REBOUND), served)
}

#[tokio::test]
async fn a_page_of_another_origin_learns_nothing_even_with_the_address() {
    if !Browser::installed("pages of other origins learn nothing") {
        return;
    }
    let mut page = opened(Some(fixtures::few())).await;
    let url = page.url();
    let (_, port) = page.server.host.rsplit_once(':').unwrap();
    // A name that its owner lets point to this machine.
    let rebound = format!(
        "http://rebound.{}:{port}{}",
        browser::REBOUND,
        page.server.path
    );
    let (evil, _served) = other_origin().await;
    page.tab.open(&evil).await.unwrap();
    let tried = format!("{ATTEMPTS}('{url}', '{rebound}')");
    assert_eq!(page.value(&tried).await, serde_json::json!([]));
    page.tab.open(&rebound).await.unwrap();
    let said = page.value("document.body.innerText").await;
    assert_eq!(said.as_str().map(str::trim), Some("another host"));
    // And the same page, opened by its user, is there.
    page.tab.open(&url).await.unwrap();
    page.until("document.getElementById('state').textContent === 'live'")
        .await;
}

#[tokio::test]
async fn hostile_names_are_text() {
    if !Browser::installed("hostile names do nothing") {
        return;
    }
    let mut page = opened(Some(fixtures::hostile())).await;
    let own = page.value("[document.images.length, document.scripts.length, document.querySelectorAll('iframe').length]");
    assert_eq!(own.await, serde_json::json!([0, 1, 0]));
    page.value("document.getElementById('q').value = 'img'; document.getElementById('q').dispatchEvent(new Event('input'))").await;
    page.until("document.querySelector('#found a')").await;
    page.value("document.querySelector('#found a').click()")
        .await;
    page.until("document.querySelector('#service h2')?.textContent.includes('<img src=x')")
        .await;
    page.value("document.querySelector('[data-diagnose]').click()")
        .await;
    let question = page.server.asked.recv().await.unwrap();
    assert_eq!(question.service.name, fixtures::HOSTILE);
    let _ = question.answer.send(Err(fixtures::HOSTILE.to_owned()));
    page.until(
        "document.querySelector('#diagnosis .unseen')?.textContent.startsWith('<img src=x')",
    )
    .await;
    page.server.hub.show(fixtures::few());
    page.until("document.getElementById('now').textContent.includes('west, east, north')")
        .await;
    assert_eq!(
        page.value("document.title").await,
        "1 error, 1 warning · linkerd-mc"
    );
    page.is_content();
}
