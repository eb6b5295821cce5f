//! Facts → HTML. Pure.
//!
//! Each section of the page is a fragment, which tabs get again only if it has changed. So a fragment has times and no ages:
//! the script turns a time into an age. All text is escaped, and loses control characters, wherever it comes from; only
//! what this module made itself is HTML.

mod assets;
mod clusters;
mod federated;
mod links;
mod map;
mod problems;
mod services;
mod shown;

pub use self::federated::LOST;

use std::{collections::BTreeMap, sync::Arc};

use handlebars::{Handlebars, html_escape};
use http::HeaderValue;
use mirror_core::api::text::one_line;
use observe::diagnose::{Diagnosis, report};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::LazyLock;

use crate::facts::{NamedService, PageFacts};

/// The parts of the page, by the `id` of their elements.
pub type Fragments = BTreeMap<&'static str, Arc<str>>;

/// What is shown.
#[derive(Default)]
pub struct Shown {
    /// What it was made of; `None` until it was read for the first time.
    pub facts: Option<PageFacts>,
    /// The parts of the page.
    pub fragments: Fragments,
}

/// The sections, and their headings.
const SECTIONS: [(&str, &str); 6] = [
    ("problems", "What is wrong now"),
    ("map", "Clusters and Links"),
    ("links", "Links"),
    ("federated", "Federated Services"),
    ("happened", "What happened"),
    ("clusters", "Clusters and versions"),
];

/// All templates, with the name of each.
macro_rules! templates {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../templates/", $name, ".hbs")))),*]
    };
}

const TEMPLATES: [(&str, &str); 19] = templates![
    "page",
    "now",
    "time",
    "span",
    "command",
    "twin",
    "loading",
    "problems",
    "map",
    "links",
    "serving",
    "requests",
    "members",
    "federated",
    "happened",
    "clusters",
    "search",
    "service",
    "diagnosis",
];

static ENGINE: LazyLock<Handlebars<'static>> = LazyLock::new(|| {
    let mut engine = Handlebars::new();
    engine.register_escape_fn(|text| html_escape(&one_line(text)));
    for (name, text) in TEMPLATES {
        let parsed = engine.register_template_string(name, text.trim_end());
        parsed.expect("the templates are part of the program, and a test parses them");
    }
    engine
});

/// A template with these values.
fn render(template: &str, values: &impl Serialize) -> String {
    let text = ENGINE.render(template, values);
    text.expect("templates have no helpers that fail, and all values are JSON")
}

/// The parts of the page before anything was read.
pub fn loading() -> Fragments {
    let sections = SECTIONS.map(|(id, heading)| (id, render("loading", &json!(heading)).into()));
    let now = json!({ "title": "", "counts": "reading the clusters" });
    sections
        .into_iter()
        .chain([("now", render("now", &now).into())])
        .collect()
}

/// The parts of the page.
pub fn fragments(facts: &PageFacts) -> Fragments {
    [
        ("now", render("now", &shown::header(facts))),
        ("problems", render("problems", &problems::view(facts))),
        ("map", render("map", &map::view(facts))),
        ("links", render("links", &links::view(facts))),
        ("federated", render("federated", &federated::view(facts))),
        ("happened", render("happened", &shown::happened(facts))),
        ("clusters", render("clusters", &clusters::view(facts))),
    ]
    .map(|(id, html)| (id, Arc::from(html)))
    .into()
}

/// The page as it is sent first.
pub fn whole(fragments: &Fragments) -> String {
    let mut values: BTreeMap<&str, &str> =
        fragments.iter().map(|(id, html)| (*id, &**html)).collect();
    values.insert("style", assets::STYLE);
    values.insert("script", assets::SCRIPT);
    render("page", &values)
}

/// What the page may do: run its own script, use its own style, and ask this server.
pub fn policy() -> HeaderValue {
    assets::POLICY.clone()
}

/// Services whose names have this text.
pub fn search(shown: &Shown, text: &str) -> String {
    match &shown.facts {
        Some(facts) => render("search", &services::search(facts, text)),
        None => render("loading", &json!("Services found")),
    }
}

/// All about a Service.
pub fn service(shown: &Shown, service: &NamedService) -> String {
    match &shown.facts {
        Some(facts) => render("service", &services::view(facts, service)),
        None => render("loading", &json!(service.name)),
    }
}

/// Why requests to a Service fail, or why that is not known.
pub fn diagnosis(found: &Result<Diagnosis, String>) -> String {
    let values: Value = match found {
        Ok(diagnosis) => json!(report::document(diagnosis)),
        Err(error) => json!({ "error": error }),
    };
    render("diagnosis", &values)
}

#[cfg(test)]
mod tests;
