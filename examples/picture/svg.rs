//! Draws a recording as an SVG that is animated with CSS only: without scripts, fonts or external resources.
//!
//! Each frame is a group with the rows that have changed, drawn over the rows of earlier frames. A group is hidden
//! until the time of its frame. A viewer without animations shows all groups, and so the last frame.

use std::fmt::Write as _;

use crate::{
    recording::Recording,
    screen::{Row, Style},
};

/// Width and height of a character, in pixels, at the size of the text.
const CELL: (f64, f64) = (8.0, 18.0);
const SIZE: f64 = 13.3;
/// Distance from the top of a cell to the baseline of its text.
const BASE: f64 = 13.0;
/// Margin around the terminals, and height of the title bars.
const EDGE: f64 = 16.0;
const BAR: f64 = 30.0;
/// How long the last frame is shown.
const HOLD: f64 = 6.0;

/// The colours of a terminal.
struct Palette {
    back: &'static str,
    plain: &'static str,
    /// Lines and titles.
    frame: &'static str,
    title: &'static str,
    colours: [&'static str; 16],
}

/// The colours for browsers that prefer light pages, or have no preference.
const LIGHT: Palette = Palette {
    back: "#ffffff",
    plain: "#1f2328",
    frame: "#afb8c1",
    title: "#57606a",
    colours: [
        "#24292f", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83",
        "#57606a", //
        "#57606a", "#a40e26", "#1a7f37", "#633c01", "#218bff", "#a475f9", "#3192aa", "#24292f",
    ],
};
const DARK: Palette = Palette {
    back: "#161b22",
    plain: "#d6dde5",
    frame: "#57606a",
    title: "#8b949e",
    colours: [
        "#6e7681", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd",
        "#d6dde5", //
        "#8b949e", "#ffa198", "#7ee787", "#f2cc60", "#a5d6ff", "#e2c5ff", "#76e3ea", "#ffffff",
    ],
};

impl Palette {
    /// The CSS rules that set colours.
    fn rules(&self) -> String {
        let Self {
            back,
            plain,
            frame,
            title,
            colours,
        } = self;
        let mut rules = format!(
            "text{{fill:{plain}}}.t,#k{{fill:{title}}}#r,.w{{fill:{back}}}.w,.l{{stroke:{frame}}}"
        );
        for (index, colour) in colours.iter().enumerate() {
            let _ = write!(rules, ".c{index}{{fill:{colour}}}");
        }
        rules
    }
}

/// Returns the recording as SVG.
pub(crate) fn draw(recording: &Recording) -> String {
    let mut tops = Vec::new();
    let mut height = 0.0;
    let mut bars = String::new();
    for (title, rows) in recording.titles() {
        bar(
            &mut bars,
            title,
            height,
            recording.columns(),
            tops.is_empty(),
        );
        height += BAR + EDGE / 2.0;
        for _ in 0..*rows {
            tops.push(height);
            height += CELL.1;
        }
        height += EDGE / 2.0;
    }
    let width = f64::from(recording.columns()) * CELL.0 + 2.0 * EDGE;
    let frames = recording.frames();
    let total = frames.last().map_or(0.0, |frame| frame.at.as_secs_f64()) + HOLD;

    let (mut style, mut groups) = (String::new(), String::new());
    let mut before = vec![Row::default(); tops.len()];
    for (number, frame) in frames.iter().enumerate() {
        if number == 0 {
            groups.push_str("<g>");
        } else {
            let percent = frame.at.as_secs_f64() / total * 100.0;
            // The group becomes visible at the time of its frame.
            let _ = write!(
                style,
                "@keyframes f{number}{{0%{{visibility:hidden}}{percent:.2}%{{visibility:visible}}}}"
            );
            let _ = write!(groups, r#"<g style="animation-name:f{number}">"#);
        }
        for (row, (new, old)) in frame.rows.iter().zip(&before).enumerate() {
            if new != old {
                draw_row(&mut groups, new, tops[row], number > 0);
            }
        }
        groups.push_str("</g>\n");
        before.clone_from(&frame.rows);
    }
    let (light, dark) = (LIGHT.rules(), DARK.rules());
    let _ = write!(style, "{light}@media(prefers-color-scheme:dark){{{dark}}}");
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<!-- Made by `just picture`. -->
<style>text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}.b{{font-weight:bold}}.d{{opacity:.7}}.t{{text-anchor:middle}}
g[style]{{animation:{total:.2}s step-end infinite}}@media(prefers-reduced-motion:reduce){{g[style]{{animation:none}}}}
{style}</style>
<defs><path id="r" d="M0 0h{line}v{cell}h-{line}z"/><path id="k" d="M0 1h{column}v{block}h-{column}z"/></defs>
<rect x=".5" y=".5" width="{w}" height="{h}" rx="9.5" class="w"/>
{bars}{groups}</svg>
"#,
        line = width - 2.0 * EDGE + 8.0,
        cell = CELL.1,
        column = CELL.0,
        block = CELL.1 - 2.0,
        w = width - 1.0,
        h = height - 1.0,
    )
}

/// Draws the title bar above a terminal. The first bar has the buttons of a window, the others a line.
fn bar(out: &mut String, title: &str, top: f64, columns: u16, first: bool) {
    let width = f64::from(columns) * CELL.0 + 2.0 * EDGE;
    let middle = top + BAR / 2.0;
    if first {
        for (number, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
            let x = 20 + 20 * number;
            let _ = write!(
                out,
                r#"<circle cx="{x}" cy="{middle}" r="6" fill="{colour}"/>"#
            );
        }
    } else {
        let _ = write!(out, r#"<path class="l" d="M0 {top}h{width}"/>"#);
    }
    let _ = writeln!(
        out,
        r#"<text class="t" x="{}" y="{}">{}</text>"#,
        width / 2.0,
        middle + 5.0,
        escaped(title)
    );
}

/// Draws a row. `cover` hides what earlier frames have drawn there.
fn draw_row(out: &mut String, row: &Row, top: f64, cover: bool) {
    if cover {
        let _ = write!(out, r##"<use href="#r" x="{}" y="{top}"/>"##, EDGE - 4.0);
    }
    let x = |column: u16| EDGE + f64::from(column) * CELL.0;
    if let Some(column) = row.cursor {
        let _ = write!(out, r##"<use href="#k" x="{}" y="{top}"/>"##, x(column));
    }
    for run in &row.runs {
        let (x, y, width) = (x(run.column), top + BASE, f64::from(run.width) * CELL.0);
        let class = class(run.style);
        let text = escaped(&run.text);
        // `textLength` fixes the width, so that columns are aligned in any font.
        let _ = write!(
            out,
            r#"<text{class} x="{x}" y="{y}" textLength="{width}" lengthAdjust="spacingAndGlyphs">{text}</text>"#
        );
    }
}

fn class(style: Style) -> String {
    let mut names = Vec::new();
    names.extend(style.colour.map(|index| format!("c{index}")));
    names.extend(style.bold.then(|| "b".to_owned()));
    names.extend(style.dim.then(|| "d".to_owned()));
    if names.is_empty() {
        return String::new();
    }
    format!(r#" class="{}""#, names.join(" "))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
