//! What is shown now, to how many tabs, and what they ask.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::{
    facts::{NamedService, PageFacts},
    page::{self, Fragments, Shown},
};

/// Questions that wait at the same time. A further one is refused.
const WAITING: usize = 4;

/// Why requests to a Service fail, which somebody wants to know.
pub struct Question {
    /// The Service.
    pub service: NamedService,
    /// Where the answer goes: a report, or why there is none.
    pub answer: oneshot::Sender<Result<observe::diagnose::Diagnosis, String>>,
}

/// What all tabs show. There is one for all of them.
pub struct Hub {
    shown: watch::Sender<Arc<Shown>>,
    /// Somebody has opened a tab.
    opened: Notify,
    questions: mpsc::Sender<Question>,
}

impl Hub {
    /// Shows that nothing was read yet. The second value are the questions of tabs, which the caller has to answer.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(WAITING);
        let shown = Shown {
            facts: None,
            fragments: page::loading(),
        };
        let hub = Self {
            shown: watch::Sender::new(Arc::new(shown)),
            opened: Notify::new(),
            questions,
        };
        (Arc::new(hub), asked)
    }

    /// Waits until a tab is open.
    pub async fn watched(&self) {
        while !self.is_watched() {
            self.opened.notified().await;
        }
    }

    /// Whether a tab is open.
    pub fn is_watched(&self) -> bool {
        self.shown.receiver_count() > 0
    }

    /// Shows these facts to all tabs.
    pub fn show(&self, facts: PageFacts) {
        let fragments = page::fragments(&facts);
        let facts = Some(facts);
        self.shown
            .send_replace(Arc::new(Shown { facts, fragments }));
    }

    /// What is shown now.
    pub fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown.borrow())
    }

    /// What is shown from now on. As long as this exists, a tab is open.
    pub(crate) fn open(&self) -> watch::Receiver<Arc<Shown>> {
        let opened = self.shown.subscribe();
        self.opened.notify_one();
        opened
    }

    /// Asks why requests to a Service fail. `None` if too many others ask.
    pub(crate) async fn diagnose(
        &self,
        service: NamedService,
    ) -> Option<Result<observe::diagnose::Diagnosis, String>> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Question { service, answer }).ok()?;
        let ended = || Err("the command ends".to_owned());
        Some(answered.await.unwrap_or_else(|_| ended()))
    }
}

/// The events for a tab that shows `before`, if anything: one for each fragment that differs.
pub(crate) fn events(before: Option<&Fragments>, now: &Fragments) -> String {
    let is_news = |(id, html): &(&&str, &Arc<str>)| {
        before.and_then(|before: &BTreeMap<_, _>| before.get(*id)) != Some(*html)
    };
    let news = now.iter().filter(is_news).map(|(id, html)| {
        let lines = html.lines().map(|line| format!("data: {line}\n"));
        format!("event: {id}\n{}\n", lines.collect::<String>())
    });
    news.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let of = |links: &str| {
            let parts = [("links", links), ("map", "<svg>\n</svg>")];
            let parts = parts.map(|(id, html)| (id, Arc::from(html)));
            Fragments::from(parts)
        };
        let map = "event: map\ndata: <svg>\ndata: </svg>\n\n";
        let first = events(None, &of("1"));
        assert_eq!(first, format!("event: links\ndata: 1\n\n{map}"));
        assert_eq!(events(Some(&of("1")), &of("1")), "");
        let second = events(Some(&of("1")), &of("2"));
        assert_eq!(second, "event: links\ndata: 2\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_while_no_tab_is_open() {
        use std::time::Duration;
        let (hub, _asked) = Hub::new();
        let long = Duration::from_secs(3_600);
        let waited = tokio::time::timeout(long, hub.watched()).await;
        assert!(waited.is_err());
        let tab = hub.open();
        hub.watched().await;
        drop(tab);
        let waited = tokio::time::timeout(long, hub.watched()).await;
        assert!(waited.is_err());
    }
}
