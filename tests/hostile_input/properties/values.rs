//! Values of `install`, from files and flags, and what templates make of them.

use linkerd_mc::manifests::{
    install::install,
    render::Manifest,
    values::{Typing, UserValues, Values},
};
use serde_json::{Value, json};

use super::draw::{Draw, put};

/// How a message about values begins: all of them name the key, the file or the flag.
const BEGINNINGS: [&str; 4] = [
    "the value ",
    "unknown value ",
    "cannot use the values file given.yaml",
    "invalid --set",
];
/// Keys of all kinds.
const KEYS: [&str; 30] = [
    "gateway",
    "gateway.enabled",
    "gateway.replicas",
    "gateway.name",
    "gateway.port",
    "gateway.serviceType",
    "gateway.nodePort",
    "gateway.probe",
    "gateway.probe.path",
    "gateway.serviceAnnotations",
    "gateway.serviceAnnotations.a\\.io/x",
    "gateway.loadBalancerSourceRanges",
    "gateway.terminationGracePeriodSeconds",
    "gateway.nodeSelector",
    "gateway.tolerations",
    "gateway.tolerations[0].key",
    "controller.image.name",
    "controller.resources",
    "controller.resources.limits.cpu",
    "controller.additionalEnv",
    "controller.additionalEnv[0].name",
    "federation.selector",
    "federation.excludedLabels",
    "remoteMirrorServiceAccountName",
    "nodeAffinity",
    "commonLabels.team",
    "podAnnotations.note",
    "imagePullSecrets",
    "controllerDefaults.logLevel",
    "nodeSelector",
];
const WORDS: [&str; 26] = [
    "", "x", "key", "name", "value", "operator", "Exists", "limits", "cpu", "true", "null", "1",
    "65536", "=", ",", ".", "[0]", "{", "}", "\\", "a=b", ": ", "- ", "#", "\n", "/",
];
/// Texts that YAML 1.1, YAML 1.2 or the templates could misread.
const ODD: [&str; 34] = [
    "x",
    "on",
    "~",
    "1",
    "0x1f",
    "1e3",
    "1:30",
    ".inf",
    " ",
    "a b",
    ": ",
    " #",
    "- ",
    "\n",
    "\r",
    "\n---\n",
    "\n...\n",
    "\t",
    "\"",
    "'",
    "\\",
    "{{",
    "{{text namespace}}",
    "{",
    "*",
    "&a",
    "!!",
    "%",
    "|",
    "\u{0}",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
];

/// No values cause a panic. Accepted values can be rendered. A text in the objects is what was given.
pub fn values(data: &[u8]) {
    let mut draw = Draw(data);
    match draw.below(4) {
        0 => texts(&mut draw),
        1 => {
            let text = String::from_utf8_lossy(draw.0);
            given(|values| values.add_file("given.yaml", &text));
        }
        2 => given(|values| {
            for _ in 0..=draw.below(3) {
                let text = assignment(&mut draw);
                match draw.below(2) {
                    0 => values.add_set("--set", &text, Typing::Infer)?,
                    _ => values.add_set("--set-string", &text, Typing::Text)?,
                }
            }
            Ok(())
        }),
        _ => {
            let mut tree = json!({ "gateway": { "probe": {} }, "controller": { "image": {} } });
            for _ in 0..=draw.below(4) {
                let key = format!("/{}", draw.pick(&KEYS).replace('.', "/"));
                let value = draw.json(&WORDS, 3);
                put(&mut tree, &key, value);
            }
            given(|values| values.add_file("given.yaml", &tree.to_string()));
        }
    }
}

fn assignment(draw: &mut Draw<'_>) -> String {
    if draw.flip() {
        return (0..draw.below(12)).map(|_| draw.text(&WORDS)).collect();
    }
    let key = *draw.pick(&KEYS);
    format!("{key}={}", draw.text(&WORDS))
}

fn given(give: impl FnOnce(&mut UserValues) -> anyhow::Result<()>) {
    let mut given = UserValues::default();
    let outcome = give(&mut given).and_then(|()| given.over(&Values::default()));
    let (values, _) = match outcome {
        Ok(taken) => taken,
        Err(error) => {
            let message = error.to_string();
            let named = BEGINNINGS.iter().any(|words| message.starts_with(words));
            return assert!(named, "{message:?}");
        }
    };
    is_printable(&install("mc", &values).expect("what is taken is installed"));

    // Printed as a values file, they are what they were.
    let printed = values.documented().unwrap();
    let mut again = UserValues::default();
    again
        .add_file("printed.yaml", &printed)
        .expect("a values file");
    let base = Values {
        identity_trust_domain: values.identity_trust_domain.clone(),
        ..Values::default()
    };
    let (again, warnings) = again.over(&base).expect("values that were taken before");
    assert_eq!(again, values);
    assert_eq!(warnings, [""; 0]);
}

