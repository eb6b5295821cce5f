//! Keys of Linkerd's chart that have no effect here, and their replacements.
//!
//! They are accepted with a warning, so that values files for Linkerd's chart work.

use serde_json::Value;

use super::set::{Path, Segment, assign};

/// The replacement of a key.
pub(in crate::manifests) enum Fate {
    /// It was renamed.
    Moved(&'static str),
    /// It has no effect; the text has the reason or the replacement.
    Gone(&'static str),
}

use Fate::{Gone, Moved};

/// Keys come before their groups.
#[rustfmt::skip] // a table: one key a line
pub(in crate::manifests) const KEYS: [(&str, Fate); 32] = [
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
    ("controllerDefaults.image", Gone("use controller.image")),
    ("controllerDefaults.gateway", Gone("the controller creates the probe Service of each Link")),
    ("controllerDefaults.retryLimit", Gone("failures are retried until they succeed")),
    ("controllerDefaults.enablePprof", Gone("profiling is not supported; see /metrics")),
    ("controllerDefaults.enablePodAntiAffinity", Gone("enablePodAntiAffinity applies to all pods")),
    ("controllerDefaults.nodeAffinity", Gone("nodeAffinity applies to all pods")),
    ("controllerDefaults", Gone("see controller")),
    ("controllers", Gone("one controller serves all Links")),
    ("localServiceMirror.federatedServiceSelector", Moved("federation.selector")),
    ("localServiceMirror.excludedLabels", Moved("federation.excludedLabels")),
    ("localServiceMirror.excludedAnnotations", Moved("federation.excludedAnnotations")),
    ("localServiceMirror", Gone("the controller handles local members too; see controller and federation")),
    ("serviceMirrorAdditionalEnv", Moved("controller.additionalEnv")),
    ("serviceMirrorExperimentalEnv", Gone("use controller.additionalEnv")),
    ("nodeSelector", Moved("controller.nodeSelector")),
    ("tolerations", Moved("controller.tolerations")),
    ("linkerdVersion", Gone("use controller.image.version")),
    ("cliVersion", Gone("objects have the version of the CLI that printed them")),
    ("proxyOutboundPort", Gone("it is not used")),
    ("enablePSP", Gone("Kubernetes removed PodSecurityPolicies; the Namespace has a pod security level")),
    ("namespaceMetadata", Gone("the Namespace is printed with its labels, without a Job")),
    ("createNamespaceMetadataJob", Gone("the Namespace is printed with its labels, without a Job")),
];

/// Removes obsolete keys from `tree`, and moves renamed ones.
///
/// `origin` returns the origin of a key. Returns a warning for each key, and the old and new paths of renamed ones.
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
        // Empty values have no effect in Linkerd's chart either.
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
                    warnings.push(format!("{key} ({from}) has no effect: {to} is also set"));
                    continue;
                }
                warnings.push(format!("{key} ({from}) is deprecated: use {to}"));
                assign(tree, &target, value);
                moves.push((path, target));
            }
        }
    }
    (warnings, moves)
}

/// Removes the value at `path`, and maps that become empty.
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
    fn moved_keys_name_existing_keys_and_obsolete_keys_do_not_exist() {
        for (key, fate) in &KEYS {
            assert!(matches!(find(key), Found::Nothing), "{key}");
            if let Moved(to) = fate {
                assert!(matches!(find(to), Found::Key(_)), "{to}");
            }
        }
    }

    #[test]
    fn a_values_file_for_linkerds_chart_is_translated() {
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
                "controllerDefaults.logLevel (values.yaml) is deprecated: use controller.logLevel",
                "controllerDefaults.image (values.yaml) has no effect: use controller.image",
                "controllerDefaults.retryLimit (values.yaml) has no effect: failures are retried until they succeed",
                "controllers (values.yaml) has no effect: one controller serves all Links",
                "localServiceMirror.federatedServiceSelector (values.yaml) is deprecated: use federation.selector",
                "localServiceMirror (values.yaml) has no effect: the controller handles local members too; see controller and federation",
                "nodeSelector (values.yaml) has no effect: controller.nodeSelector is also set",
                "enablePSP (values.yaml) has no effect: Kubernetes removed PodSecurityPolicies; the Namespace has a pod security level",
            ]
        );
        assert_eq!(moves.len(), 2);
    }
}
