//! Templates → text → documents. Uses handlebars; independent of the templates' contents.
//!
//! A template may read only existing fields, so a misspelled name is an error.

use std::{fmt, sync::OnceLock};

use anyhow::Context as _;
use handlebars::{
    Handlebars, Helper, HelperDef, HelperResult, Output, PathAndJson, RenderContext, RenderError,
    RenderErrorReason, Renderable, ScopedJson, no_escape,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::yaml;

/// Objects as text in reading order, with comments, and as values.
#[derive(Clone, Debug)]
pub struct Manifest {
    text: String,
    /// Rendered text is parsed only for those who need values, because that takes almost half of the time of `install`.
    objects: OnceLock<Vec<Value>>,
}

impl Manifest {
    /// The objects as values. Fails if a template has rendered to something else than Kubernetes objects.
    pub fn objects(&self) -> anyhow::Result<&[Value]> {
        if let Some(objects) = self.objects.get() {
            return Ok(objects);
        }
        let objects = parse(&self.text)?;
        Ok(self.objects.get_or_init(|| objects))
    }

    /// The objects as values, without the text. Fails as [`Manifest::objects`].
    pub fn into_objects(self) -> anyhow::Result<Vec<Value>> {
        let known = self.objects.into_inner();
        known.map_or_else(|| parse(&self.text), Ok)
    }

    /// These objects, followed by others.
    #[must_use]
    pub fn and(self, others: &Self) -> Self {
        Self {
            text: self.text + &others.text,
            objects: OnceLock::new(),
        }
    }

    /// The objects as a YAML stream.
    pub fn to_yaml(&self) -> String {
        self.text.clone()
    }

    /// The objects as JSON, one per line. Fails as [`Manifest::objects`].
    pub fn to_json(&self) -> anyhow::Result<String> {
        let objects = self.objects()?;
        Ok(objects.iter().fold(String::new(), |text, object| {
            text + &object.to_string() + "\n"
        }))
    }

    /// Objects that were built as values, not from a template.
    pub fn from_objects(objects: Vec<Value>) -> anyhow::Result<Self> {
        let mut text = String::new();
        for object in &objects {
            text.push_str("---\n");
            text.push_str(&yaml::to_yaml(object)?);
        }
        Ok(Self {
            text,
            objects: objects.into(),
        })
    }

    /// Objects by name only, in their order: enough for `kubectl delete -f -`.
    pub fn of_names(names: impl IntoIterator<Item = ObjectName>) -> anyhow::Result<Self> {
        let objects = names.into_iter().map(|object| {
            let mut metadata = json!({ "name": object.name });
            if let Some(namespace) = object.namespace {
                metadata["namespace"] = json!(namespace);
            }
            json!({ "apiVersion": object.api_version, "kind": object.kind, "metadata": metadata })
        });
        Self::from_objects(objects.collect())
    }
}

/// Parses rendered text. Fails if it is not a stream of Kubernetes objects.
fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let objects = yaml::documents(text).context("a template renders to invalid YAML")?;
    for object in &objects {
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            let filled = object
                .pointer(pointer)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty());
            anyhow::ensure!(filled, "a template renders to an object without {pointer}");
        }
    }
    Ok(objects)
}

/// The kind, name and namespace of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// `group/version`, or `version` alone.
    pub api_version: String,
    /// Its kind, such as `Service`.
    pub kind: String,
    /// Namespace; `None` for a kind that has none, and if the default is meant.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The name of an object; `None` if it has no kind or name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer| object.pointer(pointer)?.as_str().map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }
}

/// A template: its name and its text.
pub type Template = (&'static str, &'static str);

/// Renders `templates` in order; they may use `partials`.
pub fn render(
    templates: &[Template],
    partials: &[Template],
    context: &impl Serialize,
) -> anyhow::Result<Manifest> {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    registry.register_escape_fn(no_escape);
    registry.register_helper("text", Box::new(Writes(text)));
    registry.register_helper("json", Box::new(Writes(json)));
    registry.register_helper("block", Box::new(Writes(block)));
    registry.register_helper("entries", Box::new(Writes(entries)));
    registry.register_helper("concat", Box::new(Concat));
    registry.register_helper("when", Box::new(When));
    for (name, template) in partials {
        registry
            .register_template_string(name, template)
            .with_context(|| format!("invalid template {name}"))?;
    }
    let context = handlebars::Context::wraps(context).context("failed to serialize the values")?;
    let mut text = String::new();
    for (name, template) in templates {
        for part in parts(template) {
            if part.contains("{{") {
                text += &registry
                    .render_template_with_context(part, &context)
                    .with_context(|| format!("failed to render template {name}"))?;
            } else {
                text += part;
            }
        }
    }
    Ok(Manifest {
        text,
        objects: OnceLock::new(),
    })
}

