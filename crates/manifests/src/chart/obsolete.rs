//! Facts about keys for the chart's templates: which are obsolete, and which have more than one syntax.

use std::fmt::Write as _;

use serde_json::json;

use super::templates::GENERATED;
use crate::values::{Kind, OBSOLETE, Replacement, Values, keys, pointer};

/// A template file that defines these facts as YAML.
pub fn template() -> String {
    let defaults = json!(Values::default());
    let obsolete = OBSOLETE.iter().map(|(key, replacement)| {
        let replacement = match replacement {
            Replacement::Renamed(to) => json!({
                "key": key, "to": to, "default": defaults.pointer(&pointer(to)),
            }),
            Replacement::NoEffect(why) => json!({ "key": key, "why": why }),
        };
        format!("- {replacement}\n")
    });
    let of = |wanted: fn(Kind) -> bool| {
        keys()
            .filter(move |(_, kind)| wanted(*kind))
            .map(|(key, _)| format!("- {}\n", key.path))
    };
    let mut text = format!("{{{{- /* {GENERATED} */}}}}\n");
    define(
        &mut text,
        "obsolete",
        "Keys of Linkerd's chart: their replacement and its default, or why they have no effect",
        obsolete,
    );
    define(
        &mut text,
        "lists",
        "Lists that may be given as text with commas",
        of(|kind| {
            matches!(
                kind,
                Kind::TextOrList | Kind::Namespaces | Kind::AccountNames
            )
        }),
    );
    define(
        &mut text,
        "maps",
        "Maps of text",
        of(|kind| matches!(kind, Kind::Labels | Kind::NodeLabels | Kind::Annotations)),
    );
    text
}

fn define(text: &mut String, name: &str, doc: &str, lines: impl Iterator<Item = String>) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n{{{{- /* {doc}. */}}}}\n{{{{- define \"linkerd-mc.{name}\" }}}}\n"
    );
    text.extend(lines);
    text.push_str("{{- end }}\n");
}
