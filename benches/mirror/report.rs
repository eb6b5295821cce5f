//! Results: one table for people, one list for programs.

use std::{collections::BTreeMap, time::Duration};

use comfy_table::Table;
use serde_json::{Value, json};

/// What was measured.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<BTreeMap<&'static str, String>>,
    values: Vec<Value>,
}

/// One measurement.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub scenario: String,
    pub objects: usize,
    pub took: Option<Duration>,
    pub limit: Option<Duration>,
    pub writes: Option<usize>,
    pub status: Option<usize>,
    pub rss: Option<f64>,
    pub peak: Option<f64>,
    pub cpu: Option<Duration>,
    pub note: String,
}

const COLUMNS: [&str; 9] = [
    "scenario",
    "objects",
    "time",
    "limit",
    "ratio",
    "writes+status",
    "RSS (peak)",
    "CPU",
    "note",
];

impl Report {
    /// Adds a measurement, and tells of it at once.
    pub fn add(&mut self, row: &Row) {
        let seconds = |d: Option<Duration>| d.map(|d| format!("{:.2} s", d.as_secs_f64()));
        let ratio = row
            .took
            .zip(row.limit)
            .map(|(t, l)| t.as_secs_f64() / l.as_secs_f64());
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
            seconds(row.limit),
            ratio.map(|ratio| format!("{ratio:.2}")),
            writes,
            rss,
            seconds(row.cpu),
            Some(row.note.clone()),
        ];
        let cells: BTreeMap<_, _> = COLUMNS
            .into_iter()
            .zip(cells.map(Option::unwrap_or_default))
            .collect();
        eprintln!("{}: {cells:?}", row.scenario);
        self.rows.push(cells);
        self.values.push(json!({
            "scenario": row.scenario, "objects": row.objects,
            "seconds": row.took.map(|d| d.as_secs_f64()), "limitSeconds": row.limit.map(|d| d.as_secs_f64()),
            "ratio": ratio, "writes": row.writes, "statusWrites": row.status,
            "rssMiB": row.rss, "peakMiB": row.peak, "cpuSeconds": row.cpu.map(|d| d.as_secs_f64()),
            "note": row.note,
        }));
    }

    /// Prints the table.
    pub fn print(&self) {
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::ASCII_MARKDOWN)
            .set_header(COLUMNS);
        for row in &self.rows {
            table.add_row(COLUMNS.map(|column| row[column].clone()));
        }
        println!("{table}");
    }

    /// All measurements as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.values).unwrap()
    }
}
