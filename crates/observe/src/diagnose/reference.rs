//! Checks that `docs/reference/causes.md` lists all causes. `just reference` generates it.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use crate::finding::causes::{Cause, CauseInfo, Layer};

/// The text above the tables.
const HEAD: &str = "\
# Causes

What [`diagnose`](commands.md#diagnose) names as the cause of a request that fails, or that goes elsewhere. It judges the layers in this \
order, and stops at the first that is broken.
";

#[test]
fn reference_of_causes_is_current() {
    let mut text = HEAD.to_owned();
    for layer in Layer::ALL {
        write!(text, "\n## {}\n\n{}\n", layer.name(), layer.about()).unwrap();
        let causes = Cause::ALL.iter().filter(|cause| cause.layer() == layer);
        let infos: Vec<CauseInfo> = causes.map(|cause| cause.info()).collect();
        if !infos.is_empty() {
            text.push_str("\n| Cause | It means | Do |\n| --- | --- | --- |\n");
        }
        for info in infos {
            writeln!(
                text,
                "| `{}` | {} | {} |",
                info.name, info.meaning, info.fix
            )
            .unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/causes.md");
    if std::env::var_os("LINKERD_MC_DRAW").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        kept, text,
        "docs/reference/causes.md is outdated: run `just reference`"
    );
}

#[test]
fn each_cause_has_a_row_of_its_own() {
    let names: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.info().name).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for info in Cause::ALL.iter().map(|cause| cause.info()) {
        for text in [info.meaning, info.fix] {
            assert!(
                text.ends_with('.') && !text.contains('|'),
                "{}: {text}",
                info.name
            );
        }
    }
    let layers: Vec<Layer> = Cause::ALL.iter().map(|cause| cause.layer()).collect();
    assert!(layers.is_sorted(), "they are in the order of the layers");
}
