//! Checks that `docs/reference/metrics.md` lists all metrics. `just reference` generates it.

use std::{fmt::Write as _, fs, path::Path};

use prometheus::proto::MetricType;

use super::tests::filled;

/// The text above the table.
const HEAD: &str = "\
# Metrics

What the controller serves at `/metrics`. [Metrics and alerts](../metrics.md) says how to use it. Metrics that begin with \
`process_` are on Linux only.

| Metric | Type | Labels | What it is |
| --- | --- | --- | --- |
";

#[test]
fn reference_of_metrics_is_current() {
    let mut text = HEAD.to_owned();
    for family in filled().0.registry.gather() {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            kind => panic!("{kind:?}"),
        };
        let labels: Vec<String> = family
            .get_metric()
            .first()
            .map(prometheus::proto::Metric::get_label)
            .unwrap_or_default()
            .iter()
            .map(|label| format!("`{}`", label.name()))
            .collect();
        let labels = if labels.is_empty() {
            "–".to_owned()
        } else {
            labels.join(", ")
        };
        let (name, help) = (family.name(), family.help().trim_end_matches('.'));
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if std::env::var_os("LINKERD_MC_DRAW").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    // On systems without process metrics, all others are compared.
    let ours = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("| `process_"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        ours(&kept),
        ours(&text),
        "docs/reference/metrics.md is outdated: run `just reference`"
    );
}
