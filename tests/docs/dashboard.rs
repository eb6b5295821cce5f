//! The page on metrics and alerts: its picture of the dashboard is drawn from the dashboard itself (`just dashboard` draws
//! it again), and its table of alerts has the alerts that there are.
//!
//! The picture shows where each panel is, what it is about, and which metrics its queries read. It has no curves, because
//! they would be of some cluster on some day.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use serde::Deserialize;

use crate::{book::documents, markdown::Document, read, root, rows};

const DASHBOARD: &str = "dashboards/grafana.json";
const ALERTS: [&str; 2] = ["dashboards/alerts.yaml", "dashboards/traffic.yaml"];
/// Metrics of the clients' proxies that the dashboard reads.
const OF_PROXIES: [&str; 2] = ["response_total", "response_latency_ms"];
const PICTURE: &str = "docs/pictures/dashboard.svg";
const PAGE: &str = "docs/metrics.md";
const REFERENCE: &str = "docs/reference/metrics.md";

/// Width and height of a unit of the dashboard's grid, in pixels, and the gap between panels.
const UNIT: (usize, usize) = (40, 20);
const GAP: usize = 6;
/// Height of a line of text.
const LINE: usize = 13;
/// The mean width of a letter, in tenths of a pixel.
const LETTER: usize = 58;

#[derive(Deserialize)]
struct Dashboard {
    title: String,
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Panel {
    title: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    description: String,
    grid_pos: Place,
    #[serde(default)]
    targets: Vec<Query>,
    #[serde(default)]
    field_config: FieldConfig,
}

#[derive(Clone, Copy, Deserialize)]
struct Place {
    x: usize,
    y: usize,
    w: usize,
    h: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    expr: String,
    legend_format: String,
}

#[derive(Default, Deserialize)]
struct FieldConfig {
    defaults: Defaults,
}

#[derive(Default, Deserialize)]
struct Defaults {
    unit: Option<String>,
}

#[test]
fn picture_of_the_dashboard_is_current() {
    let dashboard: Dashboard =
        serde_json::from_str(&read(DASHBOARD)).expect("the dashboard is JSON");
    assert!(dashboard.panels.len() > 20, "only few panels found");
    let drawn = draw(&dashboard, &known());
    let file = root().join(PICTURE);
    if std::env::var_os("LINKERD_MC_DRAW").is_some() {
        fs::write(&file, &drawn).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    // Not with assert_eq!, which would print both.
    assert!(
        fs::read_to_string(&file).is_ok_and(|kept| kept == drawn),
        "{PICTURE} is outdated: run `just dashboard`"
    );
    let shown = Document::parse(&read(PAGE)).links;
    let link = PICTURE
        .strip_prefix("docs/")
        .expect("it is beside the page");
    assert!(shown.iter().any(|shown| shown == link), "{PAGE}");
}

/// The metrics of the reference.
fn known() -> BTreeSet<String> {
    let text = read(REFERENCE);
    let names = rows(&text).map(|cells| cells[0].trim_matches(['`', ' ']).to_owned());
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() > 30, "only {} metrics found", names.len());
    let of_proxies = OF_PROXIES.map(str::to_owned);
    names.into_iter().chain(of_proxies).collect()
}

fn draw(dashboard: &Dashboard, known: &BTreeSet<String>) -> String {
    let places = dashboard.panels.iter().map(|panel| panel.grid_pos);
    let ends = places.map(|place| ((place.x + place.w) * UNIT.0, (place.y + place.h) * UNIT.1));
    let (width, height) = ends.fold((0, 0), |(w, h), (x, y)| (w.max(x), h.max(y)));
    let (width, height) = (width + 2 * GAP, height + 2 * GAP);
    let title = format!("The panels of the dashboard {}", dashboard.title);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}" font-family="Helvetica, Arial, sans-serif" font-size="11">
  <title>{title}</title>
  <!-- Made by `just dashboard`. -->
  <style>.t{{font-size:13px;font-weight:bold;fill:#0f172a}}.d{{fill:#475569}}.k{{fill:#94a3b8;text-anchor:end}}.m{{font:10px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1d4ed8}}@media (prefers-color-scheme: dark) {{[fill="#ffffff"]{{fill:#0d1117}}.t{{fill:#e2e8f0}}.d{{fill:#94a3b8}}.m{{fill:#93c5fd}}[stroke="#cbd5e1"]{{stroke:#475569}}}}</style>
  <rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>
"##
    );
    for panel in &dashboard.panels {
        draw_panel(&mut svg, panel, known);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &Panel, known: &BTreeSet<String>) {
    let Place { x, y, w, h } = panel.grid_pos;
    let (left, top) = (GAP + x * UNIT.0 + GAP / 2, GAP + y * UNIT.1 + GAP / 2);
    let (width, height) = (w * UNIT.0 - GAP, h * UNIT.1 - GAP);
    let mut text = |class: &str, x: usize, y: usize, text: &str| {
        let text = escaped(text);
        let _ = writeln!(
            svg,
            r#"  <text class="{class}" x="{x}" y="{y}">{text}</text>"#
        );
    };
    if panel.kind == "row" {
        text("t", left, top + LINE - 2, &panel.title);
        return;
    }
    let inner = left + GAP + 2;
    let mut line = top + LINE + 2;
    text("t", inner, line, &panel.title);
    if panel.kind != "stat" {
        let unit = panel.field_config.defaults.unit.as_deref();
        let unit = unit.filter(|unit| *unit != "short");
        let kind = [Some(panel.kind.as_str()), unit];
        let kind: Vec<&str> = kind.into_iter().flatten().collect();
        text("k", left + width - GAP, line, &kind.join(", "));
    }
    let mut lines = Vec::new();
    let mut add = |class, words: &str| {
        lines.extend(
            wrapped(words, width - 2 * GAP)
                .into_iter()
                .map(|part| (class, part)),
        );
    };
    add("d", &panel.description);
    let mut legends: Vec<&str> = Vec::new();
    let mut metrics: Vec<&str> = Vec::new();
    for query in &panel.targets {
        let read = metrics_of(&query.expr, known);
        assert!(!read.is_empty(), "{}: {}", panel.title, query.expr);
        metrics.extend(read);
        legends.extend(Some(query.legend_format.as_str()).filter(|legend| !legend.is_empty()));
    }
    let mut seen = BTreeSet::new();
    metrics.retain(|metric| seen.insert(*metric));
    if !legends.is_empty() {
        add("d", &format!("Legend: {}", legends.join(", ")));
    }
    lines.extend(metrics.into_iter().map(|metric| ("m", metric.to_owned())));
    for (class, words) in lines {
        line += LINE;
        text(class, inner, line, &words);
    }
    assert!(line + GAP <= top + height, "{}: too much text", panel.title);
    let _ = writeln!(
        svg,
        r##"  <rect x="{left}" y="{top}" width="{width}" height="{height}" rx="5" fill="none" stroke="#cbd5e1"/>"##
    );
}

/// The metrics that a query reads, by their names in the reference.
fn metrics_of<'a>(query: &str, known: &'a BTreeSet<String>) -> Vec<&'a str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metric = |word: &str| {
        let base = word.strip_suffix("_bucket").unwrap_or(word);
        known.get(base).map(String::as_str)
    };
    words.filter_map(metric).collect()
}

