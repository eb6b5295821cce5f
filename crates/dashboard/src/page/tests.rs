//! Tests of the page: what it says, and that nothing of a cluster is markup.

use super::*;
use crate::{facts::PageFacts, fixtures};

/// All that is shown of these facts: the page, a search, and each Service.
fn everything(facts: PageFacts) -> Vec<String> {
    let page = whole(&fragments(&facts));
    let shown = Shown {
        fragments: Fragments::new(),
        facts: Some(facts),
    };
    let services = shown.facts.iter().flat_map(|facts| &facts.services);
    let services = services.map(|row| {
        let asked = NamedService {
            cluster: row.context.clone(),
            namespace: row.namespace.clone(),
            name: row.service.clone().unwrap_or_default(),
        };
        service(&shown, &asked)
    });
    [page, search(&shown, "")]
        .into_iter()
        .chain(services)
        .collect()
}

#[test]
fn templates_write_no_text_as_it_is_but_that_of_the_page() {
    for (name, text) in TEMPLATES {
        if name != "page" {
            assert!(!text.contains("{{{") && !text.contains("{{&"), "{name}");
        }
        // A policy without `unsafe-inline` refuses these.
        for refused in [" style=", " onclick=", "javascript:"] {
            assert!(!text.contains(refused), "{name}: {refused}");
        }
    }
}

#[test]
fn nothing_of_a_cluster_is_markup() {
    for html in everything(fixtures::hostile()) {
        let text = html.replace(assets::SCRIPT, "");
        for refused in ["<img", "onerror=\"", "\u{1b}", "\u{202e}", "[31m\u{202e}"] {
            assert!(!text.contains(refused), "{refused:?} in {text}");
        }
        assert_eq!(
            text.matches("</script>").count(),
            text.matches("<script>").count()
        );
        assert!(text.contains("&lt;img src"), "{text}");
    }
    let failed = diagnosis(&Err(fixtures::HOSTILE.to_owned()));
    assert!(
        !failed.contains("<img") && failed.contains("&lt;img"),
        "{failed}"
    );
}

#[test]
fn page_says_what_is_wrong_who_serves_and_what_is_old() {
    let [page, found, web, ..] = everything(fixtures::unanswered())
        .try_into()
        .unwrap_or_else(|all: Vec<String>| -> [String; 6] { panic!("{} parts", all.len()) });
    for said in [
        "cannot list Links: no answer within 10 s",
        "linkerd-mc --context east check",
        "ProbesFail",
        "dead <time datetime=\"2026-01-01T00:26:00Z\" data-span>",
        "Not seen: requests of north: you may not list Pods",
        "class=\"stale\"",
        "last answer <time datetime=\"2026-01-01T00:27:00Z\">",
        "away <time datetime=\"2026-01-01T00:24:00Z\" data-span>",
        "99.9 %",
        "2 other mirrors: find them by name above.",
        "linkerd-mc --context north drain west --dry-run",
        "failed over from local to east",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
    assert!(
        found.contains("href=\"#service/west/shop/db-east\""),
        "{found}"
    );
    for said in [
        "prefers local,east",
        "data-diagnose=\"west/shop/web-federated\"",
        "traffic shop/web-federated -o json",
    ] {
        assert!(web.contains(said), "{said}\n{web}");
    }
}

#[test]
fn nothing_was_read_yet_and_nothing_is_there() {
    let loading = whole(&loading());
    assert_eq!(
        loading.matches("Reading the clusters").count(),
        SECTIONS.len()
    );
    let empty = fragments(&PageFacts::default());
    let has = |id: &str, text: &str| assert!(empty[id].contains(text), "{}", empty[id]);
    has("problems", "Nothing is wrong.");
    has("map", "No cluster is linked.");
    has("links", "No Links found.");
    has("federated", "No Service is federated.");
}

#[test]
fn page_of_fifty_clusters_is_bounded() {
    assert!(assets::SCRIPT.len() < 10_000, "{}", assets::SCRIPT.len());
    let of = |mirrors| whole(&fragments(&fixtures::many(50, mirrors))).len();
    let (few, many) = (of(100), of(10_000));
    assert!(many < 600_000, "{many}");
    assert!(
        many - few < 5_000,
        "{few} {many}: mirrors are not part of the page"
    );
    assert!(whole(&fragments(&fixtures::few())).len() < 50_000);
}

/// Writes pages to a folder, to be looked at.
#[test]
fn pages_are_drawn_on_demand() {
    let Some(folder) = std::env::var_os("LINKERD_MC_PAGES") else {
        return;
    };
    let folder = std::path::Path::new(&folder);
    for (name, facts) in [
        ("few", fixtures::few()),
        ("unanswered", fixtures::unanswered()),
        ("many", fixtures::many(50, 10_000)),
        ("hostile", fixtures::hostile()),
        ("empty", PageFacts::default()),
    ] {
        std::fs::write(
            folder.join(format!("{name}.html")),
            whole(&fragments(&facts)),
        )
        .unwrap();
    }
}
