//! Keys of Linkerd's chart that mean nothing here any more, and what replaces them.
//!
//! They are accepted with a warning each, so that a values file of the original works.

use serde_json::Value;

use super::set::{Path, Segment, assign};

/// What became of a key.
enum Fate {
    /// It has another name.
    Moved(&'static str),
    /// It has no effect; the text says why, or what to do instead.
    Gone(&'static str),
}

use Fate::{Gone, Moved};

/// Deeper keys stand before the groups that hold them.
#[rustfmt::skip] // a table: one key a line
const KEYS: [(&str, Fate); 32] = [
    ("controllerDefaults.replicas", Moved("controller.replicas")),
    ("controllerDefaults.logLevel", Moved("controller.logLevel")),
    ("controllerDefaults.logFormat", Moved("controller.logFormat")),
    ("controllerDefaults.enableHeadlessServices", Moved("controller.enableHeadlessServices")),
    ("controllerDefaults.UID", Moved("controller.UID")),
    ("controllerDefaults.GID", Moved("controller.GID")),
    ("controllerDefaults.resources", Moved("controller.resources")),
    ("controllerDefaults.nodeSelector", Moved("controller.nodeSelector")),
    ("controllerDefaults.tolerations", Moved("controller.tolerations")),
    ("controllerDefaults.image.pullPolicy", Moved("controller.image.pullPolicy")),
    ("controllerDefaults.image", Gone("controller.image names this controller's image")),
    ("controllerDefaults.gateway", Gone("the controller makes the probe Service of each Link by itself")),
    ("controllerDefaults.retryLimit", Gone("work is retried until it succeeds")),
    ("controllerDefaults.enablePprof", Gone("there is no pprof; /metrics has the controller's state")),
    ("controllerDefaults.enablePodAntiAffinity", Gone("enablePodAntiAffinity is for all pods")),
    ("controllerDefaults.nodeAffinity", Gone("nodeAffinity is for all pods")),
    ("controllerDefaults", Gone("see controller")),
    ("controllers", Gone("one controller serves all Links: apply a Link, and it is picked up")),
    ("localServiceMirror.federatedServiceSelector", Moved("federation.selector")),
    ("localServiceMirror.excludedLabels", Moved("federation.excludedLabels")),
    ("localServiceMirror.excludedAnnotations", Moved("federation.excludedAnnotations")),
    ("localServiceMirror", Gone("the controller does its work too; see controller and federation")),
    ("serviceMirrorAdditionalEnv", Moved("controller.additionalEnv")),
    ("serviceMirrorExperimentalEnv", Gone("controller.additionalEnv sets environment variables")),
    ("nodeSelector", Moved("controller.nodeSelector")),
    ("tolerations", Moved("controller.tolerations")),
    ("linkerdVersion", Gone("controller.image.version is the version that runs")),
    ("cliVersion", Gone("objects name the program that printed them")),
    ("proxyOutboundPort", Gone("nothing reads it")),
    ("enablePSP", Gone("Kubernetes has no PodSecurityPolicies any more; the Namespace has a pod security level")),
    ("namespaceMetadata", Gone("the Namespace is printed with its labels; there is no Job")),
    ("createNamespaceMetadataJob", Gone("the Namespace is printed with its labels; there is no Job")),
];

/// Takes obsolete keys out of `tree`, and puts those that have another name where they belong.
///
/// `origin` says where a key came from. Returns a warning for each, and where each moved key went.
pub(super) fn translate(
    tree: &mut Value,
    origin: impl Fn(&Path) -> String,
) -> (Vec<String>, Vec<(Path, Path)>) {
    let (mut warnings, mut moves) = (Vec::new(), Vec::new());
    for (key, fate) in &KEYS {
        let path = Path::keys(key);
        let Some(value) = take(tree, &path.0) else {
            continue;
        };
        // What is empty had no effect in the original either.
        if is_empty(&value) {
            continue;
        }
        let from = origin(&path);
        match fate {
            Gone(why) => warnings.push(format!("{key} ({from}) has no effect: {why}")),
            Moved(to) => {
                let target = Path::keys(to);
                let pointer = format!("/{}", to.replace('.', "/"));
                if tree.pointer(&pointer).is_some() {
                    warnings.push(format!("{key} ({from}) has no effect: {to} is set as well"));
                    continue;
                }
                warnings.push(format!("{key} ({from}) is {to} now"));
                assign(tree, &target, value);
                moves.push((path, target));
            }
        }
    }
    (warnings, moves)
}

/// Removes what `path` leads to, and the maps that are empty without it.
fn take(tree: &mut Value, path: &[Segment]) -> Option<Value> {
    let (Segment::Key(key), rest) = path.split_first()? else {
        return None;
    };
    let map = tree.as_object_mut()?;
    if rest.is_empty() {
        return map.remove(key);
    }
    let inner = map.get_mut(key)?;
    let taken = take(inner, rest)?;
    if inner.as_object().is_some_and(serde_json::Map::is_empty) {
        map.remove(key);
    }
    Some(taken)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifests::values::schema::{Found, find};

    #[test]
    fn moved_keys_lead_to_keys_and_obsolete_keys_are_none() {
        for (key, fate) in &KEYS {
            assert!(matches!(find(key), Found::Nothing), "{key}");
            if let Moved(to) = fate {
                assert!(matches!(find(to), Found::Key(_)), "{to}");
            }
        }
    }

    #[test]
    fn a_values_file_of_the_original_is_translated() {
        let mut tree = json!({
            "controllers": [{ "link": { "ref": { "name": "east" } } }],
            "controllerDefaults": {
                "logLevel": "debug", "retryLimit": 3, "resources": {}, "image": { "name": "x", "pullPolicy": "" },
            },
            "localServiceMirror": { "federatedServiceSelector": "a=b", "replicas": 1 },
            "nodeSelector": { "old": "1" },
            "controller": { "nodeSelector": { "new": "1" } },
            "enablePSP": false,
            "gateway": { "port": 4143 },
        });
        let (warnings, moves) = translate(&mut tree, |_| "values.yaml".into());
        assert_eq!(
            tree,
            json!({
                "controller": { "logLevel": "debug", "nodeSelector": { "new": "1" } },
                "federation": { "selector": "a=b" },
                "gateway": { "port": 4143 },
            })
        );
        assert_eq!(
            warnings,
            [
                "controllerDefaults.logLevel (values.yaml) is controller.logLevel now",
                "controllerDefaults.image (values.yaml) has no effect: controller.image names this controller's image",
                "controllerDefaults.retryLimit (values.yaml) has no effect: work is retried until it succeeds",
                "controllers (values.yaml) has no effect: one controller serves all Links: apply a Link, and it is picked up",
                "localServiceMirror.federatedServiceSelector (values.yaml) is federation.selector now",
                "localServiceMirror (values.yaml) has no effect: the controller does its work too; see controller and federation",
                "nodeSelector (values.yaml) has no effect: controller.nodeSelector is set as well",
                "enablePSP (values.yaml) has no effect: Kubernetes has no PodSecurityPolicies any more; the Namespace has a pod security level",
            ]
        );
        assert_eq!(moves.len(), 2);
    }
}