/// Words in lines that fit into this many pixels.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let fits = |line: &&mut String| (line.len() + 1 + word.len()) * LETTER <= width * 10;
        if let Some(line) = lines.last_mut().filter(fits) {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[derive(Deserialize)]
struct Alerts {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    /// A recording rule has none.
    #[serde(default)]
    alert: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[test]
fn each_alert_is_documented_with_what_it_means_and_what_to_do() {
    let groups = ALERTS.into_iter().flat_map(|file| {
        let alerts: Alerts = serde_saphyr::from_str(&read(file)).expect("the alerts are YAML");
        alerts.groups
    });
    let rules = groups.flat_map(|group| group.rules);
    let rules: Vec<(String, String)> = rules
        .filter(|rule| !rule.alert.is_empty())
        .map(|mut rule| {
            (
                rule.alert,
                rule.labels.remove("severity").unwrap_or_default(),
            )
        })
        .collect();
    let text = read(PAGE);
    let mut documented = Vec::new();
    for cells in rows(&text).filter(|cells| cells[0].contains("LinkerdMc")) {
        let [alert, severity, meaning, action] = cells[..] else {
            panic!("{cells:?}")
        };
        assert!(meaning.len() > 20, "{alert}: {meaning}");
        assert!(action.contains("]("), "{alert} links to nothing: {action}");
        documented.push((alert.trim_matches('`').to_owned(), severity.to_owned()));
    }
    assert_eq!(documented, rules);
    for path in documents() {
        for code in Document::parse(&read(&path)).code {
            let known = rules.iter().any(|(alert, _)| *alert == code);
            let named = code.starts_with("LinkerdMc");
            assert!(known || !named, "{}: no alert {code}", path.display());
        }
    }
}
