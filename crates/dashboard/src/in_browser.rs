//! Tests of the page in a real browser. They need Chromium.

mod attacks;
mod keys;
mod live;
mod views;

use browser::{Browser, Tab};
use serde_json::Value;

use crate::{
    facts::PageFacts,
    fixtures,
    server::tests::{Running, start},
};

/// A page in a tab.
struct Opened {
    browser: Browser,
    tab: Tab,
    server: Running,
}

/// The page with these facts, or while the clusters are read for the first time.
async fn opened(facts: Option<PageFacts>) -> Opened {
    let (server, mut browser) = (start().await, Browser::start().await.unwrap());
    let mut tab = browser.tab().await.unwrap();
    // Facts of tests were read a second ago.
    let now = fixtures::now().as_millisecond() + 1_000;
    let clock = format!("Date.now = () => {now} + (window.later || 0)");
    tab.before(&clock).await.unwrap();
    let mut opened = Opened {
        browser,
        tab,
        server,
    };
    if let Some(facts) = facts {
        opened.server.hub.show(facts);
    }
    let url = opened.url();
    opened.tab.resize(1280, 900).await.unwrap();
    opened.tab.open(&url).await.unwrap();
    opened
}

impl Opened {
    fn origin(&self) -> String {
        format!("http://{}", self.server.host)
    }

    fn url(&self) -> String {
        format!("{}{}", self.origin(), self.server.path)
    }

    async fn value(&mut self, expression: &str) -> Value {
        self.tab.value(expression).await.unwrap()
    }

    async fn until(&mut self, expression: &str) {
        self.tab.until(expression).await.unwrap();
    }

    /// Shows other facts, and waits until the tab shows them.
    async fn show(&mut self, mut facts: PageFacts, round: usize) {
        facts.title = format!("round {round}");
        self.server.hub.show(facts);
        let shown = format!("document.querySelector('#now .name').textContent === 'round {round}'");
        self.until(&shown).await;
    }

    /// Fails if anything went wrong in the tab, or it has asked others.
    #[track_caller]
    fn is_content(&mut self) {
        let own = self.origin();
        let complaints = self.tab.complaints(&own);
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}
