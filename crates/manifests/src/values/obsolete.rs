//! Keys of Linkerd's chart that have no effect here, and their replacements.
//!
//! They are accepted with a warning, so that values files for Linkerd's chart work.

use serde_json::Value;

use super::{
    kind::pointer,
    set::{Path, Segment, assign},
};

/// The replacement of a key.
pub enum Replacement {
    /// It was renamed.
    Renamed(&'static str),
    /// It has no effect; the text has the reason or the replacement.
    NoEffect(&'static str),
}

use Replacement::{NoEffect, Renamed};

/// Keys come before their groups.
#[rustfmt::skip] // a table: one key a line
pub const KEYS: [(&str, Replacement); 32] = [
    ("controllerDefaults.replicas", Renamed("controller.replicas")),
    ("controllerDefaults.logLevel", Renamed("controller.logLevel")),
    ("controllerDefaults.logFormat", Renamed("controller.logFormat")),
    ("controllerDefaults.enableHeadlessServices", Renamed("controller.enableHeadlessServices")),
    ("controllerDefaults.UID", Renamed("controller.UID")),
    ("controllerDefaults.GID", Renamed("controller.GID")),
    ("controllerDefaults.resources", Renamed("controller.resources")),
    ("controllerDefaults.nodeSelector", Renamed("controller.nodeSelector")),
    ("controllerDefaults.tolerations", Renamed("controller.tolerations")),
    ("controllerDefaults.image.pullPolicy", Renamed("controller.image.pullPolicy")),
    ("controllerDefaults.image", NoEffect("use controller.image")),
    ("controllerDefaults.gateway", NoEffect("the controller creates the probe Service of each Link")),
    ("controllerDefaults.retryLimit", NoEffect("failures are retried until they succeed")),
    ("controllerDefaults.enablePprof", NoEffect("profiling is not supported; see /metrics")),
    ("controllerDefaults.enablePodAntiAffinity", NoEffect("enablePodAntiAffinity applies to all pods")),
    ("controllerDefaults.nodeAffinity", NoEffect("nodeAffinity applies to all pods")),
    ("controllerDefaults", NoEffect("see controller")),
    ("controllers", NoEffect("one controller serves all Links: use controller.resources, controller.logLevel and controller.enableHeadlessServices, or link with --enable-headless-services")),
    ("localServiceMirror.federatedServiceSelector", Renamed("federation.selector")),
    ("localServiceMirror.excludedLabels", Renamed("federation.excludedLabels")),
    ("localServiceMirror.excludedAnnotations", Renamed("federation.excludedAnnotations")),
    ("localServiceMirror", NoEffect("the controller handles local members too; see controller and federation")),
    ("serviceMirrorAdditionalEnv", Renamed("controller.additionalEnv")),
    ("serviceMirrorExperimentalEnv", NoEffect("use controller.additionalEnv")),
    ("nodeSelector", Renamed("controller.nodeSelector")),
    ("tolerations", Renamed("controller.tolerations")),
    ("linkerdVersion", NoEffect("use controller.image.version")),
    ("cliVersion", NoEffect("objects have the version of the CLI that printed them")),
    ("proxyOutboundPort", NoEffect("it is not used")),
    ("enablePSP", NoEffect("Kubernetes removed PodSecurityPolicies; the Namespace has a pod security level")),
    ("namespaceMetadata", NoEffect("no Job labels the Namespace: install prints it with its labels, and with Helm you label it")),
    ("createNamespaceMetadataJob", NoEffect("no Job labels the Namespace: install prints it with its labels, and with Helm you label it")),
];

/// Removes obsolete keys from `tree`, and moves renamed ones.
///
/// `origin` returns the origin of a key. Returns a warning for each key, and the old and new paths of renamed ones.
pub fn translate(
    tree: &mut Value,
    origin: impl Fn(&Path) -> String,
) -> (Vec<String>, Vec<(Path, Path)>) {
    let (mut warnings, mut moves) = (Vec::new(), Vec::new());
    for (key, replacement) in &KEYS {
        let path = Path::keys(key);
        let Some(value) = take(tree, &path.0) else {
            continue;
        };
        // Empty values have no effect in Linkerd's chart either.
        if is_empty(&value) {
            continue;
        }
        let from = origin(&path);
        match replacement {
            NoEffect(why) => warnings.push(format!("{key} ({from}) has no effect: {why}")),
            Renamed(to) => {
                let target = Path::keys(to);
                if tree.pointer(&pointer(to)).is_some() {
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
    use crate::values::{kind::Shape, schema::find};

    #[test]
    fn moved_keys_name_existing_keys_and_obsolete_keys_do_not_exist() {
        for (key, replacement) in &KEYS {
            assert!(find(key).is_none(), "{key}");
            if let Renamed(to) = replacement {
                assert!(matches!(find(to), Some(Shape::Value(_))), "{to}");
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
                "controllers (values.yaml) has no effect: one controller serves all Links: use controller.resources, controller.logLevel and controller.enableHeadlessServices, or link with --enable-headless-services",
                "localServiceMirror.federatedServiceSelector (values.yaml) is deprecated: use federation.selector",
                "localServiceMirror (values.yaml) has no effect: the controller handles local members too; see controller and federation",
                "nodeSelector (values.yaml) has no effect: controller.nodeSelector is also set",
                "enablePSP (values.yaml) has no effect: Kubernetes removed PodSecurityPolicies; the Namespace has a pod security level",
            ]
        );
        assert_eq!(moves.len(), 2);
    }
}
