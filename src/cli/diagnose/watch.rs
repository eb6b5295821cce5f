//! `diagnose --watch`: what changes on the way of a request.

use client::timing;
use mirror_core::api::duration::utc;
use observe::diagnose::{Diagnosis, report};

use super::{
    reader::PathReader,
    view::{fitted, happened, text},
};
use crate::cli::common::{
    changes::{link_changes, next_change},
    format::OutputFormat,
    output,
    table::terminal_width,
};

/// Prints a diagnosis, and then what has changed whenever something has. Fails only if the first one fails.
pub async fn show(
    reader: &PathReader<'_>,
    first: Diagnosis,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let mut changes = link_changes([&reader.source]);
    let mut log = DiagnosisLog::default();
    let mut next = Ok(first);
    loop {
        match next {
            Ok(diagnosis) => output::data(&log.news(diagnosis, format)?)?,
            Err(error) => {
                if log.is_new_error(&format!("{error:#}")) {
                    output::error(&error);
                }
            }
        }
        next_change(&mut changes).await;
        next = Box::pin(reader.diagnose()).await;
    }
}

/// What has been printed so far.
#[derive(Default)]
struct DiagnosisLog {
    last: Option<Diagnosis>,
    error: Option<String>,
}

impl DiagnosisLog {
    /// The text to print now: everything at first, then the layers that have changed, or nothing. What a proxy counts is no
    /// change by itself.
    fn news(&mut self, now: Diagnosis, format: OutputFormat) -> anyhow::Result<String> {
        self.error = None;
        let changed = match &self.last {
            None => Some(text(&now)),
            Some(before) => report::changes(before, &now).map(|text| {
                let time = utc(timing::now());
                format!("\n{time}\n{text}{}", happened(&now))
            }),
        };
        let text = match changed {
            None => String::new(),
            Some(text) => {
                format.one_of_many(&report::document(&now), || fitted(&text, terminal_width()))?
            }
        };
        self.last = Some(now);
        Ok(text)
    }

    /// Whether the last look did not fail in the same way.
    fn is_new_error(&mut self, error: &str) -> bool {
        let before = self.error.replace(error.to_owned());
        before.as_deref() != Some(error)
    }
}

#[cfg(test)]
mod tests {
    use mirror_core::api::metadata::ResourceId;
    use observe::{
        diagnose::layer::LayerReport,
        finding::{
            Finding,
            causes::{Cause, Layer},
        },
    };

    use super::*;

    fn diagnosis(seen: &str, is_broken: bool) -> Diagnosis {
        let finding = Finding::broken(Cause::NoReadyPods, "0 of 3 endpoints");
        let report = LayerReport {
            layer: Layer::Target,
            seen: vec![seen.to_owned()],
            unseen: Vec::new(),
            findings: is_broken.then_some(finding).into_iter().collect(),
        };
        Diagnosis {
            service: ResourceId::new("shop", "web-east"),
            port: Some(80),
            what: "mirror of web in east".to_owned(),
            layers: vec![report],
            timeline: observe::timeline::Timeline::default(),
        }
    }

    #[test]
    fn each_change_is_printed_once_and_what_is_counted_is_none() {
        let looks = [
            ("1 answer", false, true),
            ("2 answers", false, false),
            ("3 answers", true, true),
            ("4 answers", true, false),
            ("5 answers", false, true),
        ];
        for format in [OutputFormat::Text, OutputFormat::Json, OutputFormat::Yaml] {
            let mut log = DiagnosisLog::default();
            for (seen, is_broken, is_news) in looks {
                let news = log.news(diagnosis(seen, is_broken), format).unwrap();
                assert_eq!(!news.is_empty(), is_news, "{seen}: {news}");
            }
        }
        let mut log = DiagnosisLog::default();
        let json = log.news(diagnosis("", true), OutputFormat::Json).unwrap();
        assert_eq!(json.lines().count(), 1, "a document is a line: {json}");
        assert!(log.is_new_error("no answer") && !log.is_new_error("no answer"));
        log.news(diagnosis("", true), OutputFormat::Json).unwrap();
        assert!(log.is_new_error("no answer"), "it had answered meanwhile");
    }
}
