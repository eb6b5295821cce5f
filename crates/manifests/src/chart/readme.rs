//! The README of the chart: how to install it, its values, and what becomes of those of Linkerd's chart.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::files::doc;
use crate::values::{OBSOLETE, Replacement, Values, keys};

const INTRO: &str = "\
# linkerd-mc

Links Kubernetes clusters that run [Linkerd](https://linkerd.io), and mirrors Services between them: one controller for all \
Links, a gateway, the Link CRD, permissions and admission policies. Install Linkerd first, with a trust anchor that all \
linked clusters share.

```sh no-run
kubectl create namespace linkerd-multicluster
kubectl label namespace linkerd-multicluster linkerd.io/extension=multicluster pod-security.kubernetes.io/enforce=privileged
helm install linkerd-mc . --namespace linkerd-multicluster --set controller.image.name=registry.example.com/linkerd-mc
```

With Linkerd's CNI plugin, use `restricted` in place of `privileged`. `values-ha.yaml` has values for several replicas. \
`linkerd-mc install` prints the same objects from the same values.

## Values

| Value | Default | Meaning |
| --- | --- | --- |
";

const LINKERDS: &str = "
## Values of Linkerd's chart

The other values of Linkerd's multicluster chart have the same names here. Those below are taken too, with a note of Helm:

| Value | Here |
| --- | --- |
";

/// The README as a file.
pub fn text() -> String {
    let defaults = json!(Values::default());
    let mut text = INTRO.to_owned();
    // Writing to a String cannot fail.
    for (key, _) in keys() {
        let default = match defaults.pointer(&key.pointer()) {
            None | Some(Value::Null) => "–".to_owned(),
            Some(Value::String(value)) if value.is_empty() => "–".to_owned(),
            Some(Value::String(value)) => format!("`{value}`"),
            Some(value) => format!("`{value}`"),
        };
        let _ = writeln!(
            text,
            "| `{}` | {default} | {} |",
            key.path,
            doc(key.doc).replace('|', "\\|")
        );
    }
    text += LINKERDS;
    for (path, replacement) in &OBSOLETE {
        let here = match replacement {
            Replacement::Renamed(to) => format!("`{to}`"),
            Replacement::NoEffect(why) => format!("No effect: {why}"),
        };
        let _ = writeln!(text, "| `{path}` | {here} |");
    }
    text
}