/// Splits a template into lines, except that the lines of a block or of a tag stay together.
///
/// The parser of handlebars takes time for each character, and for each tag in proportion to the text before it. Most lines
/// have no tag, and are not parsed.
fn parts(template: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut rest, mut length) = (template, 0);
    let (mut opened, mut closed) = (0, 0);
    for line in template.split_inclusive('\n') {
        let count = |mark| line.matches(mark).count();
        length += line.len();
        opened += count("{{") + count("{{#");
        closed += count("}}") + count("{{/");
        if opened == closed {
            let (part, after) = rest.split_at(length);
            parts.push(part);
            (rest, length) = (after, 0);
        }
    }
    parts.push(rest);
    parts
}

/// A helper that writes text, which its function computes from the parameters.
struct Writes(fn(&Helper<'_>) -> Result<String, RenderError>);

impl HelperDef for Writes {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc handlebars::Context,
        _: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        out.write(&(self.0)(helper)?)?;
        Ok(())
    }
}

/// `{{text x}}`: a string or number as a YAML string on one line, quoted where YAML needs it.
fn text(helper: &Helper<'_>) -> Result<String, RenderError> {
    scalar(param(helper, 0)?)
}

/// `{{concat a b …}}`, for use inside of another helper: strings and numbers joined.
struct Concat;

impl HelperDef for Concat {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc handlebars::Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let mut joined = String::new();
        for index in 0..helper.params().len() {
            joined += &string(param(helper, index)?)?;
        }
        Ok(ScopedJson::Derived(Value::String(joined)))
    }
}

/// `{{#when x}}…{{else}}…{{/when}}`: like `if`, but `x` must exist. Empty, zero, false and null are false.
struct When;

impl HelperDef for When {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        context: &'rc handlebars::Context,
        render: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let yes = match param(helper, 0)? {
            Value::Null => false,
            Value::Bool(yes) => *yes,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
        };
        let branch = if yes {
            helper.template()
        } else {
            helper.inverse()
        };
        branch.map_or(Ok(()), |branch| {
            branch.render(registry, context, render, out)
        })
    }
}

/// `{{json x}}`: any value as JSON, which is YAML too, on one line.
fn json(helper: &Helper<'_>) -> Result<String, RenderError> {
    yaml::to_flow(param(helper, 0)?).map_err(other)
}

/// `key:{{block 8 x}}`: a map or list as YAML lines, indented by 8.
fn block(helper: &Helper<'_>) -> Result<String, RenderError> {
    let indent = indent(helper)?;
    let text = yaml::to_yaml(param(helper, 1)?).map_err(other)?;
    let lines = text.lines().map(|line| format!("\n{:indent$}{line}", ""));
    Ok(lines.collect())
}

/// `key:{{entries 8 map "k" v …}}`: a map of strings, indented by 8: the listed pairs, then those of `map`, which
/// override listed ones.
fn entries(helper: &Helper<'_>) -> Result<String, RenderError> {
    let indent = indent(helper)?;
    let Value::Object(extra) = param(helper, 1)? else {
        return Err(broken("entries requires a map"));
    };
    let mut lines = Vec::new();
    for index in (2..helper.params().len()).step_by(2) {
        let key = string(param(helper, index)?)?;
        let value = param(helper, index + 1)?;
        if !extra.contains_key(&key) {
            lines.push((key, value));
        }
    }
    lines.extend(extra.iter().map(|(key, value)| (key.clone(), value)));
    let lines = lines.into_iter().map(|(key, value)| {
        let key = yaml::to_scalar(&key).map_err(other)?;
        Ok(format!("\n{:indent$}{key}: {}", "", scalar(value)?))
    });
    lines.collect()
}

fn param<'a>(helper: &'a Helper<'_>, index: usize) -> Result<&'a Value, RenderError> {
    match helper.param(index) {
        Some(param) if !param.is_value_missing() => Ok(param.value()),
        missing => Err(broken(&format!(
            "helper {} lacks parameter {index}, {}",
            helper.name(),
            missing
                .and_then(PathAndJson::relative_path)
                .map_or("nothing", String::as_str)
        ))),
    }
}

fn indent(helper: &Helper<'_>) -> Result<usize, RenderError> {
    param(helper, 0)?
        .as_u64()
        .and_then(|indent| usize::try_from(indent).ok())
        .ok_or_else(|| broken("the first parameter must be an indent"))
}

fn scalar(value: &Value) -> Result<String, RenderError> {
    yaml::to_scalar(&string(value)?).map_err(other)
}

