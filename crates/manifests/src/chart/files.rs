//! The files of the chart that are generated.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{obsolete, readme, schema, templates};
use crate::{
    install::{CHART_TEMPLATES, CRD_PARTS, OF_EACH_GATEWAY},
    render::Template,
    values::{VERSION, Values, documented},
    yaml,
};

const HEADER: &str = "\
# All values, with their defaults. They are those of `linkerd-mc install`.
# Generated from the code: run `just chart`.
";

const HA_HEADER: &str = "\
# Values for high availability, as of `linkerd-mc install --ha`. Pass this file with --values.
# Generated from the code: run `just chart`.
";

const CRDS: &str = "\
- kind: Link
  version: v1alpha3
  name: links.multicluster.linkerd.io
  displayName: Link
  description: Names another cluster, and says how to reach it and what to mirror from it
";

/// Begins a block for each gateway, which is then in the context.
const EACH_GATEWAY: &str = "\
{{- range $gateway := $ctx.gateways }}
{{- $_ := set $ctx \"gateway\" $gateway }}
";

/// Each file by its path in the chart.
pub fn all() -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        ("Chart.yaml".to_owned(), chart()),
        ("README.md".to_owned(), readme::text()),
        ("values.yaml".to_owned(), values()),
        ("values-ha.yaml".to_owned(), high_availability()),
        ("values.schema.json".to_owned(), schema::text()),
        ("templates/_values.tpl".to_owned(), obsolete::template()),
        (
            "templates/_link-crd.tpl".to_owned(),
            templates::partials(&CRD_PARTS),
        ),
    ]);
    let mut add = |template: Template, block: Option<&str>| {
        let name = format!("templates/{}", template.0);
        files.insert(name, templates::whole(template, block));
    };
    for (template, condition) in CHART_TEMPLATES {
        let block = condition.map(|path| format!("{{{{- if $ctx.{path} }}}}\n"));
        add(template, block.as_deref());
    }
    for template in OF_EACH_GATEWAY {
        add(template, Some(EACH_GATEWAY));
    }
    files
}

fn chart() -> String {
    let chart = json!({
        "apiVersion": "v2",
        "name": "linkerd-mc",
        "description": "Links Kubernetes clusters and mirrors Services between them for Linkerd",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        // The oldest version that the tests run against.
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["linkerd", "multicluster", "service-mesh", "failover"],
        "maintainers": [{ "name": "The maintainers of linkerd-mc" }],
        "annotations": {
            "artifacthub.io/category": "networking",
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "false",
            "artifacthub.io/crds": CRDS,
        },
    });
    yaml::to_yaml(&chart).unwrap()
}

fn values() -> String {
    documented(&Values::default(), HEADER, doc, &[]).unwrap()
}

/// The description of a key, without what is true only for `install`: its flags, and that it asks the cluster.
pub fn doc(text: &'static str) -> &'static str {
    let flags = ["; also set by ", "; read from the cluster"];
    flags.into_iter().fold(text, |doc, flag| {
        doc.split_once(flag).map_or(doc, |(doc, _)| doc)
    })
}

fn high_availability() -> String {
    let mut values = Values::default();
    values.make_highly_available();
    let changed = difference(&json!(Values::default()), &json!(values));
    HA_HEADER.to_owned() + &yaml::to_yaml(&changed.unwrap()).unwrap()
}

/// The values of `after` that differ from `before`.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Some(before), Some(map)) = (before.as_object(), after.as_object()) else {
        return (before != after).then(|| after.clone());
    };
    let changed: Map<String, Value> = map
        .iter()
        .filter_map(|(key, after)| Some((key.clone(), difference(&before[key], after)?)))
        .collect();
    (!changed.is_empty()).then_some(Value::Object(changed))
}
