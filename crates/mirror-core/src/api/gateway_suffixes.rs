//! What a gateway forwards to, as in the environment of its proxy: names of Services that end with one of its suffixes.

use std::{collections::BTreeSet, fmt};

use serde_json::json;

/// Variable of a gateway's proxy that has its suffixes, separated by commas.
pub const VARIABLE: &str = "LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES";
/// Annotation of Pods whose value is a JSON list of variables for their proxy.
pub const ADDITIONAL_ENV: &str = "config.linkerd.io/proxy-additional-env";
/// A suffix that no Service has: without any suffix, the variable could be missing, and the proxy forward to everything.
const NOTHING: &str = "invalid.";

/// The suffixes of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewaySuffixes(pub BTreeSet<String>);

impl GatewaySuffixes {
    /// The suffixes in a variable.
    pub fn of_variable(value: &str) -> Self {
        let suffixes = value.split(',').map(str::trim);
        let suffixes = suffixes.filter(|suffix| !suffix.is_empty() && *suffix != NOTHING);
        Self(suffixes.map(str::to_owned).collect())
    }

    /// The suffixes in an annotation; `None` if it sets anything else, or nothing.
    pub fn of_annotation(value: &str) -> Option<Self> {
        let variables: Vec<serde_json::Value> = serde_json::from_str(value).ok()?;
        let [variable] = variables.as_slice() else {
            return None;
        };
        let is_ours = variable.as_object()?.len() == 2 && variable["name"] == VARIABLE;
        let value = variable["value"].as_str().filter(|_| is_ours)?;
        Some(Self::of_variable(value))
    }

    /// The annotation with these suffixes.
    pub fn to_annotation(&self) -> String {
        let value = if self.0.is_empty() {
            NOTHING.to_owned()
        } else {
            self.to_string()
        };
        json!([{ "name": VARIABLE, "value": value }]).to_string()
    }

    /// Whether the gateway forwards to all Services of its cluster.
    pub fn are_of_all(&self) -> bool {
        let mut suffixes = self.0.iter();
        suffixes.any(|suffix| suffix == "." || suffix.starts_with("svc."))
    }

    /// Whether the gateway forwards to a Service.
    pub fn have(&self, namespace: &str, service: &str) -> bool {
        let of_namespace = format!("{namespace}.svc.");
        let of_service = format!("{service}.{of_namespace}");
        let mut suffixes = self.0.iter();
        self.are_of_all()
            || suffixes
                .any(|suffix| suffix.starts_with(&of_namespace) || suffix.starts_with(&of_service))
    }
}

impl fmt::Display for GatewaySuffixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffixes: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&suffixes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotation_of_no_suffix_lets_nothing_through() {
        let none = GatewaySuffixes::default();
        let expected = r#"[{"name":"LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES","value":"invalid."}]"#;
        assert_eq!(none.to_annotation(), expected);
        assert_eq!(GatewaySuffixes::of_annotation(expected), Some(none));
    }

    #[test]
    fn annotation_that_sets_anything_else_is_not_ours() {
        let suffixes =
            GatewaySuffixes::of_variable("shop.svc.cluster.local.,a.b.svc.cluster.local.");
        let annotation = suffixes.to_annotation();
        assert_eq!(GatewaySuffixes::of_annotation(&annotation), Some(suffixes));
        for other in [
            "",
            "[]",
            "{}",
            r#"[{"name":"LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES"}]"#,
            r#"[{"name":"LINKERD2_PROXY_INBOUND_GATEWAY_SUFFIXES","value":"a","valueFrom":{}}]"#,
            r#"[{"name":"LINKERD2_PROXY_LOG","value":"a"}]"#,
            &annotation.replace("}]", r#"},{"name":"a","value":"b"}]"#),
        ] {
            assert_eq!(GatewaySuffixes::of_annotation(other), None, "{other}");
        }
    }

    #[test]
    fn suffix_is_of_a_namespace_of_a_service_or_of_all() {
        for (suffixes, is_all, web, api) in [
            ("", false, false, false),
            ("invalid.", false, false, false),
            ("svc.cluster.local.", true, true, true),
            (".", true, true, true),
            ("shop.svc.cluster.local.", false, true, true),
            ("web.shop.svc.cluster.local.", false, true, false),
            (
                "op.svc.cluster.local., workshop.svc.cluster.local.",
                false,
                false,
                false,
            ),
        ] {
            let suffixes = GatewaySuffixes::of_variable(suffixes);
            assert_eq!(suffixes.are_of_all(), is_all, "{suffixes}");
            assert_eq!(suffixes.have("shop", "web"), web, "{suffixes}");
            assert_eq!(suffixes.have("shop", "api"), api, "{suffixes}");
        }
    }
}
