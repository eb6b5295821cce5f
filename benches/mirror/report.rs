//! Results: one table for people, one list for programs.

use std::{collections::BTreeMap, time::Duration};

use comfy_table::Table;
use serde_json::{Value, json};

use crate::limit::{Limit, Work, Writer};

/// What was measured.
#[derive(Debug, Default)]
pub struct Outcome {
    rows: Vec<Row>,
    limits: Vec<(Writer, Limit)>,
}

/// One measurement.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub scenario: String,
    pub objects: usize,
    pub took: Option<Duration>,
    /// The kind of bare requests that the time is compared with.
    pub limit: Option<Work>,
    pub writes: Option<usize>,
    pub status: Option<usize>,
    pub rss: Option<f64>,
    pub peak: Option<f64>,
    pub cpu: Option<Duration>,
    pub note: String,
}

const COLUMNS: [&str; 11] = [
    "scenario",
    "objects",
    "time",
    "limit",
    "ratio",
    "limit with policies",
    "ratio to it",
    "writes+status",
    "RSS (peak)",
    "CPU",
    "note",
];

impl Outcome {
    /// Adds a measurement of the limit. A row is compared with the mean of all measurements of its kind of work by one
    /// writer.
    pub fn limit(&mut self, writer: Writer, limit: Limit) {
        eprintln!("{writer:?}: {limit:?}");
        self.limits.push((writer, limit));
    }

    /// Adds a row, and prints it to stderr at once.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}: {:?}", row.scenario, self.cells(&row));
        self.rows.push(row);
    }

    /// The limit that was measured for a row with the writer `by`, and the ratio of the row's time to the limit.
    fn compared(&self, row: &Row, by: Writer) -> (Option<Duration>, Option<f64>) {
        let mean = |work| {
            let all = self.limits.iter().filter(|(writer, _)| *writer == by);
            let all: Vec<Duration> = all.filter_map(|(_, limit)| limit.of(work)).collect();
            let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
            all.iter().sum::<Duration>().checked_div(count)
        };
        let limit = row.limit.and_then(mean);
        let ratio = row.took.zip(limit);
        (
            limit,
            ratio.map(|(took, limit)| took.as_secs_f64() / limit.as_secs_f64()),
        )
    }

    fn bare(&self, row: &Row) -> (Option<Duration>, Option<f64>) {
        self.compared(row, Writer::Administrator)
    }

    fn confined(&self, row: &Row) -> (Option<Duration>, Option<f64>) {
        self.compared(row, Writer::Controller)
    }

    fn cells(&self, row: &Row) -> BTreeMap<&'static str, String> {
        let seconds = |d: Option<Duration>| d.map(|d| format!("{:.2} s", d.as_secs_f64()));
        let number = |ratio: Option<f64>| ratio.map(|ratio| format!("{ratio:.2}"));
        let ((limit, ratio), (confined, of_confined)) = (self.bare(row), self.confined(row));
        let writes = row
            .writes
            .map(|w| format!("{w}+{}", row.status.unwrap_or(0)));
        let rss = row
            .rss
            .map(|rss| format!("{rss:.1} ({:.1}) MiB", row.peak.unwrap_or(rss)));
        let cells = [
            Some(row.scenario.clone()),
            Some(row.objects.to_string()),
            seconds(row.took),
            seconds(limit),
            number(ratio),
            seconds(confined),
            number(of_confined),
            writes,
            rss,
            seconds(row.cpu),
            Some(row.note.clone()),
        ];
        COLUMNS
            .into_iter()
            .zip(cells.map(Option::unwrap_or_default))
            .collect()
    }

    fn value(&self, row: &Row) -> Value {
        let seconds = |d: Option<Duration>| d.map(|d| d.as_secs_f64());
        let ((limit, ratio), (confined, of_confined)) = (self.bare(row), self.confined(row));
        json!({
            "scenario": row.scenario, "objects": row.objects,
            "seconds": seconds(row.took), "limitSeconds": seconds(limit), "ratio": ratio,
            "confinedLimitSeconds": seconds(confined), "ratioToConfined": of_confined,
            "writes": row.writes, "statusWrites": row.status,
            "rssMiB": row.rss, "peakMiB": row.peak, "cpuSeconds": seconds(row.cpu), "note": row.note,
        })
    }

    pub fn print(&self) {
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::ASCII_MARKDOWN)
            .set_header(COLUMNS);
        for row in self.rows.iter().map(|row| self.cells(row)) {
            table.add_row(COLUMNS.map(|column| row[column].clone()));
        }
        println!("{table}");
    }

    /// All measurements as JSON.
    pub fn json(&self) -> String {
        let values: Vec<Value> = self.rows.iter().map(|row| self.value(row)).collect();
        serde_json::to_string_pretty(&values).unwrap()
    }
}
