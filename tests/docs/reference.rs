//! The reference in `docs/reference`: made of what the program says and of its sources, and compared. `just reference`
//! writes it anew. The page of metrics is written by a unit test of the controller, which has the registry.

use std::{collections::BTreeMap, fmt::Write as _, fs, process::Command};

use syn::{Attribute, Expr, Item, Lit, Meta};

use crate::{listed_commands, read, root};

/// Compares a page with what it should be, or writes it.
fn hold(page: &str, text: &str) {
    let file = root().join("docs/reference").join(page);
    let mut kept = fs::read_to_string(&file).unwrap_or_default();
    // Other tests read the page meanwhile, so it is not touched without need.
    if kept != text && std::env::var_os("LINKERD_MC_DRAW").is_some() {
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.clone_into(&mut kept);
    }
    let differs = kept
        .lines()
        .zip(text.lines())
        .find(|(kept, made)| kept != made);
    assert!(
        kept == text,
        "docs/reference/{page} is outdated: run `just reference`; the first difference: {differs:?}"
    );
}

/// What the program prints, without colours and 100 columns wide.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// Adds the help of a command, and returns it.
fn described(text: &mut String, command: &str) -> String {
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = printed(&words);
    let (own, _) = split_global(&help);
    let _ = write!(text, "\n## {command}\n\n```text\n{own}\n```\n");
    help
}

/// The parts of a help that are about the command alone, and its global options.
fn split_global(help: &str) -> (String, String) {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let text = lines.join("\n");
    let (mut own, mut global, mut inside) = (Vec::new(), Vec::new(), false);
    for part in text.split("\n\n") {
        let flag = part.strip_prefix("Options:\n").unwrap_or(part);
        inside = part.starts_with("Global options:") || inside && part.starts_with(' ');
        if inside {
            global.push(part);
        } else if !["  -h, --help", "  -V, --version"]
            .iter()
            .any(|always| flag.starts_with(always))
        {
            own.push(part);
        }
    }
    (own.join("\n\n"), global.join("\n\n"))
}

#[test]
fn reference_of_commands_is_current() {
    let mut text = String::from(
        "# Commands\n\nThe help of each command, as `linkerd-mc COMMAND --help` prints it. Exit codes: 0 if it succeeded, 1 if it \
         failed, 2 if the command line is wrong. `plan` and `fleet plan` exit with 2 if there is something to change. All have \
         `--help`, and those that contact clusters the [global options](#global-options).\n",
    );
    for name in listed_commands() {
        let help = described(&mut text, &name);
        let inner = help.lines().skip_while(|line| *line != "Commands:");
        let inner = inner.take_while(|line| !line.is_empty());
        let inner = inner.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let inner = inner.filter_map(|line| line.split_whitespace().next());
        for inner in inner.filter(|inner| *inner != "help") {
            described(&mut text, &format!("{name} {inner}"));
        }
    }
    let (_, global) = split_global(&printed(&["status", "--help"]));
    let _ = write!(text, "\n## Global options\n\n```text\n{global}\n```\n");
    hold("commands.md", &text);
}

#[test]
fn reference_of_values_is_current() {
    let mut text = String::from(
        "# Values\n\nThe values of `install`, which `--values FILE` and `--set key=value` override. `linkerd-mc install \
         --print-values` prints them as a file.\n",
    );
    let mut groups: BTreeMap<usize, (String, Vec<String>)> = BTreeMap::new();
    let mut order = vec![String::new()];
    groups.insert(0, (String::new(), Vec::new()));
    // The groups around a line, and the comment above it.
    let (mut open, mut comment): (Vec<String>, String) = (Vec::new(), String::new());
    let printed = printed(&["install", "--print-values"]);
    let lines: Vec<&str> = printed
        .lines()
        .skip_while(|line| !line.is_empty())
        .collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        let shown = inner.strip_prefix("# ").unwrap_or(inner);
        // A line of a comment, not a key that is commented out.
        let mut found_out = ["identityTrustDomain:", "version:"].into_iter();
        if inner.starts_with("# ") && !found_out.any(|key| shown.starts_with(key)) {
            comment = shown.to_owned();
            continue;
        }
        let Some((name, value)) = shown.split_once(':') else {
            continue;
        };
        open.truncate(indent / 2);
        let mut value = value.trim().to_owned();
        while let Some(item) = lines
            .get(at)
            .and_then(|line| line.trim_start().strip_prefix("- "))
        {
            if !value.is_empty() {
                value.push_str(", ");
            }
            value.push_str(item);
            at += 1;
        }
        let path = open
            .iter()
            .map(String::as_str)
            .chain([name])
            .collect::<Vec<_>>()
            .join(".");
        if let Some((meaning, kind)) = comment.split_once(". Value: ") {
            if name == "version" {
                value = "that of the binary".to_owned();
            }
            let group = order
                .iter()
                .position(|group| *group == open.join("."))
                .expect("it is open");
            let rows = &mut groups.get_mut(&group).expect("it is there").1;
            let default = if value.is_empty() {
                "–".to_owned()
            } else {
                format!("`{value}`")
            };
            rows.push(format!(
                "| `{path}` | {default} | {} | {meaning} |",
                kind.trim_end_matches('.')
            ));
        } else {
            open.push(name.to_owned());
            groups.insert(order.len(), (comment.clone(), Vec::new()));
            order.push(path);
        }
    }
    let mut found = 0;
    for (at, (doc, rows)) in &groups {
        found += rows.len();
        let title = if *at == 0 {
            "For all".to_owned()
        } else {
            format!("`{}`", order[*at])
        };
        let _ = write!(text, "\n## {title}\n\n");
        if !doc.is_empty() {
            let _ = write!(text, "{doc}\n\n");
        }
        let _ = write!(
            text,
            "| Value | Default | Type | Meaning |\n| --- | --- | --- | --- |\n{}\n",
            rows.join("\n")
        );
    }
    assert!(found > 70, "only {found} values found");
    hold("values.md", &text);
}