fn string(value: &Value) -> Result<String, RenderError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(yes) => Ok(yes.to_string()),
        other => Err(broken(&format!("{other} is not text"))),
    }
}

fn broken(what: &str) -> RenderError {
    RenderErrorReason::Other(what.to_owned()).into()
}

fn other(error: impl fmt::Display) -> RenderError {
    RenderErrorReason::Other(error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &'static str, context: &Value) -> anyhow::Result<Manifest> {
        let head = "apiVersion: v1\nkind: K\nmetadata:\n  name: thing\n";
        let text: &'static str = Box::leak(format!("{head}{template}").into_boxed_str());
        render(&[("t", text)], &[], context)
    }

    #[test]
    fn helpers_write_yaml_that_means_the_value() {
        let context = json!({
            "word": "on", "n": 3, "odd": "a\n- b: \"c\"", "map": { "x": "1", "yes": "b" },
            "tree": { "list": [1, { "k": "v" }], "empty": {} }, "no": null, "zero": 0,
        });
        for (template, key, value) in [
            ("k: {{text word}}\n", "k", json!("on")),
            ("k: {{text n}}\n", "k", json!("3")),
            ("k: {{n}}\n", "k", json!(3)),
            ("k: {{text odd}}\n", "k", json!("a\n- b: \"c\"")),
            ("k: {{text (concat word \":\" n)}}\n", "k", json!("on:3")),
            ("k: {{json tree}}\n", "k", context["tree"].clone()),
            ("k:{{block 2 tree}}\n", "k", context["tree"].clone()),
            (
                "k:\n  - l:{{block 6 tree.list}}\n",
                "k",
                json!([{ "l": context["tree"]["list"] }]),
            ),
            (
                "k:{{entries 2 map \"x\" \"0\" \"a\" n}}\nl: 1\n",
                "k",
                json!({ "x": "1", "yes": "b", "a": "3" }),
            ),
            ("{{#when no}}k: 1{{else}}k: 2{{/when}}\n", "k", json!(2)),
            ("{{#when zero}}k: 1{{else}}k: 2{{/when}}\n", "k", json!(2)),
            ("{{#when map}}k: 1{{else}}k: 2{{/when}}\n", "k", json!(1)),
        ] {
            let manifest = rendered(template, &context).unwrap();
            assert_eq!(manifest.objects().unwrap()[0][key], value, "{template}");
        }
    }

    #[test]
    fn template_is_split_into_lines_but_not_inside_of_blocks_and_tags() {
        for (template, expected) in [
            ("a: 1\nb: {{x}}\n", vec!["a: 1\n", "b: {{x}}\n", ""]),
            (
                "a\n{{#if x}}\nb\n{{#each y}}\n{{z}}\n{{/each}}\n{{else}}\nc\n{{/if}}\nd",
                vec![
                    "a\n",
                    "{{#if x}}\nb\n{{#each y}}\n{{z}}\n{{/each}}\n{{else}}\nc\n{{/if}}\n",
                    "d",
                    "",
                ],
            ),
            (
                "a:{{entries 2 x\n  \"k\" v}}\nb",
                vec!["a:{{entries 2 x\n  \"k\" v}}\n", "b", ""],
            ),
            ("{{#if x}}\na\n", vec!["{{#if x}}\na\n"]),
        ] {
            assert_eq!(parts(template), expected, "{template}");
        }
    }

    #[test]
    fn a_misspelt_field_is_an_error_everywhere() {
        for template in [
            "k: {{wrod}}\n",
            "k: {{text wrod}}\n",
            "k: {{json wrod}}\n",
            "k:{{block 2 wrod}}\n",
            "k:{{entries 2 wrod}}\n",
            "k:{{entries 2 map \"a\" wrod}}\n",
            "k:{{entries 2 map \"a\"}}\n",
            "k: {{text (concat word wrod)}}\n",
            "{{#when wrod}}k: 1{{/when}}\n",
            "{{#each wrod}}k: 1{{/each}}\n",
            "{{> wrod}}\n",
        ] {
            let error = rendered(template, &json!({ "word": "w", "map": {} }));
            assert!(error.is_err(), "{template}");
        }
    }

    #[test]
    fn text_that_is_no_object_is_refused() {
        for text in [
            "just text\n",
            "a: [\n",
            "apiVersion: v1\nkind: K\nmetadata: {}\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_has_one_object_a_line() {
        let manifest = rendered(
            "---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n",
            &json!({}),
        )
        .unwrap();
        assert_eq!(
            manifest.to_json().unwrap(),
            "{\"apiVersion\":\"v1\",\"kind\":\"K\",\"metadata\":{\"name\":\"thing\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"B\",\"metadata\":{\"name\":\"b\"}}\n"
        );
    }
}
