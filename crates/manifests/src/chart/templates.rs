//! Templates of `install` → Helm templates, tag by tag. The text between the tags is not changed.
//!
//! Paths start at `$ctx` in a template, and at `.` in a part that others include.

use std::fmt::Write as _;

use crate::render::Template;

/// The comment at the top of each file.
pub const GENERATED: &str = "Generated: run `just chart`.";

/// Helm must not delete the CRD, and with it all Links, when the chart is uninstalled or leaves it out.
const KEEP: &str = "    helm.sh/resource-policy: keep\n";

/// A file of the chart, inside of the block that begins so.
pub fn whole((name, source): Template, block: Option<&str>) -> String {
    let mut text = format!(
        "{{{{- /* From templates/{name}.hbs. {GENERATED} */}}}}\n\
         {{{{- $ctx := include \"linkerd-mc.context\" . | fromJson }}}}\n"
    );
    let converted = convert(source, "$ctx");
    match block {
        Some(block) => {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{block}{converted}{{{{- end }}}}");
        }
        None => text += &converted,
    }
    if name == "link-crd.yaml" {
        let annotations = "  annotations:\n";
        assert_eq!(
            text.matches(annotations).count(),
            1,
            "annotations of the CRD"
        );
        text = text.replace(annotations, &format!("{annotations}{KEEP}"));
    }
    text
}

/// A file with parts that templates include.
pub fn partials(parts: &[Template]) -> String {
    let mut text = format!("{{{{- /* {GENERATED} */}}}}\n");
    for (name, source) in parts {
        let _ = write!(
            text,
            "\n{{{{- define \"linkerd-mc.{name}\" -}}}}\n{}{{{{- end }}}}\n",
            convert(source, "")
        );
    }
    text
}

fn convert(source: &str, root: &str) -> String {
    let (mut text, mut rest) = (String::new(), source);
    while let Some((before, tag, after)) = next_tag(rest) {
        text += before;
        let line = text.rsplit('\n').next().unwrap_or_default();
        let alone = line.trim().is_empty() && after.starts_with('\n');
        let (action, trims) = action(tag, root, line.len());
        let dash = if trims || (alone && !is_value(tag)) {
            "-"
        } else {
            ""
        };
        let _ = write!(text, "{{{{{dash} {action} }}}}");
        rest = after;
    }
    text + rest
}

fn next_tag(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (tag, after) = rest.split_once("}}").expect("tags are closed");
    Some((before, tag, after))
}

fn is_value(tag: &str) -> bool {
    !tag.starts_with(['#', '/', '>']) && tag != "else"
}

/// Helm's action for a tag in column `column`, and whether the action includes its own line break.
fn action(tag: &str, root: &str, column: usize) -> (String, bool) {
    if tag == "else" {
        return (tag.to_owned(), false);
    }
    if tag.starts_with('/') {
        return ("end".to_owned(), false);
    }
    let mut words = Words(tag);
    let (_, name) = words.next().expect("a tag is not empty");
    match name {
        "#when" => (format!("if {}", words.value(root)), false),
        "#each" => (format!("range {}", words.value(root)), false),
        ">" => {
            let (_, part) = words.next().expect("a part has a name");
            let mut params = String::new();
            for (_, word) in words {
                let (key, value) = word.split_once('=').expect("key=value");
                let _ = write!(params, " \"{key}\" {value}");
            }
            let include = format!("include \"linkerd-mc.{part}\" (dict{params})");
            (format!("{include} | nindent {column}"), true)
        }
        "block" => {
            let indent = words.value(root);
            let value = words.value(root);
            (format!("toYaml {value} | nindent {indent}"), true)
        }
        "entries" => {
            let indent = words.value(root);
            let map = words.value(root);
            let mut pairs = String::new();
            for (space, word) in words {
                let _ = write!(pairs, "{space}{}", operand(word, root));
            }
            let entries = format!("include \"linkerd-mc.entries\" (list {map} (dict{pairs}))");
            (format!("{entries} | nindent {indent}"), true)
        }
        "text" | "json" => (format!("toJson {}", words.value(root)), false),
        value => (format!("toJson {}", operand(value, root)), false),
    }
}

/// A word as an operand of Helm.
fn operand(word: &str, root: &str) -> String {
    if let Some(inner) = word
        .strip_prefix('(')
        .and_then(|word| word.strip_suffix(')'))
    {
        let mut words = Words(inner);
        let helper = words.next().map(|(_, word)| word);
        assert_eq!(helper, Some("concat"), "{word}");
        let parts: Vec<String> = words.map(|(_, word)| operand(word, root)).collect();
        return format!("(print {})", parts.join(" "));
    }
    match word {
        "this" => ".".to_owned(),
        _ if word.starts_with('"') || word.parse::<u32>().is_ok() => word.to_owned(),
        _ => match word.strip_prefix("@root.") {
            Some(path) => format!("$ctx.{path}"),
            None => format!("{root}.{word}"),
        },
    }
}

/// The words of a tag, each with the space before it. Text in quotes is one word, and so is text in parentheses.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (space, rest) = self.0.split_at(self.0.len() - self.0.trim_start().len());
        let (mut quoted, mut depth) = (false, 0_u32);
        let end = rest.find(|c| {
            match c {
                '"' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ')' if !quoted => depth = depth.saturating_sub(1),
                _ => (),
            }
            char::is_whitespace(c) && !quoted && depth == 0
        });
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        (!word.is_empty()).then_some((space, word))
    }
}

impl Words<'_> {
    fn value(&mut self, root: &str) -> String {
        let (_, word) = self.next().expect("a helper has its parameters");
        operand(word, root)
    }
}

#[test]
fn tags_are_converted_to_helm_actions() {
    for (source, expected) in [
        ("k: {{text a.b}}\n", "k: {{ toJson $ctx.a.b }}\n"),
        (
            "k: {{text (concat this \":\" @root.n)}}\n",
            "k: {{ toJson (print . \":\" $ctx.n) }}\n",
        ),
        ("k:{{block 4 x}}\n", "k:{{- toYaml $ctx.x | nindent 4 }}\n"),
        (
            "k:{{entries 2 x \"a b\" \"c\"\n  \"d\" e}}\n",
            "k:{{- include \"linkerd-mc.entries\" (list $ctx.x (dict \"a b\" \"c\"\n  \"d\" $ctx.e)) | nindent 2 }}\n",
        ),
        (
            "{{#when x}}\nk: 1\n{{else}}\nk: 2\n{{/when}}\n",
            "{{- if $ctx.x }}\nk: 1\n{{- else }}\nk: 2\n{{- end }}\n",
        ),
        (
            "[a{{#when x}}, b{{/when}}]",
            "[a{{ if $ctx.x }}, b{{ end }}]",
        ),
        (
            "{{#each x}}\n- {{this}}\n{{/each}}\n",
            "{{- range $ctx.x }}\n- {{ toJson . }}\n{{- end }}\n",
        ),
        (
            "a:\n  {{> part on=true}}\n",
            "a:\n  {{- include \"linkerd-mc.part\" (dict \"on\" true) | nindent 2 }}\n",
        ),
    ] {
        assert_eq!(convert(source, "$ctx"), expected);
    }
    assert_eq!(
        convert("{{#when x}}a{{/when}}", ""),
        "{{ if .x }}a{{ end }}"
    );
}