/// Where any text may be.
const TEXTS: [&str; 22] = [
    "/gateway/serviceAnnotations/a.io~1x",
    "/gateway/deploymentAnnotations/a.io~1x",
    "/gateway/loadBalancerClass",
    "/gateway/loadBalancerIP",
    "/gateway/loadBalancerSourceRanges",
    "/gateway/pauseImage",
    "/gateway/probe/path",
    "/gateway/nodeSelector/a.io~1x",
    "/gateway/name",
    "/controller/image/name",
    "/controller/image/version",
    "/controller/resources",
    "/controller/additionalEnv",
    "/controller/tolerations",
    "/federation/selector",
    "/federation/excludedLabels",
    "/linkerdNamespace",
    "/identityTrustDomain",
    "/remoteMirrorServiceAccountName",
    "/podAnnotations/a.io~1x",
    "/commonLabels/team",
    "/imagePullSecrets",
];

/// Renders once with words that mean nothing, and once with any texts in their place: all else is the same.
fn texts(draw: &mut Draw<'_>) {
    let mut chosen: Vec<(String, String)> = Vec::new();
    let (mut plain, mut odd) = (json!(Values::default()), json!(Values::default()));
    for at in 0..=draw.below(4) {
        let pointer = *draw.pick(&TEXTS);
        let word = format!("zz{at}zz");
        let text = match draw.text(&ODD) {
            text if text.is_empty() => "x".to_owned(), // an empty text leaves whole fields out
            text => text,
        };
        put(&mut plain, pointer, shaped(pointer, &word));
        put(&mut odd, pointer, shaped(pointer, &text));
        chosen.push((word, text));
    }
    let plain: Values = serde_json::from_value(plain).unwrap();
    let odd: Values = serde_json::from_value(odd).unwrap();
    let plain = install("mc", &plain).unwrap();
    let odd = install("mc", &odd).expect("texts are rendered");
    let mut expected = plain.into_objects().unwrap();
    assert_eq!(odd.objects().unwrap().len(), expected.len(), "{chosen:?}");
    // Expressions have texts as JSON has them.
    let quoted = chosen.iter().map(|(word, text)| {
        let text = json!(text).to_string();
        (word.clone(), text[1..text.len() - 1].to_owned())
    });
    let quoted: Vec<_> = quoted.collect();
    for (made, expected) in odd.objects().unwrap().iter().zip(&mut expected) {
        if expected["kind"] == "ValidatingAdmissionPolicy" {
            replace(&mut expected["spec"], &quoted);
        }
        replace(expected, &chosen);
        assert_eq!(made, expected, "{chosen:?}");
    }
    is_printable(&odd);
}

/// A text in the shape that is wanted there.
fn shaped(pointer: &str, text: &str) -> Value {
    match pointer {
        "/gateway/loadBalancerSourceRanges"
        | "/federation/excludedLabels"
        | "/remoteMirrorServiceAccountName" => json!([text]),
        "/controller/additionalEnv" => json!([{ "name": "A", "value": text }]),
        "/controller/resources" => json!({ "limits": { "cpu": text } }),
        "/controller/tolerations" => json!([{ "key": "a", "value": text }]),
        "/imagePullSecrets" => json!([{ "name": text }]),
        _ => text.into(),
    }
}

fn replace(tree: &mut Value, all: &[(String, String)]) {
    match tree {
        Value::String(text) => {
            for (word, with) in all {
                *text = text.replace(word, with);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, all)),
        Value::Object(map) => map.values_mut().for_each(|value| replace(value, all)),
        _ => {}
    }
}

/// Characters that YAML 1.1, which kubectl reads, has no place for outside of escapes, or takes for line breaks. A tab has
/// one, inside of a line.
fn is_printable(manifest: &Manifest) {
    let text = manifest.to_yaml();
    let odd = text.chars().find(|c| {
        let breaks = matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
        breaks
            || matches!(c, '\u{fffe}' | '\u{ffff}')
            || (c.is_control() && !matches!(c, '\n' | '\t'))
    });
    assert_eq!(odd, None, "{text}");
    assert_eq!(
        manifest.to_json().unwrap().lines().count(),
        manifest.objects().unwrap().len()
    );
}
