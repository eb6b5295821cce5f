//! Each view in each of its states, light and dark, narrow and wide: as pictures, and for people who do not see them.

use std::{fs, path::Path};

use super::*;

const LIGHT: [(&str, &str); 2] = [
    ("prefers-color-scheme", "light"),
    ("prefers-reduced-motion", "reduce"),
];
const DARK: [(&str, &str); 2] = [
    ("prefers-color-scheme", "dark"),
    ("prefers-reduced-motion", "reduce"),
];
/// A Service with a view of its own.
const SERVICE: &str = "#service/west/shop/web-federated";
/// What was read in each state; nothing while it is read for the first time.
fn states() -> [(&'static str, Option<PageFacts>); 8] {
    [
        ("loading", None),
        (
            "empty",
            Some(PageFacts {
                read: fixtures::now(),
                old_after: 30,
                title: "west".to_owned(),
                ..PageFacts::default()
            }),
        ),
        ("few", Some(fixtures::few())),
        ("unanswered", Some(fixtures::unanswered())),
        ("silent", Some(fixtures::silent())),
        ("forbidden", Some(fixtures::forbidden())),
        ("several", Some(fixtures::many(13, 100))),
        ("many", Some(fixtures::many(50, 10_000))),
    ]
}

/// What keeps people from using what is shown, as axe-core finds it.
async fn barriers(page: &mut Opened) -> Value {
    let found = page.value(
        "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) => \
         `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join('; ')}`))",
    );
    found.await
}

#[tokio::test]
async fn each_view_fits_and_can_be_used_by_everybody() {
    if !Browser::installed("the page looks as it should") {
        return;
    }
    let axe = fs::read_to_string(programs::axe().unwrap()).unwrap();
    for (state, facts) in states() {
        let mut page = opened(facts).await;
        page.value(&axe).await;
        if state == "empty" {
            page.value("document.body.append(document.createElement('input'))")
                .await;
            let found = barriers(&mut page).await.to_string();
            assert!(found.contains("label: "), "axe-core finds nothing: {found}");
            page.value("document.body.lastChild.remove()").await;
        }
        let hashes: &[&str] = match state {
            "few" => &["", SERVICE],
            // Which is not there.
            "several" => &[SERVICE],
            _ => &[""],
        };
        for hash in hashes {
            page.view(hash).await;
            for (scheme, preferred) in [("light", LIGHT), ("dark", DARK)] {
                page.tab.prefer(&preferred).await.unwrap();
                for width in [360, 1280, 2560] {
                    let what = format!("{state}{hash}, {scheme}, {width}");
                    page.tab.resize(width, 900).await.unwrap();
                    let wide = page.value("document.documentElement.scrollWidth").await;
                    assert_eq!(wide, width, "{what}");
                    // That of many clusters has the same elements, and takes minutes.
                    let is_judged = state != "many" && width < 2560;
                    if is_judged && (scheme == "light") == (width == 1280) {
                        let found = barriers(&mut page).await;
                        assert_eq!(found, serde_json::json!([]), "{what}: {found:#}");
                    }
                    page.keep(&what).await;
                }
            }
        }
        page.is_content();
    }
}

/// The pictures of the documents: name, state, where the page is, size, and whether it is dark.
const PICTURES: [(&str, &str, &str, [u32; 2], bool); 5] = [
    ("page.webp", "few", "", [1280, 1200], false),
    ("page-dark.webp", "few", "", [1280, 1200], true),
    ("page-service.webp", "few", SERVICE, [1280, 420], false),
    ("page-many.webp", "many", "#map", [1280, 850], false),
    ("page-narrow.webp", "unanswered", "", [360, 700], true),
];
/// Most bytes of a picture.
const SMALL: u64 = 90_000;

/// Fonts differ from machine to machine, so it is only on demand that these are drawn: `just page`.
#[tokio::test]
async fn pictures_of_the_documents_are_drawn_on_demand() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"));
    if std::env::var_os("LINKERD_MC_DRAW").is_some() && Browser::installed("pictures of the page") {
        for (name, state, hash, [width, height], is_dark) in PICTURES {
            let (_, facts) = states().into_iter().find(|(of, _)| *of == state).unwrap();
            let mut page = opened(facts).await;
            page.tab.resize(width, height).await.unwrap();
            let preferred = if is_dark { DARK } else { LIGHT };
            page.tab.prefer(&preferred).await.unwrap();
            page.view(hash).await;
            page.until("document.getElementById('state').textContent === 'live'")
                .await;
            page.value("document.activeElement.blur()").await;
            fs::write(folder.join(name), page.tab.picture("webp").await.unwrap()).unwrap();
        }
    }
    for (name, ..) in PICTURES {
        let size = fs::metadata(folder.join(name)).unwrap().len();
        assert!(size < SMALL, "{name}: {size}");
    }
}

impl Opened {
    /// Goes to a view by its link.
    async fn view(&mut self, hash: &str) {
        self.value(&format!("location.hash = '{hash}'")).await;
        let is_service = hash.starts_with("#service");
        self.until(&format!(
            "document.getElementById('service').hidden !== {is_service} && \
             !document.querySelector('#service:empty:not([hidden])')"
        ))
        .await;
    }

    /// Writes a picture of the whole page to the folder `LINKERD_MC_PAGES`, if there is one, to be looked at.
    async fn keep(&mut self, what: &str) {
        let Some(folder) = std::env::var_os("LINKERD_MC_PAGES") else {
            return;
        };
        let size =
            self.value("[innerWidth, Math.min(4000, document.documentElement.scrollHeight)]");
        let [width, height] = serde_json::from_value(size.await).unwrap();
        self.tab.resize(width, height).await.unwrap();
        let picture = self.tab.picture("png").await.unwrap();
        let name = what.replace(['#', '/', ' '], "").replace(',', "-");
        let file = std::path::Path::new(&folder).join(name + ".png");
        fs::write(file, picture).unwrap();
    }
}