/// A constant text with what is said of it.
struct Constant {
    name: String,
    value: String,
    doc: String,
}

fn constants(items: &[Item]) -> Vec<Constant> {
    let found = items.iter().filter_map(|item| match item {
        Item::Const(item) => Some(Constant {
            name: item.ident.to_string(),
            value: text_of(&item.expr)?,
            doc: doc(&item.attrs),
        }),
        _ => None,
    });
    found.collect()
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The doc comment, on one line.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(meta) if meta.path.is_ident("doc") => text_of(&meta.value),
            _ => None,
        });
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    lines.join(" ")
}

fn items(file: &str) -> Vec<Item> {
    syn::parse_file(&read(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"))
        .items
}

#[test]
fn reference_of_labels_is_current() {
    let constants = constants(&items("crates/mirror-core/src/api/labels.rs"));
    let mut text = String::from(
        "# Labels and annotations\n\nAll keys that linkerd-mc reads or writes. Those of linkerd-mc have no meaning for Linkerd's \
         own service mirror.\n\n| Key | Of | What it is |\n| --- | --- | --- |\n",
    );
    let mut found = 0;
    for constant in &constants {
        let Constant {
            value: key, doc, ..
        } = constant;
        let is_key = key
            .split_once('/')
            .is_some_and(|(_, name)| !name.is_empty() && !name.contains('='));
        let what = doc.split_whitespace().next().unwrap_or_default();
        if !is_key
            || ![
                "Label",
                "Annotation",
                "As",
                "Argo",
                "Kubernetes'",
                "Default",
            ]
            .contains(&what)
        {
            continue;
        }
        let of = if doc.contains("(ours)") {
            "linkerd-mc"
        } else if key.contains("linkerd.io/") {
            "Linkerd"
        } else if key.contains("argoproj") {
            "Argo CD"
        } else {
            "Kubernetes"
        };
        let mut doc = doc.replace(" (ours)", "").replace('|', "\\|");
        for other in &constants {
            doc = doc.replace(
                &format!("[`{}`]", other.name),
                &format!("`{}`", other.value),
            );
        }
        assert!(!doc.contains("[`"), "leads nowhere: {doc}");
        let _ = writeln!(text, "| `{key}` | {of} | {doc} |");
        found += 1;
    }
    assert!(found > 40, "only {found} keys found");
    hold("labels.md", &text);
}

#[test]
fn reference_of_conditions_is_current() {
    let mut text = String::from(
        "# Conditions and reasons\n\nWhat the status of a Link says. `linkerd-mc status`, `kubectl describe link` and GitOps tools \
         show it; [troubleshooting](../troubleshooting.md) says what to do.\n\n## Conditions of a Link\n",
    );
    let items_ = items("crates/mirror-core/src/api/conditions.rs");
    let mut found = 0;
    for item in &items_ {
        match item {
            Item::Const(_) => {
                let [constant] = &constants(std::slice::from_ref(item))[..] else {
                    panic!("not a text")
                };
                let _ = write!(text, "\n### {}\n\n{}\n", constant.value, constant.doc);
                found += 1;
            }
            Item::Mod(module) => {
                let inside = module.content.as_ref().expect("it is in this file");
                let rows = constants(&inside.1).into_iter();
                let rows = rows.map(|reason| format!("| `{}` | {} |\n", reason.value, reason.doc));
                let _ = write!(
                    text,
                    "\n| Reason | Meaning |\n| --- | --- |\n{}",
                    rows.collect::<String>()
                );
            }
            _ => panic!("neither a type nor reasons"),
        }
    }
    assert!(found > 8, "only {found} conditions found");
    text.push_str(
        "\n## Reasons of Services\n\nEach entry in `mirrorServices` and `federatedServices` has one condition, `Mirrored`. It is \
         `True` for Services that are mirrored or take part, which may have a reason too.\n\n| Reason | Meaning |\n| --- | --- |\n",
    );
    for (reason, meaning) in reasons() {
        let _ = writeln!(text, "| `{reason}` | {meaning} |");
    }
    hold("status.md", &text);
}

/// The reasons of Services, as the status has them, and what is said of each.
fn reasons() -> Vec<(String, String)> {
    let items = items("crates/mirror-core/src/mirror/outcome.rs");
    let docs: BTreeMap<String, String> = items
        .iter()
        .find_map(|item| match item {
            Item::Enum(item) if item.ident == "Reason" => Some(item),
            _ => None,
        })
        .expect("there is an enum of reasons")
        .variants
        .iter()
        .map(|variant| (variant.ident.to_string(), doc(&variant.attrs)))
        .collect();
    let mut arms = Arms::default();
    for item in &items {
        syn::visit::visit_item(&mut arms, item);
    }
    let found: Vec<(String, String)> = arms
        .0
        .into_iter()
        .filter_map(|(variant, reason)| Some((reason, docs.get(&variant)?.clone())))
        .collect();
    assert_eq!(found.len(), docs.len(), "a reason has no text");
    found
}

/// Arms such as `Self::Name => "Text"`.
#[derive(Default)]
struct Arms(Vec<(String, String)>);

impl<'ast> syn::visit::Visit<'ast> for Arms {
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let (syn::Pat::Path(path), Some(text)) = (&arm.pat, text_of(&arm.body))
            && let Some(last) = path.path.segments.last()
        {
            self.0.push((last.ident.to_string(), text));
        }
    }
}
